//! Tests a real Linux guest on a disk that `elevon serve` gives it: a file system is made and
//! written, guest and server are killed together, and what was synced is there.
#![cfg(target_arch = "x86_64")]

use std::fs::File;

use crate::common::Bench;
use crate::common::guest::{Guest, GuestImage, Machine};
use crate::common::served::Served;

/// Files that are written and synced before the power is cut.
const SYNCED: u64 = 25;

fn disk_of(served: &Served) -> String {
    format!("nbd:unix:{}", served.bench.path("s").display())
}

#[test]
fn what_a_guest_synced_outlives_guest_and_server() {
    killed_and_started_again(&["--scheduler", "mq-deadline"]);
}

/// What the guest synced is no longer in the server's memory alone. Memory for less than fio
/// writes, so that pages are written back before a flush, too.
#[test]
fn what_a_guest_synced_outlives_a_server_with_a_page_cache() {
    killed_and_started_again(&["--scheduler", "aileron", "--cache", "6MiB"]);
}

/// The disk is of vhost-user, and the guest a process of this machine: its kernel gives a disk up
/// whose server is gone.
#[test]
fn what_a_guest_of_vhost_synced_outlives_guest_and_server() {
    let bench = Bench::new();
    let Some(image) = GuestImage::on(Machine::UserMode, &bench.path("")) else { return };
    let (mut served, disk) = serve_vhost(bench);
    let mut guest = image.start(&disk, "elevon.phase=write");
    guest.wait_for("mounted");
    assert_eq!(guest.wait_for("fio"), "0", "fio verifies what it wrote: {}", guest.console());
    while guest.wait_for("synced").parse::<u64>().expect("a number") < SYNCED {}
    served.child.kill().expect("it runs");
    served.child.wait().expect("it ended");
    guest.kill();
    let (served, disk) = serve_vhost(std::mem::replace(&mut served.bench, Bench::new()));
    check(&image, &disk, last_synced(&guest));
    served.end();
}

/// The server is killed twice while the guest writes, which goes on with the next server.
#[test]
fn a_guest_of_vhost_goes_on_with_the_next_server() {
    let bench = Bench::new();
    let Some(image) = GuestImage::new(&bench.path("")) else { return };
    let (mut served, disk) = serve_vhost(bench);
    let mut guest = image.start(&disk, "elevon.phase=write");
    guest.wait_for("mounted");
    for kill in 1..=2 {
        served.child.kill().expect("it runs");
        served.child.wait().expect("it ended");
        served = serve_vhost(std::mem::replace(&mut served.bench, Bench::new())).0;
        if kill == 1 {
            assert_eq!(guest.wait_for("fio"), "0", "while fio verifies: {}", guest.console());
        }
        guest.wait_for("synced");
    }
    while guest.wait_for("synced").parse::<u64>().expect("a number") < SYNCED {}
    guest.kill();
    check(&image, &disk, last_synced(&guest));
    served.end();
}

/// Serves a disk to a guest, and returns its name.
fn serve_vhost(bench: Bench) -> (Served, String) {
    let mut options = File::options();
    let disk = options.create(true).truncate(false).write(true).open(bench.path("disk.img"));
    let disk = disk.expect("a file");
    disk.set_len(128 << 20).expect("a sparse file");
    let config = "[device.d]\ndevice = 'disk.img'\n[export.vm]\nvhost = 'unix:vm'\n";
    bench.file("c.toml", config);
    let served = Served::run(bench, &["c.toml"]);
    let disk = format!("vhost:{}", served.bench.path("vm").display());
    (served, disk)
}

/// Returns the last file that a guest has synced. The last line may have been cut.
fn last_synced(guest: &Guest) -> u64 {
    let all = guest.all("synced");
    let synced = all.iter().rev().skip(1).find_map(|number| number.parse().ok());
    synced.expect("some were")
}

/// Lets a guest look at what another one has synced.
fn check(image: &GuestImage, disk: &str, synced: u64) {
    let mut guest = image.start(disk, &format!("elevon.phase=check elevon.synced={synced}"));
    assert_eq!(guest.wait_for("compared"), synced.to_string());
    assert_eq!(guest.all("lost"), [""; 0]);
    assert_eq!(guest.wait_for("fsck"), "0", "{}", guest.console());
    guest.wait_for("done");
}

fn killed_and_started_again(options: &[&str]) {
    let bench = Bench::new();
    let Some(image) = GuestImage::new(&bench.path("")) else { return };
    let disk = File::create(bench.path("disk.img")).expect("a file");
    disk.set_len(128 << 20).expect("a sparse file");
    let args = [&["disk.img", "--listen", "unix:s", "--control", "ctl"], options].concat();
    let mut served = Served::run(bench, &args);
    let mut guest = image.start(&disk_of(&served), "elevon.phase=write");
    guest.wait_for("mounted");
    assert_eq!(guest.wait_for("fio"), "0", "fio verifies what it wrote: {}", guest.console());
    while guest.wait_for("synced").parse::<u64>().expect("a number") < SYNCED {}
    let stats = served.bench.stdout(&["ctl", "ctl", "stats"]);
    assert_eq!(stats.contains("page cache, write-back: "), options.contains(&"--cache"), "{stats}");
    // The server dies first: the guest is in the middle of its next write.
    served.child.kill().expect("it runs");
    served.child.wait().expect("it ended");
    guest.kill();
    let synced = last_synced(&guest);
    assert!(synced + 1 >= SYNCED);

    let served = Served::run(std::mem::replace(&mut served.bench, Bench::new()), &args);
    check(&image, &disk_of(&served), synced);
    served.end();
}
