//! `cargo xtask quick`: the part of `.ci/run` that finds most mistakes, in under two minutes after
//! the first build.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use clap::Args;

/// Check the format, lints of the crates that changed, the rules of the tree, and the core's tests
///
/// A crate changed if a file of it differs from the commit at which the branch left `--base`.
#[derive(Args, Clone, Debug)]
pub struct QuickArgs {
    /// The branch from which this one comes
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    base: String,
}

/// Runs the steps one after the other.
///
/// # Errors
/// A step failed, or cannot be started.
pub fn quick(args: &QuickArgs) -> Result<(), String> {
    step("format", &["fmt", "--all", "--check"])?;
    let changed = changed(&args.base)?;
    if changed.is_empty() {
        println!("== lints: no crate differs from {} ==", args.base);
    } else {
        let mut lints = vec!["clippy", "--all-targets", "--locked"];
        lints.extend(changed.iter().flat_map(|krate| ["-p", krate.as_str()]));
        lints.extend(["--", "-D", "warnings"]);
        step("lints", &lints)?;
    }
    step("rules of the tree", &["test", "-p", "elevon", "--test", "tidy", "--locked"])?;
    step("tests of the core", &["test", "-p", "elevon-core", "--lib", "--locked"])
}

/// Runs cargo with these arguments, and prints how long it took.
fn step(name: &str, cargo: &[&str]) -> Result<(), String> {
    println!("== {name} ==");
    let start = Instant::now();
    let done = Command::new(env!("CARGO")).args(cargo).status();
    let done = done.map_err(|error| format!("cargo {}: {error}", cargo.join(" ")))?;
    if !done.success() {
        return Err(format!("{name}: cargo {} failed", cargo.join(" ")));
    }
    println!("== {name}: {:.0} s ==", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the crates of which a file differs from where the branch left `base`.
fn changed(base: &str) -> Result<BTreeSet<String>, String> {
    let fork = git(&["merge-base", "HEAD", base])?;
    let tracked = git(&["diff", "--name-only", fork.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(crates_of(tracked.lines().chain(new.lines())))
}

/// Returns the names of the crates in which these files are.
fn crates_of<'a>(files: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let folders = files.filter_map(|file| file.strip_prefix("crates/")?.split('/').next());
    let there = folders.filter(|folder| Path::new("crates").join(folder).is_dir());
    there.map(str::to_owned).collect()
}

fn git(args: &[&str]) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("git {}: {error}", args.join(" "));
    let output = Command::new("git").args(args).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
