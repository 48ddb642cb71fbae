//! Checkers of commands and completions between stack and device.

use std::collections::BTreeMap;

use elevon_core::driver::{Command, Completion, Piece};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::Op;
use elevon_core::split::max_sectors_at;
use elevon_core::units::{Bytes, SECTOR_SIZE};
use elevon_formats::fio::spec::SyncMode;

use super::{CheckResult, Checker, Finding, Issued, World, ensure};

/// Every command is answered exactly once, by a completion or an abort.
#[derive(Default)]
pub(super) struct Once {
    in_flight: BTreeMap<u32, Command>,
}

impl Checker for Once {
    fn on_command(&mut self, _: &World, issued: &Issued) -> CheckResult {
        let command = issued.command;
        let before = self.in_flight.insert(command.request.0, command);
        ensure(before.is_none(), || format!("{command:?} is sent while {before:?} is in flight"))
    }

    fn on_completion(&mut self, _: &World, completion: &Completion) -> CheckResult {
        let Some(command) = self.in_flight.get_mut(&completion.request.0) else {
            return Err(Finding(format!("{completion:?} answers no command in flight")));
        };
        ensure(completion.bytes <= command.bytes, || format!("{completion:?} of {command:?}"))?;
        if completion.status.is_ok() && completion.bytes < command.bytes {
            command.bytes -= completion.bytes;
        } else {
            self.in_flight.remove(&completion.request.0);
        }
        Ok(())
    }

    fn on_abort(&mut self, _: &World, command: &Command) -> CheckResult {
        let known = self.in_flight.remove(&command.request.0);
        ensure(known.is_some_and(|k| k.sequence == command.sequence), || {
            format!("{command:?} aborted for {known:?}")
        })
    }

    fn on_idle(&mut self, _: &World) -> CheckResult {
        ensure(self.in_flight.is_empty(), || format!("never answered: {:?}", self.in_flight))
    }
}

/// No tag is used twice at the same time, none is out of range, and sequence numbers have no gaps.
#[derive(Default)]
pub(super) struct Tags {
    holders: BTreeMap<(u16, u32), u32>,
    tags: BTreeMap<u32, (u16, u32)>,
    next: u64,
}

impl Tags {
    fn free(&mut self, request: u32) {
        if let Some(tag) = self.tags.remove(&request) {
            self.holders.remove(&tag);
        }
    }
}

impl Checker for Tags {
    fn on_command(&mut self, world: &World, issued: &Issued) -> CheckResult {
        let command = &issued.command;
        let tag = (command.queue.0, command.tag.0);
        let other = self.holders.insert(tag, command.request.0);
        self.tags.insert(command.request.0, tag);
        ensure(other.is_none(), || format!("{command:?}: its tag is held by request {other:?}"))?;
        ensure(tag.1 < world.tags, || format!("{command:?}: there are {} tags", world.tags))?;
        let expected = std::mem::replace(&mut self.next, command.sequence + 1);
        ensure(command.sequence == expected, || {
            format!("{command:?}: expected sequence {expected}")
        })
    }
    fn on_completion(&mut self, _: &World, completion: &Completion) -> CheckResult {
        // A partial completion would keep the tag, but no device of the swarm makes one.
        self.free(completion.request.0);
        Ok(())
    }
    fn on_abort(&mut self, _: &World, command: &Command) -> CheckResult {
        self.free(command.request.0);
        Ok(())
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        ensure(self.holders.is_empty(), || format!("tags still held: {:?}", self.holders))
    }
}

/// Returns true for a discard of several ranges. On a device that accepts these, adjacent pieces
/// are still joined.
fn has_ranges(world: &World, issued: &Issued) -> bool {
    issued.command.op == Op::Discard
        && world.limits.max_discard_segments > 1
        && issued.pieces.len() > 1
}

/// The pieces of a command add up to its bytes, each is one range of one call, and no byte of a
/// call is in flight twice.
#[derive(Default)]
pub(super) struct Pieces {
    /// Parts in flight by task and token.
    calls: BTreeMap<(u32, u64), Vec<Part>>,
}

/// A part of a call in flight: request, first byte, bytes, and device offset minus buffer offset.
type Part = (u32, u64, u64, i128);

impl Pieces {
    fn over(&mut self, request: u32) {
        self.calls.values_mut().for_each(|parts| parts.retain(|part| part.0 != request));
        self.calls.retain(|_, parts| !parts.is_empty());
    }
}

impl Checker for Pieces {
    fn on_command(&mut self, world: &World, issued: &Issued) -> CheckResult {
        let command = &issued.command;
        if command.op == Op::Flush {
            return ensure(issued.pieces.is_empty() && command.bytes.is_zero(), || {
                format!("{issued:?} moves data")
            });
        }
        let bytes: u64 = issued.pieces.iter().map(|piece| piece.len).sum();
        ensure(bytes == command.bytes.get(), || {
            format!("{command:?} has pieces of {bytes} bytes")
        })?;
        // The ranges of a discard of several ranges need not be adjacent.
        let is_one_range = !has_ranges(world, issued);
        let mut at = command.sector;
        for &Piece { task, token, offset, len, sector } in &issued.pieces {
            ensure(sector == at || !is_one_range, || {
                format!("{command:?}: a piece lies at {sector:?}, not at {at:?}")
            })?;
            at = sector + Bytes::new(len).sectors_floor();
            let base = i128::from(sector.byte_offset().get()) - i128::from(offset);
            let parts = self.calls.entry((task.0, token)).or_default();
            for &(other, start, length, place) in parts.iter() {
                let apart = start + length <= offset || offset + len <= start;
                ensure(apart, || {
                    format!(
                        "byte {offset} of {task:?}/{token} is in flight in request {other} already"
                    )
                })?;
                ensure(place == base, || {
                    format!(
                        "{task:?}/{token} goes to two places: {place} and {base}, by {command:?}"
                    )
                })?;
            }
            parts.push((command.request.0, offset, len, base));
        }
        Ok(())
    }
    fn on_completion(&mut self, _: &World, completion: &Completion) -> CheckResult {
        self.over(completion.request.0);
        Ok(())
    }
    fn on_abort(&mut self, _: &World, command: &Command) -> CheckResult {
        self.over(command.request.0);
        Ok(())
    }
}

/// Every command is within the queue limits. Segments are counted sector by sector, unlike in the
/// stack.
pub(super) struct Limits;

impl Checker for Limits {
    fn on_command(&mut self, world: &World, issued: &Issued) -> CheckResult {
        let (command, limits) = (&issued.command, &world.limits);
        let wrong = |what: &str| format!("{command:?}: {what}; {limits:?}");
        if command.op == Op::Flush {
            return ensure(limits.write_cache, || wrong("a flush for a device without a cache"));
        }
        let block = u64::from(limits.logical_block_size);
        let end = command.sector.get() + command.bytes.sectors_ceil().get();
        ensure(!command.bytes.is_zero() && command.bytes.get().is_multiple_of(block), || {
            wrong("odd length")
        })?;
        ensure(command.sector.byte_offset().get().is_multiple_of(block), || wrong("odd place"))?;
        if has_ranges(world, issued) {
            return ensure(issued.pieces.len() <= usize::from(limits.max_discard_segments), || {
                wrong("too many ranges")
            });
        }
        ensure(end <= world.size_sectors, || wrong("past the end"))?;
        let most = max_sectors_at(command.op, command.flags, command.sector, limits);
        ensure(command.bytes <= most.bytes(), || wrong("too large, or across a chunk"))?;
        if !command.op.has_data() {
            return Ok(());
        }
        let (mut segments, mut previous_end) = (0, None);
        for piece in &issued.pieces {
            let Some(layout) = world.layouts.get(&(piece.task.0, piece.token)) else {
                return Err(Finding(wrong("a piece of no buffer")));
            };
            let start = layout.physical(piece.offset);
            if let Some(previous) = previous_end {
                let gap = (previous | start) & limits.virt_boundary_mask != 0 && previous != start;
                ensure(!gap, || wrong("a gap between pieces"))?;
            }
            segments += segments_of(world, issued, piece)?;
            previous_end = Some(layout.physical(piece.offset + piece.len - 1) + 1);
        }
        ensure(segments <= u64::from(limits.max_segments), || {
            wrong(&format!("{segments} segments"))
        })
    }
}

/// Counts the segments of one piece by walking its sectors.
fn segments_of(world: &World, issued: &Issued, piece: &Piece) -> Result<u64, Finding> {
    let limits = &world.limits;
    let layout = &world.layouts[&(piece.task.0, piece.token)];
    let boundary = u128::from(limits.seg_boundary_mask) + 1;
    let most = match limits.max_segment_size {
        0 => u64::MAX,
        size => u64::from(size),
    };
    let (mut at, end) = (piece.offset, piece.offset + piece.len);
    let (mut segments, mut length, mut previous_end) = (0u64, 0, None);
    while at < end {
        let physical = layout.physical(at);
        let bytes = SECTOR_SIZE.min(end - at);
        let continues = previous_end == Some(physical)
            && length + bytes <= most
            && !u128::from(physical).is_multiple_of(boundary);
        if let Some(previous) = previous_end {
            let gap =
                (previous | physical) & limits.virt_boundary_mask != 0 && previous != physical;
            ensure(!gap, || format!("{issued:?}: a gap in the middle of a piece"))?;
        }
        length = if continues { length + bytes } else { bytes };
        segments += u64::from(!continues);
        previous_end = Some(physical + bytes);
        at += bytes;
    }
    Ok(segments)
}

/// All bios of a command have the same priority, and a write that must be durable is not merged.
pub(super) struct Merges;

impl Checker for Merges {
    fn on_command(&mut self, world: &World, issued: &Issued) -> CheckResult {
        let command = &issued.command;
        let Some(first) = issued.pieces.first() else { return Ok(()) };
        let shared = issued.pieces.iter().any(|p| (p.task, p.token) != (first.task, first.token));
        for piece in &issued.pieces {
            let of_cache = world.bios.get(&(piece.task.0, piece.token)).copied();
            let spec = world.specs.get(piece.task.index());
            let set = of_cache.or(spec.map(|spec| spec.priority.ioprio));
            let Some(set) = set else {
                return Err(Finding(format!("{issued:?}: a piece of no task")));
            };
            let spec = spec.filter(|_| of_cache.is_none());
            let by_command = spec.is_some_and(|spec| spec.has_command_prio());
            let own = if set.class() == PrioClass::None { IoPrio::DEFAULT } else { set };
            let may_be = world
                .policies
                .iter()
                .any(|policy| policy.apply(own, &world.rules) == command.ioprio);
            ensure(by_command || may_be, || {
                format!("{command:?} carries an I/O of {:?} with priority {own:?}", piece.task)
            })?;
            let of_one =
                world.payer(piece.task, piece.token) == world.payer(first.task, first.token);
            ensure(of_one || !world.tenants_stay, || format!("{issued:?} is of two tenants"))?;
            let is_sync = spec.is_some_and(|spec| spec.durability.sync != SyncMode::None);
            let durable = command.op == Op::Write && is_sync && world.writes_are_durable;
            ensure(!(shared && durable), || {
                format!("{command:?} joins a write that must be durable to others")
            })?;
        }
        Ok(())
    }
}
