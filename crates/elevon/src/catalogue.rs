//! `elevon devices` and `elevon schedulers`: what there is.

use std::fmt::Write;

use elevon_core::limits::SYSFS;
use elevon_core::nearest::did_you_mean;
use elevon_core::sched::{SCHEDULERS, SchedulerInfo};
use elevon_core::stack::config::SETTINGS;
use elevon_report::text::{Figure, figures};
use elevon_sim::device::fault::kinds::{self, KINDS, Kind};
use elevon_sim::profiles::{self, PROFILES, Profile};

use crate::failure::{Failure, Outcome, emit};

pub(crate) fn devices(name: Option<&str>) -> Result<Outcome, Failure> {
    let text = match name {
        None => list_devices(),
        Some(name) => match profiles::profile(name) {
            Some(profile) => show_device(profile)?,
            None if name == "slots" => format!("{SLOTS}\n\n{SLOTS_PAGE}"),
            None => {
                let error = profiles::open(name, 0).err().map_or_else(
                    || format!("{name} is a device with parameters; its name alone shows its page"),
                    |error| error.to_string(),
                );
                return Err(Failure::input(format!("devices: {error}")));
            }
        },
    };
    emit(&text)?;
    Ok(Outcome::Done)
}

const SLOTS: &str = "slots:slots=8,latency=2ms,bandwidth=500MB/s,size=1GiB,rotational=0,hw_queues=1,queue_depth=128";

const SLOTS_PAGE: &str = "\
N servers behind one FIFO: a request holds a server for latency + bytes/bandwidth. What a model of a device can be
compared with exactly.

  slots        servers
  latency      time that every request holds one
  bandwidth    rate of each server
  size         capacity
  rotational   1: the queue says rotational, which schedulers look at
  hw_queues    hardware queues
  queue_depth  commands that each hardware queue holds
";

fn list_devices() -> String {
    let mut text =
        String::from("Simulated devices (elevon devices NAME shows parameters, sources and predictions):\n\n");
    for profile in PROFILES {
        let _ = writeln!(text, "  {:<24} {}", profile.name, profile.summary);
    }
    let _ = write!(
        text,
        "\nModels with parameters of your own:\n\n  {SLOTS}\n      N servers behind one FIFO; a request holds a server for latency + bytes/bandwidth\n  null:size=100GiB,latency=0\n      completes after the latency, at once with 0\n\nA profile takes parameters too: --device ufs-4.0:read_command_cost=41us\nEach takes faults: --fault error:ppm=100 (elevon faults lists the kinds)\nA path of a file or block device is really read and written: --device ./disk.img\n",
    );
    text
}

fn show_device(profile: &Profile) -> Result<String, Failure> {
    let device = profile.open("", 1).map_err(Failure::input)?;
    let description = elevon_sim::device::Device::description(&device);
    let limits = &description.limits;
    let mut text = format!("{}: {}\n\n", profile.name, profile.summary);
    let _ = writeln!(
        text,
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
    );
    let parameters = profile.parameters();
    if !parameters.is_empty() {
        text.push_str("Parameters (as in --device NAME:key=value,...):\n");
        for line in parameters {
            let _ = writeln!(text, "  {:<24} {:>12}  {}", line.key, line.value, line.meaning);
        }
        text.push('\n');
    }
    if !profile.sources.is_empty() {
        text.push_str("Sources:\n");
        for source in profile.sources {
            let _ = writeln!(text, "  {}: {} ({})", source.figure, source.value, source.origin);
        }
        text.push('\n');
    }
    text.push_str(&predictions(profile)?);
    Ok(text)
}

/// Closed forms beside what the model does, and beside what was published of the real device.
fn predictions(profile: &Profile) -> Result<String, Failure> {
    let (mut closed, mut published) = (Vec::new(), Vec::new());
    for prediction in profiles::predictions(profile).map_err(Failure::input)? {
        let ours = profiles::measure(profile, &prediction, 1).map_err(Failure::input)?;
        let row = |expected, note: &str| Figure {
            name: prediction.what.clone(),
            unit: prediction.quantity.unit().to_owned(),
            expected: Some(expected),
            ours,
            note: note.to_owned(),
        };
        closed.push(row(prediction.closed_form, ""));
        if let Some((value, origin)) = prediction.published {
            published.push(row(value, origin));
        }
    }
    let mut text = String::new();
    if !closed.is_empty() {
        text.push_str(&figures("By arithmetic, and what the model does", "closed form", &closed));
    }
    if !published.is_empty() {
        text.push('\n');
        text.push_str(&figures("Against the real device", "published", &published));
    }
    Ok(text)
}

/// `elevon faults`: every kind of fault in a line, or one with its keys.
pub(crate) fn faults(name: Option<&str>) -> Result<Outcome, Failure> {
    let text = match name {
        None => list_faults(),
        Some(name) => match kinds::kind(name) {
            Some(kind) => show_fault(kind),
            None => {
                let known = || KINDS.iter().map(|kind| kind.name);
                let meant = did_you_mean(name, known());
                let all: Vec<&str> = known().collect();
                return Err(Failure::input(format!("faults: no fault {name}{meant}; there are {}", all.join(", "))));
            }
        },
    };
    emit(&text)?;
    Ok(Outcome::Done)
}

fn list_faults() -> String {
    let mut text = String::from(
        "Faults of simulated devices (--fault KIND[:key=value,...], as often as wanted; elevon faults KIND shows the keys):\n\n",
    );
    for kind in KINDS {
        let _ = writeln!(text, "  {:<14} {}", kind.name, kind.effect);
    }
    text.push_str("\nThe report counts how often each fired. docs/faults.md has the whole table.\n");
    text
}

fn show_fault(kind: &Kind) -> String {
    let mut text = format!("{}: {}\nThe report counts: {}.\n\n", kind.name, kind.effect, kind.counts);
    let width = kind.keys.iter().map(|key| key.takes.len()).max().unwrap_or(0);
    let _ = writeln!(text, "  {:<8} {:<width$}  {:>8}  meaning", "key", "takes", "default");
    for key in kind.keys {
        let default = key.default.unwrap_or("none");
        let _ = writeln!(text, "  {:<8} {:<width$}  {default:>8}  {}", key.name, key.takes, key.meaning);
    }
    let _ = writeln!(text, "\nExample: --fault {}", kind.example);
    text
}

pub(crate) fn schedulers(name: Option<&str>) -> Result<Outcome, Failure> {
    let text = match name {
        None => list_schedulers(),
        Some(name) => match SCHEDULERS.iter().find(|info| info.name == name) {
            Some(info) => show_scheduler(info),
            None => {
                let known: Vec<&str> = SCHEDULERS.iter().map(|info| info.name).collect();
                let meant = did_you_mean(name, known.iter().copied());
                let known = known.join(", ");
                return Err(Failure::input(format!("schedulers: no scheduler {name}{meant}; there are {known}")));
            }
        },
    };
    emit(&text)?;
    Ok(Outcome::Done)
}

fn show_scheduler(info: &SchedulerInfo) -> String {
    let mut text = format!("{}: {}\n", info.name, info.summary);
    let width = info.tunables.iter().map(|t| t.range.len()).max().unwrap_or(0);
    if !info.tunables.is_empty() {
        let _ = writeln!(text, "\n  {:<22} {:<10} {:>12}  {:<width$}  meaning", "tunable", "unit", "default", "range");
    }
    for t in info.tunables {
        let _ = writeln!(text, "  {:<22} {:<10} {:>12}  {:<width$}  {}", t.name, t.unit, t.default, t.range, t.help);
    }
    text
}

fn list_schedulers() -> String {
    let mut text = String::from("Schedulers (--scheduler NAME[:tunable=value,...]):\n\n");
    for info in SCHEDULERS {
        text.push_str(&show_scheduler(info));
        text.push('\n');
    }
    text.push_str("Queue settings (--set KEY=VALUE):\n\n");
    for s in SETTINGS {
        let _ = writeln!(text, "  {:<18} {:<32} {} [default {}]", s.key, s.unit, s.help, s.default);
    }
    text.push_str("\nPage cache settings (--set KEY=VALUE, in a run with --memory):\n\n");
    for s in elevon_core::cache::settings::SETTINGS {
        let _ = writeln!(text, "  {:<25} {:<42} {} [default {}]", s.key, s.unit, s.help, s.default);
    }
    text.push_str("\nQueue limits (--set KEY=VALUE; defaults are the device's):\n\n");
    for limit in SYSFS {
        let note = limit.why_fixed().map_or_else(String::new, |why| format!(" (cannot be set: {why})"));
        let _ = writeln!(text, "  {:<28} {:<8} {}{note}", limit.name, limit.unit, limit.help);
    }
    text
}
