//! A ring in memory: it holds the spans of commands, and reads and writes their bytes as the kernel
//! does, at any time until it completes them. Random walks hold every byte against a shadow.
//!
//! The walks make no system call but `mmap`, so that Miri runs them (`.ci/run`): it sees a slice of
//! memory that a command may still change, and an access outside a slab or a frame.

use elevon_cache::FrameId;
use elevon_cache::page_cache::Way;
use elevon_core::units::{Bytes, PAGE_SIZE};
use elevon_testkit::Rng;

use super::*;

const PAGE: usize = PAGE_SIZE as usize;
/// Tasks, slots of each, and bytes of a slot.
const TASKS: usize = 2;
const SLOTS: usize = 3;
const SLOT: usize = 2 * PAGE;
/// Frames of the page cache, and bios, each of which has frames of its own.
const FRAMES: usize = 6;
const BIOS: usize = FRAMES / FRAMES_OF_BIO;
const FRAMES_OF_BIO: usize = 2;

/// A command: its piece, and the memory of that.
struct Command {
    piece: Piece,
    is_read: bool,
    spans: Vec<Span>,
}

/// What the kernel does.
#[derive(Default)]
struct FakeRing {
    commands: Vec<Command>,
}

impl FakeRing {
    /// Moves all bytes of a command: a read fills memory with `value`, a write is returned.
    fn transfer(command: &Command, value: u8) -> Vec<u8> {
        let mut written = Vec::new();
        for span in &command.spans {
            if command.is_read {
                // SAFETY: the memory of a command in flight is the kernel's.
                unsafe { span.address.write_bytes(value, span.len) };
            } else {
                // SAFETY: as above, and nothing changes what is written.
                written.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(span.address, span.len)
                });
            }
        }
        written
    }

    /// Returns true if a command of a slot or of a bio is in flight.
    fn has(&self, task: TaskId, token: u64) -> bool {
        self.commands
            .iter()
            .any(|command| (command.piece.task, command.piece.token) == (task, token))
    }
}

/// Buffers with what they have to hold.
struct Walk {
    buffers: Buffers,
    ring: FakeRing,
    /// Bytes by task and slot.
    slots: Vec<Vec<u8>>,
    frames: Vec<u8>,
    random: Rng,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut buffers = Buffers {
            frames: Some(Frames::new(FRAMES as u64).expect("memory")),
            ..Buffers::default()
        };
        for task in 0..TASKS {
            buffers.prepare(TaskId(task as u32), SLOTS as u32, SLOT as u64).expect("memory");
        }
        let slots = vec![vec![0; SLOT]; TASKS * SLOTS];
        Self {
            buffers,
            ring: FakeRing::default(),
            slots,
            frames: vec![0; FRAMES * PAGE],
            random: Rng(seed),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    /// Returns a range of at least one byte.
    fn range(&mut self, bytes: usize) -> std::ops::Range<usize> {
        let from = self.below(bytes);
        from..from + 1 + self.below(bytes - from)
    }

    /// Begins a command on memory that has none.
    fn begin(&mut self) {
        let (task, token, bytes) = if self.random.one_in(2) {
            let task = TaskId(self.below(TASKS) as u32);
            (task, Token::Job(self.below(SLOTS) as u32).encode(), SLOT)
        } else {
            let bio = self.below(BIOS);
            let frames: Vec<FrameId> =
                (0..FRAMES_OF_BIO).map(|at| FrameId((bio * FRAMES_OF_BIO + at) as u32)).collect();
            let token = Token::Cache(bio as u32).encode();
            if !self.ring.has(TaskId(0), token) {
                self.buffers.frames.as_mut().expect("there are frames").bind(bio, &frames);
            }
            (TaskId(0), token, FRAMES_OF_BIO * PAGE)
        };
        if self.ring.has(task, token) {
            return;
        }
        let (range, is_read) = (self.range(bytes), self.random.one_in(2));
        let (offset, len) = (range.start as u64, range.len() as u64);
        let piece = Piece { task, token, offset, len, sector: Default::default() };
        let mut spans = Vec::new();
        self.buffers.start(&piece, is_read, &mut spans);
        assert_eq!(spans.iter().map(|span| span.len as u64).sum::<u64>(), len);
        self.ring.commands.push(Command { piece, is_read, spans });
    }

    /// Returns what the memory of a command has to hold.
    fn shadow(&mut self, piece: &Piece) -> &mut [u8] {
        let range = piece.offset as usize..(piece.offset + piece.len) as usize;
        match Token::decode(piece.token) {
            Token::Job(slot) => &mut self.slots[piece.task.index() * SLOTS + slot as usize][range],
            Token::Cache(bio) => &mut self.frames[bio as usize * FRAMES_OF_BIO * PAGE..][range],
        }
    }

    /// Lets the kernel move the bytes of a command, and most often completes it.
    fn transfer(&mut self) {
        if self.ring.commands.is_empty() {
            return;
        }
        let (at, value) = (self.below(self.ring.commands.len()), self.below(256) as u8);
        let command = self.ring.commands.swap_remove(at);
        let written = FakeRing::transfer(&command, value);
        let shadow = self.shadow(&command.piece);
        if command.is_read {
            shadow.fill(value);
        } else {
            assert!(written == *shadow, "{:?} was written otherwise", command.piece);
        }
        if self.random.one_in(4) {
            return self.ring.commands.push(command);
        }
        command.spans.iter().for_each(|span| self.buffers.finish(span, command.is_read));
    }

    /// Reads and changes a slot that has no command, or gives its memory back.
    fn use_slot(&mut self) {
        let (task, slot) = (self.below(TASKS), self.below(SLOTS));
        let (id, token) = (TaskId(task as u32), slot as u64);
        if self.ring.has(id, token) {
            return;
        }
        let (range, value) = (self.range(SLOT), self.below(256) as u8);
        let shadow = &mut self.slots[task * SLOTS + slot];
        let bytes = self.buffers.slot(id, token).expect("a slot");
        assert!(bytes == &shadow[..], "slot {slot} of task {task}");
        bytes[range.clone()].fill(value);
        shadow[range].fill(value);
        if self.random.one_in(8) {
            self.buffers.empty_slot(id, token);
            self.slots[task * SLOTS + slot].fill(0);
        }
    }

    /// Copies between a frame and a slot that have no command.
    fn copy(&mut self) {
        let (frame, task, slot) = (self.below(FRAMES), self.below(TASKS), self.below(SLOTS));
        let (id, token) = (TaskId(task as u32), slot as u64);
        let of_cache = Token::Cache((frame / FRAMES_OF_BIO) as u32).encode();
        if self.ring.has(id, token) || self.ring.has(TaskId(0), of_cache) {
            return;
        }
        let (range, to) = (self.range(PAGE), self.below(SLOT - PAGE));
        let way = [Way::ToCall, Way::ToFrame, Way::Zero][self.below(3)];
        let copy = ByteCopy {
            task: id,
            token,
            frame: FrameId(frame as u32),
            frame_offset: range.start as u32,
            bytes: range.len() as u32,
            call_offset: Bytes::new(to as u64),
            way,
        };
        self.buffers.carry_out(&copy);
        let call = &mut self.slots[task * SLOTS + slot][to..to + range.len()];
        let page = &mut self.frames[frame * PAGE..(frame + 1) * PAGE];
        match way {
            Way::ToCall => call.copy_from_slice(&page[range]),
            Way::ToFrame => page[range].copy_from_slice(call),
            Way::Zero => page.fill(0),
        }
    }
}

#[test]
fn random_walks_move_every_byte_to_its_place() {
    let (seeds, steps) = if cfg!(miri) { (2, 150) } else { (20, 2000) };
    for seed in 0..seeds {
        let mut walk = Walk::new(seed);
        for _ in 0..steps {
            match walk.below(4) {
                0 => walk.begin(),
                1 => walk.transfer(),
                2 => walk.use_slot(),
                _ => walk.copy(),
            }
        }
        while !walk.ring.commands.is_empty() {
            walk.transfer();
        }
    }
}

#[test]
fn memory_of_an_abandoned_command_stays_the_kernels() {
    let mut walk = Walk::new(1);
    while walk.ring.commands.len() < 4 {
        walk.begin();
    }
    let Walk { buffers, ring, .. } = walk;
    drop(buffers);
    // Completions come when no call waits for them any more.
    ring.commands.iter().for_each(|command| drop(FakeRing::transfer(command, 7)));
}
