//! The physical layout of a user buffer: its runs of physically contiguous memory.

extern crate alloc;
use alloc::vec::Vec;

use crate::units::PAGE_SIZE;

/// A maximal range of physically contiguous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte of the run in the buffer.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Physical address of the first byte.
    pub physical: u64,
}

/// A buffer's layout: runs in order, without gaps, no run physically contiguous with the one before
/// it. A buffer is contiguous in virtual memory, so runs begin and end at page boundaries, except
/// the first run's start and the last run's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    runs: Vec<Run>,
    len: u64,
    /// `runs[0].physical`, stored here to avoid an access to the vector.
    first_physical: u64,
    /// See [`Self::with_bio_ends`].
    bio_ends: Vec<u64>,
    /// See [`Self::with_folios`].
    folio_pages: u64,
}

impl Layout {
    /// Returns the layout of a buffer of `len` bytes in one run at a physical address.
    pub fn contiguous(len: u64, physical: u64) -> Self {
        Self {
            runs: alloc::vec![Run { start: 0, len, physical }],
            len,
            first_physical: physical,
            bio_ends: Vec::new(),
            folio_pages: 1,
        }
    }

    /// Returns the same buffer with the offsets at which bios built from it were full. They replace
    /// memory that is not known, such as that of the I/O of a trace: the vectors of a bio
    /// are used up there, whatever the runs are. The ends increase and lie inside the buffer.
    pub fn with_bio_ends(self, ends: Vec<u64>) -> Self {
        assert!(ends.is_sorted_by(|a, b| a < b), "the ends of bios increase");
        assert!(
            ends.first() != Some(&0) && ends.last().is_none_or(|&last| last < self.len),
            "an end outside the buffer"
        );
        Self { bio_ends: ends, ..self }
    }

    /// Returns the layout of a page-aligned buffer with these physical page numbers; contiguous
    /// neighbours become one run.
    pub fn from_pages(pages: impl IntoIterator<Item = u64>) -> Self {
        let mut layout = Self {
            runs: Vec::new(),
            len: 0,
            first_physical: 0,
            bio_ends: Vec::new(),
            folio_pages: 1,
        };
        layout.set_pages(pages);
        layout
    }

    /// Changes the layout to these pages and reuses its memory: a reused layout allocates nothing.
    pub(crate) fn set_pages(&mut self, pages: impl IntoIterator<Item = u64>) {
        self.runs.clear();
        self.bio_ends.clear();
        self.len = 0;
        for page in pages {
            let physical = page * PAGE_SIZE;
            match self.runs.last_mut() {
                Some(last) if last.physical + last.len == physical => last.len += PAGE_SIZE,
                _ => self.runs.push(Run { start: self.len, len: PAGE_SIZE, physical }),
            }
            self.len += PAGE_SIZE;
        }
        self.first_physical = self.runs.first().map_or(0, |run| run.physical);
    }

    /// Returns the layout of a page-aligned buffer with these lengths of runs, in pages; the runs
    /// are placed so that none is contiguous with another.
    pub fn from_run_pages(lengths: impl IntoIterator<Item = u64>) -> Self {
        let mut next = 16;
        let mut pages = Vec::new();
        for length in lengths {
            pages.extend(next..next + length);
            next += length + 1;
        }
        Self::from_pages(pages)
    }

    /// Returns the same memory without the first `skip` bytes: a buffer that starts inside a page.
    pub fn skip(mut self, skip: u64) -> Self {
        assert!(skip < self.len, "nothing would be left of the buffer");
        assert!(self.bio_ends.is_empty(), "the ends of bios are of the whole buffer");
        let first = self.run_at(skip);
        self.runs.drain(..first);
        let cut = skip - self.runs[0].start;
        self.runs[0].start += cut;
        self.runs[0].physical += cut;
        self.runs[0].len -= cut;
        for run in &mut self.runs {
            run.start -= skip;
        }
        self.len -= skip;
        self.first_physical = self.runs[0].physical;
        self
    }

    /// Returns the same memory backed by folios of `pages` pages (a power of two; 512 for huge
    /// pages) at addresses that are multiples of their size, in every run that is at least that
    /// long, or that is the whole buffer. Other pages are folios of one page, as all are without
    /// this.
    pub fn with_folios(mut self, pages: u64) -> Self {
        assert!(pages.is_power_of_two(), "{pages} pages are no folio");
        self.folio_pages = pages;
        self
    }

    /// Returns the offset in the buffer at which the folio ends that holds the byte at `offset`, at
    /// most the end of its run.
    pub(crate) fn folio_end(&self, offset: u64) -> u64 {
        let run = self.runs[self.run_at(offset)];
        let large = self.folio_pages * PAGE_SIZE;
        let size = if run.len >= large || self.runs.len() == 1 { large } else { PAGE_SIZE };
        let physical = run.physical + (offset - run.start);
        (offset + size - physical % size).min(run.start + run.len)
    }

    /// Returns the length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }
    /// Returns true if the buffer has no byte.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the runs.
    #[inline]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }
    /// Returns the offsets of [`Self::with_bio_ends`]; empty if the runs decide.
    #[inline]
    pub fn bio_ends(&self) -> &[u64] {
        &self.bio_ends
    }
    /// Returns the index of the run with the byte at `offset`. O(1) for one run, else O(log runs).
    #[inline]
    pub(crate) fn run_at(&self, offset: u64) -> usize {
        debug_assert!(offset < self.len);
        if self.runs.len() == 1 {
            return 0;
        }
        self.runs.partition_point(|run| run.start <= offset) - 1
    }
    /// Returns the offset in its page of the byte at `offset`. O(1) for any layout.
    #[inline]
    pub(crate) fn page_offset(&self, offset: u64) -> u64 {
        (self.first_physical + offset) % PAGE_SIZE
    }
    /// Returns the physical address of the byte at `offset`.
    #[inline]
    pub fn physical(&self, offset: u64) -> u64 {
        let run = self.runs[self.run_at(offset)];
        run.physical + (offset - run.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_where_pages_follow() {
        let layout = Layout::from_pages([7, 8, 9, 20, 22, 23]);
        let lens: Vec<u64> = layout.runs().iter().map(|r| r.len / PAGE_SIZE).collect();
        assert_eq!(lens, [3, 1, 2]);
        assert_eq!(layout.physical(4 * PAGE_SIZE + 5), 22 * PAGE_SIZE + 5);
        assert_eq!(Layout::from_run_pages([3, 1, 2]).runs().len(), 3);
        let mut again = layout.clone();
        again.set_pages([4, 5]);
        assert_eq!(again, Layout::from_pages([4, 5]));
    }

    #[test]
    fn skip_starts_inside_a_page() {
        let layout = Layout::from_run_pages([1, 2]).skip(4096 + 512);
        assert_eq!(layout.len(), 2 * PAGE_SIZE - 512);
        assert_eq!(layout.physical(0) % PAGE_SIZE, 512);
    }
}
