//! `flow`: jobs of one flow do I/Os in proportion to their weights.
//!
//! A member's progress is its I/Os over its weight. It may issue an I/O while no other member that
//! competes has made less progress, so it is at most one I/O ahead of its share, and the slowest
//! member sets the pace of all. A member competes from its start to the end of its last loop,
//! except while it verifies. One that begins to compete starts level with the slowest of the
//! others: no process waits for I/O that was done before.
//!
//! The loop asks `Flows::allowance` before it polls a member, and tells `Flows::on_polled` what
//! the member has done. Cost of each: O(members of the flow).

use elevon_formats::fio::spec::JobSpec;

/// What a source has done for its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// I/Os that it has issued.
    pub ios: u64,
    /// It issues I/Os: the other members may have to wait for it.
    pub competes: bool,
}

/// Progress of one I/O at weight 1. Of other weights it is rounded down, so that of `1 << 32` I/Os
/// a member may do one more than its share.
const STEP: i128 = 1 << 32;

#[derive(Clone, Debug)]
struct Member {
    task: usize,
    weight: i128,
    /// Progress that it was given when it began to compete.
    head_start: i128,
    standing: Standing,
}

impl Member {
    fn progress_at(&self, ios: u64) -> i128 {
        self.head_start + i128::from(ios) * STEP / self.weight
    }
    fn progress(&self) -> i128 {
        self.progress_at(self.standing.ios)
    }
}

/// The flows of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    /// By task: its flow and its place in it. Empty if no job belongs to a flow.
    places: Vec<Option<(usize, usize)>>,
    flows: Vec<Vec<Member>>,
}

impl Flows {
    /// Returns the flows of processes with these sections, by task.
    pub(crate) fn new<'a>(specs: impl Iterator<Item = &'a JobSpec>) -> Self {
        let (mut ids, mut flows, mut places) = (Vec::new(), Vec::<Vec<Member>>::new(), Vec::new());
        for (task, spec) in specs.enumerate() {
            let place = spec.order.flow.map(|flow| {
                let at = ids.iter().position(|id| *id == flow.id).unwrap_or_else(|| {
                    ids.push(flow.id);
                    flows.push(Vec::new());
                    flows.len() - 1
                });
                let standing = Standing { ios: 0, competes: false };
                flows[at].push(Member {
                    task,
                    weight: flow.weight.max(1).into(),
                    head_start: 0,
                    standing,
                });
                (at, flows[at].len() - 1)
            });
            places.push(place);
        }
        if flows.is_empty() { Self::default() } else { Self { places, flows } }
    }

    #[inline]
    fn place(&self, task: usize) -> Option<(usize, usize)> {
        self.places.get(task).copied().flatten()
    }

    /// Returns true if the task belongs to a flow.
    #[inline]
    pub(crate) fn has(&self, task: usize) -> bool {
        self.place(task).is_some()
    }

    /// Returns the least progress of the members that compete, apart from one.
    fn least_of_others(&self, flow: usize, own: usize) -> Option<i128> {
        let others = self.flows[flow]
            .iter()
            .enumerate()
            .filter(|(at, other)| *at != own && other.standing.competes);
        others.map(|(_, other)| other.progress()).min()
    }

    /// Returns how many I/Os a task may issue before the others have issued any more.
    pub(crate) fn allowance(&mut self, task: usize, standing: Standing) -> u64 {
        let Some((flow, own)) = self.place(task) else { return u64::MAX };
        self.update(flow, own, standing);
        let Some(least) = self.least_of_others(flow, own) else { return u64::MAX };
        let member = &self.flows[flow][own];
        let lead = least - member.head_start;
        if member.progress() > least {
            return 0;
        }
        // It may issue the I/O after the last one at which its progress is not above `least`. The
        // rounded progress of one I/O more can still be equal to it.
        let mut last = u64::try_from(lead * member.weight / STEP).unwrap_or(0);
        while member.progress_at(last + 1) <= least {
            last += 1;
        }
        last + 1 - standing.ios
    }

    fn update(&mut self, flow: usize, own: usize, standing: Standing) {
        let joins = standing.competes && !self.flows[flow][own].standing.competes;
        let least = if joins { self.least_of_others(flow, own) } else { None };
        let member = &mut self.flows[flow][own];
        member.standing = standing;
        if let Some(least) = least {
            member.head_start += least - member.progress();
        }
    }

    /// Records what a task has done, and calls `wake` for every other member if that may let it
    /// issue.
    pub(crate) fn on_polled(
        &mut self,
        task: usize,
        standing: Standing,
        mut wake: impl FnMut(usize),
    ) {
        let Some((flow, own)) = self.place(task) else { return };
        if self.flows[flow][own].standing == standing {
            return;
        }
        self.update(flow, own, standing);
        for other in &self.flows[flow] {
            if other.task != task && other.standing.competes {
                wake(other.task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::units::Nanos;
    use elevon_formats::fio::spec::Flow;

    /// Flows of jobs with these (flow, weight).
    fn flows(of: &[(u32, u32)]) -> Flows {
        let spec = |&(id, weight): &(u32, u32)| {
            let mut spec = JobSpec::default_job("f");
            spec.order.flow = (weight > 0).then_some(Flow { id, weight, sleep: Nanos::ZERO });
            spec
        };
        let specs: Vec<JobSpec> = of.iter().map(spec).collect();
        Flows::new(specs.iter())
    }

    /// Lets the tasks take turns, each issuing all that it may (at most `most`), and returns what
    /// each has issued. It also checks that the slowest always may issue.
    fn turns(flows: &mut Flows, ios: &mut [u64], tasks: &[usize], rounds: usize, most: u64) {
        for round in 0..rounds {
            let mut issued = 0;
            for &task in tasks {
                let now = Standing { ios: ios[task], competes: true };
                let count = flows.allowance(task, now).min(most.min(1 + round as u64 % 3));
                ios[task] += count;
                issued += count;
                flows.on_polled(task, Standing { ios: ios[task], competes: true }, |_| ());
            }
            assert!(issued > 0, "somebody may always go on: {ios:?}");
        }
    }

    #[test]
    fn ios_are_in_proportion_to_weights() {
        let mut flows = flows(&[(0, 3), (0, 2), (0, 1), (0, 0), (7, 5)]);
        assert!(!flows.has(3) && flows.has(4));
        let mut ios = [0; 5];
        turns(&mut flows, &mut ios, &[0, 1, 2], 3000, 100);
        let (a, b, c) = (ios[0] as i64, ios[1] as i64, ios[2] as i64);
        assert!(c > 500, "{ios:?}");
        assert!((a - 3 * c).abs() <= 3 && (b - 2 * c).abs() <= 2, "{ios:?}");
        let alone = Standing { ios: 9, competes: true };
        assert_eq!(flows.allowance(4, alone), u64::MAX, "the only one of its flow");
        assert_eq!(flows.allowance(3, alone), u64::MAX, "of no flow");
    }

    #[test]
    fn who_joins_starts_level_and_who_ends_is_not_waited_for() {
        let mut flows = flows(&[(0, 1), (0, 1)]);
        let mut ios = [0; 2];
        assert_eq!(
            flows.allowance(0, Standing { ios: 0, competes: true }),
            u64::MAX,
            "the other has not started"
        );
        ios[0] = 1000;
        flows.on_polled(0, Standing { ios: 1000, competes: true }, |_| panic!("nobody to wake"));
        turns(&mut flows, &mut ios, &[0, 1], 300, 100);
        assert!(ios[0].abs_diff(1000 + ios[1]) <= 1 && ios[1] > 100, "{ios:?}");
        let mut woken = Vec::new();
        flows.on_polled(1, Standing { ios: ios[1], competes: false }, |task| woken.push(task));
        assert_eq!(woken, [0]);
        assert_eq!(flows.allowance(0, Standing { ios: ios[0], competes: true }), u64::MAX);
    }
}
