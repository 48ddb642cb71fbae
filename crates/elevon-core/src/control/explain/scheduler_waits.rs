//! Divides the time that I/O waited for the scheduler by the tenant that the device served instead.
//!
//! At any time the device serves the tenant of the last request that it was given, or no tenant
//! while it is idle. For every tenant that was served, the clock `served[y]` holds the total time;
//! exactly one clock runs at a time, so their sum is the elapsed time. A wait from t0 to t1 is
//! charged the change of each clock between them, which therefore sums to t1 - t0. No wait stores a
//! copy of the clocks: each waiting tenant has a row, from which the clocks are subtracted when a
//! wait begins and to which they are added when it ends; when no wait is open, the row is the
//! result.
//!
//! Up to 64 served tenants have a clock; all others share one. After 16,384 dispatches of tenants
//! without a clock, the rows are settled and the clocks are assigned again to the tenants that are
//! served then. For each waiting tenant at most 128 served tenants are distinguished, so that
//! memory does not grow with the square of the number of tenants.
//!
//! Cost: O(1) per dispatch, including the amortised reassignment of clocks; O(clocks in use) per
//! wait, which is one addition for each tenant served recently, at most 66. 560 bytes per waiting
//! tenant.

extern crate alloc;
use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Cause, Wait, WaitBreakdown};
use crate::units::{Instant, Nanos, TenantId};

/// Number of served tenants that are distinguished.
const SLOTS: usize = 64;
/// The clock of no tenant, and the clock of tenants without their own.
const NOBODY: usize = 0;
const OTHERS: usize = 1;
const CLOCKS: usize = SLOTS + 2;
const NONE: u32 = u32::MAX;
/// Dispatches of tenants without a clock after which clocks are assigned again.
const LUMPED: u32 = 16_384;
/// Causes of one tenant beyond which no more served tenants are distinguished.
const MOST_CAUSES: usize = 2 * SLOTS;

/// I/O of one tenant in the scheduler.
#[derive(Clone, Debug)]
struct Waiter {
    tenant: TenantId,
    /// Waits that have begun and not ended.
    open: u64,
    /// By clock: ends less begins, modulo 2^64. With `open` times the clock it is the time waited
    /// while that clock ran.
    row: Box<[u64; CLOCKS]>,
}

/// The clocks of one device.
#[derive(Clone, Debug)]
pub struct SchedulerWaits {
    /// Time up to which the clocks are counted, and the running clock.
    counted: Instant,
    running: usize,
    clocks: [u64; CLOCKS],
    /// The tenants of the clocks from the third on.
    owners: Vec<TenantId>,
    /// Clock of each tenant; [`NONE`] if it has none.
    clock_of: Vec<u32>,
    waiters: Vec<Waiter>,
    /// Index of each tenant in `waiters`, or [`NONE`].
    waiter_of: Vec<u32>,
    /// Dispatches of tenants without a clock since the clocks were assigned.
    lumped: u32,
}

impl Default for SchedulerWaits {
    fn default() -> Self {
        Self {
            counted: Instant::ZERO,
            running: NOBODY,
            clocks: [0; CLOCKS],
            owners: Vec::new(),
            clock_of: Vec::new(),
            waiters: Vec::new(),
            waiter_of: Vec::new(),
            lumped: 0,
        }
    }
}

/// Returns the entry of a table, which grows if needed.
fn slot(table: &mut Vec<u32>, tenant: TenantId) -> &mut u32 {
    if tenant.index() >= table.len() {
        table.resize(tenant.index() + 1, NONE);
    }
    &mut table[tenant.index()]
}

impl SchedulerWaits {
    #[inline]
    fn count_to(&mut self, now: Instant) {
        debug_assert!(now >= self.counted, "time went backwards");
        self.clocks[self.running] += now.since(self.counted).get();
        self.counted = now;
    }

    const fn in_use(&self) -> usize {
        2 + self.owners.len()
    }

    /// Records that a request of this tenant was issued to the device.
    pub(crate) fn on_dispatch(
        &mut self,
        now: Instant,
        tenant: TenantId,
        breakdown: &mut WaitBreakdown,
    ) {
        self.count_to(now);
        let clock = *slot(&mut self.clock_of, tenant);
        self.running =
            if clock == NONE { self.new_clock(now, tenant, breakdown) } else { clock as usize };
    }

    /// Records that the device is idle.
    pub fn on_idle(&mut self, now: Instant) {
        self.count_to(now);
        self.running = NOBODY;
    }

    #[cold]
    fn new_clock(
        &mut self,
        now: Instant,
        tenant: TenantId,
        breakdown: &mut WaitBreakdown,
    ) -> usize {
        if self.owners.len() == SLOTS {
            self.lumped += 1;
            if self.lumped < LUMPED {
                return OTHERS;
            }
            self.count_up_to(now, breakdown);
        }
        self.owners.push(tenant);
        let clock = self.in_use() - 1;
        self.clock_of[tenant.index()] = clock as u32;
        clock
    }

    /// Records that an I/O of a tenant begins to wait for the scheduler.
    pub(crate) fn begin_wait(&mut self, now: Instant, tenant: TenantId) {
        self.count_to(now);
        let at = *slot(&mut self.waiter_of, tenant);
        let at = if at == NONE { self.new_waiter(tenant) } else { at as usize };
        let in_use = self.in_use();
        let waiter = &mut self.waiters[at];
        waiter.open += 1;
        for (mine, &clock) in waiter.row[..in_use].iter_mut().zip(&self.clocks) {
            *mine = mine.wrapping_sub(clock);
        }
    }

    fn new_waiter(&mut self, tenant: TenantId) -> usize {
        let at = self.waiters.len();
        self.waiters.push(Waiter { tenant, open: 0, row: Box::new([0; CLOCKS]) });
        self.waiter_of[tenant.index()] = at as u32;
        at
    }

    /// Ends such a wait: the I/O was dispatched, or ended without that.
    ///
    /// # Panics
    /// If no wait of this tenant is open.
    pub fn end_wait(&mut self, now: Instant, tenant: TenantId) {
        self.count_to(now);
        let in_use = self.in_use();
        let at = self
            .waiter_of
            .get(tenant.index())
            .copied()
            .filter(|&at| at != NONE)
            .expect("a wait that never began");
        let waiter = &mut self.waiters[at as usize];
        waiter.open = waiter.open.checked_sub(1).expect("a wait ends twice");
        for (mine, &clock) in waiter.row[..in_use].iter_mut().zip(&self.clocks) {
            *mine = mine.wrapping_add(clock);
        }
    }

    /// Returns the number of open waits of a tenant.
    pub fn open(&self, tenant: TenantId) -> u64 {
        let at = self.waiter_of.get(tenant.index()).filter(|&&at| at != NONE);
        at.map_or(0, |&at| self.waiters[at as usize].open)
    }

    /// Adds all time waited so far, including open waits, to the breakdown, and assigns the clocks
    /// again. Call it before the breakdown is read. O(waiting tenants times clocks).
    pub(crate) fn count_up_to(&mut self, now: Instant, breakdown: &mut WaitBreakdown) {
        self.count_to(now);
        let in_use = self.in_use();
        for waiter in &mut self.waiters {
            for (at, mine) in waiter.row[..in_use].iter_mut().enumerate() {
                let time = mine.wrapping_add(self.clocks[at].wrapping_mul(waiter.open));
                *mine = 0;
                if time > 0 {
                    let cause = match at {
                        NOBODY => Cause::Scheduler { served: None },
                        OTHERS => Cause::SchedulerOthers,
                        _ => Cause::Scheduler { served: Some(self.owners[at - 2]) },
                    };
                    let row = breakdown.of(waiter.tenant);
                    let is_full = row.len() >= MOST_CAUSES
                        && row.binary_search_by_key(&cause, |&(at, _)| at).is_err();
                    let cause = if is_full && at > OTHERS { Cause::SchedulerOthers } else { cause };
                    breakdown.add_wait(
                        waiter.tenant,
                        cause,
                        Wait { count: 0, time: Nanos::new(time) },
                    );
                }
            }
        }
        // Tenants that do not wait lose their rows, and all but the tenant being served lose their
        // clocks.
        let waiter_of = &mut self.waiter_of;
        self.waiters.retain(|waiter| {
            waiter_of[waiter.tenant.index()] = NONE;
            waiter.open > 0
        });
        for (at, waiter) in self.waiters.iter().enumerate() {
            waiter_of[waiter.tenant.index()] = at as u32;
        }
        let running = self.running.checked_sub(2).map(|at| self.owners[at]);
        for owner in self.owners.drain(..) {
            self.clock_of[owner.index()] = NONE;
        }
        self.clocks = [0; CLOCKS];
        self.lumped = 0;
        if let Some(tenant) = running {
            self.owners.push(tenant);
            self.clock_of[tenant.index()] = 2;
            self.running = 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::Rng;
    use alloc::collections::BTreeMap;

    /// A simple implementation: adds each step of time to each open wait.
    #[derive(Default)]
    struct Naive {
        now: u64,
        served: Option<TenantId>,
        open: Vec<TenantId>,
        sums: BTreeMap<(TenantId, Option<TenantId>), u64>,
    }

    impl Naive {
        fn advance(&mut self, now: u64) {
            for &tenant in &self.open {
                *self.sums.entry((tenant, self.served)).or_default() += now - self.now;
            }
            self.now = now;
        }
    }

    /// Makes random dispatches of `tenants` tenants, with at most `most_open` open waits.
    fn run(seed: u64, tenants: u64, most_open: usize) -> (WaitBreakdown, Naive) {
        let mut rng = Rng(seed);
        let (mut served, mut breakdown, mut naive) =
            (SchedulerWaits::default(), WaitBreakdown::default(), Naive::default());
        for step in 0..2000 {
            let at = naive.now + rng.below(4) * rng.below(1_000_000);
            naive.advance(at);
            let now = Instant::new(at);
            let tenant = TenantId(rng.below(tenants) as u32);
            match rng.below(6) {
                0 => {
                    served.on_idle(now);
                    naive.served = None;
                }
                1 | 2 => {
                    served.on_dispatch(now, tenant, &mut breakdown);
                    naive.served = Some(tenant);
                }
                3 | 4 if naive.open.len() < most_open => {
                    served.begin_wait(now, tenant);
                    naive.open.push(tenant);
                }
                _ if !naive.open.is_empty() => {
                    let tenant =
                        naive.open.swap_remove(rng.below(naive.open.len() as u64) as usize);
                    served.end_wait(now, tenant);
                }
                _ => {}
            }
            if step % 500 == 499 {
                served.count_up_to(now, &mut breakdown);
                let all = breakdown.iter().map(|(_, _, time)| time.get()).sum::<u64>();
                assert_eq!(all, naive.sums.values().sum::<u64>(), "every nanosecond is charged");
                let open = (0..tenants as u32).map(|at| served.open(TenantId(at))).sum::<u64>();
                assert_eq!(open, naive.open.len() as u64);
            }
        }
        (breakdown, naive)
    }

    #[test]
    fn every_wait_is_charged_to_whom_was_served() {
        for (seed, tenants, most_open) in [(1, 1, 5), (2, 3, 40), (3, 64, 300)] {
            let (breakdown, mut naive) = run(seed, tenants, most_open);
            naive.sums.retain(|_, time| *time > 0);
            let seen: BTreeMap<_, _> = breakdown
                .iter()
                .map(|(tenant, cause, time)| match cause {
                    Cause::Scheduler { served } => ((tenant, served), time.get()),
                    _ => panic!("{cause:?}"),
                })
                .collect();
            assert_eq!(seen, naive.sums, "seed {seed}");
        }
    }

    #[test]
    fn with_more_tenants_than_clocks_the_rest_is_lumped_and_still_sums_up() {
        let (breakdown, naive) = run(5, 1000, 200);
        assert!(breakdown.iter().any(|(_, cause, _)| cause == Cause::SchedulerOthers));
        for (tenant, cause, time) in breakdown.iter() {
            if let Cause::Scheduler { served } = cause {
                assert!(time.get() <= naive.sums[&(tenant, served)], "never more than it was");
            }
        }
        for tenant in (0..1000).map(TenantId) {
            let of_naive = naive
                .sums
                .iter()
                .filter(|(key, _)| key.0 == tenant)
                .map(|(_, time)| time)
                .sum::<u64>();
            assert_eq!(breakdown.total(tenant), Nanos::new(of_naive));
        }
    }

    #[test]
    fn clocks_go_to_those_who_are_served_later_and_no_row_grows_without_bound() {
        let (mut served, mut breakdown) = (SchedulerWaits::default(), WaitBreakdown::default());
        let patient = TenantId(9999);
        served.begin_wait(Instant::ZERO, patient);
        for at in 0..100_000u64 {
            served.on_dispatch(Instant::new(at * 10), TenantId((at / 50) as u32), &mut breakdown);
        }
        served.end_wait(Instant::new(1_000_000), patient);
        served.count_up_to(Instant::new(1_000_000), &mut breakdown);
        assert_eq!(breakdown.total(patient), Nanos::new(1_000_000));
        assert!(breakdown.of(patient).len() <= MOST_CAUSES + 1);
        let told = |from: u32, to: u32| {
            let named = |at: &(Cause, Wait)| matches!(at.0, Cause::Scheduler { served: Some(TenantId(id)) } if (from..to).contains(&id));
            breakdown.of(patient).iter().any(named)
        };
        assert!(
            told(0, 64) && !told(64, 390) && told(390, 500),
            "after enough dispatches of others, others have clocks"
        );
        let later: u64 = breakdown
            .of(patient)
            .iter()
            .find(|at| at.0 == Cause::SchedulerOthers)
            .unwrap()
            .1
            .time
            .get();
        assert!(later > 900_000, "{later}");
    }

    #[test]
    fn a_reader_behind_a_writer() {
        let (reader, writer) = (TenantId(1), TenantId(2));
        let (mut served, mut breakdown) = (SchedulerWaits::default(), WaitBreakdown::default());
        served.begin_wait(Instant::new(100), reader);
        served.begin_wait(Instant::new(150), reader);
        served.on_dispatch(Instant::new(200), writer, &mut breakdown);
        served.on_dispatch(Instant::new(900), reader, &mut breakdown);
        served.end_wait(Instant::new(900), reader);
        served.count_up_to(Instant::new(1000), &mut breakdown);
        let waited = |served| Cause::Scheduler { served };
        let wait = |time| Wait { count: 0, time: Nanos::new(time) };
        assert_eq!(
            breakdown.of(reader),
            [
                (waited(None), wait(150)),
                (waited(Some(reader)), wait(100)),
                (waited(Some(writer)), wait(1400))
            ]
        );
        served.end_wait(Instant::new(1000), reader);
        served.count_up_to(Instant::new(5000), &mut breakdown);
        assert_eq!(breakdown.total(reader), Nanos::new(1650), "nothing waits any more");
    }
}
