//! Checks with a global allocator that memory does not grow with the trace: over traces of one
//! length and of ten times that length.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// An allocator that counts the bytes in use.
struct Counting;

static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

fn grow(bytes: usize) {
    let now = IN_USE.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A trace that is generated while it is read.
struct Endless {
    left: u64,
    made: u64,
    record: fn(u64, &mut Vec<u8>),
    buffer: Vec<u8>,
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            let count = self.left.min(500);
            for _ in 0..count {
                (self.record)(self.made, &mut self.buffer);
                self.made += 1;
            }
            self.left -= count;
        }
        let count = into.len().min(self.buffer.len() - self.at);
        into[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn ftrace(n: u64, out: &mut Vec<u8>) {
    let line = format!(
        "fio-{} [001] ..... {}.{:06}: block_rq_issue: 8,0 R 4096 () {n} + 8 [fio]\n",
        n % 100,
        n / 1000,
        n % 1000
    );
    // Some lines are damaged, some are late, and some report lost events.
    match n % 97 {
        3 => out.extend_from_slice(&line.as_bytes()[..60]),
        4 => out.extend_from_slice(b"CPU:1 [LOST 4 EVENTS]\n"),
        5 => out.extend_from_slice(b"fio-1 [001] ..... 0.000001: block_plug: [fio]\n"),
        _ => out.extend_from_slice(line.as_bytes()),
    }
}

fn blktrace(n: u64, out: &mut Vec<u8>) {
    let mut record = [0; 48];
    let put = |record: &mut [u8; 48], at: usize, bytes: &[u8]| {
        record[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(&mut record, 0, &0x6561_7407u32.to_le_bytes());
    put(&mut record, 4, &((n + 1 + n / 1000) as u32).to_le_bytes());
    put(&mut record, 8, &(n * 1000).to_le_bytes());
    put(&mut record, 16, &n.to_le_bytes());
    put(&mut record, 24, &4096u32.to_le_bytes());
    put(&mut record, 28, &0x0011_0001u32.to_le_bytes());
    put(&mut record, 32, &((n % 100) as u32).to_le_bytes());
    out.extend_from_slice(&record[..if n % 997 == 3 { 20 } else { 48 }]);
}

fn csv(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{},R,{},4096,{}\n", n % 50, n * 4096, n).as_bytes());
}

/// Appends one packet with one bundle of one plug.
fn perfetto(n: u64, out: &mut Vec<u8>) {
    let time = (n + (1 << 21)).min((1 << 28) - 1);
    let varint: Vec<u8> = (0..4)
        .map(|part| (time >> (7 * part)) as u8 & 0x7f | if part < 3 { 0x80 } else { 0 })
        .collect();
    let mut event = vec![0x08];
    event.extend(varint);
    event.extend([0x10, 0x07, 0xda, 0x07, 0x03, 0x0a, 0x01, b'a']);
    let mut bundle = vec![0x08, 0x00, 0x12, event.len() as u8];
    bundle.extend(event);
    let mut packet = vec![0x0a, bundle.len() as u8];
    packet.extend(bundle);
    out.extend([0x0a, packet.len() as u8]);
    out.extend(packet);
}

/// Returns the number of events, and the maximum of memory in use minus that at the start.
fn most(record: fn(u64, &mut Vec<u8>), records: u64) -> (u64, u64) {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let source = Endless { left: records, made: 0, record, buffer: Vec::new(), at: 0 };
    let mut reader = elevon_trace::from_read("endless", Box::new(source)).expect("a known format");
    let mut events = 0;
    while let Some(batch) = reader.next_batch().expect("no error") {
        events += batch.len() as u64;
    }
    drop(reader);
    (events, PEAK_BYTES.load(Ordering::Relaxed) - before)
}

#[test]
fn memory_is_flat_over_a_ten_times_longer_trace() {
    type Make = fn(u64, &mut Vec<u8>);
    for (name, record, records) in [
        ("ftrace", ftrace as Make, 30_000),
        ("blktrace", blktrace as Make, 30_000),
        ("csv", csv as Make, 60_000),
        // The window of this format is larger than the others'.
        ("perfetto", perfetto as Make, 270_000),
    ] {
        let ((few, small), (many, large)) = (most(record, records), most(record, records * 10));
        assert!(few * 10 >= records * 9 && many >= records * 9, "{name}: {few} and {many} events");
        assert!(
            large <= small + small / 20 + 100_000,
            "{name}: {small} bytes for {few} events, {large} for {many}"
        );
        assert!(large < 100 << 20, "{name}: {large} bytes");
    }
}
