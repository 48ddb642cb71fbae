//! The lines that set a configuration: a shell's, udev's, systemd's and those of Android's init.

use std::fmt::Write as _;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_trace::DeviceNumber;

use super::claims::COST_QOS;
use super::goal::Subject;
use super::setup::{Setup, Step, prio_words, shown};

/// The weight under BFQ that IOWeight= has when it is not set.
const WEIGHT_DEFAULT: u32 = 100;
/// What IOWeight= reaches where BFQ's weight reaches [`WEIGHT_MAX`].
const IO_WEIGHT_MAX: u32 = 10_000;
const WEIGHT_MAX: u32 = 1_000;

/// Lines for each of the ways in which a configuration is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// At once, until the next boot.
    pub(super) shell: Vec<String>,
    /// A file of rules.
    pub(super) udev: Vec<String>,
    /// Drop-ins: the unit's file and its lines.
    pub(super) systemd: Vec<(String, Vec<String>)>,
    /// A file of init's language.
    pub(super) android: Vec<String>,
}

/// The disk that is configured.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) device: DeviceNumber,
    /// Its name, such as `sda`, if it is known.
    pub(super) name: Option<String>,
}

impl Disk {
    /// Its folder in sysfs.
    fn folder(&self) -> String {
        match &self.name {
            Some(name) => format!("/sys/block/{name}"),
            None => format!("/sys/dev/block/{}:{}", self.device.major, self.device.minor),
        }
    }

    /// Its number as `MAJ:MIN`.
    fn number(&self) -> String {
        format!("{}:{}", self.device.major, self.device.minor)
    }

    /// The path of its file.
    fn path(&self) -> String {
        match &self.name {
            Some(name) => format!("/dev/{name}"),
            None => format!("/dev/block/{}", self.number()),
        }
    }

    /// What of a udev rule matches it.
    fn matches(&self) -> String {
        let always = "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"";
        match &self.name {
            Some(name) => format!("{always}, KERNEL==\"{name}\""),
            None => {
                format!(
                    "{always}, ENV{{MAJOR}}==\"{}\", ENV{{MINOR}}==\"{}\"",
                    self.device.major, self.device.minor
                )
            }
        }
    }
}

/// The attribute of the disk's folder in sysfs that a step writes, and its value; `None` for what
/// is not the disk's, or what no kernel has.
fn attribute(step: &Step, setup: &Setup) -> Option<(String, String)> {
    match step {
        Step::Scheduler(name) => Some(("queue/scheduler".to_owned(), (*name).to_owned())),
        Step::Tunable(name, value) => {
            Some((format!("queue/iosched/{name}"), shown(setup.scheduler, name, *value)))
        }
        Step::Setting(key, value) => match key.as_str() {
            "fill" => None,
            "queue_depth" => Some(("device/queue_depth".to_owned(), value.clone())),
            _ => Some((format!("queue/{key}"), value.clone())),
        },
        Step::Prio(..) | Step::Cost | Step::Weight(..) | Step::Limit(..) | Step::Target(..) => None,
    }
}

impl Lines {
    /// The lines for a configuration to which these steps lead. `cost_model` is the line of
    /// io.cost.model without the device.
    pub(super) fn new(
        setup: &Setup,
        steps: &[Step],
        disk: &Disk,
        processes: &[Subject],
        cost_model: &str,
    ) -> Self {
        let mut lines = Self::default();
        let attributes: Vec<(String, String)> =
            steps.iter().filter_map(|step| attribute(step, setup)).collect();
        let folder = disk.folder();
        for (attribute, value) in &attributes {
            lines.shell.push(format!("echo {value} > {folder}/{attribute}"));
        }
        // A scheduler's tunables are there once it is, so each line has one attribute.
        lines.udev.extend(attributes.iter().map(|(attribute, value)| {
            format!("{}, ATTR{{{attribute}}}=\"{value}\"", disk.matches())
        }));
        if !attributes.is_empty() {
            lines.android.push("on property:sys.boot_completed=1".to_owned());
            lines.android.extend(
                attributes
                    .iter()
                    .map(|(attribute, value)| format!("    write {folder}/{attribute} {value}")),
            );
        }
        if setup.claims.cost {
            lines.cost(disk, cost_model);
        }
        for (at, subject) in processes.iter().enumerate() {
            let prio = steps.iter().find_map(|step| match step {
                Step::Prio(of, prio) if *of == at => Some(*prio),
                _ => None,
            });
            lines.claims(at, subject, setup, prio, disk);
        }
        lines
    }

    /// What enables io.cost. Nothing of systemd's units does, nor udev's rules.
    fn cost(&mut self, disk: &Disk, cost_model: &str) {
        let number = disk.number();
        let files = [("io.cost.model", cost_model), ("io.cost.qos", COST_QOS)];
        for (file, line) in files {
            self.shell.push(format!("echo '{number} {line}' > /sys/fs/cgroup/{file}"));
        }
        let of_boot =
            files.map(|(file, line)| format!("w /sys/fs/cgroup/{file} - - - - {number} {line}"));
        self.systemd.push(("/etc/tmpfiles.d/elevon-io.conf".to_owned(), of_boot.to_vec()));
        self.android.push(
            "# io.cost: no release of Android has been seen to build it into its kernel".to_owned(),
        );
    }

    /// Limit and latency target of a process, as lines of its unit.
    fn limits(&mut self, at: usize, subject: &Subject, setup: &Setup, disk: &Disk) -> Vec<String> {
        let (unit, device, number) = (unit_of(subject), disk.path(), disk.number());
        let group = unit.trim_end_matches(".service");
        let mut unit_lines = Vec::new();
        if let Some(&(key, rate)) = setup.claims.limits.get(&at) {
            unit_lines.push(format!("{}={device} {rate}", key.of_systemd()));
            self.android
                .push(format!("# for the group of {} in the blkio controller:", subject.label));
            self.android
                .push(format!("    write /dev/blkio/{group}/{} \"{number} {rate}\"", key.of_v1()));
        }
        if let Some(&target) = setup.claims.targets.get(&at) {
            unit_lines.push(format!("IODeviceLatencyTargetSec={device} {target}us"));
            self.android.push(format!(
                "# for the group of {}, in the io controller of cgroup v2:",
                subject.label
            ));
            self.android.push(format!(
                "    write /sys/fs/cgroup/{group}/io.latency \"{number} target={target}\""
            ));
        }
        for line in &unit_lines {
            self.shell.push(format!(
                "systemctl set-property --runtime {unit} '{line}'    # {}",
                subject.label
            ));
        }
        unit_lines
    }

    /// Priority, weight, limit and target of a process; `prio` is one that it does not have yet.
    fn claims(
        &mut self,
        at: usize,
        subject: &Subject,
        setup: &Setup,
        prio: Option<IoPrio>,
        disk: &Disk,
    ) {
        let weight = setup.claims.weights.get(&at);
        let limits = self.limits(at, subject, setup, disk);
        if prio.is_none() && weight.is_none() && limits.is_empty() {
            return;
        }
        let unit = unit_of(subject);
        let pid = subject.id.map_or_else(|| "PID".to_owned(), |id| id.to_string());
        let mut unit_lines = vec!["[Service]".to_owned()];
        if let Some(prio) = prio {
            let (number, systemd, android) = match prio.class() {
                PrioClass::Rt => (1, "realtime", "rt"),
                PrioClass::None | PrioClass::Be => (2, "best-effort", "be"),
                PrioClass::Idle => (3, "idle", "idle"),
            };
            let level = prio.level();
            let has_level = prio.class() != PrioClass::Idle;
            let level_option = if has_level { format!(" -n {level}") } else { String::new() };
            self.shell.push(format!(
                "ionice -c {number}{level_option} -p {pid}    # {}: {}",
                subject.label,
                prio_words(prio)
            ));
            unit_lines.push(format!("IOSchedulingClass={systemd}"));
            unit_lines.extend(has_level.then(|| format!("IOSchedulingPriority={level}")));
            self.android
                .push(format!("# in the section of the service that runs {}:", subject.label));
            self.android.push(format!("    ioprio {android} {level}"));
        }
        unit_lines.extend(limits);
        if let Some(weight) = weight.filter(|_| setup.claims.cost) {
            let label = &subject.label;
            self.shell.push(format!(
                "systemctl set-property --runtime {unit} IOWeight={weight}    # {label}: io.weight"
            ));
            unit_lines.push(format!("IOWeight={weight}"));
        } else if let Some(&weight) = weight {
            let io_weight = io_weight_of(weight);
            self.shell.push(format!(
                "systemctl set-property --runtime {unit} IOWeight={io_weight}    # {}: io.bfq.weight {weight}",
                subject.label
            ));
            unit_lines.push(format!("# systemd 250 and later make io.bfq.weight {weight} of it"));
            unit_lines.push(format!("IOWeight={io_weight}"));
            self.android.push(format!(
                "# in the section of the service that runs {}, of a group of its own in the blkio controller:",
                subject.label
            ));
            self.android.push(format!(
                "    write /dev/blkio/{}/blkio.bfq.weight {weight}",
                unit.trim_end_matches(".service")
            ));
        }
        self.systemd.push((format!("/etc/systemd/system/{unit}.d/io.conf"), unit_lines));
    }

    /// All of it as a text, each line indented by so many blanks.
    pub(super) fn text(&self, indent: usize) -> String {
        let mut out = String::new();
        let pad = " ".repeat(indent);
        let mut block = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(out, "{pad}{title}");
                lines.iter().for_each(|line| {
                    let _ = writeln!(out, "{pad}  {line}");
                });
            }
        };
        block("now, as root, until the next boot:", &self.shell);
        block("udev, /etc/udev/rules.d/99-elevon-io.rules:", &self.udev);
        for (path, lines) in &self.systemd {
            block(&format!("systemd, {path}:"), lines);
        }
        block("Android, in a .rc file of init:", &self.android);
        out
    }
}

/// The unit that probably runs a process.
fn unit_of(subject: &Subject) -> String {
    let name = subject.name.as_deref().unwrap_or("UNIT");
    let is_unit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    let name: String = name.chars().map(|c| if is_unit(c) { c } else { '-' }).collect();
    format!("{name}.service")
}

/// The IOWeight= of which systemd makes a weight under BFQ: up to the default it is the same, and
/// from there on IOWeight= goes to 10000 where BFQ's weight goes to 1000 (systemd 250 and later).
fn io_weight_of(weight: u32) -> u32 {
    let above = weight.saturating_sub(WEIGHT_DEFAULT);
    weight - above + above * (IO_WEIGHT_MAX - WEIGHT_DEFAULT) / (WEIGHT_MAX - WEIGHT_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::super::claims::RateKey;
    use super::*;
    use crate::figures::Figures;

    fn subject(name: &str, id: u32) -> Subject {
        Subject {
            label: format!("{name}-{id}"),
            name: Some(name.into()),
            id: Some(id),
            measured: Figures::default(),
            checked: Figures::default(),
            is_waited_for: true,
            is_wanted: true,
            alone: None,
        }
    }

    #[test]
    fn weights_are_those_that_systemd_turns_back() {
        // As systemd 250 was seen to write io.bfq.weight: 151 for IOWeight=666.
        assert_eq!([5, 100, 300, 1000].map(io_weight_of), [5, 100, 2300, 10_000]);
        let back = |io_weight: u32| 100 + (io_weight - 100) * 900 / 9_900;
        assert_eq!((back(666), back(io_weight_of(300))), (151, 300));
    }

    #[test]
    fn every_way_sets_the_whole_of_it() {
        let from = Setup::of_scheduler("none");
        let steps = [
            Step::Scheduler("bfq"),
            Step::Tunable("slice_idle", 0),
            Step::Setting("nr_requests".into(), "64".into()),
            Step::Setting("queue_depth".into(), "4".into()),
            Step::Setting("fill".into(), "trim".into()),
            Step::Prio(0, IoPrio::new(PrioClass::Idle, 0)),
            Step::Prio(1, IoPrio::new(PrioClass::Be, 7)),
            Step::Weight(1, 300),
            Step::Limit(0, (RateKey::WriteIos, 180)),
            Step::Target(1, 5_000),
        ];
        let setup = steps.iter().fold(from.clone(), |setup, step| setup.with(step));
        let processes = [subject("kworker/u8:3", 44), subject("db", 7)];
        let disk = Disk { device: DeviceNumber::new(8, 16), name: None };
        let lines = Lines::new(&setup, &setup.steps(&from), &disk, &processes, "");
        assert_eq!(lines.shell[0], "echo bfq > /sys/dev/block/8:16/queue/scheduler");
        assert_eq!(
            lines.udev[1],
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ENV{MAJOR}==\"8\", ENV{MINOR}==\"16\", \
             ATTR{queue/iosched/slice_idle}=\"0\""
        );
        assert_eq!(lines.udev.len(), 4, "no kernel has fill=: {:?}", lines.udev);
        let named = Lines::new(
            &setup,
            &setup.steps(&from),
            &Disk { name: Some("sdb".into()), ..disk.clone() },
            &processes,
            "",
        );
        assert!(
            named.udev[0].contains("KERNEL==\"sdb\", ATTR{queue/scheduler}=\"bfq\""),
            "{:?}",
            named.udev
        );
        let text = named.text(0);
        for part in [
            "echo 4 > /sys/block/sdb/device/queue_depth",
            "ionice -c 3 -p 44    # kworker/u8:3-44: idle",
            "ionice -c 2 -n 7 -p 7",
            "systemd, /etc/systemd/system/kworker-u8-3.service.d/io.conf:",
            "IOSchedulingClass=idle",
            "IOSchedulingPriority=7",
            "IOWeight=2300",
            "IOWriteIOPSMax=/dev/sdb 180",
            "write /dev/blkio/kworker-u8-3/blkio.throttle.write_iops_device \"8:16 180\"",
            "systemctl set-property --runtime db.service 'IODeviceLatencyTargetSec=/dev/sdb 5000us'    # db-7",
            "    write /sys/block/sdb/queue/nr_requests 64",
            "    ioprio be 7",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn weights_of_io_cost_are_as_they_are_and_need_its_model() {
        let from = Setup::of_scheduler("none");
        let setup = from.with(&Step::Cost).with(&Step::Weight(0, 300));
        let disk = Disk { device: DeviceNumber::new(259, 1), name: None };
        let lines = Lines::new(
            &setup,
            &setup.steps(&from),
            &disk,
            &[subject("db", 7)],
            "ctrl=user model=linear rbps=1",
        );
        assert_eq!(
            lines.shell[0],
            "echo '259:1 ctrl=user model=linear rbps=1' > /sys/fs/cgroup/io.cost.model"
        );
        assert!(
            lines.shell[1].starts_with("echo '259:1 enable=1 ")
                && lines.shell[2].contains("IOWeight=300 "),
            "{lines:?}"
        );
        assert_eq!(lines.systemd[0].0, "/etc/tmpfiles.d/elevon-io.conf");
        assert_eq!(lines.systemd[1].1, ["[Service]", "IOWeight=300"]);
    }
}
