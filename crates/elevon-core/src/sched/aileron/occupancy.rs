//! What a request displaces where a device does many at a time.
//!
//! The time that a request takes alone says what it occupies only if the device is a number of
//! equal servers. A flash drive reads thirty small requests at a time, but has one link, and
//! buffers writes that it programs for much longer than they take. So requests are told apart by
//! *cell*: direction, size within a factor of two, and whether they follow one another. In a *look*
//! only requests of one cell go to the device, as many as wait; if they then wait inside the device
//! for each other, the time by their number is what one occupies. The device is in use meanwhile,
//! and no process is charged for it. A look lasts for 150 ms or less, and a cell has one in 8 s at
//! most. All of them together take a 64th of the time once each cell was looked at.
//!
//! A cell whose requests cannot fill the device occupies what is left: the time in which the device
//! was full, less what all other requests occupied. If that is the same part of the time alone as
//! of every cell that was looked at, the device is a number of equal servers, and this is all. On
//! any other device what is left is too little to go by: a drive delivers more of several kinds at
//! a time than of one. There a request occupies what those of other sizes let expect (see
//! [`sizes`]), and what is left corrects all of these together, by a third at most.
//!
//! Cost: O(1) for each request, O([`CELLS`]) every [`REST`] and whenever costs are known anew.

mod sizes;

use super::cost::Direction;
use super::slot::Slot;
use crate::units::{Instant, Nanos};

/// Cells: two directions, requests that follow one another or do not, eight sizes.
pub(super) const CELLS: usize = 32;
/// The cell of requests that move no data. They are never looked at: what such a request keeps from
/// others is the time until it has ended, from the end of the request before.
pub(super) const NO_DATA: u8 = CELLS as u8;
/// Requests of a cell that must wait or be in the device for a look to begin.
const MIN_REQUESTS: u32 = 4;
/// Requests that are looked at one at a time first.
const ALONE: u64 = 4;
/// Requests that a stretch of a look has at least, and how long it lasts at least.
const STRETCH: (u64, Nanos) = (16, Nanos::from_millis(5));
/// The shortest look at reads and at writes, which the device buffers, and the longest.
const MIN_LOOK: [Nanos; 2] = [Nanos::from_millis(20), Nanos::from_millis(40)];
const MAX_LOOK: Nanos = Nanos::from_millis(150);
/// The shortest time between two looks.
const REST: Nanos = Nanos::from_millis(20);
/// The shortest and the longest time until a cell is looked at again.
const PAUSE: (Nanos, Nanos) = (Nanos::from_secs(8), Nanos::from_secs(128));
/// The part of the time that looks take, at most, once each cell in use has had one: nobody is
/// charged for what is served in them, and on a slow device one lasts long.
const PART_OF_LOOKS: u64 = 64;
/// Time for which a cell counts as in use.
const RECENT: Nanos = Nanos::from_millis(200);
/// How long the device is watched for what is left to other cells.
const WATCH: Nanos = Nanos::from_millis(100);
/// Unit of mean numbers in flight.
const FRACTION: u64 = 64;
/// log2 of the fixed point of ratios to the time alone.
const SHIFT: u32 = 16;
/// The smallest part of its time alone that a request can occupy.
const MIN_RATIO: u64 = (1 << SHIFT) / 256;
/// The largest part, of reads and of writes, which a device buffers and writes later.
const MAX_RATIO: [u64; 2] = [1 << SHIFT, 4 << SHIFT];
/// Parts of which the largest is below this multiple of the smallest are the same: a quotient.
const SAME: (u64, u64) = (5, 4);
/// By how much what is left changes what is expected from other sizes, at least and at most.
const SCALES: (u64, u64) = ((1 << SHIFT) * 3 / 4, (1 << SHIFT) * 4 / 3);

/// Returns the cell of a request. `follows`: it begins where the one before of its process ends.
#[inline]
pub(super) fn cell(direction: Direction, sectors: u64, follows: bool) -> u8 {
    if direction == Direction::NoData {
        return NO_DATA;
    }
    let size = (sectors | 1).ilog2().saturating_sub(2).min(7) as u8;
    u8::from(direction.is_write()) << 4 | u8::from(follows) << 3 | size
}

/// Returns true if a cell is one of requests that follow one another.
pub(super) const fn follows(cell: u8) -> bool {
    cell >> 3 & 1 == 1
}

/// Returns true if a cell is one of writes.
const fn has_writes(cell: u8) -> bool {
    cell >> 4 == 1
}

/// Returns the largest part of its time alone that a request of a cell can occupy.
const fn most_of(cell: u8) -> u64 {
    MAX_RATIO[has_writes(cell) as usize]
}

/// What a request occupies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Occupied {
    /// Time that it was measured to occupy.
    pub(super) known: u64,
    /// The time that it takes alone if it occupies an estimated part of that: see
    /// [`Occupancy::rest`].
    pub(super) rest: u64,
}

/// What is known of a cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Requests that wait or are in the device. Those of a process that is always served at once
    /// never wait.
    present: u32,
    /// When one of its requests last ended.
    used: Option<Instant>,
    /// What a request occupies, as a part of its time alone; `None` if its requests do not fill
    /// the device.
    part: Option<u64>,
    /// What one of so many sectors was seen to occupy, in nanoseconds, if `part` is known.
    seen: (u64, u64),
    /// Sectors of its last request, and the time that it takes alone.
    last: (u64, u64),
    /// What it would be if those that were seen had filled the device: the most that it can be.
    most: u64,
    /// When it is looked at next, and how long after that again.
    due: Instant,
    pause: Nanos,
}

/// A look at a cell.
#[derive(Clone, Copy, Debug)]
struct Look {
    cell: u8,
    since: Instant,
    /// Requests that were alone in the device, and their times.
    alone: (u64, u64),
    /// This stretch: its beginning, requests, their times, the integral of the number in flight.
    stretch: Instant,
    n: u64,
    time: u64,
    area: u64,
    /// The times that they take alone by the cost model, and their sectors.
    expected: u64,
    sectors: u64,
    /// What a request occupied in the stretch before, in nanoseconds.
    before: u64,
    /// The largest mean number in flight that a request saw, in 1/64.
    peak: u64,
}

/// What requests displace.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    cells: [Cell; CELLS],
    /// Requests that wait or are in the device and move no data.
    no_data: u32,
    /// The cells whose part is known: a bit each.
    with_part: u32,
    /// Those that are charged by what requests of other sizes occupy.
    by_sizes: u32,
    /// What a request of each cell occupies, as a part of its time alone: known, or estimated.
    parts: [u64; CELLS],
    look: Option<Look>,
    next: Instant,
    /// Until then the device may still be busy with requests of the last look: what ends is left
    /// out.
    quiet_at: Instant,
    /// What requests of cells of which it is not known occupy, as a part of their time alone.
    rest: u64,
    is_rest_known: bool,
    /// What is left, as a part of what was expected from other sizes; and the sum of that since it
    /// was last estimated.
    scale: u64,
    expected: u64,
    /// Since when the device is full without a break.
    watch: Option<Instant>,
    /// For how long it was full before that, since what is left was last estimated.
    full: Nanos,
    /// What requests of known cells occupied while it was full.
    known: u64,
    /// The times alone of the others meanwhile.
    unknown: u64,
}

impl Occupancy {
    pub(super) fn new() -> Self {
        let cell = Cell {
            present: 0,
            used: None,
            part: None,
            seen: (1, 0),
            last: (1, 1),
            most: 0,
            due: Instant::ZERO,
            pause: PAUSE.0,
        };
        Self {
            cells: core::array::from_fn(|at| Cell { most: most_of(at as u8), ..cell }),
            no_data: 0,
            with_part: 0,
            by_sizes: 0,
            parts: [1 << SHIFT; CELLS],
            look: None,
            next: Instant::ZERO,
            quiet_at: Instant::ZERO,
            rest: 1 << SHIFT,
            is_rest_known: false,
            scale: 1 << SHIFT,
            expected: 0,
            watch: None,
            full: Nanos::ZERO,
            known: 0,
            unknown: 0,
        }
    }

    /// Counts a request that has arrived.
    #[inline]
    pub(super) fn enter(&mut self, cell: u8) {
        *self.present_mut(cell) += 1;
    }

    /// Counts a request that has ended, or is no longer one of this cell.
    #[inline]
    pub(super) fn leave(&mut self, cell: u8) {
        *self.present_mut(cell) -= 1;
    }

    #[inline]
    fn present_mut(&mut self, cell: u8) -> &mut u32 {
        self.cells.get_mut(usize::from(cell)).map_or(&mut self.no_data, |cell| &mut cell.present)
    }

    /// Returns how many requests of a cell wait or are in the device.
    pub(super) fn present(&self, cell: u8) -> u32 {
        self.cells.get(usize::from(cell)).map_or(self.no_data, |cell| cell.present)
    }

    /// Returns what a request occupies that takes `alone` nanoseconds alone, at least 1.
    #[inline]
    pub(super) fn of(&self, cell: u8, alone: u64) -> u64 {
        let Some(&part) = self.parts.get(usize::from(cell)) else { return alone.max(1) };
        (((u128::from(alone) * u128::from(part)) >> SHIFT) as u64).max(1)
    }

    /// Returns the same for what is compared later, when more may be known of the device.
    pub(super) fn occupied(&self, cell: u8, alone: u64) -> Occupied {
        let is_estimated = (self.with_part | self.by_sizes) >> cell & 1 == 0
            && self.parts[usize::from(cell)] == self.rest;
        if is_estimated {
            Occupied { known: 0, rest: alone }
        } else {
            Occupied { known: self.of(cell, alone), rest: 0 }
        }
    }

    /// Returns what a request of a cell of which it is not known occupies, as a part of its time
    /// alone, in 1/65536. It is estimated every [`WATCH`] while the device is full.
    pub(super) const fn rest(&self) -> u64 {
        self.rest
    }

    /// Returns the cell that is looked at.
    #[inline]
    pub(super) fn looks_at(&self) -> Option<u8> {
        self.look.map(|look| look.cell)
    }

    /// Returns true if a look has had its time, whatever has ended in it.
    #[inline]
    pub(super) fn has_looked_enough(&self, now: Instant) -> bool {
        self.look.is_some_and(|look| now.since(look.since) >= MAX_LOOK)
    }

    /// Returns true if one request is to be in flight at a time.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.look.is_some_and(|look| look.alone.0 < ALONE)
    }

    /// The device has room that nobody uses.
    #[inline]
    pub(super) fn note_room(&mut self, now: Instant) {
        if let Some(since) = self.watch.take() {
            self.full += now.since(since);
        }
    }

    /// Returns true if a look may be due.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Begins a look if one is due. Returns true if one begins.
    pub(super) fn consider(&mut self, now: Instant) -> bool {
        self.is_due(now) && self.look.is_none() && self.begin(now)
    }

    fn begin(&mut self, now: Instant) -> bool {
        self.next = now + REST;
        let is_used = |cell: &Cell| cell.used.is_some_and(|at| now.since(at) < RECENT);
        if self.cells.iter().filter(|cell| is_used(cell)).count() < 2 {
            return false;
        }
        let is_due = |cell: &Cell| is_used(cell) && cell.present >= MIN_REQUESTS && now >= cell.due;
        let Some(at) = self.cells.iter().position(is_due) else { return false };
        self.look = Some(Look {
            cell: at as u8,
            since: now,
            alone: (0, 0),
            stretch: now,
            n: 0,
            time: 0,
            area: 0,
            expected: 0,
            sectors: 0,
            before: 0,
            peak: 0,
        });
        self.restart_watch(None);
        true
    }

    /// Ends a look. Without a result the cell is looked at later.
    pub(super) fn end(&mut self, now: Instant) {
        if let Some(look) = self.look.take() {
            let took = now.since(look.since);
            let was_used = |cell: &&Cell| cell.used.is_some_and(|at| now.since(at) < PAUSE.0);
            let used = self.cells.iter().filter(was_used).count() as u64;
            let cell = &mut self.cells[usize::from(look.cell)];
            cell.due = now + cell.pause.max(Nanos::new(took.get() * used * PART_OF_LOOKS));
            self.quiet_at = now + took.max(REST);
            self.next = self.quiet_at + REST;
        }
    }

    /// Learns from a request that was dispatched in this look. `area` is the number in flight,
    /// integrated over its time in the device, `alone` what the cost model expects of it alone.
    /// Returns true if the look ends.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        slot: &Slot,
        time: u64,
        area: u64,
        alone: u64,
    ) -> bool {
        let (cell, sectors) = (slot.cell, slot.sectors);
        let Some(mut look) = self.look.filter(|look| look.cell == cell) else { return false };
        if look.alone.0 < ALONE {
            if area * 16 <= time * 17 {
                look.alone = (look.alone.0 + 1, look.alone.1 + time);
                look.stretch = now;
            }
        } else {
            (look.n, look.time, look.area) = (look.n + 1, look.time + time, look.area + area);
            look.peak = look.peak.max(area * FRACTION / time.max(1));
            look.expected += alone;
            look.sectors += sectors;
        }
        self.look = Some(look);
        let took = now.since(look.since);
        if look.n >= STRETCH.0 && now.since(look.stretch) >= STRETCH.1 {
            let (n, time) = (u128::from(look.n), u128::from(look.time));
            let by_depth = (time * time / n / u128::from(look.area.max(1))) as u64;
            // Where so many are in flight, times still grow: only the rate at which they end is
            // what it will be.
            let has_many = u128::from(look.area) * 2 > time * n;
            let each = if has_many { now.since(look.stretch).get() / look.n } else { by_depth };
            let is_steady = each.abs_diff(look.before) * 16 <= look.before;
            if (is_steady && took >= MIN_LOOK[usize::from(has_writes(cell))]) || took >= MAX_LOOK {
                let each = if is_steady { u64::midpoint(each, look.before) } else { each };
                self.conclude(&look, each);
                return true;
            }
            let look = self.look.as_mut().expect("it is this one");
            (look.before, look.stretch) = (each, now);
            (look.n, look.time, look.area, look.expected, look.sectors) = (0, 0, 0, 0, 0);
        }
        took >= MAX_LOOK && look.before == 0
    }

    /// Notes that a request occupies `each` nanoseconds if the device does many at a time.
    fn conclude(&mut self, look: &Look, each: u64) {
        let alone = (look.alone.1 / look.alone.0.max(1)).max(1);
        let expected = (look.expected / look.n.max(1)).max(1);
        let part = ((u128::from(each) << SHIFT) / u128::from(expected)) as u64;
        // They waited for each other inside the device, and the processes kept as many there as
        // they did at first. One that starts as many as its CPU can finds a few of them in each
        // other's way, and still does not fill the device.
        let is_kept = look.area * FRACTION * 4 >= look.time * look.peak * 3;
        let is_full = is_kept && look.time / look.n.max(1) * 8 > alone * 9;
        let cell = &mut self.cells[usize::from(look.cell)];
        let before = cell.part;
        cell.seen = (each, look.sectors / look.n.max(1));
        (cell.part, cell.most) =
            if is_full { (Some(part.max(MIN_RATIO)), most_of(look.cell)) } else { (None, part) };
        let bit = 1 << look.cell;
        self.with_part = if is_full { self.with_part | bit } else { self.with_part & !bit };
        let is_same = match (before, cell.part) {
            (Some(before), Some(part)) => part.abs_diff(before) * 8 <= before,
            _ => false,
        };
        cell.pause = if is_same { Nanos::new(cell.pause.get() * 2).min(PAUSE.1) } else { PAUSE.0 };
        // The most that those occupy is the most that is known of the others as well.
        if !self.is_rest_known {
            (self.rest, self.is_rest_known) = (self.rest.min(part.max(MIN_RATIO)), is_full);
        }
        self.renew_parts();
    }

    /// The cost model has changed. `alone` returns what it says of a write, or a read, of so many
    /// sectors: what was seen of requests stays what they occupy.
    pub(super) fn on_new_costs(&mut self, alone: impl Fn(bool, u64) -> u64) {
        let mut left = self.with_part;
        if left == 0 {
            return;
        }
        while left != 0 {
            let at = left.trailing_zeros() as u8;
            left &= left - 1;
            let cell = &mut self.cells[usize::from(at)];
            let (each, sectors) = cell.seen;
            cell.part =
                Some(((each << SHIFT) / alone(has_writes(at), sectors).max(1)).max(MIN_RATIO));
        }
        self.renew_parts();
    }

    /// Brings [`Self::parts`] up to date with what is known.
    fn renew_parts(&mut self) {
        let rest = self.rest;
        let part_of = |cell: &Cell| {
            cell.part.unwrap_or(if cell.most * 5 < rest * 4 { cell.most } else { rest })
        };
        self.parts = self.cells.each_ref().map(part_of);
        self.by_sizes = 0;
        if self.with_part == 0 || self.has_equal_servers() {
            return;
        }
        for at in 0..CELLS {
            let cell = &self.cells[at];
            if cell.part.is_some() || cell.used.is_none() {
                continue;
            }
            let each =
                ((u128::from(sizes::expected(self, at)) * u128::from(self.scale)) >> SHIFT) as u64;
            let part = (each << SHIFT) / cell.last.1.max(1);
            self.parts[at] = part.clamp(MIN_RATIO, cell.most.max(MIN_RATIO));
            self.by_sizes |= 1 << at;
        }
    }

    /// Returns true if, as far as is known, requests of all cells occupy the same part of the time
    /// that they take alone.
    fn has_equal_servers(&self) -> bool {
        let rest = Some(self.rest).filter(|_| self.is_rest_known);
        let parts = || self.cells.iter().filter_map(|cell| cell.part).chain(rest);
        let (least, most) = (parts().min().unwrap_or(1), parts().max().unwrap_or(1));
        most * SAME.1 < least * SAME.0
    }

    /// Counts a request of so many sectors that has ended outside of looks and takes `alone`
    /// nanoseconds alone. Returns false if the device may still be busy with what was written in a
    /// look.
    #[inline]
    pub(super) fn note(&mut self, now: Instant, cell: u8, sectors: u64, alone: u64) -> bool {
        let own = &mut self.cells[usize::from(cell)];
        (own.used, own.last) = (Some(now), (sectors, alone));
        if now < self.quiet_at {
            return false;
        }
        // What ends as the device becomes full was done before that.
        let Some(since) = self.watch else {
            self.watch = Some(now);
            return true;
        };
        if own.part.is_some() {
            self.known += self.of(cell, alone);
        } else {
            self.unknown += alone;
            if self.by_sizes >> cell & 1 == 1 {
                self.expected += self.of(cell, alone);
            }
        }
        let full = self.full + now.since(since);
        if full >= WATCH {
            let left = full.get().saturating_sub(self.known);
            if self.unknown > 0 {
                let part = (u128::from(left) << SHIFT) / u128::from(self.unknown);
                let part = (part as u64).clamp(MIN_RATIO, 1 << SHIFT);
                self.rest = if self.is_rest_known { (self.rest * 3 + part) / 4 } else { part };
                self.is_rest_known = true;
                if self.expected > 0 {
                    let scale =
                        u128::from(left) * u128::from(self.scale) / u128::from(self.expected);
                    let scale = scale.clamp(SCALES.0.into(), SCALES.1.into()) as u64;
                    self.scale = (self.scale * 3 + scale) / 4;
                }
                self.renew_parts();
            }
            self.restart_watch(Some(now));
        }
        true
    }

    fn restart_watch(&mut self, since: Option<Instant>) {
        (self.watch, self.full, self.known, self.unknown) = (since, Nanos::ZERO, 0, 0);
        self.expected = 0;
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use alloc::vec::Vec;

    use super::*;

    /// A request of a cell.
    fn of(cell: u8) -> Slot {
        Slot { cell, sectors: 8, ..Slot::default() }
    }

    /// A device with one link behind many units: a request alone takes `alone`, and of many the
    /// link passes one each `link`.
    fn look(occupancy: &mut Occupancy, now: &mut Instant, alone: u64, link: u64, depth: u64) {
        let at = occupancy.looks_at().expect("a look goes on");
        while occupancy.looks_at().is_some() {
            let depth = if occupancy.is_alone() { 1 } else { depth };
            let time = alone.max(link * depth);
            *now = *now + Nanos::new(time / depth);
            if occupancy.learn(*now, &of(at), time, time * depth, alone) {
                occupancy.end(*now);
            }
        }
    }

    /// Two cells in use, the first of which has requests waiting.
    fn in_use(occupancy: &mut Occupancy, now: Instant) -> [u8; 2] {
        let cells = [cell(Direction::Read, 8, false), cell(Direction::Write, 512, true)];
        (0..MIN_REQUESTS).for_each(|_| occupancy.enter(cells[0]));
        for cell in cells {
            occupancy.note(now, cell, 8, 100_000);
        }
        cells
    }

    #[test]
    fn cells_tell_direction_order_and_size_apart() {
        let all = [false, true].map(|follows| {
            [Direction::Read, Direction::Write].map(|direction| {
                (0..12).map(|shift| cell(direction, 1 << shift, follows)).collect::<Vec<_>>()
            })
        });
        let mut cells: Vec<u8> = all.into_iter().flatten().flatten().collect();
        assert!(cells.iter().all(|cell| usize::from(*cell) < CELLS));
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), CELLS);
        assert_eq!(cell(Direction::Read, 8, false), cell(Direction::Read, 15, false));
        assert!(
            follows(cell(Direction::Write, 8, true)) && !follows(cell(Direction::Write, 8, false))
        );
    }

    #[test]
    fn many_at_a_time_occupy_what_the_link_takes() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [read, write] = in_use(&mut occupancy, now);
        assert_eq!(occupancy.of(read, 100_000), 100_000, "nothing is known");
        assert!(occupancy.consider(now));
        assert_eq!(occupancy.looks_at(), Some(read));
        look(&mut occupancy, &mut now, 100_000, 10_000, 32);
        assert!(
            occupancy.of(read, 100_000).abs_diff(10_000) <= 100,
            "{}",
            occupancy.of(read, 100_000)
        );
        assert!(!occupancy.consider(now), "it is known");
        // A write every 500 us occupies what 20 reads leave of them.
        for _ in 0..4_000 {
            now = now + Nanos::from_micros(500);
            occupancy.note(now, write, 512, 1_200_000);
            for _ in 0..20 {
                occupancy.note(now, read, 8, 100_000);
            }
        }
        let got = occupancy.of(write, 1_200_000);
        assert!(got.abs_diff(300_000) < 15_000, "{got}");
    }

    /// What was seen does not change when the cost model does.
    #[test]
    fn what_one_occupies_is_a_time() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [read, _] = in_use(&mut occupancy, now);
        assert!(occupancy.consider(now));
        look(&mut occupancy, &mut now, 100_000, 10_000, 32);
        occupancy.on_new_costs(|is_write, sectors| if is_write { 1 } else { 14_000 * sectors });
        let [small, large] = [112_000, 168_000].map(|alone| occupancy.of(read, alone));
        assert!(
            small.abs_diff(10_000) <= 100 && large.abs_diff(15_000) <= 150,
            "{small} and {large}"
        );
    }

    /// So many are in flight that none of them has waited for as long as one will.
    #[test]
    fn a_slow_device_is_known_before_its_queue_has_filled() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [read, _] = in_use(&mut occupancy, now);
        assert!(occupancy.consider(now));
        // Two servers of 5 ms, 32 requests: the first of them has waited for nobody.
        let (mut ended, mut area) = (0, 0);
        while occupancy.looks_at().is_some() {
            let is_alone = occupancy.is_alone();
            now = now + if is_alone { Nanos::from_millis(5) } else { Nanos::from_micros(2_500) };
            ended += u64::from(!is_alone);
            let time =
                if is_alone { 5_000_000 } else { (ended * 2_500_000).clamp(5_000_000, 80_000_000) };
            area = if is_alone { time } else { time * 32 };
            if occupancy.learn(now, &of(read), time, area, 5_000_000) {
                occupancy.end(now);
            }
        }
        assert!(
            area > 0 && occupancy.of(read, 5_000_000).abs_diff(2_500_000) < 50_000,
            "{}",
            occupancy.of(read, 5_000_000)
        );
    }

    /// A drive delivers more of both than of one kind: what the known reads leave is nothing, and
    /// the large one occupies what its size lets expect, and three quarters of that at least.
    #[test]
    fn where_nothing_is_left_the_size_decides() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [small, _] = in_use(&mut occupancy, now);
        let large = cell(Direction::Read, 64, false);
        assert!(occupancy.consider(now));
        look(&mut occupancy, &mut now, 100_000, 10_000, 32);
        for _ in 0..40_000 {
            now = now + Nanos::from_micros(100);
            (0..12).for_each(|_| _ = occupancy.note(now, small, 8, 100_000));
            occupancy.note(now, large, 64, 200_000);
        }
        let got = occupancy.of(large, 200_000);
        assert!((40_150..40_250).contains(&got), "{got} of {}", 10_000 * 7 * 7 * 7 / 4 / 4 / 4);
        assert_eq!(occupancy.occupied(large, 200_000).rest, 0);
    }

    #[test]
    fn requests_that_do_not_fill_the_device_stay_as_the_others() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [read, write] = in_use(&mut occupancy, now);
        assert!(occupancy.consider(now));
        // Four of eight servers.
        look(&mut occupancy, &mut now, 2_000_000, 0, 4);
        for _ in 0..8_000 {
            now = now + Nanos::from_micros(500);
            occupancy.note(now, read, 8, 2_000_000);
            occupancy.note(now, write, 512, 2_000_000);
        }
        let parts = [read, write].map(|cell| occupancy.of(cell, 2_000_000));
        assert!(parts[0] == parts[1] && parts[0].abs_diff(250_000) < 5_000, "{parts:?}");
    }

    /// A process keeps as many in flight as its CPU can start, which are a little in each other's
    /// way: what one of them occupies is what the others leave, not the time from one to the next.
    #[test]
    fn a_process_that_its_cpu_limits_does_not_fill_the_device() {
        for (kept, occupies) in [(18, 2_500), (32, 5_500)] {
            let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
            let [read, write] = in_use(&mut occupancy, now);
            assert!(occupancy.consider(now));
            let mut ended = 0;
            while occupancy.looks_at().is_some() {
                let is_alone = occupancy.is_alone();
                let depth = if is_alone {
                    1
                } else if ended < 32 {
                    32
                } else {
                    kept
                };
                let time = if is_alone { 80_000 } else { 5_500 * depth };
                ended += u64::from(!is_alone);
                now = now + Nanos::new(time / depth);
                if occupancy.learn(now, &of(read), time, time * depth, 80_000) {
                    occupancy.end(now);
                }
            }
            // It is full with a write of 50 us every 100 us, which is known, and 20 reads.
            occupancy.cells[usize::from(write)].part = Some(1 << SHIFT);
            occupancy.renew_parts();
            for _ in 0..40_000 {
                now = now + Nanos::from_micros(100);
                occupancy.note(now, write, 512, 50_000);
                for _ in 0..20 {
                    occupancy.note(now, read, 8, 80_000);
                }
            }
            let got = occupancy.of(read, 80_000);
            assert!(got.abs_diff(occupies) * 50 <= occupies, "{got} with {kept} in flight");
        }
    }

    /// A device that is full for moments only says what is left, too.
    #[test]
    fn moments_in_which_the_device_is_full_add_up() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let [read, _] = in_use(&mut occupancy, now);
        for at in 0..4_000 {
            now = now + Nanos::from_micros(250);
            occupancy.note(now, read, 8, 1_000_000);
            if at % 10 == 9 {
                occupancy.note_room(now);
                now = now + Nanos::from_millis(3);
            }
        }
        let got = occupancy.of(read, 1_000_000);
        assert!(got.abs_diff(250_000) < 5_000, "{got}");
    }

    #[test]
    fn a_look_needs_two_cells_and_ends() {
        let (mut occupancy, mut now) = (Occupancy::new(), Instant::ZERO);
        let read = cell(Direction::Read, 8, false);
        (0..MIN_REQUESTS).for_each(|_| occupancy.enter(read));
        occupancy.note(now, read, 8, 100_000);
        assert!(!occupancy.consider(now + REST), "there is nothing to be told apart");
        now = now + REST + REST;
        in_use(&mut occupancy, now);
        assert!(occupancy.consider(now));
        // Requests that are never alone, as if others kept coming.
        let mut steps = 0;
        while !occupancy.learn(now, &of(read), 1_000_000, 8_000_000, 100_000) {
            now = now + Nanos::from_millis(1);
            steps += 1;
        }
        occupancy.end(now);
        assert!(steps <= MAX_LOOK.as_millis() + 1, "{steps}");
        assert_eq!(occupancy.looks_at(), None);
        now = now + Nanos::from_secs(1);
        in_use(&mut occupancy, now);
        assert!(!occupancy.consider(now), "not before its pause is over");
        now = now + PAUSE.0;
        in_use(&mut occupancy, now);
        assert!(
            !occupancy.consider(now),
            "looks of 150 ms at two cells take less than a 64th of the time"
        );
        now = now + Nanos::new(MAX_LOOK.get() * 2 * PART_OF_LOOKS);
        in_use(&mut occupancy, now);
        assert!(occupancy.consider(now));
    }
}
