//! Tests that what the device does is told by the I/O of the whole disk, if a partition is looked
//! at.

use super::*;

fn kinds(found: &Inspection) -> Vec<FindingKind> {
    found.findings.iter().map(|finding| finding.kind).collect()
}

/// A journal on a partition: each write waits for the flush before it, which is of the disk. The
/// device is not idle while the write waits.
#[test]
fn a_partition_waits_for_flushes_of_its_disk() {
    let mut script = Script::default();
    for n in 0..100 {
        let (at, sector) = (n * 1500, 10_000 + n * 8);
        for (at, event) in [
            (at, format!("bio_remap: 8,0 FWFS {sector} + 8 <- (8,1) {}", sector - 2048)),
            (at, format!("bio_queue: 8,0 FWFS {sector} + 8 [jbd2]")),
            (at, format!("getrq: 8,0 FWFS {sector} + 8 [jbd2]")),
            (at + 5, "rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [kworker]".to_owned()),
            (at + 1005, "rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]".to_owned()),
            (at + 1010, format!("rq_issue: 8,0 WFS 4096 () {sector} + 8 be,0,4 [kworker]")),
            (at + 1110, format!("rq_complete: 8,0 WFS () {sector} + 8 be,0,4 [0]")),
            (at + 1110, format!("rq_complete: 8,0 WFS () {sector} + 0 be,0,4 [0]")),
        ] {
            script.line(at, "jbd2-1", &event);
        }
    }
    let (partition, disk) = (script.inspect("8:1"), script.inspect("8:0"));
    assert_eq!(kinds(&disk), [FindingKind::FlushStorm]);
    assert_eq!(kinds(&partition), kinds(&disk));
    let finding = &partition.findings[0];
    assert!(finding.evidence.iter().any(|line| line.contains("whole disk 8:0")), "{finding:?}");
    assert_eq!(partition.depths.busy(), disk.depths.busy());
    let write = Group::Write as usize;
    assert_eq!(
        (partition.counts.completed[write], partition.counts.completed[Group::Flush as usize]),
        (100, 0)
    );
}

/// A request of one partition waits while the device serves those of another.
#[test]
fn a_partition_waits_for_the_load_of_others() {
    let mut script = Script::default();
    for n in 0..50 {
        let (at, own, other) = (n * 2000, 2048 + n * 8, 1_000_000 + n * 8);
        for (at, event) in [
            (at, format!("bio_remap: 8,0 R {other} + 8 <- (8,2) {}", other - 1_000_000)),
            (at, format!("bio_queue: 8,0 R {other} + 8 [b]")),
            (at, format!("rq_issue: 8,0 R 4096 () {other} + 8 [b]")),
            (at + 100, format!("bio_remap: 8,0 R {own} + 8 <- (8,1) {}", own - 2048)),
            (at + 100, format!("bio_queue: 8,0 R {own} + 8 [a]")),
            (at + 1000, format!("rq_complete: 8,0 R () {other} + 8 [0]")),
            (at + 1000, format!("rq_issue: 8,0 R 4096 () {own} + 8 [a]")),
            (at + 1800, format!("rq_complete: 8,0 R () {own} + 8 [0]")),
        ] {
            script.line(at, "a-1", &event);
        }
    }
    for device in ["8:0", "8:1", "8:2"] {
        let found = script.inspect(device);
        assert_eq!(kinds(&found), [], "{device}");
        assert!(
            (89_000_000..=90_000_000).contains(&found.depths.busy()),
            "{device}: {}",
            found.depths.busy()
        );
    }
}

/// Remaps of bios say which device lies on which, so that one can be chosen.
#[test]
fn several_devices_are_listed_with_those_below() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 253,0 R 8 + 8 [a]"),
        (11, "bio_remap: 8,0 R 2056 + 8 <- (253,0) 8"),
        (12, "bio_queue: 8,0 R 2056 + 8 [a]"),
    ] {
        script.line(at, "a-1", event);
    }
    let open = &mut || crate::from_bytes(script.0.clone().into_bytes());
    let error = inspect(open, None, None, &mut |_| {}).expect_err("two devices").to_string();
    assert!(error.ends_with("--dev: 8:0 (2 events), 253:0 on 8:0 (1 events)"), "{error}");
}
