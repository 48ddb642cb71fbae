//! `elevon calibrate TRACE --like PROFILE`: fits the parameters of a flash profile to a trace, as a
//! file for `--device @FILE`.

use std::fmt::Write;

use elevon_formats::quantity;
use elevon_plan::failure::{Failure, ValueError};
use elevon_plan::listener::Listener;
use elevon_report::wrap::wrapped;
use elevon_sim::device::{Description, Device as _, FlashConfig};
use elevon_sim::profiles::{self, Profile};
use elevon_trace::served::{LeftOut, ServedRequests};
use elevon_trace::{DeviceNumber, Recorded};

use crate::fit::{LikeFit, Served, fit_like, is_fitted, nearest};
use serde_json::Value;

use super::hardware::{self, Hardware};
use super::trace::{
    SERVERS, hundredths, json_tables, latency_table, left_out_json, left_out_words, size_of,
};

/// Parameters that are the hardware's, which a trace may tell of.
const OF_HARDWARE: [&str; 3] = ["size", "hw_queues", "queue_depth"];

/// In place of a name: the profile that the trace is nearest to.
pub(super) const ANY: &str = "any";

/// A flash profile with its own parameters.
pub(super) struct Start {
    profile: &'static Profile,
    config: FlashConfig,
    described: Description,
}

impl Start {
    /// Returns the profile if it is one of flash.
    fn from_profile(profile: &'static Profile) -> Option<Self> {
        let config = profile.flash_config("").ok().flatten()?;
        let described = profile.open("", 0).ok()?.description().clone();
        Some(Self { profile, config, described })
    }

    fn all() -> impl Iterator<Item = Self> {
        profiles::PROFILES.iter().filter_map(Self::from_profile)
    }
}

/// The profiles that a fit may begin with: one at least.
pub struct Starts(Vec<Start>);

impl Starts {
    /// Returns all that are flash.
    pub(super) fn all() -> Self {
        Self(Start::all().collect())
    }

    /// Finds them by the value of `--like`.
    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        let found: Vec<Start> =
            Start::all().filter(|start| name == ANY || start.profile.name == name).collect();
        if found.is_empty() {
            let names: Vec<&str> = Start::all().map(|start| start.profile.name).collect();
            let right = format!("a profile of flash ({}), {ANY}, or {SERVERS}", names.join(", "));
            return Err(Failure::named(format!("--like {name}"), ValueError::expected(right)));
        }
        Ok(Self(found))
    }

    /// Returns the one that the requests are nearest to after a look, and how far that is from
    /// them, in percent.
    pub(super) fn nearest(mut self, requests: &[Served]) -> (Start, f64) {
        let all: Vec<_> = self.0.iter().map(|start| (&start.config, &start.described)).collect();
        let (at, distance) = nearest(&all, requests).expect("there is a profile");
        (self.0.swap_remove(at), distance * 100.0)
    }
}

/// A profile that was fitted to a trace, and what else the trace says of the device.
pub(crate) struct Likeness {
    pub(super) device: DeviceNumber,
    profile: &'static Profile,
    /// Its parameters, and what they are in the profile.
    parameters: Vec<(&'static str, String, String)>,
    pub(super) recorded: Option<Recorded>,
    pub(super) left_out: LeftOut,
    pub(crate) fit: LikeFit,
}

impl Likeness {
    /// Fits a profile to what a trace has.
    pub(super) fn from_found(
        found: &ServedRequests,
        requests: &[Served],
        start: Start,
        (name, listener): (&str, &dyn Listener),
    ) -> Self {
        let &ServedRequests { device, end_sector, left_out, ref recorded, .. } = found;
        let Start { profile, config, described } = start;
        let bar = listener.begin(&format!("{name}: {}", profile.name));
        bar.expect(100);
        let fit = fit_like(&config, &described, requests, &mut |percent| bar.set(percent));
        drop(bar);
        let fit = fit.expect("there are reads or writes");
        let mut parameters = fit.changed.clone();
        let hardware = Hardware::from_recorded(recorded.as_ref());
        // A trace may go beyond the end of the profile.
        let size =
            hardware.bytes.or(Some(size_of(end_sector)).filter(|&bytes| bytes > config.size));
        for (key, value) in
            [("size", size), ("hw_queues", hardware.queues), ("queue_depth", hardware.tags)]
        {
            let line = profile.parameters().into_iter().find(|line| line.key == key);
            let Some((value, line)) = value.zip(line) else { continue };
            let text = if key == "size" {
                quantity::text(value, quantity::SIZES)
            } else {
                value.to_string()
            };
            if text != line.value {
                parameters.push((key, line.value, text));
            }
        }
        Self { device, profile, parameters, recorded: recorded.clone(), left_out, fit }
    }

    /// Returns the name of the profile.
    pub(crate) const fn name(&self) -> &'static str {
        self.profile.name
    }

    /// Returns the parameters that differ from those of the profile, as TOML.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let is_number = |value: &str| value.parse::<u64>().is_ok();
        let toml =
            |value: &str| if is_number(value) { value.to_owned() } else { format!("{value:?}") };
        self.parameters.iter().map(|(key, _, value)| (*key, toml(value))).collect()
    }

    /// Returns the file for `--device @FILE`.
    pub(super) fn profile(&self, name: &str, known: &str) -> String {
        let Self { device, profile, parameters, recorded, fit, .. } = self;
        let mut out = format!(
            "name = \"traced-{}-{}\"\nbase = {:?}\nsummary = {:?}\n{known}\n[parameters]\n",
            device.major,
            device.minor,
            profile.name,
            format!("device {device} as {name} shows it, {} with other parameters", profile.name)
        );
        self.rows().iter().for_each(|(key, value)| out.push_str(&format!("{key} = {value}\n")));
        if let Some(recorded) = recorded {
            let limits = hardware::limits(recorded)
                .into_iter()
                .map(|(key, value)| format!("{key} = {value}\n"));
            let _ = write!(out, "\n[limits]\n{}", limits.collect::<String>());
        }
        let mut source = |rows: &[(&str, String, String)], basis: &str, value: &str| {
            if !rows.is_empty() {
                let keys: Vec<String> = rows.iter().map(|(key, ..)| format!("{key:?}")).collect();
                let (keys, origin) = (keys.join(", "), format!("trace {name}"));
                let _ = write!(
                    out,
                    "\n[[source]]\nparameters = [{keys}]\nbasis = {basis:?}\nvalue = {value:?}\norigin = {origin:?}\n"
                );
            }
        };
        let (fitted, others) = parameters.split_at(fit.changed.len());
        let within = format!(
            "the latency of {} requests from issue to completion; replayed, its distribution on these is within {:.1} %",
            fit.requests.0, fit.distribution_percent
        );
        source(fitted, "fitted", &within);
        match Hardware::from_recorded(recorded.as_ref()) == Hardware::default() {
            true => source(others, "estimated", "the last sector used"),
            false => source(others, "stated", "the settings of the device when it was recorded"),
        }
        out
    }

    /// Yields the parameters that are not fitted, with the values of the profile. What the trace
    /// tells of the hardware is not among them.
    fn kept(&self) -> impl Iterator<Item = (&'static str, String)> {
        let lines = self.profile.parameters().into_iter();
        lines
            .filter(|line| {
                !is_fitted(line.key, self.fit.has_discards) && !OF_HARDWARE.contains(&line.key)
            })
            .map(|line| (line.key, line.value))
    }

    /// Describes the fit.
    pub(super) fn text(&self, name: &str) -> String {
        let Self { device, profile, parameters, fit, .. } = self;
        let mut out =
            format!("elevon calibrate: device {device} of {name}, like {}\n\n", profile.name);
        if parameters.is_empty() {
            out.push_str("No parameter of the profile had to be changed.\n");
        } else {
            let _ =
                writeln!(out, "{:<20} {:>12} {:>12}  meaning", "parameter", "profile", "fitted");
        }
        let meanings = profile.parameters();
        for (key, before, now) in parameters {
            let meaning =
                meanings.iter().find(|line| line.key == *key).map_or("", |line| line.meaning);
            let _ = writeln!(out, "{key:<20} {before:>12} {now:>12}  {meaning}");
        }
        let kept: Vec<String> = self.kept().map(|(key, value)| format!("{key}={value}")).collect();
        out.push_str("\nnot fitted, as the profile has them:\n");
        wrapped(&mut out, "  ", &kept.join(", "));
        let (looked_at, all) = fit.requests;
        let of = if all > looked_at { format!(", the first of {all}") } else { String::new() };
        let _ = writeln!(
            out,
            "\nfitted to {looked_at} requests{of}, then replayed on the same: the distribution of latency is off by\n\
             {:.1} % ({:.1} % with the profile as it was), the time that all took by {:+.1} %",
            fit.distribution_percent, fit.profile_percent, fit.time_percent
        );
        if let Some(words) = left_out_words(&self.left_out, all) {
            let _ = writeln!(out, "{words}");
        }
        latency_table(&mut out, &fit.by_size, &fit.by_depth);
        out
    }

    /// Describes the fit for programs.
    pub(super) fn json(&self, name: &str) -> Value {
        let Self { device, profile, parameters, fit, .. } = self;
        let parameters = parameters.iter().map(|(key, before, now)| {
            (key.to_string(), serde_json::json!({ "profile": before, "fitted": now }))
        });
        let [by_size, by_depth] = json_tables(&fit.by_size, &fit.by_depth);
        serde_json::json!({
            "trace": name,
            "device": device.to_string(),
            "like": profile.name,
            "requests": fit.requests.0,
            "requests_in_trace": fit.requests.1,
            "left_out": left_out_json(&self.left_out),
            "parameters": parameters.collect::<serde_json::Map<_, _>>(),
            "not_fitted": self.kept().map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<serde_json::Map<_, _>>(),
            "depth_max": fit.depth,
            "distribution_error_percent": hundredths(fit.distribution_percent),
            "profile_distribution_error_percent": hundredths(fit.profile_percent),
            "time_error_percent": hundredths(fit.time_percent),
            "by_size": by_size,
            "by_depth": by_depth,
        })
    }
}
