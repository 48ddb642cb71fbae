//! Properties that must hold for any bytes given as a device. The fuzz target and a test over the
//! corpus share this check.

use elevon_core::kernel::Kernel;
use elevon_sim::device::Device;
use elevon_sim::profiles::open;

/// Checks that the text gives an error with a message, or a device that has a size, queues and
/// valid limits.
pub(crate) fn device(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match open(&text, 1) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(device) => {
            let described = device.description();
            assert!(
                !described.size.is_zero() && described.hw_queues > 0 && described.queue_depth > 0,
                "{described:?}"
            );
            let mut limits = described.limits.clone();
            limits.validate(&Kernel::default().rules()).expect("a device's limits are valid");
        }
    }
}
