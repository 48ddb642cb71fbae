//! Progress on stderr: only on a terminal, and only of what takes longer than two seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What ends sooner on the wall clock shows nothing.
const QUIET: Duration = Duration::from_secs(2);

/// How far something has come. Cleared when it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// Of something whose length is not known yet: steps are counted.
    pub(crate) fn new(label: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(label.to_owned());
        bar.set_style(style("{msg} {spinner} {pos} runs {elapsed}"));
        Self { bar, started: Instant::now() }
    }

    /// How many steps there are.
    pub(crate) fn expect(&self, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_style(style("{msg} [{bar:40}] {percent}% {elapsed} eta {eta}"));
    }

    /// One step more is done.
    pub(crate) fn advance(&self) {
        self.show();
        self.bar.inc(1);
    }

    /// So many steps are done.
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
