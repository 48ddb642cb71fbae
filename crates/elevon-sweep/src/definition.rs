//! What a sweep is: a job file, options of the stack, axes, points and seeds.

use std::path::{Path, PathBuf};

use elevon_formats::fio::{SourceError, read_text_file};
use elevon_formats::sweep as file;
use elevon_plan::failure::Failure;
use elevon_plan::files::Files;
use elevon_plan::options::{DEFAULT_SEED, StackOptions};
use elevon_plan::plan::{self, Plan};
use elevon_plan::text_files::{Input, STDIN, Texts, assignments, with_stdin};
use serde_json::{Map, Value, json};

use crate::axis::{Axis, Values};
use crate::error::SweepError;
use crate::journal::of_runs;
use crate::points::{Point, Sampling, grid, points};
use crate::request::{Over, SweepRequest};

/// Options of the stack that a plan may have, by their long names.
const OPTIONS: [&str; 10] = [
    "device",
    "scheduler",
    "kernel",
    "buffers",
    "cpu-cost",
    "memory",
    "fault",
    "tenants",
    "include-dir",
    "job-option",
];
/// Seeds of a search that names none: its own and the next.
const SEARCH_SEEDS: u64 = 3;
/// Maximum number of seeds.
const MAX_SEEDS: u64 = 100_000;

/// A sweep that is checked, except for its runs.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) job: PathBuf,
    base: StackOptions,
    texts: Texts,
    /// The variables that its job files read, as a shell sets them.
    variables: String,
    pub(crate) axes: Vec<Axis>,
    sampling: String,
    pub(crate) points: Vec<Point>,
    pub(crate) seeds: Vec<u64>,
    compare_text: Option<String>,
    /// An axis, and the value with which its others are compared.
    pub(crate) compare: Option<(usize, usize)>,
}

/// The parts of a definition before they are checked together.
struct Parts {
    job: PathBuf,
    base: StackOptions,
    texts: Texts,
    axes: Vec<Axis>,
    sample: Option<String>,
    seeds: Vec<u64>,
    compare: Option<String>,
}

impl Parts {
    /// Reads stdin, if it is the job file or that of tenants: every plan is made of the same text.
    fn with_stdin(self) -> Result<Self, Failure> {
        let names = [Some(self.job.as_path()), self.base.queue.tenants.as_deref()];
        let texts = with_stdin(self.texts, &names).map_err(|error| Failure::named(STDIN, error))?;
        Ok(Self { texts, ..self })
    }
}

impl Definition {
    /// Takes a sweep from the command line and, if it names one, from a plan.
    pub(crate) fn new(request: &SweepRequest) -> Result<Self, Failure> {
        let given =
            request.over.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>();
        let mut axes = given.map_err(Failure::input)?;
        let stack = request.stack.clone();
        let input = request.input.as_path();
        let mut parts = if input.extension().is_some_and(|extension| extension == "toml") {
            if stack != StackOptions::default() {
                return Err(Failure::input(SweepError::InPlan {
                    plan: input.display().to_string(),
                }));
            }
            of_plan(input)?
        } else {
            let (job, base) = (input.to_owned(), stack);
            Parts {
                job,
                base,
                texts: Texts::default(),
                axes: Vec::new(),
                sample: None,
                seeds: Vec::new(),
                compare: None,
            }
        };
        // An axis of the command line takes the place of the plan's.
        parts.axes.retain(|axis| axes.iter().all(|own| !own.has_key(&axis.key)));
        parts.axes.append(&mut axes);
        parts.sample = request.sample.clone().or(parts.sample);
        parts.compare = request.compare.clone().or(parts.compare);
        if let Some(text) = &request.seeds {
            parts.seeds = seeds(text).map_err(Failure::input)?;
        }
        Self::of_parts(parts.with_stdin()?)
    }

    /// Takes what `elevon tune` searches; it adds the points.
    pub(crate) fn of_search(
        job: &Path,
        base: &StackOptions,
        over: &[String],
        seeds_text: Option<&str>,
    ) -> Result<Self, Failure> {
        let axes = over
            .iter()
            .map(|text| Axis::parse(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::input)?;
        let several = || (0..SEARCH_SEEDS).map(|at| base.seed.wrapping_add(at)).collect();
        let seeds = seeds_text.map_or_else(|| Ok(several()), seeds).map_err(Failure::input)?;
        let sample = Some("sobol:1".to_owned());
        let parts = Parts {
            job: job.to_owned(),
            base: base.clone(),
            texts: Texts::default(),
            axes,
            sample,
            seeds,
            compare: None,
        };
        let mut definition = Self::of_parts(parts.with_stdin()?)?;
        definition.points.clear();
        Ok(definition)
    }

    /// Takes a sweep that a program describes.
    pub(crate) fn of_program(
        job: PathBuf,
        base: StackOptions,
        over: &[(String, Over)],
        sample: Option<String>,
        seeds_text: Option<&str>,
        compare: Option<String>,
        texts: Texts,
    ) -> Result<Self, Failure> {
        let axis = |(key, values): &(String, Over)| match values {
            Over::Text(text) => Axis::parse(&format!("{key}={text}")),
            Over::List(values) => Axis::of_list(key, values.clone()),
        };
        let axes = over.iter().map(axis).collect::<Result<Vec<_>, _>>().map_err(Failure::input)?;
        let seeds = seeds_text.map_or(Ok(vec![base.seed]), seeds).map_err(Failure::input)?;
        Self::of_parts(Parts { job, base, texts, axes, sample, seeds, compare })
    }

    /// Returns the seed of what is drawn besides the runs: of a search.
    pub(crate) const fn own_seed(&self) -> u64 {
        self.base.seed
    }

    /// Returns every point.
    pub(crate) fn grid(&self) -> Result<Vec<Point>, Failure> {
        grid(&self.axes).map_err(Failure::input)
    }

    fn of_parts(parts: Parts) -> Result<Self, Failure> {
        let Parts { job, base, texts, axes, sample, mut seeds, compare: compare_text } = parts;
        if axes.is_empty() && seeds.len() < 2 {
            return Err(Failure::input(SweepError::NothingVaries));
        }
        if let Some(twice) = axes
            .iter()
            .enumerate()
            .find(|(at, axis)| axes[..*at].iter().any(|own| own.has_key(&axis.key)))
        {
            let why = "is there twice; must be there once".to_owned();
            return Err(Failure::input(SweepError::Axis { text: twice.1.key.clone(), why }));
        }
        if let Some((key, given)) =
            axes.iter().find_map(|axis| Some((axis.key.clone(), axis.given_in(&base)?)))
        {
            return Err(Failure::input(SweepError::GivenTwice { key, given }));
        }
        if seeds.is_empty() {
            seeds.push(base.seed);
        }
        if sample.is_none() && base.seed != DEFAULT_SEED && seeds != [base.seed] {
            return Err(Failure::input(SweepError::SeedBesideSeeds { seed: base.seed }));
        }
        let sampling = sample
            .as_deref()
            .map_or(Ok(Sampling::Grid), Sampling::parse)
            .map_err(Failure::input)?;
        let compare = compare_text
            .as_deref()
            .map(|text| compared(text, &axes))
            .transpose()
            .map_err(Failure::input)?;
        let points = points(&axes, sampling, base.seed, compare.map(|(axis, _)| axis))
            .map_err(Failure::input)?;
        let sampling = sample.unwrap_or_else(|| "grid".to_owned());
        Ok(Self {
            job,
            base,
            texts,
            variables: String::new(),
            axes,
            sampling,
            points,
            seeds,
            compare_text,
            compare,
        })
    }

    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.points.len() * self.seeds.len()
    }

    /// Returns the point and the seed of a run.
    pub(crate) fn run(&self, number: usize) -> (usize, u64) {
        (number / self.seeds.len(), self.seeds[number % self.seeds.len()])
    }

    /// Returns the values of a point.
    pub(crate) fn values(&self, point: usize) -> Vec<String> {
        self.axes.iter().zip(&self.points[point]).map(|(axis, &at)| axis.value(at)).collect()
    }

    /// Returns a point as text, for messages.
    pub(crate) fn in_words(&self, point: usize) -> String {
        let values = self.values(point);
        let parts =
            self.axes.iter().zip(values).map(|(axis, value)| format!("{}={value}", axis.key));
        parts.collect::<Vec<_>>().join(" ")
    }

    /// Returns the options of a run.
    pub(crate) fn options(&self, number: usize) -> Result<StackOptions, Failure> {
        let (point, seed) = self.run(number);
        let values = self.values(point);
        let mut words: Vec<String> =
            self.axes.iter().zip(&values).flat_map(|(axis, value)| axis.words(value)).collect();
        words.extend(["--seed".to_owned(), seed.to_string()]);
        self.base.with_words(words).map_err(Failure::input)
    }

    /// Returns the plan of a run.
    pub(crate) fn plan(&self, number: usize) -> Result<Plan, Failure> {
        let mut plan = Plan::of_texts(
            std::slice::from_ref(&self.job),
            &self.options(number)?,
            self.texts.clone(),
        )?;
        plan.warnings.extend(plan.not_in_linux());
        Ok(plan)
    }

    /// Returns the plan of the job without the values of any point.
    pub(crate) fn plan_without_point(&self) -> Result<Plan, Failure> {
        Plan::of_texts(std::slice::from_ref(&self.job), &self.base, self.texts.clone())
    }

    /// Returns the files that a search reads: those of the point of first values, and of the points
    /// that have another value of one axis.
    pub(crate) fn files(&self) -> Result<Files, Failure> {
        let first: Point = vec![0; self.axes.len()];
        let mut near =
            Self { points: vec![first.clone()], seeds: vec![DEFAULT_SEED], ..self.clone() };
        for (at, axis) in
            self.axes.iter().enumerate().filter(|(_, axis)| matches!(axis.values, Values::List(_)))
        {
            near.points.extend((1..axis.len()).map(|value| {
                let mut point = first.clone();
                point[at] = value;
                point
            }));
        }
        // A point that cannot be planned fails when the search comes to it.
        let mut plans = (0..near.points.len()).filter_map(|number| near.plan(number).ok());
        plans.try_fold(Files::default(), |files, plan| plan.add_files(files))
    }

    /// Returns the command that repeats a run.
    pub(crate) fn command(&self, number: usize) -> Result<String, Failure> {
        let command = plan::command("run", &[&self.job.to_string_lossy()], &self.options(number)?);
        Ok(format!("{}{command}", self.variables))
    }

    /// Returns what all runs share, as a command line: without a seed, of which each has its own.
    pub(crate) fn shared(&self) -> String {
        let command =
            plan::command_with_seed("run", &[&self.job.to_string_lossy()], &self.base, None);
        format!("{}{command}", self.variables)
    }

    /// Lets commands set the variables among what plans read.
    pub(crate) fn set_variables(&mut self, inputs: &[Input]) {
        self.variables =
            assignments(inputs.iter().map(|input| (input.what.as_str(), input.text.as_deref())));
    }

    /// Returns warnings of a point without the values of its axes, so that those of all points are
    /// the same.
    pub(crate) fn at_no_point(&self, point: usize, warnings: &[String]) -> Vec<String> {
        let values = self.values(point);
        let places: Vec<String> =
            self.axes.iter().zip(&values).filter_map(|(axis, value)| axis.place(value)).collect();
        let rest = |text: &String| {
            places.iter().find_map(|place| text.strip_prefix(place.as_str())).map(str::to_owned)
        };
        let all = || self.axes.iter().zip(&values);
        let without =
            |text: String| all().fold(text, |text, (axis, value)| axis.without(value, &text));
        warnings.iter().map(|text| without(rest(text).unwrap_or_else(|| text.clone()))).collect()
    }

    /// Returns what tells this sweep from others: the head of its journal.
    pub(crate) fn head(&self, inputs: &[Input]) -> Value {
        let axis = |axis: &Axis| match &axis.values {
            Values::List(values) => json!({"key": axis.key, "values": values}),
            Values::Range { .. } => {
                json!({"key": axis.key, "range": format!("{}..{}", axis.value(0), axis.value(axis.len() - 1))})
            }
        };
        let inputs: Map<String, Value> =
            inputs.iter().map(|input| (input.what.clone(), json!(input.text))).collect();
        json!({
            "elevon": env!("CARGO_PKG_VERSION"),
            "job": self.job.to_string_lossy(),
            "command": plan::command("run", &[&self.job.to_string_lossy()], &self.base),
            "over": self.axes.iter().map(axis).collect::<Vec<_>>(),
            "sample": self.sampling,
            "seeds": self.seeds,
            "compare": self.compare_text,
            "inputs": inputs,
        })
    }

    /// Returns a checksum of what decides the runs of a program's sweep. The files of the host that
    /// jobs name are not in it.
    pub(crate) fn checksum(&self) -> u32 {
        let text = json!([of_runs(&self.head(&[])), *self.texts]).to_string();
        crc32c::crc32c(text.as_bytes())
    }

    /// Returns the sweep of a journal.
    pub(crate) fn of_head(path: &Path, head: &Value) -> Result<Self, Failure> {
        let bad = || Failure::named(format!("{}:1", path.display()), SweepError::NoJournal);
        let text = |key: &str| head.get(key).and_then(Value::as_str);
        let (job, command) = (text("job").ok_or_else(bad)?, text("command").ok_or_else(bad)?);
        // What follows `elevon run JOB`.
        let options: Vec<String> =
            shlex::split(command).ok_or_else(bad)?.into_iter().skip(3).collect();
        let base = StackOptions::default().with_words(options).map_err(Failure::input)?;
        let axis = |value: &Value| {
            let key = value.get("key")?.as_str()?;
            match value.get("range").and_then(Value::as_str) {
                Some(range) => Axis::parse(&format!("{key}={range}")).ok(),
                None => {
                    let values = value.get("values")?.as_array()?.iter();
                    Axis::of_list(
                        key,
                        values
                            .map(|value| value.as_str().map(str::to_owned))
                            .collect::<Option<_>>()?,
                    )
                    .ok()
                }
            }
        };
        let axes = head.get("over").and_then(Value::as_array).ok_or_else(bad)?.iter().map(axis);
        let seeds =
            head.get("seeds").and_then(Value::as_array).ok_or_else(bad)?.iter().map(Value::as_u64);
        let inputs = head.get("inputs").and_then(Value::as_object).ok_or_else(bad)?;
        let mut definition = Self::of_parts(Parts {
            job: job.into(),
            base,
            texts: Texts::default(),
            axes: axes.collect::<Option<_>>().ok_or_else(bad)?,
            sample: text("sample").filter(|sample| *sample != "grid").map(str::to_owned),
            seeds: seeds.collect::<Option<_>>().ok_or_else(bad)?,
            compare: text("compare").map(str::to_owned),
        })?;
        definition.variables =
            assignments(inputs.iter().map(|(what, value)| (what.as_str(), value.as_str())));
        Ok(definition)
    }
}

/// Reads a plan.
fn of_plan(path: &Path) -> Result<Parts, Failure> {
    let name = path.display().to_string();
    let text = read_text_file(path).map_err(|error| match error {
        SourceError::NotText => Failure::named(&name, SweepError::NoPlan),
        error => Failure::named(&name, error),
    })?;
    let plan = file::parse(&name, &text, &OPTIONS).map_err(Failure::text)?;
    let at = |place: &elevon_formats::fio::Span, error: SweepError| {
        let complaint = elevon_formats::fio::Problem::Malformed.because(error.to_string());
        Failure::text(vec![place.diagnostic("", complaint)])
    };
    let options =
        plan.options.iter().map(|given| [format!("--{}", given.key), given.value.clone()]);
    let settings =
        plan.set.iter().map(|given| ["--set".to_owned(), format!("{}={}", given.key, given.value)]);
    let words: Vec<String> = options.chain(settings).flatten().collect();
    let base =
        StackOptions::default().with_words(words).map_err(|error| Failure::named(&name, error))?;
    let axis = |given: &file::GivenList| {
        let axis = match given.values.as_slice() {
            [one] if !given.is_list => Axis::parse(&format!("{}={one}", given.key)),
            values => Axis::of_list(&given.key, values.to_vec()),
        };
        axis.map_err(|error| at(&given.place, error))
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let seeds = plan
        .seeds
        .map(|given| seeds(&given.value).map_err(|error| at(&given.place, error)))
        .transpose()?;
    Ok(Parts {
        job: plan.job.map(|given| folder.join(given.value)).unwrap_or_default(),
        base,
        texts: Texts::default(),
        axes: plan.over.iter().map(axis).collect::<Result<_, _>>()?,
        sample: plan.sample.map(|given| given.value),
        seeds: seeds.unwrap_or_default(),
        compare: plan.compare.map(|given| given.value),
    })
}

/// Parses a number of seeds, or a list of them.
fn seeds(text: &str) -> Result<Vec<u64>, SweepError> {
    let bad = || SweepError::Seeds { text: text.to_owned(), most: MAX_SEEDS };
    if !text.contains(',') {
        let count =
            text.parse().ok().filter(|count| (1..=MAX_SEEDS).contains(count)).ok_or_else(bad)?;
        return Ok((1..=count).collect());
    }
    let list: Option<Vec<u64>> = text.split(',').map(|seed| seed.trim().parse().ok()).collect();
    let list = list.ok_or_else(bad)?;
    let mut different = list.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() == list.len() { Ok(list) } else { Err(bad()) }
}

/// Parses `AXIS=VALUE`.
fn compared(text: &str, axes: &[Axis]) -> Result<(usize, usize), SweepError> {
    let bad = |why: String| SweepError::Compare { text: text.to_owned(), why };
    let keys = || axes.iter().map(|axis| axis.key.as_str()).collect::<Vec<_>>().join(", ");
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| bad("must be AXIS=VALUE, such as scheduler=none".to_owned()))?;
    let at = axes.iter().position(|axis| axis.key == key);
    let at = at.ok_or_else(|| bad(format!("no such axis; there are {}", keys())))?;
    let value = axes[at].index_of(value);
    let value = value
        .ok_or_else(|| bad(format!("no such value; {key} is {} here", axes[at].in_words())))?;
    Ok((at, value))
}
