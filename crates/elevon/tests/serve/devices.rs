//! Tests that devices come, grow and go by a reload, and that no export loses a byte by it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::nbd::Client;
use crate::common::served::{DISK, Served};
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
    let text = |export: &serde_json::Value, key: &str| export[key].as_str().expect("a text").to_owned();
    all.iter().map(|e| (text(e, "name"), text(e, "device"), e["size"].as_u64().expect("bytes"))).collect()
}

/// Returns true if this process, or a child of it, has a file open.
fn is_open(served: &Served, name: &str) -> bool {
    let inode = fs::metadata(served.bench.path(name)).expect("a file").ino();
    let descriptors = fs::read_dir(format!("/proc/{}/fd", served.child.id())).expect("descriptors");
    descriptors.flatten().any(|entry| fs::metadata(entry.path()).is_ok_and(|file| file.ino() == inode))
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
        assert_eq!(b.read(0, 512).expect("an answer").map(|data| data[0]), Ok(if round == 0 { 2 } else { 7 }));
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
        assert!(status == Some(2) && stderr.contains("device.two.device: is device.one already"), "{name}: {stderr}");
        // The same in place of the other.
        let (status, stderr) = reload(&served, &format!("listen = 'unix:s'\ncontrol = 'ctl'\n{same}"));
        assert!(status == Some(2) && stderr.contains("is device.one, which is served"), "{name}: {stderr}");
    }
    assert_eq!(exports(&served).len(), 2);
    served.end();
}

/// Who has an export open keeps its size; a new connection has the new one.
#[test]
fn what_a_file_has_grown_by_is_served_after_a_reload() {
    for cache in ["", "cache = '1MiB'\n"] {
        let config = ONE.replace("[export.a]", &format!("{cache}[export.a]"));
        let served = Served::config(&config);
        let mut old = client(&served, "rest");
        let (was, now) = (DISK as u64 - (4 << 20), DISK as u64);
        assert_eq!(old.write(0, was - 4096, &[1; 4096]).expect("an answer"), 0);
        assert_ne!(old.write(0, was, &[1; 4096]).expect("an answer"), 0, "beyond the end");
        let file = File::options().write(true).open(served.bench.path("disk.img")).expect("the disk");
        file.set_len(DISK as u64 + (4 << 20)).expect("room");
        reloads(&served, &config);
        assert_eq!(exports(&served)[1].2, now);
        assert_eq!(exports(&served)[0].2, 4 << 20, "an export with a size of its own keeps it");
        assert_ne!(old.write(0, was, &[1; 4096]).expect("an answer"), 0, "it has the size that it was told");
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
    let moved = format!("{}{TWO}", ONE.replace("device = 'one'\nsize = '4MiB'", "device = 'two'\nsize = '64KiB'"));
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

/// Each part of a reload costs little more than in proportion to the exports.
#[test]
fn thousands_of_exports_are_reloaded_at_once() {
    let config = |weight: u32| {
        let mut text = "listen = 'unix:s'\ncontrol = 'ctl'\n[device.one]\ndevice = './disk.img'\n".to_owned();
        for n in 0..5000 {
            let place = n * 512;
            let _ =
                write!(text, "[export.e{n}]\nstart = '{place}B'\nsize = '512B'\n[tenant.e{n}]\nweight = {weight}\n");
        }
        text
    };
    let mut served = Served::config(&config(100));
    // The address of each export, of which the first is read already.
    for _ in 1..5000 {
        served.line();
    }
    for (round, text) in
        [config(100), config(200), config(300).replace("'512B'", "'512B'\nread_only = true")].iter().enumerate()
    {
        let began = Instant::now();
        reloads(&served, text);
        // It takes 0.2 s; what is quadratic takes 23 s.
        assert!(began.elapsed() < Duration::from_secs(8), "{round}: {:?}", began.elapsed());
    }
    assert_eq!(exports(&served).len(), 5000);
    served.end();
}
