//! Events of this machine's disks, and the watch that takes them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_host::monotonic_ns;
use elevon_plan::failure::Failure;
use elevon_trace::capture::{CaptureOptions, Disk, Live, Session, Tracefs};
use elevon_watch::Watch;

use super::guard::Guard;
use super::machine::{io_ticks, settings};
use super::{failure, say_leftovers};

/// How often the kernel's buffers are emptied.
const PERIOD: Duration = Duration::from_millis(50);
/// Slices between two looks at the settings of disks.
const LOOK_AT_SETTINGS: u32 = 5;
/// The clock of traces that this process can read, too.
const CLOCK: &str = "mono";

/// Disks with their events.
pub(super) struct Source {
    // The live events are dropped first: the guard ends when the instance is gone.
    live: Live,
    _guard: Guard,
    watch: Watch,
    disks: Vec<Disk>,
    slices: u32,
}

impl Source {
    /// Begins to watch disks.
    ///
    /// # Errors
    /// Everything that prevents a recording.
    pub(super) fn open(
        disks: Vec<Disk>,
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
        let mut watch = Watch::new(if is_known { monotonic_ns() } else { 0 });
        for disk in &disks {
            watch.add_disk(disk.name.clone(), disk.device, settings(disk));
        }
        session.begin().map_err(failure)?;
        let live = Live::new(session, PathBuf::from("/proc"));
        let mut source = Self { live, _guard: guard, watch, disks, slices: 0 };
        source.look_at_machine();
        Ok(source)
    }

    /// The watch.
    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Takes what has happened. Returns true if a slice of a second has ended.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn take(&mut self) -> Result<bool, Failure> {
        let until = self.live.take(monotonic_ns()).map_err(failure)?;
        let has_ended = self.watch.add(until, self.live.events(), &self.live);
        if has_ended {
            self.look_at_machine();
        }
        Ok(has_ended)
    }

    /// Waits a moment for the kernel to record.
    pub(super) fn pause(&self) {
        std::thread::sleep(PERIOD);
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

    /// Ends the recording and removes the trace instance.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.live.end().map_err(failure)
    }
}
