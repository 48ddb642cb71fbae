//! A build without TLS: no value of these types exists, so none of their functions is called, but
//! for those that say so.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Identity, ServerTlsFiles, TlsFiles, Validity};

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: this build has no TLS; build it with `--features full`", path.display())]
pub struct TlsError {
    path: PathBuf,
}

impl TlsError {
    /// Returns the file that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// TLS that is ready to be offered.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

impl Tls {
    /// Refuses the files.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        Err(TlsError { path: files.certificate.clone() })
    }

    /// Returns the file of the server's certificate.
    pub fn certificate(&self) -> &Path {
        match self.0 {}
    }

    /// Returns until when the server's certificates are valid.
    pub const fn expires(&self) -> Option<SystemTime> {
        match self.0 {}
    }

    /// Returns when the certificates are valid.
    pub fn spans(&self) -> &[Validity] {
        match self.0 {}
    }

    /// Returns true if the server's certificate is one for clients.
    pub const fn is_for_clients(&self) -> bool {
        match self.0 {}
    }

    /// Returns true if a client has to use it.
    pub const fn is_required(&self) -> bool {
        match self.0 {}
    }

    /// Returns the file of the authorities of clients.
    pub fn client_ca(&self) -> Option<&Path> {
        match self.0 {}
    }
}

/// What TLS towards a server needs.
pub(crate) struct Trust(Infallible);

impl Trust {
    /// Refuses the files.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub(crate) fn load(files: &ServerTlsFiles, _: &str) -> Result<Option<Self>, TlsError> {
        Err(TlsError { path: files.ca.clone() })
    }
}

/// A protected connection.
pub(crate) struct Channel(Infallible);

impl Channel {
    pub(crate) fn accept(tls: &Tls, _: &mut (impl Read + Write)) -> io::Result<(Self, Identity)> {
        match tls.0 {}
    }

    pub(crate) fn connect(trust: &Trust, _: &mut (impl Read + Write)) -> io::Result<Self> {
        match trust.0 {}
    }

    pub(crate) fn send(&self, _: &mut impl Write, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn close(&self, _: &mut impl Write) -> io::Result<()> {
        match self.0 {}
    }
}

/// The bytes of a peer behind a protected connection.
pub(crate) struct Unprotected(Infallible);

impl Unprotected {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        match channel.0 {}
    }

    pub(crate) fn has_to_say(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn read(&mut self, _: &mut impl Read, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}
