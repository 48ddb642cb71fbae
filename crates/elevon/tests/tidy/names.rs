//! Holds names of constants to what they mean.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_lines, is_test, root, sources};

/// Words that say of nothing how much it is. A name adds of what: `MIN_SAMPLES`, `MAX_WAIT`.
const VAGUE: [&str; 21] = [
    "BOUND",
    "ENOUGH",
    "FEW",
    "FEWEST",
    "HALF",
    "LARGE",
    "LARGEST",
    "LEAST",
    "LONG",
    "LONGEST",
    "LOOKED_AT",
    "MANY",
    "MORE",
    "MOST",
    "NEAR",
    "PATIENCE",
    "SHORT",
    "SHORTEST",
    "SLOW",
    "SMALL",
    "WORTH",
];
/// Number of names that stand for different values in files of one crate. It may only fall.
const AMBIGUOUS: usize = 71;

/// A constant of the product: its file, its name, and its type with its value.
struct Constant {
    file: String,
    name: String,
    value: String,
}

fn constants() -> Vec<Constant> {
    let crates = root().join("crates");
    let mut found = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let file = path.strip_prefix(&crates).expect("a file of a crate").display().to_string();
        for line in code_lines(&text).into_iter().filter(|_| file.contains("/src/")) {
            let line = line.trim_start();
            let item = if line.starts_with("pub(") {
                line.split_once(") ").map_or("", |(_, item)| item)
            } else {
                line
            };
            let Some(item) = item.trim_start_matches("pub ").strip_prefix("const ") else {
                continue;
            };
            let Some((name, value)) = item.split_once(": ") else { continue };
            if name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            {
                found.push(Constant {
                    file: file.clone(),
                    name: name.to_owned(),
                    value: value.to_owned(),
                });
            }
        }
    }
    assert!(found.len() > 1000, "the constants were not found");
    found
}

#[test]
fn a_constant_says_of_what_it_is_the_most() {
    let vague = constants().into_iter().filter(|constant| VAGUE.contains(&constant.name.as_str()));
    let vague: Vec<String> =
        vague.map(|constant| format!("{}: {}", constant.file, constant.name)).collect();
    assert!(vague.is_empty(), "names that do not say of what: {vague:#?}");
}

/// Only amounts are compared. Tables and texts say in their own rows what they are.
#[test]
fn few_names_stand_for_different_amounts() {
    let is_amount = |value: &str| {
        let kind = value.split(' ').next().unwrap_or_default();
        let is_number = kind.len() <= 5 && kind.starts_with(['u', 'i', 'f']);
        is_number || ["Nanos", "Duration", "Sectors", "Bytes"].contains(&kind)
    };
    let mut values: BTreeMap<(String, String), BTreeMap<String, BTreeSet<String>>> =
        BTreeMap::new();
    for Constant { file, name, value } in
        constants().into_iter().filter(|constant| is_amount(&constant.value))
    {
        let krate = file.split('/').next().expect("a crate").to_owned();
        values.entry((krate, name)).or_default().entry(value).or_default().insert(file);
    }
    let ambiguous: Vec<_> = values.iter().filter(|(_, values)| values.len() > 1).collect();
    assert!(
        ambiguous.len() <= AMBIGUOUS,
        "{} are ambiguous, rename them: {ambiguous:#?}",
        ambiguous.len()
    );
}

/// Number of functions that are called `of`, which does not say what they return. It may only fall.
const CALLED_OF: usize = 46;

#[test]
fn few_functions_are_called_of() {
    let product = sources().into_iter().filter(|(path, _)| !is_test(path));
    let count: usize = product
        .map(|(_, text)| code_lines(&text).iter().filter(|line| line.contains("fn of(")).count())
        .sum();
    assert!(count <= CALLED_OF, "{count} functions are called `of`");
}
