//! Compares the cache with bytes to files as a program sees them: random calls, random order of
//! completions, invariants at each step.
//!
//! The content of a page is two numbers, one for each half. The model stores what a program must
//! read, and the old contents of each page. A read must return the latest content; after an fsync
//! the device must have nothing older than the content when the fsync began.

use super::*;
use crate::replace::POLICIES;
use alloc::collections::BTreeMap;

use elevon_testkit::Rng;

const HALF: u64 = PAGE / 2;
const FILES: u64 = 3;
const FILE_PAGES: u64 = 1200;

struct World {
    cache: PageCache,
    opens: Vec<OpenId>,
    random: Rng,
    now: Instant,
    /// The content of each frame, of the device by sector, and of the files as programs must see
    /// them, by (file, half page).
    frames: Vec<[u64; 2]>,
    device: BTreeMap<u64, [u64; 2]>,
    seen: BTreeMap<(u64, u64), u64>,
    in_flight: Vec<CacheIo>,
    /// The call of each task.
    tasks: Vec<Option<Call>>,
    /// By task: the size of its file when the call began.
    sizes: [u64; 8],
    /// By token: the content of a write's frames when it was submitted.
    stable: BTreeMap<u64, Vec<[u64; 2]>>,
    /// By task: what its fsync must find on the device: sector, lowest values.
    promises: Vec<Vec<(u64, [u64; 2])>>,
    next_value: u64,
    written: u64,
}

impl World {
    fn new(seed: u64, policy: &str, write_mode: WriteMode) -> Self {
        let (mut cache, _) = cache(4, 1, |config| {
            config.copies = true;
            config.policy = ReplacementConfig::parse(policy).expect("a policy");
            config.write_mode = write_mode;
            config.activity = Activity::PageExact;
            config.reserved = Bytes::new(MIB);
            if seed % 3 == 1 {
                (config.idle, config.zram) = (Bytes::new(MIB / 2), Bytes::new(MIB / 4));
            }
            if seed % 2 == 1 {
                config.rules = Kernel::V6_18.rules();
            }
        });
        let mut opens = Vec::new();
        for n in 0..FILES {
            let size = if n == 2 { 0 } else { FILE_PAGES * PAGE };
            let file = cache.add_file(
                Sector::new((n + 1) << 20),
                Bytes::new(size),
                Bytes::new(FILE_PAGES * PAGE),
            );
            opens.extend([cache.open(file), cache.open(file)]);
        }
        Self {
            cache,
            opens,
            random: Rng(seed * 0x9e37_79b9 + 1),
            now: T0,
            frames: vec![[0; 2]; 1024],
            device: BTreeMap::new(),
            seen: BTreeMap::new(),
            in_flight: Vec::new(),
            tasks: vec![None; 8],
            sizes: [0; 8],
            stable: BTreeMap::new(),
            promises: vec![Vec::new(); 8],
            next_value: 0,
            written: 0,
        }
    }

    fn sector(file: u64, page: u64) -> u64 {
        ((file + 1) << 20) + page * 8
    }

    fn begin(&mut self) {
        let task = self.random.below(8) as usize;
        if self.tasks[task].is_some() {
            return;
        }
        let which = self.random.below(FILES * 2);
        let file = which / 2;
        // Most calls go to a small part of the file, so that pages are shared.
        let reach = if self.random.below(3) == 0 { FILE_PAGES } else { 150 };
        let half = self.random.below(reach * 2 - 40);
        let halves = 1 + self.random.below(40);
        let kind = match self.random.below(20) {
            0..=6 => CallKind::Read,
            7..=11 => CallKind::Write,
            12..=15 => CallKind::Fault { write: self.random.below(3) == 0 },
            16 => CallKind::Fsync,
            17 => {
                let bits = self.random.below(8);
                let [wait_before, write, wait_after] = [1, 2, 4].map(|bit| bits & bit > 0);
                CallKind::SyncRange(RangeSync { wait_before, write, wait_after })
            }
            18 => CallKind::Fadvise(Advice::DontNeed),
            _ if self.random.below(4) == 0 => CallKind::DropCaches,
            _ if self.random.below(2) == 0 => CallKind::Invalidate,
            _ => CallKind::Fadvise(Advice::WillNeed),
        };
        let open = self.opens[which as usize];
        let mut wanted = Call::new(
            TaskId(task as u32),
            task as u64,
            open,
            kind,
            FileOffset::new(half * HALF),
            Bytes::new(halves * HALF),
        );
        if kind == CallKind::Fsync {
            if self.random.below(2) == 0 {
                (wanted.offset, wanted.bytes) = (FileOffset::ZERO, Bytes::ZERO);
            }
            let end = if wanted.bytes.is_zero() {
                FILE_PAGES
            } else {
                (wanted.offset + wanted.bytes).page_ceil().get()
            };
            let pages = (wanted.offset.page().get()..end).map(|page| {
                (Self::sector(file, page), [0, 1].map(|h| self.value(file, page * 2 + h)))
            });
            self.promises[task] = pages.filter(|&(_, values)| values != [0, 0]).collect();
        }
        self.sizes[task] = self.cache.file_size(self.cache.opens[open.0 as usize].file).get();
        self.tasks[task] = Some(wanted);
        if let Called::Done(done) = self.cache.call(self.now, wanted) {
            self.copy();
            self.ended(done);
        }
    }

    fn value(&self, file: u64, half: u64) -> u64 {
        self.seen.get(&(file, half)).copied().unwrap_or(0)
    }

    fn copy(&mut self) {
        while let Some(copy) = self.cache.poll_copy() {
            let wanted = self.tasks[copy.token as usize].expect("a call under way");
            let file = u64::from(self.cache.opens[wanted.open.0 as usize].file.0) - 1;
            let frame = &mut self.frames[copy.frame.0 as usize];
            if copy.way == Way::Zero {
                *frame = [0; 2];
                continue;
            }
            let first = (wanted.offset + copy.call_offset).get() / HALF;
            for n in 0..u64::from(copy.bytes) / HALF {
                let (half, at) = (first + n, (u64::from(copy.frame_offset) / HALF + n) as usize);
                assert_eq!(half % 2, at as u64);
                match copy.way {
                    Way::ToCall => {
                        let expected = self.seen.get(&(file, half)).copied().unwrap_or(0);
                        assert_eq!(frame[at], expected, "file {file} half page {half}");
                    }
                    _ => {
                        self.next_value += 1;
                        frame[at] = self.next_value;
                        self.seen.insert((file, half), self.next_value);
                    }
                }
            }
        }
    }

    fn ended(&mut self, done: CallDone) {
        let wanted = self.tasks[done.token as usize].take().expect("it was under way");
        let file = self.cache.opens[wanted.open.0 as usize].file;
        let size = self.cache.file_size(file);
        match wanted.kind {
            CallKind::Read => {
                assert_eq!(done.status, Status::Ok);
                let size = self.sizes[done.token as usize];
                let is_short = wanted.offset + wanted.bytes > FileOffset::new(size);
                assert!(
                    done.bytes <= wanted.bytes && (is_short || done.bytes == wanted.bytes),
                    "{done:?}"
                );
            }
            CallKind::Write => assert_eq!((done.status, done.bytes), (Status::Ok, wanted.bytes)),
            CallKind::Fault { .. } => {
                assert!(done.status.is_ok() || wanted.offset.get() >= size.get());
            }
            _ => assert_eq!(done.status, Status::Ok),
        }
        for (sector, least) in core::mem::take(&mut self.promises[done.token as usize]) {
            let held = self.device.get(&sector).copied().unwrap_or([0; 2]);
            assert!(
                held[0] >= least[0] && held[1] >= least[1],
                "sector {sector} after an fsync: {held:?} for {least:?}"
            );
        }
    }

    fn submit(&mut self) {
        while self.in_flight.len() < 12 {
            let Some(io) = self.cache.poll_io(self.now) else { return };
            if io.op == Op::Write {
                self.written += io.bytes.get() / PAGE;
                let held =
                    self.cache.frames(io.token).iter().map(|frame| self.frames[frame.0 as usize]);
                self.stable.insert(io.token, held.collect());
            }
            self.in_flight.push(io);
        }
    }

    fn complete(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let io =
            self.in_flight.swap_remove(self.random.below(self.in_flight.len() as u64) as usize);
        let frames: Vec<FrameId> = self.cache.frames(io.token).to_vec();
        if let Some(held) = self.stable.remove(&io.token) {
            let now = frames.iter().map(|frame| self.frames[frame.0 as usize]);
            assert!(now.eq(held), "what was being written has changed");
        }
        let fails =
            io.op == Op::Read && io.flags.contains(Flags::RAHEAD) && self.random.below(20) == 0;
        for (n, frame) in frames.into_iter().enumerate() {
            let sector = io.sector.get() + 8 * n as u64;
            match io.op {
                Op::Write => _ = self.device.insert(sector, self.frames[frame.0 as usize]),
                _ if fails => self.frames[frame.0 as usize] = [u64::MAX; 2],
                _ => {
                    self.frames[frame.0 as usize] =
                        self.device.get(&sector).copied().unwrap_or([0; 2]);
                }
            }
        }
        let status = if fails { Status::Medium } else { Status::Ok };
        self.cache.complete(self.now, io.token, status, Nanos::ZERO);
    }

    fn timers(&mut self) {
        while self.cache.next_timer().is_some_and(|at| at <= self.now) {
            self.cache.handle_timers(self.now);
        }
    }

    fn step(&mut self) {
        self.now = self.now + Nanos::from_micros(self.random.below(2_000));
        self.timers();
        self.copy();
        match self.random.below(3) {
            0 | 1 => self.begin(),
            _ => self.complete(),
        }
        self.copy();
        self.submit();
        while let Some(done) = self.cache.poll_done() {
            self.ended(done);
        }
        assert!(self.cache.resident().free() > 0 || self.cache.resident().deficit() == 0);
    }

    /// Completes everything in progress.
    fn settle(&mut self) {
        let mut steps = 0;
        while self.tasks.iter().any(Option::is_some) || !self.in_flight.is_empty() {
            self.now = self.now + Nanos::from_millis(1);
            self.timers();
            self.complete();
            self.copy();
            self.submit();
            while let Some(done) = self.cache.poll_done() {
                self.ended(done);
            }
            steps += 1;
            assert!(steps < 200_000, "it does not end");
        }
    }
}

fn check(seed: u64, policy: &str, write_mode: WriteMode) {
    let mut world = World::new(seed, policy, write_mode);
    for step in 0..6_000 {
        world.step();
        if step % 16 == 0 {
            world.cache.self_check();
        }
    }
    world.settle();
    // After the write-back the device has what programs saw, and each dirtying was written once.
    for open in [0, 2, 4].map(|n| world.opens[n]) {
        let fsync = Call::new(TaskId(0), 0, open, CallKind::Fsync, FileOffset::ZERO, Bytes::ZERO);
        world.tasks[0] = Some(fsync);
        assert_eq!(world.cache.call(world.now, fsync), Called::Wait);
        world.submit();
        world.settle();
    }
    world.cache.self_check();
    assert!(world.cache.is_idle());
    for (&(file, half), &value) in &world.seen {
        assert_eq!(world.device[&World::sector(file, half / 2)][(half % 2) as usize], value);
    }
    assert_eq!(world.written, world.cache.stats().dirtied);
    let stats = world.cache.resident().stats();
    assert!(stats.evicted > 0 && world.next_value > 1_000, "seed {seed} did too little: {stats:?}");
}

#[test]
fn the_cache_is_a_file() {
    for (n, policy) in POLICIES.iter().enumerate() {
        check(n as u64 + 1, policy, WriteMode::Back);
        check(n as u64 + 8, policy, if n % 2 == 0 { WriteMode::Through } else { WriteMode::Back });
    }
}
