"""elevon.sweep."""

import pickle
import subprocess
import sys

import numpy
import pytest

import elevon

OVER = {"iodepth": "1..4:*2", "scheduler": ["none", "mq-deadline:fifo_batch=1,front_merges=0"]}


def a_sweep(reader, **options):
    return elevon.sweep({"reader": reader}, OVER, seeds=2, device="hdd-7200", **options)


def test_a_sweep_is_a_table(reader):
    seen = []
    results = a_sweep(reader, compare="scheduler=none", progress=lambda done, of: seen.append((done, of)))
    assert seen == [(done, 12) for done in range(1, 13)]
    frame = results.to_pandas()
    assert list(frame.columns[:5]) == ["run", "iodepth", "scheduler", "seed", "job"]
    assert len(frame) == len(results.to_polars()) == 12
    assert frame["iops"].dtype == numpy.float64 and frame["ios"].dtype == numpy.uint64
    assert frame["lat_p99_ns"].dtype == numpy.uint64 and (frame["ios"] == 500).all()
    assert set(frame["scheduler"]) == set(OVER["scheduler"])
    assert "Against scheduler=none" in results.summary
    assert results.json["points"][0]["figures"]["iops"]["samples"] == 2


def test_the_files_are_those_of_the_command(reader, tmp_path, root):
    command = root / "target" / "debug" / "elevon"
    if not command.exists():
        pytest.skip("target/debug/elevon is not built")
    text = "[reader]\n" + "".join(f"{key}={value}\n" for key, value in reader.items())
    (tmp_path / "job.fio").write_text(text)
    words = [command, "sweep", "job.fio", "--over=iodepth=1..4:*2", "--over=scheduler=none,bfq", "--seeds=2"]
    subprocess.run([*words, "--device=hdd-7200", "-o", "theirs"], cwd=tmp_path, check=True, capture_output=True)
    over = {"iodepth": "1..4:*2", "scheduler": ["none", "bfq"]}
    elevon.sweep(text, over, seeds=2, device="hdd-7200").save(tmp_path / "ours")
    names = ["results.csv", "results.jsonl", "results.parquet", "summary.txt", "index.html"]
    assert sorted(file.name for file in (tmp_path / "ours").iterdir()) == sorted(names)
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name


def test_runs_done_anywhere_in_any_order_give_the_same_bytes(reader):
    whole = elevon.Sweep({"reader": reader}, OVER, seeds=2, device="hdd-7200")
    elsewhere = pickle.loads(pickle.dumps(whole))
    outcomes = elsewhere.do(range(11, 5, -1)) + whole.do([0, 3, 1, 2], threads=1) + whole.do([5, 4])
    assert whole.results(outcomes).files == a_sweep(reader).files
    with pytest.raises(elevon.InputError, match="1"):
        whole.results(outcomes[:-1])
    with pytest.raises(elevon.InputError, match="run 12: there are 12"):
        whole.do([12])


def test_a_folder_of_others_is_refused(reader, tmp_path):
    results = a_sweep(reader)
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(elevon.InputError, match="has a file results.csv that is not of a sweep"):
        results.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]
    assert (tmp_path / "results.csv").read_text() == "mine"
    (tmp_path / "results.csv").unlink()
    for _ in range(2):
        results.save(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == dict(results.files)


def test_outcomes_outlive_an_interrupt(reader):
    whole = elevon.Sweep({"reader": reader}, OVER, seeds=2, device="hdd-7200")
    outcomes, seen = [], []

    def interrupt(done, of):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole.do(outcomes=outcomes, threads=1, progress=interrupt)
    assert len(outcomes) == 3
    assert whole.do(outcomes=outcomes, progress=lambda done, of: seen.append((done, of))) is outcomes
    assert seen == [(done, 12) for done in range(4, 13)], "what was done is not repeated"
    assert whole.results(outcomes).files == a_sweep(reader).files


def test_seeds_are_a_number_or_a_list(reader):
    def seeds(given):
        return list(elevon.sweep({"reader": reader}, {"iodepth": [1]}, seeds=given, device="hdd-7200").columns["seed"])

    assert (seeds(3), seeds([5, 9]), seeds([7]), seeds(None)) == ([1, 2, 3], [5, 9], [7], [1])
    assert seeds(numpy.int64(2)) == [1, 2] and seeds(numpy.array([4])) == [4]


def test_what_is_wrong_is_said(reader):
    with pytest.raises(elevon.InputError, match="iodepht"):
        elevon.sweep({"reader": reader}, {"iodepht": [1, 2]})
    with pytest.raises(elevon.InputError, match="scheduler=bqf"):
        elevon.sweep({"reader": reader}, {"scheduler": ["none", "bqf"]})
    for options in [{"seeds": 2.5}, {"seeds": [1, 2.5]}, {"seeds": "3"}]:
        with pytest.raises(TypeError, match="seeds: .*; must be a number of seeds such as 10, or a list"):
            elevon.sweep({"reader": reader}, {"iodepth": [1, 2]}, **options)
    with pytest.raises(TypeError, match="over: iodepth is 3; must be a text such as"):
        elevon.sweep({"reader": reader}, {"iodepth": 3})
    with pytest.raises(elevon.InputError, match="threads: -1; must be from 1 to 1024"):
        elevon.sweep({"reader": reader}, {"iodepth": [1, 2]}, threads=-1)
    with pytest.raises(TypeError, match="threads: 1.5; must be a whole number"):
        elevon.sweep({"reader": reader}, {"iodepth": [1, 2]}, threads=1.5)
    with pytest.raises(TypeError, match="no such option: schedul"):
        elevon.sweep({"reader": reader}, {"iodepth": [1, 2]}, schedul="bfq")


def test_an_exception_of_progress_ends_the_sweep(reader):
    class Enough(Exception):
        pass

    def progress(done, of):
        raise Enough

    with pytest.raises(Enough):
        a_sweep({**reader, "number_ios": 20_000}, progress=progress)


SCRIPT = """
import elevon, os, signal
job = {"reader": {"ioengine": "libaio", "direct": 1, "rw": "randread", "number_ios": 10000}}
try:
    elevon.sweep(job, seeds=100000, device="null:", progress=lambda done, of: os.kill(os.getpid(), signal.SIGINT))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_sweep():
    out = subprocess.run([sys.executable, "-c", SCRIPT], timeout=60, capture_output=True, text=True)
    assert (out.stdout, out.returncode) == ("interrupted\n", 0), out.stderr
