//! Divides the service of a contest among jobs: by weight at each level of cgroups, and to no job
//! more than it asked for. What a job or a cgroup does not ask for goes to its siblings by weight
//! (weighted max-min shares). Cost: O(n log n) for n competitors at a level.

use std::collections::BTreeMap;

use elevon_result::result::Claim;

/// A job that competes: its claim, and the service that it asked for at most (infinite if it asked
/// for all that it could get).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival<'a> {
    pub(super) claim: &'a Claim,
    pub(super) asked: f64,
}

/// Returns the service due to each of the rivals, of `amount` in all, in the unit of their demands.
/// `limit` is the most that a cgroup may get, by its path.
pub(super) fn divide(amount: f64, rivals: &[Rival<'_>], limit: &dyn Fn(&str) -> f64) -> Vec<f64> {
    let mut due = vec![0.0; rivals.len()];
    let all: Vec<usize> = (0..rivals.len()).collect();
    Level { rivals, limit, depth: 0 }.divide(amount, &all, &mut due);
    due
}

/// Returns the weights of the competitors of each level and their demands divided so that each gets
/// by its weight, but at most its demand.
fn fill(amount: f64, claims: &[(u32, f64)]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let per_weight = |at: usize| claims[at].1 / f64::from(claims[at].0.max(1));
    order.sort_by(|&a, &b| per_weight(a).total_cmp(&per_weight(b)));
    let mut shares = vec![0.0; claims.len()];
    let mut left = amount;
    let mut weights: u64 = claims.iter().map(|claim| u64::from(claim.0)).sum();
    for at in order {
        let (weight, asked) = claims[at];
        let by_weight = if weights == 0 { 0.0 } else { left * f64::from(weight) / weights as f64 };
        shares[at] = asked.min(by_weight);
        left -= shares[at];
        weights -= u64::from(weight);
    }
    shares
}

/// The competitors below one cgroup, at `depth` in the lists of cgroups of their claims.
#[derive(Clone, Copy)]
struct Level<'a> {
    rivals: &'a [Rival<'a>],
    limit: &'a dyn Fn(&str) -> f64,
    depth: usize,
}

/// A job, or a cgroup with its members.
struct Competitor {
    weight: u32,
    asked: f64,
    members: Vec<usize>,
    is_group: bool,
}

impl<'a> Level<'a> {
    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Returns the competitors at this level, jobs first, then cgroups by path.
    fn competitors(self, members: &[usize]) -> Vec<Competitor> {
        let mut groups: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        let mut all = Vec::new();
        for &at in members {
            let Rival { claim, asked } = self.rivals[at];
            match claim.cgroups.get(self.depth) {
                Some((path, _)) => groups.entry(path).or_default().push(at),
                None => all.push(Competitor {
                    weight: claim.weight,
                    asked,
                    members: vec![at],
                    is_group: false,
                }),
            }
        }
        all.extend(groups.into_iter().map(|(path, members)| {
            let weight = self.rivals[members[0]].claim.cgroups[self.depth].1;
            let inside: f64 = self.below().competitors(&members).iter().map(|own| own.asked).sum();
            Competitor { weight, asked: inside.min((self.limit)(path)), members, is_group: true }
        }));
        all
    }

    fn divide(self, amount: f64, members: &[usize], due: &mut [f64]) {
        let competitors = self.competitors(members);
        let claims: Vec<(u32, f64)> =
            competitors.iter().map(|own| (own.weight, own.asked)).collect();
        for (own, share) in competitors.iter().zip(fill(amount, &claims)) {
            if own.is_group {
                self.below().divide(share, &own.members, due);
            } else {
                due[own.members[0]] = share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::ioprio::PrioClass;
    use elevon_testkit::Rng;
    use elevon_testkit::water_filling::{Claim as Exact, max_min_shares};

    use super::*;

    fn claim(weight: u32, cgroups: &[(&str, u32)]) -> Claim {
        let cgroups = cgroups.iter().map(|&(path, weight)| (path.to_owned(), weight)).collect();
        Claim { given: true, class: PrioClass::Be, weight, cgroups, asked: None }
    }

    #[test]
    fn what_one_does_not_ask_for_goes_to_the_others_by_weight() {
        let claims = [claim(40, &[]), claim(40, &[]), claim(80, &[])];
        let rivals: Vec<Rival> =
            claims.iter().map(|claim| Rival { claim, asked: f64::INFINITY }).collect();
        assert_eq!(divide(160.0, &rivals, &|_| f64::INFINITY), [40.0, 40.0, 80.0]);
        let little = [Rival { asked: 10.0, ..rivals[0] }, rivals[1], rivals[2]];
        assert_eq!(divide(160.0, &little, &|_| f64::INFINITY), [10.0, 50.0, 100.0]);
    }

    #[test]
    fn a_limit_of_a_cgroup_bounds_all_in_it() {
        let claims = [claim(40, &[("x", 300)]), claim(40, &[("x", 300)]), claim(40, &[("y", 100)])];
        let rivals: Vec<Rival> =
            claims.iter().map(|claim| Rival { claim, asked: f64::INFINITY }).collect();
        let limit = |path: &str| if path == "x" { 20.0 } else { f64::INFINITY };
        assert_eq!(divide(100.0, &rivals, &limit), [10.0, 10.0, 80.0]);
    }

    #[test]
    fn shares_are_those_of_exact_water_filling() {
        let mut rng = Rng(3);
        for _ in 0..500 {
            let groups = 1 + rng.below(4);
            let (mut claims, mut asked, mut exact) = (Vec::new(), Vec::new(), Vec::new());
            for group in 0..groups {
                let (path, weight) = (format!("g{group}"), 1 + rng.below(900));
                let members: Vec<(u64, u64)> =
                    (0..=rng.below(3)).map(|_| (1 + rng.below(80), rng.below(2_000))).collect();
                for &(own, demand) in &members {
                    claims.push(claim(own as u32, &[(&path, weight as u32)]));
                    asked.push(demand as f64);
                }
                exact.push(Exact::group(
                    weight,
                    members.iter().map(|&(own, demand)| Exact::flow(own, demand)).collect(),
                ));
            }
            let rivals: Vec<Rival> =
                claims.iter().zip(&asked).map(|(claim, &asked)| Rival { claim, asked }).collect();
            let found = divide(3_000.0, &rivals, &|_| f64::INFINITY);
            for (found, exact) in found.iter().zip(max_min_shares(3_000, &exact)) {
                let floor = exact.floor() as f64;
                assert!(
                    (floor - 1e-6..floor + 1.0 + 1e-6).contains(found),
                    "{found} is not {exact:?}"
                );
            }
        }
    }
}
