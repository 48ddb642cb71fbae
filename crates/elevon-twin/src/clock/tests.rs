use super::*;

fn message(op: u32, sequence: u32, time: u64) -> [u8; MESSAGE_BYTES] {
    Message { op, sequence, time }.to_bytes()
}

fn acknowledged(sequence: u32, time: u64) -> Answer {
    Answer::Message(message(ACK, sequence, time))
}

fn handle(calendar: &mut Calendar, op: u32, sequence: u32, time: u64) -> Answer {
    calendar.handle(&message(op, sequence, time)).expect("a message of the protocol")
}

#[test]
fn a_kernel_asks_waits_and_runs() {
    let mut calendar = Calendar::new(7, None);
    assert_eq!(handle(&mut calendar, START, 0, 99), Answer::Start(message(ACK, 0, 1)));
    assert_eq!(handle(&mut calendar, GET_TOD, 1, 0), acknowledged(1, 7));
    assert_eq!(handle(&mut calendar, REQUEST, 2, 500), acknowledged(2, 0));
    assert_eq!(calendar.waits_until(), None);
    assert_eq!(handle(&mut calendar, WAIT, 3, 0), acknowledged(3, 0));
    assert_eq!(calendar.waits_until(), Some(Instant::new(500)));
    calendar.advance(Instant::new(200)).expect("time goes on");
    // An interrupt makes the kernel ask for the present time.
    assert_eq!(handle(&mut calendar, GET, 4, 0), acknowledged(4, 200));
    assert_eq!(handle(&mut calendar, REQUEST, 5, 200), acknowledged(5, 0));
    assert_eq!(calendar.waits_until(), Some(Instant::new(200)));
    assert_eq!(calendar.run(), message(RUN, 1, 200));
    assert_eq!(calendar.waits_until(), None);
    assert_eq!(handle(&mut calendar, ACK, 1, 0), Answer::None);
    assert_eq!(handle(&mut calendar, WAIT, 6, 0), acknowledged(6, 0));
    assert_eq!(calendar.waits_until(), Some(Instant::MAX), "for an interrupt only");
}

#[test]
fn a_kernel_that_has_not_acknowledged_its_run_does_not_wait() {
    let mut calendar = Calendar::new(0, None);
    calendar.run();
    handle(&mut calendar, WAIT, 0, 0);
    assert_eq!(calendar.waits_until(), None);
    handle(&mut calendar, ACK, 1, 0);
    assert!(calendar.waits_until().is_some());
}

#[test]
fn time_does_not_go_backwards_and_other_messages_are_refused() {
    let mut calendar = Calendar::new(0, None);
    handle(&mut calendar, UPDATE, 0, 10);
    let refused = calendar.handle(&message(UPDATE, 1, 9));
    assert_eq!(refused, Err(ClockError::Backwards { now: 10, to: 9 }));
    assert_eq!(calendar.handle(&message(77, 2, 0)), Err(ClockError::Unknown(77)));
}

#[test]
fn a_kernel_that_shares_memory_sets_its_clock_by_itself() {
    let mut calendar = Calendar::new(0, Some(SharedClock::new().expect("shared memory")));
    handle(&mut calendar, START, 0, 0);
    calendar.shared().expect("the memory").pretend_client(40, Some(90));
    assert_eq!(handle(&mut calendar, WAIT, 1, 0), Answer::None);
    assert_eq!(calendar.now(), Instant::new(40));
    assert_eq!(calendar.waits_until(), Some(Instant::new(90)));
    calendar.advance(Instant::new(90)).expect("time goes on");
    calendar.limit(Instant::new(120));
    assert_eq!(calendar.run(), message(RUN, 1, 90));
    // No acknowledgement is due.
    assert_eq!(handle(&mut calendar, WAIT, 2, 0), Answer::None);
    assert!(calendar.waits_until().is_some());
}
