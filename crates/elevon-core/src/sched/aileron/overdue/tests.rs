//! Hostile tenants beside one that asks for a request now and then: whatever they send, it waits no
//! longer than docs/explanation/aileron.md states.

use crate::ioprio::{IoPrio, PrioClass};
use crate::kernel::Kernel;
use crate::op::Op;
use crate::request::State;
use crate::sched::aileron::Aileron;
use crate::sched::testing::{Bed, Rng};
use crate::sched::{Scheduler, View};
use crate::units::{HwQueue, Instant, Nanos, RequestId, Sector, Sectors, TaskId, TenantId};
use alloc::vec::Vec;

const REQUESTS: usize = 300;

/// What a hostile tenant does.
#[derive(Clone, Copy, Debug)]
struct Hostile {
    /// Bits: reads, writes, TRIMs, WRITE_ZEROES.
    ops: u64,
    /// Sectors of a request, at most.
    sectors: u64,
    /// 0: always the same place, 1: in order, 2: anywhere.
    places: u64,
    /// Requests that it keeps waiting or in the device.
    depth: usize,
    /// It sends for so many milliseconds, and then none for as many; 0 for always.
    pause: u64,
    tasks: u64,
    /// After so many requests another task goes on; 0 for never.
    reconnects: u64,
    weight: u16,
    class: PrioClass,
}

/// A device of servers that take requests in order. What moves no data takes `free` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Device {
    servers: usize,
    /// Nanoseconds of a request, and of each sector.
    time: u64,
    each: u64,
    free: u64,
    is_disk: bool,
}

impl Device {
    fn time_of(&self, op: Op, sectors: u64) -> u64 {
        if matches!(op, Op::Read | Op::Write) { self.time + self.each * sectors } else { self.free }
    }
}

struct Rig {
    bed: Bed<Aileron>,
    device: Device,
    rng: Rng,
    /// When each server is free, and what is in the device until when.
    servers: Vec<u64>,
    inside: Vec<(u64, RequestId)>,
    arrived: Vec<Instant>,
    /// The longest time for which a request of the victim has waited to be dispatched, and how
    /// many were.
    longest: Nanos,
    served: u64,
    /// The longest time of a request in the device.
    largest: u64,
}

const VICTIM: TaskId = TaskId(0);

impl Rig {
    fn new(device: Device, victim: u16, hostile: &[Hostile], seed: u64) -> Self {
        let mut aileron = Aileron::new(REQUESTS);
        aileron.on_queue_info(device.is_disk);
        aileron.set_group(TenantId(1), TenantId(0), victim);
        for (tenant, hostile) in (2..).zip(hostile) {
            aileron.set_group(TenantId(tenant), TenantId(0), hostile.weight);
        }
        Self {
            bed: Bed::new(Kernel::V7_3, aileron, REQUESTS),
            device,
            rng: Rng(seed),
            servers: alloc::vec![0; device.servers],
            inside: Vec::new(),
            arrived: alloc::vec![Instant::ZERO; REQUESTS],
            longest: Nanos::ZERO,
            served: 0,
            largest: 0,
        }
    }

    fn send(
        &mut self,
        task: TaskId,
        tenant: u32,
        op: Op,
        sector: u64,
        sectors: u64,
        class: PrioClass,
    ) {
        let id = self.bed.prepare(op, sector, class);
        let request = &mut self.bed.requests[id];
        (request.task, request.tenant, request.sectors) =
            (task, TenantId(tenant), Sectors::new(sectors));
        (request.sector, request.ioprio) = (Sector::new(sector), IoPrio::new(class, 4));
        self.arrived[id.index()] = self.bed.now;
        let Bed { requests, rules, scheduler, now } = &mut self.bed;
        scheduler.insert(*now, View { requests, rules }, id, false);
    }

    fn dispatch(&mut self) {
        loop {
            let Bed { requests, rules, scheduler, now } = &mut self.bed;
            let Some(id) = scheduler.dispatch(*now, View { requests, rules }, HwQueue(0)) else {
                return;
            };
            let request = &mut requests[id];
            (request.state, request.issued) = (State::InFlight, *now);
            let time = self.device.time_of(request.op, request.sectors.get());
            self.largest = self.largest.max(time);
            if request.task == VICTIM {
                self.longest = self.longest.max(now.since(self.arrived[id.index()]));
                self.served += 1;
            }
            let free = self.servers.iter_mut().min().expect("a server");
            *free = (*free).max(now.get()) + time;
            self.inside.push((*free, id));
        }
    }

    /// Ends what has ended by now. Returns the tenants.
    fn end(&mut self) -> Vec<TenantId> {
        let now = self.bed.now.get();
        let mut tenants = Vec::new();
        while let Some(at) = self.inside.iter().position(|(end, _)| *end <= now) {
            let (_, id) = self.inside.remove(at);
            tenants.push(self.bed.requests[id].tenant);
            self.bed.finish(id);
        }
        tenants
    }

    /// Lets the victim and the hostile tenants run for some seconds.
    fn run(&mut self, think: Nanos, hostile: &[Hostile], seconds: u64) {
        let end = Nanos::from_secs(seconds).get();
        let mut at_work = alloc::vec![0_usize; hostile.len()];
        let (mut sent, mut next_place) = (alloc::vec![0_u64; hostile.len()], 0);
        let mut victim_at = Some(Nanos::from_millis(3).get());
        while self.bed.now.get() < end {
            let now = self.bed.now.get();
            if victim_at.is_some_and(|at| at <= now) {
                victim_at = None;
                self.send(VICTIM, 1, Op::Read, 8 * self.served, 8, PrioClass::Be);
            }
            for (at, one) in hostile.iter().enumerate() {
                let is_at_work =
                    one.pause == 0 || (now / (one.pause * 1_000_000)).is_multiple_of(2);
                while is_at_work && at_work[at] < one.depth {
                    let op = loop {
                        let bit = self.rng.below(4);
                        if one.ops >> bit & 1 == 1 {
                            break [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes]
                                [bit as usize];
                        }
                    };
                    let sectors = if self.rng.one_in(2) { one.sectors } else { 8 };
                    next_place += sectors;
                    let place = [0, next_place, self.rng.below(1 << 30) * 8][one.places as usize];
                    let generation = sent[at].checked_div(one.reconnects).unwrap_or(0) % 500;
                    let task =
                        1 + at as u64 * 10_000 + generation * one.tasks + sent[at] % one.tasks;
                    if one.reconnects > 0
                        && sent[at].is_multiple_of(one.reconnects)
                        && generation > 0
                    {
                        let now = self.bed.now;
                        let before = task - one.tasks.min(task - 1);
                        self.bed.scheduler.on_task_exit(now, TaskId(before as u32));
                    }
                    (sent[at], at_work[at]) = (sent[at] + 1, at_work[at] + 1);
                    self.send(
                        TaskId(task as u32),
                        at as u32 + 2,
                        op,
                        (1 << 40) + place,
                        sectors,
                        one.class,
                    );
                }
            }
            self.dispatch();
            let wakeup = self.bed.scheduler.next_wakeup();
            let times = self
                .inside
                .iter()
                .map(|(end, _)| *end)
                .chain(victim_at)
                .chain([wakeup.get(), now + 500_000]);
            let next = times.min().expect("there is always one").max(now);
            self.bed.now = Instant::new(next);
            for tenant in self.end() {
                match tenant.0 {
                    1 => victim_at = Some(next + think.get()),
                    other => at_work[other as usize - 2] -= 1,
                }
            }
            if wakeup.get() <= next {
                self.bed.scheduler.on_wakeup(Instant::new(next));
            }
        }
        self.bed.check();
    }

    /// Returns the time for which the victim waits at most, if shares are equal.
    fn bound(&self, tenants: u64) -> Nanos {
        let of_turns = 2 * 200 * tenants;
        let few = Nanos::from_millis(if self.device.is_disk { of_turns } else { 20 }).get();
        Nanos::new(if self.device.is_disk { few } else { few.max(50 * self.largest) })
    }
}

fn draw(rng: &mut Rng, most_depth: usize) -> Hostile {
    Hostile {
        ops: if rng.one_in(2) { 1 << rng.below(4) } else { 1 + rng.below(15) },
        sectors: [8, 64, 256, 2560][rng.below(4) as usize],
        places: rng.below(3),
        depth: 1 + rng.below(most_depth as u64) as usize,
        pause: [0, 0, 1, 7, 60, 300][rng.below(6) as usize],
        tasks: [1, 1, 4, 32][rng.below(4) as usize],
        reconnects: [0, 0, 1, 20][rng.below(4) as usize],
        weight: 100,
        class: [PrioClass::Be, PrioClass::Be, PrioClass::Rt, PrioClass::Idle]
            [rng.below(4) as usize],
    }
}

fn device(rng: &mut Rng) -> Device {
    match rng.below(5) {
        0 => Device { servers: 1, time: 10_000_000, each: 2_000, free: 20_000, is_disk: true },
        1 => Device { servers: 8, time: 2_000_000, each: 1_000, free: 50_000, is_disk: false },
        2 => Device { servers: 16, time: 90_000, each: 150, free: 15_000, is_disk: false },
        3 => Device { servers: 1, time: 300_000, each: 5_000, free: 1_500_000, is_disk: false },
        _ => Device { servers: 2, time: 80_000, each: 200, free: 400_000, is_disk: false },
    }
}

#[test]
fn a_flood_of_trims_does_not_stop_a_reader() {
    for op in [2, 3] {
        let hostile = Hostile {
            ops: 1 << op,
            sectors: 8,
            places: 0,
            depth: 256,
            pause: 0,
            tasks: 8,
            reconnects: 0,
            weight: 100,
            class: PrioClass::Be,
        };
        let device = Device { servers: 4, time: 80_000, each: 100, free: 4_000, is_disk: false };
        let mut rig = Rig::new(device, 100, &[hostile], 1);
        rig.run(Nanos::from_millis(2), &[hostile], 3);
        assert!(rig.longest <= Nanos::from_millis(1), "{:?}", rig.longest);
        assert!(rig.served >= 1_400, "{} of 1,430", rig.served);
    }
}

#[test]
fn no_request_waits_beyond_the_bound_whatever_others_send() {
    for seed in 1..=60 {
        let mut rng = Rng(seed);
        let device = device(&mut rng);
        let count = 1 + rng.below(3);
        let hostile: Vec<Hostile> =
            (0..count).map(|_| draw(&mut rng, 250 / count as usize)).collect();
        let think = Nanos::from_micros([0, 100, 2_000, 40_000][rng.below(4) as usize]);
        let mut rig = Rig::new(device, 100, &hostile, seed);
        rig.run(think, &hostile, if device.is_disk { 8 } else { 1 });
        let bound = rig.bound(1 + count);
        assert!(rig.served > 2, "random seed {seed}: {device:?} {hostile:?}");
        assert!(
            rig.longest <= bound,
            "random seed {seed}: {:?} of {bound:?}; {device:?} {hostile:?}",
            rig.longest
        );
    }
}

/// A heavier tenant waits for less long, also beside many, and a lighter one still has its share.
#[test]
fn weights_shorten_the_bound() {
    let hostile = |weight| Hostile { weight, class: PrioClass::Be, ..draw(&mut Rng(7), 40) };
    let device = Device { servers: 1, time: 300_000, each: 1_000, free: 300_000, is_disk: false };
    let longest = |victim: u16| {
        let hostile: Vec<Hostile> =
            (0..6).map(|_| Hostile { pause: 0, depth: 40, ..hostile(100) }).collect();
        let mut rig = Rig::new(device, victim, &hostile, 5);
        rig.run(Nanos::from_millis(1), &hostile, 4);
        rig.longest
    };
    let [light, even, heavy] = [10, 100, 1000].map(longest);
    assert!(heavy <= even && even <= light, "{heavy:?}, {even:?}, {light:?}");
    assert!(even <= Nanos::from_millis(150), "{even:?}");
}
