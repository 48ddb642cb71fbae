//! Properties that must hold for any lines given as settings, `KEY=VALUE`. The fuzz target and a
//! test over the corpus share this check.

use elevon_cache::page_cache::{CacheConfig, PageCache};
use elevon_cache::settings::is_setting;
use elevon_core::limits::QueueLimits;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::{Bytes, Sectors, TaskId};

/// Checks that each setting is refused in one line, or leaves a configuration of which a stack and
/// a page cache can be made.
pub(crate) fn setting(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut stack = StackConfig::new(QueueLimits::default(), Sectors::new(1 << 21), 2, 64);
    stack.limits.validate(&stack.kernel.rules()).expect("valid before");
    let mut cache = CacheConfig::new(Bytes::new(4 << 20), TaskId(0));
    for line in text.split('\n') {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let taken = if is_setting(key) { cache.set(key, value) } else { stack.set(key, value) };
        if let Err(error) = taken {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains('\n'), "{said}");
        }
    }
    let mut limits = stack.limits.clone();
    limits.validate(&stack.kernel.rules()).expect("settings leave limits valid");
    PageCache::new(cache).self_check();
    // Tables of millions of requests would take too long.
    if u32::from(stack.hw_queues) * (stack.queue_depth + stack.nr_requests()) <= 1 << 12 {
        match Stack::new(stack) {
            Ok(stack) => stack.self_check(),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
