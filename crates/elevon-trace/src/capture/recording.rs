//! What was recorded, on its way to a text.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use super::decode::Decoder;
use super::page::{Missed, PageLayout};
use super::threads::Threads;
use crate::event::{TraceEvent, TraceKind};
use crate::names::Names;
use crate::recorded::Recorded;
use crate::write::{WriteOptions, ftrace};

/// Events that a CPU's buffer lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The CPU.
    pub cpu: u32,
    /// Events that were overwritten before they were read.
    pub overwritten: u64,
    /// Events for which there was no room.
    pub dropped: u64,
}

/// Bytes of a CPU's pages that are read at once.
const READ_AT_ONCE: usize = 1 << 18;

/// The pages that a CPU recorded.
pub(super) struct Spool {
    pub(super) cpu: u32,
    pub(super) pages: File,
}

/// A recording that has ended.
pub struct Recording {
    spools: Vec<Spool>,
    layout: PageLayout,
    decoder: Decoder,
    lost: Vec<Lost>,
    threads: Threads,
    names: Names,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events.
    pub events: u64,
    /// Records that could not be decoded.
    pub unknown: u64,
    /// Plugs and their flushes by threads that did not use the device: the kernel's events of
    /// plugs name no device, so that those of all devices are recorded.
    pub plugs_of_others: u64,
}

impl Recording {
    /// `processes` and `names` are the texts of `saved_tgids` and `saved_cmdlines`.
    pub(super) fn new(
        spools: Vec<Spool>,
        layout: PageLayout,
        decoder: Decoder,
        lost: Vec<Lost>,
        processes: &[u8],
        names: &[u8],
    ) -> Self {
        let mut known = Names::default();
        let threads = Threads::from_tables(processes, names, &mut known);
        Self { spools, layout, decoder, lost, threads, names: known }
    }

    /// CPUs that lost events.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Writes everything as ftrace text, in order of time, with the notes in its head. Memory does
    /// not grow with the recording.
    ///
    /// # Errors
    /// Of the output, and of the files that keep what was recorded.
    pub fn write<W: Write>(mut self, out: W, recorded: &Recorded) -> io::Result<(W, Written)> {
        let options = WriteOptions {
            cpus: self.spools.len() as u32,
            is_in_nanoseconds: true,
            has_processes: !self.threads.processes.is_empty(),
            ..WriteOptions::default()
        };
        let mut writer = ftrace::FtraceWriter::with_notes(out, options, recorded)?;
        let mut written = Written::default();
        let mut cpus: Vec<Cpu> = self
            .spools
            .drain(..)
            .map(|spool| Cpu::new(spool, &self.layout))
            .collect::<io::Result<_>>()?;
        let mut next = BinaryHeap::new();
        for (at, cpu) in cpus.iter_mut().enumerate() {
            self.advance(cpu, at, &mut next, &mut written)?;
        }
        while let Some(Reverse((_, at))) = next.pop() {
            let cpu = &mut cpus[at];
            if let Some(gap) = cpu.gap.take() {
                writer.event(&gap, &self.names)?;
            }
            if let Some(event) = cpu.event.take() {
                writer.event(&event, &self.names)?;
                written.events += 1;
            }
            self.advance(cpu, at, &mut next, &mut written)?;
        }
        Ok((writer.into_inner()?, written))
    }

    /// Decodes a CPU's next event.
    fn advance(
        &mut self,
        cpu: &mut Cpu,
        at: usize,
        next: &mut BinaryHeap<Reverse<(u64, usize)>>,
        written: &mut Written,
    ) -> io::Result<()> {
        loop {
            let Some((time, place)) = cpu.next_record(&self.layout)? else { return Ok(()) };
            let record = &cpu.page[place];
            let Some(decoded) = self.decoder.decode(record) else {
                written.unknown += 1;
                continue;
            };
            let Some(event) = self.threads.event(&decoded, time, cpu.number, &mut self.names)
            else {
                written.plugs_of_others += 1;
                continue;
            };
            if let Some(missed) = cpu.missed.take() {
                let mut gap =
                    TraceEvent::new(TraceKind::Lost { events: missed.events, until: Some(time) });
                (gap.time, gap.cpu) = (Some(time), Some(cpu.number));
                cpu.gap = Some(gap);
            }
            cpu.event = Some(event);
            next.push(Reverse((time, at)));
            return Ok(());
        }
    }
}

/// A CPU's pages being read.
struct Cpu {
    number: u32,
    pages: BufReader<File>,
    page: Vec<u8>,
    /// Records of the page, as times and places in it, that were not taken yet; the last one is
    /// the next.
    records: Vec<(u64, Range<usize>)>,
    /// Events were lost before the next one.
    missed: Option<Missed>,
    gap: Option<TraceEvent>,
    event: Option<TraceEvent>,
}

impl Cpu {
    fn new(spool: Spool, layout: &PageLayout) -> io::Result<Self> {
        let Spool { cpu, mut pages } = spool;
        pages.seek(SeekFrom::Start(0))?;
        Ok(Self {
            number: cpu,
            pages: BufReader::with_capacity(READ_AT_ONCE, pages),
            page: vec![0; layout.len],
            records: Vec::new(),
            missed: None,
            gap: None,
            event: None,
        })
    }

    /// The next record's time and place in `page`; `None` at the end.
    fn next_record(&mut self, layout: &PageLayout) -> io::Result<Option<(u64, Range<usize>)>> {
        loop {
            if let Some(record) = self.records.pop() {
                return Ok(Some(record));
            }
            match self.pages.read_exact(&mut self.page) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Some(missed) = layout.missed(&self.page) {
                self.missed = Some(self.missed.map_or(missed, |before| before.and(missed)));
            }
            self.records.extend(layout.entries(&self.page));
            self.records.reverse();
        }
    }
}
