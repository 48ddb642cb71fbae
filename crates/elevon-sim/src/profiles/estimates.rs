//! What a model lacks, and which figures of a run follow parameters that no published source
//! states.

use super::{Base, Basis, Profile};

/// A group of figures that follow the same parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Latency of reads in a run that does not write, from the 99th percentile on.
    ReadTail,
    /// Latency of reads in a run that also writes, from the 99th percentile on.
    ReadTailBesideWrites,
    /// Latency of writes, from the 99th percentile on.
    WriteTail,
    /// All of the latency and throughput, because no source states what the device takes.
    Everything,
    /// Latency of flushes.
    Flushes,
    /// Latency of discards.
    Discards,
}

impl Figures {
    /// Returns the figures in words, as the subject of a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::ReadTail => {
                "Latencies of reads from the 99th percentile on, in a run without writes,"
            }
            Self::ReadTailBesideWrites => {
                "Latencies of reads from the 99th percentile on, beside writes,"
            }
            Self::WriteTail => "Latencies of writes from the 99th percentile on",
            Self::Everything => "All latencies and rates",
            Self::Flushes => "Latencies of flushes",
            Self::Discards => "Latencies of discards",
        }
    }
}

type Rows = &'static [(Figures, &'static [&'static str])];

const FLASH: Rows = &[
    (Figures::ReadTail, &["stall_share", "stall_time", "jitter", "map_miss"]),
    (
        Figures::ReadTailBesideWrites,
        &["program_time", "erase_time", "erase_block", "gc_slice", "overprovision"],
    ),
    (
        Figures::WriteTail,
        &["buffer", "program_time", "erase_time", "gc_slice", "overprovision", "slc_size"],
    ),
    (Figures::Flushes, &["flush_time"]),
    (Figures::Discards, &["discard_time"]),
];
const DISK: Rows = &[
    (Figures::ReadTail, &["starvation", "margin", "read_ahead", "segments"]),
    (Figures::ReadTailBesideWrites, &["starvation", "cache", "margin", "read_ahead", "segments"]),
    (Figures::WriteTail, &["cache", "starvation", "margin"]),
    (Figures::Flushes, &["cache"]),
];
const LUN: Rows = &[
    (Figures::ReadTail, &["distribution", "slice_jitter"]),
    (Figures::ReadTailBesideWrites, &["distribution", "slice_jitter"]),
    (Figures::WriteTail, &["distribution", "slice_jitter"]),
];

const FLASH_LACKS: &str = "a translation layer: where data lies, discards, and what was written before have no effect \
on speed (`overprovision` stands for a drive in steady state); wear, suspended programs and reads from the write \
buffer";
const DISK_LACKS: &str =
    "reads of data that is still in the write cache, remapped sectors, thermal recalibration";
const LUN_LACKS: &str =
    "caches, and the disks behind the limit: places and sizes have no effect on speed";
const SLOTS_LACKS: &str = "caches, garbage collection, and an effect of places (but `seq_latency`): discards and what \
was written before have no effect on speed";
const NULL_LACKS: &str =
    "everything but one latency: sizes, places and other commands have no effect on speed";

/// Returns what the model of a device lacks that real devices have, as a list for a sentence.
/// `spec` is as [`super::open`] takes it; `None` if it names no device.
pub fn lacks(spec: &str) -> Option<&'static str> {
    let name = spec.split(':').next().unwrap_or_default();
    let base = super::profile(name).map(|profile| profile.base);
    let of_model = |model: &str| if model == "null" { NULL_LACKS } else { SLOTS_LACKS };
    match base {
        Some(Base::Flash { .. }) => Some(FLASH_LACKS),
        Some(Base::Disk(_)) => Some(DISK_LACKS),
        Some(Base::Lun { .. }) => Some(LUN_LACKS),
        Some(Base::Model { model, .. }) => Some(of_model(model)),
        None => super::names().any(|known| known == name).then(|| of_model(name)),
    }
}

impl Profile {
    /// Returns the parameters that no published source states and that the user did not set. What
    /// is switched off by a 0 is left out, but for `overprovision`, whose 0 says that the drive is
    /// fresh.
    /// `settings` are the user's, as [`Self::parameters_with`] takes them.
    pub fn estimated(&self, settings: &str) -> Vec<&'static str> {
        let is_estimate = |source: Option<usize>| {
            source.is_none_or(|source| self.sources[source].basis == Basis::Estimated)
        };
        let lines = self.parameters_with(settings).unwrap_or_default();
        let estimated = lines.into_iter().filter(|line| !line.changed && is_estimate(line.source));
        estimated
            .filter(|line| line.value != "0" || line.key == "overprovision")
            .map(|line| line.key)
            .collect()
    }
}

/// Returns the groups of figures that follow estimates, each with the parameters: of the device
/// that `spec` describes, as [`super::open`] takes it. A device whose parameters are all the
/// user's has none.
pub fn estimates(spec: &str) -> Vec<(Figures, Vec<&'static str>)> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(profile) = super::profile(name) else { return Vec::new() };
    let rows = match profile.base {
        Base::Flash { .. } => FLASH,
        Base::Disk(_) => DISK,
        Base::Lun { .. } => LUN,
        Base::Model { presented: Some(_), model: "slots", .. } => {
            let given =
                |key: &&str| settings.split(',').any(|own| own.split('=').next() == Some(key));
            let all: Vec<&str> =
                ["slots", "latency", "bandwidth"].into_iter().filter(|key| !given(key)).collect();
            return if all.is_empty() { Vec::new() } else { vec![(Figures::Everything, all)] };
        }
        Base::Model { .. } => return Vec::new(),
    };
    let estimated = profile.estimated(settings);
    let of = |keys: &[&'static str]| {
        keys.iter().copied().filter(|key| estimated.contains(key)).collect::<Vec<_>>()
    };
    rows.iter()
        .map(|&(figures, keys)| (figures, of(keys)))
        .filter(|(_, keys)| !keys.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::PROFILES;

    #[test]
    fn every_parameter_of_a_group_is_one_of_the_profile() {
        for profile in PROFILES {
            let rows = match profile.base {
                Base::Flash { .. } => FLASH,
                Base::Disk(_) => DISK,
                Base::Lun { .. } => LUN,
                Base::Model { .. } => continue,
            };
            let known = profile.parameters();
            for key in rows.iter().flat_map(|row| row.1) {
                assert!(known.iter().any(|line| line.key == *key), "{}: {key}", profile.name);
            }
        }
    }

    #[test]
    fn what_the_user_sets_or_a_source_states_is_no_estimate() {
        let of = |spec: &str, figures: Figures| {
            estimates(spec).into_iter().find(|at| at.0 == figures).map_or_else(Vec::new, |at| at.1)
        };
        let tail = of("nvme-datacenter", Figures::ReadTailBesideWrites);
        assert!(
            tail.contains(&"gc_slice")
                && tail.contains(&"erase_time")
                && !tail.contains(&"overprovision")
        );
        let set = of("nvme-datacenter:gc_slice=2ms", Figures::ReadTailBesideWrites);
        assert!(!set.contains(&"gc_slice") && set.contains(&"erase_time"));
        assert_eq!(of("virtio-blk:latency=300us", Figures::Everything), ["slots", "bandwidth"]);
        assert_eq!(estimates("slots:slots=8,latency=2ms"), []);
    }

    #[test]
    fn every_device_says_what_its_model_lacks() {
        for name in crate::profiles::names() {
            assert!(lacks(name).is_some_and(|text| !text.ends_with('.')), "{name}");
        }
        assert!(
            lacks("nvme-consumer:dies=4").is_some_and(|text| text.contains("translation layer"))
        );
        assert_eq!(lacks("disk.img"), None);
    }
}
