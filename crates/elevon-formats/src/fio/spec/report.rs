//! Reports, logs, and the errors that do not end a job.

/// How the measurements of a job are grouped and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporting {
    /// `group_reporting`: one report for all jobs of the group.
    pub group_reporting: bool,
    /// `new_group`: a group begins with this job.
    pub new_group: bool,
    /// `unified_rw_reporting`: with 1 `mixed` instead of the directions, with `both` in addition to
    /// them.
    pub unified: Unified,
    /// `percentile_list`, in millionths (99.5 is 995000).
    pub percentiles: Vec<u64>,
    /// `clat_percentiles`: of the completion latency.
    pub clat_percentiles: bool,
    /// `lat_percentiles`: of the whole latency.
    pub lat_percentiles: bool,
    /// `slat_percentiles`: of the submission latency.
    pub slat_percentiles: bool,
}

impl Default for Reporting {
    fn default() -> Self {
        Self {
            group_reporting: false,
            new_group: false,
            unified: Unified::Separate,
            percentiles: [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99]
                .map(|percent| percent * 10_000)
                .into_iter()
                .chain([995_000, 999_000, 999_500, 999_900])
                .collect(),
            clat_percentiles: true,
            lat_percentiles: false,
            slat_percentiles: false,
        }
    }
}

/// `unified_rw_reporting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unified {
    /// Each direction separately.
    Separate,
    /// All directions as one, called mixed.
    Mixed,
    /// Each direction and mixed.
    Both,
}

/// The errors that do not end a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// `ignore_error`: errnos (positive) that do not end the job, for reads, writes and
    /// verification.
    pub ignored: [Vec<i32>; 3],
    /// `continue_on_error`, by direction: EIO and EILSEQ do not end the job.
    pub continues: [bool; 3],
    /// `continue_on_error=verify` or `all`: a mismatch is counted, but does not fail the job.
    pub continues_on_mismatch: bool,
}

/// `write_*_log` and their options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// `write_bw_log` prefix.
    pub bandwidth: Option<String>,
    /// `write_iops_log` prefix.
    pub iops: Option<String>,
    /// `write_lat_log` prefix, for the lat, slat and clat logs.
    pub latency: Option<String>,
    /// `write_hist_log` prefix.
    pub histogram: Option<String>,
    /// `log_avg_msec`; 0: one line per I/O.
    pub average_ms: u64,
    /// `log_hist_msec`.
    pub histogram_ms: u64,
    /// `log_offset`.
    pub offset: bool,
    /// `log_prio`.
    pub prio: bool,
    /// `log_max_value`, `log_window_value`: the value in a line of a latency log.
    pub window_value: WindowValue,
}

/// `log_window_value`: the latency that a log records for each window of `log_avg_msec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowValue {
    /// The mean of the window.
    #[default]
    Average,
    /// The largest latency of the window.
    Maximum,
    /// The mean, and in another column the largest latency.
    Both,
}
