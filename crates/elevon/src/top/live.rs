//! The screen of `elevon top` while it runs: keys, signals, and a new interval after each other.

use std::path::Path;
use std::time::{Duration, Instant};

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::rates::rates;
use super::screen::{Screen, draw};
use super::stats;
use crate::keys::{self, Came};

/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the tenants of the server at `socket` until a key or a signal ends it, or the server does.
/// `first` are the statistics of now.
pub(super) fn show(socket: &Path, interval: Duration, first: Value) -> Result<Ending, Failure> {
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    // Its line would stand in the middle of the screen.
    interrupt.silence();
    let mut terminal = ratatui::try_init()?;
    let watched = watch(&mut terminal, socket, interval, first, &interrupt);
    // Whatever happened, the terminal is given back, if it is still there.
    let _ = ratatui::try_restore();
    watched
}

/// Draws until a key or a signal ends it, or the server does.
fn watch(
    terminal: &mut DefaultTerminal,
    socket: &Path,
    interval: Duration,
    mut before: Value,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let mut screen = Screen::new(socket.display().to_string());
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| draw(frame, &screen))?;
        while asked.elapsed() < interval {
            if interrupt.is_set() {
                return Ok(interrupt.signal().map_or(Ending::Done, Ending::Interrupted));
            }
            match keys::next(LOOK.min(interval))? {
                Came::Key(key) if is_end(key) => return Ok(Ending::Done),
                Came::Key(key) => screen.on_key(key.code),
                Came::Other => {}
                Came::Nothing => continue,
                Came::Gone => {
                    return Ok(interrupt.signal().map_or(Ending::Done, Ending::Interrupted));
                }
            }
            terminal.draw(|frame| draw(frame, &screen))?;
        }
        asked = Instant::now();
        let now = stats(socket)?;
        screen.take(rates(&before, &now));
        before = now;
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        || (is_control && key.code == KeyCode::Char('c'))
}
