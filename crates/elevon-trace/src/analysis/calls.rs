//! Finds the bios that one call of direct I/O built: a bio whose vectors are used up, and the bio
//! that carries on where it ends.
//!
//! A call submits its bios under one plug, so the last request of a full bio is still there when
//! the next bio is queued: it is allocated, and neither inserted nor issued. A bio of another call
//! comes after the plug of this one was flushed. Without `getrq` events, which show this, no bio
//! continues another.
//!
//! Cost: O(1) per event. Memory: one entry a thread.

use elevon_core::bio::BIO_MAX_VECS;
use elevon_core::op::Flags;
use elevon_core::units::PAGE_SIZE;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;

/// The vectors of a bio may be used up if it has more bytes than this: each holds a page at least,
/// but the first, since a buffer may begin inside a page.
const FULL_ABOVE: u64 = (BIO_MAX_VECS as u64 - 1) * PAGE_SIZE;

/// The last bio of a thread, which may be full.
#[derive(Clone, Copy, Debug)]
struct LastBio {
    number: u32,
    op: Option<TraceOp>,
    flags: Option<Flags>,
    cgroup: Option<u64>,
    /// The sector after it.
    end: u64,
    /// Its last sector is in a request, which has not left the plug.
    is_in_plug: bool,
}

/// By thread, the last bio if it may be full.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: HashMap<u32, LastBio, FxBuildHasher>,
}

impl Calls {
    /// A bio was queued, which has this number. Returns the number of the bio that it continues.
    pub(super) fn queued(&mut self, event: &TraceEvent, number: u32) -> Option<u32> {
        let (tid, start) = (event.tid?, event.sector?);
        let before = self.last.remove(&tid);
        if !is_direct(event) {
            return None;
        }
        if event.bytes.is_some_and(|bytes| bytes > FULL_ABOVE) {
            let end = start.wrapping_add(event.sectors().unwrap_or(0));
            let (op, flags, cgroup) = (event.op, event.flags, event.cgroup);
            self.last.insert(tid, LastBio { number, op, flags, cgroup, end, is_in_plug: false });
        }
        let before = before.filter(|bio| bio.is_in_plug && bio.end == start)?;
        ((before.op, before.flags, before.cgroup) == (event.op, event.flags, event.cgroup))
            .then_some(before.number)
    }

    /// Takes note of requests that come under a plug and leave it.
    #[inline]
    pub(super) fn observe(&mut self, event: &TraceEvent) {
        let Some(tid) = event.tid else { return };
        let is_end = |bio: &LastBio| {
            let end = event.sector.unwrap_or(0).wrapping_add(event.sectors().unwrap_or(0));
            bio.op == event.op && bio.end == end
        };
        match event.kind {
            TraceKind::GetRequest => {
                if let Some(bio) = self.last.get_mut(&tid).filter(|bio| is_end(bio)) {
                    bio.is_in_plug = true;
                }
            }
            // An unplug tells nothing: the request that made the plug full is added after it.
            TraceKind::Insert | TraceKind::Issue if self.last.get(&tid).is_some_and(is_end) => {
                self.last.remove(&tid);
            }
            _ => {}
        }
    }
}

/// Returns true if a bio may be of direct I/O: readahead is the page cache's, and so is a write
/// that no process waits for.
fn is_direct(event: &TraceEvent) -> bool {
    let flags = event.flags.unwrap_or_default();
    match event.op {
        Some(TraceOp::Read) => !flags.contains(Flags::RAHEAD),
        Some(TraceOp::Write) => flags.contains(Flags::SYNC),
        _ => false,
    }
}
