//! The limits of authorities: which names of a client its certificate's issuers may issue (name
//! constraints, RFC 5280 4.2.1.10).
//!
//! webpki refuses a certificate with an alternative name that is outside of limits of the name's
//! own kind, and each with a kind of limit that it cannot evaluate. It does not look at common
//! names, nor at names of a kind for which a limited authority has no limit. Access is given by the
//! text of a name, whatever its kind. So a name that passes webpki is held here to the limits of
//! its host, too.

use std::net::IpAddr;

use rustls::RootCertStore;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{Decode, Tag};
use x509_cert::ext::pkix::NameConstraints;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;

/// The limits of all authorities that lead to a certificate.
#[derive(Debug, Default)]
pub(super) struct Limits {
    all: Vec<NameConstraints>,
}

/// A kind of names with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dns,
    Mail,
    Ip,
}

impl Limits {
    /// Returns the limits of the authorities between a client's certificate and one of the roots;
    /// `None` if no path leads there, or a limit cannot be read.
    pub(super) fn of_chain(
        chain: &[CertificateDer<'_>],
        roots: &RootCertStore,
        algorithms: &WebPkiSupportedAlgorithms,
        now: UnixTime,
    ) -> Option<Self> {
        let (certificate, others) = chain.split_first()?;
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let usage = KeyUsage::client_auth();
        let path = certificate.verify_for_usage(
            algorithms.all,
            &roots.roots,
            others,
            now,
            usage,
            None,
            None,
        );
        Self::of_path(&path.ok()?)
    }

    fn of_path(path: &VerifiedPath<'_>) -> Option<Self> {
        let mut all = Vec::new();
        if let Some(contents) = &path.anchor().name_constraints {
            all.push(AnyRef::new(Tag::Sequence, contents).ok()?.decode_as().ok()?);
        }
        for authority in path.intermediate_certificates() {
            let certificate = CertificateInner::<Raw>::from_der(&authority.der()).ok()?;
            let found = certificate.tbs_certificate().get_extension::<NameConstraints>().ok()?;
            all.extend(found.map(|(_, constraints)| constraints));
        }
        Some(Self { all })
    }

    /// Returns true if every authority may issue a name. An authority that is limited to names of
    /// some kinds may issue none of other kinds: the limits would hold nothing otherwise, since
    /// the same text can stand in a name of any kind.
    pub(super) fn allow(&self, name: &str) -> bool {
        self.all.iter().all(|constraints| {
            let is_mail = name.contains('@') && !name.contains("://");
            let host = host(name);
            let subtrees = |all: &'_ Option<Vec<GeneralSubtree>>| all.clone().unwrap_or_default();
            let (permitted, excluded) = (
                subtrees(&constraints.permitted_subtrees),
                subtrees(&constraints.excluded_subtrees),
            );
            let has_mail =
                permitted.iter().chain(&excluded).any(|subtree| kind(subtree) == Some(Kind::Mail));
            let of_host = if host.parse::<IpAddr>().is_ok() { Kind::Ip } else { Kind::Dns };
            let by = if is_mail && has_mail { Kind::Mail } else { of_host };
            let text = if by == Kind::Mail { name } else { host };
            let is_in = |subtree: &GeneralSubtree, text: &str| is_within(subtree, by, text);
            // What is no host may still be the text of a name that is excluded.
            let is_excluded = excluded
                .iter()
                .any(|subtree| is_in(subtree, text) || is_within(subtree, Kind::Dns, name));
            !is_excluded
                && (permitted.is_empty() || permitted.iter().any(|subtree| is_in(subtree, text)))
        })
    }
}

fn kind(subtree: &GeneralSubtree) -> Option<Kind> {
    match subtree.base {
        GeneralName::DnsName(_) => Some(Kind::Dns),
        GeneralName::Rfc822Name(_) => Some(Kind::Mail),
        GeneralName::IpAddress(_) => Some(Kind::Ip),
        _ => None,
    }
}

/// Returns the host in a name: of a URI and of a mail address; any other stands for itself.
fn host(name: &str) -> &str {
    let Some((_, rest)) = name.split_once("://") else {
        return name.rsplit_once('@').map_or(name, |(_, host)| host);
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, _)) => address,
        None => place.split(':').next().unwrap_or_default(),
    }
}

/// Returns true if a text that is a name of a kind lies within a subtree.
fn is_within(subtree: &GeneralSubtree, by: Kind, text: &str) -> bool {
    // RFC 5280 has no other values.
    if kind(subtree) != Some(by) || subtree.minimum != 0 || subtree.maximum.is_some() {
        return false;
    }
    match &subtree.base {
        GeneralName::DnsName(base) => is_below(text, base.as_str()),
        GeneralName::Rfc822Name(base) => {
            let (base, host) = (base.as_str(), host(text));
            match base.strip_prefix('.') {
                _ if base.contains('@') => text.eq_ignore_ascii_case(base),
                Some(_) => is_below(host, base),
                None => host.eq_ignore_ascii_case(base),
            }
        }
        GeneralName::IpAddress(base) => is_in_network(text, base.as_bytes()),
        _ => false,
    }
}

/// Returns true if a host is a domain or below it; with a dot before the domain it is below it. A
/// dot at the end of a host means nothing.
fn is_below(host: &str, domain: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let domain = domain.to_ascii_lowercase();
    match host.strip_suffix(&domain) {
        _ if domain.is_empty() => true,
        Some("") => !domain.starts_with('.'),
        Some(rest) => domain.starts_with('.') || rest.ends_with('.'),
        None => false,
    }
}

/// Returns true if an address is in a network: its address, then its mask.
fn is_in_network(text: &str, network: &[u8]) -> bool {
    let bytes = match text.parse() {
        Ok(IpAddr::V4(address)) => address.octets().to_vec(),
        Ok(IpAddr::V6(address)) => address.octets().to_vec(),
        Err(_) => return false,
    };
    let (address, mask) = network.split_at(network.len() / 2);
    bytes.len() == address.len()
        && (0..bytes.len()).all(|at| bytes[at] & mask[at] == address[at] & mask[at])
}

#[cfg(test)]
mod tests {
    use x509_cert::der::asn1::{Ia5String, OctetString};

    use super::*;

    fn dns(base: &str) -> GeneralName {
        GeneralName::DnsName(Ia5String::new(base).expect("ASCII"))
    }

    fn limits(permitted: Vec<GeneralName>, excluded: Vec<GeneralName>) -> Limits {
        let subtrees = |all: Vec<GeneralName>| {
            let all: Vec<_> = all
                .into_iter()
                .map(|base| GeneralSubtree { base, minimum: 0, maximum: None })
                .collect();
            (!all.is_empty()).then_some(all)
        };
        let constraints = NameConstraints {
            permitted_subtrees: subtrees(permitted),
            excluded_subtrees: subtrees(excluded),
        };
        Limits { all: vec![constraints] }
    }

    fn holds(limits: &Limits, allowed: &[&str], refused: &[&str]) {
        for name in allowed {
            assert!(limits.allow(name), "{name}");
        }
        for name in refused {
            assert!(!limits.allow(name), "{name}");
        }
    }

    #[test]
    fn every_kind_of_name_is_held_to_the_domains() {
        let of = limits(vec![dns("lab.test")], Vec::new());
        let allowed = [
            "lab.test",
            "A.Lab.Test",
            "a.lab.test.",
            "x@lab.test",
            "x@b.lab.test",
            "https://u@a.lab.test:8/x?y",
            "*.lab.test",
        ];
        let refused = [
            "backup.example",
            "backup",
            "collab.test",
            "lab.test.example",
            "x@backup.example",
            "backup.example@",
            "https://backup.example/lab.test",
            "https://lab.test@backup.example/",
            "https://x/?lab.test",
            "urn:lab.test:x",
            "10.0.0.1",
            "https://[::1]/",
            "Ann Smith",
            "x@lab.test@backup.example",
            "",
        ];
        holds(&of, &allowed, &refused);
        holds(&limits(vec![dns(".lab.test")], Vec::new()), &["a.lab.test"], &["lab.test"]);
        holds(&limits(vec![dns("")], Vec::new()), &["backup", "a.example"], &["10.0.0.1"]);
    }

    #[test]
    fn what_is_excluded_is_so_in_every_kind() {
        let of = limits(Vec::new(), vec![dns("backup.example")]);
        let refused = [
            "backup.example",
            "a.backup.example",
            "x@backup.example",
            "https://backup.example",
            "BACKUP.example",
        ];
        holds(&of, &["other.example", "x", "10.0.0.1", "x@other.example"], &refused);
        let none = GeneralName::IpAddress(OctetString::new([0; 8]).expect("short"));
        let usual = limits(vec![dns("lab.test")], vec![none]);
        holds(&usual, &["a.lab.test"], &["10.0.0.1", "x"]);
    }

    #[test]
    fn mail_addresses_and_addresses_have_limits_of_their_own() {
        let mail = |base: &str| GeneralName::Rfc822Name(Ia5String::new(base).expect("ASCII"));
        holds(
            &limits(vec![mail("lab.test")], Vec::new()),
            &["a@lab.test"],
            &["a@b.lab.test", "lab.test", "a@x.test"],
        );
        holds(&limits(vec![mail(".lab.test")], Vec::new()), &["a@b.lab.test"], &["a@lab.test"]);
        holds(&limits(vec![mail("a@lab.test")], Vec::new()), &["a@lab.test"], &["b@lab.test"]);
        let network =
            GeneralName::IpAddress(OctetString::new([10, 0, 0, 0, 255, 0, 0, 0]).expect("short"));
        holds(
            &limits(vec![network], Vec::new()),
            &["10.1.2.3", "https://10.1.2.3/"],
            &["11.0.0.1", "::1", "a.test"],
        );
    }

    #[test]
    fn all_authorities_have_to_allow_a_name() {
        let mut both = limits(vec![dns("test")], Vec::new());
        both.all.extend(limits(vec![dns("lab.test")], vec![dns("x.lab.test")]).all);
        holds(&both, &["lab.test", "a.lab.test"], &["a.test", "x.lab.test"]);
        holds(&Limits::default(), &["backup", "", "x@y"], &[]);
        let strange = limits(
            vec![GeneralName::RegisteredId("1.2.3".parse().expect("an identifier"))],
            Vec::new(),
        );
        holds(&strange, &[], &["backup", "lab.test"]);
    }
}
