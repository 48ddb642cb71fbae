//! How I/O travels in a run, as a value: the options of a stack, and the words that set them.

mod table;

use std::path::PathBuf;

use elevon_core::kernel::Kernel;
use elevon_core::nearest::nearest;

use crate::failure::{OptionError, VsError};

pub use table::{OPTIONS, OptionGroup, OptionRow, OptionValue};

/// The device unless given.
const DEFAULT_DEVICE: &str = "nvme-datacenter";
/// The scheduler if tenants share the device and nothing says otherwise.
pub const TENANTS_SCHEDULER: &str = "aileron";
/// The scheduler if nothing says otherwise.
pub(crate) const DEFAULT_SCHEDULER: &str = "none";
/// The kernel version if nothing says otherwise.
pub const DEFAULT_KERNEL: &str = Kernel::DEFAULT.name();
/// The seed unless given.
pub const DEFAULT_SEED: u64 = 1;

/// How I/O is treated on its way to the device, of a run and of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueOptions {
    /// The scheduler with tunables; `None` for the default.
    pub scheduler: Option<String>,
    /// The kernel version; `None` for the default.
    pub kernel: Option<String>,
    /// Settings, each `KEY=VALUE`.
    pub set: Vec<String>,
    /// Faults of the device.
    pub fault: Vec<String>,
    /// The file of tenants.
    pub tenants: Option<PathBuf>,
}

/// Options of jobs, which a trace does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOptions {
    /// Options over those of the job files, each `[JOB:]KEY=VALUE`.
    pub job_option: Vec<String>,
    /// CPU time of I/O in simulation.
    pub cpu_cost: Option<String>,
    /// Memory of the simulated machine.
    pub memory: Option<String>,
    /// Folder of the logs.
    pub log_dir: Option<PathBuf>,
    /// Folder from which job files may include.
    pub include_dir: Option<PathBuf>,
}

/// What decides how I/O travels: device, kernel, scheduler, settings. Values are texts as they were
/// given; a [`Plan`](crate::plan::Plan) checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct StackOptions {
    /// The device: a name, a model with parameters, `@FILE`, a path or an address.
    pub device: String,
    /// The way to the device.
    pub queue: QueueOptions,
    /// Seed of every random choice.
    pub seed: u64,
    /// Model of the memory behind user buffers; `None` for the default.
    pub buffers: Option<String>,
    /// Options of jobs.
    pub of_jobs: JobOptions,
    /// Page cache before a real device.
    pub cache: Option<String>,
    /// Priorities of the processes of a trace.
    pub ioprio: Vec<String>,
    /// The device is served: a page cache may stand before any kind of it. No option sets this.
    pub is_served: bool,
}

impl Default for StackOptions {
    fn default() -> Self {
        Self::of_device(DEFAULT_DEVICE)
    }
}

impl StackOptions {
    /// The defaults, with this device.
    pub fn of_device(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            queue: QueueOptions::default(),
            seed: DEFAULT_SEED,
            buffers: None,
            of_jobs: JobOptions::default(),
            cache: None,
            ioprio: Vec::new(),
            is_served: false,
        }
    }

    /// Takes a text of options over the defaults.
    ///
    /// # Errors
    /// As of [`Self::with_words`], or a quote in the text is not closed.
    pub fn of_text(text: &str) -> Result<Self, VsError> {
        let words = split_words(text)?;
        Self::default()
            .with_words(words)
            .map_err(|error| VsError::Option { text: text.to_owned(), error })
    }

    /// Returns these options with those of a `--vs` text.
    ///
    /// # Errors
    /// As of [`Self::with_words`], or the text has no words, or a quote in it is not closed.
    pub fn with(&self, text: &str) -> Result<Self, VsError> {
        let words = split_words(text)?;
        if words.is_empty() {
            return Err(VsError::Empty(text.to_owned()));
        }
        self.with_words(words).map_err(|error| VsError::Option { text: text.to_owned(), error })
    }

    /// Returns these options with those of words: `--KEY VALUE` or `--KEY=VALUE`. A value replaces
    /// the one here; those of options that may be repeated are added.
    ///
    /// # Errors
    /// A word is no option, a value is missing or no number, or an option is there twice.
    pub fn with_words(&self, words: impl IntoIterator<Item = String>) -> Result<Self, OptionError> {
        let mut all = self.clone();
        let mut given: Vec<&str> = Vec::new();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let (name, value) = word
                .split_once('=')
                .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            let row = row_of(name).ok_or_else(|| unknown(name, &word))?;
            let value = match value {
                Some(value) => value.to_owned(),
                None => words.next_if(|next| is_value(next, row)).ok_or_else(|| no_value(row))?,
            };
            let is_repeated = matches!(row.value, OptionValue::Texts(_));
            if given.contains(&row.name) && !is_repeated {
                return Err(OptionError::Twice { option: usage(row) });
            }
            given.push(row.name);
            all.set(row, value)?;
        }
        Ok(all)
    }

    /// Sets an option, or adds to it if it may be repeated.
    fn set(&mut self, row: &OptionRow, value: String) -> Result<(), OptionError> {
        match row.value {
            OptionValue::Word(of) => *of(self) = value,
            OptionValue::Number(of) => {
                *of(self) =
                    value.parse().map_err(|_| OptionError::NoNumber { option: row.name, value })?;
            }
            OptionValue::Text(of) => *of(self) = Some(value),
            OptionValue::Path(of) => *of(self) = Some(value.into()),
            OptionValue::Texts(of) => of(self).push(value),
        }
        Ok(())
    }

    /// Returns the value of an option as text; `None` if it has none, and for one that may be
    /// repeated.
    pub fn value_of(&self, name: &str) -> Option<String> {
        let row = OPTIONS.iter().find(|row| row.name == name)?;
        let mut own = self.clone();
        match row.value {
            OptionValue::Word(of) => Some(of(&mut own).clone()),
            OptionValue::Number(of) => Some(of(&mut own).to_string()),
            OptionValue::Text(of) => of(&mut own).clone(),
            OptionValue::Path(of) => of(&mut own).as_deref()?.to_str().map(str::to_owned),
            OptionValue::Texts(_) => None,
        }
    }

    /// The scheduler, with its default.
    pub fn scheduler(&self) -> &str {
        self.queue.scheduler.as_deref().unwrap_or(self.default_scheduler())
    }

    /// The scheduler if none is named: where tenants share the device, one that divides it. A plan
    /// has the default without tenants if io.cost divides it.
    pub(crate) const fn default_scheduler(&self) -> &'static str {
        if self.queue.tenants.is_some() { TENANTS_SCHEDULER } else { DEFAULT_SCHEDULER }
    }

    /// The kernel version, with its default.
    pub fn kernel(&self) -> &str {
        self.queue.kernel.as_deref().unwrap_or(DEFAULT_KERNEL)
    }
}

/// Returns the option that a word names.
fn row_of(word: &str) -> Option<&'static OptionRow> {
    let name = word.strip_prefix("--")?;
    OPTIONS.iter().find(|row| row.name == name)
}

/// Returns true if a word can follow an option as its value: a dash begins the next option.
fn is_value(word: &str, row: &OptionRow) -> bool {
    let is_negative = matches!(row.value, OptionValue::Number(_)) && word.parse::<f64>().is_ok();
    !word.starts_with('-') || word == "-" || is_negative
}

/// Writes an option as a usage line does.
fn usage(row: &OptionRow) -> String {
    format!("--{} <{}>", row.name, row.value_name)
}

fn no_value(row: &OptionRow) -> OptionError {
    OptionError::NoValue { option: usage(row) }
}

/// Returns the error for a word that is no option. `name` is what precedes its `=`.
fn unknown(name: &str, word: &str) -> OptionError {
    let Some(long) = name.strip_prefix("--") else {
        // A dash and letters are options of one letter each.
        let letters = if word.starts_with('-') { 2 } else { usize::MAX };
        return OptionError::Unknown { word: word.chars().take(letters).collect(), meant: None };
    };
    let meant = nearest(long, OPTIONS.iter().map(|row| row.name));
    OptionError::Unknown { word: name.to_owned(), meant: meant.map(str::to_owned) }
}

/// Splits words as a shell does.
///
/// # Errors
/// A quote is open.
pub fn split_words(text: &str) -> Result<Vec<String>, VsError> {
    shlex::split(text).ok_or_else(|| VsError::Quote(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> StackOptions {
        StackOptions::of_text("--device hdd-7200 --set hz=1000").expect("good options")
    }

    #[test]
    fn a_variant_replaces_scalars_and_adds_settings() {
        let vs = base()
            .with("--scheduler 'mq-deadline:fifo_batch=1' --set fill=trim")
            .expect("good options");
        assert_eq!((vs.device.as_str(), vs.scheduler()), ("hdd-7200", "mq-deadline:fifo_batch=1"));
        assert_eq!(
            (vs.queue.set, vs.queue.tenants),
            (vec!["hz=1000".to_owned(), "fill=trim".to_owned()], None)
        );
        let limited = base().with("--tenants a.toml").expect("good options");
        assert_eq!(limited.queue.tenants.as_deref(), Some(std::path::Path::new("a.toml")));
        assert_eq!(
            limited.with("--tenants b.toml").map(|vs| vs.queue.tenants),
            Ok(Some("b.toml".into()))
        );
        assert_eq!(
            limited.with("--kernel 6.1").map(|vs| vs.queue.tenants),
            Ok(Some("a.toml".into()))
        );
        let ranked = base()
            .with("--ioprio a=idle")
            .and_then(|vs| vs.with("--ioprio b=rt:0"))
            .expect("good options");
        assert_eq!(ranked.ioprio, ["a=idle", "b=rt:0"]);
    }

    #[test]
    fn a_bad_variant_is_one_line() {
        for (text, said) in [
            (
                "--sheduler none",
                "unexpected argument '--sheduler' found; a similar argument exists: '--scheduler'",
            ),
            (
                "--sheduler=none",
                "unexpected argument '--sheduler' found; a similar argument exists: '--scheduler'",
            ),
            ("-xy", "unexpected argument '-x' found"),
            ("--scheduler", "a value is required for '--scheduler <S>' but none was supplied"),
            (
                "--kernel --seed 1",
                "a value is required for '--kernel <VERSION>' but none was supplied",
            ),
            ("--seed 1 --seed=2", "the argument '--seed <N>' cannot be used multiple times"),
            ("--seed -1", "--seed -1: expected a whole number, such as 10"),
            (
                "bfq",
                "unexpected argument 'bfq' found; --vs takes options, such as '--scheduler bfq'; the job file is the same \
                 for all",
            ),
        ] {
            let error = base().with(text).expect_err(text).to_string();
            assert_eq!(error, format!("--vs '{text}': {said}"));
        }
        assert!(base().with("--scheduler 'none").is_err());
    }

    #[test]
    fn a_value_is_read_by_its_name() {
        let options =
            StackOptions::of_text("--tenants t.toml --fault a --seed=7").expect("good options");
        let value = |name: &str| options.value_of(name);
        assert_eq!(value("tenants").as_deref(), Some("t.toml"));
        assert_eq!(
            (value("seed").as_deref(), value("device").as_deref()),
            (Some("7"), Some(DEFAULT_DEVICE))
        );
        assert_eq!((value("fault"), value("kernel"), value("nothing")), (None, None, None));
        for row in OPTIONS {
            assert_eq!(
                StackOptions::default().value_of(row.name).as_deref(),
                row.default,
                "{}",
                row.name
            );
        }
    }
}
