//! Documents of this repository that tests write, and hold to what they are made of.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Holds a document, named from the root of the repository, to what `make` makes of its text. If
/// the environment has `UPDATE_DOCS`, the document is written anew.
///
/// # Panics
/// If the document differs, or cannot be read or written.
#[track_caller]
pub fn hold_document(name: &str, make: impl FnOnce(&str) -> String) {
    // Several tests of a binary may write parts of the same document.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let expected = make(&text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    let stale = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(
        text == expected,
        "{name} is stale, run with UPDATE_DOCS=1; first difference: {stale:?}"
    );
}

/// Returns a text with all that follows a mark replaced.
///
/// # Panics
/// If the mark is not there.
#[track_caller]
pub fn replace_after(text: &str, mark: &str, rest: &str) -> String {
    let (head, _) = text.split_once(mark).unwrap_or_else(|| panic!("there is no {mark}"));
    [head, mark, rest].concat()
}

/// Returns a text with what is between a mark and the next `end` replaced.
///
/// # Panics
/// If one of them is not there.
#[track_caller]
pub fn replace_between(text: &str, mark: &str, end: &str, part: &str) -> String {
    let (head, rest) = text.split_once(mark).unwrap_or_else(|| panic!("there is no {mark}"));
    let (_, tail) =
        rest.split_once(end).unwrap_or_else(|| panic!("there is no {end} after {mark}"));
    [head, mark, part, end, tail].concat()
}
