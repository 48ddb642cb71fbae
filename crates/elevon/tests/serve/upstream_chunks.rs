//! Tests disks of NBD servers that answer as ours and nbdkit do not: in several chunks, with errors
//! that have a place, on some of their connections.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::{DISK, Served};
use elevon_nbd::{Command, Export, Exports, Refusal, Request, Session, SessionConfig, Step};

const EIO: u32 = 5;

struct Disk;

impl Exports for Disk {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn export(&self, _name: &str) -> Result<Export, Refusal> {
        Ok(Export { block: 512, ..Export::new(DISK as u64) })
    }
}

/// What a server does with a READ.
enum Done {
    Answer(Vec<u8>),
    Nothing,
    Leave,
}

/// Serves a client until it leaves, or is left.
fn serve(mut stream: UnixStream, read: &dyn Fn(&Request) -> Done) -> std::io::Result<()> {
    let (mut session, mut input) = (Session::new(SessionConfig::default()), Vec::new());
    loop {
        stream.write_all(&session.take_output())?;
        let (used, step) = session.step(&input, &Disk);
        input.drain(..used);
        match step {
            Step::More => {
                let mut more = [0; 4096];
                let count = stream.read(&mut more)?;
                if count == 0 {
                    return Ok(());
                }
                input.extend_from_slice(&more[..count]);
            }
            Step::Request(request) if request.command == Command::Read => match read(&request) {
                Done::Answer(bytes) => stream.write_all(&bytes)?,
                Done::Nothing => {}
                Done::Leave => return Ok(()),
            },
            Step::Close(_) => return Ok(()),
            _ => {}
        }
    }
}

/// Serves the disk of such a server.
fn before(read: impl Fn(&Request) -> Done + Send + Sync + 'static) -> Served {
    let bench = Bench::new();
    let listener = UnixListener::bind(bench.path("up")).expect("a socket");
    let read = Arc::new(read);
    // The threads end with the process of the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let read = Arc::clone(&read);
            std::thread::spawn(move || serve(stream.expect("a connection"), &*read));
        }
    });
    let address = format!("nbd+unix:///?socket={}", bench.path("up").display());
    Served::run(
        bench,
        &[
            &address,
            "--name",
            "disk.img",
            "--listen",
            "unix:s",
            "--scheduler",
            "none",
            "--on-loss",
            "error",
        ],
    )
}

/// Returns a chunk of the answer to a request.
fn chunk(request: &Request, is_last: bool, kind: u16, payload: &[&[u8]]) -> Vec<u8> {
    let payload = payload.concat();
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend(u16::from(is_last).to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn data(request: &Request, offset: u64, length: u64) -> Vec<u8> {
    chunk(
        request,
        false,
        1,
        &[&offset.to_be_bytes(), &vec![(offset >> 12) as u8 + 1; length as usize]],
    )
}

#[test]
fn chunks_are_put_together() {
    let served = before(|request| {
        let at = request.offset;
        let hole = [&(at + 4096).to_be_bytes()[..], &4096_u32.to_be_bytes()].concat();
        let chunks = [
            data(request, at + 8192, 4096),
            chunk(request, false, 2, &[&hole]),
            data(request, at, 4096),
        ];
        Done::Answer([&chunks.concat()[..], &chunk(request, true, 0, &[])].concat())
    });
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    let read = client.read(4096, 12288).expect("an answer").expect("it succeeds");
    assert!(
        read[..4096].iter().all(|&byte| byte == 2)
            && read[4096..8192].iter().all(|&byte| byte == 0)
    );
    assert!(read[8192..].iter().all(|&byte| byte == 4));
    served.end();
}

#[test]
fn an_error_with_its_place_spares_what_was_read_before_it() {
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let served = before({
        let lengths = Arc::clone(&lengths);
        move |request| {
            lengths.lock().expect("no panic").push(request.length);
            let error = chunk(
                request,
                true,
                0x8002,
                &[&5_u32.to_be_bytes(), &[0, 0], &4096_u64.to_be_bytes()],
            );
            Done::Answer([data(request, 0, 4096), error].concat())
        }
    });
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    client.send_reads(&[(0, 4096), (4096, 4096)]).expect("sent");
    let (mut good, mut bad) = (0, 0);
    for _ in 0..2 {
        let (cookie, errno) = client.answer().expect("an answer");
        match errno {
            0 => {
                good = cookie;
                assert_eq!(client.data(4096).expect("its data"), [1; 4096]);
            }
            errno => (bad, _) = (cookie, assert_eq!(errno, EIO)),
        }
    }
    assert_eq!((good, bad), (1, 2));
    assert_eq!(*lengths.lock().expect("no panic"), [8192], "they merged");
    served.end();
}

#[test]
fn connections_end_together() {
    let served = before(|request| if request.offset == 0 { Done::Nothing } else { Done::Leave });
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    // The second goes out on another connection, since the first waits on its own.
    let waits = client.send(0, 0, 0, 4096, &[]).expect("sent");
    let leaves = client.send(0, 0, 1 << 20, 4096, &[]).expect("sent");
    let mut answered = [client.answer().expect("an answer"), client.answer().expect("an answer")];
    answered.sort_unstable();
    assert_eq!(answered, [(waits, EIO), (leaves, EIO)]);
    served.end();
}
