//! Checks what a finished I/O promises: its data is on the device, and its program was told of a
//! write error.

use super::*;

impl Shadow {
    /// Checks the device against what a successful call promises.
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
                // Jobs sync what they stored; a store of another program finishes before it is
                // written.
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
                // If two calls over one open file ask at the same time, one of them is told of the
                // error.
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

    /// Checks that every opener of a file is told once of a write error, and that no program is
    /// told of an error that did not occur.
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
        if asks && doing.op == Op::Write && doing.moved < doing.place.len.get() {
            // The call failed while it copied (a page could not be read), before it asked for write
            // errors.
            return;
        }
        // The program was told of errors from before the call; of errors during the call it may
        // have been told.
        user.unsure = user.untold.is_some_and(|(_, last)| last >= doing.begun) || !asks && user.untold.is_some();
        user.untold = user.untold.filter(|_| user.unsure);
    }
}
