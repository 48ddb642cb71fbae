//! What operators see and change: the control socket, metrics, the page, and reports to the
//! service manager.

pub(crate) mod commands;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod reporter;
pub(crate) mod view;
