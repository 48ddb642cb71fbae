"""elevon.run."""

import dataclasses
import json
import shlex
import subprocess
import sys
import threading

import numpy
import pytest

import elevon


def test_a_run_has_typed_figures(reader):
    run = elevon.run({"reader": reader}, device="hdd-7200", scheduler="mq-deadline", set={"nr_requests": 64})
    job = run["reader"]
    assert (job.read.ios, job.write.ios, job.error, run.failed) == (500, 0, 0, False)
    assert job.read.bytes == 500 * 4096
    assert job.read.clat.min_ns <= job.read.clat.percentiles[50.0] <= job.read.clat.percentiles[99.0]
    assert 0.9 < run.utilisation <= 1 and 7 < run.queue_depth <= 8
    assert job.json["read"]["total_ios"] == 500 and run.json["elevon"]["config"]["nr_requests"] == "64"
    assert "nr_requests=64" in run.command and run.warnings == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.name = "another"
    with pytest.raises(KeyError, match="there are reader"):
        run["writer"]


def test_the_same_seed_gives_the_same_bytes_as_the_command(reader, tmp_path, root):
    """The command is tried where it was built; its report and ours are the same text but for the file's name."""
    text = "[reader]\n" + "".join(f"{key}={value}\n" for key, value in reader.items())
    again = [elevon.run(text, device="hdd-7200", seed=7).json for _ in range(2)]
    assert again[0] == again[1]
    assert elevon.run(text, device="hdd-7200", seed=8).json != again[0]
    command = root / "target" / "debug" / "elevon"
    if not command.exists():
        pytest.skip("target/debug/elevon is not built")
    (tmp_path / "job.fio").write_text(text)
    words = [command, "run", "job.fio", "--device=hdd-7200", "--seed=7", "--output-format=json+"]
    report = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert json.loads(report) == again[0]


def test_a_job_is_a_path_a_text_or_sections(reader, tmp_path):
    text = "[reader]\n" + "".join(f"{key}={value}\n" for key, value in reader.items())
    path = tmp_path / "reader.fio"
    path.write_text(text)
    figures = [elevon.run(job, device="hdd-7200")["reader"].read for job in (path, str(path), text, {"reader": reader})]
    assert figures[1:] == figures[:-1]
    bare = {"global": {"time_based": None, "runtime": 1}, "reader": {**reader, "number_ios": 10**9}}
    assert elevon.run(bare, device="hdd-7200").elapsed_ns >= 10**9


def test_options_are_words_of_the_command(reader):
    options = {"time_based": None, "runtime": 1, "direct": numpy.bool_(True)}
    run = elevon.run({"reader": reader}, job_option=options, fault=(fault for fault in ["error:sectors=0-7"]))
    words = shlex.split(run.command)
    for option in ["time_based", "runtime=1", "direct=1"]:
        assert ["--job-option", option] in [words[at : at + 2] for at in range(len(words))]
    assert "error:sectors=0-7" in words


def test_a_series_is_arrays_that_were_not_copied(reader):
    series = elevon.run({"reader": reader}, device="hdd-7200").series
    assert series.read_ios.sum() == 500 and series.write_bytes.sum() == 0
    assert series.at_ns.dtype == numpy.uint64 and series.in_flight.dtype == numpy.float64
    assert not series.at_ns.flags.owndata, "the memory is that of the run"
    assert series.columns()["at_ns"] is series.at_ns
    assert len(series) == len(series.in_flight) > 1


def test_frames(reader):
    writer = {**reader, "rw": "randwrite", "number_ios": 100}
    run = elevon.run({"reader": reader, "writer": writer}, device="hdd-7200")
    pandas, polars = run.to_pandas(), run.to_polars()
    assert list(pandas["job"]) == list(polars["job"]) == ["reader", "writer"]
    assert list(pandas["direction"]) == ["read", "write"]
    assert pandas["clat_p99_ns"][0] == run["reader"].read.clat.percentiles[99.0]
    assert len(run.series.to_pandas()) == len(run.series.to_polars()) == len(run.series)


def test_what_is_wrong_is_said(reader):
    with pytest.raises(elevon.InputError, match=r"job.fio:2:4: bs: unknown unit `q`"):
        elevon.run("[a]\nbs=4q\n")
    with pytest.raises(ValueError, match="did you mean `hdd-7200`"):
        elevon.run({"reader": reader}, device="hdd-720")
    with pytest.raises(elevon.InputError, match="nofile.fio"):
        elevon.run("nofile.fio")
    with pytest.raises(TypeError, match="schedul; there are device, scheduler"):
        elevon.run({"reader": reader}, schedul="bfq")
    with pytest.warns(UserWarning, match="direct"):
        elevon.run({"reader": {**reader, "direct": 0}}, device="hdd-7200")


def test_a_section_is_no_more_than_it_says(reader):
    for job, part in [
        ({"reader": {"bs": "4k\n[other]\nrw=write"}}, "reader: bs is .*must be without a line end"),
        ({"a]\n[b": reader}, "the name of a section is .*must be without a line end"),
        ({"a]b": reader}, "the name of a section is .*must be without ]"),
        ({"reader": {"bs=4k": None}}, "the name of an option is .*must be without ="),
        ({"reader": {"[b]": None}}, "must not begin with"),
    ]:
        with pytest.raises(elevon.InputError, match=part):
            elevon.run(job)
    for job in [{"iodepth": 3}, {3: reader}, {"reader": {3: 4}}]:
        with pytest.raises(TypeError, match="job: .*must be a"):
            elevon.run(job)


def test_a_percentile_that_is_not_there_says_which_are(reader):
    percentiles = elevon.run({"reader": reader}, device="hdd-7200")["reader"].read.clat.percentiles
    with pytest.raises(KeyError, match="98.0; there are 1, 5, 10, .*percentile_list"):
        percentiles[98.0]


def test_a_bad_option_is_told_as_it_was_given(reader):
    with pytest.raises(elevon.InputError, match="--seed") as error:
        elevon.run({"reader": reader}, seed=-1)
    assert "--vs" not in str(error.value)


def test_a_job_that_fails_says_so(reader):
    with pytest.warns(UserWarning, match="ended by an I/O error"):
        run = elevon.run({"reader": reader}, device="hdd-7200", fault="error:ppm=100000,status=medium")
    assert run.failed and run["reader"].error == 61, run["reader"].error


def test_a_real_file_is_read(reader, tmp_path):
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(1 << 20))
    run = elevon.run({"reader": {**reader, "size": "1m"}}, device=str(disk))
    assert run["reader"].read.ios == 256 and not run.failed
    assert not run.json["elevon"]["device"]["simulated"]


def test_other_threads_go_on_while_a_run_works(reader):
    ticks, over = [0], threading.Event()

    def count():
        while not over.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    elevon.run({"reader": {**reader, "number_ios": 200_000}}, device="null:")
    over.set()
    thread.join()
    assert ticks[0] > 10_000


SCRIPT = """
import elevon, signal, sys, threading

main = threading.main_thread().ident


def interrupt():
    # Until the main thread is in the run, and not in what prepares it.
    while sys._current_frames()[main].f_code is not elevon.run.__code__:
        pass
    signal.raise_signal(signal.SIGINT)


job = {"reader": {"ioengine": "libaio", "direct": 1, "rw": "randread", "iodepth": 8, "runtime": 100000, "time_based": None}}
threading.Thread(target=interrupt).start()
try:
    elevon.run(job, device="null:")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_run():
    out = subprocess.run([sys.executable, "-c", SCRIPT], timeout=60, capture_output=True, text=True)
    assert (out.stdout, out.returncode) == ("interrupted\n", 0), out.stderr
