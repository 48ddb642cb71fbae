//! Tests of settings.

use super::*;

fn config() -> StackConfig {
    let mut config = StackConfig::new(QueueLimits::default(), Sectors::new(1 << 21), 1, MAX_DEPTH);
    config.limits.validate(&config.kernel.rules()).expect("valid limits");
    config
}

#[test]
fn every_queue_limit_takes_its_own_value() {
    for limit in SYSFS.iter().filter(|limit| limit.is_settable()) {
        let value = config().limits.read(limit.name).expect("a limit").to_string();
        assert_eq!(config().set(limit.name, &value), Ok(()), "{}={value}", limit.name);
    }
}

#[test]
fn few_requests_are_four_as_in_linux() {
    for (text, expected) in [("0", 4), ("3", 4), ("4", 4), ("5", 5)] {
        let mut config = config();
        config.set("nr_requests", text).expect("a setting");
        assert_eq!(config.nr_requests(), expected, "{text}");
    }
}

#[test]
fn a_report_has_every_row_once_its_value_is_not_the_default() {
    for row in SETTINGS.iter().filter(|row| !matches!(row.reported, Reported::WithDevice)) {
        let mut config = config();
        // `async_depth` needs both.
        config.kernel = crate::kernel::Kernel::V7_3;
        config.scheduler = SchedulerConfig::parse("bfq").expect("a scheduler");
        let is_reported = |config: &StackConfig| {
            config.reported().chain(config.changed()).any(|(key, _)| key == row.key)
        };
        let values = [
            "1",
            "0",
            "200",
            "exact",
            "fixed",
            "iomap",
            "blkdev",
            "trim",
            "add,op=READ,status=IOERR",
        ];
        let mut is_changed = |text: &&str| {
            let before = row.text(&config);
            row.set(&mut config, text).is_ok() && row.text(&config) != before
        };
        assert!(
            values.iter().any(&mut is_changed),
            "{}: no value here is not the default",
            row.key
        );
        assert!(is_reported(&config), "{}", row.key);
    }
}

#[test]
fn what_is_refused_says_why() {
    for (key, value, error) in [
        ("hz", "50", "hz=50: expected a whole number from 100 to 1000 (ticks/s)"),
        ("iostats", "yes", "iostats=yes: expected 0 or 1"),
        ("fill", "half", "fill=half: expected full, folio, max-sectors, trim or trim-256k"),
        ("max_sectors_kb", "512k", "max_sectors_kb=512k: expected a whole number (KiB)"),
        (
            "rq_affinity",
            "2",
            "rq_affinity: not modelled: a completion costs the same on every CPU here",
        ),
        (
            "async_depth",
            "9",
            "async_depth=9: expected a kernel from 7.0 on; before, mq-deadline has a tunable of that name",
        ),
        ("fil", "full", "fil: no such setting"),
        ("zoned", "host-managed", "zoned: cannot be set: no device here has zones"),
        ("write_cache", "on", "write_cache=on: expected 0 or 1, write through, write back or none"),
    ] {
        let mut config = StackConfig { kernel: crate::kernel::Kernel::V6_18, ..config() };
        assert_eq!(config.set(key, value).expect_err(key).to_string(), error);
    }
    for (scheduler, is_taken) in
        [("none", true), ("aileron", true), ("bfq", false), ("mq-deadline", false)]
    {
        let scheduler = SchedulerConfig::parse(scheduler).expect("a scheduler");
        let mut config = StackConfig { scheduler, ..config() };
        let error = "nr_requests=2049: expected at most 2048: Linux refuses more with a scheduler";
        let taken = config.set("nr_requests", "2049").map_err(|error| error.to_string());
        assert_eq!(taken, if is_taken { Ok(()) } else { Err(error.to_string()) });
        assert_eq!(config.set("nr_requests", "2048"), Ok(()));
    }
    let mut config = StackConfig { kernel: crate::kernel::Kernel::V6_6, ..config() };
    let atomic = ("atomic_write_max_bytes", "4k");
    let error = config.set(atomic.0, atomic.1).expect_err("6.6 has none").to_string();
    assert!(
        error.ends_with(
            "expected --kernel 6.12 or a later one: Linux has atomic writes from 6.11 on"
        ),
        "{error}"
    );
    config.kernel = crate::kernel::Kernel::V6_12;
    assert_eq!(config.set(atomic.0, atomic.1), Ok(()));
    assert_eq!(
        (config.set("write_cache", "write back"), config.limits.write_cache),
        (Ok(()), true)
    );
    assert_eq!(
        (config.set("write_cache", "write through"), config.limits.write_cache),
        (Ok(()), false)
    );
}
