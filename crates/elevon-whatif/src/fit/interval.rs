//! The ends of the interval of devices that explain a trace.

use super::order::{Evidence, Explained, Shape};

/// Two devices are alike if at every depth their rates differ by less than this factor.
const ALIKE: f64 = 1.05;
/// By which factor a device may serve more requests at once than were in it, if the trace sets no
/// bound.
const MAX_MORE_AT_ONCE: u64 = 4;
/// Largest number of servers of a device.
const MAX_SERVERS: u64 = 4096;

/// Returns true if the trace sets no bound to the number of servers: as many as requests were in
/// the device, so that none waits, explain it as well.
pub(super) fn has_no_bound(evidence: &Evidence) -> bool {
    evidence.kept.iter().any(|one| one.shape.servers >= evidence.most)
}

/// Returns what explains a trace as well as the best, and differs most from it: with the shortest
/// and the longest latency of a request that is alone, and with the fewest and the most servers.
/// The ones that would serve other loads as the best does are left out.
pub(super) fn ends(evidence: &Evidence) -> Vec<Explained> {
    let most = evidence.most;
    let no_bound = has_no_bound(evidence);
    let deepest =
        if no_bound { most.saturating_mul(MAX_MORE_AT_ONCE).min(MAX_SERVERS) } else { most };
    let by = |of: fn(&Explained) -> f64| {
        let sorted = |a: &&Explained, b: &&Explained| of(a).total_cmp(&of(b));
        [evidence.kept.iter().min_by(sorted), evidence.kept.iter().max_by(sorted)]
    };
    let servers = by(|one| one.shape.servers as f64);
    let alone = by(|one| one.alone);
    let unbounded = |one: &Explained| match no_bound && one.shape.servers >= most {
        true => Explained { shape: Shape { servers: deepest, ..one.shape }, ..*one },
        false => *one,
    };
    let mut ends: Vec<Explained> = Vec::new();
    let all = [servers[0], servers[1], alone[0], alone[1]];
    for end in all.into_iter().flatten().map(unbounded) {
        let is_like = |other: &Explained| difference(&end, other, deepest) < libm::log(ALIKE);
        if !is_like(&evidence.best) && !ends.iter().any(is_like) {
            ends.push(end);
        }
    }
    ends.sort_by(|a, b| {
        (a.shape.servers, a.alone).partial_cmp(&(b.shape.servers, b.alone)).expect("numbers")
    });
    ends
}

/// Returns the largest difference of the rates of two devices up to a depth, as a logarithm.
fn difference(one: &Explained, other: &Explained, deepest: u64) -> f64 {
    let depths = std::iter::successors(Some(1_u64), |depth| depth.checked_mul(2))
        .take_while(|&depth| depth < deepest);
    depths.chain([deepest]).map(|depth| off(one, other, depth)).fold(0.0, f64::max)
}

fn off(one: &Explained, other: &Explained, depth: u64) -> f64 {
    libm::log(one.rate(depth) / other.rate(depth)).abs()
}

/// Number of requests that must have met a depth or less for it to be known, and as a part of all.
const MIN_REQUESTS_AT_A_DEPTH: usize = 30;
const MIN_PART_AT_A_DEPTH: usize = 100;

/// Returns the smallest and the largest number of requests in the device that there was, but for a
/// few that met less.
pub(super) fn met(depths: &[u64]) -> [u64; 2] {
    let mut sorted = depths.to_vec();
    sorted.sort_unstable();
    let at = MIN_REQUESTS_AT_A_DEPTH
        .max(sorted.len() / MIN_PART_AT_A_DEPTH)
        .min(sorted.len().saturating_sub(1));
    [sorted.get(at), sorted.last()].map(|depth| depth.copied().unwrap_or(1))
}

/// Returns the smallest and the largest number of requests in the device for which the requests
/// show how it serves them; 0 for no bound. `depths` is what each request met.
pub(super) fn known(best: &Explained, ends: &[Explained], depths: &[u64]) -> [u64; 2] {
    if ends.is_empty() {
        return [0; 2];
    }
    let [least, most] = met(depths);
    let parts = |depth: u64| ends.iter().any(|end| off(best, end, depth) >= libm::log(ALIKE));
    let below = (1..least).any(parts);
    let above = parts(most.saturating_mul(MAX_MORE_AT_ONCE).min(MAX_SERVERS));
    let from = if below || !above { least } else { 0 };
    [from, if above { most } else { 0 }]
}
