//! What a client speaks with the device that it has open, as the device sees it: bytes become
//! requests, and answers become bytes.

use std::io;

use elevon_core::status::Status;

use crate::request::{DiskRequest, Extent, Operation, RequestRefusal};

/// What follows from the bytes that came.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next step can be taken.
    Continue,
    /// More has to come first.
    More,
    /// The client asks for something. The payload of a WRITE is next, of as many bytes as it has.
    Request(DiskRequest),
    /// A request was refused; without an operation one that the protocol does not know.
    Refused { operation: Option<Operation>, reason: RequestRefusal },
    /// The client takes leave: nothing follows, and it need not be answered.
    Leave,
    /// What came cannot be followed by anything.
    Fail(io::Error),
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// It was done, and moves no data.
    Done,
    /// It was done, and its data follows.
    DataFollows,
    /// These parts of its range are allocated.
    Extents(&'a [Extent]),
    /// It failed.
    Failed(Status),
}

/// The state of a client's connection in its protocol, from when it has opened an export.
pub(crate) trait Protocol: Send {
    /// Takes the next step with the bytes that came, and returns how many of them it used. What is
    /// to be sent at once is appended to `out`.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step);

    /// So many bytes of the payload of the last request were taken.
    fn on_payload(&mut self, bytes: u64);

    /// Appends the answer to a request. Data is sent after it.
    fn answer(&self, out: &mut Vec<u8>, request: &DiskRequest, answer: Answer<'_>);

    /// Returns the name of the errno that a client is told of a failure.
    fn errno_name(&self, status: Status) -> &'static str;
}
