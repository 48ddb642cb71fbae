//! Commands by plain system calls on a pool of threads: if io_uring is denied, and for commands
//! that io_uring does not support.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use elevon_core::driver::{Accept, Command, Pieces};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::Bytes;

use crate::alarm::Alarm;
use crate::buffers::{Buffers, Span};
use crate::joined::{SLOT, Unflushed};
use crate::promise::is_promise;
use crate::{Finished, HostFile};

/// Maximum number of threads: more would only compete for the same device.
const MAX_THREADS: u32 = 32;

/// `BLKDISCARD` and `BLKSECDISCARD` of linux/fs.h: discard a range of a block device, or erase it
/// for good.
const BLKDISCARD: libc::Ioctl = libc::_IO(0x12, 119);
const BLKSECDISCARD: libc::Ioctl = libc::_IO(0x12, 125);

/// A command that system calls carry out.
pub(crate) struct Work {
    command: Command,
    spans: Vec<Span>,
    status: Status,
    moved: u64,
}

impl Work {
    /// Takes a command, whose buffers are in flight from now on. `spans` is a list to be used.
    pub(crate) fn new(
        mut spans: Vec<Span>,
        buffers: &mut Buffers,
        command: &Command,
        pieces: &dyn Pieces,
    ) -> Self {
        spans.clear();
        if command.op.has_data() {
            let is_read = command.op == Op::Read;
            pieces.for_each(&mut |piece| buffers.start(&piece, is_read, &mut spans));
        }
        Self { command: *command, spans, status: Status::Ok, moved: 0 }
    }

    /// Carries it out with as many system calls as needed, on a regular file that is no pool.
    pub(crate) fn carry_out_at_once(&mut self, file: &File, flush_file: &File) {
        let offset = self.command.sector.byte_offset().get();
        self.status = carry_out((file, flush_file, false), offset, self)
            .map_or_else(Status::from_errno, |()| Status::Ok);
    }

    /// The same on the parts of a pool, or on the one file of what is none.
    fn carry_out(&mut self, hand: &Hand) {
        let place = self.command.sector.byte_offset().get();
        let done = match (&hand.files[..], self.command.op) {
            ([_, _, ..], Op::Flush) => {
                hand.unflushed.flush(|part| carry_out(hand.files[part].get(), 0, self))
            }
            ([only], _) => carry_out(only.get(), place, self),
            (parts, _) => carry_out(parts[(place / SLOT) as usize].get(), place % SLOT, self),
        };
        self.status = done.map_or_else(Status::from_errno, |()| Status::Ok);
    }

    /// Ends it, and returns the list of spans.
    pub(crate) fn end(self, buffers: &mut Buffers) -> (Finished, Vec<Span>) {
        for span in &self.spans {
            buffers.finish(span, self.command.op == Op::Read);
        }
        let bytes = if self.status.is_ok() { self.command.bytes } else { Bytes::new(self.moved) };
        (Finished { command: self.command, status: self.status, bytes }, self.spans)
    }
}

/// Commands that wait for a thread, and a flag that ends the threads.
#[derive(Default)]
struct WorkQueue {
    waiting: Mutex<(VecDeque<Work>, bool)>,
    ready: Condvar,
}

/// A file for threads.
struct OpenFile {
    file: File,
    /// As [`HostFile::flush_file`].
    flush_file: File,
    is_block_device: bool,
}

impl OpenFile {
    fn from_file(file: &HostFile) -> std::io::Result<Self> {
        let (of, flush_file) = (file.file.try_clone()?, file.flush_file.try_clone()?);
        Ok(Self { file: of, flush_file, is_block_device: file.is_block_device })
    }

    const fn get(&self) -> (&File, &File, bool) {
        (&self.file, &self.flush_file, self.is_block_device)
    }
}

/// The data that a thread needs.
#[derive(Clone)]
struct Hand {
    queue: Arc<WorkQueue>,
    /// The parts of a pool, or the one file of what is none.
    files: Arc<Vec<OpenFile>>,
    unflushed: Unflushed,
    results: Sender<Work>,
    alarm: Alarm,
}

/// The pool.
pub(crate) struct Threads {
    queue: Arc<WorkQueue>,
    results: Receiver<Work>,
    /// Rings when a command has completed.
    alarm: Alarm,
    arrived: VecDeque<Work>,
    handles: Vec<std::thread::JoinHandle<()>>,
    in_flight: usize,
    /// Span lists to be reused.
    spare: Vec<Vec<Span>>,
}

impl Threads {
    /// Returns a pool for `depth` commands at a time, at most 32, with as many threads as can be
    /// created. The alarm rings when one has completed.
    ///
    /// # Errors
    ///
    /// No thread or no descriptor can be created.
    pub(crate) fn new(
        file: &HostFile,
        unflushed: &Unflushed,
        depth: u32,
        alarm: Alarm,
    ) -> std::io::Result<Self> {
        let (sender, results) = channel();
        let queue = Arc::new(WorkQueue::default());
        let hand = Hand {
            queue: Arc::clone(&queue),
            files: Arc::new(file.parts().map(OpenFile::from_file).collect::<std::io::Result<_>>()?),
            unflushed: unflushed.clone(),
            results: sender,
            alarm: alarm.clone(),
        };
        let mut handles = Vec::new();
        for _ in 0..depth.clamp(1, MAX_THREADS) {
            let hand = hand.clone();
            match std::thread::Builder::new().spawn(move || serve(&hand)) {
                Ok(handle) => handles.push(handle),
                Err(error) if handles.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Self {
            queue,
            results,
            alarm,
            arrived: VecDeque::new(),
            handles,
            in_flight: 0,
            spare: Vec::new(),
        })
    }

    /// Returns how many commands are carried out at a time.
    pub(crate) const fn depth(&self) -> u32 {
        self.handles.len() as u32
    }

    /// Returns the number of commands that were accepted and not returned yet.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn queue(
        &mut self,
        buffers: &mut Buffers,
        command: &Command,
        pieces: &dyn Pieces,
    ) -> Accept {
        let work = Work::new(self.spare.pop().unwrap_or_default(), buffers, command, pieces);
        self.queue.waiting.lock().expect("no thread panics with the lock").0.push_back(work);
        self.queue.ready.notify_one();
        self.in_flight += 1;
        Accept::Ok
    }

    pub(crate) fn poll(&mut self, buffers: &mut Buffers) -> Option<Finished> {
        let work = self.arrived.pop_front().or_else(|| self.results.try_recv().ok())?;
        self.in_flight -= 1;
        let (finished, spans) = work.end(buffers);
        self.spare.push(spans);
        Some(finished)
    }

    /// Waits for a completion, another ring of the alarm or the time limit. Returns false if none
    /// can occur. `others`: whether the alarm may ring for something else.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, others: bool) -> bool {
        self.arrived.extend(self.results.try_recv().ok());
        if !self.arrived.is_empty() {
            return true;
        }
        // Without a limit it still wakes up from time to time, so that a signal is noticed.
        let limit = match limit {
            None if self.in_flight == 0 && !others => return false,
            None => Duration::from_millis(100),
            Some(limit) => limit,
        };
        self.alarm.wait(limit);
        true
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.queue.waiting.lock() {
            waiting.1 = true;
        }
        self.queue.ready.notify_all();
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

/// The main loop of a thread: takes a command, carries it out, reports it.
fn serve(hand: &Hand) {
    loop {
        let mut waiting = hand.queue.waiting.lock().expect("no thread panics with the lock");
        let mut work = loop {
            match waiting.0.pop_front() {
                Some(work) => break work,
                None if waiting.1 => return,
                None => {
                    waiting =
                        hand.queue.ready.wait(waiting).expect("no thread panics with the lock");
                }
            }
        };
        drop(waiting);
        work.carry_out(hand);
        if hand.results.send(work).is_err() {
            return;
        }
        hand.alarm.ring();
    }
}

/// Carries a command out, at this byte of a file. Returns an errno on failure.
fn carry_out(
    (file, flush_file, is_block_device): (&File, &File, bool),
    offset: u64,
    work: &mut Work,
) -> Result<(), i32> {
    let (fd, bytes) = (file.as_raw_fd(), work.command.bytes.get());
    let allocate = |mode: i32| {
        let (offset, bytes) = (offset as libc::off_t, bytes as libc::off_t);
        // SAFETY: a valid descriptor and plain numbers.
        checked(unsafe { libc::fallocate(fd, mode | libc::FALLOC_FL_KEEP_SIZE, offset, bytes) }
            as isize)
        .map(|_| ())
    };
    let discard = |request: libc::Ioctl| {
        let range = [offset, bytes];
        // SAFETY: a valid descriptor, and memory for the range that both of these requests read.
        checked(unsafe { libc::ioctl(fd, request, range.as_ptr()) } as isize).map(|_| ())
    };
    match work.command.op {
        Op::Read | Op::Write | Op::ZoneAppend => move_data(fd, offset, work),
        // Called once, without a retry: see `Promises`.
        Op::Flush => {
            // SAFETY: a valid descriptor.
            checked(unsafe { libc::fdatasync(flush_file.as_raw_fd()) } as isize).map(|_| ())
        }
        Op::Discard if is_block_device => discard(BLKDISCARD),
        Op::SecureErase if is_block_device => discard(BLKSECDISCARD),
        Op::Discard | Op::SecureErase => allocate(libc::FALLOC_FL_PUNCH_HOLE),
        Op::WriteZeroes => allocate(libc::FALLOC_FL_ZERO_RANGE),
    }
}

/// Returns the flags of the system call that carries out a write.
pub(crate) fn rw_flags(command: &Command) -> libc::c_int {
    let flag = |flag, value| if command.flags.contains(flag) { value } else { 0 };
    flag(Flags::FUA, libc::RWF_DSYNC) | flag(Flags::ATOMIC, libc::RWF_ATOMIC)
}

fn move_data(fd: i32, start: u64, work: &mut Work) -> Result<(), i32> {
    let flags = rw_flags(&work.command);
    for span in &work.spans {
        let mut done = 0;
        while done < span.len {
            let vector = libc::iovec {
                iov_base: span.address.wrapping_add(done).cast(),
                iov_len: span.len - done,
            };
            let at = (start + work.moved) as libc::off_t;
            // SAFETY: the span's slot counts as in flight until the completion is taken, so no
            // other code accesses it, and the memory lives as long as the slab.
            let result = unsafe {
                if work.command.op.is_write() {
                    libc::pwritev2(fd, &vector, 1, at, flags)
                } else {
                    libc::preadv2(fd, &vector, 1, at, 0)
                }
            };
            match checked(result) {
                // No data was moved, and the command is not a flush or FUA write.
                Err(libc::EINTR) if !is_promise(&work.command) => {}
                Err(errno) => return Err(errno),
                Ok(0) => return Err(libc::EIO),
                Ok(moved) => {
                    done += moved;
                    work.moved += moved as u64;
                }
            }
        }
    }
    Ok(())
}

fn checked(result: isize) -> Result<usize, i32> {
    usize::try_from(result)
        .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
