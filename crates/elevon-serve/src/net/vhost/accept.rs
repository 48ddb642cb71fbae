//! Connections of guests that come.

use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guest_disk::GuestDisk;
use super::guest_queues::GuestQueues;
use super::rings::Rings;
use super::session::Session;
use super::shared_rings::SharedRings;
use crate::log::{Field, Level, Record};
use crate::net::export::{NotOpened, ServedExport};
use crate::net::gate::Gate;
use crate::net::line::EndNotice;
use crate::net::listen::{ACCEPT_RETRY, Listener, Socket};
use crate::net::opened::{Front, Opened};
use crate::net::refused::ConnectionRefusal;
use crate::net::tls::Identity;

/// How long a front end waits for the one before it, whose requests may still be in flight.
const SUCCESSION: Duration = Duration::from_secs(1);
/// How often it is looked whether that has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Accepts front ends of guests until the server has ended. The disk is that of the one export
/// that is reached at `place`.
pub(crate) fn accept(listener: &Listener, place: &Arc<str>, server: &Arc<dyn Gate>) {
    loop {
        let accepted = listener.accept().and_then(|socket| Ok((socket.try_clone()?, socket)));
        let Ok((second, socket)) = accepted else {
            // No descriptors are left, most likely. The listeners of NBD log that.
            std::thread::sleep(ACCEPT_RETRY);
            continue;
        };
        let client = Arc::new(Identity {
            peer: socket.peer(),
            place: Some(Arc::clone(place)),
            ..Identity::default()
        });
        let Some(number) = server.connected(second, &client) else { return };
        let of_left = Arc::clone(server);
        let left = EndNotice::new(move |error| of_left.left(number, error));
        let guest = Connection { number, client, server: Arc::clone(server) };
        guest.open(socket, left);
    }
}

/// A connection of a front end.
struct Connection {
    number: u32,
    client: Arc<Identity>,
    server: Arc<dyn Gate>,
}

impl Connection {
    /// Opens the export for a front end, and starts the thread of its messages.
    fn open(self, socket: Socket, mut left: EndNotice) {
        let export = match self.wait_for_export() {
            Ok(export) => export,
            Err((why, words)) => {
                self.server.count_refused(why);
                self.warn(&words, None);
                return socket.shutdown(Shutdown::Both);
            }
        };
        let Socket::Unix(stream) = socket else { return };
        let made = SharedRings::new(Rings::new(GuestDisk::of(&export)))
            .and_then(|rings| Ok((Arc::new(rings), stream.try_clone()?)));
        let (rings, second) = match made {
            Ok(made) => made,
            Err(error) => {
                left.error = Some(error);
                return;
            }
        };
        let who = self.client.who();
        let (number, identity) = (self.number, Arc::clone(&self.client));
        let message = format!("connection {number}: opened export {}, by {who}", export.name);
        self.log(Level::Debug, &message, Some(&export.name));
        let front = Front::Queues(Box::new(GuestQueues::new(Arc::clone(&rings), second)));
        let (name, charged) = (export.name.clone(), export.charged);
        let opened = Opened { number, identity, export: name, charged, front, left };
        let grown = Arc::downgrade(&rings);
        let on_grown = move |size| {
            if let Some(rings) = grown.upgrade() {
                rings.grow(size);
            }
        };
        self.server.watch_size(number, Arc::new(on_grown));
        self.server.give(&export, opened);
        let name = export.name;
        let work = move || {
            if let Err(error) = Session::new(stream, rings).run() {
                let who = self.client.who();
                self.warn(&format!("{error}; it is that of {who}"), Some(&name));
            }
        };
        // Without a thread the session ends at once, and so does the connection.
        let _ = std::thread::Builder::new().name("guest".into()).spawn(work);
    }

    /// Opens the export of its address. A front end that comes again waits until the requests of
    /// the connection before have ended.
    fn wait_for_export(&self) -> Result<ServedExport, (ConnectionRefusal, String)> {
        let began = Instant::now();
        loop {
            match self.server.open(self.number, "", &self.client) {
                Ok(export) => return Ok(export),
                Err(NotOpened::Full { why: ConnectionRefusal::ExportFull, .. })
                    if began.elapsed() < SUCCESSION =>
                {
                    std::thread::sleep(LOOK);
                }
                Err(NotOpened::Full { why: why @ ConnectionRefusal::ExportFull, .. }) => {
                    let who = self.client.who();
                    let words = format!("is refused: a guest has the disk; it is that of {who}");
                    return Err((why, words));
                }
                Err(NotOpened::Full { limit, key, why }) => {
                    return Err((why, format!("is refused: {key} allows {limit}")));
                }
                Err(NotOpened::Drained) => {
                    return Err((ConnectionRefusal::Drained, "is refused: drained".into()));
                }
                Err(NotOpened::Unknown) => {
                    let words = format!("the export is not for {}", self.client.in_words());
                    return Err((ConnectionRefusal::NotForClient, words));
                }
            }
        }
    }

    fn warn(&self, what: &str, export: Option<&str>) {
        let message = format!("connection {}: {what}", self.number);
        self.log(Level::Warning, &message, export);
    }

    fn log(&self, level: Level, message: &str, export: Option<&str>) {
        let peer = self.client.who();
        let mut fields =
            vec![("client", Field::Number(self.number.into())), ("peer", Field::Text(&peer))];
        fields.extend(export.map(|export| ("export", Field::Text(export))));
        let record = Record { level, target: "connection", message, fields: &fields };
        if level == Level::Warning { self.server.warn(&record) } else { self.server.log(&record) }
    }
}
