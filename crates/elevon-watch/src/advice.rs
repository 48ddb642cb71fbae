//! Settings of a disk that its kind would want otherwise.

use elevon_trace::Recorded;

/// A remark on a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file below `/sys/block/NAME`, such as `queue/scheduler`.
    pub file: &'static str,
    /// The remark in one sentence, with what to try.
    pub text: String,
}

/// The largest request that a disk without seeks needs for its full throughput, in KiB.
const ENOUGH_KB: u64 = 128;
/// Requests below which writers of a few processes wait for each other. The kernel's default is 64
/// or more.
const FEW_REQUESTS: u64 = 16;

/// Returns remarks on the settings of a disk's queue, as
/// [`elevon_trace::capture::Disk::note_settings`] notes them; none if its kind has no wish.
pub fn notes_on_settings(settings: &Recorded) -> Vec<Note> {
    let mut notes = Vec::new();
    let number = |key: &str| settings.number(key);
    // A loop device says what its file lies on, and its requests are no seeks.
    let is_loop = settings.get("name").is_some_and(|name| name.starts_with("loop"));
    let is_rotational = number("queue/rotational") == Some(1) && !is_loop;
    if is_rotational && settings.scheduler() == Some("none") {
        let text = "queue/scheduler is none on a rotational disk: its seeks are in the order of \
            arrival; try mq-deadline or bfq";
        notes.push(Note { file: "queue/scheduler", text: text.to_owned() });
    }
    let (max, hw) = (number("queue/max_sectors_kb"), number("queue/max_hw_sectors_kb"));
    if let Some((max, hw)) = max.zip(hw).filter(|&(max, hw)| max < hw && max < ENOUGH_KB) {
        let text = format!(
            "queue/max_sectors_kb is {max} of {hw}: large I/Os are cut into many requests; try {}",
            hw.min(1280)
        );
        notes.push(Note { file: "queue/max_sectors_kb", text });
    }
    if let Some(requests) = number("queue/nr_requests").filter(|&count| count < FEW_REQUESTS) {
        let text = format!(
            "queue/nr_requests is {requests}: processes wait for a request before the scheduler \
             sees their I/O; try 64 or more"
        );
        notes.push(Note { file: "queue/nr_requests", text });
    }
    if number("queue/iostats") == Some(0) {
        let text = "queue/iostats is 0: iostat and /proc/diskstats show no utilisation; try 1";
        notes.push(Note { file: "queue/iostats", text: text.to_owned() });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Recorded {
        let mut recorded = Recorded::default();
        values.iter().for_each(|(key, value)| recorded.note(key, value));
        recorded
    }

    #[test]
    fn only_settings_that_the_kind_of_disk_would_want_otherwise_are_named() {
        let usual = [
            ("queue/rotational", "1"),
            ("queue/scheduler", "none [mq-deadline] bfq"),
            ("queue/max_sectors_kb", "1280"),
            ("queue/max_hw_sectors_kb", "32767"),
            ("queue/nr_requests", "64"),
            ("queue/iostats", "1"),
        ];
        assert_eq!(notes_on_settings(&settings(&usual)), []);
        let odd = [
            ("queue/rotational", "1"),
            ("queue/scheduler", "[none] mq-deadline"),
            ("queue/max_sectors_kb", "4"),
            ("queue/max_hw_sectors_kb", "1024"),
            ("queue/nr_requests", "4"),
        ];
        let files: Vec<&str> =
            notes_on_settings(&settings(&odd)).iter().map(|note| note.file).collect();
        assert_eq!(files, ["queue/scheduler", "queue/max_sectors_kb", "queue/nr_requests"]);
    }
}
