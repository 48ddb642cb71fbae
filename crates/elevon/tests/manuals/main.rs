//! Holds documents and packages to what the command does.

#[path = "../common/mod.rs"]
mod common;

mod calibration_manual;
mod json_schema;
mod packaging;
mod pages;
mod parity_manual;
mod pictures;
mod reference;
mod reproduce;
mod settings;
mod upgrading;
mod what_if_simulated;
