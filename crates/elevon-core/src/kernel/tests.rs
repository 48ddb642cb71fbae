use super::*;

#[test]
fn versions_are_read_as_people_write_them() {
    for (name, kernel) in [
        ("6.1", Some(Kernel::V6_1)),
        ("v6.18", Some(Kernel::V6_18)),
        ("6.1.55", Some(Kernel::V6_1)),
        ("6.12.0-18-amd64", Some(Kernel::V6_12)),
        ("6.6.30+", Some(Kernel::V6_6)),
        ("7.3", Some(Kernel::V7_3)),
        ("7.3.4+deb13-amd64", Some(Kernel::V7_3)),
        ("5.10.209", Some(Kernel::V5_10)),
        ("6.10", None),
        ("5.4", None),
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
    }
}

#[test]
fn what_is_not_modelled_has_a_nearest_version() {
    for (name, words) in [
        ("4.19", "5.10 is the nearest"),
        ("5.12", "5.10 is the one before it, 5.15 the one after it"),
        ("6.8", "6.6 is the one before it, 6.12 the one after it"),
        ("v6.17.3", "6.16 is the one before it, 6.18 the one after it"),
        ("7.4", "7.3 is the nearest"),
        ("latest", "a version is written as"),
    ] {
        assert!(Kernel::instead_of(name).contains(words), "{name}: {}", Kernel::instead_of(name));
    }
}

#[test]
fn versions_are_ordered_by_age() {
    let numbers = Kernel::ALL.map(|kernel| version(kernel.name()).expect("a version"));
    assert!(numbers.is_sorted());
    assert!(Kernel::ALL.is_sorted());
}

#[test]
fn the_rows_are_the_rules() {
    for from in Kernel::ALL {
        for to in Kernel::ALL {
            let (source, mut copy) = (from.rules(), to.rules());
            for row in RULES {
                assert!(row.is_same(&source, &source), "{}", row.name);
                (row.copy)(&source, &mut copy);
            }
            assert_eq!(copy, source, "a field of Rules has no row");
        }
    }
    // Every row differs between two versions, else it would be no rule.
    for row in RULES {
        let differs = Kernel::ALL.windows(2).any(|w| !row.is_same(&w[0].rules(), &w[1].rules()));
        assert!(differs, "{} is the same in all versions", row.name);
    }
}

/// Every change from 6.18 to 7.3 that is known of the block layer, the page cache and the drivers
/// that the devices imitate, and the rule that has it, or the row that says why none does.
#[test]
fn every_known_change_is_a_rule_or_has_a_reason() {
    const KNOWN: [(&str, &str); 28] = [
        ("implicit plug of a lone bio", "implicit_plug"),
        ("a lone request under a scheduler is dispatched by a worker", "implicit_plug"),
        ("a vector for each folio", "direct_fill_per_folio"),
        (
            "queue/async_depth with its defaults, its scaling and the formula of BFQ",
            "queue_async_depth",
        ),
        ("Kyber limits synchronous writes", "kyber_limits_sync_writes"),
        ("I/O of a partition in flight on the disk", "partition_in_flight_on_disk"),
        ("small reads through a file system", "iomap_small_reads_are_plain"),
        ("start times of a plug that is flushed early", "plug_time_dropped_at_mid_flush"),
        ("WZ in events", "write_zeroes_is_wz"),
        ("blktrace version 8", "blktrace_version_8"),
        ("wake batches under mq-deadline", "deadline_wakes_in_batches"),
        ("block_rq_tag_wait", "tag_wait_event"),
        ("error injection", "error_injection"),
        ("where alignment is tested", "alignment_checked"),
        ("busy level of io.cost in a period without completions", "io_cost_keeps_busy_level"),
        ("removal of a throttled group and of the disk", "throttle_group_removal_at_once"),
        ("slices of io.max", "throttle_slice_ms"),
        ("reclaim and dirty file pages", "reclaim_writes_file_pages"),
        ("misses of mappings", "mapped_misses_counted_once"),
        ("MGLRU of 7.2", "mglru_keeps_dirty_pages"),
        ("MGLRU of 7.3", "mglru_promotes_executable_pages"),
        ("readahead's marker at the end of a file", "readahead_marks_end_of_file"),
        ("read-ahead of rotational disks", "read_ahead_from_max_sectors"),
        ("virt boundary of NVMe", "nvme_lists_need_no_boundary"),
        ("discard granularity of NVMe", "nvme_discard_granularity_of_namespace"),
        ("an NBD queue for each socket", "nbd_queue_per_socket"),
        ("write streams and merging", "write_stream_blocks_merge"),
        ("one write at a time on rotational zoned disks", "zoned_qd1_writes"),
    ];
    for (change, name) in KNOWN {
        let is_rule = RULES.iter().any(|row| row.name == name);
        let reasons = UNMODELLED.iter().filter(|row| row.name == name).count();
        assert_eq!(usize::from(is_rule) + reasons, 1, "{change}: {name}");
    }
    for row in UNMODELLED {
        assert!(
            KNOWN.iter().any(|(_, name)| *name == row.name),
            "{} is of no known change",
            row.name
        );
    }
}
