//! What the next I/O of a replayed process waits for in other processes, and what they are told of
//! it.

use elevon_core::units::Instant;

use super::{ReplayIo, Script};
use crate::dependencies::Dependencies;
use crate::followers::{FlusherRule, Follow, Followers, IoCounts, Tie};
use crate::section_lock::SectionLocks;

/// Returns what the processes of these scripts wait for in each other.
pub(crate) fn dependencies(scripts: &[Script]) -> Dependencies {
    let rules: Vec<_> = scripts.iter().map(|script| script.exclusion).collect();
    let tie = |script: &Script| Tie {
        ios: script.ios.len() as u64,
        follows: script.ios.iter().filter_map(|io| io.follows).collect(),
        flusher: script.flusher,
    };
    let ties: Vec<Tie> = scripts.iter().map(tie).collect();
    Dependencies { locks: SectionLocks::new(&rules), followers: Followers::new(&ties) }
}

/// The ties of a process to others.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// How far the process has come, and how far the others know of.
    counts: IoCounts,
    reported: IoCounts,
    /// Bytes of the flusher's writes that were submitted, and that have completed, since the
    /// others were told.
    submitted: u64,
    completed: u64,
    /// What was reached, in which pass, and the instant since which it is known.
    reached: Option<(Follow, u64, Instant)>,
    /// The I/O for which there is room, and since when; counted over all passes.
    room: Option<(u64, Instant)>,
    /// The I/O for which the others were asked last.
    asked: Option<u64>,
    asks: bool,
}

/// The next I/O of a process, as its ties need it.
#[derive(Clone, Copy)]
pub(super) struct Next<'a> {
    pub(super) io: &'a ReplayIo,
    pub(super) flusher: Option<FlusherRule>,
    /// Number of the pass, and of the I/O over all passes.
    pub(super) pass: u64,
    pub(super) number: u64,
}

impl<'a> Next<'a> {
    pub(super) fn of(script: &'a Script, next: usize, pass: u64) -> Self {
        let number = pass * script.ios.len() as u64 + next as u64;
        Self { io: &script.ios[next], flusher: script.flusher, pass, number }
    }

    fn flushed(&self) -> Option<FlusherRule> {
        self.flusher.filter(|_| self.io.is_flushed)
    }
}

impl Ties {
    pub(super) fn on_submitted(&mut self) {
        self.counts.entered += 1;
    }

    pub(super) fn on_staged(&mut self, io: &ReplayIo) {
        if io.is_flushed {
            self.submitted += io.bytes.get();
        }
    }

    pub(super) fn on_completed(&mut self, io: &ReplayIo) {
        self.counts.completed += 1;
        if io.is_flushed {
            self.completed += io.bytes.get();
        }
    }

    pub(super) fn on_ended(&mut self) {
        self.counts.has_ended = true;
    }

    /// Returns the instants since which the next I/O may go: as its think time begins, and at the
    /// earliest; `None` if it waits for another process. Then the others are to be asked, if they
    /// were not asked yet.
    pub(super) fn free(&mut self, next: Next<'_>) -> Option<(Instant, Instant)> {
        let followed = match next.io.follows {
            None => Some(Instant::ZERO),
            Some(follow) => self
                .reached
                .filter(|&(of, pass, _)| (of, pass) == (follow, next.pass))
                .map(|(.., since)| since),
        };
        let room = match next.flushed() {
            None => Some(Instant::ZERO),
            Some(_) => self.room.filter(|&(of, _)| of == next.number).map(|(_, since)| since),
        };
        if followed.is_none() || room.is_none() {
            self.asks = self.asked != Some(next.number);
        }
        followed.zip(room)
    }

    /// Returns true if the others are to be told something, or to be asked.
    pub(super) fn is_unsettled(&self) -> bool {
        self.asks || self.counts != self.reported || self.submitted + self.completed > 0
    }

    /// Tells the others how far the process has come, and asks them for what its next I/O waits
    /// for.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        task: usize,
        flusher: Option<FlusherRule>,
        next: Option<Next<'_>>,
        followers: &mut Followers,
    ) {
        if self.counts != self.reported {
            self.reported = self.counts;
            followers.report(task, self.counts);
        }
        if let Some(rule) = flusher {
            followers.move_bytes(
                rule,
                std::mem::take(&mut self.submitted),
                std::mem::take(&mut self.completed),
            );
        }
        self.asks = false;
        let Some(next) = next else { return };
        self.asked = Some(next.number);
        if let Some(follow) = next.io.follows
            && self.reached.is_none_or(|(of, pass, _)| (of, pass) != (follow, next.pass))
        {
            if !followers.is_reached(task, follow, next.pass) {
                return;
            }
            self.reached = Some((follow, next.pass, now));
        }
        if let Some(rule) = next.flushed()
            && self.room.is_none_or(|(of, _)| of != next.number)
            && followers.has_room(task, rule, next.io.bytes.get())
        {
            self.room = Some((next.number, now));
        }
    }
}
