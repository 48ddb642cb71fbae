"""Jobs and options as the command takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, Union

from elevon._elevon import InputError

#: A value of an option: ``True`` is 1, ``None`` stands for an option without a value, such as ``time_based``.
Value = Union[str, int, float, bool, None]
#: A job file: its path, its text (anything with a line end in it), or its sections.
JobInput = Union[str, "os.PathLike[str]", Mapping[str, Mapping[str, Value]]]

#: The name of a job file that is given as a text or as sections.
IN_MEMORY = "job.fio"


class Options(TypedDict, total=False):
    """What decides how I/O travels; every key is an option of ``elevon run``, whose ``--help`` says more."""

    #: A profile such as ``"nvme-datacenter"`` (the default), a model with parameters, ``"@disk.toml"``, or the path of
    #: a file or block device, which is then really read and written.
    device: str
    #: ``"none"``, ``"bfq"``, ``"mq-deadline:fifo_batch=1"`` ...
    scheduler: str
    #: The kernel whose rules are followed: ``"6.12"``.
    kernel: str
    #: Settings of the queue: ``{"nr_requests": 64}``.
    set: Mapping[str, Value]
    #: Faults of a simulated device.
    fault: Union[str, Sequence[str]]
    #: The path of a file of limits, weights and classes.
    tenants: Union[str, "os.PathLike[str]"]
    #: Options over what the job file says: ``{"iodepth": 4, "reader:bs": "64k"}``.
    job_option: Mapping[str, Value]
    #: The seed of every random choice; 1 unless given.
    seed: int
    #: The memory behind user buffers.
    buffers: str
    #: CPU time of an I/O: ``"submit=4us,complete=1.4us"``.
    cpu_cost: str
    #: The memory of a simulated machine, for a page cache: ``"4GiB"``.
    memory: str
    #: A page cache before a real device: ``"256MiB"``.
    cache: str
    #: A folder from which job files may include.
    include_dir: Union[str, "os.PathLike[str]"]


def word(value: Value) -> str:
    """Returns a value as the command takes it."""
    is_bool = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"
    return str(int(bool(value))) if is_bool else str(value)


def words(options: Mapping[str, object]) -> list[str]:
    """Returns options as words of a command line."""
    unknown = [key for key in options if key not in Options.__annotations__]
    if unknown:
        raise TypeError(f"no such option: {', '.join(unknown)}; there are {', '.join(Options.__annotations__)}")
    found: list[str] = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        for text in _texts(value):
            # In one word, so that a value that begins with a dash is no option.
            found.append(f"{flag}={text}")
    return found


def _texts(value: object) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [key if given is None else f"{key}={word(given)}" for key, given in value.items()]
    if isinstance(value, os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [str(one) for one in value]
    return [word(value)]  # type: ignore[arg-type]


def read(job: JobInput) -> tuple[str, dict[str, str]]:
    """Returns the name of a job file, and the files that are in memory."""
    if isinstance(job, Mapping):
        return IN_MEMORY, {IN_MEMORY: text_of(job)}
    if isinstance(job, str) and "\n" in job:
        return IN_MEMORY, {IN_MEMORY: job}
    return os.fspath(job), {}


def text_of(sections: Mapping[str, Mapping[str, Value]]) -> str:
    """Returns sections as the text of a job file: each option is one line of its section."""
    lines: list[str] = []
    for name, options in sections.items():
        if not isinstance(options, Mapping):
            raise TypeError(f'job: {name!r} is {options!r}; must be a section with options, as {{"reader": {{"iodepth": 3}}}}')
        lines.append(f"[{_part(name, ']', 'the name of a section')}]")
        for key, value in options.items():
            key = _part(key, "=", f"{name}: the name of an option")
            if key.lstrip().startswith(("[", "#", ";")):
                raise InputError(f"job: {name}: the name of an option is {key!r}; must not begin with [, # or ;")
            lines.append(key if value is None else f"{key}={_part(word(value), '', f'{name}: {key}')}")
    return "\n".join(lines) + "\n"


def _part(text: object, excluded: str, what: str) -> str:
    """Returns a part of a line that would not be another line, or another part."""
    if not isinstance(text, str):
        raise TypeError(f"job: {what} is {text!r}; must be a text")
    for found, name in [("\n", "a line end"), ("\r", "a line end"), *((one, one) for one in excluded)]:
        if found in text:
            raise InputError(f"job: {what} is {text!r}; must be without {name}")
    return text
