//! Conclusions from busy time in four forms.

use super::small::Phase;
use crate::reproduce::conclusions::{Conclusion, listed, range};

const SAMPLED: usize = 0;
const PRECISE: usize = 2;
const EXACT: usize = 3;

/// The same requests at different offsets from the tick, and what a kernel measured for them.
#[derive(Clone, Debug)]
pub(super) struct HalfDuty {
    /// Milliseconds that the kernel measured, by record.
    pub(super) kernel_ms: Vec<f64>,
    pub(super) phases: Vec<Phase>,
}

/// The proposal's disk: percent busy by form, and the latencies of the job.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Requests that the job keeps in flight.
    pub(super) depth: f64,
    pub(super) alone: [f64; 4],
    pub(super) both: [f64; 4],
    pub(super) published_util: f64,
    /// Percent busy of the sampled form for all random seeds.
    pub(super) seeds: Vec<f64>,
    /// Requests per second and mean latency in ms, published and Elevon's.
    pub(super) rate: [f64; 2],
    pub(super) mean_ms: [f64; 2],
    /// Mean latency of the disk itself, in ms.
    pub(super) await_ms: f64,
    /// Maximum latency in ms, published and Elevon's.
    pub(super) most_ms: [f64; 2],
    /// True if the job had the same results under each form.
    pub(super) forms_alike: bool,
    /// The other disk: percent published, by the closed form, and Elevon's.
    pub(super) other: [f64; 3],
}

impl HalfDuty {
    /// Returns the phase whose precise figure is nearest to `ms`.
    pub(super) fn nearest(&self, ms: f64) -> &Phase {
        let off = |phase: &&Phase| (phase.busy[PRECISE] - ms).abs();
        self.phases.iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("phases were run")
    }

    fn meets(&self, ms: f64) -> bool {
        (self.nearest(ms).busy[PRECISE] / ms - 1.0).abs() < 0.01
    }

    fn of(&self, form: usize) -> impl Iterator<Item = f64> {
        self.phases.iter().map(move |phase| phase.busy[form])
    }
}

fn whole(values: &[f64]) -> String {
    listed(&values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>())
}

pub(super) const HALF_DUTY: [Conclusion<HalfDuty>; 5] = [
    |case| {
        case.kernel_ms.iter().all(|&ms| case.meets(ms)).then(|| {
            format!(
                "One kernel counted {} ms of the same job in {} records. Every one of these is what the precise form gives here at some \
                 phase, so the rule explains them; the records do not say at which phase their requests started, so the phases in the \
                 table are chosen to fit.",
                whole(&case.kernel_ms),
                case.kernel_ms.len(),
            )
        })
    },
    |case| {
        let missed: Vec<f64> = case.kernel_ms.iter().copied().filter(|&ms| !case.meets(ms)).collect();
        (!missed.is_empty()).then(|| format!("No phase here gives the {} ms that the kernel counted.", whole(&missed)))
    },
    |case| {
        let (least, most) = range(case.kernel_ms.iter().copied());
        let middle = f64::midpoint(least, most);
        let low = case.of(PRECISE).filter(|&ms| ms < middle).count();
        let all = case.phases.len();
        (most > 1.1 * least && low > 0 && low < all)
            .then(|| format!("Of {all} phases {low} give the lower answer and {} the higher.", all - low))
    },
    |case| {
        let all = case.phases.len() as f64;
        let mean = |form| case.of(form).sum::<f64>() / all;
        let (precise, exact) = (mean(PRECISE), mean(EXACT));
        let (least, most) = range(case.of(PRECISE));
        ((precise / exact - 1.0).abs() < 0.02 && most > 1.1 * least).then(|| {
            format!(
                "Over all phases the precise form is right in the mean, {precise:.0} ms where the device was busy for {exact:.0}; one \
                 machine, at one phase, shows between {least:.0} and {most:.0}."
            )
        })
    },
    |case| {
        let (least, most) = range(case.of(EXACT));
        (most - least < 1.0).then(|| "The exact form does not depend on the phase.".to_owned())
    },
];

/// Conclusions about the job alone and with others.
pub(super) const ALONE: [Conclusion<Disk>; 1] = [|disk| {
    disk.alone.iter().all(|percent| *percent > 99.0).then(|| {
        "The proposal's job alone does not do it here. In a stall of the limiter nothing starts; the next event is an end, and an end adds \
         all the time since the last look, in every form:"
            .to_owned()
    })
}];

pub(super) const DISK: [Conclusion<Disk>; 5] = [
    |disk| {
        let [sampled, others @ ..] = disk.both;
        (disk.alone[SAMPLED] > 99.0 && sampled < 90.0 && others.iter().all(|percent| *percent > 99.0)).then(|| {
            format!(
                "With the starts of somebody else the sampled form shows {sampled:.1} %, and every other form 100 %."
            )
        })
    },
    |disk| {
        let (least, most) = range(disk.seeds.iter().copied());
        let published = disk.published_util;
        let place = if (least..=most).contains(&published) { "lies inside of that" } else { "lies OUTSIDE of that" };
        Some(format!(
            "The sampled figure depends on when the others happen to start: over {} random seeds it lies between {least:.1} and \
             {most:.1} %; the published {published} {place}.",
            disk.seeds.len(),
        ))
    },
    |disk| {
        let in_flight = disk.rate[0] * disk.mean_ms[0] / 1e3;
        let little = disk.depth * 1e3 / disk.rate[0];
        (in_flight < 0.95 * disk.depth).then(|| {
            format!(
                "fio's own latency is that of {} in flight at {} a second, {little:.1} ms by Little's law; the published {:.1} ms would be \
                 {in_flight:.0}, so there fio's clock does not see an I/O for {:.0} % of its round.",
                disk.depth,
                disk.rate[0],
                disk.mean_ms[0],
                100.0 * (1.0 - in_flight / disk.depth),
            )
        })
    },
    |disk| {
        (disk.mean_ms[1] > 1.02 * disk.await_ms).then(|| {
            format!(
                "In ours that time is spent as completions that fio has not reaped yet: its mean is {:.1} ms, the disk's {:.1}.",
                disk.mean_ms[1], disk.await_ms,
            )
        })
    },
    |disk| {
        let [published, ours] = disk.most_ms;
        (ours < published).then(|| {
            format!("The maximum is too low, {ours:.0} ms of {published:.0}: slices here are all of one length.")
        })
    },
];

pub(super) const FORMS: [Conclusion<Disk>; 2] = [
    |disk| {
        disk.forms_alike.then(|| {
            "The form changes what is shown, not what is done. Four runs, each accounted in field 10 by another form (the \
             published 4001 and 3970 r/s are of two disks):"
                .to_owned()
        })
    },
    |disk| {
        (!disk.forms_alike)
            .then(|| "Four runs, each accounted in field 10 by another form, differ in what is done:".to_owned())
    },
];

/// Conclusions about the disk whose starts are independent of its completions.
pub(super) const OTHER: [Conclusion<Disk>; 1] = [|disk| {
    let [published, closed, ours] = disk.other;
    (published < closed - 5.0 && published < ours - 5.0)
        .then(|| format!("It showed less than both, {published} %, so its starts were not independent of its ends."))
}];

/// Conclusions about five overlapping requests: busy ms by tick rate, ascending, and form.
pub(super) const TICKS: [Conclusion<[[f64; 4]; 3]>; 1] = [|rates| {
    let sampled = rates.map(|busy| busy[SAMPLED]);
    sampled
        .windows(2)
        .all(|pair| pair[1] < pair[0])
        .then(|| "In the sampled form the finer tick loses more.".to_owned())
}];

/// Conclusions about the writer with think time: percent busy by form.
pub(super) const THINKING: [Conclusion<[f64; 4]>; 2] = [
    |&[sampled, inflight, _, exact]| {
        (sampled > 50.0 && inflight > 50.0 && exact < 5.0).then(|| {
            format!(
                "Each write falls into a jiffy of its own and is counted for a whole one, by the proposal's form too: {sampled:.0} and \
                 {inflight:.0} % on a disk that is busy for {exact:.2} %."
            )
        })
    },
    |&[_, _, precise, exact]| ((precise - exact).abs() < 1.0).then(|| format!("The precise form says {precise:.2} %.")),
];
