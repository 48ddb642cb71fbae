//! Simulated block devices that are cached: the processes that have them open, and what the last
//! close does.
//!
//! The last close of a block device writes its dirty pages, waits for them, and drops its cache
//! (measured with Linux 6.1, 6.12 and 6.18). A process that opens a device while it is being closed
//! waits for that. The task that closes makes one call at a time, so it closes one device after the
//! other.

use std::collections::VecDeque;

use elevon_cache::FileId;
use elevon_cache::page_cache::{CallDone, CallKind, Called, OpenId};
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, TaskId};

use super::{BufferedIo, LastWriteBack};

/// Time in which the processes of a group begin. In fio they open their files and wait for each
/// other; in runs of Linux 6.18 no reader waited for what a writer beside it had just written.
const TOGETHER: Nanos = Nanos::new(1_000_000);

/// A block device that is cached.
#[derive(Clone, Debug)]
struct CachedDevice {
    file: FileId,
    open: OpenId,
    /// Number of processes that have it open.
    users: usize,
    /// The task that is closing it.
    closer: Option<TaskId>,
    /// When it was flushed last.
    flushed_at: Option<Instant>,
}

/// The block devices that are cached, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedDevices {
    all: Vec<CachedDevice>,
    /// Processes that wait for the close of a device.
    waiting: Vec<usize>,
    /// Processes of `waiting` that may go on.
    woken: VecDeque<usize>,
    /// The first error of a close.
    status: Status,
}

impl CachedDevices {
    /// Adds a device.
    pub(super) fn add(&mut self, file: FileId, open: OpenId) {
        self.all.push(CachedDevice { file, open, users: 0, closer: None, flushed_at: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the index of the device that is this file of the cache.
    pub(super) fn index_of(&self, file: FileId) -> Option<usize> {
        self.all.iter().position(|device| device.file == file)
    }

    /// Returns true if this task is closing a device.
    #[inline]
    pub(super) fn is_closing(&self, task: TaskId) -> bool {
        self.all.iter().any(|device| device.closer == Some(task))
    }

    /// Returns the next process that may open its files now.
    #[inline]
    pub(super) fn next_waiting(&mut self) -> Option<usize> {
        self.woken.pop_front()
    }
}

impl BufferedIo {
    /// Opens the devices of a process. Returns false if one of them is being closed: the process
    /// waits.
    pub(super) fn open_devices(&mut self, task: usize) -> bool {
        let (devices, used) = (&mut self.devices, &self.users[task].devices);
        if used.iter().any(|&index| devices.all[index].closer.is_some()) {
            if !devices.waiting.contains(&task) {
                devices.waiting.push(task);
            }
            return false;
        }
        used.iter().for_each(|&index| devices.all[index].users += 1);
        true
    }

    /// Has a process write the dirty pages of a device and drop its clean ones (BLKFLSBUF). Returns
    /// true if the process waits. Processes that begin within [`TOGETHER`] open the device before
    /// any of them does an I/O, so that the first flush is for all.
    pub(super) fn flush_device(&mut self, now: Instant, task: usize, index: usize) -> bool {
        let device = &mut self.devices.all[index];
        if device.flushed_at.is_some_and(|at| now.since(at) < TOGETHER) {
            return false;
        }
        device.flushed_at = Some(now);
        let open = device.open;
        self.files.call_whole(now, TaskId(task as u32), open, CallKind::FlushBuffers)
            == Called::Wait
    }

    /// Closes the devices of a process that has them open.
    pub(super) fn close_devices(&mut self, now: Instant, task: usize) {
        let id = TaskId(task as u32);
        for &index in &self.users[task].devices {
            let device = &mut self.devices.all[index];
            device.users -= 1;
            device.closer = (device.users == 0).then_some(id);
        }
        self.go_on_closing(now, id);
    }

    /// Closes the devices that are still open when the run has ended.
    pub(super) fn close_all(&mut self, now: Instant) {
        self.last_write_back = LastWriteBack::Begun;
        for device in &mut self.devices.all {
            if std::mem::take(&mut device.users) > 0 {
                device.closer = Some(self.flusher);
            }
        }
        self.go_on_closing(now, self.flusher);
    }

    /// Handles the end of a call that closed a device.
    pub(super) fn device_closed(&mut self, now: Instant, done: &CallDone) {
        self.end_close(done);
        self.go_on_closing(now, done.task);
    }

    /// Closes the next devices of a task until a call sleeps.
    fn go_on_closing(&mut self, now: Instant, task: TaskId) {
        while let Some(device) = self.devices.all.iter().find(|device| device.closer == Some(task))
        {
            match self.files.call_whole(now, task, device.open, CallKind::LastClose) {
                Called::Wait => return,
                Called::Done(done) => self.end_close(&done),
            }
        }
        if self.last_write_back == LastWriteBack::Begun
            && self.devices.all.iter().all(|one| one.closer.is_none())
        {
            self.last_write_back = LastWriteBack::Finished(self.devices.status);
        }
    }

    fn end_close(&mut self, done: &CallDone) {
        let CachedDevices { all, waiting, woken, status } = &mut self.devices;
        let closed = all.iter_mut().find(|device| device.closer == Some(done.task));
        closed.expect("the task closes a device").closer = None;
        *status = if status.is_ok() { done.status } else { *status };
        woken.extend(waiting.drain(..));
    }
}
