//! What the device's thread does for a client: it takes requests out of what came, and sends the
//! replies.

use std::io;

use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, TaskId};
use elevon_host::{Incoming, Outgoing};

use super::DeviceLoop;
use crate::device::backpressure::IN_FLIGHT;
use crate::device::byte_range::ByteRange;
use crate::device::client::{Admission, BUFFERS, Client, FrontEnd, Intake};
use crate::device::pieces::{PART, Pieces};
use crate::disks::Disk;
use crate::net::line::{self, Line, ToWriter};
use crate::net::protocol::{Answer, Step};
use crate::request::{DiskRequest, Operation};

/// Buffers that were not used for this time, and up to twice as long, are given back.
const IDLE: Nanos = Nanos::from_secs(5);

/// A client may be found stalled in so many checks, [`IDLE`] apart, while others wait for memory
/// that it keeps.
const MAX_STALLED_CHECKS: u32 = 12;
/// After this time it is tried again whether there is memory for a request.
const MEMORY_RETRY: Nanos = Nanos::from_millis(2);

/// Steps of a client's protocol after which other clients, and the device, have their turn: no more
/// than a client may have in flight, so that only one that is answered without I/O is interrupted.
const STEPS_A_TURN: u32 = IN_FLIGHT;

/// Returns the client of a task, while other parts of the device are in use.
fn client_of(clients: &mut [Option<Client>], task: TaskId) -> &mut Client {
    clients[task.index()].as_mut().expect("a client that is there")
}

impl<D: Disk> DeviceLoop<D> {
    /// Does for a client what can be done now.
    pub(super) fn run_client(&mut self, task: TaskId) {
        let Some(client) = &mut self.clients[task.index()] else { return };
        client.is_queued = false;
        self.parse_requests(task);
        // A WRITE that waited for requests before it to be submitted has its turn after that.
        while self.submit(task) && self.client(task).state.has_held() {
            self.parse_requests(task);
        }
        self.send_replies(task);
        if self.client(task).has_ended() {
            self.remove_client(task);
        }
    }

    pub(super) fn client(&mut self, task: TaskId) -> &mut Client {
        client_of(&mut self.clients, task)
    }

    /// Takes requests out of what came, until more has to come, they find no room, or others have
    /// to have their turn.
    fn parse_requests(&mut self, task: TaskId) {
        let mut steps = 0;
        while steps < STEPS_A_TURN {
            let client = client_of(&mut self.clients, task);
            if !client.is_read() {
                return;
            }
            match client.state.intake() {
                Some(Intake::Payload(_)) => {
                    if !self.take_payload(task) {
                        return self.receive(task);
                    }
                }
                Some(Intake::Held(request)) => {
                    if !self.take_request(task, &request) {
                        return;
                    }
                    // What takes the thread of the device longer than any other request does.
                    let is_long = matches!(
                        request.operation,
                        Operation::Cache | Operation::BlockStatus { .. }
                    );
                    steps += if is_long { STEPS_A_TURN } else { 0 };
                }
                Some(Intake::Request) => {
                    steps += 1;
                    if !self.step_protocol(task) {
                        return self.receive(task);
                    }
                }
                None => return,
            }
        }
        self.enqueue(task);
    }

    /// Takes a step of a client's protocol. Returns false if more has to come first.
    fn step_protocol(&mut self, task: TaskId) -> bool {
        let client = client_of(&mut self.clients, task);
        let step = match &mut client.front {
            FrontEnd::Stream { protocol, .. } => {
                let input = client.input.as_mut().expect("what came is here");
                let (used, step) = protocol.step(input.bytes(), &mut client.replies.next.heads);
                input.take(used);
                step
            }
            FrontEnd::Queues { queues, .. } => queues.take(),
        };
        match step {
            Step::Continue => {}
            Step::More => return false,
            Step::Refused { operation, reason } => {
                self.counts.refuse(client.charged.tenant, operation, reason);
            }
            Step::Request(request) => client.state.hold(request),
            // Its requests in flight stay on record for the connection that follows.
            Step::Leave if client.front.queues().is_some() => {
                self.abandon(task, io::ErrorKind::BrokenPipe.into());
            }
            Step::Leave => client.take_leave(),
            Step::Fail(error) => client.close(Some(error)),
        }
        true
    }

    /// Takes a request that is held. Returns false if it has to wait for others.
    fn take_request(&mut self, task: TaskId, request: &DiskRequest) -> bool {
        let client = client_of(&mut self.clients, task);
        if !client.buffers.exist() {
            if let Err(error) = self.engine.backend_mut().make_buffers(task, BUFFERS, PART) {
                // Others have theirs.
                client.close(Some(io::Error::new(
                    error.kind(),
                    format!("no memory for its buffers: {error}"),
                )));
                return true;
            }
            client.buffers.add();
            self.look_for_idle.get_or_insert(self.engine.now() + IDLE);
        }
        client.buffers.set_used();
        let is_due = match request.operation {
            Operation::BlockStatus { .. } => self.may_answer_allocation(task),
            _ => self.may_exclude(task, request),
        };
        if !is_due || !self.admit(task, request) {
            return false;
        }
        let client = client_of(&mut self.clients, task);
        client.state.expect_request();
        match request.operation {
            // Without a page cache there is none that a range could be read into.
            Operation::Cache => {
                if let Some(cache) = &mut self.cache {
                    let blocks =
                        ByteRange::of(request).outer(client.block).moved(client.charged.base);
                    cache.read_ahead(task, blocks.start, blocks.length());
                }
                self.answer_at_once(task, request);
            }
            Operation::WriteZeroes { fast: true, .. } if !self.engine.backend().zeroes_fast() => {
                self.refuse_at_once(task, request, Status::NotSupported);
            }
            Operation::Trim if ByteRange::of(request).inner(client.block).is_empty() => {
                self.answer_at_once(task, request);
            }
            Operation::BlockStatus { .. } => self.find_allocation(task, request),
            _ => {
                let arrived = self.engine.now();
                let (disk, block) = (self.engine.backend(), client.block);
                let zero = |no_hole| disk.zero(no_hole);
                let index = client.add(|slots| Pieces::new(arrived, *request, block, slots, zero));
                if request.operation == Operation::Write && client.front.line().is_some() {
                    client.state.expect_payload(index);
                } else {
                    self.start(task, index);
                }
            }
        }
        true
    }

    /// Lets a request in, if there is room and memory for it.
    fn admit(&mut self, task: TaskId, request: &DiskRequest) -> bool {
        let mut admission = self.client(task).admit(request);
        if admission == Admission::NoMemory {
            // What its other requests have used before may be enough.
            self.empty_unused(task);
            admission = self.client(task).admit(request);
        }
        if admission == Admission::NoMemory {
            // One that the next check may send away is not sent away for what it waits for itself.
            if !self.client(task).has_stalled(MAX_STALLED_CHECKS - 1) {
                self.memory.count_wait();
            }
            if !self.short.contains(&task) {
                self.short.push(task);
            }
            self.look_for_memory = Some(self.engine.now() + MEMORY_RETRY);
        }
        admission == Admission::Granted
    }

    /// Gives back the memory of the buffers of a client that are not in use.
    fn empty_unused(&mut self, task: TaskId) {
        let client = client_of(&mut self.clients, task);
        client
            .empty_unused()
            .for_each(|slot| self.engine.backend_mut().empty_buffer(task, slot.into()));
    }

    /// Takes back what no client uses now, and looks at the requests that wait for memory.
    pub(super) fn look_for_memory(&mut self) {
        self.look_for_memory = None;
        let all: Vec<TaskId> = self.tasks.values().copied().collect();
        all.into_iter().for_each(|task| self.empty_unused(task));
        std::mem::take(&mut self.short).into_iter().for_each(|task| self.enqueue(task));
    }

    /// Answers a request for which nothing has to be done.
    fn answer_at_once(&mut self, task: TaskId, request: &DiskRequest) {
        let client = client_of(&mut self.clients, task);
        client.answer_without_data(request, Answer::Done);
        self.counts.take(client.charged.tenant, request, Ok(()), Nanos::ZERO);
    }

    /// Answers a request that cannot be done as it was asked for.
    fn refuse_at_once(&mut self, task: TaskId, request: &DiskRequest, status: Status) {
        let client = client_of(&mut self.clients, task);
        client.answer_without_data(request, Answer::Failed(status));
        self.counts.take(client.charged.tenant, request, client.counted(status), Nanos::ZERO);
    }

    /// Takes bytes of a payload out of what came. Returns true if it is complete.
    fn take_payload(&mut self, task: TaskId) -> bool {
        let client = client_of(&mut self.clients, task);
        let payload = client.state.payload_mut().expect("a payload that comes");
        let Some(mut input) = client.input.take() else { return false };
        let (index, pieces) = (payload.index, client.requests.get(payload.index));
        let length = pieces.request.length;
        for slot in pieces.slot_bytes(task, payload.received) {
            let bytes = input.bytes();
            let bytes = &bytes[..bytes.len().min(slot.length as usize)];
            if let Some(buffer) = self.engine.backend_mut().buffer(task, slot.token) {
                buffer[slot.start as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            payload.received += bytes.len() as u64;
            assert!(payload.received <= length, "a payload has the bytes that its request names");
            let taken = bytes.len();
            input.take(taken);
        }
        client.input = Some(input);
        if payload.received < length {
            return false;
        }
        client.state.expect_request();
        if let FrontEnd::Stream { protocol, .. } = &mut client.front {
            protocol.on_payload(length);
        }
        self.start(task, index);
        true
    }

    /// Lets more come: the rest of a payload into its buffers, and what follows.
    fn receive(&mut self, task: TaskId) {
        let client = client_of(&mut self.clients, task);
        if client.has_last_request() {
            return self.end_input(task);
        }
        let (Some(line), Some(input)) = (client.front.line(), client.input.take()) else { return };
        match line {
            Line::Ring(socket) => {
                let socket = *socket;
                self.slots.clear();
                if let Some(payload) = client.state.payload() {
                    let pieces = client.requests.get(payload.index);
                    self.slots.extend(pieces.slot_bytes(task, payload.received));
                }
                self.engine.backend_mut().host().expect("it has the socket").receive(
                    socket,
                    input,
                    &self.slots,
                );
            }
            Line::Threads { reader, .. } => {
                if let Err(unsent) = reader.send(input) {
                    // It has ended, and said so.
                    client.input = Some(unsent.0);
                }
            }
        }
    }

    /// Bytes came: those of a payload are in its buffers, as far as they were asked for.
    pub(super) fn on_received(&mut self, task: TaskId, input: Incoming, result: io::Result<usize>) {
        let client = self.client(task);
        assert!(client.input.is_none(), "a client has one buffer to receive into");
        client.input = Some(input);
        match result {
            // What came is of no use any more.
            _ if client.state.is_closing() => client.close(None),
            Err(error) => client.close(Some(error)),
            Ok(0) => {
                let is_unfinished = client.state.payload().is_some();
                client.close(is_unfinished.then(|| io::ErrorKind::UnexpectedEof.into()));
                let has_hung_up = match client.front.line() {
                    None => false,
                    Some(Line::Ring(socket)) => {
                        let socket = *socket;
                        self.engine
                            .backend_mut()
                            .host()
                            .expect("it has the socket")
                            .has_hung_up(socket)
                    }
                    Some(Line::Threads { socket, .. }) => {
                        socket.as_deref().is_some_and(elevon_host::has_hung_up)
                    }
                };
                if has_hung_up {
                    self.abandon(task, io::ErrorKind::BrokenPipe.into());
                }
            }
            Ok(bytes) => {
                client.state.count_received(bytes as u64);
                if let (Some(payload), Some(Line::Ring(_))) =
                    (client.state.payload_mut(), client.front.line())
                {
                    let length = client.requests.get(payload.index).request.length;
                    payload.received = (payload.received + bytes as u64).min(length);
                }
            }
        }
        self.enqueue(task);
    }

    /// Nothing came to a client that idles: memory for what comes is taken again once it does.
    pub(super) fn on_cancelled(&mut self, task: TaskId, mut input: Incoming) {
        input.give_back();
        let client = self.client(task);
        client.input = Some(input);
        if client.state.is_closing() || client.has_last_request() {
            return self.end_input(task);
        }
        self.enqueue(task);
    }

    /// Takes no more of a client that was asked to end. What it still sends does not keep it from
    /// its answers.
    fn end_input(&mut self, task: TaskId) {
        let client = client_of(&mut self.clients, task);
        client.close(None);
        let has_replies = client.replies.are_on_their_way() || !client.replies.next.is_empty();
        let waits = client.requests.count() > 0 || has_replies;
        if let (Some(Line::Ring(socket)), true) =
            (client.front.line(), waits && client.state.was_asked_to_end())
        {
            let socket = *socket;
            let copy =
                self.engine.backend_mut().host().and_then(|host| host.clone_socket(socket).ok());
            copy.into_iter().for_each(line::drain);
        }
        self.enqueue(task);
    }

    /// Lets no request follow those that have come. The socket stays open in both directions: a
    /// peer whose send fails may drop the answers that it has not read.
    pub(super) fn finish(&mut self, task: TaskId) {
        let client = client_of(&mut self.clients, task);
        let Some(line) = client.front.line() else {
            // What it has not begun stays in its queues.
            client.close(None);
            return self.enqueue(task);
        };
        match line {
            Line::Ring(socket) if !client.state.was_asked_to_end() => {
                let socket = *socket;
                let host = self.engine.backend_mut().host().expect("it has the socket");
                let bytes = host.unread(socket);
                client.state.ask_to_end(bytes);
                if bytes == 0 && client.input.is_none() {
                    host.cancel_receive(socket);
                }
                self.enqueue(task);
            }
            Line::Ring(_) => {}
            // The rest of a payload is waited for: the caller asks again.
            Line::Threads { socket: Some(socket), last, .. }
                if !client.state.was_asked_to_end() && client.state.payload().is_none() =>
            {
                let bytes = elevon_host::unread(&**socket);
                last.set(bytes);
                client.state.ask_to_end(bytes);
                // With TLS there are fewer bytes of requests than of the socket: its thread tells
                // the end.
                if bytes == 0 && client.input.is_none() {
                    client.close(None);
                }
                self.enqueue(task);
            }
            Line::Threads { .. } => {}
        }
    }

    /// Sends the replies that are ready, unless others are under way.
    fn send_replies(&mut self, task: TaskId) {
        let client = client_of(&mut self.clients, task);
        if client.state.is_gone() {
            return;
        }
        let line = match &mut client.front {
            FrontEnd::Stream { line, .. } => line,
            FrontEnd::Queues { queues, .. } => return queues.tell(),
        };
        let Some(mut outgoing) = client.replies.begin() else { return };
        match line {
            Line::Ring(socket) => {
                let socket = *socket;
                std::mem::swap(&mut outgoing, &mut client.replies.next);
                self.engine.backend_mut().host().expect("it has the socket").send(socket, outgoing);
            }
            Line::Threads { writer, .. } => {
                // The thread cannot reach the device's buffers.
                let mut freed = Vec::new();
                client.replies.next.gather_into(&mut outgoing, |slot, bytes| {
                    if let Some(buffer) = self.engine.backend_mut().buffer(task, slot.token) {
                        bytes.extend_from_slice(
                            &buffer[slot.start as usize..][..slot.length as usize],
                        );
                    }
                    freed.push(slot.token as u32);
                });
                // A thread that has ended has said so.
                let _ = writer.send(ToWriter::Send(outgoing));
                freed.into_iter().for_each(|slot| client.free_slot(slot));
                if client.has_next() {
                    self.enqueue(task);
                }
            }
        }
    }

    /// Replies were sent, or cannot be.
    pub(super) fn on_sent(&mut self, task: TaskId, outgoing: Outgoing, result: io::Result<()>) {
        client_of(&mut self.clients, task).end_sending(outgoing);
        if let Err(error) = result {
            // It may have taken leave in what came.
            self.parse_requests(task);
            let client = self.client(task);
            match client.state.took_leave() {
                true => client.drop_replies(error),
                false => drop(self.abandon(task, error)),
            }
            self.disconnect(task);
        }
        self.enqueue(task);
    }

    /// Ends the connection of a client that is gone.
    fn disconnect(&mut self, task: TaskId) {
        match client_of(&mut self.clients, task).front.line() {
            // The connection ends with its queues.
            None => {}
            Some(Line::Ring(socket)) => {
                let socket = *socket;
                self.engine.backend_mut().host().expect("it has the socket").shut_socket(socket);
            }
            Some(Line::Threads { socket, .. }) => {
                socket.iter().for_each(|socket| socket.shutdown(std::net::Shutdown::Both));
            }
        }
    }

    /// Gives back the buffers of clients that have not used them for a while. Sends clients away
    /// that have stalled and keep memory for which others wait.
    pub(super) fn take_back_buffers(&mut self, now: Instant) {
        let waits = self.memory.waits();
        let others_wait = std::mem::replace(&mut self.waits, waits) != waits;
        let mut stalled = Vec::new();
        let mut have_some = false;
        for (index, client) in self.clients.iter_mut().enumerate() {
            let Some(client) = client else { continue };
            if client.idles() {
                client.remove_buffers();
                // What was received into takes memory as well.
                if let (Some(Line::Ring(socket)), Some(host)) =
                    (client.front.line(), self.engine.backend_mut().host())
                {
                    host.cancel_receive(*socket);
                }
                give_back(self.engine.backend_mut(), TaskId(index as u32));
            }
            have_some |= client.buffers.exist();
            client.count_check();
            if client.has_stalled(MAX_STALLED_CHECKS) && others_wait && !client.state.is_gone() {
                stalled.push(client.task);
            }
        }
        for task in stalled {
            let why = "for a minute it took no replies, or did not send what it had begun, while others waited for \
                       the memory of that";
            self.abandon(task, io::Error::new(io::ErrorKind::TimedOut, why));
            self.disconnect(task);
        }
        self.look_for_idle = have_some.then(|| now + IDLE);
    }

    /// Removes a client that has left and has nothing under way.
    fn remove_client(&mut self, task: TaskId) {
        let client = self.clients[task.index()].take().expect("a client that is there");
        self.tasks.remove(&client.origin.connection);
        self.delayed.retain(|(_, delayed)| *delayed != task);
        self.short.retain(|waiting| *waiting != task);
        if let Some(cache) = &mut self.cache {
            cache.remove_client(task);
        }
        assert_eq!(client.requests.count(), 0, "a client that left has no request in the device");
        let now = self.engine.now();
        self.engine.stack_mut().handle_exit(now, task);
        if client.buffers.exist() {
            // Those of the next client of this number are made when it needs them.
            give_back(self.engine.backend_mut(), task);
        }
        let line = match client.front {
            FrontEnd::Stream { line, .. } => line,
            FrontEnd::Queues { queues, bell } => {
                if let Some((bell, host)) = bell.zip(self.engine.backend_mut().host()) {
                    host.remove_bell(bell);
                    self.bells.remove(&bell);
                }
                return drop((queues, client.left));
            }
        };
        match line {
            Line::Ring(socket) => {
                let socket = self
                    .engine
                    .backend_mut()
                    .host()
                    .expect("it has the socket")
                    .remove_socket(socket);
                line::close(socket, client.left);
            }
            Line::Threads { writer, .. } => {
                // Without the thread the server is told now.
                let _ = writer.send(ToWriter::End(client.left));
            }
        }
    }
}

/// Gives back the memory of a client's buffers.
fn give_back(disk: &mut impl Disk, task: TaskId) {
    // Without memory for none the old ones are gone, too.
    let _ = disk.make_buffers(task, 0, 0);
}
