//! What the threads of a server share: exports, devices and connections.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use elevon_core::units::Bytes;
use elevon_result::number::counted;

use crate::device::devices::Devices;
use crate::device::message::Message;
use crate::device::request_memory::RequestMemory;
use crate::event::Event;
use crate::log::{Field, Level, Log, Record, Window};
use crate::net::connected::{Connected, next_number};
use crate::net::export::{NotOpened, ServedExport, find};
use crate::net::gate::{Gate, OnGrown};
use crate::net::listen::Socket;
use crate::net::opened::Opened;
use crate::net::refused::{ConnectionRefusal, RefusedConnections};
use crate::net::room;
use crate::net::tls::{Identity, Tls};

/// How often the end of the server, and that of connections which were asked to end, is looked for.
pub(crate) const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Connections that have not opened an export. If there are more, the oldest of them is cut.
const NEGOTIATING: usize = 256;

/// How long clients in flight are waited for when the server ends or an export is drained.
const GRACE: Duration = Duration::from_secs(10);

/// How many connections may have exports open, and what memory they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All of them.
    pub all: u32,
    /// Those of one client, told by the names in its certificate; one without names has no such
    /// limit.
    pub of_client: Option<u32>,
    /// Memory for the data of requests of all of them, beyond the 512 KiB that each may have.
    pub request_memory: Bytes,
}

type Connections = BTreeMap<u32, Connected>;

/// What the threads of a server share.
pub(crate) struct Shared {
    exports: RwLock<Arc<Vec<ServedExport>>>,
    tls: RwLock<Option<Arc<Tls>>>,
    limits: RwLock<ConnectionLimits>,
    memory: RequestMemory,
    pub(crate) devices: Devices,
    pub(crate) refused: RefusedConnections,
    /// `None` once the server has ended.
    connections: Mutex<Option<Connections>>,
    next: AtomicU32,
    is_stopping: AtomicBool,
    notify: fn(Event<'_>),
    log: Log,
    started: Instant,
    warned: Mutex<Window>,
}

const LOCK: &str = "no thread panics with the lock";

impl Shared {
    pub(crate) fn new(
        exports: Vec<ServedExport>,
        devices: Devices,
        (tls, limits, memory): (Option<Tls>, ConnectionLimits, RequestMemory),
        notify: fn(Event<'_>),
        log: Log,
    ) -> Self {
        Self {
            exports: RwLock::new(Arc::new(exports)),
            tls: RwLock::new(tls.map(Arc::new)),
            limits: RwLock::new(limits),
            memory,
            devices,
            refused: RefusedConnections::default(),
            connections: Mutex::new(Some(Connections::new())),
            next: AtomicU32::new(0),
            is_stopping: AtomicBool::new(false),
            notify,
            log,
            started: Instant::now(),
            warned: Mutex::default(),
        }
    }

    pub(crate) fn notify(&self, event: Event<'_>) {
        (self.notify)(event);
    }

    /// Returns the numbers of the connections that have each export open, by its name.
    pub(crate) fn clients_of_exports(&self) -> BTreeMap<String, Vec<u32>> {
        let mut clients = BTreeMap::<String, Vec<u32>>::new();
        for (number, export) in self.connections_of(|_| true, |of| (of.number, of.export.clone())) {
            if let Some(export) = export {
                clients.entry(export).or_default().push(number);
            }
        }
        clients
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().expect(LOCK).as_ref().map_or(0, BTreeMap::len)
    }

    /// Returns something of each connection that `is_meant` chooses, by their numbers.
    pub(crate) fn connections_of<T>(
        &self,
        is_meant: impl Fn(&Connected) -> bool,
        of: impl Fn(&Connected) -> T,
    ) -> Vec<T> {
        let connections = self.connections.lock().expect(LOCK);
        connections
            .iter()
            .flat_map(BTreeMap::values)
            .filter(|known| is_meant(known))
            .map(of)
            .collect()
    }

    /// Makes these the numbers of connections that may have exports open, and their memory.
    pub(crate) fn set_limits(&self, limits: ConnectionLimits) {
        self.memory.set_limit(limits.request_memory);
        *self.limits.write().expect(LOCK) = limits;
    }

    /// Makes this the TLS of connections that come from now on.
    pub(crate) fn set_tls(&self, tls: Option<Tls>) {
        *self.tls.write().expect(LOCK) = tls.map(Arc::new);
    }

    /// Logs how many connections had no line, if the time has passed in which there may be no
    /// more, or at the end.
    pub(crate) fn log_unwarned(&self, is_end: bool) {
        let untold = {
            let mut warned = self.warned.lock().expect(LOCK);
            let is_due = is_end || warned.ends_untold().is_some_and(|at| at <= self.now());
            if is_due { warned.take_untold() } else { 0 }
        };
        if untold > 0 {
            let message = format!(
                "{} failed or were refused; elevon_connections_refused of /metrics has the reasons",
                counted(untold, "more connection")
            );
            let fields = &[("count", Field::Number(untold))];
            self.log(&Record {
                level: Level::Warning,
                target: "connection",
                message: &message,
                fields,
            });
        }
    }

    /// Returns the time since the start, as a window of lines takes it.
    fn now(&self) -> elevon_core::units::Instant {
        elevon_core::units::Instant::new(self.started.elapsed().as_nanos() as u64)
    }

    /// Returns without an error if a client may open an export beside what is open.
    fn has_room(
        &self,
        all: &Connections,
        known: &ServedExport,
        client: &Identity,
    ) -> Result<(), NotOpened> {
        let limits = *self.limits.read().expect(LOCK);
        let open = || all.values().filter(|connected| connected.export.is_some());
        let of_export =
            open().filter(|connected| connected.export.as_deref() == Some(&*known.name)).count();
        let of_client = open().filter(|connected| connected.client.names == client.names).count();
        let of_client_limit = limits.of_client.filter(|_| !client.names.is_empty());
        for (count, limit, key, why) in [
            (open().count(), Some(limits.all), "max_connections", ConnectionRefusal::ServerFull),
            (
                of_export,
                known.max_connections,
                "max_connections of the export",
                ConnectionRefusal::ExportFull,
            ),
            (of_client, of_client_limit, "max_connections of [tls]", ConnectionRefusal::ClientFull),
        ] {
            if let Some(limit) = limit.filter(|limit| count >= *limit as usize) {
                return Err(NotOpened::Full { limit, key, why });
            }
        }
        if known.max_connections.is_some() {
            return Ok(());
        }
        let (most, exports) = (limits.all as usize, self.exports());
        let names = open().filter_map(|connected| connected.export.as_deref());
        let full = |key, why, count: usize| Err(NotOpened::Full { limit: count as u32, key, why });
        if !room::has_room(most, exports.len(), &known.name, names) {
            return full(
                "the export's part of max_connections",
                ConnectionRefusal::ExportFull,
                of_export,
            );
        }
        let tenants: BTreeSet<&str> = exports.iter().map(|export| &*export.tenant_path).collect();
        let paths = || open().map(|connected| &*connected.tenant);
        if !room::has_room(most, tenants.len(), &known.tenant_path, paths()) {
            let of_tenant = paths().filter(|path| *path == known.tenant_path).count();
            return full(
                "its tenant's part of max_connections",
                ConnectionRefusal::TenantFull,
                of_tenant,
            );
        }
        Ok(())
    }

    /// Returns true if the threads of all devices have ended. Cuts the clients of those whose
    /// thread has ended by a fault of its own.
    pub(crate) fn have_devices_ended(&self) -> bool {
        for (number, device) in self.devices.take_failed() {
            let message = format!(
                "device {}: failed: its thread has ended; its clients are cut, and others are served; restart the server to serve it",
                device.name
            );
            let fields = [("device", Field::Text(&device.name))];
            self.log(&Record {
                level: Level::Error,
                target: "device",
                message: &message,
                fields: &fields,
            });
            let exports = self.exports();
            let is_of_device = |name: &str| {
                exports.iter().any(|export| export.name == name && export.device == number)
            };
            self.end_sockets(Shutdown::Both, &|connected| {
                connected.export.as_deref().is_some_and(is_of_device)
            });
        }
        self.devices.have_all_failed()
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Ends the sockets of connections that `which` chooses, and returns how many there are.
    fn end_sockets(&self, how: Shutdown, which: &dyn Fn(&Connected) -> bool) -> usize {
        let connections = self.connections.lock().expect(LOCK);
        let chosen = connections.iter().flatten().filter(|(_, connected)| which(connected));
        let (mut count, mut of_devices) = (0, Vec::new());
        for (&name, connected) in chosen {
            count += 1;
            // Through a Unix socket a peer cannot send any more once nothing is read.
            match (&connected.socket, how) {
                (Socket::Unix(_), Shutdown::Read) if connected.export.is_some() => {
                    of_devices.push(name);
                }
                (socket, how) => socket.shutdown(how),
            }
        }
        drop(connections);
        if !of_devices.is_empty() {
            for (_, device) in self.devices.all() {
                device.send(Message::Finish { clients: of_devices.clone() });
            }
        }
        count
    }

    /// Ends the sockets of connections, and waits until they have left, for [`GRACE`] at most.
    /// Returns how many are still there.
    fn end_sockets_and_wait(&self, how: Shutdown, which: &dyn Fn(&Connected) -> bool) -> usize {
        let began = Instant::now();
        loop {
            let left = self.end_sockets(how, which);
            if left == 0 || began.elapsed() >= GRACE {
                return left;
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }

    /// Asks connections to end: nothing more is read, and what came is answered. Waits until they
    /// have, or for [`GRACE`], after which they are cut, and their requests are not carried out.
    /// Returns, and logs, a line for each export of which some were cut.
    fn finish(&self, which: &dyn Fn(&Connected) -> bool) -> Vec<String> {
        if self.end_sockets_and_wait(Shutdown::Read, which) == 0 {
            return Vec::new();
        }
        self.end_sockets(Shutdown::Both, which);
        let cut: BTreeMap<u32, (String, String)> = {
            let connections = self.connections.lock().expect(LOCK);
            let all = connections.iter().flatten().filter(|(_, of)| which(of));
            all.filter_map(|(&name, of)| Some((name, (of.export.clone()?, of.client.who()))))
                .collect()
        };
        // The clients and their requests, by export.
        let mut counts: BTreeMap<&str, (Vec<&str>, usize)> = BTreeMap::new();
        for (_, device) in self.devices.all() {
            let clients = cut.keys().copied().collect();
            for (name, requests) in
                device.ask(|answer| Message::Abandon { clients, answer }).unwrap_or_default()
            {
                let (export, who) = &cut[&name];
                let of_export = counts.entry(export).or_default();
                of_export.0.push(who);
                of_export.1 += requests;
            }
        }
        let line = |(export, (clients, requests)): (&str, (Vec<&str>, usize))| {
            let message = format!(
                "export {export}: cut {} with {} that the device did not answer in {} s: {}; check the disk behind the device",
                counted(clients.len() as u64, "connection"),
                counted(requests as u64, "request"),
                GRACE.as_secs(),
                first_of(&clients)
            );
            let fields =
                [("export", Field::Text(export)), ("count", Field::Number(requests as u64))];
            self.log(&Record {
                level: Level::Warning,
                target: "connection",
                message: &message,
                fields: &fields,
            });
            message
        };
        counts.into_iter().map(line).collect()
    }

    /// Does as [`Self::finish`], and waits until those that were cut have left: what their device
    /// has begun ends, and so does, behind a page cache, what their limits hold.
    pub(crate) fn finish_all(&self, which: &dyn Fn(&Connected) -> bool) -> Vec<String> {
        let mut lines = self.finish(which);
        if !lines.is_empty() {
            let left = self.end_sockets_and_wait(Shutdown::Both, which);
            if left > 0 {
                let left = counted(left as u64, "connection");
                let line = format!(
                    "{left} still open after the cut: the device does not answer their I/O; check the disk behind it"
                );
                self.log(&Record::new(Level::Warning, "connection", &line));
                lines.push(line);
            }
        }
        lines
    }

    /// Ends every connection.
    pub(crate) fn end(&self) {
        self.finish(&|_| true);
        *self.connections.lock().expect(LOCK) = None;
    }

    /// Tells the connections that have exports open how large these are now, by their names, as far
    /// as that can be told.
    pub(crate) fn tell_sizes(&self, sizes: &BTreeMap<String, u64>) {
        let told = self.connections_of(
            |of| of.on_grown.is_some(),
            |of| of.on_grown.clone().zip(sizes.get(of.export.as_deref()?).copied()),
        );
        for (on_grown, size) in told.into_iter().flatten() {
            on_grown(size);
        }
    }

    /// Changes the exports.
    pub(crate) fn change_exports(&self, change: impl FnOnce(&mut Vec<ServedExport>)) {
        let mut exports = self.exports.write().expect(LOCK);
        let mut new = (**exports).clone();
        change(&mut new);
        *exports = Arc::new(new);
    }
}

impl Gate for Shared {
    fn exports(&self) -> Arc<Vec<ServedExport>> {
        Arc::clone(&self.exports.read().expect(LOCK))
    }

    fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.read().expect(LOCK).clone()
    }

    fn connected(&self, socket: Socket, client: &Arc<Identity>) -> Option<u32> {
        let mut connections = self.connections.lock().expect(LOCK);
        let all = connections.as_mut()?;
        let name = next_number(&self.next, |number| all.contains_key(&number));
        let mut negotiating = all.values().filter(|connected| connected.export.is_none());
        if let Some(oldest) = negotiating.next()
            && negotiating.count() + 1 >= NEGOTIATING
        {
            oldest.socket.shutdown(Shutdown::Both);
            self.refused.count(ConnectionRefusal::TooManyUnopened);
        }
        let connected = Connected {
            number: name,
            socket,
            since: Instant::now(),
            export: None,
            tenant: String::new(),
            client: Arc::clone(client),
            on_grown: None,
        };
        all.insert(name, connected);
        Some(name)
    }

    fn open(
        &self,
        name: u32,
        export: &str,
        client: &Arc<Identity>,
    ) -> Result<ServedExport, NotOpened> {
        let mut connections = self.connections.lock().expect(LOCK);
        let all = connections.as_mut().ok_or(NotOpened::Unknown)?;
        // Under the lock, so that a drain either finds the connection or is found here.
        let known = find(&self.exports(), export, client).ok_or(NotOpened::Unknown)?.clone();
        if known.is_drained
            || self.devices.get(known.device).is_some_and(|device| device.has_failed())
        {
            return Err(NotOpened::Drained);
        }
        self.has_room(all, &known, client)?;
        let connected = all.get_mut(&name).ok_or(NotOpened::Unknown)?;
        connected.tenant.clone_from(&known.tenant_path);
        (connected.export, connected.client) = (Some(known.name.clone()), Arc::clone(client));
        Ok(known)
    }

    fn give(&self, export: &ServedExport, opened: Opened) {
        if let Some(device) = self.devices.get(export.device) {
            device.send(Message::Open(Box::new(opened), device.report()));
        }
    }

    fn watch_size(&self, name: u32, on_grown: OnGrown) {
        if let Some(all) = &mut *self.connections.lock().expect(LOCK)
            && let Some(connected) = all.get_mut(&name)
        {
            connected.on_grown = Some(on_grown);
        }
    }

    fn count_refused(&self, why: ConnectionRefusal) {
        self.refused.count(why);
    }

    fn left(&self, name: u32, error: Option<io::Error>) {
        let left = self.connections.lock().expect(LOCK).as_mut().and_then(|all| all.remove(&name));
        let who = left.as_ref().map_or_else(String::new, Connected::in_words);
        let peer = left.as_ref().map_or_else(String::new, |connected| connected.client.who());
        let (level, message) = match error {
            Some(error) => (
                Level::Warning,
                format!("connection {name} of {who} failed: {error}; the client may connect again"),
            ),
            None => (Level::Debug, format!("connection {name}: ended")),
        };
        let mut fields = vec![("client", Field::Number(name.into())), ("peer", Field::Text(&peer))];
        if let Some((of, export)) =
            left.as_ref().and_then(|connected| Some((connected, connected.export.as_ref()?)))
        {
            fields.extend([("export", Field::Text(export)), ("tenant", Field::Text(&of.tenant))]);
        }
        let record = Record { level, target: "connection", message: &message, fields: &fields };
        if level == Level::Warning { self.warn(&record) } else { self.log(&record) }
    }

    fn log(&self, record: &Record<'_>) {
        (self.log)(record);
    }

    fn warn(&self, record: &Record<'_>) {
        self.log_unwarned(false);
        if self.warned.lock().expect(LOCK).enter(self.now()) {
            self.log(record);
        }
    }
}

/// Returns the names of the first clients, and how many there are besides.
fn first_of(clients: &[&str]) -> String {
    const CLIENTS_TOLD: usize = 3;
    let more = clients.len().saturating_sub(CLIENTS_TOLD);
    let first = clients[..clients.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_connections_have_a_number_when_these_begin_again() {
        let next = AtomicU32::new(u32::MAX - 1);
        let is_used = |number| [u32::MAX, 0, 1].contains(&number);
        assert_eq!([next_number(&next, is_used), next_number(&next, is_used)], [u32::MAX - 1, 2]);
    }
}
