//! Generates events for tests of trace formats.

use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;
use elevon_core::units::{HwQueue, Instant, Sector, Tag, TaskId};

use elevon_testkit::Rng;

use super::{Converter, RunContext, TaskName};
use crate::event::TraceEvent;

pub(crate) fn context() -> RunContext {
    let tasks = vec![TaskName::new("fio", 4242), TaskName::new("highpool[1] a-b:c", 17)];
    RunContext {
        device: (259, 3),
        tasks,
        cpus: 4,
        rules: elevon_core::kernel::Kernel::V6_18.rules(),
        recorded: crate::Recorded::of_run(),
        blktrace: Default::default(),
    }
}

pub(crate) fn event(time: u64, kind: EventKind, sector: u64, sectors: u32) -> Event {
    Event {
        time: Instant::new(time),
        kind,
        task: TaskId(0),
        cpu: 0,
        op: Op::Read,
        flags: Flags::NONE,
        ioprio: IoPrio::new(PrioClass::Be, 4),
        sector: Sector::new(sector),
        sectors,
        queue: HwQueue(0),
        tag: None,
    }
}

/// Generates a run of `count` requests of random sizes, with up to eight waiting and `depth` in
/// service. Each has all of its events: Q G P U I D C.
pub(crate) fn run(seed: u64, count: usize, depth: u32) -> Vec<Event> {
    let (mut random, mut events) = (Rng(seed), Vec::new());
    let (mut now, mut made) = (0, 0);
    let mut waiting: Vec<Event> = Vec::new();
    let mut service: Vec<Event> = Vec::new();
    while made < count || !waiting.is_empty() || !service.is_empty() {
        now += random.below(40_000);
        match random.below(3) {
            0 if made < count && waiting.len() < 8 => {
                let mut base = event(
                    now,
                    EventKind::BioQueue,
                    made as u64 * 4096,
                    8 << random.below(6) as u32,
                );
                base.task = TaskId(random.below(2) as u32);
                base.cpu = base.task.0 as u16 * 2;
                base.op = if random.below(3) == 0 { Op::Write } else { Op::Read };
                base.flags = if base.op == Op::Write { Flags::SYNC } else { Flags::NONE };
                for kind in [
                    EventKind::BioQueue,
                    EventKind::GetRequest,
                    EventKind::IoStart,
                    EventKind::Plug,
                    EventKind::Unplug { requests: 1, from_schedule: made % 5 == 0 },
                    EventKind::Insert,
                ] {
                    now += 700;
                    events.push(Event { time: Instant::new(now), kind, ..base });
                }
                waiting.push(base);
                made += 1;
            }
            1 if !waiting.is_empty() && (service.len() as u32) < depth => {
                let tag = (0..depth)
                    .find(|&tag| service.iter().all(|e| e.tag != Some(Tag(tag))))
                    .unwrap();
                let issued = Event {
                    time: Instant::new(now),
                    kind: EventKind::Issue,
                    tag: Some(Tag(tag)),
                    queue: HwQueue(0),
                    ..waiting.swap_remove(random.below(waiting.len() as u64) as usize)
                };
                events.push(issued);
                service.push(issued);
            }
            2 if !service.is_empty() => {
                let over = service.swap_remove(random.below(service.len() as u64) as usize);
                let status = if random.below(20) == 0 { Status::IoError } else { Status::Ok };
                let kind = EventKind::Complete { status };
                let over = Event { time: Instant::new(now), kind, task: TaskId::IDLE, ..over };
                events.push(over);
                events.push(Event {
                    kind: EventKind::IoDone { is_request: true },
                    sector: Sector::ZERO,
                    sectors: 0,
                    tag: None,
                    ..over
                });
            }
            _ => {}
        }
    }
    events
}

/// Converts events of the stack to those of a trace.
pub(crate) fn converted(events: &[Event]) -> (Vec<TraceEvent>, Converter) {
    let converter = Converter::new(&context());
    (events.iter().map(|event| converter.event(event)).collect(), converter)
}
