//! Holds documents and packages to what the command does.

#[path = "../common/mod.rs"]
mod common;

mod calibration_manual;
mod howto;
mod packaging;
mod parity_manual;
mod reproduce;
mod settings;
mod tour;
mod upgrading;
mod what_if_simulated;
