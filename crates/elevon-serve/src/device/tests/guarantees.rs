//! What tenants are promised, in virtual time: shares, limits, latency beside others, and that
//! nothing is lost when these change.

use std::time::Duration;

use elevon_core::units::{Instant, Nanos};
use elevon_formats::tenants::parse;
use elevon_nbd::{Command, Request};
use elevon_testkit::habits::{Command as Kind, Habit, Manner};

use elevon_cache::page_cache::WriteMode;

use super::lab::{Lab, cache};
use crate::device::backpressure::IN_FLIGHT;
use crate::device::message::Message;

const DISK: &str = "slots:slots=8,latency=100us,bandwidth=2GB/s,size=1GiB,queue_depth=64";

const fn reads(depth: usize) -> Habit {
    Habit::steady(Kind::Read, 4096, depth)
}

/// Within 5 % of the weights under the scheduler that a server has by default.
#[test]
fn a_saturated_device_is_shared_by_weights() {
    let tenants = "[tenant.a]\nweight = 400\n[tenant.b]\nweight = 200\n[tenant.c]\nweight = 100\n";
    let mut lab = Lab::new(DISK, &[], "aileron", tenants);
    for tenant in ["a", "b", "c"] {
        lab.add(tenant, reads(32));
    }
    lab.warm_up(Nanos::from_millis(500));
    lab.run(Nanos::from_secs(2));
    let all: u64 = lab.clients.iter().map(|client| client.done).sum();
    for (client, weight) in lab.clients.iter().zip([4.0, 2.0, 1.0]) {
        let share = client.done as f64 / all as f64 * 7.0 / weight;
        assert!((share - 1.0).abs() < 0.05, "weight {weight}: {share} of its share");
    }
}

/// Also on a disk, where requests that follow one another come one by one: each merges with the one
/// that waits, and the stream that they are keeps its turn, also if one comes late.
#[test]
fn a_disk_is_shared_by_streams() {
    let tenants = "[tenant.a]\nweight = 400\n[tenant.b]\nweight = 200\n[tenant.c]\nweight = 100\n";
    for late in [Duration::ZERO, Duration::from_millis(3)] {
        let mut lab = Lab::new("hdd-7200", &[], "aileron", tenants);
        for (tenant, base) in [("a", 0), ("b", 300 << 30), ("c", 600 << 30)] {
            let stream = Habit::stream(Kind::Read, 64 << 10, 32);
            lab.add_at(
                tenant,
                (base, 300 << 30),
                Habit { manner: Manner::Late, think: late, ..stream },
            );
        }
        lab.warm_up(Nanos::from_secs(5));
        // A turn is 0.2 s, and the lightest has one in 1.4 s.
        lab.run(Nanos::from_secs(70));
        let all: u64 = lab.clients.iter().map(|client| client.done).sum();
        let shares = lab.clients.iter().zip([4.0, 2.0, 1.0]);
        let shares: Vec<f64> =
            shares.map(|(client, weight)| client.done as f64 / all as f64 * 7.0 / weight).collect();
        assert!(shares.iter().all(|share| (share - 1.0).abs() < 0.05), "{late:?} late: {shares:?}");
        assert!(all * (64 << 10) / 70 > 140_000_000, "{late:?} late: {all} requests in 70 s");
    }
}

/// A simulated device goes on after a flush that failed; what that should have written is not told
/// to be durable by a later one.
#[test]
fn a_flush_that_failed_is_not_healed_by_the_next() {
    let mut lab = Lab::new("ufs-3.1", &["flush_error:ppm=100000"], "none", "");
    let mut wire = lab.open(0, "");
    let mut results = Vec::new();
    let request =
        |command, length| Request { command, fua: false, df: false, cookie: 1, offset: 0, length };
    for _ in 0..40 {
        assert!(lab.ask(&mut wire, &request(Command::Write, 4096), &[7; 4096]));
        results.push(lab.ask(&mut wire, &request(Command::Flush, 0), &[]));
    }
    let succeeded = results.iter().take_while(|is_ok| **is_ok).count();
    assert!((1..40).contains(&succeeded), "{results:?}");
    assert!(results[succeeded..].iter().all(|is_ok| !is_ok), "{results:?}");
}

/// A client that pauses keeps its connection and gives back its buffers; one that goes on keeps
/// them.
#[test]
fn buffers_that_are_not_used_are_given_back() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    lab.add("", reads(1));
    let mut pauses = lab.open(7, "");
    let write = |cookie| Request {
        cookie,
        command: Command::Write,
        offset: 0,
        length: 4096,
        fua: false,
        df: false,
    };
    let read = |cookie| Request { command: Command::Read, ..write(cookie) };
    let mut ask = |lab: &mut Lab, request: &Request| {
        pauses.ask(request, if request.command == Command::Write { &[7; 4096] } else { &[] });
        let answer = loop {
            lab.run(Nanos::from_millis(1));
            if let Some(answer) = pauses.answer() {
                break answer;
            }
        };
        assert_eq!(answer, (request.cookie, true));
    };
    ask(&mut lab, &write(1));
    ask(&mut lab, &read(2));
    lab.run(Nanos::from_secs(4));
    assert_eq!(lab.with_buffers(), [true, true]);
    assert!(lab.kept(1) >= 4096, "the thread that writes was given the data");
    lab.run(Nanos::from_secs(7));
    assert_eq!(lab.with_buffers(), [true, false]);
    assert_eq!(lab.kept(1), 0);
    ask(&mut lab, &read(3));
    assert_eq!(lab.with_buffers(), [true, true]);
}

/// One client too many is sent away, and no other notices.
#[test]
fn a_client_without_memory_for_its_buffers_is_closed_and_others_go_on() {
    let mut lab = Lab::new(DISK, &[], "none", "");
    lab.add("", reads(1));
    lab.run(Nanos::from_millis(1));
    lab.device.engine.backend_mut().is_out_of_memory = true;
    let mut late = lab.open(7, "");
    late.ask(
        &Request {
            cookie: 1,
            command: Command::Read,
            offset: 0,
            length: 4096,
            fua: false,
            df: false,
        },
        &[],
    );
    lab.run(Nanos::from_millis(1));
    assert!(late.answer().is_none());
    lab.run(Nanos::from_millis(1));
    assert!(!lab.device.tasks.contains_key(&7) && late.answer().is_none());
    let done = lab.clients[0].done;
    lab.run(Nanos::from_millis(1));
    assert!(lab.clients[0].done > done);
}

/// Within 1 % of the limit, from an I/O a second to what the device can do.
#[test]
fn a_limited_tenant_gets_its_limit() {
    for (iops, seconds) in [(1, 400), (10, 60), (1_000, 10), (20_000, 2), (70_000, 1)] {
        let mut lab =
            Lab::new(DISK, &[], "none", &format!("[tenant.a]\nlimit = {{ iops = {iops} }}\n"));
        lab.add("a", reads(128));
        lab.warm_up(Nanos::from_secs(1));
        lab.run(Nanos::from_secs(seconds));
        let rate = lab.clients[0].done as f64 / seconds as f64;
        assert!((rate / iops as f64 - 1.0).abs() < 0.01, "{rate} IOPS under a limit of {iops}");
    }
    for (bps, bytes) in [(10_000_u64, 4096), (1_000_000, 65536), (20_000_000, 1 << 20)] {
        let mut lab =
            Lab::new(DISK, &[], "aileron", &format!("[tenant.a]\nlimit = {{ wbps = {bps} }}\n"));
        lab.add("a", Habit::stream(Kind::Write, bytes, 4));
        lab.warm_up(Nanos::from_secs(10));
        lab.run(Nanos::from_secs(100));
        let rate = (lab.clients[0].done * bytes) as f64 / 100.0;
        assert!(
            (rate / bps as f64 - 1.0).abs() < 0.01,
            "{rate} bytes a second under a limit of {bps}"
        );
    }
}

/// Of a request that is larger than all that may pass at once, part after part passes.
#[test]
fn a_request_larger_than_its_bucket_passes_in_its_turn() {
    let mut lab = Lab::new(DISK, &[], "none", "[tenant.a]\nlimit = { bps = 1000000 }\n");
    let mut wire = lab.open(0, "a");
    let length = 8 << 20;
    let request =
        Request { command: Command::Read, fua: false, df: false, cookie: 5, offset: 0, length };
    wire.ask(&request, &[]);
    let answer = loop {
        assert!(lab.step(), "an answer comes");
        if let Some(answer) = wire.answer() {
            break answer;
        }
    };
    assert_eq!(answer, (5, true));
    let took = lab.now().since(Instant::ZERO).get() as f64 / 1e9;
    // The last part leaves when all before it were paid for, and the bucket is empty at first.
    assert!((8.1..8.5).contains(&took), "8.4 MB at 1 MB/s took {took} s");
}

/// A reader that waits for each answer keeps its tail beside a writer that has 32 requests in
/// flight, who loses little. On a device of several servers; flash with a write buffer does not
/// allow it (docs/explanation/aileron.md).
#[test]
fn a_reader_keeps_its_latency_beside_a_deep_writer() {
    let tenants = "[tenant.reader]\n[tenant.writer]\n";
    let reader = ("reader", reads(1));
    let writer = ("writer", Habit::steady(Kind::Write, 16 << 10, 32));
    for disk in ["slots:slots=8,latency=2ms,bandwidth=2GB/s,size=1GiB,queue_depth=64", DISK] {
        let run = |clients: &[(&'static str, Habit)]| {
            let mut lab = Lab::new(disk, &[], "aileron", tenants);
            clients.iter().for_each(|(tenant, habit)| lab.add(tenant, *habit));
            lab.warm_up(Nanos::from_millis(500));
            lab.run(Nanos::from_secs(1));
            lab
        };
        let p99 = |lab: &Lab| lab.clients[0].latency.percentile(990_000);
        let done = |lab: &Lab| lab.clients.iter().map(|client| client.done).sum::<u64>();
        let (alone, other, both) = (run(&[reader]), run(&[writer]), run(&[reader, writer]));
        assert!(
            p99(&both) <= 2 * p99(&alone),
            "{disk}: p99 {} ns alone, {} ns beside",
            p99(&alone),
            p99(&both)
        );
        assert!(
            done(&both) * 10 > done(&other) * 9,
            "{disk}: {} requests of {}",
            done(&both),
            done(&other)
        );
    }
}

/// A floor holds beside heavier tenants, in I/Os and in bytes, and is set, changed and removed
/// while all of them do I/O.
#[test]
fn a_reserve_is_kept_beside_heavier_tenants() {
    let mut lab = Lab::new(
        DISK,
        &[],
        "aileron",
        "[tenant.a]\nweight = 1\n[tenant.b]\nweight = 1000\n[tenant.c]\nweight = 1000\n",
    );
    for tenant in ["a", "b", "c"] {
        lab.add(tenant, reads(32));
    }
    lab.warm_up(Nanos::from_millis(500));
    let rules = elevon_core::kernel::Kernel::DEFAULT.rules();
    let mut done = 0;
    for (setting, expected) in [
        ("reserve = { iops = 10000 }", 10_000.0),
        ("reserve = { iops = 0, bps = 81920000 }", 20_000.0),
        ("reserve = { iops = 30000 }", 30_000.0),
        // As its weight says.
        ("reserve = 0", 39.0),
    ] {
        let file = parse("", &format!("[tenant.a]\n{setting}"), &rules).expect("a good setting");
        let (answer, answered) = std::sync::mpsc::channel();
        let settings = file.tenants[0].settings.clone();
        lab.send
            .send(Message::Set { tenant: Some("a".to_owned()), settings, is_part: false, answer })
            .expect("the device is there");
        // A look at one kind of request may fall into the time.
        lab.run(Nanos::from_secs(5));
        assert_eq!(answered.try_recv().expect("an answer"), Ok(Vec::new()));
        let rate = (lab.clients[0].done - done) as f64 / 5.0;
        done = lab.clients[0].done;
        assert!(
            (rate - expected).abs() < 0.02 * expected + 10.0,
            "{setting}: {rate} I/Os a second"
        );
    }
}

/// Every request is answered once, whatever is changed meanwhile.
#[test]
fn changes_lose_no_request() {
    let tenants = "[tenant.a]\nlimit = { iops = 500 }\n[tenant.b]\nweight = 200\n";
    let mut lab = Lab::new(DISK, &[], "aileron", tenants);
    lab.add("a", reads(64));
    lab.add("b", Habit::steady(Kind::Write, 4096, 64));
    let rules = elevon_core::kernel::Kernel::DEFAULT.rules();
    let changes = [
        ("a", "limit = { iops = 5 }"),
        ("b", "limit = { wbps = 100000 }"),
        ("a", "weight = 10000"),
        ("b", "'io.max' = 'wiops=10'"),
        ("a", "limit = 'max'"),
        ("b", "class = 'idle'"),
        ("b", "'io.max' = 'wiops=max'"),
        ("b", "limit = 'max'\nlatency = '1ms'"),
    ];
    let mut answers = Vec::new();
    for (tenant, setting) in changes {
        lab.run(Nanos::from_millis(300));
        let file = parse("", &format!("[tenant.a]\n{setting}"), &rules).expect("a good setting");
        let (answer, answered) = std::sync::mpsc::channel();
        let (tenant, settings) = (Some(tenant.to_owned()), file.tenants[0].settings.clone());
        lab.send
            .send(Message::Set { tenant, settings, is_part: false, answer })
            .expect("the device is there");
        answers.push(answered);
    }
    lab.run(Nanos::from_secs(2));
    for answered in answers {
        assert_eq!(answered.try_recv().expect("an answer"), Ok(Vec::new()));
    }
    // What is in flight is as much as clients keep there; `step` holds that each answer has its
    // question.
    for client in &lab.clients {
        assert_eq!(client.in_flight(), 64);
        assert!(client.done > 10_000, "{} answers: nothing holds them at the end", client.done);
    }
}

/// A tenant that is new, and one that is no longer listed.
#[test]
fn tenants_are_added_and_lose_their_settings_while_they_do_io() {
    let mut lab = Lab::new(DISK, &[], "aileron", "[tenant.a]\nlimit = { iops = 100 }\n");
    lab.add("a", reads(8));
    lab.run(Nanos::from_secs(1));
    let file =
        parse("", "[tenant.'b/c']\nweight = 300\n", &elevon_core::kernel::Kernel::DEFAULT.rules());
    let plan =
        elevon_workload::tenants::TenantPlan::new(&[], Some(&file.expect("good"))).expect("a tree");
    let (answer, answered) = std::sync::mpsc::channel();
    lab.send.send(Message::Tenants { tenants: plan.tenants, answer }).expect("the device is there");
    lab.warm_up(Nanos::from_millis(100));
    let ids = answered.try_recv().expect("an answer").expect("nothing is refused");
    assert_eq!(
        ids.iter().map(|id| id.0).collect::<Vec<_>>(),
        [2, 3],
        "after the one that was there"
    );
    lab.run(Nanos::from_secs(1));
    assert!(lab.clients[0].done > 10_000, "its limit is gone");
    let (answer, answered) = std::sync::mpsc::channel();
    lab.send.send(Message::View { answer }).expect("the device is there");
    lab.run(Nanos::from_millis(10));
    let view = answered.try_recv().expect("an answer");
    let told: Vec<(&str, usize)> =
        view.tenants.iter().map(|t| (t.path.as_str(), t.settings.len())).collect();
    assert_eq!(told, [("/", 0), ("a", 0), ("b", 0), ("b/c", 2)]);
    assert!(view.tenant("a").is_some_and(|a| a.io.ios[0] > 10_000));
}

/// Requests that are answered without I/O are as many as a client likes: they may not keep the
/// device's thread.
#[test]
fn a_flood_of_requests_without_io_leaves_others_their_turn() {
    const FLOOD: u64 = 1_000;
    // Out of range, and so refused.
    let refused = Request {
        command: Command::Read,
        cookie: 0,
        offset: 1 << 60,
        length: 512,
        fua: false,
        df: false,
    };
    let ahead = Request { command: Command::Cache, offset: 0, length: 1 << 20, ..refused };
    for (flood, most) in [(refused, 2 * u64::from(IN_FLIGHT)), (ahead, 2)] {
        let memory = cache(2 << 20, WriteMode::Back);
        let mut lab = Lab::cached(DISK, &[], "none", "", memory);
        let (mut hostile, mut other) = (lab.open(0, ""), lab.open(1, ""));
        // The device hands out memory in its first step, so that all of the flood comes at once.
        (0..FLOOD).for_each(|cookie| hostile.ask(&Request { cookie, ..flood }, &[]));
        other.ask(&Request { cookie: 7, ..ahead }, &[]);
        let mut answered = 0;
        while other.answer().is_none() {
            assert!(lab.step(), "an answer comes");
            answered += std::iter::from_fn(|| hostile.answer()).count() as u64;
        }
        assert!(answered <= most, "{flood:?}: {answered} came first");
        while answered < FLOOD {
            assert!(lab.step(), "every request has its answer");
            answered += std::iter::from_fn(|| hostile.answer()).count() as u64;
        }
    }
}
