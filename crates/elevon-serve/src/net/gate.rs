//! What a connection needs of its server until it has opened an export.

use std::io;
use std::sync::Arc;

use super::export::{NotOpened, ServedExport};
use super::listen::Socket;
use super::opened::Opened;
use super::refused::ConnectionRefusal;
use super::tls::{Identity, Tls};
use crate::log::Record;

/// Is called with the new size of an export in bytes.
pub(crate) type OnGrown = Arc<dyn Fn(u64) + Send + Sync>;

/// The server, as connections see it.
pub(crate) trait Gate: Send + Sync {
    /// Returns the exports as they are now.
    fn exports(&self) -> Arc<Vec<ServedExport>>;

    /// Returns the TLS of connections that come now.
    fn tls(&self) -> Option<Arc<Tls>>;

    /// Takes a connection, and returns its number; `None` if the server has ended. A client that
    /// opens connections and does nothing on them can only end others that do nothing.
    fn connected(&self, socket: Socket, client: &Arc<Identity>) -> Option<u32>;

    /// Lets a connection open an export, if that was not drained or removed meanwhile and has room.
    ///
    /// # Errors
    /// Why it does not.
    fn open(
        &self,
        connection: u32,
        export: &str,
        client: &Arc<Identity>,
    ) -> Result<ServedExport, NotOpened>;

    /// Gives a connection to the device of its export. A device that was removed or has ended
    /// meanwhile drops it, which ends it.
    fn give(&self, export: &ServedExport, opened: Opened);

    /// Calls a function with the bytes of the export that a connection has open, each time that it
    /// has grown.
    fn watch_size(&self, connection: u32, on_grown: OnGrown);

    /// Counts a connection that was refused.
    fn count_refused(&self, why: ConnectionRefusal);

    /// A connection has ended, with an error or as it should.
    fn left(&self, connection: u32, error: Option<io::Error>);

    /// Logs what happened.
    fn log(&self, record: &Record<'_>);

    /// Logs what a connection did, a few lines in a time: a client can make as many as it wants.
    fn warn(&self, record: &Record<'_>);
}
