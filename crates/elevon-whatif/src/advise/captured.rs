//! What the trace was captured on: the device, fitted to it, and the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::Kernel;
use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_plan::options::{QueueOptions, StackOptions};
use elevon_plan::own_device::OwnDevice;
use elevon_trace::TraceKind;

use crate::calibrate::{FittedDevice, Kinds};

use super::AdviseRequest;
use super::goal::mean;
use super::setup::{IN_KERNEL, Setup, Step};
use super::trial::{Bench, Trial};
use crate::figures::{Figure, Figures};
use crate::options_of_trace;
use crate::trace_input::TraceInput;

/// The device that everything is replayed on.
pub(super) struct ReplayDevice {
    /// A description that is fitted to the trace, or the file of `--device @FILE`.
    pub(super) own: Option<OwnDevice>,
    /// The fit, if it is one.
    pub(super) calibration: Option<FittedDevice>,
}

impl ReplayDevice {
    pub(super) fn new(
        request: &AdviseRequest,
        base: &StackOptions,
        listener: &dyn Listener,
    ) -> Result<Self, Failure> {
        let rules = Kernel::from_name(base.kernel()).unwrap_or_default().rules();
        match request.device.as_deref() {
            None => {
                let found =
                    FittedDevice::to(&request.input, request.dev.as_deref(), Kinds::All, listener)?;
                let profile = found.profile(&request.input.display().to_string());
                let own = OwnDevice::of_text("the fitted device", &profile, &rules)?;
                Ok(Self { own: Some(own), calibration: Some(found) })
            }
            Some(device) => {
                let own = device
                    .strip_prefix('@')
                    .map(|path| OwnDevice::load("--device", path, &rules))
                    .transpose()?;
                Ok(Self { own, calibration: None })
            }
        }
    }
}

/// The source that says what the configuration was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// The command line.
    Given,
    /// The trace, or the file beside it.
    Recorded,
    /// The events: no other scheduler fits them.
    Shown,
    /// Nobody: of several that fit the events, its replay is nearest to the trace.
    Guessed,
}

impl KnownBy {
    /// Says it to people.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Given => "as --scheduler and --set say",
            Self::Recorded => "as recorded with the trace",
            Self::Shown => "as the events show; --set says which settings it had",
            Self::Guessed => {
                "a guess: it fits the events, and its replay is nearest; --scheduler and --set say what it was"
            }
        }
    }

    /// A word for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Recorded => "recorded",
            Self::Shown => "shown",
            Self::Guessed => "guessed",
        }
    }
}

/// The configuration under which the trace was captured.
pub(super) struct Captured {
    pub(super) setup: Setup,
    pub(super) known_by: KnownBy,
}

impl Captured {
    /// What has to be done to get from here to a configuration. A scheduler that was only guessed
    /// has to be set, too.
    pub(super) fn steps_to(&self, setup: &Setup) -> Vec<Step> {
        let mut steps = setup.steps(&self.setup);
        if self.known_by == KnownBy::Guessed && setup.scheduler == self.setup.scheduler {
            steps.insert(0, Step::Scheduler(setup.scheduler));
        }
        steps
    }
}

/// A guess that is worse by no more than this is as good, as a logarithm.
const AS_GOOD: f64 = 0.01;

/// Finds the configuration and replays the trace under it, with the scheduler, the settings and the
/// priorities that are given; `None` if the user interrupted it. Sets the kernel that was recorded.
pub(super) fn find(
    (input, dev, listener): (&Path, Option<&str>, &dyn Listener),
    given: &QueueOptions,
    prios: BTreeMap<usize, IoPrio>,
    bench: &mut Bench<'_>,
) -> Result<Option<(Captured, Trial)>, Failure> {
    let QueueOptions { scheduler, set, .. } = given.clone();
    let queue = QueueOptions { scheduler, set, ..bench.base.queue.clone() };
    let given = StackOptions { queue, ..bench.base.clone() };
    bench.check(&given)?;
    let filled = match &bench.workload.recorded {
        Some(recorded) => {
            options_of_trace::filled(&given, recorded, &|trial| bench.check(trial).is_ok()).0
        }
        None => given.clone(),
    };
    bench.base.queue.kernel.clone_from(&filled.queue.kernel);
    let setup = Setup { prios, ..Setup::of_args(&filled) };
    let (mut known_by, setups) = match (&given.queue.scheduler, &filled.queue.scheduler) {
        (Some(_), _) => (KnownBy::Given, vec![setup]),
        (None, Some(_)) => (KnownBy::Recorded, vec![setup]),
        (None, None) => {
            let names = possible(input, dev, listener)?;
            (KnownBy::Guessed, names.map(|name| setup.with_scheduler(name)).collect())
        }
    };
    if let [one] = &setups[..] {
        if known_by == KnownBy::Guessed {
            known_by = KnownBy::Shown;
        }
        let setup = one.clone();
        return Ok(bench.run(&setup)?.map(|trial| (Captured { setup, known_by }, trial)));
    }
    let Some(trials) = bench.run_all(&setups) else { return Ok(None) };
    let measured: Vec<Figures> = bench.workload.processes.iter().map(Figures::measured).collect();
    let misfit = |trial: &Trial| {
        let pairs = || measured.iter().zip(&trial.traced);
        let of = |figure| {
            pairs().filter_map(move |(measured, own)| measured.gain(own, figure)).map(f64::abs)
        };
        mean(Figure::ALL.into_iter().flat_map(of)).unwrap_or(0.0)
    };
    let least = trials.iter().map(misfit).min_by(f64::total_cmp);
    let found = trials
        .into_iter()
        .find(|trial| least.is_some_and(|least| misfit(trial) <= least + AS_GOOD));
    let Some(trial) = found else {
        // None ran to its end: the first one says why.
        return Ok(bench
            .run(&setups[0])?
            .map(|trial| (Captured { setup: setups[0].clone(), known_by }, trial)));
    };
    Ok(Some((Captured { setup: trial.setup.clone(), known_by }, trial)))
}

/// The schedulers that the events of a trace allow. Under a scheduler nearly every request is
/// inserted before it is issued; without one nearly none is.
fn possible(
    path: &Path,
    dev: Option<&str>,
    listener: &dyn Listener,
) -> Result<impl Iterator<Item = &'static str>, Failure> {
    let found = TraceInput::new(path, dev, listener)?.analysed()?;
    let count = |kind: TraceKind| found.events[kind.index()];
    let (inserted, issued) = (count(TraceKind::Insert), count(TraceKind::Issue));
    let is_known = inserted > 0 || count(TraceKind::GetRequest) > 0;
    let is_scheduled = 2 * inserted >= issued;
    Ok(IN_KERNEL.into_iter().filter(move |&name| !is_known || is_scheduled == (name != "none")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_was_guessed_is_set() {
        let setup = Setup::of_scheduler("mq-deadline");
        let wanted = setup.with(&Step::Setting("nr_requests".into(), "16".into()));
        let steps = |known_by| Captured { setup: setup.clone(), known_by }.steps_to(&wanted);
        let [nr_requests] = &steps(KnownBy::Recorded)[..] else { panic!("one step") };
        assert_eq!(steps(KnownBy::Guessed), [Step::Scheduler("mq-deadline"), nr_requests.clone()]);
        let other = Captured { setup: setup.clone(), known_by: KnownBy::Guessed }
            .steps_to(&Setup::of_scheduler("bfq"));
        assert_eq!(other, [Step::Scheduler("bfq")]);
    }
}
