//! Power cuts between any two writes of a program, and what is left of its data.
//!
//! A run has a history. A [`Cut`] ends it at a point and keeps a part of the writes that were not
//! durable then. The file system that is left is mounted and checked by a new kernel, and a
//! program of the user looks for its data.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevon_core::op::Op;
use elevon_core::units::{Bytes, Instant, Sector};
use elevon_sim::device::fault::content::PowerCut;

use crate::error::TwinError;
use crate::history::History;
use crate::image::Image;
use crate::lab::recover;
use crate::machine::Stream;
use crate::settings::Settings;

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Steps of the history before it.
    pub steps: usize,
    /// Which writes are left that were not durable.
    pub mode: PowerCut,
    /// Random seed of the mode.
    pub seed: u64,
}

/// What a power cut did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The file system is whole, and the check found its data.
    Survived,
    /// The file system cannot be mounted, or its check finds errors. The text is the tool's.
    FileSystem(String),
    /// The check ended with this exit code and this text.
    Data(i32, String),
}

impl Verdict {
    /// Returns true if data was lost.
    pub const fn is_loss(&self) -> bool {
        !matches!(self, Self::Survived)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |text: &str| text.trim().lines().last().unwrap_or_default().to_owned();
        match self {
            Self::Survived => f.write_str("survived"),
            Self::FileSystem(text) => write!(f, "the file system is damaged: {}", last(text)),
            Self::Data(code, text) => write!(f, "the check ended with {code}: {}", last(text)),
        }
    }
}

/// A write that a power cut lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostWrite {
    /// When it was issued.
    pub at: Instant,
    /// First sector.
    pub sector: Sector,
    /// Length in bytes.
    pub bytes: Bytes,
}

/// The smallest loss that was found from a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smallest {
    /// The writes that are lost; all others up to the cut are left. Without any, the loss needs no
    /// lost write.
    pub lost: Vec<LostWrite>,
    /// What this does.
    pub verdict: Verdict,
    /// Kernels that were started to find it.
    pub trials: u32,
}

/// The power cuts of one run.
pub struct Cuts<'a> {
    /// How the check is run: [`Settings::program`] is the check.
    pub settings: &'a Settings,
    /// The history of the run.
    pub history: &'a History,
    /// The standard output of the program; the check reads the part before the cut.
    pub output: &'a [u8],
}

impl Cuts<'_> {
    /// Returns `count` cuts at points from `first` to `last` steps, spread evenly, with each mode
    /// in turn; `seed` is their random seed.
    pub fn choose(&self, first: usize, last: usize, count: usize, seed: u64) -> Vec<Cut> {
        let points = self.history.points(first, last);
        let modes = PowerCut::ALL.len() as u64;
        let cut = |index: usize| {
            let number = seed.wrapping_mul(0x9e37_79b9).wrapping_add(index as u64);
            // The last point is one of them: there the program has said all that it says.
            let place = ((index + 1) * points.len()).div_ceil(count) - 1;
            let mode = PowerCut::ALL[(number % modes) as usize];
            Cut { steps: points[place], mode, seed: number }
        };
        if points.is_empty() { Vec::new() } else { (0..count).map(cut).collect() }
    }

    /// Makes a cut, mounts and checks what is left.
    ///
    /// # Errors
    /// A kernel could not be started, or broke a protocol.
    pub fn make(&self, cut: Cut) -> Result<Verdict, TwinError> {
        let (image, output) = self.history.cut(cut.steps, cut.mode, cut.seed);
        self.check(image, output)
    }

    fn check(&self, image: Image, output: u64) -> Result<Verdict, TwinError> {
        let mut text = Vec::new();
        let mut sink = |_: Stream, bytes: &[u8]| text.extend_from_slice(bytes);
        let seen = &self.output[..self.output.len().min(output as usize)];
        let outcome = recover(self.settings, image, seen, &mut sink);
        let text = String::from_utf8_lossy(&text).into_owned();
        match outcome {
            Ok(outcome) if outcome.status == 0 => Ok(Verdict::Survived),
            Ok(outcome) => Ok(Verdict::Data(outcome.status, text)),
            Err(TwinError::Step) => Ok(Verdict::FileSystem(text)),
            Err(error) => Err(error),
        }
    }

    /// Makes all cuts, on `threads` kernels at a time. Returns the verdicts in order.
    ///
    /// # Errors
    /// The first of [`Self::make`].
    pub fn make_all(&self, cuts: &[Cut], threads: usize) -> Result<Vec<Verdict>, TwinError> {
        let next = AtomicUsize::new(0);
        let verdicts = Mutex::new(Vec::new());
        let work = || {
            while let Some((index, &cut)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                cuts.get(index).map(|cut| (index, cut))
            } {
                let verdict = self.make(cut);
                verdicts.lock().expect("no thread panicked").push((index, verdict));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, cuts.len().max(1)) {
                scope.spawn(work);
            }
        });
        let mut verdicts = verdicts.into_inner().expect("no thread panicked");
        verdicts.sort_by_key(|(index, _)| *index);
        verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// Finds the fewest lost writes that still lose data, from a cut that does: leaves out halves,
    /// then quarters and so on of what is lost, as long as data is still lost.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn shrink(&self, cut: Cut) -> Result<Smallest, TwinError> {
        let mut trials = 0;
        let mut try_without = |lost: &BTreeSet<u64>| {
            trials += 1;
            let (image, output) = self.history.cut_without(cut.steps, lost);
            self.check(image, output)
        };
        let mut lost = self.history.lost(cut.steps, cut.mode, cut.seed);
        let mut verdict = try_without(&lost)?;
        if !verdict.is_loss() {
            // Blocks of one write apart are lost, or an older write is left in place of a newer.
            verdict = self.make(cut)?;
            return Ok(Smallest { lost: self.describe(&lost), verdict, trials: trials + 1 });
        }
        let mut size = lost.len();
        while size > 0 {
            let all: Vec<u64> = lost.iter().copied().collect();
            for part in all.chunks(size) {
                let mut rest = lost.clone();
                rest.retain(|sequence| !part.contains(sequence));
                let found = try_without(&rest)?;
                if found.is_loss() {
                    (lost, verdict) = (rest, found);
                }
            }
            size /= 2;
        }
        Ok(Smallest { lost: self.describe(&lost), verdict, trials })
    }

    fn describe(&self, lost: &BTreeSet<u64>) -> Vec<LostWrite> {
        let issued = self.history.events().iter().filter(|event| event.end.is_none());
        let issued = issued.filter(|event| {
            event.command.op != Op::Flush && lost.contains(&event.command.sequence)
        });
        let describe = |event: &crate::history::Event| LostWrite {
            at: event.at,
            sector: event.command.sector,
            bytes: event.command.bytes,
        };
        issued.map(describe).collect()
    }
}
