//! Checks where I/O is counted, and compares the roll-up with a naive walk.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::sched::testing::Rng;

const READ: StatGroup = StatGroup::Read;

#[test]
fn the_line_has_the_kernels_order_and_is_empty_without_reads_and_writes() {
    let mut stats = Statistics::default();
    let tenant = TenantId(1);
    let line = |stats: &Statistics| stats.of(tenant).counters.line(8, 16).to_string();
    assert_eq!(line(&stats), "8:16");
    stats.on_issue(tenant, StatGroup::Discard, Bytes::new(1 << 20), true);
    assert_eq!(line(&stats), "8:16", "discards alone do not show");
    stats.on_issue(tenant, READ, Bytes::new(4096), true);
    stats.on_issue(tenant, StatGroup::Write, Bytes::ZERO, true);
    assert_eq!(line(&stats), "8:16 rbytes=4096 wbytes=0 rios=1 wios=1 dbytes=1048576 dios=1");
}

#[test]
fn a_cut_bio_counts_its_bytes_once_and_each_fragment() {
    let mut stats = Statistics::default();
    let tenant = TenantId(3);
    stats.on_issue(tenant, READ, Bytes::new(1 << 20), true);
    stats.on_issue(tenant, READ, Bytes::new(1 << 19), false);
    stats.on_issue(tenant, READ, Bytes::new(1 << 18), false);
    let seen = stats.of(tenant);
    assert_eq!((seen.counters.bytes[0], seen.counters.ios[0], seen.in_flight), (1 << 20, 3, 3));
    stats.on_finish(tenant, Nanos::new(100));
    stats.on_drop(tenant);
    let seen = stats.of(tenant);
    assert_eq!((seen.in_flight, seen.latency().map(Histogram::total)), (1, Some(1)));
    assert_eq!((seen.counters.all_ios(), seen.counters.all_bytes()), (3, 1 << 20));
}

#[test]
fn nothing_is_added_to_the_root_and_the_dead_stay_in_their_parents() {
    let mut tenants = Tenants::new();
    let top = tenants.add(ROOT).unwrap();
    let leaf = tenants.add(top).unwrap();
    let mut stats = Statistics::default();
    stats.on_issue(ROOT, READ, Bytes::new(1), true);
    stats.on_issue(top, READ, Bytes::new(10), true);
    stats.on_issue(leaf, READ, Bytes::new(100), true);
    tenants.remove(leaf).unwrap();
    let all = stats.rolled_up(&tenants);
    assert_eq!([ROOT, top, leaf].map(|tenant| all.of(tenant).counters.bytes[0]), [1, 110, 100]);
}

#[test]
fn rolled_up_is_the_sum_over_everybody_below() {
    let mut rng = Rng(11);
    let mut tenants = Tenants::new();
    let mut stats = Statistics::default();
    let mut issued = Vec::new();
    for _ in 0..3000 {
        match rng.below(10) {
            0 => {
                let _ = tenants.add(TenantId(rng.below(tenants.ids() as u64) as u32));
            }
            1 => {
                let _ = tenants.remove(TenantId(rng.below(tenants.ids() as u64) as u32));
            }
            2 | 3 if !issued.is_empty() => {
                let tenant = issued.swap_remove(rng.below(issued.len() as u64) as usize);
                stats.on_finish(tenant, Nanos::new(rng.below(1 << 30)));
            }
            _ => {
                let tenant = tenants.charged(TenantId(rng.below(tenants.ids() as u64) as u32));
                let group = [READ, StatGroup::Write, StatGroup::Discard][rng.below(3) as usize];
                stats.on_issue(tenant, group, Bytes::new(rng.below(1 << 20)), rng.below(4) > 0);
                issued.push(tenant);
            }
        }
    }
    let all = stats.rolled_up(&tenants);
    let ids = || (0..tenants.ids() as u32).map(TenantId);
    for tenant in ids() {
        let below =
            ids().filter(|&at| at == tenant || (tenant != ROOT && tenants.is_below(at, tenant)));
        let mut sum = TenantStat::default();
        below.for_each(|at| sum.add(&stats.of(at)));
        let seen = all.of(tenant);
        assert_eq!((seen.counters, seen.in_flight), (sum.counters, sum.in_flight), "{tenant:?}");
        assert_eq!(seen.latency, sum.latency);
    }
    assert_eq!(ids().map(|at| stats.of(at).in_flight).sum::<u64>(), issued.len() as u64);
}
