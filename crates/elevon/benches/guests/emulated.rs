//! The same guest of Linux with the disk of each server, and with QEMU's own. Its processor is
//! emulated, which takes most of the time.

use crate::guest::GuestImage;
use crate::process::{Server, median};
use crate::{Effort, Place};

/// The cells, in the order in which the guest has them.
const CELLS: [&str; 8] = [
    "4 KiB read, depth 1",
    "4 KiB read, depth 32",
    "4 KiB read, depth 128",
    "256 KiB read, depth 8",
    "4 KiB write, depth 1",
    "4 KiB write, depth 32",
    "4 KiB write, depth 128",
    "256 KiB write, depth 8",
];

/// Boots the guest with each disk in turns, and prints a table.
pub(crate) fn compare(place: &Place, effort: &Effort) {
    if !elevon_testkit::tools(&["qemu-system-x86_64", "qemu-storage-daemon", "busybox", "cpio"]) {
        return;
    }
    let Some(image) = GuestImage::new(place.folder.path()) else { return };
    let _elevon = Server::elevon_alone("Elevon", "none", place, "emulated-elevon");
    let _qemu = Server::qemu("QEMU", "io_uring", place, "emulated-qemu");
    let disks = [
        format!("vhost:{}", place.path("emulated-elevon").display()),
        format!("vhost:{}", place.path("emulated-qemu").display()),
        format!("{},file.locking=off,aio=io_uring", place.disk().display()),
    ];
    let words = format!("elevon.phase=speed elevon.milliseconds={}", effort.seconds * 1e3);
    let mut rates = disks.each_ref().map(|_| CELLS.map(|_| Vec::new()));
    for _ in 0..effort.rounds {
        for (disk, rates) in disks.iter().zip(&mut rates) {
            let mut guest = image.start(disk, &words);
            for cell in rates {
                let rate = guest.wait_for("speed");
                cell.push(rate.parse().unwrap_or_else(|_| panic!("{}", guest.console())));
            }
        }
    }
    println!(
        "| emulated guest, requests a second | Elevon, `none` | qemu-storage-daemon | QEMU's own | times the better |"
    );
    for (at, cell) in CELLS.iter().enumerate() {
        let [elevon, daemon, own] = rates.each_ref().map(|of| median(of[at].clone()));
        let times = elevon / daemon.max(own);
        println!("| {cell} | {elevon:.0} | {daemon:.0} | {own:.0} | {times:.2} |");
    }
}
