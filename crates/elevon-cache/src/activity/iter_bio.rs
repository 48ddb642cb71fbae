//! Proposal 000, ITER_BIO: the bio's vectors are walked just before submission.
//!
//! A vector is active if its *first* page is. Let v be the bio's vector count. After each vector:
//! more than half of v active: RT. More than a quarter of v active, and no inactive vector so far:
//! RT. More than a quarter otherwise: "the larger number of the task's class and BE". Only a bio
//! that still has class NONE at the end is judged again, by the number of vectors walked. The level
//! is never changed. A threshold rounded down to whole vectors is the same as the fraction:
//! `a > v / 2` and `2 a > v` are equivalent.
//!
//! [`walk`] is the proposal step by step. [`Walk`] saves the builder of a bio a second pass over
//! its pages: it keeps three numbers that determine the result. Cost: O(vectors) for `walk`; O(1)
//! per piece and per bio for `Walk`.

use super::Submitter;
use elevon_core::ioprio::{IoPrio, PrioClass};

/// Walks a bio's vectors as the proposal does. Returns the bio's priority. `vcnt`: the bio's vector
/// count, which includes vectors already completed, and is 0 for a clone. `active`: for each vector
/// from the bio's position on, whether its first page is active.
pub fn walk(
    bio: IoPrio,
    submitter: Submitter,
    vcnt: u32,
    active: impl IntoIterator<Item = bool>,
) -> IoPrio {
    if submitter.rt_cpu {
        return bio.with_class(PrioClass::Rt);
    }
    let (mut class, mut count, mut seen) = (bio.class(), 0, 0);
    for active in active {
        count += u32::from(active);
        seen += 1;
        if count > vcnt / 2 || count > vcnt / 4 && count == seen {
            class = PrioClass::Rt;
            break;
        }
        if count > vcnt / 4 {
            class = at_least_be(submitter);
        }
    }
    if class == PrioClass::None {
        if count > seen / 2 {
            class = PrioClass::Rt;
        } else if count > seen / 4 {
            class = at_least_be(submitter);
        }
    }
    bio.with_class(class)
}

/// Returns what the proposal calls "at least best effort": the larger *number* of the two classes,
/// which is the less urgent class.
pub(super) fn at_least_be(submitter: Submitter) -> PrioClass {
    submitter.task.class().max(PrioClass::Be)
}

/// The numbers that determine the result of [`walk`], counted while the bio is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Vectors of the bio.
    vectors: u32,
    /// Vectors whose first page is active.
    active: u32,
    /// Active vectors before the first inactive one.
    leading: u32,
}

impl Walk {
    /// Counts a piece. A piece that merged into the last vector changes nothing.
    #[inline]
    pub fn add(&mut self, active: bool, merged: bool) {
        let active = u32::from(active & !merged);
        self.leading += u32::from(self.leading == self.vectors) & active;
        self.vectors += u32::from(!merged);
        self.active += active;
    }

    /// Returns the number of vectors so far.
    #[inline]
    pub const fn vectors(&self) -> u32 {
        self.vectors
    }

    /// Returns the result of [`walk`] over these vectors. The walk stops at RT, so it returns RT if
    /// RT is ever reached: by more than half of `vcnt`, or by a leading run of more than a quarter.
    #[inline]
    pub fn decide(&self, bio: IoPrio, submitter: Submitter, vcnt: u32) -> IoPrio {
        let class = if submitter.rt_cpu || self.active > vcnt / 2 || self.leading > vcnt / 4 {
            PrioClass::Rt
        } else if self.active > vcnt / 4 {
            at_least_be(submitter)
        } else if bio.class() != PrioClass::None {
            bio.class()
        } else if self.active > self.vectors / 2 {
            PrioClass::Rt
        } else if self.active > self.vectors / 4 {
            at_least_be(submitter)
        } else {
            PrioClass::None
        };
        bio.with_class(class)
    }
}
