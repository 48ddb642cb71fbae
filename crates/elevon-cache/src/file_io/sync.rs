//! Syncs of a file that a program has open.

use super::{CallDone, CallKind, FileIoState, Opened, Operation, Step};
use crate::page_cache::RangeSync;
use elevon_core::units::{Bytes, FileOffset};

impl Operation {
    /// Syncs the file: all of it or, with bytes, the part that the program uses, because then the
    /// whole device is one file of the cache.
    pub(super) fn step_sync(
        &mut self,
        done: Option<&CallDone>,
        files: &mut [Opened],
        has_bytes: bool,
    ) -> Step {
        debug_assert_eq!(self.state, FileIoState::Sync);
        let Opened { part, written } = &mut files[self.file];
        if done.is_some() {
            *written = None;
            return Step::Finished;
        }
        let (offset, bytes) =
            if has_bytes { (part.offset(), part.len) } else { (FileOffset::ZERO, Bytes::ZERO) };
        Step::Call { file: self.file, kind: CallKind::Fsync, offset, bytes }
    }

    /// Syncs the written range of the file, if it has one.
    pub(super) fn step_sync_range(
        &mut self,
        done: Option<&CallDone>,
        files: &mut [Opened],
        how: Option<RangeSync>,
    ) -> Step {
        debug_assert_eq!(self.state, FileIoState::SyncRange);
        match (done, files[self.file].written.take(), how) {
            (None, Some((first, end)), Some(how)) => {
                debug_assert!(first <= end);
                Step::Call {
                    file: self.file,
                    kind: CallKind::SyncRange(how),
                    offset: first,
                    bytes: end - first,
                }
            }
            (_, left, _) => {
                files[self.file].written = left;
                Step::Finished
            }
        }
    }
}
