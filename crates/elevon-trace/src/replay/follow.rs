//! Infers what an I/O followed in another process: a commit of the file system's journal, which
//! holds those that wait for it, or the turn of another worker of the kernel's flusher.
//!
//! - **Journal.** ext4 commits in a thread of its own, `jbd2/DEVICE`. A task in fsync wakes it when
//!   the data is written, and goes on when the commit is; a task that changes metadata waits until
//!   the journal has written them. A trace does not show who waits. It shows that I/O of a process
//!   that had none in flight begins soon after an I/O of the journal completed, much more often
//!   than by chance.
//! - **Flusher.** The kernel writes back the page cache of a device in one piece of work, which
//!   `kworker/u` threads take turns to do. So their writes never overlap while they are submitted,
//!   and each begins after the one before is submitted, whoever does it, or when the completion of
//!   some let a task go on that waited for the limit of dirty pages.

use elevon_core::op::Flags;

use super::after::{After, Follows, Milestone};
use super::completions::{Burst, Completions};
use super::exclusion::LONGEST_WAKEUP;
use super::{Workload, WorkloadProcess};

/// Minimum number of times that a process went on after the journal before it is taken to wait for
/// it.
const MIN_TIMES_AFTER_THE_JOURNAL: u64 = 20;
/// How many standard deviations above chance that number must be, squared: by chance, six are
/// exceeded once in 10^9.
const DEVIATIONS_SQUARED: u128 = 36;

/// A burst of I/Os of a process before which none of its I/Os was in flight.
#[derive(Clone, Copy, Debug)]
struct IdleBurst {
    first: usize,
    end: usize,
    /// When the first was queued, and when the last I/O before it had completed.
    at: u64,
    idle_since: u64,
}

/// The completions of a process, and its bursts.
struct Timeline {
    ends: Vec<u64>,
    bursts: Vec<IdleBurst>,
}

impl Timeline {
    fn new(process: &WorkloadProcess) -> Self {
        let ios = &process.ios;
        let completions = Completions::new(ios.iter().filter_map(|io| io.completed));
        let idle =
            completions.bursts(ios).filter(|burst| burst.seen == burst.first && burst.first > 0);
        let bursts = idle.map(|Burst { first, end, seen }| {
            let idle_since = completions.ends[seen - 1];
            IdleBurst { first, end, at: ios[first].at, idle_since }
        });
        Self { bursts: bursts.collect(), ends: completions.ends }
    }

    /// Returns the last completion before `at`, with the number of completions until then. One at
    /// the same time does not count: two I/Os could follow each other.
    fn last_before(&self, at: u64) -> Option<(u64, u64)> {
        let count = self.ends.partition_point(|&end| end < at);
        count.checked_sub(1).map(|last| (self.ends[last], count as u64))
    }

    /// Returns the first completion after `at`, with the number of completions until then.
    fn first_after(&self, at: u64) -> Option<(u64, u64)> {
        let before = self.ends.partition_point(|&end| end <= at);
        self.ends.get(before).map(|&end| (end, before as u64 + 1))
    }

    /// Returns the completion that a burst may have followed: the last one, if it came after the
    /// burst's own process had become idle and at most the time of a wake-up before it.
    fn woke(&self, burst: &IdleBurst) -> Option<(u64, u64)> {
        let (end, count) = self.last_before(burst.at)?;
        (end > burst.idle_since && burst.at - end <= LONGEST_WAKEUP).then_some((end, count))
    }

    /// Returns the number of completions with nothing else within the time of a wake-up before
    /// them.
    fn wakeups(&self) -> u64 {
        let apart = self.ends.windows(2).filter(|pair| pair[1] - pair[0] > LONGEST_WAKEUP).count();
        apart as u64 + u64::from(!self.ends.is_empty())
    }

    /// Returns true if bursts begin soon after completions of `journal` more often than by chance.
    fn waits_for(&self, journal: &Self, duration: u64) -> bool {
        let found = self.bursts.iter().filter(|burst| journal.woke(burst).is_some()).count() as u64;
        let idle =
            |burst: &IdleBurst| u128::from((burst.at - burst.idle_since).min(LONGEST_WAKEUP));
        let idle: u128 = self.bursts.iter().map(idle).sum();
        let by_chance = idle * u128::from(journal.wakeups()) / u128::from(duration.max(1));
        let beyond = u128::from(found).saturating_sub(by_chance);
        found >= MIN_TIMES_AFTER_THE_JOURNAL
            && beyond * beyond > DEVIATIONS_SQUARED * by_chance.max(1)
    }
}

impl WorkloadProcess {
    /// Returns true for the thread that commits the journal of ext4.
    pub fn is_journal(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("jbd2/"))
    }

    /// Returns true for a thread in which the kernel's flusher may run.
    fn is_worker(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("kworker/u"))
    }
}

/// Lets processes that wait for the journal follow its I/O, and its commits the I/O of those that
/// ask for them.
pub(super) fn add_journal(workload: &Workload, all: &mut [Vec<After>]) {
    let processes = &workload.processes;
    let journals: Vec<usize> =
        (0..processes.len()).filter(|&at| processes[at].is_journal()).collect();
    if journals.is_empty() {
        return;
    }
    let timelines: Vec<Timeline> = processes.iter().map(Timeline::new).collect();
    for &journal in &journals {
        let waits = |&at: &usize| {
            !processes[at].is_journal()
                && timelines[at].waits_for(&timelines[journal], workload.duration)
        };
        let members: Vec<usize> = (0..processes.len()).filter(waits).collect();
        for &at in &members {
            for burst in &timelines[at].bursts {
                if let Some(woke) = timelines[journal].woke(burst) {
                    follow(&processes[at], &mut all[at], burst, journal, woke);
                }
            }
        }
        add_requests(processes, &timelines, journal, &members, &mut all[journal]);
    }
}

/// Lets the commits of a journal follow the I/O of those that ask for them. A commit begins when a
/// task asks for it, or when the one before ends, if a task has asked since that began.
fn add_requests(
    processes: &[WorkloadProcess],
    timelines: &[Timeline],
    journal: usize,
    members: &[usize],
    after: &mut [After],
) {
    let ios = &processes[journal].ios;
    let is_record = |at: usize| ios[at].flags.intersects(Flags::PREFLUSH.with(Flags::FUA));
    let has_records = (0..ios.len()).any(is_record);
    // When the commit began to which the burst before belongs.
    let mut began = ios.first().map_or(0, |io| io.at);
    for burst in &timelines[journal].bursts {
        let is_commit = !has_records || is_record(burst.first - 1);
        let woke = members.iter().filter_map(|&at| Some((timelines[at].woke(burst)?, at)));
        if let Some((woke, at)) = woke.max() {
            follow(&processes[journal], after, burst, at, woke);
        } else if is_commit {
            let asked =
                members.iter().filter_map(|&at| Some((timelines[at].first_after(began)?, at)));
            if let Some((asked, at)) =
                asked.min().filter(|&((end, _), _)| end <= burst.idle_since && end < burst.at)
            {
                follow(&processes[journal], after, burst, at, asked);
            }
        }
        if is_commit {
            began = burst.at;
        }
    }
}

/// Lets a burst follow a completion of another process: when it was, and the number of completions
/// until then.
fn follow(
    process: &WorkloadProcess,
    after: &mut [After],
    burst: &IdleBurst,
    other: usize,
    (end, count): (u64, u64),
) {
    let all = burst.first..burst.end;
    for (io, after) in process.ios[all.clone()].iter().zip(&mut after[all]) {
        *after = After {
            completions: burst.first as u64,
            think: io.at - burst.idle_since.max(end),
            own: 0,
            continues: false,
            follows: Some(Follows { process: other, milestone: Milestone::Completed, count }),
        };
    }
}

impl Workload {
    /// Returns the writes of the flusher in order: process, and index of the I/O. None if writes
    /// of two workers overlap while they are submitted: then they are not of one flusher.
    fn flushed(&self, cgroup: Option<u64>) -> Vec<(usize, usize)> {
        let workers = self.processes.iter().enumerate();
        let workers =
            workers.filter(|(_, process)| process.is_worker() && process.cgroup == cgroup);
        let mut writes: Vec<(usize, usize)> = workers
            .flat_map(|(at, process)| {
                let ios = process.ios.iter().enumerate().filter(|(_, io)| io.is_throttled());
                ios.map(move |(io, _)| (at, io))
            })
            .collect();
        writes.sort_by_key(|&(at, io)| (self.processes[at].ios[io].at, at, io));
        let overlap = |pair: &[(usize, usize)]| {
            let [(before, earlier), (at, io)] = [pair[0], pair[1]];
            before != at
                && self.processes[at].ios[io].at < self.processes[before].ios[earlier].awake()
        };
        if writes.windows(2).any(overlap) { Vec::new() } else { writes }
    }

    /// Returns, for each of [`Self::processes`] that the kernel's flusher runs in, which flusher it
    /// is, from 0, and how many bytes of that were under way at most. While a task sleeps for the
    /// limit of dirty pages, that many is what the limit lets the flusher have.
    pub fn flushers(&self) -> Vec<Option<(u32, u64)>> {
        let mut found = vec![None; self.processes.len()];
        for (number, cgroup) in self.flusher_cgroups().into_iter().enumerate() {
            let writes = self.flushed(cgroup);
            let ios = writes.iter().map(|&(at, io)| &self.processes[at].ios[io]);
            let mut steps: Vec<(u64, bool, u64)> = Vec::new();
            for io in ios {
                steps.push((io.at, true, io.bytes));
                steps.extend(io.completed.map(|end| (end, false, io.bytes)));
            }
            // What completes at the same time makes room first.
            steps.sort_unstable();
            let (mut inside, mut most) = (0_u64, 0);
            for (_, begins, bytes) in steps {
                inside = if begins {
                    inside.saturating_add(bytes)
                } else {
                    inside.saturating_sub(bytes)
                };
                most = inside.max(most);
            }
            writes.iter().for_each(|&(at, _)| found[at] = Some((number as u32, most)));
        }
        found
    }

    fn flusher_cgroups(&self) -> Vec<Option<u64>> {
        let mut cgroups: Vec<Option<u64>> = self
            .processes
            .iter()
            .filter(|process| process.is_worker())
            .map(|process| process.cgroup)
            .collect();
        cgroups.sort_unstable();
        cgroups.dedup();
        cgroups
    }

    /// Lets each write of a flusher follow the one before. It waits until that is submitted, unless
    /// it then takes longer than a wake-up: then the task that dirties pages waited for room, and
    /// the write follows the last completion before it.
    pub(super) fn add_flushers(&self, all: &mut [Vec<After>]) {
        for cgroup in self.flusher_cgroups() {
            let writes = self.flushed(cgroup);
            let mut members: Vec<usize> = writes.iter().map(|&(at, _)| at).collect();
            members.sort_unstable();
            members.dedup();
            let timelines: Vec<(usize, Timeline)> =
                members.iter().map(|&at| (at, Timeline::new(&self.processes[at]))).collect();
            let mut before: Option<(usize, usize)> = None;
            let mut last = None;
            for &(at, number) in &writes {
                let io = &self.processes[at].ios[number];
                // Writes under one plug go together, and follow what the first of them does.
                if !io.joins {
                    before = last;
                }
                last = Some((at, number));
                let Some((process, earlier)) = before else { continue };
                let awake = self.processes[process].ios[earlier].awake();
                let completed = timelines.iter().filter_map(|(at, timeline)| {
                    let (end, count) = timeline.last_before(io.at)?;
                    Some((end, count, *at))
                });
                let room = completed
                    .max()
                    .filter(|&(end, ..)| end > awake && io.at - awake > LONGEST_WAKEUP);
                let (since, follows) = match room {
                    Some((end, count, process)) => {
                        (end, Follows { process, milestone: Milestone::Completed, count })
                    }
                    None => (
                        awake,
                        Follows {
                            process,
                            milestone: Milestone::Entered,
                            count: earlier as u64 + 1,
                        },
                    ),
                };
                let think = io.at.saturating_sub(since);
                all[at][number] = After {
                    completions: 0,
                    think,
                    own: 0,
                    continues: false,
                    follows: Some(follows),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
