//! The HTTP listener: metrics for Prometheus, and a page with the JSON that it draws. It only
//! reads, and cannot change a server.
//!
//! A client has a few seconds and a few kilobytes, and there are few at a time, so that a slow or
//! hostile one cannot take more than that. Devices are looked at ten times a second at most,
//! however many clients ask.

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::listen::{Listener, Socket};
use crate::metrics;
use crate::server::LOOK;
use crate::shared::{Control, Shared};
use crate::view::{Observed, unknown_tenant};

/// Clients at a time; a further one is closed at once.
const CLIENTS: usize = 16;
/// Time for a whole request to come, and for its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
pub(crate) const HEAD: usize = 8 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;
/// For this time an answer is made of what was seen before.
const FRESH: Duration = Duration::from_millis(100);

/// The time over which a rate is explained, in milliseconds, unless another is asked for.
const SPAN: u64 = 1_000;
/// The times that can be asked for: longer than [`FRESH`], and no client's for long.
pub(crate) const SPANS: std::ops::RangeInclusive<u64> = 200..=5_000;
const PAGE: &str = "text/html; charset=utf-8";
/// What a page may do: run its own script and ask its own server.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
                      style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";

/// What the threads of the listener share.
struct Site {
    shared: Arc<Shared>,
    started: SystemTime,
    clients: AtomicUsize,
    seen: Mutex<Option<(Instant, Observed)>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// False for HEAD, to which the answer is its head.
    pub(crate) has_body: bool,
    pub(crate) of: Resource,
}

/// What there is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Metrics, in OpenMetrics' form if `open`.
    Metrics { open: bool },
    /// The page.
    Page,
    /// The JSON that the page draws.
    Stats,
    /// Why a tenant has its rate, over so many milliseconds.
    Explain { tenant: String, span: u64 },
}

impl Request {
    /// Parses the head of a request.
    ///
    /// # Errors
    /// The answer to a head that asks for nothing that there is.
    pub(crate) fn of_head(head: &[u8]) -> Result<Self, Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let is_whole = request.parse(head).is_ok_and(|status| status.is_complete());
        let (Some(method), Some(target), true) = (request.method, request.path, is_whole) else {
            return Err(refusal("400 Bad Request", "no request of HTTP/1"));
        };
        if !["GET", "HEAD"].contains(&method) {
            return Err(refusal("405 Method Not Allowed", "only GET and HEAD: nothing can be changed here"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let accepts = |wanted: &str| {
            let mut all = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
            all.any(|header| String::from_utf8_lossy(header.value).contains(wanted))
        };
        let of = match path {
            "/metrics" => Resource::Metrics { open: accepts("application/openmetrics-text") },
            "/" => Resource::Page,
            "/api/stats" => Resource::Stats,
            "/api/explain" => explain(query).map_err(|why| json("400 Bad Request", &json!({ "error": why })))?,
            _ => {
                let all = "there are /, /metrics, /api/stats and /api/explain?tenant=PATH";
                return Err(refusal("404 Not Found", all));
            }
        };
        Ok(Self { has_body: method != "HEAD", of })
    }
}

/// Parses the query of `/api/explain`.
fn explain(query: &str) -> Result<Resource, &'static str> {
    let tenant = parameter(query, "tenant").ok_or("tenant is missing: expected its path")?;
    let span = match parameter(query, "over_ms").map(|text| text.parse()) {
        None => SPAN,
        Some(Ok(millis)) if SPANS.contains(&millis) => millis,
        Some(_) => return Err("over_ms: expected a whole number from 200 to 5000"),
    };
    Ok(Resource::Explain { tenant, span })
}

/// Accepts clients until the server has ended.
pub(crate) fn accept(listener: &Listener, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let site =
        Arc::new(Site { shared, started: SystemTime::now(), clients: AtomicUsize::new(0), seen: Mutex::new(None) });
    while !site.shared.is_stopping() {
        match listener.accept() {
            Ok(socket) => site.take(socket),
            // No descriptors are left, most likely.
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

impl Site {
    /// Serves a client in a thread of its own; one too many is closed.
    fn take(self: &Arc<Self>, mut socket: Socket) {
        if self.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
            self.clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let site = Arc::clone(self);
        let thread = std::thread::Builder::new().name("http".into()).spawn(move || {
            // A client that is gone or too slow needs no answer.
            let _ = site.serve(&mut socket);
            site.clients.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve(&self, socket: &mut Socket) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let head = head(|buffer| socket.read_until(buffer, deadline))?;
        let request = match &head {
            Some(head) => Request::of_head(head),
            None => Err(refusal("400 Bad Request", "no request of HTTP/1 with a head of at most 8 KiB")),
        };
        let has_body = request.as_ref().map_or(true, |request| request.has_body);
        let Answer { status, content_type, body } =
            request.map_or_else(|refused| refused, |request| self.answer(request));
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let policy = if content_type == PAGE { POLICY } else { "" };
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}{policy}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if has_body {
            bytes.push_str(&body);
        }
        socket.write_until(bytes.as_bytes(), Instant::now() + PATIENCE)?;
        socket.shutdown(Shutdown::Write);
        // What comes beyond the head is taken, since closing on it could lose the answer.
        elevon_host::linger(socket, PATIENCE, PATIENCE);
        Ok(())
    }

    fn answer(&self, request: Request) -> Answer {
        match request.of {
            Resource::Metrics { open } => self.metrics(open),
            Resource::Page => Answer { status: "200 OK", content_type: PAGE, body: elevon_report::live::page() },
            Resource::Stats => json("200 OK", &self.observed().json()),
            Resource::Explain { tenant, span } => self.explain(&tenant, span),
        }
    }

    fn metrics(&self, open: bool) -> Answer {
        let text = metrics::open_metrics(self.observed(), self.started);
        let (content_type, body) =
            if open { (metrics::OPEN_METRICS, text) } else { (metrics::PLAIN, metrics::plain(&text)) };
        Answer { status: "200 OK", content_type, body }
    }

    /// Answers why a tenant has the rate that it has, over milliseconds.
    fn explain(&self, tenant: &str, span: u64) -> Answer {
        let unknown =
            |seen: &Observed| json("404 Not Found", &json!({ "error": unknown_tenant(&seen.devices, tenant) }));
        let before = self.observed();
        if before.explain(&before, tenant).is_none() {
            return unknown(&before);
        }
        std::thread::sleep(Duration::from_millis(span));
        let after = self.observed();
        match after.explain(&before, tenant) {
            Some(explained) => json("200 OK", &explained),
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

fn json(status: &'static str, value: &Value) -> Answer {
    Answer { status, content_type: "application/json", body: format!("{value}\n") }
}

/// Returns the value of a parameter of a query.
fn parameter(query: &str, key: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
    let value = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

fn refusal(status: &'static str, why: &str) -> Answer {
    Answer { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
}

/// Reads the head of a request. `None` if it is too long or ends before it is whole.
///
/// # Errors
/// What `read` returns, which reads into a buffer as [`io::Read::read`] does.
pub(crate) fn head(mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while head.len() < HEAD {
        let taken = read(&mut buffer)?;
        if taken == 0 {
            return Ok(None);
        }
        // The end may have come in two parts.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&buffer[..taken]);
        if head[from..].windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_decoded() {
        assert_eq!(parameter("over_ms=5&tenant=shop%2Fb+%22c%22", "tenant").as_deref(), Some("shop/b \"c\""));
        assert_eq!(parameter("tenant=%2", "tenant").as_deref(), Some("%2"));
        assert_eq!((parameter("tenants=a", "tenant"), parameter("", "tenant")), (None, None));
    }
}
