//! What the experiment must show, on runs made here.

use super::pattern::PUBLISHED_1028K;
use super::*;

#[test]
fn the_trace_comes_out_line_by_line() {
    let patterns = pattern::measure(&Lab::quiet()).expect("runs");
    assert_eq!(patterns.published.len(), 23);
    for ours in &patterns.of_the_time {
        assert_eq!(ours.lines[..23], patterns.published, "{}", ours.name);
        assert_eq!(ours.lines[23..], ["D 86934312 + 48"], "{}", ours.name);
    }
    let order = |name: &str| {
        let pattern = patterns.others.iter().find(|p| p.name == name).expect("a pattern");
        pattern.issued().iter().map(|l| l.split(" + ").nth(1).unwrap_or_default()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order("max-sectors, 6.1"), "1024 1024 1024 1024 1024 1024 1024 1024 304");
    assert_eq!(order("trim, 6.1"), order("max-sectors, 6.1"));
    assert_eq!(order("full, 6.18"), "1024 1024 96 1024 1024 96 1024 1024 64 1024 1024 48");
    assert_eq!(patterns.read_1028k.len(), 8);
    for (fill, memory, pattern) in &patterns.read_1028k {
        assert_eq!(pattern.issued(), PUBLISHED_1028K, "{} {memory}", fill.name());
    }
}

#[test]
fn the_baseline_is_met_and_the_rest_predicted_within_the_honest_range() {
    let throughput = throughput::measure(&Lab::quiet()).expect("runs");
    for d in &throughput.directions {
        let percent = |ours: f64, published: f64| 100.0 * (ours / published - 1.0);
        assert!(percent(throughput::rate(&d.full), d.published[0]).abs() < 0.5, "{}: calibrated", d.name);
        let predicted = throughput::rate(&d.max_sectors);
        assert!(d.honest.0 <= predicted && predicted <= d.honest.1, "{}: {predicted}", d.name);
        let held_out = percent(throughput::rate(&d.aligned), d.published[2]);
        assert!((throughput.held_out.0..=throughput.held_out.1).contains(&held_out), "{}: {held_out}", d.name);
        assert_eq!((d.max_sectors.disk.counters.tails, d.trim.disk.counters.tails), (0, 0));
        assert!(d.full.disk.counters.tails > 4000, "72 calls of 61 bios with a tail each");
        for run in [&d.full, &d.max_sectors, &d.aligned] {
            let delta = elevon_report::summary::DiskDelta::between(&run.disk.start, &run.disk.end);
            assert!(delta.mean_in_flight >= 4.0, "fewer in flight would measure latency");
        }
        // The cost comes out of the bracket's inside, and a slower link leaves less of it.
        assert!(d.sensitivity.iter().all(|row| row.fit.cost > 0));
        assert!(d.sensitivity[0].fit.cost < d.fit.cost);
    }
}
