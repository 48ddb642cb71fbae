//! `elevon.tenants`: every tenant, in whole numbers. A tenant without I/O has only its path and
//! settings. The only shares are rounded percentages; a reader can compute the others.

use elevon_core::control::pressure::Stall;
use elevon_core::control::stat::IoCounters;
use elevon_core::control::{Cause, Reason};
use elevon_core::units::Nanos;
use elevon_result::result::{RunResult, TenantResult};
use elevon_result::tenants::io_stat as counters;
use elevon_result::tenants::{
    Explained, device_share, device_time, device_time_of_all, explain, limit, path, throttled,
    total,
};
use serde_json::{Map, Value, json};

use super::strings;

pub(super) fn value(run: &RunResult) -> Value {
    let all = device_time_of_all(run);
    run.tenants.iter().map(|tenant| tenant_value(run, tenant, all)).collect()
}

fn tenant_value(run: &RunResult, tenant: &TenantResult, all: Nanos) -> Value {
    if tenant.is_idle() {
        // Of thousands of tenants most may be idle; their zeros would be most of the report.
        let mut out = json!({ "path": tenant.path, "removed": tenant.removed, "settings": strings(&tenant.settings) });
        if tenant.cost.is_some_and(|cost| cost.vrate_ppm.is_some()) {
            out["io_stat"] = io_stat(run, tenant);
        }
        return out;
    }
    let reasons = Reason::ALL.into_iter().map(|reason| {
        let wait = throttled(tenant, reason);
        (reason.name().to_owned(), json!({ "count": wait.count, "ns": wait.time.get() }))
    });
    let mut out = json!({
        "path": tenant.path,
        "removed": tenant.removed,
        "settings": strings(&tenant.settings),
        "time_ns": tenant.time.get(),
        "io_stat": io_stat(run, tenant),
        "in_flight": tenant.in_flight,
        "latency_ns": latency(tenant),
        "device_time_ns": device_time(tenant).get(),
        "device_share": device_share(tenant, all),
        "throttled": reasons.collect::<Map<_, _>>(),
        "waited_ns": total(tenant).get(),
        "explain": explain(&run.tenants, tenant).iter().map(|at| cause(run, at)).collect::<Vec<_>>(),
    });
    if let Some(missed) = tenant.reserve_missed {
        out["reserve_missed_ns"] = missed.get().into();
    }
    if let Some(pressure) = &tenant.pressure {
        out["pressure"] = json!({ "some": stall(&pressure.some), "full": stall(&pressure.full) });
    }
    out
}

/// Returns the tenant's line of `io.stat`, with the kernel's keys.
fn io_stat(run: &RunResult, tenant: &TenantResult) -> Value {
    let (major, minor) = run.disk.number;
    let IoCounters { bytes: [rbytes, wbytes, dbytes], ios: [rios, wios, dios] } =
        counters(run, tenant);
    let mut out = json!({
        "device": format!("{major}:{minor}"),
        "rbytes": rbytes, "wbytes": wbytes, "rios": rios, "wios": wios, "dbytes": dbytes, "dios": dios,
    });
    if let Some(cost) = tenant.cost {
        if let Some(ppm) = cost.vrate_ppm {
            // Percent with two decimals.
            out["cost.vrate"] = json!(((ppm + 50) / 100) as f64 / 100.0);
        }
        out["cost.usage"] = cost.usage.as_micros().into();
    }
    out
}

fn latency(tenant: &TenantResult) -> Value {
    let mut out = Map::new();
    out.insert("total_ios".into(), json!(tenant.latency.total()));
    for (key, millionths) in
        [("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("p99_9", 999_000)]
    {
        out.insert(key.into(), json!(tenant.latency.percentile(millionths)));
    }
    Value::Object(out)
}

fn stall(stall: &Stall) -> Value {
    let average = |window| f64::from(stall.average(window)) / 100.0;
    json!({ "avg10": average(0), "avg60": average(1), "avg300": average(2), "total_ns": stall.total.get() })
}

/// Returns one cause: its name, its time, and a description in words.
fn cause(run: &RunResult, at: &Explained) -> Value {
    let mut out = json!({ "cause": at.cause.key() });
    if let Cause::Limit { rule, .. } = at.cause {
        out["rule"] = json!(rule.name());
        out["limit"] = json!(limit(&run.tenants, at.cause));
    }
    if let Some(level) = at.cause.level() {
        out["level"] = json!(path(&run.tenants, level));
    }
    match at.cause {
        Cause::Scheduler { served } => {
            out["served"] = json!(served.map(|served| path(&run.tenants, served)));
        }
        Cause::SchedulerOthers => out["served"] = json!("others"),
        _ => out["count"] = json!(at.wait.count),
    }
    out["ns"] = json!(at.wait.time.get());
    out["percent"] = json!(at.share as f64 / 10.0);
    out["words"] = json!(at.words);
    out
}

#[cfg(test)]
mod tests {
    use crate::json::{JsonOptions, value};
    use crate::sample;

    #[test]
    fn tenants_as_tools_read_them() {
        let run = sample::tenants_run();
        let all = value(&run, JsonOptions::default());
        let tenants = all["elevon"]["tenants"].as_array().unwrap();
        assert_eq!(tenants.len(), run.tenants.len(), "all of them, whatever text shows");
        for tenant in tenants.iter().filter(|tenant| tenant.get("explain").is_some()) {
            let ns: u64 = tenant["explain"]
                .as_array()
                .unwrap()
                .iter()
                .map(|at| at["ns"].as_u64().unwrap())
                .sum();
            assert_eq!(tenant["waited_ns"], ns);
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&tenants[2]).unwrap());
        assert_eq!(tenants[1]["explain"][2]["served"], "batch/nightly");
        assert_eq!(tenants[4]["explain"][0]["level"], "web");
        assert!(
            value(&sample::mixed_run(), JsonOptions::default())["elevon"].get("tenants").is_none()
        );
    }
}
