//! Checks the published rows, and compares the lazy updates with a model that examines every
//! context all the time.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::ContextState::{Blocked, Idle, Runnable};
use super::*;
use crate::sched::testing::Rng;

const SECOND: u64 = 1_000_000_000;

fn at(ms: u64) -> Instant {
    Instant::new(ms * 1_000_000)
}

/// Returns the averages of `some` if the root's only context is blocked during each of these spans
/// of ms.
fn averages(spans: &[(u64, u64)], read_ms: u64) -> [u32; 3] {
    let (mut pressure, tenants) = (Pressure::new(1), Tenants::new());
    for &(from, to) in spans {
        pressure.on_change(at(from), &tenants, ROOT, Idle, Blocked);
        pressure.on_change(at(to), &tenants, ROOT, Blocked, Idle);
    }
    let some = pressure.read(at(read_ms), ROOT).some;
    [0, 1, 2].map(|window| some.average(window))
}

#[test]
fn fully_stalled_from_zero() {
    for (seconds, expected) in [
        (2, [1811, 327, 68]),
        (4, [3294, 643, 136]),
        (10, [6318, 1532, 337]),
        (20, [8644, 2829, 663]),
        (60, [9975, 6313, 1860]),
        (300, [10000, 9932, 6428]),
    ] {
        assert_eq!(averages(&[(0, seconds * 1000)], seconds * 1000), expected, "{seconds} s");
    }
}

#[test]
fn a_stall_decays_and_a_quarter_counts_a_quarter() {
    assert_eq!(averages(&[(0, 2000)], 12_000), [666, 276, 65]);
    let quarters: Vec<(u64, u64)> = (0..5).map(|at| (at * 2000, at * 2000 + 500)).collect();
    assert_eq!(averages(&quarters, 10_000), [1579, 383, 84]);
}

#[test]
fn the_text_is_the_kernels() {
    let (mut pressure, tenants) = (Pressure::new(1), Tenants::new());
    pressure.on_change(at(0), &tenants, ROOT, Idle, Blocked);
    let text = "avg10=63.18 avg60=15.32 avg300=3.37 total=10000000";
    assert_eq!(
        pressure.read(at(10_000), ROOT).to_string(),
        alloc::format!("some {text}\nfull {text}")
    );
    let nothing = "avg10=0.00 avg60=0.00 avg300=0.00 total=0";
    let unknown = pressure.read(at(10_000), TenantId(7)).to_string();
    assert_eq!(unknown, alloc::format!("some {nothing}\nfull {nothing}"));
}

#[test]
fn full_needs_that_nobody_can_run() {
    let (mut pressure, mut tenants) = (Pressure::new(1), Tenants::new());
    let top = tenants.add(ROOT).unwrap();
    let (left, right) = (tenants.add(top).unwrap(), tenants.add(top).unwrap());
    pressure.on_change(at(0), &tenants, left, Idle, Blocked);
    pressure.on_change(at(0), &tenants, right, Idle, Runnable);
    pressure.on_change(at(1000), &tenants, right, Runnable, Blocked);
    pressure.on_change(at(1500), &tenants, left, Blocked, Runnable);
    tenants.remove(right).unwrap();
    pressure.on_change(at(1750), &tenants, right, Blocked, Idle);
    let totals = |tenant| {
        let reading = pressure.read(at(3000), tenant);
        [reading.some, reading.full].map(|stall| stall.total.as_millis())
    };
    assert_eq!(totals(left), [1500, 1500]);
    assert_eq!(totals(right), [750, 750]);
    assert_eq!([top, ROOT].map(totals), [[1750, 500]; 2]);
}

#[test]
fn several_cpus_are_stalled_in_part() {
    let tenants = Tenants::new();
    for (cpus, runnable, blocked, some, full) in [
        (4, 1, 1, 500, 500),
        (4, 1, 3, 750, 750),
        (2, 1, 3, 1000, 500),
        (2, 2, 1, 500, 0),
        (3, 2, 1, 333, 333),
        (1, 1, 9, 1000, 0),
    ] {
        let mut pressure = Pressure::new(cpus);
        for _ in 0..runnable {
            pressure.on_change(at(0), &tenants, ROOT, Idle, Runnable);
        }
        for _ in 0..blocked {
            pressure.on_change(at(0), &tenants, ROOT, Idle, Blocked);
        }
        let reading = pressure.read(at(1000), ROOT);
        let totals = [reading.some, reading.full].map(|stall| stall.total.as_millis());
        assert_eq!(totals, [some, full], "{runnable} runnable and {blocked} blocked on {cpus}");
    }
}

#[test]
fn years_without_a_change_are_counted_at_once() {
    let (mut pressure, tenants) = (Pressure::new(1), Tenants::new());
    pressure.on_change(at(0), &tenants, ROOT, Idle, Blocked);
    let years = 100 * 365 * 86_400 * SECOND;
    let reading = pressure.read(Instant::new(years + 5), ROOT);
    assert_eq!((reading.some.average(2), reading.some.total.get()), (10_000, years + 5));
    pressure.on_change(Instant::new(years), &tenants, ROOT, Blocked, Idle);
    let later = pressure.read(Instant::new(2 * years), ROOT);
    assert_eq!((later.full.average(2), later.full.total.get()), (0, years));
}

/// Examines all contexts in every millisecond, and updates the averages every two seconds.
struct Naive {
    cpus: usize,
    stalled_ms: [u64; 2],
    recent_ms: [u64; 2],
    averages: [[u32; 3]; 2],
}

impl Naive {
    /// Only used with one CPU: with more, the milliseconds could not be divided equally among the
    /// threads.
    fn step(&mut self, ms: u64, states: &[ContextState]) {
        assert_eq!(self.cpus, 1);
        let count = |state| states.iter().filter(|&&at| at == state).count();
        let some = count(Blocked) > 0;
        for (kind, is_stalled) in [some, some && count(Runnable) == 0].into_iter().enumerate() {
            self.stalled_ms[kind] += u64::from(is_stalled);
            self.recent_ms[kind] += u64::from(is_stalled);
            if (ms + 1).is_multiple_of(2000) {
                let percent = core::mem::take(&mut self.recent_ms[kind]) * 100 / 2000;
                for (average, decay) in self.averages[kind].iter_mut().zip([1677u64, 1981, 2034]) {
                    let (old, new) = (u64::from(*average), percent * 2048);
                    let sum = old * decay + new * (2048 - decay);
                    *average = if new >= old { sum.div_ceil(2048) } else { sum / 2048 } as u32;
                }
            }
        }
    }
}

#[test]
fn lazy_folds_are_those_of_one_who_always_looks() {
    for seed in 0..2 {
        let mut rng = Rng(seed);
        let mut tenants = Tenants::new();
        for _ in 0..6 {
            tenants.add(TenantId(rng.below(tenants.ids() as u64) as u32)).unwrap();
        }
        let ids: Vec<TenantId> = (0..tenants.ids() as u32).map(TenantId).collect();
        let owners: Vec<TenantId> = (0..8).map(|_| rng.pick(&ids)).collect();
        let mut states = [Idle; 8];
        let mut pressure = Pressure::new(1);
        let mut naive: Vec<Naive> = ids
            .iter()
            .map(|_| Naive {
                cpus: 1,
                stalled_ms: [0; 2],
                recent_ms: [0; 2],
                averages: [[0; 3]; 2],
            })
            .collect();
        for ms in 0..40_000u64 {
            // The contexts are busy for some seconds, then almost idle.
            if rng.one_in(if ms / 7000 % 2 == 0 { 40 } else { 3000 }) {
                let context = rng.below(8) as usize;
                let to = rng.pick(&[Idle, Runnable, Blocked, Blocked]);
                pressure.on_change(at(ms), &tenants, owners[context], states[context], to);
                states[context] = to;
            }
            for (&tenant, naive) in ids.iter().zip(&mut naive) {
                let counts = |owner| tenant == ROOT || tenants.is_below(owner, tenant);
                let mine: Vec<_> = owners
                    .iter()
                    .zip(states)
                    .filter(|(owner, _)| counts(**owner))
                    .map(|at| at.1)
                    .collect();
                naive.step(ms, &mine);
                if ms % 777 == 0 || ms % 2000 == 1999 {
                    let reading = pressure.read(at(ms + 1), tenant);
                    for (kind, stall) in [reading.some, reading.full].iter().enumerate() {
                        assert_eq!(stall.averages, naive.averages[kind], "{tenant:?} at {ms} ms");
                        assert_eq!(stall.total, Nanos::from_millis(naive.stalled_ms[kind]));
                    }
                }
            }
        }
    }
}
