//! How the requests of a client come, and its answers go.

use elevon_core::status::Status;
use elevon_host::BellId;

use crate::net::line::Line;
use crate::net::protocol::Protocol;
use crate::net::queues::Queues;

/// How the requests of a client come, and its answers go.
pub(crate) enum FrontEnd {
    /// As bytes of a stream.
    Stream { protocol: Box<dyn Protocol>, line: Line },
    /// In queues in memory that the client shares. The bell is in the ring; without a ring a thread
    /// waits for it.
    Queues { queues: Box<dyn Queues>, bell: Option<BellId> },
}

impl FrontEnd {
    /// Returns the way of its bytes, if it is a stream.
    pub(crate) const fn line(&self) -> Option<&Line> {
        match self {
            Self::Stream { line, .. } => Some(line),
            Self::Queues { .. } => None,
        }
    }

    /// Returns its queues, if it has some.
    pub(crate) fn queues(&mut self) -> Option<&mut dyn Queues> {
        match self {
            Self::Stream { .. } => None,
            Self::Queues { queues, .. } => Some(&mut **queues),
        }
    }

    /// Returns the name of the errno that a client is told of a failure.
    pub(super) fn errno_name(&self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Stream { protocol, .. }, status) => protocol.errno_name(status),
            (Self::Queues { .. }, Status::NotSupported) => "ENOTSUP",
            (Self::Queues { .. }, _) => "EIO",
        }
    }
}
