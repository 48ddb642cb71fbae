//! Write-back by tenant: how each tenant's writers are throttled.
//!
//! A page belongs to the tenant that made it dirty until it is written, whichever task writes it.
//! Each tenant that writes has its own [`Domain`] over an equal part of dirtyable memory, with its
//! own pages, base rate and bandwidth. So a tenant whose write-back is slow, because a limit
//! throttles its bios, fills its part and is throttled to the rate of its limit; other tenants are
//! not affected. A tenant that writes alone has all of the memory. Linux divides by the limits of
//! memory cgroups and by the recent writes of each.
//!
//! When a tenant begins to write, the parts of the others shrink at once. Until their excess dirty
//! pages are written, the total of dirty pages may exceed the limit.
//!
//! Cost: O(1) per page and per bio; O(tenants that ever wrote) when one begins to write, at a
//! recount at least a tenth of a second after the last, and for each turn of the flusher.

use alloc::vec::Vec;

use super::dirty::{DirtyCounts, Domain};
use super::pages::Pages;
use elevon_core::units::{Instant, Nanos, TenantId};

/// The time after it made a page dirty for which a tenant counts as writing. It also counts while
/// it has pages dirty or under writeback.
pub(crate) const ACTIVE: Nanos = Nanos::from_secs(3);
/// Time between counts of the tenants that write.
const LOOK: Nanos = Nanos::from_millis(100);

/// The domains of all tenants, the root's first.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    new: Domain,
    by_tenant: Vec<Of>,
    /// Number of tenants that write, at least 1, at the last count.
    writing: u64,
    look_again: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Of {
    domain: Domain,
    /// Its pages under writeback.
    writeback: u64,
    /// The time until which it counts as writing.
    until: Instant,
}

impl Domains {
    /// Returns the state before any write. Every tenant begins with the domain `new`.
    pub(crate) fn new(new: Domain) -> Self {
        Self { new, by_tenant: Vec::new(), writing: 1, look_again: Instant::ZERO }
    }

    /// Returns a tenant's domain; the initial one if the tenant has dirtied nothing yet.
    pub(crate) fn of(&self, tenant: TenantId) -> &Domain {
        self.by_tenant.get(tenant.index()).map_or(&self.new, |of| &of.domain)
    }

    /// Returns a tenant's domain for changes.
    pub(crate) fn of_mut(&mut self, tenant: TenantId) -> &mut Domain {
        &mut self.entry(tenant).domain
    }

    fn entry(&mut self, tenant: TenantId) -> &mut Of {
        if self.by_tenant.len() <= tenant.index() {
            let none = Of { domain: self.new, writeback: 0, until: Instant::ZERO };
            self.by_tenant.resize(tenant.index() + 1, none);
        }
        &mut self.by_tenant[tenant.index()]
    }

    /// Returns the highest bandwidth of any tenant's writes, in pages per second.
    pub(crate) fn bandwidth(&self) -> u64 {
        let all = self
            .by_tenant
            .iter()
            .filter(|of| of.until > Instant::ZERO)
            .map(|of| of.domain.smooth_bandwidth());
        all.max().unwrap_or_else(|| self.new.smooth_bandwidth())
    }

    /// Counts a page that a tenant made dirty.
    pub(crate) fn on_dirtied(&mut self, now: Instant, tenant: TenantId) {
        let of = self.entry(tenant);
        of.domain.on_dirtied(1);
        let begins = of.until < now;
        of.until = now + ACTIVE;
        if begins {
            self.look_again = Instant::ZERO;
        }
    }

    /// Counts a dirty page of a tenant that is added to a bio.
    pub(crate) fn begin_writeback(&mut self, tenant: TenantId) {
        self.entry(tenant).writeback += 1;
    }

    /// Counts pages of a tenant whose writeback has completed.
    pub(crate) fn end_writeback(&mut self, tenant: TenantId, pages: u64) {
        let of = self.entry(tenant);
        of.writeback -= pages;
        of.domain.on_written(pages);
    }

    /// Returns the counts by which a tenant's writers are throttled: its own pages, and its part of
    /// the memory.
    pub(crate) fn counts(
        &mut self,
        now: Instant,
        tenant: TenantId,
        all: &DirtyCounts,
        pages: &Pages,
    ) -> DirtyCounts {
        if now >= self.look_again {
            let is_writing = |(id, of): &(u32, &Of)| {
                of.until > now || of.writeback > 0 || pages.dirty_of(TenantId(*id)) > 0
            };
            self.writing = ((0..).zip(&self.by_tenant).filter(is_writing).count() as u64).max(1);
            self.look_again = now + LOOK;
        }
        let (dirty, writeback) = (pages.dirty_of(tenant), self.writeback(tenant));
        DirtyCounts { dirty, writeback, dirtyable: all.dirtyable / self.writing }
    }

    /// The flusher has ended a file's turn: corrects the limit and bandwidth of tenants that write.
    pub(crate) fn on_turn_ended(&mut self, now: Instant, all: &DirtyCounts, pages: &Pages) {
        for index in 0..self.by_tenant.len() {
            if self.by_tenant[index].until > now {
                let counts = self.counts(now, TenantId(index as u32), all, pages);
                self.by_tenant[index].domain.on_turn_ended(now, &counts);
            }
        }
    }

    /// Returns true if a tenant has more dirty pages than its part of the background threshold.
    pub(crate) fn wants_flusher(&self, all: &DirtyCounts, pages: &Pages) -> bool {
        let background = self.new.limits(all.dirtyable / self.writing).background;
        pages.dirty_tenants().any(|tenant| pages.dirty_of(tenant) > background)
    }

    /// Returns the number of a tenant's pages under writeback.
    pub(crate) fn writeback(&self, tenant: TenantId) -> u64 {
        self.by_tenant.get(tenant.index()).map_or(0, |of| of.writeback)
    }

    /// Panics if the total of pages under writeback is not `writeback`. For tests.
    pub(crate) fn self_check(&self, writeback: u64) {
        assert_eq!(
            self.by_tenant.iter().map(|of| of.writeback).sum::<u64>(),
            writeback,
            "pages by tenant"
        );
    }
}
