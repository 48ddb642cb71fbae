from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

__version__: str

class InputError(ValueError):
    """The job, an option or an axis is wrong; a line for each error."""

class MachineError(RuntimeError):
    """The machine failed to do something."""

def run(
    jobs: list[str], options: list[str], texts: dict[str, str]
) -> tuple[str, dict[str, NDArray[Any]], list[str], bool]: ...

class Sweep:
    def __init__(
        self,
        job: str,
        options: list[str],
        over: list[tuple[str, str | list[str]]],
        sample: str | None,
        seeds: str | None,
        compare: str | None,
        texts: dict[str, str],
    ) -> None: ...
    def __len__(self) -> int: ...
    def check(self) -> list[str]: ...
    def run(self, numbers: list[int], threads: int | None, took: Callable[[int, str], None]) -> None: ...
    def results(self, outcomes: list[str]) -> SweepResults: ...

class SweepResults:
    @property
    def files(self) -> dict[str, bytes]: ...
    @property
    def columns(self) -> dict[str, Any]: ...
    @property
    def summary(self) -> str: ...
    @property
    def json(self) -> str: ...
