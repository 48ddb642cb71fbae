//! io_ticks: the time that a device was busy, as each kernel version counts it.
//!
//! The kernel keeps a `stamp`, the jiffy of the last update. An update occurs at every start and
//! end of a request, and at a read of the statistics while a request is in flight. Only if the
//! jiffy is later than the stamp does the rule add time, and the stamp is set to the jiffy. A rule
//! is wrong if a start moves the stamp without adding the time since it ([`Rule::Sampled`]), or if
//! it adds a jiffy that was not busy. Cost: O(1); repeated calls within one jiffy may be omitted.

/// The time that an update adds, by kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 5.7 to 6.9: a start adds one jiffy, an end adds the elapsed time. A read adds the elapsed
    /// time too, as from 5.18 on.
    Sampled,
    /// Proposal 003: a start adds the elapsed time if other tags are in use and the device has one
    /// hardware queue, else one jiffy; an end adds the elapsed time.
    Inflight {
        /// Whether the device has one hardware queue.
        one_hw_queue: bool,
    },
    /// 6.10 and later: a start adds the elapsed time if a request was in flight, else nothing; an
    /// end adds the elapsed time.
    Precise,
}

/// The reason for an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A request starts.
    Start {
        /// Requests in flight before it.
        in_flight: u64,
        /// Tags in use, including its own.
        tags: u32,
    },
    /// A request ends.
    End,
    /// The statistics are read while a request is in flight.
    Read,
}

/// Busy time by one rule, in jiffies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoTicks {
    rule: Rule,
    /// Jiffy of the last update; `None` before the first.
    stamp: Option<u64>,
    jiffies: u64,
}

impl IoTicks {
    /// Returns the state of a device that has never been busy.
    pub(crate) const fn new(rule: Rule) -> Self {
        Self { rule, stamp: None, jiffies: 0 }
    }

    /// Updates the busy time at jiffy `now`, which never goes backwards.
    pub(crate) const fn update(&mut self, now: u64, moment: Moment) {
        // Before the first update nothing was in flight, so no rule uses the elapsed time, except
        // the proposal's if requests that are not counted hold tags. It adds one jiffy.
        let elapsed = match self.stamp {
            Some(stamp) if now <= stamp => return,
            Some(stamp) => now - stamp,
            None => 1,
        };
        let add = match (self.rule, moment) {
            (Rule::Sampled, Moment::Start { .. }) => 1,
            (Rule::Precise, Moment::Start { in_flight: 0, .. }) => 0,
            (Rule::Inflight { one_hw_queue }, Moment::Start { tags, .. })
                if !one_hw_queue || tags < 2 =>
            {
                1
            }
            (_, Moment::Start { .. } | Moment::End | Moment::Read) => elapsed,
        };
        self.stamp = Some(now);
        self.jiffies += add;
    }

    /// Returns the busy jiffies so far.
    pub(crate) const fn jiffies(&self) -> u64 {
        self.jiffies
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::vec::Vec;

    const RULES: [Rule; 4] = [
        Rule::Sampled,
        Rule::Inflight { one_hw_queue: true },
        Rule::Inflight { one_hw_queue: false },
        Rule::Precise,
    ];

    /// Runs (jiffy, is a start) in order. Returns the growth at every event.
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
        let totals: Vec<u64> =
            RULES.iter().map(|&rule| growth(rule, &events).iter().sum()).collect();
        assert_eq!(totals, [50, 50, 50, 0]);
    }

    /// `precise` is always the number of jiffies between the first and the last event of every busy
    /// period; the proposal's form exceeds it by at most a jiffy per idle-to-busy edge.
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
                let moment = if start {
                    Moment::Start { in_flight, tags: in_flight as u32 + 1 }
                } else {
                    Moment::End
                };
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
