//! Connections: addresses and sockets, TLS, the negotiation of NBD, and the way between a client
//! and the thread of its device.

pub(crate) mod connected;
pub(crate) mod connection;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod line;
pub(crate) mod listen;
pub(crate) mod opened;
pub(crate) mod peer;
pub(crate) mod refused;
pub(crate) mod room;
pub(crate) mod tls;
