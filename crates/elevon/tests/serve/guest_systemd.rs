//! Tests the units under a real systemd, which is the init of a guest: activation, readiness, a
//! reload, a server that is killed, the end, and what the sandbox keeps from a server.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::Bench;
use crate::common::guest::GuestImage;

/// The script, when everything else is up.
const SCRIPT: &str = "\
[Unit]
After=basic.target multi-user.target
DefaultDependencies=no
[Service]
Type=oneshot
Environment=PATH=/bin
ExecStart=/bin/sh /systemd.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
";

/// A shell in place of the server.
const PROBE: &str = "\
[Service]
Type=oneshot
ExecStart=
ExecStart=/bin/sh /probe.sh
Environment=PATH=/bin
StandardOutput=append:/run/probe.out
";

const DISKS: &str = "\
control = '/run/elevon/disks.ctl'
[device.file]
device = './file.img'
[device.block]
device = '/dev/vda'
[export.file]
device = 'file'
[export.block]
device = 'block'
";

/// What a shell tries; a server may do the first two.
const PROBED: [&str; 13] = [
    "write-its-state",
    "read-the-disk",
    "write-etc",
    "write-usr",
    "write-srv",
    "see-home",
    "see-others",
    "open-the-console",
    "mount",
    "make-a-namespace",
    "give-to-root",
    "change-the-kernel",
    "set-the-clock",
];

fn image(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    File::create(path).and_then(|file| file.set_len(8 << 20)).expect("a sparse file");
}

/// Adds what the guest of this test has.
fn fill(root: &Path) {
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    };
    let users = "elevon:x:990:990::/var/lib/elevon:/bin/false\nvm:x:1000:1000::/:/bin/sh\n";
    write(
        "etc/passwd",
        &format!("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n{users}"),
    );
    write(
        "etc/group",
        "root:x:0:\ndisk:x:6:elevon,vm\nelevon:x:990:\nvm:x:1000:\nnogroup:x:65534:\n",
    );
    write("etc/nsswitch.conf", "passwd: files\ngroup: files\n");
    // Otherwise it is the first boot, which enables all there is.
    write("etc/machine-id", "00112233445566778899aabbccddeeff\n");
    write("etc/os-release", "ID=guest\n");
    write("root/secret", "");
    write("systemd.sh", include_str!("guest/systemd.sh"));
    write("probe.sh", include_str!("guest/probe.sh"));
    write("etc/systemd/system/script.service", SCRIPT);
    write("etc/systemd/system/elevon-serve@probe.service.d/probe.conf", PROBE);
    // Its status stays to be looked at.
    write("etc/systemd/system/elevon-serve@outside.service.d/once.conf", "[Service]\nRestart=no\n");
    write("etc/elevon/disks.toml", DISKS);
    let outside = "listen = 'unix:/run/elevon/outside.sock'\n[device.d]\ndevice = '/srv/outside.img'\n[export.d]\n";
    write("etc/elevon/outside.toml", outside);
    image(&root.join("var/lib/elevon/file.img"));
    image(&root.join("srv/outside.img"));
    fs::set_permissions(root.join("srv/outside.img"), Permissions::from_mode(0o666))
        .expect("a mode");
    let system = root.join("etc/systemd/system");
    symlink("/usr/lib/systemd/system/multi-user.target", system.join("default.target"))
        .expect("a link");
    fs::create_dir_all(system.join("multi-user.target.wants")).expect("a folder");
    symlink("../script.service", system.join("multi-user.target.wants/script.service"))
        .expect("a link");
}

#[test]
fn the_units_work_under_systemd_in_their_sandbox() {
    let bench = Bench::new();
    image(&bench.path("disk.img"));
    let Some(built) = GuestImage::with_systemd(&bench.path(""), fill) else { return };
    let words = "systemd.show_status=0 systemd.log_level=warning systemd.log_target=console";
    let mut guest = built.start(&bench.path("disk.img").display().to_string(), words);
    assert_eq!(guest.wait_for("booted"), "active active");
    // Ready means that systemd was told: the unit is of the type notify.
    assert_eq!(guest.wait_for("before"), "inactive", "nobody has asked for a disk");
    guest.wait_for("state");
    assert_eq!(
        guest.all("copied").len(),
        2,
        "to a file and to a block device: {}",
        guest.console()
    );
    assert_eq!(guest.all("state"), ["active 2 exports"]);
    assert_eq!(guest.wait_for("user"), "elevon:disk");
    assert_eq!(guest.wait_for("vm"), "8388608 8388608 8388608", "{}", guest.console());
    guest.wait_for("other");
    assert_eq!(
        guest.all("vm")[1],
        "8388608 660 disk",
        "its socket keeps its group: {}",
        guest.console()
    );
    assert_eq!(
        guest.all("other"),
        ["1"],
        "one who is not in the group cannot connect: {}",
        guest.console()
    );
    assert_eq!(guest.wait_for("reloaded"), "3", "exports");
    guest.wait_for("told");
    assert_eq!(guest.wait_for("again"), "1", "it was started again once");
    assert_eq!(guest.wait_for("stopped"), "inactive success 0");
    assert_eq!(
        guest.wait_for("outside"),
        "2",
        "as on every file that it cannot open: {}",
        guest.console()
    );
    assert_eq!(guest.wait_for("inside"), "active", "the drop-in lets it write there");
    assert_eq!(guest.wait_for("probed"), "success", "{}", guest.console());
    let (allowed, refused) = PROBED.split_at(2);
    assert_eq!(
        (&guest.all("can")[..], &guest.all("refused")[..]),
        (allowed, refused),
        "{}",
        guest.console()
    );
    assert_eq!(guest.all("wrong"), [""; 0]);
    guest.wait_for("done");
    assert_eq!(guest.all("can")[2..], PROBED, "without the sandbox: {}", guest.console());
}
