//! The state of the screen of `elevon watch`, and its keys. `draw.rs` draws it.

use elevon_trace::DeviceNumber;
use elevon_watch::{DiskNow, GroupBy, Now, RowNow};
use ratatui::crossterm::event::KeyCode;

/// Seconds that can be looked at one by one.
const MAX_ZOOM: usize = 60;
/// Lines of a page.
const PAGE: u16 = 10;
/// Seconds of an interval that a key goes through.
const INTERVALS: [usize; 3] = [1, 10, 60];
/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Bytes,
    Requests,
    Waiting,
    Device,
    Depth,
    Name,
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Bytes, Self::Requests, Self::Waiting, Self::Device, Self::Depth, Self::Name];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bandwidth",
            Self::Requests => "requests",
            Self::Waiting => "wait p99",
            Self::Device => "device p99",
            Self::Depth => "depth",
            Self::Name => "name",
        }
    }

    fn sort(self, rows: &mut [&RowNow]) {
        let by = |value: fn(&RowNow) -> f64| {
            move |a: &&RowNow, b: &&RowNow| {
                value(b).total_cmp(&value(a)).then_with(|| a.name.cmp(&b.name))
            }
        };
        match self {
            Self::Bytes => rows.sort_by(by(RowNow::bytes)),
            Self::Requests => rows.sort_by(by(RowNow::requests)),
            Self::Waiting => rows.sort_by(by(|row| row.waiting[1].unwrap_or(0) as f64)),
            Self::Device => rows.sort_by(by(|row| row.in_device[1].unwrap_or(0) as f64)),
            Self::Depth => rows.sort_by(by(|row| row.depth)),
            Self::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }
}

/// What stands over the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Keys,
    Findings,
    /// Lines with a title.
    Words(String, Vec<String>),
}

/// What a key asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing that the screen cannot do by itself.
    None,
    /// The single requests of the chosen row.
    Requests,
    /// Other figures, as of another second.
    Figures,
}

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) now: Now,
    /// Index of the chosen disk, and of the chosen row.
    pub(super) disk: usize,
    /// True if a key has chosen the disk.
    is_chosen: bool,
    pub(super) row: usize,
    pub(super) seconds: usize,
    pub(super) by: GroupBy,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) over: Over,
    /// Lines of what stands over the screen that are above it.
    pub(super) scrolled: u16,
    /// The second that is looked at: how many have ended after it.
    pub(super) zoom: Option<usize>,
}

impl Screen {
    pub(super) fn new(seconds: usize, by: GroupBy) -> Self {
        Self {
            now: Now::default(),
            disk: 0,
            is_chosen: false,
            row: 0,
            seconds,
            by,
            sort: Sort::Bytes,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            over: Over::Nothing,
            scrolled: 0,
            zoom: None,
        }
    }

    pub(super) const fn seconds(&self) -> usize {
        self.seconds
    }

    pub(super) const fn by(&self) -> GroupBy {
        self.by
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns true while a text to look for is typed.
    pub(super) const fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Takes new figures. Disks without I/O in the last minute come last.
    pub(super) fn take(&mut self, now: Now) {
        let chosen = self.device().map(|(_, device)| device);
        self.now = now;
        let has_rested = |disk: &DiskNow| disk.heat.iter().flatten().all(|&count| count == 0);
        self.now.disks.sort_by_key(has_rested);
        let place = |device| self.now.disks.iter().position(|disk| Some(disk.device) == device);
        // Until a row is chosen, the first disk with I/O is.
        self.disk = if self.is_chosen { place(chosen).unwrap_or(0) } else { 0 };
    }

    /// Returns the name and the numbers of the chosen disk.
    pub(super) fn device(&self) -> Option<(&str, DeviceNumber)> {
        self.chosen().map(|disk| (disk.name.as_str(), disk.device))
    }

    /// Shows a message with a title.
    pub(super) fn tell(&mut self, title: &str, lines: Vec<String>) {
        self.show(Over::Words(title.to_owned(), lines));
    }

    /// Returns true if a message with this title is shown.
    pub(super) fn tells(&self, title: &str) -> bool {
        matches!(&self.over, Over::Words(shown, _) if shown == title)
    }

    fn show(&mut self, over: Over) {
        (self.over, self.scrolled) = (over, 0);
    }

    /// Returns how many seconds have ended after the one that is looked at, if one is.
    pub(super) const fn zoom(&self) -> Option<usize> {
        self.zoom
    }

    /// Takes note of a second that has ended: the one that is looked at gets older.
    pub(super) fn has_ended(&mut self) {
        self.zoom = self.zoom.map(|back| back + 1).filter(|&back| back < MAX_ZOOM);
    }

    /// Returns the process of the chosen row, and what it is called.
    pub(super) fn process(&self) -> Option<(Option<u32>, String)> {
        let rows = self.rows();
        let row = rows.get(self.row.min(rows.len().saturating_sub(1)))?;
        Some((row.process, row.name.clone()))
    }

    pub(super) fn chosen(&self) -> Option<&DiskNow> {
        self.now.disks.get(self.disk)
    }

    /// Returns the rows of the chosen disk that are to be seen, sorted.
    pub(super) fn rows(&self) -> Vec<&RowNow> {
        let has_text = |row: &&RowNow| {
            let unit = row.unit.as_ref().map_or("", |(_, name)| name.as_str());
            row.name.contains(&self.filter) || unit.contains(&self.filter)
        };
        let mut rows: Vec<&RowNow> =
            self.chosen().into_iter().flat_map(|disk| &disk.rows).filter(has_text).collect();
        self.sort.sort(&mut rows);
        rows
    }

    /// Does what a key asks for; returns what the machine has to do.
    pub(super) fn on_key(&mut self, key: KeyCode) -> Wish {
        if self.is_typing {
            self.type_filter(key);
            return Wish::None;
        }
        if self.over != Over::Nothing {
            match key {
                KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
                KeyCode::Up | KeyCode::Char('k') => {
                    self.scrolled = self.scrolled.saturating_sub(1);
                }
                KeyCode::PageDown => self.scrolled += PAGE,
                KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
                _ => self.over = Over::Nothing,
            }
            return Wish::None;
        }
        match key {
            KeyCode::Enter => return Wish::Requests,
            KeyCode::Char('z' | '[' | ']') | KeyCode::Left | KeyCode::Right => {
                return self.zoom_by(key);
            }
            KeyCode::Esc if self.zoom.is_some() => {
                self.zoom = None;
                return Wish::Figures;
            }
            KeyCode::Char('s') => self.sort = next(&Sort::ALL, self.sort),
            KeyCode::Char('i') => self.seconds = next(&INTERVALS, self.seconds),
            KeyCode::Char('g') => {
                self.by = next(&[GroupBy::Process, GroupBy::Unit], self.by);
                self.row = 0;
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('f') => self.show(Over::Findings),
            KeyCode::Char('?' | 'h') => self.show(Over::Keys),
            key => self.choose(key),
        }
        Wish::None
    }

    /// Moves to another disk or row.
    fn choose(&mut self, key: KeyCode) {
        let disks = self.now.disks.len().max(1);
        let last = self.rows().len().saturating_sub(1);
        self.is_chosen = true;
        match key {
            KeyCode::Tab => (self.disk, self.row) = ((self.disk + 1) % disks, 0),
            KeyCode::BackTab => (self.disk, self.row) = ((self.disk + disks - 1) % disks, 0),
            KeyCode::Down | KeyCode::Char('j') => self.row = (self.row + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::Home => self.row = 0,
            KeyCode::End => self.row = last,
            _ => {}
        }
    }

    /// Looks at a single second, or at the one before or after it.
    fn zoom_by(&mut self, key: KeyCode) -> Wish {
        let kept = self.chosen().map_or(0, |disk| disk.heat.len());
        let oldest = kept.min(MAX_ZOOM).saturating_sub(1);
        self.zoom = match (key, self.zoom) {
            (KeyCode::Char('z'), Some(_)) => None,
            (KeyCode::Left | KeyCode::Char('['), Some(back)) => Some((back + 1).min(oldest)),
            (KeyCode::Right | KeyCode::Char(']'), Some(back)) => Some(back.saturating_sub(1)),
            (KeyCode::Right | KeyCode::Char(']'), None) => None,
            (_, None) => Some(0),
            (_, zoom) => zoom,
        };
        self.row = 0;
        Wish::Figures
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.row = 0;
    }
}

/// Returns the value after another one in a list; the first if it is not there.
fn next<T: Copy + PartialEq>(all: &[T], present: T) -> T {
    let at = all.iter().position(|value| *value == present).map_or(0, |at| at + 1);
    all[at % all.len()]
}
