//! The Debian package: it is built of the command under test, and holds what a user expects of one;
//! and the file of the container image.

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

/// The environment variable that has the image built, if its value is `1`: that needs images of
/// others from the network, and takes as long as a release build.
const BUILD_IMAGE: &str = "ELEVON_BUILD_IMAGE";

#[test]
fn the_image_serves_as_a_user_without_privileges() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("packaging/Containerfile")).expect("the file");
    let lines = |keyword: &str| -> Vec<Vec<String>> {
        let of = text.lines().filter_map(|line| line.strip_prefix(keyword)?.strip_prefix(' '));
        of.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let [from_build, from] = &lines("FROM")[..] else { panic!("two stages: {text}") };
    assert_eq!((from_build[1..].join(" ").as_str(), from.len()), ("AS build", 1));
    // The library that the command was linked with is the one that it runs with.
    assert!(from_build[0].ends_with("-bookworm") && from[0].contains("bookworm"));
    assert_eq!(lines("USER"), [["10809:10809"]]);
    assert!(lines("EXPOSE")[0].contains(&"10809".to_owned()));
    for copy in lines("COPY").iter().filter(|copy| copy[0] != "." && !copy[0].starts_with("--from")) {
        let (_, sources) = copy.split_last().expect("source and place");
        assert!(sources.iter().all(|name| root.join(name).exists()), "{copy:?}");
    }
    if std::env::var_os(BUILD_IMAGE).is_none_or(|value| value != "1") {
        println!("skipped: the image is built with {BUILD_IMAGE}=1");
        return;
    }
    let tools = ["podman", "docker"];
    let found =
        tools.into_iter().find(|tool| Command::new(tool).arg("info").output().is_ok_and(|it| it.status.success()));
    let Some(engine) = found else { return elevon_testkit::skip("neither podman nor docker can build the image") };
    let run = |args: &[&str]| {
        let output = Command::new(engine).args(args).current_dir(&root).output().expect("it ran");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["build", "-f", "packaging/Containerfile", "-t", "elevon-test", "."]);
    assert!(run(&["run", "--rm", "elevon-test", "--version"]).starts_with("elevon "));
    assert_eq!(run(&["run", "--rm", "--entrypoint", "/usr/bin/id", "elevon-test", "-u"]).trim(), "10809");
}
