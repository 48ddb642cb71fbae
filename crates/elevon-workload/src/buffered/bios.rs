//! Bios of the page cache as I/Os of the stack, and the batches and sleeps of the tasks that submit
//! them.

use elevon_cache::page_cache::CacheIo;
use elevon_core::ioprio::PrioClass;
use elevon_core::layout::Layout;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Io, Stack};
use elevon_core::units::{Bytes, Instant, LayoutId, PAGE_SIZE, Sector, TaskId};

use super::{BufferedIo, CallAccount};
use crate::process::Process;
use crate::token::Token;

/// The stack's side of the layer: the tasks that submit bios, and the layouts of the bios.
#[derive(Debug)]
pub(super) struct StackSide {
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

impl StackSide {
    /// Returns the state for a device of this size and this number of tasks.
    pub(super) fn new(device_end: Sector, tasks: usize) -> Self {
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
}

impl BufferedIo {
    /// Returns the next bio of the cache as an I/O of the stack, its number, and true if it is the
    /// last bio that its task has queued.
    pub(crate) fn next_io(&mut self, now: Instant, stack: &mut Stack) -> Option<(Io, u32, bool)> {
        let io = self.files.cache_mut().poll_io(now)?;
        if let Some(at) = self.files.cache().last_dirty_sleep() {
            stack.note_dirty_sleep(at);
        }
        let CacheIo { token, task, op, flags, sector, bytes, mut ioprio, tenant, ends_plug, .. } = io;
        let bio = token as u32;
        let layouts = &mut self.stack_side.layouts;
        while layouts.len() <= bio as usize {
            layouts.push(stack.register_layout(Layout::contiguous(PAGE_SIZE, 0)));
        }
        let layout = layouts[bio as usize];
        if op != Op::Flush {
            stack.set_layout(layout, self.files.cache().frames(token).iter().map(|frame| u64::from(frame.0)));
        }
        let user = self.users.get_mut(task.index());
        let is_mapped = user.as_ref().is_some_and(|user| user.is_mapped);
        let controlled = ioprio.class() != PrioClass::Rt
            && self.control.is_some_and(|control| control.picks(self.stats.bios, &io, is_mapped));
        if controlled {
            ioprio = ioprio.with_class(PrioClass::Rt);
        }
        self.stats.count(&io, ioprio, controlled);
        let may_block = user.is_none_or(|user| {
            user.unpaid += self.cpu.submit + self.cpu.scheduler.request;
            user.may_block
        });
        // The last page of a device may be a partial one.
        let bytes = Bytes::new(bytes.get().min((self.stack_side.device_end - sector).bytes().get()));
        let flags = if op == Op::Flush { Flags::PREFLUSH | flags } else { flags };
        let token = Token::Cache(bio).encode();
        let io = Io { task, token, op, flags, sector, bytes, ioprio, write_hint: 0, tenant, layout, may_block };
        Some((io, bio, ends_plug))
    }

    /// Returns true if the bio's task begins a batch with it. Readahead windows and writes are
    /// always plugged, so that the parts of a bio that is split are plugged too; a page that is
    /// read alone is not.
    pub(crate) fn begins_batch(&mut self, io: &Io, ends_plug: bool) -> bool {
        let plug = &mut self.stack_side.plugs[io.task.index()];
        let is_plugged = io.op == Op::Write || io.flags.contains(Flags::RAHEAD);
        let begins = !plug.is_open && (is_plugged || !ends_plug);
        plug.is_open |= begins;
        begins
    }

    /// Returns true if the batch of a task ends after the submission of this bio.
    pub(crate) fn ends_batch(&mut self, task: TaskId, ends_plug: bool, is_blocked: bool) -> bool {
        let plug = &mut self.stack_side.plugs[task.index()];
        let ends = plug.is_open && ends_plug;
        plug.ends = ends && is_blocked;
        plug.is_open &= !ends || is_blocked;
        if is_blocked {
            self.files.task_blocked(task);
        }
        ends && !is_blocked
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
        let plug = &mut self.stack_side.plugs[task.index()];
        let ends = std::mem::take(&mut plug.ends);
        plug.is_open &= !ends;
        Some(ends)
    }
}
