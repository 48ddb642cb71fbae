//! Runs the command in a separate folder.

#![allow(dead_code)] // : each test file uses a part of it

pub(crate) mod browser;
pub(crate) mod exposition;
pub(crate) mod faulty;
pub(crate) mod guest;
pub(crate) mod http;
pub(crate) mod nbd;
pub(crate) mod nbdkit;
pub(crate) mod one_file;
pub(crate) mod records;
pub(crate) mod served;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// A folder with job files that is removed after the test.
pub(crate) struct Bench(tempfile::TempDir);

impl Bench {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its name.
    pub(crate) fn file<'a>(&self, name: &'a str, content: impl AsRef<[u8]>) -> &'a str {
        std::fs::write(self.path(name), content).expect("a file written");
        name
    }

    /// Returns the command, to be run in this folder.
    pub(crate) fn elevon(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(self.0.path()).args(args);
        command
    }

    /// Returns the command's output; the command must succeed.
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.elevon(args).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "elevon {}: {stderr}", args.join(" "));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Returns the JSON report of `run JOB ARGS`.
    pub(crate) fn json(&self, job: &str, args: &[&str]) -> Value {
        let args = [&["run", job, "--output-format", "json"], args].concat();
        serde_json::from_str(&self.stdout(&args)).expect("JSON")
    }

    /// Returns the sorted names of the files in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Returns the path of a file of the records of real kernels.
pub(crate) fn kernel_truth(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kernel-truth").join(name)
}
