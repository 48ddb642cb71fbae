//! Findings: problems that a trace shows, in plain language, with evidence and advice.
//!
//! Each kind of finding is a file with its counters (O(1) per event, bounded memory), its
//! thresholds with their reasons, and its sentences. A trace without a problem has no finding.

mod bloat;
mod crowd;
mod cuts;
mod depth;
mod discards;
mod errors;
mod flush;
mod idle;
mod inversion;
mod neighbour;
mod order;
mod requeues;
mod starvation;
mod tags;
mod tails;

pub(super) use cuts::Cuts;
pub(super) use discards::Discards;
pub(super) use errors::Errors;
pub(super) use flush::Flushes;
pub(super) use idle::IdleWaits;
pub(super) use inversion::Inversions;
pub(super) use neighbour::Neighbours;
pub(super) use order::{MAX_OVERTAKEN, MIN_DEPTH_OF_AN_ORDER, Order};
pub(super) use requeues::Requeues;
pub(super) use starvation::Starvation;
pub(super) use tags::Tags;
pub(super) use tails::Tails;

use super::collect::Counts;
use super::depth::Depths;
use super::life::{Bio, Request};
use super::process::ProcessStats;
use super::{ABSENT, Group, NOBODY};
use crate::event::DeviceNumber;
use crate::recorded::Recorded;

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Bios are split at the queue limit so that small requests remain (proposal 001).
    SmallTails,
    /// Reads wait much longer while writes are in progress.
    ReaderStarved,
    /// Requests of a better priority class wait for those of a worse one.
    PriorityInversion,
    /// Flushes of the device's write cache take much of its time.
    FlushStorm,
    /// The device could serve more requests at a time than it gets.
    ShallowQueue,
    /// The device is idle while requests wait.
    IdleWhileWaiting,
    /// The device queue is so deep that further depth only adds latency, or that a process with few
    /// requests waits behind another one's.
    DeviceBufferbloat,
    /// One process determines the 99th percentile of all others.
    NoisyNeighbour,
    /// The driver gives many requests back (requeue).
    RequestsGivenBack,
    /// Requests or bios failed.
    IoErrors,
    /// A queue limit cuts bios into many small requests.
    SmallRequests,
    /// Reads and writes take much longer beside discards.
    DiscardStall,
    /// Bios wait because the queue has few requests (tags).
    FewTags,
    /// A process with few requests waits in the scheduler behind another one's many.
    CrowdedOut,
    /// A process of the idle class waits for long. A watch alone looks for it.
    IdleClass,
    /// A cgroup is held by its `io.max`, which a trace does not show. A watch alone looks for it.
    HeldByLimit,
    /// The device takes long for a request by itself. A watch alone looks for it.
    SlowDevice,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 17] = [
        Self::SmallTails,
        Self::ReaderStarved,
        Self::PriorityInversion,
        Self::FlushStorm,
        Self::ShallowQueue,
        Self::IdleWhileWaiting,
        Self::DeviceBufferbloat,
        Self::NoisyNeighbour,
        Self::RequestsGivenBack,
        Self::IoErrors,
        Self::SmallRequests,
        Self::DiscardStall,
        Self::FewTags,
        Self::CrowdedOut,
        Self::IdleClass,
        Self::HeldByLimit,
        Self::SlowDevice,
    ];

    /// Returns true if it is about what the device does, which all its partitions together make.
    const fn is_of_device(self) -> bool {
        match self {
            Self::FlushStorm
            | Self::ShallowQueue
            | Self::IdleWhileWaiting
            | Self::DeviceBufferbloat
            | Self::RequestsGivenBack
            | Self::FewTags
            | Self::CrowdedOut
            | Self::SlowDevice => true,
            Self::SmallTails
            | Self::ReaderStarved
            | Self::PriorityInversion
            | Self::NoisyNeighbour
            | Self::IoErrors
            | Self::SmallRequests
            | Self::DiscardStall
            | Self::IdleClass
            | Self::HeldByLimit => false,
        }
    }

    /// Returns a short stable name, used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallTails => "small_tails",
            Self::ReaderStarved => "reader_starved",
            Self::PriorityInversion => "priority_inversion",
            Self::FlushStorm => "flush_storm",
            Self::ShallowQueue => "shallow_queue",
            Self::IdleWhileWaiting => "idle_while_waiting",
            Self::DeviceBufferbloat => "device_bufferbloat",
            Self::NoisyNeighbour => "noisy_neighbour",
            Self::RequestsGivenBack => "requests_given_back",
            Self::IoErrors => "io_errors",
            Self::SmallRequests => "small_requests",
            Self::DiscardStall => "discard_stall",
            Self::FewTags => "few_tags",
            Self::CrowdedOut => "crowded_out",
            Self::IdleClass => "idle_class",
            Self::HeldByLimit => "held_by_limit",
            Self::SlowDevice => "slow_device",
        }
    }
}

/// One problem in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the problem.
    pub kind: FindingKind,
    /// The problem in one sentence.
    pub title: String,
    /// Time of the first and last occurrence, in nanoseconds of the trace's clock.
    pub when: Option<(u64, u64)>,
    /// Processes involved, the most important first, as named by [`ProcessStats::label`].
    pub who: Vec<String>,
    /// Figures with stable names. The unit is the end of the name (`_ns`, `_bytes`, `_permille`),
    /// otherwise they are counts.
    pub figures: Vec<(&'static str, u64)>,
    /// The evidence in sentences.
    pub evidence: Vec<String>,
    /// Advice on what to try.
    pub advice: Vec<String>,
    /// Affected part of the trace in thousandths: of its time, or of its I/Os. Findings are sorted
    /// by it.
    pub weight: u32,
}

/// Replaces those of a partition's findings that are about the device by those of its disk.
pub(super) fn take_those_of_device(
    findings: &mut Vec<Finding>,
    of_disk: Vec<Finding>,
    disk: DeviceNumber,
) {
    findings.retain(|finding| !finding.kind.is_of_device());
    findings.extend(of_disk.into_iter().filter(|finding| finding.kind.is_of_device()).map(
        |mut finding| {
            finding.evidence.push(format!(
                "this is of the whole disk {disk}, with the I/O of all its partitions"
            ));
            finding
        },
    ));
    sort(findings);
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.weight), finding.kind));
}

/// Time of the first and last occurrence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct When(Option<(u64, u64)>);

impl When {
    #[inline]
    pub(super) fn seen(&mut self, now: u64) {
        if now != ABSENT {
            self.0 =
                Some(self.0.map_or((now, now), |(first, last)| (first.min(now), last.max(now))));
        }
    }

    pub(super) const fn span(self) -> Option<(u64, u64)> {
        self.0
    }
}

/// Counts by index of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct ByProcess(Vec<u64>);

impl ByProcess {
    #[inline]
    pub(super) fn add(&mut self, process: u32, count: u64) {
        if process == NOBODY {
            return;
        }
        let at = process as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += count;
    }

    /// Returns the process with the largest count.
    pub(super) fn first(&self) -> Option<usize> {
        (0..self.0.len()).max_by_key(|&at| (self.0[at], std::cmp::Reverse(at)))
    }

    /// Returns up to three processes with the largest counts.
    pub(super) fn top(&self, context: &Context<'_>) -> Vec<String> {
        let mut rows: Vec<(usize, u64)> =
            self.0.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        rows.sort_by_key(|&(at, count)| (std::cmp::Reverse(count), at));
        rows.into_iter().take(3).map(|(at, _)| context.label(at as u32)).collect()
    }
}

/// Figures that findings use in addition to their own counters.
pub(super) struct Context<'a> {
    pub(super) processes: &'a [ProcessStats],
    pub(super) counts: &'a Counts,
    pub(super) depths: &'a Depths,
    /// First and last time of the trace.
    pub(super) span: Option<(u64, u64)>,
    /// Nanoseconds of the trace in which no events were lost.
    pub(super) observed: u64,
    /// The settings of the device, if the trace has them.
    pub(super) recorded: Option<&'a Recorded>,
    /// What findings call the time that was looked at: a trace, or a part of what is watched.
    pub(super) whole: &'static str,
}

impl Context<'_> {
    pub(super) fn label(&self, process: u32) -> String {
        self.processes
            .get(process as usize)
            .map_or_else(|| "unknown".to_owned(), ProcessStats::label)
    }

    /// Returns the value of a setting of the device's queue.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        self.recorded?.get(&format!("queue/{key}"))
    }

    /// Returns ` (it was VALUE)` for a setting of the device's queue, or nothing if the trace does
    /// not tell.
    pub(super) fn it_was(&self, key: &str) -> String {
        self.setting(key).map_or_else(String::new, |value| format!(" (it was {value})"))
    }

    /// Returns the number of requests that were issued.
    pub(super) fn issued(&self) -> u64 {
        self.counts.issued.iter().sum()
    }
}

/// The counters of all findings.
#[derive(Default)]
pub(super) struct Watchers {
    /// True while events are lost: what the device does is not known.
    pub(super) is_in_gap: bool,
    pub(super) tails: Tails,
    pub(super) flushes: Flushes,
    starvation: Starvation,
    inversions: Inversions,
    idle: IdleWaits,
    neighbours: Neighbours,
    pub(super) requeues: Requeues,
    pub(super) errors: Errors,
    cuts: Cuts,
    discards: Discards,
    pub(super) tags: Tags,
    pub(super) order: Order,
}

impl Watchers {
    /// Returns the number of write requests between allocation and completion.
    #[inline]
    pub(super) const fn writes_under_way(&self) -> u32 {
        self.starvation.writes()
    }

    /// Returns which of the busiest processes, if it is not this one, has most of the sectors in
    /// progress, as a bit mask.
    #[inline]
    pub(super) fn neighbours(&self, process: u32) -> u8 {
        self.neighbours.active(process)
    }

    /// Returns true if a discard is in the device.
    #[inline]
    pub(super) const fn has_discards(&self) -> bool {
        self.discards.are_in_device()
    }

    /// Returns the size in bytes at which bios are cut, as splits or the pieces show it.
    fn limit(&self) -> u64 {
        if self.tails.limit() > 0 { self.tails.limit() } else { self.cuts.piece() }
    }

    /// Counts a bio that completed.
    #[inline]
    pub(super) fn on_bio_completed(&mut self, bio: &Bio, now: u64) {
        self.tails.on_bio_completed(bio);
        self.cuts.on_bio_completed(bio, now);
    }

    #[inline]
    pub(super) fn on_bio_queued(&mut self, bio: &Bio, now: u64) {
        self.tails.on_bio_queued(bio);
        self.neighbours.on_bytes(bio.process, bio.bytes, now);
    }

    /// Returns the number of requests of a worse priority class in the device.
    #[inline]
    pub(super) fn worse_in_device(&self, request: &Request) -> u32 {
        self.inversions.worse_in_device(request)
    }

    /// Counts a request with data that starts.
    #[inline]
    pub(super) fn on_started(&mut self, request: &Request) {
        self.starvation.on_started(request.group);
        self.neighbours.on_started(request);
    }

    /// Counts a started request that has completed or was merged into another one.
    #[inline]
    pub(super) fn on_ended(&mut self, request: &Request) {
        self.starvation.on_ended(request.group);
        self.neighbours.on_ended(request);
    }

    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, in_device: u64, now: u64) {
        self.tails.on_issued(request, now);
        self.inversions.on_issued(request, now);
        self.discards.on_issued(request, now);
        if self.is_in_gap {
            return;
        }
        self.idle.on_issued(request, in_device, now);
        if request.group == Group::Flush {
            self.flushes.on_issued(now);
        }
    }

    #[inline]
    pub(super) fn on_left_device(&mut self, request: &Request, in_device: u64, now: u64) {
        self.inversions.on_left(request);
        self.discards.on_left(request);
        if self.is_in_gap {
            return;
        }
        self.idle.on_left(in_device, now);
        if request.group == Group::Flush {
            self.flushes.on_left(now);
        }
    }

    /// Counts a completed request; `total` is its latency as far as it is known.
    #[inline]
    pub(super) fn on_completed(
        &mut self,
        request: &Request,
        _bytes: u64,
        serviced: Option<u64>,
        total: u64,
        now: u64,
    ) {
        self.starvation.on_completed(request, total, now);
        self.inversions.on_completed(request, serviced, now);
        self.discards.on_completed(request, serviced);
        self.neighbours.on_completed(request, total);
    }

    /// Forgets everything in progress.
    pub(super) fn forget(&mut self) {
        self.tails.forget();
        self.flushes.forget();
        self.starvation.forget();
        self.inversions.forget();
        self.discards.forget();
        self.idle.forget();
        self.neighbours.forget();
    }

    /// Returns the findings, the most important first.
    pub(super) fn findings(&self, context: &Context<'_>) -> Vec<Finding> {
        let mut all: Vec<Finding> = [
            self.tails.finding(context),
            self.starvation.finding(context),
            self.inversions.finding(context),
            self.flushes.finding(context),
            depth::shallow(context),
            self.idle.finding(context),
            bloat::bufferbloat(context, self),
            self.neighbours.finding(context),
            self.requeues.finding(context),
            self.errors.finding(context),
            self.cuts.finding(context, self.limit()),
            self.discards.finding(context),
            self.tags.finding(context),
            crowd::finding(context),
        ]
        .into_iter()
        .flatten()
        .collect();
        sort(&mut all);
        all
    }
}
