//! I/O priority as the kernel packs it: class, level and hint in one word.

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
    /// Only when nobody else wants the device.
    Idle = 3,
}

/// A class with a level, 0 (best) to 7, and a device hint (0..=1023; command duration limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoPrio(u16);

impl IoPrio {
    /// Class NONE, level 0: the priority of a request nobody gave one.
    pub const NONE: Self = Self(0);
    /// What a task of the default CPU policy gets on submission: best effort, level 4.
    pub const DEFAULT: Self = Self::new(PrioClass::Be, 4);

    /// A class and a level; the level is cut to 0..=7.
    pub const fn new(class: PrioClass, level: u8) -> Self {
        Self((class as u16) << 13 | (level & 7) as u16)
    }
    /// The same class and level with a device hint; cut to 0..=1023.
    pub const fn with_hint(self, hint: u16) -> Self {
        Self(self.0 & !(0x3ff << 3) | (hint & 0x3ff) << 3)
    }
    /// The class.
    #[inline]
    pub const fn class(self) -> PrioClass {
        match self.0 >> 13 {
            1 => PrioClass::Rt,
            2 => PrioClass::Be,
            3 => PrioClass::Idle,
            _ => PrioClass::None,
        }
    }
    /// The level, 0 (best) to 7.
    #[inline]
    pub const fn level(self) -> u8 {
        (self.0 & 7) as u8
    }
    /// The hint, 0 where none was given.
    #[inline]
    pub const fn hint(self) -> u16 {
        self.0 >> 3 & 0x3ff
    }
    /// The packed word.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }
}
