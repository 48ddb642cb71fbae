use super::*;
use alloc::vec;
use elevon_core::ioprio::PrioClass;

mod memory;
mod oracle;
mod parts;
mod paths;
mod tenants;

const MIB: u64 = 1 << 20;
const PAGE: u64 = PAGE_SIZE;
const FLUSHER: TaskId = TaskId(9);
const T0: Instant = Instant::ZERO;

const fn ms(n: u64) -> Instant {
    Instant::new(n * 1_000_000)
}

/// Returns a cache of `memory` MiB with one file of `pages` pages.
fn cache(memory: u64, pages: u64, change: impl FnOnce(&mut CacheConfig)) -> (PageCache, OpenId) {
    let mut config = CacheConfig {
        rules: Kernel::V6_1.rules(),
        ..CacheConfig::new(Bytes::new(memory * MIB), FLUSHER)
    };
    change(&mut config);
    let mut cache = PageCache::new(config);
    let file =
        cache.add_file(Sector::new(2048), Bytes::new(pages * PAGE), Bytes::new(pages * PAGE));
    let open = cache.open(file);
    (cache, open)
}

fn call(open: OpenId, kind: CallKind, offset: u64, bytes: u64) -> Call {
    Call::new(TaskId(0), 7, open, kind, FileOffset::new(offset), Bytes::new(bytes))
}

/// Returns all bios of the cache, as (op, first page of the file, pages).
fn bios(cache: &mut PageCache, now: Instant) -> Vec<(CacheIo, u64, u64)> {
    core::iter::from_fn(|| cache.poll_io(now))
        .map(|io| (io, io.sector.get().saturating_sub(2048) / 8, io.bytes.get() / PAGE))
        .collect()
}

/// Completes all bios until there are no more. Returns the submitted bios.
fn drain(cache: &mut PageCache, now: Instant) -> Vec<(Op, u64, u64)> {
    let mut all = Vec::new();
    loop {
        let batch = bios(cache, now);
        if batch.is_empty() {
            cache.self_check();
            return all;
        }
        for (io, first, pages) in batch {
            all.push((io.op, first, pages));
            cache.complete(now, io.token, Status::Ok, Nanos::ZERO);
            cache.self_check();
        }
    }
}

fn run(cache: &mut PageCache, now: Instant, wanted: Call) -> (CallDone, Vec<(Op, u64, u64)>) {
    match cache.call(now, wanted) {
        Called::Done(done) => (done, drain(cache, now)),
        Called::Wait => {
            let bios = drain(cache, now);
            (cache.poll_done().expect("its I/O is over"), bios)
        }
    }
}

#[test]
fn windows_become_bios() {
    let (mut cache, open) = cache(64, 4096, |_| {});
    let mut sizes = Vec::new();
    for page in 0..61 {
        let (done, bios) = run(&mut cache, T0, call(open, CallKind::Read, page * PAGE, PAGE));
        assert_eq!((done.status, done.bytes), (Status::Ok, Bytes::new(PAGE)));
        sizes.extend(bios.iter().map(|&(op, first, pages)| (op, first, pages)));
    }
    let r = Op::Read;
    assert_eq!(sizes, [(r, 0, 4), (r, 4, 8), (r, 12, 16), (r, 28, 32), (r, 60, 32), (r, 92, 32)]);
    // Of the 4 KiB reads, one waited for its page, and the others found it.
    assert_eq!((cache.stats().hits, cache.stats().misses), (60, 1));
}

#[test]
fn a_written_bio_ends_after_4096_pages() {
    let (mut cache, open) = cache(256, 8192, |_| {});
    let (done, early) = run(&mut cache, T0, call(open, CallKind::Write, 0, 4200 * PAGE));
    assert_eq!((done.status, early.len()), (Status::Ok, 0));
    let (_, bios) =
        run(&mut cache, T0, call(open, CallKind::SyncRange(RangeSync::ALL), 0, 4200 * PAGE));
    assert_eq!(bios, [(Op::Write, 0, 4096), (Op::Write, 4096, 104)]);
}

#[test]
fn a_read_ends_with_its_io_and_not_before() {
    let (mut cache, open) = cache(64, 64, |_| {});
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 0, PAGE)), Called::Wait);
    let other = Call { task: TaskId(1), token: 8, ..call(open, CallKind::Read, PAGE, PAGE) };
    assert_eq!(cache.call(ms(1), other), Called::Wait);
    let bios = bios(&mut cache, ms(1));
    // The second read found the marker on its page, so it started the next window.
    assert_eq!(
        bios.iter().map(|&(_, first, pages)| (first, pages)).collect::<Vec<_>>(),
        [(0, 4), (4, 8)]
    );
    assert!(bios[0].0.flags.contains(Flags::RAHEAD));
    assert_eq!(cache.poll_done(), None);
    cache.complete(ms(5), bios[0].0.token, Status::Ok, Nanos::from_millis(3));
    let (a, b) = (cache.poll_done().expect("the first"), cache.poll_done().expect("the second"));
    assert_eq!((a.token, a.waited, a.device), (7, Nanos::from_millis(5), Nanos::from_millis(3)));
    assert_eq!((b.token, b.waited, b.device), (8, Nanos::from_millis(4), Nanos::from_millis(3)));
    let waits = cache.stats().waits(Cause::Read);
    assert_eq!((waits.count, waits.slept, waits.iowait), (2, 2, Nanos::from_millis(9)));
}

#[test]
fn a_read_whose_file_ends_before_it_when_it_wakes_has_read_nothing() {
    let (mut cache, open) = cache(64, 64, |config| config.copies = true);
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 2048, 1024)), Called::Wait);
    let other = Call { task: TaskId(1), token: 8, ..call(open, CallKind::Truncate, 512, 0) };
    assert!(matches!(cache.call(T0, other), Called::Done(_) | Called::Wait));
    drain(&mut cache, ms(1));
    let done = core::iter::from_fn(|| cache.poll_done())
        .find(|done| done.token == 7)
        .expect("its page was read");
    assert_eq!((done.status, done.bytes), (Status::Ok, Bytes::ZERO));
    assert_eq!(cache.poll_copy(), None);
}

#[test]
#[should_panic(expected = "before the bytes of")]
fn no_bio_is_given_while_bytes_are_to_be_moved() {
    let (mut cache, open) = cache(64, 64, |config| config.copies = true);
    assert!(matches!(cache.call(T0, call(open, CallKind::Write, 0, PAGE)), Called::Done(_)));
    assert!(matches!(
        cache.call(T0, call(open, CallKind::SyncRange(RangeSync::ALL), 0, PAGE)),
        Called::Wait
    ));
    cache.poll_io(T0);
}

#[test]
fn a_sleep_is_for_what_ended_it_and_for_nothing_else() {
    let (mut cache, open) = cache(64, 64, |_| {});
    // There is no memory for 4 ms, then a read takes 5 ms, of which it is at the device for 2.
    cache.set_reserved(T0, Bytes::new(64 * MIB));
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 0, PAGE)), Called::Wait);
    assert!(bios(&mut cache, T0).is_empty(), "nothing can be read into");
    cache.set_reserved(ms(4), Bytes::ZERO);
    while cache.next_timer().is_some_and(|at| at <= ms(200))
        && cache.promoter().counts(Origin::Read).bios == 0
    {
        let at = cache.next_timer().expect("the next look for memory");
        cache.handle_timers(at);
        if let Some(io) = cache.poll_io(at) {
            // The cache asked for best effort, and a cgroup made the bio RT.
            assert_eq!(io.ioprio.class(), PrioClass::Be);
            let (token, end) = (io.token, at + Nanos::from_millis(5));
            cache.complete_as(end, token, Status::Ok, Nanos::from_millis(2), PrioClass::Rt);
            let done = cache.poll_done().expect("its I/O is over");
            assert_eq!((done.starved, done.paused), (at.since(T0), Nanos::ZERO));
            assert_eq!(
                (done.waited, done.device, done.class),
                (end.since(at), Nanos::from_millis(2), PrioClass::Rt)
            );
            let stats = cache.stats();
            assert_eq!(stats.waits(Cause::Memory).iowait, done.starved);
            assert_eq!(stats.waits(Cause::Read).iowait, done.waited);
            // The readings have the same values.
            let reading = cache.reading();
            let waits = |cause: Cause| reading.waits[cause as usize];
            assert_eq!((waits(Cause::Read).iowait, waits(Cause::Memory).slept), (done.waited, 1));
            assert_eq!((reading.misses, reading.cached), (1, cache.resident().pages().used()));
            return;
        }
    }
    panic!("the read was never submitted");
}

#[test]
fn faults_map_around_and_random_reads_are_exact() {
    let (mut cache, open) = cache(64, 512, |_| {});
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Random), 0, 0));
    for page in 32..48 {
        let (_, bios) = run(&mut cache, T0, call(open, CallKind::Read, page * PAGE, PAGE));
        assert_eq!(bios, [(Op::Read, page, 1)]);
    }
    let fault = |page: u64| call(open, CallKind::Fault { write: false }, page * PAGE, 1);
    let (done, bios) = run(&mut cache, T0, fault(37));
    assert_eq!((done.is_major, bios.len(), cache.resident().pages().mapped()), (false, 0, 16));
    assert_eq!(cache.stats().mapped_around, 15);
    // The page is mapped: no more faults.
    run(&mut cache, T0, fault(40));
    assert_eq!((cache.stats().waits(Cause::Fault).count, cache.stats().touches), (1, 1));
}

/// Traced on Linux 7.3 with `read_ahead_kb=8192`: where the file is said to be read in random order
/// and its mapping in order, all of the readahead is read, in pieces of 2 MiB.
#[test]
fn a_mapping_that_is_read_in_order_has_all_of_its_readahead_in_pieces() {
    let (mut cache, open) = cache(64, 4096, |config| config.ra_pages = 1200);
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::Random), 0, 0));
    run(&mut cache, T0, call(open, CallKind::Madvise(Advice::Sequential), 0, 0));
    let (_, bios) = run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 0, 1));
    let pages = bios.iter().map(|&(_, start, pages)| (start, pages)).collect::<Vec<_>>();
    assert_eq!(
        (pages.first(), pages.iter().map(|(_, pages)| pages).sum::<u64>()),
        (Some(&(0, 512)), 1200)
    );
}

#[test]
fn a_miss_reads_around() {
    let (mut cache, open) = cache(64, 512, |_| {});
    let (done, bios) =
        run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 100 * PAGE, 1));
    assert_eq!((done.is_major, bios), (true, vec![(Op::Read, 84, 32)]));
    // Fault-around maps 96 to 111 except the marker.
    assert_eq!(cache.resident().pages().mapped(), 15);
    let (done, bios) =
        run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 108 * PAGE, 1));
    assert_eq!((done.is_major, bios), (false, vec![(Op::Read, 116, 32)]));
    let waits = cache.stats().waits(Cause::Fault);
    assert_eq!((waits.count, waits.major, waits.slept), (2, 1, 0), "virtual time stood still");
}

#[test]
fn writes_stay_dirty_for_thirty_seconds() {
    let (mut cache, open) = cache(64, 512, |_| {});
    let (done, bios) = run(&mut cache, T0, call(open, CallKind::Write, 3 * PAGE, 5 * PAGE));
    assert_eq!(
        (done.bytes, bios.len(), cache.resident().pages().dirty()),
        (Bytes::new(5 * PAGE), 0, 5)
    );
    let mut written = Vec::new();
    while let Some(now) = cache.next_timer() {
        cache.handle_timers(now);
        let bios = drain(&mut cache, now);
        written.extend(bios.into_iter().map(|bio| (now, bio)));
    }
    assert_eq!(written, [(ms(30_000), (Op::Write, 3, 5))]);
    assert_eq!(cache.resident().pages().dirty(), 0);
}

#[test]
fn an_fsync_writes_waits_and_flushes() {
    let (mut cache, open) = cache(64, 512, |_| {});
    run(&mut cache, T0, call(open, CallKind::Write, 0, 2 * PAGE));
    run(&mut cache, T0, call(open, CallKind::Write, 9 * PAGE, PAGE));
    assert_eq!(cache.call(T0, call(open, CallKind::Fsync, 0, 0)), Called::Wait);
    let data = bios(&mut cache, T0);
    assert_eq!(
        data.iter().map(|&(io, first, n)| (io.op, first, n)).collect::<Vec<_>>(),
        [(Op::Write, 0, 2), (Op::Write, 9, 1)]
    );
    assert!(data.iter().all(|(io, ..)| io.flags.contains(Flags::SYNC) && io.task == TaskId(0)));
    cache.complete(ms(1), data[1].0.token, Status::Ok, Nanos::ZERO);
    assert!(bios(&mut cache, ms(1)).is_empty(), "the flush waits for all data");
    cache.complete(ms(2), data[0].0.token, Status::Ok, Nanos::ZERO);
    let flush = bios(&mut cache, ms(2));
    assert_eq!((flush.len(), flush[0].0.op, flush[0].0.bytes), (1, Op::Flush, Bytes::ZERO));
    assert_eq!(cache.poll_done(), None);
    cache.complete(ms(4), flush[0].0.token, Status::Ok, Nanos::ZERO);
    let done = cache.poll_done().expect("the fsync");
    assert_eq!((done.status, done.waited), (Status::Ok, Nanos::from_millis(4)));
    // Nothing is dirty: only a flush is sent.
    let (_, bios) = run(&mut cache, ms(5), call(open, CallKind::Fsync, 0, 0));
    assert_eq!(bios, [(Op::Flush, 0, 0)]);
}

#[test]
fn an_fsync_ends_though_pages_are_dirtied_for_ever() {
    let (mut cache, open) = cache(64, 512, |_| {});
    run(&mut cache, T0, call(open, CallKind::Write, 0, 8 * PAGE));
    assert_eq!(cache.call(T0, call(open, CallKind::Fsync, 0, 0)), Called::Wait);
    let mut written = 0;
    for round in 1..20 {
        let writer = Call { task: TaskId(1), ..call(open, CallKind::Write, 0, 8 * PAGE) };
        assert!(matches!(cache.call(ms(round), writer), Called::Done(_)));
        for (io, _, pages) in bios(&mut cache, ms(round)) {
            written += if io.op == Op::Write { pages } else { 0 };
            cache.complete(ms(round), io.token, Status::Ok, Nanos::ZERO);
        }
        cache.self_check();
    }
    assert_eq!((written, cache.poll_done().map(|done| done.status)), (8, Some(Status::Ok)));
    assert_eq!(cache.resident().pages().dirty(), 8);
}

#[test]
fn an_fsync_waits_for_later_writes_only_if_it_looks_again() {
    for (pages, looks_again) in [(8, false), (30, false), (31, true), (40, true)] {
        let (mut cache, open) = cache(64, 512, |_| {});
        run(&mut cache, T0, call(open, CallKind::Write, 0, pages * PAGE));
        assert_eq!(cache.call(T0, call(open, CallKind::Fsync, 0, 0)), Called::Wait);
        let own = bios(&mut cache, T0);
        let other = |kind, offset, bytes| Call {
            task: TaskId(1),
            token: 8,
            ..call(open, kind, offset, bytes)
        };
        assert!(matches!(
            cache.call(T0, other(CallKind::Write, 100 * PAGE, PAGE)),
            Called::Done(_)
        ));
        assert_eq!(cache.call(T0, other(CallKind::Fsync, 0, 0)), Called::Wait);
        assert_eq!((own.len(), bios(&mut cache, T0).len()), (1, 1));
        cache.complete(ms(1), own[0].0.token, Status::Ok, Nanos::ZERO);
        let flushes = bios(&mut cache, ms(1))
            .iter()
            .any(|(io, ..)| io.op == Op::Flush && io.task == TaskId(0));
        assert_eq!(flushes, !looks_again, "{pages} pages");
    }
}

#[test]
fn write_errors_are_told_once_to_each_open_file() {
    let (mut cache, open) = cache(64, 512, |_| {});
    let other = cache.open(FileId(0));
    run(&mut cache, T0, call(open, CallKind::Write, 0, PAGE));
    assert_eq!(cache.call(T0, call(open, CallKind::Fsync, 0, 0)), Called::Wait);
    let (io, ..) = bios(&mut cache, T0)[0];
    cache.complete(T0, io.token, Status::Medium, Nanos::ZERO);
    assert_eq!(cache.poll_done().map(|done| done.status), Some(Status::Medium));
    assert_eq!(run(&mut cache, T0, call(open, CallKind::Fsync, 0, 0)).0.status, Status::Ok);
    assert_eq!(run(&mut cache, T0, call(other, CallKind::Fsync, 0, 0)).0.status, Status::Medium);
    assert_eq!(run(&mut cache, T0, call(other, CallKind::Fsync, 0, 0)).0.status, Status::Ok);
}

#[test]
fn a_write_error_of_which_no_program_was_told_is_told_to_who_opens_the_file_later() {
    for drop in [CallKind::FlushBuffers, CallKind::LastClose] {
        let (mut cache, open) = cache(64, 512, |_| {});
        let sync = |cache: &mut PageCache, open| {
            run(cache, T0, call(open, CallKind::Fsync, 0, 0)).0.status
        };
        run(&mut cache, T0, call(open, CallKind::Write, 0, PAGE));
        assert_eq!(cache.call(T0, call(open, drop, 0, 0)), Called::Wait);
        let (io, ..) = bios(&mut cache, T0)[0];
        cache.complete(T0, io.token, Status::Medium, Nanos::ZERO);
        assert_eq!(
            cache.poll_done().map(|done| done.status),
            Some(Status::Medium),
            "this tells no program"
        );
        cache.reopen(open);
        let second = cache.open(FileId(0));
        assert_eq!(
            [open, second, second].map(|open| sync(&mut cache, open)),
            [Status::Medium, Status::Medium, Status::Ok]
        );
        let third = cache.open(FileId(0));
        cache.reopen(open);
        assert_eq!(
            [third, open].map(|open| sync(&mut cache, open)),
            [Status::Ok; 2],
            "somebody was told"
        );
    }
}

#[test]
fn a_read_ahead_that_fails_is_tried_again_and_then_fails() {
    let (mut cache, open) = cache(64, 512, |_| {});
    assert_eq!(cache.call(T0, call(open, CallKind::Read, 0, PAGE)), Called::Wait);
    let (io, ..) = bios(&mut cache, T0)[0];
    cache.complete(T0, io.token, Status::Medium, Nanos::ZERO);
    assert_eq!(cache.poll_done(), None);
    let again = bios(&mut cache, T0);
    assert_eq!((again.len(), again[0].2, again[0].0.flags), (1, 1, Flags::NONE));
    cache.complete(T0, again[0].0.token, Status::Medium, Nanos::ZERO);
    assert_eq!(
        cache.poll_done().map(|done| (done.status, done.bytes)),
        Some((Status::Medium, Bytes::ZERO))
    );
    cache.self_check();
}

#[test]
fn write_through_ends_with_the_data_and_without_a_flush() {
    let (mut cache, open) = cache(64, 512, |config| config.write_mode = WriteMode::Through);
    let (done, bios) = run(&mut cache, T0, call(open, CallKind::Write, PAGE, 3 * PAGE));
    assert_eq!((done.bytes, bios), (Bytes::new(3 * PAGE), vec![(Op::Write, 1, 3)]));
    assert_eq!(cache.resident().pages().dirty(), 0);
}

#[test]
fn a_page_written_in_part_is_read_first() {
    let (mut cache, open) = cache(64, 512, |_| {});
    let (done, bios) = run(&mut cache, T0, call(open, CallKind::Write, 5 * PAGE + 100, 200));
    assert_eq!((done.bytes, bios), (Bytes::new(200), vec![(Op::Read, 5, 1)]));
    assert_eq!(cache.resident().pages().dirty(), 1);
}

#[test]
fn dont_need_writes_and_drops() {
    let (mut cache, open) = cache(64, 512, |_| {});
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::WillNeed), 0, 0));
    assert_eq!(cache.resident().pages().used(), 512);
    run(&mut cache, T0, call(open, CallKind::Write, 0, PAGE));
    let (_, bios) = run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::DontNeed), 0, 0));
    assert_eq!((bios, cache.resident().pages().used()), (vec![(Op::Write, 0, 1)], 1));
    run(&mut cache, T0, call(open, CallKind::DropCaches, 0, 0));
    assert_eq!((cache.resident().pages().used(), cache.resident().pages().shadows()), (0, 0));
}

#[test]
fn with_its_last_mapping_a_file_can_be_dropped() {
    let (mut cache, open) = cache(64, 32, |_| {});
    let other = cache.open(FileId(0));
    cache.map(open);
    cache.map(other);
    run(&mut cache, T0, call(open, CallKind::Fault { write: false }, 3 * PAGE, 1));
    assert_eq!((cache.resident().pages().used(), cache.resident().pages().mapped()), (32, 16));
    let drop = |cache: &mut PageCache| {
        run(cache, T0, call(open, CallKind::Fadvise(Advice::DontNeed), 0, 0));
        cache.resident().pages().used()
    };
    cache.unmap(open);
    assert_eq!(
        (cache.resident().pages().mapped(), drop(&mut cache)),
        (16, 16),
        "the other maps it yet"
    );
    cache.unmap(other);
    let pages = cache.resident.pages_mut();
    let mut is_used = |index| {
        pages.find(FileId(0), index).is_some_and(|frame| pages.has(frame, PageFlags::REFERENCED))
    };
    let used: Vec<u64> = (0..16).filter(|&index| is_used(PageIndex::new(index))).collect();
    assert_eq!(used, [3], "the page that was touched");
    assert_eq!((cache.resident().pages().mapped(), drop(&mut cache)), (0, 0));
}

#[test]
fn a_blocked_task_submits_nothing() {
    let (mut cache, open) = cache(64, 512, |_| {});
    let advice = call(open, CallKind::Fadvise(Advice::WillNeed), 0, 0);
    assert_eq!(cache.call(T0, advice), Called::Done(advice.done(Bytes::new(2 * MIB))));
    cache.task_blocked(TaskId(0));
    assert_eq!(cache.poll_io(T0), None);
    cache.task_unblocked(TaskId(0));
    assert!(cache.poll_io(T0).is_some_and(|io| io.bytes.get() == 2 * MIB && io.vectors == 1));
}

#[test]
fn a_refault_is_promoted_by_its_content() {
    let (mut cache, open) = cache(4, 4096, |config| config.activity = Activity::PageExact);
    let fault = |page: u64| call(open, CallKind::Fault { write: false }, page * PAGE, 1);
    // The pages read are more than memory holds, and other pages each time. Pages touched stay;
    // their neighbours are evicted, and refault while their shadows count.
    let mut promoted = 0;
    for n in 0..400 {
        let now = ms(n);
        cache.handle_timers(now);
        if cache.call(now, fault((n * 16 + n / 100 * 7) % 1600)) == Called::Wait {
            for (io, ..) in bios(&mut cache, now) {
                promoted += u64::from(io.ioprio.class() == PrioClass::Rt);
                cache.complete(now, io.token, Status::Ok, Nanos::ZERO);
            }
        }
        cache.self_check();
        while cache.poll_done().is_some() {}
    }
    assert!(cache.resident().stats().restored > 0, "{:?}", cache.resident().stats());
    assert_eq!(promoted, cache.promoter().counts(Origin::Fault).promoted);
    assert!(promoted > 0);
}

/// A device that writes 64 MiB/s, with at most 32 bios in flight.
struct SlowDevice {
    /// The ends of bios, with their tokens.
    in_flight: VecDeque<(Instant, u64)>,
    /// When the last bio ends.
    free: Instant,
}

impl SlowDevice {
    fn start(&mut self, now: Instant, cache: &mut PageCache) {
        while self.in_flight.len() < 32 {
            let Some(io) = cache.poll_io(now) else { break };
            assert_eq!((io.task, io.flags), (FLUSHER, Flags::BACKGROUND));
            self.free =
                self.free.max(now) + Nanos::new(io.bytes.get() * 1_000_000_000 / (64 * MIB));
            self.in_flight.push_back((self.free, io.token));
        }
    }

    fn next_end(&self) -> Option<Instant> {
        self.in_flight.front().map(|&(at, _)| at)
    }

    fn end(&mut self, now: Instant, cache: &mut PageCache) {
        while let Some(&(_, token)) = self.in_flight.front().filter(|&&(at, _)| at <= now) {
            self.in_flight.pop_front();
            cache.complete(now, token, Status::Ok, Nanos::ZERO);
        }
    }
}

/// Writers are faster than the device: dirty pages stay below the limit, memory stays above the
/// marks, and every wait is counted.
#[test]
fn writers_are_held_at_the_limit() {
    let (mut cache, _) = cache(256, 16, |_| {});
    let opens: Vec<OpenId> = (0..4u64)
        .map(|n| {
            let file = cache.add_file(Sector::new((1 + n) << 22), Bytes::ZERO, Bytes::new(1 << 30));
            cache.open(file)
        })
        .collect();
    let (mut at, mut asleep, mut now) = ([0u64; 4], [false; 4], T0);
    let mut device = SlowDevice { in_flight: VecDeque::new(), free: T0 };
    let mut most = 0;
    while now < ms(20_000) {
        for n in 0..4 {
            // A writer's own speed is 64 KiB in 20 us.
            while !asleep[n] && at[n] < 1 << 30 {
                let write = Call {
                    task: TaskId(n as u32),
                    ..Call::new(
                        TaskId(0),
                        n as u64,
                        opens[n],
                        CallKind::Write,
                        FileOffset::new(at[n]),
                        Bytes::new(65536),
                    )
                };
                at[n] += 65536;
                asleep[n] = cache.call(now, write) == Called::Wait;
            }
        }
        device.start(now, &mut cache);
        let counts = cache.counts();
        most = most.max(
            (counts.dirty + counts.writeback) * 1000
                / cache.dirty_domain().limits(counts.dirtyable).thresh,
        );
        assert!(cache.resident().free() > cache.marks.min / 2);
        let next = [device.next_end(), cache.next_timer()].into_iter().flatten().min();
        now = now.max(next.expect("somebody is at work"));
        device.end(now, &mut cache);
        cache.handle_timers(now);
        while let Some(done) = cache.poll_done() {
            assert_eq!(done.status, Status::Ok);
            asleep[done.token as usize] = false;
        }
    }
    cache.self_check();
    assert!(most <= 1100, "{most} thousandths of the limit were dirty");
    let written: u64 = at.iter().sum::<u64>() / MIB;
    assert!(
        (20 * 64 * 8 / 10..20 * 64 + 60).contains(&written),
        "{written} MiB went in 20 s through a 64 MiB/s device"
    );
    let fair = at.iter().max().expect("four") * 100 / at.iter().min().expect("four");
    assert!(fair < 150, "{at:?}");
    let pauses = cache.stats().waits(Cause::DirtyPause);
    assert!(
        pauses.count > 100 && pauses.iowait > Nanos::from_secs(20),
        "{} {}",
        pauses.count,
        pauses.iowait
    );
}

#[test]
fn memory_that_others_take_is_given_up() {
    let (mut cache, open) = cache(16, 4096, |_| {});
    run(&mut cache, T0, call(open, CallKind::Fadvise(Advice::WillNeed), 0, 3000 * PAGE));
    assert_eq!(cache.resident().pages().used(), 3000);
    cache.set_reserved(ms(1), Bytes::new(8 * MIB));
    assert_eq!((cache.resident().deficit(), cache.stats().direct_reclaims), (0, 0));
    assert!(cache.resident().free() >= cache.watermarks().high);
    cache.self_check();
}
