//! The keys of an export for guests, which speak vhost-user-blk.

use elevon_core::ioprio::{IoPrio, PrioClass};

use super::access::is_owner;
use super::{DiskProtocol, ExportTable};
use crate::diagnostic::{Diagnostic, Problem};
use crate::toml_reader::{Given, Reader, TomlEntry};

/// Takes the address at which guests reach an export, and complains of keys that it excludes.
pub(super) fn take_vhost(reader: &mut Reader<'_>, vhost: Given, export: &mut ExportTable) {
    let mut wrong = |given: &Given, problem: Diagnostic| {
        debug_assert!(!given.key.is_empty());
        reader.complaints.push(problem);
    };
    let conflict = |given: &Given, why: &str| {
        given.place.diagnostic(&given.key, Problem::Conflict.because(why.to_owned()))
    };
    if let Some(listen) = export.listen.first() {
        let why = "an export is reached by one protocol; leave out listen (NBD) or vhost (guests)";
        wrong(listen, conflict(listen, why));
    }
    if vhost.value.strip_prefix("unix:").is_none_or(str::is_empty) {
        let why = format!("{}: is no Unix socket; write unix:PATH", vhost.value);
        wrong(&vhost, vhost.place.diagnostic(&vhost.key, Problem::NoChoice.because(why)));
    }
    if export.max_connections.is_some() {
        wrong(&vhost, conflict(&vhost, "a guest has one connection; leave out max_connections"));
    }
    if let Some(named) = export.clients.iter().find(|client| !is_owner(&client.value)) {
        let why = "a guest has no certificate; write uid: or gid: of the process that runs it";
        wrong(named, conflict(named, why));
    }
    export.protocol = DiskProtocol::Vhost;
    export.listen = vec![vhost];
}

/// Returns the most urgent priority that requests may ask for.
pub(super) fn ioprio(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> IoPrio {
    let Some(given) = reader.text(key, entry) else { return IoPrio::NONE };
    parse_ioprio(&given.value).unwrap_or_else(|| {
        let message =
            format!("{}: expected rt, be or idle, or with a level rt/0 to be/7", given.value);
        reader.complain(entry.at.start, key, Problem::NoChoice.because(message));
        IoPrio::NONE
    })
}

/// Parses a class and a level; a class alone is its most urgent level.
fn parse_ioprio(text: &str) -> Option<IoPrio> {
    let (class, level) =
        text.split_once('/').map_or((text, None), |(class, level)| (class, Some(level)));
    let class = match class {
        "rt" => PrioClass::Rt,
        "be" => PrioClass::Be,
        "idle" if level.is_none() => PrioClass::Idle,
        _ => return None,
    };
    let level = level.map_or(Some(0), |level| level.parse().ok().filter(|level| *level <= 7))?;
    Some(IoPrio::new(class, level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_a_class_with_or_without_a_level() {
        for (text, class, level) in [
            ("rt", PrioClass::Rt, 0),
            ("rt/7", PrioClass::Rt, 7),
            ("be/4", PrioClass::Be, 4),
            ("idle", PrioClass::Idle, 0),
        ] {
            assert_eq!(parse_ioprio(text), Some(IoPrio::new(class, level)), "{text}");
        }
        for text in ["", "none", "rt/8", "be/", "be/-1", "idle/0", "RT"] {
            assert_eq!(parse_ioprio(text), None, "{text}");
        }
    }
}
