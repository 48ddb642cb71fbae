//! The rules of each kernel version.
//!
//! `--kernel` selects a [`Kernel`]; [`Kernel::rules`] returns what differs between versions, and
//! [`RULES`] describes each rule with its evidence; [`UNMODELLED`] has the changes that are no
//! rules here. A variant is a concrete release, because stable
//! back-ports changed several rules: see [`Kernel::release`].

extern crate alloc;
use alloc::format;
use alloc::string::String;

mod rows;
#[cfg(test)]
mod tests;
mod unmodelled;

pub use rows::{Evidence, RULES, RuleRow};
pub use unmodelled::{UNMODELLED, Unmodelled};

/// A kernel version whose rules the stack follows. Versions are ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// The last stable releases of 5.10, which older phones run. Not measured.
    V5_10,
    /// The last stable releases of 5.15. Not measured.
    V5_15,
    /// 6.1.187.
    V6_1,
    /// 6.6.0.
    V6_6,
    /// 6.12.117.
    V6_12,
    /// 6.16.12.
    V6_16,
    /// 6.18.44.
    V6_18,
    /// 6.19.6.
    V6_19,
    /// 7.0.13.
    V7_0,
    /// 7.1.13.
    V7_1,
    /// 7.2.12.
    V7_2,
    /// 7.3.4.
    V7_3,
}

/// Order of a plug's list when it is flushed to the driver without a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugOrder {
    /// Newest first; the size check examines the newest request (5.16 to 6.12.24).
    Lifo,
    /// Oldest first; the size check examines the oldest request (6.13, 6.12.25 and later).
    Fifo,
}

/// How io_ticks grows; see [`crate::account`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoTicksForm {
    /// 5.7 to 6.9: a start adds one jiffy, an end adds the elapsed time. Time between starts is
    /// lost (the defect that proposal 003 describes).
    Sampled,
    /// Proposal 003: a start adds the elapsed time if other tags are in use, on devices with one
    /// hardware queue only.
    Inflight,
    /// 6.10 and later: a start adds the elapsed time if a request is in flight, else nothing.
    #[default]
    Precise,
    /// Busy time in nanoseconds (not in Linux).
    Exact,
}

/// Every rule that differs between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Order and size check of the plug list.
    pub plug_order: PlugOrder,
    /// Cap of the default `max_sectors`, in sectors: 2560, from 6.17 8192.
    pub max_sectors_cap: u64,
    /// A user's `max_sectors_kb` above the hardware limit is clamped (6.9+) instead of refused.
    pub clamp_user_max_sectors: bool,
    /// `io_opt` and `io_min` above the cap raise the default `max_sectors` (6.11+).
    pub io_opt_raises_max_sectors: bool,
    /// Limits are validated as a set and may be refused (6.9+). Before, values below a page were
    /// raised to a page one by one.
    pub limits_validated_as_a_set: bool,
    /// `io_opt` is rounded down to the physical block size (6.13+).
    pub io_opt_rounded_to_physical_block: bool,
    /// If `io_opt` is 0 and the disk is rotational, the default read-ahead is twice `max_sectors`
    /// (6.17+).
    pub read_ahead_from_max_sectors: bool,
    /// A secure erase is split at its own limit (6.12.75+) instead of the limit of a discard.
    pub secure_erase_has_own_limit: bool,
    /// A split write-zeroes honours chunk size and physical block size (6.13, 6.12.117).
    pub write_zeroes_honours_chunk: bool,
    /// A SCSI disk's default `max_sectors` is its `io_opt` (before 6.12). Later that value raises
    /// the default and never lowers it.
    pub scsi_default_is_io_opt: bool,
    /// null_blk's `dma_alignment` is 1 (6.19+) instead of 511.
    pub null_blk_takes_any_address: bool,
    /// An NVMe disk that takes scatter-gather lists has no virt boundary (6.19+).
    pub nvme_lists_need_no_boundary: bool,
    /// `max_segments` of an NVMe disk whose command size does not limit it.
    pub nvme_max_segments: u16,
    /// An NVMe disk's `discard_granularity` is what its namespace prefers (7.2+), instead of its
    /// logical block size.
    pub nvme_discard_granularity_of_namespace: bool,
    /// An NVMe disk without a preferred size states its physical block size as `io_opt` (before
    /// 6.12).
    pub nvme_states_io_opt: bool,
    /// An NVMe disk takes a segment of integrity data with a request (6.12+), whether its
    /// namespace has any or not.
    pub nvme_integrity_segment: bool,
    /// From 6.11 on writes can be atomic (`RWF_ATOMIC`), and the queue has the attributes
    /// `atomic_write_*`.
    pub atomic_writes: bool,
    /// From 6.17 on atomic writes are no longer than a chunk (`chunk_sectors`), and their units
    /// divide it. Before, a write that crosses a chunk is refused when it is split.
    pub atomic_writes_within_chunk: bool,
    /// The queue has the attribute `iostats_passthrough` (6.13+).
    pub iostats_passthrough_attribute: bool,
    /// The queue has the attributes `max_write_streams` and `write_stream_granularity` (6.16+).
    pub write_stream_attributes: bool,
    /// The queue has the attributes `write_zeroes_unmap_*` (6.17+).
    pub write_zeroes_unmap_attributes: bool,
    /// The attribute `scheduler` lists `none` first (6.12+), instead of last.
    pub none_listed_first: bool,
    /// Direct I/O fills one vector per folio and batch of pages (7.0+). Before, physically
    /// contiguous pages joined the last vector across folios.
    pub direct_fill_per_folio: bool,
    /// The DATA step of a flush sequence goes through the scheduler (6.5+).
    pub flush_data_through_scheduler: bool,
    /// Request events carry the ioprio (6.11+).
    pub ioprio_in_events: bool,
    /// `block_io_start` and `block_io_done` exist (6.5+).
    pub io_start_events: bool,
    /// A plug that is flushed directly to the driver emits U (6.12+).
    pub unplug_event_on_direct_issue: bool,
    /// Under mq-deadline, tasks that wait for a tag are woken in batches of up to 8 (7.0+), before
    /// one by one.
    pub deadline_wakes_in_batches: bool,
    /// `block_rq_tag_wait` is recorded before a task sleeps for a tag (7.2+).
    pub tag_wait_event: bool,
    /// Rules in debugfs end bios with an error before they are queued (7.2+).
    pub error_injection: bool,
    /// An atomic write has the letter `U` in events (6.16+).
    pub atomic_write_is_u: bool,
    /// A write-zeroes is `WZ` in events (6.19+) instead of `N`.
    pub write_zeroes_is_wz: bool,
    /// blktrace has records of version 8 for tools that ask for them (6.19+).
    pub blktrace_version_8: bool,
    /// A write of a block device, also one through the page cache, runs under a plug until the
    /// call returns (before 6.5).
    pub blkdev_writes_take_plug: bool,
    /// A bio without a plug gets its own plug (6.10 to 7.1). Before and after, a scheduler's queue
    /// is run by a worker for it.
    pub implicit_plug: bool,
    /// A shallow depth counts tags of the whole map (6.17, 6.12.y) instead of positions in each
    /// word.
    pub whole_map_shallow_depth: bool,
    /// `queue/async_depth` replaces mq-deadline's tunable, for all schedulers (7.0+).
    pub queue_async_depth: bool,
    /// Bios with different write hints do not merge (to 5.17, and 6.9+).
    pub write_hint_blocks_merge: bool,
    /// mq-deadline serves I/O priority classes in order (5.14+).
    pub deadline_classes: bool,
    /// mq-deadline serves a lower class whose requests are older than `prio_aging_expire` (5.17+).
    pub deadline_ages: bool,
    /// mq-deadline continues from a position (6.5+) instead of from a pointer to the next request.
    pub deadline_position: bool,
    /// mq-deadline keeps one at-head list for the device (6.12) instead of one per class.
    pub deadline_head_list_per_device: bool,
    /// Kyber limits synchronous writes as it limits asynchronous requests (6.18.44, not 6.18.15).
    pub kyber_limits_sync_writes: bool,
    /// BFQ counts the root among the groups whose presence requires idling, and requires two
    /// (6.2+). Before, any group except the root was enough.
    pub bfq_counts_root_group: bool,
    /// BFQ takes the time of a request under a plug, its own for a lone bio too, from the first
    /// look at the clock: a new queue's first request comes before the queue was made (6.10+).
    pub bfq_clock_kept_in_plug: bool,
    /// BFQ injects large requests only into an empty device (6.12), instead of at a limit of one.
    pub bfq_big_injection_waits: bool,
    /// The in-flight column counts from allocation (6.10+) instead of from issue.
    pub in_flight_from_allocation: bool,
    /// The default io_ticks form.
    pub io_ticks: IoTicksForm,
    /// Direct reads through a file system (iomap) carry SYNC, as measured on 6.18.
    pub iomap_reads_are_sync: bool,
    /// From 7.3 on a direct read of at most one file system block through iomap is submitted
    /// without a plug. It carries SYNC only if the caller waits for it.
    pub iomap_small_reads_are_plain: bool,
    /// A read leaves the position behind its last byte in the readahead state (5.12+). Before, it
    /// left the page of its last byte.
    pub readahead_keeps_position: bool,
    /// Readahead continues from a marker only; a first window that its request fills is half
    /// behind its marker; and no window includes the next (6.11+).
    pub readahead_async_by_marker: bool,
    /// The marker of a window that follows no marker is on the first page of its folio, which has
    /// four pages (measured on 6.16; 6.12 has no such folios on ext4 and block devices).
    pub readahead_marks_folio: bool,
    /// A window that follows a marker ends where its folios end; their order grows by two from
    /// window to window (measured on 6.18).
    pub readahead_ends_on_folio: bool,
    /// A readahead window that reaches the end of the file has a marker (before 7.2).
    pub readahead_marks_end_of_file: bool,
    /// Pages of the working set that a fault finds around its page do not lower the count of
    /// misses of the mapping (6.10+).
    pub working_set_keeps_misses: bool,
    /// A fault that finds its page while it is read does not lower the count of misses of the
    /// mapping (6.18+).
    pub locked_page_keeps_misses: bool,
    /// A fault that waits for a page that is being read already is a major fault (before 6.7).
    pub fault_wait_is_major: bool,
    /// Touches through a mapping with `MADV_RANDOM` do not count as uses of a page (6.4+). Before,
    /// only those with `MADV_SEQUENTIAL` did not.
    pub random_mapping_is_no_use: bool,
    /// Reclaim writes dirty file pages itself (before 6.19). After, it activates them and wakes
    /// the flusher.
    pub reclaim_writes_file_pages: bool,
    /// The multi-generational LRU counts a page's references from its REFERENCED flag on (6.14+),
    /// instead of from its WORKINGSET flag.
    pub lru_gen_counts_first_use: bool,
    /// `io.prio.class` has `promote-to-rt`, and `none-to-rt` is another name for it (6.5+).
    pub promote_to_rt: bool,
    /// A throttling slice of a non-rotational disk, in ms; of a rotational disk it is 100. From
    /// 6.10 it was 20, until late stable releases of 6.12 and 6.18 returned to 100 (measured on
    /// 6.12.117 and 6.18.44).
    pub throttle_slice_ms: u64,
    /// Trimming a throttled group keeps one finished slice, from 6.14 on. Bytes and I/Os are tested
    /// one after the other, from 6.16 on.
    pub throttle_in_series: bool,
    /// io.cost keeps its busy level in a period in which no I/O completed (7.1+); before, it fell
    /// to 0.
    pub io_cost_keeps_busy_level: bool,
    /// Writeback throttling is off, unless it was set, while io.cost is enabled.
    pub io_cost_turns_wbt_off: bool,
    /// `wbt_lat_usec` shows 0 under BFQ, which turns writeback throttling off in every version.
    pub wbt_shown_off_under_bfq: bool,
}

impl Default for Kernel {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Kernel {
    /// The version whose rules hold if no version is named: the newest one.
    pub const DEFAULT: Self = Self::V7_3;

    /// Every version, oldest first.
    pub const ALL: [Self; 12] = [
        Self::V5_10,
        Self::V5_15,
        Self::V6_1,
        Self::V6_6,
        Self::V6_12,
        Self::V6_16,
        Self::V6_18,
        Self::V6_19,
        Self::V7_0,
        Self::V7_1,
        Self::V7_2,
        Self::V7_3,
    ];

    /// Returns the name of the version for `--kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V5_15 => "5.15",
            Self::V6_1 => "6.1",
            Self::V6_6 => "6.6",
            Self::V6_12 => "6.12",
            Self::V6_16 => "6.16",
            Self::V6_18 => "6.18",
            Self::V6_19 => "6.19",
            Self::V7_0 => "7.0",
            Self::V7_1 => "7.1",
            Self::V7_2 => "7.2",
            Self::V7_3 => "7.3",
        }
    }

    /// Returns the release whose rules these are: stable releases of one version differ.
    pub const fn release(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10.y",
            Self::V5_15 => "5.15.y",
            Self::V6_1 => "6.1.187",
            Self::V6_6 => "6.6.0",
            Self::V6_12 => "6.12.117",
            Self::V6_16 => "6.16.12",
            Self::V6_18 => "6.18.44",
            Self::V6_19 => "6.19.6",
            Self::V7_0 => "7.0.13",
            Self::V7_1 => "7.1.13",
            Self::V7_2 => "7.2.12",
            Self::V7_3 => "7.3.4",
        }
    }

    /// Returns true if this version is `first` or newer.
    const fn since(self, first: Self) -> bool {
        self as u8 >= first as u8
    }

    /// Parses a version name that `--kernel` accepts: `6.18`, also as `v6.18`, as a stable release,
    /// `6.18.3`, or as `uname -r` prints it, `6.18.3-amd64`. All releases of a version have the
    /// same rules here, those of [`Self::release`].
    pub fn from_name(name: &str) -> Option<Self> {
        let (major, minor) = version(name)?;
        Self::ALL.into_iter().find(|kernel| version(kernel.name()) == Some((major, minor)))
    }

    /// Returns which version to use in place of one that is not modelled, as the end of an error
    /// message: its neighbours.
    pub fn instead_of(name: &str) -> String {
        let Some(version) = version(name) else {
            return String::from("a version is written as 6.18 or as 6.18.3");
        };
        let number = |kernel: &Self| self::version(kernel.name()).unwrap_or((0, 0));
        let before = Self::ALL.iter().rfind(|&k| number(k) < version);
        let after = Self::ALL.iter().find(|&k| number(k) > version);
        match (before, after) {
            (Some(before), Some(after)) => {
                format!("{} is the one before it, {} the one after it", before.name(), after.name())
            }
            (None, Some(nearest)) | (Some(nearest), None) => {
                format!("{} is the nearest", nearest.name())
            }
            (None, None) => String::new(),
        }
    }

    /// Returns `max_segments` of an NVMe disk that takes large commands.
    const fn nvme_max_segments(self) -> u16 {
        match (self.since(Self::V6_12), self.since(Self::V6_18)) {
            (_, true) => 129,
            (true, false) => 128,
            (false, false) => 127,
        }
    }

    /// Returns the rules of this version. [`RULES`] says what each means and how it is known.
    pub const fn rules(self) -> Rules {
        use Kernel::{V5_15, V6_1, V6_6, V6_12, V6_16, V6_18, V6_19, V7_0, V7_1, V7_2, V7_3};
        Rules {
            plug_order: match self {
                V6_1 | V6_6 => PlugOrder::Lifo,
                _ => PlugOrder::Fifo,
            },
            max_sectors_cap: if self.since(V6_18) { 8192 } else { 2560 },
            clamp_user_max_sectors: self.since(V6_12),
            io_opt_raises_max_sectors: self.since(V6_12),
            limits_validated_as_a_set: self.since(V6_12),
            io_opt_rounded_to_physical_block: self.since(V6_16),
            read_ahead_from_max_sectors: self.since(V6_18),
            // 6.12.75 and 6.18.44 have it by back-port; 6.16.12 has not.
            secure_erase_has_own_limit: matches!(self, V6_12) || self.since(V6_18),
            write_zeroes_honours_chunk: self.since(V6_12),
            scsi_default_is_io_opt: !self.since(V6_12),
            null_blk_takes_any_address: self.since(V6_19),
            nvme_lists_need_no_boundary: self.since(V6_19),
            nvme_max_segments: self.nvme_max_segments(),
            nvme_discard_granularity_of_namespace: self.since(V7_2),
            nvme_states_io_opt: !self.since(V6_12),
            nvme_integrity_segment: self.since(V6_12),
            atomic_writes: self.since(V6_12),
            atomic_writes_within_chunk: self.since(V6_18),
            iostats_passthrough_attribute: self.since(V6_16),
            write_stream_attributes: self.since(V6_16),
            write_zeroes_unmap_attributes: self.since(V6_18),
            none_listed_first: self.since(V6_12),
            direct_fill_per_folio: self.since(V7_0),
            flush_data_through_scheduler: self.since(V6_6),
            ioprio_in_events: self.since(V6_12),
            io_start_events: self.since(V6_6),
            unplug_event_on_direct_issue: self.since(V6_12),
            deadline_wakes_in_batches: self.since(V7_0),
            tag_wait_event: self.since(V7_2),
            error_injection: self.since(V7_2),
            atomic_write_is_u: self.since(V6_16),
            write_zeroes_is_wz: self.since(V6_19),
            blktrace_version_8: self.since(V6_19),
            blkdev_writes_take_plug: !self.since(V6_6),
            implicit_plug: self.since(V6_12) && !self.since(V7_2),
            whole_map_shallow_depth: matches!(self, V6_12) || self.since(V6_18),
            queue_async_depth: self.since(V7_0),
            write_hint_blocks_merge: !matches!(self, V6_1 | V6_6),
            deadline_classes: self.since(V5_15),
            deadline_ages: self.since(V6_1),
            deadline_position: self.since(V6_6),
            // 6.12.117 and 6.18.44 have it by back-port.
            deadline_head_list_per_device: matches!(self, V6_12) || self.since(V6_18),
            kyber_limits_sync_writes: self.since(V6_18),
            bfq_counts_root_group: self.since(V6_6),
            bfq_clock_kept_in_plug: self.since(V6_12),
            bfq_big_injection_waits: self.since(V6_12),
            in_flight_from_allocation: self.since(V6_12),
            // 6.1.93 includes the fix of 6.10; 6.6.0 does not.
            io_ticks: match self {
                Self::V5_10 | V5_15 | V6_6 => IoTicksForm::Sampled,
                _ => IoTicksForm::Precise,
            },
            iomap_reads_are_sync: self.since(V6_18),
            iomap_small_reads_are_plain: self.since(V7_3),
            readahead_keeps_position: self.since(V5_15),
            readahead_async_by_marker: self.since(V6_12),
            readahead_marks_folio: matches!(self, V6_16),
            readahead_ends_on_folio: self.since(V6_18),
            readahead_marks_end_of_file: !self.since(V7_2),
            working_set_keeps_misses: self.since(V6_12),
            locked_page_keeps_misses: self.since(V6_18),
            fault_wait_is_major: !self.since(V6_12),
            random_mapping_is_no_use: self.since(V6_6),
            reclaim_writes_file_pages: !self.since(V6_19),
            lru_gen_counts_first_use: self.since(V6_16),
            promote_to_rt: self.since(V6_6),
            throttle_slice_ms: if matches!(self, V6_16) { 20 } else { 100 },
            throttle_in_series: self.since(V6_16),
            io_cost_keeps_busy_level: self.since(V7_1),
            io_cost_turns_wbt_off: self.since(V6_6),
            wbt_shown_off_under_bfq: self.since(V6_12),
        }
    }
}

/// Parses major and minor number of a version such as `6.18`, `v6.18`, `6.18.3` or `6.18.3-amd64`.
fn version(text: &str) -> Option<(u32, u32)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers = text.split(['-', '+']).next().unwrap_or(text);
    let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    // A third number is the stable release; anything more is not a version.
    let is_whole = parts.next().is_none_or(|stable| stable.is_some()) && parts.next().is_none();
    is_whole.then_some((major, minor))
}

impl IoTicksForm {
    /// Every form, in historical order.
    pub const ALL: [Self; 4] = [Self::Sampled, Self::Inflight, Self::Precise, Self::Exact];

    /// Returns the name of the form for `--set io_ticks=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Inflight => "inflight",
            Self::Precise => "precise",
            Self::Exact => "exact",
        }
    }
}
