//! What a request occupies by what those of other sizes do.
//!
//! On a drive that grows with the size, but less than in proportion: from 4 to 256 KiB to between
//! eleven and fifty-four times as much on the drives of `elevon-sim`. Between two sizes that are
//! known it lies on the line through them; beyond, it grows by three quarters for each doubling,
//! which makes thirty times.

use super::{CELLS, Cell, Occupancy};

/// What a request that is twice as large occupies: a quotient.
const DOUBLED: (u64, u64) = (7, 4);
/// What a write occupies if only reads are known: a quotient.
const WRITE: (u64, u64) = (7, 5);

/// What a request of so many sectors was seen to occupy, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    sectors: u64,
    each: u64,
}

impl Seen {
    /// Returns what a request of so many sectors occupies if only this one is known.
    fn grown_to(self, sectors: u64) -> u64 {
        let Self { sectors: mut at, mut each } = self;
        while at * 2 <= sectors {
            (at, each) = (at * 2, each * DOUBLED.0 / DOUBLED.1);
        }
        while at > sectors {
            (at, each) = (at / 2, each * DOUBLED.1 / DOUBLED.0);
        }
        // What is left of a doubling.
        each + each * (DOUBLED.0 - DOUBLED.1) / DOUBLED.1 * (sectors - at) / at.max(1)
    }
}

/// Returns what a request of a cell occupies, in nanoseconds; one of another cell must be known.
pub(super) fn expected(occupancy: &Occupancy, cell: usize) -> u64 {
    let sectors = occupancy.cells[cell].last.0;
    let own = |at: usize| near(&occupancy.cells, at, sectors);
    let each = own(cell).unwrap_or_else(|| {
        let other = own((cell + CELLS / 2) % CELLS).unwrap_or(1);
        if cell >= CELLS / 2 { other * WRITE.0 / WRITE.1 } else { other * WRITE.1 / WRITE.0 }
    });
    each.max(1)
}

/// Returns what a request of so many sectors occupies by what is known of its direction. Of two
/// cells of a size the one of the same order is nearer.
fn near(cells: &[Cell; CELLS], cell: usize, sectors: u64) -> Option<u64> {
    const SIZES: usize = 8;
    let (first, size) = (cell / SIZES * SIZES, cell % SIZES);
    let seen = |size: usize| {
        let known = [first, first ^ SIZES]
            .into_iter()
            .map(|first| &cells[first + size])
            .find(|cell| cell.part.is_some());
        known.map(|cell| Seen { sectors: cell.seen.1.max(1), each: cell.seen.0 })
    };
    let smaller = (0..=size).rev().find_map(seen);
    let larger = (size + 1..SIZES).find_map(seen);
    Some(match (smaller, larger) {
        (Some(a), Some(b)) if a.sectors <= sectors && sectors < b.sectors => {
            a.each + b.each.saturating_sub(a.each) * (sectors - a.sectors) / (b.sectors - a.sectors)
        }
        (one, other) => one.or(other)?.grown_to(sectors),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::aileron::cost::Direction;
    use crate::sched::aileron::occupancy;

    /// Cells of random requests of these directions and sectors that were seen to occupy so much.
    fn seen(all: &[(Direction, u64, u64)]) -> Occupancy {
        let mut occupancy = Occupancy::new();
        for &(direction, sectors, each) in all {
            let cell =
                &mut occupancy.cells[usize::from(occupancy::cell(direction, sectors, false))];
            (cell.part, cell.seen) = (Some(1), (each, sectors));
        }
        occupancy
    }

    fn expected_of(
        occupancy: &mut Occupancy,
        direction: Direction,
        sectors: u64,
        follows: bool,
    ) -> u64 {
        let cell = usize::from(occupancy::cell(direction, sectors, follows));
        occupancy.cells[cell].last = (sectors, 1);
        expected(occupancy, cell)
    }

    #[test]
    fn between_two_sizes_is_the_line_and_beyond_each_doubling_adds_three_quarters() {
        let mut occupancy = seen(&[(Direction::Read, 32, 40_000), (Direction::Read, 512, 520_000)]);
        let read = |occupancy: &mut Occupancy, sectors| {
            expected_of(occupancy, Direction::Read, sectors, false)
        };
        assert_eq!(read(&mut occupancy, 128), 136_000);
        assert_eq!(read(&mut occupancy, 1_024), 910_000);
        assert_eq!(read(&mut occupancy, 768), 715_000, "half of a doubling");
        assert_eq!(read(&mut occupancy, 8), 13_061);
        assert_eq!(
            expected_of(&mut occupancy, Direction::Read, 128, true),
            136_000,
            "in another order"
        );
        assert_eq!(expected_of(&mut occupancy, Direction::Write, 128, false), 190_400, "a write");
    }

    #[test]
    fn nearer_is_the_own_direction_and_the_own_order() {
        let mut occupancy = seen(&[(Direction::Read, 8, 10_000), (Direction::Write, 512, 400_000)]);
        assert_eq!(expected_of(&mut occupancy, Direction::Write, 256, false), 228_571);
        assert_eq!(expected_of(&mut occupancy, Direction::Read, 16, true), 17_500);
        let cell = &mut occupancy.cells[usize::from(occupancy::cell(Direction::Read, 8, true))];
        (cell.part, cell.seen) = (Some(1), (6_000, 8));
        assert_eq!(expected_of(&mut occupancy, Direction::Read, 16, true), 10_500);
    }

    /// Any size may be asked for, and a request that follows another one may be of none.
    #[test]
    fn every_size_has_an_answer_that_grows_with_it() {
        for known in [1, 8, 100, 512, 1_000_000] {
            let mut occupancy = seen(&[(Direction::Read, known, 50_000)]);
            let mut before = 0;
            for sectors in [0, 1, 3, 8, 9, 64, 512, 10_000, 8_000_000] {
                let each = expected_of(&mut occupancy, Direction::Read, sectors, false);
                assert!(each >= before.max(1), "{sectors} beside {known}: {each} after {before}");
                before = each;
            }
        }
    }
}
