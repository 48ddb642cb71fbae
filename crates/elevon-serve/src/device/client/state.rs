//! The states of a client: what is taken of what it sends, and how it ends.

use crate::request::DiskRequest;

/// The state of a client.
///
/// ```text
///             it is asked to end
///  Receiving ────────────────────▶ Finishing
///      │                               │ its last request has come
///      │ it takes leave or fails       │
///      ▼                               ▼
///   Closing ◀──────────────────────────┘
///      │ nothing can be sent to it
///      ▼
///    Gone        (from every state above)
/// ```
///
/// A client of which nothing is under way is removed from the states `Closing` and `Gone`.
#[derive(Debug)]
pub(crate) enum ClientState {
    /// Requests are taken.
    Receiving(Intake),
    /// It was asked to end. `last_bytes` that came before that are still to be received; a request
    /// that has begun is received to its end.
    Finishing { intake: Intake, last_bytes: u64 },
    /// No request follows. Those that came are carried out and answered.
    Closing(Farewell),
    /// Nothing can be sent to it any more. What it asked for is not carried out, unless it took
    /// leave.
    Gone(Farewell),
}

/// What is taken next of the bytes that come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Intake {
    /// A request.
    Request,
    /// A request has come, and waits for room or for buffers.
    Held(DiskRequest),
    /// The payload of a WRITE.
    Payload(Payload),
}

/// A payload that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The request that it belongs to.
    pub(crate) index: usize,
    /// Bytes that came.
    pub(crate) received: u64,
    /// Checks ([`super::Client::count_check`]) since a part of it came.
    pub(crate) checks: u32,
}

/// What is known of a client of which no request follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Farewell {
    /// The payload that was being received. Its buffers are in use until the receiver ends.
    unread: Option<Payload>,
    /// It has said that no request follows: what it asked for is carried out, even if it does not
    /// wait for the answers.
    took_leave: bool,
    /// It was asked to end.
    was_asked: bool,
}

impl ClientState {
    /// Returns the state of a client that has opened an export.
    pub(super) const fn new() -> Self {
        Self::Receiving(Intake::Request)
    }

    /// Returns what is taken next; `None` if nothing is.
    pub(crate) const fn intake(&self) -> Option<Intake> {
        match self {
            Self::Receiving(intake) | Self::Finishing { intake, .. } => Some(*intake),
            Self::Closing(_) | Self::Gone(_) => None,
        }
    }

    const fn set_intake(&mut self, next: Intake) {
        if let Self::Receiving(intake) | Self::Finishing { intake, .. } = self {
            *intake = next;
        }
    }

    /// A request is next, unless the client has closed.
    pub(crate) const fn expect_request(&mut self) {
        self.set_intake(Intake::Request);
    }

    /// The payload of a request is next, unless the client has closed.
    pub(crate) const fn expect_payload(&mut self, index: usize) {
        self.set_intake(Intake::Payload(Payload { index, received: 0, checks: 0 }));
    }

    /// Lets a request wait, unless the client has closed.
    pub(crate) const fn hold(&mut self, request: DiskRequest) {
        self.set_intake(Intake::Held(request));
    }

    /// Returns true if a request waits.
    pub(crate) const fn has_held(&self) -> bool {
        matches!(
            self,
            Self::Receiving(Intake::Held(_)) | Self::Finishing { intake: Intake::Held(_), .. }
        )
    }

    /// Returns the payload that is being received.
    pub(crate) const fn payload(&self) -> Option<Payload> {
        match self {
            Self::Receiving(Intake::Payload(payload))
            | Self::Finishing { intake: Intake::Payload(payload), .. } => Some(*payload),
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.unread,
            Self::Receiving(_) | Self::Finishing { .. } => None,
        }
    }

    /// The same, to be changed.
    pub(crate) const fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Receiving(Intake::Payload(payload))
            | Self::Finishing { intake: Intake::Payload(payload), .. } => Some(payload),
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.unread.as_mut(),
            Self::Receiving(_) | Self::Finishing { .. } => None,
        }
    }

    /// Takes the payload that was being received when the client closed. Its receiver has ended.
    pub(super) const fn take_unread(&mut self) -> Option<Payload> {
        match self {
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.unread.take(),
            Self::Receiving(_) | Self::Finishing { .. } => None,
        }
    }

    /// Bytes came.
    pub(crate) const fn count_received(&mut self, bytes: u64) {
        if let Self::Finishing { last_bytes, .. } = self {
            *last_bytes = last_bytes.saturating_sub(bytes);
        }
        if let Some(payload) = self.payload_mut() {
            payload.checks = 0;
        }
    }

    /// The client is asked to end, `bytes` after what was received.
    pub(crate) fn ask_to_end(&mut self, bytes: u64) {
        match self {
            Self::Receiving(intake) => {
                *self = Self::Finishing { intake: *intake, last_bytes: bytes }
            }
            Self::Finishing { .. } => {}
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.was_asked = true,
        }
    }

    /// Returns true if it was asked to end.
    pub(crate) const fn was_asked_to_end(&self) -> bool {
        match self {
            Self::Receiving(_) => false,
            Self::Finishing { .. } => true,
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.was_asked,
        }
    }

    /// Returns true if it was asked to end, and all that came before is received, but for the rest
    /// of a payload.
    pub(super) const fn has_last_bytes(&self) -> bool {
        matches!(self, Self::Finishing { intake: Intake::Request | Intake::Held(_), last_bytes: 0 })
    }

    /// No request follows.
    pub(super) fn close(&mut self, took_leave: bool) {
        if !self.is_closing() {
            let (unread, was_asked) = (self.payload(), self.was_asked_to_end());
            *self = Self::Closing(Farewell { unread, took_leave, was_asked });
        }
    }

    /// Nothing can be sent to it any more.
    pub(super) fn set_gone(&mut self) {
        self.close(false);
        if let Self::Closing(farewell) = *self {
            *self = Self::Gone(farewell);
        }
    }

    /// Returns true if no request follows.
    pub(crate) const fn is_closing(&self) -> bool {
        matches!(self, Self::Closing(_) | Self::Gone(_))
    }

    /// Returns true if nothing can be sent any more.
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns true if it has said that no request follows.
    pub(crate) const fn took_leave(&self) -> bool {
        match self {
            Self::Closing(farewell) | Self::Gone(farewell) => farewell.took_leave,
            Self::Receiving(_) | Self::Finishing { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::ioprio::IoPrio;

    use super::*;
    use crate::request::Operation;

    const REQUEST: DiskRequest = DiskRequest {
        operation: Operation::Flush,
        offset: 0,
        length: 0,
        fua: false,
        tag: 0,
        ioprio: IoPrio::NONE,
    };

    #[test]
    fn a_payload_outlives_the_states_in_which_requests_are_taken() {
        let mut state = ClientState::new();
        state.expect_payload(3);
        state.ask_to_end(10);
        state.count_received(4);
        assert!(
            matches!(state, ClientState::Finishing { last_bytes: 6, .. }) && !state.is_closing()
        );
        state.close(true);
        state.set_gone();
        assert!(state.is_gone() && state.took_leave() && state.was_asked_to_end());
        assert_eq!(state.take_unread().map(|payload| payload.index), Some(3));
        assert_eq!((state.payload(), state.take_unread()), (None, None));
    }

    #[test]
    fn a_client_that_has_closed_holds_nothing() {
        let mut state = ClientState::new();
        state.hold(REQUEST);
        assert!(state.has_held() && matches!(state.intake(), Some(Intake::Held(REQUEST))));
        state.expect_request();
        assert!(!state.has_held());
        state.ask_to_end(0);
        assert!(state.has_last_bytes());
        state.close(false);
        state.hold(REQUEST);
        assert!(!state.has_held() && state.intake().is_none() && !state.took_leave());
    }
}
