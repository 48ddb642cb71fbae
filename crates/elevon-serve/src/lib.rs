//! A server of disks over NBD: exports share a device through one stack, so that scheduler, weights
//! and limits hold between their clients.
//!
//! Each device has one thread, which owns its stack, its [`Disk`] and its clients. A connection has
//! a thread until it has opened an export. After that its socket is served by the device's thread,
//! in the ring that carries out the I/O; with TLS, or without a ring, two threads move its bytes
//! between the socket and the device's thread. Nothing is read from a client while it has
//! [`IN_FLIGHT`] requests or [`BYTES_IN_FLIGHT`] bytes that are not answered; a limited tenant is
//! limited by that, never by a reply that is held back.
#![forbid(unsafe_code)]

mod backpressure;
mod byte_range;
mod client;
mod commands;
mod connected;
mod connection;
mod device;
mod devices;
mod disk;
mod faulty;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod line;
mod listen;
mod log;
mod memory;
mod metrics;
mod peer;
mod pieces;
mod refused;
mod reporter;
mod request_memory;
mod room;
mod server;
mod shared;
pub mod simulated;
mod slots;
mod tls;
mod upstream;
mod view;

pub use backpressure::{BYTES_IN_FLIGHT, IN_FLIGHT};
pub use connected::ConnectionView;
pub use device::{CacheUse, CacheView, DeviceParts};
pub use devices::Devices;
pub use disk::Disk;
pub use faulty::FaultyDisk;
pub use listen::{Address, AddressError, SocketAccess};
pub use log::{Field, Level, Log, Record};
pub use peer::{Owner, Peer};
pub use server::{Event, Exported, Hooks, PoolPart, ServeError, Server};
pub use shared::{ConnectionLimits, Control, ExportView, Reload};
pub use tls::{ServerTlsFiles, Tls, TlsError, TlsFiles, Validity};
pub use upstream::{Upstream, UpstreamAddress, UpstreamAddressError, UpstreamError, UpstreamTls};
pub use view::{ClientView, DeviceView};
