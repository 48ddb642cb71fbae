//! Syncs of all files that a program has open, one after the other.

use super::{CallDone, CallKind, FileIoState, Opened, Operation, Step};
use crate::page_cache::RangeSync;
use elevon_core::units::{Bytes, FileOffset};

impl Operation {
    /// Syncs the next file: the whole file or, with bytes, the part that the program uses, because
    /// then the whole device is one file of the cache.
    pub(super) fn step_sync(&mut self, done: Option<&CallDone>, files: &mut [Opened], has_bytes: bool) -> Step {
        debug_assert_eq!(self.state, FileIoState::Sync);
        if done.is_some() {
            files[self.file].written = None;
            self.file += 1;
        }
        let Some(Opened { part, .. }) = files.get(self.file) else { return Step::Finished };
        let (offset, bytes) = if has_bytes { (part.offset(), part.len) } else { (FileOffset::ZERO, Bytes::ZERO) };
        Step::Call { file: self.file, kind: CallKind::Fsync, offset, bytes }
    }

    /// Syncs the written range of the next file that has one.
    pub(super) fn step_sync_range(
        &mut self,
        done: Option<&CallDone>,
        files: &mut [Opened],
        how: Option<RangeSync>,
    ) -> Step {
        debug_assert_eq!(self.state, FileIoState::SyncRange);
        self.file += usize::from(done.is_some());
        while let Some(opened) = files.get_mut(self.file) {
            if let (Some((first, end)), Some(how)) = (opened.written.take(), how) {
                debug_assert!(first <= end);
                let kind = CallKind::SyncRange(how);
                return Step::Call { file: self.file, kind, offset: first, bytes: end - first };
            }
            self.file += 1;
        }
        Step::Finished
    }
}
