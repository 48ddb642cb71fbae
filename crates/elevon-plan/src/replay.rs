//! A trace that a run repeats in place of jobs, as scripts of its processes.

use std::sync::Arc;

use elevon_core::units::Nanos;
use elevon_formats::fio::spec::JobSpec;
use elevon_result::result::NotKept;
use elevon_sim::device::Description;
use elevon_trace::replay::Crowds;
use elevon_workload::jobs::Jobs;
use elevon_workload::replay::{FitChanges, NewLayout, Replayed, Script};

/// Slots of a process of a trace: in simulation they cost nothing, on a real device each has a
/// buffer.
const SIMULATED_SLOTS: usize = 1 << 20;
const REAL_SLOTS: usize = 256;
/// Approximate bytes of the buffers of all processes of a trace, on a real device.
const REAL_BUFFERS: u64 = 256 << 20;

/// The trace of a run.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// A script for each process, in the order of the plan's jobs.
    pub scripts: Arc<Vec<Script>>,
    /// How many background writes the kernel of the trace let in.
    pub crowds: Crowds,
    /// How the trace is replayed, in a few words.
    pub how: String,
    /// What is selected of the trace, in words; `None` for all of it.
    pub selected: Option<String>,
    /// The priorities that processes have in place of those in the trace, as `--ioprio` takes
    /// them.
    pub ioprio: Option<String>,
    /// What the trace has and its replay does not keep.
    pub not_kept: Vec<NotKept>,
}

impl ReplayPlan {
    /// Returns the processes that `specs` describe, adapted to the device and its blocks, and
    /// remarks about that.
    pub fn jobs(
        &self,
        specs: &[JobSpec],
        is_real: bool,
        (device, block): (&Description, u64),
        layouts: &mut NewLayout<'_>,
    ) -> (Jobs<Replayed>, Vec<String>) {
        let mut scripts = self.scripts.to_vec();
        if !self.crowds.show_dirty_sleeps(device.stack_config().most_background_writes()) {
            scripts.iter_mut().for_each(|script| script.flusher = None);
        }
        let mut all = FitChanges::default();
        for script in &mut scripts {
            let fitted = script.fit(device.size.bytes(), block);
            all.moved += fitted.moved;
            all.widened += fitted.widened;
            all.shortened += fitted.shortened;
        }
        let mut lines = Vec::new();
        for (count, what) in [
            (
                all.moved,
                "lay beyond the end of the device, and were moved to their place modulo its size",
            ),
            (all.widened, "were widened to whole logical blocks of the device"),
            (
                all.shortened,
                "were larger than the device, or than an I/O can be, and were shortened",
            ),
        ] {
            if count > 0 {
                lines.push(format!("{count} I/Os {what}"));
            }
        }
        let slots = if is_real { real_slots(&scripts) } else { SIMULATED_SLOTS };
        (Jobs::of_trace(specs, scripts, slots, layouts), lines)
    }
}

fn real_slots(scripts: &[Script]) -> usize {
    let bytes = scripts.iter().map(Script::largest).fold(0, u64::saturating_add);
    ((REAL_BUFFERS / bytes.max(1)) as usize).clamp(1, REAL_SLOTS)
}

/// Returns remarks about I/O that differed from the trace.
pub fn deviations(jobs: &Jobs<Replayed>) -> Vec<String> {
    let all = jobs.processes().iter().map(Replayed::deviations);
    let (mut late, mut latest, mut unsupported) = (0, Nanos::ZERO, 0);
    for one in all {
        late += one.late;
        latest = latest.max(one.latest);
        unsupported += one.unsupported;
    }
    let mut lines = Vec::new();
    if late > 0 {
        lines.push(format!(
            "{late} I/Os went late, by up to {latest}: their process slept for a tag or under writeback throttling, or had no free slot"
        ));
    }
    if unsupported > 0 {
        let (ios, them) = if unsupported == 1 { ("I/O was", "it") } else { ("I/Os were", "them") };
        lines.push(format!("{unsupported} {ios} not done: the device does not support {them}"));
    }
    lines
}
