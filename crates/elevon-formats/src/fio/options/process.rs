//! The processes of a job: CPUs, memory, identity.

use super::{COUNT, FLAG, OptionKind, OptionRow, TEXT, row};

const CPUS: &str = "a simulated process has a CPU of its own; on a real run use taskset";
const MEMORY: &str = "buffers are the run's own";
const COMMANDS: &str = "a job runs no commands of the host";

pub(super) const ROWS: &[OptionRow] = &[
    row("thread", FLAG, "", "", "threads in place of processes")
        .no_effect("either is a task to the block layer"),
    row(
        "nice",
        OptionKind::Int(-20, 19, |d, n| d.nice = n as i8),
        "",
        "0",
        "CPU niceness: the level of the job's I/O follows it if prio= and prioclass= are absent",
    ),
    row("cpumask", COUNT, "", "", "CPUs as a bit mask").no_effect(CPUS),
    row("cpus_allowed", TEXT, "", "", "CPUs as a list").no_effect(CPUS),
    row(
        "cpus_allowed_policy",
        OptionKind::Choice(&["shared", "split"], |_, _| ()),
        "",
        "shared",
        "who gets which",
    )
    .no_effect(CPUS),
    row("numa_cpu_nodes", TEXT, "", "", "nodes to run on").no_effect(CPUS),
    row("numa_mem_policy", TEXT, "", "", "nodes of the memory").no_effect(MEMORY),
    row("mem", TEXT, "", "malloc", "where buffers come from").alias(&["iomem"]).no_effect(MEMORY),
    row("iomem_align", COUNT, "bytes", "0", "alignment of buffers")
        .alias(&["mem_align"])
        .no_effect(MEMORY),
    row("hugepage-size", COUNT, "bytes", "2m", "size of a huge page").no_effect(MEMORY),
    row("lockmem", OptionKind::Int(0, super::ANY_64_BIT, |_, _| ()), "bytes", "0", "memory to pin")
        .no_effect(MEMORY),
    row("uid", COUNT, "", "", "user to run as").no_effect("the run keeps its own user"),
    row("gid", COUNT, "", "", "group to run as").no_effect("the run keeps its own group"),
    row("exec_prerun", TEXT, "", "", "command to run before").no_effect(COMMANDS),
    row("exec_postrun", TEXT, "", "", "command to run after").no_effect(COMMANDS),
    row("ioscheduler", TEXT, "", "", "scheduler of the device")
        .no_effect("give it on the command line: --scheduler"),
    row(
        "write_hint",
        OptionKind::Choice(super::super::grammar::WRITE_HINTS, super::super::grammar::write_hint),
        "",
        "none",
        "expected lifetime of what is written",
    ),
];
