//! What a client of HTTP asks for: the head of a request, as RFC 9112 has it.

use super::Answer;

/// The most headers of a request.
const HEADERS: usize = 64;

/// Methods of RFC 9110, and PATCH, that change something or ask for something else. A method that
/// is not among them is not known here.
const REFUSED: [&str; 7] = ["POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A request that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path, decoded.
    pub path: String,
    /// What stands behind the question mark, as it came; empty without one.
    pub query: String,
    /// True if the client would rather have metrics in the format of OpenMetrics.
    pub prefers_open_metrics: bool,
}

impl Request {
    /// Parses the head of a request.
    ///
    /// # Errors
    /// The answer to a head that is no request that can be answered.
    pub(crate) fn of_head(head: &[u8]) -> Result<Self, Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let is_whole = match request.parse(head) {
            Ok(status) => status.is_complete(),
            Err(httparse::Error::TooManyHeaders) => {
                let why = format!("more than {HEADERS} headers");
                return Err(Answer::refusal("431 Request Header Fields Too Large", &why));
            }
            // The version comes behind the target.
            Err(httparse::Error::Version) if request.path.is_some() => {
                return Err(Answer::refusal(
                    "505 HTTP Version Not Supported",
                    "HTTP/1.0 and HTTP/1.1 are spoken here",
                ));
            }
            Err(_) => false,
        };
        let (Some(method), Some(target), Some(version), true) =
            (request.method, request.path, request.version, is_whole)
        else {
            return Err(Answer::refusal("400 Bad Request", "no request of HTTP/1"));
        };
        check_host(request.headers, version)
            .map_err(|why| Answer::refusal("400 Bad Request", why))?;
        match method {
            "GET" | "HEAD" => {}
            method if REFUSED.contains(&method) => {
                return Err(Answer::refusal(
                    "405 Method Not Allowed",
                    "only GET and HEAD: nothing can be changed here",
                ));
            }
            method => {
                let why =
                    format!("{method} is no method that is known here; there are GET and HEAD");
                return Err(Answer::refusal("501 Not Implemented", &why));
            }
        }
        let target = origin_form(target).ok_or_else(|| {
            Answer::refusal("400 Bad Request", "the target is no path and no address of http")
        })?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self {
            path: if path.is_empty() {
                "/".to_owned()
            } else {
                percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
            },
            query: query.to_owned(),
            prefers_open_metrics: prefers_open(request.headers),
        })
    }
}

/// Returns true if the answer to a head is a head alone, whatever it asks for.
pub(crate) fn is_head(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"HEAD ")
}

/// Returns the values of the headers of a name.
fn values<'a>(
    headers: &'a [httparse::Header<'_>],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// Returns without an error if a request names its host as RFC 9112 wants it: once, and in HTTP/1.0
/// at most once.
fn check_host(headers: &[httparse::Header<'_>], version: u8) -> Result<(), &'static str> {
    let mut hosts = values(headers, "host");
    match (hosts.next(), hosts.next(), version) {
        (None, _, 0) => Ok(()),
        (None, ..) => Err("the header Host is missing"),
        (Some(_), Some(_), _) => Err("more than one header Host"),
        (Some(host), None, _) if is_host(host) => Ok(()),
        (Some(_), None, _) => Err("the header Host is no host with a port"),
    }
}

/// Returns true for the form of a host, with a port or without. It may be empty.
fn is_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let (host, port) = match text.rfind(':') {
        Some(at) if !text.ends_with(']') => (&text[..at], &text[at + 1..]),
        _ => (text, ""),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let is_in_brackets =
        host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| {
            !inner.is_empty() && inner.bytes().all(|byte| is_name(byte) || byte == b':')
        });
    port.bytes().all(|byte| byte.is_ascii_digit()) && (is_in_brackets || host.bytes().all(is_name))
}

/// Returns the path and the query of a target: of a path, or of an address of http, which a proxy
/// sends.
fn origin_form(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    (is_http && end > 0 && is_host(&rest.as_bytes()[..end])).then(|| &rest[end..])
}

/// Returns true if a client would rather have OpenMetrics than plain text, by the weights of its
/// header Accept. One that accepts both alike, or neither by name, gets plain text, unless it names
/// OpenMetrics.
fn prefers_open(headers: &[httparse::Header<'_>]) -> bool {
    let (mut open, mut plain) = (None, None);
    for value in values(headers, "accept") {
        let value = String::from_utf8_lossy(value).to_ascii_lowercase();
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = parts
                .find_map(|part| part.strip_prefix("q=")?.trim().parse::<f64>().ok())
                .unwrap_or(1.0);
            match name {
                "application/openmetrics-text" => open = open.max(Some(millis(weight))),
                "text/plain" => plain = plain.max(Some(millis(weight))),
                _ => {}
            }
        }
    }
    open.is_some_and(|open| open > 0 && open >= plain.unwrap_or(0))
}

/// Returns a weight of 0 to 1 in thousandths.
fn millis(weight: f64) -> u32 {
    (weight.clamp(0.0, 1.0) * 1000.0) as u32
}

/// Returns the value of a parameter of a query, decoded.
pub fn parameter(query: &str, key: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
    let value = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_decoded() {
        assert_eq!(
            parameter("over_ms=5&tenant=shop%2Fb+%22c%22", "tenant").as_deref(),
            Some("shop/b \"c\"")
        );
        assert_eq!(parameter("tenant=%2", "tenant").as_deref(), Some("%2"));
        assert_eq!((parameter("tenants=a", "tenant"), parameter("", "tenant")), (None, None));
    }

    fn head(head: &str) -> Result<Request, Answer> {
        Request::of_head(format!("{head}\r\n\r\n").as_bytes())
    }

    /// Returns the path that a head asks for, or the code of its refusal.
    fn asked(text: &str) -> Result<String, u16> {
        head(text)
            .map(|request| request.path)
            .map_err(|answer| answer.status[..3].parse().expect("a code"))
    }

    #[test]
    fn a_target_is_a_path_or_an_address() {
        for target in ["/", "http://h", "HTTP://h:9464/", "http://[::1]:1/", "https://h?x"] {
            assert_eq!(
                asked(&format!("GET {target} HTTP/1.1\r\nHost: h")),
                Ok("/".to_owned()),
                "{target}"
            );
        }
        for target in ["/metrics?x=1", "http://h/metrics", "/%6detrics"] {
            let metrics = Ok("/metrics".to_owned());
            assert_eq!(asked(&format!("GET {target} HTTP/1.1\r\nHost: h")), metrics, "{target}");
        }
        for target in ["*", "metrics", "ftp://h/", "http:///metrics", "http://a@b/", "h:80"] {
            assert_eq!(asked(&format!("GET {target} HTTP/1.1\r\nHost: h")), Err(400), "{target}");
        }
        assert_eq!(asked("GET http://h/a?b=c HTTP/1.1\r\nHost: h"), Ok("/a".to_owned()));
    }

    #[test]
    fn a_host_is_named_once() {
        for hosts in ["Host: h", "host: [::1]:80", "HOST: h:", "Host:"] {
            assert_eq!(asked(&format!("GET / HTTP/1.1\r\n{hosts}")), Ok("/".to_owned()), "{hosts}");
        }
        for hosts in [
            "X: y",
            "Host: a\r\nHost: a",
            "Host: a b",
            "Host: a/b",
            "Host: a@b",
            "Host: h:x",
            "Host: [::1",
        ] {
            assert_eq!(asked(&format!("GET / HTTP/1.1\r\n{hosts}")), Err(400), "{hosts}");
        }
        assert_eq!(asked("GET / HTTP/1.0"), Ok("/".to_owned()), "HTTP/1.0 has no Host");
        assert_eq!(asked("GET / HTTP/1.0\r\nHost: a\r\nHost: b"), Err(400));
    }

    #[test]
    fn methods_and_versions_have_their_answers() {
        let of = |line: &str| asked(&format!("{line}\r\nHost: h")).expect_err("refused");
        for method in REFUSED {
            assert_eq!(of(&format!("{method} / HTTP/1.1")), 405, "{method}");
        }
        for method in ["get", "BREW", "Head"] {
            assert_eq!(of(&format!("{method} / HTTP/1.1")), 501, "{method}");
        }
        assert_eq!(of("GET / HTTP/2.0"), 505);
        let many = "X: y\r\n".repeat(HEADERS);
        assert_eq!(of(&format!("GET / HTTP/1.1\r\n{}", many.trim_end())), 431);
        assert!(is_head(b"HEAD /none HTTP/1.1\r\n\r\n") && !is_head(b"GET / HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn what_is_accepted_is_weighed() {
        let open =
            |accept: &str| head(&format!("GET /metrics HTTP/1.1\r\nHost: h\r\nAccept: {accept}"));
        for (accept, expected) in [
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
            ("application/openmetrics-text;q=0.2, text/plain", false),
            ("application/openmetrics-text;q=0", false),
            ("Application/OpenMetrics-Text; Q=1", true),
            ("text/plain;q=0.9\r\nAccept: application/openmetrics-text;q=0.9", true),
            ("*/*", false),
            ("application/openmetrics-text2", false),
        ] {
            let request = open(accept).expect("a request");
            assert_eq!(request.prefers_open_metrics, expected, "{accept}");
        }
    }
}
