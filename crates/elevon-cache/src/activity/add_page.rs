//! Proposal 000, ADD_PAGE: each call that adds a page or folio to a bio is counted, and the bio's
//! class is written at once.
//!
//! Let v be the bio's vector count after the call. More than half as many active calls: RT. More
//! than a quarter: "the larger number of the task's class and BE". Otherwise the class is not
//! written, so a BE that was written before stays. A piece that merges into the last vector counts
//! as a call but not as a vector, so the share can exceed 1. Real-time tasks are not treated
//! differently.
//!
//! In the proposal the count is a field of the bio that is never reset, so a recycled bio starts
//! with its old count; here it starts at zero. All pages of a bio must be added by the same task.
//! Cost: O(1) per piece.

use super::Submitter;
use super::iter_bio::at_least_be;
use elevon_core::ioprio::{IoPrio, PrioClass};

/// The last class written to the bio.
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
    /// Vectors of the bio.
    vectors: u32,
    written: Written,
}

impl Calls {
    /// Returns the count of a recycled bio, as the proposal leaves it.
    #[cfg(test)]
    pub(super) fn recycled(active: u32) -> Self {
        Self { active, ..Self::default() }
    }

    /// Counts a piece. `merged`: it extended the last vector.
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

    /// Returns the bio's priority after the last call.
    #[inline]
    pub fn decide(&self, bio: IoPrio, submitter: Submitter) -> IoPrio {
        match self.written {
            Written::Nothing => bio,
            Written::AtLeastBe => bio.with_class(at_least_be(submitter)),
            Written::Rt => bio.with_class(PrioClass::Rt),
        }
    }
}
