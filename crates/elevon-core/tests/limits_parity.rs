//! Compares `io.max` with Linux 6.18.44: completion times of a synchronous reader's I/Os, on an
//! exactly known device.
//!
//! The kernel had HZ=250. The device takes 200 us, and the layers in between about 150 us. The
//! records do not say how long before the first I/O the limit was written, which is when its slice
//! starts. Four of the six records fit 4 ms to within about a millisecond, the one of 64 KiB reads
//! fits 12 ms; with 0, three of its 48 I/Os would be 12 ms late. All records are compared at every
//! millisecond from 2 to 13, so no result depends on a chosen value.

use elevon_core::control::exact::Exact;
use elevon_core::control::io_max::{Config, IoMax};
use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::control::{BioCost, Stage, StageVerdict, WaitBreakdown};
use elevon_core::jiffies::Hz;
use elevon_core::kernel::Kernel;
use elevon_core::op::Op;
use elevon_core::tenant::{ROOT, Tenants};
use elevon_core::units::{BioId, Instant, Nanos, TenantId};

const RECORDS: &str = include_str!("../../../tests/data/kernel-truth/throttle.jsonl");
const HZ: u64 = 250;
const SERVICE: Nanos = Nanos::from_micros(200 + 150);
/// Milliseconds between the limit and the first I/O.
const BEFORE: std::ops::RangeInclusive<u64> = 2..=13;

/// A line of the records.
struct Record<'a> {
    name: &'a str,
    limits: Limits,
    bytes: u64,
    completions: Vec<u64>,
}

impl<'a> Record<'a> {
    fn parse(line: &'a str) -> Self {
        let after = |key: &str| line.split_once(&format!("\"{key}\": ")).map(|(_, rest)| rest);
        let number =
            |text: &str| text.split([',', '}']).next().unwrap().trim().parse::<u64>().unwrap();
        let rate = |key| after(key).map_or(UNLIMITED, number);
        let completions =
            after("completion_us").unwrap().trim_start_matches('[').split_once(']').unwrap().0;
        Self {
            name: after("name").unwrap().split('"').nth(1).unwrap(),
            limits: Limits {
                bps: [rate("blkio.throttle.read_bps_device"), UNLIMITED],
                iops: [rate("blkio.throttle.read_iops_device"), UNLIMITED],
                ..Limits::default()
            },
            bytes: after("bs").map(number).unwrap(),
            completions: completions.split(", ").map(|us| us.parse().unwrap()).collect(),
        }
    }

    /// Returns when a synchronous reader's I/Os complete under a stage, in us since the first was
    /// submitted.
    fn run(
        &self,
        stage: &mut dyn Stage,
        tenants: &Tenants,
        tenant: TenantId,
        start: Instant,
    ) -> Vec<u64> {
        let (mut now, mut breakdown, mut out) = (start, WaitBreakdown::default(), Vec::new());
        let charge = BioCost::plain(tenant, Op::Read, self.bytes);
        let mut waited = Nanos::ZERO;
        let one = |id: usize| {
            if stage.admit(now, tenants, BioId(id as u32), &charge) != StageVerdict::Pass {
                let came = now;
                while out.is_empty() {
                    now = stage.next_wakeup().expect("a bio waits").max(now);
                    stage.release(now, tenants, &mut breakdown, &mut out);
                }
                assert_eq!(std::mem::take(&mut out), [BioId(id as u32)], "{}", self.name);
                waited += now.since(came);
            }
            now = now + SERVICE;
            now.since(start).as_micros()
        };
        let times = (0..self.completions.len()).map(one).collect();
        assert_eq!(
            breakdown.total(tenant),
            waited,
            "{}: the breakdown has what it waited",
            self.name
        );
        times
    }
}

#[test]
fn each_io_is_over_when_the_kernel_said() {
    let records: Vec<Record<'_>> = RECORDS.lines().map(Record::parse).collect();
    assert_eq!(records.len(), 6);
    for (record, before) in
        records.iter().flat_map(|record| BEFORE.map(move |ms| (record, Nanos::from_millis(ms))))
    {
        let mut tenants = Tenants::new();
        let tenant = tenants.add(ROOT).unwrap();
        let mut stage = IoMax::new(Config {
            flat: true,
            ..Config::from_rules(&Kernel::V6_18.rules(), Hz(HZ), false)
        });
        let written = Instant::new(60_000_000_000);
        stage.set(written, tenant, record.limits);
        let ours = record.run(&mut stage, &tenants, tenant, written + before);
        for (nth, (&ours, &kernel)) in ours.iter().zip(&record.completions).enumerate() {
            let near = ours.abs_diff(kernel) <= (kernel / 20).max(10_000);
            assert!(
                near,
                "{}, {before:?}: I/O {nth} at {ours} us, in the kernel {kernel}",
                record.name
            );
        }
    }
}

/// Without slices the last I/O of each record completes when the limit alone allows it, to a
/// nanosecond per I/O.
#[test]
fn exact_is_the_limit_itself() {
    for record in RECORDS.lines().map(Record::parse) {
        let mut tenants = Tenants::new();
        let tenant = tenants.add(ROOT).unwrap();
        let mut stage = Exact::new();
        stage.set(Instant::ZERO, &tenants, tenant, record.limits);
        let ours = record.run(&mut stage, &tenants, tenant, Instant::ZERO);
        let nanos = |rate: u64, units: u64| {
            if rate == UNLIMITED { 0 } else { units * 1_000_000_000 / rate }
        };
        let each = nanos(record.limits.bps[0], record.bytes).max(nanos(record.limits.iops[0], 1));
        for (nth, &ours) in ours.iter().enumerate() {
            let ideal = (nth as u64 * each + SERVICE.get()) / 1000;
            assert!(
                ours.abs_diff(ideal) <= 1 + nth as u64 / 500,
                "{}: I/O {nth} at {ours} us",
                record.name
            );
        }
    }
}
