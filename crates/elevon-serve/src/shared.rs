//! What the threads of a server share: exports, devices, connections; and what can be changed while
//! it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use elevon_core::kernel::Kernel;
use elevon_core::nearest::did_you_mean;
use elevon_core::units::{Bytes, TenantId};
use elevon_formats::cgroup::Setting;
use elevon_nbd::Export;
use elevon_result::number::counted;
use elevon_workload::tenants::Tenant;

use crate::admin::view::{DeviceView, unknown_tenant};
use crate::device::client::Charged;
use crate::device::devices::Devices;
use crate::device::request_memory::RequestMemory;
use crate::device::{DeviceHandle, Message};
use crate::log::{Field, Level, Log, Record, Window};
use crate::net::connected::{Connected, ConnectionView, next_number};
use crate::net::listen::Socket;
use crate::net::refused::{ConnectionRefusal, RefusedConnections};
use crate::net::room;
use crate::net::tls::{Identity, Tls};
use crate::server::{Event, Exported, LOOK, PoolPart};

/// Connections that have not opened an export. If there are more, the oldest of them is cut.
const NEGOTIATING: usize = 256;

/// How long clients in flight are waited for when the server ends or an export is drained.
const GRACE: Duration = Duration::from_secs(10);

/// Reads the configuration again and applies what can change. Returns a line for everything that
/// cannot, or, if nothing was applied, the errors.
pub type Reload = Box<dyn FnMut(&Control<'_>) -> Result<Vec<String>, Vec<String>> + Send>;

/// An export as connections know it.
#[derive(Clone, Debug)]
pub(crate) struct ServedExport {
    pub(crate) name: String,
    pub(crate) device: usize,
    pub(crate) charged: Charged,
    pub(crate) tenant_path: String,
    /// The part of a pool that it is on.
    pub(crate) part: Option<PoolPart>,
    pub(crate) told: Export,
    /// Those who may open it; empty: everybody.
    pub(crate) clients: Vec<String>,
    /// The addresses at which alone it is reached; empty: those of the server.
    pub(crate) listen: Vec<String>,
    /// Connections that may have it open, if it has a limit of its own.
    pub(crate) max_connections: Option<u32>,
    /// Nobody may open it.
    pub(crate) is_drained: bool,
}

impl ServedExport {
    pub(crate) fn of(export: Exported) -> Self {
        let base = export.base();
        Self {
            name: export.name,
            device: export.device,
            charged: Charged { tenant: export.tenant, ioprio: export.ioprio, base, size: export.told.size },
            tenant_path: export.tenant_path,
            part: export.part,
            told: export.told,
            clients: export.clients,
            listen: export.listen,
            max_connections: export.max_connections,
            is_drained: false,
        }
    }

    /// Returns true if a client may open it, where it has connected.
    pub(crate) fn is_for(&self, client: &Identity) -> bool {
        client.is_at_one_of(&self.listen) && client.is_one_of(&self.clients)
    }

    fn exported(&self) -> Exported {
        Exported {
            name: self.name.clone(),
            device: self.device,
            tenant: self.charged.tenant,
            tenant_path: self.tenant_path.clone(),
            ioprio: self.charged.ioprio,
            start: self.charged.base - self.part.as_ref().map_or(0, |part| part.base),
            part: self.part.clone(),
            told: self.told.clone(),
            clients: self.clients.clone(),
            listen: self.listen.clone(),
            max_connections: self.max_connections,
        }
    }
}

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

/// Why a client does not get an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// There is none of that name for it any more, or the connection has ended.
    Unknown,
    /// Nobody may open it.
    Drained,
    /// So many connections have something open, which is the limit of this key.
    Full { limit: u32, key: &'static str, why: ConnectionRefusal },
}

/// Returns the export of a name among those that a client may open. The empty name is that of the
/// first, unless one has it.
pub(crate) fn find<'a>(exports: &'a [ServedExport], name: &str, client: &Identity) -> Option<&'a ServedExport> {
    let open = || exports.iter().filter(|export| export.is_for(client));
    open().find(|export| export.name == name).or_else(|| open().next().filter(|_| name.is_empty()))
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
    reload: Mutex<Option<Reload>>,
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
        reload: Option<Reload>,
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
            reload: Mutex::new(reload),
            notify,
            log,
            started: Instant::now(),
            warned: Mutex::default(),
        }
    }

    pub(crate) fn log(&self, record: &Record<'_>) {
        (self.log)(record);
    }

    pub(crate) fn notify(&self, event: Event<'_>) {
        (self.notify)(event);
    }

    /// Returns the exports as they are now.
    pub(crate) fn exports(&self) -> Arc<Vec<ServedExport>> {
        Arc::clone(&self.exports.read().expect(LOCK))
    }

    /// Returns the TLS of connections that come now.
    pub(crate) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.read().expect(LOCK).clone()
    }

    /// Takes a connection, and returns its number; `None` if the server has ended. A client that
    /// opens connections and does nothing on them can only cut others that do nothing.
    pub(crate) fn connected(&self, socket: Socket, client: &Arc<Identity>) -> Option<u32> {
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
        let (since, client) = (Instant::now(), Arc::clone(client));
        let connected = Connected { number: name, socket, since, export: None, tenant: String::new(), client };
        all.insert(name, connected);
        Some(name)
    }

    /// A connection has ended, with an error or as it should.
    pub(crate) fn left(&self, name: u32, error: Option<io::Error>) {
        let left = self.connections.lock().expect(LOCK).as_mut().and_then(|all| all.remove(&name));
        let who = left.as_ref().map_or_else(String::new, Connected::in_words);
        let peer = left.as_ref().map_or_else(String::new, |connected| connected.client.who());
        let (level, message) = match error {
            Some(error) => (Level::Warning, format!("connection {name}: {error}; it is that of {who}")),
            None => (Level::Debug, format!("connection {name}: ended")),
        };
        let mut fields = vec![("client", Field::Number(name.into())), ("peer", Field::Text(&peer))];
        if let Some((of, export)) = left.as_ref().and_then(|connected| Some((connected, connected.export.as_ref()?))) {
            fields.extend([("export", Field::Text(export)), ("tenant", Field::Text(&of.tenant))]);
        }
        let record = Record { level, target: "connection", message: &message, fields: &fields };
        if level == Level::Warning { self.warn(&record) } else { self.log(&record) }
    }

    /// Logs what a connection did, a few lines in a time: a client can make as many as it wants.
    pub(crate) fn warn(&self, record: &Record<'_>) {
        self.tell_unwarned(false);
        if self.warned.lock().expect(LOCK).enter(self.now()) {
            self.log(record);
        }
    }

    /// Logs how many connections had no line, if the time has passed in which there may be no
    /// more, or at the end.
    pub(crate) fn tell_unwarned(&self, is_end: bool) {
        let untold = {
            let mut warned = self.warned.lock().expect(LOCK);
            let is_due = is_end || warned.ends_untold().is_some_and(|at| at <= self.now());
            if is_due { warned.take_untold() } else { 0 }
        };
        if untold > 0 {
            let message = format!("{} failed or had to be refused", counted(untold, "more connection"));
            let fields = &[("count", Field::Number(untold))];
            self.log(&Record { level: Level::Warning, target: "connection", message: &message, fields });
        }
    }

    /// Returns the time since the start, as a window of lines takes it.
    fn now(&self) -> elevon_core::units::Instant {
        elevon_core::units::Instant::new(self.started.elapsed().as_nanos() as u64)
    }

    /// A connection opens an export, if that was not drained or removed meanwhile and has room.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn open(&self, name: u32, export: &str, client: &Arc<Identity>) -> Result<ServedExport, NotOpened> {
        let mut connections = self.connections.lock().expect(LOCK);
        let all = connections.as_mut().ok_or(NotOpened::Unknown)?;
        // Under the lock, so that a drain either finds the connection or is found here.
        let known = find(&self.exports(), export, client).ok_or(NotOpened::Unknown)?.clone();
        if known.is_drained || self.devices.get(known.device).is_some_and(|device| device.has_failed()) {
            return Err(NotOpened::Drained);
        }
        self.has_room(all, &known, client)?;
        let connected = all.get_mut(&name).ok_or(NotOpened::Unknown)?;
        connected.tenant.clone_from(&known.tenant_path);
        (connected.export, connected.client) = (Some(known.name.clone()), Arc::clone(client));
        Ok(known)
    }

    /// Returns without an error if a client may open an export beside what is open.
    fn has_room(&self, all: &Connections, known: &ServedExport, client: &Identity) -> Result<(), NotOpened> {
        let limits = *self.limits.read().expect(LOCK);
        let open = || all.values().filter(|connected| connected.export.is_some());
        let of_export = open().filter(|connected| connected.export.as_deref() == Some(&*known.name)).count();
        let of_client = open().filter(|connected| connected.client.names == client.names).count();
        let of_client_limit = limits.of_client.filter(|_| !client.names.is_empty());
        for (count, limit, key, why) in [
            (open().count(), Some(limits.all), "max_connections", ConnectionRefusal::ServerFull),
            (of_export, known.max_connections, "max_connections of the export", ConnectionRefusal::ExportFull),
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
            return full("the export's part of max_connections", ConnectionRefusal::ExportFull, of_export);
        }
        let tenants: BTreeSet<&str> = exports.iter().map(|export| &*export.tenant_path).collect();
        let paths = || open().map(|connected| &*connected.tenant);
        if !room::has_room(most, tenants.len(), &known.tenant_path, paths()) {
            let of_tenant = paths().filter(|path| *path == known.tenant_path).count();
            return full("its tenant's part of max_connections", ConnectionRefusal::TenantFull, of_tenant);
        }
        Ok(())
    }

    /// Returns true if the threads of all devices have ended. Cuts the clients of those whose
    /// thread has ended by a fault of its own.
    pub(crate) fn have_devices_ended(&self) -> bool {
        for (number, device) in self.devices.take_failed() {
            let message = format!("device {}: failed: its thread has ended; its clients are cut", device.name);
            let fields = [("device", Field::Text(&device.name))];
            self.log(&Record { level: Level::Error, target: "device", message: &message, fields: &fields });
            let exports = self.exports();
            let is_of_device = |name: &str| exports.iter().any(|export| export.name == name && export.device == number);
            self.shut(Shutdown::Both, &|connected| connected.export.as_deref().is_some_and(is_of_device));
        }
        self.devices.have_all_failed()
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Reads the configuration again.
    fn reload(self: &Arc<Self>) -> Result<Vec<String>, Vec<String>> {
        match self.reload.lock().expect(LOCK).as_mut() {
            Some(reload) => {
                self.notify(Event::Reloading);
                let result = reload(&Control(self));
                self.notify(Event::Ready);
                result
            }
            None => Err(vec!["there is no configuration to be read again".to_owned()]),
        }
    }

    /// Reads the configuration again, and logs a line for each thing that is to be known, whoever
    /// asked for it.
    pub(crate) fn reload_and_log(self: &Arc<Self>) -> Result<Vec<String>, Vec<String>> {
        let result = self.reload();
        let (lines, level, end) = match &result {
            Ok(refused) if refused.is_empty() => (refused, Level::Info, "reloaded"),
            Ok(refused) => (refused, Level::Warning, "reloaded, but for what is said above"),
            Err(errors) => (errors, Level::Error, "not reloaded: everything is as it was"),
        };
        for line in lines.iter().map(String::as_str).chain([end]) {
            self.log(&Record::new(level, "reload", line));
        }
        result
    }

    /// Ends the sockets of connections that `which` chooses, and returns how many there are.
    fn shut(&self, how: Shutdown, which: &dyn Fn(&Connected) -> bool) -> usize {
        let connections = self.connections.lock().expect(LOCK);
        let chosen = connections.iter().flatten().filter(|(_, connected)| which(connected));
        let (mut count, mut of_devices) = (0, Vec::new());
        for (&name, connected) in chosen {
            count += 1;
            // Through a Unix socket a peer cannot send any more once nothing is read.
            match (&connected.socket, how) {
                (Socket::Unix(_), Shutdown::Read) if connected.export.is_some() => of_devices.push(name),
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
    fn shut_and_wait(&self, how: Shutdown, which: &dyn Fn(&Connected) -> bool) -> usize {
        let began = Instant::now();
        loop {
            let left = self.shut(how, which);
            if left == 0 || began.elapsed() >= GRACE {
                return left;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks connections to end: nothing more is read, and what came is answered. Waits until they
    /// have, or for [`GRACE`], after which they are cut, and their requests are not carried out.
    /// Returns, and logs, a line for each export of which some were cut.
    fn finish(&self, which: &dyn Fn(&Connected) -> bool) -> Vec<String> {
        if self.shut_and_wait(Shutdown::Read, which) == 0 {
            return Vec::new();
        }
        self.shut(Shutdown::Both, which);
        let cut: BTreeMap<u32, (String, String)> = {
            let connections = self.connections.lock().expect(LOCK);
            let all = connections.iter().flatten().filter(|(_, of)| which(of));
            all.filter_map(|(&name, of)| Some((name, (of.export.clone()?, of.client.who())))).collect()
        };
        // The clients and their requests, by export.
        let mut counts: BTreeMap<&str, (Vec<&str>, usize)> = BTreeMap::new();
        for (_, device) in self.devices.all() {
            let clients = cut.keys().copied().collect();
            for (name, requests) in device.ask(|answer| Message::Cut { clients, answer }).unwrap_or_default() {
                let (export, who) = &cut[&name];
                let of_export = counts.entry(export).or_default();
                of_export.0.push(who);
                of_export.1 += requests;
            }
        }
        let line = |(export, (clients, requests)): (&str, (Vec<&str>, usize))| {
            let message = format!(
                "export {export}: cut {} with {} not answered in {} s: {}",
                counted(clients.len() as u64, "connection"),
                counted(requests as u64, "request"),
                GRACE.as_secs(),
                first_of(&clients)
            );
            let fields = [("export", Field::Text(export)), ("count", Field::Number(requests as u64))];
            self.log(&Record { level: Level::Warning, target: "connection", message: &message, fields: &fields });
            message
        };
        counts.into_iter().map(line).collect()
    }

    /// Does as [`Self::finish`], and waits until those that were cut have left: what their device
    /// has begun ends, and so does, behind a page cache, what their limits hold.
    fn finish_all(&self, which: &dyn Fn(&Connected) -> bool) -> Vec<String> {
        let mut lines = self.finish(which);
        if !lines.is_empty() {
            let left = self.shut_and_wait(Shutdown::Both, which);
            if left > 0 {
                let left = counted(left as u64, "connection");
                let line = format!("{left} cut and still there: the device has I/O that was not answered");
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

    /// Changes the exports.
    fn change(&self, change: impl FnOnce(&mut Vec<ServedExport>)) {
        let mut exports = self.exports.write().expect(LOCK);
        let mut new = (**exports).clone();
        change(&mut new);
        *exports = Arc::new(new);
    }
}

/// Returns the names of the first clients, and how many there are besides.
fn first_of(clients: &[&str]) -> String {
    const CLIENTS_TOLD: usize = 3;
    let more = clients.len().saturating_sub(CLIENTS_TOLD);
    let first = clients[..clients.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// Returns what a device answered, with its name before an error.
fn answer_of<T>(device: &DeviceHandle, answer: Option<Result<T, String>>) -> Result<T, String> {
    let answer = answer.unwrap_or_else(|| Err("the device's thread has ended".to_owned()));
    answer.map_err(|error| format!("device {}: {error}", device.name))
}

/// What can be asked of a server and changed while it runs. Requests in flight are answered
/// whatever is changed.
pub struct Control<'a>(pub(crate) &'a Arc<Shared>);

/// An export, with who has it open.
#[derive(Clone, Debug)]
pub struct ExportView {
    /// The export.
    pub exported: Exported,
    /// Connections that have it open.
    pub clients: Vec<u32>,
    /// Nobody may open it.
    pub is_drained: bool,
}

impl Control<'_> {
    /// Returns the exports.
    pub fn exports(&self) -> Vec<ExportView> {
        let connections = self.0.connections.lock().expect(LOCK);
        let mut clients = BTreeMap::<&str, Vec<u32>>::new();
        for (&number, connected) in connections.iter().flatten() {
            if let Some(export) = &connected.export {
                clients.entry(export).or_default().push(number);
            }
        }
        let view = |known: &ServedExport| ExportView {
            exported: known.exported(),
            clients: clients.get(&*known.name).cloned().unwrap_or_default(),
            is_drained: known.is_drained,
        };
        self.0.exports().iter().map(view).collect()
    }

    /// Returns the names of the devices by their numbers.
    pub fn devices(&self) -> BTreeMap<usize, String> {
        self.0.devices.all().into_iter().map(|(number, device)| (number, device.name)).collect()
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections.lock().expect(LOCK).as_ref().map_or(0, BTreeMap::len)
    }

    /// Opens the disk of a device again: it connects anew to its server, and flushes may succeed
    /// again.
    ///
    /// # Errors
    /// There is no such device, its disk cannot be opened again, or its server is not there.
    pub fn reopen(&self, name: &str) -> Result<(), String> {
        let mut devices = self.0.devices.all().into_iter().map(|(_, device)| device);
        let device = devices.find(|device| device.name == name).ok_or_else(|| {
            let all: Vec<String> = self.devices().into_values().collect();
            format!("{name}: no such device; there are {}", all.join(", "))
        })?;
        let ended = || Err("its thread has ended".to_owned());
        let reopened = device.ask(|answer| Message::Reopen { answer }).unwrap_or_else(ended);
        reopened.map_err(|why| format!("device {name}: {why}"))
    }

    /// Returns what every device is doing.
    pub fn views(&self) -> Vec<DeviceView> {
        let view = |(_, device): (usize, DeviceHandle)| {
            let view = device.ask(|answer| Message::View { answer })?;
            Some(DeviceView { name: device.name, ..view })
        };
        self.0.devices.all().into_iter().filter_map(view).collect()
    }

    /// Returns the kernel whose rules settings follow.
    pub(crate) fn kernel(&self) -> Kernel {
        self.0.devices.all().first().map_or(Kernel::DEFAULT, |(_, device)| device.kernel)
    }

    /// Applies settings of a tenant on every device that has it, if none of them refuses one. A
    /// table replaces the one that is in force, unless the settings are parts of tables
    /// (`is_part`). Returns a line for each device where one has no effect.
    ///
    /// # Errors
    /// No device has it, or one refuses a setting; the line says which. Then nothing was applied.
    pub fn set(&self, tenant: &str, settings: &[Setting], is_part: bool) -> Result<Vec<String>, String> {
        let is_there = |view: &DeviceView| view.tenant(tenant).is_some();
        let views = self.views();
        let names: Vec<&str> = views.iter().filter(|view| is_there(view)).map(|view| &*view.name).collect();
        if names.is_empty() {
            return Err(unknown_tenant(&views, tenant));
        }
        let all = self.0.devices.all();
        let devices = || all.iter().map(|(_, device)| device).filter(|device| names.contains(&&*device.name));
        for device in devices() {
            let (tenant, settings) = (tenant.to_owned(), settings.to_vec());
            answer_of(device, device.ask(|answer| Message::Check { tenant, settings, is_part, answer }))?;
        }
        let mut warnings = Vec::new();
        for device in devices() {
            let (tenant, settings) = (Some(tenant.to_owned()), settings.to_vec());
            let in_vain = answer_of(device, device.ask(|answer| Message::Set { tenant, settings, is_part, answer }))?;
            warnings.extend(in_vain.into_iter().map(|line| format!("device {}: {line}", device.name)));
        }
        Ok(warnings)
    }

    /// Makes these the rules of the faults of a device.
    ///
    /// # Errors
    /// There is no such device, it is none with faults, or a rule is none.
    pub fn set_faults(&self, device: &str, rules: &[String]) -> Result<(), String> {
        let all = self.0.devices.all();
        let Some((_, found)) = all.iter().find(|(_, known)| known.name == device) else {
            let meant = did_you_mean(device, all.iter().map(|(_, known)| &*known.name));
            return Err(format!("{device}: no such device{meant}"));
        };
        let rules = rules.to_vec();
        answer_of(found, found.ask(|answer| Message::Faults { rules, answer }))
    }

    /// Makes these the tenants of the device of a number, with these settings. Returns their
    /// numbers.
    ///
    /// # Errors
    /// A setting is refused; the line says which.
    pub fn set_tenants(&self, device: usize, tenants: Vec<Tenant>) -> Result<Vec<TenantId>, String> {
        let device = self.0.devices.get(device);
        let answer = device.and_then(|device| device.ask(|answer| Message::Tenants { tenants, answer }));
        answer.unwrap_or_else(|| Err("the device's thread has ended".to_owned()))
    }

    /// Returns the devices.
    pub fn all_devices(&self) -> &Devices {
        &self.0.devices
    }

    /// Adds exports, or replaces those of their names for clients that open them from now on.
    pub fn put_exports(&self, new: Vec<Exported>) {
        self.0.change(|exports| {
            let mut places: BTreeMap<String, usize> =
                exports.iter().enumerate().map(|(at, known)| (known.name.clone(), at)).collect();
            for known in new.into_iter().map(ServedExport::of) {
                match places.get(&known.name) {
                    Some(&at) => exports[at] = ServedExport { is_drained: exports[at].is_drained, ..known },
                    None => {
                        places.insert(known.name.clone(), exports.len());
                        exports.push(known);
                    }
                }
            }
        });
    }

    /// Replaces exports by those of their names on other devices. Clients that have one open are
    /// answered and sent away before that, all at a time: they would see other bytes. Returns the
    /// lines of [`Self::drain`].
    pub fn move_exports(&self, new: Vec<Exported>) -> Vec<String> {
        let names: BTreeSet<&str> = new.iter().map(|export| &*export.name).collect();
        let exports = self.0.exports();
        let open = exports.iter().filter(|known| !known.is_drained && names.contains(&*known.name));
        let open: Vec<String> = open.map(|known| known.name.clone()).collect();
        let lines = self.drain(&new.iter().map(|export| export.name.clone()).collect::<Vec<_>>());
        self.put_exports(new);
        self.resume(&open);
        lines
    }

    /// Puts the exports in the order of these names; others follow. A client that names no export
    /// gets the first that it may open.
    pub fn order_exports(&self, names: &[String]) {
        let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
        let place = |known: &ServedExport| places.get(&*known.name).copied().unwrap_or(names.len());
        self.0.change(|exports| exports.sort_by_cached_key(place));
    }

    /// Makes these the names of the clients that may open each of these exports. Those who have one
    /// open and are not among them are answered and sent away, all at a time. Returns a line for
    /// each export of which some were cut.
    pub fn set_clients(&self, new: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        self.0.change(|exports| {
            for export in exports {
                if let Some(clients) = new.get(&export.name) {
                    export.clients.clone_from(clients);
                }
            }
        });
        let is_out =
            |export: &str, client: &Identity| new.get(export).is_some_and(|clients| !client.is_one_of(clients));
        self.0.finish_all(&|of| of.export.as_ref().is_some_and(|export| is_out(export, &of.client)))
    }

    /// Makes these the numbers of connections that may have each export open. Those that have it
    /// open keep it.
    pub fn set_max_connections(&self, new: &BTreeMap<String, Option<u32>>) {
        self.0.change(|exports| {
            for export in exports {
                if let Some(max_connections) = new.get(&export.name) {
                    export.max_connections = *max_connections;
                }
            }
        });
    }

    /// Makes these the numbers of connections that may have exports open, and their memory. Those
    /// that have one open keep it, and what memory they have.
    pub fn set_connection_limits(&self, limits: ConnectionLimits) {
        self.0.memory.set_limit(limits.request_memory);
        *self.0.limits.write().expect(LOCK) = limits;
    }

    /// Returns the TLS of connections that come now.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.0.tls()
    }

    /// Makes this the TLS of connections that come from now on.
    pub fn set_tls(&self, tls: Option<Tls>) {
        *self.0.tls.write().expect(LOCK) = tls.map(Arc::new);
    }

    /// Removes exports, once those who have one open were answered and sent away. Returns the lines
    /// of [`Self::drain`].
    pub fn remove_exports(&self, names: &[String]) -> Vec<String> {
        let lines = self.drain(names);
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.0.change(|exports| exports.retain(|export| !names.contains(&*export.name)));
        lines
    }

    /// Refuses new clients of these exports, answers what came from those who have one open, and
    /// sends them away, all at a time. Returns a line for each export of which some were cut.
    pub fn drain(&self, names: &[String]) -> Vec<String> {
        self.mark(names, true);
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.0.finish_all(&|of| of.export.as_deref().is_some_and(|export| names.contains(export)))
    }

    /// Returns every connection.
    pub fn connection_views(&self) -> Vec<ConnectionView> {
        let connections = self.0.connections.lock().expect(LOCK);
        connections.iter().flatten().map(|(_, of)| of.view()).collect()
    }

    /// Answers what came from connections, and ends them: that of a number, or those of an address,
    /// of `pid:N`, `uid:N` or `gid:N`, of a name in a certificate, or of an export. They may come
    /// again. Returns their numbers, and a line for each export of which some were cut.
    pub fn disconnect(&self, whom: &str) -> (Vec<u32>, Vec<String>) {
        let is_meant = |of: &Connected| of.is_meant(whom);
        let chosen: Vec<u32> = {
            let connections = self.0.connections.lock().expect(LOCK);
            connections.iter().flatten().filter(|(_, of)| is_meant(of)).map(|(&number, _)| number).collect()
        };
        // Those that come meanwhile stay.
        let lines = self.0.finish_all(&|of| chosen.contains(&of.number));
        (chosen, lines)
    }

    /// Lets clients open these exports again.
    pub fn resume(&self, names: &[String]) {
        self.mark(names, false);
    }

    fn mark(&self, names: &[String], is_drained: bool) {
        self.0.change(|exports| {
            let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let found = exports.iter_mut().filter(|export| names.contains(&*export.name));
            found.for_each(|export| export.is_drained = is_drained);
        });
    }
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
