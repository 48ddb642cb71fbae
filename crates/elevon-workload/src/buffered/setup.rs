//! The setup before the first I/O: the files of the cache, the files that each process has open,
//! and what fio does to files before a job.
//!
//! Before each further pass over its files a process does most of it again. fio 3.33 closes a file
//! at the end of a pass and opens it for the next, with the same calls. A job that runs by time
//! only drops it from the cache (measured, files and block devices). The first I/O of the pass
//! waits for it.

use elevon_cache::Advice;
use elevon_cache::FileId;
use elevon_cache::activity::Submitter;
use elevon_cache::file_io::{Access, OpenPart, Program};
use elevon_cache::page_cache::{CallKind, Called, PageCache, RangeSync};
use elevon_core::ioprio::CpuPolicy;
use elevon_core::units::{
    Bytes, DeviceOffset, FileOffset, Instant, Nanos, PAGE_SIZE, Sector, TaskId,
};
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
            let devices = self.devices_of(&files, member);
            let user = user(spec, process, workers, devices, is_simulated);
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
        let place = Region {
            start: DeviceOffset::ZERO,
            len: (self.bios.device_end() - Sector::ZERO).bytes(),
        };
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
                self.devices.add(file, cache.open(file));
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
                parts.push(OpenPart {
                    open,
                    file,
                    file_start,
                    start: region.start,
                    len: region.len,
                });
            }
        }
        if parts.len() < extent.files.len() {
            parts.clear();
        }
        parts
    }

    /// Returns the block devices that a process has open, each once, by their index.
    fn devices_of(&self, files: &[JobFile], member: &Member) -> Vec<usize> {
        let positions = member
            .extent
            .files
            .iter()
            .filter_map(|file| files.iter().position(|known| is_same(known, file)));
        let mut devices: Vec<usize> =
            positions.filter_map(|at| self.devices.index_of(FileId(at as u32))).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Begins what comes before a process's I/O, if it is due. An event follows if it sleeps.
    pub(crate) fn prepare(&mut self, now: Instant, task: usize) -> Option<Event> {
        let is_due = self.users[task].file_setup == FileSetup::Due;
        (is_due && self.set_up(now, task)).then_some(Event::Prepared { task })
    }

    /// Begins another pass of a process over its files. A pass that begins while the setup for the
    /// last one is not over has none of its own: only a queue that holds several passes at once has
    /// such passes.
    pub(super) fn begin_pass(&mut self, now: Instant, task: usize, reopens: bool) {
        if self.users[task].file_setup != FileSetup::Finished {
            return;
        }
        if reopens {
            self.close_files(now, task);
        } else {
            self.users[task].file_setup = FileSetup::Dropping(0);
        }
        self.set_up(now, task);
    }

    /// Goes on with the setup of a process, whose call has finished or which may open its files.
    pub(super) fn go_on_with_setup(&mut self, now: Instant, task: usize) -> Event {
        if !self.set_up(now, task) {
            return Event::Sleeps;
        }
        self.given.extend(self.users[task].held.drain(..));
        Event::Prepared { task }
    }

    /// Does what comes before the I/O of a process until a call sleeps. Returns true if all is
    /// done.
    fn set_up(&mut self, now: Instant, task: usize) -> bool {
        loop {
            match self.users[task].file_setup {
                state @ (FileSetup::Due | FileSetup::Closed) => {
                    if !self.open_devices(task) {
                        return false;
                    }
                    self.users[task].times_opened += 1;
                    let is_mapped = self.users[task].is_mapped;
                    self.for_each_part(task, |cache, part| {
                        cache.reopen(part.open);
                        if is_mapped {
                            cache.map(part.open);
                        }
                    });
                    let reads = state == FileSetup::Due && !self.users[task].pre_reads.is_zero();
                    self.users[task].file_setup = if reads {
                        FileSetup::Reading(0, Bytes::ZERO)
                    } else {
                        FileSetup::Dropping(0)
                    };
                }
                FileSetup::Reading(..) => {
                    if !self.pre_read(now, task) {
                        return false;
                    }
                    self.users[task].unpaid = Nanos::ZERO;
                    self.close_files(now, task);
                }
                FileSetup::Dropping(index) => {
                    let User { invalidates, devices, .. } = &self.users[task];
                    let Some(&device) = devices.get(index).filter(|_| *invalidates) else {
                        self.advise(now, task);
                        return true;
                    };
                    self.users[task].file_setup = FileSetup::Dropping(index + 1);
                    if self.flush_device(now, task, device) {
                        return false;
                    }
                }
                FileSetup::Finished => return true,
            }
        }
    }

    /// Closes the files of a process.
    fn close_files(&mut self, now: Instant, task: usize) {
        if self.users[task].is_mapped {
            self.for_each_part(task, |cache, part| cache.unmap(part.open));
        }
        self.users[task].file_setup = FileSetup::Closed;
        self.close_devices(now, task);
    }

    /// Returns true if what comes before a process's I/O has finished.
    pub(crate) fn is_prepared(&self, task: usize) -> bool {
        self.users[task].file_setup == FileSetup::Finished
    }

    /// Closes the files of a process that has finished. One that was ended during its setup may be
    /// in a call: its devices are closed with the run.
    pub(crate) fn on_process_over(&mut self, now: Instant, task: usize) {
        if self.users[task].file_setup == FileSetup::Finished {
            self.close_files(now, task);
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
    /// were read.
    fn pre_read(&mut self, now: Instant, task: usize) -> bool {
        while let FileSetup::Reading(index, offset) = self.users[task].file_setup {
            let Some(part) = self.part(task, index) else { return true };
            let left = part.len.saturating_sub(offset);
            if left.is_zero() {
                self.users[task].file_setup = FileSetup::Reading(index + 1, Bytes::ZERO);
                continue;
            }
            let bytes = left.min(self.users[task].pre_reads);
            let from = part.offset() + offset;
            self.users[task].file_setup = FileSetup::Reading(index, offset + bytes);
            let called =
                self.files.call(now, TaskId(task as u32), index, CallKind::Read, from, bytes);
            if called == Called::Wait {
                return false;
            }
        }
        true
    }

    /// Drops the files of a process that are not devices, and gives the advice of `fadvise_hint`.
    fn advise(&mut self, now: Instant, task: usize) {
        self.users[task].file_setup = FileSetup::Finished;
        let User { invalidates, advice, mapping_advice, .. } = self.users[task];
        for (index, part) in self.parts(task).into_iter().enumerate() {
            if invalidates && self.devices.index_of(part.file).is_none() {
                self.tell(
                    now,
                    task,
                    index,
                    CallKind::Fadvise(Advice::DontNeed),
                    part.offset(),
                    part.len,
                );
            }
            let whole = [advice.map(CallKind::Fadvise), mapping_advice.map(CallKind::Madvise)];
            for kind in whole.into_iter().flatten() {
                self.tell(now, task, index, kind, FileOffset::ZERO, Bytes::ZERO);
            }
        }
    }

    fn tell(
        &mut self,
        now: Instant,
        task: usize,
        index: usize,
        kind: CallKind,
        offset: FileOffset,
        bytes: Bytes,
    ) {
        let called = self.files.call(now, TaskId(task as u32), index, kind, offset, bytes);
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
        sync_writes: spec.durability.sync != SyncMode::None,
        range_sync: spec.durability.file_range.map(
            |SyncFileRange { wait_before, write, wait_after, .. }| RangeSync {
                wait_before,
                write,
                wait_after,
            },
        ),
        submitter: Submitter::of_task(spec.priority.ioprio, CpuPolicy::Normal, 0),
        tenant: process.tenant(),
        depth: process.depth(),
    }
}

fn user(
    spec: &JobSpec,
    process: &Process,
    workers: Option<usize>,
    devices: Vec<usize>,
    is_simulated: bool,
) -> User {
    let by_workload = if spec.rw.random { Advice::Random } else { Advice::Sequential };
    let advice = match spec.caching.fadvise {
        Fadvise::None => None,
        Fadvise::ByWorkload => Some(by_workload),
        Fadvise::Sequential => Some(Advice::Sequential),
        Fadvise::Random => Some(Advice::Random),
    };
    let is_buffered = spec.is_buffered();
    User {
        is_buffered,
        is_mapped: is_buffered && spec.engine.is_mapped(),
        submits_in_line: spec.engine.asynchronous && spec.submission_blocks(),
        may_block: spec.submission_blocks(),
        workers: workers.map(|count| Box::new(Workers::new(count, process.depth()))),
        file_setup: if is_buffered || is_simulated { FileSetup::Due } else { FileSetup::Finished },
        times_opened: 0,
        pre_reads: if is_buffered && spec.caching.pre_read {
            Bytes::new(largest_block(spec).max(PAGE_SIZE))
        } else {
            Bytes::ZERO
        },
        invalidates: spec.caching.invalidate && !spec.caching.pre_read,
        advice,
        // fio 3.33 gives it by `rw=` alone, and none with `fadvise_hint=0` (measured).
        mapping_advice: (spec.engine.is_mapped() && advice.is_some()).then_some(by_workload),
        devices,
        held: Vec::new(),
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
    let only_writes = |spec: &JobSpec| {
        !spec.rw.read && !spec.rw.trim && !spec.caching.overwrite && !spec.caching.pre_read
    };
    !file.is_device && users.all(|spec| spec.is_buffered() && only_writes(spec))
}

/// Returns true if both are the same file.
fn is_same(one: &JobFile, other: &JobFile) -> bool {
    one.is_device == other.is_device && one.place.start == other.place.start
}
