//! Checks that the list in `docs/reference/faults.md` equals the table of faults. `UPDATE_DOCS=1
//! cargo test -p elevon-sim --test sim faults_manual` updates it.

use std::fmt::Write as _;

use elevon_sim::device::fault::kinds::KINDS;
use elevon_testkit::{hold_document, replace_after};

const MARK: &str = "<!-- From here on written from the table of faults. -->\n\n";

#[test]
fn the_manual_lists_what_the_table_has() {
    hold_document("docs/reference/faults.md", |text| replace_after(text, MARK, &markdown()));
}

/// Returns the list: a section for each kind, with its keys as a table.
fn markdown() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let of_kind = format!("{} Counted: {}. {}", kind.effect, kind.counts, kind.devices());
        let _ = write!(text, "### {}\n\n{}\n", kind.name, wrapped(&of_kind));
        text.push_str("| key | takes | default | meaning |\n|---|---|---|---|\n");
        for key in kind.keys {
            let default =
                key.default.map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
            let _ =
                writeln!(text, "| `{}` | {} | {default} | {} |", key.name, key.takes, key.meaning);
        }
        let _ = write!(text, "\nExample: `--fault {}`\n\n", kind.example);
    }
    text
}

/// Returns a paragraph in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + 1 + word.len() > 100 {
            let _ = writeln!(lines, "{line}");
            line.clear();
        }
        let space = if line.is_empty() { "" } else { " " };
        let _ = write!(line, "{space}{word}");
    }
    lines + &line + "\n"
}
