//! Tests `elevon serve` with TLS: clients of other projects, who may open what, and clients that
//! do not keep to it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::common::Bench;
use crate::common::exposition::Exposition;
use crate::common::http::get;
use crate::common::nbd::Client;
use crate::common::served::{DISK, Served, ok, pattern};
use elevon_testkit::Authority;

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[tls]
certificates = 'server'
required = REQUIRED
[device.fast]
device = './disk.img'
[export.open]
size = '2MiB'
[export.alice]
start = '2MiB'
size = '2MiB'
clients = ['alice', 'admin.example']
[export.bob]
start = '4MiB'
clients = ['bob']
";

/// Writes the files of a server, of the clients `alice` and `bob`, and of `mallory`, whose
/// certificate another authority signed.
fn with_certificates(required: bool) -> Bench {
    let (bench, authority) = (Bench::new(), Authority::new("ours"));
    bench.file("disk.img", vec![0; DISK]);
    bench.file("c.toml", CONFIG.replace("REQUIRED", &required.to_string()));
    authority.fill(&bench.path("server"), "server", "localhost", &["localhost", "127.0.0.1"]);
    authority.fill(&bench.path("elsewhere"), "server", "elsewhere", &["other.example"]);
    authority.fill(&bench.path("alice"), "client", "alice", &[]);
    authority.fill(&bench.path("bob"), "client", "bob", &["admin.example"]);
    Authority::new("another").fill(&bench.path("mallory"), "client", "alice", &[]);
    // It trusts the server, so that it is the server who refuses.
    let both = fs::read_to_string(bench.path("mallory/ca-cert.pem")).expect("PEM")
        + &authority.certificate();
    fs::write(bench.path("mallory/ca-cert.pem"), both).expect("a file written");
    bench
}

fn start(required: bool) -> Served {
    Served::run(with_certificates(required), &["c.toml"])
}

/// Returns the address of an export for a client with the files of a folder.
fn uri(served: &Served, export: &str, client: &str) -> String {
    let (socket, files) = (served.bench.path("s"), served.bench.path(client));
    format!(
        "nbds+unix:///{export}?socket={}&tls-certificates={}&tls-hostname=localhost",
        socket.display(),
        files.display()
    )
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(words), "{stderr}");
}

#[test]
fn libnbd_copies_through_tls() {
    if !elevon_testkit::tools(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let served = start(true);
    assert!(served.uri.starts_with("nbds+unix:///open?socket="), "{}", served.uri);
    let alice = uri(&served, "alice", "alice");
    let info = served.client("nbdinfo", &["--json", &alice]).expect("installed");
    let info: serde_json::Value = serde_json::from_str(&ok(&info)).expect("JSON");
    assert_eq!(
        (info["TLS"].as_bool(), info["protocol"].as_str()),
        (Some(true), Some("newstyle-fixed"))
    );
    let pattern = pattern(2 << 20);
    served.bench.file("pattern", &pattern);
    ok(&served.client("nbdcopy", &["--flush", "pattern", &alice]).expect("installed"));
    let disk = fs::read(served.bench.path("disk.img")).expect("the disk");
    assert!(disk[2 << 20..4 << 20] == pattern, "what was flushed is in the file");
    ok(&served.client("nbdcopy", &[&alice, "back"]).expect("installed"));
    assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern);
    served.end();
}

#[test]
fn qemu_uses_tls() {
    if !elevon_testkit::tools(&["qemu-io", "qemu-img"]) {
        return;
    }
    let served = start(true);
    let io = |client: &str, export: &str, command: &str| {
        let files = served.bench.path(client);
        let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", files.display());
        let image = format!(
            "driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={},file.export={export},\
             file.tls-creds=tls,file.tls-hostname=localhost",
            served.bench.path("s").display()
        );
        served.client("qemu-io", &["--object", &object, "--image-opts", &image, "-c", command])
    };
    ok(&io("bob", "bob", "write -f -P 5 64k 1M").expect("installed"));
    ok(&io("bob", "bob", "read -P 5 64k 1M").expect("installed"));
    let files =
        format!("tls-creds-x509,id=tls,endpoint=client,dir={}", served.bench.path("bob").display());
    let image = format!(
        "driver=nbd,server.type=unix,server.path={},export=open,tls-creds=tls,tls-hostname=localhost",
        served.bench.path("s").display()
    );
    let info = ok(&served
        .client("qemu-img", &["info", "--object", &files, "--image-opts", &image])
        .expect("installed"));
    assert!(info.contains("virtual size: 2 MiB"), "{info}");
    refused(&io("alice", "bob", "read 0 4k").expect("installed"), "no export of this name");
    refused(&io("mallory", "open", "read 0 4k").expect("installed"), "qemu-io: can't open");
    served.end();
}

#[test]
fn a_client_sees_and_opens_what_its_certificate_allows() {
    let bench = with_certificates(true);
    bench.file(
        "c.toml",
        CONFIG.replace("REQUIRED", "true").replace("[tls]", "metrics = 'unix:m'\n[tls]"),
    );
    let served = Served::run(bench, &["c.toml"]);
    for (client, expected) in
        [("alice", &["open", "alice"][..]), ("bob", &["open", "alice", "bob"])]
    {
        let Some(list) = served.client("nbdinfo", &["--list", "--json", &uri(&served, "", client)])
        else {
            return;
        };
        let list: serde_json::Value = serde_json::from_str(&ok(&list)).expect("JSON");
        let exports = list["exports"].as_array().expect("a list");
        let names: Vec<&str> =
            exports.iter().filter_map(|export| export["export-name"].as_str()).collect();
        assert_eq!(names, expected, "{client}");
    }
    refused(
        &served.client("nbdinfo", &["--size", &uri(&served, "bob", "alice")]).expect("installed"),
        "server has no export named 'bob'",
    );
    let plain =
        served.client("nbdinfo", &["--size", &served.of_export("open")]).expect("installed");
    assert!(!plain.status.success(), "a client without TLS");
    let wrong =
        served.client("nbdinfo", &["--size", &uri(&served, "open", "mallory")]).expect("installed");
    assert!(!wrong.status.success(), "another authority");
    let none = uri(&served, "open", "nobody");
    fs::create_dir(served.bench.path("nobody")).expect("a folder");
    fs::copy(served.bench.path("alice/ca-cert.pem"), served.bench.path("nobody/ca-cert.pem"))
        .expect("copied");
    let without = served.client("nbdinfo", &["--size", &none]).expect("installed");
    assert!(!without.status.success(), "a client without a certificate");
    let metrics = Exposition::read(&get(&served.bench.path("m"), "/metrics", "").body, false);
    let of = |reason| metrics.value("elevon_connections_refused_total", &[("reason", reason)]);
    assert_eq!((of("not_for_client"), of("tls_required"), of("tls_handshake")), (1.0, 1.0, 2.0));
    served.end();
}

#[test]
fn the_log_names_clients_by_their_certificates() {
    let bench = with_certificates(true);
    let log = fs::File::create(bench.path("log")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["serve", "c.toml", "--log-format", "json", "--log-level", "debug"]).stderr(log);
    let served = Served::of_command(bench, command);
    let size = |client: &str, export: &str| {
        served.client("nbdinfo", &["--size", &uri(&served, export, client)])
    };
    let Some(output) = size("bob", "bob") else { return };
    ok(&output);
    assert!(!size("alice", "bob").expect("installed").status.success());
    // A thread writes the log, and is done when the server has ended.
    let bench = served.ended();
    let text = fs::read_to_string(bench.path("log")).expect("a log");
    let log: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let found = |message: &str, names: &str| {
        log.iter().any(|it| {
            it["names"] == names && it["message"].as_str().is_some_and(|it| it.contains(message))
        })
    };
    assert!(
        found("opened export bob, by bob, admin.example (pid ", "bob, admin.example"),
        "{text}"
    );
    assert!(found("export bob is not for alice", "alice"), "{text}");
}

#[test]
fn tls_that_is_offered_leaves_plain_clients_what_is_open_to_all() {
    let served = start(false);
    assert!(served.uri.starts_with("nbd+unix:///open?socket="), "{}", served.uri);
    let mut plain = Client::open(&served.bench.path("s"), "open").expect("it is open to all");
    assert_eq!(plain.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    assert!(Client::open(&served.bench.path("s"), "alice").is_err(), "a client without a name");
    let Some(size) = served.client("nbdinfo", &["--size", &uri(&served, "alice", "alice")]) else {
        return;
    };
    assert_eq!(ok(&size).trim(), (2 << 20).to_string());
    served.end();
}

/// A client may have so many connections, however many others have.
#[test]
fn connections_of_a_client_have_a_limit() {
    let bench = with_certificates(true);
    let config = CONFIG.replace("REQUIRED", "true\nmax_connections = 2");
    bench.file("c.toml", &config);
    let served = Served::run(bench, &["c.toml"]);
    let script = format!(
        "def open(uri):\n  h = nbd.NBD()\n  h.set_uri_allow_local_file(True)\n  h.connect_uri(uri)\n  return h\n\
         held = [open('{alice}'), open('{open}')]\n\
         try:\n  open('{alice}')\n  print('not refused')\nexcept nbd.Error as error:\n  print(error.string)\n\
         held.append(open('{bob}'))\nprint(held[2].get_size())\n",
        alice = uri(&served, "alice", "alice"),
        open = uri(&served, "open", "alice"),
        bob = uri(&served, "open", "bob"),
    );
    let Some(mut nbdsh) = elevon_testkit::tool("nbdsh") else { return };
    // Another Python that comes first in PATH does not have libnbd's module.
    let output =
        nbdsh.env("PATH", "/usr/bin:/bin").args(["-c", &script]).output().expect("the tool ran");
    let said = ok(&output);
    assert!(said.contains("policy") && said.trim().ends_with(&(2 << 20).to_string()), "{said}");
    served.end();
}

fn ctl(served: &Served, args: &[&str]) -> String {
    let output = served.bench.elevon(&[&["ctl", "ctl"], args].concat()).output().expect("it ran");
    ok(&output)
}

#[test]
fn a_reload_takes_renewed_certificates_and_other_clients() {
    let served = start(true);
    let size = |client: &str, export: &str| {
        served.client("nbdinfo", &["--size", &uri(&served, export, client)])
    };
    let Some(output) = size("alice", "alice") else { return };
    ok(&output);
    // Another authority signs everybody's certificates anew.
    let authority = Authority::new("new");
    authority.fill(&served.bench.path("server"), "server", "localhost", &["localhost"]);
    authority.fill(&served.bench.path("carol"), "client", "carol", &[]);
    assert!(
        !size("carol", "open").expect("installed").status.success(),
        "the old files are in force"
    );
    served.bench.file(
        "c.toml",
        CONFIG.replace("REQUIRED", "true").replace("'alice', 'admin.example'", "'carol'"),
    );
    ctl(&served, &["reload"]);
    ok(&size("carol", "open").expect("installed"));
    ok(&size("carol", "alice").expect("installed"));
    assert!(
        !size("alice", "open").expect("installed").status.success(),
        "the old authority is not known any more"
    );
    // Files that do not fit leave everything as it was.
    fs::write(served.bench.path("server/server-key.pem"), "no key\n").expect("written");
    let output = served.bench.elevon(&["ctl", "ctl", "reload"]).output().expect("it ran");
    refused(
        &output,
        "c.toml:4:16: tls.certificates: server/server-key.pem: no private key in PEM is in it",
    );
    ok(&size("carol", "open").expect("installed"));
    served.end();
}

/// No reload lets in whom an authority kept out.
#[test]
fn a_reload_never_ends_the_verification_of_clients() {
    let bench = with_certificates(true);
    let config = CONFIG.replace("REQUIRED", "true").replace("clients = ", "# ");
    bench.file("c.toml", &config);
    let said = |bench: &Bench| {
        ok(&bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran"))
    };
    assert!(said(&bench).ends_with(
        "are verified: an authority of server/ca-cert.pem has signed their certificates\n"
    ));
    let served = Served::run(bench, &["c.toml"]);
    let without_tls = config.split_once("[tls]").expect("TLS").0.to_owned()
        + "[device.fast]\ndevice = './disk.img'\n[export.open]\n";
    fs::rename(served.bench.path("server/ca-cert.pem"), served.bench.path("away.pem"))
        .expect("renamed");
    for config in [&config, &without_tls] {
        served.bench.file("c.toml", config);
        let output = served.bench.elevon(&["ctl", "ctl", "reload"]).output().expect("it ran");
        refused(
            &output,
            "c.toml: tls: clients are verified by server/ca-cert.pem and would no longer be; that takes a restart",
        );
        assert!(Client::open(&served.bench.path("s"), "open").is_err(), "a client without TLS");
    }
    served.bench.file("c.toml", &config);
    assert!(said(&served.bench).contains("\nclients that use TLS are not verified: "));
    fs::create_dir(served.bench.path("nobody")).expect("a folder");
    fs::copy(served.bench.path("away.pem"), served.bench.path("nobody/ca-cert.pem"))
        .expect("copied");
    if let Some(size) = served.client("nbdinfo", &["--size", &uri(&served, "open", "nobody")]) {
        assert!(!size.status.success(), "a client without a certificate");
    }
    served.end();
}

/// A client of an export is sent away when it is no longer one of those that may have it open.
#[test]
fn a_client_that_may_no_longer_have_an_export_is_sent_away() {
    let served = start(false);
    let mut plain = Client::open(&served.bench.path("s"), "open").expect("it is open to all");
    assert_eq!(plain.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    let named = CONFIG
        .replace("REQUIRED", "false")
        .replace("[export.open]", "[export.open]\nclients = 'alice'");
    served.bench.file("c.toml", named);
    ctl(&served, &["reload"]);
    assert!(plain.flush().is_err(), "it has no name");
    assert!(Client::open(&served.bench.path("s"), "open").is_err());
    served.end();
}

/// Returns a connection that has begun TLS and not ended its handshake, having sent these bytes.
fn hanging(socket: &PathBuf, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0").expect("sent");
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[8..16], [0, 0, 0, 5, 0, 0, 0, 1], "STARTTLS is acknowledged");
    stream.write_all(bytes).expect("sent");
    stream
}

#[test]
fn clients_that_hang_in_a_handshake_hurt_nobody() {
    let served = start(true);
    let socket = served.bench.path("s");
    // A length of a record that does not come, and noise.
    let slow: Vec<UnixStream> =
        (0..40).map(|_| hanging(&socket, b"\x16\x03\x01\x02\x00\x01")).collect();
    let mut noise = hanging(&socket, b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
    let mut rest = Vec::new();
    // An alert of TLS, then the end; never an answer to the option.
    let _ = noise.read_to_end(&mut rest);
    assert!(!rest.windows(8).any(|at| at == 0x0003_e889_0455_65a9_u64.to_be_bytes()), "{rest:?}");
    // Hundreds of connections that do nothing cut the oldest of them, and no other client.
    let mut idle: Vec<UnixStream> =
        (0..300).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    if let Some(size) = served.client("nbdinfo", &["--size", &uri(&served, "alice", "alice")]) {
        assert_eq!(ok(&size).trim(), (2 << 20).to_string());
    }
    let mut oldest = slow.into_iter().next().expect("the first");
    assert_eq!(oldest.read(&mut [0; 1]).unwrap_or(0), 0, "it is cut");
    let mut newest = idle.pop().expect("the last");
    newest.read_exact(&mut [0; 18]).expect("it is not cut");
    drop(idle);
    served.end();
}

#[test]
fn bytes_behind_starttls_are_never_taken_for_protected_ones() {
    let served = start(true);
    let mut stream = UnixStream::connect(served.bench.path("s")).expect("it listens");
    let go = b"IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04open\0\0";
    let together = [&b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0"[..], go].concat();
    stream.write_all(&together).expect("sent");
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came);
    assert!(came.len() <= 18 + 20, "no answer to what came in the clear: {came:?}");
    served.end();
}

#[test]
fn a_single_export_takes_its_files_from_options() {
    let bench = with_certificates(true);
    let files =
        ["--tls-certificate", "server/server-cert.pem", "--tls-key", "server/server-key.pem"];
    let args =
        [&["disk.img", "--listen", "unix:s", "--listen", "tcp:127.0.0.1:0"], &files[..]].concat();
    let served = Served::run(bench, &args);
    assert!(served.uri.starts_with("nbds+unix:///disk.img?socket="), "{}", served.uri);
    // Without an authority for clients, one needs no certificate.
    fs::create_dir(served.bench.path("nobody")).expect("a folder");
    fs::copy(served.bench.path("alice/ca-cert.pem"), served.bench.path("nobody/ca-cert.pem"))
        .expect("copied");
    let Some(size) = served.client("nbdinfo", &["--size", &uri(&served, "disk.img", "nobody")])
    else {
        return;
    };
    assert_eq!(ok(&size).trim(), DISK.to_string());
    served.end();
}

#[test]
fn a_single_export_is_for_the_clients_that_options_name() {
    let files = [
        "--tls-certificates",
        "server",
        "--client",
        "carol",
        "--client",
        "BOB",
        "--tls-required=false",
    ];
    let args = [&["disk.img", "--listen", "unix:s"], &files[..]].concat();
    let served = Served::run(with_certificates(true), &args);
    assert!(
        served.uri.starts_with("nbds+unix:///disk.img?"),
        "it opens for no client without TLS: {}",
        served.uri
    );
    let size = |client| served.client("nbdinfo", &["--size", &uri(&served, "disk.img", client)]);
    let Some(of_bob) = size("bob") else { return };
    assert_eq!(ok(&of_bob).trim(), DISK.to_string());
    refused(&size("alice").expect("installed"), "server has no export named 'disk.img'");
    assert!(
        Client::open(&served.bench.path("s"), "disk.img").is_err(),
        "a client without TLS has no name"
    );
    served.end();
}

#[test]
fn a_client_of_tcp_checks_the_name_of_the_server() {
    for (certificates, is_right) in [("server", true), ("elsewhere", false)] {
        let bench = with_certificates(true);
        let args = [
            "disk.img",
            "--listen",
            "tcp:127.0.0.1:0",
            "--listen",
            "unix:s",
            "--tls-certificates",
            certificates,
        ];
        let served = Served::run(bench, &args);
        assert!(served.uri.starts_with("nbds://127.0.0.1:"), "{}", served.uri);
        let uri =
            format!("{}?tls-certificates={}", served.uri, served.bench.path("alice").display());
        let Some(size) = served.client("nbdinfo", &["--size", &uri]) else { return };
        assert_eq!(size.status.success(), is_right, "{}", String::from_utf8_lossy(&size.stderr));
        served.end();
    }
}

#[test]
fn files_of_tls_are_checked_before_anything_is_served() {
    let bench = with_certificates(true);
    fs::write(bench.path("text.pem"), "no PEM\n").expect("written");
    let config = CONFIG.replace("REQUIRED", "true");
    let pair = "certificate = 'server/server-cert.pem'\nkey = 'server/server-key.pem'";
    for (from, to, words) in [
        ("'server'", "'none'", "c.toml:4:16: tls.certificates: none/server-cert.pem: No such file"),
        ("certificates = 'server'\n", "", "c.toml:3:2: tls: certificate and key are missing"),
        ("certificates = 'server'", "certificate = 'text.pem'", "c.toml:3:2: tls: key is missing"),
        (
            "certificates = 'server'",
            &format!("certificates = 'server'\n{pair}"),
            "c.toml:3:2: tls: certificates is a folder",
        ),
        (
            "certificates = 'server'",
            pair,
            "c.toml:14:12: export.alice.clients: names of clients come from",
        ),
        (
            "certificates = 'server'",
            &format!("{pair}\nclient_ca = 'text.pem'"),
            "c.toml:6:13: tls.client_ca: text.pem: no certificate in PEM is in it",
        ),
        ("required", "require", "c.toml:5:1: tls.require: no such key (did you mean `required`?)"),
        ("['bob']", "[]", "c.toml:16:11: export.bob.clients: nobody could open it"),
    ] {
        let text = config.replacen(from, to, 1);
        assert_ne!(text, config, "{from}");
        bench.file("c.toml", text);
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {stderr}");
        assert!(stderr.starts_with(&format!("elevon: {words}")), "{to}: {stderr}");
    }
    bench.file("c.toml", config);
    ok(&bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran"));
}

#[test]
fn options_of_tls_are_checked_before_anything_is_served() {
    let bench = with_certificates(true);
    fs::write(bench.path("text.pem"), "no PEM\n").expect("written");
    const PAIR: [&str; 2] = ["server/server-cert.pem", "server/server-key.pem"];
    fs::create_dir(bench.path("nobody")).expect("a folder");
    for file in PAIR {
        fs::copy(bench.path(file), bench.path(&file.replace("server/", "nobody/")))
            .expect("copied");
    }
    let one = ["serve", "disk.img", "--listen", "unix:s"];
    for (args, words) in [
        (
            &["--tls-certificate", "text.pem", "--tls-key", "none"][..],
            "--tls-certificate: text.pem: no certificate",
        ),
        (
            &["--tls-certificate", "server/server-cert.pem", "--tls-key", "none"],
            "--tls-key: none: No such file",
        ),
        (&["--tls-certificate", "text.pem"], "--tls-key"),
        (&["--tls-required"], "--tls-cert"),
        (&["--client", "alice"], "--tls-client-ca"),
        (
            &["--client", "bob", "--tls-certificates", "nobody"],
            "--client bob: names of clients come from their certificates; nobody has no ca-cert.pem",
        ),
        (
            &["--client", "bob", "--tls-certificate", PAIR[0], "--tls-key", PAIR[1]],
            "--client bob: names of clients come from their certificates; give --tls-client-ca",
        ),
        (
            &["--tls-certificates", "server", "--tls-certificate", "x", "--tls-key", "y"],
            "cannot be used with",
        ),
    ] {
        let output = bench.elevon(&[&one[..], args].concat()).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
}
