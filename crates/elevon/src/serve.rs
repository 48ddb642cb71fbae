//! `elevon serve`: files, block devices and simulated devices as NBD disks, through the stack.

mod advice;
mod config;
mod log;
mod notify;
mod open;
mod payers;
mod reload;
mod tls;
mod watch;

use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use elevon_core::ioprio::IoPrio;
use elevon_core::nearest::{did_you_mean, nearest};
use elevon_core::units::{Bytes, Nanos, TenantId};
use elevon_formats::fio::ParsedJobs;
use elevon_formats::serve::{
    BUSY_POLL, HOLD, MAX_CONNECTIONS, NAME_MAX, REQUEST_MEMORY, busy_poll, is_owner, on_loss,
    request_memory, socket_mode,
};
use elevon_host::interrupt::Interrupt;
use elevon_host::passed::{self, Passed};
use elevon_serve::{
    Address, ConnectionLimits, Exported, Field, Hooks, Level, Owner, Record, Reload, Server,
    SocketAccess, Tls, UpstreamAddress,
};

use elevon_plan::failure::{Ending, Failure, InputError, MachineError, ValueError};
use elevon_plan::options::StackOptions;
use elevon_plan::plan::Plan;
use elevon_plan::target::{Target, target};
use elevon_sim::profiles;

use crate::args::{LogFormat, ServeArgs};
use crate::error::CommandError;
use crate::terminal::emit_text;
use config::{Setup, overlapping};
use log::warn;
use open::{Opened, Planned};
use reload::{Running, ServedDevice, reload_of};
use watch::Watch;

pub(crate) fn serve(args: &ServeArgs) -> Result<Ending, Failure> {
    log::start(args).map_err(MachineError::StartIo)?;
    let served = serve_any(args).map_err(log::fail);
    log::finish();
    served
}

fn serve_any(args: &ServeArgs) -> Result<Ending, Failure> {
    let is_config = is_config(&args.file);
    // Before any file is opened.
    let passed = passed::take().map_err(MachineError::Passed)?;
    if is_config {
        return serve_config(args, passed);
    }
    if args.check || (args.listen.is_empty() && !has_disks(&passed)) {
        let name = args.file.display().to_string();
        let error = if args.check { CommandError::CheckOfNoConfig } else { CommandError::NoListen };
        return Err(Failure::named(name, error));
    }
    serve_one(args, passed)
}

/// Returns true if what is served is the name of a configuration, and no `@FILE` of a simulated
/// device and no address of another server.
fn is_config(file: &Path) -> bool {
    let text = file.display().to_string();
    let is_device = text.starts_with('@') || UpstreamAddress::is_one(&text);
    !is_device && file.extension().is_some_and(|extension| extension == "toml")
}

/// Sockets that the process was started with, and their names.
type PassedSockets = Vec<(String, Passed)>;

/// Returns true if clients of disks can come through one of the sockets.
fn has_disks(passed: &PassedSockets) -> bool {
    passed.iter().any(|(name, _)| !["control", "metrics"].contains(&name.as_str()))
}

/// Serves what a configuration says.
fn serve_config(args: &ServeArgs, passed: PassedSockets) -> Result<Ending, Failure> {
    let path = &args.file;
    for (option, is_given) in options_of_one(args) {
        if is_given {
            let config = path.display().to_string();
            return Err(Failure::named(option, CommandError::BesideConfig { config }));
        }
    }
    let mut setup = Setup::read(path, &[])?;
    warn(&setup.warnings);
    if args.check {
        if setup.has_no_address() {
            let name = path.display();
            warn(&[format!(
                "{name}: no key listen: only sockets that the server is started with are served"
            )]);
        }
        return check(&mut setup, path);
    }
    if setup.has_no_address() && !has_disks(&passed) {
        return Err(Failure::named(path.display().to_string(), CommandError::NoAddress));
    }
    let interrupt = Interrupt::on_signals_with_reload().map_err(MachineError::Signals)?;
    let mut server = Server::new(config::connection_limits(&setup.file), log::log);
    let (mut opened, mut served) = (Vec::new(), Vec::new());
    let files = config::bare_files(&setup);
    for (index, planned) in std::mem::take(&mut setup.devices).into_iter().enumerate() {
        let table = &setup.file.devices[index];
        setup.tenants.push(planned.plan.tenants.clone());
        let added = open::add(server.devices(), &table.name, planned);
        let (number, device) = added.map_err(|failure| config::placed(table, failure))?;
        served.push(ServedDevice { number, table: table.clone(), opened: device.clone() });
        opened.push(device);
    }
    let exports = exports_of(&setup, path, &opened)?;
    let warnings =
        [std::mem::take(&mut setup.warnings), overlapping(&setup.file.exports, &exports)].concat();
    let names: Vec<Named> =
        exports.iter().map(|export| named(export, setup.tls.as_ref())).collect();
    exports.into_iter().for_each(|export| server.add_export(export));
    if let Some(control) = &setup.file.control {
        let listening = server.listen_for_commands(Path::new(&control.value));
        listening.map_err(|error| config::wrong(control, error.to_string()))?;
    }
    let running = Running::new(path.clone(), setup.file, served, files, warnings);
    let watch = Watch::new(running.watched());
    let (nbd, of_exports, of_guests) = (setup.addresses, setup.of_exports, setup.of_guests);
    let (access, metrics) = (setup.access, setup.metrics);
    let addresses = Addresses { nbd, of_exports, of_guests, access, metrics, passed };
    set_tls(&mut server, setup.tls);
    run(server, addresses, &names, &interrupt, (watch, Some(reload_of(running))))
}

/// Returns the exports on devices that are open, and prints what is to be known of both.
fn exports_of(setup: &Setup, path: &Path, opened: &[Opened]) -> Result<Vec<Exported>, Failure> {
    let name = path.display().to_string();
    for (table, opened) in setup.file.devices.iter().zip(opened) {
        warn(
            &opened
                .notes
                .iter()
                .map(|note| config::said_of(&name, table, note))
                .collect::<Vec<_>>(),
        );
    }
    let (exports, warnings) = setup.exports(opened)?;
    warn(&warnings);
    Ok(exports)
}

/// Opens every device of a configuration for reading, and says what would be served.
fn check(setup: &mut Setup, path: &Path) -> Result<Ending, Failure> {
    let (mut opened, mut advice) = (Vec::new(), Vec::new());
    config::check_folders(&setup.file)?;
    for (index, mut planned) in std::mem::take(&mut setup.devices).into_iter().enumerate() {
        let is_written = !std::mem::replace(&mut planned.read_only, true);
        setup.tenants.push(planned.plan.tenants.clone());
        let table = &setup.file.devices[index];
        let seen = open::look(&planned).map_err(|failure| config::placed(table, failure))?;
        advice.extend(advice::line(&table.name, &planned.plan, seen.rotational, seen.queues));
        opened.push(seen);
        if let (Target::Real(device), true) = (&planned.plan.target, is_written) {
            let parts =
                table.parts.iter().map(|part| (&part.device, Path::new(&part.device.value)));
            let own = table.parts.is_empty().then_some((&table.device, &**device));
            for (given, path) in own.into_iter().chain(parts) {
                let refused = |error| format!("{}: cannot be written: {error}", given.value);
                elevon_host::file::may_write(path)
                    .map_err(|error| config::wrong(given, refused(error)))?;
            }
        }
    }
    for export in exports_of(setup, path, &opened)? {
        let (device, tenants) =
            (&setup.file.devices[export.device].name, &setup.tenants[export.device].tenants);
        let tenant = export.tenant.index().checked_sub(1).map_or("/", |index| &tenants[index].path);
        let access = if export.disk.read_only { ", read-only" } else { "" };
        let (name, size, start) = (&export.name, export.disk.size, export.start);
        emit_text(&format!(
            "export {name}: {size} bytes of device {device} from {start} on, tenant {tenant}{access}\n"
        ))?;
    }
    for line in advice {
        emit_text(&format!("{line}\n"))?;
    }
    if let Some(tls) = &setup.tls {
        emit_text(&format!("{}\n", tls::clients_in_words(tls)))?;
    }
    Ok(Ending::Done)
}

/// Gives a server its TLS, and logs whether clients are verified by it.
fn set_tls(server: &mut Server, tls: Option<Tls>) {
    if let Some(tls) = &tls {
        log::log(&Record::new(Level::Info, "server", &tls::clients_in_words(tls)));
    }
    server.set_tls(tls);
}

/// Options of a single export, with whether they were given.
fn options_of_one(args: &ServeArgs) -> [(&'static str, bool); 26] {
    let queue = &args.queue.options.queue;
    [
        ("--listen", !args.listen.is_empty()),
        ("--socket-mode", args.socket_mode.is_some()),
        ("--socket-group", args.socket_group.is_some()),
        ("--control", args.control.is_some()),
        ("--metrics", args.metrics.is_some()),
        ("--tls-certificates", args.tls_certificates.is_some()),
        ("--tls-certificate", args.tls_certificate.is_some()),
        ("--tls-key", args.tls_key.is_some()),
        ("--tls-client-ca", args.tls_client_ca.is_some()),
        ("--tls-required", args.tls_required.is_some()),
        ("--client", !args.clients.is_empty()),
        ("--name", args.name.is_some()),
        ("--max-connections", args.max_connections.is_some()),
        ("--request-memory", args.request_memory.is_some()),
        ("--format", args.format.is_some()),
        ("--read-only", args.read_only),
        ("--direct", args.direct),
        ("--cache", args.cache.is_some()),
        ("--busy-poll", args.busy_poll.is_some()),
        ("--on-loss", args.on_loss.is_some()),
        ("--scheduler", queue.scheduler.is_some()),
        ("--kernel", queue.kernel.is_some()),
        ("--set", !queue.set.is_empty()),
        ("--fault", !queue.fault.is_empty()),
        ("--tenants", queue.tenants.is_some()),
        ("--tenant", args.tenant.is_some()),
    ]
}

/// Serves one device as one export. An error about the device names it as the user did.
fn serve_one(args: &ServeArgs, passed: PassedSockets) -> Result<Ending, Failure> {
    let file = args.file.display().to_string();
    let device = device_of(&file);
    serve_device(args, &device, passed).map_err(|failure| of_file(failure, &device, &file))
}

fn serve_device(args: &ServeArgs, device: &str, passed: PassedSockets) -> Result<Ending, Failure> {
    let (addresses, tls) = addresses_of_args(args, passed)?;
    let name = name_of_args(args)?;
    let busy_poll = busy_poll_of_args(args)?;
    let request_memory = request_memory_of_args(args)?;
    let plan =
        Plan::of_jobs(ParsedJobs::of_specs(Vec::new()), "", &stack_args(args, device), None)?;
    let tenant = tenant(&plan, args.tenant.as_deref())?;
    let tenant_path = args.tenant.clone().unwrap_or_default();
    // Without jobs, every tenant of the file seems to be without a use.
    warn(
        &plan
            .warnings
            .iter()
            .filter(|line| !plan.tenants.warnings.contains(line))
            .cloned()
            .collect::<Vec<_>>(),
    );
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let all = args.max_connections.unwrap_or(MAX_CONNECTIONS);
    let limits = ConnectionLimits { all, of_client: None, request_memory };
    let mut server = Server::new(limits, log::log);
    let is_watched =
        args.control.is_some() || args.metrics.is_some() || !addresses.passed.is_empty();
    let hold = hold(args, &plan)?;
    let planned = Planned {
        plan,
        parts: Vec::new(),
        names: Vec::new(),
        raw: vec![args.format.is_some()],
        read_only: args.read_only,
        direct: args.direct,
        busy_poll,
        hold,
        shared: false,
        is_watched,
    };
    let device = default_name(&args.file);
    let (_, opened) = open::add(server.devices(), &device, planned)?;
    warn(&opened.notes);
    let files = opened.file.iter().map(|file| (device.clone(), file.clone())).collect();
    let watch = Watch::new(Arc::new(Mutex::new(files)));
    let disk = opened.disk(opened.size.get(), args.read_only, String::new());
    let clients = clients(args)?;
    let export = Exported {
        name,
        device: 0,
        tenant,
        tenant_path,
        ioprio: IoPrio::NONE,
        start: 0,
        part: None,
        disk,
        clients,
        listen: Vec::new(),
        max_connections: None,
    };
    let named = named(&export, tls.as_ref());
    server.add_export(export);
    if let Some(path) = &args.control {
        server.listen_for_commands(path)?;
    }
    set_tls(&mut server, tls);
    run(server, addresses, &[named], &interrupt, (watch, None))
}

/// Returns where the server of options listens, and its TLS.
fn addresses_of_args(
    args: &ServeArgs,
    passed: PassedSockets,
) -> Result<(Addresses, Option<Tls>), Failure> {
    let nbd = args.listen.iter().map(|text| address(text)).collect::<Result<Vec<_>, _>>()?;
    let metrics = args.metrics.as_deref().map(|text| {
        Address::of_metrics(text)
            .map_err(|error| Failure::named(format!("--metrics {text}"), error))
    });
    let tls = tls::of_args(args)?;
    warn(&tls.as_ref().map(tls::warnings).unwrap_or_default());
    let (of_exports, of_guests) = (Vec::new(), Vec::new());
    let (access, metrics) = (access(args)?, metrics.transpose()?);
    let addresses = Addresses { nbd, of_exports, of_guests, access, metrics, passed };
    Ok((addresses, tls))
}

/// Returns the name of the export of options.
fn name_of_args(args: &ServeArgs) -> Result<String, Failure> {
    let name = args.name.clone().unwrap_or_else(|| default_name(&args.file));
    if name.len() > NAME_MAX || name.contains(char::is_control) {
        let expected = format!("at most {NAME_MAX} bytes and no control characters");
        return Err(Failure::named("--name", ValueError::expected(expected)));
    }
    Ok(name)
}

/// Returns for how long the device's thread polls before it sleeps.
fn busy_poll_of_args(args: &ServeArgs) -> Result<Nanos, Failure> {
    let parse = |text: &str| {
        busy_poll(text).map_err(|error| Failure::named(format!("--busy-poll {text}"), error))
    };
    args.busy_poll.as_deref().map_or(Ok(BUSY_POLL), parse)
}

/// Returns the memory for the data of requests.
fn request_memory_of_args(args: &ServeArgs) -> Result<Bytes, Failure> {
    let parse = |text: &str| {
        request_memory(text)
            .map_err(|error| Failure::named(format!("--request-memory {text}"), error))
    };
    args.request_memory.as_deref().map_or(Ok(REQUEST_MEMORY), parse)
}

/// Returns for how long requests are held if the server of the disk is gone.
fn hold(args: &ServeArgs, plan: &Plan) -> Result<Nanos, Failure> {
    let Some(text) = &args.on_loss else { return Ok(HOLD) };
    if !matches!(plan.target, Target::Nbd(_)) {
        return Err(Failure::named(
            "--on-loss",
            ValueError::expected("a disk of another server, nbd://HOST/EXPORT"),
        ));
    }
    on_loss(text).map_err(|error| Failure::named(format!("--on-loss {text}"), error))
}

/// Returns the users that may connect to the sockets of options.
fn access(args: &ServeArgs) -> Result<SocketAccess, Failure> {
    let mode = args.socket_mode.as_deref().map(|text| {
        socket_mode(text).map_err(|error| Failure::named(format!("--socket-mode {text}"), error))
    });
    let group = args.socket_group.as_deref().map(|text| {
        let unknown = || {
            Failure::named(
                format!("--socket-group {text}"),
                ValueError::expected("a group of the system"),
            )
        };
        config::group_of(text).ok_or_else(unknown)
    });
    Ok(SocketAccess { mode: mode.transpose()?, group: group.transpose()? })
}

/// Returns the clients of options.
fn clients(args: &ServeArgs) -> Result<Vec<String>, Failure> {
    let checked = |client: &String| match Owner::of_text(client) {
        Some(Err(why)) => Err(Failure::named("--client", ValueError::expected(why))),
        Some(Ok(_)) | None => Ok(config::owner_text(client)),
    };
    args.clients.iter().map(checked).collect()
}

/// Where a server listens.
struct Addresses {
    nbd: Vec<Address>,
    /// Those that belong to the exports that name them, and which clients may connect there.
    of_exports: Vec<(Address, SocketAccess)>,
    /// The same for guests.
    of_guests: Vec<(Address, SocketAccess)>,
    access: SocketAccess,
    metrics: Option<Address>,
    passed: PassedSockets,
}

/// Listens, prints the addresses of the exports, and serves until a signal.
fn run(
    mut server: Server,
    addresses: Addresses,
    exports: &[Named],
    interrupt: &Interrupt,
    (watch, reload): (Watch, Option<Reload>),
) -> Result<Ending, Failure> {
    let watch = RefCell::new(watch);
    // The handler of signals writes plain lines.
    let is_text = log::format() == LogFormat::Text;
    if !is_text {
        interrupt.silence();
    }
    let access = addresses.access;
    let mut lines = Vec::new();
    for address in &addresses.nbd {
        let bound = server.listen(address, access)?;
        let here = exports.iter().filter(|export| export.listen.is_empty());
        lines.extend(here.map(|export| bound.uri(export.scheme, &export.name)));
    }
    for (address, access) in &addresses.of_exports {
        let bound = server.listen_for_exports(address, *access)?;
        let here = exports.iter().filter(|export| export.listen.contains(&address.to_string()));
        lines.extend(here.map(|export| bound.uri(export.scheme, &export.name)));
    }
    for (address, access) in &addresses.of_guests {
        let bound = server.listen_for_guests(address, *access)?;
        lines.push(format!("vhost-user: {bound}"));
    }
    addresses.passed.into_iter().for_each(|(name, socket)| server.adopt(&name, socket));
    let metrics =
        addresses.metrics.as_ref().map(|address| server.listen_for_http(address)).transpose()?;
    let mut lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match metrics {
        Some(Address::Tcp(place)) => lines += &format!("metrics: http://{place}/metrics\n"),
        Some(address @ Address::Unix(_)) => lines += &format!("metrics: {address}\n"),
        None => {}
    }
    let printed = print(lines)?;
    // It is asked often.
    let stop = || {
        watch.borrow_mut().look();
        notify::tell_again();
        if let (true, Some(signal), false) = (interrupt.is_set(), interrupt.signal(), is_text) {
            let message = "stopping once all I/O in flight has finished; a second signal, 1 s from now or later, stops at once";
            let fields = [("signal", Field::Number(signal as u64))];
            log::log(&Record { level: Level::Info, target: "server", message, fields: &fields });
        }
        interrupt.is_set()
    };
    let reload_wanted = || interrupt.take_reload_request();
    let watchdog = notify::watchdog();
    let (notify, page) = (notify::notify, elevon_report::live::page);
    let hooks =
        Hooks { stop: &stop, reload_wanted: &reload_wanted, reload, notify, watchdog, page };
    // A server ends when it is told to, by a signal or a command.
    let ending = if server.run(hooks)? { Ending::Done } else { Ending::Failed };
    // What is not read by now is not waited for.
    let _ = printed.recv_timeout(LAST_LINES);
    Ok(ending)
}

/// How long the end of the server waits until the addresses are printed.
const LAST_LINES: Duration = Duration::from_millis(200);

/// Prints lines to stdout in a thread of its own: the reader may not read, or may be gone, and
/// clients are served all the same. What is returned says when that is over.
fn print(lines: String) -> Result<Receiver<()>, Failure> {
    let (done, is_done) = channel();
    let work = move || {
        match emit_text(&lines) {
            Err(failure) if !failure.is_broken_pipe() => {
                let message = format!("the addresses could not be printed: {failure}");
                log::log(&Record::new(Level::Warning, "server", message.trim_end()));
            }
            _ => {}
        }
        drop(done);
    };
    std::thread::Builder::new().name("stdout".into()).spawn(work).map_err(MachineError::StartIo)?;
    Ok(is_done)
}

/// Returns the options of a run on the same device.
fn stack_args(args: &ServeArgs, device: &str) -> StackOptions {
    let (queue, cache) = (args.queue.options.queue.clone(), args.cache.clone());
    StackOptions { queue, cache, is_served: true, ..StackOptions::of_device(device) }
}

/// Returns what is served as `--device` takes it: a file without a slash in its name gets one,
/// since its name could be that of a simulated device.
fn device_of(file: &str) -> String {
    let is_file = Path::new(file).exists();
    let name = file.split(':').next().unwrap_or_default();
    // One that is not there, and has nearly the name of a simulated device, perhaps means it.
    let is_simulated = || {
        file.starts_with('@')
            || matches!(target(file), Ok(Target::Simulated(_)))
            || nearest(name, profiles::names()).is_some()
    };
    if file.contains('/') || (!is_file && is_simulated()) {
        file.to_owned()
    } else {
        format!("./{file}")
    }
}

/// Returns a failure about `--device` as one about the file that was given in its place.
fn of_file(failure: Failure, device: &str, file: &str) -> Failure {
    let Failure::Input(errors) = failure else { return failure };
    let of_file = |error: InputError| {
        let text = error.to_string();
        let line = error.of_served_device().unwrap_or_else(|| text.clone()).replace(device, file);
        if line == text { error } else { InputError::Served { line, error: Box::new(error) } }
    };
    Failure::Input(errors.into_iter().map(of_file).collect())
}

fn address(text: &str) -> Result<Address, Failure> {
    text.parse::<Address>().map_err(|error| Failure::named(format!("--listen {text}"), error))
}

/// Returns the tenant of a path in the file of `--tenants`.
fn tenant(plan: &Plan, path: Option<&str>) -> Result<TenantId, Failure> {
    let tenants = &plan.tenants.tenants;
    let Some(path) = path else {
        // What is served would be the root's, and none of their settings would hold.
        let names =
            tenants.iter().map(|tenant| tenant.path.as_str()).collect::<Vec<_>>().join(", ");
        let is_none = tenants.is_empty();
        let error = CommandError::WhichTenant { names };
        return if is_none { Ok(TenantId(0)) } else { Err(Failure::named("--tenants", error)) };
    };
    let found = tenants.iter().position(|tenant| tenant.path == path);
    found.map(|index| TenantId(index as u32 + 1)).ok_or_else(|| {
        let meant = did_you_mean(path, tenants.iter().map(|tenant| tenant.path.as_str()));
        Failure::named(format!("--tenant {path}"), CommandError::NoTenant { meant })
    })
}

/// Returns the name of an export: that of its file, or of its simulated device without parameters.
fn default_name(file: &Path) -> String {
    if let Ok(address) = file.display().to_string().parse::<UpstreamAddress>() {
        // The default export has no name.
        return if address.export.is_empty() { "disk".to_owned() } else { address.export };
    }
    let text = file.to_string_lossy();
    // Parameters of a device may have slashes: bandwidth=1GB/s.
    let path = if file.exists() { &text } else { text.split(':').next().unwrap_or_default() };
    let name = Path::new(path)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    name.trim_start_matches('@').to_owned()
}

/// An export as its addresses are printed.
struct Named {
    name: String,
    /// `nbd`, or `nbds` for clients that have to use TLS.
    scheme: &'static str,
    /// The addresses at which alone it is reached.
    listen: Vec<String>,
}

/// Returns an export as its addresses are printed: `nbds` asks clients to use TLS, without which no
/// client has a name among the export's clients.
fn named(export: &Exported, tls: Option<&Tls>) -> Named {
    let by_name =
        export.clients.iter().all(|client| !is_owner(client)) && !export.clients.is_empty();
    let takes_tls = tls.is_some_and(Tls::is_required) || by_name;
    let scheme = if takes_tls { "nbds" } else { "nbd" };
    Named { name: export.name.clone(), scheme, listen: export.listen.clone() }
}
