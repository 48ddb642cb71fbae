//! Log lines about requests that failed. A device that is gone fails every request, so that lines
//! are limited to a few in a time, and the others are counted.

use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos};
use elevon_nbd::{Command, Request};

use super::counts::name;
use crate::log::{Field, Level, Log, Record};

/// Lines in a [`WINDOW`].
const MOST: u32 = 10;
/// A time in which there are at most [`MOST`] lines.
const WINDOW: Nanos = Nanos::from_secs(10);

/// Whose a request is.
pub(super) struct Owner<'a> {
    /// The number of the connection.
    pub(super) client: u32,
    pub(super) export: &'a str,
    pub(super) tenant: &'a str,
}

/// The log of a device's failed requests.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    device: String,
    log: Log,
    began: Instant,
    told: u32,
    untold: u64,
}

impl ErrorLog {
    pub(crate) fn new(device: &str, log: Log) -> Self {
        Self { device: device.to_owned(), log, began: Instant::ZERO, told: 0, untold: 0 }
    }

    /// Takes a request that is over.
    pub(super) fn take(&mut self, now: Instant, request: &Request, status: Status, owner: &Owner<'_>) {
        // What a device does not support is no error; a client is told.
        if status.is_ok() || status == Status::NotSupported {
            return;
        }
        if !self.is_told(now) {
            return;
        }
        let what = name(request.command).to_uppercase();
        let place = if request.command == Command::Flush {
            String::new()
        } else {
            format!(" of {} bytes at byte {}", request.length, request.offset)
        };
        let (words, errno) = (status.log_words(), status.errno());
        let message = format!("device {}: {what}{place} failed: {words} (errno {errno})", self.device);
        let fields = [
            ("device", Field::Text(&self.device)),
            ("export", Field::Text(owner.export)),
            ("tenant", Field::Text(owner.tenant)),
            ("client", Field::Number(owner.client.into())),
            ("op", Field::Text(name(request.command))),
            ("offset", Field::Number(request.offset)),
            ("bytes", Field::Number(request.length)),
            ("errno", Field::Number(errno.unsigned_abs().into())),
        ];
        self.error(&message, &fields);
    }

    /// Takes a write-back of so many bytes that failed.
    pub(super) fn write_back(&mut self, now: Instant, status: Status, bytes: u64) {
        if !self.is_told(now) {
            return;
        }
        let (words, errno, device) = (status.log_words(), status.errno(), &self.device);
        let message = format!(
            "device {device}: writing back {bytes} bytes of the page cache failed: {words} (errno {errno}); no flush succeeds until the server is started again"
        );
        let fields = [
            ("device", Field::Text(device)),
            ("bytes", Field::Number(bytes)),
            ("errno", Field::Number(errno.unsigned_abs().into())),
        ];
        self.error(&message, &fields);
    }

    /// Says that the write-back at the end failed.
    pub(super) fn not_written_back(&self, status: Status) {
        let (words, device) = (status.log_words(), &self.device);
        let message = format!(
            "device {device}: what was written and not flushed may be lost: the last write-back failed: {words}"
        );
        self.error(&message, &[("device", Field::Text(device))]);
    }

    /// Returns true if there may be another line now, and counts what has none.
    fn is_told(&mut self, now: Instant) -> bool {
        if now.since(self.began) >= WINDOW {
            if self.untold > 0 {
                let message = format!("device {}: {} more requests failed", self.device, self.untold);
                self.error(&message, &[("device", Field::Text(&self.device)), ("count", Field::Number(self.untold))]);
            }
            (self.began, self.told, self.untold) = (now, 0, 0);
        }
        if self.told == MOST {
            self.untold += 1;
            return false;
        }
        self.told += 1;
        true
    }

    fn error(&self, message: &str, fields: &[(&'static str, Field<'_>)]) {
        (self.log)(&Record { level: Level::Error, target: "device", message, fields });
    }
}
