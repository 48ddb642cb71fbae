//! Which rules of a kernel version make the difference between two runs: each rule that differs is
//! switched alone, and a rule is named if that changes a figure.

use std::fmt::Write;

use elevon_core::kernel::{Kernel, RULES};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::plan::Plan;
use elevon_report::compare::{self, FigureChange, RuleChange, RulesBetween, Variant};
use elevon_report::wrap::wrapped;
use elevon_result::result::RunResult;

use crate::console::Console;
use crate::kernels::differences;

/// I/Os of a run above which rules are not tried one by one.
const MAX_IOS: u64 = 300_000;
/// Parts of the block layer in which a rule changes no figure of a comparison, and is not tried.
const WITHOUT_FIGURES: [&str; 2] = ["events", "queue attributes"];

/// A run whose rules are compared with another's.
#[derive(Clone, Copy)]
pub(crate) struct Compared<'a> {
    /// The letter of its column.
    pub(crate) letter: char,
    pub(crate) plan: &'a Plan,
    pub(crate) result: &'a RunResult,
}

/// Returns the rules that make the difference between two runs; `None` if their kernels are the
/// same, the device is real, or the run was interrupted.
pub(crate) fn rules(
    base: Compared<'_>,
    other: Compared<'_>,
    interrupt: &Interrupt,
) -> Result<Option<RulesBetween>, Failure> {
    let (from, to) = (base.plan.kernel, other.plan.kernel);
    if from == to || base.plan.is_real() || other.plan.is_real() {
        return Ok(None);
    }
    let names: Vec<&str> = differences(from, to)
        .filter(|row| !WITHOUT_FIGURES.contains(&row.area))
        .map(|row| row.name)
        .collect();
    let ios = compare::all_ios(base.result);
    let mut between = RulesBetween {
        letters: [base.letter, other.letter],
        kernels: [from.name(), to.name()],
        differ: differences(from, to).count(),
        ios,
        rules: None,
    };
    if ios > MAX_IOS {
        return Ok(Some(between));
    }
    let mut changing = Vec::new();
    for (index, row) in RULES.iter().enumerate().filter(|(_, row)| names.contains(&row.name)) {
        let figures = match alone(base, index, to, interrupt)? {
            Alone::Changes(figures) if figures.is_empty() => continue,
            Alone::Changes(figures) => Some(figures),
            Alone::Impossible => None,
            Alone::Interrupted => return Ok(None),
        };
        changing.push(RuleChange {
            name: row.name,
            area: row.area,
            says: (row.says)(&to.rules()),
            figures,
        });
    }
    between.rules = Some(changing);
    Ok(Some(between))
}

/// Formats the rules as text.
pub(crate) fn text(all: &[RulesBetween]) -> String {
    let mut text = String::new();
    for RulesBetween { letters: [a, b], kernels: [from, to], differ, ios, rules } in all {
        let _ = write!(text, "\nRules between {a} ({from}) and {b} ({to})");
        let Some(rules) = rules else {
            let _ = writeln!(
                text,
                ": {differ} differ. They are tried one by one on runs of up to {MAX_IOS} I/Os; this one has {ios}.\n\
                 elevon kernels {from} {to} lists them."
            );
            continue;
        };
        let _ = writeln!(text, ", each switched alone in {a}:");
        for rule in rules {
            let _ = writeln!(text, "\n  {} ({})", rule.name, rule.area);
            wrapped(&mut text, "    ", &format!("{to}: {}", rule.says));
            let figures = |all: &Vec<FigureChange>| {
                all.iter().map(|figure| figure.text.as_str()).collect::<Vec<_>>().join(", ")
            };
            let told = rule.figures.as_ref().map_or(
                "cannot be had alone with this device and these settings".to_owned(),
                figures,
            );
            wrapped(&mut text, "    ", &told);
        }
        let _ = match rules.len() {
            0 => writeln!(text, "  none of the {differ} that differ changes a figure alone"),
            named => writeln!(text, "\n  the {} others change no figure alone", differ - named),
        };
    }
    text
}

/// What switching one rule does.
enum Alone {
    Changes(Vec<FigureChange>),
    /// The device's limits or the settings contradict this rule.
    Impossible,
    Interrupted,
}

/// Runs `base` with one rule of `to`, and returns the figures that change.
fn alone(
    base: Compared<'_>,
    rule: usize,
    to: Kernel,
    interrupt: &Interrupt,
) -> Result<Alone, Failure> {
    let mut plan = base.plan.clone();
    plan.other_rule = Some((rule, to));
    let mut console = Console::new("", None, false, None);
    let (result, outcome) = match execute(&plan, &mut console, interrupt) {
        Err(Failure::Input(_)) => return Ok(Alone::Impossible),
        ended => ended?,
    };
    console.finish()?;
    if let Ending::Interrupted(_) = outcome {
        return Ok(Alone::Interrupted);
    }
    let variants =
        [Variant { label: "", result: base.result }, Variant { label: "", result: &result }];
    Ok(Alone::Changes(compare::changes(&variants)))
}
