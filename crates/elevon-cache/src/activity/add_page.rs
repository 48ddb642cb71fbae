//! Proposal 000, ADD_PAGE: every call that added a page or folio is counted, and the class is
//! written at once.
//!
//! With v the bio's vector count after the add: more than half as many active calls is RT; more
//! than a quarter is "the larger number of the task's class and BE"; else the class stays what it
//! was, so BE once written stays below a quarter too. A piece that merged into the last vector
//! counts as a call and not as a vector, and the share can pass 1. Nothing asks for a
//! real-time task.
//!
//! In the proposal the count is a field of the bio that nothing sets to zero, so that a recycled
//! bio starts with what it had; here it starts at zero. The task must be the same for all pages of
//! the bio. Cost: O(1) a piece.

use super::Submitter;
use super::iter_bio::at_least_be;
use elevon_core::ioprio::{IoPrio, PrioClass};

/// What was written last to the bio's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Written {
    #[default]
    Nothing,
    AtLeastBe,
    Rt,
}

/// The running count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls with an active page.
    active: u32,
    /// Vectors.
    vectors: u32,
    written: Written,
}

impl Calls {
    /// The count of a recycled bio as the proposal leaves it.
    #[cfg(test)]
    pub(super) fn recycled(active: u32) -> Self {
        Self { active, ..Self::default() }
    }

    /// A piece, merged into the last vector or not.
    #[inline]
    pub fn add(&mut self, active: bool, merged: bool) {
        self.active += u32::from(active);
        self.vectors += u32::from(!merged);
        if self.active > self.vectors / 2 {
            self.written = Written::Rt;
        } else if self.active > self.vectors / 4 {
            self.written = Written::AtLeastBe;
        }
    }

    /// The bio's priority after the last add.
    #[inline]
    pub fn decide(&self, bio: IoPrio, submitter: Submitter) -> IoPrio {
        match self.written {
            Written::Nothing => bio,
            Written::AtLeastBe => bio.with_class(at_least_be(submitter)),
            Written::Rt => bio.with_class(PrioClass::Rt),
        }
    }
}
