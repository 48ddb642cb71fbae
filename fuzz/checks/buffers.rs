//! Properties that must hold for any bytes given as a model of physical memory. The fuzz target and
//! a test over the corpus share this check.

use elevon_core::units::Bytes;
use elevon_sim::memory::{Memory, MemoryModel};

/// Checks that the text gives an error of one line, or a model that is the same after formatting
/// and parsing, and whose buffers are complete.
pub(crate) fn buffers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match MemoryModel::parse(&text) {
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && (!line.contains('\n') || text.contains('\n')), "{line}");
        }
        Ok(model) => {
            let again = model.to_string();
            let same = MemoryModel::parse(&again).map(|read| read == model);
            assert_eq!(same, Ok(true), "{text} is {again}");
            // An allocator of gigabytes would take too long.
            if matches!(&model, MemoryModel::Buddy(parameters) if parameters.size.get() > 64 << 20)
            {
                return;
            }
            if let Ok(layout) = Memory::new(&model, 1).allocate(Bytes::new(1 << 18)) {
                assert_eq!(layout.runs().iter().map(|run| run.len).sum::<u64>(), 1 << 18, "{text}");
            }
        }
    }
}
