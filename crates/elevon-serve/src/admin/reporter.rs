//! What a server tells of itself while it runs: that its threads are alive, and what it does.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use elevon_result::number::counted;

use crate::device::message::{DeviceHandle, Message};
use crate::event::Event;
use crate::net::gate::Gate;
use crate::shared::Shared;

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
    /// It was not told yet that all have answered.
    is_asked: bool,
    /// The answers that are due.
    answers: Vec<(usize, Receiver<()>)>,
}

impl Reporter {
    /// `watchdog` is how often it has to be told that threads are alive.
    pub(crate) fn new(watchdog: Option<Duration>) -> Self {
        let watchdog = watchdog.map(|every| Watchdog {
            every,
            asked: None,
            is_asked: false,
            answers: Vec::new(),
        });
        Self { watchdog, status: String::new(), at: None }
    }

    /// Tells what there is to tell; never waits.
    pub(crate) fn report(&mut self, shared: &Shared) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.check(shared);
        }
        if self.at.is_some_and(|at| at.elapsed() < STATUS) {
            return;
        }
        self.at = Some(Instant::now());
        let (exports, connections) = (shared.exports().len(), shared.connections());
        let status = format!(
            "{}, {}",
            counted(exports as u64, "export"),
            counted(connections as u64, "connection")
        );
        if status != self.status {
            shared.notify(Event::Status(&status));
            self.status = status;
        }
    }
}

impl Watchdog {
    fn check(&mut self, shared: &Shared) {
        let was_waiting = std::mem::take(&mut self.is_asked);
        // A thread that has ended never answers. That of a device that has failed is not asked.
        let is_due =
            |number: usize| shared.devices.get(number).is_some_and(|device| !device.has_failed());
        self.answers.retain(|(device, answer)| answer.try_recv().is_err() && is_due(*device));
        if !self.answers.is_empty() {
            self.is_asked = true;
            return;
        }
        if was_waiting {
            shared.notify(Event::Alive);
        }
        if self.asked.is_none_or(|at| at.elapsed() >= self.every) {
            self.asked = Some(Instant::now());
            let ask = |(number, device): (usize, DeviceHandle)| {
                let (answer, answered) = channel();
                device.send(Message::Ping { answer });
                (number, answered)
            };
            self.answers = shared
                .devices
                .all()
                .into_iter()
                .filter(|(_, device)| !device.has_failed())
                .map(ask)
                .collect();
            // There is none to wait for if all have failed, which ends the server.
            self.is_asked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use elevon_core::kernel::Kernel;
    use elevon_formats::serve::REQUEST_MEMORY;
    use elevon_host::Alarm;

    use super::*;
    use crate::device::devices::Devices;
    use crate::device::request_memory::RequestMemory;
    use crate::shared::ConnectionLimits;

    static ALIVE: AtomicU32 = AtomicU32::new(0);

    fn count(event: Event<'_>) {
        if event == Event::Alive {
            ALIVE.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_server_is_alive_while_the_threads_of_its_devices_answer() {
        let (messages, received) = channel();
        let device = DeviceHandle {
            name: "d".to_owned(),
            kernel: Kernel::DEFAULT,
            messages,
            alarm: Alarm::new().expect("a descriptor"),
            has_failed: Arc::default(),
        };
        let limits = ConnectionLimits { all: 1, of_client: None, request_memory: REQUEST_MEMORY };
        let memory = RequestMemory::new(REQUEST_MEMORY);
        let devices = Devices::new(memory.clone(), |_| {});
        devices.insert(device, std::thread::spawn(|| true));
        let shared = Shared::new(Vec::new(), devices, (None, limits, memory), count, |_| {});
        let mut reporter = Reporter::new(Some(Duration::ZERO));
        let mut alive = || {
            reporter.report(&shared);
            ALIVE.load(Ordering::Relaxed)
        };
        assert_eq!((alive(), alive()), (0, 0), "it was asked, and has not answered");
        let Ok(Message::Ping { answer }) = received.try_recv() else { panic!("it was asked") };
        answer.send(()).expect("it is waited for");
        assert_eq!((alive(), alive()), (1, 1));
        drop(received);
        assert_eq!((alive(), alive()), (1, 1), "its thread has ended");
        shared.devices.get(0).expect("it was added").has_failed.store(true, Ordering::Relaxed);
        let (before, after) = (alive(), alive());
        assert!(after > before, "the others serve on");
    }
}
