"""Many runs and their results."""

from __future__ import annotations

import contextlib
import json as _json
import operator
import os
import warnings as _warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from elevon import _elevon
from elevon._elevon import InputError
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
        axes = [(key, _values(key, values)) for key, values in (over or {}).items()]
        text = None if seeds is None else _seeds(seeds)
        # A list of one seed, which would be taken for a number of seeds.
        if isinstance(seeds, Iterable) and text is not None and "," not in text:
            options["seed"], text = int(text), None
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
        outcomes: list[str] | None = None,
    ) -> list[str]:
        """Does runs (all, unless given) on all cores, and returns their outcomes, each a line of JSON.

        ``outcomes`` is the list that is returned. Each outcome is added to it as its run ends, so that it has those of
        runs that were done before Ctrl-C; runs that it has are not repeated. ``progress`` is called with the number of
        runs that are done and that of all.
        """
        if threads is not None and not 1 <= _whole("threads", threads) <= 1024:
            raise InputError(f"threads: {threads}; must be from 1 to 1024, or None for one on each core")
        kept = [] if outcomes is None else outcomes
        there = {_json.loads(outcome).get("run") for outcome in kept}
        wanted = list(range(len(self)) if runs is None else runs)
        numbers = [run for run in wanted if run not in there]
        before = len(wanted) - len(numbers)
        done = 0

        def took(_run: int, outcome: str) -> None:
            nonlocal done
            kept.append(outcome)
            done += 1
            if progress is not None:
                progress(before + done, len(wanted))

        self._sweep.run(numbers, threads, took)
        return kept

    def results(self, outcomes: Iterable[str]) -> Results:
        """Puts the outcomes of all runs together, whatever their order: the bytes are those of one machine."""
        found = self._sweep.results(list(outcomes))
        return Results(found.summary, found.columns, _json.loads(found.json), found.files)


def _values(key: str, values: object) -> str | list[str]:
    """Returns the values of an axis as the command takes them."""
    if isinstance(values, str):
        return values
    if isinstance(values, Iterable) and not isinstance(values, Mapping):
        return [word(value) for value in values]
    raise TypeError(f'over: {key} is {values!r}; must be a text such as "1..64:*2", or a list of values such as [1, 8]')


def _seeds(seeds: object) -> str:
    """Returns seeds as the command takes them."""
    if isinstance(seeds, Iterable) and not isinstance(seeds, (str, Mapping)):
        return ",".join(str(_whole("seeds", seed)) for seed in seeds)
    return str(_whole("seeds", seeds))


def _whole(what: str, value: object) -> int:
    """Returns a whole number, of Python or of numpy."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        must = "a number of seeds such as 10, or a list of them such as [3, 5]" if what == "seeds" else "a whole number"
        raise TypeError(f"{what}: {value!r}; must be {must}") from None


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
        """Writes the files into a folder: a new one, one of a sweep, or one without files of these names.

        A file takes the place of an older one when all are written.
        """
        os.makedirs(folder, exist_ok=True)
        others = os.listdir(folder)
        there = [name for name in self.files if name in others]
        is_journal = any(name.startswith("runs") and name.endswith(".jsonl") for name in others)
        if there and len(there) < len(self.files) and not is_journal:
            raise InputError(f"{os.fspath(folder)}: has a file {there[0]} that is not of a sweep; name another folder")
        new = {name: os.path.join(folder, f".{name}.{os.getpid()}") for name in self.files}
        try:
            for name, content in self.files.items():
                with open(new[name], "wb") as file:
                    file.write(content)
            for name, path in new.items():
                os.replace(path, os.path.join(folder, name))
        finally:
            for path in new.values():
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)

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
    :raises KeyboardInterrupt: Ctrl-C; the runs that were done are lost. :meth:`Sweep.do` keeps them.
    """
    whole = Sweep(job, over, seeds=seeds, sample=sample, compare=compare, **options)
    whole.check(stacklevel=2)
    return whole.results(whole.do(threads=threads, progress=progress))
