//! Checkers of what docs/explanation/aileron.md promises of the scheduler `aileron`, by its
//! decisions.

use std::collections::BTreeMap;

use elevon_core::sched::aileron::{Decisions, WaitingQueue};
use elevon_core::units::Instant;

use super::{CheckResult, Checker, World, ensure};
use crate::tenants::Seen;

/// log2 of the unit of device time by weight: as fine as the scheduler's own.
const SHIFT: u32 = 6;
/// Requests that a process may be owed when it comes back.
const CREDIT: i128 = 4;

/// Returns device time by weight.
fn by_weight(cost: u64, weight: u32) -> i128 {
    (i128::from(cost) << SHIFT) / i128::from(weight)
}

/// Two queues of a class of a group that both have requests waiting, by their stretches, and their
/// weights.
type Pair = ([u64; 2], [u32; 2]);

/// While two queues of a class of a group both have requests waiting, what each is charged by its
/// weight stays within the bound: `C_i / w_i + C_j / w_j`, and four requests of one that was owed
/// them when it came back. On a disk, which serves by turns, and where a request was not chosen
/// among all that wait, nothing is promised.
#[derive(Default)]
pub(super) struct AileronShares {
    /// The smallest and the largest distance of the two so far, and the requests that had been
    /// served when they were first seen.
    apart: BTreeMap<Pair, (i128, i128, u64)>,
    constrained: u64,
}

impl AileronShares {
    fn check(
        &mut self,
        pair: Pair,
        one: &WaitingQueue,
        other: &WaitingQueue,
        served: u64,
    ) -> CheckResult {
        let apart = by_weight(one.charged, one.weight) - by_weight(other.charged, other.weight);
        let seen = self.apart.entry(pair).or_insert((apart, apart, served));
        *seen = (seen.0.min(apart), seen.1.max(apart), seen.2);
        let costs = [one, other].map(|queue| by_weight(queue.largest, queue.weight));
        let owed = CREDIT * costs[0].max(costs[1]);
        // Each division rounds down by less than one: those for a request, and those here.
        let rounded = i128::from(served - seen.2) + 16;
        let (width, bound) = (seen.1 - seen.0, costs[0] + costs[1] + owed + rounded);
        ensure(width <= bound, || {
            format!("{one:?} and {other:?} came {width} apart, more than {bound}")
        })
    }
}

impl Checker for AileronShares {
    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let Some(decisions) = seen.aileron.as_ref().filter(|decisions| !decisions.has_turns) else {
            return Ok(());
        };
        if decisions.constrained != self.constrained {
            self.constrained = decisions.constrained;
            self.apart.clear();
        }
        let queues = &decisions.queues;
        let served = decisions.classes.iter().map(|class| class.served).sum();
        let mut pairs = Vec::new();
        for (at, one) in queues.iter().enumerate() {
            for other in queues[at + 1..]
                .iter()
                .filter(|other| (other.group, other.class) == (one.group, one.class))
            {
                let pair = ([one.stretch, other.stretch], [one.weight, other.weight]);
                self.check(pair, one, other, served)?;
                pairs.push(pair);
            }
        }
        pairs.sort_unstable();
        self.apart.retain(|pair, _| pairs.binary_search(pair).is_ok());
        Ok(())
    }
}

/// A class that has waited for `class_expire` is served before any other of its group is served
/// twice: only those go first that have waited for longer. On a disk a turn comes before that.
#[derive(Default)]
pub(super) struct AileronClasses {
    /// Requests of each class of its group that had been served when a class was first seen to
    /// have waited for so long, by group, class, and since when it waits.
    overdue: BTreeMap<(u32, usize, Instant), Vec<u64>>,
    constrained: u64,
}

impl Checker for AileronClasses {
    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let aileron = seen.aileron.as_ref().filter(|decisions| !decisions.has_turns);
        let Some(Decisions { classes, patience, constrained, .. }) = aileron else { return Ok(()) };
        if *constrained != self.constrained {
            self.constrained = *constrained;
            self.overdue.clear();
        }
        let is_overdue = |since: &Instant| seen.now.since(*since) >= *patience;
        let mut still = BTreeMap::new();
        for own in classes {
            let Some(since) = own.waits_since.filter(is_overdue) else { continue };
            let key = (own.group, own.class, since);
            let of_group = classes.iter().filter(|class| class.group == own.group);
            let served: Vec<u64> = of_group.map(|class| class.served).collect();
            let before = self.overdue.remove(&key).unwrap_or_else(|| served.clone());
            let is_passed = served.iter().zip(&before).any(|(served, before)| served - before > 1);
            ensure(!is_passed, || {
                format!("{own:?} waits; served then {before:?}, now {served:?}")
            })?;
            still.insert(key, before);
        }
        self.overdue = still;
        Ok(())
    }
}

/// Requests in flight become more only up to the limit. What the driver gave back is exempt, and a
/// step in which the driver refused one, because in it a larger limit was tried.
#[derive(Default)]
pub(super) struct AileronDepth {
    in_flight: u32,
    /// The limit of the step before.
    most: u32,
    from_head: u64,
    refused: u64,
}

impl Checker for AileronDepth {
    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let Some(decisions) = &seen.aileron else { return Ok(()) };
        let Decisions { in_flight, most, from_head, refused, .. } = *decisions;
        let is_exempt = from_head != self.from_head || refused != self.refused;
        let has_grown = in_flight > self.in_flight && !is_exempt;
        let limit = most.max(self.most);
        *self = Self { in_flight, most, from_head, refused };
        ensure(!has_grown || in_flight <= limit, || {
            format!("{in_flight} are in flight, {limit} at most were allowed")
        })
    }
}
