//! Errors of the user's input: each is one line that names what was given and says what would be
//! right, and has a kind for code.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use elevon_core::limits::LimitsError;
use elevon_core::sched::SchedulerError;
use elevon_core::setting::SettingError;
use elevon_core::stack::BuildError;
use elevon_core::units::Nanos;
use elevon_formats::fio::{Diagnostic, SourceError};
use elevon_formats::serve::{BusyPollError, OnLossError, RequestMemoryError, SocketModeError};
use elevon_host::OpenError;
use elevon_serve::{AddressError, ServeError, TlsError, UpstreamAddressError, UpstreamError};
use elevon_sim::device::text::TextError;
use elevon_sim::memory::OutOfMemory;
use elevon_sim::profiles::DeviceError;
use elevon_trace::SelectError;
use elevon_trace::analysis::InspectError;
use elevon_trace::capture::{CaptureError, DiskError};
use elevon_trace::replay::WorkloadReadError;
use elevon_trace::served::ServedError;
use elevon_trace::write::WriteError;
use elevon_workload::WorkloadError;
use elevon_workload::settings::TenantSettingError;

/// Returns words about a name that looks like that of a file: there is none.
fn no_file(device: &str) -> &'static str {
    let is_like_file = std::path::Path::new(device).extension().is_some();
    if is_like_file { "No such file or directory, and " } else { "" }
}

/// Returns what a job can do besides about a device that cannot be opened.
fn of_a_job(error: &OpenError) -> &'static str {
    match error {
        OpenError::Empty { .. } => {
            ", or give the job size= (a job that writes then creates the file)"
        }
        OpenError::Io { path, error, .. } if error.kind() == io::ErrorKind::NotFound => {
            let is_there = |folder: &Path| folder.as_os_str().is_empty() || folder.is_dir();
            match path.parent().is_none_or(is_there) {
                true => {
                    "; name a file that exists, or give a job that writes size=, which creates the file"
                }
                false => "; its folder does not exist",
            }
        }
        OpenError::Kind { .. }
        | OpenError::Busy { .. }
        | OpenError::Served { .. }
        | OpenError::ReadOnly { .. }
        | OpenError::InUse { .. }
        | OpenError::Small { .. }
        | OpenError::Io { .. } => "",
    }
}

/// Returns what a server can be given in place of a path that is not there.
fn of_a_server(error: &OpenError) -> &'static str {
    match error {
        OpenError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => {
            "; name a file or a block device that exists, a simulated device such as hdd-7200, or a disk of another \
             server, nbd://HOST/EXPORT"
        }
        _ => "",
    }
}

impl InputError {
    /// Returns the line of an error about `--device` of a server, which has no jobs, without the
    /// option; `None` of any other error.
    pub fn of_served_device(&self) -> Option<String> {
        match self {
            Self::Open(error) => Some(format!("{error}{}", of_a_server(error))),
            other => other.to_string().strip_prefix("--device ").map(str::to_owned),
        }
    }
}

/// One error in the user's input; prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// An error at a place in a file.
    #[error(transparent)]
    Text(#[from] Diagnostic),
    /// A job that cannot run on the device.
    #[error(transparent)]
    Job(#[from] WorkloadError),
    /// An unknown device, or a parameter that the device does not accept.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Queue limits that contradict each other.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// Settings of the stack that contradict each other.
    #[error(transparent)]
    Stack(#[from] BuildError),
    /// A scheduler or a tunable of it.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// A list of `key=value`: of a fault, a memory model or a page cache.
    #[error(transparent)]
    Parameters(#[from] TextError),
    /// A mode of sockets that is none.
    #[error(transparent)]
    SocketMode(#[from] SocketModeError),
    /// For how long a thread is to poll.
    #[error(transparent)]
    BusyPoll(#[from] BusyPollError),
    /// What becomes of requests if a server is gone.
    #[error(transparent)]
    OnLoss(#[from] OnLossError),
    /// Memory for the data of requests.
    #[error(transparent)]
    RequestMemory(#[from] RequestMemoryError),
    /// A setting of a tenant.
    #[error(transparent)]
    Tenant(#[from] TenantSettingError),
    /// The file of an option cannot be read as text.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file of an option cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Device numbers of a trace.
    #[error(transparent)]
    DeviceNumber(#[from] elevon_trace::DeviceError),
    /// A name of a device where the trace can be read only once.
    #[error(
        "a trace from standard input is read only once, so a name in it cannot be looked up first; give the numbers of \
         the device, such as --dev 8:0, or a file"
    )]
    NameInStream,
    /// A trace that cannot be inspected.
    #[error(transparent)]
    Trace(#[from] InspectError),
    /// A trace that cannot be replayed.
    #[error(transparent)]
    Replay(#[from] WorkloadReadError),
    /// A trace to which no device can be fitted.
    #[error(transparent)]
    Calibrate(#[from] ServedError),
    /// A device that cannot be recorded.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// No address of a server.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A server that cannot be set up.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Files of TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No address of a disk of a server.
    #[error(transparent)]
    UpstreamAddress(#[from] UpstreamAddressError),
    /// A disk of a server that cannot be used.
    #[error("--device {0}")]
    Upstream(#[from] UpstreamError),
    /// An error about the device of `elevon serve FILE`, whose line names the file in place of the
    /// option.
    #[error("{line}")]
    Served {
        /// The line.
        line: String,
        /// The error as it is about `--device`.
        #[source]
        error: Box<Self>,
    },
    /// A path that names no disk to record.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A `--set` that is refused.
    #[error("--set {error}{hint}")]
    Setting {
        /// Why.
        #[source]
        error: SettingError,
        /// The setting that was probably meant, for the end of the line; may be empty.
        hint: String,
    },
    /// A `--trace` that cannot be written.
    #[error("--trace {0}")]
    TraceFile(#[source] WriteError),
    /// The trace of `elevon convert` has a name that cannot be written.
    #[error(transparent)]
    ConvertTo(WriteError),
    /// A trace without an event of the chosen device.
    #[error("it has no event of device {device}; there are {found}")]
    NoEventOf {
        /// The device.
        device: elevon_trace::DeviceNumber,
        /// The devices that have events.
        found: String,
    },
    /// A real `--device` that cannot be opened.
    #[error("--device {error}{more}", error = .0, more = of_a_job(.0))]
    Open(#[from] OpenError),
    /// A `--device` that is neither a known name nor a path.
    #[error(
        "--device {device}: {}{error}; for a file in this directory write ./{device}",
        no_file(device)
    )]
    NoDevice {
        /// The text.
        device: String,
        /// Why it is not a simulated device.
        #[source]
        error: DeviceError,
    },
    /// The memory model has no room for the buffers of the jobs.
    #[error("--buffers: {0}; use --buffers contiguous or a larger size")]
    Buffers(#[from] OutOfMemory),
    /// A value that its option does not accept.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A name that is not in a list.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A part of a trace that is not there.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A file that cannot be used by its option.
    #[error(transparent)]
    File(#[from] FileError),
    /// Options that contradict each other or the device.
    #[error(transparent)]
    Conflict(#[from] ConflictError),
    /// An error in the text of a `--vs`.
    #[error(transparent)]
    Vs(#[from] VsError),
    /// Words that are no options of a stack.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An error of which only a crate above this one knows.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// A server refuses a command, and has done nothing of it: a line of its answer.
    #[error("{0}")]
    Refused(String),
    /// An error with the option, file or command that it belongs to.
    #[error("{name}: {error}")]
    Named {
        /// Option and value, or file, as it was given.
        name: String,
        /// The error.
        #[source]
        error: Box<Self>,
    },
    /// An error in a variant.
    #[error("--vs '{vs}': {error}")]
    InVariant {
        /// The text that defines the variant.
        vs: String,
        /// The error.
        #[source]
        error: Box<Self>,
    },
}

/// Why an option does not accept a value. The line starts with option and value.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// The value does not have the described form, or is outside the described range.
    #[error("expected {0}")]
    Expected(Cow<'static, str>),
    /// The kernel version is not modelled.
    #[error("not modelled; there are {known}; {instead}")]
    NotModelled {
        /// The kernel versions that are.
        known: String,
        /// The version to choose instead.
        instead: String,
    },
    /// A fault that there is not, or that the device cannot have.
    #[error("{why}")]
    Fault {
        /// The rule, and what is wrong with it.
        why: String,
    },
    /// A key is given twice.
    #[error("key `{key}` is given twice")]
    GivenTwice {
        /// The key.
        key: String,
    },
    /// The first time of a range is later than the second.
    #[error("the first time must not be later than the second")]
    FirstIsLater,
    /// The lock is held for longer than the scheduler's CPU time for a request.
    #[error("longer than the scheduler's work on a request, {work}")]
    LockTooLong {
        /// CPU time of the scheduler for a request.
        work: Nanos,
    },
    /// There is too little memory for a page cache, or more than a machine may have.
    #[error("{left} bytes are left to the page cache; expected 4MiB or more, of at most 4TiB")]
    MemoryLeft {
        /// Memory in bytes without that of other programs.
        left: u64,
    },
    /// The idle memory of other programs exceeds all of their memory.
    #[error("idle={idle} is a part of others={others}; expected no more than that")]
    IdleAboveOthers {
        /// Bytes.
        idle: u64,
        /// Bytes.
        others: u64,
    },
    /// There is a zram but no memory that it could compress.
    #[error("zram takes idle memory only; expected others=SIZE,idle=SIZE with it")]
    ZramWithoutIdle,
    /// A real cache is larger than the memory of the machine.
    #[error("this machine has {memory} of memory; expected less than that")]
    LargerThanMachine {
        /// The memory of the machine, as text.
        memory: String,
    },
    /// The device takes no time.
    #[error("answers at once, so that nothing costs anything; give it a latency")]
    AnswersAtOnce,
}

impl ValueError {
    /// Returns the error for a value where `expected` was expected.
    pub fn expected(expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Expected(expected.into())
    }
}

/// A name that a command does not know.
#[derive(Debug, thiserror::Error)]
#[error("no {kind} {name}{meant}; there are {known}")]
pub struct UnknownName {
    /// Kind of thing that the name would denote.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The name that was probably meant; may be empty.
    pub meant: String,
    /// The known names.
    pub known: String,
}

/// Why a file cannot be used by its option. The line starts with option and path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The output is a directory.
    #[error("is a directory; name a file")]
    Directory,
    /// The output is `-`, which stands for standard input or output elsewhere.
    #[error("must be a file; /dev/stdout is the standard output, and ./- a file of that name")]
    Dash,
    /// The output is a block device.
    #[error("is a block device; name a file")]
    BlockDevice,
    /// A folder was expected and the path is something else.
    #[error("is not a directory; name a folder")]
    NotADirectory,
    /// There is no such folder.
    #[error("no such folder; {0}")]
    NoFolder(&'static str),
    /// There is no file of that name.
    #[error("no such file; {0}")]
    NoFile(&'static str),
    /// A file that must be new exists.
    #[error("exists; name a new file, or remove it first")]
    Exists,
    /// The disk of the file is full.
    #[error("{0}; free some space there, or write elsewhere")]
    Full(#[source] io::Error),
    /// The path cannot be written.
    #[error("cannot write there: {0}")]
    CannotWrite(#[source] io::Error),
    /// The file at the path cannot be replaced.
    #[error("cannot write {}: {why}", path.display())]
    CannotReplace {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        why: Irreplaceable,
    },
    /// The file is used twice.
    #[error("is the same file as {other}{}", .clash.advice())]
    SameFile {
        /// The other option and path.
        other: String,
        /// Why the uses exclude each other.
        clash: Clash,
    },
    /// The file would be written as a device and does not have the size of one.
    #[error(
        "has {bytes} bytes, no multiple of 512, so it is no image of a disk, and a job that writes would spoil it; name \
         another file, or one that does not exist yet"
    )]
    NoImage {
        /// Size of the file in bytes.
        bytes: u64,
    },
    /// The file is not text.
    #[error("not a text in UTF-8")]
    NotText,
    /// The name of a file cannot be part of a report.
    #[error("its name is no UTF-8; rename it, or give it by - (stdin)")]
    NameNotText,
}

/// Why a file cannot be replaced by a new one.
#[derive(Debug, thiserror::Error)]
pub enum Irreplaceable {
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// It is a block device.
    #[error("is a block device")]
    BlockDevice,
    /// It is something else that is not a regular file.
    #[error("is no regular file")]
    Irregular,
    /// It cannot be opened for writing.
    #[error(transparent)]
    Io(io::Error),
}

/// Two uses of one file that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both uses write the file.
    BothWrite,
    /// The file named second overwrites the first.
    Overwrites,
    /// The file named second is overwritten by the first.
    IsOverwritten,
    /// One use is as a device, the other reads text.
    DeviceAsText,
}

impl Clash {
    const fn advice(self) -> &'static str {
        match self {
            Self::BothWrite => "; give each its own",
            Self::Overwrites => ", which it would overwrite; name another",
            Self::IsOverwritten => ", which would overwrite it; name another",
            Self::DeviceAsText => "; a device is no text to be read",
        }
    }
}

/// Options that contradict each other or the device. The line starts with option and value, except
/// for the last kind.
#[derive(Debug, thiserror::Error)]
pub enum ConflictError {
    /// A setting of the page cache in a run without one.
    #[error(
        "needs a page cache; give --memory, such as --memory 4GiB, or before a real device --cache"
    )]
    NeedsPageCache,
    /// A setting of the page cache of a server's device without one.
    #[error("needs a page cache; give the device one, such as cache = \"1GiB\" or --cache 1GiB")]
    NeedsServedCache,
    /// A control of experiments before a real device.
    #[error(
        "is a control of simulated experiments (--memory); with --cache use off, iter-bio, add-page or page-exact"
    )]
    SimulatedControl,
    /// A setting was given twice with different values.
    #[error("{other} says otherwise; give it once")]
    SaysOtherwise {
        /// The other option and its value.
        other: String,
    },
    /// An option of simulated devices with a real one.
    #[error("{why}; {device} is real")]
    SimulatedOnly {
        /// Why a real device does not have the option.
        why: &'static str,
        /// The device.
        device: String,
    },
    /// `--memory` with a real device.
    #[error(
        "only a simulated machine has it; {device} is real, and --cache SIZE puts a page cache before it"
    )]
    MemoryOfReal {
        /// The device.
        device: String,
    },
    /// A job that writes, and a disk that cannot be written.
    #[error("is read-only, and a job writes")]
    ReadOnly,
    /// `--cache` with a disk of a server.
    #[error("stands before a file or block device; {device} is a disk of a server")]
    CacheOfNbd {
        /// The device.
        device: String,
    },
    /// `--cache` with a simulated device.
    #[error(
        "stands before a real device; {device} is simulated, and --memory SIZE gives its machine a page cache"
    )]
    CacheOfSimulated {
        /// The device.
        device: String,
    },
    /// `--cache` with a device whose blocks are larger than pages.
    #[error(
        "{device} cannot be cached: its blocks of {block} bytes are larger than a page of 4096"
    )]
    CannotBeCached {
        /// The device.
        device: String,
        /// Its logical blocks in bytes.
        block: u32,
    },
    /// Retries on a real device.
    #[error(
        "{device} is real: the kernel below has tried already, and its answer is final; only 0 is right"
    )]
    RetriesOfReal {
        /// The device.
        device: String,
    },
    /// A limit that two settings set.
    #[error(
        "tenant {tenant} has {rate} in io.max and in limit, which then set the same limit; give it in one of them"
    )]
    LimitedTwice {
        /// The path of the tenant.
        tenant: String,
        /// The key of the limit.
        rate: &'static str,
    },
    /// An option without effect on a replay.
    #[error("{why}, so a replay takes none{instead}")]
    NotInReplay {
        /// Why.
        why: &'static str,
        /// What to do in its place, as the end of the line; may be empty.
        instead: &'static str,
    },
    /// `--ioprio` without a trace.
    #[error(
        "ranks a process of a trace; a job has prioclass= and prio=, as in --job-option JOB:prioclass=3"
    )]
    IoprioOfJobs,
    /// A closed loop of a trace without completions.
    #[error(
        "{trace} has no completions to wait for, so that its loop cannot be closed; leave --closed out, or record \
         completions, too"
    )]
    NoCompletions {
        /// The trace.
        trace: String,
    },
    /// Repeated writes of a trace on a real device.
    #[error("writes of a trace are repeated on a simulated device only")]
    RepeatedWrites,
    /// No virtual time passes in the run, which ends only by time.
    #[error(
        "time does not pass: I/O costs nothing and a job ends by time only; give the device a latency, or the process \
         a --cpu-cost"
    )]
    TimeStandsStill,
}

/// Why words are no options of a stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// A word is no option.
    #[error("unexpected argument '{word}' found{}", similar(.meant.as_deref()))]
    Unknown {
        /// The word.
        word: String,
        /// The option that was probably meant, without dashes.
        meant: Option<String>,
    },
    /// An option has no value.
    #[error("a value is required for '{option}' but none was supplied")]
    NoValue {
        /// The option with the name of its value.
        option: String,
    },
    /// An option is there twice and takes one value.
    #[error("the argument '{option}' cannot be used multiple times")]
    Twice {
        /// The option with the name of its value.
        option: String,
    },
    /// The value of an option is no number.
    #[error("--{option} {value}: expected a whole number, such as 10")]
    NoNumber {
        /// The option, without dashes.
        option: &'static str,
        /// The value.
        value: String,
    },
}

fn similar(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; a similar argument exists: '--{meant}'"))
}

/// Why the text of a `--vs` does not define a variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VsError {
    /// A quotation mark is not closed.
    #[error("--vs '{0}': a quote is not closed, or nothing follows a backslash")]
    Quote(String),
    /// The text has no words.
    #[error("--vs '{0}': expected options that make another stack, such as '--kernel 6.1'")]
    Empty(String),
    /// An option or its value is wrong.
    #[error("--vs '{text}': {error}{}", instead_of(.error))]
    Option {
        /// The text.
        text: String,
        /// What is wrong.
        #[source]
        error: OptionError,
    },
}

/// Returns what a `--vs` takes, for one that holds a word that is no option.
fn instead_of(error: &OptionError) -> &'static str {
    match error {
        OptionError::Unknown { word, .. } if !word.starts_with('-') => {
            "; --vs takes options, such as '--scheduler bfq'; the job file is the same for all"
        }
        _ => "",
    }
}
