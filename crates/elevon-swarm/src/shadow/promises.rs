//! What an I/O that is over promises: that its data is on the device, and that its program was told
//! of a write error.

use super::*;

impl Shadow {
    /// Holds a call that went well against what it promises of the device.
    pub(super) fn hold(&mut self, task: TaskId, doing: &Doing, status: Status) {
        if !status.is_ok() {
            return;
        }
        let user = self.users.get(&task.0);
        let syncs = user.is_some_and(|user| user.sync_writes);
        let untold = user.filter(|user| !user.unsure).and_then(|user| user.untold);
        let is_mapped = user.is_some_and(|user| user.manner == Manner::Mapped);
        let is_written = doing.op == Op::Write
            && match doing.manner {
                Manner::Buffered => syncs || self.writes_through,
                // Jobs sync what they stored; another program's store is over before it is written.
                Manner::Mapped => is_mapped && self.writes_through,
                Manner::Direct => false,
            };
        let syncs = syncs && doing.manner == Manner::Buffered;
        let is_synced = doing.op == Op::Flush && doing.is_durable || is_written && syncs;
        let promises = if is_written { &doing.landed } else { &doing.promises };
        for &(sector, version) in promises {
            let there = self.on_device(sector);
            if there < version && self.is_planned(sector, there) {
                continue;
            }
            let Some(cell) = self.cells.get_mut(&sector) else { continue };
            let failed = cell.failed;
            if failed > doing.begun && there < version {
                // Who asks twice at once over one open file is told once.
                if untold.is_some_and(|(since, _)| since <= failed) {
                    let message = format!("{task:?}: {:?} went well, the write of sector {sector} did not", doing.op);
                    self.wrong.push(("errors", message));
                }
                continue;
            }
            let Some(only) = cell.only() else { continue };
            if is_synced && only == version {
                cell.floor = version;
            }
            if there < version {
                let property = if is_written && !syncs { "through" } else { "synced" };
                let message = format!("{task:?}: {:?} is over, sector {sector} is {there}, not {version}", doing.op);
                self.wrong.push((property, message));
            }
        }
    }

    /// Write errors are told once to each that has the file open, and nobody is told of what was
    /// not.
    pub(super) fn tell(&mut self, task: TaskId, doing: &Doing, status: Status) {
        let (through, last_failure) = (self.writes_through, self.last_failure);
        let Some(user) = self.users.get_mut(&task.0) else { return };
        let asks = doing.op == Op::Flush
            || doing.op == Op::Write && doing.manner == Manner::Buffered && (user.sync_writes || through);
        let before = user.untold.filter(|&(since, _)| since < doing.begun);
        if status.is_ok() {
            let is_hidden = asks && before.is_some() && !user.unsure && doing.manner != Manner::Direct;
            if is_hidden {
                self.accuse("errors", format!("{task:?}: {doing:?} went well though a write failed: {before:?}"));
            }
            return;
        }
        let has_cause = user.untold.is_some() || user.unsure || last_failure >= doing.begun;
        if !has_cause && doing.manner != Manner::Direct && status != Status::NoSpace && status != Status::Invalid {
            self.accuse("errors", format!("{task:?}: {doing:?} ended with {status:?}, and nothing had failed"));
            return;
        }
        if asks && doing.op == Op::Write && doing.moved < doing.place.len {
            // It failed while it was copied (a page could not be read): it has not asked for write
            // errors yet.
            return;
        }
        // Told of what had failed when it began; of what failed meanwhile perhaps.
        user.unsure = user.untold.is_some_and(|(_, last)| last >= doing.begun) || !asks && user.untold.is_some();
        user.untold = user.untold.filter(|_| user.unsure);
    }
}
