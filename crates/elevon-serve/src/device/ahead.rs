//! Ranges that clients asked for by CACHE, which are read ahead a slice at a time.
//!
//! A range that waits takes no memory of the page cache and no time of the device's thread. A slice
//! is read only if its tenant has room for it and no limit holds back the tenant's I/O, so that
//! nothing that is read ahead waits for a limit, and requests come first. In a turn of the device's
//! loop each tenant has one slice. If too little memory is free, the range is dropped.

use std::collections::{BTreeMap, VecDeque};

use elevon_core::units::{TaskId, TenantId};

/// Bytes that are read ahead, or looked up, in one turn for a tenant.
const SLICE: u64 = 256 << 10;

/// Ranges of a tenant that may wait. Those that follow are answered and dropped.
const RANGES: usize = 64;

/// A range to read ahead, in bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) task: TaskId,
    at: u64,
    end: u64,
}

impl Ahead {
    /// Returns where its next slice begins, and how many bytes that has.
    pub(super) fn slice(&self) -> (u64, u64) {
        (self.at, (self.end - self.at).min(SLICE))
    }
}

/// The ranges of all tenants.
#[derive(Debug, Default)]
pub(super) struct AheadRanges {
    by_tenant: BTreeMap<TenantId, VecDeque<Ahead>>,
}

impl AheadRanges {
    /// Adds a range, unless too many of its tenant wait.
    pub(super) fn add(&mut self, tenant: TenantId, task: TaskId, at: u64, bytes: u64) {
        let ranges = self.by_tenant.entry(tenant).or_default();
        if bytes > 0 && ranges.len() < RANGES {
            ranges.push_back(Ahead { task, at, end: at + bytes });
        }
    }

    /// Returns true if nothing is to be read ahead.
    pub(super) fn is_empty(&self) -> bool {
        self.by_tenant.is_empty()
    }

    /// Drops the ranges of a client that leaves.
    pub(super) fn remove_client(&mut self, task: TaskId) {
        self.by_tenant.values_mut().for_each(|ranges| ranges.retain(|range| range.task != task));
        self.by_tenant.retain(|_, ranges| !ranges.is_empty());
    }

    /// Calls `read` with the first range of each tenant that has one. It returns how many bytes of
    /// the slice are done, or `None` if the range is dropped. Returns true if anything was done.
    pub(super) fn go_on(&mut self, mut read: impl FnMut(TenantId, &Ahead) -> Option<u64>) -> bool {
        let mut any = false;
        for (&tenant, ranges) in &mut self.by_tenant {
            let Some(first) = ranges.front_mut() else { continue };
            let done = read(tenant, first);
            any |= done != Some(0);
            first.at += done.unwrap_or(0);
            if done.is_none() || first.at >= first.end {
                ranges.pop_front();
            }
        }
        self.by_tenant.retain(|_, ranges| !ranges.is_empty());
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_on_by_slices_in_turn_and_are_bounded() {
        let mut ranges = AheadRanges::default();
        for number in 0..2 * RANGES as u64 {
            ranges.add(TenantId(1), TaskId(number as u32 % 2), number << 20, SLICE + 1);
        }
        ranges.add(TenantId(2), TaskId(2), 0, 100);
        let mut seen = Vec::new();
        let mut all = |_: TenantId, range: &Ahead| {
            seen.push(range.slice());
            Some(range.slice().1)
        };
        assert!(ranges.go_on(&mut all) && ranges.go_on(&mut all));
        assert_eq!(seen, [(0, SLICE), (0, 100), (SLICE, 1)], "the second tenant's is done");
        assert!(!ranges.go_on(|_, _| Some(0)), "no room: it stays");
        ranges.remove_client(TaskId(1));
        let mut left = 0;
        while ranges.go_on(|_, range| (range.task == TaskId(0)).then_some(0)) || !ranges.is_empty()
        {
            ranges.go_on(|_, _| None);
            left += 1;
        }
        assert_eq!(left, RANGES / 2 - 1, "half were of the other client, and one is done");
    }
}
