//! The Debian package: it is built of the command under test, and holds what a user expects of one.

mod common;

use std::path::Path;
use std::process::Command;

use common::Bench;

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
