//! Finds small tails: a bio whose size is not a multiple of the queue limit is split into full
//! requests and a small rest (proposal 001).

use super::super::life::{Bio, Request};
use super::super::sum::add;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::analysis::Group;
use crate::event::SECTOR_SIZE;

/// Minimum number of tails. A single I/O has at most one at its end, which cannot be avoided.
const MIN_TAILS: u64 = 4;
/// Minimum number of tails, in thousandths of all requests: below one in a hundred, avoiding them
/// saves less than the variation of measurements.
const MIN_TAILS_PERMILLE: u32 = 10;

/// Bytes of a page of memory, which is a segment where no other page follows it in memory.
const PAGE: u64 = 4096;

/// Contiguous bios that one process queued while the previous ones were in progress: as far as a
/// trace shows, the bios of one I/O.
#[derive(Clone, Copy, Default)]
struct Run {
    end: u64,
    group: Option<Group>,
    sectors: u64,
    requests: u64,
    is_split: bool,
    /// Bios of the process that are in progress.
    live: u64,
}

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Tails {
    /// Sectors of the largest front part of a split, which is the queue limit.
    limit: u64,
    split_bios: u64,
    /// Rests that were issued as a request of less than half the limit.
    tails: u64,
    tail_sectors: u64,
    by_process: ByProcess,
    when: When,
    runs: Vec<Run>,
    /// Requests of the finished runs that were split, and how many would be needed if each were
    /// full.
    requests: u64,
    needed: u64,
}

impl Tails {
    fn run(&mut self, process: u32) -> &mut Run {
        let at = process as usize;
        if at >= self.runs.len() {
            self.runs.resize(at + 1, Run::default());
        }
        &mut self.runs[at]
    }

    #[inline]
    pub(in crate::analysis) fn on_bio_queued(&mut self, bio: &Bio) {
        let run = self.run(bio.process);
        let goes_on = run.live > 0 && run.end == bio.start && run.group == Some(bio.group);
        let ended = *run;
        run.live += 1;
        if !goes_on {
            *run = Run { live: run.live, group: Some(bio.group), ..Run::default() };
        }
        add(&mut run.sectors, bio.end.wrapping_sub(bio.start));
        run.end = bio.end;
        if !goes_on && ended.is_split {
            self.end(ended);
        }
    }

    fn end(&mut self, run: Run) {
        let (requests, needed) = cost(run, self.limit);
        self.requests += requests;
        self.needed += needed;
    }

    #[inline]
    pub(in crate::analysis) fn on_bio_completed(&mut self, bio: &Bio) {
        let run = self.run(bio.process);
        run.live = run.live.saturating_sub(1);
    }

    pub(in crate::analysis) fn on_split(&mut self, bio: &Bio, front: u64, _now: u64) {
        // Discards have a limit of their own.
        if !matches!(bio.group, Group::Read | Group::Write) {
            return;
        }
        self.limit = self.limit.max(front);
        self.split_bios += u64::from(bio.pieces == 0);
        self.run(bio.process).is_split = true;
    }

    /// Counts a request that a piece of a bio started.
    #[inline]
    pub(in crate::analysis) fn on_started(&mut self, request: &Request) {
        self.run(request.process).requests += 1;
    }

    #[inline]
    pub(in crate::analysis) fn on_issued(&mut self, request: &Request, now: u64) {
        let is_data = matches!(request.group, Group::Read | Group::Write);
        if is_data
            && request.has_tail
            && !request.is_requeued
            && request.sectors < self.limit.div_ceil(2)
        {
            self.tails += 1;
            add(&mut self.tail_sectors, request.sectors);
            self.by_process.add(request.process, 1);
            self.when.seen(now);
        }
    }

    /// Returns the queue limit in bytes, as the largest front part of a split shows it; 0 if
    /// nothing was split.
    pub(super) const fn limit(&self) -> u64 {
        self.limit.saturating_mul(SECTOR_SIZE)
    }

    pub(in crate::analysis) fn forget(&mut self) {
        for run in &mut self.runs {
            *run = Run::default();
        }
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let all = context.issued();
        let weight = words::permille(self.tails, all);
        if self.tails < MIN_TAILS || weight < MIN_TAILS_PERMILLE {
            return None;
        }
        let (mut requests, mut needed) = (self.requests, self.needed);
        for run in self.runs.iter().filter(|run| run.is_split) {
            let (more, need) = cost(*run, self.limit);
            requests += more;
            needed += need;
        }
        let saved = requests.saturating_sub(needed);
        let mean = (u128::from(self.tail_sectors) * u128::from(SECTOR_SIZE)
            / u128::from(self.tails)) as u64;
        let limit = self.limit.saturating_mul(SECTOR_SIZE);
        let mut advice = Vec::new();
        if saved > 0 {
            let also = match larger_setting(context, limit) {
                Some(_) => format!("--set max_sectors_kb={} and ", limit >> 10),
                None => String::new(),
            };
            advice.push(format!(
                "bios that are filled up to the limit and no further (proposal 001; {also}--set fill=max-sectors in a \
                 simulation, fill=trim for its counter-proposal) would need up to {saved} requests less, {} of all",
                words::percent(saved, all)
            ));
        } else {
            advice.push(
                "filling bios differently (fill=) would save nothing here: each I/O ends with its tail".to_owned(),
            );
        }
        advice.push(format!(
            "I/O sizes that are multiples of {}, {}",
            words::bytes(limit),
            larger(context, limit)
        ));
        Some(Finding {
            kind: FindingKind::SmallTails,
            title: format!(
                "The queue limit of {} cuts small tails off: {} requests carry {} on average",
                words::bytes(limit),
                self.tails,
                words::bytes(mean)
            ),
            when: self.when.span(),
            who: self.by_process.top(context),
            figures: vec![
                ("limit_bytes", limit),
                ("split_bios", self.split_bios),
                ("tails", self.tails),
                ("tail_mean_bytes", mean),
                ("requests_of_split_io", requests),
                ("requests_if_filled", needed),
                ("requests_saved", saved),
            ],
            evidence: vec![format!(
                "{} bios were larger than the limit; {} of their rests were issued as requests of less than half of it, \
                 {} of all requests",
                self.split_bios,
                self.tails,
                words::percent(self.tails, all)
            )],
            advice,
            weight,
        })
    }
}

/// Returns the number of requests of a run, and how many would be needed if each except the last
/// were full.
fn cost(run: Run, limit: u64) -> (u64, u64) {
    let needed = if limit == 0 { run.requests } else { run.sectors.div_ceil(limit) };
    (run.requests, needed.min(run.requests))
}

/// Returns `max_sectors_kb` if it is not what cut requests to `limit` bytes. Fills go by it, so
/// that they save nothing unless it is set to what cuts.
pub(super) fn larger_setting<'a>(context: &'a Context<'_>, limit: u64) -> Option<&'a str> {
    let soft = context.setting("max_sectors_kb")?;
    let allowed = soft.parse::<u64>().ok()?.saturating_mul(1024);
    // A front part is rounded down to whole blocks, which can make it smaller than max_sectors_kb
    // by less than a page.
    (allowed.saturating_sub(limit) >= PAGE).then_some(soft)
}

/// Returns what would let requests be larger than `limit` bytes, where they were cut.
pub(super) fn larger(context: &Context<'_>, limit: u64) -> String {
    let (soft, hard) = (context.setting("max_sectors_kb"), context.setting("max_hw_sectors_kb"));
    if let Some(soft) = larger_setting(context, limit) {
        let segments = context.setting("max_segments").and_then(|count| count.parse::<u64>().ok());
        return match segments.filter(|count| count.saturating_mul(PAGE) == limit) {
            Some(segments) => format!(
                "or buffers in huge pages: max_segments={segments} pages of 4 KiB end a request here, not \
                 max_sectors_kb={soft}"
            ),
            None => format!(
                "not of max_sectors_kb={soft}: another limit of the queue ends requests here"
            ),
        };
    }
    match (soft, hard) {
        (Some(soft), Some(hard)) if soft == hard => {
            "since the hardware takes no larger requests".to_owned()
        }
        (Some(soft), Some(hard)) => {
            format!(
                "or a larger max_sectors_kb: it was {soft}, and the hardware takes {hard} (max_hw_sectors_kb)"
            )
        }
        _ => "or a larger max_sectors_kb if max_hw_sectors_kb allows one".to_owned(),
    }
}
