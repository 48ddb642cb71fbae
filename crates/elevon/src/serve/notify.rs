//! What systemd is told of a server (sd_notify(3)), if it asked by `NOTIFY_SOCKET`.
//!
//! Nothing here waits: the reader of the socket may have stopped reading it.

use std::collections::VecDeque;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::time::Duration;

use elevon_serve::Event;
use sd_notify::NotifyState;

/// Messages that found no room and that the service manager must get. Each event is told again by
/// the next of its kind, so that a few are all that can be of use.
static UNTOLD: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
const UNTOLD_MAX: usize = 8;
const LOCK: &str = "no thread panics with the lock";

/// Tells the service manager. Without one, or if it cannot be told, nothing happens: a server
/// serves its clients all the same. A status and a sign of life that find no room are dropped; the
/// others are kept for [`tell_again`].
pub(super) fn notify(event: Event<'_>) {
    let (states, is_kept): (Vec<NotifyState<'_>>, bool) = match event {
        Event::Ready => (vec![NotifyState::Ready], true),
        // systemd has to know which of its requests a reload belongs to.
        Event::Reloading => {
            let Ok(now) = NotifyState::monotonic_usec_now() else { return };
            (vec![NotifyState::Reloading, now], true)
        }
        Event::Stopping => (vec![NotifyState::Stopping], true),
        Event::Alive => (vec![NotifyState::Watchdog], false),
        Event::Status(line) => (vec![NotifyState::Status(line)], false),
    };
    tell_again();
    let message: String = states.iter().map(|state| format!("{state}\n")).collect();
    let mut untold = UNTOLD.lock().expect(LOCK);
    let has_no_room = !untold.is_empty() || is_full(send(&message));
    if has_no_room && is_kept && untold.len() < UNTOLD_MAX {
        untold.push_back(message);
    }
}

/// Tells what found no room, as far as there is some now.
pub(super) fn tell_again() {
    let mut untold = UNTOLD.lock().expect(LOCK);
    while untold.front().is_some_and(|message| !is_full(send(message))) {
        untold.pop_front();
    }
}

fn is_full(sent: io::Result<()>) -> bool {
    sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Sends a message, if it can be done at once.
fn send(message: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

/// Returns how often the service manager is to be told that the server is alive: twice in the time
/// after which it would give up (`WATCHDOG_USEC`).
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}
