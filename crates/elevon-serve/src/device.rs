//! The thread of a device: its stack, its disk, and the requests of its clients.

mod counts;
mod errors;
mod tenants;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use elevon_core::layout::Layout;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::{Done, Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, DeviceOffset, Instant, LayoutId, TaskId, TenantId};
use elevon_formats::cgroup::Setting;
use elevon_host::Alarm;
use elevon_nbd::{Command, ReplyFormat, Request};
use elevon_workload::settings::Settings;
use elevon_workload::tenants::{Tenant, TenantPlan};

use crate::client::{BUFFERS, Charged, Client, Reply};
use crate::disk::Disk;
use crate::pieces::{PART, Part, Pieces};
use crate::view::{ClientView, DeviceView};
pub(crate) use counts::{BUCKETS, Counts, RequestCounts};
pub(crate) use errors::ErrorLog;
use errors::Owner;
use tenants::Tenants;

/// From this number of parts on, a client's parts are submitted under a plug, as io_uring does, so
/// that neighbours merge.
const PLUGGED: usize = 3;

/// A message to a device.
pub(crate) enum Message {
    /// A client opened an export.
    Open { client: u32, export: String, charged: Charged, replies: Sender<Reply> },
    /// A request of a client, with the payload of a WRITE.
    Request { client: u32, request: Request, format: ReplyFormat, payload: Vec<u8> },
    /// A client has no more requests.
    Close { client: u32 },
    /// Is the device's thread alive?
    Ping { answer: Sender<()> },
    /// What is the device doing?
    View { answer: Sender<DeviceView> },
    /// Set something of a tenant, or with no tenant something of the device.
    Set { tenant: Option<String>, settings: Vec<Setting>, answer: Sender<Result<(), String>> },
    /// Make these the tenants, with these settings.
    Tenants { tenants: Vec<Tenant>, answer: Sender<Result<Vec<TenantId>, String>> },
    /// The server ends.
    Stop,
}

/// The way to a device's thread.
#[derive(Clone)]
pub(crate) struct DeviceHandle {
    /// The name by which exports and people know it.
    pub(crate) name: String,
    pub(crate) messages: Sender<Message>,
    pub(crate) alarm: Alarm,
}

impl DeviceHandle {
    /// Sends a message. Returns false if the device's thread has ended.
    pub(crate) fn send(&self, message: Message) -> bool {
        let is_sent = self.messages.send(message).is_ok();
        self.alarm.ring();
        is_sent
    }

    /// Sends a question, and waits for its answer. `None` if the device's thread has ended.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = channel();
        self.send(question(answer));
        answered.recv().ok()
    }
}

/// A device that is served.
pub(crate) struct Device<D> {
    stack: Stack,
    disk: D,
    settings: Settings,
    tenants: Tenants,
    errors: ErrorLog,
    counts: Counts,
    layout: LayoutId,
    clients: BTreeMap<u32, Client>,
    /// The client of each task.
    tasks: Vec<Option<u32>>,
    is_stopping: bool,
}

impl<D: Disk> Device<D> {
    /// `plan` is what the settings were made of.
    pub(crate) fn new(mut stack: Stack, disk: D, settings: Settings, plan: &TenantPlan, errors: ErrorLog) -> Self {
        let tenants = Tenants::of(plan);
        let layout = stack.register_layout(Layout::contiguous(PART, 0));
        Self {
            stack,
            disk,
            settings,
            tenants,
            errors,
            counts: Counts::default(),
            layout,
            clients: BTreeMap::new(),
            tasks: Vec::new(),
            is_stopping: false,
        }
    }

    /// Serves until the server ends and every client has left.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let moved = self.turn(messages);
            if self.is_stopping && self.clients.is_empty() {
                return;
            }
            if !moved {
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
        moved | self.submit_all()
    }

    /// Waits for a completion, a message, or the next time at which something is to be done.
    /// Returns false if nothing can happen any more, or the wait was interrupted.
    pub(crate) fn wait(&mut self) -> bool {
        let delayed = self.clients.values().filter(|client| client.has_next()).map(|client| client.delayed);
        let timers = [self.stack.next_timer(), self.settings.next_change(), delayed.min()];
        self.disk.wait(timers.into_iter().flatten().min())
    }

    /// Takes completions, and does what its time has come for. Returns false if nothing happened.
    fn step(&mut self) -> bool {
        let now = self.disk.now();
        let mut moved = false;
        while let Some(completion) = self.disk.poll_completion() {
            self.stack.handle_completion(now, completion, &mut self.disk);
            moved = true;
        }
        if self.stack.next_timer().is_some_and(|at| at <= now) {
            self.stack.handle_timers(now, &mut self.disk);
            moved = true;
        }
        if self.settings.next_change().is_some_and(|at| at <= now) {
            self.settings.run_changes(&mut self.stack, now);
            moved = true;
        }
        while let Some(done) = self.stack.poll_done() {
            self.on_done(now, &done);
            moved = true;
        }
        let woken = self.stack.poll_unblocked();
        assert_eq!(woken, None, "nobody here sleeps for a tag");
        moved
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Open { client, export, charged, replies } => {
                let free = self.tasks.iter().position(Option::is_none).unwrap_or_else(|| {
                    self.tasks.push(None);
                    self.tasks.len() - 1
                });
                self.tasks[free] = Some(client);
                self.clients.insert(client, Client::new(TaskId(free as u32), export, charged, replies));
            }
            Message::Request { client, request, format, payload } => {
                let Some(client) = self.clients.get_mut(&client) else { return };
                let arrived = self.disk.now();
                if matches!(request.command, Command::BlockStatus { .. }) {
                    let mut bytes = Vec::new();
                    let at = client.charged.base + request.offset;
                    let extents = self.disk.extents(at, request.length);
                    format.extents(&mut bytes, &request, &extents);
                    let took = self.disk.now().since(arrived);
                    self.counts.take(client.charged.tenant, &request, Status::Ok, took);
                    // A client that is gone needs no reply.
                    let _ = client.replies.send(Reply { bytes, weight: Some(0) });
                    return;
                }
                client.add(Pieces::new(arrived, request, format, payload, |no_hole| self.disk.zero(no_hole)));
            }
            Message::Close { client } => {
                if let Some(found) = self.clients.get_mut(&client) {
                    found.is_closing = true;
                    self.forget_if_over(client);
                }
            }
            // Whoever asked may be gone by now.
            Message::Ping { answer } => drop(answer.send(())),
            Message::View { answer } => drop(answer.send(self.view())),
            Message::Set { tenant, settings, answer } => drop(answer.send(self.set(tenant.as_deref(), &settings))),
            Message::Tenants { tenants, answer } => {
                let now = self.disk.now();
                let replaced = self.tenants.replace(&mut self.stack, &mut self.settings, now, &tenants);
                drop(answer.send(replaced));
            }
            Message::Stop => self.is_stopping = true,
        }
    }

    fn set(&mut self, tenant: Option<&str>, new: &[Setting]) -> Result<(), String> {
        let id = match tenant {
            None => TenantId(0),
            Some(path) => self.tenants.find(path).ok_or_else(|| format!("{path}: no such tenant"))?,
        };
        let now = self.disk.now();
        self.tenants.set(&mut self.stack, &mut self.settings, now, id, new)
    }

    /// Returns what the device is doing; its name is left empty.
    fn view(&mut self) -> DeviceView {
        let now = self.disk.now();
        let clients = self.clients.iter();
        DeviceView {
            name: String::new(),
            at: now,
            disk: self.stack.disk_stats(now),
            in_flight: self.stack.ios_in_flight(),
            failure: self.disk.failure(),
            clients: clients.map(|(&connection, c)| ClientView { connection, requests: c.requests() }).collect(),
            tenants: self.tenants.view(&mut self.stack, now),
            requests: self.counts.clone(),
        }
    }

    /// Submits what clients have buffers for, a part of each in turn. Returns false if there was
    /// nothing.
    fn submit_all(&mut self) -> bool {
        let now = self.disk.now();
        let due = |client: &Client| client.has_next() && client.delayed <= now;
        let names: Vec<u32> = self.clients.iter().filter(|(_, client)| due(client)).map(|(name, _)| *name).collect();
        for name in &names {
            self.submit(*name);
        }
        !names.is_empty()
    }

    fn submit(&mut self, name: u32) {
        let client = self.clients.get_mut(&name).expect("a client that waits");
        if !client.has_buffers {
            self.disk.prepare_buffers(client.task, BUFFERS, PART);
            client.has_buffers = true;
        }
        let (task, charged) = (client.task, client.charged);
        let mut ios = Vec::new();
        while let Some((slot, part, pieces)) = client.next() {
            if part.op == Op::Write {
                let buffer = self.disk.buffer(task, slot.into());
                let buffer = buffer.map(|buffer| &mut buffer[..part.length as usize]);
                match (buffer, pieces.data(&part)) {
                    (Some(buffer), Some(data)) => buffer.copy_from_slice(data),
                    (Some(buffer), None) => buffer.fill(0),
                    (None, _) => {}
                }
            }
            ios.push(io(task, charged, self.layout, slot, &pieces.request, &part));
        }
        let is_plugged = ios.len() >= PLUGGED;
        let now = self.disk.now();
        if is_plugged {
            self.stack.begin_batch(now, task);
        }
        for io in ios {
            let now = self.disk.now();
            self.stack.submit(now, io, &mut self.disk);
        }
        if is_plugged {
            let now = self.disk.now();
            self.stack.end_batch(now, task, &mut self.disk);
        }
    }

    fn on_done(&mut self, now: Instant, done: &Done) {
        let name = self.tasks[done.task.index()].expect("the task of a client");
        let client = self.clients.get_mut(&name).expect("a client in flight");
        let slot = done.token as u32;
        let (pieces, part) = client.part(slot);
        if done.status.is_ok()
            && let Some(place) = pieces.place(&part)
            && let Some(buffer) = self.disk.buffer(done.task, done.token)
        {
            place.copy_from_slice(&buffer[..part.length as usize]);
        }
        if let Some(pieces) = client.end(slot, done.status) {
            let weight = Some(Pieces::weight(&pieces.request));
            self.counts.take(client.charged.tenant, &pieces.request, pieces.status(), now.since(pieces.arrived));
            let tenant = self.tenants.path(client.charged.tenant);
            self.errors.take(now, &pieces, &Owner { client: name, export: &client.export, tenant });
            // A client that is gone needs no reply.
            let _ = client.replies.send(Reply { bytes: pieces.reply(), weight });
        }
        if self.stack.control().is_watched() {
            let delay = self.stack.control_mut().delay_of(now, client.charged.tenant);
            client.delayed = client.delayed.max(now.saturating_add(delay));
        }
        self.forget_if_over(name);
    }

    fn forget_if_over(&mut self, name: u32) {
        if self.clients.get(&name).is_some_and(Client::is_over) {
            let client = self.clients.remove(&name).expect("found above");
            self.tasks[client.task.index()] = None;
            let now = self.disk.now();
            self.stack.handle_exit(now, client.task);
        }
    }
}

/// Returns the I/O of a part.
fn io(task: TaskId, charged: Charged, layout: LayoutId, slot: u32, request: &Request, part: &Part) -> Io {
    let Charged { tenant, ioprio, base } = charged;
    // The client waits for its writes, so writeback throttling is not for them.
    let flags = Flags::IDLE | if part.fua { Flags::FUA | Flags::SYNC } else { Flags::NONE };
    Io {
        task,
        token: slot.into(),
        op: part.op,
        flags,
        sector: DeviceOffset::new(base + request.offset + part.at).sector(),
        bytes: Bytes::new(part.length),
        ioprio,
        write_hint: 0,
        tenant,
        layout,
        // As io_uring, which hands an I/O without a tag to a worker.
        may_block: false,
    }
}
