//! A kernel and its disk on one CPU.
//!
//! A kernel in virtual time is several processes that run in turns, and so is the thread that has
//! its clock and its disk. On two idle CPUs each turn wakes one of them, which takes two to seven
//! times as long as a switch on one CPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many kernels this process has started, so that those of several threads are on different
/// CPUs.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Keeps this thread, and the processes and threads that it starts, on one CPU. A drop lets this
/// thread go where it could before.
#[derive(Debug)]
pub struct OneCpu {
    before: Option<CpuSet>,
}

impl OneCpu {
    /// Chooses one of the CPUs that this thread may use. Without that right it changes nothing.
    pub fn enter() -> Self {
        let Ok(before) = sched_getaffinity(None) else { return Self { before: None } };
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu)).collect();
        // Processes that are started together have different numbers.
        let nth = std::process::id() as usize + STARTED.fetch_add(1, Ordering::Relaxed);
        let mut one = CpuSet::new();
        one.set(cpus[nth % cpus.len()]);
        let is_set = sched_setaffinity(None, &one).is_ok();
        Self { before: is_set.then_some(before) }
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_back_to_its_cpus() {
        let count = || sched_getaffinity(None).expect("the CPUs of this thread").count();
        let before = count();
        let one = OneCpu::enter();
        let child = std::thread::spawn(count).join().expect("no panic");
        assert_eq!((count(), child), (1, 1));
        drop(one);
        assert_eq!(count(), before);
    }
}
