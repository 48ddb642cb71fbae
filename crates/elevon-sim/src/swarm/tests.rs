use super::*;

/// Seeds that once failed, by what they found; before there were tenants.
const FOUND: &[u64] = &[
    40,  // a batch whose last I/O slept for a tag was never ended
    397, // flushes waited for data that waited for tokens they held
];

#[test]
fn a_small_swarm() {
    for seed in 0..24 {
        if let Err(violation) = check_seed(seed) {
            panic!("{violation:#?}\n{}", Plan::new(seed));
        }
    }
    for plan in FOUND.iter().map(|&seed| Plan::without_tenants(seed)) {
        if let Err(violation) = run_plan(&plan) {
            panic!("{violation:#?}\n{plan}");
        }
    }
}

#[test]
fn seeds_differ_and_reach_everything() {
    let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
    let any = |holds: &dyn Fn(&Plan) -> bool| plans.iter().any(holds);
    for scheduler in elevon_core::sched::SCHEDULERS {
        assert!(any(&|plan| plan.scheduler.starts_with(scheduler.name)), "{} is never drawn", scheduler.name);
    }
    for profile in crate::profiles::PROFILES {
        assert!(any(&|plan| plan.device.starts_with(profile.name)), "{} is never drawn", profile.name);
    }
    for fault in crate::device::fault::plan::NAMES.split(", ") {
        assert!(any(&|plan| plan.faults.iter().any(|f| f.starts_with(fault))), "{fault} is never drawn");
    }
    assert!(any(&|plan| plan.power_cut.is_some()) && any(&|plan| plan.limits.len() > 2));
}

/// A plan with fixed jobs that reach every checker: mixed sizes, merges, flushes, more processes than tags.
fn plain(scheduler: &str) -> Plan {
    let jobs = "[global]\ndirect=1\nioengine=libaio\niodepth=16\niodepth_batch_submit=8\n\
                [w]\nrw=write\nbs=4k\nsize=2m\noffset=1m\nnumber_ios=200\nfsync=7\n\
                [d]\nrw=randwrite\nbs=64k\nsize=2m\noffset=4m\nnumber_ios=40\nsync=dsync\n\
                [r]\nrw=randread\nbs=1m\nsize=16m\noffset=8m\nnumber_ios=20\nnumjobs=2\n";
    Plan {
        device: "null:size=4GiB,latency=100us,queue_depth=8,write_cache=1,fua=0".into(),
        limits: Vec::new(),
        settings: Vec::new(),
        kernel: elevon_core::kernel::Kernel::V6_18,
        scheduler: scheduler.into(),
        memory: "contiguous",
        faults: Vec::new(),
        power_cut: None,
        tunable_changes: 0,
        cpu: (1000, 500),
        jobs: [jobs.into(), jobs.into()],
        tenants: None,
        ..Plan::new(1)
    }
}

#[test]
fn a_plain_plan_passes_every_checker() {
    for scheduler in ["none", "mq-deadline"] {
        let summary = run_plan(&plain(scheduler)).unwrap_or_else(|violation| panic!("{violation:#?}"));
        assert!(summary.events > 2000, "{summary:?}");
        assert_eq!(run_plan(&plain(scheduler)), Ok(summary));
    }
    assert_ne!(run_plan(&plain("none")).map(|s| s.hash), run_plan(&plain("mq-deadline")).map(|s| s.hash));
}

/// Every checker fails where what it watches over is broken, and nothing but it is looked at.
#[test]
fn canaries() {
    for (checker, sabotage) in [
        ("once", Sabotage::AnswerTwice),
        ("once", Sabotage::LoseCompletion),
        ("progress", Sabotage::LoseCompletion),
        ("tags", Sabotage::SameTag),
        ("pieces", Sabotage::ShortPiece),
        ("limits", Sabotage::TooLarge),
        ("merges", Sabotage::OtherPriority),
        ("durability", Sabotage::LyingFlush),
        ("agreement", Sabotage::SameTag),
        ("agreement", Sabotage::Lacks("issues", 9)),
        ("coverage", Sabotage::Lacks("bios", 5)),
        ("coverage", Sabotage::Lacks("completions", 5)),
        ("order", Sabotage::Lacks("issues", 9)),
        ("order", Sabotage::Lacks("completions", 5)),
        ("flush", Sabotage::Lacks("of a flush", 0)),
        ("counters", Sabotage::Lacks("requests", 3)),
        ("counters", Sabotage::Lacks("issues", 3)),
        ("counters", Sabotage::Lacks("completions", 3)),
        ("little", Sabotage::Lacks("ends", 3)),
        ("conservation", Sabotage::Sees(Wrong::Call)),
    ] {
        let result = run_guarded(&plain("mq-deadline"), Some(checker), Some(sabotage));
        let got = result.map_err(|violation| violation.checker);
        assert_eq!(got.err(), Some(checker), "{sabotage:?}");
    }
}

/// A plan whose one tenant is ruled so, and whose jobs take about half a second at 2 MB/s.
fn ruled(setting: &str) -> Plan {
    let jobs =
        "[job0]\ndirect=1\nioengine=libaio\niodepth=16\nrw=randwrite\nbs=4k\nsize=2m\noffset=1m\nnumber_ios=300\n";
    let text = format!("[tenant.\"a/b\"]\n[tenant.a]\n{setting}\n");
    let tenants = Drawn { paths: vec!["a/b".to_owned(), "a".to_owned()], text, removals: Vec::new() };
    Plan { jobs: [tenants.assign(jobs), tenants.assign(jobs)], tenants: Some(tenants), ..plain("none") }
}

/// The checkers of tenants fail where a rule is not kept, and pass where it is.
#[test]
fn canaries_of_tenants() {
    let exact = "limit = { wbps = 2000000, burst = 65536 }";
    let max = "[[change]]\nat = \"1us\"\ntenant = \"a/b\"\n\"io.max\" = \"wbps=2000000\"";
    let token = "[[change]]\nat = \"1us\"\ntenant = \"a/b\"\n\"blockio.iops-max\" = \"500:1:20\"";
    for (checker, setting, sabotage) in [
        ("exact", exact, Sabotage::Sees(Wrong::HalfLimits)),
        ("exact", "limit = { iops = 500, burst_ios = 3 }", Sabotage::Sees(Wrong::HalfLimits)),
        ("slices", max, Sabotage::Sees(Wrong::HalfLimits)),
        ("io-throttle", token, Sabotage::Sees(Wrong::HalfLimits)),
        ("io-throttle", token, Sabotage::Sees(Wrong::LiveRule)),
        ("held", exact, Sabotage::Sees(Wrong::NoRules)),
        ("held", token, Sabotage::Sees(Wrong::NoRules)),
        ("io.stat", exact, Sabotage::Lacks("bios", 5)),
        ("ledger", exact, Sabotage::Sees(Wrong::Nanosecond)),
        ("ledger", exact, Sabotage::Lacks("bios", 5)),
        ("conservation", exact, Sabotage::Sees(Wrong::Call)),
    ] {
        let plan = ruled(setting);
        let kept = run_guarded(&plan, Some(checker), None);
        assert!(kept.is_ok(), "{setting}: {kept:#?}");
        let broken = run_guarded(&plan, Some(checker), Some(sabotage)).map_err(|violation| violation.checker);
        assert_eq!(broken.err(), Some(checker), "{setting}: {sabotage:?}");
    }
}

#[test]
fn tenants_are_ruled_in_every_way() {
    let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
    let drawn = || plans.iter().filter_map(|plan| plan.tenants.as_ref());
    for what in [
        "blockio.bandwidth-max",
        "blockio.iops-max",
        "blkio.throttle.read_bps_device",
        "blkio.throttle.write_iops_device",
        "io.max",
        "limit = {",
        "limit = \"max\"",
        "burst_ios",
        "io.weight",
        "io.cost.qos",
        "io.cost.model",
        "latency",
        "class",
        "[[change]]",
    ] {
        assert!(drawn().any(|tenants| tenants.text.contains(what)), "{what} is never drawn");
    }
    assert!(drawn().any(|tenants| !tenants.removals.is_empty()));
    assert!(drawn().any(|tenants| tenants.paths.iter().any(|path| path.matches('/').count() > 2)));
    assert!(plans.iter().any(|plan| plan.tenants.is_none()));
}

/// What writes out another than it reads would be found, and so would a run that is not the same twice.
#[test]
fn a_seed_is_its_plan() {
    assert_eq!(Plan::new(7).to_string(), Plan::new(7).to_string());
    assert_ne!(Plan::new(7).to_string(), Plan::new(8).to_string());
}
