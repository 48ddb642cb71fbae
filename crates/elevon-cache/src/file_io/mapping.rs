//! Loads from and stores to a mapping.

use super::{CallDone, CallKind, FileIoState, Operation, Step};
use crate::page_cache::RangeSync;

impl Operation {
    /// Touches one page after the other. If the cache is write-through, a store has finished when
    /// the device has completed the write of its pages.
    #[inline]
    pub(super) fn step_fault(&mut self, done: Option<&CallDone>, writes_through: bool) -> Step {
        debug_assert!(matches!(self.state, FileIoState::Fault | FileIoState::WriteThrough));
        if done.is_some() {
            if self.state == FileIoState::WriteThrough {
                return Step::Finished;
            }
            self.at = self.at.page().next().start();
            if self.at >= self.end() {
                if !(self.is_write && writes_through) {
                    return Step::Finished;
                }
                self.state = FileIoState::WriteThrough;
                return self.of_range(CallKind::SyncRange(RangeSync::ALL));
            }
        }
        let kind = CallKind::Fault { write: self.is_write };
        Step::Call { file: self.file, kind, offset: self.at, bytes: self.end() - self.at }
    }
}
