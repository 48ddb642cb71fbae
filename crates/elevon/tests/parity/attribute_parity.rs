//! Holds what `--set` and `--scheduler` take, clamp and refuse to what Linux 6.18 does when the
//! same is written to the queue attributes and tunables of a loop device without discard (HZ 250).

use std::fs;

use elevon_cache::page_cache::CacheConfig;
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::sched::SchedulerConfig;
use elevon_core::setting;
use elevon_core::stack::{Stack, StackConfig, config};
use elevon_core::units::{Bytes, Sectors, TaskId};

use crate::common::kernel_truth;

/// What differs on purpose or is not modelled, by the beginning of the line, and why.
const DIFFERENT: [(&str, &str); 15] = [
    ("nomerges <- '':", "an empty value is a mistake of the command line"),
    ("nr_requests <- '129'", "clamped to the depth, which the same command line may change"),
    ("nr_requests <- '10", "clamped to the depth: 1000 and 10240"),
    ("nr_requests <- '20", "clamped to the depth: 2048 and 2049"),
    ("rq_affinity", "not modelled"),
    ("add_random", "not modelled"),
    ("stable_writes", "not modelled"),
    ("io_poll", "not modelled"),
    ("fua", "the same command line configures the device"),
    ("discard_max_bytes", "the same command line may give the device discard"),
    ("scheduler", "an option of its own"),
    ("write_cache <- '", "0 and 1 are taken, too; the words have a test below"),
    ("mq-deadline:read_expire <- '2147483", "the kernel shows a negative number for the largest"),
    ("mq-deadline:read_expire <- '99999999999'", "what it shows is left of the one before"),
    ("bfq:slice_idle <- '2147483648'", "the kernel keeps 32 bits of microseconds"),
];

/// What the records are compared with.
struct Ours {
    stack: StackConfig,
    cache: CacheConfig,
    running: Option<Stack>,
}

impl Ours {
    fn new() -> Self {
        let mut limits =
            QueueLimits { max_hw_sectors: Sectors::new(2560), ..QueueLimits::default() };
        limits.validate(&Kernel::V6_18.rules()).expect("valid limits");
        let stack = StackConfig {
            kernel: Kernel::V6_18,
            ..StackConfig::new(limits, Sectors::new(1 << 21), 1, 128)
        };
        Self { stack, cache: CacheConfig::new(Bytes::new(1 << 30), TaskId(0)), running: None }
    }

    /// Writes an attribute. Returns true if the value was taken, and what is shown then.
    fn write(&mut self, key: &str, value: &str) -> (bool, String) {
        if key == "read_ahead_kb" {
            let is_taken = self.cache.set(key, value).is_ok();
            return (is_taken, (u64::from(self.cache.ra_pages) * 4).to_string());
        }
        let is_taken = self.stack.set(key, value).is_ok();
        let row = setting::find(config::SETTINGS, key).map(|row| row.text(&self.stack));
        (is_taken, row.unwrap_or_else(|| self.stack.limits.read(key).expect("a limit").to_string()))
    }

    /// Writes a tunable of a scheduler, which is the running one until another is named.
    fn write_tunable(&mut self, scheduler: &str, name: &str, value: &str) -> (bool, String) {
        if self.running.as_ref().is_none_or(|stack| stack.scheduler().info().name != scheduler) {
            let scheduler = SchedulerConfig::new(scheduler).expect("a scheduler");
            let nr_requests = None;
            self.running = Some(
                Stack::new(StackConfig { scheduler, nr_requests, ..self.stack.clone() })
                    .expect("a stack"),
            );
        }
        let stack = self.running.as_mut().expect("a stack");
        let is_taken =
            value.parse::<i64>().is_ok_and(|value| stack.set_tunable(name, value).is_ok());
        let shown = stack.scheduler().tunables_shown(&Kernel::V6_18.rules());
        (is_taken, shown.into_iter().find(|(of, _)| *of == name).expect("the scheduler has it").1)
    }
}

#[test]
fn attributes_and_tunables_take_what_linux_takes() {
    let text = fs::read_to_string(kernel_truth("attributes-6.18.txt")).expect("the record");
    let (mut ours, mut differ, mut compared) = (Ours::new(), Vec::new(), 0);
    for line in
        text.lines().filter(|line| !DIFFERENT.iter().any(|(start, _)| line.starts_with(start)))
    {
        let Some((key, rest)) = line.split_once(" <- '") else { continue };
        let (value, rest) = rest.split_once("': ").expect("a value");
        let (result, shown) = rest.split_once(" -> ").expect("what is shown then");
        let (is_taken, now) = match key.split_once(':') {
            Some((scheduler, name)) => ours.write_tunable(scheduler, name, value),
            None => ours.write(key, value),
        };
        if (is_taken, now.as_str()) != (result == "ok", shown) {
            differ.push(format!("{line}; here {is_taken}, {now}"));
        }
        compared += 1;
    }
    assert_eq!(differ, [""; 0]);
    assert!(compared >= 100, "{compared} lines were compared");
    // Every exception is of a line.
    for (start, _) in DIFFERENT {
        assert!(text.lines().any(|line| line.starts_with(start)), "no line begins with {start:?}");
    }
}

#[test]
fn write_cache_takes_the_words_of_sysfs() {
    let mut ours = Ours::new();
    let written = ["write back", "none", "write back", "write through", "write"]
        .map(|value| ours.write("write_cache", value));
    let shown = [(true, "1"), (true, "0"), (true, "1"), (true, "0"), (false, "0")];
    assert_eq!(written, shown.map(|(is_taken, text)| (is_taken, text.to_owned())));
}

/// What Linux 7.3.4 does with values written to `queue/async_depth` of null_blk (128 requests with
/// a scheduler).
#[test]
fn async_depth_is_held_to_the_requests() {
    for scheduler in ["mq-deadline", "kyber", "bfq"] {
        let mut ours = Ours::new();
        ours.stack.kernel = Kernel::V7_3;
        ours.stack.nr_requests = Some(128);
        ours.stack.scheduler = SchedulerConfig::new(scheduler).expect("a scheduler");
        for (value, is_taken, shown) in [
            ("0", false, if scheduler == "mq-deadline" { "128" } else { "96" }),
            ("1", true, "1"),
            ("100", true, "100"),
            ("129", true, "128"),
            ("100000", true, "128"),
            ("4294967295", true, "128"),
            ("4294967296", false, "128"),
            ("abc", false, "128"),
        ] {
            assert_eq!(
                ours.write("async_depth", value),
                (is_taken, shown.to_owned()),
                "{scheduler}: {value}"
            );
        }
    }
}
