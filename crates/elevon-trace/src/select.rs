//! A part of a trace: a window of time, some processes, some cgroups.

use elevon_core::nearest::did_you_mean;
use elevon_core::units::Nanos;

/// Maximum number of names that an error lists.
const MAX_NAMES: usize = 20;

/// What of a trace is looked at, or replayed. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Start of the window in nanoseconds since the first event of the device.
    pub from: Option<u64>,
    /// End of the window, likewise; what happens then is outside.
    pub until: Option<u64>,
    /// Names, ids, or names with ids of processes, as [`is_process`] takes them; empty for all.
    pub processes: Vec<String>,
    /// Ids of cgroups; empty for all.
    pub cgroups: Vec<u64>,
}

impl Selection {
    /// Returns true if all of the trace is selected.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if a window of time is selected.
    pub(crate) const fn has_window(&self) -> bool {
        self.from.is_some() || self.until.is_some()
    }

    /// Returns true if only some of the I/O of each moment is selected.
    pub const fn has_owners(&self) -> bool {
        !self.processes.is_empty() || !self.cgroups.is_empty()
    }

    /// Returns true if a time, since the first event of the device, is in the window.
    pub fn contains(&self, since: u64) -> bool {
        self.from.is_none_or(|from| since >= from) && self.until.is_none_or(|until| since < until)
    }

    /// Returns true if an I/O of a process and a cgroup is selected. `is_process` tells it of the
    /// process.
    pub(crate) fn has_owner(&self, is_process: bool, cgroup: Option<u64>) -> bool {
        let is_cgroup =
            || self.cgroups.is_empty() || cgroup.is_some_and(|id| self.cgroups.contains(&id));
        (self.processes.is_empty() || is_process) && is_cgroup()
    }

    /// Returns true if one of the processes has this name and id, or none is asked for.
    pub(crate) fn has_process(&self, name: Option<&str>, id: Option<u32>) -> bool {
        self.processes.is_empty()
            || self.processes.iter().any(|wanted| is_process(wanted, name, id))
    }

    /// Says it in a few words: `from 2s until 5s, process fio-4242`. Empty for all of the trace.
    pub fn words(&self) -> String {
        let time = |at: Option<u64>, word: &str| at.map(|at| format!("{word} {}", Nanos::new(at)));
        let window: Vec<String> =
            time(self.from, "from").into_iter().chain(time(self.until, "until")).collect();
        let list = |one: &str, names: Vec<String>| match &names[..] {
            [] => None,
            [name] => Some(format!("{one} {name}")),
            _ => Some(format!(
                "{one}{} {}",
                if one.ends_with('s') { "es" } else { "s" },
                names.join(" and ")
            )),
        };
        let parts = [
            (!window.is_empty()).then(|| window.join(" ")),
            list("process", self.processes.clone()),
            list("cgroup", self.cgroups.iter().map(ToString::to_string).collect()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Checks that each process and each cgroup that is asked for is there. `labels` are those of
    /// all processes with their names and ids.
    ///
    /// # Errors
    /// Returns an error for the first that is not, with those that are.
    pub(crate) fn check<'a>(
        &self,
        processes: impl Iterator<Item = (Option<&'a str>, Option<u32>)> + Clone,
        cgroups: &[u64],
    ) -> Result<(), SelectError> {
        for wanted in &self.processes {
            if !processes.clone().any(|(name, id)| is_process(wanted, name, id)) {
                let (meant, known) = meant_and_known(wanted, processes);
                return Err(SelectError::NoProcess { wanted: wanted.clone(), meant, known });
            }
        }
        if let Some(&wanted) = self.cgroups.iter().find(|id| !cgroups.contains(id)) {
            if cgroups.is_empty() {
                return Err(SelectError::NoCgroups { wanted });
            }
            let known: Vec<String> = cgroups.iter().map(ToString::to_string).collect();
            return Err(SelectError::NoCgroup { wanted, known: listed(&known) });
        }
        Ok(())
    }

    /// Returns the error for a window in which nothing that was asked for is. `before` and `after`
    /// are the nearest times at which there is some.
    pub(crate) fn nothing(&self, before: Option<u64>, after: Option<u64>) -> SelectError {
        let at = |time: Option<u64>| time.map(|time| Nanos::new(time).to_string());
        let nearest = match (at(before), at(after)) {
            (Some(before), Some(after)) => format!("the nearest is at {before} and at {after}"),
            (Some(one), None) => format!("the last is at {one}"),
            (None, Some(one)) => format!("the first is at {one}"),
            (None, None) => "there is none at any time".to_owned(),
        };
        SelectError::Nothing { what: self.words(), nearest }
    }
}

/// Why a selection cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A process is not in the trace.
    #[error("no process {wanted}{meant}; there are {known}")]
    NoProcess {
        /// What was asked for.
        wanted: String,
        /// What was probably meant, as the end of a sentence; may be empty.
        meant: String,
        /// The processes that there are.
        known: String,
    },
    /// A cgroup is not in the trace.
    #[error("no I/O of cgroup {wanted}; there are {known}")]
    NoCgroup {
        /// The id that was asked for.
        wanted: u64,
        /// The ids that there are.
        known: String,
    },
    /// The trace has no cgroups.
    #[error(
        "no I/O of cgroup {wanted}: its events name no cgroups; blktrace's have them with option blk_cgroup"
    )]
    NoCgroups {
        /// The id that was asked for.
        wanted: u64,
    },
    /// Nothing is in the window.
    #[error("no I/O {what}; {nearest}")]
    Nothing {
        /// What was asked for.
        what: String,
        /// When there is some.
        nearest: String,
    },
    /// The events have no times.
    #[error("its events have no times, so that no window of time can be selected")]
    Untimed,
}

/// Returns name and id in one word, as ftrace prints a task: `fio-4242`.
pub(crate) fn process_label(name: Option<&str>, id: Option<u32>) -> String {
    match (name, id) {
        (Some(name), Some(id)) => format!("{name}-{id}"),
        (Some(name), None) => name.to_owned(),
        (None, Some(id)) => format!("process-{id}"),
        (None, None) => "trace".to_owned(),
    }
}

/// Returns true if a text is the name of a process, its id, or its label (`process_label`).
pub fn is_process(text: &str, name: Option<&str>, id: Option<u32>) -> bool {
    name == Some(text)
        || id.is_some_and(|id| id.to_string() == text)
        || process_label(name, id) == text
}

/// Returns what a user probably meant that named a process which is not there, as the end of a
/// sentence, and a list of the processes that are.
pub fn meant_and_known<'a>(
    text: &str,
    processes: impl Iterator<Item = (Option<&'a str>, Option<u32>)> + Clone,
) -> (String, String) {
    let labels: Vec<String> = processes.clone().map(|(name, id)| process_label(name, id)).collect();
    let names = processes.filter_map(|(name, _)| name);
    (did_you_mean(text, names.chain(labels.iter().map(String::as_str))), listed(&labels))
}

/// Lists the first names, and says if there are more.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_in_three_ways() {
        for text in ["fio", "42", "fio-42"] {
            assert!(is_process(text, Some("fio"), Some(42)), "{text}");
        }
        assert!(
            !is_process("fio-4", Some("fio"), Some(42)) && !is_process("4", Some("fio"), Some(42))
        );
        assert!(is_process("process-7", None, Some(7)) && is_process("fio", Some("fio"), None));
    }

    #[test]
    fn it_is_said_in_words() {
        assert_eq!(Selection::default().words(), "");
        let window = Selection {
            from: Some(2_000_000_000),
            until: Some(5_500_000_000),
            ..Selection::default()
        };
        assert_eq!(window.words(), "from 2s until 5.5s");
        let all =
            Selection { processes: vec!["a".into(), "7".into()], cgroups: vec![42], ..window };
        assert_eq!(all.words(), "from 2s until 5.5s, processes a and 7, cgroup 42");
        let end = Selection { until: Some(1_000), cgroups: vec![1, 2], ..Selection::default() };
        assert_eq!(end.words(), "until 1us, cgroups 1 and 2");
    }

    #[test]
    fn a_window_has_its_start_and_not_its_end() {
        let window = Selection { from: Some(10), until: Some(20), ..Selection::default() };
        assert_eq!([9, 10, 19, 20].map(|at| window.contains(at)), [false, true, true, false]);
    }
}
