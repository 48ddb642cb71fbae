//! `elevon completions` and `elevon man`: made of the same definitions as `--help`.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::{Ending, Failure, FileError, emit};
use crate::output::NewFile;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Ending, Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "elevon", &mut out);
    emit(&String::from_utf8_lossy(&out))?;
    Ok(Ending::Done)
}

/// Writes `elevon.1` and a page for each command: `elevon-run.1`, `elevon-sweep-merge.1`.
pub(crate) fn pages(args: &ManArgs) -> Result<Ending, Failure> {
    if !args.folder.is_dir() {
        return Err(Failure::named(args.folder.display().to_string(), FileError::NotADirectory));
    }
    let written = clap_mangen::generate_to(Cli::command(), &args.folder);
    written.map_err(|error| NewFile::failure("", &args.folder, error))?;
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_completions() {
        let folder = tempfile::tempdir().expect("a folder");
        pages(&ManArgs { folder: folder.path().to_owned() }).expect("pages");
        for (name, part) in [("elevon", "elevon"), ("elevon-run", "JOB.fio"), ("elevon-sweep-merge", "shards")] {
            let text = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(name);
            assert!(text.contains(".TH") && text.contains(part), "{name}: {text}");
        }
        for command in Cli::command().get_subcommands() {
            assert!(folder.path().join(format!("elevon-{}.1", command.get_name())).exists(), "{}", command.get_name());
        }
        assert!(pages(&ManArgs { folder: folder.path().join("none") }).is_err());
    }
}
