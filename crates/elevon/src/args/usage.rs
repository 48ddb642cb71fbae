//! What a wrong command line is told.

use std::error::Error as _;
use std::num::{ParseFloatError, ParseIntError};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};

/// Takes a value that may be a path and must be UTF-8. For another value clap's own parser of texts
/// does not name the option.
pub(crate) fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|value| value.into_string().map_err(|_| "is no UTF-8"))
}

/// Converts an error of clap to one line: what is wrong and, if clap knows it, what would be right.
pub(crate) fn one_line(error: &clap::Error) -> String {
    if let Some(line) = no_number(error) {
        return line;
    }
    let text = error.to_string();
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    words.join(" ").trim_start_matches("error: ").replace(" tip: ", "; ")
}

/// Returns the message for the value of an option that is not the number which it must be.
fn no_number(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let expected = match error.source()? {
        why if why.is::<ParseIntError>() => "a whole number, such as 10",
        why if why.is::<ParseFloatError>() => "a number, such as 2 or 0.5",
        _ => return None,
    };
    let option = text(ContextKind::InvalidArg)?.split(' ').next()?;
    Some(format!("{option} {}: expected {expected}", text(ContextKind::InvalidValue)?))
}
