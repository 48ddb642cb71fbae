//! Charges for device time that no request was chosen for: that of a flush.

use super::{Place, Shares, delta};
use crate::sched::aileron::ids::MemberId;
use crate::units::{Instant, Nanos};

impl Shares {
    /// Charges a flow for a cost that was served besides what it waits with, or without anything
    /// waiting: V advances as for any service, and the flow and the groups that it is in come
    /// later.
    pub(in crate::sched::aileron) fn charge(&mut self, now: Instant, id: MemberId, cost: Nanos) {
        let mut at = Some(id);
        while let Some(id) = at {
            let member = self.members[id.index()];
            let (group, class) = (member.group, usize::from(member.class));
            match member.place {
                Place::Active => self.unfile(id, member.kinds),
                Place::Ahead | Place::Served | Place::Lingering | Place::Away(_) => {
                    self.take_out(id);
                }
            }
            let tree = &mut self.groups[group.index()].classes[class];
            let own = delta(cost.get(), u64::from(member.weight));
            let start =
                member.start_on_return(now, tree, cost.get(), self.has_turns).wrapping_add(own);
            if let Place::Away(_) = member.place {
                tree.weights += u64::from(member.weight);
            }
            tree.time = tree.time.wrapping_add(delta(cost.get(), tree.weights));
            tree.active.iter_mut().for_each(|waiting| waiting.advance(&mut self.places, tree.time));
            let charged = &mut self.members[id.index()];
            (charged.start, charged.finish) = (start, member.finish.wrapping_add(own));
            if member.place == Place::Active {
                self.file(id, member.kinds);
            } else {
                self.settle(now, id);
            }
            self.forget(now, group, class);
            at = self.groups[group.index()].member;
        }
    }
}
