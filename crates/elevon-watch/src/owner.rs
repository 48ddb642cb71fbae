//! Whose I/O it is: a process, and the service or container whose cgroup it is in.

use elevon_core::ioprio::IoPrio;
use elevon_trace::DeviceNumber;

/// A process, as a person knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its name: that of its first thread.
    pub name: String,
    /// Its cgroup as `/proc/PID/cgroup` has it, such as `/system.slice/cron.service`; empty if
    /// that is not known.
    pub cgroup: String,
}

/// The limits of a cgroup on a disk, as its `io.max` has them; `None` where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second, of reads and of writes.
    pub bytes: [Option<u64>; 2],
    /// I/Os a second, of reads and of writes.
    pub requests: [Option<u64>; 2],
    /// The folder with the file.
    pub folder: String,
}

impl Limits {
    /// Reads the line of a disk in the text of an `io.max`; `None` without one.
    pub fn of_text(text: &str, device: DeviceNumber, folder: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{device} ")))?;
        let value = |key: &str| {
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
        };
        Some(Self {
            bytes: [value("rbps"), value("wbps")],
            requests: [value("riops"), value("wiops")],
            folder: folder.to_owned(),
        })
    }
}

/// Reads the line of a disk in the text of an `io.stat`: bytes read and written, reads and writes.
pub fn counts_of_text(text: &str, device: DeviceNumber) -> Option<[u64; 4]> {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{device} ")))?;
    let value = |key: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    Some([value("rbytes")?, value("wbytes")?, value("rios")?, value("wios")?])
}

/// Tells the owner of a process. Threads have that of their process.
pub trait Owners {
    /// Returns the owner of a process; `None` if the process is gone.
    fn owner(&mut self, process: u32) -> Option<Owner>;

    /// Returns the limits of a cgroup on a disk; `None` if it has none.
    fn limits(&mut self, _cgroup: &str, _device: DeviceNumber) -> Option<Limits> {
        None
    }

    /// Returns the cgroups that have limits on a disk, as far as that is known. The kernel issues
    /// what it held by a thread of its own, so that the trace does not tell whose I/O it is.
    fn limited(&mut self, _device: DeviceNumber) -> Vec<String> {
        Vec::new()
    }

    /// Returns what the kernel has counted of a cgroup on a disk: bytes read and written, reads and
    /// writes; `None` if it does not count.
    fn counted(&mut self, _cgroup: &str, _device: DeviceNumber) -> Option<[u64; 4]> {
        None
    }

    /// Returns the I/O priority of a process as `ionice` sets it; `None` if that is not known.
    fn prio(&mut self, _process: u32) -> Option<IoPrio> {
        None
    }
}

/// What a cgroup is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitKind {
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// A pod of Kubernetes.
    Pod,
    /// A container of another runtime: containerd, CRI-O, LXC, systemd-nspawn.
    Container,
    /// A unit of systemd.
    Unit,
    /// Another cgroup.
    Cgroup,
}

impl UnitKind {
    /// Returns a short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Unit => "unit",
            Self::Cgroup => "cgroup",
        }
    }
}

/// Digits of a container's number that are shown, as `docker ps` does.
const SHORT_ID: usize = 12;

/// Returns what a cgroup is of, with the name that people use: the first digits of a container's
/// number, the number of a pod, the name of a unit, or the path.
///
/// The names are those that the runtimes give with both drivers for cgroups. The driver `systemd`
/// makes `docker-ID.scope`, and `cgroupfs` makes `/docker/ID`.
pub fn unit_of_cgroup(path: &str) -> (UnitKind, String) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // The innermost part that is known: a pod has containers, and a container may have cgroups.
    for (at, part) in parts.iter().enumerate().rev() {
        let parent = at.checked_sub(1).map_or("", |at| parts[at]);
        if let Some(pod) = pod(part) {
            return (UnitKind::Pod, pod);
        }
        let is_in_pod = parts[..at].iter().any(|part| pod_name(part));
        if let Some((kind, id)) = container(part, parent)
            && !is_in_pod
        {
            return (kind, id);
        }
    }
    let unit = parts.iter().rev().find(|part| is_unit(part));
    match unit {
        Some(unit) => (UnitKind::Unit, (*unit).to_owned()),
        None if parts.is_empty() => (UnitKind::Cgroup, "/".to_owned()),
        None => (UnitKind::Cgroup, format!("/{}", parts.join("/"))),
    }
}

fn is_unit(part: &str) -> bool {
    [".service", ".scope", ".slice", ".mount", ".socket", ".swap"]
        .iter()
        .any(|suffix| part.ends_with(suffix))
}

/// Returns the first digits of a number of 64 hexadecimal digits.
fn short_id(text: &str) -> Option<String> {
    let is_id = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text[..SHORT_ID].to_owned())
}

fn container(part: &str, parent: &str) -> Option<(UnitKind, String)> {
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    let known = [
        ("docker-", UnitKind::Docker),
        ("libpod-", UnitKind::Podman),
        ("cri-containerd-", UnitKind::Container),
        ("crio-", UnitKind::Container),
    ];
    for (prefix, kind) in known {
        if let Some(id) = scope.strip_prefix(prefix).and_then(short_id) {
            return Some((kind, id));
        }
    }
    let is_below = |name: &str| parent == name;
    if is_below("docker") {
        return short_id(part).map(|id| (UnitKind::Docker, id));
    }
    if is_below("libpod_parent") {
        return short_id(part).map(|id| (UnitKind::Podman, id));
    }
    let of_lxc = part.strip_prefix("lxc.payload.").filter(|name| !name.is_empty());
    if let Some(name) = of_lxc.or_else(|| is_below("lxc").then_some(part)) {
        return Some((UnitKind::Container, name.to_owned()));
    }
    if let Some(name) = scope.strip_prefix("machine-").filter(|_| part.ends_with(".scope")) {
        return Some((UnitKind::Container, name.to_owned()));
    }
    short_id(part).map(|id| (UnitKind::Container, id))
}

fn pod_name(part: &str) -> bool {
    pod(part).is_some()
}

/// Returns the number of a pod: `kubepods-burstable-pod1234_ab.slice`, or `pod1234-ab` below
/// `kubepods`.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let id = match name.strip_prefix("kubepods-") {
        Some(rest) => rest.rsplit_once("pod").map(|(_, id)| id)?,
        None => name.strip_prefix("pod").filter(|id| id.len() == 36)?,
    };
    let is_id = id.len() >= 32
        && id.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    is_id.then(|| id.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_disk_are_those_of_its_line() {
        let text = "8:16 rbps=1 wbps=max riops=max wiops=max\n8:0 rbps=max wbps=2097152 riops=max wiops=120\n";
        let found = Limits::of_text(text, DeviceNumber::new(8, 0), "/sys/fs/cgroup/a");
        let found = found.expect("a line");
        assert_eq!((found.bytes, found.requests), ([None, Some(2_097_152)], [None, Some(120)]));
        assert_eq!(Limits::of_text(text, DeviceNumber::new(8, 1), ""), None);
    }

    #[test]
    fn the_counts_of_a_disk_are_those_of_its_line() {
        let text = "8:16 rbytes=1 wbytes=2 rios=3 wios=4\n8:0 rbytes=5 wbytes=6 rios=7 wios=8 dbytes=9 dios=9\n";
        assert_eq!(counts_of_text(text, DeviceNumber::new(8, 0)), Some([5, 6, 7, 8]));
        assert_eq!(counts_of_text(text, DeviceNumber::new(8, 1)), None);
    }

    #[test]
    fn cgroups_have_the_names_that_people_use() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "3a0a1e0c-0b0e-4d3e-9d0a-1b2c3d4e5f60";
        let cases = [
            (format!("/system.slice/docker-{id}.scope"), UnitKind::Docker, "0123456789ab"),
            (format!("/docker/{id}"), UnitKind::Docker, "0123456789ab"),
            (format!("/docker/{id}/init"), UnitKind::Docker, "0123456789ab"),
            (
                format!("/machine.slice/libpod-{id}.scope/container"),
                UnitKind::Podman,
                "0123456789ab",
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
                    uid.replace('-', "_")
                ),
                UnitKind::Pod,
                uid,
            ),
            (format!("/kubepods/besteffort/pod{uid}/{id}"), UnitKind::Pod, uid),
            ("/lxc.payload.web".to_owned(), UnitKind::Container, "web"),
            ("/machine.slice/machine-deb.scope".to_owned(), UnitKind::Container, "deb"),
            ("/system.slice/cron.service".to_owned(), UnitKind::Unit, "cron.service"),
            (
                "/user.slice/user-1000.slice/session-3.scope".to_owned(),
                UnitKind::Unit,
                "session-3.scope",
            ),
            ("/batch/night".to_owned(), UnitKind::Cgroup, "/batch/night"),
            ("/podcast".to_owned(), UnitKind::Cgroup, "/podcast"),
            ("/".to_owned(), UnitKind::Cgroup, "/"),
            (String::new(), UnitKind::Cgroup, "/"),
        ];
        for (path, kind, name) in cases {
            assert_eq!(unit_of_cgroup(&path), (kind, name.to_owned()), "{path}");
        }
    }
}
