//! Tests the effect of every rule, that every command ends once, that faults of data do not change
//! timing, and power cuts against the oracle.

use std::collections::btree_map::Entry;

use elevon_core::op::Flags;

use super::oracle::Oracle;
use super::*;
use crate::device::closed_loop::{ClosedLoop, closed_loop, command, read_command};
use crate::device::{AnyDevice, Hdd, HddParameters, parse_model};

fn device() -> AnyDevice {
    parse_model("slots:slots=4,latency=100us,bandwidth=1000MB/s,size=64MiB").unwrap().build(1)
}

fn faulty(rules: &[&str]) -> Fault<AnyDevice> {
    Fault::parse(device(), 7, rules).unwrap()
}

/// One read of 4 KiB with nothing else in flight. Returns its end, status and bytes.
fn one(device: &mut Fault<AnyDevice>, at: u64, command: &Command) -> (u64, Status, u64) {
    assert_eq!(device.submit(Instant::new(at), command), Accept::Ok);
    loop {
        let now = device.next_event().unwrap();
        if let Some(done) = device.poll(now) {
            return (now.get() - at, done.status, done.bytes.get());
        }
    }
}

const TOOK: u64 = 100_000 + 4_096;

#[test]
fn without_rules_nothing_changes() {
    let plan = ClosedLoop { depth: 8, ..ClosedLoop::default() };
    assert_eq!(closed_loop(&mut faulty(&[]), &plan), closed_loop(&mut device(), &plan));
    let mut tracked = faulty(&[]);
    tracked.track_content();
    assert_eq!(closed_loop(&mut tracked, &plan), closed_loop(&mut device(), &plan));
}

#[test]
fn errors_by_range_say_how_far_they_got() {
    let mut device = faulty(&["error:sectors=1000-2000,status=medium,op=read"]);
    for (sector, status, bytes) in [
        (992, Status::Ok, 4096),
        (996, Status::Medium, 2048),
        (1000, Status::Medium, 0),
        (2000, Status::Medium, 0),
        (2001, Status::Ok, 4096),
    ] {
        assert_eq!(
            one(&mut device, sector << 20, &read_command(0, sector, 4096)),
            (TOOK, status, bytes),
            "{sector}"
        );
    }
    assert_eq!(one(&mut device, 1 << 40, &command(0, Op::Write, 1000, 4096)).1, Status::Ok);
    let fired: Vec<_> =
        device.log().iter().map(|fired| (fired.at.get() >> 20, fired.rule)).collect();
    assert_eq!(fired, [(996, "error"), (1000, "error"), (2000, "error")]);
}

#[test]
fn errors_by_probability_come_as_often_as_they_should_and_move_no_clock() {
    let plan = ClosedLoop { depth: 4, ios: 200_000, ..ClosedLoop::default() };
    let good = closed_loop(&mut device(), &plan);
    let mut device = faulty(&["error:ppm=10000", "transport:ppm=1000"]);
    let bad = closed_loop(&mut device, &plan);
    assert!((2_000..2_400).contains(&bad.errors), "{}", bad.errors);
    assert_eq!(device.fired(), bad.errors);
    assert_eq!((good.elapsed, good.latency_sum, good.ios), (bad.elapsed, bad.latency_sum, bad.ios));
    // The same random seed gives the same faults, and one rule's draws do not affect another's.
    assert_eq!(closed_loop(&mut faulty(&["error:ppm=10000", "transport:ppm=1000"]), &plan), bad);
    let mut alone = faulty(&["error:ppm=10000"]);
    closed_loop(&mut alone, &plan);
    let errors = |device: &Fault<_>| device.log().iter().filter(|f| f.rule == "error").count();
    assert_eq!(errors(&alone), errors(&device));
}

#[test]
fn retries_take_their_time() {
    let mut device = faulty(&["error:sectors=8-8,retry=7s"]);
    assert_eq!(
        one(&mut device, 0, &read_command(0, 8, 4096)),
        (TOOK + 7_000_000_000, Status::Medium, 0)
    );
}

#[test]
fn latent_errors_last_until_they_are_written() {
    let mut device = faulty(&["latent:sectors=100-107"]);
    let mut at = 0;
    let mut go = |device: &mut Fault<_>, op, sector, bytes| {
        at += 1 << 30;
        let (_, status, good) = one(device, at, &command(0, op, sector, bytes));
        (status, good)
    };
    assert_eq!(go(&mut device, Op::Read, 96, 4096), (Status::Medium, 2048));
    assert_eq!(go(&mut device, Op::Read, 96, 4096), (Status::Medium, 2048));
    assert_eq!(go(&mut device, Op::Write, 102, 512), (Status::Ok, 512));
    assert_eq!(go(&mut device, Op::Read, 102, 512), (Status::Ok, 512));
    assert_eq!(go(&mut device, Op::Read, 102, 1024), (Status::Medium, 512));
    assert_eq!(go(&mut device, Op::Write, 96, 8192), (Status::Ok, 8192));
    assert_eq!(go(&mut device, Op::Read, 96, 8192), (Status::Ok, 8192));

    let mut arriving = faulty(&["latent:ppm=2000,run=64"]);
    let plan = ClosedLoop { depth: 4, ios: 50_000, ..ClosedLoop::default() };
    let first = closed_loop(&mut arriving, &plan).errors;
    let again = closed_loop(&mut arriving, &plan).errors;
    assert!(first > 100 && again > first, "{first} {again}");
    // A full rewrite removes all of them.
    let rewrite = ClosedLoop { op: Op::Write, bytes: Bytes::new(1 << 20), ios: 64, ..plan };
    closed_loop(
        &mut arriving,
        &ClosedLoop { order: crate::device::closed_loop::Order::Sequential, ..rewrite },
    );
    assert!(arriving.bad.is_empty());
}

#[test]
fn unrecoverable_bit_errors_come_with_the_bits_read() {
    // One error in 80 Mbit, which is every 10 MB; reads of 64 KiB find sixteen times as many as
    // reads of 4 KiB.
    let plan = ClosedLoop { depth: 1, ios: 20_000, ..ClosedLoop::default() };
    let mut device = faulty(&["uber:bits=80000000"]);
    let small = closed_loop(&mut device, &plan).errors;
    let mut device = faulty(&["uber:bits=80000000"]);
    let large =
        closed_loop(&mut device, &ClosedLoop { bytes: Bytes::new(1 << 16), ios: 2_000, ..plan })
            .errors;
    // The reads have 82 MB and 131 MB; a bad sector that is read again counts again.
    assert!((4..60).contains(&small), "{small}");
    assert!((8..60).contains(&large), "{large}");
    let (found, until) = device
        .bad
        .first_key_value()
        .map(|(&at, &until)| (at, until))
        .expect("an unreadable sector");
    assert_eq!(until, found + 1);
    let mut at = 1 << 50;
    for (op, status) in
        [(Op::Read, Status::Medium), (Op::Write, Status::Ok), (Op::Read, Status::Ok)]
    {
        assert_eq!(one(&mut device, at, &command(0, op, found, 512)).1, status);
        at += 1 << 40;
    }
}

#[test]
fn a_reset_ends_what_is_in_flight_and_takes_its_time() {
    let mut device = faulty(&["reset:every=3,for=5ms", "late:ppm=1000000,by=1s"]);
    let now = Instant::new(1_000_000);
    for id in 0..3 {
        assert_eq!(device.submit(now, &read_command(id, 0, 4096)), Accept::Ok);
    }
    let over = Instant::new(6_000_000);
    assert_eq!(device.next_event(), Some(over));
    let ended: Vec<_> = core::iter::from_fn(|| device.poll(over))
        .map(|done| (done.request.0, done.status))
        .collect();
    assert_eq!(ended, [0, 1, 2].map(|id| (id, Status::Transport)));
    assert_eq!((device.next_event(), device.fired_by_rule()), (None, &[1, 3][..]));
    // A command that arrives during a reset is processed after it.
    let mut device = faulty(&["reset:every=1,for=5ms"]);
    device.submit(now, &read_command(0, 0, 4096));
    device.heal();
    device.poll(over);
    assert_eq!(one(&mut device, 6_000_000, &read_command(1, 0, 4096)), (TOOK, Status::Ok, 4096));
}

/// Three writes of a block each, then a power cut that leaves all completed writes; the device has
/// no cache.
#[test]
fn writes_are_lost_or_land_elsewhere_without_a_word() {
    for (rule, expected) in [
        ("lost_write", Survivors::new()),
        // The last write does not fit at its shifted place.
        ("misdirected:by=16", Survivors::from([(16, 1), (24, 2), (131_055, 3)])),
        ("bit_rot", Survivors::from([(0, 1), (8, 2), (131_071, 3)])),
    ] {
        let mut device = faulty(&[rule]);
        device.track_content();
        for (sequence, sector) in [(0, 0), (1, 8), (2, 131_071)] {
            let write = Command { sequence, ..command(0, Op::Write, sector, 512) };
            let (_, status, bytes) = one(&mut device, sequence << 30, &write);
            assert_eq!((status, bytes), (Status::Ok, 512), "{rule}");
        }
        let left = device.power_cut(Instant::new(1 << 40), PowerCut::KeepAll, 0);
        assert_eq!(left, expected, "{rule}");
    }
}

#[test]
fn a_stall_holds_everything_and_loses_nothing() {
    let plan = ClosedLoop { depth: 4, ios: 10_000, ..ClosedLoop::default() };
    let good = closed_loop(&mut device(), &plan);
    let mut device = faulty(&["stall:every=1000,for=200ms"]);
    let stalled = closed_loop(&mut device, &plan);
    // The last stall starts with the last command, but still counts.
    assert_eq!(stalled.elapsed, good.elapsed + Nanos::from_millis(2_000));
    assert_eq!((stalled.ios, stalled.errors), (10_000, 0));
    assert!(stalled.latency_max >= Nanos::from_millis(200));
}

#[test]
fn a_slow_window_slows_while_it_lasts() {
    let mut device = faulty(&["slow:from=1s,for=1s,factor=10"]);
    for (at, took) in
        [(0, TOOK), (1_000_000_000, 10 * TOOK), (1_500_000_000, 10 * TOOK), (2_000_000_000, TOOK)]
    {
        assert_eq!(one(&mut device, at, &read_command(0, 0, 4096)).0, took, "{at}");
    }
    // The window begins in the middle of the command: the first half is already done.
    let before = TOOK / 2;
    assert_eq!(
        one(
            &mut faulty(&["slow:from=1s,factor=10"]),
            1_000_000_000 - before,
            &read_command(0, 0, 4096)
        )
        .0,
        before * 11
    );
}

#[test]
fn a_lost_completion_waits_for_the_abort() {
    let mut device = faulty(&["no_completion:"]);
    let lost = read_command(0, 0, 4096);
    device.submit(Instant::default(), &lost);
    while let Some(at) = device.next_event() {
        assert_eq!(device.poll(at), None);
    }
    assert!(device.abort(Instant::new(30_000_000_000), &lost));
    assert!(!device.abort(Instant::new(30_000_000_000), &lost));
}

#[test]
fn a_late_completion_refuses_the_abort_and_comes() {
    let mut device = faulty(&["late:by=31s"]);
    let late = read_command(0, 0, 4096);
    device.submit(Instant::default(), &late);
    assert_eq!(device.poll(Instant::new(30_000_000_000)), None);
    assert!(!device.abort(Instant::new(30_000_000_000), &late));
    let at = device.next_event().unwrap();
    assert_eq!(at, Instant::new(31_000_000_000 + TOOK));
    assert_eq!(device.poll(at).unwrap().status, Status::Ok);
}

#[test]
fn busy_lets_a_retry_through() {
    let mut device = faulty(&["busy:ppm=500000"]);
    let mut refused = 0;
    for id in 0..1_000 {
        while device.submit(Instant::default(), &read_command(id, 0, 512)) == Accept::Busy {
            refused += 1;
        }
    }
    assert!((900..1_100).contains(&refused), "{refused}");
}

#[test]
fn flushes_writes_and_whole_devices_fail() {
    let mut device = faulty(&["flush_error:", "readonly:after=1s", "dead:after=2s"]);
    assert_eq!(one(&mut device, 0, &command(0, Op::Flush, 0, 0)).1, Status::IoError);
    assert_eq!(one(&mut device, 0, &command(0, Op::Write, 0, 512)).1, Status::Ok);
    assert_eq!(one(&mut device, 1_000_000_000, &command(0, Op::Write, 0, 512)).1, Status::IoError);
    assert_eq!(one(&mut device, 1_000_000_000, &read_command(0, 0, 512)).1, Status::Ok);
    assert_eq!(one(&mut device, 2_000_000_000 - 1, &read_command(0, 0, 512)).1, Status::Offline);
}

#[test]
fn rules_say_what_would_be_right() {
    for (text, error) in [
        ("eror:ppm=1", "no such kind; `elevon faults` lists them (error, latent, "),
        ("error:", "needs sectors=FIRST-LAST, ppm=1..1000000, or both"),
        (
            "error:sectors=5-1",
            "fault error: `sectors=5-1`: expected FIRST-LAST in 512-byte sectors",
        ),
        ("error:sectors=1,status=bad", "expected one of medium, io, transport"),
        ("error:ppm=2000000", "fault error: `ppm=2000000`: expected a number from 1 to 1000000"),
        ("latent", "needs sectors=FIRST-LAST, ppm=1..1000000, or both"),
        ("latent:ppm=0", "needs sectors=FIRST-LAST, ppm=1..1000000, or both"),
        ("error:ppm=1,op=erase", "fault error: `op=erase`: expected any, read or write"),
        ("misdirected:by=9", "fault misdirected: `by=9`: expected sectors, a multiple of 8"),
        ("uber:bits=1", "fault uber: `bits=1`: expected a number from 4096"),
        ("stall:for=200", "fault stall: `for=200`: expected a time up to 3600s with its unit"),
        ("stall:every=0", "fault stall: `every=0`: expected a number from 1"),
        ("busy:ppm=1000000", "fault busy: `ppm=1000000`: expected a number from 1 to 999999"),
        ("dead:at=1s", "fault dead: unknown key `at`; its keys are after"),
    ] {
        let got = Rule::parse(text).unwrap_err().to_string();
        assert!(got.contains(error), "{text}: {got}");
    }
}

/// Random commands, aborts and all faults together: each accepted command ends exactly once.
#[test]
fn every_command_ends_once() {
    let rules = [
        "error:ppm=20000,retry=1ms",
        "latent:ppm=5000",
        "stall:every=97,for=3ms",
        "slow:from=10ms,for=20ms,factor=3",
        "no_completion:ppm=20000",
        "late:ppm=20000,by=2ms",
        "busy:ppm=100000",
        "flush_error:ppm=300000",
        "transport:ppm=5000",
        "uber:bits=10000000",
        "bit_rot:ppm=5000",
        "lost_write:ppm=5000",
        "misdirected:ppm=5000,by=8",
        "reset:every=61,for=1ms",
    ];
    for seed in 0..20 {
        let mut device = Fault::parse(device(), seed, &rules).unwrap();
        let mut flying: BTreeMap<u32, Command> = BTreeMap::new();
        let (mut now, mut last) = (Instant::default(), Instant::default());
        for step in 0..4_000u64 {
            let chance = draw(seed, 99, step);
            let slot = (chance % 32) as u32;
            if let Some(held) = flying.get(&slot).copied() {
                if chance >> 40 & 7 == 0 && device.abort(now, &held) {
                    assert!(!device.abort(now, &held));
                    flying.remove(&slot);
                }
            } else {
                let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][(chance >> 8 & 3) as usize];
                let bytes = if op == Op::Flush { 0 } else { 512 << (chance >> 16 & 3) };
                let sent = Command {
                    sequence: step,
                    ..command(slot, op, (chance >> 24) % 100_000, bytes)
                };
                if device.submit(now, &sent) == Accept::Ok {
                    flying.insert(slot, sent);
                }
            }
            for _ in 0..chance >> 50 & 1 {
                let Some(at) = device.next_event() else { break };
                assert!(at >= last, "time went back");
                (now, last) = (now.max(at), at);
                while let Some(done) = device.poll(now) {
                    assert!(
                        flying.remove(&done.request.0).is_some(),
                        "seed {seed} step {step}: ended twice"
                    );
                }
            }
        }
        while let Some(at) = device.next_event() {
            now = now.max(at);
            while let Some(done) = device.poll(now) {
                assert!(flying.remove(&done.request.0).is_some());
            }
        }
        // The remaining commands were lost, and the abort finds them.
        assert!(flying.values().all(|lost| device.abort(now, lost)));
    }
}

/// A device that does not carry out its flushes, to check that the oracle detects it.
#[derive(Clone, Copy, PartialEq)]
enum Honesty {
    Honest,
    FlushLies,
    FuaLies,
}

/// Random writes, FUA writes, flushes and power cuts on a disk with a volatile cache. Returns the
/// first violation.
fn cuts(seed: u64, mode: PowerCut, honesty: Honesty) -> Result<(), oracle::Violation> {
    let disk = Hdd::new(&HddParameters { write_cache: true, ..HddParameters::HDD_7200 });
    let mut device =
        Fault::parse(disk, seed, &["error:ppm=20000,op=write", "flush_error:ppm=100000"]).unwrap();
    device.track_content();
    let mut oracle = Oracle::new(512, true);
    let mut flying: BTreeMap<u32, Command> = BTreeMap::new();
    let mut now = Instant::default();
    for step in 0..600u64 {
        let chance = draw(seed, 98, step);
        let slot = (chance % 8) as u32;
        if chance >> 8 & 63 == 0 {
            let left = device.power_cut(now, mode, step);
            flying.clear();
            oracle.power_cut(&left)?;
        } else if let Entry::Vacant(free) = flying.entry(slot) {
            let op = if chance >> 16 & 7 == 0 { Op::Flush } else { Op::Write };
            let fua = if chance >> 20 & 3 == 0 { Flags::FUA } else { Flags::NONE };
            let bytes = if op == Op::Flush { 0 } else { 512 * (1 + (chance >> 24 & 7)) };
            let sent = Command {
                sequence: step,
                flags: fua,
                ..command(slot, op, chance >> 32 & 15, bytes)
            };
            // The content model of a dishonest device ignores the flush or FUA, while the host
            // believes that it was done.
            let told = match honesty {
                Honesty::FlushLies if op == Op::Flush => {
                    Command { op: Op::Read, bytes: Bytes::new(512), ..sent }
                }
                Honesty::FuaLies => Command { flags: Flags::NONE, ..sent },
                _ => sent,
            };
            assert_eq!(device.submit(now, &told), Accept::Ok);
            oracle.on_submit(&sent);
            free.insert(sent);
        }
        if let Some(at) = device.next_event().filter(|_| chance >> 60 > 2) {
            now = now.max(at);
            while let Some(done) = device.poll(now) {
                let ended = flying.remove(&done.request.0).unwrap();
                oracle.on_complete(&ended, done.status);
            }
        }
    }
    Ok(())
}

#[test]
fn what_a_cut_leaves_is_legal() {
    for mode in PowerCut::ALL {
        for seed in 0..12 {
            assert_eq!(cuts(seed, mode, Honesty::Honest), Ok(()), "{mode:?} seed {seed}");
        }
    }
}

#[test]
fn the_oracle_notices_a_device_that_lies() {
    for honesty in [Honesty::FlushLies, Honesty::FuaLies] {
        let noticed =
            (0..12).filter(|&seed| cuts(seed, PowerCut::DropAll, honesty).is_err()).count();
        assert!(noticed > 6, "{noticed} of 12");
    }
}

#[test]
fn legal_generations_by_hand() {
    let mut oracle = Oracle::new(512, true);
    let write = |sequence: u32, flags| Command { flags, ..command(sequence, Op::Write, 0, 512) };
    let plain = |sequence| write(sequence, Flags::NONE);
    oracle.on_submit(&plain(0));
    assert_eq!(oracle.legal(0), [0, 1]);
    oracle.on_complete(&plain(0), Status::Ok);
    assert_eq!(oracle.legal(0), [0, 1]);
    // A flush that was sent before the completion of a write does not cover it.
    let flush = |sequence| command(sequence, Op::Flush, 0, 0);
    oracle.on_submit(&plain(1));
    oracle.on_submit(&flush(2));
    oracle.on_complete(&plain(1), Status::Ok);
    oracle.on_complete(&flush(2), Status::Ok);
    assert_eq!(oracle.legal(0), [1, 2]);
    // A failed flush covers nothing.
    oracle.on_submit(&flush(3));
    oracle.on_complete(&flush(3), Status::IoError);
    assert_eq!(oracle.legal(0), [1, 2]);
    // FUA, with another write in flight: the two have no order, but both follow the rest.
    let fua = write(4, Flags::FUA);
    oracle.on_submit(&fua);
    oracle.on_submit(&plain(5));
    oracle.on_complete(&fua, Status::Ok);
    assert_eq!(oracle.legal(0), [5, 6]);
    assert_eq!(
        oracle.power_cut(&Survivors::from([(0, 2)])),
        Err(oracle::Violation { block: 0, found: 2, legal: vec![5, 6] })
    );
    assert_eq!(oracle.power_cut(&Survivors::from([(0, 6)])), Ok(()));
    assert_eq!(oracle.legal(0), [6]);
    assert_eq!(oracle.legal(1), [0]);
}

#[test]
fn a_device_without_a_cache_loses_only_what_is_in_flight() {
    let mut device = Fault::none(device());
    device.track_content();
    let (done, flying) = (command(0, Op::Write, 0, 1024), command(1, Op::Write, 2, 1024));
    one(&mut device, 0, &done);
    device.submit(Instant::new(1_000_000), &flying);
    let left = device.power_cut(Instant::new(1_000_001), PowerCut::DropAll, 0);
    assert_eq!(left, Survivors::from([(0, 1), (1, 1), (2, 0), (3, 0)]));
    assert_eq!(device.next_event(), None);
}

/// Every row of the table is valid: its example, each of its keys with its default, and its name is
/// the rule's name.
#[test]
fn every_kind_and_key_of_the_table_is_read() {
    for kind in kinds::KINDS {
        let rule =
            Rule::parse(kind.example).unwrap_or_else(|error| panic!("{}: {error}", kind.example));
        assert_eq!(rule.name(), kind.name);
        let (_, given) = kind.example.split_once(':').unwrap_or((kind.example, ""));
        for key in kind.keys {
            let is_given = given.split(',').any(|pair| pair.split('=').next() == Some(key.name));
            let (Some(default), false) = (key.default, is_given) else { continue };
            let text = format!("{}:{given},{}={default}", kind.name, key.name);
            assert_eq!(
                Rule::parse(&text),
                Ok(rule),
                "{text}: the default is not what the table says"
            );
        }
        assert!(kind.effect.ends_with('.') && !kind.counts.is_empty(), "{}", kind.name);
    }
}

/// Each rule counts separately, in the unit that the table states.
#[test]
fn each_rule_counts_its_own() {
    let rules = [
        "error:sectors=8-15",
        "error:sectors=16-23",
        "slow:from=1s,for=1s,factor=2",
        "dead:after=2s",
    ];
    let mut device = faulty(&rules);
    for (at, sector) in
        [(0, 8), (1, 8), (2, 16), (3, 0), (1000, 0), (1500, 0), (2500, 0), (2600, 0)]
    {
        one(&mut device, at * 1_000_000, &read_command(0, sector, 4096));
    }
    assert_eq!(device.fired_by_rule(), [2, 1, 2, 2]);
    assert_eq!(device.fired(), 7);
    assert_eq!(faulty(&["busy"]).fired_by_rule(), [0]);
}

#[test]
fn sectors_beyond_the_device_are_refused() {
    // 64 MiB are 131072 sectors.
    for (rule, is_good) in
        [("sectors=0-131071", true), ("sectors=131000-131072", false), ("sectors=200000", false)]
    {
        for kind in ["error", "latent"] {
            let got = Fault::parse(device(), 1, &[format!("{kind}:{rule}")])
                .map(|_| ())
                .map_err(|e| e.to_string());
            let expected = "expected sectors of the device, 0 to 131071";
            assert_eq!(got.is_ok(), is_good, "{kind}:{rule}");
            assert!(got.err().is_none_or(|error| error.contains(expected)), "{kind}:{rule}");
        }
    }
}
