//! The calls and bios of each kind of I/O, on a device that completes a bio when the test says so.

use super::*;
use crate::activity::Submitter;
use crate::page_cache::{CacheIo, OpenId, RangeSync};
use crate::readahead::Advice;
use alloc::format;
use alloc::string::{String, ToString};
use elevon_core::ioprio::{CpuPolicy, IoPrio};
use elevon_core::op::Op;
use elevon_core::units::{Nanos, PAGE_SIZE, PageIndex, Sector, TenantId};

const PAGE: u64 = PAGE_SIZE;
const T0: TaskId = TaskId(0);
const FILE_PAGES: u64 = 16;

/// Classes of finished calls, and finished I/Os.
#[derive(Default)]
struct Seen {
    calls: Vec<CallClass>,
    over: Vec<u32>,
}

impl FileIoObserver for Seen {
    fn call_over(&mut self, end: &CallEnd<'_>) {
        self.calls.push(end.class);
    }

    fn io_over(&mut self, _: TaskId, token: u32) {
        self.over.push(token);
    }
}

/// A program with two files of 16 pages each, one after the other on the device.
struct Bed {
    io: FileIo,
    now: Instant,
    seen: Seen,
    /// Bios submitted and not completed.
    bios: Vec<CacheIo>,
    /// All submitted bios, as `R0+4` (pages) or `flush`.
    log: Vec<String>,
}

fn program(access: Access) -> Program {
    Program {
        access,
        sync_writes: false,
        range_sync: None,
        submitter: Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0),
        tenant: TenantId(0),
        depth: 4,
    }
}

fn bed(program: Program, change: impl FnOnce(&mut CacheConfig)) -> Bed {
    let mut config = CacheConfig::new(Bytes::new(64 << 20), TaskId(1));
    // Nothing is written unless a task asks for it.
    config.flusher_times.period = Nanos::ZERO;
    change(&mut config);
    let (has_bytes, mut io) = (config.copies, FileIo::new(config));
    let file_bytes = FILE_PAGES * PAGE;
    let mut parts = Vec::new();
    for file in 0..2 {
        let start = file * file_bytes;
        if file == 0 || !has_bytes {
            let bytes = if has_bytes { 2 * file_bytes } else { file_bytes };
            io.cache_mut().add_file(Sector::new(start / 512), Bytes::new(bytes), Bytes::new(bytes));
        }
        let id = FileId(if has_bytes { 0 } else { file as u32 });
        let (open, file_start) = (io.cache_mut().open(id), if has_bytes { 0 } else { start });
        parts.push(OpenPart {
            open,
            file: id,
            file_start: DeviceOffset::new(file_start),
            start: DeviceOffset::new(start),
            len: Bytes::new(file_bytes),
        });
    }
    assert_eq!(io.add_program(program, &parts), T0);
    Bed { io, now: Instant::ZERO, seen: Seen::default(), bios: Vec::new(), log: Vec::new() }
}

impl Bed {
    fn begin_as(
        &mut self,
        token: u32,
        kind: FileOpKind,
        page: u64,
        bytes: u64,
        is_first_check: bool,
    ) -> Begun {
        let op = FileOp {
            task: T0,
            token,
            kind,
            file: (page / FILE_PAGES) as usize,
            position: DeviceOffset::new(page * PAGE),
            bytes: Bytes::new(bytes),
            is_first_check,
        };
        let begun = self.io.begin(self.now, &op, &mut self.seen);
        self.io.self_check();
        begun
    }

    fn begin(&mut self, token: u32, kind: FileOpKind, page: u64, pages: u64) -> Begun {
        self.begin_as(token, kind, page, pages * PAGE, false)
    }

    /// Submits the bios of the cache. Returns them.
    fn submit(&mut self) -> Vec<String> {
        let mut submitted = Vec::new();
        while self.io.cache_mut().poll_copy().is_some() {}
        while let Some(io) = self.io.cache_mut().poll_io(self.now) {
            let (first, pages) = (io.sector.get() * 512 / PAGE, io.bytes.get() / PAGE);
            submitted.push(match io.op {
                Op::Flush => "flush".to_string(),
                Op::Read => format!("R{first}+{pages}"),
                _ => format!("W{first}+{pages}"),
            });
            self.bios.push(io);
        }
        self.log.extend(submitted.clone());
        submitted
    }

    /// Completes all bios of the device. Returns the events of the program.
    fn complete(&mut self, status: Status) -> Vec<FileIoEvent> {
        self.now = self.now + Nanos::from_micros(100);
        for bio in core::mem::take(&mut self.bios) {
            self.io.cache_mut().complete(self.now, bio.token, status, Nanos::ZERO);
        }
        self.poll()
    }

    fn poll(&mut self) -> Vec<FileIoEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.io.poll(self.now, &mut self.seen) {
            self.io.self_check();
            if event != FileIoEvent::Sleeps {
                events.push(event);
            }
        }
        events
    }

    /// Submits and completes until the program gets an event or nothing moves.
    fn settle(&mut self) -> Vec<FileIoEvent> {
        loop {
            let events = self.poll();
            self.submit();
            if !events.is_empty() || self.bios.is_empty() {
                return events;
            }
            let events = self.complete(Status::Ok);
            if !events.is_empty() {
                return events;
            }
        }
    }

    /// Does an I/O until it has finished.
    fn run(&mut self, kind: FileOpKind, page: u64, pages: u64) -> Status {
        match self.begin(3, kind, page, pages) {
            Begun::Finished(status) => status,
            Begun::Waits { .. } => match self.settle()[..] {
                [FileIoEvent::Finished { task: T0, token: 3, status }] => status,
                ref other => panic!("{other:?}"),
            },
            Begun::Device => panic!("it goes past the cache"),
        }
    }

    fn is_cached(&self, page: u64) -> bool {
        let file = FileId((page / FILE_PAGES) as u32);
        let index = page % FILE_PAGES;
        self.io
            .cache()
            .resident()
            .pages()
            .next(file, PageIndex::new(index))
            .is_some_and(|(found, _)| found == PageIndex::new(index))
    }

    fn take_log(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }
}

const fn over(token: u32) -> FileIoEvent {
    FileIoEvent::Finished { task: T0, token, status: Status::Ok }
}

const DIRECT: Begun = Begun::Waits { is_direct: true };
const BUFFERED: Begun = Begun::Waits { is_direct: false };

#[test]
fn a_read_is_one_call_and_a_second_one_hits() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Read, 2, 1), BUFFERED);
    assert_eq!(bed.settle(), [over(0)]);
    assert_eq!(bed.begin(1, FileOpKind::Read, 2, 1), Begun::Finished(Status::Ok));
    assert_eq!((&bed.seen.calls[..], &bed.seen.over[..]), (&[CallClass::Read; 2][..], &[0, 1][..]));
}

#[test]
fn a_read_that_ends_short_goes_on_until_the_file_ends() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    bed.io.cache_mut().call(
        bed.now,
        Call::new(
            TaskId(2),
            0,
            OpenId(0),
            CallKind::Truncate,
            FileOffset::new(3 * PAGE),
            Bytes::ZERO,
        ),
    );
    assert_eq!(bed.run(FileOpKind::Read, 2, 2), Status::Ok);
    // The first page is cached; the call for the second page reads nothing.
    assert_eq!(bed.seen.calls, [CallClass::Read; 2]);
}

#[test]
fn what_follows_a_short_read_lies_behind_it_in_the_buffer() {
    let mut bed = bed(program(Access::Descriptor), |config| config.copies = true);
    bed.io.cache_mut().call(
        bed.now,
        Call::new(
            TaskId(2),
            0,
            OpenId(0),
            CallKind::Fadvise(Advice::Random),
            FileOffset::ZERO,
            Bytes::ZERO,
        ),
    );
    assert_eq!(bed.begin(0, FileOpKind::Read, 0, 2), BUFFERED);
    assert_eq!(bed.submit(), ["R0+2"]);
    assert_eq!(bed.complete(Status::Ok), [over(0)]);
    let offsets: Vec<u64> = core::iter::from_fn(|| bed.io.cache_mut().poll_copy())
        .map(|copy| copy.call_offset.get())
        .collect();
    assert_eq!(offsets, [0, PAGE]);
    let mut running = Operation {
        state: FileIoState::Read,
        at: FileOffset::new(PAGE),
        bytes: Bytes::new(2 * PAGE),
        ..Operation::NONE
    };
    let done = CallDone { bytes: Bytes::new(PAGE), ..call_done() };
    running.at = FileOffset::ZERO;
    let Step::Call { offset, bytes, .. } = running.step_read(Some(&done)) else {
        panic!("it is over")
    };
    assert_eq!(
        (running.at, offset, bytes),
        (FileOffset::new(PAGE), FileOffset::new(PAGE), Bytes::new(PAGE))
    );
    bed.io.programs[0].operations[0] = running;
    assert_eq!(
        bed.io.programs[0]
            .call(T0, 0, 0, CallKind::Read, FileOffset::new(PAGE), Bytes::new(PAGE))
            .buffer_offset,
        Bytes::new(PAGE)
    );
}

fn call_done() -> CallDone {
    let zero = Nanos::ZERO;
    CallDone {
        task: T0,
        token: 0,
        status: Status::Ok,
        bytes: Bytes::ZERO,
        waited: zero,
        device: zero,
        paused: zero,
        starved: zero,
        class: Default::default(),
        is_major: false,
    }
}

#[test]
fn a_page_that_cannot_be_read_fails_the_rest_of_its_read() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Read, 0, 1), BUFFERED);
    bed.submit();
    // The window failed; the page is read again alone, and fails again.
    assert_eq!(bed.complete(Status::Medium), []);
    bed.submit();
    let failed = FileIoEvent::Finished { task: T0, token: 0, status: Status::Medium };
    assert_eq!(bed.complete(Status::Medium), [failed]);
}

#[test]
fn a_write_is_over_when_its_pages_are_dirty_and_one_with_sync_when_the_device_has_them() {
    let mut plain = bed(program(Access::Descriptor), |_| {});
    assert_eq!(plain.begin(0, FileOpKind::Write, 1, 2), Begun::Finished(Status::Ok));
    assert_eq!(plain.submit(), [""; 0]);

    for (sync_writes, kind) in [(true, FileOpKind::Write), (false, FileOpKind::DurableWrite)] {
        let mut sync = bed(Program { sync_writes, ..program(Access::Descriptor) }, |_| {});
        assert_eq!(sync.begin(0, kind, 1, 2), BUFFERED);
        assert_eq!(sync.submit(), ["W1+2"]);
        assert_eq!(sync.complete(Status::Ok), []);
        assert_eq!(sync.submit(), ["flush"]);
        assert_eq!(sync.complete(Status::Ok), [over(0)]);
        assert_eq!(sync.seen.calls, [CallClass::Write, CallClass::Sync]);
        let next = if sync_writes { BUFFERED } else { Begun::Finished(Status::Ok) };
        assert_eq!(sync.begin(0, FileOpKind::Write, 3, 1), next, "each write for itself");
    }
}

#[test]
fn an_error_of_the_second_call_is_the_answer_of_the_write() {
    let mut bed = bed(Program { sync_writes: true, ..program(Access::Descriptor) }, |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Write, 1, 1), BUFFERED);
    bed.submit();
    let events = bed.complete(Status::Medium);
    assert!(
        matches!(events[..], [FileIoEvent::Finished { token: 0, status, .. }] if !status.is_ok()),
        "{events:?}"
    );
}

#[test]
fn a_mapping_is_touched_page_by_page() {
    let mut bed = bed(program(Access::Mapping), |_| {});
    bed.io.cache_mut().map(OpenId(0));
    assert_eq!(bed.run(FileOpKind::Read, 0, 3), Status::Ok);
    assert_eq!(bed.seen.calls.len(), 3);
    assert_eq!(bed.seen.calls[0], CallClass::Fault);
    bed.seen.calls.clear();
    assert_eq!(bed.begin(0, FileOpKind::Read, 0, 3), Begun::Finished(Status::Ok));
    assert_eq!(bed.seen.calls, [CallClass::Touch; 3]);
}

#[test]
fn a_store_is_over_when_the_device_has_it_if_writes_go_through() {
    for (mode, wrote) in [(WriteMode::Back, &[][..]), (WriteMode::Through, &["W4+2"][..])] {
        let mut bed = bed(program(Access::Mapping), |config| config.write_mode = mode);
        bed.io.cache_mut().map(OpenId(0));
        assert_eq!(bed.run(FileOpKind::Write, 4, 2), Status::Ok);
        let writes: Vec<String> =
            bed.take_log().into_iter().filter(|line| line.starts_with('W')).collect();
        assert_eq!(writes, wrote, "{mode:?}");
        assert_eq!(bed.seen.calls.contains(&CallClass::Sync), mode == WriteMode::Through);
    }
}

#[test]
fn a_sync_is_one_call_for_one_file() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.run(FileOpKind::Write, 1, 1), Status::Ok);
    assert_eq!(bed.run(FileOpKind::Write, FILE_PAGES + 1, 1), Status::Ok);
    assert_eq!(bed.run(FileOpKind::Sync, FILE_PAGES, 0), Status::Ok);
    assert_eq!(bed.take_log(), ["W17+1", "flush"]);
    assert_eq!(bed.run(FileOpKind::Sync, 0, 0), Status::Ok);
    assert_eq!(bed.take_log(), ["W1+1", "flush"]);
    assert_eq!(bed.seen.calls[2..], [CallClass::Sync; 2]);
}

#[test]
fn a_range_sync_writes_what_was_written_since_the_last_and_flushes_nothing() {
    let how = Some(RangeSync::ALL);
    let mut bed = bed(Program { range_sync: how, ..program(Access::Descriptor) }, |_| {});
    for page in [1, 4] {
        assert_eq!(bed.run(FileOpKind::Write, page, 1), Status::Ok);
    }
    assert_eq!(bed.run(FileOpKind::SyncRange, 0, 0), Status::Ok);
    assert_eq!(bed.take_log(), ["W1+1", "W4+1"]);
    assert_eq!(
        bed.begin(0, FileOpKind::SyncRange, 0, 0),
        Begun::Finished(Status::Ok),
        "nothing was written since"
    );
    assert_eq!(bed.run(FileOpKind::Write, FILE_PAGES + 2, 1), Status::Ok);
    assert_eq!(
        bed.begin(0, FileOpKind::SyncRange, 0, 0),
        Begun::Finished(Status::Ok),
        "the other file was written"
    );
    assert_eq!(bed.run(FileOpKind::SyncRange, FILE_PAGES, 0), Status::Ok);
    assert_eq!(bed.take_log(), ["W18+1"]);
}

#[test]
fn direct_io_of_what_is_not_cached_goes_to_the_device_at_once() {
    let mut bed = bed(program(Access::Direct), |_| {});
    for (token, kind) in [(0, FileOpKind::Read), (1, FileOpKind::Write), (2, FileOpKind::Sync)] {
        assert_eq!(bed.begin(token, kind, 0, 1), Begun::Device, "{kind:?}");
        assert!(!bed.io.on_device_done(bed.now, T0, token, Status::Ok, &mut bed.seen), "{kind:?}");
    }
    assert_eq!(bed.poll(), []);
}

/// Makes a call of another program that writes or reads pages of the first file.
fn other_call(bed: &mut Bed, kind: CallKind, page: u64, pages: u64) {
    let call = Call::new(
        TaskId(2),
        0,
        OpenId(0),
        kind,
        FileOffset::new(page * PAGE),
        Bytes::new(pages * PAGE),
    );
    if bed.io.cache_mut().call(bed.now, call) == Called::Wait {
        assert!(matches!(bed.settle()[..], [FileIoEvent::Call(CallDone { task: TaskId(2), .. })]));
    }
}

#[test]
fn a_direct_read_has_dirty_pages_written_first_and_leaves_them() {
    let mut bed = bed(program(Access::Direct), |_| {});
    other_call(&mut bed, CallKind::Write, 3, 1);
    assert_eq!(bed.begin(0, FileOpKind::Read, 2, 4), DIRECT);
    assert_eq!(bed.submit(), ["W3+1"]);
    assert_eq!(bed.complete(Status::Ok), [FileIoEvent::Device { task: T0, token: 0 }]);
    assert!(bed.io.on_device_done(bed.now, T0, 0, Status::Ok, &mut bed.seen));
    assert_eq!(bed.poll(), [over(0)]);
    assert!(bed.is_cached(3));
}

#[test]
fn a_direct_write_drops_pages_before_and_after() {
    let mut bed = bed(program(Access::Direct), |_| {});
    other_call(&mut bed, CallKind::Write, 3, 1);
    assert_eq!(bed.begin(0, FileOpKind::Write, 2, 4), DIRECT);
    assert_eq!(bed.submit(), ["W3+1"]);
    assert_eq!(bed.complete(Status::Ok), [FileIoEvent::Device { task: T0, token: 0 }]);
    assert!(!bed.is_cached(3), "what is cached would be out of date");
    other_call(&mut bed, CallKind::Read, 4, 1);
    assert!(bed.is_cached(4), "read from under the write");
    assert!(bed.io.on_device_done(bed.now, T0, 0, Status::Medium, &mut bed.seen));
    assert_eq!(bed.poll(), [FileIoEvent::Finished { task: T0, token: 0, status: Status::Medium }]);
    assert!(!bed.is_cached(4));
}

#[test]
fn a_page_that_is_read_from_under_an_uncached_direct_write_is_dropped_after_it() {
    let mut bed = bed(program(Access::Direct), |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Write, 2, 4), Begun::Device);
    other_call(&mut bed, CallKind::Read, 4, 1);
    assert!(bed.io.on_device_done(bed.now, T0, 0, Status::Ok, &mut bed.seen));
    assert_eq!(bed.settle(), [over(0)]);
    assert!(!bed.is_cached(4));
}

#[test]
fn an_error_of_the_write_back_keeps_direct_io_from_the_device() {
    let mut bed = bed(program(Access::Direct), |_| {});
    other_call(&mut bed, CallKind::Write, 3, 1);
    assert_eq!(bed.begin(0, FileOpKind::Read, 2, 4), DIRECT);
    bed.submit();
    let events = bed.complete(Status::Medium);
    assert!(
        matches!(events[..], [FileIoEvent::Finished { status, .. }] if !status.is_ok()),
        "{events:?}"
    );
}

#[test]
fn another_program_takes_the_place_of_one_that_has_ended() {
    let mut bed = bed(program(Access::Descriptor), |config| config.copies = true);
    let mut one = FileIo::new(CacheConfig {
        copies: true,
        ..CacheConfig::new(Bytes::new(64 << 20), TaskId(1))
    });
    one.cache_mut().add_file(Sector::ZERO, Bytes::new(1 << 20), Bytes::new(1 << 20));
    let open = one.cache_mut().open(FileId(0));
    let start = DeviceOffset::new(0);
    let part = OpenPart { open, file: FileId(0), file_start: start, start, len: Bytes::new(PAGE) };
    one.add_program(program(Access::Descriptor), &[part]);
    bed.io = one;
    assert_eq!(bed.begin(0, FileOpKind::Write, 0, 1), Begun::Finished(Status::Ok));
    assert_eq!(bed.submit(), [""; 0]);
    let other = Program { tenant: TenantId(3), depth: 8, ..program(Access::Descriptor) };
    bed.io.replace_program(T0, other, DeviceOffset::new(4 * PAGE), Bytes::new(PAGE));
    assert_eq!(
        bed.begin(7, FileOpKind::Write, 4, 1),
        Begun::Finished(Status::Ok),
        "it has a greater depth"
    );
    assert_eq!(bed.submit(), [""; 0]);
    assert_eq!(bed.begin(1, FileOpKind::Sync, 0, 0), BUFFERED);
    assert_eq!(bed.submit(), ["W4+1"], "its own part");
    assert_eq!(
        [0, 3].map(|tenant| bed.io.cache().dirty_of(TenantId(tenant))),
        [(1, 0), (0, 1)],
        "each its own pages"
    );
}

#[test]
fn a_discard_is_direct_in_a_buffered_program_too() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Discard, 2, 1), Begun::Device);
    assert!(!bed.io.on_device_done(bed.now, T0, 0, Status::Ok, &mut bed.seen));
    assert_eq!(bed.run(FileOpKind::Write, 2, 1), Status::Ok);
    assert_eq!(bed.begin(0, FileOpKind::Discard, 2, 1), DIRECT);
    assert_eq!(bed.submit(), [""; 0], "what is discarded is not written first");
    assert_eq!(bed.poll(), [FileIoEvent::Device { task: T0, token: 0 }]);
    assert!(!bed.is_cached(2));
    assert_eq!(bed.io.cache().dirty_of(TenantId(0)), (0, 0));
}

#[test]
fn a_discard_of_half_a_page_has_the_page_written() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.run(FileOpKind::Write, 2, 2), Status::Ok);
    assert_eq!(bed.begin_as(0, FileOpKind::Discard, 2, PAGE + PAGE / 2, false), DIRECT);
    assert_eq!(bed.submit(), ["W3+1"]);
    assert_eq!(bed.complete(Status::Ok), [FileIoEvent::Device { task: T0, token: 0 }]);
}

#[test]
fn zeroes_that_may_be_refused_have_dirty_pages_written_first() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.run(FileOpKind::Write, 2, 1), Status::Ok);
    assert_eq!(bed.begin(0, FileOpKind::Zeroes, 2, 1), DIRECT);
    assert_eq!(bed.submit(), ["W2+1"]);
    assert_eq!(bed.complete(Status::Ok), [FileIoEvent::Device { task: T0, token: 0 }]);
    assert!(!bed.is_cached(2));
}

#[test]
fn before_a_verification_with_bytes_all_files_are_written_and_dropped_and_other_ios_wait() {
    let mut bed = bed(program(Access::Descriptor), |config| config.copies = true);
    assert_eq!(bed.run(FileOpKind::Write, 1, 1), Status::Ok);
    assert_eq!(bed.run(FileOpKind::Write, FILE_PAGES + 1, 1), Status::Ok);
    bed.take_log();
    assert_eq!(bed.begin_as(0, FileOpKind::Read, 1, PAGE, true), BUFFERED);
    assert_eq!(bed.begin(1, FileOpKind::Read, FILE_PAGES + 1, 1), BUFFERED);
    assert_eq!(bed.submit(), ["W1+1"]);
    assert_eq!(bed.complete(Status::Ok), []);
    assert_eq!(bed.submit(), ["W17+1"]);
    assert_eq!(bed.complete(Status::Ok), []);
    // Both are now read from the device, beginning with the one that waited first.
    let reads = bed.submit();
    assert!(reads[0].starts_with("R17+") && reads[1].starts_with("R1+"), "{reads:?}");
    assert_eq!(bed.complete(Status::Ok), [over(1), over(0)]);
}

#[test]
fn an_error_before_a_verification_ends_its_io_and_lets_the_others_go() {
    let mut bed = bed(program(Access::Descriptor), |config| config.copies = true);
    assert_eq!(bed.run(FileOpKind::Write, 1, 1), Status::Ok);
    assert_eq!(bed.begin_as(0, FileOpKind::Read, 1, PAGE, true), BUFFERED);
    assert_eq!(bed.begin(1, FileOpKind::Read, 2, 1), BUFFERED);
    bed.submit();
    let events = bed.complete(Status::Medium);
    assert!(
        matches!(events[..], [FileIoEvent::Finished { token: 0, status, .. }] if !status.is_ok()),
        "{events:?}"
    );
    assert_eq!(bed.settle(), [over(1)]);
}

#[test]
fn what_is_over_while_its_task_sleeps_in_the_stack_is_told_when_it_wakes() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.begin(0, FileOpKind::Read, 1, 1), BUFFERED);
    bed.submit();
    bed.io.task_blocked(T0);
    assert_eq!(bed.complete(Status::Ok), []);
    assert_eq!(bed.begin(1, FileOpKind::Write, 4, 1), BUFFERED, "its task sleeps");
    assert!(bed.seen.over.is_empty());
    assert!(bed.io.task_unblocked(T0, &mut bed.seen));
    assert_eq!(bed.seen.over, [0, 1]);
    // The task may sleep again in what follows.
    bed.io.task_blocked(T0);
    assert_eq!(bed.poll(), [over(0), over(1)]);
    assert!(bed.io.task_unblocked(T0, &mut bed.seen));
    assert!(!bed.io.task_unblocked(T0, &mut bed.seen), "it did not sleep for a bio");
}

#[test]
fn direct_io_that_is_ready_for_the_device_waits_for_its_task() {
    let mut bed = bed(program(Access::Direct), |_| {});
    bed.io.task_blocked(T0);
    assert_eq!(
        bed.begin(0, FileOpKind::Read, 1, 1),
        DIRECT,
        "nothing is cached, but the task sleeps"
    );
    assert_eq!(bed.poll(), []);
    assert!(bed.io.task_unblocked(T0, &mut bed.seen));
    assert_eq!(bed.poll(), [FileIoEvent::Device { task: T0, token: 0 }]);
}

#[test]
fn a_position_names_its_file() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    assert_eq!(bed.run(FileOpKind::Read, FILE_PAGES + 3, 1), Status::Ok);
    assert!(bed.is_cached(FILE_PAGES + 3) && !bed.is_cached(3));
}

#[test]
#[should_panic(expected = "is under way")]
fn a_token_names_one_io_at_a_time() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    bed.begin(0, FileOpKind::Read, 1, 1);
    bed.begin(0, FileOpKind::Read, 2, 1);
}

#[test]
#[should_panic(expected = "is not at the device")]
fn the_device_ends_only_what_it_has() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    bed.begin(0, FileOpKind::Read, 1, 1);
    bed.io.on_device_done(bed.now, T0, 0, Status::Ok, &mut bed.seen);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "time went backwards")]
fn time_does_not_go_back() {
    let mut bed = bed(program(Access::Descriptor), |_| {});
    bed.now = Instant::new(5);
    bed.begin(0, FileOpKind::Read, 1, 1);
    bed.now = Instant::new(4);
    bed.begin(1, FileOpKind::Read, 8, 1);
}
