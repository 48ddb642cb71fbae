//! What an engineer should look at first: problems that a trace shows, in plain language, with
//! evidence and what to try.
//!
//! Each kind of finding is a file: what it counts as the trace goes by (O(1) per event, bounded
//! memory), the thresholds from which it speaks, with their reasons, and the sentences. A trace
//! without a problem has no finding.

mod depth;
mod flush;
mod idle;
mod inversion;
mod neighbour;
mod starvation;
mod tails;

pub(super) use flush::Flushes;
pub(super) use idle::IdleWaits;
pub(super) use inversion::Inversions;
pub(super) use neighbour::Neighbours;
pub(super) use starvation::Starvation;
pub(super) use tails::Tails;

use super::collect::Counts;
use super::depth::Depths;
use super::life::{Bio, Request};
use super::process::ProcessStats;
use super::{ABSENT, Group};

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Bios are cut at the queue limit so that small requests remain (proposal 001).
    SmallTails,
    /// Reads wait much longer while writes are under way.
    ReaderStarved,
    /// Requests of a better priority class wait for those of a worse one.
    PriorityInversion,
    /// Flushes of the device's write cache take much of its time.
    FlushStorm,
    /// The device could serve more requests at a time than it is given.
    ShallowQueue,
    /// The device is idle while requests wait.
    IdleWhileWaiting,
    /// The device's queue is so deep that further depth adds latency only.
    DeviceBufferbloat,
    /// One process makes the 99th percentile of all others.
    NoisyNeighbour,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::SmallTails,
        Self::ReaderStarved,
        Self::PriorityInversion,
        Self::FlushStorm,
        Self::ShallowQueue,
        Self::IdleWhileWaiting,
        Self::DeviceBufferbloat,
        Self::NoisyNeighbour,
    ];

    /// A short stable name, used in JSON.
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
        }
    }
}

/// A problem that a trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of problem.
    pub kind: FindingKind,
    /// The problem in one sentence.
    pub title: String,
    /// First and last time at which it was seen, in nanoseconds of the trace's clock.
    pub when: Option<(u64, u64)>,
    /// Processes that it concerns, the most important first, as [`ProcessStats::label`] names them.
    pub who: Vec<String>,
    /// How much: figures by stable names, in the unit that the name ends with (`_ns`, `_bytes`,
    /// `_permille`) or counts.
    pub figures: Vec<(&'static str, u64)>,
    /// The evidence in sentences.
    pub evidence: Vec<String>,
    /// What to try.
    pub advice: Vec<String>,
    /// How much of the trace it concerns, in thousandths: of its time, or of its I/Os. Findings are
    /// ordered by it.
    pub weight: u32,
}

/// First and last time at which something was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct When(Option<(u64, u64)>);

impl When {
    #[inline]
    pub(super) fn seen(&mut self, now: u64) {
        if now != ABSENT {
            self.0 = Some(self.0.map_or((now, now), |(first, last)| (first.min(now), last.max(now))));
        }
    }

    pub(super) const fn span(self) -> Option<(u64, u64)> {
        self.0
    }
}

/// Counts by process, by the index of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct ByProcess(Vec<u64>);

impl ByProcess {
    #[inline]
    pub(super) fn add(&mut self, process: u32, count: u64) {
        let at = process as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += count;
    }

    /// Up to three processes with the largest counts.
    pub(super) fn top(&self, context: &Context<'_>) -> Vec<String> {
        let mut rows: Vec<(usize, u64)> = self.0.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        rows.sort_by_key(|&(at, count)| (std::cmp::Reverse(count), at));
        rows.into_iter().take(3).map(|(at, _)| context.label(at as u32)).collect()
    }
}

/// What findings are judged by, besides what they counted.
pub(super) struct Context<'a> {
    pub(super) processes: &'a [ProcessStats],
    pub(super) counts: &'a Counts,
    pub(super) depths: &'a Depths,
    /// First and last time of the trace.
    pub(super) span: Option<(u64, u64)>,
}

impl Context<'_> {
    pub(super) fn label(&self, process: u32) -> String {
        self.processes.get(process as usize).map_or_else(|| "unknown".to_owned(), ProcessStats::label)
    }

    /// Requests that were issued.
    pub(super) fn issued(&self) -> u64 {
        self.counts.issued.iter().sum()
    }

    /// Length of the trace in nanoseconds.
    pub(super) fn duration(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last - first)
    }
}

/// All that findings count.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) tails: Tails,
    pub(super) flushes: Flushes,
    starvation: Starvation,
    inversions: Inversions,
    idle: IdleWaits,
    neighbours: Neighbours,
}

impl Watchers {
    /// Write requests between their allocation and their completion.
    #[inline]
    pub(super) const fn writes_under_way(&self) -> u32 {
        self.starvation.writes()
    }

    /// Which of the busiest processes, other than this one, have requests under way.
    #[inline]
    pub(super) fn neighbours(&self, process: u32) -> u8 {
        self.neighbours.active(process)
    }

    #[inline]
    pub(super) fn on_bio_queued(&mut self, bio: &Bio, now: u64) {
        self.tails.on_bio_queued(bio);
        self.neighbours.on_bytes(bio.process, bio.bytes, now);
    }

    /// Requests of a worse priority class in the device.
    #[inline]
    pub(super) fn worse_in_device(&self, request: &Request) -> u32 {
        self.inversions.worse_in_device(request)
    }

    /// A request with data is under way.
    #[inline]
    pub(super) fn on_started(&mut self, request: &Request) {
        self.starvation.on_started(request.group);
        self.neighbours.on_started(request.process);
    }

    /// A request that was started has completed or was merged into another.
    #[inline]
    pub(super) fn on_ended(&mut self, request: &Request) {
        self.starvation.on_ended(request.group);
        self.neighbours.on_ended(request.process);
    }

    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, in_device: u64, now: u64) {
        self.tails.on_issued(request, now);
        self.inversions.on_issued(request, now);
        self.idle.on_issued(request, in_device, now);
        if request.group == Group::Flush {
            self.flushes.on_issued(now);
        }
    }

    #[inline]
    pub(super) fn on_left_device(&mut self, request: &Request, in_device: u64, now: u64) {
        self.idle.on_left(in_device, now);
        self.inversions.on_left(request);
        if request.group == Group::Flush {
            self.flushes.on_left(now);
        }
    }

    /// A request completed; `total` is its latency as far as it is known.
    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, _bytes: u64, serviced: Option<u64>, total: u64, now: u64) {
        self.starvation.on_completed(request, total, now);
        self.inversions.on_completed(request, serviced, now);
        self.neighbours.on_completed(request, total);
    }

    /// What is under way is not known any more.
    pub(super) fn forget(&mut self) {
        self.tails.forget();
        self.flushes.forget();
        self.starvation.forget();
        self.inversions.forget();
        self.idle.forget();
        self.neighbours.forget();
    }

    /// What was found, the weightiest first.
    pub(super) fn findings(&self, context: &Context<'_>) -> Vec<Finding> {
        let mut all: Vec<Finding> = [
            self.tails.finding(context),
            self.starvation.finding(context),
            self.inversions.finding(context),
            self.flushes.finding(context),
            depth::shallow(context),
            self.idle.finding(context),
            depth::bufferbloat(context),
            self.neighbours.finding(context),
        ]
        .into_iter()
        .flatten()
        .collect();
        all.sort_by_key(|finding| (std::cmp::Reverse(finding.weight), finding.kind));
        all
    }
}
