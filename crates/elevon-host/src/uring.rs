//! Commands by io_uring: registered file and buffers, one system call for a batch and its wait.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::Duration;

use elevon_core::driver::{Accept, Command, Completion, Pieces};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::Bytes;
use io_uring::{IoUring, opcode, squeue, types};

use crate::HostFile;
use crate::buffers::{Buffers, Span};

/// Submissions gathered at most before the kernel is told.
const BATCH: usize = 64;

/// A command in the kernel.
struct InFlight {
    command: Command,
    spans: Vec<Span>,
    iovecs: Vec<libc::iovec>,
    /// Bytes moved by earlier, short tries.
    moved: u64,
}

/// The ring and what is in it.
pub(crate) struct Uring {
    ring: IoUring,
    table: Vec<InFlight>,
    free: Vec<u32>,
    in_flight: usize,
    unsubmitted: usize,
    registration: Registration,
    /// Results taken from the ring and not yet handed on.
    results: VecDeque<(u32, i32)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    /// To be tried before the next command.
    Wanted,
    Done,
    /// Refused (memory lock limit, too many): plain addresses serve as well.
    Refused,
}

impl Uring {
    pub(crate) fn new(depth: u32) -> std::io::Result<Self> {
        let entries = depth.clamp(8, 4096).next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .build(entries)
            // Kernels before 6.1 know none of these; they only save interrupts.
            .or_else(|_| IoUring::new(entries))?;
        Ok(Self {
            ring,
            table: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            unsubmitted: 0,
            registration: Registration::Wanted,
            results: VecDeque::new(),
        })
    }

    pub(crate) fn forget_registration(&mut self) {
        if self.registration == Registration::Done {
            // Nothing is in flight while buffers are prepared; an error leaves plain addresses.
            let _ = self.ring.submitter().unregister_buffers();
        }
        self.registration = Registration::Wanted;
    }

    fn register(&mut self, buffers: &Buffers) {
        self.registration = Registration::Refused;
        let Some(iovecs) = buffers.iovecs() else { return };
        // SAFETY: the slabs live as long as `Buffers`, which the host drops after the ring, and are unregistered before
        // they are replaced.
        if unsafe { self.ring.submitter().register_buffers(&iovecs) }.is_ok() {
            self.registration = Registration::Done;
        }
    }

    pub(crate) fn queue(
        &mut self,
        file: &HostFile,
        buffers: &mut Buffers,
        command: &Command,
        pieces: &dyn Pieces,
    ) -> Accept {
        if self.registration == Registration::Wanted {
            self.register(buffers);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.table.push(InFlight { command: *command, spans: Vec::new(), iovecs: Vec::new(), moved: 0 });
            (self.table.len() - 1) as u32
        });
        let entry = &mut self.table[key as usize];
        entry.command = *command;
        entry.moved = 0;
        entry.spans.clear();
        if command.op.has_data() {
            let is_read = command.op == Op::Read;
            pieces.for_each(&mut |piece| buffers.start(&piece, is_read, &mut entry.spans));
        }
        self.in_flight += 1;
        self.push(file, key);
        Accept::Ok
    }

    /// Puts what is left of a command on the submission queue.
    fn push(&mut self, file: &HostFile, key: u32) {
        let sqe = self.table[key as usize].sqe(file, self.registration == Registration::Done).user_data(u64::from(key));
        // SAFETY: the buffers stay where they are until the completion (their slots count as in flight), and the iovecs
        // live in the table entry, whose key is not used again before that.
        while unsafe { self.ring.submission().push(&sqe) }.is_err() {
            // The queue is full: hand it over. An error here shows again at the next wait.
            let _ = self.ring.submit();
            self.unsubmitted = 0;
        }
        self.unsubmitted += 1;
        if self.unsubmitted >= BATCH {
            let _ = self.ring.submit();
            self.unsubmitted = 0;
        }
    }

    pub(crate) fn poll(&mut self, file: &HostFile, buffers: &mut Buffers) -> Option<Completion> {
        loop {
            if self.results.is_empty() {
                self.results.extend(self.ring.completion().map(|cqe| (cqe.user_data() as u32, cqe.result())));
            }
            let (key, result) = self.results.pop_front()?;
            let entry = &mut self.table[key as usize];
            let status = match entry.settle(result) {
                Settled::Again => {
                    self.push(file, key);
                    continue;
                }
                Settled::Over(status) => status,
            };
            for span in &entry.spans {
                buffers.finish(span, entry.command.op == Op::Read);
            }
            let bytes = if status.is_ok() { entry.command.bytes } else { Bytes::new(entry.moved) };
            let completion = Completion::of(&entry.command, status, bytes);
            self.free.push(key);
            self.in_flight -= 1;
            return Some(completion);
        }
    }

    /// Hands over what was gathered and waits for a completion or the time; false where neither can come.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> bool {
        self.unsubmitted = 0;
        if !self.results.is_empty() {
            let _ = self.ring.submit();
            return true;
        }
        // ETIME, EINTR and EBUSY only mean that there is nothing to reap yet.
        let _ = match limit {
            None if self.in_flight == 0 => return false,
            None => self.ring.submit_and_wait(1),
            Some(limit) => {
                let timespec = types::Timespec::new().sec(limit.as_secs()).nsec(limit.subsec_nanos());
                let args = types::SubmitArgs::new().timespec(&timespec);
                // One is wanted even where there is no time: the kernel posts completions only to who waits for them.
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        true
    }
}

enum Settled {
    /// Not over: the rest has to be submitted.
    Again,
    Over(Status),
}

impl InFlight {
    /// What a result means: done, failed, or short and to be continued.
    fn settle(&mut self, result: i32) -> Settled {
        match result {
            _ if result == -libc::EAGAIN || result == -libc::EINTR => Settled::Again,
            _ if result < 0 => Settled::Over(Status::from_errno(-result)),
            _ if !self.command.op.has_data() => Settled::Over(Status::Ok),
            // Nothing more to be had before the end: the file is shorter than it was.
            0 => Settled::Over(Status::IoError),
            _ => {
                self.moved += u64::from(result.unsigned_abs());
                if self.moved >= self.command.bytes.get() { Settled::Over(Status::Ok) } else { Settled::Again }
            }
        }
    }

    fn sqe(&mut self, file: &HostFile, registered: bool) -> squeue::Entry {
        let fd = types::Fd(file.file.as_raw_fd());
        let offset = self.command.sector.byte_offset() + self.moved;
        match self.command.op {
            Op::Read | Op::Write | Op::ZoneAppend => self.data_sqe(fd, offset, registered),
            Op::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Op::Discard | Op::SecureErase => opcode::Fallocate::new(fd, self.command.bytes.get())
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            Op::WriteZeroes => opcode::Fallocate::new(fd, self.command.bytes.get())
                .offset(offset)
                .mode(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
        }
    }

    fn data_sqe(&mut self, fd: types::Fd, offset: u64, registered: bool) -> squeue::Entry {
        let write = self.command.op.is_write();
        let flags = if self.command.flags.contains(Flags::FUA) { libc::RWF_DSYNC } else { 0 };
        if let [span] = self.spans[..] {
            let moved = self.moved as usize;
            let address = span.address.wrapping_add(moved);
            let len = (span.len - moved) as u32;
            return match (write, registered && !span.is_of_frames()) {
                (false, true) => opcode::ReadFixed::new(fd, address, len, span.slab).offset(offset).build(),
                (false, false) => opcode::Read::new(fd, address, len).offset(offset).build(),
                (true, true) => {
                    opcode::WriteFixed::new(fd, address, len, span.slab).offset(offset).rw_flags(flags).build()
                }
                (true, false) => opcode::Write::new(fd, address, len).offset(offset).rw_flags(flags).build(),
            };
        }
        self.iovecs.clear();
        let mut skip = self.moved as usize;
        for span in &self.spans {
            let cut = skip.min(span.len);
            skip -= cut;
            if cut < span.len {
                let base = span.address.wrapping_add(cut);
                self.iovecs.push(libc::iovec { iov_base: base.cast(), iov_len: span.len - cut });
            }
        }
        let (vectors, count) = (self.iovecs.as_ptr(), self.iovecs.len() as u32);
        if write {
            opcode::Writev::new(fd, vectors, count).offset(offset).rw_flags(flags).build()
        } else {
            opcode::Readv::new(fd, vectors, count).offset(offset).build()
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Buffers outlive the ring, but not commands: wait for what is still in flight, a second at the most.
        let until = std::time::Instant::now() + Duration::from_secs(1);
        while self.in_flight > self.results.len() && std::time::Instant::now() < until {
            self.wait(Some(Duration::from_millis(50)));
            self.results.extend(self.ring.completion().map(|cqe| (cqe.user_data() as u32, cqe.result())));
        }
    }
}
