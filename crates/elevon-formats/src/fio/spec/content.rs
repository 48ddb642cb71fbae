//! What a job writes, and how it checks what it reads.

use std::sync::Arc;

/// What a job writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `zero_buffers`: the content is zeroes.
    pub zeroes: bool,
    /// `buffer_pattern`: bytes that are repeated.
    pub pattern: Option<Arc<[u8]>>,
    /// `refill_buffers`: each write has new content.
    pub refill: bool,
    /// `write_hint`; 0: none.
    pub write_hint: u8,
}

/// Content checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The method; `None`: no verification.
    pub method: Option<VerifyMethod>,
    /// `do_verify`: written blocks are read back and checked at the end of a write phase.
    pub after_write: bool,
    /// `verify_fatal`: the first mismatch ends the job.
    pub fatal: bool,
    /// `verify_interval` in bytes; 0: one header per block.
    pub interval: u64,
    /// `verify_pattern`, with zeroes in the places of `pattern_offsets`.
    pub pattern: Arc<[u8]>,
    /// The places in `pattern` of `%o`: 8 bytes with the block's offset, low byte first.
    pub pattern_offsets: Vec<u16>,
    /// `verify_backlog`: verify after this many writes; 0: at the end.
    pub backlog: u64,
    /// `verify_only`: write nothing, and check what an earlier run wrote.
    pub only: bool,
}

impl Default for Verify {
    /// Returns no verification; with a method, written blocks are read back.
    fn default() -> Self {
        Self {
            method: None,
            after_write: true,
            fatal: false,
            interval: 0,
            pattern: Arc::default(),
            pattern_offsets: Vec::new(),
            backlog: 0,
            only: false,
        }
    }
}

/// `verify=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMethod {
    /// A header with a CRC-32C of the block.
    Crc32c,
    /// `verify_pattern` repeated.
    Pattern,
    /// The content of the buffer follows from its offset (a seeded sequence); no header.
    Meta,
    /// Names of other checksums (md5, sha256, xxhash ...), run as [`Self::Crc32c`] with a warning.
    Other,
    /// `null`: nothing is verified.
    Null,
}
