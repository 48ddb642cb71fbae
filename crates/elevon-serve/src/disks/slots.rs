//! Memory for devices whose bytes this process moves: buffers of tasks, and the frames of a page
//! cache.

use std::io;

use elevon_cache::FrameId;
use elevon_cache::page_cache::{ByteCopy, Way};
use elevon_core::driver::Piece;
use elevon_core::units::{Bytes, PAGE_SIZE, TaskId};
use elevon_engine::Token;
use elevon_host::Mapping;

const PAGE: usize = PAGE_SIZE as usize;

/// The buffers of every task, and the frames.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    tasks: Vec<Option<TaskBuffers>>,
    /// The frames, one after the other; none without a page cache.
    frames: Vec<u8>,
    /// The frames of each bio of the page cache, in order.
    bios: Vec<Vec<FrameId>>,
}

/// Buffers of a task, one after the other.
#[derive(Debug)]
struct TaskBuffers {
    bytes: Mapping,
    of_each: usize,
}

impl TaskBuffers {
    fn slot(&mut self, token: u64) -> Option<&mut [u8]> {
        let at = token as usize * self.of_each;
        self.bytes.bytes_mut().get_mut(at..at + self.of_each)
    }
}

impl Slots {
    /// Makes `slots` buffers of `bytes` each for a task, in place of those that it has.
    ///
    /// # Errors
    /// The machine has not enough memory. The task has no buffers then.
    pub(crate) fn prepare(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()> {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, || None);
        }
        let of_each = bytes as usize;
        let of_task = &mut self.tasks[task.index()];
        *of_task = None;
        *of_task = Some(TaskBuffers { bytes: Mapping::new(of_each * slots as usize)?, of_each });
        Ok(())
    }

    /// Gives back the memory of a buffer.
    pub(crate) fn empty(&mut self, task: TaskId, token: u64) {
        if let Some(Some(of_task)) = self.tasks.get_mut(task.index()) {
            let start = token as usize * of_task.of_each;
            of_task.bytes.give_back(start..start + of_task.of_each);
        }
    }

    /// Returns a buffer, if it exists.
    pub(crate) fn slot(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.tasks.get_mut(task.index())?.as_mut()?.slot(token)
    }

    /// Makes the frames of a page cache.
    pub(crate) fn reserve_frames(&mut self, memory: Bytes) {
        self.frames = vec![0; memory.get() as usize / PAGE * PAGE];
    }

    /// Sets the frames that contain the data of a bio.
    pub(crate) fn bind(&mut self, bio: u32, frames: &[FrameId]) {
        if self.bios.len() <= bio as usize {
            self.bios.resize_with(bio as usize + 1, Vec::new);
        }
        self.bios[bio as usize].clear();
        self.bios[bio as usize].extend_from_slice(frames);
    }

    /// Copies bytes between a frame and the buffer of an I/O.
    pub(crate) fn carry_out(&mut self, copy: &ByteCopy) {
        let &ByteCopy { task, token, frame, frame_offset, bytes, call_offset, way } = copy;
        let frame = &mut self.frames[frame.0 as usize * PAGE..][..PAGE];
        if way == Way::Zero {
            return frame.fill(0);
        }
        let inside = &mut frame[frame_offset as usize..][..bytes as usize];
        let buffer = self.tasks[task.index()]
            .as_mut()
            .and_then(|of_task| of_task.slot(token))
            .expect("a call that moves bytes has a buffer");
        let buffer = &mut buffer[call_offset.get() as usize..][..bytes as usize];
        match way {
            Way::ToCall => buffer.copy_from_slice(inside),
            Way::ToFrame | Way::Zero => inside.copy_from_slice(buffer),
        }
    }

    /// Calls `each` with the bytes of a piece from `skip` on, `length` of them, in order: at once,
    /// or frame by frame.
    pub(crate) fn for_each_part(
        &mut self,
        piece: &Piece,
        skip: u64,
        length: u64,
        mut each: impl FnMut(&mut [u8]),
    ) {
        let (mut at, mut left) = ((piece.offset + skip) as usize, length as usize);
        let bio = match Token::decode(piece.token) {
            Token::Job(slot) => {
                let buffer =
                    self.slot(piece.task, slot.into()).expect("a command in flight has a buffer");
                return each(&mut buffer[at..at + left]);
            }
            Token::Cache(bio) => bio,
        };
        while left > 0 {
            let frame = self.bios[bio as usize][at / PAGE].0 as usize;
            let bytes = left.min(PAGE - at % PAGE);
            each(&mut self.frames[frame * PAGE + at % PAGE..][..bytes]);
            (at, left) = (at + bytes, left - bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Sector;

    use super::*;

    #[test]
    fn the_bytes_of_a_bio_are_those_of_its_frames() {
        let mut slots = Slots::default();
        slots.prepare(TaskId(0), 1, 8192).expect("memory");
        slots.reserve_frames(Bytes::new(4 * PAGE_SIZE));
        slots.slot(TaskId(0), 0).expect("a buffer").fill(7);
        let (task, token, call_offset) = (TaskId(0), 0, Bytes::ZERO);
        let copy = |frame, frame_offset, bytes, way| ByteCopy {
            task,
            token,
            frame: FrameId(frame),
            frame_offset,
            bytes,
            call_offset,
            way,
        };
        slots.carry_out(&copy(3, 4000, 96, Way::ToFrame));
        slots.bind(5, &[FrameId(3), FrameId(1)]);
        let (token, sector) = (Token::Cache(5).encode(), Sector::ZERO);
        let piece = Piece { task, token, offset: 512, len: 2 * PAGE_SIZE - 512, sector };
        let mut parts = Vec::new();
        slots.for_each_part(&piece, 3000, 1000, |part| {
            parts.push((part.len(), part[0], part[part.len() - 1]));
        });
        assert_eq!(parts, [(584, 0, 7), (416, 0, 0)]);
        slots.for_each_part(&piece, 3584, 4096, |part| part.fill(9));
        slots.carry_out(&copy(1, 0, 4096, Way::ToCall));
        assert_eq!(slots.slot(task, 0).expect("a buffer")[4095..4097], [9, 7]);
        slots.carry_out(&copy(3, 0, 0, Way::Zero));
        slots.for_each_part(&piece, 0, 3584, |part| assert!(part.iter().all(|byte| *byte == 0)));
    }
}
