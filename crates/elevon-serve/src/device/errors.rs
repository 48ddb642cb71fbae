//! Log lines about requests that failed. A device that is gone fails every request, so that lines
//! are limited to a few in a time, and the others are counted.

use elevon_core::status::Status;
use elevon_core::units::Instant;
use elevon_result::number::counted;

use super::client::Origin;
use crate::log::{Field, Level, Log, Record, Window};
use crate::request::{DiskRequest, Operation};

/// Whose a request is.
pub(super) struct Owner<'a> {
    pub(super) origin: &'a Origin,
    /// The path of the tenant that pays for it.
    pub(super) tenant: &'a str,
}

/// The log of a device's failed requests.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    device: String,
    log: Log,
    window: Window,
    /// Of what becomes of the device, which must not be lost among failed requests.
    news: Window,
    /// True if it was told that no flush succeeds any more.
    has_told_lost: bool,
}

impl ErrorLog {
    pub(crate) fn new(device: &str, log: Log) -> Self {
        Self {
            device: device.to_owned(),
            log,
            window: Window::default(),
            news: Window::default(),
            has_told_lost: false,
        }
    }

    /// Logs a request that has failed.
    pub(super) fn log_failed(
        &mut self,
        now: Instant,
        request: &DiskRequest,
        status: Status,
        owner: &Owner<'_>,
    ) {
        // What a device does not support is no error; a client is told.
        if status == Status::NotSupported {
            return;
        }
        if !self.is_told(now) {
            return;
        }
        let what = request.operation.name().to_uppercase();
        let place = if request.operation == Operation::Flush {
            String::new()
        } else {
            format!(" of {} bytes at byte {}", request.length, request.offset)
        };
        let (words, errno) = (status.log_words(), status.errno());
        let Owner { origin: Origin { connection, identity, export }, tenant } = owner;
        let (peer, whose) = (identity.who(), identity.who_with(export, tenant));
        let message = format!(
            "device {}: {what}{place} failed: {words} (errno {errno}), for {whose}; check the disk behind the device",
            self.device
        );
        let fields = [
            ("device", Field::Text(&self.device)),
            ("export", Field::Text(export)),
            ("tenant", Field::Text(tenant)),
            ("client", Field::Number((*connection).into())),
            ("peer", Field::Text(&peer)),
            ("op", Field::Text(request.operation.name())),
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
            "device {device}: what was written and not flushed may be lost: the last write-back failed: {words}; check the data before it is used"
        );
        self.error(&message, &[("device", Field::Text(device))]);
    }

    /// Says that the limits of tenants could not be lifted at the end.
    pub(super) fn limits_stay(&self, why: &str) {
        let device = &self.device;
        let message = format!(
            "device {device}: its limits cannot be lifted: {why}; the end waits for what they hold, and a second signal does not"
        );
        self.error(&message, &[("device", Field::Text(device))]);
    }

    /// Says, once, that no flush succeeds any more.
    pub(super) fn lost(&mut self) {
        if std::mem::replace(&mut self.has_told_lost, true) {
            return;
        }
        let device = &self.device;
        let message = format!(
            "device {device}: no flush succeeds until the server is started again, or a disk of another server is opened again (`elevon ctl reopen`): what was not flushed may not be durable"
        );
        self.error(&message, &[("device", Field::Text(device))]);
    }

    /// Lets it be told again that no flush succeeds.
    pub(super) const fn reopened(&mut self) {
        self.has_told_lost = false;
    }

    /// Logs what became of the device.
    pub(super) fn news(&mut self, now: Instant, level: Level, news: &str) {
        if self.news.enter(now) {
            let message = format!("device {}: {news}", self.device);
            let fields = [("device", Field::Text(&self.device))];
            (self.log)(&Record { level, target: "device", message: &message, fields: &fields });
        }
    }

    /// Returns when [`Self::handle_timers`] has something to log.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.window.ends_untold()
    }

    /// Logs how many requests had no line in a window that has ended.
    pub(super) fn handle_timers(&mut self, now: Instant) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.log_untold();
        }
    }

    /// Logs how many requests had no line until now.
    pub(super) fn log_untold(&mut self) {
        let untold = self.window.take_untold();
        if untold > 0 {
            let message = format!(
                "device {}: {} failed; elevon_request_errors of /metrics counts all",
                self.device,
                counted(untold, "more request")
            );
            self.error(
                &message,
                &[("device", Field::Text(&self.device)), ("count", Field::Number(untold))],
            );
        }
    }

    /// Returns true if there may be another line now, and counts what has none.
    fn is_told(&mut self, now: Instant) -> bool {
        self.handle_timers(now);
        self.window.enter(now)
    }

    fn error(&self, message: &str, fields: &[(&'static str, Field<'_>)]) {
        (self.log)(&Record { level: Level::Error, target: "device", message, fields });
    }
}
