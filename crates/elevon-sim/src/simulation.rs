//! A device in virtual time as the back end of a run: the clock jumps from event to event.

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces, TimeoutAction};
use elevon_core::stack::WORKER_DELAY;
use elevon_core::units::{Instant, Nanos, TaskId};
use elevon_engine::Backend;

use crate::chance::{below, draw};
use crate::device::Device;

/// Purpose of the draws of late workers.
const WORKERS: u64 = 0x51b0_0001;
/// Purpose of the draws of when woken processes run.
const PROCESSES: u64 = 0x51b0_0002;
/// Purpose of the draws of when one process runs, plus the number of its task.
const WAKES_OF_PROCESS: u64 = 0x51b1_0000;
/// Purpose of the draws of dispatches that a worker of the driver preempts.
const DISPATCHES: u64 = 0x51b0_0003;
/// One worker in so many is late: the process whose I/O has just ended submits its next before the
/// worker runs. On Linux 6.18.15 under BFQ with `strict_guarantees` the process was first after 56
/// of 1082 completions; of the lone requests in the traces of 6.1 and 7.3 in
/// `tests/data/kernel-truth/matrix`, the next bio was before the worker after 51 of 663.
const ONE_LATE_IN: u64 = 20;
/// What a late worker takes: there the 99th percentile of its delay was 15 times the median.
const LATE: Nanos = Nanos::from_micros(16 * WORKER_DELAY.as_micros());

/// A simulated device with its clock. The clock moves only in [`Backend::wait`].
pub struct Simulation<D> {
    device: D,
    now: Instant,
    /// When the device next has work (`Instant::MAX` if never); `Instant::ZERO` if it is to be
    /// asked, because it was changed since.
    next_event: Instant,
    interrupt: Option<Box<dyn Fn() -> bool>>,
    /// The seed of the workers' delays, and how many were drawn.
    seed: u64,
    workers_woken: u64,
    /// From when to when after its wake-up a process runs, and how many were woken.
    wakes: (Nanos, Nanos),
    /// The same of a process that waited for a tag, if it is another one.
    tag_wakes: Option<(Nanos, Nanos)>,
    processes_woken: u64,
    /// How often each process was woken, if each has its own draws.
    woken_by_task: Option<Vec<u64>>,
    /// How many dispatches of a process in a million a worker of the driver preempts, and how many
    /// were drawn.
    preempted: u64,
    dispatches: u64,
    /// From when to when after its wake-up a worker runs; `None` for [`WORKER_DELAY`], and [`LATE`]
    /// for one in [`ONE_LATE_IN`].
    worker_delays: Option<(Nanos, Nanos)>,
}

impl<D: Device> Simulation<D> {
    /// Returns a simulation that starts at time zero.
    pub const fn new(device: D) -> Self {
        Self {
            device,
            now: Instant::ZERO,
            next_event: Instant::ZERO,
            interrupt: None,
            seed: 0,
            workers_woken: 0,
            wakes: (Nanos::ZERO, Nanos::ZERO),
            tag_wakes: None,
            processes_woken: 0,
            woken_by_task: None,
            preempted: 0,
            dispatches: 0,
            worker_delays: None,
        }
    }

    /// Draws from `seed` which workers of the kernel are late.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets a process run so long after it was woken, drawn evenly from `least` to `most`.
    #[must_use]
    pub const fn with_wakes(mut self, least: Nanos, most: Nanos) -> Self {
        self.wakes = (least, most);
        self
    }

    /// Lets a process that waited for a tag run so long after it was woken. `None`: as any other.
    #[must_use]
    pub const fn with_tag_wakes(mut self, range: Option<(Nanos, Nanos)>) -> Self {
        self.tag_wakes = range;
        self
    }

    /// Draws the wakes of each process apart, so that they do not depend on other processes.
    #[must_use]
    pub fn with_wakes_by_process(mut self, by_process: bool) -> Self {
        self.woken_by_task = by_process.then(Vec::new);
        self
    }

    fn draw_wake(&mut self, range: (Nanos, Nanos)) -> Nanos {
        self.processes_woken += 1;
        scaled(draw(self.seed, PROCESSES, self.processes_woken), range)
    }

    /// Lets a worker of the driver preempt so many of a million dispatches of a process.
    #[must_use]
    pub const fn with_preemption(mut self, ppm: u64) -> Self {
        self.preempted = ppm;
        self
    }

    /// Lets workers of the kernel run within a range of times after they were woken.
    #[must_use]
    pub const fn with_worker_delays(mut self, range: Option<(Nanos, Nanos)>) -> Self {
        self.worker_delays = range;
        self
    }

    /// Uses `interrupt` to check if the user wants the run to stop.
    #[must_use]
    pub fn with_interrupt(mut self, interrupt: impl Fn() -> bool + 'static) -> Self {
        self.interrupt = Some(Box::new(interrupt));
        self
    }

    /// Returns the device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Returns the device, to be changed between steps (faults).
    pub const fn device_mut(&mut self) -> &mut D {
        self.next_event = Instant::ZERO;
        &mut self.device
    }
}

/// Scales a draw to a time in a range.
fn scaled(drawn: u64, (least, most): (Nanos, Nanos)) -> Nanos {
    least + Nanos::new(below(drawn, (most - least).get() + 1))
}

impl<D: Device> Driver for Simulation<D> {
    #[inline(always)]
    fn queue_command(&mut self, now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        let (answer, next_event) = self.device.submit_then_next(now, command);
        self.next_event = next_event;
        answer
    }

    fn worker_delay(&mut self) -> Nanos {
        self.workers_woken += 1;
        let drawn = draw(self.seed, WORKERS, self.workers_woken);
        if let Some(range) = self.worker_delays {
            return scaled(drawn, range);
        }
        let is_late = below(drawn, ONE_LATE_IN) == 0;
        if is_late { LATE } else { WORKER_DELAY }
    }

    fn insert_delay(&self) -> Nanos {
        self.worker_delays.map_or(WORKER_DELAY, |(least, _)| least)
    }

    fn wake_delay(&mut self, task: TaskId) -> Nanos {
        let Some(counts) = &mut self.woken_by_task else { return self.draw_wake(self.wakes) };
        let index = task.index();
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] += 1;
        scaled(draw(self.seed, WAKES_OF_PROCESS + index as u64, counts[index]), self.wakes)
    }

    fn tag_wake_delay(&mut self) -> Nanos {
        self.draw_wake(self.tag_wakes.unwrap_or(self.wakes))
    }

    fn preempts(&mut self) -> bool {
        if self.preempted == 0 {
            return false;
        }
        self.dispatches += 1;
        below(draw(self.seed, DISPATCHES, self.dispatches), 1_000_000) < self.preempted
    }

    fn handle_timeout(&mut self, now: Instant, command: &Command) -> TimeoutAction {
        // A command that the device does not abort, or has just completed, must not be ended here:
        // its request would be used again, and the late completion would end another command.
        self.next_event = Instant::ZERO;
        if self.device.abort(now, command) {
            TimeoutAction::Aborted
        } else {
            TimeoutAction::ResetTimer
        }
    }
}

impl<D: Device> Backend for Simulation<D> {
    const WAITS_FREELY: bool = true;
    const HAS_BYTES: bool = false;

    fn delays_wakes(&self) -> bool {
        !self.wakes.1.is_zero()
    }

    #[inline]
    fn now(&mut self) -> Instant {
        self.now
    }

    #[inline]
    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|ask| ask())
    }

    #[inline(always)]
    fn poll_completion(&mut self) -> Option<Completion> {
        if self.next_event > self.now {
            return None;
        }
        let (completion, next_event) = self.device.poll_then_next(self.now);
        self.next_event = next_event;
        completion
    }

    #[inline(always)]
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let next = self.next_event().min(until.unwrap_or(Instant::MAX));
        if next == Instant::MAX {
            return false;
        }
        // An event may be overdue (its internal step was not run yet), but time never goes back.
        self.now = self.now.max(next);
        true
    }

    #[inline(always)]
    fn wait_until(&mut self, at: Instant) {
        debug_assert!(at >= self.now, "time went backwards");
        self.now = at;
    }

    /// Asks the device if it has not told as it was called.
    #[inline(always)]
    fn next_event(&mut self) -> Instant {
        if self.next_event == Instant::ZERO {
            self.next_event = self.device.next_event().unwrap_or(Instant::MAX);
        }
        self.next_event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::open;

    #[test]
    fn one_worker_in_twenty_is_late_and_the_seed_says_which() {
        let delays = |seed| -> Vec<Nanos> {
            let device = open("null", 1).expect("a device");
            let mut simulation = Simulation::new(device).with_seed(seed);
            (0..10_000).map(|_| simulation.worker_delay()).collect()
        };
        let first = delays(1);
        let late = first.iter().filter(|&&delay| delay == LATE).count();
        assert!((430..570).contains(&late), "{late} of 10000 are late");
        assert!(first.iter().all(|&delay| delay == LATE || delay == WORKER_DELAY));
        assert_eq!(first, delays(1));
        assert_ne!(first, delays(2));
    }

    #[test]
    fn a_process_runs_in_the_time_given_after_it_was_woken() {
        let [least, most] = [11, 23].map(Nanos::from_micros);
        let simulation = || Simulation::new(open("null", 1).expect("a device")).with_seed(1);
        let (mut at_once, mut later) = (simulation(), simulation().with_wakes(least, most));
        assert!(!at_once.delays_wakes() && later.delays_wakes());
        let delays: Vec<Nanos> = (0..10_000).map(|_| later.wake_delay(TaskId(0))).collect();
        assert!(
            delays.iter().all(|delay| (least..=most).contains(delay))
                && at_once.wake_delay(TaskId(0)).is_zero()
        );
        assert!((least..=most).contains(&later.tag_wake_delay()));
        let mut tagged = later.with_tag_wakes(Some((Nanos::ZERO, Nanos::ZERO)));
        assert!(tagged.tag_wake_delay().is_zero() && !tagged.wake_delay(TaskId(0)).is_zero());
        let mut apart = simulation().with_wakes(least, most).with_wakes_by_process(true);
        let mut draw = |task| apart.wake_delay(TaskId(task));
        let (first, second) = (draw(1), draw(1));
        assert_ne!(first, second);
        let mut other = simulation().with_wakes(least, most).with_wakes_by_process(true);
        let mut draw = |task| other.wake_delay(TaskId(task));
        assert!(draw(0) > Nanos::ZERO && draw(1) == first && draw(7) > Nanos::ZERO);
        assert_eq!(draw(1), second, "the wakes of others do not change it");
        let mean = delays.iter().map(|delay| delay.get()).sum::<u64>() / 10_000;
        assert!((16_800..17_200).contains(&mean), "{mean}");
    }

    #[test]
    fn a_worker_preempts_the_given_share_of_dispatches() {
        let count = |ppm| {
            let device = open("null", 1).expect("a device");
            let mut simulation = Simulation::new(device).with_seed(1).with_preemption(ppm);
            (0..10_000).filter(|_| simulation.preempts()).count()
        };
        assert_eq!((count(0), count(1_000_000)), (0, 10_000));
        assert!((6_300..6_700).contains(&count(650_000)));
    }
}
