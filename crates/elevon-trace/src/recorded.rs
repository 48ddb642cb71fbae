//! What a trace says of how it was recorded: the kernel, the device and its settings, the command.
//!
//! `elevon capture` and `elevon run --trace` write it as comments in the head of the text, a line
//! for each, and in blktrace's records as messages with the same text:
//!
//! ```text
//! # elevon capture 1
//! # kernel: 6.18.3
//! # device: 8:0
//! # queue/scheduler: none [mq-deadline] kyber bfq
//! # queue/iosched/read_expire: 500
//! ```
//!
//! Of a trace that something else recorded, a file beside it may say the same: `TRACE.settings`,
//! with lines `key:value` as `grep -r . dev size queue mq` prints them in `/sys/block/NAME`.

use crate::event::DeviceNumber;
use crate::read::cursor::Cursor;

/// The line that begins the notes of a real device's trace.
const CAPTURE: &str = "elevon capture ";
/// The line that begins the notes of a run's trace.
const RUN: &str = "elevon run ";
/// Version of the keys' meaning.
const VERSION: u32 = 1;
/// Lines that are kept; hostile files may have any number.
const MAX_LINES: usize = 1024;
/// Bytes of a line that are kept.
const MAX_LINE: usize = 4096;

/// Notes on how a trace was recorded: keys with values, in their order.
///
/// Keys that contain a slash are files of the device below `/sys/block/NAME`, such as
/// `queue/max_sectors_kb`. The others are `kernel`, `command`, `device`, `name`, `model`, `sectors`
/// in sectors of 512 bytes, `clock`, `seconds`, `buffer_kb` of each CPU, `lost`, and `version` of
/// the Elevon whose run it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// True for the trace of a run, false for one of a real device.
    of_run: bool,
    notes: Vec<(String, String)>,
}

impl Recorded {
    /// Begins the notes of a run's trace.
    pub fn of_run() -> Self {
        Self { of_run: true, notes: Vec::new() }
    }

    /// Notes a value. Line ends and other control characters become blanks.
    pub fn note(&mut self, key: &str, value: &str) {
        let clean = |text: &str| -> String {
            let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            text.trim().to_owned()
        };
        self.notes.push((clean(key), clean(value)));
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.notes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A value that is a whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// Every key with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The disk that was recorded.
    pub fn device(&self) -> Option<DeviceNumber> {
        self.get("device")?.parse().ok()
    }

    /// The scheduler that was in force: the one in brackets.
    pub fn scheduler(&self) -> Option<&str> {
        let all = self.get("queue/scheduler")?;
        match all.split_once('[') {
            Some((_, rest)) => rest.split_once(']').map(|(name, _)| name),
            // A device that knows one only.
            None => all.split_whitespace().next(),
        }
    }

    /// The scheduler's tunables.
    pub fn tunables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter_map(|(key, value)| Some((key.strip_prefix("queue/iosched/")?, value)))
    }

    /// Commands that the device takes at once: the driver tags of all its hardware queues.
    pub fn driver_tags(&self) -> Option<u64> {
        Some(self.tags_of_queues().sum()).filter(|&tags| tags > 0)
    }

    /// Number of hardware queues.
    pub fn hardware_queues(&self) -> u64 {
        self.tags_of_queues().count() as u64
    }

    fn tags_of_queues(&self) -> impl Iterator<Item = u64> {
        self.iter().filter_map(|(key, value)| {
            let queue = key.strip_prefix("mq/")?.strip_suffix("/nr_tags")?;
            queue.parse::<u32>().ok()?;
            value.parse::<u32>().ok().map(u64::from)
        })
    }

    /// The notes of a file beside a trace. Lines that are no `key:value` are left out.
    pub fn of_settings(text: &str) -> Self {
        let mut recorded = Self::default();
        for line in text.lines().filter(|line| line.len() <= MAX_LINE).take(MAX_LINES) {
            let line = line.trim().trim_start_matches("# ");
            if let Some((key, value)) = line.split_once(':') {
                let key = match key.trim() {
                    "dev" => "device",
                    "size" => "sectors",
                    key => key,
                };
                recorded.note(key, value);
            }
        }
        recorded
    }

    /// The lines, the title first, each without its line end.
    pub fn lines(&self) -> Vec<String> {
        let title = if self.of_run { RUN } else { CAPTURE };
        let notes = self.notes.iter().map(|(key, value)| format!("{key}: {value}"));
        std::iter::once(format!("{title}{VERSION}")).chain(notes).collect()
    }

    /// Takes a message of `device` in its trace. BFQ writes messages that begin with its name: it
    /// is the scheduler, if nothing else is known of that.
    pub(crate) fn read_message(
        found: &mut Option<Box<Self>>,
        device: DeviceNumber,
        message: &[u8],
    ) {
        if !message.starts_with(b"bfq")
            || found.as_ref().is_some_and(|known| known.scheduler().is_some())
        {
            return;
        }
        let recorded = found.get_or_insert_default();
        if recorded.device().is_none() {
            recorded.note("device", &device.to_string());
        }
        if recorded.device() == Some(device) {
            recorded.note("queue/scheduler", "[bfq]");
        }
    }

    /// Notes the scheduler of a line of text that may have a message, as blkparse and the tracer
    /// `blk` print it: `8,0 1 0 0.5 0  m   N bfq12S allocated`.
    pub(crate) fn read_message_line(found: &mut Option<Box<Self>>, line: &[u8]) {
        const MARK: &[u8] = b" m   N ";
        let Some(at) = memchr::memmem::find(line, MARK) else { return };
        let mut words = line[..at].split(|byte| byte.is_ascii_whitespace());
        let device = words.find_map(|word| Cursor::new(word).device().ok());
        if let Some((major, minor)) = device {
            Self::read_message(found, DeviceNumber::new(major, minor), &line[at + MARK.len()..]);
        }
    }

    /// Takes a comment of a text's head. Returns true if it is one of these lines: the title, or
    /// one that follows it.
    pub(crate) fn read_comment(found: &mut Option<Box<Self>>, comment: &[u8]) -> bool {
        comment.strip_prefix(b"# ").is_some_and(|line| Self::read_line(found, line))
    }

    /// Takes a line. Returns true if it is the title, or one that follows it.
    pub(crate) fn read_line(found: &mut Option<Box<Self>>, line: &[u8]) -> bool {
        if line.len() > MAX_LINE {
            return false;
        }
        let Some(line) = std::str::from_utf8(line).ok().map(str::trim_end) else { return false };
        for (title, of_run) in [(CAPTURE, false), (RUN, true)] {
            if line.strip_prefix(title).is_some_and(|version| version.parse::<u32>() == Ok(VERSION))
            {
                found.get_or_insert_default().of_run = of_run;
                return true;
            }
        }
        let Some(recorded) = found.as_mut().filter(|recorded| recorded.notes.len() < MAX_LINES)
        else {
            return false;
        };
        let Some((key, value)) = line.split_once(": ") else { return false };
        recorded.note(key, value);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_back_as_they_were() {
        let mut recorded = Recorded::default();
        for (key, value) in [
            ("kernel", "6.18.3"),
            ("command", "elevon capture /dev/sda 'a\nb'"),
            ("device", "8:0"),
            ("queue/scheduler", "none [mq-deadline] kyber bfq"),
            ("queue/iosched/read_expire", "500"),
            ("queue/nr_requests", "64"),
            ("mq/0/nr_tags", "31"),
            ("mq/1/nr_tags", "32"),
            ("mq/1/nr_reserved_tags", "1"),
        ] {
            recorded.note(key, value);
        }
        let mut read = None;
        assert!(!Recorded::read_line(&mut read, b"kernel: 1"), "before the title");
        for line in recorded.lines() {
            assert!(Recorded::read_line(&mut read, line.as_bytes()), "{line}");
        }
        assert!(!Recorded::read_comment(
            &mut read,
            b"#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION"
        ));
        let read = read.expect("notes");
        assert_eq!(*read, recorded);
        assert_eq!(read.get("command"), Some("elevon capture /dev/sda 'a b'"));
        assert_eq!(
            (read.device(), read.scheduler()),
            (Some(DeviceNumber::new(8, 0)), Some("mq-deadline"))
        );
        assert_eq!(read.tunables().collect::<Vec<_>>(), [("read_expire", "500")]);
        assert_eq!(
            (read.driver_tags(), read.hardware_queues(), read.number("queue/nr_requests")),
            (Some(63), 2, Some(64))
        );
        assert_eq!((read.get("queue/x"), read.number("kernel")), (None, None));
    }

    #[test]
    fn a_file_beside_a_trace_says_the_same() {
        let text = "dev:8:16\nsize:2048\nqueue/scheduler:[none] bfq\nmq/0/nr_tags:31\n# kernel: 6.1.5\nnothing\n";
        let recorded = Recorded::of_settings(text);
        assert_eq!(
            (recorded.device(), recorded.number("sectors")),
            (Some(DeviceNumber::new(8, 16)), Some(2048))
        );
        assert_eq!((recorded.scheduler(), recorded.driver_tags()), (Some("none"), Some(31)));
        assert_eq!((recorded.get("kernel"), recorded.iter().count()), (Some("6.1.5"), 5));
    }

    #[test]
    fn messages_tell_of_bfq() {
        let lines = [
            "  8,16   1        3     0.000000000   235  m   N cfq235S allocated",
            "             fio-235     [000] d..1.    57.447729: 8,16  1,0  m   N bfq235S allocated",
            "  8,0    1        3     0.000000000   235  m   N bfq235S allocated",
        ];
        let read = |lines: &[&str]| {
            let mut found = None;
            lines.iter().for_each(|line| Recorded::read_message_line(&mut found, line.as_bytes()));
            found.map(|found| (found.device(), found.scheduler().map(str::to_owned)))
        };
        let expected = |minor| Some((Some(DeviceNumber::new(8, minor)), Some("bfq".to_owned())));
        assert_eq!(
            (read(&lines[..1]), read(&lines), read(&lines[2..])),
            (None, expected(16), expected(0))
        );
        // What the head says counts.
        let mut found =
            Some(Box::new(Recorded::of_settings("dev:8:16\nqueue/scheduler:[none] bfq\n")));
        Recorded::read_message_line(&mut found, lines[1].as_bytes());
        assert_eq!(found.expect("notes").scheduler(), Some("none"));
    }

    #[test]
    fn a_device_without_schedulers_has_none() {
        let mut recorded = Recorded::default();
        assert_eq!(
            (recorded.scheduler(), recorded.driver_tags(), recorded.device()),
            (None, None, None)
        );
        recorded.note("queue/scheduler", "none");
        assert_eq!(recorded.scheduler(), Some("none"));
    }

    #[test]
    fn hostile_heads_are_bounded() {
        let mut read = None;
        Recorded::read_line(&mut read, b"elevon capture 1");
        for n in 0..2 * MAX_LINES {
            Recorded::read_line(&mut read, format!("k{n}: v").as_bytes());
        }
        assert!(!Recorded::read_line(&mut read, format!("k: {}", "v".repeat(MAX_LINE)).as_bytes()));
        assert_eq!(read.map(|read| read.notes.len()), Some(MAX_LINES));
        let mut other = None;
        assert!(
            !Recorded::read_line(&mut other, b"elevon capture 2"),
            "another version is not guessed at"
        );
    }
}
