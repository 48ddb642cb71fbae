//! Direct I/O of a range of which pages are cached.

use super::{CallDone, CallKind, Operation, State, Step};
use crate::page_cache::RangeSync;

impl Operation {
    /// What is dirty is written back, so that the device has it; a write has the pages dropped,
    /// too, as they would be out of date, and once more when it is back.
    pub(super) fn step_direct(&mut self, done: Option<&CallDone>) -> Step {
        if done.is_some() {
            self.state = match self.state {
                State::DirectWriteBack if self.is_write => State::DirectInvalidate,
                State::DirectWriteBack | State::DirectInvalidate => State::DirectDevice,
                State::DirectInvalidateAgain => return Step::Over,
                state => unreachable!("direct I/O made a call in {state:?}"),
            };
        }
        match self.state {
            State::DirectWriteBack => self.of_range(CallKind::SyncRange(RangeSync::ALL)),
            State::DirectDevice => Step::Device,
            _ => {
                debug_assert!(self.is_write, "a read drops no pages");
                self.of_range(CallKind::Invalidate)
            }
        }
    }
}
