//! A run: a program in a real kernel, on a disk of a device model, in virtual time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use elevon_core::units::{Instant, Nanos};

use crate::clock::Calendar;
use crate::disk::Disk;
use crate::error::TwinError;
use crate::files::{self, FilePlace};
use crate::history::History;
use crate::image::Image;
use crate::launch;
use crate::machine::{Machine, Stop, Stream};
use crate::one_cpu::OneCpu;
use crate::script::{self, Prepare, Script, quote};
use crate::settings::Settings;
use crate::shared::SharedClock;

/// The time of day at the start of each run, in nanoseconds since 1970: 1 January 2026.
const EPOCH: u64 = 1_767_225_600_000_000_000;

/// The phases of a run: what came to the disk before the program, and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When the program began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// Steps of the disk's history before the program began.
    pub first: usize,
    /// Steps of the disk's history until it ended.
    pub last: usize,
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code of the program, 128 and more for a signal.
    pub status: i32,
    /// When the program ran.
    pub phase: Phase,
    /// What came to the disk.
    pub history: History,
    /// The bytes of the disk at the end.
    pub image: Image,
    /// The bytes of the files of [`Settings::take`]; nothing of one that is not there.
    pub taken: Vec<Vec<u8>>,
    /// How often each kind of fault has fired.
    pub faults: BTreeMap<&'static str, u64>,
    /// The block events of the program, if they were wanted.
    pub trace: Option<Trace>,
    /// The files of the disk when the program had ended, if they were wanted.
    pub files: Vec<FilePlace>,
    /// True if the program looked for a network that the kernel does not have.
    pub has_missed_network: bool,
    /// True if another run draws the same random numbers.
    pub is_repeatable: bool,
}

/// The block events of a program, by the kernel's own tracepoints.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The release of the kernel, such as `7.3.4`.
    pub release: String,
    /// The files of the disk in sysfs, as lines `key:value`.
    pub device: String,
    /// The text of the events, as tracefs has it.
    pub events: Vec<u8>,
}

impl Outcome {
    /// Returns how long the program took, in virtual time.
    pub fn duration(&self) -> Nanos {
        self.phase.end.since(self.phase.begin)
    }
}

/// Checks that the host has what a run needs, and that the disk can be made.
///
/// # Errors
/// As the steps of [`run`] before the kernel starts.
pub fn check(settings: &Settings) -> Result<(), TwinError> {
    Disk::new(&settings.disk, Image::default())?;
    launch::check_host(settings)
}

/// Runs the program on a new file system. `sink` takes what the program and the kernel write.
///
/// # Errors
/// The kernel cannot be started, breaks a protocol, or ends early; or a step before the program
/// failed.
pub fn run(settings: &Settings, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<Outcome, TwinError> {
    run_on(settings, Image::default(), Prepare::Make, None, sink)
}

/// Runs the program on a file system that a power cut has left; `input` is its standard input.
///
/// # Errors
/// As [`run`].
pub(crate) fn recover(
    settings: &Settings,
    image: Image,
    input: &[u8],
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, TwinError> {
    run_on(settings, image, Prepare::Recover, Some(input), sink)
}

fn run_on(
    settings: &Settings,
    image: Image,
    prepare: Prepare,
    input: Option<&[u8]>,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, TwinError> {
    let disk = Disk::new(&settings.disk, image)?;
    launch::check_host(settings)?;
    let _on_one_cpu = OneCpu::enter();
    let mut queue = settings.queue.clone();
    // The kernel's driver takes every disk for a rotational one.
    let rotational = u8::from(disk.description().limits.rotational).to_string();
    queue.insert(0, ("rotational".into(), rotational));
    let private = tempfile::Builder::new().prefix("elevon-twin-").tempdir()?;
    let folder = private.path();
    let program: Vec<String> = settings.program.iter().map(|word| quote(word)).collect();
    let script = Script {
        folder: text_of(&settings.folder)?,
        queue: &queue,
        system: settings.system,
        options: &settings.options,
        prepare,
        program: &program.join(" "),
        take: &settings.take,
        is_interactive: settings.is_interactive,
        input: input.map(|_| "input"),
        has_trace: settings.has_trace,
        has_files: settings.has_files,
    };
    write(&folder.join("init"), script.text().as_bytes())?;
    if let Some(input) = input {
        write(&folder.join("input"), input)?;
    }
    let clock = UnixListener::bind(folder.join("clock"))?;
    let driver = UnixListener::bind(folder.join("disk"))?;
    let process = launch::start(settings, folder, disk.description().queue_depth)?;
    let is_repeatable = process.is_repeatable;
    // A kernel that shares memory does not say by a message that a key made it want to run.
    let shared = if settings.is_interactive { None } else { SharedClock::new().ok() };
    let waits = (Calendar::new(EPOCH, shared), settings.patience);
    let mut machine = Machine::connect(process, &clock, driver, disk, waits, sink)?;
    let followed = follow(&mut machine, &folder.join("status"), settings.is_interactive);
    if followed.is_err() {
        machine.show_early();
    }
    let ended = followed?;
    Ok(gather(settings, folder, machine, ended, is_repeatable))
}

/// Returns the outcome of a run that has ended, with what the script has written to the folder.
fn gather(
    settings: &Settings,
    folder: &Path,
    machine: Machine<'_>,
    (phase, status): (Phase, i32),
    is_repeatable: bool,
) -> Outcome {
    let take = |index| fs::read(folder.join(format!("take-{index}"))).unwrap_or_default();
    let text = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let trace = settings.has_trace.then(|| Trace {
        release: text(script::RELEASE).trim().to_owned(),
        device: text(script::DEVICE),
        events: fs::read(folder.join(script::TRACE)).unwrap_or_default(),
    });
    let faults = machine.disk.faults();
    let (image, history) = machine.into_disk().into_parts();
    Outcome {
        status,
        phase,
        history,
        image,
        taken: (0..settings.take.len()).map(take).collect(),
        faults,
        trace,
        files: files::parse(&text(script::FILES)),
        has_missed_network: has_missed_network(&text(script::NETWORK)),
        is_repeatable,
    }
}

/// Returns true if the kernel had no route for a packet or a connection. `text` is that of
/// `/proc/net/snmp`: a line of names and a line of values for each protocol.
fn has_missed_network(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut fields = names.split_whitespace().zip(values.split_whitespace());
    fields.any(|(name, value)| name == "OutNoRoutes" && value != "0")
}

/// Runs the kernel until the script has ended. Returns when the program ran, and its status.
fn follow(
    machine: &mut Machine<'_>,
    status: &Path,
    is_interactive: bool,
) -> Result<(Phase, i32), TwinError> {
    let (begin, first) = next_mark(machine)?;
    if status.exists() {
        return Err(TwinError::Step);
    }
    machine.begin_program()?;
    if is_interactive {
        machine.open_terminal()?;
    }
    let (end, last) = next_mark(machine)?;
    next_mark(machine)?;
    let status = fs::read_to_string(status)?.trim().parse().map_err(|_| TwinError::Ended)?;
    Ok((Phase { begin, end, first, last }, status))
}

/// Runs the kernel until the script's next mark. Returns its time and the steps of the disk before.
fn next_mark(machine: &mut Machine<'_>) -> Result<(Instant, usize), TwinError> {
    match machine.run()? {
        Stop::Mark => Ok((machine.now(), machine.disk.history().events().len())),
        Stop::Ended => Err(TwinError::Ended),
    }
}

/// Returns a path as text, which the script needs.
fn text_of(path: &Path) -> Result<&str, TwinError> {
    let error = || io::Error::other("the name is not UTF-8");
    path.to_str().ok_or_else(|| TwinError::File { path: path.into(), error: error() })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TwinError> {
    fs::write(path, bytes).map_err(|error| TwinError::File { path: path.into(), error })
}
