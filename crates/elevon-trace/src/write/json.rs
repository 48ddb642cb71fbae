//! Trace-event JSON: the same slices and counters as [`super::perfetto_timeline`], for viewers that
//! read JSON.
//!
//! The file is valid JSON after every chunk of 64 KiB, not only at the end: each chunk is followed
//! by the closing brackets, which the next one overwrites. In an output that cannot seek they are
//! only written at the end. Cost: one object per slice and per count.

use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};

use super::EventWriter;
use super::timeline::{Counter, End, Sink, Span, Tasks, Timeline, Track};
use crate::event::{DeviceNumber, TraceEvent};
use crate::names::Names;
use crate::recorded::Recorded;

const HEAD: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
const FOOT: &str = "\n]}\n";
/// Bytes that are buffered before they are written.
const CHUNK: usize = 64 * 1024;
/// Process numbers of a device: that of the waiting requests, then those of the hardware queues,
/// then these.
const UNTAGGED_PROCESS: u64 = 0x1_0001;
const IO_PROCESS: u64 = 0x1_0002;
/// Distance of the process numbers of two devices.
const DEVICE_PROCESSES: u64 = 0x2_0000;

/// Writes the trace. If it is dropped without [`Self::finish`], it closes the file as far as
/// possible.
pub struct JsonWriter<W: Write + Seek> {
    timeline: Timeline,
    objects: Objects<W>,
}

struct Objects<W: Write + Seek> {
    /// `None` after the output was returned.
    out: Option<W>,
    tasks: Tasks,
    /// Names of the devices by their numbers.
    devices: Vec<String>,
    chunk: Vec<u8>,
    first: bool,
    /// True if the closing brackets are already in the file.
    closed: bool,
    named: BTreeSet<(u32, Track)>,
    /// Processes that have been named.
    processes: BTreeSet<u64>,
}

impl<W: Write + Seek> JsonWriter<W> {
    /// Starts the file. If the device is unknown, that of the first event is used.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn new(out: W, device: Option<DeviceNumber>) -> io::Result<Self> {
        let mut objects = Objects {
            out: Some(out),
            tasks: Tasks::default(),
            devices: Vec::new(),
            chunk: HEAD.into(),
            first: true,
            closed: false,
            named: BTreeSet::new(),
            processes: BTreeSet::new(),
        };
        let mut timeline = Timeline::default();
        if device.is_some() {
            timeline.begin(device, &mut objects)?;
            objects.write_chunk()?;
        }
        Ok(Self { timeline, objects })
    }

    /// Adds one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        self.objects.tasks.learn(event, names);
        self.timeline.event(event, &mut self.objects)
    }

    /// Ends the requests in flight, closes the file, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.timeline.finish(&mut self.objects)?;
        self.objects.close()?;
        self.objects.out.take().ok_or_else(|| io::Error::other("the trace is finished already"))
    }
}

impl<W: Write + Seek> EventWriter for JsonWriter<W> {
    /// A metadata event of the device: viewers ignore one that they do not know.
    fn recorded(&mut self, recorded: &Recorded, first: &TraceEvent) -> io::Result<()> {
        self.timeline.begin(first.device, &mut self.objects)?;
        self.objects.object();
        let notes =
            recorded.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
        let notes = notes.collect::<Vec<_>>().join(",");
        let chunk = &mut self.objects.chunk;
        write!(chunk, "{{\"ph\":\"M\",\"name\":\"recorded\",\"pid\":0,\"args\":{{{notes}}}}}")?;
        self.objects.end_object()
    }

    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}

impl<W: Write + Seek> Objects<W> {
    /// Starts an object with the members that all kinds have. The caller writes the rest and calls
    /// [`Self::end_object`].
    fn object(&mut self) {
        self.chunk.extend_from_slice(if self.first { b"\n" } else { b",\n" });
        self.first = false;
    }

    fn end_object(&mut self) -> io::Result<()> {
        if self.chunk.len() < CHUNK { Ok(()) } else { self.write_chunk() }
    }

    /// Writes the buffered chunk, and the closing brackets after it.
    fn write_chunk(&mut self) -> io::Result<()> {
        let Some(out) = self.out.as_mut() else {
            return Ok(());
        };
        if self.closed {
            out.seek(SeekFrom::Current(-(FOOT.len() as i64)))?;
            self.closed = false;
        }
        out.write_all(&self.chunk)?;
        self.chunk.clear();
        // The brackets are only written before the end if they can be overwritten.
        if out.stream_position().is_ok() {
            out.write_all(FOOT.as_bytes())?;
            self.closed = true;
        }
        out.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        self.write_chunk()?;
        match self.out.as_mut() {
            Some(out) if !self.closed => {
                out.write_all(FOOT.as_bytes())?;
                self.closed = true;
                out.flush()
            }
            _ => Ok(()),
        }
    }

    /// Names a process, if it has no name yet.
    fn name_process(&mut self, process: u64, name: &str) -> io::Result<()> {
        if !self.processes.insert(process) {
            return Ok(());
        }
        self.object();
        let name = quoted(name);
        write!(
            self.chunk,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":{name}}}}}"
        )?;
        self.end_object()
    }

    /// Returns process and thread number of a track, and names the track if it is new.
    fn track(&mut self, device: u32, track: Track) -> io::Result<(u64, u64)> {
        let first = u64::from(device) * DEVICE_PROCESSES;
        let (process, thread, name) = match track {
            Track::Service(queue, tag) => (first + u64::from(queue) + 1, tag, "tag"),
            Track::Untagged(lane) => (first + UNTAGGED_PROCESS, lane, "in service"),
            Track::Wait(lane) => (first, lane, "waiting"),
            Track::Io(lane) => (first + IO_PROCESS, lane, "I/O"),
        };
        if self.named.insert((device, track)) {
            let group = match track {
                Track::Service(queue, _) => format!("hctx{queue}"),
                _ => name.to_owned(),
            };
            // Where there are several devices only the first one's groups are without its name.
            let of = if device == 0 {
                String::new()
            } else {
                format!("{} ", self.devices[device as usize])
            };
            self.name_process(process, &format!("{of}{group}"))?;
            self.object();
            write!(
                self.chunk,
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{thread},\
                 \"args\":{{\"name\":\"{name} {thread}\"}}}}"
            )?;
            self.end_object()?;
        }
        Ok((process, u64::from(thread)))
    }
}

impl<W: Write + Seek> Drop for Objects<W> {
    fn drop(&mut self) {
        // An error cannot be returned from here.
        let _ = self.close();
    }
}

impl<W: Write + Seek> Sink for Objects<W> {
    fn device(&mut self, number: u32, device: DeviceNumber) -> io::Result<()> {
        self.devices.push(format!("device {device}"));
        self.name_process(u64::from(number) * DEVICE_PROCESSES, &format!("device {device}"))
    }

    fn span(
        &mut self,
        device: u32,
        track: Track,
        span: &Span,
        until: u64,
        end: End,
    ) -> io::Result<()> {
        let (process, thread) = self.track(device, track)?;
        self.object();
        let (name, end) = (quoted(&span.name()), quoted(&end.name()));
        let task = quoted(self.tasks.name(span));
        let category = match track {
            Track::Service(..) | Track::Untagged(_) => "rq",
            Track::Wait(_) => "wait",
            Track::Io(_) => "io",
        };
        write!(
            self.chunk,
            "{{\"ph\":\"X\",\"name\":{name},\"cat\":\"{category}\",\"ts\":{},\"dur\":{},\"pid\":{process},\
             \"tid\":{thread},\"args\":{{\"sector\":{},\"sectors\":{},\"task\":{task},\"ioprio\":\"{},{}\",\"end\":{end}}}}}",
            micros(span.start),
            micros(until.saturating_sub(span.start)),
            span.sector,
            span.sectors,
            span.ioprio.class().name(),
            span.ioprio.level(),
        )?;
        self.end_object()
    }

    fn counter(&mut self, device: u32, counter: Counter, at: u64, value: u64) -> io::Result<()> {
        self.object();
        let process = u64::from(device) * DEVICE_PROCESSES;
        write!(
            self.chunk,
            "{{\"ph\":\"C\",\"name\":\"{}\",\"ts\":{},\"pid\":{process},\"args\":{{\"requests\":{value}}}}}",
            counter.name(),
            micros(at),
        )?;
        self.end_object()
    }
}

/// Formats microseconds with three decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
