//! A comparison of several runs as JSON: the same for job files and for traces.

use serde_json::{Map, Value, json};

use super::JsonOptions;
use crate::compare::{About, CompareRow, FigureChange, RuleChange, RulesBetween, sections};
use crate::settings;
use crate::variant::Variant;

/// Version of the schema. It increases if a key changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// Returns a comparison as JSON text that ends with a newline. `input` is the job file or trace;
/// `not_run` has the labels of variants that an interrupt kept from running.
///
/// Every figure has `values`, one for each of `variants`, and `ratios` to the first value: null for
/// the first, and if the first value is 0. `report` in a variant is what `elevon run` prints of it.
/// `rules` has an entry for each variant whose kernel is not that of the first: the rules that
/// change a figure of the first variant if they alone are switched.
pub fn comparison(
    input: &str,
    variants: &[Variant<'_>],
    rules: &[RulesBetween],
    not_run: &[&str],
    options: JsonOptions,
) -> String {
    let mut out = json!({
        "schema_version": SCHEMA_VERSION,
        "input": input,
        "variants": variants.iter().map(|variant| variant_value(variants, variant, options)).collect::<Vec<_>>(),
        "not_run": not_run,
        "settings": settings_value(variants),
        "rules": rules.iter().map(rules_value).collect::<Vec<_>>(),
    });
    let mut jobs = Vec::new();
    for section in sections(variants) {
        let mut figures = figures(&section.rows);
        match section.about {
            About::Job(name) => {
                figures.insert("jobname".to_owned(), json!(name));
                jobs.push(Value::Object(figures));
            }
            About::AllJobs => out["all_jobs"] = figures.into(),
            About::Device => out["device"] = figures.into(),
            About::PageCache => out["page_cache"] = figures.into(),
        }
    }
    out["jobs"] = jobs.into();
    super::text(&out)
}

fn variant_value(variants: &[Variant<'_>], variant: &Variant<'_>, options: JsonOptions) -> Value {
    let run = variant.result;
    let failed = run.jobs.iter().filter(|job| !job.error.is_empty());
    let is_first = std::ptr::eq(run, variants[0].result);
    json!({
        "label": variant.label,
        "device": run.device.name,
        "simulated": run.device.simulated,
        "scheduler": run.scheduler.name,
        "kernel": run.kernel.name(),
        "seed": run.seed,
        "same_stack_as_first": !is_first && settings::are_the_same(variants[0].result, run),
        "failed": failed.map(|job| json!({ "jobname": job.name, "error": job.error })).collect::<Vec<_>>(),
        "report": super::value(run, options),
    })
}

/// Returns the settings that differ, each with its value in every variant; null where a variant
/// does not have it.
fn settings_value(variants: &[Variant<'_>]) -> Value {
    let value = |text: &String| if text == settings::ABSENT { Value::Null } else { json!(text) };
    let rows = settings::differing(variants).into_iter();
    Value::Object(rows.map(|(key, values)| (key, values.iter().map(value).collect())).collect())
}

/// `changing` is null if the run has too many I/Os to try rules, and `figures` if the device cannot
/// have the rule alone.
fn rules_value(between: &RulesBetween) -> Value {
    let figure =
        |f: &FigureChange| json!({ "figure": f.key, "before": f.before, "after": f.after });
    let rule = |rule: &RuleChange| {
        let figures = rule.figures.as_ref().map(|all| all.iter().map(figure).collect::<Vec<_>>());
        json!({ "name": rule.name, "area": rule.area, "says": rule.says, "figures": figures })
    };
    json!({
        "variants": between.letters.map(String::from),
        "kernels": between.kernels,
        "differ": between.differ,
        "changing": between.rules.as_ref().map(|rules| rules.iter().map(rule).collect::<Vec<_>>()),
    })
}

fn figures(rows: &[CompareRow]) -> Map<String, Value> {
    let figure = |row: &CompareRow| json!({ "values": row.values, "ratios": row.ratios().collect::<Vec<_>>() });
    rows.iter().map(|row| (row.key.to_owned(), figure(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn rules_between() -> RulesBetween {
        let figure = FigureChange {
            key: "splits",
            before: 2.0,
            after: 0.0,
            text: "splits 2 -> 0".to_owned(),
        };
        let rule = |name, figures| RuleChange { name, area: "plug", says: "what it says", figures };
        RulesBetween {
            letters: ['A', 'B'],
            kernels: ["6.1", "7.3"],
            differ: 9,
            ios: 100,
            rules: Some(vec![rule("one", Some(vec![figure])), rule("another", None)]),
        }
    }

    #[test]
    fn two_variants() {
        let (a, b) = (sample::mixed_run(), sample::quicker_run());
        let variants = [
            Variant { label: "baseline", result: &a },
            Variant { label: "--scheduler none", result: &b },
        ];
        let text = comparison(
            "job.fio",
            &variants,
            &[rules_between()],
            &["--scheduler bfq"],
            JsonOptions::default(),
        );
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        for variant in value["variants"].as_array_mut().expect("variants") {
            let report = variant["report"].take();
            assert!(report["jobs"].is_array() && report["elevon"].is_object());
        }
        insta::assert_snapshot!(super::super::text(&value));
    }

    #[test]
    fn a_ratio_to_nothing_is_null_and_a_page_cache_has_its_figures() {
        let (mut a, b) = (sample::cached_run(), sample::cached_run());
        for job in &mut a.jobs {
            if let Some(used) = job.cache_use.as_mut() {
                used.fault = Default::default();
            }
        }
        let variants =
            [Variant { label: "baseline", result: &a }, Variant { label: "same", result: &b }];
        let text =
            comparison("job.fio", &variants, &[], &[], JsonOptions { bins: true, series: true });
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let faults = &value["page_cache"]["faults_slept"];
        assert_eq!((&faults["values"][0], &faults["ratios"]), (&json!(0.0), &json!([null, null])));
        assert!(faults["values"][1].as_f64() > Some(0.0), "{faults}");
        assert!(value["variants"][1]["report"]["elevon"]["series"].is_object());
    }
}
