//! What operators do and what fails, again and again under a writer that checks every block: kill,
//! drain, reload, growth, and the loss of the server of a disk. Each is done [`REPETITIONS`] times,
//! or as often as the environment variable says:
//! `ELEVON_SOAK=1000 cargo test -p elevon --test serve soak -- --nocapture`.

use std::env;
use std::fs::OpenOptions;
use std::io::Result;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use crate::common::Bench;
use crate::common::nbd::{Client, FUA};
use crate::common::served::{DISK, Served};

const REPETITIONS: u32 = 3;
const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

fn repetitions() -> u32 {
    env::var("ELEVON_SOAK")
        .map_or(REPETITIONS, |text| text.parse().expect("ELEVON_SOAK is a number"))
}

/// Numbers of the writes of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Stamps {
    durable: u32,
    answered: u32,
    sent: u32,
}

/// What was written, and what was promised.
#[derive(Debug)]
struct Book {
    blocks: Vec<Stamps>,
    next: u32,
}

impl Book {
    fn new() -> Self {
        Self { blocks: vec![Stamps::default(); BLOCKS], next: 1 }
    }

    /// Writes the next block with its number. Every fifth is forced, and every 17th is followed by
    /// a flush.
    fn write(&mut self, client: &mut Client) -> Result<()> {
        let (number, at) = (self.next, self.next as usize * 7 % BLOCKS);
        self.next += 1;
        self.blocks[at].sent = number;
        let is_forced = number.is_multiple_of(5);
        let data = number.to_be_bytes().repeat(BLOCK / 4);
        assert_eq!(
            client.write(if is_forced { FUA } else { 0 }, (at * BLOCK) as u64, &data)?,
            0,
            "a write"
        );
        self.blocks[at].answered = number;
        if is_forced {
            self.blocks[at].durable = number;
        }
        if number.is_multiple_of(17) {
            assert_eq!(client.flush()?, 0, "a flush");
            self.blocks.iter_mut().for_each(|block| block.durable = block.answered);
        }
        Ok(())
    }

    /// Reads all blocks. Each is one that was written, and none older than was promised. What was
    /// read is what has to be there from now on.
    fn check(&mut self, socket: &Path, export: &str, promised: fn(&Stamps) -> u32) {
        let mut client = Client::open(socket, export).expect("it listens");
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let data = client
                .read((at * BLOCK) as u64, BLOCK as u32)
                .expect("an answer")
                .expect("no error");
            let number = u32::from_be_bytes(data[..4].try_into().expect("4 bytes"));
            assert!(data.chunks(4).all(|part| part == &data[..4]), "block {at} is of one write");
            let least = promised(block);
            assert!(
                (least..=block.sent).contains(&number),
                "block {at} has {number}, of {least} to {}",
                block.sent
            );
            (block.answered, block.durable) = (number, block.durable.min(number));
        }
    }
}

/// A thread that writes until it is told to stop. If its connection ends, it waits for a word and
/// connects again.
struct Writer {
    thread: thread::JoinHandle<Book>,
    stop: Arc<AtomicBool>,
    go_on: Sender<()>,
    /// Each write says so, up to a few at a time.
    wrote: Receiver<()>,
}

impl Writer {
    fn start(mut book: Book, socket: PathBuf, export: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (go_on, told) = channel();
        let (write, wrote) = sync_channel(1);
        let is_told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            loop {
                if let Ok(mut client) = Client::open(&socket, export) {
                    while !is_told.load(Ordering::Relaxed) && book.write(&mut client).is_ok() {
                        // They are not counted.
                        let _ = write.try_send(());
                    }
                }
                if is_told.load(Ordering::Relaxed) || told.recv().is_err() {
                    return book;
                }
            }
        });
        Self { thread, stop, go_on, wrote }
    }

    /// Waits until a few writes were answered from now on.
    fn let_it_write(&self) {
        while self.wrote.try_recv().is_ok() {}
        for _ in 0..20 {
            self.wrote.recv().expect("it writes");
        }
    }

    /// The server can be reached again.
    fn go_on(&self) {
        self.go_on.send(()).expect("it waits, or will");
    }

    fn end(self) -> Book {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.go_on);
        self.thread.join().expect("the writer saw no wrong answer")
    }
}

/// A disk and its configuration, with these keys of the device, in a folder.
fn folder(keys: &str) -> Bench {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    configure(&bench, keys, 100);
    bench
}

fn configure(bench: &Bench, keys: &str, weight: u32) {
    let text = format!(
        "listen = 'unix:s'\ncontrol = 'ctl'\n[device.d]\ndevice = './disk.img'\n{keys}\n[export.a]\n\
         [tenant.a]\nweight = {weight}\n"
    );
    bench.file("c.toml", text);
}

/// Without a page cache, with one that writes back, and with one that writes through.
const KEYS: [&str; 3] = ["", "cache = '1MiB'", "cache = '1MiB,write-through'"];

/// Kills a server, and starts it again in its folder.
fn restart(served: &mut Served) {
    served.child.kill().expect("it runs");
    served.child.wait().expect("it ended");
    *served = Served::run(mem::replace(&mut served.bench, Bench::new()), &["c.toml"]);
}

/// Does something under a writer, so many times, and checks every block after each.
fn under_a_writer(
    mut served: Served,
    times: u32,
    promised: fn(&Stamps) -> u32,
    mut act: impl FnMut(&mut Served, &Writer, u32),
) {
    let (socket, mut book) = (served.bench.path("s"), Book::new());
    for repetition in 0..times {
        let writer = Writer::start(book, socket.clone(), "a");
        writer.let_it_write();
        act(&mut served, &writer, repetition);
        book = writer.end();
        book.check(&socket, "a", promised);
    }
    served.end();
}

/// The same with each of [`KEYS`].
fn with_all_keys(promised: fn(&Stamps) -> u32, act: impl Fn(&mut Served, &Writer, &str, u32)) {
    for keys in KEYS {
        let served = Served::run(folder(keys), &["c.toml"]);
        under_a_writer(
            served,
            repetitions().div_ceil(KEYS.len() as u32),
            promised,
            |served, writer, repetition| {
                act(served, writer, keys, repetition);
            },
        );
    }
}

#[test]
fn no_kill_loses_what_was_durable() {
    with_all_keys(|block| block.durable, |served, _, _, _| restart(served));
}

#[test]
fn no_drain_loses_what_was_answered() {
    with_all_keys(
        |block| block.answered,
        |served, writer, _, _| {
            served.bench.stdout(&["ctl", "ctl", "drain", "a"]);
            served.bench.stdout(&["ctl", "ctl", "resume", "a"]);
            writer.go_on();
            writer.let_it_write();
        },
    );
}

#[test]
fn no_reload_loses_what_was_answered() {
    with_all_keys(
        |block| block.answered,
        |served, writer, keys, repetition| {
            configure(&served.bench, keys, 101 + repetition % 2);
            served.bench.stdout(&["ctl", "ctl", "reload"]);
            writer.let_it_write();
        },
    );
}

#[test]
fn no_growth_loses_what_was_answered() {
    let served = Served::run(folder(""), &["c.toml"]);
    under_a_writer(
        served,
        repetitions(),
        |block| block.answered,
        |served, writer, repetition| {
            let file = OpenOptions::new()
                .write(true)
                .open(served.bench.path("disk.img"))
                .expect("the disk");
            let last = DISK as u64 + u64::from(repetition) * BLOCK as u64;
            file.set_len(last + BLOCK as u64).expect("it grows");
            served.bench.stdout(&["ctl", "ctl", "reload"]);
            writer.let_it_write();
            let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
            assert_eq!(
                client.write(FUA, last, &[7; BLOCK]).expect("an answer"),
                0,
                "the new block is there"
            );
            assert_eq!(
                client.read(last, BLOCK as u32).expect("an answer").expect("no error"),
                [7; BLOCK]
            );
        },
    );
}

/// The server of the disk is killed and started again; its client holds the I/O meanwhile. The file
/// of that server outlives its process, so that nothing may be missing.
#[test]
fn no_loss_of_an_upstream_loses_what_was_answered() {
    let mut upstream = Served::run(folder(""), &["c.toml"]);
    let uri = format!("nbd+unix:///a?socket={}", upstream.bench.path("s").display());
    let served = Served::run(Bench::new(), &[&uri, "--listen", "unix:s", "--control", "ctl"]);
    under_a_writer(
        served,
        repetitions(),
        |block| block.answered,
        |_, writer, _| {
            restart(&mut upstream);
            writer.let_it_write();
        },
    );
}
