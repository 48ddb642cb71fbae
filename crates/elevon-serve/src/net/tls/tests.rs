use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use elevon_testkit::Authority;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::net::listen::{Socket, Timed};

/// Returns the names in a certificate of this common name with these alternative names.
fn names(common_name: &str, alternative: &[&str]) -> Vec<String> {
    let (certificate, _) = Authority::new("authority").sign(common_name, alternative);
    Identity::of(&CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")).names
}

#[test]
fn a_client_is_who_its_certificate_names() {
    assert_eq!(names("backup", &[]), ["backup"]);
    assert_eq!(
        names("häuser", &["a.example", "b.example", "10.0.0.1"]),
        ["häuser", "a.example", "b.example"]
    );
    assert_eq!(Identity::of(&CertificateDer::from(vec![1, 2, 3])), Identity::default());
    let client = Identity { names: names("backup", &["a.example"]), ..Identity::default() };
    let is_one_of = |clients: &[&str]| {
        client.is_one_of(&clients.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    };
    assert!(is_one_of(&[]) && is_one_of(&["x", "A.Example"]) && is_one_of(&["backup"]));
    assert!(!is_one_of(&["backup2"]) && !is_one_of(&["back"]) && !is_one_of(&["*.example"]));
    assert!(!Identity::default().is_one_of(&["backup".to_owned()]), "without a certificate");
}

/// OpenSSL takes the second certificate: it looks at common names only if there is no other name.
#[test]
fn names_outside_the_limits_of_their_authority_open_nothing() {
    let (folder, ours) = (tempfile::tempdir().expect("a folder"), Authority::new("ours"));
    ours.fill(folder.path(), "server", "localhost", &["localhost"]);
    let tls = Tls::load(&TlsFiles::of_folder(folder.path(), true)).expect("good files");
    let lab = ours.limited("lab", "lab.test");
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    let who = |authority: &Authority, common_name: &str, names: &[&str]| {
        let chain = [der(&authority.sign(common_name, names).0), der(&lab.certificate())];
        let identity = tls.identify(&chain);
        (identity.names, identity.outside)
    };
    let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(who(&lab, "backup.example", &[]), (texts(&[]), texts(&["backup.example"])));
    assert_eq!(
        who(&lab, "backup.example", &["a.lab.test"]),
        (texts(&["a.lab.test"]), texts(&["backup.example"]))
    );
    assert_eq!(who(&lab, "b.lab.test", &[]), (texts(&["b.lab.test"]), texts(&[])));
    // The other certificates that a client sends limit nothing of what the root signed.
    assert_eq!(who(&ours, "backup.example", &[]), (texts(&["backup.example"]), texts(&[])));
    // No path: what was verified by the handshake has one.
    assert_eq!(who(&Authority::new("another"), "a.lab.test", &[]).0, texts(&[]));
    let below = lab.limited("desk", "desk.lab.test");
    let chain =
        [der(&below.sign("x.lab.test", &[]).0), der(&below.certificate()), der(&lab.certificate())];
    assert_eq!(tls.identify(&chain).outside, ["x.lab.test"], "every authority has its say");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    Authority::new("authority").fill(folder.path(), "server", "localhost", &["localhost"]);
    let (_, other_key) = Authority::new("authority").sign("other", &[]);
    std::fs::write(path("other-key.pem"), other_key).expect("written");
    std::fs::write(path("text.pem"), "no PEM\n").expect("written");
    std::fs::write(path("cut.pem"), "-----BEGIN CERTIFICATE-----\nMIIB\n").expect("written");
    let good = TlsFiles::of_folder(folder.path(), true);
    let tls = Tls::load(&good).expect("good files");
    assert!(tls.is_required() && tls.client_ca().is_some());
    assert_eq!(tls.certificate(), path("server-cert.pem"));
    assert!(
        tls.expires().is_some_and(|at| at > std::time::UNIX_EPOCH),
        "as it stands in the certificate"
    );
    // A file that is there and cannot be read is no reason to do without it.
    std::fs::remove_file(path("ca-cert.pem")).expect("it was there");
    assert_eq!(TlsFiles::of_folder(folder.path(), true).client_ca, None);
    std::os::unix::fs::symlink(path("gone.pem"), path("ca-cert.pem")).expect("a link");
    let error =
        Tls::load(&TlsFiles::of_folder(folder.path(), true)).expect_err("a link to nothing");
    assert_eq!(error.path(), path("ca-cert.pem"), "{error}");
    let no_ca = TlsFiles { client_ca: None, required: false, ..good.clone() };
    let tls = Tls::load(&no_ca).expect("good files");
    assert!(!tls.is_required() && tls.client_ca().is_none());
    let certificate = |name: &str| TlsFiles { certificate: path(name), ..no_ca.clone() };
    let key = |name: &str| TlsFiles { key: path(name), ..no_ca.clone() };
    let ca = |name: &str| TlsFiles { client_ca: Some(path(name)), ..good.clone() };
    for (files, file, words) in [
        (certificate("none.pem"), "none.pem", "No such file"),
        (certificate("text.pem"), "text.pem", "no certificate in PEM is in it"),
        (certificate("cut.pem"), "cut.pem", "the line -----END CERTIFICATE----- is missing"),
        (certificate("server-key.pem"), "server-key.pem", "no certificate in PEM"),
        (key("server-cert.pem"), "server-cert.pem", "no private key in PEM is in it"),
        (key("other-key.pem"), "other-key.pem", "is not the key of"),
        (ca("text.pem"), "text.pem", "no certificate in PEM"),
        (good.clone(), "ca-cert.pem", "No such file"),
    ] {
        let error = Tls::load(&files).expect_err(words);
        assert_eq!(error.path(), path(file), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// Returns TLS of a server, and the settings of a client whose certificate the same authority
/// signed.
fn pair() -> (Tls, ClientConfig) {
    pair_of(&rustls::version::TLS13)
}

/// The same, for a client that speaks one version.
fn pair_of(version: &'static rustls::SupportedProtocolVersion) -> (Tls, ClientConfig) {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new("authority"));
    authority.fill(folder.path(), "server", "localhost", &["localhost"]);
    let tls = Tls::load(&TlsFiles::of_folder(folder.path(), true)).expect("good files");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).expect("PEM"))
        .expect("a root");
    let (certificate, key) = authority.sign("tester", &[]);
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("a key of the certificate");
    (tls, client)
}

fn sockets() -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    (Socket::Unix(ours), theirs)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A client that sends much and reads what comes back on another thread of the server, while both
/// sides' buffers are full.
fn flow_at_once(version: &'static rustls::SupportedProtocolVersion) {
    const BYTES: usize = 3 << 20;
    let (tls, client) = pair_of(version);
    let (socket, theirs) = sockets();
    let peer = std::thread::spawn(move || {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(client), name).expect("a client");
        let mut stream = StreamOwned::new(connection, theirs);
        stream.write_all(&vec![7; BYTES / 2]).expect("sent");
        if stream.conn.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
            // The other side has to answer this with keys of its own.
            stream.conn.refresh_traffic_keys().expect("a version that can");
        }
        stream.write_all(&vec![7; BYTES / 2]).expect("sent");
        let mut back = vec![0; BYTES];
        stream.read_exact(&mut back).expect("received");
        stream.conn.send_close_notify();
        stream.flush().expect("sent");
        (back, stream.read(&mut [0; 1]).expect("the end is protected, too"))
    });
    let (channel, identity) =
        Channel::accept(&tls, &mut Timed::new(&socket, soon())).expect("a handshake");
    assert_eq!(identity.names, ["tester"]);
    let channel = Arc::new(channel);
    let (sending, mut out) = (Arc::clone(&channel), socket.try_clone().expect("a handle"));
    let sender = std::thread::spawn(move || sending.send(&mut out, &vec![9; BYTES]));
    let (mut incoming, mut socket) = (Unprotected::new(Arc::clone(&channel)), socket);
    let (mut came, mut buffer) = (0, [0; 5000]);
    while came < BYTES {
        let read = incoming.read(&mut socket, &mut buffer).expect("protected bytes");
        assert!(read > 0 && buffer[..read].iter().all(|&byte| byte == 7), "at {came}");
        came += read;
    }
    sender.join().expect("no panic").expect("sent");
    assert_eq!(incoming.read(&mut socket, &mut buffer).expect("the end"), 0);
    channel.close(&mut socket).expect("sent");
    let (back, end) = peer.join().expect("no panic");
    assert!(back.iter().all(|&byte| byte == 9) && end == 0);
}

#[test]
fn both_directions_flow_at_once() {
    flow_at_once(&rustls::version::TLS13);
    flow_at_once(&rustls::version::TLS12);
}

#[test]
fn a_handshake_has_an_end() {
    let (tls, _) = pair();
    // Nothing comes; a beginning comes; something else comes; the client is gone.
    for (bytes, is_open, kind) in [
        (&b""[..], true, io::ErrorKind::TimedOut),
        (b"\x16\x03\x01\x02\x00\x01", true, io::ErrorKind::TimedOut),
        (b"IHAVEOPT\0\0\0\x07\0\0\0\0", true, io::ErrorKind::InvalidData),
        (b"\x16\x03\x01", false, io::ErrorKind::UnexpectedEof),
    ] {
        let (socket, mut theirs) = sockets();
        theirs.write_all(bytes).expect("sent");
        if !is_open {
            theirs.shutdown(Shutdown::Write).expect("an open socket");
        }
        let until = if kind == io::ErrorKind::TimedOut {
            Instant::now() + Duration::from_millis(30)
        } else {
            soon()
        };
        let error =
            Channel::accept(&tls, &mut Timed::new(&socket, until)).err().expect("no handshake");
        assert_eq!(error.kind(), kind, "{bytes:?}: {error}");
    }
}

#[test]
fn bytes_that_are_not_protected_end_the_connection() {
    let (tls, client) = pair();
    let (socket, theirs) = sockets();
    let mut plain = theirs.try_clone().expect("a handle");
    let peer = std::thread::spawn(move || {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(client), name).expect("a client");
        let mut stream = StreamOwned::new(connection, theirs);
        stream.write_all(b"protected").expect("sent");
        stream.read_exact(&mut [0; 2]).expect("the server has read it");
        plain.write_all(b"\x17\x03\x03\x00\x08in clear").expect("sent");
        stream
    });
    let (channel, _) =
        Channel::accept(&tls, &mut Timed::new(&socket, soon())).expect("a handshake");
    let channel = Arc::new(channel);
    let (mut incoming, mut socket, mut buffer) =
        (Unprotected::new(Arc::clone(&channel)), socket, [0; 100]);
    assert_eq!(incoming.read(&mut socket, &mut buffer).expect("protected"), 9);
    assert_eq!(&buffer[..9], b"protected");
    channel.send(&mut socket, b"ok").expect("sent");
    let error = incoming.read(&mut socket, &mut buffer).expect_err("bytes in the clear");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    drop(peer.join().expect("no panic"));
}
