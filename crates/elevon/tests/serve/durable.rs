//! Tests what a server promises of durability, and what it says of errors: it is killed under load,
//! its file system fails, its file becomes shorter, its clients die.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Bench;
use crate::common::nbd::{Client, FUA, READ, WRITE};
use crate::common::one_file::{Record, mount};
use crate::common::served::Served;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// Writes blocks again and again, each time with the next stamp, until the server is gone. Returns
/// of each block the stamp that must be in the file, and the last that was sent.
fn write_until_it_dies(
    client: &mut Client,
    killed_after: usize,
    kill: &mut dyn FnMut(),
) -> Vec<(u8, u8)> {
    let mut blocks = vec![(0_u8, 0_u8, 0_u8); BLOCKS];
    let mut step = || -> std::io::Result<()> {
        for number in 0_usize.. {
            if number == killed_after {
                kill();
            }
            let block = number * 7 % BLOCKS;
            let stamp = (number / BLOCKS % 250) as u8 + 1;
            let fua = number % 5 == 0;
            blocks[block].2 = stamp;
            assert_eq!(
                client.write(if fua { FUA } else { 0 }, (block * BLOCK) as u64, &[stamp; BLOCK])?,
                0
            );
            blocks[block].1 = stamp;
            if fua {
                blocks[block].0 = stamp;
            }
            if number % 17 == 16 {
                assert_eq!(client.flush()?, 0);
                blocks.iter_mut().for_each(|block| block.0 = block.1);
            }
        }
        Ok(())
    };
    step().expect_err("the server was killed");
    blocks.into_iter().map(|(durable, _, sent)| (durable, sent)).collect()
}

#[test]
fn a_killed_server_keeps_what_it_promised() {
    let write_back = [
        "--cache",
        "1MiB",
        "--set",
        "dirty_writeback_centisecs=5",
        "--set",
        "dirty_expire_centisecs=5",
    ];
    let options: [(usize, &[&str]); 5] = [
        (100, &["--scheduler", "none"]),
        (1_000, &["--scheduler", "aileron"]),
        (5_000, &["--scheduler", "bfq"]),
        (3_000, &write_back),
        (1_000, &["--scheduler", "bfq", "--cache", "128KiB,write-through"]),
    ];
    for (killed_after, options) in options {
        let mut served = Served::start(options);
        let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
        // Two more clients keep the device busy meanwhile.
        let socket = served.bench.path("s");
        let busy: Vec<_> = (0..2)
            .map(|place| {
                std::thread::spawn({
                    let socket = socket.clone();
                    move || {
                        let Ok(mut client) = Client::open(&socket, "disk.img") else { return };
                        while client.write(0, ((place + 1) << 20) as u64, &[9; 64 << 10]).is_ok() {}
                    }
                })
            })
            .collect();
        let blocks = write_until_it_dies(&mut client, killed_after, &mut || {
            served.child.kill().expect("killed");
        });
        busy.into_iter().for_each(|thread| thread.join().expect("it ended with the server"));
        let bytes = fs::read(served.bench.path("disk.img")).expect("the disk");
        for (number, (block, (durable, sent))) in bytes.chunks(BLOCK).zip(&blocks).enumerate() {
            assert!(
                block.iter().all(|byte| byte == &block[0] || sent == byte),
                "block {number} is of one write"
            );
            // Stamps begin again after 250 rounds, which is more than any run here has.
            assert!(
                block[0] >= *durable && block[0] <= *sent,
                "block {number}: {} of {durable} to {sent}",
                block[0]
            );
        }
        assert!(blocks.iter().any(|(durable, _)| *durable > 0));
        // Its socket is still there, and the next server takes its place.
        assert!(socket.exists());
        let Served { bench, .. } = &mut served;
        let bench = std::mem::replace(bench, Bench::new());
        let again = Served::run(bench, &["disk.img", "--listen", "unix:s"]);
        let mut client = Client::open(&again.bench.path("s"), "disk.img").expect("it listens");
        assert_eq!(
            client.read(0, BLOCK as u32).expect("it answers").expect("no error")[0],
            bytes[0]
        );
        again.end();
    }
}

/// As after a kill: the kernel lets go of the file of a server once it has ended its I/O.
#[test]
fn a_file_that_is_held_for_a_moment_is_served_after_it() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 1 << 20]);
    let held = fs::File::open(bench.path("disk.img")).expect("the disk");
    held.lock().expect("nobody has it");
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(held);
    });
    let served = Served::run(bench, &["disk.img", "--listen", "unix:s", "--cache", "1MiB"]);
    assert!(served.uri.starts_with("nbd+unix:///disk.img"), "{}", served.uri);
    holder.join().expect("it was let go");
    served.end();
}

/// Serves a path, and runs `act` with its socket. Returns what the server wrote to stderr.
fn with_server(path: &Path, args: &[&str], act: impl FnOnce(&Path)) -> String {
    let bench = Bench::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_elevon"))
        .current_dir(bench.path(""))
        .arg("serve")
        .arg(path)
        .args(["--listen", "unix:s", "--name", "x"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it started");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("UTF-8");
    act(&bench.path("s"));
    elevon_testkit::signal(&child, "TERM");
    let output = child.wait_with_output().expect("it ended");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    // It ends with a failure if it says that something is lost.
    assert_eq!(output.status.code(), Some(i32::from(stderr.contains("may be lost"))), "{stderr}");
    stderr
}

#[test]
fn a_failed_flush_is_told_and_no_later_one_succeeds() {
    let Some(mounted) = mount(Record { failing_fsync: Some(2), ..Record::default() }) else {
        return;
    };
    let stderr = with_server(&mounted.file, &[], |socket| {
        let mut client = Client::open(socket, "x").expect("it listens");
        assert_eq!(client.write(0, 0, &[1; BLOCK]).expect("an answer"), 0);
        assert_eq!(client.flush().expect("an answer"), 0);
        assert_eq!(client.write(0, 0, &[2; BLOCK]).expect("an answer"), 0);
        assert_eq!(client.flush().expect("an answer"), EIO);
        assert_eq!(
            client.flush().expect("an answer"),
            EIO,
            "what was lost is not healed by the next"
        );
        let mut other = Client::open(socket, "x").expect("it still listens");
        assert_eq!(other.flush().expect("an answer"), EIO, "nor for another client");
        assert_eq!(
            other.write(FUA, 0, &[3; BLOCK]).expect("an answer"),
            0,
            "its own bytes are durable"
        );
        assert!(other.read(0, 512).expect("an answer").is_ok(), "reads go on");
    });
    assert!(stderr.contains("FLUSH failed: "), "{stderr}");
    assert_eq!(
        stderr.matches("no flush succeeds until the server is started again").count(),
        1,
        "{stderr}"
    );
}

#[test]
fn a_failed_write_back_is_told_and_no_later_flush_succeeds() {
    let Some(mounted) =
        mount(Record { failing_byte: Some((100_000, libc::EIO)), ..Record::default() })
    else {
        return;
    };
    let stderr = with_server(&mounted.file, &["--cache", "1MiB"], |socket| {
        let mut client = Client::open(socket, "x").expect("it listens");
        assert_eq!(client.write(0, 98_304, &[1; BLOCK]).expect("an answer"), 0, "it is in memory");
        assert_eq!(client.flush().expect("an answer"), EIO);
        let mut other = Client::open(socket, "x").expect("it still listens");
        for client in [&mut client, &mut other] {
            assert_eq!(client.flush().expect("an answer"), EIO, "nothing heals it");
            assert_eq!(
                client.write(FUA, 4096, &[2; BLOCK]).expect("an answer"),
                EIO,
                "nor for a write with FUA"
            );
            assert_eq!(client.write(0, 8192, &[3; BLOCK]).expect("an answer"), 0, "others go on");
            assert_eq!(client.read(98_304, BLOCK as u32).expect("an answer"), Ok(vec![1; BLOCK]));
        }
    });
    assert!(stderr.contains("writing back 4096 bytes of the page cache failed: "), "{stderr}");
    assert!(stderr.contains("what was written and not flushed may be lost"), "{stderr}");
}

/// What is only in memory is written when the server is told to end, and what it said of a range
/// before that was right.
#[test]
fn a_server_that_ends_writes_back_its_page_cache() {
    let bench = Bench::new();
    bench.file("cached.img", vec![0; 1 << 20]);
    let options = ["--cache", "1MiB", "--set", "dirty_writeback_centisecs=0"];
    with_server(&bench.path("cached.img"), &options, |socket| {
        let mut client = Client::open(socket, "x").expect("it listens");
        assert_eq!(client.write(0, 512, &[5; 10 << 10]).expect("an answer"), 0);
        assert_eq!(
            client.read(0, 12 << 10).expect("an answer").expect("no error")[512..][..10 << 10],
            [5; 10 << 10]
        );
        let bytes = fs::read(bench.path("cached.img")).expect("the file");
        assert!(bytes.iter().all(|byte| *byte == 0), "it is in memory only");
    });
    let bytes = fs::read(bench.path("cached.img")).expect("the file");
    assert!(
        bytes[512..][..10 << 10] == [5; 10 << 10]
            && bytes[11 << 10..].iter().all(|byte| *byte == 0)
    );
}

#[test]
fn a_full_disk_and_a_bad_sector_are_told_by_errno() {
    for (errno, told) in [(libc::ENOSPC, ENOSPC), (libc::EDQUOT, ENOSPC), (libc::EIO, EIO)] {
        let Some(mounted) =
            mount(Record { failing_byte: Some((100_000, errno)), ..Record::default() })
        else {
            return;
        };
        let stderr = with_server(&mounted.file, &["--direct"], |socket| {
            let mut client = Client::open(socket, "x").expect("it listens");
            assert_eq!(
                client.write(FUA, 98_304, &[1; BLOCK]).expect("an answer"),
                told,
                "errno {errno}"
            );
            assert_eq!(
                client.write(FUA, 4096, &[1; BLOCK]).expect("an answer"),
                0,
                "elsewhere it goes on"
            );
            // Without room nothing was written; after another error the loss is unknown.
            let flushed = if told == ENOSPC { 0 } else { EIO };
            assert_eq!(client.flush().expect("an answer"), flushed, "errno {errno}");
        });
        assert!(stderr.contains("WRITE of 4096 bytes at byte 98304 failed: "), "{stderr}");
    }
}

#[test]
fn a_file_that_becomes_shorter_fails_reads_and_the_server_lives() {
    let bench = Bench::new();
    bench.file("short.img", vec![7; 1 << 20]);
    let stderr = with_server(&bench.path("short.img"), &[], |socket| {
        let mut client = Client::open(socket, "x").expect("it listens");
        assert_eq!(client.read(512 << 10, 4096).expect("an answer"), Ok(vec![7; 4096]));
        let file = OpenOptions::new().write(true).open(bench.path("short.img")).expect("the file");
        file.set_len(256 << 10).expect("shorter");
        assert_eq!(client.read(512 << 10, 4096).expect("an answer"), Err(EIO));
        assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![7; 4096]));
        // Without a name it is still served.
        fs::remove_file(bench.path("short.img")).expect("removed");
        assert_eq!(client.write(FUA, 0, &[8; 512]).expect("an answer"), 0);
        assert_eq!(client.read(0, 512).expect("an answer"), Ok(vec![8; 512]));
    });
    assert!(stderr.contains("READ of 4096 bytes at byte 524288 failed: "), "{stderr}");
}

/// A client that goes away in the middle of a request, or with many unanswered.
#[test]
fn a_client_that_dies_in_a_request_leaves_the_others_alone() {
    let served = Served::start(&["--scheduler", "bfq"]);
    let socket = served.bench.path("s");
    for round in 0..8_u64 {
        let mut client = Client::open(&socket, "disk.img").expect("it listens");
        for number in 0..100 {
            client.send(0, READ, number << 12, 64 << 10, &[]).expect("sent");
        }
        // The head of a write whose payload never comes.
        client.send(0, WRITE, round << 12, 1 << 20, &[1; 1000]).expect("sent");
        drop(client);
        let mut other = Client::open(&socket, "disk.img").expect("it still listens");
        assert_eq!(other.write(FUA, 4 << 20, &[round as u8; 512]).expect("an answer"), 0);
        assert_eq!(other.read(4 << 20, 512).expect("an answer"), Ok(vec![round as u8; 512]));
    }
    served.end();
}
