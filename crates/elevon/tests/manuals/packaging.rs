//! The Debian package: it is built of the command under test, and holds what a user expects of one;
//! and so is the container image, which is unpacked and run.

use std::path::Path;
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
    let listed = Command::new("dpkg-deb").args(["--contents", package.trim()]).output().expect("dpkg-deb");
    let listed = String::from_utf8_lossy(&listed.stdout);
    for name in [
        "./usr/bin/elevon",
        "./usr/share/man/man1/elevon-run.1.gz",
        "./usr/share/bash-completion/completions/elevon",
        "./usr/share/zsh/vendor-completions/_elevon",
        "./usr/share/fish/vendor_completions.d/elevon.fish",
        "./usr/lib/systemd/system/elevon-serve@.service",
        "./usr/lib/systemd/system/elevon-serve@.socket",
        "./usr/share/doc/elevon/copyright",
        "./usr/share/doc/elevon/docs/sweep.md",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{name} is not in\n{listed}");
    }
    assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
    // Unpacked, it runs.
    let root = bench.path("root");
    let unpacked = Command::new("dpkg-deb").args(["--extract", package.trim()]).arg(&root).status();
    assert!(unpacked.expect("dpkg-deb").success());
    let version = Command::new(root.join("usr/bin/elevon")).arg("--version").output().expect("the packaged command");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("elevon "));
}

/// Builds an image of the command under test, and returns the bytes of its archive.
fn image(bench: &Bench, name: &str) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/image.sh");
    let mut build = Command::new(script);
    build.arg(env!("CARGO_BIN_EXE_elevon")).arg(bench.path(name)).env("SOURCE_DATE_EPOCH", "1700000000");
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
    let skopeo =
        |args: &[&str]| said(Command::new("skopeo").current_dir(bench.path("")).arg("--insecure-policy").args(args));
    assert!(image(&bench, "image.tar") == image(&bench, "again.tar"), "the same input gives the same bytes");
    // skopeo reads archives as podman does.
    let config: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", "--config", "oci-archive:image.tar"])).expect("JSON");
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
    let listed =
        said(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(bench.path("image/blobs").join(layer)));
    for line in listed.lines() {
        let owner = if line.ends_with("./disks/") { " 10809/10809 " } else { " 0/0 " };
        assert!(line.contains(owner), "{line}");
    }
    for name in ["elevon/docs/serve.md", "elevon/LICENSE-MIT", "elevon/README.md"] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{name} is not in\n{listed}");
    }
    let unpack = ["unpack", "--rootless", "--image", "image:it", "bundle"];
    said(Command::new("umoci").current_dir(bench.path("")).args(unpack));
    let root = bench.path("bundle/rootfs");
    std::fs::write(root.join("disks/job.fio"), "[a]\nrw=randwrite\ndirect=1\nsize=1m\n").expect("written");
    let run = |args: &[&str]| {
        let mut inside = Command::new("bwrap");
        inside.args(["--unshare-user", "--unshare-pid", "--unshare-net", "--uid", "10809", "--gid", "10809"]);
        inside.arg("--bind").arg(&root).args(["/", "--proc", "/proc", "--dev", "/dev", "--chdir", "/disks"]);
        said(inside.args(["--clearenv", "/usr/bin/elevon"]).args(args))
    };
    assert!(run(&["--version"]).starts_with("elevon "));
    assert!(run(&["run", "job.fio", "--device", "./disk.img"]).contains("(1024KiB/"), "it writes to the volume");
}
