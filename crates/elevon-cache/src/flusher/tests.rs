//! Worked examples of `fs/fs-writeback.c`: `wb_check_old_data_flush`, `writeback_chunk_size`.

use super::*;
use elevon_core::tenant::ROOT;

const fn at(secs: u64) -> Instant {
    Instant::new(secs * 1_000_000_000)
}

fn turn(next: u64, written: u64, is_dirty: bool, is_used_up: bool) -> Turn {
    Turn { next: PageIndex::new(next), written: PageCount::new(written), is_dirty, is_used_up }
}

/// Runs timers up to `until`. Returns the time and size of the first turn.
fn first_turn(flusher: &mut Flusher, until: Instant) -> Option<(Instant, Chunk)> {
    while let Some(now) = flusher.next_timer().filter(|&now| now <= until) {
        flusher.handle_timer(now);
        if let Some(chunk) = flusher.next_turn(now, false) {
            return Some((now, chunk));
        }
    }
    None
}

#[test]
fn old_files_are_written_at_the_wake_after_thirty_seconds() {
    let mut flusher = Flusher::default();
    flusher.on_dirtied(FileId(3), ROOT, at(0));
    flusher.on_dirtied(FileId(3), ROOT, at(20));
    let chunk = Chunk { file: FileId(3), from: PageIndex::ZERO, reason: Reason::Periodic };
    assert_eq!(first_turn(&mut flusher, at(100)), Some((at(30), chunk)));

    // The wake-ups of another file are just before it: 35 s at the latest.
    let mut flusher = Flusher::default();
    flusher.on_dirtied(FileId(0), ROOT, at(0));
    flusher.on_dirtied(FileId(3), ROOT, Instant::new(1));
    let (now, chunk) = first_turn(&mut flusher, at(100)).expect("the first file");
    assert_eq!((now, chunk.file), (at(30), FileId(0)));
    flusher.turn_ended(FileId(0), turn(0, 1, false, false), now);
    assert_eq!(flusher.next_turn(now, false), None);
    let (now, chunk) = first_turn(&mut flusher, at(100)).expect("the second file");
    assert_eq!((now, chunk.file), (at(35), FileId(3)));
    flusher.turn_ended(FileId(3), turn(0, 1, false, false), now);
    assert_eq!(flusher.next_turn(now, false), None);
    // Nothing is dirty: the flusher checks once more, and then stops.
    flusher.handle_timer(at(40));
    assert_eq!((flusher.next_turn(at(40), false), flusher.next_timer()), (None, None));
}

#[test]
fn chunks_of_a_turn_by_bandwidth() {
    for (bandwidth, pages) in [(25_600, 13_312), (2_560, 2_048), (1_000, 1_024), (128_000, 25_600)]
    {
        assert_eq!(
            chunk_pages(bandwidth, 199_951, u64::MAX),
            PageCount::new(pages),
            "bandwidth {bandwidth}"
        );
    }
    assert_eq!(chunk_pages(25_600, 199_951, 3_000), PageCount::new(3_072));
}

#[test]
fn background_takes_files_in_turns_until_below() {
    let mut flusher = Flusher::default();
    for n in [4, 2, 9] {
        flusher.on_dirtied(FileId(n), ROOT, at(0));
    }
    assert_eq!(flusher.next_turn(at(1), true), None, "nobody woke it");
    flusher.wake();
    let mut order = Vec::new();
    for step in 0..7 {
        let Chunk { file, from, reason } =
            flusher.next_turn(at(1), true).expect("dirty pages are left");
        assert_eq!(reason, Reason::Background);
        let from = from.get();
        order.push((file.0, from));
        flusher.turn_ended(file, turn(from + 100, 100, file.0 != 2, true), at(1));
        flusher.self_check();
        assert!(step < 6 || flusher.is_awake());
    }
    assert_eq!(order, [(4, 0), (2, 0), (9, 0), (4, 100), (9, 100), (4, 200), (9, 200)]);
    assert_eq!(flusher.next_turn(at(1), false), None);
    assert!(!flusher.is_awake() && flusher.is_dirty(FileId(4)) && !flusher.is_dirty(FileId(2)));
}

#[test]
fn what_cannot_be_written_ends_the_pass() {
    let mut flusher = Flusher::default();
    flusher.on_dirtied(FileId(0), ROOT, at(0));
    flusher.on_dirtied(FileId(1), ROOT, at(1));
    flusher.wake();
    for _ in 0..2 {
        let chunk = flusher.next_turn(at(2), true).expect("a turn each");
        flusher.turn_ended(chunk.file, turn(0, 0, true, false), at(2));
        flusher.self_check();
    }
    assert_eq!(flusher.next_turn(at(2), true), None);
    assert!(!flusher.is_awake());
}

#[test]
fn a_file_cleaned_by_others_has_no_turn() {
    let mut flusher = Flusher::default();
    flusher.on_dirtied(FileId(0), ROOT, at(0));
    flusher.on_dirtied(FileId(1), ROOT, at(0));
    flusher.on_clean(FileId(0));
    flusher.self_check();
    flusher.wake();
    let chunk = flusher.next_turn(at(0), true).expect("the other file");
    assert_eq!(chunk.file, FileId(1));
    flusher.on_clean(FileId(1));
    flusher.turn_ended(FileId(1), turn(0, 5, false, false), at(0));
    assert_eq!(flusher.next_turn(at(0), true), None);
    // A file that becomes dirty again has a new age.
    flusher.on_dirtied(FileId(0), ROOT, at(40));
    flusher.handle_timer(at(45));
    assert_eq!(flusher.next_turn(at(45), false), None);
    assert_eq!(first_turn(&mut flusher, at(100)).map(|(now, _)| now), Some(at(70)));
}

#[test]
fn times_are_settings() {
    let times = FlusherTimes { period: Nanos::from_secs(1), expire: Nanos::from_secs(2) };
    let mut flusher = Flusher::new(times);
    flusher.on_dirtied(FileId(0), ROOT, at(0));
    let looks: Vec<Option<Chunk>> = (1..=2)
        .map(|second| {
            assert_eq!(flusher.next_timer(), Some(at(second)));
            flusher.handle_timer(at(second));
            flusher.next_turn(at(second), false)
        })
        .collect();
    assert!(looks[0].is_none() && looks[1].is_some_and(|chunk| chunk.file == FileId(0)));

    let mut never = Flusher::new(FlusherTimes { period: Nanos::ZERO, ..times });
    never.on_dirtied(FileId(0), ROOT, at(0));
    assert_eq!(never.next_timer(), None);
}

#[test]
fn the_sole_owner_of_a_files_dirty_pages_is_known_until_another_dirties_one() {
    let (mut flusher, other) = (Flusher::default(), TenantId(2));
    assert_eq!(flusher.sole_owner(FileId(1)), None);
    flusher.on_dirtied(FileId(1), ROOT, at(0));
    flusher.on_dirtied(FileId(1), ROOT, at(1));
    assert_eq!(flusher.sole_owner(FileId(1)), Some(ROOT));
    flusher.on_dirtied(FileId(1), other, at(1));
    flusher.on_dirtied(FileId(1), other, at(1));
    assert_eq!(flusher.sole_owner(FileId(1)), None);
    flusher.on_clean(FileId(1));
    flusher.on_dirtied(FileId(1), other, at(2));
    assert_eq!(flusher.sole_owner(FileId(1)), Some(other), "what was dirty is written");
}
