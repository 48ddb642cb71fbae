//! Log lines about requests that failed. A device that is gone fails every request, so that lines
//! are limited to a few in a time, and the others are counted.

use elevon_core::status::Status;
use elevon_core::units::Instant;
use elevon_nbd::{Command, Request};

use super::counts::name;
use crate::log::{Field, Level, Log, Record, Window};

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
    window: Window,
}

impl ErrorLog {
    pub(crate) fn new(device: &str, log: Log) -> Self {
        Self { device: device.to_owned(), log, window: Window::default() }
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
        let (is_told, untold) = self.window.enter(now);
        if untold > 0 {
            let message = format!("device {}: {untold} more requests failed", self.device);
            self.error(&message, &[("device", Field::Text(&self.device)), ("count", Field::Number(untold))]);
        }
        is_told
    }

    fn error(&self, message: &str, fields: &[(&'static str, Field<'_>)]) {
        (self.log)(&Record { level: Level::Error, target: "device", message, fields });
    }
}
