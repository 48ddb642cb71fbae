//! Which client the thread of a device serves next.
//!
//! The thread is a resource that clients share like the device. A request that the device need not
//! do anything for, such as a BLOCK_STATUS or a READ of cached pages, still takes the thread's
//! time, and keeps it from everybody else. So tenants have equal parts of the time of the thread
//! while several have something to do: each is charged the time that serving its clients took, and
//! the one that was charged least is served next. The clients of a tenant have turns.
//!
//! Cost, with t tenants that have something to do: O(log t) for each client that is served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use elevon_core::units::{Nanos, TaskId, TenantId};

/// What serving a client is charged at least, so that turns change also where no time passes.
const MIN_CHARGE: Nanos = Nanos::from_micros(1);

/// A tenant that was served.
#[derive(Debug, Default)]
struct Served {
    /// Its clients that have something to do.
    clients: VecDeque<TaskId>,
    /// What it was charged. A tenant that had nothing to do is owed nothing for that.
    charged: Nanos,
}

/// The clients that have something to do.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    tenants: BTreeMap<TenantId, Served>,
    /// The tenants that have something to do, by what they were charged.
    order: BTreeSet<(Nanos, TenantId)>,
    /// What the tenant had been charged that was served last.
    clock: Nanos,
    clients: usize,
}

impl Rounds {
    /// Returns true if no client has anything to do.
    pub(super) fn is_empty(&self) -> bool {
        self.clients == 0
    }

    /// Returns how many clients have something to do.
    pub(super) fn len(&self) -> usize {
        self.clients
    }

    /// Adds a client of a tenant, which is not among them.
    pub(super) fn push(&mut self, tenant: TenantId, client: TaskId) {
        let served = self.tenants.entry(tenant).or_default();
        if served.clients.is_empty() {
            served.charged = served.charged.max(self.clock);
            self.order.insert((served.charged, tenant));
        }
        served.clients.push_back(client);
        self.clients += 1;
    }

    /// Takes the client that is served next, and its tenant.
    pub(super) fn pop(&mut self) -> Option<(TenantId, TaskId)> {
        let (charged, tenant) = *self.order.first()?;
        self.clock = charged;
        let served = self.tenants.get_mut(&tenant).expect("it has something to do");
        let client = served.clients.pop_front().expect("it has something to do");
        if served.clients.is_empty() {
            self.order.pop_first();
        }
        self.clients -= 1;
        Some((tenant, client))
    }

    /// Charges a tenant for the time that serving a client of it took.
    pub(super) fn charge(&mut self, tenant: TenantId, took: Nanos) {
        let served = self.tenants.entry(tenant).or_default();
        let is_there = self.order.remove(&(served.charged, tenant));
        served.charged += took.max(MIN_CHARGE);
        if is_there {
            self.order.insert((served.charged, tenant));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves for some turns, each client having something to do again at once. Returns the time
    /// that each of two tenants got.
    fn share(clients: [u32; 2], takes: [Nanos; 2], turns: u32) -> [Nanos; 2] {
        let (mut rounds, mut got) = (Rounds::default(), [Nanos::ZERO; 2]);
        for (tenant, count) in (0..).zip(clients) {
            (0..count)
                .for_each(|client| rounds.push(TenantId(tenant), TaskId(tenant * 1000 + client)));
        }
        for _ in 0..turns {
            let (tenant, client) = rounds.pop().expect("all have something to do");
            rounds.charge(tenant, takes[tenant.index()]);
            rounds.push(tenant, client);
            got[tenant.index()] += takes[tenant.index()];
        }
        assert_eq!(rounds.len() as u32, clients.iter().sum::<u32>());
        got
    }

    #[test]
    fn tenants_share_the_thread_whatever_their_clients_ask_for() {
        let [us, ms] = [Nanos::from_micros(5), Nanos::from_millis(2)];
        for (clients, takes) in
            [([1, 900], [us, us]), ([1, 1], [us, ms]), ([3, 200], [us, ms]), ([900, 1], [ms, us])]
        {
            let [a, b] = share(clients, takes, 40_000).map(Nanos::get);
            assert!(
                a.abs_diff(b) <= 2 * ms.get(),
                "{clients:?} clients that take {takes:?}: {a} and {b}"
            );
        }
    }

    #[test]
    fn who_had_nothing_to_do_is_owed_nothing_and_waits_for_one_at_most() {
        let mut rounds = Rounds::default();
        rounds.push(TenantId(1), TaskId(1));
        for _ in 0..1000 {
            assert_eq!(rounds.pop(), Some((TenantId(1), TaskId(1))));
            rounds.charge(TenantId(1), Nanos::from_millis(1));
            rounds.push(TenantId(1), TaskId(1));
        }
        rounds.push(TenantId(2), TaskId(2));
        let mut served = Vec::new();
        for _ in 0..10 {
            let (tenant, client) = rounds.pop().expect("both have something to do");
            rounds.charge(tenant, Nanos::from_millis(1));
            rounds.push(tenant, client);
            served.push(tenant.0);
        }
        assert_eq!(served.iter().filter(|tenant| **tenant == 2).count(), 5, "{served:?}");
        assert!(served[..2].contains(&2), "{served:?}");
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice() {
        let mut rng = elevon_testkit::Rng(3);
        let (mut rounds, mut inside) = (Rounds::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let client = rng.below(60) as u32;
            if rng.one_in(2) && inside.insert(client) {
                rounds.push(TenantId(client % 7), TaskId(client));
            } else if let Some((tenant, TaskId(client))) = rounds.pop() {
                assert!(inside.remove(&client) && tenant.0 == client % 7);
                rounds.charge(tenant, Nanos::new(rng.below(5_000)));
            }
            assert_eq!((rounds.len(), rounds.is_empty()), (inside.len(), inside.is_empty()));
        }
    }
}
