//! Tests how values of options are read: sizes, times, and options with several values.

use crate::common::{errors, job, parsed, warnings};
use crate::fio_jobs::fixed;
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::units::Nanos;
use elevon_formats::fio::spec::{Amount, BlockSizes, Distribution, FileService};

#[test]
fn sizes_as_fio_reads_them() {
    let size = |text: &str| match job(&format!("io_size={text}")).space.io_size {
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
    for (text, bytes) in
        [("4k", 4000), ("4kb", 4000), ("4kib", 4096), ("1m", 1_000_000), ("1mib", 1 << 20)]
    {
        assert_eq!(
            size(&format!("{text}\nkb_base=1000")),
            bytes,
            "kb_base governs its section: {text}"
        );
    }
    assert_eq!(job("size=20%").space.size, Some(Amount::Percent(20)));
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
            job.timing.runtime.as_micros(),
            job.think.time.as_micros(),
            job.timing.ramp_time.as_micros(),
            job.think.io_time.as_micros(),
        )
    };
    assert_eq!(
        us("runtime=10\nthinktime=10\nramp_time=3\nthinktime_iotime=2"),
        (10_000_000, 10, 3_000_000, 2_000_000)
    );
    assert_eq!(
        us("runtime=100msec\nthinktime=10ms\nramp_time=1m\nthinktime_iotime=5us"),
        (100_000, 10_000, 60_000_000, 5)
    );
    assert_eq!(us("timeout=1h\nthinktime=7usec\nramp_time=1D").0, 3_600_000_000);
    assert_eq!(us("runtime=(1m+5s)\nthinktime=(2*20)").0, 65_000_000);
    assert_eq!(us("runtime=(20)").0, 20, "in parentheses a bare time counts microseconds");
    assert_eq!(us("runtime=10sec").0, 10_000_000);
    assert!(warnings("runtime=10sec")[0].contains("write `10s`"));
    assert_eq!(
        job("startdelay=10-5").timing.start_delay,
        (Nanos::from_secs(5), Nanos::from_secs(10))
    );
    assert_eq!(
        job("startdelay=1s:2500ms").timing.start_delay,
        (Nanos::from_secs(1), Nanos::from_millis(2500))
    );
    assert_eq!(job("rate_cycle=10").rates.cycle, Nanos::from_millis(10));
    assert_eq!(job("").rates.cycle, Nanos::from_secs(1));
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
        assert_eq!(job(options).blocks.sizes, expected.map(|kib| fixed(kib << 10)), "{options}");
    }
    for range in ["1k-4k", "1k:4k", "4k-1k"] {
        assert_eq!(
            job(&format!("bsrange={range}")).blocks.sizes[2],
            BlockSizes::Range(1024, 4096),
            "{range}"
        );
    }
    let two = [
        BlockSizes::Range(1024, 4096),
        BlockSizes::Range(8192, 32768),
        BlockSizes::Range(8192, 32768),
    ];
    assert_eq!(job("bsrange=1k-4k,8k-32k").blocks.sizes, two);
    assert_eq!(job("bsrange=1k-4k/8k-32k").blocks.sizes, two);
    // Sizes as fio 3.33 draws them from these values, seen in its log.
    for (range, reads, writes) in [
        ("512/25:1k:25:2k:25:4k/25", (512, 1024), (512, 1024)),
        ("512/25-1k/25", (512, 1024), (512, 1024)),
        ("1k-2k/25,4k-8k", (1024, 2048), (4096, 8192)),
    ] {
        let sizes = job(&format!("bsrange={range}")).blocks.sizes;
        let range_of = |(low, high)| BlockSizes::Range(low, high);
        assert_eq!(sizes[..2], [range_of(reads), range_of(writes)], "{range}");
    }
    assert_eq!(
        job("bsrange=1k-4k\nbs=8k").blocks.sizes[0],
        BlockSizes::Range(1024, 4096),
        "fio prefers the range"
    );
}

#[test]
fn splits_of_block_sizes() {
    let split = |text: &str| job(&format!("bssplit={text}")).blocks.sizes;
    let k = 1 << 10;
    assert_eq!(
        split("4k/10:64k/50:32k/40")[2],
        BlockSizes::Split(vec![(4 * k, 10), (64 * k, 50), (32 * k, 40)])
    );
    assert_eq!(
        split("4k/10:64k/50:1m/")[0],
        BlockSizes::Split(vec![(4 * k, 10), (64 * k, 50), (1024 * k, 40)])
    );
    assert_eq!(
        split("4k/50:1k/:32k/")[0],
        BlockSizes::Split(vec![(4 * k, 50), (k, 25), (32 * k, 25)])
    );
    assert_eq!(
        split("4k/:1k/:32k/")[0],
        BlockSizes::Split(vec![(4 * k, 33), (k, 33), (32 * k, 34)])
    );
    let two = split("2k/50:4k/50,4k/90:8k/10");
    assert_eq!(two[0], BlockSizes::Split(vec![(2 * k, 50), (4 * k, 50)]));
    assert_eq!(two[1], BlockSizes::Split(vec![(4 * k, 90), (8 * k, 10)]));
    assert_eq!(two[2], two[1]);
    assert_eq!(split("16k")[0], fixed(16 * k));
    assert_eq!(split("4k/10:64k/50")[0], BlockSizes::Split(vec![(4 * k, 10), (64 * k, 90)]));
    assert!(warnings("bssplit=4k/10:64k/50")[0].contains("the last entry gets the other 40 %"));
}

#[test]
fn targets() {
    assert_eq!(job("filename=/dev/sda:/dev/sdb").files.names, ["/dev/sda", "/dev/sdb"]);
    assert_eq!(job("filename=/dev/dsk/foo@3,0\\:c").files.names, ["/dev/dsk/foo@3,0:c"]);
    assert_eq!(job("filename=F\\:\\filename").files.names, ["F:\\filename"]);
    let job1 = job(
        "offset=10%\noffset_increment=1g\noffset_align=4k\nnumber_ios=10k\nio_limit=5g\nfilesize=1k-2k\nnrfiles=4",
    );
    assert_eq!(
        (job1.space.offset, job1.space.offset_increment),
        (Amount::Percent(10), Amount::Bytes(1 << 30))
    );
    assert_eq!(
        (job1.space.offset_align, job1.timing.number_ios, job1.space.io_size),
        (4096, Some(10240), Some(Amount::Bytes(5 << 30)))
    );
    assert_eq!((job1.files.size, job1.files.count), (Some((1024, 2048)), 4));
    assert!(job("buffered=0").caching.direct && !job("direct=1\nbuffered=1").caching.direct);
    assert_eq!(job("file_service_type=roundrobin:4").files.service, FileService::RoundRobin(4));
    assert_eq!(job("file_service_type=sequential").files.service, FileService::Sequential);
}

#[test]
fn rates_and_thoughts() {
    let rates = job("rate=1m,500k\nrate_min=,100k,\nrate_process=poisson");
    assert_eq!(rates.rates.bytes, [Some(1 << 20), Some(500 << 10), Some(500 << 10)]);
    assert_eq!((rates.rates.min_bytes, rates.rates.poisson), ([None, Some(100 << 10), None], true));
    assert_eq!(job("rate=500k,").rates.bytes, [Some(500 << 10), None, None]);
    assert_eq!(job("rate_iops=100,200").rates.iops, [Some(100), Some(200), Some(200)]);
    let thinker =
        job("thinktime=50\nthinktime_spin=100\nthinktime_blocks=8\nthinktime_blocks_type=issue");
    assert_eq!((thinker.think.spin, thinker.think.blocks), (Nanos::from_micros(50), 8));
    assert!(thinker.think.counts_issued);
}

#[test]
fn priorities() {
    assert_eq!(job("").priority.ioprio, IoPrio::NONE);
    assert_eq!(job("prio=3").priority.ioprio, IoPrio::new(PrioClass::Be, 3));
    assert_eq!(
        job("prioclass=1\nprio=2\npriohint=5").priority.ioprio,
        IoPrio::new(PrioClass::Rt, 2).with_hint(5)
    );
    assert_eq!(job("prioclass=3").priority.ioprio, IoPrio::new(PrioClass::Idle, 0));
    for (nice, level) in [(-20, 0), (-1, 3), (5, 5), (19, 7)] {
        assert_eq!(
            job(&format!("nice={nice}")).priority.ioprio,
            IoPrio::new(PrioClass::Be, level),
            "nice={nice}"
        );
    }
    assert_eq!(job("nice=19\nprioclass=1").priority.ioprio, IoPrio::new(PrioClass::Rt, 0));
    let high = Some((10, IoPrio::new(PrioClass::Rt, 0)));
    assert_eq!(job("ioengine=libaio\ncmdprio_percentage=10").priority.command, [high, high]);
    let mixed = job("ioengine=io_uring\ncmdprio_percentage=10,20\ncmdprio_class=2\ncmdprio=1,7")
        .priority
        .command;
    assert_eq!(
        mixed,
        [Some((10, IoPrio::new(PrioClass::Be, 1))), Some((20, IoPrio::new(PrioClass::Be, 7)))]
    );
}

#[test]
fn chance() {
    let spread = |text: &str| job(&format!("rw=randread\nrandom_distribution={text}"));
    assert_eq!(spread("zipf:1.2").random.distribution[0], Distribution::Zipf(1.2, None));
    assert_eq!(spread("zipf").random.distribution[0], Distribution::Zipf(1.1, None));
    assert_eq!(spread("zipf:1.2:0.25").random.distribution[2], Distribution::Zipf(1.2, Some(0.25)));
    assert_eq!(spread("pareto:0.9").random.distribution[0], Distribution::Pareto(0.9, None));
    assert_eq!(spread("normal:20").random.distribution[0], Distribution::Normal(20.0, None));
    let aligned = |text: &str| job(&format!("rw=randread\n{text}")).random.norandommap;
    assert!(
        aligned("bs=4k\nba=8k") && aligned("bs=4k,8k\nba=4k"),
        "an alignment turns the map off"
    );
    assert!(
        !aligned("bs=4k\nba=4k") && !aligned("bsrange=4k-64k\nblockalign=4k"),
        "to the least block is none"
    );
    assert_eq!(
        (job("bs=4k\nba=4k").blocks.align, job("bs=4k\nba=8k").blocks.align),
        ([0; 3], [8192; 3])
    );
    assert!(
        spread("zipf:1.2").random.norandommap && !spread("random").random.norandommap,
        "a skew turns the map off"
    );
    let zones = vec![(60, 10), (30, 20), (8, 30), (2, 40)];
    assert_eq!(
        spread("zoned:60/10:30/20:8/30:2/40").random.distribution[0],
        Distribution::Zoned(zones)
    );
    let both = spread("zoned:60/10:40/90,50/50:50/50").random.distribution;
    assert_eq!(both[1], Distribution::Zoned(vec![(50, 50), (50, 50)]));
    let sizes = vec![(60, 20 << 30), (30, 100 << 30), (10, 500 << 30)];
    assert_eq!(
        spread("zoned_abs:60/20G:30/100G:10/500g").random.distribution[0],
        Distribution::ZonedAbsolute(sizes)
    );
    let listed = spread("sequence:0,2,0x10\nrandom_sequence_stride=1");
    assert_eq!(
        listed.random.distribution[1],
        Distribution::Sequence { blocks: vec![0, 2, 16], stride: true }
    );
    assert!(
        listed.random.norandommap
            && spread("sequence:5").random.distribution[0] != listed.random.distribution[0]
    );
    assert_eq!(job("percentage_random=50,60").random.percentage, [50, 60, 60]);
    let seeds = job("randseed=0x1234\nrandrepeat=0\nallrandrepeat=1\nnorandommap");
    assert_eq!(
        (seeds.random.seed, seeds.random.repeat, seeds.random.repeat_all, seeds.random.norandommap),
        (Some(0x1234), false, true, true)
    );
}

#[test]
fn atomic_writes() {
    for engine in ["pvsync2", "libaio", "io_uring"] {
        assert!(job(&format!("ioengine={engine}\natomic=1\ndirect=1")).durability.atomic);
    }
    assert!(!job("atomic=0").durability.atomic);
    for (text, said) in [
        (
            "atomic=1",
            "job.fio:2:8: atomic: ioengine=psync has no atomic writes; use pvsync2, libaio, io_uring",
        ),
        ("ioengine=libaio\natomic=1", "job.fio:3:8: atomic: needs direct=1"),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
    let said = |text: &str, limits: QueueLimits, kernel: Kernel| {
        let jobs = parsed(&format!("[a]\nioengine=libaio\ndirect=1\natomic=1\n{text}\n")).unwrap();
        jobs.not_atomic(&limits, &kernel.rules())
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
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
    for text in ["rw=write", "rw=randrw\nbs=3k,64k", "rw=read\nbs=512", "rw=write\nbsrange=4k-64k"]
    {
        assert_eq!(of(text), [""; 0], "{text}");
    }
    for (text, at) in [
        ("rw=write\nbs=12k", "6:4: bs: 12288 bytes are no atomic write of the device"),
        ("rw=randrw\nbs=4k,512", "6:4: bs: 512 bytes are no atomic write of the device"),
        (
            "rw=write\nbssplit=4k/50:128k",
            "6:9: bssplit: 131072 bytes are no atomic write of the device",
        ),
        ("rw=randtrimwrite\nbs=128k", "6:4: bs: 131072 bytes"),
    ] {
        assert!(of(text)[0].starts_with(&format!("job.fio:{at}")), "{:?}", of(text));
        assert!(
            of(text)[0].ends_with("; must be a power of two from 4096 to 65536"),
            "{:?}",
            of(text)
        );
    }
    let error = said("rw=write", none.clone(), Kernel::DEFAULT);
    let with = "a simulated one has them with --set atomic_write_max_bytes=4096";
    let without =
        "job.fio:4:8: atomic: the device has no atomic writes: its atomic_write_max_bytes is 0";
    assert_eq!(error, [format!("{without}; {with}")]);
    let error = said("rw=write\nbs=48k", none.clone(), Kernel::DEFAULT);
    assert!(
        error[0].ends_with("atomic_write_max_bytes=65536"),
        "the least that takes its largest write: {error:?}"
    );
    assert_eq!(said("rw=read", none, Kernel::V6_1), [""; 0], "nothing is written");
    let error = said("rw=write", some, Kernel::V6_6);
    assert!(
        error[0].contains("Linux has atomic writes from 6.11 on; use --kernel 6.12"),
        "{error:?}"
    );
}

#[test]
fn trims_of_several_ranges() {
    let ranges = |text: &str| job(text).blocks.trim_ranges;
    let engine = "ioengine=io_uring_cmd\n";
    assert_eq!(ranges(&format!("{engine}rw=randtrim\nnum_range=256")), 256);
    assert_eq!((ranges("rw=randwrite"), ranges("num_range=1")), (1, 1));
    for (text, said) in [
        ("num_range=0", "job.fio:2:11: num_range: `0` is out of range; must be 1 to 256"),
        ("num_range=257", "job.fio:2:11: num_range: `257` is out of range"),
        (
            "ioengine=io_uring_cmd\nnum_range=2",
            "job.fio:3:11: num_range: needs rw=trim or rw=randtrim",
        ),
        (
            "ioengine=io_uring_cmd\nnum_range=2\nrw=trimwrite",
            "job.fio:3:11: num_range: needs rw=trim",
        ),
        (
            "num_range=2\nrw=trim",
            "job.fio:2:11: num_range: ioengine=psync trims one range at a time; use io_uring_cmd",
        ),
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
    let zones = |text: &str| {
        job(&format!("zonemode=strided\n{text}")).space.zones.map(|z| (z.size, z.range, z.skip))
    };
    assert_eq!(zones("zonesize=1m"), Some((1 << 20, 1 << 20, 0)));
    assert_eq!(
        zones("zonesize=16k\nzonerange=64k\nzoneskip=8k"),
        Some((16 << 10, 64 << 10, 8 << 10))
    );
    assert_eq!(zones("zoneskip=2z\nzonesize=16k"), Some((16 << 10, 16 << 10, 32 << 10)));
    assert_eq!(zones("zonesize=512\nzonerange=4k"), Some((512, 4096, 0)), "one I/O in each zone");
    assert_eq!(job("zonemode=none").space.zones, None);
    assert_eq!(job("zonerange=64k\nzoneskip=8k").space.zones, None);
    assert!(
        warnings("zonerange=64k")[0].contains("zonerange: has no effect without zonemode=strided")
    );
    for (text, said) in [
        ("zonemode=strided", "job.fio:2:10: zonemode: `strided` needs zonesize=, such as 1m"),
        (
            "zonesize=1m",
            "job.fio:2:10: zonesize: needs zonemode=strided, and fio refuses it without",
        ),
        (
            "zonemode=zbd",
            "job.fio:2:10: zonemode: `zbd` needs a zoned device, which is not supported; use strided",
        ),
        (
            "zonemode=zone",
            "job.fio:2:10: zonemode: `zone` is no choice; must be one of none strided",
        ),
        (
            "zonemode=strided\nzonesize=2k",
            "job.fio:3:10: zonesize: a zone of 2048 bytes holds no I/O of 4096",
        ),
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
        job.priority
            .command_split
            .map(|parts| parts.iter().map(|p| (p.bytes, p.percent, p.prio)).collect::<Vec<_>>())
    };
    let prio = |class, level| IoPrio::new(class, level);
    let high = prio(PrioClass::Rt, 0);
    assert_eq!(
        split("cmdprio_bssplit=4k/100:8k/0"),
        [vec![(4096, 100, high)], vec![(4096, 100, high)]]
    );
    assert_eq!(split("cmdprio_bssplit=4k:8k/"), [vec![], vec![]], "a blank share is 0");
    assert_eq!(split("cmdprio_bssplit=,4k/50"), [vec![], vec![(4096, 50, high)]]);
    let (idle, low) = (prio(PrioClass::Idle, 7), prio(PrioClass::Be, 5));
    let two = vec![(4096, 60, idle), (4096, 40, prio(PrioClass::Be, 1).with_hint(3))];
    assert_eq!(
        split("cmdprio_class=2\ncmdprio=1,5\ncmdprio_bssplit=4k/60/3/7:4k/40/2/1/3,8k/10"),
        [two, vec![(8192, 10, low)]]
    );
    for (text, said) in [
        (
            "4k/50/1",
            "`4k/50/1` has 3 fields; must be SIZE/PERCENT, or SIZE/PERCENT/CLASS/LEVEL[/HINT]",
        ),
        ("4k/50/1/9", "the level `9` of `4k/50/1/9` is out of range; must be 0 to 7"),
        ("4k/50/4/0", "the class `4` of `4k/50/4/0` is out of range; must be 1 to 3"),
        ("4k/60/1/1:4k/60/2/1", "the shares of 4096 bytes add up to 120 %; must be 100 % at most"),
        ("4k/101", "`101` is no share"),
    ] {
        let found = errors(&format!("ioengine=libaio\ncmdprio_bssplit={text}"));
        assert!(
            found[0].starts_with(&format!("job.fio:3:17: cmdprio_bssplit: {said}")),
            "{found:?}"
        );
    }
    let both = errors("ioengine=libaio\ncmdprio_percentage=5\ncmdprio_bssplit=4k/5");
    assert_eq!(both, ["job.fio:4:17: cmdprio_bssplit: excludes cmdprio_percentage; leave one out"]);
}

#[test]
fn latency_targets() {
    let given = |text: &str| {
        let target = job(text).latency.target;
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
        let steady = job(text).timing.steady;
        steady.map(|s| {
            (
                s.criterion(),
                s.limit,
                s.percent,
                s.window(),
                s.ramp.as_millis(),
                s.interval.as_millis(),
            )
        })
    };
    assert_eq!(given("ss_dur=10"), Some(("iops_slope", 10_000, true, 10, 0, 1000)));
    let all = "ss=bw:2.5\nsteadystate_duration=1m\nss_ramp=5\nss_interval=500ms";
    assert_eq!(given(all), Some(("bw", 2_500_000, false, 120, 5000, 500)));
    assert_eq!(
        given("steadystate=iops:0.3%\nss_dur=1500ms"),
        Some(("iops", 300_000, true, 1, 0, 1000))
    );
    assert_eq!(given("ss=bw_slope:1%"), None);
    assert!(
        warnings("ss=bw_slope:1%")[0]
            .contains("steadystate: has no effect without steadystate_duration=")
    );
    for (text, said) in [
        (
            "ss=lat:1",
            "job.fio:2:4: ss: `lat:1` is no criterion; must be iops, iops_slope, bw or bw_slope with a limit",
        ),
        ("ss=iops", "job.fio:2:4: ss: `iops` lacks its limit; must be such as iops:2%"),
        (
            "ss_dur=5\nss_interval=0",
            "job.fio:3:13: steadystate_check_interval: `0` is no time between samples",
        ),
    ] {
        assert!(errors(text)[0].starts_with(said), "{:?}", errors(text));
    }
    assert!(errors("ss=iops:x")[0].starts_with("job.fio:2:4: ss: "));
}
