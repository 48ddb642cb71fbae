//! Operations in traces, and the letters (`rwbs`) that stand for them.

use std::fmt;

use elevon_core::op::{Flags, Op};

/// An operation of a bio or request: those of [`Op`], and further ones that the simulated stack
/// does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TraceOp {
    /// Read (`R`).
    Read,
    /// Write (`W`).
    Write,
    /// Flush of the device's volatile cache (`F`).
    Flush,
    /// Discard (`D`).
    Discard,
    /// Secure erase (`DE`).
    SecureErase,
    /// Write zeroes (`WZ`; older kernels print `N`, which reads as [`Self::Other`]).
    WriteZeroes,
    /// Zone append (`ZA`).
    ZoneAppend,
    /// Zone reset (`ZR`).
    ZoneReset,
    /// Reset of all zones (`ZRA`).
    ZoneResetAll,
    /// Zone open (`ZO`).
    ZoneOpen,
    /// Zone close (`ZC`).
    ZoneClose,
    /// Zone finish (`ZF`).
    ZoneFinish,
    /// A command in the device's own protocol (`N` with bytes of a command; blktrace's category
    /// PC).
    Passthrough,
    /// An operation without a letter of its own in the trace (`N`): write zeroes on older kernels,
    /// and others.
    Other,
}

impl TraceOp {
    /// Every operation.
    pub const ALL: [Self; 14] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::SecureErase,
        Self::WriteZeroes,
        Self::ZoneAppend,
        Self::ZoneReset,
        Self::ZoneResetAll,
        Self::ZoneOpen,
        Self::ZoneClose,
        Self::ZoneFinish,
        Self::Passthrough,
        Self::Other,
    ];

    /// Returns a short stable name, used in JSON, CSV and Parquet.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::SecureErase => "secure_erase",
            Self::WriteZeroes => "write_zeroes",
            Self::ZoneAppend => "zone_append",
            Self::ZoneReset => "zone_reset",
            Self::ZoneResetAll => "zone_reset_all",
            Self::ZoneOpen => "zone_open",
            Self::ZoneClose => "zone_close",
            Self::ZoneFinish => "zone_finish",
            Self::Passthrough => "passthrough",
            Self::Other => "other",
        }
    }

    /// Returns the operation with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Returns the letters that tracepoints print.
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Read => "R",
            Self::Write => "W",
            Self::Flush => "F",
            Self::Discard => "D",
            Self::SecureErase => "DE",
            Self::WriteZeroes => "WZ",
            Self::ZoneAppend => "ZA",
            Self::ZoneReset => "ZR",
            Self::ZoneResetAll => "ZRA",
            Self::ZoneOpen => "ZO",
            Self::ZoneClose => "ZC",
            Self::ZoneFinish => "ZF",
            Self::Passthrough | Self::Other => "N",
        }
    }

    /// Returns true if the operation writes or changes data on the device.
    #[inline]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::Flush | Self::Passthrough | Self::Other)
    }

    /// Returns the stack's operation; `None` if it does not have this one.
    pub(crate) const fn to_core(self) -> Option<Op> {
        Some(match self {
            Self::Read => Op::Read,
            Self::Write => Op::Write,
            Self::Flush => Op::Flush,
            Self::Discard => Op::Discard,
            Self::SecureErase => Op::SecureErase,
            Self::WriteZeroes => Op::WriteZeroes,
            Self::ZoneAppend => Op::ZoneAppend,
            Self::ZoneReset
            | Self::ZoneResetAll
            | Self::ZoneOpen
            | Self::ZoneClose
            | Self::ZoneFinish
            | Self::Passthrough
            | Self::Other => return None,
        })
    }
}

impl From<Op> for TraceOp {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            Op::Flush => Self::Flush,
            Op::Discard => Self::Discard,
            Op::SecureErase => Self::SecureErase,
            Op::ZoneAppend => Self::ZoneAppend,
            Op::WriteZeroes => Self::WriteZeroes,
        }
    }
}

/// Parses the letters of an operation: `[F]` operation `[F][A][S][M][U]`, where the first `F` is a
/// preflush and the second one FUA. `None` for letters of another form.
#[inline]
pub fn parse_rwbs(text: &[u8]) -> Option<(TraceOp, Flags)> {
    // Nearly every event of a trace has one of these.
    match text {
        b"R" => return Some((TraceOp::Read, Flags::NONE)),
        b"W" => return Some((TraceOp::Write, Flags::NONE)),
        b"WS" => return Some((TraceOp::Write, Flags::SYNC)),
        b"RA" => return Some((TraceOp::Read, Flags::RAHEAD)),
        _ => {}
    }
    let (mut flags, mut rest) = (Flags::NONE, text);
    // An F before an operation is a preflush; an F alone is the operation.
    if let [b'F', after @ ..] = rest
        && matches!(after.first(), Some(b'R' | b'W' | b'D' | b'N' | b'F' | b'Z'))
    {
        flags |= Flags::PREFLUSH;
        rest = after;
    }
    let (op, letters) = match rest {
        [b'Z', b'R', b'A', ..] => (TraceOp::ZoneResetAll, 3),
        [b'Z', b'A', ..] => (TraceOp::ZoneAppend, 2),
        [b'Z', b'R', ..] => (TraceOp::ZoneReset, 2),
        [b'Z', b'O', ..] => (TraceOp::ZoneOpen, 2),
        [b'Z', b'C', ..] => (TraceOp::ZoneClose, 2),
        [b'Z', b'F', ..] => (TraceOp::ZoneFinish, 2),
        [b'D', b'E', ..] => (TraceOp::SecureErase, 2),
        [b'W', b'Z', ..] => (TraceOp::WriteZeroes, 2),
        [b'D', ..] => (TraceOp::Discard, 1),
        [b'R', ..] => (TraceOp::Read, 1),
        [b'W', ..] => (TraceOp::Write, 1),
        [b'F', ..] => (TraceOp::Flush, 1),
        [b'N', ..] => (TraceOp::Other, 1),
        _ => return None,
    };
    rest = &rest[letters..];
    for (letter, flag) in [
        (b'F', Flags::FUA),
        (b'A', Flags::RAHEAD),
        (b'S', Flags::SYNC),
        (b'M', Flags::META),
        (b'U', Flags::ATOMIC),
    ] {
        if let [first, after @ ..] = rest
            && *first == letter
        {
            flags |= flag;
            rest = after;
        }
    }
    rest.is_empty().then_some((op, flags))
}

/// Prints operation and flags as tracepoints do; absent flags print as none.
#[derive(Clone, Copy, Debug)]
pub struct TraceRwbs(pub Option<TraceOp>, pub Option<Flags>);

impl fmt::Display for TraceRwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.1.unwrap_or_default();
        let mut put = |on: bool, text: &str| if on { f.write_str(text) } else { Ok(()) };
        put(flags.contains(Flags::PREFLUSH), "F")?;
        put(true, self.0.map_or("N", TraceOp::letters))?;
        put(flags.contains(Flags::FUA), "F")?;
        put(flags.contains(Flags::RAHEAD), "A")?;
        put(flags.contains(Flags::SYNC), "S")?;
        put(flags.contains(Flags::META), "M")?;
        put(flags.contains(Flags::ATOMIC), "U")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_operations() {
        for (text, op, flags) in [
            ("R", TraceOp::Read, Flags::NONE),
            ("RA", TraceOp::Read, Flags::RAHEAD),
            ("FF", TraceOp::Flush, Flags::PREFLUSH),
            ("F", TraceOp::Flush, Flags::NONE),
            ("FWFS", TraceOp::Write, Flags::PREFLUSH | Flags::FUA | Flags::SYNC),
            ("FWS", TraceOp::Write, Flags::PREFLUSH | Flags::SYNC),
            ("WFS", TraceOp::Write, Flags::FUA | Flags::SYNC),
            ("WSM", TraceOp::Write, Flags::SYNC | Flags::META),
            ("WSMU", TraceOp::Write, Flags::SYNC | Flags::META | Flags::ATOMIC),
            ("DS", TraceOp::Discard, Flags::SYNC),
            ("DE", TraceOp::SecureErase, Flags::NONE),
            ("WZS", TraceOp::WriteZeroes, Flags::SYNC),
            ("N", TraceOp::Other, Flags::NONE),
            ("ZRA", TraceOp::ZoneResetAll, Flags::NONE),
            ("ZAS", TraceOp::ZoneAppend, Flags::SYNC),
        ] {
            assert_eq!(parse_rwbs(text.as_bytes()), Some((op, flags)), "{text}");
            assert_eq!(TraceRwbs(Some(op), Some(flags)).to_string(), text);
        }
        for text in ["", "Q", "RR", "WX", "SW", "Z"] {
            assert_eq!(parse_rwbs(text.as_bytes()), None, "{text}");
        }
    }
}
