//! A source of I/O as a state machine: what the loop drives, whoever it is. [`Process`] makes the
//! I/O of a fio job, [`crate::replay::Replayed`] that of a process of a trace.

use elevon_cache::stats::CacheUse;
use elevon_core::control::pressure::ContextState;
use elevon_core::op::Op;
use elevon_core::stack::Io;
use elevon_core::stats::JobStats;
use elevon_core::status::Status;
use elevon_core::units::{Instant, TaskId, TenantId};

use crate::cpu::SchedulerLock;
use crate::logs::Logger;
use crate::process::{Poll, Process};

/// I/Os that one system call may carry without a plug: io_submit and io_uring plug from three on.
const LARGEST_UNPLUGGED: usize = 2;

/// One task that submits I/O.
///
/// Its driver polls it when something may have changed, hands what [`Self::take`] gives to the
/// stack, and reports back by [`Self::on_submitted`], [`Self::complete`] and [`Self::unblocked`].
pub trait Source {
    /// Its key in the stack.
    fn task(&self) -> TaskId;
    /// Its tenant.
    fn tenant(&self) -> TenantId;
    /// Slots, of which each I/O in flight has one; tokens are below it.
    fn depth(&self) -> usize;
    /// Bytes that the buffer of a slot must have.
    fn buffer_bytes(&self) -> u64;
    /// Starts it.
    fn start(&mut self, now: Instant);
    /// When it started.
    fn started(&self) -> Option<Instant>;
    /// When it was over.
    fn ended(&self) -> Option<Instant>;
    /// Statistics; complete once it is over.
    fn stats(&self) -> &JobStats;
    /// Statistics as they would be if it ended now.
    fn stats_at(&self, now: Instant) -> JobStats;
    /// Its use of the page cache so far, if it went through one.
    fn cache_used(&self) -> Option<&CacheUse> {
        None
    }
    /// Logs, if it keeps any.
    fn logger(&self) -> Option<&Logger> {
        None
    }
    /// I/Os prepared, in flight or not yet taken notice of.
    fn in_use(&self) -> usize;
    /// Share of its work that is done, in thousandths.
    fn progress(&self, now: Instant) -> u64;
    /// It is not let back to user space before this instant: the kernel delays a task for what its
    /// tenant owes.
    fn delay(&mut self, until: Instant);
    /// What it does once [`Self::poll`] has answered, for the pressure of its tenant.
    fn context(&self, now: Instant) -> ContextState;
    /// Ends the issuing; what is in flight still completes. Poll it afterwards.
    fn terminate(&mut self);
    /// When it wants to be polled at the latest.
    fn next_wakeup(&self) -> Option<Instant>;
    /// What it wants now.
    fn poll(&mut self, now: Instant) -> Poll;
    /// The next I/O of the batch, for submission now; `None` if all of it was taken.
    fn take(&mut self) -> Option<Io>;
    /// Whether a batch of so many I/Os is submitted under a plug.
    #[inline]
    fn plugs(&self, ios: usize) -> bool {
        ios > LARGEST_UNPLUGGED
    }
    /// The submission of what [`Self::take`] gave last has returned, or sleeps for a tag.
    fn on_submitted(&mut self, now: Instant, blocked: bool);
    /// Whether the submission of what [`Self::take`] gave last sleeps for a tag.
    fn is_blocked(&self) -> bool;
    /// The sleep for a tag is over.
    fn unblocked(&mut self, now: Instant);
    /// An I/O is over. It is counted when the source gets to it: poll it.
    fn complete(&mut self, now: Instant, token: u64, status: Status);
    /// Operation and length of an I/O in flight.
    fn operation(&self, token: u64) -> (Op, u64);
    /// Fills the buffer of a write that [`Self::take`] has just given.
    fn fill(&mut self, _token: u64, _buffer: &mut [u8]) {}
    /// Whether the content of this I/O, which is over, is to be checked before [`Self::complete`].
    #[inline]
    fn wants_check(&self, _token: u64) -> bool {
        false
    }
    /// Checks the content of a read.
    fn check(&mut self, _token: u64, _buffer: &[u8]) {}
    /// It takes the scheduler's lock for the batch that it has sealed, if that wants it.
    #[inline]
    fn pass_lock(&mut self, _now: Instant, _lock: &mut SchedulerLock) {}
}

impl Source for Process {
    #[inline]
    fn task(&self) -> TaskId {
        self.task()
    }
    #[inline]
    fn tenant(&self) -> TenantId {
        self.tenant()
    }
    fn depth(&self) -> usize {
        self.depth()
    }
    fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes()
    }
    fn start(&mut self, now: Instant) {
        self.start(now);
    }
    fn started(&self) -> Option<Instant> {
        self.started()
    }
    fn ended(&self) -> Option<Instant> {
        self.ended()
    }
    fn stats(&self) -> &JobStats {
        self.stats()
    }
    fn stats_at(&self, now: Instant) -> JobStats {
        self.stats_at(now)
    }
    fn cache_used(&self) -> Option<&CacheUse> {
        self.cache_used()
    }
    fn logger(&self) -> Option<&Logger> {
        self.logger()
    }
    fn in_use(&self) -> usize {
        self.in_use()
    }
    fn progress(&self, now: Instant) -> u64 {
        self.progress(now)
    }
    fn delay(&mut self, until: Instant) {
        self.delay(until);
    }
    fn context(&self, now: Instant) -> ContextState {
        self.context(now)
    }
    fn terminate(&mut self) {
        self.terminate();
    }
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next_wakeup()
    }
    #[inline]
    fn poll(&mut self, now: Instant) -> Poll {
        self.poll(now)
    }
    #[inline]
    fn take(&mut self) -> Option<Io> {
        self.take()
    }
    #[inline]
    fn on_submitted(&mut self, now: Instant, blocked: bool) {
        self.on_submitted(now, blocked);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.is_blocked()
    }
    #[inline]
    fn unblocked(&mut self, now: Instant) {
        self.unblocked(now);
    }
    #[inline]
    fn complete(&mut self, _now: Instant, token: u64, status: Status) {
        self.complete(token, status);
    }
    #[inline]
    fn operation(&self, token: u64) -> (Op, u64) {
        self.operation(token)
    }
    #[inline]
    fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        self.fill(token, buffer);
    }
    #[inline]
    fn wants_check(&self, token: u64) -> bool {
        self.wants_check(token)
    }
    fn check(&mut self, token: u64, buffer: &[u8]) {
        self.check(token, buffer);
    }
    #[inline]
    fn pass_lock(&mut self, now: Instant, lock: &mut SchedulerLock) {
        self.pass_lock(now, lock);
    }
}
