//! `--cpu-cost`: CPU time of the parts of an I/O in simulation.

use elevon_core::sched::SchedulerConfig;
use elevon_core::units::Nanos;
use elevon_formats::quantity;
use elevon_workload::buffered::CacheCost;
use elevon_workload::cpu::{CpuCost, SchedulerCost};

use crate::failure::{Failure, ValueError};

/// Default CPU time of the page cache. Measured on the same machine: on ext4 a cached read of 4 KiB
/// takes 1.1 us, one of 128 KiB 0.5 us per page. On tmpfs a store that faults, of one page, takes
/// 1.4 us. A read fault that maps sixteen pages took 4.5 us; here it counts as one fault.
const DEFAULT_CACHE_COST: CacheCost =
    CacheCost { call: Nanos::new(600), hit: Nanos::new(500), fault: Nanos::new(1_400), bio: None };

/// What the parts of the text have to be.
const KEYS: &str = "submit=TIME, complete=TIME, scheduler=TIME, lock=TIME, call=TIME, hit=TIME, fault=TIME, \
                    wake=TIME..TIME, tag_wake=TIME..TIME, wakes=by-process, wake_step=TIME, worker=TIME..TIME or preempt=SHARE, such as submit=4us";
/// What a time has to be, and the two times of `wake=`.
const TIME: &str = "a time with its unit (ns, us, ms, s), such as 4us";
const ONE_TIME_OR_TWO: &str = "a time with its unit (ns, us, ms, s), or two, such as 5us..20us";

/// Parses `submit=T,complete=T,...`, each time with its unit. A part that is missing has its
/// default; the default of `scheduler=` and `lock=` depends on the scheduler. The lock is never
/// held longer than the scheduler's CPU time.
pub(crate) fn cpu_cost(
    text: Option<&str>,
    scheduler: &SchedulerConfig,
) -> Result<(CpuCost, CacheCost), Failure> {
    let low_latency =
        scheduler.tunables.iter().all(|(name, value)| *name != "low_latency" || *value != 0);
    let of_scheduler = SchedulerCost::measured(scheduler.name, low_latency);
    let mut cost = CpuCost { scheduler: of_scheduler, ..CpuCost::DEFAULT };
    let mut of_cache = DEFAULT_CACHE_COST;
    let Some(text) = text else { return Ok((cost, of_cache)) };
    let mut lock = None;
    let mut keys: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let bad = |error: ValueError| Failure::named(format!("--cpu-cost {text}: {part}"), error);
        let (key, value) = part.split_once('=').ok_or_else(|| bad(ValueError::expected(KEYS)))?;
        if keys.contains(&key) {
            let twice = ValueError::GivenTwice { key: key.to_owned() };
            return Err(Failure::named(format!("--cpu-cost {text}"), twice));
        }
        keys.push(key);
        let time = || quantity::time(value).map_err(|_| bad(ValueError::expected(TIME)));
        match key {
            "submit" => cost.submit = time()?,
            "complete" => cost.complete = time()?,
            "scheduler" => cost.scheduler.request = time()?,
            "lock" => lock = Some((part, time()?)),
            "call" => of_cache.call = time()?,
            "hit" => of_cache.hit = time()?,
            "fault" => of_cache.fault = time()?,
            "wake" => cost.wakes = wakes(value).map_err(bad)?,
            "wakes" if value == "by-process" => cost.wakes_by_process = true,
            "wake_step" => cost.wake_step = time()?,
            "tag_wake" => cost.tag_wakes = Some(wakes(value).map_err(bad)?),
            "worker" => cost.workers = Some(wakes(value).map_err(bad)?),
            "preempt" => cost.preempted = preempted(value).map_err(bad)?,
            _ => return Err(bad(ValueError::expected(KEYS))),
        }
    }
    let most = cost.scheduler.request;
    match lock {
        _ if scheduler.is_none() => cost.scheduler = SchedulerCost::default(),
        Some((part, time)) if time > most => {
            return Err(Failure::named(
                format!("--cpu-cost {text}: {part}"),
                ValueError::LockTooLong { work: most },
            ));
        }
        Some((_, time)) => cost.scheduler.locked = time,
        None => cost.scheduler.locked = cost.scheduler.locked.min(most),
    }
    Ok((cost, of_cache))
}

/// Parses `TIME..TIME`, or one time for both.
fn wakes(text: &str) -> Result<(Nanos, Nanos), ValueError> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let time = |text| quantity::time(text).map_err(|_| ValueError::expected(ONE_TIME_OR_TWO));
    let (least, most) = (time(least)?, time(most)?);
    if least <= most { Ok((least, most)) } else { Err(ValueError::FirstIsLater) }
}

/// Parses a share of at most 100 %, in parts in a million.
fn preempted(text: &str) -> Result<u64, ValueError> {
    let share = quantity::share(text).ok().filter(|&ppm| ppm <= 1_000_000);
    share.ok_or_else(|| ValueError::expected("a share from 0% to 100%"))
}
