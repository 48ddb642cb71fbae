//! I/O priorities of other tasks.

/// Of one task, as `ioprio_get(2)` has it.
const WHO_PROCESS: libc::c_long = 1;

/// Returns the I/O priority of a task as the kernel packs it: three bits of class above thirteen of
/// level and hint. `None` if the task is gone.
pub fn io_priority(task: u32) -> Option<u16> {
    // SAFETY: the call takes two numbers and writes no memory.
    let bits =
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, libc::c_long::from(task)) };
    u16::try_from(bits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_one_and_no_task_has_none() {
        assert!(io_priority(std::process::id()).is_some_and(|bits| bits >> 13 <= 3));
        assert_eq!(io_priority(u32::MAX >> 1), None);
    }
}
