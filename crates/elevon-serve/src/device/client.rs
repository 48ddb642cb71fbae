//! A client of a device: what it sends, its requests, the buffers that these use, and its replies.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId};
use elevon_host::{Incoming, Outgoing};

use crate::device::backpressure::{Amount, Backpressure, IN_FLIGHT};
use crate::device::pieces::{MOST_BUFFERS, Part, Pieces};
use crate::device::request_memory::{Holding, RequestMemory};
use crate::net::export::Charged;
use crate::net::line::{EndNotice, Line};
use crate::net::protocol::{Answer, Protocol};
use crate::net::tls::Identity;
use crate::request::{DiskRequest, Operation};

/// Buffers of a client on a device, each of [`super::pieces::PART`] bytes. They exist from its
/// first request on, and take memory once they are used. READs and payloads leave one of them free,
/// so that what changes something without a payload always finds one: others may wait for its end.
/// They are enough for the longest request, and for as many as may be in flight.
pub(crate) const BUFFERS: u32 = MOST_BUFFERS + 1;
const _: () = assert!(BUFFERS > IN_FLIGHT);

/// Bytes of answers without data that may wait to be sent, beyond which nothing more is read: a
/// client cannot have the server keep refusals that it does not take.
const ANSWERS: usize = 64 << 10;

/// What becomes of a request that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is let in.
    Granted,
    /// It waits for others of its client.
    Later,
    /// There is too little memory for it, which other clients may have.
    NoMemory,
}

/// A client.
pub(crate) struct Client {
    /// The number of its connection.
    pub(crate) number: u32,
    pub(crate) identity: Arc<Identity>,
    pub(crate) task: TaskId,
    /// The name of the export that it has open.
    pub(crate) export: String,
    pub(crate) charged: Charged,
    pub(crate) protocol: Box<dyn Protocol>,
    /// Bytes of a block of the device.
    pub(crate) block: u64,
    pub(crate) line: Line,
    pub(crate) left: EndNotice,
    /// Bytes that came; `None` while more are received.
    pub(crate) input: Option<Incoming>,
    /// A request that waits for room or for buffers.
    pub(crate) held: Option<DiskRequest>,
    /// The WRITE whose payload is being received, and how much of it came.
    pub(crate) payload: Option<(usize, u64)>,
    pub(crate) backpressure: Backpressure,
    /// The memory of its buffers.
    holding: Holding,
    /// What is to be sent next, and the requests that it answers.
    pub(crate) out: Outgoing,
    pub(crate) out_amount: Amount,
    /// The requests that are answered by what is being sent.
    pub(crate) sending: Option<Amount>,
    /// Memory for what is sent after that.
    pub(crate) spare: Outgoing,
    /// True if its buffers exist.
    pub(crate) has_buffers: bool,
    /// True if they were used since [`Self::idles`] was asked the last time.
    pub(crate) uses_buffers: bool,
    /// Looks at it ([`Self::look`]) since a reply was sent while one waited to be, and since a part
    /// of a payload came while more of it had to.
    pub(crate) looks_without_reply: u32,
    pub(crate) looks_without_payload: u32,
    /// True if it is among those to be looked at.
    pub(crate) is_queued: bool,
    /// Bytes that came before it was asked to end and are still to be received; `None` if it was
    /// not asked. A request that has begun is received to its end.
    pub(crate) last_bytes: Option<u64>,
    /// True if no request follows.
    pub(crate) is_closing: bool,
    /// True if it has said that no request follows: what it asked for is carried out, even if it
    /// does not wait for the answers.
    pub(crate) took_leave: bool,
    /// True if nothing can be sent to it any more.
    pub(crate) is_cut: bool,
    /// The device does not take its I/O before this instant: its tenant owes.
    pub(crate) delayed: Instant,
    /// Questions about the allocation that the disk has to find out.
    pub(crate) questions: usize,
    requests: Vec<Option<Pieces>>,
    /// Entries of `requests` that are free.
    free_requests: Vec<usize>,
    /// Requests with parts to submit, in order of arrival.
    waiting: VecDeque<usize>,
    /// The part that each buffer belongs to.
    parts: Vec<Option<(usize, Part)>>,
    free: Vec<u32>,
    /// Lists of buffers to be used again.
    spare_slots: Vec<Vec<u32>>,
}

impl Client {
    pub(crate) fn new(
        (number, identity): (u32, Arc<Identity>),
        export: String,
        charged: Charged,
        protocol: Box<dyn Protocol>,
        line: (Line, Incoming),
        left: EndNotice,
        memory: RequestMemory,
    ) -> Self {
        // A thread is given a copy of what it sends.
        let copies = if matches!(line.0, Line::Ring(_)) { 1 } else { 2 };
        Self {
            number,
            identity,
            task: TaskId::IDLE,
            export,
            charged,
            block: 1,
            protocol,
            line: line.0,
            left,
            input: Some(line.1),
            held: None,
            payload: None,
            backpressure: Backpressure::default(),
            holding: Holding::new(memory, copies),
            out: Outgoing::default(),
            out_amount: Amount::default(),
            sending: None,
            spare: Outgoing::default(),
            has_buffers: false,
            uses_buffers: false,
            looks_without_reply: 0,
            looks_without_payload: 0,
            is_queued: false,
            is_closing: false,
            last_bytes: None,
            took_leave: false,
            is_cut: false,
            delayed: Instant::ZERO,
            questions: 0,
            requests: Vec::new(),
            free_requests: Vec::new(),
            waiting: VecDeque::new(),
            parts: Vec::new(),
            free: Vec::new(),
            spare_slots: Vec::new(),
        }
    }

    /// Its buffers exist from now on.
    pub(crate) fn add_buffers(&mut self) {
        self.has_buffers = true;
        self.parts = vec![None; BUFFERS as usize];
        self.free = (0..BUFFERS).rev().collect();
    }

    /// Its buffers are gone until the next request, and what was sent is not kept either: a thread
    /// is given the data of a reply with its head.
    pub(crate) fn remove_buffers(&mut self) {
        self.has_buffers = false;
        (self.out, self.spare) = (Outgoing::default(), Outgoing::default());
        (self.parts, self.free, self.spare_slots) = (Vec::new(), Vec::new(), Vec::new());
        self.holding.empty_all();
    }

    /// Yields the buffers that have memory and are not in use. They have none any more: the caller
    /// gives it back. What a thread sends was in buffers before, and stays counted as theirs.
    pub(crate) fn empty_unused(&mut self) -> impl Iterator<Item = u32> {
        let is_copied = !matches!(self.line, Line::Ring(_));
        let has_copy = is_copied && self.sending.is_some();
        if is_copied && !has_copy {
            self.spare = Outgoing::default();
        }
        let holding = &mut self.holding;
        self.free.iter().copied().filter(move |&slot| !has_copy && holding.empty(slot))
    }

    /// Returns true if it has buffers and has not used them since it was asked the last time.
    pub(crate) fn idles(&mut self) -> bool {
        let is_used = std::mem::take(&mut self.uses_buffers) || self.requests() > 0;
        self.has_buffers && !is_used && self.held.is_none() && self.sending.is_none() && self.out.is_empty()
    }

    /// Counts a look at what it does.
    pub(crate) fn look(&mut self) {
        let count = |is_awaited: bool, looks: u32| if is_awaited { looks + 1 } else { 0 };
        self.looks_without_reply = count(self.sending.is_some(), self.looks_without_reply);
        self.looks_without_payload = count(self.payload.is_some(), self.looks_without_payload);
    }

    /// Returns true if it keeps memory that others could have and did nothing for that in more
    /// than `looks` looks: it takes no reply, or does not send what it has begun.
    pub(crate) fn stands_still(&self, looks: u32) -> bool {
        self.holding.has_shared() && self.looks_without_reply.max(self.looks_without_payload) > looks
    }

    /// Returns true if requests can be taken: it takes its answers.
    pub(crate) fn is_read(&self) -> bool {
        !self.is_closing && self.out.heads.len() < ANSWERS
    }

    /// Returns true if it was asked to end, and all that came before is received, the rest of a
    /// request that had begun included.
    pub(crate) fn has_last_request(&self) -> bool {
        let has_no_part = self.payload.is_none() && self.input.as_ref().is_none_or(|input| input.bytes().is_empty());
        self.last_bytes == Some(0) && has_no_part
    }

    /// Lets a request in if there is room, and buffers for a payload and for blocks that it changes
    /// in part. Those are taken in the order of requests, all at once, so that no two requests wait
    /// for each other's.
    pub(crate) fn admit(&mut self, request: &DiskRequest) -> Admission {
        let needed = Pieces::slots_needed(request, self.block);
        let has_buffers = needed == 0 || (self.waiting.is_empty() && self.free.len() > needed);
        if !has_buffers || !self.backpressure.enter(Pieces::weight(request)) {
            return Admission::Later;
        }
        if self.holding.expect(Pieces::memory_needed(request, self.block)) {
            return Admission::Granted;
        }
        let mut amount = Amount::default();
        amount.add(Pieces::weight(request));
        self.backpressure.leave(amount);
        Admission::NoMemory
    }

    /// Adds a request that was let in, by `pieces` of an empty list of buffers, and gives it the
    /// buffers that it needs. It is submitted after [`Self::start`].
    pub(crate) fn add(&mut self, pieces: impl FnOnce(Vec<u32>) -> Pieces) -> usize {
        let mut pieces = pieces(self.spare_slots.pop().unwrap_or_default());
        let needed = Pieces::slots_needed(&pieces.request, self.block);
        let mut given = 0;
        pieces.give_slots(self.free.drain(self.free.len() - needed..).rev());
        for (slot, bytes) in pieces.given_slots() {
            self.holding.fill(slot, bytes);
            given += bytes;
        }
        pieces.expected -= given;
        let index = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[index] = Some(pieces);
        index
    }

    /// Lets the parts of a request be submitted.
    pub(crate) fn start(&mut self, index: usize) {
        self.waiting.push_back(index);
    }

    /// Yields the requests that are not answered and have all of their payload, with their indices.
    pub(crate) fn complete_requests(&self) -> impl Iterator<Item = (usize, &Pieces)> {
        let all = self.requests.iter().enumerate().filter_map(|(index, pieces)| Some((index, pieces.as_ref()?)));
        all.filter(|(index, _)| self.payload.is_none_or(|(incomplete, _)| incomplete != *index))
    }

    /// Returns a request that is not answered.
    pub(crate) fn request(&self, index: usize) -> &Pieces {
        self.requests[index].as_ref().expect("a request that is not answered")
    }

    /// Returns the next part and its buffer; `None` if there is no part, or no buffer for it.
    pub(crate) fn next(&mut self) -> Option<(u32, Part, &Pieces)> {
        loop {
            let at = self.next_waiting()?;
            let index = self.waiting[at];
            let pieces = self.requests[index].as_mut().expect("a request that waits");
            let part = pieces.next();
            if !pieces.has_next() {
                self.waiting.remove(at);
            }
            let Some(part) = part else { continue };
            let slot = pieces.slot_of(&part).or_else(|| self.free.pop()).expect("there is a next part");
            if pieces.keeps_slots() {
                pieces.add_slot(slot);
            }
            if matches!(part.op, Op::Read | Op::Write) && !pieces.has_part_slots() {
                self.holding.fill(slot, part.length);
                pieces.expected = pieces.expected.saturating_sub(part.length);
            }
            self.parts[slot as usize] = Some((index, part));
            return self.requests[index].as_ref().map(|pieces| (slot, part, pieces));
        }
    }

    /// Returns true if a part can be submitted.
    pub(crate) fn has_next(&self) -> bool {
        self.next_waiting().is_some()
    }

    /// Returns the first request that waits and has a buffer for its next part.
    fn next_waiting(&self) -> Option<usize> {
        self.waiting.iter().position(|&index| {
            let pieces = self.requests[index].as_ref().expect("a request that waits");
            let left_free = usize::from(pieces.request.operation == Operation::Read);
            self.free.len() > left_free || pieces.has_part_slots()
        })
    }

    /// Returns the request and the part of a buffer in use.
    pub(crate) fn part(&mut self, slot: u32) -> (&mut Pieces, Part) {
        let (index, part) = self.parts[slot as usize].expect("a buffer in use");
        (self.requests[index].as_mut().expect("a request in flight"), part)
    }

    /// Ends the part of a buffer. Returns the request, and its index, if it has finished; then
    /// it is no longer among those of the client.
    pub(crate) fn end(&mut self, slot: u32, status: Status) -> Option<(usize, Pieces)> {
        let (index, _) = self.parts[slot as usize].take().expect("a buffer in use");
        let pieces = self.requests[index].as_mut().expect("a request in flight");
        if pieces.frees(slot) {
            self.free.push(slot);
        }
        let had_next = pieces.has_next();
        if pieces.end(status) {
            if !pieces.status().is_ok() {
                // A request that failed may still wait for buffers.
                self.waiting.retain(|&waiting| waiting != index);
            }
            self.free_requests.push(index);
            return self.requests[index].take().map(|pieces| (index, pieces));
        }
        if !had_next && pieces.has_next() {
            self.waiting.push_back(index);
        }
        None
    }

    /// Fails what is not answered with `status`, so that nothing more of it is submitted. Returns
    /// the next request of which nothing is in flight, and its index; it is no longer among those
    /// of the client. The others have finished once what is in flight has ended.
    pub(crate) fn fail_next(&mut self, status: Status) -> Option<(usize, Pieces)> {
        // The payload of one that comes is taken back by `close`.
        let incomplete = self.payload.map(|(index, _)| index);
        let mut complete = (0..self.requests.len()).filter(|&index| incomplete != Some(index));
        let index = complete.find(|&index| self.requests[index].as_mut().is_some_and(|pieces| pieces.fail(status)))?;
        self.waiting.retain(|&waiting| waiting != index);
        self.free_requests.push(index);
        self.requests[index].take().map(|pieces| (index, pieces))
    }

    /// Returns how a request that ended so is counted: by the name of the errno that it is told.
    pub(crate) fn counted(&self, status: Status) -> Result<(), &'static str> {
        if status.errno() == 0 { Ok(()) } else { Err(self.protocol.errno_name(status)) }
    }

    /// Puts the reply to a request that has finished among what is to be sent.
    pub(crate) fn answer(&mut self, pieces: Pieces) {
        let mut amount = Amount::default();
        amount.add(Pieces::weight(&pieces.request));
        if self.is_cut {
            self.backpressure.leave(amount);
            return self.recycle(pieces, false);
        }
        pieces.reply(&*self.protocol, self.task, &mut self.out);
        self.out_amount.add(amount.bytes);
        let is_sent_from = pieces.status().is_ok() && pieces.keeps_slots();
        self.recycle(pieces, is_sent_from);
    }

    /// Puts the reply to a request that moves no data among what is to be sent.
    pub(crate) fn answer_without_data(&mut self, request: &DiskRequest, answer: Answer<'_>) {
        let mut amount = Amount::default();
        amount.add(Pieces::weight(request));
        if self.is_cut {
            return self.backpressure.leave(amount);
        }
        self.protocol.answer(&mut self.out.heads, request, answer);
        self.out_amount.add(amount.bytes);
    }

    /// Nothing can be sent to it any more.
    pub(crate) fn cut(&mut self, error: io::Error) {
        // A client that did not wait for its answer is no error: after ABORT none does.
        let has_left = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        self.is_cut = true;
        self.free.extend(self.out.slots().map(|slot| slot.token as u32));
        self.out.clear();
        self.backpressure.leave(std::mem::take(&mut self.out_amount));
        self.close((!has_left).then_some(error));
    }

    /// Takes back what a request leaves. `is_sent_from`: its reply has data in its buffers, which
    /// come back by [`Self::free_slot`].
    fn recycle(&mut self, pieces: Pieces, is_sent_from: bool) {
        if !is_sent_from {
            self.free.extend(pieces.unused_slots());
        }
        self.holding.forgo(pieces.expected);
        let mut slots = pieces.into_slots();
        slots.clear();
        self.spare_slots.push(slots);
    }

    /// Takes back a buffer out of which data was sent.
    pub(crate) fn free_slot(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Takes no more requests, and drops what was asked for and is not complete; of a payload that
    /// is being received once that has ended, by another call.
    pub(crate) fn close(&mut self, error: Option<io::Error>) {
        self.is_closing = true;
        self.held = None;
        if let Some(error) = error {
            self.left.error.get_or_insert(error);
        }
        // While more of a payload is received its buffers are in use.
        if self.input.is_some()
            && let Some((index, _)) = self.payload.take()
        {
            let pieces = self.requests[index].take().expect("a request that comes");
            self.free_requests.push(index);
            let mut amount = Amount::default();
            amount.add(Pieces::weight(&pieces.request));
            self.backpressure.leave(amount);
            self.recycle(pieces, false);
        }
    }

    /// Returns the number of requests that are not answered.
    pub(crate) const fn requests(&self) -> usize {
        self.requests.len() - self.free_requests.len() + self.questions
    }

    /// Returns when the oldest request came that is not answered.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.requests.iter().flatten().map(|pieces| pieces.arrived).min()
    }

    /// Returns true if it can be forgotten: nothing of it is under way. A thread that waits for
    /// more of a client that was asked to end ends with its socket.
    pub(crate) const fn has_ended(&self) -> bool {
        let is_silent = self.sending.is_none() && (self.is_cut || self.out.is_empty());
        let waits_in_vain = self.last_bytes.is_some() && matches!(self.line, Line::Threads { .. });
        self.is_closing && is_silent && (self.input.is_some() || waits_in_vain) && self.requests() == 0
    }
}
