//! The window of time that is looked at.
//!
//! Bios and requests are followed from the start of the trace, so that it is known what is under
//! way when the window begins. What happens in the window counts.

use crate::select::Selection;

/// Where an event lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the window.
    Ahead,
    /// In the window.
    Inside,
    /// After the window.
    Over,
}

/// A window, and where the pass is.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Nanoseconds since the first event of the device.
    from: u64,
    until: Option<u64>,
    /// Time of that event.
    start: Option<u64>,
    place: Place,
    /// The last selected I/O before the window and the first one after it, likewise.
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
}

impl Window {
    pub(super) fn new(selection: &Selection) -> Self {
        let place = if selection.from.is_some() { Place::Ahead } else { Place::Inside };
        let Selection { from, until, .. } = selection;
        Self {
            from: from.unwrap_or(0),
            until: *until,
            start: None,
            place,
            before: None,
            after: None,
        }
    }

    /// Returns the same window of another device of the trace.
    pub(super) fn of_disk(&self) -> Self {
        let place = if self.from > 0 { Place::Ahead } else { Place::Inside };
        Self { start: None, place, before: None, after: None, ..*self }
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Returns the time of the first event of the device.
    pub(super) const fn start(&self) -> Option<u64> {
        self.start
    }

    /// Moves to an event and returns the times at which the window begins and ends, if it does so
    /// before the event.
    pub(super) fn pass(&mut self, now: u64) -> (Option<u64>, Option<u64>) {
        let start = *self.start.get_or_insert(now);
        let since = now.saturating_sub(start);
        let (mut begins, mut ends) = (None, None);
        if self.place == Place::Ahead && since >= self.from {
            self.place = Place::Inside;
            begins = Some(start.saturating_add(self.from));
        }
        if self.place == Place::Inside
            && let Some(until) = self.until.filter(|until| since >= *until)
        {
            self.place = Place::Over;
            ends = Some(start.saturating_add(until));
        }
        (begins, ends)
    }

    /// Takes note of a selected I/O outside of the window.
    pub(super) fn saw(&mut self, now: u64) {
        let since = now.saturating_sub(self.start.unwrap_or(now));
        match self.place {
            Place::Ahead => self.before = Some(since),
            Place::Over => self.after = self.after.or(Some(since)),
            Place::Inside => {}
        }
    }
}
