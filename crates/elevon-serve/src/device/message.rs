//! Messages to the thread of a device, and the way to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use elevon_core::kernel::Kernel;
use elevon_core::units::TenantId;
use elevon_formats::cgroup::Setting;
use elevon_host::Alarm;
use elevon_workload::tenants::Tenant;

use super::view::DeviceView;
use crate::net::line::{LineEvent, Report};
use crate::net::opened::Opened;

/// A message to a device.
pub(crate) enum Message {
    /// A client opened an export. The threads of its connection report by the function.
    Open(Box<Opened>, Report),
    /// A thread has moved bytes of a client.
    Line(LineEvent),
    /// Asks for a sign of life of the device's thread.
    Ping { answer: Sender<()> },
    /// Asks for the device's state.
    View { answer: Sender<DeviceView> },
    /// Sets something of a tenant, or with no tenant something of the device. The answer says what
    /// of it has no effect.
    Set {
        tenant: Option<String>,
        settings: Vec<Setting>,
        /// A table changes only what the settings name of it.
        is_part: bool,
        answer: Sender<Result<Vec<&'static str>, String>>,
    },
    /// Asks if these settings could be set so for a tenant.
    Check {
        tenant: String,
        settings: Vec<Setting>,
        is_part: bool,
        answer: Sender<Result<(), String>>,
    },
    /// Makes these the rules of the device's faults.
    Faults { rules: Vec<String>, answer: Sender<Result<(), String>> },
    /// Makes the device as large as its disk is now, and answers with its bytes before and after
    /// that; `None` if the disk has not grown.
    Grow { answer: Sender<Result<Option<(u64, u64)>, String>> },
    /// Makes these the tenants, with these settings.
    Tenants { tenants: Vec<Tenant>, answer: Sender<Result<Vec<TenantId>, String>> },
    /// Receives what has come from these clients, as far as they are there, and nothing after it.
    /// They are closed when they have their answers.
    Finish { clients: Vec<u32> },
    /// Carries out nothing more for these clients, as far as they are there, and sends them
    /// nothing. The answer is how many requests each of them had that were not answered.
    Abandon { clients: Vec<u32>, answer: Sender<Vec<(u32, usize)>> },
    /// Open the disk again. The answer says how that ended.
    Reopen { answer: Sender<Result<(), String>> },
    /// The server ends: serve until every client has left, without limits.
    Stop,
}

/// The way to a device's thread.
#[derive(Clone)]
pub(crate) struct DeviceHandle {
    /// The name by which exports and people know it.
    pub(crate) name: String,
    /// The kernel whose rules its stack follows.
    pub(crate) kernel: Kernel,
    /// The queue to its thread. It has no limit of its own, and needs none: a client has one buffer
    /// to receive into and one batch of replies, so at most two of its events are on the way.
    /// A thread that asks a question waits for the answer. So the queue holds at most
    /// two messages a client and one a thread of the server.
    pub(crate) messages: Sender<Message>,
    pub(crate) alarm: Alarm,
    /// Its thread has ended by a fault of its own.
    pub(crate) has_failed: Arc<AtomicBool>,
}

impl DeviceHandle {
    /// Returns true if its thread has ended by a fault of its own.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Sends a message. Returns false if the device's thread has ended.
    pub(crate) fn send(&self, message: Message) -> bool {
        let is_sent = self.messages.send(message).is_ok();
        self.alarm.ring();
        is_sent
    }

    /// Returns the way by which the threads of a connection report to the device.
    pub(crate) fn report(&self) -> Report {
        let device = self.clone();
        // A device that has ended needs no report.
        Arc::new(move |event| {
            device.send(Message::Line(event));
        })
    }

    /// Sends a question, and waits for its answer. `None` if the device's thread has ended.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = channel();
        self.send(question(answer));
        answered.recv().ok()
    }
}
