//! Worked examples of limits: derivation, validation, and every row of the sysfs table.

extern crate alloc;
use alloc::format;
use alloc::string::ToString;
use proptest::prelude::*;

use super::*;
use crate::kernel::Kernel;

fn valid(limits: QueueLimits, kernel: Kernel) -> QueueLimits {
    let mut limits = limits;
    limits.validate(&kernel.rules()).unwrap();
    limits
}

fn with_hw(sectors: u64) -> QueueLimits {
    QueueLimits { max_hw_sectors: Sectors::new(sectors), ..QueueLimits::default() }
}

#[test]
fn max_sectors_is_derived_by_version() {
    let derived = |limits: QueueLimits| {
        [Kernel::V6_1, Kernel::V6_6, Kernel::V6_12, Kernel::V6_18]
            .map(|kernel| valid(limits.clone(), kernel).max_sectors.get())
    };
    assert_eq!(derived(with_hw(65535)), [2560, 2560, 2560, 8192]);
    assert_eq!(derived(with_hw(1024)), [1024; 4]);
    assert_eq!(
        derived(QueueLimits { max_user_sectors: Sectors::new(1024), ..with_hw(65535) }),
        [1024; 4]
    );
    assert_eq!(
        derived(QueueLimits { io_opt: 2 << 20, ..with_hw(65535) }),
        [2560, 2560, 4096, 8192]
    );
    assert_eq!(derived(QueueLimits { logical_block_size: 4096, ..with_hw(2047) }), [2040; 4]);
    assert_eq!(
        derived(QueueLimits { max_dev_sectors: Sectors::new(512), ..with_hw(65535) }),
        [512; 4]
    );
    assert_eq!(
        derived(QueueLimits { io_min: 8 << 20, ..with_hw(65535) }),
        [2560, 2560, 16384, 16384]
    );
}

#[test]
fn a_users_limit_is_refused_or_clamped_by_version() {
    for (kernel, above, zero) in
        [(Kernel::V6_1, None, None), (Kernel::V6_18, Some(1024), Some(1024))]
    {
        let rules = kernel.rules();
        let set = |kb| {
            let mut limits = valid(with_hw(1024), kernel);
            limits.set_user_max_sectors_kb(kb, &rules).ok().map(|()| limits.max_sectors.get())
        };
        assert_eq!((set(513), set(0)), (above, zero));
        assert_eq!((set(512), set(4), set(3), set(257)), (Some(1024), Some(8), None, Some(514)));
    }
    let mut limits = valid(with_hw(1024), Kernel::V6_1);
    let error = limits.set_user_max_sectors_kb(513, &Kernel::V6_1.rules()).unwrap_err();
    assert_eq!(error.to_string(), "max_sectors_kb=513: out of range; must be 4 to 512 KiB");
    assert_eq!(limits.max_sectors, Sectors::new(1024));
}

#[test]
fn what_is_unset_or_too_small_is_fixed_silently() {
    let limits = valid(
        QueueLimits {
            logical_block_size: 4096,
            physical_block_size: 512,
            io_min: 0,
            io_opt: 100_000,
            max_hw_sectors: Sectors::ZERO,
            max_segments: 0,
            max_discard_segments: 0,
            seg_boundary_mask: 0,
            max_segment_size: 0,
            discard_granularity: 65536,
            fua: true,
            ..QueueLimits::default()
        },
        Kernel::V6_18,
    );
    assert_eq!((limits.physical_block_size, limits.io_min, limits.io_opt), (4096, 4096, 98304));
    assert_eq!((limits.max_hw_sectors.get(), limits.max_sectors.get()), (248, 248));
    assert_eq!((limits.max_segments, limits.max_discard_segments), (128, 1));
    assert_eq!((limits.seg_boundary_mask, limits.max_segment_size), (0xffff_ffff, 65536));
    assert_eq!((limits.discard_granularity, limits.fua), (0, false));
    let nvme =
        valid(QueueLimits { virt_boundary_mask: 4095, ..QueueLimits::default() }, Kernel::V6_18);
    assert_eq!(nvme.max_segment_size, u32::MAX);
    let discard =
        QueueLimits { max_hw_discard_sectors: Sectors::new(64), ..QueueLimits::default() };
    assert_eq!(valid(discard, Kernel::V6_18).discard_granularity, 512);
}

#[test]
fn validation_is_idempotent() {
    for kernel in Kernel::ALL {
        let once = valid(
            QueueLimits { io_opt: 3 << 20, virt_boundary_mask: 4095, ..with_hw(5001) },
            kernel,
        );
        assert_eq!(valid(once.clone(), kernel), once);
    }
}

#[test]
fn errors_say_what_would_be_right_and_change_nothing() {
    let base = QueueLimits::default;
    for (limits, text) in [
        (
            QueueLimits { logical_block_size: 1000, ..base() },
            "logical_block_size=1000: must be a power of two, 512 to 4096 bytes",
        ),
        (
            QueueLimits { logical_block_size: 8192, ..base() },
            "logical_block_size=8192: must be a power of two, 512 to 4096 bytes",
        ),
        (
            QueueLimits { physical_block_size: 5000, ..base() },
            "physical_block_size=5000: must be a power of two, 512 to 2147483648 bytes",
        ),
        (with_hw(4), "max_hw_sectors_kb=2: out of range; must be at least 4 KiB"),
        (
            QueueLimits { max_user_sectors: Sectors::new(2), ..base() },
            "max_sectors_kb=1: out of range; must be at least 4 KiB",
        ),
        (
            QueueLimits { seg_boundary_mask: 511, ..base() },
            "seg_boundary_mask=511: must be a power of two minus one (such as 4095), at least 4095",
        ),
        (
            QueueLimits { virt_boundary_mask: 4096, ..base() },
            "virt_boundary_mask=4096: must be a power of two minus one (such as 4095), at least 0",
        ),
        (
            QueueLimits { max_segment_size: 512, ..base() },
            "max_segment_size=512: out of range; must be 4096 to 4294967295 bytes",
        ),
        (
            QueueLimits { dma_alignment: 8191, ..base() },
            "dma_alignment=8191: must be a power of two minus one (such as 4095), 0 to 4095",
        ),
        (
            QueueLimits { logical_block_size: 4096, chunk_sectors: Sectors::new(100), ..base() },
            "chunk_sectors=100: must be a multiple of 8 sectors, such as 96 or 104",
        ),
        (
            QueueLimits { zoned: true, max_open_zones: 9, max_active_zones: 8, ..base() },
            "max_open_zones=9: out of range; must be 0 to 8 zones",
        ),
        (
            QueueLimits { max_open_zones: 9, ..base() },
            "max_open_zones=9: the device has no zones; must be 0",
        ),
    ] {
        let mut changed = limits.clone();
        let error = changed.validate(&Kernel::V6_18.rules()).expect_err(text);
        assert_eq!(error.to_string(), text);
        assert_eq!(changed, limits);
    }
}

#[test]
fn before_6_9_small_values_were_raised() {
    let small = QueueLimits { seg_boundary_mask: 511, max_segment_size: 512, ..with_hw(4) };
    let limits = valid(small, Kernel::V6_6);
    let all = (limits.max_hw_sectors.get(), limits.seg_boundary_mask, limits.max_segment_size);
    assert_eq!(all, (8, 4095, 4096));
}

#[test]
fn zones_bound_their_append() {
    let zoned = QueueLimits {
        zoned: true,
        chunk_sectors: Sectors::new(512),
        max_zone_append_sectors: Sectors::new(4096),
        ..with_hw(2048)
    };
    let limits = valid(zoned, Kernel::V6_18);
    assert_eq!((limits.max_zone_append_sectors.get(), limits.zone_write_granularity), (512, 512));
}

#[test]
fn support_follows_the_limits() {
    let mut limits = QueueLimits::default();
    for op in [Op::Discard, Op::SecureErase, Op::WriteZeroes, Op::ZoneAppend] {
        assert!(!limits.supports(op, Flags::NONE));
    }
    assert!(limits.supports(Op::Read, Flags::NOWAIT) && !limits.supports(Op::Write, Flags::ATOMIC));
    limits.max_hw_discard_sectors = Sectors::new(8);
    assert!(limits.supports(Op::Discard, Flags::NONE));
    limits.max_user_discard_sectors = Sectors::ZERO;
    limits.nowait = false;
    assert!(
        !limits.supports(Op::Discard, Flags::NONE) && !limits.supports(Op::Read, Flags::NOWAIT)
    );
}

#[test]
fn every_limit_is_reached_by_its_name() {
    let rules = Kernel::V6_18.rules();
    let mut limits = QueueLimits::default();
    for (name, value) in [
        ("max_hw_sectors_kb", 4096),
        ("max_dev_sectors_kb", 2048),
        ("max_sectors_kb", 512),
        ("logical_block_size", 1024),
        ("physical_block_size", 4096),
        ("minimum_io_size", 8192),
        ("optimal_io_size", 65536),
        ("max_segments", 64),
        ("max_segment_size", 32768),
        ("seg_boundary_mask", 0xffff),
        ("virt_boundary_mask", 4095),
        ("chunk_sectors", 256),
        ("dma_alignment", 3),
        ("discard_max_hw_bytes", 1 << 30),
        ("discard_granularity", 8192),
        ("discard_alignment", 4096),
        ("discard_max_bytes", 1 << 20),
        ("max_discard_segments", 16),
        ("write_cache", 1),
        ("fua", 1),
        ("rotational", 1),
    ] {
        limits.set_sysfs(name, value, &rules).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(limits.read(name), Some(value as i64), "{name}");
    }
    assert_eq!(limits.read("hw_sector_size"), Some(1024));
    assert_eq!(limits.read("colour"), None);
}

#[test]
fn setting_is_checked() {
    let rules = Kernel::V6_18.rules();
    let mut limits =
        QueueLimits { max_hw_discard_sectors: Sectors::new(4096), ..QueueLimits::default() };
    limits.discard_granularity = 4096;
    let mut refused = |name, value| limits.set_sysfs(name, value, &rules).unwrap_err().to_string();
    assert_eq!(
        refused("max_segments", 65536),
        "max_segments=65536: out of range; must be 1 to 65535"
    );
    assert_eq!(refused("max_segments", 0), "max_segments=0: out of range; must be 1 to 65535");
    assert_eq!(
        refused("max_discard_segments", 0),
        "max_discard_segments=0: out of range; must be 1 to 65535"
    );
    assert_eq!(
        refused("seg_boundary_mask", 0),
        "seg_boundary_mask=0: must be a power of two minus one (such as 4095), at least 4095"
    );
    assert!(
        refused("max_hw_sectors_kb", 0)
            .starts_with("max_hw_sectors_kb=0: out of range; must be 4 to ")
    );
    for (name, reason) in [
        ("alignment_offset", "no device is stacked"),
        ("zoned", "no device here has zones"),
        ("max_open_zones", "no device here has zones"),
        ("max_active_zones", "no device here has zones"),
        ("zone_append_max_bytes", "no device here has zones"),
        ("zone_write_granularity", "no device here has zones"),
        ("write_zeroes_max_bytes", "write-zeroes"),
        ("secure_erase_max_bytes", "secure erases"),
        ("nowait", "every device here takes them"),
        ("io_poll", "nothing polls"),
    ] {
        let error = refused(name, 1);
        assert!(
            error.starts_with(&format!("{name}: cannot be set: ")) && error.contains(reason),
            "{error}"
        );
    }
    assert_eq!(
        refused("hw_sector_size", 512),
        "hw_sector_size: follows from other limits and cannot be set"
    );
    assert!(
        refused("discard_max_bytes", 4097)
            .ends_with("must be a multiple of 4096 bytes, such as 4096 or 8192")
    );
    assert!(
        refused("max_sector_kb", 1)
            .starts_with("max_sector_kb: no queue limit has this name; there are: logical_")
    );
    assert!(refused("max_sectors_kb", u64::MAX).contains("out of range"));
    assert!(refused("logical_block_size", 8192).contains("512 to 4096"));
}

#[test]
fn rows_are_unique_and_read_what_is_there() {
    for (i, row) in SYSFS.iter().enumerate() {
        assert!(SYSFS[..i].iter().all(|other| other.name != row.name), "{} twice", row.name);
        assert!(!row.help.is_empty());
        assert!(QueueLimits::default().read(row.name).is_some());
    }
}

#[test]
fn the_largest_atomic_write_alone_is_enough() {
    let rules = Kernel::V6_18.rules();
    let mut limits = valid(with_hw(2048), Kernel::V6_18);
    limits.set_sysfs("atomic_write_max_bytes", 100_000, &rules).unwrap();
    assert_eq!((limits.atomic_write_unit_min, limits.atomic_write_unit_max), (512, 65536));
    limits.set_sysfs("atomic_write_unit_max_bytes", 16384, &rules).unwrap();
    limits.set_sysfs("atomic_write_boundary_bytes", 32768, &rules).unwrap();
    for (name, value) in
        [("unit_max", 131_072), ("unit_max", 3000), ("unit_min", 32768), ("boundary", 8192)]
    {
        assert!(
            limits.set_sysfs(&format!("atomic_write_{name}_bytes"), value, &rules).is_err(),
            "{name}={value}"
        );
    }
    assert_eq!((limits.atomic_write_unit_max, limits.atomic_write_boundary), (16384, 32768));
    limits.set_sysfs("atomic_write_max_bytes", 0, &rules).unwrap();
    assert_eq!(limits, valid(with_hw(2048), Kernel::V6_18), "without atomic writes all are 0");
}

#[test]
fn atomic_writes_are_within_hardware_and_chunk() {
    let with = |chunk: u64, kernel: Kernel| {
        let limits = QueueLimits {
            chunk_sectors: Sectors::new(chunk),
            atomic_write_max: 65536,
            atomic_write_unit_min: 16384,
            ..with_hw(64)
        };
        let limits = valid(limits, kernel);
        (limits.atomic_write_max, limits.atomic_write_unit_min, limits.atomic_write_unit_max)
    };
    for kernel in [Kernel::V6_16, Kernel::V6_18] {
        assert_eq!(with(0, kernel), (32768, 16384, 32768), "32 KiB of hardware");
    }
    // 24 KiB, of which no aligned 16 KiB may be a part of two.
    assert_eq!(with(48, Kernel::V6_16), (32768, 16384, 32768));
    assert_eq!(with(48, Kernel::V6_18), (24576, 8192, 8192));
}

/// Generates a setting that may or may not be valid: values near the usual ones, and arbitrary
/// ones.
fn any_setting() -> impl Strategy<Value = (&'static str, u64)> {
    let value = prop_oneof![
        4 => (0u32..24).prop_map(|k| 1u64 << k),
        2 => (0u32..34).prop_map(|k| (1u64 << k) - 1),
        2 => 0u64..5000,
        1 => any::<u64>(),
    ];
    (prop::sample::select(SYSFS).prop_map(|row| row.name), value)
}

/// Generates limits that result from a sequence of settings; refused settings changed nothing.
fn any_valid() -> impl Strategy<Value = (QueueLimits, Kernel)> {
    let kernel = prop::sample::select(&Kernel::ALL[..]);
    // Zones, which cannot be set by text, and atomic writes, as a driver would report them.
    let driver = (any::<bool>(), 0u32..4096, 9u32..18);
    (prop::collection::vec(any_setting(), 0..40), kernel, driver).prop_map(
        |(settings, kernel, driver)| {
            let (zoned, zones, atomic) = driver;
            let mut limits = valid(
                QueueLimits {
                    zoned,
                    max_open_zones: if zoned { zones / 2 } else { 0 },
                    max_active_zones: if zoned { zones } else { 0 },
                    atomic_write_max: 1 << atomic,
                    atomic_write_unit_max: 1 << atomic,
                    atomic_write_unit_min: 512,
                    ..with_hw(65535)
                },
                kernel,
            );
            for (name, value) in settings {
                let before = limits.clone();
                if limits.set_sysfs(name, value, &kernel.rules()).is_err() {
                    assert_eq!(limits, before);
                }
            }
            (limits, kernel)
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_set_the_limits_stay_consistent((limits, kernel) in any_valid()) {
        prop_assert_eq!(valid(limits.clone(), kernel), limits.clone());
        let block = u64::from(limits.logical_block_size) / 512;
        prop_assert!(limits.max_sectors.get() >= 8 && limits.max_sectors.get().is_multiple_of(block));
        prop_assert!(limits.max_sectors <= limits.max_hw_sectors);
        prop_assert!(limits.physical_block_size >= limits.logical_block_size);
        prop_assert!(limits.max_segments > 0 && limits.max_segment_size >= limits.logical_block_size);
        prop_assert!(limits.write_cache || !limits.fua);
        prop_assert!(limits.max_hw_discard_sectors.is_zero() == (limits.discard_granularity == 0));
    }

    #[test]
    fn every_valid_set_splits_to_the_end(
        (limits, kernel) in any_valid(),
        op in prop::sample::select(&[Op::Read, Op::Write, Op::Discard, Op::SecureErase, Op::WriteZeroes][..]),
        sector in 0u64..1 << 54,
        blocks in 1u64..3000,
    ) {
        let block = u64::from(limits.logical_block_size) / 512;
        let mut bio = crate::split::tests::bio(op, sector / block * block, blocks * block);
        let layout = crate::layout::Layout::from_run_pages((0..3000).map(|i| 1 + i % 3));
        let mut steps = 0;
        loop {
            match crate::split::split(&bio, Some(&layout), &limits, &kernel.rules()) {
                crate::split::Split::Whole { .. } => break,
                crate::split::Split::Cut { sectors, .. } => {
                    prop_assert!(!sectors.is_zero() && sectors < bio.sectors());
                    bio.sector = bio.sector + sectors;
                    bio.bytes -= sectors.bytes();
                    bio.data.offset += sectors.bytes().get();
                }
                crate::split::Split::Fail(status) => {
                    // A write to a zone cannot be split at less than its granularity.
                    prop_assert!(op == Op::Write && limits.zoned, "{:?} {:?}", status, bio);
                    break;
                }
            }
            steps += 1;
            prop_assert!(steps <= blocks);
        }
    }
}
