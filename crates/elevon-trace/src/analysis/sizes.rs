//! Sizes of bios and requests.

use super::Group;

/// Rows by size: up to 512 bytes, up to 1 KiB, ... up to 64 MiB, and larger.
pub const SIZE_ROWS: usize = 19;

/// Sizes of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeStat {
    /// Number of I/Os.
    pub count: u64,
    /// Sum of their bytes.
    pub bytes: u64,
    /// Smallest size; 0 if there is none.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// Numbers of I/Os by size; row n holds those of at most 512 << n bytes.
    pub rows: [u64; SIZE_ROWS],
}

/// Sizes by [`Group`].
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Sizes of each group.
    pub groups: [SizeStat; Group::COUNT],
}

/// Returns the row of a size.
#[inline]
const fn row_of(bytes: u64) -> usize {
    let sectors = bytes.div_ceil(512);
    let row = if sectors <= 1 { 0 } else { (u64::BITS - (sectors - 1).leading_zeros()) as usize };
    if row < SIZE_ROWS { row } else { SIZE_ROWS - 1 }
}

impl Sizes {
    #[inline]
    pub(super) fn add(&mut self, group: Group, bytes: u64) {
        let stat = &mut self.groups[group as usize];
        stat.min = if stat.count == 0 { bytes } else { stat.min.min(bytes) };
        stat.max = stat.max.max(bytes);
        stat.count += 1;
        stat.bytes = stat.bytes.saturating_add(bytes);
        stat.rows[row_of(bytes)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_size() {
        assert_eq!(
            [0, 1, 512, 513, 1024, 4096, 4097, 1 << 20, u64::MAX].map(row_of),
            [0, 0, 0, 1, 1, 3, 4, 11, 18]
        );
        let mut sizes = Sizes::default();
        sizes.add(Group::Write, 4096);
        sizes.add(Group::Write, 8192);
        let stat = sizes.groups[Group::Write as usize];
        assert_eq!((stat.count, stat.bytes, stat.min, stat.max), (2, 12288, 4096, 8192));
    }
}
