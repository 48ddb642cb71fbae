//! Follows bios and requests from queue to completion: which bio is in which request, and when each
//! step was.
//!
//! Events of a trace have no ids, so they are joined by sector and operation. A bio waits at its
//! first sector that is in no request yet; a split, a merge or a request takes the next piece from
//! there. A request is found by its first sector, or by its end if a bio is appended. A request of
//! several bios, or a bio of several requests, is a list of pieces. Missing events are replaced if
//! their effect is certain: without `getrq` events, a request takes its pieces when it is inserted
//! or issued.
//!
//! Cost: O(1) per event and piece. Memory: everything in progress, at most [`MAX_IN_PROGRESS`] bios
//! and as many requests; nothing is allocated per event in a steady trace.

mod accounting;
mod appends;
mod bio_based;
mod issue;
mod overdue;
mod sequences;
mod under_way;

use std::collections::VecDeque;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;

use super::bios::BioLog;
use super::chains::{Chains, Key, NIL};
use super::chosen::Collector;
use super::findings::MIN_DEPTH_OF_AN_ORDER;
use super::place::{COMMAND, EMPTY, Place};
use super::{ABSENT, Group};
use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;
use sequences::Sequences;

/// Maximum number of bios, and of requests, that are followed at a time. Real queues hold far fewer
/// (the tags of all hardware queues: at most some ten thousand). If a trace without completions
/// reaches it, everything is forgotten.
pub(super) const MAX_IN_PROGRESS: usize = 1 << 17;
/// Maximum number of pieces of bios in requests. Real requests have at most some hundred; a hostile
/// trace cuts one bio into any number.
const MAX_PIECES: usize = 1 << 20;

/// The order of the first completions is looked at, and then of one in some.
const ALL: u64 = 1024;
const SAMPLED: u64 = 8;

/// A bio in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bio {
    pub(super) start: u64,
    pub(super) end: u64,
    /// First sector that is in no request.
    pub(super) cursor: u64,
    /// Sector of the last split, or the bio's start.
    pub(super) cut: u64,
    /// Number of sectors that have not completed.
    left: u64,
    /// When it was queued.
    pub(super) queued: u64,
    pub(super) bytes: u64,
    pub(super) group: Group,
    pub(super) flags: Flags,
    pub(super) process: u32,
    /// True if its figures are asked for.
    pub(super) is_selected: bool,
    /// Number of requests that it was split into.
    pub(super) pieces: u32,
    /// Number of those that are in progress.
    live: u32,
    /// True if it completes with the end of a flush sequence.
    is_sequence: bool,
    /// Requests in progress when it was queued.
    pub(super) in_progress: u64,
    /// Its number in the log of bios.
    pub(super) number: u32,
    /// Priority of the last of its requests that completed.
    pub(super) prio: Option<IoPrio>,
}

/// A request in progress. Times that the trace does not have are [`ABSENT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) start: u64,
    pub(super) sectors: u64,
    /// Sectors at issue. A request that completes in parts gets shorter.
    pub(super) issued_sectors: u64,
    pub(super) op: Option<TraceOp>,
    pub(super) group: Group,
    pub(super) flags: Option<Flags>,
    /// When its first bio was queued.
    pub(super) queued: u64,
    /// When it was allocated.
    pub(super) allocated: u64,
    pub(super) inserted: u64,
    /// When its accounting began, which is when it was allocated.
    pub(super) accounted: u64,
    /// When it was issued to the driver: last, as far as the trace shows that the driver gave it
    /// back before.
    pub(super) issued: u64,
    /// When it was first issued.
    pub(super) first_issued: u64,
    /// Number of requests that had completed when it was issued.
    completed_before: u64,
    pub(super) process: u32,
    /// True if its figures are asked for.
    pub(super) is_selected: bool,
    pub(super) prio: Option<IoPrio>,
    /// Number of its bios.
    pub(super) bios: u32,
    /// What the collector recorded at its allocation and at its issue.
    pub(super) note: super::collect::Note,
    /// True if it was counted as started.
    pub(super) is_started: bool,
    /// When it became a flush sequence without data, or one whose data is written: the kernel
    /// counts it as in flight until the sequence ends. Otherwise [`ABSENT`].
    sequence: u64,
    /// True if it contains the remainder of a split bio.
    pub(super) has_tail: bool,
    /// True if the driver gave it back before.
    pub(super) is_requeued: bool,
    /// The error with which a part of it completed; 0 for none.
    error: i32,
    /// True if its completion seems to be missing in the trace; it no longer counts as in the
    /// device.
    pub(super) is_overdue: bool,
    /// True if its data has completed and the end of its flush sequence is awaited.
    is_data_done: bool,
    first_piece: u32,
    last_piece: u32,
    /// Last of the pieces at the front whose data has completed and whose bios wait for the end of
    /// a flush sequence.
    done_piece: u32,
    class: u8,
}

impl Request {
    /// Returns the earliest known time of the request.
    #[inline]
    pub(super) fn earliest(&self) -> u64 {
        self.queued.min(self.allocated).min(self.inserted).min(self.issued)
    }

    /// Returns true if a completion is of all that is left of the request. A completion of a
    /// passthrough request may not tell its length; it completes as a whole.
    #[inline]
    fn is_ended_by(&self, completion: Place) -> bool {
        let is_command = self.class == COMMAND
            && (completion.sectors == 0 || self.op == Some(TraceOp::Passthrough));
        is_command || self.class & EMPTY != 0 || completion.sectors >= self.sectors
    }

    #[inline]
    fn key(&self) -> Key {
        Key { sector: self.start, class: self.class }
    }

    #[inline]
    fn end_key(&self) -> Key {
        Key { sector: self.start.wrapping_add(self.sectors), class: self.class }
    }
}

/// A part of a bio in a request.
#[derive(Clone, Copy)]
struct Piece {
    bio: u32,
    sectors: u64,
    next: u32,
}

/// All bios and requests in progress.
#[derive(Default)]
pub(super) struct Life {
    bios: Vec<Bio>,
    free_bios: Vec<u32>,
    /// Bios that are not completely in requests, by their cursor.
    waiting: Chains,
    /// Bios by the sector after their last one, if the device has completions of bios.
    ends: Chains,
    /// True if the device has completions of bios.
    is_bio_based: bool,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Requests by their first sector.
    by_start: Chains,
    /// Requests that were not issued, by the sector after their last one.
    by_end: Chains,
    pieces: Vec<Piece>,
    free_piece: Option<u32>,
    /// Requests in order of issue, with the time of issue and the number of completions then.
    /// Completed requests are removed when they reach the front.
    in_device: VecDeque<(u32, u64, u64)>,
    /// Number of completed requests, and the longest time that one spent in the device.
    completions: u64,
    longest: u64,
    /// True if the trace has completions of requests.
    has_completions: bool,
    sequences: Sequences,
    /// The last request of a discard, which may have ended since.
    last_discard: Option<u32>,
}

impl Life {
    /// Forgets everything, because events were lost and it is unknown what has ended.
    pub(super) fn forget(&mut self) {
        self.bios.clear();
        self.free_bios.clear();
        self.waiting.clear();
        self.ends.clear();
        self.requests.clear();
        self.free_requests.clear();
        self.by_start.clear();
        self.by_end.clear();
        self.pieces.clear();
        self.free_piece = None;
        self.last_discard = None;
        self.in_device.clear();
        self.sequences = Sequences::default();
    }

    /// Processes an event of `process` at `now` ([`ABSENT`] if it has no time).
    #[inline]
    pub(super) fn handle(
        &mut self,
        event: &TraceEvent,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        let place = Place::from_event(event);
        if self.pieces.len() >= MAX_PIECES && self.free_piece.is_none() {
            collect.on_forgotten(now);
            self.forget();
        }
        match event.kind {
            TraceKind::Queue => self.queue(event, place, now, process, collect),
            TraceKind::Split { new_sector } => self.split(event, new_sector, process, now, collect),
            TraceKind::GetRequest => {
                self.allocate(event, place, now, process, collect);
            }
            TraceKind::BackMerge | TraceKind::FrontMerge => {
                self.merge(event, place, now, process, collect);
            }
            TraceKind::RequestMerge => self.merge_requests(place, process, now, collect),
            TraceKind::Insert => self.insert(event, place, now, process, collect),
            TraceKind::Issue => self.issue(event, place, now, process, collect),
            TraceKind::IoStart => self.account_start(event, place, now, process, collect),
            TraceKind::Requeue => self.requeue(place, now, collect),
            TraceKind::Complete => {
                self.has_completions = true;
                self.complete(event, place, now, collect);
            }
            TraceKind::IoDone if !self.has_completions => {
                self.account_done(event, place, now, collect);
            }
            TraceKind::BioComplete => self.complete_bio(event, place, now, collect),
            TraceKind::RequestError => collect.on_error_event(event, process, now),
            _ => {}
        }
    }

    fn queue(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        let key = place.key();
        // Kernels before 5.8 queue the remainder of a split bio once more.
        if let Some(id) = self.waiting.first(key) {
            let bio = &self.bios[id as usize];
            if bio.cursor > bio.start && bio.end == place.end() && bio.process == process {
                collect.on_rest_queued();
                return;
            }
        }
        if self.under_way().0 >= MAX_IN_PROGRESS {
            collect.on_forgotten(now);
            self.forget();
        }
        let flags = event.flags.unwrap_or_default();
        let mut bio = Bio {
            start: place.start,
            end: place.end(),
            cursor: place.start,
            cut: place.start,
            left: place.sectors,
            queued: now,
            bytes: event.bytes.unwrap_or(0),
            group: Group::of_sectors(event, place.sectors),
            flags,
            process,
            is_selected: collect.selects(event, process),
            pieces: 0,
            live: 0,
            is_sequence: place.class & EMPTY != 0 || flags.contains(Flags::PREFLUSH),
            in_progress: collect.in_progress(),
            number: BioLog::NONE,
            prio: None,
        };
        if let Some(log) = &mut collect.bios {
            bio.number = log.queued(event, process, now);
        }
        let id = put(&mut self.bios, &mut self.free_bios, bio);
        self.waiting.push(id, key);
        if self.is_bio_based {
            self.ends.push(id, Key { sector: bio.end, ..key });
        }
        collect.on_bio_queued(&bio, event.flags, now);
    }

    /// Returns the bio waiting at a sector; of several, the one of the process if it is among the
    /// first.
    #[inline]
    fn waiting_at(&self, key: Key, process: u32) -> Option<u32> {
        let first = self.waiting.first(key)?;
        let mut among_the_first = self.waiting.all(key).take(4);
        among_the_first.find(|&id| self.bios[id as usize].process == process).or(Some(first))
    }

    fn split(
        &mut self,
        event: &TraceEvent,
        new_sector: u64,
        process: u32,
        now: u64,
        collect: &mut Collector,
    ) {
        let place = Place::from_event(event);
        let key = Key { sector: place.start, class: place.class & !EMPTY };
        let Some(id) = self.waiting_at(key, process) else {
            collect.on_split_of_unknown(event, process);
            return;
        };
        let bio = &mut self.bios[id as usize];
        bio.cut = new_sector;
        collect.on_split(bio, new_sector.saturating_sub(place.start), now);
    }

    /// Takes at most the sectors of `want` from the bio that waits there, and puts them at the end
    /// or front of a request. Returns how many.
    #[inline]
    fn take(&mut self, want: Place, process: u32, request: u32, is_front: bool) -> u64 {
        let Some(id) = self.waiting_at(want.key(), process) else { return 0 };
        self.waiting.remove(id);
        let bio = &mut self.bios[id as usize];
        let taken = want.sectors.min(bio.end.wrapping_sub(bio.cursor));
        bio.cursor = bio.cursor.wrapping_add(taken);
        bio.pieces += 1;
        bio.live += 1;
        let Bio { cursor, end, queued, process, is_selected, pieces, .. } = *bio;
        let is_whole = cursor == end;
        if !is_whole {
            self.waiting.push(id, Key { sector: cursor, class: want.class });
        }
        let piece = self.put_piece(Piece { bio: id, sectors: taken, next: NIL });
        let request = &mut self.requests[request as usize];
        request.queued = request.queued.min(queued);
        if request.bios == 0 {
            request.process = process;
            request.is_selected = is_selected;
            request.first_piece = piece;
            request.last_piece = piece;
        } else if is_front {
            self.pieces[piece as usize].next = request.first_piece;
            request.first_piece = piece;
        } else if request.last_piece == NIL {
            request.first_piece = piece;
            request.last_piece = piece;
        } else {
            self.pieces[request.last_piece as usize].next = piece;
            request.last_piece = piece;
        }
        request.bios += 1;
        request.has_tail |= is_whole && pieces > 1;
        taken
    }

    fn put_piece(&mut self, piece: Piece) -> u32 {
        match self.free_piece {
            Some(id) => {
                self.free_piece = Some(self.pieces[id as usize].next).filter(|&next| next != NIL);
                self.pieces[id as usize] = piece;
                id
            }
            None => {
                self.pieces.push(piece);
                self.pieces.len() as u32 - 1
            }
        }
    }

    fn free_piece(&mut self, id: u32) {
        self.pieces[id as usize].next = self.free_piece.unwrap_or(NIL);
        self.free_piece = Some(id);
    }

    /// Adds a request without bios, which an event shows for the first time.
    fn new_request(
        &mut self,
        event: &TraceEvent,
        place: Place,
        process: u32,
        now: u64,
        collect: &mut Collector,
    ) -> u32 {
        if self.under_way().1 >= MAX_IN_PROGRESS {
            collect.on_forgotten(now);
            self.forget();
        }
        let request = Request {
            start: place.start,
            sectors: place.sectors,
            issued_sectors: place.sectors,
            op: event.op,
            group: Group::of_sectors(event, place.sectors),
            flags: event.flags,
            queued: ABSENT,
            allocated: ABSENT,
            inserted: ABSENT,
            accounted: ABSENT,
            issued: ABSENT,
            first_issued: ABSENT,
            completed_before: 0,
            process,
            is_selected: collect.selects(event, process),
            prio: event.ioprio,
            bios: 0,
            note: super::collect::Note::default(),
            is_started: false,
            sequence: ABSENT,
            has_tail: false,
            is_requeued: false,
            error: 0,
            is_overdue: false,
            is_data_done: false,
            first_piece: NIL,
            last_piece: NIL,
            done_piece: NIL,
            class: place.class,
        };
        let id = put(&mut self.requests, &mut self.free_requests, request);
        self.by_start.push(id, request.key());
        self.by_end.push(id, request.end_key());
        if event.op == Some(TraceOp::Discard) {
            self.last_discard = Some(id);
        }
        id
    }

    /// Adds a request that an event shows for the first time, with the bios that wait in its range.
    fn begin(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) -> u32 {
        let id = self.new_request(event, place, process, now, collect);
        if place.sectors == 0 {
            self.take(place, process, id, false);
        } else {
            self.gather(id, place, process);
        }
        let request = &mut self.requests[id as usize];
        request.is_started = place.sectors > 0 && event.op != Some(TraceOp::Passthrough);
        request.note = collect.note(request);
        collect.on_started(request, now);
        id
    }

    /// Moves the bios that wait in a range into a request, from its start up to the first gap.
    fn gather(&mut self, id: u32, mut place: Place, process: u32) {
        while place.sectors > 0 {
            let taken = self.take(place, process, id, false);
            if taken == 0 {
                break;
            }
            place.start = place.start.wrapping_add(taken);
            place.sectors -= taken;
        }
    }

    fn allocate(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) -> u32 {
        let id = self.begin(event, place, now, process, collect);
        let request = &mut self.requests[id as usize];
        request.allocated = now;
        if place.class & EMPTY != 0 && now != ABSENT {
            request.sequence = now;
            self.sequences.started(id, now);
            collect.on_sequence_started(now);
        }
        let first = self
            .pieces
            .get(request.first_piece as usize)
            .map(|piece| &self.bios[piece.bio as usize]);
        collect.on_allocated(request, first, now);
        if let (Some(log), Some(first)) = (&mut collect.bios, first) {
            log.allocated(first.number, now);
        }
        id
    }

    fn merge(
        &mut self,
        event: &TraceEvent,
        place: Place,
        now: u64,
        process: u32,
        collect: &mut Collector,
    ) {
        let is_back = event.kind == TraceKind::BackMerge;
        let found = if is_back {
            self.by_end.first(place.key()).or_else(|| self.discard_for(event, place))
        } else {
            // The end of the bio is the start of the request.
            self.request_at(Place { start: place.end(), ..place }, false)
        };
        let Some(id) = found else {
            collect.on_merged(event, process);
            // The request is unknown, but the bio is in it all the same.
            let lost = self.new_request(event, place, process, now, collect);
            self.gather(lost, place, process);
            self.drop_request(lost, now, collect);
            return;
        };
        let before = self.requests[id as usize].queued;
        self.take(place, process, id, !is_back);
        let request = &mut self.requests[id as usize];
        // The latency of a request starts with its first bio.
        request.queued = before;
        request.sectors = request.sectors.saturating_add(place.sectors);
        request.issued_sectors = request.sectors;
        let is_issued = request.issued != ABSENT;
        if is_back {
            self.by_end.remove(id);
        } else {
            request.start = place.start;
            self.by_start.remove(id);
        }
        if !is_back {
            self.by_start.push(id, request.key());
        } else if !is_issued {
            self.by_end.push(id, request.end_key());
        }
        collect.on_merged(event, process);
    }

    /// Returns the request that a discard elsewhere joins: the last discard that was not issued. A
    /// request may have several ranges if the device takes as many in one command.
    fn discard_for(&self, event: &TraceEvent, place: Place) -> Option<u32> {
        let id = self.last_discard.filter(|_| event.op == Some(TraceOp::Discard))?;
        let request = &self.requests[id as usize];
        let is_there =
            self.by_end.has(id) && request.issued == ABSENT && request.class == place.class;
        is_there.then_some(id)
    }

    /// Appends the request at a sector to the request that ends there.
    fn merge_requests(&mut self, place: Place, process: u32, now: u64, collect: &mut Collector) {
        let Some(next) = self.by_start.first(place.key()) else {
            return collect.on_request_merged(None, process, now);
        };
        let absorbed = self.requests[next as usize];
        collect.on_request_merged(Some(&absorbed), process, now);
        let into = self
            .by_end
            .first(Key { sector: place.start, class: place.class })
            .filter(|&into| into != next);
        let Some(into) = into else { return self.drop_request(next, now, collect) };
        let request = &mut self.requests[into as usize];
        request.sectors = request.sectors.saturating_add(absorbed.sectors);
        request.issued_sectors = request.sectors;
        request.bios += absorbed.bios;
        match (request.last_piece, absorbed.first_piece) {
            (_, NIL) => {}
            (NIL, first) => {
                request.first_piece = first;
                request.last_piece = absorbed.last_piece;
            }
            (last, first) => {
                self.pieces[last as usize].next = first;
                request.last_piece = absorbed.last_piece;
            }
        }
        let key = request.end_key();
        // Its pieces now belong to the other request.
        self.requests[next as usize].first_piece = NIL;
        self.drop_request(next, now, collect);
        self.by_end.remove(into);
        self.by_end.push(into, key);
    }

    fn complete(&mut self, event: &TraceEvent, place: Place, now: u64, collect: &mut Collector) {
        let found = self
            .completed_at(place, now, collect)
            .or_else(|| self.append_completed_at(event, place));
        let Some(id) = found else {
            collect.on_completed_unknown(event, now);
            return;
        };
        let request = &self.requests[id as usize];
        if request.is_ended_by(place) {
            let error = event.error.map(|error| if error == 0 { request.error } else { error });
            // The end of a flush sequence does not count as a request.
            if request.is_data_done || request.class & EMPTY != 0 && request.issued == ABSENT {
                collect.on_sequence_completed(request, error, now);
            } else {
                if collect.in_device >= MIN_DEPTH_OF_AN_ORDER
                    && (self.completions < ALL || self.completions.is_multiple_of(SAMPLED))
                {
                    let in_device = collect.in_device;
                    collect.watch.order.on_completed(self.overtaken(id), in_device);
                }
                collect.on_completed(request, error, now);
                if now != ABSENT && request.issued != ABSENT {
                    self.completions += 1;
                    self.longest = self.longest.max(now - request.issued);
                }
            }
            let (op, issued) = (request.op, request.issued);
            self.end_request(id, now, collect);
            if now != ABSENT {
                if op == Some(TraceOp::Flush) {
                    self.end_flush(issued, now, collect);
                }
                self.check_overdue(now, collect);
            }
            return;
        }
        // A part of the request completed, from its front.
        collect.on_part_completed(request);
        self.end_pieces(id, place.sectors, now, collect);
        let request = &mut self.requests[id as usize];
        if let Some(error) = event.error.filter(|&error| error != 0) {
            request.error = error;
        }
        request.start = request.start.wrapping_add(place.sectors);
        request.sectors -= place.sectors;
        let (key, end_key, is_issued) =
            (request.key(), request.end_key(), request.issued != ABSENT);
        self.by_start.remove(id);
        self.by_start.push(id, key);
        if !is_issued {
            self.by_end.remove(id);
            self.by_end.push(id, end_key);
        }
    }

    /// Ends a request, and those of its bios that end with it.
    fn end_request(&mut self, id: u32, now: u64, collect: &mut Collector) {
        let Request { sectors, class, .. } = self.requests[id as usize];
        self.end_pieces(id, sectors, now, collect);
        // The data of a flush sequence is written, but the sequence continues and ends with a
        // completion without sectors. A write with FUA has a sequence if the device does not
        // support FUA; the request then lacks the flag.
        let waits = self.requests[id as usize].first_piece != NIL && class & EMPTY == 0;
        if waits {
            self.by_start.remove(id);
            self.by_end.remove(id);
            let request = &mut self.requests[id as usize];
            request.class |= EMPTY;
            request.sectors = 0;
            request.start = self.bios[self.pieces[request.first_piece as usize].bio as usize].start;
            request.is_data_done = true;
            request.issued = ABSENT;
            if now != ABSENT {
                request.sequence = now;
                self.sequences.started(id, now);
                collect.on_sequence_started(now);
            }
            let key = request.key();
            self.by_start.push(id, key);
            return;
        }
        self.drop_request(id, now, collect);
    }

    /// Completes sectors from the front of a request's bios. The bios of a flush sequence stay,
    /// with pieces of no sectors.
    fn end_pieces(&mut self, id: u32, mut sectors: u64, now: u64, collect: &mut Collector) {
        let Request { class, prio, flags, issued, first_piece, done_piece, .. } =
            self.requests[id as usize];
        let is_last = class & EMPTY != 0;
        let lacks_fua = flags.is_some_and(|flags| !flags.contains(Flags::FUA)) && issued != ABSENT;
        // Pieces that were kept before come first, and are skipped until the end.
        let (mut first_kept, mut last_kept, mut at) = match done_piece {
            done if done != NIL && !is_last => (first_piece, done, self.pieces[done as usize].next),
            _ => (NIL, NIL, first_piece),
        };
        while at != NIL {
            let Piece { bio: bio_id, sectors: have, next } = self.pieces[at as usize];
            let done = have.min(sectors);
            sectors -= done;
            let bio = &mut self.bios[bio_id as usize];
            bio.left -= done.min(bio.left);
            bio.prio = prio.or(bio.prio);
            if done < have {
                self.pieces[at as usize].sectors -= done;
                break;
            }
            let is_sequence = bio.is_sequence || lacks_fua && bio.flags.contains(Flags::FUA);
            if !is_last && is_sequence && bio.left == 0 && bio.cursor == bio.end {
                self.pieces[at as usize].sectors = 0;
                if first_kept == NIL {
                    first_kept = at;
                } else {
                    self.pieces[last_kept as usize].next = at;
                }
                last_kept = at;
            } else {
                self.release(bio_id, now, collect);
                self.free_piece(at);
            }
            at = next;
        }
        // The list becomes the pieces kept, followed by the remaining ones.
        let request = &mut self.requests[id as usize];
        if last_kept != NIL {
            self.pieces[last_kept as usize].next = at;
        }
        request.first_piece = if first_kept == NIL { at } else { first_kept };
        request.done_piece = last_kept;
        if at == NIL {
            request.last_piece = last_kept;
        }
    }

    /// Records that one piece of a bio is no longer in progress. A bio without pieces has completed
    /// if all its sectors did.
    fn release(&mut self, id: u32, now: u64, collect: &mut Collector) {
        let bio = &mut self.bios[id as usize];
        assert!(bio.live > 0, "a piece of a bio ends that is not in progress");
        bio.live -= 1;
        if bio.live == 0 && bio.cursor == bio.end {
            if bio.left == 0 {
                collect.on_bio_completed(bio, now);
            }
            self.ends.remove(id);
            self.free_bios.push(id);
        }
    }

    /// Removes a request and its pieces.
    fn drop_request(&mut self, id: u32, now: u64, collect: &mut Collector) {
        self.by_start.remove(id);
        self.by_end.remove(id);
        let mut at = self.requests[id as usize].first_piece;
        while at != NIL {
            let Piece { bio, next, .. } = self.pieces[at as usize];
            // Its sectors never complete.
            self.release(bio, now, collect);
            self.free_piece(at);
            at = next;
        }
        let request = &mut self.requests[id as usize];
        if request.sequence != ABSENT && now != ABSENT {
            collect.on_sequence_ended(request.group, now);
        }
        // It is not in the device: see `check_overdue`.
        request.issued = ABSENT;
        request.sequence = ABSENT;
        self.free_requests.push(id);
    }
}

/// Stores a value in a free slot, or at the end.
#[inline]
fn put<T>(all: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(id) => {
            all[id as usize] = value;
            id
        }
        None => {
            all.push(value);
            all.len() as u32 - 1
        }
    }
}
