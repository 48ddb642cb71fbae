//! The lists in `docs/tenants.md` equal the tables.
//! `UPDATE_DOCS=1 cargo test -p elevon-formats --test formats tenants_manual` writes them again.
//! The examples in the document are accepted.

use elevon_core::kernel::Kernel;
use elevon_formats::cgroup::{FILES, FileOwner};
use elevon_formats::tenants::{KNOBS, parse};
use std::fmt::Write;

const MARK: &str = "<!-- From here on made from the tables: UPDATE_DOCS=1 cargo test -p elevon-formats --test formats tenants_manual -->\n";

/// Returns a text that can stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn lists() -> String {
    let mut out = format!(
        "{MARK}\n## Knobs\n\n| key | takes | unit and range | default | meaning | the kernel's |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    for knob in KNOBS {
        let (takes, range, same) = (cell(knob.takes), cell(knob.range), knob.same_as);
        let _ =
            writeln!(out, "| `{}` | {takes} | {range} | {} | {} | {same} |", knob.name, knob.default, cell(knob.help));
    }
    for (place, head) in
        [(FileOwner::Tenant, "Control files of a tenant"), (FileOwner::Device, "Control files of the device")]
    {
        let _ = writeln!(
            out,
            "\n## {head}\n\n| file | a line | unit and range | default | meaning |\n| --- | --- | --- | --- | --- |"
        );
        for file in FILES.iter().filter(|file| file.place == place) {
            let (syntax, range) = (cell(file.syntax), cell(file.range));
            let _ = writeln!(
                out,
                "| `{}` | {syntax} | {range} | {} | {} |",
                file.name,
                cell(file.default),
                cell(file.help)
            );
        }
    }
    out
}

fn path() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tenants.md")
}

#[test]
fn the_manual_lists_what_the_tables_have() {
    let text = std::fs::read_to_string(path()).expect("docs/tenants.md");
    let head = text.split(MARK).next().expect("a split has a first part");
    let expected = format!("{head}{}", lists());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path(), expected).expect("docs/tenants.md is writable");
        return;
    }
    let stale = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(text == expected, "docs/tenants.md is stale, run with UPDATE_DOCS=1; first difference: {stale:?}");
}

#[test]
fn the_examples_of_the_manual_are_taken() {
    let text = std::fs::read_to_string(path()).expect("docs/tenants.md");
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert!(examples.len() >= 2, "{} examples", examples.len());
    for example in examples {
        let file = parse("docs/tenants.md", example, &Kernel::V6_18.rules());
        assert!(file.is_ok_and(|file| !file.tenants.is_empty()), "{example}");
    }
}
