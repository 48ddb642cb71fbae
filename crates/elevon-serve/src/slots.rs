//! Buffers of tasks for devices whose bytes this process moves.

use elevon_core::driver::Piece;
use elevon_core::units::TaskId;
use elevon_workload::token::Token;

/// The buffers of every task.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<OfTask>);

/// Buffers of a task, one after the other.
#[derive(Debug, Default)]
struct OfTask {
    bytes: Vec<u8>,
    of_each: usize,
}

impl Slots {
    /// Makes `slots` buffers of `bytes` each for a task.
    pub(crate) fn prepare(&mut self, task: TaskId, slots: u32, bytes: u64) {
        if task.index() >= self.0.len() {
            self.0.resize_with(task.index() + 1, OfTask::default);
        }
        let of_each = bytes as usize;
        self.0[task.index()] = OfTask { bytes: vec![0; of_each * slots as usize], of_each };
    }

    /// Returns a buffer, if it exists.
    pub(crate) fn slot(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        let slots = self.0.get_mut(task.index())?;
        let at = token as usize * slots.of_each;
        slots.bytes.get_mut(at..at + slots.of_each)
    }

    /// Returns the bytes of a piece.
    pub(crate) fn of(&mut self, piece: &Piece) -> &mut [u8] {
        self.part_of(piece, 0, piece.len)
    }

    /// Returns `length` bytes of a piece from `skip` on.
    pub(crate) fn part_of(&mut self, piece: &Piece, skip: u64, length: u64) -> &mut [u8] {
        let Token::Job(slot) = Token::decode(piece.token) else { unreachable!("there is no page cache") };
        let slots = &mut self.0[piece.task.index()];
        let at = slot as usize * slots.of_each + (piece.offset + skip) as usize;
        &mut slots.bytes[at..at + length as usize]
    }
}
