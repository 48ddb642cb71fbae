//! The table of fio's options. A row has an option's name, the values it takes, its default, its
//! meaning, and its status in Elevon. The parser, the manual and the warnings are made from the
//! table.
//!
//! The names are those of fio 3.33's manual and help, including engine options, and those added by
//! later releases. `tests/data/fio-options.txt` lists them, and a test compares the table with it.

mod cgroup;
mod engines;
mod load;
mod logs;
mod misc;
mod order;
mod pattern;
mod priority;
mod process;
mod random;
mod report;
mod size;
mod sync;
mod target;
mod verify;

use super::draft::Draft;
use super::number::{PerDirection, Scan};
use super::spec::Amount;
use crate::diagnostic::Complaint;
use elevon_core::units::Nanos;

/// The section of the manual that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Pattern,
    Size,
    Target,
    Load,
    Order,
    Priority,
    Cgroup,
    Sync,
    Random,
    Report,
    Verify,
    Logs,
    Engine,
    Process,
    Misc,
}

/// The status of an option in Elevon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does what fio's manual says.
    Honoured,
    /// It is checked and accepted, and has no effect. The text says why.
    NoEffect(&'static str),
    /// A job that sets it to a value other than its default or 0 is refused. The text says why, and
    /// what to do.
    Refused(&'static str),
}

/// The values that an option takes, with its setter.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A bare key, or a number that is true when not 0.
    Flag(fn(&mut Draft, bool)),
    /// 0 or 1.
    Bool(fn(&mut Draft, bool)),
    /// A number from the first to the second value; suffixes are allowed.
    Int(i64, u64, fn(&mut Draft, u64)),
    /// Up to three such numbers, for reads, writes and trims.
    Directions(u64, u64, fn(&mut Draft, PerDirection<u64>)),
    /// Bytes or a share in percent.
    Amount(fn(&mut Draft, Amount)),
    /// A span of time; a bare number counts units of this many microseconds.
    Time(u64, fn(&mut Draft, Nanos)),
    /// One of these words.
    Choice(&'static [&'static str], fn(&mut Draft, &str)),
    /// A text with a grammar of its own.
    Text(fn(&mut Draft, &mut Scan, &str) -> Result<(), Complaint>),
    /// A text with a grammar of its own; a bare key is the empty text.
    OptionalText(fn(&mut Draft, &mut Scan, &str) -> Result<(), Complaint>),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// Other names fio takes for it.
    pub aliases: &'static [&'static str],
    /// The values it takes.
    pub kind: OptionKind,
    /// Unit of a bare number; empty if there is none.
    pub unit: &'static str,
    /// Its default as a user would write it; empty if there is none.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Its status.
    pub status: Status,
    /// The engines that have the option; empty for all.
    pub engines: &'static [&'static str],
}

impl OptionRow {
    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
    const fn no_effect(mut self, why: &'static str) -> Self {
        self.status = Status::NoEffect(why);
        self
    }
    const fn refused(mut self, why: &'static str) -> Self {
        self.status = Status::Refused(why);
        self
    }
    const fn of(mut self, engines: &'static [&'static str]) -> Self {
        self.engines = engines;
        self
    }
    /// Returns the values it takes, for a manual: `1..=7`, `0|1`, `read|write|...`.
    pub fn values(&self) -> String {
        match self.kind {
            OptionKind::Flag(_) => "bare or 0|1".to_owned(),
            OptionKind::Bool(_) => "0|1".to_owned(),
            OptionKind::Int(low, high, _) => bounds(low, high),
            OptionKind::Directions(low, high, _) => {
                format!("{}, up to three with commas", bounds(low as i64, high))
            }
            OptionKind::Amount(_) => "bytes or 0%..=100%".to_owned(),
            OptionKind::Time(..) => "a time".to_owned(),
            OptionKind::Choice(words, _) => words.join("|"),
            OptionKind::Text(_) => "text".to_owned(),
            OptionKind::OptionalText(_) => "bare or text".to_owned(),
        }
    }
}

fn bounds(low: i64, high: u64) -> String {
    if high >= ANY { format!("{low} or more") } else { format!("{low}..={high}") }
}

/// The largest value of fio's 32-bit options.
const ANY: u64 = u32::MAX as u64;
/// The largest value of fio's 64-bit options.
const ANY_64_BIT: u64 = i64::MAX as u64;
/// The largest I/O: fio's iolog stores lengths in 32 bits, and no device takes more at once.
const LARGEST_BLOCK: u64 = ANY;
const SECONDS: u64 = 1_000_000;
const MICROS: u64 = 1;

// Kinds of options that are checked and not used.
const FLAG: OptionKind = OptionKind::Flag(|_, _| ());
const BOOL: OptionKind = OptionKind::Bool(|_, _| ());
const COUNT: OptionKind = OptionKind::Int(0, ANY, |_, _| ());
const TEXT: OptionKind = OptionKind::Text(|_, _, _| Ok(()));
const TIME: OptionKind = OptionKind::Time(SECONDS, |_, _| ());

/// Returns the row of an honoured option.
const fn row(
    name: &'static str,
    kind: OptionKind,
    unit: &'static str,
    default: &'static str,
    help: &'static str,
) -> OptionRow {
    OptionRow {
        name,
        aliases: &[],
        kind,
        unit,
        default,
        help,
        status: Status::Honoured,
        engines: &[],
    }
}

/// The whole table, group by group.
pub const TABLE: &[(Group, &[OptionRow])] = &[
    (Group::Pattern, pattern::ROWS),
    (Group::Size, size::ROWS),
    (Group::Target, target::ROWS),
    (Group::Load, load::ROWS),
    (Group::Order, order::ROWS),
    (Group::Priority, priority::ROWS),
    (Group::Cgroup, cgroup::ROWS),
    (Group::Sync, sync::ROWS),
    (Group::Random, random::ROWS),
    (Group::Report, report::ROWS),
    (Group::Verify, verify::ROWS),
    (Group::Logs, logs::ROWS),
    (Group::Engine, engines::ROWS),
    (Group::Process, process::ROWS),
    (Group::Misc, misc::ROWS),
];

/// Returns all rows.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    TABLE.iter().flat_map(|(_, rows)| rows.iter())
}

/// Returns the row of a name or alias.
pub fn find(name: &str) -> Option<&'static OptionRow> {
    rows().find(|row| row.name == name || row.aliases.contains(&name))
}

/// Returns the known name that is most similar to an unknown one, if there is one.
pub fn nearest(name: &str) -> Option<&'static str> {
    elevon_core::nearest::nearest(
        name,
        rows().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied())),
    )
}
