//! Addresses of exports, as clients of NBD write them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::net::listen::Address;
use crate::net::tls::ServerTlsFiles;

/// Connections to a server that promises that they see one disk, unless told otherwise.
const CONNECTIONS: u32 = 4;

/// An export of a server, as clients of NBD write it: `nbd://HOST:PORT/EXPORT` or
/// `nbd+unix:///EXPORT?socket=PATH`; with `nbds` through TLS, for which `tls-certificates=DIR` and
/// `tls-hostname=NAME` may follow behind `?` or `&`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// Where the server listens.
    pub server: Address,
    /// The name of the export; empty for the default one.
    pub export: String,
    /// TLS, if the server has to use it.
    pub tls: Option<UpstreamTls>,
    /// Connections, if the server promises that they see one disk; otherwise there is one.
    pub connections: u32,
}

/// TLS towards a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The name that it is known by. Must be given when it connects.
    pub files: Option<ServerTlsFiles>,
    /// The name that its certificate has to have: the host of the address, or `localhost`, unless
    /// given.
    pub hostname: Option<String>,
}

/// Why a text is no address of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamAddressError {
    /// It has another form.
    #[error(
        "is no address; write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH, nbds in place of nbd for TLS"
    )]
    Form,
    /// It has something behind `?` that is not known, or not there.
    #[error(
        "has a parameter that is not known; there are socket, and of nbds tls-certificates and tls-hostname"
    )]
    Parameter,
    /// The name is too long for the protocol, or no UTF-8.
    #[error("the export's name is no text of up to 4096 bytes")]
    Name,
}

impl UpstreamAddress {
    /// Returns true if a text asks for a disk of a server, in whatever form.
    pub fn is_one(text: &str) -> bool {
        ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    }

    /// Returns true if both are the same export.
    pub fn is_same_export(&self, other: &Self) -> bool {
        (&self.server, &self.export) == (&other.server, &other.export)
    }

    /// Returns the name that the server's certificate has to have.
    pub(super) fn hostname(&self) -> &str {
        let given = self.tls.as_ref().and_then(|tls| tls.hostname.as_deref());
        given.unwrap_or_else(|| match &self.server {
            Address::Tcp(place) => {
                let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
                host.trim_start_matches('[').trim_end_matches(']')
            }
            Address::Unix(_) => "localhost",
        })
    }
}

impl FromStr for UpstreamAddress {
    type Err = UpstreamAddressError;

    fn from_str(text: &str) -> Result<Self, UpstreamAddressError> {
        use UpstreamAddressError::{Form, Name, Parameter};
        let (scheme, rest) = text.split_once("://").filter(|_| Self::is_one(text)).ok_or(Form)?;
        let mut tls = scheme.starts_with("nbds").then(UpstreamTls::default);
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = place.split_once('/').unwrap_or((place, ""));
        let mut socket = None;
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').ok_or(Parameter)?;
            let value = decoded(value).filter(|value| !value.is_empty()).ok_or(Form)?;
            match (key, &mut tls) {
                ("socket", _) if scheme.ends_with("+unix") => socket = Some(value),
                ("tls-certificates", Some(tls)) => {
                    tls.files = Some(ServerTlsFiles::of_folder(Path::new(&value)));
                }
                ("tls-hostname", Some(tls)) => tls.hostname = Some(value),
                _ => return Err(Parameter),
            }
        }
        let server = if scheme.ends_with("+unix") {
            Address::Unix(socket.filter(|_| host.is_empty()).map(PathBuf::from).ok_or(Form)?)
        } else {
            let has_port =
                host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let host =
                if has_port { host.to_owned() } else { format!("{host}:{}", elevon_nbd::PORT) };
            format!("tcp:{host}").parse().map_err(|_| Form)?
        };
        let export = decoded(export).filter(|name| name.len() <= 4096).ok_or(Name)?;
        Ok(Self { server, export, tls, connections: CONNECTIONS })
    }
}

/// Without the files of TLS, which say nothing of the disk, and without the port if it is NBD's.
impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        match &self.server {
            Address::Tcp(place) => {
                let port = format!(":{}", elevon_nbd::PORT);
                let place = place.strip_suffix(&port).unwrap_or(place);
                write!(f, "{scheme}://{place}/{}", self.export)
            }
            Address::Unix(path) => {
                write!(f, "{scheme}+unix:///{}?socket={}", self.export, path.display())
            }
        }
    }
}

/// Returns a text with `%41` and the like replaced by the bytes that they stand for; `None` if a
/// `%` stands before anything but two digits, or the bytes are no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let is_byte =
        |part: &str| part.len() >= 2 && part.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    let is_encoded = text.split('%').skip(1).all(is_byte);
    let bytes = percent_decode_str(text).decode_utf8().ok().filter(|_| is_encoded)?;
    Some(bytes.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_nbd_clients() {
        for (text, server, export) in [
            ("nbd://localhost:10810/disk", "tcp:localhost:10810", "disk"),
            ("nbd://localhost/disk", "tcp:localhost:10809", "disk"),
            ("nbd://localhost", "tcp:localhost:10809", ""),
            ("nbd://[::1]:5/", "tcp:[::1]:5", ""),
            ("nbd://[::1]/a/b", "tcp:[::1]:10809", "a/b"),
            ("nbd+unix:///disk?socket=/run/a.sock", "unix:/run/a.sock", "disk"),
            ("nbd+unix:///my%20disk?socket=a%25b", "unix:a%b", "my disk"),
            ("nbd+unix:///?socket=s", "unix:s", ""),
        ] {
            let address: UpstreamAddress = text.parse().expect(text);
            assert_eq!(
                (address.server.to_string().as_str(), address.export.as_str()),
                (server, export),
                "{text}"
            );
        }
        for (text, hostname, ca) in [
            (
                "nbds://storage.example:5/x?tls-certificates=/etc/pki%20x",
                "storage.example",
                Some("/etc/pki x/ca-cert.pem"),
            ),
            ("nbds://[::1]/x?tls-hostname=a&tls-certificates=b", "a", Some("b/ca-cert.pem")),
            ("nbds://[::1]/x", "::1", None),
            ("nbds+unix:///x?tls-certificates=b&socket=s", "localhost", Some("b/ca-cert.pem")),
        ] {
            let address: UpstreamAddress = text.parse().expect(text);
            assert_eq!(address.hostname(), hostname, "{text}");
            let files = address.tls.as_ref().expect(text).files.as_ref();
            assert_eq!(files.map(|files| files.ca.as_path()), ca.map(Path::new), "{text}");
            assert!(address.to_string().starts_with("nbds"), "{address}");
        }
        for (text, error) in [
            ("nbd://localhost/x?tls-hostname=y", UpstreamAddressError::Parameter),
            ("nbds://localhost/x?socket=y", UpstreamAddressError::Parameter),
            ("nbds://localhost/x?tls-psk-file=y", UpstreamAddressError::Parameter),
            ("nbds://localhost/x?tls-hostname=", UpstreamAddressError::Form),
            ("nbd+unix:///x", UpstreamAddressError::Form),
            ("nbd+unix:///x?socket=", UpstreamAddressError::Form),
            ("nbd:///x", UpstreamAddressError::Form),
            ("nbd://host/x?y=z", UpstreamAddressError::Parameter),
            ("nbd://host/%zz", UpstreamAddressError::Name),
            ("nbd://host/%ff", UpstreamAddressError::Name),
            ("nbd://host/%+a", UpstreamAddressError::Name),
            ("nbd://host/a%4", UpstreamAddressError::Name),
            ("http://host/", UpstreamAddressError::Form),
        ] {
            assert_eq!(text.parse::<UpstreamAddress>(), Err(error), "{text}");
        }
    }
}
