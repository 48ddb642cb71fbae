//! Units as types: positions, counts, spans and keys that cannot be mixed up.
//!
//! A *sector* is always 512 bytes, whatever the logical block size; a *page* is 4096 bytes. Only
//! meaningful arithmetic exists: `Instant - Instant = Nanos`, `Sector + Sectors = Sector`, and no
//! `Instant + Instant`. What is not meaningful does not compile:
//!
//! ```
//! # use elevon_core::units::{Bytes, Instant, Nanos, Sector, Sectors};
//! let sector: Sector = Sector::new(8) + Sectors::new(8);
//! let instant: Instant = Instant::new(1) + Nanos::new(1);
//! # let _: Bytes = (sector - Sector::new(0)).bytes();
//! # let _: Nanos = instant - Instant::ZERO;
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::{Bytes, Sector};
//! let bytes_are_no_sectors = Sector::new(8) + Bytes::new(8);
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::Instant;
//! let no_sum_of_instants = Instant::new(1) + Instant::new(1);
//! ```
//!
//! A position in a file, a position on a device and the index of a page are three types, each with
//! its own distance:
//!
//! ```
//! # use elevon_core::units::{Bytes, DeviceOffset, FileOffset, PageCount, PageIndex};
//! let page: PageIndex = (FileOffset::new(4096) + Bytes::new(5)).page();
//! assert_eq!(page + PageCount::new(2), PageIndex::new(3));
//! # let _: Bytes = DeviceOffset::new(8) - DeviceOffset::ZERO;
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::{FileOffset, PageIndex};
//! let an_offset_is_no_page: PageIndex = FileOffset::new(4096);
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::{DeviceOffset, FileOffset};
//! let a_place_on_the_device_is_none_in_a_file = FileOffset::ZERO == DeviceOffset::ZERO;
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::{Bytes, PageIndex};
//! let bytes_are_no_pages = PageIndex::new(1) + Bytes::new(4096);
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::FileOffset;
//! let no_sum_of_offsets = FileOffset::new(1) + FileOffset::new(1);
//! ```
//!
//! ```compile_fail,E0308
//! # use elevon_core::units::{RequestId, TaskId};
//! let a_task_is_no_request: RequestId = TaskId(1);
//! ```

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes in a sector.
pub const SECTOR_SIZE: u64 = 512;
/// log2 of [`SECTOR_SIZE`].
pub(crate) const SECTOR_SHIFT: u32 = 9;
/// Bytes in a page of memory.
pub const PAGE_SIZE: u64 = 4096;
/// Sectors in a page of memory.
pub const PAGE_SECTORS: u64 = PAGE_SIZE / SECTOR_SIZE;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);
        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value.
            pub const MAX: Self = Self(u64::MAX);
            /// Makes a value from a plain number in this unit.
            #[inline]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }
            /// Returns the plain number in this unit.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
            /// Returns true if this is zero.
            #[inline]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
    };
}
macro_rules! count {
    ($(#[$doc:meta])* $name:ident) => {
        quantity!($(#[$doc])* $name);
        impl $name {
            /// Returns `self - other`, or zero if that would be negative.
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
    };
}

count!(
    /// A count of 512-byte sectors.
    Sectors
);
count!(
    /// A count of bytes.
    Bytes
);
count!(
    /// A count of pages of memory.
    PageCount
);
count!(
    /// A span of time in nanoseconds.
    Nanos
);
quantity!(
    /// A position on a device, in 512-byte sectors from its start.
    Sector
);
quantity!(
    /// A position on a device, in bytes from its start.
    DeviceOffset
);
quantity!(
    /// A position in a file, in bytes from its start.
    FileOffset
);
quantity!(
    /// The position of a page in a file, in pages from its start.
    PageIndex
);
quantity!(
    /// A point on the clock that drives the stack, in nanoseconds since the run began.
    Instant
);

impl Sectors {
    /// Returns the same amount in bytes.
    #[inline]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 << SECTOR_SHIFT)
    }
}

impl Bytes {
    /// Returns the same amount in sectors, rounded down.
    #[inline]
    pub const fn sectors_floor(self) -> Sectors {
        Sectors(self.0 >> SECTOR_SHIFT)
    }
    /// Returns the same amount in sectors, rounded up.
    #[inline]
    pub const fn sectors_ceil(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR_SIZE))
    }
}

impl Sector {
    /// Returns the byte position of the sector's start.
    #[inline]
    pub const fn byte_offset(self) -> DeviceOffset {
        DeviceOffset(self.0 << SECTOR_SHIFT)
    }
}

impl PageCount {
    /// Returns the same amount in bytes.
    #[inline]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * PAGE_SIZE)
    }
}

impl DeviceOffset {
    /// Returns the sector that holds the byte.
    #[inline]
    pub const fn sector(self) -> Sector {
        Sector(self.0 >> SECTOR_SHIFT)
    }
    /// Returns the position `bytes` later, or the largest one.
    #[inline]
    pub const fn saturating_add(self, bytes: Bytes) -> Self {
        Self(self.0.saturating_add(bytes.0))
    }
}

impl FileOffset {
    /// Returns the page that holds the byte.
    #[inline]
    pub const fn page(self) -> PageIndex {
        PageIndex(self.0 / PAGE_SIZE)
    }
    /// Returns the first page that begins at or after the byte.
    #[inline]
    pub const fn page_ceil(self) -> PageIndex {
        PageIndex(self.0.div_ceil(PAGE_SIZE))
    }
    /// Returns the number of bytes between the start of its page and the byte.
    #[inline]
    pub const fn in_page(self) -> u32 {
        (self.0 % PAGE_SIZE) as u32
    }
    /// Returns the position `bytes` later, or the largest one.
    #[inline]
    pub const fn saturating_add(self, bytes: Bytes) -> Self {
        Self(self.0.saturating_add(bytes.0))
    }
}

impl PageIndex {
    /// Returns the position of the page's first byte.
    #[inline]
    pub const fn start(self) -> FileOffset {
        FileOffset(self.0 * PAGE_SIZE)
    }
    /// Returns the page after this one.
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
    /// Returns the page before this one, which is not the first.
    #[inline]
    pub const fn previous(self) -> Self {
        Self(self.0 - 1)
    }
    /// Returns the pages from this one to the one before `end`.
    #[inline]
    pub fn until(self, end: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..end.0).map(Self)
    }
    /// Returns the page `pages` later, or the largest one.
    #[inline]
    pub const fn saturating_add(self, pages: PageCount) -> Self {
        Self(self.0.saturating_add(pages.0))
    }
}

impl Nanos {
    /// Makes a span of microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// Makes a span of milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// Makes a span of seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// Returns whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Instant {
    /// Returns the time since an earlier instant; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
    /// Returns the instant `span` later, or the end of time.
    #[inline]
    pub const fn saturating_add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Arithmetic of a position and its distance.
macro_rules! position {
    ($position:ident, $distance:ident) => {
        impl Add<$distance> for $position {
            type Output = Self;
            #[inline]
            fn add(self, distance: $distance) -> Self {
                Self(self.0 + distance.0)
            }
        }
        impl Sub for $position {
            type Output = $distance;
            #[inline]
            fn sub(self, other: Self) -> $distance {
                $distance(self.0 - other.0)
            }
        }
    };
}
position!(Sector, Sectors);
position!(DeviceOffset, Bytes);
position!(FileOffset, Bytes);
position!(PageIndex, PageCount);
position!(Instant, Nanos);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{}ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, milli) = (self.0 / unit, self.0 % unit * 1000 / unit);
        match milli {
            0 => write!(f, "{whole}{name}"),
            _ if milli % 100 == 0 => write!(f, "{whole}.{}{name}", milli / 100),
            _ if milli % 10 == 0 => write!(f, "{whole}.{:02}{name}", milli / 10),
            _ => write!(f, "{whole}.{milli:03}{name}"),
        }
    }
}

macro_rules! key {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);
        impl $name {
            /// Returns the key as an index into its table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

key!(
    /// A process (task) that submits I/O. Assigned by the source, dense from 0.
    TaskId(u32)
);
key!(
    /// A node of the tenant tree that a bio is charged to; 0 is the root.
    TenantId(u32)
);
key!(
    /// A bio in the stack's bio table.
    BioId(u32)
);
key!(
    /// A request in the stack's request table.
    RequestId(u32)
);
key!(
    /// A hardware queue (hctx), dense from 0.
    HwQueue(u16)
);
key!(
    /// A tag of one hardware queue, `0..depth`.
    Tag(u32)
);
key!(
    /// The physical layout of a user buffer, registered with the stack.
    LayoutId(u32)
);

impl TaskId {
    /// No task: the context of completions (`<idle>-0` in a trace).
    pub const IDLE: Self = Self(u32::MAX);
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn only_meaningful_arithmetic() {
        assert_eq!(Sector::new(8) + Sectors::new(4), Sector::new(12));
        assert_eq!(Sector::new(12) - Sector::new(8), Sectors::new(4));
        assert_eq!(Instant::new(5) + Nanos::new(7) - Instant::new(5), Nanos::new(7));
        assert_eq!(
            PageIndex::new(2).start() + Bytes::new(5) - FileOffset::new(8192),
            PageCount::new(1).bytes() - Bytes::new(4091)
        );
        let at = FileOffset::new(8193);
        assert_eq!(
            (at.page(), at.page_ceil(), at.in_page()),
            (PageIndex::new(2), PageIndex::new(3), 1)
        );
        assert!(
            PageIndex::new(2).until(PageIndex::new(4)).eq([PageIndex::new(2), PageIndex::new(3)])
        );
        assert_eq!((DeviceOffset::new(1023) + Bytes::new(1)).sector(), Sector::new(2));
        assert_eq!(Bytes::new(513).sectors_ceil(), Sectors::new(2));
        assert_eq!(Bytes::new(1023).sectors_floor(), Sectors::new(1));
    }

    #[test]
    fn spans_print_their_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.5us"),
            (2_000_000, "2ms"),
            (30_000_000_000, "30s"),
        ] {
            assert_eq!(Nanos::new(ns).to_string(), text);
        }
    }
}
