//! Conclusions from the times at which the readers ended.

use crate::reproduce::conclusions::{Conclusion, percent_off};

/// Seconds after which the RT and the BE reader had finished.
pub(super) type Ends = [f64; 2];

/// Figures of all runs. Arrays of three are in the order of kernels plain, hooks, counter.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) lookup_us: f64,
    /// Chunks that both readers read together.
    pub(super) chunks: u64,
    /// Lookups of a run.
    pub(super) lookups: [u64; 3],
    /// Results by kernel, then by random seed.
    pub(super) runs: [Vec<Ends>; 3],
    /// Mean of the runs.
    pub(super) ends: [Ends; 3],
    pub(super) published: [Ends; 3],
    /// On a disk whose rate is the limit: plain, hooks.
    pub(super) medium: [Ends; 2],
    /// The plain kernel with inject=limit.
    pub(super) injecting: Ends,
    /// Under a limit: one FIFO, queues by class.
    pub(super) limited: [Ends; 2],
    /// Seconds that one of the limited readers takes alone.
    pub(super) limited_alone: f64,
}

impl Summary {
    /// Returns the times that follow from the limit: with one FIFO both readers end together, with
    /// queues by class one after the other.
    pub(super) fn arithmetic(&self) -> [Ends; 2] {
        let both = 2.0 * self.limited_alone;
        [[both, both], [self.limited_alone, both]]
    }
}

fn same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.005
}

fn each_same(a: Ends, b: Ends) -> bool {
    a.iter().zip(&b).all(|(a, b)| same(*a, *b))
}

/// Conclusions of section 1.
pub(super) const UNRULED: [Conclusion<Summary>; 5] = [
    |s| {
        let [plain, hooks, counter] = s.lookups;
        let chunks = s.chunks;
        Some(format!(
            "Lookups: {plain} plain, {hooks} with the hooks, {counter} with the counter, for {chunks} chunks."
        ))
    },
    |s| {
        (s.lookups[2] == 0 && s.runs[2] == s.runs[0] && s.lookups[1] > 0).then(|| {
            "With the counter no run looked anything up, and its runs are those of the plain kernel.".to_owned()
        })
    },
    |s| {
        let (ours, published) = (s.ends[1][1], s.published[1][1]);
        let off = percent_off(ours, published);
        (off.abs() >= 1.0).then(|| format!("BE with hooks ends {off:+.1} % from what was published."))
    },
    |s| {
        let published = percent_off(s.published[2][1], s.published[0][1]);
        let ours = percent_off(s.ends[2][1], s.ends[0][1]);
        (published < -5.0 && ours > -1.0).then(|| {
            format!(
                "The published BE with the counter, {:.1} s, is {:.0} % earlier than on the kernel without any hook. Ours is \
                 {ours:+.1} %: nothing in these runs explains more than the overhead that is gone.",
                s.published[2][1],
                -published,
            )
        })
    },
    |s| {
        let off = |runs: &[[f64; 2]]| runs.iter().map(|run| from_first(run, &runs[0])).fold(0.0, f64::max);
        let most = s.runs.iter().map(|runs| off(runs)).fold(0.0, f64::max);
        (most < 0.01 && s.runs[0].len() > 1).then(|| {
            format!(
                "The {} runs of each kernel, with other random seeds, differ from its first by {:.1} ms at most: of two sequential readers \
                 nothing but a late worker is left to chance in the model, so the mean is each of them.",
                s.runs[0].len(),
                most * 1e3,
            )
        })
    },
];

/// Returns by how many seconds a run's ends differ from those of another.
fn from_first(run: &[f64; 2], first: &[f64; 2]) -> f64 {
    run.iter().zip(first).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Conclusions of section 2: what limits the readers.
pub(super) const WAYS: [Conclusion<Summary>; 2] = [
    |s| {
        let slower = percent_off(s.ends[1][0], s.ends[0][0]);
        let hidden = each_same(s.medium[0], s.medium[1]);
        (hidden && slower > 1.0).then(|| {
            format!(
                "A lookup's time shows if the host is what limits: RT is then {slower:.1} % slower. A disk that gives no more than that \
                 rate reads ahead while the host is busy, and {} us a chunk do not show.",
                s.lookup_us,
            )
        })
    },
    |s| {
        (!each_same(s.medium[0], s.medium[1])).then(|| {
            let by = [0, 1].map(|who| percent_off(s.medium[1][who], s.medium[0][who]));
            format!("Where the medium limits, lookups make RT {:+.1} % and BE {:+.1} % later.", by[0], by[1])
        })
    },
];

/// Conclusions of section 2: which reader ends first.
pub(super) const CLASSES: [Conclusion<Summary>; 2] = [
    |s| {
        let in_order = s.runs.iter().flatten().chain(&s.medium).all(|[rt, be]| rt < be);
        in_order.then(|| "RT ends first in every run here: no run with hooks turns the classes round.".to_owned())
    },
    |s| {
        let [rt, be] = s.injecting;
        (rt > be).then(|| {
            format!(
                "A scheduler that serves others while it waits for RT's next request does: BFQ since 5.2 injects without regard to \
                 class (inject=limit, the last row), and RT ends {:.2} s after BE. CFQ did not inject.",
                rt - be,
            )
        })
    },
];

/// Conclusions of section 3.
pub(super) const LIMITED: [Conclusion<Summary>; 2] = [
    |s| {
        let (ours, ideal) = (s.limited[0], s.arithmetic()[0]);
        each_same(ours, ideal).then(|| {
            format!("In one FIFO both end when the limit has passed the bytes of both, {:.2} s: RT gains nothing by its class.", ideal[0])
        })
    },
    |s| {
        let (ours, ideal) = (s.limited[1], s.arithmetic()[1]);
        each_same(ours, ideal).then(|| {
            format!(
                "With queues by class the last ends as late, and RT has all of the limit while it wants it: {:.2} s instead of {:.2}.",
                ours[0], s.limited[0][0],
            )
        })
    },
];
