//! What disks do now: block events as they come, counted by second, process and cgroup.
//!
//! [`Watch`] takes the events of a running kernel ([`elevon_trace::capture::Live`]). It counts them
//! in slices of a second, keeps the last minute, and says what the last seconds were like
//! ([`Watch::now`]). The problems that [`elevon_trace::analysis`] finds come with the time since
//! which they hold. Nothing here reads a clock or a file: time comes with the events, and the
//! names of processes and cgroups from [`Owners`].
#![forbid(unsafe_code)]

mod disk;
mod finding;
pub mod json;
mod now;
mod owner;
mod problems;
mod settings;
mod slice;
#[cfg(test)]
mod tests;
pub mod text;
mod totals;
mod watch;

pub use finding::Standing;
pub use now::{Calls, DiskNow, HEAT_ROWS, Now, RowNow, heat_floor};
pub use owner::{Limits, Owner, Owners, UnitKind, counts_of_text, unit_of_cgroup};
pub use settings::{DiskKind, Setting, Wish, settings_against_kind};
pub use totals::{DiskTotal, MAX_UNITS, TimesTotal, Totals, Unit, UnitTotal};
pub use watch::{GroupBy, Watch};
