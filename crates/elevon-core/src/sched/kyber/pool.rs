//! The tokens of a domain, and the hardware queues that wait for one.
//!
//! A token that is freed while queues wait is promised to the next of them in turn, which is then
//! woken. A promise holds until the woken queues have been run, so that neither the queue that runs
//! first nor one with new requests takes it; a token that is not used then loses its promise.
//! (Linux makes no promise: the first queue to ask gets the token, and with queues on different
//! CPUs that can be any of them. Here queues run one after the other, and without the promise the
//! first would get all tokens.)
//!
//! Cost: O(1), and O(hardware queues / 64) to find the next that waits; O(hardware queues) when
//! promises expire.

extern crate alloc;
use alloc::vec::Vec;

use super::super::contexts::Mask;
use super::tokens::Tokens;
use crate::units::Instant;

#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) tokens: Tokens,
    /// Queues with requests beyond the tokens promised to them.
    waiting: Mask,
    /// The first queue to check for waiting.
    from: usize,
    /// Tokens promised, by queue and in total.
    promised: Vec<u32>,
    promises: u32,
    /// When promises expire: after the time at which the woken queues are run, once that is known.
    last: Instant,
}

impl Pool {
    pub(super) fn new(tokens: u32, queues: usize) -> Self {
        Self {
            tokens: Tokens::new(tokens),
            waiting: Mask::new(queues),
            from: 0,
            promised: alloc::vec![0; queues],
            promises: 0,
            last: Instant::MAX,
        }
    }

    /// Takes a token for a queue that has a request for it; if none is available, the queue waits.
    #[inline]
    pub(super) fn take(&mut self, now: Instant, queue: usize) -> Option<u8> {
        self.lapse(now);
        if self.promised[queue] > 0 {
            self.promised[queue] -= 1;
            self.promises -= 1;
        } else if self.promises > 0 && self.tokens.free_below_depth() <= self.promises {
            self.waiting.insert(queue);
            return None;
        }
        let token = self.tokens.take();
        if token.is_some() {
            self.waiting.remove(queue);
        } else {
            self.waiting.insert(queue);
        }
        token
    }

    /// Frees a token. Returns the queue to wake for it; `queued` returns how many requests a queue
    /// has.
    #[inline]
    pub(super) fn free(
        &mut self,
        now: Instant,
        token: u8,
        queued: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        self.lapse(now);
        if !self.tokens.free(token) {
            return None;
        }
        let queue = self.waiting.next_in_turn(self.from)?;
        self.from = queue + 1;
        self.promised[queue] += 1;
        self.promises += 1;
        self.last = Instant::MAX;
        if self.promised[queue] >= queued(queue) {
            self.waiting.remove(queue);
        }
        Some(queue)
    }

    /// Called when the woken queues are run.
    pub(super) fn on_wakeup(&mut self, now: Instant) {
        self.last = now;
    }

    #[inline]
    fn lapse(&mut self, now: Instant) {
        if now > self.last {
            self.last = Instant::MAX;
            if self.promises > 0 {
                self.promises = 0;
                self.promised.fill(0);
            }
        }
    }

    /// Returns true if a queue waits for a token beyond those promised to it.
    pub(super) fn is_waiting(&self, queue: usize) -> bool {
        self.waiting.contains(queue)
    }

    pub(super) fn self_check(&self) {
        assert_eq!(self.promised.iter().sum::<u32>(), self.promises, "promises");
    }
}
