//! Events of this machine's disks, and the watch that takes them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_host::uptime::monotonic_ns;
use elevon_plan::failure::Failure;
use elevon_trace::Traced as _;
use elevon_trace::capture::{CaptureOptions, Disk, History, Live, Session, Tracefs};
#[cfg(feature = "terminal")]
use elevon_trace::{DeviceNumber, Recorded, TraceEvent};
use elevon_watch::{GroupBy, Now, Totals, Watch};

use super::guard::Guard;
use super::machine::{Partitions, Processes, disks_to_watch, io_ticks, settings};
#[cfg(feature = "terminal")]
use super::requests;
use super::sampler::{Sampler, Step};
use super::{failure, say_leftovers};
#[cfg(feature = "terminal")]
use crate::capture::note_kernel;

/// How often the kernel's buffers are emptied.
const PERIOD: Duration = Duration::from_millis(50);
/// Slices between two looks at the settings of disks.
const LOOK_AT_SETTINGS: u32 = 5;
/// Events that are kept for a trace, of all disks together: about 70 MB.
const MAX_EVENTS: usize = 400_000;
/// Nanoseconds for which they are kept: two minutes.
const KEPT_FOR: u64 = 120_000_000_000;
/// The clock of traces that this process can read, too.
const CLOCK: &str = "mono";
/// The kernel's table of disks.
const PARTITIONS: &str = "/proc/partitions";

/// Disks with their events.
pub(super) struct Source {
    // The live events are dropped first: the guard ends when the instance is gone.
    live: Live,
    _guard: Guard,
    watch: Watch,
    disks: Vec<Disk>,
    /// Tells of disks that come and go, if all are watched.
    partitions: Option<Partitions>,
    processes: Processes,
    history: History,
    slices: u32,
    /// Which part of the time is followed; none if the trace's clock cannot be read.
    sampler: Option<Sampler>,
}

impl Source {
    /// Begins to watch disks; if these are all disks, those that come later, too.
    ///
    /// # Errors
    /// Everything that prevents a recording.
    pub(super) fn open(
        disks: Vec<Disk>,
        are_all: bool,
        tracefs: Option<&Path>,
        buffer_kb: u64,
    ) -> Result<Self, Failure> {
        let tracefs = match tracefs {
            Some(path) => Tracefs::at(path.to_owned()),
            None => Tracefs::find().map_err(failure)?,
        };
        let devices = disks.iter().map(|disk| disk.device).collect();
        let options = CaptureOptions { devices, buffer_kb };
        let session = Session::new(tracefs, &options).map_err(failure)?;
        say_leftovers(session.leftovers());
        let guard = Guard::new(session.folder());
        let is_known = session.clock() == CLOCK;
        let now = if is_known { monotonic_ns() } else { 0 };
        let mut watch = Watch::new(now);
        for disk in &disks {
            watch.add_disk(disk.name.clone(), disk.device, settings(disk));
        }
        session.begin().map_err(failure)?;
        let live = Live::new(session, PathBuf::from("/proc"));
        let mut source = Self {
            live,
            _guard: guard,
            watch,
            disks,
            partitions: are_all.then(|| Partitions::new(PARTITIONS.into())),
            processes: Processes::default(),
            history: History::new(MAX_EVENTS),
            slices: 0,
            sampler: is_known.then(|| Sampler::new(now)),
        };
        source.look_at_machine();
        Ok(source)
    }

    /// The watch.
    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns what the last seconds were like.
    pub(super) fn now(&mut self, seconds: usize, by: GroupBy) -> Now {
        self.watch.now(seconds, by, &mut self.processes)
    }

    /// Returns what a second was like after which so many have ended.
    #[cfg(feature = "terminal")]
    pub(super) fn second(&mut self, back: usize, by: GroupBy) -> Now {
        self.watch.second(back, by, &mut self.processes)
    }

    /// Counts the seconds that have ended since the last call.
    pub(super) fn count(&mut self, totals: &mut Totals) {
        totals.take(&self.watch, &mut self.processes);
    }

    /// Takes what has happened. Returns true if a slice of a second has ended.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn take(&mut self) -> Result<bool, Failure> {
        self.sample()?;
        let before = self.recorded();
        let until = self.live.take(monotonic_ns()).map_err(failure)?;
        let recorded = self.recorded();
        if let Some(sampler) = &mut self.sampler {
            sampler.count(recorded.saturating_sub(before));
        }
        let has_ended = self.watch.add(until, self.live.events(), &self.live);
        self.history.add(self.live.events());
        for &process in self.live.new_processes() {
            self.processes.note(process);
        }
        if has_ended {
            self.history.forget_before(until.saturating_sub(KEPT_FOR));
            self.look_at_disks()?;
            self.look_at_machine();
            self.processes.forget_old();
            self.watch.look_at_processes(&mut self.processes);
        }
        Ok(has_ended)
    }

    /// Returns the events so far, those included that were lost: they have cost the watched.
    fn recorded(&self) -> u64 {
        self.live.decoded() + self.live.report().lost
    }

    /// Follows disks that have come, and leaves those that are gone.
    fn look_at_disks(&mut self) -> Result<(), Failure> {
        if !self.partitions.as_mut().is_some_and(Partitions::have_changed) {
            return Ok(());
        }
        let disks = disks_to_watch(&[])?;
        let devices: Vec<_> = disks.iter().map(|disk| disk.device).collect();
        for disk in self.disks.iter().filter(|disk| !devices.contains(&disk.device)) {
            self.watch.remove_disk(disk.device);
        }
        for disk in &disks {
            if !self.disks.iter().any(|known| known.device == disk.device) {
                self.watch.add_disk(disk.name.clone(), disk.device, settings(disk));
            }
        }
        self.disks = disks;
        // No disk is no filter, which has the events of all.
        self.live.set_devices(&devices).map_err(failure)
    }

    /// Begins or ends to follow events, if it is time for that.
    fn sample(&mut self) -> Result<(), Failure> {
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        match sampler.step(monotonic_ns()) {
            Step::Stay => {}
            Step::Rest { until } => {
                self.live.rest().map_err(failure)?;
                self.live.skip(monotonic_ns(), until);
            }
            Step::RestOn { from, until } => self.live.skip(from, until),
            Step::Follow { from } => {
                self.live.follow().map_err(failure)?;
                let now = monotonic_ns();
                self.live.skip(from, now);
                sampler.has_begun(now);
            }
        }
        Ok(())
    }

    /// Returns how long the kernel may record before the next call of [`Self::take`].
    pub(super) fn patience(&self) -> Duration {
        let change = self.sampler.as_ref().and_then(|sampler| sampler.change(monotonic_ns()));
        change.map_or(PERIOD, |nanos| PERIOD.min(Duration::from_nanos(nanos)))
    }

    /// Waits a moment for the kernel to record.
    pub(super) fn pause(&self) {
        std::thread::sleep(self.patience());
    }

    /// Waits until a slice of a second has ended. Returns false if a signal came.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn wait_for_slice(&mut self, interrupt: &Interrupt) -> Result<bool, Failure> {
        loop {
            if interrupt.is_set() {
                return Ok(false);
            }
            if self.take()? {
                return Ok(true);
            }
            self.pause();
        }
    }

    /// Reads the kernel's own figures of the disks, and now and then their settings.
    fn look_at_machine(&mut self) {
        let now = monotonic_ns();
        for disk in &self.disks {
            if let Some(ticks) = io_ticks(&disk.name) {
                self.watch.set_ticks(disk.device, now, ticks);
            }
            if self.slices.is_multiple_of(LOOK_AT_SETTINGS) {
                self.watch.set_settings(disk.device, settings(disk));
            }
        }
        self.slices = self.slices.wrapping_add(1);
    }

    /// Returns true if there are events of a disk in the last minutes.
    #[cfg(feature = "terminal")]
    pub(super) fn has_events(&self, device: DeviceNumber) -> bool {
        self.history.events().any(|event| event.device == Some(device))
    }

    /// Writes the last events of a disk as a trace for `inspect`, `replay` and `advise`. Returns
    /// the seconds that it has.
    ///
    /// # Errors
    /// Of the file.
    #[cfg(feature = "terminal")]
    pub(super) fn save(&self, device: DeviceNumber, path: &Path) -> std::io::Result<f64> {
        let mut recorded = Recorded::default();
        note_kernel(&mut recorded);
        if let Some(disk) = self.disks.iter().find(|disk| disk.device == device) {
            disk.note_settings(&mut recorded);
        }
        let file = std::io::BufWriter::new(std::fs::File::create_new(path)?);
        let is_ours = |event: &TraceEvent| event.device.is_none_or(|of| of == device);
        let mut file = self.history.write(file, self.live.names(), &recorded, is_ours)?;
        std::io::Write::flush(&mut file)?;
        let (first, last) = self.history.span().unwrap_or((0, 0));
        Ok((last - first) as f64 / 1e9)
    }

    /// Returns the longest requests of a process on a disk, or of all processes, as lines: those of
    /// so many seconds, after which so many have ended.
    #[cfg(feature = "terminal")]
    pub(super) fn requests(
        &self,
        device: DeviceNumber,
        process: Option<u32>,
        seconds: usize,
        back: usize,
    ) -> Vec<String> {
        let end = self.watch.at() - back as u64 * Watch::SLICE;
        let span = end.saturating_sub(seconds as u64 * Watch::SLICE)..end;
        requests::longest(self.history.events(), &self.live, device, process, span)
    }

    /// Ends the recording and removes the trace instance.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.live.end().map_err(failure)
    }
}
