//! Embeds a stack with a simulated SSD, and prints how its rate and its latency grow with the
//! number of reads in flight: `cargo run -p elevon-engine --example depths`.

use std::error::Error;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::tenant::ROOT;
use elevon_core::units::{Bytes, Instant, Sector, TaskId};
use elevon_core::{Io, Layout, LayoutId, Stack};
use elevon_engine::Engine;
use elevon_sim::device::Device;
use elevon_sim::simulation::Simulation;

/// Reads of a run.
const READS: u64 = 10_000;
/// Places for reads: 4 KiB each.
const PLACES: u64 = 1 << 20;

/// Returns the read with this number. Its place is spread over the device.
fn read(number: u64, layout: LayoutId) -> Io {
    let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PLACES;
    Io {
        task: TaskId(0),
        token: number,
        op: Op::Read,
        flags: Flags::SYNC,
        sector: Sector::new(place * 8),
        bytes: Bytes::new(4096),
        ioprio: IoPrio::NONE,
        write_hint: 0,
        tenant: ROOT,
        layout,
        may_block: true,
    }
}

/// Does all reads with `depth` of them in flight, and returns the time that they took in
/// nanoseconds.
fn run(depth: u64) -> Result<u64, Box<dyn Error>> {
    let device = elevon_sim::profiles::open("nvme-datacenter", 1)?;
    let mut stack = Stack::new(device.description().stack_config())?;
    let layout = stack.register_layout(Layout::contiguous(4096, 0));
    let mut engine = Engine::new(stack, Simulation::new(device));
    for number in 0..depth {
        engine.submit(read(number, layout));
    }
    let (mut next, mut done) = (depth, 0);
    while done < READS {
        engine.wait(Instant::MAX);
        let now = engine.now();
        engine.step(now);
        while let Some(end) = engine.poll_done(now) {
            assert!(end.status.is_ok(), "the model has no faults");
            done += 1;
            if next < READS {
                engine.submit(read(next, layout));
                next += 1;
            }
        }
    }
    Ok(engine.now().since(Instant::ZERO).get())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>5} {:>10} {:>12}", "depth", "reads/s", "mean us");
    for depth in [1, 4, 16, 64] {
        let nanos = run(depth)?;
        let rate = READS as f64 * 1e9 / nanos as f64;
        println!("{depth:>5} {rate:>10.0} {:>12.1}", depth as f64 * 1e6 / rate);
    }
    Ok(())
}
