//! What systemd is told of a server (sd_notify(3)), if it asked by `NOTIFY_SOCKET`.

use std::time::Duration;

use elevon_serve::Event;
use sd_notify::NotifyState;

/// Tells the service manager. Without one, or if it cannot be told, nothing happens: a server
/// serves its clients all the same.
pub(super) fn notify(event: Event<'_>) {
    let _ = match event {
        Event::Ready => sd_notify::notify(&[NotifyState::Ready]),
        // systemd has to know which of its requests a reload belongs to.
        Event::Reloading => {
            NotifyState::monotonic_usec_now().and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now]))
        }
        Event::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Event::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        Event::Status(line) => sd_notify::notify(&[NotifyState::Status(line)]),
    };
}

/// Returns how often the service manager is to be told that the server is alive: twice in the time
/// after which it would give up (`WATCHDOG_USEC`).
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}
