//! The lists in `docs/reference/fio.md` equal the option table.
//! `UPDATE_DOCS=1 cargo test -p elevon-formats --test formats fio_manual` writes them again.

use elevon_formats::fio::options::{OptionRow, Status, TABLE};
use elevon_formats::fio::{Behaviour, ENGINES};
use elevon_testkit::{hold_document, replace_after};
use std::fmt::Write;

const MARK: &str = "<!-- From here on made from the option table:\nUPDATE_DOCS=1 cargo test -p elevon-formats --test formats fio_manual -->\n";

/// Returns a text that can stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn names(row: &OptionRow) -> String {
    let others: Vec<String> = row.aliases.iter().map(|name| format!("`{name}`")).collect();
    let also = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let of = if row.engines.is_empty() || row.engines.len() > 4 {
        String::new()
    } else {
        format!(", of {}", row.engines.join(", "))
    };
    format!("`{}`{also}{of}", row.name)
}

fn rows_with(keep: impl Fn(&OptionRow) -> Option<String>, out: &mut String) {
    for row in TABLE.iter().flat_map(|(_, rows)| rows.iter()) {
        if let Some(line) = keep(row) {
            out.push_str(&line);
        }
    }
}

fn lists() -> String {
    let mut out =
        "\n## Honoured\n\n| option | takes | default | meaning |\n| --- | --- | --- | --- |\n"
            .to_owned();
    let honoured = |row: &OptionRow| {
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        let default =
            if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let line = format!(
            "| {} | {}{unit} | {default} | {} |\n",
            names(row),
            cell(&row.values()),
            cell(row.help)
        );
        (row.status == Status::Honoured).then_some(line)
    };
    rows_with(honoured, &mut out);
    out.push_str("\n## Accepted without effect\n\nChecked like the others; a warning says why.\n\n| option | why |\n| --- | --- |\n");
    let no_effect = |row: &OptionRow| match row.status {
        Status::NoEffect(why) => Some(format!("| {} | {} |\n", names(row), cell(why))),
        Status::Honoured | Status::Refused(_) => None,
    };
    rows_with(no_effect, &mut out);
    out.push_str("\n## Refused\n\nUnless set to what is the default anyway.\n\n| option | why, and what to do |\n| --- | --- |\n");
    let refused = |row: &OptionRow| match row.status {
        Status::Refused(why) => Some(format!("| {} | {} |\n", names(row), cell(why))),
        Status::Honoured | Status::NoEffect(_) => None,
    };
    rows_with(refused, &mut out);
    out.push_str("\n## Engines\n\n| engine | runs as |\n| --- | --- |\n");
    for engine in ENGINES {
        let how = match engine.behaviour {
            Behaviour::Synchronous => "one I/O at a time",
            Behaviour::Blocking => "a queue; a submission without a free tag sleeps",
            Behaviour::Offloaded => "a queue; a worker sleeps for the tag",
            Behaviour::FileThreads => {
                "a queue; a thread for each file makes its I/Os one after another"
            }
            Behaviour::Refused(why) => &format!("refused: {why}"),
        };
        let note =
            if engine.note.is_empty() { String::new() } else { format!(" ({})", engine.note) };
        let _ = writeln!(out, "| `{}` | {}{} |", engine.name, cell(how), cell(&note));
    }
    out
}

#[test]
fn the_manual_lists_what_the_table_has() {
    hold_document("docs/reference/fio.md", |text| replace_after(text, MARK, &lists()));
}
