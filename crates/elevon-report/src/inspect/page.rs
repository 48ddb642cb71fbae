//! The inspection as one self-contained page: findings, a timeline that zooms to a single request,
//! heat maps.
//!
//! Requests are packed into columns of variable-length integers and compressed: about ten bytes per
//! request. The page's script draws them from typed arrays, without page elements per request.

use std::io::Write as _;

use elevon_result::number::{counted, grouped, span};
use elevon_trace::analysis::{
    Finding, Group, Inspection, ProcessStats, RequestRecord, RequestSink,
};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use maud::{Markup, PreEscaped, html};

use super::tables;
use crate::html;
use crate::plot::colours;

/// Maximum number of requests on a page; of a longer trace it shows the first ones.
pub const MAX_ON_PAGE: usize = 1 << 21;

/// One request of the page: 48 bytes.
#[derive(Clone, Copy, Debug)]
struct PageRow {
    start: u64,
    /// Nanoseconds until issue, if that is known.
    queue: Option<u64>,
    /// Nanoseconds from issue (or the start) to completion.
    device: u64,
    sector: u64,
    bytes: u64,
    process: u32,
    group: Group,
}

/// Collects the requests of a page.
#[derive(Debug, Default)]
pub struct PageRequests {
    rows: Vec<PageRow>,
    names: Vec<String>,
    left_out: u64,
}

impl RequestSink for PageRequests {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for process in &processes[self.names.len()..] {
            self.names.push(process.label());
        }
        for request in requests {
            let Some(completed) = request.completed else { continue };
            let known = [request.queued, request.allocated, request.inserted, request.issued];
            let Some(start) = known.into_iter().flatten().min() else { continue };
            if self.rows.len() >= MAX_ON_PAGE {
                self.left_out += 1;
                continue;
            }
            self.rows.push(PageRow {
                start,
                queue: request.issued.map(|issued| issued.saturating_sub(start)),
                device: completed.saturating_sub(request.issued.unwrap_or(start)),
                sector: request.sector,
                bytes: request.bytes,
                process: request.process,
                group: request.group,
            });
        }
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

/// Appends an unsigned number, seven bits per byte, lowest bits first.
fn put(out: &mut Vec<u8>, mut value: u64) {
    // JavaScript numbers are doubles and exact up to 2^53.
    value = value.min(1 << 53);
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Compresses bytes and encodes them in base 64.
fn packed(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    let bytes = encoder.finish().unwrap_or_default();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            text.push(if is_there {
                char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}

/// Packs the rows, in order of start, into columns.
fn columns(mut rows: Vec<PageRow>, start: u64) -> [(&'static str, String); 7] {
    rows.sort_by_key(|row| (row.start, row.sector, row.process));
    let mut columns: [Vec<u8>; 7] = Default::default();
    let (mut last_start, mut last_end) = (start, 0u64);
    for row in &rows {
        put(&mut columns[0], row.start.saturating_sub(last_start));
        last_start = row.start;
        // 0 means absent.
        put(&mut columns[1], row.queue.map_or(0, |ns| ns + 1));
        put(&mut columns[2], row.device);
        let distance = row.sector.wrapping_sub(last_end) as i64;
        put(&mut columns[3], (distance << 1 ^ distance >> 63) as u64);
        last_end = row.sector.wrapping_add(row.bytes / 512);
        put(&mut columns[4], row.bytes);
        put(&mut columns[5], u64::from(row.process));
        put(&mut columns[6], row.group as u64);
    }
    let names = ["start", "queue", "device", "sector", "bytes", "process", "group"];
    let mut packed = columns.iter().map(|column| packed(column));
    names.map(|name| (name, packed.next().unwrap_or_default()))
}

/// Renders the page.
pub fn page(found: &Inspection, requests: PageRequests) -> String {
    let PageRequests { rows, names, left_out } = requests;
    let start = found.span.map_or(0, |(first, _)| first);
    let count = rows.len();
    // An escaped `<` cannot end the script element.
    let names = serde_json::json!(names).to_string().replace('<', "\\u003c");
    let columns = columns(rows, start);
    let title = format!("Trace of {}", found.device);
    let body = html! {
        main {
            h1 { (title) }
            p.soft {
                (found.report.format.name()) ", " (counted(found.events.iter().sum(), "event")) " in "
                (span(found.duration() as f64)) ", " (counted(count as u64, "request"))
                @if left_out > 0 { "; " (grouped(left_out)) " more are not on this page" }
            }
            @if !found.selection.is_all() {
                p #selected { b { "Selected: " } (super::selected(found)) ". Times below are from the start of the selection." }
            }
            (findings(found))
            (views(count, if found.selection.has_owners() { "selected requests" } else { "requests" }))
            @if let Some(line) = super::not_shown(found) { p.soft { (line) } }
            details.block { summary { "All figures as text" } pre { (super::text(found)) } }
        }
        @for (name, data) in &columns {
            script type="application/octet-stream" id={ "data-" (name) } { (PreEscaped(data)) }
        }
        script type="application/json" id="names" { (PreEscaped(names)) }
        script type="application/json" id="about" {
            (PreEscaped(format!("{{\"count\":{count},\"duration\":{}}}", found.duration())))
        }
        script { (PreEscaped(colours::script())) }
        script { (PreEscaped(include_str!("page.js"))) }
    };
    html::whole_page(&title, include_str!("page.css"), &body)
}

fn findings(found: &Inspection) -> Markup {
    html! {
        h2 { "Findings" (super::of_all(found)) }
        @if found.findings.is_empty() {
            p { "None. " (tables::why_no_findings(found)) }
        }
        @for finding in &found.findings { (one_finding(finding)) }
    }
}

fn one_finding(finding: &Finding) -> Markup {
    html! {
        div.block.finding data-kind=(finding.kind.name()) {
            h3 { (finding.title) }
            @if !finding.who.is_empty() { p.soft { (finding.who.join(", ")) } }
            ul { @for line in &finding.evidence { li { (line) } } }
            p { b { "Try: " } (finding.advice.join("; or ")) "." }
        }
    }
}

/// Returns a button of the time window. `says` is for readers that hear the page.
fn button(id: &str, text: &str, says: &str) -> Markup {
    html! { button id=(id) type="button" title=(says) aria-label=(says) { (text) } }
}

fn views(requests: usize, which: &str) -> Markup {
    let view = |id: &str, title: &str, what: Markup| {
        html! {
            figure.plot { figcaption { h3 { (title) } p { (what) } } canvas id=(id) tabindex="0" {} }
        }
    };
    if requests == 0 {
        return html! {
            h2 { "Over time" }
            p { "Nothing to draw: the trace does not tell when a request or an I/O began and when it completed." }
        };
    }
    html! {
        h2 { "Over time" }
        p.soft {
            "Two fingers, the wheel or + and - zoom. Dragging or the arrow keys move, a double click or 0 shows all. Close up, the "
            "timeline shows each request. A click on one keeps its figures."
        }
        div.controls {
            (button("closer", "+", "Zoom in"))
            (button("farther", "−", "Zoom out"))
            (button("earlier", "◀", "Earlier"))
            (button("later", "▶", "Later"))
            (button("whole", "All", "Show all"))
            span.window {
                label { "from " input #window-from type="number" min="0" step="any"; }
                label { " to " input #window-to type="number" min="0" step="any"; }
                " " span #window-unit {}
            }
        }
        p #where {}
        (view("timeline", "Timeline", html! {
            "Far out: " (which) " in the device. Close up: each request, pale while it waits, full in the device, in the colour of "
            @for group in Group::ALL { span.group style={ "color:var(--" (group.name()) ")" } { (group.name()) } " " }
        }))
        p #picked.block hidden {}
        (view("latency", "Latency", html! { "From its beginning to completion, logarithmic. The colour is the number of requests, logarithmic too." }))
        (view("sector", "Sector", html! { "Place on the device." }))
        (view("size", "Size", html! { "Bytes of a request, logarithmic." }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_seven_bits_a_byte() {
        let mut out = Vec::new();
        for value in [0, 127, 128, 300, 1 << 53, u64::MAX] {
            put(&mut out, value);
        }
        assert_eq!(out[..6], [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!(out[6..14], out[14..], "what a double does not hold is cut");
    }

    #[test]
    fn base_64_is_padded() {
        let text = packed(b"abc");
        assert!(text.len().is_multiple_of(4) && text.starts_with("eJ"), "{text}");
    }
}
