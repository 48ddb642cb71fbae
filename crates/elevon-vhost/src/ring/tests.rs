use std::sync::atomic::Ordering;

use elevon_testkit::Rng;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use crate::inflight::{Inflight, inflight_bytes};

const SIZE: u16 = 8;
const MEMORY: u64 = 1 << 16;
const PLACE: RingPlace = RingPlace { descriptors: 0, available: 0x1000, used: 0x2000 };
const DATA: u64 = 0x4000;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY as usize)]).expect("memory")
}

fn put(
    memory: &GuestMemoryMmap,
    table: u64,
    index: u64,
    at: u64,
    bytes: u32,
    flags: u16,
    next: u16,
) {
    let word = u128::from(at)
        | u128::from(bytes) << 64
        | u128::from(flags) << 96
        | u128::from(next) << 112;
    let place = GuestAddress(table + 16 * index);
    memory.write_slice(&word.to_le_bytes(), place).expect("memory");
}

fn make_available(memory: &GuestMemoryMmap, heads: &[u16]) {
    for (index, head) in heads.iter().enumerate() {
        let place = GuestAddress(PLACE.available + 4 + 2 * (index as u64 % u64::from(SIZE)));
        memory.store(*head, place, Ordering::Relaxed).expect("memory");
    }
    let index = GuestAddress(PLACE.available + 2);
    memory.store(heads.len() as u16, index, Ordering::Release).expect("memory");
}

fn ring(memory: &GuestMemoryMmap, has_event_index: bool) -> Ring {
    Ring::new(memory, PLACE, SIZE, 0, has_event_index).expect("it is in the memory")
}

#[test]
fn a_chain_is_read_directly_and_by_a_table() {
    let memory = memory();
    put(&memory, 0, 3, DATA, 16, NEXT, 5);
    put(&memory, 0, 5, DATA + 512, 512, NEXT | WRITE, 1);
    put(&memory, 0, 1, DATA + 1024, 1, WRITE, 0);
    put(&memory, 0, 2, 0x3000, 48, INDIRECT, 0);
    put(&memory, 0x3000, 0, DATA, 16, NEXT, 2);
    put(&memory, 0x3000, 2, DATA + 512, 512, NEXT | WRITE, 1);
    put(&memory, 0x3000, 1, DATA + 1024, 1, WRITE, 0);
    make_available(&memory, &[3, 2]);
    let mut ring = ring(&memory, true);
    for head in [3, 2] {
        assert_eq!(ring.take(&memory), Ok(Some(head)));
        let mut chain = Chain::default();
        assert_eq!(ring.read_chain(&memory, head, &mut chain), Ok(()));
        assert_eq!(chain.readable, [Segment { at: DATA, bytes: 16 }]);
        let writable = [(DATA + 512, 512), (DATA + 1024, 1)];
        assert_eq!(chain.writable, writable.map(|(at, bytes)| Segment { at, bytes }));
    }
    assert_eq!(ring.take(&memory), Ok(None));
}

#[test]
fn a_chain_that_breaks_the_rules_says_which() {
    let memory = memory();
    let ring = ring(&memory, false);
    let read = || ring.read_chain(&memory, 0, &mut Chain::default());
    for (values, error) in [
        ((MEMORY, 1, 0, 0), RingError::Address(MEMORY)),
        ((MEMORY - 1, 2, WRITE, 0), RingError::Address(MEMORY - 1)),
        ((u64::MAX, 2, 0, 0), RingError::Address(u64::MAX)),
        ((DATA, 1, NEXT, SIZE), RingError::Index { index: 8, size: 8 }),
        ((DATA, 1, NEXT, 0), RingError::Loop),
        ((DATA, 15, INDIRECT, 0), RingError::Indirect),
        ((DATA, 0, INDIRECT, 0), RingError::Indirect),
        ((DATA, 16, INDIRECT | NEXT, 0), RingError::Indirect),
        ((MEMORY - 16, 32, INDIRECT, 0), RingError::Address(MEMORY - 16)),
    ] {
        let (at, bytes, flags, next) = values;
        put(&memory, 0, 0, at, bytes, flags, next);
        assert_eq!(read(), Err(error), "{values:?}");
    }
    put(&memory, 0, 0, DATA, 16, WRITE | NEXT, 1);
    put(&memory, 0, 1, DATA, 16, 0, 0);
    assert_eq!(read(), Err(RingError::Order));
    let place = RingPlace { used: MEMORY - 8, ..PLACE };
    assert!(Ring::new(&memory, place, SIZE, 0, false).is_err());
    let place = RingPlace { descriptors: 8, ..PLACE };
    assert!(Ring::new(&memory, place, SIZE, 0, false).is_err());
}

/// A driver and a device that take turns at random never wait for each other for ever: whenever
/// requests are available and the device was told to wait, the driver kicks, and the other way
/// round for calls.
#[test]
fn no_kick_and_no_call_is_lost() {
    for has_event_index in [false, true] {
        let (memory, mut rng) = (memory(), Rng(7));
        put(&memory, 0, 0, DATA, 16, 0, 0);
        let mut ring = ring(&memory, has_event_index);
        let load = |at| memory.load::<u16>(GuestAddress(at), Ordering::Acquire).expect("memory");
        let store =
            |word: u16, at| memory.store(word, GuestAddress(at), Ordering::Release).unwrap();
        let (mut made, mut taken, mut used, mut seen) = (0_u16, 0_u16, 0_u16, 0_u16);
        let (mut sleeps, mut kicked, mut waits, mut called) = (false, true, false, false);
        for _ in 0..100_000 {
            match rng.below(4) {
                0 if made.wrapping_sub(seen) < SIZE => {
                    let before = made;
                    made = made.wrapping_add(1);
                    store(0, PLACE.available + 4 + 2 * u64::from(before % SIZE));
                    store(made, PLACE.available + 2);
                    kicked |= if has_event_index {
                        load(PLACE.used + 4 + 8 * u64::from(SIZE)) == before
                    } else {
                        load(PLACE.used) == 0
                    };
                }
                1 if !sleeps || kicked => {
                    (sleeps, kicked) = (false, false);
                    if ring.take(&memory).expect("a good driver").is_some() {
                        taken = taken.wrapping_add(1);
                        ring.want_no_kicks(&memory).expect("memory");
                    } else {
                        sleeps = !ring.want_kicks(&memory).expect("a good driver");
                    }
                }
                2 if used != taken => {
                    ring.push_used(&memory, 0, 1).expect("memory");
                    used = used.wrapping_add(1);
                    called |= ring.wants_call(&memory).expect("memory");
                }
                3 if !waits || called => {
                    (waits, called) = (false, false);
                    if load(PLACE.used + 2) == seen {
                        store(seen, PLACE.available + 4 + 2 * u64::from(SIZE));
                        waits = load(PLACE.used + 2) == seen;
                    } else {
                        seen = seen.wrapping_add(1);
                    }
                }
                _ => {}
            }
            assert!(!sleeps || kicked || made == taken, "the device sleeps beside a request");
            assert!(!waits || called || used == seen, "the driver waits beside an answer");
        }
        assert!(seen > 1000, "it got on: {seen}");
    }
}

/// A back end that is killed between any two of its writes leaves the requests that the guest has
/// no answer for, in their order, and no other.
#[test]
fn requests_in_flight_are_found_again_wherever_it_was_killed() {
    let mut rng = Rng(3);
    for _ in 0..2000 {
        let memory = memory();
        let records = memory_of_records();
        let mut ring = ring(&memory, false);
        let (mut record, none) = Inflight::open(&records, 0, SIZE, &ring).expect("memory");
        assert!(none.is_empty());
        let mut in_flight: Vec<u16> = Vec::new();
        for _ in 0..rng.below(40) {
            let free: Vec<u16> = (0..SIZE).filter(|head| !in_flight.contains(head)).collect();
            if rng.one_in(2) && !free.is_empty() {
                let head = rng.pick(&free);
                record.take(&records, head).expect("memory");
                in_flight.push(head);
            } else if !in_flight.is_empty() {
                let head = in_flight.remove(rng.below(in_flight.len() as u64) as usize);
                record.begin_used(&records, head).expect("memory");
                ring.push_used(&memory, head, 1).expect("memory");
                record.end_used(&records, head, ring.next_used()).expect("memory");
            }
        }
        // It may be killed within an answer.
        let killed_at = rng.below(4);
        if killed_at > 0 && !in_flight.is_empty() {
            let head = in_flight[0];
            record.begin_used(&records, head).expect("memory");
            if killed_at > 1 {
                ring.push_used(&memory, head, 1).expect("memory");
                in_flight.remove(0);
            }
        }
        let next = Ring::new(&memory, PLACE, SIZE, 0, false).expect("memory");
        let (_, found) = Inflight::open(&records, 0, SIZE, &next).expect("memory");
        assert_eq!(found, in_flight);
    }
}

fn memory_of_records() -> GuestMemoryMmap {
    let bytes = inflight_bytes(SIZE) as usize;
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)]).expect("memory")
}
