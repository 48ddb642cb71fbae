//! What a disk was told and when, from which a power cut at any point is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use elevon_core::driver::Command;
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::Instant;
use elevon_sim::device::fault::content::{Content, PowerCut, Survivors};

use crate::image::Image;

/// A step of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its time.
    pub at: Instant,
    /// The command.
    pub command: Command,
    /// `None` if the command was issued; its status if it ended.
    pub end: Option<Status>,
    /// Bytes that the program had written to its standard output before.
    pub output: u64,
}

/// Bytes of a write that lie together on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Offset on the disk in bytes.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) length: u64,
    /// The bytes, from this offset of a buffer; `None` for zeroes.
    pub(crate) data: Option<(Arc<[u8]>, usize)>,
}

impl Part {
    /// Writes the bytes from `from` to `until` of the part to an image. The part has as many.
    pub(crate) fn apply(&self, image: &mut Image, from: u64, until: u64) {
        let (at, length) = (self.offset + from, until - from);
        match &self.data {
            Some((bytes, start)) => {
                let start = start + from as usize;
                image.write(at, &bytes[start..start + length as usize]);
            }
            None => image.clear(at, length),
        }
    }
}

/// The history of a disk.
#[derive(Clone, Debug)]
pub struct History {
    base: Image,
    block_size: u32,
    has_cache: bool,
    events: Vec<Event>,
    /// What each write wrote, by the sequence number of its command.
    writes: BTreeMap<u64, Vec<Part>>,
    /// Bytes that the program has written to its standard output.
    output: u64,
}

impl History {
    /// Begins the history of a disk with these limits and bytes.
    pub(crate) const fn new(limits: &QueueLimits, base: Image) -> Self {
        Self {
            base,
            block_size: limits.logical_block_size,
            has_cache: limits.write_cache,
            events: Vec::new(),
            writes: BTreeMap::new(),
            output: 0,
        }
    }

    pub(crate) fn note_output(&mut self, bytes: u64) {
        self.output += bytes;
    }

    pub(crate) fn note_write(&mut self, command: &Command, parts: Vec<Part>) {
        self.writes.insert(command.sequence, parts);
    }

    pub(crate) fn note(&mut self, at: Instant, command: &Command, end: Option<Status>) {
        self.events.push(Event { at, command: *command, end, output: self.output });
    }

    /// Returns all steps, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the time of the last of the first `steps` steps.
    pub fn time_of(&self, steps: usize) -> Instant {
        let last = steps.min(self.events.len()).checked_sub(1);
        last.map_or(Instant::ZERO, |last| self.events[last].at)
    }

    /// Returns the points from `first` to `last` steps at which a power cut can leave something
    /// new: the two ends, after a write was issued or ended, and after a flush ended. A point is
    /// the number of steps before it.
    pub fn points(&self, first: usize, last: usize) -> Vec<usize> {
        let changes = |point: &usize| {
            let Event { command, end, .. } = self.events[point - 1];
            match command.op {
                Op::Flush => end.is_some(),
                op => op.is_write(),
            }
        };
        let is_point = |point: &usize| *point == first || *point == last || changes(point);
        (first..=last.min(self.events.len())).filter(is_point).collect()
    }

    /// Returns what a power cut after the first `steps` steps leaves, and the bytes that the
    /// program had written to its standard output. `seed` is the random seed of the modes that
    /// draw.
    pub fn cut(&self, steps: usize, mode: PowerCut, seed: u64) -> (Image, u64) {
        let left = self.content(steps, &BTreeSet::new()).power_cut(mode, seed);
        self.image_of(steps, &left)
    }

    /// As [`Self::cut`], if all writes are left but these, by the sequence numbers of their
    /// commands.
    pub(crate) fn cut_without(&self, steps: usize, lost: &BTreeSet<u64>) -> (Image, u64) {
        let left = self.content(steps, lost).power_cut(PowerCut::KeepAll, 0);
        self.image_of(steps, &left)
    }

    /// Returns the writes of which a power cut loses a block that no later write covers, by the
    /// sequence numbers of their commands.
    pub(crate) fn lost(&self, steps: usize, mode: PowerCut, seed: u64) -> BTreeSet<u64> {
        let mut content = self.content(steps, &BTreeSet::new());
        let all = content.clone().power_cut(PowerCut::KeepAll, 0);
        let left = content.power_cut(mode, seed);
        let is_lost = |(block, generation): (u64, u64)| {
            (left.get(&block) != Some(&generation)).then(|| generation - 1)
        };
        all.into_iter().filter_map(is_lost).collect()
    }

    /// Returns the content of the disk after so many steps, as if some writes had never been.
    fn content(&self, steps: usize, without: &BTreeSet<u64>) -> Content {
        let mut content = Content::new(self.block_size, self.has_cache);
        let before = self.events[..steps.min(self.events.len())].iter();
        for event in before.filter(|event| !without.contains(&event.command.sequence)) {
            match event.end {
                None => content.on_submit(&event.command),
                Some(status) => content.on_complete(&event.command, status),
            }
        }
        content
    }

    fn image_of(&self, steps: usize, left: &Survivors) -> (Image, u64) {
        let mut image = self.base.clone();
        for (&block, &generation) in left {
            if let Some(sequence) = generation.checked_sub(1) {
                self.restore(&mut image, block, sequence);
            }
        }
        // The power is cut as late as possible: just before the next step.
        (image, self.events.get(steps).map_or(self.output, |next| next.output))
    }

    /// Writes to an image what a write left in a block.
    fn restore(&self, image: &mut Image, block: u64, sequence: u64) {
        let size = u64::from(self.block_size);
        let (start, end) = (block * size, (block + 1) * size);
        for part in self.writes.get(&sequence).into_iter().flatten() {
            let from = start.max(part.offset);
            let until = end.min(part.offset + part.length);
            if from < until {
                part.apply(image, from - part.offset, until - part.offset);
            }
        }
    }
}
