//! Pressure: the share of time in which a tenant's work was stalled by I/O (PSI, `io.pressure`).
//!
//! A tenant has contexts (usually tasks). Each is idle, can run, or is blocked on I/O, and counts
//! for the tenant's ancestors and for the whole system (the root) too. *Some*: at least one context
//! is blocked. *Full*: at least one is blocked and none can run. With several CPUs these are
//! fractions of the CPUs that the contexts could use.
//!
//! Averages over 10, 60 and 300 s are updated every 2 s of the run's clock, in the 11-bit fixed
//! point of Linux; Linux itself updates one tick later. The update is done when they are read or a
//! context changes: a change costs O(depth) and, amortised, one update for every 2 s that have
//! passed. 112 bytes per tenant.

extern crate alloc;
use alloc::vec::Vec;
use core::fmt;

use crate::tenant::{ROOT, Tenants};
use crate::units::{Instant, Nanos, TenantId};

/// Time between two updates of the averages, in ns.
const PERIOD: u64 = 2_000_000_000;
/// One in the averages' fixed point.
const ONE: u64 = 1 << 11;
/// The part of an average over 10, 60 and 300 s that remains after a period: 2048·e^(-2/10), and so
/// on.
const DECAY: [u64; 3] = [1677, 1981, 2034];
/// Stalled time is counted in nanoseconds with this many bits after the point, as fractions of CPUs
/// do not divide.
const FRACTION: u32 = 32;

/// State of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextState {
    /// It does not run: it thinks, sleeps, or does not exist.
    Idle,
    /// It runs or can run.
    Runnable,
    /// It waits for I/O.
    Blocked,
}

/// Kind of stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StallKind {
    /// At least one context waits.
    Some = 0,
    /// At least one context waits and none can run.
    Full = 1,
}

/// A line of `io.pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Averages over 10, 60 and 300 s: percent with 11 bits after the point.
    averages: [u32; 3],
    /// Total time stalled.
    pub total: Nanos,
}

/// The content of `io.pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureReading {
    /// At least one context waited.
    pub some: Stall,
    /// At least one waited and none could run.
    pub full: Stall,
}

/// Contexts of a tenant and of the tenants below it.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    runnable: u32,
    blocked: u32,
    /// Time up to which everything is counted.
    counted: u64,
    /// Time stalled since the last update of the averages, by [`StallKind`].
    recent: [u64; 2],
    /// Total time stalled.
    total: [u128; 2],
    averages: [[u32; 3]; 2],
}

/// The pressure of every tenant.
#[derive(Clone, Debug)]
pub struct Pressure {
    cpus: u32,
    groups: Vec<Group>,
}

impl Stall {
    /// Returns the average over 10, 60 or 300 s (0, 1, 2), in hundredths of a percent, rounded down
    /// as it is printed.
    pub const fn average(&self, window: usize) -> u32 {
        let fixed = self.averages[window];
        (fixed >> 11) * 100 + (((fixed & (ONE as u32 - 1)) * 100) >> 11)
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (window, name) in ["avg10", "avg60", "avg300"].into_iter().enumerate() {
            let value = self.average(window);
            write!(f, "{name}={}.{:02} ", value / 100, value % 100)?;
        }
        write!(f, "total={}", self.total.as_micros())
    }
}

/// Two lines, without a newline after the last.
impl fmt::Display for PressureReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some {}\nfull {}", self.some, self.full)
    }
}

/// Returns an average after one more period with that share stalled, in whole percent.
fn fold(average: u32, percent: u64, decay: u64) -> u32 {
    let (old, new) = (u64::from(average), percent * ONE);
    let round_up = if new >= old { ONE - 1 } else { 0 };
    ((old * decay + new * (ONE - decay) + round_up) / ONE) as u32
}

impl Group {
    /// Returns the fraction of time that counts as stalled in the current state.
    fn rates(&self, cpus: u32) -> [u64; 2] {
        let threads = u64::from((self.runnable + self.blocked).min(cpus));
        let part = |of: u64| (of << FRACTION).checked_div(threads).unwrap_or(0);
        [part(threads.min(self.blocked.into())), part(threads - threads.min(self.runnable.into()))]
    }

    fn add(&mut self, rates: [u64; 2], span: u64) {
        for (kind, rate) in rates.into_iter().enumerate() {
            self.recent[kind] += span * rate;
            self.total[kind] += u128::from(span) * u128::from(rate);
        }
        self.counted += span;
    }

    /// Closes a period. Returns true if any average has changed.
    fn close_period(&mut self) -> bool {
        let before = self.averages;
        for (averages, recent) in self.averages.iter_mut().zip(&mut self.recent) {
            let percent = in_nanos(u128::from(core::mem::take(recent))) * 100 / PERIOD;
            for (average, decay) in averages.iter_mut().zip(DECAY) {
                *average = fold(*average, percent, decay);
            }
        }
        before != self.averages
    }

    /// Counts time up to `now`. The state must not have changed since the last call.
    fn advance(&mut self, now: u64, cpus: u32) {
        debug_assert!(now >= self.counted, "time went backwards");
        let rates = self.rates(cpus);
        loop {
            let tick = (self.counted / PERIOD + 1) * PERIOD;
            if now < tick {
                self.add(rates, now - self.counted);
                return;
            }
            let is_whole = tick - self.counted == PERIOD;
            self.add(rates, tick - self.counted);
            if !self.close_period() && is_whole {
                // Another period with the same state changes no average, so no period before `now`
                // does.
                let span = (now - self.counted) / PERIOD * PERIOD;
                for (total, rate) in self.total.iter_mut().zip(rates) {
                    *total += u128::from(span) * u128::from(rate);
                }
                self.counted += span;
            }
        }
    }

    fn reading(&self) -> PressureReading {
        let stall = |kind: StallKind| Stall {
            averages: self.averages[kind as usize],
            total: Nanos::new(in_nanos(self.total[kind as usize])),
        };
        PressureReading { some: stall(StallKind::Some), full: stall(StallKind::Full) }
    }
}

/// Converts to nanoseconds, rounded to the nearest.
const fn in_nanos(stalled: u128) -> u64 {
    ((stalled + (1 << (FRACTION - 1))) >> FRACTION) as u64
}

impl Pressure {
    /// Returns an empty state. `cpus`: how many contexts can run at a time (at least 1); with one,
    /// a tenant is never partly stalled.
    pub const fn new(cpus: u32) -> Self {
        Self { cpus: if cpus == 0 { 1 } else { cpus }, groups: Vec::new() }
    }

    /// Changes the state of a context of this tenant. To move it to another tenant, change it to
    /// idle here and from idle there.
    pub fn on_change(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        from: ContextState,
        to: ContextState,
    ) {
        if from == to {
            return;
        }
        // A removed tenant keeps its place in the tree, so that its counts are subtracted on the
        // same path.
        for at in tenants.path(tenant).chain([ROOT]) {
            let index = at.index();
            if index >= self.groups.len() {
                self.groups.resize(index + 1, Group::default());
            }
            let group = &mut self.groups[index];
            group.advance(now.get(), self.cpus);
            match from {
                ContextState::Idle => {}
                ContextState::Runnable => group.runnable -= 1,
                ContextState::Blocked => group.blocked -= 1,
            }
            match to {
                ContextState::Idle => {}
                ContextState::Runnable => group.runnable += 1,
                ContextState::Blocked => group.blocked += 1,
            }
        }
    }

    /// Returns a tenant's `io.pressure`; the root's is that of the whole system.
    pub fn read(&self, now: Instant, tenant: TenantId) -> PressureReading {
        let mut group = self.groups.get(tenant.index()).copied().unwrap_or_default();
        group.advance(now.get(), self.cpus);
        group.reading()
    }
}

#[cfg(test)]
mod tests;
