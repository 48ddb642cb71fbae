//! The targets of the fuzzer: a check, and words that its inputs are made of.
//!
//! What must hold is in `fuzz/checks/`. Other tests run the corpora of the same names through the
//! same checks.

#[path = "../../../fuzz/checks/analysis.rs"]
mod analysis;
#[path = "../../../fuzz/checks/buffers.rs"]
mod buffers;
#[path = "../../../fuzz/checks/cgroup.rs"]
mod cgroup;
#[path = "../../../fuzz/checks/device.rs"]
mod device;
#[path = "../../../fuzz/checks/fault.rs"]
mod fault;
#[path = "../../../fuzz/checks/job.rs"]
mod job;
#[path = "../../../fuzz/checks/nbd.rs"]
mod nbd;
#[path = "../../../fuzz/checks/recorded.rs"]
mod recorded;
#[path = "../../../fuzz/checks/scheduler.rs"]
mod scheduler;
#[path = "../../../fuzz/checks/serve.rs"]
mod serve;
#[path = "../../../fuzz/checks/setting.rs"]
mod setting;
#[path = "../../../fuzz/checks/sweep.rs"]
mod sweep;
#[path = "../../../fuzz/checks/tenants.rs"]
mod tenants;
#[path = "../../../fuzz/checks/trace.rs"]
mod trace;
#[path = "../../../fuzz/checks/vhost.rs"]
mod vhost;
#[path = "../../../fuzz/checks/vhost_ring.rs"]
mod vhost_ring;

use std::path::PathBuf;

/// What is fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Panics if a property does not hold for the bytes.
    pub check: fn(&[u8]),
    /// Words that may be put into an input, besides those of the corpus.
    pub words: &'static [&'static str],
}

impl Target {
    /// Returns the folder of the corpus.
    pub fn corpus(&self) -> PathBuf {
        crate::fuzz::root().join("fuzz/corpus").join(self.name)
    }
}

const fn target(name: &'static str, check: fn(&[u8]), words: &'static [&'static str]) -> Target {
    Target { name, check, words }
}

/// Words of files in TOML.
const TOML: &[&str] =
    &["[", "]]", "\"", "\"\"\"", " = ", "true", "nan", "{ ", "\n[", "'", "\\u0000", "1e999", "#"];
/// Words of lists of keys and values.
const PAIRS: &[&str] = &[",", "=", ":", "us", "ms", "KiB", "GiB", "%", "..", "max", "-"];
/// Words of traces in text.
const TRACE: &[&str] = &[
    " + ",
    "\n",
    "block_rq_issue: ",
    "block_rq_complete: ",
    "[000]",
    "8,0",
    " R ",
    "FWFS",
    "(",
    ")",
    "[",
    "<idle>-0",
];

/// Every target, in the order of the alphabet.
pub const TARGETS: &[Target] = &[
    target(
        "address",
        elevon_serve::fuzzing::address,
        &["nbd://", "nbds+unix:///", "?socket=", "&tls-hostname=", "[::1]", "%41"],
    ),
    target("analysis", analysis::analysis, TRACE),
    target("blkparse", trace::blkparse, TRACE),
    target("blktrace", trace::blktrace, &["\x07\u{74}ae", "\0\0\0\0"]),
    target("buffers", buffers::buffers, PAIRS),
    target(
        "cgroup",
        cgroup::cgroup,
        &["io.max ", "io.weight ", "rbps=", "8:0 ", "default ", "max", "io.cost.qos "],
    ),
    target(
        "command",
        elevon_serve::fuzzing::command,
        &["\"command\":", "\"set\"", "\"setting\":\"", "{\"", "}\n", "null", "\\u0000"],
    ),
    target("cpu_cost", elevon_plan::fuzzing::cpu_cost, PAIRS),
    target("csv", trace::csv, &[",", "\n", "\"", "Read", "0x", "1e9"]),
    target("device", device::device, PAIRS),
    target("fault", fault::fault, PAIRS),
    target("ftrace", trace::ftrace, TRACE),
    target(
        "http",
        elevon_serve::fuzzing::http,
        &["GET ", "HEAD ", " HTTP/1.1\r\n", "\r\n\r\n", "/api/explain?tenant=", "&over_ms=", "%2f"],
    ),
    target(
        "iolog",
        trace::iolog,
        &[" read ", " write ", " add\n", " wait ", "fio version 2 iolog\n", " trim "],
    ),
    target(
        "job",
        job::job,
        &[
            "[",
            "]\n",
            "=",
            "include inc.fio\n",
            "${V}",
            "$ncpus",
            "*",
            "(",
            "rw=randrw",
            "bs=",
            "\n",
            ":",
            "%",
        ],
    ),
    target("mail", trace::mail, &["> ", "=\n", "=3D", "\n>> ", "block_rq_issue: "]),
    target("memory", elevon_plan::fuzzing::memory, PAIRS),
    target("nbd", nbd::nbd, &["IHAVEOPT", "NBDMAGIC", "\0\0\0\0", "base:allocation", "disk"]),
    target("oracle", trace::oracle, &["\0\0\0\0"]),
    target(
        "page",
        trace::page,
        &["<script class=\"trace-data\">", "</script>", "TRACE:\n", "eJw", "<", "&lt;"],
    ),
    target("perfetto", trace::perfetto, &["\n", "\x08", "\x12", "\u{7f}"]),
    target(
        "recorded",
        recorded::recorded,
        &["queue/scheduler:", "[", "]", "mq/0/nr_tags:", "dev:", "\n", ":", "# "],
    ),
    target(
        "rows",
        trace::rows,
        &[",", "\t", " ", "TIME(s)", "LAT(ms)", "DiskRead", "block_rq_issue: { ", "0x"],
    ),
    target("scheduler", scheduler::scheduler, PAIRS),
    target("serve", serve::serve, TOML),
    target("setting", setting::setting, &["\n", "=", "max_sectors_kb", "nr_requests", "k", "none"]),
    target("sweep", sweep::sweep, TOML),
    target("tenants", tenants::tenants, TOML),
    target("vhost", vhost::vhost, &["\u{1}\0\0\0", "\u{9}\0\0\0", "\u{8}\0\0\0"]),
    target("vhost_ring", vhost_ring::vhost_ring, &["\u{1}\0", "\u{4}\0", "\u{10}\0\0\0"]),
    target(
        "vs",
        elevon_plan::fuzzing::vs,
        &["--set ", "--scheduler ", "--device ", "'", "\"", "\\", "="],
    ),
];

/// Returns the target of a name.
pub fn of_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_corpus_has_a_target_and_every_target_a_corpus() {
        let folders =
            std::fs::read_dir(crate::fuzz::root().join("fuzz/corpus")).expect("the corpora");
        let names = folders
            .map(|folder| folder.expect("a folder").file_name().into_string().expect("a name"));
        let targets: Vec<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
        assert!(targets.is_sorted());
        assert_eq!(names.collect::<BTreeSet<_>>(), targets.into_iter().collect());
    }
}
