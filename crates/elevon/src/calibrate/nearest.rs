//! The device that is fitted to a trace: servers behind one FIFO, or flash, whichever is nearer.

use std::fmt::Write;
use std::path::Path;

use elevon_sim::fit::Served;
use elevon_trace::served::ServedRequests;
use serde_json::Value;

use super::like::{ANY, Likeness, Starts};
use super::trace::{self, Calibration, hundredths};
use crate::advise::Check;
use crate::failure::Failure;

/// In place of a profile for `--like`: servers.
pub(super) const SERVERS: &str = "slots";
/// By which factor the nearest flash, after a first look, may be farther off than servers for a
/// fit to be tried. (Of seven simulated drives it was at most 1.9, of virtual disks 3.7 and more.)
const HOPEFUL: f64 = 3.0;
/// The same for flash that was fitted to be taken, and by how many percent it may be off. Flash
/// that is about as near as servers foretells better how the drive serves another load
/// (docs/what-if.md): servers take all of its requests for alike. (Of those drives it was at most
/// 1.4.)
const NEAR: (f64, f64) = (1.5, 20.0);

/// Error of a fit, in percent, from which it is worth a word beside a bad prediction.
const BAD_FIT: f64 = 20.0;

/// The kinds of device that may be fitted.
pub(super) enum Kinds {
    /// Whichever is nearer.
    All,
    Servers,
    /// Flash, from one of these profiles.
    Flash(Starts),
}

impl Kinds {
    /// Finds them by the value of `--like`.
    pub(super) fn named(like: Option<&str>) -> Result<Self, Failure> {
        match like {
            None => Ok(Self::All),
            Some(SERVERS) => Ok(Self::Servers),
            Some(name) => Starts::named(name).map(Self::Flash),
        }
    }
}

/// A device model fitted to a trace.
pub(crate) enum FittedModel {
    Servers(Box<Calibration>),
    Flash(Box<Likeness>),
}

impl FittedModel {
    /// Returns what it is, in few words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Servers(found) if found.fit.may_have_more => {
                let depth = found.fit.depth;
                format!("{} servers or more, as at most {depth} requests were in it at once", found.fit.model.servers)
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

    /// Returns what may make a prediction on this device wrong.
    fn doubts(&self) -> Vec<String> {
        let (left_out, bound) = match self {
            Self::Servers(found) => (&found.left_out, found.fit.may_have_more.then_some(found.fit.depth)),
            Self::Flash(found) => (&found.left_out, None),
        };
        let bound = bound.map(|depth| {
            format!(
                "the trace had at most {depth} requests in the device, which may serve more at once than that shows"
            )
        });
        let error = self.error_percent();
        let far = (error >= BAD_FIT).then(|| format!("the fitted device itself is off by {error:.0} %"));
        bound.into_iter().chain(trace::left_out_words(left_out, self.requests())).chain(far).collect()
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
pub(crate) struct FittedDevice {
    pub(crate) model: FittedModel,
    /// One of the other kind that was fitted, too, and is farther off.
    other: Option<FittedModel>,
}

impl FittedDevice {
    /// Fits the device of a trace, as `elevon calibrate` does without `--like`.
    pub(crate) fn to(path: &Path, dev: Option<&str>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        Ok(Self::of(&trace::read(path, dev)?, Kinds::All, &name))
    }

    /// Returns what may make a prediction on this device wrong.
    pub(crate) fn doubts(&self) -> Vec<String> {
        self.model.doubts()
    }

    pub(super) fn of(found: &ServedRequests, kinds: Kinds, name: &str) -> Self {
        let requests: Vec<Served> = found.requests.iter().map(trace::served).collect();
        let only = |model| Self { model, other: None };
        let servers = || FittedModel::Servers(Box::new(Calibration::of(found, &requests)));
        let flash = |start| FittedModel::Flash(Box::new(Likeness::of(found, &requests, start, name)));
        match kinds {
            Kinds::Servers => only(servers()),
            Kinds::Flash(starts) => only(flash(starts.nearest(&requests).0)),
            Kinds::All => {
                let servers = servers();
                let is_rotational =
                    found.recorded.as_ref().is_some_and(|recorded| recorded.number("queue/rotational") == Some(1));
                let (start, distance) = Starts::all().nearest(&requests);
                if is_rotational || distance > servers.error_percent() * HOPEFUL {
                    return only(servers);
                }
                let flash = flash(start);
                let is_near = flash.error_percent() <= NEAR.1.min(servers.error_percent() * NEAR.0);
                let (model, other) = if is_near { (flash, servers) } else { (servers, flash) };
                Self { model, other: Some(other) }
            }
        }
    }

    /// Returns the file for `--device @FILE`.
    pub(crate) fn profile(&self, name: &str) -> String {
        match &self.model {
            FittedModel::Servers(found) => trace::profile(name, found),
            FittedModel::Flash(found) => found.profile(name),
        }
    }

    /// Describes the fit.
    pub(super) fn text(&self, name: &str) -> String {
        let mut out = match &self.model {
            FittedModel::Servers(found) => trace::text(name, found),
            FittedModel::Flash(found) => found.text(name),
        };
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

    /// Describes the fit for programs.
    pub(super) fn json(&self, name: &str, check: Option<&Check>) -> String {
        let mut all = match &self.model {
            FittedModel::Servers(found) => trace::json(name, found),
            FittedModel::Flash(found) => found.json(name),
        };
        all["tried"] = self.other.as_ref().map_or(Value::Null, |other| {
            serde_json::json!({
                "device": other.words(),
                "distribution_error_percent": hundredths(other.error_percent()),
            })
        });
        all["check"] = check.map_or(Value::Null, Check::json);
        format!("{all:#}\n")
    }
}
