//! What the HTTP listener of a server serves: metrics for Prometheus, and a page with the JSON that
//! it draws. It only reads, and cannot change a server.
//!
//! Devices are looked at ten times a second at most, however many clients ask.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::admin::metrics;
use crate::admin::view::Observed;
use crate::control::Control;
use crate::device::view::unknown_tenant;
use crate::shared::Shared;
use crate::web::{Answer, Request, Site, parameter};

/// For this time an answer is made of what was seen before.
const FRESH: Duration = Duration::from_millis(100);
/// The time over which a rate is explained, in milliseconds, unless another is asked for.
const SPAN: u64 = 1_000;
/// The times that can be asked for: longer than an answer is kept, and no client's for long.
pub(crate) const SPANS: std::ops::RangeInclusive<u64> = 200..=5_000;

/// What the threads of the listener share.
struct ServerSite {
    shared: Arc<Shared>,
    page: fn() -> String,
    started: SystemTime,
    seen: Mutex<Option<(Instant, Observed)>>,
}

/// Returns the site of a server. `page` makes the page.
pub(crate) fn site(shared: Arc<Shared>, page: fn() -> String) -> Arc<dyn Site> {
    Arc::new(ServerSite { shared, page, started: SystemTime::now(), seen: Mutex::new(None) })
}

impl Site for ServerSite {
    fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn answer(&self, request: &Request) -> Result<Answer, Answer> {
        Ok(match &*request.path {
            "/metrics" => {
                Answer::metrics(metrics::open_metrics(self.observed(), self.started), request)
            }
            "/" => Answer::page((self.page)()),
            "/api/stats" => Answer::json("200 OK", &self.observed().json()),
            "/api/explain" => {
                let (tenant, span) = asked(&request.query)
                    .map_err(|why| Answer::json("400 Bad Request", &json!({ "error": why })))?;
                self.explain(&tenant, span)
            }
            _ => {
                let all = "there are /, /metrics, /api/stats and /api/explain?tenant=PATH";
                return Err(Answer::not_found(all));
            }
        })
    }
}

impl ServerSite {
    /// Answers why a tenant has the rate that it has, over milliseconds.
    fn explain(&self, tenant: &str, span: u64) -> Answer {
        let unknown = |seen: &Observed| {
            let error = json!({ "error": unknown_tenant(&seen.devices, tenant) });
            Answer::json("404 Not Found", &error)
        };
        let before = self.observed();
        if before.explain(&before, tenant).is_none() {
            return unknown(&before);
        }
        std::thread::sleep(Duration::from_millis(span));
        let after = self.observed();
        match after.explain(&before, tenant) {
            Some(explained) => Answer::json("200 OK", &explained),
            None => unknown(&after),
        }
    }

    /// Returns what the server does, as it was at most [`FRESH`] ago.
    fn observed(&self) -> Observed {
        let mut seen = self.seen.lock().expect("no thread panics with the lock");
        match &*seen {
            Some((at, observed)) if at.elapsed() < FRESH => observed.clone(),
            _ => {
                let observed = Observed::of(&Control(&self.shared));
                *seen = Some((Instant::now(), observed.clone()));
                observed
            }
        }
    }
}

/// Parses the query of `/api/explain`: the tenant, and the milliseconds.
pub(crate) fn asked(query: &str) -> Result<(String, u64), &'static str> {
    let tenant = parameter(query, "tenant").ok_or("tenant is missing: expected its path")?;
    let span = match parameter(query, "over_ms").map(|text| text.parse()) {
        None => SPAN,
        Some(Ok(millis)) if SPANS.contains(&millis) => millis,
        Some(_) => return Err("over_ms: expected a whole number from 200 to 5000"),
    };
    Ok((tenant, span))
}
