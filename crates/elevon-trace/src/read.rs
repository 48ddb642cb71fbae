//! Readers, one for each format. [`crate::open`] chooses one.

pub(crate) mod blkparse;
pub mod blktrace;
pub(crate) mod csv;
pub(crate) mod cursor;
pub(crate) mod event_csv;
pub(crate) mod fio_log;
pub mod ftrace;
mod hardware;
pub(crate) mod lines;
pub mod perfetto;

/// Maximum number of CPUs whose gaps are tracked; the kernel's own limit.
const MAX_CPUS: usize = 8192;

/// Returns what is kept of a CPU; `None` beyond the maximum.
fn of_cpu<T: Clone + Default>(cpus: &mut Vec<T>, cpu: u32) -> Option<&mut T> {
    let cpu = cpu as usize;
    if cpu >= cpus.len() && cpu < MAX_CPUS {
        cpus.resize(cpu + 1, T::default());
    }
    cpus.get_mut(cpu)
}
