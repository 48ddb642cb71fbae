//! I/O priority as the kernel packs it: class, level and hint in one word. Also the default
//! priority of a task's I/O, and the effect of a cgroup's `io.prio.class`.
//!
//! The order on submission is that of Linux. First is the priority that the issuer set on the bio.
//! Else it is that of the submitting task, [`IoPrio::of_task`]. Then the policy of the bio's group
//! applies, [`PrioPolicy::apply`]. Each costs a few instructions.

use crate::kernel::Rules;

/// Priority class. The order of the numbers is Linux's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PrioClass {
    /// Not set: a scheduler treats it as best effort.
    #[default]
    None = 0,
    /// Real time.
    Rt = 1,
    /// Best effort.
    Be = 2,
    /// Idle: served only if no other class wants the device.
    Idle = 3,
}

impl PrioClass {
    /// Returns its name as tracepoints print it: `none`, `rt`, `be`, `idle`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rt => "rt",
            Self::Be => "be",
            Self::Idle => "idle",
        }
    }

    /// Returns the class as a scheduler uses it: NONE is best effort. Of effective classes the
    /// smaller is more urgent.
    #[inline]
    pub const fn effective(self) -> Self {
        match self {
            Self::None => Self::Be,
            Self::Rt | Self::Be | Self::Idle => self,
        }
    }

    /// Returns the effective class as an index, most urgent first: 0 real time, 1 best effort, 2
    /// idle.
    #[inline]
    pub const fn rank(self) -> usize {
        match self {
            Self::Rt => 0,
            Self::None | Self::Be => 1,
            Self::Idle => 2,
        }
    }
}

/// A task's CPU scheduling policy, as far as it affects the priority of its I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuPolicy {
    /// SCHED_OTHER and SCHED_BATCH.
    #[default]
    Normal,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
    RealTime,
}

/// A class with a level from 0, the best, to 7, and a device hint for command duration limits,
/// 0..=1023.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoPrio(u16);

impl IoPrio {
    /// Class NONE, level 0: no priority was set.
    pub const NONE: Self = Self(0);
    /// The priority on submission for a task of the default CPU policy: best effort, level 4.
    pub const DEFAULT: Self = Self::new(PrioClass::Be, 4);

    /// Packs a class and a level; the level is clamped to 0..=7.
    pub const fn new(class: PrioClass, level: u8) -> Self {
        Self((class as u16) << 13 | (level & 7) as u16)
    }
    /// Returns the priority of a packed word; `None` if the class is not one of the four.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        if bits >> 13 <= PrioClass::Idle as u16 { Some(Self(bits)) } else { None }
    }
    /// Returns the priority of a task's I/O for which the issuer set none: the priority `set` that
    /// ioprio_set gave the task. If its class is NONE, the priority follows from the CPU policy and
    /// the nice value (clamped to -20..=19), five nice values per level. As in Linux; ioprio_set(2)
    /// has the formula.
    pub const fn of_task(set: Self, policy: CpuPolicy, nice: i8) -> Self {
        let class = match policy {
            CpuPolicy::Normal => PrioClass::Be,
            CpuPolicy::Idle => PrioClass::Idle,
            CpuPolicy::RealTime => PrioClass::Rt,
        };
        let nice = if nice < -20 {
            -20
        } else if nice > 19 {
            19
        } else {
            nice
        };
        set.or(Self::new(class, ((nice + 20) / 5) as u8))
    }
    /// Returns this priority, or `default` if its class is NONE.
    #[inline]
    pub const fn or(self, default: Self) -> Self {
        match self.class() {
            PrioClass::None => default,
            PrioClass::Rt | PrioClass::Be | PrioClass::Idle => self,
        }
    }
    /// Returns the same level and hint with another class.
    #[inline]
    pub const fn with_class(self, class: PrioClass) -> Self {
        Self(self.0 & 0x1fff | (class as u16) << 13)
    }
    /// Returns the same class and hint with another level, clamped to 0..=7.
    #[inline]
    pub const fn with_level(self, level: u8) -> Self {
        Self(self.0 & !7 | (level & 7) as u16)
    }
    /// Returns the same class and level with a device hint, clamped to 0..=1023.
    pub const fn with_hint(self, hint: u16) -> Self {
        Self(self.0 & !(0x3ff << 3) | (hint & 0x3ff) << 3)
    }
    /// Returns the class.
    #[inline]
    pub const fn class(self) -> PrioClass {
        match self.0 >> 13 {
            1 => PrioClass::Rt,
            2 => PrioClass::Be,
            3 => PrioClass::Idle,
            _ => PrioClass::None,
        }
    }
    /// Returns the level, 0 (best) to 7.
    #[inline]
    pub const fn level(self) -> u8 {
        (self.0 & 7) as u8
    }
    /// Returns the hint, 0 if none was set.
    #[inline]
    pub const fn hint(self) -> u16 {
        self.0 >> 3 & 0x3ff
    }
    /// Returns the packed word.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

/// The effect of a cgroup on the priority of its I/O: the file `io.prio.class` (`blkio.prio.class`
/// of cgroup v1). It applies to the I/O's own group only and is not inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrioPolicy {
    /// The priority is not changed.
    #[default]
    NoChange,
    /// Up to 6.4 it changes class NONE only, which no I/O has after submission; from 6.5 it is
    /// another name for `promote-to-rt`.
    NoneToRt,
    /// Every class except RT becomes RT, level 4 (6.5+).
    PromoteToRt,
    /// RT becomes best effort, level 0.
    RestrictToBe,
    /// Every class becomes IDLE.
    Idle,
}

impl PrioPolicy {
    /// All policies.
    pub const ALL: [Self; 5] =
        [Self::NoChange, Self::NoneToRt, Self::PromoteToRt, Self::RestrictToBe, Self::Idle];

    /// Returns the word for `io.prio.class`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoChange => "no-change",
            Self::NoneToRt => "none-to-rt",
            Self::PromoteToRt => "promote-to-rt",
            Self::RestrictToBe => "restrict-to-be",
            Self::Idle => "idle",
        }
    }

    /// Returns the policy with a name; [`Self::is_known`] says if a kernel has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns true if a kernel has this policy; a kernel without it refuses the word with EINVAL.
    pub const fn is_known(self, rules: &Rules) -> bool {
        match self {
            Self::PromoteToRt => rules.promote_to_rt,
            Self::NoChange | Self::NoneToRt | Self::RestrictToBe | Self::Idle => true,
        }
    }

    /// Returns the priority after the policy was applied. If Linux takes the numerically larger
    /// word (less urgent, and more urgent than NONE), level and hint are those of that word.
    #[inline]
    pub const fn apply(self, prio: IoPrio, rules: &Rules) -> IoPrio {
        match self {
            Self::NoChange => prio,
            Self::NoneToRt if !rules.promote_to_rt => prio.at_least_number(PrioClass::Rt),
            Self::NoneToRt | Self::PromoteToRt => match prio.class() {
                PrioClass::Rt => prio,
                PrioClass::None | PrioClass::Be | PrioClass::Idle => IoPrio::new(PrioClass::Rt, 4),
            },
            Self::RestrictToBe => prio.at_least_number(PrioClass::Be),
            Self::Idle => prio.at_least_number(PrioClass::Idle),
        }
    }
}

impl IoPrio {
    /// Returns the larger of this word and that of a class at level 0.
    const fn at_least_number(self, class: PrioClass) -> Self {
        let floor = Self::new(class, 0);
        if self.0 < floor.0 { floor } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    fn word(class: PrioClass, level: u8) -> u16 {
        IoPrio::new(class, level).bits()
    }

    #[test]
    fn words_are_packed_as_in_linux() {
        use PrioClass::{Be, Idle, None, Rt};
        for (prio, bits) in [
            (IoPrio::NONE, 0),
            (IoPrio::new(Rt, 0), 0x2000),
            (IoPrio::new(Rt, 4), 0x2004),
            (IoPrio::new(Be, 0), 0x4000),
            (IoPrio::new(Be, 4), 0x4004),
            (IoPrio::new(Be, 7), 0x4007),
            (IoPrio::new(Idle, 0), 0x6000),
            (IoPrio::new(Be, 4).with_hint(2), 16404),
            (IoPrio::new(Be, 4).with_hint(3), 0x401c),
            (IoPrio::new(Rt, 0).with_hint(7), 0x2038),
        ] {
            assert_eq!((prio.bits(), IoPrio::from_bits(bits)), (bits, Some(prio)));
        }
        let prio = IoPrio::from_bits(0x401c).unwrap();
        assert_eq!((prio.class(), prio.level(), prio.hint()), (Be, 4, 3));
        assert_eq!(
            (IoPrio::from_bits(0xe000), IoPrio::from_bits(0x8000)),
            (Option::None, Option::None)
        );
        for bits in 0..0x8000 {
            let prio = IoPrio::from_bits(bits).unwrap();
            assert_eq!(IoPrio::new(prio.class(), prio.level()).with_hint(prio.hint()), prio);
            for class in [None, Rt, Be, Idle] {
                let other = prio.with_class(class);
                assert_eq!(
                    (other.class(), other.level(), other.hint()),
                    (class, prio.level(), prio.hint())
                );
            }
        }
    }

    #[test]
    fn a_task_has_a_default_by_nice_and_cpu_policy() {
        let derived = |policy, nice| IoPrio::of_task(IoPrio::NONE, policy, nice);
        for (nice, level) in [
            (-20, 0),
            (-16, 0),
            (-15, 1),
            (-11, 1),
            (-10, 2),
            (-6, 2),
            (-5, 3),
            (-1, 3),
            (0, 4),
            (4, 4),
        ]
        .into_iter()
        .chain([
            (5, 5),
            (9, 5),
            (10, 6),
            (14, 6),
            (15, 7),
            (19, 7),
            (i8::MIN, 0),
            (i8::MAX, 7),
        ]) {
            assert_eq!(
                derived(CpuPolicy::Normal, nice),
                IoPrio::new(PrioClass::Be, level),
                "nice {nice}"
            );
            assert_eq!(
                derived(CpuPolicy::Idle, nice),
                IoPrio::new(PrioClass::Idle, level),
                "nice {nice}"
            );
            assert_eq!(
                derived(CpuPolicy::RealTime, nice),
                IoPrio::new(PrioClass::Rt, level),
                "nice {nice}"
            );
        }
        assert_eq!(derived(CpuPolicy::Normal, 0), IoPrio::DEFAULT);
        assert_eq!(derived(CpuPolicy::Normal, 19).bits(), 16391);
        assert_eq!(derived(CpuPolicy::RealTime, 0).bits(), 8196);
        let set = IoPrio::new(PrioClass::Idle, 2);
        assert_eq!(
            IoPrio::of_task(set, CpuPolicy::RealTime, -20),
            set,
            "what was set explicitly wins"
        );
        let level_only = IoPrio::new(PrioClass::None, 3);
        assert_eq!(
            IoPrio::of_task(level_only, CpuPolicy::Normal, 0),
            IoPrio::DEFAULT,
            "but not of class NONE"
        );
    }

    #[test]
    fn a_group_changes_the_class() {
        use PrioClass::{Be, Idle, None, Rt};
        use PrioPolicy::{NoChange, NoneToRt, PromoteToRt, RestrictToBe};
        let check = |kernel: Kernel, policy: PrioPolicy, before: u16, after: u16| {
            let prio = IoPrio::from_bits(before).unwrap();
            assert_eq!(
                policy.apply(prio, &kernel.rules()).bits(),
                after,
                "{} {before} on {kernel:?}",
                policy.name()
            );
        };
        for kernel in Kernel::ALL {
            check(kernel, RestrictToBe, word(Be, 7), 16391);
            check(kernel, RestrictToBe, word(Rt, 0), 16384);
            check(kernel, RestrictToBe, word(Rt, 4), 16384);
            check(kernel, RestrictToBe, word(Idle, 0), 24576);
            check(kernel, PrioPolicy::Idle, word(Rt, 0), 24576);
            check(kernel, PrioPolicy::Idle, word(Be, 4), 24576);
            check(kernel, PrioPolicy::Idle, 0x401c, 24576);
            check(kernel, RestrictToBe, 0x401c, 0x401c);
            for bits in [0, word(Rt, 2), word(Be, 4), word(Idle, 0), 0x401c] {
                check(kernel, NoChange, bits, bits);
            }
            assert_eq!(PromoteToRt.is_known(&kernel.rules()), kernel >= Kernel::V6_6);
            assert!(
                PrioPolicy::ALL
                    .iter()
                    .all(|policy| *policy == PromoteToRt || policy.is_known(&kernel.rules()))
            );
        }
        check(Kernel::V6_1, NoneToRt, word(Be, 4), 16388);
        check(Kernel::V6_1, NoneToRt, word(None, 0), 8192);
        for kernel in [Kernel::V6_6, Kernel::V6_12, Kernel::V6_18] {
            for policy in [NoneToRt, PromoteToRt] {
                check(kernel, policy, word(Be, 4), 8196);
                check(kernel, policy, word(None, 0), 8196);
                check(kernel, policy, word(Idle, 0), 8196);
                check(kernel, policy, word(Rt, 2), 8194);
            }
        }
    }

    #[test]
    fn policies_have_the_kernels_names() {
        let names = PrioPolicy::ALL.map(PrioPolicy::name);
        assert_eq!(names, ["no-change", "none-to-rt", "promote-to-rt", "restrict-to-be", "idle"]);
        for policy in PrioPolicy::ALL {
            assert_eq!(PrioPolicy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(PrioPolicy::from_name("rt"), None);
    }
}
