//! Reads a configuration again while it is served: tenants, exports and devices change; addresses,
//! the kernel's rules and the keys of a device that is served do not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use elevon_core::units::{Bytes, TenantId};
use elevon_formats::device::Given;
use elevon_formats::serve::{DeviceTable, DiskProtocol, ExportTable, PoolPart, ServeFile};
use elevon_host::FileIdentity;
use elevon_plan::failure::Failure;
use elevon_plan::target::Target;
use elevon_serve::{Control, ExportView, Exported, Level, Record, Reload};
use elevon_workload::tenants::{TenantPlan, TenantsByPath};

use super::config::{Setup, bare_files, connection_limits, exported, overlapping, placed, wrong};
use super::log::{log, warn};
use super::open::{Opened, Planned, add};
use super::watch::ServedFiles;

/// A device that is served.
#[derive(Clone, Debug)]
pub(super) struct ServedDevice {
    /// Its number in the server.
    pub(super) number: usize,
    /// The table that it was opened by.
    pub(super) table: DeviceTable,
    pub(super) opened: Opened,
}

/// The devices that are served, and the files that say how.
pub(super) struct Running {
    path: PathBuf,
    /// The configuration that was read at the start: its addresses and kernel are in force.
    file: ServeFile,
    /// By their names.
    devices: BTreeMap<String, ServedDevice>,
    /// The names of devices that are files without a slash in their names.
    files: Vec<String>,
    /// The warnings about the configuration, which are not repeated.
    warnings: Vec<String>,
    watched: ServedFiles,
}

/// Returns what reads a configuration again.
pub(super) fn reload_of(mut running: Running) -> Reload {
    Box::new(move |control| running.reload(control))
}

/// An export of a new file, with its table there.
type Known<'a> = (&'a ExportTable, Exported);

impl Running {
    pub(super) fn new(
        path: PathBuf,
        file: ServeFile,
        devices: Vec<ServedDevice>,
        files: Vec<String>,
        warnings: Vec<String>,
    ) -> Self {
        let devices =
            devices.into_iter().map(|device| (device.table.name.clone(), device)).collect();
        let running =
            Self { path, file, devices, files, warnings, watched: Arc::new(Mutex::default()) };
        running.watch();
        running
    }

    /// Returns the files that are served, which [`super::watch::Watch`] looks at.
    pub(super) fn watched(&self) -> ServedFiles {
        Arc::clone(&self.watched)
    }

    fn watch(&self) {
        let files = self
            .devices
            .iter()
            .filter_map(|(name, device)| Some((name.clone(), device.opened.file.clone()?)));
        *self.watched.lock().expect("no thread panics with the lock") = files.collect();
    }

    fn reload(&mut self, control: &Control<'_>) -> Result<Vec<String>, Vec<String>> {
        let mut setup = Setup::read(&self.path, &self.files).map_err(|failure| lines(&failure))?;
        let tls = setup.tls.take();
        if let Some(why) = super::tls::refused(control.tls().as_deref(), tls.as_ref()) {
            return Err(vec![format!("{}: {why}", self.path.display())]);
        }
        let mut refused = self.refused(&setup.file);
        let plans: Vec<TenantPlan> =
            setup.devices.iter().map(|planned| planned.plan.tenants.clone()).collect();
        let files = bare_files(&setup);
        let added = self.open_new(control, &mut setup)?;
        refused.extend(self.grow(control));
        let known = self
            .exports(&setup.file, &plans)
            .inspect_err(|_| self.close(control, &added, &mut refused))?;
        // The files may be others under the same names: certificates are renewed.
        control.set_tls(tls);
        control.set_connection_limits(connection_limits(&setup.file));
        control.set_clients(
            &known
                .iter()
                .map(|(_, export)| (export.name.clone(), export.clients.clone()))
                .collect(),
        );
        self.apply(control, &setup.file, known, &plans, &mut refused);
        let names: Vec<String> =
            setup.file.exports.iter().map(|table| table.name.clone()).collect();
        let kept: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let open = control.exports().into_iter().map(|view| view.exported.name);
        control.remove_exports(&open.filter(|name| !kept.contains(&**name)).collect::<Vec<_>>());
        control.order_exports(&names);
        let listed: BTreeSet<&str> = setup.file.devices.iter().map(|table| &*table.name).collect();
        let gone: Vec<String> =
            self.devices.keys().filter(|name| !listed.contains(&***name)).cloned().collect();
        self.close(control, &gone, &mut refused);
        self.files.extend(files);
        self.watch();
        let exports: Vec<Exported> =
            control.exports().into_iter().map(|view| view.exported).collect();
        let warnings = [setup.warnings, overlapping(&setup.file.exports, &exports)].concat();
        let known: BTreeSet<&String> = self.warnings.iter().collect();
        warn(&warnings.iter().filter(|line| !known.contains(line)).cloned().collect::<Vec<_>>());
        self.warnings = warnings;
        Ok(refused)
    }

    /// Opens the devices of a new file that are not served yet. Returns their names.
    ///
    /// # Errors
    /// One of them cannot be opened. None was added then.
    fn open_new(
        &mut self,
        control: &Control<'_>,
        setup: &mut Setup,
    ) -> Result<Vec<String>, Vec<String>> {
        let planned = std::mem::take(&mut setup.devices);
        let new = setup
            .file
            .devices
            .iter()
            .zip(planned)
            .filter(|(table, _)| !self.devices.contains_key(&table.name));
        let new: Vec<(&DeviceTable, Planned)> = new.collect();
        let mut added = Vec::new();
        for (table, planned) in new {
            match self.open(control, &setup.file, table, planned) {
                Ok(device) => {
                    said(&format!("device {}: added", table.name));
                    let name = self.path.display().to_string();
                    let notes = device
                        .opened
                        .notes
                        .iter()
                        .map(|note| super::config::said_of(&name, table, note));
                    warn(&notes.collect::<Vec<_>>());
                    self.devices.insert(table.name.clone(), device);
                    added.push(table.name.clone());
                }
                Err(failure) => {
                    self.close(control, &added, &mut Vec::new());
                    return Err(lines(&placed(table, failure)));
                }
            }
        }
        Ok(added)
    }

    fn open(
        &self,
        control: &Control<'_>,
        file: &ServeFile,
        table: &DeviceTable,
        planned: Planned,
    ) -> Result<ServedDevice, Failure> {
        if file.kernel != self.file.kernel {
            return Err(wrong(
                &table.device,
                "a device can be added once kernel is as it was at the start".to_owned(),
            ));
        }
        let identities: Vec<FileIdentity> =
            planned.paths().filter_map(FileIdentity::from_path).collect();
        let is_upstream = matches!(planned.plan.target, Target::Nbd(_));
        let is_same = |other: &ServedDevice| {
            let has_name = is_upstream && other.table.device.value == table.device.value;
            has_name || identities.iter().any(|identity| other.opened.identities.contains(identity))
        };
        if let Some(name) =
            self.devices.iter().find(|(_, other)| is_same(other)).map(|(name, _)| name)
        {
            let words = format!(
                "is device.{name}, which is served; remove that by a reload before this one"
            );
            return Err(wrong(&table.device, words));
        }
        let (number, opened) = add(control.all_devices(), &table.name, planned)?;
        Ok(ServedDevice { number, table: table.clone(), opened })
    }

    /// Removes devices of which no export is left.
    fn close(&mut self, control: &Control<'_>, names: &[String], refused: &mut Vec<String>) {
        for name in names {
            let Some(device) = self.devices.remove(name) else { continue };
            if control.all_devices().remove(device.number) {
                said(&format!("device {name}: removed"));
            } else {
                refused
                    .push(format!("device {name}: removed, and still writes back what is cached"));
            }
        }
    }

    /// Serves what files and block devices have grown by. Returns a line for each that differs from
    /// what is served.
    fn grow(&mut self, control: &Control<'_>) -> Vec<String> {
        let (file, mut refused) = (self.path.display(), Vec::new());
        for (name, device) in &mut self.devices {
            match control.all_devices().grow(device.number) {
                Ok(grown) => {
                    if let Some((was, now)) = grown {
                        said(&format!("device {name}: has grown from {was} bytes to {now}"));
                        device.opened.size = Bytes::new(now);
                    }
                    if let Some(file) = &device.opened.file {
                        file.take_size();
                    }
                }
                Err(why) => refused.push(format!("{file}: device.{name}.device: {why}")),
            }
            grow_parts(device);
            let words = device.opened.file.as_ref().and_then(|file| file.difference());
            refused.extend(words.map(|words| format!("{file}: device.{name}.device: {words}")));
        }
        refused
    }

    /// Returns the exports of a new file, whose devices are open.
    ///
    /// # Errors
    /// Ranges that their devices do not have.
    fn exports<'a>(
        &self,
        file: &'a ServeFile,
        plans: &[TenantPlan],
    ) -> Result<Vec<Known<'a>>, Vec<String>> {
        let tenants: Vec<_> = plans.iter().map(|plan| TenantsByPath::new(&plan.tenants)).collect();
        let (mut known, mut errors) = (Vec::new(), Vec::new());
        for table in &file.exports {
            let device = &self.devices[&file.devices[table.device].name];
            match exported(table, &device.opened, &tenants[table.device]) {
                Ok(export) => known.push((table, Exported { device: device.number, ..export })),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() { Ok(known) } else { Err(errors) }
    }

    /// Applies tenants and exports.
    fn apply(
        &self,
        control: &Control<'_>,
        file: &ServeFile,
        known: Vec<Known<'_>>,
        plans: &[TenantPlan],
        refused: &mut Vec<String>,
    ) {
        let mut ids: BTreeMap<usize, Vec<TenantId>> = BTreeMap::new();
        for (table, plan) in file.devices.iter().zip(plans) {
            let number = self.devices[&table.name].number;
            match control.set_tenants(number, plan.tenants.clone()) {
                Ok(of_device) => _ = ids.insert(number, of_device),
                Err(error) => refused.push(format!("device.{}: {error}", table.name)),
            }
        }
        control.set_max_connections(
            &known
                .iter()
                .map(|(_, export)| (export.name.clone(), export.max_connections))
                .collect(),
        );
        let views = control.exports();
        let views: BTreeMap<&str, &ExportView> =
            views.iter().map(|view| (&*view.exported.name, view)).collect();
        let (mut put, mut moved) = (Vec::new(), Vec::new());
        for (table, export) in known {
            let Some(ids) = ids.get(&export.device) else { continue };
            let tenant = export.tenant.index().checked_sub(1).map_or(export.tenant, |at| ids[at]);
            let (export, opened) = (
                Exported { tenant, ..export },
                &self.devices[&file.devices[table.device].name].opened,
            );
            if opened.for_reading && !table.read_only {
                refused.push(line(
                    table,
                    "takes a restart to be written: its device was opened for reading only",
                ));
            }
            match views.get(&*export.name) {
                Some(view) if is_same(&view.exported, &export) => {}
                Some(view) if view.exported.device != export.device => moved.push(export),
                Some(view) if !view.clients.is_empty() && !has_grown(&view.exported, &export) => {
                    let why =
                        format!("{} it open as it was; drain it first", have(view.clients.len()));
                    refused.push(line(table, &why));
                }
                Some(view) => {
                    if has_grown(&view.exported, &export) {
                        said(&grown_in_words(table.protocol, &export, view));
                    }
                    put.push(export);
                }
                None => put.push(export),
            }
        }
        control.put_exports(put);
        for export in &moved {
            said(&format!(
                "export {}: moved to device {}",
                export.name,
                self.name_of(export.device)
            ));
        }
        control.move_exports(moved);
    }

    fn name_of(&self, number: usize) -> &str {
        self.devices.iter().find(|(_, device)| device.number == number).map_or("", |(name, _)| name)
    }

    /// Returns a line for each key that differs and takes a restart.
    fn refused(&self, new: &ServeFile) -> Vec<String> {
        let mut keys = changed_keys(&self.file, new);
        for table in &new.devices {
            let was = self.devices.get(&table.name).map(|device| &device.table);
            keys.extend(was.into_iter().flat_map(|was| changed_keys_of_device(was, table)));
        }
        let file = self.path.display();
        keys.into_iter()
            .map(|key| format!("{file}: {key}: takes a restart; it stays as it was"))
            .collect()
    }
}

/// Takes what the files and block devices of a pool have grown by.
fn grow_parts(device: &mut ServedDevice) {
    let ServedDevice { table, opened, .. } = device;
    let block = u64::from(opened.block);
    for ((part, size), (given, identity)) in
        opened.parts.iter_mut().zip(table.parts.iter().zip(&opened.identities))
    {
        let Some(bytes) = identity.bytes_at(Path::new(&given.device.value)) else { continue };
        let now = bytes / block * block;
        if now > *size {
            said(&format!("device {}: has grown from {size} bytes to {now}", part.name));
            *size = now;
        }
    }
}

/// Returns a line about an export of a new file.
fn line(table: &ExportTable, why: &str) -> String {
    format!("{}:{}: export.{}: {why}", table.place.file, table.place.line, table.name)
}

/// Returns the values of TLS towards another server.
/// Returns the keys of the server that differ and take a restart.
fn changed_keys(old: &ServeFile, new: &ServeFile) -> Vec<String> {
    let listens = |file: &ServeFile| {
        let of_export = |export: &ExportTable| {
            let (mode, group) = (export.socket_mode, value(&export.socket_group));
            export
                .listen
                .iter()
                .map(move |given| (given.value.clone(), mode, group.clone()))
                .collect::<Vec<_>>()
        };
        file.exports.iter().flat_map(of_export).collect::<BTreeSet<_>>()
    };
    let all = [
        ("listen", values(&old.listen) != values(&new.listen)),
        ("socket_mode", old.socket_mode != new.socket_mode),
        ("socket_group", value(&old.socket_group) != value(&new.socket_group)),
        ("listen of exports (an address, its mode or its group)", listens(old) != listens(new)),
        ("control", value(&old.control) != value(&new.control)),
        ("metrics", value(&old.metrics) != value(&new.metrics)),
        ("kernel", old.kernel != new.kernel),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key.to_owned()).collect()
}

/// Returns the keys of a device or a pool that differ and take a restart.
fn changed_keys_of_device(old: &DeviceTable, new: &DeviceTable) -> Vec<String> {
    let parts = |table: &DeviceTable| {
        let of_part = |part: &PoolPart| (part.name.clone(), part.device.value.clone());
        table.parts.iter().map(of_part).collect::<Vec<_>>()
    };
    let set = |table: &DeviceTable, key: &str| {
        let given = table.set.iter().filter(|given| given.key.ends_with(key));
        given.map(|given| given.value.clone()).collect::<Vec<_>>()
    };
    let connections = |table: &DeviceTable| table.connections.as_ref().map(|(count, _)| *count);
    let on_loss = |table: &DeviceTable| table.on_loss.as_ref().map(|(time, _)| *time);
    let has_same_parts = parts(old) == parts(new);
    let all = [
        (".devices", !has_same_parts),
        (".device", has_same_parts && old.device.value != new.device.value),
        (".scheduler", value(&old.scheduler) != value(&new.scheduler)),
        (".prefer", value(&old.prefer) != value(&new.prefer)),
        (".set", set(old, ".set") != set(new, ".set")),
        (".io_timeout", set(old, ".io_timeout") != set(new, ".io_timeout")),
        (".fault", values(&old.fault) != values(&new.fault)),
        (".seed", old.seed != new.seed),
        (".direct", old.direct != new.direct),
        (".cache", value(&old.cache) != value(&new.cache)),
        (".busy_poll", old.busy_poll != new.busy_poll),
        (".connections", connections(old) != connections(new)),
        (".on_loss", on_loss(old) != on_loss(new)),
        (".tls", tls(old) != tls(new)),
        (" (its control files)", old.settings != new.settings),
    ];
    let kind = if new.parts.is_empty() { "device" } else { "pool" };
    let changed = all.into_iter().filter(|(_, differs)| *differs);
    changed.map(|(key, _)| format!("{kind}.{}{key}", new.name)).collect()
}

fn values(all: &[Given]) -> Vec<String> {
    all.iter().map(|given| given.value.clone()).collect()
}

fn value(given: &Option<Given>) -> Option<String> {
    given.as_ref().map(|given| given.value.clone())
}

fn tls(table: &DeviceTable) -> Option<[Option<&str>; 5]> {
    let tls = table.tls.as_ref()?;
    let keys = [&tls.certificates, &tls.ca, &tls.certificate, &tls.key, &tls.hostname];
    Some(keys.map(|given| given.as_ref().map(|given| given.value.as_str())))
}

fn is_same(one: &Exported, other: &Exported) -> bool {
    let of = |export: &Exported| {
        let places = (export.device, export.base(), export.listen.clone());
        (places, export.tenant, export.ioprio, export.disk.clone())
    };
    of(one) == of(other)
}

/// Returns true if an export is as it was but for its end, which is further.
fn has_grown(was: &Exported, export: &Exported) -> bool {
    let mut disk = export.disk.clone();
    disk.size = was.disk.size;
    export.disk.size > was.disk.size && is_same(was, &Exported { disk, ..export.clone() })
}

fn grown_in_words(protocol: DiskProtocol, export: &Exported, view: &ExportView) -> String {
    let (name, was, now) = (&export.name, view.exported.disk.size, export.disk.size);
    let rest = match (view.clients.len(), protocol) {
        (0, _) => String::new(),
        (_, DiskProtocol::Vhost) => "; its guest is told".to_owned(),
        (clients, DiskProtocol::Nbd) => {
            format!("; {} the old size until a new connection", have(clients))
        }
    };
    format!("export {name}: has grown from {was} bytes to {now}{rest}")
}

fn have(connections: usize) -> String {
    match connections {
        1 => "1 connection has".to_owned(),
        connections => format!("{connections} connections have"),
    }
}

/// Logs what a reload did.
fn said(line: &str) {
    log(&Record::new(Level::Info, "reload", line));
}

fn lines(failure: &Failure) -> Vec<String> {
    let text = failure.to_string();
    text.lines().map(|line| line.trim_start_matches("elevon: ").to_owned()).collect()
}
