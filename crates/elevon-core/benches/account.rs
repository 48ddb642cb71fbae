//! Cost of accounting for one request: start, issue, sectors, end, with all forms of io_ticks, both
//! histograms and the exact integrals, at a depth of 32 and several rates. The lower the rate, the
//! more requests start a new jiffy.
//!
//! Run by `cargo test` it only checks that the bench runs.

use elevon_core::jiffies::Hz;
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use elevon_core::account::{Accounting, CompletionFact};
use elevon_core::kernel::IoTicksForm;
use elevon_core::op::StatGroup;
use elevon_core::units::{Instant, Sectors, TaskId};

const DEPTH: usize = 32;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(300) } else { Duration::ZERO };
    println!("{:<28} {:>12} {:>12}", "simulated time per request", "ns/request", "io_ticks ms");
    for step in [200, 10_000, 1_000_000, 10_000_000] {
        let mut account = Accounting::new(IoTicksForm::Precise, Hz(250), 1, true);
        let (mut now, mut slots) = (0u64, [Instant::ZERO; DEPTH]);
        for tags in 1..=DEPTH as u32 {
            account.on_start(Instant::ZERO, || tags);
            account.on_issue(Instant::ZERO);
        }
        let (start, mut turns) = (Clock::now(), 0u32);
        while turns == 0 || start.elapsed() < span {
            for turn in 0..4096 {
                let slot = &mut slots[turn % DEPTH];
                now += step;
                let end = Instant::new(now);
                account.on_sectors(StatGroup::Read, Sectors::new(8));
                account.on_end(
                    &CompletionFact {
                        group: StatGroup::Read,
                        task: TaskId(0),
                        start: *slot,
                        issued: *slot,
                        end,
                    },
                    true,
                );
                account.on_start(end, || DEPTH as u32);
                account.on_issue(end);
                *slot = end;
            }
            turns += 4096;
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(turns);
        let ticks = black_box(account.read(Instant::new(now))).io_ticks_ms;
        println!("{:<28} {ns:>12.1} {ticks:>12}", format!("{step} ns"));
    }
}
