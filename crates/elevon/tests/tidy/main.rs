//! Checks rules of the source tree that the compiler does not check: dependencies between crates,
//! length of files and functions, comments, places of `unsafe`.

mod cycles;
mod documents;
mod folders;
mod long_files;
mod names;
mod prose;
mod structs;
mod surface;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use documents::documents;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every Rust file of the workspace's crates with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("UTF-8 source");
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 100, "the tree was not found");
    found
}

/// Yields the crates but for the command, without `elevon-` before their names.
fn library_crates() -> impl Iterator<Item = String> {
    let folders = fs::read_dir(root().join("crates")).expect("the crates");
    let names =
        folders.map(|folder| folder.expect("a folder").file_name().into_string().expect("a name"));
    names.filter(|name| name != "elevon").map(|name| name.trim_start_matches("elevon-").to_owned())
}

/// Returns the folder of a crate by its name without `elevon-`.
fn folder_of(krate: &str) -> PathBuf {
    let crates = root().join("crates");
    let full = crates.join(format!("elevon-{krate}"));
    if full.is_dir() { full } else { crates.join(krate) }
}

/// Returns the crates that another one may use, in the order of ARCHITECTURE's table, which is the
/// one place that says so. The command, which uses all, is left out.
fn arrows() -> Vec<(String, BTreeSet<String>)> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let (_, table) = map.split_once("| crate | owns | may use |").expect("the table of crates");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let named = rows.map(|cells| {
        let krate = cells[0].trim_matches('`').trim_start_matches("elevon-").to_owned();
        let used = cells.last().and_then(|cell| cell.split([';', '(']).next()).unwrap_or_default();
        let used =
            used.split(',').map(|name| name.trim().to_owned()).filter(|name| name != "nothing");
        (krate, used.collect())
    });
    named.filter(|(krate, _)| krate != "elevon").collect()
}

/// Crates that other projects may use have a README; no other crate may be published.
#[test]
fn only_libraries_for_others_are_published() {
    const PUBLISHED: [&str; 3] = ["core", "nbd", "trace"];
    for krate in library_crates() {
        let folder = folder_of(&krate);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let is_published = !manifest.contains("\npublish = false\n");
        assert_eq!(is_published, PUBLISHED.contains(&&*krate), "{krate}: publish = false");
        assert!(!is_published || folder.join("README.md").exists(), "{krate} has no README.md");
    }
}

#[test]
fn every_arrow_points_towards_the_core() {
    let arrows = arrows();
    let mut below: Vec<&str> = Vec::new();
    for (krate, used) in &arrows {
        assert!(
            used.iter().all(|other| below.contains(&other.as_str())),
            "{krate} stands above what it uses"
        );
        below.push(krate);
    }
    for krate in library_crates() {
        let (_, allowed) =
            arrows.iter().find(|(row, _)| *row == krate).expect("a row of ARCHITECTURE");
        let manifest =
            fs::read_to_string(folder_of(&krate).join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let names = dependencies.lines().filter(|line| line.contains('='));
        let names: BTreeSet<String> = names
            .filter_map(|line| line.split(['=', '.']).next())
            .map(|name| name.trim().to_owned())
            .collect();
        let (ours, others): (BTreeSet<_>, BTreeSet<_>) =
            names.iter().partition(|name| name.starts_with("elevon-"));
        let ours: BTreeSet<String> =
            ours.iter().map(|name| name.trim_start_matches("elevon-").to_owned()).collect();
        assert_eq!(ours, *allowed, "what elevon-{krate} uses, and what ARCHITECTURE says");
        let is_policy = ["core", "cache"].contains(&krate.as_str());
        assert!(
            !is_policy || others.is_empty(),
            "elevon-{krate} depends on no other crate, not on {others:?}"
        );
    }
}

/// Maximum lines of a function.
const LONGEST_FUNCTION: usize = 70;
/// Functions that may be longer, with the reason. An entry must be removed when its function is
/// short enough.
const LONG_FUNCTIONS: &[(&str, &str)] = &[
    ("src/kernel.rs rules", "one struct literal: the value of every rule"),
    ("html/cache.rs over_time", "a table of plots in code"),
    ("findings/inversion.rs finding", "the text of a finding: its evidence, figures and advice"),
    ("findings/starvation.rs finding", "the text of a finding: its evidence, figures and advice"),
    ("write/perfetto.rs body", "a table: the fields of each event by its number"),
    ("io_cost/tests.rs nothing_is_lost_or_doubled", "one walk of an oracle, by kinds of step"),
    ("stack/tests.rs random_walks_end_every_call_once", "one walk of an oracle, by kinds of step"),
    (
        "tests/tenants.rs random_tenants_lose_nothing_and_every_nanosecond_is_accounted_for",
        "one walk of an oracle",
    ),
    ("closed_loop/mod.rs run", "one event loop of a test, without the crates that have one"),
    ("tenants/tests.rs a_mistake_is_a_line_with_its_place", "a table of bad input and answers"),
    (
        "formats/fio_errors.rs bad_lines_and_what_is_said_of_them",
        "a table of bad input and answers",
    ),
    ("ftrace/tests.rs every_shape_of_tail", "a table of lines and what they say"),
];
/// Maximum width of a comment, in characters with its indentation; rows of tables and drawings may
/// be wider.
const WIDEST_COMMENT: usize = 100;

/// Returns the functions of a file as (name, lines). They are found by indentation, because the
/// tree is formatted.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let words: Vec<&str> = code.split([' ', '(', '<']).collect();
        let Some(keyword) = words.iter().position(|&word| word == "fn") else { continue };
        let is_modifier = |word: &&str| {
            word.starts_with("pub")
                || ["const", "unsafe", "extern", "async", "\"C\""].contains(word)
        };
        if !words[..keyword].iter().all(|word| is_modifier(word) || word.ends_with(')')) {
            continue;
        }
        let close = format!("{indent}}}");
        let end =
            lines[at..].iter().position(|line| *line == close || *line == format!("{indent}}};"));
        let ends_at_once = code.ends_with(['}', ';']);
        if let Some(end) = end.filter(|_| !ends_at_once) {
            found.push((words[keyword + 1].to_owned(), end + 1));
        }
    }
    found
}

#[test]
fn functions_are_short_enough_to_read() {
    let mut excepted: Vec<&str> = Vec::new();
    for (path, text) in sources() {
        let place = path.display();
        for (name, lines) in
            functions(&text).into_iter().filter(|&(_, lines)| lines > LONGEST_FUNCTION)
        {
            let is_it = |known: &str| {
                let (file, function) = known.split_once(' ').expect("a file and a function");
                function == name && path.ends_with(file)
            };
            match LONG_FUNCTIONS.iter().find(|(known, _)| is_it(known)) {
                Some((known, _)) => excepted.push(known),
                None => panic!(
                    "{place}: {name} has {lines} lines: cut it, or say in LONG_FUNCTIONS why not"
                ),
            }
        }
    }
    for (known, _) in LONG_FUNCTIONS {
        assert!(
            excepted.contains(known),
            "{known} is no longer too long: take it from LONG_FUNCTIONS"
        );
    }
}

#[test]
fn comments_can_be_read_in_half_a_screen() {
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let is_table = line.contains(" | ") || line.contains('▶');
            if is_comment && !is_table {
                let width = line.chars().count();
                assert!(
                    width <= WIDEST_COMMENT,
                    "{}:{}: {width} columns",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

/// Phrases that are hard to understand, and their replacements.
const RIDDLES: [(&str, &str); 10] = [
    ("have its say", "is applied"),
    ("had their say", "was applied"),
    ("in store for", "planned for"),
    ("spoken for", "merged, or taken"),
    ("the road that", "the path that"),
    ("his name for", "the caller's token"),
    ("those of whom", "many"),
    ("the word would", "the notice would"),
    ("in whose name", "the task and tenant that"),
    ("had of the page cache", "got from the page cache"),
];

#[test]
fn comments_say_what_they_mean() {
    let sources = sources().into_iter().filter(|(path, _)| !path.ends_with("tests/tidy/main.rs"));
    for (path, text) in sources.chain(documents()) {
        let is_document = path.extension().is_some_and(|e| e == "md");
        for (number, line) in text.lines().enumerate() {
            let comment = if is_document {
                Some(line)
            } else {
                line.split_once("//").map(|(_, comment)| comment)
            };
            let Some(comment) = comment.map(str::to_lowercase) else { continue };
            if let Some((riddle, plain)) =
                RIDDLES.iter().find(|(riddle, _)| comment.contains(riddle))
            {
                panic!(
                    "{}:{}: \"{riddle}\": write \"{plain}\" or better: {line}",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_host_crate_only() {
    for krate in library_crates().filter(|krate| krate != "host") {
        let lib = fs::read_to_string(folder_of(&krate).join("src/lib.rs")).expect("a crate root");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "elevon-{krate} must forbid unsafe code");
    }
}

#[test]
fn policy_is_no_std_and_knows_no_clock() {
    for krate in ["core", "cache"] {
        let lib = fs::read_to_string(folder_of(krate).join("src/lib.rs")).expect("a crate root");
        assert!(lib.contains("#![no_std]"), "elevon-{krate} must do without std");
    }
    for (path, text) in sources() {
        let is_policy = path
            .components()
            .any(|c| c.as_os_str() == "elevon-core" || c.as_os_str() == "elevon-cache");
        let is_source = path.components().any(|c| c.as_os_str() == "src");
        let is_test = path.file_name().is_some_and(|n| n == "tests.rs" || n == "testing.rs")
            || path.components().any(|c| c.as_os_str() == "tests" || c.as_os_str() == "testing");
        if !(is_policy && is_source) || is_test {
            continue;
        }
        for banned in ["std::time", "std::thread", "std::fs", "HashMap", "f64", "f32"] {
            let line = code_lines(&text).into_iter().find(|line| line.contains(banned));
            assert!(
                line.is_none(),
                "{}: policy must not use {banned}: {}",
                path.display(),
                line.unwrap_or_default()
            );
        }
    }
}

/// Converts versions such as `1.90` and `1.90.0` to numbers for comparison.
fn version(text: &str) -> (u64, u64, u64) {
    let mut numbers = text.split('.').map(|number| number.parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// Returns cargo's metadata of the workspace and its dependencies.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var_os("CARGO").expect("cargo runs this test");
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .arg("--filter-platform=x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Tests of every crate may use these crates; builds for users must not contain them.
#[test]
fn no_production_crate_depends_on_the_crates_for_tests() {
    const FOR_TESTS: [&str; 4] =
        ["elevon-fairness", "elevon-render", "elevon-swarm", "elevon-testkit"];
    let metadata = metadata();
    let name = |value: &serde_json::Value| value["name"].as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: Vec<_> =
        packages.iter().filter(|package| name(package).starts_with("elevon")).collect();
    assert!(
        FOR_TESTS.iter().all(|it| ours.iter().any(|package| name(package) == *it)),
        "the crates for tests are there"
    );
    assert!(ours.len() > 7, "the crates of the workspace are listed");
    for package in ours.into_iter().filter(|package| !FOR_TESTS.contains(&name(package).as_str())) {
        // An ordinary dependency has the kind null, one of a build script `build`.
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let production =
            dependencies.iter().filter(|dependency| dependency["kind"] != "dev").map(name);
        for dependency in production {
            assert!(
                !FOR_TESTS.contains(&dependency.as_str()),
                "{} must not use {dependency}",
                name(package)
            );
        }
    }
}

/// The Python package calls libraries: a parser of arguments or a screen would only make it larger.
#[test]
fn python_links_no_command_line() {
    let lock = fs::read_to_string(root().join("python/Cargo.lock")).expect("a lock file");
    for name in ["clap", "clap_builder", "elevon", "indicatif", "ratatui"] {
        assert!(!lock.contains(&format!("name = \"{name}\"\n")), "elevon-python links {name}");
    }
}

/// The features `without-...` remove hooks from a build so that a bench can measure their cost.
#[test]
fn no_crate_turns_on_a_feature_of_a_bench() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let dependencies = packages
        .iter()
        .flat_map(|package| package["dependencies"].as_array().expect("dependencies"));
    let enabled: Vec<&str> = dependencies
        .flat_map(|dependency| dependency["features"].as_array().expect("features"))
        .chain(
            packages.iter().flat_map(|package| {
                package["features"]["default"].as_array().into_iter().flatten()
            }),
        )
        .filter_map(|feature| feature.as_str().filter(|name| name.contains("without-")))
        .filter(|name| ["control", "throttle", "activity"].iter().any(|hook| name.ends_with(hook)))
        .collect();
    assert!(enabled.is_empty(), "{enabled:?}");
    let declared =
        packages.iter().filter(|package| package["features"].get("without-control").is_some());
    assert_eq!(
        declared.count(),
        2,
        "elevon-core declares them, and elevon-sim hands them on to its benches"
    );
}

#[test]
fn minimum_rust_version_is_enough_for_every_dependency() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = packages.iter().find(|package| package["name"] == "elevon").expect("elevon");
    let minimum = version(ours["rust_version"].as_str().expect("a rust-version"));
    assert!(packages.len() > 20, "dependencies are listed");
    for package in packages {
        let needed = package["rust_version"].as_str().unwrap_or("0");
        assert!(
            version(needed) <= minimum,
            "{} {} needs Rust {needed}",
            package["name"],
            package["version"]
        );
    }
}

#[test]
fn the_glossary_names_what_is_in_the_code() {
    let glossary =
        fs::read_to_string(root().join("docs/reference/glossary.md")).expect("the glossary");
    let sources = sources();
    let rows: Vec<&str> = glossary.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 30, "the table of the glossary was not found");
    let mut words: Vec<&str> =
        rows.iter().filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), rows.len(), "each word has one row");
    for row in rows {
        let place = row.split('|').nth(3).expect("three columns");
        for name in place.split('`').skip(1).step_by(2) {
            let is_there = if name.contains('/') || name.ends_with(".rs") {
                sources.iter().any(|(path, _)| path.to_string_lossy().contains(name))
            } else {
                let name = name.rsplit("::").next().unwrap_or(name);
                // Names of subcommands are not identifiers.
                name.starts_with("elevon ") || sources.iter().any(|(_, text)| text.contains(name))
            };
            assert!(is_there, "{row}: `{name}` is not in the code");
        }
    }
}

/// The walk of ARCHITECTURE.md names at most ten stages, and each function is in its stage's file.
#[test]
fn the_walk_of_a_write_names_functions_that_exist() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let (_, walk) = map.split_once("## One write, there and back").expect("the walk");
    let walk = walk.split("\n## ").next().unwrap_or_default();
    let quoted =
        |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<&str> = walk.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!((6..=10).contains(&rows.len()), "{} stages", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let [file] = &quoted(cells[2])[..] else { panic!("{row}: one file a stage") };
        let text = fs::read_to_string(root().join("crates").join(file))
            .unwrap_or_else(|_| panic!("{row}: no {file}"));
        let named = quoted(cells[3]);
        assert!(!named.is_empty(), "{row}: no function");
        let known: Vec<String> = functions(&text).into_iter().map(|(name, _)| name).collect();
        for name in named {
            assert!(known.contains(&name), "{row}: {file} has no function {name}");
        }
    }
}

/// Returns the lines of a file without its tests and without line comments.
fn code_lines(text: &str) -> Vec<&str> {
    let mut code = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.trim_start() == "#[cfg(test)]" {
            // The tree is formatted, so an item ends on its line or with a brace below its start.
            let item = lines.find(|line| !line.trim_start().starts_with("#[")).unwrap_or_default();
            if !item.ends_with([';', '}', ',']) {
                lines.find(|line| {
                    line.strip_prefix(indent)
                        .is_some_and(|end| ["}", "};", "},", ");"].contains(&end))
                });
            }
        } else if !line.trim_start().starts_with("//") {
            code.push(line);
        }
    }
    code
}

/// Returns true for a test, a bench or a helper of tests.
fn is_test(path: &Path) -> bool {
    let is_in = |folder: &str| path.components().any(|c| c.as_os_str() == folder);
    path.file_name().is_some_and(|n| n == "tests.rs" || n == "testing.rs")
        || is_in("tests")
        || is_in("benches")
}

/// Programs that tests may start without a look for them: POSIX has them, or Linux needs
/// them. Every other one is asked for with `elevon_testkit::tool` or `tools`, so that a test skips
/// if it is missing and `cargo xtask hide-tools` knows who uses it.
const ALWAYS_THERE: [&str; 8] = ["dd", "env", "ldd", "mkfifo", "mount", "sh", "tar", "umount"];

#[test]
fn tests_ask_whether_a_program_is_installed() {
    // CI goes without fio-plot, of which there is no package.
    let is_known = |name: &&str| ALWAYS_THERE.contains(name) || *name == "fio-plot";
    let is_bench = |path: &Path| path.components().any(|part| part.as_os_str() == "benches");
    for (path, text) in sources().into_iter().filter(|(path, _)| {
        is_test(path) && !is_bench(path) && !path.ends_with("tests/tidy/main.rs")
    }) {
        let started =
            text.match_indices("Command::new(\"").map(|(at, mark)| &text[at + mark.len()..]);
        for name in started.filter_map(|rest| rest.split('"').next()).filter(|name| !is_known(name))
        {
            let named = |before: &str| text.matches(&format!("{before}\"{name}\"")).count();
            assert!(
                named("") > named("Command::new("),
                "{}: `{name}` may be missing: ask elevon_testkit::tool",
                path.display()
            );
        }
    }
}

/// These functions differ in the last digit between platforms, and so would the results of a random
/// seed. `libm` implements them in Rust.
#[test]
fn no_float_function_of_the_platform_is_used() {
    const FUNCTIONS: [&str; 20] = [
        "ln", "ln_1p", "log2", "log10", "exp", "exp2", "exp_m1", "powf", "powi", "cbrt", "hypot",
        "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "tanh",
    ];
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        for line in code_lines(&text) {
            let used = FUNCTIONS.iter().find(|name| {
                line.contains(&format!(".{name}(")) || line.contains(&format!("f64::{name}("))
            });
            assert!(
                used.is_none(),
                "{}: use libm for {}: {line}",
                path.display(),
                used.unwrap_or(&"")
            );
        }
    }
}

/// The source of an expected value must be available to readers: in this repository, in a
/// specification, or in the kernel under the given name. Scenario numbers and titles of documents
/// that are not in the repository are of no use.
#[test]
fn what_is_cited_is_in_the_repository() {
    let is_scenario = |word: &str| {
        let digits = word.strip_prefix(['G', 'g']).unwrap_or_default();
        (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    // The strings are in two parts, so that this line is not found.
    let documents = [concat!("the ", "facts"), concat!("device ", "facts")];
    for (path, text) in
        sources().into_iter().filter(|(path, _)| !path.ends_with("tests/tidy/main.rs"))
    {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            let name = line
                .trim_start()
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next())
                .unwrap_or_default();
            let is_numbered = name
                .split_once('_')
                .is_some_and(|(first, _)| is_scenario(first) && first.len() > 2);
            assert!(!is_numbered, "{place}: name the behaviour: {line}");
            let Some((_, comment)) = line.split_once("//") else { continue };
            let words = || comment.split(|c: char| !c.is_ascii_alphanumeric());
            let scenario = words().find(|word| word.starts_with('G') && is_scenario(word));
            assert!(scenario.is_none(), "{place}: name the behaviour: {line}");
            assert!(
                !documents.iter().any(|title| comment.contains(title)),
                "{place}: cite what is here: {line}"
            );
        }
    }
}
