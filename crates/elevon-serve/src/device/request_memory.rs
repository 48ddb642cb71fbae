//! Memory for the data of requests, which the clients of all devices of a server share.
//!
//! Every client may have [`OWN`] bytes whatever others have, so that requests of the usual length
//! never wait for memory. What a client has beyond that comes out of one amount for all of them. A
//! client takes at most half of what is free, so that something is left for those that come. All
//! clients of a tenant have at most [`OF_TENANT`] times what they leave free, so that requests of a
//! tenant that its limit holds back leave some to other tenants, however many its clients are. A
//! request for which there is not enough waits in its client's socket. That one waits is told to
//! the threads of all devices: each sends away those of its clients that keep memory and stand
//! still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use elevon_core::units::{Bytes, PAGE_SIZE};
use elevon_formats::serve::REQUEST_MEMORY_MIN;

use crate::request::MAX_PAYLOAD;

/// Bytes for data that every client may have.
pub(crate) const OWN: u64 = 512 << 10;

// If no other client has any, half of the least is enough for the longest request and its copy.
const _: () = assert!(REQUEST_MEMORY_MIN.get() / 2 >= 2 * (MAX_PAYLOAD + 2 * (64 << 10)) - OWN);

/// The clients of a tenant may have so many times what they leave free: alone, 7 of 8 parts.
const OF_TENANT: u64 = 7;

/// The memory of all clients beyond what each may have, as the clients of one tenant share it.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory {
    all: Arc<Amounts>,
    /// How much of it clients of the tenant have.
    of_tenant: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Amounts {
    limit: AtomicU64,
    taken: AtomicU64,
    waits: AtomicU64,
}

impl RequestMemory {
    pub(crate) fn new(limit: Bytes) -> Self {
        let all = Amounts {
            limit: limit.get().into(),
            taken: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        };
        Self { all: Arc::new(all), of_tenant: Arc::default() }
    }

    /// Returns the same memory for the clients of another tenant.
    pub(crate) fn for_tenant(&self) -> Self {
        Self { all: Arc::clone(&self.all), of_tenant: Arc::default() }
    }

    /// Changes how much there is. What was taken stays taken.
    pub(crate) fn set_limit(&self, limit: Bytes) {
        self.all.limit.store(limit.get(), Relaxed);
    }

    /// Counts that a request waits for memory, which all devices see. It is counted again each time
    /// that it is refused.
    pub(crate) fn count_wait(&self) {
        self.all.waits.fetch_add(1, Relaxed);
    }

    /// Returns how often that was counted.
    pub(crate) fn waits(&self) -> u64 {
        self.all.waits.load(Relaxed)
    }

    /// Returns how much of it clients have.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        self.all.taken.load(Relaxed)
    }

    /// Counts what a client has in any case.
    fn add(&self, from: u64, to: u64) {
        let more = to.saturating_sub(OWN) - from.saturating_sub(OWN);
        self.all.taken.fetch_add(more, Relaxed);
        self.of_tenant.fetch_add(more, Relaxed);
    }

    /// Lets a client that has `from` bytes have `to`. Returns false if there is not enough for
    /// more; less is always accepted.
    fn change(&self, from: u64, to: u64) -> bool {
        let (from, to) = (from.saturating_sub(OWN), to.saturating_sub(OWN));
        if to <= from {
            // Most requests change nothing, and the amount is of all devices' threads.
            if to < from {
                self.all.taken.fetch_sub(from - to, Relaxed);
                self.of_tenant.fetch_sub(from - to, Relaxed);
            }
            return true;
        }
        let (limit, more) = (self.all.limit.load(Relaxed), to - from);
        // Only the thread of the tenant's device changes this amount.
        let of_tenant = self.of_tenant.load(Relaxed) + more;
        let take = |taken: u64| {
            let free = limit.saturating_sub(taken);
            (more <= free / 2 && of_tenant <= OF_TENANT * (free - more)).then_some(taken + more)
        };
        let has_enough = self.all.taken.fetch_update(Relaxed, Relaxed, take).is_ok();
        if has_enough {
            self.of_tenant.store(of_tenant, Relaxed);
        }
        has_enough
    }
}

/// What a client has of it.
#[derive(Debug)]
pub(crate) struct Holding {
    memory: RequestMemory,
    /// Copies of the data that there are: 2 if a thread is given what it sends, else 1.
    copies: u64,
    /// Bytes that are counted as the client's.
    counted: u64,
    /// Bytes of each buffer that have memory.
    buffers: Vec<u64>,
    in_buffers: u64,
    /// Bytes for which requests were let in, and that are in no buffer yet.
    expected: u64,
}

impl Holding {
    pub(crate) const fn new(memory: RequestMemory, copies: u64) -> Self {
        Self { memory, copies, counted: 0, buffers: Vec::new(), in_buffers: 0, expected: 0 }
    }

    /// Returns true if it has memory that others could have.
    pub(crate) const fn has_shared(&self) -> bool {
        self.counted > OWN
    }

    fn bytes(&self) -> u64 {
        self.copies * (self.in_buffers + self.expected)
    }

    /// Takes memory for a request of so many bytes. Returns false if there is not enough.
    pub(crate) fn expect(&mut self, bytes: u64) -> bool {
        let wanted = (self.bytes() + self.copies * bytes).max(self.counted);
        let has_enough = self.memory.change(self.counted, wanted);
        if has_enough {
            self.counted = wanted;
            self.expected += bytes;
        }
        has_enough
    }

    /// Bytes that were expected are put into a buffer. Of more than were expected (zeroes that are
    /// written as data) it is counted what the buffer takes.
    pub(crate) fn fill(&mut self, buffer: u32, bytes: u64) {
        self.expected = self.expected.saturating_sub(bytes);
        let index = buffer as usize;
        if index >= self.buffers.len() {
            self.buffers.resize(index + 1, 0);
        }
        let more = bytes.next_multiple_of(PAGE_SIZE).saturating_sub(self.buffers[index]);
        self.buffers[index] += more;
        self.in_buffers += more;
        let has = self.bytes();
        if has > self.counted {
            self.memory.add(self.counted, has);
            self.counted = has;
        }
    }

    /// Bytes that were expected do not come.
    pub(crate) fn forgo(&mut self, bytes: u64) {
        self.expected = self.expected.saturating_sub(bytes);
        self.settle();
    }

    /// Returns true if a buffer has memory, which it has no more.
    pub(crate) fn empty(&mut self, buffer: u32) -> bool {
        let bytes = self.buffers.get_mut(buffer as usize).map_or(0, std::mem::take);
        self.in_buffers -= bytes;
        self.settle();
        bytes > 0
    }

    /// No buffer has memory any more.
    pub(crate) fn empty_all(&mut self) {
        self.buffers = Vec::new();
        self.in_buffers = 0;
        self.settle();
    }

    /// Gives back what is counted and not needed any more.
    fn settle(&mut self) {
        let needed = self.bytes().min(self.counted);
        self.memory.change(self.counted, needed);
        self.counted = needed;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.memory.change(self.counted, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory() -> RequestMemory {
        RequestMemory::new(Bytes::new(64 * MIB))
    }

    #[test]
    fn what_every_client_may_have_is_never_refused() {
        let memory = memory();
        let mut all: Vec<Holding> = (0..1000).map(|_| Holding::new(memory.clone(), 1)).collect();
        while all.iter_mut().any(|holding| holding.expect(MIB)) {}
        let mut late = Holding::new(memory.clone(), 1);
        assert!(late.expect(OWN) && !late.expect(8 * MIB));
        assert!(memory.taken() <= 64 * MIB);
        drop((all, late));
        assert_eq!(memory.taken(), 0, "all of it comes back");
    }

    #[test]
    fn one_client_leaves_something_to_others() {
        let memory = memory();
        let mut greedy = Holding::new(memory.clone(), 1);
        assert!(!greedy.expect(33 * MIB), "more than half");
        assert!(greedy.expect(32 * MIB) && !greedy.expect(20 * MIB));
        let mut other = Holding::new(memory.clone(), 1);
        assert!(other.expect(16 * MIB));
        memory.set_limit(Bytes::new(128 * MIB));
        assert!(greedy.expect(20 * MIB));
    }

    /// However many clients a tenant has, a client of another one finds some.
    #[test]
    fn one_tenant_leaves_something_to_others() {
        let memory = memory();
        let all: Vec<Holding> = (0..100).map(|_| Holding::new(memory.for_tenant(), 1)).collect();
        assert_eq!(memory.taken(), 0);
        drop(all);
        let of_one = memory.for_tenant();
        let mut greedy: Vec<Holding> = (0..100).map(|_| Holding::new(of_one.clone(), 1)).collect();
        while greedy.iter_mut().any(|holding| holding.expect(MIB)) {}
        assert!(
            (54 * MIB..=56 * MIB).contains(&memory.taken()),
            "7 of 8 parts: {}",
            memory.taken()
        );
        let mut other = Holding::new(memory.for_tenant(), 1);
        assert!(other.expect(4 * MIB) && !other.expect(4 * MIB));
        drop((greedy, other));
        assert_eq!(memory.taken(), 0);
    }

    /// A buffer that was used keeps its memory until it is given back.
    #[test]
    fn buffers_are_counted_by_the_most_that_was_in_them() {
        let memory = memory();
        let mut holding = Holding::new(memory.clone(), 2);
        for _ in 0..3 {
            assert!(holding.expect(2 * MIB));
            holding.fill(0, MIB);
            holding.fill(1, MIB);
            holding.forgo(0);
            assert_eq!(memory.taken(), 4 * MIB - OWN, "both copies, once");
        }
        holding.fill(2, MIB);
        assert_eq!(memory.taken(), 6 * MIB - OWN, "what was not expected");
        assert!(holding.empty(2));
        assert!(holding.expect(4 * MIB));
        holding.forgo(4 * MIB);
        assert_eq!(memory.taken(), 4 * MIB - OWN);
        assert!(holding.empty(1) && !holding.empty(1) && !holding.empty(7));
        assert_eq!(memory.taken(), 2 * MIB - OWN);
        holding.empty_all();
        assert_eq!(memory.taken(), 0);
    }
}
