//! Trims of several ranges (`num_range`): each range is a discard of its own, and the I/O ends
//! with the last of them.
//!
//! Range n of the I/O in slot s has the token s + n times the number of slots.

use super::*;

/// The ranges of the trims of a process.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    /// Ranges of an I/O, at most.
    most: usize,
    /// By slot.
    trims: Vec<Trim>,
    /// Ranges of the I/O that is being handed out which have been.
    handed: usize,
}

/// The ranges of one I/O.
#[derive(Clone, Debug)]
struct Trim {
    ranges: Vec<(DeviceOffset, Bytes)>,
    /// Ranges that are not over.
    left: usize,
    /// The first error of a range.
    status: Status,
}

impl Ranges {
    /// Returns `None` for a job whose trims have one range.
    pub(super) fn new(spec: &JobSpec, depth: usize) -> Option<Self> {
        let most = spec.blocks.trim_ranges as usize;
        let none = Trim { ranges: Vec::with_capacity(most), left: 0, status: Status::Ok };
        (most > 1).then(|| Self { most, trims: vec![none; depth], handed: 0 })
    }

    /// Returns the bytes of a range.
    pub(super) fn bytes(&self, token: u32) -> Bytes {
        let (slot, range) = self.place(token);
        self.trims[slot].ranges[range].1
    }

    /// Reports the end of a range. Returns the slot of its I/O and the I/O's status if that is over
    /// now.
    pub(super) fn end(&mut self, token: u32, status: Status) -> Option<(u32, Status)> {
        let (slot, _) = self.place(token);
        let trim = &mut self.trims[slot];
        trim.left = trim.left.checked_sub(1).expect("a range ends once");
        if trim.status.is_ok() {
            trim.status = status;
        }
        (trim.left == 0).then_some((slot as u32, trim.status))
    }

    /// Returns the slot and the number of a range.
    fn place(&self, token: u32) -> (usize, usize) {
        (token as usize % self.trims.len(), token as usize / self.trims.len())
    }
}

impl Process {
    /// Draws the other ranges of a trim in `slot`. Returns the whole: all bytes, from the first
    /// range on.
    #[cold]
    pub(super) fn draw_ranges(&mut self, slot: u32, first: Access) -> Access {
        let Some(mut ranges) = self.ranges.take() else { return first };
        let trim = &mut ranges.trims[slot as usize];
        (trim.status, trim.left) = (Status::Ok, 0);
        trim.ranges.clear();
        let mut whole = Access { len: Bytes::ZERO, ..first };
        let mut next = Some(first);
        // The I/O counts once.
        let ios_left = std::mem::replace(&mut self.budget.ios_left, u64::MAX);
        while let Some(access) = next {
            trim.ranges.push((access.offset, access.len));
            whole.len += access.len;
            next = if trim.ranges.len() < ranges.most { self.draw(None) } else { None };
        }
        self.budget.ios_left = ios_left;
        trim.left = trim.ranges.len();
        self.ranges = Some(ranges);
        whole
    }

    /// Returns the token, offset and length of the next range of the trim in `slot`, and whether it
    /// is the last.
    #[cold]
    pub(super) fn take_range(&mut self, slot: u32) -> (u32, DeviceOffset, Bytes, bool) {
        let ranges = self.ranges.as_mut().expect("trims of several ranges");
        let of_slot = &ranges.trims[slot as usize].ranges;
        let (offset, bytes) = of_slot[ranges.handed];
        let token = slot + (ranges.handed * ranges.trims.len()) as u32;
        ranges.handed += 1;
        let is_last = ranges.handed == of_slot.len();
        if is_last {
            ranges.handed = 0;
        }
        (token, offset, bytes, is_last)
    }

    /// Returns true if a batch of this many I/Os is submitted under a plug.
    pub(crate) const fn plugs(&self, ios: usize) -> bool {
        (ios > LARGEST_UNPLUGGED || self.ranges.is_some()) && self.threads.is_none()
    }
}
