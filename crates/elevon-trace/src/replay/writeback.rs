//! What a trace shows of the writeback throttling of the kernel that it was taken on.

use elevon_core::op::{Flags, Op};

use super::{Workload, WorkloadIo, WorkloadProcess};

/// Time from the first I/O on, in nanoseconds, in which writes tell how many the kernel let in: the
/// length of a window of writeback throttling, after which it may allow others.
const FIRST_WINDOW: u64 = 100_000_000;

/// Nanoseconds after which a write has slept before it had a request: to build one takes some
/// microseconds, and writeback throttling lets go on when a write completes.
const SLEPT: u32 = 500_000;

/// Minimum number of writes that slept, of a process and per read that slept: one may have waited
/// for memory or for the processor.
const FEWEST: usize = 5;

/// Takes the synchronous writes of a process for buffered ones if the trace shows that they slept
/// under writeback throttling, which lets direct writes pass. A sleep for a tag looks the same, but
/// then reads sleep as well.
pub(super) fn find_buffered(processes: &mut [WorkloadProcess]) {
    let slept = |ios: &[WorkloadIo], op| ios.iter().filter(|io| io.op == op && io.slept >= SLEPT).count();
    let reads: usize = processes.iter().map(|process| slept(&process.ios, Op::Read)).sum();
    for process in processes {
        let synchronous = |io: &&mut WorkloadIo| io.op == Op::Write && io.flags.contains(Flags::SYNC);
        let writes = process.ios.iter_mut().filter(synchronous).filter(|io| io.slept >= SLEPT).count();
        if writes >= FEWEST * (1 + reads) {
            process.ios.iter_mut().filter(synchronous).for_each(|io| io.flags = io.flags.without(Flags::IDLE));
        }
    }
}

impl WorkloadIo {
    /// Returns true for a write that writeback throttling may hold back.
    pub(super) fn is_throttled(&self) -> bool {
        self.op == Op::Write && !self.flags.contains(Flags::IDLE)
    }

    /// Returns when its process had a request.
    pub(super) fn awake(&self) -> u64 {
        self.at + u64::from(self.slept)
    }
}

impl Workload {
    /// Returns the most writes in flight at once in the first 100 ms, of those that writeback
    /// throttling holds back first: neither direct nor synchronous.
    ///
    /// A kernel that runs for a while lets in more than one that has just started
    /// ([`elevon_core::stack::StackConfig::wbt_writes`]).
    pub fn writes_at_start(&self) -> u32 {
        let is_counted = |io: &&WorkloadIo| {
            io.op == Op::Write && !io.flags.intersects(Flags::IDLE.with(Flags::SYNC).with(Flags::META))
        };
        let ios = self.processes.iter().flat_map(|process| &process.ios);
        let counted = ios.filter(|io| io.at < FIRST_WINDOW).filter(is_counted);
        let mut steps: Vec<(u64, bool)> =
            counted.filter_map(|io| Some([(io.at, true), (io.completed?, false)])).flatten().collect();
        // One that completes at the same time makes room first. Who is queued may wait for room, so
        // the others are counted.
        steps.sort_unstable();
        let (mut inside, mut most) = (0, 0);
        for (_, begins) in steps {
            if begins {
                most = most.max(inside);
                inside += 1;
            } else {
                inside -= 1;
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{io, process, workload};
    use super::*;

    /// A direct write never sleeps under writeback throttling.
    #[test]
    fn synchronous_writes_that_slept_alone_are_buffered() {
        let write = |at, slept| WorkloadIo { op: Op::Write, flags: Flags::SYNC | Flags::IDLE, slept, ..io(at, None) };
        let writes = |slept: u32| (0..20).map(|n| write(n, if n % 4 == 0 { slept } else { 9 })).collect::<Vec<_>>();
        let found = |ios: Vec<WorkloadIo>, other| {
            let mut processes = [process(ios), process(vec![other])];
            find_buffered(&mut processes);
            processes.map(|process| process.ios.iter().filter(|io| io.is_throttled()).count())
        };
        let read = |slept| WorkloadIo { slept, ..io(0, None) };
        assert_eq!(found(writes(SLEPT), read(9)), [20, 0]);
        assert_eq!(found(writes(SLEPT), write(0, SLEPT)), [20, 0], "one of another process proves nothing");
        assert_eq!(found(writes(SLEPT), read(SLEPT)), [0, 0], "no tag was free");
        assert_eq!(found(writes(SLEPT - 1), read(9)), [0, 0]);
    }

    #[test]
    fn writes_that_nobody_waits_for_are_counted_while_another_comes() {
        let write = |at, flags, end| WorkloadIo { op: Op::Write, flags, ..io(at, end) };
        let quiet = |at: u64, end: u64| write(at, Flags::NONE, Some(end));
        let mut ios: Vec<WorkloadIo> = (0..5).map(|n| quiet(n, 1000 + n)).collect();
        ios.extend([Flags::SYNC, Flags::IDLE, Flags::META].map(|flags| write(10, flags, Some(2000))));
        ios.extend([io(20, Some(2000)), write(30, Flags::NONE, None)]);
        assert_eq!(workload(vec![process(ios.clone())], vec![]).writes_at_start(), 4);
        let other = process((0..3).map(|n| quiet(500 + n, 600 + n)).collect());
        assert_eq!(workload(vec![process(ios), other], vec![]).writes_at_start(), 7, "of all processes");
        let one_by_one = (0..9).map(|n| quiet(100 * n, 100 * n + 100)).collect();
        assert_eq!(workload(vec![process(one_by_one)], vec![]).writes_at_start(), 0);
        let late = (0..9).map(|n| quiet(100_000 + n, 200_000)).collect();
        assert_eq!(workload(vec![process(late)], vec![]).writes_at_start(), 0, "after the first window");
    }
}
