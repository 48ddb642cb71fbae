//! `elevon kernels`: the kernel versions, the rules of one, and what differs between two.

use std::fmt::Write;

use elevon_core::kernel::{Evidence, Kernel, RULES, RuleRow, Rules};
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::plan::kernel_named;
use elevon_report::wrap::wrapped;

use crate::args::KernelsArgs;
use crate::terminal::emit;

pub(crate) fn kernels(args: &KernelsArgs) -> Result<Ending, Failure> {
    let named = |name: &String| kernel_named("kernels", name);
    let text = match (&args.from, &args.to) {
        (None, _) => list(),
        (Some(name), None) => show(named(name)?),
        (Some(from), Some(to)) => compare(named(from)?, named(to)?),
    };
    emit(&text)?;
    Ok(Ending::Done)
}

fn list() -> String {
    let mut text = String::from("Kernel versions (--kernel VERSION):\n\n");
    let mut before: Option<Kernel> = None;
    for kernel in Kernel::ALL {
        let default = if kernel == Kernel::default() { ", the default" } else { "" };
        let _ = write!(text, "  {:<5} the rules of {}{default}", kernel.name(), kernel.release());
        if let Some(before) = before {
            let count = differences(before, kernel).count();
            let verb = if count == 1 { "differs" } else { "differ" };
            let _ = write!(text, "; {count} {verb} from {}", before.name());
        }
        text.push('\n');
        before = Some(kernel);
    }
    text.push_str(
        "\nelevon kernels 6.1          its rules\n\
         elevon kernels 6.1 7.3      what differs between two, and how it is known\n\
         elevon compare JOB --kernel 6.1 --vs '--kernel 7.3'    what that does to a job, and by which rules\n",
    );
    text
}

fn show(kernel: Kernel) -> String {
    let rules = kernel.rules();
    let mut text = format!("Linux {}, by the rules of {}:\n", kernel.name(), kernel.release());
    let mut area = "";
    for row in RULES {
        if row.area != area {
            let _ = write!(text, "\n{}\n", row.area);
            area = row.area;
        }
        wrapped(&mut text, "  - ", &format!("{} ({})", (row.says)(&rules), row.evidence.name()));
    }
    text
}

fn compare(from: Kernel, to: Kernel) -> String {
    let (old, new) = (from.rules(), to.rules());
    let count = differences(from, to).count();
    if count == 0 {
        return format!("Linux {} and {} have the same rules here.\n", from.name(), to.name());
    }
    let rules =
        if count == 1 { "1 rule differs".to_owned() } else { format!("{count} rules differ") };
    let mut text = format!("{rules} between Linux {} and {}:\n", from.release(), to.release());
    let width = from.name().len().max(to.name().len());
    let mut area = "";
    for row in differences(from, to) {
        if row.area != area {
            let _ = write!(text, "\n{}\n", row.area);
            area = row.area;
        }
        text.push('\n');
        wrapped(&mut text, &format!("  {:>width$}  ", from.name()), (row.says)(&old));
        wrapped(&mut text, &format!("  {:>width$}  ", to.name()), (row.says)(&new));
        let indent = " ".repeat(width + 4);
        let known = match row.evidence {
            Evidence::Measured => format!("Measured: {}.", row.source),
            Evidence::Read | Evidence::Remembered => format!("Not measured: {}.", row.source),
        };
        wrapped(&mut text, &indent, &known);
        wrapped(&mut text, &indent, &format!("Who notices: {}.", row.who));
        if !row.keep.is_empty() {
            wrapped(&mut text, &indent, &format!("The other way: {}.", row.keep));
        }
    }
    text
}

/// Returns the rules that differ between two versions.
pub(crate) fn differences(from: Kernel, to: Kernel) -> impl Iterator<Item = &'static RuleRow> {
    let (old, new): (Rules, Rules) = (from.rules(), to.rules());
    RULES.iter().filter(move |row| !row.is_same(&old, &new))
}
