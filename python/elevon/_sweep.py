"""Many runs and their results."""

from __future__ import annotations

import json as _json
import os
import warnings as _warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from elevon import _elevon
from elevon._jobs import JobInput, Options, Value, read, word, words

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from typing_extensions import Unpack

#: What varies: options of the stack, settings of the queue and options of jobs, each with a text as ``--over`` takes it
#: (``"1..256:*2"``) or a sequence of values.
Over = Mapping[str, Union[str, Sequence[Value]]]
#: A number of seeds, or the seeds.
Seeds = Union[int, Sequence[int]]


class Sweep:
    """A sweep whose runs are numbered from 0, and can be done in any order and anywhere.

    It can be pickled. A text or sections as a job travel with it; the path of a job file is read where a run is done.
    """

    def __init__(
        self,
        job: JobInput,
        over: Over | None = None,
        *,
        seeds: Seeds | None = None,
        sample: str | None = None,
        compare: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        axes = [
            (key, values if isinstance(values, str) else [word(value) for value in values])
            for key, values in (over or {}).items()
        ]
        if seeds is not None and not isinstance(seeds, int):
            # A list of one seed has a comma, too: otherwise it is a number of seeds.
            text: str | None = ",".join(str(seed) for seed in seeds)
            if len(seeds) == 1:
                options["seed"], text = seeds[0], None
        else:
            text = None if seeds is None else str(seeds)
        name, texts = read(job)
        self._arguments = (name, words(options), axes, sample, text, compare, texts)
        self._sweep = _elevon.Sweep(*self._arguments)

    def __reduce__(self) -> tuple[Callable[..., Sweep], tuple[Any, ...]]:
        return _unpickled, self._arguments

    def __len__(self) -> int:
        """Returns the number of runs."""
        return len(self._sweep)

    def check(self, *, stacklevel: int = 1) -> None:
        """Checks the plan of every point, without a run. Warnings name the caller, or one of ``stacklevel`` above."""
        for warning in self._sweep.check():
            _warnings.warn(warning, stacklevel=stacklevel + 1)

    def do(
        self,
        runs: Iterable[int] | None = None,
        *,
        threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[str]:
        """Does runs (all, unless given) on all cores, and returns their outcomes, each a line of JSON.

        ``progress`` is called with the number of runs that are done and that of all.
        """
        numbers = list(range(len(self)) if runs is None else runs)
        outcomes: list[str] = []

        def took(_run: int, outcome: str) -> None:
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(numbers))

        self._sweep.run(numbers, threads, took)
        return outcomes

    def results(self, outcomes: Iterable[str]) -> Results:
        """Puts the outcomes of all runs together, whatever their order: the bytes are those of one machine."""
        found = self._sweep.results(list(outcomes))
        return Results(found.summary, found.columns, _json.loads(found.json), found.files)


def _unpickled(*arguments: Any) -> Sweep:
    sweep = Sweep.__new__(Sweep)
    sweep._arguments = arguments
    sweep._sweep = _elevon.Sweep(*arguments)
    return sweep


@dataclass(frozen=True)
class Results:
    """The results of a sweep."""

    #: Means with 95 % intervals, as text.
    summary: str
    #: The table: an array or a list for each column, a row for each job of each run. Names end in their units.
    columns: Mapping[str, Any] = field(repr=False)
    #: The mean of every figure over the seeds at each point, with half of its 95 % interval.
    json: Mapping[str, Any] = field(repr=False)
    #: The files that ``elevon sweep`` writes: ``results.csv``, ``results.jsonl``, ``results.parquet``,
    #: ``summary.txt`` and ``index.html``, a page with curves and heat maps.
    files: Mapping[str, bytes] = field(repr=False)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the files into a folder."""
        os.makedirs(folder, exist_ok=True)
        for name, content in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)

    def to_pandas(self) -> pd.DataFrame:
        """Returns the table as a frame of pandas."""
        import pandas

        return pandas.DataFrame(dict(self.columns))

    def to_polars(self) -> pl.DataFrame:
        """Returns the table as a frame of polars."""
        import polars

        return polars.DataFrame(dict(self.columns))


def sweep(
    job: JobInput,
    over: Over | None = None,
    *,
    seeds: Seeds | None = None,
    sample: str | None = None,
    compare: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[Options],
) -> Results:
    """Runs a job under every combination of values and seeds, on all cores::

        results = elevon.sweep("reader.fio", {"iodepth": "1..64:*2", "scheduler": ["none", "bfq"]}, seeds=10,
                               compare="scheduler=none", device="sata-ssd-860evo")
        results.to_pandas().groupby(["scheduler", "iodepth"])["iops"].mean()

    ``sample`` takes a part of the points (``"latin:200"``, ``"sobol:200"``); ``compare`` adds paired differences to the
    summary.

    :raises InputError: the job, an option or an axis is wrong.
    :raises KeyboardInterrupt: Ctrl-C; the runs that were done are lost. :class:`Sweep` keeps them.
    """
    whole = Sweep(job, over, seeds=seeds, sample=sample, compare=compare, **options)
    whole.check(stacklevel=2)
    return whole.results(whole.do(threads=threads, progress=progress))
