//! Counts the instructions of a piece of work, exactly and repeatably, by running the bench again
//! under valgrind's callgrind.
//!
//! A [`Case`] does its work `turns` times. The bench's `main` calls [`serve`] first, which in a
//! counted run does one case and ends. [`Case::per_turn`] counts two runs of different length and
//! divides the difference, so that the start of the process and the set-up of the case cancel out.
//! Without valgrind it returns `None`, and the bench prints that and continues.

use std::process::Command;

/// A piece of work to count.
pub(crate) struct Case {
    /// Unique name, also the argument of the counted run.
    pub(crate) name: String,
    /// Sets up, then does the work the given number of times. Chance must not change the amount of
    /// work per turn.
    pub(crate) run: Box<dyn Fn(u64)>,
}

/// The argument that marks a counted run.
const COUNTED: &str = "--counted-run";

/// In a counted run, does the case of the command line and returns true; `main` must then return.
pub(crate) fn serve(cases: &[Case]) -> bool {
    let words: Vec<String> = std::env::args().collect();
    let Some(at) = words.iter().position(|word| word == COUNTED) else { return false };
    let case = cases.iter().find(|case| case.name == words[at + 1]).expect("a case of this bench");
    (case.run)(words[at + 2].parse().expect("a number of turns"));
    true
}

impl Case {
    /// Returns the instructions per turn; `None` if valgrind is missing or fails.
    pub(crate) fn per_turn(&self) -> Option<f64> {
        const TURNS: [u64; 2] = [16, 1040];
        let [short, long] = TURNS.map(|turns| self.instructions(turns));
        Some((long?.checked_sub(short?)?) as f64 / (TURNS[1] - TURNS[0]) as f64)
    }

    /// Returns the instructions of a whole run.
    fn instructions(&self, turns: u64) -> Option<u64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args([COUNTED, &self.name, &turns.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // The line is "==42== Collected : 123456".
        let (_, count) = text.lines().find_map(|line| line.split_once("Collected :"))?;
        count.trim().parse().ok()
    }
}

/// Returns true if valgrind is installed.
pub(crate) fn available() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}
