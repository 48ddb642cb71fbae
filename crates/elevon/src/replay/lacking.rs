//! Says what a scheduler decides by that a trace does not have.

use elevon_core::kernel::Rules;
use elevon_core::sched::{Reads, SchedulerInfo};
use elevon_trace::replay::Workload;

/// Returns a remark, without the name of the trace, on what these schedulers decide by and the
/// trace does not have; `None` if it has all of that.
pub(crate) fn line(workload: &Workload, schedulers: &[&SchedulerInfo], rules: &Rules) -> Option<String> {
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
        let there: Vec<_> = all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text).collect();
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

/// Joins words by commas and an `and`; `None` for none.
fn enumerated(words: &[&str]) -> Option<String> {
    match words {
        [] => None,
        [one] => Some((*one).to_owned()),
        [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
    }
}
