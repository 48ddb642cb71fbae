//! What a job file may ask of the world around it. The parser reads nothing by itself, so that a test, a fuzzer and a
//! server can each give it a world of their own.

use std::collections::BTreeMap;

/// Numbers that `$pagesize`, `$mb_memory` and `$ncpus` stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes in a page of memory.
    pub page_size: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// CPUs online.
    pub cpus: u64,
}

/// Files and environment of a job file.
pub trait JobSource {
    /// The text of a job file or of one that it includes.
    ///
    /// # Errors
    /// Why it cannot be read, in a few words ("No such file or directory").
    fn read(&mut self, name: &str) -> Result<String, String>;
    /// The environment variable `name`, for `${name}`; unset ones expand to nothing.
    fn variable(&self, name: &str) -> Option<String>;
    /// The machine, for `$pagesize` and its kin.
    fn machine(&self) -> Machine;
}

/// A world of strings.
#[derive(Clone, Debug)]
pub struct MemorySource {
    /// Text by file name.
    pub files: BTreeMap<String, String>,
    /// Value by variable.
    pub variables: BTreeMap<String, String>,
    /// The machine it pretends to be on: 4096-byte pages, 16 GiB, 8 CPUs unless changed.
    pub machine: Machine,
}

impl MemorySource {
    /// A world of one file.
    pub fn one(name: &str, text: &str) -> Self {
        Self {
            files: BTreeMap::from([(name.to_owned(), text.to_owned())]),
            variables: BTreeMap::new(),
            machine: Machine { page_size: 4096, memory_mb: 16384, cpus: 8 },
        }
    }
}

impl JobSource for MemorySource {
    fn read(&mut self, name: &str) -> Result<String, String> {
        self.files.get(name).cloned().ok_or_else(|| "No such file or directory".to_owned())
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
    fn machine(&self) -> Machine {
        self.machine
    }
}

/// The real world: files of the host and the environment of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostSource;

impl JobSource for HostSource {
    fn read(&mut self, name: &str) -> Result<String, String> {
        let bytes = std::fs::read(name).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "No such file or directory".to_owned(),
            _ => error.to_string(),
        })?;
        String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
    fn machine(&self) -> Machine {
        let memory_kb = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok())
        });
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        Machine { page_size: 4096, memory_mb: memory_kb.unwrap_or(0u64) / 1024, cpus }
    }
}
