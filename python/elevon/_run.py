"""One run and its result."""

from __future__ import annotations

import json as _json
import warnings as _warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from elevon import _elevon
from elevon._jobs import JobInput, Options, read, words

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray
    from typing_extensions import Unpack


class _Percentiles(dict[float, int]):
    """Latencies by percentage."""

    def __missing__(self, at: object) -> int:
        there = ", ".join(f"{one:g}" for one in self) or "none"
        raise KeyError(f"{at}; there are {there}; the option percentile_list of a job has others")


@dataclass(frozen=True)
class Latency:
    """A distribution of latencies, in nanoseconds."""

    count: int
    min_ns: int
    max_ns: int
    mean_ns: float
    stddev_ns: float
    #: By percentage: ``percentiles[99.0]``. Empty where the job reports none.
    percentiles: Mapping[float, int] = field(repr=False)

    @classmethod
    def _of(cls, json: Mapping[str, Any]) -> Latency:
        percentiles = _Percentiles({float(key): value for key, value in json.get("percentile", {}).items()})
        return cls(json["N"], json["min"], json["max"], json["mean"], json["stddev"], percentiles)


@dataclass(frozen=True)
class Direction:
    """What a job read, wrote or trimmed."""

    ios: int
    bytes: int
    iops: float
    bytes_per_second: int
    #: From the request of the job to its submission, from there to its completion, and both.
    slat: Latency = field(repr=False)
    clat: Latency = field(repr=False)
    lat: Latency = field(repr=False)

    @classmethod
    def _of(cls, json: Mapping[str, Any]) -> Direction:
        slat, clat, lat = (Latency._of(json[key]) for key in ("slat_ns", "clat_ns", "lat_ns"))
        return cls(json["total_ios"], json["io_bytes"], json["iops"], json["bw_bytes"], slat, clat, lat)


@dataclass(frozen=True)
class Job:
    """The result of a job, or of the jobs of a reporting group."""

    name: str
    #: The errno of the I/O error that ended it; 0 if none did.
    error: int
    runtime_ms: int
    read: Direction
    write: Direction
    trim: Direction
    #: What the command's report says of it, with all figures of fio's schema.
    json: Mapping[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, json: Mapping[str, Any]) -> Job:
        read, write, trim = (Direction._of(json[key]) for key in ("read", "write", "trim"))
        return cls(json["jobname"], json["error"], json["job_runtime"], read, write, trim, json)


@dataclass(frozen=True)
class Series:
    """A run over time: an array for each figure, a value for each interval."""

    #: End of the interval, in nanoseconds from the start.
    at_ns: NDArray[np.uint64]
    read_bytes: NDArray[np.uint64]
    write_bytes: NDArray[np.uint64]
    trim_bytes: NDArray[np.uint64]
    read_ios: NDArray[np.uint64]
    write_ios: NDArray[np.uint64]
    trim_ios: NDArray[np.uint64]
    #: Mean number of requests in flight.
    in_flight: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.at_ns)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays by name; nothing is copied."""
        return {of.name: getattr(self, of.name) for of in fields(self)}

    def to_pandas(self) -> pd.DataFrame:
        """Returns a frame of pandas."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> pl.DataFrame:
        """Returns a frame of polars."""
        import polars

        return polars.DataFrame(self.columns())


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    jobs: tuple[Job, ...]
    #: The run over time.
    series: Series = field(repr=False)
    #: Share of the time in which a request was in flight, from 0 to 1.
    utilisation: float
    #: Mean number of requests in flight.
    queue_depth: float
    elapsed_ns: int
    #: True if an I/O error ended a job, or the device stopped answering.
    failed: bool
    warnings: tuple[str, ...]
    #: A command line that repeats the run.
    command: str
    #: The report of ``elevon run --output-format json+``: fio's schema with one more object, ``elevon``.
    json: Mapping[str, Any] = field(repr=False)

    def __getitem__(self, name: str) -> Job:
        """Returns the first job of a name."""
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(f"{name}; there are {', '.join(job.name for job in self.jobs)}")

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def columns(self) -> dict[str, list[Any]]:
        """Returns a table with a row for each direction that a job used."""
        rows = [
            {
                "job": job.name,
                "direction": name,
                "ios": of.ios,
                "iops": of.iops,
                "bytes_per_second": of.bytes_per_second,
                "lat_mean_ns": of.lat.mean_ns,
                "lat_max_ns": of.lat.max_ns,
                **{f"clat_p{at:g}_ns": value for at, value in of.clat.percentiles.items()},
            }
            for job in self.jobs
            for name, of in (("read", job.read), ("write", job.write), ("trim", job.trim))
            if of.ios
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_pandas(self) -> pd.DataFrame:
        """Returns a frame of pandas with a row for each direction that a job used."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> pl.DataFrame:
        """Returns a frame of polars with a row for each direction that a job used."""
        import polars

        return polars.DataFrame(self.columns())


def run(job: JobInput, **options: Unpack[Options]) -> Run:
    """Runs a job and returns its result.

    ``job`` is the path of a fio job file, its text, or its sections::

        elevon.run("jobs/glance.fio", scheduler="bfq")
        elevon.run({"a": {"rw": "randread", "direct": 1, "number_ios": 1000}}, device="hdd-7200", set={"nr_requests": 64})

    :class:`Options` lists what may follow.

    :raises InputError: the job or an option is wrong; the message has a line for each error, with its place.
    :raises MachineError: a real device, or a file, failed.
    :raises KeyboardInterrupt: Ctrl-C; the run has ended.
    """
    name, texts = read(job)
    report, series, warnings, failed = _elevon.run([name], words(options), texts)
    for warning in warnings:
        _warnings.warn(warning, stacklevel=2)
    json = _json.loads(report)
    ours = json["elevon"]
    return Run(
        jobs=tuple(Job._of(of) for of in json["jobs"]),
        series=Series(**series),
        utilisation=ours["utilisation"]["exact"] / 100,
        queue_depth=ours["queue_depth_mean"],
        elapsed_ns=ours["elapsed_ns"],
        failed=failed,
        warnings=tuple(warnings),
        command=ours["command"],
        json=json,
    )
