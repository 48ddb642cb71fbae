//! `elevon watch`: what the disks of this machine do now.

mod guard;
#[cfg(feature = "terminal")]
mod heat;
mod machine;
#[cfg(feature = "terminal")]
mod screen;
mod source;
#[cfg(feature = "terminal")]
mod terminal;
mod trial;
#[cfg(feature = "terminal")]
mod what_if;

use elevon_formats::quantity::{self, Short};
use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError, ValueError};
use elevon_watch::{GroupBy, json, text};

use crate::args::{By, TextOrJson, WatchArgs};
use crate::capture::failure;
use crate::terminal::{emit, emit_text, tell};
use machine::{Processes, disks_to_watch};
use source::Source;

pub(crate) fn watch(args: &WatchArgs) -> Result<Ending, Failure> {
    let buffer_kb = buffer_kb(&args.buffer)?;
    let disks = disks_to_watch(&args.devices)?;
    let trial = args.setting.as_deref().map(|setting| trial::plan(setting, &disks)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    // Its line would stand among those of the report, and nothing is in flight.
    interrupt.silence();
    let mut source = Source::open(disks, args.tracefs.as_deref(), buffer_kb)?;
    let mut processes = Processes::default();
    let seconds = usize::from(args.seconds);
    let by = match args.by {
        By::Process => GroupBy::Process,
        By::Unit => GroupBy::Unit,
    };
    let ended = if let Some(trial) = trial {
        trial::run(&trial, &mut source, &interrupt, args)
    } else if is_for_a_screen(args) {
        show(&mut source, &mut processes, seconds, by, &interrupt)
    } else {
        print(&mut source, &mut processes, args, by, &interrupt)
    };
    // Whatever happened, the trace instance goes.
    let closed = source.close();
    let ending = ended?;
    closed?;
    Ok(ending)
}

/// Prints intervals as text or JSON until a signal comes, or one.
fn print(
    source: &mut Source,
    processes: &mut Processes,
    args: &WatchArgs,
    by: GroupBy,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let seconds = usize::from(args.seconds);
    let mut waited = 0;
    loop {
        if !source.wait_for_slice(interrupt)? {
            return Ok(Ending::Done);
        }
        processes.forget_old();
        waited += 1;
        if waited < seconds {
            continue;
        }
        waited = 0;
        let now = source.watch().now(seconds, by, processes);
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
            return Ok(Ending::Done);
        }
    }
}

/// Returns true if there is a terminal, and nothing else is asked for.
fn is_for_a_screen(args: &WatchArgs) -> bool {
    cfg!(feature = "terminal")
        && !args.once
        && args.output_format == TextOrJson::Normal
        && std::io::IsTerminal::is_terminal(&std::io::stdout())
}

#[cfg(feature = "terminal")]
fn show(
    source: &mut Source,
    processes: &mut Processes,
    seconds: usize,
    by: GroupBy,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    terminal::show(source, processes, seconds, by, interrupt)
}

#[cfg(not(feature = "terminal"))]
fn show(
    _: &mut Source,
    _: &mut Processes,
    _: usize,
    _: GroupBy,
    _: &Interrupt,
) -> Result<Ending, Failure> {
    unreachable!("without a terminal view intervals are printed")
}

/// Reads `--buffer`.
fn buffer_kb(text: &str) -> Result<u64, Failure> {
    let kb = quantity::size(text, Short::Binary).ok().map(|size| size.get().div_ceil(1024));
    kb.filter(|kb| crate::capture::BUFFER_KB.contains(kb)).ok_or_else(|| {
        let expected =
            ValueError::expected("a size from 64K to 4G, or the same in KiB, MiB or GiB");
        Failure::named(format!("--buffer {text}"), expected)
    })
}

/// Says what an earlier `elevon` left behind.
fn say_leftovers(names: &[String]) {
    for name in names {
        tell(&format!("removed the trace instance {name}, whose elevon had been killed"));
    }
}
