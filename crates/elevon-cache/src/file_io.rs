//! File I/O of programs: turns reads, writes, syncs and touches of a mapping into calls of the page
//! cache, or into direct I/O.
//!
//! A buffered read or write is one call of the [`PageCache`]. The rest of a short read is another
//! call, and a write of a file that is open with O_SYNC makes a second call that waits for the
//! device. An I/O of a mapping is one call per page; if the cache is write-through, a store makes
//! another call that writes its pages. A sync is one call for one file.
//!
//! Direct I/O goes to the device. If pages of its range are cached, the dirty ones are written back
//! first; a direct write also drops the cached pages before and after. A discard drops them without
//! writing them; zeroes, which the device may refuse, do not. Before a program reads back
//! its writes, its files can be written back and dropped, so that the data comes from the device
//! and not from memory.
//!
//! Each kind of I/O has a `step_*` function, which takes the finished call and returns the next
//! one: `descriptor`, `mapping`, `sync`, `direct`, `verify`. Sans-IO like the cache. A caller's
//! loop is that of [`PageCache`], with these functions instead of `call` and `poll_done`:
//!
//! 1. [`FileIo::begin`] for every I/O of a program,
//! 2. [`FileIo::on_device_done`] for direct I/O that the device has completed,
//! 3. [`FileIo::poll`] until it returns `None`.
//!
//! An I/O has one token: that of its program is also the token of the calls that it makes.
//!
//! Cost: O(1) per I/O and per page in addition to the cache's own cost.
//! Nothing is allocated per I/O once tables have grown.

mod descriptor;
mod direct;
mod interface;
mod mapping;
mod program;
mod sync;
#[cfg(test)]
mod tests;
mod verify;

pub use interface::{Begun, CallClass, CallEnd, FileIoEvent, FileIoObserver, FileOp, FileOpKind};

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use program::{Access, OpenPart, Program};

use crate::FileId;
use crate::page_cache::{
    CacheConfig, Call, CallDone, CallKind, Called, OpenId, PageCache, WriteMode,
};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, DeviceOffset, FileOffset, Instant, PageCount, TaskId};

/// The token of calls that belong to no I/O of their program: [`FileIo::call`].
pub const NO_IO: u64 = u64::MAX;

/// The state of an I/O: the call that it makes next, or has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileIoState {
    /// The I/O reads from offset `at` on through a descriptor.
    Read,
    /// The I/O writes through a descriptor.
    Write,
    /// The O_SYNC write has made its pages dirty and waits until the device has completed them.
    SyncAfterWrite,
    /// The I/O of a mapping touches the page at `at`.
    Fault,
    /// The I/O of a mapping has stored to all its pages, and the write-through cache writes them.
    WriteThrough,
    /// The first I/O that reads back its program's writes has the file `verify_file` written back.
    VerifyWriteBack,
    /// The first I/O that reads back its program's writes has the file `verify_file` dropped.
    VerifyInvalidate,
    /// The I/O syncs the whole file `file`.
    Sync,
    /// The I/O syncs the range of the file `file` that was written since the last such sync.
    SyncRange,
    /// The direct I/O has the dirty pages of its range written back.
    DirectWriteBack,
    /// The direct write or discard has the cached pages of its range dropped before it goes to the
    /// device.
    DirectInvalidate,
    /// The direct I/O goes to the device, or is at the device.
    DirectDevice,
    /// The direct write has completed, and pages that were read meanwhile are dropped.
    DirectInvalidateAgain,
    /// The direct write is at the device, and its range had no cached page when it was issued.
    DirectUncached,
    /// The I/O has finished, or it is direct, its range had no cached page, and it is at the device
    /// (no write).
    Finished,
}

impl FileIoState {
    /// Returns true if the I/O belongs to a pass that drops files before they are read back.
    const fn is_of_verify_pass(self) -> bool {
        matches!(self, Self::VerifyWriteBack | Self::VerifyInvalidate)
    }

    /// Returns true if the I/O can be in a call of the cache.
    const fn makes_calls(self) -> bool {
        !matches!(self, Self::DirectDevice | Self::DirectUncached | Self::Finished)
    }
}

/// An I/O. Offsets are those in its file.
#[derive(Clone, Copy, Debug)]
struct Operation {
    state: FileIoState,
    /// The state after the pass that precedes a verification.
    after_verify: FileIoState,
    verify_file: usize,
    /// The file of the I/O, by its index among the program's files.
    file: usize,
    at: FileOffset,
    offset: FileOffset,
    bytes: Bytes,
    is_write: bool,
    is_discard: bool,
    is_durable: bool,
    status: Status,
}

impl Operation {
    const NONE: Self = Self {
        state: FileIoState::Finished,
        after_verify: FileIoState::Finished,
        verify_file: 0,
        file: 0,
        at: FileOffset::ZERO,
        offset: FileOffset::ZERO,
        bytes: Bytes::ZERO,
        is_write: false,
        is_discard: false,
        is_durable: false,
        status: Status::Ok,
    };

    fn end(&self) -> FileOffset {
        self.offset + self.bytes
    }

    /// Returns the number of pages of its range.
    fn pages(&self) -> PageCount {
        self.end().page_ceil() - self.offset.page()
    }

    /// Returns a call for its whole range.
    const fn of_range(&self, kind: CallKind) -> Step {
        Step::Call { file: self.file, kind, offset: self.offset, bytes: self.bytes }
    }

    /// Returns the class of the I/O's current call; `None` if the call is not counted.
    const fn class(&self, is_touch: bool) -> Option<CallClass> {
        Some(match self.state {
            FileIoState::Read => CallClass::Read,
            FileIoState::Write => CallClass::Write,
            FileIoState::Fault if is_touch => CallClass::Touch,
            FileIoState::Fault => CallClass::Fault,
            FileIoState::Sync
            | FileIoState::SyncRange
            | FileIoState::SyncAfterWrite
            | FileIoState::WriteThrough
            | FileIoState::DirectWriteBack => CallClass::Sync,
            FileIoState::VerifyWriteBack
            | FileIoState::VerifyInvalidate
            | FileIoState::DirectInvalidate
            | FileIoState::DirectDevice
            | FileIoState::DirectInvalidateAgain
            | FileIoState::DirectUncached
            | FileIoState::Finished => return None,
        })
    }
}

/// The next action of an I/O.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The I/O makes a call for a file of its program.
    Call { file: usize, kind: CallKind, offset: FileOffset, bytes: Bytes },
    /// The I/O continues with the first action of its new state.
    Again,
    /// The I/O goes to the device.
    Device,
    /// The I/O has finished.
    Finished,
}

/// The result of an I/O that makes no further call now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Device,
    Finished,
}

/// A file that a program has open.
#[derive(Clone, Copy, Debug)]
struct Opened {
    part: OpenPart,
    /// The range written since the last sync, from the first to the last byte. `sync_file_range`
    /// syncs it.
    written: Option<(FileOffset, FileOffset)>,
}

/// A program and its I/Os.
#[derive(Clone, Debug)]
struct Running {
    program: Program,
    files: Vec<Opened>,
    /// The I/Os, by token.
    operations: Vec<Operation>,
    /// True if the task sleeps in the stack for one of its bios. Its I/Os that go to the device or
    /// have finished wait in `held`.
    is_blocked: bool,
    /// Tokens of the I/Os that are held; at most `depth`.
    held: Vec<u32>,
    /// The I/O that drops the files before the program reads back its writes.
    verifying: Option<u32>,
    /// I/Os that began during that pass and wait for it; at most `depth`.
    after_verify: Vec<u32>,
}

/// An I/O that continues with the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ready {
    task: TaskId,
    token: u32,
    /// True if the I/O has finished, even if its task has started to sleep in the stack again
    /// since.
    is_done: bool,
}

/// The I/O of all programs, and the page cache that it uses.
#[derive(Clone, Debug)]
pub struct FileIo {
    cache: PageCache,
    /// The programs, by task.
    programs: Vec<Running>,
    /// I/Os that continue with the next poll. Each is in the queue at most once, because it is in
    /// no call then.
    ready: VecDeque<Ready>,
    has_bytes: bool,
    writes_through: bool,
}

impl FileIo {
    /// Returns an empty cache without programs.
    pub fn new(config: CacheConfig) -> Self {
        let (has_bytes, writes_through) = (config.copies, config.write_mode == WriteMode::Through);
        let (programs, ready) = (Vec::new(), VecDeque::new());
        Self { cache: PageCache::new(config), programs, ready, has_bytes, writes_through }
    }

    /// Adds a program. Its number is the next one: numbers are dense from 0, and smaller than that
    /// of the flusher's task. A program without files does not use the cache.
    pub fn add_program(&mut self, program: Program, files: &[OpenPart]) -> TaskId {
        let operations = alloc::vec![Operation::NONE; program.depth];
        self.programs.push(Running {
            program,
            files: files.iter().map(|&part| Opened { part, written: None }).collect(),
            operations,
            is_blocked: false,
            held: Vec::new(),
            verifying: None,
            after_verify: Vec::new(),
        });
        TaskId(self.programs.len() as u32 - 1)
    }

    /// Puts another program in the place of one that makes no I/O any more, with its open file and
    /// another part of it.
    ///
    /// # Panics
    /// If the program has not exactly one file, or an I/O of it has not finished.
    pub fn replace_program(
        &mut self,
        task: TaskId,
        program: Program,
        start: DeviceOffset,
        len: Bytes,
    ) {
        let running = &mut self.programs[task.index()];
        let is_over = |at: &Operation| at.state == FileIoState::Finished;
        assert!(
            running.operations.iter().all(is_over) && !running.is_blocked,
            "{task:?} has I/O in flight"
        );
        let &[Opened { part, .. }] = &running.files[..] else {
            panic!("{task:?} has another number of files than 1")
        };
        running.operations.resize(program.depth, Operation::NONE);
        (running.program, running.files[0]) =
            (program, Opened { part: OpenPart { start, len, ..part }, written: None });
        self.cache.reopen(part.open);
    }

    /// Returns the cache.
    #[inline]
    pub const fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// Returns the cache for changes that are not I/O of a program.
    #[inline]
    pub const fn cache_mut(&mut self) -> &mut PageCache {
        &mut self.cache
    }

    /// Returns true if the cache's frames hold bytes that must be copied.
    pub const fn has_bytes(&self) -> bool {
        self.has_bytes
    }

    /// Returns true if a program has files in the cache.
    #[inline]
    pub fn has_files(&self, task: TaskId) -> bool {
        !self.programs[task.index()].files.is_empty()
    }

    /// Returns the files of a program.
    pub fn files(&self, task: TaskId) -> impl ExactSizeIterator<Item = OpenPart> + '_ {
        self.programs[task.index()].files.iter().map(|opened| opened.part)
    }

    /// Begins an I/O.
    ///
    /// # Panics
    /// If the program has an unfinished I/O with this token, or no file.
    #[inline]
    pub fn begin(
        &mut self,
        now: Instant,
        op: &FileOp,
        observer: &mut impl FileIoObserver,
    ) -> Begun {
        let running = &mut self.programs[op.task.index()];
        let is_sync = matches!(op.kind, FileOpKind::Sync | FileOpKind::SyncRange);
        let file = if is_sync { op.file.min(running.files.len() - 1) } else { running.file_of(op) };
        let part = running.files[file].part;
        let (id, offset) = (part.file, part.in_file(op.position));
        let is_direct = running.program.access == Access::Direct
            || matches!(op.kind, FileOpKind::Discard | FileOpKind::Zeroes);
        let state = match op.kind {
            FileOpKind::Sync => FileIoState::Sync,
            FileOpKind::SyncRange => FileIoState::SyncRange,
            FileOpKind::Discard | FileOpKind::Zeroes => FileIoState::DirectInvalidate,
            _ if is_direct => FileIoState::DirectWriteBack,
            _ if running.program.access == Access::Mapping => FileIoState::Fault,
            FileOpKind::Read => FileIoState::Read,
            FileOpKind::Write | FileOpKind::DurableWrite => FileIoState::Write,
        };
        let is_write = op.kind != FileOpKind::Read;
        let at = &mut running.operations[op.token as usize];
        assert!(
            !at.state.makes_calls(),
            "I/O {} of {:?} is under way: {:?}",
            op.token,
            op.task,
            at.state
        );
        *at = Operation {
            state,
            after_verify: state,
            file,
            at: offset,
            offset,
            bytes: op.bytes,
            is_write,
            is_discard: op.kind == FileOpKind::Discard,
            is_durable: running.program.sync_writes || op.kind == FileOpKind::DurableWrite,
            ..Operation::NONE
        };
        if is_direct
            && !running.is_blocked
            && !is_cached(&self.cache, is_sync, id, offset, op.bytes)
        {
            at_device(&mut running.operations[op.token as usize], is_sync);
            return Begun::Device;
        }
        if op.is_first_check {
            self.begin_verify(op);
        }
        let running = &mut self.programs[op.task.index()];
        if running.verifying.is_some_and(|first| first != op.token) {
            running.after_verify.push(op.token);
            debug_assert!(running.after_verify.len() < running.program.depth, "an I/O waits twice");
            return Begun::Waits { is_direct };
        }
        match self.drive(now, op.task, op.token, None, observer) {
            Some(Outcome::Finished) => {
                Begun::Finished(self.programs[op.task.index()].operations[op.token as usize].status)
            }
            Some(Outcome::Device) => {
                self.ready.push_back(Ready { task: op.task, token: op.token, is_done: false });
                Begun::Waits { is_direct }
            }
            None => Begun::Waits { is_direct },
        }
    }

    /// Continues direct I/O that the device has completed. Returns false if the I/O has thereby
    /// finished; otherwise [`Self::poll`] returns its next event.
    pub fn on_device_done(
        &mut self,
        now: Instant,
        task: TaskId,
        token: u32,
        status: Status,
        observer: &mut impl FileIoObserver,
    ) -> bool {
        let running = &self.programs[task.index()];
        let Operation { state, file, offset, bytes, is_write, .. } =
            running.operations[token as usize];
        let is_left = match state {
            FileIoState::DirectDevice => true,
            FileIoState::DirectUncached => {
                is_cached(&self.cache, false, running.files[file].part.file, offset, bytes)
            }
            FileIoState::Finished => false,
            state => panic!("I/O {token} of {task:?} is not at the device: {state:?}"),
        };
        let at = &mut self.programs[task.index()].operations[token as usize];
        (at.status, at.state) = (status, FileIoState::Finished);
        if !is_left {
            return false;
        }
        if is_write {
            at.state = FileIoState::DirectInvalidateAgain;
        }
        if let Some(outcome) = self.drive(now, task, token, None, observer) {
            self.ready.push_back(Ready { task, token, is_done: outcome == Outcome::Finished });
        }
        true
    }

    /// Returns the next event of an I/O or a call; `None` if there is none.
    #[inline]
    pub fn poll(
        &mut self,
        now: Instant,
        observer: &mut impl FileIoObserver,
    ) -> Option<FileIoEvent> {
        let (task, token, done) = match self.ready.pop_front() {
            Some(Ready { task, token, is_done: true }) => return Some(self.over(task, token)),
            Some(Ready { task, token, is_done: false }) => (task, token, None),
            None => {
                let done = self.cache.poll_done()?;
                if done.token == NO_IO || done.task.index() >= self.programs.len() {
                    return Some(FileIoEvent::Call(done));
                }
                self.count(done.task, done.token as u32, &done, false, observer);
                (done.task, done.token as u32, Some(done))
            }
        };
        Some(match self.drive(now, task, token, done, observer) {
            Some(Outcome::Device) => FileIoEvent::Device { task, token },
            Some(Outcome::Finished) => self.over(task, token),
            None => FileIoEvent::Sleeps,
        })
    }

    /// Returns the event of a finished I/O.
    #[inline]
    fn over(&self, task: TaskId, token: u32) -> FileIoEvent {
        let Operation { state, status, .. } =
            self.programs[task.index()].operations[token as usize];
        debug_assert_eq!(state, FileIoState::Finished, "I/O {token} of {task:?}");
        FileIoEvent::Finished { task, token, status }
    }

    /// Makes a call of a program that belongs to none of its I/Os, such as one before its first
    /// I/O. If the call sleeps, [`FileIoEvent::Call`] follows when it has finished.
    pub fn call(
        &mut self,
        now: Instant,
        task: TaskId,
        file: usize,
        kind: CallKind,
        offset: FileOffset,
        bytes: Bytes,
    ) -> Called {
        let call = self.programs[task.index()].call(task, NO_IO, file, kind, offset, bytes);
        self.cache.call(now, call)
    }

    /// Makes a call of a task, such as a program's, for the whole of an open file, which need not
    /// be one of the program's. If the call sleeps, [`FileIoEvent::Call`] follows.
    pub fn call_whole(
        &mut self,
        now: Instant,
        task: TaskId,
        open: OpenId,
        kind: CallKind,
    ) -> Called {
        let mut call = Call::new(task, NO_IO, open, kind, FileOffset::ZERO, Bytes::ZERO);
        if let Some(Running { program, .. }) = self.programs.get(task.index()) {
            (call.submitter, call.tenant) = (program.submitter, program.tenant);
        }
        self.cache.call(now, call)
    }

    /// Returns true if a task is in a call that writes through the cache, or that waits for its
    /// O_SYNC write.
    pub fn is_writing(&self, task: TaskId) -> bool {
        let writes =
            |at: &Operation| matches!(at.state, FileIoState::Write | FileIoState::SyncAfterWrite);
        self.programs.get(task.index()).is_some_and(|running| running.operations.iter().any(writes))
    }

    /// Holds back a task's bios and its finished I/Os, because the stack makes the task sleep for
    /// one of the cache's bios.
    pub fn task_blocked(&mut self, task: TaskId) {
        self.cache.task_blocked(task);
        if let Some(running) = self.programs.get_mut(task.index()) {
            running.is_blocked = true;
        }
    }

    /// Releases the bios and I/Os of a task that no longer sleeps in the stack. Returns false if it
    /// slept not for one of the cache's bios but for direct I/O; in that case only
    /// [`PageCache::task_blocked`] was called for the sleep.
    pub fn task_unblocked(&mut self, task: TaskId, observer: &mut impl FileIoObserver) -> bool {
        let mut slept_for_bio = true;
        if let Some(running) = self.programs.get_mut(task.index()) {
            slept_for_bio = core::mem::take(&mut running.is_blocked);
            debug_assert!(
                slept_for_bio || running.held.is_empty(),
                "I/Os of {task:?} are held for nothing"
            );
            let Running { held, operations, .. } = running;
            for token in held.drain(..) {
                let is_done = operations[token as usize].state == FileIoState::Finished;
                if is_done {
                    observer.io_over(task, token);
                }
                self.ready.push_back(Ready { task, token, is_done });
            }
        }
        self.cache.task_unblocked(task);
        slept_for_bio
    }

    /// Continues an I/O, whose call `done` has finished, until a call sleeps, or until the I/O goes
    /// to the device or has finished. In the last two cases the I/O is held if its task sleeps in
    /// the stack.
    fn drive(
        &mut self,
        now: Instant,
        task: TaskId,
        token: u32,
        mut done: Option<CallDone>,
        observer: &mut impl FileIoObserver,
    ) -> Option<Outcome> {
        loop {
            let running = &mut self.programs[task.index()];
            let outcome = match running.step(
                token,
                done.take().as_ref(),
                self.has_bytes,
                self.writes_through,
            ) {
                Step::Call { file, kind, offset, bytes } => {
                    let call = running.call(task, token.into(), file, kind, offset, bytes);
                    debug_assert!(running.operations[token as usize].state.makes_calls());
                    let touches = self.cache.stats().touches;
                    match self.cache.call(now, call) {
                        Called::Wait => return None,
                        Called::Done(over) => {
                            let is_touch = self.cache.stats().touches > touches;
                            self.count(task, token, &over, is_touch, observer);
                            done = Some(over);
                            continue;
                        }
                    }
                }
                Step::Again => {
                    if running.end_verify(token) {
                        let ready = |token| Ready { task, token, is_done: false };
                        self.ready.extend(running.after_verify.drain(..).chain([token]).map(ready));
                        return None;
                    }
                    continue;
                }
                Step::Device => Outcome::Device,
                Step::Finished => Outcome::Finished,
            };
            if running.is_blocked {
                running.held.push(token);
                debug_assert!(running.held.len() <= running.program.depth, "an I/O is held twice");
                return None;
            }
            if outcome == Outcome::Finished {
                observer.io_over(task, token);
            }
            return Some(outcome);
        }
    }

    /// Tells the observer about a finished call.
    #[inline]
    fn count(
        &self,
        task: TaskId,
        token: u32,
        done: &CallDone,
        is_touch: bool,
        observer: &mut impl FileIoObserver,
    ) {
        let at = &self.programs[task.index()].operations[token as usize];
        assert!(at.state.makes_calls(), "I/O {token} of {task:?} was in no call: {:?}", at.state);
        if let Some(class) = at.class(is_touch) {
            observer.call_over(&CallEnd { task, token, class, pages: at.pages(), done });
        }
    }

    /// Panics if an I/O or the cache is in an invalid state. Costs O(pages, bios and I/Os); for
    /// tests.
    pub fn self_check(&self) {
        self.cache.self_check();
        for (n, one) in self.ready.iter().enumerate() {
            let is_same = |other: &&Ready| (other.task, other.token) == (one.task, one.token);
            assert_eq!(self.ready.iter().skip(n + 1).find(is_same), None, "an I/O is ready twice");
        }
        for (n, running) in self.programs.iter().enumerate() {
            assert!(
                running.is_blocked || running.held.is_empty(),
                "program {n} is awake, and I/Os of it are held"
            );
            assert!(
                running.verifying.is_some() || running.after_verify.is_empty(),
                "program {n} waits for no pass"
            );
            for &token in &running.held {
                let state = running.operations[token as usize].state;
                assert!(
                    matches!(state, FileIoState::DirectDevice | FileIoState::Finished),
                    "{token} is held in {state:?}"
                );
            }
        }
    }
}

impl Running {
    /// Returns the file of an I/O, by its index among the program's files.
    #[inline]
    fn file_of(&self, op: &FileOp) -> usize {
        let named = self
            .files
            .get(op.file)
            .filter(|opened| opened.part.holds(op.position))
            .map(|_| op.file);
        let holding = || self.files.iter().position(|opened| opened.part.holds(op.position));
        named.or_else(holding).unwrap_or(0)
    }

    /// Returns a call for a file of the program.
    #[inline]
    fn call(
        &self,
        task: TaskId,
        token: u64,
        file: usize,
        kind: CallKind,
        offset: FileOffset,
        bytes: Bytes,
    ) -> Call {
        let Program { submitter, tenant, .. } = self.program;
        let buffer_offset = match self.operations.get(token as usize) {
            Some(at) if matches!(at.state, FileIoState::Read | FileIoState::Fault) => {
                at.at - at.offset
            }
            _ => Bytes::ZERO,
        };
        let open = self.files[file].part.open;
        Call { task, token, submitter, tenant, open, kind, offset, bytes, buffer_offset }
    }

    /// Returns what an I/O does next, after its call `done` has finished, or when it begins.
    #[inline]
    fn step(
        &mut self,
        token: u32,
        done: Option<&CallDone>,
        has_bytes: bool,
        writes_through: bool,
    ) -> Step {
        let Self { program, files, operations, verifying, .. } = self;
        let at = &mut operations[token as usize];
        if let Some(done) = done {
            if !done.status.is_ok() {
                (at.status, at.state) = (done.status, FileIoState::Finished);
            } else if program.range_sync.is_some()
                && at.is_write
                && matches!(at.state, FileIoState::Write | FileIoState::Fault)
            {
                files[at.file].note_written(at.offset, at.end());
            }
        }
        if *verifying == Some(token) && !at.state.is_of_verify_pass() {
            return Step::Again;
        }
        let step = match at.state {
            FileIoState::Read => at.step_read(done),
            FileIoState::Write | FileIoState::SyncAfterWrite => at.step_write(done),
            FileIoState::Fault | FileIoState::WriteThrough => at.step_fault(done, writes_through),
            FileIoState::Sync => at.step_sync(done, files, has_bytes),
            FileIoState::SyncRange => at.step_sync_range(done, files, program.range_sync),
            FileIoState::VerifyWriteBack | FileIoState::VerifyInvalidate => {
                at.step_verify(done, files)
            }
            FileIoState::DirectWriteBack
            | FileIoState::DirectInvalidate
            | FileIoState::DirectDevice
            | FileIoState::DirectInvalidateAgain => at.step_direct(done),
            FileIoState::DirectUncached => unreachable!("I/O {token} is at the device"),
            FileIoState::Finished => Step::Finished,
        };
        if matches!(step, Step::Finished) {
            at.state = FileIoState::Finished;
        }
        step
    }
}

impl Opened {
    /// Records that a part of the file was written.
    fn note_written(&mut self, first: FileOffset, end: FileOffset) {
        debug_assert!(first <= end);
        self.written =
            Some(self.written.map_or((first, end), |(from, to)| (from.min(first), to.max(end))));
    }
}

/// Returns true if pages of the range are cached; for a sync, if pages of the file are.
fn is_cached(
    cache: &PageCache,
    is_sync: bool,
    file: FileId,
    offset: FileOffset,
    bytes: Bytes,
) -> bool {
    let pages = cache.resident().pages();
    if is_sync {
        return pages.file_pages(file) > 0;
    }
    let next = pages.next(file, offset.page());
    next.is_some_and(|(index, _)| index < (offset + bytes).page_ceil())
}

/// Sets the state of direct I/O without cached pages, which goes to the device. A page of the range
/// may be read while a write is in flight; that is checked when the write has completed.
const fn at_device(at: &mut Operation, is_sync: bool) {
    at.state =
        if at.is_write && !is_sync { FileIoState::DirectUncached } else { FileIoState::Finished };
}
