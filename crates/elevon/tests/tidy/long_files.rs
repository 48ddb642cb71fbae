//! The length of files: none above [`LONGEST_FILE`], and a reason for each above [`LONG_FILE`].

use crate::sources;

/// Maximum lines of a file, without exceptions; split a longer one by concept.
const LONGEST_FILE: usize = 800;
/// A file with more lines needs a reason.
const LONG_FILE: usize = 600;

/// One struct whose steps read and change the same fields.
const ONE_MACHINE: &str = "one state machine: its steps share the fields of one struct";
/// Rows of a table, and the code that looks them up.
const ONE_TABLE: &str = "one table, and its look-up";
/// Tests of one part, with the bed that they share.
const ONE_BED: &str = "tests of one part on one bed";

/// Files above [`LONG_FILE`] lines, with the reason. An entry must be removed when its file is
/// short enough.
const LONG_FILES: &[(&str, &str)] = &[
    ("elevon-cache/src/file_io.rs", ONE_MACHINE),
    ("elevon-cache/src/file_io/tests.rs", ONE_BED),
    ("elevon-cache/src/page_cache.rs", ONE_MACHINE),
    ("elevon-cache/src/pages.rs", ONE_MACHINE),
    ("elevon-cache/src/pages/tree.rs", "one data structure: a radix tree with its tags"),
    ("elevon-core/src/control.rs", "the stages of all tenants in the order of a bio"),
    ("elevon-core/src/control/exact.rs", ONE_MACHINE),
    ("elevon-core/src/control/io_cost.rs", ONE_MACHINE),
    ("elevon-core/src/control/io_cost/tests.rs", ONE_BED),
    ("elevon-core/src/control/io_max.rs", ONE_MACHINE),
    ("elevon-core/src/control/io_throttle.rs", ONE_MACHINE),
    ("elevon-core/src/kernel/rows.rs", ONE_TABLE),
    ("elevon-core/src/sched/bfq/tests.rs", ONE_BED),
    ("elevon-core/src/sched/bfq/wf2q.rs", "one algorithm, as its paper has it"),
    ("elevon-core/src/sched/mq_deadline.rs", ONE_MACHINE),
    ("elevon-core/src/sched/mq_deadline/tests.rs", ONE_BED),
    ("elevon-core/src/stack.rs", "the fields of the stack, and what its callers call"),
    ("elevon-core/src/stack/config.rs", ONE_TABLE),
    ("elevon-core/src/stack/dispatch.rs", "one stage of the path of a bio"),
    ("elevon-core/src/stack/submit.rs", "one stage of the path of a bio"),
    ("elevon-core/src/stack/tests.rs", ONE_BED),
    ("elevon-formats/src/fio/parse.rs", "one pass over a job file, with the conflicts it finds"),
    ("elevon-formats/src/serve.rs", "one file format: its values, and the pass that reads them"),
    ("elevon-host/src/file.rs", "opening a file: each step has its error"),
    ("elevon-host/src/uring.rs", ONE_MACHINE),
    ("elevon-nbd/src/session/tests.rs", ONE_BED),
    ("elevon-plan/src/failure/input.rs", ONE_TABLE),
    ("elevon-plan/src/plan.rs", "one pass over the arguments, in the order of its checks"),
    ("elevon-result/src/result.rs", "plain values: one struct a part of a report"),
    ("elevon-serve/src/device.rs", "one loop, and the handlers of its events"),
    ("elevon-sim/src/device/fault.rs", ONE_MACHINE),
    ("elevon-sim/src/device/slots.rs", ONE_MACHINE),
    ("elevon-swarm/src/shadow.rs", ONE_MACHINE),
    ("elevon-sweep/src/tune.rs", ONE_MACHINE),
    ("elevon-trace/src/analysis.rs", "one pass over the events of a trace"),
    ("elevon-trace/src/analysis/collect.rs", "one handler an event"),
    ("elevon-trace/src/analysis/life.rs", ONE_MACHINE),
    ("elevon-trace/src/analysis/tests/lives.rs", ONE_BED),
    ("elevon-trace/src/read/ftrace/line.rs", "one grammar: the lines of ftrace"),
    ("elevon-trace/src/read/perfetto.rs", "one grammar: the packets of Perfetto"),
    ("elevon-whatif/src/replay.rs", "one run of a replay, from its trace to its report"),
    ("elevon-workload/src/pattern.rs", ONE_MACHINE),
    ("elevon-workload/src/process.rs", ONE_MACHINE),
    ("elevon-workload/src/process/schedule.rs", ONE_MACHINE),
    ("elevon-workload/src/process/tests.rs", ONE_BED),
    ("elevon-workload/src/region.rs", "arithmetic of places in files, by kind of file"),
    ("elevon-workload/src/replay.rs", ONE_MACHINE),
    ("elevon-workload/src/run.rs", "one loop, and the start and end of a run"),
    ("elevon-workload/tests/cached/main.rs", ONE_BED),
    ("elevon/src/args.rs", ONE_TABLE),
    ("elevon/src/serve/config.rs", "one pass over a configuration, in the order of its checks"),
    ("elevon/tests/jobs/bad_input.rs", ONE_BED),
    ("elevon/tests/jobs/sweep.rs", ONE_BED),
    ("elevon/tests/parity/event_parity.rs", ONE_BED),
    ("elevon/tests/serve/clients.rs", ONE_BED),
];

#[test]
fn files_are_short_enough_to_read_or_say_why_not() {
    let mut excepted: Vec<&str> = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        let place = path.display();
        assert!(lines <= LONGEST_FILE, "{place} has {lines} lines: cut it by concept");
        if lines > LONG_FILE {
            let entry = LONG_FILES.iter().find(|(file, _)| path.ends_with(file));
            let (file, _) = entry.unwrap_or_else(|| {
                panic!("{place} has {lines} lines: cut it, or say in LONG_FILES why not")
            });
            excepted.push(file);
        }
    }
    for (file, _) in LONG_FILES {
        assert!(excepted.contains(file), "{file} is short enough: take it from LONG_FILES");
    }
}
