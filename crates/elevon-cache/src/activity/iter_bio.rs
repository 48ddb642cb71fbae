//! Proposal 000, ITER_BIO: the bio's vectors are walked just before submission.
//!
//! A vector is active when its *first* page is. With v the bio's vector count, and after each
//! vector: more than half of v active is RT; more than a quarter with no inactive one so far is RT;
//! more than a quarter is "the larger number of the task's class and BE". Only a bio that is still
//! of class NONE at the end is judged again, by the vectors that were walked. The level is never
//! changed. Thresholds cut to whole vectors are the thresholds of fractions: `a > v / 2` and `2 a >
//! v` are the same.
//!
//! [`walk`] is the proposal step by step. A builder needs no second pass over its pages: [`Walk`]
//! keeps three numbers, from which the outcome of the walk follows. Cost: O(vectors) for `walk`;
//! O(1) a piece and a bio for `Walk`.

use super::Submitter;
use elevon_core::ioprio::{IoPrio, PrioClass};

/// The proposal's walk. `vcnt`: the bio's vector count, which is not that of the vectors left when
/// the bio is partly done, and 0 for a clone. `active`: for each vector from the bio's position on,
/// whether its first page is active.
pub fn walk(bio: IoPrio, submitter: Submitter, vcnt: u32, active: impl IntoIterator<Item = bool>) -> IoPrio {
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

/// What the proposal calls "at least best effort": the larger *number*, so the less urgent of the
/// two.
pub(super) fn at_least_be(submitter: Submitter) -> PrioClass {
    submitter.task.class().max(PrioClass::Be)
}

/// What decides a walk, counted while the bio is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Vectors.
    vectors: u32,
    /// Vectors whose first page is active.
    active: u32,
    /// Active vectors before the first inactive one.
    leading: u32,
}

impl Walk {
    /// A piece; one that merged into the last vector is not seen.
    #[inline]
    pub fn add(&mut self, active: bool, merged: bool) {
        let active = u32::from(active & !merged);
        self.leading += u32::from(self.leading == self.vectors) & active;
        self.vectors += u32::from(!merged);
        self.active += active;
    }

    /// Vectors so far.
    #[inline]
    pub const fn vectors(&self) -> u32 {
        self.vectors
    }

    /// What [`walk`] over these vectors answers. RT wins as soon as it is reached, so it is reached
    /// if ever: by more than half of `vcnt`, or by a leading run of more than a quarter.
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
