//! Checks that the tables of `docs/explanation/calibration.md` are the results of `elevon
//! calibrate`. `UPDATE_DOCS=1 cargo test -p elevon --test manuals calibration_manual` updates them.

use std::fmt::Write;

use crate::common::Bench;
use elevon_core::control::io_cost::{Coefficients, Model, Preset};
use elevon_sim::profiles::{PROFILES, Profile, predictions};
use elevon_testkit::{hold_document, replace_after};
use serde_json::Value;

const MARK: &str = "<!-- From here on made by the command:\nUPDATE_DOCS=1 cargo test -p elevon --test manuals calibration_manual -->\n";
const KEYS: [&str; 6] = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];

/// A profile, its measured coefficients, and Linux's preset for it.
struct Row {
    name: &'static str,
    line: String,
    own: Coefficients,
    preset: Preset,
    /// The device's nanoseconds for a random 4 KiB read, computed from its parameters, at the
    /// queue depth that calibrate uses.
    arithmetic: f64,
}

fn values(c: &Coefficients) -> [u64; 6] {
    [c.rbps, c.rseqiops, c.rrandiops, c.wbps, c.wseqiops, c.wrandiops]
}

fn preset_name(preset: Preset) -> &'static str {
    match preset {
        Preset::Hdd => "disk",
        Preset::SsdQd1 => "SSD, one command",
        Preset::SsdDefault => "SSD",
        Preset::SsdFast => "SSD, fast",
    }
}

/// Returns the seconds to measure: more virtual time for devices with an arm or a limiter with time
/// slices, on which it costs little.
fn seconds(profile: &Profile) -> &'static str {
    if profile.flash_config("").expect("a profile").is_some() { "0.25" } else { "4" }
}

fn random_read_ns(profile: &Profile) -> f64 {
    let all = predictions(profile).expect("a profile");
    let deepest =
        all.iter().filter(|p| p.workload.random && !p.workload.write && p.workload.depth <= 128);
    1e9 / deepest.max_by_key(|p| p.workload.depth).expect("a random read").closed_form
}

fn calibrated(profile: &'static Profile) -> Row {
    let args = [
        "calibrate",
        "--output-format",
        "json",
        "--device",
        profile.name,
        "--seconds",
        seconds(profile),
    ];
    let found: Value = serde_json::from_str(&Bench::new().stdout(&args)).expect("JSON");
    let [rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops] =
        KEYS.map(|key| found["io.cost.model"][key].as_u64().expect("a coefficient"));
    let device = elevon_sim::profiles::open(profile.name, 1).expect("a profile");
    let description = elevon_sim::device::Device::description(&device);
    Row {
        name: profile.name,
        line: found["line"].as_str().expect("a line").to_owned(),
        own: Coefficients { rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops },
        preset: Preset::from_rotational(description.limits.rotational, description.queue_depth),
        arithmetic: random_read_ns(profile),
    }
}

fn random_read_cost(coefficients: &Coefficients) -> f64 {
    Model::new(coefficients).request(false, 4096, true).get() as f64
}

fn tables(rows: &[Row]) -> String {
    let mut out = "\n## Lines\n\n```text\n".to_owned();
    for row in rows {
        let _ = writeln!(out, "# {}\n{}", row.name, row.line);
    }
    let heads = KEYS.map(|key| format!(" {key} |")).concat();
    let _ = write!(
        out,
        "```\n\n## Beside the presets\n\n| profile | by |{heads}\n| --- | --- |{}\n",
        " ---: |".repeat(KEYS.len())
    );
    for row in rows {
        for (name, by, c) in [
            (row.name, "calibrate".to_owned(), row.own),
            ("", format!("Linux: {}", preset_name(row.preset)), row.preset.coefficients()),
        ] {
            let _ = writeln!(
                out,
                "| {name} | {by} |{}",
                values(&c).map(|value| format!(" {value} |")).concat()
            );
        }
    }
    out.push_str(
        "\n## A random read of 4 KiB, in us of the device\n\n\
         | profile | by arithmetic | by its line | by Linux's preset | preset / line |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let (own, preset) =
            (random_read_cost(&row.own), random_read_cost(&row.preset.coefficients()));
        let [arithmetic, line, linux] = [row.arithmetic, own, preset].map(|ns| ns / 1e3);
        let _ = writeln!(
            out,
            "| {} | {arithmetic:.2} | {line:.2} | {linux:.2} | {:.2} |",
            row.name,
            preset / own
        );
    }
    out
}

#[test]
fn the_manual_says_what_the_command_says() {
    // `null` completes at once, and the disks as a kernel presents them have estimated times:
    // nothing is predicted of either.
    let is_predicted = |profile: &&Profile| !predictions(profile).expect("a profile").is_empty();
    let rows: Vec<Row> = PROFILES.iter().filter(is_predicted).map(calibrated).collect();
    for Row { name, own, arithmetic, .. } in &rows {
        assert!(values(own).iter().all(|value| *value > 0), "{name}: {own:?}");
        // The computation assumes exponential dies: it is 0 to 16 % too low.
        let cost = random_read_cost(own);
        assert!(
            (0.8..1.08).contains(&(cost / arithmetic)),
            "{name}: {cost:.0} ns, by arithmetic {arithmetic:.0}"
        );
        // A sequential I/O is at least as cheap as a random one, up to the width of the window.
        for [sequential, random] in [[own.rseqiops, own.rrandiops], [own.wseqiops, own.wrandiops]] {
            assert!(sequential as f64 >= 0.98 * random as f64, "{name}: {own:?}");
        }
        // Large I/Os have at least the throughput of small ones.
        for [rate, small] in [[own.rbps, own.rseqiops], [own.wbps, own.wseqiops]] {
            assert!(rate as f64 >= 0.98 * 4096.0 * small as f64, "{name}: {own:?}");
        }
    }
    hold_document("docs/explanation/calibration.md", |text| {
        replace_after(text, MARK, &tables(&rows))
    });
}
