//! A client of a device: what it sends, its requests, the buffers that these use, and its replies.

mod buffers;
mod front_end;
mod replies;
mod requests;
mod state;

use std::io;
use std::sync::Arc;

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId};
use elevon_host::{Incoming, Outgoing};

use super::backpressure::{Amount, Backpressure};
use super::pieces::{Part, Pieces};
use super::request_memory::RequestMemory;
use crate::net::export::Charged;
use crate::net::line::{EndNotice, Line};
use crate::net::protocol::Answer;
use crate::net::tls::Identity;
use crate::request::{DiskRequest, Operation};
pub(super) use buffers::BUFFERS;
use buffers::Buffers;
pub(super) use front_end::FrontEnd;
use replies::Replies;
use requests::Requests;
use state::ClientState;
pub(super) use state::Intake;

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

/// Whose a client's requests are.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The number of the connection.
    pub(crate) connection: u32,
    pub(crate) identity: Arc<Identity>,
    /// The name of the export that it has open.
    pub(crate) export: String,
}

/// A client.
pub(crate) struct Client {
    pub(crate) origin: Origin,
    pub(crate) task: TaskId,
    pub(crate) charged: Charged,
    pub(crate) front: FrontEnd,
    /// Bytes of a block of the device.
    pub(crate) block: u64,
    pub(crate) left: EndNotice,
    /// Bytes of a stream that came; `None` while more are received.
    pub(crate) input: Option<Incoming>,
    pub(crate) state: ClientState,
    pub(crate) replies: Replies,
    backpressure: Backpressure,
    pub(crate) buffers: Buffers,
    pub(crate) requests: Requests,
    /// True if something has come for it that [`super::DeviceLoop::run_client`] has not seen.
    pub(crate) is_queued: bool,
    /// The device does not take its I/O before this instant: its tenant owes.
    pub(crate) delayed: Instant,
}

impl Client {
    pub(crate) fn new(
        origin: Origin,
        charged: Charged,
        (front, input): (FrontEnd, Option<Incoming>),
        left: EndNotice,
        memory: RequestMemory,
    ) -> Self {
        // A thread is given a copy of what it sends.
        let copies = if matches!(front.line(), Some(Line::Threads { .. })) { 2 } else { 1 };
        Self {
            origin,
            task: TaskId::IDLE,
            charged,
            front,
            block: 1,
            left,
            input,
            state: ClientState::new(),
            replies: Replies::default(),
            backpressure: Backpressure::default(),
            buffers: Buffers::new(memory, copies),
            requests: Requests::default(),
            is_queued: false,
            delayed: Instant::ZERO,
        }
    }

    /// Its buffers are gone until the next request, and what was sent is not kept either: a thread
    /// is given the data of a reply with its head.
    pub(crate) fn remove_buffers(&mut self) {
        self.replies = Replies::default();
        self.buffers.remove();
    }

    /// Yields the buffers that have memory and are not in use. They have none any more: the caller
    /// gives it back. What a thread sends was in buffers before, and stays counted as theirs.
    pub(crate) fn empty_unused(&mut self) -> impl Iterator<Item = u32> {
        let is_copied = matches!(self.front.line(), Some(Line::Threads { .. }));
        let has_copy = is_copied && self.replies.are_on_their_way();
        if is_copied && !has_copy {
            self.replies.give_back_spare();
        }
        let Buffers { holding, free, .. } = &mut self.buffers;
        free.iter().copied().filter(move |&slot| !has_copy && holding.empty(slot))
    }

    /// Returns true if it has buffers and has not used them since it was asked the last time.
    pub(crate) fn idles(&mut self) -> bool {
        let is_used = self.buffers.take_use() || self.requests.count() > 0;
        let has_replies = self.replies.are_on_their_way() || !self.replies.next.is_empty();
        self.buffers.exist() && !is_used && !self.state.has_held() && !has_replies
    }

    /// Counts a check of whether it does something.
    pub(crate) const fn count_check(&mut self) {
        self.replies.count_check();
        if let Some(payload) = self.state.payload_mut() {
            payload.checks += 1;
        }
    }

    /// Returns true if it keeps memory that others could have and did nothing for that in more
    /// than `checks` checks: it takes no reply, or does not send what it has begun.
    pub(crate) fn has_stalled(&self, checks: u32) -> bool {
        let without_payload = self.state.payload().map_or(0, |payload| payload.checks);
        self.buffers.holding.has_shared() && self.replies.checks().max(without_payload) > checks
    }

    /// Returns true if requests can be taken: what came is here, and it takes its answers.
    pub(crate) fn is_read(&self) -> bool {
        let has_input = self.input.is_some() || self.front.line().is_none();
        has_input && !self.state.is_closing() && self.replies.have_room()
    }

    /// Returns true if it was asked to end, and all that came before is received, the rest of a
    /// request that had begun included.
    pub(crate) fn has_last_request(&self) -> bool {
        self.state.has_last_bytes()
            && self.input.as_ref().is_none_or(|input| input.bytes().is_empty())
    }

    /// Lets a request in if there is room, and buffers for a payload and for blocks that it changes
    /// in part. Those are taken in the order of requests, all at once, so that no two requests wait
    /// for each other's.
    pub(crate) fn admit(&mut self, request: &DiskRequest) -> Admission {
        let needed = Pieces::slots_needed(request, self.block);
        let has_buffers =
            needed == 0 || (self.requests.none_waits() && self.buffers.free.len() > needed);
        if !has_buffers || !self.backpressure.enter(Pieces::weight(request)) {
            return Admission::Later;
        }
        if self.buffers.holding.expect(Pieces::memory_needed(request, self.block)) {
            return Admission::Granted;
        }
        self.backpressure.leave(amount_of(request));
        Admission::NoMemory
    }

    /// Adds a request that was let in, by `pieces` of an empty list of buffers, and gives it the
    /// buffers that it needs. It is submitted after [`Requests::start`].
    pub(crate) fn add(&mut self, pieces: impl FnOnce(Vec<u32>) -> Pieces) -> usize {
        let Buffers { holding, free, spare_lists, .. } = &mut self.buffers;
        let mut pieces = pieces(spare_lists.pop().unwrap_or_default());
        let needed = Pieces::slots_needed(&pieces.request, self.block);
        let mut given = 0;
        pieces.give_slots(free.drain(free.len() - needed..).rev());
        for (slot, bytes) in pieces.given_slots() {
            holding.fill(slot, bytes);
            given += bytes;
        }
        pieces.expected -= given;
        self.requests.insert(pieces)
    }

    /// Yields the requests that are not answered and have all of their payload, with their indices.
    pub(crate) fn complete_requests(&self) -> impl Iterator<Item = (usize, &Pieces)> {
        let incomplete = self.state.payload().map(|payload| payload.index);
        self.requests.all().filter(move |(index, _)| incomplete != Some(*index))
    }

    /// Returns the next part and its buffer; `None` if there is no part, or no buffer for it.
    pub(crate) fn next(&mut self) -> Option<(u32, Part, &Pieces)> {
        loop {
            let index = self.next_waiting()?;
            let pieces = self.requests.get_mut(index);
            let part = pieces.next();
            if !pieces.has_next() {
                self.requests.stop(index);
            }
            let Some(part) = part else { continue };
            let (pieces, buffers) = (self.requests.get_mut(index), &mut self.buffers);
            let slot =
                pieces.slot_of(&part).or_else(|| buffers.free.pop()).expect("there is a next part");
            if pieces.keeps_slots() {
                pieces.add_slot(slot);
            }
            if matches!(part.op, Op::Read | Op::Write) && !pieces.has_part_slots() {
                buffers.holding.fill(slot, part.length);
                pieces.expected = pieces.expected.saturating_sub(part.length);
            }
            buffers.assign(slot, index, part);
            return Some((slot, part, self.requests.get(index)));
        }
    }

    /// Returns true if a part can be submitted.
    pub(crate) fn has_next(&self) -> bool {
        self.next_waiting().is_some()
    }

    /// Returns the first request that waits and has a buffer for its next part.
    fn next_waiting(&self) -> Option<usize> {
        self.requests.first_waiting(|pieces| {
            let left_free = usize::from(pieces.request.operation == Operation::Read);
            self.buffers.free.len() > left_free || pieces.has_part_slots()
        })
    }

    /// Returns the request and the part of a buffer in use.
    pub(crate) fn part(&mut self, slot: u32) -> (&mut Pieces, Part) {
        let (index, part) = self.buffers.part(slot);
        (self.requests.get_mut(index), part)
    }

    /// Ends the part of a buffer. Returns the request, and its index, if it has finished; then
    /// it is no longer among those of the client.
    pub(crate) fn end(&mut self, slot: u32, status: Status) -> Option<(usize, Pieces)> {
        let index = self.buffers.end_part(slot);
        let pieces = self.requests.get_mut(index);
        if pieces.frees(slot) {
            self.buffers.free.push(slot);
        }
        let had_next = pieces.has_next();
        if pieces.end(status) {
            if !pieces.status().is_ok() {
                // A request that failed may still wait for buffers.
                self.requests.stop(index);
            }
            return Some((index, self.requests.remove(index)));
        }
        if !had_next && pieces.has_next() {
            self.requests.start(index);
        }
        None
    }

    /// Fails what is not answered with `status`, so that nothing more of it is submitted. Returns
    /// the next request of which nothing is in flight, and its index; it is no longer among those
    /// of the client. The others have finished once what is in flight has ended.
    pub(crate) fn fail_next(&mut self, status: Status) -> Option<(usize, Pieces)> {
        // The payload of one that comes is taken back by `close`.
        let incomplete = self.state.payload().map(|payload| payload.index);
        let index = self.requests.fail_next(status, |index| incomplete != Some(index))?;
        self.requests.stop(index);
        Some((index, self.requests.remove(index)))
    }

    /// Returns how a request that ended so is counted: by the name of the errno that it is told.
    pub(crate) fn counted(&self, status: Status) -> Result<(), &'static str> {
        if status.errno() == 0 { Ok(()) } else { Err(self.front.errno_name(status)) }
    }

    /// Puts the reply to a request that has finished among what is to be sent.
    pub(crate) fn answer(&mut self, pieces: Pieces) {
        if self.state.is_gone() {
            self.backpressure.leave(amount_of(&pieces.request));
            return self.recycle(pieces, false);
        }
        match &mut self.front {
            FrontEnd::Stream { protocol, .. } => {
                pieces.reply(&**protocol, self.task, &mut self.replies.next);
                self.replies.count(Pieces::weight(&pieces.request));
                let is_sent_from = pieces.status().is_ok() && pieces.keeps_slots();
                self.recycle(pieces, is_sent_from);
            }
            FrontEnd::Queues { queues, .. } => {
                queues.finish(&pieces.request, pieces.status());
                self.backpressure.leave(amount_of(&pieces.request));
                self.recycle(pieces, false);
            }
        }
    }

    /// Puts the reply to a request that moves no data among what is to be sent.
    pub(crate) fn answer_without_data(&mut self, request: &DiskRequest, answer: Answer<'_>) {
        if self.state.is_gone() {
            return self.backpressure.leave(amount_of(request));
        }
        match &mut self.front {
            FrontEnd::Stream { protocol, .. } => {
                protocol.answer(&mut self.replies.next.heads, request, answer);
                self.replies.count(Pieces::weight(request));
            }
            FrontEnd::Queues { queues, .. } => {
                let status = if let Answer::Failed(status) = answer { status } else { Status::Ok };
                queues.finish(request, status);
                self.backpressure.leave(amount_of(request));
            }
        }
    }

    /// Replies were sent, or cannot be.
    pub(crate) fn end_sending(&mut self, mut outgoing: Outgoing) {
        self.buffers.free.extend(outgoing.slots().map(|slot| slot.token as u32));
        outgoing.clear();
        let answered = self.replies.end(outgoing);
        self.backpressure.leave(answered);
    }

    /// Drops its replies: nothing can be sent to it any more.
    pub(crate) fn drop_replies(&mut self, error: io::Error) {
        // A client that did not wait for its answer is no error: after ABORT none does.
        let has_left =
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        self.buffers.free.extend(self.replies.next.slots().map(|slot| slot.token as u32));
        let unanswered = self.replies.drop_next();
        self.backpressure.leave(unanswered);
        self.close((!has_left).then_some(error));
        self.state.set_gone();
    }

    /// Takes back what a request leaves. `is_sent_from`: its reply has data in its buffers, which
    /// come back by [`Self::free_slot`].
    fn recycle(&mut self, pieces: Pieces, is_sent_from: bool) {
        if !is_sent_from {
            self.buffers.free.extend(pieces.unused_slots());
        }
        self.buffers.holding.forgo(pieces.expected);
        let mut slots = pieces.into_slots();
        slots.clear();
        self.buffers.spare_lists.push(slots);
    }

    /// Takes back a buffer out of which data was sent.
    pub(crate) fn free_slot(&mut self, slot: u32) {
        self.buffers.free.push(slot);
    }

    /// The client takes leave: it need not be answered.
    pub(crate) fn take_leave(&mut self) {
        self.state.close(true);
        self.close(None);
    }

    /// Takes no more requests, and drops what was asked for and is not complete; of a payload that
    /// is being received once that has ended, by another call.
    pub(crate) fn close(&mut self, error: Option<io::Error>) {
        self.state.close(false);
        if let Some(error) = error {
            self.left.error.get_or_insert(error);
        }
        // While more of a payload is received its buffers are in use.
        if self.input.is_some()
            && let Some(payload) = self.state.take_unread()
        {
            let pieces = self.requests.remove(payload.index);
            self.backpressure.leave(amount_of(&pieces.request));
            self.recycle(pieces, false);
        }
    }

    /// Returns true if it can be removed: nothing of it is under way. A thread that waits for
    /// more of a client that was asked to end ends with its socket.
    pub(crate) const fn has_ended(&self) -> bool {
        let is_silent = !self.replies.are_on_their_way()
            && (self.state.is_gone() || self.replies.next.is_empty());
        let has_received = match self.front.line() {
            // Nothing is received.
            None => true,
            Some(Line::Threads { .. }) => self.input.is_some() || self.state.was_asked_to_end(),
            Some(Line::Ring(_)) => self.input.is_some(),
        };
        self.state.is_closing() && is_silent && has_received && self.requests.count() == 0
    }
}

/// Returns what a request counts for back-pressure.
const fn amount_of(request: &DiskRequest) -> Amount {
    Amount { requests: 1, bytes: Pieces::weight(request) }
}
