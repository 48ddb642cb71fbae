//! `docs/reference/*.schema.json` are the JSON Schemas of what commands print. They are made of
//! many outputs, and `docs/reference/json.md` describes each key of `elevon` in a report.
//! `UPDATE_DOCS=1 cargo test -p elevon --test manuals json_schema` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::{Bench, kernel_truth};
use elevon_testkit::hold_document;
use serde_json::{Map, Value, json};

/// Objects whose keys are data: names of settings, numbers of percentiles.
const MAPS: [&str; 15] = [
    "global options",
    "percentile",
    "percentile_ns",
    "bins",
    "at_most_bytes",
    "config",
    "tunables",
    "settings",
    "job options",
    "io_stat",
    "recorded",
    "events_without_device",
    "point",
    "against",
    "figures",
];

/// Objects whose keys are required if all outputs had them. Keys of others depend on the input.
const WHOLE: [&str; 4] = ["", "jobs", "elevon", "variants"];
/// Stands for the keys of a map. Numbers are such keys, too.
const ANY: &str = "*";

/// What was seen at one place of the reports.
#[derive(Default)]
struct Shape {
    types: BTreeSet<&'static str>,
    objects: usize,
    /// Each key with the number of objects that had it.
    keys: BTreeMap<String, (usize, Self)>,
    items: Option<Box<Self>>,
}

impl Shape {
    /// Adds the value of a key. All values of a map are one.
    fn add(&mut self, key: &str, value: &Value) {
        self.types.insert(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        });
        match value {
            Value::Array(items) => {
                let shape = self.items.get_or_insert_default();
                items.iter().for_each(|item| shape.add(key, item));
            }
            Value::Object(object) => {
                self.objects += 1;
                for (name, value) in object {
                    let is_data = MAPS.contains(&key) || name.parse::<f64>().is_ok();
                    let name = if is_data { ANY } else { name };
                    let (count, shape) = self.keys.entry(name.to_owned()).or_default();
                    *count += 1;
                    shape.add(name, value);
                }
            }
            _ => {}
        }
    }

    /// Adds the JSON that a command prints.
    fn add_printed(&mut self, bench: &Bench, args: &[&str]) {
        let text = bench.stdout(&[args, &["--output-format", "json"]].concat());
        self.add("", &serde_json::from_str(&text).expect("JSON"));
    }

    /// Returns the schema of the value of a key.
    fn schema(&self, key: &str) -> Value {
        if key == "report" {
            return json!({ "$ref": "run.schema.json" });
        }
        let mut schema = Map::new();
        match self.types.iter().collect::<Vec<_>>()[..] {
            [] => {}
            [one] => drop(schema.insert("type".into(), json!(one))),
            _ => drop(schema.insert("type".into(), json!(self.types))),
        }
        if let Some(items) = self.items.as_ref().filter(|items| !items.types.is_empty()) {
            schema.insert("items".into(), items.schema(key));
        }
        if WHOLE.contains(&key) && !self.keys.is_empty() {
            let all = self.keys.iter().filter(|(_, (count, _))| *count == self.objects);
            schema.insert("required".into(), all.map(|(key, _)| json!(key)).collect());
        }
        let properties: Map<String, Value> = self
            .keys
            .iter()
            .filter(|(key, _)| *key != ANY)
            .map(|(key, (_, shape))| (key.clone(), shape.schema(key)))
            .collect();
        if !properties.is_empty() {
            schema.insert("properties".into(), properties.into());
        }
        if let Some((_, shape)) = self.keys.get(ANY) {
            schema.insert("additionalProperties".into(), shape.schema(ANY));
        }
        schema.into()
    }
}

/// Replaces schemas that occur again by a reference, largest first.
fn share(schema: &mut Value, definitions: &mut Map<String, Value>, name: &str, wanted: &Value) {
    if schema == wanted {
        definitions.insert(name.to_owned(), wanted.clone());
        *schema = json!({ "$ref": format!("#/$defs/{name}") });
        return;
    }
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(|value| share(value, definitions, name, wanted));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|value| share(value, definitions, name, wanted));
        }
        _ => {}
    }
}

/// Holds a schema to what was printed. Schemas at these places are definitions, by name.
fn hold_schema(name: &str, title: &str, all: &Shape, shared: &[(&str, String)]) {
    let mut schema = all.schema("");
    let mut definitions = Map::new();
    for (name, place) in shared {
        if let Some(wanted) = schema.pointer(place).cloned().filter(|one| one.get("$ref").is_none())
        {
            share(&mut schema, &mut definitions, name, &wanted);
        }
    }
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    hold_document(&format!("docs/reference/{name}.schema.json"), |_| text);
}

/// Returns the shape of the JSON that commands print.
fn printed(bench: &Bench, commands: &[&[&str]]) -> Shape {
    let mut all = Shape::default();
    commands.iter().for_each(|args| all.add_printed(bench, args));
    all
}

/// Returns the reports that the schema of a run is made of.
fn reports() -> Vec<Value> {
    const CACHED: &str = "[a]\nrw=randrw\nbs=4k\nsize=8m\nfsync=16\ntime_based\nruntime=1\n";
    const REAL: &str = "[a]\nrw=randrw\nbs=4k\nsize=1m\ndirect=1\nfsync=16\n";
    const RICH: &str = "[a]\nrw=randrw\nrwmixread=50\nbs=4k\nsize=64m\ndirect=1\n\
                        latency_target=10ms\nlatency_window=100ms\nlatency_percentile=90\n\
                        ss=iops:10%\nss_dur=200ms\nruntime=2\ntime_based\nioengine=libaio\n\
                        iodepth=4\nunified_rw_reporting=both\nprioclass=2\n\
                        cmdprio_percentage=50\n";
    let bench = Bench::new();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let job = |name: &str| std::fs::read_to_string(jobs.join(name)).expect("a job");
    for (name, text) in [
        ("tenants.fio", &*job("tenants.fio")),
        ("tenants.toml", &job("tenants.toml")),
        ("cached.fio", CACHED),
        ("real.fio", REAL),
        ("rich.fio", RICH),
    ] {
        bench.file(name, text);
    }
    let plus = ["--output-format", "json+"];
    let runs: [(&str, &[&str]); 7] = [
        ("tenants.fio", &["--tenants", "tenants.toml", "--fault", "slow:from=1s"]),
        ("tenants.fio", &["--tenants", "tenants.toml", "--scheduler", "aileron"]),
        ("tenants.fio", &["--device", "hdd-7200", "--scheduler", "bfq", "--kernel", "6.1"]),
        ("cached.fio", &["--memory", "64MiB"]),
        ("real.fio", &["--device", "./disk.img"]),
        ("real.fio", &["--device", "null"]),
        ("rich.fio", &["--scheduler", "mq-deadline"]),
    ];
    let reports = runs.iter().flat_map(|(job, args)| {
        let bins = serde_json::from_str(&bench.stdout(&[&["run", job], &plus[..], args].concat()));
        [bench.json(job, args), bins.expect("JSON")]
    });
    reports.collect()
}

#[test]
fn the_schema_of_a_run_is_made_of_reports() {
    let mut all = Shape::default();
    reports().iter().for_each(|report| all.add("", report));
    let trace = kernel_truth("traces/dd-64m-direct-ext4-none-512.ftrace");
    let replay = ["replay", trace.to_str().expect("UTF-8"), "--closed"];
    all.add_printed(&Bench::new(), &replay);
    let job = "/properties/jobs/items/properties";
    let shared = [
        ("latency", format!("{job}/read/properties/clat_ns")),
        ("direction", format!("{job}/read")),
    ];
    hold_schema("run", "Report of elevon run, schema_version 1", &all, &shared);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/json.md")).expect("the page");
    for key in all.keys["elevon"].1.keys.keys() {
        assert!(
            page.contains(&format!("| `{key}`")),
            "docs/reference/json.md has no row of `{key}`"
        );
    }
}

#[test]
fn the_other_schemas_are_made_of_what_is_printed() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[global]\ndirect=1\nioengine=libaio\nsize=4m\n[a]\nrw=randread\nbs=4k\n[b]\nrw=write\nbs=64k\n",
    );
    bench.stdout(&["run", "job.fio", "--trace", "run.ftrace"]);
    let compared = ["--scheduler", "none", "--vs", "--scheduler bfq"];
    let compare = printed(
        &bench,
        &[
            &[&["compare", "job.fio"], &compared[..]].concat(),
            &[&["compare", "run.ftrace", "--closed"], &compared[..]].concat(),
            &["compare", "job.fio", "--kernel", "5.10", "--vs", "--kernel 7.3"],
        ],
    );
    hold_schema("compare", "elevon compare, schema_version 1", &compare, &[]);
    let data = kernel_truth("..");
    let mut inspect = printed(&bench, &[&["inspect", "run.ftrace"]]);
    for (name, options) in [
        ("kernel-truth/traces/dd-64m-direct-ext4-none-512.ftrace", &[][..]),
        ("kernel-truth/traces/pgbench-ext4-mq-deadline.ftrace.zst", &[]),
        ("kernel-truth/traces/mixed-deflate.perfetto-trace", &["--dev", "254:0"]),
        ("formats/biosnoop.txt", &[]),
        ("formats/systrace.html", &[]),
        ("inspect/android-reissue.txt", &[]),
    ] {
        let trace = data.join(name);
        let trace = trace.to_str().expect("UTF-8");
        inspect.add_printed(&bench, &[&["inspect", trace], options].concat());
    }
    hold_schema("inspect", "elevon inspect, schema_version 1", &inspect, &[]);
    let over = ["sweep", "job.fio", "--over", "iodepth=1,4", "--seeds", "2"];
    let sweep = printed(&bench, &[&over, &[&over[..], &["--compare", "iodepth=1"]].concat()]);
    hold_schema("sweep", "elevon sweep", &sweep, &[]);
}
