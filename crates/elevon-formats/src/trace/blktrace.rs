//! blktrace's binary records, version 7: one file a CPU, which `blkparse -i NAME` and then `btt` read.
//!
//! A record is 48 bytes in the byte order of the machine that made it, and a payload. Records of one file are in order
//! of time and numbered from 1; records that only inform (a task's name) have number 0. Events that blktrace does not
//! have (`block_io_start`, `block_io_done`) are left out. Cost: one record per event; a set of the tasks named so far.

mod read;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use elevon_core::event::{Event, EventKind};
use elevon_core::op::{Flags, Op};
use elevon_core::units::{SECTOR_SIZE, TaskId};

use super::Context;

pub use read::{ReadError, Reader, Record};

/// First word of a record: three letters and the version.
const MAGIC: u32 = 0x6561_7407;
/// Bytes of a record without its payload.
const RECORD_SIZE: usize = 48;

/// What happened: the low half of a record's action word.
pub mod action {
    /// A task's name; in a record of [`super::category::NOTIFY`].
    pub const NOTIFY_PROCESS: u32 = 0;
    /// Q.
    pub const QUEUE: u32 = 1;
    /// M.
    pub const BACK_MERGE: u32 = 2;
    /// F.
    pub const FRONT_MERGE: u32 = 3;
    /// G.
    pub const GET_REQUEST: u32 = 4;
    /// R.
    pub const REQUEUE: u32 = 6;
    /// D.
    pub const ISSUE: u32 = 7;
    /// C.
    pub const COMPLETE: u32 = 8;
    /// P.
    pub const PLUG: u32 = 9;
    /// U.
    pub const UNPLUG: u32 = 10;
    /// UT: a plug flushed because its task slept.
    pub const UNPLUG_TIMER: u32 = 11;
    /// I.
    pub const INSERT: u32 = 12;
    /// X.
    pub const SPLIT: u32 = 13;
}

/// Categories: bits of the high half of a record's action word.
pub mod category {
    /// Not to the device.
    pub const READ: u32 = 0x1;
    /// To the device.
    pub const WRITE: u32 = 0x2;
    /// A flush, or flush first.
    pub const FLUSH: u32 = 0x4;
    /// Somebody waits.
    pub const SYNC: u32 = 0x8;
    /// On its way to a queue.
    pub const QUEUE: u32 = 0x10;
    /// Given back.
    pub const REQUEUE: u32 = 0x20;
    /// Given to the driver.
    pub const ISSUE: u32 = 0x40;
    /// Over.
    pub const COMPLETE: u32 = 0x80;
    /// A request that is no passthrough.
    pub const FS: u32 = 0x100;
    /// A record about the trace itself.
    pub const NOTIFY: u32 = 0x400;
    /// Read-ahead.
    pub const AHEAD: u32 = 0x800;
    /// Metadata.
    pub const META: u32 = 0x1000;
    /// Discard.
    pub const DISCARD: u32 = 0x2000;
    /// Force unit access.
    pub const FUA: u32 = 0x8000;
}

/// Opens the file of a CPU; called for 0, 1, 2 ... in order.
pub trait Outputs<W> {
    /// Makes the file.
    ///
    /// # Errors
    /// Of the file system.
    fn open(&mut self, cpu: u16) -> io::Result<W>;
}

impl<W, F: FnMut(u16) -> io::Result<W>> Outputs<W> for F {
    fn open(&mut self, cpu: u16) -> io::Result<W> {
        self(cpu)
    }
}

/// The files `NAME.blktrace.CPU`.
pub struct FilesOf(PathBuf);

impl FilesOf {
    fn path(&self, cpu: u16) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".{cpu}"));
        name.into()
    }
}

impl Outputs<BufWriter<File>> for FilesOf {
    fn open(&mut self, cpu: u16) -> io::Result<BufWriter<File>> {
        File::create(self.path(cpu)).map(BufWriter::new)
    }
}

struct PerCpu<W> {
    out: W,
    sequence: u32,
}

/// Writes the records.
pub struct Writer<W: Write, O: Outputs<W>> {
    outputs: O,
    /// By CPU, without gaps: `blkparse` stops at the first file that is missing.
    cpus: Vec<PerCpu<W>>,
    named: BTreeSet<TaskId>,
    context: Context,
}

impl Writer<BufWriter<File>, FilesOf> {
    /// Writes `NAME.blktrace.0` and on, for a path `NAME.blktrace`. Files of an earlier trace of that name are emptied,
    /// or `blkparse` would mix them in.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(path: &Path, context: Context) -> io::Result<Self> {
        let files = FilesOf(path.to_owned());
        for cpu in 1..=u16::MAX {
            let path = files.path(cpu);
            if !path.exists() {
                break;
            }
            File::create(path)?;
        }
        Self::new(files, context)
    }
}

impl<W: Write, O: Outputs<W>> Writer<W, O> {
    /// Opens the file of the first CPU.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(outputs: O, context: Context) -> io::Result<Self> {
        let mut writer = Self { outputs, cpus: Vec::new(), named: BTreeSet::new(), context };
        writer.cpu(0)?;
        Ok(writer)
    }

    fn cpu(&mut self, cpu: u16) -> io::Result<&mut PerCpu<W>> {
        while self.cpus.len() <= usize::from(cpu) {
            let next = self.cpus.len() as u16;
            self.cpus.push(PerCpu { out: self.outputs.open(next)?, sequence: 0 });
        }
        Ok(&mut self.cpus[usize::from(cpu)])
    }

    /// Appends one event, and before it the name of a task that is new.
    ///
    /// # Errors
    /// Of the output.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some((action, payload)) = action_of(event) else {
            return Ok(());
        };
        if self.named.insert(event.task) {
            self.name_task(event)?;
        }
        let (_, pid) = self.context.task(event.task);
        let (sector, sectors) = match event.kind {
            // An X tells of the front part.
            EventKind::Split { new_sector } => {
                (event.sector.get(), new_sector.get().saturating_sub(event.sector.get()) as u32)
            }
            EventKind::Plug | EventKind::Unplug { .. } => (0, 0),
            // The flush request itself has no sector.
            _ if event.sector.get() == u64::MAX => (0, event.sectors),
            _ => (event.sector.get(), event.sectors),
        };
        let error = match event.kind {
            EventKind::Complete { status } => (-status.errno()) as u16,
            _ => 0,
        };
        let device = self.device();
        let per_cpu = self.cpu(event.cpu)?;
        per_cpu.sequence = per_cpu.sequence.wrapping_add(1);
        let header = Header {
            sequence: per_cpu.sequence,
            time: event.time.get(),
            sector,
            bytes: (u64::from(sectors) * SECTOR_SIZE) as u32,
            action,
            pid,
            device,
            cpu: event.cpu,
            error,
        };
        match payload {
            // Big-endian on every machine.
            Some(number) => header.write(&mut per_cpu.out, &number.to_be_bytes()),
            None => header.write(&mut per_cpu.out, &[]),
        }
    }

    fn device(&self) -> u32 {
        let (major, minor) = self.context.device;
        major << 20 | minor & 0xf_ffff
    }

    fn name_task(&mut self, event: &Event) -> io::Result<()> {
        let (comm, pid) = self.context.task(event.task);
        let mut name = [0; 16];
        let kernel_name = format!("swapper/{}", event.cpu);
        let comm = if event.task == TaskId::IDLE { &kernel_name } else { comm };
        name[..comm.len()].copy_from_slice(comm.as_bytes());
        let header = Header {
            sequence: 0,
            time: event.time.get(),
            sector: 0,
            bytes: 0,
            action: category::NOTIFY << 16 | action::NOTIFY_PROCESS,
            pid,
            device: self.device(),
            cpu: event.cpu,
            error: 0,
        };
        header.write(&mut self.cpu(event.cpu)?.out, &name)
    }

    /// Writes what is buffered, and hands the outputs back, by CPU.
    ///
    /// # Errors
    /// Of the outputs.
    pub fn finish(self) -> io::Result<Vec<W>> {
        self.cpus
            .into_iter()
            .map(|mut cpu| {
                cpu.out.flush()?;
                Ok(cpu.out)
            })
            .collect()
    }
}

/// The action word of an event and the number in its payload; `None` where blktrace has no such event.
fn action_of(event: &Event) -> Option<(u32, Option<u64>)> {
    use category::{COMPLETE, FS, ISSUE, QUEUE, REQUEUE};
    let (low, high, payload) = match event.kind {
        EventKind::BioQueue => (action::QUEUE, QUEUE, None),
        EventKind::Split { new_sector } => (action::SPLIT, 0, Some(new_sector.get())),
        EventKind::GetRequest => (action::GET_REQUEST, QUEUE, None),
        EventKind::BackMerge => (action::BACK_MERGE, QUEUE, None),
        EventKind::FrontMerge => (action::FRONT_MERGE, QUEUE, None),
        EventKind::RequestMerge => (action::BACK_MERGE, QUEUE | FS, None),
        EventKind::Insert => (action::INSERT, QUEUE | FS, None),
        EventKind::Issue => (action::ISSUE, ISSUE | FS, None),
        EventKind::Requeue => (action::REQUEUE, REQUEUE | FS, None),
        EventKind::Complete { .. } => (action::COMPLETE, COMPLETE | FS, None),
        EventKind::Plug => return Some(((category::READ | QUEUE) << 16 | action::PLUG, None)),
        EventKind::Unplug { requests, from_schedule } => {
            let low = if from_schedule { action::UNPLUG_TIMER } else { action::UNPLUG };
            return Some(((category::READ | QUEUE) << 16 | low, Some(u64::from(requests))));
        }
        EventKind::IoStart | EventKind::IoDone => return None,
    };
    Some(((high | category_of(event.op, event.flags)) << 16 | low, payload))
}

/// The category bits of an operation.
fn category_of(op: Op, flags: Flags) -> u32 {
    let mut bits = if op.is_write() { category::WRITE } else { category::READ };
    if matches!(op, Op::Discard | Op::SecureErase) {
        bits |= category::DISCARD;
    }
    if op == Op::Flush {
        bits |= category::FLUSH;
    }
    for (flag, bit) in [
        (Flags::SYNC, category::SYNC),
        (Flags::RAHEAD, category::AHEAD),
        (Flags::META, category::META),
        (Flags::PREFLUSH, category::FLUSH),
        (Flags::FUA, category::FUA),
    ] {
        if flags.contains(flag) {
            bits |= bit;
        }
    }
    bits
}

struct Header {
    sequence: u32,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    cpu: u16,
    error: u16,
}

impl Header {
    fn write(&self, out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
        let mut bytes = [0; RECORD_SIZE];
        let words = [
            (0, MAGIC),
            (4, self.sequence),
            (24, self.bytes),
            (28, self.action),
            (32, self.pid),
            (36, self.device),
            (40, u32::from(self.cpu)),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[8..16].copy_from_slice(&self.time.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sector.to_le_bytes());
        bytes[44..46].copy_from_slice(&self.error.to_le_bytes());
        bytes[46..48].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        out.write_all(&bytes)?;
        out.write_all(payload)
    }
}

#[cfg(test)]
mod tests;
