//! The page cache before a device that is served: parts of requests become I/O of [`FileIo`], and
//! its bios I/O of the stack.
//!
//! The device is the one file of the cache, and each client a program with a part of it open. A
//! READ or WRITE that the cache can answer is answered in the turn in which it came. TRIM and
//! WRITE_ZEROES go to the device, and the cached pages of their range are dropped: by TRIM as they
//! are, and by WRITE_ZEROES, which the device may refuse, once dirty ones are written. CACHE reads
//! ahead by slices ([`super::ahead`]). A FLUSH writes
//! back the dirty pages of its export, whichever connection wrote them, and flushes the device; FUA
//! does the same for the range of its WRITE.
//!
//! A write-back or a flush that fails loses data of an unknown number of answered requests. From
//! then on no FLUSH and no WRITE with FUA of any client succeeds, until the server is started
//! again.

use std::collections::BTreeMap;

use elevon_cache::FileId;
use elevon_cache::activity::Submitter;
use elevon_cache::file_io::{
    Access, Begun, CallClass, CallEnd, FileIo, FileIoEvent, FileIoObserver, FileOp, FileOpKind,
    OpenPart, Program,
};
use elevon_cache::page_cache::{CacheConfig, CacheIo, Call, CallKind, Called, WriteMode};
use elevon_cache::{Advice, Tag};
use elevon_core::ioprio::CpuPolicy;
use elevon_core::op::Op;
use elevon_core::stack::{Done, Stack};
use elevon_core::status::Status;
use elevon_core::units::{
    Bytes, DeviceOffset, FileOffset, Instant, PAGE_SIZE, Sector, TaskId, TenantId,
};
use elevon_engine::{CacheBios, CacheUser, Engine};

use super::DeviceLoop;
use super::ahead::AheadRanges;
use super::view::{CacheUse, CacheView};
use crate::device::client::BUFFERS;
use crate::device::pieces::Part;
use crate::disks::Disk;
use crate::net::export::Charged;
use crate::request::Operation;

/// The root's flusher task. Clients have smaller numbers.
pub(super) const FLUSHER: TaskId = TaskId(1024);

/// Tenants with a flusher task of their own, so that a tenant whose limit holds back its write-back
/// does not hold back others'. Those beyond share the root's.
const TENANT_FLUSHERS: u32 = 255;

/// The most that one CACHE reads ahead, from its first byte on.
const AHEAD_MOST: u64 = 32 << 20;

/// Dirty pages that an answer to BLOCK_STATUS tells of at most: looking for them takes time.
const DIRTY_TOLD: u32 = 256;

/// The page cache of a device.
#[derive(Debug)]
pub(crate) struct DeviceCache {
    files: FileIo,
    bios: CacheBios,
    config: (Bytes, WriteMode),
    device: Bytes,
    users: Users,
    ahead: AheadRanges,
    lost: Option<Status>,
    /// The end of the write-back with which the server ends.
    written_back: Option<Status>,
}

/// The tasks that make the I/O of the cache, and what they found there.
#[derive(Debug, Default)]
struct Users {
    /// The tenant of each client, by task.
    of_tasks: Vec<TenantId>,
    uses: BTreeMap<TenantId, CacheUse>,
}

impl FileIoObserver for Users {
    fn call_over(&mut self, end: &CallEnd<'_>) {
        let of = self.uses.entry(self.of_tasks[end.task.index()]).or_default();
        of.paused += end.done.paused;
        of.starved += end.done.starved;
        match end.class {
            CallClass::Read => {
                of.reads += 1;
                of.hits += u64::from(end.done.waited.is_zero() && end.done.starved.is_zero());
            }
            CallClass::Write => of.writes += 1,
            CallClass::Touch | CallClass::Fault | CallClass::Sync => {}
        }
    }

    fn io_over(&mut self, _: TaskId, _: u32) {}
}

impl DeviceCache {
    /// Returns an empty cache before the device of a stack. Flushers, and that there are bytes,
    /// override the configuration.
    pub(crate) fn new(config: CacheConfig, stack: &Stack) -> Self {
        let (kept, size) = ((config.memory, config.write_mode), stack.config().size);
        let config = CacheConfig {
            flusher: FLUSHER,
            tenant_flushers: TENANT_FLUSHERS,
            copies: true,
            divides: true,
            ..config
        };
        let mut files = FileIo::new(config);
        let device = size.bytes();
        let file = files.cache_mut().add_file(Sector::ZERO, device, device);
        // That of the write-back at the end.
        files.cache_mut().open(file);
        Self {
            files,
            bios: CacheBios::new(Sector::ZERO + size, (FLUSHER.0 + TENANT_FLUSHERS + 1) as usize),
            config: kept,
            device,
            users: Users::default(),
            ahead: AheadRanges::default(),
            lost: None,
            written_back: None,
        }
    }

    /// Makes the device larger, from `was` bytes to `now`.
    ///
    /// # Errors
    /// The last page has bytes beyond the old end, which were not read.
    pub(super) fn grow(&mut self, was: u64, now: u64) -> Result<(), String> {
        if !was.is_multiple_of(PAGE_SIZE) {
            return Err(format!(
                "its cached size of {was} bytes ends within a page of {PAGE_SIZE}; more takes a restart"
            ));
        }
        self.device = Bytes::new(now);
        self.files.cache_mut().grow_file(FileId(0), self.device);
        self.bios.grow(Sector::ZERO + self.device.sectors_floor());
        Ok(())
    }

    pub(super) fn view(&self) -> CacheView {
        let ((memory, mode), reading) = (self.config, self.files.cache().reading());
        CacheView { memory, mode, reading, lost: self.lost, tenants: self.users.uses.clone() }
    }

    /// Lets a client use the cache, under its task.
    pub(super) fn admit(&mut self, task: TaskId, charged: Charged) {
        let Charged { tenant, ioprio, base, size } = charged;
        let program = Program {
            access: Access::Descriptor,
            sync_writes: false,
            range_sync: None,
            submitter: Submitter::of_task(ioprio, CpuPolicy::Normal, 0),
            tenant,
            depth: BUFFERS as usize,
        };
        let (start, len) = (DeviceOffset::new(base), Bytes::new(size));
        if let Some(of_task) = self.users.of_tasks.get_mut(task.index()) {
            *of_task = tenant;
            return self.files.replace_program(task, program, start, len);
        }
        let (file, file_start) = (FileId(0), DeviceOffset::new(0));
        let open = self.files.cache_mut().open(file);
        let added =
            self.files.add_program(program, &[OpenPart { open, file, file_start, start, len }]);
        assert_eq!(added, task, "clients get the lowest number that is free");
        self.users.of_tasks.push(tenant);
    }

    /// Lets a range be read ahead, as far as there is memory for it.
    pub(super) fn read_ahead(&mut self, task: TaskId, at: u64, bytes: u64) {
        self.ahead.add(self.users.of_tasks[task.index()], task, at, bytes.min(AHEAD_MOST));
    }

    /// Drops what a client that leaves asked to have read ahead.
    pub(super) fn remove_client(&mut self, task: TaskId) {
        self.ahead.remove_client(task);
    }

    /// Reads ahead for the tenants that have room and whose limits hold nothing back. Returns false
    /// if there was nothing to do.
    pub(super) fn go_on_ahead(&mut self, now: Instant, stack: &Stack) -> bool {
        if self.ahead.is_empty() {
            return false;
        }
        let Self { ahead, files, .. } = self;
        ahead.go_on(|tenant, range| {
            if !files.cache().may_read_ahead(tenant) || stack.control().holds(tenant).is_some() {
                return Some(0);
            }
            let (at, bytes) = range.slice();
            let (offset, length) = (FileOffset::new(at), Bytes::new(bytes));
            let kind = CallKind::Fadvise(Advice::WillNeed);
            let Called::Done(done) = files.call(now, range.task, 0, kind, offset, length) else {
                unreachable!("advice does not sleep")
            };
            // Pages are looked at as a whole, and the first may begin before the range.
            let passed = done.bytes.get().saturating_sub(at % PAGE_SIZE).min(bytes);
            let is_short = passed < bytes && files.cache().reading_of(tenant) == 0;
            (!is_short).then_some(passed)
        })
    }

    /// Returns how many bytes of a range, from its first on, are in no dirty page, and whether that
    /// is all of it; or, if that is none, how many are in dirty pages, [`DIRTY_TOLD`] at most. The
    /// device does not know of dirty pages.
    pub(super) fn clean_then_dirty(&self, at: u64, bytes: u64) -> (u64, bool) {
        let pages = self.files.cache().resident().pages();
        let (first, end) = (FileOffset::new(at).page(), FileOffset::new(at + bytes));
        let is_unwritten = |index, tag| pages.next_tagged(FileId(0), index, tag);
        let next = |from| {
            let of = |tag| is_unwritten(from, tag).map(|(index, _)| index);
            of(Tag::Dirty)
                .into_iter()
                .chain(of(Tag::Writeback))
                .min()
                .filter(|index| index.start() < end)
        };
        let Some(mut index) = next(first) else { return (bytes, true) };
        if index.start().get() > at {
            return (index.start().get() - at, true);
        }
        for _ in 0..DIRTY_TOLD {
            if next(index) != Some(index) {
                break;
            }
            index = index.next();
        }
        (index.start().get().min(at + bytes) - at, false)
    }

    /// Returns when the cache has work next.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.files.cache().next_timer()
    }

    /// Begins a part of a request at a byte of the device.
    fn begin(
        &mut self,
        now: Instant,
        task: TaskId,
        token: u32,
        (operation, part): (Operation, &Part),
        at: u64,
    ) -> Begun {
        let kind = match part.op {
            Op::Read => FileOpKind::Read,
            Op::Write if part.fua => FileOpKind::DurableWrite,
            Op::Write => FileOpKind::Write,
            Op::Flush => FileOpKind::Sync,
            Op::Discard | Op::SecureErase | Op::WriteZeroes | Op::ZoneAppend => match operation {
                Operation::Trim => FileOpKind::Discard,
                _ => FileOpKind::Zeroes,
            },
        };
        let (position, bytes) = (DeviceOffset::new(at), Bytes::new(part.length));
        let op = FileOp { task, token, kind, file: 0, position, bytes, is_first_check: false };
        self.files.begin(now, &op, &mut self.users)
    }

    /// Continues I/O that the device has completed. Returns false if it has finished by that.
    pub(super) fn on_device_done(&mut self, now: Instant, done: &Done) -> bool {
        self.files.on_device_done(now, done.task, done.token as u32, done.status, &mut self.users)
    }

    /// Flushes may succeed again.
    pub(super) const fn clear_loss(&mut self) {
        self.lost = None;
    }

    /// Handles a bio that the stack completed. Returns how many bytes were lost if it was a
    /// write-back that failed.
    pub(super) fn on_bio_done(&mut self, now: Instant, bio: u32, done: &Done) -> u64 {
        // A flush has no frames.
        let is_flush = self.files.cache().frames(bio.into()).is_empty();
        let lost = self.complete_bio(now, bio, done);
        if lost > 0 || is_flush && !done.status.is_ok() {
            self.lost.get_or_insert(done.status);
        }
        lost * PAGE_SIZE
    }

    /// Returns what is answered to a part that ended with `status`.
    fn promise(&self, part: &Part, status: Status) -> Status {
        let is_promise = part.op == Op::Flush || part.fua;
        self.lost.filter(|_| is_promise && status.is_ok()).unwrap_or(status)
    }

    /// Handles a flusher that got the tag it slept for.
    pub(super) fn unblock(&mut self, now: Instant, task: TaskId, engine: &mut Engine<impl Disk>) {
        self.files.task_unblocked(task, &mut self.users);
        self.end_sleep(now, task, engine);
    }

    /// Begins to write back everything and to flush the device, or returns how that ended.
    fn write_back(&mut self, now: Instant, begins: bool) -> Option<Status> {
        if begins {
            let call =
                Call::new(FLUSHER, 0, FIRST_OPEN, CallKind::Fsync, FileOffset::ZERO, self.device);
            if let Called::Done(done) = self.files.cache_mut().call(now, call) {
                self.written_back = Some(done.status);
            }
        }
        self.written_back
    }
}

impl CacheUser for DeviceCache {
    fn parts(&mut self) -> (&mut FileIo, &mut CacheBios) {
        (&mut self.files, &mut self.bios)
    }

    /// Only flushers sleep for a tag.
    fn on_bio(&mut self, bio: &mut CacheIo) -> bool {
        bio.task >= FLUSHER
    }
}

/// The open file that no client has.
const FIRST_OPEN: elevon_cache::page_cache::OpenId = elevon_cache::page_cache::OpenId(0);

impl<D: Disk> DeviceLoop<D> {
    /// Begins a part of a request of a client through the cache.
    pub(super) fn begin_cached(&mut self, task: TaskId, slot: u32) {
        let now = self.engine.now();
        let client = self.clients[task.index()].as_mut().expect("a client that submits");
        let base = client.charged.base;
        let (pieces, part) = client.part(slot);
        let (operation, at) = (pieces.request.operation, base + part.at);
        let cache = self.cache.as_mut().expect("there is a cache");
        let begun = cache.begin(now, task, slot, (operation, &part), at);
        cache.move_bytes(&mut self.engine);
        match begun {
            Begun::Finished(status) => self.end_cached(now, task, slot, status),
            Begun::Device => self.submit_all(task, &mut vec![slot]),
            Begun::Waits { .. } => {}
        }
    }

    /// Submits bios of the cache, and ends what has finished. Returns false if there was nothing.
    pub(super) fn pump_cache(&mut self) -> bool {
        let mut moved = false;
        loop {
            let now = self.engine.now();
            let Self { cache, engine, .. } = self;
            let Some(cache) = cache else { return moved };
            let next = |cache: &mut DeviceCache| cache.files.poll(now, &mut cache.users);
            let Some(event) = cache.poll_cache(now, engine, |_, _| moved = true, next) else {
                return moved;
            };
            moved = true;
            match event {
                FileIoEvent::Finished { task, token, status } => {
                    self.end_cached(now, task, token, status);
                }
                FileIoEvent::Device { task, token } => self.submit_all(task, &mut vec![token]),
                FileIoEvent::Call(done) => cache.written_back = Some(done.status),
                FileIoEvent::Sleeps => {}
            }
        }
    }

    fn end_cached(&mut self, now: Instant, task: TaskId, slot: u32, status: Status) {
        let (_, part) = self.client(task).part(slot);
        let status = self.cache.as_ref().map_or(status, |cache| cache.promise(&part, status));
        self.end_part(now, task, slot, status);
    }

    /// Writes back what is dirty, and flushes the device, before the server ends. Returns false if
    /// that or an earlier write-back failed.
    pub(super) fn end_cache(&mut self, turn: &mut dyn FnMut(&mut Self) -> bool) -> bool {
        let now = self.engine.now();
        let Some(cache) = &mut self.cache else { return true };
        let mut ended = cache.write_back(now, true);
        while ended.is_none() && turn(self) {
            ended = self.cache.as_mut().and_then(|cache| cache.write_back(now, false));
        }
        let status = ended.unwrap_or(Status::IoError);
        if !status.is_ok() {
            self.errors.not_written_back(status);
        }
        status.is_ok() && self.cache.as_ref().is_none_or(|cache| cache.lost.is_none())
    }
}
