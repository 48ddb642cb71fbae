//! Commands by plain system calls on a pool of threads, where io_uring is denied.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use elevon_core::driver::{Accept, Command, Completion, Pieces};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::Bytes;

use crate::HostFile;
use crate::buffers::{Buffers, Span};

/// Threads at the most: more only fight for the same device.
const MOST_THREADS: u32 = 32;

/// A command on its way through the pool.
struct Work {
    command: Command,
    spans: Vec<Span>,
    status: Status,
    moved: u64,
}

/// Commands waiting for a thread; `None` in place of a queue ends the threads.
#[derive(Default)]
struct Queue {
    waiting: Mutex<(VecDeque<Work>, bool)>,
    ready: Condvar,
}

/// The pool.
pub(crate) struct Threads {
    queue: Arc<Queue>,
    results: Receiver<Work>,
    arrived: VecDeque<Work>,
    handles: Vec<std::thread::JoinHandle<()>>,
    in_flight: usize,
    /// Span lists to be used again.
    spare: Vec<Vec<Span>>,
}

impl Threads {
    pub(crate) fn new(file: &HostFile, depth: u32) -> Self {
        let queue = Arc::new(Queue::default());
        let (sender, results) = channel();
        let file = Arc::new(file.file.try_clone().expect("a descriptor can be duplicated"));
        let handles = (0..depth.clamp(1, MOST_THREADS))
            .map(|_| {
                let (queue, sender, file) = (Arc::clone(&queue), sender.clone(), Arc::clone(&file));
                std::thread::spawn(move || serve(&queue, &file, &sender))
            })
            .collect();
        Self { queue, results, arrived: VecDeque::new(), handles, in_flight: 0, spare: Vec::new() }
    }

    pub(crate) fn queue(&mut self, buffers: &mut Buffers, command: &Command, pieces: &dyn Pieces) -> Accept {
        let mut spans = self.spare.pop().unwrap_or_default();
        if command.op.has_data() {
            let is_read = command.op == Op::Read;
            pieces.for_each(&mut |piece| buffers.start(&piece, is_read, &mut spans));
        }
        let work = Work { command: *command, spans, status: Status::Ok, moved: 0 };
        self.queue.waiting.lock().expect("no thread panics with the lock").0.push_back(work);
        self.queue.ready.notify_one();
        self.in_flight += 1;
        Accept::Ok
    }

    pub(crate) fn poll(&mut self, buffers: &mut Buffers) -> Option<Completion> {
        let mut work = self.arrived.pop_front().or_else(|| self.results.try_recv().ok())?;
        self.in_flight -= 1;
        for span in &work.spans {
            buffers.finish(span, work.command.op == Op::Read);
        }
        let bytes = if work.status.is_ok() { work.command.bytes } else { Bytes::new(work.moved) };
        work.spans.clear();
        self.spare.push(work.spans);
        Some(Completion::of(&work.command, work.status, bytes))
    }

    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> bool {
        if !self.arrived.is_empty() {
            return true;
        }
        // Woken now and then without a limit too, so that a signal is noticed.
        let limit = match limit {
            None if self.in_flight == 0 => return false,
            None => Duration::from_millis(100),
            Some(limit) => limit,
        };
        self.arrived.extend(self.results.recv_timeout(limit).ok());
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

/// A thread's life: take a command, carry it out, report.
fn serve(queue: &Queue, file: &File, results: &Sender<Work>) {
    loop {
        let mut waiting = queue.waiting.lock().expect("no thread panics with the lock");
        let mut work = loop {
            match waiting.0.pop_front() {
                Some(work) => break work,
                None if waiting.1 => return,
                None => waiting = queue.ready.wait(waiting).expect("no thread panics with the lock"),
            }
        };
        drop(waiting);
        work.status = match carry_out(file, &mut work) {
            Ok(()) => Status::Ok,
            Err(errno) => Status::from_errno(errno),
        };
        if results.send(work).is_err() {
            return;
        }
    }
}

/// Carries a command out with as many system calls as it takes; an errno on failure.
fn carry_out(file: &File, work: &mut Work) -> Result<(), i32> {
    let fd = file.as_raw_fd();
    let offset = work.command.sector.byte_offset() as libc::off_t;
    let bytes = work.command.bytes.get() as libc::off_t;
    let allocate = |mode: i32| {
        // SAFETY: a valid descriptor and plain numbers.
        checked(unsafe { libc::fallocate(fd, mode | libc::FALLOC_FL_KEEP_SIZE, offset, bytes) } as isize).map(|_| ())
    };
    match work.command.op {
        Op::Read | Op::Write | Op::ZoneAppend => move_data(fd, work),
        // SAFETY: a valid descriptor.
        Op::Flush => checked(unsafe { libc::fdatasync(fd) } as isize).map(|_| ()),
        Op::Discard | Op::SecureErase => allocate(libc::FALLOC_FL_PUNCH_HOLE),
        Op::WriteZeroes => allocate(libc::FALLOC_FL_ZERO_RANGE),
    }
}

fn move_data(fd: i32, work: &mut Work) -> Result<(), i32> {
    let flags = if work.command.flags.contains(Flags::FUA) { libc::RWF_DSYNC } else { 0 };
    let start = work.command.sector.byte_offset();
    for span in &work.spans {
        let mut done = 0;
        while done < span.len {
            let vector = libc::iovec { iov_base: span.address.wrapping_add(done).cast(), iov_len: span.len - done };
            let at = (start + work.moved) as libc::off_t;
            // SAFETY: the span's slot counts as in flight until the completion is taken, so nobody else touches it, and
            // the memory lives as long as the slab.
            let result = unsafe {
                if work.command.op.is_write() {
                    libc::pwritev2(fd, &vector, 1, at, flags)
                } else {
                    libc::preadv2(fd, &vector, 1, at, 0)
                }
            };
            match checked(result) {
                Err(libc::EINTR) => {}
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
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
