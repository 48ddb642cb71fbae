//! The tenants that pay for the exports of a configuration, and warnings about tables of others.
//! Every function costs O(size of the file * log of it), for exports and tenants of any number.

use std::collections::BTreeSet;

use elevon_core::ioprio::PrioPolicy;
use elevon_core::sched::{Reads, SchedulerInfo};
use elevon_formats::cgroup::Setting;
use elevon_formats::serve::{ExportTable, ServeFile};
use elevon_formats::tenants::{TenantTable, TenantsFile};

/// The tenants that pay for some exports.
struct Payers<'a> {
    /// They themselves.
    own: BTreeSet<&'a str>,
    /// Their ancestors, the root (an empty path) among them.
    above: BTreeSet<&'a str>,
}

impl<'a> Payers<'a> {
    fn from_exports(exports: impl Iterator<Item = &'a ExportTable>) -> Self {
        let own: BTreeSet<&str> = exports.map(|export| export.tenant.as_str()).collect();
        let above = own.iter().flat_map(|path| ancestors(path)).collect();
        Self { own, above }
    }

    /// Returns true if a tenant or one below it pays.
    fn has_at_or_below(&self, path: &str) -> bool {
        self.own.contains(path) || self.above.contains(path)
    }
}

/// Yields the ancestors of a tenant, the nearest first, and the root if it is not the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = |path: &str| path.rfind('/').unwrap_or(0);
    let first = (!path.is_empty()).then(|| &path[..above(path)]);
    std::iter::successors(first, move |path: &&str| {
        (!path.is_empty()).then(|| &path[..above(path)])
    })
}

/// Returns a warning for each class of a tenant of a device that no other I/O there meets where
/// classes count: in a scheduler that serves by class, which those with weights do within a tenant
/// only, or at a limit.
pub(super) fn classes_in_vain(
    file: &ServeFile,
    device: usize,
    scheduler: &SchedulerInfo,
) -> Vec<String> {
    let limited: BTreeSet<&str> = {
        let tables = file.tenants.iter().filter(|table| table.settings.iter().any(is_limit));
        tables.map(|table| table.path.as_str()).collect()
    };
    let payers = Payers::from_exports(file.exports.iter().filter(|export| export.device == device));
    let why = |table: &TenantTable| {
        let path = table.path.as_str();
        let has_others = payers.above.contains(path);
        let meets_at_limit = ancestors(path).any(|path| limited.contains(path))
            || (has_others && limited.contains(path));
        let is_priority = |reads: &Reads| matches!(reads, Reads::Priority | Reads::PriorityClass);
        let (name, serves_by_class) = (scheduler.name, scheduler.reads.iter().any(is_priority));
        if !payers.own.contains(path) {
            Some(
                "a class is that of a tenant's own I/O, and it pays for no export itself"
                    .to_owned(),
            )
        } else if meets_at_limit
            || (serves_by_class && (has_others || scheduler.divides_as.is_none()))
        {
            None
        } else if serves_by_class {
            Some(format!(
                "{name} serves by class within a tenant, and none below it pays for an export"
            ))
        } else {
            Some(format!(
                "{name} does not serve by class; mq-deadline does, and within a tenant aileron and bfq do"
            ))
        }
    };
    let is_class = |setting: &Setting| matches!(setting, Setting::Class(policy) if *policy != PrioPolicy::NoChange);
    let has_class = |table: &&TenantTable| {
        table.settings.iter().any(is_class) && payers.has_at_or_below(&table.path)
    };
    let say = |table: &TenantTable| {
        let (name, line, path) = (&table.place.file, table.place.line, &table.path);
        Some(format!("{name}:{line}: tenant.{path}: class has no effect: {}", why(table)?))
    };
    file.tenants.iter().filter(has_class).filter_map(say).collect()
}

/// Returns true if a setting holds I/O at a rate.
const fn is_limit(setting: &Setting) -> bool {
    matches!(
        setting,
        Setting::IoMax(_)
            | Setting::Flat(..)
            | Setting::Limit(_)
            | Setting::Bandwidth(_)
            | Setting::Iops(_)
    )
}

/// Returns a warning for each table of a tenant that pays for no export.
pub(super) fn without_export(file: &ServeFile) -> Vec<String> {
    let payers = Payers::from_exports(file.exports.iter());
    let say = |table: &TenantTable| {
        let (name, line, path) = (&table.place.file, table.place.line, &table.path);
        format!(
            "{name}:{line}: tenant.{path}: pays for no export; an export's tenant is its name, or its key tenant"
        )
    };
    file.tenants.iter().filter(|table| !payers.has_at_or_below(&table.path)).map(say).collect()
}

/// Returns the tenants of a device: those that pay for its exports, and their ancestors.
pub(super) fn tenants(file: &ServeFile, index: usize) -> TenantsFile {
    let exports = || {
        file.exports
            .iter()
            .filter(move |export| export.device == index && !export.tenant.is_empty())
    };
    let payers = Payers::from_exports(exports());
    let is_of_device = |table: &&TenantTable| payers.has_at_or_below(&table.path);
    let mut tables: Vec<TenantTable> = file.tenants.iter().filter(is_of_device).cloned().collect();
    let mut known: BTreeSet<String> = tables.iter().map(|table| table.path.clone()).collect();
    for export in exports() {
        if known.insert(export.tenant.clone()) {
            let (path, place) = (export.tenant.clone(), export.place.clone());
            tables.push(TenantTable { path, place, settings: Vec::new() });
        }
    }
    TenantsFile {
        device: file.devices[index].settings.clone(),
        tenants: tables,
        ..TenantsFile::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_end_at_the_root() {
        let all = |path| ancestors(path).collect::<Vec<_>>();
        assert_eq!((all("a/b/c"), all("a"), all("")), (vec!["a/b", "a", ""], vec![""], vec![]));
    }
}
