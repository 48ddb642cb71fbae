//! Properties that must hold for any bytes given as a scheduler. The fuzz target and a test over
//! the corpus share this check.

use elevon_core::jiffies::Hz;
use elevon_core::kernel::Kernel;
use elevon_core::sched::{AnyScheduler, SchedulerConfig};

/// Checks that the text gives an error of one line, or a scheduler with the given tunables.
pub(crate) fn scheduler(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match SchedulerConfig::parse(&text) {
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && (!line.contains('\n') || text.contains('\n')), "{line}");
        }
        Ok(config) => {
            let made = AnyScheduler::new(&config, Kernel::default().rules(), Hz(250), 1, 4, 64)
                .expect("checked already");
            assert_eq!(made.info().name, config.name);
        }
    }
}
