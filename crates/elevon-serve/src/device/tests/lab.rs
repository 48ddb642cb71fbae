//! A device in virtual time, with clients that follow habits and connections that a test uses by
//! itself.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use elevon_cache::Watermarks;
use elevon_cache::page_cache::{CacheConfig, WriteMode};
use elevon_core::ioprio::IoPrio;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, Instant, Nanos, PAGE_SIZE, TaskId, TenantId};
use elevon_formats::serve::REQUEST_MEMORY;
use elevon_formats::tenants::parse;
use elevon_host::{Alarm, Incoming};
use elevon_nbd::{Command, Export, Exports, Refusal, Request, Session, SessionConfig, Step};
use elevon_sim::device::{AnyDevice, Device as _, Fault};
use elevon_sim::profiles;
use elevon_testkit::habits::Habit;
use elevon_workload::settings::Settings;
use elevon_workload::tenants::TenantPlan;

use super::actor::Actor;
use crate::device::client::{Client, FrontEnd, Origin};
use crate::device::message::Message;
use crate::device::request_memory::RequestMemory;
use crate::device::{DeviceLoop, DeviceParts, ErrorLog};
use crate::disks::Disk as _;
use crate::disks::simulated::{Clock, SimulatedDisk};
use crate::net::export::Charged;
use crate::net::line::{EndNotice, Line, LineEvent, ToWriter};
use crate::net::nbd::transmission::Transmission;
use crate::net::tls::LastBytes;

/// A clock that only a wait moves.
#[derive(Debug)]
pub(super) struct VirtualClock {
    now: Instant,
    /// What the device's thread has computed since the clock was last read.
    computed: Rc<Cell<Nanos>>,
    /// When the next client asks again: no wait is longer.
    next_request: Rc<Cell<Instant>>,
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Instant {
        self.now = self.now.saturating_add(self.computed.take());
        self.now
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let until = until.unwrap_or(Instant::MAX).min(self.next_request.get());
        if until == Instant::MAX {
            return false;
        }
        self.now = self.now.max(until);
        true
    }
    fn alarm(&mut self) -> io::Result<Alarm> {
        Alarm::new()
    }
}

/// The client's end of a connection, in place of the two threads of one.
pub(super) struct Wire {
    client: u32,
    send: Sender<Message>,
    /// Memory that the device hands out for what comes.
    memory: Receiver<Incoming>,
    /// What the device sends.
    written: Receiver<ToWriter>,
    /// Bytes of requests that were not received yet.
    unsent: Vec<u8>,
    /// Bytes of replies that were not looked at.
    came: Vec<u8>,
    /// How much data the reply to each request has.
    data: BTreeMap<u64, usize>,
    /// The data of the last reply, if it was a simple one.
    pub(super) read: Vec<u8>,
}

/// Bytes of a simple reply's head, and of that of a chunk of a structured one.
const HEADS: [usize; 2] = [16, 20];
/// What a chunk begins with.
const CHUNK: [u8; 4] = 0x668e_33ef_u32.to_be_bytes();

impl Wire {
    pub(super) fn ask(&mut self, request: &Request, payload: &[u8]) {
        let (kind, length) = match request.command {
            Command::Read => (0_u16, request.length),
            Command::Write => (1, 0),
            Command::Flush => (3, 0),
            Command::Trim => (4, 0),
            Command::Cache => (5, 0),
            Command::WriteZeroes { .. } => (6, 0),
            Command::BlockStatus { .. } => (7, 0),
        };
        self.data.insert(request.cookie, length as usize);
        let of_zeroes = match request.command {
            Command::WriteZeroes { no_hole, fast } => {
                u16::from(no_hole) << 1 | u16::from(fast) << 4
            }
            _ => 0,
        };
        self.head(
            u16::from(request.fua) | of_zeroes,
            kind,
            request.cookie,
            request.offset,
            request.length as u32,
        );
        self.unsent.extend(payload);
        self.transfer();
    }

    fn head(&mut self, flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) {
        self.unsent.extend(0x2560_9513_u32.to_be_bytes());
        self.unsent.extend(flags.to_be_bytes());
        self.unsent.extend(kind.to_be_bytes());
        self.unsent.extend(cookie.to_be_bytes());
        self.unsent.extend(offset.to_be_bytes());
        self.unsent.extend(length.to_be_bytes());
    }

    /// Hands over what the device has memory for. Returns true if something is left.
    pub(super) fn transfer(&mut self) -> bool {
        while !self.unsent.is_empty()
            && let Ok(mut input) = self.memory.try_recv()
        {
            let room = input.room();
            let bytes = room.len().min(self.unsent.len());
            room[..bytes].copy_from_slice(&self.unsent[..bytes]);
            input.add(bytes);
            self.unsent.drain(..bytes);
            self.send
                .send(Message::Line(LineEvent::Received {
                    client: self.client,
                    input,
                    result: Ok(bytes),
                }))
                .expect("it is there");
        }
        !self.unsent.is_empty()
    }

    /// Says that nothing follows.
    pub(super) fn leave(&mut self) {
        self.head(0, 2, 0, 0, 0);
        self.transfer();
    }

    /// Ends the connection as a client does that dies: what is sent to it fails.
    pub(super) fn hang_up(&mut self) {
        let client = self.client;
        while let Ok(ToWriter::Send(outgoing)) = self.written.try_recv() {
            let result = Err(io::ErrorKind::BrokenPipe.into());
            self.send
                .send(Message::Line(LineEvent::Sent { client, outgoing, result }))
                .expect("it is there");
        }
        while let Ok(input) = self.memory.try_recv() {
            self.send
                .send(Message::Line(LineEvent::Received { client, input, result: Ok(0) }))
                .expect("it is there");
        }
    }

    /// Takes the next reply: its cookie, and whether the request succeeded.
    pub(super) fn answer(&mut self) -> Option<(u64, bool)> {
        self.transfer();
        while let Ok(told) = self.written.try_recv() {
            let ToWriter::Send(outgoing) = told else { return None };
            assert!(outgoing.slots().next().is_none(), "what is in buffers was gathered");
            self.came.extend(&outgoing.heads);
            self.send
                .send(Message::Line(LineEvent::Sent {
                    client: self.client,
                    outgoing,
                    result: Ok(()),
                }))
                .expect("it is there");
        }
        while self.came.starts_with(&CHUNK) {
            let head: [u8; HEADS[1]] = self.came.get(..HEADS[1])?.try_into().expect("20 bytes");
            let length = u32::from_be_bytes(head[16..].try_into().expect("4 bytes")) as usize;
            self.came.get(..HEADS[1] + length)?;
            self.came.drain(..HEADS[1] + length);
            let (is_last, is_error) = (head[5] & 1 > 0, head[6] & 0x80 > 0);
            if is_last {
                let cookie = u64::from_be_bytes(head[8..16].try_into().expect("8 bytes"));
                self.data.remove(&cookie).expect("an answer to a question");
                return Some((cookie, !is_error));
            }
        }
        let head: [u8; HEADS[0]] = self.came.get(..HEADS[0])?.try_into().expect("16 bytes");
        let is_ok = head[4..8] == [0; 4];
        let cookie = u64::from_be_bytes(head[8..].try_into().expect("8 bytes"));
        let data = self.data.remove(&cookie).expect("an answer to a question");
        let end = 16 + if is_ok { data } else { 0 };
        self.read = self.came[16..end].to_vec();
        self.came.drain(..end);
        Some((cookie, is_ok))
    }
}

pub(super) struct Lab {
    pub(super) device: DeviceLoop<SimulatedDisk<AnyDevice, VirtualClock>>,
    pub(super) send: Sender<Message>,
    receive: Receiver<Message>,
    pub(super) clients: Vec<Actor>,
    tenants: TenantPlan,
    size: u64,
    /// As [`VirtualClock::next_request`].
    next_request: Rc<Cell<Instant>>,
    /// As [`VirtualClock::computed`].
    computed: Rc<Cell<Nanos>>,
    /// What the device's thread computes for a request: it reads it, hands it on and answers.
    pub(super) computes: Nanos,
}

/// Returns a page cache for so many bytes of data.
pub(super) fn cache(bytes: u64, write_mode: WriteMode) -> CacheConfig {
    let free = Watermarks::of_memory(Bytes::new(bytes), 0).high * PAGE_SIZE;
    CacheConfig { write_mode, ..CacheConfig::new(Bytes::new(bytes + free), TaskId(0)) }
}

/// What some labs have besides.
#[derive(Default)]
struct Extra {
    cache: Option<CacheConfig>,
    /// The power can be cut.
    is_cut: bool,
}

/// The disk that every client opens.
struct Disk(u64);

impl Exports for Disk {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn export(&self, _name: &str) -> Result<Export, Refusal> {
        Ok(Export::new(self.0))
    }
}

/// Options of a client that asks what is allocated: STRUCTURED_REPLY, and SET_META_CONTEXT of the
/// export without a name, with `base:allocation`.
const ASKS_ALLOCATION: [&[u8]; 2] = [
    b"IHAVEOPT\0\0\0\x08\0\0\0\0",
    b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation",
];

/// Returns a session in which a client that asks for nothing but these options, block sizes
/// neither, has opened a disk of so many bytes.
fn session(size: u64, options: &[&[u8]]) -> Box<Transmission> {
    let disk = Disk(size);
    let mut session = Session::new(SessionConfig::default());
    let flags = [0, 0, 0, 3];
    assert_eq!(session.step(&flags, &disk).1, Step::Continue);
    for option in options {
        assert_eq!(session.step(option, &disk), (option.len(), Step::Continue));
    }
    let export_name = b"IHAVEOPT\0\0\0\x01\0\0\0\0";
    assert!(matches!(session.step(export_name, &disk).1, Step::Opened(_)));
    session.take_output();
    Box::new(Transmission::new(session))
}

impl Lab {
    /// A device with a scheduler and the tenants of a text.
    pub(super) fn new(device: &str, faults: &[&str], scheduler: &str, tenants: &str) -> Self {
        Self::build(device, faults, scheduler, tenants, Extra::default())
    }

    /// The same, with a page cache.
    pub(super) fn cached(
        device: &str,
        faults: &[&str],
        scheduler: &str,
        tenants: &str,
        cache: CacheConfig,
    ) -> Self {
        Self::build(device, faults, scheduler, tenants, Extra { cache: Some(cache), is_cut: false })
    }

    /// The same, with a device whose power can be cut.
    pub(super) fn with_power_cuts(
        device: &str,
        faults: &[&str],
        scheduler: &str,
        cache: Option<CacheConfig>,
    ) -> Self {
        Self::build(device, faults, scheduler, "", Extra { cache, is_cut: true })
    }

    fn build(device: &str, faults: &[&str], scheduler: &str, tenants: &str, extra: Extra) -> Self {
        let Extra { cache, is_cut } = extra;
        let device = Fault::parse(profiles::open(device, 1).expect("a device"), 1, faults)
            .expect("good faults");
        let mut config = device.description().stack_config();
        config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler");
        let rules = config.kernel.rules();
        config.limits.validate(&rules).expect("good limits");
        let size = device.description().size.bytes().get();
        let file = parse("t.toml", tenants, &rules).expect("good tenants");
        let tenants = TenantPlan::new(&[], Some(&file)).expect("a tree");
        let mut stack = Stack::new(config).expect("a stack");
        stack.control_mut().watch();
        let settings = Settings::new(&mut stack, &tenants, Instant::ZERO).expect("good settings");
        let next_request = Rc::new(Cell::new(Instant::MAX));
        let computed = Rc::new(Cell::new(Nanos::ZERO));
        let (next, spent) = (Rc::clone(&next_request), Rc::clone(&computed));
        let clock = VirtualClock { now: Instant::ZERO, computed: spent, next_request: next };
        let mut disk = SimulatedDisk::new(device, clock);
        if is_cut {
            disk.track_writes();
        }
        if let Some(cache) = &cache {
            disk.reserve_frames(cache.memory).expect("memory");
        }
        let (send, receive) = channel();
        let memory = RequestMemory::new(REQUEST_MEMORY);
        let plan = tenants.clone();
        let block = stack.config().limits.logical_block_size;
        let parts = DeviceParts { stack, block, disk, cache, settings, plan };
        let device = DeviceLoop::new(parts, ErrorLog::new("lab", |_| {}), memory);
        Self {
            device,
            send,
            receive,
            clients: Vec::new(),
            tenants,
            size,
            next_request,
            computed,
            computes: Nanos::ZERO,
        }
    }

    pub(super) fn now(&mut self) -> Instant {
        self.device.engine.now()
    }

    /// Opens the export of a client: the whole device.
    pub(super) fn open(&mut self, client: u32, tenant: &str) -> Wire {
        self.open_range(client, tenant, 0, self.size)
    }

    /// Opens an export that is a range of the device.
    pub(super) fn open_range(&mut self, client: u32, tenant: &str, base: u64, size: u64) -> Wire {
        self.open_with(client, tenant, (base, size), &[])
    }

    /// Opens it as a client that may ask what is allocated.
    pub(super) fn open_asking(&mut self, client: u32, tenant: &str, range: (u64, u64)) -> Wire {
        self.open_with(client, tenant, range, &ASKS_ALLOCATION)
    }

    fn open_with(
        &mut self,
        client: u32,
        tenant: &str,
        (base, size): (u64, u64),
        options: &[&[u8]],
    ) -> Wire {
        let found = self.tenants.tenants.iter().position(|known| known.path == tenant);
        let tenant = TenantId(found.map_or(0, |index| index as u32 + 1));
        let charged = Charged { tenant, ioprio: IoPrio::NONE, base, size };
        let ((reader, memory), (writer, written)) = (channel(), channel());
        let line = Line::Threads { reader, writer, socket: None, last: Arc::new(LastBytes::new()) };
        let front = FrontEnd::Stream { protocol: session(size, options), line };
        let input = Incoming::new(256 << 10).expect("memory");
        let requests = self.device.memory_of(charged.tenant);
        self.device.add(Client::new(
            Origin { connection: client, identity: Arc::default(), export: String::new() },
            charged,
            (front, Some(input)),
            EndNotice::default(),
            requests,
        ));
        let (send, data) = (self.send.clone(), BTreeMap::new());
        Wire {
            client,
            send,
            memory,
            written,
            unsent: Vec::new(),
            came: Vec::new(),
            data,
            read: Vec::new(),
        }
    }

    /// Asks for something on a connection, and runs until it is answered. Returns whether it
    /// succeeded.
    pub(super) fn ask(&mut self, wire: &mut Wire, request: &Request, payload: &[u8]) -> bool {
        wire.ask(request, payload);
        loop {
            if let Some((cookie, is_ok)) = wire.answer() {
                assert_eq!(cookie, request.cookie);
                return is_ok;
            }
            assert!(self.step(), "an answer comes");
        }
    }

    /// Lets time pass.
    pub(super) fn wait_for(&mut self, span: Nanos) {
        let end = self.now().saturating_add(span);
        while self.now() < end && self.step() {}
    }

    /// Lets a client leave.
    pub(super) fn close(&mut self, mut wire: Wire) {
        wire.leave();
        while self.device.tasks.contains_key(&wire.client) {
            self.step();
        }
    }

    /// Ends the device's loop, as if the server were told to stop. Returns the disk, and whether it
    /// has everything that was written.
    pub(super) fn end(mut self) -> (SimulatedDisk<AnyDevice, VirtualClock>, bool) {
        let receive = &self.receive;
        let is_whole = self.device.end_cache(&mut |device| device.turn(receive) || device.wait());
        (self.device.engine.into_parts().1, is_whole)
    }

    /// Returns which clients have buffers.
    pub(super) fn with_buffers(&self) -> Vec<bool> {
        self.device.clients.iter().flatten().map(|client| client.buffers.exist()).collect()
    }

    /// Returns how many bytes a client's lists of what is sent have room for.
    pub(super) fn kept(&self, client: usize) -> usize {
        let client = self.device.clients[client].as_ref().expect("a client that is there");
        client.replies.capacity()
    }

    /// Adds a client that uses the whole device.
    pub(super) fn add(&mut self, tenant: &'static str, habit: Habit) {
        self.add_at(tenant, (0, self.size), habit);
    }

    /// Adds a client that uses a range of the device: its first byte, and its bytes.
    pub(super) fn add_at(&mut self, tenant: &'static str, range: (u64, u64), habit: Habit) {
        // One that connects again has the numbers that follow.
        let number = (self.clients.len() as u32) << 24;
        let mut actor = Actor::new(self, number, tenant, range, habit);
        let now = self.now();
        actor.act(self, now);
        self.clients.push(actor);
    }

    /// Returns the time in which the device had something to do.
    pub(super) fn busy(&mut self) -> Nanos {
        let now = self.now();
        self.device.engine.stack_mut().disk_stats(now).utilisation.exact
    }

    /// The device's thread computes for so many requests: nothing else happens meanwhile.
    pub(super) fn compute_for(&self, requests: u64) {
        self.computed.set(self.computed.get() + Nanos::new(self.computes.get() * requests));
    }

    /// Does what the device can do now. Returns false if there was nothing.
    pub(super) fn turn(&mut self) -> bool {
        self.device.turn(&self.receive)
    }

    /// Runs one step, and takes the replies. Returns false if nothing can happen any more.
    pub(super) fn step(&mut self) -> bool {
        self.step_until(Instant::MAX)
    }

    /// The same, and waits for no longer than until `end`.
    fn step_until(&mut self, end: Instant) -> bool {
        let mut moved = self.turn();
        let (now, mut next) = (self.now(), end);
        let mut clients = std::mem::take(&mut self.clients);
        for client in &mut clients {
            let (has_asked, again) = client.act(self, now);
            moved |= has_asked;
            next = next.min(again);
        }
        self.clients = clients;
        self.next_request.set(next);
        moved || self.device.wait()
    }

    /// Runs for a time, and then counts from nothing.
    pub(super) fn warm_up(&mut self, span: Nanos) {
        self.run(span);
        self.clients.iter_mut().for_each(Actor::reset);
    }

    /// Runs for a time.
    pub(super) fn run(&mut self, span: Nanos) {
        let end = self.now().saturating_add(span);
        while self.now() < end {
            assert!(self.step_until(end), "something happens until the end");
        }
    }
}
