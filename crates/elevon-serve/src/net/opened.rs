//! A connection that has opened an export, on its way to the thread of the device.

use std::sync::Arc;

use super::export::Charged;
use super::line::{EndNotice, Secure};
use super::listen::Socket;
use super::protocol::Protocol;
use super::queues::Queues;
use super::tls::Identity;

/// A connection that has opened an export.
pub(crate) struct Opened {
    /// Its number.
    pub(crate) number: u32,
    pub(crate) identity: Arc<Identity>,
    pub(crate) export: String,
    pub(crate) charged: Charged,
    pub(crate) front: Front,
    pub(crate) left: EndNotice,
}

/// How requests of a connection come.
pub(crate) enum Front {
    /// As bytes of a stream.
    Stream {
        protocol: Box<dyn Protocol>,
        socket: Socket,
        secure: Option<Secure>,
        /// Bytes that came and were not understood yet.
        input: Vec<u8>,
    },
    /// In queues in memory that the client shares.
    Queues(Box<dyn Queues>),
}
