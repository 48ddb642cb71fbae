//! Tests that devices come, grow and go by a reload, and that no export loses a byte by it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::{DISK, Served, ok};
use crate::control::{client, ctl, json};

const ONE: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.one]
device = './disk.img'
[export.a]
device = 'one'
size = '4MiB'
[export.rest]
device = 'one'
start = '4MiB'
";

const TWO: &str = "\
[device.two]
device = './two.img'
[export.b]
device = 'two'
[tenant.b]
limit = { bps = '1GB' }
";

fn reload(served: &Served, config: &str) -> (Option<i32>, String) {
    served.bench.file("c.toml", config);
    let (status, _, stderr) = ctl(served, &["reload"]);
    (status, stderr)
}

fn reloads(served: &Served, config: &str) {
    assert_eq!(reload(served, config), (Some(0), String::new()));
}

/// Returns exports with their devices and sizes.
fn exports(served: &Served) -> Vec<(String, String, u64)> {
    let all = json(served, &["exports"])["exports"].as_array().expect("a list").clone();
    let text =
        |export: &serde_json::Value, key: &str| export[key].as_str().expect("a text").to_owned();
    all.iter()
        .map(|e| (text(e, "name"), text(e, "device"), e["size"].as_u64().expect("bytes")))
        .collect()
}

/// Returns true if this process, or a child of it, has a file open.
fn is_open(served: &Served, name: &str) -> bool {
    let inode = fs::metadata(served.bench.path(name)).expect("a file").ino();
    let descriptors = fs::read_dir(format!("/proc/{}/fd", served.child.id())).expect("descriptors");
    descriptors
        .flatten()
        .any(|entry| fs::metadata(entry.path()).is_ok_and(|file| file.ino() == inode))
}

/// A client writes and verifies all the time; its requests are all answered.
#[test]
fn a_device_comes_and_goes_while_others_are_served() {
    let served = Served::config(ONE);
    served.bench.file("two.img", vec![2; 1 << 20]);
    let stop = Arc::new(AtomicBool::new(false));
    let load = served.load("a", &stop);
    for round in 0..3 {
        reloads(&served, &format!("{ONE}{TWO}"));
        assert_eq!(exports(&served)[2], ("b".to_owned(), "two".to_owned(), 1 << 20));
        let mut b = client(&served, "b");
        assert_eq!(
            b.read(0, 512).expect("an answer").map(|data| data[0]),
            Ok(if round == 0 { 2 } else { 7 })
        );
        assert_eq!(b.write(0, 0, &[7; 512]).expect("an answer"), 0);
        let stats = json(&served, &["stats"]);
        assert_eq!(stats["devices"][1]["tenants"][1]["path"], "b");
        // What was asked for is answered, and the file is closed.
        let sent = b.send(0, 1, 4096, 512, &[7; 512]).expect("sent");
        reloads(&served, ONE);
        assert_eq!(b.answer().expect("an answer"), (sent, 0));
        assert!(b.answer().is_err(), "it is sent away");
        assert!(!is_open(&served, "two.img") && is_open(&served, "disk.img"));
        assert_eq!(json(&served, &["stats"])["devices"].as_array().map(Vec::len), Some(1));
        assert!(Client::open(&served.bench.path("s"), "b").is_err(), "it is no longer there");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(load.join().expect("every write was answered") > 0);
    served.end();
}

#[test]
fn a_device_that_cannot_be_opened_changes_nothing() {
    let served = Served::config(ONE);
    served.bench.file("two.img", vec![2; 1 << 20]);
    fs::hard_link(served.bench.path("disk.img"), served.bench.path("hard.img")).expect("a link");
    std::os::unix::fs::symlink("disk.img", served.bench.path("soft.img")).expect("a link");
    let third = "[device.three]\ndevice = './none.img'\n[export.c]\ndevice = 'three'\n";
    let (status, stderr) = reload(&served, &format!("{ONE}{TWO}{third}"));
    assert!(status == Some(2) && stderr.contains("device.three.device: ./none.img: "), "{stderr}");
    assert!(!is_open(&served, "two.img"), "what was opened before it is closed");
    for name in ["hard.img", "soft.img", "disk.img"] {
        let same = TWO.replace("two.img", name);
        let (status, stderr) = reload(&served, &format!("{ONE}{same}"));
        assert!(
            status == Some(2) && stderr.contains("device.two.device: is device.one already"),
            "{name}: {stderr}"
        );
        // The same in place of the other.
        let (status, stderr) =
            reload(&served, &format!("listen = 'unix:s'\ncontrol = 'ctl'\n{same}"));
        assert!(
            status == Some(2) && stderr.contains("is device.one, which is served"),
            "{name}: {stderr}"
        );
    }
    assert_eq!(exports(&served).len(), 2);
    served.end();
}

/// A client that has an export open keeps its size; a new connection has the new one.
#[test]
fn what_a_file_has_grown_by_is_served_after_a_reload() {
    for cache in ["", "cache = '1MiB'\n"] {
        let config = ONE.replace("[export.a]", &format!("{cache}[export.a]"));
        let served = Served::config(&config);
        let mut old = client(&served, "rest");
        let (was, now) = (DISK as u64 - (4 << 20), DISK as u64);
        assert_eq!(old.write(0, was - 4096, &[1; 4096]).expect("an answer"), 0);
        assert_ne!(old.write(0, was, &[1; 4096]).expect("an answer"), 0, "beyond the end");
        let file =
            File::options().write(true).open(served.bench.path("disk.img")).expect("the disk");
        file.set_len(DISK as u64 + (4 << 20)).expect("room");
        reloads(&served, &config);
        assert_eq!(exports(&served)[1].2, now);
        assert_eq!(exports(&served)[0].2, 4 << 20, "an export with a size of its own keeps it");
        assert_ne!(
            old.write(0, was, &[1; 4096]).expect("an answer"),
            0,
            "it has the size that it was told"
        );
        assert_eq!(old.write(0, was - 4096, &[2; 4096]).expect("an answer"), 0);
        let mut new = client(&served, "rest");
        assert_eq!(new.write(0, now - 4096, &[3; 4096]).expect("an answer"), 0);
        assert_ne!(new.write(0, now, &[3; 4096]).expect("an answer"), 0);
        assert_eq!(new.read(was - 4096, 4096).expect("an answer").map(|data| data[0]), Ok(2));
        assert_eq!(new.read(was, 4096).expect("an answer").map(|data| data[0]), Ok(0));
        assert_eq!(new.flush().expect("an answer"), 0);
        let bench = served.ended();
        let bytes = fs::read(bench.path("disk.img")).expect("the disk");
        assert_eq!((bytes.len(), bytes[bytes.len() - 1]), (DISK + (4 << 20), 3), "{cache}");
    }
}

/// A client of the old device would see other bytes, so it is sent away.
#[test]
fn an_export_moves_to_another_device() {
    let served = Served::config(ONE);
    served.bench.file("two.img", vec![2; 1 << 20]);
    let mut a = client(&served, "a");
    let mut rest = client(&served, "rest");
    let sent = a.send(0, 1, 0, 512, &[1; 512]).expect("sent");
    let moved = format!(
        "{}{TWO}",
        ONE.replace("device = 'one'\nsize = '4MiB'", "device = 'two'\nsize = '64KiB'")
    );
    reloads(&served, &moved);
    assert_eq!(a.answer().expect("an answer"), (sent, 0));
    assert!(a.answer().is_err(), "it is sent away");
    let mut a = client(&served, "a");
    assert_eq!(a.read(0, 512).expect("an answer").map(|data| data[0]), Ok(2));
    assert_eq!(rest.write(0, 0, &[4; 512]).expect("an answer"), 0, "another goes on");
    // One that was drained stays so.
    assert_eq!(ctl(&served, &["drain", "a"]).0, Some(0));
    reloads(&served, &format!("{ONE}{TWO}"));
    assert!(Client::open(&served.bench.path("s"), "a").is_err());
    assert_eq!(ctl(&served, &["resume", "a"]).0, Some(0));
    assert_eq!(client(&served, "a").read(0, 512).expect("an answer").map(|data| data[0]), Ok(1));
    served.end();
}

const POOL: &str = "\
listen = 'unix:s'
control = 'ctl'
[pool.ssd]
devices = ['one', 'two']
[device.one]
device = './disk.img'
[device.two]
device = 'two.img'
[export.a]
device = 'one'
tenant = 't'
[export.b]
device = 'two'
start = '64KiB'
tenant = 't'
[tenant.t]
limit = { iops = 100, burst_ios = 1 }
";

fn pool(config: &str) -> Served {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("two.img", vec![2; 1 << 20]);
    bench.file("c.toml", config);
    Served::run(bench, &["c.toml"])
}

/// A device more takes a restart, and says so.
#[test]
fn what_a_file_of_a_pool_has_grown_by_is_served_after_a_reload() {
    let served = pool(POOL);
    let file = File::options().write(true).open(served.bench.path("two.img")).expect("the disk");
    file.set_len(3 << 20).expect("room");
    reloads(&served, POOL);
    let size = (3 << 20) - (64 << 10);
    assert_eq!(exports(&served)[1], ("b".to_owned(), "ssd".to_owned(), size));
    let mut b = client(&served, "b");
    assert_eq!(b.write(0, size - 4096, &[3; 4096]).expect("an answer"), 0);
    assert_ne!(b.write(0, size, &[3; 4096]).expect("an answer"), 0, "beyond its end");
    served.bench.file("three.img", vec![3; 1 << 20]);
    let more = POOL.replace("'one', 'two'", "'one', 'two', 'three'")
        + "[device.three]\ndevice = './three.img'\n";
    let (status, stderr) = reload(&served, &more);
    assert_eq!(
        (status, &*stderr),
        (Some(1), "elevon: c.toml: pool.ssd.devices: takes a restart; it stays as it was\n")
    );
    assert_eq!(fs::read(served.ended().path("two.img")).expect("the disk")[(3 << 20) - 1], 3);
}

/// The connections are made anew by `reopen`.
#[test]
fn what_a_disk_of_another_server_has_grown_by_is_served_after_a_reload() {
    let far = Served::config(ONE);
    let address = format!("nbd+unix:///rest?socket={}", far.bench.path("s").display());
    let config = format!(
        "listen = 'unix:s'\ncontrol = 'ctl'\n[device.far]\ndevice = '{address}'\n[export.a]\n"
    );
    let served = Served::config(&config);
    let mut old = client(&served, "a");
    let (was, now) = (DISK as u64 - (4 << 20), DISK as u64);
    File::options()
        .write(true)
        .open(far.bench.path("disk.img"))
        .expect("it")
        .set_len(now + (4 << 20))
        .expect("room");
    reloads(&far, ONE);
    reloads(&served, &config);
    assert_eq!(exports(&served)[0].2, was, "its connections have the old size");
    assert_eq!(ctl(&served, &["reopen", "far"]).0, Some(0));
    reloads(&served, &config);
    assert_eq!(exports(&served)[0].2, now);
    assert_eq!(old.write(0, was - 4096, &[1; 4096]).expect("an answer"), 0);
    let mut new = client(&served, "a");
    assert_eq!(new.write(0, now - 4096, &[3; 4096]).expect("an answer"), 0);
    assert_eq!(new.flush().expect("an answer"), 0);
    served.end();
    let bytes = fs::read(far.ended().path("disk.img")).expect("the disk");
    assert_eq!((bytes[(was + (4 << 20)) as usize - 1], bytes[bytes.len() - 1]), (1, 3));
}

/// The disks of a pool have one scheduler and one tree of tenants, and each has its own bytes.
#[test]
fn a_tenant_has_one_limit_over_the_disks_of_a_pool() {
    let served = pool(POOL);
    let all = [
        ("a".to_owned(), "ssd".to_owned(), DISK as u64),
        ("b".to_owned(), "ssd".to_owned(), (1 << 20) - (64 << 10)),
    ];
    assert_eq!(exports(&served), all);
    let (mut a, mut b) = (client(&served, "a"), client(&served, "b"));
    let began = Instant::now();
    for block in 0..40 {
        let sent = a.send(0, 1, block * 4096, 4096, &[7; 4096]).expect("sent");
        assert_eq!(b.write(0, block * 4096, &[8; 4096]).expect("an answer"), 0);
        assert_eq!(a.answer().expect("an answer"), (sent, 0));
    }
    // Two limits would let them have it in half of the time.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    let stats = json(&served, &["stats"]);
    assert_eq!(stats["devices"].as_array().map(Vec::len), Some(1));
    let tenant = &stats["devices"][0]["tenants"][1];
    assert_eq!((tenant["path"].clone(), tenant["ios"]["write"].as_u64()), ("t".into(), Some(80)));
    assert_eq!(json(&served, &["exports"])["exports"][1]["part"], "two");
    assert_eq!((a.flush().expect("an answer"), b.flush().expect("an answer")), (0, 0));
    // A range of the second file reads as zeroes, and the first keeps its bytes.
    for command in [4, 6] {
        let sent = b.send(0, command, 0, 4096, &[]).expect("sent");
        assert_eq!(b.answer().expect("an answer"), (sent, 0));
    }
    assert_eq!(b.read(0, 4096).expect("an answer"), Ok(vec![0; 4096]));
    assert_ne!(
        b.write(0, (1 << 20) - (64 << 10), &[1; 4096]).expect("an answer"),
        0,
        "beyond its end"
    );
    let bench = served.ended();
    let (one, two) = (fs::read(bench.path("disk.img")), fs::read(bench.path("two.img")));
    let (one, two) = (one.expect("the disk"), two.expect("the other"));
    assert!(
        one.len() == DISK && one[..40 * 4096].iter().all(|byte| *byte == 7) && one[40 * 4096] == 0
    );
    assert_eq!(
        (two.len(), two[65535], two[65536], two[69632], two[1 << 19]),
        (1 << 20, 2, 0, 8, 2)
    );
}

/// What is not limited is served at full depth, through threads as through a ring.
#[test]
fn a_pool_serves_without_io_uring() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("two.img", vec![2; 1 << 20]);
    bench.file("c.toml", POOL.replace("limit = { iops = 100, burst_ios = 1 }", "weight = 100"));
    let Some(mut strace) = elevon_testkit::tool("strace") else { return };
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=io_uring_setup:error=EPERM"]);
    strace.args([env!("CARGO_BIN_EXE_elevon"), "serve", "c.toml"]);
    let served = Served::of_command(bench, strace);
    for (export, byte) in [("a", 3), ("b", 4)] {
        let mut client = client(&served, export);
        assert_eq!(client.write(1, 0, &[byte; 8192]).expect("an answer"), 0);
        assert_eq!(client.read(0, 8192).expect("an answer"), Ok(vec![byte; 8192]));
        assert_eq!(client.flush().expect("an answer"), 0);
    }
    assert_eq!(fs::read(served.bench.path("two.img")).expect("the other")[65536], 4);
    assert_eq!(ctl(&served, &["stop"]).0, Some(0));
}

#[test]
fn what_is_wrong_with_a_pool_is_said_in_a_line() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("two.img", vec![2; 1 << 20]);
    fs::hard_link(bench.path("disk.img"), bench.path("hard.img")).expect("a link");
    for (config, words) in [
        (
            POOL.replace("'two']", "'three']"),
            "c.toml:4:19: pool.ssd.devices: three: no such device",
        ),
        (
            POOL.replace("['one', 'two']", "['one', 'one']"),
            "pool.ssd.devices: one: is in a pool already",
        ),
        (POOL.replace("['one', 'two']", "[]"), "pool.ssd: devices is missing"),
        (
            POOL.replace("'two.img'", "'two.img'\nscheduler = 'bfq'"),
            "device.two: a device of a pool has the keys device and format",
        ),
        (
            POOL.replace("'two.img'", "'hdd-7200'"),
            "device.two.device: a pool has files and block devices only",
        ),
        (POOL.replace("'two.img'", "'./hard.img'"), "device.two.device: is device.one already"),
        (
            POOL.replace("device = 'two'\n", "device = 'ssd'\n"),
            "export.b.device: ssd: no such device",
        ),
        (POOL.replace("'two.img'", "'none/two.img'"), "none/two.img"),
        (POOL.replace("[pool.ssd]", "[pool.ssd]\ncache = '1MiB'"), "pool.ssd.cache: no such key"),
        (
            POOL.replace("start = '64KiB'", "start = '1MiB'"),
            "export.b: begins at byte 1048576; the device has 1048576 bytes",
        ),
    ] {
        bench.file("c.toml", &config);
        for check in [&["--check"][..], &[]] {
            let output =
                bench.elevon(&[&["serve", "c.toml"], check].concat()).output().expect("it ran");
            let stderr = String::from_utf8_lossy(&output.stderr);
            let lines = stderr.lines().filter(|line| line.contains(words)).count();
            assert!(output.status.code() == Some(2) && lines == 1, "{words}: {stderr}");
        }
    }
}

/// Each part of a reload costs little more than in proportion to the exports.
#[test]
fn thousands_of_exports_are_reloaded_at_once() {
    let config = |weight: u32| {
        let mut text =
            "listen = 'unix:s'\ncontrol = 'ctl'\n[device.one]\ndevice = './disk.img'\n".to_owned();
        for n in 0..5000 {
            let place = n * 512;
            let _ = write!(
                text,
                "[export.e{n}]\nstart = '{place}B'\nsize = '512B'\n[tenant.e{n}]\nweight = {weight}\n"
            );
        }
        text
    };
    let mut served = Served::config(&config(100));
    // The address of each export, of which the first is read already.
    for _ in 1..5000 {
        served.line();
    }
    for (round, text) in [
        config(100),
        config(200),
        config(300).replace("size = '512B'", "read_only = true\nsize = '512B'"),
    ]
    .iter()
    .enumerate()
    {
        let began = Instant::now();
        reloads(&served, text);
        // It takes 0.2 s; what is quadratic takes 23 s.
        assert!(began.elapsed() < Duration::from_secs(8), "{round}: {:?}", began.elapsed());
    }
    assert_eq!(exports(&served).len(), 5000);
    served.end();
}

/// Two exports on a simulated device, each with a tenant of these lines.
fn two_exports(device: &str, tenants: [&str; 2]) -> String {
    let mut text = format!("listen = 'unix:s'\n[device.d]\ndevice = '{device}'\n");
    for (at, (name, lines)) in ["a", "b"].into_iter().zip(tenants).enumerate() {
        let _ = write!(
            text,
            "[export.{name}]\ndevice = 'd'\nstart = '{at}GiB'\nsize = '1GiB'\n[tenant.{name}]\n{lines}\n"
        );
    }
    text
}

/// The rule is that of `docs/how-to/choose-a-scheduler.md`, by the kind of the device and by what
/// tenants are given.
#[test]
fn a_check_recommends_what_divides_a_device() {
    let bench = Bench::new();
    let (light, heavy) = ("weight = 100", "weight = 300");
    for (device, tenants, words) in [
        ("hdd-7200", [light, heavy], "device d: aileron divides it, as is recommended: turns"),
        ("sata-ssd-860evo", [light, heavy], "device d: aileron divides it; recommended is bfq: "),
        ("sata-ssd-860evo", [light, light], "device d: aileron divides it, as is recommended: "),
        ("ufs-3.1", [light, heavy], "device d: aileron divides it, as is recommended: it keeps"),
        ("nvme-datacenter", [light, heavy], "device d: aileron divides it; recommended is io.cost"),
        ("ufs-3.1", [light, "reserve = { iops = 100 }"], "divides it, as is recommended: no other"),
    ] {
        bench.file("c.toml", two_exports(device, tenants));
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        let said = ok(&output);
        assert!(said.contains(words), "{device}, {tenants:?}: {said}");
    }
}
