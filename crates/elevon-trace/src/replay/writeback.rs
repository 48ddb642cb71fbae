//! What a trace shows of the writeback throttling of the kernel that it was taken on.

use elevon_core::op::{Flags, Op};

use super::{WorkloadIo, WorkloadProcess};
use crate::analysis::RequestRecord;
use crate::op::TraceOp;

/// The length of a window of writeback throttling in nanoseconds, after which it may let in more or
/// fewer.
const WINDOW: u64 = 100_000_000;

/// Nanoseconds after which a write has slept before it had a request: to build one takes some
/// microseconds, and writeback throttling lets go on when a write completes.
const SLEPT: u32 = 500_000;

/// Minimum number of writes that slept, of a process and per read that slept: one may have waited
/// for memory or for the processor.
const MIN_WRITES_THAT_SLEPT: usize = 5;

/// Takes the synchronous writes of a process for buffered ones if the trace shows that they slept
/// under writeback throttling, which lets direct writes pass. A sleep for a tag looks the same, but
/// then reads sleep as well.
pub(super) fn find_buffered(processes: &mut [WorkloadProcess]) {
    let slept =
        |ios: &[WorkloadIo], op| ios.iter().filter(|io| io.op == op && io.slept >= SLEPT).count();
    let reads: usize = processes.iter().map(|process| slept(&process.ios, Op::Read)).sum();
    for process in processes {
        let synchronous =
            |io: &&mut WorkloadIo| io.op == Op::Write && io.flags.contains(Flags::SYNC);
        let writes =
            process.ios.iter_mut().filter(synchronous).filter(|io| io.slept >= SLEPT).count();
        if writes >= MIN_WRITES_THAT_SLEPT * (1 + reads) {
            process
                .ios
                .iter_mut()
                .filter(synchronous)
                .for_each(|io| io.flags = io.flags.without(Flags::IDLE));
        }
    }
}

impl WorkloadIo {
    /// Returns true for a write that writeback throttling may hold back.
    pub fn is_throttled(&self) -> bool {
        self.op == Op::Write && !self.flags.contains(Flags::IDLE)
    }

    /// Returns when its process had all its requests.
    pub(super) fn awake(&self) -> u64 {
        self.at + u64::from(self.entered)
    }
}

/// How many requests of writes that writeback throttling holds back first, neither direct nor
/// synchronous nor of metadata, were in flight at once. Those that wait for a place do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowds {
    /// The most in the first 100 ms.
    pub at_start: u32,
    /// The most in each 100 ms in which one began or ended.
    pub windows: Vec<u32>,
    /// The number of each of these windows, counted from the first I/O.
    numbers: Vec<u64>,
}

impl Crowds {
    /// Counts them in all requests of a trace whose first I/O came at `first`.
    pub(super) fn from_requests(requests: &[RequestRecord], first: u64) -> Self {
        let is_counted = |request: &&RequestRecord| {
            request.op == Some(TraceOp::Write)
                && !request.flags.intersects(Flags::SYNC.with(Flags::META))
        };
        let begins =
            |request: &RequestRecord| request.allocated.or(request.inserted).or(request.issued);
        let counted = requests.iter().filter(is_counted);
        let mut steps: Vec<(u64, bool)> = counted
            .filter_map(|request| Some([(begins(request)?, true), (request.completed?, false)]))
            .flatten()
            .collect();
        // One that completes at the same time makes room first.
        steps.sort_unstable();
        let (mut crowds, mut inside, mut last) = (Self::default(), 0_u32, None);
        for (time, begins) in steps {
            let window = time.saturating_sub(first) / WINDOW;
            if last != Some(window) {
                crowds.windows.push(inside);
                crowds.numbers.push(window);
                last = Some(window);
            }
            inside = if begins { inside + 1 } else { inside.saturating_sub(1) };
            let most = crowds.windows.last_mut().expect("of this window");
            *most = inside.max(*most);
            if window == 0 {
                crowds.at_start = *most;
            }
        }
        crowds
    }

    /// Keeps what is of the time from `from` to `until`, in nanoseconds since the first I/O. A
    /// window that is only partly in that time counts as a whole.
    pub(super) fn begin_at(&mut self, from: u64, until: u64) {
        let (first, last) = (from / WINDOW, until / WINDOW);
        let windows = self
            .numbers
            .iter()
            .zip(&self.windows)
            .filter(|(number, _)| (first..=last).contains(*number));
        let (numbers, windows): (Vec<u64>, Vec<u32>) =
            windows.map(|(number, most)| (number - first, *most)).unzip();
        if first > 0 {
            let at_start = numbers.iter().zip(&windows).take_while(|(number, _)| **number == 0);
            self.at_start = at_start.map(|(_, most)| *most).max().unwrap_or(0);
        }
        (self.numbers, self.windows) = (numbers, windows);
    }

    /// Returns true if tasks slept for the limit of dirty pages for most of the time in which there
    /// were such writes: otherwise the kernel would have let in so many at most.
    pub fn show_dirty_sleeps(&self, most_background: u32) -> bool {
        self.windows.iter().filter(|&&most| most > most_background).count() * 2 > self.windows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{io, process};
    use super::*;

    /// A direct write never sleeps under writeback throttling.
    #[test]
    fn synchronous_writes_that_slept_alone_are_buffered() {
        let write = |at, slept| WorkloadIo {
            op: Op::Write,
            flags: Flags::SYNC | Flags::IDLE,
            slept,
            ..io(at, None)
        };
        let writes = |slept: u32| {
            (0..20).map(|n| write(n, if n % 4 == 0 { slept } else { 9 })).collect::<Vec<_>>()
        };
        let found = |ios: Vec<WorkloadIo>, other| {
            let mut processes = [process(ios), process(vec![other])];
            find_buffered(&mut processes);
            processes.map(|process| process.ios.iter().filter(|io| io.is_throttled()).count())
        };
        let read = |slept| WorkloadIo { slept, ..io(0, None) };
        assert_eq!(found(writes(SLEPT), read(9)), [20, 0]);
        assert_eq!(
            found(writes(SLEPT), write(0, SLEPT)),
            [20, 0],
            "one of another process proves nothing"
        );
        assert_eq!(found(writes(SLEPT), read(SLEPT)), [0, 0], "no tag was free");
        assert_eq!(found(writes(SLEPT - 1), read(9)), [0, 0]);
    }

    /// Returns how many were in flight, of writes in these times in milliseconds.
    fn crowds(writes: &[(u64, u64, Flags)]) -> Crowds {
        let request = |&(from, until, flags): &(u64, u64, Flags)| RequestRecord {
            allocated: Some(from * 1_000_000),
            completed: Some(until * 1_000_000),
            queued: None,
            inserted: None,
            issued: None,
            sector: 0,
            bytes: 4096,
            group: crate::analysis::Group::Write,
            op: Some(TraceOp::Write),
            flags,
            process: 0,
            bios: 1,
            prio: None,
            error: None,
        };
        Crowds::from_requests(&writes.iter().map(request).collect::<Vec<_>>(), 0)
    }

    #[test]
    fn writes_that_nobody_waits_for_are_counted_in_windows() {
        let write = |from, until| (from, until, Flags::NONE);
        let waited = [Flags::SYNC, Flags::META].map(|flags| (0, 900, flags));
        let mut writes =
            vec![write(0, 10), write(1, 110), write(1, 320), write(10, 20), write(310, 320)];
        writes.extend(waited);
        assert_eq!(
            crowds(&writes),
            Crowds { at_start: 3, windows: vec![3, 2, 2], numbers: vec![0, 1, 3] }
        );
        let part = |from: u64, until: u64| {
            let mut part = crowds(&writes);
            part.begin_at(from * 1_000_000, until * 1_000_000);
            (part.at_start, part.windows)
        };
        assert_eq!(part(0, 900), (3, vec![3, 2, 2]));
        assert_eq!(
            (part(150, 900), part(200, 900), part(150, 250)),
            ((2, vec![2, 2]), (0, vec![2]), (2, vec![2]))
        );
        assert_eq!(crowds(&waited), Crowds::default());
        assert_eq!(
            crowds(&[write(100, 120)]),
            Crowds { at_start: 0, windows: vec![1], numbers: vec![1] }
        );
    }

    #[test]
    fn more_writes_than_a_kernel_lets_in_show_that_tasks_sleep_for_dirty_pages() {
        let of = |windows: &[u32]| {
            Crowds { windows: windows.to_vec(), ..Crowds::default() }.show_dirty_sleeps(24)
        };
        assert!(of(&[25, 96, 3]));
        assert!(!of(&[24, 24, 25]));
        assert!(!of(&[]));
    }
}
