//! Readahead: which pages a buffered read asks for beyond those it needs.
//!
//! A reader that goes on where it stopped gets a *window*: pages read in one go, one of which
//! carries a *marker*. Reading the marker starts the next, larger window before the reader gets to
//! the end of this one. State is kept per open file, and everything follows from it, the page asked
//! for and what is cached around that page; no clock and no device is asked.
//!
//! As in Linux 6.1; [`Rules::readahead_async_by_marker`] selects the decisions of 6.11 and later,
//! [`Rules::readahead_ends_on_folio`] the ends of windows that 6.18 was measured to have
//! (`tests/data/kernel-truth/traces/buffered-seqread-ext4.ftrace`, held by
//! `windows_of_6_18_end_where_folios_do`). Cost: O(1) for a reader whose state matches, else one
//! look at each page of a cached run of at most a window beside the page.

use elevon_core::kernel::Rules;

/// Readahead per open file unless told otherwise, in pages: 128 KiB (`read_ahead_kb`).
pub const RA_PAGES: u32 = 32;
/// Largest piece of a forced read (random, or asked for by advice), in pages: 2 MiB.
pub const FORCED_PIECE_PAGES: u32 = 512;

/// What a program told of how it will read a file (`posix_fadvise`), or a mapping (`madvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Nothing: the device's window.
    #[default]
    Normal,
    /// In order: twice the window; a mapping reads ahead rather than around.
    Sequential,
    /// In no order: exactly what is asked for.
    Random,
    /// The range will be wanted soon: it is read now, and nobody waits.
    WillNeed,
    /// The range is not wanted any more: its clean pages go, and leave no shadow.
    DontNeed,
}

/// Pages to read in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadaheadWindow {
    /// First page.
    pub start: u64,
    /// Pages; those cached already are skipped, and the file's end cuts it.
    pub size: u32,
    /// Pages at its end that nobody needs yet; the marker is the first of them. 0: no marker.
    pub async_size: u32,
}

impl ReadaheadWindow {
    /// The page that carries the marker.
    pub const fn marker(self) -> Option<u64> {
        match self.async_size {
            0 => None,
            n => Some(self.start + (self.size - n) as u64),
        }
    }
    /// The page after the last.
    pub const fn end(self) -> u64 {
        self.start + self.size as u64
    }
}

/// What a read or fault asks of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The page that is missing, or that carries the marker.
    pub index: u64,
    /// Pages left in the call, this one included; at least 1.
    pub req: u64,
    /// Whether a marker was hit (asynchronous), rather than a page missing (synchronous).
    pub marker: bool,
}

/// Readahead state of one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readahead {
    start: u64,
    size: u32,
    async_size: u32,
    /// Order of the folios that the last window was made of. Only its end is modelled: pages here
    /// are single.
    order: u32,
    /// Its window limit: the device's, doubled by advice.
    ra_pages: u32,
    /// The largest request the device takes in one, in pages.
    io_pages: u32,
    /// Page that the last read ended in.
    prev: Option<u64>,
    advice: Advice,
    /// Faults that missed, less those that hit; see [`super::fault`].
    pub(super) mmap_miss: u32,
}

impl Readahead {
    /// A file just opened on a device with windows of `ra_pages` and requests of at most
    /// `io_pages`.
    pub const fn new(ra_pages: u32, io_pages: u32) -> Self {
        let (start, size, async_size, order, prev, mmap_miss) = (0, 0, 0, 0, None, 0);
        Self { start, size, async_size, order, ra_pages, io_pages, prev, advice: Advice::Normal, mmap_miss }
    }

    /// Takes advice. NORMAL, SEQUENTIAL and RANDOM are about the whole file and stay; the other two
    /// are about a range, and change nothing here.
    pub const fn advise(&mut self, advice: Advice, device_ra_pages: u32) {
        match advice {
            Advice::Normal | Advice::Random => self.ra_pages = device_ra_pages,
            Advice::Sequential => self.ra_pages = device_ra_pages * 2,
            Advice::WillNeed | Advice::DontNeed => return,
        }
        self.advice = advice;
    }

    /// The advice that holds.
    pub const fn advice(&self) -> Advice {
        self.advice
    }

    /// Its window limit in pages.
    pub const fn ra_pages(&self) -> u32 {
        self.ra_pages
    }

    /// The page that the last read ended in.
    pub const fn prev(&self) -> Option<u64> {
        self.prev
    }

    /// A read ended in this page.
    pub const fn read_ended(&mut self, page: u64) {
        self.prev = Some(page);
    }

    /// A read failed: the window shrinks to a quarter.
    pub const fn read_failed(&mut self) {
        self.ra_pages /= 4;
    }

    /// The window as it stands.
    pub const fn window(&self) -> ReadaheadWindow {
        ReadaheadWindow { start: self.start, size: self.size, async_size: self.async_size }
    }

    /// What to read, or `None` where nothing is to be read ahead. `cached` tells of pages near the
    /// one asked for.
    pub fn decide(&mut self, ask: Ask, rules: &Rules, cached: impl Fn(u64) -> bool) -> Option<ReadaheadWindow> {
        if self.advice == Advice::Random || self.ra_pages == 0 {
            return (!ask.marker).then(|| exact(ask));
        }
        let ra = u64::from(self.ra_pages);
        let max = if ask.req > ra { ra.max(ask.req.min(self.io_pages.into())) } else { ra } as u32;
        match (rules.readahead_async_by_marker, ask.marker) {
            (false, _) => self.on_demand(ask, max, cached),
            (true, false) => Some(self.synchronous(ask, max, cached)),
            (true, true) => self.asynchronous(ask, max, rules, cached),
        }
    }

    /// One decision for misses and markers: to 6.10.
    fn on_demand(&mut self, ask: Ask, max: u32, cached: impl Fn(u64) -> bool) -> Option<ReadaheadWindow> {
        if ask.index == 0 {
            self.initial(ask, max, false);
        } else if self.size > 0 && (self.window().marker() == Some(ask.index) || self.window().end() == ask.index) {
            self.ramp(max);
        } else if ask.marker {
            self.resume(ask, max, cached)?;
        } else if ask.req > u64::from(max) || self.is_sequential(ask.index) {
            self.initial(ask, max, false);
        } else if !self.context(ask, max, cached) {
            return Some(exact(ask));
        }
        self.join_next(ask.index, max);
        Some(self.window())
    }

    /// A page is missing: 6.11 and later.
    fn synchronous(&mut self, ask: Ask, max: u32, cached: impl Fn(u64) -> bool) -> ReadaheadWindow {
        self.order = 0;
        if ask.index == 0 || ask.req > u64::from(max) || self.is_sequential(ask.index) {
            self.initial(ask, max, true);
        } else if !self.context(ask, max, cached) {
            return exact(ask);
        }
        self.window()
    }

    /// A marker was hit: 6.11 and later.
    fn asynchronous(
        &mut self,
        ask: Ask,
        max: u32,
        rules: &Rules,
        cached: impl Fn(u64) -> bool,
    ) -> Option<ReadaheadWindow> {
        if self.size > 0 && self.window().marker() == Some(ask.index) {
            self.ramp(max);
        } else {
            self.resume(ask, max, cached)?;
        }
        if rules.readahead_ends_on_folio {
            self.end_on_folio(max);
        }
        Some(self.window())
    }

    /// Cuts the window where a folio ends. Its folios are four times those of the window before,
    /// but divide the limit, so that a window at the limit is cut once and those that follow
    /// lie well; and none is larger than its window.
    fn end_on_folio(&mut self, max: u32) {
        self.order = (self.order + 2).min(max.trailing_zeros());
        let end = self.window().end() >> self.order << self.order;
        if end > self.start {
            self.size = (end - self.start) as u32;
            self.async_size = self.size;
        }
        self.order = self.order.min(self.size.ilog2());
    }

    const fn is_sequential(&self, index: u64) -> bool {
        matches!(self.prev, Some(prev) if index >= prev && index - prev <= 1)
    }

    /// The first window of a run. `half`: where the request fills it, half of it lies behind the
    /// marker (6.11+).
    fn initial(&mut self, ask: Ask, max: u32, half: bool) {
        self.start = ask.index;
        self.size = initial_size(ask.req, max);
        self.async_size = match u64::from(self.size).checked_sub(ask.req) {
            Some(beyond @ 1..) => beyond as u32,
            _ if half => self.size / 2,
            _ => self.size,
        };
    }

    const fn ramp(&mut self, max: u32) {
        self.start += self.size as u64;
        self.size = next_size(self.size, max);
        self.async_size = self.size;
    }

    /// A marker that this state knows nothing of: several streams share the file. Goes on behind
    /// the cached run.
    fn resume(&mut self, ask: Ask, max: u32, cached: impl Fn(u64) -> bool) -> Option<()> {
        let start = (ask.index + 1..=ask.index + u64::from(max)).find(|&page| !cached(page))?;
        let size = (start - ask.index + ask.req).min(max.into()) as u32;
        self.start = start;
        self.size = next_size(size, max);
        self.async_size = self.size;
        Some(())
    }

    /// A run of cached pages just before the page tells of a sequential reader whose state is gone.
    /// False: no such run.
    fn context(&mut self, ask: Ask, max: u32, cached: impl Fn(u64) -> bool) -> bool {
        let run = (1..=u64::from(max)).take_while(|&back| back <= ask.index && cached(ask.index - back)).count() as u64;
        if run <= ask.req {
            return false;
        }
        // The run begins at the file's start: it is surely one reader's, so more is likely.
        let run = if run >= ask.index { run * 2 } else { run };
        self.start = ask.index;
        self.size = (run + ask.req).min(max.into()) as u32;
        self.async_size = 1;
        true
    }

    /// The reader would hit the marker at once: this window and the next become one.
    fn join_next(&mut self, index: u64, max: u32) {
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

    /// Read-around of a fault: the window lies about the page.
    pub(super) fn around(&mut self, index: u64) -> ReadaheadWindow {
        self.start = index.saturating_sub(u64::from(self.ra_pages / 2));
        self.size = self.ra_pages;
        self.async_size = self.ra_pages / 4;
        self.window()
    }
}

/// Exactly what was asked for, without a marker; the state stays as it was.
fn exact(ask: Ask) -> ReadaheadWindow {
    ReadaheadWindow { start: ask.index, size: ask.req.min(FORCED_PIECE_PAGES.into()) as u32, async_size: 0 }
}

/// Size of a first window for a request of `req` pages.
fn initial_size(req: u64, max: u32) -> u32 {
    let rounded = req.next_power_of_two();
    let max_pages = u64::from(max);
    if rounded <= max_pages / 32 {
        rounded as u32 * 4
    } else if rounded <= max_pages / 4 {
        rounded as u32 * 2
    } else {
        max
    }
}

/// Size of the window after one of `current` pages.
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
