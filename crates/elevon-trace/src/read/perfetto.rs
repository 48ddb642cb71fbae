//! Reads the ftrace events of the block layer in Perfetto traces.
//!
//! A trace is a sequence of packets, some of which contain further packets, compressed by deflate
//! or zstd. Events are in bundles of one CPU each; a window sorts the events of the bundles. Cost:
//! O(bytes) for parsing, and the sort of the window.

mod described;
mod event;
#[cfg(test)]
mod tests;
mod wire;

use std::io::{self, Read};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::hardware::{Command, UFS_NOTE, ufs_device};
use super::{Detect, Format, of_cpu};
use crate::archives;
use crate::event::TraceEvent;
use crate::input::{Input, MAX_PIECE};
use crate::names::{MAX_NAMES, NameId};
use crate::reader::EventSource;
use crate::report::{Gap, Position};
use crate::sink::{BATCH, Sink};
use described::Described;
use wire::{Fields, NoMessage, looks_like_message, varint};

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "perfetto",
    description: "Perfetto's protobuf, plain or compressed, with ftrace events block/*",
    lacks: "tag of block events, cgroup; priorities except in block_io_start and block_io_done",
    has_volumes: false,
    has_processes: true,
    detect: Detect::Head(is_perfetto),
    open: |inputs| Box::new(PerfettoSource::new(super::only(inputs))),
};

/// Field numbers of the messages read here.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const PACKET_FTRACE_EVENTS: u32 = 1;
    pub(super) const PACKET_PROCESS_TREE: u32 = 2;
    pub(super) const PACKET_CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const PACKET_COMPRESSED: u32 = 50;
    pub(super) const PACKET_ZSTD: u32 = 133;
    pub(super) const BUNDLE_CPU: u32 = 1;
    pub(super) const BUNDLE_EVENT: u32 = 2;
    pub(super) const BUNDLE_LOST: u32 = 3;
    pub(super) const BUNDLE_SCHED: u32 = 4;
    pub(super) const BUNDLE_CLOCK: u32 = 5;
    pub(super) const BUNDLE_FTRACE_TIME: u32 = 6;
    pub(super) const BUNDLE_BOOT_TIME: u32 = 7;
    pub(super) const BUNDLE_PREVIOUS_END: u32 = 10;
    pub(super) const BUNDLE_DESCRIPTOR: u32 = 11;
    /// Times of events of the scheduler that are kept in columns, each less the one before.
    pub(super) const SCHED_SWITCH_TIME: u32 = 1;
    pub(super) const SCHED_WAKING_TIME: u32 = 7;
}

/// Bundles of the CPUs alternate, and each has at most this many block events.
const WINDOW: usize = 1 << 17;
/// Maximum length of a packet in bytes.
const MAX_PACKET: usize = 16 << 20;
/// Maximum length of a packet's decompressed content in bytes.
const MAX_UNPACKED: u64 = 64 << 20;
/// Clock ids in a snapshot.
const CLOCK_REALTIME: u64 = 1;
const CLOCK_BOOT: u64 = 6;

/// Returns true if the content starts with a packet. The first byte of a packet may also be a line
/// end, so the fields of the packet are checked, and that it is not text.
pub(crate) fn is_perfetto(head: &[u8]) -> bool {
    let Some(Frame { start, whole }) = packet(head) else { return false };
    let Some(content) = head.get(start..whole.min(head.len())) else { return false };
    let is_text = content.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    !is_text && whole - start <= MAX_PACKET && (whole > head.len() || looks_like_message(content))
}

/// Start of a packet's content, and end of the packet.
struct Frame {
    start: usize,
    whole: usize,
}

/// Returns the packet at the front.
fn packet(bytes: &[u8]) -> Option<Frame> {
    let rest = bytes.strip_prefix(&[0x0a])?;
    let (length, content) = varint(rest)?;
    let start = bytes.len() - content.len();
    Some(Frame { start, whole: start.checked_add(usize::try_from(length).ok()?)? })
}

/// Reads one trace.
pub(crate) struct PerfettoSource {
    input: Input,
    state: PacketState,
}

/// What is kept between packets.
struct PacketState {
    cpus: Vec<Cpu>,
    /// Time of the first event of any kind, in the clock of its bundle: the trace's begin.
    begin: Option<u64>,
    /// Process and name of each thread.
    threads: HashMap<u32, Thread, FxBuildHasher>,
    /// Events for which Perfetto has no message.
    described: Described,
    /// Packets that were compressed in one, at which position of the file; where the next of them
    /// starts; and whether they are all that was compressed.
    unpacked: Vec<u8>,
    unpacked_from: Position,
    unpacked_next: usize,
    is_whole: bool,
}

/// What is known of a CPU.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Time of its last event.
    last: Option<u64>,
    /// Whether events were lost since then.
    lost: bool,
    /// Time of the last event of any kind, in the clock of the bundle.
    end: u64,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    process: Option<u32>,
    comm: Option<NameId>,
}

impl PerfettoSource {
    pub(crate) fn new(input: Input) -> Self {
        let state = PacketState {
            cpus: Vec::new(),
            begin: None,
            threads: HashMap::default(),
            described: Described::default(),
            unpacked: Vec::new(),
            unpacked_from: Position::Byte(0),
            unpacked_next: 0,
            is_whole: true,
        };
        Self { input, state }
    }

    /// Reads a packet of the input. Returns false at the end.
    fn packet(&mut self, sink: &mut Sink) -> io::Result<bool> {
        self.input.fill_to(16)?;
        let bytes = self.input.buffered();
        if bytes.is_empty() {
            self.input.report_damage(0, sink);
            return Ok(false);
        }
        let at = Position::Byte(self.input.offset());
        match packet(bytes) {
            Some(Frame { start, whole }) if whole - start <= MAX_PACKET => {
                if !self.input.fill_to(whole)? {
                    sink.skip(0, at, "a whole packet: the file ends within it");
                    // The length may be damaged, so reading continues at the next byte that may
                    // start a packet.
                    self.input.consume(1);
                    self.resume()?;
                    return Ok(true);
                }
                let content = &self.input.buffered()[start..whole];
                if self.state.packet(content, at, sink).is_err() {
                    sink.skip(0, at, "a packet of protobuf fields");
                }
                self.input.consume(whole);
            }
            _ => {
                // This is a field of the trace other than a packet, or damage.
                if !self.other_field()? {
                    sink.skip(0, at, "a packet");
                    self.input.consume(1);
                    self.resume()?;
                }
            }
        }
        Ok(true)
    }

    /// Skips a field of the trace that is not a packet. Returns false if there is none.
    fn other_field(&mut self) -> io::Result<bool> {
        let Some((key, rest)) = varint(self.input.buffered()) else { return Ok(false) };
        let head = self.input.buffered().len() - rest.len();
        let number = key >> 3;
        let length = match (key & 7, varint(rest)) {
            (0, Some((_, after))) => rest.len() - after.len(),
            (2, Some((length, after))) if length <= MAX_PACKET as u64 => {
                rest.len() - after.len() + length as usize
            }
            _ => return Ok(false),
        };
        // Fields of a trace have small numbers and are followed by a packet.
        if number == 0 || number > 1000 || number == u64::from(field::TRACE_PACKET) {
            return Ok(false);
        }
        let size = head + length;
        let follows = self.input.fill_to(size + 1)?;
        let ends_well = if follows {
            self.input.buffered()[size] == 0x0a
        } else {
            self.input.buffered().len() == size
        };
        if ends_well {
            self.input.consume(size);
        }
        Ok(ends_well)
    }

    /// Continues after damage at the next bytes that look like a packet.
    fn resume(&mut self) -> io::Result<()> {
        loop {
            self.input.fill_to(MAX_PIECE)?;
            let bytes = self.input.buffered();
            let Some(at) = memchr::memchr(0x0a, bytes) else {
                let count = bytes.len();
                self.input.consume(count);
                if count == 0 {
                    return Ok(());
                }
                continue;
            };
            let candidate = &bytes[at..];
            let is_packet = packet(candidate).is_some_and(|Frame { start, whole }| {
                whole - start > 1
                    && candidate.get(start..whole).is_some_and(looks_like_message)
                    && candidate.get(whole).is_none_or(|&next| next == 0x0a)
            });
            self.input.consume(if is_packet { at } else { at + 1 });
            if is_packet {
                return Ok(());
            }
        }
    }
}

impl EventSource for PerfettoSource {
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool> {
        let until = sink.len() + BATCH;
        let mut packets = 0;
        while sink.len() < until && packets < BATCH {
            packets += 1;
            if !self.state.next_unpacked(sink) && !self.packet(sink)? {
                self.state.finish(sink);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        WINDOW
    }

    /// A list of processes follows the first events of their threads.
    fn complete(&self, events: &mut [TraceEvent]) {
        for event in events.iter_mut().filter(|event| event.process.is_none()) {
            let Some(thread) = event.tid.and_then(|tid| self.state.threads.get(&tid)) else {
                continue;
            };
            event.process = thread.process;
            event.comm = event.comm.or(thread.comm);
        }
    }
}

impl PacketState {
    fn packet(&mut self, content: &[u8], at: Position, sink: &mut Sink) -> Result<(), NoMessage> {
        for field in Fields::of(content) {
            let (number, value) = field?;
            match number {
                field::PACKET_COMPRESSED | field::PACKET_ZSTD => {
                    self.compressed(value.bytes(), number == field::PACKET_ZSTD, at, sink);
                }
                _ => self.member(number, value.bytes(), at, sink)?,
            }
        }
        Ok(())
    }

    /// Decompresses the packets that are compressed in one, for [`Self::next_unpacked`].
    fn compressed(&mut self, bytes: &[u8], is_zstd: bool, at: Position, sink: &mut Sink) {
        if !self.unpacked.is_empty() {
            // The members of a packet exclude each other. It also bounds the memory.
            sink.skip(0, at, "one field of compressed packets in a packet");
            return;
        }
        let unpacked = &mut self.unpacked;
        let read = if is_zstd {
            archives::of_zstd(bytes)
                .and_then(|decoder| decoder.take(MAX_UNPACKED).read_to_end(unpacked))
        } else {
            flate2::read::ZlibDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(unpacked)
        };
        self.is_whole = read.is_ok();
        if !self.is_whole {
            sink.skip(0, at, "compressed packets that are whole");
        }
        (self.unpacked_from, self.unpacked_next) = (at, 0);
    }

    /// Reads the next of the packets that were compressed in one. Returns false if there is none:
    /// many events may be in few compressed bytes, so they are read as they are asked for.
    fn next_unpacked(&mut self, sink: &mut Sink) -> bool {
        if self.unpacked.is_empty() {
            return false;
        }
        let at = self.unpacked_from;
        let unpacked = std::mem::take(&mut self.unpacked);
        let mut fields = Fields::of(&unpacked[self.unpacked_next..]);
        let field = fields.next();
        self.unpacked_next = unpacked.len() - fields.remaining();
        let is_end = !matches!(field, Some(Ok(_)));
        match field {
            Some(Ok((field::TRACE_PACKET, packet))) if packet.bytes().len() <= MAX_PACKET => {
                self.unpacked_packet(packet.bytes(), at, sink);
            }
            Some(Ok((field::TRACE_PACKET, _))) => {
                sink.skip(0, at, "compressed packets of 16 MiB at most");
            }
            Some(Err(_)) if self.is_whole => {
                sink.skip(0, at, "compressed packets of protobuf fields");
            }
            _ => {}
        }
        self.unpacked = unpacked;
        if is_end {
            self.unpacked.clear();
            self.unpacked.shrink_to(MAX_PIECE);
        }
        true
    }

    fn unpacked_packet(&mut self, packet: &[u8], at: Position, sink: &mut Sink) {
        for field in Fields::of(packet) {
            let Ok((number, value)) = field else {
                sink.skip(0, at, "a packet of protobuf fields");
                return;
            };
            if self.member(number, value.bytes(), at, sink).is_err() {
                sink.skip(0, at, "a packet of protobuf fields");
            }
        }
    }

    /// Reads a member of a packet.
    fn member(
        &mut self,
        number: u32,
        bytes: &[u8],
        at: Position,
        sink: &mut Sink,
    ) -> Result<(), NoMessage> {
        match number {
            field::PACKET_FTRACE_EVENTS => self.bundle(bytes, at, sink),
            field::PACKET_PROCESS_TREE => self.process_tree(bytes, sink),
            field::PACKET_CLOCK_SNAPSHOT => clock_snapshot(bytes, sink),
            _ => Ok(()),
        }
    }

    /// Reads the events of one CPU.
    fn bundle(&mut self, bundle: &[u8], at: Position, sink: &mut Sink) -> Result<(), NoMessage> {
        // Members that apply to all events may follow the events.
        let (mut cpu, mut lost, mut clock, mut ftrace_time, mut boot_time) =
            (None, false, 0, None, None);
        let mut previous_end = 0;
        let mut span = Span::default();
        for field in Fields::of(bundle) {
            let (number, value) = field?;
            match number {
                field::BUNDLE_CPU => cpu = u32::try_from(value.number()).ok(),
                field::BUNDLE_LOST => lost |= value.number() != 0,
                field::BUNDLE_CLOCK => clock = value.number(),
                field::BUNDLE_FTRACE_TIME => ftrace_time = Some(value.number()),
                field::BUNDLE_BOOT_TIME => boot_time = Some(value.number()),
                field::BUNDLE_PREVIOUS_END => previous_end = value.number(),
                field::BUNDLE_EVENT => span.add(time_of(value.bytes())),
                field::BUNDLE_DESCRIPTOR if self.described.add(value.bytes()).is_err() => {
                    sink.skip(0, at, "a descriptor of an event");
                }
                field::BUNDLE_SCHED => span.add_columns(value.bytes())?,
                _ => {}
            }
        }
        sink.report.resolution_ns.get_or_insert(1);
        let clock_name = match clock {
            0 => "boot",
            2 => "global",
            3 => "local",
            4 => "mono_raw",
            _ => "unknown",
        };
        let offset = match (clock, ftrace_time, boot_time) {
            (1.., Some(ftrace), Some(boot)) => Some(boot.wrapping_sub(ftrace)),
            _ => None,
        };
        if sink.report.clock.is_none() {
            sink.report.clock = Some(if offset.is_some() { "boot" } else { clock_name }.to_owned());
        }
        if span.end > 0 {
            self.begin.get_or_insert(span.begin);
        }
        let begin = self.begin.unwrap_or(u64::MAX);
        if let Some(cpu) = cpu.and_then(|cpu| self.cpu(cpu)) {
            // The bundle before this one is not in the trace: its packet was dropped or
            // overwritten. What ended before the trace began is not missed.
            cpu.lost |= lost || previous_end > cpu.end.max(begin);
            cpu.end = cpu.end.max(span.end);
        }
        for field in Fields::of(bundle) {
            let (number, value) = field?;
            if number == field::BUNDLE_EVENT
                && self.event(value.bytes(), cpu, offset, at, sink).is_err()
            {
                sink.skip(0, at, event::DAMAGED);
            }
        }
        Ok(())
    }

    fn cpu(&mut self, cpu: u32) -> Option<&mut Cpu> {
        of_cpu(&mut self.cpus, cpu)
    }

    #[inline]
    fn event(
        &mut self,
        message: &[u8],
        cpu: Option<u32>,
        offset: Option<u64>,
        at: Position,
        sink: &mut Sink,
    ) -> Result<(), NoMessage> {
        let (mut time, mut tid, mut found) = (None, None, None);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                event::TIMESTAMP => time = Some(value.number().wrapping_add(offset.unwrap_or(0))),
                event::PID => tid = u32::try_from(value.number()).ok(),
                event::SCHED_SWITCH => self.switched(value.bytes(), sink)?,
                _ => match event::block_event(number, value.bytes(), &self.described) {
                    Ok(Some(event)) => found = Some(event),
                    Ok(None) => match event::command(number, value.bytes()) {
                        Ok(Some(Command { mut event, device })) => {
                            event.device = sink.names.volume(ufs_device(device));
                            sink.report.note(UFS_NOTE);
                            found = Some((event, b""));
                        }
                        Ok(None) => {}
                        Err(expected) => sink.skip(0, at, expected),
                    },
                    Err(expected) => sink.skip(0, at, expected),
                },
            }
        }
        if let (Some(number), Some(time)) = (cpu, time)
            && let Some(state) = self.cpu(number)
        {
            let from = state.last.replace(time);
            if std::mem::take(&mut state.lost) {
                sink.push_gap(Gap { cpu, events: None, from, until: Some(time) });
            }
        }
        let Some((mut event, comm)) = found else {
            sink.report.other += 1;
            return Ok(());
        };
        (event.time, event.tid, event.cpu) = (time, tid, cpu);
        if let Some(tid) = tid {
            if !comm.is_empty() {
                let comm = sink.names.intern(comm);
                self.thread(tid, |thread| thread.comm = comm);
            }
            let thread = self.threads.get(&tid).copied().unwrap_or_default();
            (event.comm, event.process) = (thread.comm, thread.process);
        }
        sink.push(event, 0, at);
        Ok(())
    }

    /// Changes what is known of a thread.
    fn thread(&mut self, tid: u32, change: impl FnOnce(&mut Thread)) {
        if self.threads.len() < MAX_NAMES || self.threads.contains_key(&tid) {
            change(self.threads.entry(tid).or_default());
        }
    }

    /// Records the name of the thread to which a CPU switched.
    fn switched(&mut self, message: &[u8], sink: &mut Sink) -> Result<(), NoMessage> {
        let (mut tid, mut comm) = (None, None);
        for field in Fields::of(message) {
            match field? {
                (5, value) => comm = Some(value.bytes()),
                (6, value) => tid = u32::try_from(value.number()).ok(),
                _ => {}
            }
        }
        if let (Some(tid), Some(comm)) = (tid, comm) {
            let comm = sink.names.intern(comm);
            self.thread(tid, |thread| thread.comm = comm);
        }
        Ok(())
    }

    /// Records processes and their threads.
    fn process_tree(&mut self, message: &[u8], sink: &mut Sink) -> Result<(), NoMessage> {
        for field in Fields::of(message) {
            let (member, value) = field?;
            let (mut id, mut process, mut name) = (None, None, None);
            for field in Fields::of(value.bytes()) {
                match (member, field?) {
                    (1 | 2, (1, value)) => id = u32::try_from(value.number()).ok(),
                    (1, (3, value)) if name.is_none() => name = Some(value.bytes()),
                    (2, (3, value)) => process = u32::try_from(value.number()).ok(),
                    (2, (2, value)) => name = Some(value.bytes()),
                    _ => {}
                }
            }
            let Some(id) = id else { continue };
            if member == 1 {
                sink.names.set_process(id, name.unwrap_or_default());
                self.thread(id, |thread| thread.process = Some(id));
            } else if member == 2 {
                let comm =
                    name.filter(|name| !name.is_empty()).and_then(|name| sink.names.intern(name));
                self.thread(id, |thread| {
                    thread.process = process.or(thread.process);
                    thread.comm = comm.or(thread.comm);
                });
            }
        }
        Ok(())
    }

    /// Reports gaps that no event followed.
    fn finish(&mut self, sink: &mut Sink) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if std::mem::take(&mut cpu.lost) {
                sink.push_gap(Gap {
                    cpu: Some(number as u32),
                    events: None,
                    from: cpu.last,
                    until: None,
                });
            }
        }
    }
}

/// Returns the time of an event, 0 if it has none. It is nearly always the first field.
#[inline]
fn time_of(event: &[u8]) -> u64 {
    let mut times =
        Fields::of(event).map_while(Result::ok).filter(|(number, _)| *number == event::TIMESTAMP);
    times.next().map_or(0, |(_, value)| value.number())
}

/// Times of the first and the last event of a bundle.
struct Span {
    begin: u64,
    end: u64,
}

impl Default for Span {
    fn default() -> Self {
        Self { begin: u64::MAX, end: 0 }
    }
}

impl Span {
    #[inline]
    fn add(&mut self, time: u64) {
        (self.begin, self.end) = (self.begin.min(time), self.end.max(time));
    }

    /// Adds the events of the scheduler in a bundle's columns.
    fn add_columns(&mut self, columns: &[u8]) -> Result<(), NoMessage> {
        for field in Fields::of(columns) {
            let (field::SCHED_SWITCH_TIME | field::SCHED_WAKING_TIME, value) = field? else {
                continue;
            };
            let (mut rest, mut time) = (value.bytes(), 0u64);
            while let Some((step, after)) = varint(rest) {
                (rest, time) = (after, time.wrapping_add(step));
                self.add(time);
            }
        }
        Ok(())
    }
}

/// Records the times of several clocks at one moment.
fn clock_snapshot(message: &[u8], sink: &mut Sink) -> Result<(), NoMessage> {
    let (mut boot, mut real) = (None, None);
    for field in Fields::of(message) {
        let (1, value) = field? else { continue };
        let (mut id, mut time) = (0, 0);
        for field in Fields::of(value.bytes()) {
            match field? {
                (1, value) => id = value.number(),
                (2, value) => time = value.number(),
                _ => {}
            }
        }
        match id {
            CLOCK_BOOT => boot = Some(time),
            CLOCK_REALTIME => real = Some(time),
            _ => {}
        }
    }
    if let (Some(boot), Some(real)) = (boot, real) {
        sink.report.wall_clock.get_or_insert((boot, real));
    }
    Ok(())
}
