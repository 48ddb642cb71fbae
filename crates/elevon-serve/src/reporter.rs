//! What a server tells of itself while it runs: that its threads are alive, and what it does.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use crate::device::Message;
use crate::server::Event;
use crate::shared::{Control, Shared};

/// How often the status may change.
const STATUS: Duration = Duration::from_secs(1);

/// Tells from time to time.
pub(crate) struct Reporter {
    watchdog: Option<Watchdog>,
    status: String,
    /// When the status was looked at.
    at: Option<Instant>,
}

/// Asks the threads of devices whether they are alive.
struct Watchdog {
    every: Duration,
    asked: Option<Instant>,
    /// The answers that are due.
    answers: Vec<Receiver<()>>,
}

impl Reporter {
    /// `watchdog` is how often it has to be told that threads are alive.
    pub(crate) fn new(watchdog: Option<Duration>) -> Self {
        let watchdog = watchdog.map(|every| Watchdog { every, asked: None, answers: Vec::new() });
        Self { watchdog, status: String::new(), at: None }
    }

    /// Tells what there is to tell; never waits.
    pub(crate) fn report(&mut self, shared: &std::sync::Arc<Shared>) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.look(shared);
        }
        if self.at.is_some_and(|at| at.elapsed() < STATUS) {
            return;
        }
        self.at = Some(Instant::now());
        let (exports, connections) = (shared.exports().len(), Control(shared).connections());
        let counted = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
        let status = format!("{}, {}", counted(exports, "export"), counted(connections, "connection"));
        if status != self.status {
            shared.notify(Event::Status(&status));
            self.status = status;
        }
    }
}

impl Watchdog {
    fn look(&mut self, shared: &Shared) {
        let was_waiting = !self.answers.is_empty();
        // A thread that has ended needs no watching: its exports answer with an error.
        self.answers.retain(|answer| answer.try_recv() == Err(TryRecvError::Empty));
        if !self.answers.is_empty() {
            return;
        }
        if was_waiting {
            shared.notify(Event::Alive);
        }
        if self.asked.is_none_or(|at| at.elapsed() >= self.every) {
            self.asked = Some(Instant::now());
            let ask = |device: &crate::device::DeviceHandle| {
                let (answer, answered) = channel();
                device.send(Message::Ping { answer });
                answered
            };
            self.answers = shared.devices.iter().map(ask).collect();
        }
    }
}
