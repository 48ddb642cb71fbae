//! The replay of a trace as captured, on a device that was fitted to it, beside the trace: the
//! error of a prediction. `elevon calibrate TRACE` ends with it.

use std::collections::BTreeMap;
use std::path::Path;

use elevon_core::kernel::Kernel;
use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::Failure;
use elevon_plan::listener::Listener;
use elevon_plan::options::{QueueOptions, StackOptions};
use elevon_plan::own_device::OwnDevice;
use elevon_report::wrap::wrapped;
use serde_json::Value;

use super::captured::{self, Captured};
use super::goal::Subject;
use super::trial::Bench;
use super::{MIN_IOS_OF_A_PROCESS, json, stretch, subjects, text};

/// I/Os that are replayed at most.
const MAX_IOS_REPLAYED: usize = 50_000;

/// A replay as captured, and what it misses of the trace.
pub struct Check {
    captured: Captured,
    processes: Vec<Subject>,
}

impl Check {
    /// Replays the trace on the device that a file of `--device @FILE` with this text describes;
    /// `None` if the trace cannot be replayed, has too few I/Os to tell, or if the user interrupted
    /// it.
    ///
    /// # Errors
    /// The text is no description of a device, or a replay fails.
    pub fn from_input(
        input: &Path,
        dev: &str,
        profile: &str,
        interrupt: &Interrupt,
        listener: &dyn Listener,
    ) -> Result<Option<Self>, Failure> {
        let Ok(whole) = crate::replay::read_workload(input, Some(dev), listener) else {
            return Ok(None);
        };
        let workload = match stretch(&whole, MAX_IOS_REPLAYED, None)? {
            Some((from, until)) => whole.between(from, until),
            None => whole,
        };
        let completes = |n: usize| {
            workload.processes[n].ios.iter().filter(|io| io.completed.is_some()).count()
                >= MIN_IOS_OF_A_PROCESS
        };
        if !(0..workload.processes.len()).any(completes) {
            return Ok(None);
        }
        let own = OwnDevice::of_text("the fitted device", profile, &Kernel::default().rules())?;
        let base = StackOptions::default();
        let bar = listener.begin(&input.display().to_string());
        let mut bench = Bench::new(workload, false, &base, Some(&own), interrupt, &*bar)?;
        let Some((captured, trial)) = captured::find(
            (input, Some(dev), listener),
            &QueueOptions::default(),
            BTreeMap::new(),
            &mut bench,
        )?
        else {
            return Ok(None);
        };
        let processes = subjects(&bench, &trial, &|_| true);
        Ok(Some(Self { captured, processes }))
    }

    /// Shows it to people.
    pub fn text(&self) -> String {
        let Captured { setup, known_by } = &self.captured;
        let mut out = "\n".to_owned();
        let head = format!(
            "Replayed as captured (elevon replay --closed, under {setup}, {}), beside the trace. What is missed here is \
             missed by predictions, too.",
            known_by.words()
        );
        wrapped(&mut out, "", &head);
        text::check_table(&mut out, &self.processes);
        out
    }

    /// Shows it to programs.
    pub fn json(&self) -> Value {
        serde_json::json!({
            "captured": json::captured(&self.captured),
            "processes": self.processes.iter().map(json::checked).collect::<Vec<Value>>(),
        })
    }
}
