//! Real time: files and block devices as the back end of a run, by io_uring or a pool of threads.
//!
//! The only crate with `unsafe`: buffers whose bytes the kernel moves, and system calls. Nothing is
//! opened that the caller did not name, but files of /proc and /sys that describe the machine.

mod buffers;
pub mod cpu;
mod disk;
pub mod file;
mod frames;
pub mod interrupt;
pub mod memory;
mod threads;
mod uring;

pub use disk::disk_of;
pub use file::{HostFile, OpenError, OpenOptions};

use elevon_core::cache::Slot;
use elevon_core::cache::page_cache::ByteCopy;
use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, PAGE_SIZE, TaskId};
use elevon_workload::backend::Backend;
use elevon_workload::cached::CACHE_TOKEN;

use buffers::Buffers;
use interrupt::Interrupt;

/// How I/O reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// io_uring, with registered buffers where the memory lock limit allows.
    IoUring,
    /// System calls on a pool of threads.
    Threads,
}

/// A real file or block device with the machine's clock.
pub struct Host {
    epoch: std::time::Instant,
    interrupt: Interrupt,
    /// Dropped before the buffers and the file: it waits for what is still in flight.
    engine: Engine,
    buffers: Buffers,
    file: HostFile,
    warnings: Vec<String>,
}

enum Engine {
    Uring(Box<uring::Uring>),
    Threads(threads::Threads),
}

impl Host {
    /// Starts the clock. `method` `None` takes io_uring, or threads with a warning where the kernel denies it.
    pub fn new(file: HostFile, depth: u32, method: Option<Method>, interrupt: Interrupt) -> std::io::Result<Self> {
        let mut warnings = file.notes.clone();
        let engine = match method {
            Some(Method::IoUring) => Engine::Uring(Box::new(uring::Uring::new(depth)?)),
            Some(Method::Threads) => Engine::Threads(threads::Threads::new(&file, depth)),
            None => match uring::Uring::new(depth) {
                Ok(ring) => Engine::Uring(Box::new(ring)),
                Err(error) => {
                    warnings.push(format!("io_uring is not available ({error}): using a pool of threads"));
                    Engine::Threads(threads::Threads::new(&file, depth))
                }
            },
        };
        let buffers = Buffers::default();
        Ok(Self { epoch: std::time::Instant::now(), interrupt, engine, buffers, file, warnings })
    }

    /// Makes room for the frames of a page cache, before a run through one with bytes.
    ///
    /// # Errors
    /// The machine has no memory for so many.
    pub fn reserve_frames(&mut self, memory: Bytes) -> std::io::Result<()> {
        self.buffers.frames = Some(frames::Frames::new(memory.get() / PAGE_SIZE)?);
        Ok(())
    }

    /// What the user should know about how this run was made.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How I/O reaches the kernel.
    pub const fn method(&self) -> Method {
        match self.engine {
            Engine::Uring(_) => Method::IoUring,
            Engine::Threads(_) => Method::Threads,
        }
    }

    /// The file.
    pub const fn file(&self) -> &HostFile {
        &self.file
    }

    fn clock(&self) -> Instant {
        Instant::new(self.epoch.elapsed().as_nanos() as u64)
    }
}

impl Driver for Host {
    #[inline]
    fn queue_command(&mut self, _now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        if !command.op.has_data() && !is_one_range(command, pieces) {
            return Accept::Error(Status::NotSupported);
        }
        match &mut self.engine {
            Engine::Uring(ring) => ring.queue(&self.file, &mut self.buffers, command, pieces),
            Engine::Threads(threads) => threads.queue(&mut self.buffers, command, pieces),
        }
    }
}

/// Whether the pieces of a command follow one another. One system call punches one hole: a discard of several ranges would hit
/// what lies between them.
fn is_one_range(command: &Command, pieces: &dyn Pieces) -> bool {
    let (mut next, mut follows) = (command.sector, true);
    pieces.for_each(&mut |piece| {
        follows &= piece.sector == next;
        next = piece.sector + Bytes::new(piece.len).sectors_floor();
    });
    follows
}

impl Backend for Host {
    #[inline]
    fn now(&mut self) -> Instant {
        self.clock()
    }

    #[inline]
    fn poll_completion(&mut self) -> Option<Completion> {
        match &mut self.engine {
            Engine::Uring(ring) => ring.poll(&self.file, &mut self.buffers),
            Engine::Threads(threads) => threads.poll(&mut self.buffers),
        }
    }

    fn wait(&mut self, until: Option<Instant>) -> bool {
        let limit = until.map(|at| std::time::Duration::from_nanos(at.since(self.clock()).get()));
        let waited = match &mut self.engine {
            Engine::Uring(ring) => ring.wait(limit),
            Engine::Threads(threads) => threads.wait(limit),
        };
        waited && !self.interrupt.is_set()
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        self.buffers.prepare(task, slots, bytes);
        if let Engine::Uring(ring) = &mut self.engine {
            ring.forget_registration();
        }
    }

    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        self.buffers.slot(task, token)
    }

    fn bind_frames(&mut self, token: u64, frames: &[Slot]) {
        if let Some(all) = &mut self.buffers.frames {
            all.bind((token & !CACHE_TOKEN) as usize, frames);
        }
    }

    #[inline]
    fn move_bytes(&mut self, copy: &ByteCopy) {
        self.buffers.carry_out(copy);
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::driver::Piece;
    use elevon_core::ioprio::IoPrio;
    use elevon_core::op::{Flags, Op};
    use elevon_core::units::{HwQueue, RequestId, Sector, Sectors, Tag};

    use super::*;

    struct Ranges(&'static [(u64, u64)]);

    impl Pieces for Ranges {
        fn for_each(&self, each: &mut dyn FnMut(Piece)) {
            for &(sector, sectors) in self.0 {
                let len = Sectors::new(sectors).bytes().get();
                each(Piece { task: TaskId(0), token: 0, offset: 0, len, sector: Sector::new(sector) });
            }
        }
    }

    #[test]
    fn ranges_with_something_between_them_are_not_one() {
        let discard = Command {
            request: RequestId(0),
            sequence: 0,
            queue: HwQueue(0),
            tag: Tag(0),
            op: Op::Discard,
            flags: Flags::NONE,
            ioprio: IoPrio::NONE,
            sector: Sector::new(8),
            bytes: Sectors::new(16).bytes(),
        };
        for (ranges, is_one) in
            [(&[(8, 16)][..], true), (&[(8, 8), (16, 8)], true), (&[(8, 8), (5000, 8)], false), (&[], true)]
        {
            assert_eq!(is_one_range(&discard, &Ranges(ranges)), is_one, "{ranges:?}");
        }
    }
}
