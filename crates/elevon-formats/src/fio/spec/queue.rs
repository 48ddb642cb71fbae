//! The engine of a job and its queue.

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in the job file.
    pub name: String,
    /// True if several I/Os can be in flight. If not, the process sleeps for each I/O.
    pub asynchronous: bool,
    /// True if a submission without a free tag sleeps in the submitter (system calls, libaio). If
    /// not, it sleeps in a worker (io_uring).
    pub submission_blocks: bool,
}

impl Default for Engine {
    /// Returns `psync`, fio's default.
    fn default() -> Self {
        Self { name: "psync".to_owned(), asynchronous: false, submission_blocks: true }
    }
}

impl Engine {
    /// Returns true if the engine accesses memory through a mapping (`ioengine=mmap`).
    pub fn is_mapped(&self) -> bool {
        self.name == "mmap"
    }

    /// Returns true if the engine's I/Os in flight are those of a ring (io_uring).
    pub(super) fn has_ring(&self) -> bool {
        matches!(self.name.as_str(), "io_uring" | "io_uring_cmd")
    }
}

/// How many I/Os a job keeps in flight, and how it submits and reaps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// `iodepth`: I/Os kept in flight; 1 for synchronous engines.
    pub depth: u32,
    /// `iodepth_batch` (`iodepth_batch_submit`): the maximum number of I/Os in one submission.
    pub batch_submit: u32,
    /// `iodepth_batch_complete_min`: completions that a job which can prepare no more waits for;
    /// 0: it waits only when its queue is full.
    pub complete_min: u32,
    /// `iodepth_batch_complete_max`: completions that are reaped at once, at most.
    pub complete_max: u32,
    /// `iodepth_low`: the job refills its queue only when the depth has fallen to this.
    pub low: u32,
    /// `io_submit_mode=offload`: each I/O is submitted by a worker of its own, and the job sleeps
    /// for no submission.
    pub offload: bool,
    /// `serialize_overlap`: an I/O waits until the I/Os in flight that overlap it have completed.
    pub serialize_overlap: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            depth: 1,
            batch_submit: 1,
            complete_min: 1,
            complete_max: 1,
            low: 1,
            offload: false,
            serialize_overlap: false,
        }
    }
}
