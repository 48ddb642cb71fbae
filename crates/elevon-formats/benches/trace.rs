//! Cost of an event in each trace format, written to nowhere.
//!
//! Run by `cargo test` it only proves that it runs.

use std::io::Cursor;
use std::time::{Duration, Instant as Clock};

use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::IoPrio;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{HwQueue, Instant, Sector, Tag, TaskId};
use elevon_formats::trace::{Context, TaskName, blktrace, ftrace, json, perfetto, text};

/// Whole lives of 4 KiB reads, 32 in service at a time.
fn events(count: usize) -> Vec<Event> {
    let at = |n: usize, step: u64, kind| Event {
        time: Instant::new(n as u64 * 1000 + step),
        kind,
        task: TaskId(0),
        cpu: 0,
        op: Op::Read,
        flags: Flags::NONE,
        ioprio: IoPrio::DEFAULT,
        sector: Sector::new(n as u64 * 8),
        sectors: 8,
        queue: HwQueue(0),
        tag: Some(Tag(n as u32 % 32)),
    };
    let mut all = Vec::new();
    for n in 0..count {
        all.extend([EventKind::BioQueue, EventKind::GetRequest, EventKind::Insert].map(|kind| at(n, 0, kind)));
        if let Some(old) = n.checked_sub(32) {
            let time = Instant::new(n as u64 * 1000);
            all.push(Event { time, ..at(old, 0, EventKind::Complete { status: Status::Ok }) });
        }
        all.push(at(n, 500, EventKind::Issue));
    }
    all
}

fn measure(name: &str, span: Duration, events: &[Event], mut turn: impl FnMut(&[Event]) -> usize) {
    let (start, mut turns, mut bytes) = (Clock::now(), 0u32, 0);
    while turns == 0 || start.elapsed() < span {
        bytes = turn(events);
        turns += 1;
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(turns) / events.len() as f64;
    println!("{name:<22} {ns:>10.1} {:>12.1}", bytes as f64 / events.len() as f64);
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(300) } else { Duration::ZERO };
    let events = events(if full { 20_000 } else { 200 });
    let tasks = vec![TaskName::new("fio", 1)];
    let context = Context { device: (8, 0), tasks, cpus: 1, ioprio_in_events: true };
    println!("{:<22} {:>10} {:>12}", "format", "ns/event", "bytes/event");
    let memory = || Cursor::new(Vec::with_capacity(16 << 20));
    measure("ftrace", span, &events, |events| {
        let mut writer = ftrace::Writer::new(memory(), context.clone()).expect("memory");
        events.iter().for_each(|event| writer.event(event).expect("memory"));
        writer.finish().expect("memory").into_inner().len()
    });
    measure("blktrace", span, &events, |events| {
        let mut writer = blktrace::Writer::new(|_| Ok(memory()), context.clone()).expect("memory");
        events.iter().for_each(|event| writer.event(event).expect("memory"));
        writer.finish().expect("memory").remove(0).into_inner().len()
    });
    measure("perfetto", span, &events, |events| {
        let mut writer = perfetto::Writer::new(memory(), context.clone()).expect("memory");
        events.iter().for_each(|event| writer.event(event).expect("memory"));
        writer.finish().expect("memory").into_inner().len()
    });
    measure("json", span, &events, |events| {
        let mut writer = json::Writer::new(memory(), context.clone()).expect("memory");
        events.iter().for_each(|event| writer.event(event).expect("memory"));
        writer.finish().expect("memory").into_inner().len()
    });
    let mut writer = ftrace::Writer::new(memory(), context.clone()).expect("memory");
    events.iter().for_each(|event| writer.event(event).expect("memory"));
    let written = String::from_utf8(writer.finish().expect("memory").into_inner()).expect("text");
    measure("ftrace, read back", span, &events, |events| {
        assert_eq!(text::records(&written).count(), events.len());
        written.len()
    });
}
