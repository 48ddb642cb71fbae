//! Tunables: the names, units, ranges and defaults of sysfs, and a few that Linux does not have.

use super::Bfq;
use super::injection::Inject;
use super::queueing::Queueing;
use crate::jiffies::{Hz, to_ticks};
use crate::sched::tunable::{NATURAL, POSITIVE, requests_of_linux, row};
use crate::sched::{Reads, SchedulerInfo, TunableInfo};
use crate::units::Nanos;

const FLAG: (&str, i64, i64) = ("0..1", 0, 1);

const fn choice(
    name: &'static str,
    range: &'static str,
    choices: &'static [&'static str],
    default: usize,
    help: &'static str,
) -> TunableInfo {
    let max = choices.len() as i64 - 1;
    TunableInfo {
        name,
        unit: "choice",
        default: choices[default],
        range,
        min: 0,
        max,
        help,
        choices,
    }
}

/// The entry of `elevon schedulers`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "bfq",
    summary: "a queue per process, shares by weight, low latency for what looks interactive",
    reads: &[Reads::Process, Reads::Priority, Reads::Sync],
    in_linux: true,
    divides_as: Some("BFQ"),
    keeps_reserves: false,
    turns_wbt_off: true,
    first_requests: requests_of_linux,
    async_quarters: 3,
    // Measured on Linux 6.18.
    taken: |tunable| if tunable.choices.is_empty() { 0..=i64::MAX } else { tunable.values() },
    tunables: &[
        row(
            "back_seek_max",
            "KiB",
            "16384",
            NATURAL,
            "how far back a request may lie and still count as near",
        ),
        row(
            "back_seek_penalty",
            "factor",
            "2",
            POSITIVE,
            "how much longer a way back counts than a way ahead",
        ),
        row(
            "fifo_expire_async",
            "ms",
            "250",
            POSITIVE,
            "deadline of async requests, looked at once a slot",
        ),
        row(
            "fifo_expire_sync",
            "ms",
            "125",
            POSITIVE,
            "deadline of sync requests, looked at once a slot",
        ),
        choice(
            "hw_tag",
            "detect|no|yes",
            &["detect", "no", "yes"],
            0,
            "whether the device queues commands (Elevon's own)",
        ),
        choice(
            "inject",
            "off|seed|limit|fair",
            &["off", "seed", "limit", "fair"],
            2,
            "service of others while a queue is waited for: none, proposal 002, upstream, by weight (Elevon's own); all else is --kernel's",
        ),
        row(
            "inject_coeff",
            "tenths",
            "1",
            ("1..1000", 1, 1000),
            "with inject=seed, sectors of its own that a queue needs for ten of others (Elevon's own)",
        ),
        row(
            "low_latency",
            "boolean",
            "1",
            FLAG,
            "raise the weight of interactive and soft real-time queues",
        ),
        row(
            "max_budget",
            "sectors",
            "0",
            NATURAL,
            "largest budget; 0 follows the measured peak rate",
        ),
        row(
            "slice_idle",
            "ms",
            "8",
            NATURAL,
            "how long to wait for the next request of a queue; 0 never waits",
        ),
        row(
            "slice_idle_us",
            "us",
            "8000",
            ("0..4294967295", 0, u32::MAX as i64),
            "slice_idle, finer",
        ),
        row(
            "strict_guarantees",
            "boolean",
            "0",
            FLAG,
            "one request in the device at a time, and always wait",
        ),
        row(
            "timeout_sync",
            "ms",
            "125",
            POSITIVE,
            "longest slot of a queue; HZ/8 unless given, 124 ms at hz=250",
        ),
    ],
};

/// The values in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqSettings {
    /// For sync, index 1, and async, index 0.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) back_seek_max_kib: u64,
    pub(super) back_seek_penalty: u64,
    pub(super) slice_idle: Nanos,
    /// 0 for automatic.
    pub(super) max_budget: u64,
    /// Ticks.
    pub(super) timeout: i64,
    pub(super) strict: bool,
    pub(super) low_latency: bool,
    pub(super) inject: Inject,
    /// With `inject=seed`: tenths of a sector of own service that a queue needs for each sector
    /// that may be injected.
    pub(super) inject_coeff: u64,
}

impl BfqSettings {
    pub(super) fn new(hz: Hz) -> Self {
        Self {
            fifo_expire: [Nanos::from_millis(250), Nanos::from_millis(125)],
            back_seek_max_kib: 16384,
            back_seek_penalty: 2,
            slice_idle: Nanos::from_millis(8),
            max_budget: 0,
            timeout: (hz.0 / 8) as i64,
            strict: false,
            low_latency: true,
            inject: Inject::Limit,
            inject_coeff: 1,
        }
    }
}

impl Bfq {
    pub(in crate::sched) fn tunable(&self, name: &str) -> i64 {
        let s = &self.settings;
        let ms = |span: Nanos| span.as_millis() as i64;
        match name {
            "back_seek_max" => s.back_seek_max_kib as i64,
            "back_seek_penalty" => s.back_seek_penalty as i64,
            "fifo_expire_async" => ms(s.fifo_expire[0]),
            "fifo_expire_sync" => ms(s.fifo_expire[1]),
            "hw_tag" => self.device.queueing_preset.map_or(0, |yes| 1 + i64::from(yes)),
            "inject" => s.inject as i64,
            "inject_coeff" => s.inject_coeff as i64,
            "low_latency" => s.low_latency.into(),
            "max_budget" => s.max_budget as i64,
            "slice_idle" => ms(s.slice_idle),
            "slice_idle_us" => s.slice_idle.as_micros() as i64,
            "strict_guarantees" => s.strict.into(),
            "timeout_sync" => s.timeout * 1000 / self.hz.0 as i64,
            other => unreachable!("{other} is not in the table"),
        }
    }

    /// Sets a tunable. The value must be in the range that [`INFO`] gives.
    pub(in crate::sched) fn set_tunable(&mut self, name: &str, value: i64) {
        let s = &mut self.settings;
        let natural = value as u64;
        match name {
            "back_seek_max" => s.back_seek_max_kib = natural,
            "back_seek_penalty" => s.back_seek_penalty = natural,
            "fifo_expire_async" => s.fifo_expire[0] = Nanos::from_millis(natural),
            "fifo_expire_sync" => s.fifo_expire[1] = Nanos::from_millis(natural),
            "hw_tag" => {
                self.device.queueing_preset = [None, Some(false), Some(true)][value as usize];
                self.device.queueing = Queueing::new(self.device.queueing_preset);
                self.update_queueing_flash();
            }
            "inject" => s.inject = Inject::ALL[value as usize],
            "inject_coeff" => s.inject_coeff = natural,
            "low_latency" => {
                s.low_latency = value != 0;
                if value == 0 {
                    self.end_all_raising();
                }
            }
            "max_budget" => {
                s.max_budget = natural;
                self.update_max_budget();
            }
            "slice_idle" => s.slice_idle = Nanos::from_millis(natural),
            "slice_idle_us" => s.slice_idle = Nanos::from_micros(natural),
            "strict_guarantees" => {
                s.strict = value != 0;
                if s.strict {
                    s.slice_idle = s.slice_idle.max(Nanos::from_millis(8));
                }
            }
            "timeout_sync" => {
                s.timeout = to_ticks(value, self.hz);
                self.update_max_budget();
            }
            other => unreachable!("{other} is not in the table"),
        }
    }
}
