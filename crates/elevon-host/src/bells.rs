//! Descriptors that a ring polls, which tell that something has come: those of kicks of guests.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};

use crate::{Engine, Host, NO_RING};

/// Added to the number of a bell, the key of its poll among the results of the ring.
pub(crate) const BELL: u64 = 1 << 40;

/// A bell of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BellId(pub(crate) u32);

impl Host {
    /// Adds a bell to the ring: a descriptor that is readable when something has come. A wait ends
    /// when it rings, and [`Self::poll_bell`] tells of it. The caller makes it silent again.
    ///
    /// # Panics
    /// Without a ring, see [`Self::takes_sockets`].
    pub fn add_bell(&mut self, bell: OwnedFd) -> BellId {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        BellId(ring.bells.add(bell))
    }

    /// Takes a bell out of the ring.
    pub fn remove_bell(&mut self, bell: BellId) {
        let Engine::Uring(ring) = &mut self.engine else { panic!("{NO_RING}") };
        ring.remove_bell(bell.0);
    }

    /// Returns the next bell that has rung.
    pub fn poll_bell(&mut self) -> Option<BellId> {
        let Engine::Uring(ring) = &mut self.engine else { return None };
        ring.poll_bell().map(BellId)
    }
}

/// The bells of a ring. A number is never used again, so a late result finds no other bell.
#[derive(Default)]
pub(crate) struct Bells {
    all: BTreeMap<u32, OwnedFd>,
    next: u32,
    /// Bells without a poll in the ring.
    unpolled: Vec<u32>,
    rung: VecDeque<u32>,
}

impl Bells {
    pub(crate) fn add(&mut self, bell: OwnedFd) -> u32 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number, bell);
        self.unpolled.push(number);
        number
    }

    /// Removes a bell. Returns the entry that ends its poll, if one is in the ring.
    pub(crate) fn remove(&mut self, number: u32) -> Option<squeue::Entry> {
        self.all.remove(&number);
        self.rung.retain(|rung| *rung != number);
        let had_none = self.unpolled.iter().position(|unpolled| *unpolled == number);
        match had_none {
            Some(index) => {
                self.unpolled.swap_remove(index);
                None
            }
            None => Some(opcode::PollRemove::new(BELL | u64::from(number)).build()),
        }
    }

    /// The poll of a bell has ended.
    pub(crate) fn on_polled(&mut self, number: u32) {
        if self.all.contains_key(&number) {
            self.unpolled.push(number);
            self.rung.push_back(number);
        }
    }

    /// Takes the polls that are to be put into the ring.
    pub(crate) fn take_polls(&mut self) -> Vec<squeue::Entry> {
        let poll = |number: u32| {
            let fd = types::Fd(self.all[&number].as_raw_fd());
            let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
            poll.user_data(BELL | u64::from(number))
        };
        self.unpolled.drain(..).map(poll).collect()
    }

    /// Returns true if a bell has rung.
    pub(crate) fn has_rung(&self) -> bool {
        !self.rung.is_empty()
    }

    /// Returns the next bell that has rung.
    pub(crate) fn poll(&mut self) -> Option<u32> {
        self.rung.pop_front()
    }
}
