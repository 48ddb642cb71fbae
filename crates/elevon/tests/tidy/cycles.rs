//! Finds the files of a crate that need each other, and holds them to the table in
//! ARCHITECTURE.md.
//!
//! A file needs another if it names an item below it: in a `use` or in a path that starts with
//! `crate`, `super`, `self` or a module of its own. Tests are left out. So are names between a file
//! and the files of its folder, which share types as one module does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{code_lines, is_test, root, sources};

/// Maximum number of files in a cycle.
const LARGEST_CYCLE: usize = 5;

/// A module's path below its crate, such as `["sched", "bfq"]`; the root of the crate is empty.
pub(super) type Module = Vec<String>;
/// The modules of a crate, each with those that it needs.
pub(super) type Needs = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn files_that_need_each_other_are_listed() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let (_, table) = map.split_once("## Files that need each other").expect("the table");
    let table = table.split("\n## ").next().unwrap_or_default();
    let listed: BTreeSet<String> = table.lines().filter_map(group_of_row).flatten().collect();
    let found: BTreeSet<String> =
        needs().iter().flat_map(|(krate, needs)| cycles(krate, needs)).collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        unlisted.is_empty(),
        "cut these ties, or give ARCHITECTURE.md their reason: {unlisted:#?}\ngone: {gone:#?}"
    );
    assert!(gone.is_empty(), "ARCHITECTURE.md lists what is no cycle: {gone:#?}");
    for cycle in found {
        let files = cycle.matches(',').count() + 1;
        assert!(files <= LARGEST_CYCLE, "{cycle}: {files} files need each other");
    }
}

/// Returns the cycles that a row of the table names: `core: sched/bfq/queue, sched/bfq/raising`.
fn group_of_row(row: &str) -> Option<Vec<String>> {
    let cell = row.strip_prefix("| ")?.split(" | ").next()?;
    let (krate, _) = cell.split_once(" `")?;
    let groups = cell.split('`').skip(1).step_by(2);
    Some(groups.map(|group| format!("{krate}: {group}")).collect())
}

/// Returns the cycles of a crate as the table names them.
fn cycles(krate: &str, needs: &Needs) -> Vec<String> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        needs.keys().map(|from| (from, reached(from, needs))).collect();
    let mut groups = BTreeSet::new();
    for (from, to) in &reach {
        let group: BTreeSet<String> =
            to.iter().filter(|other| reach[*other].contains(from)).map(|m| m.join("/")).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    let text = |group: BTreeSet<String>| {
        format!("{krate}: {}", group.into_iter().collect::<Vec<_>>().join(", "))
    };
    groups.into_iter().map(text).collect()
}

/// Returns the modules that a module needs, and those that they need, and so on.
fn reached<'a>(from: &'a Module, needs: &'a Needs) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = vec![from];
    while let Some(module) = next.pop() {
        next.extend(needs[module].iter().filter(|other| reached.insert(*other)));
    }
    reached
}

/// Returns what the files of each crate need of each other. A crate has its name without `elevon-`.
pub(super) fn needs() -> BTreeMap<String, Needs> {
    let mut crates: BTreeMap<String, BTreeMap<Module, TokenStream>> = BTreeMap::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let Some((krate, module)) = place(&path) else { continue };
        let code = code_lines(&text)
            .join("\n")
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        crates.entry(krate).or_default().insert(module, code);
    }
    let needs_of = |files: BTreeMap<Module, TokenStream>| {
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        files
            .into_iter()
            .map(|(module, code)| (module.clone(), named_by(&module, code, &modules)))
            .collect()
    };
    crates.into_iter().map(|(krate, files)| (krate, needs_of(files))).collect()
}

/// Returns the crate and the module that a file is.
fn place(path: &Path) -> Option<(String, Module)> {
    let below =
        path.strip_prefix(root().join("crates")).expect("a file of a crate").with_extension("");
    let mut parts = below.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let krate = parts.next()?.trim_start_matches("elevon-").to_owned();
    let krate = if krate == "elevon" { "command".to_owned() } else { krate };
    if parts.next()? != "src" {
        return None;
    }
    let mut module: Module = parts.collect();
    if module.last().is_some_and(|name| name == "mod" || name == "lib") {
        module.pop();
    }
    Some((krate, module))
}

/// Returns the modules that a file names, without those above and below it.
fn named_by(module: &Module, code: TokenStream, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut paths = Vec::new();
    collect_paths(code, &mut paths);
    let named = paths.into_iter().filter_map(|path| target(module, &path, modules));
    named.filter(|other| !other.starts_with(module) && !module.starts_with(other)).collect()
}

/// Returns the module in which a path of names ends.
fn target(module: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let mut full = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.clone(),
        name => {
            let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
            return modules.contains(&child).then_some(child);
        }
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => (),
            "super" => drop(full.pop()),
            name => full.push(name.to_owned()),
        }
    }
    while !modules.contains(&full) {
        full.pop()?;
    }
    Some(full)
}

/// Collects every path with `::`, those of a `use` with braces one by one.
fn collect_paths(code: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut goes_on = false;
    for token in code {
        match token {
            TokenTree::Ident(name) => {
                if !goes_on {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(name.to_string());
                goes_on = false;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => goes_on = true,
            TokenTree::Group(group) if goes_on && group.delimiter() == Delimiter::Brace => {
                let mut below = Vec::new();
                collect_paths(group.stream(), &mut below);
                paths
                    .extend(below.into_iter().map(|end| path.iter().cloned().chain(end).collect()));
                path.clear();
                goes_on = false;
            }
            TokenTree::Group(group) => {
                paths.push(std::mem::take(&mut path));
                collect_paths(group.stream(), paths);
                goes_on = false;
            }
            _ => {
                paths.push(std::mem::take(&mut path));
                goes_on = false;
            }
        }
    }
    paths.push(path);
}

#[test]
fn a_cycle_is_found_however_the_names_are_written() {
    let files = [
        ("a", "use crate::{b::{self, Thing}, c};"),
        ("b", "fn f(x: &super::d::E) { g(r\"crate::c\") } // crate::a"),
        ("d", "impl crate::a::T {}"),
        ("c", "/// See [`crate::a`].\nstruct S;"),
    ];
    let module = |name: &str| vec![name.to_owned()];
    let modules: BTreeSet<Module> =
        files.iter().map(|(name, _)| module(name)).chain([Vec::new()]).collect();
    let code = |text: &str| text.parse().expect("tokens");
    let needs = files
        .iter()
        .map(|(name, text)| (module(name), named_by(&module(name), code(text), &modules)))
        .collect();
    assert_eq!(cycles("x", &needs), ["x: a, b, d"]);
}
