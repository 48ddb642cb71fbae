//! Both sides of the NBD protocol (fixed newstyle) as state machines without I/O: [`Session`] is
//! the server's, which takes clients of plain newstyle, too, and [`Client`] the client's.
//!
//! [`Session`] takes the bytes of one connection and says what follows from them: an answer that is
//! ready to be sent, a TLS handshake, a request of the client. Answers to requests are encoded by
//! [`ReplyFormat`], a copy of which every thread may have. Nothing here reads a socket, a clock or
//! a file, so a server brings its own event loop, and tests and fuzzers need none.
//!
//! Supported options: EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO, STRUCTURED_REPLY,
//! LIST_META_CONTEXT, SET_META_CONTEXT and EXTENDED_HEADERS. Supported commands: READ, WRITE, DISC,
//! FLUSH, TRIM, CACHE, WRITE_ZEROES and BLOCK_STATUS with the context `base:allocation`. A client
//! that asks for the block sizes of an export is held to them; any other may ask for any range of
//! bytes.
//!
//! ```
//! use elevon_nbd::{Export, Exports, Refusal, Session, SessionConfig, Step};
//!
//! struct OneDisk;
//! impl Exports for OneDisk {
//!     fn names(&self) -> Vec<String> {
//!         vec![String::new()]
//!     }
//!     fn export(&self, name: &str) -> Result<Export, Refusal> {
//!         if name.is_empty() { Ok(Export::new(1 << 20)) } else { Err(Refusal::Unknown) }
//!     }
//! }
//!
//! let mut session = Session::new(SessionConfig::default());
//! assert_eq!(&session.take_output()[..8], b"NBDMAGIC");
//! // The client's flags: fixed newstyle, no zeroes.
//! assert_eq!(session.step(&[0, 0, 0, 3], &OneDisk), (4, Step::Continue));
//! ```
//!
//! Source of the protocol: the document `proto.md` of the NBD project.
#![forbid(unsafe_code)]

mod client;
mod option;
mod reply;
mod request;
mod session;
mod wire;

pub use client::{Client, ClientError, ClientStep, Remote};
pub use option::{Export, Exports, Information, Refusal, TransmissionFlags};
pub use reply::{Extent, ReplyFormat};
pub use request::{Command, Reason, Request};
pub use session::{Close, Session, SessionConfig, Step, Tls};
pub use wire::NbdError;

/// The port that is assigned to NBD.
pub const PORT: u16 = 10809;
