//! Tests `elevon serve` with clients of other projects, and what it refuses.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::{DISK, Served, ok, pattern};

#[test]
fn libnbd_sees_the_disk_as_it_is() {
    let served = Served::start(&[]);
    let Some(info) = served.client("nbdinfo", &["--json", &served.uri]) else { return };
    let info: serde_json::Value = serde_json::from_str(&ok(&info)).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(
        (info["protocol"].as_str(), info["TLS"].as_bool()),
        (Some("newstyle-fixed"), Some(false))
    );
    assert_eq!(
        (export["export-size"].as_u64(), export["is_read_only"].as_bool()),
        (Some(DISK as u64), Some(false))
    );
    for can in
        ["can_fua", "can_flush", "can_multi_conn", "can_trim", "can_zero", "can_cache", "can_df"]
    {
        assert_eq!(export[can].as_bool(), Some(true), "{can}");
    }
    assert_eq!(export["block_size_minimum"].as_u64(), Some(1), "parts of sectors are served");
    served.end();
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let served = Served::start(&["--scheduler", "bfq"]);
    let pattern = pattern(DISK);
    served.bench.file("pattern", &pattern);
    let Some(copied) = served.client("nbdcopy", &["--flush", "pattern", &served.uri]) else {
        return;
    };
    ok(&copied);
    assert!(
        fs::read(served.bench.path("disk.img")).expect("the disk") == pattern,
        "what was flushed is in the file"
    );
    ok(&served.client("nbdcopy", &[&served.uri, "back"]).expect("as above"));
    assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern);
    served.end();
}

#[test]
fn qemu_writes_zeroes_trims_and_verifies() {
    if !elevon_testkit::tools(&["qemu-io", "qemu-img"]) {
        return;
    }
    let served = Served::start(&["--scheduler", "mq-deadline"]);
    let io = |commands: &[&str]| served.qemu_io(&served.uri, commands);
    let Some(output) = io(&[
        "write -P 0x5a 0 1M",
        "write -z 64k 64k",
        "discard 128k 64k",
        "flush",
        "read -P 0x5a 0 64k",
    ]) else {
        return;
    };
    ok(&output);
    ok(&io(&[
        "read -P 0 64k 64k",
        "write -f -P 7 512k 4k",
        "read -P 7 512k 4k",
        "write -P 1 0 7M",
        "read -P 1 0 7M",
    ])
    .expect("as above"));
    let map = ok(&served
        .client("qemu-img", &["map", "--output", "json", "-f", "raw", &served.uri])
        .expect("installed"));
    let map: serde_json::Value = serde_json::from_str(&map).expect("JSON");
    let bytes: u64 = map
        .as_array()
        .expect("extents")
        .iter()
        .filter_map(|extent| extent["length"].as_u64())
        .sum();
    assert_eq!(bytes, DISK as u64);
    served.end();
}

#[test]
fn fio_verifies_through_the_server() {
    let served =
        Served::start(&["--tenants", "tenants.toml", "--tenant", "gold", "--scheduler", "bfq"]);
    let uri = format!("--uri={}", served.uri);
    let args = [
        "--name=a",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k",
        "--size=4m",
        "--iodepth=32",
        "--verify=crc32c",
    ];
    let Some(output) = served.client("fio", &args) else { return };
    ok(&output);
    served.end();
}

const SHARED: &str = "\
listen = 'unix:s'
[device.fast]
device = './disk.img'
[device.slow]
device = 'slots:slots=1,latency=100us,bandwidth=1GB/s,size=1GiB'
fault = 'error:sectors=2048-2055,status=medium'
[export.a]
device = 'fast'
size = '2MiB'
[export.b]
device = 'fast'
start = '2MiB'
tenant = 'customers/b'
[export.gold]
device = 'fast'
size = '2MiB'
read_only = true
[export.broken]
device = 'slow'
[tenant.customers]
limit = { bps = '100MB' }
";

#[test]
fn exports_of_a_configuration_share_devices() {
    let served = Served::config(SHARED);
    let Some(info) = served.client("nbdinfo", &["--json", "--list", &served.of_export("")]) else {
        return;
    };
    let info: serde_json::Value = serde_json::from_str(&ok(&info)).expect("JSON");
    let exports = info["exports"].as_array().expect("a list");
    let sizes: Vec<_> = exports
        .iter()
        .map(|export| (export["export-name"].as_str(), export["export-size"].as_u64()))
        .collect();
    let rest = DISK as u64 - (2 << 20);
    assert_eq!(
        sizes,
        [
            (Some("a"), Some(2 << 20)),
            (Some("b"), Some(rest)),
            (Some("gold"), Some(2 << 20)),
            (Some("broken"), Some(1 << 30))
        ]
    );
    let b = served.of_export("b");
    let Some(output) = served.qemu_io(&b, &["write -P 7 4096 4096", "flush", "read -P 0 0 4096"])
    else {
        return;
    };
    ok(&output);
    let bytes = fs::read(served.bench.path("disk.img")).expect("the disk");
    let at = (2 << 20) + 4096;
    assert!(bytes[at..at + 4096].iter().all(|&byte| byte == 7), "an export begins at its start");
    assert!(bytes[..at].iter().all(|&byte| byte == 0), "and nothing else was written");
    let past = served.qemu_io(&served.of_export("a"), &["read 2M 4096"]).expect("as above");
    assert!(!past.status.success(), "an export ends before the next one");
    let gold = served.qemu_io(&served.of_export("gold"), &["write 0 4096"]).expect("as above");
    assert!(!gold.status.success(), "nobody writes to what is read-only");
    served.end();
}

#[test]
fn a_simulated_disk_keeps_bytes_and_breaks_on_purpose() {
    let served = Served::config(SHARED);
    let disk = served.of_export("broken");
    let good = [
        "write -P 9 512k 300k",
        "read -P 9 512k 300k",
        "read -P 0 0 64k",
        "write -z 600k 64k",
        "read -P 0 600k 64k",
    ];
    let Some(output) = served.qemu_io(&disk, &good) else { return };
    ok(&output);
    let output = served.qemu_io(&disk, &["read 1M 4096"]).expect("as above");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Input/output error"), "{said}");
    ok(&served.qemu_io(&disk, &["read -P 9 512k 88k"]).expect("as above"));
    served.end();
}

#[test]
fn a_simulated_disk_has_the_name_of_its_device_without_parameters() {
    let device = "slots:slots=1,bandwidth=1GB/s,size=1MiB";
    let served = Served::run(Bench::new(), &[device, "--listen", "unix:s"]);
    assert!(served.uri.starts_with("nbd+unix:///slots?socket="), "{}", served.uri);
    served.end();
}

/// Changes of [`SHARED`] that make it wrong, as what is replaced and by what, and the error.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "[device.fast]",
        "[device.fast]\nscheduler = 'bqf'",
        "c.toml:3:13: device.fast.scheduler: bqf: unknown scheduler",
    ),
    (
        "[device.fast]",
        "[device.fast]\nscheduler = 'flow'",
        "c.toml:3:13: device.fast.scheduler: flow: flow is called aileron now: use that name",
    ),
    ("'./disk.img'", "'./none.img'", "c.toml:3:10: device.fast.device: ./none.img: cannot open it"),
    (
        "'./disk.img'",
        "'./disk.img'\nset = ['nr_requests=64', 'nr_request=5']",
        "c.toml:4:26: device.fast.set: nr_request: no such setting",
    ),
    (
        "'./disk.img'",
        "'./disk.img'\nfault = 'bit_rot:ppm=5'",
        "c.toml:4:9: device.fast.fault: bit_rot:ppm=5: ",
    ),
    ("sectors=2048", "sector=2048", "c.toml:6:9: device.slow.fault: "),
    ("slots:slots=1", "slots:slot=1", "c.toml:5:10: device.slow.device: slots:slot=1"),
    ("'unix:s'", "'s'", "c.toml:1:10: listen: s: is no address"),
    (
        "'unix:s'",
        "'unix:disk.img'",
        "c.toml:1:10: listen: unix:disk.img: is the place of device.fast.device, too",
    ),
    (
        "'unix:s'",
        "'unix:s'\ncontrol = './s'",
        "c.toml:2:11: control: ./s: is the place of listen, too",
    ),
    (
        "start = '2MiB'",
        "start = '8MiB'",
        "c.toml:12:9: export.b: begins at byte 8388608; the device has 8388608 bytes",
    ),
    (
        "start = '2MiB'",
        "start = 100",
        "c.toml:12:9: export.b: start and size are multiples of the device's blocks",
    ),
    (
        "device = 'slots:slots=1,latency=100us,bandwidth=1GB/s,size=1GiB'\nfault",
        "device = 'disk.img'\nseed = 1 #",
        "c.toml:5:10: device.slow.device: is device.fast already",
    ),
    (
        "bps = '100MB'",
        "bps = '100MB', iop = 5",
        "c.toml:21:26: tenant.customers.limit.iop: no such limit",
    ),
];

#[test]
fn a_configuration_is_checked_before_anything_is_served() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    for (from, to, words) in WRONG {
        assert!(SHARED.contains(from), "{from}");
        bench.file("c.toml", SHARED.replacen(from, to, 1));
        for args in [&["serve", "c.toml", "--check"][..], &["serve", "c.toml"]] {
            let output = bench.elevon(args).output().expect("it ran");
            let stderr = String::from_utf8_lossy(&output.stderr);
            let errors: Vec<&str> =
                stderr.lines().filter(|line| !line.contains(" warning: ")).collect();
            assert_eq!(output.status.code(), Some(2), "{to}: {stderr}");
            assert!(
                errors.len() == 1 && errors[0].starts_with(&format!("elevon: {words}")),
                "{to}: {stderr}"
            );
            assert!(!bench.path("s").exists(), "nothing is served");
        }
    }
    bench.file("c.toml", SHARED);
    let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
    let said = ok(&output);
    assert!(
        said.contains(
            "export b: 6291456 bytes of device fast from 2097152 on, tenant customers/b\n"
        ),
        "{said}"
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "elevon: warning: c.toml:16: export.gold: shares bytes with export.a\n");
}

#[test]
fn a_client_that_dies_hurts_nobody() {
    let served = Served::start(&[]);
    for bytes in [
        &b""[..],
        b"\0\0\0\x03",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut socket = UnixStream::connect(served.bench.path("s")).expect("it listens");
        // It may have hung up already.
        let _ = socket.write_all(bytes);
    }
    let mut socket = UnixStream::connect(served.bench.path("s")).expect("it still listens");
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    drop(socket);
    served.end();
}

/// Arguments of `elevon serve` that are refused, and what the error says.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["disk.img", "--listen", "s.sock"],
        "--listen s.sock: is no address; write unix:PATH or tcp:HOST:PORT",
    ),
    (&["disk.img", "--listen", "tcp:localhost"], "has no port; NBD's is 10809"),
    (
        &["disk.img", "--listen", "tcp:localhost:nbd"],
        "tcp:localhost:nbd: its port is no number from 0 to 65535",
    ),
    (&["disk.img", "--listen", "tcp:localhost:65536"], "its port is no number"),
    (&["disk.img", "--listen", "tcp:[::1]"], "has no port"),
    // A line begins with what was given.
    (
        &["none.img", "--listen", "unix:s"],
        "elevon: none.img: cannot open it: No such file or directory; name a file or a block device that exists, a \
         simulated device such as hdd-7200, or a disk of another server, nbd://HOST/EXPORT\n",
    ),
    (&["./none.img", "--listen", "unix:s"], "elevon: ./none.img: cannot open it: No such file"),
    (
        &["empty.img", "--listen", "unix:s"],
        "elevon: empty.img: has size 0; name a file with content (`truncate -s 1GiB FILE` makes one of zeroes)\n",
    ),
    (&["/dev/null", "--listen", "unix:s"], "elevon: /dev/null: is a character device"),
    (&["disk.img", "--listen", "unix:s", "--fault", "bit_rot:ppm=5"], "--fault: bit_rot:ppm=5: "),
    (
        &["hdd-7201", "--listen", "unix:s"],
        "elevon: hdd-7201: unknown device `hdd-7201` (did you mean `hdd-7200`?)",
    ),
    (
        &["hdd-7200:x=1", "--listen", "unix:s"],
        "elevon: hdd-7200:x=1: device hdd-7200: unknown parameter `x`",
    ),
    (&["@none.toml", "--listen", "unix:s"], "elevon: @none.toml: no such file"),
    (
        &["nbd+unix:///c.toml", "--listen", "unix:s"],
        "elevon: nbd+unix:///c.toml: is no address; write nbd://",
    ),
    (&["disk.img", "--listen", "unix:s", "--cache", "1GB"], "--cache 1GB: expected a size"),
    (&["disk.img", "--listen", "unix:s", "--cache", "4TiB"], "--cache 4TiB: this machine has"),
    (
        &["disk.img", "--listen", "unix:s", "--set", "cache=sieve"],
        "give the device one, such as cache = \"1GiB\"",
    ),
    (&["c.toml", "--cache", "1GiB"], "--cache: c.toml says what is served and how"),
    (&["disk.img"], "disk.img: --listen is not given; write --listen unix:PATH"),
    (&["disk.img", "--check", "--listen", "unix:s"], "--check is for a configuration"),
    (&["c.toml", "--read-only"], "--read-only: c.toml says what is served and how"),
    (&["none.toml"], "none.toml: "),
    (&["disk.img", "--listen", "unix:none/s"], "unix:none/s"),
    (&["disk.img", "--listen", "unix:s", "--tenants", "tenants.toml", "--tenant", "gols"], "gold"),
    (&["disk.img", "--listen", "unix:s", "--scheduler", "bqf"], "bfq"),
];

#[test]
fn what_cannot_be_served_is_refused_in_a_line() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 4096]);
    bench.file("empty.img", Vec::new());
    bench.file("tenants.toml", "[tenant.gold]\nweight = 400\n");
    let name = "n".repeat(256);
    let long = ["disk.img", "--listen", "unix:s", "--name", &name];
    let refused = REFUSED.iter().copied();
    for (args, words) in refused.chain([(&long[..], "--name: expected at most 255 bytes")]) {
        let output = bench.elevon(&[&["serve"], args].concat()).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
}

/// A client of the older handshake, whose flags are 0, has EXPORT_NAME alone.
#[test]
fn a_client_of_plain_newstyle_is_served() {
    let served = Served::start(&["--max-connections", "1"]);
    let connect = || {
        let mut stream = UnixStream::connect(served.bench.path("s")).expect("it listens");
        stream.read_exact(&mut [0; 18]).expect("a greeting");
        stream.write_all(b"\0\0\0\0IHAVEOPT\0\0\0\x01\0\0\0\0").expect("sent");
        stream
    };
    let mut stream = connect();
    let mut opened = [1; 8 + 2 + 124];
    stream.read_exact(&mut opened).expect("an answer");
    assert_eq!((&opened[..8], &opened[10..]), (&(DISK as u64).to_be_bytes()[..], &[0; 124][..]));
    stream
        .write_all(b"\x25\x60\x95\x13\0\0\0\0cookies!\0\0\0\0\0\0\x02\0\0\0\x02\0")
        .expect("sent");
    let mut read = [1; 16 + 512];
    stream.read_exact(&mut read).expect("an answer");
    assert_eq!(
        (&read[..16], &read[16..]),
        (&b"\x67\x44\x66\x98\0\0\0\0cookies!"[..], &[0; 512][..])
    );
    let mut second = connect();
    assert_eq!(second.read(&mut [0; 1]).unwrap_or(0), 0, "one connection is allowed");
    served.end();
}

/// A connection takes two descriptors of the process.
#[test]
fn a_soft_limit_of_descriptors_does_not_bound_connections() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let mut command = Command::new("sh");
    let script = "ulimit -Sn 40; exec \"$0\" serve disk.img --listen unix:s";
    command.args(["-c", script, env!("CARGO_BIN_EXE_elevon")]);
    let served = Served::of_command(bench, command);
    let open = |_| Client::open(&served.bench.path("s"), "disk.img").expect("it has room");
    let mut clients: Vec<Client> = (0..60).map(open).collect();
    assert!(clients.iter_mut().all(|client| client.read(0, 512).is_ok_and(|read| read.is_ok())));
    served.end();
}

#[test]
fn a_device_file_of_the_user_is_served() {
    let bench = Bench::new();
    bench.file("small.toml", "name = \"small\"\nbase = \"slots\"\n[parameters]\nsize = \"1MiB\"\n");
    let served = Served::run(bench, &["@small.toml", "--listen", "unix:s", "--direct"]);
    assert!(served.uri.starts_with("nbd+unix:///small.toml?"), "{}", served.uri);
    let mut client = Client::open(&served.bench.path("s"), "small.toml").expect("it listens");
    assert_eq!(client.write(0, (1 << 20) - 512, &[7; 512]).expect("an answer"), 0);
    assert_eq!(client.read((1 << 20) - 512, 512).expect("an answer"), Ok(vec![7; 512]));
    served.end();
}

#[test]
fn what_a_simulated_device_does_not_have_is_said() {
    let bench = Bench::new();
    bench.file(
        "c.toml",
        "[device.slow]\ndevice = \"hdd-7200\"\ndirect = true\nbusy_poll = \"1us\"\n[export.a]\n",
    );
    let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("device.slow: direct has no effect: only files and block devices"),
        "{stderr}"
    );
    assert!(stderr.contains("device.slow: busy polling has no effect"), "{stderr}");
    assert_eq!(output.status.code(), Some(0));
}
