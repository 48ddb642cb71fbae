//! How work tells a user that it goes on. A library has no terminal: a command shows a bar, and a
//! program may show nothing.

/// The progress of one piece of work. It is over when this is dropped.
pub trait Steps: Send + Sync {
    /// Sets the number of steps.
    fn expect(&self, steps: u64);
    /// Records one more finished step.
    fn advance(&self);
    /// Sets the number of finished steps.
    fn set(&self, steps: u64);
}

/// Takes what a user should see while work goes on.
pub trait Listener: Sync {
    /// Begins work whose number of steps is not known yet.
    fn begin(&self, label: &str) -> Box<dyn Steps>;

    /// Takes a line, without its end.
    fn tell(&self, line: &str);

    /// Takes warnings, a line each.
    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.tell(&format!("warning: {warning}"));
        }
    }
}

/// A listener that shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Steps for Silent {
    fn expect(&self, _steps: u64) {}
    fn advance(&self) {}
    fn set(&self, _steps: u64) {}
}

impl Listener for Silent {
    fn begin(&self, _label: &str) -> Box<dyn Steps> {
        Box::new(Self)
    }
    fn tell(&self, _line: &str) {}
}
