//! The terminal of `elevon watch`: keys, signals, and a new second after each other.

use std::path::Path;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure};
use elevon_trace::DeviceNumber;
use elevon_watch::{GroupBy, Now};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::draw;
use super::screen::{Screen, Wish};
use super::source::Source;
use super::what_if::{TITLE, WhatIf};
use crate::keys::{self, Came};

/// Traces of a disk that one folder may have.
const MAX_FILES: u32 = 99;

/// Shows the disks until a key or a signal ends it.
///
/// # Errors
/// Of the terminal, and of tracefs.
pub(super) fn show(
    source: &mut Source,
    seconds: usize,
    by: GroupBy,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let mut terminal = ratatui::try_init()?;
    let shown = follow(&mut terminal, source, Screen::new(seconds, by), interrupt);
    // Whatever happened, the terminal is given back, if it is still there.
    let _ = ratatui::try_restore();
    shown
}

fn follow(
    terminal: &mut DefaultTerminal,
    source: &mut Source,
    mut screen: Screen,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    let mut what_if: Option<WhatIf> = None;
    loop {
        if interrupt.is_set() {
            return Ok(Ending::Done);
        }
        let has_ended = source.take()?;
        if has_ended {
            screen.has_ended();
        }
        let mut is_changed = has_ended;
        if let Some(answer) = what_if.as_mut().and_then(WhatIf::answer) {
            what_if = None;
            screen.tell(TITLE, answer);
            is_changed = true;
        } else if let Some(search) = what_if.as_ref().filter(|_| has_ended && screen.tells(TITLE)) {
            screen.tell(TITLE, search.words());
        }
        let mut is_asked = false;
        match keys::next(source.patience())? {
            Came::Key(key) if is_end(key, &screen) => return Ok(Ending::Done),
            Came::Key(key) => {
                is_asked = on_key(key.code, &mut screen, source, &mut what_if);
                is_changed = true;
            }
            Came::Other => is_changed = true,
            Came::Nothing => {}
            Came::Gone => return Ok(Ending::Done),
        }
        if is_changed {
            if !screen.is_paused() || is_asked {
                screen.take(figures(source, &screen));
            }
            terminal.draw(|frame| draw(frame, &screen))?;
        }
    }
}

/// Returns the figures that the screen shows.
fn figures(source: &mut Source, screen: &Screen) -> Now {
    match screen.zoom() {
        Some(back) => source.second(back, screen.by()),
        None => source.now(screen.seconds(), screen.by()),
    }
}

/// Does what a key asks for. Returns true if figures are asked for.
fn on_key(
    key: KeyCode,
    screen: &mut Screen,
    source: &Source,
    what_if: &mut Option<WhatIf>,
) -> bool {
    let device = screen.device().map(|(disk, device)| (disk.to_owned(), device));
    let is_command = !screen.is_typing();
    match (key, device) {
        (KeyCode::Char('S'), Some((disk, device))) if is_command => {
            screen.tell("saved", vec![save(source, &disk, device)]);
        }
        (KeyCode::Char('w'), Some((disk, device))) if is_command => {
            let words = match what_if {
                Some(search) if search.is_of(&disk) => search.words(),
                _ => match WhatIf::begin(source, &disk, device) {
                    Ok(begun) => what_if.insert(begun).words(),
                    Err(words) => vec![words],
                },
            };
            screen.tell(TITLE, words);
        }
        (code, device) => match (screen.on_key(code), device) {
            (Wish::Requests, Some((_, device))) => {
                if let Some((process, name)) = screen.process() {
                    let back = screen.zoom();
                    let seconds = if back.is_some() { 1 } else { screen.seconds() };
                    let lines = source.requests(device, process, seconds, back.unwrap_or(0));
                    screen.tell(&format!("the longest requests of {name}"), lines);
                }
            }
            (Wish::Figures, _) => return true,
            _ => {}
        },
    }
    false
}

/// Writes the last minutes of a disk to a new file of the present folder, and says so.
fn save(source: &Source, disk: &str, device: DeviceNumber) -> String {
    for number in 1..=MAX_FILES {
        let name = format!("{disk}-{number}.ftrace");
        match source.save(device, Path::new(&name)) {
            Ok(seconds) => {
                return format!("{name} has the last {seconds:.0} s; elevon inspect {name}");
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return format!("{name}: {error}"),
        }
    }
    format!("{disk}-1.ftrace to {disk}-{MAX_FILES}.ftrace exist; move some away")
}

fn is_end(key: KeyEvent, screen: &Screen) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    (key.code == KeyCode::Char('q') && !screen.is_typing())
        || (is_control && key.code == KeyCode::Char('c'))
}
