//! Collects every figure of an inspection from the steps of bios and requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevon_core::ioprio::PrioClass;
use elevon_core::jiffies::Hz;
use elevon_core::op::Flags;
use elevon_core::stats::LatencyStat;

use super::bios::BioLog;
use super::depth::Depths;
use super::findings::Watchers;
use super::life::{Bio, Request};
use super::mix::Mix;
use super::process::{ProcessStats, Processes};
use super::seek::Seeks;
use super::sizes::Sizes;
use super::sum::add;
use super::timeline::Timeline;
use super::utilisation::BusyTime;
use super::{ABSENT, Group, NOBODY};
use crate::event::{Gaps, TraceEvent, TraceKind};
use crate::op::TraceOp;

/// Number of issued requests in which what was in the device when the trace began completes.
const START: u64 = 4096;

/// State recorded with a request, for figures that compare requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    /// Requests in the device after this one was issued.
    pub(super) depth: u32,
    /// Writes in progress when it was allocated.
    pub(super) writes: u32,
    /// The busiest process that had most of the sectors in progress when it was allocated, as a
    /// bit mask.
    pub(super) neighbours: u8,
    /// Its own sectors then.
    pub(super) sectors: u64,
    /// Requests of a worse priority class in the device when it was issued.
    pub(super) worse: u32,
    /// True if a discard was in the device when it was issued.
    pub(super) is_beside_discard: bool,
}

/// Times between the stages of bios and requests of one [`Group`], in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// From queue to the allocation of a request, or to the merge into one, for each piece of a
    /// bio that started a request.
    pub queue_to_allocated: LatencyStat,
    /// From allocation to insertion into the scheduler.
    pub allocated_to_inserted: LatencyStat,
    /// From insertion to issue.
    pub inserted_to_issued: LatencyStat,
    /// From allocation to issue, of requests that were never inserted.
    pub allocated_to_issued: LatencyStat,
    /// From issue to completion: from the last issue, as far as the trace shows that the driver
    /// gave the request back before it.
    pub issued_to_completed: LatencyStat,
    /// From the first issue to completion, of requests that were issued more than once.
    pub first_issued_to_completed: LatencyStat,
    /// From the queueing of a request's first bio to the request's completion.
    pub request_total: LatencyStat,
    /// From queue to completion of bios.
    pub bio_total: LatencyStat,
}

/// Counts of bios, requests and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bios queued, by [`Group`].
    pub bios: [u64; Group::COUNT],
    /// Bytes of the queued bios.
    pub bio_bytes: [u64; Group::COUNT],
    /// Bios that completed, by [`Group`].
    pub bios_completed: [u64; Group::COUNT],
    /// Requests issued, by [`Group`]; a request that was requeued and issued again counts once.
    pub issued: [u64; Group::COUNT],
    /// Requests completed, by [`Group`].
    pub completed: [u64; Group::COUNT],
    /// Bytes of the completed requests.
    pub completed_bytes: [u64; Group::COUNT],
    /// Splits of bios.
    pub splits: u64,
    /// Bios appended to requests.
    pub back_merges: u64,
    /// Bios put in front of requests.
    pub front_merges: u64,
    /// Requests merged into others.
    pub request_merges: u64,
    /// How often the driver gave a request back: requeues, and issues of a request that was in the
    /// device.
    pub requeues: u64,
    /// Requests that the driver gave back at least once.
    pub given_back: u64,
    /// Completions of a part of a request.
    pub partial: u64,
    /// Requests that completed with an error, or of which a part did, and bios of which only an
    /// event of their own tells that they failed.
    pub errors: u64,
    /// Completions of requests that were not seen before, because they started before the trace or
    /// in a gap.
    pub unmatched: u64,
    /// Latencies that were not counted because events were lost in between.
    pub across_gaps: u64,
    /// Requests that were issued and whose completion seems to be missing in the trace, and flush
    /// sequences whose end does; they no longer count as in progress.
    pub overdue: u64,
    /// Bios and requests in progress when events were lost, or when there were too many to follow.
    pub forgotten: u64,
}

/// All figures, and the state to compute them.
pub(super) struct Collector {
    pub(super) processes: Processes,
    pub(super) stages: [Stages; Group::COUNT],
    pub(super) counts: Counts,
    pub(super) bio_sizes: Sizes,
    pub(super) request_sizes: Sizes,
    pub(super) queue_seeks: Seeks,
    pub(super) issue_seeks: Seeks,
    pub(super) depths: Depths,
    pub(super) timeline: Timeline,
    pub(super) busy: BusyTime,
    pub(super) mix: Mix,
    pub(super) watch: Watchers,
    pub(super) gaps: Gaps,
    /// Requests in the device.
    pub(super) in_device: u64,
    /// Requests that are allocated and not issued.
    waiting: u64,
    /// Completions of whole I/Os whose record has a response time, by time.
    responses: BinaryHeap<Reverse<(u64, u64)>>,
    whole: Vec<WholeIo>,
    free_whole: Vec<u64>,
    /// Requests that completed since they were last passed to a sink; `None` if there is no sink.
    pub(super) records: Option<Vec<super::RequestRecord>>,
    pub(super) bios: Option<BioLog>,
    /// Since when all requests in the device are known: a trace may begin while some are there.
    depth_known_from: u64,
    /// Sectors of the last request that failed.
    failed: (u64, u64),
}

/// A whole I/O, of a format with one record per I/O.
#[derive(Clone, Copy)]
struct WholeIo {
    group: Group,
    process: u32,
    queued: u64,
    sector: u64,
    bytes: u64,
    op: Option<TraceOp>,
    flags: Flags,
}

impl Collector {
    pub(super) fn new(hz: Hz) -> Self {
        Self {
            processes: Processes::default(),
            stages: Default::default(),
            counts: Counts::default(),
            bio_sizes: Sizes::default(),
            request_sizes: Sizes::default(),
            queue_seeks: Seeks::default(),
            issue_seeks: Seeks::default(),
            depths: Depths::default(),
            timeline: Timeline::default(),
            busy: BusyTime::new(hz),
            mix: Mix::default(),
            watch: Watchers::default(),
            gaps: Gaps::default(),
            in_device: 0,
            waiting: 0,
            responses: BinaryHeap::new(),
            whole: Vec::new(),
            free_whole: Vec::new(),
            records: None,
            bios: None,
            depth_known_from: 0,
            failed: (0, 0),
        }
    }

    /// Begins a window of time, with these requests under way: what was counted before does not
    /// count, and what is under way stays so.
    pub(super) fn begin_window<'a>(
        &mut self,
        now: u64,
        requests: impl Iterator<Item = &'a Request>,
    ) {
        let mut before = std::mem::replace(self, Self::new(super::HZ));
        self.continue_from(&mut before, now, requests);
    }

    /// Takes over what lasts from the figures of the window before.
    pub(super) fn continue_from<'a>(
        &mut self,
        before: &mut Self,
        now: u64,
        requests: impl Iterator<Item = &'a Request>,
    ) {
        self.processes = before.processes.without_figures();
        self.busy = before.busy.resumed(now);
        self.gaps = before.gaps;
        (self.in_device, self.waiting) = (before.in_device, before.waiting);
        self.responses = std::mem::take(&mut before.responses);
        self.whole = std::mem::take(&mut before.whole);
        self.free_whole = std::mem::take(&mut before.free_whole);
        self.records = before.records.take().map(|_| Vec::new());
        self.bios = before.bios.take();
        self.watch.is_in_gap = before.watch.is_in_gap;
        self.depth_known_from = before.depth_known_from;
        requests
            .filter(|request| request.is_started)
            .for_each(|request| self.watch.on_started(request));
        self.move_to(now);
    }

    /// Advances all figures that depend on time to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(&Reverse((end, id))) = self.responses.peek() {
            if end > now {
                break;
            }
            self.responses.pop();
            self.move_to(end);
            self.end_whole(id, end);
        }
        self.move_to(now);
    }

    #[inline]
    fn move_to(&mut self, now: u64) {
        self.timeline.advance(now, self.in_device, self.waiting);
        self.depths.advance(now, self.in_device);
    }

    /// Returns the time from `from` to `to`, if both are known and no events were lost in between.
    #[inline]
    fn span(&mut self, from: u64, to: u64) -> Option<u64> {
        if from == ABSENT || to == ABSENT || to < from {
            return None;
        }
        if self.gaps.crossed_since(from) {
            self.counts.across_gaps += 1;
            return None;
        }
        Some(to - from)
    }

    #[inline]
    fn process(&mut self, id: u32) -> &mut ProcessStats {
        &mut self.processes.all[id as usize]
    }

    #[inline]
    pub(super) fn note(&self, request: &Request) -> Note {
        Note {
            depth: 0,
            writes: self.watch.writes_under_way(),
            neighbours: self.watch.neighbours(request.process),
            sectors: request.sectors,
            worse: 0,
            is_beside_discard: false,
        }
    }

    /// Records the state of the device for a request that is issued now.
    #[inline]
    pub(super) fn note_issue(&self, request: &mut Request) {
        request.note.depth = (self.in_device + 1).min(u64::from(u32::MAX)) as u32;
        request.note.worse = self.watch.worse_in_device(request);
        request.note.is_beside_discard = self.watch.has_discards();
    }

    pub(super) fn on_bio_queued(&mut self, bio: &Bio, flags: Option<Flags>, now: u64) {
        let sectors = bio.end.wrapping_sub(bio.start);
        let at = bio.group as usize;
        self.counts.bios[at] += 1;
        add(&mut self.counts.bio_bytes[at], bio.bytes);
        self.process(bio.process).queued(bio.group, bio.start, sectors, bio.bytes);
        if sectors > 0 {
            self.bio_sizes.add(bio.group, bio.bytes);
            self.queue_seeks.add(bio.start, sectors);
        }
        self.mix.bio(bio.group, flags);
        if now != ABSENT {
            self.timeline.queued(now);
        }
        self.watch.on_bio_queued(bio, now);
    }

    /// Processes a whole I/O, of a format with one record per I/O.
    pub(super) fn on_whole_io(&mut self, event: &TraceEvent, now: u64, process: u32) {
        let group = Group::from_op(event.op);
        let (sector, bytes) = (event.sector.unwrap_or(0), event.bytes.unwrap_or(0));
        let sectors = event.sectors().unwrap_or(0);
        self.counts.bios[group as usize] += 1;
        add(&mut self.counts.bio_bytes[group as usize], bytes);
        // Traces of caches have objects in place of sectors.
        let has_place = event.sector.is_some();
        self.process(process).queued(group, sector, if has_place { sectors } else { 0 }, bytes);
        if sectors > 0 {
            self.bio_sizes.add(group, bytes);
            if has_place {
                self.queue_seeks.add(sector, sectors);
            }
        }
        self.mix.bio(group, event.flags);
        if let Some(log) = &mut self.bios {
            let number = log.queued(event, process, now);
            if let (TraceKind::Io { response_ns: Some(response) }, true) =
                (event.kind, now != ABSENT)
            {
                log.completed(number, None, now.saturating_add(response));
            }
        }
        if now == ABSENT {
            return;
        }
        self.timeline.queued(now);
        let TraceKind::Io { response_ns: Some(response) } = event.kind else { return };
        let flags = event.flags.unwrap_or_default();
        let whole = WholeIo { group, process, queued: now, sector, bytes, op: event.op, flags };
        let id = match self.free_whole.pop() {
            Some(id) => {
                self.whole[id as usize] = whole;
                id
            }
            None if self.whole.len() < super::life::MAX_IN_PROGRESS => {
                self.whole.push(whole);
                self.whole.len() as u64 - 1
            }
            // The response times are implausible: more I/Os are in progress than any device allows.
            None => {
                self.counts.forgotten += 1;
                return;
            }
        };
        self.in_device += 1;
        self.busy.start(now);
        self.responses.push(Reverse((now.saturating_add(response), id)));
    }

    fn end_whole(&mut self, id: u64, end: u64) {
        let io = self.whole[id as usize];
        self.free_whole.push(id);
        self.depths.completed(io.bytes);
        self.in_device = self.in_device.saturating_sub(1);
        let at = io.group as usize;
        self.counts.bios_completed[at] += 1;
        self.busy.end(end, io.group);
        let Some(total) = self.span(io.queued, end) else { return };
        self.stages[at].bio_total.add(total);
        self.process(io.process).latency[at].add(total);
        self.moved(end, io.group, io.bytes, Some(total));
        if let Some(records) = &mut self.records {
            records.push(super::RequestRecord {
                queued: Some(io.queued),
                allocated: None,
                inserted: None,
                issued: None,
                completed: Some(end),
                sector: io.sector,
                bytes: io.bytes,
                group: io.group,
                op: io.op,
                flags: io.flags,
                process: io.process,
                bios: 1,
                prio: None,
                error: None,
            });
        }
    }

    pub(super) const fn on_rest_queued(&mut self) {}

    pub(super) fn on_split(&mut self, bio: &Bio, front: u64, now: u64) {
        self.counts.splits += 1;
        self.process(bio.process).splits += 1;
        self.watch.tails.on_split(bio, front, now);
    }

    /// Counts a split whose event does not name the bio: that of a process on a stacked device,
    /// which names the remainder.
    pub(super) fn on_split_of_unknown(&mut self, process: u32) {
        self.counts.splits += 1;
        self.process(process).splits += 1;
    }

    /// Processes a request that is seen for the first time.
    pub(super) fn on_started(&mut self, request: &Request, now: u64) {
        if !request.is_started {
            return;
        }
        self.watch.tails.on_started(request);
        if now == ABSENT {
            return;
        }
        self.waiting += 1;
        self.busy.start(now);
        self.watch.on_started(request);
    }

    /// A flush sequence has no data, or no more: until it ends it only counts as in flight.
    pub(super) fn on_sequence_started(&mut self, now: u64) {
        self.busy.start(now);
    }

    /// Processes a flush sequence whose end is missing.
    pub(super) fn on_sequence_lost(&mut self, now: u64) {
        self.counts.overdue += 1;
        self.busy.swallowed(now);
    }

    pub(super) fn on_sequence_ended(&mut self, group: Group, now: u64) {
        self.busy.end(now, group);
    }

    /// Returns the number of requests that are allocated and have not completed.
    #[inline]
    pub(super) const fn in_progress(&self) -> u64 {
        self.in_device + self.waiting
    }

    /// Counts a request that was allocated, for its first bio.
    pub(super) fn on_allocated(&mut self, request: &Request, bio: Option<&Bio>, now: u64) {
        if let Some(span) = self.span(request.queued, now) {
            self.stages[request.group as usize].queue_to_allocated.add(span);
            // Later pieces of a bio wait for the earlier ones to be allocated, too.
            if let Some(bio) = bio.filter(|bio| request.sectors > 0 && bio.pieces == 1) {
                self.watch.tags.on_allocated(request.process, span, bio.in_progress, now);
            }
        }
    }

    /// Counts a bio of a process that was merged into a request, which may be of another process.
    pub(super) fn on_merged(&mut self, event: &TraceEvent, process: u32) {
        if event.kind == TraceKind::BackMerge {
            self.counts.back_merges += 1;
        } else {
            self.counts.front_merges += 1;
        }
        self.process(process).merges += 1;
    }

    pub(super) fn on_request_merged(&mut self, absorbed: Option<&Request>, process: u32, now: u64) {
        self.counts.request_merges += 1;
        self.process(absorbed.map_or(process, |absorbed| absorbed.process)).merges += 1;
        let Some(absorbed) = absorbed.filter(|absorbed| absorbed.is_started && now != ABSENT)
        else {
            return;
        };
        if absorbed.issued == ABSENT {
            self.waiting = self.waiting.saturating_sub(1);
        }
        self.busy.swallowed(now);
        self.watch.on_ended(absorbed);
    }

    pub(super) fn on_inserted(&mut self, request: &Request, now: u64) {
        if let Some(span) = self.span(request.allocated, now) {
            self.stages[request.group as usize].allocated_to_inserted.add(span);
        }
    }

    pub(super) fn on_issued(&mut self, request: &Request, now: u64) {
        if now == ABSENT {
            self.counts.issued[request.group as usize] += 1;
            self.watch.tails.on_issued(request, now);
            return;
        }
        if request.is_started {
            self.waiting = self.waiting.saturating_sub(1);
        }
        self.in_device += 1;
        self.depths.reached(self.in_device);
        let at = request.group as usize;
        self.counts.issued[at] += 1;
        if request.sectors > 0 && !request.is_requeued && request.op != Some(TraceOp::Passthrough) {
            self.issue_seeks.add(request.start, request.sectors);
        }
        if request.inserted != ABSENT {
            if let Some(span) = self.span(request.inserted, now) {
                self.stages[at].inserted_to_issued.add(span);
            }
        } else if let Some(span) = self.span(request.allocated, now) {
            self.stages[at].allocated_to_issued.add(span);
        }
        self.watch.on_issued(request, self.in_device, now);
    }

    /// Counts a request in the device that is issued once more: the driver gave it back, and the
    /// trace does not show when.
    pub(super) fn on_issued_again(&mut self, request: &Request, now: u64) {
        self.counts.requeues += 1;
        self.counts.given_back += u64::from(!request.is_requeued);
        self.watch.requeues.on_requeued(request, now);
    }

    pub(super) fn on_requeued(&mut self, request: Option<&Request>, now: u64) {
        self.counts.requeues += 1;
        if let Some(request) = request {
            self.counts.given_back += u64::from(!request.is_requeued);
            self.watch.requeues.on_requeued(request, now);
        }
        let Some(request) = request.filter(|request| request.issued != ABSENT && now != ABSENT)
        else {
            return;
        };
        if request.is_overdue {
            return;
        }
        self.in_device = self.in_device.saturating_sub(1);
        let issued = &mut self.counts.issued[request.group as usize];
        *issued = issued.saturating_sub(1);
        if request.is_started {
            self.waiting += 1;
        }
        self.watch.on_left_device(request, self.in_device, now);
    }

    pub(super) const fn on_part_completed(&mut self) {
        self.counts.partial += 1;
    }

    pub(super) fn on_completed(&mut self, request: &Request, error: Option<i32>, now: u64) {
        let at = request.group as usize;
        let bytes = request.issued_sectors.saturating_mul(crate::event::SECTOR_SIZE);
        self.counts.completed[at] += 1;
        add(&mut self.counts.completed_bytes[at], bytes);
        self.on_error(error, request.group, request.process, now);
        if error.is_some_and(|error| error != 0) {
            let end = request.start.saturating_add(request.sectors);
            self.failed = (end.saturating_sub(request.issued_sectors), end);
        }
        if request.sectors > 0 {
            self.request_sizes.add(request.group, bytes);
        }
        let is_timed = request.allocated != ABSENT && request.first_issued != ABSENT;
        let waited =
            if is_timed { request.first_issued.saturating_sub(request.allocated) } else { 0 };
        let process = self.process(request.process);
        process.requests[at] += 1;
        add(&mut process.waited, waited);
        process.is_idle_class |= request.prio.is_some_and(|prio| prio.class() == PrioClass::Idle);
        if now != ABSENT {
            self.leave(request, bytes, now);
        }
        let serviced = self.span(request.issued, now);
        let is_accounted_only = request.queued == ABSENT && request.issued == ABSENT;
        let total =
            self.span(if is_accounted_only { request.accounted } else { request.queued }, now);
        if let Some(serviced) = serviced {
            self.stages[at].issued_to_completed.add(serviced);
            if self.depth_known_from <= request.issued {
                self.depths.latency(request.note.depth, request.group == Group::Read, serviced);
            }
            add(&mut self.process(request.process).device_time, serviced);
            if request.is_requeued
                && let Some(all) = self.span(request.first_issued, now)
            {
                self.stages[at].first_issued_to_completed.add(all);
                self.watch.requeues.on_completed(all);
            }
        }
        if let Some(total) = total {
            self.stages[at].request_total.add(total);
        }
        let known = total.or(serviced);
        if request.bios == 0
            && let Some(known) = known
        {
            self.process(request.process).latency[at].add(known);
        }
        self.mix.request(request.group, request.prio, known);
        if let Some(known) = known {
            self.watch.on_completed(request, bytes, serviced, known, now);
        }
        self.moved(now, request.group, bytes, if is_accounted_only { total } else { serviced });
        if let Some(records) = &mut self.records {
            records.push(super::RequestRecord::from_request(request, bytes, error, now));
        }
    }

    /// Processes a request whose completion seems to be missing.
    pub(super) fn on_overdue(&mut self, request: &Request, now: u64) {
        self.counts.overdue += 1;
        self.in_device = self.in_device.saturating_sub(1);
        self.watch.on_left_device(request, self.in_device, now);
        if request.is_started {
            self.busy.swallowed(now);
            self.watch.on_ended(request);
        }
    }

    /// Counts a completion over time. In a gap some are lost, so none counts.
    fn moved(&mut self, now: u64, group: Group, bytes: u64, latency: Option<u64>) {
        if now != ABSENT && !self.watch.is_in_gap {
            self.timeline.completed(now, group, bytes, latency);
        }
    }

    /// Removes a request from the device, or from those that wait.
    fn leave(&mut self, request: &Request, bytes: u64, now: u64) {
        if request.is_overdue {
            self.counts.overdue = self.counts.overdue.saturating_sub(1);
            return;
        }
        if request.issued != ABSENT {
            self.depths.completed(bytes);
            self.in_device = self.in_device.saturating_sub(1);
            self.watch.on_left_device(request, self.in_device, now);
        } else if request.is_started {
            self.waiting = self.waiting.saturating_sub(1);
        }
        if request.is_started {
            self.busy.end(now, request.group);
            self.watch.on_ended(request);
        }
    }

    pub(super) fn on_completed_unknown(&mut self, event: &TraceEvent, now: u64) {
        self.on_error(event.error, Group::from_op(event.op), NOBODY, now);
        // The end of a flush sequence does not count as a request.
        if event.bytes == Some(0)
            && !matches!(Group::from_op(event.op), Group::Flush | Group::Other)
        {
            return;
        }
        self.counts.unmatched += 1;
        if now != ABSENT && self.counts.issued.iter().sum::<u64>() < START {
            self.depth_known_from = now;
            self.depths.forget_latencies();
        }
        self.moved(now, Group::from_op(event.op), event.bytes.unwrap_or(0), None);
    }

    pub(super) fn on_bio_completed(&mut self, bio: &Bio, now: u64) {
        let at = bio.group as usize;
        self.counts.bios_completed[at] += 1;
        if let Some(log) = &mut self.bios {
            log.completed(bio.number, bio.prio, now);
        }
        if let Some(total) = self.span(bio.queued, now) {
            self.stages[at].bio_total.add(total);
            self.process(bio.process).latency[at].add(total);
            if bio.group == Group::Flush {
                self.watch.flushes.on_bio_completed(bio, total, now);
            }
        }
        self.watch.on_bio_completed(bio, now);
    }

    /// Counts the end of a flush sequence, which is no request of its own.
    pub(super) fn on_sequence_completed(
        &mut self,
        request: &Request,
        error: Option<i32>,
        now: u64,
    ) {
        self.on_error(error, request.group, request.process, now);
    }

    /// Counts an error of a request or bio, if it is one.
    fn on_error(&mut self, error: Option<i32>, group: Group, process: u32, now: u64) {
        let Some(errno) = error.filter(|&error| error != 0) else { return };
        self.counts.errors += 1;
        self.watch.errors.on_error(errno, group, process, now);
    }

    /// Counts the completion of a bio that waits for no request: it was queued before the trace, or
    /// is in a request, whose completion tells the error as well.
    pub(super) fn on_unknown_bio_completed(&mut self, event: &TraceEvent, now: u64) {
        let (start, end) = self.failed;
        let is_in_failed = event.sector.is_some_and(|sector| (start..end).contains(&sector));
        if !is_in_failed {
            self.on_error(event.error, Group::from_op(event.op), NOBODY, now);
        }
    }

    /// Counts an event that a request failed, of which a completion may tell as well.
    pub(super) fn on_error_event(&mut self, event: &TraceEvent, process: u32, now: u64) {
        self.watch.errors.on_event(event.error, Group::from_op(event.op), process, now);
    }

    /// Counts a completed bio of a device that has no requests.
    pub(super) fn on_bio_without_request(&mut self, bio: &Bio, error: Option<i32>, now: u64) {
        self.on_error(error, bio.group, bio.process, now);
        let total = self.span(bio.queued, now);
        self.moved(now, bio.group, bio.bytes, total);
    }

    /// Forgets everything in progress.
    pub(super) fn on_forgotten(&mut self, now: u64) {
        self.counts.forgotten += self.in_device + self.waiting;
        self.in_device = 0;
        self.waiting = 0;
        if now != ABSENT {
            self.skip_to(now);
            self.busy.forget(now, self.watch.is_in_gap);
        }
        self.watch.forget();
    }

    /// Leaves out the time up to `now`, because events were lost.
    pub(super) fn skip_to(&mut self, now: u64) {
        self.timeline.skip_to(now);
        self.depths.skip_to(now);
    }

    /// Completes the figures that are counted late.
    pub(super) fn finish_figures(&mut self) {
        self.depths.settle();
        self.counts.errors += self.watch.errors.untold();
    }

    /// Processes the responses of whole I/Os that come after the end of the trace.
    pub(super) fn finish_responses(&mut self) {
        while let Some(Reverse((end, id))) = self.responses.pop() {
            self.move_to(end);
            self.end_whole(id, end);
        }
    }
}
