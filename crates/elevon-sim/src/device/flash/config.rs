//! Parameters of a flash device, and values derived from them.

use super::super::parameter::{Parameter, SWITCH, ns_per_byte_q32, parameters, scale_q32};
use super::super::service::DISTRIBUTIONS;

/// Parameters of a flash device, in the base units of [`PARAMETERS`], which describes each one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PARAMETERS holds the meaning, unit and range of every field")]
pub struct FlashConfig {
    pub size: u64,
    pub hw_queues: u64,
    pub queue_depth: u64,
    pub at_once: u64,
    pub fixed_latency: u64,
    pub write_latency: u64,
    pub command_on_link: u64,
    pub command_base: u64,
    pub read_command_cost: u64,
    pub write_command_cost: u64,
    pub command_size: u64,
    pub duplex: u64,
    pub read_link: u64,
    pub write_link: u64,
    pub read_rate: u64,
    pub dies: u64,
    pub unit: u64,
    pub read_time: u64,
    pub distribution: u64,
    pub jitter: u64,
    pub page_register: u64,
    pub map_miss: u64,
    pub stall_share: u64,
    pub stall_time: u64,
    pub buffer: u64,
    pub write_rate: u64,
    pub slc_rate: u64,
    pub slc_size: u64,
    pub scatter_cost: u64,
    pub program_time: u64,
    pub program_unit: u64,
    pub erase_time: u64,
    pub erase_block: u64,
    pub overprovision: u64,
    pub gc_slice: u64,
    pub power_loss_protection: u64,
    pub flush_time: u64,
    pub discard_time: u64,
}

impl Default for FlashConfig {
    /// Returns a small generic NVMe drive; every profile overrides the values that it knows.
    fn default() -> Self {
        Self {
            size: 1_000_000_000_000,
            hw_queues: 1,
            queue_depth: 31,
            at_once: 0,
            fixed_latency: 8_000,
            write_latency: 15_000,
            command_on_link: 0,
            command_base: 0,
            read_command_cost: 1_000,
            write_command_cost: 1_000,
            command_size: 0,
            duplex: 1,
            read_link: 3_400_000_000,
            write_link: 3_400_000_000,
            read_rate: 0,
            dies: 32,
            unit: 32 << 10,
            read_time: 60_000,
            distribution: 1,
            jitter: 250_000,
            page_register: 0,
            map_miss: 0,
            stall_share: 10,
            stall_time: 2_500_000,
            buffer: 64 << 20,
            write_rate: 1_500_000_000,
            slc_rate: 0,
            slc_size: 0,
            scatter_cost: 0,
            program_time: 500_000,
            program_unit: 32 << 10,
            erase_time: 3_000_000,
            erase_block: 4 << 20,
            overprovision: 0,
            gc_slice: 3_000_000,
            power_loss_protection: 0,
            flush_time: 1_000_000,
            discard_time: 20_000,
        }
    }
}

const HOUR: u64 = 3_600_000_000_000;
const TIME: (u64, u64) = (0, 60_000_000_000);
const RATE: (u64, u64) = (1_000_000, 1_000_000_000_000);
const SHARE: (u64, u64) = (0, 1_000_000);

/// The parameters of [`FlashConfig`].
pub const PARAMETERS: &[Parameter<FlashConfig>] = parameters! {
    size Size in (1 << 20, 1 << 50), "capacity";
    hw_queues Count in (1, 1024), "hardware queues; a kernel uses as many as it has CPUs, so the NVMe profiles have 2";
    queue_depth Count in (1, 65535), "commands that each hardware queue holds";
    at_once Count in (0, 65535), "commands that the device does at once, if fewer: the driver takes one more, which it prepares, and is busy then; 0: all that are held";
    fixed_latency Time in TIME, "host interface, interrupt and completion of a read; occupies nothing";
    write_latency Time in TIME, "the same for a write, a flush or a discard";
    command_on_link Switch in SWITCH, "1: the cost of a command holds the link (SATA, UFS); 0: a command stage before it (NVMe)";
    command_base Time in TIME, "cost of a command of no size; grows evenly to the full cost at command_size";
    read_command_cost Time in TIME, "full cost of a read command";
    write_command_cost Time in TIME, "full cost of a write command";
    command_size Size in (0, 1 << 30), "size from which a command costs the full cost; 0: every command does";
    duplex Switch in SWITCH, "1: reads and writes have a link each; 0: they share one (SATA, eMMC)";
    read_link Rate in RATE, "rate of the link to the host";
    write_link Rate in RATE, "rate of the link from the host";
    read_rate Rate in (0, 1_000_000_000_000), "what the controller reads at most, where that is below the link; 0 for no such cap";
    dies Count in (1, 4096), "units that work in parallel: an effective number, never a teardown count";
    unit Size in (512, 1 << 24), "bytes that one die access gives, a power of two; a larger read uses the dies after it too";
    read_time Time in (1, HOUR), "mean time of a die access";
    distribution Choice(DISTRIBUTIONS) in (0, 2), "its spread: none, even within the jitter, or exponential (for comparison with queueing theory)";
    jitter Share in SHARE, "half width of the even spread";
    page_register Switch in SWITCH, "1: a die keeps the unit it read last, and reading from it again takes no die access";
    map_miss Share in SHARE, "share of reads whose mapping is not cached and that pay one more die access";
    stall_share Share in SHARE, "share of reads that meet housekeeping on their die";
    stall_time Time in TIME, "how long that takes";
    buffer Size in (4096, 1 << 40), "write buffer; a write completes when its data is in it";
    write_rate Rate in RATE, "rate at which the buffer drains to the dies";
    slc_rate Rate in (0, 1_000_000_000_000), "the same while SLC blocks are left; 0 for no SLC cache";
    slc_size Size in (0, 1 << 50), "bytes of SLC cache; refills at write_rate when no write waits";
    scatter_cost Time in TIME, "drain time that a write adds if it goes on where none of the last 256 writes ended (mapping, partial pages)";
    program_time Time in TIME, "time of a program on a die; a read that comes meanwhile waits";
    program_unit Size in (512, 1 << 24), "bytes that one program takes";
    erase_time Time in TIME, "time of an erase";
    erase_block Size in (1 << 16, 1 << 32), "bytes of an erase block on a die";
    overprovision Share in SHARE, "spare capacity of a drive in steady state under random writes; 0: a fresh or trimmed drive, no valid page is ever moved";
    gc_slice Time in (1, HOUR), "piece in which a die pays what it owes to garbage collection, give or take half";
    power_loss_protection Switch in SWITCH, "1: no volatile cache; flush and FUA mean nothing";
    flush_time Time in TIME, "cost of a flush beyond draining the buffer";
    discard_time Time in TIME, "cost of a discard or of writing zeroes, whatever the size";
};

/// A cost of `base + slope * min(bytes, size) + bytes / rate` nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    base: u64,
    slope_q32: u64,
    size: u64,
    ns_per_byte_q32: u64,
}

impl Cost {
    /// A command's cost: `base` at no bytes, `full` from `size` on. A transfer is at `rate`, 0 for
    /// none.
    pub(crate) fn new(base: u64, full: u64, size: u64, rate: u64) -> Self {
        let ns_per_byte_q32 = ns_per_byte_q32(rate);
        if size == 0 {
            return Self { base: full, slope_q32: 0, size: 0, ns_per_byte_q32 };
        }
        let base = base.min(full);
        let slope_q32 = ((u128::from(full - base) << 32) / u128::from(size)) as u64;
        Self { base, slope_q32, size, ns_per_byte_q32 }
    }

    /// Returns nanoseconds for `bytes`.
    #[inline]
    pub(crate) fn of(&self, bytes: u64) -> u64 {
        let mut cost = self.base;
        if self.slope_q32 != 0 {
            cost += scale_q32(bytes.min(self.size), self.slope_q32);
        }
        if self.ns_per_byte_q32 != 0 {
            cost += scale_q32(bytes, self.ns_per_byte_q32);
        }
        cost
    }
}

impl FlashConfig {
    /// Returns how many commands the device does at once.
    pub(crate) fn most_at_once(&self) -> u64 {
        let held = self.hw_queues * self.queue_depth;
        if self.at_once == 0 { held } else { held.min(self.at_once) }
    }

    /// Returns the write amplification of uniform random overwriting at this over-provisioning: `(1
    /// + rho) / (2 rho)`, the standard approximation; 1 for a fresh drive.
    pub(crate) fn write_amplification(&self) -> f64 {
        let rho = self.overprovision as f64 / 1e6;
        if rho == 0.0 { 1.0 } else { ((1.0 + rho) / (2.0 * rho)).max(1.0) }
    }

    /// Returns the garbage collection time that a die owes per byte programmed, in nanoseconds with
    /// 32 fractional bits: for a scattered write in steady state, and for a sequential one, which
    /// leaves whole blocks to erase.
    ///
    /// A victim block has a share `u = 1 - 1/WA` of valid pages: collecting it costs `u * pages *
    /// (t_R + t_P) + t_E` and frees `(1 - u) * block`.
    pub(crate) fn collection_debt_q32(&self) -> (u64, u64) {
        let block = self.erase_block as f64;
        let valid = 1.0 - 1.0 / self.write_amplification();
        let pages = block / self.program_unit as f64;
        let collect =
            valid * pages * (self.read_time + self.program_time) as f64 + self.erase_time as f64;
        let q32 = |ns: f64| (ns * 4_294_967_296.0) as u64;
        (q32(collect / ((1.0 - valid) * block)), q32(self.erase_time as f64 / block))
    }

    /// Returns the cost of a read or write on the command stage and on the link, in this order.
    pub(crate) fn costs(&self, write: bool) -> (Cost, Cost) {
        let (full, rate) = if write {
            (self.write_command_cost, self.write_link)
        } else {
            (self.read_command_cost, self.read_link)
        };
        if self.command_on_link == 1 {
            (Cost::new(0, 0, 0, 0), Cost::new(self.command_base, full, self.command_size, rate))
        } else {
            (Cost::new(self.command_base, full, self.command_size, 0), Cost::new(0, 0, 0, rate))
        }
    }
}
