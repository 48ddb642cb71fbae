//! Connections: addresses and sockets, TLS, the protocols that clients speak as streams or by
//! queues in shared memory, and the way between a client and the thread of its device. No protocol
//! is known outside this folder, but for the disks of other servers.

pub(crate) mod connected;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod line;
pub(crate) mod listen;
pub(crate) mod nbd;
pub(crate) mod opened;
pub(crate) mod peer;
pub(crate) mod protocol;
pub(crate) mod queues;
pub(crate) mod refused;
pub(crate) mod room;
pub(crate) mod tls;
pub(crate) mod vhost;
