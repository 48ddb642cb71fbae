//! Which part of the time is followed, so that watching stays cheap where events are many.

/// Processor time for events of a second, in nanoseconds: two hundredths of a processor.
const BUDGET: u64 = 20_000_000;
/// Events of a second that are followed whatever they cost: few are always whole, also on a slow
/// machine.
const FLOOR: u64 = 10_000;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// The shortest time that is followed of a second, in nanoseconds: a request must begin and end in
/// it.
const SHORTEST_WINDOW: u64 = 20_000_000;
/// The longest part of a second, in nanoseconds, for which the rest of it is not followed.
const LONGEST_WINDOW: u64 = 800_000_000;
/// Multiples of [`BUDGET`] after which a second is given up at once.
const TOO_MUCH: u64 = 2;
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
    /// Events of the window, and the processor time that it took.
    events: u64,
    cost: u64,
    /// When they began to be followed.
    begun: u64,
    /// When the window was over.
    ended: u64,
    is_following: bool,
    /// True if the window is less than the second; how long it is then.
    is_part: bool,
    length: u64,
    /// True if events of the present second were followed.
    was_followed: bool,
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
            cost: 0,
            begun: now,
            ended: now + SECOND,
            is_following: true,
            is_part: false,
            length: SECOND,
            was_followed: true,
            rest: 0,
            seconds: 0,
        }
    }

    /// Takes note of events that came, of those that were lost, and of the processor time that
    /// this took, in nanoseconds. What is lost counts as if it had come, since it has cost the
    /// watched.
    pub(super) fn count(&mut self, events: u64, lost: u64, cpu: u64) {
        let of_lost = u128::from(cpu) * u128::from(lost) / u128::from(events.max(1));
        self.events += events + lost;
        self.cost = self.cost.saturating_add(cpu).saturating_add(of_lost as u64);
    }

    /// Takes note of when events began to be followed: a part is as long as planned, also if it
    /// begins late.
    pub(super) const fn has_begun(&mut self, now: u64) {
        self.begun = now;
        if self.is_part {
            self.window.1 = now + self.length;
        }
    }

    /// Returns the nanoseconds until something is to be done, if that is known.
    pub(super) fn change(&self, now: u64) -> Option<u64> {
        let next = if self.is_following { self.window.1 } else { self.rest };
        (self.is_part || !self.is_following).then(|| next.saturating_sub(now))
    }

    /// Returns what to do at a time. Should be called before what was recorded is read, and again
    /// when that was counted.
    pub(super) fn step(&mut self, now: u64) -> Step {
        // The events of a part that ends late have not been counted yet. With nothing in it, all of
        // the next second would be followed.
        let is_uncounted = self.is_following && self.is_part;
        if now >= self.end && !is_uncounted {
            self.plan(now);
            if !self.is_following && now < self.window.0 {
                let from = std::mem::replace(&mut self.rest, self.window.0);
                return Step::RestOn { from, until: self.rest };
            }
        }
        let is_too_much = self.cost > BUDGET * TOO_MUCH && self.events > FLOOR;
        let is_in = if self.is_following {
            (self.window.0..self.window.1).contains(&now)
        } else {
            now >= self.window.0 && !self.was_followed
        };
        let is_wanted = is_in && !is_too_much;
        match (self.is_following, is_wanted) {
            (true, false) => {
                self.is_following = false;
                self.ended = now;
                self.rest = if now < self.window.0 { self.window.0 } else { self.end.max(now + 1) };
                Step::Rest { until: self.rest }
            }
            (false, true) => {
                (self.is_following, self.was_followed) = (true, true);
                self.has_begun(now);
                Step::Follow { from: self.rest }
            }
            _ => Step::Stay,
        }
    }

    /// Plans the second that a time is in, by the events of the one before and what they cost.
    fn plan(&mut self, now: u64) {
        let ended = if self.is_following { self.end } else { self.ended };
        // A part that lasted longer, since the watcher was woken late, will do so again.
        let followed = u128::from(ended.saturating_sub(self.begun).min(self.length).max(1));
        let start = self.end + (now - self.end) / SECOND * SECOND;
        self.end = start + SECOND;
        self.seconds = self.seconds.wrapping_add(1);
        let up_to = |limit: u64, had: u64| followed * u128::from(limit) / u128::from(had.max(1));
        // What a second costs whatever its length is in the cost, too: the length settles where
        // both together are the budget.
        let length = up_to(BUDGET, self.cost).max(up_to(FLOOR, self.events));
        let length = u64::try_from(length).unwrap_or(SECOND).max(SHORTEST_WINDOW);
        // A second in which the watcher was not run tells nothing.
        if self.was_followed {
            (self.length, self.is_part) = (length.min(SECOND), length <= LONGEST_WINDOW);
        }
        self.window = if self.is_part {
            let place = u64::from(self.seconds.wrapping_mul(GOLDEN));
            let from = start + (((SECOND - self.length) * place) >> 32);
            (from, from + self.length)
        } else {
            (start, self.end)
        };
        self.was_followed = self.is_following && (self.window.0..self.window.1).contains(&now);
        (self.events, self.cost) = (0, 0);
        if self.is_following {
            self.begun = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second's events, and what following them costs: for each event, and for turning the
    /// events on or off.
    #[derive(Clone, Copy)]
    struct Load {
        rate: u64,
        event: u64,
        switch: u64,
    }

    /// Events that cost a microsecond each.
    const fn cheap(rate: u64) -> Load {
        Load { rate, event: 1_000, switch: 2_000_000 }
    }

    /// What came of a second.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Had {
        /// Nanoseconds that were followed.
        followed: u64,
        /// Processor time that it took.
        cost: u64,
    }

    /// Runs a sampler beside a disk, looking each 50 ms and at each change.
    fn run(loads: &[Load]) -> Vec<Had> {
        run_late(loads, 0)
    }

    /// Likewise on a machine that wakes the watcher so many nanoseconds late.
    fn run_late(loads: &[Load], late: u64) -> Vec<Had> {
        let mut sampler = Sampler::new(0);
        let mut all = vec![Had::default(); loads.len()];
        let (mut now, mut is_following, mut recorded) = (0, true, 0);
        while now < SECOND * loads.len() as u64 {
            let second = (now / SECOND) as usize;
            let (load, had) = (loads[second], &mut all[second]);
            for events in [recorded, 0] {
                let mut cost = events * load.event;
                match sampler.step(now) {
                    Step::Rest { until } => {
                        assert!(until > now, "{now}");
                        is_following = false;
                        cost += load.switch;
                    }
                    Step::Follow { .. } => {
                        sampler.has_begun(now);
                        is_following = true;
                        cost += load.switch;
                    }
                    Step::RestOn { from, until } => assert!(from <= now + 1 && now < until),
                    Step::Stay => {}
                }
                sampler.count(events, 0, cost);
                had.cost += cost;
            }
            let wait = sampler.change(now).unwrap_or(50_000_000).clamp(1, 50_000_000) + late;
            recorded = 0;
            if is_following {
                had.followed += wait;
                recorded = (u128::from(load.rate) * u128::from(wait) / 1_000_000_000) as u64;
            }
            now += wait;
        }
        all
    }

    #[test]
    fn what_stays_within_the_budget_is_all_followed() {
        for load in [cheap(15_000), Load { event: 200, ..cheap(75_000) }] {
            assert!(run(&[load; 5]).iter().all(|had| had.followed == SECOND));
        }
    }

    #[test]
    fn few_events_are_all_followed_whatever_they_cost() {
        let all = run(&[Load { event: 100_000, ..cheap(FLOOR) }; 5]);
        assert!(all.iter().all(|had| had.followed == SECOND), "{all:?}");
    }

    #[test]
    fn of_dear_events_the_floor_is_followed() {
        // A debug build, or an emulated processor.
        let all = run(&[Load { event: 50_000, ..cheap(4 * FLOOR) }; 6]);
        for had in &all[2..] {
            assert!((200_000_000..=300_000_000).contains(&had.followed), "{all:?}");
        }
    }

    #[test]
    fn many_events_cost_the_budget_with_what_turning_them_on_and_off_costs() {
        for (rate, event) in [(50_000, 1_000), (200_000, 1_000), (300_000, 500)] {
            let all = run(&[Load { event, ..cheap(rate) }; 20]);
            // The first second is given up when it costs too much.
            assert!(all[0].cost <= (TOO_MUCH + 1) * BUDGET, "{all:?}");
            let last = all[10..].iter().map(|had| had.cost).sum::<u64>() / 10;
            assert!((BUDGET * 8 / 10..=BUDGET * 11 / 10).contains(&last), "{rate}: {all:?}");
        }
    }

    #[test]
    fn a_part_is_followed_in_every_second() {
        let all = run(&[cheap(5_000_000); 20]);
        for had in &all[1..] {
            assert!((SHORTEST_WINDOW..=60_000_000).contains(&had.followed), "{all:?}");
        }
    }

    #[test]
    fn a_watcher_that_is_woken_late_stays_near_the_budget() {
        for late in [30_000_000, 130_000_000, 400_000_000] {
            let all = run_late(&[cheap(500_000); 60], late);
            // A window lasts until the watcher is run, and is no longer for that.
            let most = SHORTEST_WINDOW + late + 10_000_000;
            for had in &all[2..] {
                assert!(had.followed <= most, "{late}: {all:?}");
            }
            assert!(all[2..].iter().filter(|had| had.followed > 0).count() > 40, "{late}: {all:?}");
        }
    }

    #[test]
    fn a_part_that_ends_late_is_counted_before_the_next_is_planned() {
        let mut sampler = Sampler::new(0);
        sampler.count(1_000_000, 0, 200_000_000);
        assert_eq!(sampler.step(50_000_000), Step::Rest { until: SECOND });
        let Step::RestOn { until, .. } = sampler.step(SECOND) else { panic!("{sampler:?}") };
        assert_eq!(sampler.step(until), Step::Follow { from: until });
        let late = 2 * SECOND + 100_000_000;
        assert_eq!(sampler.step(late), Step::Rest { until: late + 1 });
        sampler.count(1_000_000, 0, 200_000_000);
        assert!(matches!(sampler.step(late), Step::RestOn { .. } | Step::Follow { .. }));
        assert!(sampler.is_part);
    }

    #[test]
    fn lost_events_count_like_those_that_came() {
        let mut sampler = Sampler::new(0);
        sampler.count(10_000, 30_000, 15_000_000);
        assert_eq!(sampler.step(1_000), Step::Rest { until: SECOND });
    }

    #[test]
    fn all_are_followed_again_when_they_are_few() {
        let all = run(&[[cheap(600_000); 5], [cheap(1_000); 5]].concat());
        assert!(all[7..].iter().all(|had| had.followed == SECOND), "{all:?}");
    }
}
