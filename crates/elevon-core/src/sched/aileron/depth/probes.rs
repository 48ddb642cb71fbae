//! Probes: whether another depth serves better.

use super::compare::{compare, do_not_wait, is_costly};
use super::sums::Sums;
use super::{
    COSTLY, Depth, Event, FRACTION, GAINS, KEPT, LOSES, Load, MAX_PROBE, MAX_SAMPLES, MIN_PROBE,
    MIN_SAMPLES, Probe, SLOW_REQUEST, SOLO, SOLO_LATER, SOLO_LONG, SOLO_PAUSE, Sample, TOO_LONG,
    Verdict, Wants, Way,
};
use crate::units::{Instant, Nanos};

impl Depth {
    /// Returns true if enough is known for a probe and one may be due.
    #[inline]
    pub(super) fn may_probe(&self, now: Instant, wants: Wants) -> bool {
        let Wants { is_unfair, is_binding, is_unknown } = wants;
        let is_up_due = now >= self.up.next;
        if !is_up_due && !is_unfair && !is_unknown {
            return false;
        }
        // By rate it takes longer to know what is delivered.
        let shortest = if self.order.is_lost { MAX_PROBE } else { MIN_PROBE };
        if self.baseline.count < MIN_SAMPLES || now - self.began < shortest {
            return false;
        }
        let is_down_due = is_unfair && now >= self.down.next;
        let is_solo_due = (is_unfair || is_unknown) && self.needs_solo(now);
        (is_up_due && is_binding) || is_down_due || is_solo_due || self.most < self.tags
    }

    /// Begins a probe if one is due.
    pub(super) fn consider_probe(&mut self, now: Instant, load: Load) -> Event {
        if !load.may_probe {
            return Event::None;
        }
        if now >= self.full_until {
            self.most = self.tags;
        }
        let Wants { is_unfair, is_binding, is_unknown } = load.wants;
        let may_go_down = is_unfair && self.reached() > 1;
        let is_too_deep = may_go_down && (load.prefers_shares || self.queues_inside());
        // Requests that do not wait show what they take alone, once costs were right.
        let is_first = self.solo_pause == SOLO_PAUSE.0;
        let may_be_solo = is_unknown || (may_go_down && (is_first || is_too_deep));
        if self.needs_solo(now) && !may_be_solo {
            self.solo_at = now + SOLO_LATER;
        }
        if self.needs_solo(now) {
            self.solo_at = now + self.solo_pause;
            self.solo_pause = Nanos::new(self.solo_pause.get() * 2).min(SOLO_PAUSE.1);
            self.begin(now, Way::Solo, 1, load);
        } else if is_binding
            && self.keeps_shares(now, load)
            && let Some(depth) = self.check_due(now)
        {
            self.begin(now, Way::Check, depth, load);
        } else if is_too_deep && load.may_shrink && now >= self.down.next {
            let from = self.reached();
            let busy = ((self.baseline.served() + 512) / 1024) as u32;
            let step = from - (from / self.down.step).max(1);
            let guess = busy.max(from.midpoint(self.refused.min(from))).clamp(1, step);
            let guess = if self.refused == 0 { busy.clamp(1, step) } else { guess };
            let depth = match () {
                () if load.prefers_shares && self.refused > 0 => {
                    from.midpoint(self.refused.min(from)).min(from - 1)
                }
                () if self.down.step < 8 || self.is_verified => step,
                () => guess,
            };
            self.begin(now, Way::Down, depth, load);
        } else if is_binding
            && !is_too_deep
            && !self.keeps_shares(now, load)
            && now >= self.up.next
            && self.usable < self.most
        {
            let deeper = self.usable + (self.usable / self.up.step).max(1);
            self.begin(now, Way::Up, deeper.min(self.most), load);
        }
        if self.probe.is_some() { Event::Probe } else { Event::None }
    }

    pub(super) fn begin(&mut self, now: Instant, way: Way, depth: u32, load: Load) {
        assert!(depth > 0, "a probe of a depth that lets nothing go");
        self.epoch = self.epoch.wrapping_add(1);
        self.limit = depth;
        // Going up, the first requests still see fewer.
        let skip = if matches!(way, Way::Up | Way::Check) { depth } else { 0 };
        let step = u64::from(depth.abs_diff(self.reached())) * FRACTION;
        self.probe = Some(Probe {
            way,
            depth,
            step,
            since: now,
            skip,
            others: load.mean_of_others(),
            sums: Sums::default(),
        });
    }

    pub(super) fn learn_in_probe(
        &mut self,
        now: Instant,
        mut probe: Probe,
        sample: Sample,
        load: Load,
    ) -> Event {
        if probe.way == Way::Solo && probe.sums.count == 0 {
            // What the device still had to do does not count.
            probe.since = now;
        }
        let took = now.since(probe.since);
        if probe.skip > 0 {
            probe.skip -= 1;
        } else {
            probe.sums.add(sample);
        }
        self.probe = Some(probe);
        if probe.way == Way::Solo {
            return self.learn_alone(&probe, sample, took);
        }
        let has_enough = probe.sums.count >= MIN_SAMPLES.max(probe.depth.into());
        if !has_enough || took < MIN_PROBE {
            let may_be_costly = probe.way == Way::Down && has_enough && took >= COSTLY;
            if took <= TOO_LONG
                && !(may_be_costly && is_costly(&probe.sums, &self.baseline, load.rest))
            {
                return Event::None;
            }
            return self.decide(now, probe, load.rest, false);
        }
        // The load may have changed, or those that may pass the limit are many.
        let (before, now_in) = (self.baseline.depth(), probe.sums.depth());
        let apart = match probe.way {
            Way::Up | Way::Check => now_in.saturating_sub(before),
            Way::Down | Way::Solo => before.saturating_sub(now_in),
        };
        if apart * 2 < probe.step {
            return self.decide(now, probe, load.rest, false);
        }
        let must_end = probe.sums.count >= MAX_SAMPLES
            || (took > MAX_PROBE && probe.sums.count >= 64)
            || took > TOO_LONG;
        let verdict = match probe.way {
            Way::Up | Way::Check => {
                compare(&self.baseline, &probe.sums, load.rest, GAINS, must_end)
            }
            Way::Down | Way::Solo => {
                compare(&probe.sums, &self.baseline, load.rest, LOSES, must_end)
            }
        };
        self.conclude(now, probe, load, verdict)
    }

    /// Goes on with a probe of requests alone, or ends it: `took` is its time so far.
    fn learn_alone(&mut self, probe: &Probe, sample: Sample, took: Nanos) -> Event {
        let (few, enough) = SOLO;
        let is_needed = !self.is_first_solo() || sample.time >= SLOW_REQUEST;
        let goes_on = probe.sums.count < enough
            && took < TOO_LONG
            && (probe.sums.count < few || took < SOLO_LONG);
        if is_needed && goes_on {
            return Event::None;
        }
        self.end();
        // What requests take alone is known better from here on.
        self.renew_baseline();
        Event::Costs
    }

    /// Acts on what the comparison of a probe with the baseline says.
    fn conclude(&mut self, now: Instant, probe: Probe, load: Load, verdict: Verdict) -> Event {
        match (probe.way, verdict) {
            (_, Verdict::Unclear) => Event::None,
            (Way::Check, _) => self.end_check(now, &probe, load.rest),
            // More in flight only if it is known to help, fewer if nothing speaks against it.
            (Way::Up, Verdict::Even { .. }) => {
                let step = self.up.step;
                let event = self.decide(now, probe, load.rest, false);
                // A larger one shows more.
                self.up.step = (step / 2).max(2);
                event
            }
            (Way::Up, verdict) => self.decide(now, probe, load.rest, verdict == Verdict::High),
            (Way::Down | Way::Solo, verdict) => {
                let is_low = matches!(verdict, Verdict::Low | Verdict::Even { is_low: true });
                let is_taken = self.may_take_smaller(&probe, load, is_low);
                self.decide(now, probe, load.rest, is_taken)
            }
        }
    }

    /// Returns true if the smaller depth of a probe is good enough. `is_low`: elasticity is low.
    pub(super) fn may_take_smaller(&self, probe: &Probe, load: Load, is_low: bool) -> bool {
        if load.prefers_shares {
            return self.reference.may_take(&probe.sums, &self.baseline, load.rest);
        }
        let helps = match (probe.others, load.mean_of_others()) {
            (Some(before), Some(after)) => after * 10 <= before * 9,
            _ => true,
        };
        // Each step may cost little, and many of them too much.
        let before = self.delivered_before.unwrap_or_else(|| self.baseline.delivered(load.rest));
        let is_enough = probe.sums.delivered(load.rest) * KEPT.1 >= before * KEPT.0;
        is_enough && helps && is_low
    }

    pub(super) fn end(&mut self) {
        self.probe = None;
        self.limit = self.usable;
        self.epoch = self.epoch.wrapping_add(1);
        self.restart_window();
    }

    /// Ends a probe. `rest`: see [`Load::rest`].
    pub(super) fn decide(
        &mut self,
        now: Instant,
        probe: Probe,
        rest: u64,
        is_taken: bool,
    ) -> Event {
        if probe.way == Way::Check {
            return self.end_check_in_vain(now);
        }
        self.end();
        let (pace, other) = match probe.way {
            Way::Up | Way::Check => (&mut self.up, &mut self.down),
            Way::Down | Way::Solo => (&mut self.down, &mut self.up),
        };
        if is_taken {
            pace.accept(now);
            other.step = 8;
            other.next = other.next.max(now + other.pause);
            match probe.way {
                Way::Up | Way::Check => self.reference.rise(probe.depth),
                Way::Down | Way::Solo => {
                    self.reference.take(now, self.reached(), &probe.sums, &self.baseline, rest);
                }
            }
            (self.usable, self.limit) = (probe.depth, probe.depth);
            self.refused = 0;
            self.delivered_before = match probe.way {
                Way::Up | Way::Check => {
                    self.delivered_before.map(|before| before.max(probe.sums.delivered(rest)))
                }
                Way::Down | Way::Solo => {
                    Some(self.delivered_before.unwrap_or_else(|| self.baseline.delivered(rest)))
                }
            };
            (self.baseline, self.began, self.top) = (probe.sums, probe.since, probe.sums.depth());
            self.is_verified = false;
        } else {
            pace.refuse(now, now.since(probe.since));
            if probe.way == Way::Down {
                self.refused = probe.depth;
            }
            if probe.way == Way::Down && probe.sums.count >= MIN_SAMPLES {
                self.is_verified = do_not_wait(&probe.sums, &self.baseline);
            }
        }
        Event::Probe
    }
}
