//! Certificates for tests of TLS.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
};

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority of this name with a key of its own.
    ///
    /// # Panics
    /// If there are no random numbers.
    pub fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Creates an authority below this one that may issue names below a domain only.
    ///
    /// # Panics
    /// If there are no random numbers.
    pub fn limited(&self, name: &str, domain: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let permitted_subtrees = vec![GeneralSubtree::DnsName(domain.to_owned())];
        params.name_constraints =
            Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::signed_by(params, key, &self.0).expect("a certificate"))
    }

    /// Returns its certificate in PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for a server or a client of this common name and these alternative names
    /// (of DNS, or addresses). Returns certificate and key in PEM.
    ///
    /// # Panics
    /// If a name is none.
    pub fn sign(&self, common_name: &str, names: &[&str]) -> (String, String) {
        let mut params = named(common_name, names);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes the files that a server or a client looks for in a folder, which is created: `server`
    /// or `client` is the `kind`.
    ///
    /// # Panics
    /// If a file cannot be written, or a name is none.
    pub fn fill(&self, folder: &Path, kind: &str, common_name: &str, names: &[&str]) {
        let (certificate, key) = self.sign(common_name, names);
        std::fs::create_dir_all(folder).expect("a folder");
        for (name, text) in [
            ("ca-cert.pem".to_owned(), self.certificate()),
            (format!("{kind}-cert.pem"), certificate),
            (format!("{kind}-key.pem"), key),
        ] {
            std::fs::write(folder.join(name), text).expect("a file written");
        }
    }
}

fn named(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
