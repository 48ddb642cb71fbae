//! `--listen`: what the disks do, as a page, as JSON and as metrics.

use std::sync::{Arc, Mutex, PoisonError};

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, ValueError};
use elevon_serve::Address;
use elevon_serve::web::{Answer, Request, Site, WebListener, parameter};
use elevon_watch::{GroupBy, Totals, json};
use serde_json::Value;

use super::metrics;
use super::source::Source;
use crate::args::LISTEN_PLACE;
use crate::terminal::tell;

/// An address that is listened at.
pub(super) struct Listening {
    listener: WebListener,
}

/// Listens at `ADDR:PORT`, or at a port of this machine alone.
///
/// # Errors
/// A text that is no address, or one that cannot be listened at.
pub(super) fn bind(text: &str) -> Result<Listening, Failure> {
    let place =
        if text.contains(':') { format!("tcp:{text}") } else { format!("tcp:127.0.0.1:{text}") };
    let bad = |expected: String| {
        Failure::named(format!("--listen={text}"), ValueError::expected(expected))
    };
    let address: Address =
        place.parse().map_err(|_| bad(format!("ADDR:PORT, such as {LISTEN_PLACE}")))?;
    let listener = WebListener::bind(&address)
        .map_err(|error| bad(format!("an address to listen at: {error}")))?;
    Ok(Listening { listener })
}

/// What there is to see.
struct Shown {
    by_process: Value,
    by_unit: Value,
    totals: Totals,
}

/// What the threads of the listener share.
struct WatchSite {
    shown: Mutex<Shown>,
}

impl WatchSite {
    fn with<T>(&self, look: impl FnOnce(&mut Shown) -> T) -> T {
        look(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Site for WatchSite {
    fn is_stopping(&self) -> bool {
        false
    }

    fn answer(&self, request: &Request) -> Result<Answer, Answer> {
        match &*request.path {
            "/" => Ok(Answer::page(elevon_report::live::watch_page())),
            "/metrics" => {
                let totals = self.with(|shown| shown.totals.clone());
                Ok(Answer::metrics(metrics::text(totals), request))
            }
            "/api/now" => {
                let now = match parameter(&request.query, "by").as_deref() {
                    None | Some("process") => self.with(|shown| shown.by_process.clone()),
                    Some("unit") => self.with(|shown| shown.by_unit.clone()),
                    Some(_) => {
                        let why = "by: expected process or unit";
                        return Err(Answer::refusal("400 Bad Request", why));
                    }
                };
                Ok(Answer::json("200 OK", &now))
            }
            _ => Err(Answer::not_found("there are /, /metrics and /api/now?by=process|unit")),
        }
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// Of tracefs, and of the system.
pub(super) fn serve(
    Listening { listener }: Listening,
    source: &mut Source,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let place = match listener.address()? {
        Address::Tcp(place) => format!("http://{place}/"),
        place @ Address::Unix(_) => place.to_string(),
    };
    let shown = Shown { by_process: Value::Null, by_unit: Value::Null, totals: metrics::totals() };
    let site = Arc::new(WatchSite { shown: Mutex::new(shown) });
    let of_thread: Arc<dyn Site> = Arc::<WatchSite>::clone(&site);
    // It ends with the process: what it waits for is a client.
    std::thread::Builder::new().name("listen".into()).spawn(move || listener.serve(&of_thread))?;
    tell(&format!("{place} has the page, {place}metrics the metrics; Ctrl-C ends"));
    while source.wait_for_slice(interrupt)? {
        let by_process = json::now(&source.now(1, GroupBy::Process));
        let by_unit = json::now(&source.now(1, GroupBy::Unit));
        site.with(|shown| {
            (shown.by_process, shown.by_unit) = (by_process, by_unit);
            source.count(&mut shown.totals);
        });
    }
    Ok(Ending::Done)
}
