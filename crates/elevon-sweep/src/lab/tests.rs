use super::*;

const JOB: &str = "[reader]\nrw=randread\nbs=4k\nnumber_ios=50\nrandrepeat=0\n";

fn texts() -> Texts {
    Texts::from([("reader.fio".to_owned(), JOB.to_owned())])
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn spec() -> SweepSpec {
    SweepSpec {
        job: "reader.fio".to_owned(),
        options: words("--device hdd-7200"),
        over: vec![
            ("iodepth".to_owned(), Over::Text("1..4:*2".to_owned())),
            (
                "scheduler".to_owned(),
                Over::List(words("none mq-deadline:fifo_batch=1,front_merges=0")),
            ),
        ],
        seeds: Some("2".to_owned()),
        texts: texts(),
        ..SweepSpec::default()
    }
}

#[test]
fn a_run_of_a_text_gives_the_report_and_the_series() {
    let run = run(&words("reader.fio"), &words("--device hdd-7200"), texts(), &Interrupt::new())
        .expect("a good job");
    let report: serde_json::Value = serde_json::from_str(&run.report).expect("JSON");
    assert_eq!(report["jobs"][0]["read"]["total_ios"], 50);
    assert_eq!(report["elevon"]["inputs"][0]["text"], JOB);
    assert_eq!(run.series.ios[0].iter().sum::<u64>(), 50);
    assert_eq!(run.series.at_ns.len(), run.series.in_flight.len());
    assert_eq!(run.ending, RunEnding::Done);
}

#[test]
fn what_is_wrong_is_said_as_by_the_command() {
    let interrupt = Interrupt::new();
    let wrong = |job: &str, options: &str| {
        let texts = Texts::from([("a.fio".to_owned(), job.to_owned())]);
        run(&words("a.fio"), &words(options), texts, &interrupt).expect_err("wrong").to_string()
    };
    assert!(wrong("[a]\nbs=4q\n", "").starts_with("a.fio:2:"), "{}", wrong("[a]\nbs=4q\n", ""));
    assert!(
        wrong(JOB, "--device hdd-720").contains("did you mean"),
        "{}",
        wrong(JOB, "--device hdd-720")
    );
    assert!(wrong(JOB, "--html x.html").contains("--html"), "{}", wrong(JOB, "--html x.html"));
}

#[test]
fn an_interrupt_ends_a_run_with_a_report() {
    let interrupt = Interrupt::new();
    interrupt.set();
    let run = run(&words("reader.fio"), &words("--device hdd-7200"), texts(), &interrupt)
        .expect("a good job");
    assert_eq!(run.ending, RunEnding::Interrupted);
}

#[test]
fn a_sweep_in_any_order_gives_the_same_bytes() {
    let (sweep, interrupt) = (Sweep::new(spec()).expect("a sweep"), Interrupt::new());
    assert_eq!(sweep.runs(), 3 * 2 * 2);
    sweep.check(&interrupt).expect("every point runs");
    let mut one_by_one = Vec::new();
    for run in 0..sweep.runs() {
        sweep
            .run_all(&[run], None, &interrupt, |_, outcome| one_by_one.push(outcome))
            .expect("it runs");
    }
    let first = sweep.results(one_by_one.iter().map(String::as_str)).expect("all runs");
    let mut all = Vec::new();
    let numbers: Vec<usize> = (0..sweep.runs()).rev().collect();
    sweep.run_all(&numbers, Some(2), &interrupt, |_, outcome| all.push(outcome)).expect("they run");
    let second = sweep.results(all.iter().map(String::as_str)).expect("all runs");
    assert_eq!((first.files, &first.json), (second.files, &second.json));
    assert_eq!(first.columns, second.columns);
    let (name, column) = &first.columns[2];
    assert_eq!(name, "scheduler");
    assert!(
        matches!(column, Column::Text(words) if words[2] == "mq-deadline:fifo_batch=1,front_merges=0"),
        "{column:?}"
    );
    let other =
        Sweep::new(SweepSpec { options: words("--device null"), ..spec() }).expect("a sweep");
    assert!(other.results(one_by_one.iter().map(String::as_str)).is_err(), "outcomes of a disk");
    one_by_one.pop();
    let error = sweep.results(one_by_one.iter().map(String::as_str)).expect_err("one is missing");
    assert!(error.to_string().contains('1'), "{error}");
    assert!(
        sweep.results(["{}"]).is_err()
            && sweep.run_all(&[12], None, &interrupt, |_, _| {}).is_err()
    );
}
