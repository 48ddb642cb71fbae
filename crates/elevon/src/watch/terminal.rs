//! The terminal of `elevon watch`: keys, signals, and a new second after each other.

use std::path::Path;
use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure};
use elevon_trace::DeviceNumber;
use elevon_watch::GroupBy;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::machine::Processes;
use super::screen::{Screen, draw};
use super::source::Source;
use super::what_if::WhatIf;

/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Traces of a disk that one folder may have.
const MAX_FILES: u32 = 99;

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
    let mut what_if: Option<WhatIf> = None;
    loop {
        if interrupt.is_set() {
            return Ok(Ending::Done);
        }
        let has_ended = source.take()?;
        if has_ended {
            processes.forget_old();
        }
        let mut is_changed = has_ended;
        if let Some(answer) = what_if.as_mut().and_then(WhatIf::answer) {
            what_if = None;
            screen.tell(answer);
            is_changed = true;
        }
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            if is_end(key, &screen) {
                return Ok(Ending::Done);
            }
            match (key.code, screen.device()) {
                (KeyCode::Char('S'), Some((disk, device))) if !screen.is_typing() => {
                    screen.tell(vec![save(source, disk, device)]);
                }
                (KeyCode::Char('w'), Some((disk, device))) if !screen.is_typing() => {
                    match WhatIf::begin(source, disk, device) {
                        Ok(begun) => {
                            screen.tell(vec![begun.words()]);
                            what_if = Some(begun);
                        }
                        Err(error) => screen.tell(vec![format!("cannot search: {error}")]),
                    }
                }
                (code, _) => screen.on_key(code),
            }
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
