//! Compares the breakdown with a plain list of waits.

use super::*;
use crate::sched::testing::Rng;

fn causes(rng: &mut Rng) -> Cause {
    let level = TenantId(rng.below(6) as u32);
    let rules = [
        Rule::ReadBps,
        Rule::WriteBps,
        Rule::ReadIops,
        Rule::WriteIops,
        Rule::Bps,
        Rule::Iops,
        Rule::Bandwidth,
        Rule::IopsMax,
    ];
    let rule = rng.pick(&rules);
    rng.pick(&[
        Cause::Limit { level, rule },
        Cause::Cost,
        Cause::Debt,
        Cause::Latency { level },
        Cause::Tag,
        Cause::Writeback,
        Cause::Plug,
        Cause::Scheduler { served: Some(level) },
        Cause::Scheduler { served: None },
        Cause::SchedulerOthers,
        Cause::Flush,
        Cause::Device,
    ])
}

#[test]
fn it_is_the_sum_of_what_was_charged() {
    let mut rng = Rng(3);
    let mut tenants = Tenants::new();
    for _ in 0..40 {
        tenants.add(TenantId(rng.below(tenants.ids() as u64) as u32)).unwrap();
    }
    let (mut breakdown, mut list) = (WaitBreakdown::default(), Vec::new());
    for _ in 0..4000 {
        let tenant = TenantId(rng.below(tenants.ids() as u64) as u32);
        let (cause, time) = (causes(&mut rng), Nanos::new(rng.below(3) * rng.below(1 << 40)));
        breakdown.add(tenant, cause, time);
        list.push((tenant, cause, time));
    }
    let all = breakdown.rolled_up(&tenants);
    for tenant in (0..tenants.ids() as u32).map(TenantId) {
        let own = |at: &&(TenantId, Cause, Nanos)| at.0 == tenant;
        let below = |at: &&(TenantId, Cause, Nanos)| {
            own(at) || (tenant != ROOT && tenants.is_below(at.0, tenant))
        };
        let sum = |of: &dyn Fn(&&(TenantId, Cause, Nanos)) -> bool| {
            list.iter().filter(of).map(|at| at.2.get()).sum()
        };
        assert_eq!(breakdown.total(tenant), Nanos::new(sum(&own)));
        assert_eq!(all.total(tenant), Nanos::new(sum(&below)));
        for reason in Reason::ALL {
            let held = |at: &&(TenantId, Cause, Nanos)| own(at) && at.1.reason() == Some(reason);
            let count = list.iter().filter(held).filter(|at| !at.2.is_zero()).count() as u64;
            assert_eq!(
                breakdown.throttled(tenant, reason),
                Wait { count, time: Nanos::new(sum(&held)) }
            );
        }
        assert!(breakdown.of(tenant).is_sorted_by(|a, b| a.0 < b.0));
    }
    let everything = list.iter().map(|at| at.2.get()).sum::<u64>();
    assert_eq!(breakdown.iter().map(|(_, _, time)| time.get()).sum::<u64>(), everything);
}

#[test]
fn a_wait_that_took_no_time_is_none() {
    let mut breakdown = WaitBreakdown::default();
    breakdown.add(TenantId(1), Cause::Cost, Nanos::ZERO);
    assert!(breakdown.of(TenantId(1)).is_empty() && breakdown.of(TenantId(9)).is_empty());
    breakdown.add(TenantId(1), Cause::Cost, Nanos::new(5));
    breakdown.add(TenantId(1), Cause::Debt, Nanos::new(6));
    assert_eq!(
        breakdown.throttled(TenantId(1), Reason::Weight),
        Wait { count: 2, time: Nanos::new(11) }
    );
    assert_eq!(breakdown.throttled(TenantId(1), Reason::Latency), Wait::default());
}
