//! Reads blktrace's binary records, versions 7 and 8, in either byte order: per-CPU files, merged
//! by time, CPU and sequence number, or one merged file.
//!
//! A damaged record is counted, and reading goes on at the next record's magic number. A jump of a
//! CPU's sequence numbers is a gap of lost events. Cost: O(log CPUs) per record; a buffer per CPU.

mod record;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::event::Device;
use crate::input::Input;
use crate::names::NameId;
use crate::reader::Source;
use crate::report::{Gap, Position};
use crate::sink::{BATCH, Sink};
use record::Header;

pub use record::{action, category};

/// Per-CPU files are in order of time but for what interrupts wrote meanwhile.
const WINDOW: usize = 1024;
/// Tasks whose names are kept.
const MAX_TASKS: usize = 1 << 20;
/// Streams of sequence numbers that are followed.
const MAX_STREAMS: usize = 1 << 16;

/// Returns true if content begins with a record of either byte order.
pub(crate) fn is_blktrace(head: &[u8]) -> bool {
    record::version_at(head).is_some()
}

/// One file.
struct CpuFile {
    input: Input,
    number: u32,
    /// The record at the front of the input, if there is one.
    head: Option<Header>,
}

impl CpuFile {
    /// Finds the next record, and skips what is none.
    fn advance(&mut self, sink: &mut Sink) -> io::Result<()> {
        if let Some(head) = self.head.take() {
            self.input.consume(head.size());
        }
        let mut is_lost = false;
        loop {
            let whole = self.input.fill_to(record::MAX_HEADER)?;
            let bytes = self.input.buffered();
            if bytes.is_empty() {
                self.input.report_damage(self.number, sink);
                return Ok(());
            }
            let at = Position::Byte(self.input.offset());
            if let Some(header) = Header::parse(bytes) {
                // One byte and four more tell the two forms of version 8 apart by what follows.
                self.input.fill_to(header.size() + record::MAX_HEADER)?;
                let header = header.with_padding_of(self.input.buffered());
                if self.input.buffered().len() >= header.size() {
                    self.head = Some(header);
                    return Ok(());
                }
                sink.skip(self.number, at, "a whole record: the file ends within it");
                self.input.consume(self.input.buffered().len());
                continue;
            }
            if !is_lost {
                is_lost = true;
                let is_cut = !whole && record::version_at(bytes).is_some();
                let reason = if is_cut { "a whole record: the file ends within it" } else { "a record's magic number" };
                sink.skip(self.number, at, reason);
            }
            let next = 1 + record::find_magic(&bytes[1..]).unwrap_or_else(|none| none);
            self.input.consume(next);
        }
    }
}

/// Reads one trace.
pub(crate) struct BlktraceSource {
    files: Vec<CpuFile>,
    /// Files by the time of their first record.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    tasks: HashMap<u32, NameId, FxBuildHasher>,
    sequences: Sequences,
    is_started: bool,
}

impl BlktraceSource {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let files = inputs
            .into_iter()
            .enumerate()
            .map(|(number, input)| CpuFile { input, number: number as u32, head: None })
            .collect();
        Self {
            files,
            heads: BinaryHeap::new(),
            tasks: HashMap::default(),
            sequences: Sequences::default(),
            is_started: false,
        }
    }

    /// Finds the next record of a file, and puts the file in order.
    fn advance(&mut self, file: usize, sink: &mut Sink) -> io::Result<()> {
        self.files[file].advance(sink)?;
        if let Some(head) = &self.files[file].head {
            self.heads.push(Reverse((head.time, file)));
        }
        Ok(())
    }

    /// Takes a file's first record.
    fn take(&mut self, file: usize, sink: &mut Sink) {
        let CpuFile { input, number, head: Some(header) } = &self.files[file] else { return };
        let payload = &input.buffered()[header.length..header.size()];
        let at = Position::Byte(input.offset());
        if header.is_notify() {
            match header.notify(payload) {
                record::Notify::Task(name) => {
                    let id = sink.names.intern(name);
                    if let Some(id) = id
                        && (self.tasks.len() < MAX_TASKS || self.tasks.contains_key(&header.pid))
                    {
                        self.tasks.insert(header.pid, id);
                    }
                }
                record::Notify::WallClock(unix_ns) => {
                    sink.report.wall_clock.get_or_insert((header.time, unix_ns));
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
                event.comm = self.tasks.get(&header.pid).copied();
                sink.push(event, *number, at);
            }
            Ok(None) => sink.report.other += 1,
            Err(expected) => sink.skip(*number, at, expected),
        }
    }
}

impl Source for BlktraceSource {
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
            // The file goes on as long as none of the others has an earlier record.
            let bound = self.heads.peek().map(|&Reverse(other)| other);
            loop {
                records += 1;
                self.take(file, sink);
                self.files[file].advance(sink)?;
                let Some(head) = &self.files[file].head else { break };
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
    /// Time of the last event before them.
    from: u64,
}

/// The last sequence number of each CPU, and of each CPU and device: a merged file may hold several
/// traces, each with its own numbers.
#[derive(Default)]
struct Sequences {
    by_cpu: HashMap<(u32, u32), u32, FxBuildHasher>,
    by_device: HashMap<(u32, u32, Device), (u32, u64), FxBuildHasher>,
}

impl Sequences {
    /// Notes a record, and tells how many are missing before it.
    fn next(&mut self, file: u32, header: &Header) -> Option<Missing> {
        if self.by_device.len() >= MAX_STREAMS {
            return None;
        }
        let follows = |last: u32| last.wrapping_add(1) == header.sequence;
        let of_cpu = self.by_cpu.insert((file, header.cpu), header.sequence);
        let of_device = self.by_device.insert((file, header.cpu, header.device()), (header.sequence, header.time));
        let (last, from) = of_device?;
        if of_cpu.is_none_or(follows) || follows(last) || header.sequence <= last {
            return None;
        }
        Some(Missing { events: u64::from(header.sequence - last - 1), from })
    }
}
