//! Which rules of a kernel version make the difference between two runs: each rule that differs is
//! switched alone, and a rule is named if that changes a figure.

use std::fmt::Write;

use elevon_core::kernel::{Kernel, RULES};
use elevon_host::interrupt::Interrupt;
use elevon_report::compare::{self, Variant};
use elevon_report::result::RunResult;

use crate::console::Console;
use crate::execute::execute;
use crate::failure::{Ending, Failure};
use crate::kernels::{differences, wrapped};
use crate::plan::Plan;

/// I/Os of a run above which rules are not tried one by one.
const MOST_IOS: u64 = 300_000;
/// Parts of the block layer in which a rule changes no figure of a comparison.
const WITHOUT_FIGURES: [&str; 2] = ["events", "queue attributes"];

/// A run whose rules are compared with another's.
#[derive(Clone, Copy)]
pub(crate) struct Compared<'a> {
    /// The letter of its column.
    pub(crate) letter: char,
    pub(crate) plan: &'a Plan,
    pub(crate) result: &'a RunResult,
}

/// Returns the rules that make the difference between two runs whose kernels differ, as text; empty
/// if the kernels are the same, or the device is real.
pub(crate) fn text(base: Compared<'_>, other: Compared<'_>, interrupt: &Interrupt) -> Result<String, Failure> {
    let (from, to) = (base.plan.kernel, other.plan.kernel);
    if from == to || base.plan.is_real() || other.plan.is_real() {
        return Ok(String::new());
    }
    let names: Vec<&str> =
        differences(from, to).filter(|row| !WITHOUT_FIGURES.contains(&row.area)).map(|row| row.name).collect();
    let rows = || RULES.iter().enumerate().filter(|(_, row)| names.contains(&row.name));
    let head = format!("Rules between {} ({}) and {} ({})", base.letter, from.name(), other.letter, to.name());
    let ios = compare::all_ios(base.result);
    if ios > MOST_IOS {
        return Ok(format!(
            "\n{head}: {} differ. They are tried one by one on runs of up to {MOST_IOS} I/Os; this one has {ios}.\n\
             elevon kernels {} {} lists them.\n",
            names.len(),
            from.name(),
            to.name()
        ));
    }
    let mut text = format!("\n{head}, each switched alone in {}:\n", base.letter);
    let mut named = 0;
    for (index, row) in rows() {
        let Some(changed) = alone(base, index, to, interrupt)? else { return Ok(String::new()) };
        if !changed.is_empty() {
            named += 1;
            let _ = writeln!(text, "\n  {} ({})", row.name, row.area);
            wrapped(&mut text, "    ", &format!("{}: {}", to.name(), (row.says)(&to.rules())));
            wrapped(&mut text, "    ", &changed.join(", "));
        }
    }
    let _ = match (named, names.len()) {
        (0, all) => writeln!(text, "  none of the {all} that differ changes a figure alone"),
        (_, all) => writeln!(text, "\n  the {} others change no figure alone", all - named),
    };
    Ok(text)
}

/// Returns the figures of `base` that change if one rule is that of `to`; `None` if the run was
/// interrupted.
fn alone(base: Compared<'_>, rule: usize, to: Kernel, interrupt: &Interrupt) -> Result<Option<Vec<String>>, Failure> {
    let plan = Plan { other_rule: Some((rule, to)), ..base.plan.clone() };
    let mut console = Console::new("", None, false, None);
    let (result, outcome) = match execute(&plan, &mut console, interrupt) {
        // The device's limits and this rule contradict each other.
        Err(Failure::Input(_)) => return Ok(Some(vec!["cannot be had alone on this device".to_owned()])),
        ended => ended?,
    };
    console.finish()?;
    if let Ending::Interrupted(_) = outcome {
        return Ok(None);
    }
    let variants = [Variant { label: "", result: base.result }, Variant { label: "", result: &result }];
    Ok(Some(compare::changes(&variants)))
}
