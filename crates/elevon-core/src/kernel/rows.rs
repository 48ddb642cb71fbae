//! The effect of each kernel rule on I/O, and its evidence.

use super::{IoTicksForm, PlugOrder, Rules};

/// How a rule is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A kernel on each side of the change was measured.
    Measured,
    /// Read in descriptions of the kernel's behaviour, and not measured.
    Read,
    /// Remembered; neither read nor measured.
    Remembered,
}

impl Evidence {
    /// Returns the word for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Read => "read, not measured",
            Self::Remembered => "remembered, not measured",
        }
    }
}

/// One rule of the switchboard: a behaviour that differs between kernel versions.
#[derive(Clone, Copy)]
pub struct RuleRow {
    /// The name, which is that of the field of [`Rules`].
    pub name: &'static str,
    /// The part of the block layer that it belongs to.
    pub area: &'static str,
    /// Returns what happens under these rules, as a sentence without its full stop.
    pub says: fn(&Rules) -> &'static str,
    /// How it is known.
    pub evidence: Evidence,
    /// The measurement or the source.
    pub source: &'static str,
    /// Who will notice a change.
    pub who: &'static str,
    /// How the other behaviour is had on a kernel that does not have it; empty if it cannot be.
    pub keep: &'static str,
    /// Copies the rule from one set of rules into another.
    pub copy: fn(&Rules, &mut Rules),
}

impl RuleRow {
    /// Returns true if the rule is the same in both.
    pub fn is_same(&self, a: &Rules, b: &Rules) -> bool {
        (self.says)(a) == (self.says)(b)
    }
}

/// Makes a row; `$on`, `$off` are what happens if the rule is true and if it is false.
macro_rules! row {
    ($field:ident, $area:literal, $on:literal, $off:literal, $evidence:ident, $source:literal, $who:literal, $keep:literal) => {
        row!($field, $area, |r| if r.$field { $on } else { $off }, $evidence, $source, $who, $keep)
    };
    ($field:ident, $area:literal, $says:expr, $evidence:ident, $source:literal, $who:literal, $keep:literal) => {
        RuleRow {
            name: stringify!($field),
            area: $area,
            says: $says,
            evidence: Evidence::$evidence,
            source: $source,
            who: $who,
            keep: $keep,
            copy: |from, to| to.$field = from.$field,
        }
    };
}

/// Every rule, in the order of a bio's way.
pub const RULES: &[RuleRow] = &[
    row!(
        direct_fill_per_folio,
        "building bios",
        "direct I/O fills one vector per folio: a bio of ordinary pages has exactly 256 of them (2048 sectors), and \
         one of 2 MiB pages up to 24,975",
        "direct I/O fills one vector per run of physically contiguous pages: bios end after 256 runs, at sizes \
         such as 2056 or 2136 sectors, and their splits leave small tails",
        Measured,
        "18 direct reads of 1028 KiB: 15 bios of 2056 sectors on 6.12, 6.16 and 6.18, none on 7.0 and 7.3",
        "large direct reads and writes; devices whose limit does not divide 1 MiB",
        "--set fill=max-sectors or fill=trim avoid the tails on older kernels; fill=folio gives the newer rule"
    ),
    row!(
        iomap_reads_are_sync,
        "building bios",
        "direct reads through a file system carry SYNC",
        "direct reads through a file system carry no SYNC",
        Measured,
        "traces of 6.18; 6.12.117 and 6.17.8 read: the change lies between them, 6.16 is not known",
        "readers of traces; wbt, Kyber and BFQ, which prefer synchronous I/O",
        ""
    ),
    row!(
        iomap_small_reads_are_plain,
        "building bios",
        "a direct read of at most one file system block is submitted without a plug and carries SYNC only if its \
         caller waits",
        "a direct read of one file system block goes the way of every other",
        Read,
        "read in 7.2.12 and 7.3.4",
        "databases with small asynchronous reads on ext4 and XFS",
        ""
    ),
    row!(
        max_sectors_cap,
        "queue limits",
        |r| if r.max_sectors_cap == 8192 {
            "the default max_sectors_kb is at most 4096"
        } else {
            "the default max_sectors_kb is at most 1280"
        },
        Measured,
        "queue/max_sectors_kb of a virtio disk: 1280 on 6.1, 6.12 and 6.16, 4096 on 6.18, 7.0 and 7.3",
        "large I/O: more of it reaches the device in one piece, and holds it for longer",
        "echo 1280 > queue/max_sectors_kb; --set max_sectors_kb=1280"
    ),
    row!(
        read_ahead_from_max_sectors,
        "queue limits",
        "the read-ahead of a rotational disk without io_opt is twice max_sectors_kb",
        "the read-ahead of a disk without io_opt is 128 KiB",
        Measured,
        "queue/read_ahead_kb of a virtio disk: 128 to 6.16, 8192 on 6.18, 7.0 and 7.3",
        "sequential buffered readers of disks and virtual disks",
        "echo 128 > queue/read_ahead_kb; --set read_ahead_kb=128"
    ),
    row!(
        clamp_user_max_sectors,
        "queue limits",
        "max_sectors_kb above the hardware's limit is lowered to it",
        "max_sectors_kb above the hardware's limit is refused",
        Read,
        "read: 6.9",
        "scripts that write max_sectors_kb",
        ""
    ),
    row!(
        io_opt_raises_max_sectors,
        "queue limits",
        "an io_opt or io_min above the cap raises the default max_sectors_kb",
        "the default max_sectors_kb does not depend on io_opt",
        Measured,
        "queue/max_sectors_kb of scsi_debug with io_opt 512 KiB: 512 on 6.1, 1280 on 6.12",
        "RAID volumes",
        "echo N > queue/max_sectors_kb"
    ),
    row!(
        limits_validated_as_a_set,
        "queue limits",
        "limits that contradict each other are refused",
        "limits below a page are raised to a page one by one",
        Read,
        "read: 6.9",
        "writers of drivers",
        ""
    ),
    row!(
        io_opt_rounded_to_physical_block,
        "queue limits",
        "io_opt is rounded down to the physical block size",
        "io_opt is taken as the device states it",
        Read,
        "read: 6.13",
        "disks behind bridges that state odd values",
        ""
    ),
    row!(
        scsi_default_is_io_opt,
        "queue limits",
        "a SCSI disk that states an io_opt has it for its default max_sectors_kb",
        "a SCSI disk's default max_sectors_kb is at least the cap, whatever it states",
        Measured,
        "queue/max_sectors_kb of scsi_debug with io_opt 512 KiB: 512 on 6.1, 1280 on 6.12",
        "RAID volumes behind a SCSI controller: requests that filled one stripe become larger",
        "echo N > queue/max_sectors_kb"
    ),
    row!(
        null_blk_takes_any_address,
        "queue limits",
        "null_blk takes buffers at any even address",
        "null_blk takes buffers at addresses of whole sectors",
        Measured,
        "queue/dma_alignment of null_blk: 511 to 6.18, 1 on 7.0, 7.2 and 7.3; read: 6.19",
        "benchmarks with odd buffers",
        ""
    ),
    row!(
        nvme_lists_need_no_boundary,
        "queue limits",
        "an NVMe disk that takes scatter-gather lists has no virt_boundary_mask: scattered buffers are not split",
        "an NVMe disk has virt_boundary_mask 4095: a request is cut where a buffer has a gap inside a page",
        Measured,
        "queue/virt_boundary_mask of QEMU's NVMe disk: 4095 to 6.18, 0 on 7.0, 7.2 and 7.3; read: 6.19",
        "vectored I/O whose buffers do not fill pages",
        ""
    ),
    row!(
        nvme_max_segments,
        "queue limits",
        |r| match r.nvme_max_segments {
            127 => "an NVMe disk of large requests has 127 segments",
            128 => "an NVMe disk of large requests has 128 segments",
            _ => "an NVMe disk of large requests has 129 segments",
        },
        Measured,
        "queue/max_segments of QEMU's NVMe disk: 127 on 6.1, 128 on 6.12 and 6.16, 129 from 6.18 on",
        "requests of 512 KiB from memory of single pages: with 127 segments they are cut at 508 KiB",
        ""
    ),
    row!(
        nvme_discard_granularity_of_namespace,
        "queue limits",
        "an NVMe disk's discard_granularity is what its namespace prefers",
        "an NVMe disk's discard_granularity is its logical block",
        Measured,
        "queue/discard_granularity of QEMU's NVMe disk: 512 to 7.0, 4096 on 7.2 and 7.3",
        "file systems that discard; a discard of less than a granule is not sent",
        ""
    ),
    row!(
        nvme_states_io_opt,
        "queue limits",
        "an NVMe disk that prefers no size shows its physical block as optimal_io_size",
        "an NVMe disk that prefers no size shows optimal_io_size 0",
        Measured,
        "queue/optimal_io_size of QEMU's NVMe disk: 512 on 6.1, 0 from 6.12 on",
        "tools that align partitions",
        ""
    ),
    row!(
        nvme_integrity_segment,
        "queue limits",
        "an NVMe disk shows max_integrity_segments 1, with or without integrity data",
        "an NVMe disk without integrity data shows max_integrity_segments 0",
        Measured,
        "queue/max_integrity_segments of QEMU's NVMe disk: 0 on 6.1, 1 from 6.12 on",
        "scripts that look there for integrity data",
        ""
    ),
    row!(
        secure_erase_has_own_limit,
        "splitting",
        "a secure erase is split at its own limit",
        "a secure erase is split at the limit of a discard",
        Read,
        "read: absent in 6.16, 6.17.8 and 6.18.15, present in 6.12.75 and 6.19.6; 6.18.44 is taken to have it",
        "eMMC and UFS",
        ""
    ),
    row!(
        write_zeroes_honours_chunk,
        "splitting",
        "a split write-zeroes honours chunk_sectors and the physical block",
        "a write-zeroes is split at its limit alone",
        Read,
        "read: 6.13, and 6.12.117 by back-port",
        "RAID volumes and NVMe namespaces with a stripe",
        ""
    ),
    row!(
        blkdev_writes_take_plug,
        "plugging",
        "a write of a block device has a plug until it returns, through the page cache too: one that waits is inserted \
         and dispatched by a worker",
        "a write of a block device has a plug only if it needs several bios, and through the page cache none that lasts \
         until it returns",
        Measured,
        "P events of writes on 6.1, and none on 6.12 (O_SYNC writes and reads of pages that are written in part, \
         through the page cache: a U on 6.1, none on 6.18); remembered: 6.5",
        "synchronous writers of raw block devices: a worker more on the way to the device",
        ""
    ),
    row!(
        implicit_plug,
        "plugging",
        "a bio without a plug gets one of its own (P and U around it), and the task dispatches it itself",
        "a bio without a plug is issued at once; under a scheduler a worker dispatches it a little later, so that \
         bios which follow at once can be merged into it",
        Measured,
        "64 writes of 4 KiB under mq-deadline, the last 48 one by one: 49 requests on 6.12 to 7.0, 37 and 20 on 7.3; \
         the P and U events of 6.12, 6.18, 7.0, 7.2 and 7.3",
        "asynchronous small sequential writers without batches; deep sequential readers on disks under BFQ, whose clock \
         is then read for each request; readers of traces",
        ""
    ),
    row!(
        plug_order,
        "plugging",
        |r| match r.plug_order {
            PlugOrder::Lifo => {
                "without a scheduler a plug is issued newest request first, and its newest request decides when it is \
                 flushed early"
            }
            PlugOrder::Fifo => {
                "a plug is issued oldest request first, and its oldest request decides when it is flushed early"
            }
        },
        Measured,
        "blktrace of 6.1 (parts of a split issued backwards), ftrace of 6.12 and 6.18; 5.15 is remembered",
        "disks without a scheduler: large I/O arrives backwards",
        ""
    ),
    row!(
        write_hint_blocks_merge,
        "merging",
        "bios with different write hints do not merge",
        "write hints are ignored",
        Read,
        "read: absent from 5.18 to 6.8",
        "users of write hints",
        ""
    ),
    row!(
        flush_data_through_scheduler,
        "flush and FUA",
        "the data of a write that needs a flush goes through the scheduler",
        "the data of a write that needs a flush goes around the scheduler",
        Measured,
        "events of O_DSYNC writes on 6.1 and 6.12",
        "databases and journals under mq-deadline or BFQ",
        ""
    ),
    row!(
        whole_map_shallow_depth,
        "tags",
        "a scheduler's limit for asynchronous requests counts tags of the whole map",
        "a scheduler's limit for asynchronous requests counts positions in each word of the map",
        Read,
        "read: 6.17, and 6.12.117 by back-port",
        "users of async_depth, Kyber and BFQ with few tags",
        ""
    ),
    row!(
        queue_async_depth,
        "tags",
        "queue/async_depth limits what is not a synchronous read, under every scheduler",
        "mq-deadline has a tunable async_depth; Kyber and BFQ have limits of their own",
        Measured,
        "queue/async_depth of 7.0 and 7.3, iosched/async_depth of 6.1 to 6.18",
        "scripts that write iosched/async_depth",
        "--set async_depth=N in place of mq-deadline:async_depth=N"
    ),
    row!(
        atomic_writes,
        "queue attributes",
        "writes can be atomic, and the queue has the attributes atomic_write_*",
        "there are no atomic writes, and the queue has no attributes for them",
        Measured,
        "files in queue/ of 6.1 and 6.12; read: 6.11",
        "databases that look for them",
        ""
    ),
    row!(
        atomic_writes_within_chunk,
        "queue limits",
        "an atomic write is no longer than a chunk, and its units divide the chunk",
        "an atomic write that crosses the boundary of a chunk fails with EINVAL when it is split",
        Read,
        "read: 6.17",
        "databases on stripes",
        ""
    ),
    row!(
        iostats_passthrough_attribute,
        "queue attributes",
        "the queue has the attribute iostats_passthrough",
        "the queue has no attribute iostats_passthrough",
        Measured,
        "files in queue/ of 6.12 and 6.16; read: 6.13",
        "monitoring",
        ""
    ),
    row!(
        write_stream_attributes,
        "queue attributes",
        "the queue has the attributes max_write_streams and write_stream_granularity",
        "the queue has no attributes for write streams",
        Measured,
        "files in queue/ of 6.12 and 6.16",
        "users of data placement",
        ""
    ),
    row!(
        write_zeroes_unmap_attributes,
        "queue attributes",
        "the queue has the attributes write_zeroes_unmap_*",
        "the queue has no attributes for write-zeroes that unmap",
        Measured,
        "files in queue/ of 6.16 and 6.18; read: 6.17",
        "file systems and tools that zero ranges",
        ""
    ),
    row!(
        none_listed_first,
        "queue attributes",
        "the attribute scheduler lists none before the others",
        "the attribute scheduler lists none after the others, unless it is in use",
        Measured,
        "queue/scheduler of scsi_debug on 6.1 and 6.12",
        "scripts that read it by position",
        ""
    ),
    row!(
        deadline_classes,
        "mq-deadline",
        "mq-deadline serves the classes RT, BE and IDLE in order",
        "mq-deadline ignores I/O priorities",
        Read,
        "read: 5.14",
        "users of ionice",
        ""
    ),
    row!(
        deadline_ages,
        "mq-deadline",
        "mq-deadline serves a lower class once its requests are older than prio_aging_expire (10 s)",
        "a class waits as long as a higher one has requests",
        Remembered,
        "remembered: about 5.17",
        "class IDLE beside steady load",
        "a very large prio_aging_expire"
    ),
    row!(
        deadline_position,
        "mq-deadline",
        "mq-deadline continues at the sector where it stopped",
        "mq-deadline continues at a pointer to the next request, which is lost when that one is merged or served",
        Read,
        "read: 6.5",
        "order of random I/O on disks",
        ""
    ),
    row!(
        deadline_head_list_per_device,
        "mq-deadline",
        "requests inserted at the head are served before every class",
        "requests inserted at the head are served within their class",
        Read,
        "read: one list per class in 6.17.8, one per device in 6.18.15 and, by back-port, in 6.12.117",
        "requeued requests beside class RT",
        ""
    ),
    row!(
        kyber_limits_sync_writes,
        "kyber",
        "Kyber holds everything but synchronous reads to three quarters of the tags",
        "Kyber holds asynchronous requests to three quarters of the tags, synchronous writes to none",
        Measured,
        "of 64 direct writes and 16 tags 12 are in the device on 6.18.44; 6.18.15, which has no such limit, and 6.19.6 read",
        "deep synchronous writers under Kyber",
        ""
    ),
    row!(
        bfq_counts_root_group,
        "bfq",
        "BFQ idles for fairness between groups if two groups have requests, and the root group counts as one",
        "BFQ idles for fairness between groups if any group but the root has requests",
        Read,
        "read: 6.2",
        "tenants under BFQ",
        ""
    ),
    row!(
        bfq_clock_kept_in_plug,
        "bfq",
        "BFQ takes a process that always has several requests in flight for one that is rarely waiting, for its \
         first 4 s, if its first request came from a plug. It does not idle for it on a turning device. Under a plug \
         the clock is read once, so the time between a new queue and its first request is -1 ns, which counts as a \
         very long one. From 7.2 on a lone first request has no plug",
        "BFQ takes such a process for one that waits for I/O, from its first request on",
        Measured,
        "two sequential readers of depth 4 on a turning device with 6.18.44 get four requests each in turn, at depth \
         1 slots of 125 ms; before 6.10, and from 7.2 on, where a lone bio has no plug, it follows from the cause",
        "deep sequential readers on disks, in their first seconds",
        ""
    ),
    row!(
        bfq_big_injection_waits,
        "bfq",
        "BFQ injects a large request only into an empty device",
        "BFQ injects a large request at a limit of one",
        Read,
        "read in 6.1 and 6.12",
        "small readers beside large writers under BFQ",
        ""
    ),
    row!(
        io_ticks,
        "accounting",
        |r| match r.io_ticks {
            IoTicksForm::Sampled => {
                "%util is sampled: time between the start of one I/O and of the next is lost while I/O is in flight"
            }
            IoTicksForm::Inflight =>
                "%util counts the time since the last start if other tags are in use",
            IoTicksForm::Precise => "%util counts whole ticks in which I/O was in flight",
            IoTicksForm::Exact => "%util counts busy nanoseconds",
        },
        Measured,
        "half-duty reads on 6.1 to 7.3; the sampled form is that of a published measurement",
        "monitoring: %util of one version cannot be compared with the other's",
        "--set io_ticks=sampled or io_ticks=precise"
    ),
    row!(
        in_flight_from_allocation,
        "accounting",
        "a request counts as in flight from its allocation",
        "a request counts as in flight from its issue to the driver",
        Read,
        "read: 6.10",
        "monitoring of queue depth under a scheduler",
        ""
    ),
    row!(
        throttle_slice_ms,
        "throttling",
        |r| if r.throttle_slice_ms == 20 {
            "io.max lets through in slices of 20 ms on non-rotational disks"
        } else {
            "io.max lets through in slices of 100 ms"
        },
        Measured,
        "completion times on 6.1.192, 6.12.117 and 6.18.44; 20 ms read in 6.10 to 6.17.8",
        "tenants with a low io.max: how bursty they are, and which rates can be set",
        ""
    ),
    row!(
        throttle_in_series,
        "throttling",
        "io.max tests bytes and I/Os one after the other, and keeps one finished slice",
        "io.max tests bytes and I/Os together, and forgets finished slices",
        Measured,
        "completion times on 6.18.44; 6.1 read",
        "tenants limited in both bytes and I/Os",
        ""
    ),
    row!(
        io_cost_keeps_busy_level,
        "throttling",
        "io.cost keeps its busy level in a period in which nothing completed",
        "io.cost takes a period in which nothing completed for one without misses",
        Read,
        "read in 6.19.6 and 7.1.13; which of 7.0 and 7.1 brought it is not known",
        "tenants under io.cost on very slow devices",
        ""
    ),
    row!(
        io_cost_turns_wbt_off,
        "writeback throttling",
        "writeback throttling is off while io.cost is enabled, unless wbt_lat_usec was set",
        "writeback throttling and io.cost hold writes at the same time",
        Remembered,
        "6.2",
        "tenants under io.cost that write back",
        "--set wbt_lat_usec=2000 (75000 on a rotational device) keeps it on; =0 turns it off"
    ),
    row!(
        wbt_shown_off_under_bfq,
        "queue attributes",
        "the attribute wbt_lat_usec shows 0 under BFQ",
        "the attribute wbt_lat_usec shows its value under BFQ, which is not in force",
        Measured,
        "queue/wbt_lat_usec of null_blk under BFQ on 6.1 and 6.12",
        "scripts that read it",
        ""
    ),
    row!(
        promote_to_rt,
        "priority",
        "io.prio.class knows promote-to-rt",
        "io.prio.class knows none-to-rt, which has no effect on ordinary I/O",
        Read,
        "read: 6.5",
        "Android task profiles",
        ""
    ),
    row!(
        readahead_keeps_position,
        "page cache",
        "a read that ends with a page leaves the next page as its position, so that a read one page further on \
         looks sequential",
        "a read leaves its last page as its position, and only a read of the next page looks sequential",
        Read,
        "6.18 measured: every second page of 16 MiB in 4 KiB reads, 1024 requests of 16 KiB; 5.10 by description",
        "buffered readers that skip pages",
        ""
    ),
    row!(
        readahead_async_by_marker,
        "page cache",
        "readahead goes on when a marked page is read, and windows do not overlap",
        "readahead also goes on at the expected position without a marker",
        Measured,
        "a trace of buffered reads on 6.18; 6.1 by description",
        "buffered sequential readers",
        ""
    ),
    row!(
        readahead_marks_folio,
        "page cache",
        "the first readahead window of a run is marked at the first page of a folio of four pages, so that a read of its \
         first page alone can ask for the next",
        "a readahead window is marked at the first page that is read ahead",
        Measured,
        "a 4 KiB read at the start of a device reads 4 pages on 6.1, 6.18, 7.2 and 7.3, and 4 and 8 on 6.16",
        "random buffered readers: they read more than they ask for",
        ""
    ),
    row!(
        readahead_ends_on_folio,
        "page cache",
        "a readahead window ends where its folios end, and folios grow from window to window",
        "a readahead window ends where the window's size says",
        Measured,
        "windows of 1024, 2048, 4096 and 8192 sectors on 6.18, 7.0 and 7.3",
        "buffered sequential readers",
        ""
    ),
    row!(
        readahead_marks_end_of_file,
        "page cache",
        "a readahead window that reaches the end of the file has a marker, and reading it asks for more in vain",
        "a readahead window that reaches the end of the file has no marker",
        Read,
        "read in 7.1.13 and 7.2.12",
        "readers of many small files",
        ""
    ),
    row!(
        working_set_keeps_misses,
        "page cache",
        "pages of the working set that a fault finds around its page do not lower the count of misses, so that \
         read-around ends when memory is short",
        "every cached page that a fault finds around its page lowers the count of misses by one",
        Read,
        "read: 6.10",
        "random access to mappings larger than memory",
        "MADV_RANDOM"
    ),
    row!(
        locked_page_keeps_misses,
        "page cache",
        "a fault that finds its page while it is read does not lower the count of misses",
        "a fault that finds its page while it is read lowers the count of misses by one",
        Read,
        "read: 6.18",
        "several threads that touch one mapping",
        ""
    ),
    row!(
        fault_wait_is_major,
        "page cache",
        "a fault that waits for a page that is being read already is a major fault",
        "a fault that waits for a page that is being read already is a minor fault",
        Read,
        "6.18 measured: one major fault for 4 MiB in order at 200 requests a second; 6.6 by description",
        "readers of majflt and of PGMAJFAULT",
        ""
    ),
    row!(
        random_mapping_is_no_use,
        "page cache",
        "touches through a mapping with MADV_RANDOM or MADV_SEQUENTIAL do not count as uses, so that reclaim evicts \
         its pages first",
        "touches through a mapping with MADV_RANDOM keep a page in memory; those with MADV_SEQUENTIAL do not",
        Read,
        "read: 6.4, etcd-io/bbolt 939; 6.18 measured: half of the touches under memory pressure are major faults",
        "databases in mappings larger than their share of memory: bbolt, LMDB, Elasticsearch",
        "no MADV_RANDOM; read_ahead_kb=0 instead"
    ),
    row!(
        reclaim_writes_file_pages,
        "page cache",
        "reclaim writes dirty file pages itself when it finds many of them",
        "reclaim never writes file pages: it activates them and wakes the flusher",
        Read,
        "read in 6.18.15 and 6.19.6",
        "writers that fill memory",
        ""
    ),
    row!(
        lru_gen_counts_first_use,
        "page cache",
        "MGLRU counts the uses of a page from the first on",
        "MGLRU counts the uses of a page from the second on",
        Read,
        "read: 6.14",
        "buffered I/O when memory is short",
        "--set cache=mglru-6.1 or mglru-6.14"
    ),
    row!(
        ioprio_in_events,
        "events",
        "request events carry the I/O priority",
        "request events carry no I/O priority",
        Measured,
        "ftrace of 6.1, 6.12, 6.18 and 7.3",
        "readers of traces",
        ""
    ),
    row!(
        io_start_events,
        "events",
        "block_io_start and block_io_done are recorded",
        "block_io_start and block_io_done do not exist",
        Measured,
        "ftrace of 6.1 and 6.12",
        "readers of traces",
        ""
    ),
    row!(
        unplug_event_on_direct_issue,
        "events",
        "a plug that is flushed to the driver records U",
        "a plug that is flushed to the driver records nothing",
        Measured,
        "ftrace of 6.1 and 6.12",
        "readers of traces",
        ""
    ),
    row!(
        deadline_wakes_in_batches,
        "tags",
        "under mq-deadline, who waits for a tag is woken with up to seven others when as many were freed",
        "under mq-deadline, who waits for a tag is woken when one is freed",
        Read,
        "read: 7.0",
        "I/O beyond nr_requests: meanwhile a free tag is whose I/O comes next, so a process with little in flight hardly waits for one",
        ""
    ),
    row!(
        tag_wait_event,
        "events",
        "block_rq_tag_wait is recorded before each sleep for a tag",
        "a sleep for a tag leaves no event",
        Read,
        "read in 7.1.13 and 7.2.12",
        "readers of traces: a queue that is too short becomes visible",
        ""
    ),
    row!(
        error_injection,
        "errors",
        "rules in debugfs end bios with an error before they are queued",
        "there is no error injection",
        Read,
        "read in 7.1.13 and 7.2.12",
        "tests of file systems and volume managers",
        "--set error_injection=add,op=READ,status=MEDIUM,start=100,nr_sectors=8"
    ),
    row!(
        atomic_write_is_u,
        "events",
        "an atomic write has the letter U in events",
        "an atomic write is W in events, as any write",
        Read,
        "announced with 6.16",
        "readers of traces",
        ""
    ),
    row!(
        write_zeroes_is_wz,
        "events",
        "a write-zeroes is WZ in events",
        "a write-zeroes is N in events",
        Read,
        "read in 6.18.15 and 6.19.6",
        "readers of traces",
        ""
    ),
    row!(
        blktrace_version_8,
        "events",
        "blktrace has records of version 8, with categories for write-zeroes and zones, for tools that ask for them",
        "blktrace has records of version 7 only",
        Read,
        "read in 6.18.15 and 6.19.6",
        "readers of traces: blkparse 1.2 refuses version 8",
        "--blktrace 7 or --blktrace 8"
    ),
];
