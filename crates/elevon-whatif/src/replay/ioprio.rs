//! `--ioprio`: I/O priorities of the processes of a trace.

use std::collections::{BTreeMap, BTreeSet};

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::Rules;
use elevon_core::sched::{Reads, SchedulerInfo};
use elevon_formats::fio::spec::JobSpec;
use elevon_plan::failure::{Failure, ValueError};
use elevon_trace::replay::Workload;

use elevon_plan::plan::reads_priorities;

use crate::select;

/// What the option takes.
const EXPECTED: &str = "PROCESS=idle, PROCESS=be:0 to PROCESS=be:7, or PROCESS=rt:0 to PROCESS=rt:7, such as \
                        postgres-4242=be:7";

/// Returns the priorities that these texts give processes, by process. Of several for one process
/// the last one holds.
pub(crate) fn prios(
    workload: &Workload,
    texts: &[String],
) -> Result<BTreeMap<usize, IoPrio>, Failure> {
    let mut all = BTreeMap::new();
    for text in texts {
        let option = format!("--ioprio {text}");
        let (process, prio) = parsed(text)
            .ok_or_else(|| Failure::named(option.as_str(), ValueError::expected(EXPECTED)))?;
        all.extend(select::processes(workload, &option, process)?.into_iter().map(|at| (at, prio)));
    }
    Ok(all)
}

/// Returns the process and the priority of a text.
fn parsed(text: &str) -> Option<(&str, IoPrio)> {
    // Names of processes may have the sign, too.
    let (process, prio) = text.rsplit_once('=').filter(|(process, _)| !process.is_empty())?;
    let level = |text: &str| text.parse().ok().filter(|level| text.len() == 1 && *level < 8);
    let prio = match prio.split_once(':') {
        None if prio == "idle" => IoPrio::new(PrioClass::Idle, 0),
        Some(("be", text)) => IoPrio::new(PrioClass::Be, level(text)?),
        Some(("rt", text)) => IoPrio::new(PrioClass::Rt, level(text)?),
        _ => return None,
    };
    Some((process, prio))
}

/// Returns a priority as the option takes it.
pub(crate) fn text(prio: IoPrio) -> String {
    match prio.class() {
        PrioClass::Idle => "idle".to_owned(),
        class => format!("{}:{}", class.name(), prio.level()),
    }
}

/// Returns a remark on priorities that have no effect under a scheduler; `None` if they have one.
/// `specs` are the processes.
pub(super) fn in_vain(
    workload: &Workload,
    prios: &BTreeMap<usize, IoPrio>,
    specs: &[JobSpec],
    scheduler: &SchedulerInfo,
    rules: &Rules,
) -> Option<String> {
    if prios.is_empty() {
        return None;
    }
    let name = scheduler.name;
    if !reads_priorities(scheduler, rules) {
        return Some(format!(
            "--ioprio: {name} does not look at I/O priorities{}: nothing changes; mq-deadline (from Linux 5.15 on) and \
             bfq do",
            if name == "mq-deadline" { " before Linux 5.15" } else { "" }
        ));
    }
    let is_level_read = scheduler.reads.contains(&Reads::Priority);
    let had = |at: usize| {
        let ios = workload.processes[at].ios.iter();
        ios.map(|io| io.prio.unwrap_or(IoPrio::NONE).class().effective())
            .collect::<BTreeSet<PrioClass>>()
    };
    let is_same = |(&at, prio): (&usize, &IoPrio)| had(at).iter().eq([&prio.class().effective()]);
    if !is_level_read && prios.iter().all(is_same) {
        return Some(format!(
            "--ioprio: {name} looks at the class and not at the level, and the classes are those of the trace: nothing \
             changes; idle and rt:0 are other classes, and bfq looks at levels, too"
        ));
    }
    // Groups are served by their weights, and a class counts within one.
    scheduler.divides_as?;
    let prio_of = |at: usize| prios.get(&at).copied().unwrap_or(specs[at].priority.ioprio);
    let rivals = |at: usize| {
        specs.iter().enumerate().filter(move |(other, spec)| {
            *other != at && spec.tenant.cgroup == specs[at].tenant.cgroup
        })
    };
    let is_alone = |at: &usize| {
        specs[*at].tenant.cgroup.is_some()
            && rivals(*at).all(|(other, _)| prio_of(other) == prio_of(*at))
    };
    let alone: BTreeSet<&str> = prios
        .keys()
        .filter(|at| is_alone(at))
        .filter_map(|&at| specs[at].tenant.cgroup.as_deref())
        .collect();
    let first = alone.first()?;
    Some(format!(
        "--ioprio: under {name} a priority counts among the processes of one cgroup, and {first} has none of another \
         priority: it ranks nothing there; a weight of --tenants ranks cgroups, and mq-deadline ranks all processes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_ionice() {
        let prio = |text| parsed(text).map(|(process, prio)| (process, self::text(prio)));
        for (given, process, shown) in [
            ("a=idle", "a", "idle"),
            ("fio-12=be:7", "fio-12", "be:7"),
            ("x=y=rt:0", "x=y", "rt:0"),
            ("9=be:0", "9", "be:0"),
        ] {
            assert_eq!(prio(given), Some((process, shown.to_owned())), "{given}");
        }
        for bad in [
            "", "a", "a=", "=idle", "a=be", "a=rt", "a=be:8", "a=be:-1", "a=be:07", "a=be:+1",
            "a=idle:0", "a=none", "a=BE:1", "idle",
        ] {
            assert_eq!(prio(bad), None, "{bad}");
        }
    }
}
