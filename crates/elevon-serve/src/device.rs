//! The thread of a device: the engine of its stack and its disk, and the requests of its clients.

mod ahead;
pub(crate) mod backpressure;
mod block_status;
mod byte_range;
mod cached;
pub(crate) mod client;
pub(crate) mod counts;
pub(crate) mod devices;
mod edges;
mod errors;
mod exclusion;
pub(crate) mod message;
mod pieces;
mod queued;
pub(crate) mod request_memory;
mod rounds;
mod served;
mod submitted;
mod tenants;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::slice;
use std::sync::mpsc::Receiver;

use elevon_cache::page_cache::CacheConfig;
use elevon_core::kernel::Kernel;
use elevon_core::layout::Layout;
use elevon_core::op::Op;
use elevon_core::stack::{Done, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, TaskId, TenantId};
use elevon_engine::{CacheUser as _, Engine, Token};
use elevon_formats::cgroup::Setting;
use elevon_host::{BellId, Host, Incoming, SlotBytes, SocketEvent};
use elevon_workload::settings::Settings;
use elevon_workload::tenants::{TenantChange, TenantPlan, in_vain};

use crate::device::client::{Client, FrontEnd, Origin};
use crate::device::pieces::{PART, Pieces};
use crate::device::request_memory::RequestMemory;
use crate::disks::Disk;
use crate::log::Level;
use crate::net::line::{self, Line, LineEvent, Report};
use crate::net::opened::{Front, Opened};
use crate::request::DiskRequest;
use block_status::StatusBudget;
pub(crate) use cached::DeviceCache;
use cached::FLUSHER;
use counts::Counts;
use edges::take_read;
pub(crate) use errors::ErrorLog;
use errors::Owner;
use exclusion::Exclusion;
use message::Message;
use rounds::Rounds;
use tenants::Tenants;
use view::{ClientView, DeviceView, WaitingRequests};

/// Time after which the clients that are left wait until completions and messages were looked at:
/// what came meanwhile may be of another tenant.
const TURN: Nanos = Nanos::from_millis(1);

/// A BLOCK_STATUS whose answer has to be found out.
struct Question {
    task: TaskId,
    request: DiskRequest,
    arrived: Instant,
}

/// What a device that is served is made of.
pub struct DeviceParts<D> {
    /// The stack.
    pub stack: Stack,
    /// The bytes of which offsets and lengths of its I/O are multiples: a power of two, at least
    /// the stack's logical block, and at most 64 KiB.
    pub block: u32,
    /// The disk.
    pub disk: D,
    /// The page cache, if there is one. The disk has frames for it ([`Disk::reserve_frames`]).
    pub cache: Option<CacheConfig>,
    /// What is in force for the tenants.
    pub settings: Settings,
    /// What the settings were made of.
    pub plan: TenantPlan,
}

/// A device that is served.
pub(crate) struct DeviceLoop<D> {
    engine: Engine<D>,
    /// Bytes of a block of the device.
    block: u32,
    cache: Option<Box<DeviceCache>>,
    settings: Settings,
    tenants: Tenants,
    errors: ErrorLog,
    counts: Counts,
    exclusion: Exclusion,
    /// Clients with a request that waits until fewer of its tenant exclude others.
    to_exclude: BTreeSet<TaskId>,
    status: StatusBudget,
    layout: LayoutId,
    /// Clients by task.
    clients: Vec<Option<Client>>,
    /// The task of each client.
    tasks: BTreeMap<u32, TaskId>,
    /// The client of each socket of the ring.
    sockets: Vec<TaskId>,
    /// The client of each bell of the ring.
    bells: BTreeMap<BellId, TaskId>,
    /// Clients to be looked at: something has come for them.
    queue: Rounds,
    /// Clients whose I/O the device does not take before an instant.
    delayed: BTreeSet<(Instant, TaskId)>,
    /// What clients asked of the allocation and the disk has to find out, by the disk's number.
    questions: BTreeMap<u64, Question>,
    /// When buffers that were not used are given back; `None` if no client has any.
    look_for_idle: Option<Instant>,
    /// The memory of all clients' buffers.
    memory: RequestMemory,
    /// The same for each tenant's.
    memories: BTreeMap<TenantId, RequestMemory>,
    /// [`RequestMemory::waits`] when buffers were last given back.
    waits: u64,
    /// Clients with a request for which there was too little of it, the longest waiting first.
    short: Vec<TaskId>,
    /// When they are looked at again: clients of other devices may have given some back.
    look_for_memory: Option<Instant>,
    /// Lists to be used again: parts by their buffers, and buffers.
    parts: Vec<u32>,
    slots: Vec<SlotBytes>,
    is_stopping: bool,
}

impl<D: Disk> DeviceLoop<D> {
    /// Makes a device of its parts.
    pub(crate) fn new(parts: DeviceParts<D>, errors: ErrorLog, memory: RequestMemory) -> Self {
        let DeviceParts { mut stack, block, disk, cache, settings, plan } = parts;
        let tenants = Tenants::of(&plan);
        let layout = stack.register_layout(Layout::contiguous(PART, 0));
        Self {
            cache: cache.map(|config| Box::new(DeviceCache::new(config, &stack))),
            engine: Engine::new(stack, disk),
            block,
            settings,
            tenants,
            errors,
            counts: Counts::default(),
            exclusion: Exclusion::default(),
            to_exclude: BTreeSet::new(),
            status: StatusBudget::default(),
            layout,
            clients: Vec::new(),
            tasks: BTreeMap::new(),
            sockets: Vec::new(),
            bells: BTreeMap::new(),
            queue: Rounds::default(),
            delayed: BTreeSet::new(),
            questions: BTreeMap::new(),
            look_for_idle: None,
            waits: memory.waits(),
            memory,
            memories: BTreeMap::new(),
            short: Vec::new(),
            look_for_memory: None,
            parts: Vec::new(),
            slots: Vec::new(),
            is_stopping: false,
        }
    }

    /// Serves until the server ends and every client has left. Returns false if something that was
    /// written did not reach the device.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) -> bool {
        loop {
            let moved = self.turn(messages);
            if self.is_stopping && self.tasks.is_empty() {
                let is_whole = self.end_cache(&mut |device| device.turn(messages) || device.wait());
                self.errors.log_untold();
                return is_whole;
            }
            if !self.queue.is_empty() {
                // A client whose turn has ended goes on after what has come for others. A wait that
                // ends at once sends and receives.
                let now = self.engine.now();
                self.engine.wait(now);
            } else if !moved {
                self.wait();
            }
        }
    }

    /// Does everything that can be done now. Returns false if there was nothing.
    pub(crate) fn turn(&mut self, messages: &Receiver<Message>) -> bool {
        let mut moved = self.step();
        while let Ok(message) = messages.try_recv() {
            self.on_message(message);
            moved = true;
        }
        while let Some(event) = self.engine.backend_mut().host().and_then(Host::poll_socket) {
            match event {
                SocketEvent::Received(id, input, result) => {
                    self.on_received(self.sockets[id.index()], input, result);
                }
                SocketEvent::Cancelled(id, input) => {
                    self.on_cancelled(self.sockets[id.index()], input);
                }
                SocketEvent::Sent(id, outgoing, result) => {
                    self.on_sent(self.sockets[id.index()], outgoing, result);
                }
            }
            moved = true;
        }
        while let Some(bell) = self.engine.backend_mut().host().and_then(Host::poll_bell) {
            if let Some(&task) = self.bells.get(&bell) {
                if let Some(queues) = self.client(task).front.queues() {
                    queues.silence();
                }
                self.enqueue(task);
            }
            moved = true;
        }
        // A client that is queued again has its turn after completions and messages, and so have
        // all that are left if there are many.
        let began = self.engine.now();
        let mut before = began;
        for _ in 0..self.queue.len() {
            let Some((tenant, task)) = self.queue.pop() else { break };
            self.run_client(task);
            let now = self.engine.now();
            self.queue.charge(tenant, now.since(before));
            (before, moved) = (now, true);
            if now.since(began) >= TURN {
                break;
            }
        }
        moved
    }

    /// Waits for a completion, a message, or the next time at which something is to be done.
    /// Returns false if nothing can happen any more.
    pub(crate) fn wait(&mut self) -> bool {
        let delayed = self.delayed.first().map(|(until, _)| *until);
        let of_cache = self.cache.as_ref().and_then(|cache| cache.next_timer());
        let of_log = self.errors.next_timer();
        let of_buffers = [self.look_for_idle, self.look_for_memory].into_iter().flatten().min();
        let timers = [self.settings.next_change(), delayed, of_buffers, of_cache, of_log];
        self.engine.wait(timers.into_iter().flatten().min().unwrap_or(Instant::MAX))
    }

    /// Takes completions, and does what its time has come for. Returns false if nothing happened.
    fn step(&mut self) -> bool {
        let now = self.engine.now();
        let mut moved = self.engine.step(now);
        while let Some((level, news)) = self.engine.backend_mut().poll_news() {
            self.errors.news(now, level, &news);
            moved = true;
        }
        if self.engine.backend().is_lost() {
            self.errors.lost();
        }
        while let Some((number, found)) = self.engine.backend_mut().poll_allocation() {
            let Question { task, request, arrived } =
                self.questions.remove(&number).expect("a question");
            self.client(task).requests.questions -= 1;
            self.answer_allocation(task, &request, arrived, found);
            self.enqueue(task);
            moved = true;
        }
        while let Some(change) = self.settings.take_due(now) {
            self.make(now, &change);
            moved = true;
        }
        self.errors.handle_timers(now);
        if self.look_for_idle.is_some_and(|at| at <= now) {
            self.take_back_buffers(now);
        }
        if self.look_for_memory.is_some_and(|at| at <= now) {
            self.look_for_memory();
        }
        while let Some(&done) = self.engine.poll_done(now) {
            self.on_done(now, &done);
            moved = true;
        }
        while let Some(&(until, task)) = self.delayed.first()
            && until <= now
        {
            self.delayed.pop_first();
            self.enqueue(task);
        }
        while let Some(task) = self.engine.poll_unblocked() {
            let cache = self.cache.as_mut().expect("only flushers of a cache sleep for a tag");
            cache.unblock(now, task, &mut self.engine);
        }
        if let Some(cache) = &mut self.cache {
            cache.run_timers(now);
            moved |= cache.go_on_ahead(now, self.engine.stack());
            moved |= self.pump_cache();
        }
        moved
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Open(opened, report) => self.open(*opened, report),
            Message::Line(LineEvent::Received { client, input, result }) => {
                if let Some(&task) = self.tasks.get(&client) {
                    self.on_received(task, input, result);
                }
            }
            Message::Line(LineEvent::Rang { client }) => {
                self.tasks.get(&client).copied().into_iter().for_each(|task| self.enqueue(task));
            }
            Message::Line(LineEvent::Sent { client, outgoing, result }) => {
                if let Some(&task) = self.tasks.get(&client) {
                    self.on_sent(task, outgoing, result);
                }
            }
            // The asking thread may be gone by now.
            Message::Ping { answer } => drop(answer.send(())),
            Message::View { answer } => drop(answer.send(self.view())),
            Message::Set { tenant, settings, is_part, answer } => {
                drop(answer.send(self.set(tenant.as_deref(), &settings, is_part)));
            }
            Message::Check { tenant, settings, is_part, answer } => {
                let id = self.find(&tenant);
                drop(answer.send(id.and_then(|id| {
                    self.tenants.check(self.engine.stack(), id, &settings, is_part)
                })));
            }
            Message::Faults { rules, answer } => {
                drop(answer.send(self.engine.backend_mut().set_faults(&rules)));
            }
            Message::Tenants { tenants, answer } => {
                let now = self.engine.now();
                let replaced = self.tenants.replace(
                    self.engine.stack_mut(),
                    &mut self.settings,
                    now,
                    &tenants,
                );
                drop(answer.send(replaced));
            }
            Message::Grow { answer } => drop(answer.send(self.grow())),
            Message::Finish { clients } => {
                let tasks: Vec<TaskId> =
                    clients.iter().filter_map(|client| self.tasks.get(client).copied()).collect();
                tasks.into_iter().for_each(|task| self.finish(task));
            }
            Message::Abandon { clients, answer } => drop(answer.send(self.abandon_all(&clients))),
            Message::Reopen { answer } => {
                if self.engine.backend_mut().reopen(answer) {
                    self.errors.reopened();
                    self.cache.iter_mut().for_each(|cache| cache.clear_loss());
                }
            }
            Message::Stop => self.stop(),
        }
    }

    /// Abandons clients. Returns the number of requests that stay unanswered of each.
    fn abandon_all(&mut self, clients: &[u32]) -> Vec<(u32, usize)> {
        let tasks = clients.iter().filter_map(|client| self.tasks.get_key_value(client));
        let meant: Vec<(u32, TaskId)> = tasks.map(|(&client, &task)| (client, task)).collect();
        // The server logs it; for the connection it is as if its client had left.
        let gone = || io::ErrorKind::BrokenPipe.into();
        let unanswered =
            meant.into_iter().map(|(client, task)| (client, self.abandon(task, gone())));
        unanswered.collect()
    }

    /// Stops the disk and removes all limits.
    fn stop(&mut self) {
        self.is_stopping = true;
        self.engine.backend_mut().stop();
        let now = self.engine.now();
        if let Err(error) =
            self.tenants.replace(self.engine.stack_mut(), &mut self.settings, now, &[])
        {
            self.errors.limits_stay(&error);
        }
    }

    /// Makes the device as large as its disk is now, in whole blocks. Returns its bytes before and
    /// after that; `None` if the disk has not grown. Clients that are there keep their sizes.
    fn grow(&mut self) -> Result<Option<(u64, u64)>, String> {
        let block = u64::from(self.block);
        let was = self.engine.stack().config().size.bytes().get() / block * block;
        let Some(now) = self
            .engine
            .backend_mut()
            .grown()
            .map(|size| size.bytes().get() / block * block)
            .filter(|now| *now > was)
        else {
            return Ok(None);
        };
        if let Some(cache) = &mut self.cache {
            cache.grow(was, now)?;
        }
        self.engine.stack_mut().grow(Bytes::new(now).sectors_floor());
        Ok(Some((was, now)))
    }

    /// Returns the kernel whose rules its stack follows.
    pub(crate) fn kernel(&self) -> Kernel {
        self.engine.stack().config().kernel
    }

    /// Makes a planned change, and logs it. At the end of the server no limit is set any more.
    fn make(&mut self, now: Instant, change: &TenantChange) {
        if self.is_stopping {
            return;
        }
        let TenantChange { at, tenant, setting } = change;
        let made = self.tenants.set(
            self.engine.stack_mut(),
            &mut self.settings,
            now,
            *tenant,
            slice::from_ref(setting),
        );
        let whose = match tenant.index() {
            0 => String::new(),
            _ => format!("tenant {}: ", self.tenants.path(*tenant)),
        };
        let seconds = at.get() as f64 / Nanos::from_secs(1).get() as f64;
        let what = format!(
            "the change at {seconds} s: {whose}{} = {}",
            setting.name(),
            setting.text(None)
        );
        match made {
            Ok(()) => self.errors.news(now, Level::Info, &what),
            Err(error) => self.errors.news(now, Level::Error, &format!("{what}: refused: {error}")),
        }
    }

    fn find(&self, path: &str) -> Result<TenantId, String> {
        self.tenants.find(path).ok_or_else(|| format!("{path}: no such tenant"))
    }

    fn set(
        &mut self,
        tenant: Option<&str>,
        new: &[Setting],
        is_part: bool,
    ) -> Result<Vec<&'static str>, String> {
        let id = match tenant {
            None => TenantId(0),
            Some(path) => self.find(path)?,
        };
        let now = self.engine.now();
        self.tenants.take(self.engine.stack_mut(), &mut self.settings, now, id, (new, is_part))?;
        let control = self.engine.stack().control();
        let divides = control.io_cost().qos().enable || control.shares_a_limit(id);
        Ok(in_vain(self.engine.stack().config().scheduler.info(), divides, new))
    }

    /// Returns what the device is doing; its name is left empty.
    fn view(&mut self) -> DeviceView {
        let now = self.engine.now();
        let view = |(&connection, &task): (&u32, &TaskId)| {
            let requests =
                self.clients[task.index()].as_ref().map_or(0, |client| client.requests.count());
            ClientView { connection, requests }
        };
        let clients = self.tasks.iter().map(view).collect();
        let mut waiting = BTreeMap::<TenantId, WaitingRequests>::new();
        for client in self.clients.iter().flatten().filter(|client| client.requests.count() > 0) {
            let tenant = client.charged.tenant;
            let of = waiting.entry(tenant).or_default();
            of.requests += client.requests.count() as u64;
            of.oldest =
                client.requests.oldest().map_or(of.oldest, |at| now.since(at).max(of.oldest));
            of.held_by = self.engine.stack().control().holds(tenant);
        }
        let in_use: Vec<TenantId> =
            self.clients.iter().flatten().map(|client| client.charged.tenant).collect();
        let cache = self.cache.as_ref().map(|cache| cache.view());
        DeviceView {
            name: String::new(),
            at: now,
            disk: self.engine.stack_mut().disk_stats(now),
            in_flight: self.engine.stack().ios_in_flight(),
            failure: self.engine.backend().failure(),
            faults: self.engine.backend().faults(),
            is_lost: self.engine.backend().is_lost()
                || cache.as_ref().is_some_and(|cache| cache.lost.is_some()),
            clients,
            tenants: self.tenants.view(self.engine.stack_mut(), now, &in_use),
            requests: self.counts.clone(),
            waiting,
            cache,
        }
    }

    /// Takes a connection.
    fn open(&mut self, opened: Opened, report: Report) {
        let Opened { number, identity, export, charged, front, mut left } = opened;
        let origin = Origin { connection: number, identity, export };
        if self.cache.is_some() && self.tasks.len() >= FLUSHER.index() {
            let message =
                format!("a device with a page cache takes {} connections at a time", FLUSHER.0);
            left.error = Some(io::Error::other(message));
            return;
        }
        match self.front_end(number, front, report) {
            Ok(front) => {
                let memory = self.memory_of(charged.tenant);
                self.add(Client::new(origin, charged, front, left, memory));
            }
            // Its socket is closed, which is all that it is told.
            Err(error) => left.error = Some(error),
        }
    }

    /// Makes the front end of a connection, and memory for what a stream sends.
    fn front_end(
        &mut self,
        number: u32,
        front: Front,
        report: Report,
    ) -> io::Result<(FrontEnd, Option<Incoming>)> {
        let host = self.engine.backend_mut().host();
        match front {
            Front::Stream { protocol, socket, secure, input } => {
                let (line, input) = Line::open(number, socket, secure, &input, host, report)?;
                Ok((FrontEnd::Stream { protocol, line }, Some(input)))
            }
            Front::Queues(queues) => {
                let bell = match host.filter(|host| host.takes_sockets()) {
                    Some(host) => Some(host.add_bell(queues.bell()?)),
                    None => {
                        line::wait_for_bell(number, queues.waiter(), report)?;
                        None
                    }
                };
                Ok((FrontEnd::Queues { queues, bell }, None))
            }
        }
    }

    /// Returns the memory for the requests of a tenant's clients.
    fn memory_of(&mut self, tenant: TenantId) -> RequestMemory {
        let memory = &self.memory;
        self.memories.entry(tenant).or_insert_with(|| memory.for_tenant()).clone()
    }

    /// Adds a client.
    fn add(&mut self, mut client: Client) {
        let free = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let task = TaskId(free as u32);
        match client.front {
            FrontEnd::Stream { line: Line::Ring(socket), .. } => {
                let at = socket.index();
                self.sockets.resize(self.sockets.len().max(at + 1), TaskId::IDLE);
                self.sockets[at] = task;
            }
            FrontEnd::Queues { bell: Some(bell), .. } => _ = self.bells.insert(bell, task),
            _ => {}
        }
        (client.task, client.block) = (task, self.block.into());
        if let Some(cache) = &mut self.cache {
            cache.admit(task, client.charged);
        }
        self.tasks.insert(client.origin.connection, task);
        self.clients[free] = Some(client);
        self.enqueue(task);
    }

    /// Lets [`Self::run_client`] run for a client in this turn.
    fn enqueue(&mut self, task: TaskId) {
        if let Some(client) = &mut self.clients[task.index()]
            && !std::mem::replace(&mut client.is_queued, true)
        {
            self.queue.push(client.charged.tenant, task);
        }
    }

    fn on_done(&mut self, now: Instant, done: &Done) {
        if let Some(cache) = &mut self.cache {
            if let Token::Cache(bio) = Token::decode(done.token) {
                let lost = cache.on_bio_done(now, bio, done);
                if lost > 0 {
                    self.errors.write_back(now, done.status, lost);
                }
                return;
            }
            if cache.on_device_done(now, done) {
                return;
            }
        }
        self.end_part(now, done.task, done.token as u32, done.status);
    }

    /// Answers a request that has finished, and starts those that waited for its end.
    fn end_request(&mut self, task: TaskId, index: usize, pieces: Pieces) {
        let has_changed = pieces.changed().is_some();
        self.client(task).answer(pieces);
        if has_changed && !self.exclusion.is_idle() {
            self.end_change((task, index));
        }
    }

    /// Nothing can be sent to a client any more: what its limits hold and what was not submitted is
    /// not carried out, so that neither it nor its tenant's other clients wait for that. Behind a
    /// page cache others may wait for the same pages, so that what was submitted is carried out.
    /// Returns how many of its requests were not answered.
    fn abandon(&mut self, task: TaskId, error: io::Error) -> usize {
        let client = self.client(task);
        let unanswered = client.requests.count();
        client.drop_replies(error);
        while let Some((index, pieces)) = self.client(task).fail_next(Status::Offline) {
            self.end_request(task, index, pieces);
        }
        if self.cache.is_none() {
            let now = self.engine.now();
            self.engine.stack_mut().withdraw(now, task, Status::Offline);
        }
        self.enqueue(task);
        unanswered
    }

    /// Ends a part of a request.
    fn end_part(&mut self, now: Instant, task: TaskId, slot: u32, status: Status) {
        let client = self.clients[task.index()].as_mut().expect("a client in flight");
        let (pieces, part) = client.part(slot);
        if status.is_ok() && part.op == Op::Read {
            take_read(self.engine.backend_mut(), task, slot, pieces, &part);
        }
        let data = pieces.data_of(&part);
        if let Some(queues) = client.front.queues() {
            let end = (part.op, status.is_ok());
            queued::take(self.engine.backend_mut(), task, slot, queues, data.as_ref(), end);
        }
        if let Some((index, pieces)) = client.end(slot, status) {
            // That of a client that is gone may not have been carried out, and is not answered.
            if !client.state.is_gone() || client.state.took_leave() {
                let counted = client.counted(pieces.status());
                self.counts.take(
                    client.charged.tenant,
                    &pieces.request,
                    counted,
                    now.since(pieces.arrived),
                );
                if !pieces.status().is_ok() {
                    let tenant = self.tenants.path(client.charged.tenant);
                    let owner = Owner { origin: &client.origin, tenant };
                    self.errors.log_failed(now, &pieces.request, pieces.status(), &owner);
                }
            }
            self.end_request(task, index, pieces);
        }
        if self.engine.stack().control().is_watched() {
            let client = self.clients[task.index()].as_mut().expect("a client in flight");
            let delay = self.engine.stack_mut().control_mut().delay_of(now, client.charged.tenant);
            client.delayed = client.delayed.max(now.saturating_add(delay));
        }
        self.enqueue(task);
    }
}
