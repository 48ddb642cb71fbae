//! `cargo xtask hide-tools`: hides each external program in turn, and runs the tests that use it.
//!
//! A test that lacks a program has to skip with a line that says so, whichever of its programs is
//! missing. Tests ask for programs through `elevon_testkit::tool`, which logs them.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use elevon_testkit::{REQUIRE_TOOLS, TOOLS_LOG};

/// Hide each external program in turn, and run the tests that use it
///
/// The tests have to be run before with ELEVON_TOOLS_LOG=FILE, in which they note what they use.
/// A test that fails without a program gives exit status 1.
#[derive(Args, Clone, Debug)]
pub struct HideArgs {
    /// What the tests have noted
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Programs; all that the tests use if none is named
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

/// A test binary, with the folder in which it runs.
type Binary = (PathBuf, PathBuf);
/// The tests that use a program, by their binaries; an empty name stands for all of a binary.
type Users = BTreeMap<Binary, BTreeSet<String>>;

/// Runs the tests.
///
/// # Errors
/// The log cannot be read or names nothing of what was asked for, or a test fails.
pub fn hide_tools(args: &HideArgs) -> Result<(), String> {
    let text = fs::read_to_string(&args.log)
        .map_err(|error| format!("{}: {error}", args.log.display()))?;
    let mut users = users(&text);
    if let Some(unknown) = args.tools.iter().find(|tool| !users.contains_key(*tool)) {
        return Err(format!("{unknown}: no test uses it, by {}", args.log.display()));
    }
    users.retain(|tool, _| args.tools.is_empty() || args.tools.contains(tool));
    if users.is_empty() {
        return Err(format!("{}: no test has noted a program", args.log.display()));
    }
    let programs =
        Programs::new().map_err(|error| format!("cannot make a folder of programs: {error}"))?;
    let mut failed = Vec::new();
    for (tool, users) in &users {
        let tests: usize = users.values().map(BTreeSet::len).sum();
        let done = programs.without(tool, |path| run(users, path));
        match done.map_err(|error| format!("{tool}: {error}"))? {
            errors if errors.is_empty() => {
                println!("without {tool}: {tests} tests pass or are skipped");
            }
            errors => {
                eprintln!("without {tool}: tests fail\n{errors}");
                failed.push(tool.as_str());
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("tests fail without {}", failed.join(", ")))
    }
}

/// Reads a log: the tests that use each program.
fn users(log: &str) -> BTreeMap<String, Users> {
    let mut all: BTreeMap<String, Users> = BTreeMap::new();
    for line in log.lines() {
        let [tool, binary, folder, test] = line.split('\t').collect::<Vec<_>>()[..] else {
            continue;
        };
        // A test that is alone in its process has no thread of its own.
        let test = if test == "main" { "" } else { test };
        let tests = all
            .entry(tool.to_owned())
            .or_default()
            .entry((binary.into(), folder.into()))
            .or_default();
        tests.insert(test.to_owned());
    }
    all
}

/// Runs tests with a PATH, and returns what failing ones print.
fn run(users: &Users, path: &Path) -> io::Result<String> {
    let mut errors = String::new();
    for ((binary, folder), tests) in users {
        let mut command = Command::new(binary);
        command
            .current_dir(folder)
            .env("PATH", path)
            .env_remove(REQUIRE_TOOLS)
            .env_remove(TOOLS_LOG);
        if !tests.contains("") {
            command.arg("--exact").args(tests);
        }
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            errors += &String::from_utf8_lossy(&output.stdout);
        }
    }
    Ok(errors)
}

/// A folder with a link to each program of the PATH.
struct Programs {
    folder: tempfile::TempDir,
    targets: BTreeMap<String, PathBuf>,
}

impl Programs {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut targets = BTreeMap::new();
        for directory in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            // A folder of the PATH may be missing.
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let is_program =
                    |file: fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
                if let (Ok(name), true) =
                    (entry.file_name().into_string(), entry.path().metadata().is_ok_and(is_program))
                {
                    targets.entry(name).or_insert_with(|| entry.path());
                }
            }
        }
        for (name, target) in &targets {
            symlink(target, folder.path().join(name))?;
        }
        Ok(Self { folder, targets })
    }

    /// Calls a function with the folder while it lacks a program.
    fn without<T>(&self, name: &str, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let link = self.folder.path().join(name);
        let target = self.targets.get(name);
        if target.is_some() {
            fs::remove_file(&link)?;
        }
        let done = act(self.folder.path());
        if let Some(target) = target {
            symlink(target, link)?;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_who_uses_what() {
        let all = users(
            "fio\t/t/a\t/w\tm::one\nfio\t/t/a\t/w\tm::two\nfio\t/t/b\t/w\tmain\njq\t/t/a\t/w\tm::one\ncut\n",
        );
        let of = |tool: &str| all[tool].values().map(BTreeSet::len).collect::<Vec<_>>();
        assert_eq!((all.len(), of("fio"), of("jq")), (2, vec![2, 1], vec![1]));
        let alone = &all["fio"][&("/t/b".into(), "/w".into())];
        assert!(alone.contains(""), "the whole binary is run");
    }

    #[test]
    fn a_program_is_hidden_and_comes_back() {
        let programs = Programs::new().expect("a folder");
        let finds = |path: &Path| {
            let found = Command::new("/bin/sh")
                .args(["-c", "command -v env"])
                .env("PATH", path)
                .output()?;
            Ok(found.status.success())
        };
        assert!(!programs.without("env", finds).expect("no error"));
        assert!(programs.without("no-such-program", finds).expect("no error"));
    }
}
