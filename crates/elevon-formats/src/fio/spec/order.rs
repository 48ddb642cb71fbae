//! The order in which jobs start, proceed and end.

use elevon_core::units::Nanos;

/// How a job depends on the other jobs of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// `stonewall` (`wait_for_previous`): the job starts when every job before it has finished.
    pub stonewall: bool,
    /// `wait_for`: the job starts when the named job has finished.
    pub wait_for: Option<String>,
    /// `exitall`, of any job of a run: when one ends, it ends others, as its `exit_what` says.
    pub exitall: bool,
    /// `exit_what`: the jobs that `exitall` ends.
    pub exit_what: ExitWhat,
    /// `exitall_on_error`: a job that fails ends all jobs.
    pub exitall_on_error: bool,
    /// `flow` with `flow_id` and `flow_sleep`, if the job has a weight.
    pub flow: Option<Flow>,
}

/// `exit_what`: which jobs `exitall` ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of its reporting group.
    #[default]
    Group,
    /// All running jobs; jobs that wait for a `stonewall` continue.
    Stonewall,
    /// All jobs.
    All,
}

/// `flow`: jobs of one flow do I/O in proportion to their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `flow_id`.
    pub id: u32,
    /// `flow`: the weight, 1 to 1000.
    pub weight: u32,
    /// `flow_sleep`: how long a job that is ahead of the others sleeps before it looks again;
    /// zero: until the others have caught up.
    pub sleep: Nanos,
}
