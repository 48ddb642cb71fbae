//! What is in force for a tenant and what is told of it are the same, whichever way it was set.

use std::sync::mpsc::channel;

use elevon_core::units::Nanos;
use elevon_formats::tenants::parse;
use elevon_testkit::habits::{Command, Habit};

use super::lab::Lab;
use crate::device::message::Message;

const DISK: &str = "slots:slots=8,latency=100us,bandwidth=2GB/s,size=1GiB,queue_depth=64";

fn writes(depth: usize) -> Habit {
    Habit::steady(Command::Write, 4096, depth)
}

/// Returns the `limit` that is told of tenant `a`.
fn told(lab: &mut Lab) -> Option<String> {
    let (answer, answered) = channel();
    lab.send.send(Message::View { answer }).expect("the device is there");
    lab.run(Nanos::from_millis(1));
    let view = answered.try_recv().expect("an answer");
    let settings = &view.tenant("a").expect("it is there").settings;
    settings.iter().find(|(name, _)| name == "limit").map(|(_, text)| text.clone())
}

/// Returns the I/Os of the first client in the next two seconds, by second.
fn rate(lab: &mut Lab) -> u64 {
    let before = lab.clients[0].done;
    lab.run(Nanos::from_secs(2));
    (lab.clients[0].done - before) / 2
}

#[test]
fn a_planned_change_is_told_once_it_is_made() {
    let tenants = "[tenant.a]\nlimit = { iops = 100 }\n\
        [[change]]\nat = '4s'\ntenant = 'a'\nlimit = { iops = 400 }\n";
    let mut lab = Lab::new(DISK, &[], "none", tenants);
    lab.add("a", writes(32));
    assert!(rate(&mut lab).abs_diff(100) < 3);
    assert_eq!(told(&mut lab).as_deref(), Some("{ iops = 100 }"));
    lab.run(Nanos::from_secs(3));
    assert_eq!(told(&mut lab).as_deref(), Some("{ iops = 400 }"));
    assert!(rate(&mut lab).abs_diff(400) < 5);
}

/// A table replaces the whole one that was there, and `max` lifts all of it, the bursts too.
#[test]
fn a_table_that_a_command_sets_replaces_the_old_one() {
    let mut lab = Lab::new(
        DISK,
        &[],
        "none",
        "[tenant.a]\nlimit = { wiops = 50, iops = 100, burst_ios = 7 }\n",
    );
    lab.add("a", writes(32));
    let rules = elevon_core::kernel::Kernel::DEFAULT.rules();
    for (setting, limit, expected) in [
        ("limit = { iops = 400 }", Some("{ iops = 400 }"), Some(400)),
        ("limit = { wiops = 20, burst_ios = 5 }", Some("{ wiops = 20, burst_ios = 5 }"), Some(20)),
        // A key with its table's name changes that key alone.
        ("limit.iops = 15", Some("{ wiops = 20, iops = 15, burst_ios = 5 }"), Some(15)),
        ("limit.wiops = 'max'", Some("{ iops = 15, burst_ios = 5 }"), Some(15)),
        ("limit = 'max'", None, None),
        ("limit = { iops = 200 }", Some("{ iops = 200 }"), Some(200)),
    ] {
        let file = parse("", &format!("[tenant.a]\n{setting}"), &rules).expect("a good setting");
        let (answer, answered) = channel();
        let (tenant, settings) = (Some("a".to_owned()), file.tenants[0].settings.clone());
        let is_part = setting.starts_with("limit.");
        lab.send
            .send(Message::Set { tenant, settings, is_part, answer })
            .expect("the device is there");
        assert_eq!(told(&mut lab).as_deref(), limit, "{setting}");
        assert_eq!(answered.try_recv().expect("an answer"), Ok(Vec::new()));
        let got = rate(&mut lab);
        match expected {
            Some(expected) => assert!(
                got.abs_diff(expected) <= 3 + expected / 100,
                "{setting}: {got} I/Os a second"
            ),
            None => assert!(got > 10_000, "{setting}: {got} I/Os a second"),
        }
    }
}

/// Each interval has what I/O waited for in it, also I/O that a limit holds for ten of them.
#[test]
fn a_view_tells_a_wait_of_ten_seconds_while_it_lasts() {
    let disk = "slots:slots=2,latency=100ms,bandwidth=2GB/s,size=1GiB,queue_depth=64";
    let mut lab = Lab::new(disk, &[], "none", "[tenant.a]\nlimit = { bps = 400 }\n[tenant.b]\n");
    lab.add("a", writes(2));
    lab.add("b", writes(1));
    lab.run(Nanos::from_secs(1));
    let mut before = lab.device.view();
    for second in 1..30 {
        lab.run(Nanos::from_secs(1));
        let now = lab.device.view();
        let span = now.at.since(before.at).get() as f64;
        for (tenant, in_flight) in [("a", 2.0), ("b", 1.0)] {
            let explained = now.explain(&before, tenant).expect("a tenant");
            let of = |cause: &serde_json::Value| cause["ns"].as_f64().expect("a number");
            let sum: f64 = explained["causes"].as_array().expect("a list").iter().map(of).sum();
            assert!(
                (sum / span - in_flight).abs() < 0.001,
                "second {second} of {tenant}: {explained}"
            );
        }
        before = now;
    }
}
