//! Whether one scheduler is at least as good as another on a mix: in unfairness and in throughput,
//! both as [`crate::division`] defines them.
//!
//! **Tolerances.** A figure counts as worse only beyond [`UNFAIRNESS`] and [`THROUGHPUT`]. Requests
//! are indivisible and a run is ten seconds long: two runs of one policy with other random seeds
//! differ by about half of that.
//!
//! **Trades.** A device may deliver more if a process is starved: a disk that serves one stream
//! only, or a drive that programs written data while a read waits. And a process can be served
//! better if others are held back far below what the device can do. If one scheduler is faster and
//! the other fairer, neither is at least as good in both: the mix counts as not won, but apart from
//! a mix on which the other scheduler is worse in nothing ([`Verdict::Slower`] and
//! [`Verdict::LessFair`] without a trade, [`Verdict::Worse`]).

use crate::division::{Claims, Division};
use crate::lab::Lab;
use crate::mix::Mix;
use crate::setup::Setup;

/// Unfairness that does not count, as a part of a share.
pub const UNFAIRNESS: f64 = 0.02;

/// Loss of throughput that does not count, as a part of the other's.
pub const THROUGHPUT: f64 = 0.03;

/// What a scheduler made of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The scheduler.
    pub setup: Setup,
    /// How it divided the device.
    pub division: Division,
}

/// How a scheduler compares with another on a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At least as good in both.
    AsGood,
    /// As fair, or fairer, and slower.
    Slower {
        /// The other is less fair: its throughput is taken from a process.
        is_trade: bool,
    },
    /// As fast, or faster, and less fair.
    LessFair {
        /// The other is slower: its fairness is paid for with throughput.
        is_trade: bool,
    },
    /// Worse in both.
    Worse,
}

impl Verdict {
    /// Compares a scheduler with another.
    pub fn between(own: &Division, other: &Division) -> Self {
        let is_slower = |one: &Division, than: &Division| {
            one.throughput() < than.throughput() * (1.0 - THROUGHPUT)
        };
        let is_less_fair =
            |one: &Division, than: &Division| one.unfairness() > than.unfairness() + UNFAIRNESS;
        match (is_slower(own, other), is_less_fair(own, other)) {
            (false, false) => Self::AsGood,
            (true, false) => Self::Slower { is_trade: is_less_fair(other, own) },
            (false, true) => Self::LessFair { is_trade: is_slower(other, own) },
            (true, true) => Self::Worse,
        }
    }

    /// Returns true if each is better than the other in one of the two.
    pub const fn is_trade(self) -> bool {
        matches!(self, Self::Slower { is_trade: true } | Self::LessFair { is_trade: true })
    }

    /// Returns true if the other is better in something and worse in nothing.
    pub fn is_beaten(self) -> bool {
        self != Self::AsGood && !self.is_trade()
    }
}

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Mixes.
    pub all: usize,
    /// At least as good in both.
    pub as_good: usize,
    /// Fairer and slower.
    pub fairer: usize,
    /// Faster and less fair.
    pub faster: usize,
    /// The other is better in something and worse in nothing.
    pub beaten: usize,
}

impl Tally {
    /// Counts verdicts.
    pub fn from_verdicts(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            tally.all += 1;
            *match verdict {
                Verdict::AsGood => &mut tally.as_good,
                Verdict::Slower { is_trade: true } => &mut tally.fairer,
                Verdict::LessFair { is_trade: true } => &mut tally.faster,
                Verdict::Slower { .. } | Verdict::LessFair { .. } | Verdict::Worse => {
                    &mut tally.beaten
                }
            } += 1;
        }
        tally
    }

    /// Returns a number of mixes as a part of all.
    pub fn part(&self, count: usize) -> f64 {
        count as f64 / self.all.max(1) as f64
    }
}

/// Runs a mix under each of the schedulers.
pub fn points(lab: &Lab, mix: &Mix, setups: &[Setup]) -> Vec<Point> {
    let claims = Claims::from_lab(lab, mix);
    let point =
        |setup: &Setup| Point { setup: *setup, division: claims.division(&lab.run(mix, setup)) };
    setups.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(got: [f64; 2], shares: [f64; 2]) -> Division {
        Division { got: got.to_vec(), shares: shares.to_vec() }
    }

    #[test]
    fn both_figures_count_beyond_their_tolerances() {
        let fair = division([0.5, 0.5], [0.5, 0.5]);
        let starves = division([0.2, 0.9], [0.55, 0.55]);
        let slow = division([0.25, 0.25], [0.25, 0.25]);
        let nearly = division([0.495, 0.5], [0.4975, 0.4975]);
        assert_eq!(Verdict::between(&fair, &slow), Verdict::AsGood);
        assert_eq!(Verdict::between(&slow, &fair), Verdict::Slower { is_trade: false });
        assert_eq!(Verdict::between(&fair, &starves), Verdict::Slower { is_trade: true });
        assert_eq!(Verdict::between(&starves, &fair), Verdict::LessFair { is_trade: true });
        assert_eq!(
            Verdict::between(&division([0.2, 0.8], [0.5, 0.5]), &fair),
            Verdict::LessFair { is_trade: false }
        );
        assert_eq!(Verdict::between(&division([0.1, 0.4], [0.25, 0.25]), &fair), Verdict::Worse);
        assert_eq!(
            [Verdict::between(&nearly, &fair), Verdict::between(&fair, &nearly)],
            [Verdict::AsGood; 2]
        );
    }
}
