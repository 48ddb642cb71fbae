//! A virtio-blk driver over vhost-user in user space: it has memory and rings of its own, and says
//! of them what a front end says. A test may also break every rule of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use elevon_vhost::socket::{receive, send};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::MemfdFlags;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const NAME: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const WRITE_ZEROES: u32 = 13;

const VERSION_1: u64 = 1 << 32;
const INDIRECT_FEATURE: u64 = 1 << 28;
const EVENT_INDEX_FEATURE: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
/// Protocol features: several queues, acknowledgements, a channel, the configuration, requests in
/// flight and slots.
const PROTOCOLS: u64 = 1 | 1 << 3 | 1 << 5 | 1 << 9 | INFLIGHT | 1 << 15;
/// Protocol feature: memory of requests in flight.
pub(crate) const INFLIGHT: u64 = 1 << 12;

const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;
const INDIRECT: u16 = 4;

/// Bytes of the guest's memory. Rings are in the first part, heads and tables in the second, and
/// data behind them.
const MEMORY: u64 = 64 << 20;
/// Where the front end has the memory.
const USER: u64 = 0x5000_0000_0000;
const RING_BYTES: u64 = 64 << 10;
const HEADS: u64 = 1 << 20;
/// Bytes for the head, the status and the table of a request.
const HEAD_BYTES: u64 = 4096;
/// Where data may be.
pub(crate) const DATA: u64 = 16 << 20;

/// How long an answer may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a driver does and does not use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) queues: u16,
    pub(crate) size: u16,
    pub(crate) indirect: bool,
    pub(crate) event_index: bool,
    /// Features of virtio-blk that are not taken.
    pub(crate) without: u64,
    /// Protocol features that the server has to have.
    pub(crate) protocols: u64,
}

impl Default for Options {
    fn default() -> Self {
        let (queues, size, protocols) = (1, 128, PROTOCOLS);
        Self { queues, size, indirect: true, event_index: true, without: 0, protocols }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) kind: u32,
    pub(crate) ioprio: u32,
    pub(crate) sector: u64,
    /// Where its data is in the guest's memory.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) head: u16,
    pub(crate) written: u32,
    pub(crate) status: u8,
}

/// A queue.
pub(crate) struct Queue {
    index: u16,
    size: u16,
    kick: OwnedFd,
    call: OwnedFd,
    available: u16,
    kicked: u16,
    used: u16,
    free: Vec<u16>,
    /// The heads whose chains took several descriptors, and these.
    chains: Vec<Vec<u16>>,
}

/// A guest with its driver.
pub(crate) struct Guest {
    pub(crate) socket: UnixStream,
    pub(crate) channel: UnixStream,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) file: File,
    pub(crate) options: Options,
    pub(crate) features: u64,
    pub(crate) queues: Vec<Queue>,
    inflight: Option<(OwnedFd, Vec<u8>)>,
}

impl Guest {
    /// Connects to a server, and starts the queues.
    pub(crate) fn connect(path: &Path, options: Options) -> Self {
        let file =
            File::from(rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(MEMORY).expect("its length");
        let offset = FileOffset::new(file.try_clone().expect("a descriptor"), 0);
        let range = [(GuestAddress(0), MEMORY as usize, Some(offset))];
        let memory = GuestMemoryMmap::from_ranges_with_files(range).expect("a map");
        let queue = |index| Queue {
            index,
            size: options.size,
            kick: eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"),
            call: eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"),
            available: 0,
            kicked: 0,
            used: 0,
            free: (0..options.size).rev().collect(),
            chains: vec![Vec::new(); options.size.into()],
        };
        let (socket, channel) = (connect(path), UnixStream::pair().expect("a pair").0);
        let queues = (0..options.queues).map(queue).collect();
        let mut guest =
            Self { socket, channel, memory, file, options, features: 0, queues, inflight: None };
        guest.start();
        guest
    }

    /// Connects again, after the server was killed: the rings stay as they are.
    pub(crate) fn reconnect(&mut self, path: &Path) {
        self.socket = connect(path);
        self.start();
    }

    /// Says of memory and queues what a front end says.
    fn start(&mut self) {
        let offered = self.ask(1, &[]);
        let mut wanted = VERSION_1 | PROTOCOL_FEATURES | (0xffff & !self.options.without);
        wanted |= if self.options.indirect { INDIRECT_FEATURE } else { 0 };
        wanted |= if self.options.event_index { EVENT_INDEX_FEATURE } else { 0 };
        self.features = u64_of(&offered) & wanted;
        let protocols = u64_of(&self.ask(15, &[])) & self.options.protocols;
        assert_eq!(protocols, self.options.protocols, "the server has all that is wanted");
        self.tell(16, &protocols.to_ne_bytes(), &[]);
        self.tell(3, &[], &[]);
        assert!(u64_of(&self.ask(17, &[])) >= u64::from(self.options.queues));
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        self.channel = ours;
        self.channel.set_read_timeout(Some(PATIENCE)).expect("a socket");
        self.tell(21, &[], &[theirs.as_fd()]);
        self.tell(2, &self.features.to_ne_bytes(), &[]);
        if protocols & INFLIGHT != 0 {
            self.share_inflight();
        }
        let words: [u64; 5] = [1, 0, MEMORY, USER, 0];
        let file = self.file.try_clone().expect("a descriptor");
        self.tell(5, &bytes_of(&words), &[file.as_fd()]);
        for index in 0..self.queues.len() {
            self.start_queue(index);
        }
    }

    /// Gives the server the memory of its requests in flight, which it made the first time.
    fn share_inflight(&mut self) {
        if self.inflight.is_none() {
            let mut question = vec![0; 16];
            question.extend_from_slice(&self.options.queues.to_ne_bytes());
            question.extend_from_slice(&self.options.size.to_ne_bytes());
            self.write(31, &question, &[], false);
            let answer = receive(&self.socket).expect("an answer");
            let fd = answer.fds.into_iter().next().expect("memory of requests in flight");
            self.inflight = Some((fd, answer.payload));
        }
        let (fd, place) = self.inflight.as_ref().expect("made above");
        let (fd, place) = (fd.try_clone().expect("a descriptor"), place.clone());
        self.tell(32, &place, &[fd.as_fd()]);
    }

    pub(crate) fn start_queue(&self, index: usize) {
        let queue = &self.queues[index];
        let number = u32::from(queue.index);
        self.tell(8, &words_of(&[number, queue.size.into()]), &[]);
        self.tell(10, &words_of(&[number, queue.used.into()]), &[]);
        let [descriptors, available, used] = queue.places().map(|place| USER + place);
        let mut place = words_of(&[number, 0]);
        place.extend(bytes_of(&[descriptors, used, available, 0]));
        self.tell(9, &place, &[]);
        let number = u64::from(queue.index).to_ne_bytes();
        self.tell(12, &number, &[queue.kick.as_fd()]);
        self.tell(13, &number, &[queue.call.as_fd()]);
        self.tell(18, &words_of(&[queue.index.into(), 1]), &[]);
    }

    /// Adds the memory again that the server has.
    pub(crate) fn add_memory_again(&self) {
        let words: [u64; 5] = [0, 0, MEMORY, USER, 0];
        let file = self.file.try_clone().expect("a descriptor");
        self.tell(37, &bytes_of(&words), &[file.as_fd()]);
    }

    /// Stops a queue. Returns its next available descriptor.
    pub(crate) fn stop_queue(&self, index: u16) -> u32 {
        let answer = self.ask(11, &words_of(&[index.into(), 0]));
        u32::from_ne_bytes(answer[4..8].try_into().expect("a word"))
    }

    /// Returns the configuration space.
    pub(crate) fn config(&self) -> Vec<u8> {
        let mut question = words_of(&[0, 60, 0]);
        question.resize(12 + 60, 0);
        self.ask(24, &question)[12..].to_vec()
    }

    /// Turns the write cache on or off.
    pub(crate) fn set_write_cache(&self, is_on: bool) {
        let mut message = words_of(&[32, 1, 0]);
        message.push(is_on.into());
        self.tell(25, &message, &[]);
    }

    /// Sends a message and returns the payload of its answer.
    pub(crate) fn ask(&self, request: u32, payload: &[u8]) -> Vec<u8> {
        self.write(request, payload, &[], false);
        receive(&self.socket).expect("an answer").payload
    }

    /// Sends a message, and waits until it is acknowledged.
    pub(crate) fn tell(&self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) {
        send_message(&self.socket, request, payload, fds, true).expect("sent");
        let answer = receive(&self.socket).expect("an acknowledgement");
        assert_eq!(u64_of(&answer.payload), 0, "message {request} is followed");
    }

    fn write(&self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>], ack: bool) {
        send_message(&self.socket, request, payload, fds, ack).expect("sent");
    }

    /// Makes a request available. Returns the number of its first descriptor; `None` if the queue
    /// has none left.
    pub(crate) fn submit(&mut self, queue: usize, request: &Request) -> Option<u16> {
        let parts: Vec<(u64, u32)> =
            if request.bytes == 0 { Vec::new() } else { vec![(request.at, request.bytes)] };
        self.submit_parts(queue, request, &parts)
    }

    /// The same, with the data in several places.
    pub(crate) fn submit_parts(
        &mut self,
        queue: usize,
        request: &Request,
        parts: &[(u64, u32)],
    ) -> Option<u16> {
        let is_indirect = self.options.indirect;
        let queue = &mut self.queues[queue];
        let needed = if is_indirect { 1 } else { parts.len() + 2 };
        if queue.free.len() < needed {
            return None;
        }
        let own: Vec<u16> = queue.free.split_off(queue.free.len() - needed);
        let head = own[0];
        let place = HEADS + (u64::from(queue.index) * 128 + u64::from(head)) * HEAD_BYTES;
        let mut bytes = words_of(&[request.kind, request.ioprio]);
        bytes.extend_from_slice(&request.sector.to_le_bytes());
        self.memory.write_slice(&bytes, GuestAddress(place)).expect("memory");
        self.memory.write_slice(&[0xff], GuestAddress(place + 16)).expect("memory");
        let of_device = if matches!(request.kind, READ | NAME) { DEVICE_WRITES } else { 0 };
        let mut chain = vec![(place, 16, 0)];
        chain.extend(parts.iter().map(|&(at, bytes)| (at, bytes, of_device)));
        chain.push((place + 16, 1, DEVICE_WRITES));
        let table = if is_indirect { place + 32 } else { queue.places()[0] };
        for (index, &(at, bytes, flags)) in chain.iter().enumerate() {
            let number = |index: usize| if is_indirect { index as u16 } else { own[index] };
            let next = if index + 1 < chain.len() { number(index + 1) } else { 0 };
            let flags = flags | if index + 1 < chain.len() { NEXT } else { 0 };
            write_descriptor(&self.memory, table, number(index), (at, bytes, flags, next));
        }
        if is_indirect {
            let all = 16 * chain.len() as u32;
            let descriptors = queue.places()[0];
            write_descriptor(&self.memory, descriptors, head, (table, all, INDIRECT, 0));
        }
        queue.chains[usize::from(head)] = own;
        queue.make_available(&self.memory, head);
        Some(head)
    }

    /// Tells the server that requests are available, if it wants to know.
    pub(crate) fn kick(&mut self, queue: usize) {
        let (memory, event_index) = (&self.memory, self.options.event_index);
        let queue = &mut self.queues[queue];
        fence(Ordering::SeqCst);
        let [_, _, used] = queue.places();
        let before = std::mem::replace(&mut queue.kicked, queue.available);
        let is_wanted = if event_index {
            let event: u16 = load(memory, used + 4 + 8 * u64::from(queue.size));
            let since = queue.available.wrapping_sub(event).wrapping_sub(1);
            since < queue.available.wrapping_sub(before)
        } else {
            load(memory, used) & 1 == 0
        };
        if is_wanted {
            rustix::io::write(&queue.kick, &1_u64.to_ne_bytes()).expect("kicked");
        }
    }

    /// Kicks whether the server wants it or not.
    pub(crate) fn kick_anyway(&self, queue: usize) {
        rustix::io::write(&self.queues[queue].kick, &1_u64.to_ne_bytes()).expect("kicked");
    }

    /// Returns the next request that has ended; `None` if none has.
    pub(crate) fn poll(&mut self, queue: usize) -> Option<Ended> {
        let memory = &self.memory;
        let queue = &mut self.queues[queue];
        let [_, _, used] = queue.places();
        if load(memory, used + 2) == queue.used {
            return None;
        }
        fence(Ordering::Acquire);
        let mut element = [0; 8];
        let at = used + 4 + 8 * u64::from(queue.used % queue.size);
        memory.read_slice(&mut element, GuestAddress(at)).expect("memory");
        queue.used = queue.used.wrapping_add(1);
        let head = u16::from_le_bytes([element[0], element[1]]);
        let written = u32::from_le_bytes(element[4..].try_into().expect("a word"));
        let place = HEADS + (u64::from(queue.index) * 128 + u64::from(head)) * HEAD_BYTES;
        let mut status = [0];
        memory.read_slice(&mut status, GuestAddress(place + 16)).expect("memory");
        let own = std::mem::take(&mut queue.chains[usize::from(head)]);
        assert!(!own.is_empty(), "request {head} has ended once");
        queue.free.extend(own);
        Some(Ended { head, written, status: status[0] })
    }

    /// Waits for the next request that ends.
    pub(crate) fn wait(&mut self, queue: usize) -> Ended {
        self.try_wait(queue, PATIENCE).expect("a request ends")
    }

    /// The same, for so long.
    pub(crate) fn try_wait(&mut self, queue: usize, patience: Duration) -> Option<Ended> {
        loop {
            if let Some(ended) = self.poll(queue) {
                return Some(ended);
            }
            // Asks to be told of the next one, and looks again.
            let queue_of = &self.queues[queue];
            let event = queue_of.places()[1] + 4 + 2 * u64::from(queue_of.size);
            let wanted = queue_of.used.to_le_bytes();
            self.memory.write_slice(&wanted, GuestAddress(event)).expect("memory");
            fence(Ordering::SeqCst);
            if let Some(ended) = self.poll(queue) {
                return Some(ended);
            }
            let call = &self.queues[queue].call;
            let limit = Timespec {
                tv_sec: patience.as_secs() as i64,
                tv_nsec: patience.subsec_nanos().into(),
            };
            let mut polled = [PollFd::new(call, PollFlags::IN)];
            if poll(&mut polled, Some(&limit)).expect("polled") == 0 {
                return None;
            }
            let _ = rustix::io::read(call, &mut [0; 8]);
        }
    }

    /// Carries out a request on a queue. Returns its status.
    pub(crate) fn run(&mut self, queue: usize, request: &Request) -> u8 {
        self.submit(queue, request).expect("a descriptor");
        self.kick(queue);
        self.wait(queue).status
    }

    /// Writes bytes, from a sector on.
    pub(crate) fn write_disk(&mut self, queue: usize, sector: u64, bytes: &[u8]) -> u8 {
        self.memory.write_slice(bytes, GuestAddress(DATA)).expect("memory");
        let bytes = bytes.len() as u32;
        self.run(queue, &Request { kind: WRITE, ioprio: 0, sector, at: DATA, bytes })
    }

    /// Reads bytes, from a sector on.
    pub(crate) fn read_disk(&mut self, queue: usize, sector: u64, bytes: u32) -> Vec<u8> {
        let request = Request { kind: READ, ioprio: 0, sector, at: DATA, bytes };
        assert_eq!(self.run(queue, &request), 0);
        let mut into = vec![0; bytes as usize];
        self.memory.read_slice(&mut into, GuestAddress(DATA)).expect("memory");
        into
    }

    /// Flushes.
    pub(crate) fn flush(&mut self, queue: usize) -> u8 {
        self.run(queue, &Request { kind: FLUSH, ioprio: 0, sector: 0, at: 0, bytes: 0 })
    }

    /// Discards a range, or writes zeroes to it.
    pub(crate) fn change_range(
        &mut self,
        queue: usize,
        kind: u32,
        (sector, sectors, flags): (u64, u32, u32),
    ) -> u8 {
        let mut range = sector.to_le_bytes().to_vec();
        range.extend(words_of(&[sectors, flags]));
        self.memory.write_slice(&range, GuestAddress(DATA)).expect("memory");
        self.run(queue, &Request { kind, ioprio: 0, sector: 0, at: DATA, bytes: 16 })
    }
}

impl Queue {
    /// Returns where its descriptors, its available ring and its used ring are.
    pub(crate) fn places(&self) -> [u64; 3] {
        let start = u64::from(self.index) * RING_BYTES;
        [start, start + (32 << 10), start + (48 << 10)]
    }

    /// Puts a descriptor into the available ring.
    pub(crate) fn make_available(&mut self, memory: &GuestMemoryMmap, head: u16) {
        let at = self.places()[1];
        let place = at + 4 + 2 * u64::from(self.available % self.size);
        memory.write_slice(&head.to_le_bytes(), GuestAddress(place)).expect("memory");
        self.available = self.available.wrapping_add(1);
        memory.store(self.available, GuestAddress(at + 2), Ordering::Release).expect("memory");
    }
}

/// Writes a descriptor: address, length, flags, next.
pub(crate) fn write_descriptor(
    memory: &GuestMemoryMmap,
    table: u64,
    index: u16,
    (at, bytes, flags, next): (u64, u32, u16, u16),
) {
    let mut descriptor = at.to_le_bytes().to_vec();
    descriptor.extend_from_slice(&bytes.to_le_bytes());
    descriptor.extend_from_slice(&flags.to_le_bytes());
    descriptor.extend_from_slice(&next.to_le_bytes());
    let place = table + 16 * u64::from(index);
    memory.write_slice(&descriptor, GuestAddress(place)).expect("memory");
}

fn connect(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket
}

/// Sends a message of a front end.
pub(crate) fn send_message(
    socket: &UnixStream,
    request: u32,
    payload: &[u8],
    fds: &[BorrowedFd<'_>],
    needs_reply: bool,
) -> io::Result<()> {
    let flags = if needs_reply { 1 | 1 << 3 } else { 1 };
    let mut bytes = words_of(&[request, flags, payload.len() as u32]);
    bytes.extend_from_slice(payload);
    send(socket, &bytes, fds)
}

fn load(memory: &GuestMemoryMmap, at: u64) -> u16 {
    memory.load(GuestAddress(at), Ordering::Acquire).expect("memory")
}

pub(crate) fn words_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"))
}
