//! io_ticks: the time a device was busy, as each kernel version counted it.
//!
//! The kernel keeps a `stamp`, the jiffy of the last update. Every start and end of a request, and
//! a read of the statistics while something is in flight, comes here; only when the jiffy has moved
//! past the stamp does the rule add something, and the stamp moves along. A rule is wrong where a
//! start moves the stamp without adding the time since it ([`Rule::Sampled`]), or adds a jiffy that
//! was not busy. Cost: O(1), and callers need not call at all within one jiffy.

/// What is added when the jiffy has moved on, by kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 5.7 to 6.9: one jiffy at a start, the elapsed time at an end. Reads count from 5.18 on,
    /// which is what this rule does.
    Sampled,
    /// Proposal 003: at a start the elapsed time where other tags are in use too and the device has
    /// one hardware queue, else one jiffy; at an end the elapsed time.
    Inflight {
        /// Whether the device has one hardware queue.
        one_hw_queue: bool,
    },
    /// 6.10 and later: at a start the elapsed time if anything was in flight, else nothing; at an
    /// end the elapsed time.
    Precise,
}

/// Why an update is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A request starts.
    Start {
        /// Requests in flight before it.
        in_flight: u64,
        /// Tags in use, its own included.
        tags: u32,
    },
    /// A request ends.
    End,
    /// Somebody reads the statistics while something is in flight.
    Read,
}

/// Busy time by one rule, in jiffies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoTicks {
    rule: Rule,
    /// Jiffy of the last update; `None` before the first.
    stamp: Option<u64>,
    jiffies: u64,
}

impl IoTicks {
    /// A device that was idle since long before jiffy 0.
    pub const fn new(rule: Rule) -> Self {
        Self { rule, stamp: None, jiffies: 0 }
    }

    /// Takes note of a moment at jiffy `now`, which never goes backwards.
    pub const fn update(&mut self, now: u64, moment: Moment) {
        // Before the first update nothing was in flight: no rule looks at the elapsed time then,
        // but for the proposal's where tags are held by requests that are not counted. It gets a
        // jiffy.
        let elapsed = match self.stamp {
            Some(stamp) if now <= stamp => return,
            Some(stamp) => now - stamp,
            None => 1,
        };
        let add = match (self.rule, moment) {
            (Rule::Sampled, Moment::Start { .. }) => 1,
            (Rule::Precise, Moment::Start { in_flight: 0, .. }) => 0,
            (Rule::Inflight { one_hw_queue }, Moment::Start { tags, .. }) if !one_hw_queue || tags < 2 => 1,
            (_, Moment::Start { .. } | Moment::End | Moment::Read) => elapsed,
        };
        self.stamp = Some(now);
        self.jiffies += add;
    }

    /// Busy jiffies so far.
    pub const fn jiffies(&self) -> u64 {
        self.jiffies
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::vec::Vec;

    const RULES: [Rule; 4] =
        [Rule::Sampled, Rule::Inflight { one_hw_queue: true }, Rule::Inflight { one_hw_queue: false }, Rule::Precise];

    /// Runs (jiffy, is a start) in order; gives the growth at every event.
    fn growth(rule: Rule, events: &[(u64, bool)]) -> Vec<u64> {
        let (mut ticks, mut in_flight) = (IoTicks::new(rule), 0u64);
        let mut step = |&(now, start): &(u64, bool)| {
            let before = ticks.jiffies();
            if start {
                ticks.update(now, Moment::Start { in_flight, tags: in_flight as u32 + 1 });
                in_flight += 1;
            } else {
                ticks.update(now, Moment::End);
                in_flight -= 1;
            }
            ticks.jiffies() - before
        };
        events.iter().map(&mut step).collect()
    }

    fn timeline(starts: &[u64], ends: &[u64]) -> Vec<(u64, bool)> {
        // An end sorts before a start of the same jiffy.
        let mut events: Vec<_> =
            starts.iter().map(|&at| (at, true)).chain(ends.iter().map(|&at| (at, false))).collect();
        events.sort_unstable();
        events
    }

    fn totals(starts: &[u64], ends: &[u64]) -> Vec<u64> {
        let events = timeline(starts, ends);
        RULES.iter().map(|&rule| growth(rule, &events).iter().sum()).collect()
    }

    #[test]
    fn five_overlapping_requests_event_by_event() {
        let events = timeline(&[0, 10, 20, 30, 40], &[50, 60, 70, 80, 90]);
        for (rule, expected) in [
            (Rule::Sampled, [1, 1, 1, 1, 1, 10, 10, 10, 10, 10]),
            (Rule::Inflight { one_hw_queue: true }, [1, 10, 10, 10, 10, 10, 10, 10, 10, 10]),
            (Rule::Inflight { one_hw_queue: false }, [1, 1, 1, 1, 1, 10, 10, 10, 10, 10]),
            (Rule::Precise, [0, 10, 10, 10, 10, 10, 10, 10, 10, 10]),
        ] {
            assert_eq!(growth(rule, &events), expected, "{rule:?}");
        }
        assert_eq!(totals(&[0, 10, 20, 30, 40], &[50, 60, 70, 80, 90]), [55, 91, 55, 90]);
    }

    #[test]
    fn starts_and_ends_in_one_jiffy() {
        assert_eq!(totals(&[0, 0, 3, 7, 8], &[20, 21, 21, 30, 45]), [41, 46, 41, 45]);
    }

    #[test]
    fn requests_that_do_not_overlap() {
        assert_eq!(totals(&[0, 10, 20], &[4, 14, 24]), [15, 15, 15, 12]);
    }

    #[test]
    fn requests_within_a_jiffy() {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for jiffy in (0..100).step_by(2) {
            starts.push(jiffy);
            ends.push(jiffy);
        }
        // A start comes first here: every request starts and ends within its own jiffy.
        let mut events = timeline(&starts, &ends);
        events.sort_by_key(|&(at, start)| (at, !start));
        let totals: Vec<u64> = RULES.iter().map(|&rule| growth(rule, &events).iter().sum()).collect();
        assert_eq!(totals, [50, 50, 50, 0]);
    }

    /// In any history `precise` is the jiffies between the first and the last event of every busy
    /// stretch, and the proposal's form passes them by at most a jiffy per idle-to-busy edge.
    #[test]
    fn precise_counts_whole_jiffies_of_busy_stretches() {
        let mut rng = elevon_testkit::Rng(1);
        for _ in 0..500 {
            let (mut now, mut in_flight) = (0u64, 0u64);
            let mut precise = IoTicks::new(Rule::Precise);
            let mut seed = IoTicks::new(Rule::Inflight { one_hw_queue: true });
            let (mut busy, mut since, mut edges) = (0, 0, 0);
            for _ in 0..200 {
                now += rng.below(16) / 5;
                let start = in_flight == 0 || rng.one_in(2);
                let moment = if start { Moment::Start { in_flight, tags: in_flight as u32 + 1 } } else { Moment::End };
                for ticks in [&mut precise, &mut seed] {
                    ticks.update(now, moment);
                }
                if start {
                    if in_flight == 0 {
                        since = now;
                        edges += 1;
                    }
                    in_flight += 1;
                } else {
                    in_flight -= 1;
                    busy += if in_flight == 0 { now - since } else { 0 };
                }
                let so_far = busy + if in_flight > 0 { now - since } else { 0 };
                assert_eq!(precise.jiffies(), so_far);
                assert!((so_far..=so_far + edges).contains(&seed.jiffies()));
            }
        }
    }

    #[test]
    fn reads_move_time_forward() {
        for (rule, expected) in [(Rule::Sampled, 8), (Rule::Precise, 7)] {
            let mut ticks = IoTicks::new(rule);
            ticks.update(3, Moment::Start { in_flight: 0, tags: 1 });
            ticks.update(5, Moment::Read);
            ticks.update(10, Moment::Read);
            assert_eq!(ticks.jiffies(), expected, "{rule:?}");
        }
    }
}
