//! Kinds of requests that have a limit of their own, and which kinds wait in which class.

/// Kinds of requests with a limit of their own: 0 reads and the rest, 1 writes.
pub(super) const KINDS: usize = 2;

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub(super) const NONE: Self = Self(0);
    /// All kinds.
    pub(super) const ALL: Self = Self(3);
    /// Reads and the rest.
    pub(super) const READS: Self = Self(1);
    /// Writes.
    pub(super) const WRITES: Self = Self(2);

    pub(super) const fn from_kind(kind: usize) -> Self {
        Self(1 << kind)
    }
    pub(super) const fn has(self, kind: usize) -> bool {
        self.0 >> kind & 1 == 1
    }
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    pub(super) const fn has_any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Classes that wait, by the kinds of their next requests: [`KINDS`] bits for each class, the most
/// urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits(u8);

impl Waits {
    /// Every class, with these kinds.
    #[inline]
    const fn all(kinds: Kinds) -> Self {
        Self(kinds.0 | kinds.0 << KINDS | kinds.0 << (2 * KINDS))
    }

    #[inline]
    pub(super) const fn insert(&mut self, class: usize, kind: usize) {
        self.0 |= 1 << (class * KINDS + kind);
    }

    #[inline]
    pub(super) const fn contains(self, class: usize, kind: usize) -> bool {
        self.0 >> (class * KINDS + kind) & 1 == 1
    }

    #[inline]
    pub(super) const fn remove(&mut self, class: usize, kind: usize) {
        self.0 &= !(1 << (class * KINDS + kind));
    }

    /// Returns the kinds that wait in any class.
    #[inline]
    pub(super) const fn kinds(self) -> Kinds {
        Kinds((self.0 | self.0 >> KINDS | self.0 >> (2 * KINDS)) & Kinds::ALL.0)
    }

    /// Returns the most urgent class that waits with one of these kinds, and the others that do.
    #[inline]
    pub(super) const fn first(self, kinds: Kinds) -> Option<(usize, Self)> {
        let waits = self.0 & Self::all(kinds).0;
        if waits == 0 {
            return None;
        }
        let class = waits.trailing_zeros() as usize / KINDS;
        Some((class, Self(waits & !(Kinds::ALL.0 << (class * KINDS)))))
    }

    #[inline]
    pub(super) const fn has(self, class: usize) -> bool {
        self.0 >> (class * KINDS) & Kinds::ALL.0 != 0
    }

    /// Returns true if a class above this one waits.
    #[inline]
    pub(super) const fn has_above(self, class: usize) -> bool {
        self.0 & ((1 << (class * KINDS)) - 1) != 0
    }
}
