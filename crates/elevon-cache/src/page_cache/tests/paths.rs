//! The bios of reads, faults, writes and syncs: sizes, flags, order and tenants.

use super::*;

fn vectors(bios: &[(CacheIo, u64, u64)]) -> Vec<(u64, u64, u16)> {
    bios.iter().map(|&(io, first, pages)| (first, pages, io.vectors)).collect()
}

fn complete_all(cache: &mut PageCache, now: Instant, bios: &[(CacheIo, u64, u64)]) {
    bios.iter().for_each(|(io, ..)| cache.complete(now, io.token, Status::Ok, Nanos::ZERO));
}

/// Starts an fsync. Returns its data bios.
fn synced(cache: &mut PageCache, call: Call) -> Vec<(CacheIo, u64, u64)> {
    assert_eq!(cache.call(T0, call), Called::Wait);
    bios(cache, T0)
}

#[test]
fn a_bio_has_256_vectors_and_neighbours_in_memory_share_one() {
    // Written backwards, each page is one frame lower than the page before: no two merge.
    let (mut cache, open) = cache(64, 1024, |_| {});
    for page in (0..600).rev() {
        run(&mut cache, T0, call(open, CallKind::Write, page * PAGE, PAGE));
    }
    let data = synced(&mut cache, call(open, CallKind::Fsync, 0, 0));
    assert_eq!(vectors(&data), [(0, 256, 256), (256, 256, 256), (512, 88, 88)]);
    assert_eq!(data.iter().map(|(io, ..)| io.ends_plug).collect::<Vec<_>>(), [false, false, true]);
    // Written forwards, all pages merge.
    let (mut cache, open) = cache_of(64, 1024);
    run(&mut cache, T0, call(open, CallKind::Write, 0, 600 * PAGE));
    let data = synced(&mut cache, call(open, CallKind::Fsync, 0, 0));
    assert_eq!(vectors(&data), [(0, 600, 1)]);
}

fn cache_of(memory: u64, pages: u64) -> (PageCache, OpenId) {
    cache(memory, pages, |_| {})
}

#[test]
fn a_gap_in_a_window_ends_a_bio() {
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Write, 5 * PAGE, PAGE));
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 0, 16 * PAGE)), Called::Wait);
    let window = bios(&mut cache, T0);
    assert_eq!(
        window.iter().map(|&(_, first, pages)| (first, pages)).collect::<Vec<_>>(),
        [(0, 5), (6, 26)]
    );
    // All bios of a window have RAHEAD, including the pages that the call waits for; each run of
    // pages has its own plug.
    assert!(window.iter().all(|(io, ..)| io.flags == Flags::RAHEAD && io.task == TaskId(0)));
    assert_eq!(
        window.iter().map(|(io, ..)| (io.origin, io.ends_plug)).collect::<Vec<_>>(),
        [(Origin::Read, true), (Origin::Read, true)]
    );
}

/// The windows of `mm/readahead.c` as the device sees them.
#[test]
fn windows_of_readahead_as_the_device_sees_them() {
    let read = |page: u64| call(OpenId(0), CallKind::Read, page * PAGE, PAGE);
    // A single read, then a read of the next page.
    let (mut cache, _) = cache_of(64, 4096);
    assert_eq!(run(&mut cache, T0, read(1000)).1, [(Op::Read, 1000, 1)]);
    assert_eq!(run(&mut cache, T0, read(1001)).1, [(Op::Read, 1001, 4)]);
    assert_eq!(run(&mut cache, T0, read(1002)).1, [(Op::Read, 1005, 8)], "1002 carried the marker");
    // The cached pages were written; the file was opened again and has no history of reads.
    for (cached, index, size, marker) in [(490..500, 500, 11, 510), (0..10, 10, 21, 30)] {
        let (mut cache, open) = cache_of(64, 4096);
        let pages = cached.end - cached.start;
        run(&mut cache, T0, call(open, CallKind::Write, cached.start * PAGE, pages * PAGE));
        run(&mut cache, T0, read(4000));
        assert_eq!(run(&mut cache, T0, read(index)).1, [(Op::Read, index, size)]);
        let pages = cache.resident().pages();
        let markers = (0..4096).filter(
            |&page| matches!(pages.entry(FileId(0), PageIndex::new(page)), Entry::Page(frame) if pages.has(frame, PageFlags::READAHEAD)),
        );
        assert_eq!(markers.collect::<Vec<_>>(), [marker]);
    }
    // One open file reads into the marker of another.
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Write, 38 * PAGE, 2 * PAGE));
    let other = cache.open(FileId(0));
    cache.opens[other.0 as usize].ra.read_ended(PageIndex::new(40).start());
    let ask = |open| call(open, CallKind::Read, 40 * PAGE, PAGE);
    assert_eq!(run(&mut cache, T0, ask(other)).1, [(Op::Read, 40, 4)], "the marker is 41");
    run(&mut cache, T0, call(open, CallKind::Write, 44 * PAGE, 5 * PAGE));
    let third = cache.open(FileId(0));
    // 42 to 48 are cached: 49 is the first page that is not, and 49 - 41 + 1 pages grow to 18.
    let wanted = call(third, CallKind::Read, 41 * PAGE, PAGE);
    assert_eq!(run(&mut cache, T0, wanted).1, [(Op::Read, 49, 18)]);
    // Random reads were announced by fadvise.
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Random), 0, 0));
    assert_eq!(run(&mut cache, T0, read(7)).1, [(Op::Read, 7, 1)]);
    assert_eq!(run(&mut cache, T0, read(8)).1, [(Op::Read, 8, 1)]);
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 100 * PAGE, 1100 * PAGE)), Called::Wait);
    let pieces = bios(&mut cache, T0);
    let pieces: Vec<_> =
        pieces.iter().map(|&(io, first, pages)| (first, pages, io.ends_plug)).collect();
    assert_eq!(
        pieces,
        [(100, 512, true), (612, 512, true), (1124, 76, true)],
        "2 MiB each, a plug for each"
    );
}

#[test]
fn sequential_advice_doubles_the_window_and_normal_restores_it() {
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Sequential), 0, 0));
    assert_eq!(
        run(&mut cache, T0, call(open, CallKind::Read, 0, 32 * PAGE)).1[0],
        (Op::Read, 0, 64)
    );
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Normal), 0, 0));
    let (_, windows) = run(&mut cache, T0, call(open, CallKind::Read, 1000 * PAGE, 33 * PAGE));
    assert_eq!(windows[0], (Op::Read, 1000, 33), "a call larger than the window");
}

#[test]
fn a_read_that_fails_shrinks_the_window_and_gives_what_came_before() {
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Read, 0, 2 * PAGE));
    assert_eq!(cache.opens[0].ra.ra_pages(), 32);
    // Pages 0 to 3 are cached; 4 to 11 cannot be read, neither in a window nor alone.
    let fail = |cache: &mut PageCache| {
        for (io, first, _) in bios(cache, T0) {
            let status = if first == 4 { Status::Medium } else { Status::Ok };
            cache.complete(T0, io.token, status, Nanos::ZERO);
        }
    };
    let evicted: Vec<u64> = (4..12)
        .filter(|&page| cache.resident.find(FileId(0), PageIndex::new(page)).is_some())
        .collect();
    evicted.iter().for_each(|&page| {
        let frame = cache.resident.find(FileId(0), PageIndex::new(page)).expect("it is there");
        cache.resident.drop_page(frame);
    });
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 2 * PAGE, 6 * PAGE)), Called::Wait);
    fail(&mut cache);
    fail(&mut cache);
    assert_eq!(
        cache.poll_done().map(|done| (done.status, done.bytes)),
        Some((Status::Ok, Bytes::new(2 * PAGE)))
    );
    assert_eq!(cache.opens[0].ra.ra_pages(), 8);
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 4 * PAGE, 4 * PAGE)), Called::Wait);
    fail(&mut cache);
    assert_eq!(
        cache.poll_done().map(|done| (done.status, done.bytes)),
        Some((Status::Medium, Bytes::ZERO))
    );
    assert_eq!(cache.opens[0].ra.ra_pages(), 2);
    cache.self_check();
    // A write that fills the page in part fails too, and has no window.
    assert_eq!(cache.call(T0, call(open, CallKind::Write, 4 * PAGE + 1, 7)), Called::Wait);
    fail(&mut cache);
    assert_eq!(cache.poll_done().map(|done| done.status), Some(Status::Medium));
    assert_eq!(cache.opens[0].ra.ra_pages(), 2);
}

#[test]
fn what_a_call_has_read_itself_is_no_hit() {
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Random), 0, 0));
    run(&mut cache, T0, call(open, CallKind::Read, 0, 4 * PAGE));
    assert_eq!((cache.stats().hits, cache.stats().misses), (0, 4));
    run(&mut cache, T0, call(open, CallKind::Read, 0, 4 * PAGE));
    assert_eq!((cache.stats().hits, cache.stats().misses), (4, 4));
    // A page that was read ahead is a hit.
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Normal), 0, 0));
    run(&mut cache, T0, call(open, CallKind::Read, 4 * PAGE, PAGE));
    run(&mut cache, T0, call(open, CallKind::Read, 5 * PAGE, PAGE));
    assert_eq!((cache.stats().hits, cache.stats().misses), (5, 5));
}

#[test]
fn a_fault_that_waits_for_another_s_read_is_major_before_6_7_and_maps_around() {
    for (kernel, is_major) in [(Kernel::V6_1, true), (Kernel::V6_6, true), (Kernel::V6_18, false)] {
        let (mut cache, open) = super::cache(64, 4096, |config| config.rules = kernel.rules());
        let fault = |task: u32, page: u64| Call {
            task: TaskId(task),
            ..call(open, CallKind::Fault { write: false }, page * PAGE, 1)
        };
        assert_eq!(cache.call(T0, fault(0, 100)), Called::Wait);
        assert_eq!(cache.call(T0, fault(1, 101)), Called::Wait);
        let window = bios(&mut cache, T0);
        assert_eq!(window.len(), 1, "the second asks for nothing");
        assert_eq!(window[0].0.origin, Origin::Fault);
        complete_all(&mut cache, ms(1), &window);
        let both: Vec<bool> =
            core::iter::from_fn(|| cache.poll_done()).map(|done| done.is_major).collect();
        assert_eq!(both, [true, is_major], "{kernel:?}");
        assert_eq!(cache.resident().pages().mapped(), 15);
    }
}

/// Fault-around takes off what a miss has counted, as long as it finds pages that count.
#[test]
fn read_around_goes_on_while_faults_find_pages() {
    for (kernel, working_set, goes_on) in [
        (Kernel::V6_1, false, true),
        (Kernel::V6_1, true, true),
        (Kernel::V6_18, false, true),
        (Kernel::V6_18, true, false),
    ] {
        let (mut cache, open) = super::cache(256, 1 << 16, |config| config.rules = kernel.rules());
        let mut sizes = Vec::new();
        for n in 0..300 {
            let fault = call(open, CallKind::Fault { write: false }, (n * 64 + 20) * PAGE, 1);
            assert_eq!(cache.call(T0, fault), Called::Wait);
            let window = bios(&mut cache, T0);
            let file = cache.opens[open.0 as usize].file;
            let mut at = PageIndex::ZERO;
            while let Some((index, frame)) =
                cache.resident.pages().next(file, at).filter(|_| working_set)
            {
                at = index.next();
                cache.resident.pages_mut().set(frame, PageFlags::WORKINGSET);
            }
            sizes.extend(window.iter().map(|&(_, _, pages)| pages));
            complete_all(&mut cache, T0, &window);
            assert!(cache.poll_done().is_some_and(|done| done.is_major));
        }
        let around = sizes.iter().filter(|&&pages| pages == 32).count();
        assert_eq!(around, if goes_on { 300 } else { 100 }, "{kernel:?} {working_set}");
    }
}

/// Stores have no fault-around: each miss counts, and a page found takes one off.
#[test]
fn read_around_of_stores_ends_after_100_misses() {
    let (mut cache, open) = cache_of(256, 1 << 16);
    let mut store = |page: u64| {
        run(&mut cache, T0, call(open, CallKind::Fault { write: true }, page * PAGE, 1)).1
    };
    let around = (0..300).filter(|n| store(n * 64 + 20)[0].2 == 32).count();
    assert_eq!(around, 100);
}

#[test]
fn touches_through_advised_mappings_count_by_kernel() {
    for (kernel, advice, counts) in [
        (Kernel::V6_1, Advice::Normal, true),
        (Kernel::V6_1, Advice::Random, true),
        (Kernel::V6_1, Advice::Sequential, false),
        (Kernel::V6_6, Advice::Random, false),
        (Kernel::V6_18, Advice::Random, false),
        (Kernel::V6_18, Advice::Normal, true),
    ] {
        let (mut cache, open) = super::cache(64, 4096, |config| config.rules = kernel.rules());
        run(&mut cache, T0, call(open, CallKind::Madvise(advice), 0, 0));
        // The first touch is a fault, the second is not.
        for _ in 0..2 {
            run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 9 * PAGE, 1));
            let frame = cache
                .resident
                .find(cache.opens[open.0 as usize].file, PageIndex::new(9))
                .expect("cached");
            assert_eq!(
                cache.resident.pages_mut().take_accessed(frame),
                counts,
                "{kernel:?} {advice:?}"
            );
        }
        assert_eq!(cache.stats().touches, 1);
    }
}

#[test]
fn a_store_makes_a_page_dirty_once_and_a_clean_page_faults_again() {
    let (mut cache, open) = cache_of(64, 4096);
    let store = call(open, CallKind::Fault { write: true }, 9 * PAGE, 8);
    run(&mut cache, T0, store);
    assert_eq!(
        (cache.stats().dirtied, cache.resident().pages().mapped()),
        (1, 1),
        "a store maps its own page only"
    );
    run(&mut cache, T0, store);
    assert_eq!((cache.stats().dirtied, cache.stats().touches), (1, 1));
    run(&mut cache, T0, call(open, CallKind::Fsync, 0, 0));
    run(&mut cache, T0, store);
    assert_eq!((cache.stats().dirtied, cache.stats().waits(Cause::Fault).count), (2, 2));
}

#[test]
fn who_submits_decides_priority_and_flags() {
    let (mut cache, open) = cache_of(64, 4096);
    let urgent = Submitter::of_task(IoPrio::new(PrioClass::Rt, 2), CpuPolicy::Normal, 0);
    let of = |kind, offset, bytes| Call { submitter: urgent, ..call(open, kind, offset, bytes) };
    // fsync uses the caller's task and priority, and SYNC.
    run(&mut cache, T0, of(CallKind::Write, 0, PAGE));
    let data = synced(&mut cache, of(CallKind::Fsync, 0, 0));
    assert_eq!(
        (data[0].0.task, data[0].0.ioprio, data[0].0.flags),
        (TaskId(0), urgent.task, Flags::SYNC)
    );
    complete_all(&mut cache, T0, &data);
    let flush = bios(&mut cache, T0);
    assert_eq!((flush[0].0.op, flush[0].0.ioprio), (Op::Flush, urgent.task));
    complete_all(&mut cache, T0, &flush);
    // Readahead is charged to the reader too.
    assert_eq!(cache.call(T0, of(CallKind::Read, 100 * PAGE, PAGE)), Called::Wait);
    let read = bios(&mut cache, T0);
    assert_eq!((read[0].0.task, read[0].0.ioprio), (TaskId(0), urgent.task));
    complete_all(&mut cache, T0, &read);
    // The flusher has its own task, BE/4 regardless of the writer, and BACKGROUND.
    run(&mut cache, T0, of(CallKind::Write, 0, PAGE));
    cache.flusher.wake();
    cache.reclaim_wants_clean = true;
    let write = bios(&mut cache, T0);
    let default = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0).task;
    assert_eq!(
        (write[0].0.task, write[0].0.ioprio, write[0].0.flags),
        (FLUSHER, default, Flags::BACKGROUND)
    );
    assert_eq!((default.class(), default.level()), (PrioClass::Be, 4));
    assert_eq!(write[0].0.origin, Origin::Writeback);
}

#[test]
fn a_range_is_synced_as_far_as_asked_for() {
    let range = |wait_before, write, wait_after| {
        CallKind::SyncRange(RangeSync { wait_before, write, wait_after })
    };
    let (mut cache, open) = cache_of(64, 4096);
    run(&mut cache, T0, call(open, CallKind::Write, 0, 8 * PAGE));
    // Writes only begin, in this range only; they are not waited for and not part of an integrity
    // sync.
    let begin = call(open, range(false, true, false), 2 * PAGE, 3 * PAGE);
    assert_eq!(cache.call(T0, begin), Called::Done(begin.done(Bytes::ZERO)));
    let written = bios(&mut cache, T0);
    assert_eq!(
        (written.len(), written[0].1, written[0].2, written[0].0.flags),
        (1, 2, 3, Flags::NONE)
    );
    // A second call skips the pages that are being written.
    run_without_io(&mut cache, begin);
    // The call waits for these pages, and begins no other writes.
    assert_eq!(cache.call(T0, call(open, range(true, false, false), 0, 0)), Called::Wait);
    assert!(bios(&mut cache, T0).is_empty());
    complete_all(&mut cache, ms(1), &written);
    assert_eq!(
        cache.poll_done().map(|done| (done.status, done.waited)),
        Some((Status::Ok, Nanos::from_millis(1)))
    );
    assert_eq!(cache.resident().pages().dirty(), 5);
    // Pages are written and waited for, without a flush.
    let (done, bios) = run(&mut cache, ms(1), call(open, range(false, true, true), 0, 0));
    assert_eq!((done.status, bios), (Status::Ok, vec![(Op::Write, 0, 2), (Op::Write, 5, 3)]));
    // A caller that waits gets the error.
    run(&mut cache, ms(1), call(open, CallKind::Write, 0, PAGE));
    assert_eq!(cache.call(ms(1), call(open, range(false, true, true), 0, 0)), Called::Wait);
    let (io, ..) = super::bios(&mut cache, ms(1))[0];
    cache.complete(ms(1), io.token, Status::Medium, Nanos::ZERO);
    assert_eq!(cache.poll_done().map(|done| done.status), Some(Status::Medium));
    cache.self_check();
}

fn run_without_io(cache: &mut PageCache, wanted: Call) {
    assert_eq!(cache.call(T0, wanted), Called::Done(wanted.done(Bytes::ZERO)));
    assert!(bios(cache, T0).is_empty());
}

#[test]
fn what_was_never_written_is_not_read() {
    let (mut cache, open) = cache_of(64, 4096);
    cache.set_unwritten(FileId(0));
    // A partial write, a load, a store and a read find zeroes.
    run_to_end(&mut cache, call(open, CallKind::Write, 5 * PAGE + 100, 200));
    run_to_end(&mut cache, call(open, CallKind::Fault { write: false }, 700 * PAGE, 1));
    run_to_end(&mut cache, call(open, CallKind::Fault { write: true }, 900 * PAGE, 1));
    run_to_end(&mut cache, call(open, CallKind::Read, 2000 * PAGE, 100 * PAGE));
    let (_, data) = run(&mut cache, T0, call(open, CallKind::Fsync, 0, 0));
    assert_eq!(data, [(Op::Write, 5, 1), (Op::Write, 900, 1), (Op::Flush, 0, 0)]);
    // After the caches were dropped, the content is the same.
    run(&mut cache, T0, call(open, CallKind::DropCaches, 0, 0));
    let frame = cache.resident.find(FileId(0), PageIndex::new(900)).expect("it is mapped");
    cache.resident.drop_page(frame);
    let (_, data) = run(&mut cache, T0, call(open, CallKind::Write, 5 * PAGE, 10));
    assert_eq!(data, [(Op::Read, 5, 1)]);
    let (_, data) =
        run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 900 * PAGE, 1));
    assert_eq!(data, [(Op::Read, 900, 1)]);
    cache.self_check();
}

fn run_to_end(cache: &mut PageCache, wanted: Call) {
    assert!(matches!(cache.call(T0, wanted), Called::Done(done) if done.status.is_ok()));
    assert!(bios(cache, T0).is_empty());
    cache.self_check();
}

/// One page above the background threshold wakes the flusher, and it stops below the threshold.
#[test]
fn the_flusher_begins_above_the_background_threshold() {
    let (mut cache, open) = cache_of(256, 1 << 16);
    let background = cache.dirty_domain().limits(cache.counts().dirtyable).background;
    run_to_end(&mut cache, call(open, CallKind::Write, 0, background * PAGE));
    assert_eq!(cache.resident().pages().dirty(), background);
    // The writer checks the limits after a number of pages.
    let poll = cache.writers[0].allowance;
    assert!((32..=128).contains(&poll), "{poll}");
    let (_, written) =
        run(&mut cache, T0, call(open, CallKind::Write, background * PAGE, poll * PAGE));
    let pages: u64 = written.iter().map(|&(_, _, pages)| pages).sum();
    assert!(pages >= poll && cache.resident().pages().dirty() <= background, "{pages} written");
}

/// BLKFLSBUF and the last close of a block device.
#[test]
fn a_block_device_is_written_and_dropped() {
    let (mut cache, open) = cache(64, 64, |_| {});
    let mut go = |kind, page: u64, pages: u64| {
        run(&mut cache, T0, call(open, kind, page * PAGE, pages * PAGE)).1
    };
    go(CallKind::Write, 0, 2);
    go(CallKind::Write, 40, 1);
    assert_eq!(go(CallKind::FlushBuffers, 0, 0), [(Op::Write, 0, 2), (Op::Write, 40, 1)]);
    assert_eq!(cache.resident().pages().used(), 0);
    // A page that is mapped stays, but not after the last close.
    cache.map(open);
    let mut go = |kind, page: u64, pages: u64| {
        run(&mut cache, T0, call(open, kind, page * PAGE, pages * PAGE)).1
    };
    go(CallKind::Fault { write: true }, 3, 1);
    assert_eq!(go(CallKind::FlushBuffers, 0, 0), [(Op::Write, 3, 1)]);
    assert!(cache.resident().pages().used() > 0);
    assert_eq!(
        run(&mut cache, T0, call(open, CallKind::LastClose, 0, 0)).1,
        [(Op::Write, 0, 0); 0]
    );
    assert_eq!(cache.resident().pages().used(), 0);
}

#[test]
fn the_last_close_waits_for_pages_that_are_read() {
    let (mut cache, open) = cache(64, 64, |_| {});
    run(&mut cache, T0, call(open, CallKind::Read, 0, PAGE));
    // The next window is read ahead.
    let read = cache.call(T0, call(open, CallKind::Read, PAGE, PAGE));
    assert!(matches!(read, Called::Done(_)), "{read:?}");
    assert_eq!(cache.call(T0, call(open, CallKind::LastClose, 0, 0)), Called::Wait);
    drain(&mut cache, T0);
    assert_eq!(cache.poll_done().map(|done| done.status), Some(Status::Ok));
    assert_eq!(cache.resident().pages().used(), 0);
}

#[test]
fn a_write_to_a_marked_page_leaves_the_marker_and_its_writeback_takes_it() {
    for (sync, reads) in [(false, 1), (true, 0)] {
        let (mut cache, open) = cache(64, 64, |_| {});
        run(&mut cache, T0, call(open, CallKind::Read, 0, PAGE));
        run(&mut cache, T0, call(open, CallKind::Write, PAGE, PAGE));
        if sync {
            run(&mut cache, T0, call(open, CallKind::Fsync, 0, 0));
        }
        let (_, bios) = run(&mut cache, T0, call(open, CallKind::Read, PAGE, PAGE));
        assert_eq!(bios.len(), reads, "{sync}: {bios:?}");
    }
}

#[test]
fn advice_on_the_mapping_decides_what_a_fault_reads() {
    for (of_file, of_mapping, pages) in [
        (Advice::Random, Advice::Sequential, 32),
        (Advice::Sequential, Advice::Random, 1),
        (Advice::Sequential, Advice::Sequential, 64),
    ] {
        let (mut cache, open) = cache(64, 256, |_| {});
        cache.map(open);
        run(&mut cache, T0, call(open, CallKind::Fadvise(of_file), 0, 0));
        run(&mut cache, T0, call(open, CallKind::Madvise(of_mapping), 0, 0));
        let (_, bios) = run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 0, PAGE));
        assert_eq!(bios, [(Op::Read, 0, pages)], "{of_file:?} {of_mapping:?}");
    }
}
