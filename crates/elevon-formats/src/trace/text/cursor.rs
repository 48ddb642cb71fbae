//! Takes the rest of an event's line apart, word by word.

use std::str::FromStr;

/// What is left of a line.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.trim() }
    }
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
    pub(super) fn is_at(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }
    /// The next word, up to white space.
    pub(super) fn word(&mut self) -> Result<&'a str, &'static str> {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if word.is_empty() { Err("more of the line") } else { Ok(word) }
    }
    pub(super) fn number<T: FromStr>(&mut self, expected: &'static str) -> Result<T, &'static str> {
        self.word()?.parse().map_err(|_| expected)
    }
    pub(super) fn expect(&mut self, word: &'static str) -> Result<(), &'static str> {
        if self.word()? == word { Ok(()) } else { Err(word) }
    }
    /// `8,0`.
    pub(super) fn device(&mut self) -> Result<(u32, u32), &'static str> {
        device_numbers(self.word()?)
    }
    /// `(8,0)`.
    pub(super) fn device_in_parentheses(&mut self) -> Result<(u32, u32), &'static str> {
        device_numbers(self.parenthesised()?)
    }
    /// `2048 + 8`.
    pub(super) fn range(&mut self) -> Result<(u64, u32), &'static str> {
        let sector = self.number("a sector")?;
        self.expect("+")?;
        Ok((sector, self.number("a number of sectors")?))
    }
    /// `(...)`, to the first closing parenthesis.
    pub(super) fn parenthesised(&mut self) -> Result<&'a str, &'static str> {
        let inside = self.rest.strip_prefix('(').ok_or("an opening parenthesis")?;
        let (inside, rest) = inside.split_once(')').ok_or("a closing parenthesis")?;
        self.rest = rest.trim_start();
        Ok(inside)
    }
    /// `[...]` up to the last closing bracket, and what follows it: a task's name may hold brackets of its own.
    pub(super) fn bracketed_last(&mut self) -> Result<(&'a str, &'a str), &'static str> {
        let inside = self.rest.strip_prefix('[').ok_or("an opening bracket")?;
        let parts = inside.rsplit_once(']').ok_or("a closing bracket")?;
        self.rest = "";
        Ok(parts)
    }
    /// `[...]` that ends the line.
    pub(super) fn bracketed_to_end(&mut self) -> Result<&'a str, &'static str> {
        match self.bracketed_last()? {
            (inside, "") => Ok(inside),
            _ => Err("the end of the line"),
        }
    }
}

fn device_numbers(text: &str) -> Result<(u32, u32), &'static str> {
    let expected = "a device such as 8,0";
    let (major, minor) = text.split_once(',').ok_or(expected)?;
    Ok((major.parse().map_err(|_| expected)?, minor.parse().map_err(|_| expected)?))
}
