//! Job files as fio's manual describes them, and the errors of bad ones.

use crate::common::{errors, job, parsed, warnings};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::units::Nanos;
use elevon_formats::fio::spec::{
    Amount, BlockSizes, Distribution, Fadvise, FileService, JobSpec, SyncMode, Unified, VerifyMethod,
};
use elevon_formats::fio::{MemorySource, ParsedJobs, parse, parse_all};

fn fixed(bytes: u64) -> BlockSizes {
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
    assert!(reader.rw.random && reader.rw.read && !reader.rw.write && reader.direct && reader.time_based);
    assert_eq!((reader.iodepth, reader.runtime, reader.size), (32, Nanos::from_secs(30), Some(Amount::Bytes(4 << 30))));
    assert_eq!(reader.ioprio, IoPrio::new(PrioClass::Be, 0));
    assert!(reader.engine.asynchronous && reader.engine.submission_blocks);
    assert_eq!(writer.start_delay, (Nanos::from_secs(5), Nanos::from_secs(5)));
    assert_eq!(writer.block_sizes[1], BlockSizes::Split(vec![(64 << 10, 70), (1 << 20, 30)]));
    assert_eq!(writer.rate, [None, Some(200 << 20), Some(200 << 20)]);
    assert_eq!(writer.global_options[0], ("ioengine".into(), "libaio".into()));
    assert_eq!(writer.options.last().unwrap(), &("rate".into(), ",200m".into()));
    assert_eq!(parsed.warnings, []);
}

#[test]
fn globals_accumulate_and_apply_below() {
    let text = "[global]\nbs=8k\ndirect=1\n[a]\n[global of writers]\nrw=write\n[b]\nbs=16k\n[c]\n[Global]\n";
    let jobs = parsed(text).unwrap().jobs;
    let seen: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.rw.write, job.block_sizes[1].clone())).collect();
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
    assert_eq!((job.block_sizes[0].clone(), job.rw.write), (fixed(8192), true));
    assert_eq!((job.description.as_deref(), job.size), (Some("a"), Some(Amount::Bytes(1 << 20))));
    assert_eq!(errors("bs=;16k"), ["job.fio:2:4: bs: `` gives no value; must be one, or up to three with commas"]);
}

#[test]
fn includes_are_relative_nest_and_hold_options_only() {
    let mut source =
        MemorySource::one("jobs/main.fio", "[global]\ninclude glob.fio\n[test]\nbs=4k\ninclude sub/test.fio\n");
    source.files.insert("jobs/glob.fio".into(), "thread=1\ngroup_reporting=1\n".into());
    source.files.insert("jobs/sub/test.fio".into(), "ioengine=libaio\ninclude deep.fio\n".into());
    source.files.insert("jobs/sub/deep.fio".into(), "iodepth=4\n".into());
    let parsed = parse(&mut source, "jobs/main.fio").unwrap();
    assert_eq!((parsed.jobs[0].iodepth, parsed.jobs[0].group_reporting), (4, true));
    assert!(parsed.warnings[0].to_string().starts_with("jobs/glob.fio:1:1: thread: accepted without effect: "));

    source.files.insert("jobs/sub/deep.fio".into(), "iodepth=4\n[x]\nfoo=1\n".into());
    let lines: Vec<_> = parse(&mut source, "jobs/main.fio").unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "jobs/sub/deep.fio:2:1: [x]: an included file holds options only; move this section to the including file"
    );
    assert_eq!(lines[1], "jobs/sub/deep.fio:3:1: foo: unknown option; must be an option of fio's");

    source.files.insert("jobs/glob.fio".into(), "include glob.fio\n".into());
    let lines: Vec<_> = parse(&mut source, "jobs/main.fio").unwrap_err().iter().map(ToString::to_string).collect();
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
    let too_many =
        "include: more than 1024 includes, counting those of included files; put what they say into fewer files";
    assert_eq!(said(&mut source), format!("14:2:1: {too_many}"));
    // The same file, over and over; the files of a command count together.
    let each = |count: usize| format!("[a]\n{}", "include i\n".repeat(count));
    let mut source = MemorySource::one("j", &each(1025));
    source.files.insert("i".into(), "bs=8k\n".into());
    assert_eq!(said(&mut source), format!("j:1026:1: {too_many}"));
    source.files.insert("j".into(), each(1024));
    assert_eq!(parse(&mut source, "j").expect("as many as there may be").jobs[0].block_sizes[0], fixed(8192));
    assert_eq!(parse_all(&mut source, &["j", "j"]).expect_err("too many").len(), 1);
    // Few, but long.
    source.files.insert("i".into(), "#".repeat(16 << 20));
    source.files.insert("j".into(), each(5));
    let too_long = "more than 64 MiB of included files and files of patterns; name smaller ones, or fewer times";
    assert_eq!(said(&mut source), format!("j:6:1: include: {too_long}"));
    source.files.insert("j".into(), format!("[a]\n{}", "buffer_pattern='i'\n".repeat(5)));
    let errors = parse(&mut source, "j").expect_err("too long");
    assert!(errors.iter().any(|error| error.to_string() == format!("j:6:1: buffer_pattern: {too_long}")), "{errors:?}");
    source.files.insert("j".into(), format!("[a]\nbuffer_pattern={}\n", "'i'".repeat(99)));
    assert_eq!(said(&mut source), "j:2:16: buffer_pattern: is longer than 1048576 bytes; must be 1 to 65536");
}

#[test]
fn several_files_run_one_after_the_other() {
    let mut source = MemorySource::one("a.fio", "[global]\nbs=8k\n[a]\n");
    source.files.insert("b.fio".into(), "[b]\n[c]\n".into());
    let jobs = parse_all(&mut source, &["a.fio", "b.fio"]).unwrap().jobs;
    assert_eq!(jobs.iter().map(|job| job.stonewall).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(jobs[1].block_sizes[0], fixed(4096), "globals end with their file");
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
    assert_eq!((job.size, job.numjobs, job.block_sizes[0].clone()), (Some(Amount::Bytes(64 << 20)), 4, fixed(4096)));
    assert_eq!((job.filenames, job.io_size), (vec!["/dev/xx".to_owned()], Some(Amount::Bytes(8 * 16384))));
    assert_eq!((job.block_align, job.iodepth), ([8192; 3], 8));
    assert_eq!(job.description.as_deref(), Some("$HOME ${"));
}

#[test]
fn sizes_as_fio_reads_them() {
    let size = |text: &str| match job(&format!("io_size={text}")).io_size {
        Some(Amount::Bytes(bytes)) => bytes,
        other => panic!("{text}: {other:?}"),
    };
    for (text, bytes) in [
        ("64", 64),
        ("64b", 64),
        ("4096B", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("4kb", 4096),
        ("4kB", 4096),
        ("4KB", 4096),
        ("1m", 1 << 20),
        ("1024k", 1 << 20),
        ("1g", 1 << 30),
        ("1t", 1 << 40),
        ("1p", 1 << 50),
        ("4kib", 4000),
        ("1mib", 1_000_000),
        ("1gib", 1_000_000_000),
        ("4ki", 4096),
        ("0x1000", 4096),
        ("0x10k", 16384),
        ("010", 10),
        ("(4*1024)", 4096),
        ("(1k+3k)", 4096),
        ("(2^3*1m)", 8 << 20),
        ("(0x10 % 7)", 2),
    ] {
        assert_eq!(size(text), bytes, "{text}");
    }
    for (text, bytes) in [("4k", 4000), ("4kb", 4000), ("4kib", 4096), ("1m", 1_000_000), ("1mib", 1 << 20)] {
        assert_eq!(size(&format!("{text}\nkb_base=1000")), bytes, "kb_base governs its section: {text}");
    }
    assert_eq!(job("size=20%").size, Some(Amount::Percent(20)));
    assert!(warnings("io_size=4ki")[0].contains("fio reads `4ki` like `k`"));
    assert_eq!(
        warnings("bs = 4k")[0],
        "job.fio:3:1: bs: read as `4k`; fio 3.33 loses the unit after blanks around `=`: write `bs=4k`"
    );
}

#[test]
fn times_as_fio_reads_them() {
    let us = |options: &str| {
        let job = job(options);
        (
            job.runtime.as_micros(),
            job.think_time.as_micros(),
            job.ramp_time.as_micros(),
            job.think_time_io_time.as_micros(),
        )
    };
    assert_eq!(us("runtime=10\nthinktime=10\nramp_time=3\nthinktime_iotime=2"), (10_000_000, 10, 3_000_000, 2_000_000));
    assert_eq!(
        us("runtime=100msec\nthinktime=10ms\nramp_time=1m\nthinktime_iotime=5us"),
        (100_000, 10_000, 60_000_000, 5)
    );
    assert_eq!(us("timeout=1h\nthinktime=7usec\nramp_time=1D").0, 3_600_000_000);
    assert_eq!(us("runtime=(1m+5s)\nthinktime=(2*20)").0, 65_000_000);
    assert_eq!(us("runtime=(20)").0, 20, "in parentheses a bare time counts microseconds");
    assert_eq!(us("runtime=10sec").0, 10_000_000);
    assert!(warnings("runtime=10sec")[0].contains("write `10s`"));
    assert_eq!(job("startdelay=10-5").start_delay, (Nanos::from_secs(5), Nanos::from_secs(10)));
    assert_eq!(job("startdelay=1s:2500ms").start_delay, (Nanos::from_secs(1), Nanos::from_millis(2500)));
    assert_eq!(job("rate_cycle=10").rate_cycle, Nanos::from_millis(10));
    assert_eq!(job("").rate_cycle, Nanos::from_secs(1));
}

#[test]
fn block_sizes_by_direction() {
    for (options, expected) in [
        ("bs=256k", [256, 256, 256]),
        ("bs=8k,32k", [8, 32, 32]),
        ("bs=8k,32k,", [8, 32, 4]),
        ("bs=,8k", [4, 8, 8]),
        ("bs=,8k,", [4, 8, 4]),
        ("bs=8k,", [8, 4, 4]),
        ("bs=8k,4k,16k", [8, 4, 16]),
        ("bs=8k,\nbs=,16k", [8, 16, 16]),
        ("bs=4k,8k\nbs_is_seq_rand=1\nrw=randrw", [8, 8, 8]),
        ("bs=4k,8k\nbs_is_seq_rand=1\nrw=rw", [4, 4, 4]),
    ] {
        assert_eq!(job(options).block_sizes, expected.map(|kib| fixed(kib << 10)), "{options}");
    }
    for range in ["1k-4k", "1k:4k", "4k-1k"] {
        assert_eq!(job(&format!("bsrange={range}")).block_sizes[2], BlockSizes::Range(1024, 4096), "{range}");
    }
    let two = [BlockSizes::Range(1024, 4096), BlockSizes::Range(8192, 32768), BlockSizes::Range(8192, 32768)];
    assert_eq!(job("bsrange=1k-4k,8k-32k").block_sizes, two);
    assert_eq!(job("bsrange=1k-4k/8k-32k").block_sizes, two);
    // Sizes as fio 3.33 draws them from these values, seen in its log.
    for (range, reads, writes) in [
        ("512/25:1k:25:2k:25:4k/25", (512, 1024), (512, 1024)),
        ("512/25-1k/25", (512, 1024), (512, 1024)),
        ("1k-2k/25,4k-8k", (1024, 2048), (4096, 8192)),
    ] {
        let sizes = job(&format!("bsrange={range}")).block_sizes;
        let range_of = |(low, high)| BlockSizes::Range(low, high);
        assert_eq!(sizes[..2], [range_of(reads), range_of(writes)], "{range}");
    }
    assert_eq!(job("bsrange=1k-4k\nbs=8k").block_sizes[0], BlockSizes::Range(1024, 4096), "fio prefers the range");
}

#[test]
fn splits_of_block_sizes() {
    let split = |text: &str| job(&format!("bssplit={text}")).block_sizes;
    let k = 1 << 10;
    assert_eq!(split("4k/10:64k/50:32k/40")[2], BlockSizes::Split(vec![(4 * k, 10), (64 * k, 50), (32 * k, 40)]));
    assert_eq!(split("4k/10:64k/50:1m/")[0], BlockSizes::Split(vec![(4 * k, 10), (64 * k, 50), (1024 * k, 40)]));
    assert_eq!(split("4k/50:1k/:32k/")[0], BlockSizes::Split(vec![(4 * k, 50), (k, 25), (32 * k, 25)]));
    assert_eq!(split("4k/:1k/:32k/")[0], BlockSizes::Split(vec![(4 * k, 33), (k, 33), (32 * k, 34)]));
    let two = split("2k/50:4k/50,4k/90:8k/10");
    assert_eq!(two[0], BlockSizes::Split(vec![(2 * k, 50), (4 * k, 50)]));
    assert_eq!(two[1], BlockSizes::Split(vec![(4 * k, 90), (8 * k, 10)]));
    assert_eq!(two[2], two[1]);
    assert_eq!(split("16k")[0], fixed(16 * k));
    assert_eq!(split("4k/10:64k/50")[0], BlockSizes::Split(vec![(4 * k, 10), (64 * k, 90)]));
    assert!(warnings("bssplit=4k/10:64k/50")[0].contains("the last entry gets the other 40 %"));
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
            assert_eq!((rw.read, rw.write, rw.trim, rw.random), (read, write, trim, random), "{text}");
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
        let batch = (job.iodepth_batch_complete_min, job.iodepth_batch_complete_max);
        (job.iodepth, job.iodepth_low, job.iodepth_batch_submit, batch)
    };
    assert_eq!(depth(""), (1, 1, 1, (1, 1)));
    assert_eq!(depth("iodepth=16"), (16, 16, 1, (1, 1)));
    assert_eq!(depth("iodepth=16\niodepth_low=4\niodepth_batch=8"), (16, 4, 8, (1, 1)));
    assert_eq!(depth("iodepth=16\niodepth_batch_submit=0"), (16, 16, 16, (1, 1)));
    assert_eq!(depth("iodepth=4\niodepth_low=8\niodepth_batch=8\niodepth_batch_complete=8"), (4, 4, 4, (4, 4)));
    assert_eq!(depth("iodepth=16\niodepth_batch_complete_min=0\niodepth_batch_complete_max=16").3, (0, 16));
    assert_eq!(depth("iodepth=16\niodepth_batch_complete_min=4\niodepth_batch_complete_max=2").3, (4, 4));
    assert_eq!(job("ioengine=psync\niodepth=32").iodepth, 1);
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
        assert_eq!((engine.name.as_str(), engine.asynchronous, engine.submission_blocks), (name, asynchronous, blocks));
    }
    assert!(errors("ioengine=net")[0].contains("`net` is not supported: it does network I/O"));
    assert!(errors("ioengine=cpuio")[0].contains("burns CPU"));
    assert!(errors("ioengine=libaoi")[0].contains("did you mean `libaio`?"));
    assert!(errors("ioengine=external:/x.so")[0].contains("code of others is not loaded"));
    assert_eq!(
        errors("fixedbufs=1"),
        ["job.fio:2:11: fixedbufs: ioengine=psync has no such option; it belongs to ioengine=io_uring, io_uring_cmd"]
    );
    assert!(warnings("fixedbufs=1\nioengine=io_uring")[0].contains("fixedbufs: accepted without effect"));
}

#[test]
fn targets() {
    assert_eq!(job("filename=/dev/sda:/dev/sdb").filenames, ["/dev/sda", "/dev/sdb"]);
    assert_eq!(job("filename=/dev/dsk/foo@3,0\\:c").filenames, ["/dev/dsk/foo@3,0:c"]);
    assert_eq!(job("filename=F\\:\\filename").filenames, ["F:\\filename"]);
    let job1 =
        job("offset=10%\noffset_increment=1g\noffset_align=4k\nnumber_ios=10k\nio_limit=5g\nfilesize=1k-2k\nnrfiles=4");
    assert_eq!((job1.offset, job1.offset_increment), (Amount::Percent(10), Amount::Bytes(1 << 30)));
    assert_eq!((job1.offset_align, job1.number_ios, job1.io_size), (4096, Some(10240), Some(Amount::Bytes(5 << 30))));
    assert_eq!((job1.file_size, job1.nrfiles), (Some((1024, 2048)), 4));
    assert!(job("buffered=0").direct && !job("direct=1\nbuffered=1").direct);
    assert_eq!(job("file_service_type=roundrobin:4").file_service, FileService::RoundRobin(4));
    assert_eq!(job("file_service_type=sequential").file_service, FileService::Sequential);
}

#[test]
fn rates_and_thoughts() {
    let rates = job("rate=1m,500k\nrate_min=,100k,\nrate_process=poisson");
    assert_eq!(rates.rate, [Some(1 << 20), Some(500 << 10), Some(500 << 10)]);
    assert_eq!((rates.rate_min, rates.rate_poisson), ([None, Some(100 << 10), None], true));
    assert_eq!(job("rate=500k,").rate, [Some(500 << 10), None, None]);
    assert_eq!(job("rate_iops=100,200").rate_iops, [Some(100), Some(200), Some(200)]);
    let thinker = job("thinktime=50\nthinktime_spin=100\nthinktime_blocks=8\nthinktime_blocks_type=issue");
    assert_eq!((thinker.think_time_spin, thinker.think_time_blocks), (Nanos::from_micros(50), 8));
    assert!(thinker.think_time_counts_issued);
}

#[test]
fn priorities() {
    assert_eq!(job("").ioprio, IoPrio::NONE);
    assert_eq!(job("prio=3").ioprio, IoPrio::new(PrioClass::Be, 3));
    assert_eq!(job("prioclass=1\nprio=2\npriohint=5").ioprio, IoPrio::new(PrioClass::Rt, 2).with_hint(5));
    assert_eq!(job("prioclass=3").ioprio, IoPrio::new(PrioClass::Idle, 0));
    for (nice, level) in [(-20, 0), (-1, 3), (5, 5), (19, 7)] {
        assert_eq!(job(&format!("nice={nice}")).ioprio, IoPrio::new(PrioClass::Be, level), "nice={nice}");
    }
    assert_eq!(job("nice=19\nprioclass=1").ioprio, IoPrio::new(PrioClass::Rt, 0));
    let high = Some((10, IoPrio::new(PrioClass::Rt, 0)));
    assert_eq!(job("ioengine=libaio\ncmdprio_percentage=10").command_prio, [high, high]);
    let mixed = job("ioengine=io_uring\ncmdprio_percentage=10,20\ncmdprio_class=2\ncmdprio=1,7").command_prio;
    assert_eq!(mixed, [Some((10, IoPrio::new(PrioClass::Be, 1))), Some((20, IoPrio::new(PrioClass::Be, 7)))]);
}

#[test]
fn chance() {
    let spread = |text: &str| job(&format!("rw=randread\nrandom_distribution={text}"));
    assert_eq!(spread("zipf:1.2").distribution[0], Distribution::Zipf(1.2, None));
    assert_eq!(spread("zipf").distribution[0], Distribution::Zipf(1.1, None));
    assert_eq!(spread("zipf:1.2:0.25").distribution[2], Distribution::Zipf(1.2, Some(0.25)));
    assert_eq!(spread("pareto:0.9").distribution[0], Distribution::Pareto(0.9, None));
    assert_eq!(spread("normal:20").distribution[0], Distribution::Normal(20.0, None));
    let aligned = |text: &str| job(&format!("rw=randread\n{text}")).norandommap;
    assert!(aligned("bs=4k\nba=8k") && aligned("bs=4k,8k\nba=4k"), "an alignment turns the map off");
    assert!(!aligned("bs=4k\nba=4k") && !aligned("bsrange=4k-64k\nblockalign=4k"), "to the least block is none");
    assert_eq!((job("bs=4k\nba=4k").block_align, job("bs=4k\nba=8k").block_align), ([0; 3], [8192; 3]));
    assert!(spread("zipf:1.2").norandommap && !spread("random").norandommap, "a skew turns the map off");
    let zones = vec![(60, 10), (30, 20), (8, 30), (2, 40)];
    assert_eq!(spread("zoned:60/10:30/20:8/30:2/40").distribution[0], Distribution::Zoned(zones));
    let both = spread("zoned:60/10:40/90,50/50:50/50").distribution;
    assert_eq!(both[1], Distribution::Zoned(vec![(50, 50), (50, 50)]));
    let sizes = vec![(60, 20 << 30), (30, 100 << 30), (10, 500 << 30)];
    assert_eq!(spread("zoned_abs:60/20G:30/100G:10/500g").distribution[0], Distribution::ZonedAbsolute(sizes));
    let listed = spread("sequence:0,2,0x10\nrandom_sequence_stride=1");
    assert_eq!(listed.distribution[1], Distribution::Sequence { blocks: vec![0, 2, 16], stride: true });
    assert!(listed.norandommap && spread("sequence:5").distribution[0] != listed.distribution[0]);
    assert_eq!(job("percentage_random=50,60").percentage_random, [50, 60, 60]);
    let seeds = job("randseed=0x1234\nrandrepeat=0\nallrandrepeat=1\nnorandommap");
    assert_eq!(
        (seeds.randseed, seeds.randrepeat, seeds.allrandrepeat, seeds.norandommap),
        (Some(0x1234), false, true, true)
    );
}

#[test]
fn reports_errors_and_logs() {
    let job1 = job("percentile_list=99.5:99.9:50\nunified_rw_reporting=both\nslat_percentiles=1\nclat_percentiles=0");
    assert_eq!((job1.percentiles, job1.unified_rw_reporting), (vec![500_000, 995_000, 999_000], Unified::Both));
    assert_eq!(job("ignore_error=EAGAIN,ENOSPC:122").ignore_error, [vec![11], vec![28, 122], vec![]]);
    assert_eq!(job("continue_on_error=read").continue_on_error, [true, false, false]);
    let logs = job("write_bw_log\nwrite_lat_log=x\nlog_avg_msec=100\nlog_offset=1").logs;
    assert_eq!((logs.bandwidth.as_deref(), logs.latency.as_deref()), (Some("a"), Some("x")));
    assert_eq!((logs.average_ms, logs.offset), (100, true));
}

#[test]
fn sync_verify_and_content() {
    let job1 = job("fsync=32\nfdatasync=4\nend_fsync=1\nsync=dsync\nwrite_hint=short\ncgroup=x\ncgroup_weight=500");
    assert_eq!((job1.fsync, job1.fdatasync, job1.end_fsync, job1.sync), (32, 4, true, SyncMode::Dsync));
    assert_eq!((job1.write_hint, job1.cgroup.as_deref(), job1.cgroup_weight), (2, Some("x"), Some(500)));
    assert_eq!(job("sync=1").sync, SyncMode::Sync);
    assert_eq!(job("verify=crc32c").verify.method, Some(VerifyMethod::Crc32c));
    let check = job("verify=pattern\nverify_pattern=0xff\"abcd\"-12\nverify_backlog=10\nverify_fatal=1").verify;
    assert_eq!(check.pattern, [0xff, b'a', b'b', b'c', b'd', 0xf4, 0xff, 0xff, 0xff].into());
    assert_eq!((check.backlog, check.fatal, check.after_write), (10, true, true));
    let check = job("verify=pattern\nverify_pattern=0xabc%o%o\"z\"").verify;
    assert_eq!((check.pattern.len(), check.pattern_offsets), (19, vec![2, 10]));
    assert_eq!((&check.pattern[..2], check.pattern[18]), (&[0x0a, 0xbc][..], b'z'));
    assert_eq!(job("verify_pattern=0xff").verify.method, Some(VerifyMethod::Pattern), "as fio does");
    assert_eq!(job("verify_pattern=0xff\nverify=0").verify.method, None);
    assert!(warnings("verify=pattern")[0].contains("verify: without verify_pattern= there is nothing to compare"));
    assert_eq!(job("buffer_pattern=0xdeadface").buffer_pattern, Some([0xde, 0xad, 0xfa, 0xce].into()));
    assert_eq!(job("buffer_pattern=123").buffer_pattern, Some([123].into()));
    // What fio 3.33 wrote for these: a number ends before the 0 of the next one's 0x.
    let mixed = [b'a', b'b', b'c', b'd', 0xf4, 0xff, 0xff, 0xff, 0xde, 0xad, 0xfa, 0xce];
    assert_eq!(job("buffer_pattern=\"abcd\"-120xdeadface").buffer_pattern, Some(mixed.into()));
    assert_eq!(job("buffer_pattern=120x12").buffer_pattern, Some([12, 0x12].into()));
    assert_eq!(job("buffer_pattern=12-3").buffer_pattern, Some([12, 0xfd, 0xff, 0xff, 0xff].into()));
}

#[test]
fn a_pattern_may_be_the_content_of_a_file_beside_the_job_file() {
    let text = "[a]\nsize=1m\nbuffer_pattern=0xff'content.bin'\n[b]\nsize=1m\nverify_pattern='sub/content.bin'%o\n";
    let mut source = MemorySource::one("jobs/main.fio", text);
    source.files.insert("jobs/content.bin".into(), "x".repeat(600));
    source.files.insert("jobs/sub/content.bin".into(), "yz".into());
    let jobs = parse(&mut source, "jobs/main.fio").unwrap().jobs;
    let content = jobs[0].buffer_pattern.as_deref().unwrap();
    assert_eq!((content.len(), &content[..2]), (601, &[0xff, b'x'][..]), "longer than 512 bytes, which is fio's most");
    assert_eq!(&jobs[1].verify.pattern[..], b"yz\0\0\0\0\0\0\0\0");
    let said = |text: &str, content: &str| {
        let mut source = MemorySource::one("jobs/main.fio", &format!("[a]\nbuffer_pattern={text}\n"));
        source.files.insert("jobs/content.bin".into(), content.to_owned());
        parse(&mut source, "jobs/main.fio").expect_err(text)[0].to_string()
    };
    let at = "jobs/main.fio:2:16: buffer_pattern:";
    let gone =
        "cannot read `jobs/gone` (No such file or directory); the name is relative to the file that has the option";
    assert_eq!(said("'gone'", ""), format!("{at} {gone}"));
    assert!(said("'../content.bin'", "").contains("not below jobs, the job file's folder; --include-dir"));
    assert_eq!(said("'content.bin", ""), format!("{at} `'content.bin` lacks its closing quote"));
    assert_eq!(said("'content.bin'", ""), format!("{at} is 0 bytes long; must be 1 to 65536"));
    assert_eq!(said("'content.bin'", &"x".repeat(65537)), format!("{at} is 65537 bytes long; must be 1 to 65536"));
}

#[test]
fn what_has_no_effect_is_said_once() {
    let text = "[global]\nthread\ndirect=1\n[a]\ncpumask=5\ncpumask=3\n[b]\ncpumask=1\nthread=1\n";
    let lines: Vec<_> = parsed(text).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "job.fio:2:1: thread: accepted without effect: either is a task to the block layer");
    assert!(lines.len() == 2 && lines[1].starts_with("job.fio:5:1: cpumask: "), "{lines:?}");
    let buffered = parsed("[a]\n[b]\ndirect=0\n").unwrap().warnings;
    let [only] = &buffered[..] else { panic!("{buffered:?}") };
    assert!(only.message.contains("runs as direct=1 without a page cache"));
}

#[test]
fn a_run_with_a_page_cache_hears_nothing_of_runs_without() {
    let mut jobs = parsed("[a]\n[b]\ndirect=1\nioengine=mmap\ncpumask=1\n").unwrap();
    let keys = |jobs: &ParsedJobs| jobs.warnings.iter().map(|warning| warning.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&jobs), ["direct", "ioengine", "cpumask"]);
    assert!(jobs.with_cache().unwrap());
    assert_eq!(keys(&jobs), ["cpumask"]);
    assert!(!parsed("[a]\ndirect=1\n").unwrap().with_cache().unwrap());
}

#[test]
fn what_a_job_tells_the_page_cache() {
    let job = |text: &str| parsed(&format!("[a]\n{text}\n")).unwrap().jobs.remove(0);
    let hints = ["0", "1", "random", "sequential"].map(|hint| job(&format!("fadvise_hint={hint}")).fadvise);
    assert_eq!(hints, [Fadvise::None, Fadvise::ByWorkload, Fadvise::Random, Fadvise::Sequential]);
    let plain = job("");
    assert_eq!((plain.fadvise, plain.invalidate, plain.pre_read), (Fadvise::ByWorkload, true, false));
    let other = job("invalidate=0\npre_read=1\nbuffered=0");
    assert_eq!((other.invalidate, other.pre_read, other.is_buffered()), (false, true, false));
    assert!(plain.is_buffered() && job("ioengine=mmap\ndirect=1").is_buffered());
    assert!(job("rw=randtrimwrite\ndirect=1").is_buffered() && !job("rw=randtrim\ndirect=1").is_buffered());
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
fn atomic_writes() {
    for engine in ["pvsync2", "libaio", "io_uring"] {
        assert!(job(&format!("ioengine={engine}\natomic=1\ndirect=1")).atomic);
    }
    assert!(!job("atomic=0").atomic);
    for (text, said) in [
        ("atomic=1", "job.fio:2:8: atomic: ioengine=psync has no atomic writes; use pvsync2, libaio, io_uring"),
        ("ioengine=libaio\natomic=1", "job.fio:3:8: atomic: needs direct=1"),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
    let said = |text: &str, limits: QueueLimits, kernel: Kernel| {
        let jobs = parsed(&format!("[a]\nioengine=libaio\ndirect=1\natomic=1\n{text}\n")).unwrap();
        jobs.not_atomic(&limits, &kernel.rules()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (min, max) = (4096, 65536);
    let some = QueueLimits {
        atomic_write_max: max,
        atomic_write_unit_max: max,
        atomic_write_unit_min: min,
        ..QueueLimits::default()
    };
    let none = QueueLimits::default();
    let of = |text: &str| said(text, some.clone(), Kernel::DEFAULT);
    for text in ["rw=write", "rw=randrw\nbs=3k,64k", "rw=read\nbs=512", "rw=write\nbsrange=4k-64k"] {
        assert_eq!(of(text), [""; 0], "{text}");
    }
    for (text, at) in [
        ("rw=write\nbs=12k", "6:4: bs: 12288 bytes are no atomic write of the device"),
        ("rw=randrw\nbs=4k,512", "6:4: bs: 512 bytes are no atomic write of the device"),
        ("rw=write\nbssplit=4k/50:128k", "6:9: bssplit: 131072 bytes are no atomic write of the device"),
        ("rw=randtrimwrite\nbs=128k", "6:4: bs: 131072 bytes"),
    ] {
        assert!(of(text)[0].starts_with(&format!("job.fio:{at}")), "{:?}", of(text));
        assert!(of(text)[0].ends_with("; must be a power of two from 4096 to 65536"), "{:?}", of(text));
    }
    let error = said("rw=write", none.clone(), Kernel::DEFAULT);
    let with = "a simulated one has them with --set atomic_write_max_bytes=4096";
    let without = "job.fio:4:8: atomic: the device has no atomic writes: its atomic_write_max_bytes is 0";
    assert_eq!(error, [format!("{without}; {with}")]);
    let error = said("rw=write\nbs=48k", none.clone(), Kernel::DEFAULT);
    assert!(error[0].ends_with("atomic_write_max_bytes=65536"), "the least that takes its largest write: {error:?}");
    assert_eq!(said("rw=read", none, Kernel::V6_1), [""; 0], "nothing is written");
    let error = said("rw=write", some, Kernel::V6_6);
    assert!(error[0].contains("Linux has atomic writes from 6.11 on; use --kernel 6.12"), "{error:?}");
}

#[test]
fn trims_of_several_ranges() {
    let ranges = |text: &str| job(text).num_range;
    let engine = "ioengine=io_uring_cmd\n";
    assert_eq!(ranges(&format!("{engine}rw=randtrim\nnum_range=256")), 256);
    assert_eq!((ranges("rw=randwrite"), ranges("num_range=1")), (1, 1));
    for (text, said) in [
        ("num_range=0", "job.fio:2:11: num_range: `0` is out of range; must be 1 to 256"),
        ("num_range=257", "job.fio:2:11: num_range: `257` is out of range"),
        ("ioengine=io_uring_cmd\nnum_range=2", "job.fio:3:11: num_range: needs rw=trim or rw=randtrim"),
        ("ioengine=io_uring_cmd\nnum_range=2\nrw=trimwrite", "job.fio:3:11: num_range: needs rw=trim"),
        ("num_range=2\nrw=trim", "job.fio:2:11: num_range: ioengine=psync trims one range at a time; use io_uring_cmd"),
        (
            "num_range=2\nrw=trim\nioengine=io_uring_cmd\nserialize_overlap=1",
            "job.fio:2:11: num_range: excludes serialize_overlap",
        ),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
}

#[test]
fn strided_zones() {
    let zones = |text: &str| job(&format!("zonemode=strided\n{text}")).zones.map(|z| (z.size, z.range, z.skip));
    assert_eq!(zones("zonesize=1m"), Some((1 << 20, 1 << 20, 0)));
    assert_eq!(zones("zonesize=16k\nzonerange=64k\nzoneskip=8k"), Some((16 << 10, 64 << 10, 8 << 10)));
    assert_eq!(zones("zoneskip=2z\nzonesize=16k"), Some((16 << 10, 16 << 10, 32 << 10)));
    assert_eq!(zones("zonesize=512\nzonerange=4k"), Some((512, 4096, 0)), "one I/O in each zone");
    assert_eq!(job("zonemode=none").zones, None);
    assert_eq!(job("zonerange=64k\nzoneskip=8k").zones, None);
    assert!(warnings("zonerange=64k")[0].contains("zonerange: has no effect without zonemode=strided"));
    for (text, said) in [
        ("zonemode=strided", "job.fio:2:10: zonemode: `strided` needs zonesize=, such as 1m"),
        ("zonesize=1m", "job.fio:2:10: zonesize: needs zonemode=strided, and fio refuses it without"),
        ("zonemode=zbd", "job.fio:2:10: zonemode: `zbd` needs a zoned device, which is not supported; use strided"),
        ("zonemode=zone", "job.fio:2:10: zonemode: `zone` is no choice; must be one of none strided"),
        ("zonemode=strided\nzonesize=2k", "job.fio:3:10: zonesize: a zone of 2048 bytes holds no I/O of 4096"),
        (
            "zonemode=strided\nzonesize=8k\nzonerange=2k",
            "job.fio:4:11: zonerange: a zone of 2048 bytes holds no I/O of 4096; must be 4096 or more",
        ),
        ("zonemode=strided\nzonesize=8k\nzoneskip=xz", "job.fio:4:10: zoneskip:"),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
}

#[test]
fn priorities_by_size() {
    let split = |text: &str| {
        let job = job(&format!("ioengine=libaio\n{text}"));
        job.command_prio_split.map(|parts| parts.iter().map(|p| (p.bytes, p.percent, p.prio)).collect::<Vec<_>>())
    };
    let prio = |class, level| IoPrio::new(class, level);
    let high = prio(PrioClass::Rt, 0);
    assert_eq!(split("cmdprio_bssplit=4k/100:8k/0"), [vec![(4096, 100, high)], vec![(4096, 100, high)]]);
    assert_eq!(split("cmdprio_bssplit=4k:8k/"), [vec![], vec![]], "a blank share is 0");
    assert_eq!(split("cmdprio_bssplit=,4k/50"), [vec![], vec![(4096, 50, high)]]);
    let (idle, low) = (prio(PrioClass::Idle, 7), prio(PrioClass::Be, 5));
    let two = vec![(4096, 60, idle), (4096, 40, prio(PrioClass::Be, 1).with_hint(3))];
    assert_eq!(
        split("cmdprio_class=2\ncmdprio=1,5\ncmdprio_bssplit=4k/60/3/7:4k/40/2/1/3,8k/10"),
        [two, vec![(8192, 10, low)]]
    );
    for (text, said) in [
        ("4k/50/1", "`4k/50/1` has 3 fields; must be SIZE/PERCENT, or SIZE/PERCENT/CLASS/LEVEL[/HINT]"),
        ("4k/50/1/9", "the level `9` of `4k/50/1/9` is out of range; must be 0 to 7"),
        ("4k/50/4/0", "the class `4` of `4k/50/4/0` is out of range; must be 1 to 3"),
        ("4k/60/1/1:4k/60/2/1", "the shares of 4096 bytes add up to 120 %; must be 100 % at most"),
        ("4k/101", "`101` is no share"),
    ] {
        let found = errors(&format!("ioengine=libaio\ncmdprio_bssplit={text}"));
        assert!(found[0].starts_with(&format!("job.fio:3:17: cmdprio_bssplit: {said}")), "{found:?}");
    }
    let both = errors("ioengine=libaio\ncmdprio_percentage=5\ncmdprio_bssplit=4k/5");
    assert_eq!(both, ["job.fio:4:17: cmdprio_bssplit: excludes cmdprio_percentage; leave one out"]);
}

#[test]
fn latency_targets() {
    let given = |text: &str| {
        let target = job(text).latency_target;
        target.map(|t| (t.target.as_micros(), t.window.as_micros(), t.percentile, t.run))
    };
    assert_eq!(given("latency_target=600"), Some((600, 0, 100_000_000, false)));
    let all = "latency_target=10ms\nlatency_window=5s\nlatency_percentile=99.95\nlatency_run=1";
    assert_eq!(given(all), Some((10_000, 5_000_000, 99_950_000, true)));
    assert_eq!((given("latency_window=5s"), given("latency_target=0")), (None, None));
    assert!(errors("latency_percentile=100.1")[0].contains("must be 0 to 100"));
}

#[test]
fn steady_states() {
    let given = |text: &str| {
        let steady = job(text).steady;
        steady.map(|s| (s.criterion(), s.limit, s.percent, s.window(), s.ramp.as_millis(), s.interval.as_millis()))
    };
    assert_eq!(given("ss_dur=10"), Some(("iops_slope", 10_000, true, 10, 0, 1000)));
    let all = "ss=bw:2.5\nsteadystate_duration=1m\nss_ramp=5\nss_interval=500ms";
    assert_eq!(given(all), Some(("bw", 2_500_000, false, 120, 5000, 500)));
    assert_eq!(given("steadystate=iops:0.3%\nss_dur=1500ms"), Some(("iops", 300_000, true, 1, 0, 1000)));
    assert_eq!(given("ss=bw_slope:1%"), None);
    assert!(warnings("ss=bw_slope:1%")[0].contains("steadystate: has no effect without steadystate_duration="));
    for (text, said) in [
        ("ss=lat:1", "job.fio:2:4: ss: `lat:1` is no criterion; must be iops, iops_slope, bw or bw_slope with a limit"),
        ("ss=iops", "job.fio:2:4: ss: `iops` lacks its limit; must be such as iops:2%"),
        ("ss_dur=5\nss_interval=0", "job.fio:3:13: steadystate_check_interval: `0` is no time between samples"),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
    assert!(errors("ss=iops:x")[0].starts_with("job.fio:2:4: ss: "));
}

#[test]
fn what_is_given_twice() {
    let found =
        parsed("[global]\nfilename=f\nwrite_lat_log=l\n[a]\nfilename=g:f\nwrite_lat_log\nwrite_bw_log\n").unwrap();
    let JobSpec { filenames, logs, .. } = &found.jobs[0];
    assert_eq!(*filenames, ["f", "g"], "a name is added, once");
    assert_eq!((logs.latency.as_deref(), logs.bandwidth.as_deref()), (Some("l"), Some("a")), "a prefix stays");
}

#[test]
fn a_name_may_have_brackets() {
    assert_eq!(parsed("[a]b]\n").unwrap().jobs[0].name, "a]b");
}

#[test]
fn time_based_without_an_end_is_left_out() {
    let found = parsed("[a]\ntime_based\n[b]\ntime_based\nruntime=1\n").unwrap();
    assert_eq!((found.jobs[0].time_based, found.jobs[1].time_based), (false, true));
    assert!(found.warnings.iter().any(|one| one.to_string().contains("time_based: has no effect without runtime=")));
}

#[test]
fn flows_and_full_devices() {
    let flow = |text: &str| job(text).flow.map(|flow| (flow.id, flow.weight, flow.sleep.as_micros()));
    assert_eq!(flow("flow=8"), Some((0, 8, 0)));
    assert_eq!(flow("flow=1000\nflow_id=7\nflow_sleep=100"), Some((7, 1000, 100)));
    assert_eq!(flow("flow_id=7"), None);
    assert!(errors("flow=1001")[0].contains("must be 0 to 1000"));
    assert!(job("fill_device=1").fill_device && job("fill_fs=1").fill_device && !job("").fill_device);
}

#[test]
fn a_size_below_the_logical_block_suggests_the_missing_k() {
    // The job of proposal 003 says bs=64, but means 64 KiB.
    let parsed = parsed("[global]\ndirect=1\n[write]\nrw=write\n  bs=64\n").unwrap();
    assert_eq!(parsed.jobs[0].block_sizes[1], fixed(64));
    let found = parsed.unaligned(512, false);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["job.fio:5:6: bs: 64 bytes is no multiple of the device's logical block of 512; did you mean 64k?"]
    );
    let parsed = crate::common::parsed("[a]\nbs=5001\n").unwrap();
    let message = &parsed.unaligned(512, false)[0].message;
    assert!(message.contains(", as is needed without a page cache") && message.ends_with("use 5120"), "{message}");
    assert_eq!(parsed.unaligned(512, true), []);
    assert_eq!(crate::common::parsed("[a]\nbssplit=4k/50:8k/50\n").unwrap().unaligned(4096, false), []);
}
