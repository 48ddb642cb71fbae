//! What a client may have in flight: the bound that is its back-pressure.

use std::sync::{Condvar, Mutex};

/// Requests of a connection that are not answered, beyond which its socket is not read.
pub const IN_FLIGHT: u32 = 128;
/// Bytes of a connection's requests that are not answered, beyond which its socket is not read. One
/// request may be larger.
pub const BYTES_IN_FLIGHT: u64 = 32 << 20;

/// Counts what is in flight.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    taken: Mutex<Taken>,
    left: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    requests: u32,
    bytes: u64,
    /// The client is gone: nobody waits any more.
    is_open: bool,
}

impl Gate {
    /// Waits until a request of so many bytes may be in flight, and counts it.
    pub(crate) fn enter(&self, bytes: u64) {
        let is_full = |taken: &mut Taken| {
            let is_over = taken.bytes > 0 && taken.bytes.saturating_add(bytes) > BYTES_IN_FLIGHT;
            !taken.is_open && (taken.requests >= IN_FLIGHT || is_over)
        };
        let taken = self.taken.lock().expect("no thread panics with the lock");
        let mut taken = self.left.wait_while(taken, is_full).expect("no thread panics with the lock");
        taken.requests += 1;
        taken.bytes += bytes;
    }

    /// A request was answered.
    pub(crate) fn leave(&self, bytes: u64) {
        let mut taken = self.taken.lock().expect("no thread panics with the lock");
        taken.requests = taken.requests.checked_sub(1).expect("one that entered leaves");
        taken.bytes = taken.bytes.checked_sub(bytes).expect("as many bytes as entered");
        drop(taken);
        self.left.notify_one();
    }

    /// Lets whoever waits go on, since no answers can be sent any more.
    pub(crate) fn open(&self) {
        self.taken.lock().expect("no thread panics with the lock").is_open = true;
        self.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_room_and_one_is_never_too_large() {
        let gate = std::sync::Arc::new(Gate::default());
        gate.enter(10 * BYTES_IN_FLIGHT);
        let other = std::sync::Arc::clone(&gate);
        let waits = std::thread::spawn(move || other.enter(1));
        gate.leave(10 * BYTES_IN_FLIGHT);
        waits.join().expect("it got room");
        gate.leave(1);
        for _ in 0..IN_FLIGHT {
            gate.enter(0);
        }
        let other = std::sync::Arc::clone(&gate);
        let waits = std::thread::spawn(move || other.enter(0));
        gate.open();
        waits.join().expect("nobody waits for a client that is gone");
    }
}
