//! Prints the slowest requests of a trace, in any format that Elevon reads:
//! `cargo run -p elevon-trace --example slowest -- TRACE`.

use std::collections::BTreeMap;
use std::error::Error;

use elevon_trace::TraceKind;

/// Requests that are printed.
const ROWS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which trace?")?;
    let mut trace = elevon_trace::open(path.as_ref())?;
    // The time of the issue, by device and first sector.
    let mut issued: BTreeMap<_, u64> = BTreeMap::new();
    let mut slowest: Vec<(u64, u64)> = Vec::new();
    while let Some(events) = trace.next_batch()? {
        for event in events {
            let (Some(time), Some(sector)) = (event.time, event.sector) else { continue };
            let key = (event.device, sector);
            match event.kind {
                TraceKind::Issue => {
                    issued.insert(key, time);
                }
                TraceKind::Complete => {
                    if let Some(start) = issued.remove(&key) {
                        slowest.push((time.saturating_sub(start), sector));
                    }
                }
                _ => {}
            }
        }
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        slowest.truncate(ROWS);
    }
    for (nanos, sector) in slowest {
        println!("{:>10.3} ms  sector {sector}", nanos as f64 / 1e6);
    }
    Ok(())
}
