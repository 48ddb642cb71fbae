//! Tests disks of NBD servers that err, lie, and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::faulty::{Act, FLAGS, Faulty, Request, chunk, data, simple};
use crate::common::nbd::{Client, FLUSH, FUA, READ, WRITE};
use crate::common::nbdkit::until;
use crate::common::served::Served;

const EIO: u32 = 5;
const SIZE: usize = 1 << 20;
/// A request of this offset meets what a test is about.
const BAD: u64 = 65536;

/// Serves the disk of a server that behaves so.
fn before(
    flags: u16,
    options: &[&str],
    behave: impl Fn(&Request) -> Act + Send + Sync + 'static,
) -> (Served, Faulty) {
    let bench = Bench::new();
    let faulty = Faulty::start(&bench.path("up"), SIZE, flags, behave);
    let address = format!("nbd+unix:///?socket={}", bench.path("up").display());
    let args = [
        &address,
        "--name",
        "disk",
        "--listen",
        "unix:s",
        "--control",
        "ctl",
        "--scheduler",
        "none",
    ];
    (Served::run(bench, &[&args[..], options].concat()), faulty)
}

fn client(served: &Served) -> Client {
    Client::open(&served.bench.path("s"), "disk").expect("it listens")
}

type Answer = fn(&Request) -> Vec<u8>;

/// Whatever the answer to one READ is, that READ fails at once, and all else goes on on the same
/// connection.
#[test]
fn a_bad_answer_ends_its_request_and_harms_no_other() {
    let answers: [(&str, Answer); 16] = [
        ("nothing", |r| chunk(r, true, 0, b"")),
        ("too little", |r| data(r, true, r.offset, &[1; 512])),
        ("too little of a hole", |r| {
            chunk(r, true, 2, &[&r.offset.to_be_bytes()[..], &[0, 0, 2, 0]].concat())
        }),
        ("a gap", |r| data(r, true, r.offset + 512, &[1; 3584])),
        ("a gap between", |r| {
            [data(r, false, r.offset, &[1; 512]), data(r, true, r.offset + 1024, &[1; 3072])]
                .concat()
        }),
        ("too much", |r| data(r, true, r.offset, &[1; 8192])),
        ("what is elsewhere", |r| data(r, true, 0, &[1; 4096])),
        ("beyond the disk", |r| data(r, true, u64::MAX - 4095, &[1; 4096])),
        ("twice", |r| {
            [data(r, false, r.offset, &[1; 4096]), data(r, true, r.offset, &[1; 4096])].concat()
        }),
        ("overlapping", |r| {
            [data(r, false, r.offset, &[1; 4096]), data(r, true, r.offset + 8, &[1; 8])].concat()
        }),
        ("no bytes", |r| data(r, true, r.offset, b"")),
        ("no offset", |r| chunk(r, true, 1, b"1234")),
        ("extents", |r| chunk(r, true, 5, &[0; 12])),
        ("an unknown kind", |r| chunk(r, true, 99, b"text")),
        ("an odd error", |r| chunk(r, true, 0x8001, &[0, 0, 0])),
        ("an error of another byte", |r| {
            chunk(r, true, 0x8002, &[0, 0, 0, 5, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9])
        }),
    ];
    let which = Arc::new(AtomicUsize::new(0));
    let (served, faulty) = before(FLAGS, &[], {
        let which = Arc::clone(&which);
        move |request| match (request.command, request.offset) {
            (READ, BAD) => Act::Send(answers[which.load(Ordering::SeqCst)].1(request)),
            _ => Act::Right,
        }
    });
    let (mut bad, mut good) = (client(&served), client(&served));
    for (index, (what, _)) in answers.iter().enumerate() {
        which.store(index, Ordering::SeqCst);
        assert_eq!(bad.read(BAD, 4096).expect("an answer"), Err(EIO), "{what}");
        assert_eq!(good.write(0, 0, &[index as u8; 512]).expect("an answer"), 0, "{what}");
        assert_eq!(good.read(0, 512).expect("an answer"), Ok(vec![index as u8; 512]), "{what}");
        assert_eq!(good.flush().expect("an answer"), 0, "{what}");
    }
    assert_eq!(faulty.connections(), 1);
    served.end();
}

/// Answers of no request are passed over.
#[test]
fn answers_that_come_twice_are_of_no_use() {
    let (served, faulty) = before(FLAGS, &[], |request| match request.command {
        READ => {
            let whole = data(request, true, request.offset, &vec![7; request.length as usize]);
            let other = Request { cookie: !0, ..request.clone() };
            Act::Send(
                [&whole[..], &whole, &simple(&other, 5), &data(&other, true, 0, &[1; 99])].concat(),
            )
        }
        _ => Act::Send([simple(request, 0), simple(request, 0)].concat()),
    });
    let mut client = client(&served);
    for _ in 0..3 {
        assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![7; 4096]));
        assert_eq!(client.write(0, 0, &[1; 512]).expect("an answer"), 0);
    }
    assert_eq!(faulty.connections(), 1);
    served.end();
}

/// A request that the connection does not survive is given up; others are sent again and succeed.
#[test]
fn a_request_that_no_connection_survives_is_given_up() {
    for garbage in [None, Some(vec![9; 100])] {
        let (served, faulty) =
            before(FLAGS, &[], move |request| match (request.offset, &garbage) {
                (BAD, Some(garbage)) => Act::Send(garbage.clone()),
                (BAD, None) => Act::Leave,
                _ => Act::Right,
            });
        let (mut bad, mut good) = (client(&served), client(&served));
        assert_eq!(bad.write(0, BAD, &[1; 512]).expect("an answer"), EIO);
        assert_eq!(good.write(0, 0, &[1; 512]).expect("an answer"), 0);
        assert_eq!(faulty.requests().iter().filter(|request| request.offset == BAD).count(), 3);
        served.end();
    }
}

/// "I am shutting down" says nothing of the request: it goes to the server that follows.
#[test]
fn an_error_of_the_servers_own_state_is_no_error_of_the_data() {
    let was_down = AtomicBool::new(false);
    let (served, _) = before(FLAGS, &[], move |request| match request.command {
        READ if !was_down.swap(true, Ordering::SeqCst) => Act::Send(simple(request, 108)),
        _ => Act::Right,
    });
    assert_eq!(client(&served).read(0, 4096).expect("an answer"), Ok(vec![0; 4096]));
    served.end();
}

/// What was answered and not flushed is sent again to a server that has lost it, whether requests
/// are held meanwhile or fail.
#[test]
fn what_a_server_forgets_is_sent_again() {
    for options in [&["--on-loss", "error"][..], &["--on-loss", "hold=30s"]] {
        let (served, faulty) = before(FLAGS, options, |_| Act::Right);
        let mut client = client(&served);
        assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
        assert_eq!(client.write(FUA, 4096, &[2; 4096]).expect("an answer"), 0);
        assert_eq!(client.write(0, 0, &[3; 512]).expect("an answer"), 0);
        faulty.crash();
        until("it connects again", || client.read(0, 512).expect("an answer") == Ok(vec![3; 512]));
        assert_eq!(client.read(512, 3584).expect("an answer"), Ok(vec![1; 3584]));
        assert_eq!(client.flush().expect("an answer"), 0);
        faulty.crash();
        until("it connects again", || client.read(0, 512).is_ok_and(|read| read.is_ok()));
        assert_eq!(client.read(0, 512).expect("an answer"), Ok(vec![3; 512]), "it was flushed");
        served.end();
    }
}

/// So nothing that is sent again can come after what was answered later.
#[test]
fn changes_of_the_same_bytes_go_one_after_the_other() {
    let under_way = AtomicUsize::new(0);
    let most = Arc::new(AtomicUsize::new(0));
    // Two connections, so that two could be under way.
    let (served, _) = before(FLAGS | 256, &[], {
        let most = Arc::clone(&most);
        move |request| {
            if request.command == WRITE {
                most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                under_way.fetch_sub(1, Ordering::SeqCst);
            }
            Act::Right
        }
    });
    let mut client = client(&served);
    for value in 0..10 {
        client.send(0, WRITE, 0, 4096, &[value; 4096]).expect("sent");
    }
    (0..10).for_each(|_| assert_eq!(client.answer().expect("an answer").1, 0));
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![9; 4096]));
    served.end();
}

#[test]
fn requests_are_held_for_as_long_as_is_said() {
    let (served, faulty) = before(FLAGS, &["--on-loss", "hold=1s"], |_| Act::Right);
    let mut client = client(&served);
    assert_eq!(client.read(0, 512).expect("an answer"), Ok(vec![0; 512]));
    std::fs::rename(served.bench.path("up"), served.bench.path("away")).expect("the socket");
    faulty.hang_up();
    let began = Instant::now();
    assert_eq!(client.write(0, 0, &[1; 512]).expect("an answer"), EIO);
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    assert_eq!(client.flush().expect("an answer"), EIO, "the server is gone");
    std::fs::rename(served.bench.path("away"), served.bench.path("up")).expect("the socket");
    until("it connects again", || client.write(0, 0, &[1; 512]).expect("an answer") == 0);
    assert_eq!(client.flush().expect("an answer"), 0, "nothing was lost that was answered");
    served.end();
}

/// Attempts become rare, although each succeeds as far as the handshake.
#[test]
fn a_server_that_leaves_behind_the_handshake_is_not_asked_more_often() {
    let is_leaving = Arc::new(AtomicBool::new(false));
    let (served, faulty) = before(FLAGS, &["--on-loss", "hold=60s"], {
        let is_leaving = Arc::clone(&is_leaving);
        move |_| if is_leaving.load(Ordering::SeqCst) { Act::Leave } else { Act::Right }
    });
    let mut client = client(&served);
    assert_eq!(client.read(0, 512).expect("an answer"), Ok(vec![0; 512]));
    is_leaving.store(true, Ordering::SeqCst);
    for at in 0..64 {
        client.send(0, READ, at * 8192, 512, &[]).expect("sent");
    }
    let before = faulty.connections();
    std::thread::sleep(Duration::from_secs(3));
    // After 0.2, 0.4, 0.8 and 1.6 s.
    assert!(faulty.connections() - before <= 4, "{}", faulty.connections());
    served.end();
}

/// A server with FUA and no FLUSH makes nothing durable without FUA.
#[test]
fn fua_goes_to_a_server_without_flush() {
    for options in [&[][..], &["--cache", "1MiB"]] {
        let (served, faulty) = before(FLAGS & !4, options, |_| Act::Right);
        let mut client = client(&served);
        assert_eq!(client.write(FUA, 0, &[1; 4096]).expect("an answer"), 0);
        for command in [4, 6] {
            client.send(FUA, command, 8192, 4096, &[]).expect("sent");
            assert_eq!(client.answer().expect("an answer").1, 0);
        }
        assert_eq!(client.flush().expect("an answer"), 0);
        let changes: Vec<_> =
            faulty.requests().into_iter().filter(|request| request.command != READ).collect();
        assert!(
            changes.len() >= 3 && changes.iter().all(|request| request.flags & 1 == 1),
            "{changes:?}"
        );
        served.end();
    }
}

/// A flush that the server itself fails has lost data, until an operator says otherwise.
#[test]
fn a_device_is_opened_again_by_command() {
    let fails = Arc::new(AtomicBool::new(true));
    let (served, faulty) = before(FLAGS, &[], {
        let fails = Arc::clone(&fails);
        move |request| match request.command {
            FLUSH if fails.load(Ordering::SeqCst) => Act::Send(simple(request, EIO)),
            _ => Act::Right,
        }
    });
    let mut client = client(&served);
    assert_eq!(client.write(0, 0, &[1; 512]).expect("an answer"), 0);
    assert_eq!(client.flush().expect("an answer"), EIO);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(client.flush().expect("an answer"), EIO, "what the first has lost is lost");
    let reopen = |device: &str| {
        served.bench.elevon(&["ctl", "ctl", "reopen", device]).output().expect("it ran")
    };
    let unknown = reopen("x");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("x: no such device; there are disk"),
        "{unknown:?}"
    );
    let opened = reopen("disk");
    assert!(opened.status.success(), "{opened:?}");
    assert_eq!((client.flush().expect("an answer"), faulty.connections()), (0, 2));
    assert_eq!(client.read(0, 512).expect("an answer"), Ok(vec![1; 512]));
    served.end();
}
