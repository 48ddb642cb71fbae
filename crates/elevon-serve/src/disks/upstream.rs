//! A disk of another NBD server as a device: the stack stands before it as before a file.
//!
//! The device's thread hands requests to a thread that sends them ([`link`]), and takes answers
//! from those that receive. If the connections are lost, they are made again. What was in flight
//! is held until then and sent again, for as long as [`Upstream::hold`] says, or fails.
//!
//! What was answered and not flushed may be lost together with a connection, since the server may
//! have been started again. So it is kept ([`unflushed`]), and sent again before anything else. If
//! not all of it was kept, no later flush succeeds, as after one that failed.
//!
//! Sending again changes nothing that a client has seen: changes of the same bytes are sent one
//! after the other, so that what is sent again was never overwritten by an answered change.

mod address;
mod allocation;
mod backoff;
mod claim;
mod connection;
mod held;
mod link;
mod unflushed;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use elevon_cache::FrameId;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Accept, Command, Completion, Driver, Piece, Pieces, TimeoutAction};
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, PAGE_SIZE, SECTOR_SIZE, Sectors, TaskId};
use elevon_engine::Backend;
use elevon_host::interrupt::Interrupt;
use elevon_host::{Alarm, Promises};
use elevon_nbd::{Command as NbdCommand, Remote};

use crate::disks::simulated::{Clock, RealClock};
use crate::disks::slots::Slots;
use crate::disks::{Allocation, Disk};
use crate::log::Level;
use crate::request::Extent;
use held::{Away, Held};
use link::{Answer, Link};
use unflushed::{Change, Unflushed};

pub use address::{UpstreamAddress, UpstreamAddressError, UpstreamTls};
pub use claim::UpstreamClaim;
pub use link::UpstreamError;

/// Requests in flight at the server.
const DEPTH: u32 = 128;
/// The most sectors of a request without data: 2 GiB.
const PLAIN: Sectors = Sectors::new(1 << 22);
/// The most bytes that are asked about at once, a multiple of every block size. A client that asks
/// about more asks again.
const STATUS: u64 = 1 << 31;
/// The bit by which questions about the allocation differ from commands.
const QUESTION: u64 = 1 << 63;
/// The bit of changes that are sent again.
const AGAIN: u64 = 1 << 62;
/// After this time without an answer to a question the server is taken for lost.
const QUESTION_TIME: Nanos = Nanos::from_secs(30);

/// Lines about the connections, which are kept until a caller tells them.
const NEWS: usize = 16;

/// A request that the server has not answered.
struct Flight {
    command: Command,
    pieces: Vec<Piece>,
    held: Held,
    /// The last change that was answered when a flush was sent.
    answered: u64,
    /// The server had its time to answer.
    is_overdue: bool,
}

/// A question about the allocation that has no answer.
struct Question {
    asked: Instant,
    held: Held,
}

/// A disk of another server.
pub struct Upstream {
    clock: RealClock,
    interrupt: Interrupt,
    /// True if another thread may ring the clock's alarm.
    is_called: bool,
    remote: Remote,
    address: String,
    /// Keeps other servers of this machine from writing it.
    claim: Option<UpstreamClaim>,
    link: Link,
    /// Why no request reaches the server, if that is so.
    failure: Option<String>,
    /// What became of the connections, to be told; no more than [`NEWS`] lines.
    news: VecDeque<(Level, String)>,
    answers: Receiver<Answer>,
    /// What the server has not answered, by the sequence numbers of commands.
    flights: BTreeMap<u64, Flight>,
    /// Questions about the allocation, by their numbers.
    questions: BTreeMap<u64, Question>,
    next_question: u64,
    /// The answers that were not taken.
    found: VecDeque<(u64, Result<Vec<Extent>, Status>)>,
    /// What people should know.
    notes: Vec<String>,
    slots: Slots,
    promises: Promises,
    unflushed: Unflushed,
    away: Away,
    /// Requests that failed without an answer.
    failed: VecDeque<u64>,
    /// The requests that wait until the connections are made anew.
    reopening: Vec<Sender<Result<(), String>>>,
}

impl Upstream {
    /// The largest blocks that the protocol allows.
    pub const LARGEST_BLOCKS: u32 = 64 << 10;

    /// Connects to a server and opens the export. Its blocks may have up to `largest_blocks` bytes:
    /// a page, unless all that the caller submits are multiples of [`Self::block`].
    ///
    /// # Errors
    /// The server is not there, or does not open the export, or its blocks are larger, or it takes
    /// less than a page at a time.
    pub fn open(
        address: &UpstreamAddress,
        largest_blocks: u32,
        interrupt: Interrupt,
    ) -> Result<Self, UpstreamError> {
        let mut clock = RealClock::new().map_err(UpstreamError::Machine)?;
        let alarm = clock.alarm().map_err(UpstreamError::Machine)?;
        let (link, remote, answers, notes) = Link::open(address.clone(), alarm)?;
        let (export, Remote { block, payload, size, .. }) = (address.to_string(), remote);
        if block > largest_blocks {
            return Err(UpstreamError::Blocks { export, block, most: largest_blocks });
        }
        if u64::from(payload) < PAGE_SIZE {
            return Err(UpstreamError::Payload { export, payload });
        }
        let block = block.max(SECTOR_SIZE as u32);
        if size < block.into() {
            return Err(UpstreamError::Small { export, bytes: size, block });
        }
        let tail = size % u64::from(block);
        let note =
            format!("{export}: its last {tail} bytes fill no block of {block} and are left alone");
        let notes = notes.into_iter().chain((tail > 0).then_some(note)).collect();
        Ok(Self {
            clock,
            interrupt,
            is_called: false,
            remote,
            address: address.to_string(),
            claim: None,
            link,
            failure: None,
            news: VecDeque::new(),
            answers,
            flights: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_question: QUESTION,
            found: VecDeque::new(),
            notes,
            slots: Slots::default(),
            promises: Promises::default(),
            unflushed: Unflushed::default(),
            away: Away::default(),
            failed: VecDeque::new(),
            reopening: Vec::new(),
        })
    }

    /// Keeps a claim of the disk until it is closed.
    pub fn keep(&mut self, claim: UpstreamClaim) {
        self.claim = Some(claim);
    }

    /// Holds what is asked of the disk for so long after the connections were lost, in place of
    /// letting it fail at once.
    pub const fn hold(&mut self, time: Nanos) {
        self.away.most = time;
    }

    /// Returns what the server says of the disk.
    pub const fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns what people should know: that there are fewer connections than wanted.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns how many requests are at the server at a time.
    pub const fn queue_depth(&self) -> u32 {
        DEPTH
    }

    /// Returns the bytes of its blocks: at least those of a sector.
    pub fn block(&self) -> u32 {
        self.remote.block.max(SECTOR_SIZE as u32)
    }

    /// Returns the limits of a queue before it. A queue has logical blocks of up to a page; it
    /// splits requests at the ends of physical ones, so that larger blocks of the server stay whole
    /// if whole ones are submitted.
    pub fn limits(&self) -> QueueLimits {
        let Remote { preferred, payload, .. } = self.remote;
        let block = self.block();
        let if_has = |has: bool| if has { PLAIN } else { Sectors::ZERO };
        QueueLimits {
            logical_block_size: block.min(PAGE_SIZE as u32),
            physical_block_size: preferred.min(4096).max(block),
            max_hw_sectors: Bytes::new(u64::from(payload.min(elevon_nbd::Export::PAYLOAD)))
                .sectors_floor(),
            max_segments: 1024,
            max_segment_size: u32::MAX,
            seg_boundary_mask: u64::MAX,
            max_hw_discard_sectors: if_has(self.remote.trim),
            discard_granularity: if self.remote.trim { block } else { 0 },
            max_write_zeroes_sectors: if_has(self.remote.write_zeroes),
            // Without a cache a stack drops FUA.
            write_cache: self.remote.flush || self.remote.fua,
            fua: self.remote.fua,
            rotational: self.remote.rotational,
            nowait: false,
            ..QueueLimits::default()
        }
    }

    fn add_news(&mut self, level: Level, message: String) {
        if self.news.len() < NEWS {
            self.news.push_back((level, message));
        }
    }

    /// Ends a request that the server has answered, or that was lost, with the bytes that came of a
    /// READ.
    fn end(&mut self, flight: &Flight, status: Status, data: &[u8]) -> Completion {
        let command = &flight.command;
        let mut rest = data;
        for piece in flight.pieces.iter().filter(|_| command.op == Op::Read) {
            let length = rest.len().min(piece.len as usize);
            self.slots.for_each_part(piece, 0, length as u64, |part| {
                let (bytes, others) = rest.split_at(part.len());
                part.copy_from_slice(bytes);
                rest = others;
            });
        }
        if status.is_ok() && self.remote.flush {
            match command.op {
                Op::Flush => self.unflushed.flush(flight.answered),
                Op::Read => {}
                _ => self.unflushed.push(flight.held.change.clone()),
            }
        }
        // What came before the byte that failed is good for those whose bytes it is.
        let bytes = if status.is_ok() { command.bytes } else { Bytes::new(data.len() as u64) };
        Completion::from_command(command, self.promises.settle(command, status), bytes)
    }

    /// Ends a request that has no answer. Of a flush, and of a write with FUA, it does not say that
    /// something was lost.
    fn fail(&mut self, flight: &Flight) -> Completion {
        Completion::from_command(&flight.command, Status::IoError, Bytes::ZERO)
    }

    /// Takes the answer to a request, unless it is about one that is sent again.
    fn on_answer(&mut self, cookie: u64, status: Status, data: &[u8]) -> Option<Completion> {
        if cookie & AGAIN != 0 {
            self.on_sent_again(cookie, status);
            return None;
        }
        let flight = self.flights.remove(&cookie)?;
        let completion = self.end(&flight, status, data);
        if flight.command.op != Op::Read && self.away.waiting > 0 {
            self.send_held();
        }
        Some(completion)
    }
}

/// Returns the request of a command.
fn request(command: &Command) -> Option<NbdCommand> {
    Some(match command.op {
        Op::Read => NbdCommand::Read,
        Op::Write => NbdCommand::Write,
        Op::Flush => NbdCommand::Flush,
        Op::Discard => NbdCommand::Trim,
        Op::WriteZeroes => NbdCommand::WriteZeroes { no_hole: false, fast: false },
        Op::SecureErase | Op::ZoneAppend => return None,
    })
}

impl Driver for Upstream {
    fn queue_command(&mut self, _now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let is_there = match command.op {
            Op::Discard => self.remote.trim,
            Op::WriteZeroes => self.remote.write_zeroes,
            // The protocol has no flag that would keep a server from tearing it.
            _ => !command.flags.contains(Flags::ATOMIC),
        };
        let Some(request) = request(command).filter(|_| is_there) else {
            return Accept::Error(Status::NotSupported);
        };
        if self.flights.len() >= DEPTH as usize {
            return Accept::DeviceBusy;
        }
        let (mut all, mut next, mut is_one_range) = (Vec::new(), command.sector, true);
        pieces.for_each(&mut |piece| {
            is_one_range &= piece.sector == next;
            next = piece.sector + Bytes::new(piece.len).sectors_floor();
            all.push(piece);
        });
        if command.op == Op::Discard && !is_one_range {
            return Accept::Error(Status::NotSupported);
        }
        let mut payload = Vec::new();
        if command.op == Op::Write {
            payload.reserve_exact(command.bytes.get() as usize);
            for piece in &all {
                self.slots
                    .for_each_part(piece, 0, piece.len, |part| payload.extend_from_slice(part));
            }
        }
        let is_flush = command.op == Op::Flush;
        let is_change = held::is_change(command.op);
        let held = Held::new(Change {
            request,
            offset: if is_flush { 0 } else { command.sector.byte_offset().get() },
            length: if is_flush { 0 } else { command.bytes.get() as u32 },
            // Nothing else makes a change durable if there is no FLUSH.
            fua: self.remote.fua
                && (command.flags.contains(Flags::FUA) || !self.remote.flush)
                && is_change,
            payload: Arc::new(payload),
        });
        let flight = Flight {
            command: *command,
            pieces: all,
            held,
            answered: self.unflushed.last(),
            is_overdue: false,
        };
        self.flights.insert(command.sequence, flight);
        if is_flush && !self.remote.flush {
            // What it answers is durable.
            self.failed.push_back(command.sequence);
        } else {
            self.send_or_hold(command.sequence);
        }
        Accept::Ok
    }

    /// A write that was not answered may have been carried out.
    fn retries(&self) -> bool {
        false
    }

    /// A server that does not answer is as good as none: the connection is cut. The request has had
    /// its time, and is not sent again.
    fn handle_timeout(&mut self, _now: Instant, command: &Command) -> TimeoutAction {
        if let Some(flight) =
            self.flights.get_mut(&command.sequence).filter(|flight| flight.held.is_sent)
        {
            flight.is_overdue = true;
            self.link.disconnect();
        }
        TimeoutAction::ResetTimer
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if !self.flights.is_empty() || !self.questions.is_empty() || self.away.since.is_some() {
            // Its thread must not wait for a server that does not answer.
            self.link.disconnect();
        }
    }
}

impl Backend for Upstream {
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.handle_time();
        loop {
            if let Some(sequence) = self.failed.pop_front() {
                let flight = self.flights.remove(&sequence).expect("it has not ended");
                let is_done = flight.command.op == Op::Flush && !self.remote.flush;
                return Some(if is_done {
                    self.end(&flight, Status::Ok, &[])
                } else {
                    self.fail(&flight)
                });
            }
            match self.answers.try_recv().ok()? {
                Answer::Of { cookie, status, extents, .. } if cookie & QUESTION != 0 => {
                    if self.questions.remove(&cookie).is_some() {
                        let block = self.block().into();
                        let found = if status.is_ok() {
                            Ok(allocation::aligned(&extents, block))
                        } else {
                            Err(status)
                        };
                        self.found.push_back((cookie, found));
                    }
                }
                Answer::Of { cookie, status, data, .. } => {
                    if let Some(completion) = self.on_answer(cookie, status, &data) {
                        return Some(completion);
                    }
                }
                Answer::Lost => self.on_lost(),
                Answer::Away(why) => self.on_away(why),
                Answer::Back { epoch, size } => self.on_back(epoch, size),
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        if !self.failed.is_empty() {
            return !self.interrupt.is_set();
        }
        if self.flights.is_empty() && until.is_none() && !self.is_called {
            return false;
        }
        let times = [until, self.next_answer_due(), self.away.ends()];
        self.clock.wait(times.into_iter().flatten().min()) && !self.interrupt.is_set()
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        let prepared = self.slots.prepare(task, slots, bytes);
        prepared.unwrap_or_else(|error| panic!("no memory for the buffers of a task: {error}"));
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.slots.slot(task, token)
    }

    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        self.slots.bind(bio, frames);
    }

    fn move_bytes(&mut self, copy: &ByteCopy) {
        self.slots.carry_out(copy);
    }
}

impl Disk for Upstream {
    fn alarm(&mut self) -> io::Result<Alarm> {
        self.is_called = true;
        self.clock.alarm()
    }

    fn allocation(&mut self, offset: u64, bytes: u64) -> Allocation {
        if !self.remote.allocation {
            return Allocation::Known(vec![Extent { length: bytes, hole: false, zero: false }]);
        }
        let cookie = self.next_question;
        self.next_question += 1;
        let length = bytes.min(STATUS) as u32;
        let request = NbdCommand::BlockStatus { one: false };
        let held =
            Held::new(Change { request, offset, length, fua: false, payload: Arc::default() });
        self.questions.insert(cookie, Question { asked: self.clock.now(), held });
        self.ask_or_hold(cookie);
        Allocation::Asked(cookie)
    }

    fn poll_allocation(&mut self) -> Option<(u64, Result<Vec<Extent>, Status>)> {
        self.found.pop_front()
    }

    /// Zeroes may become a hole at the server, so those that may not are written as data.
    fn zero(&self, no_hole: bool) -> Option<Op> {
        (!no_hole).then_some(Op::WriteZeroes)
    }

    fn zeroes_fast(&self) -> bool {
        // Its server may write them as data.
        false
    }

    fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()> {
        self.slots.prepare(task, slots, bytes)
    }

    fn empty_buffer(&mut self, task: TaskId, token: u64) {
        self.slots.empty(task, token);
    }

    fn reserve_frames(&mut self, memory: Bytes) -> io::Result<()> {
        self.slots.reserve_frames(memory);
        Ok(())
    }

    fn grown(&mut self) -> Option<Sectors> {
        Some(Bytes::new(self.remote.size).sectors_floor())
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn is_lost(&self) -> bool {
        self.promises.broken().is_some()
    }

    fn poll_news(&mut self) -> Option<(Level, String)> {
        self.news.pop_front()
    }

    fn reopen(&mut self, answer: Sender<Result<(), String>>) -> bool {
        self.promises = Promises::default();
        self.reopening.push(answer);
        self.link.reopen();
        true
    }

    fn stop(&mut self) {
        self.away.stop(self.clock.now());
    }
}
