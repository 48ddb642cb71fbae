use super::*;
use crate::ioprio::PrioClass;
use crate::kernel::Kernel;
use crate::op::{Flags, Op};
use crate::sched::testing::{Bed, Rng, bio};
use crate::units::Sector;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;

fn bed(queues: u16, cpus: u16) -> Bed<NoneScheduler> {
    Bed::new(Kernel::V6_18, NoneScheduler::new(queues, cpus, 64), 64)
}

fn insert(bed: &mut Bed<NoneScheduler>, queue: u16, cpu: u16, sector: u64) -> RequestId {
    let id = bed.prepare(Op::Read, sector, PrioClass::Be);
    bed.requests[id].queue = HwQueue(queue);
    bed.requests[id].cpu = cpu;
    bed.insert_prepared(id, false);
    id
}

/// `blk_mq_flush_busy_ctxs` of `block/blk-mq.c`: one CPU's list after the other; if the device was
/// busy, `blk_mq_do_dispatch_ctx` of `block/blk-mq-sched.c`: one request of each CPU in turn.
#[test]
fn order_of_two_cpus() {
    for (cpus, busy, order) in
        [(1, false, "R1 R2 R3"), (2, false, "R1 R3 R2"), (2, true, "R1 R2 R3")]
    {
        let mut bed = bed(1, cpus);
        bed.scheduler.set_busy(HwQueue(0), busy);
        insert(&mut bed, 0, 0, 1);
        insert(&mut bed, 0, 1 % cpus, 2);
        insert(&mut bed, 0, 0, 3);
        let served: String = bed.drain();
        assert_eq!(served, order, "{cpus} CPUs, busy: {busy}");
    }
}

#[test]
fn round_robin_goes_on_after_the_last_cpu_served() {
    let mut bed = bed(1, 70);
    bed.scheduler.set_busy(HwQueue(0), true);
    for (cpu, sector) in [(0, 1), (0, 2), (3, 3), (69, 4), (69, 5)] {
        insert(&mut bed, 0, cpu, sector);
    }
    assert_eq!(bed.serve(1), ["R1"]);
    insert(&mut bed, 0, 1, 6);
    assert_eq!(bed.drain(), "R6 R3 R4 R2 R5");
}

#[test]
fn a_batch_taken_whole_goes_out_before_later_arrivals() {
    let mut bed = bed(1, 2);
    insert(&mut bed, 0, 1, 10);
    insert(&mut bed, 0, 1, 20);
    assert_eq!(bed.serve(1), ["R10"]);
    insert(&mut bed, 0, 0, 30);
    bed.scheduler.set_busy(HwQueue(0), true);
    assert!(
        bed.find_merge(&bio(Op::Read, 28, 8, PrioClass::Be), false).is_none(),
        "a batch takes no bios"
    );
    assert_eq!(bed.drain(), "R20 R30");
}

#[test]
fn a_bio_joins_the_newest_of_the_last_eight() {
    let mut bed = bed(2, 4);
    let ids: Vec<RequestId> = (0..10).map(|i| insert(&mut bed, 1, 3, 1000 * i)).collect();
    let twin = insert(&mut bed, 1, 3, 3000);
    bed.scheduler.set_context(HwQueue(1), 3);
    let read = |sector| bio(Op::Read, sector, 8, PrioClass::Be);
    assert_eq!(bed.find_merge(&read(9008), false), Some((ids[9], MergeKind::Back)));
    assert_eq!(
        bed.find_merge(&read(3008), true),
        Some((twin, MergeKind::Back)),
        "the newest; nomerges=1 is no hindrance"
    );
    assert_eq!(bed.find_merge(&read(3992), false), Some((ids[4], MergeKind::Front)));
    assert_eq!(bed.find_merge(&read(1008), false), None, "the ninth is out of reach");
    assert_eq!(
        bed.find_merge(&bio(Op::Write, 9008, 8, PrioClass::Be), false),
        None,
        "another operation"
    );
    assert_eq!(
        bed.find_merge(&bio(Op::Read, 9008, 8, PrioClass::Rt), false),
        None,
        "another priority"
    );
    bed.requests[ids[9]].flags |= Flags::NOMERGE;
    assert_eq!(bed.find_merge(&read(9008), false), None, "it was refused for good");
    bed.scheduler.set_context(HwQueue(0), 3);
    assert_eq!(bed.find_merge(&read(4008), false), None, "another hardware queue");
    bed.scheduler.set_context(HwQueue(1), 2);
    assert_eq!(bed.find_merge(&read(4008), false), None, "another CPU");
}

#[test]
fn any_two_discards_join_where_the_device_takes_ranges() {
    let mut bed = bed(1, 1);
    let id = bed.insert(Op::Discard, 0, PrioClass::Be);
    let far = bio(Op::Discard, 5000, 8, PrioClass::Be);
    assert_eq!(bed.find_merge(&far, false), None);
    bed.scheduler.set_discard_ranges(16);
    assert_eq!(bed.find_merge(&far, false), Some((id, MergeKind::Discard)));
}

/// Requests keep their arrival order on each CPU, except for requeued ones, and none is lost or
/// doubled.
#[test]
fn arrival_order_per_cpu_in_random_runs() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let (queues, cpus) = (rng.pick(&[1, 3]), rng.pick(&[1u16, 2, 65]));
        let mut bed = bed(queues, cpus);
        // The expected lists: by queue and CPU, and the batch by queue.
        let mut lists = vec![VecDeque::new(); usize::from(queues * cpus)];
        let mut batches = vec![VecDeque::new(); usize::from(queues)];
        let mut busy = vec![false; usize::from(queues)];
        let mut turn = vec![0; usize::from(queues)];
        let (mut inserted, mut dispatched, mut queued) = (0, 0, 0);
        for _ in 0..600 {
            let queue = rng.below(queues.into()) as u16;
            let (cpu, q) = (rng.below(cpus.into()) as u16, usize::from(queue));
            match rng.below(9) {
                0..=3 if queued < 64 => {
                    let id = insert(&mut bed, queue, cpu, rng.below(1000));
                    lists[q * usize::from(cpus) + usize::from(cpu)].push_back(id);
                    (inserted, queued) = (inserted + 1, queued + 1);
                }
                4 => {
                    busy[q] = !busy[q];
                    bed.scheduler.set_busy(HwQueue(queue), busy[q]);
                }
                _ => {
                    if batches[q].is_empty() && !busy[q] {
                        for list in &mut lists[q * usize::from(cpus)..(q + 1) * usize::from(cpus)] {
                            batches[q].append(list);
                        }
                    }
                    let got = bed.dispatch_on(queue);
                    let Some(id) = got else {
                        assert!(!bed.scheduler.has_work(HwQueue(queue)));
                        continue;
                    };
                    let list = q * usize::from(cpus) + usize::from(bed.requests[id].cpu);
                    if batches[q].is_empty() {
                        // Requests are taken one at a time from the next CPU in turn that has one.
                        let mut in_turn =
                            (0..usize::from(cpus)).map(|i| (turn[q] + i) % usize::from(cpus));
                        let next =
                            in_turn.find(|cpu| !lists[q * usize::from(cpus) + cpu].is_empty());
                        assert_eq!(next, Some(usize::from(bed.requests[id].cpu)), "seed {seed}");
                        turn[q] = usize::from(bed.requests[id].cpu) + 1;
                    }
                    let expected = if batches[q].is_empty() {
                        lists[list].pop_front()
                    } else {
                        batches[q].pop_front()
                    };
                    assert_eq!(got, expected, "seed {seed}");
                    (dispatched, queued) = (dispatched + 1, queued - 1);
                    if rng.one_in(8) {
                        bed.requeue(id);
                        lists[list].push_front(id);
                        (inserted, queued) = (inserted + 1, queued + 1);
                    } else {
                        bed.finish(id);
                    }
                }
            }
            let left: usize = lists.iter().chain(&batches).map(VecDeque::len).sum();
            assert_eq!((left, inserted), (queued, dispatched + queued), "seed {seed}");
        }
        assert!(bed.requests.iter().all(|(_, r)| r.sector < Sector::new(1000)));
    }
}
