//! Direct I/O of a range that has cached pages.

use super::{CallDone, CallKind, FileIoState, Operation, Step};
use crate::page_cache::RangeSync;

impl Operation {
    /// Has the dirty pages written back, so that the device has their data. A write also has the
    /// pages dropped, because they would be out of date, and drops them again when it has
    /// completed. A discard has the pages dropped at once, so that the flusher does not write what
    /// it discards.
    pub(super) fn step_direct(&mut self, done: Option<&CallDone>) -> Step {
        if done.is_some() {
            self.state = match self.state {
                FileIoState::DirectWriteBack if self.is_write => FileIoState::DirectInvalidate,
                FileIoState::DirectWriteBack | FileIoState::DirectInvalidate => {
                    FileIoState::DirectDevice
                }
                FileIoState::DirectInvalidateAgain => return Step::Finished,
                state => unreachable!("direct I/O made a call in {state:?}"),
            };
        }
        match self.state {
            FileIoState::DirectWriteBack => self.of_range(CallKind::SyncRange(RangeSync::ALL)),
            FileIoState::DirectDevice => Step::Device,
            FileIoState::DirectInvalidate if self.is_discard => self.of_range(CallKind::Discard),
            _ => {
                debug_assert!(self.is_write, "a read drops no pages");
                self.of_range(CallKind::Invalidate)
            }
        }
    }
}
