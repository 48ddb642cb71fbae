//! Tests that every error is counted once, and found.

use super::*;

fn errors(script: &Script, device: &str) -> (u64, Option<Finding>) {
    let found = script.inspect(device);
    let finding = found.findings.into_iter().find(|finding| finding.kind == FindingKind::IoErrors);
    (found.counts.errors, finding)
}

fn script(events: &[&str]) -> Script {
    let mut script = Script::default();
    for (at, event) in (10..).step_by(10).zip(events) {
        script.line(at, "a-1", event);
    }
    script
}

const FLUSH: &str = "rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 [a]";

/// Events, the number of errors that they tell, and what the finding says.
const ERRORS: &[(&[&str], u64, &str)] = &[
    (&[FLUSH, "rq_complete: 8,0 FF () 18446744073709551615 + 0 [-5]"], 1, "1 flush with EIO (-5)"),
    // Of a request, and of one that began before the trace.
    (
        &["rq_issue: 8,0 R 4096 () 8 + 8 [a]", "rq_complete: 8,0 R () 8 + 8 [-61]"],
        1,
        "1 read with ENODATA (-61)",
    ),
    (&["rq_complete: 8,0 W () 8 + 8 [-5]"], 1, "1 write with EIO (-5)"),
    // Only the bio has it: it failed before it was in a request, and it was queued or not.
    (
        &["bio_queue: 8,0 W 80 + 8 [a]", "bio_complete: 8,0 W 80 + 8 [-5]"],
        1,
        "1 write with EIO (-5)",
    ),
    (&["bio_complete: 8,0 WS 80 + 8 [-28]"], 1, "1 write with ENOSPC (-28)"),
    // A bio of a device that has requests, beside one that ended well.
    (
        &[
            "rq_issue: 8,0 R 4096 () 8 + 8 [a]",
            "rq_complete: 8,0 R () 8 + 8 [0]",
            "bio_queue: 8,0 R 99999 + 8 [a]",
            "bio_complete: 8,0 R 99999 + 8 [-5]",
        ],
        1,
        "1 read with EIO (-5)",
    ),
    // The request and its bio tell the same error.
    (
        &[
            "bio_queue: 8,0 R 8 + 8 [a]",
            "getrq: 8,0 R 8 + 8 [a]",
            "rq_issue: 8,0 R 4096 () 8 + 8 [a]",
            "rq_complete: 8,0 R () 8 + 8 [-5]",
            "bio_complete: 8,0 R 8 + 8 [-5]",
        ],
        1,
        "1 read with EIO (-5)",
    ),
    // Only the end of a flush sequence has it.
    (
        &[
            "bio_queue: 8,0 FWS 0 + 0 [a]",
            "getrq: 8,0 FWS 0 + 0 [a]",
            FLUSH,
            "rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]",
            "rq_complete: 8,0 FWS () 0 + 0 [-5]",
        ],
        1,
        "1 flush with EIO (-5)",
    ),
    // Only events of errors were recorded.
    (
        &["rq_error: 8,0 W () 8 + 8 [-5]", "rq_error: 8,0 W () 16 + 8 [-5]"],
        2,
        "2 writes with EIO (-5)",
    ),
    // An error of a part.
    (
        &[
            "rq_issue: 8,0 D 8192 () 8 + 16 [a]",
            "rq_complete: 8,0 D () 8 + 8 [-121]",
            "rq_complete: 8,0 D () 16 + 8 [0]",
        ],
        1,
        "1 discard with EREMOTEIO (-121)",
    ),
];

#[test]
fn an_error_is_found_whatever_tells_it() {
    for &(events, count, words) in ERRORS {
        let (errors, finding) = errors(&script(events), "8:0");
        assert_eq!(errors, count, "{events:?}");
        let finding = finding.unwrap_or_else(|| panic!("{events:?}"));
        assert!(finding.title.contains(words), "{events:?}: {finding:?}");
        assert!((1..=1000).contains(&finding.weight) && !finding.advice.is_empty());
    }
}

/// What ended well is no error, nor is a bio that asked not to wait and would have to.
#[test]
fn what_is_no_failure_is_not_found() {
    for events in [
        &["rq_issue: 8,0 R 4096 () 8 + 8 [a]", "rq_complete: 8,0 R () 8 + 8 [0]"][..],
        &["bio_queue: 8,0 R 8 + 8 [a]", "bio_complete: 8,0 R 8 + 8 [-11]"],
    ] {
        assert_eq!(errors(&script(events), "8:0").1, None, "{events:?}");
    }
}

/// Several errors are told by number, the most frequent first, with the processes.
#[test]
fn errors_are_told_apart() {
    let mut script = Script::default();
    for n in 0..5u64 {
        let error = if n == 2 { -110 } else { -5 };
        script.line(n * 100, "db-9", &format!("rq_issue: 8,0 W 4096 () {} + 8 [db]", n * 8));
        script.line(n * 100 + 50, "i-0", &format!("rq_complete: 8,0 W () {} + 8 [{error}]", n * 8));
    }
    let (count, finding) = errors(&script, "8:0");
    let finding = finding.expect("errors");
    assert_eq!((count, &finding.who[..]), (5, &["db (9)".to_owned()][..]));
    assert!(finding.title.contains("5 writes with EIO (-5), ETIMEDOUT (-110)"), "{finding:?}");
    assert!(
        finding.evidence[0].starts_with("4 with EIO")
            && finding.evidence[1].starts_with("1 with ETIMEDOUT")
    );
}
