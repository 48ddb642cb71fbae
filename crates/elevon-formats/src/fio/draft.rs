//! A job while its options are read: its spec, and values that are decided only at the end of its
//! section.

use super::number::PerDirection;
use super::options::OptionRow;
use super::spec::{
    Amount, BlockSizes, Distribution, Flow, JobSpec, LatencyTarget, SizePrio, SteadyMetric,
    SteadyState, StridedZones, VerifyMethod,
};
use crate::diagnostic::Span;
use elevon_core::ioprio::{CpuPolicy, IoPrio, PrioClass};
use elevon_core::units::Nanos;

/// An option with its place, kept for complaints about options that conflict.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) row: &'static OptionRow,
    pub(crate) at: Span,
}

/// A job whose options are being read. Public only as an argument of the setters in the option
/// table.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(crate) spec: JobSpec,
    pub(crate) kb_base: u64,
    pub(crate) given: Vec<Given>,
    /// `ioengine` names an engine that is not supported.
    pub(crate) engine_is_refused: bool,
    pub(crate) depth: u32,
    pub(crate) batch: u32,
    pub(crate) complete_min: u32,
    pub(crate) complete_max: Option<u32>,
    pub(crate) low: Option<u32>,
    pub(crate) think_blocks: Option<u32>,
    fixed: [u64; 3],
    pub(crate) ranges: PerDirection<(u64, u64)>,
    pub(crate) splits: PerDirection<Vec<(u64, u32)>>,
    pub(crate) sequence_stride: bool,
    pub(crate) bs_is_seq_rand: bool,
    pub(crate) prio: Option<u8>,
    pub(crate) prio_class: Option<u8>,
    pub(crate) nice: i8,
    pub(crate) prio_hint: u16,
    pub(crate) command_prio: CommandPrio,
    pub(crate) zones: Zones,
    pub(crate) flow: Flow,
    pub(crate) latency: LatencyTarget,
    pub(crate) steady: SteadyState,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self {
            spec: JobSpec::default_job(""),
            kb_base: 1024,
            given: Vec::new(),
            engine_is_refused: false,
            depth: 1,
            batch: 1,
            complete_min: 1,
            complete_max: None,
            low: None,
            think_blocks: None,
            fixed: [4096; 3],
            ranges: [None; 3],
            splits: [None, None, None],
            sequence_stride: false,
            bs_is_seq_rand: false,
            prio: None,
            prio_class: None,
            nice: 0,
            prio_hint: 0,
            command_prio: CommandPrio::default(),
            zones: Zones::default(),
            flow: Flow { id: 0, weight: 0, sleep: Nanos::ZERO },
            latency: LatencyTarget {
                target: Nanos::ZERO,
                window: Nanos::ZERO,
                percentile: 100_000_000,
                run: false,
            },
            steady: SteadyState {
                metric: SteadyMetric::Iops,
                slope: true,
                limit: 10_000,
                percent: true,
                duration: Nanos::ZERO,
                ramp: Nanos::ZERO,
                interval: Nanos::from_secs(1),
            },
        }
    }

    /// Returns the place of the last use of an option, else of the section.
    pub(crate) fn place(&self, name: &str) -> Option<&Span> {
        self.given.iter().rev().find(|given| given.row.name == name).map(|given| &given.at)
    }

    pub(super) fn mix_read(&mut self, percent: u64) {
        self.spec.rw.mix_read = percent as u8;
    }
    pub(super) fn percentage_random(&mut self, list: PerDirection<u64>) {
        assign(&mut self.spec.random.percentage, list.map(|value| value.map(|value| value as u8)));
    }
    pub(super) fn bs(&mut self, list: PerDirection<u64>) {
        assign(&mut self.fixed, list);
    }
    pub(super) fn block_align(&mut self, list: PerDirection<u64>) {
        assign(&mut self.spec.blocks.align, list);
    }
    pub(super) fn direct(&mut self, on: bool) {
        self.spec.caching.direct = on;
    }
    pub(super) fn rate(&mut self, list: PerDirection<u64>) {
        assign_limit(&mut self.spec.rates.bytes, list);
    }
    pub(super) fn rate_iops(&mut self, list: PerDirection<u64>) {
        assign_limit(&mut self.spec.rates.iops, list);
    }
    pub(super) fn rate_min(&mut self, list: PerDirection<u64>) {
        assign_limit(&mut self.spec.rates.min_bytes, list);
    }
    pub(super) fn rate_iops_min(&mut self, list: PerDirection<u64>) {
        assign_limit(&mut self.spec.rates.min_iops, list);
    }
    pub(super) fn rate_cycle(&mut self, ms: u64) {
        self.spec.rates.cycle = Nanos::from_millis(ms);
    }

    /// Decides values that depend on several options. Calls `warn` with the option and a note.
    pub(crate) fn settle(&mut self, warn: &mut dyn FnMut(&str, String)) {
        self.settle_sizes(warn);
        self.settle_verify(warn);
        self.settle_depth(warn);
        self.settle_priority();
        self.settle_logs();
        self.spec.space.zones = self.zones.settled();
        for (key, is_given) in self.zones.given() {
            if is_given && key != "zonesize" && !self.zones.strided {
                warn(key, "has no effect without zonemode=strided".to_owned());
            }
        }
        self.spec.order.flow = (self.flow.weight > 0).then_some(self.flow);
        self.spec.latency.target = (!self.latency.target.is_zero()).then_some(self.latency);
        self.spec.timing.steady = (!self.steady.duration.is_zero()).then_some(self.steady);
        if self.spec.timing.steady.is_none() && self.place("steadystate").is_some() {
            warn(
                "steadystate",
                "has no effect without steadystate_duration=, as in fio".to_owned(),
            );
        }
        let spec = &mut self.spec;
        if spec.think.spin > spec.think.time {
            warn("thinktime_spin", format!("longer than thinktime; runs as {}", spec.think.time));
            spec.think.spin = spec.think.time;
        }
        if spec.timing.time_based && spec.timing.runtime.is_zero() {
            warn("time_based", "has no effect without runtime=, as in fio".to_owned());
            spec.timing.time_based = false;
        }
        // With `thinktime_iotime` alone, the default of one block does not apply.
        let blocks = if spec.think.io_time.is_zero() { 1 } else { 0 };
        spec.think.blocks = self.think_blocks.unwrap_or(blocks);
        for one in &mut spec.random.distribution {
            match one {
                Distribution::Sequence { stride, .. } => *stride = self.sequence_stride,
                _ if self.sequence_stride => {
                    warn(
                        "random_sequence_stride",
                        "has no effect without random_distribution=sequence:".to_owned(),
                    );
                    break;
                }
                _ => {}
            }
        }
        let uniform = spec.random.distribution.iter().all(|one| *one == Distribution::Random);
        // An alignment to the least block is none, as with fio.
        for (align, sizes) in spec.blocks.align.iter_mut().zip(&spec.blocks.sizes) {
            *align = if *align == smallest(sizes) { 0 } else { *align };
        }
        let aligned = spec.blocks.align != [0; 3];
        if spec.rw.random && (!uniform || aligned) {
            // As in fio's manual: a skewed distribution or an alignment turns the map off.
            spec.random.norandommap = true;
        }
    }

    fn settle_sizes(&mut self, warn: &mut dyn FnMut(&str, String)) {
        for direction in 0..3 {
            let fixed = self.fixed[direction];
            self.spec.blocks.sizes[direction] =
                match (&self.splits[direction], self.ranges[direction]) {
                    (Some(split), _) if split.len() == 1 => {
                        BlockSizes::Range(split[0].0, split[0].0)
                    }
                    (Some(split), _) => BlockSizes::Split(split.clone()),
                    (None, Some((low, high))) => BlockSizes::Range(low, high),
                    (None, None) => BlockSizes::Range(fixed, fixed),
                };
        }
        if self.bs_is_seq_rand {
            // Random jobs may have sequential I/Os (`percentage_random`), but not the reverse.
            self.spec.blocks.by_order =
                self.spec.rw.random && self.spec.random.percentage != [100; 3];
            if !self.spec.blocks.by_order {
                let from = usize::from(self.spec.rw.random);
                let sizes = self.spec.blocks.sizes[from].clone();
                self.spec.blocks.sizes = [sizes.clone(), sizes.clone(), sizes];
            }
        }
        if self.spec.rw.trim_then_write && self.spec.blocks.sizes[1] != self.spec.blocks.sizes[2] {
            warn(
                "rw",
                "each write of trimwrite has the size of the trim before it; another has no effect"
                    .to_owned(),
            );
        }
        if self.place("bs").is_some() && (self.ranges[0].is_some() || self.splits[0].is_some()) {
            warn("bs", "has no effect beside bsrange= or bssplit=, which fio prefers".to_owned());
        }
    }

    fn settle_verify(&mut self, warn: &mut dyn FnMut(&str, String)) {
        let has_pattern = !self.spec.verify.pattern.is_empty();
        if has_pattern && self.place("verify").is_none() {
            // As fio 3.33 does, though its manual does not say so.
            self.spec.verify.method = Some(VerifyMethod::Pattern);
        }
        if self.spec.verify.method == Some(VerifyMethod::Pattern) && !has_pattern {
            warn(
                "verify",
                "without verify_pattern= there is nothing to compare: blocks are only read back"
                    .to_owned(),
            );
        }
    }

    fn settle_depth(&mut self, warn: &mut dyn FnMut(&str, String)) {
        if self.spec.queue.offload && self.spec.engine.asynchronous {
            let message = format!(
                "fio calls it unreliable with ioengine={}; use psync",
                self.spec.engine.name
            );
            warn("io_submit_mode", message);
        }
        if !self.spec.has_queue() && self.depth > 1 {
            let message = format!(
                "ioengine={} has one I/O at a time; use libaio or io_uring",
                self.spec.engine.name
            );
            warn("iodepth", message);
        }
        let depth = if self.spec.has_queue() { self.depth } else { 1 };
        let spec = &mut self.spec;
        spec.queue.depth = depth;
        spec.queue.low = self.low.unwrap_or(depth).min(depth);
        // A worker takes one I/O.
        let batch = if spec.queue.offload { 1 } else { self.batch };
        spec.queue.batch_submit = if batch == 0 { depth } else { batch.min(depth) };
        spec.queue.complete_min = self.complete_min.min(depth);
        let most = self.complete_max.unwrap_or(self.complete_min).min(depth);
        spec.queue.complete_max = most.max(spec.queue.complete_min);
    }

    fn settle_priority(&mut self) {
        // A level alone means best effort, as with `ionice -n`.
        let class = match self.prio_class {
            Some(number) => class(number),
            None if self.prio.is_some() => PrioClass::Be,
            None => PrioClass::None,
        };
        self.spec.priority.ioprio =
            IoPrio::new(class, self.prio.unwrap_or(0)).with_hint(self.prio_hint);
        // Without it the stack takes the same level for NONE.
        if self.nice != 0 {
            self.spec.priority.ioprio =
                IoPrio::of_task(self.spec.priority.ioprio, CpuPolicy::Normal, self.nice);
        }
        self.spec.priority.command = [self.command_prio.of(0), self.command_prio.of(1)];
        self.spec.priority.command_split =
            [self.command_prio.split_of(0), self.command_prio.split_of(1)];
    }

    fn settle_logs(&mut self) {
        let Self { spec: JobSpec { name, logs, .. }, .. } = self;
        for prefix in [&mut logs.bandwidth, &mut logs.iops, &mut logs.latency, &mut logs.histogram]
        {
            if prefix.as_deref() == Some("") {
                *prefix = Some(name.clone());
            }
        }
    }

    /// Returns the smallest I/O of the directions that occur, for comparison with the size of the
    /// region.
    pub(crate) fn smallest_block(&self) -> u64 {
        let spec = &self.spec;
        let occurs = [spec.rw.read, spec.rw.write, spec.rw.trim];
        let sizes = spec
            .blocks
            .sizes
            .iter()
            .zip(occurs)
            .filter(|&(_, occurs)| occurs)
            .map(|(sizes, _)| smallest(sizes));
        sizes.min().unwrap_or(0)
    }

    /// Returns the largest of the smallest I/Os of the directions that occur: a zone must hold it.
    pub(crate) fn largest_least_block(&self) -> u64 {
        let spec = &self.spec;
        let occurs = [spec.rw.read, spec.rw.write, spec.rw.trim];
        let sizes = spec
            .blocks
            .sizes
            .iter()
            .zip(occurs)
            .filter(|&(_, occurs)| occurs || spec.blocks.by_order);
        sizes.map(|(sizes, _)| smallest(sizes)).max().unwrap_or(0)
    }

    /// Returns the bytes of the region, if they are known without the device.
    pub(crate) fn region(&self) -> Option<u64> {
        match self.spec.space.size {
            Some(Amount::Bytes(bytes)) => Some(bytes),
            Some(Amount::Percent(_)) | None => None,
        }
    }
}

/// Returns the smallest of some sizes.
pub(crate) fn smallest(sizes: &BlockSizes) -> u64 {
    match sizes {
        BlockSizes::Range(low, _) => *low,
        BlockSizes::Split(split) => split.iter().map(|&(bytes, _)| bytes).min().unwrap_or(0),
    }
}

/// The options of `zonemode=strided`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zones {
    pub(crate) strided: bool,
    pub(crate) size: u64,
    pub(crate) range: u64,
    pub(crate) skip: Skip,
}

/// `zoneskip`: bytes, or zones of `zonesize` bytes (`2z`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Skip {
    Bytes(u64),
    Zones(u64),
}

impl Default for Skip {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl Zones {
    /// Returns its options, each with whether it has a value other than 0.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        let skips = !matches!(self.skip, Skip::Bytes(0) | Skip::Zones(0));
        [("zonesize", self.size > 0), ("zonerange", self.range > 0), ("zoneskip", skips)]
    }

    fn settled(&self) -> Option<StridedZones> {
        let range = if self.range == 0 { self.size } else { self.range };
        let skip = match self.skip {
            Skip::Bytes(bytes) => bytes,
            Skip::Zones(zones) => zones.saturating_mul(self.size),
        };
        (self.strided && self.size > 0).then_some(StridedZones { size: self.size, range, skip })
    }
}

/// A part of `cmdprio_bssplit` as given; without a priority of its own it has that of
/// `cmdprio_class`, `cmdprio` and `cmdprio_hint`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitPart {
    pub(crate) bytes: u64,
    pub(crate) percent: u8,
    pub(crate) prio: Option<IoPrio>,
}

/// The options of `cmdprio_*`, for reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandPrio {
    percentage: [u8; 2],
    class: [Option<u8>; 2],
    level: [u8; 2],
    hint: [u16; 2],
    split: [Vec<SplitPart>; 2],
}

impl CommandPrio {
    pub(super) fn percentage(&mut self, [read, write, _]: PerDirection<u64>) {
        assign(&mut self.percentage, [read, write].map(|value| value.map(|value| value as u8)));
    }
    pub(super) fn class(&mut self, [read, write, _]: PerDirection<u64>) {
        assign(&mut self.class, [read, write].map(|value| value.map(|value| Some(value as u8))));
    }
    pub(super) fn level(&mut self, [read, write, _]: PerDirection<u64>) {
        assign(&mut self.level, [read, write].map(|value| value.map(|value| value as u8)));
    }
    pub(super) fn hint(&mut self, [read, write, _]: PerDirection<u64>) {
        assign(&mut self.hint, [read, write].map(|value| value.map(|value| value as u16)));
    }

    pub(super) fn split(&mut self, [read, write, _]: PerDirection<Vec<SplitPart>>) {
        assign(&mut self.split, [read, write]);
    }
    /// Returns true if some I/Os get their priority by share, and true if some get it by size.
    pub(crate) fn is_used(&self) -> (bool, bool) {
        (self.percentage != [0; 2], self.split.iter().any(|parts| !parts.is_empty()))
    }

    fn prio(&self, direction: usize) -> IoPrio {
        // The class defaults to the highest, the level to 0 (fio's HOWTO).
        let class = self.class[direction].map_or(PrioClass::Rt, class);
        IoPrio::new(class, self.level[direction]).with_hint(self.hint[direction])
    }

    fn of(&self, direction: usize) -> Option<(u8, IoPrio)> {
        (self.percentage[direction] > 0)
            .then_some((self.percentage[direction], self.prio(direction)))
    }

    fn split_of(&self, direction: usize) -> Vec<SizePrio> {
        let parts = self.split[direction].iter().filter(|part| part.percent > 0);
        let prio = |part: &SplitPart| part.prio.unwrap_or_else(|| self.prio(direction));
        parts
            .map(|part| SizePrio { bytes: part.bytes, percent: part.percent, prio: prio(part) })
            .collect()
    }
}

/// Returns the priority class of a number.
pub(crate) fn class(number: u8) -> PrioClass {
    match number {
        1 => PrioClass::Rt,
        2 => PrioClass::Be,
        3 => PrioClass::Idle,
        _ => PrioClass::None,
    }
}

fn assign<T, const N: usize>(slots: &mut [T; N], values: [Option<T>; N]) {
    for (slot, value) in slots.iter_mut().zip(values) {
        if let Some(value) = value {
            *slot = value;
        }
    }
}

/// Assigns limits; a limit of 0 means none.
fn assign_limit(slots: &mut PerDirection<u64>, values: PerDirection<u64>) {
    assign(slots, values.map(|value| value.map(|value| (value > 0).then_some(value))));
}
