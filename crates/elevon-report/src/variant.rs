//! The runs that a report shows side by side, and the letters that name them.

use elevon_result::result::RunResult;

/// A run and its label in a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// The options that differ from the other variants, or `baseline`.
    pub label: &'a str,
    /// The result of the run.
    pub result: &'a RunResult,
}

/// Yields A, B, C ... Z, then again from A.
pub(crate) fn letters() -> impl Iterator<Item = char> {
    ('A'..='Z').cycle()
}

/// Returns the heads of the variants' columns.
pub(crate) fn heads(variants: &[Variant<'_>]) -> Vec<String> {
    letters().take(variants.len()).map(String::from).collect()
}
