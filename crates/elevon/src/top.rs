//! `elevon top`: what the tenants of a server that runs do, and what holds them, second by second.

mod cache;
mod rates;
mod screen;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError, ValueError};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::{Value, json};

use crate::args::TopArgs;
use crate::ctl::ask;
use crate::terminal::emit_text;
use rates::rates;
use screen::{Screen, draw};

/// The interval that can be asked for, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;
/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn top(args: &TopArgs) -> Result<Ending, Failure> {
    if !INTERVALS.contains(&args.interval) {
        let expected = ValueError::expected("seconds from 0.1 to 60");
        return Err(Failure::named(format!("--interval {}", args.interval), expected));
    }
    let interval = Duration::from_secs_f64(args.interval);
    let first = stats(&args.socket)?;
    if args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(interval);
        let devices = rates(&first, &stats(&args.socket)?);
        emit_text(&devices.iter().map(rates::table).collect::<String>())?;
        return Ok(Ending::Done);
    }
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    // Its line would stand in the middle of the screen.
    interrupt.silence();
    let mut terminal = ratatui::try_init()?;
    let watched = watch(&mut terminal, &args.socket, interval, first, &interrupt);
    // Whatever happened, the terminal is given back.
    ratatui::restore();
    watched
}

fn stats(socket: &Path) -> Result<Value, Failure> {
    ask(socket, &json!({ "command": "stats" }))
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
            if event::poll(LOOK.min(interval))? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        if is_end(key) {
                            return Ok(Ending::Done);
                        }
                        screen.on_key(key.code);
                    }
                    _ => {}
                }
                terminal.draw(|frame| draw(frame, &screen))?;
            }
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
