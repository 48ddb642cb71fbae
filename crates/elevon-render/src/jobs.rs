//! Writes a job as a job file: the options that differ from fio's defaults, in plain units. The
//! text parses to an equal job.

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::units::Nanos;
use elevon_formats::fio::WRITE_HINTS;
use elevon_formats::fio::spec::{
    Amount, BlockSizes, Distribution, ExitWhat, FileService, JobSpec, LatencyTarget, SizePrio,
    SyncMode, Unified, VerifyMethod, WindowValue,
};
use std::fmt::{Display, Write};

/// Returns jobs as one job file. `origin` and `options` are left out, because they say where a job
/// came from and not what it does.
pub fn jobs<'a>(jobs: impl IntoIterator<Item = &'a JobSpec>) -> String {
    let mut page = Page(String::new());
    for job in jobs {
        head(&job.name, &mut page);
        pattern(job, &mut page);
        target(job, &mut page);
        load(job, &mut page);
        order_and_priority(job, &mut page);
        durability_and_chance(job, &mut page);
        report(job, &mut page);
        content_and_logs(job, &mut page);
    }
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key}={value}");
    }
    fn unless<T: PartialEq + Display>(&mut self, key: &str, value: T, default: T) {
        if value != default {
            self.line(key, value);
        }
    }
    fn flag(&mut self, key: &str, on: bool) {
        if on {
            self.line(key, 1);
        }
    }
    fn time(&mut self, key: &str, span: Nanos) {
        if span != Nanos::ZERO {
            self.line(key, us(span));
        }
    }
    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(key, value);
        }
    }
    /// Writes limits by direction, with 0 for a direction without one.
    fn limits(&mut self, key: &str, list: [Option<u64>; 3]) {
        if list.iter().any(Option::is_some) {
            self.line(
                key,
                list.map(|one| one.map_or("0".to_owned(), |one| one.to_string())).join(","),
            );
        }
    }
}

fn us(span: Nanos) -> String {
    format!("{}us", span.as_micros())
}

fn millionths(value: u64) -> String {
    format!("{}.{:06}", value / 1_000_000, value % 1_000_000)
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => bytes.to_string(),
        Amount::Percent(percent) => format!("{percent}%"),
    }
}

/// Writes the head of a section. A name that cannot stand in a head is written as `name=` instead.
fn head(name: &str, page: &mut Page) {
    if name.starts_with("global") || name.contains(']') {
        let _ = writeln!(page.0, "[job]\nname={name}");
    } else {
        let _ = writeln!(page.0, "[{name}]");
    }
}

fn pattern(job: &JobSpec, page: &mut Page) {
    let rw = &job.rw;
    let base = match (rw.read, rw.write, rw.trim) {
        (true, true, _) => "rw",
        (_, true, true) => "trimwrite",
        (_, true, false) => "write",
        (_, false, true) => "trim",
        _ => "read",
    };
    let prefix = if rw.random { "rand" } else { "" };
    let modifier = match (rw.random, rw.ios_per_offset, rw.sequential_skip) {
        (true, 1, _) | (false, _, 0) => String::new(),
        (true, count, _) => format!(":{count}"),
        (false, _, skip) => format!(":{skip}"),
    };
    page.line("rw", format!("{prefix}{base}{modifier}"));
    page.unless("rwmixread", rw.mix_read, 50);
    if rw.sequencer_identical {
        page.line("rw_sequencer", "identical");
    }
    sizes(job, page);
    if job.blocks.align != [0; 3] {
        page.line(
            "ba",
            job.blocks
                .align
                .map(|align| if align == 0 { String::new() } else { align.to_string() })
                .join(",")
                + ",",
        );
    }
    page.flag("bs_is_seq_rand", job.blocks.by_order);
    page.flag("bs_unaligned", job.blocks.unaligned);
    if job.random.percentage != [100; 3] {
        page.line(
            "percentage_random",
            job.random.percentage.map(|share| share.to_string()).join(","),
        );
    }
    page.flag("norandommap", job.random.norandommap);
}

/// Writes one option per form, with empty places for the directions of another form.
fn sizes(job: &JobSpec, page: &mut Page) {
    let (mut range, mut split) = ([const { String::new() }; 3], [const { String::new() }; 3]);
    for (direction, sizes) in job.blocks.sizes.iter().enumerate() {
        match sizes {
            BlockSizes::Range(low, high) => range[direction] = format!("{low}-{high}"),
            BlockSizes::Split(list) => {
                let entries: Vec<String> =
                    list.iter().map(|(bytes, share)| format!("{bytes}/{share}")).collect();
                split[direction] = entries.join(":");
            }
        }
    }
    for (key, list) in [("bsrange", range), ("bssplit", split)] {
        if list.iter().any(|one| !one.is_empty()) {
            page.line(key, list.join(",") + ",");
        }
    }
}

fn target(job: &JobSpec, page: &mut Page) {
    page.line("ioengine", &job.engine.name);
    page.line("direct", u8::from(job.caching.direct));
    page.flag("atomic", job.durability.atomic);
    page.unless("num_range", job.blocks.trim_ranges, 1);
    if !job.files.names.is_empty() {
        let names: Vec<String> =
            job.files.names.iter().map(|name| name.replace(':', "\\:")).collect();
        page.line("filename", names.join(":"));
    }
    page.text("directory", job.files.directory.as_deref());
    page.unless("nrfiles", job.files.count, 1);
    match job.files.service {
        FileService::Random => page.line("file_service_type", "random"),
        FileService::Sequential => page.line("file_service_type", "sequential"),
        FileService::RoundRobin(1) => {}
        FileService::RoundRobin(count) => {
            page.line("file_service_type", format!("roundrobin:{count}"));
        }
    }
    for (key, value) in [("size", job.space.size), ("io_size", job.space.io_size)] {
        page.text(key, value.map(amount).as_deref());
    }
    if let Some((low, high)) = job.files.size {
        page.line("filesize", format!("{low}-{high}"));
    }
    page.unless("offset", amount(job.space.offset), "0".to_owned());
    page.unless("offset_increment", amount(job.space.offset_increment), "0".to_owned());
    page.unless("offset_align", job.space.offset_align, 0);
    page.flag("fill_device", job.space.fill_device);
    if let Some(zones) = job.space.zones {
        page.line("zonemode", "strided");
        page.line("zonesize", zones.size);
        page.line("zonerange", zones.range);
        page.unless("zoneskip", zones.skip, 0);
    }
    page.unless("number_ios", job.timing.number_ios.unwrap_or(0), 0);
    page.text("cgroup", job.tenant.cgroup.as_deref());
    if let Some(weight) = job.tenant.weight {
        page.line("cgroup_weight", weight);
    }
}

fn load(job: &JobSpec, page: &mut Page) {
    page.unless("iodepth", job.queue.depth, 1);
    page.unless("iodepth_batch_submit", job.queue.batch_submit, 1);
    page.unless("iodepth_batch_complete_min", job.queue.complete_min, 1);
    page.unless("iodepth_batch_complete_max", job.queue.complete_max, job.queue.complete_min);
    page.unless("iodepth_low", job.queue.low, job.queue.depth);
    if job.queue.offload {
        page.line("io_submit_mode", "offload".to_owned());
    }
    page.flag("serialize_overlap", job.queue.serialize_overlap);
    page.unless("numjobs", job.numjobs, 1);
    page.unless("loops", job.timing.loops, 1);
    page.time("runtime", job.timing.runtime);
    page.flag("time_based", job.timing.time_based);
    page.time("ramp_time", job.timing.ramp_time);
    if job.timing.start_delay != (Nanos::ZERO, Nanos::ZERO) {
        page.line(
            "startdelay",
            format!("{}-{}", us(job.timing.start_delay.0), us(job.timing.start_delay.1)),
        );
    }
    page.time("thinktime", job.think.time);
    page.time("thinktime_spin", job.think.spin);
    page.unless(
        "thinktime_blocks",
        job.think.blocks,
        if job.think.io_time.is_zero() { 1 } else { 0 },
    );
    page.unless(
        "thinktime_blocks_type",
        if job.think.counts_issued { "issue" } else { "complete" },
        "complete",
    );
    page.time("thinktime_iotime", job.think.io_time);
    page.limits("rate", job.rates.bytes);
    page.limits("rate_iops", job.rates.iops);
    page.limits("rate_min", job.rates.min_bytes);
    page.limits("rate_iops_min", job.rates.min_iops);
    if job.latency.max.iter().any(|span| !span.is_zero()) {
        let spans = job.latency.max.map(|span| format!("{}us", span.get() / 1000));
        page.line("max_latency", spans.join(","));
    }
    page.unless("rate_cycle", job.rates.cycle.as_millis(), 1000);
    page.unless("rate_process", if job.rates.poisson { "poisson" } else { "linear" }, "linear");
    page.flag("rate_ignore_thinktime", job.rates.ignore_think_time);
    if let Some(LatencyTarget { target, window, percentile, run }) = job.latency.target {
        page.line("latency_target", us(target));
        page.time("latency_window", window);
        page.unless("latency_percentile", millionths(percentile.into()), millionths(100_000_000));
        page.flag("latency_run", run);
    }
    if let Some(steady) = job.timing.steady {
        let percent = if steady.percent { "%" } else { "" };
        page.line(
            "steadystate",
            format!("{}:{}{percent}", steady.criterion(), millionths(steady.limit)),
        );
        page.line("steadystate_duration", us(steady.duration));
        page.time("steadystate_ramp_time", steady.ramp);
        page.line("steadystate_check_interval", us(steady.interval));
    }
}

fn order_and_priority(job: &JobSpec, page: &mut Page) {
    page.flag("stonewall", job.order.stonewall);
    page.text("wait_for", job.order.wait_for.as_deref());
    page.flag("exitall", job.order.exitall);
    page.unless(
        "exit_what",
        match job.order.exit_what {
            ExitWhat::Group => "group",
            ExitWhat::Stonewall => "stonewall",
            ExitWhat::All => "all",
        },
        "group",
    );
    page.flag("exitall_on_error", job.order.exitall_on_error);
    if job.priority.ioprio != IoPrio::NONE {
        page.line("prioclass", job.priority.ioprio.class() as u8);
        page.line("prio", job.priority.ioprio.level());
        page.unless("priohint", job.priority.ioprio.hint(), 0);
    }
    if job.priority.command != [None; 2] {
        let prio =
            job.priority.command.map(|one| one.unwrap_or((0, IoPrio::new(PrioClass::Rt, 0))));
        let pair = |of: fn(&(u8, IoPrio)) -> u16| format!("{},{},", of(&prio[0]), of(&prio[1]));
        page.line("cmdprio_percentage", pair(|(share, _)| u16::from(*share)));
        page.line("cmdprio_class", pair(|(_, prio)| prio.class() as u16));
        page.line("cmdprio", pair(|(_, prio)| u16::from(prio.level())));
        page.line("cmdprio_hint", pair(|(_, prio)| prio.hint()));
    }
    if job.priority.command_split.iter().any(|parts| !parts.is_empty()) {
        let part = |SizePrio { bytes, percent, prio }: &SizePrio| {
            format!("{bytes}/{percent}/{}/{}/{}", prio.class() as u8, prio.level(), prio.hint())
        };
        let list = job
            .priority
            .command_split
            .each_ref()
            .map(|all| all.iter().map(part).collect::<Vec<_>>().join(":"));
        page.line("cmdprio_bssplit", list.join(",") + ",");
    }
    if let Some(flow) = job.order.flow {
        page.line("flow", flow.weight);
        page.unless("flow_id", flow.id, 0);
        page.unless("flow_sleep", flow.sleep.as_micros(), 0);
    }
}

fn durability_and_chance(job: &JobSpec, page: &mut Page) {
    page.unless("fsync", job.durability.fsync, 0);
    page.unless("fdatasync", job.durability.fdatasync, 0);
    if let Some(sync) = job.durability.file_range {
        let words = [
            ("wait_before", sync.wait_before),
            ("write", sync.write),
            ("wait_after", sync.wait_after),
        ];
        let words: Vec<&str> =
            words.into_iter().filter(|&(_, on)| on).map(|(word, _)| word).collect();
        page.line("sync_file_range", format!("{}:{}", words.join(","), sync.every));
    }
    page.flag("end_fsync", job.durability.end_fsync);
    page.flag("fsync_on_close", job.durability.fsync_on_close);
    match job.durability.sync {
        SyncMode::None => {}
        SyncMode::Sync => page.line("sync", "sync"),
        SyncMode::Dsync => page.line("sync", "dsync"),
    }
    page.unless("randrepeat", u8::from(job.random.repeat), 1);
    page.flag("allrandrepeat", job.random.repeat_all);
    if let Some(seed) = job.random.seed {
        page.line("randseed", seed);
    }
    distribution(&job.random.distribution, page);
}

/// Writes one option for all directions, since only the zoned forms may differ between directions
/// or leave one out.
fn distribution(list: &[Distribution; 3], page: &mut Page) {
    let form = |one: &Distribution| match one {
        Distribution::Random => None,
        Distribution::Zipf(theta, centre) => Some(("zipf", skewed(*theta, *centre))),
        Distribution::Pareto(power, centre) => Some(("pareto", skewed(*power, *centre))),
        Distribution::Normal(deviation, centre) => Some(("normal", skewed(*deviation, *centre))),
        Distribution::Zoned(zones) => Some(("zoned", pairs(zones))),
        Distribution::ZonedAbsolute(zones) => Some(("zoned_abs", pairs(zones))),
        Distribution::Sequence { blocks, .. } => {
            Some(("sequence", blocks.iter().map(u64::to_string).collect::<Vec<_>>().join(",")))
        }
    };
    let forms = list.each_ref().map(form);
    let Some((name, parameters)) = forms.iter().flatten().next() else { return };
    let value = match *name {
        "zoned" | "zoned_abs" => forms.iter().fold(String::new(), |text, form| match form {
            Some((_, zones)) => text + zones + ",",
            None => text + ",",
        }),
        _ => parameters.clone(),
    };
    page.line("random_distribution", format!("{name}:{value}"));
    page.flag(
        "random_sequence_stride",
        list.iter().any(|one| matches!(one, Distribution::Sequence { stride: true, .. })),
    );
}

fn skewed(parameter: f64, centre: Option<f64>) -> String {
    match centre {
        Some(centre) => format!("{parameter}:{centre}"),
        None => parameter.to_string(),
    }
}

fn pairs<T: Display>(zones: &[(u32, T)]) -> String {
    zones.iter().map(|(access, range)| format!("{access}/{range}")).collect::<Vec<_>>().join(":")
}

fn report(job: &JobSpec, page: &mut Page) {
    page.text("description", job.description.as_deref());
    page.flag("group_reporting", job.report.group_reporting);
    page.flag("new_group", job.report.new_group);
    match job.report.unified {
        Unified::Separate => {}
        Unified::Mixed => page.line("unified_rw_reporting", "mixed"),
        Unified::Both => page.line("unified_rw_reporting", "both"),
    }
    if job.report.percentiles != JobSpec::default_job("").report.percentiles {
        let list: Vec<String> = job
            .report
            .percentiles
            .iter()
            .map(|p| format!("{}.{:04}", p / 10_000, p % 10_000))
            .collect();
        page.line("percentile_list", list.join(":"));
    }
    page.unless("clat_percentiles", u8::from(job.report.clat_percentiles), 1);
    page.flag("lat_percentiles", job.report.lat_percentiles);
    page.flag("slat_percentiles", job.report.slat_percentiles);
    match job.errors.continues {
        [true, true, true] if job.errors.continues_on_mismatch => {
            page.line("continue_on_error", "all");
        }
        [false, false, _] if job.errors.continues_on_mismatch => {
            page.line("continue_on_error", "verify");
        }
        [true, true, true] => page.line("continue_on_error", "io"),
        [true, ..] => page.line("continue_on_error", "read"),
        [_, true, _] => page.line("continue_on_error", "write"),
        [false, false, _] => {}
    }
    if job.errors.ignored.iter().any(|list| !list.is_empty()) {
        let list = |list: &Vec<i32>| list.iter().map(i32::to_string).collect::<Vec<_>>().join(":");
        page.line(
            "ignore_error",
            job.errors.ignored.iter().map(list).collect::<Vec<_>>().join(","),
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a pattern with `%o` in the places of its offsets.
fn with_offsets(pattern: &[u8], offsets: &[u16]) -> String {
    let (mut text, mut from) = (String::new(), 0);
    for &at in offsets {
        let at = usize::from(at);
        if at > from {
            text += &hex(&pattern[from..at]);
        }
        text += "%o";
        from = at + 8;
    }
    if from < pattern.len() { text + &hex(&pattern[from..]) } else { text }
}

fn content_and_logs(job: &JobSpec, page: &mut Page) {
    let verify = &job.verify;
    match verify.method {
        None => {}
        Some(VerifyMethod::Crc32c) => page.line("verify", "crc32c"),
        Some(VerifyMethod::Pattern) => page.line("verify", "pattern"),
        Some(VerifyMethod::Meta) => page.line("verify", "meta"),
        Some(VerifyMethod::Null) => page.line("verify", "null"),
        Some(VerifyMethod::Other) => page.line("verify", "md5"),
    }
    page.unless("do_verify", u8::from(verify.after_write), 1);
    page.flag("verify_fatal", verify.fatal);
    page.unless("verify_interval", verify.interval, 0);
    if !verify.pattern.is_empty() {
        page.line("verify_pattern", with_offsets(&verify.pattern, &verify.pattern_offsets));
    }
    page.unless("verify_backlog", verify.backlog, 0);
    page.flag("verify_only", verify.only);
    page.flag("zero_buffers", job.content.zeroes);
    page.text("buffer_pattern", job.content.pattern.as_deref().map(hex).as_deref());
    page.flag("refill_buffers", job.content.refill);
    if let Some(hint) = WRITE_HINTS
        .get(usize::from(job.content.write_hint).saturating_sub(1))
        .filter(|_| job.content.write_hint > 1)
    {
        page.line("write_hint", hint);
    }
    let logs = &job.logs;
    page.text("write_bw_log", logs.bandwidth.as_deref());
    page.text("write_iops_log", logs.iops.as_deref());
    page.text("write_lat_log", logs.latency.as_deref());
    page.text("write_hist_log", logs.histogram.as_deref());
    page.unless("log_avg_msec", logs.average_ms, 0);
    page.unless("log_hist_msec", logs.histogram_ms, 0);
    page.flag("log_offset", logs.offset);
    page.flag("log_prio", logs.prio);
    match logs.window_value {
        WindowValue::Average => {}
        WindowValue::Maximum => page.line("log_window_value", "max"),
        WindowValue::Both => page.line("log_window_value", "both"),
    }
}
