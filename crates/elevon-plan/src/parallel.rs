//! Independent runs on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevon_host::interrupt::Interrupt;

use crate::failure::Failure;

/// Does runs on `threads` threads (by default one on each core), and hands what each gave to
/// `took`, in the order in which they end. A run that gives nothing was interrupted. Ends early at
/// an interrupt and at the first failure.
///
/// # Errors
/// The first failure of a run or of `took`.
pub fn on_all_cores<T: Send>(
    runs: &[usize],
    threads: Option<u16>,
    interrupt: &Interrupt,
    work: impl Fn(usize) -> Result<Option<T>, Failure> + Sync,
    took: impl FnMut(usize, T) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((took, Ok(())));
    let worker = || {
        while let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if interrupt.is_set() {
                break;
            }
            let given = work(run);
            let Ok(mut shared) = shared.lock() else { break };
            let (took, result) = &mut *shared;
            match given {
                Ok(Some(given)) if result.is_ok() => *result = took(run, given),
                Ok(_) => {}
                Err(failure) => *result = Err(failure),
            }
            if result.is_err() {
                break;
            }
        }
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or_else(cores, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, runs.len().max(1)) {
            scope.spawn(worker);
        }
    });
    shared.into_inner().map_or(Ok(()), |(_, result)| result)
}
