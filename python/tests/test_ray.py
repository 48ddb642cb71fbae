"""elevon.ray, on a real cluster of this machine."""

import os
import pathlib
import signal

import pytest

import elevon

ray = pytest.importorskip("ray")
OVER = {"iodepth": "1..8:*2", "scheduler": ["none", "bfq"]}


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def workers() -> list[int]:
    """Returns the processes that do runs now."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(b"ray::_do"):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def test_a_cluster_that_loses_workers_gives_the_bytes_of_one_machine(cluster, reader):
    import elevon.ray

    job = {"reader": {**reader, "number_ios": 20_000}}
    killed, last = [], []

    def progress(done, of):
        last.append((done, of))
        if len(killed) < 3 and (busy := workers()):
            os.kill(busy[0], signal.SIGKILL)
            killed.append(busy[0])

    results = elevon.ray.sweep(job, OVER, seeds=8, device="hdd-7200", batch=2, progress=progress)
    assert killed, "no worker was found at work"
    assert last[-1] == (64, 64)
    assert results.files == elevon.sweep(job, OVER, seeds=8, device="hdd-7200").files


def test_what_is_wrong_is_said_before_anything_runs(cluster, reader):
    import elevon.ray

    with pytest.raises(elevon.InputError, match="scheduler=bqf"):
        elevon.ray.sweep({"reader": reader}, {"scheduler": ["none", "bqf"]})
