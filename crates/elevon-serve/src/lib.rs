//! A server of disks over NBD: exports share a device through one stack, so that scheduler, weights
//! and limits hold between their clients.
//!
//! Each device has one thread, which owns its stack and its [`Disk`]. Each connection has one, and
//! a second one once an export is open: one reads requests, one writes replies. A reader stops
//! reading while its client has [`IN_FLIGHT`] requests or [`BYTES_IN_FLIGHT`] bytes that are not
//! answered; a limited tenant is limited by that, never by a reply that is held back.
#![forbid(unsafe_code)]

mod client;
mod commands;
mod connection;
mod device;
mod disk;
mod gate;
mod http;
mod listen;
mod log;
mod memory;
mod metrics;
mod pieces;
mod reporter;
mod server;
mod shared;
pub mod simulated;
mod slots;
mod tls;
mod upstream;
mod view;

pub use disk::Disk;
pub use gate::{BYTES_IN_FLIGHT, IN_FLIGHT};
pub use listen::{Address, AddressError};
pub use log::{Field, Level, Log, Record};
pub use server::{Event, Exported, Hooks, ServeError, Server};
pub use shared::{Control, ExportView, Reload};
pub use tls::{Tls, TlsError, TlsFiles};
pub use upstream::{Upstream, UpstreamAddress, UpstreamAddressError, UpstreamError};
pub use view::{ClientView, DeviceView};
