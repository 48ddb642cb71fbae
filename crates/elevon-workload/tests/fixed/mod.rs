//! A device that completes every command after the same time, with its clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevon_core::driver::{Accept, Command, Completion, Driver, Piece, Pieces};
use elevon_core::op::Op;
use elevon_core::units::{Instant, TaskId};
use elevon_engine::Backend;

/// The device and its clock, in nanoseconds.
pub(crate) struct Fixed {
    pub(crate) now: u64,
    latency: u64,
    pending: BinaryHeap<Reverse<(u64, usize)>>,
    /// All commands, with the instants at which they came.
    pub(crate) commands: Vec<(u64, Command)>,
    /// The maximum number of commands in flight.
    pub(crate) deepest: usize,
    /// The instant at which the user stops the run.
    pub(crate) interrupt_at: u64,
    /// Commands are never completed.
    pub(crate) forget: bool,
    /// The stored content, if there are real bytes.
    pub(crate) memory: Option<Vec<u8>>,
    buffers: Vec<Vec<Vec<u8>>>,
}

impl Fixed {
    pub(crate) fn new(latency: u64) -> Self {
        Self {
            now: 0,
            latency,
            pending: BinaryHeap::new(),
            commands: Vec::new(),
            deepest: 0,
            interrupt_at: u64::MAX,
            forget: false,
            memory: None,
            buffers: Vec::new(),
        }
    }
}

impl Driver for Fixed {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        assert_eq!(now.get(), self.now);
        if let Some(memory) = &mut self.memory {
            let mut at = command.sector.byte_offset().get() as usize;
            pieces.for_each(&mut |piece: Piece| {
                let len = piece.len as usize;
                let buffer = &mut self.buffers[piece.task.index()][piece.token as usize]
                    [piece.offset as usize..][..len];
                match command.op {
                    Op::Write => memory[at..at + len].copy_from_slice(buffer),
                    Op::Read => buffer.copy_from_slice(&memory[at..at + len]),
                    _ => {}
                }
                at += len;
            });
        }
        if !self.forget {
            self.pending.push(Reverse((self.now + self.latency, self.commands.len())));
        }
        self.deepest = self.deepest.max(self.pending.len());
        self.commands.push((self.now, *command));
        Accept::Ok
    }
}

impl Backend for Fixed {
    fn now(&mut self) -> Instant {
        Instant::new(self.now)
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        let &Reverse((at, index)) = self.pending.peek()?;
        if at > self.now {
            return None;
        }
        self.pending.pop();
        let command = &self.commands[index].1;
        Some(Completion::success(command))
    }
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let done = self.pending.peek().map(|Reverse((at, _))| *at);
        let Some(next) = [done, until.map(Instant::get)].into_iter().flatten().min() else {
            return false;
        };
        assert!(next >= self.now);
        self.now = next;
        true
    }
    fn interrupted(&self) -> bool {
        self.now >= self.interrupt_at
    }
    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        if self.memory.is_some() {
            self.buffers.resize(self.buffers.len().max(task.index() + 1), Vec::new());
            self.buffers[task.index()] = vec![vec![0; bytes as usize]; slots as usize];
        }
    }
    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        Some(self.buffers.get_mut(task.index())?.get_mut(token as usize)?.as_mut_slice())
    }
}
