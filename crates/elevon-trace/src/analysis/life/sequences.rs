//! Flush sequences whose end is missing in the trace.
//!
//! A sequence that waits for a flush of the device's cache ends in the moment in which that flush
//! completes. Its end names no more than its sector, which all sequences without data share, so a
//! sequence whose end was lost would take the end of the next one, and shift all that follow.

use std::collections::VecDeque;

use super::{Life, MAX_IN_PROGRESS};
use crate::analysis::ABSENT;
use crate::analysis::chosen::Collector;

/// Sequences and flushes in progress.
#[derive(Default)]
pub(super) struct Sequences {
    /// Sequences with the time since which they wait for a flush or their end, in that order.
    /// Those that have ended are removed when they reach the front.
    waiting: VecDeque<(u32, u64)>,
    /// When the last completed flush was issued; 0 before the first.
    completed: u64,
    /// When the last flush was issued, and the value of `completed` then.
    last: (u64, u64),
}

impl Sequences {
    /// Records that a request is a sequence without data, or without data any more.
    pub(super) fn started(&mut self, id: u32, now: u64) {
        // There are few, except in a trace of sequences without flushes.
        if self.waiting.len() >= MAX_IN_PROGRESS {
            self.waiting.clear();
        }
        self.waiting.push_back((id, now));
    }

    /// Records that a flush was issued.
    pub(super) const fn flush_issued(&mut self, now: u64) {
        self.last = (now, self.completed);
    }
}

impl Life {
    /// Processes the completion of a flush, and drops the sequences whose end is missing: they
    /// waited when a flush was issued that had completed before this one was issued. Cost: O(1)
    /// amortised.
    pub(super) fn end_flush(&mut self, issued: u64, now: u64, collect: &mut Collector) {
        if issued == ABSENT {
            return;
        }
        let (last, completed_before) = self.sequences.last;
        self.sequences.completed = self.sequences.completed.max(issued);
        let bound = if issued == last { completed_before } else { 0 };
        while let Some(&(id, since)) = self.sequences.waiting.front() {
            if self.requests.get(id as usize).is_some_and(|request| request.sequence == since) {
                if since >= bound {
                    return;
                }
                self.lose_sequence(id, now, collect);
            }
            self.sequences.waiting.pop_front();
        }
    }

    /// Removes a sequence, with bios that never complete.
    fn lose_sequence(&mut self, id: u32, now: u64, collect: &mut Collector) {
        let mut at = self.requests[id as usize].first_piece;
        while let Some(piece) = self.pieces.get(at as usize) {
            self.bios[piece.bio as usize].left = u64::MAX;
            at = piece.next;
        }
        collect.on_sequence_lost(now);
        self.requests[id as usize].sequence = ABSENT;
        self.drop_request(id, now, collect);
    }
}
