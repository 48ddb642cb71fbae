//! Operations and flags of bios and requests.
//!
//! Numbers are Linux's (`REQ_OP_*`), so that traces and statistics can be compared.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// A block operation. Odd numbers move data to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read data.
    Read = 0,
    /// Write data.
    Write = 1,
    /// Empty the device's volatile cache. Only a request can have this operation; a bio carries
    /// [`Flags::PREFLUSH`].
    Flush = 2,
    /// Tell the device that sectors are unused.
    Discard = 3,
    /// Erase so that data cannot come back.
    SecureErase = 5,
    /// Append to a zone; never split.
    ZoneAppend = 7,
    /// Write zeroes without a payload.
    WriteZeroes = 9,
}

/// The three groups for which statistics are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StatGroup {
    /// Reads.
    Read = 0,
    /// All operations that write to the device, except discards.
    Write = 1,
    /// Discards.
    Discard = 2,
}

impl StatGroup {
    /// The name of each group in reports, in their order.
    pub const NAMES: [&'static str; 3] = ["read", "write", "discard"];
}

impl Op {
    /// Returns true if data (or intent) goes to the device: the operation number is odd.
    #[inline]
    pub const fn is_write(self) -> bool {
        self as u8 & 1 == 1
    }
    /// Returns true if the operation has a data buffer.
    #[inline]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::ZoneAppend)
    }
    /// The diskstats group that counts the operation.
    #[inline]
    pub const fn stat_group(self) -> StatGroup {
        match self {
            Self::Discard => StatGroup::Discard,
            _ if self.is_write() => StatGroup::Write,
            _ => StatGroup::Read,
        }
    }
}

/// Flags of a bio or request, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// A task waits for the I/O.
    pub const SYNC: Self = Self(1);
    /// File-system metadata.
    pub const META: Self = Self(1 << 1);
    /// Never merge.
    pub(crate) const NOMERGE: Self = Self(1 << 3);
    /// More I/O is expected after this one (direct writes).
    pub const IDLE: Self = Self(1 << 4);
    /// Durable before completion (force unit access).
    pub const FUA: Self = Self(1 << 5);
    /// Empty the volatile cache first.
    pub const PREFLUSH: Self = Self(1 << 6);
    /// Read-ahead: may fail at any time and is not retried.
    pub const RAHEAD: Self = Self(1 << 7);
    /// Background writeback.
    pub const BACKGROUND: Self = Self(1 << 8);
    /// Fail with EAGAIN rather than wait.
    pub const NOWAIT: Self = Self(1 << 9);
    /// The completion is polled for.
    pub(crate) const POLLED: Self = Self(1 << 10);
    /// Do not retry device errors.
    pub(crate) const FAILFAST_DEV: Self = Self(1 << 11);
    /// Do not retry transport errors.
    pub(crate) const FAILFAST_TRANSPORT: Self = Self(1 << 12);
    /// Do not retry driver errors.
    pub(crate) const FAILFAST_DRIVER: Self = Self(1 << 13);
    /// Write all or nothing (6.11 and later).
    pub const ATOMIC: Self = Self(1 << 15);
    /// Of a call, never of a bio: an `O_DSYNC` write. The data is durable when the call ends.
    pub const DSYNC: Self = Self(1 << 16);
    /// Of a call, never of a bio: the caller sleeps until the call has ended (a synchronous
    /// engine).
    pub const WAITED: Self = Self(1 << 17);
    /// The I/O priority is that of this I/O alone (`aio_reqprio`); its process has another.
    pub const OWN_PRIO: Self = Self(1 << 18);

    /// Of a call, never of a bio: it is tried without waiting (io_uring). What would have to be
    /// split, or finds no tag, is done by a worker, from the beginning.
    pub const TRIED: Self = Self(1 << 19);

    /// Returns true if every flag of `other` is set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Returns true if any flag of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// Returns these flags and those of `other`.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Returns these flags without those of `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// The raw bits.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}
impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

/// Returns true if the kernel calls the operation *sync*: a read, or a write flagged SYNC, FUA or
/// PREFLUSH.
#[inline]
pub const fn is_sync(op: Op, flags: Flags) -> bool {
    matches!(op, Op::Read) || flags.intersects(Flags::SYNC.with(Flags::FUA).with(Flags::PREFLUSH))
}

/// The `rwbs` column of block tracepoints: `[F]` op `[F][A][S][M][U]`.
#[derive(Clone, Copy, Debug)]
pub struct Rwbs(pub Op, pub Flags);

impl fmt::Display for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(op, flags) = *self;
        let mut put = |on: bool, text: &str| if on { f.write_str(text) } else { Ok(()) };
        put(flags.contains(Flags::PREFLUSH), "F")?;
        put(
            true,
            match op {
                Op::Read => "R",
                Op::Write => "W",
                Op::Discard => "D",
                Op::SecureErase => "DE",
                Op::Flush => "F",
                Op::ZoneAppend | Op::WriteZeroes => "N",
            },
        )?;
        put(flags.contains(Flags::FUA), "F")?;
        put(flags.contains(Flags::RAHEAD), "A")?;
        put(flags.contains(Flags::SYNC), "S")?;
        put(flags.contains(Flags::META), "M")?;
        put(flags.contains(Flags::ATOMIC), "U")
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn rwbs_as_traces_print_it() {
        for (op, flags, text) in [
            (Op::Read, Flags::NONE, "R"),
            (Op::Read, Flags::RAHEAD, "RA"),
            (Op::Write, Flags::SYNC | Flags::IDLE, "WS"),
            (Op::Write, Flags::PREFLUSH | Flags::FUA | Flags::SYNC, "FWFS"),
            (Op::Flush, Flags::PREFLUSH, "FF"),
            (Op::Discard, Flags::SYNC, "DS"),
            (Op::WriteZeroes, Flags::NONE, "N"),
        ] {
            assert_eq!(Rwbs(op, flags).to_string(), text);
        }
    }

    #[test]
    fn write_zeroes_and_secure_erase_count_as_writes() {
        assert_eq!(Op::WriteZeroes.stat_group(), StatGroup::Write);
        assert_eq!(Op::SecureErase.stat_group(), StatGroup::Write);
        assert_eq!(Op::Discard.stat_group(), StatGroup::Discard);
        assert_eq!(Op::Flush.stat_group(), StatGroup::Read);
    }
}
