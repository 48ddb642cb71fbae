//! `elevon completions` and `elevon man`: made of the same definitions as `--help`.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use elevon_core::kernel::Kernel;
use elevon_core::sched::SCHEDULERS;
use elevon_plan::failure::{Ending, Failure, FileError};
use elevon_plan::output::NewFile;
use elevon_sim::device::fault::kinds::KINDS;
use elevon_sim::profiles;
use elevon_trace::TraceFormat;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::reproduce;
use crate::terminal::emit;

/// Returns the command with the names that its values may have. Only shells get them: a device may
/// be a path, too, and names may have parameters behind them.
fn with_names() -> Command {
    let devices: Vec<&str> = profiles::names().collect();
    let schedulers: Vec<&str> = SCHEDULERS.iter().map(|scheduler| scheduler.name).collect();
    let kernels: Vec<&str> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
    let faults: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let formats: Vec<&str> = TraceFormat::ALL.iter().map(|format| format.name()).collect();
    let experiments: Vec<&str> = reproduce::names().collect();
    Cli::command().mut_subcommands(|command| {
        let of = command.get_name().to_owned();
        command.mut_args(|arg| {
            let names = match (of.as_str(), arg.get_id().as_str()) {
                // What is captured is a disk of this machine.
                ("capture", _) => return arg,
                (_, "device") | ("devices", "name") => &devices,
                (_, "scheduler") | ("schedulers", "name") => &schedulers,
                (_, "kernel") | ("kernels", _) => &kernels,
                ("faults", "name") => &faults,
                ("formats", "name") => &formats,
                ("reproduce", "name") => &experiments,
                _ => return arg,
            };
            arg.value_parser(PossibleValuesParser::new(names.iter().copied()))
        })
    })
}

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Ending, Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut with_names(), "elevon", &mut out);
    emit(&String::from_utf8_lossy(&out))?;
    Ok(Ending::Done)
}

/// Writes `elevon.1` and a page for each command: `elevon-run.1`, `elevon-sweep-merge.1`.
pub(crate) fn pages(args: &ManArgs) -> Result<Ending, Failure> {
    let name = args.folder.display().to_string();
    if args.folder.exists() && !args.folder.is_dir() {
        return Err(Failure::named(name, FileError::NotADirectory));
    }
    std::fs::create_dir_all(&args.folder).map_err(|error| Failure::named(name, error))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_page(&command, &args.folder)?;
    Ok(Ending::Done)
}

/// Writes the page of a command and those of its subcommands.
fn write_page(command: &Command, folder: &Path) -> Result<(), Failure> {
    let page = clap_mangen::Man::new(command.clone());
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| NewFile::failure("", &path, error))?;
    NewFile::create("", &path)?.commit(&text)?;
    command
        .get_subcommands()
        .filter(|of| !of.is_hide_set())
        .try_for_each(|of| write_page(of, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_know_the_names_of_what_there_is() {
        let command = with_names();
        let values = |of: &str, id: &str| {
            let command = command.find_subcommand(of).expect(of);
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).expect(id);
            arg.get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect::<Vec<_>>()
        };
        for (of, id, name) in [
            ("run", "device", "hdd-7200"),
            ("sweep", "scheduler", "bfq"),
            ("replay", "kernel", "6.12"),
            ("devices", "name", "hdd-7200"),
            ("kernels", "to", "6.12"),
            ("reproduce", "name", "io-ticks"),
        ] {
            assert!(
                values(of, id).iter().any(|value| value == name),
                "{of} {id}: {:?}",
                values(of, id)
            );
        }
    }

    #[test]
    fn every_command_has_a_page_and_completions() {
        let folder = tempfile::tempdir().expect("a folder");
        pages(&ManArgs { folder: folder.path().to_owned() }).expect("pages");
        for (name, part) in
            [("elevon", "elevon"), ("elevon-run", "JOB.fio"), ("elevon-sweep-merge", "shards")]
        {
            let text =
                std::fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(name);
            assert!(text.contains(".TH") && text.contains(part), "{name}: {text}");
        }
        for command in Cli::command().get_subcommands() {
            assert!(
                folder.path().join(format!("elevon-{}.1", command.get_name())).exists(),
                "{}",
                command.get_name()
            );
        }
        let new = folder.path().join("share/man1");
        pages(&ManArgs { folder: new.clone() }).expect("a folder is made");
        let error =
            pages(&ManArgs { folder: new.join("elevon.1") }).expect_err("a file").to_string();
        assert!(error.contains("elevon.1: is not a directory; name a folder"), "{error}");
    }
}
