//! When a thread polls for a result for a moment before it sleeps.
//!
//! To sleep and to be woken takes tens of microseconds on a processor that went idle, longer than a
//! client that sends one request at a time takes until its next. Polling costs the time of the
//! processor, so it goes on only while it finds results: it finds none where a client has paused,
//! or waits for the very processor on which the thread polls.

use std::time::Duration;

/// Most waits that are left out between two attempts.
const MAX_LEFT_OUT: u32 = 1023;

/// Whether the next wait begins with polling.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    /// For how long; zero for never.
    window: Duration,
    /// How many of the next short waits are left out.
    left_out: u32,
    /// How many were left out after the last attempt that found nothing.
    penalty: u32,
}

impl BusyPoll {
    pub(crate) const fn new(window: Duration) -> Self {
        Self { window, left_out: 0, penalty: 0 }
    }

    /// Returns for how long to poll before the next wait, which has this limit; `None`: not at all.
    pub(crate) fn window(&self, limit: Option<Duration>) -> Option<Duration> {
        let window = limit.map_or(self.window, |limit| limit.min(self.window));
        (self.left_out == 0 && !window.is_zero()).then_some(window)
    }

    /// Records an attempt.
    pub(crate) fn record_poll(&mut self, has_found: bool) {
        if has_found {
            self.penalty /= 2;
        } else {
            self.penalty = (2 * self.penalty + 1).min(MAX_LEFT_OUT);
            self.left_out = self.penalty;
        }
    }

    /// Records a wait without polling. Only one that was short says that polling might have found
    /// something.
    pub(crate) fn record_sleep(&mut self, time: Duration) {
        if time <= self.window {
            self.left_out = self.left_out.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(50);

    /// Returns how many of 10,000 waits begin with polling.
    fn polls(busy_poll: &mut BusyPoll, finds: impl Fn(u32) -> bool, sleep: Duration) -> u32 {
        let mut polls = 0;
        for wait in 0..10_000 {
            if busy_poll.window(None).is_some() {
                busy_poll.record_poll(finds(wait));
                polls += 1;
            } else {
                busy_poll.record_sleep(sleep);
            }
        }
        polls
    }

    #[test]
    fn it_goes_on_while_it_finds_results() {
        assert_eq!(polls(&mut BusyPoll::new(WINDOW), |_| true, WINDOW), 10_000);
        // A client that pauses after each hundredth request loses next to nothing.
        let some = polls(&mut BusyPoll::new(WINDOW), |wait| wait % 100 != 0, WINDOW);
        assert!(some > 9_700, "{some}");
    }

    #[test]
    fn it_ends_where_it_finds_nothing_and_is_tried_again_now_and_then() {
        let mut busy_poll = BusyPoll::new(WINDOW);
        assert!((10..=20).contains(&polls(&mut busy_poll, |_| false, WINDOW)));
        // Waits that are longer than anybody polls are no reason to try again.
        assert_eq!(polls(&mut busy_poll, |_| false, 2 * WINDOW), 0);
        // What it finds later brings it back.
        assert!(polls(&mut busy_poll, |_| true, WINDOW) > 8_000);
    }

    #[test]
    fn it_polls_no_longer_than_the_wait_may_last() {
        let busy_poll = BusyPoll::new(WINDOW);
        assert_eq!(busy_poll.window(None), Some(WINDOW));
        assert_eq!(
            busy_poll.window(Some(Duration::from_micros(20))),
            Some(Duration::from_micros(20))
        );
        assert_eq!(busy_poll.window(Some(Duration::ZERO)), None);
        assert_eq!(BusyPoll::new(Duration::ZERO).window(None), None);
    }
}
