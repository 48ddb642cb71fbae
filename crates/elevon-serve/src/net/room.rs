//! How many of all connections an export, and a tenant, may have if it has no limit of its own.
//!
//! An export, and a tenant with all its exports, has at most half of them, and leaves to each other
//! one its share of the other half. So one that takes what it can leaves every other one at least
//! `all / (2 * n)` of them, of `n` exports or tenants. A server with one export, or one tenant, has
//! nothing to divide.
//!
//! Cost: O(1) unless few are left or one has many, else O(connections).

use std::collections::BTreeMap;

/// Returns true if `name`, one of `names` exports or tenants, may have one connection more. `open`
/// yields the name of each connection that is open, of `all` that may be.
pub(crate) fn has_room<'a>(
    all: usize,
    names: usize,
    name: &str,
    open: impl Iterator<Item = &'a str>,
) -> bool {
    if names < 2 {
        return true;
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    open.for_each(|of| *counts.entry(of).or_default() += 1);
    let (share, total) = (all / (2 * names), counts.values().sum::<usize>());
    let own = counts.remove(name).unwrap_or(0);
    if own < share {
        return true;
    }
    let lacking = counts.values().map(|count| share.saturating_sub(*count)).sum::<usize>();
    let kept = lacking + share * (names - 1).saturating_sub(counts.len());
    own < all.div_ceil(2) && total + kept < all
}

#[cfg(test)]
mod tests {
    use elevon_testkit::Rng;

    use super::*;

    /// Whatever others open, each of them gets its share.
    #[test]
    fn every_name_gets_its_share_beside_those_that_take_what_they_can() {
        let mut rng = Rng(9);
        for round in 0..200 {
            let (all, count) = (1 + rng.below(300) as usize, 1 + rng.below(12) as usize);
            let names: Vec<String> = (0..count).map(|name| name.to_string()).collect();
            let mut open: Vec<&str> = Vec::new();
            let may = |name: &str, open: &[&str]| {
                open.len() < all && has_room(all, count, name, open.iter().copied())
            };
            let greedy = 1 + rng.below(count as u64) as usize;
            for _ in 0..4 * all {
                let name = &names[rng.below(greedy as u64) as usize];
                if may(name, &open) {
                    open.push(name);
                }
            }
            let most = names.iter().map(|name| open.iter().filter(|of| *of == name).count()).max();
            assert!(
                count == 1 || most <= Some(all.div_ceil(2)),
                "round {round}: {most:?} of {all}"
            );
            assert!(count > 1 || open.len() == all, "one alone has all");
            for name in &names {
                let mut own = open.iter().filter(|of| *of == name).count();
                while may(name, &open) {
                    open.push(name);
                    own += 1;
                }
                assert!(
                    own >= all / (2 * count),
                    "round {round}: {name} has {own} of {all}, {count} names"
                );
            }
        }
    }
}
