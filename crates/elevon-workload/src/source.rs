//! The trait of a source of I/O, a state machine that the loop drives. [`crate::process::Process`]
//! does the I/O of a fio job, [`crate::replay::Replayed`] that of a process of a trace.

use elevon_cache::stats::CacheUse;
use elevon_core::control::pressure::ContextState;
use elevon_core::op::Op;
use elevon_core::stack::Io;
use elevon_core::stats::JobStats;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, TaskId, TenantId};

use crate::cpu::SchedulerLock;
use crate::dependencies::Dependencies;
use crate::fio_flow::Standing;
use crate::logs::Logger;
use crate::readings::Progressed;

/// The largest batch that one system call carries without a plug: io_submit and io_uring use a plug
/// from three I/Os on.
pub(crate) const LARGEST_UNPLUGGED: usize = 2;

/// What a source needs from its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The driver must take this many I/Os and submit them now, in one batch.
    Submit(usize),
    /// The source waits for a completion, [`Source::unblocked`] or [`Source::next_wakeup`].
    Wait,
    /// The source has finished; its statistics are complete.
    Done,
}

/// What a source does next if it submits its I/Os alone.
#[derive(Clone, Copy, Debug)]
pub enum Alone {
    /// What [`Source::poll`] says; nothing was done.
    Poll,
    /// It spends CPU time until [`Source::next_wakeup`].
    Busy,
    /// It submits this I/O now. Only if the submission sleeps, it is reported by
    /// [`Source::on_submitted`].
    Submit(Io),
    /// It submits an I/O that it prepares at this instant, at [`Source::next_wakeup`] or now if
    /// there is none. That is taken by [`Source::take_alone`], unless [`Source::keep_alone`] leaves
    /// it to [`Source::poll`].
    Prepare(Instant),
}

/// One task that submits I/O.
///
/// Its driver polls it when something may have changed, submits the I/Os that [`Self::take`]
/// returns to the stack, and reports back by [`Self::on_submitted`], [`Self::complete`] and
/// [`Self::unblocked`].
pub trait Source {
    /// Returns its task, the key in the stack.
    fn task(&self) -> TaskId;
    /// Returns its tenant.
    fn tenant(&self) -> TenantId;
    /// Returns the number of slots. Each I/O in flight has one; tokens of I/Os with data are
    /// smaller than this number.
    fn depth(&self) -> usize;
    /// Returns the number of bytes that the buffer of a slot must have.
    fn buffer_bytes(&self) -> u64;
    /// Starts the source.
    fn start(&mut self, now: Instant);
    /// Returns the instant at which it started.
    fn started(&self) -> Option<Instant>;
    /// Returns the instant at which it finished.
    fn ended(&self) -> Option<Instant>;
    /// Returns its statistics; complete once it has finished.
    fn stats(&self) -> &JobStats;
    /// Returns what it has completed since it started, with what its statistics leave out.
    fn progressed(&self) -> Progressed;
    /// Returns the statistics as they would be if it finished now.
    fn stats_at(&self, now: Instant) -> JobStats;
    /// Returns its use of the page cache so far, if it uses one.
    fn cache_used(&self) -> Option<&CacheUse> {
        None
    }
    /// Returns its logs, if it keeps any.
    fn logger(&self) -> Option<&Logger> {
        None
    }
    /// Returns the number of I/Os that are prepared, in flight or completed and not yet reaped.
    fn in_use(&self) -> usize;
    /// Returns the share of its work that is done, in thousandths.
    fn progress(&self, now: Instant) -> u64;
    /// Keeps the task out of user space until this instant, as the kernel delays a task for what
    /// its tenant owes.
    fn delay(&mut self, until: Instant);
    /// Returns whether a completion wakes it. A source that is no process goes on at once.
    fn is_asleep(&self, _now: Instant) -> bool {
        false
    }
    /// Returns whether it draws its wake-ups apart from others, one for each time that it is woken.
    /// Draws that all share are one for each I/O.
    fn draws_alone(&self) -> bool {
        false
    }
    /// A completion wakes it, and it runs after `delay`.
    fn wake_after(&mut self, _now: Instant, _delay: Nanos) {}
    /// Returns the state of the task after [`Self::poll`], for the pressure of its tenant.
    fn context(&self, now: Instant) -> ContextState;
    /// Stops issuing; I/Os in flight still complete. The caller polls it afterwards.
    fn terminate(&mut self);
    /// Returns the latest instant at which it must be polled.
    fn next_wakeup(&self) -> Option<Instant>;
    /// Returns what the source needs now.
    fn poll(&mut self, now: Instant) -> Poll;
    /// Returns true if its I/Os can go alone ([`Self::go_alone`]).
    #[inline]
    fn goes_alone(&self) -> bool {
        false
    }
    /// Returns true if [`Self::go_alone`] may be asked. It stays true until the source is polled or
    /// its submission sleeps.
    #[inline]
    fn is_alone(&self, _now: Instant) -> bool {
        false
    }
    /// Does what [`Self::poll`] would do, if those are steps of [`Alone`] and the CPU time of an
    /// I/O to be submitted is spent before `until`. With `is_only` nothing happens until then but
    /// completions of its own I/Os: it need not wait between two steps, and may prepare an I/O at a
    /// later instant than `now`.
    #[inline]
    fn go_alone(&mut self, _now: Instant, _until: Instant, _is_only: bool) -> Alone {
        Alone::Poll
    }
    /// Returns the I/O that [`Self::go_alone`] prepared, for submission now. Only if that sleeps,
    /// it is reported by [`Self::on_submitted`].
    ///
    /// # Panics
    /// If there is none.
    fn take_alone(&mut self, _now: Instant) -> Io {
        unreachable!("nothing goes alone")
    }
    /// Leaves the I/O that [`Self::go_alone`] prepared to [`Self::poll`].
    fn keep_alone(&mut self) {}
    /// Returns true if [`Self::poll`] would only repeat its last answer, to wait until the CPU time
    /// that the source spends is over.
    #[inline]
    fn is_busy(&self, _now: Instant) -> bool {
        false
    }
    /// Returns the next I/O of the batch, for submission now; `None` if all were taken.
    fn take(&mut self) -> Option<Io>;
    /// Returns true if a batch of this many I/Os is submitted under a plug.
    #[inline]
    fn plugs(&self, ios: usize) -> bool {
        ios > LARGEST_UNPLUGGED
    }
    /// Reports that the submission of the I/O that [`Self::take`] returned last has returned, or
    /// sleeps for a tag (`blocked`).
    fn on_submitted(&mut self, now: Instant, blocked: bool);
    /// Returns true if the submission of the last I/O taken sleeps for a tag.
    fn is_blocked(&self) -> bool;
    /// Reports that the sleep for a tag has ended.
    fn unblocked(&mut self, now: Instant);
    /// Reports that an I/O has finished. The source counts it when it is polled next. Returns its
    /// operation and its length in bytes.
    fn complete(&mut self, now: Instant, token: u64, status: Status) -> (Op, Bytes);
    /// Fills the buffer of a write that [`Self::take`] has just returned.
    fn fill(&mut self, _token: u64, _buffer: &mut [u8]) {}
    /// Returns true if the content of this finished I/O must be checked before [`Self::complete`].
    #[inline]
    fn wants_check(&self, _token: u64) -> bool {
        false
    }
    /// Checks the content of a read.
    fn check(&mut self, _token: u64, _buffer: &[u8]) {}
    /// Takes the scheduler's lock for the batch that is ready to leave, if it needs the lock.
    #[inline]
    fn pass_lock(&mut self, _now: Instant, _lock: &mut SchedulerLock) {}
    /// Returns true if the source waits to take or to release the lock of its critical section, or
    /// has something to tell or to ask of other sources.
    fn is_unsettled(&self) -> bool {
        false
    }
    /// Takes or releases the lock of the section, if the source wants to, and tells others
    /// how far it has come. The caller polls the source afterwards, and those that are woken.
    fn settle(&mut self, _now: Instant, _dependencies: &mut Dependencies) {}
    /// Returns the queue depth that `latency_target` has arrived at, if the source looks for one.
    fn latency_depth(&self) -> Option<u32> {
        None
    }
    /// Returns what it has done for its flow (`flow=`).
    fn standing(&self) -> Standing {
        Standing { ios: 0, competes: false }
    }
    /// Sets how many I/Os it may issue before it must be polled again with another number.
    fn allow(&mut self, _ios: u64) {}
}
