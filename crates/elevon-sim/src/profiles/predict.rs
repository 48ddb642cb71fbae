//! The performance that follows from a profile's parameters by formulas, for comparison with its
//! model.
//!
//! Random reads come from mean value analysis, which is exact for exponential service, FIFO order
//! and random dies: `R = t_R (1 + Q/M)`, `X = n / (Z + R)`, `Q = X R` for n = 1 to the depth, with
//! `Z` everything that does not queue, limited by the throughput of command stage and link. Real
//! dies have near-constant service: the model is then 0 to 16 % higher.

use elevon_core::op::Op;
use elevon_core::units::{Bytes, Sectors};

use super::{Base, DeviceError, Profile, Published};
use crate::device::closed_loop::{ClosedLoop, Measured, Order, closed_loop};
use crate::device::{Device, FlashConfig, HddParameters, Lun};

/// A closed loop on a bare device: a fixed number of requests of one kind in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Whether it writes; otherwise it reads.
    pub write: bool,
    /// Whether access is random; otherwise sequential.
    pub random: bool,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
}

/// The quantity of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Requests a second.
    Iops,
    /// 10^6 bytes a second.
    MegabytesPerSecond,
}

impl Quantity {
    /// Returns its unit in words.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MegabytesPerSecond => "MB/s",
        }
    }
}

/// A computed figure, with the published one if there is one.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Description of the workload.
    pub what: String,
    /// The workload, for [`measure`].
    pub workload: Workload,
    /// The quantity.
    pub quantity: Quantity,
    /// The figure computed from the parameters.
    pub closed_form: f64,
    /// The figure of the real device.
    pub published: Option<Published>,
}

/// Request sizes of the sequential figures.
const SIZES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20];

/// Returns every figure that follows from a profile's parameters. Empty if its model has no closed
/// form here.
///
/// # Errors
/// The profile's own settings are not valid.
pub fn predictions(profile: &Profile) -> Result<Vec<Prediction>, DeviceError> {
    predictions_with(profile, "")
}

/// As [`predictions`]; `settings` override the profile's own. The published figures are still those
/// of the profile's device.
///
/// # Errors
/// Settings are not valid for the profile.
pub fn predictions_with(profile: &Profile, settings: &str) -> Result<Vec<Prediction>, DeviceError> {
    let mut all = Vec::new();
    let most = most_in_flight(profile, settings)?;
    let mut add = |workload: Workload, closed_form: f64| {
        let quantity = if workload.random { Quantity::Iops } else { Quantity::MegabytesPerSecond };
        let published = profile.published.iter().find(|p| matches(p, workload, most)).copied();
        all.push(Prediction {
            what: describe(workload),
            workload,
            quantity,
            closed_form,
            published,
        });
    };
    if let Some(config) = profile.flash_config(settings)? {
        for workload in flash_workloads(&config, profile.published) {
            add(workload, flash_closed_form(&config, workload));
        }
    }
    if let Some(limit) = profile.lun_config(settings)?.and_then(|config| Lun::limit(&config)) {
        add(Workload { write: false, random: true, bytes: 64 << 10, depth: 120 }, limit);
    }
    if let Some(disk) = profile.disk_parameters(settings)? {
        for depth in [1, 2, 4, 8, 16, 31] {
            add(
                Workload { write: false, random: true, bytes: 4096, depth },
                disk_random_read(&disk, depth),
            );
        }
        for bytes in SIZES {
            // The drive reads ahead at media rate; a command takes the time of the cache and the
            // link.
            let hit = disk.overhead_hit.get() as f64 + bytes as f64 * 1e9 / disk.link.get() as f64;
            let rate = (bytes as f64 * 1e3 / hit).min(disk.outer_rate.get() as f64 / 1e6);
            add(Workload { write: false, random: false, bytes, depth: 1 }, rate);
        }
    }
    Ok(all)
}

/// Computes random reads of a disk: `E[access] = ov + margin + E[seek] + T_rev/2 + s/rate` over the
/// whole stroke, and `IOPS(q) = IOPS(1) q^0.229` for a drive that takes the shortest positioning
/// time first (0.22 with a margin): a fit to simulations, within 1.5 %.
fn disk_random_read(disk: &HddParameters, depth: u32) -> f64 {
    let turn = 60e9 / f64::from(disk.rpm);
    let ratio = disk.inner_permille as f64 / 1000.0;
    let k = 1.0 - ratio;
    // The density is higher at the outside: a place at stroke x has a weight of 1 - k x.
    const STEPS: u32 = 200;
    let place = |i: u32| (f64::from(i) + 0.5) / f64::from(STEPS);
    let (mut seek, mut total) = (0.0, 0.0);
    for x in (0..STEPS).map(place) {
        for y in (0..STEPS).map(place) {
            let weight = (1.0 - k * x) * (1.0 - k * y);
            let distance: f64 = (x - y).abs();
            let time = if distance <= f64::from(disk.seek.split_permille as u32) / 1000.0 {
                disk.seek.base.get() as f64 + disk.seek.root.get() as f64 * distance.sqrt()
            } else {
                disk.seek.far_base.get() as f64 + disk.seek.far_slope.get() as f64 * distance
            };
            seek += weight * time;
            total += weight;
        }
    }
    let transfer = 4096.0 * 1e9 / (disk.outer_rate.get() as f64 * (1.0 - k / 2.0));
    let access =
        (disk.overhead_miss + disk.margin).get() as f64 + seek / total + turn / 2.0 + transfer;
    let exponent = match (disk.sptf, disk.margin.is_zero()) {
        (true, true) => 0.229,
        (true, false) => 0.22,
        (false, _) => 0.0,
    };
    1e9 / access * libm::pow(f64::from(depth), exponent)
}

/// Returns how many requests a profile's device does at once.
fn most_in_flight(profile: &Profile, settings: &str) -> Result<u32, DeviceError> {
    if let Some(config) = profile.flash_config(settings)? {
        return Ok(config.most_at_once() as u32);
    }
    let device = profile.open(settings, 1)?;
    let description = device.description();
    Ok(u32::from(description.hw_queues) * description.queue_depth)
}

fn matches(published: &Published, workload: Workload, most: u32) -> bool {
    (published.write, published.random, published.bytes, published.depth.min(most))
        == (workload.write, workload.random, workload.bytes, workload.depth)
}

fn describe(workload: Workload) -> String {
    let order = if workload.random { "random" } else { "sequential" };
    let op = if workload.write { "write" } else { "read" };
    format!("{order} {op} {} KiB, depth {}", workload.bytes >> 10, workload.depth)
}

/// Returns the rows of the tables by depth and by request size, and those with a published figure.
fn flash_workloads(config: &FlashConfig, published: &[Published]) -> Vec<Workload> {
    let most = config.most_at_once().min(256) as u32;
    let depths = [1, 4, 5, 8, 16, 31, 32, 128, 256].into_iter().filter(|d| *d <= most);
    let random = depths.map(|depth| Workload { write: false, random: true, bytes: 4096, depth });
    let depth = if config.page_register == 1 { 16 } else { 1 };
    let sequential =
        SIZES.iter().map(|&bytes| Workload { write: false, random: false, bytes, depth });
    let mut all: Vec<_> = random.chain(sequential).collect();
    for p in published {
        let depth = p.depth.min(most);
        let workload = Workload { write: p.write, random: p.random, bytes: p.bytes, depth };
        if !all.contains(&workload) {
            all.push(workload);
        }
    }
    all
}

/// Mean value analysis. Returns the throughput per nanosecond of `depth` customers with `dies`
/// exponential servers of mean `service`, chosen uniformly, and a delay `think`.
pub(crate) fn mean_value_analysis(depth: u32, dies: f64, service: f64, think: f64) -> f64 {
    let (mut queue, mut throughput) = (0.0, 0.0);
    for n in 1..=depth {
        let response = service * (1.0 + queue / dies);
        throughput = f64::from(n) / (think + response);
        queue = throughput * response;
    }
    throughput
}

/// Returns the figure computed from the parameters, in the quantity of the workload.
fn flash_closed_form(config: &FlashConfig, workload: Workload) -> f64 {
    let bytes = workload.bytes;
    let (command, link) = config.costs(workload.write);
    let (command, link) = (command.of(bytes) as f64, link.of(bytes) as f64);
    let rate_cap =
        |rate: u64| if rate == 0 { f64::INFINITY } else { rate as f64 / 1e9 / bytes as f64 };
    let depth = f64::from(workload.depth);
    let stage_cap = (1.0f64 / command.max(1.0)).min(1.0 / link.max(1.0));
    let per_ns: f64 = if workload.write {
        // Buffered writes: the drain rate determines the long run.
        let latency = command + link + config.write_latency as f64;
        stage_cap.min(depth / latency).min(drain_per_ns(config, workload))
    } else {
        let read = config.read_time as f64;
        let other = config.fixed_latency as f64 + command + link;
        let dies = config.dies as f64;
        let dies_cap = if workload.random {
            mean_value_analysis(workload.depth, dies, read, other)
        } else {
            depth / (other + read)
        };
        // Large sequential requests keep every die busy; small ones only as many dies as the
        // requests in flight cover.
        let sequence_cap = if workload.random {
            f64::INFINITY
        } else {
            dies * config.unit as f64 / read / bytes as f64
        };
        let dies_cap =
            if workload.random || workload.depth == 1 { dies_cap } else { f64::INFINITY };
        stage_cap.min(dies_cap).min(sequence_cap).min(rate_cap(config.read_rate))
    };
    if workload.random { per_ns * 1e9 } else { per_ns * bytes as f64 * 1e3 }
}

/// Returns how many writes per nanosecond the dies accept in the long run (of the SLC cache, if
/// there is one).
fn drain_per_ns(config: &FlashConfig, workload: Workload) -> f64 {
    let rate = if config.slc_size > 0 { config.slc_rate } else { config.write_rate } as f64 / 1e9;
    let scatter = if workload.random { config.scatter_cost as f64 } else { 0.0 };
    let drain = workload.bytes as f64 / rate + scatter;
    let (scattered, streamed) = config.collection_debt_q32();
    let debt = if workload.random { scattered } else { streamed } as f64 / 4_294_967_296.0;
    let program = config.program_time as f64 / config.program_unit as f64;
    let dies = (debt * workload.bytes as f64 + program * drain * rate) / config.dies as f64;
    1.0 / drain.max(dies)
}

/// Runs a workload of a number of requests on a fresh device of the profile, overridden by
/// `settings`.
///
/// Random requests cover the whole device. The depth of the loop is at most that of the device's
/// queues.
pub(super) fn run(
    profile: &Profile,
    settings: &str,
    workload: Workload,
    ios: u64,
    seed: u64,
) -> Result<Measured, DeviceError> {
    let mut device = profile.open(settings, seed)?;
    let plan = ClosedLoop {
        depth: workload.depth.min(most_in_flight(profile, settings)?),
        ios,
        bytes: Bytes::new(workload.bytes),
        op: if workload.write { Op::Write } else { Op::Read },
        order: if workload.random { Order::Random } else { Order::Sequential },
        length: Sectors::MAX,
        seed,
        ..ClosedLoop::default()
    };
    Ok(closed_loop(&mut device, &plan))
}

/// Returns the performance of the profile's model with a prediction's workload, in the prediction's
/// quantity.
///
/// The run is long enough for an accuracy of about a per cent. Only the second half of the requests
/// is measured, when a write buffer is full and a limiter's first burst has ended. `settings`
/// override the profile's own.
///
/// # Errors
/// A setting is unknown, not valid, or contradicts another.
pub fn measure(
    profile: &Profile,
    settings: &str,
    prediction: &Prediction,
    seed: u64,
) -> Result<f64, DeviceError> {
    let workload = prediction.workload;
    let ios = match profile.base {
        Base::Disk(_) => 8_000,
        Base::Flash { .. } if workload.write && workload.random => 200_000,
        Base::Flash { .. } | Base::Lun { .. } | Base::Model { .. } => {
            4_000_000_000 / workload.bytes
        }
    };
    let ios = ios.clamp(2_000, 40_000 * if workload.write { 5 } else { 1 });
    let (whole, half) = (
        run(profile, settings, workload, ios, seed)?,
        run(profile, settings, workload, ios / 2, seed)?,
    );
    let per_ns = (whole.ios - half.ios) as f64 / (whole.elapsed - half.elapsed).get() as f64;
    Ok(match prediction.quantity {
        Quantity::Iops => per_ns * 1e9,
        Quantity::MegabytesPerSecond => per_ns * workload.bytes as f64 * 1e3,
    })
}
