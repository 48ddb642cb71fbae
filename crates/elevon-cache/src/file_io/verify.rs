//! Before a program reads back what it wrote: its files leave the cache, so that the device is
//! asked.
//!
//! With bytes what is dirty is written back first and nothing is left, as it is the device that is
//! to be verified; without, the advice DONTNEED drops what is clean, as fio's does.

use super::{CallDone, CallKind, Called, FileIo, FileOp, Instant, Opened, Operation, Running, State, Step};
use crate::page_cache::RangeSync;
use crate::readahead::Advice;

impl FileIo {
    /// The I/O `op` has the files dropped before anything else.
    pub(super) fn begin_verify(&mut self, now: Instant, op: &FileOp) {
        if self.has_bytes {
            let running = &mut self.programs[op.task.index()];
            debug_assert!(running.verifying.is_none(), "two passes of one program at once");
            running.verifying = Some(op.token);
            running.operations[op.token as usize].state = State::VerifyWriteBack;
            return;
        }
        for file in 0..self.programs[op.task.index()].files.len() {
            let part = self.programs[op.task.index()].files[file].part;
            let called = self.call(now, op.task, file, CallKind::Fadvise(Advice::DontNeed), part.offset(), part.len);
            debug_assert!(called != Called::Wait, "advice does not sleep");
        }
    }
}

impl Running {
    /// The pass of this I/O, if it is one, is over. True if other I/Os began meanwhile: they come
    /// first.
    pub(super) fn end_verify(&mut self, token: u32) -> bool {
        debug_assert_eq!(self.verifying, Some(token), "an I/O of no pass ends one");
        self.verifying = None;
        !self.after_verify.is_empty()
    }
}

impl Operation {
    /// Writes back and drops file after file.
    pub(super) fn step_verify(&mut self, done: Option<&CallDone>, files: &[Opened]) -> Step {
        debug_assert!(self.state.is_of_verify_pass());
        if done.is_some() {
            self.state = if self.state == State::VerifyWriteBack {
                State::VerifyInvalidate
            } else {
                self.verify_file += 1;
                State::VerifyWriteBack
            };
        }
        let Some(Opened { part, .. }) = files.get(self.verify_file) else {
            self.state = self.after_verify;
            return Step::Again;
        };
        let is_first = self.state == State::VerifyWriteBack;
        let kind = if is_first { CallKind::SyncRange(RangeSync::ALL) } else { CallKind::Invalidate };
        Step::Call { file: self.verify_file, kind, offset: part.offset(), bytes: part.len }
    }
}
