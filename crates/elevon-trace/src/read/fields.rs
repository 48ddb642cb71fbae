//! Parses an event that is printed field by field: `dev=8388608 sector=2048 nr_sector=8 rwbs=R
//! comm=dd`, or `dev = 8388608, sector = 2048, nr_sector = 8, rwbs = 4, comm = "dd"`.
//!
//! The second form is babeltrace's of LTTng's events. `trace-cmd report -R` prints events in the
//! first, and the kernel with its option `fields`, numbers twice: `sector=0x800 (2048)`. Both
//! trace-cmd and perf do it with events whose format they cannot interpret, after `[FAILED TO
//! PARSE]`. The fields and their order are those of the kernel's `events/block/*/format`.

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;

use super::cursor::{Expected, whole_number, whole_signed};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::{TraceOp, parse_rwbs};

/// Number of minor numbers of a major one in the kernel's own device numbers.
const MINOR_BITS: u32 = 20;

/// Words of a text that are looked at.
const MAX_WORDS: usize = 64;

/// The fields of an event as text; of one that is absent, `None`.
#[derive(Default)]
pub(super) struct Fields<'a> {
    dev: Option<&'a [u8]>,
    sector: Option<&'a [u8]>,
    nr_sector: Option<&'a [u8]>,
    bytes: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    ioprio: Option<&'a [u8]>,
    rwbs: Option<&'a [u8]>,
    comm: Option<&'a [u8]>,
    cmd: Option<&'a [u8]>,
    new_sector: Option<&'a [u8]>,
    old_dev: Option<&'a [u8]>,
    old_sector: Option<&'a [u8]>,
    nr_rq: Option<&'a [u8]>,
    /// Thread and process, which LTTng prints among the fields.
    pub(super) tid: Option<&'a [u8]>,
    pub(super) pid: Option<&'a [u8]>,
    pub(super) cpu: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Returns the fields of a text in the form of trace-cmd.
    fn of(text: &'a [u8]) -> Self {
        let mut fields = Self::default();
        // A word without a name goes on with the value before: a task's name may have blanks.
        let mut open: Option<(&[u8], usize)> = None;
        let starts = memchr::memchr_iter(b' ', text).map(|blank| blank + 1);
        for start in std::iter::once(0).chain(starts).take(MAX_WORDS) {
            let word = &text[start..];
            let length = word
                .iter()
                .position(|byte| !byte.is_ascii_lowercase() && *byte != b'_')
                .unwrap_or(word.len());
            if length == 0 || word.get(length) != Some(&b'=') {
                continue;
            }
            if let Some((name, from)) = open.replace((&word[..length], start + length + 1)) {
                fields.set(name, &text[from..start]);
            }
        }
        if let Some((name, from)) = open {
            fields.set(name, &text[from..]);
        }
        fields
    }

    /// Returns the fields of a text in the form of babeltrace: groups in braces.
    pub(super) fn of_groups(text: &'a [u8]) -> Self {
        const EQUALS: &[u8] = b" = ";
        let mut fields = Self::default();
        let mut rest = text;
        for _ in 0..MAX_WORDS {
            let Some(at) = memchr::memmem::find(rest, EQUALS) else { break };
            let name = rest[..at]
                .rsplit(|byte| matches!(byte, b' ' | b'{' | b','))
                .next()
                .unwrap_or_default();
            let value = &rest[at + EQUALS.len()..];
            let end = match value.first() {
                // A name in quotes may have commas, braces and escaped quotes.
                Some(b'"') => {
                    let ends = memchr::memchr_iter(b'"', &value[1..]);
                    ends.map(|end| end + 1)
                        .find(|&end| value[end - 1] != b'\\')
                        .unwrap_or(value.len())
                }
                Some(b'[') => memchr::memchr(b']', value).unwrap_or(value.len()),
                _ => value
                    .iter()
                    .position(|byte| matches!(byte, b',' | b' ' | b'}'))
                    .unwrap_or(value.len()),
            };
            let content = &value[..end];
            let inside = content.strip_prefix(b"\"").or_else(|| content.strip_prefix(b"["));
            fields.set(name, inside.unwrap_or(content));
            rest = &value[end..];
        }
        fields
    }

    fn set(&mut self, name: &[u8], value: &'a [u8]) {
        let field = match name {
            b"dev" => &mut self.dev,
            b"sector" => &mut self.sector,
            b"nr_sector" => &mut self.nr_sector,
            b"bytes" => &mut self.bytes,
            b"error" | b"errors" => &mut self.error,
            b"ioprio" => &mut self.ioprio,
            b"rwbs" => &mut self.rwbs,
            b"comm" | b"procname" => &mut self.comm,
            b"tid" | b"vtid" => &mut self.tid,
            b"pid" | b"vpid" => &mut self.pid,
            b"cpu_id" => &mut self.cpu,
            b"cmd" => &mut self.cmd,
            b"new_sector" => &mut self.new_sector,
            b"old_dev" => &mut self.old_dev,
            b"old_sector" => &mut self.old_sector,
            b"nr_rq" => &mut self.nr_rq,
            _ => return,
        };
        // trace-cmd separates fields by commas in some versions.
        let value = value.trim_ascii();
        *field = Some(decimal(value.strip_suffix(b",").unwrap_or(value)));
    }
}

/// Returns the `-5` of `0xfffffffb (-5)`, as the kernel's option `fields` prints numbers; other
/// values as they are.
fn decimal(value: &[u8]) -> &[u8] {
    let inside = value.strip_prefix(b"0x").and_then(|rest| rest.strip_suffix(b")"));
    inside.and_then(|rest| Some(&rest[memchr::memmem::find(rest, b" (")? + 2..])).unwrap_or(value)
}

/// Returns a number, which may be hexadecimal. One with a sign, as the -1 that is no sector, is
/// that of 64 bits.
fn number(text: Option<&[u8]>, expected: Expected) -> Result<u64, Expected> {
    let text = text.ok_or(expected)?;
    match text.strip_prefix(b"0x") {
        None => whole_number(text).or_else(|| Some(whole_signed(text)? as u64)).ok_or(expected),
        Some(digits) => hexadecimal(digits).ok_or(expected),
    }
}

/// Returns a hexadecimal number without a sign or mark.
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

/// Returns the device of a number as the kernel keeps it.
fn device(text: Option<&[u8]>) -> Result<DeviceNumber, Expected> {
    let number = number(text, "a number after dev=")?;
    let major = u32::try_from(number >> MINOR_BITS).map_err(|_| "a number after dev=")?;
    Ok(DeviceNumber::new(major, (number & ((1 << MINOR_BITS) - 1)) as u32))
}

/// Returns true if the event-specific part of a line has this form.
#[inline]
pub(super) fn is_fields(tail: &[u8]) -> bool {
    let tail = tail.trim_ascii_start();
    [&b"dev="[..], b"nr_rq=", b"comm=", b"[FAILED TO PARSE]"]
        .into_iter()
        .any(|start| tail.starts_with(start))
}

/// Returns the kind of an event; `None` if it is not of a request or bio.
fn kind_of(name: &[u8], fields: &Fields<'_>) -> Result<Option<TraceKind>, Expected> {
    let old_sector = || number(fields.old_sector, "a number after old_sector=");
    Ok(Some(match name {
        b"block_bio_queue" => TraceKind::Queue,
        b"block_getrq" => TraceKind::GetRequest,
        b"block_bio_backmerge" => TraceKind::BackMerge,
        b"block_bio_frontmerge" => TraceKind::FrontMerge,
        b"block_rq_issue" => TraceKind::Issue,
        b"block_rq_insert" => TraceKind::Insert,
        b"block_rq_merge" => TraceKind::RequestMerge,
        b"block_io_start" => TraceKind::IoStart,
        b"block_io_done" => TraceKind::IoDone,
        b"block_rq_complete" => TraceKind::Complete,
        b"block_rq_requeue" => TraceKind::Requeue,
        b"block_rq_error" => TraceKind::RequestError,
        b"block_bio_complete" => TraceKind::BioComplete,
        b"block_split" => TraceKind::Split {
            new_sector: number(fields.new_sector, "a number after new_sector=")?,
        },
        b"block_bio_remap" => {
            TraceKind::Remap { from: device(fields.old_dev)?, from_sector: old_sector()? }
        }
        b"block_rq_remap" => {
            TraceKind::RequestRemap { from: device(fields.old_dev)?, from_sector: old_sector()? }
        }
        b"block_plug" => TraceKind::Plug,
        b"block_unplug" => {
            let requests = number(fields.nr_rq, "a number after nr_rq=")?;
            TraceKind::Unplug {
                requests: u32::try_from(requests).map_err(|_| "a number of requests")?,
                timer: None,
            }
        }
        _ => return Ok(None),
    }))
}

/// Operation and flags of letters, or of the bits that LTTng has in place of letters.
fn operation(rwbs: &[u8]) -> Option<(TraceOp, Flags)> {
    const OPERATIONS: [(u64, TraceOp); 5] = [
        (1 << 1 | 1 << 7, TraceOp::SecureErase),
        (1 << 1, TraceOp::Discard),
        (1 << 0, TraceOp::Write),
        (1 << 2, TraceOp::Read),
        (1 << 8, TraceOp::Flush),
    ];
    const FLAGS: [(u64, Flags); 6] = [
        (1 << 3, Flags::RAHEAD),
        // A barrier of old kernels empties the cache before the write.
        (1 << 4, Flags::PREFLUSH),
        (1 << 5, Flags::SYNC),
        (1 << 6, Flags::META),
        (1 << 9, Flags::FUA),
        (1 << 10, Flags::PREFLUSH),
    ];
    let Some(bits) = whole_number(rwbs) else { return parse_rwbs(rwbs) };
    let op = OPERATIONS
        .iter()
        .find(|(mask, _)| bits & mask == *mask)
        .map_or(TraceOp::Other, |&(_, op)| op);
    let mut flags = Flags::NONE;
    for (_, flag) in FLAGS.iter().filter(|(mask, _)| bits & mask != 0) {
        flags |= *flag;
    }
    Some((op, flags))
}

/// An event of these fields, with the name of its thread.
pub(super) type Found<'a> = (TraceEvent, Option<&'a [u8]>);

/// Parses the event-specific part of a line in the form of trace-cmd; `None` for an event that is
/// not of a request or bio.
pub(super) fn parse<'a>(name: &[u8], tail: &'a [u8]) -> Result<Option<Found<'a>>, Expected> {
    Fields::of(tail).event(name)
}

impl<'a> Fields<'a> {
    /// Returns the event with a name that has these fields; `None` for an event that is not of a
    /// request or bio.
    pub(super) fn event(&self, name: &[u8]) -> Result<Option<Found<'a>>, Expected> {
        let Some(kind) = kind_of(name, self)? else { return Ok(None) };
        let mut event = TraceEvent::new(kind);
        if matches!(kind, TraceKind::Plug | TraceKind::Unplug { .. }) {
            return Ok(Some((event, self.comm)));
        }
        event.device = Some(device(self.dev)?);
        let (op, flags) =
            self.rwbs.and_then(operation).ok_or("letters of an operation after rwbs=")?;
        (event.op, event.flags) = (Some(op), Some(flags));
        let sector = number(self.sector, "a number after sector=")?;
        // A flush has no sector, which is -1.
        event.sector = (sector != u64::MAX).then_some(sector);
        let sectors = match kind {
            TraceKind::Split { new_sector } => (new_sector as u32).wrapping_sub(sector as u32),
            _ => number(self.nr_sector, "a number after nr_sector=")? as u32,
        };
        event.bytes = Some(u64::from(sectors) * SECTOR_SIZE);
        if op == TraceOp::Other && self.cmd.is_some_and(|cmd| !cmd.trim_ascii().is_empty()) {
            event.op = Some(TraceOp::Passthrough);
            event.bytes = self.bytes.and_then(whole_number).or(event.bytes);
        }
        event.ioprio =
            self.ioprio.and_then(whole_number).and_then(|bits| IoPrio::from_bits(bits as u16));
        event.error = self.error.and_then(whole_signed).and_then(|error| i32::try_from(error).ok());
        Ok(Some((event, self.comm)))
    }
}
