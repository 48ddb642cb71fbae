//! The tables `[device.NAME]` and `[pool.NAME]`.

use elevon_core::units::Nanos;

use super::DeviceTlsTable;
use super::Draft;
use super::device_tls::device_tls;
use crate::cgroup::{FileOwner, Setting};
use crate::diagnostic::{Problem, Span};
use crate::quantity;
use crate::tenants::settings;
use crate::toml_reader::{self, Given, Reader, TomlEntry, Value};
use crate::toml_text::quoted;

/// One `[device.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTable {
    /// Its name, by which exports name it.
    pub name: String,
    /// The place of the table.
    pub place: Span,
    /// What is served: a path, or a simulated device as `--device` takes it.
    pub device: Given,
    /// The bytes of a file are served even if they are an image (`format = "raw"`).
    pub is_raw: bool,
    /// The scheduler with tunables.
    pub scheduler: Option<Given>,
    /// What comes first under `aileron`: `shares` or `throughput`.
    pub prefer: Option<Given>,
    /// Queue settings, `KEY=VALUE` each; the key `io_timeout` is among them.
    pub set: Vec<Given>,
    /// Faults of a simulated device.
    pub fault: Vec<Given>,
    /// The seed of a simulated device's random choices.
    pub seed: u64,
    /// Bypass the page cache of the machine.
    pub direct: bool,
    /// The page cache before the device, `SIZE[,write-back|write-through]`.
    pub cache: Option<Given>,
    /// For how long the device's thread polls before it sleeps; at most `BUSY_POLL_MAX`.
    pub busy_poll: Nanos,
    /// Connections to the server whose disk it is, with the place of the key.
    pub connections: Option<(u32, Span)>,
    /// For how long requests are held if that server is gone, with the place of the key; 0: they
    /// fail.
    pub on_loss: Option<(Nanos, Span)>,
    /// Other servers of this machine may write that disk as well, by `shared = true`: the place of
    /// the key.
    pub shared: Option<Span>,
    /// TLS towards that server.
    pub tls: Option<DeviceTlsTable>,
    /// Control files of the device, in the file's order.
    pub settings: Vec<Setting>,
    /// The devices of a pool: files and block devices that share its scheduler. None if it is not
    /// a `[pool.NAME]`; then `device` is what is served.
    pub parts: Vec<PoolPart>,
}

/// One `[device.NAME]` that is in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPart {
    /// Its name, by which exports name it.
    pub name: String,
    /// The path of the file or block device.
    pub device: Given,
    /// As of [`DeviceTable::is_raw`].
    pub is_raw: bool,
}

impl DeviceTable {
    /// The seed unless one is given.
    pub const SEED: u64 = 1;

    /// Returns a table in which nothing is given.
    pub(super) fn empty(name: &str, place: Span) -> Self {
        Self {
            name: name.to_owned(),
            device: Given { key: String::new(), value: String::new(), place: place.clone() },
            place,
            is_raw: false,
            scheduler: None,
            prefer: None,
            set: Vec::new(),
            fault: Vec::new(),
            seed: Self::SEED,
            direct: false,
            cache: None,
            busy_poll: BUSY_POLL,
            connections: None,
            on_loss: None,
            shared: None,
            tls: None,
            settings: Vec::new(),
            parts: Vec::new(),
        }
    }
}

const DEVICE_KEYS: [&str; 15] = [
    "device",
    "format",
    "scheduler",
    "prefer",
    "set",
    "io_timeout",
    "fault",
    "seed",
    "direct",
    "cache",
    "busy_poll",
    "connections",
    "on_loss",
    "shared",
    "tls",
];
const POOL_KEYS: [&str; 7] =
    ["devices", "scheduler", "prefer", "set", "io_timeout", "direct", "busy_poll"];

/// The most connections to another server.
const CONNECTIONS_MAX: u64 = 16;

/// For how long the thread of a device polls before it sleeps, unless told otherwise.
pub const BUSY_POLL: Nanos = Nanos::from_micros(50);

/// The longest that it may poll.
const BUSY_POLL_MAX: Nanos = Nanos::from_millis(1);

/// Parses for how long the thread of a device polls before it sleeps: a time with its unit, up to
/// `BUSY_POLL_MAX`.
///
/// # Errors
/// The text is none.
pub fn busy_poll(text: &str) -> Result<Nanos, BusyPollError> {
    quantity::time(text).ok().filter(|time| *time <= BUSY_POLL_MAX).ok_or(BusyPollError)
}

/// For how long requests are held whose server is gone, unless told otherwise.
pub const HOLD: Nanos = Nanos::from_secs(10);

/// The longest time that can be asked for: a day.
pub(super) const HOLD_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// Parses what becomes of requests if the server is gone whose disk it is: `error`, `hold` or
/// `hold=TIME`. Returns for how long they are held.
///
/// # Errors
/// The text is none of these, or the time is 0 or longer than `HOLD_MAX`.
pub fn on_loss(text: &str) -> Result<Nanos, OnLossError> {
    match text.split_once('=') {
        None if text == "error" => Ok(Nanos::ZERO),
        None if text == "hold" => Ok(HOLD),
        Some(("hold", time)) => {
            let time =
                quantity::time(time).ok().filter(|time| (Nanos::new(1)..=HOLD_MAX).contains(time));
            time.ok_or(OnLossError)
        }
        _ => Err(OnLossError),
    }
}

/// A text that does not say what becomes of requests if a server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected error, hold or hold=TIME, a time up to 86400s with its unit, such as hold=60s")]
pub struct OnLossError;

/// A text that does not say for how long to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time from 0 to 1ms with its unit, such as 50us")]
pub struct BusyPollError;

impl Draft {
    pub(super) fn take_device(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        let scope = format!("device.{}", quoted(entry.name));
        let Value::Table(table) = entry.value else {
            return reader.complain(entry.key.start, &scope, "expected a table: [device.NAME]");
        };
        let before = reader.complaints.len();
        let (found, device) = self.device_table(reader, entry, table, &scope);
        match device {
            Some(device) => self.devices.push(DeviceTable { device, ..found }),
            None if reader.complaints.len() > before => {}
            None => {
                let message = "device is missing: what is served, such as device = \"./disk.img\" or \"hdd-7200\"";
                reader.complain(entry.key.start, &scope, Problem::Missing.because(message));
            }
        }
    }

    /// Reads the keys of a device. Returns it without what is served, and that.
    fn device_table(
        &self,
        reader: &mut Reader<'_>,
        entry: &TomlEntry<'_>,
        table: &toml::de::DeTable<'_>,
        scope: &str,
    ) -> (DeviceTable, Option<Given>) {
        let (mut device, mut rest) = (None, Vec::new());
        let mut found = DeviceTable::empty(entry.name, reader.place(entry.key.start));
        for inner in toml_reader::flattened(toml_reader::entries(table)) {
            let key = format!("{scope}.{}", quoted(inner.full_name()));
            match inner.full_name() {
                "device" => device = reader.text(&key, &inner),
                "format" => found.is_raw = read_format(reader, &key, &inner),
                "fault" => found.fault = reader.texts(&key, &inner),
                "seed" => found.seed = reader.number(&key, &inner).unwrap_or_default(),
                "cache" => found.cache = reader.text(&key, &inner),
                "connections" => match reader.number(&key, &inner) {
                    None => {}
                    Some(count @ 1..=CONNECTIONS_MAX) => {
                        found.connections = Some((count as u32, reader.place(inner.at.start)));
                    }
                    Some(_) => {
                        let message = format!("expected a number from 1 to {CONNECTIONS_MAX}");
                        reader.complain(inner.at.start, &key, Problem::OutOfRange.because(message));
                    }
                },
                "on_loss" => {
                    if let Some(given) = reader.text(&key, &inner) {
                        match on_loss(&given.value) {
                            Ok(time) => found.on_loss = Some((time, reader.place(inner.at.start))),
                            Err(error) => reader.complain(inner.at.start, &key, error.to_string()),
                        }
                    }
                }
                "shared" => {
                    let is_shared = reader.flag(&key, &inner);
                    found.shared = is_shared.then(|| reader.place(inner.at.start));
                }
                "tls" => found.tls = device_tls(reader, &key, &inner),
                name if crate::cgroup::find(name).is_some() => rest.push(inner),
                _ if read_queue(reader, &key, &inner, &mut found) => {}
                _ => reader.unknown(&key, &inner, &DEVICE_KEYS),
            }
        }
        // Its lines name this device, whatever those of others name.
        let others = std::mem::take(&mut reader.devices);
        found.settings =
            settings(reader, &self.kernel.rules(), scope, Some(FileOwner::Device), rest);
        reader.one_device();
        reader.devices = others;
        (found, device)
    }

    pub(super) fn take_pool(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        let scope = format!("pool.{}", quoted(entry.name));
        let Value::Table(table) = entry.value else {
            return reader.complain(entry.key.start, &scope, "expected a table: [pool.NAME]");
        };
        let before = reader.complaints.len();
        let mut found = DeviceTable::empty(entry.name, reader.place(entry.key.start));
        let (mut names, mut rest) = (None, Vec::new());
        for inner in toml_reader::flattened(toml_reader::entries(table)) {
            let key = format!("{scope}.{}", quoted(inner.full_name()));
            match inner.full_name() {
                "devices" => names = Some(reader.texts(&key, &inner)),
                name if crate::cgroup::find(name).is_some() => rest.push(inner),
                _ if read_queue(reader, &key, &inner, &mut found) => {}
                _ => reader.unknown(&key, &inner, &POOL_KEYS),
            }
        }
        let others = std::mem::take(&mut reader.devices);
        found.settings =
            settings(reader, &self.kernel.rules(), &scope, Some(FileOwner::Device), rest);
        reader.one_device();
        reader.devices = others;
        match names {
            Some(names) if !names.is_empty() => self.pools.push((found, names)),
            _ if reader.complaints.len() > before => {}
            _ => {
                let message = "devices is missing: the names of its devices, such as devices = [\"a\", \"b\"]";
                reader.complain(entry.key.start, &scope, Problem::Missing.because(message));
            }
        }
    }
}

/// Reads a key of the queue of a device or a pool. Returns false if it is another.
fn read_queue(
    reader: &mut Reader<'_>,
    key: &str,
    entry: &TomlEntry<'_>,
    found: &mut DeviceTable,
) -> bool {
    match entry.full_name() {
        "scheduler" => found.scheduler = reader.text(key, entry),
        "prefer" => found.prefer = read_prefer(reader, key, entry),
        "set" => found.set.extend(reader.texts(key, entry)),
        "io_timeout" => found.set.extend(read_io_timeout(reader, key, entry)),
        "direct" => found.direct = reader.flag(key, entry),
        "busy_poll" => {
            if let Some(given) = reader.text(key, entry) {
                match busy_poll(&given.value) {
                    Ok(time) => found.busy_poll = time,
                    Err(error) => reader.complain(entry.at.start, key, error.to_string()),
                }
            }
        }
        _ => return false,
    }
    true
}

/// Returns the queue setting `io_timeout`, which is in milliseconds.
fn read_io_timeout(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<Given> {
    let given = reader.text(key, entry)?;
    let time = quantity::time(&given.value)
        .ok()
        .filter(|time| *time == Nanos::from_millis(time.as_millis()));
    if time.is_none() {
        let message = "expected a time in whole milliseconds with its unit, such as \"60s\"";
        reader.complain(entry.at.start, key, message);
    }
    Some(Given { value: format!("io_timeout={}", time?.as_millis()), ..given })
}

/// Returns true if the bytes of a file are to be served whatever they are.
fn read_format(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> bool {
    let Some(given) = reader.text(key, entry) else { return false };
    let is_raw = given.value == "raw";
    if !is_raw {
        let message = format!(
            "{}: expected \"raw\", which serves the bytes of the file as they are",
            given.value
        );
        reader.complain(entry.at.start, key, Problem::NoChoice.because(message));
    }
    is_raw
}

/// Returns what comes first, shares or throughput.
fn read_prefer(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<Given> {
    let given = reader.text(key, entry)?;
    let is_known = ["shares", "throughput"].contains(&given.value.as_str());
    if !is_known {
        reader.complain(
            entry.at.start,
            key,
            Problem::Malformed.because("expected \"shares\" or \"throughput\""),
        );
    }
    is_known.then_some(given)
}
