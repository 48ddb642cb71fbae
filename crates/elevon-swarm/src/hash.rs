//! A hash that is the same with every compiler and on every machine: 64-bit FNV-1a over
//! little-endian bytes.
//!
//! The default hasher of the standard library may change with a Rust version, so its results cannot
//! be stored. Cost: one multiplication per byte.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hash of everything that was added, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StableHash(u64);

impl Default for StableHash {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl StableHash {
    /// Adds bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0 =
            bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    }

    /// Adds numbers, each as eight bytes.
    pub(super) fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.bytes(&number.to_le_bytes()));
    }

    /// Returns the hash so far.
    pub(super) const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::StableHash;

    /// Test vectors of 64-bit FNV-1a as published by its authors.
    #[test]
    fn published_vectors() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut stable = StableHash::default();
            stable.bytes(text.as_bytes());
            assert_eq!(stable.get(), hash, "{text}");
        }
    }

    #[test]
    fn a_number_is_its_eight_bytes_lowest_first() {
        let (mut number, mut bytes) = (StableHash::default(), StableHash::default());
        number.numbers(&[0x0102]);
        bytes.bytes(&[2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(number, bytes);
    }
}
