//! Keys of a terminal, and its end.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use elevon_host::terminal::{Input, wait_for_input};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};

/// What came of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A key was pressed.
    Key(KeyEvent),
    /// Something else, such as another size.
    Other,
    /// Nothing in this time, or a signal.
    Nothing,
    /// The terminal is gone.
    Gone,
}

/// Waits for a key, but no longer than a time.
///
/// # Errors
/// Of the terminal.
pub(crate) fn next(time: Duration) -> io::Result<Came> {
    let terminal = io::stdout();
    // Several keys may have come at once: what is left of them is there without a wait.
    for time in [Duration::ZERO, time] {
        // Of a terminal that is gone, crossterm reads for ever. SIGHUP comes just before the
        // terminal is seen to be gone, so after a signal it is asked again.
        match wait_for_input(terminal.as_fd(), time)? {
            Input::Gone => return Ok(Came::Gone),
            Input::Interrupted => return Ok(Came::Nothing),
            Input::Something | Input::Nothing => {}
        }
        if event::poll(Duration::ZERO)? {
            return Ok(match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => Came::Key(key),
                _ => Came::Other,
            });
        }
    }
    Ok(Came::Nothing)
}
