//! Turns sections into jobs: looks up options, checks values, applies globals, then checks for
//! options that conflict.
//!
//! All errors are collected, not only the first. Cost: O(options x rows) with some 400 rows; a job
//! file is read once.

use super::draft::{Draft, Given};
use super::engine::WITHOUT_CACHE;
use super::grammar;
use super::lines::{Beside, KeyValue, MAX_ERRORS, Reader, Section};
use super::number::{Scan, Unit, by_direction};
use super::options::{OptionKind, OptionRow, Status, find, nearest};
use super::over::JobOption;
use super::source::{Environment, JobSource};
use super::spec::{Amount, JobSpec, RANGES_ENGINE};
use crate::diagnostic::{Complaint, Diagnostic, Problem, Span};
use elevon_core::kernel::Rules;
use elevon_core::limits::QueueLimits;
use elevon_core::units::{Bytes, Sector};

/// The jobs of a set of job files.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedJobs {
    /// The jobs in order.
    pub jobs: Vec<JobSpec>,
    /// Warnings, at most one per option and message.
    pub warnings: Vec<Diagnostic>,
    /// What the files read of the environment.
    pub environment: Environment,
    places: Vec<Vec<(&'static str, Span)>>,
}

impl ParsedJobs {
    /// Returns jobs that were not read from a file.
    pub fn of_specs(jobs: Vec<JobSpec>) -> Self {
        let places = vec![Vec::new(); jobs.len()];
        Self { places, jobs, warnings: Vec::new(), environment: Environment::new() }
    }

    /// Drops the warnings that apply only to a run without a page cache. Returns true if any job
    /// uses the cache.
    ///
    /// # Errors
    /// A job has trims of several ranges.
    pub fn with_cache(&mut self) -> Result<bool, Vec<Diagnostic>> {
        self.warnings.retain(|warning| warning.problem != Problem::WithoutCache);
        let Some(index) = self.jobs.iter().position(|job| job.blocks.trim_ranges > 1) else {
            return Ok(self.jobs.iter().any(JobSpec::is_buffered));
        };
        let message =
            "trims of several ranges go past no page cache; leave out --memory and --cache";
        Err(vec![self.diagnostic(index, "num_range", Problem::Conflict.because(message))])
    }

    /// Returns a complaint about an option of a job, for checks that need the device. Its place is
    /// the option's last use, else the head of the job's section.
    pub fn diagnostic(&self, job: usize, key: &str, complaint: Complaint) -> Diagnostic {
        let places = self.places.get(job).map_or(&[][..], Vec::as_slice);
        let found = places.iter().rev().find(|(name, _)| *name == key).or_else(|| places.first());
        found.map(|(_, at)| at.clone()).unwrap_or_default().diagnostic(key, complaint)
    }

    /// Returns complaints about sizes and offsets of I/O that a device with logical blocks of
    /// `logical_block` bytes cannot do; empty if there are none. `cached`: buffered jobs go through
    /// a page cache, and may have any size. The complaint suggests what was meant: 1024 bytes for
    /// each thousand (`KiB` is 1000 bytes, as in fio), or a `k` that was forgotten behind a small
    /// number.
    pub fn unaligned(&self, logical_block: u64, cached: bool) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let is_in_blocks = |job: &JobSpec| !cached || !job.goes_in_bytes();
        for (index, job) in self.jobs.iter().enumerate().filter(|(_, job)| is_in_blocks(job)) {
            let occurs = [job.rw.read, job.rw.write, job.rw.trim];
            let sizes = job.blocks.sizes.iter().zip(occurs).filter(|&(_, occurs)| occurs);
            let Some(bytes) =
                sizes.flat_map(|(sizes, _)| each(sizes)).find(|bytes| bytes % logical_block != 0)
            else {
                continue;
            };
            let fits =
                |kib: u64| kib.checked_mul(1024).is_some_and(|larger| larger % logical_block == 0);
            let right = match bytes {
                _ if bytes % 1000 == 0 && fits(bytes / 1000) => {
                    format!(
                        "did you mean {}k? (KiB is 1000 bytes, k is 1024, unless kb_base=1000)",
                        bytes / 1000
                    )
                }
                ..4096 if fits(bytes) => format!("did you mean {bytes}k?"),
                _ => format!("use {}", bytes.next_multiple_of(logical_block)),
            };
            let needed = if job.goes_in_bytes() {
                format!(", as is needed {WITHOUT_CACHE}")
            } else {
                String::new()
            };
            let message = format!(
                "{bytes} bytes is no multiple of the device's logical block of {logical_block}{needed}; {right}"
            );
            found.push(self.diagnostic(
                index,
                self.key_of_size(index),
                Problem::Unaligned.because(message),
            ));
        }
        found
    }

    /// Returns complaints about atomic writes of jobs that a queue with these limits, or a kernel
    /// with these rules, cannot do; empty if there are none. Only the sizes that the job names are
    /// looked at.
    pub fn not_atomic(&self, limits: &QueueLimits, rules: &Rules) -> Vec<Diagnostic> {
        let jobs = self.jobs.iter().enumerate();
        let writers = jobs
            .filter(|(_, job)| job.durability.atomic && (job.rw.write || job.rw.trim_then_write));
        let complaint = |(index, job): (usize, &JobSpec)| {
            if !rules.atomic_writes {
                let message =
                    "Linux has atomic writes from 6.11 on; use --kernel 6.12 or a later one";
                return Some(self.diagnostic(
                    index,
                    "atomic",
                    Problem::Unsupported.because(message),
                ));
            }
            let sizes = &job.blocks.sizes[usize::from(!job.blocks.by_order)..2];
            if limits.atomic_write_max == 0 {
                let most = sizes.iter().flat_map(each).max().unwrap_or(4096).next_power_of_two();
                let message = format!(
                    "the device has no atomic writes: its atomic_write_max_bytes is 0; \
                     a simulated one has them with --set atomic_write_max_bytes={most}"
                );
                return Some(self.diagnostic(
                    index,
                    "atomic",
                    Problem::Unsupported.because(message),
                ));
            }
            let fits = |bytes: &u64| limits.takes_atomic(Sector::ZERO, Bytes::new(*bytes));
            let bytes = sizes.iter().flat_map(each).find(|bytes| !fits(bytes))?;
            let (least, most) = (limits.atomic_write_unit_min, limits.atomic_write_unit_max);
            let message = format!(
                "{bytes} bytes are no atomic write of the device; must be a power of two from {least} to {most}"
            );
            Some(self.diagnostic(
                index,
                self.key_of_size(index),
                Problem::OutOfRange.because(message),
            ))
        };
        writers.filter_map(complaint).collect()
    }

    /// Returns the option that gives a job its sizes.
    fn key_of_size(&self, job: usize) -> &'static str {
        let is_given = |key: &&str| {
            self.places.get(job).is_some_and(|places| places.iter().any(|(name, _)| name == key))
        };
        ["bssplit", "bsrange"].into_iter().find(is_given).unwrap_or("bs")
    }
}

fn each(sizes: &super::spec::BlockSizes) -> Vec<u64> {
    match sizes {
        super::spec::BlockSizes::Range(low, high) => vec![*low, *high],
        super::spec::BlockSizes::Split(split) => split.iter().map(|&(bytes, _)| bytes).collect(),
    }
}

/// Parses one job file.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(source: &mut dyn JobSource, name: &str) -> Result<ParsedJobs, Vec<Diagnostic>> {
    parse_all(source, &[name])
}

/// The maximum number of jobs of a run, clones included. fio has at most 4096.
pub const MAX_JOBS: u64 = 1 << 17;

/// The engines whose writes can be atomic.
const ATOMIC_ENGINES: [&str; 3] = ["pvsync2", "libaio", "io_uring"];

/// Parses several job files. The jobs of each file start when those of the files before it have
/// ended.
///
/// # Errors
/// Everything that is wrong with them, in order.
pub fn parse_all(
    source: &mut dyn JobSource,
    names: &[&str],
) -> Result<ParsedJobs, Vec<Diagnostic>> {
    parse_all_with(source, names, &[])
}

/// The same with options of a command line over those of the files.
///
/// # Errors
/// Everything that is wrong with the files and the options, in order.
pub fn parse_all_with(
    source: &mut dyn JobSource,
    names: &[&str],
    over: &[JobOption],
) -> Result<ParsedJobs, Vec<Diagnostic>> {
    let (job_file, environment) = (String::new(), Environment::new());
    let beside = Beside::default();
    let mut reader =
        Reader { source, errors: Vec::new(), warnings: Vec::new(), job_file, environment, beside };
    let files: Vec<Vec<Section>> = names.iter().map(|name| reader.sections(name)).collect();
    let (mut jobs, environment) = (0, reader.environment);
    let mut parser = Parser {
        errors: reader.errors,
        warnings: reader.warnings,
        jobs: Vec::new(),
        places: Vec::new(),
    };
    for (index, sections) in files.iter().enumerate() {
        let (mut globals, before) = (Draft::new(), parser.jobs.len());
        for section in sections {
            if section.is_global() {
                parser.options(&mut globals, section, &[]);
            } else {
                let mut draft = globals.clone();
                draft.spec.global_options = std::mem::take(&mut draft.spec.options);
                draft.spec.name = section.name.clone();
                draft.spec.origin = format!("{}:{}", section.at.file, section.at.line);
                parser.options(&mut draft, section, over);
                jobs += u64::from(draft.spec.numjobs.max(1));
                parser.finish(draft, section);
            }
            if jobs > MAX_JOBS {
                let message = format!(
                    "with this section there are {jobs} jobs, counting numjobs=; must be {MAX_JOBS} or fewer"
                );
                parser.error(
                    section.at.diagnostic(
                        &format!("[{}]", section.name),
                        Problem::TooMany.because(message),
                    ),
                );
            }
            if jobs > MAX_JOBS || parser.errors.len() >= MAX_ERRORS {
                return Err(parser.errors);
            }
        }
        if let Some(first) = parser.jobs.get_mut(before).filter(|_| index > 0) {
            first.order.stonewall = true;
        }
    }
    parser.errors.extend(over.iter().filter_map(|option| without_job(option, &parser.jobs)));
    if parser.errors.is_empty() {
        Ok(ParsedJobs {
            jobs: parser.jobs,
            warnings: parser.warnings,
            environment,
            places: parser.places,
        })
    } else {
        Err(parser.errors)
    }
}

/// Returns the complaint about an option for a job that there is not.
fn without_job(option: &JobOption, jobs: &[JobSpec]) -> Option<Diagnostic> {
    let name =
        option.job.as_deref().filter(|_| !jobs.iter().any(|job| option.is_for(&job.name)))?;
    let mut known: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    known.dedup();
    let message = format!("no job `{name}`; must be one of {}", known.join(", "));
    Some(option.entry.at.diagnostic("", Problem::Unknown.because(message)))
}

struct Parser {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    jobs: Vec<JobSpec>,
    places: Vec<Vec<(&'static str, Span)>>,
}

impl Parser {
    fn error(&mut self, diagnostic: Diagnostic) {
        if self.errors.len() < MAX_ERRORS && !self.errors.contains(&diagnostic) {
            self.errors.push(diagnostic);
        }
    }

    /// Adds a warning, unless the same warning about the same option is there already.
    fn warn(&mut self, diagnostic: Diagnostic) {
        if !self
            .warnings
            .iter()
            .any(|known| known.key == diagnostic.key && known.message == diagnostic.message)
        {
            self.warnings.push(diagnostic);
        }
    }

    fn options(&mut self, draft: &mut Draft, section: &Section, over: &[JobOption]) {
        // As in fio, kb_base applies to its whole section, and the engine is set before its
        // options.
        let rank = |entry: &&KeyValue| match entry.key.as_str() {
            "kb_base" => 0,
            "ioengine" => 1,
            _ => 2,
        };
        let mut over: Vec<&JobOption> =
            over.iter().filter(|option| option.is_for(&section.name)).collect();
        // An option for this job wins over one for all, whichever was given last.
        over.sort_by_key(|option| option.job.is_some());
        let mut entries: Vec<&KeyValue> =
            section.entries.iter().chain(over.into_iter().map(|option| &option.entry)).collect();
        entries.sort_by_key(rank);
        let (errors, warnings) = (self.errors.len(), self.warnings.len());
        for entry in entries {
            if self.errors.len() >= MAX_ERRORS {
                break;
            }
            self.option(draft, entry);
        }
        self.errors[errors..].sort_by_key(|error| (error.file != section.at.file, error.line));
        self.warnings[warnings..]
            .sort_by_key(|warning| (warning.file != section.at.file, warning.line));
    }

    fn option(&mut self, draft: &mut Draft, entry: &KeyValue) {
        let Some(row) = find(&entry.key) else {
            let hint = nearest(&entry.key).map(|name| format!("did you mean `{name}`?"));
            let right = hint.unwrap_or_else(|| "must be an option of fio's".to_owned());
            return self.error(entry.at.diagnostic(
                &entry.key,
                Problem::Unknown.because(format!("unknown option; {right}")),
            ));
        };
        let at = Span { column: entry.value_column, ..entry.at.clone() };
        let mut scan =
            Scan { kb_base: draft.kb_base, notes: Vec::new(), files: entry.files.clone() };
        let value = entry.value.as_deref();
        // An option of the command line takes the place of the section's.
        let is_over = entry.at.line == 0;
        if is_over && row.name == "filename" {
            draft.spec.files.names.clear();
        }
        match apply(row, draft, &mut scan, value) {
            Err(why) => {
                draft.engine_is_refused |= row.name == "ioengine";
                return self
                    .error(at.diagnostic(&entry.key, why.reworded(|words| words + &unset(entry))));
            }
            Ok(()) if row.name == "ioengine" => draft.engine_is_refused = false,
            Ok(()) if row.name == "kb_base" => {
                draft.kb_base = if value == Some("1000") { 1000 } else { 1024 }
            }
            Ok(()) => {}
        }
        match row.status {
            Status::Honoured => {}
            Status::NoEffect(why) => {
                // Warns once per option, under its main name and at its first place.
                let complaint =
                    Problem::NoEffect.because(format!("accepted without effect: {why}"));
                self.warn(entry.at.diagnostic(row.name, complaint));
            }
            Status::Refused(_) if is_neutral(row, value) => {}
            Status::Refused(why) => {
                let complaint = Problem::Unsupported.because(format!("not supported: {why}"));
                return self.error(entry.at.diagnostic(&entry.key, complaint));
            }
        }
        if !entry.unset.is_empty() {
            let complaint = Problem::Missing.because(unset(entry).trim_start_matches("; "));
            self.warn(at.diagnostic(&entry.key, complaint));
        }
        for note in scan.notes {
            self.warn(at.diagnostic(&entry.key, note));
        }
        if is_over {
            draft.spec.options.retain(|(name, _)| name != row.name);
        }
        draft.given.push(Given { row, at });
        draft.spec.options.push((row.name.to_owned(), value.unwrap_or("1").to_owned()));
    }

    fn finish(&mut self, mut draft: Draft, section: &Section) {
        let mut notes = Vec::new();
        draft.settle(&mut |key, message| notes.push((key.to_owned(), message)));
        let place = |draft: &Draft, key: &str| draft.place(key).unwrap_or(&section.at).clone();
        for (key, message) in notes {
            self.warn(place(&draft, &key).diagnostic(&key, Problem::Differs.because(message)));
        }
        for (key, message) in self.conflicts(&draft) {
            self.error(place(&draft, key).diagnostic(key, Problem::Conflict.because(message)));
        }
        self.engine_options(&draft);
        if !draft.spec.caching.direct && !draft.spec.engine.is_mapped() {
            let message = format!("runs as direct=1 {WITHOUT_CACHE}; write direct=1 to say so");
            let complaint = Problem::WithoutCache
                .because(format!("buffered I/O (direct=0, fio's default) {message}"));
            let warning = place(&draft, "direct").diagnostic("direct", complaint);
            if !self.warnings.iter().any(|known| known.key == "direct") {
                self.warn(warning);
            }
        }
        let head = ("", section.at.clone());
        self.places.push(
            std::iter::once(head)
                .chain(draft.given.into_iter().map(|g| (g.row.name, g.at)))
                .collect(),
        );
        self.jobs.push(draft.spec);
    }

    fn engine_options(&mut self, draft: &Draft) {
        if draft.engine_is_refused {
            // Its options are right for the engine that was asked for.
            return;
        }
        let engine = &draft.spec.engine.name;
        for Given { row, at } in &draft.given {
            if !row.engines.is_empty() && !row.engines.contains(&engine.as_str()) {
                let owners = row.engines.join(", ");
                let message = format!(
                    "ioengine={engine} has no such option; it belongs to ioengine={owners}"
                );
                self.error(at.diagnostic(row.name, Problem::Unknown.because(message)));
            }
        }
    }

    /// Returns the options that conflict, by fio's rules.
    fn conflicts(&self, draft: &Draft) -> Vec<(&'static str, String)> {
        let spec = &draft.spec;
        let mut found = Vec::new();
        if spec.rates.bytes.iter().any(Option::is_some)
            && spec.rates.iops.iter().any(Option::is_some)
        {
            found.push(("rate", "excludes rate_iops; give one of them".to_owned()));
        }
        let pairs = [
            ("rate_min", &spec.rates.min_bytes, &spec.rates.bytes),
            ("rate_iops_min", &spec.rates.min_iops, &spec.rates.iops),
        ];
        for (key, least, most) in pairs {
            let above = least
                .iter()
                .zip(most)
                .find(|(least, most)| matches!((least, most), (Some(a), Some(b)) if a > b));
            if let Some((Some(least), Some(most))) = above {
                let message = format!(
                    "{least} is above the limit of {most} that the job may not pass; must be lower"
                );
                found.push((key, message));
            }
        }
        if let Some(region) = draft.region().filter(|&region| region < draft.smallest_block()) {
            let block = draft.smallest_block();
            found.push((
                "size",
                format!("{region} bytes hold no I/O of {block}; must be {block} or more"),
            ));
        }
        if spec.verify.only && spec.timing.time_based {
            found.push(("verify_only", "excludes time_based; leave one out".to_owned()));
        }
        if spec.timing.steady.is_some_and(|steady| steady.interval.is_zero()) {
            found.push((
                "steadystate_check_interval",
                "`0` is no time between samples; must be 1s or so".to_owned(),
            ));
        }
        found.extend(zone_conflict(draft));
        found.extend(atomic_conflict(spec));
        found.extend(ranges_conflict(spec));
        if draft.command_prio.is_used() == (true, true) {
            found
                .push(("cmdprio_bssplit", "excludes cmdprio_percentage; leave one out".to_owned()));
        }
        if let Some(name) = &spec.order.wait_for {
            match self.jobs.iter().filter(|job| job.name == *name).count() {
                0 => found.push((
                    "wait_for",
                    format!("no job `{name}` above this one; must name an earlier section"),
                )),
                1 => {}
                _ => found
                    .push(("wait_for", format!("several jobs are called `{name}`; must name one"))),
            }
        }
        if let Some(Amount::Percent(0)) = spec.space.size {
            found.push(("size", "0% is nothing; must be 1% to 100%".to_owned()));
        }
        found
    }
}

/// Returns what is wrong with `atomic` in a job, if anything is.
fn atomic_conflict(spec: &JobSpec) -> Option<(&'static str, String)> {
    let engine = &spec.engine.name;
    let message = match (
        spec.durability.atomic,
        ATOMIC_ENGINES.contains(&engine.as_str()),
        spec.caching.direct,
    ) {
        (false, ..) | (true, true, true) => return None,
        (true, false, _) => {
            format!("ioengine={engine} has no atomic writes; use {}", ATOMIC_ENGINES.join(", "))
        }
        (true, true, false) => {
            "needs direct=1: what goes through the page cache is not written atomically".to_owned()
        }
    };
    Some(("atomic", message))
}

/// Returns what is wrong with `num_range` in a job, if anything is.
fn ranges_conflict(spec: &JobSpec) -> Option<(&'static str, String)> {
    let (rw, engine) = (&spec.rw, &spec.engine.name);
    let message = if spec.blocks.trim_ranges == 1 {
        return None;
    } else if !rw.trim || rw.read || rw.write || rw.trim_then_write {
        "needs rw=trim or rw=randtrim: only trims have several ranges".to_owned()
    } else if engine != RANGES_ENGINE {
        format!("ioengine={engine} trims one range at a time; use {RANGES_ENGINE}")
    } else if spec.queue.serialize_overlap {
        "excludes serialize_overlap; leave one out".to_owned()
    } else {
        return None;
    };
    Some(("num_range", message))
}

/// Returns what is wrong with the zones of a job, if anything is.
fn zone_conflict(draft: &Draft) -> Option<(&'static str, String)> {
    match (draft.zones.strided, draft.spec.space.zones) {
        (true, None) => Some(("zonemode", "`strided` needs zonesize=, such as 1m".to_owned())),
        (true, Some(zones)) => {
            let block = draft.largest_least_block();
            let message = format!(
                "a zone of {} bytes holds no I/O of {block}; must be {block} or more",
                zones.range
            );
            (zones.range < block)
                .then_some((if draft.zones.range == 0 { "zonesize" } else { "zonerange" }, message))
        }
        (false, _) => (draft.zones.size > 0).then(|| {
            (
                "zonesize",
                "needs zonemode=strided, and fio refuses it without; add that or leave it out"
                    .to_owned(),
            )
        }),
    }
}

/// Returns the note about variables in a value that are not set; empty if all are set.
fn unset(entry: &KeyValue) -> String {
    let names: Vec<String> = entry.unset.iter().map(|name| format!("${{{name}}}")).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} is not set in the environment, and stands for nothing"),
        [..] => format!(
            "; {} are not set in the environment, and stand for nothing",
            names.join(" and ")
        ),
    }
}

/// Checks a value and passes it to its setter.
fn apply(
    row: &OptionRow,
    draft: &mut Draft,
    scan: &mut Scan,
    value: Option<&str>,
) -> Result<(), Complaint> {
    match (row.kind, value) {
        (OptionKind::Flag(set), None) => set(draft, true),
        (OptionKind::OptionalText(set), None) => set(draft, scan, "")?,
        (_, None) => {
            let example = if row.default.is_empty() {
                String::new()
            } else {
                format!(", such as {}={}", row.name, row.default)
            };
            return Err(Problem::Missing.because(format!("needs a value{example}")));
        }
        (OptionKind::Flag(set), Some(text)) => set(draft, scan.unsigned(text, Unit::Plain)? != 0),
        (OptionKind::Bool(set), Some(text)) => match scan.unsigned(text, Unit::Plain) {
            Ok(value @ 0..=1) => set(draft, value == 1),
            _ => {
                return Err(
                    Problem::NoChoice.because(format!("`{text}` is no switch; must be 0 or 1"))
                );
            }
        },
        (OptionKind::Int(low, high, set), Some(text)) => {
            let value = bounded(row, scan, text, low, high)?;
            // A negative value has the bits of its two's complement, which a setter casts back.
            set(draft, value as u64);
        }
        (OptionKind::Directions(low, high, set), Some(text)) => {
            let list = by_direction(text, |part| match scan.unsigned(part, Unit::Plain)? {
                value if (low..=high).contains(&value) => Ok(value),
                _ => Err(Problem::OutOfRange.because(format!(
                    "`{part}` is out of range; must be {low} to {high}{}",
                    unit(row)
                ))),
            });
            set(draft, list.map_err(|why| with_unit(row, why))?);
        }
        (OptionKind::Amount(set), Some(text)) => set(draft, scan.amount(text)?),
        (OptionKind::Time(bare, set), Some(text)) => {
            set(draft, grammar::nanos(scan.unsigned(text, Unit::Time(bare))?)?);
        }
        (OptionKind::Choice(words, set), Some(text)) => {
            match words.iter().find(|word| **word == text) {
                Some(word) => set(draft, word),
                None => {
                    return Err(Problem::NoChoice.because(format!(
                        "`{text}` is no choice; must be one of {}",
                        words.join(" ")
                    )));
                }
            }
        }
        (OptionKind::Text(set) | OptionKind::OptionalText(set), Some(text)) => {
            set(draft, scan, text)?;
        }
    }
    Ok(())
}

/// Reads a whole number from `low` to `high`.
fn bounded(
    row: &OptionRow,
    scan: &mut Scan,
    text: &str,
    low: i64,
    high: u64,
) -> Result<i128, Complaint> {
    let value = scan.signed(text, Unit::Plain).map_err(|why| match why.problem {
        // A small range is more helpful than an example of a size.
        Problem::NotANumber if high < 100_000 => {
            why.reworded(|_| format!("`{text}` is no number; must be {low} to {high}{}", unit(row)))
        }
        _ => with_unit(row, why),
    })?;
    if value < i128::from(low) || value > i128::from(high) {
        return Err(Problem::OutOfRange
            .because(format!("`{text}` is out of range; must be {low} to {high}{}", unit(row))));
    }
    Ok(value)
}

fn unit(row: &OptionRow) -> String {
    if row.unit.is_empty() { String::new() } else { format!(" ({})", row.unit) }
}

/// Improves the error of a count of milliseconds, which takes no time suffix (fio ignores it and
/// reads `5s` as 5 ms).
fn with_unit(row: &OptionRow, why: Complaint) -> Complaint {
    if row.unit == "ms" && why.problem == Problem::UnknownUnit {
        return why.reworded(|_| "is a bare number of milliseconds; must have no unit".to_owned());
    }
    why
}

/// Returns true if the value of a refused option is only its default or 0.
fn is_neutral(row: &OptionRow, value: Option<&str>) -> bool {
    value.is_some_and(|value| {
        value == row.default
            || matches!(row.kind, OptionKind::Bool(_) | OptionKind::Int(..)) && value == "0"
    })
}
