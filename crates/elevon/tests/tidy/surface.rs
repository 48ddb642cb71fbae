//! Holds what is public to what another crate names.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_lines, is_test, root, sources};

/// Number of public items that no code outside their crate names, by crate. What is left are types
/// of fields and of results, which a caller has without naming them. A row may only fall.
const UNNAMED: [(&str, usize); 14] = [
    ("elevon-cache", 19),
    ("elevon-core", 21),
    ("elevon-formats", 12),
    ("elevon-host", 1),
    ("elevon-nbd", 3),
    ("elevon-plan", 5),
    ("elevon-report", 1),
    ("elevon-result", 1),
    ("elevon-serve", 10),
    ("elevon-sim", 13),
    ("elevon-sweep", 4),
    ("elevon-trace", 17),
    ("elevon-whatif", 1),
    ("elevon-workload", 24),
];

/// Returns the words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the name of the public item that a line begins.
fn public_item(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let mut words = item.split(' ').skip_while(|word| ["unsafe", "async"].contains(word));
    let kind = words.next()?;
    let mut name = words.next()?;
    if kind == "const" && name == "fn" {
        name = words.next()?;
    }
    let is_item = ["fn", "struct", "enum", "const", "trait", "type", "static"].contains(&kind);
    is_item.then(|| self::words(name).next()).flatten()
}

#[test]
fn what_is_public_is_named_by_another_crate() {
    let crates = root().join("crates");
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut public: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, text) in sources() {
        let place =
            path.strip_prefix(&crates).expect("a file of a crate").to_string_lossy().into_owned();
        let (krate, file) = place.split_once('/').expect("a crate");
        if !file.starts_with("src/") {
            // Tests and benches of a crate use it from outside.
            named.entry(String::new()).or_default().extend(words(&text).map(str::to_owned));
            continue;
        }
        named.entry(krate.to_owned()).or_default().extend(words(&text).map(str::to_owned));
        if !is_test(&path) {
            let items = code_lines(&text)
                .into_iter()
                .filter_map(public_item)
                .map(|name| (file.to_owned(), name.to_owned()));
            public.entry(krate.to_owned()).or_default().extend(items);
        }
    }
    for (krate, most) in UNNAMED {
        let is_named = |name: &String| {
            named.iter().any(|(other, words)| other != krate && words.contains(name))
        };
        let unnamed: Vec<_> = public[krate].iter().filter(|(_, name)| !is_named(name)).collect();
        assert!(
            unnamed.len() <= most,
            "{krate}: make them pub(crate), of {}: {unnamed:#?}",
            unnamed.len()
        );
    }
}
