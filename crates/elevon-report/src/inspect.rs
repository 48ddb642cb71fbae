//! Reports of `elevon inspect` as text, JSON and HTML: pure functions of an
//! [`Inspection`](elevon_trace::analysis::Inspection).

mod json;
mod page;
mod tables;
mod text;

pub use json::json;
pub use page::{MOST_ON_PAGE, PageRequests, page};
pub use text::text;

/// Version of the JSON that [`json`] writes. It increases if a key changes its meaning or is
/// removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Percentiles in the reports: millionths and name.
const PERCENTILES: [(u64, &str); 5] =
    [(500_000, "p50"), (900_000, "p90"), (950_000, "p95"), (990_000, "p99"), (999_000, "p99.9")];
