//! Simulated devices: the time that a command takes, in integer nanoseconds.

pub mod closed_loop;
pub mod fault;
pub mod flash;
pub mod hdd;
pub mod lun;
pub mod null;
pub mod parameter;
pub mod queue;
pub mod service;
pub mod slots;
pub mod text;

use core::fmt;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::limits::QueueLimits;
use elevon_core::stack::StackConfig;
use elevon_core::units::{Instant, Sectors};

pub use fault::Fault;
pub use flash::{Flash, FlashConfig};
pub use hdd::{Hdd, HddParameters};
pub use lun::{Lun, LunConfig};
pub use null::{Null, NullParameters};
pub use parameter::KeyLine;
pub use slots::{Slots, SlotsParameters};
pub use text::TextError;

/// Properties of a device, known before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the profile or model.
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

impl Description {
    /// Returns the defaults of a stack for this device; see [`StackConfig::new`].
    pub fn stack_config(&self) -> StackConfig {
        StackConfig::new(self.limits.clone(), self.size, self.hw_queues, self.queue_depth)
    }

    /// Returns how many commands all hardware queues together hold, for which a device reserves
    /// memory; limited to a reasonable first allocation.
    pub(crate) fn capacity(&self) -> usize {
        (usize::from(self.hw_queues) * self.queue_depth as usize).min(1 << 16)
    }
}

/// A device in virtual time. Completions are ordered by (time, command sequence).
pub trait Device {
    /// Returns the properties of the device.
    fn description(&self) -> &Description;

    /// Accepts or refuses a command at `now`. Before, the device was polled until nothing of it was
    /// due at `now`.
    fn submit(&mut self, now: Instant, command: &Command) -> Accept;

    /// Returns when the device next has work (a completion, or an internal step); `None` if idle.
    fn next_event(&self) -> Option<Instant>;

    /// Advances the device's internal steps to `now` and returns the next completion that is due,
    /// if any.
    fn poll(&mut self, now: Instant) -> Option<Completion>;

    /// As [`Self::submit`]; also returns [`Self::next_event`], `Instant::MAX` if idle.
    #[inline(always)]
    fn submit_then_next(&mut self, now: Instant, command: &Command) -> (Accept, Instant) {
        let answer = self.submit(now, command);
        (answer, self.next_event().unwrap_or(Instant::MAX))
    }

    /// As [`Self::poll`]; also returns [`Self::next_event`], `Instant::MAX` if idle.
    #[inline(always)]
    fn poll_then_next(&mut self, now: Instant) -> (Option<Completion>, Instant) {
        let completion = self.poll(now);
        (completion, self.next_event().unwrap_or(Instant::MAX))
    }

    /// Removes a command that the host aborts. Returns false if it is not, or no longer, in flight.
    fn abort(&mut self, now: Instant, command: &Command) -> bool;
}

/// Returns true if the command is inside the device. The block layer never sends another one, but a
/// device checks it.
#[inline]
pub(crate) fn in_range(description: &Description, command: &Command) -> bool {
    let size = description.size.get();
    let sectors = command.bytes.sectors_ceil().get();
    sectors <= size && command.sector.get() <= size - sectors
}

/// Returns limits of a device without a real medium: 512-byte blocks, discard and write zeroes of
/// any length in one request.
pub(crate) fn limits_without_medium() -> QueueLimits {
    QueueLimits {
        max_hw_discard_sectors: Sectors::new((u32::MAX >> 9).into()),
        discard_granularity: 512,
        max_write_zeroes_sectors: Sectors::new((u32::MAX >> 9).into()),
        ..QueueLimits::default()
    }
}

/// Any device model, as an enum instead of a trait object.
#[derive(Clone, Debug)]
pub enum AnyDevice {
    /// Completes after a constant time.
    Null(Box<Null>),
    /// Parallel servers with one FIFO.
    Slots(Box<Slots>),
    /// A hard disk.
    Hdd(Box<Hdd>),
    /// Dies, links and a write buffer.
    Flash(Box<Flash>),
    /// A limiter in front of parallel servers.
    Lun(Box<Lun>),
}

macro_rules! each {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            Self::Null($device) => $call,
            Self::Slots($device) => $call,
            Self::Hdd($device) => $call,
            Self::Flash($device) => $call,
            Self::Lun($device) => $call,
        }
    };
}

impl Device for AnyDevice {
    fn description(&self) -> &Description {
        each!(self, device => device.description())
    }
    #[inline(always)]
    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        each!(self, device => device.submit(now, command))
    }
    #[inline(always)]
    fn next_event(&self) -> Option<Instant> {
        each!(self, device => device.next_event())
    }
    #[inline(always)]
    fn poll(&mut self, now: Instant) -> Option<Completion> {
        each!(self, device => device.poll(now))
    }
    #[inline(always)]
    fn submit_then_next(&mut self, now: Instant, command: &Command) -> (Accept, Instant) {
        match self {
            Self::Null(device) => device.submit_then_next(now, command),
            // A copy, so that the command itself need not be in memory.
            _ => self.submit_to_model(now, &{ *command }),
        }
    }
    #[inline(always)]
    fn poll_then_next(&mut self, now: Instant) -> (Option<Completion>, Instant) {
        match self {
            Self::Null(device) => device.poll_then_next(now),
            _ => {
                let (completion, next_event) = self.poll_model(now);
                (completion.map(|c| Completion { ..c }), next_event)
            }
        }
    }
    fn abort(&mut self, now: Instant, command: &Command) -> bool {
        each!(self, device => device.abort(now, command))
    }
}

impl AnyDevice {
    /// [`Slots::beyond_trace`]; `None` for the other models.
    pub fn beyond_trace(&self) -> Option<(u32, u32)> {
        match self {
            Self::Slots(device) => device.beyond_trace(),
            Self::Null(_) | Self::Hdd(_) | Self::Flash(_) | Self::Lun(_) => None,
        }
    }

    /// [`Device::submit_then_next`] of a device that takes more time than a call. It is not inlined
    /// where the other is.
    #[inline(never)]
    fn submit_to_model(&mut self, now: Instant, command: &Command) -> (Accept, Instant) {
        each!(self, device => device.submit_then_next(now, command))
    }

    /// [`Device::poll_then_next`], likewise.
    #[inline(never)]
    fn poll_model(&mut self, now: Instant) -> (Option<Completion>, Instant) {
        each!(self, device => device.poll_then_next(now))
    }
}

/// A model with parameters, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// `null:...`
    Null(NullParameters),
    /// `slots:...`
    Slots(Box<SlotsParameters>),
}

impl Model {
    /// Returns a new device of this model; `seed` is its random seed.
    pub fn build(&self, seed: u64) -> AnyDevice {
        match self {
            Self::Null(parameters) => AnyDevice::Null(Box::new(Null::new(parameters))),
            Self::Slots(parameters) => AnyDevice::Slots(Box::new(Slots::new(parameters, seed))),
        }
    }

    /// As [`Self::build`], with this name and these limits in place of the model's.
    pub(crate) fn build_as(&self, name: &str, limits: QueueLimits, seed: u64) -> AnyDevice {
        let mut device = self.build(seed);
        let description = match &mut device {
            AnyDevice::Null(null) => null.description_mut(),
            AnyDevice::Slots(slots) => slots.description_mut(),
            AnyDevice::Hdd(_) | AnyDevice::Flash(_) | AnyDevice::Lun(_) => {
                unreachable!("no model has a text form")
            }
        };
        description.name = name.into();
        description.limits = limits;
        device
    }

    /// Returns its keys with their values, as `elevon devices` shows them.
    pub fn keys(&self) -> Vec<KeyLine> {
        match self {
            Self::Null(parameters) => parameter::lines(NullParameters::KEYS, parameters),
            Self::Slots(parameters) => parameter::lines(SlotsParameters::KEYS, parameters.as_ref()),
        }
    }
}

impl fmt::Display for Model {
    /// Writes the text that [`parse_model`] parses to this model, with every key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Null(_) => "null",
            Self::Slots(_) => "slots",
        };
        let keys: Vec<String> =
            self.keys().iter().map(|line| format!("{}={}", line.key, line.value)).collect();
        write!(f, "{name}:{}", keys.join(","))
    }
}

/// Parses `MODEL[:key=value,...]`, for example `slots:slots=8,latency=2ms`; keys that are not given
/// have the model's default.
///
/// # Errors
/// There is no such model or key, or a value is not valid.
pub fn parse_model(text: &str) -> Result<Model, TextError> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    match name {
        "null" => NullParameters::parse(parameters).map(Model::Null),
        "slots" => SlotsParameters::parse(parameters).map(Box::new).map(Model::Slots),
        _ => Err(TextError::UnknownName { name: name.into(), known: "null, slots".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use closed_loop::{ClosedLoop, closed_loop};
    use elevon_core::units::{Bytes, Nanos};

    #[test]
    fn models_by_their_text() {
        let text = "slots:slots=8,latency=2ms,bandwidth=500MB/s,size=1GiB,rotational=0,hw_queues=1,queue_depth=128";
        assert_eq!(parse_model(text), Ok(Model::Slots(Box::default())));
        assert_eq!(
            parse_model("null:size=100GiB,latency=0"),
            Ok(Model::Null(NullParameters::default()))
        );
        assert_eq!(parse_model("null"), Ok(Model::Null(NullParameters::default())));
        let slots = SlotsParameters {
            slots: 1,
            latency: Nanos::from_micros(200),
            bandwidth: Bytes::new(1 << 20),
            ..SlotsParameters::default()
        };
        assert_eq!(
            parse_model("slots:slots=1,latency=200us,bandwidth=1MiB/s"),
            Ok(Model::Slots(Box::new(slots)))
        );
    }

    /// The parser accepts the values that are shown, and each key sets only its own value.
    #[test]
    fn keys_shown_are_keys_read() {
        let other = |value: &str| match value {
            "0" => "1",
            size if size.ends_with("GiB") => "8MiB",
            rate if rate.ends_with("/s") => "70MB/s",
            _ => "5",
        };
        for (name, count) in [("null", 7), ("slots", 84)] {
            let model = parse_model(name).unwrap();
            assert_eq!(parse_model(&model.to_string()), Ok(model.clone()));
            let lines = model.keys();
            assert_eq!(lines.len(), count, "{name}");
            for (at, line) in lines.iter().enumerate() {
                let value = match line.key {
                    key if key.ends_with("latency") => "30us",
                    "write_bandwidth" | "seq_bandwidth" | "seq_write_bandwidth" => "70MB/s",
                    "hand_over" | "deliver_late" | "deliver_each" => "30us",
                    "flush_waits" => "0",
                    "max_sectors" => "64",
                    key if key == "disorder" || key.contains("spread_") => "50%",
                    _ => other(&line.value),
                };
                let changed = parse_model(&format!("{name}:{}={value}", line.key)).unwrap();
                assert_eq!(parse_model(&changed.to_string()), Ok(changed.clone()));
                for (n, (before, after)) in lines.iter().zip(changed.keys()).enumerate() {
                    let expected = if n == at { value } else { &before.value };
                    assert_eq!(
                        after.value, expected,
                        "{name}: {} after {}={value}",
                        after.key, line.key
                    );
                }
            }
        }
    }

    #[test]
    fn bad_models_say_what_would_be_right() {
        for (text, error) in [
            ("slot:", "unknown name `slot`; there are null, slots"),
            (
                "null:sise=1GiB",
                "device null: unknown parameter `sise` (did you mean `size`?); there are size, latency, ",
            ),
            (
                "null:size=1",
                "device null: `size=1`: expected a size, a multiple of 4096 bytes, with",
            ),
            ("null:size=9999999TiB", "device null: `size=9999999TiB`: expected a size"),
            ("null:size=1000B", "device null: `size=1000B`: expected a size"),
            (
                "slots:latency=2",
                "device slots: `latency=2`: expected a time with its unit (ns, us, ms, s), as in 66us, from 0 to 3600s",
            ),
            ("slots:latency", "device slots: `latency=`: expected a time"),
            ("slots:bandwidth=500", "device slots: `bandwidth=500`: expected a rate with its unit"),
            ("slots:size=4G", "from 4KiB to 8388608TiB; write 4GB or 4GiB"),
            ("slots:bandwidth=0", "device slots: `bandwidth=0`: expected a rate with its unit"),
            ("slots:slots=0", "device slots: `slots=0`: expected a whole number, from 1 to 4096"),
            ("slots:rotational=yes", "device slots: `rotational=yes`: expected 0 or 1"),
            ("slots:queue_depth=99999999999999999999", "expected a whole number, from 1 to 65536"),
        ] {
            let got = parse_model(text).unwrap_err().to_string();
            assert!(got.contains(error), "{text}: {got}");
        }
    }

    const ONE_MEGABYTE: &str = "slots:slots=3,latency=0,bandwidth=1MB/s";
    /// A device as `elevon calibrate TRACE` may find it.
    const FITTED: &str = "slots:slots=3,base_latency=50us,hand_over=80us,disorder=10%,spread_min=90%,spread_p50=110%,spread_p99=300%";

    /// Little's law holds, throughput hardly falls with depth, and the same random seed gives the
    /// same completions.
    #[test]
    fn invariants_of_every_model() {
        // A server that is handed over serves no process meanwhile.
        let models =
            [("null:latency=10us", 0.99), ("slots:", 0.99), (ONE_MEGABYTE, 0.99), (FITTED, 0.95)];
        for (text, least) in models {
            let run = |depth| {
                closed_loop(
                    &mut parse_model(text).unwrap().build(1),
                    &ClosedLoop { depth, ios: 10_000, ..ClosedLoop::default() },
                )
            };
            let mut last = 0.0;
            for depth in [1, 2, 3, 7, 8, 9, 32] {
                let measured = run(depth);
                assert_eq!((measured.ios, measured.errors), (10_000, 0));
                let little = measured.iops() * measured.mean_latency().get() as f64 / 1e9;
                assert!((measured.mean_in_flight() / little - 1.0).abs() < 0.005, "{text} {depth}");
                assert!(measured.iops() > last * least, "{text} {depth}");
                last = measured.iops();
                assert_eq!(measured, run(depth));
            }
        }
    }
}
