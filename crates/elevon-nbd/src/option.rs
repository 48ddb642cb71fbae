//! Exports, and the options by which a client chooses one.

use crate::wire::{Fields, Put, answer, info};

/// The only context that is known.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";

/// What an export can do, as the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmissionFlags {
    /// Nothing can be written.
    pub read_only: bool,
    /// The device has a seek time.
    pub rotational: bool,
    /// Ranges can be given back.
    pub trim: bool,
    /// A flush on one connection covers what was completed on every other.
    pub multi_conn: bool,
    /// Zeroes can be written faster than data, or the request fails at once.
    pub fast_zero: bool,
}

impl TransmissionFlags {
    const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    const SEND_CACHE: u16 = 1 << 10;
    const SEND_FAST_ZERO: u16 = 1 << 11;

    /// Returns the word on the wire. FLUSH, FUA, CACHE and WRITE_ZEROES are always offered, DF with
    /// structured replies.
    pub(crate) fn word(self, structured: bool) -> u16 {
        let mut word = Self::HAS_FLAGS | Self::SEND_FLUSH | Self::SEND_FUA | Self::SEND_CACHE;
        for (is_set, bit) in [
            (self.read_only, Self::READ_ONLY),
            (self.rotational, Self::ROTATIONAL),
            (self.trim && !self.read_only, Self::SEND_TRIM),
            (!self.read_only, Self::SEND_WRITE_ZEROES),
            (structured, Self::SEND_DF),
            (self.multi_conn, Self::CAN_MULTI_CONN),
            (self.fast_zero && !self.read_only, Self::SEND_FAST_ZERO),
        ] {
            if is_set {
                word |= bit;
            }
        }
        word
    }
}

/// A disk that a client may open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Bytes.
    pub size: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// Offsets and lengths of requests of a client that asks for block sizes are multiples of it:
    /// a power of two up to 64 KiB.
    pub block: u32,
    /// The size in bytes at which requests are served best: a power of two, at least 512 and
    /// [`Self::block`].
    pub preferred: u32,
    /// The most bytes that a READ or WRITE moves: a multiple of [`Self::block`].
    pub payload: u32,
    /// A text for people.
    pub description: String,
}

impl Export {
    /// The size up to which every request is served if the client did not ask for block sizes.
    pub const PAYLOAD: u32 = 32 << 20;

    /// Creates an export that can be read and written at any byte.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            flags: TransmissionFlags {
                read_only: false,
                rotational: false,
                trim: true,
                multi_conn: true,
                fast_zero: false,
            },
            block: 1,
            preferred: 4096,
            payload: Self::PAYLOAD,
            description: String::new(),
        }
    }

    /// Returns true if its sizes are what the protocol allows.
    pub fn is_valid(&self) -> bool {
        self.block.is_power_of_two()
            && self.block <= 64 << 10
            && self.preferred.is_power_of_two()
            && self.preferred >= self.block.max(512)
            && self.payload > 0
            && self.payload.is_multiple_of(self.block)
            && self.size.is_multiple_of(u64::from(self.block))
    }
}

/// Why a client may not open an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of that name.
    #[error("no export of this name")]
    Unknown,
    /// It exists, but not for this client.
    #[error("not for this client")]
    Policy,
    /// As many connections as are allowed have it open.
    #[error("too many connections")]
    Full,
    /// It is only given through TLS.
    #[error("needs TLS")]
    NeedsTls,
    /// The server is ending.
    #[error("the server is shutting down")]
    Shutdown,
}

impl Refusal {
    pub(crate) const fn answer(self) -> u32 {
        match self {
            Self::Unknown => answer::UNKNOWN,
            Self::Policy | Self::Full => answer::POLICY,
            Self::NeedsTls => answer::TLS_REQUIRED,
            Self::Shutdown => answer::SHUTDOWN,
        }
    }
}

/// The exports as one client may see them.
pub trait Exports {
    /// Returns the names that are listed, each of up to 4096 bytes.
    fn names(&self) -> Vec<String>;

    /// Returns the first export that is listed at a place or behind it, with its place and its
    /// name; `None` behind the last. A server with many exports does this without making the
    /// whole list.
    fn listed(&self, from: usize) -> Option<(usize, String)> {
        self.names().into_iter().nth(from).map(|name| (from, name))
    }

    /// Returns an export; the empty name asks for the default one.
    ///
    /// # Errors
    /// The client may not have it.
    fn export(&self, name: &str) -> Result<Export, Refusal>;

    /// Returns the name under which an export is listed: that of the default one, for which clients
    /// also ask by the empty name, may be another.
    fn listed_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Returns what is listed of an export beside its name, up to 4096 bytes. A server that counts
    /// whom it refuses does not do it here: a client that lists asks for no export.
    fn description(&self, name: &str) -> String {
        self.export(name).map(|export| export.description).unwrap_or_default()
    }

    /// Opens an export: requests of the client follow. A server that counts who has what open does
    /// it here. Otherwise the same as [`Self::export`].
    ///
    /// # Errors
    /// The client may not have it, or not now.
    fn open(&self, name: &str) -> Result<Export, Refusal> {
        self.export(name)
    }
}

/// An item of information about an export that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information {
    /// Its name.
    Name,
    /// Its description.
    Description,
    /// Its block sizes.
    BlockSize,
}

/// The payload of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a str,
    pub(crate) items: Vec<Information>,
}

/// The longest name or query in bytes.
const STRING_MAX: usize = 4096;

/// Returns a string that the protocol allows.
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    let is_allowed = bytes.len() <= STRING_MAX && !bytes.contains(&0);
    std::str::from_utf8(bytes).ok().filter(|_| is_allowed)
}

impl<'a> Asked<'a> {
    /// Reads the payload of INFO or GO; `None` if it is not valid. Items that are not known are
    /// left out, and so are repeated ones.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let name = string(fields.string()?)?;
        let count = fields.u16()?;
        if fields.0.len() != 2 * usize::from(count) {
            return None;
        }
        let mut items = Vec::new();
        while let Some(item) = fields.u16() {
            let item = match item {
                info::NAME => Information::Name,
                info::DESCRIPTION => Information::Description,
                info::BLOCK_SIZE => Information::BlockSize,
                _ => continue,
            };
            if !items.contains(&item) {
                items.push(item);
            }
        }
        Some(Self { name, items })
    }

    /// Appends the items of information of an export, which is listed under this name, each as an
    /// answer to `option`.
    pub(crate) fn answer(
        &self,
        out: &mut Vec<u8>,
        option: u32,
        (name, export): (&str, &Export),
        structured: bool,
    ) {
        let mut item = Vec::new();
        item.u16(info::EXPORT);
        item.u64(export.size);
        item.u16(export.flags.word(structured));
        answer_option(out, option, answer::INFO, &item);
        for asked in &self.items {
            item.clear();
            match asked {
                Information::Name => {
                    item.u16(info::NAME);
                    item.extend_from_slice(name.as_bytes());
                }
                Information::Description => {
                    item.u16(info::DESCRIPTION);
                    item.extend_from_slice(export.description.as_bytes());
                }
                Information::BlockSize => {
                    item.u16(info::BLOCK_SIZE);
                    item.u32(export.block);
                    item.u32(export.preferred);
                    item.u32(export.payload);
                }
            }
            answer_option(out, option, answer::INFO, &item);
        }
    }
}

/// The payload of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Queries<'a> {
    pub(crate) name: &'a str,
    pub(crate) queries: Vec<&'a str>,
}

impl<'a> Queries<'a> {
    /// Reads the payload; `None` if it is not valid.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let name = string(fields.string()?)?;
        let count = fields.u32()?;
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(string(fields.string()?)?);
        }
        fields.0.is_empty().then_some(Self { name, queries })
    }
}

/// Appends an answer to an option.
pub(crate) fn answer_option(out: &mut Vec<u8>, option: u32, kind: u32, payload: &[u8]) {
    out.u64(crate::wire::OPTION_REPLY);
    out.u32(option);
    out.u32(kind);
    out.u32(payload.len() as u32);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &[u8], items: &[u16]) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.u32(name.len() as u32);
        payload.extend_from_slice(name);
        payload.u16(items.len() as u16);
        items.iter().for_each(|item| payload.u16(*item));
        payload
    }

    #[test]
    fn items_that_are_not_known_or_repeated_are_left_out() {
        let payload = asked(b"disk", &[3, 77, 3, 1, 0]);
        let parsed = Asked::parse(&payload).expect("valid");
        assert_eq!(
            parsed,
            Asked { name: "disk", items: vec![Information::BlockSize, Information::Name] }
        );
    }

    #[test]
    fn lengths_that_do_not_match_are_not_valid() {
        let good = asked(b"disk", &[3]);
        for cut in 0..good.len() {
            assert_eq!(Asked::parse(&good[..cut]), None, "{cut}");
        }
        assert_eq!(Asked::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(Asked::parse(&asked(b"a\0b", &[])), None, "a zero byte");
        assert_eq!(Asked::parse(&asked(&[0xff], &[])), None, "no UTF-8");
        assert_eq!(Asked::parse(&asked(&[b'a'; 4097], &[])), None, "too long");
    }

    #[test]
    fn queries_fill_their_payload_exactly() {
        let mut payload = asked(b"", &[])[..4].to_vec();
        payload.u32(2);
        for query in ["base:", "x"] {
            payload.u32(query.len() as u32);
            payload.extend_from_slice(query.as_bytes());
        }
        assert_eq!(Queries::parse(&payload).map(|found| found.queries), Some(vec!["base:", "x"]));
        assert_eq!(Queries::parse(&[&payload[..], &[1]].concat()), None);
        payload[7] = 3;
        assert_eq!(Queries::parse(&payload), None, "one more is promised than there is");
    }

    #[test]
    fn sizes_are_held_to_the_protocol() {
        let valid = Export::new(1 << 20);
        assert!(valid.is_valid());
        for wrong in [
            Export { block: 3, ..valid.clone() },
            Export { block: 128 << 10, preferred: 128 << 10, ..valid.clone() },
            Export { preferred: 256, ..valid.clone() },
            Export { block: 4096, preferred: 512, ..valid.clone() },
            Export { block: 4096, payload: 6000, ..valid.clone() },
            Export { block: 4096, size: 5000, ..valid.clone() },
            Export { payload: 0, ..valid.clone() },
        ] {
            assert!(!wrong.is_valid(), "{wrong:?}");
        }
    }

    #[test]
    fn a_read_only_export_offers_no_command_that_writes() {
        let flags = TransmissionFlags {
            read_only: true,
            rotational: true,
            trim: true,
            multi_conn: true,
            fast_zero: true,
        };
        assert_eq!(flags.word(false), 1 | 2 | 4 | 8 | 16 | 1 << 8 | 1 << 10);
        let writable = TransmissionFlags { read_only: false, rotational: false, ..flags };
        assert_eq!(writable.word(true), 1 | 4 | 8 | 32 | 64 | 128 | 1 << 8 | 1 << 10 | 1 << 11);
    }
}
