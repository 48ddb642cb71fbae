//! The memory for the data of requests, of which clients ask for more than there is.

use elevon_core::units::{Bytes, Nanos};
use elevon_formats::serve::REQUEST_MEMORY_MIN;
use elevon_nbd::{Command, Export, Request};

use super::lab::{Lab, Wire};

const DISK: &str = "slots:slots=8,latency=100us,bandwidth=2GB/s,size=1GiB,queue_depth=64";
const CLIENTS: u32 = 6;
const LONGEST: u64 = Export::PAYLOAD as u64;

const fn request(command: Command, length: u64) -> Request {
    Request { command, fua: false, df: false, cookie: 1, offset: 4096, length }
}

#[test]
fn clients_share_the_memory_and_short_requests_never_wait_for_it() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    lab.device.memory.set_limit(REQUEST_MEMORY_MIN);
    let mut wires: Vec<Wire> = (0..CLIENTS).map(|client| lab.open(client, "")).collect();
    for (command, payload) in
        [(Command::Read, Vec::new()), (Command::Write, vec![1; LONGEST as usize])]
    {
        wires.iter_mut().for_each(|wire| wire.ask(&request(command, LONGEST), &payload));
        // No answer is taken, and no more of a payload is sent than the device lets come.
        for _ in 0..1000 {
            for wire in &mut wires {
                wire.transfer();
            }
            lab.step();
        }
        assert!(
            lab.device.short.len() >= CLIENTS as usize - 2,
            "{command:?}: {:?} wait",
            lab.device.short
        );
        let mut other = lab.open(CLIENTS, "");
        for (command, payload) in
            [(Command::Write, vec![2; 256 << 10]), (Command::Read, Vec::new())]
        {
            assert!(lab.ask(&mut other, &request(command, 256 << 10), &payload));
        }
        assert!(lab.device.memory.taken() <= REQUEST_MEMORY_MIN.get());
        lab.close(other);
        let mut answered = vec![false; wires.len()];
        while answered.contains(&false) {
            for (wire, answered) in wires.iter_mut().zip(&mut answered) {
                if let Some((_, is_ok)) = wire.answer() {
                    assert!(is_ok && !std::mem::replace(answered, true));
                }
            }
            lab.step();
            assert!(lab.device.memory.taken() <= REQUEST_MEMORY_MIN.get());
        }
    }
    assert!(lab.device.engine.backend().peek(4096, LONGEST as usize).iter().all(|&byte| byte == 1));
    // A client that leaves gives back what it has.
    wires.iter_mut().for_each(|wire| wire.ask(&request(Command::Read, LONGEST), &[]));
    lab.wait_for(Nanos::from_millis(100));
    assert!(!lab.device.short.is_empty());
    // What waits has its turn after others have gone.
    for _ in 0..CLIENTS {
        wires.iter_mut().for_each(Wire::hang_up);
        lab.wait_for(Nanos::from_millis(100));
    }
    assert_eq!((lab.device.tasks.len(), lab.device.memory.taken()), (0, 0));
}

/// Each has its turn in the order in which they asked, and not in that of their connections.
#[test]
fn who_waits_for_memory_has_it_in_the_order_of_arrival() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    let mut wires = [0, 1, 2].map(|client| lab.open(client, ""));
    let mut first = lab.open(3, "");
    let mut needed = 0;
    first.ask(&request(Command::Read, 2 << 20), &[]);
    while first.answer().is_none() {
        first.transfer();
        lab.step();
        needed = needed.max(lab.device.memory.taken());
    }
    first.hang_up();
    lab.wait_for(Nanos::from_secs(1));
    lab.device.memory.set_limit(Bytes::ZERO);
    for wire in wires.iter_mut().rev() {
        wire.ask(&request(Command::Read, 2 << 20), &[]);
        wire.transfer();
        lab.wait_for(Nanos::from_secs(1));
    }
    assert!(wires.iter_mut().all(|wire| wire.answer().is_none()), "all wait");
    while !lab.device.queue.is_empty() {
        lab.step();
    }
    // A request gets half of what is free at most.
    lab.device.memory.set_limit(Bytes::new(2 * needed));
    let mut answered = Vec::new();
    for _ in 0..1000 {
        for (client, wire) in wires.iter_mut().enumerate() {
            wire.transfer();
            answered.extend(wire.answer().map(|(_, is_ok)| (client, is_ok)));
        }
        lab.wait_for(Nanos::from_millis(10));
    }
    assert_eq!(answered, [(2, true), (1, true), (0, true)]);
}

/// One takes no reply, one does not send the end of a write: they are sent away once another has
/// waited for what they keep, and one that takes its replies at times is not.
#[test]
fn clients_that_have_stalled_keep_no_memory_for_which_others_wait() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    lab.device.memory.set_limit(REQUEST_MEMORY_MIN);
    let [mut deaf, mut torn, mut slow, mut other] = [0, 1, 2, 3].map(|client| lab.open(client, ""));
    deaf.ask(&request(Command::Read, LONGEST), &[]);
    torn.ask(&request(Command::Write, LONGEST / 2), &vec![1; LONGEST as usize / 2 - 1]);
    slow.ask(&request(Command::Read, LONGEST / 8), &[]);
    let mut taken = 0;
    for half_minutes in 0..30 {
        if half_minutes == 20 {
            assert!(
                !lab.device.clients.iter().flatten().any(|client| client.state.is_gone()),
                "no other waits"
            );
            other.ask(&request(Command::Read, LONGEST / 2), &[]);
        }
        for _ in 0..300 {
            for wire in [&mut deaf, &mut torn, &mut slow, &mut other] {
                wire.transfer();
            }
            lab.wait_for(Nanos::from_millis(100));
        }
        if slow.answer().is_some() {
            taken += 1;
            slow.ask(&request(Command::Read, LONGEST / 8), &[]);
        }
    }
    assert_eq!(taken, 30);
    let clients = lab.device.clients.iter().flatten();
    let gone = clients.filter(|client| client.state.is_gone());
    assert_eq!(gone.map(|client| client.origin.connection).collect::<Vec<_>>(), [0, 1]);
    deaf.hang_up();
    torn.hang_up();
    lab.wait_for(Nanos::from_secs(1));
    assert!(other.answer().is_some_and(|(_, is_ok)| is_ok));
    assert_eq!(lab.device.tasks.len(), 2);
}

/// It takes no reply, and its own next request waits for memory.
#[test]
fn a_client_that_has_stalled_is_not_sent_away_for_its_own_requests() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    let mut deaf = lab.open(0, "");
    deaf.ask(&request(Command::Read, 2 << 20), &[]);
    while lab.device.clients.iter().flatten().all(|client| !client.replies.are_on_their_way()) {
        deaf.transfer();
        lab.step();
    }
    lab.device.memory.set_limit(Bytes::ZERO);
    deaf.ask(&request(Command::Read, 2 << 20), &[]);
    lab.wait_for(Nanos::from_secs(600));
    let client = lab.device.clients.iter().flatten().next().expect("it is there");
    assert!(client.has_stalled(100) && !client.state.is_gone());
    assert_eq!(lab.device.short.len(), 1, "its second request waits");
}

/// Where the device makes no zeroes they are written out of buffers, of which it uses a few.
#[test]
fn zeroes_that_are_written_as_data_use_little_memory() {
    let mut lab = Lab::new("hdd-7200", &[], "none", "");
    let mut wire = lab.open(0, "");
    let zeroes = request(Command::WriteZeroes { no_hole: true, fast: false }, 512 << 20);
    assert!(lab.ask(&mut wire, &request(Command::Write, 4096), &[7; 4096]));
    wire.ask(&zeroes, &[]);
    let mut most = 0;
    while wire.answer().is_none() {
        lab.step();
        most = lab.device.memory.taken().max(most);
    }
    assert_eq!(lab.device.engine.backend().peek(4096, 4096), [0; 4096]);
    assert!(most > 0 && most <= 2 * (2 << 20), "{most} bytes");
}
