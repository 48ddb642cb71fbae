//! Tests the command `elevon-swarm`: its output depends only on the seeds.

use std::process::{Command, Output};

fn swarm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_elevon-swarm"))
        .args(arguments)
        .output()
        .expect("the binary was built")
}

#[test]
fn threads_change_nothing_that_is_printed() {
    let range = ["--from", "3", "--to", "7", "--once", "--hashes", "--jobs"];
    let outputs = ["1", "3"].map(|jobs| swarm(&[&range[..], &[jobs]].concat()));
    let [one, three] = outputs.map(|output| String::from_utf8(output.stdout).expect("text"));
    assert_eq!(one, three);
    let seeds: Vec<&str> = one.lines().take(4).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(seeds, ["3", "4", "5", "6"]);
    assert!(
        one.lines()
            .nth(4)
            .is_some_and(|line| line.starts_with("no violation in 4 seeds from 3 on; ")),
        "{one}"
    );
}

#[test]
fn the_rate_goes_to_stderr() {
    let output = swarm(&["--from", "3", "--count", "1", "--once", "--jobs", "1"]);
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(errors.trim_end().ends_with(" seeds a second with --jobs 1"), "{errors}");
}

/// A reader such as `head` that closes the pipe ends no run with a panic, and the exit code still
/// tells of the seeds.
#[test]
fn a_closed_stdout_is_no_error() {
    for arguments in [&["--seed", "3"][..], &["--from", "3", "--count", "2", "--once", "--hashes"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon-swarm"));
        let output = command.args(arguments).stdout(writer).output().expect("it runs");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        assert!(!errors.contains("panicked"), "{errors}");
    }
}

#[test]
fn bad_arguments_end_with_two() {
    for (arguments, expected) in [
        (&["--from", "9", "--to", "9"][..], "expected a seed after --from 9"),
        (&["--count", "5", "--to", "9"], "cannot be used with"),
        (&["--seed", "1", "--from", "9"], "cannot be used with"),
        (&["--jobs", "0"], "not in 1..=1024"),
        (&["--seconds", "long"], "invalid digit"),
    ] {
        let output = swarm(arguments);
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}
