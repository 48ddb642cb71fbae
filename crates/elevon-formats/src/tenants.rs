//! The file of `--tenants`: TOML with one table per tenant. Its keys are the kernel's control
//! files, quoted, and Elevon's own knobs.
//!
//! ```toml
//! [tenant."batch/nightly"]
//! "io.max" = "rbps=1048576 wiops=100"
//! weight = 200
//! limit = { wbps = "10M", burst = "1MiB" }
//!
//! [device]
//! "io.cost.qos" = "enable=1"
//!
//! [[change]]
//! at = "5s"
//! tenant = "batch/nightly"
//! "io.max" = "rbps=max"
//! ```
//!
//! All errors are reported at once, one line each, with their places. Cost: O(size of the file).

use elevon_core::kernel::Rules;
use elevon_core::nearest::did_you_mean;
use elevon_core::tenant::MAX_DEPTH;
use elevon_core::units::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::cgroup::{FileOwner, Setting};
use crate::diagnostic::{Complaint, Diagnostic, Problem, Span};
use crate::quantity;
use crate::toml_reader::{self, Reader, TomlEntry, Value};
use crate::toml_text::quoted;

mod knob;

pub use knob::{KNOBS, Knob};

/// A file of tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantsFile {
    /// The settings of `[device]`, in the file's order.
    pub device: Vec<Setting>,
    /// The tables of tenants, in the file's order; each path occurs once.
    pub tenants: Vec<TenantTable>,
    /// The changes during the run, in the file's order.
    pub changes: Vec<Change>,
    /// The device, if a line names it.
    pub named: Option<String>,
}

/// One `[tenant."PATH"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantTable {
    /// The names from the root down, separated by slashes.
    pub path: String,
    /// The place of the table.
    pub place: Span,
    /// The settings of the tenant, in the file's order.
    pub settings: Vec<Setting>,
}

/// Returns true if a tenant's path is that of another, or of an ancestor of it.
pub fn is_at_or_above(path: &str, other: &str) -> bool {
    other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// One `[[change]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The time of the change, from the start of the run.
    pub at: Nanos,
    /// The tenant; `None` for the device.
    pub tenant: Option<String>,
    /// The place of the tenant's name, or of the table if it names none.
    pub place: Span,
    /// The settings of the change, in the file's order.
    pub settings: Vec<Setting>,
}

/// Parses the text of a file. `file` is its name in complaints. Returns either the settings or all
/// complaints.
///
/// # Errors
/// All complaints, each with its place in the file. At least one.
pub fn parse(file: &str, text: &str, rules: &Rules) -> Result<TenantsFile, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let mut result = TenantsFile::default();
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    for entry in toml_reader::entries(table.get_ref()) {
        result.take(&mut reader, rules, &entry);
    }
    result.named = reader.one_device();
    if reader.complaints.is_empty() {
        Ok(result)
    } else {
        reader.complaints.sort_by_key(|complaint| (complaint.line, complaint.column));
        Err(reader.complaints)
    }
}

const TABLES: [&str; 3] = ["device", "tenant", "change"];

impl TenantsFile {
    fn take(&mut self, reader: &mut Reader<'_>, rules: &Rules, entry: &TomlEntry<'_>) {
        match (entry.name, entry.value) {
            ("device", Value::Table(table)) => {
                self.device = settings(
                    reader,
                    rules,
                    "device",
                    Some(FileOwner::Device),
                    toml_reader::entries(table),
                );
            }
            ("tenant", Value::Table(table)) => {
                let mut known = BTreeMap::new();
                for entry in toml_reader::entries(table) {
                    self.take_tenant(reader, rules, &entry, &mut known);
                }
                self.tenants.sort_by_key(|tenant| (tenant.place.line, tenant.place.column));
            }
            ("change", Value::Array(array)) => {
                for element in array.iter() {
                    match element.get_ref() {
                        Value::Table(table) => {
                            self.take_change(
                                reader,
                                rules,
                                element.span(),
                                toml_reader::entries(table),
                            );
                        }
                        _ => reader.complain(
                            element.span().start,
                            "change",
                            "expected a table: [[change]]",
                        ),
                    }
                }
            }
            ("device", _) => {
                reader.complain(entry.at.start, "device", "expected a table: [device]");
            }
            ("tenant", _) => {
                reader.complain(entry.at.start, "tenant", "expected tables: [tenant.\"NAME\"]");
            }
            ("change", _) => {
                reader.complain(entry.at.start, "change", "expected [[change]], with two brackets");
            }
            (name, _) => {
                let meant = did_you_mean(name, TABLES);
                let message = format!(
                    "no such table{meant}; there are [tenant.\"NAME\"], [[change]] and [device]"
                );
                reader.complain(entry.key.start, &quoted(name), Problem::Unknown.because(message));
            }
        }
    }

    pub(crate) fn take_tenant(
        &mut self,
        reader: &mut Reader<'_>,
        rules: &Rules,
        entry: &TomlEntry<'_>,
        known: &mut BTreeMap<String, u32>,
    ) {
        let scope = format!("tenant.{}", quoted(entry.name));
        let Value::Table(table) = entry.value else {
            let message = "expected a table: [tenant.\"NAME\"], and what holds for it below";
            return reader.complain(entry.key.start, &scope, message);
        };
        let place = reader.place(entry.key.start);
        match normal_path(entry.name) {
            Err(message) => reader.complain(entry.key.start, &scope, message),
            Ok(path) => match known.insert(path.clone(), place.line) {
                Some(line) => {
                    let message = format!("{path} has a table already, in line {line}");
                    reader.complain(entry.key.start, &scope, Problem::Conflict.because(message));
                }
                None => {
                    let settings = settings(
                        reader,
                        rules,
                        &scope,
                        Some(FileOwner::Tenant),
                        toml_reader::entries(table),
                    );
                    self.tenants.push(TenantTable { path, place, settings });
                }
            },
        }
    }

    fn take_change(
        &mut self,
        reader: &mut Reader<'_>,
        rules: &Rules,
        at: Range<usize>,
        entries: Vec<TomlEntry<'_>>,
    ) {
        let (mut time, mut tenant, mut place, mut rest) =
            (None, None, reader.place(at.start), Vec::new());
        for entry in entries {
            match (entry.name, entry.value) {
                ("at", Value::String(text)) => match quantity::time(text) {
                    Ok(span) => time = Some(span),
                    Err(_) => {
                        reader.complain(
                            entry.at.start,
                            "change.at",
                            format!("{text}: expected a time with its unit, such as 500ms or 5s"),
                        );
                        time = Some(Nanos::ZERO);
                    }
                },
                ("tenant", Value::String(text)) => {
                    place = reader.place(entry.at.start);
                    match normal_path(text) {
                        Ok(path) => tenant = Some(path),
                        Err(message) => reader.complain(entry.at.start, "change.tenant", message),
                    }
                }
                ("at", _) => {
                    reader.complain(
                        entry.at.start,
                        "change.at",
                        "expected a time with its unit, such as \"5s\"",
                    );
                    time = Some(Nanos::ZERO);
                }
                ("tenant", _) => {
                    reader.complain(
                        entry.at.start,
                        "change.tenant",
                        "expected the tenant's path, such as \"batch/nightly\"",
                    );
                    tenant = Some(String::new());
                }
                _ => rest.push(entry),
            }
        }
        let whose = if tenant.is_some() { FileOwner::Tenant } else { FileOwner::Device };
        let is_empty = rest.is_empty();
        let before = reader.complaints.len();
        let settings = settings(reader, rules, "change", Some(whose), rest);
        match time {
            None => {
                let missing = Problem::Missing.because("at is missing: when, such as at = \"5s\"");
                reader.complain(at.start, "change", missing);
            }
            Some(_) if is_empty => reader.complain(
                at.start,
                "change",
                Problem::Missing.because(
                    "nothing changes: expected a setting, such as \"io.max\" = \"rbps=max\"",
                ),
            ),
            Some(at) if before == reader.complaints.len() => {
                self.changes.push(Change { at, tenant, place, settings });
            }
            Some(_) => {}
        }
    }
}

/// Returns the settings of a table's entries.
pub(crate) fn settings(
    reader: &mut Reader<'_>,
    rules: &Rules,
    scope: &str,
    whose: Option<FileOwner>,
    entries: Vec<TomlEntry<'_>>,
) -> Vec<Setting> {
    let mut found = Vec::new();
    for entry in toml_reader::flattened(entries) {
        knob::take(reader, rules, scope, whose, &entry, &mut found);
    }
    found
}

/// Returns a tenant's path without leading, trailing or repeated slashes, or what is wrong with it.
///
/// # Errors
/// It is the root, too deep, or has a name that no tenant can have.
pub fn normal_path(text: &str) -> Result<String, Complaint> {
    let names = path_names(text)?;
    if names.is_empty() {
        let message = "the root has no limits or weight; name a tenant below it, or write [device]";
        return Err(Problem::Missing.because(message));
    }
    if names.len() > usize::from(MAX_DEPTH) {
        let message = format!("{} deep; tenants nest at most {MAX_DEPTH} deep", names.len());
        return Err(Problem::OutOfRange.because(message));
    }
    Ok(names.join("/"))
}

/// Returns the names of a path below the root; empty for the root itself. Empty names and `.` are
/// left out, as in the kernel.
///
/// # Errors
/// A name is `..`, longer than 255 bytes, or has control characters.
pub fn path_names(text: &str) -> Result<Vec<&str>, Complaint> {
    let names: Vec<&str> =
        text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    match names
        .iter()
        .find(|name| **name == ".." || name.len() > 255 || name.contains(char::is_control))
    {
        Some(name) => {
            let message = format!(
                "{name:?} is no name of a tenant: at most 255 bytes, not `..`, no control characters"
            );
            Err(Problem::Malformed.because(message))
        }
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests;
