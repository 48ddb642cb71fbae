//! What each job got of its slice, and why a job has less than is promised.

use elevon_result::result::RunResult;

use super::{align_right, plain_table, push_table};
use crate::slices::{HEADS, reasons, row};
use crate::wrap::wrapped;

/// Writes the table and the reasons, after an empty line.
pub(super) fn section(out: &mut String, run: &RunResult) {
    if run.slices.is_empty() {
        return;
    }
    let mut table = plain_table();
    table.set_header(std::iter::once("slice of the device").chain(HEADS));
    table.add_rows(run.slices.iter().map(|slice| row(run, slice)));
    align_right(&mut table);
    out.push('\n');
    push_table(out, &table);
    for line in reasons(run) {
        wrapped(out, "", &line);
    }
}
