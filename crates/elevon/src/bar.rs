//! Progress on stderr of work that takes longer than a few seconds: a bar on a terminal; elsewhere,
//! if the work asks for it, a line every ten seconds.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use elevon_plan::listener::{Listener, Steps};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::tell;

/// Work that finishes within this wall-clock time shows no bar.
const QUIET: Duration = Duration::from_secs(2);

/// Seconds from the start to the first line, and from a line to the next.
const LINES: u64 = 10;

/// Shows work on stderr.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal;

impl Listener for Terminal {
    fn begin(&self, label: &str) -> Box<dyn Steps> {
        Box::new(Bar::new(label))
    }

    fn tell(&self, line: &str) {
        tell(line);
    }
}

/// Progress of one piece of work. The bar is removed when this is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    /// Seconds from the start to the next line; `None` if the work asks for no lines.
    next_line: Option<AtomicU64>,
}

impl Bar {
    /// Creates a bar for work of unknown length, which counts steps.
    pub(crate) fn new(label: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            .with_message(label.to_owned());
        bar.set_style(style("{msg} {spinner} {pos} runs {elapsed}"));
        Self { bar, started: Instant::now(), next_line: None }
    }

    /// The same, with lines if stderr is no terminal.
    pub(crate) fn with_lines(label: &str) -> Self {
        let mut bar = Self::new(label);
        bar.next_line = Some(AtomicU64::new(LINES));
        bar
    }

    fn show(&self) {
        if self.bar.is_hidden()
            && self.started.elapsed() >= QUIET
            && std::io::stderr().is_terminal()
        {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if let Some(line) =
            self.line_at(self.started.elapsed().as_secs()).filter(|_| self.bar.is_hidden())
        {
            tell(&line);
        }
    }

    /// Returns the line of this second after the start, if one is due.
    fn line_at(&self, seconds: u64) -> Option<String> {
        let next = self.next_line.as_ref()?;
        let due = next.load(Ordering::Relaxed);
        let is_own = || {
            next.compare_exchange(due, seconds + LINES, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if seconds < due || !is_own() {
            return None;
        }
        let of = self.bar.length().map_or(String::new(), |all| format!(" of {all}"));
        Some(format!(
            "{}: {}{of} runs done after {seconds} s",
            self.bar.message(),
            self.bar.position()
        ))
    }
}

impl Steps for Bar {
    fn expect(&self, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_style(style("{msg} [{bar:40}] {percent}% {elapsed} eta {eta}"));
    }

    fn advance(&self) {
        self.bar.inc(1);
        self.show();
    }

    fn set(&self, steps: u64) {
        self.bar.set_position(steps);
        self.show();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_ten_seconds() {
        let bar = Bar::with_lines("content-ioprio");
        assert_eq!(bar.line_at(9), None);
        bar.bar.inc(3);
        assert_eq!(bar.line_at(10).as_deref(), Some("content-ioprio: 3 runs done after 10 s"));
        bar.expect(40);
        assert_eq!((bar.line_at(11), bar.line_at(19)), (None, None));
        assert_eq!(
            bar.line_at(27).as_deref(),
            Some("content-ioprio: 3 of 40 runs done after 27 s")
        );
        assert_eq!(bar.line_at(36), None);
        assert_eq!(Bar::new("sweep").line_at(1_000), None, "only work that asks for lines");
    }
}
