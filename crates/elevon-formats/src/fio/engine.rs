//! fio's engines, by how a process waits for its I/O. The block layer sees no other difference
//! between them.

use super::spec::Engine;

/// How an engine behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The process sleeps for each I/O.
    Synchronous,
    /// Up to `iodepth` I/Os are in flight; if there is no free tag, the submitter sleeps.
    Blocking,
    /// Up to `iodepth` I/Os are in flight; if there is no free tag, a worker sleeps.
    Offloaded,
    /// Up to `iodepth` I/Os are in flight; each file has a thread that makes its I/Os one after
    /// another (POSIX AIO of glibc).
    FileThreads,
    /// The engine is not supported. The text says why, and what to use.
    Refused(&'static str),
}

/// One of fio's engines.
#[derive(Clone, Copy, Debug)]
pub struct EngineRow {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// What differs from fio in how the engine is run; empty if nothing does.
    pub note: &'static str,
}

const fn engine(name: &'static str, behaviour: Behaviour, note: &'static str) -> EngineRow {
    EngineRow { name, behaviour, note }
}

/// The end of a warning that does not apply to a run with a page cache.
pub(crate) const WITHOUT_CACHE: &str =
    "without a page cache (--memory; before a real device --cache)";
const NO_MAPPING: &str =
    "runs as psync without a page cache (--memory; before a real device --cache)";

const NETWORK: Behaviour =
    Behaviour::Refused("it does network I/O, no block I/O; use io_uring on a device");
const OBJECTS: Behaviour =
    Behaviour::Refused("it talks to a storage service, not to a block device; use io_uring");
const FILES: Behaviour =
    Behaviour::Refused("it works on files as such and moves no blocks; use psync");
const PMEM: Behaviour =
    Behaviour::Refused("persistent memory is not reached through the block layer; use psync");
const LIBRARY: Behaviour = Behaviour::Refused("it needs its vendor's library; use io_uring");

/// Every engine that fio documents.
pub const ENGINES: &[EngineRow] = &[
    engine("psync", Behaviour::Synchronous, ""),
    engine("sync", Behaviour::Synchronous, ""),
    engine("vsync", Behaviour::Synchronous, "adjacent I/Os are not coalesced before submission"),
    engine("pvsync", Behaviour::Synchronous, ""),
    engine("pvsync2", Behaviour::Synchronous, ""),
    engine("mmap", Behaviour::Synchronous, NO_MAPPING),
    engine("splice", Behaviour::Synchronous, "runs as psync"),
    engine("sg", Behaviour::Synchronous, "runs as psync: commands go through the block layer"),
    engine("libaio", Behaviour::Blocking, ""),
    engine("io_uring", Behaviour::Offloaded, ""),
    engine(
        "io_uring_cmd",
        Behaviour::Offloaded,
        "runs as io_uring: passthrough would bypass the scheduler",
    ),
    engine("posixaio", Behaviour::FileThreads, ""),
    engine("solarisaio", Behaviour::FileThreads, "runs as posixaio"),
    engine("windowsaio", Behaviour::FileThreads, "runs as posixaio"),
    engine(
        "null",
        Behaviour::Offloaded,
        "runs as io_uring on the device; use --device null for one that does nothing",
    ),
    engine("net", NETWORK, ""),
    engine("netsplice", NETWORK, ""),
    engine("rdma", NETWORK, ""),
    engine("librpma_apm_client", NETWORK, ""),
    engine("librpma_apm_server", NETWORK, ""),
    engine("librpma_gpspm_client", NETWORK, ""),
    engine("librpma_gpspm_server", NETWORK, ""),
    engine(
        "cpuio",
        Behaviour::Refused("it burns CPU and does no I/O; use thinktime_spin= in a job"),
        "",
    ),
    engine("exec", Behaviour::Refused("it runs a program; run it beside the job"), ""),
    engine("ftruncate", FILES, ""),
    engine("filecreate", FILES, ""),
    engine("filestat", FILES, ""),
    engine("filedelete", FILES, ""),
    engine("dircreate", FILES, ""),
    engine("dirstat", FILES, ""),
    engine("dirdelete", FILES, ""),
    engine("falloc", FILES, ""),
    engine("e4defrag", FILES, ""),
    engine(
        "mtd",
        Behaviour::Refused("memory technology devices are no block devices; use psync"),
        "",
    ),
    engine("libzbc", Behaviour::Refused("zoned devices are not supported; use io_uring"), ""),
    engine("pmemblk", PMEM, ""),
    engine("dev-dax", PMEM, ""),
    engine("libpmem", PMEM, ""),
    engine("rados", OBJECTS, ""),
    engine("rbd", OBJECTS, ""),
    engine("http", OBJECTS, ""),
    engine("gfapi", OBJECTS, ""),
    engine("gfapi_async", OBJECTS, ""),
    engine("libhdfs", OBJECTS, ""),
    engine("nbd", OBJECTS, ""),
    engine("libiscsi", OBJECTS, ""),
    engine("dfs", OBJECTS, ""),
    engine("nfs", OBJECTS, ""),
    engine("ime_psync", LIBRARY, ""),
    engine("ime_psyncv", LIBRARY, ""),
    engine("ime_aio", LIBRARY, ""),
    engine("libcufile", LIBRARY, ""),
    engine("xnvme", LIBRARY, ""),
    engine("libblkio", LIBRARY, ""),
    engine("external", Behaviour::Refused("code of others is not loaded; use io_uring"), ""),
];

/// Returns the row of an engine; `external:PATH` is `external`.
pub fn find_engine(name: &str) -> Option<&'static EngineRow> {
    let name = if name.starts_with("external:") { "external" } else { name };
    ENGINES.iter().find(|row| row.name == name)
}

impl EngineRow {
    /// Returns the engine as a job has it.
    pub fn engine(&self) -> Engine {
        let (asynchronous, submission_blocks) = match self.behaviour {
            Behaviour::Synchronous | Behaviour::Refused(_) => (false, true),
            Behaviour::Blocking => (true, true),
            Behaviour::Offloaded | Behaviour::FileThreads => (true, false),
        };
        Engine { name: self.name.to_owned(), asynchronous, submission_blocks }
    }
}
