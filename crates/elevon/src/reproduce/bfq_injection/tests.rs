//! Checks the expected results of the experiment on runs made by the test.

use std::sync::OnceLock;

use super::*;
use crate::reproduce::conclusions::text_of;

fn near(ours: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((ours - wanted).abs() <= tolerance, "{what}: {ours}, not {wanted} +- {tolerance}");
}

fn parameters() -> Parameters {
    Parameters::parse(PARAMETERS)
}

/// Returns the runs of the five readers, which are made once.
fn five() -> &'static five::Five {
    static FIVE: OnceLock<five::Five> = OnceLock::new();
    FIVE.get_or_init(|| five::measure(&Lab::quiet(), &parameters()).expect("runs"))
}

#[test]
fn five_readers_with_and_without_injection() {
    let five = five();
    near(five.curve[0].1, 25.0, 0.25, "calibrated: depth 1");
    // The published 110 is slightly above the prediction of either distribution of service times.
    // Waiting gives depth 1 by construction.
    let none = [megabytes(&five.exponential), megabytes(five.of(NONE))];
    assert!(none[0] > 0.9 * 110.0 && none[0] < none[1] && none[1] < 1.05 * 110.0, "none: {none:?}");
    near(megabytes(five.of(OFF)), 25.0, 0.5, "off");
    near(five.of(OFF).disk.mean_in_device(), 1.0, 0.05, "off: depth");
    // The published 100 corresponds to depth 4.4; the rule reaches at least that, and never more
    // than `none`.
    near(five.depth_for(100.0).expect("within the curve"), 4.4, 0.1, "depth of the published figure");
    let seed = megabytes(five.of(SEED));
    assert!((100.0..=megabytes(five.of(NONE)) * 1.01).contains(&seed), "seed: {seed}");
    // A learnt limit admits most requests of the four others but not all: throughput is that of the
    // device at the mean depth, which is between two and five, or a little less, because the
    // depth varies and the curve bends down.
    for &(depth, mb) in &five.limit_seeds {
        assert!((five.curve[1].0..five.curve[4].0).contains(&depth), "limit: {depth}");
        let expected = five.at_depth(depth).expect("within the curve");
        assert!((0.95..=1.01).contains(&(mb / expected)), "limit: {mb}; the device gives {expected} at that depth");
    }
    // With `off` and `fair` shares follow the weights; with the proposal's rule all are equal.
    let bandwidths = |setting| shares(five.of(setting)).shares;
    for share in bandwidths(OFF).iter().chain(&bandwidths(FAIR)) {
        near(share.bandwidth.got, share.by_weight, 0.015, "by weight");
    }
    for share in bandwidths(SEED) {
        near(share.bandwidth.got, 0.2, 0.005, "a fifth each");
    }
    assert!(jain(five.of(FAIR)) > 0.995 && jain(five.of(OFF)) > 0.99, "{} {}", jain(five.of(FAIR)), jain(five.of(OFF)));
    near(jain(five.of(SEED)), 0.615, 0.01, "all alike");
    // A larger coefficient injects less: less throughput, and shares nearer to the weights.
    let rates: Vec<f64> = five.coefficients.iter().map(|(_, _, run)| megabytes(run)).collect();
    assert!(rates.windows(2).all(|pair| pair[1] <= 1.01 * pair[0]) && rates[6] < 0.5 * rates[0], "{rates:?}");
    near(rates[0], seed, 1e-9, "the proposal's own coefficient");
    // `fair` has more throughput than waiting; weights allow at most 210/80 requests at a time.
    let fair = five.of(FAIR);
    assert!(megabytes(fair) > 1.6 * megabytes(five.of(OFF)), "fair: {}", megabytes(fair));
    assert!(fair.disk.mean_in_device() <= 210.0 / 80.0 * 1.01, "fair: {}", fair.disk.mean_in_device());
}

/// Every figure of the table is reviewed when it changes; the ranges above say what has to hold.
#[test]
fn table_of_the_five_readers() {
    let mut document = Document::new("Five readers");
    document.table(five::shares_table(five()));
    insta::assert_snapshot!(document.text());
}

#[test]
fn the_rule_needs_to_know_that_the_device_queues() {
    let five = five();
    let conditions: Vec<(f64, Option<u64>)> =
        five.conditions.iter().map(|(_, run)| (megabytes(run), run.scheduler.counters.first().map(|c| c.1))).collect();
    assert!(conditions[0].0 > 100.0 && conditions[0].1 == Some(1), "{conditions:?}");
    for at in [1, 4] {
        near(conditions[at].0, 25.0, 0.6, five.conditions[at].0);
        assert_eq!(conditions[at].1, Some(0), "{}", five.conditions[at].0);
    }
}

#[test]
fn light_sequential_readers_leave_the_throughput_equal_to_none() {
    let mixes = mixes::measure(&Lab::quiet(), &parameters()).expect("runs");
    let of = |mix: usize, setting: Setting| {
        let at = mixes::SETTINGS.iter().position(|s| *s == setting).expect("a setting");
        &mixes[mix].runs[at]
    };
    for mix in [0, 1] {
        near(megabytes(of(mix, SEED)) / megabytes(of(mix, NONE)), 1.0, 0.01, mixes[mix].name);
        assert!(megabytes(of(mix, OFF)) < 0.3 * megabytes(of(mix, NONE)), "{}", mixes[mix].name);
        assert!(jain(of(mix, FAIR)) > 0.99, "{}", mixes[mix].name);
    }
    let text = text_of(&mixes.iter().map(mixes::Mix::mixed).collect(), &findings::MIXES);
    for sentence in ["\"4 KiB, the lightest\"", "No row is higher than none", "heaviest process reads sequentially"] {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
    // BFQ does not inject into a heavy sequential reader.
    assert!(megabytes(of(3, SEED)) < 0.5 * megabytes(of(3, NONE)), "{}", mixes[3].name);
}

/// Each of these sentences disappears or changes if the figures do.
#[test]
fn conclusions_follow_the_figures() {
    let readers = five().readers(&parameters());
    let with = |change: &dyn Fn(&mut findings::Readers)| {
        let mut altered = readers.clone();
        change(&mut altered);
        [&findings::THROUGHPUT[..], &findings::SHARES, &findings::CONDITIONS, &findings::COEFFICIENTS]
            .map(|conclusions| text_of(&altered, conclusions))
            .join(" ")
    };
    let usual = with(&|_| ());
    for (sentence, changed) in [
        ("If they were exponential", with(&|all| all.exponential = all.none.megabytes)),
        ("The published 100 MB/s is a mean of 4.4", with(&|all| all.published_depth = None)),
        ("the device is never short", with(&|all| all.proposal.megabytes = 90.0)),
        ("the 9 % that the real machine lost", with(&|all| all.published = all.proposal.megabytes)),
        ("depends on chance", with(&|all| all.limit = vec![93.0; 6])),
        ("each gets a fifth", with(&|all| all.proposal.shares[0] = 0.3)),
        ("so the shares stay", with(&|all| all.fair.jain = 0.9)),
        ("so the shares stay", with(&|all| all.fair.megabytes = all.off.megabytes)),
        ("inject=fair has", with(&|all| all.fair.depth = 4.0)),
        ("A fresh scheduler injects in time", with(&|all| all.conditions[4].1 = Some(1))),
        ("From 1 to 100 the throughput goes", with(&|all| all.coefficients[6].1 = all.coefficients[0].1)),
        ("On a running machine", with(&|all| all.conditions[2].0 = 25.0)),
    ] {
        assert!(usual.contains(sentence), "{sentence}: {usual}");
        assert!(!changed.contains(sentence), "{sentence}: {changed}");
    }

    let mix = |of_none, heaviest| findings::Mixed { name: if heaviest { "heavy" } else { "light" }, of_none, heaviest };
    let of = |mixes: Vec<findings::Mixed>| text_of(&mixes, &findings::MIXES);
    let usual = of(vec![mix([0.2, 1.0, 0.8, 0.4], false), mix([0.4, 0.4, 0.4, 0.4], true)]);
    for sentence in [
        "rule in \"light\":",
        "below in others: 40 % in \"heavy\"",
        "No row is higher than none by more than 0.0 %",
        "rule has 40 % of none and waiting alone 40 %",
    ] {
        assert!(usual.contains(sentence), "{sentence}: {usual}");
    }
    assert_eq!(of(vec![mix([0.5, 1.2, 0.8, 0.4], true)]), "");
}
