//! Connections: addresses and sockets, TLS, the protocol that clients speak, and the way between a
//! client and the thread of its device. No protocol is known outside this folder, but for the
//! disks of other servers.

pub(crate) mod connected;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod line;
pub(crate) mod listen;
pub(crate) mod nbd;
pub(crate) mod opened;
pub(crate) mod peer;
pub(crate) mod protocol;
pub(crate) mod refused;
pub(crate) mod room;
pub(crate) mod tls;
