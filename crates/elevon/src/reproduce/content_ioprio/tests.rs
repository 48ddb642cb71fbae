//! Checks the expected results of the experiment on runs made by the test, with one seed and one
//! place each.

use super::*;
use crate::reproduce::conclusions::text_of;
use sweep::{ARMS, Bios, Sweep};

/// Returns the first place of a case.
fn first(case: impl for<'a> FnOnce(&Scale<'a>) -> Sweep<'a>) -> SweepRow {
    let parameters = Parameters::parse(PARAMETERS);
    let sweep = case(&Scale { parameters: &parameters, full: false, seeds: 1, places: 1 });
    sweep::run(&Lab::quiet(), &[sweep]).expect("runs").remove(0).remove(0)
}

/// Returns the share of all bios, including write-back, that became RT.
fn promoted(row: &SweepRow, arm: &str) -> f64 {
    let bios = row.of(arm).bios;
    bios.promoted as f64 / bios.all as f64
}

#[test]
fn pages_touched_in_order_come_back_too_late_to_be_active() {
    let row = first(|scale| cases::case1(scale, "read"));
    let seconds = dd_seconds(row.of("off").mean(2));
    assert!((seconds - 55.0).abs() < 0.03 * 55.0, "calibrated: {seconds}");
    for arm in ["iter-bio", "add-page", "page-exact"] {
        assert!(promoted(&row, arm) < 0.01, "{arm}: {:?}", row.of(arm).bios);
    }
}

#[test]
fn faults_whose_pages_come_back_soon_wait_less_and_chance_does_not_do_that() {
    let row = first(|scale| cases::case1(scale, "randread"));
    let wait = |arm| row.ratio(arm, 0).mean;
    assert!(promoted(&row, "iter-bio") > 0.01, "{:?}", row.of("iter-bio").bios);
    assert!(wait("oracle") < wait("random") && wait("iter-bio") < wait("random"), "{:?}", ARMS.map(wait));
}

#[test]
fn a_launch_is_fitted_on_mainline_and_under_mq_deadline_not_even_the_oracle_helps_it() {
    let row = first(|scale| cases::case3(scale, 0));
    let launch = 10.0 * row.of("off").mean(0);
    assert!((launch - 2267.0).abs() < 0.03 * 2267.0, "calibrated: {launch}");
    assert!(row.of("iter-bio").bios.promoted > 0);
    assert!((row.ratio("oracle", 0).mean - 1.0).abs() < 0.05, "{:?}", row.ratio("oracle", 0));
}

#[test]
fn where_every_page_is_read_once_no_form_changes_anything() {
    let row = first(cases::storage);
    for arm in ["iter-bio", "add-page", "page-exact"] {
        let cell = row.of(arm);
        assert!(cell.bios.all > 1000, "{:?}", cell.bios);
        assert_eq!(cell.bios, Bios { all: cell.bios.all, ..Bios::default() }, "{arm}");
        assert_eq!(cell.figures, row.of("off").figures, "{arm}");
    }
    assert!(row.of("oracle").bios.promoted > 1000);
    // A random share of 0: the run is omitted, because it would be the same as mainline's.
    let parameters = Parameters::parse(PARAMETERS);
    let sweep = cases::storage(&Scale { parameters: &parameters, full: false, seeds: 1, places: 1 });
    let (figures, bios, _) = sweep.one(&Lab::quiet(), &row.place, 1, "random:0").expect("a run");
    assert_eq!((vec![figures], bios), (row.of("off").figures.clone(), row.of("off").bios));
}

#[test]
fn a_range_that_fits_is_read_once_and_its_rate_is_the_fitted_one() {
    let row = first(|scale| cases::case2(scale, false));
    let rate = row.of("off").mean(0);
    assert!((rate - 513.3).abs() < 0.02 * 513.3, "calibrated: {rate}");
    assert_eq!(row.cells.len(), ARMS.len());
    for arm in ["iter-bio", "add-page", "page-exact"] {
        assert_eq!(row.of(arm).bios.promoted, 0);
        assert_eq!(row.of(arm).figures, row.of("off").figures);
    }
}

#[test]
fn where_memory_is_short_order_among_equals_gains_nothing() {
    let deadline = first(|scale| cases::case2(scale, true));
    let rate = deadline.of("off").mean(0);
    assert!((rate - 513.3).abs() < 0.04 * 513.3, "calibrated: {rate}");
    assert!(deadline.of("iter-bio").bios.promoted > 1000);
    for arm in ["iter-bio", "random"] {
        assert!(deadline.ratio(arm, 0).mean < 1.02, "{arm}: {:?}", deadline.ratio(arm, 0));
    }
    let oracle = deadline.ratio("oracle", 0).mean;
    assert!((oracle - 1.0).abs() < 0.02, "all are RT: {oracle}");
}

#[test]
fn one_run_has_no_interval() {
    let one = sweep::Ratio::of(&[0.5]);
    assert_eq!((one.mean, one.low, one.high), (0.5, 0.0, f64::INFINITY), "one run has no interval");
    let wide = sweep::Ratio::of(&[0.1, 1.0, 0.5]);
    assert!(wide.low > 0.0 && wide.high > 1.0, "an interval of ratios stays above zero: {wide:?}");
    let some = sweep::Ratio { mean: 0.5, low: 0.486, high: 0.514 };
    assert_eq!((sweep::shown(some), sweep::shown(one)), ("0.50 (0.49 to 0.51)".into(), "0.50".into()));
    assert!((some.most_percent() - 51.4).abs() < 1e-9);
}

/// Returns parameters with a tenth of the usual sizes, in place of those of `--full`.
fn tiny() -> String {
    let smaller = [
        ("scale_full = 1", "scale_full = 100"),
        ("memory_full = \"6140MiB,others=2700MiB\"", "memory_full = \"62MiB,others=27MiB\""),
        ("file_full = \"2000m\"", "file_full = \"20m\""),
        ("pace_full = \"38130k\"", "pace_full = \"3813k\""),
        ("ramp_full = \"40\"", "ramp_full = \"1\""),
        ("limit_full = \"110\"", "limit_full = \"3\""),
        ("tight_full = \"6140MiB,others=4350MiB\"", "tight_full = \"62MiB,others=44MiB\""),
        ("set_full = \"400m\"", "set_full = \"4m\""),
        ("fill_full = \"3000m\"", "fill_full = \"30m\""),
        ("io_full = \"64m\"", "io_full = \"2m\""),
    ];
    smaller.iter().fold(PARAMETERS.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// Checks every printed line, with small values for the sizes of `--full`, on every stack as the
/// command does.
#[test]
fn the_report_is_printed_whole_and_says_what_its_tables_say() {
    let parameters = Parameters::parse(&tiny());
    let scale = Scale { parameters: &parameters, full: true, seeds: 1, places: usize::MAX };
    let measured = measure(&Lab::quiet(), &scale).expect("runs");
    let text = document(&scale, measured.clone()).text();
    // A command line is only wrapped before an option.
    for line in text.lines().filter(|line| !line.ends_with(" \\")) {
        assert!(line.chars().count() <= 100, "{line}\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Sizes and memory are the proposal's over 100."), "{text}");
    // With one random seed, only conclusions that need no interval are drawn.
    assert!(!flat.contains("SQLite loses") && !flat.contains("no difference larger than"), "{text}");
    assert!(flat.contains("the ratio is 1 exactly") && flat.contains("times are equal to the nanosecond"), "{text}");
    for part in [
        "in order",
        "at random",
        "all fits",
        "memory is short",
        "min_ttl_ms=100:",
        "SQLite-like",
        "cache=classic",
        "ttl 50, shorter by",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(document(&scale, measured.clone()).html("simulated").matches("<figure").count() == 2);
    conclusions_follow_the_rows(&measured);
}

/// If rows say the opposite, the conclusions are different.
fn conclusions_follow_the_rows(measured: &Measured) {
    // Returns a row with one figure for each arm: mainline's, then the ratios of all others.
    let row = |profile: &str, scheduler: &'static str, figures: &[f64], ratio: &dyn Fn(&str, usize) -> f64| {
        let place = sweep::Rig { device: profile.to_owned(), scheduler };
        let cell = |arm: &'static str| {
            let of_seed = |scatter: f64| {
                let one = |(at, x): (usize, &f64)| if arm == "off" { *x } else { x * ratio(arm, at) * scatter };
                figures.iter().enumerate().map(one).collect::<Vec<f64>>()
            };
            let promoted = if arm == "off" { 0 } else { 50 };
            let bios = Bios { all: 100, promoted, of_faults: 80, faults_promoted: promoted, ..Bios::default() };
            sweep::Cell { arm, figures: [0.999, 1.0, 1.001].map(of_seed).to_vec(), bios, command: String::new() }
        };
        SweepRow { place, cells: ARMS.map(cell).to_vec() }
    };
    let even = |_: &str, _: usize| 1.0;
    faults_follow(&measured.faults, &row, &even);
    reads_follow(&measured.reads, &row, &even);
    launches_follow(&row, &even);
    benchmarks_follow(&measured.benchmarks, &row, &even);
}

type Ratio<'a> = &'a dyn Fn(&str, usize) -> f64;
type MakeRow<'a> = &'a dyn Fn(&str, &'static str, &[f64], Ratio<'_>) -> SweepRow;

/// Checks that each of these sentences is present, or that none is.
fn check(text: &str, sentences: &[&str], there: bool) {
    for sentence in sentences {
        assert_eq!(text.contains(sentence), there, "{sentence}: {text}");
    }
}

fn faults_follow(case: &Faults, row: MakeRow<'_>, even: Ratio<'_>) {
    let halved: Ratio<'_> = &|arm, figure| match (arm, figure) {
        ("iter-bio", 0) => 0.5,
        ("iter-bio", 1) => 2.0,
        _ => 1.0,
    };
    let strict: Ratio<'_> = &|arm, figure| match (arm, figure) {
        ("oracle", 2) => 0.01,
        (_, 2) => 0.5,
        _ => 1.0,
    };
    let place = |scheduler, ratio| row("ufs-2.1:x=1", scheduler, &[8000.0, 100.0, 150.0], ratio);
    let of = |deadline, bfq| {
        let at_random = vec![place("mq-deadline", deadline), place("bfq", bfq)];
        text_of(&Faults { at_random, in_order: Vec::new(), ..case.clone() }, &findings::FAULTS)
    };
    let sentences = [
        "promotes 50.0 % on ufs-2.1 under mq-deadline and 50.0 % on ufs-2.1 under bfq",
        "a wait is 0.50 (0.50 to 0.50) of mainline's, with as many bios by lot 1.00 (1.00 to 1.00)",
        "there are 2.00 (2.00 to 2.00) times as many waits and their sum is 1.00 (1.00 to 1.00)",
        "What is left of a wait, 4.0 ms",
        "may hold all 31, and at the fitted rate one ends each 3.7 ms",
        "it keeps 0.50 (0.50 to 0.50) of its rate with iter-bio and 0.01 (0.01 to 0.01) with the oracle (less than a twentieth in 3 of 3 runs)",
        "The budget of page-exact does not prevent it: 0.50",
    ];
    check(&of(halved, strict), &sentences, true);
    let mut otherwise = of(even, even);
    check(&otherwise, &sentences[1..3], false);
    check(&otherwise, &sentences[5..], false);
    assert!(!otherwise.contains("do not fit in the memory"), "no row shows it");
    otherwise = text_of(&Faults { in_order: vec![place("bfq", even)], ..case.clone() }, &findings::FAULTS);
    check(&otherwise, &["next to nothing active"], false);
}

fn reads_follow(case: &Reads, row: MakeRow<'_>, even: Ratio<'_>) {
    let lower: Ratio<'_> = &|arm, _| if arm == "oracle" { 1.0 } else { 0.97 };
    let higher: Ratio<'_> = &|_, _| 1.3;
    let mut fits = row("ufs-2.1", "mq-deadline", &[500.0], even);
    let off = fits.of("off").clone();
    for cell in &mut fits.cells {
        (cell.figures, cell.bios) = (off.figures.clone(), off.bios);
    }
    let with = |fits: &SweepRow, ratio| {
        let tight = vec![row("ufs-2.1", "mq-deadline", &[500.0], ratio)];
        text_of(&Reads { fits: vec![fits.clone()], tight, ..case.clone() }, &findings::READS)
    };
    let sentences =
        ["ratio is 1 exactly", "throughput is lower", "random promotion does so too, 0.97", "+23 % was published"];
    check(&with(&fits, lower), &sentences, true);
    check(&with(&fits, lower), &["nearly all are RT; no difference larger than 0.2 % was seen: 1.00"], true);
    fits.cells[1].figures[0][0] += 1e-9;
    check(&with(&fits, higher), &sentences, false);
    check(&with(&fits, higher), &["nearly all are RT", "No mean gain of a form"], false);
    check(&with(&fits, higher), &["under mq-deadline is 1.30"], true);
}

fn launches_follow(row: MakeRow<'_>, even: Ratio<'_>) {
    let gains: Ratio<'_> = &|arm, _| if arm == "random" { 1.0 } else { 0.5 };
    let level = cases::BFQ_LEVEL;
    let of = |bfq: f64, of_bfq, of_level: f64, last: f64| {
        let deadline = |ms| row("ufs-2.1", "mq-deadline", &[ms, 50.0], even);
        let first = vec![
            deadline(200.0),
            row("ufs-2.1", "bfq", &[bfq, 50.0], of_bfq),
            row("ufs-2.1", level, &[of_level, 5.0], even),
        ];
        text_of(&Launches { ttls: vec![0, 50], rows: vec![first, vec![deadline(last)]] }, &findings::LAUNCHES)
    };
    let sentences = [
        "little was gained: the launch takes 1.00",
        "Under BFQ on UFS more can be gained: 0.50 (0.50 to 0.50) with iter-bio",
        "With low_latency=0, without activity",
        "the launch takes 205 ms, 1.0",
        "the same under each ttl",
    ];
    let usual = of(400.0, gains, 205.0, 200.0);
    check(&usual, &sentences, true);
    check(&usual, &["Of the bios of faults 62 % come back"], true);
    let otherwise = of(210.0, even, 300.0, 190.0);
    check(&otherwise, &sentences[1..], false);
    check(&otherwise, &["between 190.0 and 200.0 ms"], true);
}

fn benchmarks_follow(case: &Benchmarks, row: MakeRow<'_>, even: Ratio<'_>) {
    let loses: Ratio<'_> = &|arm, _| if arm == "iter-bio" { 0.9 } else { 1.0 };
    let gains: Ratio<'_> = &|_, _| 1.1;
    let of = |ratio| {
        let sqlite = vec![row("ufs-2.1", "mq-deadline", &[300.0], ratio)];
        let storage = vec![row("ufs-2.1", "mq-deadline", &[1.0, 2.0, 3.0, 4.0], even)];
        text_of(&Benchmarks { storage, sqlite, ..case.clone() }, &findings::BENCHMARKS)
    };
    let sentences = [
        "SQLite loses under mq-deadline: 0.90",
        "With page-exact no difference larger than 0.2 % was seen: 1.00",
        "The published +3 % is outside",
    ];
    check(&of(loses), &sentences, true);
    check(&of(gains), &sentences, false);
    check(&of(loses), &["equal to the nanosecond"], false);
}
