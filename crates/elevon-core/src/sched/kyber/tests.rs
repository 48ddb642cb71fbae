//! Worked examples of `block/kyber-iosched.c`: `kyber_dispatch_request`,
//! `kyber_dispatch_cur_domain`.

use super::*;
use crate::ioprio::PrioClass;
use crate::kernel::Kernel;
use crate::sched::testing::{Bed, bio};
use crate::tags::word_shift;
use alloc::string::String;

fn bed(queues: u16, cpus: u16) -> Bed<Kyber> {
    Bed::new(Kernel::V6_18, Kyber::new(Kernel::V6_18.rules(), Hz(1000), queues, cpus, 64), 64)
}

fn insert(bed: &mut Bed<Kyber>, op: Op, queue: u16, cpu: u16, sector: u64) -> RequestId {
    let id = bed.prepare(op, sector, PrioClass::Be);
    bed.requests[id].queue = HwQueue(queue);
    bed.requests[id].cpu = cpu;
    bed.insert_prepared(id, false);
    id
}

#[test]
fn domains_take_turns() {
    let mut bed = bed(1, 1);
    for (op, count) in [(Op::Read, 20), (Op::Write, 20), (Op::Discard, 3), (Op::WriteZeroes, 3)] {
        for n in 0..count {
            insert(&mut bed, op, 0, 0, 100 * n);
        }
    }
    let mut order = String::new();
    while let Some(id) = bed.dispatch() {
        order.push(['R', 'W', 'D', 'O'][Domain::from_op(bed.requests[id].op) as usize]);
        bed.finish(id);
    }
    let runs = [
        ('R', 16),
        ('W', 8),
        ('D', 1),
        ('O', 1),
        ('R', 4),
        ('W', 8),
        ('D', 1),
        ('O', 1),
        ('W', 4),
        ('D', 1),
    ];
    let expected: String =
        runs.into_iter().flat_map(|(letter, n)| core::iter::repeat_n(letter, n)).collect();
    assert_eq!(order, expected + "O");
}

#[test]
fn a_domain_without_tokens_waits() {
    let mut bed = bed(1, 1);
    bed.scheduler.pools[0].tokens.set_depth(2);
    let reads = [1, 2, 3].map(|sector| bed.read(sector));
    let write = bed.write(4);
    let order: Vec<RequestId> = core::iter::from_fn(|| bed.dispatch()).collect();
    assert_eq!(order, [reads[0], reads[1], write]);
    assert!(bed.scheduler.has_work(HwQueue(0)) && bed.scheduler.next_wakeup() == Instant::MAX);
    bed.at(5);
    bed.finish(write);
    let timer = Instant::ZERO + Nanos::from_millis(112);
    assert_eq!(
        bed.scheduler.next_wakeup(),
        timer,
        "no token, but a latency: 100 ticks, a multiple of 8"
    );
    bed.finish(reads[1]);
    assert_eq!(bed.scheduler.next_wakeup(), bed.now, "a token is free: at once");
    bed.scheduler.on_wakeup(bed.now);
    assert!(bed.scheduler.is_woken(HwQueue(0)));
    assert_eq!(bed.dispatch(), Some(reads[2]));
    assert!(!bed.scheduler.is_woken(HwQueue(0)));
    assert_eq!(bed.scheduler.next_wakeup(), timer);
}

#[test]
fn hardware_queues_that_wait_are_woken_in_turn() {
    let mut bed = bed(3, 3);
    bed.scheduler.pools[0].tokens.set_depth(1);
    for queue in [0, 1, 2, 0, 1, 2] {
        insert(&mut bed, Op::Read, queue, queue, 8);
    }
    let mut running = bed.dispatch_on(0).expect("a token is free");
    (0..3).for_each(|queue| assert_eq!(bed.dispatch_on(queue), None));
    let mut served = Vec::new();
    while bed.scheduler.queues.iter().any(|queue| queue.queued != [0; 4]) {
        bed.finish(running);
        bed.scheduler.on_wakeup(bed.now);
        let woken: Vec<u16> =
            (0..3).filter(|queue| bed.scheduler.is_woken(HwQueue(*queue))).collect();
        assert_eq!(woken.len(), 1, "one token, one queue");
        running = bed.dispatch_on(woken[0]).expect("the token is there");
        assert!(
            bed.scheduler.queues[usize::from(woken[0])].queued == [0; 4]
                || bed.dispatch_on(woken[0]).is_none()
        );
        served.push(woken[0]);
    }
    assert_eq!(served, [0, 1, 2, 1, 2]);
}

#[test]
fn a_requeued_request_gives_its_token_back_and_is_no_sample() {
    let mut bed = bed(1, 1);
    bed.scheduler.pools[1].tokens.set_depth(1);
    let first = bed.write(1);
    let second = bed.write(2);
    assert_eq!((bed.dispatch(), bed.dispatch()), (Some(first), None));
    bed.requeue(first);
    assert_eq!(bed.scheduler.timer, None);
    assert_eq!(bed.scheduler.pools[1].tokens.held(), (0, 0));
    // The second was staged with the first; a requeued request is put behind the staged ones.
    assert_eq!(bed.dispatch(), Some(second));
    bed.finish(second);
    assert_eq!(bed.dispatch(), Some(first));
}

#[test]
fn lists_of_a_domain_are_taken_whole_in_order_of_cpus() {
    let mut bed = bed(1, 70);
    for (cpu, sector) in [(69, 1), (3, 2), (69, 3), (3, 4)] {
        insert(&mut bed, Op::Read, 0, cpu, sector);
    }
    assert_eq!(bed.serve(1), ["R2"]);
    insert(&mut bed, Op::Read, 0, 0, 5);
    assert_eq!(bed.drain(), "R4 R1 R3 R5");
}

#[test]
fn bios_join_their_own_domain_alone() {
    let mut bed = bed(1, 2);
    let write = insert(&mut bed, Op::Write, 0, 1, 1000);
    for n in 0..10 {
        insert(&mut bed, Op::Read, 0, 1, 5000 * n);
    }
    bed.scheduler.set_context(HwQueue(0), 1);
    let joined = bed.find_merge(&bio(Op::Write, 1008, 8, PrioClass::Be), true);
    assert_eq!(
        joined,
        Some((write, MergeKind::Back)),
        "ten reads since do not push it out of the last eight writes"
    );
    assert_eq!(bed.find_merge(&bio(Op::Read, 1008, 8, PrioClass::Be), false), None);
    assert_eq!(bed.find_merge(&bio(Op::Read, 5008, 8, PrioClass::Be), false), None, "the ninth");
    bed.scheduler.set_context(HwQueue(0), 0);
    assert_eq!(bed.find_merge(&bio(Op::Write, 1008, 8, PrioClass::Be), false), None, "another CPU");
}

#[test]
fn what_is_not_sync_takes_three_quarters_of_the_tags() {
    for (kernel, nr_requests, limit) in [
        (Kernel::V6_18, 256, 192),
        (Kernel::V6_18, 62, 46),
        (Kernel::V6_18, 1, 1),
        (Kernel::V6_1, 256, 48),
        (Kernel::V6_1, 64, 12),
        (Kernel::V6_1, 4, 1),
    ] {
        let mut kyber = Kyber::new(kernel.rules(), Hz(250), 1, 1, 64);
        kyber.on_depth_updated(nr_requests, word_shift(nr_requests));
        assert_eq!(
            kyber.depth_limit(Op::Write, Flags::NONE),
            Some(limit),
            "{} {nr_requests}",
            kernel.name()
        );
        assert_eq!(kyber.depth_limit(Op::Discard, Flags::NONE), Some(limit));
        assert_eq!(kyber.depth_limit(Op::Read, Flags::NONE), None);
        let of_sync_writes = kernel.rules().kyber_limits_sync_writes.then_some(limit);
        for flags in [Flags::SYNC, Flags::FUA] {
            assert_eq!(kyber.depth_limit(Op::Write, flags), of_sync_writes);
        }
    }
}

#[test]
fn the_timer_counts_whole_ticks() {
    let mut kyber = Bed::new(Kernel::V6_18, Kyber::new(Kernel::V6_18.rules(), Hz(250), 1, 1, 8), 8);
    for (done, due) in [(7, Some(108)), (90, Some(108)), (108, None), (111, Some(212))] {
        kyber.at(done);
        kyber.read(8);
        let id = kyber.dispatch().expect("a read");
        if due.is_some() {
            kyber.finish(id);
        } else {
            kyber.scheduler.on_wakeup(kyber.now);
        }
        let due = due.map_or(Instant::MAX, |ms| Instant::ZERO + Nanos::from_millis(ms));
        assert_eq!(kyber.scheduler.next_wakeup(), due, "after {done} ms");
    }
}

#[test]
fn requests_of_the_domain_without_target_are_no_samples() {
    let mut bed = bed(1, 1);
    bed.insert(Op::WriteZeroes, 8, PrioClass::Be);
    assert_eq!(bed.drain(), "W8");
    assert_eq!(bed.scheduler.next_wakeup(), Instant::MAX);
}

/// The first seven changes of depth that Linux 6.18.44 recorded (`kyber_latency`, `kyber_adjust`)
/// for one process that wrote 4 KiB and flushed, by turns: samples, the quarter of the target in
/// which the total p99 was, and the depth of writes that followed. Every I/O p90 was in the last.
#[test]
fn flushes_take_the_depth_of_writes_as_measured() {
    let measured = [
        (588, 2, 64),
        (566, 2, 32),
        (591, 2, 16),
        (576, 1, 4),
        (531, 2, 2),
        (522, 2, 1),
        (582, 1, 1),
    ];
    let mut bed = bed(1, 1);
    for (samples, quarter, depth) in measured {
        let slow = Nanos::from_micros(2500 * quarter - 1);
        for n in 0..samples / 2 {
            let total = if n < 10 { slow } else { Nanos::from_micros(700) };
            bed.scheduler.sample(bed.now, Domain::Write, Nanos::from_micros(700), total);
            bed.now = bed.now + Nanos::from_micros(300);
            bed.scheduler.on_empty_flush(bed.now, Instant::new(bed.now.get() - 300_000));
        }
        bed.now = bed.scheduler.next_wakeup().max(bed.now);
        bed.scheduler.on_wakeup(bed.now);
        assert_eq!(bed.scheduler.depths(), [256, depth, 64, 16], "after {samples} samples");
    }
}
