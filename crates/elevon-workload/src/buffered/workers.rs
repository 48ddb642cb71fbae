//! The workers of an io_uring ring: a buffered write, and a sync, cannot be made without sleeping,
//! so the kernel gives each of them to a worker. A ring has few of them
//! ([`JobSpec::bounded_workers`]); what they have no time for waits in the order of submission. A
//! buffered read needs none: the ring waits for its pages itself.
//!
//! [`JobSpec::bounded_workers`]: elevon_formats::fio::spec::JobSpec::bounded_workers

use std::collections::VecDeque;

use elevon_cache::file_io::{FileOp, FileOpKind};

/// The workers of one ring.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    free: usize,
    /// By token: a worker has the I/O.
    busy: Vec<bool>,
    /// I/Os that wait for a worker; empty if one is free.
    waiting: VecDeque<FileOp>,
}

impl Workers {
    /// Returns `count` workers for the I/Os of `depth` tokens.
    pub(super) fn new(count: usize, depth: usize) -> Self {
        Self { free: count, busy: vec![false; depth], waiting: VecDeque::with_capacity(depth) }
    }

    /// Gives an I/O to a worker if it needs one. Returns false if none is free: the I/O waits.
    pub(super) fn give(&mut self, op: &FileOp) -> bool {
        match op.kind {
            FileOpKind::Read | FileOpKind::Discard | FileOpKind::Zeroes => return true,
            FileOpKind::Write
            | FileOpKind::DurableWrite
            | FileOpKind::Sync
            | FileOpKind::SyncRange => {}
        }
        if self.free == 0 {
            self.waiting.push_back(*op);
            return false;
        }
        self.free -= 1;
        self.busy[op.token as usize] = true;
        true
    }

    /// Handles the end of an I/O. Returns the I/O that its worker, if it had one, has next.
    pub(super) fn end(&mut self, token: u32) -> Option<FileOp> {
        if !std::mem::take(&mut self.busy[token as usize]) {
            return None;
        }
        let next = self.waiting.pop_front();
        match &next {
            Some(op) => self.busy[op.token as usize] = true,
            None => self.free += 1,
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::{Bytes, DeviceOffset, TaskId};
    use elevon_formats::fio::spec::JobSpec;

    use super::*;

    fn op(token: u32, kind: FileOpKind) -> FileOp {
        let (position, bytes) = (DeviceOffset::ZERO, Bytes::new(4096));
        FileOp { task: TaskId(0), token, kind, file: 0, position, bytes, is_first_check: false }
    }

    #[test]
    fn a_write_without_a_worker_waits_in_its_turn_and_a_read_needs_none() {
        let mut workers = Workers::new(2, 8);
        let given = [0, 1, 2, 3].map(|token| workers.give(&op(token, FileOpKind::Write)));
        assert_eq!(given, [true, true, false, false]);
        assert!(workers.give(&op(4, FileOpKind::Read)));
        assert!(!workers.give(&op(5, FileOpKind::Sync)));
        assert!(workers.end(4).is_none(), "a read leaves no worker");
        let next: Vec<Option<u32>> =
            [1, 0, 2, 3, 5].map(|token| workers.end(token).map(|op| op.token)).to_vec();
        assert_eq!(next, [Some(2), Some(3), Some(5), None, None]);
        assert!(
            workers.give(&op(6, FileOpKind::SyncRange))
                && workers.give(&op(7, FileOpKind::DurableWrite))
        );
        assert!(!workers.give(&op(0, FileOpKind::Write)));
    }

    /// Linux 6.18 on two CPUs has 8 of 64 O_DSYNC writes in the device, and 8 of a ring for 6.
    #[test]
    fn a_ring_has_a_worker_for_each_entry_and_four_for_each_cpu_at_most() {
        let workers = |engine: &str, depth: u32, cpus: u16| {
            let mut spec = JobSpec::default_job("job");
            (spec.engine.name, spec.engine.asynchronous, spec.queue.depth) =
                (engine.to_owned(), true, depth);
            spec.bounded_workers(cpus)
        };
        assert_eq!(
            [64, 6, 3].map(|depth| workers("io_uring", depth, 2)),
            [Some(8), Some(8), Some(4)]
        );
        assert_eq!((workers("io_uring", 64, 4), workers("libaio", 64, 4)), (Some(16), None));
    }
}
