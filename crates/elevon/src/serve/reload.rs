//! Reads a configuration again while it is served: tenants and exports change, devices, addresses
//! and the kernel's rules do not.

use std::path::PathBuf;

use elevon_formats::device::Given;
use elevon_formats::serve::{DeviceTable, ExportTable, ServeFile};
use elevon_serve::{Control, Exported, Reload};
use elevon_workload::tenants::TenantPlan;

use super::config::{Setup, connection_limits, exported, overlapping};
use super::log::warn;
use super::open::Opened;
use crate::failure::Failure;

/// What is served.
pub(super) struct Running {
    pub(super) path: PathBuf,
    pub(super) file: ServeFile,
    pub(super) opened: Vec<Opened>,
    /// The warnings about the configuration, which are not repeated.
    pub(super) warnings: Vec<String>,
}

/// Returns what reads a configuration again.
pub(super) fn reload_of(mut running: Running) -> Reload {
    Box::new(move |control| running.reload(control))
}

impl Running {
    fn reload(&mut self, control: &Control<'_>) -> Result<Vec<String>, Vec<String>> {
        let setup = Setup::read(&self.path).map_err(|failure| lines(&failure))?;
        let mut refused = self.refused(&setup.file);
        // The files may be others under the same names: certificates are renewed.
        control.set_tls(setup.tls);
        control.set_connection_limits(connection_limits(&setup.file));
        // The devices are those that are open, in their order; the file may have others.
        let mut now = setup.file.clone();
        let index_of = |table: &DeviceTable| self.file.devices.iter().position(|old| old.name == table.name);
        let indices: Vec<Option<usize>> = setup.file.devices.iter().map(index_of).collect();
        now.exports.retain_mut(|export| match indices[export.device] {
            Some(device) => {
                export.device = device;
                true
            }
            None => false,
        });
        for device in 0..self.file.devices.len() {
            let plan =
                indices.iter().position(|index| *index == Some(device)).map(|new| &setup.devices[new].plan.tenants);
            let plan = plan.cloned().unwrap_or_default();
            refused.extend(self.renew(control, device, &plan, &now.exports));
        }
        let open = control.exports().into_iter().map(|view| view.exported.name);
        let gone = open.filter(|name| !now.exports.iter().any(|export| export.name == *name));
        control.remove_exports(&gone.collect::<Vec<_>>());
        let exports: Vec<Exported> = control.exports().into_iter().map(|view| view.exported).collect();
        let warnings = [setup.warnings, overlapping(&now.exports, &exports)].concat();
        warn(&warnings.iter().filter(|line| !self.warnings.contains(line)).cloned().collect::<Vec<_>>());
        self.warnings = warnings;
        self.file.tenants = now.tenants;
        self.file.exports = now.exports;
        Ok(refused)
    }

    /// Applies tenants and exports of a device. Returns what is refused.
    fn renew(&self, control: &Control<'_>, device: usize, plan: &TenantPlan, exports: &[ExportTable]) -> Vec<String> {
        let ids = match control.set_tenants(device, plan.tenants.clone()) {
            Ok(ids) => ids,
            Err(error) => return vec![format!("device.{}: {error}", self.file.devices[device].name)],
        };
        let mut refused = Vec::new();
        let views = control.exports();
        for table in exports.iter().filter(|export| export.device == device) {
            let old = views.iter().find(|view| view.exported.name == table.name);
            match exported(table, &self.opened[device], plan) {
                Err(error) => refused.push(error.to_string()),
                Ok(mut export) => {
                    if self.opened[device].for_reading && !table.read_only {
                        refused.push(format!(
                            "{}:{}: export.{}: takes a restart to be written: its device was opened for reading only",
                            table.place.file, table.place.line, table.name
                        ));
                    }
                    if let Some(at) = export.tenant.index().checked_sub(1) {
                        export.tenant = ids[at];
                    }
                    if old.is_some_and(|view| view.exported.clients != export.clients) {
                        control.set_clients(&export.name, export.clients.clone());
                    }
                    control.set_max_connections(&export.name, export.max_connections);
                    match old {
                        Some(view) if is_same(&view.exported, &export) => {}
                        Some(view) if !view.clients.is_empty() => {
                            let (file, line, clients) = (&table.place.file, table.place.line, view.clients.len());
                            refused.push(format!(
                                "{file}:{line}: export.{}: {clients} connections have it open as it was; drain it first",
                                table.name
                            ));
                        }
                        _ => control.put_export(export),
                    }
                }
            }
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
