//! Page cache statistics per job: calls, the reasons and lengths of their sleeps, in total and per
//! window of time.
//!
//! A call sleeps for I/O (*iowait*: a page to be read or written, an empty flush), for memory, or
//! because of the dirty limits. The three are counted separately: only the first is what the kernel
//! calls iowait, and only it can be shortened by a better order of I/O.
//!
//! Cost: O(1) per call. Windows are allocated as time passes, at most `WINDOWS_MAX` of them; a
//! window's histogram is allocated at its first sleep.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::page_cache::CallDone;
use elevon_core::histogram::Histogram;
use elevon_core::ioprio::PrioClass;
use elevon_core::stats::LatencyStat;
use elevon_core::units::Nanos;

/// The maximum number of windows; if there would be more, adjacent ones are joined.
pub(crate) const WINDOWS_MAX: usize = 256;

/// The classes that a bio can be served in, in the order of [`CallStats::served`].
pub const CLASSES: [PrioClass; 3] = [PrioClass::Rt, PrioClass::Be, PrioClass::Idle];

/// The number and total time of sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sleeps {
    /// Sleeps.
    pub count: u64,
    /// Nanoseconds of all.
    pub ns: u64,
    /// Nanoseconds of the longest.
    pub ns_max: u64,
}

impl Sleeps {
    /// Counts one sleep.
    #[inline]
    pub fn add(&mut self, span: Nanos) {
        self.count += 1;
        self.ns += span.get();
        self.ns_max = self.ns_max.max(span.get());
    }

    /// Adds the sleeps of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.ns += other.ns;
        self.ns_max = self.ns_max.max(other.ns_max);
    }
}

/// Calls whose last sleep for I/O was ended by bios of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassWaits {
    /// Calls.
    pub calls: u64,
    /// Time that they slept for I/O, in nanoseconds.
    pub iowait_ns: u64,
    /// The part of `iowait_ns` in which the commands that ended their sleeps were at the device;
    /// the rest is queueing.
    pub device_ns: u64,
}

impl ClassWaits {
    fn add(&mut self, done: &CallDone) {
        self.calls += 1;
        self.iowait_ns += done.waited.get();
        self.device_ns += done.device.get();
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.iowait_ns += other.iowait_ns;
        self.device_ns += other.device_ns;
    }
}

/// Calls of the page cache of one kind, and how long they slept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Number of calls. Touches of mapped memory count only if they were faults.
    pub calls: u64,
    /// Major faults: the page was not cached, or not up to date. Other faults are minor.
    pub major: u64,
    /// Calls that slept for any reason.
    pub slept: u64,
    /// Time that each call that slept for I/O did so (iowait), in nanoseconds. A fault that is
    /// retried counts as one call. The count is the number of such calls.
    pub iowait: LatencyStat,
    /// The part of all iowait in which the commands that ended the sleeps were at the device, in
    /// nanoseconds; the rest is queueing.
    pub device_ns: u64,
    /// The same per class, by [`CLASSES`]: the class of the bio that ended a call's last sleep,
    /// after the cgroup's priority policy was applied.
    pub served: [ClassWaits; CLASSES.len()],
    /// Time that each call that was paused by the dirty limits slept for that, in nanoseconds.
    pub paused: LatencyStat,
    /// Sleeps because no memory was free; they are not iowait.
    pub starved: Sleeps,
    /// All of it per window in which the calls ended.
    pub windows: Windows,
}

impl CallStats {
    /// Counts a finished call at the time `since` the start of the run, in windows of `length`.
    #[inline]
    pub fn add(&mut self, done: &CallDone, since: Nanos, length: Nanos) {
        let &CallDone { waited, device, paused, starved, class, is_major, .. } = done;
        let window = self.windows.at(since, length);
        self.calls += 1;
        window.calls += 1;
        if is_major {
            self.major += 1;
            window.major += 1;
        }
        if waited.is_zero() && paused.is_zero() && starved.is_zero() {
            return;
        }
        self.slept += 1;
        window.slept += 1;
        if !waited.is_zero() {
            self.iowait.add(waited.get());
            self.device_ns += device.get();
            let class = class_index(class);
            self.served[class].add(done);
            window.served[class].add(done);
            window.iowait_ns_max = window.iowait_ns_max.max(waited.get());
            window.histogram.get_or_insert_default().add(waited.get());
        }
        if !paused.is_zero() {
            self.paused.add(paused.get());
            window.paused.add(paused);
        }
        if !starved.is_zero() {
            self.starved.add(starved);
            window.starved.add(starved);
        }
    }

    /// Returns the number of minor faults; for other calls, the number of all calls.
    pub const fn minor(&self) -> u64 {
        self.calls - self.major
    }

    /// Adds the calls of another.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.major += other.major;
        self.slept += other.slept;
        self.iowait.merge(&other.iowait);
        self.device_ns += other.device_ns;
        self.served.iter_mut().zip(&other.served).for_each(|(mine, theirs)| mine.merge(theirs));
        self.paused.merge(&other.paused);
        self.starved.merge(&other.starved);
        self.windows.merge(&other.windows);
    }
}

/// Returns the index of a class in [`CLASSES`].
const fn class_index(class: PrioClass) -> usize {
    match class {
        PrioClass::Rt => 0,
        PrioClass::None | PrioClass::Be => 1,
        PrioClass::Idle => 2,
    }
}

/// Calls of one kind that ended within one window of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Calls.
    pub calls: u64,
    /// Major faults.
    pub major: u64,
    /// Calls that slept.
    pub slept: u64,
    /// Calls that slept for I/O, by [`CLASSES`]: as [`CallStats::served`].
    pub served: [ClassWaits; CLASSES.len()],
    /// The longest sleep of a call for I/O, in nanoseconds.
    pub iowait_ns_max: u64,
    /// Pauses because of the dirty limits.
    pub paused: Sleeps,
    /// Sleeps for memory.
    pub starved: Sleeps,
    /// Time that each call slept for I/O; allocated at the first sleep.
    pub histogram: Option<Box<Histogram>>,
}

impl Window {
    /// Returns the sleeps for I/O of all classes.
    pub fn iowait(&self) -> ClassWaits {
        let mut all = ClassWaits::default();
        self.served.iter().for_each(|served| all.merge(served));
        all
    }

    /// Adds the calls of another window.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.major += other.major;
        self.slept += other.slept;
        self.served.iter_mut().zip(&other.served).for_each(|(mine, theirs)| mine.merge(theirs));
        self.iowait_ns_max = self.iowait_ns_max.max(other.iowait_ns_max);
        self.paused.merge(&other.paused);
        self.starved.merge(&other.starved);
        if let Some(histogram) = &other.histogram {
            self.histogram.get_or_insert_default().merge(histogram);
        }
    }
}

/// Windows of equal length from the start of the run on, up to the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Nanoseconds; 0 until the first call.
    length: u64,
    /// The end of the last window, in nanoseconds since the start of the run.
    end: u64,
    list: Vec<Window>,
}

impl Windows {
    /// Returns the length of a window: the configured length, times a power of two if the run was
    /// too long for it. Zero if there is no window.
    pub const fn length(&self) -> Nanos {
        Nanos::new(self.length)
    }

    /// Returns the windows, from the start of the run on.
    pub fn list(&self) -> &[Window] {
        &self.list
    }

    /// Returns the window of a call that ends now. Time does not go backwards.
    #[inline]
    fn at(&mut self, since: Nanos, length: Nanos) -> &mut Window {
        if since.get() >= self.end {
            self.open(since.get(), length.get());
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    #[cold]
    fn open(&mut self, since: u64, length: u64) {
        if self.length == 0 {
            self.length = length.max(1);
        }
        while since / self.length >= WINDOWS_MAX as u64 {
            self.fold();
        }
        let count = since / self.length + 1;
        self.list.resize_with(count as usize, Window::default);
        self.end = count * self.length;
    }

    /// Joins adjacent windows.
    fn fold(&mut self) {
        let half = self.list.len().div_ceil(2);
        for at in 0..half {
            let mut joined = core::mem::take(&mut self.list[2 * at]);
            if let Some(second) = self.list.get(2 * at + 1) {
                joined.merge(second);
            }
            self.list[at] = joined;
        }
        self.list.truncate(half);
        self.length *= 2;
        self.end = half as u64 * self.length;
    }

    /// Adds the windows of another job of the same run. The shorter windows are joined until both
    /// have the same length.
    pub fn merge(&mut self, other: &Self) {
        if self.list.is_empty() || other.list.is_empty() {
            if self.list.is_empty() {
                self.clone_from(other);
            }
            return;
        }
        while self.length < other.length {
            self.fold();
        }
        let mut finer = None;
        let mut other = other;
        while other.length < self.length {
            let mut folded = other.clone();
            folded.fold();
            other = finer.insert(folded);
        }
        assert_eq!(self.length, other.length, "windows of runs of different settings");
        if self.list.len() < other.list.len() {
            self.list.resize_with(other.list.len(), Window::default);
            self.end = other.end;
        }
        self.list.iter_mut().zip(&other.list).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

/// Page cache statistics of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Touches of mapped memory that were no faults.
    pub touches: u64,
    /// Page faults.
    pub fault: CallStats,
    /// Reads through a descriptor.
    pub read: CallStats,
    /// Writes through a descriptor.
    pub write: CallStats,
    /// fsync, fdatasync, and other calls that wait for dirty pages.
    pub fsync: CallStats,
}

impl CacheUse {
    /// Returns each kind of call with its word in reports.
    pub const fn kinds(&self) -> [(&'static str, &CallStats); 4] {
        [
            ("fault", &self.fault),
            ("read", &self.read),
            ("write", &self.write),
            ("fsync", &self.fsync),
        ]
    }

    /// Adds the statistics of another job.
    pub fn merge(&mut self, other: &Self) {
        self.touches += other.touches;
        self.fault.merge(&other.fault);
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.fsync.merge(&other.fsync);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::status::Status;
    use elevon_core::units::{Bytes, TaskId};

    const SECOND: Nanos = Nanos::from_secs(1);

    fn done(waited: u64, class: PrioClass) -> CallDone {
        CallDone {
            task: TaskId(0),
            token: 0,
            status: Status::Ok,
            bytes: Bytes::ZERO,
            waited: Nanos::new(waited),
            device: Nanos::new(waited / 2),
            paused: Nanos::ZERO,
            starved: Nanos::ZERO,
            class,
            is_major: waited > 0,
        }
    }

    /// Returns the sum of all windows.
    fn sum(windows: &Windows) -> Window {
        let mut all = Window::default();
        windows.list().iter().for_each(|window| all.merge(window));
        all
    }

    #[test]
    fn a_call_counts_in_its_window_and_in_all() {
        let mut stats = CallStats::default();
        stats.add(&done(0, PrioClass::None), Nanos::from_millis(10), SECOND);
        stats.add(&done(3000, PrioClass::Rt), Nanos::from_millis(999), SECOND);
        stats.add(&done(5000, PrioClass::None), Nanos::from_millis(2000), SECOND);
        let pause =
            CallDone { paused: Nanos::new(7), starved: Nanos::new(9), ..done(0, PrioClass::None) };
        stats.add(&pause, Nanos::from_millis(2001), SECOND);
        assert_eq!((stats.calls, stats.major, stats.minor(), stats.slept), (4, 2, 2, 3));
        assert_eq!((stats.iowait.count, stats.iowait.sum, stats.device_ns), (2, 8000, 4000));
        let rt = ClassWaits { calls: 1, iowait_ns: 3000, device_ns: 1500 };
        let be = ClassWaits { calls: 1, iowait_ns: 5000, device_ns: 2500 };
        assert_eq!(stats.served, [rt, be, ClassWaits::default()]);
        assert_eq!((stats.paused.sum, stats.starved), (7, Sleeps { count: 1, ns: 9, ns_max: 9 }));
        let calls: Vec<_> =
            stats.windows.list().iter().map(|w| (w.calls, w.slept, w.iowait().iowait_ns)).collect();
        assert_eq!(calls, [(2, 1, 3000), (0, 0, 0), (2, 2, 5000)]);
    }

    #[test]
    fn windows_are_joined_when_there_are_too_many_and_lose_nothing() {
        let mut stats = CallStats::default();
        let mut rng = elevon_testkit::Rng(1);
        let mut now = 0;
        for n in 0..5000u64 {
            now += rng.below(900_000_000);
            let class = [PrioClass::Rt, PrioClass::Be, PrioClass::Idle][(n % 3) as usize];
            stats.add(&done(n % 7 * 1000, class), Nanos::new(now), SECOND);
            assert!(stats.windows.list().len() <= WINDOWS_MAX);
        }
        let all = sum(&stats.windows);
        assert_eq!((all.calls, all.major, all.slept), (stats.calls, stats.major, stats.slept));
        assert_eq!((all.served, all.iowait_ns_max), (stats.served, stats.iowait.max));
        let histogram = all.histogram.expect("some slept");
        assert!(histogram.iter().eq(stats.iowait.histogram.iter()));
        assert!(
            stats.windows.length().get().is_power_of_two()
                || stats.windows.length().get() % SECOND.get() == 0
        );
        assert_eq!(stats.windows.list().len() as u64, now / stats.windows.length().get() + 1);
    }

    #[test]
    fn jobs_of_different_lengths_are_merged_as_one_that_made_all_calls() {
        // (job, time in seconds): the second job ends long before the first has to join windows.
        let calls: Vec<(usize, u64)> =
            (0..1000).map(|n| (0, n)).chain((0..40).map(|n| (1, n))).collect();
        let mut jobs = [CallStats::default(), CallStats::default()];
        let mut one = CallStats::default();
        let mut in_order = calls.clone();
        in_order.sort_by_key(|call| call.1);
        let add = |stats: &mut CallStats, at: u64| {
            stats.add(&done(at + 1, PrioClass::Be), Nanos::from_secs(at), SECOND);
        };
        calls.iter().for_each(|&(job, at)| add(&mut jobs[job], at));
        in_order.iter().for_each(|&(_, at)| add(&mut one, at));
        assert!(jobs[1].windows.length() < jobs[0].windows.length());
        let [long, short] = jobs;
        for (first, second) in [(&long, &short), (&short, &long)] {
            let mut merged = CallStats::default();
            merged.merge(first);
            merged.merge(second);
            assert_eq!(merged, one);
        }
    }
}
