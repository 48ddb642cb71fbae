//! `elevon twin`: a program in a real kernel on a simulated disk.

mod compare;
mod cuts;
mod page;
mod run;
mod trace;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use elevon_formats::quantity::{self, Short};
use elevon_plan::failure::{Ending, Failure, InputError, ValueError};
use elevon_twin::lab;
use elevon_twin::{DiskSpec, FileSystem, Settings, Stream, TwinError, find_kernel};

use crate::args::{TwinArgs, TwinCommand, TwinMachineArgs};
use crate::terminal::tell;

/// Sizes of the kernel's memory that are accepted.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=64 << 30;
/// The largest size of the disk that is accepted.
const MAX_SIZE: u64 = 16 << 40;

pub(crate) fn twin(args: &TwinArgs) -> Result<Ending, Failure> {
    match &args.command {
        Some(TwinCommand::Shell(machine)) => shell(machine),
        Some(TwinCommand::Compare(args)) => compare::compare(args),
        None => run::run(&args.run),
    }
}

/// A shell, whose terminal is this process's.
fn shell(machine: &TwinMachineArgs) -> Result<Ending, Failure> {
    let program = vec!["sh".to_owned(), "-i".to_owned()];
    let mut settings = settings(machine, program, machine.seed)?;
    settings.is_interactive = true;
    let outcome = lab::run(&settings, &mut pass_on).map_err(failure)?;
    ending(outcome.status)
}

/// Writes what the program writes.
fn pass_on(stream: Stream, bytes: &[u8]) {
    // A reader that is gone does not end the kernel; the exit status tells how the program ended.
    let _ = match stream {
        Stream::Output => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Stream::Error => std::io::stderr().write_all(bytes),
    };
}

/// Returns how the command ends if the program ended with this status.
fn ending(status: i32) -> Result<Ending, Failure> {
    match u8::try_from(status) {
        Ok(0) => Ok(Ending::Done),
        Ok(code) => Err(Failure::Told(code)),
        Err(_) => Err(Failure::Told(u8::MAX)),
    }
}

/// Makes the name of a program absolute if it is a path.
fn make_absolute(program: &mut String) -> Result<(), Failure> {
    if !program.contains('/') {
        return Ok(());
    }
    let path = std::path::absolute(&*program).and_then(|path| path.metadata().map(|_| path));
    match path.map(PathBuf::into_os_string) {
        Ok(path) => *program = path.to_string_lossy().into_owned(),
        Err(error) => return Err(Failure::named(program.as_str(), error)),
    }
    Ok(())
}

/// Returns the checked settings of a run.
fn settings(args: &TwinMachineArgs, program: Vec<String>, seed: u64) -> Result<Settings, Failure> {
    let queue = args.set.iter().map(|set| setting(set)).collect::<Result<Vec<_>, _>>()?;
    let Some(system) = FileSystem::from_name(&args.fs) else {
        let expected = ValueError::expected("ext4, xfs, f2fs, btrfs or none");
        return Err(Failure::named(format!("--fs {}", args.fs), expected));
    };
    let folder = match &args.folder {
        Some(folder) => folder
            .canonicalize()
            .map_err(|error| Failure::named(format!("--folder {}", folder.display()), error))?,
        None => std::env::current_dir().map_err(|error| Failure::named(".", error))?,
    };
    Ok(Settings {
        kernel: find_kernel(&args.kernel).map_err(failure)?,
        memory: size("--memory", &args.memory, &MEMORY)?,
        disk: DiskSpec {
            device: args.device.clone(),
            faults: args.fault.clone(),
            seed,
            size: size("--size", &args.size, &(system.least_size()..=MAX_SIZE))?,
        },
        queue,
        system,
        options: args.mount_options.clone(),
        folder,
        program,
        take: Vec::new(),
        has_trace: false,
        has_files: false,
        is_interactive: false,
        patience: Duration::from_secs(args.patience),
    })
}

/// Returns the size of an option.
fn size(option: &str, text: &str, range: &std::ops::RangeInclusive<u64>) -> Result<u64, Failure> {
    let size = quantity::size(text, Short::Binary).ok().map(|size| size.get());
    size.filter(|size| range.contains(size)).ok_or_else(|| {
        let (low, high) = (range.start() >> 20, range.end() >> 20);
        let expected = ValueError::expected(format!("a size from {low}MiB to {high}MiB"));
        Failure::named(format!("{option} {text}"), expected)
    })
}

/// Returns the file and the value of a `--set`.
fn setting(text: &str) -> Result<(String, String), Failure> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match text.split_once('=') {
        Some((file, value)) if is_name(file) => Ok((file.to_owned(), value.to_owned())),
        _ => {
            let expected = ValueError::expected("FILE=VALUE, such as scheduler=bfq");
            Err(Failure::named(format!("--set {text}"), expected))
        }
    }
}

/// Returns the failure of a run: input that cannot be used, or a kernel that did not do its work.
fn failure(error: TwinError) -> Failure {
    if error.is_input() {
        return Failure::input(InputError::Other(Box::new(error)));
    }
    tell(&error.to_string());
    Failure::Told(1)
}
