//! Insertions that check for a refault: `filemap_add_folio` of `mm/filemap.c`. Removals that leave
//! a shadow: `page_cache_delete` and `__remove_mapping`.

use super::*;
use crate::pages::Entry;
use crate::replace::POLICIES;
use elevon_core::tenant::ROOT;

const FILE: FileId = FileId(0);

fn memory(policy: &str, frames: u64) -> Resident {
    Resident::new(frames, &ReplacementConfig::parse(policy).expect("a policy"))
}

fn evict_all(memory: &mut Resident) -> Vec<Evicted> {
    let mut out = Vec::new();
    for _ in 0..4 {
        memory.reclaim(Instant::ZERO, u64::MAX, Reclaimer::Direct, &mut out);
    }
    out
}

#[test]
fn an_insertion_for_a_write_judges_no_refault() {
    for (context, refaults) in [(Context::Fault, 1), (Context::Write, 0)] {
        let mut memory = memory("mglru-6.14", 8);
        memory.insert(FILE, PageIndex::ZERO, Context::Read).expect("a frame");
        // This page stays: with so few pages in memory, a leaf that holds shadows only is dropped.
        let stays = memory.insert(FILE, PageIndex::new(1), Context::Read).expect("a frame");
        memory.pages_mut().pin(stays);
        let outcome = memory.reclaim(Instant::ZERO, 1, Reclaimer::Direct, &mut Vec::new());
        assert_eq!(outcome.evicted, 1);
        assert!(matches!(memory.pages().entry(FILE, PageIndex::ZERO), Entry::Shadow(_)));
        memory.insert(FILE, PageIndex::ZERO, context).expect("a frame");
        assert_eq!(memory.stats().refaulted, refaults, "{context:?}");
        assert_eq!(memory.pages().shadows(), 0);
        memory.self_check();
    }
}

#[test]
fn dropped_pages_leave_no_shadow() {
    for policy in POLICIES {
        let mut memory = memory(policy, 8);
        let frame = memory.insert(FILE, PageIndex::ZERO, Context::Read).expect("a frame");
        memory.pages_mut().set_dirty(frame, ROOT);
        let evicted = memory.drop_page(frame).expect("nobody holds it");
        assert_eq!(
            (evicted.file, evicted.index, memory.pages().dirty()),
            (FILE, PageIndex::ZERO, 0)
        );
        assert_eq!(memory.pages().entry(FILE, PageIndex::ZERO), Entry::Empty);
        let frame = memory.insert(FILE, PageIndex::ZERO, Context::Fault).expect("a frame");
        assert!(!memory.is_active(frame), "{policy}");
        memory.self_check();
    }
}

#[test]
fn memory_of_others_takes_pages_away() {
    for policy in POLICIES {
        let mut memory = memory(policy, 64);
        (0..64).for_each(|index| {
            assert!(memory.insert(FILE, PageIndex::new(index), Context::Read).is_some());
        });
        assert!(memory.insert(FILE, PageIndex::new(64), Context::Read).is_none());
        memory.set_reserved(48);
        assert_eq!((memory.free(), memory.deficit()), (0, 48));
        let mut out = Vec::new();
        while memory.deficit() > 0 {
            let deficit = memory.deficit();
            memory.reclaim(Instant::ZERO, deficit, Reclaimer::Direct, &mut out);
        }
        assert_eq!((memory.pages().used(), out.len()), (16, 48), "{policy}");
        assert!(
            memory.insert(FILE, PageIndex::new(100), Context::Read).is_none(),
            "others have the rest"
        );
        memory.set_reserved(0);
        assert_eq!(memory.free(), 48);
        memory.self_check();
    }
}

#[test]
fn what_is_held_outlives_every_pressure() {
    for policy in POLICIES {
        let mut memory = memory(policy, 40);
        let frames: Vec<_> = (0..40)
            .map(|index| {
                memory.insert(FILE, PageIndex::new(index), Context::Read).expect("a frame")
            })
            .collect();
        let pages = memory.pages_mut();
        pages.set(frames[1], Flags::LOCKED);
        pages.set_dirty(frames[2], ROOT);
        pages.set_dirty(frames[3], ROOT);
        pages.begin_writeback(frames[3]);
        pages.pin(frames[4]);
        let gone = evict_all(&mut memory).len() + evict_all(&mut memory).len();
        assert_eq!((gone, memory.pages().used()), (36, 4), "{policy}");
        assert!(
            [1, 2, 3, 4].iter().all(|&index| memory.find(FILE, PageIndex::new(index)).is_some())
        );
        assert!(memory.drop_page(frames[1]).is_none() && memory.drop_page(frames[3]).is_none());
        memory.pages_mut().clear(frames[1], Flags::LOCKED);
        memory.pages_mut().begin_writeback(frames[2]);
        memory.end_writeback(frames[2]);
        memory.end_writeback(frames[3]);
        memory.pages_mut().unpin(frames[4]);
        assert_eq!(evict_all(&mut memory).len(), 4, "{policy}");
        memory.self_check();
    }
}

#[test]
fn a_scan_does_not_flush_what_is_used() {
    // 600 pages are read repeatedly, together with a file that is read once. (`sieve` is weak at
    // this; `mglru-6.14` protects tiers only while it sees refaults, and loses a quarter.)
    for policy in ["classic", "mglru-6.1", "s3-fifo"] {
        let mut memory = memory(policy, 1000);
        let mut out = Vec::new();
        let mut misses = 0;
        for index in 0..50_000u64 {
            for (file, index) in
                [(FileId(1), index), (FILE, index % 600), (FILE, (index * 7) % 600)]
            {
                let frame = memory.find(file, PageIndex::new(index)).unwrap_or_else(|| {
                    misses += u64::from(file == FILE);
                    if memory.free() == 0 {
                        memory.reclaim(Instant::ZERO, 8, Reclaimer::Kswapd, &mut out);
                        memory.reclaim(Instant::ZERO, 1, Reclaimer::Direct, &mut out);
                    }
                    memory
                        .insert(file, PageIndex::new(index), Context::Read)
                        .expect("reclaim frees a frame")
                });
                memory.access(frame, Context::Read);
            }
        }
        assert!(misses < 1000, "{policy}: {misses} of 100000");
        memory.self_check();
    }
}
