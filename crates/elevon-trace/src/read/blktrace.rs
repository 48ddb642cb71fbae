//! Reads blktrace's binary records, versions 7 and 8, in either byte order: per-CPU files, merged
//! by time, CPU and sequence number, or one merged file.
//!
//! A damaged record is counted, and reading continues at the next record's magic number; so it does
//! if the length of a record is damaged, which may span any number of others. A jump in a CPU's
//! sequence numbers is a gap of lost events, and so is the rest of a CPU's file that is cut. Cost:
//! O(log CPUs) per record; a buffer per CPU.

mod record;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{Detect, Format};
use crate::input::Input;
use crate::names::NameId;
use crate::reader::EventSource;
use crate::recorded::Recorded;
use crate::report::{Gap, Position};
use crate::sink::{BATCH, Sink};
use record::Header;

pub use record::{action, category};

/// What this reader says of its format.
pub(crate) const FORMAT: Format = Format {
    name: "blktrace",
    description: "blktrace's binary records, one file a CPU or one merged file",
    lacks: "priority, tag, whether a write is atomic",
    has_volumes: false,
    has_processes: false,
    detect: Detect::Head(is_blktrace),
    open: |inputs| Box::new(BlktraceSource::new(inputs)),
};

/// Per-CPU files are in order of time, except for events of interrupts.
const WINDOW: usize = 1024;
/// Maximum number of tasks whose names are kept.
const MAX_TASKS: usize = 1 << 20;
/// Maximum number of streams of sequence numbers that are tracked.
const MAX_STREAMS: usize = 1 << 16;

/// Returns true if the content starts with a record of either byte order.
pub(crate) fn is_blktrace(head: &[u8]) -> bool {
    record::version_at(head).is_some()
}

/// One file of a trace.
struct CpuFile {
    input: Input,
    number: u32,
    /// Header of the record at the front of the input, if there is one.
    head: Option<Header>,
    /// CPU and time of the last record if the file is cut behind it.
    cut: Option<(u32, u64)>,
}

impl CpuFile {
    /// Advances to the next record, and skips other bytes.
    #[inline]
    fn advance(&mut self, sink: &mut Sink) -> io::Result<()> {
        let last = self.head.take();
        if let Some(head) = &last {
            self.input.consume(head.size());
        }
        // Nearly every record is of this kind, and whole in the buffer with the next header.
        let bytes = self.input.buffered();
        if let Some(header) = Header::parse_usual(bytes)
            && bytes.len() >= header.size() + record::MAX_HEADER
            && (header.payload == 0 || record::version_at(&bytes[header.size()..]).is_some())
        {
            self.head = Some(header);
            return Ok(());
        }
        if self.advance_slowly(sink)? {
            self.cut = last.map(|last| (last.cpu, last.time));
        }
        Ok(())
    }

    /// Returns true if the file ends here and is cut.
    fn advance_slowly(&mut self, sink: &mut Sink) -> io::Result<bool> {
        let (mut is_lost, mut is_cut) = (false, false);
        loop {
            let whole = self.input.fill_to(record::MAX_HEADER)?;
            let bytes = self.input.buffered();
            if bytes.is_empty() {
                self.input.report_damage(self.number, sink);
                return Ok(is_cut || self.input.is_damaged());
            }
            let at = Position::Byte(self.input.offset());
            if let Some(header) = Header::parse(bytes) {
                // The bytes after the header distinguish the two forms of version 8.
                self.input.fill_to(header.size() + record::MAX_HEADER)?;
                let header = header.with_padding_of(self.input.buffered());
                if let Some(next) = self.next_within(&header) {
                    sink.skip(self.number, at, "a length up to the next record");
                    self.input.consume(next);
                    continue;
                }
                if self.input.buffered().len() >= header.size() {
                    self.head = Some(header);
                    return Ok(false);
                }
                is_cut = true;
                sink.skip(self.number, at, "a whole record: the file ends within it");
                self.input.consume(self.input.buffered().len());
                continue;
            }
            if !is_lost {
                is_lost = true;
                is_cut = !whole && record::version_at(bytes).is_some();
                let reason = if is_cut {
                    "a whole record: the file ends within it"
                } else {
                    "a record's magic number"
                };
                sink.skip(self.number, at, reason);
            }
            let next = 1 + record::find_magic(&bytes[1..]).unwrap_or_else(|none| none);
            self.input.consume(next);
        }
    }
}

impl CpuFile {
    /// Returns the position of the next record if the one at the front claims to be longer than it
    /// can be: another begins in what it takes for its payload, and none behind that.
    fn next_within(&self, header: &Header) -> Option<usize> {
        let bytes = self.input.buffered();
        let behind = bytes.get(header.size()..);
        if header.payload == 0
            || behind.is_some_and(|bytes| bytes.is_empty() || record::version_at(bytes).is_some())
        {
            return None;
        }
        let mut at = header.length;
        while at < header.size().min(bytes.len()) {
            match record::find_magic(&bytes[at..]) {
                Ok(next) => return Some(at + next).filter(|&next| next < header.size()),
                Err(searched) => at += searched.max(1),
            }
        }
        None
    }
}

/// Reads one trace.
pub(crate) struct BlktraceSource {
    files: Vec<CpuFile>,
    /// Files by the time of their next record.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    tasks: Tasks,
    sequences: Sequences,
    is_started: bool,
}

/// Number of tasks whose names are found without a look-up in a table.
const RECENT: usize = 64;

/// Names of tasks by thread id.
struct Tasks {
    names: HashMap<u32, NameId, FxBuildHasher>,
    /// Threads and names, at the thread id modulo [`RECENT`].
    recent: [(u32, Option<NameId>); RECENT],
}

impl Default for Tasks {
    fn default() -> Self {
        // No thread has this id.
        Self { names: HashMap::default(), recent: [(u32::MAX, None); RECENT] }
    }
}

impl Tasks {
    fn insert(&mut self, pid: u32, name: NameId) {
        if self.names.len() < MAX_TASKS || self.names.contains_key(&pid) {
            self.names.insert(pid, name);
            self.recent[pid as usize % RECENT] = (u32::MAX, None);
        }
    }

    /// Returns the name of a thread. Cost: one comparison if the thread was recently asked for,
    /// otherwise one hash.
    #[inline]
    fn get(&mut self, pid: u32) -> Option<NameId> {
        let at = pid as usize % RECENT;
        let (recent, name) = self.recent[at];
        if recent == pid && pid != u32::MAX {
            return name;
        }
        let name = self.names.get(&pid).copied();
        self.recent[at] = (pid, name);
        name
    }
}

impl BlktraceSource {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let files = inputs
            .into_iter()
            .enumerate()
            .map(|(number, input)| CpuFile { input, number: number as u32, head: None, cut: None })
            .collect();
        Self {
            files,
            heads: BinaryHeap::new(),
            tasks: Tasks::default(),
            sequences: Sequences::default(),
            is_started: false,
        }
    }

    /// Advances a file to its next record, and sorts the file into `heads`.
    fn advance(&mut self, file: usize, sink: &mut Sink) -> io::Result<()> {
        self.files[file].advance(sink)?;
        match &self.files[file].head {
            Some(head) => self.heads.push(Reverse((head.time, file))),
            None => self.end(file, sink),
        }
        Ok(())
    }

    /// Processes the end of a file. The rest of a file that is cut is a gap, in which the other
    /// CPUs go on.
    fn end(&self, file: usize, sink: &mut Sink) {
        if let Some((cpu, last)) = self.files[file].cut.filter(|_| self.files.len() > 1) {
            sink.push_gap_to_end(cpu, last);
        }
    }

    /// Reads the record at the front of a file.
    fn take(&mut self, file: usize, sink: &mut Sink) {
        let CpuFile { input, number, head: Some(header), .. } = &self.files[file] else { return };
        let payload = &input.buffered()[header.length..header.size()];
        let at = Position::Byte(input.offset());
        if header.is_notify() {
            match header.notify(payload) {
                record::Notify::Task(name) => {
                    let id = sink.names.intern(name);
                    if let Some(id) = id {
                        self.tasks.insert(header.pid, id);
                    }
                }
                record::Notify::WallClock(unix_ns) => {
                    sink.report.wall_clock.get_or_insert((header.time, unix_ns));
                }
                record::Notify::Message(text) => {
                    sink.report.other += 1;
                    Recorded::read_line(&mut sink.report.recorded, text);
                    Recorded::read_message(&mut sink.report.recorded, header.device(), text);
                }
                record::Notify::Other => sink.report.other += 1,
            }
            return;
        }
        if let Some(lost) = self.sequences.next(*number, header) {
            sink.push_gap(Gap {
                cpu: Some(header.cpu),
                events: Some(lost.events),
                from: Some(lost.from),
                until: Some(header.time),
            });
        }
        match header.event(payload) {
            Ok(Some(mut event)) => {
                event.comm = self.tasks.get(header.pid);
                sink.push(event, *number, at);
            }
            Ok(None) => sink.report.other += 1,
            Err(expected) => sink.skip(*number, at, expected),
        }
    }
}

impl EventSource for BlktraceSource {
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool> {
        if !self.is_started {
            self.is_started = true;
            for file in 0..self.files.len() {
                self.advance(file, sink)?;
            }
        }
        let until = sink.len() + BATCH;
        let mut records = 0;
        while sink.len() < until && records < BATCH * 16 {
            let Some(Reverse((_, file))) = self.heads.pop() else { return Ok(false) };
            // Reading continues in this file until another one has an earlier record.
            let bound = self.heads.peek().map(|&Reverse(other)| other);
            loop {
                records += 1;
                self.take(file, sink);
                self.files[file].advance(sink)?;
                let Some(head) = &self.files[file].head else {
                    self.end(file, sink);
                    break;
                };
                if bound.is_some_and(|bound| bound < (head.time, file)) || records >= BATCH {
                    self.heads.push(Reverse((head.time, file)));
                    break;
                }
            }
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        WINDOW
    }
}

/// Events that are missing in a stream of sequence numbers.
struct Missing {
    events: u64,
    /// Time of the last event before the missing ones.
    from: u64,
}

/// The last sequence number of each CPU, and of each CPU and device, because a merged file may
/// contain several traces, each with separate numbers.
#[derive(Default)]
struct Sequences {
    by_cpu: HashMap<(u32, u32), usize, FxBuildHasher>,
    by_device: HashMap<(u32, u32, u32), usize, FxBuildHasher>,
    /// Last sequence number of each CPU.
    cpus: Vec<Option<u32>>,
    /// Last sequence number of each CPU and device, with its time.
    devices: Vec<Option<(u32, u64)>>,
    /// The previous record: file, CPU and device, and the places of its CPU and device.
    previous: Option<(u32, u32, u32, usize, usize)>,
}

impl Sequences {
    /// Records a sequence number, and returns what is missing before it. Cost: three comparisons if
    /// file, CPU and device are those of the previous record, otherwise two hashes.
    #[inline]
    fn next(&mut self, file: u32, header: &Header) -> Option<Missing> {
        let key = (file, header.cpu, header.device);
        let (of_cpu, of_device) = match self.previous {
            Some((file, cpu, device, of_cpu, of_device)) if (file, cpu, device) == key => {
                (of_cpu, of_device)
            }
            _ => self.places(key)?,
        };
        let before = self.cpus[of_cpu].replace(header.sequence);
        let (last, from) = self.devices[of_device].replace((header.sequence, header.time))?;
        let follows = |last: u32| last.wrapping_add(1) == header.sequence;
        if follows(last) || before.is_none_or(follows) || header.sequence <= last {
            return None;
        }
        Some(Missing { events: u64::from(header.sequence - last - 1), from })
    }

    /// Returns the places of a CPU and device; `None` if there are too many.
    fn places(&mut self, key: (u32, u32, u32)) -> Option<(usize, usize)> {
        let (file, cpu, device) = key;
        if self.devices.len() >= MAX_STREAMS {
            return None;
        }
        let of_cpu = *self.by_cpu.entry((file, cpu)).or_insert(self.cpus.len());
        if of_cpu == self.cpus.len() {
            self.cpus.push(None);
        }
        let of_device = *self.by_device.entry(key).or_insert(self.devices.len());
        if of_device == self.devices.len() {
            self.devices.push(None);
        }
        self.previous = Some((file, cpu, device, of_cpu, of_device));
        Some((of_cpu, of_device))
    }
}
