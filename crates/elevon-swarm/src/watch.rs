//! The observer of a run, which feeds the checkers.

use super::Sabotage;
use super::cache::{OtherPrograms, SeenCache};
use super::checkers::{self, Checks, Finding};
use super::plan::{Dice, tunable_value};
use super::tenants::Seen;
use elevon_cache::{FrameId, Hz};
use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::PrioClass;
use elevon_core::op::Op;
use elevon_core::stack::{Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId, TenantId};
use elevon_engine::Token;
use elevon_workload::buffered::BufferedIo;
use elevon_workload::run::{Observer, Probe};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Receives events and steps, checks the stack's invariants from time to time, and changes the
/// scheduler's tunables.
pub(super) struct Watch {
    pub(super) checks: Rc<RefCell<Checks>>,
    pub(super) dice: Dice,
    pub(super) changes: u64,
    pub(super) sabotage: Option<Sabotage>,
    /// Number of events so far of the kind that is to be dropped.
    pub(super) seen: u64,
    pub(super) queued_bytes: u64,
    pub(super) hz: Hz,
    pub(super) other_programs: Option<OtherPrograms>,
    pub(super) removals: VecDeque<(Instant, TenantId)>,
}

impl Watch {
    /// Shows the checkers the state of the tenants.
    pub(super) fn look(&mut self, now: Instant, stack: &Stack) {
        let mut seen = Seen::new(now, stack);
        if let Some(Sabotage::Sees(wrong)) = self.sabotage {
            seen.spoil(wrong);
        }
        self.checks.borrow_mut().on_step(&seen);
    }

    pub(super) fn look_at_cache(&mut self, cached: &BufferedIo) {
        let mut seen = SeenCache::new(cached, self.hz);
        if let Some(Sabotage::Sees(wrong)) = self.sabotage {
            seen.spoil(wrong);
        }
        self.checks.borrow_mut().on_cache(&seen);
    }

    /// Removes the tenants whose removal is due and which have no children.
    pub(super) fn remove(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(&(_, tenant)) = self.removals.front().filter(|(at, _)| *at <= now) {
            self.removals.pop_front();
            let _ = stack.remove_tenant(now, tenant);
            let mut checks = self.checks.borrow_mut();
            let heir = |tenant: &mut TenantId| *tenant = stack.tenants().charged(*tenant);
            let count = stack.tenants().ids() as u32;
            checks.world.heirs = (0..count).map(TenantId).collect();
            checks.world.heirs.iter_mut().for_each(heir);
            checks.world.tenants.iter_mut().for_each(heir);
            checks.world.payers.values_mut().for_each(heir);
            checks.world.payers_at.values_mut().flatten().for_each(heir);
        }
    }
}

impl Observer for Watch {
    fn on_events(&mut self, events: &[Event]) {
        let mut checks = self.checks.borrow_mut();
        for event in events {
            if let Some(Sabotage::Lacks(which, number)) = self.sabotage
                && which
                    == if event.op == Op::Flush {
                        "of a flush"
                    } else {
                        checkers::name(&event.kind)
                    }
            {
                self.seen += 1;
                if number == 0 || self.seen == number {
                    continue;
                }
            }
            match event.kind {
                EventKind::BioQueue => self.queued_bytes += u64::from(event.sectors) * 512,
                // It is queued again.
                EventKind::BioAgain => self.queued_bytes -= u64::from(event.sectors) * 512,
                _ => {}
            }
            checks.on_event(event);
        }
    }
}

impl Probe for Watch {
    fn sees_ios(&self) -> bool {
        self.other_programs.is_some()
    }

    fn on_io(&mut self, _: Instant, io: &Io, frames: &[FrameId]) {
        let mut shown = *io;
        let is_read = Token::is_of_cache(io.token) && io.op == Op::Read;
        match self.sabotage {
            Some(Sabotage::Promote) if is_read => {
                shown.ioprio = shown.ioprio.with_class(PrioClass::Rt);
            }
            Some(Sabotage::Demote) if is_read => {
                shown.ioprio = shown.ioprio.with_class(PrioClass::Idle);
            }
            _ => {}
        }
        self.checks.borrow_mut().on_io(&shown, frames);
    }

    fn on_io_over(&mut self, _: Instant, task: TaskId, token: u64, status: Status) {
        self.checks.borrow_mut().on_io_over(task, token, status);
    }

    fn on_cache(&mut self, now: Instant, cached: &mut BufferedIo) -> bool {
        self.look_at_cache(cached);
        let Some(other_programs) = &mut self.other_programs else { return false };
        let mut checks = self.checks.borrow_mut();
        let acted = checks.shadow(|shadow| {
            shadow.note_opens(|task| cached.times_opened(task));
            other_programs.act(now, cached, shadow)
        });
        acted.unwrap_or(false)
    }

    fn on_step(&mut self, stack: &mut Stack) {
        let now = self.checks.borrow().now;
        self.look(now, stack);
        self.remove(now, stack);
        if self.dice.percent(20) {
            stack.self_check();
        }
        let tunables = stack.scheduler().info().tunables;
        if !tunables.is_empty() && self.dice.below(1000) < self.changes {
            let tunable = self.dice.pick(tunables);
            let value = tunable_value(&mut self.dice, tunable);
            let set =
                stack.set_tunable(tunable.name, value).map_err(|error| Finding(error.to_string()));
            self.checks.borrow_mut().note("tunables", set);
        }
    }
}
