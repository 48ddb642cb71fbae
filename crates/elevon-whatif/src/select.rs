//! Which part of a trace is taken: `--from`, `--until`, `--process`, `--cgroup`, and processes that
//! an option names.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elevon_core::units::Nanos;
use elevon_formats::quantity;
use elevon_plan::failure::{Failure, UnknownName, ValueError};
use elevon_trace::replay::{Workload, WorkloadProcess};
use elevon_trace::{Selection, is_process, meant_and_known};

/// Where the cgroups of this machine are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The part of a trace that is taken, as texts.
#[derive(Clone, Debug, Default)]
pub struct SelectOptions {
    /// Only I/O from this time on; `None` for the start.
    pub from: Option<String>,
    /// Only I/O before this time; `None` for the end.
    pub until: Option<String>,
    /// Only I/O of these processes, each a name, an id, or both; none for all.
    pub processes: Vec<String>,
    /// Only I/O of these cgroups, each an id or a folder; none for all.
    pub cgroups: Vec<String>,
}

/// Returns what the options select.
///
/// # Errors
/// A time or a cgroup is wrong.
pub fn selection(options: &SelectOptions) -> Result<Selection, Failure> {
    let time = |option: &str, text: &Option<String>| {
        let text = text.as_deref();
        let parse = |text| {
            let expected =
                "a time with its unit since the first event of the device, such as 2s or 350ms";
            let parsed = quantity::time(text).map(Nanos::get);
            parsed.map_err(|_| {
                Failure::named(format!("{option} {text}"), ValueError::expected(expected))
            })
        };
        text.map(parse).transpose()
    };
    let (from, until) = (time("--from", &options.from)?, time("--until", &options.until)?);
    if let (Some(text), Some(until)) = (&options.until, until)
        && until <= from.unwrap_or(0)
    {
        let after =
            options.from.as_ref().map_or_else(|| "0s".to_owned(), |from| format!("--from {from}"));
        return Err(Failure::named(
            format!("--until {text}"),
            ValueError::expected(format!("a time after {after}")),
        ));
    }
    let cgroups = options.cgroups.iter().map(|text| cgroup(text)).collect::<Result<_, _>>()?;
    Ok(Selection { from, until, processes: options.processes.clone(), cgroups })
}

/// Returns the id of a cgroup: a number, or that of a folder of this machine.
fn cgroup(text: &str) -> Result<u64, Failure> {
    if let Ok(id) = text.strip_prefix("cgroup-").unwrap_or(text).parse() {
        return Ok(id);
    }
    let path = match Path::new(text).starts_with(CGROUPS) {
        true => PathBuf::from(text),
        false => Path::new(CGROUPS).join(text.trim_start_matches('/')),
    };
    // The kernel numbers a cgroup by the inode of its folder.
    let found = path.metadata().ok().filter(std::fs::Metadata::is_dir);
    found.map(|found| found.ino()).ok_or_else(|| {
        let expected = format!(
            "the id that events have, such as 42, or the folder of a cgroup of this machine, and {} is none",
            path.display()
        );
        Failure::named(format!("--cgroup {text}"), ValueError::expected(expected))
    })
}

/// Returns the options as words of a command line.
pub(crate) fn words(options: &SelectOptions) -> Vec<String> {
    let SelectOptions { from, until, processes, cgroups } = options;
    let all =
        from.iter().map(|text| ("--from", text)).chain(until.iter().map(|text| ("--until", text)));
    let all = all.chain(processes.iter().map(|text| ("--process", text)));
    let all = all.chain(cgroups.iter().map(|text| ("--cgroup", text)));
    all.flat_map(|(option, text)| [option.to_owned(), text.clone()]).collect()
}

/// Returns the first of the options that was given.
pub fn given(options: &SelectOptions) -> Option<&'static str> {
    let SelectOptions { from, until, processes, cgroups } = options;
    let all = [
        (from.is_some(), "--from"),
        (until.is_some(), "--until"),
        (!processes.is_empty(), "--process"),
        (!cgroups.is_empty(), "--cgroup"),
    ];
    all.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
}

/// Returns the processes of a workload with a name, an id, or both. `option` is what names them.
pub(crate) fn processes(
    workload: &Workload,
    option: &str,
    text: &str,
) -> Result<Vec<usize>, Failure> {
    let is_named =
        |process: &WorkloadProcess| is_process(text, process.name.as_deref(), process.id);
    let all = workload.processes.iter().enumerate();
    let found: Vec<usize> =
        all.filter(|(_, process)| is_named(process)).map(|(at, _)| at).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let processes = workload.processes.iter().map(|process| (process.name.as_deref(), process.id));
    let (meant, known) = meant_and_known(text, processes);
    Err(Failure::named(
        option,
        UnknownName { kind: "process", name: text.to_owned(), meant, known },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(from: Option<&str>, until: Option<&str>, cgroups: &[&str]) -> SelectOptions {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let cgroups = cgroups.iter().map(|&text| text.to_owned()).collect();
        SelectOptions {
            from: text(from),
            until: text(until),
            processes: vec!["a b".into()],
            cgroups,
        }
    }

    #[test]
    fn times_have_units_and_an_order() {
        let found =
            selection(&args(Some("350ms"), Some("2s"), &["42", "cgroup-7"])).expect("good options");
        assert_eq!(
            (found.from, found.until, found.cgroups),
            (Some(350_000_000), Some(2_000_000_000), vec![42, 7])
        );
        let words = words(&args(Some("350ms"), None, &["42"]));
        assert_eq!(words, ["--from", "350ms", "--process", "a b", "--cgroup", "42"]);
        for (from, until, cgroups, wanted) in [
            (Some("2"), None, &[][..], "--from 2: expected a time with its unit"),
            (Some("x"), None, &[], "--from x: expected a time with its unit"),
            (Some("5s"), Some("2s"), &[], "--until 2s: expected a time after --from 5s"),
            (Some("2s"), Some("2s"), &[], "--until 2s: expected a time after --from 2s"),
            (None, Some("0s"), &[], "--until 0s: expected a time after 0s"),
            (None, None, &["no/such"], "--cgroup no/such: expected the id that events have"),
        ] {
            let Err(Failure::Input(lines)) = selection(&args(from, until, cgroups)) else {
                panic!("{wanted}")
            };
            assert!(lines[0].to_string().starts_with(wanted), "{}", lines[0]);
        }
    }
}
