//! Cost of a bio at its limits, with slices (`io.max`) and exact: by the depth of the tree, and by
//! the number of tenants with rules.
//!
//! The tenants are chains of the given depth below the root, with a rule on each; bios belong to
//! the lowest tenants of random chains. `pass`: the limits are never reached, so a bio is tested
//! and charged at every level. `wait`: each chain always has a bio that waits for its limit,
//! climbs, is released, and is followed by the next one. Chains share nothing, so at 100,000
//! tenants every level of every bio is a cache miss; this is the only growth. `alone`: bios of a
//! tenant without a rule, while all other tenants have rules.
//!
//! Times are CPU times if the system reports them. Run by `cargo test` it only checks that the
//! bench runs.

use elevon_core::jiffies::Hz;
use std::time::{Duration, Instant as Clock};

use elevon_core::control::exact::{self, Exact};
use elevon_core::control::io_max::{self, Config, IoMax};
use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::control::{BioCost, Stage, StageVerdict, WaitBreakdown};
use elevon_core::kernel::Kernel;
use elevon_core::op::Op;
use elevon_core::tenant::{ROOT, Tenants};
use elevon_core::units::{BioId, Instant, Nanos, TenantId};

const STEP: Nanos = Nanos::from_micros(1);

/// Returns the CPU time of this process, which does not include other load on the machine.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the nanoseconds per bio for `bios` bios.
fn measure(bios: u64, run: impl FnOnce()) -> f64 {
    let (start, from) = (Clock::now(), on_processor());
    run();
    on_processor().zip(from).map_or(start.elapsed(), |(to, from)| to - from).as_nanos() as f64
        / bios as f64
}

struct Load {
    stage: Box<dyn Stage>,
    tenants: Tenants,
    ends: Vec<TenantId>,
    without: TenantId,
    now: Instant,
    random: u64,
    breakdown: WaitBreakdown,
    out: Vec<BioId>,
}

impl Load {
    /// Sets `riops` for each of `count` tenants, in chains of `depth`.
    fn new(exact: bool, count: u32, depth: u32, riops: u64) -> Self {
        let mut tenants = Tenants::new();
        let mut ends = Vec::new();
        for _ in 0..(count / depth).max(1) {
            ends.push((0..depth).fold(ROOT, |above, _| tenants.add(above).expect("not too deep")));
        }
        let ruled = tenants.ids() as u32;
        let without = tenants.add(ROOT).expect("not too deep");
        let limits =
            Limits { iops: [riops, UNLIMITED], bps: [riops << 30, UNLIMITED], ..Limits::default() };
        let stage: Box<dyn Stage> = if exact {
            let mut stage = Exact::new();
            (1..ruled).for_each(|id| stage.set(Instant::ZERO, &tenants, TenantId(id), limits));
            Box::new(stage)
        } else {
            let mut stage = IoMax::new(Config::from_rules(&Kernel::V6_18.rules(), Hz(1000), false));
            (1..ruled).for_each(|id| stage.set(Instant::ZERO, TenantId(id), limits));
            Box::new(stage)
        };
        let now = Instant::ZERO + Nanos::from_secs(1);
        Self {
            stage,
            tenants,
            ends,
            without,
            now,
            random: 1,
            breakdown: WaitBreakdown::default(),
            out: Vec::new(),
        }
    }

    fn charge(tenant: TenantId) -> BioCost {
        BioCost::plain(tenant, Op::Read, 4096)
    }

    fn pass(&mut self, bios: u64, tenant: Option<TenantId>) {
        for _ in 0..bios {
            self.now = self.now + STEP;
            self.random =
                self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let end =
                self.ends[((u128::from(self.random) * self.ends.len() as u128) >> 64) as usize];
            let charge = Self::charge(tenant.unwrap_or(end));
            assert_eq!(
                self.stage.admit(self.now, &self.tenants, BioId(0), &charge),
                StageVerdict::Pass
            );
        }
    }

    /// The id of a bio is the number of its chain.
    fn submit(&mut self, chain: usize) {
        let charge = Self::charge(self.ends[chain]);
        while self.stage.admit(self.now, &self.tenants, BioId(chain as u32), &charge)
            == StageVerdict::Pass
        {}
    }

    fn wait(&mut self, bios: u64) {
        let mut gone = 0;
        let mut out = std::mem::take(&mut self.out);
        while gone < bios {
            self.now = self.stage.next_wakeup().expect("all wait").max(self.now);
            self.stage.release(self.now, &self.tenants, &mut self.breakdown, &mut out);
            gone += out.len() as u64;
            out.drain(..).for_each(|bio| self.submit(bio.index()));
        }
        assert_eq!(self.stage.held(), self.ends.len());
        self.out = out;
    }
}

fn row(bios: u64, exact: bool, count: u32, depth: u32) -> [f64; 3] {
    let mut load = Load::new(exact, count, depth, 1 << 30);
    // Every path is walked once, so that everything is in memory.
    load.pass(u64::from(count).min(bios), None);
    let pass = measure(bios, || load.pass(bios, None));
    let without = load.without;
    let alone = measure(bios, || load.pass(bios, Some(without)));
    let mut load = Load::new(exact, count, depth, 10);
    (0..load.ends.len()).for_each(|chain| {
        // Bios are spread over ticks.
        load.now = load.now + STEP;
        load.submit(chain);
    });
    load.wait(u64::from(count).min(bios));
    let wait = measure(bios, || load.wait(bios));
    load.stage.self_check(&load.tenants);
    [pass, wait, alone]
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (bios, many) = if full { (1_000_000, 100_000) } else { (1000, 1000) };
    println!("ns a bio, {bios} bios; `wait` counts admission, climb and release");
    println!(
        "{:<8} {:>8} {:>6} {:>8} {:>8} {:>8}",
        "stage", "tenants", "depth", "pass", "wait", "alone"
    );
    for exact in [false, true] {
        let by_depth = (1..=8).map(|depth| (many, depth));
        let by_number = [10, 100, 1000, 10_000, 100_000].map(|count| (count.min(many), 2));
        for (count, depth) in by_depth.chain(by_number) {
            let [pass, wait, alone] = row(bios, exact, count, depth);
            let name = if exact { "exact" } else { "io.max" };
            match full {
                true => {
                    println!(
                        "{name:<8} {count:>8} {depth:>6} {pass:>8.1} {wait:>8.1} {alone:>8.1}"
                    );
                }
                false => {
                    println!("{name:<8} {count:>8} {depth:>6} {:>8} {:>8} {:>8}", "-", "-", "-");
                }
            }
        }
    }
    for (name, node, queues) in [
        ("io.max", io_max::NODE_BYTES, io_max::QUEUES_BYTES),
        ("exact", exact::NODE_BYTES, exact::QUEUES_BYTES),
    ] {
        println!("{name}: {node} bytes a tenant, {queues} more once something of it has waited");
    }
}
