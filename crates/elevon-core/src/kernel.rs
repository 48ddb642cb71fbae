//! The rules of each kernel version.
//!
//! `--kernel` selects a [`Kernel`]; [`Kernel::rules`] returns what differs between versions. A
//! variant is a concrete release, because stable back-ports changed several rules: `6.1` is 6.1.187
//! (measured), `6.6` is the first release of that series, `6.12` is 6.12.117, `6.18` is 6.18.44
//! (measured).

/// A kernel version whose rules the stack follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// 6.1.187.
    V6_1,
    /// 6.6.0.
    V6_6,
    /// 6.12.117.
    V6_12,
    /// 6.18.44.
    #[default]
    V6_18,
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
    /// A secure erase is split at its own limit (6.12.75+) instead of the limit of a discard.
    pub secure_erase_has_own_limit: bool,
    /// A split write-zeroes honours chunk size and physical block size (6.13, 6.12.117).
    pub write_zeroes_honours_chunk: bool,
    /// The DATA step of a flush sequence goes through the scheduler (6.5+).
    pub flush_data_through_scheduler: bool,
    /// Request events carry the ioprio (6.11+).
    pub ioprio_in_events: bool,
    /// `block_io_start` and `block_io_done` exist (6.5+).
    pub io_start_events: bool,
    /// A plug that is flushed directly to the driver emits U (6.12+).
    pub unplug_event_on_direct_issue: bool,
    /// A bio without a plug gets its own plug (6.10+).
    pub implicit_plug: bool,
    /// A shallow depth counts tags of the whole map (6.17, 6.12.y) instead of positions in each
    /// word.
    pub whole_map_shallow_depth: bool,
    /// Bios with different write hints do not merge (6.9+).
    pub write_hint_blocks_merge: bool,
    /// mq-deadline continues from a position (6.5+) instead of from a pointer to the next request.
    pub deadline_position: bool,
    /// mq-deadline keeps one at-head list for the device (6.12) instead of one per class.
    pub deadline_head_list_per_device: bool,
    /// BFQ counts the root among the groups whose presence requires idling, and requires two
    /// (6.2+). Before, any group except the root was enough.
    pub bfq_counts_root_group: bool,
    /// BFQ injects large requests only into an empty device (6.12), instead of at a limit of one.
    pub bfq_big_injection_waits: bool,
    /// The in-flight column counts from allocation (6.10+) instead of from issue.
    pub in_flight_from_allocation: bool,
    /// The default io_ticks form.
    pub io_ticks: IoTicksForm,
    /// Direct reads through a file system (iomap) carry SYNC, as measured on 6.18.
    pub iomap_reads_are_sync: bool,
    /// Readahead continues from a marker only; a first window that its request fills is half behind
    /// its marker; and no window includes the next (6.11+).
    pub readahead_async_by_marker: bool,
    /// A window that follows a marker ends where its folios end; their order grows by two from
    /// window to window (measured on 6.18).
    pub readahead_ends_on_folio: bool,
    /// The multi-generational LRU counts a page's references from its REFERENCED flag on (6.14+),
    /// instead of from its WORKINGSET flag.
    pub lru_gen_counts_first_use: bool,
    /// `io.prio.class` has `promote-to-rt`, and `none-to-rt` is another name for it (6.5+).
    pub promote_to_rt: bool,
    /// A throttling slice of a non-rotational disk, in ms; of a rotational disk it is 100. From
    /// 6.10 it was 20, until late stable releases of 6.18 returned to 100 (measured on 6.18.44).
    pub throttle_slice_ms: u64,
    /// Trimming a throttled group keeps one finished slice (6.14+), and bytes and I/Os are tested
    /// one after the other (6.16+).
    pub throttle_in_series: bool,
}

impl Kernel {
    /// Every version, oldest first.
    pub const ALL: [Self; 4] = [Self::V6_1, Self::V6_6, Self::V6_12, Self::V6_18];

    /// Returns the name of the version for `--kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_6 => "6.6",
            Self::V6_12 => "6.12",
            Self::V6_18 => "6.18",
        }
    }

    /// Returns the release whose rules these are: stable releases of one version differ.
    pub const fn release(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1.187",
            Self::V6_6 => "6.6.0",
            Self::V6_12 => "6.12.117",
            Self::V6_18 => "6.18.44",
        }
    }

    /// Parses a version name that `--kernel` accepts: `6.18`, also as `v6.18`, as a stable release
    /// (`6.18.3`) or as `uname -r` prints it (`6.18.3-amd64`). All releases of a version have the
    /// same rules here, those of [`Self::release`].
    pub fn from_name(name: &str) -> Option<Self> {
        let (major, minor) = version(name)?;
        Self::ALL.into_iter().find(|kernel| version(kernel.name()) == Some((major, minor)))
    }

    /// Returns which version to use in place of one that is not modelled, as the end of an error
    /// message: the nearest version and, for kernels that many devices run, the differences.
    pub fn instead_of(name: &str) -> &'static str {
        match version(name) {
            Some((5, 10 | 15)) => {
                "6.1 is the nearest; in 5.10 and 5.15 a plug went out oldest first, sorted by queue and sector, \
                 and io_ticks was `sampled` (--set io_ticks=sampled) unless the stable release has the fix of 6.10"
            }
            Some(version) if version < (6, 1) => "6.1 is the nearest; what differs is not modelled",
            Some(version) if version < (6, 6) => "6.1 is the one before it, 6.6 the one after it",
            Some(version) if version < (6, 12) => "6.6 is the one before it, 6.12 the one after it",
            Some(version) if version < (6, 18) => "6.12 is the one before it, 6.18 the one after it",
            Some(_) => "6.18 is the nearest",
            None => "a version is written as 6.18 or as 6.18.3",
        }
    }

    /// Returns the rules of this version.
    pub const fn rules(self) -> Rules {
        let at_least_6_6 = self as u8 >= Self::V6_6 as u8;
        let at_least_6_12 = self as u8 >= Self::V6_12 as u8;
        let at_least_6_18 = self as u8 >= Self::V6_18 as u8;
        Rules {
            plug_order: if at_least_6_12 { PlugOrder::Fifo } else { PlugOrder::Lifo },
            max_sectors_cap: if at_least_6_18 { 8192 } else { 2560 },
            clamp_user_max_sectors: at_least_6_12,
            io_opt_raises_max_sectors: at_least_6_12,
            limits_validated_as_a_set: at_least_6_12,
            io_opt_rounded_to_physical_block: at_least_6_18,
            secure_erase_has_own_limit: at_least_6_12,
            write_zeroes_honours_chunk: at_least_6_12,
            flush_data_through_scheduler: at_least_6_6,
            ioprio_in_events: at_least_6_12,
            io_start_events: at_least_6_6,
            unplug_event_on_direct_issue: at_least_6_12,
            implicit_plug: at_least_6_12,
            whole_map_shallow_depth: at_least_6_12,
            write_hint_blocks_merge: at_least_6_12,
            deadline_position: at_least_6_6,
            deadline_head_list_per_device: at_least_6_12,
            bfq_counts_root_group: at_least_6_6,
            bfq_big_injection_waits: at_least_6_12,
            in_flight_from_allocation: at_least_6_12,
            // 6.1.93 includes the fix of 6.10; 6.6.0 does not.
            io_ticks: match self {
                Self::V6_6 => IoTicksForm::Sampled,
                Self::V6_1 | Self::V6_12 | Self::V6_18 => IoTicksForm::Precise,
            },
            iomap_reads_are_sync: at_least_6_18,
            readahead_async_by_marker: at_least_6_12,
            readahead_ends_on_folio: at_least_6_18,
            lru_gen_counts_first_use: at_least_6_18,
            promote_to_rt: at_least_6_6,
            throttle_slice_ms: match self {
                Self::V6_12 => 20,
                Self::V6_1 | Self::V6_6 | Self::V6_18 => 100,
            },
            throttle_in_series: at_least_6_18,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (name, kernel) in [
            ("6.1", Some(Kernel::V6_1)),
            ("v6.18", Some(Kernel::V6_18)),
            ("6.1.55", Some(Kernel::V6_1)),
            ("6.12.0-18-amd64", Some(Kernel::V6_12)),
            ("6.6.30+", Some(Kernel::V6_6)),
            ("6.10", None),
            ("5.15", None),
            ("6", None),
            ("6.1.x", None),
            ("6.1.2.3", None),
            ("6.18foo", None),
            ("", None),
        ] {
            assert_eq!(Kernel::from_name(name), kernel, "{name}");
        }
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::from_name(kernel.name()), Some(kernel));
            assert_eq!(Kernel::from_name(kernel.release()), Some(kernel));
        }
    }

    #[test]
    fn what_is_not_modelled_has_a_nearest_version() {
        for (name, words) in [
            ("5.10", "6.1 is the nearest; in 5.10 and 5.15"),
            ("v5.15.123", "io_ticks=sampled"),
            ("4.19", "6.1 is the nearest"),
            ("6.8", "6.6 is the one before it"),
            ("7.0", "6.18 is the nearest"),
            ("latest", "a version is written as"),
        ] {
            assert!(Kernel::instead_of(name).contains(words), "{name}: {}", Kernel::instead_of(name));
        }
    }
}
