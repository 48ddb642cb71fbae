//! The page frames of a cache with real data: one mapping, one page per frame, memory allocated
//! when frames are first used.
//!
//! Frames that a command reads into or writes from count as in flight. The page cache never moves
//! bytes of such a frame (a page that is being read is locked, one that is being written is
//! stable), and this is asserted here before any byte moves.

use elevon_cache::FrameId;
use elevon_cache::page_cache::{ByteCopy, Way};
use elevon_core::units::PAGE_SIZE;

use crate::buffers::Span;
use crate::mapping::Mapping;

const PAGE: usize = PAGE_SIZE as usize;

/// Number of commands on a frame.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Commands in which the device writes to the frame.
    reads: u16,
    /// Commands in which the device reads from the frame.
    writes: u16,
}

/// All frames.
pub(crate) struct Frames {
    memory: Mapping,
    in_flight: Vec<InFlight>,
    /// The frames of a bio in order, by token.
    bios: Vec<Vec<FrameId>>,
}

impl Drop for Frames {
    fn drop(&mut self) {
        if self.in_flight.iter().any(|frame| frame.reads > 0 || frame.writes > 0) {
            // A command was abandoned: the kernel may still use this memory.
            self.memory.keep();
        }
    }
}

impl Frames {
    /// Maps `count` frames, all zero.
    pub(crate) fn new(count: u64) -> std::io::Result<Self> {
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count > 0 && *count <= usize::MAX / 2 / PAGE);
        let count = count.ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOMEM))?;
        let memory = Mapping::new(count * PAGE)?;
        // Hits of a large cache cause TLB misses. Frames are first used in order, so huge pages
        // take no more memory than frames do, except for the last one. A kernel without huge pages
        // returns an error, which is ignored. Miri has no madvise.
        if !cfg!(miri) {
            // SAFETY: the whole mapping that was just made.
            unsafe { libc::madvise(memory.start().cast(), memory.len(), libc::MADV_HUGEPAGE) };
        }
        Ok(Self { memory, in_flight: vec![InFlight::default(); count], bios: Vec::new() })
    }

    /// Sets the frames that contain the data of a bio.
    pub(crate) fn bind(&mut self, bio: usize, frames: &[FrameId]) {
        if self.bios.len() <= bio {
            self.bios.resize_with(bio + 1, Vec::new);
        }
        self.bios[bio].clear();
        self.bios[bio].extend_from_slice(frames);
    }

    fn address(&self, frame: FrameId, offset: usize) -> *mut u8 {
        let frame = frame.0 as usize;
        assert!(frame < self.in_flight.len() && offset < PAGE, "a frame that is not there");
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.memory.start().add(frame * PAGE + offset) }
    }

    /// Marks bytes `[offset, offset + len)` of a bio as in flight and appends their memory to
    /// `spans`: a span for each run of contiguous frames.
    pub(crate) fn start(
        &mut self,
        bio: usize,
        offset: u64,
        len: u64,
        is_read: bool,
        spans: &mut Vec<Span>,
    ) {
        let (mut offset, mut left) = (offset as usize, len as usize);
        while left > 0 {
            let frame = self.bios[bio][offset / PAGE];
            let bytes = left.min(PAGE - offset % PAGE);
            let address = self.address(frame, offset % PAGE);
            let extends =
                spans.last_mut().filter(|last| last.is_of_frames() && last.end() == address);
            // The rest of a frame counts with its beginning if that is in the span.
            if extends.is_none() || offset % PAGE == 0 {
                let in_flight = &mut self.in_flight[frame.0 as usize];
                *if is_read { &mut in_flight.reads } else { &mut in_flight.writes } += 1;
            }
            match extends {
                Some(last) => last.len += bytes,
                None => spans.push(Span::of_frames(address, bytes)),
            }
            (offset, left) = (offset + bytes, left - bytes);
        }
    }

    /// Ends the command of a span.
    pub(crate) fn finish(&mut self, span: &Span, is_read: bool) {
        let first = span.address as usize - self.memory.start() as usize;
        for frame in first / PAGE..(first + span.len).div_ceil(PAGE) {
            let in_flight = &mut self.in_flight[frame];
            *if is_read { &mut in_flight.reads } else { &mut in_flight.writes } -= 1;
        }
    }

    /// Copies bytes. `buffer`: that of the I/O, if it has one.
    pub(crate) fn carry_out(&mut self, copy: &ByteCopy, buffer: Option<&mut [u8]>) {
        let &ByteCopy { frame, frame_offset, bytes, call_offset, way, .. } = copy;
        let (from, len) = (frame_offset as usize, bytes as usize);
        if len == 0 {
            return;
        }
        assert!(from + len <= PAGE, "a copy leaves its frame");
        let inside = self.address(frame, from);
        let InFlight { reads, writes } = self.in_flight[frame.0 as usize];
        assert!(
            reads == 0 && (way == Way::ToCall || writes == 0),
            "bytes of {frame:?} move while it is in flight"
        );
        let place = |buffer: Option<&mut [u8]>| -> *mut u8 {
            let buffer = buffer.expect("a call that moves bytes has a buffer");
            buffer[call_offset.get() as usize..][..len].as_mut_ptr()
        };
        // SAFETY: both ranges are inside their memory, by the assertion and the slicing above, and
        // never overlap: one is a buffer of a task, the other our own mapping. No command writes to
        // the frame, and none reads it while it is changed.
        unsafe {
            match way {
                Way::ToCall => std::ptr::copy_nonoverlapping(inside, place(buffer), len),
                Way::ToFrame => std::ptr::copy_nonoverlapping(place(buffer), inside, len),
                Way::Zero => std::ptr::write_bytes(self.address(frame, 0), 0, PAGE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::{Bytes, TaskId};

    use super::*;

    fn copy(frame: u32, frame_offset: u32, bytes: u32, way: Way) -> ByteCopy {
        ByteCopy {
            task: TaskId(0),
            token: 0,
            frame: FrameId(frame),
            frame_offset,
            bytes,
            call_offset: Bytes::new(1),
            way,
        }
    }

    fn frames(bio: &[u32]) -> Frames {
        let mut frames = Frames::new(8).expect("memory");
        frames.bind(0, &bio.iter().map(|&frame| FrameId(frame)).collect::<Vec<_>>());
        frames
    }

    #[test]
    fn neighbouring_frames_are_one_span_and_each_counts_once() {
        let mut frames = frames(&[2, 3, 6]);
        let mut spans = Vec::new();
        // Split within frame 2 and merged again, as a bio.
        frames.start(0, 0, 512, true, &mut spans);
        frames.start(0, 512, 3 * PAGE_SIZE - 512, true, &mut spans);
        assert_eq!(spans.iter().map(|span| span.len).collect::<Vec<_>>(), [2 * PAGE, PAGE]);
        let reads =
            |frames: &Frames| frames.in_flight.iter().map(|frame| frame.reads).collect::<Vec<_>>();
        assert_eq!(reads(&frames), [0, 0, 1, 1, 0, 0, 1, 0]);
        spans.iter().for_each(|span| frames.finish(span, true));
        assert_eq!(reads(&frames), [0; 8]);
    }

    #[test]
    fn bytes_go_there_and_back() {
        let mut frames = frames(&[]);
        let (mut there, mut back) = ([7; 16], [0; 16]);
        frames.carry_out(&copy(5, 0, 1, Way::Zero), None);
        frames.carry_out(&copy(5, 4090, 6, Way::ToFrame), Some(&mut there));
        frames.carry_out(&copy(5, 4088, 8, Way::ToCall), Some(&mut back));
        assert_eq!(back, [0, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_frame_that_is_being_written_does_not_change() {
        let mut frames = frames(&[1]);
        let mut buffer = [0; 16];
        frames.start(0, 0, 4096, false, &mut Vec::new());
        frames.carry_out(&copy(1, 0, 8, Way::ToCall), Some(&mut buffer));
        frames.carry_out(&copy(1, 0, 8, Way::ToFrame), Some(&mut buffer));
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_frame_that_is_being_read_is_not_looked_at() {
        let mut frames = frames(&[1]);
        frames.start(0, 0, 512, true, &mut Vec::new());
        frames.carry_out(&copy(1, 0, 8, Way::ToCall), Some(&mut [0; 16]));
    }
}
