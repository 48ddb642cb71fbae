//! `elevon capture`: the block events of a device, as a trace.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use elevon_formats::quantity::{self, Short, memory_text};
use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, FileError, MachineError, ValueError};
use elevon_plan::output::{NewFile, folder_of};
use elevon_result::number::counted;
use elevon_trace::Recorded;
use elevon_trace::capture::{
    CaptureError, CaptureOptions, Disk, Recorder, Recording, Session, Tracefs, Written,
};
use elevon_trace::write::Packed;

use crate::args::CaptureArgs;
use crate::terminal::{emit_text, tell};

/// How often the kernel's buffers are emptied.
const PERIOD: Duration = Duration::from_millis(10);
/// Lengths of a recording in seconds that are accepted.
const SECONDS: std::ops::RangeInclusive<f64> = 0.001..=604_800.0;
/// Sizes of a CPU's buffer in KiB that are accepted.
const BUFFER_KB: std::ops::RangeInclusive<u64> = 64..=1 << 22;

/// A checked command.
struct Plan {
    disk: Disk,
    out: PathBuf,
    /// Without one, until a signal.
    time: Option<Duration>,
    buffer_kb: u64,
    tracefs: Tracefs,
}

pub(crate) fn capture(args: &CaptureArgs) -> Result<Ending, Failure> {
    let plan = plan(args)?;
    let out = NewFile::create("", &plan.out)?;
    let options = CaptureOptions { devices: vec![plan.disk.device], buffer_kb: plan.buffer_kb };
    // The kernel's files look different once something has changed them.
    let mut recorded = notes(&plan);
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let session = Session::new(plan.tracefs.clone(), &options).map_err(failure)?;
    for name in session.leftovers() {
        tell(&format!("removed the trace instance {name}, whose elevon had been killed"));
    }
    recorded.note("clock", session.clock());
    let recorder = Recorder::new(session, folder_of(&plan.out)).map_err(failure)?;
    let (recording, took) = record(recorder, &plan, &interrupt)?;
    recorded.note("seconds", &format!("{:.3}", took.as_secs_f64()));
    let lost: u64 = recording.lost().iter().map(|cpu| cpu.overwritten + cpu.dropped).sum();
    recorded.note("lost", &lost.to_string());
    say_lost(&plan, &recording);
    let written = write(&plan, out, recording, &recorded)?;
    report(&plan, took, lost, written)?;
    Ok(match interrupt.signal() {
        // Without an end of its own, a signal is the end.
        Some(signal) if plan.time.is_some() => Ending::Interrupted(signal),
        Some(_) | None => Ending::Done,
    })
}

fn plan(args: &CaptureArgs) -> Result<Plan, Failure> {
    let time = match args.seconds {
        Some(seconds) if !SECONDS.contains(&seconds) => {
            let (low, high) = SECONDS.into_inner();
            let expected = ValueError::expected(format!("seconds from {low} to {high}"));
            return Err(Failure::named(format!("--seconds {seconds}"), expected));
        }
        seconds => seconds.map(Duration::from_secs_f64),
    };
    let buffer_kb = buffer_kb(&args.buffer)?;
    let disk = Disk::of_node(&args.device, Path::new("/sys")).map_err(Failure::input)?;
    let out = args.out.clone();
    if std::fs::symlink_metadata(&out).is_ok() {
        return Err(Failure::named(out.display().to_string(), FileError::Exists));
    }
    let tracefs = match &args.tracefs {
        Some(path) => Tracefs::at(path.clone()),
        None => Tracefs::find().map_err(failure)?,
    };
    if let Some(partition) = disk.partition {
        tell(&format!(
            "{}: a partition; its disk {} is recorded, and elevon inspect {} --dev {partition} shows the partition",
            args.device.display(),
            disk.name,
            out.display()
        ));
    }
    if elevon_host::disk_of(folder_of(&out)).is_some_and(|name| name == disk.name) {
        tell(&format!(
            "{}: lies on {} itself: the trace will have the I/O of writing it, too",
            out.display(),
            disk.name
        ));
    }
    Ok(Plan { disk, out, time, buffer_kb, tracefs })
}

/// Reads `--buffer`.
pub(crate) fn buffer_kb(text: &str) -> Result<u64, Failure> {
    let kb = quantity::size(text, Short::Binary).ok().map(|size| size.get().div_ceil(1024));
    kb.filter(|kb| BUFFER_KB.contains(kb)).ok_or_else(|| {
        let expected =
            ValueError::expected("a size from 64K to 4G, or the same in KiB, MiB or GiB");
        Failure::named(format!("--buffer {text}"), expected)
    })
}

/// Notes the version of the kernel that runs.
pub(crate) fn note_kernel(recorded: &mut Recorded) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    recorded.note("kernel", &release);
}

/// What the head of the trace says.
fn notes(plan: &Plan) -> Recorded {
    let mut recorded = Recorded::default();
    note_kernel(&mut recorded);
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let quoted = shlex::try_join(words.iter().map(String::as_str));
    recorded.note("command", &quoted.unwrap_or_else(|_| words.join(" ")));
    recorded.note("buffer_kb", &plan.buffer_kb.to_string());
    plan.disk.note_settings(&mut recorded);
    recorded
}

/// Records until the time is over or a signal comes.
fn record(
    mut recorder: Recorder,
    plan: &Plan,
    interrupt: &Interrupt,
) -> Result<(Recording, Duration), Failure> {
    let begun = Instant::now();
    recorder.session().begin().map_err(failure)?;
    while !interrupt.is_set() {
        let left = plan.time.map(|time| time.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) {
            break;
        }
        std::thread::sleep(left.map_or(PERIOD, |left| left.min(PERIOD)));
        recorder.drain().map_err(failure)?;
    }
    let took = begun.elapsed();
    Ok((recorder.end().map_err(failure)?, took))
}

fn say_lost(plan: &Plan, recording: &Recording) {
    let cpus: Vec<String> = recording
        .lost()
        .iter()
        .map(|cpu| format!("{} on CPU {}", cpu.overwritten + cpu.dropped, cpu.cpu))
        .collect();
    if !cpus.is_empty() {
        tell(&format!(
            "events were lost: {}; a --buffer larger than {} keeps more",
            cpus.join(", "),
            memory_text(elevon_core::units::Bytes::new(plan.buffer_kb << 10))
        ));
    }
}

fn write(
    plan: &Plan,
    out: NewFile,
    recording: Recording,
    recorded: &Recorded,
) -> Result<Written, Failure> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull => {
            Failure::named(plan.out.display().to_string(), FileError::Full(error))
        }
        _ => NewFile::failure("", &plan.out, error),
    };
    let packed = Packed::new(&plan.out, out).map_err(fail)?;
    let (packed, written) = recording.write(packed, recorded).map_err(fail)?;
    let mut file = packed.finish().map_err(fail)?;
    file.flush().map_err(fail)?;
    file.commit(&[])?;
    Ok(written)
}

fn report(plan: &Plan, took: Duration, lost: u64, written: Written) -> Result<(), Failure> {
    let Written { events, unknown, plugs_of_others: _ } = written;
    let mut text = format!(
        "{} {}: {} in {:.1} s, {}\n",
        plan.disk.name,
        plan.disk.device,
        counted(events, "event"),
        took.as_secs_f64(),
        if lost == 0 { "none lost".to_owned() } else { format!("{lost} lost") }
    );
    if unknown > 0 {
        text.push_str(&format!("{unknown} records could not be decoded, and are left out\n"));
    }
    let size = std::fs::metadata(&plan.out).map_or(0, |file| file.len());
    text.push_str(&format!(
        "{}: {:.1} MB; elevon inspect {0}\n",
        plan.out.display(),
        size as f64 / 1e6
    ));
    emit_text(&text)
}

pub(crate) fn failure(error: CaptureError) -> Failure {
    match error {
        CaptureError::Io { .. } => MachineError::Capture(error).into(),
        CaptureError::NoTracefs
        | CaptureError::NotTracefs { .. }
        | CaptureError::Denied { .. }
        | CaptureError::NoBlockEvents { .. }
        | CaptureError::NoInstances { .. }
        | CaptureError::Layout(_)
        | CaptureError::Buffer { .. }
        | CaptureError::Spool { .. } => Failure::input(error),
    }
}
