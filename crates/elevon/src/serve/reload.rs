//! Reads a configuration again while it is served: tenants and exports change, devices, addresses
//! and the kernel's rules do not.

use std::path::PathBuf;

use elevon_core::units::TenantId;
use elevon_formats::device::Given;
use elevon_formats::serve::{DeviceTable, ExportTable, ServeFile};
use elevon_serve::{Control, Exported, Reload};

use super::config::{Setup, connection_limits, exported, overlapping};
use super::log::warn;
use super::open::Opened;
use crate::failure::Failure;

/// What is served.
pub(super) struct Running {
    pub(super) path: PathBuf,
    pub(super) file: ServeFile,
    pub(super) opened: Vec<Opened>,
    /// The names of devices that are files without a slash in their names.
    pub(super) files: Vec<String>,
    /// The warnings about the configuration, which are not repeated.
    pub(super) warnings: Vec<String>,
}

/// Returns what reads a configuration again.
pub(super) fn reload_of(mut running: Running) -> Reload {
    Box::new(move |control| running.reload(control))
}

impl Running {
    fn reload(&mut self, control: &Control<'_>) -> Result<Vec<String>, Vec<String>> {
        let mut setup = Setup::read(&self.path, &self.files).map_err(|failure| lines(&failure))?;
        let tls = setup.tls.take();
        if let Some(why) = super::tls::refused(control.tls().as_deref(), tls.as_ref()) {
            return Err(vec![format!("{}: {why}", self.path.display())]);
        }
        let mut refused = self.refused(&setup.file);
        refused.extend(self.differences());
        let known = self.on_open_devices(&setup, &mut refused)?;
        // The files may be others under the same names: certificates are renewed.
        control.set_tls(tls);
        control.set_connection_limits(connection_limits(&setup.file));
        control.set_clients(&known.iter().map(|(_, export)| (export.name.clone(), export.clients.clone())).collect());
        for (table, planned) in setup.file.devices.iter().zip(&setup.devices) {
            let Some(device) = self.index_of(table) else { continue };
            match control.set_tenants(device, planned.plan.tenants.tenants.clone()) {
                Ok(ids) => {
                    let of_device = known.iter().filter(|(_, export)| export.device == device);
                    of_device.for_each(|(table, export)| refused.extend(self.renew(control, &ids, table, export)));
                }
                Err(error) => refused.push(format!("device.{}: {error}", table.name)),
            }
        }
        let names: Vec<String> = setup.file.exports.iter().map(|table| table.name.clone()).collect();
        let open = control.exports().into_iter().map(|view| view.exported.name);
        control.remove_exports(&open.filter(|name| !names.contains(name)).collect::<Vec<_>>());
        control.order_exports(&names);
        let exports: Vec<Exported> = control.exports().into_iter().map(|view| view.exported).collect();
        let warnings = [setup.warnings, overlapping(&setup.file.exports, &exports)].concat();
        warn(&warnings.iter().filter(|line| !self.warnings.contains(line)).cloned().collect::<Vec<_>>());
        self.warnings = warnings;
        Ok(refused)
    }

    /// Returns a line for each file that is not as it was when it was opened.
    fn differences(&self) -> impl Iterator<Item = String> {
        let (file, devices) = (self.path.display(), self.file.devices.iter().zip(&self.opened));
        devices.filter_map(move |(table, opened)| {
            let words = opened.file.as_ref()?.difference()?;
            Some(format!("{file}: device.{}.device: {words}", table.name))
        })
    }

    /// Returns the number of the open device that a table names.
    fn index_of(&self, table: &DeviceTable) -> Option<usize> {
        self.file.devices.iter().position(|old| old.name == table.name)
    }

    /// Returns the exports of a new file on devices that are open. The others are refused: those
    /// that are there stay on their devices.
    ///
    /// # Errors
    /// Ranges that their devices do not have.
    fn on_open_devices<'a>(
        &self,
        setup: &'a Setup,
        refused: &mut Vec<String>,
    ) -> Result<Vec<(&'a ExportTable, Exported)>, Vec<String>> {
        let (mut known, mut errors) = (Vec::new(), Vec::new());
        for table in &setup.file.exports {
            let of_file = &setup.file.devices[table.device];
            let Some(device) = self.index_of(of_file) else {
                let why = format!("takes a restart, as its device, device.{}, does", of_file.name);
                refused.push(line(table, &why));
                continue;
            };
            match exported(table, &self.opened[device], &setup.devices[table.device].plan.tenants, true) {
                Ok(export) => known.push((table, Exported { device, ..export })),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() { Ok(known) } else { Err(errors) }
    }

    /// Applies an export of a device whose tenants have these numbers now. Returns what is refused.
    fn renew(&self, control: &Control<'_>, ids: &[TenantId], table: &ExportTable, export: &Exported) -> Vec<String> {
        let tenant = export.tenant.index().checked_sub(1).map_or(export.tenant, |at| ids[at]);
        let export = Exported { tenant, ..export.clone() };
        let mut refused = Vec::new();
        if self.opened[export.device].for_reading && !table.read_only {
            refused.push(line(table, "takes a restart to be written: its device was opened for reading only"));
        }
        let views = control.exports();
        let old = views.iter().find(|view| view.exported.name == export.name);
        control.set_max_connections(&export.name, export.max_connections);
        match old {
            Some(view) if is_same(&view.exported, &export) => {}
            Some(view) if !view.clients.is_empty() => {
                let have = match view.clients.len() {
                    1 => "1 connection has".to_owned(),
                    clients => format!("{clients} connections have"),
                };
                let why = format!("{have} it open as it was; drain it first");
                refused.push(line(table, &why));
            }
            _ => control.put_export(export),
        }
        refused
    }

    /// Returns a line for each key that differs and takes a restart.
    fn refused(&self, new: &ServeFile) -> Vec<String> {
        let old = &self.file;
        let mut keys = Vec::new();
        let values = |all: &[Given]| all.iter().map(|given| given.value.clone()).collect::<Vec<_>>();
        let value = |given: &Option<Given>| given.as_ref().map(|given| given.value.clone());
        let mut compare = |key: &str, differs: bool| {
            if differs {
                keys.push(key.to_owned());
            }
        };
        compare("listen", values(&old.listen) != values(&new.listen));
        compare("control", value(&old.control) != value(&new.control));
        compare("metrics", value(&old.metrics) != value(&new.metrics));
        compare("kernel", old.kernel != new.kernel);
        for table in &new.devices {
            let name = |key: &str| format!("device.{}{key}", table.name);
            let Some(was) = old.devices.iter().find(|was| was.name == table.name) else {
                compare(&name(" (new)"), true);
                continue;
            };
            compare(&name(".device"), was.device.value != table.device.value);
            compare(&name(".scheduler"), value(&was.scheduler) != value(&table.scheduler));
            compare(&name(".set"), values(&was.set) != values(&table.set));
            compare(&name(".fault"), values(&was.fault) != values(&table.fault));
            compare(&name(".seed"), was.seed != table.seed);
            compare(&name(".direct"), was.direct != table.direct);
            compare(&name(".cache"), value(&was.cache) != value(&table.cache));
            compare(&name(".busy_poll"), was.busy_poll != table.busy_poll);
            let connections = |table: &DeviceTable| table.connections.as_ref().map(|(count, _)| *count);
            compare(&name(".connections"), connections(was) != connections(table));
            compare(&name(".tls"), tls(was) != tls(table));
            compare(&name(" (its control files)"), was.settings != table.settings);
        }
        for was in old.devices.iter().filter(|was| new.devices.iter().all(|table| table.name != was.name)) {
            compare(&format!("device.{} (removed)", was.name), true);
        }
        let file = self.path.display();
        keys.into_iter().map(|key| format!("{file}: {key}: takes a restart; it stays as it was")).collect()
    }
}

/// Returns a line about an export of a new file.
fn line(table: &ExportTable, why: &str) -> String {
    format!("{}:{}: export.{}: {why}", table.place.file, table.place.line, table.name)
}

/// Returns the values of TLS towards another server.
fn tls(table: &DeviceTable) -> Option<[Option<&str>; 5]> {
    let tls = table.tls.as_ref()?;
    let keys = [&tls.certificates, &tls.ca, &tls.certificate, &tls.key, &tls.hostname];
    Some(keys.map(|given| given.as_ref().map(|given| given.value.as_str())))
}

fn is_same(one: &Exported, other: &Exported) -> bool {
    let of = |export: &Exported| (export.device, export.tenant, export.start, export.told.clone());
    of(one) == of(other)
}

fn lines(failure: &Failure) -> Vec<String> {
    let text = failure.to_string();
    text.lines().map(|line| line.trim_start_matches("elevon: ").to_owned()).collect()
}
