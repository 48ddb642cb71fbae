//! Detects if the device queues commands. Measured at completions until it is decided.

/// The detection (`hw_tag`). While undecided, the device counts as queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queueing {
    decided: Option<bool>,
    /// Set by the user: not measured.
    preset: bool,
    samples: u32,
    /// Most requests in the device since the last decision.
    pub(super) in_flight_max: u32,
}

/// A completion is a sample if more than this many requests are queued or in the device. The device
/// queues commands if the deepest sample is above it.
const THRESHOLD: u32 = 3;
/// [`THRESHOLD`] in the first version with injection (4.20).
const THRESHOLD_OF_SEED: u32 = 4;
/// Number of samples needed for a decision.
const SAMPLES: u32 = 32;

impl Queueing {
    pub(super) const fn new(preset: Option<bool>) -> Self {
        Self { decided: preset, preset: preset.is_some(), samples: 0, in_flight_max: 0 }
    }

    /// Returns true if the device queues commands, or if this is undecided.
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        !matches!(self.decided, Some(false))
    }

    /// Returns the decision; `None` if undecided.
    pub(super) const fn decided(&self) -> Option<bool> {
        self.decided
    }

    /// Handles a completion; `in_flight` still includes it. `is_held_back`: the scheduler itself
    /// keeps the device short of requests. Returns true if it decided now.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        in_flight: u32,
        queued: u32,
        is_held_back: impl FnOnce() -> bool,
        seed_rules: bool,
    ) -> bool {
        self.in_flight_max = self.in_flight_max.max(in_flight);
        if self.preset || self.decided == Some(true) || in_flight + queued <= THRESHOLD {
            return false;
        }
        if !seed_rules && in_flight < THRESHOLD && is_held_back() {
            return false;
        }
        self.samples += 1;
        if self.samples <= SAMPLES {
            return false;
        }
        let threshold = if seed_rules { THRESHOLD_OF_SEED } else { THRESHOLD };
        self.decided = Some(self.in_flight_max > threshold);
        (self.samples, self.in_flight_max) = (0, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thirty_third_sample_decides() {
        for (in_flight, queued, held_back, now, seed) in [
            (4, 0, false, Some(true), Some(false)),
            (5, 0, false, Some(true), Some(true)),
            (1, 4, false, Some(false), Some(false)),
            (1, 4, true, None, Some(false)),
            (1, 2, false, None, None),
        ] {
            for (rules, expected) in [(false, now), (true, seed)] {
                let mut q = Queueing::new(None);
                for _ in 0..32 {
                    assert!(!q.on_completion(in_flight, queued, || held_back, rules));
                    assert_eq!(q.decided(), None);
                }
                assert_eq!(
                    q.on_completion(in_flight, queued, || held_back, rules),
                    expected.is_some()
                );
                assert_eq!(
                    q.decided(),
                    expected,
                    "{in_flight} in flight, {queued} queued, seed {rules}"
                );
                assert_eq!(q.is_on(), expected != Some(false));
            }
        }
    }

    #[test]
    fn yes_is_for_ever_and_a_preset_too() {
        let mut q = Queueing::new(Some(false));
        (0..99).for_each(|_| _ = q.on_completion(9, 9, || false, false));
        assert_eq!(q.decided(), Some(false));
        let mut q = Queueing::new(None);
        (0..99).for_each(|_| _ = q.on_completion(9, 9, || false, false));
        (0..99).for_each(|_| _ = q.on_completion(1, 9, || false, false));
        assert_eq!(q.decided(), Some(true));
    }
}
