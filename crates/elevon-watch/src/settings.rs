//! Settings of a disk, against what its kind wants.

use elevon_trace::Recorded;

/// What kind of disk it is, as far as its settings matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// Platters and a head.
    Rotational,
    /// Flash behind SATA or SAS: one queue of 31 to some hundred requests.
    SataSsd,
    /// Flash with a queue for each processor.
    Nvme,
    /// Flash of a phone or a board: eMMC, SD, UFS.
    Card,
    /// A device of dm or md: its disks lie below.
    Stacked,
    /// A file as a disk.
    Loop,
    /// A disk that a host gives a guest.
    Virtio,
    /// Another one, such as a disk of the network.
    Other,
}

impl DiskKind {
    /// Returns the kind of a disk by its name and its settings, as
    /// [`elevon_trace::capture::Disk::note_settings`] notes them.
    pub fn of_settings(settings: &Recorded) -> Self {
        let name = settings.get("name").unwrap_or_default();
        let begins = |prefix: &str| name.starts_with(prefix);
        if begins("dm-") || begins("md") {
            Self::Stacked
        } else if begins("loop") {
            Self::Loop
        } else if begins("vd") {
            Self::Virtio
        } else if begins("nvme") {
            Self::Nvme
        } else if begins("mmcblk") {
            Self::Card
        } else if settings.number("queue/rotational") == Some(1) {
            Self::Rotational
        } else if begins("sd") {
            Self::SataSsd
        } else {
            Self::Other
        }
    }

    /// Returns the kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotational => "rotational disk",
            Self::SataSsd => "SATA or SAS SSD",
            Self::Nvme => "NVMe SSD",
            Self::Card => "eMMC or SD card",
            Self::Stacked => "device of dm or md",
            Self::Loop => "loop device",
            Self::Virtio => "virtio disk",
            Self::Other => "other disk",
        }
    }
}

/// A setting of a disk's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file below `/sys/block/NAME/queue`, such as `scheduler`.
    pub file: &'static str,
    /// Its value; of a list the chosen one.
    pub value: String,
    /// What the kind of disk wants instead, if it wants something else.
    pub wish: Option<Wish>,
}

/// What a kind of disk wants of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The value.
    pub value: String,
    /// Why, in one sentence.
    pub reason: String,
}

impl Setting {
    /// Returns the line that gives a disk its wish; `None` without one.
    pub fn line(&self, disk: &str) -> Option<String> {
        let wish = self.wish.as_ref()?;
        Some(format!("echo {} > /sys/block/{disk}/queue/{}", wish.value, self.file))
    }
}

/// Returns what a kind of disk wants instead of a value: the value and the reason.
type Rule = fn(DiskKind, &str, &Recorded) -> Option<(String, String)>;

/// The settings that are looked at, each with its rule.
const RULES: [(&str, Rule); 9] = [
    ("scheduler", scheduler),
    ("nr_requests", nr_requests),
    ("read_ahead_kb", read_ahead),
    ("rq_affinity", rq_affinity),
    ("wbt_lat_usec", writeback_throttling),
    ("max_sectors_kb", max_sectors),
    ("write_cache", write_cache),
    ("nomerges", merges),
    ("iostats", statistics),
];

/// Returns the settings of a disk that matter, each with what the kind of disk wants instead.
/// Those that the kernel does not have are left out.
pub fn settings_against_kind(settings: &Recorded) -> Vec<Setting> {
    let kind = DiskKind::of_settings(settings);
    let value = |file: &str| match file {
        "scheduler" => settings.scheduler().map(str::to_owned),
        file => settings.get(&format!("queue/{file}")).map(str::to_owned),
    };
    let all = RULES.iter().filter_map(|(file, rule)| {
        let value = value(file)?;
        let wish = rule(kind, &value, settings).map(|(value, reason)| Wish { value, reason });
        Some(Setting { file, value, wish })
    });
    all.collect()
}

fn wish(value: impl ToString, reason: &str) -> Option<(String, String)> {
    Some((value.to_string(), reason.to_owned()))
}

fn scheduler(kind: DiskKind, value: &str, settings: &Recorded) -> Option<(String, String)> {
    let offers = |name: &str| {
        let all = settings.get("queue/scheduler").unwrap_or_default();
        all.split_whitespace().any(|word| word.trim_matches(['[', ']']) == name)
    };
    match (kind, value) {
        (DiskKind::Rotational, "none") => {
            let better =
                if offers("bfq") && !offers("mq-deadline") { "bfq" } else { "mq-deadline" };
            wish(better, "without a scheduler the head follows the order of arrival")
        }
        (DiskKind::Nvme, "bfq") => wish(
            "none",
            "bfq takes a lock for each request, which costs throughput of a disk with many queues, \
             unless processes need its weights",
        ),
        (DiskKind::Loop, "bfq" | "mq-deadline" | "kyber") => wish(
            "none",
            "the disk under the file has a scheduler, and a second one only holds requests back",
        ),
        _ => None,
    }
}

/// Requests below which a few processes wait for each other. The kernel's default is 64 or more.
const FEW_REQUESTS: u64 = 16;

fn nr_requests(kind: DiskKind, value: &str, _: &Recorded) -> Option<(String, String)> {
    let few = value.parse::<u64>().ok()? < FEW_REQUESTS;
    let enough = if kind == DiskKind::Nvme { 256 } else { 64 };
    (few && kind != DiskKind::Stacked).then_some(())?;
    wish(enough, "processes wait for a free request before the scheduler sees their I/O")
}

/// KiB of read-ahead: the kernel's default, and what is too much for a disk without seeks.
const READ_AHEAD_KB: u64 = 128;
const MUCH_READ_AHEAD_KB: u64 = 4096;

fn read_ahead(kind: DiskKind, value: &str, _: &Recorded) -> Option<(String, String)> {
    let kb: u64 = value.parse().ok()?;
    let seeks = matches!(kind, DiskKind::Rotational | DiskKind::Stacked);
    if kb < READ_AHEAD_KB / 4 {
        let reason = "a file that is read in order waits for the disk at every few pages";
        return wish(READ_AHEAD_KB, reason);
    }
    if kb > MUCH_READ_AHEAD_KB && !seeks {
        let reason = "pages that no process asks for fill memory and the disk's queue";
        return wish(READ_AHEAD_KB, reason);
    }
    None
}

fn rq_affinity(kind: DiskKind, value: &str, _: &Recorded) -> Option<(String, String)> {
    // A loop device and one of dm complete where the disk below does.
    let is_own = !matches!(kind, DiskKind::Stacked | DiskKind::Loop);
    (is_own && value == "0").then_some(())?;
    wish(1, "completions run on the processor of the interrupt, away from the caches of the caller")
}

fn writeback_throttling(
    kind: DiskKind,
    value: &str,
    settings: &Recorded,
) -> Option<(String, String)> {
    // The scheduler bfq switches it off itself.
    let is_wanted = matches!(kind, DiskKind::Rotational | DiskKind::SataSsd | DiskKind::Card)
        && settings.scheduler() != Some("bfq");
    (is_wanted && value == "0").then_some(())?;
    let usual = if kind == DiskKind::Rotational { 75_000 } else { 2000 };
    wish(usual, "write-back of the page cache may fill the queue in front of reads")
}

/// The largest request that a disk needs for its full throughput, in KiB: with seeks, and without.
const ENOUGH_KB: (u64, u64) = (512, 128);
/// The kernel's default in KiB.
const USUAL_KB: u64 = 1280;

fn max_sectors(kind: DiskKind, value: &str, settings: &Recorded) -> Option<(String, String)> {
    let (max, hw) = (value.parse::<u64>().ok()?, settings.number("queue/max_hw_sectors_kb")?);
    let enough = if kind == DiskKind::Rotational { ENOUGH_KB.0 } else { ENOUGH_KB.1 };
    (max < hw && max < enough).then_some(())?;
    wish(hw.min(USUAL_KB), "large I/Os are cut into many requests")
}

/// A wrong value loses data, and the right one depends on the hardware alone.
fn write_cache(_: DiskKind, _: &str, _: &Recorded) -> Option<(String, String)> {
    None
}

fn merges(kind: DiskKind, value: &str, _: &Recorded) -> Option<(String, String)> {
    // A disk with many queues hardly merges, and saves the search.
    let is_needed = !matches!(kind, DiskKind::Nvme | DiskKind::Stacked);
    (is_needed && value == "2").then_some(())?;
    wish(0, "neighbours do not become one request, so that small I/O in order is many requests")
}

fn statistics(_: DiskKind, value: &str, _: &Recorded) -> Option<(String, String)> {
    (value == "0").then_some(())?;
    wish(1, "iostat and /proc/diskstats show nothing of this disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Recorded {
        let mut recorded = Recorded::default();
        values.iter().for_each(|(key, value)| recorded.note(key, value));
        recorded
    }

    /// Returns the files that a disk would have otherwise, with what it wants.
    fn wishes(values: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let all = settings_against_kind(&settings(values)).into_iter();
        all.filter_map(|setting| Some((setting.file, setting.wish?.value))).collect()
    }

    /// What the kernel sets up by itself.
    const DEFAULTS: [(&str, &str); 10] = [
        ("queue/scheduler", "none [mq-deadline] bfq"),
        ("queue/nr_requests", "64"),
        ("queue/read_ahead_kb", "128"),
        ("queue/rq_affinity", "1"),
        ("queue/wbt_lat_usec", "2000"),
        ("queue/max_sectors_kb", "1280"),
        ("queue/max_hw_sectors_kb", "32767"),
        ("queue/write_cache", "write back"),
        ("queue/nomerges", "0"),
        ("queue/iostats", "1"),
    ];

    fn with(name: &str, changed: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let mut values = DEFAULTS.to_vec();
        values.push(("name", name));
        for (key, value) in changed {
            values.retain(|(old, _)| old != key);
            values.push((key, value));
        }
        wishes(&values)
    }

    #[test]
    fn every_kind_is_content_with_the_defaults_of_the_kernel() {
        let none = ("queue/scheduler", "[none] mq-deadline kyber bfq");
        let rotational = ("queue/rotational", "1");
        assert_eq!(with("sda", &[rotational, ("queue/wbt_lat_usec", "75000")]), []);
        assert_eq!(with("sda", &[]), []);
        for name in ["nvme0n1", "loop0", "vda", "dm-0", "md127", "mmcblk0", "nbd0"] {
            assert_eq!(with(name, &[none]), [], "{name}");
        }
    }

    #[test]
    fn what_a_kind_wants_otherwise_is_named() {
        let rotational = ("queue/rotational", "1");
        let odd = [
            rotational,
            ("queue/scheduler", "[none] mq-deadline"),
            ("queue/max_sectors_kb", "4"),
            ("queue/nr_requests", "4"),
            ("queue/read_ahead_kb", "0"),
            ("queue/wbt_lat_usec", "0"),
            ("queue/nomerges", "2"),
            ("queue/rq_affinity", "0"),
            ("queue/iostats", "0"),
        ];
        let expected = [
            ("scheduler", "mq-deadline"),
            ("nr_requests", "64"),
            ("read_ahead_kb", "128"),
            ("rq_affinity", "1"),
            ("wbt_lat_usec", "75000"),
            ("max_sectors_kb", "1280"),
            ("nomerges", "0"),
            ("iostats", "1"),
        ];
        let expected: Vec<(&str, String)> =
            expected.iter().map(|(file, value)| (*file, (*value).to_owned())).collect();
        assert_eq!(with("sda", &odd), expected);
        let bfq = ("queue/scheduler", "none [bfq]");
        assert_eq!(with("nvme0n1", &[bfq]), [("scheduler", "none".to_owned())]);
        assert_eq!(with("sda", &[bfq, ("queue/wbt_lat_usec", "0")]), []);
        assert_eq!(with("loop0", &[bfq]), [("scheduler", "none".to_owned())]);
    }

    #[test]
    fn a_wish_has_the_line_that_sets_it() {
        let all = settings_against_kind(&settings(&[("name", "sda"), ("queue/nomerges", "2")]));
        let line = all[0].line("sda");
        assert_eq!(line.as_deref(), Some("echo 0 > /sys/block/sda/queue/nomerges"));
    }
}
