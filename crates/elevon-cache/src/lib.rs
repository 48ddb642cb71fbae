//! The page cache as policy: which pages are cached, their state, and which page is evicted next.
//! It never accesses their bytes.
//!
//! The same code serves a simulated device and a real file. The block layer (`elevon-core`) does
//! not depend on this crate: the cache submits `Io`s to it as any program does.
//!
//! [`page_cache`] takes calls and returns bios. `readahead` and `fault` decide what to read,
//! `dirty` how much may be dirty, `domains` each tenant's part of that, `flusher` which file is
//! written next, and `watermark` when to reclaim. `pages` is the arena of page frames and the index
//! of each file, `shadow` the entry that an evicted page leaves, and `replace` the policies that
//! choose the page to evict. `resident` combines these three for the read, fault and write paths.
//! [`activity`] derives a bio's priority from the use of its pages.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

pub mod activity;
mod bios;
mod dirty;
mod domains;
mod fault;
pub mod file_io;
mod flusher;
pub mod page_cache;
mod pages;
mod readahead;
mod replace;
mod resident;
pub mod settings;
mod shadow;
pub mod stats;
mod watermark;

pub use dirty::{Hz, max_pause, pause_target};
pub use pages::{Evicted, Flags as PageFlags, Tag};
pub use readahead::Advice;
pub use replace::{POLICIES, Reclaimer, ReplacementConfig, Stats as ReplacementStats};
pub use resident::Resident;
pub use watermark::Watermarks;

/// A file (or block device) whose pages are cached: a number, dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A page frame. Its number is its position in memory, so frames with adjacent numbers are
/// physically contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// The reason why a page is inserted or accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A page fault on a mapping that is marked neither sequential nor random, and all pages read
    /// around it. As an access, a touch through the page table.
    Fault,
    /// A descriptor's read. An access counts as one use.
    Read,
    /// A descriptor's write. As in Linux 6.1, it does not count as a use of the page, and its
    /// insertion is not checked for a refault.
    Write,
    /// Readahead (not within a fault), or a fault on a mapping marked sequential or random. It does
    /// not count as a use.
    Readahead,
}
