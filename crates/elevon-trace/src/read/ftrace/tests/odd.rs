//! Tests of lines that are not as the kernel prints them, and of times that do not serve.

use crate::report::UnusableError;
use crate::testing::{counts, read_bytes};

/// A task's name may contain a line end, which cuts its events in two.
#[test]
fn a_name_with_a_line_end() {
    let text = "\
        new\nline-400 [000] .....   100.000001: block_bio_queue: 8,0 R 0 + 8 [new\nline]\n\
        new\nline-400 [000] .....   100.000002: block_unplug: [new\nline] 3\n\
        new\nline-400 [000] .....   100.000003: block_getrq: 8,0 R 0 + 8 [ne\n   \
        dd-7 [000] .....   100.000004: block_getrq: 8,0 R 0 + 8 [dd]\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(counts(&events), [("queue", 1), ("getrq", 1), ("unplug", 1)]);
    assert_eq!(
        events.iter().map(|event| event.tid).collect::<Vec<_>>(),
        [Some(400), Some(400), Some(7)]
    );
    assert_eq!(reader.report().skipped_count(), 1, "a line that is cut");
}

/// A file that has one CPU after the other, or two captures, loses the second; one late event of
/// many is counted only.
#[test]
fn times_that_start_again_are_refused() {
    let text = |times: &mut dyn Iterator<Item = u64>| {
        let line = |us: u64| format!("dd-7 [000] ..... 1.{us:06}: block_getrq: 8,0 R 0 + 8 [dd]\n");
        times.map(line).collect::<String>()
    };
    let (events, reader) = read_bytes(text(&mut (0..12_000).chain(0..12_000)));
    let error = reader.report().check().expect_err("half of it is lost").to_string();
    let expected = format!(
        "line 12001: times go back by 11.999ms, and {} of 24000 events",
        24_000 - events.len()
    );
    assert!(error.starts_with(&expected), "{error}");
    let (_, reader) = read_bytes(text(&mut (1..12_000).chain([0]).chain(12_000..24_000)));
    assert_eq!((reader.report().check(), reader.report().skipped_count()), (Ok(()), 1));
}

/// Pages of old systrace have the trace as a string of JavaScript.
#[test]
fn lines_of_a_page_of_old_systrace() {
    let text = "<html>\n<script>\nvar linuxPerfData = \"\\\n# tracer: nop\\n\\\n#\\n\\\n\
        dd-7 [000] ..... 1.000001: block_bio_queue: 8,0 R 0 + 8 [dd]\\n\\\n\
        dd-7 [000] ..... 1.000100: block_rq_complete: 8,0 R () 0 + 8 [0]\\n\\\n\";\n</script>\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(counts(&events), [("queue", 1), ("complete", 1)]);
    assert_eq!(reader.report().skipped, []);
}

/// Times since the event before cannot be told from times by one line, but by many.
#[test]
fn times_since_the_event_before_are_refused() {
    for (step, found) in [(7, Err(UnusableError::TimesSinceEvent)), (1, Ok(()))] {
        let line = |n: u32| {
            format!("dd 7 [000] 0.{:09}: block:block_getrq: 8,0 R 0 + 8 [dd]\n", n * step % 13)
        };
        let (_, reader) = read_bytes((0..13).chain(0..13).map(line).collect::<String>());
        assert_eq!(reader.report().check(), found, "{step}");
    }
}
