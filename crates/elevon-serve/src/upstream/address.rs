//! Addresses of exports, as clients of NBD write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::listen::Address;

/// An export of a server: `nbd://HOST:PORT/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// Where the server listens.
    pub server: Address,
    /// The name of the export; empty for the default one.
    pub export: String,
}

/// Why a text is no address of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamAddressError {
    /// It has another form.
    #[error("is no address; write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
    Form,
    /// It asks for TLS.
    #[error("asks for TLS, which is not used towards other servers; write nbd:// or nbd+unix://")]
    Tls,
    /// The name is too long for the protocol, or no UTF-8.
    #[error("the export's name is no text of up to 4096 bytes")]
    Name,
}

impl UpstreamAddress {
    /// Returns true if a text asks for a disk of a server, in whatever form.
    pub fn is_one(text: &str) -> bool {
        ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"].iter().any(|scheme| text.starts_with(scheme))
    }
}

impl FromStr for UpstreamAddress {
    type Err = UpstreamAddressError;

    fn from_str(text: &str) -> Result<Self, UpstreamAddressError> {
        if text.starts_with("nbds") && Self::is_one(text) {
            return Err(UpstreamAddressError::Tls);
        }
        let (server, export) = if let Some(rest) = text.strip_prefix("nbd+unix:///") {
            let (export, socket) = rest.split_once("?socket=").ok_or(UpstreamAddressError::Form)?;
            let socket = decoded(socket).filter(|path| !path.is_empty()).ok_or(UpstreamAddressError::Form)?;
            (Address::Unix(PathBuf::from(socket)), export)
        } else if let Some(rest) = text.strip_prefix("nbd://") {
            let (place, export) = rest.split_once('/').unwrap_or((rest, ""));
            let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let place = if has_port { place.to_owned() } else { format!("{place}:{}", elevon_nbd::PORT) };
            (format!("tcp:{place}").parse().map_err(|_| UpstreamAddressError::Form)?, export)
        } else {
            return Err(UpstreamAddressError::Form);
        };
        if export.contains('?') {
            return Err(UpstreamAddressError::Form);
        }
        let export = decoded(export).filter(|name| name.len() <= 4096).ok_or(UpstreamAddressError::Name)?;
        Ok(Self { server, export })
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Address::Tcp(place) => write!(f, "nbd://{place}/{}", self.export),
            Address::Unix(path) => write!(f, "nbd+unix:///{}?socket={}", self.export, path.display()),
        }
    }
}

/// Returns a text with `%41` and the like replaced by the bytes that they stand for.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
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
            assert_eq!((address.server.to_string().as_str(), address.export.as_str()), (server, export), "{text}");
        }
        for (text, error) in [
            ("nbds://localhost/x", UpstreamAddressError::Tls),
            ("nbds+unix:///x?socket=s", UpstreamAddressError::Tls),
            ("nbd+unix:///x", UpstreamAddressError::Form),
            ("nbd+unix:///x?socket=", UpstreamAddressError::Form),
            ("nbd:///x", UpstreamAddressError::Form),
            ("nbd://host/x?y=z", UpstreamAddressError::Form),
            ("nbd://host/%zz", UpstreamAddressError::Name),
            ("nbd://host/%ff", UpstreamAddressError::Name),
            ("http://host/", UpstreamAddressError::Form),
        ] {
            assert_eq!(text.parse::<UpstreamAddress>(), Err(error), "{text}");
        }
    }
}
