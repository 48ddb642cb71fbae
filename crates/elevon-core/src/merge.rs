//! May this bio join this request? Compatibility and position; limits are checked where the join
//! happens.

use crate::bio::Bio;
use crate::ioprio::IoPrio;
use crate::kernel::Rules;
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::units::TenantId;

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
        && !request.flush.is_some()
        && request.state == crate::request::State::Queued
        && matches!(request.op, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
}

/// Whether bio and request agree in everything but position and size. Failfast bits and RAHEAD may
/// differ.
#[inline]
pub fn is_compatible(rules: &Rules, request: &Request, bio: &Bio) -> bool {
    request_is_mergeable(request) && bio_is_mergeable(bio) && Kin::of_request(rules, request) == Kin::of_bio(rules, bio)
}

/// Whether two requests agree in everything but position and size.
pub fn requests_are_compatible(rules: &Rules, a: &Request, b: &Request) -> bool {
    request_is_mergeable(a) && request_is_mergeable(b) && Kin::of_request(rules, a) == Kin::of_request(rules, b)
}

/// What must be the same of all bios of a request.
#[derive(PartialEq, Eq)]
struct Kin {
    op: Op,
    is_atomic: bool,
    ioprio: IoPrio,
    tenant: TenantId,
    /// 0 where the kernel version does not look at it.
    write_hint: u8,
}

impl Kin {
    #[inline]
    fn of_bio(rules: &Rules, bio: &Bio) -> Self {
        Self::new(rules, bio.op, bio.flags, bio.ioprio, bio.tenant, bio.write_hint)
    }

    #[inline]
    fn of_request(rules: &Rules, r: &Request) -> Self {
        Self::new(rules, r.op, r.flags, r.ioprio, r.tenant, r.write_hint)
    }

    #[inline]
    fn new(rules: &Rules, op: Op, flags: Flags, ioprio: IoPrio, tenant: TenantId, write_hint: u8) -> Self {
        let write_hint = if rules.write_hint_blocks_merge { write_hint } else { 0 };
        Self { op, is_atomic: flags.contains(Flags::ATOMIC), ioprio, tenant, write_hint }
    }
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
