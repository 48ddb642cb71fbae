//! The control socket: a line of JSON is a command, and a line of JSON is its answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use elevon_core::kernel::Rules;
use elevon_formats::cgroup::Setting;
use elevon_formats::serve::EVERY_DEVICE;
use serde_json::{Value, json};

use crate::admin::view::Observed;
use crate::control::{Control, Reloader};
use crate::device::view::unknown_tenant;
use crate::log::{Level, Record};
use crate::net::connected::ConnectionView;
use crate::net::gate::Gate;
use crate::net::listen::{ACCEPT_RETRY, Listener, Socket};
use crate::net::peer::Peer;
use crate::shared::Shared;

/// The longest command, in bytes.
const MAX_COMMAND_BYTES: u64 = 64 << 10;
/// The longest time over which a rate is explained.
pub(crate) const LONGEST_SPAN: u64 = 60_000;
/// The time over which a rate is explained, in milliseconds, unless another is asked for.
const SPAN: u64 = 1_000;

/// Every command, for the answer to an unknown one.
const COMMANDS: [&str; 12] = [
    "exports",
    "connections",
    "stats",
    "explain",
    "set",
    "fault",
    "drain",
    "resume",
    "disconnect",
    "reopen",
    "reload",
    "stop",
];

/// Those that change something, but for `reload`, which is logged by the thread that carries it
/// out.
const CHANGES: [&str; 7] = ["set", "fault", "drain", "resume", "disconnect", "reopen", "stop"];

/// Accepts connections that command, until the server has ended.
pub(crate) fn accept(listener: &Listener, reloader: &Arc<Reloader>) {
    while !reloader.shared().is_stopping() {
        match listener.accept() {
            Ok(socket) => {
                let reloader = Arc::clone(reloader);
                // Without a thread the connection ends, which is the answer.
                let _ =
                    std::thread::Builder::new().spawn(move || answer_commands(socket, &reloader));
            }
            Err(_) => std::thread::sleep(ACCEPT_RETRY),
        }
    }
}

/// Answers commands until the other side is done.
fn answer_commands(socket: Socket, reloader: &Reloader) {
    let shared = reloader.shared();
    let Ok(writer) = socket.try_clone() else { return };
    lines(BufReader::new(socket), writer, |command| {
        let answer = Command::of(command, &Control(shared).kernel().rules())
            .and_then(|asked| answer(asked, reloader));
        log(command, &answer, shared);
        answer
    });
}

/// Answers each line with a line until the other side is done.
pub(crate) fn lines(
    mut reader: impl BufRead,
    mut writer: impl Write,
    mut answer: impl FnMut(&Value) -> Result<Value, String>,
) {
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_COMMAND_BYTES).read_until(b'\n', &mut line);
        if !read.is_ok_and(|bytes| bytes > 0) {
            return;
        }
        let is_too_long = line.len() as u64 == MAX_COMMAND_BYTES && !line.ends_with(b"\n");
        if is_too_long && skip_line(&mut reader).is_err() {
            return;
        }
        let answer = match serde_json::from_slice::<Value>(&line) {
            _ if is_too_long => {
                json!({ "error": format!("a command of more than {MAX_COMMAND_BYTES} bytes") })
            }
            Ok(command) => answer(&command).unwrap_or_else(|error| json!({ "error": error })),
            Err(error) => json!({ "error": format!("no command in a line of JSON: {error}") }),
        };
        if writer.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Logs a command that changes something, and what came of it.
fn log(command: &Value, answer: &Result<Value, String>, shared: &Shared) {
    let name = text(command, "command").unwrap_or_default();
    if !CHANGES.contains(&name) {
        return;
    }
    let words = ["export", "tenant", "setting", "whom", "device"]
        .iter()
        .filter_map(|key| command[key].as_str());
    let command = words.fold(name.to_owned(), |words, word| format!("{words} {word}"));
    let lines = answer.iter().flat_map(|answer| answer["warnings"].as_array()).flatten().count();
    let (level, end) = match (answer, lines) {
        (Err(error), _) => (Level::Error, format!("refused: {error}")),
        (Ok(_), 0) => (Level::Info, "done".to_owned()),
        (Ok(_), 1) => (Level::Warning, "done, with a warning to the caller".to_owned()),
        (Ok(_), lines) => (Level::Warning, format!("done, with {lines} warnings to the caller")),
    };
    shared.log(&Record::new(level, "command", &format!("command {command}: {end}")));
}

/// Reads past the rest of a line.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = reader.fill_buf()?;
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(());
        }
    }
}

/// A command that can be carried out if there is what it names.
#[derive(Debug)]
pub(crate) enum Command {
    Exports,
    Connections,
    /// Those of a number, an address, a process, a name or an export.
    Disconnect(String),
    Stats,
    /// Why a tenant has its rate, over so many milliseconds.
    Explain {
        tenant: String,
        span: u64,
    },
    /// Settings of a tenant. `named`: the device that they name; `is_part`: they name single keys
    /// of tables, and the others stay.
    Set {
        tenant: String,
        settings: Vec<Setting>,
        named: Option<String>,
        is_part: bool,
    },
    /// The rules of a device's faults.
    Fault {
        device: String,
        rules: Vec<String>,
    },
    /// `None`: all exports.
    Drain(Option<String>),
    Resume(Option<String>),
    /// The disk of a device is opened again.
    Reopen(String),
    Reload,
    Stop,
}

impl Command {
    /// Checks what a line says, without what the server has.
    ///
    /// # Errors
    /// What is wrong, for the answer.
    pub(crate) fn of(command: &Value, rules: &Rules) -> Result<Self, String> {
        let name = text(command, "command").unwrap_or_default();
        match name {
            "exports" => Ok(Self::Exports),
            "connections" => Ok(Self::Connections),
            "disconnect" => text(command, "whom").map(|whom| Self::Disconnect(whom.to_owned())),
            "stats" => Ok(Self::Stats),
            "explain" => explained(command),
            "set" => settings(command, rules),
            "fault" => faults(command),
            "drain" => export(command).map(Self::Drain),
            "resume" => export(command).map(Self::Resume),
            "reopen" => text(command, "device").map(|name| Self::Reopen(name.to_owned())),
            "reload" => Ok(Self::Reload),
            "stop" => Ok(Self::Stop),
            _ => Err(format!("`{name}` is no command; there are {}", COMMANDS.join(", "))),
        }
    }
}

/// Carries out a command.
fn answer(command: Command, reloader: &Reloader) -> Result<Value, String> {
    let shared = reloader.shared();
    let control = Control(shared);
    match command {
        Command::Exports => Ok(json!({ "exports": Observed::of(&control).exports_json() })),
        Command::Connections => {
            let all: Vec<Value> = control.connection_views().iter().map(connection).collect();
            Ok(json!({ "connections": all }))
        }
        Command::Disconnect(whom) => match control.disconnect(&whom) {
            (ended, _) if ended.is_empty() => {
                Err(format!("{whom}: no connection has this number, address, name or export"))
            }
            (ended, warnings) => Ok(json!({ "connections": ended, "warnings": warnings })),
        },
        Command::Stats => Ok(Observed::of(&control).json()),
        Command::Explain { tenant, span } => explain(&control, &tenant, span),
        Command::Set { tenant, settings, named, is_part } => {
            if let Some(device) = named.filter(|_| control.devices().len() > 1) {
                return Err(format!("{device}: {EVERY_DEVICE}"));
            }
            let warnings = control.set(&tenant, &settings, is_part)?;
            Ok(json!({ "warnings": warnings }))
        }
        Command::Fault { device, rules } => control.set_faults(&device, &rules).map(|()| json!({})),
        Command::Drain(name) => with_exports(&control, name, |names| control.drain(names)),
        Command::Resume(name) => with_exports(&control, name, |names| {
            control.resume(names);
            Vec::new()
        }),
        Command::Reopen(device) => control.reopen(&device).map(|()| json!({})),
        Command::Reload => match reloader.reload_and_log() {
            Ok(refused) => Ok(json!({ "refused": refused })),
            Err(errors) => Err(errors.join("\n")),
        },
        Command::Stop => {
            shared.stop();
            Ok(json!({}))
        }
    }
}

/// Returns a connection as JSON.
fn connection(view: &ConnectionView) -> Value {
    let mut value = json!({
        "connection": view.number,
        "peer": view.who,
        "names": view.names,
        "export": view.export,
        "tenant": view.export.as_ref().map(|_| &view.tenant),
        "age_ns": u64::try_from(view.age.as_nanos()).unwrap_or(u64::MAX),
    });
    match &view.peer {
        Peer::Unknown => {}
        Peer::Address(address) => value["address"] = json!(address.to_string()),
        Peer::Process(of) => {
            for (key, number) in [("pid", of.pid), ("uid", of.uid), ("gid", of.gid)] {
                value[key] = json!(number);
            }
        }
    }
    value
}

/// Returns a text of a command, or says that it is missing.
fn text<'a>(command: &'a Value, key: &str) -> Result<&'a str, String> {
    match &command[key] {
        Value::String(text) => Ok(text),
        Value::Null => Err(format!("`{key}` is missing: expected a text")),
        other => Err(format!("{key}: {other}: expected a text")),
    }
}

/// Returns the export that a command names. One that is no name is not taken for none.
fn export(command: &Value) -> Result<Option<String>, String> {
    match &command["export"] {
        Value::Null => Ok(None),
        _ => text(command, "export").map(|name| Some(name.to_owned())),
    }
}

/// Returns the rules of a command, of which there may be none.
fn faults(command: &Value) -> Result<Command, String> {
    let device = text(command, "device")?.to_owned();
    let Value::Array(rules) = &command["rules"] else {
        return Err("rules: expected a list of texts".to_owned());
    };
    let rule = |rule: &Value| {
        rule.as_str().map(str::to_owned).ok_or_else(|| format!("rules: {rule}: expected a text"))
    };
    Ok(Command::Fault { device, rules: rules.iter().map(rule).collect::<Result<_, _>>()? })
}

fn explained(command: &Value) -> Result<Command, String> {
    let tenant = text(command, "tenant")?.to_owned();
    let span = match &command["over_ms"] {
        Value::Null => SPAN,
        given => given.as_u64().filter(|span| (1..=LONGEST_SPAN).contains(span)).ok_or_else(|| {
            format!("over_ms: {given}: expected a whole number of milliseconds from 1 to {LONGEST_SPAN}")
        })?,
    };
    Ok(Command::Explain { tenant, span })
}

fn explain(control: &Control<'_>, tenant: &str, span: u64) -> Result<Value, String> {
    let before = Observed::of(control);
    // Said at once, not after the time.
    before.explain(&before, tenant).ok_or_else(|| unknown_tenant(&before.devices, tenant))?;
    std::thread::sleep(Duration::from_millis(span));
    let after = Observed::of(control);
    after.explain(&before, tenant).ok_or_else(|| unknown_tenant(&after.devices, tenant))
}

fn settings(command: &Value, rules: &Rules) -> Result<Command, String> {
    let (tenant, setting) = (text(command, "tenant")?, text(command, "setting")?);
    let path = elevon_formats::tenants::normal_path(tenant)
        .map_err(|error| format!("{tenant}: {error}"))?;
    // The setting is read as a line of a file of tenants below the tenant's table.
    let file = format!("[tenant.a]\n{setting}\n");
    let file = elevon_formats::tenants::parse("", &file, rules).map_err(|errors| {
        let line = |error: &elevon_formats::fio::Diagnostic| {
            // Text that is no TOML has no key.
            let key = error.key.trim_start_matches("tenant.a.");
            format!("{}: {}", if key.is_empty() { setting } else { key }, error.message)
        };
        errors.iter().map(line).collect::<Vec<_>>().join("; ")
    })?;
    let [table] = &file.tenants[..] else {
        return Err(format!("{setting}: expected a setting, such as weight = 200"));
    };
    if table.settings.is_empty() || !file.changes.is_empty() || !file.device.is_empty() {
        return Err(format!("`{setting}`: expected settings of a tenant, such as weight = 200"));
    }
    let is_part = setting.lines().any(names_part);
    Ok(Command::Set { tenant: path, settings: table.settings.clone(), named: file.named, is_part })
}

/// Returns true if a line sets a single key of a table: `limit.iops = 100`.
fn names_part(line: &str) -> bool {
    let key = line.split('=').next().unwrap_or_default();
    let table = key.split_once('.').map(|(table, _)| table.trim().trim_matches(['"', '\'']));
    table.is_some_and(|table| ["limit", "reserve"].contains(&table))
}

/// Does something with the export of a name, or with all of them. What is done returns lines to be
/// told.
fn with_exports(
    control: &Control<'_>,
    name: Option<String>,
    act: impl Fn(&[String]) -> Vec<String>,
) -> Result<Value, String> {
    let all: Vec<String> = control.exports().into_iter().map(|view| view.exported.name).collect();
    let names = match name {
        None => all,
        Some(name) if all.contains(&name) => vec![name],
        Some(name) => return Err(format!("{name}: no such export")),
    };
    let warnings = act(&names);
    Ok(json!({ "exports": names, "warnings": warnings }))
}
