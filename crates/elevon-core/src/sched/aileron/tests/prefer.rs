//! Shares or throughput, on a device like a virtio disk: more requests in flight gain throughput
//! far beyond the depth at which a heavy tenant still has some waiting.

use super::*;
use crate::units::Sectors;

const TENANTS: [u16; 3] = [400, 200, 100];
/// Requests that each tenant keeps under way.
const DEPTH: usize = 32;
/// The largest time that a client takes from an answer to the next request, in nanoseconds.
const THINK: u64 = 30_000;

/// A device of servers that take the next request in order, each for another time, behind a thread
/// that handles one request at a time.
#[derive(Clone, Copy, Debug)]
struct Virtio {
    servers: usize,
    /// The mean time of a request in a server, and in the thread.
    time: u64,
    thread: u64,
    /// The time in a server differs from the mean by up to so many percent, and for a tenth of a
    /// second at a time by up to so many for all requests: others use the machine.
    jitter: u64,
    drift: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    IsServed(RequestId),
    Ends(RequestId),
    Sends(u32),
}

/// Returns how many requests each tenant was served in eight seconds, after one that does not
/// count, and the device time that the heaviest lost of its share.
fn served(device: Virtio, prefer: i64, seed: u64) -> ([u64; 3], Nanos) {
    const FROM: u64 = 1_000_000_000;
    const TO: u64 = 9 * FROM;
    let mut aileron = Aileron::new(128);
    aileron.set_tunable("prefer", prefer);
    for (tenant, weight) in (1..).zip(TENANTS) {
        aileron.set_group(TenantId(tenant), TenantId(0), weight);
    }
    let (mut bed, mut rng, mut others) =
        (Bed::new(Kernel::V7_3, aileron, 128), Rng(seed), Rng(seed + 1000));
    let mut servers = alloc::vec![0_u64; device.servers];
    let (mut thread, mut speed, mut drifts) = (0, 100, 0);
    let mut events: Vec<(u64, Event)> = Vec::new();
    (0..DEPTH).for_each(|_| {
        (0..3).for_each(|tenant| events.push((rng.below(THINK), Event::Sends(tenant))));
    });
    let mut served = [0; 3];
    loop {
        let next = (0..events.len()).min_by_key(|&at| events[at]).expect("requests circulate");
        let (now, event) = events.swap_remove(next);
        if now >= TO {
            return (served, bed.scheduler.shares_missed(TenantId(1)).expect("aileron counts it"));
        }
        if now >= drifts {
            (drifts, speed) =
                (now + 100_000_000, 100 - device.drift + others.below(2 * device.drift + 1));
        }
        bed.now = Instant::new(now);
        match event {
            Event::IsServed(id) => {
                thread = now.max(thread) + device.thread;
                events.push((thread, Event::Ends(id)));
            }
            Event::Ends(id) => {
                let tenant = bed.requests[id].tenant.0 - 1;
                bed.finish(id);
                served[tenant as usize] += u64::from(now >= FROM);
                events.push((now + rng.below(THINK), Event::Sends(tenant)));
            }
            Event::Sends(tenant) => {
                let id = bed.prepare(Op::Read, rng.below(1 << 30) * 8, PrioClass::Be);
                let request = &mut bed.requests[id];
                (request.task, request.tenant, request.sectors) =
                    (TaskId(tenant), TenantId(tenant + 1), Sectors::new(8));
                let view = View { requests: &bed.requests, rules: &bed.rules };
                bed.scheduler.insert(bed.now, view, id, false);
            }
        }
        while let Some(id) = {
            let view = View { requests: &bed.requests, rules: &bed.rules };
            bed.scheduler.dispatch(bed.now, view, HwQueue(0))
        } {
            bed.requests[id].issued = bed.now;
            let free = servers.iter_mut().min().expect("a server");
            let time = device.time * (100 - device.jitter + rng.below(2 * device.jitter + 1)) / 100;
            *free = now.max(*free) + time * 100 / speed;
            events.push((*free, Event::IsServed(id)));
        }
        if bed.scheduler.next_wakeup() <= bed.now {
            let now = bed.now;
            bed.scheduler.on_wakeup(now);
        }
    }
}

/// By how much the share of the tenant that is off the most differs from its weight, in percent.
fn off(served: [u64; 3]) -> u64 {
    let all: u64 = served.iter().sum();
    let each = served.iter().zip(TENANTS).map(|(&served, weight)| {
        let due = all * u64::from(weight) / 700;
        served.abs_diff(due) * 100 / due
    });
    each.max().expect("tenants")
}

#[test]
fn shares_are_kept_at_no_more_than_a_fifth_of_the_throughput() {
    for (servers, time, thread) in
        [(6, 300, 2), (12, 300, 15), (24, 500, 2), (32, 800, 25), (40, 1_000, 2), (48, 1_000, 2)]
    {
        for drift in [0, 30] {
            let device =
                Virtio { servers, time: time * 1_000, thread: thread * 1_000, jitter: 60, drift };
            let [(throughput, _), (shares, _)] = [0, 1].map(|prefer| served(device, prefer, 1));
            let [all, kept]: [u64; 2] = [throughput, shares].map(|served| served.iter().sum());
            assert!(off(shares) <= 5, "{device:?}: {shares:?}");
            assert!(kept * 10 >= all * 8, "{device:?}: {kept} of {all}");
        }
    }
}

/// A device that needs more requests at a time than leave the heaviest tenant one that waits: with
/// four fifths of the throughput its weight cannot be in force, and that is counted.
#[test]
fn what_a_weight_that_is_not_in_force_loses_is_counted() {
    let device = Virtio { servers: 128, time: 2_000_000, thread: 2_000, jitter: 60, drift: 0 };
    let lost = |prefer| served(device, prefer, 1).1.as_millis();
    assert!(lost(1) > 9_000 / 50, "{} ms", lost(1));
    let device = Virtio { servers: 6, time: 300_000, ..device };
    let (_, lost) = served(device, 1, 1);
    assert!(lost.as_millis() < 9_000 / 50, "{lost:?}");
}
