//! The back end's side of vhost-user, and the requests of virtio-blk, without I/O.
//!
//! [`BackEnd`] takes the messages of one front end (a virtual machine, or a user-mode kernel) and
//! says what follows: an answer to send, and an [`Action`] for the caller. File descriptors that
//! come with a message are the caller's; an action says what they are for. Nothing here reads a
//! socket, maps memory or walks a ring, so a caller brings its own event loop, and tests and
//! fuzzers need none.
//!
//! Supported: all messages that a front end of a block device needs, with kicks and calls by
//! descriptor or in band. Not supported: migration (dirty log, device
//! state), IOTLB, memory slots one by one, and inflight descriptors.
//!
//! ```
//! use elevon_vhost::{Action, BackEnd, Offer};
//!
//! let back_end = BackEnd::new(Offer { config: vec![0; 60], ..Offer::default() });
//! // GET_FEATURES of version 1, without a payload.
//! let header = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
//! let (answer, action) = back_end.handle(&header, &[], 0)?;
//! assert_eq!((answer.len(), action), (20, Action::None));
//! # Ok::<(), elevon_vhost::ProtocolError>(())
//! ```
//!
//! Sources of the protocols: the document `vhost-user` of the QEMU project, and the virtio
//! specification of OASIS.
#![forbid(unsafe_code)]

mod back_end;
pub mod blk;
mod message;

pub use back_end::{Action, BackEnd, Offer, RingAddresses};
pub use message::{
    HEADER_BYTES, Header, MAX_PAYLOAD, MAX_REGIONS, ProtocolError, Region, call_message,
};
