//! The setup before the first I/O: the files of the cache, the files that each process has open,
//! and what fio does to files before a job.

use elevon_cache::FileId;
use elevon_cache::activity::Submitter;
use elevon_cache::file_io::{Access, OpenPart, Program};
use elevon_cache::page_cache::{CallKind, Called, PageCache, RangeSync};
use elevon_cache::readahead::Advice;
use elevon_core::ioprio::CpuPolicy;
use elevon_core::units::{Bytes, DeviceOffset, FileOffset, Instant, Nanos, PAGE_SIZE, Sector, TaskId};
use elevon_formats::fio::spec::{Fadvise, JobSpec, SyncFileRange, SyncMode};

use super::{BufferedIo, Event, FileSetup, User, Workers};
use crate::jobs::{Jobs, Member};
use crate::process::{CpuCost, Passes, Process};
use crate::region::{JobFile, Region, largest_block};

impl BufferedIo {
    /// Adds the files of all jobs, and each process with the files that it has open. `cpus`: those
    /// of the simulated machine.
    pub(super) fn add_jobs(&mut self, jobs: &mut Jobs, cpus: u16) {
        let files = self.add_files(jobs);
        let is_simulated = !self.has_bytes();
        let call = self.charges.cost.call;
        for (member, process) in jobs.members.iter().zip(&mut jobs.processes) {
            let spec = &jobs.specs[member.spec];
            let workers = spec.bounded_workers(cpus).filter(|_| is_simulated && spec.is_buffered());
            let user = user(spec, process, workers);
            if user.is_buffered {
                let submit = if user.is_mapped { Nanos::ZERO } else { call };
                process.set_cpu(CpuCost { submit, ..CpuCost::default() });
                process.cache_use();
                process.enable_range_sync();
            }
            let parts = self.open_parts(&files, member);
            let task = self.files.add_program(program(spec, process), &parts);
            debug_assert_eq!(task, process.task(), "programs are the processes, in order");
            self.users.push(user);
        }
    }

    /// Adds every file that is cached, once, with the greatest length that a job gives it; with
    /// bytes, adds only the device.
    fn add_files(&mut self, jobs: &Jobs) -> Vec<JobFile> {
        let place = Region { start: DeviceOffset::ZERO, len: (self.stack_side.device_end() - Sector::ZERO).bytes() };
        let has_bytes = self.has_bytes();
        let cache = self.files.cache_mut();
        let mut files: Vec<JobFile> = Vec::new();
        if has_bytes {
            files.push(JobFile { place, is_device: true });
            let file = cache.add_file(Sector::ZERO, place.len, place.len);
            cache.open(file);
            return files;
        }
        for member in jobs.members.iter().filter(|member| jobs.specs[member.spec].is_buffered()) {
            for file in &member.extent.files {
                match files.iter_mut().find(|known| is_same(known, file)) {
                    Some(known) => known.place.len = known.place.len.max(file.place.len),
                    None => files.push(*file),
                }
            }
        }
        for known in &files {
            let JobFile { place, is_device } = *known;
            let file = cache.add_file(place.start.sector(), place.len, place.len);
            if is_device {
                self.devices.push(cache.open(file));
            }
            if is_unwritten(jobs, known) {
                cache.set_unwritten(file);
            }
        }
        files
    }

    /// Returns the files that a process has open. A process with direct I/O to files of which only
    /// some are cached has none.
    fn open_parts(&mut self, files: &[JobFile], member: &Member) -> Vec<OpenPart> {
        let extent = &member.extent;
        let mut parts = Vec::new();
        for (file, region) in extent.files.iter().zip(&extent.regions) {
            let position = files.iter().position(|known| is_same(known, file));
            if let Some(at) = if self.has_bytes() { Some(0) } else { position } {
                let file = FileId(at as u32);
                let (open, file_start) = (self.files.cache_mut().open(file), files[at].place.start);
                parts.push(OpenPart { open, file, file_start, start: region.start, len: region.len });
            }
        }
        if parts.len() < extent.files.len() {
            parts.clear();
        }
        parts
    }

    /// Begins what comes before a process's I/O, if it is due. An event follows when files have
    /// been read.
    pub(crate) fn prepare(&mut self, now: Instant, task: usize) -> Option<Event> {
        if self.users[task].file_setup != FileSetup::Due {
            return None;
        }
        if self.users[task].is_mapped {
            self.for_each_part(task, |cache, part| cache.map(part.open));
        }
        if self.users[task].pre_reads.is_zero() {
            self.advise(now, task);
            return None;
        }
        self.users[task].file_setup = FileSetup::Reading(0, Bytes::ZERO);
        self.pre_read(now, task).then_some(Event::Prepared { task })
    }

    /// Returns true if what comes before a process's I/O has finished.
    pub(crate) fn is_prepared(&self, task: usize) -> bool {
        self.users[task].file_setup == FileSetup::Over
    }

    /// Removes the mappings of a process that has finished.
    pub(crate) fn on_process_over(&mut self, task: usize) {
        self.closer = TaskId(task as u32);
        if self.users[task].is_mapped && self.users[task].file_setup != FileSetup::Due {
            self.for_each_part(task, |cache, part| cache.unmap(part.open));
        }
    }

    fn for_each_part(&mut self, task: usize, act: impl Fn(&mut PageCache, OpenPart)) {
        self.parts(task).into_iter().for_each(|part| act(self.files.cache_mut(), part));
    }

    /// Returns the files of a process.
    fn parts(&self, task: usize) -> Vec<OpenPart> {
        self.files.files(TaskId(task as u32)).collect()
    }

    /// Returns the file of a process at an index, if there is one.
    fn part(&self, task: usize, index: usize) -> Option<OpenPart> {
        self.files.files(TaskId(task as u32)).nth(index)
    }

    /// Reads the files of a process block by block, until it must wait. Returns true if all files
    /// were read and the advice after them was given.
    pub(super) fn pre_read(&mut self, now: Instant, task: usize) -> bool {
        while let FileSetup::Reading(index, offset) = self.users[task].file_setup {
            let Some(part) = self.part(task, index) else {
                self.advise(now, task);
                return true;
            };
            let left = part.len.saturating_sub(offset);
            if left.is_zero() {
                self.users[task].file_setup = FileSetup::Reading(index + 1, Bytes::ZERO);
                continue;
            }
            let bytes = left.min(self.users[task].pre_reads);
            let from = part.offset() + offset;
            self.users[task].file_setup = FileSetup::Reading(index, offset + bytes);
            let called = self.files.call(now, TaskId(task as u32), index, CallKind::Read, from, bytes);
            if called == Called::Wait {
                return false;
            }
        }
        true
    }

    fn advise(&mut self, now: Instant, task: usize) {
        self.users[task].file_setup = FileSetup::Over;
        self.users[task].unpaid = Nanos::ZERO;
        let User { invalidates, advice, .. } = self.users[task];
        for (index, part) in self.parts(task).into_iter().enumerate() {
            if invalidates {
                self.tell(now, task, index, Advice::DontNeed, part.offset(), part.len);
            }
            if let Some(advice) = advice {
                self.tell(now, task, index, advice, FileOffset::ZERO, Bytes::ZERO);
            }
        }
    }

    fn tell(&mut self, now: Instant, task: usize, index: usize, advice: Advice, offset: FileOffset, bytes: Bytes) {
        let called = self.files.call(now, TaskId(task as u32), index, CallKind::Fadvise(advice), offset, bytes);
        debug_assert!(called != Called::Wait, "advice does not sleep");
    }
}

/// Returns a process as a program of the file I/O.
fn program(spec: &JobSpec, process: &Process) -> Program {
    Program {
        access: match spec.is_buffered() {
            false => Access::Direct,
            true if spec.engine.is_mapped() => Access::Mapping,
            true => Access::Descriptor,
        },
        sync_writes: spec.sync != SyncMode::None,
        range_sync: spec.sync_file_range.map(|SyncFileRange { wait_before, write, wait_after, .. }| RangeSync {
            wait_before,
            write,
            wait_after,
        }),
        submitter: Submitter::of_task(spec.ioprio, CpuPolicy::Normal, 0),
        tenant: process.tenant(),
        depth: process.depth(),
    }
}

fn user(spec: &JobSpec, process: &Process, workers: Option<usize>) -> User {
    let advice = match spec.fadvise {
        Fadvise::None => None,
        Fadvise::ByWorkload if spec.rw.random => Some(Advice::Random),
        Fadvise::ByWorkload | Fadvise::Sequential => Some(Advice::Sequential),
        Fadvise::Random => Some(Advice::Random),
    };
    let is_buffered = spec.is_buffered();
    User {
        is_buffered,
        is_mapped: spec.engine.is_mapped(),
        submits_in_line: spec.engine.asynchronous && spec.submission_blocks(),
        may_block: spec.submission_blocks(),
        workers: workers.map(|count| Box::new(Workers::new(count, process.depth()))),
        file_setup: if is_buffered { FileSetup::Due } else { FileSetup::Over },
        pre_reads: if spec.pre_read { Bytes::new(largest_block(spec).max(PAGE_SIZE)) } else { Bytes::ZERO },
        invalidates: spec.invalidate && !spec.pre_read,
        advice,
        costs: vec![Nanos::ZERO; process.depth()],
        unpaid: Nanos::ZERO,
        passes: Passes::default(),
    }
}

/// Returns true if a file is empty when the jobs begin: fio allocates a file that is only written,
/// and lays out any other. A file with direct I/O does not count, because the cache would not see
/// its writes.
fn is_unwritten(jobs: &Jobs, file: &JobFile) -> bool {
    let has_it = |member: &&Member| member.extent.files.iter().any(|known| is_same(known, file));
    let mut users = jobs.members.iter().filter(has_it).map(|member| &jobs.specs[member.spec]);
    let only_writes = |spec: &JobSpec| !spec.rw.read && !spec.rw.trim && !spec.overwrite && !spec.pre_read;
    !file.is_device && users.all(|spec| spec.is_buffered() && only_writes(spec))
}

/// Returns true if both are the same file.
fn is_same(one: &JobFile, other: &JobFile) -> bool {
    one.is_device == other.is_device && one.place.start == other.place.start
}
