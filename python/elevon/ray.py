"""Sweeps on a cluster of Ray.

>>> import ray, elevon.ray
>>> ray.init()                                                                                  # doctest: +SKIP
>>> results = elevon.ray.sweep("reader.fio", {"iodepth": "1..64:*2"}, seeds=100)                 # doctest: +SKIP

The results are byte for byte those of one machine, whichever worker did which run and however often one was lost: every
run is determined by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ray

from elevon._jobs import JobInput, Options
from elevon._sweep import Over, Results, Seeds, Sweep

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Runs of a task, unless given: few enough for a lost task to cost little.
BATCH = 8


def sweep(
    job: JobInput,
    over: Over | None = None,
    *,
    seeds: Seeds | None = None,
    sample: str | None = None,
    compare: str | None = None,
    batch: int = BATCH,
    retries: int = -1,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[Options],
) -> Results:
    """Does what :func:`elevon.sweep` does, on the cluster that ``ray.init`` connected to.

    A task does ``batch`` runs on one CPU. A task whose worker dies is done again elsewhere, ``retries`` times (without
    end, unless given). The path of a job file must be one on every machine; a text or sections travel by themselves.
    """
    whole = Sweep(job, over, seeds=seeds, sample=sample, compare=compare, **options)
    whole.check(stacklevel=2)
    task = ray.remote(num_cpus=1, max_retries=retries)(_do)
    shared = ray.put(whole)
    runs = range(len(whole))
    pending = [task.remote(shared, list(runs[at : at + batch])) for at in runs[::batch]]
    outcomes: list[str] = []
    while pending:
        done, pending = ray.wait(pending)
        for found in ray.get(done):
            outcomes.extend(found)
        if progress is not None:
            progress(len(outcomes), len(whole))
    return whole.results(outcomes)


def _do(sweep: Sweep, runs: list[int]) -> list[str]:
    return sweep.do(runs, threads=1)
