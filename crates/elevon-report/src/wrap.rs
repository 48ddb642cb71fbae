//! Words on lines of a width.

use std::fmt::Write;

/// Columns of a line of [`wrapped`], with its indent.
const LINE: usize = 100;

/// Writes words on lines of `width` columns. `first` begins the first line and `later` every other
/// line; `carry` ends each line that another one follows.
pub(crate) fn wrap_at<'a>(
    width: usize,
    out: &mut String,
    words: impl Iterator<Item = &'a str>,
    first: &str,
    later: &str,
    carry: &str,
) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words {
        let room = width - carry.len();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(out, "{line}{carry}");
            later.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{line}");
}

/// Appends a text in lines of at most 100 columns, the first behind `head` and the others
/// behind as many blanks.
pub fn wrapped(out: &mut String, head: &str, text: &str) {
    let rest = " ".repeat(head.len());
    let mut line = head.to_owned();
    for word in text.split(' ') {
        if line.len() > head.len() && line.len() + word.len() >= LINE {
            let _ = writeln!(out, "{}", line.trim_end());
            line.clone_from(&rest);
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
