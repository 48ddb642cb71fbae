//! Infers critical sections: sequences of I/Os that processes do only one at a time.
//!
//! A database writes its log so: one backend holds the lock of the log from the write of a piece to
//! the end of its flush, and the others wait. A trace does not show the lock, but what it does: of
//! these sections none begins within another.

use std::collections::BTreeMap;

use elevon_core::op::{Flags, Op};

use super::{Workload, WorkloadProcess};

mod rerun;

use rerun::Turn;

/// Minimum number of sections of a process that is looked at.
const MIN_SECTIONS: usize = 20;
/// How often sections of a process would have to overlap those of others by chance, in thousandths,
/// before it is no chance that they never do. If they were independent, none would overlap with a
/// probability of e^-20.
const EXPECTED_OVERLAPS: u64 = 20_000;
/// Maximum number of groups, for traces that are made to have many.
const MAX_GROUPS: usize = 16;
/// A section that begins more than this many nanoseconds after the end of another did not wait for
/// it: to wake a process takes some tens of microseconds, and where processors are busy, some more.
pub(super) const LONGEST_WAKEUP: u64 = 500_000;

/// A critical section of a process: writes that a task waits for, and the flush that follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Index of its first I/O, a write, in [`WorkloadProcess::ios`].
    pub first: usize,
    /// Index of its last I/O, a flush.
    pub last: usize,
    /// Nanoseconds by which the process probably waited for the section before.
    pub waited: u64,
    /// When it began and ended.
    span: (u64, u64),
}

/// The critical sections of a process that excludes others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Number of the group: its processes have at most one section at a time.
    pub group: u32,
    /// Its sections in order.
    pub sections: Vec<Section>,
    /// Nanoseconds from the end of a section to the beginning of one that waited for it, the
    /// median of the group; 0 if none waited.
    pub hand_over: u64,
    /// True if all that wait when a section ends begin theirs together, and not one after another.
    pub is_together: bool,
}

/// A section in a group.
struct Span {
    end: u64,
    process: usize,
    /// Index in the sections of the process.
    section: usize,
}

/// Processes that exclude each other, with their sections.
#[derive(Default)]
struct Group {
    members: Vec<usize>,
    /// Sections by beginning; none overlaps another.
    spans: BTreeMap<u64, Span>,
}

impl Group {
    /// Returns how many of these sections would overlap those of the group by chance, in
    /// thousandths; `None` if one does.
    ///
    /// The chance of a section is that of one at a random place between the beginnings of the two
    /// that it lies between: it would begin in the first, or the second in it. So the chance is low
    /// where the group is idle.
    fn overlaps_by_chance(&self, sections: &[Section]) -> Option<u64> {
        let mut expected: u64 = 0;
        for &Section { span: (begin, end), .. } in sections {
            let before = self.spans.range(..=begin).next_back();
            let next = self.spans.range(begin..).next();
            if before.is_some_and(|(_, before)| before.end > begin)
                || next.is_some_and(|(&at, _)| at < end)
            {
                return None;
            }
            if let (Some((&from, before)), Some((&until, _))) = (before, next) {
                let taken = u128::from(before.end - from) + u128::from(end - begin);
                let chance = taken * 1000 / u128::from(until - from).max(1);
                expected = expected.saturating_add(chance.min(1000) as u64);
            }
        }
        Some(expected)
    }

    fn add(&mut self, process: usize, sections: &[Section]) {
        self.members.push(process);
        let spans = sections.iter().enumerate();
        self.spans.extend(
            spans.map(|(section, found)| {
                (found.span.0, Span { end: found.span.1, process, section })
            }),
        );
    }

    /// Returns how many sections found the lock held by another process, if each came at a time at
    /// random: of those of a process as many as the share of the time in which it has no section
    /// and another process has one.
    fn waits_by_chance(&self) -> usize {
        let (Some((&from, _)), Some((_, Span { end: until, .. }))) =
            (self.spans.first_key_value(), self.spans.last_key_value())
        else {
            return 0;
        };
        let mut held: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for (&begin, span) in &self.spans {
            let (sections, time) = held.entry(span.process).or_default();
            *sections += 1;
            *time += span.end - begin;
        }
        let all: u64 = held.values().map(|&(_, time)| time).sum();
        let waits = held.values().map(|&(sections, own)| {
            let free_of_own = (until - from).saturating_sub(own).max(1);
            u128::from(sections) * u128::from(all - own) / u128::from(free_of_own)
        });
        waits.sum::<u128>() as usize
    }

    /// Returns how long after the end of another section one begins that waited for it, at most: as
    /// many of those that may have waited as did by chance, those that began soonest after it.
    fn longest_wakeup(&self, ends: &BTreeMap<usize, Vec<u64>>) -> u64 {
        let mut gaps: Vec<u64> = Vec::new();
        let mut before: Option<(usize, u64)> = None;
        for (&begin, &Span { end, process, .. }) in &self.spans {
            if let Some((_, its_end)) = before.filter(|&(of, _)| of != process)
                && last_until(&ends[&process], begin) < its_end
            {
                gaps.push(begin.saturating_sub(its_end));
            }
            before = Some((process, end));
        }
        gaps.sort_unstable();
        let last = self.waits_by_chance().min(gaps.len()).checked_sub(1);
        last.map_or(0, |last| gaps[last]).min(LONGEST_WAKEUP)
    }

    /// Notes which sections waited for the one before. Returns the times that lie between the two.
    fn note_waits(&self, all: &mut [Vec<Section>], processes: &[WorkloadProcess]) -> Vec<u64> {
        let ends = |&at: &usize| {
            let mut ends: Vec<u64> =
                processes[at].ios.iter().filter_map(|io| io.completed).collect();
            ends.sort_unstable();
            (at, ends)
        };
        let ends: BTreeMap<usize, Vec<u64>> = self.members.iter().map(ends).collect();
        let wakeup = self.longest_wakeup(&ends);
        let mut gaps = Vec::new();
        // Of the section before: its process, when that wanted to begin it, and its end.
        let mut before: Option<(usize, u64, u64)> = None;
        for (&begin, &Span { end, process, section }) in &self.spans {
            let mut wanted = begin;
            if let Some((_, its_wanted, its_end)) = before.filter(|&(of, ..)| of != process) {
                // When the process had no I/O any more that it could wait for.
                let ready = last_until(&ends[&process], begin);
                let gap = begin.saturating_sub(its_end);
                if gap <= wakeup && ready < its_end {
                    all[process][section].waited = gap + (its_end - its_wanted.max(ready)) / 2;
                    wanted = begin - all[process][section].waited;
                    gaps.push(gap);
                }
            }
            before = Some((process, wanted, end));
        }
        gaps
    }
}

impl Workload {
    /// Returns the critical sections of each of [`Self::processes`]; `None` for a process that
    /// excludes no other.
    ///
    /// A section is a sequence of synchronous writes of a process and the flush that follows them.
    /// Processes exclude each other if no section of one overlaps one of another, although at least
    /// 20 would by chance. As many sections are taken to have waited for the one before as would by
    /// chance, those that began soonest after its end, and none that began more than 500 us after
    /// it. A process that waited came after the process of the one before, after the end of its own
    /// last I/O, and before the end of the one before: in the middle of that time.
    ///
    /// Cost: O(n log n) for n I/Os, times the number of groups, of which there are at most 16.
    pub fn exclusions(&self) -> Vec<Option<Exclusion>> {
        let mut all: Vec<Vec<Section>> = self.processes.iter().map(sections).collect();
        let mut order: Vec<usize> =
            (0..all.len()).filter(|&at| all[at].len() >= MIN_SECTIONS).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(all[at].len()));
        let mut groups: Vec<Group> = Vec::new();
        for at in order {
            let fits = |group: &Group| {
                group
                    .overlaps_by_chance(&all[at])
                    .is_some_and(|expected| expected >= EXPECTED_OVERLAPS)
            };
            let place = groups.iter().position(fits).unwrap_or(groups.len());
            if place == groups.len() && groups.len() < MAX_GROUPS {
                groups.push(Group::default());
            }
            if let Some(group) = groups.get_mut(place) {
                group.add(at, &all[at]);
            }
        }
        let mut found: Vec<Option<Exclusion>> = vec![None; all.len()];
        for (number, group) in groups.iter().filter(|group| group.members.len() > 1).enumerate() {
            let mut gaps = group.note_waits(&mut all, &self.processes);
            gaps.sort_unstable();
            let hand_over = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
            let turns: Vec<Vec<Turn>> = group.members.iter().map(|&at| turns(&all[at])).collect();
            let took =
                |at: &usize| all[*at].last().map_or(0, |last| last.span.1 - all[*at][0].span.0);
            let took = group.members.iter().map(|at| u128::from(took(at))).sum();
            let is_together = rerun::is_together(&turns, took, hand_over);
            for &at in &group.members {
                let sections = std::mem::take(&mut all[at]);
                found[at] =
                    Some(Exclusion { group: number as u32, sections, hand_over, is_together });
            }
        }
        found
    }
}

/// Returns what a process did, section by section; before the first, nothing is known.
fn turns(sections: &[Section]) -> Vec<Turn> {
    let mut last_end = sections.first().map_or(0, |first| first.span.0);
    let turn = |section: &Section| {
        let (begin, end) = section.span;
        let before = (begin - last_end).saturating_sub(section.waited);
        last_end = end;
        Turn { before, within: end - begin }
    };
    sections.iter().map(turn).collect()
}

/// Returns the last of these times, which ascend, that is not later than `at`; 0 if there is none.
fn last_until(times: &[u64], at: u64) -> u64 {
    times[..times.partition_point(|&time| time <= at)].last().copied().unwrap_or(0)
}

/// Returns the sections of a process that are not within one another.
fn sections(process: &WorkloadProcess) -> Vec<Section> {
    let ios = &process.ios;
    let mut all: Vec<Section> = Vec::new();
    let mut first = None;
    for (at, io) in ios.iter().enumerate() {
        if io.op == Op::Write && io.flags.contains(Flags::SYNC) {
            first = first.or((!io.joins).then_some(at));
            continue;
        }
        if let (Some(first), Op::Flush, Some(end)) = (first, io.op, io.completed)
            && end >= ios[first].at
            && all.last().is_none_or(|before| before.span.1 <= ios[first].at)
        {
            all.push(Section { first, last: at, waited: 0, span: (ios[first].at, end) });
        }
        first = None;
    }
    all
}

#[cfg(test)]
mod tests;
