//! Real time: files and block devices as the back end of a run, by io_uring or a pool of threads.
//!
//! The only crate with `unsafe`: for buffers whose bytes the kernel moves, and for system calls. It
//! opens only what the caller named, and files of /proc and /sys that describe the machine.

mod alarm;
mod bells;
mod buffers;
mod busy_poll;
mod connect;
pub mod cpu;
mod disk;
pub mod file;
mod frames;
mod image;
pub mod interrupt;
mod joined;
mod mapping;
pub mod memory;
pub mod passed;
mod peers;
pub mod priority;
mod promise;
mod registered;
mod shared_memory;
mod sockets;
pub mod terminal;
mod threads;
pub mod uptime;
mod uring;

pub use alarm::Alarm;
pub use bells::BellId;
pub use connect::{connect_tcp, connect_unix};
pub use disk::disk_of;
pub use file::{Allocation, FileIdentity, HostFile, OpenError, OpenOptions};
pub use joined::{MAX_PARTS, SLOT};
pub use mapping::Mapping;
pub use peers::{Credentials, group_id, peer_credentials, user_id};
pub use promise::Promises;
pub use shared_memory::{LentMemory, SharedMemory, SharedRegion};
pub use sockets::{
    Incoming, Outgoing, SlotBytes, SocketEvent, SocketId, has_hung_up, keep_alive, linger,
    raise_descriptor_limit, set_send_buffer, shut_socket, unread, unsent,
};

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use elevon_cache::{FrameId, page_cache::ByteCopy};
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, PAGE_SIZE, Sectors, TaskId};
use elevon_engine::Backend;

use buffers::{Buffers, Span};
use interrupt::Interrupt;
use joined::Unflushed;
use threads::Work;

/// How I/O is submitted to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// io_uring, with the buffers of direct I/O registered as far as the limit of locked memory
    /// allows.
    IoUring,
    /// System calls on a pool of threads.
    Threads,
}

/// A real file or block device with the machine's clock.
pub struct Host {
    epoch: std::time::Instant,
    interrupt: Interrupt,
    /// Dropped before the buffers and the file: it waits for commands in flight.
    engine: Engine,
    /// Ends a wait: for a completion of a thread, or for a thread that has asked for it.
    alarm: Option<Alarm>,
    /// True if a caller besides the threads may ring.
    is_called: bool,
    /// Engine for what io_uring does not do: discards of a block device before Linux 6.12, and
    /// merged atomic writes, of which each is a system call; started with the first of them.
    pool: Option<threads::Threads>,
    buffers: Buffers,
    file: HostFile,
    unflushed: Unflushed,
    depth: u32,
    /// True if [`Self::is_done_at_once`] says what is carried out when it is queued.
    is_at_once: bool,
    /// What was carried out so, and a list of spans to be used for the next.
    finished: VecDeque<Finished>,
    spare: Vec<Span>,
    promises: Promises,
    warnings: Vec<String>,
}

/// Bytes from which on a write of a file in memory is left to a worker, which copies while the
/// caller receives the next. A shorter one has finished before a worker would have begun.
const LONG_WRITE: u64 = 128 << 10;

const NO_RING: &str = "there is a ring if there is a socket";

/// A completed command.
struct Finished {
    command: Command,
    status: Status,
    /// Bytes that were transferred before the end.
    bytes: Bytes,
}

enum Engine {
    Uring(Box<uring::Uring>),
    Threads(threads::Threads),
}

impl Host {
    /// Starts the clock, for `depth` commands in flight. If `method` is `None`, io_uring is used,
    /// or threads with a warning if the kernel denies io_uring; see [`Self::queue_depth`].
    ///
    /// # Errors
    /// The kernel denies io_uring although it was asked for, or no thread can be created.
    pub fn new(
        file: HostFile,
        depth: u32,
        method: Option<Method>,
        interrupt: Interrupt,
    ) -> std::io::Result<Self> {
        let mut warnings = file.notes.clone();
        let mut alarm = None;
        let unflushed = Unflushed::from_file(&file);
        let mut threads = || {
            let alarm = alarm.insert(Alarm::new()?).clone();
            threads::Threads::new(&file, &unflushed, depth, alarm)
        };
        let engine = match method {
            Some(Method::IoUring) => Engine::Uring(Box::new(uring::Uring::new(depth)?)),
            Some(Method::Threads) => Engine::Threads(threads()?),
            None => match uring::Uring::new(depth) {
                Ok(ring) => Engine::Uring(Box::new(ring)),
                Err(error) => {
                    let threads = threads()?;
                    let most = threads.depth();
                    warnings.push(format!(
                        "io_uring is not available ({error}): using a pool of {most} threads, so at most {most} I/Os are at the device at a time and the rest is queued"
                    ));
                    Engine::Threads(threads)
                }
            },
        };
        let depth = match &engine {
            Engine::Uring(_) => depth,
            Engine::Threads(threads) => threads.depth(),
        };
        Ok(Self {
            epoch: std::time::Instant::now(),
            interrupt,
            engine,
            alarm,
            is_called: false,
            pool: None,
            buffers: Buffers::default(),
            unflushed,
            file,
            depth,
            is_at_once: false,
            finished: VecDeque::new(),
            spare: Vec::new(),
            promises: Promises::default(),
            warnings,
        })
    }

    /// From now on, if the file lies in memory, the caller's thread carries out reads, flushes and
    /// all but long writes when they are queued. The reason is that io_uring would hand them to a
    /// worker: these file systems have no way to ask for I/O that does not wait. A long write is
    /// handed to one all the same: meanwhile the caller receives the next. A run that measures such
    /// a file does not want it: nothing would be in flight.
    pub const fn carry_out_at_once(&mut self) {
        self.is_at_once = self.file.is_in_memory && self.file.others.is_empty();
    }

    /// From now on [`Backend::wait`] polls the ring for so long before the thread sleeps, while
    /// that finds results. It saves the time to be woken, and costs the processor's; zero is never,
    /// as at first. Without io_uring it does nothing.
    pub const fn busy_poll(&mut self, window: std::time::Duration) {
        if let Engine::Uring(ring) = &mut self.engine {
            ring.busy_poll(window);
        }
    }

    /// Allocates the frames of a page cache. Call it before a run through a page cache with real
    /// data.
    ///
    /// # Errors
    /// The machine has not enough memory.
    pub fn reserve_frames(&mut self, memory: Bytes) -> std::io::Result<()> {
        self.buffers.frames = Some(frames::Frames::new(memory.get() / PAGE_SIZE)?);
        Ok(())
    }

    /// Makes the buffers of a task as [`Backend::prepare_buffers`] does, at any time.
    ///
    /// # Errors
    /// The machine has not enough memory. The task has no buffers then.
    pub fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> std::io::Result<()> {
        // What was abandoned in a ring that failed still has its buffers.
        if self.is_broken() {
            return Ok(());
        }
        self.unregister(task, None);
        self.buffers.prepare(task, slots, bytes)
    }

    /// Gives back the memory of a buffer that has no command in flight. The buffer stays.
    ///
    /// # Panics
    /// If a command is in flight.
    pub fn empty_buffer(&mut self, task: TaskId, token: u64) {
        if !self.is_broken() {
            self.unregister(task, Some(token));
            self.buffers.empty_slot(task, token);
        }
    }

    fn unregister(&mut self, task: TaskId, token: Option<u64>) {
        if let Engine::Uring(ring) = &mut self.engine {
            ring.unregister(&mut self.buffers, task, token);
        }
    }

    /// Returns warnings for the user about how this run was made.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns how I/O is submitted to the kernel.
    pub const fn method(&self) -> Method {
        match self.engine {
            Engine::Uring(_) => Method::IoUring,
            Engine::Threads(_) => Method::Threads,
        }
    }

    /// Returns how many commands are at the device at a time: each thread carries out one, and
    /// there are at most 32. A stack of this depth keeps other commands in its own queue, where
    /// they are counted as waiting; with a deeper queue, some would wait here without being
    /// counted.
    pub const fn queue_depth(&self) -> u32 {
        self.depth
    }

    /// Returns why I/O no longer reaches the kernel, if this has failed. Every command ends with
    /// [`Status::Offline`] then.
    pub fn failure(&self) -> Option<String> {
        match &self.engine {
            Engine::Uring(ring) => ring.failure().map(|error| format!("io_uring failed: {error}")),
            Engine::Threads(_) => None,
        }
    }

    /// Returns true if no flush succeeds any more ([`Promises`]).
    pub const fn is_lost(&self) -> bool {
        self.promises.broken().is_some()
    }

    /// Returns the alarm by which another thread ends [`Backend::wait`], which from now on waits
    /// for it even if nothing else can happen.
    ///
    /// # Errors
    /// No descriptor can be created.
    pub fn alarm(&mut self) -> std::io::Result<Alarm> {
        self.is_called = true;
        self.watched_alarm()
    }

    fn watched_alarm(&mut self) -> std::io::Result<Alarm> {
        if let Some(alarm) = &self.alarm {
            return Ok(alarm.clone());
        }
        let alarm = Alarm::new()?;
        if let Engine::Uring(ring) = &mut self.engine {
            ring.watch(alarm.fd());
        }
        Ok(self.alarm.insert(alarm).clone())
    }

    /// Returns the engine for what io_uring does not do.
    fn pool(&mut self) -> std::io::Result<&mut threads::Threads> {
        if self.pool.is_none() {
            let alarm = self.watched_alarm()?;
            self.pool =
                Some(threads::Threads::new(&self.file, &self.unflushed, self.depth, alarm)?);
        }
        Ok(self.pool.as_mut().expect("made above"))
    }

    /// Returns the file.
    pub const fn file(&self) -> &HostFile {
        &self.file
    }

    /// Returns the size of the file or block device as it is now, in whole logical blocks.
    /// [`HostFile::size`] is no less afterwards. `None` if it cannot be found, and of a pool.
    pub fn grown(&mut self) -> Option<Sectors> {
        if !self.file.others.is_empty() {
            return None;
        }
        let size = self.file.size_now().ok()?;
        self.file.size = self.file.size.max(size);
        Some(size)
    }

    /// Returns true if sockets can be served by the ring that carries out the file's I/O.
    pub fn takes_sockets(&self) -> bool {
        matches!(self.engine, Engine::Uring(_)) && !self.is_broken()
    }

    /// Adds a stream socket, which must not be in non-blocking mode, to the ring.
    ///
    /// # Panics
    /// Without a ring, see [`Self::takes_sockets`].
    pub fn add_socket(&mut self, socket: OwnedFd) -> SocketId {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.add_socket(socket)
    }

    /// Ends both directions of a socket, so that what is under way ends, too.
    pub fn shut_socket(&mut self, socket: SocketId) {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.shut_socket(socket);
    }

    /// Returns true if the peer of a socket has closed it in both directions ([`has_hung_up`]).
    pub fn has_hung_up(&mut self, socket: SocketId) -> bool {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.has_hung_up(socket)
    }

    /// Returns how many bytes have come to a socket and were not received yet.
    ///
    /// # Panics
    /// Without a ring, see [`Self::takes_sockets`].
    pub fn unread(&mut self, socket: SocketId) -> u64 {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.unread(socket)
    }

    /// Returns a second handle of a socket of the ring.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn clone_socket(&mut self, socket: SocketId) -> std::io::Result<OwnedFd> {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.clone_socket(socket)
    }

    /// Takes a socket out of the ring.
    ///
    /// # Panics
    /// If a receive or a send of it has not ended.
    pub fn remove_socket(&mut self, socket: SocketId) -> OwnedFd {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.remove_socket(socket)
    }

    /// Starts to receive bytes: first those for these buffers of I/O, in order, then others into
    /// `incoming`, which has to have room.
    ///
    /// # Panics
    /// If a receive of this socket has not ended.
    pub fn receive(&mut self, socket: SocketId, incoming: Incoming, slots: &[SlotBytes]) {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.receive(socket, incoming, slots, &mut self.buffers);
    }

    /// Ends a receive to which nothing has come; [`SocketEvent::Cancelled`] tells of it. One to
    /// which something has come ends as it would; without a receive nothing happens.
    pub fn cancel_receive(&mut self, socket: SocketId) {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.cancel_receive(socket);
    }

    /// Starts to send everything.
    ///
    /// # Panics
    /// If a send of this socket has not ended, or there is nothing to send.
    pub fn send(&mut self, socket: SocketId, outgoing: Outgoing) {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.send(socket, outgoing, &mut self.buffers);
    }

    /// Returns the next thing that has happened to a socket. What is started is submitted by
    /// [`Backend::wait`], which also ends when something has happened.
    pub fn poll_socket(&mut self) -> Option<SocketEvent> {
        let Engine::Uring(ring) = &mut self.engine else { return None };
        ring.poll_socket(&mut self.buffers)
    }

    /// Returns true if a command of a file in memory is carried out when it is queued.
    const fn is_done_at_once(&self, command: &Command) -> bool {
        match command.op {
            Op::Read | Op::Flush => true,
            Op::Write => {
                command.bytes.get() < LONG_WRITE || matches!(self.engine, Engine::Threads(_))
            }
            _ => false,
        }
    }

    /// Returns true if the engine failed: the kernel may still be using memory of abandoned
    /// commands, so this memory must not be accessed.
    fn is_broken(&self) -> bool {
        matches!(&self.engine, Engine::Uring(ring) if ring.failure().is_some())
    }

    fn clock(&self) -> Instant {
        Instant::new(self.epoch.elapsed().as_nanos() as u64)
    }
}

impl Driver for Host {
    #[inline]
    fn queue_command(&mut self, _now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        if !command.op.has_data() && !is_one_range(command, pieces) {
            return Accept::Error(Status::NotSupported);
        }
        if self.is_at_once && self.is_done_at_once(command) {
            let mut work =
                Work::new(std::mem::take(&mut self.spare), &mut self.buffers, command, pieces);
            work.carry_out_at_once(&self.file.file, &self.file.flush_file);
            let (finished, spans) = work.end(&mut self.buffers);
            self.spare = spans;
            self.finished.push_back(finished);
            return Accept::Ok;
        }
        let is_block_device = || self.file.part_at(command.sector).0.is_block_device;
        let is_discard = matches!(command.op, Op::Discard | Op::SecureErase) && is_block_device();
        // A flush of several files is several system calls.
        let is_of_several = command.op == Op::Flush && !self.file.others.is_empty();
        let is_for_pool = is_discard
            || is_of_several
            || (command.flags.contains(Flags::ATOMIC) && is_merged(pieces));
        if is_for_pool && matches!(self.engine, Engine::Uring(_)) {
            if let Err(error) = self.pool() {
                return Accept::Error(
                    error.raw_os_error().map_or(Status::IoError, Status::from_errno),
                );
            }
            if let Some(pool) = &mut self.pool {
                return pool.queue(&mut self.buffers, command, pieces);
            }
        }
        match &mut self.engine {
            Engine::Uring(ring) => ring.queue(&self.file, &mut self.buffers, command, pieces),
            Engine::Threads(threads) => threads.queue(&mut self.buffers, command, pieces),
        }
    }

    /// The kernel has retried already.
    fn retries(&self) -> bool {
        false
    }
}

/// Returns true if the pieces of a command are contiguous. One system call discards one range: a
/// discard of several ranges would discard what is between them.
fn is_one_range(command: &Command, pieces: &dyn Pieces) -> bool {
    let (mut next, mut follows) = (command.sector, true);
    pieces.for_each(&mut |piece| {
        follows &= piece.sector == next;
        next = piece.sector + Bytes::new(piece.len).sectors_floor();
    });
    follows
}

/// Returns true if a command has more than one piece.
fn is_merged(pieces: &dyn Pieces) -> bool {
    let mut count = 0;
    pieces.for_each(&mut |_| count += 1);
    count > 1
}

impl Backend for Host {
    #[inline]
    fn now(&mut self) -> Instant {
        self.clock()
    }

    #[inline]
    fn poll_completion(&mut self) -> Option<Completion> {
        let of_engine = || match &mut self.engine {
            Engine::Uring(ring) => ring.poll(&self.file, &mut self.buffers),
            Engine::Threads(threads) => threads.poll(&mut self.buffers),
        };
        let finished = self.finished.pop_front().or_else(of_engine);
        let of_pool = || self.pool.as_mut()?.poll(&mut self.buffers);
        let Finished { command, status, bytes } = finished.or_else(of_pool)?;
        if command.op.is_write() {
            self.unflushed.wrote(command.sector);
        }
        let settled = match self.file.part_at(command.sector).0.is_block_device {
            true => self.promises.settle(&command, status),
            false => self.promises.settle_of_regular_file(&command, status),
        };
        Some(Completion::from_command(&command, settled, bytes))
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        if !self.finished.is_empty() {
            return !self.interrupt.is_set();
        }
        let limit = until.map(|at| std::time::Duration::from_nanos(at.since(self.clock()).get()));
        let others = self.is_called || self.pool.as_ref().is_some_and(|pool| pool.in_flight() > 0);
        let waited = match &mut self.engine {
            Engine::Uring(ring) => ring.wait(limit, others),
            Engine::Threads(threads) => threads.wait(limit, others),
        };
        waited && !self.interrupt.is_set()
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        let prepared = self.make_buffers(task, slots, bytes);
        prepared.unwrap_or_else(|error| panic!("no memory for the buffers of a task: {error}"));
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        if self.is_broken() {
            return None;
        }
        self.buffers.slot(task, token)
    }

    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        if let Some(all) = &mut self.buffers.frames {
            all.bind(bio as usize, frames);
        }
    }

    #[inline]
    fn move_bytes(&mut self, copy: &ByteCopy) {
        if !self.is_broken() {
            self.buffers.carry_out(copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::driver::Piece;
    use elevon_core::ioprio::IoPrio;
    use elevon_core::op::{Flags, Op};
    use elevon_core::units::{HwQueue, RequestId, Sector, Sectors, Tag};

    use super::*;

    struct Ranges(&'static [(u64, u64)]);

    impl Pieces for Ranges {
        fn for_each(&self, each: &mut dyn FnMut(Piece)) {
            for &(sector, sectors) in self.0 {
                let len = Sectors::new(sectors).bytes().get();
                each(Piece {
                    task: TaskId(0),
                    token: 0,
                    offset: 0,
                    len,
                    sector: Sector::new(sector),
                });
            }
        }
    }

    #[test]
    fn ranges_with_something_between_them_are_not_one() {
        let discard = Command {
            request: RequestId(0),
            sequence: 0,
            queue: HwQueue(0),
            tag: Tag(0),
            op: Op::Discard,
            flags: Flags::NONE,
            ioprio: IoPrio::NONE,
            sector: Sector::new(8),
            bytes: Sectors::new(16).bytes(),
        };
        for (ranges, is_one) in [
            (&[(8, 16)][..], true),
            (&[(8, 8), (16, 8)], true),
            (&[(8, 8), (5000, 8)], false),
            (&[], true),
        ] {
            assert_eq!(is_one_range(&discard, &Ranges(ranges)), is_one, "{ranges:?}");
        }
    }
}
