//! Records every bio of a trace with its completion, for a replay. Memory: O(bios).

use std::collections::BTreeMap;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::ABSENT;
use super::calls::Calls;
use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;

/// A bio as it was queued, or a whole I/O of a format with one record per I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BioRecord {
    /// When it was queued.
    pub(crate) queued: u64,
    /// Time of completion; [`ABSENT`] if the trace does not show it.
    pub(crate) completed: u64,
    /// Nanoseconds from then on until its first request was allocated: for so long the process
    /// slept for a tag, or under writeback throttling. 0 if the trace does not show it.
    pub(crate) slept: u32,
    /// Nanoseconds until its last request was allocated, likewise.
    pub(crate) entered: u32,
    pub(crate) sector: u64,
    pub(crate) bytes: u64,
    pub(crate) op: Option<TraceOp>,
    pub(crate) flags: Option<Flags>,
    /// Index of the process in order of appearance.
    pub(crate) process: u32,
    /// The thread that queued it, if the trace tells.
    pub(crate) tid: Option<u32>,
    pub(crate) cgroup: Option<u64>,
    pub(crate) prio: Option<IoPrio>,
    /// Number of the plug that it shared with other bios; 0 for none.
    pub(crate) plug: u32,
    /// Number of the bio before it in the call that built both, if that is certain.
    pub(crate) continues: Option<u32>,
}

/// Maximum number of different lengths of pieces that are counted: a device has some hundred.
const MAX_FRONTS: usize = 1 << 12;

/// The bios of a trace in the order in which they were queued.
#[derive(Debug, Default)]
pub(crate) struct BioLog {
    pub(crate) all: Vec<BioRecord>,
    /// Current plug of each thread, or its last one.
    plugs: HashMap<u32, OpenPlug, FxBuildHasher>,
    last_plug: u32,
    calls: Calls,
    /// Splits by the sectors of the piece that went first.
    pub(super) fronts: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct OpenPlug {
    is_open: bool,
    bios: Vec<u32>,
}

impl BioLog {
    /// Number of a bio if there is no log.
    pub(super) const NONE: u32 = u32::MAX;

    /// Appends a bio and returns its number.
    pub(super) fn queued(&mut self, event: &TraceEvent, process: u32, now: u64) -> u32 {
        let number = self.all.len() as u32;
        let continues = self.calls.queued(event, number);
        self.all.push(BioRecord {
            queued: now,
            completed: ABSENT,
            slept: 0,
            entered: 0,
            sector: event.sector.unwrap_or(0),
            bytes: event.bytes.unwrap_or(0),
            op: event.op,
            flags: event.flags,
            process,
            tid: event.tid,
            cgroup: event.cgroup,
            prio: event.ioprio,
            plug: 0,
            continues,
        });
        if let Some(tid) = event.tid {
            let plug = self.plugs.entry(tid).or_default();
            if !plug.is_open {
                plug.bios.clear();
            }
            plug.bios.push(number);
        }
        number
    }

    /// Handles a thread that opens or flushes its plug and requests that leave a plug, and ignores
    /// other events. The kernel shows a plug with the first request in it, so the bio before that
    /// event belongs to the plug.
    pub(super) fn observe(&mut self, event: &TraceEvent) {
        self.calls.observe(event);
        if let (TraceKind::Split { new_sector }, Some(start)) = (event.kind, event.sector) {
            let front = new_sector.saturating_sub(start);
            if self.fronts.len() < MAX_FRONTS || self.fronts.contains_key(&front) {
                *self.fronts.entry(front).or_default() += 1;
            }
        }
        let Some(plug) = event.tid.and_then(|tid| self.plugs.get_mut(&tid)) else { return };
        match event.kind {
            TraceKind::Plug => plug.is_open = true,
            TraceKind::Unplug { .. } if plug.is_open => {
                plug.is_open = false;
                if plug.bios.len() > 1 {
                    self.last_plug += 1;
                    for &bio in &plug.bios {
                        self.all[bio as usize].plug = self.last_plug;
                    }
                }
                plug.bios.clear();
            }
            _ => {}
        }
    }

    /// Forgets the calls under way: no bio after lost events continues one before them.
    pub(super) fn forget(&mut self) {
        self.calls = Calls::default();
    }

    /// Records that a request of a bio was allocated.
    pub(super) fn allocated(&mut self, number: u32, now: u64) {
        let bio =
            self.all.get_mut(number as usize).filter(|bio| now != ABSENT && bio.queued != ABSENT);
        if let Some(bio) = bio {
            bio.entered = u32::try_from(now.saturating_sub(bio.queued)).unwrap_or(u32::MAX);
            if bio.slept == 0 {
                bio.slept = bio.entered;
            }
        }
    }

    /// Records the completion of a bio, and the priority of its requests.
    pub(super) fn completed(&mut self, number: u32, prio: Option<IoPrio>, now: u64) {
        if let Some(bio) = self.all.get_mut(number as usize) {
            bio.completed = now;
            bio.prio = prio.or(bio.prio);
        }
    }
}
