//! `elevon top`: what the tenants of a server that runs do, and what holds them, second by second.

mod cache;
#[cfg(feature = "terminal")]
mod live;
mod rates;
#[cfg(feature = "terminal")]
mod screen;

use std::path::Path;
use std::time::Duration;

use elevon_plan::failure::{Ending, Failure, ValueError};
use serde_json::{Value, json};

use crate::args::TopArgs;
use crate::ctl::ask;
use crate::terminal::emit_text;
use rates::rates;

/// The interval that can be asked for, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;

pub(crate) fn top(args: &TopArgs) -> Result<Ending, Failure> {
    if !INTERVALS.contains(&args.interval) {
        let expected = ValueError::expected("seconds from 0.1 to 60");
        return Err(Failure::named(format!("--interval {}", args.interval), expected));
    }
    let interval = Duration::from_secs_f64(args.interval);
    let first = stats(&args.socket)?;
    #[cfg(feature = "terminal")]
    if !args.once && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return live::show(&args.socket, interval, first);
    }
    std::thread::sleep(interval);
    let devices = rates(&first, &stats(&args.socket)?);
    emit_text(&devices.iter().map(rates::table).collect::<String>())?;
    Ok(Ending::Done)
}

fn stats(socket: &Path) -> Result<Value, Failure> {
    ask(socket, &json!({ "command": "stats" }))
}
