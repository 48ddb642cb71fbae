//! Worked examples of the policy, and random steps against its invariants.

extern crate std;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::budget::Reason;
use super::entity::{Class, EntityId};
use super::injection::Inject;
use super::queue::{Candidate, goes_first};
use super::*;
use crate::ioprio::{IoPrio, PrioClass};
use crate::kernel::Kernel;
use crate::sched::testing::{Bed, Rng};
use crate::tags::word_shift;
use crate::units::{Nanos, Sectors, TenantId};

fn bed(tunables: &[(&str, i64)]) -> Bed<Bfq> {
    let mut bfq = Bfq::new(Kernel::V6_18.rules(), Hz(1000), 1, 256);
    for &(name, value) in tunables {
        bfq.set_tunable(name, value);
    }
    let mut bed = Bed::new(Kernel::V6_18, bfq, 256);
    bed.now = Instant::ZERO + Nanos::from_secs(1);
    bed
}

/// A request, as its differences from a sync read of eight sectors at level 4.
#[derive(Clone, Copy)]
struct As {
    task: u32,
    level: u8,
    class: PrioClass,
    sectors: u64,
    op: Op,
    tenant: u32,
}

const READ: As =
    As { task: 0, level: 4, class: PrioClass::Be, sectors: 8, op: Op::Read, tenant: 0 };

impl Bed<Bfq> {
    fn send(&mut self, how: As, sector: u64) -> RequestId {
        let id = self.prepare(how.op, sector, how.class);
        let request = &mut self.requests[id];
        request.task = TaskId(how.task);
        request.ioprio = IoPrio::new(how.class, how.level);
        request.sectors = Sectors::new(how.sectors);
        request.tenant = TenantId(how.tenant);
        self.insert_prepared(id, false);
        id
    }
    fn sync_queue(&self, task: u32) -> EntityId {
        self.scheduler.processes[task as usize].sync.expect("it has sent something")
    }
    fn queue_of(&mut self, task: u32) -> &mut BfqQueue {
        let q = self.sync_queue(task);
        self.scheduler.queue_mut(q)
    }
    fn pass(&mut self, us: u64) {
        self.now = self.now + Nanos::from_micros(us);
    }
    /// Calls the scheduler's timer, as the stack does, if it is due.
    fn wake(&mut self) {
        if self.scheduler.next_wakeup() <= self.now {
            self.scheduler.on_wakeup(self.now);
            self.check();
        }
    }
    /// Dispatches until no request is returned.
    fn pull(&mut self) -> Vec<RequestId> {
        core::iter::from_fn(|| self.dispatch()).collect()
    }
    fn sectors(&self, ids: &[RequestId]) -> Vec<u64> {
        ids.iter().map(|&id| self.requests[id].sector.get()).collect()
    }
}

#[test]
fn which_of_two_requests_goes_first() {
    let near = |sector| Candidate { sector, meta: false };
    let first = |a: Candidate, b: Candidate, last| {
        if goes_first(a, b, last, 32768, 2) { a.sector } else { b.sector }
    };
    assert_eq!(first(near(1100), near(960), 1000), 960);
    assert_eq!(first(near(1100), near(940), 1000), 1100);
    assert_eq!(first(near(1100), near(950), 1000), 1100);
    assert_eq!(first(near(950), near(1100), 1000), 1100);
    assert_eq!(first(near(67232), near(200000), 100000), 67232);
    assert_eq!(first(near(67231), near(200000), 100000), 200000);
    assert_eq!(first(near(10), near(20), 100000), 10);
    assert_eq!(first(Candidate { meta: true, ..near(9000) }, near(1001), 1000), 9000);
}

#[test]
fn the_oldest_request_goes_once_a_slot_when_it_is_late() {
    let mut bed = bed(&[("low_latency", 0)]);
    let start = bed.now;
    bed.send(READ, 500);
    bed.now = start + Nanos::from_millis(10);
    for sector in [100, 120, 140] {
        bed.send(READ, sector);
    }
    bed.scheduler.last.position = Sector::new(100);
    let q = bed.sync_queue(0);
    let first = bed.scheduler.tree.first(bed.scheduler.queue(q).sorted);
    bed.scheduler.queue_mut(q).next = first;
    bed.now = start + Nanos::from_millis(130);
    let sent = bed.pull();
    assert_eq!(bed.sectors(&sent), [100, 500, 140, 120]);
}

/// As the messages of BFQ show in Linux 6.12 and 7.3: `short_ttime 1` for a queue of any class.
#[test]
fn a_new_queue_has_a_short_think_time_in_every_class() {
    for class in [PrioClass::Rt, PrioClass::Be, PrioClass::Idle] {
        let mut bed = bed(&[]);
        bed.send(As { class, ..READ }, 0);
        assert!(bed.queue_of(0).short_think, "{class:?}");
    }
}

#[test]
fn a_new_queue() {
    let mut bed = bed(&[("low_latency", 0)]);
    bed.send(READ, 0);
    let q = bed.sync_queue(0);
    assert_eq!((bed.queue_of(0).max_budget, bed.scheduler.engine[q].budget), (10922, 10922));
    assert_eq!(bed.scheduler.engine[q].weight, 40);
    bed.send(As { task: 1, level: 5, sectors: 20000, ..READ }, 0);
    let q = bed.sync_queue(1);
    assert_eq!(bed.scheduler.engine[q].budget, 20000);
}

/// Runs a slot of a queue alone in service, which ends after `us` with `service` sectors served out
/// of `budget`. Returns its charge and its next budget.
fn slot(us: u64, seeky: bool, budget: u64, service: u64, reason: Reason) -> (u64, u64) {
    let mut bed = bed(&[("low_latency", 0)]);
    bed.send(READ, 0);
    let q = bed.sync_queue(0);
    bed.dispatch().unwrap();
    let bfq = &mut bed.scheduler;
    (bfq.engine[q].budget, bfq.engine[q].service) = (budget, service);
    bfq.queue_mut(q).max_budget = budget;
    if seeky {
        (0..32).for_each(|_| bfq.queue_mut(q).seeks.add(true));
    }
    bfq.now = bfq.now + Nanos::from_micros(us);
    let weights = bfq.engine.tree(q).weights;
    let before = bfq.engine.tree(q).time;
    bfq.charge_time(q, false, reason);
    let extra = bfq.engine[q].service - service;
    assert_eq!(bfq.engine.tree(q).time - before, super::entity::delta(extra, weights));
    (bfq.engine[q].service, bfq.engine[q].budget)
}

#[test]
fn slow_slots_pay_for_their_time() {
    use Reason::*;
    assert_eq!(slot(400, true, 16384, 8, NoMoreRequests), (262, 16384));
    assert_eq!(slot(10_900, true, 16384, 488, NoMoreRequests), (1310, 16384));
    assert_eq!(slot(10_000, false, 16384, 8, NoMoreRequests), (8, 16384));
    assert_eq!(slot(30_000, false, 16384, 9000, NoMoreRequests), (9000, 16384));
    assert_eq!(slot(30_000, false, 16384, 8000, NoMoreRequests), (8000, 16384));
    assert_eq!(slot(125_000, false, 16384, 9000, Timeout), (16384, 16384));
    assert_eq!(slot(125_000, false, 16384, 11000, Timeout), (11000, 16384));
    assert_eq!(slot(125_000, true, 10922, 6104, Timeout), (16384, 16384));
}

#[test]
fn a_raised_queue_has_small_budgets_however_its_slot_ends() {
    for reason in [
        Reason::TooIdle,
        Reason::Timeout,
        Reason::Exhausted,
        Reason::NoMoreRequests,
        Reason::Preempted,
    ] {
        let mut bed = bed(&[]);
        bed.send(READ, 0);
        let q = bed.sync_queue(0);
        assert_eq!(bed.scheduler.engine[q].raise, 30, "a process never seen looks interactive");
        bed.dispatch().unwrap();
        bed.scheduler.expire(q, false, reason);
        assert_eq!(bed.scheduler.queue(q).max_budget, 1024);
    }
}

#[test]
fn async_writes_cost_three_times_as_much_unless_shares_are_at_stake() {
    let mut bed = bed(&[("low_latency", 0)]);
    let id = bed.send(As { op: Op::Write, ..READ }, 0);
    let q = bed.scheduler.processes[0].asynchronous.unwrap();
    assert_eq!(bed.scheduler.charge(q, id), 24);
    bed.send(As { task: 1, level: 5, ..READ }, 1000);
    assert_eq!(bed.scheduler.charge(q, id), 8);
    let read = bed.send(As { task: 2, ..READ }, 9000);
    let other = bed.sync_queue(2);
    assert_eq!(bed.scheduler.charge(other, read), 8);
}

/// Two busy queues of these levels on a device. Returns true if waiting for the first is
/// worthwhile.
fn worth(levels: &[u8], rotational: bool, seeky: bool) -> bool {
    let mut bed = bed(&[("low_latency", 0), ("hw_tag", 2)]);
    bed.scheduler.on_queue_info(rotational);
    for (task, &level) in levels.iter().enumerate() {
        bed.send(As { task: task as u32, level, ..READ }, 1_000_000 * task as u64);
        // The queues are not created together, so that they do not share a queue.
        bed.pass(200_000);
    }
    if seeky {
        (0..32).for_each(|_| bed.queue_of(0).seeks.add(true));
    }
    let q = bed.sync_queue(0);
    bed.scheduler.is_better_to_idle(q)
}

#[test]
fn when_waiting_is_worth_it() {
    assert!(!worth(&[4, 4], false, false), "equal weights on flash");
    assert!(worth(&[0, 4], false, false), "the heavier of two");
    assert!(!worth(&[4, 0], false, false), "the lighter of two");
    assert!(worth(&[4], false, false), "the only busy queue");
    assert!(worth(&[4, 4], true, false), "a stream on a disk");
    assert!(!worth(&[4, 4], true, true), "seeks on a disk that queues");
}

#[test]
fn depths() {
    let mut bfq = Bfq::new(Kernel::V6_1.rules(), Hz(250), 1, 64);
    let limits =
        |bfq: &Bfq| [Flags::NONE, Flags::SYNC].map(|f| bfq.depth_limit(Op::Write, f).unwrap());
    bfq.on_depth_updated(64, 4);
    assert_eq!(limits(&bfq), [8, 12]);
    assert_eq!(bfq.depth_limit(Op::Read, Flags::NONE), None);
    bfq.busy.raised = 1;
    assert_eq!(limits(&bfq), [3, 6]);
    bfq.rules = Kernel::V6_18.rules();
    assert_eq!(limits(&bfq), [12, 24]);
    bfq.busy.raised = 0;
    assert_eq!(limits(&bfq), [32, 48]);
    bfq.on_depth_updated(256, 6);
    assert_eq!(limits(&bfq), [128, 192]);
    // From 7.0 in proportion to async_depth, rounded down twice.
    bfq.rules = Kernel::V7_0.rules();
    for (requests, plain, raised) in [(256, [128, 192], [48, 96]), (62, [30, 46], [11, 23])] {
        bfq.on_depth_updated(requests, word_shift(requests));
        bfq.busy.raised = 0;
        assert_eq!(limits(&bfq), plain);
        bfq.busy.raised = 1;
        assert_eq!(limits(&bfq), raised);
    }
    bfq.set_async_depth(100);
    assert_eq!(limits(&bfq), [25, 50]);
    bfq.busy.raised = 0;
    assert_eq!(limits(&bfq), [66, 100]);
}

#[test]
fn tags_by_weight() {
    let mut bed = bed(&[("low_latency", 0)]);
    bed.scheduler.on_depth_updated(256, 6);
    bed.send(READ, 0);
    bed.send(As { task: 1, level: 0, ..READ }, 1000);
    let holds = |bed: &mut Bed<Bfq>, task, held| {
        let q = bed.sync_queue(task);
        let mut bfq = bed.scheduler.clone();
        bfq.engine[q].allocated = held;
        bfq.depth_limit_of(TaskId(task), Op::Read, Flags::NONE)
    };
    assert_eq!([holds(&mut bed, 0, 84), holds(&mut bed, 0, 85)], [None, Some(1)]);
    assert_eq!([holds(&mut bed, 1, 170), holds(&mut bed, 1, 171)], [None, Some(1)]);
    bed.send(As { task: 2, class: PrioClass::Rt, ..READ }, 2000);
    assert_eq!([holds(&mut bed, 0, 22), holds(&mut bed, 0, 23)], [None, Some(1)]);
    assert_eq!([holds(&mut bed, 2, 255), holds(&mut bed, 2, 256)], [None, Some(1)]);
}

#[test]
fn eight_new_queues_are_a_burst() {
    for older in [false, true] {
        let mut bed = bed(&[]);
        if older {
            // This queue was busy before the first of the burst, and is not part of it.
            bed.send(As { task: 20, level: 2, ..READ }, 0);
            bed.scheduler.creation.burst = cooperation::Burst::new();
        }
        for task in 0..9 {
            bed.send(As { task, level: (task % 8) as u8, ..READ }, 1_000_000 * u64::from(task + 1));
            let marked = (0..=task).filter(|&t| bed.queue_of(t).in_large_burst).count() as u32;
            let expected = if older || task < 7 { 0 } else { task + 1 };
            assert_eq!(marked, expected, "after {task}, an older one: {older}");
            bed.pass(10_000);
        }
    }
}

/// Task 0 is in service, seeky, with a request in the device; others wait with eight sectors each.
fn plugged(inject: Inject, others: u32, prepare: impl FnOnce(&mut Bed<Bfq>)) -> Bed<Bfq> {
    let mut bed = bed(&[("low_latency", 0), ("inject", inject as i64), ("hw_tag", 2)]);
    bed.send(As { level: 0, ..READ }, 5000);
    let q = bed.sync_queue(0);
    (0..32).for_each(|_| bed.queue_of(0).seeks.add(true));
    for task in 1..=others {
        bed.send(As { task, level: 1 + (task % 7) as u8, ..READ }, 1_000_000 * u64::from(task));
        bed.pass(200_000);
    }
    prepare(&mut bed);
    let first = bed.dispatch().unwrap();
    assert_eq!(bed.scheduler.slots[first.index()].queue, Some(q));
    bed
}

#[test]
fn the_seed_injects_ten_sectors_for_one() {
    let mut bed = plugged(Inject::Seed, 30, |_| {});
    assert_eq!(bed.pull().len(), 10);
    bed.pass(1000);
    bed.send(As { level: 0, ..READ }, 9000);
    assert_eq!(bed.pull().len(), 11, "its own and ten more");
    let q = bed.sync_queue(0);
    assert_eq!(bed.scheduler.queue(q).injection.service, 160);
    bed.scheduler.expire(q, false, Reason::Timeout);
    assert_eq!(bed.scheduler.queue(q).injection.service, 0);
}

#[test]
fn the_seed_overshoots_by_one_request() {
    let mut bed = plugged(Inject::Seed, 0, |bed| {
        bed.send(As { task: 1, level: 1, sectors: 256, ..READ }, 1_000_000);
        bed.send(As { task: 1, level: 1, sectors: 256, ..READ }, 2_000_000);
    });
    assert_eq!(bed.pull().len(), 1);
}

#[test]
fn the_seed_takes_the_newest_that_fits() {
    let mut bed = plugged(Inject::Seed, 2, |bed| {
        // This is the newest queue, but its request is larger than the rest of its budget.
        bed.send(As { task: 3, level: 3, sectors: 64, ..READ }, 77_000);
        let q = bed.sync_queue(3);
        bed.scheduler.engine[q].service = bed.scheduler.engine[q].budget - 8;
    });
    let injected = bed.dispatch().unwrap();
    assert_eq!(bed.requests[injected].task, TaskId(2));
}

#[test]
fn where_the_seed_does_not_inject() {
    let seeky_only = |bed: &mut Bed<Bfq>| (0..32).for_each(|_| bed.queue_of(0).seeks.add(false));
    assert_eq!(plugged(Inject::Seed, 3, seeky_only).pull().len(), 0);
    assert_eq!(
        plugged(Inject::Seed, 3, |bed| bed.scheduler.set_tunable("hw_tag", 1)).pull().len(),
        0
    );
    assert_eq!(plugged(Inject::Seed, 3, |bed| bed.scheduler.on_queue_info(true)).pull().len(), 0);
    let mut bed = plugged(Inject::Seed, 3, |_| {});
    let q = bed.sync_queue(0);
    bed.scheduler.set_raise(q, 30);
    assert_eq!(bed.pull().len(), 0);
    assert_eq!(plugged(Inject::Off, 3, |_| {}).pull().len(), 0);
}

#[test]
fn the_limit_bounds_what_is_in_the_device() {
    for limit in 0..6 {
        let mut bed = plugged(Inject::Limit, 5, |bed| bed.queue_of(0).injection.limit = limit);
        assert_eq!(bed.pull().len(), (limit as usize).saturating_sub(1), "limit {limit}");
        assert!(bed.scheduler.in_flight <= limit.max(1));
    }
}

#[test]
fn large_requests_are_injected_into_an_empty_device_only() {
    for (kernel, empty, count) in
        [(Kernel::V6_18, false, 0), (Kernel::V6_18, true, 1), (Kernel::V6_1, true, 1)]
    {
        let mut bed = plugged(Inject::Limit, 0, |bed| {
            bed.scheduler.rules = kernel.rules();
            bed.send(As { task: 1, level: 1, sectors: 64, ..READ }, 1_000_000);
            bed.queue_of(0).injection.limit = 4;
        });
        if empty {
            // Its request has completed, and the scheduler waits for its next one.
            let id = RequestId(0);
            bed.pass(100);
            bed.finish(id);
            assert!(bed.scheduler.service.timer < Instant::MAX);
        }
        assert_eq!(bed.pull().len(), count, "{} empty {empty}", kernel.name());
    }
}

#[test]
fn the_idle_timer_ends_a_slot_that_is_waited_for_in_vain() {
    let mut bed = plugged(Inject::Off, 1, |_| {});
    bed.pass(100);
    bed.finish(RequestId(0));
    assert_eq!(bed.scheduler.next_wakeup(), bed.now + Nanos::from_millis(8));
    assert_eq!(bed.dispatch(), None, "the other waits");
    bed.pass(8000);
    bed.wake();
    let next = bed.dispatch().unwrap();
    assert_eq!(bed.requests[next].task, TaskId(1));
}

#[test]
fn strict_guarantees_keep_one_request_in_the_device() {
    let mut bed = bed(&[("low_latency", 0), ("strict_guarantees", 1), ("slice_idle", 0)]);
    for task in 0..4 {
        bed.send(As { task, level: task as u8, ..READ }, 5000 * u64::from(task));
    }
    assert_eq!(bed.pull().len(), 1);
}

#[test]
fn equal_processes_born_together_share_a_queue_on_flash() {
    let mut bed = bed(&[("low_latency", 0)]);
    bed.send(READ, 0);
    bed.pass(180_000);
    bed.send(As { task: 1, ..READ }, 90_000);
    assert_eq!(bed.sync_queue(0), bed.sync_queue(1));
    bed.send(As { task: 2, level: 3, ..READ }, 190_000);
    assert_ne!(bed.sync_queue(0), bed.sync_queue(2));
    bed.pass(181_000);
    bed.send(As { task: 3, level: 3, ..READ }, 290_000);
    assert_ne!(bed.sync_queue(2), bed.sync_queue(3));
}

/// Measured on Linux 6.18.44: of two readers of depth 8, one of which gives class RT to 30 % of its
/// reads (`aio_reqprio`), each gets 659 reads a second.
#[test]
fn the_priority_of_a_single_request_is_not_that_of_its_process() {
    let mut bed = bed(&[("low_latency", 0)]);
    let urgent = |bed: &mut Bed<Bfq>, task| {
        let id = bed.prepare(Op::Read, 5000, PrioClass::Rt);
        let request = &mut bed.requests[id];
        (request.task, request.ioprio) = (TaskId(task), IoPrio::new(PrioClass::Rt, 0));
        request.flags |= Flags::OWN_PRIO;
        bed.insert_prepared(id, false);
        bed.scheduler.processes[task as usize].ioprio
    };
    bed.send(As { level: 6, ..READ }, 0);
    assert_eq!(urgent(&mut bed, 0), Some(IoPrio::new(PrioClass::Be, 6)));
    assert_eq!(urgent(&mut bed, 1), Some(IoPrio::NONE));
    bed.send(As { task: 1, level: 2, ..READ }, 90_000);
    assert_eq!(urgent(&mut bed, 1), Some(IoPrio::new(PrioClass::Be, 2)));
}

#[test]
fn interleaved_readers_share_a_queue_on_a_disk() {
    for (distance, together) in [(128, true), (8192, true), (8193, false)] {
        let mut bed = bed(&[("low_latency", 0), ("hw_tag", 1)]);
        bed.scheduler.on_queue_info(true);
        // Without another queue, injection would gain nothing.
        bed.send(As { task: 2, ..READ }, 1 << 30);
        for task in 0..2 {
            bed.send(As { task, sectors: 128, ..READ }, 100_000 + distance * u64::from(task));
        }
        assert_eq!(bed.sync_queue(0) == bed.sync_queue(1), together, "{distance} sectors apart");
    }
}

/// A shared queue is merged into another when one of its processes moves there. The other queue is
/// freed before the second process follows, and its key is that of an async queue then.
#[test]
fn a_process_does_not_follow_into_a_queue_that_was_freed() {
    let mut bed = bed(&[("low_latency", 0)]);
    bed.send(READ, 0);
    bed.send(As { task: 1, ..READ }, 90_000);
    let shared = bed.sync_queue(0);
    assert_eq!(bed.sync_queue(1), shared, "created together");
    bed.send(As { task: 2, level: 3, ..READ }, 190_000);
    let target = bed.sync_queue(2);
    bed.scheduler.merge_queues(TaskId(0), shared, target);
    bed.check();
    for id in bed.pull() {
        bed.finish(id);
    }
    for task in [0, 2] {
        let now = bed.now;
        bed.scheduler.on_task_exit(now, TaskId(task));
    }
    while bed.scheduler.queue(target).live {
        bed.pass(1000);
        bed.wake();
        for id in bed.pull() {
            bed.finish(id);
        }
    }
    bed.send(As { task: 3, op: Op::Write, ..READ }, 290_000);
    assert_eq!(bed.scheduler.processes[3].asynchronous, Some(target), "the key is used again");
    let id = bed.send(As { task: 1, ..READ }, 390_000);
    assert_eq!(bed.scheduler.slots[id.index()].queue, Some(shared));
    bed.check();
}

#[test]
fn tunables_show_what_was_set() {
    let mut bfq = Bfq::new(Kernel::V6_18.rules(), Hz(1000), 1, 16);
    for tunable in INFO.tunables {
        assert_eq!(tunable.show(bfq.tunable(tunable.name)), tunable.default, "{}", tunable.name);
    }
    for tunable in INFO.tunables {
        let value = (tunable.min + 3).min(tunable.max);
        bfq.set_tunable(tunable.name, value);
        let shown = if tunable.name == "slice_idle_us" { value } else { bfq.tunable(tunable.name) };
        assert_eq!(shown, value, "{}", tunable.name);
    }
    let parse = |text| crate::sched::SchedulerConfig::parse(text).map_err(|e| format!("{e}"));
    assert_eq!(parse("bfq:inject=fair").unwrap().tunables, [("inject", 3)]);
    assert_eq!(
        parse("bfq:inject=most").unwrap_err(),
        "inject=most: must be one of off|seed|limit|fair"
    );
}

/// Sends a request of one of twelve processes, which mostly keep their priority and group.
fn send_something(bed: &mut Bed<Bfq>, rng: &mut Rng) {
    let how = As {
        task: rng.below(12) as u32,
        level: rng.pick(&[0, 4, 4, 4, 7]),
        class: rng.pick(&[
            PrioClass::Be,
            PrioClass::Be,
            PrioClass::Be,
            PrioClass::Rt,
            PrioClass::Idle,
        ]),
        sectors: 8 << rng.below(6),
        op: rng.pick(&[Op::Read, Op::Read, Op::Write]),
        tenant: rng.below(4) as u32,
    };
    let usual = As { level: 4, class: PrioClass::Be, tenant: how.task % 4, ..how };
    let how = if rng.one_in(20) { how } else { usual };
    let range = if rng.one_in(2) { 3000 } else { 1 << 24 };
    bed.send(how, rng.below(range) * 8);
}

/// Processes of all kinds, tenants, tunables changed in flight, exits, requeues: no request is lost
/// and every invariant holds.
#[test]
fn random_steps_keep_every_invariant() {
    for seed in 1..31 {
        let mut rng = Rng(seed);
        let mut bed = bed(&[("inject", rng.below(4) as i64), ("low_latency", rng.below(2) as i64)]);
        bed.scheduler.on_queue_info(rng.one_in(3));
        if rng.one_in(2) {
            bed.scheduler.set_group(TenantId(1), TenantId(0), 100);
            bed.scheduler.set_group(TenantId(2), TenantId(1), 900);
            bed.scheduler.set_group(TenantId(3), TenantId(0), 1);
        }
        let mut out: Vec<RequestId> = Vec::new();
        let mut log = String::new();
        let (mut sent, mut finished) = (0, 0);
        for step in 0..1500 {
            let span = if rng.one_in(40) { 300_000 } else { 700 };
            bed.pass(rng.below(span));
            bed.wake();
            match rng.below(10) {
                0..=3 if sent - finished < 200 => {
                    send_something(&mut bed, &mut rng);
                    sent += 1;
                }
                4..=6 => out.extend(bed.dispatch()),
                7 | 8 if !out.is_empty() => {
                    let id = out.swap_remove(rng.below(out.len() as u64) as usize);
                    if rng.one_in(30) {
                        bed.requeue(id);
                    } else {
                        bed.finish(id);
                        finished += 1;
                    }
                    bed.check();
                }
                9 if rng.one_in(10) => {
                    let now = bed.now;
                    bed.scheduler.on_task_exit(now, TaskId(rng.below(12) as u32));
                    bed.check();
                }
                9 if rng.one_in(10) => {
                    let tunable = rng.pick(INFO.tunables);
                    let value = (tunable.min + rng.below(20) as i64).min(tunable.max);
                    bed.scheduler.set_tunable(tunable.name, value);
                    log = format!("{log} {step}:{}={value}", tunable.name);
                    bed.check();
                }
                _ => {}
            }
        }
        // Everything completes within the idle time of each queue.
        let mut rounds = 0;
        while finished < sent {
            out.extend(bed.pull());
            for id in core::mem::take(&mut out) {
                bed.finish(id);
                finished += 1;
            }
            bed.pass(3000);
            bed.wake();
            rounds += 1;
            assert!(rounds < 20_000, "seed {seed}: {} of {sent} are stuck;{log}", sent - finished);
        }
        assert_eq!((bed.scheduler.queued, bed.scheduler.in_flight), (0, 0));
    }
}

#[test]
fn the_lowest_class_is_served_now_and_then() {
    let mut bed = bed(&[("low_latency", 0), ("inject", 0)]);
    let mut served = 0;
    let start = bed.now;
    bed.send(As { task: 1, class: PrioClass::Idle, ..READ }, 1 << 20);
    bed.send(READ, 0);
    for turn in 1..2000u64 {
        let id = bed.dispatch().or_else(|| {
            bed.pass(500);
            bed.wake();
            bed.dispatch()
        });
        let Some(id) = id else { continue };
        bed.pass(1000);
        let task = bed.requests[id].task.0;
        bed.finish(id);
        served += u64::from(task == 1);
        let class = if task == 1 { PrioClass::Idle } else { PrioClass::Be };
        bed.send(As { task, class, ..READ }, turn * 8 + u64::from(task) * (1 << 20));
    }
    let ms = (bed.now - start).as_millis();
    assert!(served > 2 && served <= ms / 200 + 1, "{served} in {ms} ms");
    assert_eq!(bed.scheduler.engine[bed.sync_queue(1)].class, Class::Idle);
}

/// Of several requests in flight from the start. A lone bio of Linux 7.2 has no plug; the requests
/// of a readahead window have one.
#[test]
fn only_under_a_plug_a_deep_queue_looks_idle_at_first() {
    for (kernel, plugged, is_bound) in [
        (Kernel::V6_6, true, true),
        (Kernel::V6_12, true, false),
        (Kernel::V7_3, true, false),
        (Kernel::V7_3, false, true),
    ] {
        let mut bed = bed(&[]);
        bed.scheduler.rules = kernel.rules();
        for sector in [0, 8] {
            let id = bed.prepare(Op::Read, sector, PrioClass::Be);
            bed.requests[id].plugged = plugged;
            bed.insert_prepared(id, false);
            bed.pass(10);
        }
        assert_eq!(bed.queue_of(0).io_bound.is_bound, is_bound, "{kernel:?}, plugged: {plugged}");
    }
}
