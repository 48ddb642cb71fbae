//! Sockets in the ring of a file: what comes goes to buffers of I/O and what follows elsewhere, and
//! what is sent comes out of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use elevon_core::units::TaskId;
use elevon_engine::Backend;
use elevon_host::interrupt::Interrupt;
use elevon_host::{
    Host, HostFile, Incoming, Method, OpenOptions, Outgoing, SlotBytes, SocketEvent, SocketId,
};

const SLOT: u64 = 1 << 20;
const TASK: TaskId = TaskId(0);

/// A host with two buffers, its file's folder, and a socket of its ring with the other end; `None`
/// where io_uring is denied.
fn host() -> Option<(Host, tempfile::TempDir, SocketId, UnixStream)> {
    let folder = tempfile::tempdir().expect("a folder");
    let options = OpenOptions { write: true, direct: false, grow_to: SLOT, fill: false };
    let file = HostFile::open(&folder.path().join("file"), options).expect("a file");
    match Host::new(file, 8, Some(Method::IoUring), Interrupt::new()) {
        Ok(mut host) => {
            host.alarm().expect("a descriptor");
            host.prepare_buffers(TASK, 2, SLOT);
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let socket = host.add_socket(ours.into());
            Some((host, folder, socket, theirs))
        }
        Err(error) => {
            elevon_testkit::denied(&format!("io_uring is denied here: {error}"));
            None
        }
    }
}

fn next(host: &mut Host) -> SocketEvent {
    loop {
        match host.poll_socket() {
            Some(event) => return event,
            None => assert!(host.wait(None)),
        }
    }
}

const fn part(token: u64, start: u64, length: u64) -> SlotBytes {
    SlotBytes { task: TASK, token, start, length }
}

#[test]
fn what_comes_fills_buffers_and_what_follows_is_kept_apart() {
    let Some((mut host, _folder, socket, mut theirs)) = host() else { return };
    theirs.write_all(&[[7; 600].as_slice(), b"next"].concat()).expect("room");
    host.receive(
        socket,
        Incoming::new(4096).expect("memory"),
        &[part(0, 100, 500), part(1, 0, 100)],
    );
    let SocketEvent::Received(of, mut incoming, Ok(604)) = next(&mut host) else {
        panic!("604 bytes came")
    };
    assert_eq!((of, incoming.bytes()), (socket, b"next".as_slice()));
    assert!(host.buffer(TASK, 0).expect("it is idle")[100..600].iter().all(|&byte| byte == 7));
    assert!(host.buffer(TASK, 1).expect("it is idle")[..100].iter().all(|&byte| byte == 7));
    // What was not taken stays in front of what comes.
    incoming.take(2);
    host.receive(socket, incoming, &[]);
    theirs.write_all(b"!").expect("room");
    let SocketEvent::Received(_, incoming, Ok(1)) = next(&mut host) else { panic!("a byte came") };
    assert_eq!(incoming.bytes(), b"xt!");
    host.receive(socket, incoming, &[]);
    drop(theirs);
    assert!(matches!(next(&mut host), SocketEvent::Received(_, _, Ok(0))), "the end");
    host.remove_socket(socket);
}

#[test]
fn a_receive_that_is_cancelled_loses_nothing() {
    let Some((mut host, _folder, socket, mut theirs)) = host() else { return };
    theirs.write_all(&[7; 9_000]).expect("room");
    host.receive(socket, Incoming::new(16 << 10).expect("memory"), &[]);
    let SocketEvent::Received(_, mut incoming, Ok(9_000)) = next(&mut host) else {
        panic!("9,000 bytes came")
    };
    incoming.take(8_990);
    // Nothing has come.
    host.receive(socket, incoming, &[]);
    host.cancel_receive(socket);
    let SocketEvent::Cancelled(_, mut incoming) = next(&mut host) else { panic!("nothing came") };
    incoming.give_back();
    assert_eq!(incoming.bytes(), [7; 10], "what was not taken stays");
    // Something has come before it is cancelled.
    theirs.write_all(b"next").expect("room");
    host.receive(socket, incoming, &[]);
    host.cancel_receive(socket);
    let SocketEvent::Received(_, incoming, Ok(4)) = next(&mut host) else {
        panic!("four bytes came")
    };
    assert_eq!(incoming.bytes(), b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07next");
    // There is none.
    host.cancel_receive(socket);
    host.receive(socket, incoming, &[]);
    theirs.write_all(b"!").expect("room");
    assert!(matches!(next(&mut host), SocketEvent::Received(_, _, Ok(1))), "it goes on");
    host.remove_socket(socket);
}

#[test]
fn heads_and_buffers_are_sent_in_order_however_slowly_they_are_read() {
    let Some((mut host, _folder, socket, mut theirs)) = host() else { return };
    for token in 0..2 {
        host.buffer(TASK, token).expect("it is idle").fill(token as u8 + 1);
    }
    let mut outgoing = Outgoing::default();
    outgoing.heads.extend(b"one");
    outgoing.push(part(0, 0, SLOT));
    outgoing.heads.extend(b"two");
    outgoing.push(part(1, 1, SLOT - 1));
    outgoing.heads.extend(b"end");
    host.send(socket, outgoing);
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 3 + SLOT as usize + 3 + (SLOT as usize - 1) + 3];
        all.chunks_mut(10_007).for_each(|part| theirs.read_exact(part).expect("bytes"));
        all
    });
    let SocketEvent::Sent(_, outgoing, Ok(())) = next(&mut host) else {
        panic!("everything was sent")
    };
    assert_eq!(outgoing.slots().count(), 2);
    let parts =
        [b"one".to_vec(), vec![1; SLOT as usize], b"two".to_vec(), vec![2; SLOT as usize - 1]];
    assert!(
        reader.join().expect("it read everything") == [parts.concat(), b"end".to_vec()].concat()
    );
    // The other side is gone by now.
    host.send(socket, outgoing);
    let SocketEvent::Sent(_, _, Err(error)) = next(&mut host) else { panic!("nobody reads") };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    host.remove_socket(socket);
}

/// Closed at once the connection is reset: what its peer has sent and nobody has read takes with it
/// what the peer has not received.
#[test]
fn a_peer_that_sends_on_gets_all_that_was_sent_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut theirs =
        TcpStream::connect(listener.local_addr().expect("an address")).expect("it is bound");
    let (mut ours, _) = listener.accept().expect("it was connected");
    ours.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    // Both systems are full of it.
    while let Ok(bytes) = ours.write(&[7; 64 << 10]) {
        sent += bytes;
    }
    theirs.write_all(b"more").expect("room");
    assert!(elevon_host::unsent(&ours) > 0);
    let reader = std::thread::spawn(move || {
        let (mut read, mut all) = (vec![0; 64 << 10], 0);
        while let Ok(bytes @ 1..) = theirs.read(&mut read) {
            all += bytes;
            // It is gone once everything was read, and perhaps before it was asked again.
            let _ = theirs.write_all(b"more");
        }
        all
    });
    elevon_host::linger(&ours, Duration::from_secs(60), Duration::from_secs(60));
    elevon_host::shut_socket(&ours);
    drop(ours);
    assert_eq!(reader.join().expect("it read everything"), sent);
}

#[test]
fn a_host_that_is_dropped_leaves_nothing_in_the_kernel() {
    let Some((mut host, _folder, socket, mut theirs)) = host() else { return };
    let mut outgoing = Outgoing::default();
    outgoing.push(part(0, 0, SLOT));
    host.send(socket, outgoing);
    host.receive(socket, Incoming::new(4096).expect("memory"), &[part(1, 0, SLOT)]);
    drop(host);
    let mut read = Vec::new();
    theirs.read_to_end(&mut read).expect("what was sent, and the end");
    assert!(read.len() < SLOT as usize, "a part of it fits the socket");
}
