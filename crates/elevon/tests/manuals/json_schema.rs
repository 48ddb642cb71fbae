//! `docs/reference/run.schema.json` is the JSON Schema of the reports that `elevon run` prints. It
//! is made of many reports, and `docs/reference/json.md` describes each key of `elevon`.
//! `UPDATE_DOCS=1 cargo test -p elevon --test manuals json_schema` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::Bench;
use elevon_testkit::hold_document;
use serde_json::{Map, Value, json};

/// Objects whose keys are data: names of settings, numbers of percentiles.
const MAPS: [&str; 7] =
    ["percentile", "bins", "config", "tunables", "settings", "job options", "io_stat"];

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
    fn add(&mut self, value: &Value) {
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
                items.iter().for_each(|item| shape.add(item));
            }
            Value::Object(object) => {
                self.objects += 1;
                for (key, value) in object {
                    let (count, shape) = self.keys.entry(key.clone()).or_default();
                    *count += 1;
                    shape.add(value);
                }
            }
            _ => {}
        }
    }

    /// Returns the schema of the value of a key.
    fn schema(&self, key: &str) -> Value {
        let mut schema = Map::new();
        match self.types.iter().collect::<Vec<_>>()[..] {
            [] => {}
            [one] => drop(schema.insert("type".into(), json!(one))),
            _ => drop(schema.insert("type".into(), json!(self.types))),
        }
        if let Some(items) = self.items.as_ref().filter(|items| !items.types.is_empty()) {
            schema.insert("items".into(), items.schema(key));
        }
        if !self.keys.is_empty() && MAPS.contains(&key) {
            let values = self.keys.values().next().expect("a value");
            schema.insert("additionalProperties".into(), values.1.schema(""));
        } else if !self.keys.is_empty() {
            let required: Vec<&String> =
                self.keys.iter().filter(|(_, (n, _))| *n == self.objects).map(|(k, _)| k).collect();
            schema.insert("required".into(), json!(required));
            let properties: Map<String, Value> =
                self.keys.iter().map(|(k, (_, shape))| (k.clone(), shape.schema(k))).collect();
            schema.insert("properties".into(), properties.into());
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

/// Returns the reports that the schema is made of.
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
    let runs: [(&str, &[&str]); 6] = [
        ("tenants.fio", &["--tenants", "tenants.toml", "--fault", "slow:from=1s"]),
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
fn the_schema_is_made_of_reports() {
    let mut all = Shape::default();
    reports().iter().for_each(|report| all.add(report));
    let mut schema = all.schema("");
    let mut definitions = Map::new();
    let job = "/properties/jobs/items/properties";
    for (name, place) in [
        ("latency", format!("{job}/read/properties/clat_ns")),
        ("direction", format!("{job}/read")),
        ("write", format!("{job}/write")),
    ] {
        if let Some(wanted) =
            schema.pointer(&place).cloned().filter(|one| one.get("$ref").is_none())
        {
            share(&mut schema, &mut definitions, name, &wanted);
        }
    }
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Report of elevon run, schema_version 1");
    schema["$defs"] = definitions.into();
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    hold_document("docs/reference/run.schema.json", |_| text);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/json.md")).expect("the page");
    for key in all.keys["elevon"].1.keys.keys() {
        assert!(
            page.contains(&format!("| `{key}`")),
            "docs/reference/json.md has no row of `{key}`"
        );
    }
}
