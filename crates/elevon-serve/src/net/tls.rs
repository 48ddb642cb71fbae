//! TLS of a server: its certificate, and the names of its clients in theirs; and TLS towards the
//! server of a disk.
//!
//! A server has a certificate with its key; with the certificates of authorities for clients, every
//! client that uses TLS has to show one that they signed. Keys that both sides share (PSK) are not
//! supported: rustls has none that are agreed on before.
//!
//! The library takes long to build, so it is behind the feature `tls`. Without it no TLS can be
//! made (`absent`), and a configuration that asks for it is refused.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod channel;
mod ends;
#[cfg(feature = "tls")]
mod keys;
#[cfg(feature = "tls")]
mod limits;
#[cfg(feature = "tls")]
mod loaded;

#[cfg(all(test, feature = "tls"))]
pub(crate) mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::net::peer::{Owner, Peer, is_owner};
#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Channel, Trust, Unprotected};
#[cfg(not(feature = "tls"))]
pub use absent::{Tls, TlsError};
#[cfg(feature = "tls")]
pub(crate) use channel::{Channel, Unprotected};
pub(crate) use ends::{Inlet, LastBytes, Outlet, waste};
#[cfg(feature = "tls")]
pub(crate) use loaded::Trust;
#[cfg(feature = "tls")]
pub use loaded::{Tls, TlsError};

/// The files that TLS needs, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of authorities. If given, a client has to show a certificate that one of them
    /// signed.
    pub client_ca: Option<PathBuf>,
    /// A client without TLS can do nothing but ask for it.
    pub required: bool,
}

impl TlsFiles {
    /// Returns the files of a folder as qemu and nbdkit name them: `server-cert.pem`,
    /// `server-key.pem`, and `ca-cert.pem` of the authority for clients if it is there.
    pub fn of_folder(folder: &Path, required: bool) -> Self {
        let ca = folder.join("ca-cert.pem");
        Self {
            certificate: folder.join("server-cert.pem"),
            key: folder.join("server-key.pem"),
            client_ca: (!is_missing(&ca)).then_some(ca),
            required,
        }
    }
}

/// The files that TLS towards another server needs, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// Certificates of authorities. The server has to show one that one of them signed.
    pub ca: PathBuf,
    /// The own certificate with those that lead from it to an authority, and its key, for a server
    /// that asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl ServerTlsFiles {
    /// Returns the files of a folder as qemu and libnbd name them: `ca-cert.pem`, and
    /// `client-cert.pem` and `client-key.pem` if they are there.
    pub fn of_folder(folder: &Path) -> Self {
        let (certificate, key) = (folder.join("client-cert.pem"), folder.join("client-key.pem"));
        let certificate = (!is_missing(&certificate)).then_some((certificate, key));
        Self { ca: folder.join("ca-cert.pem"), certificate }
    }
}

/// Returns true if a folder has no entry of this name. A file that may not be read, and a link
/// whose file is gone, are there: to read them says what is wrong, where to do without them would
/// leave clients unverified.
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// When a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The file that it stands in.
    pub file: PathBuf,
    /// True for an authority of clients, false for the server's own certificate or one of those
    /// that lead from it to an authority.
    pub is_of_clients: bool,
    /// Its first instant.
    pub from: SystemTime,
    /// Its last instant.
    pub until: SystemTime,
}

/// The identity of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The names in its certificate; none without one.
    pub(crate) names: Vec<String>,
    /// Names in its certificate that the authority that issued it may not issue. They open
    /// nothing.
    pub(crate) outside: Vec<String>,
    /// The other end of its connection.
    pub(crate) peer: Peer,
    /// The address that it connected to, if that belongs to certain exports.
    pub(crate) place: Option<Arc<str>>,
}

impl Identity {
    /// Returns the client's name in the log, in the metrics and among connections: the names in its
    /// certificate, with its address or process.
    pub(crate) fn who(&self) -> String {
        match self.names.is_empty() {
            true => self.peer.to_string(),
            false => format!("{} ({})", self.names.join(", "), self.peer),
        }
    }

    /// Returns the same with the export that it has open and the path of its tenant.
    pub(crate) fn who_with(&self, export: &str, tenant: &str) -> String {
        let tenant = if tenant.is_empty() { "/" } else { tenant };
        format!("{}, which has export {export} of tenant {tenant}", self.who())
    }

    /// Returns the client's names, for the answer why it may not open an export.
    pub(crate) fn in_words(&self) -> String {
        let (names, outside) = (self.names.join(", "), self.outside.join(", "));
        match (names.is_empty(), outside.is_empty()) {
            (true, true) => format!("a client without a certificate, {}", self.peer),
            (false, true) => names,
            (true, false) => format!("a client whose authority may not issue its name, {outside}"),
            (false, false) => format!("{names}, whose authority may not issue {outside}"),
        }
    }

    /// Returns true if it is one of the clients that are given; if none are, it need not be.
    pub(crate) fn is_one_of(&self, clients: &[String]) -> bool {
        let is_named = |name: &String| clients.iter().any(|it| it.eq_ignore_ascii_case(name));
        // A name in a certificate is not a user.
        let mut names = self.names.iter().filter(|name| Owner::of_text(name).is_none());
        clients.is_empty() || names.any(is_named) || is_owner(clients, &self.peer)
    }

    /// Returns true if an export that is reached at these addresses alone is reached where it has
    /// connected. Without any it is reached at the server's own.
    pub(crate) fn is_at_one_of(&self, addresses: &[String]) -> bool {
        match &self.place {
            None => addresses.is_empty(),
            Some(place) => addresses.iter().any(|address| **address == **place),
        }
    }
}
