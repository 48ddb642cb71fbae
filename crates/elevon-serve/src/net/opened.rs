//! A connection that has opened an export, on its way to the thread of the device.

use std::sync::Arc;

use super::export::Charged;
use super::line::{EndNotice, Secure};
use super::listen::Socket;
use super::protocol::Protocol;
use super::tls::Identity;

/// A connection that has opened an export.
pub(crate) struct Opened {
    /// Its number.
    pub(crate) number: u32,
    pub(crate) identity: Arc<Identity>,
    pub(crate) export: String,
    pub(crate) charged: Charged,
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) socket: Socket,
    pub(crate) secure: Option<Secure>,
    /// Bytes that came and were not understood yet.
    pub(crate) input: Vec<u8>,
    pub(crate) left: EndNotice,
}
