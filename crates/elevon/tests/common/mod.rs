//! Runs the command in a folder of its own.

#![allow(dead_code)] // each test file uses its part

pub(crate) mod records;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// A folder with job files that goes away with the test.
pub(crate) struct Bench(tempfile::TempDir);

impl Bench {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and gives its name.
    pub(crate) fn file<'a>(&self, name: &'a str, content: impl AsRef<[u8]>) -> &'a str {
        std::fs::write(self.path(name), content).expect("a file written");
        name
    }

    /// The command in this folder.
    pub(crate) fn elevon(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(self.0.path()).args(args);
        command
    }

    /// What the command prints; it must succeed.
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.elevon(args).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "elevon {}: {stderr}", args.join(" "));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The JSON of `run JOB ARGS`.
    pub(crate) fn json(&self, job: &str, args: &[&str]) -> Value {
        let args = [&["run", job, "--output-format", "json"], args].concat();
        serde_json::from_str(&self.stdout(&args)).expect("JSON")
    }

    /// Names of the files in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A file of the project's records of real kernels.
pub(crate) fn kernel_truth(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name)
}
