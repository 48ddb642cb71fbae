//! Answers to BLOCK_STATUS, and the time of the device's thread that they may take.
//!
//! Finding out which parts of a file are holes takes the thread a system call for each end of one.
//! So an answer tells few extents at a time, and what it takes is charged to its tenant. If clients
//! of several tenants are there, all answers together take at most one part in [`SHARE`] of the
//! thread's time, and tenants that ask at the same time have equal parts of that: the next request
//! of a tenant waits in its connection. A tenant that is alone does not wait.

use std::collections::BTreeMap;

use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, TaskId, TenantId};

use super::errors::Owner;
use super::{DeviceCache, DeviceLoop, Question};
use crate::device::byte_range::ByteRange;
use crate::disks::{Allocation, Disk};
use crate::net::protocol::Answer;
use crate::request::{DiskRequest, Extent};

/// Of this many parts of the thread's time BLOCK_STATUS has one.
const SHARE: u64 = 4;

/// What an extent is charged at least: the time of two system calls.
const EXTENT: Nanos = Nanos::from_micros(1);

/// When each tenant's next BLOCK_STATUS may be answered. Instants that have passed are dropped.
#[derive(Debug, Default)]
pub(super) struct StatusBudget(BTreeMap<TenantId, Instant>);

impl StatusBudget {
    /// Returns when a request of a tenant may be answered, if it has to wait.
    fn waits_until(&self, now: Instant, tenant: TenantId) -> Option<Instant> {
        self.0.get(&tenant).copied().filter(|at| *at > now)
    }

    /// Charges a tenant the time that an answer took.
    fn charge(&mut self, now: Instant, tenant: TenantId, took: Nanos) {
        self.0.retain(|_, at| *at > now);
        let busy = self.0.len() as u64 + 1;
        let span = Nanos::new(took.get().saturating_mul(SHARE * busy));
        self.0.insert(tenant, now.saturating_add(span));
    }
}

impl<D: Disk> DeviceLoop<D> {
    /// Begins to answer a BLOCK_STATUS. Returns false if its tenant has to wait: the request is
    /// looked at again then.
    pub(super) fn may_answer_allocation(&mut self, task: TaskId) -> bool {
        let (now, tenant) = (self.engine.now(), self.client(task).charged.tenant);
        let Some(until) = self.status.waits_until(now, tenant) else { return true };
        let is_alone = self.clients.iter().flatten().all(|client| client.charged.tenant == tenant);
        if !is_alone {
            self.delayed.insert((until, task));
        }
        is_alone
    }

    /// Finds out which parts of the range of a BLOCK_STATUS are allocated, and answers it now or
    /// once the disk knows.
    pub(super) fn find_allocation(&mut self, task: TaskId, request: &DiskRequest) {
        let arrived = self.engine.now();
        let client = self.client(task);
        let tenant = client.charged.tenant;
        let blocks = ByteRange::of(request).outer(client.block).moved(client.charged.base);
        let found = allocation(self.engine.backend_mut(), self.cache.as_deref(), blocks);
        let now = self.engine.now();
        let extents =
            if let Allocation::Known(extents) = &found { extents.len() as u64 } else { 1 };
        let took = now.since(arrived).max(Nanos::new(EXTENT.get() * extents));
        self.status.charge(now, tenant, took);
        match found {
            Allocation::Known(extents) => {
                self.answer_allocation(task, request, arrived, Ok(extents));
            }
            Allocation::Asked(number) => {
                self.client(task).requests.questions += 1;
                self.questions.insert(number, Question { task, request: *request, arrived });
            }
        }
    }

    /// Answers a BLOCK_STATUS by the extents of the blocks of its range.
    pub(super) fn answer_allocation(
        &mut self,
        task: TaskId,
        request: &DiskRequest,
        arrived: Instant,
        found: Result<Vec<Extent>, Status>,
    ) {
        let now = self.engine.now();
        let client = self.clients[task.index()].as_mut().expect("a client that is there");
        let client_block = client.block;
        let status = found.as_ref().err().copied().unwrap_or(Status::Ok);
        self.counts.take(
            client.charged.tenant,
            request,
            client.counted(status),
            now.since(arrived),
        );
        if !status.is_ok() {
            let tenant = self.tenants.path(client.charged.tenant);
            let owner = Owner { origin: &client.origin, tenant };
            self.errors.log_failed(now, request, status, &owner);
        }
        match found {
            Ok(mut extents) => {
                drop_front(&mut extents, request.offset % client_block);
                client.answer_without_data(request, Answer::Extents(&extents));
            }
            Err(status) => client.answer_without_data(request, Answer::Failed(status)),
        }
    }
}

/// Drops so many bytes at the front of extents, fewer than they have.
fn drop_front(extents: &mut Vec<Extent>, mut bytes: u64) {
    while let Some(first) = extents.first_mut()
        && bytes > 0
    {
        let dropped = bytes.min(first.length);
        (first.length, bytes) = (first.length - dropped, bytes - dropped);
        if first.length == 0 {
            extents.remove(0);
        }
    }
}

/// Returns which parts of a range are allocated, those among them whose pages are dirty.
fn allocation(disk: &mut impl Disk, cache: Option<&DeviceCache>, range: ByteRange) -> Allocation {
    let (at, bytes) = (range.start, range.length());
    match cache.map_or((bytes, true), |cache| cache.clean_then_dirty(at, bytes)) {
        (bytes, true) => disk.allocation(at, bytes),
        (length, false) => Allocation::Known(vec![Extent { length, hole: false, zero: false }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_ask_have_equal_parts_of_a_quarter_of_the_time() {
        let (mut budget, took) = (StatusBudget::default(), Nanos::from_micros(30));
        let (mut now, mut counts) = (Instant::ZERO, [0_u64; 3]);
        while now < Instant::ZERO + Nanos::from_secs(1) {
            for (tenant, count) in counts.iter_mut().enumerate() {
                if budget.waits_until(now, TenantId(tenant as u32)).is_none() {
                    now = now + took;
                    budget.charge(now, TenantId(tenant as u32), took);
                    *count += 1;
                }
            }
            now = now + Nanos::from_micros(10);
        }
        let busy: u64 = counts.iter().sum::<u64>() * took.get();
        assert!((150_000_000..=260_000_000).contains(&busy), "{busy} ns of a second");
        assert!(
            counts.iter().max().unwrap_or(&0) * 9 <= counts.iter().min().unwrap_or(&0) * 10,
            "{counts:?}"
        );
    }
}
