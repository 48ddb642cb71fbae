//! Parses one ftrace event of a Perfetto trace.

use elevon_core::ioprio::IoPrio;

use super::super::hardware::{Command, Ufs};
use super::described::{Described, FIRST_DESCRIBED_FIELD};
use super::wire::{Fields, NoMessage, Value};
use crate::event::{DeviceNumber, SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::{TraceOp, parse_rwbs};

/// Field numbers of `FtraceEvent` that are used in addition to the block events.
pub(super) const TIMESTAMP: u32 = 1;
pub(super) const PID: u32 = 2;
pub(super) const SCHED_SWITCH: u32 = 4;

/// The field numbers in an event's message; 0 for a field that the event does not have.
pub(super) struct Layout {
    kind: TraceKind,
    bytes: u32,
    letters: u32,
    comm: u32,
    errors: [u32; 2],
    ioprio: u32,
    command: u32,
}

const BIO: Layout = Layout {
    kind: TraceKind::Queue,
    bytes: 0,
    letters: 4,
    comm: 5,
    errors: [0, 0],
    ioprio: 0,
    command: 0,
};
const REQUEST: Layout = Layout {
    kind: TraceKind::Issue,
    bytes: 4,
    letters: 5,
    comm: 6,
    errors: [0, 0],
    ioprio: 0,
    command: 7,
};
const REQUEST_END: Layout = Layout {
    kind: TraceKind::Complete,
    bytes: 0,
    letters: 5,
    comm: 0,
    errors: [4, 7],
    ioprio: 0,
    command: 6,
};
const ACCOUNT: Layout = Layout {
    kind: TraceKind::IoStart,
    bytes: 4,
    letters: 6,
    comm: 7,
    errors: [0, 0],
    ioprio: 5,
    command: 8,
};
const NOWHERE: DeviceNumber = DeviceNumber::new(0, 0);

/// Returns the layout of a block event's message by the field of `FtraceEvent` that contains it.
const fn layout(field: u32) -> Option<Layout> {
    Some(match field {
        45 => REQUEST,
        126 => Layout { kind: TraceKind::Insert, ..REQUEST },
        125 => REQUEST_END,
        129 => Layout { kind: TraceKind::Requeue, ..REQUEST_END },
        115 => Layout { kind: TraceKind::BackMerge, ..BIO },
        116 => Layout { kind: TraceKind::Bounce, ..BIO },
        118 => Layout { kind: TraceKind::FrontMerge, ..BIO },
        119 => BIO,
        122 => Layout { kind: TraceKind::GetRequest, ..BIO },
        130 => Layout { kind: TraceKind::SleepRequest, ..BIO },
        117 => Layout { kind: TraceKind::BioComplete, letters: 5, comm: 0, errors: [4, 0], ..BIO },
        120 => Layout {
            kind: TraceKind::Remap { from: NOWHERE, from_sector: 0 },
            letters: 6,
            comm: 0,
            ..BIO
        },
        128 => Layout {
            kind: TraceKind::RequestRemap { from: NOWHERE, from_sector: 0 },
            letters: 7,
            comm: 0,
            ..BIO
        },
        131 => Layout { kind: TraceKind::Split { new_sector: 0 }, ..BIO },
        123 => Layout { kind: TraceKind::Plug, letters: 0, comm: 1, ..BIO },
        133 => Layout {
            kind: TraceKind::Unplug { requests: 0, timer: None },
            letters: 0,
            comm: 2,
            ..BIO
        },
        546 => ACCOUNT,
        547 => Layout { kind: TraceKind::IoDone, ..ACCOUNT },
        _ => return None,
    })
}

/// Field of `FtraceEvent` with an event for which Perfetto has no message: its name, and the names
/// and values of its fields. <https://perfetto.dev/docs/reference/trace-packet-proto>
const GENERIC_EVENT: u32 = 327;
/// Number that the field `error` of such an event gets here.
const GENERIC_ERROR: u32 = 9;

/// Field of `FtraceEvent` with `ufshcd_command`.
const UFS: u32 = 406;

/// Returns the command of a UFS driver in a field of `FtraceEvent`; `None` for another event, and
/// for a step that is neither of the ends of a command.
#[inline]
pub(super) fn command(field: u32, message: &[u8]) -> Result<Option<Command<'_>>, &'static str> {
    if field != UFS {
        return Ok(None);
    }
    let mut ufs = Ufs::default();
    for field in Fields::of(message) {
        let (number, value) = field.map_err(|NoMessage| DAMAGED)?;
        match number {
            1 => ufs.device = value.bytes(),
            4 => ufs.block = Some(value.number()),
            5 => ufs.opcode = value.number(),
            6 => ufs.step = value.bytes(),
            7 => ufs.tag = Some(value.number()),
            8 => ufs.bytes = Some(value.number()),
            // Newer kernels number the steps.
            10 => {
                ufs.step = [&b"send_req"[..], b"complete_rsp"]
                    .get(value.number() as usize)
                    .copied()
                    .unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(ufs.command())
}

/// Why an event is skipped.
pub(super) const DAMAGED: &str = "a whole event";

/// Returns the block event in a field of `FtraceEvent`, with its thread's name; `None` for another
/// event.
#[inline]
pub(super) fn block_event<'a>(
    field: u32,
    message: &'a [u8],
    described: &Described,
) -> Result<Option<(TraceEvent, &'a [u8])>, &'static str> {
    // Nearly all other events of a trace are of the scheduler, whose field numbers are small.
    if field >= FIRST_DESCRIBED_FIELD {
        let Some(of) = described.event(field) else { return Ok(None) };
        let mut event = TraceEvent::new(of.layout.kind);
        let comm = placed(&mut event, &of.layout, of.fields(message));
        return comm.map(|comm| Some((event, comm))).map_err(|NoMessage| DAMAGED);
    }
    if !matches!(field, 45 | 115..=133 | GENERIC_EVENT | 546 | 547) {
        return Ok(None);
    }
    let is_generic = field == GENERIC_EVENT;
    let layout = if is_generic { generic_layout(message) } else { layout(field) };
    let Some(layout) = layout else { return Ok(None) };
    let mut event = TraceEvent::new(layout.kind);
    let comm = if matches!(layout.kind, TraceKind::Plug | TraceKind::Unplug { .. }) {
        plug(&mut event, &layout, message)
    } else if is_generic {
        placed(&mut event, &layout, generic_fields(message))
    } else {
        placed(&mut event, &layout, Fields::of(message))
    };
    comm.map(|comm| Some((event, comm))).map_err(|NoMessage| DAMAGED)
}

fn plug<'a>(
    event: &mut TraceEvent,
    layout: &Layout,
    message: &'a [u8],
) -> Result<&'a [u8], NoMessage> {
    let mut comm = &b""[..];
    for field in Fields::of(message) {
        let (number, value) = field?;
        if number == layout.comm {
            comm = value.bytes();
        } else if number == 1 {
            event.kind = TraceKind::Unplug { requests: value.number() as u32, timer: None };
        }
    }
    Ok(comm)
}

/// Returns the layout of an event for which Perfetto has no message, by its name.
fn generic_layout(message: &[u8]) -> Option<Layout> {
    let name = Fields::of(message).map_while(Result::ok).find(|(number, _)| *number == 1)?.1;
    named_layout(name.bytes())
}

/// Returns the layout of an event for which Perfetto has no message, by its name; the numbers of
/// fields are those of [`generic_number`].
pub(super) fn named_layout(name: &[u8]) -> Option<Layout> {
    let kind = match name {
        b"block_rq_merge" => TraceKind::RequestMerge,
        b"block_rq_error" => TraceKind::RequestError,
        b"block_io_start" => TraceKind::IoStart,
        b"block_io_done" => TraceKind::IoDone,
        _ => return None,
    };
    Some(Layout { kind, errors: [GENERIC_ERROR, 0], ..ACCOUNT })
}

/// Returns the number in [`ACCOUNT`] of a field with this name.
pub(super) fn generic_number(name: &[u8]) -> u32 {
    match name {
        b"dev" => 1,
        b"sector" => 2,
        b"nr_sector" => 3,
        b"bytes" => ACCOUNT.bytes,
        b"ioprio" => ACCOUNT.ioprio,
        b"rwbs" => ACCOUNT.letters,
        b"comm" => ACCOUNT.comm,
        b"cmd" => ACCOUNT.command,
        b"error" => GENERIC_ERROR,
        _ => u32::MAX,
    }
}

/// Yields the fields of a generic event, which has their names, by their numbers in [`ACCOUNT`].
fn generic_fields(message: &[u8]) -> impl Iterator<Item = Result<(u32, Value<'_>), NoMessage>> {
    Fields::of(message).filter(|field| !matches!(field, Ok((1, _)))).map(|field| {
        let (mut name, mut value) = (&b""[..], Value::Number(0));
        for field in Fields::of(field?.1.bytes()) {
            match field? {
                (1, text) => name = text.bytes(),
                (3..=5, content) => value = content,
                _ => {}
            }
        }
        Ok((generic_number(name), value))
    })
}

fn placed<'a>(
    event: &mut TraceEvent,
    layout: &Layout,
    fields: impl Iterator<Item = Result<(u32, Value<'a>), NoMessage>>,
) -> Result<&'a [u8], NoMessage> {
    let mut comm = &b""[..];
    let mut third = None;
    let (mut has_command, mut bytes) = (false, 0);
    for field in fields {
        let (number, value) = field?;
        match number {
            1 => event.device = Some(DeviceNumber::from_user(value.number())),
            2 => event.sector = Some(value.number()).filter(|&sector| sector != u64::MAX),
            3 => third = Some(value.number()),
            _ if number == layout.letters => {
                if let Some((op, flags)) = parse_rwbs(value.bytes()) {
                    (event.op, event.flags) = (Some(op), Some(flags));
                }
            }
            _ if number == layout.comm => comm = value.bytes(),
            _ if number == layout.bytes => bytes = value.number(),
            _ if number == layout.ioprio => event.ioprio = IoPrio::from_bits(value.number() as u16),
            _ if number == layout.command => has_command = !value.bytes().is_empty(),
            _ if layout.errors.contains(&number) => event.error = Some(value.number() as i32),
            _ => origin(&mut event.kind, number, value),
        }
    }
    if let TraceKind::Split { .. } = event.kind {
        // Kernels record the remainder's sector in 32 bits, which is enough for the length of the
        // front part.
        let sector = event.sector.unwrap_or(0);
        let front = (third.unwrap_or(0) as u32).wrapping_sub(sector as u32);
        event.kind = TraceKind::Split { new_sector: sector.wrapping_add(u64::from(front)) };
        event.bytes = Some(u64::from(front) * SECTOR_SIZE);
    } else {
        event.bytes = third.map(|sectors| (sectors & 0xffff_ffff) * SECTOR_SIZE);
    }
    // Old kernels record 0 unless the request is passthrough.
    if bytes > 0 {
        if event.op == Some(TraceOp::Other) && (has_command || event.bytes != Some(bytes)) {
            event.op = Some(TraceOp::Passthrough);
        }
        event.bytes = Some(bytes);
    }
    if matches!(
        layout.kind,
        TraceKind::Insert | TraceKind::Issue | TraceKind::Complete | TraceKind::Requeue
    ) {
        event.find_passthrough();
    }
    Ok(comm)
}

/// Reads the device and sector from which a bio or request was remapped.
fn origin(kind: &mut TraceKind, number: u32, value: Value<'_>) {
    if let TraceKind::Remap { from, from_sector } | TraceKind::RequestRemap { from, from_sector } =
        kind
    {
        match number {
            4 => *from = DeviceNumber::from_user(value.number()),
            5 => *from_sector = value.number(),
            _ => {}
        }
    }
}
