//! What changed between kernel versions and is no rule here, with the reason.

/// A change of the kernel that the stack does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmodelled {
    /// A name, as a field of [`Rules`](super::Rules) would have it.
    pub name: &'static str,
    /// The first version with the change.
    pub since: &'static str,
    /// What the kernel does from then on, as a sentence without its full stop.
    pub says: &'static str,
    /// Why that is not so here.
    pub why: &'static str,
}

/// Every such change that is known, in the order of a bio's way.
pub const UNMODELLED: &[Unmodelled] = &[
    Unmodelled {
        name: "alignment_checked",
        since: "6.18, 7.2",
        says: "addresses and lengths of a call's vectors are tested against dma_alignment when a bio is split (6.18), or \
               while it is built (7.2); before, each vector had to be a multiple of the logical block",
        why: "a call here is one range, refused if it is no multiple of the logical block, and its buffer meets \
              dma_alignment",
    },
    Unmodelled {
        name: "plug_time_dropped_at_mid_flush",
        since: "7.3",
        says: "requests that follow an early flush of their plug no longer have its start time",
        why: "requests of a plug never share a start time here: each has the time at which it was submitted",
    },
    Unmodelled {
        name: "write_stream_blocks_merge",
        since: "6.16",
        says: "bios with different write streams do not merge",
        why: "no job gives its writes a stream",
    },
    Unmodelled {
        name: "zoned_qd1_writes",
        since: "7.0",
        says: "one thread issues the writes of a rotational zoned disk one at a time",
        why: "no device here has zones",
    },
    Unmodelled {
        name: "partition_in_flight_on_disk",
        since: "7.2",
        says: "I/O of a partition counts as in flight on its disk, too",
        why: "the devices of a run have no partitions",
    },
    Unmodelled {
        name: "throttle_group_removal_at_once",
        since: "7.2",
        says: "bios that wait for io.max go at once when their group is removed, and fail when the disk is removed",
        why: "what a removed tenant's limit held goes with the next release, and no disk is removed during a run",
    },
    Unmodelled {
        name: "mapped_misses_counted_once",
        since: "7.2",
        says: "in mappings that are read in order or hold programs, faults neither count nor uncount misses, and a miss is \
               uncounted once for each faulted folio that is not of the working set",
        why: "not built: every miss counts, and every page that a fault finds uncounts one",
    },
    Unmodelled {
        name: "mglru_keeps_dirty_pages",
        since: "7.2",
        says: "MGLRU isolates and keeps dirty pages in place of moving them to the next generation, and does not age at \
               the default priority",
        why: "not built: the rules of 6.14 hold, --set cache=mglru-6.14",
    },
    Unmodelled {
        name: "mglru_promotes_executable_pages",
        since: "7.3",
        says: "MGLRU promotes executable file pages at their first access, and weighs programs' against file pages by \
               rotations and restores",
        why: "no run has executable pages, and how the weights follow is not known",
    },
    Unmodelled {
        name: "nbd_queue_per_socket",
        since: "7.3",
        says: "an NBD client has a hardware queue for each socket",
        why: "elevon serve is the server: the queues are its client's",
    },
];
