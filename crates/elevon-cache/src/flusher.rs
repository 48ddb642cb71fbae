//! The flusher: which file's dirty pages are written next, when nobody waits for them.
//!
//! A file with dirty pages is on one of three lists: *dirty* (in the order in which files became
//! dirty), *io* (chosen for this pass), *more io* (its chunk was used up, pages are left). A pass
//! takes the oldest of *io*, writes a chunk, and puts the file back. Two things start a pass: every
//! five seconds files whose first dirty page is thirty seconds old are written; and when more is
//! dirty than the background threshold, everything is, until that is no longer so. As in Linux 6.1,
//! for one device.
//!
//! Cost: O(1) a chunk; a page that becomes dirty costs a look at its file's state.

use alloc::vec::Vec;

use super::FileId;
use elevon_core::units::{Instant, Nanos};

/// Time between looks for old files (`dirty_writeback_centisecs`).
pub const PERIOD: Nanos = Nanos::from_secs(5);
/// Age at which a file is written (`dirty_expire_centisecs`).
pub const EXPIRE: Nanos = Nanos::from_secs(30);
/// Chunks are multiples of this, in pages: 4 MiB.
const CHUNK_UNIT: u64 = 1024;

/// Pages that one file may write before the next has its turn. `bandwidth`: pages a second that the
/// device writes; `limit`: of dirty pages; `left`: pages that the pass is still after.
pub fn chunk_pages(bandwidth: u64, limit: u64, left: u64) -> u64 {
    let pages = (bandwidth / 2).min(limit / 8).min(left) + CHUNK_UNIT;
    pages / CHUNK_UNIT * CHUNK_UNIT
}

/// Why the flusher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Files are old.
    Periodic,
    /// More is dirty than the background threshold.
    Background,
}

/// A file's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The file.
    pub file: FileId,
    /// Page where its last turn ended: this one begins there, and the next pass goes on where it
    /// ends (range-cyclic).
    pub from: u64,
    /// Why.
    pub reason: Reason,
}

/// How a file's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Page where the next turn begins: behind the last written, or 0 where the end of the file was
    /// reached.
    pub next: u64,
    /// Pages submitted.
    pub written: u64,
    /// Dirty pages are left.
    pub is_dirty: bool,
    /// The chunk was used up.
    pub is_used_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WritebackList {
    Clean,
    Dirty,
    Io,
    MoreIo,
    /// Its turn is under way.
    Turn,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Inode {
    place: WritebackList,
    dirtied_when: Instant,
    writeback_index: u64,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

const EMPTY: Ends = Ends { head: NONE, tail: NONE };

#[derive(Clone, Copy, Debug)]
struct Pass {
    reason: Reason,
    /// Something was written since *io* was last filled.
    progress: bool,
}

/// When the flusher looks, and what is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlusherTimes {
    /// Time between looks for old files (`dirty_writeback_centisecs`); zero: it never looks by
    /// itself.
    pub period: Nanos,
    /// Age at which a file is written (`dirty_expire_centisecs`).
    pub expire: Nanos,
}

impl Default for FlusherTimes {
    fn default() -> Self {
        Self { period: PERIOD, expire: EXPIRE }
    }
}

/// The flusher of one device.
#[derive(Clone, Debug)]
pub struct Flusher {
    times: FlusherTimes,
    inodes: Vec<Inode>,
    /// *dirty*, *io*, *more io*.
    lists: [Ends; 3],
    timer: Option<Instant>,
    periodic_due: bool,
    background_due: bool,
    pass: Option<Pass>,
}

impl Default for Flusher {
    fn default() -> Self {
        Self::new(FlusherTimes::default())
    }
}

impl Flusher {
    /// Nothing dirty.
    pub const fn new(times: FlusherTimes) -> Self {
        Self {
            times,
            inodes: Vec::new(),
            lists: [EMPTY; 3],
            timer: None,
            periodic_due: false,
            background_due: false,
            pass: None,
        }
    }

    /// A page of a file became dirty.
    #[inline]
    pub fn on_dirtied(&mut self, file: FileId, now: Instant) {
        match self.inodes.get(file.0 as usize) {
            Some(inode) if inode.place != WritebackList::Clean => {}
            _ => self.first_dirtied(file, now),
        }
    }

    fn first_dirtied(&mut self, file: FileId, now: Instant) {
        let at = file.0 as usize;
        if self.inodes.len() <= at {
            let clean =
                Inode { place: WritebackList::Clean, dirtied_when: now, writeback_index: 0, prev: NONE, next: NONE };
            self.inodes.resize(at + 1, clean);
        }
        self.inodes[at].dirtied_when = now;
        self.push_tail(WritebackList::Dirty, file.0);
        if self.timer.is_none() {
            self.timer = self.next_look(now);
        }
    }

    /// The last dirty page of a file is gone other than by its turn (fsync, truncation). During a
    /// turn, the turn's end tells.
    pub fn on_clean(&mut self, file: FileId) {
        match self.inodes.get(file.0 as usize).map(|inode| inode.place) {
            None | Some(WritebackList::Clean | WritebackList::Turn) => {}
            Some(WritebackList::Dirty | WritebackList::Io | WritebackList::MoreIo) => {
                self.unlink(file.0);
                self.inodes[file.0 as usize].place = WritebackList::Clean;
            }
        }
    }

    /// Whether the flusher counts the file among those with dirty pages.
    pub fn is_dirty(&self, file: FileId) -> bool {
        self.inodes.get(file.0 as usize).is_some_and(|inode| inode.place != WritebackList::Clean)
    }

    /// More is dirty than the background threshold, or a writer waits.
    pub const fn wake(&mut self) {
        self.background_due = true;
    }

    /// Whether a pass is under way or to begin.
    pub const fn is_awake(&self) -> bool {
        self.pass.is_some() || self.periodic_due || self.background_due
    }

    /// When it looks for old files next.
    pub const fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Looks for old files if that is due.
    pub fn handle_timer(&mut self, now: Instant) {
        if self.timer.is_some_and(|at| at <= now) {
            self.periodic_due = true;
            let any = self.lists.iter().any(|list| list.head != NONE);
            self.timer = if any { self.next_look(now) } else { None };
        }
    }

    fn next_look(&self, now: Instant) -> Option<Instant> {
        (!self.times.period.is_zero()).then(|| now + self.times.period)
    }

    /// Whose turn it is; [`Self::turn_ended`] must follow. `over_background`: more is dirty than
    /// the background threshold.
    pub fn next_turn(&mut self, now: Instant, over_background: bool) -> Option<Chunk> {
        loop {
            let Some(pass) = self.pass else {
                self.begin_pass(now)?;
                continue;
            };
            if pass.reason == Reason::Background && !over_background {
                self.pass = None;
                continue;
            }
            if let Some(file) = self.pop_io() {
                self.inodes[file as usize].place = WritebackList::Turn;
                let from = self.inodes[file as usize].writeback_index;
                return Some(Chunk { file: FileId(file), from, reason: pass.reason });
            }
            if pass.progress {
                self.fill_io(now, pass.reason);
                self.pass = Some(Pass { progress: false, ..pass });
            } else {
                self.pass = None;
            }
        }
    }

    /// A file's turn is over.
    pub fn turn_ended(&mut self, file: FileId, turn: Turn, now: Instant) {
        let inode = &mut self.inodes[file.0 as usize];
        debug_assert_eq!(inode.place, WritebackList::Turn);
        inode.writeback_index = turn.next;
        if let Some(pass) = &mut self.pass {
            pass.progress |= turn.written > 0;
        }
        if !turn.is_dirty {
            self.inodes[file.0 as usize].place = WritebackList::Clean;
        } else if turn.is_used_up {
            self.push_tail(WritebackList::MoreIo, file.0);
        } else {
            // What is left could not be written: not before others. The list stays in order of age.
            let newest = self.lists[WritebackList::Dirty.list()].tail;
            if newest != NONE && self.inodes[newest as usize].dirtied_when > self.inodes[file.0 as usize].dirtied_when {
                self.inodes[file.0 as usize].dirtied_when = now;
            }
            self.push_tail(WritebackList::Dirty, file.0);
        }
    }

    fn begin_pass(&mut self, now: Instant) -> Option<()> {
        let reason = if core::mem::take(&mut self.periodic_due) {
            Reason::Periodic
        } else if core::mem::take(&mut self.background_due) {
            Reason::Background
        } else {
            return None;
        };
        self.fill_io(now, reason);
        self.pass = Some(Pass { reason, progress: false });
        Some(())
    }

    /// *io* gets what is left of earlier turns, and of *dirty* what is old enough.
    fn fill_io(&mut self, now: Instant, reason: Reason) {
        while self.lists[WritebackList::MoreIo.list()].head != NONE {
            let file = self.lists[WritebackList::MoreIo.list()].head;
            self.unlink(file);
            self.push_tail(WritebackList::Io, file);
        }
        while self.lists[WritebackList::Dirty.list()].head != NONE {
            let file = self.lists[WritebackList::Dirty.list()].head;
            let age = now.since(self.inodes[file as usize].dirtied_when);
            if reason == Reason::Periodic && age < self.times.expire {
                break;
            }
            self.unlink(file);
            self.push_tail(WritebackList::Io, file);
        }
    }

    fn pop_io(&mut self) -> Option<u32> {
        let file = self.lists[WritebackList::Io.list()].head;
        (file != NONE).then(|| self.unlink(file))?;
        Some(file)
    }

    fn push_tail(&mut self, place: WritebackList, file: u32) {
        let ends = &mut self.lists[place.list()];
        let tail = core::mem::replace(&mut ends.tail, file);
        match tail {
            NONE => ends.head = file,
            tail => self.inodes[tail as usize].next = file,
        }
        let inode = &mut self.inodes[file as usize];
        (inode.place, inode.prev, inode.next) = (place, tail, NONE);
    }

    fn unlink(&mut self, file: u32) {
        let Inode { place, prev, next, .. } = self.inodes[file as usize];
        let ends = &mut self.lists[place.list()];
        match prev {
            NONE => ends.head = next,
            prev => self.inodes[prev as usize].next = next,
        }
        match next {
            NONE => self.lists[place.list()].tail = prev,
            next => self.inodes[next as usize].prev = prev,
        }
    }

    /// Panics where lists and places disagree, or *dirty* is out of order. For tests; O(files).
    pub fn self_check(&self) {
        let mut listed = 0;
        for place in [WritebackList::Dirty, WritebackList::Io, WritebackList::MoreIo] {
            let (mut at, mut prev, mut last) = (self.lists[place.list()].head, NONE, Instant::ZERO);
            while at != NONE {
                let inode = &self.inodes[at as usize];
                assert_eq!((inode.place, inode.prev), (place, prev), "file {at}");
                assert!(
                    place != WritebackList::Dirty || inode.dirtied_when >= last,
                    "file {at} is older than the one before"
                );
                (prev, last, listed) = (at, inode.dirtied_when, listed + 1);
                at = inode.next;
            }
            assert_eq!(self.lists[place.list()].tail, prev);
        }
        let expected = self
            .inodes
            .iter()
            .filter(|inode| !matches!(inode.place, WritebackList::Clean | WritebackList::Turn))
            .count();
        assert_eq!(listed, expected);
    }
}

impl WritebackList {
    const fn list(self) -> usize {
        match self {
            Self::Dirty => 0,
            Self::Io => 1,
            Self::MoreIo => 2,
            Self::Clean | Self::Turn => panic!("a file on no list"),
        }
    }
}

#[cfg(test)]
mod tests;
