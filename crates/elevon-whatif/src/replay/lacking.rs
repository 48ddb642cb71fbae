//! Says what a scheduler decides by that a trace does not have, and what of a trace a replay does
//! not keep.

use elevon_core::kernel::Rules;
use elevon_core::op::Op;
use elevon_core::sched::{Reads, SchedulerConfig, SchedulerInfo};
use elevon_result::number::{bytes_binary, counted};
use elevon_result::result::NotKept;
use elevon_trace::replay::{Property, Workload};
use elevon_workload::cpu::SchedulerCost;

/// Share of a CPU from which the work of a scheduler is worth a word, in percent.
const CPU_WORTH_A_WORD: f64 = 1.0;

/// Returns a remark, without the name of the trace, on what these schedulers decide by and the
/// trace does not have; `None` if it has all of that.
pub(crate) fn line(
    workload: &Workload,
    schedulers: &[&SchedulerInfo],
    rules: &Rules,
) -> Option<String> {
    let is_read = |reads: Reads| reads != Reads::PriorityClass || rules.deadline_classes;
    let lacks = |reads: &Reads| is_read(*reads) && workload.lacks(*reads);
    let readers: Vec<_> = schedulers.iter().filter(|info| info.reads.iter().any(lacks)).collect();
    let is_lacking = |wanted: &[Reads]| {
        let all = readers.iter().flat_map(|info| info.reads);
        all.filter(|reads| lacks(reads)).any(|reads| wanted.contains(reads))
    };
    let (process, sync) = (is_lacking(&[Reads::Process]), is_lacking(&[Reads::Sync]));
    let priority = is_lacking(&[Reads::Priority, Reads::PriorityClass]);
    let pick = |all: [(bool, &'static str); 3]| {
        let there: Vec<_> =
            all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text).collect();
        enumerated(&there)
    };
    let what = pick([
        (process, "processes"),
        (priority, "I/O priorities"),
        (sync, "flags that tell whether a write is waited for"),
    ])?;
    let then = pick([
        (process, "all I/O counts as one process's"),
        (priority && !process, "all processes count as equals"),
        (sync, "no write counts as waited for"),
    ])?;
    let names: Vec<&str> = readers.iter().map(|info| info.name).collect();
    let since = if priority { ", priorities from Linux 6.11 on" } else { "" };
    Some(format!(
        "has no {what}, and {names} decides by them: here {then}, so that shares may be wrong; a capture by ftrace \
         (elevon capture) has them{since}",
        names = names.join(" or "),
    ))
}

/// What a replay keeps of a trace is up to this.
pub(crate) struct Lacking<'a> {
    /// The scheduler, if one is chosen: its CPU time counts.
    pub(crate) scheduler: Option<&'a SchedulerConfig>,
    /// True if the command line chooses a layout of memory.
    pub(crate) buffers: bool,
    /// True if a file of tenants says what cgroups are given.
    pub(crate) tenants: bool,
    /// True if the device is real.
    pub(crate) is_real: bool,
}

impl Lacking<'_> {
    /// Returns what a trace has and a replay of it does not keep; only what this trace has.
    pub(crate) fn of(&self, workload: &Workload) -> Vec<NotKept> {
        let lost = &workload.lost;
        let (ahead, writes) = workload.of_page_cache();
        // 0 is none, and 1 the root.
        let cgroups = workload.cgroups().into_iter().filter(|&id| id > 1).count() as u64;
        let is_written = || {
            workload.processes.iter().flat_map(|process| &process.ios).any(|io| io.op == Op::Write)
        };
        let all = [
            (Property::Splits, self.splits(workload)),
            (Property::PageCache, (ahead + writes > 0).then(|| page_cache(ahead, writes))),
            (Property::CpuTime, self.scheduler.and_then(|scheduler| cpu_time(workload, scheduler))),
            (
                Property::Cgroups,
                (cgroups > 0 && !self.tenants).then(|| {
                    let cgroups = counted(cgroups, "cgroup");
                    format!(
                        "the limits and weights of its {cgroups} are not in a trace; --tenants FILE gives them theirs"
                    )
                }),
            ),
            (
                Property::Errors,
                (lost.errors > 0).then(|| {
                    let (requests, again) =
                        (counted(lost.errors, "request"), if self.is_real { "" } else { "; --fault makes some fail" });
                    format!("{requests} failed in the trace, and the replay does not repeat that{again}")
                }),
            ),
            (
                Property::GivenBack,
                (lost.given_back > 0).then(|| {
                    let times = counted(lost.given_back, "time");
                    format!("the driver gave a request back {times}, and the replay does not repeat that")
                }),
            ),
            (
                Property::Contents,
                (self.is_real && is_written())
                    .then(|| "what was written is not in a trace: what --allow-writes writes is of chance".to_owned()),
            ),
        ];
        let named = |(property, why): (Property, Option<String>)| {
            Some(NotKept { property: property.name(), why: why? })
        };
        all.into_iter().filter_map(named).collect()
    }

    fn splits(&self, workload: &Workload) -> Option<String> {
        let (short, (all, _)) = (workload.short_splits(), workload.lost.splits);
        (short > 0 && !self.buffers).then(|| {
            format!(
                "{short} of {all} splits came before the limit of {limit}, as by max_segments, which depends on how \
                 memory lay behind a buffer; here it counts as contiguous, and --buffers MODEL chooses a layout",
                limit = bytes_binary(workload.lost.limit as f64)
            )
        })
    }
}

fn page_cache(ahead: u64, writes: u64) -> String {
    let parts = [(ahead, "read", " ahead"), (writes, "write", " that no task waited for")];
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, what, which)| counted(*count, what) + which).collect();
    format!(
        "{} came from it as they did in the trace; another size of memory, read_ahead_kb or vm.dirty_* would make \
         others of them, and nothing here does",
        parts.join(" and ")
    )
}

/// Says how much CPU time the scheduler would take, if it is not the one of the trace.
fn cpu_time(workload: &Workload, scheduler: &SchedulerConfig) -> Option<String> {
    let recorded = workload.recorded.as_ref().and_then(elevon_trace::Recorded::scheduler);
    if recorded == Some(scheduler.name) {
        return None;
    }
    let low_latency =
        scheduler.tunables.iter().all(|(name, value)| *name != "low_latency" || *value != 0);
    let cost = SchedulerCost::measured(scheduler.name, low_latency).request;
    let rate = workload.len() as f64 * 1e9 / workload.duration.max(1) as f64;
    let share = rate * cost.get() as f64 / 1e9 * 100.0;
    (share >= CPU_WORTH_A_WORD).then(|| {
        format!(
            "that of the traced machine is in the times of the trace, and {name} is not charged for its own: {cost} of \
             each I/O, {share:.0} % of one CPU at {rate:.0} I/Os a second",
            name = scheduler.name
        )
    })
}

/// Joins words by commas and an `and`; `None` for none.
fn enumerated(words: &[&str]) -> Option<String> {
    match words {
        [] => None,
        [one] => Some((*one).to_owned()),
        [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
    }
}
