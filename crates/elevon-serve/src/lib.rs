//! A server of disks over NBD and vhost-user: exports share a device through one stack, so that
//! scheduler, weights and limits hold between their clients.
//!
//! Each device has one thread, which owns its stack, its [`Disk`] and its clients. A connection has
//! a thread until it has opened an export. After that its socket is served by the device's thread,
//! in the ring that carries out the I/O; with TLS, or without a ring, two threads move its bytes
//! between the socket and the device's thread. Nothing is read from a client while it has
//! [`IN_FLIGHT`] requests or [`BYTES_IN_FLIGHT`] bytes that are not answered; a limited tenant is
//! limited by that, never by a reply that is held back.
#![forbid(unsafe_code)]

mod admin;
mod control;
mod device;
mod disks;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod net;
mod request;
mod server;
mod shared;
pub mod web;

pub use control::{Control, ExportView, Reload};
pub use device::DeviceParts;
pub use device::backpressure::{BYTES_IN_FLIGHT, IN_FLIGHT};
pub use device::devices::Devices;
pub use device::view::{CacheUse, CacheView, ClientView, DeviceView};
pub use disks::faulty::FaultyDisk;
pub use disks::upstream::{
    Upstream, UpstreamAddress, UpstreamAddressError, UpstreamClaim, UpstreamError, UpstreamTls,
};
pub use disks::{Disk, simulated};
pub use error::ServeError;
pub use event::Event;
pub use log::{Field, Level, Log, Record};
pub use net::connected::ConnectionView;
pub use net::export::{Exported, ExportedDisk, PoolPart};
pub use net::listen::{Address, AddressError, SocketAccess};
pub use net::peer::{Owner, Peer};
pub use net::tls::{ServerTlsFiles, Tls, TlsError, TlsFiles, Validity};
pub use request::Extent;
pub use server::{Hooks, Server};
pub use shared::ConnectionLimits;
