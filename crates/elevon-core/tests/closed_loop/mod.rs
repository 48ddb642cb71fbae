//! Processes in a closed loop over a device of N servers behind one FIFO, in virtual time. The
//! measurements of a real kernel to which tests compare were made on such a device.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use elevon_core::driver::{Accept, Command, Completion, Driver, Pieces};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::op::{Flags, Op};
use elevon_core::sched::{AnyScheduler, SchedulerConfig};
use elevon_core::stack::{Io, Stack, StackConfig, Submitted};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, LayoutId, Nanos, Sector, Sectors, TaskId, TenantId};
use elevon_testkit::Rng;

/// N servers; each request occupies one for a latency plus its transfer time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) slots: usize,
    pub(crate) latency: Nanos,
    /// Bytes per second; 0 for no limit.
    pub(crate) bandwidth: u64,
    /// Whether `rotational` is written to the queue, after the scheduler was chosen.
    pub(crate) rotational: bool,
    /// Additional nanoseconds for each other request in service; 0 for a device of plain servers.
    pub(crate) crowding: u64,
}

/// The repeated work of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) op: Op,
    pub(crate) sequential: bool,
    pub(crate) bytes: u64,
    pub(crate) depth: u32,
    pub(crate) class: PrioClass,
    pub(crate) level: u8,
    /// First sector and length of its region.
    pub(crate) offset: u64,
    pub(crate) sectors: u64,
    pub(crate) tenant: u32,
    /// Start time.
    pub(crate) start: Nanos,
    /// Pause after each completion, uniformly distributed from 0 to this.
    pub(crate) think: Nanos,
}

pub(crate) const RANDOM_4K: Process = Process {
    op: Op::Read,
    sequential: false,
    bytes: 4096,
    depth: 1,
    class: PrioClass::Be,
    level: 4,
    offset: 0,
    sectors: 1 << 21,
    tenant: 0,
    start: Nanos::ZERO,
    think: Nanos::ZERO,
};

/// I/Os per second and the longest latency of each process, and the scheduler's state at the end.
pub(crate) struct Outcome {
    pub(crate) iops: Vec<f64>,
    pub(crate) longest: Vec<Nanos>,
    pub(crate) device_queues: Option<bool>,
}

impl Outcome {
    pub(crate) fn total(&self) -> f64 {
        self.iops.iter().sum()
    }
}

struct Device {
    model: Slots,
    /// Commands in service: (time of completion, sequence number, request, bytes).
    busy: BinaryHeap<Reverse<(Instant, u64, u32, u64)>>,
    waiting: VecDeque<Command>,
}

impl Device {
    fn begin(&mut self, now: Instant, command: &Command) {
        let transfer =
            (command.bytes.get() * 1_000_000_000).checked_div(self.model.bandwidth).unwrap_or(0);
        let crowd = self.model.crowding * self.busy.len() as u64;
        let end = now + self.model.latency + Nanos::new(transfer + crowd);
        self.busy.push(Reverse((end, command.sequence, command.request.0, command.bytes.get())));
    }
}

impl Driver for Device {
    fn queue_command(&mut self, now: Instant, command: &Command, _pieces: &dyn Pieces) -> Accept {
        if self.busy.len() < self.model.slots {
            self.begin(now, command);
        } else {
            self.waiting.push_back(*command);
        }
        Accept::Ok
    }
}

/// State of a process.
struct Source {
    what: Process,
    position: u64,
    blocked: bool,
    done: u64,
    longest: Nanos,
    submitted: Vec<Instant>,
}

/// Runs the processes for a time. `tenants`: parent and weight of tenants 1, 2, ...
pub(crate) fn run(
    device: Slots,
    scheduler: &str,
    tenants: &[(u32, u16)],
    processes: &[Process],
    length: Nanos,
    seed: u64,
) -> Outcome {
    let limits = QueueLimits {
        rotational: device.rotational,
        rotational_written_later: device.rotational,
        max_hw_sectors: Sectors::new(65536),
        ..QueueLimits::default()
    };
    let mut config = StackConfig {
        kernel: Kernel::V6_18,
        ..StackConfig::new(limits, Sectors::new(1 << 22), 1, 128)
    };
    config.scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler");
    config.set("max_sectors_kb", "512").expect("a setting");
    let mut stack = Stack::new(config).expect("a stack");
    for (index, &(parent, weight)) in tenants.iter().enumerate() {
        let tenant =
            stack.control_mut().add_tenant(TenantId(parent)).expect("a parent that exists");
        assert_eq!(tenant.index(), index + 1);
        stack.set_group(tenant, weight);
    }
    let mut device = Device { model: device, busy: BinaryHeap::new(), waiting: VecDeque::new() };
    let mut rng = Rng(seed);
    let source = |what: &Process| Source {
        what: *what,
        position: 0,
        blocked: false,
        done: 0,
        longest: Nanos::ZERO,
        submitted: vec![Instant::ZERO; what.depth as usize],
    };
    let mut sources: Vec<Source> = processes.iter().map(source).collect();
    // Future submissions: (time, process, token).
    let mut todo: BinaryHeap<Reverse<(Instant, usize, u64)>> = BinaryHeap::new();
    for (index, process) in processes.iter().enumerate() {
        for token in 0..u64::from(process.depth) {
            todo.push(Reverse((Instant::ZERO + process.start, index, token)));
        }
    }
    let mut held: Vec<VecDeque<u64>> = vec![VecDeque::new(); processes.len()];
    let (mut now, end) = (Instant::ZERO, Instant::ZERO + length);
    loop {
        let next = [
            device.busy.peek().map(|Reverse(c)| c.0),
            stack.next_timer(),
            todo.peek().map(|Reverse(t)| t.0),
        ];
        let Some(at) = next.into_iter().flatten().min().filter(|&at| at < end) else { break };
        now = now.max(at);
        while let Some(&Reverse((at, sequence, request, bytes))) = device.busy.peek()
            && at <= now
        {
            device.busy.pop();
            if let Some(command) = device.waiting.pop_front() {
                device.begin(now, &command);
            }
            let request = elevon_core::units::RequestId(request);
            let completion =
                Completion { request, sequence, status: Status::Ok, bytes: Bytes::new(bytes) };
            stack.handle_completion(now, completion, &mut device);
        }
        if stack.next_timer().is_some_and(|at| at <= now) {
            stack.handle_timers(now, &mut device);
        }
        while let Some(&done) = stack.poll_done() {
            let source = &mut sources[done.task.index()];
            source.done += 1;
            source.longest = source.longest.max(now - source.submitted[done.token as usize]);
            let pause = Nanos::new(rng.below(source.what.think.get() + 1));
            todo.push(Reverse((now + pause, done.task.index(), done.token)));
        }
        while let Some(task) = stack.poll_unblocked() {
            sources[task.index()].blocked = false;
            for token in held[task.index()].drain(..) {
                todo.push(Reverse((now, task.index(), token)));
            }
        }
        while let Some(&Reverse((at, index, token))) = todo.peek()
            && at <= now
        {
            todo.pop();
            let source = &mut sources[index];
            if source.blocked {
                held[index].push_back(token);
                continue;
            }
            let blocks = source.what.sectors * 512 / source.what.bytes;
            let block =
                if source.what.sequential { source.position % blocks } else { rng.below(blocks) };
            source.position += 1;
            source.submitted[token as usize] = now;
            let io = Io {
                task: TaskId(index as u32),
                token,
                op: source.what.op,
                flags: if source.what.op.is_write() { Flags::SYNC } else { Flags::NONE },
                sector: Sector::new(source.what.offset + block * source.what.bytes / 512),
                bytes: Bytes::new(source.what.bytes),
                ioprio: IoPrio::new(source.what.class, source.what.level),
                write_hint: 0,
                tenant: TenantId(source.what.tenant),
                layout: LayoutId(0),
                may_block: true,
            };
            if stack.submit(now, io, &mut device) == Submitted::Blocked {
                sources[index].blocked = true;
            }
        }
    }
    let seconds = length.get() as f64 / 1e9;
    let device_queues = match stack.scheduler() {
        AnyScheduler::Bfq(bfq) => bfq.device_queues(),
        _ => None,
    };
    Outcome {
        iops: sources.iter().map(|s| s.done as f64 / seconds).collect(),
        longest: sources.iter().map(|s| s.longest).collect(),
        device_queues,
    }
}
