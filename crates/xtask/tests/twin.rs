//! The judge: a real Linux in virtual time beside Elevon.

use xtask::twin::both::judge_cases;
use xtask::twin::case::{Area, Case};
use xtask::twin::figures::{HOLDS, compare};
use xtask::twin::kernels::{DEFAULT_VERSION, built};
use xtask::twin::{elevon, generate};

/// The least share of telling figures of the fifty seeds that hold, in percent, by area. The fifty
/// have 42 figures of limits, 83 of io.cost and 10 of the page cache.
const HELD: [(Area, usize); 5] = [
    (Area::DeadlineAndKyber, 97),
    (Area::Bfq, 72),
    (Area::Limits, 88),
    (Area::Cost, 75),
    (Area::Cache, 40),
];

/// Runs in the folder of the workspace, as `cargo xtask` does.
fn in_workspace() {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .expect("the folder of the workspace");
}

#[test]
fn elevon_takes_every_case_and_a_seed_is_one_case() {
    for seed in 0..60 {
        let mut case = generate::case(seed, None);
        assert_eq!(case, generate::case(seed, None));
        case.runtime_ms = 20;
        for process in &mut case.processes {
            process.start_us %= 1_000;
        }
        let measured = elevon::run(&case, DEFAULT_VERSION).expect("a run of Elevon");
        assert_eq!(measured.processes.len(), case.processes.len());
    }
}

/// The smallest jobs of causes that were mended, with the figures of the real kernel
/// (`tests/data/twin/README.md`).
#[test]
fn kept_jobs_have_the_figures_of_the_kernel() {
    in_workspace();
    let text = std::fs::read_to_string("tests/data/twin/mended.jsonl").expect("the kept jobs");
    let mut kept = 0;
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let case: Case = serde_json::from_value(record["case"].clone()).expect("a case");
        let ours = elevon::run(&case, DEFAULT_VERSION).expect("a run of Elevon");
        let named = compare(&case, [&ours; 4]);
        for figure in record["figures"].as_array().expect("figures") {
            let (name, kernel) = (figure["name"].as_str(), figure["kernel"].as_f64());
            let (name, kernel) = (name.expect("a name"), kernel.expect("a number"));
            if figure["telling"] == true {
                let ours = named.iter().find(|figure| figure.name == name).expect("a figure");
                let error = (ours.elevon - kernel).abs() / kernel.max(1.0);
                assert!(error <= HOLDS, "{}: {name} is {kernel}, here {}", case.seed, ours.elevon);
                kept += 1;
            }
        }
    }
    assert!(kept >= 5, "{kept} telling figures are kept");
}

/// What is missing of the guest is one line that names the command which builds it.
#[test]
fn a_judge_without_a_guest_says_how_to_build_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for missing in ["7.3/linux", "initramfs.cpio"] {
        let judge = std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["twin", "judge", "--seeds", "0..1"])
            .env("ELEVON_TWIN", folder.path())
            .output()
            .expect("the judge");
        let file = folder.path().join(missing);
        let line = format!(
            "xtask: {} is not built: cargo xtask twin build --kernel 7.3\n",
            file.display()
        );
        assert_eq!(
            (judge.status.code(), String::from_utf8_lossy(&judge.stderr)),
            (Some(2), line.into())
        );
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, "").expect("a file");
    }
}

#[test]
fn fifty_seeds_agree_with_a_real_kernel() {
    in_workspace();
    if let Err(line) = built(DEFAULT_VERSION) {
        println!("skipped: {line}");
        return;
    }
    let cases: Vec<_> = (0..50).map(|seed| generate::case(seed, None)).collect();
    let judged = judge_cases(&cases, DEFAULT_VERSION).expect("a guest runs");
    for (area, least) in HELD {
        let of_area = judged.iter().filter(|(case, _)| case.area == area);
        let (mut held, mut telling) = (0, 0);
        for (case, compared) in of_area {
            let compared = compared.as_ref();
            let figures =
                &compared.unwrap_or_else(|error| panic!("{}: {error}", case.seed)).figures;
            telling += figures.iter().filter(|figure| figure.telling).count();
            held += figures.iter().filter(|figure| figure.telling && figure.holds()).count();
        }
        println!("{}: {held} of {telling} telling figures hold", area.name());
        assert!(held * 100 >= least * telling, "{}: {held} of {telling}", area.name());
    }
}
