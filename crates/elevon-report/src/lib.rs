//! What a run found out, as text, JSON and HTML.
//!
//! Every report is a pure function of [`result::RunResult`]: no clock, no file, no global. Text
//! follows the habits of fio and iostat, JSON is fio's schema and one more object, HTML is one page
//! that needs nothing else.
#![forbid(unsafe_code)]

// The value, and the numbers made from it.
mod cache;
pub mod cpu;
pub mod fairness;
pub mod number;
pub mod result;
pub mod settings;
pub mod summary;
mod tenants;

// Of traces, whose value is elevon-trace's.
pub mod inspect;

// For people at a terminal.
pub mod compare;
pub mod text;

// For both.
pub mod document;

// For tools.
pub mod json;

// For a browser.
pub mod html;
pub mod plot;

#[cfg(test)]
mod sample;
