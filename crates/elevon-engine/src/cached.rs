//! A page cache before a stack: its bios become I/Os of the stack, in batches as the kernel plugs
//! them, and its bytes are moved by the back end.
//!
//! What a user of the cache counts and charges is its own, behind [`CacheUser`].

use elevon_cache::file_io::FileIo;
use elevon_cache::page_cache::{ByteCopy, CacheIo, PageCache};
use elevon_cache::{FrameId, PageFlags};
use elevon_core::layout::Layout;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Done, Io, Stack, Submitted};
use elevon_core::units::{Bytes, Instant, LayoutId, PAGE_SIZE, Sector, TaskId};

use crate::{Backend, Engine, Token};

/// A user of a page cache before a stack, with what it accounts.
///
/// The caller's loop: completed bios go to [`Self::complete_bio`], tasks that got a tag to
/// [`Self::end_sleep`], and [`Self::poll_cache`] is called until it returns `None`.
pub trait CacheUser {
    /// Returns the file I/O, and what the stack knows of its bios.
    fn parts(&mut self) -> (&mut FileIo, &mut CacheBios);

    /// Accounts a bio that is about to be submitted, and may change its priority. Returns true if
    /// its task sleeps for a tag (`Io::may_block`).
    fn on_bio(&mut self, bio: &mut CacheIo) -> bool;

    /// Returns true if the bytes of a copy are to be moved.
    fn wants(&self, _copy: &ByteCopy) -> bool {
        true
    }

    /// Returns true if the call that a task is in has a plug of its own, in which the task sleeps
    /// for its bios.
    fn sleeps_in_plug(&self, _stack: &Stack, _task: TaskId) -> bool {
        false
    }

    /// Moves bytes between frames and buffers, submits the cache's bios, and returns the next event
    /// that `next` takes from the file I/O. `on_io` is told of each bio with its frames before it
    /// is submitted. Returns `None` if nothing is left to be moved.
    #[inline]
    fn poll_cache<B: Backend, E>(
        &mut self,
        now: Instant,
        engine: &mut Engine<B>,
        mut on_io: impl FnMut(&Io, &[FrameId]),
        mut next: impl FnMut(&mut Self) -> Option<E>,
    ) -> Option<E> {
        loop {
            if !self.parts().1.takes_events {
                self.move_bytes(engine);
                let has_moved = self.submit_bios(now, engine, &mut on_io);
                let bios = self.parts().1;
                (bios.takes_events, bios.has_moved) = (true, has_moved);
            }
            let event = next(self);
            let bios = self.parts().1;
            if event.is_some() {
                bios.has_moved = true;
                self.move_bytes(engine);
                return event;
            }
            bios.takes_events = false;
            if !bios.has_moved {
                return None;
            }
        }
    }

    /// Moves the bytes between frames and buffers that the cache asks for.
    #[inline]
    fn move_bytes<B: Backend>(&mut self, engine: &mut Engine<B>) {
        while let Some(copy) = self.parts().0.cache_mut().poll_copy() {
            if self.wants(&copy) {
                engine.backend_mut().move_bytes(&copy);
            }
        }
    }

    /// Submits the bios that the cache has built. Returns false if there was none.
    fn submit_bios<B: Backend>(
        &mut self,
        now: Instant,
        engine: &mut Engine<B>,
        on_io: &mut impl FnMut(&Io, &[FrameId]),
    ) -> bool {
        let (stack, backend) = engine.parts();
        let mut any = false;
        while let Some(mut bio) = self.parts().0.cache_mut().poll_io(now) {
            if let Some(at) = self.parts().0.cache().last_dirty_sleep() {
                stack.note_dirty_sleep(at);
            }
            let may_block = self.on_bio(&mut bio);
            let in_plug = self.sleeps_in_plug(stack, bio.task);
            let (files, bios) = self.parts();
            let io = bios.io_of(stack, files.cache(), &bio, may_block);
            // The flusher has one plug for all that it writes in a pass.
            let is_flusher = files.cache().is_flusher(bio.task);
            if bios.begins_batch(&io, bio.ends_plug, in_plug) {
                stack.begin_batch(now, bio.task);
                bios.passing.extend(is_flusher.then_some(bio.task));
            }
            if files.has_bytes() {
                backend.bind_frames(bio.token as u32, files.cache().frames(bio.token));
            }
            on_io(&io, files.cache().frames(bio.token));
            let is_blocked = stack.submit_buffered(now, io, backend) == Submitted::Blocked;
            if is_blocked {
                files.task_blocked(bio.task);
            }
            if bios.ends_batch(bio.task, bio.ends_plug && !is_flusher, is_blocked) {
                self.end_batch(now, bio.task, stack, backend);
            }
            any = true;
        }
        while let Some(task) = self.parts().1.next_idle_flusher() {
            self.end_batch(now, task, stack, backend);
        }
        any
    }

    /// Ends the batch in which a task submitted its bios.
    fn end_batch<B: Backend>(
        &self,
        now: Instant,
        task: TaskId,
        stack: &mut Stack,
        backend: &mut B,
    ) {
        if self.sleeps_in_plug(stack, task) {
            stack.sleep_in_batch(now, task, backend);
        } else {
            stack.end_batch(now, task, backend);
        }
    }

    /// Gives a bio back to the cache that the stack has completed. Returns how many pages were lost
    /// if it was a write-back that failed.
    #[inline]
    fn complete_bio(&mut self, now: Instant, bio: u32, done: &Done) -> u64 {
        let cache = self.parts().0.cache_mut();
        let lost = if done.status.is_ok() { 0 } else { pages_written(cache, bio) };
        cache.complete_as(now, bio.into(), done.status, done.device, done.ioprio.class());
        lost
    }

    /// Runs the timers of the cache that are due. Returns true if there was one.
    #[inline]
    fn run_timers(&mut self, now: Instant) -> bool {
        let cache = self.parts().0.cache_mut();
        let is_due = cache.next_timer().is_some_and(|at| at <= now);
        if is_due {
            cache.handle_timers(now);
        }
        is_due
    }

    /// Handles a task that got the tag for which it slept in a bio: its batch ends if that was its
    /// last bio.
    fn end_sleep<B: Backend>(&mut self, now: Instant, task: TaskId, engine: &mut Engine<B>) {
        if self.parts().1.ends_batch_awake(task) {
            let (stack, backend) = engine.parts();
            self.end_batch(now, task, stack, backend);
        }
    }
}

/// Returns how many pages a bio writes back.
#[cold]
fn pages_written(cache: &PageCache, bio: u32) -> u64 {
    let pages = cache.resident().pages();
    cache.frames(bio.into()).iter().filter(|&&frame| pages.has(frame, PageFlags::WRITEBACK)).count()
        as u64
}

/// Bios of a page cache as I/Os of a stack: their layouts, and the batches and sleeps of the tasks
/// that submit them.
#[derive(Debug)]
pub struct CacheBios {
    /// The layout of a bio's pages, by its number.
    layouts: Vec<LayoutId>,
    /// By task; the flushers and other programs come last.
    plugs: Vec<Plug>,
    /// Flushers whose batch is open.
    passing: Vec<TaskId>,
    device_end: Sector,
    /// Bios were submitted, and events are taken until there is none. Then more bios are
    /// submitted.
    takes_events: bool,
    /// Something has moved since bios were submitted first.
    has_moved: bool,
}

/// The batch in which a task submits its bios.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// A batch is open in the stack.
    is_open: bool,
    /// The task's last queued bio was submitted, and sleeps: the batch ends when the task wakes.
    ends: bool,
    /// The task sleeps for a bio's tag.
    is_asleep: bool,
}

impl CacheBios {
    /// Sets the end of a device that has grown.
    pub const fn grow(&mut self, device_end: Sector) {
        self.device_end = device_end;
    }

    /// Returns the state for a device of this size and this number of tasks.
    pub fn new(device_end: Sector, tasks: usize) -> Self {
        let plugs = vec![Plug::default(); tasks];
        Self {
            layouts: Vec::new(),
            plugs,
            passing: Vec::new(),
            device_end,
            takes_events: false,
            has_moved: false,
        }
    }

    /// Returns the end of the device.
    pub const fn device_end(&self) -> Sector {
        self.device_end
    }

    /// Adds another task that will submit bios.
    pub fn add_task(&mut self, task: TaskId) {
        if self.plugs.len() <= task.index() {
            self.plugs.resize(task.index() + 1, Plug::default());
        }
    }

    /// Returns a bio of the cache as an I/O of the stack, whose token is [`Token::Cache`].
    /// `may_block`: its task sleeps for a tag, see [`Stack::submit`].
    fn io_of(&mut self, stack: &mut Stack, cache: &PageCache, io: &CacheIo, may_block: bool) -> Io {
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
        Io {
            task,
            token,
            op,
            flags,
            sector,
            bytes,
            ioprio,
            write_hint: 0,
            tenant,
            layout,
            may_block,
        }
    }

    /// Returns true if the bio's task begins a batch with it; `ends_plug`: it is the last bio of a
    /// readahead window, or that the task has queued. Readahead windows and writes are always
    /// plugged, so that the parts of a bio that is split are plugged too; a page that is read alone
    /// is only `in_plug`: its task's call has a plug.
    fn begins_batch(&mut self, io: &Io, ends_plug: bool, in_plug: bool) -> bool {
        let plug = &mut self.plugs[io.task.index()];
        let is_read_in_plug = in_plug && io.op == Op::Read;
        let is_plugged = io.op == Op::Write || io.flags.contains(Flags::RAHEAD) || is_read_in_plug;
        let begins = !plug.is_open && (is_plugged || !ends_plug);
        plug.is_open |= begins;
        begins
    }

    /// Returns true if the batch of a task ends after the submission of this bio. `is_blocked`: the
    /// task sleeps for the bio's tag.
    fn ends_batch(&mut self, task: TaskId, ends_plug: bool, is_blocked: bool) -> bool {
        let plug = &mut self.plugs[task.index()];
        let ends = plug.is_open && ends_plug;
        (plug.ends, plug.is_asleep) = (ends && is_blocked, is_blocked);
        plug.is_open &= !ends || is_blocked;
        ends && !is_blocked
    }

    /// Returns true if the batch of a task ends with its sleep for a bio's tag.
    fn ends_batch_awake(&mut self, task: TaskId) -> bool {
        let plug = &mut self.plugs[task.index()];
        plug.is_asleep = false;
        let ends = std::mem::take(&mut plug.ends);
        plug.is_open &= !ends;
        ends
    }

    /// Takes a flusher whose batch is open and that does not sleep in it. Its pass is over, and so
    /// is its batch.
    fn next_idle_flusher(&mut self) -> Option<TaskId> {
        let is_idle = |task: &TaskId| !self.plugs[task.index()].is_asleep;
        let task = self.passing.swap_remove(self.passing.iter().position(is_idle)?);
        self.plugs[task.index()].is_open = false;
        Some(task)
    }
}
