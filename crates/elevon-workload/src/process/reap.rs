//! The end of an I/O of a process: batches are accounted, finished I/Os are reaped, errors are
//! judged.

use super::*;

/// Errno of a job that ended because an I/O took longer than `max_latency`.
const ETIMEDOUT: i32 = Status::Timeout.errno();

impl Process {
    /// Counts a batch of so many I/Os, of which `data` have data, and spends its CPU time, `span`
    /// from `start` on.
    #[inline(always)]
    pub(super) fn account_batch(&mut self, start: Instant, span: Nanos, ios: usize, data: u64) {
        if self.in_use() == ios {
            self.measure.on_idle_until(start);
        }
        self.times.wants_lock = Nanos::new(self.cpu.scheduler.locked.get() * ios as u64);
        self.measure.stats.cpu_ns += span.get();
        self.times.busy_until = start.saturating_add(span);
        self.measure.on_batch(ios);
        self.measure.on_submit(self.in_use(), data);
    }

    /// As [`Self::reap`], for a job whose I/Os do not go alone.
    #[inline(never)]
    pub(super) fn reap_many(&mut self, now: Instant, most: usize) {
        self.reap(now, most);
    }

    /// Takes up to `most` completions.
    #[inline(always)]
    pub(super) fn reap(&mut self, now: Instant, most: usize) {
        let count = self.ios.ready.len().min(most);
        self.measure.on_reap(count);
        let mut end = now;
        for _ in 0..count {
            let Some((token, status)) = self.ios.ready.pop_front() else { break };
            end = end.saturating_add(self.cpu.complete);
            self.on_over(end, token, status);
            self.ios.free.push(token);
        }
        self.measure.stats.cpu_ns += (end - now).get();
        self.measure.on_reaped(end);
        self.times.busy_until = end;
    }

    #[inline(always)]
    fn on_over(&mut self, end: Instant, token: u32, status: Status) {
        let slot = &self.ios.slots[token as usize];
        match slot.kind {
            IoKind::Data(direction)
                if self.options.only_counts && status.is_ok() && self.measure.has_begun() =>
            {
                self.measure.count(
                    direction,
                    slot.len,
                    slot.start,
                    slot.issued.max(slot.start),
                    end,
                );
            }
            _ => self.on_any_over(end, token, status),
        }
    }

    /// Handles the end of any I/O.
    #[inline(never)]
    fn on_any_over(&mut self, end: Instant, token: u32, status: Status) {
        let slot = self.ios.slots[token as usize];
        let direction = match slot.kind {
            IoKind::Sync | IoKind::SyncRange => return self.on_sync_over(end, &slot, status),
            IoKind::Data(direction) => direction,
            IoKind::Check | IoKind::CheckOwn => Direction::Read,
        };
        if !status.is_ok() {
            return self.on_error(&slot, direction, status);
        }
        self.leave_ramp(end);
        self.measure.on_done(&Finished {
            direction,
            len: slot.len,
            offset: slot.offset,
            ioprio: slot.ioprio,
            start: slot.start,
            issued: slot.issued.max(slot.start),
            end,
        });
        if !self.options.is_plain {
            self.follow(end, direction, &slot);
        }
        if end.since(slot.start) > self.options.max_latency[direction as usize] {
            self.fail(ETIMEDOUT);
        }
    }

    /// Tells what a job has beside its pattern of an I/O that completed.
    fn follow(&mut self, end: Instant, direction: Direction, slot: &IoSlot) {
        if slot.checked {
            self.on_checked(slot);
        }
        if self.search.is_some() && self.phase == Phase::Run {
            self.judge_latency(slot.start, end);
        }
        if direction == Direction::Trim && self.options.trim_then_write && !self.stopping {
            let IoSlot { file, offset, len, .. } = *slot;
            self.drawn.follow_ups.push_back(Access {
                direction: Direction::Write,
                file,
                offset,
                len,
            });
        }
        if self.phase == Phase::Run {
            self.think.on_done();
        }
        if !self.pace.on_done(end, direction, slot.len) {
            self.fail(Status::IoError.errno());
        }
    }

    /// Lets `latency_target` judge an I/O of the pattern.
    #[cold]
    fn judge_latency(&mut self, start: Instant, end: Instant) {
        if let Some(search) = &mut self.search {
            let verdict = search.on_done(start, end);
            self.depth_limit = search.depth() as usize;
            self.stopping |= verdict == Verdict::End;
        }
    }
}
