//! The requests of a client that are not answered.

use std::collections::VecDeque;

use elevon_core::status::Status;
use elevon_core::units::Instant;

use crate::device::pieces::Pieces;

/// The requests of a client, each with an index.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    entries: Vec<Option<Pieces>>,
    /// Entries that are free.
    free: Vec<usize>,
    /// Requests with parts to submit, in order of arrival.
    waiting: VecDeque<usize>,
    /// Questions about the allocation that the disk has to find out, which have no index.
    pub(crate) questions: usize,
}

impl Requests {
    /// Returns how many there are.
    pub(crate) const fn count(&self) -> usize {
        self.entries.len() - self.free.len() + self.questions
    }

    /// Returns when the oldest came.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.entries.iter().flatten().map(|pieces| pieces.arrived).min()
    }

    /// Adds a request, and returns its index.
    pub(super) fn insert(&mut self, pieces: Pieces) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[index] = Some(pieces);
        index
    }

    /// Removes a request.
    pub(super) fn remove(&mut self, index: usize) -> Pieces {
        self.free.push(index);
        self.entries[index].take().expect("a request that is not answered")
    }

    /// Returns a request.
    pub(crate) fn get(&self, index: usize) -> &Pieces {
        self.entries[index].as_ref().expect("a request that is not answered")
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Pieces {
        self.entries[index].as_mut().expect("a request that is not answered")
    }

    /// Yields all of them with their indices.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Pieces)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, pieces)| Some((index, pieces.as_ref()?)))
    }

    /// Returns true if no parts wait to be submitted.
    pub(super) fn none_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets the parts of a request be submitted.
    pub(crate) fn start(&mut self, index: usize) {
        self.waiting.push_back(index);
    }

    /// Lets no more parts of a request be submitted.
    pub(super) fn stop(&mut self, index: usize) {
        self.waiting.retain(|&waiting| waiting != index);
    }

    /// Returns the first request that waits and `is_meant`.
    pub(super) fn first_waiting(&self, is_meant: impl Fn(&Pieces) -> bool) -> Option<usize> {
        self.waiting.iter().copied().find(|&index| is_meant(self.get(index)))
    }

    /// Fails those that `is_meant` with `status`, up to one of which nothing is in flight. Returns
    /// its index.
    pub(super) fn fail_next(
        &mut self,
        status: Status,
        is_meant: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut meant = (0..self.entries.len()).filter(|&index| is_meant(index));
        meant.find(|&index| self.entries[index].as_mut().is_some_and(|pieces| pieces.fail(status)))
    }
}
