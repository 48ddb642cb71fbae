//! Writes fio's iolog, version 3, which `fio --read_iolog` replays.
//!
//! Only arrivals are written: bios that are queued, and whole I/Os. A flush is a `sync`, and a
//! write with a preflush is a `sync` and a `write`. Operations that fio does not have (zones,
//! passthrough, write-zeroes, secure erase) are omitted, as are processes and priorities, which the
//! format does not have. A device is the file that the trace names, or `/dev/block/MAJ:MIN`. Times
//! are microseconds since the first event. Cost: one line per I/O.

use std::collections::BTreeSet;
use std::io::{self, Write};

use elevon_core::op::Flags;

use super::EventWriter;
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent};
use crate::names::Names;
use crate::op::TraceOp;

/// Maximum number of bytes of one line, a whole number of sectors: fio reads a length into 32 bits.
const MAX_BYTES: u64 = (1 << 32) - SECTOR_SIZE;

/// Writes the lines.
pub struct FioLogWriter<W: Write> {
    out: W,
    /// Time of the first event.
    start: Option<u64>,
    /// Time of the last line in microseconds.
    last_us: u64,
    files: BTreeSet<String>,
}

impl<W: Write> FioLogWriter<W> {
    /// Writes the line with the version.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"fio version 3 iolog\n")?;
        Ok(Self { out, start: None, last_us: 0, files: BTreeSet::new() })
    }

    /// Appends one event; events that are not arrivals are omitted.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        if let Some(time) = event.time {
            self.last_us = (time.saturating_sub(*self.start.get_or_insert(time))) / 1000;
        }
        if !event.kind.is_arrival() {
            return Ok(());
        }
        let bytes = event.bytes.unwrap_or(0);
        let flushes = event.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH));
        let action = match event.op {
            Some(TraceOp::Read) => "read",
            Some(TraceOp::Write) => "write",
            Some(TraceOp::Discard) => "trim",
            Some(TraceOp::Flush) => "sync",
            _ => return Ok(()),
        };
        let file = self.file(event.device, names)?;
        let us = self.last_us;
        if flushes && action == "write" || action == "sync" {
            writeln!(self.out, "{us} {file} sync 0 0")?;
        }
        let mut offset = event.sector.unwrap_or(0).saturating_mul(SECTOR_SIZE);
        let mut left = if action == "sync" { 0 } else { bytes };
        while left > 0 {
            let part = left.min(MAX_BYTES);
            writeln!(self.out, "{us} {file} {action} {offset} {part}")?;
            (offset, left) = (offset.saturating_add(part), left - part);
        }
        Ok(())
    }

    /// Returns the file of a device, which is added and opened if it is new.
    fn file(&mut self, device: Option<DeviceNumber>, names: &Names) -> io::Result<String> {
        let device = device.unwrap_or(DeviceNumber::new(0, 0));
        let name = match names.device(device) {
            // fio's fields end at a blank.
            Some(name) => name.replace(char::is_whitespace, "_"),
            None => format!("/dev/block/{device}"),
        };
        if self.files.insert(name.clone()) {
            let us = self.last_us;
            writeln!(self.out, "{us} {name} add\n{us} {name} open")?;
        }
        Ok(name)
    }

    /// Closes the files, writes what is buffered, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        for file in std::mem::take(&mut self.files) {
            writeln!(self.out, "{} {file} close", self.last_us)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> EventWriter for FioLogWriter<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}
