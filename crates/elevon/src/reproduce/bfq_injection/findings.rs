//! Conclusions from throughput, requests in the device and shares.

use crate::reproduce::conclusions::{Conclusion, listed, percent_off, range};

/// A run of five readers: MB/s, mean requests in the device, Jain's index, and each reader's share.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderScheduler {
    pub(super) megabytes: f64,
    pub(super) depth: f64,
    pub(super) jain: f64,
    pub(super) shares: Vec<f64>,
}

/// Results of the five readers under each scheduler.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    /// Published MB/s with the proposal's rule.
    pub(super) published: f64,
    /// Depth at which the device reaches that figure; `None` if it does not.
    pub(super) published_depth: Option<f64>,
    /// The device without a scheduler and with 1 to 5 processes: (requests in the device, MB/s).
    pub(super) curve: Vec<(f64, f64)>,
    pub(super) none: UnderScheduler,
    pub(super) off: UnderScheduler,
    pub(super) proposal: UnderScheduler,
    pub(super) fair: UnderScheduler,
    /// MB/s of `inject=limit` by random seed.
    pub(super) limit: Vec<f64>,
    /// MB/s of `none` with exponential service times.
    pub(super) exponential: f64,
    pub(super) published_none: f64,
    /// MB/s and Jain's index under the proposal's rule by `inject_coeff`.
    pub(super) coefficients: Vec<(u32, f64, f64)>,
    /// MB/s under the proposal's rule, and BFQ's hw_tag, in each condition: fresh scheduler,
    /// low_latency=1, hw_tag known, inject=limit, four processes.
    pub(super) conditions: Vec<(f64, Option<u64>)>,
}

pub(super) const THROUGHPUT: [Conclusion<Readers>; 5] = [
    |all| {
        let (rates, depths): (Vec<String>, Vec<String>) =
            all.curve.iter().map(|(depth, mb)| (format!("{mb:.1}"), format!("{depth:.2}"))).unzip();
        Some(format!(
            "What a scheduler makes of this device is a matter of how many requests it keeps there: {} MB/s at {}.",
            listed(&rates),
            listed(&depths),
        ))
    },
    |all| {
        let (published, ours) = (all.published_none, [all.none.megabytes, all.exponential]);
        let (low, high) = range(ours);
        (high > 1.03 * low).then(|| {
            format!(
                "The figure of none rests on an assumption: the device's read times are spread evenly by a little. If they were \
                 exponential, with the same mean, it would be {:.1} MB/s, {:+.1} % from the published {published}.",
                all.exponential,
                percent_off(all.exponential, published),
            )
        })
    },
    |all| all.published_depth.map(|depth| format!("The published {} MB/s is a mean of {depth:.1}.", all.published)),
    |all| {
        let (ours, none) = (all.proposal.megabytes, all.none.megabytes);
        (percent_off(ours, none).abs() < 2.0 && ours > 1.05 * all.published).then(|| {
            format!(
                "The proposal's rule allows ten requests of others for each own one and there are four others, so by the rule the device \
                 is never short: {ours:.1} MB/s at {:.2}. No run here shows the {:.0} % that the real machine lost, and nothing is \
                 tuned to show them.",
                all.proposal.depth,
                100.0 * (1.0 - all.published / ours),
            )
        })
    },
    |all| {
        let (least, most) = range(all.limit.iter().copied());
        (most > 1.02 * least).then(|| {
            format!(
                "The later limit is learnt from single measurements and depends on chance: {least:.0} to {most:.0} MB/s over {} random \
                 sequences.",
                all.limit.len(),
            )
        })
    },
];

pub(super) const SHARES: [Conclusion<Readers>; 3] = [
    |all| {
        let fifth = 1.0 / all.proposal.shares.len() as f64;
        let even = all.proposal.shares.iter().all(|share| (share - fifth).abs() < 0.01);
        (even && all.proposal.shares.len() == 5).then(|| {
            "The proposal says that those who are injected are not chosen by weight; with one request each all five are always in the \
             device, and each gets a fifth."
                .to_owned()
        })
    },
    |all| {
        (all.fair.jain > 0.99 && all.fair.megabytes > 1.1 * all.off.megabytes).then(|| {
            format!(
                "inject=fair injects only a queue that its weight entitles to more at that moment, so the shares stay (index {:.4}) at \
                 {:.1} times the throughput of waiting.",
                all.fair.jain,
                all.fair.megabytes / all.off.megabytes,
            )
        })
    },
    |all| {
        let most = 210.0 / 80.0;
        (all.fair.depth < most * 1.01).then(|| {
            format!(
                "More than 210/80 = {most:.1} requests at a time no scheduler can have with these shares, while the heaviest has one; \
                 inject=fair has {:.2}.",
                all.fair.depth,
            )
        })
    },
];

pub(super) const CONDITIONS: [Conclusion<Readers>; 2] = [
    |all| {
        let found: Vec<bool> = all.conditions.iter().map(|(_, hw_tag)| *hw_tag == Some(1)).collect();
        let [fresh, raised, _, _, four] = found[..] else { return None };
        (fresh && !raised && !four).then(|| {
            "A fresh scheduler injects in time for that with five processes and not with four, or where low_latency has raised all of \
             them at first."
                .to_owned()
        })
    },
    |all| {
        let [_, raised, known, ..] = all.conditions[..] else { return None };
        (known.0 > 1.5 * raised.0).then(|| {
            format!(
                "On a running machine earlier I/O has settled it (hw_tag known): {:.1} MB/s instead of {:.1}.",
                known.0, raised.0
            )
        })
    },
];

pub(super) const COEFFICIENTS: [Conclusion<Readers>; 1] = [|all| {
    let (&(least, most_mb, low_jain), &(most, least_mb, high_jain)) =
        (all.coefficients.first()?, all.coefficients.last()?);
    (most_mb > 1.1 * least_mb && high_jain > low_jain).then(|| {
        format!(
            "From {least} to {most} the throughput goes from {most_mb:.1} to {least_mb:.1} MB/s and Jain's index from {low_jain:.3} to \
             {high_jain:.3}: with one coefficient for all, throughput is paid for with shares."
        )
    })
}];

/// The mixes: name, MB/s of `none`, and the share of it under `inject=off`, `seed`, `limit`,
/// `fair`.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    pub(super) name: &'static str,
    pub(super) of_none: [f64; 4],
    /// True if the reader of the greatest weight is the sequential one.
    pub(super) heaviest: bool,
}

const PROPOSAL: usize = 1;

pub(super) const MIXES: [Conclusion<Vec<Mixed>>; 4] = [
    |mixes| {
        let equal = mixes.iter().filter(|mix| (mix.of_none[PROPOSAL] - 1.0).abs() < 0.01);
        let equal: Vec<String> = equal.map(|mix| format!("\"{}\"", mix.name)).collect();
        (!equal.is_empty()).then(|| {
            format!(
                "Equal it becomes with the proposal's rule in {}: the slots of a light sequential reader are few, and in those of the \
                 others it is injected like everybody.",
                listed(&equal),
            )
        })
    },
    |mixes| {
        let less = mixes.iter().filter(|mix| mix.of_none[PROPOSAL] < 0.99);
        let less: Vec<String> =
            less.map(|mix| format!("{:.0} % in \"{}\"", 100.0 * mix.of_none[PROPOSAL], mix.name)).collect();
        (!less.is_empty()).then(|| format!("It stays below in others: {}.", listed(&less)))
    },
    |mixes| {
        let most = range(mixes.iter().flat_map(|mix| mix.of_none)).1;
        (most < 1.01).then(|| {
            format!(
                "No row is higher than none by more than {:.1} %. The model has no drive that favours streams or suffers from many.",
                percent_off(most, 1.0).max(0.0)
            )
        })
    },
    |mixes| {
        let heaviest = mixes.iter().find(|mix| mix.heaviest)?;
        let [off, proposal, ..] = heaviest.of_none;
        (proposal < 0.5).then(|| {
            format!(
                "Where the heaviest process reads sequentially the proposal's rule has {:.0} % of none and waiting alone {:.0} %: only \
                 seeky queues let others pass, as it says itself (\"service injection might be beneficial for sequential I/O too, \
                 we'll work on that\").",
                100.0 * proposal,
                100.0 * off,
            )
        })
    },
];
