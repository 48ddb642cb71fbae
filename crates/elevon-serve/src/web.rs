//! A listener of HTTP that only reads: pages, JSON and metrics. What there is, a [`Site`] knows.
//!
//! A client has a few seconds and a few kilobytes, and there are few at a time, so that a slow or
//! hostile one cannot take more than that.

pub mod metrics;
mod request;

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::net::listen::{ACCEPT_RETRY, Address, Listener, Socket};
pub use request::{Request, parameter};

/// Clients at a time; a further one is closed at once.
const CLIENTS: usize = 16;
/// Time for a whole request to come, and for its answer to go.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
pub(crate) const HEAD: usize = 8 << 10;
const PAGE: &str = "text/html; charset=utf-8";
/// What a page may do: run its own script and ask its own server.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
                      style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";
/// The content type of metrics, by the format.
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served. Its answers are made by several threads at a time.
pub trait Site: Send + Sync {
    /// Returns true when no client shall be served any more.
    fn is_stopping(&self) -> bool;

    /// Answers a request.
    ///
    /// # Errors
    /// A refusal, which is an answer, too.
    fn answer(&self, request: &Request) -> Result<Answer, Answer>;
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub(crate) status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    /// Answers with a page of HTML, whose script may ask this site only.
    pub const fn page(body: String) -> Self {
        Self { status: "200 OK", content_type: PAGE, body }
    }

    /// Answers with JSON and a status such as `200 OK`.
    pub fn json(status: &'static str, value: &Value) -> Self {
        Self { status, content_type: "application/json", body: format!("{value}\n") }
    }

    /// Answers with metrics, which are given in the format of OpenMetrics, in the format that the
    /// client would rather have.
    pub fn metrics(open_metrics: String, request: &Request) -> Self {
        let (content_type, body) = if request.prefers_open_metrics {
            (OPEN_METRICS, open_metrics)
        } else {
            (PLAIN_METRICS, metrics::plain(&open_metrics))
        };
        Self { status: "200 OK", content_type, body }
    }

    /// Refuses with a status and a reason in one line.
    pub fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    /// Refuses a path that is not there; `all` names those that are.
    pub fn not_found(all: &str) -> Self {
        Self::refusal("404 Not Found", all)
    }
}

/// An address at which a site is served.
pub struct WebListener(Listener);

impl WebListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// Of the system, such as a port that is in use.
    pub fn bind(address: &Address) -> io::Result<Self> {
        Listener::bind(address).map(Self)
    }

    /// Returns the address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// Of the system.
    pub fn address(&self) -> io::Result<Address> {
        self.0.address()
    }

    /// Serves a site until it is stopping and one more client comes.
    pub fn serve(&self, site: &Arc<dyn Site>) {
        accept(&self.0, site);
    }
}

/// Accepts clients until the site is stopping.
pub(crate) fn accept(listener: &Listener, site: &Arc<dyn Site>) {
    let clients = Arc::new(AtomicUsize::new(0));
    while !site.is_stopping() {
        match listener.accept() {
            Ok(socket) => start_client(site, &clients, socket),
            // No descriptors are left, most likely.
            Err(_) => std::thread::sleep(ACCEPT_RETRY),
        }
    }
}

/// Serves a client in a thread of its own; one too many is closed.
fn start_client(site: &Arc<dyn Site>, clients: &Arc<AtomicUsize>, mut socket: Socket) {
    if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
        clients.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (site, of_thread) = (Arc::clone(site), Arc::clone(clients));
    let thread = std::thread::Builder::new().name("http".into()).spawn(move || {
        // A client that is gone or too slow needs no answer.
        let _ = answer_client(&*site, &mut socket);
        of_thread.fetch_sub(1, Ordering::Relaxed);
    });
    if thread.is_err() {
        clients.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer_client(site: &dyn Site, socket: &mut Socket) -> io::Result<()> {
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
            Err(Answer::refusal("400 Bad Request", "no request of HTTP/1: its head ends early"))
        }
        None => {
            Err(Answer::refusal("431 Request Header Fields Too Large", "a head has at most 8 KiB"))
        }
    };
    let has_body = !head.as_deref().is_some_and(request::is_head);
    let answer = request.and_then(|request| site.answer(&request));
    let bytes = answer.unwrap_or_else(|refused| refused).bytes(has_body);
    socket.write_until(&bytes, Instant::now() + REQUEST_TIME)?;
    socket.shutdown(Shutdown::Write);
    // What comes beyond the head is taken, since closing on it could lose the answer.
    elevon_host::linger(socket, REQUEST_TIME, REQUEST_TIME);
    Ok(())
}

impl Answer {
    /// Returns the answer as a client gets it.
    fn bytes(&self, has_body: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let policy = if *content_type == PAGE { POLICY } else { "" };
        let is_metrics = [PLAIN_METRICS, OPEN_METRICS].contains(content_type);
        let vary = if is_metrics { "Vary: Accept\r\n" } else { "" };
        let date = httpdate::fmt_http_date(SystemTime::now());
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             {allow}{policy}{vary}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if has_body {
            bytes.push_str(body);
        }
        bytes.into_bytes()
    }
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
