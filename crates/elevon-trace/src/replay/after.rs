//! What an I/O of a replay waits for.

/// When an I/O is issued in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Number of I/Os of its process that have completed before; with 0 it follows the start of
    /// the process.
    pub completions: u64,
    /// Nanoseconds since the last of these completions, or since the start of the process.
    pub think: u64,
    /// Nanoseconds for which its thread was at work since it submitted the I/O before; 0 if that
    /// is not known, or does not matter.
    pub own: u64,
    /// It is a write of the page cache that follows the one before it: if the process sleeps for
    /// that one, it goes later by as much.
    pub continues: bool,
    /// What it follows in another process, too; the think time begins with the later of the two.
    pub follows: Option<Follows>,
}

impl After {
    /// Returns what an I/O follows that is issued as soon as so many of its process have completed.
    pub const fn completions(completions: u64) -> Self {
        Self { completions, think: 0, own: 0, continues: false, follows: None }
    }
}

/// How far another process must have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// So many of its I/Os have all their requests: the process does not sleep for them any more.
    Entered,
    /// So many of its I/Os have completed.
    Completed,
}

/// What an I/O follows in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// Index of that process in [`super::Workload::processes`].
    pub process: usize,
    /// What is counted.
    pub milestone: Milestone,
    /// How many of its I/Os.
    pub count: u64,
}
