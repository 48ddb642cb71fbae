//! Output during a run: iostat lines on stdout, a progress bar on stderr.

use std::io::Write;

use elevon_core::account::DiskStats;
use elevon_core::event::Event;
use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, Instant, Nanos};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::Watch;
use elevon_plan::failure::{Failure, printable};
use elevon_plan::listener::Steps;
use elevon_plan::plan::Plan;
use elevon_plan::result::{self, Facts};
use elevon_report::text::{iostat_header, iostat_line, report};
use elevon_result::summary::DiskDelta;
use elevon_sim::device::Description;
use elevon_workload::buffered::BufferedIo;
use elevon_workload::jobs::Roster;
use elevon_workload::run::{Observer, Progress, RunOutcome};

use crate::bar::Bar;
use crate::tenant_lines::TenantLines;
use crate::terminal::{all, tell};
use crate::trace::TraceFile;

/// Interval at which the bar is updated, in time of the run.
const LOOK: Nanos = Nanos::from_millis(50);
/// If at least this much data is dirty at the end of the jobs, the user is told that write-back
/// goes on.
const WORTH_A_LINE: Bytes = Bytes::new(256 << 20);
/// Number of iostat lines between headers.
const PAGE: u32 = 20;

/// The report on request during a run.
struct Status<'a> {
    /// Tells whether the user requested a report.
    interrupt: Interrupt,
    plan: &'a Plan,
    to_stderr: bool,
}

/// Observes a run for the user at a terminal.
pub(crate) struct Console<'a> {
    iostat: Option<Nanos>,
    /// True if stdout is used for JSON, so that iostat lines go to stderr.
    iostat_to_stderr: bool,
    device: String,
    last: DiskStats,
    next_iostat: Instant,
    lines: u32,
    tenants: TenantLines,
    bar: Bar,
    trace: Option<TraceFile>,
    status: Option<Status<'a>>,
    /// The device as described at the start of the run, for a report during the run.
    described: Option<Description>,
    /// The first error of stdout, reported after the run.
    error: Option<std::io::Error>,
}

impl<'a> Console<'a> {
    pub(crate) fn new(
        label: &str,
        iostat: Option<Nanos>,
        json: bool,
        trace: Option<TraceFile>,
    ) -> Self {
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
            described: None,
            error: None,
        }
    }

    /// Enables the report during the run, which SIGUSR1 requests. It goes to stdout, as in fio, or
    /// to stderr if stdout is used for other output.
    pub(crate) fn with_status(
        self,
        plan: &'a Plan,
        interrupt: &Interrupt,
        to_stderr: bool,
    ) -> Self {
        Self { status: Some(Status { interrupt: interrupt.clone(), plan, to_stderr }), ..self }
    }

    /// Removes the bar, finishes the trace, and returns the first error.
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

impl Observer for Console<'_> {
    fn interval(&self) -> Option<Nanos> {
        Some(self.iostat.map_or(LOOK, |every| every.min(LOOK)))
    }

    fn skips_waits(&self) -> bool {
        let is_virtual = self.status.as_ref().is_some_and(|status| !status.plan.is_real());
        is_virtual && self.iostat.is_none()
    }

    fn on_interval(
        &mut self,
        now: Instant,
        disk: &mut dyn FnMut() -> DiskStats,
        jobs: &[Progress],
    ) {
        if let Some(every) = self.iostat
            && now >= self.next_iostat
        {
            self.print_iostat(now, &disk(), jobs);
            self.next_iostat = self.next_iostat.saturating_add(every);
        }
        self.bar
            .set(jobs.iter().map(|job| job.per_mille).sum::<u64>() / (jobs.len() as u64).max(1));
    }

    fn on_write_back(&mut self, dirty: Bytes, is_interrupted: bool) {
        let mib = dirty.get() >> 20;
        if is_interrupted || dirty >= WORTH_A_LINE {
            let give_up = if is_interrupted { "; another interrupt gives it up" } else { "" };
            tell(&format!("--cache: writing back {mib} MiB that jobs left dirty{give_up}"));
        }
    }

    fn wants_status(&mut self) -> bool {
        self.status.as_ref().is_some_and(|status| status.interrupt.take_status_request())
    }

    fn on_status(&mut self, so_far: RunOutcome, stack: &mut Stack, cached: Option<&BufferedIo>) {
        let (Some(Status { plan, to_stderr, .. }), Some(device)) = (&self.status, &self.described)
        else {
            return;
        };
        let (to_stderr, real, warnings) = (*to_stderr, plan.is_real(), plan.warnings.clone());
        stack.control_mut().settle(so_far.ended);
        let facts = Facts { plan, device, settings: None, stack, cached, real, warnings };
        let text = report(&result::of(&facts, so_far));
        self.print(&text, to_stderr);
    }

    fn on_events(&mut self, events: &[Event]) {
        if let Some(trace) = &mut self.trace {
            trace.write(events);
        }
    }
}

impl Watch for Console<'_> {
    fn wants_events(&self) -> bool {
        self.trace.is_some()
    }

    fn on_start(
        &mut self,
        device: &Description,
        stack: &Stack,
        jobs: &Roster<'_>,
    ) -> Result<(), Failure> {
        let short = device.name.split(':').next().unwrap_or_default();
        self.described = Some(device.clone());
        self.device = short.rsplit('/').next().unwrap_or(short).to_owned();
        self.next_iostat = Instant::new(self.iostat.map_or(0, Nanos::get));
        self.tenants = TenantLines::new(jobs);
        if let Some(trace) = &mut self.trace {
            trace.start(device, stack, jobs)?;
        }
        Ok(())
    }
}
