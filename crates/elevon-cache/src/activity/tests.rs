use alloc::vec::Vec;

use super::add_page::Calls;
use super::iter_bio::{Walk, walk};
use super::page_exact::Options;
use super::{Activity, Content, Origin, Promoter, Submitter};
use elevon_core::ioprio::PrioClass::{self, Be, Idle, None, Rt};
use elevon_core::ioprio::{CpuPolicy, IoPrio};
use elevon_core::units::Bytes;

mod defects;
mod exact;
mod proposal;

const PAGE: u64 = 4096;

/// Returns a task whose priority was never set.
fn plain() -> Submitter {
    Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0)
}

/// Returns a task whose priority was set.
fn set(class: PrioClass, level: u8) -> Submitter {
    Submitter::of_task(IoPrio::new(class, level), CpuPolicy::Normal, 0)
}

/// Parses single pages in vectors of their own: `A` is active, `i` is not; `5A` is five active
/// ones.
fn pages(text: &str) -> Vec<bool> {
    let (mut pages, mut times) = (Vec::new(), 0);
    for letter in text.chars() {
        match letter {
            'A' | 'i' => {
                pages.extend(core::iter::repeat_n(letter == 'A', usize::max(times, 1)));
                times = 0;
            }
            digit => times = 10 * times + digit.to_digit(10).expect("a number, A or i") as usize,
        }
    }
    pages
}

/// Returns the pages of the low bits of a number; the first page is the lowest bit.
fn bits(pattern: u32, count: u32) -> impl Iterator<Item = bool> + Clone {
    (0..count).map(move |at| pattern >> at & 1 == 1)
}

/// A piece of a bio: active, bytes, merged into the last vector.
type Piece = (bool, u64, bool);

fn singles(text: &str) -> Vec<Piece> {
    pages(text).into_iter().map(|active| (active, PAGE, false)).collect()
}

/// Returns one contiguous run, which is one vector.
fn contiguous(text: &str) -> Vec<Piece> {
    pages(text).into_iter().enumerate().map(|(at, active)| (active, PAGE, at > 0)).collect()
}

fn promoter(activity: Activity, options: Options) -> Promoter {
    Promoter::new(activity, options)
}

/// Builds one bio and returns its priority.
fn decide_with(
    promoter: &mut Promoter,
    pieces: &[Piece],
    bio: IoPrio,
    submitter: Submitter,
    origin: Origin,
) -> IoPrio {
    let mut content = promoter.begin();
    for &(active, bytes, merged) in pieces {
        content.add(active, Bytes::new(bytes), merged);
    }
    promoter.finish(&content, bio, submitter, origin)
}

/// Returns the priority of one bio of a plain task, class NONE, with a page that a read waits for.
fn decide(activity: Activity, pieces: &[Piece]) -> IoPrio {
    decide_with(
        &mut promoter(activity, Options::default()),
        pieces,
        IoPrio::NONE,
        plain(),
        Origin::Read,
    )
}

#[test]
fn forms_have_names() {
    assert_eq!(Activity::ALL.map(Activity::name), ["off", "iter-bio", "add-page", "page-exact"]);
    for form in Activity::ALL {
        assert_eq!(Activity::from_name(form.name()), Some(form));
    }
    assert_eq!(Activity::from_name("on"), Option::None);
}

#[test]
fn off_does_nothing() {
    let mut off = promoter(Activity::Off, Options::default());
    assert_eq!(off.begin(), Content::Off);
    for class in [None, Rt, Be, Idle] {
        let bio = IoPrio::new(class, 3).with_hint(2);
        let real_time = Submitter::of_task(IoPrio::NONE, CpuPolicy::RealTime, 0);
        assert_eq!(decide_with(&mut off, &singles("16A"), bio, real_time, Origin::Fault), bio);
    }
    assert!(Origin::ALL.iter().all(|origin| *off.counts(*origin) == Default::default()));
}

#[test]
fn origins_are_numbered_in_order() {
    assert!(
        Origin::ALL
            .iter()
            .enumerate()
            .all(|(at, origin)| *origin as usize == at && !origin.name().is_empty())
    );
}

#[test]
fn what_became_of_bios_is_counted() {
    let mut seed = promoter(Activity::IterBio, Options::default());
    decide_with(&mut seed, &singles("16A"), IoPrio::NONE, plain(), Origin::Fault);
    decide_with(&mut seed, &singles("16i"), IoPrio::NONE, plain(), Origin::Fault);
    decide_with(&mut seed, &singles("i5A10i"), IoPrio::new(Rt, 2), plain(), Origin::Writeback);
    decide_with(&mut seed, &singles("i5A10i"), IoPrio::new(Idle, 0), plain(), Origin::Writeback);
    let fault = seed.counts(Origin::Fault);
    assert_eq!((fault.bios, fault.promoted, fault.raised, fault.demoted), (2, 1, 0, 0));
    let writeback = seed.counts(Origin::Writeback);
    assert_eq!(
        (writeback.bios, writeback.promoted, writeback.raised, writeback.demoted),
        (2, 0, 1, 1)
    );
    assert_eq!(*seed.counts(Origin::Read), Default::default());
}

#[test]
fn every_form_counts_bytes_and_the_active_ones_alike() {
    let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
    for form in [Activity::IterBio, Activity::AddPage, Activity::PageExact] {
        let mut promoter = Promoter::new(form, Options::default());
        for bio in 0..3u64 {
            let mut content = promoter.begin();
            for page in 0..=bio {
                content.add(page == 1, Bytes::new(4096), page > 0);
            }
            promoter.finish(&content, IoPrio::NONE, submitter, Origin::Read);
        }
        let counts = promoter.counts(Origin::Read);
        assert_eq!(
            (counts.bios, counts.bytes, counts.active_bytes),
            (3, 6 * 4096, 2 * 4096),
            "{}",
            form.name()
        );
    }
}
