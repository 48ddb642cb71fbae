//! What is there before the first I/O: the cache's files, what it keeps of each process, and what fio does to files before a job.

use elevon_cache::FileId;
use elevon_cache::activity::Submitter;
use elevon_cache::page_cache::{CallKind, Called, RangeSync};
use elevon_cache::readahead::Advice;
use elevon_core::ioprio::CpuPolicy;
use elevon_core::units::{Instant, Nanos, PAGE_SIZE, Sector};
use elevon_formats::fio::spec::{Fadvise, JobSpec, SyncFileRange, SyncMode};

use super::{Cached, Event, NOTHING, Opened, Prologue, User, is_same};
use crate::jobs::{Jobs, Member};
use crate::process::Process;
use crate::region::{File, Region, largest_block};

impl Cached {
    /// Every file that goes through the cache, once, as long as its longest user knows it; with bytes, the device.
    pub(super) fn add_files(&mut self, jobs: &Jobs) {
        if self.has_bytes {
            let place = Region { start: 0, len: self.device_end.byte_offset() };
            self.files.push(File { place, is_device: true });
            let file = self.cache.add_file(Sector::ZERO, place.len, place.len);
            self.cache.open(file);
            return;
        }
        for member in jobs.members.iter().filter(|member| jobs.specs[member.spec].is_buffered()) {
            for file in &member.extent.files {
                match self.files.iter_mut().find(|known| is_same(known, file)) {
                    Some(known) => known.place.len = known.place.len.max(file.place.len),
                    None => self.files.push(*file),
                }
            }
        }
        for index in 0..self.files.len() {
            let File { place, .. } = self.files[index];
            let file = self.cache.add_file(Sector::new(place.start / 512), place.len, place.len);
            if Self::is_unwritten(jobs, &self.files[index]) {
                self.cache.set_unwritten(file);
            }
        }
    }

    /// Whether nothing is in a file when the jobs begin: fio allocates a file that is only written, and lays out any other. What goes
    /// past the cache would not be seen to be written.
    fn is_unwritten(jobs: &Jobs, file: &File) -> bool {
        let has_it = |member: &&Member| member.extent.files.iter().any(|known| is_same(known, file));
        let mut users = jobs.members.iter().filter(has_it).map(|member| &jobs.specs[member.spec]);
        let only_writes = |spec: &JobSpec| !spec.rw.read && !spec.rw.trim && !spec.overwrite && !spec.pre_read;
        !file.is_device && users.all(|spec| spec.is_buffered() && only_writes(spec))
    }

    pub(super) fn user(&mut self, spec: &JobSpec, member: &Member, process: &Process) -> User {
        let extent = &member.extent;
        let mut opens = Vec::new();
        for (file, region) in extent.files.iter().zip(&extent.regions) {
            let position = self.files.iter().position(|known| is_same(known, file));
            if let Some(at) = if self.has_bytes { Some(0) } else { position } {
                let file = FileId(at as u32);
                opens.push(Opened {
                    open: self.cache.open(file),
                    file,
                    start: self.files[at].place.start,
                    region: *region,
                    written: None,
                });
            }
        }
        // Direct I/O of files of which some are cached and some are not: none are looked after.
        if opens.len() < extent.files.len() {
            opens.clear();
        }
        let advice = match spec.fadvise {
            Fadvise::None => None,
            Fadvise::ByWorkload if spec.rw.random => Some(Advice::Random),
            Fadvise::ByWorkload | Fadvise::Sequential => Some(Advice::Sequential),
            Fadvise::Random => Some(Advice::Random),
        };
        let is_buffered = spec.is_buffered();
        User {
            opens,
            is_buffered,
            is_mapped: spec.engine.is_mapped(),
            submits_in_line: spec.engine.asynchronous && spec.engine.submission_blocks,
            may_block: spec.engine.submission_blocks || !spec.engine.asynchronous,
            sync_writes: spec.sync != SyncMode::None,
            range_sync: spec.sync_file_range.map(|SyncFileRange { wait_before, write, wait_after, .. }| RangeSync {
                wait_before,
                write,
                wait_after,
            }),
            submitter: Submitter::of_task(spec.ioprio, CpuPolicy::Normal, 0),
            tenant: process.tenant(),
            operations: vec![NOTHING; process.depth() + 1],
            prologue: if is_buffered { Prologue::Due } else { Prologue::Over },
            pre_reads: if spec.pre_read { largest_block(spec).max(PAGE_SIZE) } else { 0 },
            invalidates: spec.invalidate && !spec.pre_read,
            advice,
            is_blocked: false,
            held: Vec::new(),
            unpaid: Nanos::ZERO,
            verify_passes: 0,
            settling: None,
            unsettled: Vec::new(),
        }
    }

    /// What comes before a process's I/O; true when it is over, else an event will tell.
    pub(crate) fn prepare(&mut self, now: Instant, task: usize) -> bool {
        if self.users[task].prologue == Prologue::Due {
            if self.users[task].is_mapped {
                self.users[task].opens.iter().for_each(|opened| self.cache.map(opened.open));
            }
            if self.users[task].pre_reads > 0 {
                self.users[task].prologue = Prologue::Reading(0, 0);
                self.pre_read(now, task);
            } else {
                self.advise(now, task);
            }
        }
        self.users[task].prologue == Prologue::Over
    }

    /// Reads the files of a process block by block, until it has to wait.
    pub(super) fn pre_read(&mut self, now: Instant, task: usize) {
        while let Prologue::Reading(index, offset) = self.users[task].prologue {
            let user = &self.users[task];
            let Some(opened) = user.opens.get(index) else {
                self.advise(now, task);
                return self.events.push_back(Event::Prepared { task });
            };
            let left = opened.region.len.saturating_sub(offset);
            if left == 0 {
                self.users[task].prologue = Prologue::Reading(index + 1, 0);
                continue;
            }
            let bytes = left.min(user.pre_reads);
            let from = opened.region.start - opened.start + offset;
            self.users[task].prologue = Prologue::Reading(index, offset + bytes);
            let call = self.call_of(task, self.prologue_token(task), index, CallKind::Read, from, bytes);
            let called = self.cache.call(now, call);
            self.take_copies();
            if called == Called::Wait {
                return;
            }
        }
    }

    fn advise(&mut self, now: Instant, task: usize) {
        self.users[task].prologue = Prologue::Over;
        self.users[task].unpaid = Nanos::ZERO;
        for index in 0..self.users[task].opens.len() {
            let User { opens, invalidates, advice, .. } = &self.users[task];
            let (Opened { start, region, .. }, advice) = (opens[index], *advice);
            if *invalidates {
                self.tell(now, task, index, Advice::DontNeed, region.start - start, region.len);
            }
            if let Some(advice) = advice {
                self.tell(now, task, index, advice, 0, 0);
            }
        }
    }

    pub(super) fn tell(&mut self, now: Instant, task: usize, index: usize, advice: Advice, offset: u64, bytes: u64) {
        let call = self.call_of(task, self.prologue_token(task), index, CallKind::Fadvise(advice), offset, bytes);
        let called = self.cache.call(now, call);
        self.take_copies();
        debug_assert!(called != Called::Wait, "advice does not sleep");
    }
}
