//! What a sector may hold.

use super::NEVER;

/// A version that a sector may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) version: u64,
    /// When its write finished; [`NEVER`] while a direct write is in flight.
    pub(super) ended: u64,
    /// When a later write replaced it.
    pub(super) gone: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) candidates: Vec<Candidate>,
    /// Since when the sector is loose; `None` if it is not.
    pub(super) loose: Option<u64>,
    /// End of the last time in which the sector was loose. A read that started before may have
    /// seen anything.
    pub(super) loose_until: u64,
    /// When a bio that was to write the sector last failed.
    pub(super) failed: u64,
    /// Version that a power cut must preserve; a newer one is also allowed.
    pub(super) floor: u64,
}

impl Cell {
    /// Returns the version of the sector if it is certain.
    pub(super) fn only(&self) -> Option<u64> {
        let mut live = self.candidates.iter().filter(|candidate| candidate.gone == NEVER);
        match (live.next(), live.next(), self.loose) {
            (Some(one), None, None) if one.ended != NEVER => Some(one.version),
            _ => None,
        }
    }

    /// Returns true if a read that started at `since` may see `version`.
    pub(super) fn allows(&self, version: u64, since: u64) -> bool {
        let candidates = &mut self.candidates.iter();
        self.loose.is_some()
            || since < self.loose_until
            || candidates.any(|candidate| candidate.version == version && candidate.gone > since)
    }
}
