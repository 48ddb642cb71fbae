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
/// Process number of the tracks of waiting requests; hardware queue n has number n + 1.
const WAIT_PROCESS: u64 = 0;

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
    /// True if the device has been named.
    has_begun: bool,
    chunk: Vec<u8>,
    first: bool,
    /// True if the closing brackets are already in the file.
    closed: bool,
    named: BTreeSet<Track>,
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
            has_begun: false,
            chunk: HEAD.into(),
            first: true,
            closed: false,
            named: BTreeSet::new(),
        };
        if device.is_some() {
            objects.begin(device)?;
            objects.write_chunk()?;
        }
        Ok(Self { timeline: Timeline::default(), objects })
    }

    /// Adds one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        self.objects.begin(event.device)?;
        self.objects.tasks.learn(event, names);
        self.timeline.event(event, &mut self.objects)
    }

    /// Ends the requests in flight, closes the file, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.objects.begin(None)?;
        self.timeline.finish(&mut self.objects)?;
        self.objects.close()?;
        self.objects.out.take().ok_or_else(|| io::Error::other("the trace is finished already"))
    }
}

impl<W: Write + Seek> EventWriter for JsonWriter<W> {
    /// A metadata event of the device: viewers ignore one that they do not know.
    fn recorded(&mut self, recorded: &Recorded, first: &TraceEvent) -> io::Result<()> {
        self.objects.begin(first.device)?;
        self.objects.object();
        let notes = recorded.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
        let notes = notes.collect::<Vec<_>>().join(",");
        let chunk = &mut self.objects.chunk;
        write!(chunk, "{{\"ph\":\"M\",\"name\":\"recorded\",\"pid\":{WAIT_PROCESS},\"args\":{{{notes}}}}}")?;
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
    /// Names the device, if it has not been named.
    fn begin(&mut self, device: Option<DeviceNumber>) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let device = device.unwrap_or(DeviceNumber::new(0, 0));
        self.name_process(WAIT_PROCESS, &format!("device {device}"))
    }

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

    fn name_process(&mut self, process: u64, name: &str) -> io::Result<()> {
        self.object();
        let name = quoted(name);
        write!(
            self.chunk,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":{name}}}}}"
        )?;
        self.end_object()
    }

    /// Returns process and thread number of a track, and names the track if it is new.
    fn track(&mut self, track: Track) -> io::Result<(u64, u64)> {
        let (process, thread, name) = match track {
            Track::Service(queue, tag) => (u64::from(queue) + 1, u64::from(tag), "tag"),
            Track::Wait(lane) => (WAIT_PROCESS, u64::from(lane), "waiting"),
        };
        if self.named.insert(track) {
            if let Track::Service(queue, _) = track {
                self.name_process(process, &format!("hctx{queue}"))?;
            }
            self.object();
            write!(
                self.chunk,
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{thread},\
                 \"args\":{{\"name\":\"{name} {thread}\"}}}}"
            )?;
            self.end_object()?;
        }
        Ok((process, thread))
    }
}

impl<W: Write + Seek> Drop for Objects<W> {
    fn drop(&mut self) {
        // An error cannot be returned from here.
        let _ = self.close();
    }
}

impl<W: Write + Seek> Sink for Objects<W> {
    fn span(&mut self, track: Track, span: &Span, until: u64, end: End) -> io::Result<()> {
        let (process, thread) = self.track(track)?;
        self.object();
        let (name, end) = (quoted(&span.name()), quoted(&end.name()));
        let task = quoted(self.tasks.name(span));
        let category = match track {
            Track::Service(..) => "rq",
            Track::Wait(_) => "wait",
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

    fn counter(&mut self, counter: Counter, at: u64, value: u64) -> io::Result<()> {
        self.object();
        write!(
            self.chunk,
            "{{\"ph\":\"C\",\"name\":\"{}\",\"ts\":{},\"pid\":{WAIT_PROCESS},\"args\":{{\"requests\":{value}}}}}",
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
