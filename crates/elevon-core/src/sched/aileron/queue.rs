//! The queue of a process in one class: its requests, and what is known of its return.

use super::ids::MemberId;
use crate::sched::fifo::Fifo;
use crate::tree::Root;
use crate::units::{Instant, Nanos, Sector};

/// A think time after which others that have completed are not expected back either.
const LONG_THINK_TIME: Nanos = Nanos::from_millis(100);

/// A moving average with weight 1/8, in nanoseconds; below zero before the first sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average(i64);

impl Average {
    const NONE: Self = Self(-1);

    #[inline]
    pub(super) const fn add(&mut self, sample: Nanos) {
        let sample = sample.get() as i64;
        self.0 = if self.0 < 0 { sample } else { self.0 + (sample - self.0) / 8 };
    }
    pub(super) const fn get(self) -> Option<u64> {
        if self.0 < 0 { None } else { Some(self.0 as u64) }
    }
}

/// A mean of some ratios.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    n: u64,
    sum: u64,
}

impl Mean {
    pub(super) const fn add(&mut self, ratio: u64) {
        if self.n == 1024 {
            (self.n, self.sum) = (self.n / 2, self.sum / 2);
        }
        (self.n, self.sum) = (self.n + 1, self.sum + ratio);
    }

    /// Returns the mean; 0 of fewer than eight.
    pub(super) const fn mean(self) -> u64 {
        if self.n < 8 { 0 } else { self.sum / self.n }
    }
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Its place in the hierarchy.
    pub(super) member: MemberId,
    /// Class, most urgent first.
    pub(super) class: usize,
    /// Requests by arrival.
    pub(super) fifo: Fifo,
    /// Those of them that are filed by sector, and the number of the others.
    pub(super) sorted: Root,
    pub(super) unsorted: u32,
    pub(super) queued: u32,
    pub(super) in_device: u32,
    /// Which stretch of time with requests waiting this is, what was charged in it, and the
    /// largest cost of a request so far.
    pub(super) stretch: u64,
    pub(super) charged: u64,
    pub(super) largest: u64,
    /// Where the request ends that arrived last, and how many in a row have begun where the one
    /// before ended.
    pub(super) end: Sector,
    pub(super) run: u32,
    /// Sectors of that request.
    pub(super) sectors: u64,
    /// The process has exited: the queue ends with its last request.
    pub(super) exited: bool,
    /// When its last request completed, if no other has arrived since.
    left: Option<Instant>,
    /// Requests that have completed and that no arrival has followed yet; and their number,
    /// integrated over time in nanoseconds from the last arrival to `seen`.
    away: u32,
    away_area: u64,
    seen: Instant,
    /// Time from a completion to the next arrival.
    next: Average,
    /// Time from the completion of a request to the arrival that takes its place.
    pub(super) think: Average,
    /// An eighth of the time that its last request takes alone, and how many of its returns were
    /// within it: a moving average, in 1/1024.
    short: Nanos,
    quick: u64,
    /// Its last think time that was longer, and whether the one before that was about the same.
    pause: Nanos,
    is_regular: bool,
    /// Time from arrival to completion, and the part of it that it waited, here or in the device.
    pub(super) total: Average,
    pub(super) wait: Average,
}

impl Queue {
    pub(super) fn new(member: MemberId, class: usize) -> Self {
        Self {
            member,
            class,
            fifo: Fifo::EMPTY,
            sorted: Root::EMPTY,
            unsorted: 0,
            queued: 0,
            in_device: 0,
            stretch: 0,
            charged: 0,
            largest: 0,
            end: Sector::new(0),
            run: 0,
            sectors: 0,
            exited: false,
            left: None,
            away: 0,
            away_area: 0,
            seen: Instant::ZERO,
            next: Average::NONE,
            think: Average::NONE,
            short: Nanos::ZERO,
            quick: 0,
            pause: Nanos::ZERO,
            is_regular: false,
            total: Average::NONE,
            wait: Average::NONE,
        }
    }

    /// Notes the arrival of a request.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        let left = self.left.take();
        if self.away == 0 {
            return;
        }
        self.pass(now);
        // By Little's law: of many that have completed at once the last come back much later than
        // the first.
        let each = Nanos::new(core::mem::take(&mut self.away_area));
        self.think.add(each);
        self.away = if each > LONG_THINK_TIME { 0 } else { self.away - 1 };
        if let Some(left) = left {
            let think = now - left;
            self.next.add(think);
            let is_quick = think <= self.short;
            self.quick = self.quick - self.quick / 8 + if is_quick { 128 } else { 0 };
            if !is_quick {
                self.is_regular = think.get().abs_diff(self.pause.get()) <= self.short.get() / 2;
                self.pause = think;
            }
        }
    }

    /// Notes the end of a request that arrived at `arrived` and waited here for `wait`; the device
    /// takes it `alone` if nothing else is there.
    pub(super) fn on_end(&mut self, now: Instant, arrived: Instant, wait: Nanos, alone: Nanos) {
        let total = now - arrived;
        self.total.add(total);
        // What is expected of the device errs by some percent.
        let inside = total.get().saturating_sub(wait.get() + alone.get() * 33 / 32);
        self.wait.add(wait + Nanos::new(inside));
        self.pass(now);
        (self.away, self.left) = (self.away + 1, Some(now));
        self.short = Nanos::new(alone.get() / 8);
    }

    /// Counts the time until now: to be called before [`Self::away`] changes.
    const fn pass(&mut self, now: Instant) {
        self.away_area += now.since(self.seen).get() * self.away as u64;
        self.seen = now;
    }

    /// Returns when the next request of a process is expected that has none and thinks for the same
    /// time again and again.
    #[inline]
    pub(super) fn expected(&self) -> Option<Instant> {
        if !self.is_regular || self.queued > 0 || self.in_device > 0 {
            return None;
        }
        self.left.map(|left| left + self.pause)
    }

    /// Returns true if keeping a place for the process would help. Then the process loses a
    /// noticeable part of its time to waiting: more than 1/20, or four times as much as the place
    /// is idle for it. As much is enough if that is a 32nd of a request at most. One that has
    /// others in the device need not have lost anything yet then: it would lose a little at many of
    /// its returns.
    pub(super) fn is_delayed(&self, hold: Nanos) -> bool {
        let is_short = hold.get() * 4 <= self.short.get();
        if self.in_device > 0 && is_short {
            return true;
        }
        let worth = hold.get() * if is_short { 1 } else { 4 };
        match (self.wait.get(), self.total.get()) {
            (Some(wait), Some(total)) => wait * 20 > total || wait > worth,
            _ => true,
        }
    }

    /// Returns how long the process usually takes until its next request, twice.
    fn usual(&self) -> Option<Nanos> {
        self.think.get().map(|think| Nanos::new(think * 2 + 1_000))
    }

    /// Returns how long to wait for the next request of the process: twice the time that it
    /// usually takes, if that is not above `most`.
    pub(super) fn hold(&self, most: Nanos) -> Option<Nanos> {
        let hold = self.usual().unwrap_or(Nanos::new(most.get() / 4 + 1_000));
        (hold <= most).then_some(hold)
    }

    /// Returns true if the process usually takes so long until its next request at most, with a
    /// quarter of that to spare.
    pub(super) fn returns_within(&self, most: Nanos) -> bool {
        self.next.get().is_none_or(|next| next / 4 * 5 <= most.get())
    }

    /// Returns how long to wait for the next request of a process that mostly returns at once and
    /// thinks now and then, so that the mean says nothing; at most `most`. A place that is kept in
    /// vain is idle for an eighth of a request, and at least every second one is used.
    pub(super) fn short_hold(&self, most: Nanos) -> Option<Nanos> {
        let is_mixed = self.quick >= 512 && self.usual().is_some_and(|usual| usual > self.short);
        let hold = self.short.min(most);
        (is_mixed && !hold.is_zero()).then_some(hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::aileron::ids::GroupId;
    use crate::sched::aileron::shares::Shares;

    /// Returns how long a place is kept for a process of requests of 500 us that thinks for so many
    /// microseconds before each in turn.
    fn hold(thinks: &[u64]) -> Option<Nanos> {
        let mut shares = Shares::new(Nanos::from_millis(250));
        let member = shares.add(Instant::ZERO, GroupId::ROOT, 1, 40);
        let (mut queue, mut now, alone) =
            (Queue::new(member, 1), Instant::ZERO, Nanos::from_micros(500));
        for think in thinks.iter().cycle().take(400) {
            queue.on_end(now, now, Nanos::ZERO, alone);
            now = now + Nanos::from_micros(*think);
            queue.on_arrival(now);
        }
        queue.short_hold(alone).or_else(|| queue.hold(alone))
    }

    #[test]
    fn a_place_is_kept_shortly_for_who_mostly_returns_at_once() {
        let short = Some(Nanos::new(62_500));
        assert_eq!(hold(&[5]), Some(Nanos::from_micros(11)));
        assert_eq!(hold(&[1_000, 5, 5, 5]), short);
        assert_eq!(hold(&[1_000, 1_000, 1_000, 5]), None);
        assert_eq!(hold(&[1_000]), None);
        assert_eq!(hold(&[100]), Some(Nanos::from_micros(201)), "it never returns at once");
    }

    /// Returns in how many microseconds a process of requests of 500 us is expected that thinks for
    /// so many before each in turn, and has ended one now.
    fn expected(thinks: &[u64]) -> Option<u64> {
        let mut shares = Shares::new(Nanos::from_millis(250));
        let member = shares.add(Instant::ZERO, GroupId::ROOT, 1, 40);
        let (mut queue, mut now) = (Queue::new(member, 1), Instant::ZERO);
        for think in thinks.iter().cycle().take(60) {
            queue.on_end(now, now, Nanos::ZERO, Nanos::from_micros(500));
            now = now + Nanos::from_micros(*think);
            queue.on_arrival(now);
        }
        queue.on_end(now, now, Nanos::ZERO, Nanos::from_micros(500));
        queue.expected().map(|at| at.since(now).get() / 1_000)
    }

    #[test]
    fn a_process_is_expected_that_thinks_for_the_same_time() {
        assert_eq!(expected(&[1_000]), Some(1_000));
        assert_eq!(expected(&[1_000, 5, 5, 1_020]), Some(1_020), "what is quick does not count");
        assert_eq!(expected(&[1_000, 2_000]), None);
        assert_eq!(expected(&[5]), None);
    }

    #[test]
    fn who_has_others_in_the_device_need_not_have_lost_time() {
        let mut shares = Shares::new(Nanos::from_millis(250));
        let member = shares.add(Instant::ZERO, GroupId::ROOT, 1, 40);
        let (mut queue, now) = (Queue::new(member, 1), Instant::ZERO + Nanos::from_millis(1));
        queue.on_end(now, Instant::ZERO, Nanos::ZERO, Nanos::from_millis(1));
        let is_delayed = |queue: &Queue, micros| queue.is_delayed(Nanos::from_micros(micros));
        assert!(!is_delayed(&queue, 10));
        queue.in_device = 1;
        assert!(is_delayed(&queue, 31));
        assert!(!is_delayed(&queue, 32));
    }

    /// Eight requests end at once and come back one every 5 us: 22.5 us later on average, of which
    /// the moving average sees a little less.
    #[test]
    fn who_has_several_in_the_device_thinks_about_each() {
        let mut shares = Shares::new(Nanos::from_millis(250));
        let member = shares.add(Instant::ZERO, GroupId::ROOT, 1, 40);
        let (mut queue, mut now) = (Queue::new(member, 1), Instant::ZERO);
        let mut round = |queue: &mut Queue, returns: u64| {
            now = now + Nanos::from_millis(1);
            (0..8).for_each(|_| queue.on_end(now, now, Nanos::ZERO, Nanos::from_millis(1)));
            (1..=returns).for_each(|at| queue.on_arrival(now + Nanos::from_micros(5 * at)));
        };
        (0..40).for_each(|_| round(&mut queue, 8));
        let hold = queue.hold(Nanos::from_millis(1)).expect("it comes back soon");
        assert!(hold.get().abs_diff(46_000) < 10_000, "{hold:?}");
        // Seven of them never come back: that is noticed after a while.
        (0..400).for_each(|_| round(&mut queue, 1));
        now = now + Nanos::from_millis(200);
        queue.on_arrival(now);
        (0..40).for_each(|_| {
            queue.on_end(now, now, Nanos::ZERO, Nanos::from_millis(1));
            now = now + Nanos::from_micros(5);
            queue.on_arrival(now);
        });
        let hold = queue.hold(Nanos::from_millis(1)).expect("it comes back soon");
        assert!(hold.get() < 1_000_000, "{hold:?}");
    }
}
