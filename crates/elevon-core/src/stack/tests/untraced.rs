//! A stack that records events against one that does not.

use super::*;
use crate::request::State;

/// A stack that traces, and the same stack without a trace. Both get the same calls, completions
/// and timers.
struct Twins {
    traced: Rig,
    untraced: Rig,
    /// Commands that ended in parts, and that failed.
    parts: usize,
    failed: usize,
}

impl Twins {
    fn new(config: StackConfig) -> Self {
        let (traced, mut untraced) = (Rig::new(config.clone()), Rig::new(config));
        untraced.stack.set_tracing(false);
        Self { traced, untraced, parts: 0, failed: 0 }
    }

    fn both<T: PartialEq + core::fmt::Debug>(&mut self, mut step: impl FnMut(&mut Rig) -> T) -> T {
        let (traced, untraced) = (step(&mut self.traced), step(&mut self.untraced));
        assert_eq!(untraced, traced);
        traced
    }

    /// Submits a call, of the page cache or of a task itself. Returns true if the task sleeps.
    fn submit(&mut self, io: Io, is_buffered: bool) -> bool {
        let submitted = self.both(|rig| match is_buffered {
            true => rig.stack.submit_buffered(rig.now, io, &mut rig.driver),
            false => rig.stack.submit(rig.now, io, &mut rig.driver),
        });
        submitted == Submitted::Blocked
    }

    /// Answers a command: all of it, its first half, or with an error.
    fn answer(&mut self, random: &mut Rng) {
        let at = random.below(self.traced.driver.issued.len() as u64) as usize;
        let (fails, is_part) = (random.below(12) == 0, random.below(8) == 0);
        let command = self.untraced.driver.issued[at];
        let request = self.untraced.stack.requests[command.request];
        let half = Bytes::new(command.bytes.get() / 1024 * 512);
        let is_whole =
            request.sequence == command.sequence && request.sectors.bytes() == command.bytes;
        if is_part
            && is_whole
            && request.state == State::InFlight
            && command.op.has_data()
            && !half.is_zero()
        {
            self.parts += 1;
            return self.both(|rig| rig.answer(rig.driver.issued[at], Status::Ok, half));
        }
        self.failed += usize::from(fails);
        let (status, bytes) =
            if fails { (Status::Medium, Bytes::ZERO) } else { (Status::Ok, command.bytes) };
        self.both(|rig| rig.complete_with(rig.driver.issued[at], status, bytes));
    }

    /// Compares all that a caller sees, after one more step of time.
    fn compare(&mut self, step: Nanos, room: Option<usize>) {
        self.both(|rig| {
            rig.driver.room = room;
            rig.now = rig.now + step;
            if rig.stack.next_timer().is_some_and(|at| at <= rig.now) {
                rig.stack.handle_timers(rig.now, &mut rig.driver);
            }
            rig.stack.self_check();
            let commands =
                format!("{:?} {:?}", rig.driver.issued, core::mem::take(&mut rig.driver.pieces));
            let done: Vec<Done> = core::iter::from_fn(|| rig.stack.poll_done().copied()).collect();
            (
                commands,
                done,
                rig.stack.next_timer(),
                rig.stack.ios_in_flight(),
                rig.stack.counters().clone(),
            )
        });
    }
}

fn varied(seed: u64) -> StackConfig {
    let kernel = Kernel::ALL[(seed % Kernel::ALL.len() as u64) as usize];
    let scheduler = SCHEDULERS[(seed / 4) as usize % SCHEDULERS.len()].name;
    let mut config = if seed % 5 < 3 { config(kernel) } else { iomap(kernel) };
    config.scheduler = SchedulerConfig::new(scheduler).expect("it is in the table");
    config.queue_depth = 1 + (seed % 7) as u32;
    config.hw_queues = 1 + (seed % 3) as u16;
    config.nomerges = u8::from(seed.is_multiple_of(11));
    config.wbt_lat = seed.is_multiple_of(2).then(|| Nanos::from_millis(2));
    config.limits.dma_alignment = 511;
    config.limits.max_segments = 2 + (seed % 3) as u16;
    config
}

/// Random calls of up to two pages, of buffers that begin at a page and inside one, of the device
/// and of the page cache, with errors, answers in parts, timeouts and a busy driver: what a caller
/// and a driver see is the same.
#[test]
fn a_trace_changes_nothing() {
    let (mut parts, mut failed, mut merges) = (0, 0, 0);
    for seed in 0..80u64 {
        let mut twins = Twins::new(varied(seed));
        twins.both(|rig| rig.driver.aborts = true);
        let inside = twins
            .both(|rig| rig.stack.register_layout(Layout::contiguous(1 << 16, 1 << 20).skip(1536)));
        let (mut random, mut asleep, mut in_batch, mut end) =
            (Rng(seed), [false; 3], [false; 3], 0);
        for _ in 0..400 {
            let at = random.below(3) as usize;
            let task = TaskId(at as u32);
            if random.below(10) < 6 && !asleep[at] {
                let op = [Op::Read, Op::Read, Op::Write, Op::Discard][random.below(4) as usize];
                let flags = match random.below(8) {
                    0 => Flags::WAITED,
                    1 if op == Op::Write => Flags::SYNC | Flags::FUA,
                    2 | 3 if op == Op::Write => Flags::SYNC,
                    _ => Flags::NONE,
                };
                let sector = if random.below(2) == 0 { end } else { random.below(4000) };
                let sectors = 1 + random.below(16);
                end = sector + sectors;
                let (may_block, odd) = (random.below(2) == 0, random.below(3) == 0);
                let layout = if odd { inside } else { LayoutId(0) };
                let io =
                    Io { task, may_block, layout, ..twins.traced.io(op, flags, sector, sectors) };
                if random.below(6) == 0 && !std::mem::replace(&mut in_batch[at], true) {
                    twins.both(|rig| rig.stack.begin_batch(rig.now, task));
                }
                asleep[at] = twins.submit(io, random.below(3) == 0);
                if !asleep[at] && random.below(2) == 0 && std::mem::take(&mut in_batch[at]) {
                    twins.both(|rig| rig.stack.end_batch(rig.now, task, &mut rig.driver));
                }
            } else if !twins.traced.driver.issued.is_empty() {
                twins.answer(&mut random);
            }
            let room = (random.below(6) == 0).then(|| random.below(3) as usize);
            // Now and then commands are late, and aborted.
            let span = if random.below(150) == 0 { 40_000_000_000 } else { random.below(100_000) };
            twins.compare(Nanos::new(span), room);
            while let Some(task) = twins.both(|rig| rig.stack.poll_unblocked()) {
                asleep[task.index()] = false;
            }
        }
        let (stats, ..) = twins.both(|rig| {
            let stats = rig.stack.disk_stats(rig.now);
            let accounting = rig.stack.accounting();
            let read = StatGroup::Read;
            (stats, accounting.queued_to_dispatched(read), accounting.dispatched_to_completed(read))
        });
        assert!(stats.groups[0].ios > 0, "seed {seed}: nothing ended");
        merges += stats.groups[0].merges;
        (parts, failed) = (parts + twins.parts, failed + twins.failed);
    }
    assert!(merges > 100, "{merges} reads merged");
    assert!(parts > 100 && failed > 40, "{parts} commands ended in parts, {failed} failed");
}
