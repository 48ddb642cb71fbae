//! iostat's extended columns from two readings, as exact ratios.
//!
//! What sysstat 12 prints, without its rounding: reports turn the ratios into decimals. Cost: O(1), no allocation.

use crate::op::StatGroup;

use super::DiskStats;

/// A quotient; anything over 0 stands for 0, as iostat prints it.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Above the line.
    pub numerator: u128,
    /// Below the line.
    pub denominator: u128,
}

impl Ratio {
    const fn new(numerator: u128, denominator: u128) -> Self {
        Self { numerator, denominator }
    }
    /// The value in hundredths, rounded half up: what `%.2f` of it shows.
    pub const fn hundredths(self) -> u128 {
        if self.denominator == 0 { 0 } else { (self.numerator * 200 + self.denominator) / (2 * self.denominator) }
    }
}

impl PartialEq for Ratio {
    /// Equal as numbers: 1/2 is 2/4.
    fn eq(&self, other: &Self) -> bool {
        match (self.denominator, other.denominator) {
            (0, 0) => true,
            (0, _) => other.numerator == 0,
            (_, 0) => self.numerator == 0,
            (mine, theirs) => self.numerator * theirs == other.numerator * mine,
        }
    }
}

/// The columns of reads, writes or discards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupColumns {
    /// Requests a second (`r/s`).
    pub per_second: Ratio,
    /// KiB a second (`rkB/s`).
    pub kib_per_second: Ratio,
    /// Merges a second (`rrqm/s`).
    pub merges_per_second: Ratio,
    /// Merges in percent of merges and requests (`%rrqm`).
    pub merge_percent: Ratio,
    /// Milliseconds a request (`r_await`).
    pub await_ms: Ratio,
    /// KiB a request (`rareq-sz`).
    pub request_kib: Ratio,
}

/// The change between two readings of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Change of each of the 17 fields, in the file's units; a field that fell (in flight) gives 0.
    pub change: [u64; 17],
    /// Time between the readings in 1/100 s, the unit that iostat takes it in.
    pub elapsed_cs: u64,
}

impl Delta {
    /// From the 17 numbers of two readings.
    pub fn of_fields(first: &[u64; 17], second: &[u64; 17], elapsed_cs: u64) -> Self {
        Self { change: core::array::from_fn(|at| second[at].saturating_sub(first[at])), elapsed_cs }
    }

    /// From two readings; the time is that of the readings, each cut to 1/100 s as `/proc/uptime` does.
    pub fn between(first: &DiskStats, second: &DiskStats) -> Self {
        let cs = |stats: &DiskStats| stats.at.get() / 10_000_000;
        Self::of_fields(&first.fields(), &second.fields(), cs(second).saturating_sub(cs(first)))
    }

    fn field(&self, number: usize) -> u128 {
        u128::from(self.change[number - 1])
    }
    fn per_second(&self, value: u128) -> Ratio {
        Ratio::new(value * 100, u128::from(self.elapsed_cs))
    }

    /// The columns of one group.
    pub fn group(&self, group: StatGroup) -> GroupColumns {
        let first = match group {
            StatGroup::Read => 1,
            StatGroup::Write => 5,
            StatGroup::Discard => 12,
        };
        let [ios, merges, sectors, ticks] = [0, 1, 2, 3].map(|at| self.field(first + at));
        GroupColumns {
            per_second: self.per_second(ios),
            kib_per_second: Ratio::new(sectors * 50, u128::from(self.elapsed_cs)),
            merges_per_second: self.per_second(merges),
            merge_percent: Ratio::new(100 * merges, ios + merges),
            await_ms: Ratio::new(ticks, ios),
            request_kib: Ratio::new(sectors, 2 * ios),
        }
    }
    /// Flushes a second (`f/s`).
    pub fn flushes_per_second(&self) -> Ratio {
        self.per_second(self.field(16))
    }
    /// Milliseconds a flush (`f_await`).
    pub fn flush_await_ms(&self) -> Ratio {
        Ratio::new(self.field(17), self.field(16))
    }
    /// Mean number of requests waiting or in service (`aqu-sz`): their times, put in the intervals they end in.
    pub fn queue_size(&self) -> Ratio {
        Ratio::new(self.field(11), 10 * u128::from(self.elapsed_cs))
    }
    /// Utilisation in percent (`%util`).
    pub fn utilisation_percent(&self) -> Ratio {
        Ratio::new(self.field(10) * 10, u128::from(self.elapsed_cs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: [u64; 17] = [1000, 50, 256000, 4000, 2000, 100, 64000, 9000, 3, 5000, 13035, 10, 0, 8192, 20, 5, 15];
    const SECOND: [u64; 17] =
        [1400, 150, 307200, 8800, 2100, 120, 72192, 9900, 5, 5900, 18785, 12, 0, 12288, 30, 9, 55];

    #[test]
    fn the_worked_example_exactly() {
        let delta = Delta::of_fields(&FIRST, &SECOND, 100);
        let whole = |n: u128| Ratio::new(n, 1);
        let read = delta.group(StatGroup::Read);
        assert_eq!(read.per_second, whole(400));
        assert_eq!(read.kib_per_second, whole(25600));
        assert_eq!(read.merges_per_second, whole(100));
        assert_eq!(read.merge_percent, whole(20));
        assert_eq!(read.await_ms, whole(12));
        assert_eq!(read.request_kib, whole(64));
        let write = delta.group(StatGroup::Write);
        assert_eq!(write.per_second, whole(100));
        assert_eq!(write.kib_per_second, whole(4096));
        assert_eq!(write.merges_per_second, whole(20));
        assert_eq!(write.merge_percent, Ratio::new(50, 3));
        assert_eq!(write.merge_percent.hundredths(), 1667);
        assert_eq!(write.await_ms, whole(9));
        assert_eq!(write.request_kib, Ratio::new(4096, 100));
        let discard = delta.group(StatGroup::Discard);
        assert_eq!(discard.per_second, whole(2));
        assert_eq!(discard.kib_per_second, whole(2048));
        assert_eq!(discard.merges_per_second, whole(0));
        assert_eq!(discard.merge_percent, whole(0));
        assert_eq!(discard.await_ms, whole(5));
        assert_eq!(discard.request_kib, whole(1024));
        assert_eq!(delta.flushes_per_second(), whole(4));
        assert_eq!(delta.flush_await_ms(), whole(10));
        assert_eq!(delta.queue_size(), Ratio::new(575, 100));
        assert_eq!(delta.utilisation_percent(), whole(90));
    }

    #[test]
    fn published_table_of_a_slow_lun() {
        // 4001 requests a second of 64 KiB, 26.20 ms each: 104.8 outstanding.
        let mut change = [0; 17];
        (change[0], change[2], change[3], change[10]) = (4001, 4001 * 128, 104_826, 104_826);
        let delta = Delta { change, elapsed_cs: 100 };
        let read = delta.group(StatGroup::Read);
        assert_eq!(read.kib_per_second, Ratio::new(256_064, 1));
        assert_eq!(read.request_kib, Ratio::new(64, 1));
        assert_eq!(read.await_ms.hundredths(), 2620);
        assert_eq!(delta.queue_size().hundredths(), 10483);
    }

    #[test]
    fn nothing_over_nothing_is_nothing() {
        let idle = Delta { change: [0; 17], elapsed_cs: 0 };
        assert_eq!(idle.group(StatGroup::Read).await_ms.hundredths(), 0);
        assert_eq!(idle.utilisation_percent().hundredths(), 0);
        assert_ne!(Ratio::new(1, 2), Ratio::new(1, 0));
    }
}
