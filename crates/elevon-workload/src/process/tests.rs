mod ends;
mod pace;
mod sizes;
mod sleeps;
mod verify;

use super::*;
use elevon_formats::fio::spec::{Amount, BlockSizes, Rw};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::region::Region;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const BLOCK: u64 = 4096;
const START: u64 = 1 << 20;

/// An I/O as the device saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    at: u64,
    op: Op,
    offset: u64,
    len: u64,
    batch: usize,
    ioprio: IoPrio,
}

/// A device that completes every I/O after the same time, with a loop in virtual time.
struct Bench {
    process: Process,
    now: u64,
    latency: u64,
    fail: Option<(usize, Status)>,
    pending: BinaryHeap<Reverse<(u64, usize, u64)>>,
    seen: Vec<Seen>,
    deepest: usize,
    region: Region,
    memory: Option<Vec<u8>>,
    buffers: Vec<Vec<u8>>,
}

fn job(edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = JobSpec::default_job("job");
    spec.space.size = Some(Amount::Bytes(1 << 20));
    edit(&mut spec);
    spec
}
fn deep(spec: &mut JobSpec, depth: u32) {
    spec.engine.asynchronous = true;
    spec.engine.submission_blocks = false;
    spec.queue.depth = depth;
    spec.queue.low = depth;
}
fn timed(spec: &mut JobSpec, runtime: u64) {
    spec.timing.time_based = true;
    spec.timing.runtime = Nanos::new(runtime);
}

impl Bench {
    fn new(spec: &JobSpec) -> Self {
        Self::with(spec, CpuCost::default(), 0)
    }
    fn with(spec: &JobSpec, cpu: CpuCost, clone: u32) -> Self {
        let len = match spec.space.size {
            Some(Amount::Bytes(bytes)) => bytes,
            _ => 1 << 20,
        };
        let region = Region { start: DeviceOffset::new(START), len: Bytes::new(len) };
        let share = len / u64::from(spec.files.count);
        let of_file = |n: u32| Region {
            start: region.start + Bytes::new(share * u64::from(n)),
            len: Bytes::new(share),
        };
        let regions = (0..spec.files.count).map(of_file).collect();
        let bytes = match spec.space.io_size {
            Some(Amount::Bytes(bytes)) => bytes,
            _ => len,
        };
        let identity = Identity { task: TaskId(0), tenant: TenantId(0), job: 0, clone, seed: 1 };
        let layouts = vec![LayoutId(0); spec.depth()];
        let process = Process::new(
            spec,
            &Extent { regions, files: Vec::new(), bytes: Bytes::new(bytes) },
            identity,
            cpu,
            &layouts,
        );
        let buffers = vec![vec![0; process.buffer_bytes() as usize]; layouts.len()];
        Self {
            process,
            now: 0,
            latency: 100 * US,
            fail: None,
            pending: BinaryHeap::new(),
            seen: Vec::new(),
            deepest: 0,
            region,
            memory: None,
            buffers,
        }
    }
    fn latency(mut self, ns: u64) -> Self {
        self.latency = ns;
        self
    }
    fn run(mut self) -> Self {
        self.process.start(Instant::new(self.now));
        for _ in 0..5_000_000 {
            let now = Instant::new(self.now);
            match self.process.poll(now) {
                Poll::Submit(batch) => self.submit(batch),
                Poll::Done => {
                    assert!(self.pending.is_empty(), "nothing is left behind");
                    return self;
                }
                Poll::Wait => self.wait(),
            }
        }
        panic!("the process does not end");
    }
    fn submit(&mut self, batch: usize) {
        let mut taken = 0;
        while let Some(io) = self.process.take() {
            taken += 1;
            self.data(&io);
            let (offset, len) = (io.sector.byte_offset().get(), io.bytes.get());
            self.seen.push(Seen { at: self.now, op: io.op, offset, len, batch, ioprio: io.ioprio });
            self.pending.push(Reverse((self.now + self.latency, self.seen.len(), io.token)));
            self.process.on_submitted(Instant::new(self.now), false);
            self.deepest = self.deepest.max(self.pending.len());
        }
        // POSIX AIO submits to its threads, which may make none of them now.
        assert!(taken == batch || self.process.has_threads());
    }
    /// Moves real bytes, as a real back end would: at submission, since nothing overlaps in these
    /// tests.
    fn data(&mut self, io: &Io) {
        let Some(memory) = &mut self.memory else { return };
        let buffer = &mut self.buffers[io.token as usize];
        self.process.fill(io.token, buffer);
        let (at, len) = (io.sector.byte_offset().get() as usize, io.bytes.get() as usize);
        match io.op {
            Op::Write => memory[at..at + len].copy_from_slice(&buffer[..len]),
            Op::Read => buffer[..len].copy_from_slice(&memory[at..at + len]),
            _ => {}
        }
    }
    fn wait(&mut self) {
        let wakeup = self.process.next_wakeup().map(Instant::get);
        let done = self.pending.peek().map(|Reverse(p)| p.0);
        self.now =
            [wakeup, done].into_iter().flatten().min().expect("a process that waits for nothing");
        while let Some(&Reverse((at, number, token))) = self.pending.peek()
            && at <= self.now
        {
            self.pending.pop();
            let status = match self.fail {
                Some((index, status)) if index == number - 1 => status,
                Some(_) | None => Status::Ok,
            };
            if self.memory.is_some() && self.process.wants_check(token) {
                self.process.check(token, &self.buffers[token as usize]);
            }
            self.process.complete(token, status);
        }
    }
    fn stats(&self) -> &JobStats {
        self.process.stats()
    }
    fn ended(&self) -> u64 {
        self.process.ended().expect("over").get()
    }
    fn ops(&self) -> String {
        let letter = |op| match op {
            Op::Read => 'r',
            Op::Write => 'w',
            Op::Discard => 't',
            Op::Flush => 'f',
            _ => '?',
        };
        self.seen.iter().map(|s| letter(s.op)).collect()
    }
}

fn writes(spec: &mut JobSpec) {
    spec.rw = Rw { read: false, write: true, ..spec.rw };
}

#[test]
fn synchronous_and_littles_law() {
    let bench = Bench::new(&job(|_| {})).run();
    let read = &bench.stats().directions[0];
    assert_eq!((read.ios, read.bytes, bench.deepest), (256, 1 << 20, 1));
    assert_eq!((bench.ended(), read.runtime_ns), (256 * 100 * US, 256 * 100 * US));
    assert_eq!((read.clat.min, read.clat.max, read.slat.count), (100 * US, 100 * US, 0));
    assert_eq!(bench.stats().depth_levels, [256, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.stats().submit_levels[1], 256);

    // Throughput times latency is the depth.
    for depth in [1, 4, 32] {
        let spec = job(|s| {
            deep(s, depth);
            timed(s, SECOND);
        });
        let bench = Bench::new(&spec).run();
        let read = &bench.stats().directions[0];
        assert_eq!(read.ios, u64::from(depth) * 10_000);
        assert_eq!(bench.deepest as u32, depth);
        assert_eq!(read.slat.count, read.ios);
    }
}

#[test]
fn cpu_time_is_spent_serially() {
    let cpu = CpuCost::new(Nanos::new(2 * US), Nanos::new(US));
    let bench = Bench::with(&job(|_| {}), cpu, 0).run();
    let read = &bench.stats().directions[0];
    assert_eq!(bench.ended(), 256 * 103 * US);
    assert_eq!((read.clat.max, read.lat.max), (101 * US, 103 * US));
    assert_eq!(bench.stats().cpu_ns, 256 * 3 * US);
    // A process that only uses CPU: its depth does not make it faster than the CPU.
    let spec = job(|s| {
        deep(s, 128);
        timed(s, 30 * MS);
    });
    let bench = Bench::with(&spec, cpu, 0).run();
    let ios = bench.stats().directions[0].ios;
    assert!((9_990..=10_160).contains(&ios), "{ios} I/Os of 3 us in 30 ms");
    assert_eq!(bench.stats().directions[0].slat.min, 2 * US);
}

#[test]
fn batches() {
    let spec = job(|s| {
        deep(s, 16);
        s.queue.batch_submit = 8;
        s.queue.complete_min = 8;
        s.queue.complete_max = 8;
    });
    let bench = Bench::new(&spec).run();
    assert!(bench.seen.iter().all(|s| s.batch == 8));
    assert_eq!(bench.stats().submit_levels, [0, 0, 32, 0, 0, 0, 0]);
    let cpu = CpuCost::new(Nanos::new(US), Nanos::ZERO);
    let bench = Bench::with(&spec, cpu, 0).run();
    let read = &bench.stats().directions[0];
    assert_eq!((read.slat.min, read.slat.max), (US, 8 * US), "a batch leaves together");
    assert_eq!(bench.seen[0].at, 8 * US);
}

#[test]
fn low_water_mark() {
    let spec = job(|s| {
        deep(s, 16);
        s.queue.low = 4;
    });
    let cpu = CpuCost::new(Nanos::new(US), Nanos::ZERO);
    let bench = Bench::with(&spec, cpu, 0).run();
    // 16 I/Os are issued one by one, then none until 12 have completed.
    assert_eq!(bench.seen[15].at, 16 * US);
    assert_eq!(bench.seen[16].at, 16 * US + (100 + 12 - 16 + 1) * US);
    assert_eq!(bench.stats().directions[0].ios, 256);
}

/// `iodepth=12` with io_uring: the ring of 16 is filled, and again when 12 I/Os are left.
#[test]
fn a_ring_is_filled_beyond_iodepth() {
    let spec = job(|s| {
        deep(s, 12);
        s.engine.name = "io_uring".to_owned();
    });
    let cpu = CpuCost::new(Nanos::new(US), Nanos::ZERO);
    let bench = Bench::with(&spec, cpu, 0).run();
    let at: Vec<u64> = bench.seen[14..21].iter().map(|io| io.at / US).collect();
    assert_eq!((at, bench.deepest), (vec![15, 16, 105, 106, 107, 108, 109], 16));
    assert_eq!(bench.stats().directions[0].ios, 256);
}

/// POSIX AIO of glibc: all I/Os of a file are made one after another, however deep the queue is.
#[test]
fn posix_aio_makes_one_io_of_a_file_at_a_time() {
    let spec = job(|s| {
        deep(s, 8);
        s.engine.name = "posixaio".to_owned();
    });
    let bench = Bench::new(&spec).run();
    assert_eq!((bench.deepest, bench.seen.len()), (1, 256));
    assert!(bench.seen.iter().enumerate().all(|(k, io)| io.at == k as u64 * 100 * US));
    let stats = &bench.stats().directions[0];
    assert_eq!((stats.ios, stats.slat.max, stats.clat.max), (256, 0, 800 * US));
}

#[test]
fn rates_are_exact() {
    let spec = job(|s| {
        s.rates.iops[0] = Some(1000);
        timed(s, SECOND);
    });
    let bench = Bench::new(&spec).run();
    assert_eq!(bench.stats().directions[0].ios, 1000);
    assert!(bench.seen.iter().enumerate().all(|(k, s)| s.at == k as u64 * MS));
    let spec = job(|s| {
        deep(s, 8);
        s.rates.bytes[0] = Some(4096 * 500);
        timed(s, 2 * SECOND);
    });
    assert_eq!(Bench::new(&spec).run().stats().directions[0].ios, 1000);
    // If the device is too slow, it is the limit; the process then does not wait.
    let spec = job(|s| {
        s.rates.iops[0] = Some(1000);
        timed(s, SECOND);
    });
    assert_eq!(Bench::new(&spec).latency(4 * MS).run().stats().directions[0].ios, 250);
}

#[test]
fn rates_of_a_mix_matter_more_than_the_mix() {
    let spec = job(|s| {
        s.rw = Rw { write: true, random: true, ..s.rw };
        s.rates.iops = [Some(900), Some(100), None];
        timed(s, 2 * SECOND);
    });
    let bench = Bench::new(&spec).run();
    let [read, write, _] = &bench.stats().directions;
    assert!(
        read.ios.abs_diff(1800) <= 1 && write.ios.abs_diff(200) <= 1,
        "{} {}",
        read.ios,
        write.ios
    );
    // Every block still occurs once per pass.
    let mut blocks: Vec<u64> = bench.seen[..256].iter().map(|s| s.offset).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert!(blocks.len() >= 255, "one access may be put off");
}

#[test]
fn mixes_are_within_tolerance() {
    for mix in [0, 30, 70, 100] {
        let spec = job(|s| {
            s.rw = Rw { write: true, random: true, mix_read: mix, ..s.rw };
            s.space.size = Some(Amount::Bytes(40 << 20));
        });
        let bench = Bench::new(&spec).run();
        let reads = bench.stats().directions[0].ios;
        assert!(reads.abs_diff(10240 * u64::from(mix) / 100) < 250, "{mix} %: {reads}");
    }
}

#[test]
fn syncs() {
    let ops = |edit: fn(&mut JobSpec)| {
        Bench::new(&job(|s| {
            writes(s);
            s.timing.number_ios = Some(7);
            edit(s);
        }))
        .run()
    };
    assert_eq!(ops(|s| s.durability.fsync = 3).ops(), "wwwfwwwfw");
    // As logged by fio 3.33: one flush if both are due, and none after the last write.
    let both = ops(|s| {
        (s.durability.fsync, s.durability.fdatasync, s.timing.number_ios) = (3, 2, Some(10));
    });
    assert_eq!(both.ops(), "wwfwfwfwwfwwfwfw");
    assert_eq!(ops(|s| s.durability.end_fsync = true).ops(), "wwwwwwwf");
    // At the end of each loop, before what was written is read back.
    assert_eq!(
        ops(|s| (s.durability.end_fsync, s.timing.loops) = (true, 2)).ops(),
        "wwwwwwwf".repeat(2)
    );
    let verified =
        ops(|s| (s.durability.end_fsync, s.verify.method) = (true, Some(VerifyMethod::Crc32c)));
    assert_eq!(verified.ops(), "wwwwwwwfrrrrrrr");
    let bench = ops(|s| {
        deep(s, 8);
        s.durability.fdatasync = 4;
        s.durability.end_fsync = true;
    });
    assert_eq!(bench.ops(), "wwwwfwwwf");
    assert_eq!((bench.seen[4].at, bench.seen[5].at), (0, 0), "a flush is one I/O of the queue");
    assert_eq!((bench.stats().sync.count, bench.stats().sync.max), (2, 100 * US));
    let bench = ops(|s| {
        deep(s, 8);
        s.engine.submission_blocks = true;
        s.durability.fsync = 4;
    });
    assert_eq!(bench.ops(), "wwwwfwww");
    assert_eq!(
        (bench.seen[4].at, bench.seen[5].at),
        (0, 100 * US),
        "with libaio the process sleeps for it"
    );
    for depth in 2..=8 {
        let spec = job(|s| {
            deep(s, depth);
            writes(s);
            (s.rw.random, s.engine.submission_blocks, s.durability.fsync, s.timing.number_ios) =
                (true, true, 1, Some(60));
        });
        let longest = Bench::new(&spec).run().stats().directions[1].clat.max;
        let most = u64::from(depth + 1) * 100 * US;
        assert!(
            longest <= most,
            "depth {depth}: a write that ended is passed over for flushes: {longest} ns"
        );
    }
    let mut bench = Bench::new(&job(|s| {
        writes(s);
        s.durability.sync = SyncMode::Dsync;
    }));
    bench.process.start(Instant::ZERO);
    assert_eq!(bench.process.poll(Instant::ZERO), Poll::Submit(1));
    assert!(bench.process.take().expect("one").flags.contains(Flags::DSYNC));
}

#[test]
fn trimwrite_trims_then_writes() {
    for depth in [1, 8] {
        let spec = job(|s| {
            deep(s, depth);
            s.rw = Rw { read: false, trim: true, trim_then_write: true, random: true, ..s.rw };
            s.space.io_size = Some(Amount::Bytes(64 * 1024));
        });
        let bench = Bench::new(&spec).run();
        assert_eq!((bench.ops().matches('t').count(), bench.ops().matches('w').count()), (16, 16));
        for (index, write) in bench.seen.iter().enumerate().filter(|(_, s)| s.op == Op::Write) {
            let trim = bench.seen[..index]
                .iter()
                .find(|s| s.op == Op::Discard && s.offset == write.offset);
            assert!(
                trim.expect("trimmed before").at + 100 * US <= write.at,
                "and the trim was over"
            );
        }
    }
}

#[test]
fn priorities() {
    use elevon_core::ioprio::PrioClass;
    let (usual, high) = (IoPrio::new(PrioClass::Be, 5), IoPrio::new(PrioClass::Rt, 0));
    let spec = job(|s| {
        s.priority.ioprio = usual;
        s.priority.command = [Some((25, high)), None];
        s.space.size = Some(Amount::Bytes(16 << 20));
    });
    let bench = Bench::new(&spec).run();
    let by_priority = &bench.stats().directions[0].by_priority;
    assert_eq!(by_priority.iter().map(|p| p.0).collect::<Vec<_>>(), [high, usual]);
    assert!(by_priority[0].1.count.abs_diff(1024) < 120, "{}", by_priority[0].1.count);
    assert_eq!(
        bench.seen.iter().filter(|s| s.ioprio == high).count() as u64,
        by_priority[0].1.count
    );
    let spec = job(|s| s.priority.command = [Some((100, high)), None]);
    assert!(
        Bench::new(&spec).run().stats().directions[0].by_priority.is_empty(),
        "one priority only"
    );
}

#[test]
fn errors_end_the_job_unless_forgiven() {
    let run = |status, edit: fn(&mut JobSpec)| {
        let mut bench = Bench::new(&job(|s| {
            deep(s, 4);
            edit(s);
        }));
        bench.fail = Some((10, status));
        bench.run()
    };
    let bench = run(Status::IoError, |_| {});
    assert_eq!((bench.stats().error, bench.stats().directions[0].errors), (5, 1));
    assert!(
        bench.seen.len() <= 15 && bench.stats().directions[0].ios == bench.seen.len() as u64 - 1
    );
    let forgiven = run(Status::IoError, |s| s.errors.continues[0] = true);
    assert_eq!((forgiven.stats().error, forgiven.stats().directions[0].ios), (0, 255));
    assert_eq!(forgiven.stats().directions[0].errors, 1);
    assert_eq!(
        run(Status::NoSpace, |s| s.errors.continues[0] = true).stats().error,
        28,
        "a fatal one"
    );
    let ignored = run(Status::NoSpace, |s| s.errors.ignored[0] = vec![28]);
    assert_eq!((ignored.stats().error, ignored.stats().directions[0].ios), (0, 255));
}

#[test]
fn termination_drains() {
    let mut bench = Bench::new(&job(|s| deep(s, 4)));
    bench.process.terminate();
    let bench = bench.run();
    assert_eq!(bench.seen.len(), 0);
}

#[test]
fn sleeping_for_a_tag_is_submission_latency() {
    let spec = job(|s| {
        deep(s, 4);
        s.engine.submission_blocks = true;
        s.queue.batch_submit = 4;
    });
    let mut bench = Bench::new(&spec);
    let process = &mut bench.process;
    let at = |us: u64| Instant::new(us * US);
    process.start(at(0));
    assert_eq!(process.poll(at(0)), Poll::Submit(4));
    assert!(process.take().expect("first").may_block);
    process.on_submitted(at(0), true);
    assert!(process.take().is_none(), "asleep");
    assert_eq!(process.poll(at(10)), Poll::Wait);
    process.unblocked(at(30));
    assert_eq!(process.poll(at(30)), Poll::Submit(3));
    for _ in 0..3 {
        process.take().expect("the rest of the batch");
        process.on_submitted(at(30), false);
    }
    assert!(process.take().is_none());
    assert_eq!(process.poll(at(30)), Poll::Wait);
    process.complete(3, Status::Ok);
    process.poll(at(100));
    let read = &process.stats_at(at(100)).directions[0];
    assert_eq!((read.slat.max, read.clat.max, read.lat.max), (30 * US, 70 * US, 100 * US));
}

#[test]
fn a_synchronous_sleep_for_a_tag_is_completion_latency() {
    let mut process = Bench::new(&job(|_| {})).process;
    let at = |us: u64| Instant::new(us * US);
    process.start(at(0));
    assert_eq!(process.poll(at(0)), Poll::Submit(1));
    let token = process.take().expect("an I/O").token;
    process.on_submitted(at(0), true);
    process.unblocked(at(30));
    assert_eq!(process.poll(at(30)), Poll::Wait);
    process.complete(token, Status::Ok);
    process.poll(at(100));
    let read = &process.stats_at(at(100)).directions[0];
    assert_eq!((read.slat.count, read.clat.max, read.lat.max), (0, 100 * US, 100 * US));
}

#[test]
fn a_job_whose_only_io_outlasts_a_sample_has_one_sample() {
    let spec = job(|s| s.space.size = Some(Amount::Bytes(BLOCK)));
    let bench = Bench::new(&spec).latency(800 * MS).run();
    let read = &bench.process.stats().directions[0];
    assert_eq!((read.iops.count, read.iops.max, read.bandwidth.max), (1, 1, 5), "1.25/s, 5 KiB/s");
}

#[test]
fn overlapping_ios_are_serialized() {
    let spec = job(|s| {
        deep(s, 16);
        writes(s);
        s.rw.random = true;
        s.random.norandommap = true;
        s.queue.serialize_overlap = true;
        s.space.size = Some(Amount::Bytes(16 * BLOCK));
        s.space.io_size = Some(Amount::Bytes(1 << 20));
    });
    let bench = Bench::new(&spec).run();
    for (index, one) in bench.seen.iter().enumerate() {
        for other in bench.seen[index + 1..].iter().take_while(|o| o.at < one.at + 100 * US) {
            assert_ne!(one.offset, other.offset, "both in flight");
        }
    }
    assert!(bench.deepest > 2);
}

#[test]
fn same_seed_same_run() {
    let spec = job(|s| {
        deep(s, 8);
        s.rw = Rw { write: true, random: true, ..s.rw };
        s.blocks.sizes = [0; 3].map(|_| BlockSizes::Range(4096, 16384));
    });
    let seen = |clone| Bench::with(&spec, CpuCost::default(), clone).run().seen;
    assert_eq!(seen(0), seen(0));
    assert_ne!(seen(0), seen(1));
}

fn any_job() -> impl Strategy<Value = JobSpec> {
    let shape = (1u32..40, 0u32..9, 0u32..9, 0u32..9, 0u32..40, any::<bool>());
    let rw = (0u8..6, any::<bool>(), 0u8..=100, 1u32..5, 0u8..=100, any::<bool>());
    let sizes = (1u64..5, 0u64..5, 1u64..40, 1u64..60, 1u64..3);
    let pace = (0u64..3, 0u64..3, 0u32..5, any::<bool>(), 0u32..5, 0u64..3);
    let verify = (0u8..3, 0u64..20, any::<bool>(), any::<bool>());
    (shape, rw, sizes, pace, verify).prop_map(|(shape, rw, sizes, pace, verify)| {
        job(|s| {
            deep(s, shape.0);
            (s.queue.batch_submit, s.queue.complete_min) = (shape.1, shape.2);
            (s.queue.complete_max, s.queue.low) = (shape.3, shape.4);
            s.engine.asynchronous = shape.5;
            let kinds = [
                (true, false, false),
                (false, true, false),
                (false, false, true),
                (true, true, false),
            ];
            let (read, write, trim) = kinds[(rw.0 as usize).min(3)];
            s.rw = Rw {
                read,
                write,
                trim,
                random: rw.1,
                mix_read: rw.2,
                ios_per_offset: rw.3,
                ..s.rw
            };
            if rw.0 == 5 {
                s.rw = Rw { read: false, write: false, trim: true, trim_then_write: true, ..s.rw };
            }
            s.random.percentage = [rw.4; 3];
            s.random.norandommap = rw.5;
            s.blocks.sizes =
                [0; 3].map(|_| BlockSizes::Range(512 * sizes.0, 512 * (sizes.0 + sizes.1)));
            s.space.size = Some(Amount::Bytes(512 * (sizes.0 + sizes.2)));
            s.space.io_size = Some(Amount::Bytes(512 * sizes.3));
            s.timing.loops = sizes.4;
            s.rates.iops = [
                Some(pace.0 * 5000).filter(|r| *r > 0),
                Some(pace.1 * 3000).filter(|r| *r > 0),
                None,
            ];
            s.think.time = Nanos::new(pace.5 * 50 * US);
            s.think.blocks = pace.2;
            s.think.counts_issued = pace.3;
            s.durability.fsync = pace.4;
            s.durability.end_fsync = pace.3;
            s.verify.method =
                [None, Some(VerifyMethod::Crc32c), Some(VerifyMethod::Meta)][verify.0 as usize];
            s.verify.backlog = verify.1;
            s.queue.serialize_overlap = verify.2;
            if verify.3 {
                timed(s, 5 * MS);
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// With any options the process ends, stays in its region, keeps the alignment, never exceeds
    /// its depth, and its statistics add up.
    #[test]
    fn a_process_keeps_its_promises(spec in any_job(), latency in 0u64..3, fail in proptest::option::of(0usize..50)) {
        let cpu = CpuCost::new(Nanos::new(700), Nanos::new(300));
        let mut bench = Bench::with(&spec, cpu, 0).latency(latency * 40 * US);
        bench.fail = fail.map(|index| (index, Status::IoError));
        let bench = bench.run();
        prop_assert!(bench.deepest <= spec.depth());
        for io in bench.seen.iter().filter(|s| s.op != Op::Flush) {
            prop_assert!(io.offset >= bench.region.start.get() && io.offset + io.len <= (bench.region.start + bench.region.len).get());
            prop_assert!(io.offset % 512 == 0 && io.len % 512 == 0 && io.len > 0);
        }
        let stats = bench.stats();
        let ios: u64 = stats.directions.iter().map(|d| d.ios + d.errors).sum();
        let flushes = bench.seen.iter().filter(|s| s.op == Op::Flush).count() as u64;
        prop_assert_eq!(ios + flushes, bench.seen.len() as u64);
        prop_assert_eq!(stats.depth_levels.iter().sum::<u64>(), ios);
        prop_assert!(stats.directions.iter().all(|d| d.clat.count == d.ios && d.lat.count == d.ios));
        prop_assert_eq!(bench.process.in_use(), 0);
    }
}

#[test]
fn a_batch_counts_at_its_last_depth() {
    let spec = job(|s| {
        deep(s, 32);
        (s.queue.batch_submit, s.queue.complete_min, s.queue.complete_max) = (8, 8, 8);
    });
    // Depths are 8, 16, 24, then always 32. fio reports 8: 8, 16: 16, 32: the rest.
    assert_eq!(Bench::new(&spec).run().stats().depth_levels, [0, 0, 0, 8, 16, 232, 0]);
}

#[test]
fn a_direction_without_a_rate_does_not_wait_for_one_that_has() {
    let spec = job(|s| {
        timed(s, SECOND);
        s.rw = Rw { write: true, ..s.rw };
        s.rates.iops[0] = Some(100);
    });
    let bench = Bench::new(&spec).run();
    let ios = [0, 1].map(|d| bench.stats().directions[d].ios);
    assert_eq!(ios, [100, 9_900]);
}

#[test]
fn a_mismatch_is_survived_where_the_job_says_so() {
    let errors = |edit: fn(&mut JobSpec)| {
        let mut bench = Bench::new(&job(|s| {
            s.verify.method = Some(VerifyMethod::Crc32c);
            s.verify.fatal = true;
            edit(s);
        }));
        bench.memory = Some(vec![0; 4 << 20]);
        let bench = bench.run();
        (bench.stats().error, bench.stats().verify_errors)
    };
    assert_eq!(errors(|_| ()), (84, 1));
    assert_eq!(errors(|s| s.errors.continues_on_mismatch = true), (0, 256));
    assert_eq!(errors(|s| s.errors.ignored[2].push(84)), (0, 256));
}
