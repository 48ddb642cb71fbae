//! `page-exact`: the exact variant of proposal 000, without its defects.
//!
//! Active and all bytes are counted, a folio by the bytes that it contributes, so neither merges
//! nor folio sizes nor the order of pages matter. The decision is made once, at submission: more
//! than half of the bytes active asks for RT, more than a quarter for best effort. The result is
//! the more urgent of that class and of the bio's own, at the bio's own level. Not changed are the
//! I/O of real-time tasks, an IDLE class that was set explicitly, and everything but buffered reads
//! that a task waits for (options extend that). Bytes promoted to RT are bounded by a share of the
//! device's bytes.
//!
//! Cost: O(1) per piece, one addition; O(1) per bio.

use super::{Origin, Submitter};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::units::Bytes;

/// The bios that may be raised, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// An IDLE class that was set, on the bio or for the task, is a ceiling. Default: yes.
    pub honour_idle: bool,
    /// Readahead that no task waits for may be raised. Default: no.
    pub raise_readahead: bool,
    /// Writes may be raised: writeback and fsync. Default: no.
    pub raise_writes: bool,
    /// The level of a raised bio, 0 to 7; `None`: the level that the bio would have had.
    pub level: Option<u8>,
    /// The bound of promotion; `None`: no bound.
    pub budget: Option<BudgetLimit>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            honour_idle: true,
            raise_readahead: false,
            raise_writes: false,
            level: None,
            budget: Some(BudgetLimit::default()),
        }
    }
}

impl Options {
    /// Returns true if bios of an origin may be raised.
    const fn covers(&self, origin: Origin) -> bool {
        match origin {
            Origin::Fault | Origin::Read => true,
            Origin::Readahead => self.raise_readahead,
            Origin::Writeback | Origin::Fsync => self.raise_writes,
            Origin::Direct | Origin::Metadata => false,
        }
    }
}

/// Over any sequence of bios, at most `percent` of their bytes plus `burst` become RT by their
/// content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLimit {
    /// Share of the bytes that go to the device, 0 to 100.
    pub percent: u8,
    /// Bytes that may be promoted at once.
    pub burst: Bytes,
}

impl Default for BudgetLimit {
    /// 25 % and 4 MiB: three bytes of four are left to other bios, and a burst takes a tenth of a
    /// second on a slow flash card. Chosen, not measured.
    fn default() -> Self {
        Self { percent: 25, burst: Bytes::new(4 << 20) }
    }
}

/// The bytes that may still be promoted: a bucket filled by the bytes that go to the device. It
/// counts hundredths of bytes, so that no share is rounded away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    percent: u64,
    full: u64,
    credit: u64,
}

impl Budget {
    pub(super) fn new(limit: BudgetLimit) -> Self {
        let full = limit.burst.get().saturating_mul(100);
        Self { percent: u64::from(limit.percent.min(100)), full, credit: full }
    }

    /// Fills the bucket by bytes that go to the device.
    pub(super) fn earn(&mut self, bytes: Bytes) {
        self.credit =
            self.credit.saturating_add(bytes.get().saturating_mul(self.percent)).min(self.full);
    }

    /// Takes the bytes of a promotion from the bucket. Returns false if there are too few.
    pub(super) fn spend(&mut self, bytes: Bytes) -> bool {
        let rest = self.credit.checked_sub(bytes.get().saturating_mul(100));
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }
}

/// Bytes of a bio: all, and those of active pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes of pieces that are not active, and of those that are: one addition per piece.
    bytes: [u64; 2],
}

impl Share {
    /// Counts a piece.
    #[inline]
    pub fn add(&mut self, active: bool, bytes: Bytes) {
        self.bytes[usize::from(active)] += bytes.get();
    }

    /// Returns the number of all bytes.
    pub const fn total(&self) -> Bytes {
        Bytes::new(self.bytes[0] + self.bytes[1])
    }

    /// Returns the number of bytes of active pieces.
    pub const fn active(&self) -> Bytes {
        Bytes::new(self.bytes[1])
    }

    /// Returns the class that the content asks for, whichever task submits the bio.
    pub const fn target(&self) -> PrioClass {
        let (active, total) = (self.active().get(), self.total().get());
        if 2 * active > total {
            PrioClass::Rt
        } else if 4 * active > total {
            PrioClass::Be
        } else {
            PrioClass::None
        }
    }

    /// Returns the bio's priority without regard to the budget; `bio` itself if nothing is raised.
    pub fn decide(
        &self,
        bio: IoPrio,
        submitter: Submitter,
        origin: Origin,
        options: &Options,
    ) -> IoPrio {
        let own = bio.or(submitter.task).or(IoPrio::DEFAULT);
        let on_purpose = bio.class() != PrioClass::None || submitter.explicit;
        let idle_is_meant = options.honour_idle && on_purpose && own.class() == PrioClass::Idle;
        if submitter.rt_cpu || idle_is_meant || !options.covers(origin) {
            return bio;
        }
        let raised = match (self.target(), own.class()) {
            (PrioClass::None | PrioClass::Idle, _) | (_, PrioClass::Rt) => return bio,
            (PrioClass::Be, PrioClass::None | PrioClass::Be) => return bio,
            (PrioClass::Be, PrioClass::Idle) => own.with_class(PrioClass::Be),
            (PrioClass::Rt, PrioClass::None | PrioClass::Be | PrioClass::Idle) => {
                own.with_class(PrioClass::Rt)
            }
        };
        match options.level {
            Some(level) => raised.with_level(level),
            None => raised,
        }
    }
}
