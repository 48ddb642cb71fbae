//! Clients of a device in virtual time. Each keeps requests in flight as a client with so many
//! would: one that is answered is followed by the next at once.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use elevon_core::histogram::Histogram;
use elevon_core::ioprio::IoPrio;
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, Nanos, TenantId};
use elevon_formats::tenants::parse;
use elevon_host::Alarm;
use elevon_nbd::{Command, ReplyFormat, Request};
use elevon_sim::device::{AnyDevice, Device as _, Fault};
use elevon_sim::profiles;
use elevon_testkit::Rng;
use elevon_workload::backend::Backend as _;
use elevon_workload::settings::Settings;
use elevon_workload::tenants::TenantPlan;

use crate::client::{Charged, Reply};
use crate::device::{Device, ErrorLog, Message};
use crate::simulated::{Clock, SimulatedDisk};

/// A clock that only a wait moves.
#[derive(Debug, Default)]
pub(super) struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&mut self) -> Instant {
        self.0
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        self.0 = self.0.max(until.unwrap_or(self.0));
        until.is_some()
    }
    fn alarm(&mut self) -> io::Result<Alarm> {
        Alarm::new()
    }
}

/// What a client asks for, again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) tenant: &'static str,
    pub(super) is_write: bool,
    pub(super) bytes: u64,
    pub(super) depth: usize,
    /// In order, or at random places.
    pub(super) in_order: bool,
}

/// A client with what it got.
pub(super) struct LabClient {
    load: Load,
    replies: Receiver<Reply>,
    /// When each request in flight was sent, by cookie.
    sent: Vec<(u64, Instant)>,
    next: u64,
    rng: Rng,
    pub(super) done: u64,
    pub(super) latency: Histogram,
}

impl LabClient {
    pub(super) fn in_flight(&self) -> usize {
        self.sent.len()
    }
}

pub(super) struct Lab {
    pub(super) device: Device<SimulatedDisk<AnyDevice, VirtualClock>>,
    pub(super) send: Sender<Message>,
    receive: Receiver<Message>,
    pub(super) clients: Vec<LabClient>,
    tenants: TenantPlan,
    size: u64,
}

/// The format of the replies of clients that ask for nothing.
pub(super) fn plain() -> ReplyFormat {
    elevon_nbd::Session::new(elevon_nbd::SessionConfig::default()).reply_format()
}

impl Lab {
    /// A device with a scheduler and the tenants of a text.
    pub(super) fn new(device: &str, faults: &[&str], scheduler: &str, tenants: &str) -> Self {
        Self::build(device, faults, scheduler, tenants, false)
    }

    /// The same, with a device whose power can be cut.
    pub(super) fn to_be_cut(device: &str, faults: &[&str], scheduler: &str) -> Self {
        Self::build(device, faults, scheduler, "", true)
    }

    fn build(device: &str, faults: &[&str], scheduler: &str, tenants: &str, is_cut: bool) -> Self {
        let device = Fault::parse(profiles::open(device, 1).expect("a device"), 1, faults).expect("good faults");
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
        let mut disk = SimulatedDisk::new(device, VirtualClock::default());
        if is_cut {
            disk.track_writes();
        }
        let (send, receive) = channel();
        let device = Device::new(stack, disk, settings, &tenants, ErrorLog::new("lab", |_| {}));
        Self { device, send, receive, clients: Vec::new(), tenants, size }
    }

    pub(super) fn now(&mut self) -> Instant {
        self.device.disk.now()
    }

    /// Opens the export of a client, and returns its replies.
    pub(super) fn open(&mut self, client: u32, tenant: &str) -> Receiver<Reply> {
        let found = self.tenants.tenants.iter().position(|known| known.path == tenant);
        let tenant = TenantId(found.map_or(0, |index| index as u32 + 1));
        let (replies, queue) = channel();
        let charged = Charged { tenant, ioprio: IoPrio::NONE, base: 0 };
        self.send.send(Message::Open { client, export: String::new(), charged, replies }).expect("the device is there");
        queue
    }

    pub(super) fn request(&self, client: u32, request: Request, payload: Vec<u8>) {
        let message = Message::Request { client, request, format: plain(), payload };
        self.send.send(message).expect("the device is there");
    }

    /// Adds a client that begins at once.
    pub(super) fn add(&mut self, load: Load) {
        let client = self.clients.len() as u32;
        let replies = self.open(client, load.tenant);
        let rng = Rng(u64::from(client) + 1);
        let (sent, latency) = (Vec::new(), Histogram::new());
        self.clients.push(LabClient { load, replies, sent, next: 0, rng, done: 0, latency });
        for _ in 0..load.depth {
            self.next_of(client as usize);
        }
    }

    fn next_of(&mut self, index: usize) {
        let (now, blocks) = (self.now(), self.size / self.clients[index].load.bytes);
        let client = &mut self.clients[index];
        let (cookie, load) = (client.next, client.load);
        client.next += 1;
        client.sent.push((cookie, now));
        let place = if load.in_order { cookie % blocks } else { client.rng.below(blocks) };
        let command = if load.is_write { Command::Write } else { Command::Read };
        let (offset, length) = (place * load.bytes, load.bytes);
        let payload = if load.is_write { vec![cookie as u8; length as usize] } else { Vec::new() };
        self.request(index as u32, Request { command, fua: false, df: false, cookie, offset, length }, payload);
    }

    /// Runs one step, and takes the replies. Returns false if nothing can happen any more.
    pub(super) fn step(&mut self) -> bool {
        let moved = self.device.turn(&self.receive);
        let now = self.now();
        let mut answered = Vec::new();
        for (index, client) in self.clients.iter_mut().enumerate() {
            while let Ok(reply) = client.replies.try_recv() {
                assert_eq!(reply.bytes[4..8], [0; 4], "the request succeeded");
                let cookie = u64::from_be_bytes(reply.bytes[8..16].try_into().expect("8 bytes"));
                let at = client.sent.iter().position(|(sent, _)| *sent == cookie).expect("an answer to a question");
                let (_, sent) = client.sent.swap_remove(at);
                client.done += 1;
                client.latency.add(now.since(sent).get());
                answered.push(index);
            }
        }
        let is_idle = answered.is_empty() && !moved;
        answered.into_iter().for_each(|index| self.next_of(index));
        !is_idle || self.device.wait()
    }

    /// Runs for a time, and then counts from nothing.
    pub(super) fn warm_up(&mut self, span: Nanos) {
        self.run(span);
        for client in &mut self.clients {
            (client.done, client.latency) = (0, Histogram::new());
        }
    }

    /// Runs for a time.
    pub(super) fn run(&mut self, span: Nanos) {
        let end = self.now().saturating_add(span);
        while self.now() < end {
            assert!(self.step(), "clients always have something in flight");
        }
    }
}
