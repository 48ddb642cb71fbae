//! TLS by rustls: what the files give, and the names of a client by its certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::oid::db::rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_KP_SERVER_AUTH};
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};

use super::keys::{self, private_key};
use super::limits::Limits;
use super::{Identity, ServerTlsFiles, TlsFiles, Validity};

/// What TLS towards a server needs.
pub(crate) struct Trust {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Trust {
    /// Reads the files of a server. Returns `None` if no certificate can have its name.
    ///
    /// # Errors
    /// One cannot be read, has no PEM, or does not fit the others.
    pub(crate) fn load(files: &ServerTlsFiles, name: &str) -> Result<Option<Self>, TlsError> {
        let Ok(name) = ServerName::try_from(name.to_owned()) else { return Ok(None) };
        Ok(Some(Self { config: files.load()?, name }))
    }
}

impl ServerTlsFiles {
    /// Reads the files.
    fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let of_ca = |error| TlsError::Certificate { path: self.ca.clone(), error };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(of_ca)?
            .with_root_certificates(roots(&self.ca)?);
        Ok(Arc::new(match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, own) = own(certificate, key)?;
                builder
                    .with_client_auth_cert(chain, own)
                    .map_err(|error| of_own(certificate, key, error))?
            }
        }))
    }
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
    /// A key cannot be used.
    #[error("{}: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Its kind, and which kinds can be used.
        why: String,
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
            | Self::Key { path, .. }
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
                true => "a certificate of an old version of X.509; it has to be one of version 3"
                    .to_owned(),
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
    spans: Vec<Validity>,
    is_for_clients: bool,
    config: Arc<ServerConfig>,
    is_required: bool,
    client_ca: Option<PathBuf>,
    roots: Arc<RootCertStore>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, has no PEM, or does not fit the others.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let (chain, key) = own(&files.certificate, &files.key)?;
        let mut spans: Vec<_> =
            chain.iter().filter_map(|of| validity(of, &files.certificate, false)).collect();
        let expires = spans.iter().map(|span| span.until).min();
        let is_for_clients = chain.first().is_some_and(is_for_clients);
        let mut authorities = Arc::new(RootCertStore::empty());
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| of_own(&files.certificate, &files.key, error))?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                authorities = Arc::new(roots(path)?);
                spans.extend(certificates(path)?.iter().filter_map(|of| validity(of, path, true)));
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::clone(&authorities), provider)
                        .build();
                builder.with_client_cert_verifier(
                    verifier
                        .map_err(|error| TlsError::Authorities { path: path.clone(), error })?,
                )
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| of_own(&files.certificate, &files.key, error))?;
        // A session that is resumed would be that of a client whose certificate was looked at
        // under another configuration.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let TlsFiles { certificate, client_ca, required: is_required, .. } = files.clone();
        let (config, roots) = (Arc::new(config), authorities);
        Ok(Self {
            certificate,
            expires,
            spans,
            is_for_clients,
            config,
            is_required,
            client_ca,
            roots,
        })
    }

    /// Returns the file of the server's certificate.
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Returns until when the server's certificate and those after it in its file are all valid.
    pub const fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Returns when the certificates are valid: the server's, and those of the authorities of
    /// clients.
    pub fn spans(&self) -> &[Validity] {
        &self.spans
    }

    /// Returns true if the server's certificate says that it is not one for servers (extended key
    /// usage).
    pub const fn is_for_clients(&self) -> bool {
        self.is_for_clients
    }

    /// Returns who a client is that showed these certificates, its own first.
    pub(super) fn identify(&self, chain: &[CertificateDer<'_>]) -> Identity {
        let Some(own) = chain.first() else { return Identity::default() };
        let algorithms = self.config.crypto_provider().signature_verification_algorithms;
        let limits = Limits::of_chain(chain, &self.roots, &algorithms, UnixTime::now());
        Identity::of(own).within(limits.as_ref())
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

/// Returns the own certificate with those that lead from it to an authority, and its key.
fn own(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let (chain, own) = (certificates(certificate)?, private_key(key)?);
    // Tried before it is used, since an error tells only here what it is about.
    let loaded = ring::default_provider().key_provider.load_private_key(own.clone_key());
    let signs =
        loaded.map_err(|_| TlsError::Key { path: key.to_owned(), why: keys::unusable(&own) })?;
    match CertifiedKey::new(chain.clone(), signs).keys_match() {
        Err(error @ rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(of_own(certificate, key, error))
        }
        // Any other error is one of the certificate, and told when it is used.
        _ => Ok((chain, own)),
    }
}

/// Returns the authorities of a file.
fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Certificate { path: path.to_owned(), error })?;
    }
    Ok(roots)
}

/// Returns the certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let of_file = |error| TlsError::File { path: path.to_owned(), error };
    let all = CertificateDer::pem_file_iter(path)
        .map_err(of_file)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(of_file)?;
    if all.is_empty() {
        return Err(TlsError::Nothing { path: path.to_owned(), what: "certificate" });
    }
    Ok(all)
}

/// Returns when a certificate of a file is valid; `None` if it cannot be read.
fn validity(
    certificate: &CertificateDer<'_>,
    file: &Path,
    is_of_clients: bool,
) -> Option<Validity> {
    let certificate = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let (from, until) = (validity.not_before.to_system_time(), validity.not_after.to_system_time());
    Some(Validity { file: file.to_owned(), is_of_clients, from, until })
}

/// Returns true if a certificate says what it is for, and servers are not among that.
fn is_for_clients(certificate: &CertificateDer<'_>) -> bool {
    let Ok(certificate) = CertificateInner::<Raw>::from_der(certificate) else { return false };
    match certificate.tbs_certificate().get_extension::<ExtendedKeyUsage>() {
        Ok(Some((_, ExtendedKeyUsage(usages)))) => {
            !usages.iter().any(|usage| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(usage))
        }
        Ok(None) | Err(_) => false,
    }
}

impl Identity {
    /// Returns the names in a certificate that was found to be valid: common names of the subject,
    /// and its alternative names for DNS, mail and URIs. A certificate that cannot be read has
    /// none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = CertificateInner::<Raw>::from_der(certificate) else {
            return Self::default();
        };
        let certificate = certificate.tbs_certificate();
        let common = certificate.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME);
        let mut names: Vec<String> = common
            .filter_map(|attribute| {
                Some(DirectoryString::try_from(&attribute.value).ok()?.value().into_owned())
            })
            .collect();
        if let Ok(Some((_, SubjectAltName(alternative)))) =
            certificate.get_extension::<SubjectAltName>()
        {
            names.extend(alternative.iter().filter_map(|name| match name {
                GeneralName::DnsName(text)
                | GeneralName::Rfc822Name(text)
                | GeneralName::UniformResourceIdentifier(text) => Some(text.as_str().to_owned()),
                _ => None,
            }));
        }
        Self { names, ..Self::default() }
    }

    /// Leaves the names that authorities with these limits may issue. Without limits that can be
    /// evaluated none is left.
    pub(super) fn within(self, limits: Option<&Limits>) -> Self {
        let is_allowed = |name: &String| limits.is_some_and(|limits| limits.allow(name));
        let (names, outside) = self.names.into_iter().partition(is_allowed);
        Self { names, outside, ..Self::default() }
    }
}
