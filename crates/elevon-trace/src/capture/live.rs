//! Events as they come: pages are decoded at once, and the events of all CPUs put in order.

use std::path::PathBuf;

use super::decode::Decoder;
use super::error::CaptureError;
use super::page::{Missed, PageLayout};
use super::session::Session;
use super::threads::Threads;
use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::format::TraceFormat;
use crate::names::Names;
use crate::reader::Traced;
use crate::report::{Gap, Position, ReadReport};
use crate::sink::Sink;

/// Threads that are known at a time. Numbers of threads are used again, so a name may not be kept
/// for ever.
const MAX_THREADS: usize = 1 << 14;

/// Block events of a running kernel, in order of time.
///
/// An event is delivered by the second call of [`Self::take`] after it was recorded: a CPU's
/// buffer may have an older event than one that was read from another CPU.
pub struct Live {
    session: Session,
    layout: PageLayout,
    decoder: Decoder,
    threads: Threads,
    sink: Sink,
    /// CPUs, in the order of the session, with what was lost before the next event of each.
    cpus: Vec<(u32, Option<Missed>)>,
    /// Time up to which the next call delivers: all CPUs were read after it.
    horizon: u64,
    decoded: u64,
    unknown: u64,
    procfs: PathBuf,
    new_processes: Vec<u32>,
}

impl Live {
    /// Takes over a session. The processes of threads are looked up in `procfs`, `/proc`.
    pub fn new(session: Session, procfs: PathBuf) -> Self {
        let mut sink = Sink::new(ReadReport::new(TraceFormat::Ftrace));
        let names = session.table("saved_cmdlines");
        let threads = Threads::from_tables(&[], &names, &mut sink.names);
        let cpus = session.cpu_numbers().map(|cpu| (cpu, None)).collect();
        let (layout, decoder) = (session.layout, session.decoder.clone());
        Self {
            session,
            layout,
            decoder,
            threads,
            sink,
            cpus,
            horizon: 0,
            decoded: 0,
            unknown: 0,
            procfs,
            new_processes: Vec::new(),
        }
    }

    /// The trace instance.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the number of records so far.
    pub const fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Lets the kernel record no events until [`Self::follow`]. Until then they cost the watched
    /// nothing. The caller says with [`Self::skip`] for how long that is.
    ///
    /// # Errors
    /// Of tracefs.
    pub fn rest(&self) -> Result<(), CaptureError> {
        self.session.stop()?;
        self.session.set_events(false)
    }

    /// Lets the kernel record events again after [`Self::rest`].
    ///
    /// # Errors
    /// Of tracefs.
    pub fn follow(&self) -> Result<(), CaptureError> {
        // All kinds of events begin at one moment, so that no request lacks its beginning alone.
        self.session.set_events(true)?;
        self.session.begin()
    }

    /// Records the events of these disks from now on.
    ///
    /// # Errors
    /// Of tracefs.
    pub fn set_devices(&self, devices: &[DeviceNumber]) -> Result<(), CaptureError> {
        self.session.set_devices(devices)
    }

    /// Returns the processes of the threads that were seen for the first time in the last call of
    /// [`Self::take`]. A caller that wants the cgroup of one looks it up at once: it may end soon.
    pub fn new_processes(&self) -> &[u32] {
        &self.new_processes
    }

    /// Says that no events were followed from a time, which is after the last call of
    /// [`Self::take`], until another one. They do not count as lost.
    pub fn skip(&mut self, from: u64, until: u64) {
        let mut event = TraceEvent::new(TraceKind::Lost { events: None, until: Some(until) });
        event.time = Some(from);
        self.sink.push(event, 0, Position::Byte(0));
    }

    /// Returns the number of records that could not be decoded so far.
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Takes what the kernel has recorded, and returns the time up to which [`Self::events`] has
    /// events: the `now` of the call before. `now` is a time of the trace's clock that is not later
    /// than the present. No event of before `now` comes after the next call.
    ///
    /// # Errors
    /// Of tracefs.
    pub fn take(&mut self, now: u64) -> Result<u64, CaptureError> {
        self.sink.drop_delivered();
        self.new_processes.clear();
        if self.threads.len() > MAX_THREADS {
            self.threads.forget();
        }
        let Self {
            session,
            layout,
            decoder,
            threads,
            sink,
            cpus,
            decoded,
            unknown,
            procfs,
            new_processes,
            horizon: _,
        } = self;
        session.take(&mut |at, page| {
            let (cpu, missed) = &mut cpus[at];
            if let Some(more) = layout.missed(page) {
                *missed = Some(missed.map_or(more, |before| before.and(more)));
            }
            for (time, place) in layout.entries(page) {
                *decoded += 1;
                let Some(record) = decoder.decode(&page[place]) else {
                    *unknown += 1;
                    continue;
                };
                if let Some(thread) = record.event.tid {
                    threads.processes.entry(thread).or_insert_with(|| {
                        let process = process_of(thread, procfs);
                        new_processes.push(process);
                        process
                    });
                }
                if let Some(missed) = missed.take() {
                    let (from, until) = (Some(time), Some(time));
                    sink.push_gap(Gap { cpu: Some(*cpu), events: missed.events, from, until });
                }
                if let Some(event) = threads.event(&record, time, *cpu, &mut sink.names) {
                    sink.push(event, 0, Position::Byte(0));
                }
            }
            Ok(())
        })?;
        let until = self.horizon;
        self.horizon = now.max(until);
        self.sink.deliver_until(until);
        Ok(until)
    }

    /// Returns the events that [`Self::take`] delivered last, in order of time.
    pub fn events(&self) -> &[TraceEvent] {
        self.sink.delivered()
    }

    /// Ends the recording and removes the trace instance.
    ///
    /// # Errors
    /// Of tracefs.
    pub fn end(self) -> Result<(), CaptureError> {
        self.session.stop()?;
        self.session.remove()
    }
}

impl Traced for Live {
    fn names(&self) -> &Names {
        &self.sink.names
    }

    fn report(&self) -> &ReadReport {
        &self.sink.report
    }
}

/// Returns the process of a thread; the thread itself if it is gone.
fn process_of(thread: u32, procfs: &std::path::Path) -> u32 {
    let status = std::fs::read_to_string(procfs.join(format!("{thread}/status")));
    let line = status.as_ref().ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    });
    line.unwrap_or(thread)
}
