//! What a hit wants of a page: flags, reference field and list tag, in 16 bits.

use core::ops::BitOr;

/// The reference field of a page counts to this.
pub const FIELD_MAX: u32 = 3;

const FIELD_SHIFT: u32 = 11;
const LIST_SHIFT: u32 = 13;
const LIST_MAX: u32 = 7;

/// Flags of a page; `|` joins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Its content may be read.
    pub const UPTODATE: Self = Self(1);
    /// Being read in, or changing state: who wants it waits.
    pub const LOCKED: Self = Self(1 << 1);
    /// Used once.
    pub const REFERENCED: Self = Self(1 << 2);
    /// On the active list (`classic` only).
    pub const ACTIVE: Self = Self(1 << 3);
    /// In the working set, as the policy judges: what proposal 000 calls active.
    pub const WORKINGSET: Self = Self(1 << 4);
    /// On a page not under writeback, the marker of a readahead window.
    pub const READAHEAD: Self = Self(1 << 5);
    /// On a page that was dirty or under writeback when reclaim met it: evict it soon after. The
    /// same bit as [`Self::READAHEAD`], as in the kernel.
    pub const RECLAIM: Self = Self::READAHEAD;
    /// Changed since it was last submitted for writing. Set by [`super::Pages::set_dirty`] only.
    pub const DIRTY: Self = Self(1 << 6);
    /// Submitted for writing. Set by [`super::Pages::begin_writeback`] only.
    pub const WRITEBACK: Self = Self(1 << 7);
    /// Mapped into an executable mapping.
    pub const EXECUTABLE: Self = Self(1 << 8);
    /// Some page table maps it. Set by [`super::Pages::map`] only.
    pub const MAPPED: Self = Self(1 << 9);
    /// It is a page: there is none where this is not set.
    pub(super) const USED: Self = Self(1 << 10);

    const SETTABLE: u16 = 0b1_0011_1111;

    /// Whether any flag of `other` is among these.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Flags, reference field and list tag of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits(u16);

impl Bits {
    /// No page.
    pub(super) const NONE: Self = Self(0);
    /// A page that nothing is known of.
    pub(super) const NEW: Self = Self(Flags::USED.0);

    /// The flags.
    #[inline]
    pub const fn flags(self) -> Flags {
        Flags(self.0 & ((1 << FIELD_SHIFT) - 1))
    }

    /// Whether it has any of `flags`.
    #[inline]
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets flags that are not counted.
    #[inline]
    pub(crate) fn set(&mut self, flags: Flags) {
        debug_assert_eq!(flags.0 & !Flags::SETTABLE, 0);
        self.0 |= flags.0;
    }

    /// Clears flags that are not counted.
    #[inline]
    pub(crate) fn clear(&mut self, flags: Flags) {
        debug_assert_eq!(flags.0 & !Flags::SETTABLE, 0);
        self.0 &= !flags.0;
    }

    /// Sets and clears flags, for those who count them.
    #[inline]
    pub(super) const fn change(&mut self, set: Flags, clear: Flags) {
        self.0 = (self.0 | set.0) & !clear.0;
    }

    /// The reference field, 0 to [`FIELD_MAX`].
    #[inline]
    pub const fn field(self) -> u32 {
        self.0 as u32 >> FIELD_SHIFT & FIELD_MAX
    }

    /// Sets the reference field.
    #[inline]
    pub(crate) fn set_field(&mut self, value: u32) {
        debug_assert!(value <= FIELD_MAX);
        self.0 = self.0 & !((FIELD_MAX as u16) << FIELD_SHIFT) | (value as u16) << FIELD_SHIFT;
    }

    /// Which of its policy's lists the page is on, 1 to 7; 0: none.
    #[inline]
    pub(crate) const fn list_tag(self) -> u32 {
        self.0 as u32 >> LIST_SHIFT
    }

    #[inline]
    pub(crate) fn set_list_tag(&mut self, tag: u32) {
        debug_assert!(tag <= LIST_MAX);
        self.0 = self.0 & ((1 << LIST_SHIFT) - 1) | (tag as u16) << LIST_SHIFT;
    }
}
