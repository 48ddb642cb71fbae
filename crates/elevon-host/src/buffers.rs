//! The data buffers of I/O: one aligned slab per task, divided into slots of equal size. Those of a
//! page cache are in `frames`.
//!
//! The kernel writes into a slot while a command is in flight. Every slot counts its commands, and
//! a slot is lent as a slice only while it has none, so no Rust reference ever covers memory that
//! the kernel may be changing.

use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::Piece;
use elevon_core::units::TaskId;
use elevon_engine::Token;

use crate::frames::Frames;
use crate::mapping::Mapping;
use crate::registered::Registered;
use crate::shared_memory::LentMemory;

/// Alignment of slabs and slots: enough for every O_DIRECT file system.
const ALIGN: usize = 4096;

/// A task's slab.
struct Slab {
    memory: Mapping,
    slot_bytes: usize,
    slots: Vec<Slot>,
}

/// A slot of a slab.
#[derive(Default)]
struct Slot {
    /// Commands in flight, and of lent memory their parts.
    in_flight: u32,
    /// Its entry among the buffers that are registered with the ring, if it has one.
    registered: Option<Registered>,
    /// Memory of a guest in its place.
    lent: Option<LentMemory>,
}

impl Drop for Slab {
    fn drop(&mut self) {
        if !self.is_idle() {
            // A command was abandoned: the kernel may still write here.
            self.memory.keep();
        }
    }
}

impl Slab {
    fn new(slots: u32, bytes: u64) -> std::io::Result<Self> {
        let slot_bytes = (bytes.max(1) as usize).next_multiple_of(ALIGN);
        let memory = Mapping::new(slot_bytes.saturating_mul(slots.max(1) as usize))?;
        Ok(Self { memory, slot_bytes, slots: (0..slots.max(1)).map(|_| Slot::default()).collect() })
    }

    fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.in_flight == 0)
    }

    fn slot(&mut self, token: u64) -> Option<&mut [u8]> {
        let index = usize::try_from(token).ok()?;
        assert_eq!(
            self.slots.get(index)?.in_flight,
            0,
            "the buffer of an I/O in flight is asked for"
        );
        // SAFETY: the slot lies inside the slab (it is in the list), no command is in flight on
        // it, and the slice borrows the slab, so no command can start while it lives.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.start().add(index * self.slot_bytes),
                self.slot_bytes,
            )
        })
    }
}

/// Memory that contains a piece of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) address: *mut u8,
    pub(crate) len: usize,
    /// Index of its buffer among those that are registered with the ring, once
    /// [`Buffers::register`] has looked for it.
    pub(crate) registered: Option<u16>,
    /// Index of the slab, which is that of the task; or [`FRAMES`].
    slab: u32,
    slot: u32,
}

// SAFETY: a span is an address and a length; the code that dereferences it is responsible.
unsafe impl Send for Span {}

/// Used instead of the index of a slab: the span is in frames of the page cache, which are not
/// registered. No task has this number.
const FRAMES: u32 = TaskId::IDLE.0;

impl Span {
    /// Returns a span in frames of the page cache.
    pub(crate) const fn of_frames(address: *mut u8, len: usize) -> Self {
        Self { address, len, registered: None, slab: FRAMES, slot: 0 }
    }

    /// Returns true if it is in frames of the page cache.
    pub(crate) const fn is_of_frames(&self) -> bool {
        self.slab == FRAMES
    }

    /// Returns the address behind it.
    pub(crate) const fn end(&self) -> *mut u8 {
        self.address.wrapping_add(self.len)
    }
}

/// All slabs, by task, and the frames of the page cache, if there is one.
#[derive(Default)]
pub(crate) struct Buffers {
    slabs: Vec<Option<Slab>>,
    pub(crate) frames: Option<Frames>,
}

impl Buffers {
    /// Makes a slab for a task, and replaces the one it had. Panics if a command is in flight on
    /// that one.
    ///
    /// # Errors
    /// The machine has not enough memory. The task has no slab then.
    pub(crate) fn prepare(&mut self, task: TaskId, slots: u32, bytes: u64) -> std::io::Result<()> {
        assert_ne!(task, TaskId::IDLE, "the idle task does no I/O");
        if task.index() >= self.slabs.len() {
            self.slabs.resize_with(task.index() + 1, || None);
        }
        let slab = &mut self.slabs[task.index()];
        assert!(
            slab.as_ref().is_none_or(Slab::is_idle),
            "new buffers for {task:?}, which has commands in flight"
        );
        *slab = None;
        *slab = Some(Slab::new(slots, bytes)?);
        Ok(())
    }

    /// Returns the bytes of a slot that has no command in flight.
    pub(crate) fn slot(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.slabs.get_mut(task.index())?.as_mut()?.slot(token)
    }

    /// Puts memory of a guest in place of that of a slot, which has no command in flight.
    pub(crate) fn lend(&mut self, task: TaskId, token: u64, lent: LentMemory) {
        self.idle_slot(task, token).lent = Some(lent);
    }

    /// Takes the memory of a guest away again. Returns false if there was none.
    pub(crate) fn take_back(&mut self, task: TaskId, token: u64) -> bool {
        self.idle_slot(task, token).lent.take().is_some()
    }

    fn idle_slot(&mut self, task: TaskId, token: u64) -> &mut Slot {
        let slab = self.slabs[task.index()].as_mut().expect("buffers are prepared before I/O");
        let slot = &mut slab.slots[token as usize];
        assert_eq!(slot.in_flight, 0, "the buffer of an I/O in flight is changed");
        slot
    }

    /// Gives back the memory of a slot that has no command in flight.
    pub(crate) fn empty_slot(&mut self, task: TaskId, token: u64) {
        let Some(Some(slab)) = self.slabs.get_mut(task.index()) else { return };
        if slab.slot(token).is_some() {
            let start = token as usize * slab.slot_bytes;
            slab.memory.give_back(start..start + slab.slot_bytes);
        }
    }

    /// Marks a piece as in flight and appends its memory to `spans`. Panics if the piece exceeds
    /// its slot.
    pub(crate) fn start(&mut self, piece: &Piece, is_read: bool, spans: &mut Vec<Span>) {
        let slot = match Token::decode(piece.token) {
            Token::Job(slot) => slot as usize,
            Token::Cache(bio) => {
                let frames =
                    self.frames.as_mut().expect("frames are there before bios of the page cache");
                return frames.start(bio as usize, piece.offset, piece.len, is_read, spans);
            }
        };
        let slab =
            self.slabs[piece.task.index()].as_mut().expect("buffers are prepared before I/O");
        let (offset, len) = (piece.offset as usize, piece.len as usize);
        if let Some(Slot { lent: Some(lent), in_flight, .. }) = slab.slots.get_mut(slot) {
            assert!(offset + len <= lent.bytes(), "a piece lies outside its buffer");
            for (address, len) in lent.range(offset, len) {
                *in_flight += 1;
                let (slab, slot) = (piece.task.0, slot as u32);
                spans.push(Span { address, len, registered: None, slab, slot });
            }
            return;
        }
        assert!(
            slot < slab.slots.len() && offset + len <= slab.slot_bytes,
            "a piece lies outside its buffer"
        );
        slab.slots[slot].in_flight += 1;
        // SAFETY: inside the slab by the assertion above.
        let address = unsafe { slab.memory.start().add(slot * slab.slot_bytes + offset) };
        spans.push(Span { address, len, registered: None, slab: piece.task.0, slot: slot as u32 });
    }

    /// Ends the command of a span.
    pub(crate) fn finish(&mut self, span: &Span, is_read: bool) {
        if span.is_of_frames() {
            if let Some(frames) = &mut self.frames {
                frames.finish(span, is_read);
            }
        } else if let Some(Some(slab)) = self.slabs.get_mut(span.slab as usize) {
            slab.slots[span.slot as usize].in_flight -= 1;
        }
    }

    /// Copies bytes between frames and buffers.
    pub(crate) fn carry_out(&mut self, copy: &ByteCopy) {
        let Some(frames) = &mut self.frames else { return };
        let slab = self.slabs.get_mut(copy.task.index()).and_then(Option::as_mut);
        frames.carry_out(copy, slab.and_then(|slab| slab.slot(copy.token)));
    }

    /// Looks for a span in flight among the buffers that are registered with the ring. `cover` is
    /// given the entry of its buffer, where the buffer begins, and how many bytes of it are needed.
    pub(crate) fn register(
        &mut self,
        span: &mut Span,
        cover: impl FnOnce(&mut Option<Registered>, *mut u8, usize) -> Option<u16>,
    ) {
        // The frames of a page cache are not registered.
        let Some(Some(slab)) = self.slabs.get_mut(span.slab as usize) else { return };
        // Nor is what a guest lends.
        if slab.slots[span.slot as usize].lent.is_some() {
            return;
        }
        let start = slab.memory.start().wrapping_add(span.slot as usize * slab.slot_bytes);
        let bytes = (span.end().addr() - start.addr()).next_multiple_of(ALIGN);
        span.registered = cover(&mut slab.slots[span.slot as usize].registered, start, bytes);
    }

    /// Takes away the entries of a task's buffers among those that are registered with the ring, or
    /// that of one of them, and yields their indices.
    pub(crate) fn unregister(
        &mut self,
        task: TaskId,
        token: Option<u64>,
    ) -> impl Iterator<Item = u16> {
        let slots = self
            .slabs
            .get_mut(task.index())
            .and_then(Option::as_mut)
            .map(|slab| &mut slab.slots[..]);
        let slots = slots.unwrap_or_default();
        let chosen = match token.map(|token| token as usize) {
            None => slots,
            Some(one) => slots.get_mut(one..=one).unwrap_or_default(),
        };
        chosen.iter_mut().filter_map(|slot| slot.registered.take()).map(|entry| entry.index)
    }
}

#[cfg(test)]
mod fake_ring;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, len: u64) -> Piece {
        Piece { task: TaskId(0), token: 1, offset, len, sector: Default::default() }
    }

    /// Prepares buffers of a task.
    fn prepare(buffers: &mut Buffers, task: u32, slots: u32, bytes: u64) {
        buffers.prepare(TaskId(task), slots, bytes).expect("memory");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends a program that asks for more memory than there is")]
    fn buffers_that_find_no_memory_are_an_error_and_others_stay() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 2, 4096);
        let error =
            buffers.prepare(TaskId(1), 1024, 1 << 52).expect_err("more than any machine has");
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        assert!(buffers.slot(TaskId(1), 0).is_none() && buffers.slot(TaskId(0), 1).is_some());
    }

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 2, 5000);
        let mut spans = Vec::new();
        buffers.start(&piece(0, 5000), true, &mut spans);
        assert_eq!(spans[0].address as usize % ALIGN, 0);
        buffers.finish(&spans[0], true);
        buffers.slot(TaskId(0), 0).expect("slot 0").fill(1);
        buffers.slot(TaskId(0), 1).expect("slot 1").fill(2);
        assert!(buffers.slot(TaskId(0), 0).expect("slot 0").iter().all(|&b| b == 1));
        assert!(buffers.slot(TaskId(0), 2).is_none());
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_slot_in_flight_is_not_handed_out() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 2, 4096);
        buffers.start(&piece(0, 4096), true, &mut Vec::new());
        buffers.slot(TaskId(0), 1);
    }

    #[test]
    #[should_panic(expected = "outside its buffer")]
    fn a_piece_cannot_leave_its_slot() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 2, 4096);
        buffers.start(&piece(1, 4096), true, &mut Vec::new());
    }

    #[test]
    #[should_panic(expected = "commands in flight")]
    fn buffers_in_flight_are_not_replaced() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 2, 4096);
        buffers.start(&piece(0, 4096), true, &mut Vec::new());
        prepare(&mut buffers, 0, 2, 4096);
    }

    #[test]
    fn tasks_beyond_65535_have_slabs_of_their_own() {
        let mut buffers = Buffers::default();
        for task in [1, 65_535, 65_537] {
            prepare(&mut buffers, task, 2, 4096);
        }
        let mut spans = Vec::new();
        for task in [1, 65_535, 65_537] {
            buffers.start(&Piece { task: TaskId(task), ..piece(0, 4096) }, true, &mut spans);
        }
        assert!(spans.iter().all(|span| !span.is_of_frames()));
        buffers.finish(&spans[2], true);
        buffers.finish(&spans[1], true);
        assert!(
            buffers.slot(TaskId(65_537), 1).is_some() && buffers.slot(TaskId(65_535), 1).is_some()
        );
        let of_the_first =
            |buffers: &mut Buffers| buffers.slabs[1].as_ref().expect("prepared").slots[1].in_flight;
        assert_eq!(of_the_first(&mut buffers), 1, "its command is still in flight");
        buffers.finish(&spans[0], true);
        assert_eq!(of_the_first(&mut buffers), 0);
    }

    #[test]
    fn a_buffer_is_registered_as_far_as_a_span_needs_it() {
        let mut buffers = Buffers::default();
        prepare(&mut buffers, 0, 3, 64 << 10);
        let mut spans = Vec::new();
        buffers.start(&piece(5000, 4000), true, &mut spans);
        let mut asked = None;
        buffers.register(&mut spans[0], |known, start, bytes| {
            asked = Some((*known, start.addr(), bytes));
            *known = Some(Registered { index: 7, bytes });
            Some(7)
        });
        let address = spans[0].address.addr();
        assert_eq!(asked, Some((None, address - 5000, 12_288)));
        assert_eq!(spans[0].registered, Some(7));
        buffers.finish(&spans[0], true);
        let mut unregister = |token| buffers.unregister(TaskId(0), token).collect::<Vec<_>>();
        assert_eq!((unregister(Some(0)), unregister(Some(9))), (vec![], vec![]));
        assert_eq!((unregister(Some(1)), unregister(None)), (vec![7], vec![]));
    }
}
