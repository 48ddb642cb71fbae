//! Shares worked out by hand, and a second method that gives the capacity away unit by unit.

use super::*;
use crate::Rng;

fn shares(capacity: u64, claims: &[Claim]) -> Vec<Ratio> {
    max_min_shares(capacity, claims)
}

fn whole(numbers: &[u64]) -> Vec<Ratio> {
    numbers.iter().copied().map(Ratio::whole).collect()
}

fn plus(a: Ratio, b: Ratio) -> Ratio {
    Ratio::new(
        a.numerator * b.denominator + b.numerator * a.denominator,
        a.denominator * b.denominator,
    )
}

const PLENTY: u64 = 1 << 30;

#[test]
fn all_want_more_than_there_is() {
    let claims = [80, 70, 60, 50, 40].map(|weight| Claim::flow(weight, PLENTY));
    assert_eq!(shares(300, &claims), whole(&[80, 70, 60, 50, 40]));
    // A third each is no whole number.
    let claims = [1, 1, 1].map(|weight| Claim::flow(weight, PLENTY));
    assert_eq!(shares(100, &claims), vec![Ratio::new(100, 3); 3]);
}

#[test]
fn what_one_leaves_is_shared_by_the_others_by_weight() {
    // The first would be due 50, takes 10, and leaves 90 to 3 : 2.
    let claims = [Claim::flow(5, 10), Claim::flow(3, PLENTY), Claim::flow(2, PLENTY)];
    assert_eq!(shares(100, &claims), whole(&[10, 54, 36]));
    // The third takes 20 of the 36: the second has the rest.
    let claims = [Claim::flow(5, 10), Claim::flow(3, PLENTY), Claim::flow(2, 20)];
    assert_eq!(shares(100, &claims), whole(&[10, 70, 20]));
}

#[test]
fn nobody_gets_more_than_it_takes() {
    let claims = [Claim::flow(1, 10), Claim::flow(1000, 20), Claim::flow(7, 0)];
    assert_eq!(shares(100, &claims), whole(&[10, 20, 0]));
    assert_eq!(shares(0, &claims), whole(&[0, 0, 0]));
    assert_eq!(shares(100, &[]), []);
}

#[test]
fn a_claim_at_exactly_its_part_changes_nothing() {
    let claims = [Claim::flow(1, 25), Claim::flow(3, 75)];
    assert_eq!(shares(100, &claims), whole(&[25, 75]));
}

#[test]
fn a_group_is_one_among_its_siblings_whatever_it_holds() {
    // 100 to 100:300; within the second 1:1:4, of which one takes 5 only.
    let members = vec![Claim::flow(10, PLENTY), Claim::flow(10, 5), Claim::flow(40, PLENTY)];
    let claims = [Claim::flow(100, PLENTY), Claim::group(300, members.clone())];
    assert_eq!(shares(100, &claims), whole(&[25, 14, 5, 56]));
    // The group wants less than it is due: its sibling has the rest.
    let small = vec![Claim::flow(10, 20), Claim::flow(10, 5), Claim::flow(40, 5)];
    assert_eq!(
        shares(100, &[Claim::flow(100, PLENTY), Claim::group(300, small)]),
        whole(&[70, 20, 5, 5])
    );
    // A group of one group is that group.
    let nested = [Claim::flow(100, PLENTY), Claim::group(300, vec![Claim::group(1, members)])];
    assert_eq!(shares(100, &nested), whole(&[25, 14, 5, 56]));
}

#[test]
fn eight_servers_a_shallow_reader_and_a_deep_writer() {
    // The reader can have one server of eight and no more, whatever its weight is.
    assert_eq!(shares(8, &[Claim::flow(100, 1), Claim::flow(100, 8)]), whole(&[1, 7]));
    // On one server both are held to a half.
    assert_eq!(shares(2, &[Claim::flow(100, 2), Claim::flow(100, 2)]), whole(&[1, 1]));
}

/// The second method: unit after unit goes to the sibling that has least for its weight and wants
/// more, down to a flow.
struct Served<'a> {
    claim: &'a Claim,
    units: u64,
    members: Vec<Self>,
}

impl<'a> Served<'a> {
    fn new(claim: &'a Claim) -> Self {
        let members = match &claim.demand {
            Demand::Flow(_) => Vec::new(),
            Demand::Group(members) => members.iter().map(Self::new).collect(),
        };
        Self { claim, units: 0, members }
    }

    fn serve(&mut self) {
        self.units += 1;
        serve_one(&mut self.members);
    }

    fn flows(&self, found: &mut Vec<u64>) {
        if matches!(self.claim.demand, Demand::Flow(_)) {
            found.push(self.units);
        }
        self.members.iter().for_each(|member| member.flows(found));
    }
}

fn serve_one(siblings: &mut [Served<'_>]) -> bool {
    let hungry = siblings.iter_mut().filter(|served| served.units < served.claim.total());
    let next = hungry.min_by(|a, b| (a.units * b.claim.weight).cmp(&(b.units * a.claim.weight)));
    next.map(Served::serve).is_some()
}

fn by_units(capacity: u64, claims: &[Claim]) -> Vec<u64> {
    let mut all: Vec<Served<'_>> = claims.iter().map(Served::new).collect();
    for _ in 0..capacity {
        if !serve_one(&mut all) {
            break;
        }
    }
    let mut found = Vec::new();
    all.iter().for_each(|served| served.flows(&mut found));
    found
}

fn random_claims(rng: &mut Rng, levels: u32) -> Vec<Claim> {
    let count = 1 + rng.below(5);
    let claim = |rng: &mut Rng| {
        let weight = 1 + rng.below(100);
        if levels > 0 && rng.one_in(3) {
            return Claim::group(weight, random_claims(rng, levels - 1));
        }
        let most = rng.pick(&[1, 100, 3_000, 30_000]);
        Claim::flow(weight, rng.below(most + 1))
    };
    (0..count).map(|_| claim(rng)).collect()
}

#[test]
fn both_methods_agree() {
    let mut rng = Rng(1);
    for _ in 0..300 {
        let claims = random_claims(&mut rng, 2);
        let capacity = 1 + rng.below(20_000);
        let (exact, units) = (shares(capacity, &claims), by_units(capacity, &claims));
        assert_eq!(exact.len(), units.len());
        // A unit is indivisible, at each of three levels, and a late one may go to any sibling.
        let slack = 3 * 6;
        for (exact, units) in exact.iter().zip(&units) {
            assert!(
                exact.floor().abs_diff(*units) <= slack,
                "{capacity} of {claims:?}: {exact:?} and {units}"
            );
        }
    }
}

/// Nothing is left while a member wants it, and a member that is held back has at least as much for
/// its weight as every sibling.
#[test]
fn the_shares_are_max_min() {
    fn check(capacity: Ratio, claims: &[Claim], shares: &mut std::slice::Iter<'_, Ratio>) -> Ratio {
        let mut got: Vec<Ratio> = Vec::new();
        let direct = fill(capacity, claims);
        for (claim, own) in claims.iter().zip(direct) {
            got.push(match &claim.demand {
                Demand::Flow(_) => *shares.next().expect("a share for each flow"),
                Demand::Group(members) => check(own, members, shares),
            });
        }
        let total = got.iter().fold(Ratio::ZERO, |sum, share| plus(sum, *share));
        let wanted = Ratio::whole(claims.iter().map(Claim::total).sum());
        assert_eq!(total, capacity.min(wanted), "nothing is lost or made up");
        for (held, share) in
            claims.iter().zip(&got).filter(|(claim, share)| **share < Ratio::whole(claim.total()))
        {
            for (other, theirs) in claims.iter().zip(&got) {
                assert!(
                    theirs.times(1, other.weight) <= share.times(1, held.weight),
                    "{claims:?}: {got:?}"
                );
            }
        }
        total
    }
    let mut rng = Rng(2);
    for _ in 0..300 {
        let claims = random_claims(&mut rng, 2);
        let capacity = 1 + rng.below(20_000);
        let all = shares(capacity, &claims);
        check(Ratio::whole(capacity), &claims, &mut all.iter());
    }
}
