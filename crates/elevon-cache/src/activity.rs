//! Content activity: a bio's priority from the pages it carries.
//!
//! Proposal 000 raises the priority of a bio when enough of its pages carry the working-set flag,
//! meaning that they were in use, were evicted, and came back soon. Its two forms are here exactly
//! as they were posted, corner cases included: [`iter_bio`] and [`add_page`]. Beside them is a
//! corrected definition, [`page_exact`]. `docs/explanation/activity.md` lists the defects of the
//! proposal, each with the test that shows it and what `page-exact` does instead.
//!
//! The block layer knows nothing of all this: the code that builds a bio of cached pages counts
//! them in a [`Content`], and sets the bio's priority to the result of [`Promoter::finish`]:
//!
//! ```
//! # use elevon_cache::activity::{Activity, Origin, Promoter, Submitter};
//! # use elevon_core::ioprio::{CpuPolicy, IoPrio, PrioClass};
//! # use elevon_core::units::Bytes;
//! let mut promoter = Promoter::new(Activity::PageExact, Default::default());
//! let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
//! let mut content = promoter.begin();
//! for active in [true, false, true] {
//!     content.add(active, Bytes::new(4096), false);
//! }
//! let prio = promoter.finish(&content, IoPrio::NONE, submitter, Origin::Fault);
//! assert_eq!(prio, IoPrio::new(PrioClass::Rt, 4));
//! ```
//! A bio of class NONE gets the task's priority on submission (`prio.or(submitter.task)`), and the
//! cgroup's policy is applied after that, as in Linux. Splits and clones copy the bio, so they
//! inherit the decision.
//!
//! Cost: O(1) per page and per bio in every form, no state in the bio, no allocation;
//! `benches/activity.rs` counts instructions.

pub mod add_page;
pub mod iter_bio;
pub mod page_exact;
#[cfg(test)]
mod tests;

use core::cmp::Ordering;

use add_page::Calls;
use elevon_core::ioprio::{CpuPolicy, IoPrio, PrioClass};
use elevon_core::units::Bytes;
use iter_bio::Walk;
use page_exact::{Budget, Options, Share};

/// False only in builds of benches: with the feature `without-activity` the compiler removes the
/// counting from the path of a page, so that its cost when off can be measured.
const HOOKED: bool = !cfg!(feature = "without-activity");

/// How content decides priority: the setting `activity=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Not at all.
    #[default]
    Off,
    /// Proposal 000, ITER_BIO: the bio's vectors are walked before submission.
    IterBio,
    /// Proposal 000, ADD_PAGE: counted at every page added.
    AddPage,
    /// Ours: bytes counted while building, decided once, upwards only, within a budget.
    PageExact,
}

impl Activity {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Off, Self::IterBio, Self::AddPage, Self::PageExact];

    /// Returns the form's name in `activity=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::IterBio => "iter-bio",
            Self::AddPage => "add-page",
            Self::PageExact => "page-exact",
        }
    }

    /// Returns the form of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// The task that submits a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// Its priority as the kernel's query reports it: [`IoPrio::of_task`]. Kernels from 6.8 to
    /// mid-2025 reported NONE for a task without an I/O context; the forms of the proposal take
    /// that as it comes.
    pub task: IoPrio,
    /// `task` was set (ioprio_set), not derived from nice and CPU policy.
    pub explicit: bool,
    /// Its CPU policy is FIFO, RR or DEADLINE.
    pub rt_cpu: bool,
}

impl Submitter {
    /// Returns the task with the priority `set` (class NONE: never set), a CPU policy and a nice
    /// value.
    pub const fn of_task(set: IoPrio, policy: CpuPolicy, nice: i8) -> Self {
        Self {
            task: IoPrio::of_task(set, policy, nice),
            explicit: !matches!(set.class(), PrioClass::None),
            rt_cpu: matches!(policy, CpuPolicy::RealTime),
        }
    }
}

/// The reason why a bio is built. The forms of the proposal do not use it; `page-exact` raises only
/// the origins that its [`Options`] name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A page fault waits for a page of this bio.
    Fault,
    /// A read call waits for a page of this bio.
    Read,
    /// No task waits: every page lies beyond the requested range.
    Readahead,
    /// A flusher cleans pages.
    Writeback,
    /// A task waits for its pages to be written.
    Fsync,
    /// Pages of a process, not of the cache.
    Direct,
    /// Journal, inodes, directories.
    Metadata,
}

impl Origin {
    /// Every origin, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Fault,
        Self::Read,
        Self::Readahead,
        Self::Writeback,
        Self::Fsync,
        Self::Direct,
        Self::Metadata,
    ];

    /// Returns the origin's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Read => "read",
            Self::Readahead => "readahead",
            Self::Writeback => "writeback",
            Self::Fsync => "fsync",
            Self::Direct => "direct",
            Self::Metadata => "metadata",
        }
    }
}

/// The counts of a bio while it is built; the form is that of the [`Promoter`] that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing is counted.
    Off,
    /// Vectors; bytes are only counted.
    IterBio(Walk, Weight),
    /// Calls against vectors; bytes are only counted.
    AddPage(Calls, Weight),
    /// Bytes.
    PageExact(Share),
}

impl Content {
    /// Counts a piece that was added to the bio: a page, part of a page or a folio. `active`: the
    /// working-set flag of its page (of its head, for a folio). `merged`: the piece extended the
    /// last vector, because it is contiguous in memory; the first piece is never `merged`.
    #[inline]
    pub fn add(&mut self, active: bool, bytes: Bytes, merged: bool) {
        match self {
            Self::PageExact(share) => share.add(active, bytes),
            Self::Off | Self::IterBio(..) | Self::AddPage(..) => {
                self.add_as_proposed(active, bytes, merged);
            }
        }
    }

    /// Counts a piece for the forms of the proposal. It is not inlined, because only `page-exact`
    /// is meant to be cheap. If no form is on, callers use [`Promoter::counts_content`].
    #[inline(never)]
    fn add_as_proposed(&mut self, active: bool, bytes: Bytes, merged: bool) {
        let weight = match self {
            Self::IterBio(walk, weight) => {
                walk.add(active, merged);
                weight
            }
            Self::AddPage(calls, weight) => {
                calls.add(active, merged);
                weight
            }
            Self::Off | Self::PageExact(_) => return,
        };
        weight.bytes += bytes.get() as u32;
        weight.active += if active { bytes.get() as u32 } else { 0 };
    }
}

/// Bytes of a bio, and the active ones among them, for statistics of forms that decide by something
/// else. A bio is shorter than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    bytes: u32,
    active: u32,
}

/// The decisions on the bios of one origin. Classes are compared after the task's default was
/// applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bios.
    pub bios: u64,
    /// Bios that were raised to RT by their content.
    pub promoted: u64,
    /// IDLE bios that were raised to best effort.
    pub raised: u64,
    /// Bios that became less urgent, which only the proposal does.
    pub demoted: u64,
    /// Bytes of bios that `page-exact` made RT; the budget limits them.
    pub promoted_bytes: u64,
    /// Bios that the budget did not let be raised to RT.
    pub promotion_denied: u64,
    /// Bytes of all bios.
    pub bytes: u64,
    /// Bytes of active pieces.
    pub active_bytes: u64,
}

/// Decides the priority of the bios that go to one device.
#[derive(Clone, Debug)]
pub struct Promoter {
    activity: Activity,
    options: Options,
    budget: Option<Budget>,
    counts: [Counts; Origin::ALL.len()],
}

impl Promoter {
    /// Returns a promoter of a form. Only `page-exact` uses `options`.
    pub fn new(activity: Activity, options: Options) -> Self {
        Self {
            activity,
            options,
            budget: options.budget.map(Budget::new),
            counts: Default::default(),
        }
    }

    /// Returns the form.
    pub const fn activity(&self) -> Activity {
        self.activity
    }

    /// Returns true if bios need a [`Content`]. If not, the calls from [`Self::begin`] to
    /// [`Self::finish`] may be left out: they would count nothing, and change no bio.
    #[inline]
    pub const fn counts_content(&self) -> bool {
        HOOKED && !matches!(self.activity, Activity::Off)
    }

    /// Begins a bio.
    #[inline]
    pub fn begin(&self) -> Content {
        match self.activity {
            Activity::Off => Content::Off,
            Activity::IterBio => Content::IterBio(Walk::default(), Weight::default()),
            Activity::AddPage => Content::AddPage(Calls::default(), Weight::default()),
            Activity::PageExact => Content::PageExact(Share::default()),
        }
    }

    /// Returns the bio's priority, just before it is submitted. `bio`: the priority set by its
    /// issuer, class NONE if not set (as file systems leave buffered I/O). The result has class
    /// NONE if none was set and the content decides nothing.
    #[inline]
    pub fn finish(
        &mut self,
        content: &Content,
        bio: IoPrio,
        submitter: Submitter,
        origin: Origin,
    ) -> IoPrio {
        let decided = match content {
            Content::Off => return bio,
            Content::IterBio(walk, weight) => {
                self.weigh(weight.bytes.into(), weight.active.into(), origin);
                walk.decide(bio, submitter, walk.vectors())
            }
            Content::AddPage(calls, weight) => {
                self.weigh(weight.bytes.into(), weight.active.into(), origin);
                calls.decide(bio, submitter)
            }
            Content::PageExact(share) => self.decide_exactly(*share, bio, submitter, origin),
        };
        self.count(bio.or(submitter.task).class(), decided.or(submitter.task).class(), origin);
        decided
    }

    /// Counts bytes that went to the device without a decision. They increase the budget of
    /// promotion, because they use part of the device.
    pub fn pass(&mut self, bytes: Bytes) {
        if let Some(budget) = &mut self.budget {
            budget.earn(bytes);
        }
    }

    /// Returns the counts of the bios of an origin so far.
    pub const fn counts(&self, origin: Origin) -> &Counts {
        &self.counts[origin as usize]
    }

    #[inline]
    fn weigh(&mut self, bytes: u64, active: u64, origin: Origin) {
        let counts = &mut self.counts[origin as usize];
        counts.bytes += bytes;
        counts.active_bytes += active;
    }

    fn decide_exactly(
        &mut self,
        share: Share,
        bio: IoPrio,
        submitter: Submitter,
        origin: Origin,
    ) -> IoPrio {
        self.weigh(share.total().get(), share.active().get(), origin);
        self.pass(share.total());
        let decided = share.decide(bio, submitter, origin, &self.options);
        let to_rt =
            decided.class() == PrioClass::Rt && bio.or(submitter.task).class() != PrioClass::Rt;
        if to_rt && self.budget.as_mut().is_some_and(|budget| !budget.spend(share.total())) {
            self.counts[origin as usize].promotion_denied += 1;
            return bio;
        }
        self.counts[origin as usize].promoted_bytes += if to_rt { share.total().get() } else { 0 };
        decided
    }

    fn count(&mut self, before: PrioClass, after: PrioClass, origin: Origin) {
        let counts = &mut self.counts[origin as usize];
        counts.bios += 1;
        match after.effective().cmp(&before.effective()) {
            Ordering::Less if after == PrioClass::Rt => counts.promoted += 1,
            Ordering::Less => counts.raised += 1,
            Ordering::Equal => {}
            Ordering::Greater => counts.demoted += 1,
        }
    }
}
