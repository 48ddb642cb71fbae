//! Cost per I/O of the bare device models in a closed loop, including the cost of the loop (draws,
//! digest).
//!
//! Prints nanoseconds per I/O and the digest of all completions, which must not change with the
//! speed. `cargo bench -p elevon-sim --bench devices`; `-- --test` for a short run.

use std::time::Instant;

use elevon_core::op::Op;
use elevon_core::units::Bytes;
use elevon_sim::device::closed_loop::{ClosedLoop, Order, closed_loop};
use elevon_sim::device::{Device, Fault, Hdd, HddParameters, parse_model};
use elevon_sim::profiles::open;

fn bench<D: Device>(what: &str, device: D, plan: ClosedLoop) {
    let mut device = device;
    let started = Instant::now();
    let measured = closed_loop(&mut device, &plan);
    let ns = started.elapsed().as_nanos() as f64 / plan.ios as f64;
    println!(
        "{what:<34} depth {:>4}  {ns:>8.1} ns/IO  digest {:016x}",
        plan.depth, measured.digest
    );
}

fn main() {
    let ios = if std::env::args().any(|arg| arg == "--test") { 10_000 } else { 2_000_000 };
    let plan = |depth| ClosedLoop { depth, ios, ..ClosedLoop::default() };
    for (model, depth) in [
        ("null", 1),
        ("null", 32),
        ("slots", 8),
        ("slots", 128),
        ("slots:slots=1024,queue_depth=4096", 4096),
    ] {
        let device = || parse_model(model).expect("a model of this file").build(1);
        bench(model, device(), plan(depth));
        bench(&format!("{model}, fault wrapper off"), Fault::none(device()), plan(depth));
    }
    let rules = ["error:ppm=100", "stall:every=100000,for=200ms", "busy:ppm=100"];
    let device = parse_model("slots").expect("a model of this file").build(1);
    bench(
        "slots, three faults",
        Fault::parse(device, 1, &rules).expect("rules of this file"),
        plan(32),
    );
    for depth in [1, 4, 16, 31] {
        bench("hdd-7200 random reads", Hdd::new(&HddParameters::HDD_7200), plan(depth));
    }
    for (profile, depth) in [
        ("nvme-datacenter", 1),
        ("nvme-datacenter", 32),
        ("nvme-datacenter", 256),
        ("nvme-consumer", 32),
        ("optane", 32),
        ("ufs-4.0", 31),
        ("sata-ssd-plextor-m5s", 32),
        ("raid-lun-1q", 120),
    ] {
        bench(profile, open(profile, 1).expect("a profile of the table"), plan(depth));
    }
    let writes = ClosedLoop { op: Op::Write, ..plan(32) };
    bench(
        "nvme-datacenter random writes",
        open("nvme-datacenter", 1).expect("a profile of the table"),
        writes,
    );
    let sequential = ClosedLoop { order: Order::Sequential, bytes: Bytes::new(65536), ..plan(1) };
    bench("hdd-7200 sequential reads", Hdd::new(&HddParameters::HDD_7200), sequential);
}
