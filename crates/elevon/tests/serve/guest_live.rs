//! Tests what happens to the disks of real guests while they run: shares and priorities, growth,
//! and a disk that is unplugged.
#![cfg(target_arch = "x86_64")]

use crate::common::Bench;
use crate::common::guest::{Guest, GuestImage, Machine};
use crate::common::nbdkit::until;
use crate::common::served::Served;

/// A device of so many milliseconds for each request, with an export for each of two guests.
fn serve(bench: Bench, device: &str) -> Served {
    let config = format!(
        "control = 'ctl'\n[device.d]\n{device}\n\
         [export.vm1]\nsize = '32MiB'\nvhost = 'unix:vm1'\nioprio = 'rt'\n\
         [export.vm2]\nstart = '32MiB'\nsize = '32MiB'\nvhost = 'unix:vm2'\n\
         [tenant.vm1]\nweight = 300\n[tenant.vm2]\nweight = 100\n"
    );
    bench.file("c.toml", config);
    Served::run(bench, &["c.toml"])
}

fn start(image: &GuestImage, served: &Served, name: &str, phase: &str) -> Guest {
    let disk = format!("vhost:{}", served.bench.path(name).display());
    image.start(&disk, &format!("elevon.phase={phase}"))
}

/// Counted by the server: how many reads of the second guest end while 4000 of the first do.
#[test]
fn two_guests_have_shares_by_their_weights() {
    const COUNTED: u64 = 4000;
    let bench = Bench::new();
    let Some(image) = GuestImage::on(Machine::UserMode, &bench.path("")) else { return };
    let device = "device = 'slots:slots=4,latency=2ms,size=64MiB'\nscheduler = 'aileron'";
    let served = serve(bench, device);
    let mut guests = ["vm1", "vm2"].map(|name| start(&image, &served, name, "load"));
    guests.iter_mut().for_each(|guest| _ = guest.wait_for("loads"));
    until("both read", || ["vm1", "vm2"].iter().all(|name| served.answered(name) > 1000));
    let counts = || ["vm1", "vm2"].map(|name| served.answered(name));
    let before = counts();
    until("the first has read", || served.answered("vm1") >= before[0] + COUNTED);
    let after = counts();
    let [one, two] = [0, 1].map(|at| (after[at] - before[at]) as f64);
    let share = one / (one + two);
    println!("{one} and {two} reads: {share:.3}");
    assert!((share - 0.75).abs() <= 0.05 * 0.75, "{share:.3} of {}", one + two);
    drop(guests);
    served.end();
}

/// The same device, and one guest: a program of class RT beside one of class IDLE.
#[test]
fn the_ionice_of_a_program_in_a_guest_reaches_the_device() {
    let bench = Bench::new();
    let Some(image) = GuestImage::on(Machine::UserMode, &bench.path("")) else { return };
    let device = "device = 'slots:slots=4,latency=2ms,size=64MiB'\nscheduler = 'mq-deadline'";
    let served = serve(bench, device);
    let mut guest = start(&image, &served, "vm1", "ionices");
    guest.wait_for("done");
    let rate = |class: &str| guest.all(class)[0].parse::<f64>().expect("a rate");
    let (rt, idle) = (rate("class 1"), rate("class 3"));
    println!("{rt} reads a second of class RT, and {idle} of class IDLE");
    assert!(rt > 5.0 * idle, "{rt} and {idle}");
    served.end();
}

/// Lets the disk of a guest grow by a reload.
fn grow(served: &Served) {
    let config = std::fs::read_to_string(served.bench.path("c.toml")).expect("it is there");
    let grown = config.replacen("size = '32MiB'", "size = '48MiB'", 1);
    // The other export's bytes are shared then, which is a warning.
    served.bench.file("c.toml", grown);
    served.bench.stdout(&["ctl", "ctl", "reload"]);
}

#[test]
fn a_disk_grows_under_a_guest_of_user_mode_linux() {
    let bench = Bench::new();
    let Some(image) = GuestImage::on(Machine::UserMode, &bench.path("")) else { return };
    let served = serve(bench, "device = 'slots:slots=4,latency=10us,size=64MiB'");
    let mut guest = start(&image, &served, "vm1", "watch");
    assert_eq!(guest.wait_for("sectors"), (32 << 11).to_string());
    grow(&served);
    assert_eq!(guest.wait_for("sectors"), (48 << 11).to_string());
    assert_eq!(guest.all("unread"), [""; 0]);
    drop(guest);
    served.end();
}

/// An emulated guest: its disk grows, is unplugged while it is read, and plugged again. A second
/// disk of the server is not touched.
#[test]
fn a_disk_grows_and_is_unplugged_and_plugged_under_an_emulated_guest() {
    let bench = Bench::new();
    let Some(image) = GuestImage::new(&bench.path("")) else { return };
    let served = serve(bench, "device = 'slots:slots=4,latency=10us,size=64MiB'");
    let mut guest = start(&image, &served, "vm1", "watch");
    assert_eq!(guest.wait_for("sectors"), (32 << 11).to_string());
    grow(&served);
    assert_eq!(guest.wait_for("sectors"), (48 << 11).to_string());
    let clients = || {
        let connections = served.bench.stdout(&["ctl", "ctl", "connections"]);
        connections.lines().filter(|line| line.contains(" vm1 ")).count()
    };
    assert_eq!(clients(), 1);
    image.command(r#"{"execute": "device_del", "arguments": {"id": "disk"}}"#).expect("unplugged");
    assert_eq!(guest.wait_for("sectors"), "0", "{}", guest.console());
    // QEMU keeps the connection for the next device, or ends it: either is well.
    let plug = r#"{"execute": "device_add", "arguments":
        {"driver": "vhost-user-blk-pci", "id": "disk", "chardev": "disk", "num-queues": 2, "bus": "plug"}}"#;
    let plug = plug.replace('\n', " ");
    until("QEMU has let the device go", || image.command(&plug).is_ok());
    assert_eq!(guest.wait_for("sectors"), (48 << 11).to_string(), "{}", guest.console());
    assert_eq!(guest.all("unread"), [""; 0]);
    assert_eq!(clients(), 1);
    drop(guest);
    served.end();
}
