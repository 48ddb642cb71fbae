//! Counts of the connections that were refused, by the reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// As many connections as the server may have have something open.
    ServerFull,
    /// As many connections as the export may have have it open.
    ExportFull,
    /// As many connections as the exports of a tenant may have have them open.
    TenantFull,
    /// As many connections as one client may have have something open.
    ClientFull,
    /// There is no export of the name.
    UnknownExport,
    /// The client's certificate has no name that may open the export, or it showed none.
    NotForClient,
    /// The export is drained.
    Drained,
    /// The client did not ask for TLS.
    TlsRequired,
    /// The handshake of TLS failed; so it does if no authority signed the client's certificate.
    TlsHandshake,
    /// It had opened nothing, and more connections than may do so came after it.
    TooManyUnopened,
}

impl ConnectionRefusal {
    const ALL: [Self; 10] = [
        Self::ServerFull,
        Self::ExportFull,
        Self::TenantFull,
        Self::ClientFull,
        Self::UnknownExport,
        Self::NotForClient,
        Self::Drained,
        Self::TlsRequired,
        Self::TlsHandshake,
        Self::TooManyUnopened,
    ];

    /// Returns its name in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::ServerFull => "max_connections",
            Self::ExportFull => "max_connections_of_export",
            Self::TenantFull => "max_connections_of_tenant",
            Self::ClientFull => "max_connections_of_client",
            Self::UnknownExport => "unknown_export",
            Self::NotForClient => "not_for_client",
            Self::Drained => "drained",
            Self::TlsRequired => "tls_required",
            Self::TlsHandshake => "tls_handshake",
            Self::TooManyUnopened => "too_many_unopened",
        }
    }
}

/// Counts of refused connections since the server's start.
#[derive(Debug, Default)]
pub(crate) struct RefusedConnections([AtomicU64; ConnectionRefusal::ALL.len()]);

impl RefusedConnections {
    /// Counts a connection.
    pub(crate) fn count(&self, why: ConnectionRefusal) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many were refused for each reason, by its name.
    pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
        ConnectionRefusal::ALL
            .map(|why| (why.name(), self.0[why as usize].load(Ordering::Relaxed)))
            .to_vec()
    }
}
