//! A server of a configuration: its devices as plans, its exports as ranges of these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use elevon_core::units::Bytes;
use elevon_formats::cgroup::{Limit, Setting};
use elevon_formats::device::Given;
use elevon_formats::fio::{Diagnostic, ParsedJobs, Problem, Span, read_text_file};
use elevon_formats::quantity::memory_text;
use elevon_formats::serve::{DeviceTable, DiskProtocol, ExportTable, HOLD, ServeFile, parse};
use elevon_formats::tenants::TenantTable;
use elevon_host::{FileIdentity, MAX_PARTS};
use elevon_plan::failure::{Failure, InputError};
use elevon_plan::options::{QueueOptions, StackOptions, TENANTS_SCHEDULER};
use elevon_plan::plan::{Plan, limited_once, prefer_shares_by_weights, weights_in_vain};
use elevon_plan::target::Target;
use elevon_serve::{Address, ConnectionLimits, Exported, Owner, ServerTlsFiles, SocketAccess, Tls};
use elevon_workload::tenants::{TenantPlan, TenantsByPath};

use super::open::{Opened, Planned};
use super::payers::{classes_in_vain, tenants, without_export};

/// A configuration, checked as far as possible without opening anything.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) file: ServeFile,
    pub(super) addresses: Vec<Address>,
    /// Addresses that belong to the exports that name them, and which clients may connect there.
    pub(super) of_exports: Vec<(Address, SocketAccess)>,
    /// The same for guests: each belongs to one export.
    pub(super) of_guests: Vec<(Address, SocketAccess)>,
    /// Which clients may connect to the sockets.
    pub(super) access: SocketAccess,
    /// Where metrics are served.
    pub(super) metrics: Option<Address>,
    pub(super) tls: Option<Tls>,
    /// In the order of the file's devices.
    pub(super) devices: Vec<Planned>,
    /// The tenants of each device whose plan was taken.
    pub(super) tenants: Vec<TenantPlan>,
    pub(super) warnings: Vec<String>,
}

impl Setup {
    /// Reads a configuration. `files` are names of devices that are files without a slash in their
    /// names: such a file may be gone by now.
    pub(super) fn read(path: &Path, files: &[String]) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = read_text_file(path).map_err(|error| Failure::named(&*name, error))?;
        let file = parse(&name, &text).map_err(Failure::text)?;
        let mut errors = Vec::new();
        let mut take = |failure: Failure| match failure {
            Failure::Input(more) => errors.extend(more),
            other => errors.push(InputError::Read(std::io::Error::other(other.to_string()))),
        };
        let access =
            access(file.socket_mode, file.socket_group.as_ref()).unwrap_or_else(|failure| {
                take(failure);
                SocketAccess::default()
            });
        let (mut addresses, mut of_exports, mut of_guests) = (Vec::new(), Vec::new(), Vec::new());
        for given in &file.listen {
            match address(given) {
                Ok(address) => addresses.push(address),
                Err(failure) => take(failure),
            }
        }
        for table in &file.exports {
            let taken = match table.protocol {
                DiskProtocol::Nbd => take_listen(table, access, &mut of_exports),
                DiskProtocol::Vhost => take_vhost(table, access, &mut of_guests),
            };
            taken.unwrap_or_else(&mut take);
        }
        for given in file.exports.iter().flat_map(|export| &export.clients) {
            if let Some(Err(why)) = Owner::of_text(&given.value) {
                take(wrong(given, why));
            }
        }
        let mut metrics = None;
        if let Some(given) = &file.metrics {
            match Address::of_metrics(&given.value) {
                Ok(address) => metrics = Some(address),
                Err(error) => take(wrong(given, format!("{}: {error}", given.value))),
            }
        }
        let tls = super::tls::of_file(&file).unwrap_or_else(|failure| {
            take(failure);
            None
        });
        let mut warnings = without_export(&file);
        warnings.extend(limits_of_nothing(&file));
        let of_tls = tls.as_ref().map(super::tls::warnings).unwrap_or_default();
        warnings.extend(of_tls.into_iter().map(|line| format!("{name}: {line}")));
        let devices = plans(&file, &name, files, &mut warnings, &mut take);
        if errors.is_empty() {
            errors.extend(conflicts(path, &file, &devices).map(InputError::Text));
        }
        if errors.is_empty() {
            Ok(Self {
                file,
                addresses,
                of_exports,
                of_guests,
                access,
                metrics,
                tls,
                devices,
                tenants: Vec::new(),
                warnings,
            })
        } else {
            Err(Failure::Input(errors))
        }
    }

    /// Returns true if it names no address at which disks are served.
    pub(super) fn has_no_address(&self) -> bool {
        self.addresses.is_empty() && self.of_exports.is_empty() && self.of_guests.is_empty()
    }

    /// Returns the exports on devices that are open, with warnings about them.
    pub(super) fn exports(
        &self,
        opened: &[Opened],
    ) -> Result<(Vec<Exported>, Vec<String>), Failure> {
        let mut errors = Vec::new();
        let mut exports: Vec<Exported> = Vec::new();
        let tenants: Vec<_> =
            self.tenants.iter().map(|plan| TenantsByPath::new(&plan.tenants)).collect();
        for table in &self.file.exports {
            match exported(table, &opened[table.device], &tenants[table.device]) {
                Ok(export) => exports.push(export),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(Failure::text(errors));
        }
        let warnings = overlapping(&self.file.exports, &exports);
        Ok((exports, warnings))
    }
}

/// Returns the plan of each device that has one, and adds its warnings. `take` gets the errors of
/// the others. `files` are as in [`Setup::read`].
fn plans(
    file: &ServeFile,
    name: &str,
    files: &[String],
    warnings: &mut Vec<String>,
    take: &mut dyn FnMut(Failure),
) -> Vec<Planned> {
    let mut devices = Vec::new();
    for (index, table) in file.devices.iter().enumerate() {
        match device(file, index, &devices, files) {
            Ok(planned) => {
                let said = planned.plan.warnings.iter().map(|line| said_of(name, table, line));
                warnings.extend(said);
                warnings.extend(classes_in_vain(file, index, planned.plan.scheduler.info()));
                devices.push(planned);
            }
            Err(failure) => take(placed(table, failure)),
        }
    }
    devices
}

/// Returns an error for each place that two keys claim, and for a page cache that is too large.
fn conflicts(
    path: &Path,
    file: &ServeFile,
    devices: &[Planned],
) -> impl Iterator<Item = Diagnostic> {
    let caches = caches_beyond(file, devices, elevon_host::memory::total());
    let own = file
        .devices
        .iter()
        .zip(devices)
        .filter_map(|(table, planned)| own_bytes(path, table, planned));
    clashes(file, devices).into_iter().chain(caches).chain(own)
}

/// Returns the addresses of exports.
fn listens(exports: &[ExportTable]) -> impl Iterator<Item = &Given> {
    exports.iter().flat_map(|export| &export.listen)
}

fn address(given: &Given) -> Result<Address, Failure> {
    given.value.parse().map_err(|error| wrong(given, format!("{}: {error}", given.value)))
}

/// Returns the users that may connect to a socket.
fn access(mode: Option<u32>, group: Option<&Given>) -> Result<SocketAccess, Failure> {
    let group = group.map(|given| {
        group_of(&given.value)
            .ok_or_else(|| wrong(given, format!("{}: the system knows no such group", given.value)))
    });
    Ok(SocketAccess { mode, group: group.transpose()? })
}

/// Takes the addresses of an export. Exports may share one, with the same mode and group.
fn take_listen(
    table: &ExportTable,
    of_server: SocketAccess,
    taken: &mut Vec<(Address, SocketAccess)>,
) -> Result<(), Failure> {
    let own = access(table.socket_mode, table.socket_group.as_ref())?;
    let access =
        SocketAccess { mode: own.mode.or(of_server.mode), group: own.group.or(of_server.group) };
    for given in &table.listen {
        let address = address(given)?;
        match taken.iter().find(|(other, _)| *other == address) {
            Some((_, other)) if *other != access => {
                let words =
                    "another export has this address with another socket_mode or socket_group";
                return Err(wrong(given, format!("{}: {words}", given.value)));
            }
            Some(_) => {}
            None => taken.push((address, access)),
        }
    }
    Ok(())
}

/// Takes the address of an export for guests, which no other export has.
fn take_vhost(
    table: &ExportTable,
    of_server: SocketAccess,
    taken: &mut Vec<(Address, SocketAccess)>,
) -> Result<(), Failure> {
    let had = taken.len();
    take_listen(table, of_server, taken)?;
    match &table.listen[..] {
        [given] if taken.len() == had => {
            let words = "another export has this address; each guest's disk has its own";
            Err(wrong(given, format!("{}: {words}", given.value)))
        }
        _ => Ok(()),
    }
}

/// Returns the number of a group.
pub(super) fn group_of(group: &str) -> Option<u32> {
    group.parse().ok().or_else(|| elevon_host::group_id(group))
}

/// Returns an error for each address at which another key's listens, and for each that is the file
/// of a device.
fn clashes(file: &ServeFile, devices: &[Planned]) -> Vec<Diagnostic> {
    let place_of = |path: &Path| {
        // A socket that is not there yet is in a folder that is.
        let (folder, name) =
            (path.parent().filter(|folder| *folder != Path::new("")), path.file_name());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok();
        path.canonicalize()
            .ok()
            .or_else(|| Some(folder?.join(name?)))
            .unwrap_or_else(|| path.to_owned())
    };
    let of_device = |(table, planned): (&DeviceTable, &Planned)| {
        let keys = table.parts.iter().map(|part| &part.device.key).chain([&table.device.key]);
        let places = planned.paths().zip(keys).map(|(path, key)| (place_of(path), key.clone()));
        places.collect::<Vec<_>>()
    };
    let mut taken: Vec<(PathBuf, String)> =
        file.devices.iter().zip(devices).flat_map(of_device).collect();
    let mut errors = Vec::new();
    let control = file.control.iter().map(|given| (given, PathBuf::from(&given.value)));
    // The system chooses a port for each port 0.
    // Exports may share an address.
    let mut of_exports: Vec<&Given> = Vec::new();
    for given in listens(&file.exports) {
        if of_exports.iter().all(|other| other.value != given.value) {
            of_exports.push(given);
        }
    }
    let others = file.listen.iter().chain(&file.metrics).chain(of_exports);
    let others = others.filter(|given| !given.value.ends_with(":0"));
    for (given, path) in others.map(|given| (given, path_of(&given.value))).chain(control) {
        let place = place_of(&path);
        if let Some((_, key)) = taken.iter().find(|(other, _)| *other == place) {
            let words = format!("{}: is the place of {key}, too", given.value);
            errors.push(given.place.diagnostic(&given.key, Problem::Conflict.because(words)));
        }
        taken.push((place, given.key.clone()));
    }
    errors
}

/// Returns an error if a device is the configuration itself.
fn own_bytes(path: &Path, table: &DeviceTable, planned: &Planned) -> Option<Diagnostic> {
    let Target::Real(device) = &planned.plan.target else { return None };
    let is_it = device.canonicalize().ok()? == path.canonicalize().ok()?;
    let words =
        format!("{}: is this configuration; clients would read and write it", table.device.value);
    is_it
        .then(|| table.device.place.diagnostic(&table.device.key, Problem::Conflict.because(words)))
}

/// Returns an error if the page caches of all devices take more than the machine's memory, at the
/// first that it has no room for.
fn caches_beyond(file: &ServeFile, devices: &[Planned], machine: Bytes) -> Option<Diagnostic> {
    let mut all = 0_u64;
    let of_device = |(table, planned): (&DeviceTable, &Planned)| {
        all = all.saturating_add(planned.plan.cache.as_ref()?.sizes().0.get());
        let given = table.cache.clone()?;
        (all > machine.get()).then_some((given, all))
    };
    let (given, all) = file.devices.iter().zip(devices).find_map(of_device)?;
    let mib = |bytes: u64| memory_text(Bytes::new(bytes >> 20 << 20));
    let (all, machine) = (mib(all), mib(machine.get()));
    let words = format!(
        "{}: with those of the devices before it {all}; the machine has {machine}",
        given.value
    );
    Some(given.place.diagnostic(&given.key, Problem::OutOfRange.because(words)))
}

/// Returns the path of a socket's address; any other stands for itself.
fn path_of(address: &str) -> PathBuf {
    match address.parse() {
        Ok(Address::Unix(path)) => path,
        _ => PathBuf::from(address),
    }
}

/// Returns an export on its device, which is open; `tenants` are the device's.
pub(super) fn exported(
    table: &ExportTable,
    opened: &Opened,
    tenants: &TenantsByPath<'_>,
) -> Result<Exported, Diagnostic> {
    let key = format!("export.{}", table.name);
    let (part, size) = match &table.part {
        None => (None, opened.size.get()),
        Some(name) => match opened.parts.iter().find(|(part, _)| part.name == *name) {
            Some((part, size)) => (Some(part.clone()), *size),
            None => {
                let message =
                    format!("device.{name} comes into its pool, or into another, by a restart");
                return Err(table.place.diagnostic(&key, Problem::Conflict.because(message)));
            }
        },
    };
    let block = u64::from(opened.block);
    let wrong =
        |message: String| Err(table.range.diagnostic(&key, Problem::OutOfRange.because(message)));
    if table.start >= size {
        return wrong(format!("begins at byte {}; the device has {size} bytes", table.start));
    }
    let bytes = table.size.unwrap_or(size - table.start);
    if bytes > size - table.start {
        let left = size - table.start;
        return wrong(format!(
            "{bytes} bytes from byte {} on; the device has {left} there",
            table.start
        ));
    }
    if !table.start.is_multiple_of(block) || !bytes.is_multiple_of(block) {
        return wrong(format!(
            "start and size are multiples of the device's blocks of {block} bytes"
        ));
    }
    let description = table.description.clone().unwrap_or_default();
    Ok(Exported {
        name: table.name.clone(),
        device: table.device,
        tenant: tenants.get(&table.tenant),
        tenant_path: table.tenant.clone(),
        ioprio: table.ioprio,
        start: table.start,
        part,
        disk: opened.disk(bytes, table.read_only, description),
        clients: table.clients.iter().map(|given| owner_text(&given.value)).collect(),
        // As an address is shown.
        listen: table
            .listen
            .iter()
            .filter_map(|given| Some(given.value.parse::<Address>().ok()?.to_string()))
            .collect(),
        max_connections: match table.protocol {
            DiskProtocol::Nbd => table.max_connections,
            DiskProtocol::Vhost => Some(1),
        },
    })
}

/// Returns a client with the number of its user or group in place of the name.
pub(super) fn owner_text(client: &str) -> String {
    match Owner::of_text(client) {
        Some(Ok(Owner::User(uid))) => format!("uid:{uid}"),
        Some(Ok(Owner::Group(gid))) => format!("gid:{gid}"),
        Some(Err(_)) | None => client.to_owned(),
    }
}

/// Returns how many connections may have exports open, and their memory.
pub(super) fn connection_limits(file: &ServeFile) -> ConnectionLimits {
    let of_client = file.tls.as_ref().and_then(|tls| tls.max_connections);
    ConnectionLimits { all: file.max_connections, of_client, request_memory: file.request_memory }
}

/// Returns a warning for each export that shares bytes with one before it, if one of both can be
/// written. Costs O(exports * log exports), and a step for each such pair.
pub(super) fn overlapping(tables: &[ExportTable], exports: &[Exported]) -> Vec<String> {
    let mut by_place: Vec<usize> = (0..exports.len()).collect();
    by_place.sort_by_key(|&at| (exports[at].device, exports[at].base()));
    // By export, the first before it that it shares bytes with, and how many there are.
    let mut shared: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (place, &one) in by_place.iter().enumerate() {
        let (first, end) = (&exports[one], exports[one].base() + exports[one].disk.size);
        let follow = by_place[place + 1..].iter().map(|&other| (other, &exports[other]));
        for (other, export) in
            follow.take_while(|(_, other)| other.device == first.device && other.base() < end)
        {
            if !(first.disk.read_only && export.disk.read_only) {
                let (before, after) = (one.min(other), one.max(other));
                let of = shared.entry(after).or_insert((before, 0));
                *of = (of.0.min(before), of.1 + 1);
            }
        }
    }
    let tables: BTreeMap<&str, &ExportTable> =
        tables.iter().map(|table| (&*table.name, table)).collect();
    let line = |(one, (other, count)): (usize, (usize, usize))| {
        let (one, other) = (&exports[one].name, &exports[other].name);
        let (file, line) = tables.get(&**one).map(|table| (&table.range.file, table.range.line))?;
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        Some(format!("{file}:{line}: export.{one}: shares bytes with export.{other}{more}"))
    };
    shared.into_iter().filter_map(line).collect()
}

/// Returns the names of devices that are files without a slash in their names.
pub(super) fn bare_files(setup: &Setup) -> Vec<String> {
    let of_file = setup.file.devices.iter().zip(&setup.devices);
    let real = of_file.filter(|(_, planned)| matches!(planned.plan.target, Target::Real(_)));
    let all = real.flat_map(|(table, _)| {
        let own = table.parts.is_empty().then_some(&table.device);
        own.into_iter().chain(table.parts.iter().map(|part| &part.device))
    });
    all.filter(|given| !given.value.contains('/')).map(|given| given.value.clone()).collect()
}

/// Returns without an error if the folders of all sockets are there.
pub(super) fn check_folders(file: &ServeFile) -> Result<(), Failure> {
    let control = file.control.iter().map(|given| (given, PathBuf::from(&given.value)));
    let sockets =
        file.listen.iter().chain(&file.metrics).chain(listens(&file.exports)).filter_map(|given| {
            match given.value.parse() {
                Ok(Address::Unix(path)) => Some((given, path)),
                _ => None,
            }
        });
    for (given, path) in control.chain(sockets) {
        let folder =
            path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(wrong(
                given,
                format!("{}: {} is no folder", given.value, folder.display()),
            ));
        }
        if let Err(error) = std::os::unix::net::SocketAddr::from_pathname(&path) {
            return Err(wrong(given, format!("{}: {error}", given.value)));
        }
    }
    Ok(())
}

/// Returns a warning for each `limit` that limits nothing.
fn limits_of_nothing(file: &ServeFile) -> Vec<String> {
    let rates = |of: &Limit| [of.rbps, of.wbps, of.bps, of.riops, of.wiops, of.iops];
    let is_nothing = |setting: &Setting| matches!(setting, Setting::Limit(limit) if rates(limit).iter().all(Option::is_none));
    let tables = file.tenants.iter().filter(|table| table.settings.iter().any(is_nothing));
    let say = |table: &TenantTable| {
        let (name, line, path) = (&table.place.file, table.place.line, &table.path);
        format!(
            "{name}:{line}: tenant.{path}: limit has no effect: it has no rate, such as bps or iops"
        )
    };
    tables.map(say).collect()
}

/// Returns the plan of a device. `before` are those of the devices before it, `files` the names
/// that are those of files.
fn device(
    file: &ServeFile,
    index: usize,
    before: &[Planned],
    files: &[String],
) -> Result<Planned, Failure> {
    let table = &file.devices[index];
    let values = |all: &[Given]| all.iter().map(|given| given.value.clone()).collect::<Vec<_>>();
    let scheduler = table.scheduler.as_ref().map_or(TENANTS_SCHEDULER, |given| &given.value);
    let queue = QueueOptions {
        scheduler: Some(scheduler.to_owned()),
        kernel: Some(file.kernel.name().to_owned()),
        set: values(&table.set),
        fault: values(&table.fault),
        tenants: None,
    };
    let (seed, cache) = (table.seed, table.cache.as_ref().map(|given| given.value.clone()));
    let path_of =
        |name: &String| if files.contains(name) { format!("./{name}") } else { name.clone() };
    let name = path_of(table.parts.first().map_or(&table.device.value, |part| &part.device.value));
    let mut parts = Vec::new();
    for part in &table.parts {
        match elevon_plan::target::target(&path_of(&part.device.value)) {
            Ok(Target::Real(path)) if parts.len() < MAX_PARTS => parts.push(path),
            Ok(Target::Real(_)) => {
                return Err(wrong(
                    &table.device,
                    format!("a pool has at most {MAX_PARTS} devices"),
                ));
            }
            Ok(_) => {
                return Err(wrong(
                    &part.device,
                    "a pool has files and block devices only".to_owned(),
                ));
            }
            Err(failure) => return Err(failure),
        }
    }
    let args =
        StackOptions { queue, seed, cache, is_served: true, ..StackOptions::of_device(&name) };
    let mut plan = Plan::of_jobs(ParsedJobs::of_specs(Vec::new()), "", &args, None)?;
    reach(table, &mut plan.target)?;
    distinct(table, (&plan.target, &parts), file, before)?;
    plan.tenants = TenantPlan::new(&[], Some(&tenants(file, index))).map_err(Failure::text)?;
    prefer(table, &mut plan)?;
    plan.warnings.extend(weights_in_vain(&plan));
    if seed != DeviceTable::SEED
        && plan.faults.is_empty()
        && !matches!(plan.target, Target::Simulated(_))
    {
        plan.warnings.push(
            "seed has no effect: only simulated devices and faults choose at random".to_owned(),
        );
    }
    limited_once(&plan)?;
    let read_only = file.exports.iter().all(|export| export.device != index || export.read_only);
    let names = table.parts.iter().map(|part| part.name.clone()).collect();
    let hold = table.on_loss.as_ref().map_or(HOLD, |(time, _)| *time);
    let (direct, busy_poll, shared) = (table.direct, table.busy_poll, table.shared.is_some());
    let raw = if parts.is_empty() {
        vec![table.is_raw]
    } else {
        table.parts.iter().map(|part| part.is_raw).collect()
    };
    let is_watched = true;
    Ok(Planned { plan, parts, names, raw, read_only, direct, busy_poll, hold, shared, is_watched })
}

/// Decides whether shares come before the last fifth of the throughput: by the key, or else by the
/// weights of tenants.
fn prefer(table: &DeviceTable, plan: &mut Plan) -> Result<(), Failure> {
    if let Some(given) = &table.prefer
        && !plan.scheduler.set_if_not_given("prefer", &given.value)
    {
        let name = plan.scheduler.name;
        let message = match plan.scheduler.tunables.iter().any(|(tunable, _)| *tunable == "prefer")
        {
            true => "the scheduler's text gives it, too; give it once".to_owned(),
            false => format!("{name} has no such choice; aileron has"),
        };
        return Err(wrong(given, message));
    }
    prefer_shares_by_weights(plan);
    Ok(())
}

/// Returns without an error if what a device or a pool is of is served once: no two paths of it are
/// those of one file, and no device before it is the same.
fn distinct(
    table: &DeviceTable,
    (target, parts): (&Target, &[PathBuf]),
    file: &ServeFile,
    before: &[Planned],
) -> Result<(), Failure> {
    let refused = |given: &Given, other: &str| {
        Err(wrong(given, format!("is device.{other} already; let exports of it share it")))
    };
    let mut known: BTreeMap<FileIdentity, &str> = BTreeMap::new();
    for (other, planned) in file.devices.iter().zip(before) {
        let names = other.parts.iter().map(|part| &*part.name).chain([&*other.name]);
        known.extend(
            planned
                .paths()
                .zip(names)
                .filter_map(|(path, name)| Some((FileIdentity::from_path(path)?, name))),
        );
        if let (Target::Nbd(one), Target::Nbd(new)) = (&planned.plan.target, target)
            && one.is_same_export(new)
        {
            return refused(&table.device, &other.name);
        }
    }
    let own = match target {
        Target::Real(path) if parts.is_empty() => Some((&table.device, &*table.name, path)),
        Target::Real(_) | Target::Simulated(_) | Target::Nbd(_) => None,
    };
    let of_pool =
        table.parts.iter().zip(parts).map(|(part, path)| (&part.device, &*part.name, path));
    for (given, name, path) in own.into_iter().chain(of_pool) {
        let Some(identity) = FileIdentity::from_path(path) else { continue };
        if let Some(other) = known.insert(identity, name) {
            return refused(given, other);
        }
    }
    Ok(())
}

/// Takes the keys that say how a disk of another server is reached.
fn reach(table: &DeviceTable, target: &mut Target) -> Result<(), Failure> {
    let key = |name: &str| format!("device.{}.{name}", table.name);
    let Target::Nbd(address) = target else {
        let complaint = |place: &Span, name| {
            let words =
                "only a disk of another server has it, such as device = \"nbd://HOST/EXPORT\"";
            Failure::text(vec![place.diagnostic(&key(name), Problem::Conflict.because(words))])
        };
        let given = [
            (table.connections.as_ref().map(|(_, place)| place), "connections"),
            (table.on_loss.as_ref().map(|(_, place)| place), "on_loss"),
            (table.shared.as_ref(), "shared"),
            (table.tls.as_ref().map(|_| &table.place), "tls"),
        ];
        let in_vain = given.into_iter().find_map(|(place, name)| Some((place?, name)));
        return in_vain.map_or(Ok(()), |(place, name)| Err(complaint(place, name)));
    };
    if let Some((connections, _)) = table.connections {
        address.connections = connections;
    }
    let Some(given) = &table.tls else { return Ok(()) };
    let Some(tls) = &mut address.tls else {
        return Err(wrong(
            &table.device,
            format!("{}: has keys of TLS; write nbds in place of nbd", table.device.value),
        ));
    };
    let path = |given: &Given| PathBuf::from(&given.value);
    let own = given.certificate.as_ref().zip(given.key.as_ref());
    tls.files =
        given.certificates.as_ref().map(|folder| ServerTlsFiles::of_folder(&path(folder))).or_else(
            || {
                let certificate = own.map(|(certificate, key)| (path(certificate), path(key)));
                given.ca.as_ref().map(|ca| ServerTlsFiles { ca: path(ca), certificate })
            },
        );
    if let Some(hostname) = &given.hostname {
        tls.hostname = Some(hostname.value.clone());
    }
    Ok(())
}

/// Returns an error about a key, at its value.
pub(super) fn wrong(given: &Given, message: String) -> Failure {
    Failure::text(vec![given.place.diagnostic(&given.key, Problem::Malformed.because(message))])
}

/// The keys of a device that options of the command line have the same names as.
fn options(table: &DeviceTable) -> [(&'static str, Vec<&Given>); 5] {
    [
        ("--scheduler", table.scheduler.iter().collect()),
        ("--set", table.set.iter().collect()),
        ("--fault", table.fault.iter().collect()),
        ("--cache", table.cache.iter().collect()),
        ("--device", vec![&table.device]),
    ]
}

/// Returns an error about an option as one at the place of the key that gave it.
pub(super) fn placed(table: &DeviceTable, failure: Failure) -> Failure {
    let Failure::Input(errors) = failure else { return failure };
    let at_key = |error: InputError| {
        if let InputError::Text(_) = error {
            return error;
        }
        let device = error.of_served_device();
        let text =
            device.as_ref().map_or_else(|| error.to_string(), |line| format!("--device {line}"));
        let files = table
            .tls
            .iter()
            .flat_map(|tls| [&tls.ca, &tls.certificate, &tls.key, &tls.certificates]);
        let of_device = device.as_deref().unwrap_or_default();
        if let Some(file) = files.flatten().find(|given| of_device.starts_with(&given.value)) {
            return InputError::Text(
                file.place.diagnostic(&file.key, Problem::Malformed.because(of_device)),
            );
        }
        for (option, given) in options(table) {
            let Some(rest) = text.strip_prefix(option) else { continue };
            let message = rest.trim_start_matches([':', ' ']);
            let is_about = |given: &&&Given| {
                let name = given.value.split('=').next().unwrap_or_default();
                message.contains(&given.value)
                    || message.split([':', ' ', '=']).next() == Some(name)
            };
            let Some(key) = given.iter().find(is_about).or(given.first()) else { continue };
            return InputError::Text(
                key.place.diagnostic(&key.key, Problem::Malformed.because(message)),
            );
        }
        InputError::Text(
            table.device.place.diagnostic(&table.device.key, Problem::Malformed.because(text)),
        )
    };
    Failure::Input(errors.into_iter().map(at_key).collect())
}

/// Returns a warning about a device with its place.
pub(super) fn said_of(file: &str, table: &DeviceTable, line: &str) -> String {
    let line = line.strip_prefix("--tenants: ").or_else(|| line.strip_prefix("--")).unwrap_or(line);
    format!("{file}:{}: device.{}: {line}", table.place.line, table.name)
}
