//! Errors of a sweep and of `elevon tune`.

use elevon_plan::failure::InputError;

/// Why a sweep cannot run, or its shards cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// An `--over`.
    #[error("--over {text}: {why}")]
    Axis {
        /// The text.
        text: String,
        /// What is wrong, ending in what would be right.
        why: String,
    },
    /// A `--sample`.
    #[error(
        "--sample {text}: must be latin:N with N from 1 to {latin}, or sobol:N with N from 1 to {sobol}"
    )]
    Sample {
        /// The text.
        text: String,
        /// The largest number of points of a Latin hypercube.
        latin: u64,
        /// The largest number of points of Sobol's sequence.
        sobol: u64,
    },
    /// A `--seeds`.
    #[error(
        "--seeds {text}: must be a number from 1 to {most}, or different whole numbers as 3,5,9"
    )]
    Seeds {
        /// The text.
        text: String,
        /// The largest number of seeds.
        most: u64,
    },
    /// A `--shard`.
    #[error("--shard {text}: must be I/N with I from 1 to N, such as 3/8")]
    Shard {
        /// The text.
        text: String,
    },
    /// A `--compare`.
    #[error("--compare {text}: {why}")]
    Compare {
        /// The text.
        text: String,
        /// What is wrong, ending in what would be right.
        why: String,
    },
    /// Goals of `elevon tune`.
    #[error("give one goal or two: --maximise iops, --minimise p99")]
    Goals,
    /// Two goals of `elevon tune` that are one figure.
    #[error("{metric} is both goals; must be two figures, or one goal")]
    GoalTwice {
        /// The figure.
        metric: String,
    },
    /// A `--subject-to` whose value is not what the figure is in.
    #[error("--subject-to {text}: {figure} takes {expected}")]
    BoundUnit {
        /// The bound.
        text: String,
        /// The figure's name.
        figure: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A `--subject-to`.
    #[error("--subject-to {text}: must be FIGURE<VALUE or FIGURE>VALUE, such as 'p99<2ms'")]
    Bound {
        /// The text.
        text: String,
    },
    /// A `--subject-to` whose value cannot be read.
    #[error("--subject-to {text}: `{value}` is no value; must be a number, alone or with {units}")]
    BoundValue {
        /// The bound.
        text: String,
        /// The value.
        value: String,
        /// The units that there are.
        units: String,
    },
    /// A metric that no run has.
    #[error(
        "no run has {metrics}; must be columns of `elevon sweep`'s results, such as iops, p99, reader:p50"
    )]
    NoMetric {
        /// The metrics.
        metrics: String,
    },
    /// A metric of a job whose name several have.
    #[error(
        "{metric}: {count} jobs are named {job}; must be {job}#1 to {job}#{count}, or give it group_reporting"
    )]
    SeveralJobs {
        /// The metric.
        metric: String,
        /// The name.
        job: String,
        /// The number of jobs.
        count: usize,
    },
    /// An option that the base and an axis give.
    #[error("--over {key}=...: {given} is given, too; must be one of them")]
    GivenTwice {
        /// The key of the axis.
        key: String,
        /// The option as it was given.
        given: String,
    },
    /// A seed beside those of the runs, and no sample that it would choose.
    #[error(
        "--seed {seed}: --seeds gives the seeds of the runs, and there is no --sample to draw; leave one out"
    )]
    SeedBesideSeeds {
        /// The seed.
        seed: u64,
    },
    /// A seed beside a number of seeds.
    #[error("--seed {seed}: --seeds gives the seeds of the runs; leave one out")]
    SeedOfSeeds {
        /// The seed.
        seed: u64,
    },
    /// The axes have too many combinations.
    #[error(
        "--over: {points} points; must be {most} or fewer, or a sample of them (--sample sobol:200)"
    )]
    TooMany {
        /// The numbers of values.
        points: String,
        /// The limit.
        most: u64,
    },
    /// There is neither an axis nor a number of seeds.
    #[error("nothing varies; give --over, such as --over 'iodepth=1..64:*2', or --seeds")]
    NothingVaries,
    /// Options of the stack beside a plan.
    #[error("options of the stack stand in {plan} (device = \"...\"), and not on the command line")]
    InPlan {
        /// The plan.
        plan: String,
    },
    /// A plan that is no text.
    #[error("is not text; must be a plan in TOML, with lines such as job = \"reader.fio\"")]
    NoPlan,
    /// The device is a path.
    #[error("is real; a sweep is of simulated devices, whose runs repeat")]
    RealDevice,
    /// Jobs write logs.
    #[error(
        "a job writes logs (write_lat_log= and the like), which runs side by side would write over; leave them out"
    )]
    Logs,
    /// A point that cannot be planned.
    #[error("point {point}: {error}")]
    AtPoint {
        /// The values of its axes.
        point: String,
        /// Why.
        error: Box<InputError>,
    },
    /// The journal is being written.
    #[error("another sweep is writing it; wait for it, or give another folder (-o)")]
    Running,
    /// The journal is of another sweep.
    #[error(
        "has runs of another sweep (other {differs}); give another folder (-o), or remove this one"
    )]
    AnotherSweep {
        /// What differs.
        differs: String,
    },
    /// The folder of results has files of others.
    #[error("has a file {file} that is not of a sweep; name another folder")]
    NoFolderOfSweep {
        /// The name of a file that would be replaced.
        file: String,
    },
    /// The file is no journal.
    #[error(
        "is no line of a sweep's journal; must be a file runs*.jsonl as `elevon sweep` writes it"
    )]
    NoJournal,
    /// A line of a journal is of a run that the sweep does not have.
    #[error(
        "run {run} is not of this sweep, which has {runs}, the first of them 0; remove the line"
    )]
    NoSuchRun {
        /// The number of the run.
        run: usize,
        /// The number of runs.
        runs: usize,
    },
    /// A run is there twice, with different figures.
    #[error(
        "run {run} is there twice, with different figures; one of them is damaged, and runs repeat: remove the line, and do the run again"
    )]
    Disagrees {
        /// The number of the run.
        run: usize,
    },
    /// There are no journals.
    #[error("no runs*.jsonl there; must be the folders of `elevon sweep --shard`")]
    NothingToMerge,
    /// Not all runs are done.
    #[error(
        "{missing} of {of} runs are not there, the first of them is {first}; do the shards that are missing"
    )]
    Missing {
        /// How many.
        missing: usize,
        /// Of how many.
        of: usize,
        /// The first.
        first: usize,
    },
}

impl From<SweepError> for InputError {
    fn from(error: SweepError) -> Self {
        Self::Other(Box::new(error))
    }
}
