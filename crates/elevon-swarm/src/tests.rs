use std::collections::BTreeSet;

use super::*;

/// Seeds that once failed, with what they found, from before tenants existed.
const FOUND: &[u64] = &[
    40,  // a batch whose last I/O slept for a tag was never ended
    397, // flushes waited for data that waited for tokens they held
];

/// Seeds of whole plans that once failed, with the checker that found the error.
const FOUND_WHOLE: &[(u64, &str)] = &[
    (101_361, "coverage: a request behind one that the device refused was never sent"),
    (104_405, "io.stat: what waited behind another hardware queue's request was never sent"),
    (103_279, "conservation: a queue that the device refused waits for its delayed run"),
    (101_406, "errors: a write that could not read its page has not asked for write errors"),
    (6_111, "conservation: mq-deadline kept a class back for one that the page cache had promoted"),
    (
        11_161,
        "progress: requests put back for another hardware queue kept the tags that one before them needed",
    ),
    (100_808, "moved: bios before the place of an error end well"),
    (
        5_921,
        "contents: a change of memory let a write go on, and a bio was submitted before its bytes had moved",
    ),
    (6_514, "contents: a direct read that began while a sector was uncertain may see anything"),
    (2_758, "synced: what a sync under way had found written is lost by a cut of power"),
    (17_253, "errors: the same, after a write that failed"),
    (10_244, "progress: readahead of those who waited for memory took all that came free"),
    (6_403, "progress: a merge freed the tag that a task of another batch waited for"),
    (102_398, "synced: a discard of two ranges lies where its pieces say"),
    (500_127, "a worker of a ring that has a plug is not the ring's task, which sleeps for a gate"),
];

#[test]
fn a_small_swarm() {
    for seed in 0..24 {
        if let Err(violation) = check_seed(seed) {
            panic!("{violation:#?}\n{}", Plan::new(seed));
        }
    }
    let whole = FOUND_WHOLE.iter().map(|&(seed, _)| Plan::new(seed));
    for plan in FOUND.iter().map(|&seed| Plan::without_tenants(seed)).chain(whole) {
        if let Err(violation) = run_plan(&plan) {
            panic!("{violation:#?}\n{plan}");
        }
    }
}

/// The same random seed gives the same run in every build profile, with every compiler and on every
/// machine. Update the hashes only for an intended change of behaviour: `elevon-swarm --count 8
/// --hashes` prints them.
#[test]
fn hashes_depend_on_the_seed_alone() {
    const HASHES: [(u64, u64); 4] = [
        (0, 0xdf0f2353251131dc),
        (1, 0x7aecd3526d185d4e),
        (4, 0x8a9f8d8f61b2e3f7),
        (7, 0x8b3dceb829b0f2f4),
    ];
    let found =
        HASHES.map(|(seed, _)| (seed, run_plan(&Plan::new(seed)).expect("no violation").hash));
    assert_eq!(found, HASHES, "{found:#x?}");
}

#[test]
fn seeds_differ_and_reach_everything() {
    let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
    let any = |holds: &dyn Fn(&Plan) -> bool| plans.iter().any(holds);
    for scheduler in elevon_core::sched::SCHEDULERS {
        assert!(
            any(&|plan| plan.scheduler.starts_with(scheduler.name)),
            "{} is never drawn",
            scheduler.name
        );
    }
    for profile in elevon_sim::profiles::PROFILES {
        assert!(
            any(&|plan| plan.device.starts_with(profile.name)),
            "{} is never drawn",
            profile.name
        );
    }
    for fault in elevon_sim::device::fault::kinds::KINDS.iter().map(|kind| kind.name) {
        assert!(
            any(&|plan| plan.faults.iter().any(|f| f.starts_with(fault))),
            "{fault} is never drawn"
        );
    }
    assert!(any(&|plan| plan.power_cut.is_some()) && any(&|plan| plan.limits.len() > 2));
}

/// Returns a plan with fixed jobs that reach every checker: mixed sizes, merges, flushes, more
/// processes than tags.
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
        cache: None,
        ..Plan::new(1)
    }
}

#[test]
fn a_plain_plan_passes_every_checker() {
    for scheduler in ["none", "mq-deadline"] {
        let summary =
            run_plan(&plain(scheduler)).unwrap_or_else(|violation| panic!("{violation:#?}"));
        assert!(summary.events > 2000, "{summary:?}");
        assert_eq!(run_plan(&plain(scheduler)), Ok(summary));
    }
    assert_ne!(
        run_plan(&plain("none")).map(|s| s.hash),
        run_plan(&plain("mq-deadline")).map(|s| s.hash)
    );
}

/// Every checker fails if the property that it checks is violated. Only that checker is active.
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

/// One I/O of 32 commands takes 800 s; a run counts as stuck after 600 s without an answer.
#[test]
fn a_long_io_whose_commands_are_answered_is_not_stuck() {
    let job =
        "[job0]\ndirect=1\nioengine=psync\nrw=read\nbs=128k\nsize=2m\noffset=1m\nnumber_ios=1\n";
    let device = "slots:slots=1,latency=25s,bandwidth=5GB/s,size=4GiB,queue_depth=1";
    let settings = vec![("max_sectors_kb", "4".to_owned())];
    let plan =
        Plan { device: device.into(), settings, jobs: [job.into(), job.into()], ..plain("none") };
    let summary = run_plan(&plan).unwrap_or_else(|violation| panic!("{violation:#?}"));
    assert!(summary.ended > Instant::ZERO + Nanos::from_secs(1600), "{summary:?}");
}

/// Returns a plan with one tenant that has this setting, and jobs that take about half a second at
/// 2 MB/s.
fn ruled(setting: &str) -> Plan {
    let jobs = "[job0]\ndirect=1\nioengine=libaio\niodepth=16\nrw=randwrite\nbs=4k\nsize=2m\noffset=1m\nnumber_ios=300\n";
    let text = format!("[tenant.\"a/b\"]\n[tenant.a]\n{setting}\n");
    let tenants =
        Drawn { paths: vec!["a/b".to_owned(), "a".to_owned()], text, removals: Vec::new() };
    Plan {
        jobs: [tenants.assign(jobs), tenants.assign(jobs)],
        tenants: Some(tenants),
        ..plain("none")
    }
}

/// The checkers of tenants fail if a rule is violated, and pass otherwise.
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
        let broken = run_guarded(&plan, Some(checker), Some(sabotage))
            .map_err(|violation| violation.checker);
        assert_eq!(broken.err(), Some(checker), "{setting}: {sabotage:?}");
    }
}

/// The checkers of `aileron` fail if its decisions are not those that they were told of, and pass
/// otherwise.
#[test]
fn canaries_of_aileron() {
    let jobs = "[global]\ndirect=1\nioengine=libaio\niodepth=16\nrw=randread\nbsrange=4k-64k\nsize=16m\n\
                number_ios=400\n[a]\nprio=0\nprioclass=2\n[b]\nprio=4\nprioclass=2\n[c]\nprio=7\nprioclass=2\n\
                [idle]\nprioclass=3\n";
    let plan = Plan {
        device: "slots:slots=4,latency=200us,bandwidth=2GB/s,size=4GiB,queue_depth=64".into(),
        jobs: [jobs.into(), jobs.into()],
        ..plain("aileron:class_expire=5,depth=6")
    };
    for (checker, sabotage) in [
        ("aileron-shares", Sabotage::Sees(Wrong::TwiceTheWeight)),
        ("aileron-classes", Sabotage::Sees(Wrong::NoPatience)),
        ("aileron-depth", Sabotage::Sees(Wrong::HalfDepth)),
    ] {
        let kept = run_guarded(&plan, Some(checker), None);
        assert!(kept.is_ok(), "{checker}: {kept:#?}");
        let broken = run_guarded(&plan, Some(checker), Some(sabotage))
            .map_err(|violation| violation.checker);
        assert_eq!(broken.err(), Some(checker), "{sabotage:?}");
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

/// Returns a plan with a small page cache, and jobs that reach every checker of it.
fn through_cache(settings: &[(&'static str, &str)]) -> Plan {
    let jobs = "[global]\nfilename=/dev/swarm\noffset=1m\nsize=2m\nnorandommap=1\nnumber_ios=300\ncontinue_on_error=all\n\
                ignore_error=EIO,EIO,EIO\n\
                [w]\nioengine=psync\nrw=randwrite\nbs=16k\nio_size=8m\nfsync=10\n\
                [v]\nioengine=io_uring\niodepth=4\nrw=randwrite\nbsrange=512-16k\nio_size=8m\nfdatasync=7\n\
                [r]\nioengine=psync\nrw=randread\nbs=4k\nio_size=8m\nprioclass=3\n\
                [m]\nioengine=mmap\nrw=randrw\nbs=4k\nio_size=4m\n\
                [d]\ndirect=1\nioengine=libaio\niodepth=2\nrw=randrw\nbs=8k\nio_size=4m\n";
    let mut all = vec![("cache", "mglru-6.1"), ("activity", "page-exact")];
    all.extend_from_slice(settings);
    let cache = DrawnCache {
        memory_kib: 1024,
        reserved_kib: 0,
        settings: all.into_iter().map(|(key, value)| (key, value.to_owned())).collect(),
        has_bytes: true,
        cost: (300, 100, 500),
        other_program_calls: 100,
        truncates: false,
        memory_changes: 0,
    };
    Plan { jobs: [jobs.into(), jobs.into()], cache: Some(cache), ..plain("mq-deadline") }
}

/// The checkers of the page cache fail if the property that they check is violated, and pass
/// otherwise.
#[test]
fn canaries_of_the_page_cache() {
    let back: &[(&str, &str)] = &[];
    let through = &[("cache_mode", "write-through")][..];
    let mut wrong = Vec::new();
    for (checker, settings, sabotage) in [
        ("contents", back, Sabotage::LoseCopy),
        ("contents", back, Sabotage::ForgetWrite),
        ("contents", back, Sabotage::GarbleRead),
        ("synced", back, Sabotage::ForgetWrite),
        ("synced", back, Sabotage::LyingFlush),
        ("through", through, Sabotage::ForgetWrite),
        ("freed", back, Sabotage::ForgetWrite),
        ("stable", back, Sabotage::ChangeFrame),
        ("moved", back, Sabotage::MissPiece),
        ("moved", back, Sabotage::LoseCompletion),
        ("errors", back, Sabotage::SwallowError),
        ("errors", back, Sabotage::InventError),
        ("memory", back, Sabotage::Sees(Wrong::HalfMemory)),
        ("dirty", back, Sabotage::Sees(Wrong::MoreDirty)),
        ("counted", back, Sabotage::Sees(Wrong::MoreTraffic)),
        ("counted", back, Sabotage::Sees(Wrong::MoreDirtied)),
        ("content", back, Sabotage::Promote),
        ("content", back, Sabotage::Demote),
        ("content", back, Sabotage::Sees(Wrong::MorePromoted)),
        ("ends", back, Sabotage::Impatience),
        ("progress", back, Sabotage::LoseCompletion),
        ("conservation", back, Sabotage::Sees(Wrong::Call)),
    ] {
        let mut plan = through_cache(settings);
        if sabotage == Sabotage::SwallowError {
            plan.faults = vec!["error:ppm=100000,status=io,op=write".to_owned()];
            plan.settings = vec![("max_retries", "0".to_owned())];
        }
        if let ("dirty", Some(cache)) = (checker, &mut plan.cache) {
            // With less memory all of it could become dirty between two checks of the limits.
            cache.memory_kib = 16 << 10;
        }
        let kept = run_guarded(&plan, Some(checker), None);
        let broken = run_guarded(&plan, Some(checker), Some(sabotage))
            .map_err(|violation| violation.checker);
        if kept.is_err() || broken.err() != Some(checker) {
            wrong.push((checker, sabotage, kept.map_err(|violation| violation.message), broken));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Programs and syncs meet silent device faults. If the checkers do not know that the faults are
/// planned, they fail.
#[test]
fn canaries_of_silent_faults() {
    let mut wrong = Vec::new();
    for (checker, fault) in [
        ("contents", "lost_write:ppm=300000"),
        ("synced", "lost_write:ppm=300000"),
        ("durability", "lost_write:ppm=300000"),
        ("contents", "misdirected:ppm=300000,by=64"),
        ("synced", "misdirected:ppm=300000,by=64"),
        ("durability", "misdirected:ppm=300000,by=64"),
        ("contents", "bit_rot:ppm=300000"),
    ] {
        let plan = Plan { faults: vec![fault.to_owned()], ..through_cache(&[]) };
        let kept = run_guarded(&plan, None, None);
        let forgot = run_guarded(&plan, Some(checker), Some(Sabotage::ForgetFaults));
        let is_found = kept.as_ref().is_ok_and(|summary| summary.found > 0 && summary.faults > 0);
        if !is_found || forgot.as_ref().err().map(|violation| violation.checker) != Some(checker) {
            wrong.push((
                checker,
                fault,
                kept.map_err(|violation| (violation.checker, violation.message)),
                forgot,
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let summary = run_plan(&through_cache(&[])).expect("a plan without faults");
    assert_eq!(summary.found, 0);
}

#[test]
fn page_caches_of_every_kind_are_drawn() {
    let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
    let drawn = || plans.iter().filter_map(|plan| plan.cache.as_ref());
    let settings: BTreeSet<&str> = drawn()
        .flat_map(|cache| cache.settings.iter().flat_map(|(key, value)| [*key, value.as_str()]))
        .collect();
    let keys = [
        "activity",
        "cache",
        "cache_mode",
        "min_ttl_ms",
        "read_ahead_kb",
        "extra_free_kbytes",
        "wait_window_ms",
    ];
    let dirty = [
        "dirty_ratio",
        "dirty_background_ratio",
        "dirty_expire_centisecs",
        "dirty_writeback_centisecs",
    ];
    for key in keys.into_iter().chain(dirty) {
        assert!(settings.contains(key), "{key} is never drawn");
    }
    let forms = Activity::ALL.map(Activity::name);
    for value in elevon_cache::POLICIES.into_iter().chain(forms).chain(["write-through"]) {
        assert!(settings.contains(value), "{value} is never drawn");
    }
    let jobs: String = plans
        .iter()
        .filter(|plan| plan.cache.is_some())
        .flat_map(|plan| plan.jobs.clone())
        .collect();
    for line in [
        "ioengine=mmap",
        "direct=1",
        "direct=0",
        "fsync=",
        "fdatasync=",
        "sync=dsync",
        "pre_read",
        "prioclass",
    ] {
        assert!(jobs.contains(line), "{line} is never drawn");
    }
    assert!(drawn().any(|cache| !cache.has_bytes) && plans.iter().any(|plan| plan.cache.is_none()));
    assert!(
        drawn().any(|cache| cache.truncates
            && cache.memory_changes > 0
            && cache.other_program_calls > 0)
    );
}

/// A random seed determines its plan: the same seed draws the same plan, another seed another one.
#[test]
fn a_seed_is_its_plan() {
    assert_eq!(Plan::new(7).to_string(), Plan::new(7).to_string());
    assert_ne!(Plan::new(7).to_string(), Plan::new(8).to_string());
}
