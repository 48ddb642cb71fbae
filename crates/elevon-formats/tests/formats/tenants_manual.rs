//! The lists in `docs/reference/tenants.md` equal the tables.
//! `UPDATE_DOCS=1 cargo test -p elevon-formats --test formats tenants_manual` writes them again.
//! The examples in the document are accepted.

use elevon_core::kernel::Kernel;
use elevon_formats::cgroup::{FILES, FileOwner};
use elevon_formats::tenants::{KNOBS, parse};
use elevon_testkit::{hold_document, replace_after};
use std::fmt::Write;

const MARK: &str = "<!-- From here on made from the tables:\nUPDATE_DOCS=1 cargo test -p elevon-formats --test formats tenants_manual -->\n";

/// Returns a text that can stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn lists() -> String {
    let mut out = "\n## Knobs\n\n| key | takes | unit and range | default | meaning | the kernel's |\n| --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for knob in KNOBS {
        let (takes, range, same) = (cell(knob.takes), cell(knob.range), knob.same_as);
        let _ = writeln!(
            out,
            "| `{}` | {takes} | {range} | {} | {} | {same} |",
            knob.name,
            knob.default,
            cell(knob.help)
        );
    }
    for (place, head) in [
        (FileOwner::Tenant, "Control files of a tenant"),
        (FileOwner::Device, "Control files of the device"),
    ] {
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

#[test]
fn the_manual_lists_what_the_tables_have() {
    hold_document("docs/reference/tenants.md", |text| replace_after(text, MARK, &lists()));
}

#[test]
fn the_examples_of_the_manual_are_taken() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tenants.md");
    let text = std::fs::read_to_string(path).expect("docs/reference/tenants.md");
    let examples: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(examples.len() >= 2, "{} examples", examples.len());
    for example in examples {
        let file = parse("docs/reference/tenants.md", example, &Kernel::V6_18.rules());
        assert!(file.is_ok_and(|file| !file.tenants.is_empty()), "{example}");
    }
}
