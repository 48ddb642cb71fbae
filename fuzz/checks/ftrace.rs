//! What must hold for any bytes given as a trace text. The fuzz target and an ordinary test over the corpus share it.

use elevon_formats::trace::text::{Line, lines, parse_line};

/// Every line is something, numbered in order, and means the same alone.
pub(crate) fn ftrace(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut last = 0;
    for (number, line) in lines(&text) {
        assert!(number > last || last == 0, "line {number} after {last}");
        last = number;
        match line {
            Line::Event(record) => assert!(!record.name.is_empty()),
            Line::Malformed { expected } => assert!(!expected.is_empty()),
            Line::Comment | Line::Lost { .. } | Line::Other => {}
        }
    }
    for line in text.lines() {
        let _ = parse_line(line);
    }
}
