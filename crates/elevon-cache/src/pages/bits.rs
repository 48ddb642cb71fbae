//! The state of a page that a hit needs: flags, reference field and list tag, in 16 bits.

use core::ops::BitOr;

/// The maximum of a page's reference field.
pub(crate) const FIELD_MAX: u32 = 3;

const FIELD_SHIFT: u32 = 11;
const LIST_SHIFT: u32 = 13;
const LIST_MAX: u32 = 7;

/// Flags of a page; `|` combines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// The content is up to date and may be read.
    pub(crate) const UPTODATE: Self = Self(1);
    /// The page is being read, or its state changes; tasks that need it wait.
    pub(crate) const LOCKED: Self = Self(1 << 1);
    /// The page was used once.
    pub const REFERENCED: Self = Self(1 << 2);
    /// The page is on the active list (`classic` only).
    pub(crate) const ACTIVE: Self = Self(1 << 3);
    /// The policy counts the page in the working set; proposal 000 calls it active.
    pub const WORKINGSET: Self = Self(1 << 4);
    /// The marker of a readahead window, on a page that is not under writeback.
    pub(crate) const READAHEAD: Self = Self(1 << 5);
    /// The page was dirty or under writeback when reclaim scanned it, and must be evicted soon
    /// after. The same bit as [`Self::READAHEAD`], as in the kernel.
    pub(crate) const RECLAIM: Self = Self::READAHEAD;
    /// The page changed since it was last submitted for writing. Set only by
    /// `Pages::set_dirty`.
    pub(crate) const DIRTY: Self = Self(1 << 6);
    /// The page was submitted for writing. Set only by `Pages::begin_writeback`.
    pub const WRITEBACK: Self = Self(1 << 7);
    /// The page belongs to an executable mapping.
    pub(crate) const EXECUTABLE: Self = Self(1 << 8);
    /// A page table maps the page. Set only by `Pages::map`.
    pub(crate) const MAPPED: Self = Self(1 << 9);
    /// The entry is a page; without this flag there is none.
    pub(super) const USED: Self = Self(1 << 10);

    const SETTABLE: u16 = 0b1_0011_1111;

    /// Returns true if any flag of `other` is set.
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
    /// The bits of an entry without a page.
    pub(super) const NONE: Self = Self(0);
    /// The bits of a new page.
    pub(super) const NEW: Self = Self(Flags::USED.0);

    /// Returns the flags.
    #[inline]
    pub const fn flags(self) -> Flags {
        Flags(self.0 & ((1 << FIELD_SHIFT) - 1))
    }

    /// Returns true if any of `flags` is set.
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

    /// Sets and clears flags; the caller updates their counts.
    #[inline]
    pub(super) const fn change(&mut self, set: Flags, clear: Flags) {
        self.0 = (self.0 | set.0) & !clear.0;
    }

    /// Returns the reference field, 0 to [`FIELD_MAX`].
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

    /// Returns which of its policy's lists the page is on, 1 to 7; 0: none.
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
