//! A connection, as the server knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::net::gate::OnGrown;
use crate::net::listen::Socket;
use crate::net::peer::{Peer, is_owner};
use crate::net::tls::Identity;

/// A connection that is open.
#[derive(Clone, Debug)]
pub struct ConnectionView {
    /// Its number.
    pub number: u32,
    /// Its client's name: the names in the certificate, with the address or process.
    pub who: String,
    /// The other end.
    pub peer: Peer,
    /// The names in the client's certificate.
    pub names: Vec<String>,
    /// The export that it has open.
    pub export: Option<String>,
    /// The path of that export's tenant.
    pub tenant: String,
    /// For how long it has been there.
    pub age: Duration,
}

/// A connection.
pub(crate) struct Connected {
    /// Its number.
    pub(crate) number: u32,
    pub(crate) socket: Socket,
    pub(crate) since: Instant,
    /// The name of the export that it has open.
    pub(crate) export: Option<String>,
    /// The path of that export's tenant.
    pub(crate) tenant: String,
    /// The client that has opened it.
    pub(crate) client: Arc<Identity>,
    /// Tells it that the export has grown, if that can be told.
    pub(crate) on_grown: Option<OnGrown>,
}

impl Connected {
    /// Returns the name of its client, with what it has open.
    pub(crate) fn in_words(&self) -> String {
        match &self.export {
            Some(export) => self.client.who_with(export, &self.tenant),
            None => self.client.who(),
        }
    }

    pub(crate) fn view(&self) -> ConnectionView {
        ConnectionView {
            number: self.number,
            who: self.client.who(),
            peer: self.client.peer.clone(),
            names: self.client.names.clone(),
            export: self.export.clone(),
            tenant: self.tenant.clone(),
            age: self.since.elapsed(),
        }
    }

    /// Returns true if it has one of these exports open.
    pub(crate) fn has_open(&self, names: &[String]) -> bool {
        self.export.as_ref().is_some_and(|export| names.contains(export))
    }

    /// Returns true if a text means this connection: its number, its client, or the export that it
    /// has open.
    pub(crate) fn is_meant(&self, whom: &str) -> bool {
        let is_peer = match &self.client.peer {
            Peer::Unknown => false,
            Peer::Address(address) => {
                whom.strip_prefix("tcp:").unwrap_or(whom) == address.to_string()
                    || whom == address.ip().to_string()
            }
            Peer::Process(process) => whom == format!("pid:{}", process.pid),
        };
        let is_name = self.client.names.iter().any(|name| name.eq_ignore_ascii_case(whom));
        let whom_alone = [whom.to_owned()];
        let is_number = whom.parse() == Ok(self.number);
        is_number
            || is_peer
            || is_name
            || self.has_open(&whom_alone)
            || is_owner(&whom_alone, &self.client.peer)
    }
}

/// Returns the number of the next connection: the one after the last that no connection has.
/// Numbers begin again after 2^32 connections.
pub(crate) fn next_number(next: &AtomicU32, is_used: impl Fn(u32) -> bool) -> u32 {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if !is_used(number) {
            return number;
        }
    }
}
