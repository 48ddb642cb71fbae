//! Options of some engines only.

use super::{ANY, BOOL, COUNT, FLAG, OptionKind, OptionRow, TEXT, row};

const COST: &str = "how an engine talks to the kernel changes its CPU cost only";
const POLL: &str = "completions arrive without an interrupt's cost either way";
const NOWAIT: &str = "a submission waits for its tag, as without it";
const FUA: &str = "use sync=dsync for durable writes";
const SCSI: &str = "writes are plain writes";
const NET: &str = "its engine is not supported";

pub(super) const ROWS: &[OptionRow] = &[
    row("fixedbufs", FLAG, "", "", "register buffers")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("registerfiles", FLAG, "", "", "register files")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row(
        "nonvectored",
        OptionKind::Int(-1, ANY, |_, _| ()),
        "",
        "-1",
        "single buffers, not vectors",
    )
    .no_effect(COST)
    .of(&["io_uring", "io_uring_cmd"]),
    row("force_async", COUNT, "I/Os", "0", "send every Nth to a worker")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row(
        "cmd_type",
        OptionKind::Choice(&["nvme"], |_, _| ()),
        "",
        "nvme",
        "kind of passthrough command",
    )
    .no_effect(COST)
    .of(&["io_uring", "io_uring_cmd"]),
    row("md_per_io_size", COUNT, "bytes", "0", "metadata of an I/O")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("pi_act", COUNT, "", "1", "protection information by the device")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("pi_chk", TEXT, "", "", "what protection checks")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("apptag", COUNT, "", "0", "application tag")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("apptag_mask", COUNT, "", "0", "its mask")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("deallocate", COUNT, "", "0", "deallocate with write zeroes")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("write_mode", TEXT, "", "write", "NVMe command of a write")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("verify_mode", TEXT, "", "read", "NVMe command of a check")
        .no_effect(COST)
        .of(&["io_uring", "io_uring_cmd"]),
    row("sqthread_poll", FLAG, "", "", "a kernel thread submits").no_effect(COST).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    row("sqthread_poll_cpu", COUNT, "", "", "its CPU").no_effect(COST).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    row("hipri", FLAG, "", "", "poll for completions").no_effect(POLL).of(&[
        "pvsync2",
        "io_uring",
        "io_uring_cmd",
        "sg",
        "xnvme",
        "libblkio",
    ]),
    row("hipri_percentage", OptionKind::Int(0, 100, |_, _| ()), "%", "100", "share that polls")
        .no_effect(POLL)
        .of(&["pvsync2"]),
    row("nowait", BOOL, "", "0", "fail rather than wait for a tag").no_effect(NOWAIT).of(&[
        "pvsync2",
        "libaio",
        "io_uring",
        "io_uring_cmd",
    ]),
    row("userspace_reap", FLAG, "", "", "reap in user space").no_effect(COST).of(&["libaio"]),
    row("libaio_vectored", BOOL, "", "0", "vectors in place of single buffers")
        .no_effect(COST)
        .of(&["libaio"]),
    row("readfua", BOOL, "", "0", "FUA on reads").no_effect(FUA).of(&["sg", "io_uring_cmd"]),
    row("writefua", BOOL, "", "0", "FUA on writes").no_effect(FUA).of(&["sg", "io_uring_cmd"]),
    row("sg_write_mode", TEXT, "", "write", "SCSI command of a write").no_effect(SCSI).of(&["sg"]),
    row("stream_id", COUNT, "", "0", "stream of writes").no_effect(SCSI).of(&["sg"]),
    row("cpuload", COUNT, "%", "", "share of a CPU").no_effect(NET).of(&["cpuio"]),
    row("cpuchunks", COUNT, "us", "50000", "length of a burst").no_effect(NET).of(&["cpuio"]),
    row("cpumode", OptionKind::Choice(&["noop", "qsort"], |_, _| ()), "", "noop", "what it burns")
        .no_effect(NET)
        .of(&["cpuio"]),
    row("exit_on_io_done", BOOL, "", "0", "end with the others").no_effect(NET).of(&["cpuio"]),
    row("hostname", TEXT, "", "", "host").no_effect(NET).of(&[
        "net",
        "netsplice",
        "rdma",
        "libhdfs",
        "librpma_apm_client",
        "librpma_apm_server",
        "librpma_gpspm_client",
        "librpma_gpspm_server",
    ]),
    row("port", OptionKind::Int(1, 65535, |_, _| ()), "", "", "port").no_effect(NET).of(&[
        "net",
        "netsplice",
        "rdma",
        "libhdfs",
        "librpma_apm_client",
        "librpma_apm_server",
        "librpma_gpspm_client",
        "librpma_gpspm_server",
    ]),
    row(
        "protocol",
        OptionKind::Choice(&["tcp", "tcpv6", "udp", "udpv6", "unix", "vsock"], |_, _| ()),
        "",
        "tcp",
        "protocol",
    )
    .alias(&["proto"])
    .no_effect(NET)
    .of(&["net", "netsplice"]),
    row("nodelay", BOOL, "", "0", "no Nagle").no_effect(NET).of(&["net", "netsplice"]),
    row("listen", FLAG, "", "", "be the server").no_effect(NET).of(&["net", "netsplice"]),
    row("pingpong", FLAG, "", "", "answer each I/O").no_effect(NET).of(&["net", "netsplice"]),
    row("interface", TEXT, "", "", "interface of multicast")
        .no_effect(NET)
        .of(&["net", "netsplice"]),
    row("ttl", COUNT, "", "1", "time to live").no_effect(NET).of(&["net", "netsplice"]),
    row("window_size", COUNT, "bytes", "", "socket window")
        .no_effect(NET)
        .of(&["net", "netsplice"]),
    row("mss", COUNT, "bytes", "", "segment size").no_effect(NET).of(&["net", "netsplice"]),
    row("bindname", TEXT, "", "", "address to bind").no_effect(NET).of(&["rdma"]),
    row(
        "verb",
        OptionKind::Choice(&["write", "read", "send", "recv"], |_, _| ()),
        "",
        "write",
        "verb",
    )
    .no_effect(NET)
    .of(&["rdma"]),
    row("serverip", TEXT, "", "", "server").no_effect(NET).of(&[
        "librpma_apm_client",
        "librpma_apm_server",
        "librpma_gpspm_client",
        "librpma_gpspm_server",
    ]),
    row("direct_write_to_pmem", BOOL, "", "0", "write to persistent memory").no_effect(NET).of(&[
        "librpma_apm_client",
        "librpma_apm_server",
        "librpma_gpspm_client",
        "librpma_gpspm_server",
    ]),
    row("busy_wait_polling", BOOL, "", "1", "poll").no_effect(NET).of(&[
        "librpma_apm_client",
        "librpma_apm_server",
        "librpma_gpspm_client",
        "librpma_gpspm_server",
    ]),
    row(
        "stat_type",
        OptionKind::Choice(&["stat", "lstat", "statx"], |_, _| ()),
        "",
        "stat",
        "call",
    )
    .no_effect(NET)
    .of(&["filestat", "dirstat"]),
    row("program", TEXT, "", "", "program").no_effect(NET).of(&["exec"]),
    row("arguments", TEXT, "", "", "its arguments").no_effect(NET).of(&["exec"]),
    row("grace_time", COUNT, "s", "1", "time to end").no_effect(NET).of(&["exec"]),
    row("std_redirect", BOOL, "", "1", "redirect its output").no_effect(NET).of(&["exec"]),
    row("donorname", TEXT, "", "", "donor file").no_effect(NET).of(&["e4defrag"]),
    row("inplace", OptionKind::Int(0, 1, |_, _| ()), "", "0", "allocate within")
        .no_effect(NET)
        .of(&["e4defrag"]),
    row("volume", TEXT, "", "", "volume").no_effect(NET).of(&["gfapi", "gfapi_async"]),
    row("brick", TEXT, "", "", "brick").no_effect(NET).of(&["gfapi", "gfapi_async"]),
    row("single-instance", BOOL, "", "0", "one instance")
        .no_effect(NET)
        .of(&["gfapi", "gfapi_async"]),
    row("skip_bad", BOOL, "", "0", "skip bad blocks").no_effect(NET).of(&["mtd"]),
    row("uri", TEXT, "", "", "server").no_effect(NET).of(&["nbd"]),
    row("clustername", TEXT, "", "", "cluster").no_effect(NET).of(&["rados", "rbd"]),
    row("clientname", TEXT, "", "", "client").no_effect(NET).of(&["rados", "rbd"]),
    row("busy_poll", BOOL, "", "0", "poll").no_effect(NET).of(&["rados", "rbd"]),
    row("pool", TEXT, "", "", "pool").no_effect(NET).of(&["rados", "rbd", "dfs"]),
    row("conf", TEXT, "", "/etc/ceph/ceph.conf", "configuration").no_effect(NET).of(&["rados"]),
    row("touch_objects", BOOL, "", "1", "create objects first").no_effect(NET).of(&["rados"]),
    row("rbdname", TEXT, "", "", "image").no_effect(NET).of(&["rbd"]),
    row("cont", TEXT, "", "", "container").no_effect(NET).of(&["dfs"]),
    row("object_class", TEXT, "", "", "class").no_effect(NET).of(&["dfs"]),
    row("chunk_size", COUNT, "bytes", "1m", "size of a chunk")
        .no_effect(NET)
        .of(&["dfs", "libhdfs"]),
    row("namenode", TEXT, "", "", "name node").no_effect(NET).of(&["libhdfs"]),
    row("hdfsdirectory", TEXT, "", "", "directory").no_effect(NET).of(&["libhdfs"]),
    row("hdfs_use_direct", FLAG, "", "0", "direct reads").no_effect(NET).of(&["libhdfs"]),
    row("http_host", TEXT, "", "localhost", "host").no_effect(NET).of(&["http"]),
    row("http_user", TEXT, "", "", "user").no_effect(NET).of(&["http"]),
    row("http_pass", TEXT, "", "", "password").no_effect(NET).of(&["http"]),
    row("https", TEXT, "", "off", "encryption").no_effect(NET).of(&["http"]),
    row("http_mode", TEXT, "", "webdav", "service").no_effect(NET).of(&["http"]),
    row("http_s3_region", TEXT, "", "", "region").no_effect(NET).of(&["http"]),
    row("http_s3_key", TEXT, "", "", "key").no_effect(NET).of(&["http"]),
    row("http_s3_keyid", TEXT, "", "", "key name").no_effect(NET).of(&["http"]),
    row("http_s3_security_token", TEXT, "", "", "token").no_effect(NET).of(&["http"]),
    row("http_s3_sse_customer_key", TEXT, "", "", "encryption key").no_effect(NET).of(&["http"]),
    row("http_s3_sse_customer_algorithm", TEXT, "", "", "its algorithm")
        .no_effect(NET)
        .of(&["http"]),
    row("http_s3_storage_class", TEXT, "", "", "class").no_effect(NET).of(&["http"]),
    row("http_swift_auth_token", TEXT, "", "", "token").no_effect(NET).of(&["http"]),
    row("http_verbose", COUNT, "", "0", "chatter").no_effect(NET).of(&["http"]),
    row("http_object_mode", TEXT, "", "block", "objects").no_effect(NET).of(&["http"]),
    row("gpu_dev_ids", TEXT, "", "", "GPUs").no_effect(NET).of(&["libcufile"]),
    row(
        "cuda_io",
        OptionKind::Choice(&["cufile", "posix"], |_, _| ()),
        "",
        "cufile",
        "path of data",
    )
    .no_effect(NET)
    .of(&["libcufile"]),
    row("nfs_url", TEXT, "", "", "server").no_effect(NET).of(&["nfs"]),
    row("xnvme_async", TEXT, "", "", "back end").no_effect(NET).of(&["xnvme"]),
    row("xnvme_sync", TEXT, "", "", "back end").no_effect(NET).of(&["xnvme"]),
    row("xnvme_admin", TEXT, "", "", "back end").no_effect(NET).of(&["xnvme"]),
    row("xnvme_mem", TEXT, "", "", "memory").no_effect(NET).of(&["xnvme"]),
    row("xnvme_dev_nsid", COUNT, "", "", "name space").no_effect(NET).of(&["xnvme"]),
    row("xnvme_dev_subnqn", TEXT, "", "", "subsystem").no_effect(NET).of(&["xnvme"]),
    row("xnvme_iovec", COUNT, "", "", "vectors").no_effect(NET).of(&["xnvme"]),
    row("libblkio_driver", TEXT, "", "", "driver").no_effect(NET).of(&["libblkio"]),
    row("libblkio_path", TEXT, "", "", "path").no_effect(NET).of(&["libblkio"]),
    row("libblkio_pre_connect_props", TEXT, "", "", "properties").no_effect(NET).of(&["libblkio"]),
    row("libblkio_num_entries", COUNT, "", "", "entries").no_effect(NET).of(&["libblkio"]),
    row("libblkio_queue_size", COUNT, "", "", "queue").no_effect(NET).of(&["libblkio"]),
    row("libblkio_pre_start_props", TEXT, "", "", "properties").no_effect(NET).of(&["libblkio"]),
    row("libblkio_vectored", FLAG, "", "", "vectors").no_effect(NET).of(&["libblkio"]),
    row("libblkio_write_zeroes_on_trim", FLAG, "", "", "zeroes for trims")
        .no_effect(NET)
        .of(&["libblkio"]),
    row("libblkio_wait_mode", TEXT, "", "", "waiting").no_effect(NET).of(&["libblkio"]),
    row("libblkio_force_enable_completion_eventfd", FLAG, "", "", "eventfd")
        .no_effect(NET)
        .of(&["libblkio"]),
];
