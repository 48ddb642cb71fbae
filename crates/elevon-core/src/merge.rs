//! May this bio join this request? Compatibility and position; limits are checked where the join happens.

use crate::bio::Bio;
use crate::kernel::Rules;
use crate::op::{Flags, Op};
use crate::request::Request;

/// How a bio joins a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// The bio follows the request.
    Back,
    /// The bio precedes the request.
    Front,
    /// The bio is another range of a discard of several.
    Discard,
}

/// Flags that keep a bio or request out of every merge.
const NEVER: Flags = Flags::NOMERGE.with(Flags::PREFLUSH).with(Flags::FUA);

/// Whether a bio may merge with anything.
#[inline]
pub const fn bio_is_mergeable(bio: &Bio) -> bool {
    !bio.flags.intersects(NEVER) && matches!(bio.op, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
}

/// Whether a request still takes bios.
#[inline]
pub fn request_is_mergeable(request: &Request) -> bool {
    !request.flags.intersects(NEVER)
        && request.flush_step == 0
        && request.state == crate::request::State::Queued
        && matches!(request.op, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
}

/// Whether bio and request agree in everything but position and size.
#[inline]
pub fn is_compatible(rules: &Rules, request: &Request, bio: &Bio) -> bool {
    request_is_mergeable(request)
        && bio_is_mergeable(bio)
        && request.op == bio.op
        && request.tenant == bio.tenant
        && request.ioprio == bio.ioprio
        && (!rules.write_hint_blocks_merge || request.write_hint == bio.write_hint)
        && request.flags.contains(Flags::ATOMIC) == bio.flags.contains(Flags::ATOMIC)
}

/// How the positions fit, if they do. `discard_ranges` is the queue's `max_discard_segments`.
#[inline]
pub fn position(request: &Request, bio: &Bio, discard_ranges: u16) -> Option<MergeKind> {
    if bio.op == Op::Discard && discard_ranges > 1 {
        Some(MergeKind::Discard)
    } else if request.end() == bio.sector {
        Some(MergeKind::Back)
    } else if bio.end() == request.sector {
        Some(MergeKind::Front)
    } else {
        None
    }
}
