//! Guests that break the rules: the server goes on, and so do other guests.

use vm_memory::{Bytes, GuestAddress};

use super::driver::{
    DATA, Guest, Options, READ, Request, WRITE, send_message, words_of, write_descriptor,
};
use super::{FILE, OK, resources, serve, vm1};
use crate::common::served::Served;

const REQUEST: Request = Request { kind: READ, ioprio: 0, sector: 0, at: DATA, bytes: 4096 };

/// Lets a guest do something, and checks that the server ends its connection or goes on, that the
/// other guest is served, and that the guest can come again.
fn survives(served: &Served, other: &mut Guest, what: &str, act: impl FnOnce(&mut Guest)) {
    let options = Options { queues: 2, indirect: false, ..Options::default() };
    let mut guest = Guest::connect(&vm1(served), options);
    act(&mut guest);
    guest.kick_anyway(0);
    assert_eq!(other.write_disk(0, 0, &[3; 8192]), OK, "{what}");
    assert_eq!(other.read_disk(0, 0, 8192), [3; 8192], "{what}");
    drop(guest);
    let mut again = Guest::connect(&vm1(served), options);
    again.read_disk(1, 0, 512);
}

#[test]
fn rings_that_break_the_rules_harm_nobody_else() {
    let served = serve(FILE, "");
    let mut other = Guest::connect(&served.bench.path("vm2"), Options::default());
    let descriptor = |guest: &mut Guest, values| {
        let head = guest.submit(0, &REQUEST).expect("a descriptor");
        let table = guest.queues[0].places()[0];
        write_descriptor(&guest.memory, table, head, values);
    };
    /// Place, length, flags and next of a descriptor.
    type Descriptor = (u64, u32, u16, u16);
    let cases: [(&str, Descriptor); 10] = [
        ("a head outside the memory", (1 << 40, 16, 1, 1)),
        ("a head at the end of the address space", (u64::MAX, 16, 1, 1)),
        ("a head of 4 GiB", (0, u32::MAX, 1, 1)),
        ("a next beyond the table", (DATA, 16, 1, 5000)),
        ("a loop of one descriptor", (DATA, 16, 1, 127)),
        ("a table outside the memory", (1 << 40, 64, 4, 0)),
        ("a table of half a descriptor", (DATA, 24, 4, 0)),
        ("an empty table", (DATA, 0, 4, 0)),
        ("a table with a next", (DATA, 64, 5, 1)),
        ("no head and no status", (DATA, 0, 0, 0)),
    ];
    for (what, values) in cases {
        survives(&served, &mut other, what, |guest| descriptor(guest, values));
    }
    survives(&served, &mut other, "a table in a table", |guest| {
        write_descriptor(&guest.memory, DATA, 0, (DATA, 64, 4, 0));
        descriptor(guest, (DATA, 64, 4, 0));
    });
    survives(&served, &mut other, "more than the ring has is available", |guest| {
        let available = guest.queues[0].places()[1];
        guest.memory.write_slice(&5000_u16.to_le_bytes(), GuestAddress(available + 2)).unwrap();
    });
    survives(&served, &mut other, "a head beyond the ring", |guest| {
        let memory = guest.memory.clone();
        guest.queues[0].make_available(&memory, 4000);
    });
    survives(&served, &mut other, "a head twice", |guest| {
        let memory = guest.memory.clone();
        let head = guest.submit(0, &REQUEST).expect("a descriptor");
        guest.queues[0].make_available(&memory, head);
        guest.queues[0].make_available(&memory, head);
    });
    survives(&served, &mut other, "a used ring that is never read", |guest| {
        for _ in 0..42 {
            guest.submit(0, &REQUEST).expect("a descriptor");
            guest.kick_anyway(0);
        }
    });
    survives(&served, &mut other, "a ring that changes while it is used", |guest| {
        let table = guest.queues[0].places()[0];
        for round in 0..2000_u64 {
            guest.submit(0, &REQUEST);
            guest.kick_anyway(0);
            let word = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let place = table + word % 2048;
            guest.memory.write_slice(&word.to_le_bytes(), GuestAddress(place)).unwrap();
        }
    });
    drop(other);
    served.end();
}

#[test]
fn memory_that_vanishes_ends_the_guest_alone() {
    let served = serve(FILE, "");
    let mut other = Guest::connect(&served.bench.path("vm2"), Options::default());
    for (what, length) in [("all of it", 0), ("the data", DATA)] {
        let mut guest = Guest::connect(&vm1(&served), Options::default());
        // Its writes promise to be durable, and fail.
        guest.set_write_cache(false);
        for number in 0..64_u64 {
            // In whole pages and not.
            let at = DATA + number * 4096 + number % 2 * 512;
            guest.submit(0, &Request { kind: WRITE, at, sector: number * 8, ..REQUEST });
        }
        // The driver's own access would end the test.
        let kick = |guest: &Guest| guest.kick_anyway(0);
        guest.file.set_len(length).expect("cut");
        kick(&guest);
        assert_eq!(other.write_disk(0, 0, &[4; 8192]), OK, "{what}");
        assert_eq!(other.read_disk(0, 0, 8192), [4; 8192], "{what}");
        assert_eq!(other.flush(0), OK, "{what}");
        drop(guest);
    }
    let mut again = Guest::connect(&vm1(&served), Options::default());
    again.read_disk(0, 0, 512);
    drop((other, again));
    served.end();
}

#[test]
fn messages_that_break_the_rules_end_the_connection_alone() {
    let served = serve(FILE, "");
    let mut other = Guest::connect(&served.bench.path("vm2"), Options::default());
    let none: [std::os::fd::BorrowedFd<'_>; 0] = [];
    for (request, payload) in [
        (99, vec![]),
        (5, vec![0; 40]),
        (8, words_of(&[0, 0])),
        (8, words_of(&[0, 32768])),
        (8, words_of(&[64, 128])),
        (12, 1_u64.to_ne_bytes().to_vec()),
        (2, u64::MAX.to_ne_bytes().to_vec()),
        (32, vec![0xff; 20]),
        (37, vec![0xff; 40]),
        (24, words_of(&[0, u32::MAX, 0])),
    ] {
        let guest = Guest::connect(&vm1(&served), Options::default());
        send_message(&guest.socket, request, &payload, &none, true).expect("sent");
        let ended = elevon_vhost::socket::receive(&guest.socket);
        assert!(ended.is_err(), "message {request} ends the connection");
        assert_eq!(other.read_disk(0, 0, 512).len(), 512);
    }
    // A queue of which nothing was said.
    let guest = Guest::connect(&vm1(&served), Options::default());
    let kick = guest.file.try_clone().expect("a descriptor");
    send_message(&guest.socket, 12, &9_u64.to_ne_bytes(), &[std::os::fd::AsFd::as_fd(&kick)], true)
        .expect("sent");
    assert!(elevon_vhost::socket::receive(&guest.socket).is_err());
    drop((guest, other));
    served.end();
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    let served = serve(FILE, "");
    let mut other = Guest::connect(&served.bench.path("vm2"), Options::default());
    let connect = |count: usize| {
        for number in 0..count {
            if number % 10 == 0 {
                let mut guest = Guest::connect(&vm1(&served), Options::default());
                guest.read_disk(0, 0, 4096);
                guest.submit(0, &REQUEST);
                guest.kick_anyway(0);
            } else {
                drop(std::os::unix::net::UnixStream::connect(vm1(&served)).expect("it listens"));
            }
        }
        // The last one has left when the next is served.
        Guest::connect(&vm1(&served), Options::default()).read_disk(0, 0, 512);
    };
    connect(200);
    let before = resources(&served);
    connect(2000);
    // A busy server closes the last of them a few guests later.
    let mut after = resources(&served);
    for _ in 0..100 {
        if after.0 <= before.0 + 8 {
            break;
        }
        connect(0);
        after = resources(&served);
    }
    assert!(after.0 <= before.0 + 8, "descriptors: {before:?} and {after:?}");
    assert!(after.1 <= before.1 + 8192, "memory: {before:?} and {after:?} kB");
    assert_eq!(other.read_disk(0, 0, 512).len(), 512);
    drop(other);
    served.end();
}
