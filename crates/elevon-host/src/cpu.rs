//! CPU time that this process has used.

/// Returns the CPU time of the whole process so far, in nanoseconds: (outside the kernel, inside).
pub fn used() -> (u64, u64) {
    // SAFETY: all-zero bytes are a valid `rusage` value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid selector and memory for the answer; it cannot fail with these.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_only_grows() {
        let (user, system) = super::used();
        let (later_user, later_system) = super::used();
        assert!(later_user >= user && later_system >= system);
    }
}
