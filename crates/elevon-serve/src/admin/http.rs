//! The HTTP listener: metrics for Prometheus, and a page with the JSON that it draws. It only
//! reads, and cannot change a server.
//!
//! A client has a few seconds and a few kilobytes, and there are few at a time, so that a slow or
//! hostile one cannot take more than that. Devices are looked at ten times a second at most,
//! however many clients ask.

mod request;

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::admin::metrics;
use crate::admin::view::Observed;
use crate::control::Control;
use crate::device::view::unknown_tenant;
use crate::net::listen::{ACCEPT_RETRY, Listener, Socket};
use crate::shared::Shared;
pub(crate) use request::{Request, Resource, SPANS};

/// Clients at a time; a further one is closed at once.
const CLIENTS: usize = 16;
/// Time for a whole request to come, and for its answer to go.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
pub(crate) const HEAD: usize = 8 << 10;
/// For this time an answer is made of what was seen before.
const FRESH: Duration = Duration::from_millis(100);
const PAGE: &str = "text/html; charset=utf-8";
/// What a page may do: run its own script and ask its own server.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
                      style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";

/// What the threads of the listener share.
struct Site {
    shared: Arc<Shared>,
    page: fn() -> String,
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

/// Accepts clients until the server has ended. `page` makes the page.
pub(crate) fn accept(listener: &Listener, shared: &Arc<Shared>, page: fn() -> String) {
    let (shared, started) = (Arc::clone(shared), SystemTime::now());
    let site = Arc::new(Site {
        shared,
        page,
        started,
        clients: AtomicUsize::new(0),
        seen: Mutex::new(None),
    });
    while !site.shared.is_stopping() {
        match listener.accept() {
            Ok(socket) => site.start_client(socket),
            // No descriptors are left, most likely.
            Err(_) => std::thread::sleep(ACCEPT_RETRY),
        }
    }
}

impl Site {
    /// Serves a client in a thread of its own; one too many is closed.
    fn start_client(self: &Arc<Self>, mut socket: Socket) {
        if self.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
            self.clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let site = Arc::clone(self);
        let thread = std::thread::Builder::new().name("http".into()).spawn(move || {
            // A client that is gone or too slow needs no answer.
            let _ = site.answer_client(&mut socket);
            site.clients.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn answer_client(&self, socket: &mut Socket) -> io::Result<()> {
        let deadline = Instant::now() + REQUEST_TIME;
        let mut has_ended = false;
        let head = head(|buffer| {
            let read = socket.read_until(buffer, deadline)?;
            has_ended |= read == 0;
            Ok(read)
        })?;
        let request = match &head {
            Some(head) => Request::of_head(head),
            None if has_ended => {
                Err(refusal("400 Bad Request", "no request of HTTP/1: its head ends early"))
            }
            None => Err(refusal("431 Request Header Fields Too Large", "a head has at most 8 KiB")),
        };
        let has_body = !head.as_deref().is_some_and(request::is_head);
        let is_metrics = matches!(request, Ok(Request { of: Resource::Metrics { .. }, .. }));
        let Answer { status, content_type, body } =
            request.map_or_else(|refused| refused, |request| self.answer(request));
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let policy = if content_type == PAGE { POLICY } else { "" };
        let vary = if is_metrics { "Vary: Accept\r\n" } else { "" };
        let date = httpdate::fmt_http_date(SystemTime::now());
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             {allow}{policy}{vary}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if has_body {
            bytes.push_str(&body);
        }
        socket.write_until(bytes.as_bytes(), Instant::now() + REQUEST_TIME)?;
        socket.shutdown(Shutdown::Write);
        // What comes beyond the head is taken, since closing on it could lose the answer.
        elevon_host::linger(socket, REQUEST_TIME, REQUEST_TIME);
        Ok(())
    }

    fn answer(&self, request: Request) -> Answer {
        match request.of {
            Resource::Metrics { open } => self.metrics(open),
            Resource::Page => Answer { status: "200 OK", content_type: PAGE, body: (self.page)() },
            Resource::Stats => json("200 OK", &self.observed().json()),
            Resource::Explain { tenant, span } => self.explain(&tenant, span),
        }
    }

    fn metrics(&self, open: bool) -> Answer {
        let text = metrics::open_metrics(self.observed(), self.started);
        let (content_type, body) = if open {
            (metrics::OPEN_METRICS, text)
        } else {
            (metrics::PLAIN, metrics::plain(&text))
        };
        Answer { status: "200 OK", content_type, body }
    }

    /// Answers why a tenant has the rate that it has, over milliseconds.
    fn explain(&self, tenant: &str, span: u64) -> Answer {
        let unknown = |seen: &Observed| {
            json("404 Not Found", &json!({ "error": unknown_tenant(&seen.devices, tenant) }))
        };
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

fn refusal(status: &'static str, why: &str) -> Answer {
    Answer { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
}

/// Reads the head of a request. `None` if it is too long or ends before it is whole.
///
/// # Errors
/// What `read` returns, which reads into a buffer as [`io::Read::read`] does.
pub(crate) fn head(
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Option<Vec<u8>>> {
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
