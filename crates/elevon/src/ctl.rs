//! `elevon ctl`: a command for a server that runs, and its answer as text or JSON.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use clap::Args as _;
use elevon_core::nearest::did_you_mean;
use elevon_core::units::Nanos;
use elevon_plan::failure::{Ending, Failure, InputError, MachineError, ValueError};
use elevon_result::number;
use elevon_result::tenants::reserve_in_words;
use serde_json::{Value, json};

use crate::args::{CtlArgs, CtlCommand, TextOrJson};
use crate::terminal::{emit_text, tell};

/// What is said of a server from which no more comes.
const ENDED: &str = "the server ended before it answered";

/// The longest time that `explain` looks at, in seconds.
const MAX_EXPLAIN_SECONDS: f64 = 60.0;

pub(crate) fn ctl(args: &CtlArgs) -> Result<Ending, Failure> {
    let command = command(&args.command)?;
    let mut stream = connect(&args.socket)?;
    let answer = ask_over(&mut stream, &args.socket, &command)?;
    if let CtlCommand::Stop { wait: true } = args.command {
        wait_for_end(stream, &args.socket)?;
    }
    let refused = strings(&answer["refused"]);
    if args.output_format == TextOrJson::Json {
        emit_text(&format!("{answer:#}\n"))?;
    } else {
        refused.iter().chain(&strings(&answer["warnings"])).for_each(|line| tell(line));
        emit_text(&text(&args.command, &answer))?;
    }
    Ok(if refused.is_empty() { Ending::Done } else { Ending::Failed })
}

/// Returns the command as the socket takes it.
fn command(command: &CtlCommand) -> Result<Value, Failure> {
    Ok(match command {
        CtlCommand::Exports => json!({ "command": "exports" }),
        CtlCommand::Connections => json!({ "command": "connections" }),
        CtlCommand::Disconnect { whom } => json!({ "command": "disconnect", "whom": whom }),
        CtlCommand::Stats => json!({ "command": "stats" }),
        CtlCommand::Explain { tenant, seconds } => {
            if !(0.001..=MAX_EXPLAIN_SECONDS).contains(seconds) {
                let expected = ValueError::expected("a time from 0.001 to 60 seconds");
                return Err(Failure::named(format!("--seconds {seconds}"), expected));
            }
            json!({ "command": "explain", "tenant": tenant, "over_ms": (seconds * 1000.0) as u64 })
        }
        CtlCommand::Set { tenant, setting } => {
            json!({ "command": "set", "tenant": tenant, "setting": setting })
        }
        CtlCommand::Fault { device, rules } => {
            let rules: Vec<&String> = rules.iter().filter(|rule| *rule != "off").collect();
            json!({ "command": "fault", "device": device, "rules": rules })
        }
        CtlCommand::Drain { export } => json!({ "command": "drain", "export": export }),
        CtlCommand::Resume { export } => json!({ "command": "resume", "export": export }),
        CtlCommand::Reopen { device } => json!({ "command": "reopen", "device": device }),
        CtlCommand::Reload => json!({ "command": "reload" }),
        CtlCommand::Stop { .. } => json!({ "command": "stop" }),
        CtlCommand::Unknown(words) => {
            let all = CtlArgs::augment_args(clap::Command::new("ctl"));
            let names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
            let word = words.first().map_or("", String::as_str);
            let meant = did_you_mean(word, names.iter().copied());
            let expected = ValueError::expected(format!("a command: {}{meant}", names.join(", ")));
            return Err(Failure::named(format!("`{word}`"), expected));
        }
    })
}

/// How long a server may take to answer a command.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for one that waits for clients to leave, several times in turn.
const LONG_PATIENCE: Duration = Duration::from_secs(120);

/// Returns how long the answer to a command may take.
fn patience(command: &Value) -> Duration {
    match command["command"].as_str() {
        Some("drain" | "disconnect" | "reload" | "reopen") => LONG_PATIENCE,
        _ => ANSWER_TIMEOUT + Duration::from_millis(number_of(&command["over_ms"])),
    }
}

/// Sends a command to a server, and returns its answer.
pub(crate) fn ask(socket: &Path, command: &Value) -> Result<Value, Failure> {
    ask_over(&mut connect(socket)?, socket, command)
}

/// Waits until the server has ended, however long that takes: its process closes the connection.
fn wait_for_end(mut stream: UnixStream, socket: &Path) -> Result<(), Failure> {
    let failed = |error| MachineError::Server { socket: socket.display().to_string(), error };
    stream.set_read_timeout(None).map_err(failed)?;
    match io::copy(&mut stream, &mut io::sink()) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(failed(error).into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn connect(socket: &Path) -> Result<UnixStream, Failure> {
    let nobody = |error: io::Error| {
        if error.kind() == io::ErrorKind::TimedOut {
            return MachineError::Server { socket: socket.display().to_string(), error };
        }
        let words = format!(
            "{error}; no server has its control socket there: name the path of --control, or of the key control"
        );
        let error = io::Error::new(error.kind(), words);
        MachineError::Server { socket: socket.display().to_string(), error }
    };
    Ok(elevon_host::connect_unix(socket, ANSWER_TIMEOUT).map_err(nobody)?)
}

fn ask_over(stream: &mut UnixStream, socket: &Path, command: &Value) -> Result<Value, Failure> {
    let failed = |error| MachineError::Server { socket: socket.display().to_string(), error };
    let patience = patience(command);
    let waited = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let words =
                format!("no answer in {} s: the server hangs or is stopped", patience.as_secs());
            failed(io::Error::new(io::ErrorKind::TimedOut, words))
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            failed(io::Error::new(error.kind(), ENDED))
        }
        _ => failed(error),
    };
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    stream.write_all(format!("{command}\n").as_bytes()).map_err(waited)?;
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line).map_err(waited)? == 0 {
        return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, ENDED)).into());
    }
    let no_control_socket =
        "no answer to a command; is it the path of --control, or of the key control?";
    let answer: Value =
        serde_json::from_str(&line).map_err(|_| failed(io::Error::other(no_control_socket)))?;
    match answer["error"].as_str() {
        // A configuration is refused in several lines.
        Some(error) => Err(Failure::Input(
            error.lines().map(|line| InputError::Refused(line.to_owned())).collect(),
        )),
        None => Ok(answer),
    }
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns an answer for people.
fn text(command: &CtlCommand, answer: &Value) -> String {
    match command {
        CtlCommand::Exports => exports(&answer["exports"]),
        CtlCommand::Connections => connections(&answer["connections"]),
        CtlCommand::Stats => list(&answer["devices"]).map(device).collect(),
        CtlCommand::Explain { .. } => list(&answer["devices"]).map(explained).collect(),
        CtlCommand::Set { .. }
        | CtlCommand::Fault { .. }
        | CtlCommand::Drain { .. }
        | CtlCommand::Resume { .. }
        | CtlCommand::Reopen { .. }
        | CtlCommand::Disconnect { .. }
        | CtlCommand::Reload
        | CtlCommand::Stop { .. }
        | CtlCommand::Unknown(_) => String::new(),
    }
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number_of(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Writes rows in columns; the first row is the heads, and columns of numbers are aligned right.
pub(crate) fn columns(rows: &[Vec<String>], is_number: &[bool]) -> String {
    let mut out = String::new();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..is_number.len()).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for ((cell, &width), &is_number) in row.iter().zip(&widths).zip(is_number) {
            let _ = if is_number {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn exports(all: &Value) -> String {
    let mut rows = vec![
        ["export", "device", "tenant", "start", "bytes", "clients", "state"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for export in list(all) {
        let clients = list(&export["clients"]).count();
        let state = match (export["drained"] == true, export["read_only"] == true) {
            (true, _) => "drained",
            (false, true) => "read-only",
            (false, false) => "open",
        };
        let texts = ["name", "device", "tenant"].map(|key| word(&export[key]).to_owned());
        let numbers = ["start", "size"].map(|key| number_of(&export[key]).to_string());
        let rest = [clients.to_string(), state.to_owned()];
        rows.push(texts.into_iter().chain(numbers).chain(rest).collect());
    }
    columns(&rows, &[false, false, false, true, true, true, false])
}

fn connections(all: &Value) -> String {
    let mut rows =
        vec![["connection", "export", "tenant", "client", "age"].map(str::to_owned).to_vec()];
    for of in list(all) {
        // One that has opened nothing yet has no export.
        let [export, tenant] =
            ["export", "tenant"].map(|key| of[key].as_str().unwrap_or("-").to_owned());
        let (number, age) = (number_of(&of["connection"]), number_of(&of["age_ns"]));
        rows.push(vec![
            number.to_string(),
            export,
            tenant,
            word(&of["peer"]).to_owned(),
            number::span(age as f64),
        ]);
    }
    columns(&rows, &[true, false, false, false, true])
}

fn device(device: &Value) -> String {
    let at = number_of(&device["at_ns"]);
    let busy = number_of(&device["busy_ns"]) as f64 * 100.0 / at.max(1) as f64;
    let span = number::span(at as f64);
    let mut out = format!("device {}: {busy:.1} % busy in {span}", word(&device["name"]));
    if let Some(failure) = device["failure"].as_str() {
        let _ = write!(out, "; {failure}");
    }
    out.push('\n');
    let faults = device["faults"].as_object().into_iter().flatten();
    let faults: Vec<String> = faults.map(|(name, count)| format!("{name} {count}")).collect();
    if !faults.is_empty() {
        let _ = writeln!(out, "faults that happened: {}", faults.join(", "));
    }
    if let Some(line) = cache_line(&device["cache"]) {
        let _ = writeln!(out, "{line}");
    }
    let heads = [
        "tenant",
        "requests",
        "reads",
        "writes",
        "read",
        "written",
        "in flight",
        "client p50",
        "client p99",
        "device p50",
        "device p99",
        "settings",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for tenant in list(&device["tenants"]) {
        let bytes = |key: &str| number::bytes_decimal(number_of(&tenant["bytes"][key]) as f64);
        // There is none of a tenant without I/O.
        let (client, device) = (&tenant["client"]["latency_ns"], &tenant["latency_ns"]);
        let time = |of: &Value, key: &str| {
            of[key].as_u64().map_or_else(|| "-".to_owned(), |ns| number::span(ns as f64))
        };
        let settings: Vec<String> = tenant["settings"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, text)| format!("{name} = {}", word(text)))
            .collect();
        rows.push(vec![
            word(&tenant["path"]).to_owned(),
            number_of(&client["total"]).to_string(),
            number_of(&tenant["ios"]["read"]).to_string(),
            number_of(&tenant["ios"]["write"]).to_string(),
            bytes("read"),
            bytes("write"),
            number_of(&tenant["in_flight"]).to_string(),
            time(client, "p50"),
            time(client, "p99"),
            time(device, "p50"),
            time(device, "p99"),
            settings.join("; "),
        ]);
    }
    let is_number: [bool; 12] = std::array::from_fn(|at| at > 0 && at < 11);
    let of_weights = list(&device["tenants"]).filter_map(|tenant| {
        let line = weight_line(number_of(&tenant["shares_missed_ns"]), at)?;
        Some(format!("{}: {line}\n", word(&tenant["path"])))
    });
    let of_weights: String = of_weights.collect();
    out + &columns(&rows, &is_number) + &of_weights
}

/// Returns what a page cache does, if there is one.
fn cache_line(cache: &Value) -> Option<String> {
    let bytes = |key: &str| number::bytes_decimal(number_of(&cache[key]) as f64);
    let (hit, missed) = (number_of(&cache["hit_bytes"]), number_of(&cache["missed_bytes"]));
    let share = hit as f64 * 100.0 / (hit + missed).max(1) as f64;
    let mode = cache["mode"].as_str()?;
    let mut line = format!("page cache, {mode}: {share:.1} % of what was read was there; ");
    let [cached, dirty, written] = ["cached_bytes", "dirty_bytes", "written_bytes"].map(bytes);
    let _ = write!(line, "{cached} cached, {dirty} dirty, {written} written back");
    if let Some(words) = cache["lost"].as_str() {
        let _ = write!(line, "; a write-back or a flush failed ({words}): no flush succeeds");
    }
    Some(line)
}

/// Returns what a tenant found in the page cache, if there is one, a line each.
fn cache_lines(cache: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let (reads, hits) = (number_of(&cache["reads"]), number_of(&cache["hits"]));
    if reads > 0 {
        let share = hits as f64 * 100.0 / reads as f64;
        lines.push(format!("page cache: {share:.1} % of {reads} reads were answered from it"));
    }
    for (key, words) in
        [("paused_ns", "the limit of dirty pages"), ("starved_ns", "a lack of free memory")]
    {
        let time = number_of(&cache[key]);
        if time > 0 {
            lines.push(format!(
                "page cache: {} in which its I/O was held by {words}",
                number::span(time as f64)
            ));
        }
    }
    lines
}

/// The part of the time that a tenant may lose of its share while its weight counts as in force.
const MAX_LOST_PART: u64 = 50;

/// Returns a line if the weight of a tenant was not in force for a part of `span` nanoseconds, from
/// the device time that it lost meanwhile.
pub(crate) fn weight_line(missed: u64, span: u64) -> Option<String> {
    let share = missed as f64 * 100.0 / span.max(1) as f64;
    let why = "all of its requests were in the device, which orders them by itself";
    (missed > span / MAX_LOST_PART).then(|| {
        format!("weight not in force: {share:.1} % of the device's time was due to it and lost, because {why}")
    })
}

/// Returns what waits for an answer now, if anything does.
pub(crate) fn waiting_line(waiting: &Value) -> Option<String> {
    let requests = number_of(&waiting["requests"]);
    let oldest = number::span(number_of(&waiting["oldest_ns"]) as f64);
    let mut line = match requests {
        0 => return None,
        1 => format!("1 request waits, for {oldest}"),
        _ => format!("{requests} requests wait, the oldest for {oldest}"),
    };
    if let Some(words) = waiting["held_by"].as_str() {
        let _ = write!(line, ", held by {words}");
    }
    Some(line)
}

fn explained(device: &Value) -> String {
    let rate = number::bytes_decimal(device["bytes_per_second"].as_f64().unwrap_or_default());
    let (tenant, name) = (word(&device["tenant"]), word(&device["device"]));
    let span = number::span(number_of(&device["ns"]) as f64);
    let iops = number::significant(device["iops"].as_f64().unwrap_or_default(), 4);
    let in_flight = number_of(&device["in_flight"]);
    let mut out = format!(
        "{tenant} on device {name}, over {span}: {iops} IOPS, {rate}/s, {in_flight} in flight\n"
    );
    // With a page cache requests may need no I/O.
    let answered = device["requests_per_second"].as_f64().filter(|rate| *rate > 0.0);
    if let Some(answered) = answered {
        let _ = writeln!(
            out,
            "  {} requests/s of its clients were answered",
            number::significant(answered, 4)
        );
    }
    for setting in strings(&device["settings"]) {
        let _ = writeln!(out, "  in force: {setting}");
    }
    let of_cache = cache_lines(&device["cache"]);
    for line in &of_cache {
        let _ = writeln!(out, "  {line}");
    }
    if let Some(missed) = device["reserve_missed_ns"].as_u64() {
        let _ = writeln!(out, "  reserve: {}", reserve_in_words(Nanos::new(missed)));
    }
    if let Some(line) =
        weight_line(number_of(&device["shares_missed_ns"]), number_of(&device["ns"]))
    {
        let _ = writeln!(out, "  {line}");
    }
    let waiting = waiting_line(&device["waiting"]);
    if let Some(line) = &waiting {
        let _ = writeln!(out, "  {line}");
    }
    let causes: Vec<&Value> =
        list(&device["causes"]).filter(|cause| number_of(&cause["ns"]) > 0).collect();
    if causes.is_empty() && of_cache.is_empty() && waiting.is_none() {
        let words = if answered.is_some() { "its requests needed no I/O" } else { "it had no I/O" };
        let _ = writeln!(out, "  nothing of it waited: {words}");
    }
    for cause in causes {
        let share = cause["share"].as_f64().unwrap_or_default();
        let _ = writeln!(out, "  {share:>5.1} % {}", word(&cause["words"]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_the_rate_and_its_causes() {
        let answer = json!({ "devices": [{
            "device": "fast", "tenant": "db", "ns": 1_000_000_000_u64, "iops": 500.0, "bytes_per_second": 2.048e6,
            "in_flight": 3, "settings": ["limit = { iops = 500 }"], "reserve_missed_ns": 250_000_000,
            "waiting": { "requests": 7, "oldest_ns": 5_200_000_000_u64, "held_by": "own limit iops=500" },
            "causes": [{ "words": "own limit iops=500", "ns": 976, "share": 97.6 }, { "words": "device", "ns": 24, "share": 2.4 },
                { "words": "plug", "ns": 0, "share": 0.0 }],
        }]});
        let explain = CtlCommand::Explain { tenant: "db".to_owned(), seconds: 1.0 };
        let expected = "db on device fast, over 1.00s: 500.0 IOPS, 2048kB/s, 3 in flight\n  in force: limit = { iops = 500 }\n  reserve: short by 250ms of it while I/O was waiting\n  7 requests wait, the oldest for 5.20s, held by own limit iops=500\n   97.6 % own limit iops=500\n    2.4 % device\n";
        assert_eq!(text(&explain, &answer), expected);
    }

    #[test]
    fn a_weight_that_is_not_in_force_has_a_line_that_says_why() {
        let lost = |nanos: u64| {
            let tenant = json!({ "path": "gold", "shares_missed_ns": nanos });
            let device = json!({ "name": "d", "at_ns": 1_000_000_000_u64, "tenants": [tenant] });
            let stats = text(&CtlCommand::Stats, &json!({ "devices": [device] }));
            let device = json!({ "device": "d", "tenant": "gold", "ns": 1_000_000_000_u64, "shares_missed_ns": nanos });
            let explain = CtlCommand::Explain { tenant: "gold".to_owned(), seconds: 1.0 };
            let explained = text(&explain, &json!({ "devices": [device] }));
            [stats, explained]
                .map(|text| text.lines().filter(|line| line.contains("weight not")).count())
        };
        assert_eq!(
            (lost(20_000_000), lost(20_000_001)),
            ([0, 0], [1, 1]),
            "a fiftieth of the time"
        );
        let line = "weight not in force: 12.5 % of the device's time was due to it and lost, \
                    because all of its requests were in the device, which orders them by itself";
        assert_eq!(weight_line(125, 1000).as_deref(), Some(line));
    }

    #[test]
    fn a_server_may_take_as_long_as_a_command_does() {
        assert_eq!(patience(&json!({ "command": "stats" })), ANSWER_TIMEOUT);
        assert_eq!(
            patience(&json!({ "command": "explain", "over_ms": 60_000 })),
            ANSWER_TIMEOUT + Duration::from_secs(60)
        );
        assert_eq!(patience(&json!({ "command": "drain" })), LONG_PATIENCE);
    }

    #[test]
    fn a_tenant_without_io_has_no_latency() {
        let tenant = |path: &str, p50: Value| {
            json!({ "path": path, "latency_ns": { "p50": p50, "p99": p50 },
            "client": { "latency_ns": { "total": 3, "p50": 9_000, "p99": p50 } } })
        };
        let tenants = [tenant("a", json!(1_500)), tenant("b", Value::Null)];
        let answer =
            json!({ "devices": [{ "name": "d", "at_ns": 1_000_000_000_u64, "tenants": tenants }] });
        let lines = text(&CtlCommand::Stats, &answer);
        let last = |line: &str| {
            line.split_whitespace().rev().take(4).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            lines.lines().skip(2).map(last).collect::<Vec<_>>(),
            [["1.50us", "1.50us", "1.50us", "9.00us"], ["-", "-", "-", "9.00us"]],
            "{lines}"
        );
    }

    #[test]
    fn a_page_cache_has_lines_where_there_is_one() {
        let cache = json!({ "mode": "write-back", "hit_bytes": 3 << 20, "missed_bytes": 1 << 20, "cached_bytes": 8_000_000,
            "dirty_bytes": 4096, "written_bytes": 0, "lost": "I/O" });
        let line = "page cache, write-back: 75.0 % of what was read was there; 8000kB cached, 4096B dirty, 0B written back; a write-back or a flush failed (I/O): no flush succeeds";
        assert_eq!(cache_line(&cache).as_deref(), Some(line));
        assert_eq!((cache_line(&Value::Null), cache_lines(&Value::Null)), (None, Vec::new()));
        let of =
            json!({ "reads": 8, "hits": 6, "writes": 1, "paused_ns": 1_500_000, "starved_ns": 0 });
        let lines = [
            "page cache: 75.0 % of 8 reads were answered from it",
            "page cache: 1.50ms in which its I/O was held by the limit of dirty pages",
        ];
        assert_eq!(cache_lines(&of), lines);
    }

    #[test]
    fn columns_are_as_wide_as_what_stands_in_them() {
        let rows = [
            vec!["a".to_owned(), "n".to_owned()],
            vec!["long".to_owned(), "5".to_owned()],
            vec!["b".to_owned(), "12".to_owned()],
        ];
        assert_eq!(columns(&rows, &[false, true]), "a      n\nlong   5\nb     12\n");
    }
}
