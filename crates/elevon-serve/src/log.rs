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
    /// Which part of the server says it: `server`, `configuration`, `reload`, `connection`,
    /// `device`.
    pub target: &'static str,
    /// A line for people. It says all that the fields say.
    pub message: &'a str,
    /// What it is about, by key: `device`, `export`, `tenant`, `client` (the number of a
    /// connection), `names` (of its certificate), `op`, `offset` and `bytes` (in bytes), `errno`,
    /// `count`, `signal`.
    pub fields: &'a [(&'static str, Field<'a>)],
}

impl<'a> Record<'a> {
    /// Creates a record without fields.
    pub const fn new(level: Level, target: &'static str, message: &'a str) -> Self {
        Self { level, target, message, fields: &[] }
    }
}

/// A time in which there are at most [`Window::MOST`] lines about things of which there may be any
/// number.
#[derive(Debug, Default)]
pub(crate) struct Window {
    began: Instant,
    told: u32,
    untold: u64,
}

impl Window {
    /// Lines in a window.
    const MOST: u32 = 10;
    /// How long one lasts.
    const LENGTH: Nanos = Nanos::from_secs(10);

    /// Returns true if there may be another line now, and counts what has none. Returns, too, how
    /// many had none in a window that has ended, once.
    pub(crate) fn enter(&mut self, now: Instant) -> (bool, u64) {
        let mut untold = 0;
        if now.since(self.began) >= Self::LENGTH {
            untold = self.untold;
            *self = Self { began: now, told: 0, untold: 0 };
        }
        let is_told = self.told < Self::MOST;
        (self.told, self.untold) = (self.told + u32::from(is_told), self.untold + u64::from(!is_told));
        (is_told, untold)
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
        let told = (0..15).filter(|_| window.enter(at(20)).0).count();
        assert_eq!(told, 10);
        assert_eq!(window.enter(at(29)), (false, 0));
        assert_eq!(window.enter(at(30)), (true, 6));
        assert_eq!(window.enter(at(50)), (true, 0));
    }
}
