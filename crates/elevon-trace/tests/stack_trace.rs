//! Writes events of the real stack in every trace format, and checks that the formats show what was
//! issued to the device.

use std::fs;
use std::path::Path;

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::Kernel;
use elevon_core::layout::Layout;
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::sched::SchedulerConfig;
use elevon_core::stack::{Io, Stack, StackConfig};
use elevon_core::status::Status;
use elevon_core::units::{Instant, LayoutId, Nanos, Sector, Sectors, TaskId, TenantId};
use elevon_trace::run::{Converter, RunContext, RunTraceWriter, TaskName};
use elevon_trace::write::WriteFormat;
use elevon_trace::{TraceEvent, steps};

/// A device that accepts 8 commands and is busy for the next one.
#[derive(Default)]
struct Device {
    commands: Vec<Command>,
    taken: usize,
}

impl Driver for Device {
    fn queue_command(&mut self, _now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        if self.commands.len() >= 8 {
            return Accept::DeviceBusy;
        }
        self.taken += 1;
        self.commands.push(*command);
        Accept::Ok
    }
}

/// Runs reads that split, adjacent I/Os that merge, writes, FUA writes, flushes and discards of two
/// tasks, on a device that is sometimes busy and sometimes fails. Starts at instant 0.
fn run(kernel: Kernel, scheduler: &str) -> (Vec<Event>, usize) {
    let limits = QueueLimits {
        max_hw_sectors: Sectors::new(256),
        max_hw_discard_sectors: Sectors::new(4096),
        discard_granularity: 512,
        ..QueueLimits::default()
    };
    let config = StackConfig {
        kernel,
        scheduler: SchedulerConfig::parse(scheduler).unwrap(),
        ..StackConfig::new(limits, Sectors::new(1 << 24), 1, 32)
    };
    let (mut stack, mut device, mut events) =
        (Stack::new(config).unwrap(), Device::default(), Vec::new());
    stack.set_tracing(true);
    let layout = stack.register_layout(Layout::from_run_pages(vec![128]));
    let mut now = Instant::ZERO;
    for turn in 0..200u64 {
        let task = TaskId(turn as u32 % 2);
        let io = |op, flags, sector, sectors| Io {
            task,
            token: turn,
            op,
            flags,
            sector: Sector::new(sector),
            bytes: Sectors::new(sectors).bytes(),
            ioprio: IoPrio::NONE,
            write_hint: 0,
            tenant: TenantId(0),
            layout: if sectors > 0 { layout } else { LayoutId(0) },
            may_block: false,
        };
        stack.begin_batch(now, task);
        let place = turn * 8192;
        match turn % 5 {
            0 => drop(stack.submit(now, io(Op::Read, Flags::NONE, place, 1000), &mut device)),
            1 => {
                for part in 0..4 {
                    stack.submit(now, io(Op::Write, Flags::SYNC, place + part * 8, 8), &mut device);
                }
            }
            2 => drop(stack.submit(
                now,
                io(Op::Write, Flags::SYNC | Flags::FUA, place, 16),
                &mut device,
            )),
            3 => drop(stack.submit(now, io(Op::Flush, Flags::SYNC, 0, 0), &mut device)),
            _ => drop(stack.submit(now, io(Op::Discard, Flags::SYNC, place, 8192), &mut device)),
        }
        stack.end_batch(now, task, &mut device);
        now = now + Nanos::from_micros(30);
        // In four of five turns few requests complete, so that they accumulate; the last turn waits
        // for all.
        let keep = if turn % 5 == 4 { 2 } else { 8 };
        while device.commands.len() > if turn == 199 { 0 } else { keep } {
            let command = device.commands.remove(0);
            now = now + Nanos::from_micros(7);
            let status = if command.sequence % 37 == 5 { Status::Medium } else { Status::Ok };
            let completion = Completion::from_command(&command, status, command.bytes);
            stack.handle_completion(now, completion, &mut device);
        }
        while stack.poll_done().is_some() || stack.poll_unblocked().is_some() {}
        stack.drain_events(&mut events);
    }
    assert_eq!(stack.ios_in_flight(), 0);
    (events, device.taken)
}

fn context(kernel: Kernel) -> RunContext {
    let tasks = vec![TaskName::new("reader", 100), TaskName::new("writer[1]", 101)];
    RunContext {
        device: (8, 16),
        tasks,
        cpus: 1,
        rules: kernel.rules(),
        recorded: elevon_trace::Recorded::of_run(),
        blktrace: Default::default(),
    }
}

fn write_all(folder: &Path, kernel: Kernel, events: &[Event]) {
    for format in WriteFormat::ALL {
        let path = folder.join(format!("run.{}", format.extension()));
        let mut writer = RunTraceWriter::create(&path, &context(kernel)).unwrap();
        events.chunks(13).for_each(|some| writer.write(some).unwrap());
        writer.finish().unwrap();
    }
}

fn count(events: &[Event], is: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| is(&event.kind)).count()
}

#[test]
fn every_format_shows_what_the_device_was_given() {
    for (kernel, scheduler) in [
        (Kernel::V6_1, "none"),
        (Kernel::V6_6, "mq-deadline"),
        (Kernel::V6_18, "none"),
        (Kernel::V6_18, "mq-deadline"),
    ] {
        let name = format!("{} {scheduler}", kernel.name());
        let (events, taken) = run(kernel, scheduler);
        let issues = count(&events, |kind| *kind == EventKind::Issue);
        assert_eq!(issues, taken, "{name}");
        for (what, kind) in [
            ("requeue", EventKind::Requeue),
            ("merge", EventKind::BackMerge),
            ("plug", EventKind::Plug),
        ] {
            assert!(count(&events, |k| *k == kind) > 0, "{name}: no {what} in this run");
        }
        let folder = tempfile::tempdir().unwrap();
        write_all(folder.path(), kernel, &events);

        let ftrace = fs::read_to_string(folder.path().join("run.ftrace")).unwrap();
        let converter = Converter::new(&context(kernel));
        let converted: Vec<_> = events.iter().map(|event| converter.event(event)).collect();
        let mut reader = elevon_trace::open(&folder.path().join("run.ftrace")).unwrap();
        let read = reader.read_all().unwrap();
        assert_eq!((reader.report().skipped_count(), read.len()), (0, events.len()), "{name}");
        assert!(
            steps::of_text(&ftrace) == steps::of_events(&converted),
            "{name}: the text tells another story"
        );
        // Records of two CPUs at one instant have no defined order.
        let sorted = |events: &[TraceEvent]| {
            let mut steps = steps::of_events(events);
            steps.sort_by_key(|step| (step.sector, step.letter, step.sectors));
            steps
        };
        let records = elevon_trace::open(&folder.path().join("run")).unwrap().read_all().unwrap();
        let (records, converted) = (sorted(&records), sorted(&converted));
        for (record, expected) in records.iter().zip(&converted) {
            assert_eq!(record, expected, "{name}");
        }
        assert_eq!(records.len(), converted.len(), "{name}");

        let json = fs::read_to_string(folder.path().join("run.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let objects = json["traceEvents"].as_array().unwrap();
        let slices: Vec<_> = objects.iter().filter(|o| o["cat"] == "rq").collect();
        assert_eq!(slices.len(), issues, "{name}: a slice for every request in service");
        assert!(slices.iter().any(|o| o["args"]["end"] == "critical medium"), "{name}");
        let left: Vec<_> = objects.iter().filter(|o| o["args"]["end"] == "cut").collect();
        assert!(left.is_empty(), "{name}: all are over, but {left:?}");

        blkparse_and_btt(folder.path(), &name, &events);
    }
}

/// Checks that both tools read the trace without complaint, and count what was issued.
fn blkparse_and_btt(folder: &Path, name: &str, events: &[Event]) {
    let Some(mut blkparse) = elevon_testkit::tool("blkparse") else { return };
    let blkparse =
        blkparse.args(["-i", "run", "-d", "run.bin"]).current_dir(folder).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&blkparse.stderr), "", "{name}: blkparse complains");
    let lines = String::from_utf8_lossy(&blkparse.stdout).into_owned();
    for (letter, kind) in [
        ("Q", EventKind::BioQueue),
        ("G", EventKind::GetRequest),
        ("D", EventKind::Issue),
        ("I", EventKind::Insert),
        ("R", EventKind::Requeue),
        ("P", EventKind::Plug),
    ] {
        let shown = lines
            .lines()
            .filter(|line| {
                line.starts_with("  8,16") && line.split_whitespace().nth(5) == Some(letter)
            })
            .count();
        assert_eq!(shown, count(events, |k| *k == kind), "{name}: {letter}");
    }
    assert!(lines.contains("Skips: 0 forward"), "{name}: {lines}");
    let Some(mut btt) = elevon_testkit::tool("btt") else { return };
    let btt = btt.args(["-i", "run.bin"]).current_dir(folder).output().unwrap();
    assert!(btt.status.success());
    assert_eq!(String::from_utf8_lossy(&btt.stderr), "", "{name}: btt complains");
    assert!(String::from_utf8_lossy(&btt.stdout).contains("D2C"), "{name}");
}
