//! Tests disks of NBD servers that are reached through TLS: nbdkit, qemu-nbd and our own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::nbdkit::{Killed, nbdkit, until};
use crate::common::served::{DISK, Served, ok, pattern};
use elevon_testkit::Authority;

/// Writes the files of a server `localhost` and of the client `alice`, and those of an authority
/// that the server does not know.
fn with_certificates() -> Bench {
    let (bench, authority) = (Bench::new(), Authority::new("ours"));
    bench.file("disk.img", vec![0; DISK]);
    authority.fill(&bench.path("server"), "server", "localhost", &["localhost", "127.0.0.1"]);
    authority.fill(&bench.path("alice"), "client", "alice", &[]);
    authority.fill(&bench.path("nobody"), "other", "nobody", &[]);
    Authority::new("another").fill(&bench.path("mallory"), "client", "alice", &[]);
    bench
}

/// Starts nbdkit with TLS; clients have to show a certificate.
fn nbdkit_with_tls(bench: &Bench) -> Option<Killed> {
    nbdkit(
        bench,
        &["--tls=require", "--tls-certificates=server", "--tls-verify-peer", "memory", "8M"],
    )
}

/// Serves `disk.img` with TLS, and returns its address.
fn own_server(bench: &Bench, listen: &str) -> (Killed, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.current_dir(bench.path("")).args([
        "serve",
        "disk.img",
        "--listen",
        listen,
        "--tls-certificates",
        "server",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("UTF-8");
    (Killed(child), line.trim().to_owned())
}

/// Copies to a disk and back through a server that listens at `up`.
fn copies(bench: Bench) -> Option<Bench> {
    let pattern = pattern(DISK);
    bench.file("pattern", &pattern);
    let address = "nbds+unix:///?socket=up&tls-certificates=alice";
    let served = Served::run(bench, &[address, "--name", "disk.img", "--listen", "unix:s"]);
    ok(&served.client("nbdcopy", &["--flush", "pattern", &served.uri])?);
    ok(&served.client("nbdcopy", &[&served.uri, "back"]).expect("installed"));
    assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern);
    Some(served.ended())
}

#[test]
fn bytes_go_through_tls() {
    let bench = with_certificates();
    let Some(nbdkit) = nbdkit_with_tls(&bench) else { return };
    let Some(bench) = copies(bench) else { return };
    drop(nbdkit);
    let Some(mut qemu) = elevon_testkit::tool("qemu-nbd") else { return };
    let object = "tls-creds-x509,id=tls,endpoint=server,dir=server,verify-peer=yes";
    let socket = bench.path("up");
    let _ = fs::remove_file(&socket);
    qemu.current_dir(bench.path("")).args([
        "--object",
        object,
        "--tls-creds=tls",
        "-t",
        "-e0",
        "-f",
        "raw",
        "-x",
        "",
    ]);
    let _qemu = Killed(qemu.arg("-k").arg(&socket).arg("disk.img").spawn().expect("it started"));
    until("it listens", || UnixStream::connect(&socket).is_ok());
    copies(bench);
}

#[test]
fn a_configuration_names_the_files() {
    let bench = with_certificates();
    let Some(_nbdkit) = nbdkit_with_tls(&bench) else { return };
    let own = "ca = 'alice/ca-cert.pem', certificate = 'alice/client-cert.pem', key = 'alice/client-key.pem'";
    let config = |scheme: &str, keys: &str| {
        let uri = format!("{scheme}+unix:///?socket=up");
        format!("listen = 'unix:s'\n[device.far]\ndevice = '{uri}'\n{keys}\n[export.a]\n")
    };
    let tls = |keys: &str| config("nbds", &format!("tls = {{ {keys} }}"));
    let at = |line: u32, column: u32, rest: &str| {
        format!("elevon: c.toml:{line}:{column}: device.far.{rest}")
    };
    for (text, words) in [
        (
            config("nbd", ""),
            at(3, 10, "device: nbd+unix:///?socket=up: the server refuses: it requires TLS"),
        ),
        (
            config("nbds", ""),
            at(3, 10, "device: nbds+unix:///?socket=up: whose certificates are trusted?"),
        ),
        (tls("ca = 'alice/ca-cert.pem'"), at(3, 10, "device: nbds+unix:///?socket=up: ")),
        (
            tls("certificates = 'mallory'"),
            at(3, 10, "device: nbds+unix:///?socket=up: invalid peer certificate: "),
        ),
        (
            tls(&format!("{own}, hostname = 'other'")),
            at(3, 10, "device: nbds+unix:///?socket=up: invalid peer certificate: "),
        ),
        (tls("ca = 'none.pem'"), at(4, 14, "tls.ca: none.pem: No such file")),
        (tls("ca = 'disk.img'"), at(4, 14, "tls.ca: disk.img: no certificate in PEM is in it")),
        (
            tls("certificates = 'none'"),
            at(4, 24, "tls.certificates: none/ca-cert.pem: No such file"),
        ),
        (
            config("nbd", &format!("tls = {{ {own} }}")),
            at(3, 10, "device: nbd+unix:///?socket=up: has keys of TLS"),
        ),
    ] {
        bench.file("c.toml", &text);
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.starts_with(&words), "{text}: {stderr}");
    }
    bench.file("c.toml", tls(&format!("{own}, hostname = 'localhost'")));
    let served = Served::run(bench, &["c.toml"]);
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![1; 4096]));
    served.end();
}

#[test]
fn nothing_goes_to_a_server_without_tls() {
    let bench = with_certificates();
    let Some(_nbdkit) = nbdkit(&bench, &["memory", "8M"]) else { return };
    let address = "nbds+unix:///?socket=up&tls-certificates=alice";
    let output = bench.elevon(&["serve", address, "--listen", "unix:s"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && stderr.contains("the server refuses: it has no TLS"),
        "{stderr}"
    );
}

#[test]
fn connections_are_made_again_with_the_files_as_they_are_then() {
    let bench = with_certificates();
    let (first, address) = own_server(&bench, "tcp:127.0.0.1:0");
    assert!(address.starts_with("nbds://127.0.0.1:"), "{address}");
    let port = address.split([':', '/']).nth(4).expect("a port").to_owned();
    let args =
        [&format!("{address}?tls-certificates=alice"), "--name", "disk.img", "--listen", "unix:s"];
    let served = Served::run(bench, &args);
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(client.write(1, 0, &[1; 4096]).expect("an answer"), 0);
    drop(first);
    // Everybody gets new certificates, of another authority.
    let renewed = Authority::new("renewed");
    renewed.fill(&served.bench.path("server"), "server", "localhost", &["127.0.0.1"]);
    renewed.fill(&served.bench.path("alice"), "client", "alice", &[]);
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(5), "nobody is there");
    let _second = own_server(&served.bench, &format!("tcp:127.0.0.1:{port}"));
    until("it connects again", || client.read(0, 4096).expect("an answer") == Ok(vec![1; 4096]));
    served.end();
}
