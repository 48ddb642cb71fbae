//! Checks what a finished I/O promises: its data is on the device, and its program was told of a
//! write error.

use super::*;

/// The last write error of a file, and whether a program was told of it. A program that opens the
/// file later is told of it too if no program was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastError {
    /// When the write failed; `None` if none has.
    at: Option<u64>,
    /// When a program was told of it; `None` if none was, or none for certain.
    told: Option<u64>,
    /// A program may have been told of it.
    may_be_told: bool,
}

impl LastError {
    pub(super) const fn new(at: u64) -> Self {
        Self { at: Some(at), told: None, may_be_told: false }
    }
}

impl Shadow {
    /// Notes which programs have opened their files in the step that ends. A program is told of no
    /// error of which another was told before it opened the file.
    pub(crate) fn note_opens(&mut self, times_opened: impl Fn(TaskId) -> u64) {
        let before = std::mem::replace(&mut self.step_ended, self.clock);
        let mut opened = Vec::new();
        for (&task, user) in &mut self.users {
            let times = times_opened(TaskId(task));
            if std::mem::replace(&mut user.times_opened, times) != times {
                opened.push(task);
            }
        }
        let LastError { at, told, may_be_told } = self.last_error;
        let Some(at) = at.filter(|_| !opened.is_empty()) else { return };
        // The order of what happens in a step is unknown, and a call in progress may have taken the
        // error before the file was opened.
        let is_taken = |(key, doing): (&(u32, u64), &Doing)| {
            let user = self.users.get(&key.0).filter(|user| !user.is_apart());
            user.is_some_and(|user| user.untold.is_some() && self.may_be_told_by(user, doing))
        };
        let unsure = at > before
            || told.map_or(may_be_told, |told| told > before)
            || self.doing.iter().any(is_taken);
        for task in opened {
            if let Some(user) = self.users.get_mut(&task) {
                user.untold = (unsure || told.is_none()).then_some((at, at));
                user.unsure = unsure;
            }
        }
    }

    /// Returns true if a call may end with an error of an earlier write.
    fn may_be_told_by(&self, user: &User, doing: &Doing) -> bool {
        let is_synced = user.sync_writes || self.writes_through;
        doing.op == Op::Flush
            || doing.op == Op::Write && doing.manner != Manner::Direct && is_synced
    }

    /// Notes that a call has ended with an error, which may be, or certainly is, that of an earlier
    /// write.
    fn note_told(&mut self, is_certain: bool) {
        let told = self.last_error.told.or_else(|| is_certain.then_some(self.clock));
        self.last_error = LastError { told, may_be_told: true, ..self.last_error };
    }

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
                    let message = format!(
                        "{task:?}: {:?} went well, the write of sector {sector} did not",
                        doing.op
                    );
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
                let message = format!(
                    "{task:?}: {:?} is over, sector {sector} is {there}, not {version}",
                    doing.op
                );
                self.wrong.push((property, message));
            }
        }
    }

    /// Checks that every opener of a file is told once of a write error, and that no program is
    /// told of an error that did not occur.
    pub(super) fn tell(&mut self, task: TaskId, doing: &Doing, status: Status) {
        let (through, last_failure) = (self.writes_through, self.last_failure);
        let may_be_told =
            self.users.get(&task.0).is_some_and(|user| self.may_be_told_by(user, doing));
        let Some(user) = self.users.get_mut(&task.0) else { return };
        let asks = doing.op == Op::Flush
            || doing.op == Op::Write
                && doing.manner == Manner::Buffered
                && (user.sync_writes || through);
        let before = user.untold.filter(|&(since, _)| since < doing.begun);
        if status.is_ok() {
            let is_hidden =
                asks && before.is_some() && !user.unsure && doing.manner != Manner::Direct;
            if is_hidden {
                self.accuse(
                    "errors",
                    format!("{task:?}: {doing:?} went well though a write failed: {before:?}"),
                );
            }
            return;
        }
        let has_cause = user.untold.is_some() || user.unsure || last_failure >= doing.begun;
        if !has_cause
            && doing.manner != Manner::Direct
            && status != Status::NoSpace
            && status != Status::Invalid
        {
            self.accuse(
                "errors",
                format!("{task:?}: {doing:?} ended with {status:?}, and nothing had failed"),
            );
            return;
        }
        if asks && doing.op == Op::Write && doing.moved < doing.place.len.get() {
            // The call failed while it copied (a page could not be read), before it asked for write
            // errors.
            return;
        }
        let may_be_told = may_be_told && !user.is_apart() && user.untold.is_some();
        let is_older = user.untold.is_some_and(|(_, last)| last < doing.begun);
        let is_certain = asks && is_older && !user.unsure && doing.manner != Manner::Direct;
        // The program was told of errors from before the call; of errors during the call it may
        // have been told.
        user.unsure = user.untold.is_some_and(|(_, last)| last >= doing.begun)
            || !asks && user.untold.is_some();
        user.untold = user.untold.filter(|_| user.unsure);
        if may_be_told {
            self.note_told(is_certain);
        }
    }
}
