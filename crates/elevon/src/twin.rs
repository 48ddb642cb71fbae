//! `elevon twin`: a program in a real kernel on a simulated disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevon_formats::quantity::{self, Short};
use elevon_plan::failure::{Ending, Failure, InputError, ValueError};
use elevon_plan::output::NewFile;
use elevon_result::number::{counted, grouped, length};
use elevon_twin::figures::Figures;
use elevon_twin::lab::{self, Outcome};
use elevon_twin::power::{Cuts, Smallest};
use elevon_twin::{DiskSpec, FileSystem, Settings, Stream, TwinError, find_kernel};

use crate::args::{TwinArgs, TwinCommand, TwinMachineArgs, TwinRunArgs};
use crate::terminal::tell;

/// Sizes of the kernel's memory that are accepted.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=64 << 30;
/// Sizes of the disk that are accepted.
const SIZE: std::ops::RangeInclusive<u64> = 16 << 20..=16 << 40;

pub(crate) fn twin(args: &TwinArgs) -> Result<Ending, Failure> {
    match &args.command {
        Some(TwinCommand::Shell(machine)) => shell(machine),
        None => run(&args.run),
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

fn run(args: &TwinRunArgs) -> Result<Ending, Failure> {
    let mut program = args.program.clone();
    make_absolute(&mut program[0])?;
    let mut takes = Vec::new();
    for take in &args.take {
        let Some((file, new)) = take.split_once('=').filter(|(file, _)| !file.is_empty()) else {
            let expected = ValueError::expected("FILE=NEW");
            return Err(Failure::named(format!("--take {take}"), expected));
        };
        takes.push((file.to_owned(), NewFile::create("--take", Path::new(new))?));
    }
    let seeds = args.seeds.map_or(args.machine.seed..=args.machine.seed, |last| 1..=last);
    let (mut status, mut losses) = (0, 0);
    for seed in seeds {
        let mut settings = settings(&args.machine, program.clone(), seed)?;
        settings.take = takes.iter().map(|(file, _)| file.clone()).collect();
        let mut output = Vec::new();
        let mut sink = |stream: Stream, bytes: &[u8]| {
            if stream == Stream::Output {
                output.extend_from_slice(bytes);
            }
            pass_on(stream, bytes);
        };
        let outcome = lab::run(&settings, &mut sink).map_err(failure)?;
        report(args, &outcome, args.seeds.map(|_| seed));
        status = outcome.status;
        if let (Some(count), Some(check)) = (args.power_cuts, &args.check) {
            losses += cut(&settings, &outcome, &output, check, count as usize)?;
        }
        for ((_, new), bytes) in takes.drain(..).zip(outcome.taken) {
            new.commit(&bytes)?;
        }
    }
    if losses > 0 {
        return Ok(Ending::Failed);
    }
    ending(status)
}

/// Returns how the command ends if the program ended with this status.
fn ending(status: i32) -> Result<Ending, Failure> {
    match u8::try_from(status) {
        Ok(0) => Ok(Ending::Done),
        Ok(code) => Err(Failure::Told(code)),
        Err(_) => Err(Failure::Told(u8::MAX)),
    }
}

/// Tells how long the program took and what its disk did.
fn report(args: &TwinRunArgs, outcome: &Outcome, seed: Option<u64>) {
    let seed = seed.map_or_else(String::new, |seed| format!(" with seed {seed}"));
    tell(&format!(
        "{} of virtual time on {} under kernel {}{seed}, exit status {}",
        length(outcome.duration()),
        args.machine.device,
        args.machine.kernel,
        outcome.status
    ));
    let figures = Figures::of(&outcome.history.events()[outcome.phase.first..outcome.phase.last]);
    for row in figures.rows() {
        tell(&format!(
            "{}: {}, {} bytes; latency mean {}, 99 % up to {}, at most {}",
            row.name,
            grouped(row.count),
            grouped(row.bytes),
            length(row.mean),
            length(row.p99),
            length(row.max)
        ));
    }
    for (fault, count) in &outcome.faults {
        tell(&format!("fault {fault}: {}", counted(*count, "time")));
    }
}

/// Makes power cuts. Tells what they do, and returns how many lost data.
fn cut(
    run: &Settings,
    outcome: &Outcome,
    output: &[u8],
    check: &str,
    count: usize,
) -> Result<usize, Failure> {
    let mut settings = run.clone();
    settings.program = ["sh", "-c", check].map(str::to_owned).to_vec();
    settings.take.clear();
    let cuts = Cuts { settings: &settings, history: &outcome.history, output };
    let phase = outcome.phase;
    let chosen = cuts.choose(phase.first, phase.last, count, settings.disk.seed);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verdicts = cuts.make_all(&chosen, threads).map_err(failure)?;
    let lost: Vec<usize> = (0..chosen.len()).filter(|&at| verdicts[at].is_loss()).collect();
    tell(&format!("{}: {} lost data", counted(chosen.len() as u64, "power cut"), lost.len()));
    if let Some(&first) = lost.first() {
        let at = outcome.history.time_of(chosen[first].steps).since(phase.begin);
        tell(&format!(
            "the first is {} after the start of the program: {}",
            length(at),
            verdicts[first]
        ));
        let smallest = cuts.shrink(chosen[first]).map_err(failure)?;
        describe(&smallest, outcome);
    }
    Ok(lost.len())
}

/// Tells the smallest loss.
fn describe(smallest: &Smallest, outcome: &Outcome) {
    if smallest.lost.is_empty() {
        tell("no lost write is needed: the data was not yet at the disk");
        return;
    }
    let few = counted(smallest.lost.len() as u64, "lost write");
    tell(&format!("the smallest loss: {few} of those that were not flushed"));
    for write in &smallest.lost {
        tell(&format!(
            "  sector {}, {} bytes, issued {} after the start",
            write.sector.get(),
            write.bytes.get(),
            length(write.at.since(outcome.phase.begin))
        ));
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
            size: size("--size", &args.size, &SIZE)?,
        },
        queue,
        system,
        options: args.mount_options.clone(),
        folder,
        program,
        take: Vec::new(),
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
