//! blktrace's binary records, versions 7 and 8 ([`BlktraceForm`]): one file per CPU, which
//! `blkparse -i NAME` and then `btt` read.
//!
//! A record is 48 bytes (version 8: 64) in the byte order of the machine that wrote it, and a
//! payload. The records of a file are in order of time and numbered from 1; records without an
//! event (a task's name) have number 0. Events that blktrace does not have (`block_io_start`,
//! `block_io_done`, `block_rq_tag_wait`) are omitted. Cost: one record per event; a set of the
//! tasks named so far, and in the form for btt a set of the remainders of split bios.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use elevon_core::op::Flags;

use super::EventWriter;
use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::{NameId, Names};
use crate::op::TraceOp;
use crate::read::blktrace::{action, category};
use crate::recorded::Recorded;

/// First word of a record, without the version in its lowest byte.
const MAGIC: u32 = 0x6561_7400;
/// Flag of an action whose payload starts with a cgroup id.
const HAS_CGROUP: u64 = 1 << 8;

/// Form of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlktraceForm {
    /// Version 7, which every `blkparse` reads.
    #[default]
    Version7,
    /// Version 8, which Linux 6.19 and later record for tools that ask for it: 64 bytes, with
    /// categories for zone operations and write-zeroes. `blkparse` 1.2 and 1.3 refuse it.
    Version8,
    /// Version 7, and a Q for each part of a split bio. The kernel records a Q for the whole bio
    /// only, so `btt`, which looks for the sectors of a Q, finds no completion of a part.
    Btt,
}

impl BlktraceForm {
    const fn version(self) -> u8 {
        if matches!(self, Self::Version8) { 8 } else { 7 }
    }

    /// Returns the length of a record without its payload, in bytes.
    const fn record_size(self) -> usize {
        if matches!(self, Self::Version8) { 64 } else { 48 }
    }

    /// Returns the position of the fields behind the action: device, CPU, error and length of the
    /// payload.
    const fn after_action(self) -> usize {
        if matches!(self, Self::Version8) { 40 } else { 36 }
    }
}

/// Bytes of a message that are kept, as many as `blkparse` prints.
const MESSAGE_MAX: usize = 1024;
/// Maximum number of per-CPU files; events of further CPUs go to the last one.
const MAX_CPUS: u32 = 4096;

/// Opens the file of a CPU. Called for 0, 1, 2 ... in order.
pub trait Outputs<W> {
    /// Creates the file of a CPU.
    ///
    /// # Errors
    /// Returns an error of the file system.
    fn open(&mut self, cpu: u32) -> io::Result<W>;
}

impl<W, F: FnMut(u32) -> io::Result<W>> Outputs<W> for F {
    fn open(&mut self, cpu: u32) -> io::Result<W> {
        self(cpu)
    }
}

/// The files `NAME.blktrace.CPU`.
pub(crate) struct FilesOf(PathBuf);

impl FilesOf {
    fn path(&self, cpu: u32) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".{cpu}"));
        name.into()
    }
}

impl Outputs<BufWriter<File>> for FilesOf {
    fn open(&mut self, cpu: u32) -> io::Result<BufWriter<File>> {
        File::create(self.path(cpu)).map(BufWriter::new)
    }
}

struct PerCpu<W> {
    out: W,
    sequence: u32,
}

/// Writes the records.
pub struct BlktraceWriter<W: Write, O: Outputs<W>> {
    outputs: O,
    form: BlktraceForm,
    /// First sectors of remainders of split bios that have no Q yet; in the form for btt.
    remainders: BTreeSet<(Option<DeviceNumber>, u64)>,
    /// By CPU, without gaps, because `blkparse` stops at the first missing file.
    cpus: Vec<PerCpu<W>>,
    named: BTreeSet<(u32, Option<NameId>)>,
}

impl BlktraceWriter<BufWriter<File>, FilesOf> {
    /// Writes `NAME.blktrace.0` etc. for a path `NAME.blktrace`. Files of an earlier trace of that
    /// name are emptied, because `blkparse` would read them as part of this one.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn create(path: &Path, form: BlktraceForm) -> io::Result<Self> {
        let files = FilesOf(path.to_owned());
        for cpu in 1..MAX_CPUS {
            let path = files.path(cpu);
            if !path.exists() {
                break;
            }
            File::create(path)?;
        }
        Self::new(files, form)
    }
}

impl<W: Write, O: Outputs<W>> BlktraceWriter<W, O> {
    /// Opens the file of the first CPU.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn new(outputs: O, form: BlktraceForm) -> io::Result<Self> {
        let mut writer = Self {
            outputs,
            form,
            remainders: BTreeSet::new(),
            cpus: Vec::new(),
            named: BTreeSet::new(),
        };
        writer.cpu(0)?;
        Ok(writer)
    }

    fn cpu(&mut self, cpu: u32) -> io::Result<&mut PerCpu<W>> {
        let cpu = cpu.min(MAX_CPUS - 1) as usize;
        while self.cpus.len() <= cpu {
            let next = self.cpus.len() as u32;
            self.cpus.push(PerCpu { out: self.outputs.open(next)?, sequence: 0 });
        }
        Ok(&mut self.cpus[cpu])
    }

    /// Appends one event, after the name of its task if that is new; in the form for btt also the Q
    /// of a part of a split bio.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        if self.form != BlktraceForm::Btt {
            return self.record(event, names);
        }
        let queue = TraceEvent { kind: TraceKind::Queue, ..*event };
        match (event.kind, event.sector) {
            (TraceKind::Split { new_sector }, Some(sector)) => {
                self.remainders.remove(&(event.device, sector));
                self.remainders.insert((event.device, new_sector));
                self.record(event, names)?;
                self.record(&queue, names)
            }
            (
                TraceKind::GetRequest | TraceKind::BackMerge | TraceKind::FrontMerge,
                Some(sector),
            ) if self.remainders.remove(&(event.device, sector)) => {
                self.record(&queue, names)?;
                self.record(event, names)
            }
            _ => self.record(event, names),
        }
    }

    fn record(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        if let TraceKind::Lost { events, .. } = event.kind {
            // A gap is a jump in the sequence numbers.
            let cpu = self.cpu(event.cpu.unwrap_or(0))?;
            cpu.sequence = cpu.sequence.wrapping_add(events.unwrap_or(1).max(1) as u32);
            return Ok(());
        }
        let Some((action, payload)) = action_of(event, self.form) else {
            return Ok(());
        };
        if event.device.is_none()
            && matches!(event.kind, TraceKind::Plug | TraceKind::Unplug { .. })
        {
            // ftrace does not say of which device a plug is. A record has one, and 0:0 would be
            // another device of the trace.
            return Ok(());
        }
        if let Some(device) =
            event.device.filter(|&device| DeviceNumber::from_kernel(device.to_kernel()) != device)
        {
            return Err(io::Error::other(format!(
                "blktrace has 12 and 20 bits for the numbers of a device, and {device} has more: .csv keeps them"
            )));
        }
        let (tid, cpu) = (event.tid.unwrap_or(0), event.cpu.unwrap_or(0));
        if (event.comm.is_some() || event.tid == Some(0)) && self.named.insert((tid, event.comm)) {
            self.name_task(event, names)?;
        }
        let (sector, bytes) = match event.kind {
            TraceKind::Plug | TraceKind::Unplug { .. } => (0, 0),
            // A flush request has no sector.
            _ => (event.sector.unwrap_or(0), event.bytes.unwrap_or(0)),
        };
        let error = match event.kind {
            TraceKind::Complete | TraceKind::BioComplete => event.error.unwrap_or(0) as u16,
            _ => 0,
        };
        let form = self.form;
        let per_cpu = self.cpu(cpu)?;
        per_cpu.sequence = per_cpu.sequence.wrapping_add(1);
        let mut header = Header {
            sequence: per_cpu.sequence,
            time: event.time.unwrap_or(0),
            sector,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            action,
            pid: tid,
            device: event.device.map_or(0, DeviceNumber::to_kernel),
            cpu,
            error,
        };
        let mut pdu = [0; 24];
        let mut length = 0;
        if let Some(cgroup) = event.cgroup {
            header.action |= HAS_CGROUP;
            pdu[..8].copy_from_slice(&cgroup.to_le_bytes());
            length = 8;
        }
        let payload = payload.bytes();
        pdu[length..length + payload.1].copy_from_slice(&payload.0[..payload.1]);
        header.write(form, &mut per_cpu.out, &pdu[..length + payload.1])
    }

    fn name_task(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        let mut name = [0; 16];
        let cpu = event.cpu.unwrap_or(0);
        let kernel_name = format!("swapper/{cpu}");
        let comm = match (event.tid, event.comm) {
            (Some(0), _) | (_, None) => &kernel_name,
            (_, Some(comm)) => names.name(comm),
        };
        let length = comm.len().min(name.len() - 1);
        name[..length].copy_from_slice(&comm.as_bytes()[..length]);
        self.notify(action::NOTIFY_PROCESS, event, cpu, &name)
    }

    /// Writes a record about the trace itself, with the time, task and device of an event.
    fn notify(
        &mut self,
        what: u64,
        event: &TraceEvent,
        cpu: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let header = Header {
            sequence: 0,
            time: event.time.unwrap_or(0),
            sector: 0,
            bytes: 0,
            action: category::NOTIFY << 16 | what,
            pid: event.tid.unwrap_or(0),
            device: event.device.map_or(0, DeviceNumber::to_kernel),
            cpu,
            error: 0,
        };
        header.write(self.form, &mut self.cpu(cpu)?.out, payload)
    }

    /// Writes what is buffered, and returns the outputs by CPU.
    ///
    /// # Errors
    /// Returns an error of the outputs.
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

impl<W: Write, O: Outputs<W>> EventWriter for BlktraceWriter<W, O> {
    /// A message for each line, which `blkparse` shows with the letter `m`.
    fn recorded(&mut self, recorded: &Recorded, first: &TraceEvent) -> io::Result<()> {
        recorded.lines().iter().try_for_each(|line| {
            let end = (0..=line.len().min(MESSAGE_MAX))
                .rev()
                .find(|&at| line.is_char_boundary(at))
                .unwrap_or(0);
            let text = &line.as_bytes()[..end];
            self.notify(action::NOTIFY_MESSAGE, first, first.cpu.unwrap_or(0), text)
        })
    }

    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}

/// Payload of a record, big-endian on every machine.
enum Payload {
    None,
    Number(u64),
    /// Devices from and to which a bio or request was remapped, and the sector of the first.
    Origin(DeviceNumber, DeviceNumber, u64),
}

impl Payload {
    /// Returns the bytes, and how many of them are used.
    fn bytes(&self) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        match self {
            Self::None => (bytes, 0),
            Self::Number(number) => {
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                (bytes, 8)
            }
            Self::Origin(from, to, sector) => {
                bytes[..4].copy_from_slice(&from.to_kernel().to_be_bytes());
                bytes[4..8].copy_from_slice(&to.to_kernel().to_be_bytes());
                bytes[8..].copy_from_slice(&sector.to_be_bytes());
                (bytes, 16)
            }
        }
    }
}

/// Returns the action word of an event and its payload; `None` if blktrace has no such event.
fn action_of(event: &TraceEvent, form: BlktraceForm) -> Option<(u64, Payload)> {
    use category::{COMPLETE, FS, ISSUE, PC, QUEUE, REQUEUE};
    let request = if event.op == Some(TraceOp::Passthrough) { PC } else { FS };
    let to = event.device.unwrap_or(DeviceNumber::new(0, 0));
    let (low, high, payload) = match event.kind {
        TraceKind::Queue | TraceKind::Io { .. } => (action::QUEUE, QUEUE, Payload::None),
        TraceKind::Split { new_sector } => (action::SPLIT, 0, Payload::Number(new_sector)),
        TraceKind::GetRequest => (action::GET_REQUEST, QUEUE, Payload::None),
        TraceKind::SleepRequest => (action::SLEEP_REQUEST, QUEUE, Payload::None),
        TraceKind::BackMerge => (action::BACK_MERGE, QUEUE, Payload::None),
        TraceKind::FrontMerge => (action::FRONT_MERGE, QUEUE, Payload::None),
        TraceKind::RequestMerge => (action::BACK_MERGE, QUEUE | request, Payload::None),
        TraceKind::Insert => (action::INSERT, QUEUE | request, Payload::None),
        TraceKind::Issue => (action::ISSUE, ISSUE | request, Payload::None),
        TraceKind::Requeue => (action::REQUEUE, REQUEUE | request, Payload::None),
        TraceKind::Complete => (action::COMPLETE, COMPLETE | request, Payload::None),
        TraceKind::BioComplete => (action::COMPLETE, COMPLETE, Payload::None),
        TraceKind::Bounce => (action::BOUNCE, QUEUE, Payload::None),
        TraceKind::Remap { from, from_sector } => {
            (action::REMAP, QUEUE, Payload::Origin(from, to, from_sector))
        }
        TraceKind::RequestRemap { from, from_sector } => {
            (action::REMAP, QUEUE | request, Payload::Origin(from, to, from_sector))
        }
        TraceKind::Plug => {
            return Some(((category::READ | QUEUE) << 16 | action::PLUG, Payload::None));
        }
        TraceKind::Unplug { requests, timer } => {
            let low = if timer == Some(true) { action::UNPLUG_TIMER } else { action::UNPLUG };
            return Some((
                (category::READ | QUEUE) << 16 | low,
                Payload::Number(u64::from(requests)),
            ));
        }
        TraceKind::IoStart
        | TraceKind::IoDone
        | TraceKind::RequestError
        | TraceKind::TagWait { .. }
        | TraceKind::Lost { .. } => return None,
    };
    Some(((high | category_of(event, form)) << 16 | low, payload))
}

/// Returns the category bits of an operation.
fn category_of(event: &TraceEvent, form: BlktraceForm) -> u64 {
    let (op, flags) = (event.op.unwrap_or(TraceOp::Other), event.flags.unwrap_or_default());
    let mut bits = if op.is_write() { category::WRITE } else { category::READ };
    if matches!(op, TraceOp::Discard | TraceOp::SecureErase) {
        bits |= category::DISCARD;
    }
    if op == TraceOp::Flush {
        bits |= category::FLUSH;
    }
    if form == BlktraceForm::Version8 {
        bits |= match op {
            TraceOp::ZoneAppend => category::ZONE_APPEND,
            TraceOp::ZoneReset => category::ZONE_RESET,
            TraceOp::ZoneResetAll => category::ZONE_RESET_ALL,
            TraceOp::ZoneFinish => category::ZONE_FINISH,
            TraceOp::ZoneOpen => category::ZONE_OPEN,
            TraceOp::ZoneClose => category::ZONE_CLOSE,
            TraceOp::WriteZeroes => category::WRITE_ZEROES,
            _ => 0,
        };
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
    action: u64,
    pid: u32,
    device: u32,
    cpu: u32,
    error: u16,
}

impl Header {
    fn write(&self, form: BlktraceForm, out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
        let mut bytes = [0; BlktraceForm::Version8.record_size()];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &(MAGIC | u32::from(form.version())).to_le_bytes());
        put(4, &self.sequence.to_le_bytes());
        put(8, &self.time.to_le_bytes());
        put(16, &self.sector.to_le_bytes());
        put(24, &self.bytes.to_le_bytes());
        if form == BlktraceForm::Version8 {
            put(28, &self.pid.to_le_bytes());
            put(32, &self.action.to_le_bytes());
        } else {
            // Categories above 16 bits exist in version 8 only.
            put(28, &(self.action as u32).to_le_bytes());
            put(32, &self.pid.to_le_bytes());
        }
        let rest = form.after_action();
        put(rest, &self.device.to_le_bytes());
        put(rest + 4, &self.cpu.to_le_bytes());
        put(rest + 8, &self.error.to_le_bytes());
        put(rest + 10, &(payload.len() as u16).to_le_bytes());
        out.write_all(&bytes[..form.record_size()])?;
        out.write_all(payload)
    }
}
