//! Commands by io_uring: registered buffers for direct I/O if the kernel allows them, one system
//! call to submit a batch and wait.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use elevon_core::driver::{Accept, Command, Pieces};
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, TaskId};
use io_uring::{IoUring, opcode, squeue, types};

use crate::bells::{BELL, Bells};
use crate::buffers::{Buffers, Span};
use crate::busy_poll::BusyPoll;
use crate::promise::is_promise;
use crate::registered::RegisteredTable;
use crate::sockets::{Incoming, Next, Outgoing, SlotBytes, Socket, SocketEvent, SocketId};
use crate::threads::rw_flags;
use crate::{Finished, HostFile};

/// Maximum number of submissions that are collected before the kernel is called.
const BATCH: usize = 64;

/// Waits of less than this set a timer of their own.
const OWN_TIMER_BELOW: Duration = Duration::from_micros(100);

/// How often to submit a command that the kernel returns without starting it, before the command
/// counts as failed.
const TRIES: u32 = 10_000;

/// How long the thread sleeps after the kernel had no memory for what it was given.
const PAUSE: Duration = Duration::from_millis(1);

/// Key of the poll of another engine's alarm among the results; the keys of commands are their
/// indices in the table.
const ALARM: u64 = u64::MAX;

/// Keys of the timer among the results, and of what sets it to an earlier time.
const TIMER: u64 = u64::MAX - 1;
const TIMER_SET: u64 = u64::MAX - 2;

/// Key of what cancels a receive.
const CANCEL: u64 = u64::MAX - 3;

/// Added to the number of a socket these are the keys of its receive and of its send.
const RECEIVE: u64 = 1 << 32;
const SEND: u64 = 2 << 32;

/// A command in the kernel.
struct InFlight {
    command: Command,
    spans: Vec<Span>,
    iovecs: Vec<libc::iovec>,
    /// Bytes moved by earlier, short results.
    moved: u64,
    /// How often in a row it was returned with nothing done.
    tries: u32,
    /// Whether it is in the kernel; if not, its entry is free.
    is_live: bool,
}

/// The ring and its commands.
pub(crate) struct Uring {
    ring: IoUring,
    table: Vec<InFlight>,
    free: Vec<u32>,
    in_flight: usize,
    unsubmitted: usize,
    /// Entries for which the submission queue has no place, the first first: the kernel has no
    /// memory, or waits for results to be taken.
    backlog: VecDeque<squeue::Entry>,
    registered: RegisteredTable,
    /// Results taken from the ring and not yet passed on.
    results: VecDeque<(u32, i32)>,
    sockets: Vec<Option<Box<Socket>>>,
    /// Results of sockets, by key, that were taken from the ring and not yet passed on.
    of_sockets: VecDeque<(u64, i32)>,
    /// Why the ring does not work any more, if it failed.
    broken: Option<std::io::Error>,
    /// When the timer in the ring expires, if there is one.
    timer: Option<Instant>,
    /// The time until then, of which the kernel reads the address at submission.
    timespec: Box<types::Timespec>,
    /// Another engine's alarm, and whether a poll for it is in the ring.
    alarm: Option<(RawFd, bool)>,
    /// True if the alarm has rung since the last wait began: what it rang for may have come after
    /// the caller has looked for it.
    has_rung: bool,
    pub(crate) bells: Bells,
    busy_poll: BusyPoll,
    /// Calls of the kernel that are to fail with ENOMEM.
    #[cfg(test)]
    fails: u32,
}

impl Uring {
    pub(crate) fn new(depth: u32) -> std::io::Result<Self> {
        let entries = depth.clamp(8, 4096).next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries)
            // Kernels before 6.1 do not support all of these flags; they only save interrupts.
            .or_else(|_| IoUring::new(entries))?;
        Self::from_ring(ring)
    }

    /// Returns an engine with this ring.
    fn from_ring(ring: IoUring) -> std::io::Result<Self> {
        waits_with_a_limit(ring.params().is_feature_ext_arg())?;
        Ok(Self {
            ring,
            table: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            unsubmitted: 0,
            backlog: VecDeque::new(),
            registered: RegisteredTable::default(),
            results: VecDeque::new(),
            sockets: Vec::new(),
            of_sockets: VecDeque::new(),
            broken: None,
            timer: None,
            timespec: Box::default(),
            alarm: None,
            has_rung: false,
            bells: Bells::default(),
            busy_poll: BusyPoll::new(Duration::ZERO),
            #[cfg(test)]
            fails: 0,
        })
    }

    /// Returns why the ring does not work any more, if it failed. Its commands ended with
    /// [`Status::Offline`], and the kernel may still be working on them.
    pub(crate) const fn failure(&self) -> Option<&std::io::Error> {
        self.broken.as_ref()
    }

    /// From now on waits begin with polling for so long, while that finds results.
    pub(crate) const fn busy_poll(&mut self, window: Duration) {
        self.busy_poll = BusyPoll::new(window);
    }

    /// From now on a wait also ends when this eventfd becomes readable. The eventfd is reset then.
    pub(crate) const fn watch(&mut self, alarm: RawFd) {
        self.alarm = Some((alarm, false));
    }

    /// The memory of a task's buffers, or of one of them, is about to change: they are not
    /// registered any more. None of their commands is in flight.
    pub(crate) fn unregister(&mut self, buffers: &mut Buffers, task: TaskId, token: Option<u64>) {
        let submitter = self.ring.submitter();
        buffers
            .unregister(task, token)
            .for_each(|index| self.registered.release(&submitter, index));
    }

    pub(crate) fn queue(
        &mut self,
        file: &HostFile,
        buffers: &mut Buffers,
        command: &Command,
        pieces: &dyn Pieces,
    ) -> Accept {
        if self.broken.is_some() {
            return Accept::Error(Status::Offline);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            let (spans, iovecs) = (Vec::new(), Vec::new());
            self.table.push(InFlight {
                command: *command,
                spans,
                iovecs,
                moved: 0,
                tries: 0,
                is_live: false,
            });
            (self.table.len() - 1) as u32
        });
        let entry = &mut self.table[key as usize];
        entry.command = *command;
        (entry.moved, entry.tries, entry.is_live) = (0, 0, true);
        entry.spans.clear();
        if command.op.has_data() {
            let is_read = command.op == Op::Read;
            pieces.for_each(&mut |piece| buffers.start(&piece, is_read, &mut entry.spans));
            // An entry is one range of memory. What is not direct is copied, for which the kernel
            // looks no pages up.
            if let (true, [span]) = (file.is_direct, &mut entry.spans[..]) {
                let (table, ring) = (&mut self.registered, self.ring.submitter());
                // SAFETY: the buffer is there until `unregister`, or until the ring was dropped.
                buffers.register(span, |known, start, bytes| unsafe {
                    table.cover(&ring, known, start, bytes)
                });
            }
        }
        self.in_flight += 1;
        self.push(file, key);
        Accept::Ok
    }

    /// Puts the rest of a command on the submission queue.
    fn push(&mut self, file: &HostFile, key: u32) {
        let sqe = self.table[key as usize].sqe(file).user_data(u64::from(key));
        self.push_entry(&sqe);
    }

    /// Puts an entry on the submission queue. If that is full, it is submitted first. An entry for
    /// which there is no place even then is submitted by a later call.
    fn push_entry(&mut self, sqe: &squeue::Entry) {
        if self.backlog.is_empty() && self.places(sqe) {
            if self.unsubmitted >= BATCH {
                self.submit();
            }
            return;
        }
        self.backlog.push_back(sqe.clone());
        self.submit();
    }

    /// Puts an entry on the submission queue. Returns false if that is full.
    fn places(&mut self, sqe: &squeue::Entry) -> bool {
        // SAFETY: the buffers stay where they are until the completion (their slots count as in
        // flight), and the iovecs live in the table entry, whose key is not used again before
        // that.
        let is_placed = unsafe { self.ring.submission().push(sqe) }.is_ok();
        self.unsubmitted += usize::from(is_placed);
        is_placed
    }

    /// Submits what was collected, as far as the kernel takes it.
    fn submit(&mut self) {
        loop {
            self.unsubmitted = 0;
            let result = self.enter_kernel(|ring| ring.submit());
            self.note(result);
            if !self.refill() {
                return;
            }
        }
    }

    /// Puts entries of the backlog on the submission queue. Returns false if there was no place, or
    /// no entry.
    fn refill(&mut self) -> bool {
        let mut any = false;
        while let Some(sqe) = self.backlog.pop_front() {
            if !self.places(&sqe) {
                self.backlog.push_front(sqe);
                break;
            }
            any = true;
        }
        any
    }

    /// Calls the kernel.
    fn enter_kernel(
        &mut self,
        call: impl FnOnce(&IoUring) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        #[cfg(test)]
        if self.fails > 0 {
            self.fails -= 1;
            return Err(std::io::Error::from_raw_os_error(libc::ENOMEM));
        }
        call(&self.ring)
    }

    /// Records a permanent error as the failure of the ring. Returns true if the kernel took
    /// nothing for now: it has no memory, or results have to be taken first.
    fn note(&mut self, result: std::io::Result<usize>) -> bool {
        const PASSING: [i32; 5] =
            [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
        let Err(error) = result else { return false };
        let errno = error.raw_os_error().unwrap_or_default();
        if !PASSING.contains(&errno) {
            self.broken.get_or_insert(error);
        }
        matches!(errno, libc::EBUSY | libc::EAGAIN | libc::ENOMEM)
    }

    /// Takes results out of the ring.
    fn reap(&mut self) {
        let (results, alarm, bells) = (&mut self.results, &mut self.alarm, &mut self.bells);
        for cqe in self.ring.completion() {
            match cqe.user_data() {
                ALARM => {
                    if let Some((fd, is_watched)) = alarm {
                        *is_watched = false;
                        self.has_rung = true;
                        crate::alarm::reset(*fd);
                    }
                }
                TIMER => self.timer = None,
                // A timer that has expired meanwhile has a result of its own.
                TIMER_SET => {}
                // A receive that is cancelled, or has ended meanwhile, says so itself.
                CANCEL => {}
                key @ BELL.. => bells.on_polled((key & u64::from(u32::MAX)) as u32),
                key @ RECEIVE.. => self.of_sockets.push_back((key, cqe.result())),
                key => results.push_back((key as u32, cqe.result())),
            }
        }
    }

    /// Takes a bell out of the ring.
    pub(crate) fn remove_bell(&mut self, number: u32) {
        if let Some(entry) = self.bells.remove(number) {
            self.push_entry(&entry.user_data(CANCEL));
        }
    }

    /// Returns the next bell that has rung.
    pub(crate) fn poll_bell(&mut self) -> Option<u32> {
        if !self.bells.has_rung() {
            self.reap();
        }
        self.bells.poll()
    }

    pub(crate) fn poll(&mut self, file: &HostFile, buffers: &mut Buffers) -> Option<Finished> {
        loop {
            if self.results.is_empty() {
                self.reap();
            }
            let Some((key, result)) = self.results.pop_front() else { return self.give_up() };
            let entry = &mut self.table[key as usize];
            let status = match entry.settle(result) {
                Settled::Again => {
                    self.push(file, key);
                    continue;
                }
                Settled::Finished(status) => status,
            };
            for span in &entry.spans {
                buffers.finish(span, entry.command.op == Op::Read);
            }
            let bytes = if status.is_ok() { entry.command.bytes } else { Bytes::new(entry.moved) };
            entry.is_live = false;
            let command = entry.command;
            self.free.push(key);
            self.in_flight -= 1;
            return Some(Finished { command, status, bytes });
        }
    }

    /// With a failed ring: returns the next command whose result will never arrive. Its memory
    /// stays in flight, and its entry is not used again: the kernel may still be working on it.
    fn give_up(&mut self) -> Option<Finished> {
        self.broken.as_ref()?;
        let entry = self.table.iter_mut().find(|entry| entry.is_live)?;
        entry.is_live = false;
        self.in_flight -= 1;
        Some(Finished { command: entry.command, status: Status::Offline, bytes: Bytes::ZERO })
    }

    /// Adds a stream socket.
    pub(crate) fn add_socket(&mut self, fd: OwnedFd) -> SocketId {
        let free = self.sockets.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sockets.push(None);
            self.sockets.len() - 1
        });
        self.sockets[free] = Some(Socket::new(fd));
        SocketId(free as u32)
    }

    /// Ends both directions of a socket.
    pub(crate) fn shut_socket(&mut self, id: SocketId) {
        self.socket(id).shut();
    }

    /// Returns true if the peer of a socket has closed it in both directions.
    pub(crate) fn has_hung_up(&mut self, id: SocketId) -> bool {
        self.socket(id).has_hung_up()
    }

    pub(crate) fn unread(&mut self, id: SocketId) -> u64 {
        self.socket(id).unread()
    }

    pub(crate) fn clone_socket(&mut self, id: SocketId) -> std::io::Result<OwnedFd> {
        self.socket(id).clone_fd()
    }

    /// Returns the descriptor of a socket, which has nothing in the ring, and forgets it.
    pub(crate) fn remove_socket(&mut self, id: SocketId) -> OwnedFd {
        let socket = self.sockets[id.0 as usize].take().expect("a socket of the ring");
        assert_eq!(socket.in_flight(), 0, "a socket is removed once nothing of it is in the ring");
        socket.into_fd()
    }

    pub(crate) fn receive(
        &mut self,
        id: SocketId,
        incoming: Incoming,
        slots: &[SlotBytes],
        buffers: &mut Buffers,
    ) {
        let sqe = self.socket(id).receive(incoming, slots, buffers);
        self.push_entry(&sqe.user_data(RECEIVE | u64::from(id.0)));
    }

    pub(crate) fn cancel_receive(&mut self, id: SocketId) {
        let receive = RECEIVE | u64::from(id.0);
        self.push_entry(&opcode::AsyncCancel::new(receive).build().user_data(CANCEL));
    }

    pub(crate) fn send(&mut self, id: SocketId, outgoing: Outgoing, buffers: &mut Buffers) {
        let sqe = self.socket(id).send(outgoing, buffers);
        self.push_entry(&sqe.user_data(SEND | u64::from(id.0)));
    }

    fn socket(&mut self, id: SocketId) -> &mut Socket {
        self.sockets[id.0 as usize].as_mut().expect("a socket of the ring")
    }

    /// Returns the next thing that has happened to a socket.
    pub(crate) fn poll_socket(&mut self, buffers: &mut Buffers) -> Option<SocketEvent> {
        loop {
            if self.of_sockets.is_empty() {
                self.reap();
            }
            let Some((key, result)) = self.of_sockets.pop_front() else { break };
            let id = SocketId(key as u32);
            let is_send = key & SEND != 0;
            let socket = self.socket(id);
            let next = if is_send {
                socket.on_sent(id, result, buffers)
            } else {
                socket.on_received(id, result, buffers)
            };
            match next {
                Next::Again(sqe) => self.push_entry(&sqe.user_data(key)),
                Next::Event(event) => return Some(event),
            }
        }
        self.broken.as_ref()?;
        let sockets = self.sockets.iter_mut().enumerate();
        sockets.filter_map(|(id, socket)| socket.as_mut()?.give_up(SocketId(id as u32))).next()
    }

    /// Returns how many entries of sockets are in the ring.
    fn in_sockets(&self) -> usize {
        self.sockets.iter().flatten().map(|socket| socket.in_flight()).sum()
    }

    /// Submits what was collected and waits for a completion, the alarm or the time limit. Returns
    /// false if none can occur. `others`: whether the alarm may occur.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, others: bool) -> bool {
        if let Some((fd, is_watched @ false)) = &mut self.alarm {
            *is_watched = true;
            let sqe =
                opcode::PollAdd::new(types::Fd(*fd), libc::POLLIN as u32).build().user_data(ALARM);
            self.push_entry(&sqe);
        }
        for poll in self.bells.take_polls() {
            self.push_entry(&poll);
        }
        // Without DEFER_TASKRUN an entry of the alarm may be taken at any time, also after the
        // caller has looked for what it rang for.
        let has_rung = std::mem::take(&mut self.has_rung);
        let has_results = !(self.results.is_empty() && self.of_sockets.is_empty());
        if has_rung || has_results || self.bells.has_rung() {
            self.submit();
            return true;
        }
        if self.broken.is_some() {
            return self.in_flight + self.in_sockets() > 0 || self.wait_without_ring(limit, others);
        }
        if limit.is_none() && self.in_flight == 0 && !others {
            return false;
        }
        let began = Instant::now();
        if let Some(window) = self.busy_poll.window(limit) {
            if !self.ring.submission().is_empty() {
                self.submit();
            }
            let has_found = self.finds_result(began, window);
            self.busy_poll.record_poll(has_found);
            // A result that is there needs no call. What is only marked does, and would wait for
            // long if there always were another result.
            if self.ring.completion().is_empty() || self.ring.submission().taskrun() {
                self.sleep(limit);
            }
        } else {
            self.sleep(limit);
            self.busy_poll.record_sleep(began.elapsed());
        }
        true
    }

    /// Waits for the alarm or the time limit once the ring has failed. Returns false if neither can
    /// come.
    fn wait_without_ring(&self, limit: Option<Duration>, others: bool) -> bool {
        match (self.alarm, limit) {
            (Some((fd, _)), _) if others => crate::alarm::wait(fd, limit),
            (_, Some(limit)) => std::thread::sleep(limit),
            _ => return false,
        }
        true
    }

    /// Polls for a result, for so long. The kernel only marks that there is one: it posts the
    /// completion when the thread enters the kernel.
    fn finds_result(&mut self, began: Instant, window: Duration) -> bool {
        while !self.ring.submission().taskrun() && self.ring.completion().is_empty() {
            if began.elapsed() >= window {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Submits what was collected, and sleeps until there is a result, or for so long.
    fn sleep(&mut self, limit: Option<Duration>) {
        let sets_no_timer = limit.filter(|limit| !self.sets_timer(*limit));
        self.unsubmitted = 0;
        let result = match sets_no_timer {
            Some(limit) => self.enter(limit),
            None if self.backlog.is_empty() => self.enter_kernel(|ring| ring.submit_and_wait(1)),
            // A part of it only can be submitted now; the rest follows what is done.
            None => self.enter(PAUSE),
        };
        if self.note(result) {
            std::thread::sleep(PAUSE);
        }
        self.refill();
    }

    /// Makes sure that a result comes after this time at the latest, by one timer that stays in the
    /// ring for later waits. Most limits are put off again and again (the idling of a scheduler,
    /// the timeout of a command). To set a timer of the machine for each wait costs more than the
    /// I/O. Returns false for a time that is not worth it. A wait may end before its limit.
    fn sets_timer(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        if self.timer.is_some_and(|timer| timer <= until) {
            return true;
        }
        if limit < OWN_TIMER_BELOW {
            return false;
        }
        *self.timespec = types::Timespec::new().sec(limit.as_secs()).nsec(limit.subsec_nanos());
        let timespec = &raw const *self.timespec;
        let sqe = match self.timer.replace(until) {
            None => opcode::Timeout::new(timespec).build().user_data(TIMER),
            Some(_) => opcode::TimeoutUpdate::new(TIMER, timespec).build().user_data(TIMER_SET),
        };
        self.push_entry(&sqe);
        true
    }

    /// Submits what was collected, and waits for a result for so long. A result is requested even
    /// if there is no time to wait: the kernel posts completions only to a task that waits for
    /// them.
    fn enter(&mut self, limit: Duration) -> std::io::Result<usize> {
        let timespec = types::Timespec::new().sec(limit.as_secs()).nsec(limit.subsec_nanos());
        self.enter_kernel(|ring| {
            ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&timespec))
        })
    }
}

/// Refuses a ring without time limits for waits (kernels before 5.11): timers would be late, or
/// never expire.
fn waits_with_a_limit(has_ext_arg: bool) -> std::io::Result<()> {
    let words = "a wait cannot have a time limit before Linux 5.11";
    if has_ext_arg {
        Ok(())
    } else {
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, words))
    }
}

enum Settled {
    /// The command is not finished: the rest has to be submitted.
    Again,
    Finished(Status),
}

impl InFlight {
    /// Evaluates a result: done, failed, or short and to be continued.
    fn settle(&mut self, result: i32) -> Settled {
        match result {
            _ if [-libc::EAGAIN, -libc::EINTR, -libc::ENOMEM].contains(&result) => {
                // Nothing was done. A flush or FUA write is still not retried: the error that it
                // would have reported may be lost.
                self.tries += 1;
                let is_final = is_promise(&self.command) || self.tries >= TRIES;
                if is_final {
                    Settled::Finished(Status::from_errno(-result))
                } else {
                    Settled::Again
                }
            }
            _ if result < 0 => Settled::Finished(Status::from_errno(-result)),
            _ if !self.command.op.has_data() => Settled::Finished(Status::Ok),
            // The end of the file was reached: the file is shorter than before.
            0 => Settled::Finished(Status::IoError),
            _ => {
                self.tries = 0;
                self.moved += u64::from(result.unsigned_abs());
                if self.moved >= self.command.bytes.get() {
                    Settled::Finished(Status::Ok)
                } else {
                    Settled::Again
                }
            }
        }
    }

    fn sqe(&mut self, file: &HostFile) -> squeue::Entry {
        let (file, offset) = file.part_at(self.command.sector);
        let (fd, offset) = (types::Fd(file.file.as_raw_fd()), offset + self.moved);
        match self.command.op {
            Op::Read | Op::Write | Op::ZoneAppend => self.data_sqe(fd, offset),
            Op::Flush => opcode::Fsync::new(types::Fd(file.flush_file.as_raw_fd()))
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
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

    fn data_sqe(&mut self, fd: types::Fd, offset: u64) -> squeue::Entry {
        let write = self.command.op.is_write();
        let flags = rw_flags(&self.command);
        if let [span] = self.spans[..] {
            let moved = self.moved as usize;
            let address = span.address.wrapping_add(moved);
            let len = (span.len - moved) as u32;
            return match (write, span.registered) {
                (false, Some(index)) => {
                    opcode::ReadFixed::new(fd, address, len, index).offset(offset).build()
                }
                (false, None) => opcode::Read::new(fd, address, len).offset(offset).build(),
                (true, Some(index)) => opcode::WriteFixed::new(fd, address, len, index)
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
                (true, None) => {
                    opcode::Write::new(fd, address, len).offset(offset).rw_flags(flags).build()
                }
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
        // Buffers outlive the ring, but not what is in flight: wait for that, at most a second.
        self.sockets.iter().flatten().for_each(|socket| socket.shut());
        let until = Instant::now() + Duration::from_secs(1);
        let in_ring = |ring: &Self| {
            ring.in_flight + ring.in_sockets() > ring.results.len() + ring.of_sockets.len()
        };
        while self.broken.is_none() && in_ring(self) && Instant::now() < until {
            let result = self.enter(Duration::from_millis(50));
            self.note(result);
            self.reap();
        }
        // The kernel may still be using the memory of what is left.
        self.sockets
            .drain(..)
            .flatten()
            .filter(|socket| socket.in_flight() > 0)
            .for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests;
