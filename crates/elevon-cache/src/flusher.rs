//! The flusher: which file's dirty pages are written next in the background.
//!
//! A file with dirty pages is on one of three lists. *dirty* has the order in which files became
//! dirty. *io* has the files chosen for this pass. *more io* has files whose chunk was used up and
//! that have dirty pages left. A pass takes the oldest file of *io*, writes a chunk, and puts the
//! file back. Two events start a pass. Every five seconds, files whose first dirty page is thirty
//! seconds old are written. If more pages are dirty than the background threshold, all files are
//! written until that is no longer so. As in Linux 6.1, for one device.
//!
//! Cost: O(1) per chunk; a page that becomes dirty costs one check of its file's state.

use alloc::vec::Vec;

use super::FileId;
use elevon_core::units::{Instant, Nanos, PageCount, PageIndex, TenantId};

/// Default time between searches for old files (`dirty_writeback_centisecs`).
pub(crate) const PERIOD: Nanos = Nanos::from_secs(5);
/// Age at which a file is written (`dirty_expire_centisecs`).
pub(crate) const EXPIRE: Nanos = Nanos::from_secs(30);
/// Chunks are multiples of this, in pages: 4 MiB.
const CHUNK_UNIT: u64 = 1024;

/// Returns the number of pages that one file may write before the next file's turn. `bandwidth`:
/// the device's writes in pages per second; `limit`: the limit of dirty pages; `left`: pages that
/// the pass has still to write.
pub(crate) fn chunk_pages(bandwidth: u64, limit: u64, left: u64) -> PageCount {
    let pages = (bandwidth / 2).min(limit / 8).min(left) + CHUNK_UNIT;
    PageCount::new(pages / CHUNK_UNIT * CHUNK_UNIT)
}

/// Why the flusher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The flusher writes old files.
    Periodic,
    /// More pages are dirty than the background threshold.
    Background,
}

/// A file's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The file.
    pub file: FileId,
    /// Page at which its last turn ended. This turn begins there (range-cyclic).
    pub from: PageIndex,
    /// The reason of the pass.
    pub reason: Reason,
}

/// The result of a file's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Page at which the next turn begins: after the last one written, or 0 if the end of the file
    /// was reached.
    pub next: PageIndex,
    /// Pages submitted.
    pub written: PageCount,
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
    /// The file has its turn now.
    Turn,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Inode {
    place: WritebackList,
    dirtied_when: Instant,
    /// The tenant whose pages became dirty since the file was clean; `None`: several tenants'.
    sole_owner: Option<TenantId>,
    writeback_index: PageIndex,
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
    /// Pages were written since *io* was last filled.
    progress: bool,
}

/// How often the flusher looks for old files, and at which age a file is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlusherTimes {
    /// Time between searches for old files (`dirty_writeback_centisecs`); zero: no periodic
    /// search.
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
pub(crate) struct Flusher {
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
    /// Returns a flusher without dirty files.
    pub(crate) const fn new(times: FlusherTimes) -> Self {
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

    /// Records that a page of a file became dirty, and which tenant owns it.
    #[inline]
    pub(crate) fn on_dirtied(&mut self, file: FileId, owner: TenantId, now: Instant) {
        match self.inodes.get_mut(file.0 as usize) {
            Some(inode) if inode.place != WritebackList::Clean => {
                inode.sole_owner = inode.sole_owner.filter(|&sole| sole == owner);
            }
            _ => self.first_dirtied(file, owner, now),
        }
    }

    /// Returns the tenant that owns all dirty pages of a file, if it is known to be one.
    pub(crate) fn sole_owner(&self, file: FileId) -> Option<TenantId> {
        self.inodes.get(file.0 as usize).and_then(|inode| inode.sole_owner)
    }

    fn first_dirtied(&mut self, file: FileId, owner: TenantId, now: Instant) {
        let at = file.0 as usize;
        if self.inodes.len() <= at {
            let clean = Inode {
                place: WritebackList::Clean,
                dirtied_when: now,
                sole_owner: Some(owner),
                writeback_index: PageIndex::ZERO,
                prev: NONE,
                next: NONE,
            };
            self.inodes.resize(at + 1, clean);
        }
        (self.inodes[at].dirtied_when, self.inodes[at].sole_owner) = (now, Some(owner));
        self.push_tail(WritebackList::Dirty, file.0);
        if self.timer.is_none() {
            self.timer = self.next_look(now);
        }
    }

    /// Records that a file has no dirty page any more for another reason than its turn (fsync,
    /// truncation). Has no effect during the file's turn; [`Self::turn_ended`] follows.
    pub(crate) fn on_clean(&mut self, file: FileId) {
        match self.inodes.get(file.0 as usize).map(|inode| inode.place) {
            None | Some(WritebackList::Clean | WritebackList::Turn) => {}
            Some(WritebackList::Dirty | WritebackList::Io | WritebackList::MoreIo) => {
                self.unlink(file.0);
                self.inodes[file.0 as usize].place = WritebackList::Clean;
            }
        }
    }

    /// Returns true if the flusher counts the file as dirty.
    pub(crate) fn is_dirty(&self, file: FileId) -> bool {
        self.inodes.get(file.0 as usize).is_some_and(|inode| inode.place != WritebackList::Clean)
    }

    /// Requests a background pass: more pages are dirty than the background threshold, or a writer
    /// waits.
    pub(crate) const fn wake(&mut self) {
        self.background_due = true;
    }

    /// Returns true if a pass is active or due.
    pub(crate) const fn is_awake(&self) -> bool {
        self.pass.is_some() || self.periodic_due || self.background_due
    }

    /// Returns the time of the next search for old files.
    pub(crate) const fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Makes the periodic pass due if its time has come.
    pub(crate) fn handle_timer(&mut self, now: Instant) {
        if self.timer.is_some_and(|at| at <= now) {
            self.periodic_due = true;
            let any = self.lists.iter().any(|list| list.head != NONE);
            self.timer = if any { self.next_look(now) } else { None };
        }
    }

    fn next_look(&self, now: Instant) -> Option<Instant> {
        (!self.times.period.is_zero()).then(|| now + self.times.period)
    }

    /// Returns the next file's turn; [`Self::turn_ended`] must follow. `over_background`: more
    /// pages are dirty than the background threshold.
    pub(crate) fn next_turn(&mut self, now: Instant, over_background: bool) -> Option<Chunk> {
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

    /// Ends a file's turn.
    pub(crate) fn turn_ended(&mut self, file: FileId, turn: Turn, now: Instant) {
        let inode = &mut self.inodes[file.0 as usize];
        debug_assert_eq!(inode.place, WritebackList::Turn);
        inode.writeback_index = turn.next;
        if let Some(pass) = &mut self.pass {
            pass.progress |= !turn.written.is_zero();
        }
        if !turn.is_dirty {
            self.inodes[file.0 as usize].place = WritebackList::Clean;
        } else if turn.is_used_up {
            self.push_tail(WritebackList::MoreIo, file.0);
        } else {
            // The rest could not be written, so the file goes behind the others. The list stays in
            // order of age.
            let newest = self.lists[WritebackList::Dirty.list()].tail;
            if newest != NONE
                && self.inodes[newest as usize].dirtied_when
                    > self.inodes[file.0 as usize].dirtied_when
            {
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

    /// Moves all files of *more io* to *io*, and those files of *dirty* that are old enough.
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

    /// Panics if lists and places disagree, or if *dirty* is out of order. For tests; O(files).
    pub(crate) fn self_check(&self) {
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
