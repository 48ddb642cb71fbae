//! Conclusions from the throughput of the fills.

use crate::reproduce::conclusions::{Conclusion, percent_off};

/// Figures of one direction, in MB/s unless noted.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) name: &'static str,
    /// Published figures: `full`, `max-sectors`, `trim-256k`.
    pub(super) published: [f64; 3],
    pub(super) full: f64,
    pub(super) max_sectors: f64,
    /// Throughput of the baseline's fill on paired memory.
    pub(super) paired_full: f64,
    /// Throughput if trimmed to 256 KiB, on paired memory.
    pub(super) aligned: f64,
    /// Elevon's figure divided by the published one, minimum and maximum over all assumptions:
    /// `max-sectors`, `trim-256k`.
    pub(super) shares: [(f64, f64); 2],
    /// Percent that `trim-256k` gains on paired memory, minimum and maximum over all assumptions.
    pub(super) aligned_gains: (f64, f64),
    /// Commands on paired memory: `full`, `trim-256k`.
    pub(super) paired_commands: [u64; 2],
}

/// Figures of both directions.
#[derive(Clone, Debug)]
pub(super) struct Summaries {
    pub(super) directions: [Summary; 2],
    /// Cost of a command in microseconds if only the order of requests mattered, and MB/s of reads
    /// of 512 KiB with that cost.
    pub(super) order_only_us: f64,
    pub(super) order_only: f64,
}

impl Summary {
    /// Returns the percentage that `max-sectors` gains.
    pub(super) fn gain(&self) -> f64 {
        percent_off(self.max_sectors, self.full)
    }

    /// Returns the percentage that `trim-256k` gains over the baseline's fill on the same memory.
    pub(super) fn aligned_gain(&self) -> f64 {
        percent_off(self.aligned, self.paired_full)
    }

    fn published_gain(&self, at: usize) -> f64 {
        percent_off(self.published[at], self.published[0])
    }

    /// Compares the range that the model predicts over all assumptions with the published figure.
    fn verdict(&self, at: usize, fill: &str) -> String {
        let (published, (low, high)) = (self.published[at], self.shares[at - 1]);
        let place = if (low..=high).contains(&1.0) {
            "inside of that".to_owned()
        } else {
            let nearest = if low > 1.0 { low } else { high };
            format!("OUTSIDE of that, {:.1} % from its nearer end", percent_off(1.0, nearest).abs())
        };
        format!(
            "{}, {fill}: over every assumption of section 5 the model says {:.0} to {:.0} MB/s; the published {published} is {place}.",
            self.name,
            low * published,
            high * published,
        )
    }
}

/// Conclusions from one direction.
pub(super) const OF_DIRECTION: [Conclusion<Summary>; 5] = [
    |d| Some(d.verdict(1, "fill=max-sectors")),
    |d| Some(d.verdict(2, "fill=trim-256k on paired memory")),
    |d| {
        let (ours, published) = (d.aligned_gain(), d.published_gain(2));
        (ours < 0.0 && published > 0.0).then(|| {
            format!(
                "On one memory the model has no gain for trim-256k but a loss, {ours:.1} % where {published:+.1} % was published."
            )
        })
    },
    |d| {
        let [full, aligned] = d.paired_commands;
        (aligned > full && d.aligned < d.paired_full).then(|| {
            format!(
                "Trimming makes the bios smaller and so needs {:.1} % more commands for the same bytes ({aligned} for {full}); in the \
                 model a command costs the same wherever it begins.",
                percent_off(aligned as f64, full as f64),
            )
        })
    },
    |d| {
        let (low, high) = d.aligned_gains;
        (high < 0.0).then(|| format!("It is a loss under every assumption, {low:.1} to {high:.1} %."))
    },
];

/// Conclusions from both directions together.
pub(super) const WHY: [Conclusion<Summaries>; 4] = [
    |all| {
        let [read, write] = &all.directions;
        let explained = [read, write].map(|d| d.gain() / d.published_gain(1));
        explained.iter().all(|share| (0.0..1.0).contains(share)).then(|| {
            format!(
                "Why max-sectors differs. Fewer commands explain {:.1} of the {:.1} points that reads gained and {:.1} of the {:.1} of \
                 writes, so {:.0} and {:.0} % of the gain are missing.",
                read.gain(),
                read.published_gain(1),
                write.gain(),
                write.published_gain(1),
                100.0 * (1.0 - explained[0]),
                100.0 * (1.0 - explained[1]),
            )
        })
    },
    |all| {
        let low = all.directions.each_ref().map(|d| -percent_off(d.max_sectors, d.published[1]));
        low.iter().all(|percent| *percent > 0.0).then(|| {
            format!(
                "The throughput is {:.1} and {:.1} % low, on the same side in both directions: the patch may have removed more than \
                 commands, for with it no request goes backwards.",
                low[0], low[1],
            )
        })
    },
    |all| {
        let [read, _] = &all.directions;
        let off = percent_off(all.order_only, read.published[1]);
        let other_side = off > 0.0 && read.max_sectors < read.published[1];
        other_side.then(|| {
            format!(
                "To blame the order alone errs on the other side: with commands that cost {} us, reads of 512 KiB would reach {:.0} \
                 MB/s, {off:+.0} %.",
                all.order_only_us, all.order_only,
            )
        })
    },
    |all| {
        let outside = all.directions.each_ref().map(|d| d.aligned_gains.1 < d.published_gain(2));
        (outside == [true; 2]).then(|| {
            "No assumption tried here gives a gain of the third measurement, so these runs do not show its cause."
                .to_owned()
        })
    },
];
