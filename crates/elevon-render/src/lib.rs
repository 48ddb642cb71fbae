//! Writes values of `elevon-formats` as texts that parse to the same values, so that tests can
//! compare a parser with its inverse. No production crate may depend on this one.
#![forbid(unsafe_code)]

mod jobs;
mod tenants;

pub use jobs::jobs;
pub use tenants::tenants;
