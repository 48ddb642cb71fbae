//! Simulated devices: what a command costs, in integer nanoseconds.

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::limits::QueueLimits;
use elevon_core::units::{Instant, Sectors};

/// What a device says of itself before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The profile's or model's name.
    pub name: String,
    /// Size in sectors.
    pub size: Sectors,
    /// Queue limits and features.
    pub limits: QueueLimits,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
}

/// A device in virtual time. Completions come out ordered by (time, command sequence).
pub trait Device {
    /// What it says of itself.
    fn description(&self) -> &Description;

    /// Takes a command at `now`.
    fn submit(&mut self, now: Instant, command: &Command) -> Accept;

    /// When the device next has something to do (a completion, or an inner step); `None` when idle.
    fn next_event(&self) -> Option<Instant>;

    /// Moves the device's inner steps to `now` and takes the next completion that is due, if any.
    fn poll(&mut self, now: Instant) -> Option<Completion>;

    /// Forgets a command that the host has given up on; false where it is not (or no longer) in flight.
    fn abort(&mut self, now: Instant, command: &Command) -> bool;
}
