//! Which part of the time is followed, so that watching stays cheap where events are many.

/// Events a second up to which all are followed. More would cost more than two hundredths of a
/// processor.
const EVENTS: u64 = 20_000;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// The shortest time that is followed of a second, in nanoseconds: a request must begin and end in
/// it.
const SHORTEST_WINDOW: u64 = 20_000_000;
/// The longest part of a second, in nanoseconds, for which the rest of it is not followed.
const LONGEST_WINDOW: u64 = 800_000_000;
/// Multiples of [`EVENTS`] after which a second is given up at once.
const TOO_MANY: u64 = 2;
/// The golden ratio in 32 bits: its multiples are spread evenly over a circle.
const GOLDEN: u32 = 0x9e37_79b9;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Stay,
    /// Follow no events until a time.
    Rest {
        /// When to follow them again, or to be told more.
        until: u64,
    },
    /// Follow no events for longer.
    RestOn {
        /// Until when the rest was planned.
        from: u64,
        /// Until when it is now.
        until: u64,
    },
    /// Follow events.
    Follow {
        /// Until when the rest was planned.
        from: u64,
    },
}

/// Plans each second: all of it is followed, or a window at a place that changes.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The end of the present second.
    end: u64,
    /// What of it is followed.
    window: (u64, u64),
    /// Events in the window, and when they began to be followed.
    events: u64,
    begun: u64,
    /// When the window was over.
    ended: u64,
    is_following: bool,
    /// Until when a rest is planned.
    rest: u64,
    seconds: u32,
}

impl Sampler {
    /// Begins with a second that is followed.
    pub(super) const fn new(now: u64) -> Self {
        Self {
            end: now + SECOND,
            window: (now, now + SECOND),
            events: 0,
            begun: now,
            ended: now + SECOND,
            is_following: true,
            rest: 0,
            seconds: 0,
        }
    }

    /// Takes note of events that came.
    pub(super) const fn count(&mut self, events: u64) {
        self.events += events;
    }

    /// Takes note of when events began to be followed.
    pub(super) const fn has_begun(&mut self, now: u64) {
        self.begun = now;
    }

    /// Returns the nanoseconds until something is to be done, if that is known.
    pub(super) fn change(&self, now: u64) -> Option<u64> {
        let next = if self.is_following { self.window.1 } else { self.rest };
        (next < self.end || !self.is_following).then(|| next.saturating_sub(now))
    }

    /// Returns what to do at a time.
    pub(super) fn step(&mut self, now: u64) -> Step {
        if now >= self.end {
            self.plan(now);
            if !self.is_following && now < self.window.0 {
                let from = std::mem::replace(&mut self.rest, self.window.0);
                return Step::RestOn { from, until: self.rest };
            }
        }
        let is_wanted =
            (self.window.0..self.window.1).contains(&now) && self.events <= EVENTS * TOO_MANY;
        match (self.is_following, is_wanted) {
            (true, false) => {
                self.is_following = false;
                self.ended = now;
                self.rest = if now < self.window.0 { self.window.0 } else { self.end };
                Step::Rest { until: self.rest }
            }
            (false, true) => {
                self.is_following = true;
                self.begun = now;
                Step::Follow { from: self.rest }
            }
            _ => Step::Stay,
        }
    }

    /// Plans the second that a time is in, by the events of the one before.
    fn plan(&mut self, now: u64) {
        let ended = if self.is_following { self.end } else { self.ended };
        let followed = ended.saturating_sub(self.begun).max(1);
        let rate = u128::from(self.events) * u128::from(SECOND) / u128::from(followed);
        let start = self.end + (now - self.end) / SECOND * SECOND;
        self.end = start + SECOND;
        self.seconds = self.seconds.wrapping_add(1);
        let length = u128::from(EVENTS) * u128::from(SECOND) / rate.max(1);
        let length = u64::try_from(length).unwrap_or(SECOND).max(SHORTEST_WINDOW);
        self.window = if length > LONGEST_WINDOW {
            (start, self.end)
        } else {
            let place = u64::from(self.seconds.wrapping_mul(GOLDEN));
            let from = start + (((SECOND - length) * place) >> 32);
            (from, from + length)
        };
        self.events = 0;
        if self.is_following {
            self.begun = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a sampler beside a disk with a rate of events, looking each 50 ms and at each change.
    /// Returns the nanoseconds that it followed of each second.
    fn followed(rates: &[u64]) -> Vec<u64> {
        let mut sampler = Sampler::new(0);
        let mut all = vec![0; rates.len()];
        let (mut now, mut is_following) = (0, true);
        while now < SECOND * rates.len() as u64 {
            match sampler.step(now) {
                Step::Rest { until } => {
                    assert!(until > now, "{now}");
                    is_following = false;
                }
                Step::Follow { .. } => {
                    sampler.has_begun(now);
                    is_following = true;
                }
                Step::RestOn { from, until } => assert!(from <= now && now < until),
                Step::Stay => {}
            }
            let wait = sampler.change(now).unwrap_or(50_000_000).clamp(1, 50_000_000);
            if is_following {
                let second = (now / SECOND) as usize;
                all[second] += wait;
                sampler.count(
                    u64::try_from(u128::from(rates[second]) * u128::from(wait) / 1_000_000_000)
                        .expect("a count"),
                );
            }
            now += wait;
        }
        all
    }

    #[test]
    fn few_events_are_all_followed() {
        assert_eq!(followed(&[10_000; 5]), [SECOND; 5]);
    }

    #[test]
    fn of_many_events_a_part_is_followed_in_every_second() {
        let all = followed(&[600_000; 20]);
        // The first second is given up when it has too many.
        assert!(all[0] <= 200_000_000, "{all:?}");
        for nanos in &all[1..] {
            assert!((SHORTEST_WINDOW..=60_000_000).contains(nanos), "{all:?}");
        }
    }

    #[test]
    fn all_are_followed_again_when_they_are_few() {
        let all = followed(&[[600_000; 5], [1000; 5]].concat());
        assert_eq!(all[7..], [SECOND; 3]);
    }
}
