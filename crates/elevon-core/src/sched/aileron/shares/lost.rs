//! What members were owed and lost: weights are not in force for them.

use super::{Member, SHIFT, Shares};
use crate::sched::aileron::ids::GroupId;
use crate::sched::finish_tree::later;
use crate::units::Nanos;

impl Member {
    /// Notes that a member gets another start: if it is behind that, it loses what it was owed.
    pub(super) fn lose(&mut self, start: u64) {
        if later(start, self.start) {
            let time =
                (u128::from(start.wrapping_sub(self.start)) * u128::from(self.weight)) >> SHIFT;
            let lost = u128::from(self.lost.get()) + time;
            self.lost = Nanos::new(u64::try_from(lost).unwrap_or(u64::MAX));
        }
    }
}

impl Shares {
    /// Returns the device time that a group was owed and lost.
    pub(in crate::sched::aileron) fn lost_by(&self, group: GroupId) -> Nanos {
        self.member_of(group).map_or(Nanos::ZERO, |id| self.members[id.index()].lost)
    }
}
