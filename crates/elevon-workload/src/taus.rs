//! The numbers that fio draws for directions and sizes, so that the I/Os of a mixed job are the
//! same here as there.
//!
//! fio's manual names the generator: Tausworthe's, with a cycle of 2^88, which is L'Ecuyer's
//! combined one of 1996. How it is seeded, what each number is used for and when one is drawn was
//! found from what fio 3.33 prints (`write_iolog=`): the top bits of its offsets, directions and
//! sizes are a linear sequence of order 88, whose state was solved for.

/// L'Ecuyer's combined Tausworthe generator ("Maximally equidistributed combined Tausworthe
/// generators", 1996).
#[derive(Clone, Debug)]
pub(crate) struct Taus88([u32; 3]);

/// The least states of the three parts.
const MIN_STATES: [u32; 3] = [2, 8, 16];
/// Lehmer's multiplier 69069, as in other implementations of this generator.
const LEHMER: u32 = 69069;
/// Numbers that are thrown away after seeding.
const WARM_UP: u32 = 6;

impl Taus88 {
    /// Returns a generator, seeded as fio's.
    pub(crate) fn new(seed: u32) -> Self {
        let mut last = 53;
        let mut rng = Self(MIN_STATES.map(|least| {
            last = u32::wrapping_mul(last, LEHMER) ^ seed;
            if last < least {
                last += least;
            }
            last
        }));
        for _ in 0..WARM_UP {
            rng.next_u32();
        }
        rng
    }

    /// Returns 32 random bits.
    #[inline]
    pub(crate) const fn next_u32(&mut self) -> u32 {
        let [a, b, c] = &mut self.0;
        *a = (*a & !1) << 12 ^ ((*a << 13) ^ *a) >> 19;
        *b = (*b & !7) << 4 ^ ((*b << 2) ^ *b) >> 25;
        *c = (*c & !15) << 17 ^ ((*c << 3) ^ *c) >> 11;
        *a ^ *b ^ *c
    }

    /// Returns a number in `0..bound`, which is at most 2^32.
    #[inline]
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound <= 1 << 32);
        (self.next_u32() as u64 * bound) >> 32
    }

    /// Returns true in `percent` of a hundred draws.
    #[inline]
    pub(crate) const fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < percent as u64
    }
}

/// What a sequence of fio's is for, as the number that its seed is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Sizes of reads, writes and trims.
    ReadSize,
    WriteSize,
    TrimSize,
    /// Read or write.
    Mix,
}

impl Use {
    const fn number(self) -> u32 {
        match self {
            Self::ReadSize => 0,
            Self::WriteSize => 1,
            Self::TrimSize => 2,
            Self::Mix => 4,
        }
    }
}

/// The seed of sequences that are repeated (`allrandrepeat`, and offsets by `randrepeat`).
const REPEATED: u32 = 0xb189_9bed;
/// The seed of the others, if the job gives none.
pub(crate) const DEFAULT: u32 = 0x89;
/// What a seed is multiplied by from one use to the next.
const BETWEEN_USES: u32 = 0x9e37_0001;

/// Returns the seed of one use in the `process`-th process of a run (from 1). `seed`: that of the
/// job; none if its sequences are repeated.
pub(crate) const fn seed_of(seed: Option<u32>, usage: Use, process: u32) -> u32 {
    let number = usage.number();
    let first = match seed {
        None => REPEATED,
        Some(seed) => seed.wrapping_mul(BETWEEN_USES.wrapping_pow(4 + number)),
    };
    first.wrapping_mul(process).wrapping_add(number)
}

/// When fio draws the direction of a mixed job anew. A direction that has just been drawn is kept
/// until it has had its share of the I/Os that the other had before, so that a long run of one is
/// made up for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mix {
    writes: bool,
    /// I/Os so far: reads, writes.
    issued: [u64; 2],
    /// Number of I/Os in the present direction from which the next is drawn.
    due: u64,
}

impl Mix {
    /// Returns whether the next I/O is a read; `percent` of them are to be.
    #[inline]
    pub(crate) const fn next_is_read(&mut self, percent: u8, rng: &mut Taus88) -> bool {
        if self.issued[self.writes as usize] >= self.due {
            let writes = !rng.percent(percent);
            if writes != self.writes {
                let share = if writes { 100 - percent } else { percent } as u64;
                self.due = self.issued[self.writes as usize] * share / 100;
                self.writes = writes;
            }
        }
        self.issued[self.writes as usize] += 1;
        !self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(seed: u32, count: usize, bound: u64) -> Vec<u64> {
        let mut rng = Taus88::new(seed);
        (0..count).map(|_| rng.below(bound)).collect()
    }

    #[test]
    fn the_generator_is_that_of_the_offsets_that_fio_prints() {
        // fio --ioengine=null --rw=randread --bs=4k --size=4g --norandommap --write_iolog=F.
        let first = blocks(REPEATED, 10, 1 << 20);
        assert_eq!(
            first,
            [63243, 776250, 884141, 492845, 421435, 880938, 398977, 370693, 957356, 70069]
        );
        // With size=1m, and from the 257th on; nothing begins anew.
        assert_eq!(blocks(REPEATED, 262, 256)[256..], [222, 215, 103, 33, 127, 67]);
    }

    #[test]
    fn seeds_are_those_that_were_solved_for() {
        let default = |usage, process| seed_of(Some(DEFAULT), usage, process);
        assert_eq!([1, 2].map(|n| seed_of(None, Use::Mix, n)), [0xb189_9bf1, 0x6313_37de]);
        assert_eq!([1, 3].map(|n| default(Use::Mix, n)), [0x5b78_008d, 0x1268_019f]);
        assert_eq!(
            [1, 2, 3].map(|n| default(Use::ReadSize, n)),
            [0xadbc_0089, 0x5b78_0112, 0x0934_019b]
        );
        // randseed=5.
        assert_eq!([1, 2].map(|n| seed_of(Some(5), Use::Mix, n)), [0xb898_0009, 0x7130_000e]);
        assert_eq!(seed_of(Some(5), Use::ReadSize, 3), 0x14e4_000f);
    }

    #[test]
    fn directions_are_those_that_fio_prints() {
        // The second job of a file, --rw=randrw; drawn one by one the 15th would be a write.
        let (mut mix, mut rng) = (Mix::default(), Taus88::new(seed_of(Some(DEFAULT), Use::Mix, 2)));
        let writes: String =
            (0..30).map(|_| if mix.next_is_read(50, &mut rng) { '0' } else { '1' }).collect();
        assert_eq!(writes, "011111011111100010110001110110");
    }
}
