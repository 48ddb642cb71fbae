//! The clock that the kernel's traces have.

/// Returns the time of the kernel's monotonic clock in nanoseconds, which traces with the clock
/// `mono` have.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which is of the type that it wants.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Linux always has this clock.
    assert_eq!(result, 0, "CLOCK_MONOTONIC exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_go_back() {
        let first = monotonic_ns();
        assert!(first > 0 && monotonic_ns() >= first);
    }
}
