//! Properties of the analysis, the workload of a replay and the fit of a device that must hold for
//! any trace. The fuzz target and a test over the corpus share these checks.
//!
//! Bytes that are a trace of a known format are used as they are. Other bytes are six to an event,
//! each of which chooses a value: most often a plausible one, so that bios and requests are joined,
//! and sometimes one at the end of its range.

use std::fmt::Write as _;

use elevon_report::inspect::{self, PageRequests};
use elevon_trace::analysis::{ProcessStats, RequestRecord, RequestSink, RequestWriter};
use elevon_trace::served::{ServedKind, ServedRequest};
use elevon_trace::{TraceKind, from_bytes};
use elevon_whatif::fit::{Kind, Served, fit};

/// Maximum length of the bytes of a trace: a short one has every overflow that a long one has.
const LONGEST: usize = 1 << 16;
/// Maximum number of requests to which a device is fitted: a fit takes time for each of them.
const MOST_FITTED: usize = 64;

/// Every output that receives requests.
struct Outputs {
    page: PageRequests,
    csv: RequestWriter<Vec<u8>>,
    parquet: RequestWriter<Vec<u8>>,
    rows: u64,
}

impl Outputs {
    fn new() -> Self {
        Self {
            page: PageRequests::default(),
            csv: RequestWriter::csv(Vec::new()).expect("memory"),
            parquet: RequestWriter::parquet(Vec::new()).expect("memory"),
            rows: 0,
        }
    }
}

impl RequestSink for Outputs {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        self.page.requests(requests, processes);
        self.csv.requests(requests, processes);
        self.parquet.requests(requests, processes);
        self.rows += requests.len() as u64;
    }

    fn restart(&mut self) {
        *self = Self::new();
    }
}

/// Checks that a trace gives an inspection, a workload and a device, or an error of one line each.
#[allow(dead_code)]
pub(crate) fn analysis(data: &[u8]) {
    let data = &data[..data.len().min(LONGEST)];
    let trace = if from_bytes(data.to_vec()).is_ok() { data.to_vec() } else { trace_of(data) };
    inspection(&trace);
    workload(&trace);
    device(&trace);
}

fn one_line(error: &dyn std::fmt::Display) {
    let said = error.to_string();
    assert!(!said.is_empty() && said.lines().count() == 1, "{said}");
}

fn inspection(trace: &[u8]) {
    let mut outputs = Outputs::new();
    let found = elevon_trace::analysis::inspect(
        &mut || from_bytes(trace.to_vec()),
        None,
        Some(&mut outputs),
        &mut |_| {},
    );
    let found = match found {
        Ok(found) => found,
        Err(error) => return one_line(&error),
    };
    let requests =
        (outputs.csv.finish().expect("memory"), outputs.parquet.finish().expect("memory"));
    let lines = requests.0.iter().filter(|&&byte| byte == b'\n').count() as u64;
    assert_eq!(lines, outputs.rows + 1, "a line of titles, and one for each request");
    assert!(requests.1.starts_with(b"PAR1"));
    let text = inspect::text(&found);
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&inspect::json(&found)).expect("JSON");
    assert_eq!(json["events"].as_object().map(serde_json::Map::len), Some(TraceKind::NAMES.len()));
    let page = inspect::page(&found, outputs.page);
    assert!(page.ends_with("</html>\n"), "a page that ends");
    for stages in &found.stages {
        let stat = &stages.issued_to_completed;
        assert!(stat.min <= stat.max && stat.sum <= u128::from(stat.max) * u128::from(stat.count));
    }
    assert!(found.depths.busy() <= found.depths.time());
    assert!(found.findings.iter().all(|finding| finding.weight <= 1000));
}

fn workload(trace: &[u8]) {
    let found =
        match elevon_trace::replay::read(&mut || from_bytes(trace.to_vec()), None, &mut |_| {}) {
            Ok(found) => found,
            Err(error) => return one_line(&error),
        };
    let after = found.infer();
    assert_eq!(after.len(), found.processes.len());
    for (process, after) in found.processes.iter().zip(&after) {
        assert_eq!(process.ios.len(), after.len());
        assert!(after.iter().enumerate().all(|(at, after)| after.completions as usize <= at));
        let mut follows = after.iter().filter_map(|after| after.follows);
        assert!(
            follows.all(
                |of| (1..=found.processes[of.process].ios.len()).contains(&(of.count as usize))
            )
        );
    }
    for process in &found.processes {
        assert!(process.ios.is_sorted_by_key(|io| io.at), "I/Os in order of time");
        assert!(process.depth() as usize <= process.ios.len());
        assert!(process.duration() <= u64::MAX - process.ios[0].at && !process.label().is_empty());
        assert!(
            process.pace().is_none_or(|pace| pace.period > 0 && pace.kept <= process.ios.len())
        );
    }
    assert!(!found.is_empty());
    for (process, exclusion) in found.processes.iter().zip(found.exclusions()) {
        for section in exclusion.iter().flat_map(|exclusion| &exclusion.sections) {
            assert!(section.first < section.last && section.last < process.ios.len());
            assert!(
                section.waited <= process.ios[section.first].at,
                "it waited since the trace began at most"
            );
        }
    }
    let times = found.times();
    let part = found.between(times[times.len() / 2], times[times.len() - 1]);
    assert!(part.len() >= found.len() / 2 && part.duration <= found.duration);
    part.infer();
}

fn device(trace: &[u8]) {
    let found =
        match elevon_trace::served::read(&mut || from_bytes(trace.to_vec()), None, &mut |_| {}) {
            Ok(found) => found,
            Err(error) => return one_line(&error),
        };
    let served = |one: &ServedRequest| {
        let kind = match one.kind {
            ServedKind::Read => Kind::Read,
            ServedKind::Write => Kind::Write,
            ServedKind::Discard => Kind::Discard,
            ServedKind::Flush => Kind::Flush,
        };
        let bytes = if kind.has_data() { one.bytes } else { 0 };
        Served { issued: one.issued, completed: one.completed, sector: one.sector, bytes, kind }
    };
    let served: Vec<Served> = found.requests.iter().take(MOST_FITTED).map(served).collect();
    if let Some(fit) = fit(&served) {
        let errors = [fit.each_percent, fit.distribution_percent, fit.fifo_percent];
        assert!(errors.iter().all(|error| error.is_finite()), "{fit:?}");
        let parameters = fit.parameters();
        assert!(parameters.slots >= 1 && parameters.bandwidth.get() > 0, "{parameters:?}");
    }
}

/// Values of which a byte chooses one.
fn choice(byte: u8, values: &[u64]) -> u64 {
    values[usize::from(byte) % values.len()]
}

/// Nanoseconds from one event to the next.
const STEPS: [u64; 12] = [
    0,
    1,
    300,
    20_000,
    100_000,
    250_000,
    1_000_000,
    50_000_000,
    1_000_000_000,
    1 << 45,
    1 << 62,
    u64::MAX / 2,
];
/// Sectors beyond those of a small device.
const PLACES: [u64; 8] = [
    u64::MAX,
    u64::MAX - 8,
    u64::MAX / 512,
    u64::MAX / 512 + 1,
    1 << 63,
    1 << 55,
    (1 << 32) - 8,
    1 << 40,
];
/// Lengths in bytes.
const LENGTHS: [u64; 16] = [
    0,
    512,
    4096,
    4096,
    8192,
    12_288,
    65_536,
    524_288,
    1_048_576,
    1_310_720,
    (1 << 32) - 512,
    1 << 32,
    1,
    1 << 40,
    u64::MAX - 511,
    u64::MAX,
];
const OPERATIONS: [&str; 10] = [
    "read",
    "write",
    "read",
    "write",
    "flush",
    "discard",
    "zone_append",
    "passthrough",
    "other",
    "",
];
const FLAGS: [&str; 8] =
    ["sync", "-", "sync+fua", "preflush+sync", "ahead", "meta+sync+preflush+fua", "", "atomic"];

/// The trace of any bytes, as CSV of events.
fn trace_of(data: &[u8]) -> Vec<u8> {
    let mut out =
        "time_ns,kind,device,sector,bytes,op,flags,tid,comm,prio_class,prio_level,error,response_ns,new_sector,\
                   requests,from_device,from_sector,is_driver_tag,lost,until_ns\n"
            .to_owned();
    let mut now = 1_000_000u64;
    for event in data.chunks_exact(6) {
        let [kind, step, place, length, operation, task] = [0, 1, 2, 3, 4, 5].map(|at| event[at]);
        now = now.saturating_add(choice(step, &STEPS[..if step < 224 { 8 } else { 12 }]));
        let kind = TraceKind::NAMES[usize::from(kind) % TraceKind::NAMES.len()];
        let sector = if place < 232 { u64::from(place) / 4 * 8 } else { choice(place, &PLACES) };
        let bytes = choice(length, &LENGTHS[..if length < 208 { 10 } else { 16 }]);
        let rest = [place, length, operation, task]
            .iter()
            .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
        let error = if task.is_multiple_of(29) { -5 } else { 0 };
        let _ = writeln!(
            out,
            "{now},{kind},8:{},{sector},{bytes},{},{},{},t{},{},{},{error},{},{},{},8:1,{},1,{},{}",
            u8::from(task == 255),
            OPERATIONS[usize::from(operation) % OPERATIONS.len()],
            FLAGS[usize::from(operation / 10) % FLAGS.len()],
            task % 8,
            task % 8,
            task / 64,
            operation % 8,
            choice(length, &STEPS),
            sector.saturating_add(choice(task, &LENGTHS) / 512),
            rest % 40,
            choice(task, &PLACES),
            rest,
            now.saturating_add(choice(length, &STEPS)),
        );
    }
    out.into_bytes()
}
