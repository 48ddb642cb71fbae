//! `elevon devices`, `elevon schedulers` and other lists of what is available.

use std::fmt::Write;

use elevon_core::kernel::Kernel;
use elevon_core::limits::{QueueLimits, SYSFS};
use elevon_core::nearest::did_you_mean;
use elevon_core::sched::{self, SCHEDULERS, SchedulerInfo};
use elevon_core::setting::SettingLine;
use elevon_core::stack::config;
use elevon_formats::device::DeviceSource;
use elevon_plan::failure::{Ending, Failure, UnknownName};
use elevon_plan::own_device::OwnDevice;
use elevon_plan::plan::kernel_named;
use elevon_report::text::{Figure, figures};
use elevon_sim::device::fault::kinds::{self, FaultKind, KINDS};
use elevon_sim::device::{Description, Device, Model, parse_model};
use elevon_sim::profiles::{self, Basis, PROFILES, ParameterLine, Profile, Reference};
use elevon_trace::TraceFormat;

use crate::args::DevicesArgs;
use crate::attributes;
use crate::terminal::emit;

pub(crate) fn devices(args: &DevicesArgs) -> Result<Ending, Failure> {
    let Some(name) = args.name.as_deref() else {
        emit(&list_devices())?;
        return Ok(Ending::Done);
    };
    if let Some(kernel) = &args.kernel {
        emit(&attributes::page(name, kernel_named("--kernel", kernel)?)?)?;
        return Ok(Ending::Done);
    }
    let (base, settings) = name.split_once(':').unwrap_or((name, ""));
    let text = match (name.strip_prefix('@'), profiles::profile(base)) {
        (Some(path), _) => {
            let own = OwnDevice::load("devices", path, &Kernel::default().rules())?;
            show_own(&own)?
        }
        (None, Some(profile)) => show_device(profile, settings)?,
        (None, None) => {
            let device =
                profiles::open(name, 0).map_err(|error| Failure::named("devices", error))?;
            let model = parse_model(name).map_err(|error| Failure::named("devices", error))?;
            let about = about(Device::description(&device), &Device::description(&device).limits);
            let lacks = profiles::lacks(name).unwrap_or_default();
            format!(
                "{model}\n\n{about}\n{SLOTS_MEANING}The model lacks {lacks}.\n\n{}",
                keys(&model)
            )
        }
    };
    emit(&text)?;
    Ok(Ending::Done)
}

const SLOTS_MEANING: &str = "\
N servers behind one FIFO: a request holds a server for latency + bytes/bandwidth. What a model of a device can be
compared with exactly.
";

/// Lists the keys of a model with their values.
fn keys(model: &Model) -> String {
    let mut text = String::new();
    for line in model.keys() {
        let _ = writeln!(text, "  {:<11}  {:>8}  {}", line.key, line.value, line.meaning);
    }
    text
}

/// Returns a model with its default settings.
fn model(name: &str) -> Model {
    parse_model(name).expect("a model that there is")
}

/// The text of `slots` without its quantiles.
fn slots_in_short() -> String {
    let keys = model("slots").keys();
    let keys = keys.iter().filter(|line| !line.key.contains("spread_"));
    let keys: Vec<String> = keys.map(|line| format!("{}={}", line.key, line.value)).collect();
    format!("slots:{}", keys.join(","))
}

fn list_devices() -> String {
    let mut text = String::from(
        "Simulated devices (elevon devices NAME shows parameters, sources and predictions):\n\n",
    );
    for profile in PROFILES {
        let _ = writeln!(text, "  {:<24} {}", profile.name, profile.summary);
    }
    let _ = writeln!(
        text,
        "\n\
Models with parameters of your own:\n\n  \
{}\n      N servers behind one FIFO; a request holds a server for latency + bytes/bandwidth, which may\n      \
spread: elevon devices slots shows its quantiles\n  \
{}\n      completes after the latency, at once with 0\n\n\
The queue's attributes under a kernel, as sysfs shows them: elevon devices virtio-blk --kernel 6.1\n\
A profile takes parameters too: --device ufs-4.0:read_command_cost=41us (elevon devices ufs-4.0:... shows what follows)\n\
A file describes a device of your own: --device @my-phone.toml (docs/reference/devices.md)\n\
Each takes faults: --fault error:ppm=100 (elevon faults lists the kinds)\n\
A path of a file or block device is really read and written: --device ./disk.img",
        slots_in_short(),
        model("null"),
    );
    text
}

/// Formats the properties that a device reports, in one line.
fn about(description: &Description, limits: &QueueLimits) -> String {
    format!(
        "{} GB, {} hardware queue(s) of {} commands, {}/{} byte blocks, max_hw_sectors_kb {}, max_segments {}, {}, write cache {}, FUA {}\n",
        description.size.bytes().get() / 1_000_000_000,
        description.hw_queues,
        description.queue_depth,
        limits.logical_block_size,
        limits.physical_block_size,
        limits.max_hw_sectors.get() / 2,
        limits.max_segments,
        if limits.rotational { "rotational" } else { "non-rotational" },
        if limits.write_cache { "yes" } else { "no" },
        if limits.fua { "yes" } else { "no" },
    )
}

/// Formats the page of a profile, with the user's settings in effect.
fn show_device(profile: &Profile, settings: &str) -> Result<String, Failure> {
    let device = profile.open(settings, 1).map_err(|error| Failure::named("devices", error))?;
    let description = device.description();
    let changed = if settings.is_empty() { String::new() } else { format!(", with {settings}") };
    let mut text = format!("{}: {}{changed}\n\n", profile.name, profile.summary);
    let _ = writeln!(text, "{}", about(description, &description.limits));
    if let Some(model) =
        profile.model(settings).map_err(|error| Failure::named("devices", error))?
    {
        let _ = writeln!(text, "Parameters (as in --device NAME:key=value,...):\n{}", keys(&model));
    }
    text.push_str(&parameters(profile, settings, &|_| "yours".to_owned())?);
    text.push_str(&basis(profile, settings));
    text.push_str(&sources(profile));
    text.push_str(&predictions(profile, settings)?);
    Ok(text)
}

/// Formats what the model of a profile lacks, and which figures follow estimates.
fn basis(profile: &Profile, settings: &str) -> String {
    let mut text = profiles::lacks(profile.name)
        .map_or_else(String::new, |lacks| format!("The model lacks {lacks}.\n"));
    for (figures, parameters) in profiles::estimates(&format!("{}:{settings}", profile.name)) {
        let _ =
            writeln!(text, "{} follow estimates: {}", figures.in_words(), parameters.join(", "));
    }
    text + "\n"
}

/// Formats the page of a device file.
fn show_own(own: &OwnDevice) -> Result<String, Failure> {
    let file = &own.file;
    let device = profiles::open(&own.spec, 1).map_err(Failure::input)?;
    let rules = Kernel::default().rules();
    let mut limits = own.base_limits(device.description(), &rules);
    limits.validate(&rules).map_err(Failure::input)?;
    own.limit(&mut limits, &rules)?;
    let summary = if file.summary.is_empty() { "a device of your own" } else { &file.summary };
    let mut text = format!("{}: {summary}, from {}\n\n", file.name, file.base.value);
    let _ = writeln!(text, "{}", about(device.description(), &limits));
    let mark = |key: &str| {
        let at =
            file.sources.iter().position(|source| source.parameters.iter().any(|name| name == key));
        at.map_or_else(|| "yours, no source".to_owned(), |at| format!("yours [{}]", letter(at)))
    };
    match own.profile() {
        Some(profile) => text.push_str(&parameters(profile, own.settings(), &mark)?),
        None => {
            let _ = writeln!(text, "Parameters: {}\n", own.settings());
        }
    }
    if !file.limits.is_empty() {
        text.push_str("Limits of the file:\n");
        for given in &file.limits {
            let _ = writeln!(text, "  {:<24} {:>12}  {}", given.key, given.value, mark(&given.key));
        }
        text.push('\n');
    }
    if !file.sources.is_empty() {
        text.push_str("Sources of the file:\n");
        for (at, source) in file.sources.iter().enumerate() {
            let _ = writeln!(text, "  {}", own_source(at, source));
        }
        text.push('\n');
    }
    if let Some(profile) = own.profile() {
        text.push_str(&basis(profile, own.settings()));
        text.push_str(&sources(profile));
        text.push_str(&predictions(profile, own.settings())?);
    }
    Ok(text)
}

fn own_source(at: usize, source: &DeviceSource) -> String {
    let DeviceSource { parameters, value, basis, origin, date, address, .. } = source;
    let tail: String =
        [date, address].into_iter().filter(|t| !t.is_empty()).map(|t| format!(", {t}")).collect();
    format!(
        "[{}] {}: {} by {value} ({origin}{tail})",
        letter(at),
        parameters.join(", "),
        basis.name()
    )
}

/// Returns the letter of a source. Sources of a file have letters, those of a profile have numbers.
fn letter(at: usize) -> char {
    char::from(b'a' + (at % 26) as u8)
}

/// Formats the parameters with their values and the source of each value; `yours` returns the
/// source of a value that the user set.
fn parameters(
    profile: &Profile,
    settings: &str,
    yours: &dyn Fn(&str) -> String,
) -> Result<String, Failure> {
    let lines = profile.parameters_with(settings).map_err(Failure::input)?;
    if lines.is_empty() {
        return Ok(String::new());
    }
    let mark = |line: &ParameterLine| match (line.changed, line.source) {
        (true, _) => yours(line.key),
        (false, None) => "estimate".to_owned(),
        (false, Some(at)) => match profile.sources[at].basis {
            Basis::Stated => format!("[{}]", at + 1),
            Basis::Fitted => format!("fitted [{}]", at + 1),
            Basis::Estimated => format!("estimate [{}]", at + 1),
        },
    };
    let mut text = String::from(
        "Parameters (as in --device NAME:key=value,...). [n]: stated by source n; fitted [n]: chosen so that the model\n\
         gives what source n states; estimate: no published source",
    );
    if lines.iter().any(|line| line.changed) {
        text.push_str(";\nyours: set by you; yours [a]: set by the file, from its source a");
    }
    text.push('\n');
    for line in &lines {
        let _ = writeln!(
            text,
            "  {:<22} {:>12}  {:<12}  {}",
            line.key,
            line.value,
            mark(line),
            line.meaning
        );
    }
    text.push('\n');
    Ok(text)
}

/// Formats the sources of a profile, by number.
fn sources(profile: &Profile) -> String {
    let mut text = String::new();
    if !profile.sources.is_empty() {
        text.push_str("Sources:\n");
        for (at, source) in profile.sources.iter().enumerate() {
            let what = source.parameters.join(", ");
            let colon = if what.is_empty() { "" } else { ": " };
            let _ = writeln!(
                text,
                "  [{}] {what}{colon}{}\n      {}",
                at + 1,
                source.value,
                source.reference
            );
        }
        text.push('\n');
    }
    text
}

/// Formats closed-form predictions beside the model's results and beside published figures of the
/// real device.
fn predictions(profile: &Profile, settings: &str) -> Result<String, Failure> {
    let (mut closed, mut published) = (Vec::new(), Vec::new());
    let mut references: Vec<&Reference> = Vec::new();
    for prediction in profiles::predictions_with(profile, settings).map_err(Failure::input)? {
        let ours = profiles::measure(profile, settings, &prediction, 1).map_err(Failure::input)?;
        let row = |expected, note: String| Figure {
            name: prediction.what.clone(),
            unit: prediction.quantity.unit().to_owned(),
            expected: Some(expected),
            ours,
            note,
        };
        closed.push(row(prediction.closed_form, String::new()));
        if let Some(figure) = prediction.published {
            let at = references.iter().position(|known| *known == figure.reference).unwrap_or_else(
                || {
                    references.push(figure.reference);
                    references.len() - 1
                },
            );
            let note =
                if figure.note.is_empty() { String::new() } else { format!(" {}", figure.note) };
            published.push(row(figure.value, format!("(P{}){note}", at + 1)));
        }
    }
    let mut text = String::new();
    if !closed.is_empty() {
        text.push_str(&figures("By arithmetic, and what the model does", "closed form", &closed));
    }
    if !published.is_empty() {
        text.push('\n');
        text.push_str(&figures("Against the real device", "published", &published));
        text.push('\n');
        for (at, reference) in references.iter().enumerate() {
            let _ = writeln!(text, "  (P{}) {reference}", at + 1);
        }
    }
    Ok(text)
}

/// `elevon faults`: lists every kind of fault, or shows one with its keys.
pub(crate) fn faults(name: Option<&str>) -> Result<Ending, Failure> {
    let text = match name {
        None => list_faults(),
        Some(name) => match kinds::kind(name) {
            Some(kind) => show_fault(kind),
            None => {
                let known = || KINDS.iter().map(|kind| kind.name);
                let meant = did_you_mean(name, known());
                let all: Vec<&str> = known().collect();
                let unknown = UnknownName {
                    kind: "fault",
                    name: name.to_owned(),
                    meant,
                    known: all.join(", "),
                };
                return Err(Failure::named("faults", unknown));
            }
        },
    };
    emit(&text)?;
    Ok(Ending::Done)
}

fn list_faults() -> String {
    let mut text = String::from(
        "Faults of simulated and of served devices (--fault KIND[:key=value,...], as often as wanted; elevon faults KIND shows the keys):\n\n",
    );
    for kind in KINDS {
        let _ = writeln!(text, "  {:<14} {}", kind.name, kind.effect);
    }
    text.push_str(
        "\nThe report counts how often each fired. docs/reference/faults.md has the whole table.\n",
    );
    text
}

fn show_fault(kind: &FaultKind) -> String {
    let mut text =
        format!("{}: {}\nThe report counts: {}.\n\n", kind.name, kind.effect, kind.counts);
    let width = kind.keys.iter().map(|key| key.takes.len()).max().unwrap_or(0);
    let _ = writeln!(text, "  {:<8} {:<width$}  {:>8}  meaning", "key", "takes", "default");
    for key in kind.keys {
        let default = key.default.unwrap_or("none");
        let _ = writeln!(
            text,
            "  {:<8} {:<width$}  {default:>8}  {}",
            key.name, key.takes, key.meaning
        );
    }
    let _ = writeln!(text, "\n{}\nExample: --fault {}", kind.devices(), kind.example);
    text
}

/// `elevon formats`: lists the formats of traces that are read, or shows one.
pub(crate) fn formats(name: Option<&str>) -> Result<Ending, Failure> {
    let known = || TraceFormat::ALL.iter().map(|format| format.name());
    let text = match name {
        None => {
            let mut text = String::from(
                "Formats of traces that are read, found by the content of a file (elevon formats NAME shows one):\n\n",
            );
            for format in TraceFormat::ALL {
                let _ = writeln!(text, "  {:<14} {}", format.name(), format.description());
            }
            text.push_str(
                "\nEach may be compressed by gzip, xz, zstd or zlib. docs/reference/trace-formats.md says more of each.\n",
            );
            text
        }
        Some(name) => match TraceFormat::ALL.iter().find(|format| format.name() == name) {
            Some(format) => {
                format!(
                    "{name}: {}\n\nIts events lack: {}.\n",
                    format.description(),
                    format.lacks()
                )
            }
            None => {
                let all: Vec<&str> = known().collect();
                let meant = did_you_mean(name, known());
                let unknown = UnknownName {
                    kind: "format",
                    name: name.to_owned(),
                    meant,
                    known: all.join(", "),
                };
                return Err(Failure::named("formats", unknown));
            }
        },
    };
    emit(&text)?;
    Ok(Ending::Done)
}

pub(crate) fn schedulers(name: Option<&str>) -> Result<Ending, Failure> {
    let text = match name {
        None => list_schedulers(),
        Some(name) => match sched::scheduler(name) {
            Some(info) => show_scheduler(info),
            None => {
                let known: Vec<&str> = SCHEDULERS.iter().map(|info| info.name).collect();
                let meant = did_you_mean(name, known.iter().copied());
                let unknown = UnknownName {
                    kind: "scheduler",
                    name: name.to_owned(),
                    meant,
                    known: known.join(", "),
                };
                return Err(Failure::named("schedulers", unknown));
            }
        },
    };
    emit(&text)?;
    Ok(Ending::Done)
}

fn show_scheduler(info: &SchedulerInfo) -> String {
    let mut text = format!("{}: {}\n", info.name, info.summary);
    let width = info.tunables.iter().map(|t| t.range.len()).max().unwrap_or(0);
    if !info.tunables.is_empty() {
        let _ = writeln!(
            text,
            "\n  {:<22} {:<10} {:>12}  {:<width$}  meaning",
            "tunable", "unit", "default", "range"
        );
    }
    for t in info.tunables {
        let _ = writeln!(
            text,
            "  {:<22} {:<10} {:>12}  {:<width$}  {}",
            t.name, t.unit, t.default, t.range, t.help
        );
    }
    text
}

/// Writes a line for each setting, in columns.
fn list_settings(text: &mut String, lines: &[SettingLine]) {
    let width = |of: fn(&SettingLine) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let (keys, takes) = (width(|line| line.key.len()), width(|line| line.takes.len()));
    for SettingLine { key, takes: value, default, help } in lines {
        let _ = writeln!(text, "  {key:<keys$} {value:<takes$} {help} [default {default}]");
    }
}

fn list_schedulers() -> String {
    let mut text = String::from("Schedulers (--scheduler NAME[:tunable=value,...]):\n\n");
    for info in SCHEDULERS {
        text.push_str(&show_scheduler(info));
        text.push('\n');
    }
    text.push_str("Queue settings (--set KEY=VALUE):\n\n");
    list_settings(&mut text, &config::lines());
    text.push_str(
        "\nPage cache settings (--set KEY=VALUE, in a run with --memory or --cache):\n\n",
    );
    list_settings(&mut text, &elevon_cache::settings::lines());
    text.push_str("\nQueue limits (--set KEY=VALUE; defaults are the device's):\n\n");
    for limit in SYSFS {
        let note =
            limit.why_fixed().map_or_else(String::new, |why| format!(" (cannot be set: {why})"));
        let _ = writeln!(text, "  {:<28} {:<8} {}{note}", limit.name, limit.unit, limit.help);
    }
    text
}
