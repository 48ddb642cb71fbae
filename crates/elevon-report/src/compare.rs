//! Compares several runs of one job side by side in one table, with ratios to the first run.

use std::fmt::Write as _;

use elevon_cache::stats::CacheUse;
use elevon_core::stats::DirectionStats;
use elevon_result::number::{bytes_binary, bytes_decimal, count, grouped, significant, span};
use elevon_result::result::{CacheResult, CacheSource, RunResult, SizeCounts};
use elevon_result::summary::{
    DiskDelta, bandwidth, iops, latency_mean, mixed, percentile, ratio, shown_latency, total,
};

use crate::cache::{cache_total, hit_ratio, mapped_ratio, ms_per_second};
use crate::cpu;
use crate::fairness;
use crate::settings;
use crate::text::{align_right, plain_table, push_table};
pub use crate::variant::Variant;
use crate::variant::{heads, letters};
use crate::wrap::wrap_at;

/// A request is small if it has fewer bytes than this and less than half of the mean size.
const SMALL_REQUEST_BYTES: u64 = 64 * 1024;

/// One row of a comparison: a quantity and its value in every variant.
pub(crate) struct CompareRow {
    pub(crate) name: &'static str,
    /// Key in JSON, which ends with the unit if there is one.
    pub(crate) key: &'static str,
    pub(crate) values: Vec<f64>,
    format: fn(f64) -> String,
}

impl CompareRow {
    /// Yields the value of each variant as text, with its ratio to the first. There is no ratio for
    /// the first variant, and none if the first value is zero.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (String, Option<f64>)> {
        self.values.iter().zip(self.ratios()).map(|(&value, ratio)| ((self.format)(value), ratio))
    }

    /// Yields the ratio of each variant's value to the first, where [`Self::cells`] has one.
    pub(crate) fn ratios(&self) -> impl Iterator<Item = Option<f64>> {
        let first = self.values.first().copied().unwrap_or_default();
        self.values
            .iter()
            .enumerate()
            .map(move |(at, &value)| (at > 0 && first != 0.0).then(|| value / first))
    }
}

/// What the rows of a [`Section`] are about.
pub(crate) enum About<'a> {
    /// One job, by its name, or one process of a trace.
    Job(&'a str),
    /// All jobs together.
    AllJobs,
    Device,
    PageCache,
}

/// Rows about one job, all jobs, the device or the page cache.
pub(crate) struct Section<'a> {
    pub(crate) about: About<'a>,
    pub(crate) rows: Vec<CompareRow>,
}

impl Section<'_> {
    /// Returns the title of the section's table.
    pub(crate) fn title(&self) -> String {
        match self.about {
            About::Job(name) => format!("job {name}"),
            About::AllJobs => "all jobs".to_owned(),
            About::Device => "device".to_owned(),
            About::PageCache => "page cache".to_owned(),
        }
    }
}

/// Formats the comparison as text: rows for each job, for all jobs together and for the device. If
/// jobs have priorities or weights, a table compares the shares that they got with the shares due.
/// Columns are variants; every value after the first column carries its ratio to the first.
pub fn table(variants: &[Variant<'_>]) -> String {
    let mut out = String::new();
    legend(&mut out, variants);
    settings::unchanged(&mut out, variants);
    settings::table(&mut out, variants);
    for section in sections(variants) {
        block(&mut out, &section);
    }
    fairness::table::text(&mut out, variants, &heads(variants));
    for (letter, variant) in letters().zip(variants) {
        for note in cpu::limits(variant.result) {
            out.push('\n');
            wrap_at(80, &mut out, note.split(' '), &format!("{letter}: "), "  ", "");
        }
    }
    for line in estimates(variants) {
        out.push('\n');
        wrap_at(80, &mut out, line.split(' '), "", "  ", "");
    }
    out
}

/// Returns a line for each group of figures that follow estimates, of the first variant that has
/// them: most comparisons are of one device.
fn estimates(variants: &[Variant<'_>]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for estimate in variants.iter().flat_map(|variant| &variant.result.device.estimates) {
        let line =
            format!("Follows estimates: {}: {}", estimate.named(), estimate.parameters.join(", "));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Returns the I/Os of all jobs of a run.
pub fn all_ios(run: &RunResult) -> u64 {
    total(run).ios
}

/// Differences of a figure below this share are not told.
const CHANGE: f64 = 0.005;

/// A figure that differs between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureChange {
    /// Key in JSON, which ends with the unit if there is one.
    pub key: &'static str,
    /// The value in the first run.
    pub before: f64,
    /// The value in the second run.
    pub after: f64,
    /// `name before -> after`, for people.
    pub text: String,
}

/// A rule of a kernel version that changes figures if it alone is switched.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleChange {
    /// The name of the rule.
    pub name: &'static str,
    /// The part of the block layer that it belongs to.
    pub area: &'static str,
    /// What the rule says in the other kernel.
    pub says: &'static str,
    /// The figures that change; `None` if the device cannot have this rule alone.
    pub figures: Option<Vec<FigureChange>>,
}

/// Which rules make the difference between the first variant and one of another kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct RulesBetween {
    /// The letters of the two variants.
    pub letters: [char; 2],
    /// The kernel versions of the two.
    pub kernels: [&'static str; 2],
    /// Number of rules that differ, as `elevon kernels` counts them.
    pub differ: usize,
    /// I/Os of the first run.
    pub ios: u64,
    /// The rules that change a figure; `None` if the run has too many I/Os to try them.
    pub rules: Option<Vec<RuleChange>>,
}

/// Returns the figures of all jobs together and of the device that differ between the first two
/// variants.
pub fn changes(variants: &[Variant<'_>; 2]) -> Vec<FigureChange> {
    let rows =
        total_rows(variants).into_iter().chain(device_rows(variants)).chain(cache_rows(variants));
    let changed =
        rows.filter(|row| (row.values[1] - row.values[0]).abs() > CHANGE * row.values[0].abs());
    let told = changed.filter_map(|row| {
        let (before, after) = (row.values[0], row.values[1]);
        let (old, new) = ((row.format)(before), (row.format)(after));
        let text = format!("{} {old} -> {new}", row.name);
        (old != new).then_some(FigureChange { key: row.key, before, after, text })
    });
    told.collect()
}

/// Returns the comparison as data. The jobs are those of the first variant; a variant that lacks
/// one of them shows zeros.
pub(crate) fn sections<'a>(variants: &[Variant<'a>]) -> Vec<Section<'a>> {
    let Some(first) = variants.first() else { return Vec::new() };
    let mut sections = Vec::new();
    for (at, job) in first.result.jobs.iter().enumerate() {
        let figures: Vec<DirectionStats> = variants
            .iter()
            .map(|v| {
                v.result
                    .jobs
                    .get(at)
                    .filter(|j| j.name == job.name)
                    .map(|j| mixed(&j.stats))
                    .unwrap_or_default()
            })
            .collect();
        sections.push(Section { about: About::Job(&job.name), rows: job_rows(&figures) });
    }
    if first.result.jobs.len() > 1 {
        sections.push(Section { about: About::AllJobs, rows: total_rows(variants) });
    }
    sections.push(Section { about: About::Device, rows: device_rows(variants) });
    let rows = cache_rows(variants);
    if !rows.is_empty() {
        sections.push(Section { about: About::PageCache, rows });
    }
    sections
}

/// Returns the rows of all jobs together.
pub(crate) fn total_rows(variants: &[Variant<'_>]) -> Vec<CompareRow> {
    job_rows(&variants.iter().map(|v| total(v.result)).collect::<Vec<_>>())
}

/// Writes which variant each column letter stands for.
fn legend(out: &mut String, variants: &[Variant<'_>]) {
    for (letter, variant) in letters().zip(variants) {
        let run = variant.result;
        let kind = if run.device.simulated { "simulated" } else { "real" };
        let _ = writeln!(
            out,
            "{letter}: {} ({kind} {}, {}, kernel {} rules, seed {})",
            variant.label,
            run.device.name,
            run.scheduler.name,
            run.kernel.name(),
            run.seed
        );
        if let Some(job) = run.jobs.iter().find(|job| !job.error.is_empty()) {
            let _ = writeln!(
                out,
                "   FAILED: {}: {}; its column has what ran until then",
                job.name, job.error
            );
        }
    }
}

fn job_rows(figures: &[DirectionStats]) -> Vec<CompareRow> {
    let row = |name, key, format, of: &dyn Fn(&DirectionStats) -> f64| CompareRow {
        name,
        key,
        values: figures.iter().map(of).collect(),
        format,
    };
    let at = |millionths| move |f: &DirectionStats| percentile(shown_latency(f), millionths) as f64;
    vec![
        row("IOPS", "iops", count, &iops),
        row("bandwidth", "bw_bytes", per_second, &bandwidth),
        row("mean latency", "lat_mean_ns", span, &|f| latency_mean(shown_latency(f))),
        row("50% latency", "lat_p50_ns", span, &at(500_000)),
        row("99% latency", "lat_p99_ns", span, &at(990_000)),
        row("99.9% latency", "lat_p99_9_ns", span, &at(999_000)),
    ]
}

pub(crate) fn device_rows(variants: &[Variant<'_>]) -> Vec<CompareRow> {
    let row = |name, key, format, of: &dyn Fn(&RunResult) -> f64| CompareRow {
        name,
        key,
        values: variants.iter().map(|v| of(v.result)).collect(),
        format,
    };
    let delta = |run: &RunResult| DiskDelta::between(&run.disk.start, &run.disk.end);
    let mut rows = vec![
        row("utilisation, exact", "utilisation_percent", percent, &|run| {
            delta(run).utilisation()[3]
        }),
        row("mean in flight", "in_flight_mean", plain, &|run| delta(run).mean_in_flight),
        row("mean in device", "in_device_mean", plain, &|run| run.disk.mean_in_device()),
        row("requests", "requests", whole, &|run| run.disk.all_request_sizes().total() as f64),
        row("mean request", "request_bytes_mean", bytes_binary, &mean_request),
        row("small requests", "small_requests", whole, &|run| small_requests(run) as f64),
        row("splits", "splits", whole, &|run| run.disk.counters.splits as f64),
        row("merges", "merges", whole, &|run| run.disk.counters.merges as f64),
    ];
    if variants.iter().any(|v| v.result.cpu.is_some()) {
        rows.push(row("CPU, busiest job", "cpu_busiest_percent", percent, &|run| {
            100.0 * cpu::busiest(run)
        }));
    }
    rows
}

/// Returns the page cache rows of all jobs together, if any variant has a page cache: the hit
/// ratio, then for each kind of call that slept in any variant how often and how long.
pub(crate) fn cache_rows(variants: &[Variant<'_>]) -> Vec<CompareRow> {
    let caches: Vec<Option<CacheTotals<'_>>> =
        variants.iter().map(|v| CacheTotals::from_run(v.result)).collect();
    let row = |name, key, format, of: &dyn Fn(&CacheTotals<'_>) -> f64| CompareRow {
        name,
        key,
        values: caches.iter().map(|cache| cache.as_ref().map_or(0.0, of)).collect(),
        format,
    };
    let mut rows = vec![
        row("pages read: found", "hit_percent", percent, &|c| {
            100.0 * hit_ratio(c.count("hits"), c.count("misses")).unwrap_or(0.0)
        }),
        row("touches: found", "mapped_hit_percent", percent, &|c| {
            100.0 * mapped_ratio(&c.used).unwrap_or(0.0)
        }),
    ];
    for (n, [count, mean, p99, rate]) in CALL_ROWS.iter().enumerate() {
        let stats = |c: &CacheTotals<'_>| c.used.kinds()[n].1.clone();
        rows.extend([
            row(count.0, count.1, whole, &|c| stats(c).iowait.count as f64),
            row(mean.0, mean.1, span, &|c| latency_mean(&stats(c).iowait)),
            row(p99.0, p99.1, span, &|c| percentile(&stats(c).iowait, 990_000) as f64),
            row(rate.0, rate.1, significant_3, &|c| ms_per_second(stats(c).iowait.sum, c.elapsed)),
        ]);
    }
    rows.extend([
        row("dirty pauses, ms/s", "dirty_pauses_ms_per_second", significant_3, &|c| {
            let paused: u128 = c.used.kinds().iter().map(|(_, stats)| stats.paused.sum).sum();
            ms_per_second(paused, c.elapsed)
        }),
        row("no memory, ms/s", "no_memory_ms_per_second", significant_3, &|c| {
            let starved: u64 = c.used.kinds().iter().map(|(_, stats)| stats.starved.ns).sum();
            ms_per_second(starved.into(), c.elapsed)
        }),
        row("bios of the cache", "bios", whole, &|c| c.sources(|source| source.bios)),
        row("promoted to RT", "promoted_bios", whole, &|c| c.sources(|source| source.promoted)),
        row("refaulted pages", "refaulted_pages", whole, &|c| c.vmstat("workingset_refault_file")),
        row("reclaimed pages", "reclaimed_pages", whole, &|c| {
            c.vmstat("pgsteal_kswapd") + c.vmstat("pgsteal_direct")
        }),
    ]);
    rows.retain(|row| row.values.iter().any(|&value| value != 0.0));
    rows
}

/// CompareRow names and keys of each kind of call, in the order of [`CacheUse::kinds`].
const CALL_ROWS: [[(&str, &str); 4]; 4] = [
    [
        ("faults that slept", "faults_slept"),
        ("fault iowait, mean", "fault_iowait_mean_ns"),
        ("fault iowait, 99%", "fault_iowait_p99_ns"),
        ("fault iowait, ms/s", "fault_iowait_ms_per_second"),
    ],
    [
        ("reads that slept", "reads_slept"),
        ("read iowait, mean", "read_iowait_mean_ns"),
        ("read iowait, 99%", "read_iowait_p99_ns"),
        ("read iowait, ms/s", "read_iowait_ms_per_second"),
    ],
    [
        ("writes that slept", "writes_slept"),
        ("write iowait, mean", "write_iowait_mean_ns"),
        ("write iowait, 99%", "write_iowait_p99_ns"),
        ("write iowait, ms/s", "write_iowait_ms_per_second"),
    ],
    [
        ("syncs that slept", "syncs_slept"),
        ("sync iowait, mean", "sync_iowait_mean_ns"),
        ("sync iowait, 99%", "sync_iowait_p99_ns"),
        ("sync iowait, ms/s", "sync_iowait_ms_per_second"),
    ],
];

/// The page cache of a run, with the page cache statistics of all its jobs together.
struct CacheTotals<'a> {
    cache: &'a CacheResult,
    used: CacheUse,
    elapsed: u64,
}

impl<'a> CacheTotals<'a> {
    fn from_run(run: &'a RunResult) -> Option<Self> {
        let cache = run.cache.as_ref()?;
        Some(Self { cache, used: cache_total(run), elapsed: run.elapsed.get() })
    }
    fn count(&self, name: &str) -> u64 {
        self.cache.pages(name)
    }
    fn vmstat(&self, name: &str) -> f64 {
        self.cache
            .vmstat
            .iter()
            .find(|(key, _)| key == name)
            .map_or(0.0, |&(_, count)| count as f64)
    }
    fn sources(&self, of: impl Fn(&CacheSource) -> u64) -> f64 {
        self.cache.sources.iter().map(of).sum::<u64>() as f64
    }
}

/// Returns the mean size in bytes of the requests issued to the driver.
fn mean_request(run: &RunResult) -> f64 {
    let sizes = run.disk.all_request_sizes();
    ratio(sizes.bytes() as f64, sizes.total() as f64)
}

/// Returns the number of small requests: below 64 KiB and below half of the mean size of their
/// group. Each has the full cost of a request for little data.
fn small_requests(run: &RunResult) -> u64 {
    let of = |sizes: &SizeCounts| -> u64 {
        let limit = ratio(sizes.bytes() as f64, sizes.total() as f64) / 2.0;
        sizes
            .0
            .iter()
            .filter(|&&(b, _)| b < SMALL_REQUEST_BYTES && (b as f64) < limit)
            .map(|&(_, n)| n)
            .sum()
    };
    run.disk.request_sizes.iter().map(of).sum()
}

fn per_second(value: f64) -> String {
    format!("{}/s", bytes_decimal(value))
}
fn percent(value: f64) -> String {
    format!("{value:.2}%")
}
fn plain(value: f64) -> String {
    format!("{value:.2}")
}
fn significant_3(value: f64) -> String {
    significant(value, 3)
}
fn whole(value: f64) -> String {
    grouped(value as u64)
}

/// Longest title of a section, in characters, that stands in the column of the rows' names: about
/// as long as these are. A longer one has a line of its own.
const LONGEST_TITLE: usize = 24;

fn block(out: &mut String, section: &Section) {
    let mut table = plain_table();
    let columns = section.rows.first().map_or(0, |row| row.values.len());
    let title = section.title();
    let is_long = title.chars().count() > LONGEST_TITLE;
    let mut header = vec![if is_long { String::new() } else { title.clone() }];
    for (at, letter) in letters().take(columns).enumerate() {
        header.push(letter.to_string());
        if at > 0 {
            header.push(format!("{letter}/A"));
        }
    }
    table.set_header(header);
    for row in &section.rows {
        let mut cells = vec![row.name.to_owned()];
        for (at, (value, ratio)) in row.cells().enumerate() {
            cells.push(value);
            if at > 0 {
                cells.push(ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}")));
            }
        }
        table.add_row(cells);
    }
    align_right(&mut table);
    out.push('\n');
    if is_long {
        out.push_str(&title);
        out.push('\n');
    }
    push_table(out, &table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn two_variants() {
        let (a, b) = (sample::mixed_run(), sample::quicker_run());
        let variants = [
            Variant { label: "--scheduler mq-deadline", result: &a },
            Variant { label: "--scheduler none", result: &b },
        ];
        insta::assert_snapshot!(table(&variants));
    }

    #[test]
    fn weighted_readers() {
        let a = sample::weighted_run(&[("high", 80, 500), ("middle", 40, 500), ("low", 10, 500)]);
        let b = sample::weighted_run(&[("high", 80, 620), ("middle", 40, 310), ("low", 10, 90)]);
        let variants = [
            Variant { label: "inject=seed", result: &a },
            Variant { label: "inject=fair", result: &b },
        ];
        let text = table(&variants);
        let at = text.find("share of bandwidth").expect("a table of shares");
        insta::assert_snapshot!(text[at..].to_owned());
    }

    #[test]
    fn page_caches() {
        let (a, mut b) = (sample::cached_run(), sample::cached_run());
        let used = b.jobs[0].cache_use.as_mut().expect("a cache");
        used.fault = Default::default();
        let variants = [
            Variant { label: "activity=off", result: &a },
            Variant { label: "iter-bio", result: &b },
        ];
        let text = table(&variants);
        let at = text.find("page cache").expect("a block of it");
        insta::assert_snapshot!(text[at..].to_owned());
        assert!(cache_rows(&[Variant { label: "none", result: &sample::mixed_run() }]).is_empty());
    }

    #[test]
    fn four_variants_stay_within_120_columns() {
        let runs =
            [sample::mixed_run(), sample::quicker_run(), sample::odd_run(), sample::empty_run()];
        let variants: Vec<_> = runs.iter().map(|result| Variant { label: "v", result }).collect();
        let weighted = sample::weighted_run(&[("a-reader", 80, 500), ("another-one", 10, 500)]);
        let weighted = [Variant { label: "v", result: &weighted }; 4];
        let text = table(&variants) + &table(&weighted);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn a_long_name_does_not_move_the_figures() {
        let mut run = sample::mixed_run();
        let name = "reader-".repeat(20);
        run.jobs[0].name.clone_from(&name);
        let text = table(&[Variant { label: "v", result: &run }; 4]);
        let line =
            text.lines().position(|line| line == format!("job {name}")).expect("a line of its own");
        let rest = text.lines().skip(line + 1);
        assert!(rest.clone().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn no_variant_is_no_table() {
        assert_eq!(table(&[]), "");
    }
}
