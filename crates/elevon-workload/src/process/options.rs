//! The options of a job that are read for each I/O.

use super::*;

/// The options that are read for each I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Nothing delays, orders, checks or follows its I/Os, except syncs: no rate, think time,
    /// flow, `verify`, `serialize_overlap`, `latency_target` or `trimwrite`. So it is asked
    /// once, not for each of them.
    pub(super) is_plain: bool,
    /// The job is plain, and submits each I/O alone: with no plug and no worker of its own. It
    /// sleeps for none of them.
    pub(super) goes_alone: bool,
    /// An I/O is handed on: to a thread, to a worker, or as several ranges.
    pub(super) has_parts: bool,
    /// The job is plain and has no `max_latency`, logs or latencies by priority: once its
    /// statistics have begun, I/Os that complete are only counted.
    pub(super) only_counts: bool,
    pub(super) may_block: bool,
    /// By operation: the process submits such an I/O alone, and sleeps until it is over.
    pub(super) sleeps: [bool; 4],
    pub(super) batch_submit: usize,
    pub(super) complete_min: usize,
    /// At least one, and at least the minimum.
    pub(super) complete_max: usize,
    pub(super) low: usize,
    /// By operation: reads, writes, flushes, discards.
    pub(super) flags: [Flags; 4],
    pub(super) ioprio: IoPrio,
    pub(super) command_prio: [Option<(u8, IoPrio)>; 2],
    /// All its I/Os have the job's priority: neither of the next two says otherwise.
    pub(super) has_one_prio: bool,
    /// Priorities depend on the size (`cmdprio_bssplit`).
    pub(super) prio_by_size: bool,
    /// By operation, as `flags`.
    pub(super) write_hints: [u8; 4],
    pub(super) max_latency: [Nanos; 3],
    pub(super) trim_then_write: bool,
    pub(super) serialize_overlap: bool,
    pub(super) sync_every: [u64; 2],
    /// Writes between two syncs of a range. Set only with a page cache, because direct writes
    /// leave nothing to write early.
    pub(super) sync_range_every: u64,
    pub(super) gaps_end: bool,
    pub(super) end_sync: bool,
    pub(super) number_ios: u64,
    pub(super) loops: u64,
    pub(super) backlog: usize,
    pub(super) verify_after: bool,
    pub(super) verify_fatal: bool,
    pub(super) verify_only: bool,
    pub(super) verify_reads: bool,
    pub(super) used: [bool; 3],
}

/// Returns the flags by operation. A task that sleeps until its I/O has completed says so, and so
/// does a thread of POSIX AIO; a ring tries its reads and writes first.
fn flags_of(spec: &JobSpec) -> [Flags; 4] {
    let is_waited = !spec.engine.asynchronous || spec.has_file_threads();
    let of_all = if is_waited { Flags::WAITED } else { Flags::NONE };
    let mut flags = [of_all; 4];
    if spec.bounded_workers(1).is_some() {
        flags[Op::Read as usize] |= Flags::TRIED;
        flags[Op::Write as usize] |= Flags::TRIED;
    }
    flags[Op::Write as usize] |= write_flags(spec);
    flags[Op::Flush as usize] |= Flags::PREFLUSH | Flags::SYNC;
    flags[Op::Discard as usize] |=
        if spec.sleeps_for_trims() { Flags::SYNC | Flags::WAITED } else { Flags::SYNC };
    flags
}

/// Returns the flags of a direct write: it is sync and expects more to come.
fn write_flags(spec: &JobSpec) -> Flags {
    let mut flags = Flags::SYNC.with(Flags::IDLE);
    if spec.durability.sync != SyncMode::None {
        flags |= Flags::DSYNC;
    }
    if spec.durability.atomic {
        flags |= Flags::ATOMIC;
    }
    flags
}

/// Returns [`Options::is_plain`].
fn is_plain(spec: &JobSpec) -> bool {
    let rates = [&spec.rates.bytes, &spec.rates.min_bytes, &spec.rates.iops, &spec.rates.min_iops];
    let has_rate = rates.into_iter().flatten().any(Option::is_some);
    !has_rate
        && spec.verify.method.is_none()
        && spec.think.time.is_zero()
        && spec.order.flow.is_none()
        && spec.latency.target.is_none()
        && !spec.queue.serialize_overlap
        && !spec.rw.trim_then_write
}

/// Returns by direction whether the process does such I/O.
fn used_directions(spec: &JobSpec) -> [bool; 3] {
    if spec.verify.method.is_some() && spec.verify.only {
        return [true, false, false];
    }
    let mut used = directions(spec);
    used[Direction::Write as usize] |= spec.rw.trim_then_write;
    used
}

/// Returns by operation whether the process sleeps until such an I/O is over.
fn sleeps_of(spec: &JobSpec) -> [bool; 4] {
    let mut sleeps = [false; 4];
    sleeps[Op::Flush as usize] = spec.submission_blocks();
    sleeps[Op::Discard as usize] = spec.sleeps_for_trims();
    sleeps
}

impl Options {
    pub(super) fn new(spec: &JobSpec) -> Self {
        let most = if spec.has_queue() { spec.queue.depth.max(1) as usize } else { 1 };
        let or_most = |value: u32| if value == 0 { most } else { (value as usize).min(most) };
        let writes = spec.rw.write || spec.rw.trim_then_write;
        let verifies = spec.verify.method.is_some();
        let every = |n: u32| if n > 0 { u64::from(n) } else { u64::MAX };
        // A device that is full stays full.
        let fills = spec.space.fill_device
            && spec.space.size.is_none()
            && spec.files.size.is_none()
            && writes;
        let endless = spec.timing.time_based && !spec.timing.runtime.is_zero() && !fills;
        let loops = if fills { 1 } else { spec.timing.loops.max(1) };
        let has_gaps = !spec.rw.random && spec.rw.sequential_skip > 0;
        let is_plain = is_plain(spec);
        let batch_submit = or_most(spec.queue.batch_submit);
        let complete_min = (spec.queue.complete_min as usize).min(most);
        let has_parts =
            spec.has_file_threads() || spec.queue.offload || spec.blocks.trim_ranges > 1;
        Self {
            is_plain,
            goes_alone: is_plain
                && batch_submit == 1
                && complete_min > 0
                && !has_parts
                && !spec.sleeps_for_trims(),
            has_parts,
            only_counts: is_plain && spec.latency.max.iter().all(|span| span.is_zero()),
            may_block: spec.submission_blocks(),
            sleeps: sleeps_of(spec),
            batch_submit,
            complete_min,
            complete_max: or_most(spec.queue.complete_max).max(complete_min),
            low: (spec.queue.low as usize).min(most),
            flags: flags_of(spec),
            ioprio: spec.priority.ioprio,
            has_one_prio: !spec.has_command_prio(),
            command_prio: spec
                .priority
                .command
                .map(|prio| prio.filter(|(percent, _)| *percent > 0)),
            prio_by_size: spec.priority.command_split.iter().any(|parts| !parts.is_empty()),
            write_hints: std::array::from_fn(|op| {
                if op == Op::Write as usize { spec.content.write_hint } else { 0 }
            }),
            trim_then_write: spec.rw.trim_then_write,
            serialize_overlap: spec.queue.serialize_overlap,
            max_latency: spec
                .latency
                .max
                .map(|span| if span.is_zero() { Nanos::new(u64::MAX) } else { span }),
            sync_every: [every(spec.durability.fsync), every(spec.durability.fdatasync)],
            sync_range_every: u64::MAX,
            gaps_end: has_gaps
                && spec.space.io_size.is_none()
                && spec.space.zones.is_none()
                && !endless,
            end_sync: (spec.durability.end_fsync || spec.durability.fsync_on_close) && writes,
            number_ios: spec.timing.number_ios.filter(|&n| n > 0).unwrap_or(u64::MAX),
            loops: if endless { u64::MAX } else { loops },
            backlog: if verifies { spec.verify.backlog as usize } else { 0 },
            verify_after: verifies && writes && spec.verify.after_write && !spec.verify.only,
            verify_fatal: spec.verify.fatal,
            verify_only: verifies && spec.verify.only && writes,
            verify_reads: verifies && !writes,
            used: used_directions(spec),
        }
    }
}
