//! Holds the folders of a crate to one direction: a row names what a folder or a file beside the
//! folders may name, and no row names one below it.

use std::collections::BTreeSet;

use super::cycles::needs;
use super::{code_lines, is_test, root, sources};

/// The folders of `elevon-serve`, and the files beside them, each with those that it may name. What
/// a row names stands above it.
const SERVE: [(&str, &[&str]); 13] = [
    ("event", &[]),
    ("log", &[]),
    ("request", &[]),
    ("net", &["log", "request"]),
    ("web", &["net"]),
    ("error", &["net"]),
    ("disks", &["log", "net", "request"]),
    ("device", &["disks", "error", "log", "net", "request", "web"]),
    ("shared", &["device", "event", "log", "net"]),
    ("control", &["device", "event", "log", "net", "shared"]),
    ("admin", &["control", "device", "event", "log", "net", "shared", "web"]),
    ("server", &["admin", "control", "device", "error", "event", "log", "net", "shared", "web"]),
    ("fuzzing", &[]),
];

#[test]
fn folders_of_the_server_depend_on_those_above_them() {
    for (row, (folder, allowed)) in SERVE.iter().enumerate() {
        for other in *allowed {
            assert!(
                SERVE[..row].iter().any(|(above, _)| above == other),
                "{folder} may name {other}, which is below"
            );
        }
    }
    let needs = needs().remove("serve").expect("the server");
    let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (module, others) in &needs {
        let Some(folder) = module.first() else { continue };
        let Some((_, allowed)) = SERVE.iter().find(|(row, _)| row == folder) else {
            panic!("{folder} has no row of what it may name")
        };
        for other in
            others.iter().filter_map(|other| other.first()).filter(|other| *other != folder)
        {
            assert!(
                allowed.contains(&other.as_str()),
                "{} must not name {other}",
                module.join("/")
            );
            named.insert((folder, other));
        }
    }
    for (folder, allowed) in SERVE {
        for other in allowed {
            assert!(
                named.contains(&(folder, other)),
                "{folder} does not name {other}: take it from the row"
            );
        }
    }
}

/// A second protocol touches `net/` alone: nothing else knows what clients speak. A disk of another
/// server is reached by NBD.
#[test]
fn the_server_knows_protocols_in_one_folder() {
    let folder = root().join("crates/elevon-serve/src");
    let knows = ["net", "disks/upstream", "disks/upstream.rs"].map(|place| folder.join(place));
    for (path, text) in
        sources().into_iter().filter(|(path, _)| path.starts_with(&folder) && !is_test(path))
    {
        if !knows.iter().any(|place| path.starts_with(place)) {
            let line = code_lines(&text).into_iter().find(|line| line.contains("elevon_nbd"));
            assert!(
                line.is_none(),
                "{} must not name a protocol: {}",
                path.display(),
                line.unwrap_or_default()
            );
        }
    }
}
