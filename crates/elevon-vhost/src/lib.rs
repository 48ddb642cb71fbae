//! The back end's side of vhost-user, the rings of virtio, and the requests of virtio-blk, without
//! I/O.
//!
//! [`BackEnd`] takes the messages of one front end (a virtual machine, or a user-mode kernel) and
//! says what follows: an answer to send, and an [`Action`] for the caller. File descriptors that
//! come with a message are the caller's; an action says what they are for. Only [`socket`] does
//! I/O, and nothing maps memory. So a caller brings its own event loop, and tests and fuzzers need
//! none.
//!
//! [`ring::Ring`] walks a ring in memory that the caller has mapped, and [`blk::Request`] is what
//! a chain of descriptors asks of a disk. [`Inflight`] records requests for the back end that
//! follows one that was killed.
//!
//! Supported: all messages that a front end of a block device needs, with kicks and calls by
//! descriptor or in band, and split rings. Not supported: migration (dirty log, device state),
//! IOTLB, and packed rings.
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
mod inflight;
mod message;
pub mod ring;
pub mod socket;

pub use back_end::{
    Action, BackEnd, FEATURE_EVENT_INDEX, FEATURE_INDIRECT, FEATURE_PROTOCOL_FEATURES,
    InflightPlace, Offer, PROTOCOL_BACKEND_CHANNEL, PROTOCOL_CONFIG, PROTOCOL_INFLIGHT,
    PROTOCOL_MEMORY_SLOTS, PROTOCOL_QUEUES, PROTOCOL_REPLY_ACK, PROTOCOL_RESET, RingAddresses,
};
pub use inflight::{Inflight, inflight_bytes};
pub use message::{
    HEADER_BYTES, Header, MAX_MEMORY_SLOTS, MAX_PAYLOAD, MAX_REGIONS, ProtocolError, Region,
    call_message, config_change_message,
};
