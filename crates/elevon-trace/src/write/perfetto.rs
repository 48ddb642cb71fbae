//! Writes Perfetto's protobuf with ftrace events, as Perfetto records them: in bundles of one CPU
//! each.
//!
//! Events without a message in Perfetto (merged requests, errors of requests, waits for tags) are
//! omitted, as are tag, hardware queue and cgroup; only `block_io_start` and `block_io_done` have a
//! priority. Cost: one message per event; memory for a bundle per CPU, and for the threads seen.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::EventWriter;
use super::proto::{self, Message};
use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::{NameId, Names};
use crate::op::TraceRwbs;

/// Number of events of all CPUs that are buffered before their bundles are written.
const GATHERED: usize = 4096;
/// All packets are of one writer.
const SEQUENCE: u64 = 1;

/// Field numbers of the messages used here.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const PACKET_FTRACE_EVENTS: u32 = 1;
    pub(super) const PACKET_PROCESS_TREE: u32 = 2;
    pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const BUNDLE_CPU: u32 = 1;
    pub(super) const BUNDLE_EVENT: u32 = 2;
    pub(super) const BUNDLE_LOST: u32 = 3;
    pub(super) const EVENT_TIMESTAMP: u32 = 1;
    pub(super) const EVENT_PID: u32 = 2;
    pub(super) const TREE_THREADS: u32 = 2;
    pub(super) const THREAD_TID: u32 = 1;
    pub(super) const THREAD_NAME: u32 = 2;
    pub(super) const THREAD_PROCESS: u32 = 3;
}

/// The current bundle of a CPU.
#[derive(Default)]
struct Bundle {
    events: Message,
    has_lost: bool,
}

/// Writes the packets.
pub struct PerfettoWriter<W: Write> {
    out: W,
    cpus: BTreeMap<u32, Bundle>,
    gathered: usize,
    /// Name and process of the threads that were described.
    threads: BTreeMap<u32, (Option<NameId>, Option<u32>)>,
    /// Threads to be described before the next bundle.
    tree: Message,
    event: Message,
    body: Message,
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a trace.
    pub fn new(out: W) -> Self {
        Self {
            out,
            cpus: BTreeMap::new(),
            gathered: 0,
            threads: BTreeMap::new(),
            tree: Message::default(),
            event: Message::default(),
            body: Message::default(),
        }
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        let cpu = event.cpu.unwrap_or(0);
        if let TraceKind::Lost { .. } = event.kind {
            // The flag for lost events is in the bundle after the gap.
            self.flush()?;
            self.cpus.entry(cpu).or_default().has_lost = true;
            return Ok(());
        }
        let comm = event.comm.map_or("", |id| names.name(id));
        self.body.clear();
        let Some(number) = body(&mut self.body, event, comm) else { return Ok(()) };
        let tid = event.tid.unwrap_or(0);
        self.describe(tid, event, comm);
        self.event.clear();
        self.event.number(field::EVENT_TIMESTAMP, event.time.unwrap_or(0));
        self.event.number(field::EVENT_PID, u64::from(tid));
        self.event.bytes(number, self.body.as_bytes());
        let bundle = self.cpus.entry(cpu).or_default();
        bundle.events.bytes(field::BUNDLE_EVENT, self.event.as_bytes());
        self.gathered += 1;
        if self.gathered >= GATHERED { self.flush() } else { Ok(()) }
    }

    /// Describes a thread that is new or has a new name.
    fn describe(&mut self, tid: u32, event: &TraceEvent, comm: &str) {
        let known = self.threads.insert(tid, (event.comm, event.process));
        if known == Some((event.comm, event.process))
            || event.comm.is_none() && event.process.is_none()
        {
            return;
        }
        let mut thread = Message::default();
        thread.number(field::THREAD_TID, u64::from(tid));
        if event.comm.is_some() {
            thread.bytes(field::THREAD_NAME, comm.as_bytes());
        }
        if let Some(process) = event.process {
            thread.number(field::THREAD_PROCESS, u64::from(process));
        }
        self.tree.bytes(field::TREE_THREADS, thread.as_bytes());
    }

    /// Writes the buffered bundles.
    fn flush(&mut self) -> io::Result<()> {
        self.gathered = 0;
        if !self.tree.as_bytes().is_empty() {
            packet(&mut self.out, field::PACKET_PROCESS_TREE, self.tree.as_bytes())?;
            self.tree.clear();
        }
        for (&cpu, bundle) in &mut self.cpus {
            if bundle.events.as_bytes().is_empty() {
                continue;
            }
            let mut content = Message::default();
            content.number(field::BUNDLE_CPU, u64::from(cpu));
            if std::mem::take(&mut bundle.has_lost) {
                content.number(field::BUNDLE_LOST, 1);
            }
            content.append(bundle.events.as_bytes());
            bundle.events.clear();
            packet(&mut self.out, field::PACKET_FTRACE_EVENTS, content.as_bytes())?;
        }
        Ok(())
    }

    /// Writes what is buffered, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> EventWriter for PerfettoWriter<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}

/// Writes a packet with one member.
fn packet(out: &mut impl Write, member: u32, content: &[u8]) -> io::Result<()> {
    let mut packet = Message::default();
    packet.bytes(member, content);
    packet.number(field::PACKET_SEQUENCE_ID, SEQUENCE);
    proto::write_field(out, field::TRACE_PACKET, packet.as_bytes())
}

/// Writes the message of an event, and returns the field of `FtraceEvent` that contains it; `None`
/// if there is none.
fn body(out: &mut Message, event: &TraceEvent, comm: &str) -> Option<u32> {
    let number = match event.kind {
        TraceKind::Issue => 45,
        TraceKind::BackMerge => 115,
        TraceKind::Bounce => 116,
        TraceKind::BioComplete => 117,
        TraceKind::FrontMerge => 118,
        TraceKind::Queue | TraceKind::Io { .. } => 119,
        TraceKind::Remap { .. } => 120,
        TraceKind::GetRequest => 122,
        TraceKind::Plug => 123,
        TraceKind::Complete => 125,
        TraceKind::Insert => 126,
        TraceKind::RequestRemap { .. } => 128,
        TraceKind::Requeue => 129,
        TraceKind::SleepRequest => 130,
        TraceKind::Split { .. } => 131,
        TraceKind::Unplug { .. } => 133,
        TraceKind::IoStart => 546,
        TraceKind::IoDone => 547,
        TraceKind::RequestMerge
        | TraceKind::RequestError
        | TraceKind::TagWait { .. }
        | TraceKind::Lost { .. } => {
            return None;
        }
    };
    match event.kind {
        TraceKind::Plug => {
            out.bytes(1, comm.as_bytes());
            return Some(number);
        }
        TraceKind::Unplug { requests, .. } => {
            out.number(1, u64::from(requests));
            out.bytes(2, comm.as_bytes());
            return Some(number);
        }
        _ => {}
    }
    let rwbs = TraceRwbs(event.op, event.flags).to_string();
    let bytes = event.bytes.unwrap_or(0);
    out.number(1, event.device.map_or(0, DeviceNumber::to_user));
    out.number(2, event.sector.unwrap_or(u64::MAX));
    // A negative number is written as 64 bits.
    let error = i64::from(event.error.unwrap_or(0)) as u64;
    match event.kind {
        TraceKind::Split { new_sector } => {
            out.number(3, new_sector);
            out.bytes(4, rwbs.as_bytes());
            out.bytes(5, comm.as_bytes());
            return Some(number);
        }
        _ => out.number(3, event.sectors().unwrap_or(0)),
    }
    match event.kind {
        TraceKind::Issue | TraceKind::Insert => {
            out.number(4, bytes);
            out.bytes(5, rwbs.as_bytes());
            out.bytes(6, comm.as_bytes());
        }
        TraceKind::Complete => {
            out.bytes(5, rwbs.as_bytes());
            out.number(7, error);
        }
        TraceKind::Requeue => {
            // Some traces do not have it; read back, a 0 would be a success.
            if event.error.is_some() {
                out.number(4, error);
            }
            out.bytes(5, rwbs.as_bytes());
        }
        TraceKind::BioComplete => {
            out.number(4, error);
            out.bytes(5, rwbs.as_bytes());
        }
        TraceKind::Remap { from, from_sector } | TraceKind::RequestRemap { from, from_sector } => {
            out.number(4, from.to_user());
            out.number(5, from_sector);
            out.bytes(if number == 120 { 6 } else { 7 }, rwbs.as_bytes());
        }
        TraceKind::IoStart | TraceKind::IoDone => {
            out.number(4, bytes);
            if let Some(prio) = event.ioprio {
                out.number(5, u64::from(prio.bits()));
            }
            out.bytes(6, rwbs.as_bytes());
            out.bytes(7, comm.as_bytes());
        }
        _ => {
            out.bytes(4, rwbs.as_bytes());
            out.bytes(5, comm.as_bytes());
        }
    }
    Some(number)
}
