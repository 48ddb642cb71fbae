//! The trace of a run, as `elevon inspect` and `elevon replay` read it.

use elevon_trace::Recorded;
use elevon_twin::lab::Trace;

/// Returns the kernel's events under a head that says how they were recorded.
pub(super) fn text(trace: &Trace, program: &[String]) -> Vec<u8> {
    let device = Recorded::of_settings(&trace.device);
    let mut recorded = Recorded::default();
    recorded.note("kernel", &trace.release);
    recorded.note("command", &program.join(" "));
    recorded.note("name", "vda");
    recorded.note("clock", "mono");
    for (key, value) in device.iter() {
        recorded.note(key, value);
    }
    let mut text: String = recorded.lines().iter().map(|line| format!("# {line}\n")).collect();
    text.push_str("# tracer: nop\n");
    [text.as_bytes(), &trace.events].concat()
}
