//! Tests tenants on the path of a bio: which tasks sleep, which bios are released when rules are
//! removed, and that every nanosecond is accounted for.

use super::*;
use crate::control::Cause;
use crate::control::io_cost::Qos;
use crate::control::io_throttle::{Limit, LimitKind, Policy};
use crate::control::limits::{Limits, UNLIMITED};
use crate::ioprio::PrioPolicy;
use crate::tenant::ROOT;

const MS: u64 = 1_000_000;

fn bps(rate: u64) -> impl Fn(&mut Limits) {
    move |limits| limits.bps = [rate; 2]
}

impl Rig {
    fn tenant(&mut self, parent: TenantId) -> TenantId {
        self.stack.control_mut().add_tenant(parent).expect("room")
    }

    fn submit_as(
        &mut self,
        task: u32,
        tenant: TenantId,
        op: Op,
        sector: u64,
        sectors: u64,
    ) -> Submitted {
        let io = Io { task: TaskId(task), tenant, ..self.io(op, Flags::NONE, sector, sectors) };
        self.stack.submit(self.now, io, &mut self.driver)
    }

    /// Advances time to the next timer of the stack.
    pub(super) fn tick(&mut self) {
        self.now = self.stack.next_timer().expect("a timer").max(self.now);
        self.stack.handle_timers(self.now, &mut self.driver);
        self.stack.self_check();
    }
}

#[test]
fn a_bio_under_io_max_waits_and_its_task_does_not() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    rig.stack.control_mut().set_limit(rig.now, tenant, bps(512 * 1000));
    for at in 0..3 {
        assert_eq!(rig.submit_as(0, tenant, Op::Read, at * 800, 8), Submitted::Accepted);
    }
    assert_eq!((rig.driver.issued.len(), rig.stack.next_timer()), (1, Some(Instant::new(8 * MS))));
    assert_eq!(
        rig.submit_as(0, ROOT, Op::Read, 9000, 8),
        Submitted::Accepted,
        "nobody else is held"
    );
    rig.tick();
    assert_eq!((rig.now, rig.driver.issued.len()), (Instant::new(8 * MS), 3));
    rig.stack.control_mut().set_limit(rig.now, tenant, |limits| *limits = Limits::default());
    rig.tick();
    assert_eq!(
        (rig.now, rig.driver.issued.len()),
        (Instant::new(8 * MS), 4),
        "a rule that goes lets go at once"
    );
}

#[test]
fn a_task_under_io_throttle_sleeps_and_what_cannot_sleep_goes_on_in_a_worker() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    let limit = Some(Limit { rate: 512 * 1000, policy: Policy::Token { bucket: 4096 } });
    rig.stack.control_mut().set_io_throttle(rig.now, tenant, LimitKind::Bandwidth, limit).unwrap();
    assert_eq!(rig.submit_as(0, tenant, Op::Read, 0, 8), Submitted::Accepted);
    assert_eq!(rig.submit_as(0, tenant, Op::Read, 800, 8), Submitted::Blocked);
    let io =
        Io { tenant, task: TaskId(1), may_block: false, ..rig.io(Op::Read, Flags::NONE, 1600, 8) };
    assert_eq!(rig.stack.submit(rig.now, io, &mut rig.driver), Submitted::Accepted);
    assert_eq!((rig.driver.issued.len(), rig.stack.poll_unblocked()), (1, None));
    rig.tick();
    assert_eq!((rig.driver.issued.len(), rig.stack.poll_unblocked()), (2, Some(TaskId(0))));
    rig.stack.remove_tenant(rig.now, tenant).unwrap();
    rig.tick();
    assert_eq!(
        (rig.now, rig.driver.issued.len()),
        (Instant::new(8 * MS), 3),
        "a tenant that goes lets go at once"
    );
}

#[test]
fn a_split_bio_pays_its_bytes_once_and_each_fragment_is_an_io() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    rig.stack.control_mut().set_limit(rig.now, tenant, |limits| {
        limits.bps = [1_000_000_000; 2];
        limits.iops = [100; 2];
    });
    rig.stack.control_mut().watch();
    // 512 KiB is the limit: three fragments, 10 ms apart.
    assert_eq!(rig.submit_as(0, tenant, Op::Read, 0, 3072), Submitted::Accepted);
    rig.tick();
    rig.tick();
    assert_eq!((rig.now, rig.driver.issued.len()), (Instant::new(20 * MS), 3));
    let counters = rig.stack.control().statistics().of(tenant).counters;
    assert_eq!((counters.bytes[0], counters.ios[0]), (3072 * 512, 3));
}

#[test]
fn a_removed_tenant_leaves_nothing_that_bios_have_to_look_at() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    rig.stack.control_mut().set_prio_policy(tenant, PrioPolicy::Idle);
    rig.stack.control_mut().set_limit(rig.now, tenant, bps(1000));
    assert!(rig.stack.control().is_active());
    rig.stack.remove_tenant(rig.now, tenant).unwrap();
    assert!(!rig.stack.control().is_active());
}

#[test]
fn what_is_withdrawn_ends_and_its_tenant_does_not_pay_for_it() {
    type Set = fn(&mut TenantControl, Instant, TenantId);
    let sets: [Set; 2] = [
        |control, now, tenant| control.set_limit(now, tenant, bps(8192)),
        |control, now, tenant| control.set_io_max(now, tenant, bps(8192)),
    ];
    for set in sets {
        let mut rig = Rig::new(config(Kernel::V6_18));
        let above = rig.tenant(ROOT);
        let tenant = rig.tenant(above);
        set(rig.stack.control_mut(), rig.now, above);
        for at in 0..20 {
            rig.submit_as(at % 2, tenant, Op::Read, u64::from(at) * 800, 8);
        }
        let held = rig.stack.control().held();
        let issued = rig.driver.issued.len();
        assert!(held > 10);
        let limit = rig.stack.control().holds(tenant).expect("a limit holds it");
        assert_eq!((limit.level(), rig.stack.control().holds(above)), (Some(above), None));
        rig.stack.withdraw(rig.now, TaskId(0), Status::Offline);
        rig.stack.self_check();
        let ended: Vec<_> = std::iter::from_fn(|| rig.stack.poll_done().copied()).collect();
        assert!(ended.iter().all(|done| (done.task, done.status) == (TaskId(0), Status::Offline)));
        assert_eq!(
            (ended.len(), rig.driver.issued.len()),
            (held - rig.stack.control().held(), issued)
        );
        assert!(rig.stack.control().held() > 0, "those of the other task wait");
        // Each of 4 KiB takes 500 ms.
        let left = rig.stack.control().held() as u64;
        while rig.stack.control().held() > 0 {
            rig.tick();
        }
        let due = left * 500 * MS;
        assert!(rig.now.get().abs_diff(due) <= 600 * MS, "{} for {left}", rig.now.get() / MS);
        assert_eq!(rig.driver.issued.len(), issued + left as usize);
        assert_eq!(rig.stack.control().holds(tenant), None);
    }
}

#[test]
fn nothing_can_be_set_for_a_tenant_that_is_gone() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    rig.stack.remove_tenant(rig.now, tenant).unwrap();
    let control = rig.stack.control_mut();
    control.set_latency(rig.now, tenant, Some(Nanos::from_millis(1)));
    control.set_limit(rig.now, tenant, bps(1000));
    control.set_io_max(rig.now, tenant, bps(1000));
    control.set_flat(rig.now, tenant, bps(1000));
    control.set_prio_policy(tenant, PrioPolicy::Idle);
    rig.stack.self_check();
    for at in 0..4 {
        assert_eq!(rig.submit_as(0, tenant, Op::Read, at * 800, 8), Submitted::Accepted);
    }
    assert_eq!(rig.driver.issued.len(), 4, "its late I/O is the root's");
    assert!(rig.driver.issued.iter().all(|command| command.ioprio == IoPrio::DEFAULT));
}

#[test]
fn a_tenants_policy_of_priority_is_on_its_bios() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    let tenant = rig.tenant(ROOT);
    rig.stack.control_mut().set_prio_policy(tenant, PrioPolicy::PromoteToRt);
    rig.submit_as(0, tenant, Op::Read, 0, 8);
    rig.submit_as(0, ROOT, Op::Read, 800, 8);
    let classes: Vec<_> = rig.driver.issued.iter().map(|command| command.ioprio).collect();
    assert_eq!(classes, [IoPrio::new(crate::ioprio::PrioClass::Rt, 4), IoPrio::DEFAULT]);
}

/// A view has the waits of its interval, also of I/O that has not ended: for limits, for a tag and
/// for the device.
#[test]
fn running_waits_are_booked_up_to_a_view() {
    type Set = fn(&mut TenantControl, Instant, TenantId);
    let sets: [(Set, u64); 3] = [
        (|control, now, tenant| control.set_limit(now, tenant, bps(8192)), 2),
        (|control, now, tenant| control.set_io_max(now, tenant, bps(8192)), 3),
        (|_, _, _| {}, 0),
    ];
    for (set, limited) in sets {
        let mut rig = Rig::new(StackConfig { nr_requests: Some(2), ..config(Kernel::V6_18) });
        rig.stack.control_mut().watch();
        let tenant = rig.tenant(ROOT);
        set(rig.stack.control_mut(), rig.now, tenant);
        for at in 0..3 {
            rig.submit_as(0, tenant, Op::Read, at * 800, 8);
        }
        assert_eq!(rig.stack.control().held() as u64, limited);
        let booked = |rig: &Rig, is_chosen: fn(&Cause) -> bool| {
            let rows = rig.stack.control().breakdown().of(tenant).iter();
            rows.filter(|(cause, _)| is_chosen(cause)).map(|(_, wait)| wait.time.get()).sum::<u64>()
        };
        let in_device = if limited > 0 { 3 - limited } else { 2 };
        for interval in 1..=3 {
            rig.now = rig.now + Nanos::from_millis(100);
            // A second view at the same time has nothing new.
            for _ in 0..2 {
                rig.stack.settle_waits(rig.now);
                rig.stack.self_check();
                let waited = interval * 100 * MS;
                assert_eq!(booked(&rig, |cause| *cause == Cause::Device), in_device * waited);
                assert_eq!(
                    booked(&rig, |cause| matches!(cause, Cause::Limit { .. })),
                    limited * waited
                );
                assert_eq!(
                    booked(&rig, |_| true),
                    3 * waited,
                    "{} in a tag's queue",
                    3 - in_device - limited
                );
            }
        }
        // What was booked is not booked again at the end: all that the reads took, from time 0 on.
        let mut took = 0;
        while rig.stack.ios_in_flight() > 0 {
            if rig.driver.issued.is_empty() {
                rig.tick();
            }
            rig.complete_all();
            took += rig.done().len() as u64 * rig.now.get();
        }
        assert_eq!(booked(&rig, |_| true), took);
    }
}

/// Limits of all kinds, gates, weights, policies, changes and removals while I/O is in flight, with
/// every scheduler. No bio is lost or doubled, no task sleeps forever, and all time of a tenant's
/// I/O is in the breakdown to the nanosecond.
#[test]
fn random_tenants_lose_nothing_and_every_nanosecond_is_accounted_for() {
    for seed in 0..48u64 {
        let mut rng = elevon_testkit::Rng(seed);
        let below = &mut move |n: u64| rng.below(n);
        let name = ["none", "mq-deadline", "bfq", "kyber"][seed as usize % 4];
        let scheduler = SchedulerConfig::parse(name).unwrap();
        let mut config = StackConfig { scheduler, nr_requests: Some(16), ..config(Kernel::V6_18) };
        config.hw_queues = 1 + (seed % 3) as u16;
        let mut rig = Rig::new(config);
        rig.stack.control_mut().watch();
        let mut alive = vec![ROOT];
        let mut started = BTreeMap::new();
        let mut took = 0u64;
        let mut asleep = [false; 6];
        let qos = Qos { enable: seed % 2 == 0, ..*rig.stack.control().io_cost().qos() };
        rig.stack.control_mut().change_cost(|cost| cost.set_qos(Instant::ZERO, qos)).unwrap();
        for step in 0..1500u64 {
            if step > 1000 && started.is_empty() {
                break;
            }
            let ends = step > 1000;
            rig.now = match rig.stack.next_timer() {
                Some(at) if ends && rig.driver.issued.is_empty() => at.max(rig.now),
                _ => rig.now + Nanos::new(below(2 * MS)),
            };
            if rig.stack.next_timer().is_some_and(|at| at <= rig.now) {
                rig.stack.handle_timers(rig.now, &mut rig.driver);
            }
            match below(20) {
                0 | 1 if !ends => change_something(&mut rig, &mut alive, below),
                2..=8 if !rig.driver.issued.is_empty() => {
                    let at = below(rig.driver.issued.len() as u64) as usize;
                    let command = rig.driver.issued.swap_remove(at);
                    let completion = Completion::success(&command);
                    rig.stack.handle_completion(rig.now, completion, &mut rig.driver);
                }
                _ if ends => {
                    for command in core::mem::take(&mut rig.driver.issued) {
                        let completion = Completion::success(&command);
                        rig.stack.handle_completion(rig.now, completion, &mut rig.driver);
                    }
                }
                _ => {
                    let task = below(6) as u32;
                    if !asleep[task as usize] {
                        let op = if below(2) == 0 { Op::Read } else { Op::Write };
                        let flags = if below(12) == 0 { Flags::META } else { Flags::NONE };
                        let io = Io {
                            task: TaskId(task),
                            tenant: alive[below(alive.len() as u64) as usize],
                            may_block: task.is_multiple_of(2),
                            ..rig.io(op, flags, below(4000) * 8, 8 * (1 + below(4)))
                        };
                        started.insert(io.token, rig.now);
                        asleep[task as usize] =
                            rig.stack.submit(rig.now, io, &mut rig.driver) == Submitted::Blocked;
                    }
                }
            }
            while let Some(&done) = rig.stack.poll_done() {
                let start = started.remove(&done.token).expect("an I/O is over once");
                assert!(done.status.is_ok());
                took += rig.now.since(start).get();
            }
            while let Some(task) = rig.stack.poll_unblocked() {
                assert!(core::mem::take(&mut asleep[task.index()]), "only who sleeps is woken");
            }
            if step % 16 == 0 {
                rig.stack.self_check();
            }
            // A view in between books nothing twice.
            if seed % 3 > 0 && step % 5 == 0 {
                rig.stack.settle_waits(rig.now);
            }
        }
        assert!(started.is_empty(), "seed {seed}, {name}: {} I/Os never ended", started.len());
        assert_eq!(asleep, [false; 6], "seed {seed}: somebody sleeps for ever");
        rig.stack.self_check();
        let now = rig.now;
        rig.stack.control_mut().settle(now);
        let accounted: u64 =
            rig.stack.control().breakdown().iter().map(|(.., time)| time.get()).sum();
        assert_eq!(accounted, took, "seed {seed}, {name}");
    }
}

fn change_something(rig: &mut Rig, alive: &mut Vec<TenantId>, below: &mut impl FnMut(u64) -> u64) {
    let now = rig.now;
    if alive.len() < 3 || below(6) == 0 {
        let parent = alive[below(alive.len() as u64) as usize];
        alive.push(rig.tenant(parent));
        return;
    }
    let at = 1 + below(alive.len() as u64 - 1) as usize;
    let tenant = alive[at];
    let mut any = |unit: u64| if below(2) == 0 { UNLIMITED } else { (1 + below(40)) * unit };
    let (rates, counts) = ([any(100_000), any(100_000)], [any(20), any(20)]);
    let control = rig.stack.control_mut();
    let set = move |limits: &mut Limits| (limits.bps, limits.iops) = (rates, counts);
    match below(9) {
        0 => control.set_io_max(now, tenant, set),
        1 => control.set_limit(now, tenant, set),
        2 => control.set_flat(now, tenant, set),
        3 | 4 => {
            let kind = if below(2) == 0 { LimitKind::Bandwidth } else { LimitKind::Iops };
            let policy = if below(2) == 0 {
                Policy::Leaky
            } else {
                Policy::Token { bucket: 1 + below(100_000) }
            };
            let limit = (below(3) > 0).then(|| Limit {
                rate: (1 + below(40)) * if kind == LimitKind::Iops { 20 } else { 50_000 },
                policy,
            });
            control.set_io_throttle(now, tenant, kind, limit).unwrap();
        }
        5 => control.set_latency(
            now,
            tenant,
            (below(2) == 0).then(|| Nanos::new((1 + below(50)) * MS)),
        ),
        6 => control.set_weight(now, tenant, 1 + below(1000) as u16).unwrap(),
        7 => {
            control.set_prio_policy(tenant, PrioPolicy::ALL[below(5) as usize]);
            rig.stack.set_group(tenant, 1 + below(1000) as u16);
        }
        _ => {
            if rig.stack.remove_tenant(now, tenant).is_ok() {
                alive.remove(at);
            }
        }
    }
}

/// As measured on Linux 6.18: the events of a bio that a limit held, from its queue event on, are
/// those of a worker of the kernel, which submits under one plug all that goes at once.
#[test]
fn the_data_of_a_flush_sequence_waits_for_the_device_and_the_rest_for_flushes() {
    let mut config = config(Kernel::V6_18);
    config.limits.write_cache = true;
    let mut rig = Rig::new(config);
    rig.stack.control_mut().watch();
    let tenant = rig.tenant(ROOT);
    let io = Io { tenant, ..rig.io(Op::Write, Flags::PREFLUSH | Flags::FUA, 0, 8) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    for millis in [1, 5, 2] {
        rig.now = rig.now + Nanos::from_millis(millis);
        rig.complete_first();
    }
    assert_eq!(rig.done().len(), 1);
    let rows =
        rig.stack.control().breakdown().of(tenant).iter().map(|&(cause, wait)| (cause, wait.time));
    let rows: Vec<(Cause, Nanos)> = rows.filter(|(_, time)| !time.is_zero()).collect();
    assert_eq!(
        rows,
        [(Cause::Flush, Nanos::from_millis(3)), (Cause::Device, Nanos::from_millis(5))]
    );
}

#[test]
fn a_worker_submits_what_io_max_held_under_one_plug() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.stack.set_limit_worker(TaskId(7));
    rig.stack.set_tracing(true);
    let tenant = rig.tenant(ROOT);
    rig.stack.control_mut().set_io_max(rig.now, tenant, |limits| limits.iops = [10; 2]);
    for at in 0..3 {
        assert_eq!(rig.submit_as(0, tenant, Op::Read, at * 8, 8), Submitted::Accepted);
    }
    let events = |rig: &mut Rig| {
        let mut events = Vec::new();
        rig.stack.drain_events(&mut events);
        events.iter().map(|event| (event.task.0, letter(event))).collect::<Vec<_>>()
    };
    let of = |task, letters: &[&str]| {
        letters.iter().map(|&letter| (task, letter.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(
        events(&mut rig),
        of(0, &["Q R 0+8", "G R 0+8", "S", "P", "U 1", "D R 0+8"]),
        "nothing of what waits"
    );
    rig.stack.control_mut().set_io_max(rig.now, tenant, |limits| *limits = Limits::default());
    rig.tick();
    let both = ["Q R 8+8", "G R 8+8", "S", "P", "Q R 16+8", "M R 16+8", "U 1", "D R 8+16"];
    assert_eq!(events(&mut rig), of(7, &both));
    // The device works for the task that submitted it.
    let held_for = rig.now;
    rig.now = rig.now + Nanos::from_millis(5);
    rig.complete_all();
    let device_time = |task| rig.stack.accounting().device_time(TaskId(task));
    let of_held = rig.now.since(held_for);
    assert!(
        device_time(0) >= of_held + of_held && device_time(7) == Nanos::ZERO,
        "{}",
        device_time(0)
    );
}
