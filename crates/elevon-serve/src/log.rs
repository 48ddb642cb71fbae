//! What a server says of what happens, as records: a message for people, and what it is about.

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

/// Takes records; called by every thread of a server.
pub type Log = fn(&Record<'_>);
