//! Servers behind one queue, as a machine that knows no commands: what arrives holds a server for a
//! given time, and is finished a given time after that.
//!
//! - A server that becomes free takes the oldest that waits; with `disorder`, by chance, any of
//!   those that wait.
//! - With `hand_over`, what waits gets a free server only after that time. What arrives meanwhile
//!   takes the server, and what had its turn goes back to the end of the queue. So do thread pools
//!   and user-space servers whose waiting threads must be woken.
//! - With `base`, what is served is finished that much later, and holds nothing meanwhile.
//! - With `late` or `each`, one thread delivers what is finished: it wakes up to `late` after the
//!   first, takes `each` for one, and goes on while there is more. So what is finished at nearly
//!   the same time is delivered in one go, and a late delivery does not keep a server.
//!
//! Cost: O(1) for each that arrives while times are nearly in order, O(log n) otherwise; with
//! `disorder` O(waiting).

use std::collections::VecDeque;

use elevon_core::units::{Instant, Nanos};

use crate::chance::{below, draw};
use crate::device::queue::EventQueue;

/// Purpose of the draws of a place in the queue, and of whether one is drawn.
const PLACE: u64 = 0x5107_0001;
const WHETHER: u64 = 0x5107_0002;
/// Purpose of the draws of how late the thread that delivers wakes.
const WAKE: u64 = 0x5107_0004;

/// Parts of the whole, for [`Rules::disorder`].
const WHOLE: u64 = 1_000_000;

/// How servers are given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Servers, at least 1.
    pub servers: u32,
    /// Time from when a server becomes free to when what waits takes it.
    pub hand_over: Nanos,
    /// Time after a server is left, until what it served is finished.
    pub base: Nanos,
    /// The most by which the thread that delivers wakes late.
    pub late: Nanos,
    /// Time that it takes to deliver one.
    pub each: Nanos,
    /// Chance, in parts in a million, that a free server takes any of those that wait.
    pub disorder: u64,
    /// Random seed of the draws for that.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held<T> {
    sequence: u64,
    service: Nanos,
    item: T,
}

/// What comes next for one that is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its turn: it takes a server, if one is left.
    Turn,
    /// It leaves its server.
    Leave,
    /// It is finished.
    Finish,
    /// The thread delivers it.
    Deliver,
}

/// Servers and their queue. No two that are inside may have one sequence number.
#[derive(Clone, Debug)]
pub struct Servers<T> {
    rules: Rules,
    free: u32,
    waiting: VecDeque<Held<T>>,
    /// The largest number that waited at once.
    most_waiting: usize,
    events: EventQueue<(Step, Held<T>)>,
    /// When the thread that delivers has nothing left to do, and how often it woke.
    delivering_until: Instant,
    wakes: u64,
}

impl<T: Copy> Servers<T> {
    /// Returns idle servers, with room for so many that wait.
    pub fn new(rules: Rules, capacity: usize) -> Self {
        Self {
            rules,
            free: rules.servers,
            waiting: VecDeque::with_capacity(capacity),
            most_waiting: 0,
            events: EventQueue::with_capacity(rules.servers as usize),
            delivering_until: Instant::ZERO,
            wakes: 0,
        }
    }

    /// Something arrives that holds a server for `service`.
    #[inline]
    pub fn arrive(&mut self, now: Instant, sequence: u64, service: Nanos, item: T) {
        self.take_or_wait(now, Held { sequence, service, item });
    }

    /// Returns the largest number that waited at once.
    pub(crate) const fn most_waiting(&self) -> usize {
        self.most_waiting
    }

    /// Adds an item that needs no server and is finished after `service`.
    #[inline]
    pub fn pass(&mut self, now: Instant, sequence: u64, service: Nanos, item: T) {
        let held = Held { sequence, service, item };
        self.events.push(now.saturating_add(service), sequence, (Step::Finish, held));
    }

    /// Returns when something happens next.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.events.next_at()
    }

    /// Goes on to `now` at most, until something is finished; returns it with its time.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, T)> {
        loop {
            let (at, (step, held)) = self.events.pop_due(now)?;
            match step {
                Step::Turn => self.take_or_wait(at, held),
                Step::Deliver => return Some((at, held.item)),
                Step::Finish => {
                    if !self.is_delivered_later(at, held) {
                        return Some((at, held.item));
                    }
                }
                Step::Leave => {
                    self.leave(at, held.sequence);
                    if !self.rules.base.is_zero() {
                        self.events.push(
                            at.saturating_add(self.rules.base),
                            held.sequence,
                            (Step::Finish, held),
                        );
                    } else if !self.is_delivered_later(at, held) {
                        return Some((at, held.item));
                    }
                }
            }
        }
    }

    /// Leaves what is finished to the thread that delivers. Returns false if there is none.
    #[inline]
    fn is_delivered_later(&mut self, at: Instant, held: Held<T>) -> bool {
        let Rules { late, each, seed, .. } = self.rules;
        if late.is_zero() && each.is_zero() {
            return false;
        }
        if self.delivering_until < at {
            self.wakes += 1;
            self.delivering_until =
                at.saturating_add(Nanos::new(below(draw(seed, WAKE, self.wakes), late.get() + 1)));
        }
        self.delivering_until = self.delivering_until.saturating_add(each);
        self.events.push(self.delivering_until, held.sequence, (Step::Deliver, held));
        true
    }

    /// Removes one; a server that it held is free. Returns false if it is not inside.
    pub fn remove(&mut self, now: Instant, sequence: u64) -> bool {
        if let Some(position) = self.waiting.iter().position(|held| held.sequence == sequence) {
            return self.waiting.remove(position).is_some();
        }
        match self.events.remove(sequence) {
            Some((Step::Leave, _)) => self.leave(now, sequence),
            Some((Step::Turn, _)) => self.call_next(now, sequence),
            Some((Step::Finish | Step::Deliver, _)) => {}
            None => return false,
        }
        true
    }

    #[inline]
    fn take_or_wait(&mut self, now: Instant, held: Held<T>) {
        if self.free > 0 {
            self.free -= 1;
            self.events.push(now.saturating_add(held.service), held.sequence, (Step::Leave, held));
        } else {
            self.waiting.push_back(held);
            self.most_waiting = self.most_waiting.max(self.waiting.len());
        }
    }

    #[inline]
    fn leave(&mut self, now: Instant, sequence: u64) {
        self.free += 1;
        self.call_next(now, sequence);
    }

    /// Calls one of those that wait to a server that is free.
    #[inline]
    fn call_next(&mut self, now: Instant, sequence: u64) {
        let Some(next) = self.pick(sequence) else { return };
        if self.rules.hand_over.is_zero() {
            self.take_or_wait(now, next);
        } else {
            self.events.push(
                now.saturating_add(self.rules.hand_over),
                next.sequence,
                (Step::Turn, next),
            );
        }
    }

    #[inline]
    fn pick(&mut self, sequence: u64) -> Option<Held<T>> {
        let Rules { disorder, seed, .. } = self.rules;
        if disorder > 0 && below(draw(seed, WHETHER, sequence), WHOLE) < disorder {
            let place = below(draw(seed, PLACE, sequence), self.waiting.len() as u64);
            return self.waiting.remove(place as usize);
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// What finishes when, of what arrives at these times in microseconds and holds a server for
    /// 100 us.
    fn run(rules: Rules, arrivals: &[u64]) -> Vec<(u64, usize)> {
        let mut servers = Servers::new(rules, 8);
        let mut done = Vec::new();
        let mut until = |servers: &mut Servers<usize>, now: Instant| {
            while let Some((at, item)) = servers.poll(now) {
                done.push((at.get() / US, item));
            }
        };
        for (at, &us) in arrivals.iter().enumerate() {
            let now = Instant::new(us * US);
            until(&mut servers, now);
            servers.arrive(now, at as u64, Nanos::from_micros(100), at);
        }
        until(&mut servers, Instant::MAX);
        assert_eq!(
            (servers.next_at(), servers.free, servers.waiting.len()),
            (None, rules.servers, 0)
        );
        done
    }

    #[test]
    fn the_base_holds_nothing() {
        let rules = Rules { servers: 1, base: Nanos::from_micros(30), ..Rules::default() };
        assert_eq!(run(rules, &[0, 10]), [(130, 0), (230, 1)]);
    }

    /// The thread sleeps until 130, when two servers have finished, takes 5 us for each, and the
    /// servers go on meanwhile.
    #[test]
    fn one_thread_delivers_what_is_finished() {
        let rules = Rules {
            servers: 2,
            base: Nanos::from_micros(30),
            each: Nanos::from_micros(5),
            ..Rules::default()
        };
        assert_eq!(run(rules, &[0, 1, 2, 3]), [(135, 0), (140, 1), (235, 2), (240, 3)]);
        let rules = Rules { servers: 1, late: Nanos::from_micros(10), seed: 1, ..Rules::default() };
        let done = run(rules, &[0; 200]);
        // Lateness does not add up, because the server does not wait for it.
        let late: Vec<u64> =
            done.iter().enumerate().map(|(at, done)| done.0 - 100 * (at as u64 + 1)).collect();
        assert_eq!((late.iter().min(), late.iter().max()), (Some(&0), Some(&9)));
        let rules = Rules { servers: 4, ..rules };
        assert!(
            run(rules, &[0; 200])
                .chunks(4)
                .all(|group| group.iter().all(|done| done.0 == group[0].0))
        );
    }

    /// The server is free at 100. What comes at 110 takes it before the one that is called, and
    /// that one waits behind the third.
    #[test]
    fn who_comes_while_a_server_is_handed_over_takes_it() {
        let rules = Rules { servers: 1, hand_over: Nanos::from_micros(20), ..Rules::default() };
        assert_eq!(run(rules, &[0, 10, 20]), [(100, 0), (220, 1), (340, 2)]);
        assert_eq!(run(rules, &[0, 10, 20, 110]), [(100, 0), (210, 3), (330, 2), (450, 1)]);
        assert_eq!(run(rules, &[0, 10, 20, 121]), [(100, 0), (220, 1), (340, 2), (460, 3)]);
    }

    #[test]
    fn disorder_takes_any_of_those_that_wait() {
        let rules = Rules { servers: 1, disorder: 1_000_000, seed: 1, ..Rules::default() };
        let order: Vec<usize> = run(rules, &[0; 200]).into_iter().map(|(_, item)| item).collect();
        let moved =
            order.iter().enumerate().map(|(at, &item)| at.abs_diff(item)).sum::<usize>() / 200;
        assert!((40..90).contains(&moved), "a third of 200 on average: {moved}");
        assert_eq!(
            order,
            run(rules, &[0; 200]).into_iter().map(|(_, item)| item).collect::<Vec<_>>()
        );
        let rules = Rules { disorder: 10_000, ..rules };
        let order: Vec<usize> = run(rules, &[0; 200]).into_iter().map(|(_, item)| item).collect();
        assert!(order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() > 190, "{order:?}");
    }

    #[test]
    fn one_that_is_removed_leaves_its_server_or_its_turn() {
        let rules = Rules { servers: 1, hand_over: Nanos::from_micros(20), ..Rules::default() };
        let mut servers = Servers::new(rules, 8);
        for at in 0..4 {
            servers.arrive(Instant::ZERO, at, Nanos::from_micros(100), at);
        }
        assert!(servers.remove(Instant::ZERO, 2), "it waits");
        assert!(servers.remove(Instant::new(50 * US), 0), "it is served");
        assert!(servers.remove(Instant::new(60 * US), 1), "it has its turn");
        assert!(!servers.remove(Instant::new(60 * US), 1));
        assert_eq!(servers.poll(Instant::MAX), Some((Instant::new(180 * US), 3)));
    }
}
