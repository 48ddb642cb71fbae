//! The state machine of a job: the next action of a process, and its handling of completions.

use super::*;

/// The result of one step.
pub(super) enum ProcessStep {
    /// Something was done; there may be more to do.
    Again,
    /// There is nothing to do until a completion or this instant.
    Sleep(Option<Instant>),
    /// The process has finished.
    Finished,
}

/// The answer to whether an I/O may be prepared now.
enum Want {
    /// This access may be prepared.
    Access(Access),
    /// A flush, or the next block to verify, may be prepared.
    Issue,
    /// No slot is free.
    NoFreeSlot,
    /// The process must wait until all I/Os in flight have finished, because something else is due
    /// then, or until an overlapping I/O has finished.
    WaitForInFlight,
    /// Nothing may be prepared before this instant.
    Until(Instant),
    /// The state changed; the caller asks again.
    Changed,
    /// There is nothing more to prepare.
    Never,
}

impl Process {
    /// Makes steps until it needs something.
    #[inline(always)]
    pub(super) fn go_on(&mut self, now: Instant) -> Poll {
        loop {
            if self.batch.sealed {
                self.close_batch();
            }
            match self.step(now) {
                ProcessStep::Again => self.asleep = false,
                ProcessStep::Sleep(until) => {
                    self.times.wakeup = until;
                    if !self.asleep {
                        self.asleep = true;
                        self.measure.stats.context_switches += 1;
                    }
                    return Poll::Wait;
                }
                ProcessStep::Finished => {
                    self.finish(now);
                    return Poll::Done;
                }
            }
            if let Some(poll) = self.pending(now) {
                return poll;
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, now: Instant) -> ProcessStep {
        self.leave_ramp(now);
        if let Some(token) = self.ios.awaited {
            return self.await_io(now, token);
        }
        let is_full = self.ios.free.is_empty() || self.in_use() >= self.depth_limit;
        let want = if self.refill_at_low || (is_full && !self.is_ending(now)) {
            Want::NoFreeSlot
        } else if self.options.complete_min == 0 && !self.ios.ready.is_empty() {
            self.reap_many(now, self.options.complete_max);
            return ProcessStep::Again;
        } else if self.options.is_plain
            && self.phase == Phase::Run
            && !self.syncs.due
            && !self.is_ending(now)
        {
            // As `want` would say; most I/Os come this way.
            match self.draw(None) {
                Some(access) => {
                    self.stage(now, access);
                    return self.seal_if_full(now);
                }
                None => self.end_of_loop(now),
            }
        } else {
            self.want(now)
        };
        match want {
            Want::Access(access) => self.stage_with_rules(now, access),
            Want::Issue => self.stage_other(now),
            Want::Changed => return ProcessStep::Again,
            Want::NoFreeSlot => return self.wait_or_reap(now, true, ProcessStep::Sleep(None)),
            Want::WaitForInFlight => {
                return self.wait_or_reap(now, false, ProcessStep::Sleep(None));
            }
            Want::Until(at) => return self.wait_or_reap(now, false, ProcessStep::Sleep(Some(at))),
            Want::Never => {
                let end = if self.in_use() == 0 {
                    ProcessStep::Finished
                } else {
                    ProcessStep::Sleep(None)
                };
                return self.wait_or_reap(now, false, end);
            }
        }
        self.seal_if_full(now)
    }

    /// Closes the batch if it has as many I/Os as the job submits at once.
    #[inline]
    fn seal_if_full(&mut self, now: Instant) -> ProcessStep {
        if self.batch.staged.len() >= self.options.batch_submit {
            self.seal(now);
        }
        ProcessStep::Again
    }

    /// Submits what is staged, or takes completions, while nothing may be prepared; `full`: because
    /// no slot is free. Returns `otherwise` if there is neither.
    #[inline]
    fn wait_or_reap(&mut self, now: Instant, full: bool, otherwise: ProcessStep) -> ProcessStep {
        if !self.batch.staged.is_empty() {
            self.seal(now);
            return ProcessStep::Again;
        }
        let need = if full { self.needed_when_full() } else { 1 };
        if self.ios.ready.len() < need {
            return otherwise;
        }
        self.reap_many(now, self.options.complete_max);
        self.refill_at_low = full && self.is_above_low();
        ProcessStep::Again
    }

    /// Returns how many completions the job waits for while no slot is free.
    #[inline(always)]
    pub(super) fn needed_when_full(&self) -> usize {
        self.options.complete_min.clamp(1, self.in_use().max(1))
    }

    /// Returns true if the job goes on reaping before it prepares more.
    #[inline(always)]
    pub(super) fn is_above_low(&self) -> bool {
        self.in_use() > self.options.low.min(self.depth_limit)
    }

    /// Starts the statistics, and the count of `number_ios`, when the ramp has ended.
    #[inline]
    pub(super) fn leave_ramp(&mut self, now: Instant) {
        if self.measure.leave_ramp(now) {
            // The I/Os in flight will count.
            let counts = |n: u64| n.saturating_sub(self.in_use() as u64);
            self.budget.ios_left = if self.options.number_ios == u64::MAX {
                u64::MAX
            } else {
                counts(self.options.number_ios)
            };
        }
    }

    /// Waits for the flush or trim that the process sleeps for. It is submitted alone, and nothing
    /// else is reaped before it.
    #[cold]
    fn await_io(&mut self, now: Instant, token: u32) -> ProcessStep {
        if !self.batch.staged.is_empty() {
            self.seal(now);
            return ProcessStep::Again;
        }
        let Some(at) = self.ios.ready.iter().position(|&(ready, _)| ready == token) else {
            return ProcessStep::Sleep(None);
        };
        let ready = self.ios.ready.remove(at).expect("it was just found");
        self.ios.ready.push_front(ready);
        self.ios.awaited = None;
        self.reap_many(now, 1);
        ProcessStep::Again
    }

    #[inline(always)]
    pub(super) fn is_ending(&self, now: Instant) -> bool {
        self.stopping || now >= self.times.deadline
    }

    fn want(&mut self, now: Instant) -> Want {
        if self.is_ending(now) {
            return self.want_at_end();
        }
        match self.phase {
            Phase::Run => self.want_in_run(now),
            Phase::Verify => self.want_in_verify(now),
            Phase::EndSync => self.want_end_sync(),
            Phase::Finished => Want::Never,
        }
    }

    /// Returns what is left after the deadline, an error or a termination: only the last sync.
    fn want_at_end(&mut self) -> Want {
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        if self.phase == Phase::Verify {
            self.leave_verify(self.times.busy_until);
        }
        self.want_end_sync()
    }

    fn want_end_sync(&mut self) -> Want {
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        if self.owes_end_sync() {
            self.syncs.is_at_end = true;
            self.phase = Phase::EndSync;
            return Want::Issue;
        }
        Want::Never
    }

    /// Returns true if the job syncs what it wrote: at its end, and at the end of each of a number
    /// of loops, before it reads back (measured: fio 3.33 calls fsync there).
    const fn owes_end_sync(&self) -> bool {
        self.options.end_sync && self.syncs.wrote && self.measure.stats.error == 0
    }

    fn want_in_run(&mut self, now: Instant) -> Want {
        if self.search.as_ref().is_some_and(|search| search.is_quiescing()) {
            return self.begin_final_run(now);
        }
        match self.ahead.wait(now, self.in_use() > 0) {
            None => {}
            Some(AheadWait::InFlight) => return Want::WaitForInFlight,
            Some(AheadWait::Until(at)) => return Want::Until(at.min(self.times.deadline)),
        }
        match self.think.hold(now, self.in_use()) {
            Hold::No => {}
            Hold::Quiesce => return Want::WaitForInFlight,
            Hold::Until(at) => return Want::Until(at.min(self.times.deadline)),
            Hold::Begin { spin, span, last } => {
                self.measure.stats.cpu_ns += spin.get();
                self.times.busy_until = now.saturating_add(spin);
                self.pace.on_thought(last, span);
                return Want::Changed;
            }
        }
        if self.syncs.due && self.is_anything_left() {
            // It thinks before the sync (measured: fio 3.33).
            // If the process sleeps for the flush, staged I/Os are submitted first.
            return if self.must_wait_to_sleep(Op::Flush) {
                Want::WaitForInFlight
            } else {
                Want::Issue
            };
        }
        if let Some(verifier) = &self.verifier
            && self.options.backlog > 0
            && self.options.verify_after
            && verifier.pending() >= self.options.backlog
            && self.is_anything_left()
        {
            // What the last writes leave is read back at the end of the loop, from the device.
            return self.enter_verify(now);
        }
        let next = match self.drawn.next.take() {
            Some(next) => next,
            None => match self.next_access(now) {
                Some(next) => next,
                None => return self.end_of_loop(now),
            },
        };
        self.want_access(now, next)
    }

    /// Returns true if the process sleeps for such an I/O, and what it has prepared must be
    /// submitted before; with POSIX AIO a trim waits for all I/Os in flight.
    fn must_wait_to_sleep(&self, op: Op) -> bool {
        let waits_for_threads = op == Op::Discard && self.threads.is_some() && self.in_use() > 0;
        self.options.sleeps[op as usize] && (!self.batch.staged.is_empty() || waits_for_threads)
    }

    /// Begins the final run of `latency_target` when nothing is in flight.
    #[cold]
    fn begin_final_run(&mut self, now: Instant) -> Want {
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        self.measure.restart(now);
        if let Some(search) = &mut self.search {
            search.begin_final(now);
        }
        Want::Changed
    }

    /// Applies rates and overlaps to the next access.
    #[inline]
    fn want_access(&mut self, now: Instant, next: Access) -> Want {
        if let Some(due) = self.pace.due(next.direction)
            && due > now
        {
            return match self.want_other_direction(now, next, due) {
                Want::Until(at) if self.in_use() > 0 && !self.spec.queue.offload => {
                    self.ahead = Ahead::By(at.since(now));
                    Want::WaitForInFlight
                }
                want => want,
            };
        }
        let is_alone = next.direction == Direction::Trim && self.must_wait_to_sleep(Op::Discard);
        if is_alone || (self.options.serialize_overlap && self.overlaps(&next)) {
            self.drawn.next = Some(next);
            return Want::WaitForInFlight;
        }
        if self.flow.allowed == 0 || now < self.flow.sleeps_until {
            self.drawn.next = Some(next);
            return self.wait_for_flow(now);
        }
        Want::Access(next)
    }

    /// Waits until the other jobs of the flow have caught up, and at least for `flow_sleep`.
    #[cold]
    fn wait_for_flow(&mut self, now: Instant) -> Want {
        let sleep = self.spec.order.flow.map_or(Nanos::ZERO, |flow| flow.sleep);
        if now >= self.flow.sleeps_until && !sleep.is_zero() {
            self.flow.sleeps_until = now.saturating_add(sleep);
        }
        let until = if sleep.is_zero() {
            self.times.deadline
        } else {
            self.flow.sleeps_until.min(self.times.deadline)
        };
        // The loop polls the process when its flow allows more.
        if until == Instant::MAX { Want::WaitForInFlight } else { Want::Until(until) }
    }

    /// Handles an access that is not due. In a mix, the other direction goes first if it is due or
    /// has no rate: rates take precedence over the mix.
    fn want_other_direction(&mut self, now: Instant, next: Access, due: Instant) -> Want {
        let other = match next.direction {
            Direction::Read if self.options.used[1] => Some(Direction::Write),
            Direction::Write if self.options.used[0] => Some(Direction::Read),
            _ => None,
        };
        let other = other.filter(|_| !self.options.trim_then_write);
        // Without a rate of its own, the other direction is due at any time.
        let due_of = |direction| (direction, self.pace.due(direction).unwrap_or(now));
        let Some((direction, at)) = other.map(due_of) else {
            self.drawn.next = Some(next);
            return Want::Until(due.min(self.times.deadline));
        };
        if at > now {
            self.drawn.next = Some(next);
            return Want::Until(due.min(at).min(self.times.deadline));
        }
        if self.drawn.held.is_some() {
            self.drawn.next = self.drawn.held.replace(next);
            return Want::Changed;
        }
        match self.draw_in(direction) {
            Some(access) => {
                self.drawn.held = Some(next);
                self.drawn.next = Some(access);
                Want::Changed
            }
            None => {
                self.drawn.next = Some(next);
                if self.goes_round() && self.budget.per_loop >= self.budget.least {
                    self.begin_loop();
                    return Want::Changed;
                }
                Want::Until(due.min(self.times.deadline))
            }
        }
    }

    fn overlaps(&self, next: &Access) -> bool {
        if self.in_use() == 0 {
            return false;
        }
        let free = |token: usize| self.ios.free.contains(&(token as u32));
        let meets = |slot: &IoSlot| {
            slot.offset < next.offset + next.len
                && next.offset < slot.offset + slot.len
                && (next.direction != Direction::Read || slot.kind != IoKind::Data(Direction::Read))
        };
        self.ios.slots.iter().enumerate().any(|(token, slot)| meets(slot) && !free(token))
    }

    /// Returns the next access, or `None` if the loop's bytes or the job's I/Os are used up.
    #[inline]
    fn next_access(&mut self, now: Instant) -> Option<Access> {
        if let Some(write) = self.drawn.follow_ups.pop_front() {
            return Some(write);
        }
        match self.drawn.held {
            None => self.draw(None),
            // Until the postponed access is due, the pattern continues in the other direction.
            Some(held) if self.pace.due(held.direction).is_none_or(|due| due <= now) => {
                self.drawn.held.take()
            }
            Some(held) => {
                let other = if held.direction == Direction::Read {
                    Direction::Write
                } else {
                    Direction::Read
                };
                self.draw_in(other).or_else(|| self.drawn.held.take())
            }
        }
    }

    #[inline]
    fn is_budget_left(&self) -> bool {
        self.budget.left >= self.budget.least
            && self.budget.ios_left > 0
            && !(self.options.gaps_end && self.pattern.is_past_gaps())
    }

    fn is_anything_left(&self) -> bool {
        self.drawn.next.is_some()
            || self.drawn.held.is_some()
            || !self.drawn.follow_ups.is_empty()
            || self.is_budget_left()
    }

    /// Draws the next access in a direction, instead of the one that the pattern has next.
    #[inline(never)]
    fn draw_in(&mut self, direction: Direction) -> Option<Access> {
        self.draw(Some(direction))
    }

    #[inline(always)]
    pub(super) fn draw(&mut self, direction: Option<Direction>) -> Option<Access> {
        if !self.is_budget_left() {
            return None;
        }
        let limit = self.budget.left;
        let access = match direction {
            None => self.pattern.next_access(limit),
            Some(direction) => self.pattern.access_in(direction, limit),
        };
        if access.len > self.budget.left {
            self.budget.left = Bytes::ZERO;
            return None;
        }
        self.budget.left -= access.len;
        self.budget.ios_left -= 1;
        Some(access)
    }

    /// Handles the end of a loop, when all its bytes were requested.
    fn end_of_loop(&mut self, now: Instant) -> Want {
        let endless = self.options.loops == u64::MAX;
        if self.goes_round() {
            self.begin_loop();
            return self.guard_empty_loop();
        }
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        if !endless && self.owes_end_sync() {
            (self.syncs.is_at_end, self.syncs.is_of_range) = (true, false);
            return Want::Issue;
        }
        if self.options.verify_after && self.verifier.as_ref().is_some_and(|v| v.pending() > 0) {
            self.verify_passes += 1;
            return self.enter_verify(now);
        }
        if !endless {
            self.budget.loops_left -= 1;
        }
        if self.budget.loops_left == 0 {
            self.phase = Phase::EndSync;
            return Want::Changed;
        }
        self.begin_loop();
        self.pattern.rewind();
        self.guard_empty_loop()
    }

    /// Returns true if a job that runs by time continues without a pause: it neither verifies nor
    /// trims before it writes.
    pub(crate) const fn goes_round(&self) -> bool {
        self.options.loops == u64::MAX
            && !self.options.verify_after
            && !self.options.trim_then_write
    }

    fn begin_loop(&mut self) {
        self.budget.refill(self.options.number_ios);
    }

    /// Ends a loop that is too small for a single block; it would never end.
    fn guard_empty_loop(&mut self) -> Want {
        if self.budget.per_loop < self.budget.least {
            self.phase = Phase::EndSync;
        }
        Want::Changed
    }

    fn enter_verify(&mut self, now: Instant) -> Want {
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        self.measure.end_phase(now, self.options.used);
        self.phase = Phase::Verify;
        Want::Changed
    }

    fn leave_verify(&mut self, now: Instant) {
        self.measure.end_phase(now, [true, false, false]);
        self.phase = Phase::Run;
    }

    fn want_in_verify(&mut self, now: Instant) -> Want {
        if self.verifier.as_ref().is_some_and(|v| v.pending() > 0) {
            return Want::Issue;
        }
        if self.in_use() > 0 {
            return Want::WaitForInFlight;
        }
        self.leave_verify(now);
        Want::Changed
    }

    /// Prepares an I/O of the pattern.
    #[inline(always)]
    fn stage(&mut self, now: Instant, access: Access) {
        let Some(token) = self.ios.free.pop() else { return };
        if self.ranges.is_some() {
            return self.stage_ranges(now, token, access);
        }
        let prepared = self.on_access(&access);
        self.put(now, token, prepared, &access);
    }

    /// As [`Self::stage`], for an access of which more had to be asked.
    #[inline(never)]
    fn stage_with_rules(&mut self, now: Instant, access: Access) {
        self.stage(now, access);
    }

    /// As [`Self::stage`], for a job whose trims have several ranges, in slot `token`.
    #[cold]
    fn stage_ranges(&mut self, now: Instant, token: u32, first: Access) {
        let access = self.draw_ranges(token, first);
        let prepared = self.on_access(&access);
        self.put(now, token, prepared, &access);
    }

    /// Prepares an I/O that is not part of the pattern.
    fn stage_other(&mut self, now: Instant) {
        let Some(token) = self.ios.free.pop() else { return };
        let (prepared, access) = self.sync_or_block();
        self.batch.syncs += usize::from(prepared.op == Op::Flush);
        self.put(now, token, prepared, &access);
    }

    /// Puts an I/O into its slot and into the batch.
    #[inline(always)]
    fn put(&mut self, now: Instant, token: u32, prepared: Prepared, access: &Access) {
        let start =
            now.saturating_add(Nanos::new(self.cpu.submit.get() * self.batch.staged.len() as u64));
        self.fill_slot(start, token, prepared, access);
        self.batch.staged.push(token);
        if self.options.sleeps[prepared.op as usize] {
            self.ios.awaited = Some(token);
        }
    }

    /// Returns an I/O that is not part of the pattern: the next block to verify, or a flush.
    fn sync_or_block(&mut self) -> (Prepared, Access) {
        let direction = Direction::Read;
        if self.phase == Phase::Verify
            && let Some((offset, Written { len, generation })) =
                self.verifier.as_mut().and_then(|v| v.next_block())
        {
            let prepared = Prepared { kind: IoKind::CheckOwn, op: Op::Read, generation };
            return (prepared, Access { direction, file: 0, offset, len });
        }
        self.syncs.due = false;
        let file = if std::mem::take(&mut self.syncs.is_at_end) {
            self.next_end_sync()
        } else {
            self.pattern.sync_file()
        };
        let is_of_range = std::mem::take(&mut self.syncs.is_of_range) && self.phase == Phase::Run;
        let kind = if is_of_range { IoKind::SyncRange } else { IoKind::Sync };
        let access =
            Access { direction, file, offset: self.pattern.start_of(file), len: Bytes::ZERO };
        (Prepared { kind, op: Op::Flush, generation: 0 }, access)
    }

    /// Returns the file that the end sync flushes next.
    fn next_end_sync(&mut self) -> u32 {
        let file = self.syncs.ended_files;
        self.syncs.ended_files += 1;
        if self.syncs.ended_files as usize >= self.pattern.files() {
            (self.syncs.wrote, self.syncs.ended_files) = (false, 0);
        }
        file
    }

    /// Counts an access of the pattern. Returns what its I/O is for.
    #[inline(always)]
    pub(super) fn on_access(&mut self, access: &Access) -> Prepared {
        self.flow.issued += 1;
        if !self.options.is_plain {
            self.flow.allowed = self.flow.allowed.saturating_sub(1);
            self.pace.on_issue(access.direction, access.len);
            self.think.on_issue(access.direction);
        }
        let (offset, len) = (access.offset, access.len);
        let check = Prepared { kind: IoKind::Check, op: Op::Read, generation: 0 };
        let data =
            |op, generation| Prepared { kind: IoKind::Data(access.direction), op, generation };
        match access.direction {
            Direction::Write if self.options.verify_only => check,
            Direction::Write => {
                self.syncs.wrote = true;
                self.syncs.writes += 1;
                self.syncs.due = self
                    .options
                    .sync_every
                    .iter()
                    .any(|every| self.syncs.writes.is_multiple_of(*every));
                if !self.syncs.due
                    && self.syncs.writes.is_multiple_of(self.options.sync_range_every)
                {
                    (self.syncs.due, self.syncs.is_of_range) = (true, true);
                }
                data(Op::Write, self.verifier.as_mut().map_or(0, |v| v.on_write(offset, len)))
            }
            Direction::Trim => {
                self.syncs.wrote = true;
                if let Some(verifier) = &mut self.verifier {
                    verifier.forget(offset, len);
                }
                data(Op::Discard, 0)
            }
            Direction::Read if self.options.verify_reads => check,
            Direction::Read => data(Op::Read, 0),
        }
    }

    #[inline(always)]
    pub(super) fn draw_priority(&mut self, kind: IoKind, len: Bytes) -> IoPrio {
        let d = match kind {
            _ if self.options.has_one_prio => return self.options.ioprio,
            IoKind::Data(Direction::Read) | IoKind::Check | IoKind::CheckOwn => 0,
            IoKind::Data(Direction::Write) => 1,
            IoKind::Data(Direction::Trim) | IoKind::Sync | IoKind::SyncRange => {
                return self.options.ioprio;
            }
        };
        if self.options.prio_by_size {
            return self.draw_priority_of_size(d, len);
        }
        match self.options.command_prio[d] {
            Some((percent, prio)) if self.priority.percent(percent) => prio,
            Some(_) | None => self.options.ioprio,
        }
    }

    /// Draws among the shares of `cmdprio_bssplit` for this size.
    #[cold]
    fn draw_priority_of_size(&mut self, direction: usize, len: Bytes) -> IoPrio {
        let mut share = self.priority.below(100);
        for part in self.spec.priority.command_split[direction]
            .iter()
            .filter(|part| part.bytes == len.get())
        {
            match share.checked_sub(u64::from(part.percent)) {
                Some(left) => share = left,
                None => return part.prio,
            }
        }
        self.options.ioprio
    }

    /// Closes the batch. It is submitted once its CPU time is spent.
    #[inline]
    fn seal(&mut self, now: Instant) {
        self.batch.sealed = true;
        self.batch.handed = 0;
        let ios = self.batch.staged.len();
        let span = Nanos::new(self.cpu.of_submission().get() * ios as u64);
        self.account_batch(now, span, ios, (ios - self.batch.syncs) as u64);
    }
}
