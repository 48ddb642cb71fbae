//! The work that a process has left.

use super::*;
use crate::region::smallest_block;

/// The remaining work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) per_loop: Bytes,
    pub(super) left: Bytes,
    /// Bytes that must be left for one more I/O.
    pub(super) least: Bytes,
    /// Bytes that the last I/O may go beyond the loop's, as with fio; they are part of `per_loop`.
    pub(super) beyond: Bytes,
    pub(super) ios_left: u64,
    pub(super) loops_left: u64,
}

impl Budget {
    /// Returns the budget of a job that moves `bytes` in a loop.
    pub(super) fn new(spec: &JobSpec, bytes: Bytes, options: &Options) -> Self {
        // The I/O that reaches `io_size` is done whole, and so is one whose size was drawn, where
        // its file has space for it. What is left of `size` may be too little for any I/O.
        let (smallest, largest) = (smallest_block(spec), largest_block(spec));
        let (rest, beyond) = match spec.space.io_size {
            Some(_) => (1, largest - 1),
            None if smallest < largest => (smallest, largest - 1),
            None => (smallest, 0),
        };
        let least = rest + beyond;
        let per_loop = Bytes::new(bytes.get().saturating_add(beyond));
        let (ios_left, loops_left) = (options.number_ios, options.loops);
        let (least, beyond) = (Bytes::new(least), Bytes::new(beyond));
        Self { per_loop, left: per_loop, least, beyond, ios_left, loops_left }
    }

    /// Begins a loop. What the last one moved beyond its bytes counts in this one.
    pub(super) fn refill(&mut self, ios: u64) {
        self.left = self.per_loop - self.beyond + self.left.min(self.beyond);
        self.ios_left = ios;
    }
}
