//! Parts of `docs/reference/` are what the command prints: its options, and what the model of each
//! device lacks. `UPDATE_DOCS=1 cargo test -p elevon --test manuals reference` writes them.

use std::fmt::Write;

use crate::common::Bench;
use elevon_testkit::{hold_document, replace_after};

/// Returns the first words of the indented lines of a text: names in a list.
fn names(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn the_options_are_those_of_the_help() {
    const MARK: &str = "<!-- From here on made of the help -->\n";
    let bench = Bench::new();
    let all = bench.stdout(&["-h"]);
    let (_, list) = all.split_once("Commands:\n").expect("the commands");
    let (list, _) = list.split_once("\n\n").expect("the end of the commands");
    let commands: Vec<&str> = names(list).into_iter().filter(|name| *name != "help").collect();
    assert!(commands.len() > 15, "{commands:?}");
    let mut text = String::new();
    for command in commands {
        let help = bench.stdout(&[command, "-h"]);
        let _ = write!(text, "\n## {command}\n\n```text\n{}\n```\n", help.trim_end());
    }
    hold_document("docs/reference/options.md", |page| replace_after(page, MARK, &text));
}

#[test]
fn the_devices_are_those_of_the_list() {
    const MARK: &str = "<!-- From here on made of the list -->\n";
    let bench = Bench::new();
    let list = bench.stdout(&["devices"]);
    let (profiles, _) = list.split_once("\nModels with").expect("the profiles");
    let mut table = "\n| profile | device | the model lacks |\n|---|---|---|\n".to_owned();
    for row in profiles.lines().filter_map(|line| line.strip_prefix("  ")) {
        let (name, what) = row.split_once(' ').expect("a name and a device");
        let page = bench.stdout(&["devices", name]);
        let lacks = page.lines().find_map(|line| line.strip_prefix("The model lacks "));
        let lacks = lacks.unwrap_or_else(|| panic!("{name}: what it lacks")).trim_end_matches('.');
        let _ = writeln!(table, "| `{name}` | {} | {lacks} |", what.trim());
    }
    hold_document("docs/reference/devices.md", |page| replace_after(page, MARK, &table));
}
