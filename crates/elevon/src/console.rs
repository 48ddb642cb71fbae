//! What the user sees while a run goes on: iostat lines on stdout, a progress bar on stderr.

use std::io::Write;

use elevon_core::account::DiskStats;
use elevon_core::event::Event;
use elevon_core::units::{Bytes, Instant, Nanos};
use elevon_host::interrupt::Interrupt;
use elevon_report::result::RunResult;
use elevon_report::summary::DiskDelta;
use elevon_report::text::{iostat_header, iostat_line, report};
use elevon_sim::device::Description;
use elevon_workload::jobs::Jobs;
use elevon_workload::run::{Observer, Progress};

use crate::bar::Bar;
use crate::execute::Watch;
use crate::failure::{Failure, all, printable, tell};
use crate::tenant_lines::TenantLines;
use crate::trace::TraceFile;

/// How often the bar is looked after, in time of the run.
const LOOK: Nanos = Nanos::from_millis(50);
/// Dirty data at the end of a run from which the user is told why it is not over.
const WORTH_A_LINE: Bytes = Bytes::new(256 << 20);
/// Lines between iostat headers.
const PAGE: u32 = 20;

/// Watches a run for a person at a terminal.
pub(crate) struct Console {
    iostat: Option<Nanos>,
    /// iostat lines go to stderr where stdout carries JSON.
    iostat_to_stderr: bool,
    device: String,
    last: DiskStats,
    next_iostat: Instant,
    lines: u32,
    tenants: TenantLines,
    bar: Bar,
    trace: Option<TraceFile>,
    /// Where the user's requests for the status are seen, and whether it goes to stderr.
    status: Option<(Interrupt, bool)>,
    /// The first error of stdout; reported when the run is over.
    error: Option<std::io::Error>,
}

impl Console {
    pub(crate) fn new(label: &str, iostat: Option<Nanos>, json: bool, trace: Option<TraceFile>) -> Self {
        let bar = Bar::new(&printable(label));
        bar.expect(1000);
        Self {
            iostat,
            iostat_to_stderr: json,
            device: String::new(),
            last: DiskStats::default(),
            next_iostat: Instant::ZERO,
            lines: 0,
            tenants: TenantLines::default(),
            bar,
            trace,
            status: None,
            error: None,
        }
    }

    /// Shows the report so far when SIGUSR1 asks for it: on stdout, as fio does, or on stderr if stdout
    /// is for something else.
    pub(crate) fn with_status(self, interrupt: &Interrupt, to_stderr: bool) -> Self {
        Self { status: Some((interrupt.clone(), to_stderr)), ..self }
    }

    /// Clears the bar, finishes the trace, and hands out the first error of either.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.bar);
        let traced = self.trace.map_or(Ok(()), TraceFile::finish);
        all([traced, self.error.map_or(Ok(()), |error| Err(Failure::Output(error)))])
    }

    fn print_iostat(&mut self, now: Instant, disk: &DiskStats, jobs: &[Progress]) {
        let width = self.device.len().max(6);
        let delta = DiskDelta::between(&self.last, disk);
        let mut text = String::new();
        let has_header = self.lines.is_multiple_of(PAGE);
        if has_header {
            text = iostat_header(width) + "\n";
        }
        self.lines += 1;
        text += &iostat_line(&self.device, width, &delta);
        text.push('\n');
        text += &self.tenants.text(now, jobs, has_header);
        self.print(&text, self.iostat_to_stderr);
        self.last = *disk;
    }

    fn print(&mut self, text: &str, to_stderr: bool) {
        let text = printable(text);
        let written = if to_stderr {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
        if let (Err(error), None) = (written, &self.error) {
            self.error = Some(error);
        }
    }
}

impl Observer for Console {
    fn interval(&self) -> Option<Nanos> {
        Some(self.iostat.map_or(LOOK, |every| every.min(LOOK)))
    }

    fn on_interval(&mut self, now: Instant, disk: &mut dyn FnMut() -> DiskStats, jobs: &[Progress]) {
        if let Some(every) = self.iostat
            && now >= self.next_iostat
        {
            self.print_iostat(now, &disk(), jobs);
            self.next_iostat = self.next_iostat.saturating_add(every);
        }
        self.bar.set(jobs.iter().map(|job| job.per_mille).sum::<u64>() / (jobs.len() as u64).max(1));
    }

    fn on_write_back(&mut self, dirty: Bytes, is_interrupted: bool) {
        let mib = dirty.get() >> 20;
        if is_interrupted || dirty >= WORTH_A_LINE {
            let give_up = if is_interrupted { "; another interrupt gives it up" } else { "" };
            tell(&format!("--cache: writing back {mib} MiB that jobs left dirty{give_up}"));
        }
    }

    fn wants_status(&mut self) -> bool {
        self.status.as_ref().is_some_and(|(interrupt, _)| interrupt.take_status_request())
    }

    fn on_events(&mut self, events: &[Event]) {
        if let Some(trace) = &mut self.trace {
            trace.write(events);
        }
    }
}

impl Watch for Console {
    fn on_report(&mut self, so_far: &RunResult) {
        let to_stderr = self.status.as_ref().is_some_and(|(_, to_stderr)| *to_stderr);
        self.print(&report(so_far), to_stderr);
    }

    fn wants_events(&self) -> bool {
        self.trace.is_some()
    }

    fn on_start(&mut self, device: &Description, cpus: u16, jobs: &Jobs) -> Result<(), Failure> {
        let short = device.name.split(':').next().unwrap_or_default();
        self.device = short.rsplit('/').next().unwrap_or(short).to_owned();
        self.next_iostat = Instant::new(self.iostat.map_or(0, Nanos::get));
        self.tenants = TenantLines::new(jobs);
        if let Some(trace) = &mut self.trace {
            trace.start(device, cpus, jobs)?;
        }
        Ok(())
    }
}
