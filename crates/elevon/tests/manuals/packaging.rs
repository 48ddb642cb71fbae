//! The Debian package: it is built of the command under test, and holds what a user expects of one;
//! and so is the container image, which is unpacked and run.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Bench;

#[test]
fn a_debian_package_has_pages_and_completions() {
    let Some(_) = elevon_testkit::tool("dpkg-deb") else { return };
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian.sh");
    let mut build = Command::new(script);
    build.arg(env!("CARGO_BIN_EXE_elevon")).arg(bench.path("out"));
    // Compressing it is most of the time that it takes.
    let built = build.env("DPKG_DEB_COMPRESSOR_TYPE", "none").output().expect("bash");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let package = String::from_utf8(built.stdout).expect("a path");
    let listed =
        Command::new("dpkg-deb").args(["--contents", package.trim()]).output().expect("dpkg-deb");
    let listed = String::from_utf8_lossy(&listed.stdout);
    for name in [
        "./usr/bin/elevon",
        "./usr/share/man/man1/elevon-run.1.gz",
        "./usr/share/bash-completion/completions/elevon",
        "./usr/share/zsh/vendor-completions/_elevon",
        "./usr/share/fish/vendor_completions.d/elevon.fish",
        "./usr/lib/systemd/system/elevon-serve@.service",
        "./usr/lib/systemd/system/elevon-serve@.socket",
        "./usr/lib/sysusers.d/elevon.conf",
        "./usr/lib/tmpfiles.d/elevon.conf",
        "./etc/elevon/example.toml",
        "./usr/share/elevon/monitoring/elevon-watch.rules.yml",
        "./usr/share/doc/elevon/copyright",
        "./usr/share/doc/elevon/docs/reference/sweep.md",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{name} is not in\n{listed}");
    }
    assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
    // Unpacked, it runs.
    let root = bench.path("root");
    let unpacked = Command::new("dpkg-deb").args(["--extract", package.trim()]).arg(&root).status();
    assert!(unpacked.expect("dpkg-deb").success());
    let version = Command::new(root.join("usr/bin/elevon"))
        .arg("--version")
        .output()
        .expect("the packaged command");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("elevon "));
}

/// The script is a service of the Debian, which is switched off after it.
const SERVICE: &str = "\
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /out/debian.sh
ExecStopPost=/bin/systemctl --no-block poweroff
";

/// How a container is run: nothing that it writes is kept.
const NSPAWN: [&str; 4] = ["--quiet", "--register=no", "--keep-unit", "--volatile=overlay"];

/// Returns a folder with an unpacked Debian (`.ci/run` makes it), if this process can boot it.
fn debian() -> Option<PathBuf> {
    if std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
        elevon_testkit::denied("only root can boot a container");
        return None;
    }
    elevon_testkit::tool("dpkg-deb")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debian");
    // CI may be a container itself, or have no mirror of Debian. Then it goes without this test.
    if !root.join("usr/lib/systemd/systemd").exists() {
        println!(
            "skipped: target/debian is no Debian with systemd: debootstrap makes one, see .ci/run"
        );
        return None;
    }
    let mut probe = elevon_testkit::tool("systemd-nspawn")?;
    probe.args(NSPAWN).arg("--directory").arg(&root).arg("/bin/true");
    let probe = probe.stdin(std::process::Stdio::null()).output().expect("systemd-nspawn ran");
    if !probe.status.success() {
        println!(
            "skipped: no container runs here: {}",
            String::from_utf8_lossy(&probe.stderr).trim_end()
        );
        return None;
    }
    Some(root)
}

/// Makes a package of a later version of another.
fn upgrade(bench: &Bench, package: &str) {
    let (root, control) = (bench.path("unpacked"), bench.path("unpacked/DEBIAN/control"));
    let unpacked = Command::new("dpkg-deb")
        .args(["--raw-extract", package])
        .arg(&root)
        .status()
        .expect("dpkg-deb");
    let text = std::fs::read_to_string(&control)
        .expect("a control file")
        .replacen("\nArch", "+1\nArch", 1);
    std::fs::write(&control, text).expect("written");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&root).arg(bench.path("out/upgrade.deb"));
    let built = build.env("DPKG_DEB_COMPRESSOR_TYPE", "none").output().expect("dpkg-deb");
    assert!(unpacked.success() && built.status.success());
}

/// A virtual machine's user, who is in the group `disk`, is served from the installation on, and
/// loses no disk by an upgrade.
#[test]
fn the_package_serves_a_virtual_machine_in_a_booted_debian() {
    let (Some(root), Some(mut boot)) = (debian(), elevon_testkit::tool("timeout")) else { return };
    let bench = Bench::new();
    let out = bench.path("out");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian.sh");
    let mut build = Command::new(script);
    build.arg(env!("CARGO_BIN_EXE_elevon")).arg(&out);
    let built = build.env("DPKG_DEB_COMPRESSOR_TYPE", "none").output().expect("bash");
    let package = String::from_utf8(built.stdout).expect("a path").trim().to_owned();
    std::fs::rename(&package, out.join("elevon.deb")).expect("renamed");
    upgrade(&bench, &out.join("elevon.deb").display().to_string());
    bench.file("out/debian.sh", include_str!("debian.sh"));
    bench.file("test.service", SERVICE);
    boot.args(["300", "systemd-nspawn", "--boot"]).args(NSPAWN);
    boot.arg("--directory").arg(root).arg("--bind").arg(format!("{}:/out", out.display()));
    // A unit that is wanted already.
    let unit = "/lib/systemd/system/e2scrub_reap.service";
    boot.arg("--bind-ro").arg(format!("{}:{unit}", bench.path("test.service").display()));
    let console = boot.stdin(std::process::Stdio::null()).output().expect("systemd-nspawn ran");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let (said, log) = (read("said"), read("log"));
    let size = 64 << 20;
    let expected = [
        "user elevon disk".to_owned(),
        "folder drwxrwx--- elevon:disk".to_owned(),
        "example is right".to_owned(),
        format!("start active {size} {size} {size}"),
        "socket elevon:disk elevon:disk".to_owned(),
        "nobody else".to_owned(),
        format!("restart {size}"),
        "reload 3".to_owned(),
        format!("upgrade {}+1 {size}", env!("CARGO_PKG_VERSION")),
        format!("upgraded {size}"),
        format!("activation {size} {size} {size} 660 disk"),
        format!("again {size}"),
        "bad 2 0".to_owned(),
        "purge inactive inactive ".to_owned(),
        "left ".to_owned(),
        "disks example.img".to_owned(),
    ];
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, expected, "{log}{}", String::from_utf8_lossy(&console.stdout));
}

/// Builds an image of the command under test, and returns the bytes of its archive.
fn image(bench: &Bench, name: &str) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/image.sh");
    let mut build = Command::new(script);
    build
        .arg(env!("CARGO_BIN_EXE_elevon"))
        .arg(bench.path(name))
        .env("SOURCE_DATE_EPOCH", "1700000000");
    let built = build.output().expect("bash");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::read(bench.path(name)).expect("an archive")
}

/// Runs a command that has to succeed, and returns what it printed.
fn said(command: &mut Command) -> String {
    let output = command.output().expect("it ran");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Unpacked, and run by a user of a namespace who is nobody here, as podman and docker run it.
#[test]
fn an_image_runs_as_a_user_without_privileges() {
    if !elevon_testkit::tools(&["umoci", "skopeo", "bwrap"]) {
        return;
    }
    let bench = Bench::new();
    let skopeo = |args: &[&str]| {
        said(Command::new("skopeo").current_dir(bench.path("")).arg("--insecure-policy").args(args))
    };
    assert!(
        image(&bench, "image.tar") == image(&bench, "again.tar"),
        "the same input gives the same bytes"
    );
    // skopeo reads archives as podman does.
    let config: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", "--config", "oci-archive:image.tar"]))
            .expect("JSON");
    let expected = serde_json::json!({
        "User": "10809:10809",
        "ExposedPorts": {"10809/tcp": {}, "9464/tcp": {}},
        "Entrypoint": ["/usr/bin/elevon"],
        "Cmd": ["serve", "/etc/elevon/serve.toml"],
        "Volumes": {"/disks": {}},
        "WorkingDir": "/disks",
    });
    assert_eq!(config["config"], expected);
    skopeo(&["copy", "oci-archive:image.tar", "oci:image:it"]);
    let manifest: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", "--raw", "oci:image:it"])).expect("JSON");
    let layer = manifest["layers"][0]["digest"].as_str().expect("one layer").replace(':', "/");
    let listed = said(
        Command::new("tar")
            .args(["--numeric-owner", "-tvzf"])
            .arg(bench.path("image/blobs").join(layer)),
    );
    for line in listed.lines() {
        let owner = if line.ends_with("./disks/") { " 10809/10809 " } else { " 0/0 " };
        assert!(line.contains(owner), "{line}");
    }
    for name in ["elevon/docs/reference/serve.md", "elevon/LICENSE-MIT", "elevon/README.md"] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{name} is not in\n{listed}");
    }
    let unpack = ["unpack", "--rootless", "--image", "image:it", "bundle"];
    said(Command::new("umoci").current_dir(bench.path("")).args(unpack));
    let root = bench.path("bundle/rootfs");
    std::fs::write(root.join("disks/job.fio"), "[a]\nrw=randwrite\ndirect=1\nsize=1m\n")
        .expect("written");
    let run = |args: &[&str]| {
        let mut inside = Command::new("bwrap");
        inside.args([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-net",
            "--uid",
            "10809",
            "--gid",
            "10809",
        ]);
        inside
            .arg("--bind")
            .arg(&root)
            .args(["/", "--proc", "/proc", "--dev", "/dev", "--chdir", "/disks"]);
        said(inside.args(["--clearenv", "/usr/bin/elevon"]).args(args))
    };
    assert!(run(&["--version"]).starts_with("elevon "));
    assert!(
        run(&["run", "job.fio", "--device", "./disk.img"]).contains("(1024KiB/"),
        "it writes to the volume"
    );
}
