//! Tunables of `aileron`: few, because what the device can do is found while running.

use super::Aileron;
use super::depth::MAX_DEPTH;
use crate::sched::{Reads, SchedulerInfo, TunableInfo};
use crate::units::Nanos;

/// The entry of `elevon schedulers`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "aileron",
    summary: "shares by weight at full throughput: requests in flight bounded to what the device can use (Elevon's own)",
    reads: &[Reads::Process, Reads::Priority],
    in_linux: false,
    divides_as: Some("aileron"),
    keeps_reserves: true,
    turns_wbt_off: true,
    // Tasks wait for tags in the order of arrival, which ignores weights: few are to wait.
    first_requests: |_| 1024,
    async_quarters: 4,
    taken: TunableInfo::values,
    tunables: &[
        TunableInfo {
            name: "class_expire",
            unit: "ms",
            default: "250",
            range: "1..60000",
            min: 1,
            max: 60_000,
            help: "how long a lower class may wait before one of its requests goes",
            choices: &[],
        },
        TunableInfo {
            name: "depth",
            unit: "requests",
            default: "0",
            range: "0..16384",
            min: 0,
            max: MAX_DEPTH as i64,
            help: "requests in flight; 0 finds what the device can use",
            choices: &[],
        },
        TunableInfo {
            name: "prefer",
            unit: "choice",
            default: "throughput",
            range: "throughput|shares",
            min: 0,
            max: 1,
            help: "shares: a smaller depth is taken also if it costs throughput, since what waits in the device cannot be ordered",
            choices: &["throughput", "shares"],
        },
        TunableInfo {
            name: "turn_ms",
            unit: "ms",
            default: "200",
            range: "0..10000",
            min: 0,
            max: 10_000,
            help: "how long a process keeps a disk from the others, a third of it if it seeks; 0 never",
            choices: &[],
        },
    ],
};

/// The values in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Requests in flight; 0 if the depth is found.
    pub(super) depth: u32,
    pub(super) class_expire: Nanos,
    pub(super) turn: Nanos,
    pub(super) prefers_shares: bool,
}

impl Settings {
    pub(super) const DEFAULT: Self = Self {
        depth: 0,
        class_expire: Nanos::from_millis(250),
        turn: Nanos::from_millis(200),
        prefers_shares: false,
    };
}

impl Aileron {
    pub(in crate::sched) fn tunable(&self, name: &str) -> i64 {
        match name {
            "class_expire" => self.settings.class_expire.as_millis() as i64,
            "depth" => self.settings.depth.into(),
            "prefer" => self.settings.prefers_shares.into(),
            "turn_ms" => self.settings.turn.as_millis() as i64,
            other => unreachable!("{other} is not in the table"),
        }
    }

    /// Sets a tunable. The value must be in the range that [`INFO`] gives.
    pub(in crate::sched) fn set_tunable(&mut self, name: &str, value: i64) {
        match name {
            "class_expire" => {
                self.settings.class_expire = Nanos::from_millis(value as u64);
                self.shares.patience = self.settings.class_expire;
            }
            "depth" => self.settings.depth = value as u32,
            "prefer" => self.settings.prefers_shares = value == 1,
            "turn_ms" => {
                self.settings.turn = Nanos::from_millis(value as u64);
                self.renew_turn();
            }
            other => unreachable!("{other} is not in the table"),
        }
    }
}
