//! A client of HTTP that sends one request over a socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, with values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Reads an answer until the other side closes; `None` if it sends none.
    pub(crate) fn read(stream: &mut impl Read) -> Option<Self> {
        let mut bytes = Vec::new();
        // What came before a reset is looked at below.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
        let headers = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Some(Self { status, headers, body: body.to_owned() })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Sends a request to a socket in the file system.
pub(crate) fn send(socket: &Path, request: &str) -> Option<Answer> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    Answer::read(&mut stream)
}

/// Gets a page with some more headers, each with its line end.
pub(crate) fn get(socket: &Path, path: &str, more: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let answer = send(socket, &request).expect("an answer");
    assert_eq!(answer.header("content-length"), answer.body.len().to_string(), "{path}");
    answer
}
