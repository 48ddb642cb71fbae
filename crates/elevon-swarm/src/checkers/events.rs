//! Checkers of the event stream, and of counters against it.

use std::collections::{BTreeMap, VecDeque};

use elevon_core::event::{Event, EventKind};
use elevon_core::op::{Flags, Op, StatGroup};
use elevon_core::units::{Instant, Sector};

use super::{CheckResult, Checker, End, Finding, Issued, World, ensure};

/// The events agree with the device's commands: there is an Issue event with the same fields for
/// every accepted command.
pub(super) struct Agreement;

impl Checker for Agreement {
    fn on_event(&mut self, _: &World, event: &Event, issued: Option<&Issued>) -> CheckResult {
        if event.kind != EventKind::Issue {
            return Ok(());
        }
        let Some(Issued { at, command, .. }) = issued else {
            return Err(Finding(format!("{event:?} of no command")));
        };
        let same = (*at, command.op, command.flags, command.queue, Some(command.tag))
            == (event.time, event.op, event.flags, event.queue, event.tag)
            && (command.op == Op::Flush
                || (command.sector, command.bytes.sectors_ceil().get())
                    == (event.sector, event.sectors.into()));
        ensure(same, || format!("{event:?} for {command:?} at {at:?}"))
    }
}

/// Every queued sector completes exactly once. At the start of a bio +1 and at its end -1, with
/// opposite signs for completions, must cancel out everywhere.
#[derive(Default)]
pub(super) struct Coverage {
    edges: BTreeMap<(Op, u64), i64>,
}

impl Coverage {
    fn add(&mut self, op: Op, at: u64, by: i64) {
        let edge = self.edges.entry((op, at)).or_default();
        *edge += by;
        if *edge == 0 {
            self.edges.remove(&(op, at));
        }
    }
}

impl Checker for Coverage {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        let by = match event.kind {
            EventKind::BioQueue => 1,
            EventKind::Complete { .. } | EventKind::BioAgain => -1,
            _ => return Ok(()),
        };
        // Events of a discard of several ranges do not list its ranges.
        if event.sectors > 0 && event.op != Op::Flush && event.op != Op::Discard {
            self.add(event.op, event.sector.get(), by);
            self.add(event.op, event.sector.get() + u64::from(event.sectors), -by);
        }
        Ok(())
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        let first: Vec<_> = self.edges.iter().take(4).collect();
        ensure(first.is_empty(), || {
            format!("queued and completed sectors differ from {first:?} on")
        })
    }
}

/// Time never goes backwards. On each driver tag an Issue is followed by a Requeue or a Complete,
/// and no request completes in the driver that was not issued.
#[derive(Default)]
pub(super) struct Order {
    last: Instant,
    started: BTreeMap<(u16, u32), (Op, u64, u64)>,
}

impl Checker for Order {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        ensure(event.time >= self.last, || format!("{event:?} after one at {:?}", self.last))?;
        self.last = event.time;
        let Some(tag) = event.tag else {
            let needs_tag = event.kind == EventKind::Issue;
            return ensure(!needs_tag, || format!("{event:?} without a tag"));
        };
        let key = (event.queue.0, tag.0);
        let (start, end) =
            (event.sector.get(), event.sector.get().saturating_add(event.sectors.into()));
        match event.kind {
            EventKind::Issue => {
                let before = self.started.insert(key, (event.op, start, end));
                ensure(before.is_none(), || {
                    format!("{event:?} while its tag has {before:?} in the driver")
                })
            }
            // The driver refused the request, so it was not started.
            EventKind::Requeue => {
                self.started.remove(&key);
                Ok(())
            }
            EventKind::Complete { status } => match self.started.get_mut(&key) {
                None => {
                    let at_end_of_flush = event.sectors == 0;
                    ensure(at_end_of_flush || !status.is_ok(), || {
                        format!("{event:?} was not issued")
                    })
                }
                Some(&mut (Op::Flush, ..)) => {
                    self.started.remove(&key);
                    ensure(event.op == Op::Flush, || format!("{event:?} completes a flush"))
                }
                Some((op, first, last)) => {
                    let fits = *op == event.op && *first == start && end <= *last;
                    let is_all = end >= *last || !status.is_ok();
                    let was = (*op, *first, *last);
                    *first = end;
                    if is_all {
                        self.started.remove(&key);
                    }
                    ensure(fits, || format!("{event:?} completes {was:?}"))
                }
            },
            _ => Ok(()),
        }
    }
    fn on_idle(&mut self, _: &World) -> CheckResult {
        ensure(self.started.is_empty(), || format!("issued and never over: {:?}", self.started))
    }
}

/// An empty flush succeeds only after a device flush has succeeded that was issued after the empty
/// flush was allocated. If the device cannot write through its cache, a durable write succeeds only
/// after the success of a device flush that was issued after its data was written.
#[derive(Default)]
pub(super) struct Flush {
    index: u64,
    /// Index of the Issue event of the flush in flight, and of the last one that succeeded, by
    /// hardware queue.
    under_way: BTreeMap<u16, u64>,
    flushed: BTreeMap<u16, u64>,
    /// Allocated empty flushes, by hardware queue, in order.
    waiting: BTreeMap<u16, VecDeque<u64>>,
    /// Durable writes by hardware queue and first sector: when their data was written, if it was.
    durable: BTreeMap<(u16, Sector), VecDeque<Option<u64>>>,
}

impl Flush {
    fn on_complete(&mut self, event: &Event, is_ok: bool) -> CheckResult {
        let queue = event.queue.0;
        if event.op == Op::Flush {
            if let Some(issued) = self.under_way.remove(&queue).filter(|_| is_ok) {
                self.flushed.insert(queue, issued);
            }
            return Ok(());
        }
        let flushed = self.flushed.get(&queue).copied().unwrap_or(0);
        let after = |since: u64| {
            ensure(!is_ok || flushed > since, || format!("{event:?}: nothing was flushed for it"))
        };
        let key = (queue, event.sector);
        // An empty flush reports sector 0, which no job of the swarm writes.
        if event.sectors == 0 && event.sector == Sector::ZERO {
            return match self.waiting.get_mut(&queue).and_then(VecDeque::pop_front) {
                Some(since) => after(since),
                None => Err(Finding(format!("{event:?} was never allocated"))),
            };
        }
        let Some(writes) = self.durable.get_mut(&key) else { return Ok(()) };
        if event.sectors > 0 {
            if let Some(written) = writes.iter_mut().find(|written| written.is_none()) {
                *written = Some(self.index);
            }
            return Ok(());
        }
        let written = writes.pop_front().flatten();
        if writes.is_empty() {
            self.durable.remove(&key);
        }
        match written {
            Some(since) => after(since),
            None => ensure(!is_ok, || format!("{event:?}: its data was never written")),
        }
    }
}

impl Checker for Flush {
    fn on_event(&mut self, world: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        self.index += 1;
        let queue = event.queue.0;
        match event.kind {
            EventKind::GetRequest
                if event.sectors == 0 && event.flags.contains(Flags::PREFLUSH) =>
            {
                self.waiting.entry(queue).or_default().push_back(self.index);
            }
            EventKind::GetRequest
                if event.flags.contains(Flags::FUA)
                    && world.limits.write_cache
                    && !world.limits.fua =>
            {
                self.durable.entry((queue, event.sector)).or_default().push_back(None);
            }
            EventKind::Issue if event.op == Op::Flush => {
                self.under_way.insert(queue, self.index);
            }
            EventKind::Complete { status } => return self.on_complete(event, status.is_ok()),
            _ => {}
        }
        Ok(())
    }
}

/// Every counter equals the number of its events.
#[derive(Default)]
pub(super) struct EventCounts {
    kinds: BTreeMap<&'static str, u64>,
    merges: [u64; 3],
    sectors: [u64; 3],
    done: [u64; 3],
    data_issues: u64,
    flushes: u64,
}

/// Returns the name that a kind of event has in the counters.
pub(crate) const fn name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::BioQueue => "bios",
        EventKind::Split { .. } => "splits",
        EventKind::GetRequest => "requests",
        EventKind::IoStart => "starts",
        EventKind::Plug => "plugs",
        EventKind::Unplug { .. } => "unplugs",
        EventKind::BackMerge => "back merges",
        EventKind::FrontMerge => "front merges",
        EventKind::RequestMerge => "request merges",
        EventKind::Insert => "inserts",
        EventKind::Issue => "issues",
        EventKind::Requeue => "requeues",
        EventKind::Complete { .. } => "completions",
        EventKind::BioAgain => "tries",
        EventKind::IoDone { is_request: true } => "ends",
        EventKind::IoDone { is_request: false } => "ends of steps",
        EventKind::TagWait { .. } => "tag waits",
    }
}

impl EventCounts {
    fn of(&self, name: &str) -> u64 {
        self.kinds.get(name).copied().unwrap_or(0)
    }
}

impl Checker for EventCounts {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        *self.kinds.entry(name(&event.kind)).or_default() += 1;
        let group = event.op.stat_group() as usize;
        match event.kind {
            EventKind::BackMerge | EventKind::FrontMerge | EventKind::RequestMerge => {
                self.merges[group] += 1;
            }
            EventKind::Issue => self.data_issues += u64::from(event.op.has_data()),
            EventKind::Complete { .. } if event.op == Op::Flush => self.flushes += 1,
            EventKind::Complete { .. } => self.sectors[group] += u64::from(event.sectors),
            EventKind::IoDone { is_request: true } => self.done[group] += 1,
            _ => {}
        }
        Ok(())
    }

    fn on_end(&mut self, world: &World, end: &End) -> CheckResult {
        let (disk, counters) = (&end.disk, &end.counters);
        let same = |what: &str, counted: u64, events: u64| {
            ensure(counted == events, || {
                format!("{what}: {counted} counted, {events} by the events")
            })
        };
        same("bios", counters.bios, self.of("bios"))?;
        same("splits", counters.splits, self.of("splits"))?;
        // As in the kernel, a range that joins a discard of several ranges leaves no event.
        let silent = world.limits.max_discard_segments > 1;
        let joined = counters.back_merges - self.of("back merges").min(counters.back_merges);
        ensure(joined == 0 || silent, || format!("{joined} back merges without an event"))?;
        same("front merges", counters.front_merges, self.of("front merges"))?;
        same("request merges", counters.request_merges, self.of("request merges"))?;
        same("issued", counters.issued, self.of("issues"))?;
        same("requeues", counters.requeues, self.of("requeues"))?;
        same("issued by size", counters.sizes.iter().flatten().sum(), self.data_issues)?;
        same("flushes", disk.flushes, self.flushes)?;
        // A bio that was tried in vain is queued again, by a worker.
        let bios = self.of("bios") + self.of("splits") - self.of("tries");
        let merged = counters.back_merges + counters.front_merges;
        same("requests", bios - merged, self.of("requests"))?;
        for group in [StatGroup::Read, StatGroup::Write, StatGroup::Discard] {
            let (stat, at) = (&disk.groups[group as usize], group as usize);
            let unseen = if group == StatGroup::Discard { joined } else { 0 };
            same("merges of a group", stat.merges, self.merges[at] + unseen)?;
            same("sectors of a group", stat.sectors, self.sectors[at])?;
            if world.rules.io_start_events {
                same("requests of a group", stat.ios, self.done[at])?;
            }
        }
        if world.rules.io_start_events {
            same(
                "requests ended",
                self.of("ends") + self.of("request merges"),
                self.of("requests"),
            )?;
        }
        if world.rules.tag_wait_event {
            same("sleeps for a tag", counters.tag_waits, self.of("tag waits"))?;
        }
        same("in flight", disk.in_flight, 0)
    }
}

/// Little's law: the integral of requests in flight equals the one computed from events and, if no
/// requests were merged, the sum of the requests' times.
#[derive(Default)]
pub(super) struct Little {
    in_flight: u128,
    integral: u128,
    last: Instant,
    merges: u64,
}

impl Checker for Little {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        let span = event.time.since(self.last).get();
        self.integral += u128::from(span) * self.in_flight;
        self.last = event.time;
        match event.kind {
            EventKind::IoStart => self.in_flight += 1,
            EventKind::IoDone { is_request: true } => self.in_flight -= 1,
            EventKind::RequestMerge => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.merges += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn on_end(&mut self, world: &World, end: &End) -> CheckResult {
        let counted = end.disk.in_flight_integral;
        if world.rules.io_start_events {
            let events = self.integral;
            ensure(counted == events, || {
                format!("integral in flight: {counted} counted, {events} by the events")
            })?;
        }
        let times: u128 = end.disk.groups.iter().map(|group| u128::from(group.ticks.get())).sum();
        ensure(self.merges > 0 || counted == times, || {
            format!("integral in flight {counted}, sum of times {times}")
        })
    }
}
