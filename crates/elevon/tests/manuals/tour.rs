//! The output that the README's tour shows is what its commands print. Those of `elevon reproduce`
//! are held to it by `reproduce.rs`.

#![cfg(unix)]

use std::path::Path;
use std::process::Command;

/// Returns the blocks of the tour that begin with a command, without those that need what a reader
/// has to bring (a trace, a file) and those that another test runs.
fn blocks(readme: &str) -> Vec<&str> {
    let needs = ["elevon reproduce", "--device ./", "trace.txt", "elevon sweep"];
    let is_wanted = |block: &&str| {
        block.starts_with("$ elevon ") && !needs.iter().any(|need| block.contains(need))
    };
    readme.split("```\n").filter(is_wanted).collect()
}

/// Returns what the command prints, run by a shell in `folder`.
fn printed(command: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_elevon")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(folder).output();
    String::from_utf8(output.expect("the command ran").stdout).expect("UTF-8")
}

/// Returns true if the words are among those of the line, in this order: the README leaves out
/// columns.
fn has_words(line: &str, words: &str) -> bool {
    let mut rest = line.split_whitespace();
    words.split_whitespace().all(|word| rest.any(|one| one == word))
}

#[test]
fn the_tour_shows_what_its_commands_print() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["jobs", "tests"] {
        std::os::unix::fs::symlink(root.join(name), folder.path().join(name)).expect("a link");
    }
    let (mut commands, mut missing) = (0, Vec::new());
    for block in blocks(&readme) {
        let mut output = String::new();
        for line in block.lines().filter(|line| !line.is_empty() && *line != "...") {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    output = printed(command, folder.path());
                    commands += 1;
                }
                None if output.lines().any(|printed| has_words(printed, line)) => {}
                None => missing.push(line),
            }
        }
    }
    assert!(commands >= 6, "{commands} commands of the tour were run");
    assert!(missing.is_empty(), "not printed any more:\n{}", missing.join("\n"));
}
