//! What is known of threads while records become events: their names, their processes, and which
//! of them use the device.

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::decode::Decoded;
use crate::event::{TraceEvent, TraceKind};
use crate::names::{NameId, Names};

/// Threads by their numbers.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// The process of a thread.
    pub(super) processes: HashMap<u32, u32, FxBuildHasher>,
    /// The last known name of a thread.
    names: HashMap<u32, NameId, FxBuildHasher>,
    /// Threads that have used the device since their plug was flushed last.
    users: HashSet<u32, FxBuildHasher>,
}

impl Threads {
    /// Reads the texts of `saved_tgids` and `saved_cmdlines`.
    pub(super) fn from_tables(processes: &[u8], threads: &[u8], names: &mut Names) -> Self {
        let mut known = Self::default();
        for (thread, rest) in table(processes) {
            if let Some(process) = std::str::from_utf8(rest).ok().and_then(|rest| rest.parse().ok())
            {
                known.processes.insert(thread, process);
            }
        }
        for (thread, name) in table(threads).filter(|(_, name)| *name != b"<...>") {
            if let Some(name) = names.intern(name) {
                known.names.insert(thread, name);
            }
        }
        known
    }

    /// Returns the number of threads with a name.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Forgets all threads: their numbers are used again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the event of a record with its time, CPU, thread's name and process; `None` for a
    /// plug of another device.
    pub(super) fn event(
        &mut self,
        decoded: &Decoded<'_>,
        time: u64,
        cpu: u32,
        names: &mut Names,
    ) -> Option<TraceEvent> {
        let mut event = decoded.event;
        if !self.is_ours(&event) {
            return None;
        }
        (event.time, event.cpu) = (Some(time), Some(cpu));
        if let Some(thread) = event.tid {
            event.process = self.processes.get(&thread).copied();
            if let Some(name) = decoded.comm.and_then(|comm| names.intern(comm)) {
                self.names.insert(thread, name);
            }
            event.comm = self.names.get(&thread).copied();
        }
        Some(event)
    }

    /// Returns false for the plug of a thread that has not used the device since its last one. The
    /// kernel opens a plug in the records when the first request goes into it, after the events
    /// that made the request.
    fn is_ours(&mut self, event: &TraceEvent) -> bool {
        let Some(thread) = event.tid else { return true };
        match event.kind {
            TraceKind::Plug => self.users.contains(&thread),
            TraceKind::Unplug { .. } => self.users.remove(&thread),
            // A completion is noted in whatever thread it interrupts.
            TraceKind::Complete
            | TraceKind::BioComplete
            | TraceKind::RequestError
            | TraceKind::Requeue => true,
            _ => {
                self.users.insert(thread);
                true
            }
        }
    }
}

/// The lines of a table `NUMBER TEXT`.
fn table(text: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let at = memchr::memchr(b' ', line)?;
        let number = std::str::from_utf8(&line[..at]).ok()?.parse().ok()?;
        Some((number, &line[at + 1..]))
    })
}
