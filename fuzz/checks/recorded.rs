//! Properties that must hold for any bytes of a file beside a trace, `TRACE.settings`. The fuzz
//! target and a test over the corpus share this check.

use elevon_trace::Recorded;

/// Checks that what is taken of it is bounded, and is the same after it is written and read back in
/// the head of a trace.
pub(crate) fn recorded(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let recorded = Recorded::of_settings(&text);
    assert!(recorded.iter().count() <= text.lines().count().min(1024));
    for (key, value) in recorded.iter() {
        assert!(!key.chars().chain(value.chars()).any(char::is_control), "{key:?} {value:?}");
    }
    assert!(recorded.tunables().count() <= recorded.iter().count());
    assert!(recorded.driver_tags().is_none_or(|tags| tags > 0 && recorded.hardware_queues() > 0));
    assert!(
        recorded.scheduler().is_none_or(|name| recorded
            .get("queue/scheduler")
            .is_some_and(|all| all.contains(name)))
    );
    let head: String = recorded.lines().iter().map(|line| format!("# {line}\n")).collect();
    let trace = format!("{head}a-1 [000] ..... 1.000001: block_plug: [a]\n");
    let mut reader = elevon_trace::from_bytes(trace.into_bytes()).expect("a known first record");
    while reader.next_batch().expect("bytes in memory").is_some() {}
    let read = reader.report().recorded.as_deref().expect("a title");
    // A line that is longer than what is read back is left out, and a key may have the mark of one.
    let is_plain = |(key, value): &(&str, &str)| {
        key.len() + value.len() < 4000
            && !key.contains(": ")
            && !key.is_empty()
            && !value.is_empty()
    };
    let kept = recorded.iter().filter(is_plain).count();
    assert!(read.iter().count() >= kept.min(1), "{head}");
    for (key, value) in recorded.iter().filter(is_plain) {
        assert!(read.iter().any(|other| other == (key, value)), "{key:?}: {value:?} of {head}");
    }
}
