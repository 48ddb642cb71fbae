//! An I/O from the pattern to its slot and to the stack. Most I/Os are prepared and submitted
//! without a batch: they go all the way in one step.

use super::*;
use crate::source::Alone;

impl Process {
    /// Returns true if its I/Os can go alone.
    #[inline]
    pub(crate) const fn goes_alone(&self) -> bool {
        self.options.goes_alone
    }

    /// Returns true if [`Process::go_alone`] may be asked: no batch is open, and the process waits
    /// for nothing. It stays true until the process is polled, or its submission sleeps.
    #[inline(always)]
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        let waits =
            self.ios.blocked.is_some() || self.ios.awaited.is_some() || self.times.busy_until > now;
        self.phase == Phase::Run && self.batch.staged.is_empty() && !waits
    }

    /// Does what [`Process::poll`] would do if that is to take a completion because no slot is
    /// free, or to prepare one I/O of the pattern that is submitted alone before `until`. With
    /// `is_only` it does both, one after the other.
    #[inline(always)]
    pub(crate) fn go_alone(&mut self, now: Instant, until: Instant, is_only: bool) -> Alone {
        debug_assert!(
            self.is_alone(now) && !self.batch.sealed,
            "a process goes alone that does something else"
        );
        if self.syncs.due || self.refill_at_low || self.is_ending(now) {
            return Alone::Poll;
        }
        self.leave_ramp(now);
        let mut at = now;
        if self.ios.free.is_empty() {
            let need = self.options.complete_min;
            debug_assert_eq!(
                need,
                self.needed_when_full(),
                "a job cannot have in use what it waits for"
            );
            if self.ios.ready.len() < need {
                return Alone::Poll;
            }
            self.reap(now, self.options.complete_max);
            self.refill_at_low = self.is_above_low();
            self.asleep = false;
            at = self.times.busy_until;
            let is_later = at > now;
            if self.refill_at_low || self.stopping || (is_later && (!is_only || self.is_ending(at)))
            {
                return self.end_alone(now);
            }
            if is_later {
                self.leave_ramp(at);
            }
        }
        let span = self.cpu.of_submission();
        let end = at.saturating_add(span);
        if end >= until {
            return self.end_alone(now);
        }
        let Some(access) = self.draw(None) else { return self.end_alone(now) };
        let Some(token) = self.ios.free.pop() else { return self.end_alone(now) };
        (self.asleep, self.ios.last_taken) = (false, token);
        let prepared = self.on_access(&access);
        let io = self.fill_slot(at, token, prepared, &access);
        self.account_batch(at, span, 1, 1);
        if end > now {
            self.times.wakeup = Some(end);
            return Alone::Prepare(at);
        }
        self.times.wakeup = None;
        if !self.times.wants_lock.is_zero() {
            return Alone::Prepare(at);
        }
        self.ios.slots[token as usize].issued = now;
        Alone::Submit(io)
    }

    /// Puts an I/O, which the process begins to prepare at `start`, into its slot. Returns it, so
    /// that it need not be read from the slot where it is submitted at once.
    #[inline(always)]
    pub(super) fn fill_slot(
        &mut self,
        start: Instant,
        token: u32,
        prepared: Prepared,
        access: &Access,
    ) -> Io {
        let Prepared { kind, op, generation } = prepared;
        let ioprio = self.draw_priority(kind, access.len);
        let slot = &mut self.ios.slots[token as usize];
        slot.kind = kind;
        slot.op = op;
        slot.offset = access.offset;
        slot.len = access.len;
        slot.file = access.file;
        slot.generation = generation;
        slot.ioprio = ioprio;
        slot.start = start;
        slot.corrupt = false;
        slot.checked = false;
        io_of(&self.identity, &self.options, token, slot)
    }

    /// Ends a step that prepared nothing: the process spends the CPU time of what it took.
    #[inline]
    fn end_alone(&mut self, now: Instant) -> Alone {
        if self.times.busy_until <= now {
            return Alone::Poll;
        }
        self.times.wakeup = Some(self.times.busy_until);
        Alone::Busy
    }

    /// Returns the I/O that [`Process::go_alone`] prepared, for submission now.
    #[inline(always)]
    pub(crate) fn take_alone(&mut self, now: Instant) -> Io {
        self.ios.slots[self.ios.last_taken as usize].issued = now;
        self.io(self.ios.last_taken)
    }

    /// Leaves the I/O that [`Process::go_alone`] prepared to [`Process::poll`].
    #[cold]
    pub(crate) fn keep_alone(&mut self) {
        self.batch.staged.push(self.ios.last_taken);
        self.batch.sealed = true;
    }
}

/// Returns the I/O of a slot of a process.
#[inline(always)]
pub(super) fn io_of(identity: &Identity, options: &Options, token: u32, slot: &IoSlot) -> Io {
    let flags = options.flags[slot.op as usize];
    Io {
        task: identity.task,
        token: Token::Job(token).encode(),
        op: slot.op,
        flags: if slot.ioprio == options.ioprio { flags } else { flags.with(Flags::OWN_PRIO) },
        sector: slot.offset.sector(),
        bytes: slot.len,
        ioprio: slot.ioprio,
        write_hint: options.write_hints[slot.op as usize],
        tenant: identity.tenant,
        layout: slot.layout,
        may_block: options.may_block || options.sleeps[slot.op as usize],
    }
}
