//! Weighted max-min shares of one capacity, by water-filling, in exact rational arithmetic.
//!
//! A claim has a weight among its siblings, and a demand: what it takes at most. The shares are the
//! only ones that use as much of the capacity as is demanded and from which no member can get more
//! without taking it from a sibling that has no more than it, relative to its weight. In a group
//! the same holds among its members for what the group gets.
//!
//! Cost: O(n log n) comparisons for n claims with the same parent.

use std::cmp::Ordering;

/// One that claims a part of the capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Weight among the claims with the same parent, at least 1.
    pub weight: u64,
    /// What it takes, and which member takes it.
    pub demand: Demand,
}

/// What a claim takes at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// So much of the capacity, in its unit.
    Flow(u64),
    /// What the members take together.
    Group(Vec<Claim>),
}

impl Claim {
    /// Returns the claim of a flow, in the unit of the capacity.
    pub const fn flow(weight: u64, demand: u64) -> Self {
        Self { weight, demand: Demand::Flow(demand) }
    }

    /// Returns the claim of a group.
    pub const fn group(weight: u64, members: Vec<Self>) -> Self {
        Self { weight, demand: Demand::Group(members) }
    }

    /// Returns what it takes at most, in the unit of the capacity.
    fn total(&self) -> u64 {
        match &self.demand {
            Demand::Flow(demand) => *demand,
            Demand::Group(members) => members.iter().map(Self::total).sum(),
        }
    }
}

/// A number that is not negative, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// Returns `numerator / denominator`.
    ///
    /// # Panics
    ///
    /// If the denominator is 0.
    pub const fn new(numerator: u128, denominator: u128) -> Self {
        assert!(denominator != 0, "a ratio of nothing");
        let divisor = greatest_common_divisor(numerator, denominator);
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    const fn whole(number: u64) -> Self {
        Self { numerator: number as u128, denominator: 1 }
    }

    const fn minus(self, other: Self) -> Self {
        let numerator = self.numerator * other.denominator - other.numerator * self.denominator;
        Self::new(numerator, self.denominator * other.denominator)
    }

    const fn times(self, part: u64, of: u64) -> Self {
        Self::new(self.numerator * part as u128, self.denominator * of as u128)
    }

    /// Returns the number without its fraction.
    pub const fn floor(self) -> u64 {
        (self.numerator / self.denominator) as u64
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }
}

/// Returns the share of every flow, in the order in which a walk of the tree meets them.
///
/// Products of numbers must fit into 128 bits: capacities and demands below 2^31, weights whose
/// sums are below 2^16, and three levels of groups do.
///
/// # Panics
///
/// If a weight is 0.
pub fn max_min_shares(capacity: u64, claims: &[Claim]) -> Vec<Ratio> {
    let mut shares = Vec::new();
    divide(Ratio::whole(capacity), claims, &mut shares);
    shares
}

fn divide(capacity: Ratio, claims: &[Claim], shares: &mut Vec<Ratio>) {
    for (claim, share) in claims.iter().zip(fill(capacity, claims)) {
        match &claim.demand {
            Demand::Flow(_) => shares.push(share),
            Demand::Group(members) => divide(share, members, shares),
        }
    }
}

/// The shares of claims with the same parent. The member that wants least for its weight is looked
/// at first: it gets what it wants if that is below its part of what is left.
fn fill(capacity: Ratio, claims: &[Claim]) -> Vec<Ratio> {
    assert!(claims.iter().all(|claim| claim.weight > 0), "a claim without a weight");
    let level = |at: usize| Ratio::new(claims[at].total().into(), claims[at].weight.into());
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&at| level(at));
    let mut shares = vec![Ratio::ZERO; claims.len()];
    let mut left = capacity;
    let mut weights: u64 = claims.iter().map(|claim| claim.weight).sum();
    for at in order {
        let part = left.times(claims[at].weight, weights);
        shares[at] = part.min(Ratio::whole(claims[at].total()));
        left = left.minus(shares[at]);
        weights -= claims[at].weight;
    }
    shares
}

#[cfg(test)]
mod tests;
