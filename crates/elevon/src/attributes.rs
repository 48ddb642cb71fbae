//! `elevon devices NAME --kernel V`: the attributes of a device's queue as sysfs shows them.

use std::fmt::Write;

use elevon_core::kernel::Kernel;
use elevon_core::sched::SchedulerConfig;
use elevon_sim::device::Device;
use elevon_sim::profiles::{self, Profile};

use elevon_plan::failure::Failure;
use elevon_plan::own_device::OwnDevice;

/// Kernels whose attributes were measured.
const MEASURED: [Kernel; 7] = [
    Kernel::V6_1,
    Kernel::V6_12,
    Kernel::V6_16,
    Kernel::V6_18,
    Kernel::V7_0,
    Kernel::V7_2,
    Kernel::V7_3,
];

/// Returns the page of the device that `name` names, as `--device` takes it.
pub(crate) fn page(name: &str, kernel: Kernel) -> Result<String, Failure> {
    let own = name
        .strip_prefix('@')
        .map(|path| OwnDevice::load("devices", path, &kernel.rules()))
        .transpose()?;
    let spec = own.as_ref().map_or(name, |own| &own.spec);
    let device = profiles::open(spec, 0).map_err(|error| Failure::named("devices", error))?;
    let profile = profiles::profile(spec.split(':').next().unwrap_or_default());
    let driver = profile.and_then(Profile::presented);
    let mut config = device.description().stack_config();
    config.kernel = kernel;
    if let Some(driver) = driver {
        config.limits = driver.limits(&kernel.rules());
    }
    config.limits.validate(&kernel.rules()).map_err(Failure::input)?;
    if let Some(own) = &own {
        own.limit(&mut config.limits, &kernel.rules())?;
    }
    config.io_timeout = profile.map_or(config.io_timeout, Profile::io_timeout);
    let by_queues = if config.hw_queues == 1 { "mq-deadline" } else { "none" };
    let scheduler = driver.map_or(by_queues, |driver| driver.default_scheduler());
    config.scheduler = SchedulerConfig::parse(scheduler).map_err(Failure::input)?;
    let has_timeout = driver.is_none_or(|driver| driver.timeout_ms().is_some());

    let mut text = format!(
        "{name} on Linux {} (rules of {}), as sysfs shows it:\n\n",
        kernel.name(),
        kernel.release()
    );
    for (attribute, content) in config.attributes() {
        if attribute != "io_timeout" || has_timeout {
            let _ = writeln!(text, "queue/{attribute} {content}");
        }
    }
    text.push('\n');
    if driver.is_none() {
        text.push_str(
            "The driver's limits are the same here under every kernel; what the block layer makes of them is not.\n",
        );
    } else if !MEASURED.contains(&kernel) {
        let measured: Vec<&str> = MEASURED.iter().map(|kernel| kernel.name()).collect();
        let _ = writeln!(text, "Not measured on this kernel; measured: {}.", measured.join(", "));
    }
    let _ = writeln!(
        text,
        "The scheduler is the one that Linux selects; elevon run uses none unless --scheduler names one."
    );
    Ok(text)
}
