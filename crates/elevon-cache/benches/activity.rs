//! Cost of content activity: instructions per page added to a bio, and per bio, in every form.
//!
//! Each turn builds one bio from a table of pages as the page cache does: for each page its flag,
//! its length and whether it merges into the last vector, then the bio's priority. "no activity" is
//! the same loop without a counter; the cost of a form is what its row needs in addition. The slope
//! from 16 to 256 pages is the cost per page, the rest the cost per bio. "proposal's walk" counts
//! nothing while building and reads the flags of all vectors at submission, as the proposal's
//! ITER_BIO does; its pages are cold, so many are read before the walk ends. Under `cargo test` it
//! only checks that it runs.

#[path = "../../elevon-core/benches/instructions/mod.rs"]
mod instructions;

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use elevon_cache::activity::page_exact::Options;
use elevon_cache::activity::{Activity, Origin, Promoter, Submitter, iter_bio};
use elevon_core::ioprio::{CpuPolicy, IoPrio};
use elevon_core::units::Bytes;
use instructions::Case;

/// A page as the builder of a bio sees it.
#[derive(Clone, Copy)]
struct Page {
    bytes: Bytes,
    active: bool,
    merged: bool,
}

/// Returns pages of which two in five are active, so that nothing is decided early. One in eight is
/// contiguous with its predecessor in memory.
fn pages(count: usize) -> Vec<Page> {
    let page =
        |at: usize| Page { bytes: Bytes::new(4096), active: at % 5 > 2, merged: at % 8 == 7 };
    (0..count).map(page).collect()
}

/// The work that a row counts.
#[derive(Clone, Copy)]
enum Walk {
    Bare,
    Proposal,
    Form(Activity),
}

impl Walk {
    const ALL: [Self; 6] = [
        Self::Bare,
        Self::Form(Activity::Off),
        Self::Form(Activity::PageExact),
        Self::Form(Activity::IterBio),
        Self::Proposal,
        Self::Form(Activity::AddPage),
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Bare => "no activity",
            Self::Proposal => "iter-bio, proposal's walk",
            Self::Form(form) => form.name(),
        }
    }

    /// Builds one bio after another.
    fn run(self, pages: &[Page], turns: u64) {
        let form = match self {
            Self::Bare | Self::Proposal => Activity::Off,
            Self::Form(form) => form,
        };
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        let mut promoter = Promoter::new(black_box(form), Options::default());
        for _ in 0..turns {
            let prio = match self {
                Self::Bare => bare(pages),
                Self::Proposal => proposals_walk(pages, submitter),
                Self::Form(_) => counted(pages, &mut promoter, submitter),
            };
            black_box(prio);
        }
    }
}

/// Does the loop's work per page besides counting. It cannot be vectorised or removed.
#[inline(always)]
fn take(page: &Page) -> &Page {
    black_box(page)
}

#[inline(never)]
fn bare(pages: &[Page]) -> IoPrio {
    for page in pages {
        take(page);
    }
    black_box(IoPrio::NONE)
}

#[inline(never)]
fn proposals_walk(pages: &[Page], submitter: Submitter) -> IoPrio {
    let mut vectors = 0;
    for page in pages {
        vectors += u32::from(!take(page).merged);
    }
    iter_bio::walk(
        black_box(IoPrio::NONE),
        submitter,
        vectors,
        pages.iter().filter(|page| !page.merged).map(|page| page.active),
    )
}

#[inline(never)]
fn counted(pages: &[Page], promoter: &mut Promoter, submitter: Submitter) -> IoPrio {
    let mut content = promoter.begin();
    for page in pages {
        let page = take(page);
        if promoter.counts_content() {
            content.add(page.active, page.bytes, page.merged);
        }
    }
    promoter.finish(&content, black_box(IoPrio::NONE), submitter, Origin::Read)
}

const SIZES: [usize; 2] = [16, 256];

fn cases() -> Vec<Case> {
    let case = |row: Walk, size| Case {
        name: format!("{} {size}", row.title()),
        run: Box::new(move |turns| {
            let pages = pages(size);
            row.run(&pages, turns);
        }),
    };
    Walk::ALL.into_iter().flat_map(|row| SIZES.map(|size| case(row, size))).collect()
}

/// Returns the nanoseconds of a turn: the fastest of many batches.
fn nanoseconds(case: &Case, span: Duration) -> f64 {
    const BATCH: u64 = 1024;
    let (start, mut best) = (Clock::now(), Duration::MAX);
    while start.elapsed() < span {
        let batch = Clock::now();
        (case.run)(BATCH);
        best = best.min(batch.elapsed());
    }
    best.as_secs_f64() * 1e9 / BATCH as f64
}

/// Returns the costs of a page and of a bio, from the costs of bios of two sizes.
fn split([small, large]: [f64; 2]) -> [f64; 2] {
    let page = (large - small) / (SIZES[1] - SIZES[0]) as f64;
    [page, small - page * SIZES[0] as f64]
}

/// Returns two cells of a row: the cost in addition to the bare loop, which is the first row.
fn cells(values: Option<[f64; 2]>, bare: &mut Option<[f64; 2]>) -> String {
    let Some(values) = values else { return format!("{:>9} {:>9}", "-", "-") };
    let bare = bare.get_or_insert(values);
    format!("{:>9.2} {:>9.1}", values[0] - bare[0], values[1] - bare[1])
}

fn main() {
    let cases = cases();
    if instructions::serve(&cases) {
        return;
    }
    if !std::env::args().any(|argument| argument == "--bench") {
        cases.iter().for_each(|case| (case.run)(3));
        println!("{} cases run; cargo bench counts them", cases.len());
        return;
    }
    let counting = instructions::available();
    if !counting {
        println!(
            "valgrind is not here: no instruction counts (install it, or read the nanoseconds)"
        );
    }
    println!("beyond the loop alone:         instructions           nanoseconds, bio of");
    println!(
        "{:<26} {:>9} {:>9}   {:>9} {:>9}",
        "activity", "a page", "a bio", "16 pages", "256 pages"
    );
    let (mut bare, mut bare_time) = (None, None);
    for (row, pair) in Walk::ALL.into_iter().zip(cases.chunks_exact(SIZES.len())) {
        let counts = [pair[0].per_turn(), pair[1].per_turn()];
        let counts = if let [Some(small), Some(large)] = counts {
            Some(split([small, large]))
        } else {
            None
        };
        let times = [0, 1].map(|at| nanoseconds(&pair[at], Duration::from_millis(100)));
        println!(
            "{:<26} {}   {}",
            row.title(),
            cells(counts, &mut bare),
            cells(Some(times), &mut bare_time)
        );
    }
    if let Some([page, bio]) = bare {
        println!("the loop alone: {page:.2} instructions a page, {bio:.1} a bio");
    }
    println!("goal: page-exact within 10 instructions a page, off nothing");
}
