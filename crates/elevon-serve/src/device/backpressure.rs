//! What a client may have unanswered: the bound that is its back-pressure.

/// Requests of a connection that are not answered, beyond which its socket is not read.
pub const IN_FLIGHT: u32 = 128;
/// Bytes of a connection's requests that are not answered, beyond which its socket is not read. One
/// request may be larger.
pub const BYTES_IN_FLIGHT: u64 = 32 << 20;

/// An amount of requests: how many, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
}

impl Amount {
    /// Adds a request of so many bytes.
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// Counts what is not answered.
#[derive(Debug, Default)]
pub(crate) struct Backpressure(Amount);

impl Backpressure {
    /// Counts a request of so many bytes. Returns false if there is no room for it yet.
    pub(crate) const fn enter(&mut self, bytes: u64) -> bool {
        let is_too_much = self.0.bytes > 0 && self.0.bytes.saturating_add(bytes) > BYTES_IN_FLIGHT;
        if self.0.requests >= IN_FLIGHT || is_too_much {
            return false;
        }
        self.0.add(bytes);
        true
    }

    /// Requests were answered.
    ///
    /// # Panics
    /// If so much never entered.
    pub(crate) fn leave(&mut self, answered: Amount) {
        let left = |all: u64, part: u64| all.checked_sub(part).expect("what entered leaves");
        self.0.requests = left(self.0.requests.into(), answered.requests.into()) as u32;
        self.0.bytes = left(self.0.bytes, answered.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_room_and_one_is_never_too_large() {
        let mut backpressure = Backpressure::default();
        assert!(backpressure.enter(10 * BYTES_IN_FLIGHT));
        assert!(!backpressure.enter(1));
        backpressure.leave(Amount { requests: 1, bytes: 10 * BYTES_IN_FLIGHT });
        assert!(backpressure.enter(1));
        backpressure.leave(Amount { requests: 1, bytes: 1 });
        assert!((0..IN_FLIGHT).all(|_| backpressure.enter(0)));
        assert!(!backpressure.enter(0));
        backpressure.leave(Amount { requests: 2, bytes: 0 });
        assert!(backpressure.enter(BYTES_IN_FLIGHT) && !backpressure.enter(1));
        assert!(backpressure.enter(0));
    }
}
