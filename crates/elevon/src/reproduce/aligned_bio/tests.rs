//! Checks the expected results of the experiment on runs made by the test.

use super::pattern::PUBLISHED_1028K;
use super::summary::{OF_DIRECTION, Summaries, Summary, WHY};
use super::*;
use crate::reproduce::conclusions::text_of;

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
    // From 7.0 every bio of ordinary pages has 256 of them: the splits leave no tails.
    assert_eq!(order("full, 7.0"), order("max-sectors, 6.1"));
    assert_eq!(patterns.read_1028k.len(), 2 * elevon_core::build::Fill::ALL.len());
    for (fill, memory, pattern) in &patterns.read_1028k {
        assert_eq!(pattern.issued(), PUBLISHED_1028K, "{} {memory}", fill.name());
    }
}

#[test]
fn the_baseline_is_met_and_gains_compare_fills_on_one_memory() {
    let throughput = throughput::measure(&Lab::quiet()).expect("runs");
    for d in &throughput.directions {
        let percent = |ours: f64, published: f64| 100.0 * (ours / published - 1.0);
        assert!(percent(throughput::rate(&d.full), d.published[0]).abs() < 0.5, "{}: calibrated", d.name);
        assert_eq!((d.max_sectors.disk.counters.tails, d.trim.disk.counters.tails), (0, 0));
        assert!(d.full.disk.counters.tails > 4000, "72 calls of 61 bios with a tail each");
        for run in [&d.full, &d.max_sectors, &d.aligned, &d.paired_full] {
            let delta = elevon_report::summary::DiskDelta::between(&run.disk.start, &run.disk.end);
            assert!(delta.mean_in_flight >= 4.0, "fewer in flight would measure latency");
        }
        // The two runs of a gain differ only in the fill.
        let memory = |run: &elevon_report::result::RunResult| {
            run.command.split(" --buffers ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
        };
        assert_eq!(memory(&d.max_sectors), memory(&d.full));
        assert_eq!(memory(&d.aligned), memory(&d.paired_full));
        assert_ne!(memory(&d.aligned), memory(&d.full));
        // By the device's formula, c + s / link, trimming bios of 1792 to 2048 KiB to 1792 KiB
        // loses a little throughput.
        let gain = d.summary().aligned_gain();
        assert!((-4.0..0.0).contains(&gain), "{}: {gain}", d.name);
        // The fitted cost lies inside the bracket, and is smaller with a slower link.
        assert!(d.sensitivity.iter().all(|row| row.fit.cost > 0));
        assert!(d.sensitivity[0].fit.cost < d.fit.cost);
    }
    let mut document = Document::new("");
    throughput::report(&mut document, &throughput);
    let text = document.text();
    assert!(text.contains("OUTSIDE of that"), "the published write figure is not in the model's range");
    assert!(text.contains("no gain for trim-256k but a loss"));
}

fn summary() -> Summary {
    Summary {
        name: "write",
        published: [2000.0, 2500.0, 2400.0],
        full: 2000.0,
        max_sectors: 2400.0,
        paired_full: 2300.0,
        aligned: 2250.0,
        shares: [(0.9, 0.98), (0.9, 1.05)],
        aligned_gains: (-3.0, -1.0),
        paired_commands: [1000, 1050],
    }
}

#[test]
fn conclusions_follow_the_figures() {
    let of = |summary: &Summary| text_of(summary, &OF_DIRECTION);
    let text = of(&summary());
    assert!(text.contains("says 2250 to 2450 MB/s; the published 2500 is OUTSIDE of that, 2.0 %"), "{text}");
    assert!(text.contains("says 2160 to 2520 MB/s; the published 2400 is inside of that."), "{text}");
    assert!(text.contains("a loss, -2.2 % where +20.0 % was published"), "{text}");
    assert!(text.contains("5.0 % more commands"), "{text}");
    assert!(text.contains("under every assumption, -3.0 to -1.0 %"), "{text}");
    let gains = Summary { aligned: 2400.0, aligned_gains: (-1.0, 4.0), shares: [(0.9, 1.1); 2], ..summary() };
    let text = of(&gains);
    assert!(!text.contains("OUTSIDE") && !text.contains("loss") && !text.contains("more commands"), "{text}");

    let both = |change: fn(&mut Summary)| {
        let mut directions = [summary(), summary()];
        directions.iter_mut().for_each(change);
        text_of(&Summaries { directions, order_only_us: 8.0, order_only: 2600.0 }, &WHY)
    };
    let text = both(|_| ());
    assert!(text.contains("20.0 of the 25.0 points") && text.contains("so 20 and 20 % of the gain"), "{text}");
    assert!(text.contains("4.0 and 4.0 % low") && text.contains("would reach 2600 MB/s, +4 %"), "{text}");
    assert!(text.contains("No assumption tried here gives a gain"), "{text}");
    assert_eq!(both(|d| (d.max_sectors, d.aligned_gains) = (2700.0, (0.0, 30.0))), "");
}

/// "If userspace submits very large IO, such as 512M, which will be split into 1K bios with 512K
/// size." "No."
#[test]
fn a_read_of_512_mib_becomes_bios_of_various_sizes() {
    let patterns = pattern::measure(&Lab::quiet()).expect("runs");
    let of = |fill: elevon_core::build::Fill, memory: &str| {
        let row = patterns.read_512m.iter().find(|row| row.fill == fill && row.memory == memory);
        row.expect("a row").clone()
    };
    for row in &patterns.read_512m {
        assert_eq!(row.bios.iter().map(|sectors| u64::from(*sectors)).sum::<u64>(), 1 << 20, "{row:?}");
    }
    let full = of(elevon_core::build::Fill::Full, "fragmented");
    assert!(!full.is_as_asked() && full.bios.iter().any(|sectors| *sectors > 2048), "{} bios", full.bios.len());
    assert!(of(elevon_core::build::Fill::MaxSectors, "fragmented").is_as_asked());
    let text = text_of(&patterns.read_512m, &pattern::READ_512M_SHOWN);
    assert!(text.contains("the answer of the thread") && text.contains("fill=max-sectors"), "{text}");
}

/// The times of the trace are those of the mail, and the run keeps them.
#[test]
fn the_times_of_dd_are_used() {
    let fit = throughput::Fit { link: 4640e6, cost: 60_000 };
    let paced = paced::measure(&Lab::quiet(), fit).expect("runs");
    let gaps: Vec<f64> = paced.gaps().iter().map(|gap| gap.round()).collect();
    assert_eq!(gaps, [1699.0, 1677.0, 1656.0, 1676.0, 1720.0]);
    assert!((paced.rate() - 648.3).abs() < 0.1, "{}", paced.rate());
    for bio in &paced.bios {
        assert!((bio.ours_us - bio.at_us).abs() < 1.0 && bio.done_us > 200.0, "{bio:?}");
    }
    let usual = text_of(&paced, &paced::CONCLUSIONS);
    for part in ["each 1.66 to 1.72 ms, 648 MB/s", "before the next is queued", "4.7 times that rate"] {
        assert!(usual.contains(part), "{part}: {usual}");
    }
    let mut slow = paced.clone();
    slow.bios.iter_mut().for_each(|bio| bio.done_us = 1_800.0);
    slow.antutu = 700.0;
    let text = text_of(&slow, &paced::CONCLUSIONS);
    assert!(!text.contains("before the next") && !text.contains("times that rate"), "{text}");
}
