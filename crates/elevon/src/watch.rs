//! `elevon watch`: what the disks of this machine do now.

#[cfg(feature = "terminal")]
mod draw;
mod guard;
#[cfg(feature = "terminal")]
mod heat;
mod listen;
mod machine;
mod metrics;
mod report;
#[cfg(feature = "terminal")]
mod requests;
mod sampler;
#[cfg(feature = "terminal")]
mod screen;
mod source;
#[cfg(feature = "terminal")]
mod terminal;
mod trial;
#[cfg(feature = "terminal")]
mod what_if;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError, ValueError};
use elevon_plan::output::NewFile;
use elevon_watch::{GroupBy, json, text};

use crate::args::{By, TextOrJson, WatchArgs};
use crate::capture::{buffer_kb, failure};
use crate::terminal::{emit, emit_text, tell};
use machine::disks_to_watch;
use source::Source;

pub(crate) fn watch(args: &WatchArgs) -> Result<Ending, Failure> {
    let buffer_kb = buffer_kb(&args.buffer)?;
    let disks = disks_to_watch(&args.devices)?;
    if disks.is_empty() {
        let expected = "a disk with a size".to_owned();
        return Err(Failure::named("/sys/block".to_owned(), ValueError::expected(expected)));
    }
    let trial = args.setting.as_deref().map(|setting| trial::plan(setting, &disks)).transpose()?;
    let listening = args.listen.as_deref().map(listen::bind).transpose()?;
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    // Its line would stand among those of the report, and nothing is in flight.
    interrupt.silence();
    let are_all = args.devices.is_empty();
    let mut source = Source::open(disks, are_all, args.tracefs.as_deref(), buffer_kb)?;
    let ended = match (trial, listening) {
        (Some(trial), _) => trial::run(&trial, &mut source, &interrupt, args),
        (None, Some(listening)) => listen::serve(listening, &mut source, &interrupt),
        (None, None) => show(&mut source, args, page, &interrupt),
    };
    // Whatever happened, the trace instance goes.
    let closed = source.close();
    let ending = ended?;
    closed?;
    Ok(ending)
}

/// Shows the disks on a screen, or prints intervals.
fn show(
    source: &mut Source,
    args: &WatchArgs,
    page: Option<NewFile>,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let by = match args.by {
        By::Process => GroupBy::Process,
        By::Unit => GroupBy::Unit,
    };
    #[cfg(feature = "terminal")]
    if is_for_a_screen(args) {
        return terminal::show(source, args.seconds.into(), by, interrupt);
    }
    print(source, args, by, page, interrupt)
}

/// Prints intervals as text or JSON until a signal comes, or one. That one is written as a page,
/// too, if the user wants it.
fn print(
    source: &mut Source,
    args: &WatchArgs,
    by: GroupBy,
    page: Option<NewFile>,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let seconds = usize::from(args.seconds);
    let mut waited = 0;
    loop {
        if !source.wait_for_slice(interrupt)? {
            return Ok(Ending::Done);
        }
        waited += 1;
        if waited < seconds {
            continue;
        }
        waited = 0;
        let now = source.now(seconds, by);
        match args.output_format {
            TextOrJson::Json => emit(&format!("{}\n", json::now(&now)))?,
            TextOrJson::Normal => {
                emit_text(&text::now(&now))?;
                if args.once {
                    emit_text(&text::settings(source.watch()))?;
                }
            }
        }
        if args.once {
            if let Some(page) = page {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                page.commit(report::page(&now, source.watch(), host.trim()).as_bytes())?;
            }
            return Ok(Ending::Done);
        }
    }
}

/// Returns true if there is a terminal, and nothing else is asked for.
#[cfg(feature = "terminal")]
fn is_for_a_screen(args: &WatchArgs) -> bool {
    !args.once
        && args.output_format == TextOrJson::Normal
        && std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Says what an earlier `elevon` left behind.
fn say_leftovers(names: &[String]) {
    for name in names {
        tell(&format!("removed the trace instance {name}, whose elevon had been killed"));
    }
}
