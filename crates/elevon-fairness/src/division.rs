//! Compares how processes divided a device with their weighted max-min shares of it.
//!
//! Everything is counted in time of the device: the cost of an I/O is the time that it takes on a
//! device that does nothing else ([`Lab::costs`]), so the costs of small and large I/Os, of reads
//! and writes, can be added. A device that is always busy delivers 1.0 of its time a second. A
//! device with several resources can deliver slightly more of a mix than of one kind of I/O alone;
//! a disk that serves several streams delivers less.
//!
//! There are two figures. **Throughput** is the total time delivered. **Unfairness** says how this
//! total was divided: the shares are the weighted max-min shares of *this* total, where no process
//! is due more than it gets alone, and
//!
//! - [`Division::unfairness`] is the greatest shortfall of a process against its share. 0 says that
//!   no process has less than its share, 1 that a process that is due something has nothing;
//! - [`Division::misplaced`] is the part of the delivered time that went to the wrong processes.
//!
//! So a scheduler that idles the device and divides the rest by weight is slow but fair, and one
//! that gains throughput by starving a process is fast but unfair. [`least_of_share`] is one figure
//! for both: its shares are of what the device can deliver.

use elevon_testkit::water_filling::{Claim, Demand, max_min_shares};

use crate::lab::Lab;
use crate::measured::Measured;
use crate::mix::Mix;

/// A whole device, in the unit of the oracle: billionths.
const WHOLE: f64 = 1e9;

/// What the processes of a mix are due: their tree of weights, what each can use, and what its I/Os
/// cost.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Time of the device that an I/O of each process costs, in nanoseconds.
    pub costs: Vec<f64>,
    /// What each process gets alone, as a part of the device's time.
    pub demands: Vec<f64>,
    tree: Vec<Claim>,
    /// The processes in the order in which a walk of the tree meets them.
    order: Vec<usize>,
}

/// What a run delivered, and how it was divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// What each process got, as a part of the device's time.
    pub got: Vec<f64>,
    /// The weighted max-min share of each process of what was delivered in all.
    pub shares: Vec<f64>,
}

impl Claims {
    /// Returns the claims of the processes of a mix. Runs what of it was not measured before.
    pub fn from_lab(lab: &Lab, mix: &Mix) -> Self {
        let costs = lab.costs(mix);
        let demands: Vec<f64> = lab
            .alone(mix)
            .iter()
            .zip(&costs)
            .map(|(alone, cost)| alone.rate * cost / 1e9)
            .collect();
        let mut order = Vec::new();
        let tree = siblings(mix, None, &demands, &mut order);
        Self { costs, demands, tree, order }
    }

    /// Returns the weighted max-min share of each process, of a capacity in devices.
    pub fn shares(&self, capacity: f64) -> Vec<f64> {
        let in_order = max_min_shares(units(capacity), &self.tree);
        let mut shares = vec![0.0; in_order.len()];
        for (&at, share) in self.order.iter().zip(in_order) {
            shares[at] = share.floor() as f64 / WHOLE;
        }
        shares
    }

    /// Returns how a run divided the device.
    pub fn division(&self, measured: &Measured) -> Division {
        let rates = measured.processes.iter().map(|process| process.rate);
        let got: Vec<f64> = rates.zip(&self.costs).map(|(rate, cost)| rate * cost / 1e9).collect();
        let shares = self.shares(got.iter().sum());
        Division { got, shares }
    }
}

impl Division {
    /// Returns the throughput: what was delivered in all, in devices.
    pub fn throughput(&self) -> f64 {
        self.got.iter().sum()
    }

    /// Returns the greatest shortfall of a process against its share, 0 to 1.
    pub fn unfairness(&self) -> f64 {
        1.0 - least_of_share(&self.got, &self.shares).min(1.0)
    }

    /// Returns the part of the delivered time that went to other processes than it was due to.
    pub fn misplaced(&self) -> f64 {
        let short: f64 =
            self.got.iter().zip(&self.shares).map(|(got, share)| (share - got).max(0.0)).sum();
        if short > 0.0 { short / self.throughput() } else { 0.0 }
    }
}

/// Returns the least of what processes got over what they are due; infinite if no process is due
/// anything.
pub fn least_of_share(got: &[f64], shares: &[f64]) -> f64 {
    let due = got.iter().zip(shares).filter(|(_, share)| **share > 0.0);
    due.map(|(got, share)| got / share).fold(f64::INFINITY, f64::min)
}

fn units(part: f64) -> u64 {
    (part * WHOLE).round() as u64
}

/// The claims of a group's members: its groups, then its processes.
fn siblings(
    mix: &Mix,
    parent: Option<usize>,
    demands: &[f64],
    order: &mut Vec<usize>,
) -> Vec<Claim> {
    let mut all = Vec::new();
    for (at, group) in mix.groups.iter().enumerate().filter(|(_, group)| group.parent == parent) {
        let demand = Demand::Group(siblings(mix, Some(at), demands, order));
        all.push(Claim { weight: group.weight.into(), demand });
    }
    for (at, process) in
        mix.processes.iter().enumerate().filter(|(_, process)| process.group == parent)
    {
        order.push(at);
        all.push(Claim::flow(process.weight().into(), units(demands[at])));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::ProcessMeasured;
    use crate::mix::{Group, MixProcess};
    use elevon_core::units::Nanos;

    fn process(name: &str, group: Option<usize>, level: u8) -> MixProcess {
        MixProcess { group, level, ..MixProcess::reader(name) }
    }

    fn claims(mix: &Mix, demands: &[f64]) -> Claims {
        let mut order = Vec::new();
        let tree = siblings(mix, None, demands, &mut order);
        Claims { costs: vec![1e6; demands.len()], demands: demands.to_vec(), tree, order }
    }

    fn measured(rates: &[f64]) -> Measured {
        let one = |rate: &f64| ProcessMeasured {
            rate: *rate,
            p50: Nanos::ZERO,
            p99: Nanos::ZERO,
            lasted: Nanos::ZERO,
        };
        Measured { processes: rates.iter().map(one).collect(), windows: Vec::new() }
    }

    fn near(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        assert!(
            got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8),
            "{got:?} are not {expected:?}"
        );
    }

    #[test]
    fn shares_are_of_what_was_delivered() {
        // Weights 80 and 40; an I/O takes a millisecond: 600 a second are 0.6 of the device.
        let mix = Mix::new("slots", vec![process("a", None, 0), process("b", None, 4)]);
        let claims = claims(&mix, &[1.0, 1.0]);
        let fair = claims.division(&measured(&[400.0, 200.0]));
        near(&fair.shares, &[0.4, 0.2]);
        near(&[fair.throughput(), fair.unfairness(), fair.misplaced()], &[0.6, 0.0, 0.0]);
        // Half and half: a is due 0.4 and has 0.3, a quarter less; a sixth of all is misplaced.
        let equal = claims.division(&measured(&[300.0, 300.0]));
        near(&[equal.throughput(), equal.unfairness(), equal.misplaced()], &[0.6, 0.25, 1.0 / 6.0]);
        let starved = claims.division(&measured(&[0.0, 600.0]));
        near(&[starved.unfairness(), starved.misplaced()], &[1.0, 2.0 / 3.0]);
    }

    #[test]
    fn nobody_is_due_more_than_it_can_use() {
        let mix = Mix::new("slots", vec![process("a", None, 4), process("b", None, 4)]);
        let shallow = claims(&mix, &[0.1, 1.0]);
        let division = shallow.division(&measured(&[100.0, 900.0]));
        near(&division.shares, &[0.1, 0.9]);
        near(&[division.unfairness()], &[0.0]);
        // More than alone, as by chance, is no loss of another.
        let division = shallow.division(&measured(&[110.0, 1_010.0]));
        near(&[division.unfairness(), division.misplaced()], &[0.0, 0.0]);
        near(&[least_of_share(&[0.5, 0.2], &[0.5, 0.0])], &[1.0]);
    }

    #[test]
    fn groups_share_before_their_processes() {
        let group =
            |name: &str, parent, weight| Group { name: name.into(), parent, weight, reserve: 0 };
        // Processes stand in another order than their groups.
        let processes =
            vec![process("b1", Some(1), 4), process("a1", Some(0), 4), process("b2", Some(1), 0)];
        let mix = Mix {
            groups: vec![group("a", None, 100), group("b", None, 300)],
            ..Mix::new("slots", processes)
        };
        near(&claims(&mix, &[1.0; 3]).shares(1.0), &[0.25, 0.25, 0.5]);
    }
}
