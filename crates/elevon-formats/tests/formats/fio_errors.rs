//! What is said of job files that are wrong.

use crate::common::parsed;
use elevon_formats::fio::{MemorySource, Problem, parse};

#[test]
fn bad_lines_and_what_is_said_of_them() {
    for (text, line) in [
        (
            "bs=4k\n",
            "job.fio:1:1: bs=4k: an option before any section; put `[global]` or a job's name in brackets above it",
        ),
        ("[a\n", "job.fio:1:1: [a: the section's name has no end; write `[a]`"),
        ("[]\n", "job.fio:1:1: []: a section needs a name, such as `[reader]`"),
        ("", "job.fio:1:1: no job; a job is a section such as `[reader]` with options below it"),
        (
            "[global]\nbs=4k\n",
            "job.fio:1:1: no job; a job is a section such as `[reader]` with options below it",
        ),
        ("[a]\niodpeth=4\n", "job.fio:2:1: iodpeth: unknown option; did you mean `iodepth`?"),
        ("[a]\nBS=4k\n", "job.fio:2:1: BS: unknown option; did you mean `bs`?"),
        ("[a]\nzyxwvut=4\n", "job.fio:2:1: zyxwvut: unknown option; must be an option of fio's"),
        ("[a]\n=4k\n", "job.fio:2:1: =4k: an option needs a name before `=`, such as `bs=4k`"),
        ("[a]\nbs\n", "job.fio:2:1: bs: needs a value, such as bs=4096"),
        (
            "[a]\n  bs = 4x\n",
            "job.fio:2:8: bs: unknown unit `x` in `4x`; must be one of k m g t p (kib mib ... for the other base), or none",
        ),
        (
            "[a]\nbs=4k-64k\n",
            "job.fio:2:4: bs: `4k-64k` is a range; must be one number (sizes from a range: bsrange=)",
        ),
        (
            "[a]\nruntime=2m30s\n",
            "job.fio:2:9: runtime: `2m30s` has several units, for which fio 3.33 stops at once; write 150s",
        ),
        (
            "[a]\nramp_time=1s500ms\n",
            "job.fio:2:11: ramp_time: `1s500ms` has several units, for which fio 3.33 stops at once; write 1500ms",
        ),
        ("[a]\nbs=4.5k\n", "job.fio:2:4: bs: `4.5k` is no whole number; use a smaller unit"),
        ("[a]\nbs=0\n", "job.fio:2:4: bs: `0` is out of range; must be 1 to 4294967295 (bytes)"),
        ("[a]\nbs=-4\n", "job.fio:2:4: bs: `-4` is negative; must be 0 or more"),
        (
            "[a]\nbs=abc\n",
            "job.fio:2:4: bs: `abc` is no number; must be one such as `4096` or `4k`",
        ),
        (
            "[a]\nbs=1k,2k,3k,4k\n",
            "job.fio:2:4: bs: `1k,2k,3k,4k` has too many values; must be at most three: reads, writes, trims",
        ),
        (
            "[a]\nbs=(4*\n",
            "job.fio:2:4: bs: `(4*` is no number; must be one such as `4096` or `4k`",
        ),
        ("[a]\nbs=(4/0)\n", "job.fio:2:4: bs: division by zero"),
        (
            "[a]\nsize=4z\n",
            "job.fio:2:6: size: `4z` counts zones, and zoned devices are not supported; must be bytes, such as `256m`",
        ),
        ("[a]\nsize=101%\n", "job.fio:2:6: size: `101%` is no share; must be 0% to 100%"),
        (
            "[a]\nsize=99999999999999999999\n",
            "job.fio:2:6: size: `99999999999999999999` is too large; must be below 2^63",
        ),
        (
            "[a]\nruntime=10min\n",
            "job.fio:2:9: runtime: unknown unit `min` in `10min`; must be one of us ms s m h d, or none",
        ),
        (
            "[a]\nrate_cycle=1s\n",
            "job.fio:2:12: rate_cycle: is a bare number of milliseconds; must have no unit",
        ),
        ("[a]\ndirect=yes\n", "job.fio:2:8: direct: `yes` is no switch; must be 0 or 1"),
        (
            "[a]\nrwmixread=101\n",
            "job.fio:2:11: rwmixread: `101` is out of range; must be 0 to 100 (%)",
        ),
        ("[a]\nprioclass=rt\n", "job.fio:2:11: prioclass: `rt` is no number; must be 0 to 3"),
        (
            "[a]\nsync=maybe\n",
            "job.fio:2:6: sync: `maybe` is no choice; must be one of none 0 sync 1 dsync",
        ),
        (
            "[a]\nrw=foo\n",
            "job.fio:2:4: rw: `foo` is no direction; must be one of read write trim randread randwrite randtrim rw readwrite randrw trimwrite randtrimwrite",
        ),
        (
            "[a]\nbsrange=4k\n",
            "job.fio:2:9: bsrange: `4k` is no range; must be two sizes such as `4k-64k`",
        ),
        (
            "[a]\nbsrange=512/25\n",
            "job.fio:2:9: bsrange: `512/25` is no range; must be two sizes such as `4k-64k`",
        ),
        (
            "[global]\nioengine=nbd\nuri=nbd://x\n[a]\nrw=read\n",
            "job.fio:2:10: ioengine: `nbd` is not supported: it talks to a storage service, not to a block device; use io_uring",
        ),
        (
            "[a]\nbssplit=4k/60:64k/50\n",
            "job.fio:2:9: bssplit: the shares add up to 110 %; must be 100 % at most",
        ),
        (
            "[a]\nrandom_distribution=zoned:60/10\n",
            "job.fio:2:21: random_distribution: the shares of accesses add up to 60 %; must be 100 %",
        ),
        (
            "[a]\nrandom_distribution=zipf:1\n",
            "job.fio:2:21: random_distribution: theta 1 is out of range; must be 0 or more, and not 1",
        ),
        (
            "[a]\nrandom_distribution=sequence:\n",
            "job.fio:2:21: random_distribution: `` has 0 blocks; must be 1 to 65536, such as sequence:0,2,1,3",
        ),
        (
            "[a]\npercentile_list=99:101\n",
            "job.fio:2:17: percentile_list: `101` is out of range; must be 0 to 100",
        ),
        ("[a]\ninclude\n", "job.fio:2:1: include: names no file; write `include common.fio`"),
        (
            "[a]\ninclude x.fio\n",
            "job.fio:2:1: include: cannot read `x.fio` (No such file or directory); the name is relative to the including file",
        ),
        (
            "[a]\nsize=1m\nbs=2m\n",
            "job.fio:2:6: size: 1048576 bytes hold no I/O of 2097152; must be 2097152 or more",
        ),
        ("[a]\nrate=1m\nrate_iops=5\n", "job.fio:2:6: rate: excludes rate_iops; give one of them"),
        (
            "[a]\nrate=1m\nrate_min=2m\n",
            "job.fio:3:10: rate_min: 2097152 is above the limit of 1048576 that the job may not pass; must be lower",
        ),
        (
            "[a]\nwait_for=b\n[b]\n",
            "job.fio:2:10: wait_for: no job `b` above this one; must name an earlier section",
        ),
        (
            "[a]\nnumjobs=0\n",
            "job.fio:2:9: numjobs: `0` is out of range; must be 1 to 131072 (jobs)",
        ),
    ] {
        assert_eq!(parsed(text).expect_err(text), [line], "{text}");
    }
}

#[test]
fn every_error_is_reported() {
    let text = "[global]\nbs=4x\nfoo=\n[a]\nrw=foo\ndirect=2\n[b]\ndirect=2\n";
    let places: Vec<String> = parsed(text)
        .unwrap_err()
        .iter()
        .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        places,
        [
            "job.fio:2:4 bs",
            "job.fio:3:1 foo",
            "job.fio:5:4 rw",
            "job.fio:6:8 direct",
            "job.fio:8:8 direct"
        ]
    );
    let missing = parse(&mut MemorySource::one("x", ""), "none.fio").unwrap_err();
    assert_eq!(
        missing[0].to_string(),
        "none.fio:1:1: cannot read the job file (No such file or directory)"
    );
}

#[test]
fn code_can_tell_complaints_apart_without_reading_them() {
    let kinds = |options: &str| -> Vec<Problem> {
        let text = format!("[a]\n{options}\n");
        let mut source = MemorySource::one("a.fio", &text);
        match parse(&mut source, "a.fio") {
            Ok(parsed) => parsed.warnings.iter().map(|warning| warning.problem).collect(),
            Err(errors) => errors.iter().map(|error| error.problem).collect(),
        }
    };
    for (options, expected) in [
        ("bss=4k", Problem::Unknown),
        ("bs=x", Problem::NotANumber),
        ("bs=4y", Problem::UnknownUnit),
        ("bs=0", Problem::OutOfRange),
        ("rw=sideways", Problem::NoChoice),
        ("bsrange=4k", Problem::Malformed),
        ("bs", Problem::Missing),
        ("percentile_list=1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21", Problem::TooMany),
        ("ioengine=net", Problem::Unsupported),
        ("rate=1m\nrate_iops=10", Problem::Conflict),
        ("include gone.fio", Problem::File),
        ("direct=1\nruntime=5sec", Problem::Differs),
        ("rw=read", Problem::WithoutCache),
        ("ioengine=mmap", Problem::WithoutCache),
    ] {
        assert_eq!(kinds(options).first(), Some(&expected), "{options}");
    }
    // The kind of a warning, not its text, decides whether a page cache makes it inapplicable.
    let mut parsed =
        parse(&mut MemorySource::one("a.fio", "[a]\nrw=read\nbs=4k\nruntime=5sec\n"), "a.fio")
            .unwrap();
    assert!(parsed.with_cache().unwrap());
    assert!(
        parsed.warnings.iter().all(|warning| warning.problem == Problem::Differs),
        "{:?}",
        parsed.warnings
    );
}
