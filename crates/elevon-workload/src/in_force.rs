//! The complete settings of a tenant: the state that a list of settings leads to, and the settings
//! that turn one state into another.

use elevon_core::control::io_throttle;
use elevon_core::ioprio::PrioPolicy;
use elevon_core::sched::Reserve;
use elevon_core::units::Nanos;
use elevon_formats::cgroup::{Cap, Floor, IoMax, Limit, LimitKey, Setting, WeightFile, Weights};

/// Every setting of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    max: IoMax,
    flat: [Cap; 4],
    limit: Limit,
    reserve: Reserve,
    bandwidth: Option<io_throttle::Limit>,
    iops: Option<io_throttle::Limit>,
    class: PrioPolicy,
    latency: Option<Nanos>,
    weights: Weights,
}

const NONE: Option<Cap> = Some(Cap::Unlimited);

impl Default for InForce {
    fn default() -> Self {
        Self {
            max: IoMax { rbps: NONE, wbps: NONE, riops: NONE, wiops: NONE },
            flat: [Cap::Unlimited; 4],
            limit: Limit {
                rbps: NONE,
                wbps: NONE,
                bps: NONE,
                riops: NONE,
                wiops: NONE,
                iops: NONE,
                burst: Some(0),
                burst_ios: Some(0),
            },
            reserve: Reserve::default(),
            bandwidth: None,
            iops: None,
            class: PrioPolicy::NoChange,
            latency: None,
            weights: Weights::default(),
        }
    }
}

impl InForce {
    /// Returns the state after a list of settings was applied to the defaults.
    pub fn of(settings: &[Setting]) -> Self {
        let mut all = Self::default();
        settings.iter().for_each(|setting| all.take(setting));
        all
    }

    /// Applies a setting; one of the device has no effect.
    pub fn take(&mut self, setting: &Setting) {
        match *setting {
            Setting::IoMax(new) => self.max = new.over(self.max),
            Setting::Flat(key, cap) => self.flat[index(key)] = cap,
            Setting::Limit(new) => self.limit = new.over(self.limit),
            Setting::Reserve(floor) => self.reserve = floor.over(self.reserve),
            Setting::Bandwidth(rule) => self.bandwidth = rule,
            Setting::Iops(rule) => self.iops = rule,
            Setting::Class(class) => self.class = class,
            Setting::Latency(target) => self.latency = target,
            Setting::IoWeight(_) | Setting::BfqWeight(_) | Setting::Weight(_) => {
                self.weights.take(setting);
            }
            Setting::CostQos(_) | Setting::CostModel(_) => {}
        }
    }

    /// Returns Elevon's `limit`.
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns true if `io.max` limits anything.
    pub fn has_io_max(&self) -> bool {
        self.max != Self::default().max
    }

    /// Returns Elevon's `reserve`.
    pub const fn reserve(&self) -> Reserve {
        self.reserve
    }

    /// Returns the settings that make `to` of this, in order. What is the same is not touched, so
    /// that a limit that did not change keeps what it counted. Rates of `io.max` and `limit` are
    /// lifted before others are set: with io_max=exact both set the same limits.
    pub fn changes(&self, to: &Self) -> Vec<Setting> {
        let mut all = Vec::new();
        let mut change = |differs: bool, settings: &[Setting]| {
            if differs {
                all.extend_from_slice(settings);
            }
        };
        for lifted in [true, false] {
            let max = caps_that_differ(&self.max, &to.max, lifted);
            change(max != IoMax::default(), &[Setting::IoMax(max)]);
            let limit = limits_that_differ(&self.limit, &to.limit, lifted);
            change(limit != Limit::default(), &[Setting::Limit(limit)]);
        }
        for key in LimitKey::ALL {
            let cap = to.flat[index(key)];
            change(self.flat[index(key)] != cap, &[Setting::Flat(key, cap)]);
        }
        change(self.reserve != to.reserve, &[Setting::Reserve(to.reserve.into())]);
        change(self.bandwidth != to.bandwidth, &[Setting::Bandwidth(to.bandwidth)]);
        change(self.iops != to.iops, &[Setting::Iops(to.iops)]);
        change(self.class != to.class, &[Setting::Class(to.class)]);
        change(self.latency != to.latency, &[Setting::Latency(to.latency)]);
        let Weights { cost, bfq } = to.weights;
        let whole = [WeightFile::Device(None), WeightFile::Default(cost.effective())]
            .map(Setting::IoWeight);
        change(self.weights.cost != cost, &whole);
        change(self.weights.bfq != bfq, &[Setting::BfqWeight(WeightFile::Default(bfq))]);
        all
    }

    /// Returns the settings that apply a setting as the file of the tenant would have it: `limit`
    /// and `reserve` are tables, and a table replaces the one that was there as a whole.
    pub fn replace(&self, setting: &Setting) -> Vec<Setting> {
        let defaults = Self::default();
        let whole = match *setting {
            Setting::Limit(new) => Self { limit: new.over(defaults.limit), ..*self },
            Setting::Reserve(new) => Self { reserve: new.over(defaults.reserve), ..*self },
            other => return vec![other],
        };
        self.changes(&whole)
    }

    /// Returns a rate of a setting, `io.max` or `limit`, that the other one has set.
    pub fn limited_by_other(&self, setting: &Setting) -> Option<LimitKey> {
        let is_set = |cap: Option<Cap>| cap.is_some_and(|cap| cap != Cap::Unlimited);
        LimitKey::ALL.into_iter().find(|key| match setting {
            Setting::IoMax(max) => max.cap(*key).is_some() && is_set(cap_of(&self.limit, *key)),
            Setting::Limit(limit) => cap_of(limit, *key).is_some() && is_set(self.max.cap(*key)),
            _ => false,
        })
    }

    /// Returns the names and texts of what differs from a tenant without settings.
    pub fn texts(&self) -> Vec<(String, String)> {
        let settings = Self::default().changes(self);
        let is_told =
            |setting: &&Setting| !matches!(setting, Setting::IoWeight(WeightFile::Device(_)));
        let number = |number: Option<u64>| number.filter(|number| *number > 0);
        // The kernel's are shown as the kernel shows them, a reserve without what it does not keep.
        let told = |setting: &Setting| match *setting {
            Setting::IoMax(_) => Setting::IoMax(self.max),
            Setting::Reserve(Floor { iops, bps }) => {
                Setting::Reserve(Floor { iops: number(iops), bps: number(bps) })
            }
            other => other,
        };
        let text = |setting: &Setting| (setting.name().to_owned(), told(setting).text(None));
        settings.iter().filter(is_told).map(text).collect()
    }
}

/// Returns what is to be set of `new`: caps that lift a limit, or others.
fn caps_that_differ(old: &IoMax, new: &IoMax, lifted: bool) -> IoMax {
    let cap = |key| {
        new.cap(key)
            .filter(|_| old.cap(key) != new.cap(key))
            .filter(|cap| is_lifted(*cap) == lifted)
    };
    IoMax {
        rbps: cap(LimitKey::Rbps),
        wbps: cap(LimitKey::Wbps),
        riops: cap(LimitKey::Riops),
        wiops: cap(LimitKey::Wiops),
    }
}

/// The same of `limit`. Bursts belong to what is not lifted.
fn limits_that_differ(old: &Limit, new: &Limit, lifted: bool) -> Limit {
    let cap = |old: Option<Cap>, new: Option<Cap>| {
        new.filter(|cap| old != new && is_lifted(*cap) == lifted)
    };
    let number = |old: Option<u64>, new: Option<u64>| new.filter(|_| old != new && !lifted);
    Limit {
        rbps: cap(old.rbps, new.rbps),
        wbps: cap(old.wbps, new.wbps),
        bps: cap(old.bps, new.bps),
        riops: cap(old.riops, new.riops),
        wiops: cap(old.wiops, new.wiops),
        iops: cap(old.iops, new.iops),
        burst: number(old.burst, new.burst),
        burst_ios: number(old.burst_ios, new.burst_ios),
    }
}

fn is_lifted(cap: Cap) -> bool {
    cap == Cap::Unlimited
}

/// Returns the limit of a key that `io.max` has, too.
const fn cap_of(limit: &Limit, key: LimitKey) -> Option<Cap> {
    match key {
        LimitKey::Rbps => limit.rbps,
        LimitKey::Wbps => limit.wbps,
        LimitKey::Riops => limit.riops,
        LimitKey::Wiops => limit.wiops,
    }
}

const fn index(key: LimitKey) -> usize {
    match key {
        LimitKey::Rbps => 0,
        LimitKey::Wbps => 1,
        LimitKey::Riops => 2,
        LimitKey::Wiops => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::kernel::Kernel;
    use elevon_formats::tenants::parse;

    fn of(text: &str) -> InForce {
        let file = parse("t", &format!("[tenant.a]\n{text}"), &Kernel::DEFAULT.rules())
            .expect("good settings");
        InForce::of(&file.tenants[0].settings)
    }

    #[test]
    fn only_what_is_set_is_told() {
        for (text, told) in [
            ("limit = { iops = 500 }", "{ iops = 500 }"),
            ("limit = { bps = '10M', burst = '1M' }", "{ bps = \"10MB\", burst = \"1MB\" }"),
            (
                "limit = { rbps = '64KiB', wbps = 4097, burst_ios = 7 }",
                "{ rbps = \"64KiB\", wbps = 4097, burst_ios = 7 }",
            ),
            ("reserve = { iops = 100 }", "{ iops = 100 }"),
        ] {
            let name = text.split(' ').next().expect("a name");
            assert_eq!(of(text).texts(), [(name.to_owned(), told.to_owned())]);
        }
    }

    const TEXTS: [&str; 15] = [
        "",
        "weight = 300",
        "weight = 5000",
        "'io.max' = 'rbps=5000'",
        "'io.max' = ['rbps=5000', 'wiops=max riops=7']\nweight = 20",
        "limit = { bps = '10M', burst = '1M' }\nlatency = '5ms'",
        "limit = { iops = 50 }\nclass = 'idle'",
        "'io.weight' = '8:0 70'\n'blkio.throttle.read_bps_device' = '500'",
        "'blockio.iops-max' = '100:0'\n'io.bfq.weight' = '30'",
        "reserve = { iops = 100 }",
        "reserve = { bps = '5M' }\nweight = 300",
        "limit = { rbps = 7000, wiops = 9, iops = 50 }",
        "'io.max' = 'rbps=6000 wiops=8'",
        "'io.max' = 'rbps=6000'\nlimit = { wiops = 9 }",
        "'io.max' = 'wiops=8'\nlimit = { rbps = 7000, burst = '1M' }",
    ];

    /// From every set of settings to every other, whatever way.
    #[test]
    fn changes_make_the_other() {
        for from in TEXTS.map(of) {
            for to in TEXTS.map(of) {
                let mut now = from;
                from.changes(&to).iter().for_each(|setting| now.take(setting));
                assert_eq!((now.max, now.flat, now.limit), (to.max, to.flat, to.limit));
                let weights = |all: &InForce| (all.weights.cost.effective(), all.weights.bfq);
                assert_eq!(weights(&now), weights(&to));
                let others =
                    |all: &InForce| (all.bandwidth, all.iops, all.class, all.latency, all.reserve);
                assert_eq!(others(&now), others(&to));
                assert_eq!(from.changes(&to).is_empty(), from == to);
            }
        }
    }

    /// With io_max=exact `io.max` and `limit` set the same limits. None of the texts has a rate in
    /// both.
    #[test]
    fn a_limit_that_moves_to_the_other_setting_is_in_force() {
        let slots = |now: &mut [Cap; 4], settings: &[Setting]| {
            for (setting, key) in
                settings.iter().flat_map(|setting| LimitKey::ALL.map(|key| (setting, key)))
            {
                let cap = match setting {
                    Setting::IoMax(max) => max.cap(key),
                    Setting::Limit(limit) => cap_of(limit, key),
                    _ => None,
                };
                now[index(key)] = cap.unwrap_or(now[index(key)]);
            }
        };
        for from in TEXTS.map(of) {
            for to in TEXTS.map(of) {
                let mut now = [Cap::Unlimited; 4];
                slots(&mut now, &InForce::default().changes(&from));
                slots(&mut now, &from.changes(&to));
                let wanted = LimitKey::ALL.map(|key| match to.max.cap(key) {
                    Some(cap) if cap != Cap::Unlimited => cap,
                    _ => cap_of(&to.limit, key).expect("every key has a value"),
                });
                assert_eq!(LimitKey::ALL.map(|key| now[index(key)]), wanted, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_rate_of_the_other_setting_is_found() {
        let settings = |text: &str| {
            let text = format!("[tenant.a]\n{text}");
            parse("t", &text, &Kernel::DEFAULT.rules()).expect("good settings").tenants[0].settings
                [0]
        };
        for (in_force, setting, found) in [
            ("'io.max' = 'rbps=5000'", "limit = { rbps = 7000 }", Some(LimitKey::Rbps)),
            ("'io.max' = 'rbps=5000'", "limit = 'max'", Some(LimitKey::Rbps)),
            ("'io.max' = 'rbps=5000'", "limit = { wbps = 7000, iops = 5 }", None),
            ("'io.max' = 'rbps=5000'", "'io.max' = 'rbps=7000'", None),
            ("limit = { wiops = 5 }", "'io.max' = 'wiops=max'", Some(LimitKey::Wiops)),
            ("limit = { wiops = 5 }", "limit = 'max'", None),
            ("", "limit = { rbps = 7000 }", None),
        ] {
            assert_eq!(
                of(in_force).limited_by_other(&settings(setting)),
                found,
                "{in_force}, then {setting}"
            );
        }
    }

    /// A table replaces what was there, `max` and 0 lift all of it, and nothing else changes.
    #[test]
    fn a_table_replaces_the_other() {
        for from in TEXTS {
            for to in [
                "limit = { iops = 400 }",
                "limit = 'max'",
                "reserve = { bps = '5M' }",
                "reserve = 0",
            ] {
                let name = to.split(' ').next().expect("a name");
                let (mut now, wanted) = (of(from), of(to));
                let file = parse("t", &format!("[tenant.a]\n{to}"), &Kernel::DEFAULT.rules())
                    .expect("good settings");
                now.replace(&file.tenants[0].settings[0])
                    .iter()
                    .for_each(|setting| now.take(setting));
                let others = InForce { limit: wanted.limit, reserve: wanted.reserve, ..of(from) };
                let expected = match name {
                    "limit" => InForce { reserve: of(from).reserve, ..others },
                    _ => InForce { limit: of(from).limit, ..others },
                };
                assert_eq!(now, expected, "{from}, then {to}");
            }
        }
        assert_eq!(
            of("limit = { iops = 5, burst_ios = 7 }").replace(&Setting::Weight(5)),
            [Setting::Weight(5)]
        );
    }

    #[test]
    fn what_is_not_default_is_told() {
        assert!(of("").texts().is_empty());
        let texts = of("weight = 20\nlimit = { iops = 50 }").texts();
        let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["limit", "io.weight", "io.bfq.weight"], "{texts:?}");
    }
}
