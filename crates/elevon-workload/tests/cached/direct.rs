//! Direct I/O beside the page cache of the same file.

use super::*;

#[test]
fn direct_io_of_a_cached_file_meets_what_is_cached() {
    let writer = job("w", writes);
    let reader = job("direct", |s| {
        s.caching.direct = true;
        s.order.stonewall = true;
        s.caching.invalidate = false;
    });
    let ran = go(&[writer.clone(), reader]);
    assert_eq!(
        (ran.bytes(Op::Write), ran.bytes(Op::Read)),
        (MIB, MIB),
        "dirty pages are written first"
    );
    assert_eq!(ran.cached.cache().resident().pages().used(), 256, "and stay");

    let over = job("direct", |s| {
        writes(s);
        s.caching.direct = true;
        s.order.stonewall = true;
    });
    let ran = go(&[writer, over]);
    assert_eq!((ran.bytes(Op::Write), ran.cached.cache().resident().pages().used()), (2 * MIB, 0));

    let other = job("other", |s| {
        s.caching.direct = true;
        s.files.names = vec!["another".into()];
    });
    let ran = go(&[other]);
    assert_eq!(
        ran.nanos(0),
        256 * (LATENCY + 5_000),
        "a file that nobody caches costs what it did"
    );
}

#[test]
fn direct_and_buffered_io_of_a_file_share_few_tags() {
    let direct = |name: &str, edit: fn(&mut JobSpec)| {
        job(name, |s| {
            (s.caching.direct, s.rw.random) = (true, true);
            edit(s);
        })
    };
    let specs = [
        direct("trims", |s| s.rw = Rw { read: false, trim: true, random: true, ..Rw::default() }),
        direct("writes", |s| {
            s.rw = Rw { read: false, write: true, random: true, ..Rw::default() };
            engine(s, "libaio", true);
            (s.queue.depth, s.queue.low) = (8, 8);
        }),
        job("buffered", |s| {
            writes(s);
            engine(s, "libaio", true);
            (s.queue.depth, s.queue.low, s.rw.random, s.numjobs, s.durability.fsync) =
                (8, 8, true, 3, 16);
        }),
    ];
    for depth in [1, 2, 4] {
        let ran = go_with(&specs, config(16 * MIB), depth);
        let bytes: u64 =
            ran.outcome.jobs.iter().flat_map(|job| &job.stats.directions).map(|d| d.bytes).sum();
        assert_eq!(bytes, 5 * MIB);
    }
}

/// A page that is read during a direct write of it may have the old content. It is dropped when the
/// write has finished, although nothing was cached when the write began.
#[test]
fn what_is_read_under_a_direct_write_is_not_kept() {
    let page = |spec: &mut JobSpec| spec.space.size = Some(Amount::Bytes(4096));
    let writer = job("writer", |s| {
        page(s);
        writes(s);
        s.caching.direct = true;
    });
    let reader = job("reader", |s| {
        page(s);
        let late = Nanos::new(LATENCY / 2);
        (s.caching.invalidate, s.timing.start_delay) = (false, (late, late));
    });
    let again = job("again", |s| {
        page(s);
        (s.caching.invalidate, s.order.stonewall) = (false, true);
    });
    let ran = go(&[writer, reader, again]);
    let began: Vec<_> =
        ran.device.commands.iter().map(|(at, command)| (command.op, *at < LATENCY)).collect();
    assert_eq!(began, [(Op::Write, true), (Op::Read, true), (Op::Read, false)]);
}

#[test]
fn a_direct_write_leaves_no_page_that_a_reader_could_find() {
    // Both jobs use the same file at the same time, and no page is dirty. The reader's cached pages
    // are dropped before and after each write.
    let reader = job("reader", |s| {
        s.rw.random = true;
        s.timing.time_based = true;
        s.timing.runtime = Nanos::from_millis(40);
    });
    let over = job("over", |s| {
        writes(s);
        s.caching.direct = true;
        s.timing.loops = 1;
    });
    let ran = go(&[reader, over]);
    let writes = ran.device.commands.iter().filter(|(_, command)| command.op == Op::Write);
    // A page that was written is read again if it is read at all after the write. A read older than
    // the write must not serve a later reader: the cache holds only pages read after their last
    // write.
    let mut last_write = std::collections::BTreeMap::new();
    for (at, command) in writes {
        last_write.insert(command.sector.get(), *at);
    }
    let mut last_read = std::collections::BTreeMap::new();
    for (at, command) in ran.device.commands.iter().filter(|(_, command)| command.op == Op::Read) {
        for page in 0..command.bytes.get() / 4096 {
            last_read.insert(command.sector.get() + page * 8, *at);
        }
    }
    let cached = ran.cached.cache().resident().pages();
    let mut at = PageIndex::ZERO;
    let mut found = 0;
    while let Some((index, _)) = cached.next(elevon_cache::FileId(0), at) {
        let sector = index.get() * 8;
        assert!(
            last_read[&sector] >= last_write[&sector] + LATENCY,
            "{index:?} is older than the device: {} {}",
            last_read[&sector],
            last_write[&sector]
        );
        (at, found) = (index.next(), found + 1);
    }
    assert!(found > 50, "{found} pages");
}
