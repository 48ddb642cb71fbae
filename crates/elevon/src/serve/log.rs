//! The log of a server on stderr: as text, as a line of JSON for each record, or as the journal of
//! systemd takes it.
//!
//! A thread writes it, because whoever reads stderr may stop reading, and a device or a connection
//! must not wait for that. Up to [`WAITING`] lines wait to be written; those beyond are counted.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use elevon_plan::failure::{Failure, printable, shown, without_numbers};
use elevon_result::number::{self, counted};
use elevon_serve::{Field, Level, Record};
use serde_json::{Map, Value, json};

use crate::args::{LogFormat, LogLevel, ServeArgs};

/// Lines that may wait to be written.
const WAITING: usize = 1024;

/// How long the end of the server waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

const LOCK: &str = "no thread panics with the lock";

/// The log of the process.
struct Writer {
    format: LogFormat,
    /// The least grave level that is logged.
    level: Level,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// The lines that wait to be written.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// Lines for which there was no room.
    lost: u64,
    /// The thread writes lines that it has taken.
    is_writing: bool,
}

static LOG: OnceLock<Writer> = OnceLock::new();

/// Sets how the process logs, and starts the thread that writes. Until then nothing is logged.
pub(super) fn start(args: &ServeArgs) -> std::io::Result<()> {
    let level = match args.log_level {
        LogLevel::Error => Level::Error,
        LogLevel::Warning => Level::Warning,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    };
    let format = args
        .log_format
        .unwrap_or_else(|| if is_journal() { LogFormat::Journal } else { LogFormat::Text });
    // A process has one server.
    let writer = LOG.get_or_init(|| Writer {
        format,
        level,
        waiting: Mutex::default(),
        changed: Condvar::new(),
    });
    std::thread::Builder::new().name("log".into()).spawn(|| writer.run()).map(drop)
}

/// Waits until the last lines are written, or for [`LAST_LINES`].
pub(super) fn finish() {
    let Some(writer) = LOG.get() else { return };
    let waiting = writer.waiting.lock().expect(LOCK);
    let is_open = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
    drop(writer.changed.wait_timeout_while(waiting, LAST_LINES, is_open));
}

/// Returns the format of the log.
pub(super) fn format() -> LogFormat {
    LOG.get().map_or(LogFormat::Text, |writer| writer.format)
}

/// Returns true if stderr is the journal's: systemd names its device and inode.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = std::fs::metadata("/proc/self/fd/2");
    stderr.is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// Logs a record. It never waits for the reader of the log.
pub(super) fn log(record: &Record<'_>) {
    if let Some(writer) = LOG.get().filter(|writer| record.level <= writer.level) {
        let line = line(writer.format, record, now());
        let mut waiting = writer.waiting.lock().expect(LOCK);
        if waiting.lines.len() < WAITING {
            waiting.lines.push_back(line);
            writer.changed.notify_all();
        } else {
            waiting.lost += 1;
        }
    }
}

/// Returns the microseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

impl Writer {
    /// Writes lines to stderr until the process ends. An error is ignored, because there is no
    /// other place for it.
    fn run(&self) {
        let mut waiting = self.waiting.lock().expect(LOCK);
        loop {
            waiting.is_writing = false;
            self.changed.notify_all();
            waiting =
                self.changed.wait_while(waiting, |waiting| waiting.lines.is_empty()).expect(LOCK);
            let mut text = String::from_iter(waiting.lines.drain(..));
            let lost = std::mem::take(&mut waiting.lost);
            if lost > 0 {
                let message =
                    format!("lost {} of the log: its reader was too slow", counted(lost, "record"));
                text += &line(self.format, &Record::new(Level::Warning, "server", &message), now());
            }
            waiting.is_writing = true;
            drop(waiting);
            let _ = std::io::stderr().write_all(text.as_bytes());
            waiting = self.waiting.lock().expect(LOCK);
        }
    }
}

/// Logs warnings about the configuration.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        log(&Record::new(Level::Warning, CONFIGURATION, warning));
    }
}

/// Logs why the server cannot go on, if the log has a form that the failure's own lines would
/// break.
pub(super) fn fail(failure: Failure) -> Failure {
    if format() == LogFormat::Text || failure.is_broken_pipe() {
        return failure;
    }
    let code = failure.code();
    for message in failure.to_string().lines() {
        let message = message.strip_prefix("elevon: ").unwrap_or(message);
        log(&Record::new(Level::Error, "server", message));
    }
    Failure::Told(code)
}

/// The target of what is said of the configuration before it is served.
const CONFIGURATION: &str = "configuration";

/// Returns a record as a line, with its end. `micros` is the time since 1970 in microseconds.
fn line(format: LogFormat, record: &Record<'_>, micros: u64) -> String {
    let warning = if record.target == CONFIGURATION { "warning: " } else { "" };
    match format {
        LogFormat::Text => {
            format!("elevon: {}\n", one_line(&format!("{warning}{}", record.message)))
        }
        LogFormat::Journal => {
            let priority = match record.level {
                Level::Error => 3,
                Level::Warning => 4,
                Level::Info => 6,
                Level::Debug => 7,
            };
            format!("<{priority}>{}\n", one_line(record.message))
        }
        LogFormat::Json => {
            let level = match record.level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Info => "info",
                Level::Debug => "debug",
            };
            let mut object = Map::new();
            for (key, value) in [
                ("time", number::timestamp(micros)),
                ("level", level.to_owned()),
                ("target", record.target.to_owned()),
                ("message", without_numbers(record.message).into_owned()),
            ] {
                object.insert(key.to_owned(), Value::String(value));
            }
            for (key, field) in record.fields {
                let value = match field {
                    Field::Text(text) => json!(text),
                    Field::Number(number) => json!(number),
                };
                object.insert((*key).to_owned(), value);
            }
            format!("{}\n", Value::Object(object))
        }
    }
}

/// Returns a message as a terminal and the journal can show it: one line, not too long.
fn one_line(message: &str) -> String {
    printable(&shown(message)).replace('\n', "\\x0a")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_in_every_format() {
        let fields = [
            ("device", Field::Text("fast \"1\"")),
            ("export", Field::Text("a")),
            ("client", Field::Number(3)),
            ("errno", Field::Number(5)),
        ];
        let failed = Record {
            level: Level::Error,
            target: "device",
            message: "READ failed:\n\u{1b}[2J",
            fields: &fields,
        };
        let warned = Record::new(Level::Warning, CONFIGURATION, "c.toml:3: export.a: shares bytes");
        let done = Record::new(Level::Info, "reload", "reloaded");
        let opened = Record::new(Level::Debug, "connection", "connection 3: opened a");
        let all: String = [LogFormat::Text, LogFormat::Journal, LogFormat::Json]
            .into_iter()
            .flat_map(|format| {
                [failed, warned, done, opened]
                    .map(|record| line(format, &record, 1_795_257_515_844_007))
            })
            .collect();
        insta::assert_snapshot!(all, @r#"
        elevon: READ failed:\x0a\x1b[2J
        elevon: warning: c.toml:3: export.a: shares bytes
        elevon: reloaded
        elevon: connection 3: opened a
        <3>READ failed:\x0a\x1b[2J
        <4>c.toml:3: export.a: shares bytes
        <6>reloaded
        <7>connection 3: opened a
        {"time":"2026-11-21T10:38:35.844007Z","level":"error","target":"device","message":"READ failed:\n\u001b[2J","device":"fast \"1\"","export":"a","client":3,"errno":5}
        {"time":"2026-11-21T10:38:35.844007Z","level":"warning","target":"configuration","message":"c.toml:3: export.a: shares bytes"}
        {"time":"2026-11-21T10:38:35.844007Z","level":"info","target":"reload","message":"reloaded"}
        {"time":"2026-11-21T10:38:35.844007Z","level":"debug","target":"connection","message":"connection 3: opened a"}
        "#);
    }
}
