//! The pattern of a job: directions, sizes and random offsets of its I/Os.

/// `rw` (`readwrite`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rw {
    /// Reads occur.
    pub read: bool,
    /// Writes occur.
    pub write: bool,
    /// Trims occur.
    pub trim: bool,
    /// Offsets are random, not sequential.
    pub random: bool,
    /// `trimwrite`, `randtrimwrite`: each block is trimmed, then written.
    pub trim_then_write: bool,
    /// `rwmixread` in percent, if both reads and writes occur.
    pub mix_read: u8,
    /// `rw=randread:N`: the number of I/Os before a new random offset (normally 1).
    pub ios_per_offset: u32,
    /// `rw=read:OFFSET`: bytes skipped after each sequential I/O; negative: bytes to go back.
    pub sequential_skip: i64,
    /// `rw_sequencer=identical`, not `sequential`.
    pub sequencer_identical: bool,
}

impl Default for Rw {
    /// Returns sequential reads.
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            trim: false,
            random: false,
            trim_then_write: false,
            mix_read: 50,
            ios_per_offset: 1,
            sequential_skip: 0,
            sequencer_identical: false,
        }
    }
}

/// Sizes of the I/Os and the alignment of their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Sizes of the I/Os, by direction (read, write, trim).
    pub sizes: [BlockSizes; 3],
    /// Alignment of random offsets in bytes, by direction; 0: the smallest block size.
    pub align: [u64; 3],
    /// `bs_is_seq_rand`, in a job with sequential and random I/Os: the first size is that of
    /// sequential I/Os, the second that of random I/Os.
    pub by_order: bool,
    /// `num_range`: ranges of a trim, at least 1.
    pub trim_ranges: u32,
    /// `bs_unaligned`: sizes in a range need not be multiples of its minimum.
    pub unaligned: bool,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            sizes: [const { BlockSizes::Range(4096, 4096) }; 3],
            align: [0; 3],
            by_order: false,
            trim_ranges: 1,
            unaligned: false,
        }
    }
}

/// Sizes of I/Os in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// From the smallest to the largest size in bytes; equal for a fixed size.
    Range(u64, u64),
    /// `bssplit`: (bytes, percent); the percentages add up to 100.
    Split(Vec<(u64, u32)>),
}

/// Random sequences, and where random offsets fall.
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// `randrepeat`: the sequence is the same in every run.
    pub repeat: bool,
    /// `allrandrepeat`: all that is random is the same in every run.
    pub repeat_all: bool,
    /// `randseed`.
    pub seed: Option<u64>,
    /// `random_distribution`, by direction.
    pub distribution: [Distribution; 3],
    /// `percentage_random`, by direction: the share of I/Os of a random job whose offset is
    /// random.
    pub percentage: [u8; 3],
    /// `norandommap`: a block may be repeated before all blocks were visited.
    pub norandommap: bool,
}

impl Default for Random {
    fn default() -> Self {
        Self {
            repeat: true,
            repeat_all: false,
            seed: None,
            distribution: [const { Distribution::Random }; 3],
            percentage: [100; 3],
            norandommap: false,
        }
    }
}

/// `random_distribution`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform distribution.
    Random,
    /// Zipf with this theta; the second value is the centre (0 to 1), if fixed.
    Zipf(f64, Option<f64>),
    /// Pareto with this h; the second value is the centre, if fixed.
    Pareto(f64, Option<f64>),
    /// Normal with this deviation in percent; the second value is the centre, if fixed.
    Normal(f64, Option<f64>),
    /// (percent of accesses, percent of the range); each adds up to 100.
    Zoned(Vec<(u32, u32)>),
    /// (percent of accesses, bytes of the range).
    ZonedAbsolute(Vec<(u32, u64)>),
    /// These blocks in turn, again and again. With `stride` (`random_sequence_stride`) each round
    /// is as many blocks further on as there are in the list.
    Sequence {
        /// Numbers of blocks, at least one.
        blocks: Vec<u64>,
        /// Whether rounds go on.
        stride: bool,
    },
}
