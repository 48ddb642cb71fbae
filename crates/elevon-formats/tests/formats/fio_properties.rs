//! For any input the parser does not panic and returns the same result twice. A rendered job parses
//! to the same job.

use crate::checks::job as check;
use crate::common::parsed;
use elevon_formats::fio::spec::JobSpec;
use elevon_formats::fio::{MemorySource, parse};
use elevon_render::jobs as render;
use proptest::prelude::*;

/// Options that can be combined in one job, each with values of every form.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "rw",
        &[
            "read",
            "write:4k",
            "randread:8",
            "randrw",
            "randtrimwrite",
            "trim",
            "rw:-8k",
            "trimwrite",
        ],
    ),
    ("rwmixread", &["0", "70", "100"]),
    ("rw_sequencer", &["identical"]),
    ("bs", &["512", "8k,16k", "4k,8k,", ",1m,", "3000"]),
    ("num_range", &["1", "16\nrw=randtrim\nioengine=io_uring_cmd\nserialize_overlap=0"]),
    ("bsrange", &["1k-4k", "1k-4k,8k-32k,", ",4k:64k"]),
    ("bssplit", &["4k/10:64k/50:1m/", "4k/:8k/,16k", ",2k/50:4k/50,"]),
    ("ba", &["4k", "4k,8k", ",16k,"]),
    ("bs_unaligned", &["1"]),
    ("bs_is_seq_rand", &["1"]),
    ("percentage_random", &["50", "10,20,30"]),
    ("norandommap", &["1", "0"]),
    ("ioengine", &["libaio", "io_uring", "psync", "posixaio", "mmap"]),
    ("iodepth", &["1", "32", "1k"]),
    ("iodepth_low", &["0", "4", "64"]),
    ("iodepth_batch", &["0", "8"]),
    ("iodepth_batch_complete_min", &["0", "2"]),
    ("iodepth_batch_complete_max", &["0", "8", "32"]),
    ("direct", &["0", "1"]),
    ("atomic", &["0", "1\ndirect=1\nioengine=libaio"]),
    ("filename", &["/dev/sda", "a:b\\:c", "C\\:\\x"]),
    ("directory", &["/mnt/x"]),
    ("nrfiles", &["0", "4"]),
    ("file_service_type", &["random", "sequential", "roundrobin:4"]),
    ("size", &["1g", "20%", "0"]),
    ("io_size", &["5g", "50%"]),
    (
        "zonemode",
        &[
            "none",
            "strided\nzonesize=1m\nzoneskip=2z",
            "strided\nzonesize=16k\nzonerange=1m\nzoneskip=4k",
        ],
    ),
    ("fill_device", &["0", "1"]),
    (
        "latency_target",
        &["600", "10ms\nlatency_window=5s\nlatency_percentile=99.95\nlatency_run=1"],
    ),
    (
        "steadystate",
        &["iops:2\nss_dur=10", "bw_slope:0.3%\nss_dur=1m\nss_ramp=5\nss_interval=500ms"],
    ),
    ("flow", &["0", "8", "1\nflow_id=3\nflow_sleep=50"]),
    ("filesize", &["4k", "1m-2m"]),
    ("offset", &["1m", "10%"]),
    ("offset_increment", &["1m", "10%"]),
    ("number_ios", &["10k"]),
    ("numjobs", &["2", "100"]),
    ("loops", &["0", "3"]),
    ("runtime", &["30", "100ms", "(3*7us)"]),
    ("ramp_time", &["3"]),
    ("startdelay", &["5", "1-10", "1500us:2s"]),
    ("thinktime", &["10", "5ms"]),
    ("thinktime_spin", &["7"]),
    ("thinktime_blocks", &["0", "4"]),
    ("thinktime_blocks_type", &["issue"]),
    ("thinktime_iotime", &["2"]),
    ("rate", &["1m", ",200m", "10m,,5m", "0"]),
    ("rate_cycle", &["10"]),
    ("rate_process", &["poisson"]),
    ("prio", &["0", "7"]),
    ("prioclass", &["0", "1", "3"]),
    ("priohint", &["3"]),
    ("fsync", &["32"]),
    ("sync", &["1", "dsync"]),
    ("randrepeat", &["0"]),
    ("randseed", &["0x1234", "5"]),
    (
        "random_distribution",
        &[
            "zipf:1.2",
            "zipf:0.7:0.25",
            "pareto:0.3",
            "normal:20.5",
            "zoned:60/10:40/90,50/50:50/50",
            "zoned_abs:,60/20G:40/100G,",
            "sequence:0,2,1,3",
        ],
    ),
    ("random_sequence_stride", &["0", "1"]),
    ("stonewall", &["1"]),
    ("exitall", &["1"]),
    ("group_reporting", &["1"]),
    ("unified_rw_reporting", &["mixed", "2"]),
    ("percentile_list", &["99.5:99.9", "0.0001:50:100"]),
    ("clat_percentiles", &["0"]),
    ("ignore_error", &["EAGAIN,ENOSPC:122", ",,EILSEQ"]),
    ("continue_on_error", &["read", "write", "io", "verify", "all"]),
    ("max_latency", &["10ms", "5,10ms", "0"]),
    ("exit_what", &["stonewall", "all"]),
    ("exitall_on_error", &["1"]),
    ("verify", &["md5", "crc32c", "meta", "null"]),
    ("verify_pattern", &["0xdeadbeef", "\"abc\"-12", "123", "%o", "0xff%o%o\"a\""]),
    ("verify_interval", &["512"]),
    ("buffer_pattern", &["0xabc", "\"x\""]),
    ("write_hint", &["none", "short", "extreme"]),
    ("write_bw_log", &["", "x"]),
    ("log_avg_msec", &["100"]),
    ("description", &["some words", "a=b"]),
    ("cgroup", &["a/b"]),
    ("cgroup_weight", &["500"]),
    ("kb_base", &["1000", "1024"]),
];

fn option() -> impl Strategy<Value = String> {
    (0..OPTIONS.len(), any::<prop::sample::Index>()).prop_map(|(row, value)| {
        let (key, values) = OPTIONS[row];
        format!("{key}={}", values[value.index(values.len())])
    })
}

fn file() -> impl Strategy<Value = String> {
    let section = prop::collection::vec(option(), 0..16).prop_map(|options| options.join("\n"));
    prop::collection::vec((prop::bool::weighted(0.2), section), 1..4).prop_map(|sections| {
        let mut text = String::new();
        for (index, (global, options)) in sections.iter().enumerate() {
            text += &format!("[{}{index}]\n{options}\n", if *global { "global" } else { "job" });
        }
        text + "[last]\n"
    })
}

/// Returns the jobs without their origins.
fn effect(jobs: &[JobSpec]) -> Vec<JobSpec> {
    let strip = |job: &JobSpec| JobSpec {
        origin: String::new(),
        global_options: Vec::new(),
        options: Vec::new(),
        ..job.clone()
    };
    jobs.iter().map(strip).collect()
}

#[test]
fn every_option_of_the_generator_is_taken_alone() {
    for (key, values) in OPTIONS {
        for value in *values {
            assert_eq!(crate::common::errors(&format!("{key}={value}")), [""; 0], "{key}={value}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rendered_job_is_the_same_job(text in file()) {
        let Ok(first) = parsed(&text) else { return Ok(()) };
        let rendered = render(&first.jobs);
        let second = parsed(&rendered).map_err(|errors| TestCaseError::fail(format!("{rendered}\n{errors:?}")))?;
        prop_assert_eq!(effect(&first.jobs), effect(&second.jobs), "{}\n{}", text, rendered);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parsed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_values_panic(rows in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9a-z%/:,.()^*+$\\{\\}\"' ]{0,24}"), 1..6)) {
        let names: Vec<&str> = elevon_formats::fio::options::rows().map(|row| row.name).collect();
        let options: Vec<String> = rows.iter().map(|(at, value)| format!("{}={value}", names[at.index(names.len())])).collect();
        let text = format!("[a]\n{}\n", options.join("\n"));
        check::job(text.as_bytes());
    }

    #[test]
    fn no_mutation_panics(text in file(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..12)) {
        let mut bytes = text.into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len() + 1);
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let once = parse(&mut MemorySource::one("j", &text), "j");
        check::job(text.as_bytes());
        prop_assert_eq!(once, parse(&mut MemorySource::one("j", &text), "j"));
    }
}

#[test]
fn odd_names_survive_rendering() {
    for name in ["globalist", "a]b", "two words"] {
        check::job(format!("[x]\nname={name}\nwrite_bw_log\n").as_bytes());
        assert_eq!(
            parsed(&render(&[crate::common::job(&format!("name={name}"))])).unwrap().jobs[0].name,
            name
        );
    }
}
