//! Reads text formats line by line.

use std::io;

use crate::input::Input;
use crate::reader::EventSource;
use crate::sink::{BATCH, Sink};

/// What editors on Windows put before a text.
pub(crate) const BOM: &[u8] = "\u{feff}".as_bytes();

/// A line of a text.
#[derive(Clone, Copy)]
pub(crate) struct TextLine<'a> {
    /// Content without the end of the line.
    pub(crate) text: &'a [u8],
    /// Number of the line, from 1.
    pub(crate) number: u64,
}

/// The parser of a text format.
pub(crate) trait LineFormat: Send {
    /// Number of events that are held back for sorting.
    const WINDOW: usize;

    /// Parses a line.
    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink);

    /// Called at the end of the text.
    fn finish(&mut self, _sink: &mut Sink) {}
}

/// Reads a text with a parser.
pub(crate) struct LineSource<F> {
    input: Input,
    format: F,
    lines: u64,
}

impl<F: LineFormat> LineSource<F> {
    pub(crate) const fn new(input: Input, format: F) -> Self {
        Self { input, format, lines: 0 }
    }
}

impl<F: LineFormat> EventSource for LineSource<F> {
    fn fill(&mut self, sink: &mut Sink) -> io::Result<bool> {
        let until = sink.len() + BATCH;
        let mut lines = 0;
        while sink.len() < until && lines < BATCH * 16 {
            let Some((length, consumed)) = self.input.line()? else {
                self.format.finish(sink);
                self.input.report_damage(0, sink);
                return Ok(false);
            };
            lines += 1;
            self.lines += 1;
            let mut text = &self.input.buffered()[..length];
            if self.lines == 1 {
                text = text.strip_prefix(BOM).unwrap_or(text);
            }
            self.format.line(TextLine { text, number: self.lines }, sink);
            self.input.consume(consumed);
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        F::WINDOW
    }
}
