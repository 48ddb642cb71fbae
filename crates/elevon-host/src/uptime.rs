//! The clock that the kernel's traces have, and that of a thread's work.

/// Returns the time of the kernel's monotonic clock in nanoseconds, which traces with the clock
/// `mono` have.
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time that the calling thread has had so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    now_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which is of the type that it wants.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Linux always has both clocks.
    assert_eq!(result, 0, "the clock exists");
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

    #[test]
    fn a_thread_that_works_has_processor_time() {
        let first = thread_cpu_ns();
        while thread_cpu_ns() == first {}
        assert!(thread_cpu_ns() > first);
    }
}
