//! Writeback throttling (wbt): bounds the buffered writes and discards that are in flight, so that
//! reads stay fast.
//!
//! As in Linux. A bio takes a place before its request is allocated, or waits for one in FIFO
//! order; its request gives the place back when it is freed. How many places there are follows the
//! fastest read of each window of 100 ms: halved if even that one took longer than the target
//! (`wbt_lat_usec`), and doubled while there are no reads. Reads, direct writes (which alone are
//! IDLE) and all other operations pass.
//!
//! Cost: O(1) per bio, and nothing that allocates. While nothing was throttled in the last window,
//! a read stores two times.

use crate::jiffies::Hz;
use crate::op::{Flags, Op};
use crate::units::{Instant, Nanos, RequestId};

#[cfg(test)]
mod tests;

/// Places before the first change; the depth of step 0.
const DEFAULT_DEPTH: u32 = 16;
/// Length of a window at step 0 and below.
const WINDOW: Nanos = Nanos::from_millis(100);
/// A window with fewer writes says nothing about their effect on reads.
const LEAST_WRITES: u32 = 3;
/// Windows in a row without reads and writes, after which the depth goes a step back to its
/// default.
const UNKNOWN_WINDOWS: u32 = 5;

/// What is counted, and waits, separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Throttled {
    /// A write that is not a direct one, also an empty flush.
    Write = 0,
    /// A discard.
    Discard = 1,
}

impl Throttled {
    pub(crate) const ALL: [Self; 2] = [Self::Write, Self::Discard];

    /// Returns how a bio of this operation with these flags is counted; `None` if it is never
    /// throttled.
    #[inline(always)]
    pub(crate) const fn from_op(op: Op, flags: Flags) -> Option<Self> {
        match op {
            Op::Write if !flags.contains(Flags::IDLE) => Some(Self::Write),
            Op::Discard => Some(Self::Discard),
            _ => None,
        }
    }
}

/// How many may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// For what a task waits for.
    most: u32,
    /// For other writes.
    normal: u32,
    /// For discards, and for background writes while there is other I/O.
    background: u32,
}

impl Places {
    const fn from_most(most: u32) -> Self {
        match most {
            0..=2 => Self { most, normal: most, background: 1 },
            _ => Self { most, normal: most.div_ceil(2), background: most.div_ceil(4) },
        }
    }
}

/// What the requests of a window took in the device.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The fastest read; the largest value if none completed.
    fastest_read: Nanos,
    writes: u32,
}

impl Sample {
    const EMPTY: Self = Self { fastest_read: Nanos::MAX, writes: 0 };

    fn has_reads(&self) -> bool {
        self.fastest_read < Nanos::MAX
    }
}

/// What a window says about the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Exceeded,
    Fine,
    /// There were writes, and not enough reads to judge by.
    OnlyWrites,
    Unknown,
}

/// Writeback throttling of one device.
#[derive(Clone, Debug)]
pub(crate) struct Wbt {
    /// The latency that reads should have; `None`: nothing is throttled.
    target: Option<Nanos>,
    hz: Hz,
    /// The device has a volatile write cache.
    has_cache: bool,
    queue_depth: u32,
    /// Halvings of the default depth; negative for doublings.
    step: i32,
    /// The depth cannot grow further.
    is_largest: bool,
    places: Places,
    in_flight: [u32; 2],
    /// Windows in a row that said nothing.
    unknown: u32,
    /// Length of the present window, and when it ends; `Instant::MAX` if there is none.
    window: Nanos,
    window_end: Instant,
    sample: Sample,
    /// The read that was issued first since none was outstanding, and when.
    oldest_read: Option<(RequestId, Instant)>,
    /// When a read was last submitted or completed, and when a task last slept for the limit of
    /// dirty pages; `None` before the first.
    last_read: Option<Instant>,
    last_dirty_sleep: Option<Instant>,
    /// Tasks sleep for it all the time.
    always_dirty: bool,
}

impl Wbt {
    /// Returns writeback throttling for a device that holds `queue_depth` commands. Without a
    /// target nothing is throttled.
    pub(crate) fn new(target: Option<Nanos>, queue_depth: u32, has_cache: bool, hz: Hz) -> Self {
        let mut wbt = Self {
            target,
            hz,
            has_cache,
            queue_depth,
            step: 0,
            is_largest: false,
            places: Places::from_most(0),
            in_flight: [0; 2],
            unknown: 0,
            window: WINDOW,
            window_end: Instant::MAX,
            sample: Sample::EMPTY,
            oldest_read: None,
            last_read: None,
            last_dirty_sleep: None,
            always_dirty: false,
        };
        wbt.set_step(0);
        wbt
    }

    /// Returns it as it is once it has grown so far that it lets in so many background writes, or
    /// as many as it can. `always_dirty`: tasks sleep for the limit of dirty pages all the time.
    pub(crate) fn grown_to(mut self, writes: u32, always_dirty: bool) -> Self {
        self.always_dirty = always_dirty;
        let let_in =
            |wbt: &Self| if always_dirty { wbt.places.most } else { wbt.places.background };
        while let_in(&self) < writes && !self.is_largest && self.is_on() {
            self.set_step(self.step - 1);
        }
        self
    }

    /// Returns true if there is a target.
    #[inline(always)]
    pub(crate) const fn is_on(&self) -> bool {
        self.target.is_some()
    }

    /// Returns when [`Self::end_window`] is due; `Instant::MAX` if no window is open.
    #[inline(always)]
    pub(crate) const fn next_wakeup(&self) -> Instant {
        self.window_end
    }

    /// Notes that a read was submitted.
    #[inline(always)]
    pub(crate) const fn on_read(&mut self, now: Instant) {
        self.last_read = Some(now);
    }

    /// Notes that a task slept because too many pages were dirty.
    pub(crate) const fn on_dirty_sleep(&mut self, now: Instant) {
        self.last_dirty_sleep = Some(now);
    }

    /// Notes that a request was given to the driver, if there is a target.
    #[inline(always)]
    pub(crate) const fn on_issue(&mut self, now: Instant, id: RequestId, op: Op) {
        if self.oldest_read.is_none() && matches!(op, Op::Read) && self.is_on() {
            self.oldest_read = Some((id, now));
        }
    }

    /// Notes that a request completed in the device, which took `device`.
    #[inline(always)]
    pub(crate) fn on_complete(&mut self, now: Instant, id: RequestId, op: Op, device: Nanos) {
        if op == Op::Read {
            self.last_read = Some(now);
            if self.oldest_read.is_some_and(|(oldest, _)| oldest == id) {
                self.oldest_read = None;
            }
        }
        if self.window_end == Instant::MAX {
            return;
        }
        match op {
            Op::Read => self.sample.fastest_read = self.sample.fastest_read.min(device),
            _ if op.is_write() => self.sample.writes += 1,
            _ => {}
        }
    }

    /// Takes a place for a bio. Returns false if none is left for one with these flags.
    pub(crate) fn take(&mut self, now: Instant, throttled: Throttled, flags: Flags) -> bool {
        let limit = self.limit_of(now, throttled, flags);
        let in_flight = &mut self.in_flight[throttled as usize];
        if *in_flight >= limit {
            return false;
        }
        *in_flight += 1;
        if self.window_end == Instant::MAX {
            self.open_window(now);
        }
        true
    }

    /// Gives a place back. Returns true if those who wait are to be woken.
    pub(crate) fn put(&mut self, now: Instant, throttled: Throttled) -> bool {
        let in_flight = &mut self.in_flight[throttled as usize];
        assert!(*in_flight > 0, "a place is given back that was not taken");
        *in_flight -= 1;
        let left = *in_flight;
        let limit = match throttled {
            Throttled::Discard => self.places.background,
            // A cache takes writes faster than the medium: it is given time to write them.
            Throttled::Write if self.has_cache && !self.slept_lately(now) => 0,
            Throttled::Write => self.places.normal,
        };
        left == 0 || (left < limit && limit - left >= self.places.background / 2)
    }

    /// Ends the window: the depth takes a step if the window says so. Returns true if there may be
    /// more places than before.
    pub(crate) fn end_window(&mut self, now: Instant) -> bool {
        let verdict = self.verdict(now);
        self.window_end = Instant::MAX;
        let grew = match verdict {
            Verdict::Exceeded => {
                self.shrink();
                false
            }
            Verdict::Fine | Verdict::OnlyWrites => self.grow(),
            Verdict::Unknown => {
                self.unknown += 1;
                match self.step {
                    _ if self.unknown < UNKNOWN_WINDOWS => false,
                    1.. => self.grow(),
                    0 => false,
                    _ => {
                        self.set_step(self.step + 1);
                        false
                    }
                }
            }
        };
        if self.step != 0 || self.in_flight.iter().any(|&n| n > 0) {
            self.open_window(now);
        }
        grew
    }

    /// Returns the places that are taken, by what took them.
    pub(crate) const fn in_flight(&self) -> [u32; 2] {
        self.in_flight
    }

    fn open_window(&mut self, now: Instant) {
        self.sample = Sample::EMPTY;
        self.window = match self.step {
            1.. => {
                let steps = self.step as u64 + 1;
                Nanos::new((WINDOW.get() << 4) / (steps << 8).isqrt())
            }
            _ => WINDOW,
        };
        self.window_end = self.hz.timer(now, self.hz.jiffies(self.window));
    }

    fn verdict(&self, now: Instant) -> Verdict {
        let Some(target) = self.target else { return Verdict::Unknown };
        let Sample { fastest_read, writes } = self.sample;
        let outstanding = self.oldest_read.map_or(Nanos::ZERO, |(_, since)| now.since(since));
        if outstanding > self.window || (outstanding > target && !self.sample.has_reads()) {
            Verdict::Exceeded
        } else if self.sample.has_reads() && writes >= LEAST_WRITES {
            if fastest_read > target { Verdict::Exceeded } else { Verdict::Fine }
        } else if writes > 0 || self.slept_lately(now) || self.in_flight.iter().any(|&n| n > 0) {
            Verdict::OnlyWrites
        } else {
            Verdict::Unknown
        }
    }

    /// Returns how many of one kind may be in flight when a bio with these flags comes.
    fn limit_of(&mut self, now: Instant, throttled: Throttled, flags: Flags) -> u32 {
        let Places { most, normal, background } = self.places;
        match throttled {
            Throttled::Discard => background,
            Throttled::Write
                if flags.intersects(Flags::SYNC.with(Flags::META)) || self.slept_lately(now) =>
            {
                most
            }
            Throttled::Write if flags.contains(Flags::BACKGROUND) || self.read_lately(now) => {
                background
            }
            Throttled::Write => normal,
        }
    }

    /// Returns true if a task slept for the limit of dirty pages in the last second.
    fn slept_lately(&self, now: Instant) -> bool {
        self.always_dirty || self.is_within(self.last_dirty_sleep, now, self.hz.0)
    }

    /// Returns true if a read was submitted or completed in the last tenth of a second.
    fn read_lately(&self, now: Instant) -> bool {
        self.is_within(self.last_read, now, self.hz.0 / 10)
    }

    /// Returns true if `at` lies fewer than `jiffies` back.
    fn is_within(&self, at: Option<Instant>, now: Instant, jiffies: u64) -> bool {
        let jiffy = |at: Instant| self.hz.jiffies(at.since(Instant::ZERO));
        at.is_some_and(|at| jiffy(now) < jiffy(at) + jiffies)
    }

    /// Allows twice as many, up to three quarters of the queue.
    fn grow(&mut self) -> bool {
        if self.is_largest {
            return false;
        }
        self.set_step(self.step - 1);
        true
    }

    /// Allows half as many, or as many as at first if there were more.
    fn shrink(&mut self) {
        if self.places.most > 1 {
            self.set_step(if self.step < 0 { 0 } else { self.step + 1 });
        }
    }

    fn set_step(&mut self, step: i32) {
        self.step = step;
        self.unknown = 0;
        let (depth, is_largest) = depth_at(step, self.queue_depth);
        self.is_largest = is_largest;
        self.places = Places::from_most(if self.is_on() { depth } else { 0 });
    }
}

/// Returns the most places for background writes while there is other I/O, for a device that holds
/// `queue_depth` commands.
pub(crate) const fn most_background(queue_depth: u32) -> u32 {
    let most = queue_depth as u64 * 3 / 4;
    Places::from_most(if most > 2 { most as u32 } else { 2 }).background
}

/// Returns the depth at a step, and whether there is no larger one.
fn depth_at(step: i32, queue_depth: u32) -> (u32, bool) {
    if queue_depth == 1 {
        return if step > 0 { (1, false) } else { (2, true) };
    }
    let more = u64::from(DEFAULT_DEPTH.min(queue_depth)) - 1;
    let most = u64::from(queue_depth) * 3 / 4;
    match step {
        0.. => (1 + (more >> step.min(31)) as u32, false),
        _ => {
            let depth = 1 + (more << step.unsigned_abs().min(31));
            (depth.min(most) as u32, depth > most)
        }
    }
}
