//! What each job got of its slice, and why a job has less than is promised.

use elevon_result::number::{percent, significant};
use elevon_result::result::RunResult;
use elevon_result::slice::{PROMISED, Slice};
use serde_json::{Value, json};

/// Heads of the columns beside the job's name.
pub(crate) const HEADS: [&str; 5] =
    ["alone, IOPS", "part of weights", "slice, IOPS", "got, IOPS", "got/slice"];

/// Returns the cells of a job: its name, and a cell for each of [`HEADS`].
pub(crate) fn row(run: &RunResult, slice: &Slice) -> Vec<String> {
    let iops = |value: f64| significant(value, 4);
    vec![
        run.jobs[slice.job].name.clone(),
        iops(slice.alone),
        percent(slice.part, 2) + "%",
        iops(slice.size()),
        iops(slice.got),
        format!("{:.3}", slice.of_slice()),
    ]
}

/// Returns a line for each job that has less than is promised: how much it has, and why.
pub(crate) fn reasons(run: &RunResult) -> Vec<String> {
    let line = |slice: &Slice| {
        let (name, part) = (&run.jobs[slice.job].name, slice.of_slice());
        let why = &slice.shortfall.as_ref()?.words;
        Some(format!("{name} has {part:.2} of its slice, less than {PROMISED}. {why}"))
    };
    run.slices.iter().filter_map(line).collect()
}

/// Returns the slices for programs.
pub(crate) fn value(run: &RunResult) -> Value {
    let of = |slice: &Slice| {
        let mut out = json!({
            "jobname": run.jobs[slice.job].name,
            "alone_iops": slice.alone,
            "part": slice.part,
            "slice_iops": slice.size(),
            "iops": slice.got,
            "of_slice": slice.of_slice(),
        });
        if let Some(shortfall) = &slice.shortfall {
            out["lacks"] = json!(shortfall.cause.name());
            out["why"] = json!(shortfall.words);
        }
        out
    };
    run.slices.iter().map(of).collect()
}
