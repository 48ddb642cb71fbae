//! Holds structs to a number of fields that a reader can keep in mind.

use super::{code_lines, is_test, sources};

/// Maximum named fields of a struct; put fields of one concept in a struct of their own.
const MAX_FIELDS: usize = 30;
/// Structs that may have more, with the reason. An entry must be removed when its struct is small
/// enough.
const LARGE_STRUCTS: &[(&str, &str)] = &[
    ("src/kernel.rs Rules", "a table: the value of every rule of a kernel"),
    ("src/limits.rs QueueLimits", "the attributes of a queue, one for each file of sysfs"),
    ("flash/config.rs FlashConfig", "a table: the parameters of a device, one for each key"),
    ("bfq/queue.rs BfqQueue", "not cut yet: a queue's budget, statistics and injection"),
    ("src/pattern.rs Pattern", "not cut yet: the state of each order of offsets"),
    ("src/replay.rs Replayed", "not cut yet: the state of a process that follows a trace"),
    (
        "process/options.rs Options",
        "not cut yet: what a process looks at for each I/O, in few cache lines",
    ),
];

/// Returns the structs of a file as (name, named fields). They are found by indentation, because
/// the tree is formatted.
fn structs(text: &str) -> Vec<(String, usize)> {
    let without_scope = |line: &str| {
        let code = line.trim_start();
        let scope = code.starts_with("pub(").then(|| code.split_once(") ")).flatten();
        scope.map_or(code.strip_prefix("pub ").unwrap_or(code), |(_, rest)| rest).to_owned()
    };
    let is_field = |line: &str| {
        let code = without_scope(line);
        let name = code.split_once(": ").map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let lines = code_lines(text);
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = without_scope(line);
        let Some(rest) = code.strip_prefix("struct ").filter(|rest| !rest.ends_with(['}', ';']))
        else {
            continue;
        };
        let name =
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start().len()];
        let (close, inside) = (format!("{indent}}}"), format!("{indent}    "));
        let body = lines[at + 1..].iter().take_while(|line| **line != close);
        let is_direct =
            |line: &&&str| line.strip_prefix(&inside).is_some_and(|rest| !rest.starts_with(' '));
        found.push((name.to_owned(), body.filter(is_direct).filter(|line| is_field(line)).count()));
    }
    found
}

#[test]
fn structs_are_cut_by_concept() {
    let mut excepted: Vec<&str> = Vec::new();
    let mut most = 0;
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        for (name, fields) in structs(&text) {
            most = most.max(fields);
            if fields <= MAX_FIELDS {
                continue;
            }
            let is_it = |known: &str| {
                let (file, known) = known.split_once(' ').expect("a file and a struct");
                known == name && path.ends_with(file)
            };
            match LARGE_STRUCTS.iter().find(|(known, _)| is_it(known)) {
                Some((known, _)) => excepted.push(known),
                None => panic!(
                    "{}: {name} has {fields} fields: cut it by concept, or say in LARGE_STRUCTS why not",
                    path.display()
                ),
            }
        }
    }
    for (known, _) in LARGE_STRUCTS {
        assert!(excepted.contains(known), "{known} is small enough: take it from LARGE_STRUCTS");
    }
    assert!(
        most > 60,
        "the largest struct found has {most} fields: the fields of kernel rules were not counted"
    );
}
