//! Checks what a file of an experiment may say, and the built-in experiment that takes too long for
//! a test at a thousandth of its size.

use elevon_sim::device::LunConfig;

use super::evaluate::FUNCTIONS;
use super::value::{Value, list, numbers, record, text};
use super::*;

const JOB: &str = "[a]\nrw=randread\nbs=4k\nnumber_ios=100\nioengine=psync\n";

fn read(_: &str) -> Result<(String, String), Failure> {
    Ok(("a.fio".to_owned(), JOB.to_owned()))
}

/// Returns the report of a file, or the first line of what is wrong.
fn report_of(file: &str) -> Result<Report, String> {
    let first = |failure: &Failure| {
        failure
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("elevon: ")
            .to_owned()
    };
    let mut definition =
        Definition::parse("x.toml", file, false).map_err(|errors| errors[0].to_string())?;
    let globals = runner::run_all(&Lab::quiet(), &mut definition, &read)
        .map_err(|failure| first(&failure))?;
    write::report(&definition, &globals).map_err(|failure| first(&failure))
}

const RUN: &str = "title = 't'\n[[run]]\nname = 'one'\njob = 'a.fio'\n";

#[test]
fn every_built_in_experiment_is_a_good_file() {
    for experiment in EXPERIMENTS {
        for full in [false, true] {
            let definition = experiment.definition(full);
            assert!(definition.title.starts_with(experiment.name), "{}", definition.title);
            assert!(!definition.summary.is_empty() && !definition.sections.is_empty());
        }
    }
}

#[test]
fn bad_files_are_one_line_with_a_place() {
    for (more, line) in [
        (
            "optons = 'x'\n",
            "x.toml:5:1: optons: no such key (did you mean `options`?); there are name, job, ",
        ),
        ("options = '{x}'\n", "x.toml:5:13: options: no such name: x; there are published, one"),
        ("options = '--set {1 +}'\n", "x.toml:5:22: options: expected a number, a name"),
        ("over = { n = 'range(1, 2' }\n", "x.toml:5:25: n: expected `,` or `)`"),
        (
            "over = { n = 'rang(1, 2)' }\n",
            "x.toml:5:15: n: no such function: rang (did you mean `range`?)",
        ),
        ("over = { n = '3' }\n", "x.toml:5:15: n: expected a list, found a number"),
        ("options = '--scheduler x'\n", "x.toml:5:12: options: "),
        ("options = '--device ./a.img'\n", "x.toml:5:12: options: "),
        ("hook = { name = 'x' }\n", "x.toml:5:18: name: no such hook: x; there is io-throttle"),
        (
            "hook = { name = 'io-throttle', limits = 1 }\n",
            "x.toml:5:41: limits: no such setting of io-throttle",
        ),
        (
            "fit = { name = 'n', from = 1, to = 2 }\n",
            "x.toml:5:7: meets: is not given in fit; write meets = ",
        ),
        (
            "[run.fit]\nname = 'n'\nfrom = 1\nto = 2\nmeasure = 'run.iops'\nmeets = '1'\n",
            "x.toml:10:10: meets: no n from 1 to 2",
        ),
        (
            "[[published]]\nfigures = {}\n",
            "x.toml:5:1: source: is not given in published; write source = ",
        ),
        (
            "[[section]]\n[[section.part]]\ntable = ['a']\nrows = [{ cells = [] }]\n",
            "x.toml:8:19: cells: expected 1 cells",
        ),
        (
            "[[section]]\n[[section.part]]\nwords = [1]\n",
            "x.toml:6:1: part: expected one of the keys paragraph, say",
        ),
        (
            "[[section]]\n[[section.part]]\nparagraph = '{one[0].iop}'\n",
            "x.toml:7:14: paragraph: no iop here (did you mean `iops`?)",
        ),
        ("[[section]]\neach = 'run of one'\n", "x.toml:6:9: each: expected `name in list`"),
        ("[full]\nx = 1\n", "x.toml:6:1: x: expected the name of a parameter"),
        ("[functions]\n'f(x' = '1'\n", "x.toml:6:1: f(x: expected \"name(argument, other)\""),
        ("[[check]]\nwhat = 'a'\nthat = '1 <'\n", "x.toml:7:12: that: expected a number"),
        (
            "[[run]]\nname = 'one'\njob = 'a.fio'\n",
            "x.toml:6:9: name: expected a name of letters that nothing else has",
        ),
    ] {
        let error = report_of(&format!("{RUN}{more}"))
            .map(|report| report.document.text())
            .expect_err(more);
        assert!(error.starts_with(line), "{more}: {error}");
    }
    let error = |file: &str| {
        Definition::parse("x.toml", file, false).err().map(|errors| errors[0].to_string())
    };
    assert!(error("a = [").is_some_and(|line| line.starts_with("x.toml:1:")));
    assert!(
        error("title = 't'\n")
            .is_some_and(|line| line.starts_with("x.toml:1:1: run: is not given"))
    );
}

#[test]
fn values_vary_parts_repeat_and_sentences_need_their_conditions() {
    let file = "title = 't'\n[parameters]\ndepths = [1, 2]\n[full]\ndepths = [3]\n\
        [[run]]\nname = 'all'\njob = 'a.fio'\nover = { d = 'depths', s = \"['none', 'bfq']\" }\nonly = \"d == 1 or s == 'bfq'\"\n\
        options = '--seed {d} --scheduler {s}'\nmeasure = { double = 'run.ios * 2' }\n\
        [[section]]\neach = 'run in all'\nlet = { x = 'run.double' }\nheading = '{run.d} {run.s} {x}'\n\
        [[section.part]]\nsay = [['x < 0', 'less'], ['x > 0', 'more']]\n\
        [[section.part]]\nsay = [['x < 0', 'less']]\n\
        [[check]]\nwhat = 'three'\nthat = 'len(all) == 4'\n";
    let report = report_of(file).unwrap_or_else(|error| panic!("{error}"));
    let text = report.document.text();
    for heading in ["1 none 200\n", "1 bfq 200\n", "2 bfq 200\n"] {
        assert!(text.contains(heading), "{text}");
    }
    assert_eq!((text.matches("more").count(), text.contains("less")), (3, false), "{text}");
    assert_eq!(report.missed, ["three: does not hold"]);
    let full =
        Definition::parse("x.toml", file, true).unwrap_or_else(|errors| panic!("{}", errors[0]));
    assert!(full.names["depths"].is(&numbers([3.0])));
}

#[test]
fn a_number_is_fitted_and_a_number_settles() {
    let file = format!(
        "{RUN}options = '--device slots:slots=1,latency={{ns}}ns,bandwidth=1GB/s,size=1GiB --cpu-cost submit=0,complete=0'\n\
         [run.fit]\nname = 'ns'\nfrom = 1000\nto = 1000000\nmeasure = '1 / run.iops'\nmeets = '1 / 10000'\n\
         [[run]]\nname = 'two'\njob = 'a.fio'\noptions = '--cpu-cost submit={{n}}ns'\nfit = {{ name = 'n', again = '5 * run.ios' }}\n\
         [[section]]\n[[section.part]]\nparagraph = '{{one[0].iops:.0}} {{two[0].n}}'\n"
    );
    let text = report_of(&file).unwrap_or_else(|error| panic!("{error}")).document.text();
    assert!(text.ends_with("\n10000 500\n"), "{text}");
    let restless = file.replace("5 * run.ios", "run.n + 1");
    assert!(
        report_of(&restless)
            .is_err_and(|error| error.contains("two: n is another number after each run"))
    );
}

/// Parameters that repeat what a profile of a device says.
#[test]
fn experiments_know_their_devices() {
    let number = |experiment: &str, name: &str| {
        let experiment =
            EXPERIMENTS.iter().find(|one| one.name == experiment).expect("it is there");
        experiment.definition(false).names[name].number().expect("a number")
    };
    let profile = |name| elevon_sim::profiles::profile(name).expect("a profile");
    let lun: LunConfig = profile("raid-lun-1q").lun_config("").ok().flatten().expect("a LUN");
    assert_eq!(number("io-ticks", "slice_requests"), lun.slice_requests as f64);
    assert_eq!(number("io-ticks", "slice_s"), lun.slice as f64 / 1e9);
    let flash = profile("ufs-2.1").flash_config("").ok().flatten().expect("flash");
    assert_eq!(number("content-ioprio", "data_sheet_rate"), flash.write_rate as f64 / 1e6);
}

/// Every function is in the document.
#[test]
fn the_document_has_every_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/reproduce.md")).expect("the page");
    for name in FUNCTIONS {
        assert!(
            page.contains(&format!("`{name}(")) || page.contains(&format!("`{name}`")),
            "{name}"
        );
    }
}

/// Makes the runs of the experiment that takes minutes with one random seed each, and other values
/// of some parameters.
fn content_ioprio(parameters: &[(&str, Value)]) -> Report {
    let experiment =
        EXPERIMENTS.iter().find(|one| one.name == "content-ioprio").expect("it is there");
    let mut definition = experiment.definition(false);
    let seeds = ["seeds", "seeds_long", "seeds_bfq", "seeds_emmc_long", "seeds_emmc"];
    let seeds = seeds.map(|name| (name, numbers([1.0])));
    for (name, value) in parameters.iter().chain(&seeds) {
        assert!(definition.names.insert((*name).to_owned(), value.clone()).is_some(), "{name}");
    }
    let globals =
        runner::run_all(&Lab::quiet(), &mut definition, &|job| experiment.job(job)).expect("runs");
    write::report(&definition, &globals).expect("a report")
}

/// At the usual size, on the first place alone.
#[test]
fn content_ioprio_is_calibrated() {
    let place =
        [("name", "ufs-2.1, mq-deadline"), ("profile", "ufs-2.1"), ("scheduler", "mq-deadline")];
    let place = record(place.map(|(key, value)| (key, text(value))));
    let Report { document, missed } = content_ioprio(&[("places", list([place]))]);
    assert!(missed.is_empty(), "{missed:?}\n{}", document.text());
}

/// At a hundredth of the published sizes, on every place as the command does.
#[test]
fn content_ioprio_prints_what_its_tables_say() {
    let sizes = [
        ("memory", "62MiB,others=27MiB"),
        ("file", "20m"),
        ("ramp", "1"),
        ("limit", "3"),
        ("tight", "62MiB,others=44MiB"),
        ("set", "4m"),
        ("fill", "30m"),
        ("io", "2m"),
    ];
    let sizes = sizes
        .into_iter()
        .map(|(name, size)| (name, text(size)))
        .chain([("scale", Value::Number(100.0))]);
    let Report { document, missed } = content_ioprio(&sizes.collect::<Vec<_>>());
    let text = document.text();
    assert!(missed.iter().all(|line| line.contains(" are allowed")), "{missed:?}");
    // A command line is only wrapped before an option.
    for line in text.lines().filter(|line| !line.ends_with(" \\")) {
        assert!(line.chars().count() <= 100, "{line}\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Sizes and memory are the proposal's over 100."), "{text}");
    // With one random seed, only conclusions that need no interval are drawn.
    assert!(
        !flat.contains("SQLite loses") && !flat.contains("no difference larger than"),
        "{text}"
    );
    for part in [
        "the ratio is 1 exactly",
        "times are equal to the nanosecond",
        "min_ttl_ms=100:",
        "SQLite-like",
        "cache=classic",
        "ttl 50, shorter by",
        "touches at random",
    ] {
        assert!(flat.contains(part), "{part}: {text}");
    }
    assert_eq!(document.html("simulated").matches("<figure").count(), 2);
}
