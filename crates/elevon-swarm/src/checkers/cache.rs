//! Checkers of the page cache: its memory, dirty pages, I/O, and how content changes priority. Its
//! contents are checked by [`crate::shadow`].

use std::collections::BTreeSet;

use elevon_cache::FrameId;
use elevon_cache::activity::Activity;
use elevon_cache::activity::page_exact::BudgetLimit;
use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::units::{Instant, PAGE_SECTORS, PAGE_SIZE};
use elevon_engine::Token;
use elevon_workload::buffered::CacheIoStats;

use super::{CheckResult, Checker, World, ensure};
use crate::cache::{SeenCache, is_less_urgent, own_priority};

/// Pages never exceed the memory. If others have taken memory that pages still use, the excess
/// never grows.
#[derive(Default)]
pub(super) struct Memory {
    last: SeenCache,
}

impl Checker for Memory {
    fn on_cache(&mut self, _: &World, seen: &SeenCache) -> CheckResult {
        ensure(seen.used <= seen.capacity, || {
            format!("{} pages in memory of {}", seen.used, seen.capacity)
        })?;
        let deficit = |seen: &SeenCache| (seen.used + seen.reserved).saturating_sub(seen.capacity);
        let (before, now) = (deficit(&self.last), deficit(seen));
        let taken = seen.reserved != self.last.reserved;
        self.last = seen.clone();
        ensure(now <= before || taken, || format!("{now} pages too many, where it was {before}"))
    }
}

/// Dirty pages never exceed the limit plus what each writer may dirty between two checks of it.
/// Tenants have equal parts of the limit; a tenant that was alone may keep the dirty pages that it
/// had.
#[derive(Default)]
pub(super) struct Dirty {
    limit: u64,
    allowance: u64,
}

impl Checker for Dirty {
    fn on_cache(&mut self, world: &World, seen: &SeenCache) -> CheckResult {
        // The limit depends on free memory; pages that were dirtied under a larger limit may still
        // be dirty.
        self.limit = self.limit.max(seen.limit);
        self.allowance = self.allowance.max(seen.allowance);
        let most = self.limit * world.dirtiers() + world.writers * (self.allowance + 8);
        let dirty = seen.dirty + seen.writeback;
        ensure(dirty <= most, || {
            format!("{dirty} pages are dirty: {} and {} a writer", self.limit, self.allowance)
        })
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        *self = Self::default();
        Ok(())
    }
}

/// The cache's counters equal what it submitted, and every page that was dirtied is written, still
/// dirty, or was dropped by a truncation, a discard or the last close.
#[derive(Default)]
pub(super) struct Counted {
    traffic: CacheIoStats,
    seen: Option<SeenCache>,
}

impl Checker for Counted {
    fn on_io(&mut self, _: &World, io: &Io, _: &[FrameId]) -> CheckResult {
        if Token::is_of_cache(io.token) {
            let traffic = &mut self.traffic;
            traffic.bios += 1;
            let pages = match (io.op, io.flags) {
                (Op::Read, flags) if flags.contains(Flags::RAHEAD) => &mut traffic.readahead_pages,
                (Op::Read, _) => &mut traffic.read_pages,
                (_, flags) if flags.contains(Flags::SYNC) => &mut traffic.sync_pages,
                _ => &mut traffic.writeback_pages,
            };
            *pages += io.bytes.get().div_ceil(PAGE_SIZE);
        }
        Ok(())
    }
    fn on_cache(&mut self, _: &World, seen: &SeenCache) -> CheckResult {
        let (own, counted) = (self.traffic, seen.traffic);
        self.seen = Some(seen.clone());
        let by_source: u64 = counted.sources.iter().map(|source| source.bios).sum();
        let is_same =
            CacheIoStats { sources: own.sources, ..counted } == own && by_source == own.bios;
        ensure(is_same, || format!("{counted:?} counted, {own:?} submitted"))
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        let Some(seen) = self.seen.take() else { return Ok(()) };
        let SeenCache { traffic, dirtied, dirty, cancelled, is_idle, .. } = seen;
        let written = traffic.sync_pages + traffic.writeback_pages;
        *self = Self::default();
        ensure(is_idle, || "calls or bios of the cache are left".to_owned())?;
        ensure(written + dirty + cancelled == dirtied, || {
            format!(
                "{dirtied} pages became dirty, {written} were written, {cancelled} dropped, {dirty} are left"
            )
        })
    }
}

/// Content changes no priority of pages that were not read before. `page-exact` never lowers a
/// priority and, over any period, promotes no more than its budget.
#[derive(Default)]
pub(super) struct Content {
    known: BTreeSet<u64>,
    judged: u64,
    promoted: u64,
    /// Bytes promoted beyond the share, in hundredths of a byte, in the period with the largest
    /// excess.
    level: i128,
}

impl Checker for Content {
    fn on_io(&mut self, world: &World, io: &Io, _: &[FrameId]) -> CheckResult {
        if !Token::is_of_cache(io.token) || !io.op.has_data() {
            return Ok(());
        }
        let first = io.sector.get() / PAGE_SECTORS;
        let pages = first..first + io.bytes.get().div_ceil(PAGE_SIZE);
        let known = pages.clone().filter(|page| self.known.contains(page)).count();
        self.known.extend(pages);
        let set = world
            .specs
            .get(io.task.index())
            .map_or_else(Default::default, |spec| spec.priority.ioprio);
        let own = own_priority(set);
        // A page whose first I/O is its write-back may be active, because it was read from the
        // cache in the meantime.
        let may_differ = match world.activity {
            Activity::Off => false,
            Activity::IterBio | Activity::AddPage => io.op == Op::Write || known > 0,
            Activity::PageExact => io.op == Op::Read && known > 0,
        };
        ensure(may_differ || io.ioprio == own, || format!("{io:?} is not as its task, {own:?}"))?;
        let is_lowered = is_less_urgent(io.ioprio, own) || io.ioprio.level() != own.level();
        let is_exact = world.activity == Activity::PageExact;
        ensure(!is_exact || !is_lowered, || format!("{io:?} is worse off than its task, {own:?}"))
    }
    fn on_cache(&mut self, _: &World, seen: &SeenCache) -> CheckResult {
        let BudgetLimit { percent, burst } = BudgetLimit::default();
        let more = |now: u64, before: &mut u64| i128::from(now - std::mem::replace(before, now));
        let judged = more(seen.judged_bytes, &mut self.judged);
        let promoted = more(seen.promoted_bytes, &mut self.promoted);
        self.level = (self.level + promoted * 100 - judged * i128::from(percent)).max(0);
        let (level, most) = (self.level, i128::from(burst.get()) * 100);
        ensure(level <= most, || {
            format!("{level} hundredths of bytes promoted beyond the share, {most} are allowed")
        })
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        *self = Self::default();
        Ok(())
    }
}

/// Maximum number of steps at one instant, and maximum time, before a run counts as one that does
/// not end.
const STEPS_AT_ONCE: u64 = 300_000;

/// Virtual time makes progress.
#[derive(Default)]
pub(super) struct Ends {
    at: Instant,
    steps: u64,
}

impl Checker for Ends {
    fn on_step(&mut self, world: &World, seen: &crate::tenants::Seen) -> CheckResult {
        self.steps = if seen.now > self.at { 0 } else { self.steps + 1 };
        self.at = seen.now;
        let most = if world.is_impatient { 3 } else { STEPS_AT_ONCE };
        ensure(self.steps <= most, || format!("{} steps at {:?}", self.steps, self.at))
    }
}
