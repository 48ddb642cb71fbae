//! `elevon calibrate TRACE`: a device from a trace, as a file for `--device @FILE`.

use std::fmt::Write;
use std::path::Path;

use elevon_formats::quantity;
use elevon_trace::Device;
use elevon_trace::calibrate::{CalibrateError, Calibration, Row};

use crate::args::{CalibrateArgs, OutputFormat};
use crate::bar::Bar;
use crate::failure::{Ending, Failure, all, emit, emit_text};
use crate::files::Files;
use crate::output::NewFile;

/// Commands that the device's queue holds where the trace does not show more: what a trace does not
/// tell.
const QUEUE_DEPTH: u64 = 128;
/// The device ends at a multiple of this.
const SIZE_UNIT: u64 = 1 << 20;

pub(super) fn calibrate(path: &Path, args: &CalibrateArgs) -> Result<Ending, Failure> {
    let name = path.display().to_string();
    let device = args.dev.as_deref().map(str::parse::<Device>).transpose();
    let device = device.map_err(|error| Failure::input(format!("--dev: {error}")))?;
    let mut files = Files::default();
    files.add_input(name.clone(), path)?;
    if let Some(output) = &args.output {
        files.add_output(format!("--output {}", output.display()), output)?;
    }
    let output = args.output.as_deref().map(|path| NewFile::create("--output", path)).transpose()?;
    let bar = Bar::new(&name);
    let mut opened = 0;
    let mut open = || {
        opened += 1;
        crate::inspect::open(path, opened)
    };
    let found = elevon_trace::calibrate::calibrate(&mut open, device, &mut |events| bar.set(events));
    drop(bar);
    let found = found.map_err(|error| match error {
        CalibrateError::Trace(error) => crate::inspect::failure(&name, error),
        error @ CalibrateError::TooFew { .. } => Failure::input(format!("{name}: {error}")),
    })?;
    let profile = profile(&name, &found);
    let printed = match args.output_format {
        OutputFormat::Normal => {
            let saved = args.output.as_ref().map(|path| format!("\nSaved for --device @{}\n", path.display()));
            let profile =
                saved.unwrap_or_else(|| format!("\nThe file for --device @FILE (-o FILE saves it):\n\n{profile}"));
            emit_text(&(text(&name, &found) + &profile))
        }
        OutputFormat::Json | OutputFormat::JsonPlus => emit(&json(&name, &found)),
    };
    all([printed, output.map_or(Ok(()), |file| file.commit(profile.as_bytes()))])?;
    Ok(Ending::Done)
}

/// A time to a tenth of a microsecond, as parameters are written.
fn time(ns: f64) -> String {
    quantity::text((ns / 100.0).round() as u64 * 100, quantity::TIMES)
}

/// A rate to a thousandth of a megabyte a second.
fn rate(bytes: u64) -> String {
    format!("{}kB/s", bytes / 1000)
}

const DIRECTIONS: [&str; 2] = ["read", "write"];

/// What the number of servers is worth.
fn servers_words(found: &Calibration) -> String {
    let servers = found.model.servers;
    if servers >= found.depth {
        return format!("{servers}, or more: no more requests were in the device at once");
    }
    servers.to_string()
}

/// The parameters of `slots`.
fn parameters(found: &Calibration) -> Vec<(&'static str, String)> {
    let [read, write] = found.model.costs;
    let quoted = |text: String| format!("\"{text}\"");
    let mut rows = vec![("slots", found.model.servers.to_string()), ("latency", quoted(time(read.latency)))];
    rows.extend((read.bandwidth() >= 1000).then(|| ("bandwidth", quoted(rate(read.bandwidth())))));
    rows.push(("write_latency", quoted(time(write.latency.max(100.0)))));
    rows.extend((write.bandwidth() >= 1000).then(|| ("write_bandwidth", quoted(rate(write.bandwidth())))));
    if let Some(flush) = found.flush {
        rows.push(("flush_latency", quoted(time((flush as f64).max(100.0)))));
        rows.push(("write_cache", "1".to_owned()));
    }
    let size = (found.end_sector * 512).next_multiple_of(SIZE_UNIT).max(SIZE_UNIT);
    rows.push(("size", quoted(quantity::text(size, quantity::SIZES))));
    rows.push(("queue_depth", found.depth.clamp(QUEUE_DEPTH, 65536).to_string()));
    rows
}

/// The file for `--device @FILE`.
fn profile(name: &str, found: &Calibration) -> String {
    let quoted = |text: &str| format!("{:?}", text);
    let mut out = format!(
        "name = \"traced-{}-{}\"\nbase = \"slots\"\nsummary = {}\n\n[parameters]\n",
        found.device.major,
        found.device.minor,
        quoted(&format!("device {} as {name} shows it", found.device))
    );
    let parameters = parameters(found);
    for (key, value) in &parameters {
        let _ = writeln!(out, "{key} = {value}");
    }
    if let Some(bytes) = found.split_at.filter(|bytes| bytes % 1024 == 0 && *bytes >= 4096) {
        let _ = writeln!(out, "\n[limits]\nmax_hw_sectors_kb = {}", bytes >> 10);
    }
    let fitted: Vec<String> = parameters
        .iter()
        .filter(|(key, _)| !matches!(*key, "size" | "queue_depth" | "write_cache"))
        .map(|(key, _)| quoted(key))
        .collect();
    let _ = write!(
        out,
        "\n[[source]]\nparameters = [{}]\nbasis = \"fitted\"\nvalue = {}\norigin = {}\n",
        fitted.join(", "),
        quoted(&format!(
            "the latency of {} requests from issue to completion, within {:.1} % on average",
            found.requests.0, found.error_percent
        )),
        quoted(&format!("trace {name}"))
    );
    let _ = write!(
        out,
        "\n[[source]]\nparameters = [\"size\", \"queue_depth\"]\nbasis = \"estimated\"\nvalue = {}\norigin = {}\n",
        quoted(&format!("the last sector used, and at most {} requests in the device", found.depth)),
        quoted(&format!("trace {name}"))
    );
    out
}

fn figures(out: &mut String, name: &str, row: &Row) {
    let us = |ns: f64| ns / 1e3;
    let _ = write!(out, "{name:<22} {:>9}", row.requests);
    for figure in [row.mean, row.p50, row.p99] {
        let _ = write!(out, " {:>9.1} {:>9.1} {:>+6.1}", us(figure.measured), us(figure.model), figure.error_percent());
    }
    out.push('\n');
}

fn text(name: &str, found: &Calibration) -> String {
    let mut out = format!("elevon calibrate: device {} of {name}\n\n", found.device);
    let (looked_at, all) = found.requests;
    let of = if all > looked_at { format!(", the first of {all}") } else { String::new() };
    let _ = writeln!(out, "servers: {}", servers_words(found));
    for (name, cost) in DIRECTIONS.iter().zip(found.model.costs) {
        let bandwidth = match cost.bandwidth() {
            0 => "whatever its size".to_owned(),
            rate => format!("and its bytes at {:.1} MB/s", rate as f64 / 1e6),
        };
        let _ = writeln!(out, "a {name} holds one for {} {bandwidth}", time(cost.latency));
    }
    if let Some(flush) = found.flush {
        let _ = writeln!(out, "a flush holds one for {}", time(flush as f64));
    }
    let _ = writeln!(
        out,
        "fitted to {looked_at} requests{of}: the model's latency is off by {:.1} % on average",
        found.error_percent
    );
    let head = "\nLatency from issue to completion in us: measured, model, error in %\n";
    out.push_str(head);
    let _ = writeln!(out, "{:<22} {:>9} {:^26} {:^26} {:^26}", "", "requests", "mean", "p50", "p99");
    for (is_write, bytes, row) in &found.by_size {
        let size = quantity::text(*bytes, quantity::SIZES);
        figures(&mut out, &format!("{} {size}", DIRECTIONS[usize::from(*is_write)]), row);
    }
    for (depth, row) in &found.by_depth {
        let name = if *depth == 1 { "alone".to_owned() } else { format!("up to {depth} in device") };
        figures(&mut out, &name, row);
    }
    let near = |&&(servers, _): &&(u64, f64)| servers.abs_diff(found.model.servers) <= 3;
    let tried: Vec<String> = found
        .by_servers
        .iter()
        .filter(near)
        .map(|(servers, error)| format!("{servers}: {:.1} %", error * 100.0))
        .collect();
    let _ = writeln!(out, "\nError by number of servers: {}", tried.join(", "));
    out
}

fn json(name: &str, found: &Calibration) -> String {
    let figure = |figure: elevon_trace::calibrate::Figure| {
        serde_json::json!({
            "measured_ns": figure.measured.round(),
            "model_ns": figure.model.round(),
            "error_percent": (figure.error_percent() * 100.0).round() / 100.0,
        })
    };
    let row = |row: &Row| {
        serde_json::json!({
            "requests": row.requests,
            "mean": figure(row.mean),
            "p50": figure(row.p50),
            "p99": figure(row.p99),
        })
    };
    let with = |key: &str, value: serde_json::Value, of: &Row| {
        let mut all = row(of);
        all[key] = value;
        all
    };
    let by_size = found.by_size.iter().map(|(is_write, bytes, of)| {
        let mut all = with("bytes", (*bytes).into(), of);
        all["direction"] = DIRECTIONS[usize::from(*is_write)].into();
        all
    });
    let costs = found
        .model
        .costs
        .map(|cost| serde_json::json!({ "latency_ns": cost.latency.round(), "bandwidth_bytes": cost.bandwidth() }));
    let [read, write] = costs;
    let all = serde_json::json!({
        "trace": name,
        "device": found.device.to_string(),
        "requests": found.requests.0,
        "requests_in_trace": found.requests.1,
        "servers": found.model.servers,
        "servers_is_lower_bound": found.model.servers >= found.depth,
        "read": read,
        "write": write,
        "flush_ns": found.flush,
        "depth_max": found.depth,
        "error_percent": (found.error_percent * 100.0).round() / 100.0,
        "by_size": by_size.collect::<Vec<_>>(),
        "by_depth": found.by_depth.iter().map(|(depth, of)| with("depth", (*depth).into(), of)).collect::<Vec<_>>(),
        "profile": profile(name, found),
    });
    format!("{all:#}\n")
}
