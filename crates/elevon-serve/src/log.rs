//! What a server says of what happens, as records: a message for people, and what it is about.

use elevon_core::units::{Instant, Nanos};

/// How grave a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that was asked for could not be done.
    Error,
    /// Something is not as it should be.
    Warning,
    /// What an operator did, and what came of it.
    Info,
    /// What clients do: connections that open an export and that end.
    Debug,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// A name, or words.
    Text(&'a str),
    /// A number; its unit is in the documentation of its key.
    Number(u64),
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// How grave it is.
    pub level: Level,
    /// Which part of the server says it: `server`, `configuration`, `reload`, `command`,
    /// `connection`, `device`.
    pub target: &'static str,
    /// A line for people. It says all that the fields say.
    pub message: &'a str,
    /// What it is about, by key: `device`, `export`, `tenant`, `op`, `errno`, `count`, `signal`.
    /// `client` is the number of a connection, and `names` has those of its certificate. `offset`
    /// and `bytes` are in bytes.
    pub fields: &'a [(&'static str, Field<'a>)],
}

impl<'a> Record<'a> {
    /// Creates a record without fields.
    pub const fn new(level: Level, target: &'static str, message: &'a str) -> Self {
        Self { level, target, message, fields: &[] }
    }
}

/// A time in which there are at most [`Window::MAX_LINES`] lines about things of which there may be
/// any number.
#[derive(Debug, Default)]
pub(crate) struct Window {
    began: Instant,
    told: u32,
    untold: u64,
}

impl Window {
    /// Lines in a window.
    const MAX_LINES: u32 = 10;
    /// How long one lasts.
    const LENGTH: Nanos = Nanos::from_secs(10);

    /// Returns true if there may be another line now, and counts what has none.
    pub(crate) fn enter(&mut self, now: Instant) -> bool {
        if now.since(self.began) >= Self::LENGTH {
            (self.began, self.told) = (now, 0);
        }
        let is_told = self.told < Self::MAX_LINES;
        (self.told, self.untold) =
            (self.told + u32::from(is_told), self.untold + u64::from(!is_told));
        is_told
    }

    /// Returns when a window ends in which something had no line.
    pub(crate) fn ends_untold(&self) -> Option<Instant> {
        (self.untold > 0).then(|| self.began.saturating_add(Self::LENGTH))
    }

    /// Returns how many had no line since this was asked the last time.
    pub(crate) const fn take_untold(&mut self) -> u64 {
        std::mem::replace(&mut self.untold, 0)
    }
}

/// Takes records; called by every thread of a server.
pub type Log = fn(&Record<'_>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_most_are_counted_and_told_once() {
        let mut window = Window::default();
        let at = |seconds: u64| Instant::new(seconds * 1_000_000_000);
        assert_eq!((0..10).filter(|_| window.enter(at(20))).count(), 10);
        assert_eq!((window.ends_untold(), window.take_untold()), (None, 0));
        assert_eq!((0..5).filter(|_| window.enter(at(20))).count(), 0);
        assert!(!window.enter(at(29)));
        assert_eq!((window.ends_untold(), window.take_untold()), (Some(at(30)), 6));
        assert_eq!((window.ends_untold(), window.take_untold()), (None, 0));
        assert!(window.enter(at(30)));
    }
}
