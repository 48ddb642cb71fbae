//! Job files as fio's manual describes them, and the errors of bad ones.

use crate::common::{errors, job, parsed, warnings};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::units::Nanos;
use elevon_formats::fio::spec::{
    Amount, BlockSizes, Fadvise, JobSpec, SyncMode, Unified, VerifyMethod,
};
use elevon_formats::fio::{MemorySource, ParsedJobs, parse, parse_all};

pub(super) fn fixed(bytes: u64) -> BlockSizes {
    BlockSizes::Range(bytes, bytes)
}

#[test]
fn two_jobs_under_a_global() {
    let text = "\
[global]                 ; example we would test with
ioengine=libaio
direct=1
runtime=30
time_based
size=4g
[reader]
rw=randread
bs=4k
iodepth=32
prioclass=2
prio=0
[writer]
startdelay=5
rw=write
bssplit=64k/70:1m/30
rate=,200m
";
    let parsed = parsed(text).unwrap();
    let [reader, writer] = &parsed.jobs[..] else { panic!("{:?}", parsed.jobs) };
    assert_eq!((reader.name.as_str(), reader.origin.as_str()), ("reader", "job.fio:7"));
    assert!(
        reader.rw.random
            && reader.rw.read
            && !reader.rw.write
            && reader.caching.direct
            && reader.timing.time_based
    );
    assert_eq!(
        (reader.queue.depth, reader.timing.runtime, reader.space.size),
        (32, Nanos::from_secs(30), Some(Amount::Bytes(4 << 30)))
    );
    assert_eq!(reader.priority.ioprio, IoPrio::new(PrioClass::Be, 0));
    assert!(reader.engine.asynchronous && reader.engine.submission_blocks);
    assert_eq!(writer.timing.start_delay, (Nanos::from_secs(5), Nanos::from_secs(5)));
    assert_eq!(writer.blocks.sizes[1], BlockSizes::Split(vec![(64 << 10, 70), (1 << 20, 30)]));
    assert_eq!(writer.rates.bytes, [None, Some(200 << 20), Some(200 << 20)]);
    assert_eq!(writer.global_options[0], ("ioengine".into(), "libaio".into()));
    assert_eq!(writer.options.last().unwrap(), &("rate".into(), ",200m".into()));
    assert_eq!(parsed.warnings, []);
}

#[test]
fn globals_accumulate_and_apply_below() {
    let text = "[global]\nbs=8k\ndirect=1\n[a]\n[global of writers]\nrw=write\n[b]\nbs=16k\n[c]\n[Global]\n";
    let jobs = parsed(text).unwrap().jobs;
    let seen: Vec<_> = jobs
        .iter()
        .map(|job| (job.name.as_str(), job.rw.write, job.blocks.sizes[1].clone()))
        .collect();
    let expected = [
        ("a", false, fixed(8192)),
        ("b", true, fixed(16384)),
        ("c", true, fixed(8192)),
        ("Global", true, fixed(8192)), // a capital makes it a job
    ];
    assert_eq!(seen, expected);
}

#[test]
fn comments_cut_a_line_wherever_they_stand() {
    let job = job("; one\n# two\n  bs=8k ; three\nrw=write # four\ndescription=a#b\nsize=1m;x");
    assert_eq!((job.blocks.sizes[0].clone(), job.rw.write), (fixed(8192), true));
    assert_eq!(
        (job.description.as_deref(), job.space.size),
        (Some("a"), Some(Amount::Bytes(1 << 20)))
    );
    assert_eq!(
        errors("bs=;16k"),
        ["job.fio:2:4: bs: `` gives no value; must be one, or up to three with commas"]
    );
}

#[test]
fn includes_are_relative_nest_and_hold_options_only() {
    let mut source = MemorySource::one(
        "jobs/main.fio",
        "[global]\ninclude glob.fio\n[test]\nbs=4k\ninclude sub/test.fio\n",
    );
    source.files.insert("jobs/glob.fio".into(), "thread=1\ngroup_reporting=1\n".into());
    source.files.insert("jobs/sub/test.fio".into(), "ioengine=libaio\ninclude deep.fio\n".into());
    source.files.insert("jobs/sub/deep.fio".into(), "iodepth=4\n".into());
    let parsed = parse(&mut source, "jobs/main.fio").unwrap();
    assert_eq!((parsed.jobs[0].queue.depth, parsed.jobs[0].report.group_reporting), (4, true));
    assert!(
        parsed.warnings[0]
            .to_string()
            .starts_with("jobs/glob.fio:1:1: thread: accepted without effect: ")
    );

    source.files.insert("jobs/sub/deep.fio".into(), "iodepth=4\n[x]\nfoo=1\n".into());
    let lines: Vec<_> =
        parse(&mut source, "jobs/main.fio").unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "jobs/sub/deep.fio:2:1: [x]: an included file holds options only; move this section to the including file"
    );
    assert_eq!(lines[1], "jobs/sub/deep.fio:3:1: foo: unknown option; must be an option of fio's");

    source.files.insert("jobs/glob.fio".into(), "include glob.fio\n".into());
    let lines: Vec<_> =
        parse(&mut source, "jobs/main.fio").unwrap_err().iter().map(ToString::to_string).collect();
    assert!(lines[0].contains("more than 16 includes inside one another"), "{lines:?}");
}

#[test]
fn includes_that_multiply_end_with_one_line() {
    let mut source = MemorySource::one("j", "[a]\ninclude 1\ninclude 1\n");
    for depth in 1..15 {
        source.files.insert(depth.to_string(), format!("include {0}\ninclude {0}\n", depth + 1));
    }
    source.files.insert("15".into(), "bs=8k\n".into());
    let said = |source: &mut MemorySource| {
        let errors = parse(source, "j").expect_err("too much");
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors[0].to_string()
    };
    let too_many = "include: more than 1024 includes, counting those of included files; put what they say into fewer files";
    assert_eq!(said(&mut source), format!("14:2:1: {too_many}"));
    // The same file, over and over; the files of a command count together.
    let each = |count: usize| format!("[a]\n{}", "include i\n".repeat(count));
    let mut source = MemorySource::one("j", &each(1025));
    source.files.insert("i".into(), "bs=8k\n".into());
    assert_eq!(said(&mut source), format!("j:1026:1: {too_many}"));
    source.files.insert("j".into(), each(1024));
    assert_eq!(
        parse(&mut source, "j").expect("as many as there may be").jobs[0].blocks.sizes[0],
        fixed(8192)
    );
    assert_eq!(parse_all(&mut source, &["j", "j"]).expect_err("too many").len(), 1);
    // Few, but long.
    source.files.insert("i".into(), "#".repeat(16 << 20));
    source.files.insert("j".into(), each(5));
    let too_long = "more than 64 MiB of included files and files of patterns; name smaller ones, or fewer times";
    assert_eq!(said(&mut source), format!("j:6:1: include: {too_long}"));
    source.files.insert("j".into(), format!("[a]\n{}", "buffer_pattern='i'\n".repeat(5)));
    let errors = parse(&mut source, "j").expect_err("too long");
    assert!(
        errors
            .iter()
            .any(|error| error.to_string() == format!("j:6:1: buffer_pattern: {too_long}")),
        "{errors:?}"
    );
    source.files.insert("j".into(), format!("[a]\nbuffer_pattern={}\n", "'i'".repeat(99)));
    assert_eq!(
        said(&mut source),
        "j:2:16: buffer_pattern: is longer than 1048576 bytes; must be 1 to 65536"
    );
}

#[test]
fn several_files_run_one_after_the_other() {
    let mut source = MemorySource::one("a.fio", "[global]\nbs=8k\n[a]\n");
    source.files.insert("b.fio".into(), "[b]\n[c]\n".into());
    let jobs = parse_all(&mut source, &["a.fio", "b.fio"]).unwrap().jobs;
    assert_eq!(
        jobs.iter().map(|job| job.order.stonewall).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(jobs[1].blocks.sizes[0], fixed(4096), "globals end with their file");
}

#[test]
fn variables_and_keywords() {
    let mut source = MemorySource::one(
        "j",
        "[a]\nsize=${SIZE}\nnumjobs=${JOBS}\nbs=${UNSET}4k\nfilename=/dev/${D}${D}\nio_size=8*$mb_memory\nba=2*$pagesize\niodepth=$ncpus\nioengine=io_uring\ndescription=$HOME ${",
    );
    for (name, value) in [("SIZE", "64m"), ("JOBS", "4"), ("D", "x")] {
        source.variables.insert(name.into(), value.into());
    }
    let job = parse(&mut source, "j").unwrap().jobs.remove(0);
    assert_eq!(
        (job.space.size, job.numjobs, job.blocks.sizes[0].clone()),
        (Some(Amount::Bytes(64 << 20)), 4, fixed(4096))
    );
    assert_eq!(
        (job.files.names, job.space.io_size),
        (vec!["/dev/xx".to_owned()], Some(Amount::Bytes(8 * 16384)))
    );
    assert_eq!((job.blocks.align, job.queue.depth), ([8192; 3], 8));
    assert_eq!(job.description.as_deref(), Some("$HOME ${"));
}

#[test]
fn directions_and_their_modifiers() {
    for (text, read, write, trim, random) in [
        ("read", true, false, false, false),
        ("write", false, true, false, false),
        ("trim", false, false, true, false),
        ("randread", true, false, false, true),
        ("randwrite", false, true, false, true),
        ("randtrim", false, false, true, true),
        ("rw", true, true, false, false),
        ("readwrite", true, true, false, false),
        ("randrw", true, true, false, true),
        ("trimwrite", false, true, true, false),
        ("randtrimwrite", false, true, true, true),
    ] {
        for key in ["rw", "readwrite"] {
            let rw = job(&format!("{key}={text}")).rw;
            assert_eq!(
                (rw.read, rw.write, rw.trim, rw.random),
                (read, write, trim, random),
                "{text}"
            );
            assert_eq!(rw.trim_then_write, text.ends_with("trimwrite"));
        }
    }
    assert_eq!(job("rw=randread:8").rw.ios_per_offset, 8);
    assert_eq!(job("rw=read:4k").rw.sequential_skip, 4096);
    assert_eq!(job("rw=write:-4k").rw.sequential_skip, -4096);
    assert_eq!(job("rwmixread=70\nrw=randrw").rw.mix_read, 70);
    assert_eq!(job("rw=randrw\nrwmixwrite=70").rw.mix_read, 30);
    assert_eq!(job("rw=randrw").rw.mix_read, 50);
}

#[test]
fn depth_and_its_batches() {
    let depth = |options: &str| {
        let job = job(&format!("ioengine=libaio\n{options}"));
        let batch = (job.queue.complete_min, job.queue.complete_max);
        (job.queue.depth, job.queue.low, job.queue.batch_submit, batch)
    };
    assert_eq!(depth(""), (1, 1, 1, (1, 1)));
    assert_eq!(depth("iodepth=16"), (16, 16, 1, (1, 1)));
    assert_eq!(depth("iodepth=16\niodepth_low=4\niodepth_batch=8"), (16, 4, 8, (1, 1)));
    assert_eq!(depth("iodepth=16\niodepth_batch_submit=0"), (16, 16, 16, (1, 1)));
    assert_eq!(
        depth("iodepth=4\niodepth_low=8\niodepth_batch=8\niodepth_batch_complete=8"),
        (4, 4, 4, (4, 4))
    );
    assert_eq!(
        depth("iodepth=16\niodepth_batch_complete_min=0\niodepth_batch_complete_max=16").3,
        (0, 16)
    );
    assert_eq!(
        depth("iodepth=16\niodepth_batch_complete_min=4\niodepth_batch_complete_max=2").3,
        (4, 4)
    );
    assert_eq!(job("ioengine=psync\niodepth=32").queue.depth, 1);
    assert!(warnings("iodepth=32")[0].contains("ioengine=psync has one I/O at a time"));
}

#[test]
fn engines() {
    for (name, asynchronous, blocks) in [
        ("psync", false, true),
        ("mmap", false, true),
        ("libaio", true, true),
        ("io_uring", true, false),
        ("null", true, false),
    ] {
        let engine = job(&format!("ioengine={name}")).engine;
        assert_eq!(
            (engine.name.as_str(), engine.asynchronous, engine.submission_blocks),
            (name, asynchronous, blocks)
        );
    }
    assert!(errors("ioengine=net")[0].contains("`net` is not supported: it does network I/O"));
    assert!(errors("ioengine=cpuio")[0].contains("burns CPU"));
    assert!(errors("ioengine=libaoi")[0].contains("did you mean `libaio`?"));
    assert!(errors("ioengine=external:/x.so")[0].contains("code of others is not loaded"));
    assert_eq!(
        errors("fixedbufs=1"),
        [
            "job.fio:2:11: fixedbufs: ioengine=psync has no such option; it belongs to ioengine=io_uring, io_uring_cmd"
        ]
    );
    assert!(
        warnings("fixedbufs=1\nioengine=io_uring")[0]
            .contains("fixedbufs: accepted without effect")
    );
}

#[test]
fn reports_errors_and_logs() {
    let job1 = job(
        "percentile_list=99.5:99.9:50\nunified_rw_reporting=both\nslat_percentiles=1\nclat_percentiles=0",
    );
    assert_eq!(
        (job1.report.percentiles, job1.report.unified),
        (vec![500_000, 995_000, 999_000], Unified::Both)
    );
    assert_eq!(
        job("ignore_error=EAGAIN,ENOSPC:122").errors.ignored,
        [vec![11], vec![28, 122], vec![]]
    );
    assert_eq!(job("continue_on_error=read").errors.continues, [true, false, false]);
    let logs = job("write_bw_log\nwrite_lat_log=x\nlog_avg_msec=100\nlog_offset=1").logs;
    assert_eq!((logs.bandwidth.as_deref(), logs.latency.as_deref()), (Some("a"), Some("x")));
    assert_eq!((logs.average_ms, logs.offset), (100, true));
}

#[test]
fn sync_verify_and_content() {
    let job1 = job(
        "fsync=32\nfdatasync=4\nend_fsync=1\nsync=dsync\nwrite_hint=short\ncgroup=x\ncgroup_weight=500",
    );
    assert_eq!(
        (
            job1.durability.fsync,
            job1.durability.fdatasync,
            job1.durability.end_fsync,
            job1.durability.sync
        ),
        (32, 4, true, SyncMode::Dsync)
    );
    assert_eq!(
        (job1.content.write_hint, job1.tenant.cgroup.as_deref(), job1.tenant.weight),
        (2, Some("x"), Some(500))
    );
    assert_eq!(job("sync=1").durability.sync, SyncMode::Sync);
    assert_eq!(job("verify=crc32c").verify.method, Some(VerifyMethod::Crc32c));
    let check =
        job("verify=pattern\nverify_pattern=0xff\"abcd\"-12\nverify_backlog=10\nverify_fatal=1")
            .verify;
    assert_eq!(check.pattern, [0xff, b'a', b'b', b'c', b'd', 0xf4, 0xff, 0xff, 0xff].into());
    assert_eq!((check.backlog, check.fatal, check.after_write), (10, true, true));
    let check = job("verify=pattern\nverify_pattern=0xabc%o%o\"z\"").verify;
    assert_eq!((check.pattern.len(), check.pattern_offsets), (19, vec![2, 10]));
    assert_eq!((&check.pattern[..2], check.pattern[18]), (&[0x0a, 0xbc][..], b'z'));
    assert_eq!(
        job("verify_pattern=0xff").verify.method,
        Some(VerifyMethod::Pattern),
        "as fio does"
    );
    assert_eq!(job("verify_pattern=0xff\nverify=0").verify.method, None);
    assert!(
        warnings("verify=pattern")[0]
            .contains("verify: without verify_pattern= there is nothing to compare")
    );
    assert_eq!(
        job("buffer_pattern=0xdeadface").content.pattern,
        Some([0xde, 0xad, 0xfa, 0xce].into())
    );
    assert_eq!(job("buffer_pattern=123").content.pattern, Some([123].into()));
    // What fio 3.33 wrote for these: a number ends before the 0 of the next one's 0x.
    let mixed = [b'a', b'b', b'c', b'd', 0xf4, 0xff, 0xff, 0xff, 0xde, 0xad, 0xfa, 0xce];
    assert_eq!(job("buffer_pattern=\"abcd\"-120xdeadface").content.pattern, Some(mixed.into()));
    assert_eq!(job("buffer_pattern=120x12").content.pattern, Some([12, 0x12].into()));
    assert_eq!(
        job("buffer_pattern=12-3").content.pattern,
        Some([12, 0xfd, 0xff, 0xff, 0xff].into())
    );
}

#[test]
fn a_pattern_may_be_the_content_of_a_file_beside_the_job_file() {
    let text = "[a]\nsize=1m\nbuffer_pattern=0xff'content.bin'\n[b]\nsize=1m\nverify_pattern='sub/content.bin'%o\n";
    let mut source = MemorySource::one("jobs/main.fio", text);
    source.files.insert("jobs/content.bin".into(), "x".repeat(600));
    source.files.insert("jobs/sub/content.bin".into(), "yz".into());
    let jobs = parse(&mut source, "jobs/main.fio").unwrap().jobs;
    let content = jobs[0].content.pattern.as_deref().unwrap();
    assert_eq!(
        (content.len(), &content[..2]),
        (601, &[0xff, b'x'][..]),
        "longer than 512 bytes, which is fio's most"
    );
    assert_eq!(&jobs[1].verify.pattern[..], b"yz\0\0\0\0\0\0\0\0");
    let said = |text: &str, content: &str| {
        let mut source =
            MemorySource::one("jobs/main.fio", &format!("[a]\nbuffer_pattern={text}\n"));
        source.files.insert("jobs/content.bin".into(), content.to_owned());
        parse(&mut source, "jobs/main.fio").expect_err(text)[0].to_string()
    };
    let at = "jobs/main.fio:2:16: buffer_pattern:";
    let gone = "cannot read `jobs/gone` (No such file or directory); the name is relative to the file that has the option";
    assert_eq!(said("'gone'", ""), format!("{at} {gone}"));
    assert!(
        said("'../content.bin'", "")
            .contains("not below jobs, the job file's folder; --include-dir")
    );
    assert_eq!(said("'content.bin", ""), format!("{at} `'content.bin` lacks its closing quote"));
    assert_eq!(said("'content.bin'", ""), format!("{at} is 0 bytes long; must be 1 to 65536"));
    assert_eq!(
        said("'content.bin'", &"x".repeat(65537)),
        format!("{at} is 65537 bytes long; must be 1 to 65536")
    );
}

#[test]
fn what_has_no_effect_is_said_once() {
    let text = "[global]\nthread\ndirect=1\n[a]\ncpumask=5\ncpumask=3\n[b]\ncpumask=1\nthread=1\n";
    let lines: Vec<_> = parsed(text).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "job.fio:2:1: thread: accepted without effect: either is a task to the block layer"
    );
    assert!(lines.len() == 2 && lines[1].starts_with("job.fio:5:1: cpumask: "), "{lines:?}");
    let buffered = parsed("[a]\n[b]\ndirect=0\n").unwrap().warnings;
    let [only] = &buffered[..] else { panic!("{buffered:?}") };
    assert!(only.message.contains("runs as direct=1 without a page cache"));
}

#[test]
fn a_run_with_a_page_cache_hears_nothing_of_runs_without() {
    let mut jobs = parsed("[a]\n[b]\ndirect=1\nioengine=mmap\ncpumask=1\n").unwrap();
    let keys = |jobs: &ParsedJobs| {
        jobs.warnings.iter().map(|warning| warning.key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&jobs), ["direct", "ioengine", "cpumask"]);
    assert!(jobs.with_cache().unwrap());
    assert_eq!(keys(&jobs), ["cpumask"]);
    assert!(!parsed("[a]\ndirect=1\n").unwrap().with_cache().unwrap());
}

#[test]
fn what_a_job_tells_the_page_cache() {
    let job = |text: &str| parsed(&format!("[a]\n{text}\n")).unwrap().jobs.remove(0);
    let hints = ["0", "1", "random", "sequential"]
        .map(|hint| job(&format!("fadvise_hint={hint}")).caching.fadvise);
    assert_eq!(hints, [Fadvise::None, Fadvise::ByWorkload, Fadvise::Random, Fadvise::Sequential]);
    let plain = job("");
    assert_eq!(
        (plain.caching.fadvise, plain.caching.invalidate, plain.caching.pre_read),
        (Fadvise::ByWorkload, true, false)
    );
    let other = job("invalidate=0\npre_read=1\nbuffered=0");
    assert_eq!(
        (other.caching.invalidate, other.caching.pre_read, other.is_buffered()),
        (false, true, false)
    );
    assert!(plain.is_buffered() && job("ioengine=mmap\ndirect=1").is_buffered());
    assert!(
        job("rw=randtrimwrite\ndirect=1").is_buffered()
            && !job("rw=randtrim\ndirect=1").is_buffered()
    );
}

#[test]
fn a_refused_option_may_repeat_its_default() {
    for option in ["file_append=0", "zonemode=none", "io_submit_mode=inline", "trim_percentage=0"] {
        assert_eq!(errors(option), [""; 0], "{option}");
    }
    for option in ["file_append=1", "profile=act", "read_iolog=x"] {
        assert!(errors(option)[0].contains(": not supported: "), "{option}");
    }
}

#[test]
fn what_is_given_twice() {
    let found = parsed(
        "[global]\nfilename=f\nwrite_lat_log=l\n[a]\nfilename=g:f\nwrite_lat_log\nwrite_bw_log\n",
    )
    .unwrap();
    let JobSpec { files, logs, .. } = &found.jobs[0];
    assert_eq!(files.names, ["f", "g"], "a name is added, once");
    assert_eq!(
        (logs.latency.as_deref(), logs.bandwidth.as_deref()),
        (Some("l"), Some("a")),
        "a prefix stays"
    );
}

#[test]
fn a_name_may_have_brackets() {
    assert_eq!(parsed("[a]b]\n").unwrap().jobs[0].name, "a]b");
}

#[test]
fn time_based_without_an_end_is_left_out() {
    let found = parsed("[a]\ntime_based\n[b]\ntime_based\nruntime=1\n").unwrap();
    assert_eq!((found.jobs[0].timing.time_based, found.jobs[1].timing.time_based), (false, true));
    assert!(
        found
            .warnings
            .iter()
            .any(|one| one.to_string().contains("time_based: has no effect without runtime="))
    );
}

#[test]
fn flows_and_full_devices() {
    let flow = |text: &str| {
        job(text).order.flow.map(|flow| (flow.id, flow.weight, flow.sleep.as_micros()))
    };
    assert_eq!(flow("flow=8"), Some((0, 8, 0)));
    assert_eq!(flow("flow=1000\nflow_id=7\nflow_sleep=100"), Some((7, 1000, 100)));
    assert_eq!(flow("flow_id=7"), None);
    assert!(errors("flow=1001")[0].contains("must be 0 to 1000"));
    assert!(
        job("fill_device=1").space.fill_device
            && job("fill_fs=1").space.fill_device
            && !job("").space.fill_device
    );
}

#[test]
fn a_size_below_the_logical_block_suggests_the_missing_k() {
    // The job of proposal 003 says bs=64, but means 64 KiB.
    let parsed = parsed("[global]\ndirect=1\n[write]\nrw=write\n  bs=64\n").unwrap();
    assert_eq!(parsed.jobs[0].blocks.sizes[1], fixed(64));
    let found = parsed.unaligned(512, false);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "job.fio:5:6: bs: 64 bytes is no multiple of the device's logical block of 512; did you mean 64k?"
        ]
    );
    let parsed = crate::common::parsed("[a]\nbs=5001\n").unwrap();
    let message = &parsed.unaligned(512, false)[0].message;
    assert!(
        message.contains(", as is needed without a page cache") && message.ends_with("use 5120"),
        "{message}"
    );
    assert_eq!(parsed.unaligned(512, true), []);
    assert_eq!(
        crate::common::parsed("[a]\nbssplit=4k/50:8k/50\n").unwrap().unaligned(4096, false),
        []
    );
}
