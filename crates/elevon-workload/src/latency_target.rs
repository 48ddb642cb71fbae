//! `latency_target`: the queue depth at which a share of the I/Os is fast enough.
//!
//! The search is the one that fio 3.33 reports (`--debug=rate`). It begins with one I/O in flight.
//! After each window (`latency_window`) it is judged whether `latency_percentile` of the I/Os that
//! began and ended in the window took no longer than the target. If so, the depth doubles, or goes
//! half of the way to the least depth that failed; if not, it goes half of the way back to the
//! greatest depth that passed. When these are neighbours the search has ended. The process then
//! waits for the I/Os in flight, forgets its statistics, and does one more window: if that one
//! passes too, the job ends. With `latency_run` it goes on; after three windows that pass at the
//! depth that was found it tries the next greater one, and after one that fails the next smaller.
//!
//! Unlike fio, which may judge a window before its end, every window lasts until its end, and I/Os
//! of the window before do not count. A window without any I/O is prolonged.

use elevon_core::units::Instant;
use elevon_formats::fio::spec::LatencyTarget;

/// Windows that pass at a depth before a greater one is tried again (`latency_run`).
const PASSES: u32 = 3;
/// What `latency_percentile` counts in: 100 % is this.
const WHOLE: u128 = 100_000_000;

/// What follows from an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The search goes on, perhaps at another depth.
    GoOn,
    /// The last window has passed.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Search,
    /// Waits until nothing is in flight.
    Quiesce,
    Final,
}

/// The search of one process.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    target: LatencyTarget,
    most: u32,
    /// The greatest depth that passed; 0 if none did.
    passed: u32,
    depth: u32,
    /// The least depth that failed.
    failed: Option<u32>,
    passes: u32,
    stage: Stage,
    window_start: Instant,
    ios: u64,
    slow: u64,
}

impl Search {
    /// Returns a search up to `most` I/Os in flight.
    pub(crate) fn new(target: LatencyTarget, most: u32) -> Self {
        Self {
            target,
            most: most.max(1),
            passed: 0,
            depth: 1,
            failed: None,
            passes: 0,
            stage: Stage::Search,
            window_start: Instant::ZERO,
            ios: 0,
            slow: 0,
        }
    }

    pub(crate) const fn start(&mut self, now: Instant) {
        self.window_start = now;
        (self.ios, self.slow) = (0, 0);
    }

    /// Returns the number of I/Os that may be in flight.
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns true if no I/O may begin because the final run waits for those in flight.
    #[inline]
    pub(crate) fn is_quiescing(&self) -> bool {
        self.stage == Stage::Quiesce
    }

    /// Begins the final run.
    pub(crate) fn begin_final(&mut self, now: Instant) {
        self.stage = Stage::Final;
        self.start(now);
    }

    /// Counts an I/O that ended, and judges the window if it has ended.
    pub(crate) fn on_done(&mut self, start: Instant, end: Instant) -> Verdict {
        if start < self.window_start {
            return Verdict::GoOn;
        }
        self.ios += 1;
        self.slow += u64::from(end.since(start) > self.target.target);
        if end.since(self.window_start) < self.target.window || self.stage == Stage::Quiesce {
            return Verdict::GoOn;
        }
        let fast = u128::from(self.ios - self.slow);
        let passes = fast * WHOLE >= u128::from(self.ios) * u128::from(self.target.percentile);
        self.start(end);
        if passes {
            return self.on_pass();
        }
        self.on_fail();
        Verdict::GoOn
    }

    fn on_pass(&mut self) -> Verdict {
        if self.stage == Stage::Final {
            return Verdict::End;
        }
        self.passed = self.depth;
        self.passes += 1;
        let next = match self.failed {
            None => (self.depth.saturating_mul(2)).min(self.most),
            Some(failed) => u32::midpoint(self.passed, failed),
        };
        if next != self.depth {
            self.go_to(next);
        } else if !self.target.run {
            self.stage = Stage::Quiesce;
        } else if self.passes >= PASSES && self.depth < self.most {
            self.failed = Some(self.depth + 2);
            self.go_to(self.depth + 1);
        }
        Verdict::GoOn
    }

    fn on_fail(&mut self) {
        self.stage = Stage::Search;
        if self.depth == 1 {
            // There is no smaller depth: it goes on with this one.
            (self.passed, self.passes) = (0, 0);
            return;
        }
        self.failed = Some(self.depth);
        // A depth that passed before may fail later: then the one below counts as one that passes.
        self.passed = self.passed.min(self.depth - 1);
        self.go_to(u32::midpoint(self.passed, self.depth).max(1));
    }

    fn go_to(&mut self, depth: u32) {
        self.depth = depth;
        self.passes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::units::Nanos;

    const MS: u64 = 1_000_000;

    fn search(most: u32, run: bool) -> Search {
        let (target, window) = (Nanos::from_micros(600), Nanos::from_millis(10));
        let mut search =
            Search::new(LatencyTarget { target, window, percentile: 90_000_000, run }, most);
        search.start(Instant::ZERO);
        search
    }

    /// Does windows of ten I/Os on a device where `fits(depth)` says how many of ten are fast.
    /// Returns the depths of the windows, until the search ends or `windows` are done.
    fn depths(search: &mut Search, windows: u64, mut fits: impl FnMut(u32) -> u64) -> Vec<u32> {
        let (mut depths, mut now) = (Vec::new(), 0);
        for _ in 0..windows {
            let depth = search.depth();
            depths.push(depth);
            let fast = fits(depth);
            for io in 0..10 {
                let latency = if io < fast { MS / 2 } else { MS };
                let verdict =
                    search.on_done(Instant::new(now + MS - latency), Instant::new(now + MS));
                now += MS;
                if verdict == Verdict::End {
                    return depths;
                }
            }
            if search.is_quiescing() {
                search.begin_final(Instant::new(now));
            }
        }
        depths
    }

    /// The depths that fio 3.33 reported for such devices.
    #[test]
    fn the_search_doubles_and_then_halves() {
        assert_eq!(
            depths(&mut search(64, false), 99, |depth| if depth <= 3 { 9 } else { 8 }),
            [1, 2, 4, 3, 3]
        );
        let all = depths(&mut search(32, false), 99, |_| 10);
        assert_eq!(all, [1, 2, 4, 8, 16, 32, 32], "the last one is the final run");
        assert_eq!(depths(&mut search(1, false), 99, |_| 10), [1, 1]);
        let none = depths(&mut search(32, false), 20, |_| 0);
        assert_eq!(none, [1; 20], "it never ends by itself");
        for limit in 1..=64 {
            let mut once = search(64, false);
            let all = depths(&mut once, 99, |depth| if depth <= limit { 10 } else { 0 });
            assert_eq!((once.depth(), all.last()), (limit, Some(&limit)), "{all:?}");
            assert!(all.len() <= 14, "{all:?}");
        }
    }

    #[test]
    fn a_final_run_that_fails_is_a_failed_window() {
        let mut windows = 0;
        let mut once = search(64, false);
        let all = depths(&mut once, 99, |depth| {
            windows += 1;
            if depth <= 3 && windows != 5 { 10 } else { 0 }
        });
        assert_eq!(all, [1, 2, 4, 3, 3, 2, 2], "3 failed in the final run, 2 passes twice");
    }

    #[test]
    fn a_run_that_goes_on_follows_the_device() {
        let mut limit = 3;
        let mut windows = 0;
        let all = depths(&mut search(64, true), 16, |depth| {
            windows += 1;
            limit = if windows <= 11 { 4 } else { 2 };
            if depth <= limit { 10 } else { 0 }
        });
        // At 4 three times, 5 fails, at 4 three times, then the device is slower.
        assert_eq!(all, [1, 2, 4, 8, 6, 5, 4, 4, 4, 5, 4, 4, 3, 2, 2, 2]);
    }

    #[test]
    fn io_of_the_window_before_does_not_count() {
        let mut once = search(8, false);
        assert_eq!(once.on_done(Instant::new(0), Instant::new(11 * MS)), Verdict::GoOn);
        assert_eq!(once.depth(), 1, "one slow I/O");
        for at in 0..9 {
            let end = Instant::new(12 * MS + at * MS);
            once.on_done(Instant::new(5 * MS), end);
            once.on_done(Instant::new(end.get() - MS / 2), end);
        }
        assert_eq!(once.depth(), 1);
        once.on_done(Instant::new(21 * MS), Instant::new(21 * MS + MS / 2));
        assert_eq!(once.depth(), 2);
    }
}
