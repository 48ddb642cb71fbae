//! Conclusions from the four cases.

use super::cases::BFQ_LEVEL;
use super::sweep::{Ratio, Rig, SweepRow, shown};
use crate::reproduce::conclusions::{Conclusion, listed, percent_off, range};

/// The three forms of activity.
const FORMS: [&str; 3] = ["iter-bio", "add-page", "page-exact"];

/// Rows of case 1, and properties of its device.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    pub(super) in_order: Vec<SweepRow>,
    pub(super) at_random: Vec<SweepRow>,
    /// Slots of the device, and milliseconds for 512 KiB at its fitted write rate.
    pub(super) slots: u64,
    pub(super) slot_ms: f64,
}

/// Rows of case 2.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    pub(super) fits: Vec<SweepRow>,
    pub(super) tight: Vec<SweepRow>,
    /// Published MiB/s: mainline, with the patch.
    pub(super) published: [f64; 2],
}

/// Rows of case 3, by ttl.
#[derive(Clone, Debug)]
pub(super) struct Launches {
    pub(super) ttls: Vec<u64>,
    pub(super) rows: Vec<Vec<SweepRow>>,
}

/// Rows of case 4.
#[derive(Clone, Debug)]
pub(super) struct Benchmarks {
    pub(super) storage: Vec<SweepRow>,
    pub(super) sqlite: Vec<SweepRow>,
    /// Published ratio of SQLite's transactions.
    pub(super) published: f64,
}

/// Returns the row of a device profile and a scheduler.
fn at<'a>(rows: &'a [SweepRow], profile: &str, scheduler: &str) -> Option<&'a SweepRow> {
    rows.iter().find(|row| row.place.profile() == profile && row.place.scheduler == scheduler)
}

fn ufs<'a>(rows: &'a [SweepRow], scheduler: &str) -> Option<&'a SweepRow> {
    at(rows, "ufs-2.1", scheduler)
}

/// Returns true if all figures of the arm are equal to those of mainline.
fn is_mainline(row: &SweepRow, arm: &str) -> bool {
    row.of(arm).bios.promoted == 0 && row.of(arm).figures == row.of("off").figures
}

/// Formats the percentage of bios that `iter-bio` promotes, by place.
fn promoted(rows: &[SweepRow]) -> String {
    let one = |row: &SweepRow| {
        let Rig { scheduler, .. } = row.place;
        format!("{:.1} % on {} under {scheduler}", row.of("iter-bio").promoted(), row.place.profile())
    };
    listed(&rows.iter().map(one).collect::<Vec<_>>())
}

/// Indices of the figures of case 1.
const WAIT: usize = 0;
const WAITS: usize = 1;
const DD: usize = 2;

pub(super) const FAULTS: [Conclusion<Faults>; 6] = [
    |case| {
        let most = range(case.in_order.iter().map(|row| row.of("iter-bio").promoted())).1;
        (most < 1.0 && !case.in_order.is_empty()).then(|| {
            format!(
                "Four files of this size do not fit in the memory that dd leaves. Read in order, each page is evicted a whole round \
                 before it is wanted again, and generations have passed meanwhile: MGLRU of 6.6 calls next to nothing active, and \
                 iter-bio promotes {most:.1} % of the bios at most."
            )
        })
    },
    |case| {
        let some = case.at_random.iter().any(|row| row.of("iter-bio").promoted() >= 1.0);
        some.then(|| {
            format!(
                "Touched at random, some come back within the generation: iter-bio promotes {}.",
                promoted(&case.at_random)
            )
        })
    },
    |case| {
        let row = ufs(&case.at_random, "mq-deadline")?;
        let [ours, chance] = ["iter-bio", "random"].map(|arm| row.ratio(arm, WAIT));
        (ours.high < 1.0 && ours.high < chance.low).then(|| {
            format!(
                "Under mq-deadline on UFS what is RT passes the writes in the queue: a wait is {} of mainline's, with as many bios by \
                 lot {}.",
                shown(ours),
                shown(chance),
            )
        })
    },
    |case| {
        let row = ufs(&case.at_random, "mq-deadline")?;
        let waits = row.ratio("iter-bio", WAITS);
        let (sums, times) = (row.ratios("iter-bio", WAIT), row.ratios("iter-bio", WAITS));
        let sum = Ratio::of(&sums.iter().zip(times).map(|(wait, times)| wait * times).collect::<Vec<_>>());
        (waits.low > 1.1 && (sum.mean - 1.0).abs() < 0.15).then(|| {
            format!(
                "Who waits less comes back sooner, so there are {} times as many waits and their sum is {} of mainline's: these \
                 readers do nothing else.",
                shown(waits),
                shown(sum),
            )
        })
    },
    |case| {
        let left = ufs(&case.at_random, "mq-deadline")?.of("iter-bio").mean(WAIT) / 1e3;
        (left > 0.5 * case.slot_ms && left < 3.0 * case.slot_ms).then(|| {
            format!(
                "What is left of a wait, {left:.1} ms, is about what one slot of the device takes to come free: writes of 512 KiB may \
                 hold all {}, and at the fitted rate one ends each {:.1} ms.",
                case.slots, case.slot_ms,
            )
        })
    },
    strict_classes,
];

/// States that BFQ serves RT before other classes.
fn strict_classes(case: &Faults) -> Option<String> {
    let row = ufs(&case.at_random, "bfq")?;
    let [ours, exact, oracle] = ["iter-bio", "page-exact", "oracle"].map(|arm| row.ratio(arm, DD));
    if ours.high >= 0.9 {
        return None;
    }
    let starved = row.ratios("oracle", DD);
    let all = starved.len();
    let starved = starved.iter().filter(|ratio| **ratio < 0.05).count();
    let mut text = format!(
        "Under BFQ RT is strict, mapped readers nearly always have a read waiting, and so what they gain dd loses: it keeps {} of \
         its rate with iter-bio and {} with the oracle",
        shown(ours),
        shown(oracle),
    );
    text += &if starved > 0 { format!(" (less than a twentieth in {starved} of {all} runs).") } else { ".".to_owned() };
    if exact.high < 0.9 {
        text += &format!(" The budget of page-exact does not prevent it: {}.", shown(exact));
    }
    Some(text)
}

pub(super) const READS: [Conclusion<Reads>; 6] = [
    |case| {
        let same = case.fits.iter().all(|row| FORMS.iter().all(|form| is_mainline(row, form)));
        (same && !case.fits.is_empty()).then(|| {
            "Where the range fits, each page is read once; nothing was evicted, so nothing is active, no bio is promoted, and the \
             ratio is 1 exactly."
                .to_owned()
        })
    },
    |case| {
        let row = ufs(&case.tight, "mq-deadline")?;
        let cell = row.of("iter-bio");
        (cell.bios.promoted > 0).then(|| {
            let ratio = shown(row.ratio("iter-bio", 0));
            format!(
                "Where it does not fit, iter-bio promotes {} and the ratio under mq-deadline is {ratio}.",
                promoted(&case.tight)
            )
        })
    },
    |case| {
        let row = ufs(&case.tight, "mq-deadline")?;
        let [ours, chance] = ["iter-bio", "random"].map(|arm| row.ratio(arm, 0));
        (ours.high < 1.0).then(|| {
            let chance = if chance.high < 1.0 { format!("; random promotion does so too, {}", shown(chance)) } else { String::new() };
            format!(
                "All traffic is alike. mq-deadline sends nothing of a lower class while a higher one has requests in flight, and the \
                 throughput is lower{chance}."
            )
        })
    },
    |case| {
        let oracle = ufs(&case.tight, "mq-deadline")?.ratio("oracle", 0);
        (oracle.most_percent() < 2.0).then(|| {
            format!(
                "With the oracle nearly all are RT; no difference larger than {:.1} % was seen: {}.",
                oracle.most_percent(),
                shown(oracle)
            )
        })
    },
    |case| {
        let published = percent_off(case.published[1], case.published[0]);
        let rows = case.fits.iter().chain(&case.tight);
        let best = range(rows.flat_map(|row| FORMS.map(|form| 100.0 * (row.ratio(form, 0).mean - 1.0)))).1;
        (best < published / 4.0).then(|| {
            format!(
                "No mean gain of a form larger than {best:.1} % was seen on the stacks here; {published:+.0} % was published. These runs \
                 do not show where that came from. The mail does not say what else differed between the two kernels (memory \
                 left, clocks, temperature, layout)."
            )
        })
    },
    |case| {
        let emmc = at(&case.fits, "emmc-5.1", "mq-deadline")?.of("off").mean(0);
        (emmc < 0.9 * case.published[0])
            .then(|| format!("eMMC is not fitted and reaches {emmc:.0} MiB/s of the {:.0}.", case.published[0]))
    },
];

pub(super) const LAUNCHES: [Conclusion<Launches>; 6] = [
    |case| {
        let bios = ufs(case.rows.first()?, "mq-deadline")?.of("iter-bio").bios;
        (bios.faults_promoted > 0).then(|| {
            let share = 100.0 * bios.faults_promoted as f64 / bios.of_faults.max(1) as f64;
            format!("Of the bios of faults {share:.0} % come back within the generation and are promoted: the signal works as it is meant to.")
        })
    },
    |case| {
        let row = ufs(case.rows.first()?, "mq-deadline")?;
        let [ours, oracle] = ["iter-bio", "oracle"].map(|arm| row.ratio(arm, 0));
        ([ours, oracle].iter().all(|ratio| (ratio.mean - 1.0).abs() < 0.05)).then(|| {
            format!(
                "Under mq-deadline on UFS little was gained: the launch takes {} of mainline's time with iter-bio and {} \
                 with the oracle, which knows who waits.",
                shown(ours),
                shown(oracle),
            )
        })
    },
    |case| {
        let row = ufs(case.rows.first()?, "bfq")?;
        let [ours, oracle, chance] = ["iter-bio", "oracle", "random"].map(|arm| row.ratio(arm, 0));
        (ours.high < 0.9).then(|| {
            format!(
                "Under BFQ on UFS more can be gained: {} with iter-bio, {} with the oracle, {} by chance.",
                shown(ours),
                shown(oracle),
                shown(chance),
            )
        })
    },
    |case| {
        let rows = case.rows.first()?;
        let [raised, level, deadline] = ["bfq", BFQ_LEVEL, "mq-deadline"].map(|scheduler| ufs(rows, scheduler));
        let [raised, level, deadline] = [raised?, level?, deadline?].map(|row| row.of("off").mean(0));
        (raised > 1.1 * level && level < 1.1 * deadline).then(|| {
            format!(
                "Reader and launch are both new and raised by low_latency. With low_latency=0, without activity, the launch takes {level:.0} ms, {:.2} of what it takes under \
                 mq-deadline.",
                level / deadline,
            )
        })
    },
    |case| {
        let [first, others @ ..] = &case.rows[..] else { return None };
        let same = |rows: &Vec<SweepRow>| {
            rows.iter().all(|row| {
                let of_first = ufs(first, row.place.scheduler);
                of_first.is_some_and(|of_first| {
                    row.cells.iter().zip(&of_first.cells).all(|(ours, theirs)| ours.figures == theirs.figures)
                })
            })
        };
        (!others.is_empty() && others.iter().all(same))
            .then(|| "Every run is the same under each ttl, to the nanosecond.".to_owned())
    },
    |case| {
        let rows = case.rows.iter().filter_map(|rows| ufs(rows, "mq-deadline"));
        let (least, most) = range(rows.map(|row| row.of("off").mean(0)));
        (most > least).then(|| {
            let ttls: Vec<String> = case.ttls.iter().map(ToString::to_string).collect();
            format!("Over ttl {} mainline's launch lies between {least:.1} and {most:.1} ms.", listed(&ttls))
        })
    },
];

pub(super) const BENCHMARKS: [Conclusion<Benchmarks>; 4] = [
    |case| {
        let same = case.storage.iter().all(|row| FORMS.iter().all(|form| is_mainline(row, form)));
        (same && !case.storage.is_empty()).then(|| {
            "Every page of the four parts is read or written once: none is active, none promoted, times are equal to the nanosecond."
                .to_owned()
        })
    },
    |case| {
        let row = ufs(&case.sqlite, "mq-deadline")?;
        let ours = row.ratio("iter-bio", 0);
        (ours.high < 1.0).then(|| {
            format!(
                "SQLite loses under mq-deadline: {}. Pages of the database are read again and again through a descriptor, so their \
                 writes at a sync are RT under the proposal, and those of the same sync that are not hot are BE and wait until the first \
                 are done.",
                shown(ours),
            )
        })
    },
    |case| {
        let exact = ufs(&case.sqlite, "mq-deadline")?.ratio("page-exact", 0);
        (exact.high.is_finite() && exact.low <= 1.0 && 1.0 <= exact.high).then(|| {
            format!(
                "With page-exact no difference larger than {:.1} % was seen: {}.",
                exact.most_percent(),
                shown(exact)
            )
        })
    },
    |case| {
        let best = range(case.sqlite.iter().map(|row| row.ratio("iter-bio", 0).high)).1;
        (best < case.published).then(|| {
            format!(
                "The published {:+.0} % is outside of every interval of iter-bio here.",
                100.0 * (case.published - 1.0),
            )
        })
    },
];

pub(super) const CLASSIC: [Conclusion<[Vec<SweepRow>; 2]>; 1] = [|[launches, sqlite]| {
    let of = |rows: &[SweepRow]| (!rows.is_empty()).then(|| promoted(rows));
    Some(format!(
        "Without LRU_GEN iter-bio promotes of the launch's bios {}; of SQLite's {}.",
        of(launches)?,
        of(sqlite)?
    ))
}];
