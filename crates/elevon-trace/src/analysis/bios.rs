//! Every bio of a trace with its completion, for those who replay it. Memory: O(bios).

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::ABSENT;
use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;

/// A bio, or a whole I/O of a format that has one record for it, as it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BioRecord {
    pub(crate) queued: u64,
    /// [`ABSENT`] if the trace does not show it.
    pub(crate) completed: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u64,
    pub(crate) op: Option<TraceOp>,
    pub(crate) flags: Option<Flags>,
    /// Index of the process, in order of appearance.
    pub(crate) process: u32,
    pub(crate) cgroup: Option<u64>,
    pub(crate) prio: Option<IoPrio>,
    /// The plug that it was under with others; 0 for none.
    pub(crate) plug: u32,
}

/// The bios of a trace in the order in which they were queued.
#[derive(Debug, Default)]
pub(crate) struct BioLog {
    pub(crate) all: Vec<BioRecord>,
    /// By thread, the bios under its plug, or its last one.
    plugs: HashMap<u32, OpenPlug, FxBuildHasher>,
    last_plug: u32,
}

#[derive(Debug, Default)]
struct OpenPlug {
    is_open: bool,
    bios: Vec<u32>,
}

impl BioLog {
    /// The number of a bio that is not in the log, since there is none.
    pub(super) const NONE: u32 = u32::MAX;

    /// Appends a bio and returns its number.
    pub(super) fn queued(&mut self, event: &TraceEvent, process: u32, now: u64) -> u32 {
        self.all.push(BioRecord {
            queued: now,
            completed: ABSENT,
            sector: event.sector.unwrap_or(0),
            bytes: event.bytes.unwrap_or(0),
            op: event.op,
            flags: event.flags,
            process,
            cgroup: event.cgroup,
            prio: event.ioprio,
            plug: 0,
        });
        let number = self.all.len() as u32 - 1;
        if let Some(tid) = event.tid {
            let plug = self.plugs.entry(tid).or_default();
            if !plug.is_open {
                plug.bios.clear();
            }
            plug.bios.push(number);
        }
        number
    }

    /// A thread opened or flushed its plug; other events change nothing. The kernel shows a plug
    /// with the first request that comes under it, so the bio before belongs to it.
    pub(super) fn plug(&mut self, event: &TraceEvent) {
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

    /// A bio completed, in requests of this priority.
    pub(super) fn completed(&mut self, number: u32, prio: Option<IoPrio>, now: u64) {
        if let Some(bio) = self.all.get_mut(number as usize) {
            bio.completed = now;
            bio.prio = prio.or(bio.prio);
        }
    }
}
