//! Whether the place of a request matters: whether a sequential one takes another time than one
//! elsewhere.

use std::collections::BTreeMap;

use super::depths;
use super::model::{Kind, Served};
use elevon_core::units::{Bytes, Sector};
use elevon_sim::device::slots::place::Streams;

/// Minimum number of requests of one size and depth at either place, for a comparison.
const MIN_REQUESTS_AT_A_PLACE: usize = 10;
/// Minimum number of requests of a direction at either place.
const FEWEST_OF_ALL: usize = 100;
/// The place matters if the medians differ by this factor on average.
const MATTERS: f64 = 1.25;

/// Returns the requests with sequential ones told from others, in each direction where these take
/// another time; `None` if there is no such direction.
pub(super) fn by_place(served: &[Served]) -> Option<Vec<Served>> {
    let mut streams: [Streams; 2] = Default::default();
    let kinds: Vec<Kind> = served
        .iter()
        .map(|one| {
            let (streams, sequential) = match one.kind {
                Kind::Read => (&mut streams[0], Kind::SequentialRead),
                Kind::Write => (&mut streams[1], Kind::SequentialWrite),
                _ => return one.kind,
            };
            let goes_on = streams.go_on(Sector::new(one.sector), Bytes::new(one.bytes));
            if goes_on { sequential } else { one.kind }
        })
        .collect();
    let depths = depths(served, false);
    let is_told =
        [Kind::Read, Kind::Write].map(|direction| matters(served, &kinds, &depths, direction));
    if is_told == [false; 2] {
        return None;
    }
    let told = |(one, &kind): (&Served, &Kind)| match one.kind {
        Kind::Read if is_told[0] => Served { kind, ..*one },
        Kind::Write if is_told[1] => Served { kind, ..*one },
        _ => *one,
    };
    Some(served.iter().zip(&kinds).map(told).collect())
}

/// Returns true if sequential requests of a direction take another time than others of their size
/// that met as many requests in the device.
fn matters(served: &[Served], kinds: &[Kind], depths: &[u64], direction: Kind) -> bool {
    let mut groups: BTreeMap<(u64, u64), [Vec<u64>; 2]> = BTreeMap::new();
    let mut counts = [0; 2];
    let of_direction = |(one, _): &((&Served, &Kind), &u64)| one.0.kind == direction;
    for ((one, &kind), &depth) in served.iter().zip(kinds).zip(depths).filter(of_direction) {
        let is_sequential = usize::from(kind != direction);
        counts[is_sequential] += 1;
        groups.entry((one.bytes, depth.next_power_of_two())).or_default()[is_sequential]
            .push(one.latency());
    }
    if counts.iter().any(|&count| count < FEWEST_OF_ALL) {
        return false;
    }
    let (mut weight, mut difference) = (0.0, 0.0);
    for mut latencies in groups.into_values() {
        let count = latencies[0].len().min(latencies[1].len());
        if count < MIN_REQUESTS_AT_A_PLACE {
            continue;
        }
        let [other, sequential] = [0, 1].map(|place: usize| {
            let middle = latencies[place].len() / 2;
            *latencies[place].select_nth_unstable(middle).1 as f64
        });
        weight += count as f64;
        difference += count as f64 * libm::log(other.max(1.0) / sequential.max(1.0));
    }
    difference.abs() > weight * libm::log(MATTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes of a log and writes elsewhere in turn, each alone in the device.
    fn served(sequential: u64, elsewhere: u64) -> Vec<Served> {
        let one = |n: u64| {
            let (sector, took) = if n.is_multiple_of(2) {
                (n * 4, sequential)
            } else {
                ((n * 7919) << 10, elsewhere)
            };
            let issued = n * 1_000_000;
            Served {
                issued,
                completed: issued + took + n % 7,
                sector,
                bytes: 4096,
                kind: Kind::Write,
            }
        };
        (0..400).map(one).collect()
    }

    #[test]
    fn a_place_that_matters_is_told() {
        for (sequential, elsewhere) in [(40_000, 200_000), (200_000, 40_000)] {
            let told = by_place(&served(sequential, elsewhere)).expect("it matters");
            let sequential = told.iter().filter(|one| one.kind == Kind::SequentialWrite).count();
            assert_eq!((sequential, told.len()), (199, 400), "all of the log but the first");
        }
    }

    #[test]
    fn a_place_that_does_not_matter_is_not() {
        assert!(by_place(&served(40_000, 45_000)).is_none(), "an eighth is too little");
        let few = &served(40_000, 200_000)[..150];
        assert!(by_place(few).is_none(), "too few");
    }
}
