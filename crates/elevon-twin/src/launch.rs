//! The start of a kernel's process.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};

use landlock::{
    ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::error::TwinError;
use crate::machine::Process;
use crate::script;
use crate::settings::Settings;

/// Checks that the host has what the kernel needs.
pub(crate) fn check_host(settings: &Settings) -> Result<(), TwinError> {
    let needed = settings.memory >> 20;
    if let Ok(room) = rustix::fs::statvfs("/dev/shm") {
        let free = (room.f_bavail * room.f_frsize) >> 20;
        if free < needed {
            return Err(TwinError::NoRoom { free, needed });
        }
    }
    if let Some(maker) = settings.system.maker() {
        let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
        if !folders.iter().any(|folder| Path::new(folder).join(maker).exists()) {
            return Err(TwinError::NoTool(maker));
        }
    }
    Ok(())
}

/// Starts the kernel with a pipe in which nothing comes, as the keys of its first terminal.
const WITH_IDLE_CONSOLE: &str = r#"mkfifo idle && exec "$0" "$@" 3<>idle"#;

/// Starts the kernel with the sockets and the script in `folder`. The kernel's random numbers
/// depend on its command line, so that names no folder of this run.
pub(crate) fn start(settings: &Settings, folder: &Path, depth: u32) -> Result<Process, TwinError> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", WITH_IDLE_CONSOLE])
        .arg(&settings.kernel)
        .arg(format!("mem={}M", settings.memory >> 20))
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"])
        .args(["con=none", "ssl=none", "con0=fd:3,fd:2", "con1=fd:0,fd:1"])
        .args(["seccomp=auto", "norandmaps", "random.trust_cpu=off"])
        .args(["uml_dir=./", "umid=kernel", "time-travel=ext:clock", "virtio_uml.device=disk:2"])
        .arg(format!("virtio_blk.queue_depth={}", depth.clamp(4, 256)))
        .args(["init=/bin/sh", "--", "-c"])
        .arg(format!("\"{}\"", script::first_command()))
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", "/dev/shm");
    let (keys, terminal) = UnixStream::pair()?;
    let [output, error] = ["output", "error"].map(|name| folder.join(name));
    command
        .stdin(OwnedFd::from(terminal))
        .stdout(File::create(&output)?)
        .stderr(File::create(&error)?);
    let (child, is_repeatable) = spawn_confined(command, folder)?;
    let [output, error] = [File::open(output)?, File::open(error)?];
    Ok(Process { child, output, error, keys, is_repeatable })
}

/// Starts a process that can write only to `folder` and to shared memory, and to which the host
/// gives no random numbers, so that each run is the same. A host without Landlock does not hold the
/// process to the first; the kernel's mounts do. On a host without seccomp filters the kernel's
/// random numbers differ between runs; then the second result is false.
fn spawn_confined(mut command: Command, folder: &Path) -> std::io::Result<(Child, bool)> {
    // What confines a thread stays with it, and with the processes that it starts.
    let spawn = move || {
        let _ = confine_writes(folder);
        let is_repeatable = filter().is_some_and(|filter| apply_filter(&filter).is_ok());
        Ok((command.spawn()?, is_repeatable))
    };
    std::thread::scope(|scope| scope.spawn(spawn).join().expect("no panic"))
}

/// Lets this thread write to files below `folder` and `/dev` only.
fn confine_writes(folder: &Path) -> Result<(), RulesetError> {
    let writes = AccessFs::from_write(ABI::V1);
    Ruleset::default()
        .handle_access(writes)?
        .create()?
        .add_rules(path_beneath_rules([folder, Path::new("/dev")], writes))?
        .restrict_self()?;
    Ok(())
}

/// Returns the filter; `None` on a processor that the filters do not know.
fn filter() -> Option<BpfProgram> {
    // The calls fail as on a host that lacks them.
    let rules = [(libc::SYS_getrandom, Vec::new())].into_iter().collect();
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let processor = std::env::consts::ARCH.try_into().ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor).ok()?;
    filter.try_into().ok()
}
