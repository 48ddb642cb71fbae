//! Servers as processes, and what they use.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Place;

/// A server of guests.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    child: Child,
}

impl Server {
    /// Starts a server, and waits until it listens at a socket.
    pub(crate) fn start(name: &'static str, command: &mut Command, socket: &Path) -> Self {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the server started");
        let mut server = Self { name, child };
        let began = Instant::now();
        while UnixStream::connect(socket).is_err() {
            let has_ended = server.child.try_wait().expect("asked").is_some();
            assert!(!has_ended && began.elapsed() < Duration::from_secs(20), "{name} listens not");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Starts Elevon with a configuration, of which `socket` is one.
    pub(crate) fn elevon(name: &'static str, config: &Path, socket: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.arg("serve").arg(config).stderr(Stdio::null());
        Self::start(name, &mut command, socket)
    }

    /// Starts Elevon with a scheduler, for one guest at a socket.
    pub(crate) fn elevon_alone(
        name: &'static str,
        scheduler: &str,
        place: &Place,
        socket: &str,
    ) -> Self {
        let (config, socket) = (place.path(&format!("{socket}.toml")), place.path(socket));
        let text = format!(
            "[device.d]\ndevice = '{}'\nformat = 'raw'\nscheduler = '{scheduler}'\n\
             [export.vm]\nvhost = 'unix:{}'\n",
            place.disk().display(),
            socket.display()
        );
        fs::write(&config, text).expect("written");
        Self::elevon(name, &config, &socket)
    }

    /// Starts qemu-storage-daemon with a thread of its own for the export, and a way to do I/O.
    pub(crate) fn qemu(name: &'static str, aio: &str, place: &Place, socket: &str) -> Option<Self> {
        let mut command = elevon_testkit::tool("qemu-storage-daemon")?;
        let (disk, socket) = (place.disk(), place.path(socket));
        let file = format!(
            "driver=file,node-name=f,filename={},aio={aio},locking=off,discard=unmap",
            disk.display()
        );
        let export = format!(
            "type=vhost-user-blk,id=e,node-name=f,addr.type=unix,addr.path={},writable=on,num-queues=2,\
             iothread=io",
            socket.display()
        );
        command.args(["--object", "iothread,id=io", "--blockdev", &file, "--export", &export]);
        Some(Self::start(name, &mut command, &socket))
    }

    /// Seconds of CPU time, of which the kernel tells hundredths.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
        let ticks = |at: usize| rest.split_whitespace().nth(at)?.parse::<f64>().ok();
        (ticks(11).expect("user time") + ticks(12).expect("system time")) / 100.0
    }

    /// Resident memory in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(path).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Descriptors that are open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects and leaves.
pub(crate) fn knock(socket: &Path) {
    drop(UnixStream::connect(socket));
}

/// Returns the middle one of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
