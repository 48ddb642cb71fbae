//! The device that is fitted to a trace: servers behind one FIFO, or flash, whichever is nearer.

use std::fmt::Write;
use std::path::Path;

use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_report::wrap::wrapped;
use elevon_trace::DeviceNumber;
use elevon_trace::served::ServedRequests;

use crate::fit::{Kind, Model, Served};
use serde_json::Value;

use super::like::{ANY, Likeness, Starts};
use super::trace::{self, Calibration, SERVERS, hundredths};
use crate::interval::{Disk, not_known};

/// By which factor the nearest flash, after a first look, may be farther off than servers for a
/// fit to be tried. (Of seven simulated drives it was at most 1.9, of virtual disks 3.7 and more.)
const HOPEFUL: f64 = 3.0;
/// The same for flash that was fitted to be taken, and by how many percent it may be off. Flash
/// that is about as near as servers foretells better how the drive serves another load
/// (docs/evidence/what-if.md): servers take all of its requests for alike. (Of those drives it
/// was at most 1.4.)
const MAX_ERROR_OF_FITTED_FLASH: (f64, f64) = (1.5, 20.0);

/// An error of a fit, in percent, below which it is as good as none.
const EXACT: f64 = 3.0;

/// Error of a fit, in percent, from which it is worth a word beside a bad prediction.
const BAD_FIT: f64 = 20.0;

/// The kinds of device that may be fitted.
pub enum Kinds {
    /// Whichever is nearer.
    All,
    /// Servers behind one FIFO.
    Servers,
    /// Flash, from one of these profiles.
    Flash(Starts),
}

impl Kinds {
    /// Finds them by the value of `--like`.
    ///
    /// # Errors
    /// There is no such profile of flash.
    pub fn named(like: Option<&str>) -> Result<Self, Failure> {
        match like {
            None => Ok(Self::All),
            Some(SERVERS) => Ok(Self::Servers),
            Some(name) => Starts::named(name).map(Self::Flash),
        }
    }
}

/// Says what an end of the interval of servers is.
fn end_words(end: &Model) -> String {
    let base = if end.base > 0.0 {
        format!(" and {} on the way", trace::time(end.base))
    } else {
        String::new()
    };
    let kind = [Kind::Read, Kind::Write].map(|kind| end.held(kind).latency);
    format!(
        "{} servers, {} of a read, {} of a write{base}",
        end.servers,
        trace::time(kind[0]),
        trace::time(kind[1])
    )
}

/// Another device that explains a trace as well.
struct End {
    words: String,
    base: &'static str,
    /// Its parameters, as TOML.
    rows: Vec<(&'static str, String)>,
}

/// A device model fitted to a trace.
pub(crate) enum FittedModel {
    /// Servers behind one FIFO.
    Servers(Box<Calibration>),
    /// Flash like that of a profile.
    Flash(Box<Likeness>),
}

impl FittedModel {
    /// Returns what it is, in few words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Servers(found) if found.fit.may_have_more => {
                let depth = found.fit.depth;
                format!(
                    "{} servers or more, as at most {depth} requests were in it at once",
                    found.fit.model.servers
                )
            }
            Self::Servers(found) => format!("{} servers", found.fit.model.servers),
            Self::Flash(found) => format!("like {}", found.name()),
        }
    }

    /// Returns by how much the distribution of latency is off, in percent.
    pub(crate) const fn error_percent(&self) -> f64 {
        match self {
            Self::Servers(found) => found.fit.distribution_percent,
            Self::Flash(found) => found.fit.distribution_percent,
        }
    }

    /// Returns the disk that it was fitted to.
    fn disk(&self) -> Disk {
        match self {
            Self::Servers(found) => Disk::from_number(found.device, found.recorded.as_ref(), None),
            Self::Flash(found) => Disk::from_number(found.device, found.recorded.as_ref(), None),
        }
    }

    fn end(&self) -> End {
        let words = self.words();
        match self {
            Self::Servers(found) => End { words, base: SERVERS, rows: found.rows() },
            Self::Flash(found) => End { words, base: found.name(), rows: found.rows() },
        }
    }

    /// Returns what may make a prediction on this device wrong.
    fn doubts(&self) -> Vec<String> {
        let (left_out, bound) = match self {
            Self::Servers(found) => {
                (&found.left_out, found.fit.may_have_more.then_some(found.fit.depth))
            }
            Self::Flash(found) => (&found.left_out, None),
        };
        let bound = bound.map(|depth| {
            format!(
                "the trace had at most {depth} requests in the device, which may serve more at once than that shows"
            )
        });
        let error = self.error_percent();
        let far =
            (error >= BAD_FIT).then(|| format!("the fitted device itself is off by {error:.0} %"));
        bound
            .into_iter()
            .chain(trace::left_out_words(left_out, self.requests()))
            .chain(far)
            .collect()
    }

    /// Returns the number of requests that it was fitted to.
    pub(crate) const fn requests(&self) -> u64 {
        match self {
            Self::Servers(found) => found.fit.requests.0,
            Self::Flash(found) => found.fit.requests.0,
        }
    }
}

/// The device that was fitted to a trace.
pub struct FittedDevice {
    /// The device.
    pub(crate) model: FittedModel,
    /// One of the other kind that was fitted, too, and is farther off.
    other: Option<FittedModel>,
}

impl FittedDevice {
    /// Fits a device to a trace. `dev` is the device of the trace; `None` for the one that has
    /// nearly all events.
    ///
    /// # Errors
    /// The trace cannot be read, or has too few requests.
    pub fn to(
        path: &Path,
        dev: Option<&str>,
        kinds: Kinds,
        listener: &dyn Listener,
    ) -> Result<Self, Failure> {
        let name = path.display().to_string();
        Ok(Self::from_found(&trace::read(path, dev, listener)?, kinds, (&name, listener)))
    }

    /// Returns the disk that it was fitted to, by its numbers.
    pub const fn device(&self) -> DeviceNumber {
        match &self.model {
            FittedModel::Servers(found) => found.device,
            FittedModel::Flash(found) => found.device,
        }
    }

    /// Returns what may make a prediction on this device wrong.
    pub(crate) fn doubts(&self) -> Vec<String> {
        self.model.doubts()
    }

    fn from_found(
        found: &ServedRequests,
        kinds: Kinds,
        (name, listener): (&str, &dyn Listener),
    ) -> Self {
        let requests: Vec<Served> = found.requests.iter().map(trace::served).collect();
        let only = |model| Self { model, other: None };
        let servers = || FittedModel::Servers(Box::new(Calibration::from_found(found, &requests)));
        let flash = |start| {
            FittedModel::Flash(Box::new(Likeness::from_found(
                found,
                &requests,
                start,
                (name, listener),
            )))
        };
        match kinds {
            Kinds::Servers => only(servers()),
            Kinds::Flash(starts) => only(flash(starts.nearest(&requests).0)),
            Kinds::All => {
                let servers = servers();
                let is_rotational = found
                    .recorded
                    .as_ref()
                    .is_some_and(|recorded| recorded.number("queue/rotational") == Some(1));
                if matches!(&servers, FittedModel::Servers(found) if found.fit.is_queue) {
                    return only(servers);
                }
                let (start, distance) = Starts::all().nearest(&requests);
                if is_rotational || distance > servers.error_percent() * HOPEFUL {
                    return only(servers);
                }
                let flash = flash(start);
                let is_near = flash.error_percent()
                    <= MAX_ERROR_OF_FITTED_FLASH
                        .1
                        .min(servers.error_percent() * MAX_ERROR_OF_FITTED_FLASH.0);
                let (model, other) = if is_near { (flash, servers) } else { (servers, flash) };
                Self { model, other: Some(other) }
            }
        }
    }

    /// Returns the file for `--device @FILE`.
    pub fn profile(&self, name: &str) -> String {
        let [from, to] = self.known();
        let known =
            [("known_from", from), ("known_to", to)].into_iter().filter(|(_, depth)| *depth > 0);
        let known: String = known.map(|(key, depth)| format!("{key} = {depth}\n")).collect();
        let mut out = match &self.model {
            FittedModel::Servers(found) => trace::profile(name, found, &known),
            FittedModel::Flash(found) => found.profile(name, &known),
        };
        for End { base, rows, .. } in self.ends() {
            let _ = write!(out, "\n[[end]]\nbase = {base:?}\n[end.parameters]\n");
            rows.iter().for_each(|(key, value)| out.push_str(&format!("{key} = {value}\n")));
        }
        out
    }

    /// Returns the other devices that explain the trace as well.
    fn ends(&self) -> Vec<End> {
        let servers = [Some(&self.model), self.other.as_ref()].into_iter().flatten();
        let mut ends = Vec::new();
        for (at, model) in servers.enumerate() {
            if at == 1 && !self.is_other_near() {
                continue;
            }
            if at == 1 {
                ends.push(model.end());
            }
            if let FittedModel::Servers(found) = model {
                let words = found.fit.ends.iter().map(end_words);
                ends.extend(words.zip(found.ends()).map(|(words, rows)| End {
                    words,
                    base: SERVERS,
                    rows,
                }));
            }
        }
        ends
    }

    /// Returns true if the trace does not show which of two kinds of device it is. A drive that was
    /// fitted at some depths may serve others otherwise, whatever its error is: servers are held
    /// against it.
    fn is_other_near(&self) -> bool {
        let error = self.model.error_percent();
        let is_flash = matches!(self.model, FittedModel::Flash(_));
        is_flash && self.other.is_some()
            || self.other.as_ref().is_some_and(|other| {
                other.error_percent()
                    <= MAX_ERROR_OF_FITTED_FLASH
                        .1
                        .min(error.max(EXACT) * MAX_ERROR_OF_FITTED_FLASH.0)
            })
    }

    /// Returns the smallest and the largest depth at which the devices that explain the trace serve
    /// alike; 0 for no bound.
    pub(crate) fn known(&self) -> [u64; 2] {
        let fit = |model: &FittedModel| match model {
            FittedModel::Servers(found) => Some((found.fit.known, found.fit.met)),
            FittedModel::Flash(_) => None,
        };
        let found = fit(&self.model).or_else(|| self.other.as_ref().and_then(fit));
        match found {
            Some((_, met)) if self.is_other_near() => met,
            Some((known, _)) if matches!(self.model, FittedModel::Servers(_)) => known,
            _ => [0; 2],
        }
    }

    /// Returns true if several devices explain the trace.
    pub(crate) fn is_open(&self) -> bool {
        !self.ends().is_empty()
    }

    /// Says which experiment would tell the devices that explain the trace; empty if there is one.
    pub fn experiment_text(&self) -> String {
        if self.is_open() { self.model.disk().experiment_text(self.known()) } else { String::new() }
    }

    /// Says which devices explain the trace, and where they part.
    pub(crate) fn interval_words(&self) -> String {
        let ends = self.ends();
        let own = match &self.model {
            FittedModel::Servers(found) => match found.fit.servers {
                (least, None) => format!("{least} servers or more"),
                (least, Some(most)) if least == most => format!("{least} servers"),
                (least, Some(most)) => format!("{least} to {most} servers"),
            },
            FittedModel::Flash(_) => self.model.words(),
        };
        if ends.is_empty() {
            let mut out = String::new();
            let known = match &self.model {
                FittedModel::Servers(found) if found.fit.may_have_more => {
                    not_known([0, found.fit.depth])
                }
                _ => "no other device explains the trace that would serve another load otherwise"
                    .to_owned(),
            };
            wrapped(&mut out, "", &format!("interval: {own}; {known}"));
            return out;
        }
        let ends: Vec<String> = ends.into_iter().map(|end| end.words).collect();
        let mut out = String::new();
        let not_known = not_known(self.known());
        wrapped(
            &mut out,
            "",
            &format!(
                "interval: {own}; the trace may be explained by {} as well; {not_known}",
                ends.join(", ")
            ),
        );
        out
    }

    /// Describes the fit.
    pub fn text(&self, name: &str) -> String {
        let mut out = match &self.model {
            FittedModel::Servers(found) => trace::text(name, found),
            FittedModel::Flash(found) => found.text(name),
        };
        out.push_str(&self.interval_words());
        if let Some(other) = &self.other {
            let like = if matches!(other, FittedModel::Servers(_)) { SERVERS } else { ANY };
            let _ = writeln!(
                out,
                "Tried as well: {}, off by {:.1} % (--like {like})",
                other.words(),
                other.error_percent()
            );
        }
        out
    }

    /// Returns the devices that explain the trace, and the depths between which they serve alike.
    pub(crate) fn json_interval(&self) -> Value {
        let [from, to] = self.known().map(|depth| (depth > 0).then_some(depth));
        let ends: Vec<String> = self.ends().into_iter().map(|end| end.words).collect();
        serde_json::json!({ "known_from": from, "known_to": to, "also": ends })
    }

    /// Describes the fit for programs.
    pub fn json(&self, name: &str, check: Option<Value>) -> String {
        let mut all = match &self.model {
            FittedModel::Servers(found) => trace::json(name, found),
            FittedModel::Flash(found) => found.json(name),
        };
        let experiment = self.is_open().then(|| self.model.disk().experiment(self.known()));
        all["experiment"] = experiment.into();
        all["profile"] = self.profile(name).into();
        all["interval"] = self.json_interval();
        all["tried"] = self.other.as_ref().map_or(Value::Null, |other| {
            serde_json::json!({
                "device": other.words(),
                "distribution_error_percent": hundredths(other.error_percent()),
            })
        });
        all["check"] = check.into();
        format!("{all:#}\n")
    }
}
