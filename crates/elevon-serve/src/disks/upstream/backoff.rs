//! When connections to a server are tried again.

use std::time::{Duration, Instant};

/// The time before the second attempt; before each further one it is twice as long.
const FIRST: Duration = Duration::from_millis(200);
/// The longest time before an attempt.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// Connections that are lost sooner count as if they had not been made.
const STEADY: Duration = Duration::from_secs(10);

/// Tells when to connect. The first attempt after a loss is made at once, if the connections were
/// there for [`STEADY`].
pub(super) struct Backoff {
    delay: Duration,
    next: Instant,
    /// When connections were made the last time.
    made: Instant,
}

impl Backoff {
    /// Connections were made, or are to be made, now.
    pub(super) const fn new(now: Instant) -> Self {
        Self { delay: Duration::ZERO, next: now, made: now }
    }

    /// Returns when the next attempt may be made.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    pub(super) const fn on_made(&mut self, now: Instant) {
        self.made = now;
    }

    pub(super) fn on_lost(&mut self, now: Instant) {
        if now.saturating_duration_since(self.made) >= STEADY {
            (self.delay, self.next) = (Duration::ZERO, now);
        } else {
            self.on_failed(now);
        }
    }

    pub(super) fn on_failed(&mut self, now: Instant) {
        self.delay = (self.delay * 2).clamp(FIRST, MAX_BACKOFF);
        self.next = now + self.delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_whatever_becomes_of_the_connections() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new(now);
        let mut delays = Vec::new();
        // Every second attempt succeeds, and is lost at once.
        for attempt in 0..6 {
            if attempt % 2 == 0 {
                backoff.on_made(now);
                backoff.on_lost(now);
            } else {
                backoff.on_failed(now);
            }
            delays.push((backoff.next() - now).as_millis());
            now = backoff.next();
        }
        assert_eq!(delays, [200, 400, 800, 1600, 2000, 2000]);
        backoff.on_made(now);
        now += STEADY;
        backoff.on_lost(now);
        assert_eq!(backoff.next(), now);
        backoff.on_failed(now);
        assert_eq!(backoff.next() - now, FIRST);
    }
}
