//! Compares the option table with fio's own list: every option of fio is known, and none is listed
//! twice.

use elevon_formats::fio::options::{OptionKind, OptionRow, Status, find, nearest, rows};
use std::collections::BTreeSet;

const DOCUMENTED: &str = include_str!("../data/fio-options.txt");

#[test]
fn every_documented_option_is_known() {
    let missing: Vec<&str> =
        DOCUMENTED.lines().filter(|name| !name.starts_with('#') && find(name).is_none()).collect();
    assert_eq!(missing, [""; 0]);
}

/// Returns the names and aliases in the text of `fio --cmdhelp` or `--enghelp`: the first word of
/// each line, before a colon.
fn names(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .filter(|n| !n.contains(' '))
        .collect()
}

#[test]
fn every_option_of_the_installed_fio_is_known() {
    let Some(help) = crate::common::fio(&["--cmdhelp=all"]) else { return };
    let mut all = names(&help.stdout);
    assert!(all.len() > 100, "fio lists its options: {all:?}");
    let engines = crate::common::fio(&["--enghelp"]).expect("fio ran before").stdout;
    for engine in String::from_utf8_lossy(&engines).lines().skip(1) {
        let name = engine.trim();
        assert!(elevon_formats::fio::find_engine(name).is_some(), "engine {name}");
        all.extend(names(
            &crate::common::fio(&[&format!("--enghelp={name}")]).expect("fio ran before").stdout,
        ));
    }
    let missing: Vec<&String> = all.iter().filter(|name| find(name).is_none()).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn rows_are_whole_and_unique() {
    let mut seen = BTreeSet::new();
    for OptionRow { name, aliases, help, status, .. } in rows() {
        for name in std::iter::once(name).chain(*aliases).filter(|name| **name != "proto") {
            assert!(seen.insert(name), "{name} is listed twice");
        }
        assert!(!help.is_empty() && help.len() <= 100, "{name}: {help}");
        if let Status::NoEffect(why) | Status::Refused(why) = status {
            assert!(!why.is_empty(), "{name}");
        }
    }
    assert!(seen.len() > 380, "{}", seen.len());
}

#[test]
fn defaults_of_the_table_are_the_parsers() {
    let plain = crate::common::job("");
    for row in rows().filter(|row| row.status == Status::Honoured && row.engines.is_empty()) {
        let written =
            row.default.parse::<u64>().is_ok() || matches!(row.kind, OptionKind::Choice(..));
        if written && row.name != "kb_base" {
            let mut job = crate::common::job(&format!("{}={}", row.name, row.default));
            job.options.clear();
            assert_eq!(job, plain, "{}={}", row.name, row.default);
        }
    }
}

#[test]
fn the_nearest_name_is_offered_only_when_near() {
    for (typed, meant) in [
        ("iodpeth", Some("iodepth")),
        ("block_size", Some("blocksize")),
        ("Direct", Some("direct")),
        ("qqqqqqqq", None),
        ("", None),
    ] {
        assert_eq!(nearest(typed), meant, "{typed}");
    }
}

#[test]
fn a_size_of_writes_beside_trims_is_told_to_have_no_effect() {
    let warnings = |text: &str| crate::common::parsed(text).unwrap().warnings;
    let told = warnings("[a]\ndirect=1\nrw=trimwrite\nbs=4k,8k,16k\n");
    assert!(
        told.len() == 1 && told[0].message.contains("has the size of the trim before it"),
        "{told:?}"
    );
    assert_eq!(warnings("[a]\ndirect=1\nrw=trimwrite\nbs=64k\n"), []);
}

#[test]
fn a_size_in_thousands_suggests_as_many_k() {
    // fio's KiB are 1000 bytes.
    for text in ["bs=4KiB", "bs=4000"] {
        let message =
            &crate::common::parsed(&format!("[a]\n{text}\n")).unwrap().unaligned(512, false)[0]
                .message;
        assert!(message.contains("; did you mean 4k? (KiB is 1000 bytes"), "{message}");
    }
}
