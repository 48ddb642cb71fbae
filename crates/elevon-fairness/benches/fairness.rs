//! Every scheduler on every scenario and on random mixes: which scheduler meets which goal, which
//! is at least as good as which, and throughput against unfairness.
//!
//! `cargo bench -p elevon-fairness --bench fairness` prints all of it and takes some ten minutes on
//! two processors. After `--`:
//!
//! - `scenarios [WORD]`: the table of scenarios, those whose names contain the word;
//! - `mixes [COUNT [FIRST]]`: random mixes, 1,000 unless a number is given, from seed FIRST (0) on;
//! - `mix SEED`: one random mix in full, with its job file;
//! - `picture [COUNT]`: writes `target/aileron.svg` from as many mixes;
//! - `--only=NAME,...` beside one of these: compares only these schedulers with `none`.
//!
//! Run by `cargo test` it proves that it runs.

use std::fmt::Write as _;
use std::time::Instant;

use elevon_fairness::dominance::{Point, THROUGHPUT, Tally, UNFAIRNESS, Verdict, points};
use elevon_fairness::{Claims, Lab, Mix, Scenario, Setup, parallel, random_mix, scenarios};
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};

const MIXES: u64 = 1_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_full = words.iter().any(|word| word == "--bench");
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let lab = Lab::new();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match words.first() {
        Some(&"scenarios") => print_scenarios(&lab, words.get(1).copied().unwrap_or_default()),
        Some(&"mixes") => {
            drop(print_mixes(&lab, number(2).unwrap_or(0), number(1).unwrap_or(MIXES)));
        }
        Some(&"mix") => print_mix(&lab, number(1).unwrap_or(0)),
        Some(&"picture") => draw(&print_mixes(&lab, 0, number(1).unwrap_or(MIXES))),
        Some(word) => panic!("{word}: expected scenarios, mixes, mix or picture"),
        None if is_full => {
            print_scenarios(&lab, "");
            print_mixes(&lab, 0, MIXES);
        }
        None => {
            print_scenarios(&lab, "a-");
            print_mixes(&lab, 20, 2);
        }
    }
}

/// The schedulers that are compared, `none` first.
fn setups() -> Vec<Setup> {
    let only = std::env::args().find_map(|word| word.strip_prefix("--only=").map(str::to_owned));
    let is_wanted = |setup: &Setup| {
        let named = |only: String| only.split(',').any(|name| name == setup.name);
        *setup == Setup::NONE || only.clone().is_none_or(named)
    };
    Setup::all().filter(is_wanted).collect()
}

/// `aileron` if this build has it; else the stand-in that is compared with the others in its place.
fn subject() -> Setup {
    if Setup::AILERON.is_there() { Setup::AILERON } else { Setup::NONE }
}

fn print_scenarios(lab: &Lab, word: &str) {
    let all: Vec<Scenario> =
        scenarios().into_iter().filter(|scenario| scenario.name.contains(word)).collect();
    let mut setups = setups();
    if setups.len() > 2 {
        setups.push(Setup::BFQ);
    }
    let started = Instant::now();
    let scored = parallel::map(&all, |scenario| {
        setups.iter().map(|setup| scenario.score(lab, setup)).collect::<Vec<_>>()
    });
    let names =
        setups.iter().fold(String::new(), |line, setup| line + &format!(" {:>12}", setup.name));
    println!("scenarios: the figure that each goal is about, and ! where it is missed");
    println!("{:<66}{names}", "");
    for (scenario, scores) in all.iter().zip(&scored) {
        println!("{}", scenario.name);
        for (at, goal) in scenario.goals.iter().enumerate() {
            let mut line = format!("  {:<64}", goal.words(&scenario.mix));
            for score in scores {
                let mark = if score[at].is_met { ' ' } else { '!' };
                write!(line, " {:>11.3}{mark}", score[at].value).expect("text has room");
            }
            println!("{line}");
        }
    }
    let met = |at: usize| {
        scored.iter().filter(|scores| scores[at].iter().all(|score| score.is_met)).count()
    };
    let counts =
        (0..setups.len()).fold(String::new(), |line, at| line + &format!(" {:>11} ", met(at)));
    println!("{:<66}{counts}", format!("scenarios of {} with every goal met", all.len()));
    println!("in {:.1} s\n", started.elapsed().as_secs_f64());
}

/// A mix, its seed, and a point for each scheduler.
struct Seeded {
    seed: u64,
    mix: Mix,
    points: Vec<Point>,
}

fn print_mixes(lab: &Lab, first: u64, count: u64) -> Vec<Seeded> {
    let setups = setups();
    let seeds: Vec<u64> = (first..first + count).collect();
    let started = Instant::now();
    let run = |seed: &u64| {
        let mix = random_mix(*seed);
        Seeded { seed: *seed, points: points(lab, &mix, &setups), mix }
    };
    let all = parallel::map(&seeds, run);
    println!(
        "{count} random mixes from seed {first} on, in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    print_means(&all, &setups);
    print_dominance(&all, &setups);
    all
}

/// Means over the mixes: throughput as a part of that of `none`, unfairness, misplaced time.
fn means(all: &[Seeded], at: usize) -> [f64; 3] {
    let mean =
        |of: &dyn Fn(&Seeded) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
    [
        mean(&|one| one.points[at].division.throughput() / one.points[0].division.throughput()),
        mean(&|one| one.points[at].division.unfairness()),
        mean(&|one| one.points[at].division.misplaced()),
    ]
}

fn print_means(all: &[Seeded], setups: &[Setup]) {
    println!(
        "\n{:<14} {:>20} {:>12} {:>12}",
        "mean of mixes", "throughput of none's", "unfairness", "misplaced"
    );
    for (at, setup) in setups.iter().enumerate() {
        let [throughput, unfairness, misplaced] = means(all, at);
        println!("{:<14} {throughput:>20.3} {unfairness:>12.3} {misplaced:>12.3}", setup.name);
    }
}

fn print_dominance(all: &[Seeded], setups: &[Setup]) {
    let own =
        setups.iter().position(|setup| *setup == subject()).expect("the subject is one of them");
    println!(
        "\n{} against the others: at least as good in both (unfairness within {UNFAIRNESS}, throughput within {THROUGHPUT}),",
        subject().name
    );
    println!(
        "fairer and slower, faster and less fair, or beaten: worse in something and better in nothing"
    );
    println!("{:<14} {:>9} {:>9} {:>9} {:>9}", "against", "as good", "fairer", "faster", "beaten");
    let verdict = |one: &Seeded, at: usize| {
        Verdict::between(&one.points[own].division, &one.points[at].division)
    };
    for at in (0..setups.len()).filter(|at| *at != own) {
        let tally = Tally::from_verdicts(all.iter().map(|one| verdict(one, at)));
        let parts = [tally.as_good, tally.fairer, tally.faster, tally.beaten]
            .map(|count| 100.0 * tally.part(count));
        let [as_good, fairer, faster, beaten] = parts;
        println!(
            "{:<14} {as_good:>8.1}% {fairer:>8.1}% {faster:>8.1}% {beaten:>8.1}%",
            setups[at].name
        );
    }
    println!("\nmixes that are not won against everybody, throughput/unfairness, ! where beaten:");
    for one in all {
        let lost: Vec<String> = (0..setups.len())
            .filter(|at| *at != own && verdict(one, *at) != Verdict::AsGood)
            .map(|at| {
                let division = &one.points[at].division;
                let mark = if verdict(one, at).is_beaten() { "!" } else { "" };
                format!(
                    "{mark}{} {:.3}/{:.3}",
                    setups[at].name,
                    division.throughput(),
                    division.unfairness()
                )
            })
            .collect();
        if !lost.is_empty() {
            let division = &one.points[own].division;
            let own = format!("{:.3}/{:.3}", division.throughput(), division.unfairness());
            println!("seed {} {}: {own} against {}", one.seed, one.mix.device, lost.join(", "));
            println!("    short is {}", shortest(one, own_at(one)));
        }
    }
}

fn own_at(one: &Seeded) -> usize {
    one.points.iter().position(|point| point.setup == subject()).expect("the subject ran")
}

/// The process that is furthest below its share.
fn shortest(one: &Seeded, at: usize) -> String {
    let division = &one.points[at].division;
    let part = |at: &usize| division.got[*at] / division.shares[*at].max(1e-9);
    let worst = (0..division.got.len())
        .min_by(|a, b| part(a).total_cmp(&part(b)))
        .expect("a mix has processes");
    let (process, part) = (&one.mix.processes[worst], part(&worst));
    format!("{} ({}) with {part:.3} of its share", process.name, describe(process))
}

fn describe(process: &elevon_fairness::MixProcess) -> String {
    let order = if process.is_random { "random" } else { "sequential" };
    let op = if process.is_write { "writes" } else { "reads" };
    let think = if process.think.is_zero() {
        String::new()
    } else {
        format!(", thinks {} us", process.think.get() / 1000)
    };
    format!(
        "{order} {op} of {} KiB, depth {}, weight {}{think}",
        process.bytes >> 10,
        process.depth,
        process.weight()
    )
}

fn print_mix(lab: &Lab, seed: u64) {
    let mix = random_mix(seed);
    let (jobs, tenants) = lab.texts(&mix, &Setup::AILERON);
    println!("--device {}\n{jobs}{tenants}", mix.device);
    let (claims, alone) = (Claims::from_lab(lab, &mix), lab.alone(&mix));
    println!(
        "{:<12} {:>12} {:>12} {:>10} {:>10}",
        "process", "alone I/O/s", "p99 us", "demand", "cost us"
    );
    for (at, process) in mix.processes.iter().enumerate() {
        let (rate, p99) = (alone[at].rate, alone[at].p99.get() / 1000);
        let (demand, cost) = (claims.demands[at], claims.costs[at] / 1e3);
        println!(
            "{:<12} {rate:>12.1} {p99:>12} {demand:>10.4} {cost:>10.1}  {}",
            process.name,
            describe(process)
        );
    }
    for setup in setups() {
        let measured = lab.run(&mix, &setup);
        let division = claims.division(&measured);
        let (throughput, unfairness) = (division.throughput(), division.unfairness());
        println!("\n{}: throughput {throughput:.3}, unfairness {unfairness:.3}", setup.name);
        for (at, process) in mix.processes.iter().enumerate() {
            let got = &measured.processes[at];
            println!(
                "  {:<10} {:>12.1} I/O/s, p99 {:>9} us, device time {:.4} of a share of {:.4}",
                process.name,
                got.rate,
                got.p99.get() / 1000,
                division.got[at],
                division.shares[at]
            );
        }
    }
}

/// Writes throughput against unfairness, a point for each scheduler.
fn draw(all: &[Seeded]) {
    let axis =
        |title: &str| Axis { title: title.into(), scale: Scale::Linear, unit: Unit::Percent };
    let series =
        all.first().into_iter().flat_map(|one| one.points.iter().enumerate()).map(|(at, point)| {
            let [throughput, unfairness, _] = means(all, at);
            let name = point.setup.name.to_owned();
            Series {
                name: name.clone(),
                colour: at,
                points: vec![(100.0 * unfairness, 100.0 * throughput)],
                labels: vec![name],
                ..Series::default()
            }
        });
    let plot = Plot {
        title: "Throughput against unfairness".into(),
        description: format!(
            "Means over {} random mixes: device time delivered, as a part of what none delivers, against the greatest \
             shortfall of a process against its weighted max-min share. Up is faster, left is fairer.",
            all.len()
        ),
        mark: Mark::Points,
        x: axis("unfairness"),
        y: axis("throughput of none's"),
        series: series.collect(),
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/aileron.svg");
    std::fs::write(path, plot.svg_file()).expect("docs can be written");
    println!("written: target/aileron.svg");
}
