//! What can be asked of a server and changed while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use elevon_core::kernel::Kernel;
use elevon_core::nearest::did_you_mean;
use elevon_core::units::TenantId;
use elevon_formats::cgroup::Setting;
use elevon_workload::tenants::Tenant;

use crate::device::devices::Devices;
use crate::device::message::{DeviceHandle, Message};
use crate::device::view::{DeviceView, unknown_tenant};
use crate::event::Event;
use crate::log::{Level, Record};
use crate::net::connected::{Connected, ConnectionView};
use crate::net::export::{Exported, ServedExport};
use crate::net::gate::Gate;
use crate::net::tls::{Identity, Tls};
use crate::shared::{ConnectionLimits, Shared};

const LOCK: &str = "no thread panics with the lock";

/// Reads the configuration again, and logs a line for each thing that is to be known. It does so
/// for a command and for a signal. Returns a line for everything that cannot, or, if nothing was
/// applied, the errors.
pub type Reload = Box<dyn FnMut(&Control<'_>) -> Result<Vec<String>, Vec<String>> + Send>;

/// Reads the configuration again when it is asked to, one time after the other.
pub(crate) struct Reloader {
    shared: Arc<Shared>,
    reload: Mutex<Option<Reload>>,
}

impl Reloader {
    pub(crate) fn new(shared: Arc<Shared>, reload: Option<Reload>) -> Self {
        Self { shared, reload: Mutex::new(reload) }
    }

    /// Returns the server that is configured.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn reload(&self) -> Result<Vec<String>, Vec<String>> {
        match self.reload.lock().expect(LOCK).as_mut() {
            Some(reload) => {
                self.shared.notify(Event::Reloading);
                let result = reload(&Control(&self.shared));
                self.shared.notify(Event::Ready);
                result
            }
            None => Err(vec!["there is no configuration to be read again".to_owned()]),
        }
    }

    /// Reads the configuration again, and logs a line for each thing that is to be known.
    pub(crate) fn reload_and_log(&self) -> Result<Vec<String>, Vec<String>> {
        let result = self.reload();
        let (lines, level, end) = match &result {
            Ok(refused) if refused.is_empty() => (refused, Level::Info, "reloaded"),
            Ok(refused) => (refused, Level::Warning, "reloaded, except for the lines above"),
            Err(errors) => (
                errors,
                Level::Error,
                "not reloaded, and the old configuration is in force: mend the lines above and reload again",
            ),
        };
        for line in lines.iter().map(String::as_str).chain([end]) {
            self.shared.log(&Record::new(level, "reload", line));
        }
        result
    }
}

/// Returns what a device answered, with its name before an error.
fn answer_of<T>(device: &DeviceHandle, answer: Option<Result<T, String>>) -> Result<T, String> {
    let answer = answer.unwrap_or_else(|| Err("the device's thread has ended".to_owned()));
    answer.map_err(|error| format!("device {}: {error}", device.name))
}

/// What can be asked of a server and changed while it runs. Requests in flight are answered
/// whatever is changed.
pub struct Control<'a>(pub(crate) &'a Shared);

/// An export, with the clients that have it open.
#[derive(Clone, Debug)]
pub struct ExportView {
    /// The export.
    pub exported: Exported,
    /// Connections that have it open.
    pub clients: Vec<u32>,
    /// No client may open it.
    pub is_drained: bool,
}

impl Control<'_> {
    /// Returns the exports.
    pub fn exports(&self) -> Vec<ExportView> {
        let clients = self.0.clients_of_exports();
        let view = |known: &ServedExport| ExportView {
            exported: known.exported(),
            clients: clients.get(&known.name).cloned().unwrap_or_default(),
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
        self.0.connections()
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
    pub fn set(
        &self,
        tenant: &str,
        settings: &[Setting],
        is_part: bool,
    ) -> Result<Vec<String>, String> {
        let is_there = |view: &DeviceView| view.tenant(tenant).is_some();
        let views = self.views();
        let names: Vec<&str> =
            views.iter().filter(|view| is_there(view)).map(|view| &*view.name).collect();
        if names.is_empty() {
            return Err(unknown_tenant(&views, tenant));
        }
        let all = self.0.devices.all();
        let devices =
            || all.iter().map(|(_, device)| device).filter(|device| names.contains(&&*device.name));
        for device in devices() {
            let (tenant, settings) = (tenant.to_owned(), settings.to_vec());
            answer_of(
                device,
                device.ask(|answer| Message::Check { tenant, settings, is_part, answer }),
            )?;
        }
        let mut warnings = Vec::new();
        for device in devices() {
            let (tenant, settings) = (Some(tenant.to_owned()), settings.to_vec());
            let in_vain = answer_of(
                device,
                device.ask(|answer| Message::Set { tenant, settings, is_part, answer }),
            )?;
            warnings
                .extend(in_vain.into_iter().map(|line| format!("device {}: {line}", device.name)));
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
    pub fn set_tenants(
        &self,
        device: usize,
        tenants: Vec<Tenant>,
    ) -> Result<Vec<TenantId>, String> {
        let device = self.0.devices.get(device);
        let answer =
            device.and_then(|device| device.ask(|answer| Message::Tenants { tenants, answer }));
        answer.unwrap_or_else(|| Err("the device's thread has ended".to_owned()))
    }

    /// Returns the devices.
    pub fn all_devices(&self) -> &Devices {
        &self.0.devices
    }

    /// Adds exports, or replaces those of their names for clients that open them from now on.
    /// Guests are told if their disk has grown.
    pub fn put_exports(&self, new: Vec<Exported>) {
        let sizes = new.iter().map(|export| (export.name.clone(), export.disk.size)).collect();
        self.0.change_exports(|exports| {
            let mut places: BTreeMap<String, usize> =
                exports.iter().enumerate().map(|(at, known)| (known.name.clone(), at)).collect();
            for known in new.into_iter().map(ServedExport::of) {
                match places.get(&known.name) {
                    Some(&at) => {
                        exports[at] = ServedExport { is_drained: exports[at].is_drained, ..known }
                    }
                    None => {
                        places.insert(known.name.clone(), exports.len());
                        exports.push(known);
                    }
                }
            }
        });
        self.0.tell_sizes(&sizes);
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
        let places: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
        let place = |known: &ServedExport| places.get(&*known.name).copied().unwrap_or(names.len());
        self.0.change_exports(|exports| exports.sort_by_cached_key(place));
    }

    /// Makes these the names of the clients that may open each of these exports. Those who have one
    /// open and are not among them are answered and sent away, all at a time. Returns a line for
    /// each export of which some were cut.
    pub fn set_clients(&self, new: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        self.0.change_exports(|exports| {
            for export in exports {
                if let Some(clients) = new.get(&export.name) {
                    export.clients.clone_from(clients);
                }
            }
        });
        let is_out = |export: &str, client: &Identity| {
            new.get(export).is_some_and(|clients| !client.is_one_of(clients))
        };
        self.0.finish_all(&|of| of.export.as_ref().is_some_and(|export| is_out(export, &of.client)))
    }

    /// Makes these the numbers of connections that may have each export open. Those that have it
    /// open keep it.
    pub fn set_max_connections(&self, new: &BTreeMap<String, Option<u32>>) {
        self.0.change_exports(|exports| {
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
        self.0.set_limits(limits);
    }

    /// Returns the TLS of connections that come now.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.0.tls()
    }

    /// Makes this the TLS of connections that come from now on.
    pub fn set_tls(&self, tls: Option<Tls>) {
        self.0.set_tls(tls);
    }

    /// Removes exports, once those who have one open were answered and sent away. Returns the lines
    /// of [`Self::drain`].
    pub fn remove_exports(&self, names: &[String]) -> Vec<String> {
        let lines = self.drain(names);
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.0.change_exports(|exports| exports.retain(|export| !names.contains(&*export.name)));
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
        self.0.connections_of(|_| true, Connected::view)
    }

    /// Answers what came from connections, and ends them: that of a number, or those of an address,
    /// of `pid:N`, `uid:N` or `gid:N`, of a name in a certificate, or of an export. They may come
    /// again. Returns their numbers, and a line for each export of which some were cut.
    pub fn disconnect(&self, whom: &str) -> (Vec<u32>, Vec<String>) {
        let chosen = self.0.connections_of(|of| of.is_meant(whom), |of| of.number);
        // Those that come meanwhile stay.
        let lines = self.0.finish_all(&|of| chosen.contains(&of.number));
        (chosen, lines)
    }

    /// Lets clients open these exports again.
    pub fn resume(&self, names: &[String]) {
        self.mark(names, false);
    }

    fn mark(&self, names: &[String], is_drained: bool) {
        self.0.change_exports(|exports| {
            let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let found = exports.iter_mut().filter(|export| names.contains(&*export.name));
            found.for_each(|export| export.is_drained = is_drained);
        });
    }
}
