//! Tests a real Linux guest on a disk that `elevon serve` gives it: a file system is made and
//! written, guest and server are killed together, and what was synced is there.
#![cfg(target_arch = "x86_64")]

use std::fs::File;

use crate::common::Bench;
use crate::common::guest::GuestImage;
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
    // The last line may have been cut.
    let all = guest.all("synced");
    let synced: u64 =
        all.iter().rev().skip(1).find_map(|number| number.parse().ok()).expect("some were");
    assert!(synced + 1 >= SYNCED);

    let served = Served::run(std::mem::replace(&mut served.bench, Bench::new()), &args);
    let words = format!("elevon.phase=check elevon.synced={synced}");
    let mut guest = image.start(&disk_of(&served), &words);
    assert_eq!(guest.wait_for("compared"), synced.to_string());
    assert_eq!(guest.all("lost"), [""; 0]);
    assert_eq!(guest.wait_for("fsck"), "0", "{}", guest.console());
    guest.wait_for("done");
    drop(guest);
    served.end();
}
