//! Servers that are fitted to a trace, as a file for `--device @FILE`.

use std::fmt::Write;
use std::path::Path;

use elevon_core::units::Bytes;
use elevon_formats::quantity;
use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_sim::device::{Model, SlotsParameters};
use elevon_trace::served::{LeftOut, ServedError, ServedKind, ServedRequest, ServedRequests};
use elevon_trace::{DeviceNumber, Recorded};

use crate::fit::{ByKind, Fit, Kind, LatencyRow, Served, fit};
use serde_json::Value;

use super::hardware::{self, Hardware};
use crate::trace_input::TraceInput;

/// In place of a profile for `--like`: servers.
pub(super) const SERVERS: &str = "slots";
/// Queue depth of the device if the trace does not show a larger one; a trace does not contain it.
const QUEUE_DEPTH: u64 = 128;
/// The size of the device is a multiple of this.
const SIZE_UNIT: u64 = 1 << 20;
/// The largest size of a device.
const MAX_DEVICE_BYTES: u64 = 1 << 63;

/// Reads what a device of a trace was asked for, and when.
pub(super) fn read(
    path: &Path,
    dev: Option<&str>,
    listener: &dyn Listener,
) -> Result<ServedRequests, Failure> {
    let trace = TraceInput::new(path, dev, listener)?;
    let found = trace.read(elevon_trace::served::read).map_err(|error| match error {
        ServedError::Trace(error) => trace.failure(error),
        error @ (ServedError::TooFew { .. }
        | ServedError::Unissued { .. }
        | ServedError::Untimed(_)) => Failure::named(&trace.name, error),
    })?;
    if let Some(partition) = found.partition {
        let disk = found.device;
        listener.tell(&format!(
            "{}: {partition} is a partition of {disk}; the device is fitted to all requests of {disk}",
            trace.name
        ));
    }
    Ok(found)
}

/// The servers that were fitted to a trace, and what else the trace says of the device.
pub(crate) struct Calibration {
    pub(super) device: DeviceNumber,
    end_sector: u64,
    split_at: Option<u64>,
    pub(super) left_out: LeftOut,
    pub(super) recorded: Option<Recorded>,
    pub(crate) fit: Fit,
}

impl Calibration {
    pub(super) fn from_found(found: &ServedRequests, requests: &[Served]) -> Self {
        let &ServedRequests { device, end_sector, split_at, left_out, ref recorded, .. } = found;
        let fit = fit(requests).expect("there are reads or writes");
        Self { device, end_sector, split_at, left_out, recorded: recorded.clone(), fit }
    }

    /// Returns the parameters of `slots`.
    fn parameters(&self) -> SlotsParameters {
        self.on_hardware(self.fit.parameters())
    }

    /// Returns the parameters of each end of the interval, as TOML.
    pub(super) fn ends(&self) -> Vec<Vec<(&'static str, String)>> {
        let models = self.fit.ends.iter();
        models.map(|model| rows(self.on_hardware(self.fit.parameters_of(model)), self)).collect()
    }

    /// Returns the parameters of the fitted device, as TOML.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        rows(self.parameters(), self)
    }

    fn on_hardware(&self, fitted: SlotsParameters) -> SlotsParameters {
        let Hardware { queues, tags, bytes } = Hardware::from_recorded(self.recorded.as_ref());
        let size = bytes.unwrap_or(size_of(self.end_sector));
        SlotsParameters {
            size: Bytes::new(size),
            hw_queues: queues.map_or(1, |queues| queues as u16),
            queue_depth: tags.unwrap_or(self.fit.depth.clamp(QUEUE_DEPTH, 65536)) as u32,
            ..fitted
        }
    }
}

/// Returns the size in bytes of a device with this many sectors, in whole units and at most the
/// largest size of a device.
pub(super) fn size_of(sectors: u64) -> u64 {
    sectors.saturating_mul(512).clamp(1, MAX_DEVICE_BYTES).next_multiple_of(SIZE_UNIT)
}

pub(super) fn served(request: &ServedRequest) -> Served {
    let &ServedRequest { issued, completed, sector, bytes, kind } = request;
    let (kind, bytes) = match kind {
        ServedKind::Read => (Kind::Read, bytes),
        ServedKind::Write => (Kind::Write, bytes),
        ServedKind::Discard => (Kind::Discard, 0),
        ServedKind::Flush => (Kind::Flush, 0),
    };
    Served { issued, completed, sector, bytes, kind }
}

/// Formats a time to a tenth of a microsecond, as parameters are written.
pub(super) fn time(ns: f64) -> String {
    quantity::text(((ns / 100.0).round() as u64).saturating_mul(100), quantity::TIMES)
}

/// Names of the kinds.
const KINDS: ByKind<&str> =
    ["read", "write", "sequential read", "sequential write", "discard", "flush"];

/// Explains how certain the number of servers is.
fn servers_words(fit: &Fit) -> String {
    let (servers, depth) = (fit.model.servers, fit.depth);
    if fit.may_have_more {
        return format!("{servers}, or more: at most {depth} requests were in the device at once");
    }
    servers.to_string()
}

/// Keys that are written even if they have their default values.
const ALWAYS: [&str; 5] = ["slots", "latency", "bandwidth", "size", "queue_depth"];

/// Returns the parameters of `slots` that differ from the defaults, as TOML.
fn rows(parameters: SlotsParameters, found: &Calibration) -> Vec<(&'static str, String)> {
    let keys = |parameters: SlotsParameters| Model::Slots(Box::new(parameters)).keys();
    let (own, plain) = (keys(parameters), keys(SlotsParameters::default()));
    let pairs = own.into_iter().zip(plain);
    let has_queues = Hardware::from_recorded(found.recorded.as_ref()).queues.is_some();
    let is_kept = |key| ALWAYS.contains(&key) || key == "hw_queues" && has_queues;
    let kept = pairs.filter(|(own, plain)| is_kept(own.key) || own.value != plain.value);
    let is_number = |value: &str| value.parse::<u64>().is_ok();
    kept.map(|(own, _)| {
        (own.key, if is_number(&own.value) { own.value } else { format!("{:?}", own.value) })
    })
    .collect()
}

/// Returns the file for `--device @FILE`.
pub(super) fn profile(name: &str, found: &Calibration, known: &str) -> String {
    let quoted = |text: &str| format!("{text:?}");
    let mut out = format!(
        "name = \"traced-{}-{}\"\nbase = \"slots\"\nsummary = {}\n{known}\n[parameters]\n",
        found.device.major,
        found.device.minor,
        quoted(&format!("device {} as {name} shows it", found.device))
    );
    let parameters = found.rows();
    for (key, value) in &parameters {
        let _ = writeln!(out, "{key} = {value}");
    }
    if let Some(recorded) = &found.recorded {
        let limits =
            hardware::limits(recorded).into_iter().map(|(key, value)| format!("{key} = {value}\n"));
        let _ = write!(out, "\n[limits]\n{}", limits.collect::<String>());
    } else if let Some(bytes) = found.split_at.filter(|bytes| bytes % 1024 == 0 && *bytes >= 4096) {
        let _ = writeln!(out, "\n[limits]\nmax_hw_sectors_kb = {}", bytes >> 10);
    }
    let fitted: Vec<String> = parameters
        .iter()
        .filter(|(key, _)| {
            !matches!(*key, "size" | "queue_depth" | "hw_queues" | "write_cache" | "traced_depth")
        })
        .map(|(key, _)| quoted(key))
        .collect();
    let _ = write!(
        out,
        "\n[[source]]\nparameters = [{}]\nbasis = \"fitted\"\nvalue = {}\norigin = {}\n",
        fitted.join(", "),
        quoted(&format!(
            "the latency of {} requests from issue to completion; replayed, its distribution on these is within {:.1} %",
            found.fit.requests.0, found.fit.distribution_percent
        )),
        quoted(&format!("trace {name}"))
    );
    out.push_str(&source_of_the_rest(name, found, &parameters));
    out
}

/// Returns the source of the parameters that were not fitted.
fn source_of_the_rest(name: &str, found: &Calibration, parameters: &[(&str, String)]) -> String {
    let has_queues = parameters.iter().any(|(key, _)| *key == "hw_queues");
    let (keys, basis, value) = if Hardware::from_recorded(found.recorded.as_ref())
        == Hardware::default()
    {
        let value =
            format!("the last sector used, and at most {} requests in the device", found.fit.depth);
        ("\"size\", \"queue_depth\"", "estimated", value)
    } else {
        let keys = if has_queues {
            "\"size\", \"hw_queues\", \"queue_depth\""
        } else {
            "\"size\", \"queue_depth\""
        };
        (keys, "stated", "the settings of the device when it was recorded".to_owned())
    };
    format!(
        "\n[[source]]\nparameters = [{keys}]\nbasis = \"{basis}\"\nvalue = {value:?}\norigin = {:?}\n",
        format!("trace {name}")
    )
}

/// Fewer requests make no row of the table.
const FEWEST_OF_ROW: u64 = 20;

fn figures(out: &mut String, name: &str, row: &LatencyRow) {
    if row.requests < FEWEST_OF_ROW {
        return;
    }
    let us = |ns: f64| ns / 1e3;
    let _ = write!(out, "{name:<22} {:>9}", row.requests);
    for figure in [row.mean, row.p50, row.p99] {
        let _ = write!(
            out,
            " {:>9.1} {:>9.1} {:>+6.1}",
            us(figure.measured),
            us(figure.model),
            figure.error_percent()
        );
    }
    out.push('\n');
}

/// Returns the kinds that the trace has and that have costs of their own in the model.
fn kinds(found: &Calibration) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|&kind| match kind {
        Kind::SequentialRead | Kind::SequentialWrite => found.fit.model.is_by_place(kind),
        _ => found.fit.has(kind),
    })
}

/// Says which of reads and writes the trace does not have, and what they cost in the model.
fn unseen(fit: &Fit) -> Option<&'static str> {
    match [Kind::Read, Kind::Write].map(|kind| fit.has(kind)) {
        [true, false] => Some("no writes in the trace: they are taken to cost what reads do"),
        [false, true] => Some("no reads in the trace: they are taken to cost what writes do"),
        _ => None,
    }
}

/// Says what was left out of the fit, with the share of all requests; `None` if that is nothing.
pub(super) fn left_out_words(left_out: &LeftOut, fitted: u64) -> Option<String> {
    let LeftOut { unissued, failed, other } = *left_out;
    let parts: Vec<String> = [
        (unissued, "without an issue event"),
        (failed, "that failed"),
        (other, "that are neither reads, writes, discards nor flushes"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    let all = unissued + failed + other;
    let percent = all as f64 / (all + fitted) as f64 * 100.0;
    (all > 0).then(|| {
        format!("left out of the fit: {} ({percent:.1} % of all requests)", parts.join(", "))
    })
}

/// Describes the model in sentences.
fn model_words(out: &mut String, found: &Calibration) {
    let fit = &found.fit;
    let model = &fit.model;
    let _ = writeln!(out, "servers: {}", servers_words(fit));
    for kind in kinds(found).filter(|kind| kind.has_data()) {
        let (name, cost) = (KINDS[kind as usize], model.held(kind));
        let bandwidth = match cost.bandwidth() {
            0 => "whatever its size".to_owned(),
            rate => format!("and its bytes at {:.1} MB/s", rate as f64 / 1e6),
        };
        let _ = writeln!(out, "a {name} holds one for {} {bandwidth}", time(cost.latency));
    }
    if fit.has(Kind::Discard) {
        let time = time(model.held(Kind::Discard).latency);
        let _ =
            writeln!(out, "a discard or a write of zeroes holds one for {time} whatever its size");
    }
    if let Some(words) = unseen(fit) {
        let _ = writeln!(out, "{words}");
    }
    if fit.has(Kind::Flush) {
        let holds = if model.flush_waits { "holds one for" } else { "waits for none, and takes" };
        let _ = writeln!(out, "a flush {holds} {}", time(model.held(Kind::Flush).latency));
    }
    if model.base > 0.0 {
        let _ = writeln!(out, "each takes {} more that occupies none", time(model.base));
    }
    if model.hand_over > 0.0 {
        let _ = writeln!(
            out,
            "a free server is handed to what waits within {}; what comes meanwhile takes it",
            time(model.hand_over)
        );
    }
    if model.disorder > 0.0 {
        let _ = writeln!(
            out,
            "{:.0} times in a hundred a server takes any that waits",
            model.disorder * 100.0
        );
    }
    for kind in kinds(found) {
        let (name, quantiles) = (KINDS[kind as usize], &model.spreads[kind as usize]);
        let share = |parts: u32| format!("{:.0} %", f64::from(parts) / 1e4);
        let _ = writeln!(
            out,
            "what a {name} takes is spread: p10 {}, p50 {}, p90 {}, p99 {} of that",
            share(quantiles.p10),
            share(quantiles.p50),
            share(quantiles.p90),
            share(quantiles.p99)
        );
    }
}

/// Shows latencies beside those of the model.
pub(super) fn latency_table(
    out: &mut String,
    by_size: &[(Kind, u64, LatencyRow)],
    by_depth: &[(u64, LatencyRow)],
) {
    out.push_str("\nLatency from issue to completion in us: measured, model, error in %\n");
    let _ =
        writeln!(out, "{:<22} {:>9} {:^26} {:^26} {:^26}", "", "requests", "mean", "p50", "p99");
    for (kind, bytes, row) in by_size {
        let size =
            if kind.has_data() { quantity::text(*bytes, quantity::SIZES) } else { String::new() };
        figures(out, format!("{} {size}", KINDS[*kind as usize]).trim_end(), row);
    }
    for (depth, row) in by_depth {
        let name =
            if *depth == 1 { "alone".to_owned() } else { format!("up to {depth} in device") };
        figures(out, &name, row);
    }
}

/// Describes the fit.
pub(super) fn text(name: &str, found: &Calibration) -> String {
    let fit = &found.fit;
    let mut out = format!("elevon calibrate: device {} of {name}\n\n", found.device);
    model_words(&mut out, found);
    let (looked_at, all) = fit.requests;
    let of = if all > looked_at { format!(", the first of {all}") } else { String::new() };
    let _ = writeln!(
        out,
        "fitted to {looked_at} requests{of}, then replayed on the same: the distribution of latency is off by\n\
         {:.1} % ({:.1} % without spread, hand-over and disorder), the latency of one request by {:.1} % on average",
        fit.distribution_percent, fit.fifo_percent, fit.each_percent
    );
    if let Some(words) = left_out_words(&found.left_out, all) {
        let _ = writeln!(out, "{words}");
    }
    latency_table(&mut out, &fit.by_size, &fit.by_depth);
    let near = |&&(servers, _): &&(u64, f64)| servers.abs_diff(fit.model.servers) <= 3;
    let tried: Vec<String> = fit
        .by_servers
        .iter()
        .filter(near)
        .map(|(servers, less)| format!("{servers}: {less:.3}"))
        .collect();
    let _ = writeln!(
        out,
        "\nHow much less likely a request's time is, by number of servers (logarithm): {}",
        tried.join(", ")
    );
    out
}

pub(super) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn json_row(row: &LatencyRow, key: &str, value: Value) -> Value {
    let figure = |figure: crate::fit::Figure| {
        serde_json::json!({
            "measured_ns": figure.measured.round(),
            "model_ns": figure.model.round(),
            "error_percent": hundredths(figure.error_percent()),
        })
    };
    let mut all = serde_json::json!({
        "requests": row.requests,
        "mean": figure(row.mean),
        "p50": figure(row.p50),
        "p99": figure(row.p99),
    });
    all[key] = value;
    all
}

/// Returns latencies beside those of the model, by size and by depth.
pub(super) fn json_tables(
    by_size: &[(Kind, u64, LatencyRow)],
    by_depth: &[(u64, LatencyRow)],
) -> [Value; 2] {
    let by_size = by_size.iter().map(|(kind, bytes, of)| {
        let mut all = json_row(of, "bytes", (*bytes).into());
        all["direction"] = KINDS[*kind as usize].into();
        all
    });
    let by_depth = by_depth.iter().map(|(depth, of)| json_row(of, "depth", (*depth).into()));
    [by_size.collect(), by_depth.collect()]
}

/// Returns what was left out of a fit.
pub(super) fn left_out_json(left_out: &LeftOut) -> Value {
    let &LeftOut { unissued, failed, other } = left_out;
    serde_json::json!({ "unissued": unissued, "failed": failed, "other": other })
}

/// Describes the fit for programs.
pub(super) fn json(name: &str, found: &Calibration) -> Value {
    let fit = &found.fit;
    let [by_size, by_depth] = json_tables(&fit.by_size, &fit.by_depth);
    let [read, write, sequential_read, sequential_write, ..] = Kind::ALL.map(|kind| {
        let cost = fit.model.held(kind);
        let json = || serde_json::json!({ "latency_ns": cost.latency.round(), "bandwidth_bytes": cost.bandwidth() });
        kinds(found).any(|own| own == kind).then(json)
    });
    let latency = |kind: Kind| fit.has(kind).then(|| fit.model.held(kind).latency.round());
    serde_json::json!({
        "trace": name,
        "device": found.device.to_string(),
        "requests": fit.requests.0,
        "requests_in_trace": fit.requests.1,
        "left_out": left_out_json(&found.left_out),
        "servers": fit.model.servers,
        "servers_is_lower_bound": fit.may_have_more,
        "servers_interval": [fit.servers.0, fit.servers.1],
        "read": read,
        "write": write,
        "sequential_read": sequential_read,
        "sequential_write": sequential_write,
        "discard_ns": latency(Kind::Discard),
        "flush_ns": latency(Kind::Flush),
        "flush_waits": fit.model.flush_waits,
        "base_ns": fit.model.base.round(),
        "hand_over_ns": fit.model.hand_over.round(),
        "disorder": hundredths(fit.model.disorder),
        "depth_max": fit.depth,
        "error_percent": hundredths(fit.each_percent),
        "distribution_error_percent": hundredths(fit.distribution_percent),
        "fifo_distribution_error_percent": hundredths(fit.fifo_percent),
        "by_size": by_size,
        "by_depth": by_depth,
    })
}
