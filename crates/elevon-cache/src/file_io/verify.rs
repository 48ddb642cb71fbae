//! Writes back a program's files and drops them from the cache before the program reads back its
//! writes, so that the device is verified and not memory.

use super::{CallDone, CallKind, FileIo, FileIoState, FileOp, Opened, Operation, Running, Step};
use crate::page_cache::RangeSync;

impl FileIo {
    /// Begins the pass in which the I/O `op` has the files dropped.
    pub(super) fn begin_verify(&mut self, op: &FileOp) {
        let running = &mut self.programs[op.task.index()];
        debug_assert!(running.verifying.is_none(), "two passes of one program at once");
        running.verifying = Some(op.token);
        running.operations[op.token as usize].state = FileIoState::VerifyWriteBack;
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
        let kind =
            if is_first { CallKind::SyncRange(RangeSync::ALL) } else { CallKind::Invalidate };
        Step::Call { file: self.verify_file, kind, offset: part.offset(), bytes: part.len }
    }
}
