//! Programs' memory and file memory under random pressure: no page is lost or counted twice.

use crate::replace::programs::ZRAM_RATIO;
use elevon_testkit::Rng;

use super::*;
use crate::pages::Entry;

const FRAMES: u64 = 600;
const TOUCHED: u64 = 60;
const IDLE: u64 = 200;

fn check(memory: &Resident) {
    memory.self_check();
    let programs = *memory.programs();
    let Swap { free, used } = programs.swap;
    assert_eq!((programs.touched, programs.idle + used, free + used), (TOUCHED, IDLE, 150));
    assert_eq!(memory.reserved(), TOUCHED + programs.idle + used.div_ceil(ZRAM_RATIO));
    assert_eq!(memory.free() + memory.pages().used() + memory.reserved(), FRAMES);
    assert_eq!(memory.stats().swapped, used);
}

#[test]
fn programs_and_files_share_memory() {
    for (seed, swappiness) in [(1, 0), (2, 1), (3, 60), (4, 100), (5, 200)] {
        for name in POLICIES {
            let mut memory =
                Resident::new(FRAMES, &ReplacementConfig::parse(name).expect("a policy"));
            let (mut random, mut out) = (Rng(seed), Vec::new());
            let swap = Swap { free: 150, used: 0 };
            memory.set_programs(Anonymous { touched: 0, idle: IDLE, swap, swappiness, high: 16 });
            memory.set_reserved(TOUCHED + IDLE);
            for _ in 0..6_000 {
                let index =
                    if random.below(3) == 0 { random.below(2000) } else { random.below(300) };
                let context = if random.below(4) == 0 { Context::Fault } else { Context::Read };
                if memory.free() < 16 {
                    memory.reclaim(Instant::ZERO, 16, Reclaimer::Kswapd, &mut out);
                    if memory.free() == 0 {
                        memory.reclaim(Instant::ZERO, 1, Reclaimer::Direct, &mut out);
                    }
                    check(&memory);
                }
                let frame = memory.find(FileId(0), PageIndex::new(index));
                let frame = frame
                    .or_else(|| memory.insert(FileId(0), PageIndex::new(index), context))
                    .expect("reclaim frees a frame");
                memory.access(frame, context);
                assert_eq!(
                    memory.pages().entry(FileId(0), PageIndex::new(index)),
                    Entry::Page(frame)
                );
            }
            check(&memory);
            let used = memory.programs().swap.used;
            match (name, swappiness) {
                ("s3-fifo" | "sieve", _) | (_, 0) => assert_eq!(used, 0, "{name} {swappiness}"),
                (_, 1) => {}
                _ => assert!(
                    used > 50,
                    "{name} {swappiness}: {used} of idle memory, though files came back"
                ),
            }
        }
    }
}
