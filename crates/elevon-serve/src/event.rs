//! What a server reports to the service manager.

/// Events that a server reports to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It accepts connections: for the first time, or a reload has ended.
    Ready,
    /// It reads its configuration again.
    Reloading,
    /// It ends.
    Stopping,
    /// The threads of all devices answer.
    Alive,
    /// What it does, in a line.
    Status(&'a str),
}
