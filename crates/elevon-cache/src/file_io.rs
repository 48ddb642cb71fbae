//! File I/O of programs: what a read, a write, a sync or a touch of a mapping is in calls of the
//! page cache, and what of it goes to the device directly.
//!
//! A buffered read or write is one call of the [`PageCache`]; the rest of a short read is one more,
//! and a write of a file that is open with O_SYNC makes a second call that waits for the device. An
//! I/O of a mapping is one call for each page, and if writes go through, one more that writes what
//! was stored. A sync is one call for each file that its program has open.
//!
//! Direct I/O goes to the device. If pages of its range are cached, they are written back before,
//! and before and after a direct write they are dropped. Before a program reads back what it wrote,
//! its files can be written back and dropped, so that the device answers and not memory.
//!
//! Each kind of I/O is a `step_*` function, which takes the call that is over and gives the next
//! one: `descriptor`, `mapping`, `sync`, `direct`, `verify`. Sans-IO like the cache. The loop of a
//! caller is that of [`PageCache`], with these in place of its `call` and `poll_done`:
//!
//! 1. [`FileIo::begin`] with what a program wants,
//! 2. [`FileIo::on_device_done`] for direct I/O that came back from the device,
//! 3. [`FileIo::poll`] until it gives nothing.
//!
//! An I/O has one name: its program's token is also that of the calls that it makes.
//!
//! Cost: O(1) for an I/O and for a page beside the cache's own, O(open files) for a sync. Nothing
//! is allocated per I/O once tables have grown.

mod descriptor;
mod direct;
mod mapping;
mod sync;
#[cfg(test)]
mod tests;
mod verify;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::FileId;
use crate::activity::Submitter;
use crate::page_cache::{CacheConfig, Call, CallDone, CallKind, Called, OpenId, PageCache, RangeSync, WriteMode};
use elevon_core::status::Status;
use elevon_core::units::{Instant, PAGE_SIZE, TaskId, TenantId};

/// The token of calls that belong to no I/O of their program: [`FileIo::call`].
pub const NO_IO: u64 = u64::MAX;

/// How a program gets at its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its I/O goes to the device (O_DIRECT).
    Direct,
    /// It reads and writes through descriptors.
    Descriptor,
    /// It loads from and stores to mappings.
    Mapping,
}

/// A program that does file I/O. Its number is that of its task.
#[derive(Clone, Debug)]
pub struct Program {
    /// How it gets at its files.
    pub access: Access,
    /// Its writes are durable when they are over (O_SYNC, O_DSYNC).
    pub sync_writes: bool,
    /// What its [`FileOpKind::SyncRange`] does.
    pub range_sync: Option<RangeSync>,
    /// The priority of its task.
    pub submitter: Submitter,
    /// The tenant that pays.
    pub tenant: TenantId,
    /// I/Os that it has under way at most. Their tokens are smaller than this.
    pub depth: usize,
}

/// A file that a program has open, and the part of it that the program uses.
#[derive(Clone, Copy, Debug)]
pub struct OpenPart {
    /// The open file.
    pub open: OpenId,
    /// The file.
    pub file: FileId,
    /// Where the file begins on the device, in bytes.
    pub file_start: u64,
    /// Where the part begins on the device, in bytes.
    pub start: u64,
    /// Bytes of the part.
    pub len: u64,
}

impl OpenPart {
    /// Where the part begins in the file.
    const fn offset(&self) -> u64 {
        self.start - self.file_start
    }

    /// Whether a byte of the device lies in the part.
    const fn holds(&self, position: u64) -> bool {
        self.start <= position && position - self.start < self.len
    }
}

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOpKind {
    /// Reads, or loads from a mapping.
    Read,
    /// Writes, or stores to a mapping.
    Write,
    /// Discards a range. Nothing of it is buffered.
    Discard,
    /// Makes durable what is written of all files that the program has open.
    Sync,
    /// Syncs what the program wrote since its last sync (sync_file_range).
    SyncRange,
}

/// An I/O of a program.
#[derive(Clone, Copy, Debug)]
pub struct FileOp {
    /// The program's task.
    pub task: TaskId,
    /// The program's number for it, below [`Program::depth`].
    pub token: u32,
    /// What it does.
    pub kind: FileOpKind,
    /// The file that it is of, by its place among the program's, if `position` lies in its part.
    pub file: usize,
    /// First byte, on the device.
    pub position: u64,
    /// Bytes.
    pub bytes: u64,
    /// It is the first that reads back what its program wrote: what is cached of the program's
    /// files is dropped before, and with bytes written back before that.
    pub begins_verify: bool,
}

/// How an I/O began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It goes to the device at once, and [`FileIo::on_device_done`] is to be told when it is back.
    Device,
    /// It is over.
    Over(Status),
    /// [`FileIo::poll`] will tell how it goes on.
    Waits {
        /// It is direct I/O: its program sleeps in the submission.
        is_direct: bool,
    },
}

/// What became of an I/O, or of a call that belongs to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIoEvent {
    /// The I/O is over.
    Over {
        /// Its program.
        task: TaskId,
        /// Its name.
        token: u32,
        /// How it ended.
        status: Status,
    },
    /// The I/O is direct, and goes to the device now.
    Device {
        /// Its program.
        task: TaskId,
        /// Its name.
        token: u32,
    },
    /// The I/O sleeps again, or waits: it may have made the cache build bios.
    Sleeps,
    /// A call of [`FileIo::call`] that had slept is over.
    Call(CallDone),
}

/// What a call of an I/O is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// A touch of a page that was mapped: no fault.
    Touch,
    /// A page fault.
    Fault,
    /// A read through a descriptor.
    Read,
    /// A write through a descriptor.
    Write,
    /// Anything that waits for pages to be written.
    Sync,
}

/// Learns when the calls of an I/O are over, and the I/O: for counting, and for charging what they
/// cost.
pub trait FileIoObserver {
    /// A call of an I/O is over.
    fn call_over(&mut self, end: &CallEnd<'_>);

    /// An I/O is over. That is told by [`Begun::Over`] at once or later by [`FileIoEvent::Over`].
    fn io_over(&mut self, task: TaskId, token: u32);
}

/// A call that an I/O made is over.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    /// The program.
    pub task: TaskId,
    /// The I/O.
    pub token: u32,
    /// What the call is counted as.
    pub class: CallClass,
    /// Pages that the whole I/O lies in.
    pub pages: u64,
    /// The call.
    pub done: &'a CallDone,
}

/// Where an I/O stands: the call that it makes next, or is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The I/O reads from `at` on through a descriptor.
    Read,
    /// The I/O writes through a descriptor.
    Write,
    /// The O_SYNC write has its pages dirty and waits until the device has them.
    SyncAfterWrite,
    /// The I/O of a mapping touches the page at `at`.
    Fault,
    /// The I/O of a mapping has stored to all its pages, and as writes go through they are written.
    WriteThrough,
    /// The first I/O that reads back what its program wrote has the file `verify_file` written
    /// back.
    VerifyWriteBack,
    /// The first I/O that reads back what its program wrote has the file `verify_file` dropped.
    VerifyInvalidate,
    /// The I/O syncs the file `file` as a whole.
    Sync,
    /// The I/O syncs what was written of the file `file` since that was synced last.
    SyncRange,
    /// The direct I/O has what is dirty of its range written back.
    DirectWriteBack,
    /// The direct write has the cached pages of its range dropped before it goes to the device.
    DirectInvalidate,
    /// The direct I/O goes to the device, or is there.
    DirectDevice,
    /// The direct write is back, and pages that were read meanwhile are dropped.
    DirectInvalidateAgain,
    /// The direct write of a range of which nothing was cached is at the device.
    DirectUncached,
    /// The I/O is over, or it is direct, reads nothing that is cached and is at the device.
    Over,
}

impl State {
    /// Whether the I/O belongs to a pass that drops files before they are read back.
    const fn is_of_verify_pass(self) -> bool {
        matches!(self, Self::VerifyWriteBack | Self::VerifyInvalidate)
    }

    /// Whether the I/O can be in a call of the cache.
    const fn makes_calls(self) -> bool {
        !matches!(self, Self::DirectDevice | Self::DirectUncached | Self::Over)
    }
}

/// An I/O; offsets are those in its file.
#[derive(Clone, Copy, Debug)]
struct Operation {
    state: State,
    /// The state that follows the pass before a verification.
    after_verify: State,
    verify_file: usize,
    /// The file that it is of, or that a sync has come to, by its place among the program's.
    file: usize,
    at: u64,
    offset: u64,
    bytes: u64,
    is_write: bool,
    status: Status,
}

impl Operation {
    const NONE: Self = Self {
        state: State::Over,
        after_verify: State::Over,
        verify_file: 0,
        file: 0,
        at: 0,
        offset: 0,
        bytes: 0,
        is_write: false,
        status: Status::Ok,
    };

    const fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Pages that it lies in.
    const fn pages(&self) -> u64 {
        self.end().div_ceil(PAGE_SIZE) - self.offset / PAGE_SIZE
    }

    /// A call about all of its range.
    const fn of_range(&self, kind: CallKind) -> Step {
        Step::Call { file: self.file, kind, offset: self.offset, bytes: self.bytes }
    }

    /// What a call is counted as that the I/O is in; `None` if it is not counted.
    const fn class(&self, is_touch: bool) -> Option<CallClass> {
        Some(match self.state {
            State::Read => CallClass::Read,
            State::Write => CallClass::Write,
            State::Fault if is_touch => CallClass::Touch,
            State::Fault => CallClass::Fault,
            State::Sync | State::SyncRange | State::SyncAfterWrite | State::WriteThrough | State::DirectWriteBack => {
                CallClass::Sync
            }
            State::VerifyWriteBack
            | State::VerifyInvalidate
            | State::DirectInvalidate
            | State::DirectDevice
            | State::DirectInvalidateAgain
            | State::DirectUncached
            | State::Over => return None,
        })
    }
}

/// What an I/O does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Makes a call about a file of its program.
    Call { file: usize, kind: CallKind, offset: u64, bytes: u64 },
    /// Goes on with what its new state does first.
    Again,
    /// Goes to the device.
    Device,
    /// Is over.
    Over,
}

/// What an I/O that makes no call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Device,
    Over,
}

/// A file that a program has open.
#[derive(Clone, Copy, Debug)]
struct Opened {
    part: OpenPart,
    /// What was written since the last sync, from first to last byte: `sync_file_range` is about
    /// that.
    written: Option<(u64, u64)>,
}

/// A program with its I/Os.
#[derive(Clone, Debug)]
struct Running {
    program: Program,
    files: Vec<Opened>,
    /// By token.
    operations: Vec<Operation>,
    /// The task sleeps in the stack for a bio of its own, and its I/Os that would leave wait in
    /// `held`.
    is_blocked: bool,
    /// At most `depth` tokens.
    held: Vec<u32>,
    /// The I/O that drops the files before the program reads back what it wrote.
    verifying: Option<u32>,
    /// I/Os that began meanwhile and wait for it; at most `depth`.
    after_verify: Vec<u32>,
}

/// An I/O that goes on with the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ready {
    task: TaskId,
    token: u32,
    /// It is over, even if its task has gone to sleep in the stack again since.
    is_over: bool,
}

/// The I/O of all programs, and the page cache that it goes through.
#[derive(Clone, Debug)]
pub struct FileIo {
    cache: PageCache,
    /// By task.
    programs: Vec<Running>,
    /// I/Os that go on with the next poll. Each is in here at most once, as it is in no call then.
    ready: VecDeque<Ready>,
    has_bytes: bool,
    writes_through: bool,
}

impl FileIo {
    /// An empty cache and no programs.
    pub fn new(config: CacheConfig) -> Self {
        let (has_bytes, writes_through) = (config.copies, config.write_mode == WriteMode::Through);
        let (programs, ready) = (Vec::new(), VecDeque::new());
        Self { cache: PageCache::new(config), programs, ready, has_bytes, writes_through }
    }

    /// The next program: numbers are dense from 0, and smaller than that of the flusher's task. One
    /// without files has nothing to do with the cache.
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

    /// The cache.
    #[inline]
    pub const fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// The cache, for everything that is not an I/O of a program.
    #[inline]
    pub const fn cache_mut(&mut self) -> &mut PageCache {
        &mut self.cache
    }

    /// Whether the cache has bytes to copy.
    pub const fn has_bytes(&self) -> bool {
        self.has_bytes
    }

    /// Whether a program has files in the cache.
    #[inline]
    pub fn has_files(&self, task: TaskId) -> bool {
        !self.programs[task.index()].files.is_empty()
    }

    /// The files of a program.
    pub fn files(&self, task: TaskId) -> impl ExactSizeIterator<Item = OpenPart> + '_ {
        self.programs[task.index()].files.iter().map(|opened| opened.part)
    }

    /// Begins an I/O.
    ///
    /// # Panics
    /// If the program has an I/O of this token under way, or no file.
    #[inline]
    pub fn begin(&mut self, now: Instant, op: &FileOp, observer: &mut impl FileIoObserver) -> Begun {
        let running = &mut self.programs[op.task.index()];
        let is_sync = matches!(op.kind, FileOpKind::Sync | FileOpKind::SyncRange);
        let file = running.file_of(op);
        let OpenPart { file: id, file_start, .. } = running.files[file].part;
        let offset = op.position.saturating_sub(file_start);
        let is_direct = running.program.access == Access::Direct || op.kind == FileOpKind::Discard;
        let (state, file) = match op.kind {
            FileOpKind::Sync => (State::Sync, 0),
            FileOpKind::SyncRange => (State::SyncRange, 0),
            _ if is_direct => (State::DirectWriteBack, file),
            _ if running.program.access == Access::Mapping => (State::Fault, file),
            FileOpKind::Read => (State::Read, file),
            FileOpKind::Write | FileOpKind::Discard => (State::Write, file),
        };
        let is_write = op.kind != FileOpKind::Read;
        let at = &mut running.operations[op.token as usize];
        assert!(!at.state.makes_calls(), "I/O {} of {:?} is under way: {:?}", op.token, op.task, at.state);
        *at = Operation {
            state,
            after_verify: state,
            file,
            at: offset,
            offset,
            bytes: op.bytes,
            is_write,
            ..Operation::NONE
        };
        if is_direct && !running.is_blocked && !is_cached(&self.cache, running, is_sync, id, offset, op.bytes) {
            at_device(&mut running.operations[op.token as usize], is_sync);
            return Begun::Device;
        }
        if op.begins_verify {
            self.begin_verify(now, op);
        }
        let running = &mut self.programs[op.task.index()];
        if running.verifying.is_some_and(|first| first != op.token) {
            running.after_verify.push(op.token);
            debug_assert!(running.after_verify.len() < running.program.depth, "an I/O waits twice");
            return Begun::Waits { is_direct };
        }
        match self.drive(now, op.task, op.token, None, observer) {
            Some(Outcome::Over) => Begun::Over(self.programs[op.task.index()].operations[op.token as usize].status),
            Some(Outcome::Device) => {
                self.ready.push_back(Ready { task: op.task, token: op.token, is_over: false });
                Begun::Waits { is_direct }
            }
            None => Begun::Waits { is_direct },
        }
    }

    /// Direct I/O is back from the device. False if it is over with that; else [`Self::poll`] will
    /// tell.
    pub fn on_device_done(
        &mut self,
        now: Instant,
        task: TaskId,
        token: u32,
        status: Status,
        observer: &mut impl FileIoObserver,
    ) -> bool {
        let running = &self.programs[task.index()];
        let Operation { state, file, offset, bytes, is_write, .. } = running.operations[token as usize];
        let is_left = match state {
            State::DirectDevice => true,
            State::DirectUncached => {
                is_cached(&self.cache, running, false, running.files[file].part.file, offset, bytes)
            }
            State::Over => false,
            state => panic!("I/O {token} of {task:?} is not at the device: {state:?}"),
        };
        let at = &mut self.programs[task.index()].operations[token as usize];
        (at.status, at.state) = (status, State::Over);
        if !is_left {
            return false;
        }
        if is_write {
            at.state = State::DirectInvalidateAgain;
        }
        if let Some(outcome) = self.drive(now, task, token, None, observer) {
            self.ready.push_back(Ready { task, token, is_over: outcome == Outcome::Over });
        }
        true
    }

    /// The next thing that an I/O or a call comes to; `None` if nothing has changed.
    #[inline]
    pub fn poll(&mut self, now: Instant, observer: &mut impl FileIoObserver) -> Option<FileIoEvent> {
        let (task, token, done) = match self.ready.pop_front() {
            Some(Ready { task, token, is_over: true }) => return Some(self.over(task, token)),
            Some(Ready { task, token, is_over: false }) => (task, token, None),
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
            Some(Outcome::Over) => self.over(task, token),
            None => FileIoEvent::Sleeps,
        })
    }

    /// An I/O is over.
    #[inline]
    fn over(&self, task: TaskId, token: u32) -> FileIoEvent {
        let Operation { state, status, .. } = self.programs[task.index()].operations[token as usize];
        debug_assert_eq!(state, State::Over, "I/O {token} of {task:?}");
        FileIoEvent::Over { task, token, status }
    }

    /// A call of a program that belongs to none of its I/Os: what it does before its first one. If
    /// it sleeps, [`FileIoEvent::Call`] will tell.
    pub fn call(&mut self, now: Instant, task: TaskId, file: usize, kind: CallKind, offset: u64, bytes: u64) -> Called {
        let call = self.programs[task.index()].call(task, NO_IO, file, kind, offset, bytes);
        self.cache.call(now, call)
    }

    /// The stack makes a task sleep for one of the cache's bios: its bios wait, and so does what is
    /// over of its I/O.
    pub fn task_blocked(&mut self, task: TaskId) {
        self.cache.task_blocked(task);
        if let Some(running) = self.programs.get_mut(task.index()) {
            running.is_blocked = true;
        }
    }

    /// The task goes on. False if it did not sleep for one of the cache's bios but for direct I/O,
    /// whose sleep only [`PageCache::task_blocked`] was told of.
    pub fn task_unblocked(&mut self, task: TaskId, observer: &mut impl FileIoObserver) -> bool {
        let mut slept_for_bio = true;
        if let Some(running) = self.programs.get_mut(task.index()) {
            slept_for_bio = core::mem::take(&mut running.is_blocked);
            debug_assert!(slept_for_bio || running.held.is_empty(), "I/Os of {task:?} are held for nothing");
            let Running { held, operations, .. } = running;
            for token in held.drain(..) {
                let is_over = operations[token as usize].state == State::Over;
                if is_over {
                    observer.io_over(task, token);
                }
                self.ready.push_back(Ready { task, token, is_over });
            }
        }
        self.cache.task_unblocked(task);
        slept_for_bio
    }

    /// Goes on with an I/O, whose call `done` is over, until a call sleeps, or it goes to the
    /// device or is over. If its task sleeps in the stack, it is held then.
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
            let outcome = match running.step(token, done.take().as_ref(), self.has_bytes, self.writes_through) {
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
                        let ready = |token| Ready { task, token, is_over: false };
                        self.ready.extend(running.after_verify.drain(..).chain([token]).map(ready));
                        return None;
                    }
                    continue;
                }
                Step::Device => Outcome::Device,
                Step::Over => Outcome::Over,
            };
            if running.is_blocked {
                running.held.push(token);
                debug_assert!(running.held.len() <= running.program.depth, "an I/O is held twice");
                return None;
            }
            if outcome == Outcome::Over {
                observer.io_over(task, token);
            }
            return Some(outcome);
        }
    }

    /// Tells of a call that is over.
    #[inline]
    fn count(&self, task: TaskId, token: u32, done: &CallDone, is_touch: bool, observer: &mut impl FileIoObserver) {
        let at = &self.programs[task.index()].operations[token as usize];
        assert!(at.state.makes_calls(), "I/O {token} of {task:?} was in no call: {:?}", at.state);
        if let Some(class) = at.class(is_touch) {
            observer.call_over(&CallEnd { task, token, class, pages: at.pages(), done });
        }
    }

    /// Panics if an I/O or the cache is in a state that it cannot be in. Costs O(everything); for
    /// tests.
    pub fn self_check(&self) {
        self.cache.self_check();
        for (n, one) in self.ready.iter().enumerate() {
            let is_same = |other: &&Ready| (other.task, other.token) == (one.task, one.token);
            assert_eq!(self.ready.iter().skip(n + 1).find(is_same), None, "an I/O is ready twice");
        }
        for (n, running) in self.programs.iter().enumerate() {
            assert!(running.is_blocked || running.held.is_empty(), "program {n} is awake, and I/Os of it are held");
            assert!(running.verifying.is_some() || running.after_verify.is_empty(), "program {n} waits for no pass");
            for &token in &running.held {
                let state = running.operations[token as usize].state;
                assert!(matches!(state, State::DirectDevice | State::Over), "{token} is held in {state:?}");
            }
        }
    }
}

impl Running {
    /// The file of an I/O, by its place.
    #[inline]
    fn file_of(&self, op: &FileOp) -> usize {
        let named = self.files.get(op.file).filter(|opened| opened.part.holds(op.position)).map(|_| op.file);
        let holding = || self.files.iter().position(|opened| opened.part.holds(op.position));
        named.or_else(holding).unwrap_or(0)
    }

    /// A call about a file of the program.
    #[inline]
    fn call(&self, task: TaskId, token: u64, file: usize, kind: CallKind, offset: u64, bytes: u64) -> Call {
        let Program { submitter, tenant, .. } = self.program;
        let buffer_offset = match self.operations.get(token as usize) {
            Some(at) if matches!(at.state, State::Read | State::Fault) => at.at - at.offset,
            _ => 0,
        };
        let open = self.files[file].part.open;
        Call { task, token, submitter, tenant, open, kind, offset, bytes, buffer_offset }
    }

    /// What an I/O does next, now that its call `done` is over, or as it begins.
    #[inline]
    fn step(&mut self, token: u32, done: Option<&CallDone>, has_bytes: bool, writes_through: bool) -> Step {
        let Self { program, files, operations, verifying, .. } = self;
        let at = &mut operations[token as usize];
        if let Some(done) = done {
            if !done.status.is_ok() {
                (at.status, at.state) = (done.status, State::Over);
            } else if program.range_sync.is_some() && at.is_write && matches!(at.state, State::Write | State::Fault) {
                files[at.file].note_written(at.offset, at.end());
            }
        }
        if *verifying == Some(token) && !at.state.is_of_verify_pass() {
            return Step::Again;
        }
        let step = match at.state {
            State::Read => at.step_read(done),
            State::Write | State::SyncAfterWrite => at.step_write(done, program.sync_writes),
            State::Fault | State::WriteThrough => at.step_fault(done, writes_through),
            State::Sync => at.step_sync(done, files, has_bytes),
            State::SyncRange => at.step_sync_range(done, files, program.range_sync),
            State::VerifyWriteBack | State::VerifyInvalidate => at.step_verify(done, files),
            State::DirectWriteBack | State::DirectInvalidate | State::DirectDevice | State::DirectInvalidateAgain => {
                at.step_direct(done)
            }
            State::DirectUncached => unreachable!("I/O {token} is at the device"),
            State::Over => Step::Over,
        };
        if matches!(step, Step::Over) {
            at.state = State::Over;
        }
        step
    }
}

impl Opened {
    /// A part of the file was written.
    fn note_written(&mut self, first: u64, end: u64) {
        debug_assert!(first <= end);
        self.written = Some(self.written.map_or((first, end), |(from, to)| (from.min(first), to.max(end))));
    }
}

/// Whether pages of the range are cached, or for a sync pages of any file of the program.
fn is_cached(cache: &PageCache, running: &Running, is_sync: bool, file: FileId, offset: u64, bytes: u64) -> bool {
    let pages = cache.resident().pages();
    if is_sync {
        return running.files.iter().any(|opened| pages.file_pages(opened.part.file) > 0);
    }
    let next = pages.next(file, offset / PAGE_SIZE);
    next.is_some_and(|(index, _)| index < (offset + bytes).div_ceil(PAGE_SIZE))
}

/// Direct I/O of which nothing is cached goes to the device. A page may be read under a write that
/// is under way, so that is looked for when the write is back.
const fn at_device(at: &mut Operation, is_sync: bool) {
    at.state = if at.is_write && !is_sync { State::DirectUncached } else { State::Over };
}
