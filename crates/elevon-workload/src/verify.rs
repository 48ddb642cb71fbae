//! Contents of buffers: the data of a write, and the check of a read.
//!
//! A verified block is a sequence of chunks (`verify_interval`, or the whole block), each with a
//! header of 32 bytes and seeded content; the header's CRC-32C covers the rest of the chunk. The
//! layout is Elevon's own, so blocks written by fio cannot be checked. `pattern` has no header: the
//! block is the pattern, repeated. All numbers are little endian.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crc32c::crc32c;
use elevon_core::units::{Bytes, DeviceOffset};
use elevon_formats::fio::spec::{JobSpec, VerifyMethod};

use crate::chance::Rng;

const MAGIC: u32 = 0x4e56_4c45; // "ELVN"
/// Number of bytes of a header.
pub const HEADER_BYTES: usize = 32;

/// Fills a buffer with random bytes of a seed.
pub(crate) fn fill_random(buffer: &mut [u8], seed: u64) {
    let mut rng = Rng::new(seed);
    let (words, rest) = buffer.as_chunks_mut::<8>();
    for word in words {
        *word = rng.next_u64().to_le_bytes();
    }
    let last = rng.next_u64().to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Fills a buffer with a pattern, repeated from its start.
pub(crate) fn fill_pattern(buffer: &mut [u8], pattern: &[u8]) {
    if pattern.is_empty() {
        buffer.fill(0);
        return;
    }
    for chunk in buffer.chunks_mut(pattern.len()) {
        chunk.copy_from_slice(&pattern[..chunk.len()]);
    }
}

/// A block that was written and not yet verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) len: Bytes,
    pub(crate) generation: u32,
}

/// The verification of one process.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    pub(crate) method: VerifyMethod,
    interval: u64,
    pattern: Arc<[u8]>,
    /// The places in the pattern that hold the block's offset.
    pattern_offsets: Vec<u16>,
    seed: u64,
    generation: u32,
    written: BTreeMap<DeviceOffset, Written>,
}

impl Verifier {
    /// Returns `None` if the job does not verify.
    pub(crate) fn new(spec: &JobSpec, seed: u64) -> Option<Self> {
        let verify = &spec.verify;
        // A pattern of no bytes compares nothing.
        let method = match verify.method? {
            VerifyMethod::Pattern if verify.pattern.is_empty() => VerifyMethod::Null,
            method => method,
        };
        // The content of `meta` follows from the offset alone, so another job or another run can
        // check it.
        let seed = if method == VerifyMethod::Meta { 0 } else { seed };
        Some(Self {
            method,
            interval: verify.interval,
            pattern: verify.pattern.clone(),
            pattern_offsets: verify.pattern_offsets.clone(),
            seed,
            generation: 0,
            written: BTreeMap::new(),
        })
    }

    /// Records the start of a write to this range. It replaces the blocks that it overlaps, since
    /// only intact blocks are verified. Returns the generation for its headers.
    pub(crate) fn on_write(&mut self, offset: DeviceOffset, len: Bytes) -> u32 {
        self.generation += 1;
        let before = self
            .written
            .range(..offset)
            .next_back()
            .map(|(at, w)| (*at, w.len))
            .filter(|&(at, len)| at + len > offset)
            .map(|(at, _)| at);
        if let Some(at) = before {
            self.written.remove(&at);
        }
        while let Some(at) = self.written.range(offset..offset + len).next().map(|(at, _)| *at) {
            self.written.remove(&at);
        }
        self.written.insert(offset, Written { len, generation: self.generation });
        self.generation
    }

    /// Forgets a range whose content is unknown, because it was trimmed or its write failed.
    pub(crate) fn forget(&mut self, offset: DeviceOffset, len: Bytes) {
        self.on_write(offset, len);
        self.written.remove(&offset);
    }

    /// Returns the number of blocks to verify.
    pub(crate) fn pending(&self) -> usize {
        self.written.len()
    }

    /// Returns the next block to read back, in order of offset.
    pub(crate) fn next_block(&mut self) -> Option<(DeviceOffset, Written)> {
        self.written.pop_first()
    }

    /// Returns the pattern of the block at `offset`.
    fn pattern_at(&self, offset: DeviceOffset) -> Cow<'_, [u8]> {
        if self.pattern_offsets.is_empty() {
            return Cow::Borrowed(&self.pattern);
        }
        let mut pattern = self.pattern.to_vec();
        for &at in &self.pattern_offsets {
            pattern[usize::from(at)..][..8].copy_from_slice(&offset.get().to_le_bytes());
        }
        Cow::Owned(pattern)
    }

    /// Returns the ends of the parts of a block of `len` bytes that have a header each. A rest that
    /// is too short for one belongs to the part before it.
    fn part_ends(&self, len: usize) -> impl Iterator<Item = usize> {
        let interval = if self.interval == 0 { len } else { self.interval as usize };
        let parts = if len % interval.max(1) < HEADER_BYTES {
            len / interval.max(1)
        } else {
            len.div_ceil(interval)
        };
        (1..=parts.max(1)).map(move |part| if part >= parts { len } else { part * interval })
    }

    /// Fills the buffer of a write.
    pub(crate) fn fill(&self, buffer: &mut [u8], offset: DeviceOffset, generation: u32) {
        match self.method {
            VerifyMethod::Pattern => fill_pattern(buffer, &self.pattern_at(offset)),
            VerifyMethod::Null => {}
            VerifyMethod::Meta => fill_random(buffer, self.seed ^ offset.get()),
            VerifyMethod::Crc32c | VerifyMethod::Other => {
                let mut start = 0;
                for end in self.part_ends(buffer.len()) {
                    self.fill_part(
                        &mut buffer[start..end],
                        offset + Bytes::new(start as u64),
                        generation,
                    );
                    start = end;
                }
            }
        }
    }

    fn fill_part(&self, part: &mut [u8], offset: DeviceOffset, generation: u32) {
        let len = part.len() as u32;
        let Some((header, data)) = part.split_at_mut_checked(HEADER_BYTES) else {
            return fill_random(part, self.seed ^ offset.get());
        };
        match self.pattern.is_empty() {
            true => {
                fill_random(data, self.seed ^ offset.get().rotate_left(17) ^ u64::from(generation));
            }
            false => fill_pattern(data, &self.pattern_at(offset)),
        }
        header.fill(0);
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&len.to_le_bytes());
        header[8..16].copy_from_slice(&offset.get().to_le_bytes());
        header[16..20].copy_from_slice(&generation.to_le_bytes());
        header[20..24].copy_from_slice(&crc32c(data).to_le_bytes());
    }

    /// Returns true if a block was read as it was written. `generation`: set if this run wrote it.
    pub(crate) fn check(
        &self,
        buffer: &[u8],
        offset: DeviceOffset,
        generation: Option<u32>,
    ) -> bool {
        match self.method {
            VerifyMethod::Null => true,
            VerifyMethod::Pattern => {
                let pattern = self.pattern_at(offset);
                buffer.chunks(pattern.len()).all(|chunk| chunk == &pattern[..chunk.len()])
            }
            VerifyMethod::Meta => {
                let mut expected = vec![0; buffer.len()];
                fill_random(&mut expected, self.seed ^ offset.get());
                expected == buffer
            }
            VerifyMethod::Crc32c | VerifyMethod::Other => {
                let mut start = 0;
                self.part_ends(buffer.len()).all(|end| {
                    let part = &buffer[start..end];
                    let at = offset + Bytes::new(start as u64);
                    start = end;
                    check_part(part, at, generation)
                })
            }
        }
    }
}

fn check_part(part: &[u8], offset: DeviceOffset, generation: Option<u32>) -> bool {
    let Some((header, data)) = part.split_at_checked(HEADER_BYTES) else {
        return true; // The block is too small for a header: nothing to check against.
    };
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    word(0) == MAGIC
        && word(4) as usize == part.len()
        && u64::from(word(8)) | u64::from(word(12)) << 32 == offset.get()
        && generation.is_none_or(|g| g == word(16))
        && word(20) == crc32c(data)
        && header[24..] == [0; HEADER_BYTES - 24]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifier(method: VerifyMethod, interval: u64, pattern: &[u8]) -> Verifier {
        let mut spec = JobSpec::default_job("v");
        spec.verify.method = Some(method);
        spec.verify.interval = interval;
        spec.verify.pattern = pattern.into();
        Verifier::new(&spec, 7).expect("verifies")
    }

    #[test]
    fn crc_of_the_standard() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    #[test]
    fn another_job_can_check_meta() {
        let mut spec = JobSpec::default_job("v");
        spec.verify.method = Some(VerifyMethod::Meta);
        let [writer, reader] = [7, 8].map(|seed| Verifier::new(&spec, seed).expect("verifies"));
        let mut block = vec![0; 4096];
        writer.fill(&mut block, DeviceOffset::new(8192), 5);
        assert!(reader.check(&block, DeviceOffset::new(8192), None));
        assert!(!reader.check(&block, DeviceOffset::new(4096), None));
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        for (method, interval) in [
            (VerifyMethod::Crc32c, 0),
            (VerifyMethod::Crc32c, 512),
            (VerifyMethod::Crc32c, 1000),
            // Sixteen bytes are left, too few for a header.
            (VerifyMethod::Crc32c, 4080),
            (VerifyMethod::Meta, 0),
            (VerifyMethod::Pattern, 0),
        ] {
            let v = verifier(
                method,
                interval,
                if method == VerifyMethod::Pattern { &[1, 2, 3] } else { &[] },
            );
            let mut block = vec![0; 4096];
            v.fill(&mut block, DeviceOffset::new(8192), 5);
            assert!(v.check(&block, DeviceOffset::new(8192), Some(5)), "{method:?}");
            for at in 0..block.len() {
                block[at] ^= 4;
                assert!(
                    !v.check(&block, DeviceOffset::new(8192), Some(5)),
                    "{method:?} {interval} byte {at}"
                );
                block[at] ^= 4;
            }
            if method == VerifyMethod::Crc32c {
                assert!(!v.check(&block, DeviceOffset::new(4096), Some(5)), "another place");
                assert!(!v.check(&block, DeviceOffset::new(8192), Some(6)), "an older write");
                assert!(v.check(&block, DeviceOffset::new(8192), None));
            }
        }
    }

    #[test]
    fn only_intact_blocks_are_kept() {
        let mut v = verifier(VerifyMethod::Crc32c, 0, &[]);
        v.on_write(DeviceOffset::ZERO, Bytes::new(8192));
        v.on_write(DeviceOffset::new(16384), Bytes::new(4096));
        let newest = v.on_write(DeviceOffset::new(4096), Bytes::new(4096));
        v.forget(DeviceOffset::new(16384), Bytes::new(512));
        assert_eq!(
            v.next_block(),
            Some((DeviceOffset::new(4096), Written { len: Bytes::new(4096), generation: newest }))
        );
        assert_eq!(v.next_block(), None);
    }
}
