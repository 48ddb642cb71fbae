//! The goals of `aileron`, on random mixes as users write them, and the jobs that miss them.
//!
//! `cargo bench -p elevon-fairness --bench goals` runs 1,000 mixes and takes about two minutes on
//! one processor. They take the path of `elevon run` at its defaults: the default kernel merges,
//! plugs and charges the CPU time of an I/O and of the scheduler. After `--`:
//!
//! - `mixes [COUNT [FIRST]]`: as many mixes, from seed FIRST (0) on;
//! - `bounds [COUNT [FIRST]]`: the same, and for each mix that is missed what a scheduler that knew
//!   the device could have made of it;
//! - `case`: the case that is a goal of its own;
//! - `ablation [COUNT [FIRST]]`: the same mixes without each mechanism in turn, by its tunable;
//! - `mix SEED`: one mix in full, with its job file;
//! - `bursts`: a reader of weight 1000 beside bursts, and beside the same load without them;
//! - `setups`: ten set-ups of tenants, beside `none`, `bfq` and io.cost;
//! - `--scheduler=TEXT` beside one of these: another scheduler in the place of `aileron`;
//! - `--quiet`: without the list of those that miss.
//!
//! What a mix gets alone and under `none` is kept in `target/yardsticks.json` for the next time. It
//! is measured anew if a source that it depends on has changed: any but those of `aileron`.
//! Seeds from 100,000 on are looked at when a change is done, and nothing is chosen by them.
//!
//! Run by `cargo test` it proves that it runs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use elevon_fairness::job_mix::{DEVICES, JobMix};
use elevon_fairness::parallel;
use elevon_fairness::progress::Progress;
use elevon_fairness::tenant_setup::{SETUP_DEVICES, TenantSetup, tenant_setups};

#[path = "command/bound.rs"]
mod bound;
mod command;

use bound::Bound;
use command::{ios, ios_of_tenants};

const MIXES: u64 = 1_000;

/// A mechanism, and what takes it out.
const MECHANISMS: [(&str, &str); 3] = [
    ("turns on a disk", "aileron:turn_ms=0"),
    ("the depth that is found", "aileron:depth=1024"),
    ("classes that wait", "aileron:class_expire=60000"),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_full = words.iter().any(|word| word == "--bench");
    let scheduler = words.iter().find_map(|word| word.strip_prefix("--scheduler="));
    let bench = Bench {
        scheduler: scheduler.unwrap_or("aileron").to_owned(),
        is_quiet: words.iter().any(|word| word == "--quiet"),
        known: Known::read(),
    };
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (count, first) = (number(1).unwrap_or(MIXES), number(2).unwrap_or(0));
    match words.first() {
        Some(&"mixes") => bench.print_mixes(first, count),
        Some(&"bounds") => bench.print_bounds(first, count),
        Some(&"case") => print_case(&bench.scheduler),
        Some(&"ablation") => bench.print_ablation(first, count),
        Some(&"mix") => bench.print_mix(number(1).unwrap_or(0)),
        Some(&"setups") => print_setups(),
        Some(&"bursts") => print_bursts(),
        Some(word) => {
            panic!("{word}: expected mixes, bounds, case, ablation, mix, setups or bursts")
        }
        None if is_full => {
            print_case(&bench.scheduler);
            bench.print_mixes(0, MIXES);
        }
        None => bench.print_mixes(6, 1),
    }
}

/// The I/Os of each job of a mix alone, and beside the others under `none`.
type Yardsticks = (Vec<u64>, Vec<u64>);

/// What was measured before, by the text of the mix.
struct Known {
    path: PathBuf,
    /// The sources by which it was measured.
    version: String,
    all: Mutex<BTreeMap<String, Yardsticks>>,
}

/// Returns a hash of every source of the workspace but those of `aileron`.
fn version() -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (mut folders, mut files) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry of the folder").path();
            let is_own = path.file_name().is_some_and(|name| {
                ["aileron", "aileron.rs", "tests", "benches"].iter().any(|own| name == *own)
            });
            match path.is_dir() {
                _ if is_own => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for path in files {
        std::fs::read(&path).expect("a source can be read").hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

impl Known {
    fn read() -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/yardsticks.json");
        let text = std::fs::read_to_string(folder).unwrap_or_default();
        let version = version();
        let known: Option<(String, _)> = serde_json::from_str(&text).ok();
        let all = known.filter(|(of, _)| *of == version).map(|(_, all)| all).unwrap_or_default();
        Self { path: folder.into(), version, all: Mutex::new(all) }
    }

    /// Returns the I/Os of each job of a mix alone, and beside the others under `none`.
    fn of(&self, mix: &JobMix) -> Yardsticks {
        let key = format!("{} {}", mix.device, mix.text(None));
        if let Some(known) = self.all.lock().expect("no run panics with it").get(&key) {
            return known.clone();
        }
        let alone = |at| ios(&mix.text(Some(at)), mix.device, "none")[0];
        let none = ios(&mix.text(None), mix.device, "none");
        let measured = ((0..mix.jobs.len()).map(alone).collect::<Vec<_>>(), none);
        self.all.lock().expect("no run panics with it").insert(key, measured.clone());
        measured
    }

    fn write(&self) {
        let all = self.all.lock().expect("no run panics with it");
        let text = serde_json::to_string(&(&self.version, &*all)).expect("numbers are JSON");
        std::fs::write(&self.path, text).expect("the folder target can be written");
    }
}

/// A mix, and what came of it.
struct Scored {
    mix: JobMix,
    own: Progress,
    none: Progress,
}

struct Bench {
    scheduler: String,
    is_quiet: bool,
    known: Known,
}

impl Bench {
    fn score(&self, seed: u64, scheduler: &str) -> Scored {
        let mix = JobMix::draw(seed);
        let (alone, none) = self.known.of(&mix);
        let got = ios(&mix.text(None), mix.device, scheduler);
        let progress = |got: &[u64]| Progress::of(&mix, &alone, got);
        Scored { own: progress(&got), none: progress(&none), mix }
    }

    fn scores(&self, first: u64, count: u64, scheduler: &str) -> Vec<Scored> {
        let seeds: Vec<u64> = (first..first + count).collect();
        let all = parallel::map(&seeds, |seed| self.score(*seed, scheduler));
        self.known.write();
        all
    }

    fn print_mixes(&self, first: u64, count: u64) {
        let started = Instant::now();
        let all = self.scores(first, count, &self.scheduler);
        if !self.is_quiet {
            all.iter().filter(|one| !one.own.is_kept()).for_each(print_loser);
        }
        println!("{count} mixes from seed {first} on, {}:", self.scheduler);
        println!("{:<46} {:>9} {:>9} {:>9} {:>9}", "", "mixes", "kept", "by none", "progress");
        let is_any = |_: &&Scored| true;
        print_line("all", all.iter().filter(is_any));
        for device in DEVICES {
            print_line(device, all.iter().filter(|one| one.mix.device == device));
        }
        print_line("  steady", all.iter().filter(|one| !one.mix.varies));
        print_line("  that come and go", all.iter().filter(|one| one.mix.varies));
        println!("in {:.1} s\n", started.elapsed().as_secs_f64());
    }

    /// Counts each mix that is missed under the first of three that is true. Another setting keeps
    /// it. Jobs that are held to their slices have them, so that `aileron` could. Or it is out of
    /// reach of the device.
    fn print_bounds(&self, first: u64, count: u64) {
        let all = self.scores(first, count, "aileron");
        let missed: Vec<&Scored> = all.iter().filter(|one| !one.own.is_kept()).collect();
        let bounds =
            parallel::map(&missed, |one| Bound::of_mix(&one.mix, &self.known.of(&one.mix).0));
        if !self.is_quiet {
            for (one, bound) in missed.iter().zip(&bounds) {
                let (_, worst) = one.own.worst();
                let Bound { lacks, kept_by, best } = bound;
                println!(
                    "seed {} {}: {worst:.3}, at best {best:.3}, kept by {}; {lacks:?}",
                    one.mix.seed,
                    one.mix.device,
                    kept_by.unwrap_or("none of them")
                );
            }
        }
        println!("{count} mixes from seed {first} on:");
        println!(
            "{:<46} {:>7} {:>7} {:>9} {:>9} {:>9}",
            "", "mixes", "missed", "a setting", "held", "device"
        );
        for device in DEVICES {
            let mixes = all.iter().filter(|one| one.mix.device == device).count();
            let own = || {
                let both = missed.iter().zip(&bounds);
                both.filter(|(one, _)| one.mix.device == device).map(|(_, bound)| bound)
            };
            let kept = own().filter(|bound| bound.kept_by.is_some()).count();
            let out_of_reach = |bound: &&Bound| bound.kept_by.is_none() && bound.is_of_device();
            let out = own().filter(out_of_reach).count();
            let missed = own().count();
            println!(
                "{device:<46} {mixes:>7} {missed:>7} {kept:>9} {:>9} {out:>9}",
                missed - kept - out
            );
        }
    }

    fn print_ablation(&self, first: u64, count: u64) {
        let whole = self.scores(first, count, &self.scheduler);
        print_line("all mechanisms", whole.iter());
        for (words, scheduler) in MECHANISMS {
            let without = self.scores(first, count, scheduler);
            print_line(&format!("without {words}"), without.iter());
            let moved = |is: fn(&Scored) -> bool| {
                let both = whole.iter().zip(&without);
                both.filter(|(with, without)| is(with) && !is(without)).count()
            };
            println!(
                "    {} no longer kept, {} kept now",
                moved(|one| one.own.is_kept()),
                moved(|one| !one.own.is_kept())
            );
        }
    }

    fn print_mix(&self, seed: u64) {
        let Scored { mix, own, none } = self.score(seed, &self.scheduler);
        println!("--device {}\n{}", mix.device, mix.text(None));
        let (alone, _) = self.known.of(&mix);
        println!("{:<6} {:>9} {:>9} {:>9} {:>9}", "", "alone", "part", "of slice", "none's");
        for (at, job) in mix.jobs.iter().enumerate() {
            println!(
                "{:<6} {:>9} {:>9.3} {:>9.3} {:>9.3}  {}",
                job.name,
                alone[at],
                mix.part(at),
                own.of_slice[at],
                none.of_slice[at],
                job.words
            );
        }
        println!("total progress {:.3}, under none {:.3}", own.total, none.total);
    }
}

fn print_loser(one: &Scored) {
    let (at, part) = one.own.worst();
    let (_, of_none) = one.none.worst();
    println!(
        "seed {} {}: {} has {part:.3} of its slice (none {of_none:.3}): {}",
        one.mix.seed, one.mix.device, one.mix.jobs[at].name, one.mix.jobs[at].words
    );
}

fn print_line<'a>(words: &str, all: impl Iterator<Item = &'a Scored>) {
    let (mut count, mut kept, mut by_none, mut gain) = (0, 0, 0, 0.0);
    for one in all {
        count += 1;
        kept += u64::from(one.own.is_kept());
        by_none += u64::from(one.none.is_kept());
        gain += one.own.total / one.none.total;
    }
    println!("{words:<46} {count:>9} {kept:>9} {by_none:>9} {:>9.3}", gain / f64::from(count));
}

/// A reader at depth 1 beside a writer whose requests merge: 400 I/Os a second, and 0.9 of what the
/// writer has under `none`.
fn print_case(scheduler: &str) {
    const READER: &str = "[r]\nrw=randread\nbs=4k\nioengine=psync\n";
    const CASES: [&str; 4] = [
        "[w]\nrw=write\nbs=256k\niodepth=32\nioengine=libaio\n",
        "[w]\nrw=write\nbs=64k\niodepth=32\nioengine=io_uring\n",
        "[w]\nrw=read\nbs=128k\niodepth=32\nioengine=libaio\n",
        "[w]\nrw=write\nbs=32k\niodepth=16\nioengine=libaio\nnumjobs=2\n",
    ];
    println!("a reader of 4 KiB, depth 1, beside a stream, I/Os a second: with {scheduler}, none");
    for writer in CASES {
        let text = format!("[global]\ndirect=1\ntime_based\nruntime=10\n{READER}{writer}");
        let [own, none] = [scheduler, "none"].map(|name| ios(&text, DEVICES[0], name));
        let rate = |ios: &[u64]| ios.iter().sum::<u64>() / 10;
        println!(
            "  {:<50} {:>5} {:>5}, stream {:>5} {:>5} ({:.3})",
            writer.replace('\n', " "),
            rate(&own[..1]),
            rate(&none[..1]),
            rate(&own[1..]),
            rate(&none[1..]),
            rate(&own[1..]) as f64 / rate(&none[1..]) as f64
        );
    }
    println!();
}

/// What divides the device among tenants: name, `--scheduler`, and whether io.cost does.
const DIVISIONS: [(&str, &str, bool); 4] = [
    ("aileron", "aileron", false),
    ("bfq", "bfq:low_latency=0", false),
    ("io.cost", "none", true),
    ("none", "none", false),
];

/// Returns the least part of its slice that a tenant has, and the sum of all progress, of each of
/// [`DIVISIONS`]. A tenant whose slice is more than it asks for counts by what it asks for.
fn divided(setup: &TenantSetup, (device, model): (&str, &str), folder: &Path) -> [(f64, f64); 4] {
    let seconds = if device.starts_with("hdd") { 10 } else { 3 };
    let name = format!("{}-{device}", setup.name.replace(' ', "-"));
    let run = |only, (at, scheduler, has_cost): (usize, &str, bool)| {
        let path = folder.join(format!("{name}-{at}.toml"));
        std::fs::write(&path, setup.file(has_cost.then_some(model)))
            .expect("the folder can be written");
        ios_of_tenants(&setup.jobs(seconds, only), device, scheduler, Some(path))
    };
    let alone = |at| run(Some(at), (4, "none", false))[0].max(1) as f64;
    let alone: Vec<f64> = (0..setup.tenants.len()).map(alone).collect();
    let mut at = 0;
    DIVISIONS.map(|(_, scheduler, has_cost)| {
        at += 1;
        let got = run(None, (at, scheduler, has_cost));
        let progress: Vec<f64> =
            got.iter().zip(&alone).map(|(got, alone)| *got as f64 / alone).collect();
        let parts = progress.iter().enumerate().map(|(at, own)| own / setup.part(at));
        (parts.fold(f64::INFINITY, f64::min), progress.iter().sum())
    })
}

/// The ten set-ups on four devices. The best has every tenant at 0.9 of its slice and the most
/// progress; if none has, it is the one whose worst tenant has the most.
fn print_setups() {
    let folder = std::env::temp_dir().join(format!("elevon-setups-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files of tenants");
    let setups = tenant_setups();
    let all: Vec<((&str, &str), &TenantSetup)> = SETUP_DEVICES
        .iter()
        .flat_map(|device| setups.iter().map(move |one| (*device, one)))
        .collect();
    let divided = parallel::map(&all, |(device, setup)| divided(setup, *device, &folder));
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    println!("worst part of a slice, and sum of progress");
    println!(
        "{:<18}{:<34}{:>14}{:>14}{:>14}{:>14}  best",
        "", "", "aileron", "bfq", "io.cost", "none"
    );
    for (((device, _), setup), figures) in all.iter().zip(divided) {
        let rank = |(worst, progress): (f64, f64)| {
            (worst.min(0.9), if worst < 0.9 { 0.0 } else { progress })
        };
        let best = (0..4).max_by(|a, b| {
            let (a, b) = (rank(figures[*a]), rank(figures[*b]));
            a.partial_cmp(&b).expect("no NaN")
        });
        let figures = figures.map(|(worst, progress)| format!("{worst:>6.2} {progress:>6.2} "));
        println!(
            "{device:<18}{:<34}{}  {}",
            setup.name,
            figures.concat(),
            DIVISIONS[best.expect("four")].0
        );
    }
}

/// A reader of weight 1000 beside four processes of weight 10, whose reads come in bursts of 32 or
/// one after the other.
fn print_bursts() {
    const BURSTS: &str = "iodepth_batch=32\niodepth_batch_complete_min=32\niodepth_low=1\n";
    let folder = std::env::temp_dir();
    let tenants = folder.join(format!("elevon-bursts-{}.toml", std::process::id()));
    std::fs::write(&tenants, "[tenant.a]\nweight = 10\n[tenant.b]\nweight = 1000\n")
        .expect("a file of tenants");
    println!("I/Os a second of the reader: alone, beside bursts, beside a steady load");
    for device in ["sata-ssd-860evo", "slots:slots=8,latency=1ms,bandwidth=5MB/s,size=16GiB"] {
        for scheduler in ["aileron", "bfq:low_latency=0", "none"] {
            let rate = |others: Option<&str>| {
                let mut text = "[global]\ndirect=1\ntime_based\nruntime=30\nioengine=io_uring\n\
                                [b]\nrw=randread\nbs=4k\noffset=4g\nsize=4g\ncgroup=b\n"
                    .to_owned();
                if let Some(batch) = others {
                    let other =
                        "rw=randread\nbs=1m\nblockalign=1m\niodepth=32\nsize=4g\ncgroup=a\n";
                    for at in 0..4 {
                        text += &format!("[a{at}]\n{other}{batch}");
                    }
                }
                ios_of_tenants(&text, device, scheduler, Some(tenants.clone()))[0] / 30
            };
            let [alone, bursts, steady] = [None, Some(BURSTS), Some("")].map(rate);
            println!("  {device:<56}{scheduler:<18}{alone:>8}{bursts:>8}{steady:>8}");
        }
    }
    std::fs::remove_file(tenants).expect("the file is there");
}
