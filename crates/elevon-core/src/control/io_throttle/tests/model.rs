//! Compares random sequences of all operations with a model that keeps the whole history of a
//! limiter and checks for each nanosecond whether the rule releases a bio.

use super::*;

/// A limiter as the proposal describes it: units used since the window started, or tokens.
#[derive(Clone, Debug)]
struct Law {
    limit: Limit,
    /// In units times 10^9. A leaky bucket's use is below 0 if a change found it with credit.
    used: i128,
    tokens: i128,
    at: Instant,
}

const E9: i128 = 1_000_000_000;

impl Law {
    fn fresh(limit: Limit, now: Instant) -> Self {
        let tokens = match limit.policy {
            Policy::Leaky => 0,
            Policy::Token { bucket } => i128::from(bucket) * E9,
        };
        Self { limit, used: 0, tokens, at: now }
    }

    fn credit(&self, now: Instant) -> i128 {
        i128::from(now.since(self.at).get()) * i128::from(self.limit.rate)
    }

    fn level(&self, now: Instant) -> i128 {
        match self.limit.policy {
            Policy::Leaky => self.credit(now) - self.used,
            Policy::Token { .. } => self.tokens + self.credit(now),
        }
    }

    fn lets_go(&self, now: Instant, units: u64) -> bool {
        let units = i128::from(units) * E9;
        units == 0
            || match self.limit.policy {
                Policy::Leaky => self.used + units <= self.credit(now),
                Policy::Token { bucket } => {
                    (self.tokens + self.credit(now)).min((i128::from(bucket) * E9).max(units))
                        >= units
                }
            }
    }

    fn pay(&mut self, now: Instant, units: u64, was_held: bool) {
        if units == 0 {
            return;
        }
        let units = i128::from(units) * E9;
        let slack = if was_held { i128::from(self.limit.rate) - 1 } else { 0 };
        match self.limit.policy {
            Policy::Leaky => {
                self.used += units;
                if self.used + slack <= self.credit(now) {
                    // The use is within the credit: reset, except for the rounding of its deadline.
                    (self.used, self.at) = (-slack, now);
                }
            }
            Policy::Token { bucket } => {
                let most = (i128::from(bucket) * E9).max(units) + slack;
                self.tokens = (self.tokens + self.credit(now)).min(most) - units;
                self.at = now;
            }
        }
    }

    fn replaced(old: Option<&Self>, limit: Limit, now: Instant, wanted: Option<u64>) -> Self {
        let fresh = Self::fresh(limit, now);
        let Some(have) = old.map(|old| old.level(now)) else { return fresh };
        let have = match wanted {
            Some(units) => have.min(fresh.tokens.max(i128::from(units) * E9)),
            None if have < 0 => have,
            None => return fresh,
        };
        Self { used: -have, tokens: have, ..fresh }
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    bio: BioId,
    class: usize,
    cost: Cost,
    arrived: Instant,
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    laws: [Option<Law>; 2],
    waiting: Vec<Waiting>,
}

impl Tenant {
    fn lets_go(&self, now: Instant, cost: &Cost) -> bool {
        self.laws
            .iter()
            .zip(cost)
            .all(|(law, &units)| law.as_ref().is_none_or(|law| law.lets_go(now, units)))
    }

    fn pay(&mut self, now: Instant, cost: &Cost, was_held: bool) {
        for (law, &units) in self.laws.iter_mut().zip(cost) {
            if let Some(law) = law {
                law.pay(now, units, was_held);
            }
        }
    }

    /// Returns the index of the next bio to release: the first of the most urgent class.
    fn head(&self) -> Option<usize> {
        (0..self.waiting.len()).min_by_key(|&at| (self.waiting[at].class, at))
    }
}

struct Pair {
    bed: Bed,
    rng: Rng,
    config: Config,
    now: Instant,
    living: Vec<TenantId>,
    model: BTreeMap<TenantId, Tenant>,
    due: Vec<BioId>,
    /// Total time of finished waits.
    waited: u64,
    arrived: BTreeMap<BioId, Instant>,
    passed: u64,
    shown: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let config = Config { counter: !rng.one_in(3), quirks: false, class_aware: rng.one_in(2) };
        let mut bed = Bed::new(config);
        let living = (0..4).map(|_| bed.add()).collect();
        let (now, model, arrived) = (ms(1), BTreeMap::new(), BTreeMap::new());
        Self {
            bed,
            rng,
            config,
            now,
            living,
            model,
            due: Vec::new(),
            waited: 0,
            arrived,
            passed: 0,
            shown: 0,
        }
    }

    fn tenant(&mut self) -> TenantId {
        self.rng.pick(&self.living)
    }

    fn submit(&mut self) {
        let tenant = self.tenant();
        let bytes = self.rng.pick(&[0, 512, 4096, 4096, 65536, MIB]);
        let class = self.rng.below(4) as usize;
        let charge = BioCost {
            ioprio: IoPrio::new(
                [PrioClass::None, PrioClass::Rt, PrioClass::Be, PrioClass::Idle][class],
                0,
            ),
            first: !self.rng.one_in(8),
            must_issue: self.rng.one_in(10),
            may_sleep: self.rng.one_in(2),
            ..Bed::charge(tenant, bytes)
        };
        let is_slow = !self.config.counter || !self.model.is_empty();
        self.shown += u64::from(is_slow);
        let (bio, verdict) = self.bed.admit(self.now, &charge);
        let class = if self.config.class_aware { [1, 0, 1, 2][class] } else { 0 };
        let cost = [if charge.first { bytes } else { 0 }, 1];
        let passes = match self.model.get_mut(&tenant) {
            None => true,
            Some(_) if bytes == 0 => true,
            Some(rules) => {
                let in_front = rules.waiting.iter().any(|other| other.class <= class);
                let passes = charge.must_issue || !in_front && rules.lets_go(self.now, &cost);
                if passes {
                    rules.pay(self.now, &cost, false);
                } else {
                    rules.waiting.push(Waiting { bio, class, cost, arrived: self.now });
                    self.arrived.insert(bio, self.now);
                }
                passes
            }
        };
        let held = if charge.may_sleep { StageVerdict::Sleep } else { StageVerdict::Hold };
        assert_eq!(verdict, if passes { StageVerdict::Pass } else { held });
        self.passed += u64::from(passes);
    }

    fn change(&mut self) {
        let tenant = self.tenant();
        let kind = self.rng.pick(&[LimitKind::Bandwidth, LimitKind::Iops]);
        let rate = self.rng.pick(&[0, 1, 7, 1000, 3 * MIB, 1 << 31]);
        let policy = match self.rng.below(2) {
            0 => Policy::Leaky,
            _ => Policy::Token { bucket: self.rng.pick(&[0, 1, 4096, MIB]) },
        };
        let limit = (!self.rng.one_in(3)).then_some(Limit { rate, policy });
        let change = self.bed.set(self.now, tenant, kind, limit);
        let had = self.model.contains_key(&tenant);
        if limit.is_some_and(|limit| limit.rate == 0 || limit.policy == Policy::Token { bucket: 0 })
        {
            assert!(change.is_err());
            return;
        }
        if limit.is_none() && !had {
            assert_eq!(change, Ok(Change::Nothing));
            return;
        }
        let rules = self.model.entry(tenant).or_default();
        let wanted = rules.head().map(|at| rules.waiting[at].cost[kind as usize]);
        let law = &mut rules.laws[kind as usize];
        *law = limit.map(|limit| Law::replaced(law.as_ref(), limit, self.now, wanted));
        let is_gone = rules.laws.iter().all(Option::is_none);
        let expected = match (had, is_gone) {
            (false, _) => Change::Inserted,
            (true, false) => Change::Replaced,
            (true, true) => Change::Deleted,
        };
        assert_eq!(change, Ok(expected));
        if is_gone {
            self.forget(tenant);
        }
    }

    fn forget(&mut self, tenant: TenantId) {
        let mut rules = self.model.remove(&tenant).unwrap_or_default();
        rules.waiting.sort_by_key(|waiting| waiting.class);
        self.due.extend(rules.waiting.iter().map(|waiting| waiting.bio));
    }

    fn replace_tenant(&mut self) {
        let at = self.rng.below(self.living.len() as u64) as usize;
        let tenant = self.living.swap_remove(at);
        self.bed.tenants.remove(tenant).unwrap();
        self.bed.throttle.on_tenant_removed(self.now, &self.bed.tenants, tenant);
        self.bed.throttle.self_check(&self.bed.tenants);
        self.forget(tenant);
        let fresh = self.bed.add();
        self.living.push(fresh);
    }

    /// Advances the clock, sometimes beyond some deadlines. Every bio is released as of the first
    /// nanosecond at which the rule allows it.
    fn advance(&mut self) {
        let step = self.rng.pick(&[0, 1, 1000, 1_000_000, 3_000_000_000]);
        let until = self.now + Nanos::new(self.rng.below(step + 1));
        while let Some(at) = self.bed.throttle.next_wakeup()
            && at <= until
        {
            if self.rng.one_in(4) {
                // A late call releases everything that is due, in the order of the deadlines.
                break;
            }
            self.release(at.max(self.now));
        }
        self.release(until);
    }

    fn release(&mut self, now: Instant) {
        let before = core::mem::replace(&mut self.now, now);
        let out = self.bed.release(now);
        let (due, rest) = out.split_at(self.due.len());
        assert_eq!(due, self.due);
        self.due.clear();
        for bio in due {
            self.waited += (now - self.arrived[bio]).get();
        }
        // The releases that the clock would have made at each nanosecond.
        let mut at = before;
        for &bio in rest {
            at = self.next_deadline(at).expect("something is let go");
            assert!(at <= now, "{bio:?} went before its time");
            let heads =
                self.model.values_mut().filter_map(|rules| rules.head().map(|head| (rules, head)));
            let mut heads = heads.filter(|(rules, head)| rules.waiting[*head].bio == bio);
            let (rules, head) = heads.next().expect("a head");
            let Waiting { cost, arrived, .. } = rules.waiting.remove(head);
            assert!(rules.lets_go(at, &cost), "{bio:?} at {at:?}");
            rules.pay(at, &cost, true);
            self.waited += (now - arrived).get();
        }
        assert!(self.next_deadline(at).is_none_or(|at| at > now), "something should have gone");
        if let Some(wakeup) = self.bed.throttle.next_wakeup() {
            assert_eq!(self.next_deadline(at), (wakeup < Instant::MAX).then_some(wakeup));
        }
    }

    /// Returns the first nanosecond from `from` on at which the head may be released, found by
    /// bisection with the rule alone.
    fn next_deadline(&self, from: Instant) -> Option<Instant> {
        let first = |rules: &Tenant| {
            let cost = rules.waiting[rules.head()?].cost;
            let (mut low, mut high) = (from.get(), from.get() + (1 << 62));
            if !rules.lets_go(Instant::new(high), &cost) {
                return None;
            }
            while low < high {
                let middle = low + (high - low) / 2;
                if rules.lets_go(Instant::new(middle), &cost) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            Some(Instant::new(low))
        };
        self.model.values().filter_map(first).min()
    }

    fn check(&self) {
        let throttle = &self.bed.throttle;
        assert_eq!(throttle.live_rules() as usize, self.model.len());
        let waiting: usize = self.model.values().map(|rules| rules.waiting.len()).sum();
        assert_eq!(throttle.held(), waiting + self.due.len());
        assert_eq!(
            throttle.work().lookups,
            self.shown,
            "looked up without a rule, or not with one"
        );
        let breakdown: u64 = self.bed.breakdown.iter().map(|(_, _, time)| time.get()).sum();
        assert_eq!(breakdown, self.waited, "every nanosecond once");
    }
}

#[test]
fn random_sequences_follow_the_law_and_keep_the_invariants() {
    let (mut waited, mut passed) = (0, 0);
    for seed in 0..200 {
        let mut pair = Pair::new(seed);
        for _ in 0..300 {
            match pair.rng.below(20) {
                0..=9 => pair.submit(),
                10..=12 => pair.change(),
                13 => pair.replace_tenant(),
                _ => pair.advance(),
            }
            pair.check();
        }
        (waited, passed) = (waited + pair.waited, passed + pair.passed);
    }
    assert!(waited > 0 && passed > 0, "the sequences exercise nothing");
}
