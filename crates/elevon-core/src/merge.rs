//! Checks if a bio may be merged into a request: compatibility and position. The limits are checked
//! by the code that merges.

use crate::bio::Bio;
use crate::ioprio::IoPrio;
use crate::kernel::Rules;
use crate::op::{Flags, Op};
use crate::request::Request;
use crate::units::TenantId;

/// The position at which a bio is merged into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// The bio follows the request.
    Back,
    /// The bio precedes the request.
    Front,
    /// The bio becomes another range of a discard with several ranges.
    Discard,
}

/// Flags that exclude a bio or request from all merges.
const NEVER: Flags = Flags::NOMERGE.with(Flags::PREFLUSH).with(Flags::FUA);

/// Returns true if the flags and the operation of a bio allow merges.
#[inline]
pub(crate) const fn bio_is_mergeable(bio: &Bio) -> bool {
    !bio.flags.intersects(NEVER)
        && matches!(bio.op, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
}

/// Returns true if a request still accepts merges.
#[inline]
pub(crate) fn request_is_mergeable(request: &Request) -> bool {
    !request.flags.intersects(NEVER)
        && !request.flush.is_some()
        && request.state == crate::request::State::Queued
        && matches!(request.op, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
}

/// Returns true if bio and request agree in everything except position and size. Failfast bits and
/// RAHEAD may differ.
#[inline]
pub fn is_compatible(rules: &Rules, request: &Request, bio: &Bio) -> bool {
    request_is_mergeable(request)
        && bio_is_mergeable(bio)
        && Kin::of_request(rules, request) == Kin::of_bio(rules, bio)
}

/// Returns true if two requests agree in everything except position and size.
pub(crate) fn requests_are_compatible(rules: &Rules, a: &Request, b: &Request) -> bool {
    request_is_mergeable(a)
        && request_is_mergeable(b)
        && Kin::of_request(rules, a) == Kin::of_request(rules, b)
}

/// The attributes that all bios of a request must share.
#[derive(PartialEq, Eq)]
struct Kin {
    op: Op,
    is_atomic: bool,
    ioprio: IoPrio,
    tenant: TenantId,
    /// 0 if the kernel version does not compare it.
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
    fn new(
        rules: &Rules,
        op: Op,
        flags: Flags,
        ioprio: IoPrio,
        tenant: TenantId,
        write_hint: u8,
    ) -> Self {
        let write_hint = if rules.write_hint_blocks_merge { write_hint } else { 0 };
        Self { op, is_atomic: flags.contains(Flags::ATOMIC), ioprio, tenant, write_hint }
    }
}

/// Returns the position at which the bio continues the request, if it does. `discard_ranges` is the
/// queue's `max_discard_segments`.
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
