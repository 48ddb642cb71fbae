//! Cost of building and splitting a bio: a 4 KiB I/O inside one page (the fast path of every small
//! I/O), and a full bio of 256 vectors with its parts.
//!
//! Prints nanoseconds per I/O, and the numbers of parts and segments, which show that the work was
//! done. Run by `cargo test` it only checks that the bench runs.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use elevon_core::bio::{Bio, DataRange};
use elevon_core::build::{Fill, IoPath, next_bio_bytes};
use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::split::{Split, split};
use elevon_core::units::{Bytes, Instant, LayoutId, Sector, Sectors, TaskId, TenantId};

/// Bytes of a page.
const PAGE: u64 = 4096;

struct Case {
    title: &'static str,
    layout: Layout,
    /// Bytes of an I/O. Consecutive I/Os walk through the layout.
    bytes: u64,
    chunk: u64,
    fill: Fill,
}

/// Builds and splits all bios of one I/O; returns parts and segments.
fn run(case: &Case, offset: u64, limits: &QueueLimits, rules: &Rules) -> (u64, u64) {
    let (mut at, end, mut parts, mut segments) = (offset, offset + case.bytes, 0, 0);
    while at < end {
        let built = next_bio_bytes(&case.layout, at, end - at, IoPath::Direct, case.fill, limits);
        let mut bio = bio(at, built);
        loop {
            parts += 1;
            match split(&bio, Some(&case.layout), limits, rules) {
                Split::Whole { segments: counted } => {
                    segments += u64::from(counted);
                    break;
                }
                Split::Cut { sectors, segments: counted } => {
                    segments += u64::from(counted);
                    bio.sector = bio.sector + sectors;
                    bio.bytes -= sectors.bytes();
                    bio.data.offset += sectors.bytes().get();
                }
                Split::Fail(status) => panic!("{status:?}"),
            }
        }
        at += built;
    }
    (parts, segments)
}

fn bio(offset: u64, bytes: u64) -> Bio {
    Bio {
        op: Op::Read,
        flags: Flags::NONE,
        ioprio: IoPrio::DEFAULT,
        write_hint: 0,
        segments: 0,
        sector: Sector::new(offset / 512),
        bytes: Bytes::new(bytes),
        data: DataRange { layout: LayoutId(0), offset },
        task: TaskId(0),
        tenant: TenantId(0),
        io: 0,
        token: 0,
        next: None,
        queued: Instant::ZERO,
        gated: false,
        has_place: false,
        in_scheduler: false,
        since: Instant::ZERO,
    }
}

/// Number of I/Os that are timed together.
const BATCH: u32 = 256;

fn measure(case: &Case, span: Duration) {
    let rules = Kernel::V6_18.rules();
    let mut limits = QueueLimits {
        max_hw_sectors: Sectors::new(1024),
        chunk_sectors: Sectors::new(case.chunk),
        ..QueueLimits::default()
    };
    limits.validate(&rules).expect("valid limits");
    // The fastest of many batches is the cost without other load.
    let (start, mut batches, mut best, mut sum, mut offset) =
        (Clock::now(), 0u32, Duration::MAX, (0, 0), 0);
    while batches == 0 || start.elapsed() < span {
        let batch = Clock::now();
        for _ in 0..BATCH {
            let (parts, segments) =
                run(black_box(case), offset, black_box(&limits), black_box(&rules));
            offset =
                if offset + 2 * case.bytes > case.layout.len() { 0 } else { offset + case.bytes };
            sum = (sum.0 + parts, sum.1 + segments);
        }
        best = best.min(batch.elapsed());
        batches += 1;
    }
    let ios = f64::from(batches) * f64::from(BATCH);
    let ns = best.as_secs_f64() * 1e9 / f64::from(BATCH);
    let (parts, segments) = (sum.0 as f64 / ios, sum.1 as f64 / ios);
    println!("{:<44} {ns:>9.1} {parts:>9.2} {segments:>9.2} {:>9.2}", case.title, ns / segments);
}

fn cases() -> [Case; 9] {
    // Alternating pairs and single pages; contiguous memory.
    let scattered = || Layout::from_run_pages((0..1 << 14).map(|i| 1 + i % 2));
    let contiguous = || Layout::contiguous(64 << 20, 1 << 20);
    [
        Case {
            title: "4 KiB, its own page",
            layout: Layout::contiguous(PAGE, 1 << 20),
            bytes: PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
        Case {
            title: "4 KiB, one of many pages",
            layout: scattered(),
            bytes: PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
        Case {
            title: "4 KiB, one of many, fill=max-sectors",
            layout: scattered(),
            bytes: PAGE,
            chunk: 0,
            fill: Fill::MaxSectors,
        },
        Case {
            title: "4 KiB, contiguous, chunk_sectors=256",
            layout: contiguous(),
            bytes: PAGE,
            chunk: 256,
            fill: Fill::Full,
        },
        Case {
            title: "128 KiB, contiguous",
            layout: contiguous(),
            bytes: 32 * PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
        Case {
            title: "128 KiB, scattered",
            layout: scattered(),
            bytes: 32 * PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
        Case {
            title: "8 MiB, scattered, fill=full",
            layout: scattered(),
            bytes: 2048 * PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
        Case {
            title: "8 MiB, scattered, fill=max-sectors",
            layout: scattered(),
            bytes: 2048 * PAGE,
            chunk: 0,
            fill: Fill::MaxSectors,
        },
        Case {
            title: "8 MiB, contiguous",
            layout: contiguous(),
            bytes: 2048 * PAGE,
            chunk: 0,
            fill: Fill::Full,
        },
    ]
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(300) } else { Duration::ZERO };
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "I/O", "ns/I/O", "parts", "segments", "ns/segm.");
    for case in cases() {
        measure(&case, span);
    }
}
