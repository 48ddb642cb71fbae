use elevon_core::units::Nanos;

use super::device_table::HOLD_MAX;
use super::*;

const GOOD: &str = "\
listen = [\"unix:/run/nbd.sock\", \"tcp:localhost:10809\"]
control = \"/run/ctl.sock\"
kernel = \"6.12\"

[device.fast]
device = \"./disk.img\"
scheduler = \"aileron\"
prefer = \"shares\"
set = \"nr_requests=64\"
direct = true
busy_poll = \"100us\"
io_timeout = \"5s\"
\"io.cost.qos\" = \"enable=1\"

[device.slow]
device = \"hdd-7200\"
seed = 7
cache = \"1GiB\"
fault = [\"error:ppm=10\", \"dead:after=5s\"]

[export.db]
device = \"fast\"
size = \"10GiB\"
tenant = \"/shop//db/\"
description = \"the shop's data\"

[export.\"\"]
device = \"fast\"
start = 10737418240
size = \"1MiB\"
read_only = true

[export.old]
device = \"slow\"

[tenant.\"shop/db\"]
weight = 400
limit = { wbps = \"10M\" }
";

#[test]
fn a_file_is_read() {
    let file = parse("c.toml", GOOD).expect("a good file");
    let listen: Vec<&str> = file.listen.iter().map(|given| given.value.as_str()).collect();
    assert_eq!(listen, ["unix:/run/nbd.sock", "tcp:localhost:10809"]);
    assert_eq!(file.control.as_ref().map(|given| given.value.as_str()), Some("/run/ctl.sock"));
    assert_eq!(file.kernel.name(), "6.12");
    let [fast, slow] = &file.devices[..] else { panic!("two devices") };
    assert_eq!(
        (fast.device.value.as_str(), fast.direct, fast.settings.len(), fast.seed),
        ("./disk.img", true, 1, 1)
    );
    let prefer = |of: &DeviceTable| of.prefer.as_ref().map(|given| given.value.clone());
    assert_eq!((prefer(fast).as_deref(), prefer(slow)), (Some("shares"), None));
    assert_eq!((fast.busy_poll, slow.busy_poll), (Nanos::from_micros(100), BUSY_POLL));
    assert_eq!(
        (&fast.cache, slow.cache.as_ref().map(|given| given.value.as_str())),
        (&None, Some("1GiB"))
    );
    assert_eq!((fast.set[0].place.line, fast.set[0].place.column), (9, 7));
    assert_eq!((fast.set[1].value.as_str(), fast.set[1].place.line), ("io_timeout=5000", 12));
    assert_eq!(
        (slow.fault.len(), slow.fault[1].value.as_str(), slow.seed),
        (2, "dead:after=5s", 7)
    );
    let [db, unnamed, old] = &file.exports[..] else { panic!("three exports") };
    assert_eq!(
        (db.device, db.start, db.size, db.tenant.as_str()),
        (0, 0, Some(10 << 30), "shop/db")
    );
    assert_eq!((unnamed.start, unnamed.size, unnamed.read_only), (10 << 30, Some(1 << 20), true));
    assert_eq!(
        (unnamed.tenant.as_str(), old.tenant.as_str(), old.device, old.size),
        ("", "old", 1, None)
    );
    assert_eq!((file.tenants[0].path.as_str(), file.tenants[0].settings.len()), ("shop/db", 2));
    let one = parse("c.toml", "listen='unix:s'\n[device.a]\ndevice='./a'\n[export.a]\n")
        .expect("one device");
    assert_eq!(one.exports[0].device, 0);
}

const HEAD: &str = "listen = 'unix:s'\n";
const DISK: &str = "[device.d]\ndevice = './d'\n";

/// Files in which `{}` stands first for [`HEAD`] and then for [`DISK`], and the starts of the
/// errors.
const MISTAKES: &[(&str, &[&str])] = &[
    ("", &["c.toml:1:1: device: no device", "c.toml:1:1: export: no export"]),
    (
        "listen = []\n[device.d]\ndevice = './d'\n[export.x]",
        &["c.toml:1:1: listen: nothing to listen at"],
    ),
    (
        "listen = 5",
        &["c.toml:1:1: device", "c.toml:1:1: export", "c.toml:1:10: listen: expected a text"],
    ),
    ("[export", &["c.toml:1:8: "]),
    ("{}lisen = 5\n{}[export.d]", &["c.toml:2:1: lisen: no such key (did you mean `listen`?)"]),
    ("{}kernel = '5.4'\n{}[export.d]", &["c.toml:2:10: kernel: 5.4: not modelled; there are 5.10"]),
    (
        "{}{}busy_poll = '2ms'\n[export.x]",
        &[
            "c.toml:4:13: device.d.busy_poll: expected a time from 0 to 1ms with its unit, such as 50us",
        ],
    ),
    (
        "{}{}io_timeout = '1500us'\n[export.x]",
        &["c.toml:4:14: device.d.io_timeout: expected a time in whole milliseconds with its unit"],
    ),
    (
        "{}{}on_loss = 'wait'\n[export.x]",
        &["c.toml:4:11: device.d.on_loss: expected error, hold or hold=TIME, a time up to 86400s"],
    ),
    ("{}{}[export.x]\ndevice = 'e'", &["c.toml:5:10: export.x.device: e: no such device"]),
    (
        "{}{}[device.e]\ndevice = './e'\n[export.x]",
        &["c.toml:6:9: export.x.device: which device? There are d, e"],
    ),
    (
        "{}[device.e]\nscheduler = 'none'\n[export.x]",
        &["c.toml:1:1: device: no", "c.toml:2:9: device.e: device is missing"],
    ),
    (
        "{}{}shceduler = 'bfq'\n[export.x]",
        &["c.toml:4:1: device.d.shceduler: no such key (did you mean `scheduler`?)"],
    ),
    ("{}{}weight = 5\n[export.x]", &["c.toml:4:1: device.d.weight: no such key"]),
    ("{}{}[export.x]\nsize = '10G'", &["c.toml:5:8: export.x.size: expected bytes"]),
    (
        "{}{}[export.x]\nsocket_mode = '0600'\n[export.y]\nlisten = 'unix:y'\nsocket_mode = 'rw'",
        &[
            "c.toml:4:9: export.x: socket_mode and socket_group of an export",
            "c.toml:8:15: export.y.socket_mode: e",
        ],
    ),
    ("{}{}[export.x]\nsize = 0", &["c.toml:5:8: export.x.size: 0: a disk has"]),
    ("{}{}[export.x]\nread_only = 1", &["c.toml:5:13: export.x.read_only: expected true"]),
    ("{}{}[export.x]\ntenant = '../y'", &["c.toml:5:10: export.x.tenant: \"..\" is no name"]),
    (
        "{}{}[export.x]\n[tenant.x]\nweight = 0",
        &["c.toml:6:10: tenant.x.weight: 0 is out of range"],
    ),
    (
        "{}{}[device.e]\ndevice = './e'\n[export.x]\ndevice = 'd'\n[tenant.x]\n'io.max' = '8:0 rbps=5000'",
        &["c.toml:9:12: 8:0: a tenant's setting holds on every"],
    ),
    (
        "{}{}[export.x]\n[tenant.x]\n'io.max' = '8:0 rbps=5000'\n'io.latency' = '8:16 target=5'",
        &["c.toml:7:16: 8:16: there is one device, and line 6 calls it 8:0"],
    ),
    (
        "{}{}'io.cost.qos' = '8:0 enable=1'\n'io.cost.model' = '8:16 ctrl=auto'\n[export.x]",
        &["c.toml:5:19: 8:16: there is one device, and line 4 calls it 8:0"],
    ),
    ("{}{}[export.x]\n[[change]]\nat='5s'", &["c.toml:5:3: change: a server has no end"]),
    (
        "{}device = 5\n[export.x]",
        &["c.toml:1:1: device: no device", "c.toml:2:10: device: expected tables"],
    ),
];

#[test]
fn a_mistake_is_a_line_with_its_place() {
    let long = format!("{{}}{{}}[export.x]\ndescription = '{}'", "x".repeat(4097));
    let of_long =
        &["c.toml:5:15: export.x.description: 4097 bytes; a text of NBD has at most 4096"][..];
    for (text, expected) in MISTAKES.iter().copied().chain([(&*long, of_long)]) {
        let text = text.replacen("{}", HEAD, 1).replacen("{}", DISK, 1);
        let errors: Vec<String> =
            parse("c.toml", &text).expect_err(&text).iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), expected.len(), "{text}: {errors:#?}");
        assert!(
            errors.iter().zip(expected).all(|(error, start)| error.starts_with(start)),
            "{text}: {errors:#?}"
        );
    }
}

#[test]
fn requests_are_held_for_a_time_if_their_server_is_gone() {
    for (text, time) in [
        ("error", Some(Nanos::ZERO)),
        ("hold", Some(HOLD)),
        ("hold=90s", Some(Nanos::from_secs(90))),
        ("hold=86400s", Some(HOLD_MAX)),
        ("hold=86401s", None),
        ("hold=24h", None),
        ("hold=0s", None),
        ("hold=5", None),
        ("error=5s", None),
        ("", None),
    ] {
        assert_eq!(on_loss(text).ok(), time, "{text}");
    }
}

#[test]
fn lines_may_name_the_device_that_they_are_of() {
    const TENANT: &str = "[tenant.x]\n'io.max' = '8:0 rbps=5000'\n";
    const TWO: &str = "[device.d]\ndevice = './d'\n'io.cost.qos' = '8:0 enable=1'\n\
                       [device.e]\ndevice = './e'\n'io.cost.qos' = '8:16 enable=1'\n[export.x]\ndevice = 'd'\n";
    let of = |text: &str| parse("c.toml", &format!("listen = ['unix:s']\n{text}")).expect(text);
    let one = of(&format!(
        "{TENANT}[device.d]\ndevice = './d'\n'io.cost.qos' = '8:0 enable=1'\n[export.x]\n"
    ));
    assert_eq!((one.devices[0].settings.len(), one.tenants[0].settings.len()), (1, 1));
    assert_eq!(
        of(TWO).devices.iter().map(|device| device.settings.len()).collect::<Vec<_>>(),
        [1, 1]
    );
}

#[test]
fn files_of_tls_and_clients_are_read() {
    let text = "listen = 'unix:s'\n[tls]\ncertificate = 'c'\nkey = 'k'\nclient_ca = 'a'\nrequired = false\n\
                [device.d]\ndevice = './d'\n[export.x]\nclients = ['alice', 'bob']\n[export.y]\n";
    let file = parse("c.toml", text).expect("a good file");
    let tls = file.tls.expect("a table");
    let value = |given: &Option<Given>| given.as_ref().map(|given| given.value.clone());
    assert_eq!(
        (value(&tls.certificate), value(&tls.key)),
        (Some("c".to_owned()), Some("k".to_owned()))
    );
    assert_eq!(
        (value(&tls.client_ca), value(&tls.certificates), tls.required),
        (Some("a".to_owned()), None, false)
    );
    let clients: Vec<&str> =
        file.exports[0].clients.iter().map(|given| given.value.as_str()).collect();
    assert_eq!((clients, file.exports[1].clients.len()), (vec!["alice", "bob"], 0));
    let folder = text.replace(
        "certificate = 'c'\nkey = 'k'\nclient_ca = 'a'\nrequired = false",
        "certificates = 'f'",
    );
    let tls = parse("c.toml", &folder).expect("a good file").tls.expect("a table");
    assert_eq!((value(&tls.certificates), tls.required), (Some("f".to_owned()), true));
    for (from, to, expected) in [
        ("key = 'k'\n", "", "c.toml:2:2: tls: key is missing"),
        ("certificate = 'c'\n", "", "c.toml:2:2: tls: certificate is missing"),
        ("client_ca = 'a'\n", "", "c.toml:9:12: export.x.clients: names of clients come from"),
        ("key = 'k'", "key = 5", "c.toml:4:7: tls.key: expected a text"),
        ("key = 'k'", "kye = 'k'", "c.toml:4:1: tls.kye: no such key"),
        ("'alice', 'bob'", "", "c.toml:10:11: export.x.clients: nobody could open it"),
        ("[tls]", "tls = 5\n[tsl]", "c.toml:2:7: tls: expected a table"),
    ] {
        let text = text.replacen(from, to, 1);
        let errors: Vec<String> =
            parse("c.toml", &text).expect_err(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{text}: {errors:#?}");
    }
}

#[test]
fn a_disk_of_another_server_has_connections_and_tls() {
    let text = "listen = 'unix:s'\n[device.d]\ndevice = 'nbds://host/disk'\nconnections = 2\n\
                tls = { ca = 'a', certificate = 'c', key = 'k', hostname = 'h' }\n[export.x]\n";
    let file = parse("c.toml", text).expect("a good file");
    assert_eq!(
        file.devices[0].connections.as_ref().map(|(count, place)| (*count, place.line)),
        Some((2, 4))
    );
    let tls = file.devices[0].tls.as_ref().expect("a table");
    let values = [&tls.certificates, &tls.ca, &tls.certificate, &tls.key, &tls.hostname];
    let values = values.map(|given| given.as_ref().map(|given| given.value.as_str()));
    assert_eq!(values, [None, Some("a"), Some("c"), Some("k"), Some("h")]);
    for (from, to, expected) in [
        (
            "connections = 2",
            "connections = 0",
            "c.toml:4:15: device.d.connections: expected a number from 1 to 16",
        ),
        (
            "connections = 2",
            "connections = 17",
            "c.toml:4:15: device.d.connections: expected a number from 1 to 16",
        ),
        (
            "connections = 2",
            "connections = 'x'",
            "c.toml:4:15: device.d.connections: expected a whole number",
        ),
        ("connections = 2", "shared = 1", "c.toml:4:10: device.d.shared: expected true or false"),
        (", key = 'k'", "", "c.toml:5:1: device.d.tls: key is missing"),
        (", certificate = 'c'", "", "c.toml:5:1: device.d.tls: certificate is missing"),
        ("ca = 'a', ", "", "c.toml:5:1: device.d.tls: ca is missing"),
        ("ca = 'a'", "certificates = 'a'", "c.toml:5:1: device.d.tls: certificates is a folder"),
        ("ca = 'a'", "ac = 'a'", "c.toml:5:9: device.d.tls.ac: no such key; there are"),
        (
            "{ ca = 'a', certificate = 'c', key = 'k', hostname = 'h' }",
            "5",
            "c.toml:5:7: device.d.tls: expected a table",
        ),
    ] {
        let text = text.replacen(from, to, 1);
        let errors: Vec<String> =
            parse("c.toml", &text).expect_err(&text).iter().map(ToString::to_string).collect();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{text}: {errors:#?}");
    }
}

#[test]
fn connections_are_bounded_in_all_for_an_export_and_for_a_client() {
    let text = "listen = 'unix:s'\n[tls]\ncertificates = 'f'\nmax_connections = 4\n\
                [device.d]\ndevice = './d'\n[export.x]\nmax_connections = 2\n[export.y]\n";
    let file = parse("c.toml", text).expect("a good file");
    assert_eq!(file.max_connections, MAX_CONNECTIONS);
    assert_eq!(file.tls.expect("a table").max_connections, Some(4));
    assert_eq!((file.exports[0].max_connections, file.exports[1].max_connections), (Some(2), None));
    let all = parse("c.toml", &format!("max_connections = 7\n{text}")).expect("a good file");
    assert_eq!(all.max_connections, 7);
    assert_eq!(all.request_memory, REQUEST_MEMORY);
    let memory = |value: &str| parse("c.toml", &format!("request_memory = {value}\n{text}"));
    assert_eq!(memory("'256MiB'").expect("a good file").request_memory, Bytes::new(256 << 20));
    for value in ["'127MiB'", "'much'", "'128'"] {
        let complaints = memory(value).expect_err("no such amount");
        let expected = "c.toml:1:18: request_memory: expected a size with its unit, 128MiB or more, such as 1GiB";
        assert_eq!(complaints[0].to_string(), expected, "{value}");
    }
    for (from, to, expected) in [
        (
            "max_connections = 2",
            "max_connections = 0",
            "c.toml:8:19: export.x.max_connections: expected a number from 1",
        ),
        (
            "max_connections = 2",
            "max_connections = 65537",
            "c.toml:8:19: export.x.max_connections: expected a number",
        ),
        (
            "max_connections = 4",
            "max_connections = -1",
            "c.toml:4:19: tls.max_connections: expected a whole number",
        ),
        (
            "certificates = 'f'",
            "certificate = 'f'\nkey = 'k'",
            "c.toml:2:2: tls.max_connections: clients are told",
        ),
        (
            "listen",
            "max_connections = 'x'\nlisten",
            "c.toml:1:19: max_connections: expected a whole number",
        ),
    ] {
        let text = text.replacen(from, to, 1);
        let errors: Vec<String> =
            parse("c.toml", &text).expect_err(&text).iter().map(ToString::to_string).collect();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{text}: {errors:#?}");
    }
}

#[test]
fn what_comes_first_is_one_of_two() {
    let file = "listen = 'unix:s'\n[device.d]\ndevice = './d'\nprefer = 'weights'\n[export.x]\n";
    let lines: Vec<String> =
        parse("c.toml", file).expect_err("a mistake").iter().map(ToString::to_string).collect();
    let expected = "c.toml:4:10: device.d.prefer: expected \"shares\" or \"throughput\"";
    assert!(lines.len() == 1 && lines[0].starts_with(expected), "{lines:?}");
}
