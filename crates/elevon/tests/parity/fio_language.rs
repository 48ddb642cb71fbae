//! Options that shape what a job does, on the same file by fio and by this command: the order of
//! I/Os, the bytes that are written, and shares. In simulation, what fio's manual says of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::Bench;
use serde_json::Value;

const FILE: u64 = 1 << 20;

/// fio's run of a job file and ours, each on a new file of zeroes.
struct Both {
    bench: Bench,
    /// The JSON of fio and ours; no report of fio's if it is not installed.
    reports: [Option<Value>; 2],
    /// The files after the run.
    files: [Option<Vec<u8>>; 2],
    /// The lines of the latency log of the first job: direction, bytes and so on, without time and
    /// latency.
    ios: [Option<Vec<String>>; 2],
}

/// Runs a job file; `filename=file.img` is the device.
fn run_both(job: &str) -> Both {
    let bench = Bench::new();
    bench.file("job.fio", job);
    let (mut reports, mut files, mut ios) = ([None, None], [None, None], [None, None]);
    let ours = Command::new(env!("CARGO_BIN_EXE_elevon"));
    for (at, command) in [elevon_testkit::tool("fio"), Some(ours)].into_iter().enumerate() {
        let Some(mut command) = command else { continue };
        if at == 1 {
            command.args(["run", "--device", "./file.img"]);
        }
        bench.file("file.img", vec![0; FILE as usize]);
        command.current_dir(bench.path("")).args(["--output-format=json", "job.fio"]);
        let output = command.output().expect("the command ran");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let json = text.find('{').map_or("", |from| &text[from..]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        reports[at] = Some(
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text} {said}")),
        );
        files[at] = std::fs::read(bench.path("file.img")).ok();
        ios[at] = logged(&bench.path("x_lat.1.log"));
    }
    Both { bench, reports, files, ios }
}

fn logged(path: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(path).ok()?;
    std::fs::remove_file(path).expect("removed");
    Some(
        text.lines().map(|line| line.splitn(3, ", ").nth(2).expect("columns").to_owned()).collect(),
    )
}

fn figure(report: &Value, job: usize, direction: &str, key: &str) -> u64 {
    report["jobs"][job][direction][key].as_u64().expect("a figure")
}

const LOGGED: &str = "[a]\nfilename=file.img\nsize=1m\nbs=4k\nwrite_lat_log=x\nlog_offset=1\n";

#[test]
fn sequential_zones_are_in_fios_order() {
    for zones in [
        "zonesize=16k\nzonerange=64k",
        "zonesize=16k\nzonerange=64k\nzoneskip=32k",
        "zonesize=16k\nzoneskip=32k",
        "zonesize=128k\nzonerange=64k\nzoneskip=64k",
        "zonesize=16k\nzoneskip=1z",
        "zonesize=18k\nzonerange=64k\nrw=write",
        "zonesize=16k\nzonerange=64k\noffset=512k\nsize=512k",
        "zonesize=512k\nzonerange=2m",
        "rw=read:4k\nzonesize=16k\nzonerange=64k",
    ] {
        let Both { ios: [fio, ours], .. } =
            run_both(&format!("{LOGGED}zonemode=strided\n{zones}\n"));
        let ours = ours.expect("a log");
        assert_eq!(
            ours.len() as u64,
            if zones.ends_with("\nsize=512k") { 128 } else { 256 },
            "{zones}"
        );
        if let Some(fio) = fio {
            assert_eq!(ours, fio, "{zones}");
        }
    }
}

/// fio 3.33 has no such lists.
#[test]
fn blocks_of_a_list_are_read_in_its_order() {
    let bench = Bench::new();
    bench.file("file.img", vec![0; FILE as usize]);
    for (stride, expected) in [(0, [0, 3, 1, 0, 3, 1, 0]), (1, [0, 3, 1, 3, 6, 4, 6])] {
        let list = format!("random_distribution=sequence:0,3,1\nrandom_sequence_stride={stride}\n");
        bench.file("job.fio", format!("{LOGGED}rw=randread\nio_size=28k\n{list}"));
        for device in ["./file.img", "null"] {
            let report = bench.json("job.fio", &["--device", device]);
            assert_eq!(figure(&report, 0, "read", "total_ios"), 7);
            let ios = logged(&bench.path("x_lat.1.log")).expect("a log");
            let offsets: Vec<u64> = ios
                .iter()
                .map(|io| io.split(", ").nth(2).expect("an offset").parse().unwrap())
                .collect();
            assert_eq!(offsets, expected.map(|block| block * 4096), "{device}");
        }
    }
}

#[test]
fn random_zones_are_visited_as_by_fio() {
    for (zones, stride) in
        [("zonesize=64k\nzonerange=64k", 64), ("zonesize=8k\nzonerange=16k\nzoneskip=16k", 32)]
    {
        let Both { ios: [fio, ours], .. } =
            run_both(&format!("{LOGGED}rw=randread\nzonemode=strided\n{zones}\n"));
        let zones_of = |ios: &Vec<String>| -> Vec<u64> {
            let offset = |io: &String| {
                io.split(", ").nth(2).expect("an offset").parse::<u64>().expect("a number")
            };
            ios.iter().map(|io| offset(io) / (stride << 10)).collect()
        };
        let ours = ours.expect("a log");
        assert_eq!(ours.len(), 256);
        if let Some(fio) = fio {
            assert_eq!(zones_of(&ours), zones_of(&fio), "{zones}");
        }
    }
}

#[test]
fn patterns_are_written_as_by_fio() {
    for pattern in [
        "0xabc",
        "0x010203",
        "0x0102030405060708090a0b",
        "300",
        "\"abc\"",
        "%o",
        "0xff%o\"abcd\"-12",
        "-1%o",
        "\"abcd\"-120xdeadface",
        "120x12",
    ] {
        let job = format!(
            "[a]\nfilename=file.img\nsize=1m\nbs=20k\nrw=write\nverify=pattern\nverify_pattern={pattern}\n"
        );
        let job = job.replace("size=1m", "size=1000k");
        let Both { reports: [fio, ours], files: [theirs, here], .. } = run_both(&job);
        let ours = ours.expect("a report");
        assert_eq!(
            (figure(&ours, 0, "write", "total_ios"), figure(&ours, 0, "read", "total_ios")),
            (50, 50)
        );
        assert_eq!(ours["jobs"][0]["error"], 0, "{pattern}");
        let Some(fio) = fio else { continue };
        assert_eq!(
            (figure(&fio, 0, "write", "total_ios"), figure(&fio, 0, "read", "total_ios")),
            (50, 50)
        );
        assert!(here == theirs, "{pattern}: other bytes than fio's");
    }
}

/// Sizes with a share of 0 or 100 % have one priority each, whatever chance says.
#[test]
fn priorities_by_size_are_those_of_fio() {
    let job = "[a]\nfilename=file.img\nsize=1m\nrw=randrw\nnorandommap\nbssplit=4k/50:8k/50\nioengine=libaio\n\
               write_lat_log=x\nlog_prio=1\n";
    for split in [
        "cmdprio_bssplit=4k/100/2/3:8k/0",
        "cmdprio_bssplit=4k/100/2/3:8k/100/2/5",
        "cmdprio_bssplit=4k/60/2/3:4k/40/2/3:8k",
        "cmdprio_bssplit=,4k/100\ncmdprio_class=2\ncmdprio=6",
        "cmdprio_bssplit=4k/100/2/3,8k/100/2/5",
        "cmdprio_bssplit=16k/100/2/3",
    ] {
        let Both { ios: [fio, ours], .. } = run_both(&format!("{job}{split}\n"));
        // Direction, bytes and priority.
        let kinds =
            |ios: Vec<String>| ios.into_iter().map(|io| (io, ())).collect::<BTreeMap<_, _>>();
        let ours = kinds(ours.expect("a log"));
        assert_eq!(ours.len(), 4, "{split}: {ours:?}");
        if let Some(fio) = fio {
            assert_eq!(ours, kinds(fio), "{split}");
        }
    }
}

#[test]
fn shares_by_size_add_up_in_simulation() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth=8\nnumber_ios=8000\n\
         cmdprio_bssplit=4k/50/1/1:4k/30/3/7:8k/100\n",
    );
    let report = bench.json("job.fio", &[]);
    let prios = report["jobs"][0]["read"]["prios"].as_array().expect("priorities");
    let mut counts: Vec<(u64, u64)> = prios
        .iter()
        .map(|one| {
            (
                one["prioclass"].as_u64().expect("a class"),
                one["clat_ns"]["N"].as_u64().expect("a count"),
            )
        })
        .collect();
    counts.sort_unstable();
    let near = |count: u64, share: u64| count.abs_diff(8000 * share / 100) < 200;
    let [(_, rest), (1, high), (3, idle)] = counts[..] else { panic!("{counts:?}") };
    assert!(near(rest, 20) && near(high, 50) && near(idle, 30), "{counts:?}");
}

#[test]
fn jobs_of_a_flow_share_by_weight() {
    let job = "[global]\nfilename=file.img\nsize=1m\nbs=4k\nrw=randread\ndirect=1\ntime_based\nruntime=500ms\n\
               [a]\nflow=3\n[b]\nflow=1\n";
    let ios = |report: &Value, job| figure(report, job, "read", "total_ios");
    let Both { bench, reports: [fio, ours], .. } = run_both(job);
    for report in [fio, ours].into_iter().flatten() {
        let (a, b) = (ios(&report, 0), ios(&report, 1));
        assert!(b > 10 && (a as f64 / b as f64 - 3.0).abs() < 0.3, "{a} and {b}");
    }
    // The slower job sets the pace; another flow, and jobs without one, go their own.
    let job = "[global]\nbs=4k\nrw=randread\ndirect=1\ntime_based\nruntime=1\nioengine=libaio\niodepth=8\n\
               [a]\nflow=3\n[b]\nflow=2\nrate_iops=200\n[c]\nflow=1\nflow_sleep=1000\n[d]\nflow=1\nflow_id=1\n[e]\n";
    bench.file("paced.fio", job);
    let report = bench.json("paced.fio", &[]);
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|job| ios(&report, job));
    assert!((198..=202).contains(&b), "{b}");
    assert!((a as i64 - b as i64 * 3 / 2).abs() <= 3, "{a} beside {b}");
    assert!((c as i64 - b as i64 / 2).abs() <= 3, "{c} beside {b}");
    assert!(d > 1000 && e > 1000, "{d} and {e}");
}

/// Which I/Os go on where the last one of their direction ended, with directions and sizes. The
/// offsets of the others are drawn by generators of their own.
fn shown_runs(ios: &[String]) -> Vec<String> {
    let mut next = [0; 3];
    let one = |line: &String| {
        let columns: Vec<u64> =
            line.split(',').map(|column| column.trim().parse().expect("a number")).collect();
        let (d, len, at) = (columns[0] as usize, columns[1], columns[2]);
        let jumps = if at == next[d] { "" } else { "|" };
        next[d] = at + len;
        format!("{jumps}{}{}", ["r", "w", "t"][d], len / 1024)
    };
    ios.iter().map(one).collect()
}

#[test]
fn sizes_and_runs_are_those_of_fio() {
    for options in [
        "rw=write\nbssplit=4k/20:64k/80\nsize=512k\n",
        "rw=read\nbsrange=4k-16k\nsize=64k\nio_size=192k\n",
        "rw=rw\nbsrange=4k-16k\nsize=64k\nio_size=192k\n",
        "rw=write\nbsrange=4k-64k\nverify=crc32c\ndo_verify=0\n",
        "rw=rw\nbssplit=4k/50:64k/50\nsize=512k\n",
        "rw=rw\nbs=4k,64k\nsize=512k\n",
        "rw=rw\nbsrange=4k-64k\nrwmixread=90\nsize=512k\n",
        "rw=randread:4\nbsrange=4k-16k\nnorandommap\nnumber_ios=24\n",
        "rw=randread:4\nba=16k\nnumber_ios=24\n",
        "rw=randrw:4\nnorandommap\nnumber_ios=32\n",
    ] {
        let bs = if options.contains("bs") { "" } else { "bs=4k\n" };
        let both = run_both(&format!("{}{bs}{options}", LOGGED.replace("bs=4k\n", "")));
        let [fio, ours] = &both.ios;
        let ours = shown_runs(ours.as_ref().expect("a log"));
        let Some(fio) = fio else { continue };
        assert_eq!(shown_runs(fio), ours, "{options}");
    }
}

#[test]
fn a_filled_device_is_full() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nfilename=x\nrw=write\nbs=64k\ndirect=1\nfill_device=1\nloops=3\n");
    bench.file("file.img", vec![0; FILE as usize]);
    let report = bench.json("job.fio", &["--device", "./file.img"]);
    assert_eq!(figure(&report, 0, "write", "io_bytes"), FILE, "once, whatever loops says");
    bench.file(
        "sized.fio",
        "[a]\nfilename=x\nrw=write\nbs=64k\ndirect=1\nfill_device=1\nsize=256k\n",
    );
    let report = bench.json("sized.fio", &["--device", "./file.img"]);
    assert_eq!(figure(&report, 0, "write", "io_bytes"), 256 << 10, "a size counts");
    // Without a file, or in one that is longer than there is room for, both end where the file
    // system does. Only root can mount one.
    let folder = bench.path("mounted");
    std::fs::create_dir(&folder).expect("a folder");
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&folder).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        return elevon_testkit::denied("mounting a tmpfs for fio's fill_device");
    }
    bench.file(
        "large.fio",
        "[a]\nfilename=x\nrw=write\nbs=64k\ndirect=1\nfill_device=1\nsize=16m\n",
    );
    let runs = ["job.fio", "large.fio"].map(|job| {
        let ours = Some(Command::new(env!("CARGO_BIN_EXE_elevon")));
        [elevon_testkit::tool("fio"), ours].map(|command| {
            let mut command = command?;
            if command.get_program() == env!("CARGO_BIN_EXE_elevon") {
                command.args(["run", "--device", "./x"]);
            }
            let output = command
                .arg("--output-format=json")
                .arg(bench.path(job))
                .current_dir(&folder)
                .output();
            let _ = std::fs::remove_file(folder.join("x"));
            Some(output.expect("it ran"))
        })
    });
    let _ = Command::new("umount").arg(&folder).output();
    for output in runs.into_iter().flatten().flatten() {
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let json = text.find('{').map_or("", |from| &text[from..]);
        let report: Value =
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(
            (figure(&report, 0, "write", "io_bytes"), output.status.code()),
            (FILE, Some(0))
        );
    }
}

/// The keys of an object, with the type of each value.
fn shape(value: &Value) -> Vec<String> {
    let kind = |value: &Value| match value {
        Value::Object(_) => format!("{:?}", shape(value)),
        Value::Array(all) => format!("{} numbers", all.iter().filter(|one| one.is_u64()).count()),
        Value::Number(number) => {
            format!("a number, {}", if number.is_u64() { "whole" } else { "with a point" })
        }
        other => other.to_string(),
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {}", kind(value)))
        .collect()
}

#[test]
fn a_steady_job_ends_and_says_so_as_by_fio() {
    let job = "[a]\nfilename=file.img\nsize=1m\nbs=4k\nrw=randread\nrate_iops=200\ntime_based\nruntime=100\n\
               ss=iops:50%\nss_dur=1\n";
    let Both { bench, reports: [fio, ours], .. } = run_both(job);
    let ours = ours.expect("a report");
    let steady = &ours["jobs"][0]["steadystate"];
    assert_eq!((&steady["ss"], &steady["attained"]), (&"iops:50.000000%".into(), &1.into()));
    if let Some(fio) = fio {
        assert_eq!(shape(steady), shape(&fio["jobs"][0]["steadystate"]));
    }
    // In virtual time the samples are exact: 3 s of ramps, of which that of the job is in no
    // figure, then a sample each second. The first job is steady after three of them, the second
    // never is and has its last three samples.
    let job = "[global]\nbs=4k\nrw=randread\ndirect=1\ntime_based\nruntime=8\nrate_iops=200\nramp_time=1\nss_ramp=2\n\
               [a]\nss=bw_slope:1\nss_dur=3\n[b]\nss=iops:0\nss_dur=3\n\
               [c]\nnumjobs=2\nnew_group\ngroup_reporting\nss=iops_slope:0.1%\nss_dur=3\nss_interval=500ms\n";
    bench.file("simulated.fio", job);
    let report = bench.json("simulated.fio", &[]);
    let [a, b, c] = [0, 1, 2]
        .map(|job| (&report["jobs"][job]["job_runtime"], &report["jobs"][job]["steadystate"]));
    let rates = |of: &Value| of["data"]["iops"].as_array().expect("samples").len();
    assert_eq!((a.0, &a.1["attained"], rates(a.1)), (&5000.into(), &1.into(), 3), "{a:?}");
    assert_eq!(
        (&a.1["data"]["iops"], &a.1["data"]["bw_mean"]),
        (&vec![200, 200, 200].into(), &819_200.into())
    );
    assert_eq!((b.0, &b.1["attained"], rates(b.1)), (&8000.into(), &0.into(), 3), "{b:?}");
    assert_eq!((c.0, &c.1["attained"], rates(c.1)), (&10_000.into(), &1.into(), 6), "{c:?}");
    assert_eq!(c.1["data"]["iops_mean"], 400, "both jobs of the group");
    let text = bench.stdout(&["run", "simulated.fio"]);
    let line = "  steadystate  : attained=yes, bw=800KiB/s (819kB/s), iops=200, bw slope=0.000";
    assert!(text.lines().any(|one| one == line), "{text}");
}

#[test]
fn the_depth_that_meets_a_latency_is_found_as_by_fio() {
    let job = "[global]\nfilename=file.img\nsize=1m\nbs=4k\nrw=randread\nioengine=libaio\niodepth=8\ntime_based\n\
               latency_window=20ms\nlatency_percentile=99.5\nstonewall\n\
               [easy]\nruntime=100\nlatency_target=100s\n[impossible]\nruntime=200ms\nlatency_target=1us\n";
    let Both { bench, reports: [fio, ours], .. } = run_both(job);
    for report in [fio, ours].into_iter().flatten() {
        for (job, depth, target) in [(0, 8, 100_000_000_000_u64), (1, 1, 1000)] {
            let job = &report["jobs"][job];
            assert_eq!((&job["latency_depth"], &job["error"]), (&depth.into(), &0.into()));
            assert_eq!(
                (&job["latency_target"], &job["latency_window"]),
                (&target.into(), &20_000.into())
            );
            assert_eq!(job["latency_percentile"], 99.5);
        }
    }
    // A device of five slots of 100 us each: the sixth I/O waits.
    let job = "[a]\nbs=4k\nrw=randread\ndirect=1\nioengine=io_uring\niodepth=64\nlatency_target=150\nlatency_window=5ms\n\
               time_based\nruntime=10\n";
    bench.file("simulated.fio", job);
    let report = bench.json(
        "simulated.fio",
        &["--device", "slots:slots=5,latency=100us", "--cpu-cost", "submit=0,complete=0"],
    );
    let job = &report["jobs"][0];
    assert_eq!((&job["latency_depth"], &job["iodepth_level"]["8"]), (&5.into(), &0.0.into()));
    let ios = figure(&report, 0, "read", "total_ios");
    // At most 250 end in the 5 ms, and those in flight behind them; all windows have over 1,000.
    assert!((200..=255).contains(&ios), "the statistics are of the last window: {ios}");
    assert_eq!(job["job_runtime"], 5, "as fio's, the time of the last window");
}

/// fio 3.33 hangs in some runs of such a job, so it is not asked; what is asserted here it does
/// when each of its reads is delayed.
#[test]
fn submission_by_workers_keeps_a_rate_beside_a_full_queue() {
    let bench = Bench::new();
    let ios = |mode: &str| {
        let rated =
            format!("[rated]\nrw=randread\nrate_iops=500\niodepth=64\nio_submit_mode={mode}\n");
        // A ring has 16 workers that wait for tags, on four CPUs.
        let fill = "[fill]\nrw=randwrite\nbs=128k\nioengine=io_uring\niodepth=256\nnumjobs=8\n";
        bench.file("job.fio", format!("[global]\ndirect=1\nruntime=2\ntime_based\n{rated}{fill}"));
        let options = [
            "run",
            "job.fio",
            "--device",
            "sata-ssd-860evo",
            "--scheduler",
            "none",
            "--output-format=json",
        ];
        let report: Value = serde_json::from_str(&bench.stdout(&options)).expect("JSON");
        figure(&report, 0, "read", "total_ios")
    };
    let (inline, offload) = (ios("inline"), ios("offload"));
    assert!(inline < 500, "each read holds the next: {inline}");
    assert!((990..=1001).contains(&offload), "{offload}");
}
