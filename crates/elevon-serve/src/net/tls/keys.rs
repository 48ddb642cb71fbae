//! Private keys: what a file has, in words, if it cannot be used.

use std::path::Path;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use x509_cert::der::asn1::{ObjectIdentifier, OctetStringRef, UintRef};
use x509_cert::der::{Reader, SliceReader};
use x509_cert::spki::AlgorithmIdentifierRef;

use super::TlsError;

/// The keys that can be used.
const USABLE: &str =
    "RSA of 2048 to 4096 bits in steps of 512, ECDSA on P-256 or P-384, and Ed25519 can be used";

/// Returns the key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = std::fs::read(path)
        .map_err(|error| TlsError::File { path: path.to_owned(), error: PemError::Io(error) })?;
    if let Some(why) = unreadable(&String::from_utf8_lossy(&text)) {
        return Err(TlsError::Key { path: path.to_owned(), why });
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::Nothing { path: path.to_owned(), what: "private key" },
        error => TlsError::File { path: path.to_owned(), error },
    })
}

/// Returns why no key can be taken out of a text, as the heads of its parts say.
fn unreadable(text: &str) -> Option<String> {
    let heads = || {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"))
    };
    let is_plain =
        |head: &str| matches!(head, "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY");
    let is_encrypted = heads().any(|head| head == "ENCRYPTED PRIVATE KEY")
        || text.lines().any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"));
    let found = heads().find(|head| head.ends_with("KEY"))?.to_owned();
    if is_encrypted {
        let words = "the key is encrypted, and a server starts without a password; write it in the clear, as \
                     `openssl pkey -in FILE -out NEW` does, readable by the server alone";
        return Some(words.to_owned());
    }
    if heads().any(is_plain) {
        return None;
    }
    Some(match &*found {
        "OPENSSH PRIVATE KEY" => {
            "a key in OpenSSH's form; `ssh-keygen -p -m PKCS8 -f FILE` makes it one of PEM"
                .to_owned()
        }
        found if found.ends_with("PUBLIC KEY") => {
            "a public key; the private one is needed".to_owned()
        }
        found => format!("the kind of key is {}; {USABLE}", found.trim_end_matches(" PRIVATE KEY")),
    })
}

/// Returns why a key that was read cannot be used.
pub(super) fn unusable(key: &PrivateKeyDer<'_>) -> String {
    let kind = match key {
        PrivateKeyDer::Pkcs1(key) => rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(_) => Some("an EC key on another curve".to_owned()),
        PrivateKeyDer::Pkcs8(key) => pkcs8(key.secret_pkcs8_der()),
        _ => None,
    };
    match kind {
        Some(kind) => format!("{kind}; {USABLE}"),
        None => format!("no private key can be read from it; {USABLE}"),
    }
}

/// Returns the kind of a key of PKCS #8.
fn pkcs8(der: &[u8]) -> Option<String> {
    let mut reader = SliceReader::new(der).ok()?;
    let (algorithm, key) = reader
        .sequence(|inner| {
            inner.decode::<u8>()?;
            let both =
                (inner.decode::<AlgorithmIdentifierRef<'_>>()?, inner.decode::<&OctetStringRef>()?);
            // Attributes, and the public key.
            inner.read_slice(inner.remaining_len())?;
            Ok::<_, x509_cert::der::Error>(both)
        })
        .ok()?;
    let of_curve = || {
        let curve = algorithm.parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
        curve.map_or_else(
            || "an EC key with a curve of its own".to_owned(),
            |curve| format!("an EC key on {}", curve_name(curve)),
        )
    };
    Some(match &*algorithm.oid.to_string() {
        "1.2.840.113549.1.1.1" => return rsa(key.as_bytes()),
        "1.2.840.113549.1.1.10" => "an RSA key for PSS alone".to_owned(),
        "1.2.840.10045.2.1" => of_curve(),
        "1.3.101.112" => "an Ed25519 key that is damaged".to_owned(),
        "1.3.101.113" => "an Ed448 key".to_owned(),
        "1.3.101.110" | "1.3.101.111" => "a key for key exchange (X25519 or X448)".to_owned(),
        "1.2.840.10040.4.1" => "a DSA key".to_owned(),
        "1.2.840.113549.1.3.1" => "a key for key exchange (Diffie-Hellman)".to_owned(),
        other => format!("a key of the kind {other}"),
    })
}

fn curve_name(curve: ObjectIdentifier) -> String {
    match &*curve.to_string() {
        "1.2.840.10045.3.1.7" => "P-256, which is damaged".to_owned(),
        "1.3.132.0.34" => "P-384, which is damaged".to_owned(),
        "1.3.132.0.35" => "P-521".to_owned(),
        "1.3.132.0.33" => "P-224".to_owned(),
        "1.2.840.10045.3.1.1" => "P-192".to_owned(),
        "1.3.132.0.10" => "secp256k1".to_owned(),
        other if other.starts_with("1.3.36.3.3.2.8.1.1.") => "a Brainpool curve".to_owned(),
        other => format!("the curve {other}"),
    }
}

/// Returns the size of an RSA key.
fn rsa(der: &[u8]) -> Option<String> {
    let mut reader = SliceReader::new(der).ok()?;
    let bits = reader
        .sequence(|inner| {
            inner.decode::<u8>()?;
            let modulus = inner.decode::<UintRef<'_>>()?;
            inner.read_slice(inner.remaining_len())?;
            let bytes = modulus.as_bytes();
            Ok::<_, x509_cert::der::Error>(
                bytes.len() * 8 - bytes.first().map_or(0, |byte| byte.leading_zeros() as usize),
            )
        })
        .ok()?;
    Some(format!("an RSA key of {bits} bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_what_is_no_key_for_a_server() {
        let of = |head: &str| {
            unreadable(&format!("-----BEGIN {head}-----\nMIIB\n-----END {head}-----\n"))
        };
        let says = |head: &str, words: &str| {
            let why = of(head).unwrap_or_default();
            assert!(why.contains(words), "{head}: {why}");
        };
        says("ENCRYPTED PRIVATE KEY", "is encrypted");
        says("DSA PRIVATE KEY", "the kind of key is DSA");
        says("OPENSSH PRIVATE KEY", "ssh-keygen");
        says("PUBLIC KEY", "the private one is needed");
        for plain in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "CERTIFICATE"] {
            assert_eq!(of(plain), None, "{plain}");
        }
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIB\n";
        assert!(unreadable(old).is_some_and(|why| why.contains("is encrypted")));
        assert_eq!(
            unreadable("-----BEGIN EC PARAMETERS-----\nAA==\n-----BEGIN EC PRIVATE KEY-----\n"),
            None
        );
    }

    /// Keys that OpenSSL made, of kinds that the library does not take.
    #[test]
    fn the_kind_of_a_key_is_told() {
        for (pem, words) in [
            (include_str!("keys/rsa1024.pem"), "an RSA key of 1024 bits"),
            (include_str!("keys/rsa2432.pem"), "an RSA key of 2432 bits"),
            (include_str!("keys/pss.pem"), "an RSA key for PSS alone"),
            (include_str!("keys/p521.pem"), "an EC key on P-521"),
            (include_str!("keys/sec1.pem"), "an EC key on another curve"),
            (include_str!("keys/k256.pem"), "an EC key on secp256k1"),
            (include_str!("keys/ed448.pem"), "an Ed448 key"),
            (include_str!("keys/dsa.pem"), "a DSA key"),
        ] {
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
            assert_eq!(unusable(&key), format!("{words}; {USABLE}"));
        }
        let broken = PrivateKeyDer::Pkcs8(vec![1, 2, 3].into());
        assert!(unusable(&broken).starts_with("no private key can be read from it"));
    }
}
