//! Tests error injection.

use super::*;

fn with_rules(commands: &str) -> StackConfig {
    let mut config = config(Kernel::V7_3);
    config.set("error_injection", commands).expect("a rule");
    config
}

/// Submits one call, and returns its status and what was recorded of it.
fn ended(config: &StackConfig, op: Op, sector: u64, sectors: u64) -> (Status, Vec<String>) {
    let mut rig = Rig::new(config.clone());
    rig.submit(op, Flags::NONE, sector, sectors);
    rig.complete_all();
    let events = rig.events();
    let [(_, status)] = rig.done()[..] else { panic!("one call ends once") };
    (status, events)
}

#[test]
fn a_bio_in_the_range_of_a_rule_ends_before_it_is_queued() {
    let mut config = with_rules("add,op=WRITE,status=MEDIUM,start=100,nr_sectors=8");
    for (sector, status) in
        [(92, Status::Ok), (96, Status::Medium), (107, Status::Medium), (108, Status::Ok)]
    {
        let (ended, events) = ended(&config, Op::Write, sector, 8);
        assert_eq!((ended, events.is_empty()), (status, !status.is_ok()), "{sector}: {events:?}");
        assert!(status.is_ok() == events.iter().any(|event| event.starts_with('Q')));
    }
    assert_eq!(ended(&config, Op::Read, 100, 8).0, Status::Ok);
    // The newest rule goes first, and reaches to the end of the device.
    config.set("error_injection", "add,op=WRITE,status=TIMEOUT,start=100").expect("a rule");
    assert_eq!(ended(&config, Op::Write, 96, 8).0, Status::Timeout);
    assert_eq!(ended(&config, Op::Write, 1 << 20, 8).0, Status::Timeout);
    assert_eq!(ended(&config, Op::Flush, 0, 0).0, Status::Ok);
    config.set("error_injection", "removeall").expect("no rule");
    assert_eq!(ended(&config, Op::Write, 96, 8).0, Status::Ok);
}

/// A bio is tested whole, and what is left of it after a split again.
#[test]
fn the_rest_of_a_split_is_tested_again() {
    let mut config = with_rules("add,op=READ,status=IOERR,start=0");
    config.limits.max_user_sectors = Sectors::new(64);
    assert_eq!(
        ended(&config, Op::Read, 0, 128),
        (Status::IoError, Vec::new()),
        "one bio, one test"
    );
    let mut seen = [false; 2];
    for skipped in 1..40 {
        // With a chance, the front may pass and the rest fail.
        let mut config = with_rules("add,op=READ,status=IOERR,chance=3");
        config.limits.max_user_sectors = Sectors::new(64);
        let mut rig = Rig::new(config);
        for _ in 0..skipped {
            rig.submit(Op::Read, Flags::NONE, 0, 128);
            rig.complete_all();
        }
        let issued = rig.stack.counters().splits;
        let failed = rig.done().iter().filter(|(_, status)| !status.is_ok()).count();
        seen[0] |= issued > 0;
        seen[1] |= failed > 0 && failed < skipped;
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn kernels_before_it_refuse_it() {
    let error = config(Kernel::V7_1).set("error_injection", "removeall").expect_err("no such file");
    assert!(error.to_string().contains("--kernel 7.2 or later"), "{error}");
}
