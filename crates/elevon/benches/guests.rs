//! `elevon serve` beside qemu-storage-daemon as servers of vhost-user-blk, with a driver in user
//! space, so that no emulated processor hides the servers: the same file on tmpfs, in turns. Then
//! 64 guests of one server, of which one breaks the rules. Then the same emulated guest of Linux
//! with disks of both servers, and with QEMU's own.
//!
//! `cargo bench -p elevon --bench guests` prints the tables of `docs/evidence/serve.md` in about
//! fifteen minutes; `-- --rounds N` and `-- --only TEXT` (cells whose name has it; `crowd` for the
//! 64 guests, `emulated` for the emulated one) change that. Run by `cargo test` it only proves that
//! it runs. Goals: 1.2 times qemu-storage-daemon in every cell; p99 of a guest within 10 % beside a
//! guest that breaks the rules, and memory that does not grow.

#![cfg(target_os = "linux")]

#[path = "guests/crowd.rs"]
mod crowd;
#[path = "../tests/serve/vhost/driver.rs"]
#[allow(dead_code)] // : the tests use all of it
mod driver;
#[path = "guests/emulated.rs"]
mod emulated;
#[path = "../tests/common/guest.rs"]
#[allow(dead_code)] // : the same
mod guest;
#[path = "guests/process.rs"]
mod process;
#[path = "guests/speed.rs"]
mod speed;

use std::fs;
use std::path::PathBuf;

/// Bytes of the file.
const FILE: u64 = 256 << 20;
/// Where a file system in memory is, on every Linux.
const TMPFS: &str = "/dev/shm";

/// How much is measured.
struct Effort {
    /// Rounds of each cell.
    rounds: usize,
    /// Seconds of each round.
    seconds: f64,
    only: String,
}

/// A folder for sockets, and the file that all servers serve.
struct Place {
    folder: tempfile::TempDir,
    memory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = tempfile::tempdir_in(TMPFS).expect("tmpfs");
        let place = Self { folder, memory };
        fs::write(place.disk(), vec![1; FILE as usize]).expect("space");
        place
    }

    fn disk(&self) -> PathBuf {
        self.memory.path().join("disk.img")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |word: &str| {
        arguments.iter().position(|argument| argument == word).and_then(|at| arguments.get(at + 1))
    };
    let is_full = arguments.iter().any(|argument| argument == "--bench");
    let given = after("--rounds").and_then(|rounds| rounds.parse().ok());
    let effort = Effort {
        rounds: given.unwrap_or(if is_full { 5 } else { 1 }),
        seconds: if is_full { 1.0 } else { 0.05 },
        only: after("--only").cloned().unwrap_or_default(),
    };
    let place = Place::new();
    speed::compare(&place, &effort);
    if "crowd".contains(&effort.only) {
        crowd::beside_a_hostile_guest(&place, &effort);
    }
    if "emulated".contains(&effort.only) {
        emulated::compare(&place, &effort);
    }
}
