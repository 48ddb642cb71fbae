//! Writes Perfetto's protobuf trace: for each device one track per (hardware queue, tag) with a
//! slice from issue to completion, tracks of waiting requests with a slice from allocation to
//! issue, and counters.
//!
//! Field numbers are those of `perfetto/trace/*.proto`. Packets are independent, so a truncated
//! file is readable except for its last packet. Slices are written when they end, which is not in
//! order of time; readers sort them. Cost: two packets per slice and one per count; memory for the
//! requests in progress and the tracks seen.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::EventWriter;
use super::proto::{self, Message};
use super::timeline::{Counter, End, Sink, Span, Tasks, Timeline, Track};
use crate::event::{DeviceNumber, TraceEvent};
use crate::names::Names;
use crate::recorded::Recorded;

/// Field numbers of the messages used here.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PARENT: u32 = 5;
    pub(super) const TRACK_COUNTER: u32 = 8;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_NAME: u32 = 23;
    pub(super) const EVENT_COUNTER_VALUE: u32 = 30;
    pub(super) const ANNOTATION_UINT: u32 = 3;
    pub(super) const ANNOTATION_STRING: u32 = 6;
    pub(super) const ANNOTATION_NAME: u32 = 10;
}

const TYPE_BEGIN: u64 = 1;
const TYPE_END: u64 = 2;
const TYPE_INSTANT: u64 = 3;
const TYPE_COUNTER: u64 = 4;
/// All packets are of one writer.
const SEQUENCE: u64 = 1;
const SEQUENCE_BEGINS: u64 = 1;

/// Ids of tracks by kind, with space between them; those of a device are added to its first.
const DEVICE_UUID: u64 = 1;
const WAITING_UUID: u64 = 2;
const UNTAGGED_UUID: u64 = 3;
const IO_UUID: u64 = 4;
const COUNTER_UUID: u64 = 16;
const QUEUE_UUID: u64 = 1 << 20;
/// Tracks of the lanes of a group are below this, by the group's own id.
const LANES: u32 = 32;
const TAG_UUID: u64 = 1 << 40;
/// Ids of a device are those of its number above this bit.
const DEVICES: u32 = 52;

/// Writes the packets.
pub(crate) struct TimelineWriter<W: Write> {
    timeline: Timeline,
    packets: Packets<W>,
}

struct Packets<W: Write> {
    out: W,
    tasks: Tasks,
    /// True if a packet was written: the first one begins the sequence.
    has_begun: bool,
    described: BTreeSet<u64>,
    packet: Message,
    inner: Message,
    annotation: Message,
}

impl<W: Write> TimelineWriter<W> {
    /// Describes the device's tracks. If the device is unknown, that of the first event is used.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn new(out: W, device: Option<DeviceNumber>) -> io::Result<Self> {
        let mut packets = Packets {
            out,
            tasks: Tasks::default(),
            has_begun: false,
            described: BTreeSet::new(),
            packet: Message::default(),
            inner: Message::default(),
            annotation: Message::default(),
        };
        let mut timeline = Timeline::default();
        if device.is_some() {
            timeline.begin(device, &mut packets)?;
        }
        Ok(Self { timeline, packets })
    }

    /// Adds one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        self.packets.tasks.learn(event, names);
        self.timeline.event(event, &mut self.packets)
    }

    /// Ends the requests in flight, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.timeline.finish(&mut self.packets)?;
        self.packets.out.flush()?;
        Ok(self.packets.out)
    }
}

impl<W: Write> EventWriter for TimelineWriter<W> {
    /// An instant on the device's track, with a note as each of its arguments.
    fn recorded(&mut self, recorded: &Recorded, first: &TraceEvent) -> io::Result<()> {
        self.timeline.begin(first.device, &mut self.packets)?;
        self.packets.begin(TYPE_INSTANT, DEVICE_UUID);
        self.packets.inner.bytes(field::EVENT_NAME, b"recorded");
        for (key, value) in recorded.iter() {
            self.packets.annotate_text(key, value);
        }
        self.packets.emit_event(first.time.unwrap_or(0))
    }

    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}

impl<W: Write> Packets<W> {
    /// Describes a track, if that has not been done.
    fn describe(&mut self, uuid: u64, parent: u64, name: &str, counter: bool) -> io::Result<()> {
        if !self.described.insert(uuid) {
            return Ok(());
        }
        self.inner.clear();
        self.inner.number(field::TRACK_UUID, uuid);
        if parent != 0 {
            self.inner.number(field::TRACK_PARENT, parent);
        }
        self.inner.bytes(field::TRACK_NAME, name.as_bytes());
        if counter {
            self.inner.bytes(field::TRACK_COUNTER, &[]);
        }
        self.packet.bytes(field::PACKET_TRACK_DESCRIPTOR, self.inner.as_bytes());
        self.emit()
    }

    /// Returns the track of a span, which is described first if it is new.
    fn track(&mut self, device: u32, track: Track) -> io::Result<u64> {
        let first = u64::from(device) << DEVICES;
        let (group, group_name, uuid, name) = match track {
            Track::Service(queue, tag) => {
                let uuid = TAG_UUID + (u64::from(queue) << 32) + u64::from(tag);
                (
                    QUEUE_UUID + u64::from(queue),
                    format!("hctx{queue}"),
                    uuid,
                    format!("hctx{queue} tag {tag}"),
                )
            }
            Track::Untagged(lane) => lane_of(UNTAGGED_UUID, "in service", lane),
            Track::Wait(lane) => lane_of(WAITING_UUID, "waiting", lane),
            Track::Io(lane) => lane_of(IO_UUID, "I/O", lane),
        };
        if !self.described.contains(&(first + uuid)) {
            self.describe(first + group, first + DEVICE_UUID, &group_name, false)?;
            self.describe(first + uuid, first + group, &name, false)?;
        }
        Ok(first + uuid)
    }

    fn annotate(&mut self, name: &str, put: impl FnOnce(&mut Message)) {
        self.annotation.clear();
        self.annotation.bytes(field::ANNOTATION_NAME, name.as_bytes());
        put(&mut self.annotation);
        self.inner.bytes(field::EVENT_ANNOTATION, self.annotation.as_bytes());
    }
    fn annotate_number(&mut self, name: &str, value: u64) {
        self.annotate(name, |message| message.number(field::ANNOTATION_UINT, value));
    }
    fn annotate_text(&mut self, name: &str, value: &str) {
        self.annotate(name, |message| message.bytes(field::ANNOTATION_STRING, value.as_bytes()));
    }

    /// Starts a track event in `inner`.
    fn begin(&mut self, kind: u64, track: u64) {
        self.inner.clear();
        self.inner.number(field::EVENT_TYPE, kind);
        self.inner.number(field::EVENT_TRACK, track);
    }

    fn emit_event(&mut self, at: u64) -> io::Result<()> {
        self.packet.number(field::PACKET_TIMESTAMP, at);
        self.packet.bytes(field::PACKET_TRACK_EVENT, self.inner.as_bytes());
        self.emit()
    }

    fn emit(&mut self) -> io::Result<()> {
        self.packet.number(field::PACKET_SEQUENCE_ID, SEQUENCE);
        proto::write_field(&mut self.out, field::TRACE_PACKET, self.packet.as_bytes())?;
        self.packet.clear();
        Ok(())
    }
}

/// Returns id and name of a group of lanes, and of one of its lanes.
fn lane_of(group: u64, name: &str, lane: u32) -> (u64, String, u64, String) {
    (group, name.to_owned(), (group << LANES) + u64::from(lane), format!("{name} {lane}"))
}

impl<W: Write> Sink for Packets<W> {
    fn device(&mut self, number: u32, device: DeviceNumber) -> io::Result<()> {
        let first = u64::from(number) << DEVICES;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.packet.number(field::PACKET_SEQUENCE_FLAGS, SEQUENCE_BEGINS);
        }
        self.describe(first + DEVICE_UUID, 0, &format!("device {device}"), false)?;
        for counter in Counter::ALL {
            self.describe(
                first + COUNTER_UUID + counter as u64,
                first + DEVICE_UUID,
                counter.name(),
                true,
            )?;
        }
        Ok(())
    }

    fn span(
        &mut self,
        device: u32,
        track: Track,
        span: &Span,
        until: u64,
        end: End,
    ) -> io::Result<()> {
        let track = self.track(device, track)?;
        self.begin(TYPE_BEGIN, track);
        self.inner.bytes(field::EVENT_NAME, span.name().as_bytes());
        self.annotate_number("sector", span.sector);
        self.annotate_number("sectors", span.sectors);
        let task = self.tasks.name(span).to_owned();
        self.annotate_text("task", &task);
        let prio = format!("{},{}", span.ioprio.class().name(), span.ioprio.level());
        self.annotate_text("ioprio", &prio);
        self.annotate_text("end", &end.name());
        self.emit_event(span.start)?;
        self.begin(TYPE_END, track);
        self.emit_event(until)
    }

    fn counter(&mut self, device: u32, counter: Counter, at: u64, value: u64) -> io::Result<()> {
        self.begin(TYPE_COUNTER, (u64::from(device) << DEVICES) + COUNTER_UUID + counter as u64);
        self.inner.number(field::EVENT_COUNTER_VALUE, value);
        self.emit_event(at)
    }
}

#[cfg(test)]
mod tests;
