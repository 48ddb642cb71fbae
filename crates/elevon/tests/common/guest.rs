//! A Linux guest on an emulated CPU: a kernel of Debian with an initramfs that a test makes.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use elevon_testkit::{skip, tool};

/// Names a folder in which a package `linux-image-*` of Debian was unpacked.
const KERNEL: &str = "ELEVON_GUEST_KERNEL";
/// The modules that a disk of virtio with ext4 needs; what is built into the kernel has none.
const MODULES: [&str; 11] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "crc16",
    "mbcache",
    "jbd2",
    "ext4",
];
/// The modules of disks that are watched.
const MODULES_OF_WATCHED: [&str; 3] = ["configfs", "null_blk", "bfq"];
/// Programs of this machine that a guest has, too, with the libraries that they need.
const PROGRAMS: [&str; 3] = ["mkfs.ext4", "e2fsck", "fio"];
/// The same of a guest whose init is systemd.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";
const SYSTEMD_PROGRAMS: [&str; 5] = [
    SYSTEMD,
    "/usr/bin/systemctl",
    "/usr/bin/nbdcopy",
    "/usr/bin/nbdinfo",
    env!("CARGO_BIN_EXE_elevon"),
];
/// The units of systemd that it has; there is no other service than those of a test.
const TARGETS: [&str; 13] = [
    "basic",
    "final",
    "local-fs",
    "multi-user",
    "network",
    "paths",
    "poweroff",
    "shutdown",
    "slices",
    "sockets",
    "sysinit",
    "timers",
    "umount",
];
/// How long a guest may take for its next line.
const LINE_TIMEOUT: Duration = Duration::from_secs(300);

/// The machine of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// QEMU, which emulates a CPU and everything else.
    Emulated,
    /// A process of this machine: user-mode Linux, as Debian has it.
    UserMode,
}

/// The kernel of user-mode Linux, and the folder of its modules.
const USER_MODE: &str = "linux.uml";
const USER_MODE_MODULES: &str = "/usr/lib/uml/modules";

/// What a guest has and does.
struct Contents<'a> {
    processors: u8,
    programs: &'a [&'a str],
    /// Modules beside [`MODULES`].
    modules: &'a [&'a str],
    init: &'a str,
}

/// What a guest is started from.
pub(crate) struct GuestImage {
    machine: Machine,
    processors: u8,
    kernel: PathBuf,
    initramfs: PathBuf,
}

/// Returns the folder of the kernel, if there is one.
fn kernel_folder() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest-kernel");
    let folder = std::env::var_os(KERNEL).map_or(unpacked, PathBuf::from);
    if folder.join("boot").is_dir() {
        return Some(folder);
    }
    skip(&format!(
        "{KERNEL} names no folder in which a package linux-image-* was unpacked: {}",
        folder.display()
    ));
    None
}

/// Returns the path of a program of this machine.
fn program(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        let is_there = Path::new(name).exists();
        if !is_there {
            skip(&format!("{name} is not installed"));
        }
        return is_there.then(|| name.into());
    }
    tool(name)?;
    let path = std::env::var_os("PATH")?;
    let all = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    all.map(|folder| folder.join(name)).find(|path| path.exists())
}

/// Returns the files below a folder whose name is that of a module.
fn module(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let (folders, files): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir());
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
        file == format!("{name}.ko") || file == format!("{name}.ko.xz")
    };
    files.into_iter().find(is_it).or_else(|| folders.iter().find_map(|folder| module(folder, name)))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

impl GuestImage {
    /// Makes an initramfs in a folder; `None` if something is not installed.
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        Self::on(Machine::Emulated, folder)
    }

    /// The same for a machine.
    pub(crate) fn on(machine: Machine, folder: &Path) -> Option<Self> {
        let init = include_str!("../serve/guest/init.sh");
        let contents = Contents { processors: 1, programs: &PROGRAMS, modules: &[], init };
        Self::of(machine, folder, &contents, |_| {})
    }

    /// The same, of a guest that watches its disks, and has other tools, too.
    pub(crate) fn that_watches(folder: &Path, others: &[&str]) -> Option<Self> {
        let contents = Contents {
            processors: 2,
            programs: &[&["fio", env!("CARGO_BIN_EXE_elevon")], others].concat(),
            modules: &MODULES_OF_WATCHED,
            init: include_str!("../traces/watch_guest.sh"),
        };
        Self::of(Machine::Emulated, folder, &contents, |_| {})
    }

    /// The same, of a guest whose init is systemd with the command under test and its units;
    /// `fill` adds files to the root that it is given.
    pub(crate) fn with_systemd(folder: &Path, fill: impl FnOnce(&Path)) -> Option<Self> {
        let init = include_str!("../serve/guest/switch.sh");
        let contents = Contents { processors: 1, programs: &SYSTEMD_PROGRAMS, modules: &[], init };
        Self::of(Machine::Emulated, folder, &contents, |root| {
            let units = root.join("usr/lib/systemd/system");
            for target in TARGETS {
                let target = format!("{target}.target");
                copy(&Path::new("/usr/lib/systemd/system").join(&target), &units.join(&target));
            }
            let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
            for unit in ["elevon-serve@.service", "elevon-serve@.socket"] {
                copy(&packaged.join(unit), &units.join(unit));
            }
            fill(root);
        })
    }

    fn of(
        machine: Machine,
        folder: &Path,
        contents: &Contents<'_>,
        fill: impl FnOnce(&Path),
    ) -> Option<Self> {
        let (kernel, modules) = kernel_and_modules(machine)?;
        tool("cpio")?;
        let root = folder.join("root");
        for name in ["bin", "lib", "proc", "sys", "dev", "tmp", "modules"] {
            fs::create_dir_all(root.join(name)).expect("a folder");
        }
        copy(&program("busybox")?, &root.join("bin/busybox"));
        for name in contents.programs {
            let path = program(name)?;
            let name = path.file_name().expect("a program");
            let is_init = path == Path::new(SYSTEMD);
            copy(&path, &root.join(if is_init { "usr/lib/systemd" } else { "bin" }).join(name));
            let libraries = Command::new("ldd").arg(&path).output().expect("ldd ran");
            for word in String::from_utf8_lossy(&libraries.stdout)
                .split_whitespace()
                .filter(|it| it.starts_with('/'))
            {
                let file = Path::new(word).file_name().expect("a file");
                // The loader is found by the path that is in the program, libraries by their names.
                let is_loader = file.to_string_lossy().starts_with("ld-linux");
                let to =
                    if is_loader { root.join(&word[1..]) } else { root.join("lib").join(file) };
                copy(Path::new(word), &to);
            }
        }
        for name in MODULES.iter().chain(contents.modules) {
            let Some(path) = module(&modules, name) else { continue };
            let to = root.join("modules").join(format!("{name}.ko"));
            if path.extension().is_some_and(|extension| extension == "xz") {
                let bytes = tool("xz")?.arg("-dc").arg(&path).output().expect("xz ran").stdout;
                fs::write(to, bytes).expect("written");
            } else {
                copy(&path, &to);
            }
        }
        fs::write(root.join("init"), contents.init).expect("written");
        fill(&root);
        let archive = "chmod +x init && find . | cpio -o -H newc --quiet >../initramfs";
        let status =
            Command::new("sh").args(["-c", archive]).current_dir(&root).status().expect("sh ran");
        assert!(status.success(), "cpio");
        let initramfs = folder.join("initramfs");
        Some(Self { machine, processors: contents.processors, kernel, initramfs })
    }

    /// Starts a guest with a disk: an image, `nbd:unix:SOCKET`, or `vhost:SOCKET`. `words` are for
    /// its init.
    pub(crate) fn start(&self, disk: &str, words: &str) -> Guest {
        Guest::of(match self.machine {
            Machine::Emulated => self.emulated(disk, words),
            Machine::UserMode => self.user_mode(disk, words),
        })
    }

    /// Returns the socket at which an emulated machine with a disk of vhost-user takes commands.
    fn qmp(&self) -> PathBuf {
        self.initramfs.with_file_name("qmp")
    }

    /// Tells the emulated machine a command of QMP, and waits until it has followed it.
    ///
    /// # Errors
    /// What it answers if it does not follow it.
    pub(crate) fn command(&self, command: &str) -> Result<(), String> {
        let mut socket = UnixStream::connect(self.qmp()).expect("QEMU listens");
        let all = format!("{{\"execute\": \"qmp_capabilities\"}}\n{command}\n");
        socket.write_all(all.as_bytes()).expect("sent");
        // Events come between the answers; the first answer is that of the capabilities.
        let lines = BufReader::new(socket).lines().map(|line| line.expect("an answer"));
        let is_answer = |line: &String| line.contains("\"return\"") || line.contains("\"error\"");
        let answer = lines.filter(is_answer).nth(1).expect("an answer");
        if answer.contains("\"return\"") { Ok(()) } else { Err(answer) }
    }

    /// Returns the command of a guest that is a process. Its disk is `vhost:SOCKET`.
    fn user_mode(&self, disk: &str, words: &str) -> Command {
        let socket = disk.strip_prefix("vhost:").expect("it has no other disk");
        let mut command = Command::new(&self.kernel);
        command.arg("mem=256M").arg(format!("initrd={}", self.initramfs.display()));
        command.arg(format!("virtio_uml.device={socket}:2"));
        command.args(["con0=null,fd:1", "con=null", "root=/dev/ram0", "quiet", "panic=-1"]);
        command.args(words.split_whitespace());
        command
    }

    /// Returns the command of a guest on an emulated machine.
    fn emulated(&self, disk: &str, words: &str) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        // The kernel's check of its timer fails if the emulated CPU gets little time.
        let append = format!("console=ttyS0 quiet panic=-1 no_timer_check {words}");
        let drive = format!("file={disk},format=raw,if=virtio,cache=none,discard=unmap");
        command.args([
            "-accel",
            // A thread for each processor of the guest has hung its kernel.
            "tcg,thread=single",
            "-smp",
            &self.processors.to_string(),
            "-cpu",
            "max",
            "-M",
            "q35",
            "-m",
            "768",
            "-nographic",
        ]);
        command.args(["-no-reboot", "-nodefaults", "-serial", "stdio", "-append", &append]);
        match disk.strip_prefix("vhost:") {
            None => _ = command.args(["-drive", &drive]),
            Some(socket) => {
                let memory = "memory-backend-memfd,id=mem,size=768M,share=on";
                let socket = format!("socket,id=disk,path={socket},reconnect=1");
                // Behind a port of its own, a device can be unplugged.
                let device = "vhost-user-blk-pci,id=disk,chardev=disk,num-queues=2,bus=plug";
                let qmp = format!("unix:{},server=on,wait=off", self.qmp().display());
                command.args(["-object", memory, "-machine", "memory-backend=mem"]);
                command.args(["-device", "pcie-root-port,id=plug,chassis=1"]);
                command.args(["-chardev", &socket, "-device", device, "-qmp", &qmp]);
            }
        }
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initramfs);
        command
    }
}

/// Returns the kernel of a machine and the folder of its modules, if they are installed.
fn kernel_and_modules(machine: Machine) -> Option<(PathBuf, PathBuf)> {
    if machine == Machine::UserMode {
        return Some((program(USER_MODE)?, USER_MODE_MODULES.into()));
    }
    let unpacked = kernel_folder()?;
    tool("qemu-system-x86_64")?;
    let boot =
        fs::read_dir(unpacked.join("boot")).expect("a folder").flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    let kernel = boot.into_iter().find(is_kernel).expect("a kernel in the package");
    Some((kernel, unpacked.join("lib/modules")))
}

impl Guest {
    /// Starts a guest.
    fn of(mut command: Command) -> Self {
        command.process_group(0);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu started");
        let console = BufReader::new(child.stdout.take().expect("a pipe"));
        let (lines, received) = channel();
        std::thread::spawn(move || {
            // A console may have any bytes; a guest that is killed ends it anywhere.
            for line in console.split(b'\n').map_while(Result::ok) {
                if lines.send(String::from_utf8_lossy(&line).trim().to_owned()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines: received, console: Vec::new() }
    }
}

/// Returns what the guest's init said in a line. The first has the firmware's last words before it.
fn said(line: &str) -> Option<&str> {
    line.split_once("GUEST ").map(|(_, said)| said)
}

/// A guest that runs; it is killed when it is dropped.
pub(crate) struct Guest {
    child: Child,
    lines: Receiver<String>,
    console: Vec<String>,
}

impl Guest {
    /// Waits for a line of the guest's init with these words, and returns what follows them.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let left = LINE_TIMEOUT.saturating_sub(begun.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("the guest did not say {words:?}:\n{}", self.console())
            };
            let found = said(&line)
                .and_then(|line| line.strip_prefix(words))
                .map(|rest| rest.trim().to_owned());
            self.console.push(line);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Returns what follows these words in lines of the guest's init so far.
    pub(crate) fn all(&self, words: &str) -> Vec<&str> {
        let lines = self.console.iter().filter_map(|line| said(line));
        lines.filter_map(|line| line.strip_prefix(words)).map(str::trim).collect()
    }

    /// Returns the console so far.
    pub(crate) fn console(&self) -> String {
        self.console.join("\n")
    }

    /// Kills the guest, as a power cut does, and takes the lines that it had written.
    pub(crate) fn kill(&mut self) {
        self.kill_processes();
        self.console.extend(self.lines.iter());
    }
}

impl Guest {
    /// Kills all processes of the guest: user-mode Linux has one for each of its own.
    fn kill_processes(&mut self) {
        let kill = format!("kill -KILL -{}", self.child.id());
        // A guest that has ended has no processes.
        let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill_processes();
    }
}
