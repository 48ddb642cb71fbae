//! Why a server cannot be set up.

use std::io;

use crate::net::listen::Address;

/// Why a server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread could not be started.
    #[error("no thread for a device: {0}")]
    Thread(#[source] io::Error),
    /// The thread that sets up a device ended.
    #[error("the thread of a device ended before it served")]
    Ended,
    /// An address cannot be listened at.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: Address,
        /// The cause.
        #[source]
        error: io::Error,
    },
}
