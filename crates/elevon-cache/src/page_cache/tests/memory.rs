//! Sources of memory: file pages, programs' idle pages, and the case that there is none.

use super::*;
use crate::replace::{POLICIES, Version};

fn policy(name: &'static str) -> impl FnOnce(&mut CacheConfig) {
    move |config| config.policy = ReplacementConfig::parse(name).expect("a policy")
}

/// Does a call without checking the whole state after each step.
fn quick(cache: &mut PageCache, open: OpenId, kind: CallKind, page: u64) {
    let called = cache.call(T0, call(open, kind, page * PAGE, PAGE));
    while let Some(io) = cache.poll_io(T0) {
        cache.complete(T0, io.token, Status::Ok, Nanos::ZERO);
    }
    assert_eq!(cache.poll_done().is_some(), called == Called::Wait);
}

/// Lets reads and faults read no page but their own.
fn read_single_pages(cache: &mut PageCache, open: OpenId) {
    for kind in [CallKind::Fadvise(Advice::Random), CallKind::Madvise(Advice::Random)] {
        run(cache, T0, call(open, kind, 0, 0));
    }
}

#[test]
fn idle_memory_makes_room_for_files_where_there_is_zram() {
    for name in POLICIES {
        let [without, with] = [0, 12 * MIB].map(|zram| {
            let (mut cache, open) = cache(32, 8192, |config| {
                policy(name)(config);
                (config.reserved, config.idle) = (Bytes::new(16 * MIB), Bytes::new(12 * MIB));
                config.zram = Bytes::new(zram);
            });
            read_single_pages(&mut cache, open);
            // Slightly more than memory holds is read repeatedly, most of it through a mapping.
            for n in 0..40_000u64 {
                let page = n * 7 % 4800;
                let kind =
                    if n % 3 == 0 { CallKind::Read } else { CallKind::Fault { write: false } };
                quick(&mut cache, open, kind, page);
            }
            cache.self_check();
            let programs = *cache.resident().programs();
            let reserved = cache.resident().reserved() as i64 - 4096;
            assert_eq!(
                reserved,
                programs.swap.used.div_ceil(3) as i64 - programs.swap.used as i64,
                "{name}"
            );
            assert_eq!(programs.idle + programs.swap.used, 3072);
            (cache.resident().stats().inserted, programs.swap.used)
        });
        let is_blind = matches!(name, "s3-fifo" | "sieve");
        assert_eq!((without.1, with.1 > 1000), (0, !is_blind), "{name}: {with:?}");
        assert!(is_blind || with.0 < without.0, "{name}: {without:?} {with:?}");
    }
}

#[test]
fn an_idle_program_ends_before_young_pages_go() {
    let (mut cache, open) = cache(16, 4096, |config| {
        let min_ttl = Nanos::from_secs(2);
        config.policy = ReplacementConfig::Mglru { version: Version::V6_1, min_ttl };
        (config.reserved, config.idle) = (Bytes::new(9 * MIB), Bytes::new(8 * MIB));
    });
    read_single_pages(&mut cache, open);
    let (mut now, mut killed) = (T0, 0);
    for page in 0..4000 {
        let wanted = call(open, CallKind::Read, page * PAGE, PAGE);
        let mut is_done = matches!(cache.call(now, wanted), Called::Done(_));
        loop {
            while let Some(io) = cache.poll_io(now) {
                cache.complete(now, io.token, Status::Ok, Nanos::ZERO);
            }
            is_done |= cache.poll_done().is_some();
            if is_done {
                break;
            }
            now = now.max(cache.next_timer().expect("it looks for memory"));
            cache.handle_timers(now);
        }
        let evicted = cache.resident().stats().evicted;
        assert!(evicted == 0 || now >= T0 + Nanos::from_secs(2), "page {page} at {now:?}");
        let kills = cache.stats().oom_kills;
        assert!(kills - killed <= 1);
        killed = kills;
    }
    // All eight programs were killed, and then only waiting was left.
    assert_eq!(
        (killed, cache.resident().programs().idle, cache.resident().reserved()),
        (8, 0, 256)
    );
    assert!(cache.resident().stats().evicted > 0 && cache.stats().waits(Cause::Memory).count > 0);
    assert_eq!(cache.stats().out_of_memory, 0);
}

#[test]
fn who_finds_no_memory_waits_a_jiffy_or_for_writeback() {
    for (is_writing, wait) in [(false, 4), (true, 100)] {
        let (mut cache, open) = cache(4, 4096, |config| {
            let min_ttl = Nanos::from_millis(150);
            config.policy = ReplacementConfig::Mglru { version: Version::V6_1, min_ttl };
        });
        read_single_pages(&mut cache, open);
        let mut held = Vec::new();
        if is_writing {
            run(&mut cache, T0, call(open, CallKind::Write, 0, PAGE));
            assert_eq!(
                cache.call(T0, Call { task: TaskId(1), ..call(open, CallKind::Fsync, 0, 0) }),
                Called::Wait
            );
            held = bios(&mut cache, T0);
        }
        let starved = (1..1024).find(|&page| {
            let is_done = matches!(
                cache.call(T0, call(open, CallKind::Read, page * PAGE, PAGE)),
                Called::Done(_)
            );
            while let Some(io) = cache.poll_io(T0) {
                cache.complete(T0, io.token, Status::Ok, Nanos::ZERO);
            }
            !is_done && cache.poll_done().is_none()
        });
        // Half of the lowest reserve is not available to the page cache.
        assert!((980..1024).contains(&starved.expect("memory ends")), "{starved:?}");
        assert_eq!(cache.next_timer(), Some(ms(wait)));
        if is_writing {
            // The write has finished, and its page is as young as all others.
            cache.complete(ms(1), held[0].0.token, Status::Ok, Nanos::ZERO);
            assert_eq!(cache.next_timer(), Some(ms(1 + 4)));
        }
        while !core::iter::from_fn(|| cache.poll_done()).any(|done| done.task == TaskId(0)) {
            let now = cache.next_timer().expect("it looks again");
            cache.handle_timers(now);
            drain(&mut cache, now);
            assert!(now <= ms(160));
        }
        let waits = cache.stats().waits(Cause::Memory);
        let least = Nanos::from_millis(150);
        assert!(
            waits.iowait >= least && waits.iowait <= least + Nanos::from_millis(8),
            "{:?}",
            waits.iowait
        );
    }
}

/// Only reclaim leaves a shadow, as in `__remove_mapping`.
#[test]
fn what_was_cut_off_or_not_wanted_is_no_refault() {
    let cut = |kind, offset| {
        move |cache: &mut PageCache, open| _ = run(cache, ms(1), call(open, kind, offset, 0))
    };
    type Act = alloc::boxed::Box<dyn Fn(&mut PageCache, OpenId)>;
    let acts: [(Act, bool); 5] = [
        (alloc::boxed::Box::new(|_: &mut PageCache, _| {}), true),
        (alloc::boxed::Box::new(cut(CallKind::Fadvise(Advice::DontNeed), 0)), false),
        (alloc::boxed::Box::new(cut(CallKind::Invalidate, 0)), false),
        (alloc::boxed::Box::new(cut(CallKind::DropCaches, 0)), false),
        (alloc::boxed::Box::new(cut(CallKind::Truncate, 0)), false),
    ];
    for (n, (act, is_refault)) in acts.iter().enumerate() {
        let (mut cache, open) = cache(8, 4096, |config| config.policy = ReplacementConfig::Classic);
        for page in 0..1500 {
            quick(&mut cache, open, CallKind::Read, page);
        }
        cache.set_reserved(ms(1), Bytes::new(4 * MIB));
        cache.set_reserved(ms(1), Bytes::ZERO);
        let evicted = cache.resident().pages().shadows();
        assert!(evicted > 100, "{evicted}");
        act(&mut cache, open);
        assert_eq!(cache.resident().pages().shadows() > 0, *is_refault, "act {n}");
        run(&mut cache, ms(2), call(open, CallKind::Truncate, 4096 * PAGE, 0));
        run(&mut cache, ms(2), call(open, CallKind::Fault { write: false }, 0, 1));
        assert_eq!(cache.resident().stats().refaulted > 0, *is_refault, "act {n}");
        cache.self_check();
    }
}

#[test]
fn kswapd_writes_where_it_meets_nothing_but_dirty_pages() {
    for (name, is_written) in [("classic", true), ("mglru-6.1", false)] {
        let (mut cache, open) = cache(8, 4096, |config| {
            policy(name)(config);
            (config.dirty.dirty, config.dirty.background) = (100, 100);
        });
        // The flusher's bios are not submitted meanwhile.
        for task in 0..80 {
            let write = call(open, CallKind::Write, u64::from(task) * 32 * PAGE, 32 * PAGE);
            let now = ms(u64::from(task) * 150);
            _ = cache.call(now, Call { task: TaskId(task), token: u64::from(task), ..write });
            cache.handle_timers(now);
        }
        (0..100).for_each(|step| cache.handle_timers(ms(12_000 + step * 50)));
        assert_eq!(cache.stats().kswapd_written > 0, is_written, "{name}");
        let own = cache.poll_io(ms(17_000)).expect("the flusher's, or kswapd's");
        let flags = if is_written { Flags::NONE } else { Flags::BACKGROUND };
        assert_eq!((own.op, own.flags), (Op::Write, flags), "{name}");
        cache.complete(ms(17_000), own.token, Status::Ok, Nanos::ZERO);
        let mut now = ms(17_000);
        while !cache.is_idle() {
            drain(&mut cache, now);
            while cache.poll_done().is_some() {}
            now = now.max(cache.next_timer().unwrap_or(now));
            cache.handle_timers(now);
        }
        cache.self_check();
    }
}

#[test]
fn who_waits_for_memory_does_not_give_it_to_readahead() {
    // The window around the page is larger than memory, and the page is in its middle.
    let (mut cache, open) =
        cache(1, 4096, |config| (config.ra_pages, config.io_pages) = (1024, 1024));
    cache.map(open);
    let touch = call(open, CallKind::Fault { write: false }, 2048 * PAGE, PAGE);
    assert_eq!(cache.call(T0, touch), Called::Wait);
    let ahead = bios(&mut cache, T0);
    assert!(
        ahead
            .iter()
            .all(|(io, first, pages)| io.flags.contains(Flags::RAHEAD) && first + pages <= 2048)
    );
    let (io, ..) = ahead[0];
    cache.complete(ms(1), io.token, Status::Ok, Nanos::ZERO);
    let alone = bios(&mut cache, ms(1));
    assert_eq!(
        alone.iter().map(|&(io, first, pages)| (io.flags, first, pages)).collect::<Vec<_>>(),
        [(Flags::NONE, 2048, 1)]
    );
}
