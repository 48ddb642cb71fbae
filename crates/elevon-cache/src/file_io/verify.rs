//! Drops a program's files from the cache before the program reads back its writes, so that the
//! data comes from the device, or before another pass over its files.
//!
//! Before it reads back with bytes, dirty pages are written back first and no page is left, because
//! the device is to be verified. Otherwise the advice DONTNEED drops the clean pages, as fio does.

use super::{
    CallDone, CallKind, Called, FileIo, FileIoState, FileOp, Instant, Opened, Operation, Running, Step, TaskId,
};
use crate::page_cache::RangeSync;
use crate::readahead::Advice;

impl FileIo {
    /// Begins the pass in which the I/O `op` has the files dropped.
    pub(super) fn begin_verify(&mut self, op: &FileOp) {
        let running = &mut self.programs[op.task.index()];
        debug_assert!(running.verifying.is_none(), "two passes of one program at once");
        running.verifying = Some(op.token);
        running.operations[op.token as usize].state = FileIoState::VerifyWriteBack;
    }

    /// Drops the clean pages of a program's files.
    pub(super) fn drop_clean(&mut self, now: Instant, task: TaskId) {
        for file in 0..self.programs[task.index()].files.len() {
            let part = self.programs[task.index()].files[file].part;
            let called = self.call(now, task, file, CallKind::Fadvise(Advice::DontNeed), part.offset(), part.len);
            debug_assert!(called != Called::Wait, "advice does not sleep");
        }
    }
}

impl Running {
    /// Ends the pass of this I/O. Returns true if other I/Os began during the pass: they continue
    /// first.
    pub(super) fn end_verify(&mut self, token: u32) -> bool {
        debug_assert_eq!(self.verifying, Some(token), "an I/O of no pass ends one");
        self.verifying = None;
        !self.after_verify.is_empty()
    }
}

impl Operation {
    /// Writes back and drops one file after the other.
    pub(super) fn step_verify(&mut self, done: Option<&CallDone>, files: &[Opened]) -> Step {
        debug_assert!(self.state.is_of_verify_pass());
        if done.is_some() {
            self.state = if self.state == FileIoState::VerifyWriteBack {
                FileIoState::VerifyInvalidate
            } else {
                self.verify_file += 1;
                FileIoState::VerifyWriteBack
            };
        }
        let Some(Opened { part, .. }) = files.get(self.verify_file) else {
            self.state = self.after_verify;
            return Step::Again;
        };
        let is_first = self.state == FileIoState::VerifyWriteBack;
        let kind = if is_first { CallKind::SyncRange(RangeSync::ALL) } else { CallKind::Invalidate };
        Step::Call { file: self.verify_file, kind, offset: part.offset(), bytes: part.len }
    }
}
