//! What a scheduler that knew the device could have made of a mix that `aileron` missed.

use elevon_fairness::job_mix::JobMix;
use elevon_fairness::progress::{PROMISED, Progress};
use elevon_host::interrupt::Interrupt;
use elevon_result::slice::Lacks;
use elevon_whatif::slices::slices;

use crate::command::{ios, run};

/// Schedulers and settings, of which the best for a mix is known only after all have been tried.
const SETTINGS: [&str; 12] = [
    "none",
    "mq-deadline",
    "kyber",
    "bfq",
    "bfq:low_latency=0",
    "aileron:depth=1",
    "aileron:depth=2",
    "aileron:depth=4",
    "aileron:depth=8",
    "aileron:prefer=shares",
    "aileron:turn_ms=50",
    "aileron:turn_ms=1000",
];

/// What could have been.
pub(crate) struct Bound {
    /// What the jobs that are short lack their slices for, as the report of `elevon run` says.
    pub(crate) lacks: Vec<Lacks>,
    /// A setting under which every job has its slice.
    pub(crate) kept_by: Option<&'static str>,
    /// The largest part of its slice that the worst job has under any setting.
    pub(crate) best: f64,
}

impl Bound {
    pub(crate) fn of_mix(mix: &JobMix, alone: &[u64]) -> Self {
        let (plan, result) = run(&mix.text(None), mix.device, "aileron", None);
        let found = slices(&plan, &result, &Interrupt::new()).expect("its parts run as it did");
        let lacks = found.iter().filter_map(|slice| Some(slice.shortfall.as_ref()?.cause));
        let (mut kept_by, mut best) = (None, 0.0_f64);
        for setting in SETTINGS {
            let got = ios(&mix.text(None), mix.device, setting);
            let (_, worst) = Progress::of(mix, alone, &got).worst();
            if worst >= PROMISED && kept_by.is_none() {
                kept_by = Some(setting);
            }
            best = best.max(worst);
        }
        Self { lacks: lacks.collect(), kept_by, best }
    }

    /// Returns true if the device does not give the jobs their slices, even if each is held to it.
    pub(crate) fn is_of_device(&self) -> bool {
        self.lacks.contains(&Lacks::Device)
    }
}
