//! Write-back by tenant: how each tenant's writers are slowed.
//!
//! A page is its tenant's from when that makes it dirty until it is written, whoever has it
//! written. Each tenant that writes has a [`Domain`] of its own over an equal part of dirtyable
//! memory, with its own pages, base rate and bandwidth. So a tenant whose write-back is slow,
//! because a limit holds its bios, fills its part and is slowed to what its limit lets through, and
//! nobody else is. A tenant that writes alone has all of the memory. Linux divides by the limits of
//! memory cgroups and by what each wrote lately.
//!
//! Where a tenant begins to write, the parts of the others shrink at once; what they have dirty
//! then drains, so for that long more than the limit may be dirty in all.
//!
//! Cost: O(1) a page and a bio; O(tenants that ever wrote) when one begins to write, a tenth of a
//! second after the last such look, and for each turn of the flusher.

use alloc::vec::Vec;

use super::dirty::{DirtyCounts, Domain};
use super::pages::Pages;
use elevon_core::units::{Instant, Nanos, TenantId};

/// A tenant counts as one that writes for so long after it made a page dirty, and while it has any
/// dirty or being written.
pub const ACTIVE: Nanos = Nanos::from_secs(3);
/// How often it is looked who writes.
const LOOK: Nanos = Nanos::from_millis(100);

/// The domains of all tenants, the root's first.
#[derive(Clone, Debug)]
pub struct Domains {
    new: Domain,
    by_tenant: Vec<Of>,
    /// Tenants that write, at least 1, as of the last look.
    writing: u64,
    look_again: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Of {
    domain: Domain,
    /// Its pages that are being written.
    writeback: u64,
    /// When it counts no more as one that writes.
    until: Instant,
}

impl Domains {
    /// Nothing written: every tenant begins with this domain.
    pub fn new(new: Domain) -> Self {
        Self { new, by_tenant: Vec::new(), writing: 1, look_again: Instant::ZERO }
    }

    /// A tenant's domain; a new one where it has dirtied nothing yet.
    pub fn of(&self, tenant: TenantId) -> &Domain {
        self.by_tenant.get(tenant.index()).map_or(&self.new, |of| &of.domain)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, tenant: TenantId) -> &mut Domain {
        &mut self.entry(tenant).domain
    }

    fn entry(&mut self, tenant: TenantId) -> &mut Of {
        if self.by_tenant.len() <= tenant.index() {
            let none = Of { domain: self.new, writeback: 0, until: Instant::ZERO };
            self.by_tenant.resize(tenant.index() + 1, none);
        }
        &mut self.by_tenant[tenant.index()]
    }

    /// The highest bandwidth of any tenant's writes, in pages a second.
    pub fn bandwidth(&self) -> u64 {
        let all = self.by_tenant.iter().filter(|of| of.until > Instant::ZERO).map(|of| of.domain.bandwidth());
        all.max().unwrap_or_else(|| self.new.bandwidth())
    }

    /// A tenant made a page dirty.
    pub fn on_dirtied(&mut self, now: Instant, tenant: TenantId) {
        let of = self.entry(tenant);
        of.domain.on_dirtied(1);
        let begins = of.until < now;
        of.until = now + ACTIVE;
        if begins {
            self.look_again = Instant::ZERO;
        }
    }

    /// A dirty page of a tenant goes into a bio.
    pub fn begin_writeback(&mut self, tenant: TenantId) {
        self.entry(tenant).writeback += 1;
    }

    /// So many pages of a tenant are written.
    pub fn end_writeback(&mut self, tenant: TenantId, pages: u64) {
        let of = self.entry(tenant);
        of.writeback -= pages;
        of.domain.on_written(pages);
    }

    /// What a tenant's writers are slowed by: its own pages, and its part of the memory.
    pub fn counts(&mut self, now: Instant, tenant: TenantId, all: &DirtyCounts, pages: &Pages) -> DirtyCounts {
        if now >= self.look_again {
            let is_writing =
                |(id, of): &(u32, &Of)| of.until > now || of.writeback > 0 || pages.dirty_of(TenantId(*id)) > 0;
            self.writing = ((0..).zip(&self.by_tenant).filter(is_writing).count() as u64).max(1);
            self.look_again = now + LOOK;
        }
        let (dirty, writeback) = (pages.dirty_of(tenant), self.writeback(tenant));
        DirtyCounts { dirty, writeback, dirtyable: all.dirtyable / self.writing }
    }

    /// Whether a tenant has more dirty than its part of the background threshold.
    pub fn wants_flusher(&self, all: &DirtyCounts, pages: &Pages) -> bool {
        let background = self.new.limits(all.dirtyable / self.writing).background;
        pages.dirty_tenants().any(|tenant| pages.dirty_of(tenant) > background)
    }

    /// Pages of a tenant that are being written.
    pub fn writeback(&self, tenant: TenantId) -> u64 {
        self.by_tenant.get(tenant.index()).map_or(0, |of| of.writeback)
    }

    /// Panics where so many pages in all are not being written. For tests.
    pub fn self_check(&self, writeback: u64) {
        assert_eq!(self.by_tenant.iter().map(|of| of.writeback).sum::<u64>(), writeback, "pages by tenant");
    }
}
