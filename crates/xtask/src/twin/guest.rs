//! A guest: a user-mode kernel in virtual time, its file system, and one run of a script in it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use elevon_twin::one_cpu::OneCpu;
use tempfile::TempDir;

use super::kernels::{SOURCES, built};

/// Memory of the guest. Pages that it does not touch cost nothing.
const MEMORY: &str = "mem=512M";
/// The first version that runs a process by seccomp, which is four times as fast as by ptrace.
const FIRST_WITH_SECCOMP: (u32, u32) = (6, 16);

/// Makes the guest's file system, `initramfs.cpio`: busybox, the load generator and a first
/// process, which runs `/host/script`.
///
/// # Errors
/// A program is missing or fails.
pub fn make_initramfs(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let root = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
    let to = std::path::absolute(folder.join("initramfs.cpio"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let script = "set -e; root=$1; sources=$2; to=$3\n\
        mkdir -p $root/bin $root/dev $root/proc $root/sys $root/tmp $root/host $root/cgroup\n\
        cp \"$(command -v busybox)\" $root/bin/busybox\n\
        cp $sources/init $root/init; chmod 755 $root/init\n\
        gcc -O2 -Wall -Wextra -Werror -static -o $root/bin/load $sources/load.c\n\
        cd $root; find . | LC_ALL=C sort | cpio --quiet -o -H newc --reproducible >\"$to.new\"\n\
        mv \"$to.new\" \"$to\"";
    let status = Command::new("bash")
        .args(["-c", script, "initramfs"])
        .arg(root.path())
        .arg(SOURCES)
        .arg(&to)
        .status()
        .map_err(|error| format!("bash: {error}"))?;
    if status.success() { Ok(()) } else { Err(String::from("the guest's file system: not made")) }
}

/// Returns what a built kernel calls itself, such as `7.3.4`.
///
/// # Errors
/// The kernel does not run.
pub fn release(version: &str) -> Result<String, String> {
    let folder = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
    let lines = run(version, folder.path(), "uname -r\n", Duration::from_secs(60))?;
    lines.lines().next().map(str::to_owned).ok_or(format!("Linux {version} says nothing"))
}

/// Runs a script in a guest and returns what it prints. `folder` is the guest's `/host`.
///
/// # Errors
/// The kernel is not built, does not start, or does not end within `limit` of real time.
pub fn run(version: &str, folder: &Path, script: &str, limit: Duration) -> Result<String, String> {
    let [kernel, files] = built(version)?;
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| format!("{}: {error}", path.display())
    };
    let folder = fs::canonicalize(folder).map_err(io(folder))?;
    let path = folder.join("script");
    fs::write(&path, script).map_err(io(&path))?;
    let output = folder.join("output");
    let to = File::create(&output).map_err(io(&output))?;
    let errors = to.try_clone().map_err(io(&output))?;
    let mut command = Command::new(&kernel);
    command
        .args([MEMORY, "con=null", "con0=null,fd:2", "con1=fd:0,fd:1", "root=/dev/ram0"])
        .args(["rdinit=/init", "quiet", "time-travel=inf-cpu"])
        .arg(format!("initrd={}", files.display()))
        .arg(format!("host={}", folder.display()));
    if has_seccomp(version) {
        command.arg("seccomp=on");
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        command.env("TMPDIR", memory);
    }
    command.stdin(Stdio::null()).stdout(to).stderr(errors);
    let on_one_cpu = OneCpu::enter();
    let mut child = command.spawn().map_err(io(&kernel))?;
    drop(on_one_cpu);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io(&kernel))? {
            break status;
        }
        if began.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("Linux {version} did not end within {} s", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = fs::read(&output).map_err(io(&output))?;
    let said = String::from_utf8_lossy(&said).replace('\r', "");
    let (before, after) = said.split_once("TWIN BEGINS\n").unwrap_or((&said, ""));
    match after.split_once("TWIN ENDS\n") {
        Some((printed, _)) => Ok(printed.to_owned()),
        None => {
            let last = if after.is_empty() { before } else { after };
            let last: Vec<&str> = last.lines().rev().take(3).collect();
            Err(format!("Linux {version} stopped ({status}): {}", last.join(" | ")))
        }
    }
}

fn has_seccomp(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= FIRST_WITH_SECCOMP
}

/// Returns a folder for the files of a guest.
///
/// # Errors
/// It cannot be made.
pub fn folder() -> Result<(TempDir, PathBuf), String> {
    let folder = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
    let path = folder.path().to_owned();
    Ok((folder, path))
}
