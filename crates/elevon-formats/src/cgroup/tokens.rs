//! The words of a line, each with its place.

use elevon_core::nearest::did_you_mean;

use super::{FileError, Refusal, device};

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Bytes from the start of the line.
    pub(super) at: usize,
}

impl<'a> Token<'a> {
    /// Returns an error about the word.
    pub(super) fn refused(&self, refusal: Refusal, message: impl std::fmt::Display) -> FileError {
        FileError {
            refusal,
            span: self.at..self.at + self.text.len(),
            message: format!("{}: {message}", self.text),
        }
    }

    /// Returns key and value of `KEY=VALUE`.
    pub(super) fn pair(&self) -> Option<(&'a str, &'a str)> {
        self.text.split_once('=')
    }
}

/// Returns the words of a line.
pub(super) fn tokens(line: &str) -> Vec<Token<'_>> {
    let words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    words.map(|text| Token { text, at: text.as_ptr() as usize - line.as_ptr() as usize }).collect()
}

/// Returns an error about the whole line.
pub(super) fn refused(line: &str, message: impl Into<String>) -> FileError {
    FileError { refusal: Refusal::Invalid, span: 0..line.len(), message: message.into() }
}

/// A line of `[DEV] KEY=VALUE ...`: the device, and each pair with its token. If a key occurs
/// twice, the later value counts.
#[derive(Debug)]
pub(super) struct Pairs<'a> {
    pub(super) device: Option<&'a str>,
    pub(super) pairs: Vec<(&'a str, &'a str, Token<'a>)>,
}

pub(super) fn pairs<'a>(line: &'a str, keys: &[&str]) -> Result<Pairs<'a>, FileError> {
    let mut words = tokens(line).into_iter().peekable();
    let mut all = Pairs { device: None, pairs: Vec::new() };
    if let Some(first) = words.next_if(|word| word.pair().is_none() && !keys.contains(&word.text)) {
        device::check(&first)?;
        all.device = Some(first.text).filter(|&device| device != device::PLACEHOLDER);
    }
    for word in words {
        let Some((key, value)) = word.pair() else {
            return Err(word.refused(
                Refusal::Invalid,
                format!("expected KEY=VALUE, where KEY is one of {}", keys.join(", ")),
            ));
        };
        if !keys.contains(&key) {
            let meant = did_you_mean(key, keys.iter().copied());
            return Err(word.refused(
                Refusal::Invalid,
                format!("unknown key{meant}; there are {}", keys.join(", ")),
            ));
        }
        all.pairs.push((key, value, word));
    }
    if all.pairs.is_empty() {
        return Err(refused(
            line,
            format!("expected KEY=VALUE, where KEY is one of {}", keys.join(", ")),
        ));
    }
    Ok(all)
}
