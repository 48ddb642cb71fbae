//! Problems that a watch alone can tell: of requests that still wait, of limits that a trace does
//! not show, and of a device that has become slow.

use std::collections::BTreeMap;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::stats::LatencyStat;
use elevon_result::number;
use elevon_trace::analysis::{Finding, FindingKind, Group};

use crate::owner::Limits;
use crate::settings::DiskKind;
use crate::slice::{Process, SizeClass, Slice, per_second};

/// The shortest wait of a request of the idle class that is a problem, in nanoseconds: it asked to
/// wait, but not for so long.
const LONG_WAIT: u64 = 200_000_000;
/// Requests of others in a window beside which the idle class waits for them.
const OTHERS: u64 = 16;

/// A request that waits for its issue.
pub(crate) struct Waiting {
    pub(crate) process: Process,
    pub(crate) prio: Option<IoPrio>,
    /// Nanoseconds until now.
    pub(crate) waited: u64,
}

fn is_idle(prio: Option<IoPrio>) -> bool {
    prio.is_some_and(|prio| prio.class() == PrioClass::Idle)
}

/// Finds a process of the idle class that waits for long, in the slices of a window.
pub(crate) fn idle_class(slices: &[&Slice], waiting: &[Waiting]) -> Option<Finding> {
    let mut longest: Option<(u64, &Process)> = None;
    let mut note = |waited: u64, process| {
        if waited >= LONG_WAIT && longest.is_none_or(|(most, _)| waited > most) {
            longest = Some((waited, process));
        }
    };
    let mut others: BTreeMap<&Process, u64> = BTreeMap::new();
    for (process, work) in slices.iter().flat_map(|slice| &slice.work) {
        let all: u64 = work.prios.values().sum();
        let of_idle = |(bits, _): &(&u16, &u64)| is_idle(IoPrio::from_bits(**bits));
        let idle: u64 = work.prios.iter().filter(of_idle).map(|(_, count)| count).sum();
        if idle * 2 > all {
            note(work.waiting.max, process);
        } else {
            *others.entry(process).or_default() += all;
        }
    }
    for one in waiting.iter().filter(|one| is_idle(one.prio)) {
        note(one.waited, &one.process);
    }
    let (waited, process) = longest?;
    let (other, _) =
        others.into_iter().filter(|(_, all)| *all >= OTHERS).max_by_key(|(_, n)| *n)?;
    let (who, whom) = (process.label(), other.label());
    Some(Finding {
        kind: FindingKind::IdleClass,
        title: format!(
            "Idle class: {who} waits {} before the device has its request, since {whom} comes first",
            number::span(waited as f64)
        ),
        when: None,
        who: vec![who.clone(), whom],
        figures: vec![("longest_wait_ns", waited)],
        evidence: vec![format!(
            "{who} has the I/O priority idle, which is served when no other process has I/O"
        )],
        advice: vec![format!(
            "ionice -c 2 -n 7 -p {}, or IOSchedulingClass=best-effort in its unit, if it must not wait so long",
            process.id.map_or_else(|| "PID".to_owned(), |id| id.to_string())
        )],
        weight: 500,
    })
}

/// Nanoseconds that a request of a healthy device takes at most by itself: without seeks, with
/// them, and for each byte (ten megabytes a second).
const SLOW_NS: u64 = 20_000_000;
const SLOW_WITH_SEEKS_NS: u64 = 100_000_000;
const SLOW_BYTE_NS: u64 = 100;
/// Requests of a class in a window from which on its median counts.
const ENOUGH_REQUESTS: u64 = 4;
/// By how much a device has to be slower than before, and how much deeper its queue may be for
/// that, in hundredths.
const SLOWER: u64 = 5;
const DEEPER: u64 = 150;

/// What is usual of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual {
    /// The median in the device, in nanoseconds, and the mean depth in hundredths, of the last
    /// window in which the device was not slow.
    classes: BTreeMap<SizeClass, (u64, u64)>,
}

impl Usual {
    /// Finds a device that takes too long by itself, or that has become slow.
    pub(crate) fn slow_device(
        &mut self,
        slices: &[&Slice],
        kind: DiskKind,
        has_seeks: bool,
    ) -> Option<Finding> {
        let length: u64 = slices.iter().map(|slice| slice.length).sum();
        let depth_time: u128 = slices.iter().map(|slice| slice.depth_time).sum();
        let busy: u64 = slices.iter().map(|slice| slice.busy).sum();
        // The depth while the device is busy.
        let depth = u64::try_from(depth_time * 100 / u128::from(busy.max(1))).unwrap_or(u64::MAX);
        let mut classes: BTreeMap<SizeClass, LatencyStat> = BTreeMap::new();
        for (class, times) in slices.iter().flat_map(|slice| &slice.classes) {
            classes.entry(*class).or_default().merge(times);
        }
        let base =
            if kind == DiskKind::Rotational || has_seeks { SLOW_WITH_SEEKS_NS } else { SLOW_NS };
        let mut worst: Option<(u64, SizeClass, u64)> = None;
        for (class, times) in classes.iter().filter(|(_, times)| times.count >= ENOUGH_REQUESTS) {
            let median = times.percentile(500_000)?;
            let most = base + (SLOW_BYTE_NS << (class.1 + 1));
            let by_itself = median.saturating_mul(100) / depth.max(100);
            let has_changed = self.classes.get(class).is_some_and(|&(before, before_depth)| {
                median >= before.saturating_mul(SLOWER)
                    && depth * 100 <= before_depth.max(100) * DEEPER
            });
            if by_itself >= most || (median >= most && has_changed) {
                if worst.is_none_or(|(longest, ..)| median > longest) {
                    worst = Some((median, *class, times.count));
                }
            } else {
                self.classes.insert(*class, (median, depth));
            }
        }
        let (median, class, count) = worst?;
        let before = self.classes.get(&class).map(|(before, _)| *before);
        Some(slow(median, class, count, before, length))
    }
}

fn slow(median: u64, class: SizeClass, count: u64, before: Option<u64>, length: u64) -> Finding {
    let what = if class.0 == Group::Read as usize { "reads" } else { "writes" };
    let size = if class.1 >= 10 {
        format!("{} KiB", 1_u64 << (class.1 - 10).min(50))
    } else {
        format!("{} bytes", 1_u64 << class.1)
    };
    let median_words = number::span(median as f64);
    let mut evidence = vec![format!(
        "{count} {what} of {size} and more took {median_words} in the device (median of {})",
        number::span(length as f64)
    )];
    evidence.extend(before.map(|before| {
        format!("before, they took {} at no smaller depth", number::span(before as f64))
    }));
    Finding {
        kind: FindingKind::SlowDevice,
        title: format!("Slow device: {what} of {size} take {median_words} in the device"),
        when: None,
        who: Vec::new(),
        figures: vec![("median_ns", median), ("before_ns", before.unwrap_or(0))],
        evidence,
        advice: vec![
            "smartctl -a, dmesg, and the cable, the path or the host behind it: the load of \
             processes does not explain this time"
                .to_owned(),
        ],
        weight: 900,
    }
}

/// The share of a limit, in hundredths, from which on it holds what it limits.
const AT_LIMIT: f64 = 0.9;

/// Rates of a cgroup: bytes and requests a second, of reads and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) bytes: [f64; 2],
    pub(crate) requests: [f64; 2],
}

impl Rates {
    /// Returns the rates between two times with the kernel's counts; zero without the first.
    pub(crate) fn between(before: Option<&(u64, [u64; 4])>, now: (u64, [u64; 4])) -> Self {
        let Some(&(at, counts)) = before else { return Self::default() };
        let nanos = now.0.saturating_sub(at);
        let rate = |index: usize| per_second(now.1[index].saturating_sub(counts[index]), nanos);
        Self { bytes: [rate(0), rate(1)], requests: [rate(2), rate(3)] }
    }
}

/// Finds a cgroup whose rate is that of its `io.max`. `device` has the numbers of the disk.
pub(crate) fn held_by_limit(
    name: &str,
    device: &str,
    limits: &Limits,
    rates: Rates,
) -> Option<Finding> {
    let all = [
        ("rbps", limits.bytes[0], rates.bytes[0], "reads"),
        ("wbps", limits.bytes[1], rates.bytes[1], "writes"),
        ("riops", limits.requests[0], rates.requests[0], "reads"),
        ("wiops", limits.requests[1], rates.requests[1], "writes"),
    ];
    let held = all.into_iter().find_map(|(key, limit, rate, what)| {
        let limit = limit?;
        (rate >= limit as f64 * AT_LIMIT).then_some((key, limit, rate, what))
    });
    let (key, limit, rate, what) = held?;
    let words = |value: f64| {
        if key.ends_with("bps") {
            format!("{}/s", number::bytes_decimal(value))
        } else {
            format!("{} a second", number::count(value))
        }
    };
    Some(Finding {
        kind: FindingKind::HeldByLimit,
        title: format!(
            "Held by io.max: {name} {what} {}, and its limit is {}",
            words(rate),
            words(limit as f64)
        ),
        when: None,
        who: vec![name.to_owned()],
        figures: vec![("rate", rate as u64), ("limit", limit)],
        evidence: vec![format!("{key}={limit} in {}/io.max", limits.folder)],
        advice: vec![format!(
            "echo \"{device} {key}=max\" > {}/io.max takes the limit away",
            limits.folder
        )],
        weight: 400,
    })
}
