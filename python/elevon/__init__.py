"""The Linux block layer as a user-space system, as a laboratory.

>>> import elevon
>>> job = {"reader": {"ioengine": "libaio", "direct": 1, "rw": "randread", "iodepth": 8, "number_ios": 1000}}
>>> run = elevon.run(job, device="hdd-7200", scheduler="mq-deadline")
>>> run["reader"].read.ios
1000

:func:`run` does what ``elevon run`` does, :func:`sweep` what ``elevon sweep`` does: the same checks, the same
figures, the same bytes for the same seed. Simulated runs take no root and touch no disk. While one works, other
threads of Python go on, and Ctrl-C ends it.
"""

from elevon._elevon import InputError, MachineError, __version__
from elevon._jobs import JobInput, Options
from elevon._run import Direction, Job, Latency, Run, Series, run
from elevon._sweep import Results, Sweep, sweep

__all__ = [
    "Direction",
    "InputError",
    "Job",
    "JobInput",
    "Latency",
    "MachineError",
    "Options",
    "Results",
    "Run",
    "Series",
    "Sweep",
    "__version__",
    "run",
    "sweep",
]
