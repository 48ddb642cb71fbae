//! Compares what sequences of reads, loads and stores bring into the cache with what Linux 6.18.44
//! cached, page by page. `tests/data/kernel-truth/readahead/README.md` has the format and says how
//! to measure anew.

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs};

use elevon_cache::Advice;
use elevon_cache::FileId;
use elevon_cache::page_cache::{CacheConfig, Call, CallKind, Called, OpenId, PageCache};
use elevon_core::kernel::Kernel;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, FileOffset, Instant, Nanos, PAGE_SIZE, PageIndex, Sector, TaskId};

const RECORD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/kernel-truth/readahead/sequences-6.18.44.txt"
);
const FILE: Bytes = Bytes::new(1 << 30);

struct Machine {
    cache: PageCache,
    file: FileId,
    opens: BTreeMap<String, OpenId>,
    cached: BTreeSet<u64>,
}

impl Machine {
    /// Returns an empty cache before a device with the `read_ahead_kb` that a sequence names.
    fn new(sequence: &str) -> Self {
        let kib =
            sequence.split_once("read_ahead_kb=").map_or(128, |(_, kib)| kib.parse().expect("KiB"));
        let config = CacheConfig::new(Bytes::new(1 << 32), TaskId(9));
        let mut cache = PageCache::new(CacheConfig {
            rules: Kernel::V6_18.rules(),
            ra_pages: kib / 4,
            ..config
        });
        let file = cache.add_file(Sector::ZERO, FILE, FILE);
        Self { cache, file, opens: BTreeMap::new(), cached: BTreeSet::new() }
    }

    /// Does what a line says. Returns the pages that were cached by it.
    fn step(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let (what, name) =
            (words.next().expect("what to do"), words.next().expect("by which descriptor"));
        let Self { cache, file, opens, .. } = self;
        let open = *opens.entry(name.to_owned()).or_insert_with(|| cache.open(*file));
        let word = words.next().expect("an operand");
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let advice = || match word {
            "normal" => Advice::Normal,
            "random" => Advice::Random,
            "sequential" => Advice::Sequential,
            other => panic!("{other}: no advice"),
        };
        let (kind, offset, bytes) = match what {
            "read" => (CallKind::Read, number(word), number(words.next().expect("a size"))),
            "load" => (CallKind::Fault { write: false }, number(word) * PAGE_SIZE, 1),
            "store" => (CallKind::Fault { write: true }, number(word) * PAGE_SIZE, 1),
            "fadvise" => (CallKind::Fadvise(advice()), 0, 0),
            "madvise" => (CallKind::Madvise(advice()), 0, 0),
            other => panic!("{other}: unknown"),
        };
        let call = Call::new(TaskId(0), 0, open, kind, FileOffset::new(offset), Bytes::new(bytes));
        let called = self.cache.call(Instant::ZERO, call);
        while let Some(io) = self.cache.poll_io(Instant::ZERO) {
            self.cache.complete(Instant::ZERO, io.token, Status::Ok, Nanos::ZERO);
        }
        let done =
            if let Called::Done(done) = called { Some(done) } else { self.cache.poll_done() };
        assert_eq!(done.map(|done| done.status), Some(Status::Ok), "{line}");
        self.cache.self_check();
        self.new_runs()
    }

    fn new_runs(&mut self) -> String {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let (pages, mut at) = (self.cache.resident().pages(), PageIndex::ZERO);
        while let Some((index, _)) = pages.next(self.file, at) {
            at = index.next();
            if !self.cached.insert(index.get()) {
                continue;
            }
            match runs.last_mut() {
                Some((first, size)) if *first + *size == index.get() => *size += 1,
                _ => runs.push((index.get(), 1)),
            }
        }
        runs.iter().map(|(first, size)| format!("{first}+{size}")).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn each_step_caches_what_the_kernel_cached() {
    let path = env::var("READAHEAD_SEQUENCES").unwrap_or_else(|_| RECORD.to_owned());
    let text = fs::read_to_string(&path).expect("the record");
    let (mut machine, mut sequence, mut wrong) = (Machine::new(""), "", BTreeMap::new());
    let (mut sequences, mut steps) = (0, 0);
    for (line, number) in text.lines().zip(1..) {
        if let Some(name) = line.strip_prefix("= ") {
            (machine, sequence) = (Machine::new(name), name);
            sequences += 1;
        } else if let Some((step, theirs)) = line.split_once('>')
            && !wrong.contains_key(sequence)
        {
            let ours = machine.step(step);
            steps += 1;
            if ours != theirs.trim() {
                wrong.insert(
                    sequence,
                    format!("line {number}: {step}: here {ours:?}, kernel {:?}", theirs.trim()),
                );
            }
        }
    }
    assert!(
        steps >= 1000 && sequences >= 50,
        "{steps} steps of {sequences} sequences are too few: {path}"
    );
    let report: Vec<_> = wrong.iter().map(|(name, first)| format!("{name}: {first}")).collect();
    assert!(
        wrong.is_empty(),
        "{} of {sequences} sequences differ:\n{}",
        wrong.len(),
        report.join("\n")
    );
}
