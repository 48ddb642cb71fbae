//! `elevon reproduce`: repeats published experiments and prints the published figures beside
//! Elevon's.
//!
//! All figures of Elevon come from runs made at that moment. A note beside each says whether it was
//! fitted to a published figure ("calibrated", "by construction"), chosen with one in view
//! ("chosen"), or predicted. Fitted are baselines, with two exceptions that the reports name: the
//! memory of proposal 001's third measurement, and the cost of a lookup of proposal 004.

mod aligned_bio;
mod bfq_injection;
mod conclusions;
mod content_ioprio;
mod io_throttle;
mod io_ticks;
mod lab;
mod parameters;

use elevon_report::document::Document;

use crate::args::ReproduceArgs;
use crate::failure::{ConflictError, Ending, Failure, UnknownName, all, emit};
use crate::output::NewFile;
use lab::Lab;

struct Experiment {
    name: &'static str,
    summary: &'static str,
    run: fn(&Lab) -> Result<Document, Failure>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "aligned-bio",
        summary: "proposal 001: full bios that ignore the queue limit leave small tails; UFS 4.0 without them",
        run: aligned_bio::report,
    },
    Experiment {
        name: "bfq-injection",
        summary: "proposal 002: five weighted random readers under BFQ, 25 to 100 MB/s by serving others while one waits",
        run: bfq_injection::report,
    },
    Experiment {
        name: "content-ioprio",
        summary: "proposal 000: priority by the activity of cached pages; four cases, an oracle and chance as controls",
        run: content_ioprio::report,
    },
    Experiment {
        name: "io-throttle",
        summary: "proposal 004: what throttle hooks cost without a rule, a counter that spares it; RT and BE limited",
        run: io_throttle::report,
    },
    Experiment {
        name: "io-ticks",
        summary: "proposal 003: a busy disk that shows 69 % busy; four forms of utilisation on the same requests",
        run: io_ticks::report,
    },
];

/// Iterates over the names of the experiments.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|experiment| experiment.name)
}

pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Ending, Failure> {
    let Some(name) = &args.name else {
        if args.html.is_some() {
            return Err(Failure::named("reproduce --html", ConflictError::NoExperiment));
        }
        emit(&list())?;
        return Ok(Ending::Done);
    };
    let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) else {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        let unknown =
            UnknownName { kind: "experiment", name: name.clone(), meant: String::new(), known: known.join(", ") };
        return Err(Failure::named("reproduce", unknown));
    };
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let lab = Lab::on_signals(experiment.name, args.full)?;
    let document = match (experiment.run)(&lab) {
        Ok(document) => document,
        Err(failure) => return lab.interrupted_by().map(Ending::Interrupted).ok_or(failure),
    };
    drop(lab);
    let printed = emit(&document.text());
    let page = page.map_or(Ok(()), |file| file.commit(document.html("simulated devices").as_bytes()));
    all([printed, page])?;
    Ok(Ending::Done)
}

fn list() -> String {
    let line = |e: &Experiment| format!("  {:<14} {}\n", e.name, e.summary);
    let lines: String = EXPERIMENTS.iter().map(line).collect();
    format!("Experiments (elevon reproduce NAME):\n\n{lines}")
}
