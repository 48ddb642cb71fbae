//! Takes the trace out of a web page of systrace or atrace.
//!
//! It lies in elements `<script class="trace-data">`, as text or as base64 of gzip, zlib or
//! deflate. Elements with JSON are skipped: they are of other agents than ftrace's. Pages of 2013
//! and before have the trace as one string of JavaScript instead, `linuxPerfData`.

use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::read::DecoderReader;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use memchr::memmem;

use crate::input::Input;

/// Bytes that are looked at to recognise a page.
const LOOK_AT: usize = 512;
/// Bytes of a page that are searched at once.
const CHUNK: usize = 1 << 16;
/// Maximum length of a tag.
const MAX_TAG: usize = 1 << 12;

const SCRIPT: &[u8] = b"<script";
const END: &[u8] = b"</script";
const OLD: &[u8] = b"linuxPerfData";
const OLD_END: &[u8] = b"\";";

/// What is said of a trace in a page.
pub(crate) const NOTE: &str =
    "the trace lies in a web page: lines are counted from the start of the trace in it";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns true for the start of a web page.
pub(crate) fn is_page(head: &[u8]) -> bool {
    let start = head[..head.len().min(LOOK_AT)].trim_ascii_start();
    let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start).to_ascii_lowercase();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html")
}

/// Returns true if an element with data begins in these bytes.
pub(crate) fn has_trace(head: &[u8]) -> bool {
    memmem::find_iter(head, SCRIPT).any(|at| is_data(tag_at(&head[at..]).unwrap_or_default()))
}

/// Returns the tag at the start of a text.
fn tag_at(text: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'>', &text[..text.len().min(MAX_TAG)]).map(|end| &text[..end])
}

/// Returns true for the tag of an element with data.
fn is_data(tag: &[u8]) -> bool {
    memmem::find(tag, b"trace-data").is_some() || memmem::find(tag, b"viewer-data").is_some()
}

/// The characters of base64 up to the end of an element, without what is between them.
struct Letters(Input);

impl Read for Letters {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.0.fill_to(1)?;
            let bytes = self.0.buffered();
            let (mut taken, mut count) = (0, 0);
            for &byte in bytes.iter().take_while(|byte| **byte != b'<') {
                if count == buffer.len() {
                    break;
                }
                if !byte.is_ascii_whitespace() {
                    buffer[count] = byte;
                    count += 1;
                }
                taken += 1;
            }
            self.0.consume(taken);
            if count > 0 || taken == 0 || buffer.is_empty() {
                return Ok(count);
            }
        }
    }
}

type Decoded = DecoderReader<'static, GeneralPurpose, Letters>;

/// The content of an element in base64.
enum Packed {
    Gzip(MultiGzDecoder<Decoded>),
    Zlib(ZlibDecoder<Decoded>),
    Deflate(DeflateDecoder<Decoded>),
    Plain(Decoded),
}

impl Packed {
    fn new(input: Input) -> Self {
        let start: Vec<u8> = input
            .buffered()
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .take(4)
            .collect();
        let start = BASE64.decode(start).unwrap_or_default();
        let decoded = DecoderReader::new(Letters(input), &BASE64);
        match start[..] {
            [0x1f, 0x8b, ..] => Self::Gzip(MultiGzDecoder::new(decoded)),
            // The two bytes of a header of zlib are a multiple of 31.
            [first, second, ..]
                if first & 15 == 8 && (u16::from(first) << 8 | u16::from(second)) % 31 == 0 =>
            {
                Self::Zlib(ZlibDecoder::new(decoded))
            }
            [b'#' | b' ' | b'T', second, ..] if second.is_ascii_graphic() || second == b' ' => {
                Self::Plain(decoded)
            }
            _ => Self::Deflate(DeflateDecoder::new(decoded)),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zlib(decoder) => decoder.read(buffer),
            Self::Deflate(decoder) => decoder.read(buffer),
            Self::Plain(decoder) => decoder.read(buffer),
        }
    }

    fn into_input(self) -> Input {
        let decoded = match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zlib(decoder) => decoder.into_inner(),
            Self::Deflate(decoder) => decoder.into_inner(),
            Self::Plain(decoder) => decoder,
        };
        decoded.into_inner().0
    }
}

/// Where a page is read.
enum State {
    /// Between elements.
    Outside(Input),
    /// In text, until this follows.
    Text(Input, &'static [u8]),
    /// In base64.
    Packed(Box<Packed>),
    /// At the end.
    End,
}

/// Reads the text of the trace in a page.
pub(crate) struct Page {
    state: State,
    /// Elements that were read, and those that were skipped.
    read: u64,
    skipped: u64,
}

impl Page {
    /// Reads a page from its start.
    pub(crate) const fn new(input: Input) -> Self {
        Self { state: State::Outside(input), read: 0, skipped: 0 }
    }

    /// Goes to the next element with data that is not JSON.
    fn next_element(&mut self, mut input: Input) -> io::Result<State> {
        loop {
            input.fill_to(CHUNK)?;
            let bytes = input.buffered();
            let script = memmem::find(bytes, SCRIPT);
            let old = memmem::find(&bytes[..script.unwrap_or(bytes.len())], OLD);
            let Some(at) = old.or(script) else {
                // A mark may be cut by the end of what is buffered.
                let kept = if bytes.len() < CHUNK { 0 } else { OLD.len() };
                let count = bytes.len() - kept;
                input.consume(count);
                if kept == 0 {
                    return self.end();
                }
                continue;
            };
            input.consume(at);
            input.fill_to(MAX_TAG)?;
            if old.is_some() {
                let quote =
                    memchr::memchr(b'"', &input.buffered()[..input.buffered().len().min(64)]);
                input.consume(quote.map_or(OLD.len(), |at| at + 1));
                if quote.is_some() {
                    self.read += 1;
                    return Ok(State::Text(input, OLD_END));
                }
                continue;
            }
            let tag = tag_at(input.buffered()).filter(|tag| is_data(tag)).map(<[u8]>::len);
            input.consume(tag.map_or(SCRIPT.len(), |length| length + 1));
            if tag.is_some() {
                input.fill_to(MAX_TAG)?;
                let content = input.buffered().trim_ascii_start();
                match content.first() {
                    Some(b'{' | b'[') => self.skipped += 1,
                    _ => {
                        self.read += 1;
                        let is_base64 = is_base64(content);
                        return Ok(if is_base64 {
                            State::Packed(Box::new(Packed::new(input)))
                        } else {
                            State::Text(input, END)
                        });
                    }
                }
            }
        }
    }

    fn end(&self) -> io::Result<State> {
        let why = match (self.read, self.skipped) {
            (0, 0) => "it is a web page without a trace in <script class=\"trace-data\">",
            (0, _) => {
                "it is a web page whose trace data is JSON; systrace and atrace have ftrace's text there"
            }
            _ => return Ok(State::End),
        };
        // A kind that is not taken for damage.
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
}

/// Returns true if the content of an element is base64: up to its end or as far as it is looked at
/// there are only its letters. A line of a trace has blanks.
fn is_base64(content: &[u8]) -> bool {
    let content = content[..content.len().min(LOOK_AT)]
        .split(|&byte| byte == b'<')
        .next()
        .unwrap_or_default();
    let is_letter = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r')
    };
    content.len() >= 16 && content.trim_ascii().iter().all(is_letter)
}

impl Read for Page {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(0),
                State::Outside(input) => self.state = self.next_element(input)?,
                State::Text(mut input, end) => {
                    let is_more = input.fill_to(CHUNK)?;
                    let bytes = input.buffered();
                    let found = memmem::find(bytes, end);
                    let until = found.unwrap_or(if is_more {
                        bytes.len() - end.len()
                    } else {
                        bytes.len()
                    });
                    let count = until.min(buffer.len());
                    buffer[..count].copy_from_slice(&bytes[..count]);
                    input.consume(count);
                    if count > 0 {
                        self.state = State::Text(input, end);
                        return Ok(count);
                    }
                    self.state = State::Outside(input);
                    // The next element begins a line.
                    buffer[0] = b'\n';
                    return Ok(1);
                }
                State::Packed(mut packed) => {
                    let count = packed.read(buffer)?;
                    if count > 0 {
                        self.state = State::Packed(packed);
                        return Ok(count);
                    }
                    self.state = State::Outside(packed.into_input());
                    buffer[0] = b'\n';
                    return Ok(1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;

    use super::*;
    use crate::testing::{data, read_bytes, read_file};
    use crate::{TraceEvent, TraceFormat};

    const EVENT: &str = "dd-1 [000] ..... 1.000100: block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]\n";

    fn page(elements: &[&str]) -> String {
        let elements: String = elements
            .iter()
            .map(|text| {
                format!(
                    "<script class=\"trace-data\" type=\"application/text\">\n{text}\n</script>\n"
                )
            })
            .collect();
        format!(
            "<!DOCTYPE html>\n<html><head><script>var a = \"<script>\";</script></head>\n{elements}</html>\n"
        )
    }

    fn packed(form: &str, text: &str) -> String {
        let bytes = match form {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
            _ => text.as_bytes().to_vec(),
        };
        let text = BASE64.encode(bytes);
        text.as_bytes()
            .chunks(76)
            .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
            .collect()
    }

    fn trace(lines: u64) -> String {
        let line = |n: u64| EVENT.replace("1.000100", &format!("{}.{:06}", 1 + n / 1000, n % 1000));
        format!("# tracer: nop\n#\n{}", (0..lines).map(line).collect::<String>())
    }

    fn events(page: String) -> Vec<TraceEvent> {
        let (events, reader) = read_bytes(page);
        assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::Ftrace, 0));
        assert!(reader.report().notes.contains(&NOTE));
        events
    }

    #[test]
    fn a_trace_lies_in_a_page_as_text_and_packed() {
        assert_eq!(events(page(&[&trace(3000)])).len(), 3000);
        for form in ["gzip", "zlib", "deflate", "plain"] {
            assert_eq!(events(page(&[&packed(form, &trace(3000))])).len(), 3000, "{form}");
        }
        // A mail may have text before the page.
        assert_eq!(events(format!("See here:\n{}", page(&[&trace(4)]))).len(), 4);
        // The viewer before the trace is a program of some megabytes.
        let viewer = "var viewer = 'block';\n".repeat(100_000);
        assert_eq!(
            events(
                page(&[&trace(10)]).replace("<head>", &format!("<head><script>{viewer}</script>"))
            )
            .len(),
            10
        );
    }

    #[test]
    fn elements_of_other_agents_are_skipped() {
        let json = "{\"traceEvents\": [{\"name\": \"block_rq_issue\"}]}";
        let list = "PROCESS DUMP\nUSER PID PPID VSIZE RSS WCHAN PC S NAME COMM\nroot 1 0 1 1 0 0 S init init\n";
        let second = trace(7).replace("0.000", "9.000");
        assert_eq!(
            events(page(&[json, &trace(5), "[1, 2]", list, &packed("zlib", &second)])).len(),
            12
        );
    }

    #[test]
    fn pages_of_2013_have_a_string() {
        let text = trace(9).replace('\n', "\\n\\\n");
        let viewer = "var viewer = 'block';\n".repeat(100_000);
        let page = format!(
            "<!DOCTYPE HTML>\n<html><script>{viewer}  var linuxPerfData = \"\\\n{text}\";\n</script></html>\n"
        );
        assert_eq!(events(page).len(), 9);
    }

    #[test]
    fn a_page_without_a_trace_is_called_so() {
        let error = |page: String| {
            crate::from_bytes(page.into_bytes()).err().expect("no trace").to_string()
        };
        assert!(error(page(&[])).contains("web page without a trace"), "{}", error(page(&[])));
        assert!(error(page(&["{}"])).contains("JSON"));
        let cut = page(&[&packed("zlib", &trace(3000))]);
        let (events, reader) = read_bytes(&cut.as_bytes()[..cut.len() * 3 / 4]);
        assert!((1000..3000).contains(&events.len()), "{}", events.len());
        assert_eq!(reader.report().skipped_count(), 1);
    }

    #[test]
    fn the_pages_in_the_samples_are_read() {
        for (name, count) in [("formats/systrace.html", 12), ("formats/systrace-zlib.html", 12)] {
            let (events, reader) = read_file(&data(name));
            assert_eq!(
                (reader.format(), reader.report().skipped_count(), events.len()),
                (TraceFormat::Ftrace, 0, count)
            );
        }
    }
}
