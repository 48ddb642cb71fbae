//! Progress bar on stderr: only on a terminal, and only for work that takes longer than two
//! seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that finishes within this wall-clock time shows no bar.
const QUIET: Duration = Duration::from_secs(2);

/// Progress of one piece of work. The bar is removed when this is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// Creates a bar for work of unknown length, which counts steps.
    pub(crate) fn new(label: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(label.to_owned());
        bar.set_style(style("{msg} {spinner} {pos} runs {elapsed}"));
        Self { bar, started: Instant::now() }
    }

    /// Sets the number of steps.
    pub(crate) fn expect(&self, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_style(style("{msg} [{bar:40}] {percent}% {elapsed} eta {eta}"));
    }

    /// Records one more finished step.
    pub(crate) fn advance(&self) {
        self.show();
        self.bar.inc(1);
    }

    /// Sets the number of finished steps.
    pub(crate) fn set(&self, steps: u64) {
        self.show();
        self.bar.set_position(steps);
    }

    fn show(&self) {
        if self.bar.is_hidden() && self.started.elapsed() >= QUIET && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
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
