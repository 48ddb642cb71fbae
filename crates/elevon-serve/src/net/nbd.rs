//! NBD: connections that come, in `accept`; a connection until it has opened an export,
//! [`negotiation`]; and what is spoken with the export's device after that, [`transmission`].

mod accept;
mod negotiation;
pub(crate) mod transmission;

pub(crate) use accept::accept;
