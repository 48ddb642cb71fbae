//! NBD: a connection until it has opened an export ([`negotiation`]), and what is spoken with the
//! export's device after that ([`transmission`]).

pub(crate) mod negotiation;
pub(crate) mod transmission;
