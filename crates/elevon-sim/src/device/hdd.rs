//! A hard disk: zones, seek curve, rotation, read-ahead, NCQ with shortest positioning time first,
//! a volatile write cache.
//!
//! A command that needs the medium costs overhead + seek + margin + rotational wait + transfer. The
//! overhead runs first; at its end the drive chooses among all its commands, including those that
//! arrived meanwhile. Reads inside a read-ahead segment, and writes that fit into the cache, use
//! only the interface: overhead of a hit plus transfer, one after another. Sectors that were never
//! written cost the same as others, because the disk has to rotate in any case.
//!
//! Not modelled: reads served from dirty data, defects and their remapping, thermal recalibration.
//!
//! Cost: O(depth) per command for the choice (some nanoseconds per queued one), O(segments) for the
//! cache look-up; with dirty data O(drain window) per extent written. Nothing is allocated in
//! steady state. `benches/devices.rs` shows it.

mod dirty;
mod geometry;
mod parameters;
mod read_ahead;
#[cfg(test)]
mod tests;

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sector};

pub use geometry::SeekCurve;
pub use parameters::HddParameters;

use super::queue::EventQueue;
use super::slots::transfer;
use super::{Description, Device, in_range};
use dirty::{Dirty, Waiting};
use geometry::{Geometry, SectorPosition};
use read_ahead::{ReadAhead, Span};

/// The state of the arm.
#[derive(Clone, Copy, Debug)]
enum Arm {
    /// Idle, or reading ahead. Dirty data is written from `drain_at` on.
    Idle { drain_at: Option<Instant> },
    /// The command overhead runs; at its end the next job is chosen.
    Deciding { at: Instant },
    /// A job is in progress; it ends at `at`.
    Busy { at: Instant, job: Job },
}

impl Arm {
    const fn next_at(&self) -> Option<Instant> {
        match *self {
            Self::Idle { drain_at } => drain_at,
            Self::Deciding { at } | Self::Busy { at, .. } => Some(at),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Job {
    /// A command at the medium; `aborted` if the host does not wait for it any more.
    Media { pending: Pending, aborted: bool },
    /// An extent of the write cache is written; `end` is its end.
    Drain { end: Sector },
    /// Reads that the read-ahead serves as it proceeds; their completions are queued already.
    Stream,
}

/// A command that waits for the medium.
#[derive(Clone, Copy, Debug)]
struct Pending {
    command: Command,
    span: Span,
    /// How far the drive reads ahead past its end, in track time.
    ahead: u64,
    /// Position of the arm after it.
    end_x: u32,
}

/// The part of a pending command that the choice needs, stored separately so that it scans little
/// memory.
#[derive(Clone, Copy, Debug)]
struct Target {
    x: u32,
    angle: u32,
    /// Track time of its start; `u64::MAX` for writes, which the read-ahead cannot serve.
    start: u64,
    arrived: Instant,
}

enum Choice {
    Command(usize),
    Extent(usize),
}

/// A hard disk.
#[derive(Clone, Debug)]
pub struct Hdd {
    description: Description,
    parameters: HddParameters,
    geometry: Geometry,
    arm: Arm,
    /// Position of the arm.
    x: u32,
    /// The next sector under the head, if the last job ended just now.
    under_head: Option<Sector>,
    pending: Vec<Pending>,
    targets: Vec<Target>,
    read_ahead: ReadAhead,
    dirty: Dirty,
    link_free: Instant,
    completions: EventQueue<Completion>,
}

impl Hdd {
    /// Returns an idle drive with these parameters; at the clock's start its arm is at the outer
    /// edge and its platter at angle 0.
    pub fn new(parameters: &HddParameters) -> Self {
        let p = parameters;
        let description = p.description();
        let geometry = Geometry::new(
            description.size,
            p.rpm,
            p.outer_rate,
            p.inner_permille,
            &p.seek,
            p.margin,
        );
        let depth = description.capacity();
        Self {
            arm: Arm::Idle { drain_at: None },
            x: 0,
            under_head: None,
            pending: Vec::with_capacity(depth),
            targets: Vec::with_capacity(depth),
            read_ahead: ReadAhead::new(p.segments, geometry.total()),
            dirty: Dirty::new(p.cache, p.write_extents),
            link_free: Instant::default(),
            completions: EventQueue::with_capacity(depth),
            parameters: parameters.clone(),
            description,
            geometry,
        }
    }

    /// Occupies the interface for a transfer that does not need the medium. Returns when it ends.
    fn take_link(&mut self, now: Instant, bytes: Bytes) -> Instant {
        self.link_free = self.link_free.max(now)
            + self.parameters.overhead_hit
            + transfer(bytes, self.parameters.link);
        self.link_free
    }

    /// Returns the command with its positions.
    fn pending(&self, command: &Command) -> (Pending, SectorPosition) {
        let start = self.geometry.locate(command.sector);
        let end = self.geometry.locate(command.sector + command.bytes.sectors_ceil());
        let ahead =
            self.geometry.read_time(command.sector, self.parameters.read_ahead.sectors_floor());
        let span = Span { start: start.track_time, end: end.track_time };
        (Pending { command: *command, span, ahead, end_x: end.x }, start)
    }

    fn read(&mut self, now: Instant, command: &Command) {
        let (pending, place) = self.pending(command);
        if self.read_ahead.hit(now.get(), pending.span, pending.ahead) {
            let end = self.take_link(now, command.bytes);
            self.completions.push(end, command.sequence, Completion::success(command));
            return;
        }
        self.enqueue(now, pending, place);
    }

    fn enqueue(&mut self, now: Instant, pending: Pending, place: SectorPosition) {
        let start = if pending.command.op == Op::Read { place.track_time } else { u64::MAX };
        self.targets.push(Target { x: place.x, angle: place.angle, start, arrived: now });
        self.pending.push(pending);
        match self.arm {
            Arm::Idle { .. } => self.decide(now),
            // The read-ahead is serving other reads already, and may serve this one too.
            Arm::Busy { at, job: Job::Stream } if self.pending.len() == 1 => {
                if let Some(later) = self.stream(now) {
                    self.arm = Arm::Busy { at: at.max(later), job: Job::Stream };
                }
            }
            Arm::Deciding { .. } | Arm::Busy { .. } => {}
        }
    }

    fn write(&mut self, now: Instant, command: &Command) {
        let (pending, place) = self.pending(command);
        self.read_ahead.invalidate(now.get(), pending.span);
        if !self.parameters.write_cache || command.flags.contains(Flags::FUA) {
            self.enqueue(now, pending, place);
        } else if self.dirty.has_room(command.bytes) {
            self.accept_write(now, command, place);
        } else {
            self.dirty.wait(Waiting::Write(*command, place));
        }
        self.wake(now);
    }

    fn accept_write(&mut self, now: Instant, command: &Command, place: SectorPosition) {
        self.dirty.add(command, place);
        let end = self.take_link(now, command.bytes);
        self.completions.push(end, command.sequence, Completion::success(command));
    }

    fn flush(&mut self, now: Instant, command: &Command) {
        if !self.dirty.waits_in_order() {
            self.start_flush(now, command);
        } else {
            self.dirty.wait(Waiting::Flush(*command));
        }
        self.wake(now);
    }

    fn start_flush(&mut self, now: Instant, command: &Command) {
        if self.dirty.is_clean() {
            let end = self.take_link(now, Bytes::ZERO);
            self.completions.push(end, command.sequence, Completion::success(command));
        } else {
            self.dirty.flush(command, Completion::success(command));
        }
    }

    /// Handles new work, which may be more urgent than what an idle arm waits for.
    fn wake(&mut self, now: Instant) {
        if matches!(self.arm, Arm::Idle { .. }) {
            self.decide(now);
        }
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.pending.len()).min_by_key(|&i| self.pending[i].command.sequence)
    }

    fn is_starved(&self, now: Instant) -> bool {
        self.targets.iter().any(|target| now.since(target.arrived) > self.parameters.starvation)
    }

    /// Selects the next action of a free arm.
    fn decide(&mut self, now: Instant) {
        if let Some(at) = self.stream(now) {
            self.arm = Arm::Busy { at, job: Job::Stream };
            return;
        }
        let draining = self.pending.is_empty();
        if draining && self.continues().is_some() {
            self.choose(now);
            return;
        }
        let at = now + self.parameters.overhead_miss;
        let planned = if let Arm::Idle { drain_at } = self.arm { drain_at } else { None };
        self.arm = if !draining {
            Arm::Deciding { at }
        } else if self.dirty.is_urgent() {
            Arm::Deciding { at: planned.unwrap_or(at).min(at) }
        } else if self.dirty.is_clean() {
            Arm::Idle { drain_at: None }
        } else {
            // Reading ahead comes first while its segment has room.
            let full = self.read_ahead.full_at(now.get()).map_or(now, Instant::new);
            Arm::Idle { drain_at: planned.or(Some(full + self.parameters.overhead_miss)) }
        };
    }

    /// Returns the extent that begins under the head now.
    fn continues(&self) -> Option<usize> {
        let sector = self.under_head?;
        let window = self.parameters.drain_window as usize;
        self.dirty
            .candidates(window)
            .find(|(_, extent)| extent.start == sector)
            .map(|(index, _)| index)
    }

    /// Lets the read-ahead serve all pending reads that it will reach, in the order of the medium,
    /// because it frees what is behind each. Returns when it has served them. If a read has
    /// starved, only if the oldest is among them.
    fn stream(&mut self, now: Instant) -> Option<Instant> {
        let mut until = None;
        loop {
            let window = self.read_ahead.window(now.get(), self.geometry.turn().into());
            let within =
                |target: &Target| window.start <= target.start && target.start < window.end;
            let next = (0..self.targets.len())
                .filter(|&i| within(&self.targets[i]))
                .min_by_key(|&i| self.targets[i].start);
            let Some(index) = next else { break };
            if self.is_starved(now)
                && !self.oldest().is_some_and(|oldest| within(&self.targets[oldest]))
            {
                break;
            }
            let Pending { command, span, ahead, .. } = self.take_pending(index);
            let at = Instant::new(self.read_ahead.attach(now.get(), span, ahead));
            let end = self.take_link(now, command.bytes).max(at);
            self.completions.push(end, command.sequence, Completion::success(&command));
            until = until.max(Some(at));
        }
        until
    }

    fn take_pending(&mut self, index: usize) -> Pending {
        self.targets.swap_remove(index);
        self.pending.swap_remove(index)
    }

    /// Chooses the job with the shortest positioning time at the end of the overhead, if the
    /// read-ahead does not serve commands that arrived meanwhile.
    fn choose(&mut self, now: Instant) {
        if let Some(at) = self.stream(now) {
            self.arm = Arm::Busy { at, job: Job::Stream };
            return;
        }
        let angle = (now.get() % u64::from(self.geometry.turn())) as u32;
        let Some((choice, wait)) = self.shortest(now, angle) else {
            self.decide(now);
            return;
        };
        self.read_ahead.preempt(now.get());
        let (transfer, job) = match choice {
            Choice::Command(index) => {
                let pending = self.take_pending(index);
                (pending.span.end - pending.span.start, Job::Media { pending, aborted: false })
            }
            Choice::Extent(index) => {
                let Some(extent) = self.dirty.start(index) else { return };
                let transfer =
                    self.geometry.locate(extent.end).track_time - extent.place.track_time;
                (transfer, Job::Drain { end: extent.end })
            }
        };
        self.arm = Arm::Busy { at: now + Nanos::new(u64::from(wait) + transfer), job };
    }

    /// Returns the next job and its positioning time. Commands of the host go before idle draining;
    /// with a full cache or a flush, draining competes with them.
    fn shortest(&self, now: Instant, angle: u32) -> Option<(Choice, u32)> {
        let cost = |x, target_angle| self.geometry.positioning(self.x, angle, x, target_angle);
        if !self.pending.is_empty() && (!self.parameters.sptf || self.is_starved(now)) {
            let index = self.oldest()?;
            return Some((
                Choice::Command(index),
                cost(self.targets[index].x, self.targets[index].angle),
            ));
        }
        let (mut least, mut nearest) = (u32::MAX, None);
        for (index, target) in self.targets.iter().enumerate() {
            let wait = cost(target.x, target.angle);
            nearest = if wait < least { Some(index) } else { nearest };
            least = least.min(wait);
        }
        let mut best = nearest.map(|index| (Choice::Command(index), least));
        if best.is_some() && !self.dirty.is_urgent() {
            return best;
        }
        if let Some(index) = self.continues() {
            return Some((Choice::Extent(index), 0));
        }
        for (index, extent) in self.dirty.candidates(self.parameters.drain_window as usize) {
            let wait = cost(extent.place.x, extent.place.angle);
            if wait < least {
                least = wait;
                best = Some((Choice::Extent(index), wait));
            }
        }
        best
    }

    /// Runs the internal step that is due.
    fn step(&mut self, now: Instant) {
        match self.arm {
            Arm::Idle { .. } | Arm::Deciding { .. } => {
                self.arm = Arm::Idle { drain_at: None };
                self.choose(now);
            }
            Arm::Busy { job, .. } => {
                self.arm = Arm::Idle { drain_at: None };
                self.finish(now, job);
                self.decide(now);
                self.under_head = None;
            }
        }
    }

    fn finish(&mut self, now: Instant, job: Job) {
        match job {
            Job::Stream => {}
            Job::Media { pending: Pending { command, span, ahead, end_x }, aborted } => {
                self.x = end_x;
                self.under_head = Some(command.sector + command.bytes.sectors_ceil());
                if command.op == Op::Read {
                    self.read_ahead.start(now.get(), span, ahead);
                }
                if !aborted {
                    self.completions.push(now, command.sequence, Completion::success(&command));
                }
            }
            Job::Drain { end } => {
                self.x = self.geometry.locate(end).x;
                self.under_head = Some(end);
                self.dirty.finish();
                self.after_drain(now);
            }
        }
    }

    /// Uses free room in the cache: completes flushes that are done, then accepts waiting writes.
    fn after_drain(&mut self, now: Instant) {
        while let Some((sequence, completion)) = self.dirty.flushed() {
            let end = self.take_link(now, Bytes::ZERO);
            self.completions.push(end, sequence, completion);
        }
        while let Some(waiting) = self.dirty.admit() {
            match waiting {
                Waiting::Write(command, place) => self.accept_write(now, &command, place),
                Waiting::Flush(command) => self.start_flush(now, &command),
            }
        }
    }
}

impl Device for Hdd {
    fn description(&self) -> &Description {
        &self.description
    }

    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        if !in_range(&self.description, command) {
            return Accept::Error(Status::IoError);
        }
        match command.op {
            Op::Read => self.read(now, command),
            Op::Write => self.write(now, command),
            Op::Flush => self.flush(now, command),
            Op::Discard | Op::SecureErase | Op::ZoneAppend | Op::WriteZeroes => {
                return Accept::Error(Status::NotSupported);
            }
        }
        Accept::Ok
    }

    fn next_event(&self) -> Option<Instant> {
        match (self.completions.next_at(), self.arm.next_at()) {
            (Some(completion), Some(step)) => Some(completion.min(step)),
            (one, other) => one.or(other),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        loop {
            // Internal steps come before completions of the same instant: they may complete a
            // command with a lower sequence number.
            let completion = self.completions.next_at().unwrap_or(Instant::MAX);
            match self.arm.next_at() {
                Some(step) if step <= now && step <= completion => self.step(step),
                _ => return self.completions.pop_due(now).map(|(_, completion)| completion),
            }
        }
    }

    fn abort(&mut self, _now: Instant, command: &Command) -> bool {
        if let Arm::Busy { job: Job::Media { pending, aborted }, .. } = &mut self.arm
            && pending.command.sequence == command.sequence
        {
            return !core::mem::replace(aborted, true);
        }
        if let Some(index) =
            self.pending.iter().position(|p| p.command.sequence == command.sequence)
        {
            self.take_pending(index);
            return true;
        }
        self.dirty.abort(command.sequence) || self.completions.remove(command.sequence).is_some()
    }
}
