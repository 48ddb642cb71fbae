//! Explains the service of a tenant: the causes that its I/O waited for, in words and in shares
//! that sum to exactly 100 %.

use elevon_core::account::GroupCounters;
use elevon_core::control::stat::IoCounters;
use elevon_core::control::{Cause, Reason, Wait};
use elevon_core::tenant::ROOT;
use elevon_core::units::{Nanos, Sectors, TenantId};

use crate::number::{permille, span};
use crate::result::{DiskResult, RunResult, TenantResult};
use crate::summary::ratio;

/// Sum of all shares; one unit is a tenth of a percent.
pub const WHOLE: u64 = 1000;

/// Kinds of causes; each has its colour in bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CauseKind {
    /// The device worked on it.
    Device,
    /// A limit.
    Limit,
    /// The scheduler served other tenants.
    OthersServed,
    /// The scheduler served other I/O of the tenant, or nothing.
    OwnServed,
    /// The tenant's share of device time.
    Share,
    /// The latency target of a neighbour, or writeback throttling.
    Target,
    /// A tag or a plug.
    TagOrPlug,
    /// A flush of the device's cache.
    Flush,
    /// A timer that Elevon was late to run.
    LateTimer,
}

impl CauseKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 9] = [
        Self::Device,
        Self::Limit,
        Self::OthersServed,
        Self::OwnServed,
        Self::Share,
        Self::Target,
        Self::TagOrPlug,
        Self::Flush,
        Self::LateTimer,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Limit => "limits",
            Self::OthersServed => "scheduler, others served",
            Self::OwnServed => "scheduler, own I/O or nobody served",
            Self::Share => "share of device time (io.cost)",
            Self::Target => "latency target (io.latency, wbt)",
            Self::TagOrPlug => "free request or plug",
            Self::Flush => "cache flush",
            Self::LateTimer => "Elevon itself late",
        }
    }
}

/// One cause of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The cause.
    pub cause: Cause,
    /// Number and total of the waits.
    pub wait: Wait,
    /// The kind of the cause.
    pub kind: CauseKind,
    /// The cause in words.
    pub words: String,
    /// Share of the time, in units of 1/[`WHOLE`].
    pub share: u64,
}

/// Returns the causes of a tenant, largest first. Shares sum to [`WHOLE`], unless there are no
/// causes. `tenants` are all, in the order of their ids.
pub fn explain(tenants: &[TenantResult], tenant: &TenantResult) -> Vec<Explained> {
    let mut waits: Vec<(Cause, Wait)> =
        tenant.explain.iter().copied().filter(|at| !at.1.time.is_zero()).collect();
    waits.sort_by_key(|&(cause, wait)| (std::cmp::Reverse(wait.time), cause));
    let shares =
        largest_remainder(&waits.iter().map(|(_, wait)| wait.time.get()).collect::<Vec<_>>());
    let explained = waits.into_iter().zip(shares).map(|((cause, wait), share)| Explained {
        cause,
        wait,
        kind: kind(tenants, tenant, cause),
        words: words(tenants, tenant, cause),
        share,
    });
    explained.collect()
}

/// Divides [`WHOLE`] in proportion to `values`, in whole numbers that sum to it. Units lost by
/// rounding down go to the values that lost most.
pub(crate) fn largest_remainder(values: &[u64]) -> Vec<u64> {
    let total: u128 = values.iter().map(|&value| u128::from(value)).sum();
    if total == 0 {
        return vec![0; values.len()];
    }
    let scaled = |value: u64| u128::from(value) * u128::from(WHOLE);
    let mut shares: Vec<u64> = values.iter().map(|&value| (scaled(value) / total) as u64).collect();
    let missing = (WHOLE - shares.iter().sum::<u64>()) as usize;
    let mut by_loss: Vec<usize> = (0..values.len()).collect();
    by_loss.sort_by_key(|&at| (std::cmp::Reverse(scaled(values[at]) % total), at));
    by_loss.iter().take(missing).for_each(|&at| shares[at] += 1);
    shares
}

/// Returns how a tenant's reserve was kept, in words, by the time by which it came short.
pub fn reserve_in_words(missed: Nanos) -> String {
    match missed {
        Nanos::ZERO => "kept".to_owned(),
        missed => format!("short by {} of it while I/O was waiting", span(missed.get() as f64)),
    }
}

/// Returns the counters of a tenant's `io.stat`. Those of the root are the device's own, so they
/// count requests after merges, of all tenants: as in Linux since 5.9.
pub fn io_stat(run: &RunResult, tenant: &TenantResult) -> IoCounters {
    if tenant.id != ROOT {
        return tenant.io;
    }
    let DiskResult { start, end, .. } = &run.disk;
    let change = |figure: fn(&GroupCounters) -> u64| {
        std::array::from_fn(|group| figure(&end.groups[group]) - figure(&start.groups[group]))
    };
    IoCounters {
        bytes: change(|group| Sectors::new(group.sectors).bytes().get()),
        ios: change(|group| group.ios),
    }
}

/// Returns the total time that a tenant's I/O took.
pub fn total(tenant: &TenantResult) -> Nanos {
    tenant.explain.iter().fold(Nanos::ZERO, |sum, (_, wait)| sum + wait.time)
}

/// Returns the time that a tenant's I/O spent in the device, summed over I/Os.
pub fn device_time(tenant: &TenantResult) -> Nanos {
    let device = tenant.explain.iter().filter(|(cause, _)| *cause == Cause::Device);
    device.fold(Nanos::ZERO, |sum, (_, wait)| sum + wait.time)
}

/// Returns how long a policy held a tenant's I/O for `reason`.
pub fn throttled(tenant: &TenantResult, reason: Reason) -> Wait {
    let held = tenant.explain.iter().filter(|(cause, _)| cause.reason() == Some(reason));
    held.fold(Wait::default(), |sum, (_, wait)| Wait {
        count: sum.count + wait.count,
        time: sum.time + wait.time,
    })
}

/// Returns the device time of all tenants together.
pub fn device_time_of_all(run: &RunResult) -> Nanos {
    // These count the tenants below them.
    let tops = run.tenants.iter().filter(|tenant| tenant.depth <= 1);
    tops.fold(Nanos::ZERO, |sum, tenant| sum + device_time(tenant))
}

/// Returns a tenant's share of the device time of all tenants, from 0 to 1.
pub fn device_share(tenant: &TenantResult, all: Nanos) -> f64 {
    ratio(device_time(tenant).get() as f64, all.get() as f64)
}

pub(crate) fn by_id(tenants: &[TenantResult], id: TenantId) -> Option<&TenantResult> {
    tenants.binary_search_by_key(&id, |tenant| tenant.id).ok().map(|at| &tenants[at])
}

/// Returns the path of a tenant; its number in words if it is not among them.
pub fn path(tenants: &[TenantResult], id: TenantId) -> String {
    by_id(tenants, id).map_or_else(|| format!("tenant {}", id.0), |tenant| tenant.path.clone())
}

/// Returns the limit that a cause names, if it is known. It is unknown if it was set later, or
/// never by its file.
pub fn limit(tenants: &[TenantResult], cause: Cause) -> Option<u64> {
    let Cause::Limit { level, rule } = cause else { return None };
    by_id(tenants, level)?.limits.iter().find(|limit| limit.0 == rule).map(|limit| limit.1)
}

fn is_below(tenants: &[TenantResult], tenant: &TenantResult, id: TenantId) -> bool {
    let inside =
        |path: &str| path.strip_prefix(&tenant.path).is_some_and(|rest| rest.starts_with('/'));
    id == tenant.id
        || by_id(tenants, id).is_some_and(|at| tenant.id != TenantId(0) && inside(&at.path))
}

fn kind(tenants: &[TenantResult], tenant: &TenantResult, cause: Cause) -> CauseKind {
    match cause {
        Cause::Device => CauseKind::Device,
        Cause::Limit { .. } => CauseKind::Limit,
        Cause::Scheduler { served: None } => CauseKind::OwnServed,
        Cause::Scheduler { served: Some(served) } if is_below(tenants, tenant, served) => {
            CauseKind::OwnServed
        }
        Cause::Scheduler { .. } | Cause::SchedulerOthers => CauseKind::OthersServed,
        Cause::Cost | Cause::Debt => CauseKind::Share,
        Cause::Latency { .. } | Cause::Writeback => CauseKind::Target,
        Cause::Tag | Cause::Plug => CauseKind::TagOrPlug,
        Cause::Flush => CauseKind::Flush,
        Cause::LateTimer => CauseKind::LateTimer,
    }
}

fn words(tenants: &[TenantResult], tenant: &TenantResult, cause: Cause) -> String {
    let of = |level: TenantId, own: &str, others: &str| {
        if level == tenant.id {
            own.to_owned()
        } else {
            format!("{others} {}", path(tenants, level))
        }
    };
    match cause {
        Cause::Limit { level, rule } => {
            let value = limit(tenants, cause).map_or_else(String::new, |value| format!("={value}"));
            let rule = format!("{}{value}", rule.name());
            of(level, &format!("own limit {rule}"), &format!("limit {rule} of"))
        }
        Cause::Cost => "share of device time (io.cost)".into(),
        Cause::Debt => "debt of I/O that could not wait (io.cost)".into(),
        Cause::Latency { level } => {
            of(level, "own depth, cut for a latency target", "latency target: depth cut of")
        }
        Cause::Tag => "free request".into(),
        Cause::Writeback => "writeback throttling (wbt_lat_usec)".into(),
        Cause::Plug => "plug".into(),
        Cause::Scheduler { served: None } => "scheduler serving nobody".into(),
        Cause::Scheduler { served: Some(served) } => {
            of(served, "scheduler serving its own I/O", "scheduler serving")
        }
        Cause::SchedulerOthers => "scheduler serving many others".into(),
        Cause::Flush => "cache flush".into(),
        Cause::Device => "device".into(),
        Cause::LateTimer => "Elevon itself late (timer)".into(),
    }
}

/// Returns everything that a tenant waited for, as parts of a line. Shares that round to 0 are
/// omitted; the others sum to 100 %. After `most` causes the remaining ones are summed up in one
/// part.
pub fn parts(explained: &[Explained], most: usize) -> Vec<String> {
    let shown: Vec<&Explained> = explained.iter().filter(|at| at.share > 0).collect();
    let most = if shown.len() == most + 1 { most + 1 } else { most };
    let (first, rest) = shown.split_at(shown.len().min(most));
    let mut parts: Vec<String> =
        first.iter().map(|at| format!("{} {}", permille(at.share), at.words)).collect();
    if !rest.is_empty() {
        parts.push(format!(
            "{} {} other causes",
            permille(rest.iter().map(|at| at.share).sum()),
            rest.len()
        ));
    }
    parts
}

/// Returns at most `most` tenants that did I/O, in their order: those whose I/O took most time.
pub fn shown(run: &RunResult, most: usize) -> Vec<&TenantResult> {
    let active = run.tenants.iter().filter(|tenant| !tenant.is_idle());
    let mut all: Vec<(usize, &TenantResult)> = active.enumerate().collect();
    all.sort_by_key(|&(at, tenant)| (std::cmp::Reverse(total(tenant)), at));
    all.truncate(most);
    all.sort_by_key(|&(at, _)| at);
    all.into_iter().map(|(_, tenant)| tenant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_exactly_the_whole() {
        assert_eq!(largest_remainder(&[1, 1, 1]), [334, 333, 333]);
        assert_eq!(largest_remainder(&[612, 301, 87]), [612, 301, 87]);
        assert_eq!(largest_remainder(&[u64::MAX, u64::MAX, 0]), [500, 500, 0]);
        assert_eq!(largest_remainder(&[0, 0]), [0, 0]);
        let mut rng = elevon_testkit::Rng(1);
        for count in 1..60 {
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    let width = rng.below(64);
                    rng.bits() >> 8 >> width
                })
                .collect();
            let shares = largest_remainder(&values);
            assert_eq!(shares.iter().sum::<u64>(), WHOLE);
            let all = values.iter().sum::<u64>() as f64;
            for (&value, &share) in values.iter().zip(&shares) {
                assert!(
                    (value as f64 / all * WHOLE as f64 - share as f64).abs() < 1.0,
                    "off by less than one unit"
                );
            }
        }
    }
}
