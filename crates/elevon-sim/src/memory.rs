//! Physical memory: the positions of the pages of a user's buffer, which determine the size of a
//! bio (proposal 001).
//!
//! A page fault allocates one page (order 0). If the allocator has single pages left, neighbouring
//! pages of the buffer are not contiguous in memory; if it has to split a larger block, it returns
//! its pages in ascending order, and they form a run. The models range from the result only, such
//! as a list of runs or a distribution of them, to the mechanism, a buddy allocator.
//!
//! Everything is determined by the random seed. Cost: O(pages) for a buffer, once, before the run
//! starts.

mod buddy;
#[cfg(test)]
mod tests;

use std::fmt;

use elevon_core::layout::Layout;
use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, LayoutId, PAGE_SIZE, TaskId};

use crate::chance::{below, draw};
use crate::device::TextError;
use crate::device::text::Fields;
use buddy::Buddy;

/// Maximum order of a run that is drawn, and of a buddy block: 1024 pages, 4 MiB.
pub(crate) const MAX_ORDER: usize = 10;
/// Order of a transparent huge page: 512 pages, 2 MiB.
const HUGE_ORDER: usize = 9;
/// Pages of a transparent huge page, which is one folio.
const HUGE_PAGES: u64 = 1 << HUGE_ORDER;
/// The unit of probabilities: millionths.
const MILLION: u32 = 1_000_000;
/// Purpose of the draws made here.
const PURPOSE: u64 = u64::from_be_bytes(*b"memory..");

/// How the pages of buffers are allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// Every buffer is one run of huge pages.
    Contiguous,
    /// Runs of these lengths in pages (each at least 1), repeated.
    Runs(Vec<u64>),
    /// Every run is a block of order k (2^k pages) with this probability in millionths, by order;
    /// the sum is a million.
    Fragmented([u32; MAX_ORDER + 1]),
    /// A buddy allocator.
    Buddy(BuddyParameters),
}

/// Parameters of the buddy allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuddyParameters {
    /// Memory of the machine; a multiple of the largest block, 4 MiB, up to 64 GiB.
    pub size: Bytes,
    /// Percentage of it (0 to 99) that others hold when the run starts.
    pub used: u8,
    /// Percentage (0 to 100) of the free memory that is scattered as single pages among the memory
    /// that others hold; the rest is free in blocks of the largest order. Scattered pages that are
    /// buddies coalesce.
    pub fragmentation: u8,
    /// Whether faults first try transparent huge pages, for every 2 MiB of a buffer.
    pub thp: bool,
}

impl Default for BuddyParameters {
    fn default() -> Self {
        Self { size: Bytes::new(1 << 30), used: 50, fragmentation: 60, thp: false }
    }
}

impl Default for MemoryModel {
    /// Returns single pages, and a pair in 4.4 % of the cases: mean run 1.044 pages, which gives
    /// the bio sizes of the proposal's trace (mean 2138 sectors, standard deviation 26).
    fn default() -> Self {
        let mut orders = [0; MAX_ORDER + 1];
        (orders[0], orders[1]) = (MILLION - 44_000, 44_000);
        Self::Fragmented(orders)
    }
}

/// Keys of `fragmented`: the probabilities, in millionths, of orders 1 to 10.
const ORDER_KEYS: &[&str] = &["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10"];
/// Keys of `buddy`.
const BUDDY_KEYS: &[&str] = &["size", "used", "fragmentation", "thp"];

impl MemoryModel {
    /// The forms that [`Self::parse`] accepts, each with a one-line description.
    pub(crate) const FORMS: [(&str, &str); 4] = [
        ("contiguous", "every buffer is one run of memory"),
        ("runs:2x11,1x245", "exactly these runs, as pages x times, over and over"),
        (
            "fragmented[:p1=44000,...,p10=0]",
            "a run is 2^k pages with probability pk millionths (default p1=44000), else 1 page",
        ),
        (
            "buddy[:size=1GiB,used=50%,fragmentation=60%,thp=0]",
            "a buddy allocator: memory, percent held by others, percent of the free memory in scattered pages, huge pages",
        ),
    ];

    /// Parses the text form, one of `FORMS`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "contiguous" => Fields::parse("contiguous", parameters, &[]).map(|_| Self::Contiguous),
            "runs" => parse_runs(parameters),
            "fragmented" => parse_orders(parameters),
            "buddy" => parse_buddy(parameters),
            _ => Err(TextError::Whole(format!(
                "expected {}",
                Self::FORMS.map(|(form, _)| form).join(", or ")
            ))),
        }
    }
}

fn parse_runs(text: &str) -> Result<MemoryModel, TextError> {
    let bad = |item: &str| {
        let item = if item.is_empty() { String::new() } else { format!("`{item}`: ") };
        TextError::Whole(format!(
            "{item}expected run lengths in pages from 1 to 1048576, each with how often it comes (1 to 1048576, all \
             together), as in 2x11,1x245"
        ))
    };
    let mut runs = Vec::new();
    for item in text.split(',') {
        let (pages, times) = item.split_once('x').unwrap_or((item, "1"));
        let number =
            |text: &str, most| text.trim().parse::<u64>().ok().filter(|n| (1..=most).contains(n));
        let left = (1 << 20) - runs.len() as u64;
        let (Some(pages), Some(times)) = (number(pages, 1 << 20), number(times, left)) else {
            return Err(bad(item));
        };
        runs.extend(std::iter::repeat_n(pages, times as usize));
    }
    Ok(MemoryModel::Runs(runs))
}

fn parse_orders(text: &str) -> Result<MemoryModel, TextError> {
    if text.is_empty() {
        return Ok(MemoryModel::default());
    }
    let fields = Fields::parse("fragmented", text, ORDER_KEYS)?;
    let mut orders = [0; MAX_ORDER + 1];
    let mut left = MILLION;
    for (order, key) in orders[1..].iter_mut().zip(ORDER_KEYS) {
        *order = fields.count(key, 0, 0..=left.into())? as u32;
        left -= *order;
    }
    orders[0] = left;
    Ok(MemoryModel::Fragmented(orders))
}

fn parse_buddy(text: &str) -> Result<MemoryModel, TextError> {
    let fields = Fields::parse("buddy", text, BUDDY_KEYS)?;
    let default = BuddyParameters::default();
    let percent = |key: &str, default: u8, most: u8| match fields.raw(key) {
        None => Ok(default),
        Some(value) => value
            .strip_suffix('%')
            .and_then(|number| number.parse().ok())
            .filter(|&number: &u8| number <= most)
            .ok_or_else(|| fields.bad(key, format!("0% to {most}%"))),
    };
    let size = fields.size("size", default.size)?;
    if !size.get().is_multiple_of(PAGE_SIZE << MAX_ORDER) || size.get() > 64 << 30 {
        return Err(fields.bad("size", "a multiple of 4MiB up to 64GiB, as in 1GiB"));
    }
    Ok(MemoryModel::Buddy(BuddyParameters {
        size,
        used: percent("used", default.used, 99)?,
        fragmentation: percent("fragmentation", default.fragmentation, 100)?,
        thp: fields.flag("thp", default.thp)?,
    }))
}

impl fmt::Display for MemoryModel {
    /// Writes the text form that parses to this model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contiguous => f.write_str("contiguous"),
            Self::Runs(runs) => {
                let mut separator = "runs:";
                for same in runs.chunk_by(|a, b| a == b) {
                    write!(f, "{separator}{}x{}", same[0], same.len())?;
                    separator = ",";
                }
                Ok(())
            }
            Self::Fragmented(orders) => {
                write!(f, "fragmented:p1={}", orders[1])?;
                let mut later =
                    ORDER_KEYS.iter().zip(&orders[1..]).skip(1).filter(|&(_, &p)| p > 0);
                later.try_for_each(|(key, p)| write!(f, ",{key}={p}"))
            }
            Self::Buddy(BuddyParameters { size, used, fragmentation, thp }) => {
                let (mib, thp) = (size.get() >> 20, u8::from(*thp));
                write!(
                    f,
                    "buddy:size={mib}MiB,used={used}%,fragmentation={fragmentation}%,thp={thp}"
                )
            }
        }
    }
}

/// There was not enough memory for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory buddy: no room for a buffer of {} KiB, {} KiB are free; a larger size= would have it",
    .wanted.get().div_ceil(1024),
    .free.get() / 1024
)]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub wanted: Bytes,
    /// Bytes that were free.
    pub free: Bytes,
}

/// The memory from which buffers are allocated.
#[derive(Clone, Debug)]
pub struct Memory {
    seed: u64,
    /// Number of draws so far.
    draws: u64,
    state: RunState,
}

#[derive(Clone, Debug)]
enum RunState {
    /// Runs from a list, one after the other; `next` is the first unused page number.
    Runs { lengths: Vec<u64>, taken: usize, next: u64 },
    /// Runs of random orders.
    Orders { orders: [u32; MAX_ORDER + 1], next: u64 },
    /// One run per buffer.
    Contiguous { next: u64 },
    /// The allocator.
    Buddy { allocator: Box<Buddy>, thp: bool },
}

impl Memory {
    /// Returns memory in the state of a machine that has been running for some time.
    pub fn new(model: &MemoryModel, seed: u64) -> Self {
        let mut memory =
            Self { seed, draws: 0, state: RunState::Contiguous { next: 1 << MAX_ORDER } };
        let next = 1 << MAX_ORDER;
        memory.state = match model {
            MemoryModel::Contiguous => RunState::Contiguous { next },
            MemoryModel::Runs(lengths) => {
                RunState::Runs { lengths: lengths.clone(), taken: 0, next }
            }
            MemoryModel::Fragmented(orders) => RunState::Orders { orders: *orders, next },
            MemoryModel::Buddy(parameters) => {
                let allocator = Box::new(memory.aged(parameters));
                RunState::Buddy { allocator, thp: parameters.thp }
            }
        };
        memory
    }

    /// Allocates a page-aligned buffer of at least `bytes` (at least one byte), whose pages are
    /// touched from its start to its end.
    ///
    /// # Errors
    /// The buddy allocator has not enough free pages. Nothing is allocated in this case.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<Layout, OutOfMemory> {
        let pages = bytes.get().div_ceil(PAGE_SIZE).max(1);
        let (seed, draws) = (self.seed, &mut self.draws);
        match &mut self.state {
            RunState::Contiguous { next } => {
                let first = next.next_multiple_of(HUGE_PAGES);
                *next = first + pages + 1;
                Ok(Layout::contiguous(pages * PAGE_SIZE, first * PAGE_SIZE).with_folios(HUGE_PAGES))
            }
            RunState::Runs { lengths, taken, next } => Ok(place(pages, next, || {
                *taken += 1;
                (lengths[(*taken - 1) % lengths.len()], 1)
            })),
            RunState::Orders { orders, next } => Ok(place(pages, next, || {
                *draws += 1;
                let length =
                    1 << order_of(orders, below(draw(seed, PURPOSE, *draws), MILLION.into()));
                (length, length)
            })),
            RunState::Buddy { allocator, thp } => fault_in(allocator, pages, *thp)
                .map(|layout| if *thp { layout.with_folios(HUGE_PAGES) } else { layout })
                .ok_or_else(|| OutOfMemory {
                    wanted: bytes,
                    free: Bytes::new(allocator.free_pages() * PAGE_SIZE),
                }),
        }
    }

    /// Returns the function that builds the buffers of jobs: it allocates a buffer of so many bytes
    /// and registers it with `stack`. It panics if [`Self::allocate`] fails.
    pub fn buffers<'a>(
        &'a mut self,
        stack: &'a mut Stack,
    ) -> impl FnMut(TaskId, u32, u64) -> LayoutId + 'a {
        |_, _, bytes| {
            stack.register_layout(
                self.allocate(Bytes::new(bytes)).expect("memory enough for the jobs"),
            )
        }
    }

    /// Frees a buffer's pages, from its start to its end. Only the buddy allocator uses them again.
    pub fn free(&mut self, buffer: &Layout) {
        if let RunState::Buddy { allocator, .. } = &mut self.state {
            for run in buffer.runs() {
                let first = run.physical / PAGE_SIZE;
                (first..first + run.len / PAGE_SIZE)
                    .for_each(|page| allocator.free(page as u32, 0));
            }
        }
    }

    /// Returns an allocator whose memory is held by others, except whole blocks and scattered pages
    /// that were freed in random order.
    fn aged(&mut self, parameters: &BuddyParameters) -> Buddy {
        let blocks = (parameters.size.get() / (PAGE_SIZE << MAX_ORDER)) as u32;
        let pages = u64::from(blocks) << MAX_ORDER;
        let free = pages * (100 - u64::from(parameters.used)) / 100;
        let scattered = free * u64::from(parameters.fragmentation) / 100;
        let whole = ((free - scattered) >> MAX_ORDER) as usize;

        let mut order: Vec<u32> = (0..blocks).map(|block| block << MAX_ORDER).collect();
        let length = order.len();
        self.shuffle(&mut order, length);
        let (whole, held) = order.split_at(whole);
        let mut single: Vec<u32> =
            held.iter().flat_map(|&first| first..first + (1 << MAX_ORDER)).collect();
        self.shuffle(&mut single, scattered as usize);

        let mut allocator = Buddy::new(pages as u32);
        whole.iter().for_each(|&first| allocator.free(first, MAX_ORDER));
        single.iter().take(scattered as usize).for_each(|&page| allocator.free(page, 0));
        allocator
    }

    /// Moves a random choice of `count` items, in random order, to the front.
    fn shuffle(&mut self, items: &mut [u32], count: usize) {
        for i in 0..count.min(items.len()) {
            self.draws += 1;
            let other =
                below(draw(self.seed, PURPOSE, self.draws), (items.len() - i) as u64) as usize;
            items.swap(i, i + other);
        }
    }
}

/// Returns the order for a random number below a million.
fn order_of(orders: &[u32; MAX_ORDER + 1], mut number: u64) -> usize {
    for (order, &probability) in orders.iter().enumerate() {
        match number.checked_sub(probability.into()) {
            None => return order,
            Some(rest) => number = rest,
        }
    }
    0
}

/// Returns a buffer of `pages` from runs of (length, alignment) in pages; no run is contiguous with
/// the one before it.
fn place(pages: u64, next: &mut u64, mut run: impl FnMut() -> (u64, u64)) -> Layout {
    let mut all = Vec::with_capacity(pages as usize);
    while (all.len() as u64) < pages {
        let (length, alignment) = run();
        let first = (*next + 1).next_multiple_of(alignment);
        *next = first + length;
        all.extend(first..first + length.min(pages - all.len() as u64));
    }
    Layout::from_pages(all)
}

/// Allocates a buffer by page faults. Returns `None`, with nothing allocated, if there is not
/// enough memory.
fn fault_in(allocator: &mut Buddy, pages: u64, thp: bool) -> Option<Layout> {
    let huge = 1 << HUGE_ORDER;
    let mut all: Vec<u64> = Vec::with_capacity(pages as usize);
    while (all.len() as u64) < pages {
        let fits = thp && all.len().is_multiple_of(huge) && pages - all.len() as u64 >= huge as u64;
        if let Some(first) = fits.then(|| allocator.allocate(HUGE_ORDER)).flatten() {
            all.extend((first..first + huge as u32).map(u64::from));
        } else if let Some(page) = allocator.allocate(0) {
            all.push(page.into());
        } else {
            all.iter().rev().for_each(|&page| allocator.free(page as u32, 0));
            return None;
        }
    }
    Some(Layout::from_pages(all))
}
