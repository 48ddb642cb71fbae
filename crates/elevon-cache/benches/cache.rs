//! Cost of the page cache's policy: hits a second, insertions with evictions a second, and bytes of
//! state per page.
//!
//! A hit finds a random or the next page of a file that is completely in memory, and records its
//! use. The churn reads a file of twice the memory in order, repeatedly: each page is a miss, an
//! insertion, a use, and later an eviction with its shadow, in rounds of reclaim of 32 pages. Bytes
//! are counted after the churn, with all shadows; the last line extrapolates them to 100 GB in
//! runs.
//!
//! The goals are 10 million hits a second, and 24 bytes of state per page. Times are CPU times if
//! the system provides them. Under `cargo test` it only checks that it runs. Arguments: policies,
//! and frames of memory.

#[path = "../../elevon-core/benches/processor/mod.rs"]
mod processor;

use std::time::Duration;

use elevon_cache::{Context, FileId};
use elevon_cache::{POLICIES, Reclaimer, ReplacementConfig, Resident};
use elevon_core::units::PageIndex;
use elevon_core::units::{Instant, Nanos, PAGE_SIZE};
use processor::measure;

const FILE: FileId = FileId(0);
const GOAL_HITS: f64 = 10e6;
const GOAL_BYTES: f64 = 24.0;
const HUNDRED_GB: u64 = 100_000_000_000;

struct Load {
    memory: Resident,
    frames: u64,
    next: u64,
    random: u64,
    now: Instant,
    out: Vec<elevon_cache::Evicted>,
}

impl Load {
    fn new(policy: &str, frames: u64) -> Self {
        let config = ReplacementConfig::parse(policy).expect("a policy");
        let mut memory = Resident::new(frames, &config);
        for index in 0..frames {
            memory.insert(FILE, PageIndex::new(index), Context::Read).expect("a frame");
        }
        Self { memory, frames, next: 0, random: 1, now: Instant::ZERO, out: Vec::with_capacity(64) }
    }

    fn hit(&mut self, index: u64) {
        let place = self.memory.place(FILE, PageIndex::new(index)).expect("all are in memory");
        self.memory.access_at(place, Context::Read);
    }

    fn random_hit(&mut self) {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.hit(((u128::from(self.random) * u128::from(self.frames)) >> 64) as u64);
    }

    fn next_hit(&mut self) {
        self.next = if self.next + 1 < self.frames { self.next + 1 } else { 0 };
        self.hit(self.next);
    }

    fn churn(&mut self) {
        self.next = (self.next + 1) % (2 * self.frames);
        self.now = self.now + Nanos::from_micros(10);
        let frame = match self.memory.find(FILE, PageIndex::new(self.next)) {
            Some(frame) => frame,
            None => {
                while self.memory.free() == 0 {
                    self.out.clear();
                    // A round may free nothing if all pages are used; the following rounds scan
                    // more.
                    self.memory.reclaim(self.now, 32, Reclaimer::Kswapd, &mut self.out);
                    if self.memory.free() == 0 {
                        self.memory.reclaim(self.now, 32, Reclaimer::Direct, &mut self.out);
                    }
                }
                self.memory.insert(FILE, PageIndex::new(self.next), Context::Read).expect("a frame")
            }
        };
        self.memory.access(frame, Context::Read);
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (sizes, policies): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .partition(|argument| argument.bytes().all(|byte| byte.is_ascii_digit()));
    let frames = sizes.first().map_or(if full { 1 << 21 } else { 1 << 12 }, |size| {
        size.parse().expect("a number of frames")
    });
    let span = if full { Duration::from_millis(500) } else { Duration::ZERO };
    println!(
        "goals: {:.0} M hits/s on one core, {GOAL_BYTES} bytes a page without shadows; {frames} frames",
        GOAL_HITS / 1e6
    );
    println!(
        "{:<12} {:>14} {:>14} {:>12} {:>12} {:>14}  goal",
        "policy", "random M/s", "in order M/s", "churn ns", "bytes/page", "with shadows"
    );
    let mut bytes_a_page = 0.0f64;
    for policy in POLICIES
        .into_iter()
        .filter(|name| policies.is_empty() || policies.iter().any(|policy| policy == name))
    {
        let mut load = Load::new(policy, frames);
        let bytes = load.memory.state_bytes() as f64 / frames as f64;
        bytes_a_page = bytes_a_page.max(bytes);
        // Each page has had its first uses, so that hits of pages in use are measured.
        (0..3 * frames).for_each(|_| load.next_hit());
        let random = 1e3 / measure(span, || load.random_hit());
        let in_order = 1e3 / measure(span, || load.next_hit());
        (0..4 * frames).for_each(|_| load.churn());
        let churn = measure(span, || load.churn());
        let with_shadows = load.memory.state_bytes() as f64 / frames as f64;
        assert_eq!(load.memory.pages().used() + load.memory.free(), frames);
        if !full {
            println!(
                "{policy:<12} {:>14} {:>14} {:>12} {bytes:>12.1} {with_shadows:>14.1}",
                "-", "-", "-"
            );
            continue;
        }
        let goal = if random.min(in_order) * 1e6 >= GOAL_HITS && bytes <= GOAL_BYTES {
            "met"
        } else {
            "missed"
        };
        println!(
            "{policy:<12} {random:>14.1} {in_order:>14.1} {churn:>12.1} {bytes:>12.1} {with_shadows:>14.1}  {goal}"
        );
    }
    let pages = HUNDRED_GB.div_ceil(PAGE_SIZE);
    println!("100 GB: {pages} pages, {:.0} MB of state", pages as f64 * bytes_a_page / 1e6);
}
