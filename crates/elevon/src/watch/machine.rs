//! The disks and processes of this machine, as sysfs and procfs have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use elevon_core::ioprio::IoPrio;
use elevon_plan::failure::Failure;
use elevon_trace::capture::Disk;
use elevon_trace::{DeviceNumber, Recorded};
use elevon_watch::{Limits, Owner, Owners, counts_of_text};

use crate::terminal::tell;

/// How long what is known of a process is taken to be so: its number may be used again.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// How long a process is remembered of which nobody asks.
const REMEMBERED_FOR: Duration = Duration::from_secs(120);
/// Where cgroups of version 2 are.
const CGROUPS: &str = "/sys/fs/cgroup";
/// How long it is taken as known which cgroups have limits.
const LIMITS_KNOWN_FOR: Duration = Duration::from_secs(2);
/// Disks that stand above others are followed so far down.
const MAX_LEVELS: usize = 8;

/// Returns the disks to watch: those that are named, or all that have a size and lie on no other
/// disk. A partition, a device of dm and one of md become the disks below.
///
/// # Errors
/// A name that is no block device.
pub(super) fn disks_to_watch(named: &[PathBuf]) -> Result<Vec<Disk>, Failure> {
    let sysfs = Path::new("/sys");
    let mut names = BTreeSet::new();
    if named.is_empty() {
        for entry in fs::read_dir(sysfs.join("block")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if has_size(sysfs, &name) && below(sysfs, &name).is_empty() {
                names.insert(name);
            }
        }
    }
    for path in named {
        let disk = Disk::of_node(path, sysfs).map_err(Failure::input)?;
        let lowest = lowest(sysfs, &disk.name);
        if lowest.len() != 1 || lowest[0] != disk.name || disk.partition.is_some() {
            tell(&format!("{}: watching {}", path.display(), lowest.join(", ")));
        }
        names.extend(lowest);
    }
    let of_name = |name: &String| {
        let number = fs::read_to_string(sysfs.join("block").join(name).join("dev")).ok()?;
        Disk::of_device(number.trim().parse().ok()?, sysfs)
    };
    let mut disks: Vec<Disk> = names.iter().filter_map(of_name).collect();
    disks.sort_by_key(|disk| place(&disk.name));
    Ok(disks)
}

/// Tells when disks have come or gone.
pub(super) struct Partitions {
    /// The kernel's table: a line for each disk and partition with a size. To read it is cheap.
    table: PathBuf,
    before: Vec<u8>,
}

impl Partitions {
    /// Begins with the disks that are there now.
    pub(super) fn new(table: PathBuf) -> Self {
        let before = fs::read(&table).unwrap_or_default();
        Self { table, before }
    }

    /// Returns true if there are others than at the last call.
    pub(super) fn have_changed(&mut self) -> bool {
        let now = fs::read(&self.table).unwrap_or_default();
        let before = std::mem::replace(&mut self.before, now);
        before != self.before
    }
}

/// Returns the place of a name among others: `sda9` comes before `sda10`.
fn place(name: &str) -> (String, u64, String) {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[kind.len()..].parse().unwrap_or(0);
    (kind.to_owned(), number, name.to_owned())
}

fn has_size(sysfs: &Path, name: &str) -> bool {
    let text = fs::read_to_string(sysfs.join("block").join(name).join("size")).unwrap_or_default();
    text.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0)
}

/// Returns the disks on which a device of dm or md lies.
fn below(sysfs: &Path, name: &str) -> Vec<String> {
    let folder = sysfs.join("block").join(name).join("slaves");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| disk_of_part(sysfs, &entry.file_name().to_string_lossy())).collect();
    names.sort();
    names
}

/// Returns the disk of a partition, or the name of a disk as it is.
fn disk_of_part(sysfs: &Path, name: &str) -> String {
    let folder = fs::canonicalize(sysfs.join("class/block").join(name));
    let parent = folder
        .ok()
        .filter(|folder| folder.join("partition").exists())
        .and_then(|folder| Some(folder.parent()?.file_name()?.to_string_lossy().into_owned()));
    parent.unwrap_or_else(|| name.to_owned())
}

/// Returns the disks at the bottom.
fn lowest(sysfs: &Path, name: &str) -> Vec<String> {
    let mut level = vec![name.to_owned()];
    for _ in 0..MAX_LEVELS {
        let next: BTreeSet<String> = level
            .iter()
            .flat_map(|name| {
                let below = below(sysfs, name);
                if below.is_empty() { vec![name.clone()] } else { below }
            })
            .collect();
        let next: Vec<String> = next.into_iter().collect();
        if next == level {
            break;
        }
        level = next;
    }
    level
}

/// Returns the settings of a disk as they are now.
pub(super) fn settings(disk: &Disk) -> Recorded {
    let mut recorded = Recorded::default();
    disk.note_settings(&mut recorded);
    recorded
}

/// Returns the milliseconds in which the kernel takes a disk to have been busy, since it is there.
pub(super) fn io_ticks(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).ok()?;
    text.split_whitespace().nth(9)?.parse().ok()
}

/// What is known of a process.
struct Known {
    owner: Option<Owner>,
    looked_up: Instant,
    asked: Instant,
}

/// What is known of processes.
#[derive(Default)]
pub(super) struct Processes {
    known: BTreeMap<u32, Known>,
    /// Cgroups with limits of any disk, and when they were looked for.
    limited: Option<(Vec<String>, Instant)>,
}

impl Processes {
    /// Forgets the processes of which nobody has asked for long.
    pub(super) fn forget_old(&mut self) {
        self.known.retain(|_, known| known.asked.elapsed() < REMEMBERED_FOR);
    }

    /// Looks up a process that may be gone soon.
    pub(super) fn note(&mut self, process: u32) {
        let _ = self.owner(process);
    }
}

impl Owners for Processes {
    fn owner(&mut self, process: u32) -> Option<Owner> {
        let now = Instant::now();
        let known = self.known.entry(process).or_insert_with(|| Known {
            owner: look_up(process),
            looked_up: now,
            asked: now,
        });
        known.asked = now;
        if now.duration_since(known.looked_up) >= KNOWN_FOR {
            known.looked_up = now;
            // A process that is gone keeps its name.
            known.owner = look_up(process).or_else(|| known.owner.take());
        }
        known.owner.clone()
    }

    fn limits(&mut self, cgroup: &str, device: DeviceNumber) -> Option<Limits> {
        let folder = format!("{CGROUPS}{}", cgroup.trim_end_matches('/'));
        let text = fs::read_to_string(format!("{folder}/io.max")).ok()?;
        Limits::of_text(&text, device, &folder)
    }

    fn limited(&mut self, device: DeviceNumber) -> Vec<String> {
        let is_old = |at: &Instant| at.elapsed() >= LIMITS_KNOWN_FOR;
        if self.limited.as_ref().is_none_or(|(_, at)| is_old(at)) {
            let mut found = Vec::new();
            find_limited(Path::new(CGROUPS), MAX_LEVELS, &mut found);
            self.limited = Some((found, Instant::now()));
        }
        let all = self.limited.iter().flat_map(|(found, _)| found).cloned().collect::<Vec<_>>();
        all.into_iter().filter(|cgroup| self.limits(cgroup, device).is_some()).collect()
    }

    fn counted(&mut self, cgroup: &str, device: DeviceNumber) -> Option<[u64; 4]> {
        counts_of_text(&fs::read_to_string(format!("{CGROUPS}{cgroup}/io.stat")).ok()?, device)
    }

    fn prio(&mut self, process: u32) -> Option<IoPrio> {
        IoPrio::from_bits(elevon_host::priority::io_priority(process)?)
    }
}

/// Finds the cgroups below a folder that have limits, as paths from the root of all cgroups.
fn find_limited(folder: &Path, levels: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.flatten().filter(is_folder) {
        let path = entry.path();
        if fs::read_to_string(path.join("io.max")).is_ok_and(|text| !text.is_empty()) {
            let name = path.to_string_lossy();
            found.push(name.strip_prefix(CGROUPS).unwrap_or(&name).to_owned());
        }
        if levels > 1 {
            find_limited(&path, levels - 1, found);
        }
    }
}

fn look_up(process: u32) -> Option<Owner> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let name = fs::read_to_string(folder.join("comm")).ok()?.trim().to_owned();
    let cgroups = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    Some(Owner { name, cgroup: cgroup(&cgroups) })
}

/// Returns the cgroup of a process: that of version 2, or of the controller blkio.
fn cgroup(text: &str) -> String {
    let paths = |is_wanted: fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_wanted(controllers).then(|| path.to_owned())
        })
    };
    let of_blkio = paths(|controllers| controllers.split(',').any(|name| name == "blkio"));
    of_blkio.or_else(|| paths(str::is_empty)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_is_that_of_the_controller_of_disks() {
        assert_eq!(cgroup("0::/system.slice/cron.service\n"), "/system.slice/cron.service");
        let both = "12:cpu,cpuacct:/a\n7:blkio:/docker/b\n0::/init.scope\n";
        assert_eq!((cgroup(both), cgroup("")), ("/docker/b".to_owned(), String::new()));
    }

    #[test]
    fn disks_are_in_the_order_of_their_numbers() {
        let mut names = ["loop10", "sdb", "loop2", "nvme1n1", "sda", "nvme0n1"];
        names.sort_by_key(|name| place(name));
        assert_eq!(names, ["loop2", "loop10", "nvme0n1", "nvme1n1", "sda", "sdb"]);
    }

    #[test]
    fn a_disk_that_comes_or_goes_is_a_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = folder.path().join("partitions");
        fs::write(&table, " 8 0 100 sda\n").expect("written");
        let mut partitions = Partitions::new(table.clone());
        assert!(!partitions.have_changed());
        fs::write(&table, " 8 0 100 sda\n 8 16 100 sdb\n").expect("written");
        assert!(partitions.have_changed());
        assert!(!partitions.have_changed());
    }

    #[test]
    fn devices_become_the_disks_below_them() {
        let sysfs = tempfile::tempdir().expect("a folder");
        let root = sysfs.path();
        let make = |path: &str| fs::create_dir_all(root.join(path)).expect("a folder");
        for disk in ["sda", "sdb", "dm-0", "dm-1"] {
            make(&format!("block/{disk}/slaves"));
        }
        make("class/block");
        make("block/sda/sda2");
        fs::write(root.join("block/sda/sda2/partition"), "2\n").expect("written");
        for (name, target) in [
            ("class/block/sda2", "../../block/sda/sda2"),
            ("block/dm-0/slaves/sda2", "../../sda/sda2"),
            ("block/dm-0/slaves/sdb", "../../sdb"),
            ("block/dm-1/slaves/dm-0", "../../dm-0"),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).expect("a link");
        }
        assert_eq!(lowest(root, "dm-1"), ["sda", "sdb"]);
        assert_eq!(lowest(root, "sdb"), ["sdb"]);
    }
}
