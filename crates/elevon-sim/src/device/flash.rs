//! A flash device: SATA and NVMe SSDs, UFS, eMMC and Optane are its profiles.
//!
//! ```text
//!            command stage      dies (M, own queue each)       link (per direction)        host
//!  read   ▶  c(s), serial   ▶   s/U accesses of t_R each   ▶   s/B_link (+ c(s))      ▶    t_fix
//!  write  ▶  c(s), serial   ▶   link   ▶   buffer, full: wait  ▶  t_fix       buffer ▶ programs ▶ dies
//! ```
//!
//! Every resource is served in FIFO order. Commands reach the command stage and the dies in the
//! order of submission, so the time at which each is next free is enough state. The link follows a
//! stage with varying delay: a second event queues a command there when its data is ready.
//! Otherwise a slow die would delay commands that really overtake it (a third of the throughput of
//! 16 dies, by measurement). A read with several die accesses is ready at the earliest time from
//! which the link can transfer it without a gap.
//!
//! Reads of sectors that were never written cost the same as other reads. Not modelled: a
//! translation layer, wear, suspension of programs, reads served from the write buffer, weighted
//! queue arbitration, interrupt coalescing.
//!
//! A command costs O(log n) in the commands in flight (a heap for the reads in the dies), O(s/U) in
//! its die accesses, and O(1) for the rest. With several hardware queues a busy command stage takes
//! them in turn, one command each.

mod buffer;
mod config;
mod streams;

use std::collections::VecDeque;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, RequestId};

use super::queue::EventQueue;
use super::service::{Distribution, Service};
use super::{Description, Device};
use crate::chance::{draw, mix64};
use buffer::{Arrived, Buffer};
use config::Cost;
pub use config::{FlashConfig, PARAMETERS};

/// Purposes of draws.
const READS: u64 = 0xf1_0001;
const COLLECTION: u64 = 0xf1_0002;

/// The state of a command in flight.
#[derive(Clone, Copy, Debug)]
enum CommandKind {
    Read,
    Write { durable: bool },
    Flush,
    Discard,
}

/// A command in flight.
#[derive(Clone, Copy, Debug)]
struct CommandSlot {
    request: RequestId,
    sequence: u64,
    kind: CommandKind,
    start: u64,
    bytes: u64,
    queue: u16,
    /// Aborted by the host: it is still processed but not reported.
    aborted: bool,
    /// When the command stage accepted it; the read-rate cap counts from here.
    fetched: u64,
    /// How long it occupies the link.
    transfer: u64,
}

/// A link: when it is free, and the commands that wait for it.
#[derive(Clone, Debug)]
struct Link {
    free: u64,
    ready: EventQueue<u32>,
}

/// A cap on the rate of reads over all stages.
#[derive(Clone, Debug)]
struct Pace {
    cost: Cost,
    free: u64,
}

/// The submission queues behind a busy command stage, served round robin.
#[derive(Clone, Debug)]
struct SubmissionQueues {
    queues: Vec<VecDeque<u32>>,
    waiting: usize,
    cursor: usize,
}

impl SubmissionQueues {
    fn take(&mut self) -> u32 {
        loop {
            self.cursor = if self.cursor + 1 >= self.queues.len() { 0 } else { self.cursor + 1 };
            if let Some(slot) = self.queues[self.cursor].pop_front() {
                self.waiting -= 1;
                return slot;
            }
        }
    }
}

/// A flash device.
#[derive(Clone, Debug)]
pub struct Flash {
    description: Description,
    config: FlashConfig,
    service: Service,
    read_seed: u64,
    unit_shift: u32,
    stall_below: u32,
    miss_below: u32,
    read_cost: (Cost, Cost),
    write_cost: (Cost, Cost),
    slots: Vec<CommandSlot>,
    free_slots: Vec<u32>,
    /// Commands that each hardware queue has in the device.
    held: Vec<u32>,
    /// Most of these that a hardware queue can have.
    most_held: u32,
    /// Commands that the command stage may still take: the others of `held` wait for completions.
    room: u64,
    submission: SubmissionQueues,
    command_free: u64,
    die_free: Vec<u64>,
    /// The unit in each die's register, and since when; used if `page_register` is set.
    registers: Vec<(u64, u64)>,
    /// The link of reads and, if `duplex` is set, that of writes.
    links: Vec<Link>,
    pace: Option<Pace>,
    /// Writes whose data will arrive at the buffer, in order of time.
    arriving: VecDeque<(u64, Arrived)>,
    /// The result of `weigh` for a write, by slot.
    weighed: Vec<Option<Arrived>>,
    buffer: Buffer,
    done: EventQueue<u32>,
    /// No internal step is due before this.
    quiet_until: u64,
}

impl Flash {
    /// Returns a device with these parameters and `description`. `config.unit` must be a power of
    /// two.
    pub fn new(config: FlashConfig, description: Description, seed: u64) -> Self {
        assert!(config.unit.is_power_of_two(), "checked where the parameters are read");
        let share = |ppm: u64| (u64::from(u32::MAX) * ppm / 1_000_000) as u32;
        let queues = config.hw_queues as usize;
        let link = Link { free: 0, ready: EventQueue::with_capacity(64) };
        Self {
            service: Service::new(
                Distribution::at(config.distribution),
                config.read_time,
                config.jitter,
            ),
            read_seed: draw(seed, READS, 0),
            unit_shift: config.unit.trailing_zeros(),
            stall_below: share(config.stall_share),
            miss_below: share(config.stall_share).saturating_add(share(config.map_miss)),
            read_cost: config.costs(false),
            write_cost: config.costs(true),
            slots: Vec::new(),
            free_slots: Vec::new(),
            held: vec![0; queues],
            most_held: match config.at_once {
                0 => description.queue_depth,
                at_once => description.queue_depth.min(at_once as u32 + 1),
            },
            room: if config.at_once == 0 { u64::MAX } else { config.at_once },
            submission: SubmissionQueues {
                queues: vec![VecDeque::new(); queues],
                waiting: 0,
                cursor: 0,
            },
            command_free: 0,
            die_free: vec![0; config.dies as usize],
            registers: vec![(u64::MAX, 0); config.dies as usize],
            links: vec![link; 1 + config.duplex as usize],
            pace: (config.read_rate > 0)
                .then(|| Pace { cost: Cost::new(0, 0, 0, config.read_rate), free: 0 }),
            arriving: VecDeque::new(),
            weighed: Vec::new(),
            buffer: Buffer::new(&config, draw(seed, COLLECTION, 0)),
            done: EventQueue::with_capacity(64),
            quiet_until: u64::MAX,
            description,
            config,
        }
    }

    /// Returns its parameters.
    pub fn config(&self) -> &FlashConfig {
        &self.config
    }

    fn occupy(&mut self, slot: CommandSlot) -> u32 {
        if let Some(key) = self.free_slots.pop() {
            self.slots[key as usize] = slot;
            return key;
        }
        self.slots.push(slot);
        self.weighed.push(None);
        self.slots.len() as u32 - 1
    }

    /// Processes a command in the command stage at `now`, when the stage is free.
    #[inline]
    fn fetch(&mut self, now: u64, key: u32) {
        self.room -= 1;
        let slot = &mut self.slots[key as usize];
        slot.fetched = now;
        let (bytes, start, sequence) = (slot.bytes, slot.start, slot.sequence);
        match slot.kind {
            CommandKind::Read => {
                self.command_free = now + self.read_cost.0.of(bytes);
                slot.transfer = self.read_cost.1.of(bytes);
                let ready = self.read_dies(start, bytes, sequence);
                self.quiet_until = self.quiet_until.min(ready);
                self.links[0].ready.push(Instant::new(ready), sequence, key);
            }
            CommandKind::Write { .. } => {
                self.command_free = now + self.write_cost.0.of(bytes);
                slot.transfer = self.write_cost.1.of(bytes);
                self.quiet_until = self.quiet_until.min(self.command_free);
                self.weighed[key as usize] = Some(self.buffer.weigh(key, start, bytes));
                let link = self.links.last_mut().expect("there is at least one link");
                link.ready.push(Instant::new(self.command_free), sequence, key);
            }
            CommandKind::Flush => {
                self.command_free = now + self.write_cost.0.of(0);
                self.flush(key, sequence);
            }
            CommandKind::Discard => {
                self.command_free = now + self.write_cost.0.of(0);
                let end = self.command_free + self.config.discard_time + self.config.write_latency;
                self.done.push(Instant::new(end), sequence, key);
            }
        }
    }

    /// Lets the command stage take a command in place of one that completed at `now`. If one waits
    /// for that, it is taken at once.
    #[inline]
    fn make_room(&mut self, now: u64) {
        self.room += 1;
        if self.room == 1 && self.submission.waiting > 0 {
            let key = self.submission.take();
            self.fetch(now.max(self.command_free), key);
        }
    }

    /// Reserves the die accesses of a read. Returns when the link can start to transfer it without
    /// a gap.
    #[inline]
    fn read_dies(&mut self, start: u64, bytes: u64, sequence: u64) -> u64 {
        let chance = mix64(self.read_seed ^ sequence);
        let mut time = self.service.draw((chance >> 32) as u32);
        let mut stall = 0;
        let rare = chance as u32;
        if rare < self.miss_below {
            if rare < self.stall_below {
                stall = self.config.stall_time;
            } else {
                time *= 2;
            }
        }
        let unit = start >> self.unit_shift;
        let last = (start + bytes.max(1) - 1) >> self.unit_shift;
        let mut die = (unit as u32 % self.die_free.len() as u32) as usize;
        let mut ready = self.read_unit(die, unit, time + stall);
        if last == unit {
            return ready;
        }
        let ns_per_byte = self.read_cost.1;
        let transfer = |bytes: u64| ns_per_byte.of(bytes) - ns_per_byte.of(0);
        for unit in unit + 1..=last {
            die = if die + 1 == self.die_free.len() { 0 } else { die + 1 };
            let before = (unit << self.unit_shift) - start;
            ready = ready.max(self.read_unit(die, unit, time).saturating_sub(transfer(before)));
        }
        ready
    }

    /// Reserves one die access, or finds the unit in the die's register. Returns when its data is
    /// ready.
    #[inline]
    fn read_unit(&mut self, die: usize, unit: u64, time: u64) -> u64 {
        let free = &mut self.die_free[die];
        if self.config.page_register == 1 {
            let (held, since) = self.registers[die];
            if held == unit {
                return since.max(self.command_free);
            }
        }
        *free = self.command_free.max(*free) + time;
        if self.config.page_register == 1 {
            self.registers[die] = (unit, *free);
        }
        *free
    }

    /// Makes a flush wait until everything accepted before it has left the buffer. With power-loss
    /// protection it does not wait.
    fn flush(&mut self, key: u32, sequence: u64) {
        let (target, cost) = match self.config.power_loss_protection {
            0 => (self.buffer.accepted(), self.config.flush_time),
            _ => (0, self.config.write_latency),
        };
        if target <= self.buffer.drained() {
            self.done.push(Instant::new(self.command_free + cost), sequence, key);
        } else {
            self.buffer.durable.push_back((target, key, cost));
        }
    }

    /// Gives the link to the command whose data is ready.
    fn take_link(&mut self, link: usize, now: u64, key: u32) {
        let slot = self.slots[key as usize];
        let free = self.links[link].free.max(now);
        match slot.kind {
            CommandKind::Read => {
                let mut end = free + slot.transfer;
                if let Some(pace) = &mut self.pace {
                    pace.free = pace.free.max(slot.fetched) + pace.cost.of(slot.bytes);
                    end = end.max(pace.free);
                }
                self.links[link].free = end;
                self.done.push(Instant::new(end + self.config.fixed_latency), slot.sequence, key);
            }
            CommandKind::Write { .. } => {
                let end = free + slot.transfer;
                self.links[link].free = end;
                let weighed =
                    self.weighed[key as usize].take().expect("weighed when it was fetched");
                self.arriving.push_back((end, weighed));
            }
            CommandKind::Flush | CommandKind::Discard => unreachable!("moves no data"),
        }
    }

    /// Handles data that arrives at the buffer, or waits in front of it.
    fn arrive(&mut self, now: u64, write: Arrived) {
        if self.buffer.waiting.is_empty() && self.buffer.has_room(write) {
            self.accept(now, write);
        } else {
            self.buffer.waiting.push_back(write);
        }
    }

    fn accept(&mut self, now: u64, write: Arrived) {
        let target = self.buffer.accept(now, write, &self.die_free);
        let slot = &self.slots[write.slot as usize];
        match slot.kind {
            CommandKind::Write { durable: true } => {
                let cost = self.config.program_time + self.config.write_latency;
                self.buffer.durable.push_back((target, write.slot, cost));
            }
            CommandKind::Write { durable: false }
            | CommandKind::Read
            | CommandKind::Flush
            | CommandKind::Discard => {
                self.done.push(
                    Instant::new(now + self.config.write_latency),
                    slot.sequence,
                    write.slot,
                );
            }
        }
    }

    /// Ends a step of the drain: completes flushes, and accepts waiting writes into the free room.
    fn drain(&mut self) {
        let now = self.buffer.next().expect("called when a step is due");
        self.buffer.end_step(&mut self.die_free);
        while let Some(&write) = self.buffer.waiting.front() {
            if !self.buffer.has_room(write) {
                break;
            }
            self.buffer.waiting.pop_front();
            self.accept(now, write);
        }
        while let Some(&(target, key, cost)) = self.buffer.durable.front() {
            if target > self.buffer.drained() {
                break;
            }
            self.buffer.durable.pop_front();
            self.done.push(Instant::new(now + cost), self.slots[key as usize].sequence, key);
        }
    }

    /// Runs every internal step that is due at `now`, in order of time.
    #[inline]
    fn advance(&mut self, now: u64) {
        if self.quiet_until <= now {
            self.run_steps(now);
        }
    }

    fn run_steps(&mut self, now: u64) {
        loop {
            let fetch = self.next_fetch();
            let ready = |link: Option<&Link>| {
                link.and_then(|l| l.ready.next_at()).map_or(u64::MAX, Instant::get)
            };
            let (first, second) = (ready(self.links.first()), ready(self.links.get(1)));
            let arrive = self.arriving.front().map_or(u64::MAX, |&(at, _)| at);
            let drain = self.buffer.next().unwrap_or(u64::MAX);
            let next = fetch.min(first).min(second).min(arrive).min(drain);
            if next > now || next == u64::MAX {
                self.quiet_until = next;
                return;
            }
            if next == drain {
                self.drain();
            } else if next == arrive {
                let (at, write) = self.arriving.pop_front().expect("looked at above");
                self.arrive(at, write);
            } else if next == fetch {
                let key = self.submission.take();
                self.fetch(next, key);
            } else {
                let link = usize::from(next != first);
                let (at, key) =
                    self.links[link].ready.pop_due(Instant::new(next)).expect("looked at above");
                self.take_link(link, at.get(), key);
            }
        }
    }

    /// Returns when the command stage takes the next command that waits for it; `u64::MAX` if none
    /// does, or if it waits for the completion of another.
    #[inline]
    fn next_fetch(&self) -> u64 {
        if self.submission.waiting > 0 && self.room > 0 { self.command_free } else { u64::MAX }
    }

    /// Returns the earliest time at which the command at the head of a link can complete, if no new
    /// command arrives.
    #[inline]
    fn link_bound(&self, link: &Link) -> u64 {
        let Some((at, key)) = link.ready.first() else { return u64::MAX };
        let slot = &self.slots[key as usize];
        let latency = match slot.kind {
            CommandKind::Read => self.config.fixed_latency,
            CommandKind::Write { .. } | CommandKind::Flush | CommandKind::Discard => {
                self.config.write_latency
            }
        };
        at.get().max(link.free) + slot.transfer + latency
    }
}

impl Device for Flash {
    fn description(&self) -> &Description {
        &self.description
    }

    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        let queue = command.queue.index().min(self.held.len() - 1);
        if self.held[queue] >= self.most_held {
            return Accept::DeviceBusy;
        }
        self.advance(now.get());
        let forced = command.flags.intersects(Flags::FUA | Flags::PREFLUSH);
        let kind = match command.op {
            Op::Read => CommandKind::Read,
            Op::Write | Op::ZoneAppend => {
                CommandKind::Write { durable: forced && self.config.power_loss_protection == 0 }
            }
            Op::Flush => CommandKind::Flush,
            Op::Discard | Op::WriteZeroes | Op::SecureErase => CommandKind::Discard,
        };
        let (start, bytes) = (command.sector.byte_offset().get(), command.bytes.get());
        let key = self.occupy(CommandSlot {
            request: command.request,
            sequence: command.sequence,
            kind,
            start,
            bytes,
            queue: queue as u16,
            aborted: false,
            fetched: 0,
            transfer: 0,
        });
        self.held[queue] += 1;
        let now = now.get();
        let is_busy = || self.command_free > now || self.submission.waiting > 0;
        if self.room == 0 || self.held.len() > 1 && is_busy() {
            self.submission.queues[queue].push_back(key);
            self.submission.waiting += 1;
            self.quiet_until = self.quiet_until.min(self.next_fetch());
        } else {
            // A single queue is served in order, so the stage can be reserved ahead.
            self.fetch(now.max(self.command_free), key);
        }
        Accept::Ok
    }

    fn next_event(&self) -> Option<Instant> {
        let mut next = self.done.next_at().map_or(u64::MAX, Instant::get);
        for link in &self.links {
            next = next.min(self.link_bound(link));
        }
        if let Some(&(at, _)) = self.arriving.front() {
            next = next.min(at + self.config.write_latency);
        }
        next = next.min(self.next_fetch());
        if self.buffer.is_awaited() {
            next = next.min(self.buffer.next().unwrap_or(u64::MAX));
        }
        (next != u64::MAX).then(|| Instant::new(next))
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.advance(now.get());
        while let Some((at, key)) = self.done.pop_due(now) {
            let slot = self.slots[key as usize];
            self.free_slots.push(key);
            self.make_room(at.get());
            if !slot.aborted {
                self.held[usize::from(slot.queue)] -= 1;
                let CommandSlot { request, sequence, bytes, .. } = slot;
                return Some(Completion {
                    request,
                    sequence,
                    status: Status::Ok,
                    bytes: Bytes::new(bytes),
                });
            }
        }
        None
    }

    /// O(slots): aborts are rare.
    fn abort(&mut self, _now: Instant, command: &Command) -> bool {
        let free = &self.free_slots;
        let found = self.slots.iter().enumerate().position(|(key, s)| {
            s.sequence == command.sequence && !s.aborted && !free.contains(&(key as u32))
        });
        let Some(key) = found else { return false };
        let slot = &mut self.slots[key];
        slot.aborted = true;
        self.held[usize::from(slot.queue)] -= 1;
        true
    }
}

#[cfg(test)]
mod tests;
