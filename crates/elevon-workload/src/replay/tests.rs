use super::*;

const MS: u64 = 1_000_000;

pub(crate) fn io(after: u64, think_ms: u64) -> ReplayIo {
    ReplayIo {
        after,
        think: Nanos::from_millis(think_ms),
        own: Nanos::ZERO,
        op: Op::Read,
        flags: Flags::NONE,
        sector: Sector::new(8),
        bytes: Bytes::new(4096),
        bio_ends: 0,
        ioprio: IoPrio::NONE,
        joins: false,
        is_refused: false,
        continues: false,
        section: None,
        follows: None,
        is_flushed: false,
    }
}

fn replayed(ios: Vec<ReplayIo>) -> Replayed {
    let script = Script { number: 7, ios, ..Script::default() };
    let mut process =
        Replayed::new(script, TaskId(0), TenantId(0), 64, &mut |_, _, _, _| LayoutId(0));
    process.start(Instant::ZERO);
    process
}

/// Runs a process on a device that completes each I/O after `latency` ms. Returns the times in ms
/// at which I/Os were issued, and the maximum number in flight.
fn run(process: &mut Replayed, latency: u64) -> (Vec<u64>, usize) {
    let (mut now, mut went, mut under_way, mut most) =
        (Instant::ZERO, Vec::new(), VecDeque::new(), 0);
    loop {
        match process.poll(now) {
            Poll::Submit(_) => {
                while let Some(io) = process.take() {
                    process.on_submitted(now, false);
                    went.push(now.get() / MS);
                    under_way
                        .push_back((now.saturating_add(Nanos::from_millis(latency)), io.token));
                }
                most = most.max(under_way.len());
            }
            Poll::Done => return (went, most),
            Poll::Wait => {
                let over = under_way.front().map(|&(at, _)| at).unwrap_or(Instant::MAX);
                let wake = process.next_wakeup().unwrap_or(Instant::MAX);
                now = over.min(wake);
                assert!(now < Instant::MAX, "it waits for nothing");
                if over == now
                    && let Some((_, token)) = under_way.pop_front()
                {
                    process.complete(now, token, Status::Ok);
                }
            }
        }
    }
}

#[test]
fn in_an_open_loop_times_are_kept_whatever_the_device_does() {
    let ios = || [0, 1, 1, 5, 20].map(|at| io(0, at)).to_vec();
    for latency in [1, 7, 100] {
        let mut process = replayed(ios());
        let (went, most) = run(&mut process, latency);
        assert_eq!(went, [0, 1, 1, 5, 20], "{latency}");
        assert_eq!(
            most,
            if latency == 1 {
                2
            } else if latency == 7 {
                4
            } else {
                5
            }
        );
        assert_eq!(process.deviations(), Deviations::default());
        assert_eq!(process.stats().directions[0].ios, 5);
    }
}

#[test]
fn in_a_closed_loop_an_io_waits_for_as_many_completions() {
    // One I/O at a time, with 2 ms of think time.
    let ios = (0..4).map(|n| io(n, if n == 0 { 0 } else { 2 })).collect();
    assert_eq!(run(&mut replayed(ios), 10), (vec![0, 12, 24, 36], 1));
    // Four I/Os at a time; each completion is followed by an I/O.
    let ios: Vec<_> = (0..12u64).map(|n| io(n.saturating_sub(3), 0)).collect();
    for latency in [1, 10] {
        let (went, most) = run(&mut replayed(ios.clone()), latency);
        assert_eq!(most, 4);
        assert_eq!(went.last(), Some(&(2 * latency)));
    }
}

#[test]
fn an_io_that_follows_more_than_there_was_goes_when_all_is_over() {
    let ios = vec![io(1, 0), io(5, 3), io(6, 3)];
    assert_eq!(run(&mut replayed(ios), 10), (vec![0, 10, 20], 1));
}

#[test]
fn what_is_refused_counts_as_completed() {
    let mut ios: Vec<_> = (0..3).map(|n| io(n, 1)).collect();
    ios[1].op = Op::Write;
    let mut script = Script { ios, ..Script::default() };
    assert_eq!(script.refuse_writes(), 1);
    let mut process = replayed(script.ios);
    assert_eq!(run(&mut process, 10), (vec![1, 13], 1));
    assert_eq!(process.stats().directions[1].ios, 0);
}

/// Three writes of the page cache, 1 ms apart. The process sleeps for the first until 5 ms.
#[test]
fn a_write_that_continues_keeps_its_distance_from_one_that_slept() {
    for (continues, second) in [(true, 6), (false, 5)] {
        let mut ios = vec![io(0, 0), io(0, 1), io(0, 2)];
        ios[1..].iter_mut().for_each(|io| io.continues = continues);
        let mut process = replayed(ios);
        assert_eq!(process.poll(Instant::ZERO), Poll::Submit(1));
        process.take().expect("an I/O");
        process.on_submitted(Instant::ZERO, true);
        process.unblocked(Instant::new(5 * MS));
        let mut went = Vec::new();
        for ms in 5..9 {
            let now = Instant::new(ms * MS);
            while process.poll(now) == Poll::Submit(1) {
                process.take().expect("an I/O");
                process.on_submitted(now, false);
                went.push(ms);
            }
        }
        assert_eq!(went, [second, if continues { 7 } else { 5 }], "continues: {continues}");
    }
}

#[test]
fn a_batch_goes_together() {
    let mut ios = vec![io(0, 3), io(0, 3), io(0, 3), io(0, 4)];
    (ios[1].joins, ios[2].joins) = (true, true);
    let mut process = replayed(ios);
    assert_eq!(process.poll(Instant::ZERO), Poll::Wait);
    assert_eq!(process.poll(Instant::new(3 * MS)), Poll::Submit(3));
    assert!(process.plugs(2) && !process.plugs(1));
}

#[test]
fn a_sleep_for_a_tag_makes_the_next_io_late() {
    let mut process = replayed(vec![io(0, 0), io(0, 1)]);
    let start = Instant::ZERO;
    assert_eq!(process.poll(start), Poll::Submit(1));
    let first = process.take().expect("an I/O").token;
    process.on_submitted(start, true);
    let now = Instant::new(5 * MS);
    assert_eq!(process.poll(now), Poll::Wait);
    process.unblocked(now);
    process.complete(now, first, Status::Ok);
    assert_eq!(process.poll(now), Poll::Submit(1));
    assert_eq!(process.deviations().late, 1);
    assert_eq!(process.deviations().latest, Nanos::from_millis(4));
    let second = process.take().expect("an I/O").token;
    process.on_submitted(now, false);
    process.complete(Instant::new(6 * MS), second, Status::Ok);
    let read = &process.stats_at(Instant::new(6 * MS)).directions[0];
    assert_eq!(
        (read.clat.min, read.lat.sum),
        (MS, u128::from(10 * MS)),
        "5 ms each from when they were due"
    );
}

#[test]
fn it_begins_again_until_its_time_has_passed() {
    let script = Script {
        ios: (0..2).map(|n| io(n, 0)).collect(),
        repeat_until: Some(Nanos::from_millis(95)),
        ..Script::default()
    };
    let mut process =
        Replayed::new(script, TaskId(0), TenantId(0), 64, &mut |_, _, _, _| LayoutId(0));
    process.start(Instant::ZERO);
    assert_eq!(run(&mut process, 10).0, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    assert_eq!(process.ended(), Some(Instant::new(100 * MS)), "what is in flight still completes");
}

/// A burst of three I/Os each second, on devices that are a little slower and faster than the one
/// that was traced: each burst counts once.
#[test]
fn a_burst_near_the_end_of_its_time_is_neither_cut_off_nor_repeated() {
    let ios: Vec<ReplayIo> =
        (0..9).map(|n| io(n / 3 * 3, if n % 3 == 0 && n > 0 { 1000 } else { 0 })).collect();
    let ended = |latency| {
        let repeat_until = Some(Nanos::from_millis(2030));
        let script = Script {
            ios: ios.clone(),
            repeat_until,
            slack: Nanos::from_millis(100),
            ..Script::default()
        };
        let mut process =
            Replayed::new(script, TaskId(0), TenantId(0), 64, &mut |_, _, _, _| LayoutId(0));
        process.start(Instant::ZERO);
        let (starts, _) = run(&mut process, latency);
        (starts.len(), process.ended())
    };
    let at = |ms: u64| Some(Instant::new(ms * MS));
    assert_eq!(
        [9, 10, 20, 43].map(ended),
        [(9, at(2027)), (9, at(2030)), (9, at(2060)), (9, at(2129))]
    );
    assert_eq!(ended(70).0, 6, "far behind, the last burst is left");
    assert_eq!(ended(0).0, 9, "no burst of a second pass");
}

#[test]
fn errors_are_counted_and_end_nothing() {
    let mut process = replayed(vec![io(0, 0), io(1, 0), io(2, 0)]);
    for status in [Status::Medium, Status::NotSupported, Status::Ok] {
        assert_eq!(process.poll(Instant::ZERO), Poll::Submit(1));
        let token = process.take().expect("an I/O").token;
        process.on_submitted(Instant::ZERO, false);
        process.complete(Instant::ZERO, token, status);
    }
    assert_eq!(process.poll(Instant::ZERO), Poll::Done);
    let stats = process.stats();
    assert_eq!((stats.directions[0].ios, stats.directions[0].errors), (1, 1));
    assert_eq!((stats.error, process.deviations().unsupported), (Status::Medium.errno(), 1));
}

#[test]
fn places_beyond_the_device_are_taken_modulo_its_size() {
    let mut ios = vec![io(0, 0), io(0, 0), io(0, 0), io(0, 0)];
    ios[1].sector = Sector::new(2048 + 16);
    ios[2].sector = Sector::new(2047);
    (ios[3].sector, ios[3].bytes) = (Sector::new(3), Bytes::new(4 << 20));
    let mut script = Script { ios, ..Script::default() };
    let fitted = script.fit(Bytes::new(1 << 20), 4096);
    let places: Vec<_> = script.ios.iter().map(|io| (io.sector.get(), io.bytes.get())).collect();
    // The third I/O is unaligned and extends past the end; the last is larger than the device.
    assert_eq!(places, [(8, 4096), (16, 4096), (2032, 8192), (0, 1 << 20)]);
    assert_eq!(fitted, FitChanges { moved: 2, widened: 2, shortened: 1 });
}

#[test]
fn a_pace_is_kept_over_all_passes() {
    let script = Script {
        ios: (0..2).map(|n| io(n, 0)).collect(),
        repeat_until: Some(Nanos::from_millis(95)),
        period: Nanos::from_millis(30),
        ..Script::default()
    };
    let mut process =
        Replayed::new(script, TaskId(0), TenantId(0), 64, &mut |_, _, _, _| LayoutId(0));
    process.start(Instant::ZERO);
    assert_eq!(run(&mut process, 10).0, [0, 30, 60, 90]);
}

/// A job of fio with `rate_iops=50` and `iodepth=4` on a device that takes 50 ms for each I/O: the
/// instants are those of [`crate::process`] and of fio 3.33.
#[test]
fn a_process_ahead_of_its_pace_waits_for_its_ios_before_it_sleeps() {
    let script = Script {
        ios: (0..10_u64).map(|n| io(n.saturating_sub(3), 0)).collect(),
        period: Nanos::from_millis(20),
        drains: true,
        ..Script::default()
    };
    let starts = |script: Script| {
        let mut process =
            Replayed::new(script, TaskId(0), TenantId(0), 64, &mut |_, _, _, _| LayoutId(0));
        process.start(Instant::ZERO);
        let (starts, _) = run(&mut process, 50);
        // It sleeps by its own choice: nothing is late by that.
        assert_eq!(
            (process.deviations().late, process.stats().directions[0].lat.max),
            (0, 50 * MS)
        );
        starts
    };
    assert_eq!(starts(script.clone()), [0, 70, 70, 70, 130, 130, 130, 190, 190, 190]);
    assert_eq!(
        starts(Script { drains: false, ..script }),
        [0, 20, 40, 60, 80, 100, 120, 140, 160, 180]
    );
}
