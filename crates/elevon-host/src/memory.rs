//! Memory of this machine.

use elevon_core::units::Bytes;

/// Returns the physical memory, in whole pages; the largest value if the system does not report it.
pub fn total() -> Bytes {
    // SAFETY: plain selectors; an answer below zero means that it is not known.
    let [pages, page] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|what| unsafe { libc::sysconf(what) });
    match (u64::try_from(pages), u64::try_from(page)) {
        (Ok(pages), Ok(page)) if pages > 0 && page > 0 => Bytes::new(pages.saturating_mul(page)),
        _ => Bytes::new(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_has_memory() {
        let total = super::total().get();
        assert!(total >= 16 << 20 && total.is_multiple_of(4096), "{total}");
    }
}
