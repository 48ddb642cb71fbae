//! The file of `elevon serve CONFIG.toml`: devices, the exports on them, the tenants that pay for
//! these, and where the server listens.
//!
//! ```toml
//! listen = ["unix:/run/elevon/nbd.sock"]
//!
//! [device.fast]
//! device = "/dev/nvme0n1"
//! scheduler = "aileron"
//!
//! [export.db]
//! device = "fast"
//! start = "0"
//! size = "10GiB"
//!
//! [tenant.db]
//! weight = 400
//! ```
//!
//! All errors are reported at once, one line each, with their places. Cost: O(size of the file).

use std::collections::BTreeMap;

use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::Kernel;
use elevon_core::nearest::did_you_mean;
use elevon_core::units::Bytes;

use crate::diagnostic::{Diagnostic, Problem, Span};
use crate::quantity::{self, Short};
use crate::tenants::{TenantTable, TenantsFile, normal_path, path_names};
use crate::toml_reader::{self, Given, Reader, TomlEntry, Value, whole_number};
use crate::toml_text::quoted;

mod access;
mod device_table;
mod device_tls;
mod guest;
mod pool;
#[cfg(test)]
mod tests;

use access::mode;
pub use access::{SocketModeError, is_owner, socket_mode};
pub use device_table::{
    BUSY_POLL, BusyPollError, DeviceTable, HOLD, OnLossError, PoolPart, busy_poll, on_loss,
};

/// The longest name of an export, in bytes; every client can use such a name.
pub const NAME_MAX: usize = 255;
/// The longest text of NBD in bytes, and so the longest description of an export.
pub(crate) const DESCRIPTION_MAX: usize = 4096;

/// A configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeFile {
    /// Addresses to listen at, in the file's order; none if the key is not given, for a server
    /// that is started with its sockets.
    pub listen: Vec<Given>,
    /// The mode of Unix sockets at which disks are served, up to 0o777.
    pub socket_mode: Option<u32>,
    /// The group of these sockets, by its name or its number.
    pub socket_group: Option<Given>,
    /// Path of the control socket, if there is one.
    pub control: Option<Given>,
    /// Address at which metrics are served, if there is one.
    pub metrics: Option<Given>,
    /// The files of TLS, if it is offered.
    pub tls: Option<TlsTable>,
    /// Connections that may have exports open, of all clients: 1 to [`MAX_CONNECTIONS_MAX`].
    pub max_connections: u32,
    /// Memory for the data of requests of all clients: [`REQUEST_MEMORY_MIN`] or more.
    pub request_memory: Bytes,
    /// The kernel whose rules every device's stack follows.
    pub kernel: Kernel,
    /// The devices and pools, in the file's order; at least one. A device that is in a pool is a
    /// part of that.
    pub devices: Vec<DeviceTable>,
    /// The exports, in the file's order; at least one.
    pub exports: Vec<ExportTable>,
    /// The tables of tenants, in the file's order; each path occurs once.
    pub tenants: Vec<TenantTable>,
}

/// The table `[tls]`: either `certificates`, or `certificate` and `key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsTable {
    /// The place of the table.
    pub place: Span,
    /// A folder with files of the usual names.
    pub certificates: Option<Given>,
    /// The server's certificate.
    pub certificate: Option<Given>,
    /// Its key.
    pub key: Option<Given>,
    /// The authorities that sign clients' certificates.
    pub client_ca: Option<Given>,
    /// Clients without TLS are refused; true unless given.
    pub required: bool,
    /// Connections of one client, by the names in its certificate, that may have exports open.
    pub max_connections: Option<u32>,
}

/// The table `tls` of a device that is a disk of another server: either `certificates`, or `ca`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceTlsTable {
    /// A folder with files of the usual names.
    pub certificates: Option<Given>,
    /// The authorities that sign the server's certificate.
    pub ca: Option<Given>,
    /// The own certificate, for a server that asks for one.
    pub certificate: Option<Given>,
    /// Its key; given if the certificate is.
    pub key: Option<Given>,
    /// The name that the server's certificate has to have.
    pub hostname: Option<Given>,
}

/// One `[export.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportTable {
    /// The name that clients ask for.
    pub name: String,
    /// The place of the table.
    pub place: Span,
    /// Index of its device, or of the pool of that, in [`ServeFile::devices`].
    pub device: usize,
    /// The name of its device, if that is in a pool.
    pub part: Option<String>,
    /// First byte of the device.
    pub start: u64,
    /// Bytes; the rest of the device if not given.
    pub size: Option<u64>,
    /// The place of `size`, or of `start`, or of the table.
    pub range: Span,
    /// Writes are refused.
    pub read_only: bool,
    /// The tenant that pays, as a path; empty for the root.
    pub tenant: String,
    /// A text for people, which clients are told.
    pub description: Option<String>,
    /// The clients that may open it: names as their certificates have them, or `uid:` and `gid:`
    /// with the user or the group of a process; empty: everybody.
    pub clients: Vec<Given>,
    /// Addresses at which it is reached, and nothing else is; empty: those of
    /// [`ServeFile::listen`].
    pub listen: Vec<Given>,
    /// What is spoken there.
    pub protocol: DiskProtocol,
    /// The most urgent priority that requests may ask for; none is best effort, level 4.
    pub ioprio: IoPrio,
    /// The mode of the Unix sockets of `listen`; [`ServeFile::socket_mode`] if not given.
    pub socket_mode: Option<u32>,
    /// The group of these sockets; [`ServeFile::socket_group`] if not given.
    pub socket_group: Option<Given>,
    /// Connections that may have it open; up to [`ServeFile::max_connections`] if not given.
    pub max_connections: Option<u32>,
}

impl ExportTable {
    /// Returns a table in which nothing is given.
    fn empty(name: &str, place: Span) -> Self {
        Self {
            name: name.to_owned(),
            range: place.clone(),
            place,
            device: 0,
            part: None,
            start: 0,
            size: None,
            read_only: false,
            tenant: String::new(),
            description: None,
            clients: Vec::new(),
            listen: Vec::new(),
            protocol: DiskProtocol::Nbd,
            ioprio: IoPrio::NONE,
            socket_mode: None,
            socket_group: None,
            max_connections: None,
        }
    }
}

/// The protocol by which an export is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskProtocol {
    /// NBD.
    #[default]
    Nbd,
    /// vhost-user-blk, which guests speak, at one Unix socket.
    Vhost,
}

/// Returns the description of an export.
fn description(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<String> {
    let text = reader.text(key, entry)?.value;
    if text.len() > DESCRIPTION_MAX {
        let message = format!("{} bytes; a text of NBD has at most {DESCRIPTION_MAX}", text.len());
        reader.complain(entry.at.start, key, Problem::OutOfRange.because(message));
    }
    Some(text)
}

/// Parses the text of a file. `file` is its name in complaints. Returns either the configuration or
/// all complaints.
///
/// # Errors
/// All complaints, each with its place in the file. At least one.
pub fn parse(file: &str, text: &str) -> Result<ServeFile, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let mut draft = Draft::default();
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    let entries = toml_reader::entries(table.get_ref());
    // Settings are read under the kernel's rules, wherever in the file it is named.
    for entry in entries.iter().filter(|entry| entry.name == "kernel") {
        draft.take_kernel(&mut reader, entry);
    }
    for entry in entries.iter().filter(|entry| entry.name != "kernel") {
        draft.take(&mut reader, entry);
    }
    match draft.devices.len() {
        0 | 1 => _ = reader.one_device(),
        _ => reader.no_device(EVERY_DEVICE),
    }
    draft.finish(reader)
}

/// The reason why a line of a tenant names no device of a server with several.
pub const EVERY_DEVICE: &str =
    "a tenant's setting holds on every device of the server; leave the device out";

/// The configuration while it is read.
#[derive(Default)]
struct Draft {
    listen: Option<Vec<Given>>,
    socket_mode: Option<u32>,
    socket_group: Option<Given>,
    control: Option<Given>,
    metrics: Option<Given>,
    tls: Option<TlsTable>,
    max_connections: Option<u32>,
    request_memory: Option<Bytes>,
    kernel: Kernel,
    devices: Vec<DeviceTable>,
    /// Pools, each with the names of its devices.
    pools: Vec<(DeviceTable, Vec<Given>)>,
    exports: Vec<(ExportTable, Option<Given>)>,
    tenants: TenantsFile,
}

const KEYS: [&str; 13] = [
    "listen",
    "socket_mode",
    "socket_group",
    "control",
    "metrics",
    "tls",
    "max_connections",
    "request_memory",
    "kernel",
    "device",
    "pool",
    "export",
    "tenant",
];
const TLS_KEYS: [&str; 6] =
    ["certificates", "certificate", "key", "client_ca", "required", "max_connections"];
const EXPORT_KEYS: [&str; 13] = [
    "device",
    "start",
    "size",
    "read_only",
    "tenant",
    "description",
    "clients",
    "listen",
    "vhost",
    "ioprio",
    "socket_mode",
    "socket_group",
    "max_connections",
];

/// Connections that may have exports open, of all clients, unless told otherwise.
pub const MAX_CONNECTIONS: u32 = 1024;

/// The most of them that can be allowed.
pub const MAX_CONNECTIONS_MAX: u32 = 65_536;

/// Memory for the data of requests of all clients, beyond what each may have, unless told
/// otherwise.
pub const REQUEST_MEMORY: Bytes = Bytes::new(1 << 30);

/// The least that can be allowed.
pub const REQUEST_MEMORY_MIN: Bytes = Bytes::new(128 << 20);

/// Parses an amount of memory for the data of requests.
///
/// # Errors
/// The text is none, or less than [`REQUEST_MEMORY_MIN`].
pub fn request_memory(text: &str) -> Result<Bytes, RequestMemoryError> {
    quantity::size(text, Short::Nothing)
        .ok()
        .filter(|size| *size >= REQUEST_MEMORY_MIN)
        .ok_or(RequestMemoryError)
}

/// A text that is no memory for the data of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a size with its unit, 128MiB or more, such as 1GiB")]
pub struct RequestMemoryError;

impl Draft {
    fn take_kernel(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        let Some(given) = reader.text("kernel", entry) else { return };
        match Kernel::from_name(&given.value) {
            Some(kernel) => self.kernel = kernel,
            None => {
                let known: Vec<&str> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
                let instead = Kernel::instead_of(&given.value);
                let message = format!(
                    "{}: not modelled; there are {}; {instead}",
                    given.value,
                    known.join(", ")
                );
                reader.complain(entry.at.start, "kernel", Problem::NoChoice.because(message));
            }
        }
    }

    fn take(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        match (entry.name, entry.value) {
            ("listen", _) => self.listen = Some(reader.texts("listen", entry)),
            ("socket_mode", _) => self.socket_mode = mode(reader, "socket_mode", entry),
            ("socket_group", _) => self.socket_group = reader.text("socket_group", entry),
            ("control", _) => self.control = reader.text("control", entry),
            ("metrics", _) => self.metrics = reader.text("metrics", entry),
            ("tls", Value::Table(table)) => self.take_tls(reader, entry, table),
            ("max_connections", _) => {
                self.max_connections = max_connections(reader, entry.name, entry);
            }
            ("request_memory", _) => {
                let Some(given) = reader.text(entry.name, entry) else { return };
                match request_memory(&given.value) {
                    Ok(memory) => self.request_memory = Some(memory),
                    Err(error) => reader.complain(entry.at.start, entry.name, error.to_string()),
                }
            }
            ("tls", _) => reader.complain(entry.at.start, "tls", "expected a table: [tls]"),
            ("device", Value::Table(table)) => {
                for entry in toml_reader::entries(table) {
                    self.take_device(reader, &entry);
                }
                self.devices.sort_by_key(|device| (device.place.line, device.place.column));
            }
            ("pool", Value::Table(table)) => {
                for entry in toml_reader::entries(table) {
                    self.take_pool(reader, &entry);
                }
            }
            ("export", Value::Table(table)) => {
                for entry in toml_reader::entries(table) {
                    self.take_export(reader, &entry);
                }
                self.exports.sort_by_key(|(export, _)| (export.place.line, export.place.column));
            }
            ("tenant", Value::Table(table)) => {
                let (rules, mut known) = (self.kernel.rules(), BTreeMap::new());
                for entry in toml_reader::entries(table) {
                    self.tenants.take_tenant(reader, &rules, &entry, &mut known);
                }
                self.tenants.tenants.sort_by_key(|tenant| (tenant.place.line, tenant.place.column));
            }
            ("device" | "pool" | "export" | "tenant", _) => {
                let message = format!("expected tables: [{}.NAME]", entry.name);
                reader.complain(entry.at.start, entry.name, message);
            }
            ("change", _) => {
                let message = "a server has no end to count from; set it when it is time, with `elevon ctl set`";
                reader.complain(entry.key.start, "change", Problem::Unsupported.because(message));
            }
            (name, _) => reader.unknown(&quoted(name), entry, &KEYS),
        }
    }

    fn take_tls(
        &mut self,
        reader: &mut Reader<'_>,
        entry: &TomlEntry<'_>,
        table: &toml::de::DeTable<'_>,
    ) {
        let place = reader.place(entry.key.start);
        let mut found = TlsTable {
            place,
            certificates: None,
            certificate: None,
            key: None,
            client_ca: None,
            required: true,
            max_connections: None,
        };
        let before = reader.complaints.len();
        for inner in toml_reader::entries(table) {
            let key = format!("tls.{}", quoted(inner.name));
            match inner.name {
                "certificates" => found.certificates = reader.text(&key, &inner),
                "certificate" => found.certificate = reader.text(&key, &inner),
                "key" => found.key = reader.text(&key, &inner),
                "client_ca" => found.client_ca = reader.text(&key, &inner),
                "required" => found.required = reader.flag(&key, &inner),
                "max_connections" => found.max_connections = max_connections(reader, &key, &inner),
                _ => reader.unknown(&key, &inner, &TLS_KEYS),
            }
        }
        let is_given =
            (found.certificates.is_some(), found.certificate.is_some(), found.key.is_some());
        let wrong = match is_given {
            _ if reader.complaints.len() > before => None,
            (true, false, false) if found.client_ca.is_none() => None,
            (false, true, true) => None,
            (true, ..) => Some(
                "certificates is a folder that has all files; leave certificate, key and client_ca out",
            ),
            (false, true, false) => Some("key is missing: the private key of the certificate"),
            (false, false, true) => Some("certificate is missing: the certificate of the key"),
            (false, false, false) => {
                Some("certificate and key are missing; or certificates, a folder")
            }
        };
        if let Some(message) = wrong {
            reader.complain(entry.key.start, "tls", Problem::Missing.because(message));
        }
        self.tls = Some(found);
    }

    fn take_export(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        let scope = format!("export.{}", quoted(entry.name));
        let Value::Table(table) = entry.value else {
            return reader.complain(entry.key.start, &scope, "expected a table: [export.NAME]");
        };
        if entry.name.len() > NAME_MAX || entry.name.contains(char::is_control) {
            let message = format!("a name has at most {NAME_MAX} bytes and no control characters");
            return reader.complain(entry.key.start, &scope, message);
        }
        let mut found = ExportTable::empty(entry.name, reader.place(entry.key.start));
        let (mut device, mut tenant, mut start, mut vhost) = (None, None, None, None);
        for inner in toml_reader::entries(table) {
            let key = format!("{scope}.{}", quoted(inner.name));
            match inner.name {
                "device" => device = reader.text(&key, &inner),
                "start" => {
                    found.start = bytes(reader, &key, &inner).unwrap_or_default();
                    start = Some(reader.place(inner.at.start));
                }
                "size" => {
                    found.size = bytes(reader, &key, &inner);
                    if found.size == Some(0) {
                        reader.complain(
                            inner.at.start,
                            &key,
                            Problem::OutOfRange.because("0: a disk has some bytes"),
                        );
                    }
                    found.range = reader.place(inner.at.start);
                }
                "read_only" => found.read_only = reader.flag(&key, &inner),
                "tenant" => tenant = reader.text(&key, &inner).map(|given| (given, inner.at.start)),
                "description" => found.description = description(reader, &key, &inner),
                "clients" => {
                    let none = "nobody could open it; leave the key out for everybody";
                    found.clients = some_texts(reader, &key, &inner, none);
                }
                "listen" => found.listen = some_texts(reader, &key, &inner, UNREACHABLE),
                "vhost" => vhost = reader.text(&key, &inner),
                "ioprio" => found.ioprio = guest::ioprio(reader, &key, &inner),
                "socket_mode" => found.socket_mode = mode(reader, &key, &inner),
                "socket_group" => found.socket_group = reader.text(&key, &inner),
                "max_connections" => found.max_connections = max_connections(reader, &key, &inner),
                _ => reader.unknown(&key, &inner, &EXPORT_KEYS),
            }
        }
        if let Some(vhost) = vhost {
            guest::take_vhost(reader, vhost, &mut found);
        }
        check_sockets(reader, &scope, entry, &found);
        if let (None, Some(place)) = (found.size, start) {
            found.range = place;
        }
        let (path, at, key) = match &tenant {
            Some((given, at)) => (given.value.as_str(), *at, format!("{scope}.tenant")),
            None => (entry.name, entry.key.start, scope),
        };
        // The root pays for a default export, which has no name.
        let path = if path_names(path).is_ok_and(|names| names.is_empty()) {
            Ok(String::new())
        } else {
            normal_path(path)
        };
        match path {
            Ok(path) => found.tenant = path,
            Err(message) => reader.complain(at, &key, message),
        }
        self.exports.push((found, device));
    }

    fn finish(self, mut reader: Reader<'_>) -> Result<ServeFile, Vec<Diagnostic>> {
        let Self {
            listen,
            control,
            metrics,
            tls,
            max_connections,
            request_memory,
            kernel,
            pools,
            exports,
            tenants,
            ..
        } = self;
        let mut complaints = std::mem::take(&mut reader.complaints);
        let devices = pool::joined(self.devices, pools, &mut complaints);
        complain_of_missing(
            &reader,
            listen.as_deref(),
            !devices.is_empty(),
            !exports.is_empty(),
            &mut complaints,
        );
        let exports: Vec<ExportTable> = exports
            .into_iter()
            .filter_map(|(export, device)| match device_of(&export, device, &devices) {
                Ok((device, part)) => Some(ExportTable { device, part, ..export }),
                Err(complaint) => {
                    complaints.push(complaint);
                    None
                }
            })
            .collect();
        complain_of_unknown_clients(tls.as_ref(), &exports, &mut complaints);
        if complaints.is_empty() {
            let (listen, tenants) = (listen.unwrap_or_default(), tenants.tenants);
            return Ok(ServeFile {
                listen,
                socket_mode: self.socket_mode,
                socket_group: self.socket_group,
                control,
                metrics,
                tls,
                max_connections: max_connections.unwrap_or(MAX_CONNECTIONS),
                request_memory: request_memory.unwrap_or(REQUEST_MEMORY),
                kernel,
                devices,
                exports,
                tenants,
            });
        }
        complaints.sort_by_key(|complaint| (complaint.line, complaint.column));
        Err(complaints)
    }
}

/// Complains of a file that has nothing to listen at, no device or no export.
fn complain_of_missing(
    reader: &Reader<'_>,
    listen: Option<&[Given]>,
    has_device: bool,
    has_export: bool,
    complaints: &mut Vec<Diagnostic>,
) {
    let is_listen_wrong = complaints.iter().any(|complaint| complaint.key == "listen");
    let mut missing = |key: &str, message: &str| {
        complaints.push(reader.place(0).diagnostic(key, Problem::Missing.because(message)));
    };
    // Of a value that is wrong there is a complaint already.
    if listen.is_some_and(<[Given]>::is_empty) && !is_listen_wrong {
        missing("listen", "nothing to listen at; write listen = [\"unix:/run/elevon/nbd.sock\"]");
    }
    if !has_device {
        missing("device", "no device; write [device.NAME] and below it device = \"./disk.img\"");
    }
    if !has_export {
        missing(
            "export",
            "no export; write [export.NAME] and below it device = \"NAME\" of a device",
        );
    }
}

/// Complains of keys that tell clients apart, if clients have no certificates.
fn complain_of_unknown_clients(
    tls: Option<&TlsTable>,
    exports: &[ExportTable],
    complaints: &mut Vec<Diagnostic>,
) {
    let knows_clients =
        tls.is_some_and(|tls| tls.client_ca.is_some() || tls.certificates.is_some());
    let named = exports
        .iter()
        .filter_map(|export| export.clients.iter().find(|given| !is_owner(&given.value)));
    for given in named.filter(|_| !knows_clients) {
        let message = "names of clients come from their certificates; give client_ca in [tls]";
        complaints.push(given.place.diagnostic(&given.key, Problem::Missing.because(message)));
    }
    if let Some(tls) = tls.filter(|tls| tls.max_connections.is_some() && !knows_clients) {
        let message = "clients are told apart by their certificates; give client_ca";
        complaints
            .push(tls.place.diagnostic("tls.max_connections", Problem::Missing.because(message)));
    }
}

/// Returns the index of an export's device: the only one, if the export names none. Of one in a
/// pool it is that of the pool, with the name of the device.
fn device_of(
    export: &ExportTable,
    given: Option<Given>,
    devices: &[DeviceTable],
) -> Result<(usize, Option<String>), Diagnostic> {
    let key = format!("export.{}.device", quoted(&export.name));
    let names = || devices.iter().flat_map(pool::names);
    match given {
        Some(given) => pool::find(devices, &given.value).ok_or_else(|| {
            let meant = did_you_mean(&given.value, names());
            let message = format!(
                "{}: no such device{meant}; there is no [device.{}]",
                given.value,
                quoted(&given.value)
            );
            given.place.diagnostic(&key, Problem::Unknown.because(message))
        }),
        None if names().count() <= 1 => {
            Ok((0, devices.first().and_then(|only| Some(only.parts.first()?.name.clone()))))
        }
        None => {
            let message =
                format!("which device? There are {}", names().collect::<Vec<_>>().join(", "));
            Err(export.place.diagnostic(&key, Problem::Missing.because(message)))
        }
    }
}

/// Complains of keys about the sockets of an export that has none.
fn check_sockets(
    reader: &mut Reader<'_>,
    scope: &str,
    entry: &TomlEntry<'_>,
    export: &ExportTable,
) {
    if export.listen.is_empty() && (export.socket_mode.is_some() || export.socket_group.is_some()) {
        let message = "socket_mode and socket_group of an export are those of its own listen, which it has not";
        reader.complain(entry.key.start, scope, Problem::Missing.because(message));
    }
}

/// What an empty list of addresses of an export means.
const UNREACHABLE: &str =
    "it could not be reached; leave the key out for the server's own addresses";

/// Returns the texts of a key, of which there has to be one; `none` says what an empty list means.
fn some_texts(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>, none: &str) -> Vec<Given> {
    let texts = reader.texts(key, entry);
    if matches!(entry.value, Value::Array(all) if all.is_empty()) {
        reader.complain(entry.at.start, key, Problem::OutOfRange.because(none));
    }
    texts
}

/// Returns a number of connections.
fn max_connections(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<u32> {
    let count = reader.number(key, entry)?;
    let allowed =
        u32::try_from(count).ok().filter(|count| (1..=MAX_CONNECTIONS_MAX).contains(count));
    if allowed.is_none() {
        let message = format!("expected a number from 1 to {MAX_CONNECTIONS_MAX}");
        reader.complain(entry.at.start, key, Problem::OutOfRange.because(message));
    }
    allowed
}

/// Returns a number of bytes: a size with its unit, or a number.
fn bytes(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<u64> {
    let size = match entry.value {
        Value::String(text) => quantity::size(text, Short::Nothing).ok().map(|size| size.get()),
        value => whole_number(value).and_then(|number| number.parse().ok()),
    };
    if size.is_none() {
        reader.complain(
            entry.at.start,
            key,
            "expected bytes: a number, or a size with its unit, such as \"10GiB\"",
        );
    }
    size
}
