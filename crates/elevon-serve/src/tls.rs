//! TLS of a server: its certificate, and who its clients are by theirs; and TLS towards the server
//! of a disk.
//!
//! A server has a certificate with its key; with the certificates of authorities for clients, every
//! client that uses TLS has to show one that they signed. Keys that both sides share (PSK) are not
//! supported: rustls has none that are agreed on before.

mod channel;
mod ends;

#[cfg(test)]
pub(crate) mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};

pub(crate) use channel::{Channel, Unprotected};
pub(crate) use ends::{Inlet, Outlet};

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

    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, has no PEM, or does not fit the others.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let of_ca = |error| TlsError::Certificate { path: self.ca.clone(), error };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(of_ca)?
            .with_root_certificates(roots(&self.ca)?);
        Ok(Arc::new(match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| of_own(certificate, key, error))?,
        }))
    }
}

/// Returns true if a folder has no entry of this name. A file that may not be read, and a link
/// whose file is gone, are there: to read them says what is wrong, where to do without them would
/// leave clients unverified.
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("{}: {}", path.display(), in_words(error))]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: PemError,
    },
    /// A file has nothing of what is needed.
    #[error("{}: no {what} in PEM is in it", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is needed.
        what: &'static str,
    },
    /// A certificate cannot be used.
    #[error("{}: {}", path.display(), of_certificate_in_words(error))]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: rustls::Error,
    },
    /// The key is not the certificate's.
    #[error("{} is not the key of {}", key.display(), certificate.display())]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// Authorities cannot be used.
    #[error("{}: {error}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: rustls::server::VerifierBuilderError,
    },
}

impl TlsError {
    /// Returns the file that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::File { path, .. }
            | Self::Nothing { path, .. }
            | Self::Certificate { path, .. }
            | Self::Authorities { path, .. }
            | Self::OtherKey { key: path, .. } => path,
        }
    }
}

/// Returns what is wrong with PEM; the error itself prints its lines as numbers.
fn in_words(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { end_marker } => {
            format!("the line -----END {}----- is missing", String::from_utf8_lossy(end_marker))
        }
        PemError::IllegalSectionStart { line } => {
            format!("no PEM, at the line {:?}", String::from_utf8_lossy(line))
        }
        PemError::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Returns what is wrong with a certificate; the error itself takes it for one of the other side.
fn of_certificate_in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            // The error has no text for it but this.
            match format!("{other:?}").contains("UnsupportedCertVersion") {
                true => "a certificate of an old version of X.509; it has to be one of version 3".to_owned(),
                false => format!("cannot be used: {other:?}"),
            }
        }
        rustls::Error::InvalidCertificate(error) => format!("cannot be used: {error}"),
        error => error.to_string(),
    }
}

/// TLS that is ready to be offered.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    expires: Option<SystemTime>,
    config: Arc<ServerConfig>,
    is_required: bool,
    client_ca: Option<PathBuf>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, has no PEM, or does not fit the others.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let chain = certificates(&files.certificate)?;
        let expires = chain.iter().filter_map(expires).min();
        let key = private_key(&files.key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| of_own(&files.certificate, &files.key, error))?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(path)?.into(), provider).build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| TlsError::Authorities { path: path.clone(), error })?,
                )
            }
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| of_own(&files.certificate, &files.key, error))?;
        // A session that is resumed would be that of a client whose certificate was looked at
        // under another configuration.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let TlsFiles { certificate, client_ca, required: is_required, .. } = files.clone();
        Ok(Self { certificate, expires, config: Arc::new(config), is_required, client_ca })
    }

    /// Returns the file of the server's certificate.
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Returns until when the server's certificate and those after it in its file are all valid.
    pub const fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Returns true if a client has to use it.
    pub const fn is_required(&self) -> bool {
        self.is_required
    }

    /// Returns the file of the authorities of which one has signed the certificate of every client
    /// that uses TLS; `None` if clients need no certificate.
    pub fn client_ca(&self) -> Option<&Path> {
        self.client_ca.as_deref()
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// Returns what is wrong with the own certificate or its key.
fn of_own(certificate: &Path, key: &Path, error: rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::OtherKey { key: key.to_owned(), certificate: certificate.to_owned() }
        }
        error => TlsError::Certificate { path: certificate.to_owned(), error },
    }
}

/// Returns the key of a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::Nothing { path: path.to_owned(), what: "private key" },
        error => TlsError::File { path: path.to_owned(), error },
    })
}

/// Returns the authorities of a file.
fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::Certificate { path: path.to_owned(), error })?;
    }
    Ok(roots)
}

/// Returns the certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let of_file = |error| TlsError::File { path: path.to_owned(), error };
    let all = CertificateDer::pem_file_iter(path).map_err(of_file)?.collect::<Result<Vec<_>, _>>().map_err(of_file)?;
    if all.is_empty() {
        return Err(TlsError::Nothing { path: path.to_owned(), what: "certificate" });
    }
    Ok(all)
}

/// Returns until when a certificate is valid; `None` if it cannot be read.
fn expires(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = CertificateInner::<Raw>::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_system_time())
}

/// Who a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The names in its certificate; none without one.
    pub(crate) names: Vec<String>,
}

impl Identity {
    /// Returns the names in a certificate that was found to be valid: common names of the subject,
    /// and its alternative names for DNS, mail and URIs. A certificate that cannot be read has
    /// none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = CertificateInner::<Raw>::from_der(certificate) else { return Self::default() };
        let certificate = certificate.tbs_certificate();
        let common = certificate.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME);
        let mut names: Vec<String> = common
            .filter_map(|attribute| Some(DirectoryString::try_from(&attribute.value).ok()?.value().into_owned()))
            .collect();
        if let Ok(Some((_, SubjectAltName(alternative)))) = certificate.get_extension::<SubjectAltName>() {
            names.extend(alternative.iter().filter_map(|name| match name {
                GeneralName::DnsName(text)
                | GeneralName::Rfc822Name(text)
                | GeneralName::UniformResourceIdentifier(text) => Some(text.as_str().to_owned()),
                _ => None,
            }));
        }
        Self { names }
    }

    /// Returns true if it is one of the clients that are given; if none are, it need not be.
    pub(crate) fn is_one_of(&self, clients: &[String]) -> bool {
        clients.is_empty() || self.names.iter().any(|name| clients.iter().any(|it| it.eq_ignore_ascii_case(name)))
    }
}
