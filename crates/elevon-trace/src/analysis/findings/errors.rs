//! Finds errors: I/O that failed.

use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::analysis::Group;

/// Number of different errors that are told apart; further ones count as the last.
const MAX_ERRORS_TOLD_APART: usize = 8;
/// The error of a bio that asked not to wait, and would have to: its process tries again.
const EAGAIN: u32 = 11;

/// Errors of one number.
#[derive(Clone, Copy, Debug)]
struct Row {
    errno: u32,
    count: u64,
}

/// Errors as one kind of event tells them.
#[derive(Debug, Default)]
struct Tally {
    rows: Vec<Row>,
    groups: [u64; Group::COUNT],
    by_process: ByProcess,
    when: When,
}

impl Tally {
    fn add(&mut self, errno: u32, group: Group, process: u32, now: u64) {
        match self.rows.iter().position(|row| row.errno == errno) {
            Some(at) => self.rows[at].count += 1,
            None if self.rows.len() < MAX_ERRORS_TOLD_APART => {
                self.rows.push(Row { errno, count: 1 });
            }
            None => self.rows[MAX_ERRORS_TOLD_APART - 1].count += 1,
        }
        self.groups[group as usize] += 1;
        self.by_process.add(process, 1);
        self.when.seen(now);
    }

    fn count(&self) -> u64 {
        self.groups.iter().sum()
    }
}

/// Counters.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Errors {
    /// Of requests and bios that completed.
    completed: Tally,
    /// Of events of errors, which come beside completions, or alone if only they were recorded.
    events: Tally,
}

impl Errors {
    /// Counts a request or bio that completed with an error.
    pub(in crate::analysis) fn on_error(
        &mut self,
        error: i32,
        group: Group,
        process: u32,
        now: u64,
    ) {
        if error.unsigned_abs() != EAGAIN {
            self.completed.add(error.unsigned_abs(), group, process, now);
        }
    }

    /// Counts an event that a request failed, beside which there may be its completion.
    pub(in crate::analysis) fn on_event(
        &mut self,
        error: Option<i32>,
        group: Group,
        process: u32,
        now: u64,
    ) {
        self.events.add(error.unwrap_or(0).unsigned_abs(), group, process, now);
    }

    /// Returns the number of errors that only events of errors tell.
    pub(in crate::analysis) fn untold(&self) -> u64 {
        if self.completed.count() == 0 { self.events.count() } else { 0 }
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let tally = if self.untold() > 0 { &self.events } else { &self.completed };
        let count = tally.count();
        if count == 0 {
            return None;
        }
        let mut rows = tally.rows.clone();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.count), row.errno));
        let of_kind = |group: &Group| tally.groups[*group as usize];
        let kinds: Vec<String> = Group::ALL
            .into_iter()
            .filter(|group| of_kind(group) > 0)
            .map(|group| counted(of_kind(&group), group_name(group)))
            .collect();
        let names = rows.iter().map(|row| name(row.errno)).collect::<Vec<_>>().join(", ");
        let first = tally
            .when
            .span()
            .zip(context.span)
            .map(|((first, _), (start, _))| first.saturating_sub(start));
        let mut evidence: Vec<String> =
            rows.iter().map(|row| format!("{} with {}", row.count, told(row.errno))).collect();
        evidence.extend(first.map(|first| {
            format!("the first failed {} into {}", words::span(first), context.whole)
        }));
        let is_of_commands_only = of_kind(&Group::Other) == count;
        Some(Finding {
            kind: FindingKind::IoErrors,
            title: format!("I/O failed: {} with {names}", kinds.join(", ")),
            when: tally.when.span(),
            who: tally.by_process.top(context),
            figures: vec![
                ("errors", count),
                ("read_errors", of_kind(&Group::Read)),
                ("write_errors", of_kind(&Group::Write)),
                ("discard_errors", of_kind(&Group::Discard)),
                ("flush_errors", of_kind(&Group::Flush)),
                ("other_errors", of_kind(&Group::Other)),
                ("errno", u64::from(rows[0].errno)),
            ],
            evidence,
            advice: advice(&tally.groups),
            // What failed is not there: no other problem comes before it. Devices refuse commands
            // that they do not know, which is of less weight.
            weight: if is_of_commands_only { 1 } else { 1000 },
        })
    }
}

fn advice(groups: &[u64; Group::COUNT]) -> Vec<String> {
    let mut advice = vec![
        "the kernel's log (dmesg) names the command, the sector and the cause; smartctl -x or nvme smart-log tell of \
              the device"
            .to_owned(),
    ];
    if groups[Group::Flush as usize] + groups[Group::Write as usize] > 0 {
        advice.push(
            "a failed write or flush may have lost data that was reported as written: check the file system, and see that \
             the program handles an error of fsync"
                .to_owned(),
        );
    }
    advice
}

const fn group_name(group: Group) -> &'static str {
    match group {
        Group::Other => "command",
        _ => group.name(),
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = match what {
        _ if count == 1 => "",
        "flush" => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

/// The errors that the block layer makes, by number, with what they mean there.
const NAMES: [(u32, &str, &str); 15] = [
    (5, "EIO", "the device failed it"),
    (6, "ENXIO", "the device is not there"),
    (12, "ENOMEM", "memory or another resource ran out"),
    (16, "EBUSY", "the device was busy"),
    (19, "ENODEV", "the device is not there any more"),
    (22, "EINVAL", "the command was not valid"),
    (28, "ENOSPC", "no space, as of a thin volume"),
    (52, "EBADE", "a conflict of reservations"),
    (61, "ENODATA", "the medium cannot be read there"),
    (67, "ENOLINK", "the path to the device failed"),
    (84, "EILSEQ", "the protection data do not match"),
    (85, "ERESTART", "it was aborted"),
    (95, "EOPNOTSUPP", "the device does not support it"),
    (110, "ETIMEDOUT", "it timed out"),
    (121, "EREMOTEIO", "the target failed it"),
];

/// Returns an error for people: `EIO (-5)`.
fn name(errno: u32) -> String {
    match NAMES.iter().find(|(number, ..)| *number == errno) {
        Some((_, name, _)) => format!("{name} (-{errno})"),
        None if errno == 0 => "an unknown error".to_owned(),
        None => format!("error -{errno}"),
    }
}

/// Returns an error with what it means: `EIO (-5): the device failed it`.
fn told(errno: u32) -> String {
    match NAMES.iter().find(|(number, ..)| *number == errno) {
        Some((_, _, meaning)) => format!("{}: {meaning}", name(errno)),
        None => name(errno),
    }
}
