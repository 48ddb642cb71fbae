//! Bios of the page cache as I/Os of the stack, and the batches and sleeps of the tasks that submit
//! them.

use elevon_cache::page_cache::{CacheIo, PageCache};
use elevon_core::ioprio::PrioClass;
use elevon_core::layout::Layout;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Io, Stack};
use elevon_core::units::{Bytes, Instant, LayoutId, PAGE_SIZE, Sector, TaskId};
use elevon_engine::Token;

use super::{BufferedIo, CallAccount};
use crate::process::Process;

/// Bios of a page cache as I/Os of a stack: their layouts, and the batches and sleeps of the tasks
/// that submit them.
#[derive(Debug)]
pub struct CacheBios {
    /// The layout of a bio's pages, by its number.
    layouts: Vec<LayoutId>,
    /// By task; the flushers and other programs come last.
    plugs: Vec<Plug>,
    device_end: Sector,
}

/// The batch in which a task submits its bios.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// A batch is open in the stack.
    is_open: bool,
    /// The task's last queued bio was submitted, and sleeps: the batch ends when the task wakes.
    ends: bool,
}

impl CacheBios {
    /// Sets the end of a device that has grown.
    pub const fn grow(&mut self, device_end: Sector) {
        self.device_end = device_end;
    }

    /// Returns the state for a device of this size and this number of tasks.
    pub fn new(device_end: Sector, tasks: usize) -> Self {
        Self { layouts: Vec::new(), plugs: vec![Plug::default(); tasks], device_end }
    }

    /// Returns the end of the device.
    pub(super) const fn device_end(&self) -> Sector {
        self.device_end
    }

    /// Adds another task that will submit bios.
    pub(super) fn add_task(&mut self, task: TaskId) {
        if self.plugs.len() <= task.index() {
            self.plugs.resize(task.index() + 1, Plug::default());
        }
    }

    /// Returns a bio of the cache as an I/O of the stack, whose token is [`Token::Cache`].
    /// `may_block`: its task sleeps for a tag, see [`Stack::submit`].
    pub fn io_of(&mut self, stack: &mut Stack, cache: &PageCache, io: &CacheIo, may_block: bool) -> Io {
        let &CacheIo { token, task, op, flags, sector, bytes, ioprio, tenant, .. } = io;
        let bio = token as u32;
        while self.layouts.len() <= bio as usize {
            self.layouts.push(stack.register_layout(Layout::contiguous(PAGE_SIZE, 0)));
        }
        let layout = self.layouts[bio as usize];
        if op != Op::Flush {
            stack.set_layout(layout, cache.frames(token).iter().map(|frame| u64::from(frame.0)));
        }
        // The last page of a device may be a partial one.
        let bytes = Bytes::new(bytes.get().min((self.device_end - sector).bytes().get()));
        let flags = if op == Op::Flush { Flags::PREFLUSH | flags } else { flags };
        let token = Token::Cache(bio).encode();
        Io { task, token, op, flags, sector, bytes, ioprio, write_hint: 0, tenant, layout, may_block }
    }

    /// Returns true if the bio's task begins a batch with it; `ends_plug`: it is the last bio of a
    /// readahead window, or that the task has queued. Readahead windows and writes are always
    /// plugged, so that the parts of a bio that is split are plugged too; a page that is read alone
    /// is only `in_plug`: its task's call has a plug.
    pub fn begins_batch(&mut self, io: &Io, ends_plug: bool, in_plug: bool) -> bool {
        let plug = &mut self.plugs[io.task.index()];
        let is_read_in_plug = in_plug && io.op == Op::Read;
        let is_plugged = io.op == Op::Write || io.flags.contains(Flags::RAHEAD) || is_read_in_plug;
        let begins = !plug.is_open && (is_plugged || !ends_plug);
        plug.is_open |= begins;
        begins
    }

    /// Returns true if the batch of a task ends after the submission of this bio. `is_blocked`: the
    /// task sleeps for the bio's tag.
    pub fn ends_batch(&mut self, task: TaskId, ends_plug: bool, is_blocked: bool) -> bool {
        let plug = &mut self.plugs[task.index()];
        let ends = plug.is_open && ends_plug;
        plug.ends = ends && is_blocked;
        plug.is_open &= !ends || is_blocked;
        ends && !is_blocked
    }

    /// Returns true if the batch of a task ends with its sleep for a bio's tag.
    pub fn ends_batch_awake(&mut self, task: TaskId) -> bool {
        let plug = &mut self.plugs[task.index()];
        let ends = std::mem::take(&mut plug.ends);
        plug.is_open &= !ends;
        ends
    }
}

impl BufferedIo {
    /// Returns the next bio of the cache as an I/O of the stack, its number, and true if its task
    /// flushes its plug after it.
    pub(crate) fn next_io(&mut self, now: Instant, stack: &mut Stack) -> Option<(Io, u32, bool)> {
        let mut io = self.files.cache_mut().poll_io(now)?;
        if let Some(at) = self.files.cache().last_dirty_sleep() {
            stack.note_dirty_sleep(at);
        }
        let user = self.users.get_mut(io.task.index());
        let is_mapped = user.as_ref().is_some_and(|user| user.is_mapped);
        let controlled = io.ioprio.class() != PrioClass::Rt
            && self.control.is_some_and(|control| control.picks(self.stats.bios, &io, is_mapped));
        if controlled {
            io.ioprio = io.ioprio.with_class(PrioClass::Rt);
        }
        self.stats.count(&io, io.ioprio, controlled);
        let may_block = user.is_none_or(|user| {
            user.unpaid += self.cpu.submit + self.cpu.scheduler.request;
            user.may_block
        });
        let of_stack = self.stack_side.io_of(stack, self.files.cache(), &io, may_block);
        Some((of_stack, io.token as u32, io.ends_plug))
    }

    /// Returns true if the call that a task is in has a plug of its own, in which the task sleeps
    /// for its bios.
    #[inline]
    pub(crate) fn sleeps_in_plug(&self, stack: &Stack, task: TaskId) -> bool {
        stack.plugs_buffered_writes() && self.files.is_writing(task)
    }

    /// Returns true if the bio's task begins a batch with it.
    pub(crate) fn begins_batch(&mut self, io: &Io, ends_plug: bool, in_plug: bool) -> bool {
        self.stack_side.begins_batch(io, ends_plug, in_plug)
    }

    /// Returns true if the batch of a task ends after the submission of this bio.
    pub(crate) fn ends_batch(&mut self, task: TaskId, ends_plug: bool, is_blocked: bool) -> bool {
        if is_blocked {
            self.files.task_blocked(task);
        }
        self.stack_side.ends_batch(task, ends_plug, is_blocked)
    }

    /// Handles a task that sleeps in the stack for its direct I/O: its bios wait.
    pub(crate) fn on_direct_blocked(&mut self, task: TaskId) {
        self.files.cache_mut().task_blocked(task);
    }

    /// Handles a task that got the tag it slept for. Returns `None` if it did not sleep for a bio
    /// of the cache; otherwise true if its batch ends.
    pub(crate) fn unblocked(&mut self, now: Instant, processes: &mut [Process], task: TaskId) -> Option<bool> {
        let Self { files, charges, users, .. } = self;
        if !files.task_unblocked(task, &mut CallAccount { now, charges, users, processes }) {
            return None;
        }
        Some(self.stack_side.ends_batch_awake(task))
    }
}
