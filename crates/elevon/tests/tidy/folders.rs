//! Holds the folders of a crate to one direction: a row names what a folder or a file beside the
//! folders may name, and no row names one below it.

use std::collections::BTreeSet;

use super::cycles::needs;

/// The folders of `elevon-serve`, and the files beside them, each with those that it may name. What
/// a row names stands above it.
const SERVE: [(&str, &[&str]); 11] = [
    ("event", &[]),
    ("log", &[]),
    ("net", &["log"]),
    ("error", &["net"]),
    ("disks", &["log", "net"]),
    ("device", &["disks", "error", "log", "net"]),
    ("shared", &["device", "event", "log", "net"]),
    ("control", &["device", "event", "log", "net", "shared"]),
    ("admin", &["control", "device", "event", "log", "net", "shared"]),
    ("server", &["admin", "control", "device", "error", "event", "log", "net", "shared"]),
    ("fuzzing", &[]),
];

#[test]
fn folders_of_the_server_depend_on_those_above_them() {
    for (row, (folder, allowed)) in SERVE.iter().enumerate() {
        for other in *allowed {
            assert!(SERVE[..row].iter().any(|(above, _)| above == other), "{folder} may name {other}, which is below");
        }
    }
    let needs = needs().remove("serve").expect("the server");
    let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (module, others) in &needs {
        let Some(folder) = module.first() else { continue };
        let Some((_, allowed)) = SERVE.iter().find(|(row, _)| row == folder) else {
            panic!("{folder} has no row of what it may name")
        };
        for other in others.iter().filter_map(|other| other.first()).filter(|other| *other != folder) {
            assert!(allowed.contains(&other.as_str()), "{} must not name {other}", module.join("/"));
            named.insert((folder, other));
        }
    }
    for (folder, allowed) in SERVE {
        for other in allowed {
            assert!(named.contains(&(folder, other)), "{folder} does not name {other}: take it from the row");
        }
    }
}
