//! Reports of a run's result as text, JSON and HTML.
//!
//! Every report is a pure function of an [`elevon_result::result::RunResult`]: it reads no clock,
//! no file and no global variable. Text follows the conventions of fio and iostat. JSON is fio's
//! schema plus one object, `elevon`. HTML is one self-contained page.
#![forbid(unsafe_code)]

// Figures computed from a result.
mod cache;
pub mod cpu;
pub mod fairness;
pub mod figures;
pub mod settings;
mod slices;
mod steady;
pub mod variant;
pub mod wrap;

// Reports of traces; their value comes from elevon-trace.
pub mod inspect;

// Text for a terminal.
pub mod compare;
pub mod text;

// Documents, rendered as text or HTML.
pub mod document;

// JSON for programs.
pub mod json;

// HTML for a browser.
pub mod html;
pub mod live;
mod markup;
pub mod plot;

#[cfg(test)]
mod sample;
