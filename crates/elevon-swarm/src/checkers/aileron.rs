//! Checkers of what docs/explanation/aileron.md promises of the scheduler `aileron`, by its
//! decisions.

use std::collections::BTreeMap;

use elevon_core::sched::aileron::{Decisions, GroupClass, WaitingMember, WaitingQueue};
use elevon_core::units::{Instant, Nanos};

use super::{CheckResult, Checker, World, ensure};
use crate::tenants::Seen;

/// log2 of the unit of device time by weight: as fine as the scheduler's own.
const SHIFT: u32 = 12;
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
/// weight stays within the bound: `2 · (C_i / w_i + C_j / w_j + C / Σ)`, and four requests of one
/// that was owed them when it came back. The sum of all weights is at least that of the two. On a
/// disk, which serves by turns, and where a request was not chosen
/// among all that wait, nothing is promised.
#[derive(Default)]
pub(super) struct AileronShares {
    /// The smallest and the largest distance of the two so far, and the requests that had been
    /// served when they were first seen.
    apart: BTreeMap<Pair, (i128, i128, u64)>,
    /// The largest cost of any request.
    largest: u64,
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
        let of_largest = by_weight(self.largest, one.weight + other.weight);
        let costs = [one, other].map(|queue| by_weight(queue.largest, queue.weight));
        let owed = CREDIT * costs[0].max(costs[1]);
        // Each division rounds down by less than one: those for a request, and those here.
        let rounded = i128::from(served - seen.2) + 16;
        let (width, bound) =
            (seen.1 - seen.0, 2 * (costs[0] + costs[1] + of_largest) + owed + rounded);
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
        self.largest = queues.iter().map(|queue| queue.largest).fold(self.largest, u64::max);
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

/// Requests in flight become more only up to the limit: what is looked at, and what the driver gave
/// back, is exempt. So is a step in which the driver refused one, because in it a larger limit was
/// tried. A class above best effort may pass it by an eighth.
#[derive(Default)]
pub(super) struct AileronDepth {
    in_flight: u32,
    /// The limits of the step before.
    most: Option<[u32; 2]>,
    from_head: u64,
    refused: u64,
}

impl Checker for AileronDepth {
    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let Some(decisions) = &seen.aileron else { return Ok(()) };
        let Decisions { in_flight, most, from_head, refused, .. } = *decisions;
        let is_exempt = from_head != self.from_head || refused != self.refused;
        let has_grown = in_flight > self.in_flight && !is_exempt;
        let before = self.most;
        *self = Self { in_flight, most, from_head, refused };
        let (Some(most), Some(before), true) = (most, before, has_grown) else { return Ok(()) };
        // While one waits, what a floor asks for may take its place.
        let is_urgent = |class: &GroupClass| {
            class.class == 0 && (class.served > 0 || class.waits_since.is_some())
        };
        let is_urgent = decisions.classes.iter().any(is_urgent);
        let limit = most[usize::from(is_urgent)].max(before[usize::from(is_urgent)]);
        ensure(in_flight <= limit, || {
            format!("{in_flight} are in flight, {limit} at most were allowed")
        })
    }
}

/// Requests of a disk's turn that may be in the disk when a member is overdue, and classes that may
/// be served once beside it because they have waited for `class_expire`.
const MAX_AHEAD: u64 = 8 + 2;

/// How long a member has waited.
#[derive(Clone, Copy)]
struct Wait {
    since: Instant,
    /// The time for which requests were in flight meanwhile.
    waited: Nanos,
    /// The longest time of it in which none of them ended.
    longest: Nanos,
}

/// A tenant, or a process of none, whose request waits has it served within the bound that the
/// scheduler states, and what the device takes for those before it: for each that waits one request
/// may go first. What others of its class or above do is not asked for. Not counted is the time
/// while a more urgent class waits, or nothing is in flight, and it counts anew if the driver
/// refused or gave back a request.
#[derive(Default)]
pub(super) struct AileronBound {
    waits: BTreeMap<u32, Wait>,
    /// The last step, and whether requests were in flight then.
    last: Instant,
    was_busy: bool,
    /// Requests that had ended by then, and when the last did.
    ended: u64,
    ended_at: Instant,
    exempt: u64,
}

impl Checker for AileronBound {
    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let Some(decisions) = &seen.aileron else { return Ok(()) };
        let Decisions { in_flight, from_head, refused, classes, members, .. } = decisions;
        let of_root = || classes.iter().filter(|class| class.group == 0);
        let served: u64 = of_root().map(|class| class.served).sum();
        let ended = (served + from_head).saturating_sub(u64::from(*in_flight));
        let busy_since = |at: Instant| if self.was_busy { seen.now.since(at) } else { Nanos::ZERO };
        let [passed, idle] = [self.last, self.ended_at].map(busy_since);
        if ended != self.ended || !self.was_busy {
            (self.ended, self.ended_at) = (ended, seen.now);
        }
        (self.last, self.was_busy) = (seen.now, *in_flight > 0);
        let exempt = from_head + refused;
        if exempt != self.exempt {
            self.exempt = exempt;
            self.waits.clear();
        }
        let first =
            of_root().filter(|class| class.waits_since.is_some()).map(|class| class.class).min();
        let counts = |member: &&WaitingMember| member.group == 0 && Some(member.class) == first;
        let count = members.iter().filter(|member| member.group == 0).count() as u64;
        let mut still = BTreeMap::new();
        for member in members.iter().filter(counts) {
            let before = self.waits.get(&member.member).filter(|wait| wait.since == member.since);
            let new = Wait { since: member.since, waited: Nanos::ZERO, longest: idle };
            let wait = before.map_or(new, |wait| Wait {
                waited: wait.waited + passed,
                longest: wait.longest.max(idle),
                ..*wait
            });
            let most = member.bound + Nanos::new(wait.longest.get() * (count + MAX_AHEAD));
            ensure(wait.waited <= most, || {
                format!(
                    "{member:?} has waited for {:?} of {most:?}; {:?} without an end",
                    wait.waited, wait.longest
                )
            })?;
            still.insert(member.member, wait);
        }
        self.waits = still;
        Ok(())
    }
}
