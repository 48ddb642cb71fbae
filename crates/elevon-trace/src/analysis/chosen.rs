//! Collects the figures of all I/O of a device and, if only some of it is selected, of that as
//! well.
//!
//! What the device does is told by all of its requests, so depth, utilisation and findings are of
//! all I/O; everything else is of the selected processes and cgroups. A bio is selected when it is
//! queued, and a request with its first bio.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use elevon_core::op::Flags;

use super::collect;
use super::life::{Bio, Request};
use super::{Group, HZ};
use crate::event::TraceEvent;
use crate::names::Names;
use crate::select::Selection;

/// Maximum number of different cgroups that are told apart in an error.
const MAX_CGROUPS: usize = 1 << 12;

/// All figures. It dereferences to those of all I/O.
pub(super) struct Collector {
    all: collect::Collector,
    chosen: Option<Box<Chosen>>,
}

/// The figures of what is selected.
struct Chosen {
    collect: collect::Collector,
    selection: Selection,
    /// By process: whether it is selected.
    rows: Vec<bool>,
    /// Names so far, which processes are found by.
    names: Vec<Box<str>>,
    cgroups: BTreeSet<u64>,
}

impl Deref for Collector {
    type Target = collect::Collector;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Collector {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

impl Collector {
    pub(super) fn new(selection: &Selection) -> Self {
        let chosen = selection.has_owners().then(|| {
            Box::new(Chosen {
                collect: collect::Collector::new(HZ),
                selection: selection.clone(),
                rows: Vec::new(),
                names: Vec::new(),
                cgroups: BTreeSet::new(),
            })
        });
        Self { all: collect::Collector::new(HZ), chosen }
    }

    /// Takes note of names that the next events may have.
    pub(super) fn learn(&mut self, names: &Names) {
        if let Some(chosen) = &mut self.chosen {
            chosen.names.extend((chosen.names.len()..names.len()).map(|at| names.at(at).into()));
        }
    }

    /// Returns the row of an event's process.
    #[inline]
    pub(super) fn process_of(&mut self, event: &TraceEvent) -> u32 {
        let at = self.all.processes.of(event);
        if let Some(chosen) = &mut self.chosen {
            chosen.take_rows(&self.all);
            if let Some(cgroup) = event.cgroup.filter(|_| chosen.cgroups.len() < MAX_CGROUPS) {
                chosen.cgroups.insert(cgroup);
            }
        }
        at
    }

    /// Returns true if the I/O of an event is selected.
    #[inline]
    pub(super) fn selects(&self, event: &TraceEvent, process: u32) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| {
            let is_process = chosen.rows.get(process as usize).is_some_and(|is| *is);
            chosen.selection.has_owner(is_process, event.cgroup)
        })
    }

    /// Returns the cgroups of the events so far, if some are selected.
    pub(super) fn cgroups(&self) -> Vec<u64> {
        self.chosen.iter().flat_map(|chosen| chosen.cgroups.iter().copied()).collect()
    }

    /// Returns the figures that are reported: of what is selected and, if that is not all, of all.
    pub(super) fn into_parts(self) -> (collect::Collector, Option<collect::Collector>) {
        match self.chosen {
            None => (self.all, None),
            Some(chosen) => {
                let mut shown = chosen.collect;
                shown.timeline.take_device_of(&self.all.timeline);
                // Nothing tells whose they are.
                shown.counts.unmatched = self.all.counts.unmatched;
                (shown, Some(self.all))
            }
        }
    }

    /// Returns true if something is counted of what is selected.
    pub(super) fn has_some(&self) -> bool {
        let counts = &self.chosen.as_ref().map_or(&self.all, |chosen| &chosen.collect).counts;
        [counts.bios, counts.bios_completed, counts.issued, counts.completed]
            .iter()
            .flatten()
            .any(|&count| count > 0)
    }

    /// Returns what of the figures is reported.
    pub(super) fn shown(&mut self) -> &mut collect::Collector {
        match &mut self.chosen {
            Some(chosen) => &mut chosen.collect,
            None => &mut self.all,
        }
    }

    /// Begins a window of time, with these requests under way: what was counted before does not
    /// count.
    pub(super) fn begin_window(&mut self, now: u64, requests: &[&Request]) {
        self.all.begin_window(now, requests.iter().copied());
        if let Some(chosen) = &mut self.chosen {
            chosen
                .collect
                .begin_window(now, requests.iter().copied().filter(|request| request.is_selected));
        }
    }

    /// Takes over what lasts from the figures of the window before, with these requests under way.
    pub(super) fn continue_from(&mut self, before: &mut Self, now: u64, requests: &[&Request]) {
        self.all.continue_from(&mut before.all, now, requests.iter().copied());
    }

    /// Calls a function for the figures of what is selected, if it is not all.
    #[inline]
    fn chosen(&mut self, is_selected: bool, step: impl FnOnce(&mut collect::Collector)) {
        if let Some(chosen) = self.chosen.as_mut().filter(|_| is_selected) {
            step(&mut chosen.collect);
        }
    }
}

impl Chosen {
    /// Adds a row for each new process.
    fn take_rows(&mut self, all: &collect::Collector) {
        self.collect.processes.take_rows(&all.processes);
        for row in &self.collect.processes.all[self.rows.len()..] {
            let name = row.comm.and_then(|comm| self.names.get(comm.index()));
            self.rows.push(self.selection.has_process(name.map(|name| &**name), row.id));
        }
    }
}

/// The steps of bios and requests, and the passing of time.
impl Collector {
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        self.all.advance(now);
        self.chosen(true, |chosen| chosen.advance(now));
    }

    pub(super) fn skip_to(&mut self, now: u64) {
        self.all.skip_to(now);
        self.chosen(true, |chosen| chosen.skip_to(now));
    }

    pub(super) fn on_forgotten(&mut self, now: u64) {
        self.all.on_forgotten(now);
        self.chosen(true, |chosen| chosen.on_forgotten(now));
    }

    pub(super) fn finish_responses(&mut self) {
        self.all.finish_responses();
        self.chosen(true, collect::Collector::finish_responses);
    }

    /// Takes note of a gap, or of the end of one, in which what completes does not count over time.
    pub(super) fn set_in_gap(&mut self, is_in_gap: bool) {
        self.all.watch.is_in_gap = is_in_gap;
        self.chosen(true, |chosen| chosen.watch.is_in_gap = is_in_gap);
    }

    pub(super) fn observe_gap(&mut self, event: &TraceEvent) {
        self.all.gaps.observe(event);
        self.chosen(true, |chosen| chosen.gaps.observe(event));
    }

    #[inline]
    pub(super) fn on_bio_queued(&mut self, bio: &Bio, flags: Option<Flags>, now: u64) {
        self.all.on_bio_queued(bio, flags, now);
        self.chosen(bio.is_selected, |chosen| chosen.on_bio_queued(bio, flags, now));
    }

    pub(super) fn on_whole_io(&mut self, event: &TraceEvent, now: u64, process: u32) {
        self.all.on_whole_io(event, now, process);
        let is_selected = self.selects(event, process);
        self.chosen(is_selected, |chosen| chosen.on_whole_io(event, now, process));
    }

    pub(super) fn on_split(&mut self, bio: &Bio, front: u64, now: u64) {
        self.all.on_split(bio, front, now);
        self.chosen(bio.is_selected, |chosen| chosen.on_split(bio, front, now));
    }

    pub(super) fn on_split_of_unknown(&mut self, event: &TraceEvent, process: u32) {
        self.all.on_split_of_unknown(process);
        let is_selected = self.selects(event, process);
        self.chosen(is_selected, |chosen| chosen.on_split_of_unknown(process));
    }

    #[inline]
    pub(super) fn on_started(&mut self, request: &Request, now: u64) {
        self.all.on_started(request, now);
        self.chosen(request.is_selected, |chosen| chosen.on_started(request, now));
    }

    #[inline]
    pub(super) fn on_allocated(&mut self, request: &Request, bio: Option<&Bio>, now: u64) {
        self.all.on_allocated(request, bio, now);
        self.chosen(request.is_selected, |chosen| chosen.on_allocated(request, bio, now));
    }

    #[inline]
    pub(super) fn on_merged(&mut self, event: &TraceEvent, process: u32) {
        self.all.on_merged(event, process);
        let is_selected = self.selects(event, process);
        self.chosen(is_selected, |chosen| chosen.on_merged(event, process));
    }

    pub(super) fn on_request_merged(&mut self, absorbed: Option<&Request>, process: u32, now: u64) {
        self.all.on_request_merged(absorbed, process, now);
        let is_selected = absorbed.is_some_and(|absorbed| absorbed.is_selected);
        self.chosen(is_selected, |chosen| chosen.on_request_merged(absorbed, process, now));
    }

    #[inline]
    pub(super) fn on_inserted(&mut self, request: &Request, now: u64) {
        self.all.on_inserted(request, now);
        self.chosen(request.is_selected, |chosen| chosen.on_inserted(request, now));
    }

    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, now: u64) {
        self.all.on_issued(request, now);
        self.chosen(request.is_selected, |chosen| chosen.on_issued(request, now));
    }

    pub(super) fn on_issued_again(&mut self, request: &Request, now: u64) {
        self.all.on_issued_again(request, now);
        self.chosen(request.is_selected, |chosen| chosen.on_issued_again(request, now));
    }

    pub(super) fn on_sequence_completed(
        &mut self,
        request: &Request,
        error: Option<i32>,
        now: u64,
    ) {
        self.all.on_sequence_completed(request, error, now);
        self.chosen(request.is_selected, |chosen| {
            chosen.on_sequence_completed(request, error, now);
        });
    }

    pub(super) fn on_error_event(&mut self, event: &TraceEvent, process: u32, now: u64) {
        self.all.on_error_event(event, process, now);
        let is_selected = self.selects(event, process);
        self.chosen(is_selected, |chosen| chosen.on_error_event(event, process, now));
    }

    /// Completes the figures that are counted late.
    pub(super) fn finish_figures(&mut self) {
        self.all.finish_figures();
        self.chosen(true, collect::Collector::finish_figures);
    }

    pub(super) fn on_requeued(&mut self, request: Option<&Request>, now: u64) {
        self.all.on_requeued(request, now);
        let is_selected = request.is_some_and(|request| request.is_selected);
        self.chosen(is_selected, |chosen| chosen.on_requeued(request, now));
    }

    pub(super) fn on_part_completed(&mut self, request: &Request) {
        self.all.on_part_completed();
        self.chosen(request.is_selected, collect::Collector::on_part_completed);
    }

    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, error: Option<i32>, now: u64) {
        self.all.on_completed(request, error, now);
        self.chosen(request.is_selected, |chosen| chosen.on_completed(request, error, now));
    }

    pub(super) fn on_overdue(&mut self, request: &Request, now: u64) {
        self.all.on_overdue(request, now);
        self.chosen(request.is_selected, |chosen| chosen.on_overdue(request, now));
    }

    #[inline]
    pub(super) fn on_bio_completed(&mut self, bio: &Bio, now: u64) {
        self.all.on_bio_completed(bio, now);
        self.chosen(bio.is_selected, |chosen| chosen.on_bio_completed(bio, now));
    }

    pub(super) fn on_bio_without_request(&mut self, bio: &Bio, error: Option<i32>, now: u64) {
        self.all.on_bio_without_request(bio, error, now);
        self.chosen(bio.is_selected, |chosen| chosen.on_bio_without_request(bio, error, now));
    }
}

/// Returns true for what arrives or is issued: the events by which a process is known to do I/O.
pub(super) fn is_beginning(event: &TraceEvent) -> bool {
    use crate::event::TraceKind as Kind;
    let is_begun =
        matches!(event.kind, Kind::Queue | Kind::Io { .. } | Kind::Issue | Kind::IoStart);
    is_begun && Group::from_op(event.op) != Group::Other
}
