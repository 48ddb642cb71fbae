//! I/Os that failed, and what of a job is left after one.

use super::*;

/// Errno of a read whose content is not what was written.
const EILSEQ: i32 = Status::Protection.errno();

impl Process {
    pub(super) fn on_sync_over(&mut self, end: Instant, slot: &IoSlot, status: Status) {
        if status.is_ok() {
            self.measure.stats.sync.add(end.since(slot.start).get());
        } else {
            self.fail(status.errno());
        }
    }

    /// Handles a failed I/O: it is counted, and ends the job unless the error is ignored.
    pub(super) fn on_error(&mut self, slot: &IoSlot, direction: Direction, status: Status) {
        const EIO: i32 = Status::IoError.errno();
        let (d, errno) = (direction as usize, status.errno());
        if direction != Direction::Read
            && let Some(verifier) = &mut self.verifier
        {
            verifier.forget(slot.offset, slot.len);
        }
        if self.spec.space.fill_device && direction == Direction::Write && status == Status::NoSpace
        {
            return self.on_full();
        }
        self.measure.stats.directions[d].errors += 1;
        self.note_error(errno);
        let ignored = self.spec.errors.ignored[d].contains(&errno);
        let forgiven = self.spec.errors.continues[d] && (errno == EIO || errno == EILSEQ);
        if !ignored && !forgiven {
            self.fail(errno);
        }
    }

    /// Ends the work of a job that fills the device (`fill_device`), because the device is full:
    /// what it has written is still read back and flushed, and nothing has failed.
    fn on_full(&mut self) {
        if self.phase == Phase::Run {
            (self.drawn.next, self.drawn.held) = (None, None);
            self.drawn.follow_ups.clear();
            (self.budget.left, self.budget.loops_left, self.options.loops) = (Bytes::ZERO, 1, 1);
        }
    }

    pub(super) fn on_checked(&mut self, slot: &IoSlot) {
        self.measure.stats.verified_bytes += slot.len.get();
        if slot.corrupt {
            self.measure.stats.verify_errors += 1;
            self.note_error(EILSEQ);
            if self.spec.errors.continues_on_mismatch
                || self.spec.errors.ignored[2].contains(&EILSEQ)
            {
                return;
            }
            if self.options.verify_fatal {
                self.fail(EILSEQ);
            } else if self.measure.stats.error == 0 {
                // The remaining blocks are still checked, but the job has failed.
                self.measure.stats.error = EILSEQ;
            }
        }
    }

    /// Records the first error, whether or not it ends the job.
    fn note_error(&mut self, errno: i32) {
        if self.measure.stats.first_error == 0 {
            self.measure.stats.first_error = errno;
        }
    }

    pub(super) fn fail(&mut self, errno: i32) {
        if self.measure.stats.error == 0 {
            self.measure.stats.error = errno;
        }
        self.stopping = true;
    }
}
