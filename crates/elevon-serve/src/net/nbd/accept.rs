//! Connections of NBD that come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::negotiation;
use crate::log::{Level, Record};
use crate::net::gate::Gate;
use crate::net::listen::{ACCEPT_RETRY, Listener};
use crate::net::tls::Identity;

/// A connection that cannot be accepted has a line in the log, and then none for this time.
const SILENCE: Duration = Duration::from_secs(10);

/// Accepts connections of NBD until the server has ended, each in a thread of its own. `place` is
/// the address, if that belongs to certain exports.
pub(crate) fn accept(listener: &Listener, place: Option<&Arc<str>>, server: &Arc<dyn Gate>) {
    let mut logged: Option<Instant> = None;
    loop {
        let accepted = listener.accept().and_then(|socket| Ok((socket.try_clone()?, socket)));
        let (second, socket) = match accepted {
            Ok(both) => both,
            Err(error) => {
                if logged.is_none_or(|at| at.elapsed() >= SILENCE) {
                    let message = format!(
                        "a connection could not be accepted: {error}; if files have run out, raise the limit (LimitNOFILE=)"
                    );
                    server.log(&Record::new(Level::Error, "server", &message));
                    logged = Some(Instant::now());
                }
                // No descriptors are left, most likely.
                std::thread::sleep(ACCEPT_RETRY);
                continue;
            }
        };
        let client = Arc::new(Identity {
            peer: socket.peer(),
            place: place.cloned(),
            ..Identity::default()
        });
        let Some(name) = server.connected(second, &client) else { return };
        let of_thread = Arc::clone(server);
        let work = move || negotiation::negotiate(name, socket, client, &of_thread);
        let thread = std::thread::Builder::new().spawn(work);
        if let Err(error) = thread {
            server.left(name, Some(error));
        }
    }
}
