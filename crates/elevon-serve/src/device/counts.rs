//! Counts of the requests that clients were answered, by tenant and operation. A request costs
//! O(log(tenants × operations)), and a view of them O(tenants).

use std::collections::BTreeMap;

use elevon_core::histogram::Histogram;
use elevon_core::units::{Nanos, TenantId};

use crate::request::{DiskRequest, Operation, RequestRefusal};
use crate::web::metrics::BUCKETS;

/// The answered requests of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    answered: BTreeMap<(TenantId, &'static str), RequestCounts>,
    /// Those that were refused before the device saw them, by operation and reason.
    refused: BTreeMap<(TenantId, &'static str, RequestRefusal), u64>,
    /// The latency that the clients of each tenant see: the time from a request's arrival to its
    /// reply, in nanoseconds, what limits hold it included. CACHE and BLOCK_STATUS do not count.
    latency: BTreeMap<TenantId, Histogram>,
}

/// Answered requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    /// How many were answered, errors included.
    pub(crate) count: u64,
    /// The bytes of those without an error.
    pub(crate) bytes: u64,
    /// The sum of their durations, from the arrival at the device's thread to the reply.
    pub(crate) time: Nanos,
    /// How many durations are in each bucket of [`BUCKETS`] and, last, above these.
    pub(crate) buckets: [u64; BUCKETS.len() + 1],
    /// Errors by the name of the errno that the client was told.
    pub(crate) errors: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a request that is answered, with the name of its errno if it failed.
    pub(super) fn take(
        &mut self,
        tenant: TenantId,
        request: &DiskRequest,
        result: Result<(), &'static str>,
        took: Nanos,
    ) {
        let counts = self.answered.entry((tenant, request.operation.name())).or_default();
        counts.count += 1;
        counts.time += took;
        counts.buckets[BUCKETS.partition_point(|&bound| bound < took.get())] += 1;
        if !matches!(request.operation, Operation::Cache | Operation::BlockStatus { .. }) {
            self.latency.entry(tenant).or_default().add(took.get());
        }
        match result {
            Ok(()) => counts.bytes += request.length,
            Err(errno) => *counts.errors.entry(errno).or_default() += 1,
        }
    }

    /// Counts a request that was refused; without an operation one that the protocol does not know.
    pub(super) fn refuse(
        &mut self,
        tenant: TenantId,
        operation: Option<Operation>,
        reason: RequestRefusal,
    ) {
        *self
            .refused
            .entry((tenant, operation.map_or("other", Operation::name), reason))
            .or_default() += 1;
    }

    /// Returns how many requests of a tenant were refused, by the name of the operation and why.
    pub(crate) fn refused_of(
        &self,
        tenant: TenantId,
    ) -> impl Iterator<Item = (&'static str, RequestRefusal, u64)> {
        let all = self
            .refused
            .range((tenant, "", RequestRefusal::Command)..)
            .take_while(move |((of, ..), _)| *of == tenant);
        all.map(|((_, op, reason), count)| (*op, *reason, *count))
    }

    /// Returns the latency that clients of the tenants see that `is_of` chooses.
    pub(crate) fn latency_of(&self, is_of: impl Fn(TenantId) -> bool) -> Histogram {
        let mut sum = Histogram::new();
        self.latency.iter().filter(|(tenant, _)| is_of(**tenant)).for_each(|(_, of)| sum.merge(of));
        sum
    }

    /// Returns what was counted for a tenant, by the name of the operation.
    pub(crate) fn of(
        &self,
        tenant: TenantId,
    ) -> impl Iterator<Item = (&'static str, &RequestCounts)> {
        self.answered
            .range((tenant, "")..)
            .take_while(move |((of, _), _)| *of == tenant)
            .map(|((_, op), counts)| (*op, counts))
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::ioprio::IoPrio;

    use super::*;

    #[test]
    fn a_request_is_counted_in_the_bucket_of_its_duration() {
        assert_eq!(
            (BUCKETS[0], BUCKETS[1], BUCKETS[2], BUCKETS[18]),
            (10_000, 20_000, 50_000, 10_000_000_000)
        );
        let mut counts = Counts::default();
        let request = DiskRequest {
            operation: Operation::Read,
            offset: 0,
            length: 4096,
            fua: false,
            tag: 1,
            ioprio: IoPrio::NONE,
        };
        let took = [0, 10_000, 10_001, 10_000_000_000, u64::MAX / 8];
        for nanos in took {
            counts.take(TenantId(1), &request, Ok(()), Nanos::new(nanos));
        }
        counts.take(TenantId(1), &request, Err("EIO"), Nanos::new(1));
        counts.take(TenantId(2), &request, Ok(()), Nanos::new(1));
        let all: Vec<_> = counts.of(TenantId(1)).collect();
        let [("read", of)] = all[..] else { panic!("{all:?}") };
        assert_eq!((of.count, of.bytes, of.buckets[0], of.buckets[1]), (6, 5 * 4096, 3, 1));
        assert_eq!((of.buckets[18], of.buckets[19], of.errors.get("EIO")), (1, 1, Some(&1)));
        assert_eq!(counts.of(TenantId(0)).count(), 0);
        counts.take(
            TenantId(1),
            &DiskRequest { operation: Operation::Cache, ..request },
            Ok(()),
            Nanos::new(1),
        );
        let latency = counts.latency_of(|tenant| tenant == TenantId(1));
        assert_eq!((latency.total(), latency.percentile(1_000)), (6, 0));
        assert_eq!(counts.latency_of(|_| true).total(), 7);
    }
}
