//! The terminal of `elevon watch`: keys, signals, and a new second after each other.

use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure};
use elevon_watch::GroupBy;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::machine::Processes;
use super::screen::{Screen, draw};
use super::source::Source;

/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Shows the disks until a key or a signal ends it.
///
/// # Errors
/// Of the terminal, and of tracefs.
pub(super) fn show(
    source: &mut Source,
    processes: &mut Processes,
    seconds: usize,
    by: GroupBy,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    // Its line would stand in the middle of the screen.
    interrupt.silence();
    let mut terminal = ratatui::try_init()?;
    let shown = follow(&mut terminal, source, processes, Screen::new(seconds, by), interrupt);
    // Whatever happened, the terminal is given back.
    ratatui::restore();
    shown
}

fn follow(
    terminal: &mut DefaultTerminal,
    source: &mut Source,
    processes: &mut Processes,
    mut screen: Screen,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    loop {
        if interrupt.is_set() {
            return Ok(Ending::Done);
        }
        let has_ended = source.take()?;
        if has_ended {
            processes.forget_old();
        }
        let mut is_changed = has_ended;
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            if is_end(key, &screen) {
                return Ok(Ending::Done);
            }
            screen.on_key(key.code);
            is_changed = true;
        }
        if is_changed {
            if !screen.is_paused() {
                let (seconds, by) = (screen.seconds(), screen.by());
                screen.take(source.watch().now(seconds, by, processes));
            }
            terminal.draw(|frame| draw(frame, &screen))?;
        }
    }
}

fn is_end(key: KeyEvent, screen: &Screen) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    (key.code == KeyCode::Char('q') && !screen.is_typing())
        || (is_control && key.code == KeyCode::Char('c'))
}
