//! Time on the processor: other load on the machine does not count in it.

use std::time::{Duration, Instant as Clock};

/// Time this process has had on the processor, where the system tells it.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Nanoseconds for one call of `step`, called in thousands until `span` is over.
pub(crate) fn measure(span: Duration, mut step: impl FnMut()) -> f64 {
    let (start, from, mut steps) = (Clock::now(), on_processor(), 0u32);
    while steps == 0 || start.elapsed() < span {
        (0..1000).for_each(|_| step());
        steps += 1000;
    }
    let spent = on_processor().zip(from).map_or(start.elapsed(), |(to, from)| to - from);
    spent.as_secs_f64() * 1e9 / f64::from(steps)
}
