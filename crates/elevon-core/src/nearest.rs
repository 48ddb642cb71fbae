//! Finds the known name that is most similar to a misspelt one.
//!
//! For error messages only. Cost: O(known · length²).

extern crate alloc;
use alloc::string::String;
use alloc::vec::Vec;

/// Longer words are not compared: no known name is near this length.
const MAX_COMPARED_LEN: usize = 64;

/// Returns the known name that is most similar to `name`, if one is near: at most a third of the
/// letters differ (one in a short word), ignoring case, or one contains the other. Of equally
/// similar names, the first in alphabetical order.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let near = known.into_iter().filter_map(|candidate| {
        let changes = distance(&lower, &candidate.to_ascii_lowercase());
        let holds = |long: &str, short: &str| short.len() > 2 && long.contains(short);
        let is_near = changes <= name.len().max(candidate.len()).max(3) / 3;
        (is_near || holds(&lower, candidate) || holds(candidate, &lower))
            .then_some((changes, candidate))
    });
    if name.len() > MAX_COMPARED_LEN { None } else { near.min().map(|(_, candidate)| candidate) }
}

/// Returns ` (did you mean NAME?)`, or an empty string: the end of an error message about an
/// unknown name.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known)
        .map_or_else(String::new, |near| alloc::format!(" (did you mean `{near}`?)"))
}

/// Returns the number of letters to insert, drop or replace to turn one word into the other.
/// O(|a|·|b|).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, &other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        for (a, b, changes) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("fifobatch", "fifo_batch", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (changes, changes));
        }
    }

    #[test]
    fn what_was_meant() {
        let known = ["none", "mq-deadline", "kyber", "bfq", "bs", "io.max"];
        for (name, meant) in [
            ("mq-dedline", Some("mq-deadline")),
            ("deadline", Some("mq-deadline")),
            ("BFQ", Some("bfq")),
            ("bsq", Some("bfq")),
            ("io_max", Some("io.max")),
            ("cfq", Some("bfq")),
            ("noop", None),
            ("x", None),
            ("", None),
            (&"k".repeat(MAX_COMPARED_LEN + 1), None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert_eq!(did_you_mean("kiber", known), " (did you mean `kyber`?)");
        assert_eq!(did_you_mean("qqqqqqq", known), "");
    }
}
