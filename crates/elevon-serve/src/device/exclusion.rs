//! Exclusion of the blocks that a request changes in part.
//!
//! A device writes whole blocks. A request that changes a part of one reads the block, puts its
//! bytes in, and writes the block back. From the read to the end of the write nothing else may
//! change that block, or the other change would be lost. Likewise with a page cache: while zeroes
//! or a trim are at the device, no page of their range may become dirty, or its write-back would
//! undo them. Requests that conflict in this way are carried out in the order in which they came.
//! Other requests never exclude each other, and reads are not excluded.
//!
//! A tenant has at most [`MAX_EXCLUDING`] requests under way that exclude others. Its next ones
//! wait in their connections, before they are taken.
//!
//! Cost: one comparison for a request while no request excludes others. Otherwise a request that
//! excludes none costs O(requests that exclude others), for its begin and its end. One that does
//! exclude others costs O(requests under way that change something).

use std::collections::BTreeMap;

use elevon_core::units::{TaskId, TenantId};

use crate::device::byte_range::ByteRange;

/// The number of a request: the task of its client, and the client's index of it.
pub(super) type RequestId = (TaskId, usize);

/// Requests of a tenant that may exclude others at a time.
pub(super) const MAX_EXCLUDING: u32 = 64;

/// A request that changes something, in bytes of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) id: RequestId,
    /// The tenant that pays for it.
    pub(super) tenant: TenantId,
    /// The blocks that it writes.
    pub(super) blocks: ByteRange,
    /// What nothing else may change meanwhile: the blocks that it changes in part, among others.
    pub(super) exclusive: [Option<ByteRange>; 2],
}

impl Change {
    /// Returns true if it excludes others.
    pub(super) fn excludes(&self) -> bool {
        self.exclusive.iter().any(Option::is_some)
    }

    fn conflicts(&self, other: &Self) -> bool {
        let excludes = |one: &Self, other: &Self| {
            one.exclusive.iter().flatten().any(|own| own.overlaps(other.blocks))
        };
        excludes(self, other) || excludes(other, self)
    }
}

/// The requests under way that change something, from the first that excludes others to the end of
/// the last such request.
#[derive(Debug, Default)]
pub(super) struct Exclusion {
    /// In the order in which they came, by number, each with the number of those before it that it
    /// waits for.
    changes: BTreeMap<u64, (Change, u32)>,
    /// Those among them that exclude others.
    excluding: BTreeMap<u64, Change>,
    /// The number of each.
    numbers: BTreeMap<RequestId, u64>,
    next: u64,
    /// How many requests of each tenant exclude others.
    of_tenants: BTreeMap<TenantId, u32>,
}

impl Exclusion {
    /// Returns true if no request is under way that excludes others. Then one that does not either
    /// need not enter.
    pub(super) fn is_idle(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns true if a tenant may have one request more that excludes others.
    pub(super) fn has_room(&self, tenant: TenantId) -> bool {
        self.of_tenants.get(&tenant).is_none_or(|count| *count < MAX_EXCLUDING)
    }

    /// Adds a request. Returns true if it can begin; otherwise [`Self::leave`] tells when.
    pub(super) fn enter(&mut self, change: Change) -> bool {
        let before = if change.excludes() {
            self.changes.values().filter(|(other, _)| other.conflicts(&change)).count()
        } else {
            self.excluding.values().filter(|other| other.conflicts(&change)).count()
        };
        let number = self.next;
        self.next += 1;
        if change.excludes() {
            self.excluding.insert(number, change);
            *self.of_tenants.entry(change.tenant).or_default() += 1;
        }
        self.numbers.insert(change.id, number);
        self.changes.insert(number, (change, before as u32));
        before == 0
    }

    /// Removes a request that has ended, and calls `begin` with each that can begin by that.
    ///
    /// # Panics
    /// If it never entered.
    pub(super) fn leave(&mut self, id: RequestId, mut begin: impl FnMut(RequestId)) {
        let number = self.numbers.remove(&id).expect("it entered");
        let (gone, _) = self.changes.remove(&number).expect("it is numbered");
        let mut lets_go = |(change, before): &mut (Change, u32)| {
            if gone.conflicts(change) {
                *before -= 1;
                if *before == 0 {
                    begin(change.id);
                }
            }
        };
        if self.excluding.remove(&number).is_some() {
            self.leaves(gone.tenant);
            self.changes.range_mut(number..).for_each(|(_, other)| lets_go(other));
        } else {
            let later = self.excluding.range(number..);
            later.for_each(|(later, _)| {
                lets_go(self.changes.get_mut(later).expect("it is under way"));
            });
        }
        if self.excluding.is_empty() {
            self.changes.clear();
            self.numbers.clear();
        }
    }

    /// A request of a tenant excludes others no more.
    fn leaves(&mut self, tenant: TenantId) {
        if let Some(count) = self.of_tenants.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.of_tenants.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_testkit::Rng;

    use super::*;

    const BLOCK: u64 = 4;

    fn change(number: usize, bytes: ByteRange) -> Change {
        let mut edges = bytes.edges(BLOCK);
        let exclusive = [edges.next(), edges.next()];
        Change {
            id: (TaskId(7), number),
            tenant: TenantId(0),
            blocks: bytes.outer(BLOCK),
            exclusive,
        }
    }

    /// Random requests: at no time do two run of which one has a block in part that the other
    /// writes, the order of such pairs is kept, every request runs, and none waits without reason.
    #[test]
    fn no_two_requests_that_conflict_run_at_once() {
        let mut rng = Rng(3);
        let (mut exclusion, mut number) = (Exclusion::default(), 0);
        let (mut waiting, mut running): (Vec<Change>, Vec<Change>) = (Vec::new(), Vec::new());
        let (mut waited, mut cleared) = (0, 0);
        for step in 0..20_000 {
            if running.len() + waiting.len() < 1 + step % 12 && rng.below(2) == 0 {
                let start = rng.below(60);
                let aligned = rng.below(2) == 0;
                let bytes = ByteRange { start, end: start + 1 + rng.below(9) };
                let new = change(number, if aligned { bytes.outer(BLOCK) } else { bytes });
                number += 1;
                let is_tracked = !exclusion.is_idle() || new.excludes();
                if is_tracked && exclusion.is_idle() {
                    running.iter().for_each(|other| assert!(exclusion.enter(*other)));
                }
                let may_begin = !waiting.iter().chain(&running).any(|other| other.conflicts(&new));
                assert_eq!(!is_tracked || exclusion.enter(new), may_begin, "step {step}: {new:?}");
                waited += usize::from(!may_begin);
                if may_begin { &mut running } else { &mut waiting }.push(new);
            } else if !running.is_empty() {
                let ended = running.swap_remove(rng.below(running.len() as u64) as usize);
                if exclusion.is_idle() {
                    continue;
                }
                exclusion.leave(ended.id, |id| {
                    let at = waiting.iter().position(|change| change.id == id).expect("it waits");
                    let begun = waiting.remove(at);
                    assert!(
                        !running.iter().any(|other| other.conflicts(&begun)),
                        "step {step}: {begun:?}"
                    );
                    assert!(
                        !waiting[..at].iter().any(|other| other.conflicts(&begun)),
                        "step {step}: the order"
                    );
                    running.push(begun);
                });
                let is_held = |change: &Change| {
                    let before = waiting.iter().take_while(|other| other.id != change.id);
                    running.iter().chain(before).any(|other| other.conflicts(change))
                };
                assert!(waiting.iter().all(is_held), "step {step}: one waits for nothing");
                cleared += usize::from(exclusion.is_idle());
            }
        }
        assert!(waited > 500 && cleared > 100, "{waited} waited, idle again {cleared} times");
    }
}
