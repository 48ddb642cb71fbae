//! Reads and writes through a descriptor.

use super::{CallDone, CallKind, FileIoState, Operation, Step};

impl Operation {
    /// Reads the rest of the range. A page that cannot be read ends a call early, and the next call
    /// returns the error. At the end of the file a call reads nothing, and the I/O has finished.
    #[inline]
    pub(super) fn step_read(&mut self, done: Option<&CallDone>) -> Step {
        debug_assert_eq!(self.state, FileIoState::Read);
        if let Some(done) = done {
            debug_assert!(self.at + done.bytes <= self.end(), "more was read than asked for");
            self.at = self.at + done.bytes;
            if done.bytes.is_zero() || self.at >= self.end() {
                return Step::Finished;
            }
        }
        Step::Call {
            file: self.file,
            kind: CallKind::Read,
            offset: self.at,
            bytes: self.end() - self.at,
        }
    }

    /// Writes the range. If the file is open with O_SYNC or the write is RWF_DSYNC, a second call
    /// writes the dirty pages of the range to the device.
    #[inline]
    pub(super) fn step_write(&mut self, done: Option<&CallDone>) -> Step {
        match (self.state, done) {
            (FileIoState::Write, None) => self.of_range(CallKind::Write),
            (FileIoState::Write, Some(_)) if self.is_durable => {
                self.state = FileIoState::SyncAfterWrite;
                self.of_range(CallKind::Fdatasync)
            }
            (state, _) => {
                debug_assert!(matches!(state, FileIoState::Write | FileIoState::SyncAfterWrite));
                Step::Finished
            }
        }
    }
}
