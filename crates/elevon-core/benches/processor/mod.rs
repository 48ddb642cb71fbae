//! Measures CPU time, which does not include other load on the machine.

use std::time::{Duration, Instant as Clock};

/// Returns the CPU time of this process, if the system reports it.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the nanoseconds per call of `step`, which is called in thousands until `span` has
/// passed.
pub(crate) fn measure(span: Duration, mut step: impl FnMut()) -> f64 {
    let (start, from, mut steps) = (Clock::now(), on_processor(), 0u32);
    while steps == 0 || start.elapsed() < span {
        (0..1000).for_each(|_| step());
        steps += 1000;
    }
    let spent = on_processor().zip(from).map_or(start.elapsed(), |(to, from)| to - from);
    spent.as_secs_f64() * 1e9 / f64::from(steps)
}
