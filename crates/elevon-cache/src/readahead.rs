//! Readahead: which pages a buffered read requests in addition to those it needs.
//!
//! A sequential reader gets a *window*: pages that are read together, one of which carries a
//! *marker*. A read of the marked page starts the next, larger window before the reader reaches the
//! end of this one. State is kept per open file. Decisions depend only on this state, the requested
//! page and the cached pages around it, not on time or the device. A window that follows a marker
//! has folios of several pages from 6.18 on. The marker is that of a folio, and a look over cached
//! pages begins in a folio.
//!
//! `tests/kernel_readahead.rs` compares steps drawn at random with those of Linux 6.18.
//!
//! As in Linux 6.1; [`Rules::readahead_async_by_marker`] selects the decisions of 6.11 and later,
//! [`Rules::readahead_ends_on_folio`] the ends of windows that 6.18 was measured to have
//! (`tests/data/kernel-truth/traces/buffered-seqread-ext4.ftrace`, held by
//! `windows_of_6_18_end_where_folios_do`). Cost: O(1) for a reader whose state matches, else one
//! look at each page of a cached run of at most a window beside the page.

mod look;

use elevon_core::kernel::Rules;
use elevon_core::units::{FileOffset, PageCount, PageIndex};

/// Default readahead per open file, in pages: 128 KiB (`read_ahead_kb`).
pub(crate) const RA_PAGES: u32 = 32;
/// Largest piece of a forced read (random access, or by advice), in pages: 2 MiB.
pub(crate) const FORCED_PIECE_PAGES: u32 = 512;

/// A program's advice on how it will access a file, by `posix_fadvise`, or a mapping, by `madvise`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// No advice: the device's window applies.
    #[default]
    Normal,
    /// Sequential access: the window is doubled, and a mapping reads ahead rather than around.
    Sequential,
    /// Random access: only the requested pages are read.
    Random,
    /// The range will be needed soon: it is read now, without waiting.
    WillNeed,
    /// The range is not needed any more: its clean pages are dropped without a shadow.
    DontNeed,
}

/// Pages to read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadaheadWindow {
    /// First page.
    pub start: PageIndex,
    /// Number of pages. Cached pages are skipped, and the window is cut at the end of the file.
    pub size: u32,
    /// Number of pages at its end that are read ahead; the first of them carries the marker. 0: no
    /// marker.
    pub async_size: u32,
    /// Its folios have at most two to the power of this many pages.
    pub order: u32,
}

impl ReadaheadWindow {
    /// Returns the page that carries the marker.
    pub(crate) fn marker(self) -> Option<PageIndex> {
        match self.async_size {
            0 => None,
            n => Some(self.start + pages(self.size - n)),
        }
    }
    /// Returns a window without a marker.
    pub(crate) const fn plain(start: PageIndex, size: u32) -> Self {
        Self { start, size, async_size: 0, order: 0 }
    }

    /// Returns the order of the window's folio that begins at a page, in a window that is cut at
    /// `end`. A folio is aligned to its size.
    pub(crate) fn order_at(self, page: PageIndex, end: PageIndex) -> u32 {
        self.order.min(page.get().trailing_zeros()).min((end - page).get().ilog2())
    }

    /// Returns the page after the last.
    pub(crate) fn end(self) -> PageIndex {
        self.start + pages(self.size)
    }
}

/// A request of a read or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The page that is missing, or that carries the marker.
    pub index: PageIndex,
    /// Pages left in the call, including this one; at least 1.
    pub req: PageCount,
    /// True if a marker was hit, for asynchronous readahead. False if a page is not cached, for
    /// synchronous.
    pub marker: bool,
}

/// Readahead state of one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readahead {
    start: PageIndex,
    size: u32,
    async_size: u32,
    /// Order of the last window's folios.
    order: u32,
    /// Its window limit: the device's, doubled by advice.
    ra_pages: u32,
    /// The device's largest request, in pages.
    io_pages: u32,
    /// Position behind the last byte of the last read.
    prev: Option<FileOffset>,
    advice: Advice,
    /// The advice on its mapping.
    mapping_advice: Advice,
    /// Faults that missed, less the cached pages that faults found; see [`super::fault`].
    pub(super) mmap_miss: u32,
}

impl Readahead {
    /// Returns the state of a newly opened file on a device with windows of `ra_pages` and requests
    /// of at most `io_pages`.
    pub(crate) const fn new(ra_pages: u32, io_pages: u32) -> Self {
        let (start, size, async_size, order, prev, mmap_miss) = (PageIndex::ZERO, 0, 0, 0, None, 0);
        let (advice, mapping_advice) = (Advice::Normal, Advice::Normal);
        Self {
            start,
            size,
            async_size,
            order,
            ra_pages,
            io_pages,
            prev,
            advice,
            mapping_advice,
            mmap_miss,
        }
    }

    /// Applies advice. NORMAL, SEQUENTIAL and RANDOM apply to the whole file and stay in force; the
    /// other two apply to a range, and change nothing here.
    pub(crate) const fn advise(&mut self, advice: Advice, device_ra_pages: u32) {
        match advice {
            Advice::Normal | Advice::Random => self.ra_pages = device_ra_pages,
            Advice::Sequential => self.ra_pages = device_ra_pages * 2,
            Advice::WillNeed | Advice::DontNeed => return,
        }
        self.advice = advice;
    }

    /// Applies advice on the mapping, which changes only what a fault reads.
    pub(crate) const fn advise_mapping(&mut self, advice: Advice) {
        self.mapping_advice = advice;
    }

    /// Returns the advice in force.
    pub(crate) const fn advice(&self) -> Advice {
        self.advice
    }

    /// Returns the advice in force on the mapping.
    pub(crate) const fn mapping_advice(&self) -> Advice {
        self.mapping_advice
    }

    /// Returns its window limit in pages.
    pub(crate) const fn ra_pages(&self) -> u32 {
        self.ra_pages
    }

    /// Returns the page of the last byte of the last read.
    #[inline]
    pub(crate) fn last_page(&self) -> Option<PageIndex> {
        self.prev.map(|prev| prev.page_ceil().previous())
    }

    /// Records the position behind the last byte of a read.
    #[inline]
    pub(crate) const fn read_ended(&mut self, position: FileOffset) {
        self.prev = Some(position);
    }

    /// Reduces the window limit to a quarter, because a read failed.
    pub(crate) const fn read_failed(&mut self) {
        self.ra_pages /= 4;
    }

    /// Gives the last window folios of one page. The next window still ends as if its folios were
    /// four times as large.
    pub(crate) const fn use_single_pages(&mut self) {
        self.order = 0;
    }

    /// Returns the current window.
    pub(crate) const fn window(&self) -> ReadaheadWindow {
        let &Self { start, size, async_size, order, .. } = self;
        ReadaheadWindow { start, size, async_size, order }
    }

    /// Returns the window to read, or `None` if there is nothing to read ahead. `cached` returns
    /// the order of the folio of a cached page near the requested one.
    pub(crate) fn decide(
        &mut self,
        ask: Ask,
        rules: &Rules,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> Option<ReadaheadWindow> {
        if self.ra_pages == 0 {
            // Without readahead a page is read when it is looked for, whatever follows (measured).
            return (!ask.marker).then(|| exact(Ask { req: pages(1), ..ask }));
        }
        if self.advice == Advice::Random {
            return (!ask.marker).then(|| exact(ask));
        }
        let (ra, req) = (u64::from(self.ra_pages), ask.req.get());
        let max = if req > ra { ra.max(req.min(self.io_pages.into())) } else { ra } as u32;
        match (rules.readahead_async_by_marker, ask.marker) {
            (false, _) => self.on_demand(ask, max, rules, cached),
            (true, false) => Some(self.synchronous(ask, max, rules, cached)),
            (true, true) => self.asynchronous(ask, max, rules, cached),
        }
    }

    /// Decides for both misses and markers (up to 6.10).
    fn on_demand(
        &mut self,
        ask: Ask,
        max: u32,
        rules: &Rules,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> Option<ReadaheadWindow> {
        if ask.index.is_zero() {
            self.initial(ask, max, false);
        } else if self.size > 0
            && (self.window().marker() == Some(ask.index) || self.window().end() == ask.index)
        {
            self.ramp(max);
        } else if ask.marker {
            self.resume(ask, max, cached)?;
        } else if ask.req > pages(max) || self.is_sequential(ask.index, rules) {
            self.initial(ask, max, false);
        } else if !self.context(ask, max, cached) {
            return Some(whole(ask));
        }
        self.join_next(ask.index, max);
        Some(self.window())
    }

    /// Decides for a page that is not cached (6.11 and later).
    fn synchronous(
        &mut self,
        ask: Ask,
        max: u32,
        rules: &Rules,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> ReadaheadWindow {
        if ask.index.is_zero() || ask.req > pages(max) || self.is_sequential(ask.index, rules) {
            self.initial(ask, max, true);
        } else if !self.context(ask, max, cached) {
            return whole(ask);
        }
        self.order = 0;
        if rules.readahead_marks_folio {
            self.mark_folio();
        }
        self.window()
    }

    /// Moves the marker to the first page of its folio. The folios have four pages, except beside
    /// the ends of the window.
    fn mark_folio(&mut self) {
        let (start, end) = (self.start.get(), self.window().end().get());
        let Some(marker) = self.window().marker().map(PageIndex::get) else { return };
        let firsts = [4, 2].map(|pages| (marker / pages * pages, pages));
        let is_within = |&(first, pages): &(u64, u64)| first >= start && first + pages <= end;
        if let Some((first, _)) = firsts.into_iter().find(is_within) {
            self.async_size = (end - first) as u32;
        }
    }

    /// Decides for a marker that was hit (6.11 and later).
    fn asynchronous(
        &mut self,
        ask: Ask,
        max: u32,
        rules: &Rules,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> Option<ReadaheadWindow> {
        // The marker may lie within the folio, in a window whose pages were cached in part.
        let order = cached(ask.index).unwrap_or(0);
        let expected = self.window().marker().map(|marker| marker.get() >> order << order);
        if self.size > 0 && expected == Some(ask.index.get()) {
            self.ramp(max);
        } else {
            self.resume(ask, max, cached)?;
        }
        if rules.readahead_ends_on_folio {
            self.end_on_folio(max);
        }
        Some(self.window())
    }

    /// Cuts the window at the end of a folio. Its folios are four times as large as those of the
    /// window before, but a window ends where folios do that divide the window limit, so a window
    /// at the limit is cut once and later windows are aligned. No folio is larger than its window.
    fn end_on_folio(&mut self, max: u32) {
        self.order += 2;
        let order = self.order.min(max.trailing_zeros());
        let end = PageIndex::new(self.window().end().get() >> order << order);
        if end > self.start {
            self.size = (end - self.start).get() as u32;
            self.async_size = self.size;
        }
        self.order = self.order.min(self.size.ilog2());
    }

    /// Returns true if a page lies at most one page behind where the last read ended. A read that
    /// ends with its page has ended in the next one.
    fn is_sequential(&self, index: PageIndex, rules: &Rules) -> bool {
        let prev = if rules.readahead_keeps_position {
            self.prev.map(FileOffset::page)
        } else {
            self.last_page()
        };
        prev.is_some_and(|prev| index >= prev && index - prev <= PageCount::new(1))
    }

    /// Sets the first window of a run. `half`: if the request fills the window, its second half is
    /// behind the marker (6.11+).
    fn initial(&mut self, ask: Ask, max: u32, half: bool) {
        self.start = ask.index;
        self.size = initial_size(ask.req, max);
        self.async_size = match u64::from(self.size).checked_sub(ask.req.get()) {
            Some(beyond @ 1..) => beyond as u32,
            _ if half => self.size / 2,
            _ => self.size,
        };
    }

    /// Sets the window after this one. It is not smaller, although a call that is longer than the
    /// file's window limit raises the limit for itself only.
    fn ramp(&mut self, max: u32) {
        self.start = self.window().end();
        self.size = self.size.max(next_size(self.size, max));
        self.async_size = self.size;
    }

    /// Handles a marker that is not in this state, because several streams share the file. The next
    /// window begins after the cached run.
    fn resume(
        &mut self,
        ask: Ask,
        max: u32,
        cached: impl Fn(PageIndex) -> Option<u32>,
    ) -> Option<()> {
        let start = look::first_gap(ask.index.next(), max.into(), cached)?;
        let size = (start - ask.index + ask.req).min(pages(max)).get() as u32;
        self.start = start;
        self.size = next_size(size, max);
        self.async_size = self.size;
        Some(())
    }

    /// Looks for a run of cached pages just before the page, which indicates a sequential reader
    /// whose state was lost. Returns false if there is no such run.
    fn context(&mut self, ask: Ask, max: u32, cached: impl Fn(PageIndex) -> Option<u32>) -> bool {
        let look::Before { pages: run, from_start } = look::before(ask.index, max.into(), cached);
        if run <= ask.req.get() {
            return false;
        }
        // The run begins at the file's start, so it belongs to one reader, which probably reads on.
        let run = if from_start { run * 2 } else { run };
        self.start = ask.index;
        self.size = (run + ask.req.get()).min(max.into()) as u32;
        self.async_size = 1;
        true
    }

    /// Joins this window with the next if the reader would hit the marker at once.
    fn join_next(&mut self, index: PageIndex, max: u32) {
        if index != self.start || self.size != self.async_size {
            return;
        }
        let add = next_size(self.size, max);
        if self.size + add <= max {
            self.async_size = add;
            self.size += add;
        } else {
            self.size = max;
            self.async_size = max / 2;
        }
    }

    /// Returns the read-around window of a fault, centred on the page.
    pub(super) fn around(&mut self, index: PageIndex) -> ReadaheadWindow {
        self.start = PageIndex::new(index.get().saturating_sub(u64::from(self.ra_pages / 2)));
        self.size = self.ra_pages;
        self.async_size = self.ra_pages / 4;
        self.order = 0;
        self.window()
    }
}

/// Returns exactly the requested pages, without a marker; the state does not change.
fn whole(ask: Ask) -> ReadaheadWindow {
    ReadaheadWindow::plain(ask.index, ask.req.get() as u32)
}

/// Returns the first piece of the requested pages, which are read without readahead.
fn exact(ask: Ask) -> ReadaheadWindow {
    ReadaheadWindow::plain(ask.index, ask.req.min(pages(FORCED_PIECE_PAGES)).get() as u32)
}

fn pages(count: u32) -> PageCount {
    PageCount::new(count.into())
}

/// Returns the size of a first window for a request of `req` pages.
fn initial_size(req: PageCount, max: u32) -> u32 {
    let rounded = req.get().next_power_of_two();
    let max_pages = u64::from(max);
    if rounded <= max_pages / 32 {
        rounded as u32 * 4
    } else if rounded <= max_pages / 4 {
        rounded as u32 * 2
    } else {
        max
    }
}

/// Returns the size of the window after one of `current` pages.
const fn next_size(current: u32, max: u32) -> u32 {
    if current < max / 16 {
        current * 4
    } else if current <= max / 2 {
        current * 2
    } else {
        max
    }
}

#[cfg(test)]
mod tests;
