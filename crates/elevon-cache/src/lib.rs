//! The page cache as policy: which pages are in, in what state, and which one goes next; never
//! their bytes.
//!
//! The same code stands before a simulated device and before a real file. The block layer
//! (`elevon-core`) does not know this crate: the cache submits `Io`s to it as any program does.
//!
//! [`page_cache`] takes calls and gives bios. What to read is decided in [`readahead`] and
//! [`fault`], how much may be dirty in [`dirty`], whose it is in [`domains`], who writes it in
//! [`flusher`], when to reclaim in [`watermark`]. [`pages`] is the arena of page frames and the
//! index of each file, [`shadow`] what an evicted page leaves behind, [`replace`] the policies that
//! choose the next victim, [`resident`] the three together: what the read, fault and write paths
//! call. [`activity`] decides a bio's priority by what its pages were used for.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

pub mod activity;
mod bios;
pub mod dirty;
pub mod domains;
pub mod fault;
pub mod file_io;
pub mod flusher;
pub mod page_cache;
pub mod pages;
pub mod readahead;
pub mod replace;
pub mod resident;
pub mod settings;
pub mod shadow;
pub mod stats;
pub mod watermark;

/// A file (or block device) whose pages are cached: a dense number, from 0, given by whoever opens
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A page frame: its number is its place in memory, so frames with neighbouring numbers are
/// physically contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// What a page is inserted or touched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A page fault on a mapping that is marked neither sequential nor random, with all that is
    /// read around it; as an access, a touch through the page table.
    Fault,
    /// A descriptor's read. An access counts as one use.
    Read,
    /// A descriptor's write. As in Linux 6.1 it is no use of the page, and an insertion for it
    /// judges no refault.
    Write,
    /// Brought in before it was asked for (not within a fault), or within a fault on a mapping
    /// marked sequential or random. No use.
    Readahead,
}
