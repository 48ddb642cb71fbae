//! Requests of the transmission phase.

use crate::option::Export;
use crate::wire::{EXTENDED_REQUEST, Fields, NbdError, REQUEST, command, flag};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Bytes are read.
    Read,
    /// Bytes are written, which follow the request.
    Write,
    /// Everything that was completed becomes durable.
    Flush,
    /// A range is no longer needed; its content is undefined afterwards.
    Trim,
    /// A range is likely to be read soon.
    Cache,
    /// A range becomes zero.
    WriteZeroes {
        /// The range stays allocated.
        no_hole: bool,
        /// The request fails with [`NbdError::Unsupported`] rather than be as slow as a write.
        fast: bool,
    },
    /// The client asks which parts of a range are allocated and which are zero.
    BlockStatus {
        /// One extent is enough.
        one: bool,
    },
}

/// A valid request: its range lies in the export, and is in whole blocks if the client was told
/// the block sizes. A client that was not may ask for any range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The client's name of it, which its reply carries.
    pub cookie: u64,
    /// What it asks for.
    pub command: Command,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub length: u64,
    /// It is durable when it is answered.
    pub fua: bool,
    /// The answer to a READ is one chunk.
    pub df: bool,
}

/// The header of a request, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Why a request is refused, before a device has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The command is not known, or not offered.
    Command,
    /// It has flags, or an offset, that the command does not take.
    Malformed,
    /// The export is read-only.
    ReadOnly,
    /// Its offset or length is no multiple of the block size, which the client was told.
    Unaligned,
    /// It goes past the end of the export.
    OutOfRange,
    /// It moves more bytes than are allowed at once.
    TooLong,
}

/// Why a header cannot be followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRequest;

impl Header {
    /// Bytes of a header.
    pub(crate) const fn size(extended: bool) -> usize {
        if extended { 32 } else { 28 }
    }

    /// Reads a header; `None` if there are too few bytes. A compact header where an extended one
    /// was agreed on, which is shorter, is refused by its first four bytes, not waited for.
    pub(crate) fn parse(input: &[u8], extended: bool) -> Option<Result<Self, NoRequest>> {
        if Fields(input).u32()? != if extended { EXTENDED_REQUEST } else { REQUEST } {
            return Some(Err(NoRequest));
        }
        let mut fields = Fields(input.get(4..Self::size(extended))?);
        let (flags, command, cookie, offset) =
            (fields.u16()?, fields.u16()?, fields.u64()?, fields.u64()?);
        let length = if extended { fields.u64()? } else { u64::from(fields.u32()?) };
        Some(Ok(Self { flags, command, cookie, offset, length }))
    }

    /// Returns the bytes that follow the header. `None` if that cannot be known: a WRITE with an
    /// extended header has to say that its length is that of a payload.
    pub(crate) fn payload(&self, extended: bool) -> Option<u64> {
        let says = self.flags & flag::PAYLOAD_LEN != 0;
        match (self.command == command::WRITE, extended) {
            (true, true) => says.then_some(self.length),
            (true, false) => Some(self.length),
            (false, _) => Some(if says && extended { self.length } else { 0 }),
        }
    }

    /// Returns what it asks for, if that is known.
    pub(crate) fn asked(&self) -> Option<Command> {
        let has = |bit| self.flags & bit != 0;
        Some(match self.command {
            command::READ => Command::Read,
            command::WRITE => Command::Write,
            command::FLUSH => Command::Flush,
            command::TRIM => Command::Trim,
            command::CACHE => Command::Cache,
            command::WRITE_ZEROES => {
                Command::WriteZeroes { no_hole: has(flag::NO_HOLE), fast: has(flag::FAST_ZERO) }
            }
            command::BLOCK_STATUS => Command::BlockStatus { one: has(flag::REQ_ONE) },
            _ => return None,
        })
    }

    /// Returns the request, if an export serves it.
    pub(crate) fn check(
        &self,
        export: &Export,
        agreed: Agreed,
    ) -> Result<Request, (Reason, NbdError)> {
        let Self { flags, cookie, offset, length, .. } = *self;
        let has = |bit| flags & bit != 0;
        let is_offered = |command: &Command| match command {
            Command::Trim => export.flags.trim || export.flags.read_only,
            Command::BlockStatus { .. } => agreed.allocation,
            _ => true,
        };
        let command =
            self.asked().filter(is_offered).ok_or((Reason::Command, NbdError::Invalid))?;
        let allowed = match command {
            Command::Read if agreed.structured => flag::DF,
            Command::Write if agreed.extended => flag::PAYLOAD_LEN,
            Command::WriteZeroes { .. } if export.flags.fast_zero => {
                flag::NO_HOLE | flag::FAST_ZERO
            }
            Command::WriteZeroes { .. } => flag::NO_HOLE,
            Command::BlockStatus { .. } => flag::REQ_ONE,
            _ => 0,
        };
        if flags & !(allowed | flag::FUA) != 0 {
            return Err((Reason::Malformed, NbdError::Invalid));
        }
        let writes =
            matches!(command, Command::Write | Command::Trim | Command::WriteZeroes { .. });
        if writes && export.flags.read_only {
            return Err((Reason::ReadOnly, NbdError::Permission));
        }
        let is_empty = matches!(command, Command::BlockStatus { .. }) && length == 0;
        if is_empty || (command == Command::Flush && (offset, length) != (0, 0)) {
            return Err((Reason::Malformed, NbdError::Invalid));
        }
        let block = if agreed.blocks { u64::from(export.block) } else { 1 };
        if !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err((Reason::Unaligned, NbdError::Invalid));
        }
        if offset.checked_add(length).is_none_or(|end| end > export.size) {
            let is_full = matches!(command, Command::Write | Command::WriteZeroes { .. });
            return Err((
                Reason::OutOfRange,
                if is_full { NbdError::NoSpace } else { NbdError::Invalid },
            ));
        }
        if matches!(command, Command::Read | Command::Write) && length > u64::from(export.payload) {
            return Err((Reason::TooLong, NbdError::Overflow));
        }
        Ok(Request { cookie, command, offset, length, fua: has(flag::FUA), df: has(flag::DF) })
    }
}

/// What client and server agreed on before the transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) structured: bool,
    pub(crate) extended: bool,
    /// The context `base:allocation` is in use.
    pub(crate) allocation: bool,
    /// The client asked for the block sizes and was told them.
    pub(crate) blocks: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u16, flags: u16, offset: u64, length: u64) -> Header {
        Header { flags, command, cookie: 7, offset, length }
    }

    fn export() -> Export {
        Export { block: 512, payload: 1 << 20, ..Export::new(1 << 30) }
    }

    #[test]
    fn what_a_server_must_refuse() {
        use NbdError::{Invalid, NoSpace, Overflow, Permission};
        let all = Agreed { structured: true, extended: true, allocation: true, blocks: true };
        let end = 1 << 30;
        for (command, flags, offset, length, agreed, reason, error) in [
            (0, 0, end - 512, 1024, all, Reason::OutOfRange, Invalid),
            (1, flag::PAYLOAD_LEN, end - 512, 1024, all, Reason::OutOfRange, NoSpace),
            (6, 0, end, 512, all, Reason::OutOfRange, NoSpace),
            (4, 0, end, 512, all, Reason::OutOfRange, Invalid),
            (0, 0, u64::MAX - 511, 512, all, Reason::OutOfRange, Invalid),
            (0, 0, 1, 512, all, Reason::Unaligned, Invalid),
            (0, 0, 0, 513, all, Reason::Unaligned, Invalid),
            (0, 0, 0, (1 << 20) + 512, all, Reason::TooLong, Overflow),
            (1, flag::PAYLOAD_LEN, 0, (1 << 20) + 512, all, Reason::TooLong, Overflow),
            (3, 0, 512, 0, all, Reason::Malformed, Invalid),
            (3, 0, 0, 512, all, Reason::Malformed, Invalid),
            (7, 0, 0, 0, all, Reason::Malformed, Invalid),
            (7, 0, 0, 512, Agreed { allocation: false, ..all }, Reason::Command, Invalid),
            (0, flag::DF, 0, 512, Agreed { structured: false, ..all }, Reason::Malformed, Invalid),
            (0, flag::NO_HOLE, 0, 512, all, Reason::Malformed, Invalid),
            (0, 1 << 15, 0, 512, all, Reason::Malformed, Invalid),
            (6, flag::FAST_ZERO, 0, 512, all, Reason::Malformed, Invalid),
            (8, 0, 0, 512, all, Reason::Command, Invalid),
            (99, 0, 0, 0, all, Reason::Command, Invalid),
        ] {
            let found = header(command, flags, offset, length).check(&export(), agreed);
            assert_eq!(
                found,
                Err((reason, error)),
                "command {command} flags {flags:#x} {offset}+{length}"
            );
            // A client that was not told the block sizes is refused the same things but one.
            let found = header(command, flags, offset, length)
                .check(&export(), Agreed { blocks: false, ..agreed });
            assert_eq!(
                found.is_ok(),
                reason == Reason::Unaligned,
                "{offset}+{length} without block sizes"
            );
        }
        let mut sealed = export();
        sealed.flags.read_only = true;
        for command in [1, 4, 6] {
            assert_eq!(
                header(command, 0, 0, 512).check(&sealed, Agreed::default()),
                Err((Reason::ReadOnly, Permission))
            );
        }
    }

    #[test]
    fn a_valid_request_is_what_its_header_says() {
        let read = header(0, flag::FUA | flag::DF, 512, 1024);
        let agreed = Agreed { structured: true, ..Agreed::default() };
        let wanted = Request {
            cookie: 7,
            command: Command::Read,
            offset: 512,
            length: 1024,
            fua: true,
            df: true,
        };
        assert_eq!(read.check(&export(), agreed), Ok(wanted));
        // Zeroes may be longer than any payload.
        let zeroes = header(6, flag::NO_HOLE, 0, 1 << 29).check(&export(), agreed).expect("valid");
        assert_eq!(zeroes.command, Command::WriteZeroes { no_hole: true, fast: false });
    }

    #[test]
    fn the_payload_is_known_before_the_request_is_checked() {
        assert_eq!(header(1, 0, 0, 100).payload(false), Some(100));
        assert_eq!(header(1, 0, 0, 100).payload(true), None);
        assert_eq!(header(1, flag::PAYLOAD_LEN, 0, 100).payload(true), Some(100));
        assert_eq!(header(7, flag::PAYLOAD_LEN, 0, 100).payload(true), Some(100));
        assert_eq!(header(0, flag::PAYLOAD_LEN, 0, 100).payload(false), Some(0));
    }
}
