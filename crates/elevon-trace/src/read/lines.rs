//! What all text formats share: lines, one after the other.

use std::io;

use crate::input::Input;
use crate::reader::Source;
use crate::sink::{BATCH, Sink};

/// A line on its way to a text format's reader.
#[derive(Clone, Copy)]
pub(crate) struct TextLine<'a> {
    /// Its content without the line's end.
    pub(crate) text: &'a [u8],
    /// Its number, from 1.
    pub(crate) number: u64,
}

/// A text format's part of reading.
pub(crate) trait LineFormat: Send {
    /// How many events are held back to put them in order.
    const WINDOW: usize;

    /// Takes a line.
    fn line(&mut self, line: TextLine<'_>, sink: &mut Sink);

    /// Is called at the end.
    fn finish(&mut self, _sink: &mut Sink) {}
}

/// Reads a text.
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

impl<F: LineFormat> Source for LineSource<F> {
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
            let text = &self.input.buffered()[..length];
            self.format.line(TextLine { text, number: self.lines }, sink);
            self.input.consume(consumed);
        }
        Ok(true)
    }

    fn window(&self) -> usize {
        F::WINDOW
    }
}
