//! Keys of a model as a table: one row holds a key, what it means, and where its value lives.
//!
//! Parsing, the help and the page of `elevon devices` read the same rows; the default of a key is what
//! the parameters' `Default` has in its place.

use elevon_core::units::{Bytes, Nanos};

use super::parameter::Unit;
use super::text::{Fields, TextError};

/// Where the value of a key lives in the parameters `P`, in which unit, and what it may be.
pub(crate) enum Place<P> {
    /// A time; see [`Fields::span`].
    Time(fn(&mut P) -> &mut Nanos),
    /// A size; see [`Fields::size`].
    Size(fn(&mut P) -> &mut Bytes),
    /// A rate; see [`Fields::rate`].
    Rate(fn(&mut P) -> &mut Bytes),
    /// A number from 1 to the largest.
    Count(u32, fn(&mut P) -> &mut u32),
    /// The same in 16 bits.
    ShortCount(u16, fn(&mut P) -> &mut u16),
    /// 0 or 1.
    Switch(fn(&mut P) -> &mut bool),
}

/// One row: a key of the parameters `P`.
pub(crate) struct ModelKey<P> {
    /// Its name.
    pub(crate) key: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// Where its value lives.
    pub(crate) place: Place<P>,
}

/// A key of a model with its value, as `elevon devices` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// Its name.
    pub key: &'static str,
    /// Its value with its unit, as it would be written.
    pub value: String,
    /// What it means.
    pub meaning: &'static str,
}

impl<P> ModelKey<P> {
    fn read(&self, fields: &Fields<'_>, parameters: &mut P) -> Result<(), TextError> {
        match self.place {
            Place::Time(at) => *at(parameters) = fields.span(self.key, *at(parameters))?,
            Place::Size(at) => *at(parameters) = fields.size(self.key, *at(parameters))?,
            Place::Rate(at) => *at(parameters) = fields.rate(self.key, *at(parameters))?,
            Place::Count(most, at) => {
                let value = at(parameters);
                *value = fields.count(self.key, (*value).into(), 1..=most.into())? as u32;
            }
            Place::ShortCount(most, at) => {
                let value = at(parameters);
                *value = fields.count(self.key, (*value).into(), 1..=most.into())? as u16;
            }
            Place::Switch(at) => *at(parameters) = fields.flag(self.key, *at(parameters))?,
        }
        Ok(())
    }

    fn line(&self, parameters: &mut P) -> KeyLine {
        let value = match self.place {
            Place::Time(at) => Unit::Time.text(at(parameters).get()),
            Place::Size(at) => Unit::Size.text(at(parameters).get()),
            Place::Rate(at) => Unit::Rate.text(at(parameters).get()),
            Place::Count(_, at) => Unit::Count.text((*at(parameters)).into()),
            Place::ShortCount(_, at) => Unit::Count.text((*at(parameters)).into()),
            Place::Switch(at) => Unit::Switch.text((*at(parameters)).into()),
        };
        KeyLine { key: self.key, value, meaning: self.meaning }
    }
}

/// Reads `key=value,key=value`; a key that is not given keeps its default.
pub(crate) fn parse<P: Default>(scope: &str, rows: &[ModelKey<P>], text: &str) -> Result<P, TextError> {
    let known: Vec<&'static str> = rows.iter().map(|row| row.key).collect();
    let fields = Fields::parse(scope, text, &known)?;
    let mut parameters = P::default();
    for row in rows {
        row.read(&fields, &mut parameters)?;
    }
    Ok(parameters)
}

/// Every key with its value, in the order of the rows.
pub(crate) fn lines<P: Clone>(rows: &[ModelKey<P>], parameters: &P) -> Vec<KeyLine> {
    let mut parameters = parameters.clone();
    rows.iter().map(|row| row.line(&mut parameters)).collect()
}
