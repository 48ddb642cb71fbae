//! The profiles: the parameters of each device, with the source of every figure.
//!
//! Each [`ValueSource`] names the parameters that are based on it. A parameter without a source
//! is an estimate, and `elevon devices NAME` marks it so. `fitted` means that the value was
//! chosen so that the model gives the published figure named with it; all other results of the
//! model are then predictions. A figure that is only remembered is an estimate, and nothing is
//! compared with it.

use super::limits::Class;
use super::references::*;
use super::{Base, Basis, Presented, Profile, Published, Reference, ValueSource};
use crate::device::HddParameters;

type Names = &'static [&'static str];

/// The source states the values.
const fn stated(
    parameters: Names,
    value: &'static str,
    reference: &'static Reference,
) -> ValueSource {
    ValueSource { parameters, value, basis: Basis::Stated, reference }
}

/// The values were chosen so that the model gives what the source states.
const fn fitted(
    parameters: Names,
    value: &'static str,
    reference: &'static Reference,
) -> ValueSource {
    ValueSource { parameters, value, basis: Basis::Fitted, reference }
}

/// The source makes the values plausible.
const fn estimated(
    parameters: Names,
    value: &'static str,
    reference: &'static Reference,
) -> ValueSource {
    ValueSource { parameters, value, basis: Basis::Estimated, reference }
}

/// Returns a published IOPS figure of 4 KiB random reads, with the maximum deviation of the model
/// in percent.
const fn random_read(
    depth: u32,
    iops: f64,
    within: f64,
    reference: &'static Reference,
) -> Published {
    Published {
        write: false,
        random: true,
        bytes: 4096,
        depth,
        value: iops,
        within,
        note: "",
        reference,
    }
}

const fn random_write(
    depth: u32,
    iops: f64,
    within: f64,
    reference: &'static Reference,
) -> Published {
    Published { write: true, ..random_read(depth, iops, within, reference) }
}

/// A published rate in MB/s of sequential reads or writes in large requests.
const fn sequential(
    write: bool,
    rate: f64,
    within: f64,
    reference: &'static Reference,
) -> Published {
    Published {
        write,
        random: false,
        bytes: 512 << 10,
        depth: 8,
        value: rate,
        within,
        note: "",
        reference,
    }
}

const fn noted(note: &'static str, published: Published) -> Published {
    Published { note, ..published }
}

/// A model behind a driver whose limits differ between kernel versions.
const fn presented(model: &'static str, settings: &'static str, driver: Presented) -> Base {
    Base::Model { model, settings, presented: Some(driver) }
}

/// All profiles.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "null",
        summary: "completes at once, or after a constant latency",
        base: Base::Model { model: "null", settings: "", presented: None },
        sources: &[stated(
            &["max_hw_sectors_kb", "max_segments"],
            "1280 KiB, 128 segments, depth 64",
            NULL_BLK,
        )],
        published: &[],
    },
    Profile {
        name: "null-blk",
        summary: "null_blk as each kernel presents it",
        base: presented("null", "size=250GiB,latency=10us,queue_depth=64", Presented::NullBlk),
        sources: &[
            stated(
                &["max_hw_sectors_kb", "max_segments", "dma_alignment"],
                "by kernel, 6.1 to 7.3",
                MATRIX,
            ),
            stated(&[], "depth 64, one queue", NULL_BLK),
        ],
        published: &[],
    },
    Profile {
        name: "virtio-blk",
        summary: "virtio-blk of QEMU as each kernel presents it; what it takes is the host's: estimates",
        base: presented(
            "slots",
            "size=64GiB,slots=16,latency=100us,bandwidth=1GB/s,hw_queues=2,queue_depth=256",
            Presented::VirtioBlk,
        ),
        sources: &[stated(
            &["max_hw_sectors_kb", "max_segments", "rotational"],
            "by kernel, 6.1 to 7.3",
            MATRIX,
        )],
        published: &[],
    },
    Profile {
        name: "qemu-nvme",
        summary: "the NVMe disk of QEMU as each kernel presents it; what it takes is the host's: estimates",
        base: presented(
            "slots",
            "size=64GiB,slots=16,latency=80us,bandwidth=1GB/s,hw_queues=2,queue_depth=1023",
            Presented::QemuNvme,
        ),
        sources: &[stated(
            &["max_hw_sectors_kb", "max_segments", "virt_boundary_mask", "discard_granularity"],
            "by kernel, 6.1 to 7.3",
            MATRIX,
        )],
        published: &[],
    },
    Profile {
        name: "scsi-disk",
        summary: "scsi_debug as each kernel presents it: io_opt of 512 KiB; times are estimates",
        base: presented(
            "slots",
            "size=64GiB,slots=16,latency=100us,bandwidth=1GB/s,hw_queues=1,queue_depth=192",
            Presented::ScsiDisk,
        ),
        sources: &[stated(
            &["max_hw_sectors_kb", "max_segments", "optimal_io_size"],
            "by kernel, 6.1 to 7.3",
            MATRIX,
        )],
        published: &[],
    },
    Profile {
        name: "hdd-2009",
        summary: "7200 rpm SATA disk of 2009, 500 GB",
        base: Base::Disk(&HddParameters::HDD_2009),
        sources: &[
            stated(&["outer_rate"], "58-100 MB/s over disks of that time", TECHREPORT),
            stated(
                &["max_hw_sectors_kb", "max_segments"],
                "1024 sectors, 128 segments",
                BLKDEV_2_6,
            ),
            stated(&["queue_depth"], "32 less one", LIBATA),
        ],
        published: &[],
    },
    Profile {
        name: "hdd-7200",
        summary: "7200 rpm SATA disk of the 2010s (Constellation ES.3), 1 TB",
        base: Base::Disk(&HddParameters::HDD_7200),
        sources: &[
            stated(
                &["rpm", "outer_rate", "inner_rate"],
                "7200 rpm, 4.16 ms latency, 83 to 175 MB/s",
                CONSTELLATION,
            ),
            fitted(&[], "seek curve: least squares to 1792 points, rms 0.077 ms", DISKSIM),
            stated(&["hit_overhead"], "0.162 ms", DISKSIM),
        ],
        published: &[],
    },
    Profile {
        name: "hdd-nearline",
        summary: "7200 rpm nearline disk (one actuator of the Exos 2X14 class), 16 TB",
        base: Base::Disk(&HddParameters::HDD_NEARLINE_16T),
        sources: &[
            stated(
                &["outer_rate", "rpm", "cache"],
                "524 MB/s over two actuators, 7200 rpm, 256 MB",
                EXOS,
            ),
            fitted(&["margin"], "304 reads a second over two actuators", EXOS),
        ],
        published: &[noted(
            "304 over two actuators; depth not stated",
            random_read(16, 152.0, 1.0, EXOS),
        )],
    },
    Profile {
        name: "sata-ssd-plextor-m5s",
        summary: "SATA SSD of 2012 (proposal 002's drive), 256 GB",
        base: Base::Flash {
            class: Class::AtaSsd,
            settings: "size=256GB,queue_depth=32,dies=12,read_time=133.1us,fixed_latency=20us,write_latency=10us,\
                       command_on_link=1,read_command_cost=3us,write_command_cost=3us,duplex=0,unit=16KiB,\
                       read_link=530MB/s,write_link=530MB/s,buffer=16MiB,write_rate=390MB/s,scatter_cost=3.92us,\
                       program_time=750us,program_unit=32KiB,erase_block=2MiB,flush_time=2ms",
        },
        sources: &[
            fitted(&["read_time"], "25 MB/s at depth 1", PROPOSAL_002),
            fitted(&["dies"], "73,888 random reads a second at depth 32", TOMS),
            stated(&["read_link"], "515 MB/s sequential peak", LINARO),
            fitted(&["scatter_cost"], "69,346 random writes a second at depth 32", TOMS),
        ],
        published: &[
            noted("its baseline, 25 MB/s", random_read(1, 6104.0, 1.0, PROPOSAL_002)),
            noted("its `none`, 110 MB/s", random_read(5, 26_855.0, 1.0, PROPOSAL_002)),
            random_read(32, 73_888.0, 2.0, TOMS),
            random_write(32, 69_346.0, 1.0, TOMS),
            sequential(false, 515.0, 3.0, LINARO),
        ],
    },
    Profile {
        name: "sata-ssd-860evo",
        summary: "SATA SSD of 2018, 500 GB",
        base: Base::Flash {
            class: Class::AtaSsd,
            settings: "size=500107862016B,queue_depth=32,dies=32,read_time=84us,fixed_latency=10us,write_latency=12us,\
                       command_on_link=1,read_command_cost=2.6us,write_command_cost=2.6us,duplex=0,unit=16KiB,\
                       read_link=540MB/s,write_link=540MB/s,buffer=16MiB,write_rate=520MB/s,scatter_cost=3.49us,\
                       program_time=700us,program_unit=32KiB,erase_block=4MiB,flush_time=2ms",
        },
        sources: &[
            fitted(&["read_time"], "10,000 reads a second at depth 1 (850 EVO)", EVO_850),
            fitted(
                &["read_command_cost"],
                "flat near 400 MB/s of 4 KiB by depth 16",
                ANANDTECH_860,
            ),
            stated(&["read_link", "write_rate"], "550 and 520 MB/s", EVO_860),
            fitted(&["scatter_cost"], "88,000 random writes a second (850 EVO 120 GB)", EVO_850),
        ],
        published: &[
            noted("850 EVO", random_read(1, 10_000.0, 5.0, EVO_850)),
            noted("almost 400 MB/s", random_read(16, 97_000.0, 2.0, ANANDTECH_860)),
            noted("850 EVO", random_write(1, 40_000.0, 13.0, EVO_850)),
            noted("850 EVO 120 GB", random_write(32, 88_000.0, 1.0, EVO_850)),
            sequential(false, 550.0, 3.0, EVO_860),
            sequential(true, 520.0, 1.0, EVO_860),
        ],
    },
    Profile {
        name: "emmc-5.1",
        summary: "eMMC 5.1 without command queueing, 64 GB",
        base: Base::Flash { class: Class::Emmc, settings: EMMC },
        sources: EMMC_SOURCES,
        published: &[
            random_read(1, 11_000.0, 26.0, SAMSUNG_UFS),
            sequential(false, 250.0, 1.0, SAMSUNG_UFS),
            sequential(true, 125.0, 3.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "emmc-5.1-cq",
        summary: "eMMC 5.1 with command queueing (CQE), 64 GB",
        base: Base::Flash { class: Class::Emmc, settings: EMMC_CQ },
        sources: EMMC_SOURCES,
        published: &[
            random_read(31, 11_000.0, 2.0, SAMSUNG_UFS),
            random_write(31, 13_000.0, 1.0, SAMSUNG_UFS),
            sequential(false, 250.0, 1.0, SAMSUNG_UFS),
            sequential(true, 125.0, 3.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "ufs-2.1",
        summary: "UFS 2.1 storage of a phone (proposal 000's), 128 GB",
        base: Base::Flash {
            class: Class::Ufs,
            settings: "size=128GB,queue_depth=31,dies=4,read_time=95us,fixed_latency=20us,write_latency=40us,\
                       command_on_link=1,command_base=2us,read_command_cost=50us,write_command_cost=60us,\
                       command_size=32KiB,unit=32KiB,page_register=1,read_link=950MB/s,write_link=1166MB/s,\
                       buffer=1MiB,write_rate=255MB/s,scatter_cost=8.94us,program_time=300us,program_unit=32KiB,\
                       flush_time=2ms",
        },
        sources: &[
            fitted(&["dies", "read_time"], "42,000 random reads a second", SAMSUNG_UFS),
            stated(&["write_link"], "1166 MB/s", UFS_2_1),
            estimated(&["read_link"], "950 MB/s effective", UFS_2_1),
            stated(&["write_rate"], "255 MB/s", SAMSUNG_UFS),
            fitted(&["scatter_cost"], "40,000 random writes a second", SAMSUNG_UFS),
            estimated(
                &["map_miss"],
                "30 % on cold data: HPB, which removes them, gains 58-67 %",
                HPB,
            ),
            stated(&["queue_depth"], "31", UFSHCD),
        ],
        published: &[
            random_read(31, 42_000.0, 6.0, SAMSUNG_UFS),
            random_write(31, 40_000.0, 1.0, SAMSUNG_UFS),
            sequential(false, 860.0, 2.0, SAMSUNG_UFS),
            sequential(true, 255.0, 1.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "ufs-3.1",
        summary: "UFS 3.1 storage of a phone, 256 GB",
        base: Base::Flash {
            class: Class::Ufs,
            settings: "size=256GB,queue_depth=31,dies=8,read_time=70us,fixed_latency=20us,write_latency=32us,\
                       command_on_link=1,command_base=1us,read_command_cost=41us,write_command_cost=64us,\
                       command_size=32KiB,unit=32KiB,page_register=1,read_link=2320MB/s,write_link=1300MB/s,\
                       buffer=2MiB,write_rate=1200MB/s,scatter_cost=10.87us,program_time=150us,program_unit=32KiB,\
                       flush_time=2ms",
        },
        sources: &[
            fitted(&["dies", "read_time"], "100,000 random reads a second", SAMSUNG_UFS),
            stated(&["read_link"], "2320 MB/s", UFS_3_1),
            stated(&["write_rate"], "1200 MB/s", SAMSUNG_UFS),
            fitted(&["scatter_cost"], "70,000 random writes a second", SAMSUNG_UFS),
            estimated(
                &["map_miss"],
                "20 % on cold data: HPB, which removes them, gains 58-67 %",
                HPB,
            ),
            stated(&["queue_depth"], "31", UFSHCD),
        ],
        published: &[
            random_read(31, 100_000.0, 1.0, SAMSUNG_UFS),
            random_write(31, 70_000.0, 1.0, SAMSUNG_UFS),
            sequential(false, 2100.0, 7.0, SAMSUNG_UFS),
            sequential(true, 1200.0, 7.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "ufs-4.0",
        summary: "UFS 4.0 storage of a phone (proposal 001's), 256 GB",
        base: Base::Flash {
            class: Class::Ufs4,
            settings: "size=256GB,queue_depth=31,dies=8,read_time=50us,fixed_latency=18us,write_latency=27us,\
                       command_on_link=1,command_base=1us,read_command_cost=41.4us,write_command_cost=84.8us,\
                       command_size=32KiB,unit=32KiB,page_register=1,read_link=4640MB/s,write_link=4640MB/s,\
                       buffer=4MiB,write_rate=4000MB/s,program_time=100us,program_unit=64KiB,flush_time=2ms",
        },
        sources: &[
            fitted(&["read_command_cost"], "baseline read, 3033.7 MB/s", PROPOSAL_001),
            fitted(&["write_command_cost"], "baseline write, 2225.4 MB/s", PROPOSAL_001),
            stated(&["read_link", "write_link"], "4640 MB/s", UFS_4_0),
            stated(&["write_rate"], "4000 MB/s (Samsung's part: 2800)", MICRON),
            stated(&["queue_depth"], "31; parts with several queues hold more", UFSHCD),
        ],
        published: &[
            noted("requests of 512 KiB only", sequential(false, 3520.9, 4.0, PROPOSAL_001)),
            noted("requests of 512 KiB only", sequential(true, 2800.3, 6.0, PROPOSAL_001)),
        ],
    },
    Profile {
        name: "nvme-consumer",
        summary: "consumer NVMe SSD (970 EVO class), fresh, 1 TB",
        base: Base::Flash {
            class: Class::NvmeConsumer,
            settings: "size=1000204886016B,hw_queues=2,queue_depth=1023,dies=32,read_time=55us,fixed_latency=8us,\
                       write_latency=18us,read_command_cost=500ns,write_command_cost=500ns,unit=32KiB,\
                       read_link=3400MB/s,write_link=3400MB/s,buffer=32MiB,write_rate=1200MB/s,slc_rate=2500MB/s,\
                       slc_size=24GB,scatter_cost=580ns,program_time=200us,program_unit=32KiB,flush_time=1ms",
        },
        sources: &[
            fitted(&["read_time"], "15,000 random reads a second at depth 1", TECHGAGE),
            stated(&["read_link"], "3400 MB/s", EVO_970),
            stated(&["slc_rate"], "2500 MB/s", EVO_970),
            stated(&["write_rate", "slc_size"], "1200 MB/s after 6-36 GB", TECHGAGE),
            fitted(&["scatter_cost"], "450,000 random writes a second", EVO_970),
            stated(&["queue_depth"], "1024 less one", NVME_DRIVER),
        ],
        published: &[
            random_read(1, 15_000.0, 4.0, TECHGAGE),
            noted("depth not stated there", random_read(128, 500_000.0, 3.0, EVO_970)),
            random_write(1, 50_000.0, 2.0, TECHGAGE),
            noted("depth not stated there", random_write(128, 450_000.0, 1.0, EVO_970)),
            sequential(false, 3400.0, 1.0, EVO_970),
            sequential(true, 2500.0, 1.0, EVO_970),
        ],
    },
    Profile {
        name: "nvme-datacenter",
        summary: "datacenter NVMe SSD (P3600/P3700 class) in steady state, power-loss protected, 2 TB (default)",
        base: Base::Flash {
            class: Class::NvmeDatacenter,
            settings: "size=2000398934016B,hw_queues=2,queue_depth=1023,dies=32,read_time=66us,fixed_latency=8us,\
                       write_latency=17us,read_command_cost=1us,write_command_cost=1us,unit=32KiB,\
                       read_link=2600MB/s,write_link=2600MB/s,buffer=16MiB,write_rate=1700MB/s,\
                       program_time=500us,program_unit=32KiB,overprovision=7%,power_loss_protection=1",
        },
        sources: &[
            fitted(
                &["read_time"],
                "P3700: 12,800 reads a second, 77.9 us at depth 1",
                ANANDTECH_P4800X,
            ),
            stated(&["read_link", "write_rate"], "2600, 1700 MB/s", P3600),
            fitted(
                &["overprovision"],
                "1700 MB/s to 56,000 random writes a second: write amplification 7.4",
                P3600,
            ),
            stated(&["power_loss_protection"], "enhanced power-loss data protection", P3600),
            fitted(
                &["stall_share", "stall_time"],
                "99.999th percentile 2.8 ms at depth 1",
                ANANDTECH_P4800X,
            ),
            stated(&["queue_depth"], "1024 less one", NVME_DRIVER),
            estimated(&["max_hw_sectors_kb"], "128 KiB, as of the P4800X", ANANDTECH_750),
        ],
        published: &[
            noted("P3700", random_read(1, 12_800.0, 3.0, ANANDTECH_P4800X)),
            noted("P3700", random_read(16, 167_200.0, 3.0, ANANDTECH_P4800X)),
            noted("depth not stated", random_read(256, 450_000.0, 1.0, P3600)),
            noted("depth not stated", random_write(32, 56_000.0, 3.0, P3600)),
            sequential(false, 2600.0, 1.0, P3600),
            sequential(true, 1700.0, 1.0, P3600),
        ],
    },
    Profile {
        name: "optane",
        summary: "3D XPoint NVMe SSD (P4800X), 375 GB",
        base: Base::Flash {
            class: Class::NvmeDatacenter,
            settings: "size=375083606016B,hw_queues=2,queue_depth=1023,dies=64,read_time=3.5us,fixed_latency=2us,\
                       write_latency=5us,read_command_cost=1.71us,write_command_cost=1.71us,unit=32KiB,\
                       read_link=2400MB/s,write_link=2400MB/s,buffer=1MiB,write_rate=2000MB/s,stall_share=0,\
                       program_time=10us,program_unit=4KiB,erase_time=0,power_loss_protection=1",
        },
        sources: &[
            fitted(&["read_time"], "108,300 reads a second, 8.9 us at depth 1", ANANDTECH_P4800X),
            fitted(&["read_command_cost"], "584,800 reads a second at depth 16", ANANDTECH_P4800X),
            stated(&["read_link", "write_rate"], "2400, 2000 MB/s", ANANDTECH_750),
            stated(&["max_hw_sectors_kb"], "128 KiB", ANANDTECH_750),
            stated(&["queue_depth"], "1024 less one", NVME_DRIVER),
        ],
        published: &[
            random_read(1, 108_300.0, 4.0, ANANDTECH_P4800X),
            noted("its specification: 550,000", random_read(16, 584_800.0, 1.0, ANANDTECH_P4800X)),
            noted("depth not stated", sequential(false, 2400.0, 1.0, ANANDTECH_750)),
            noted("depth not stated", sequential(true, 2000.0, 1.0, ANANDTECH_750)),
        ],
    },
    Profile {
        name: "raid-lun-1q",
        summary: "provisioned LUN of proposal 003: one queue, 4000 requests a second in slices of 250 ms",
        base: Base::Lun { class: Class::Lun, settings: "" },
        sources: &[
            fitted(
                &["slice_requests"],
                "4001 requests a second of 64 KiB: 250.06 MiB/s, a round limit",
                PROPOSAL_003,
            ),
            fitted(&["slice"], "mean 26.3 ms, deviation 60.9 ms", PROPOSAL_003),
            fitted(&["base_latency", "servers", "service"], "minimum 1.64 ms", PROPOSAL_003),
        ],
        published: &[Published {
            write: false,
            random: true,
            bytes: 64 << 10,
            depth: 120,
            value: 4001.0,
            within: 1.0,
            note: "",
            reference: PROPOSAL_003,
        }],
    },
];

const EMMC: &str = "size=64GB,queue_depth=64,at_once=1,dies=1,read_time=90us,fixed_latency=10us,write_latency=128us,\
                    command_on_link=1,read_command_cost=10us,write_command_cost=10us,duplex=0,unit=32KiB,\
                    read_link=330MB/s,write_link=330MB/s,read_rate=250MB/s,buffer=512KiB,write_rate=125MB/s,\
                    scatter_cost=44.2us,program_time=200us,program_unit=32KiB,erase_block=16MiB,flush_time=3ms";
const EMMC_CQ: &str = "size=64GB,queue_depth=31,dies=1,read_time=90us,fixed_latency=10us,write_latency=128us,\
                       command_on_link=1,read_command_cost=10us,write_command_cost=10us,duplex=0,unit=32KiB,\
                       read_link=330MB/s,write_link=330MB/s,read_rate=250MB/s,buffer=512KiB,write_rate=125MB/s,\
                       scatter_cost=44.2us,program_time=200us,program_unit=32KiB,erase_block=16MiB,flush_time=3ms";
const EMMC_SOURCES: &[ValueSource] = &[
    fitted(&["read_time", "dies"], "11,000 random reads a second", SAMSUNG_UFS),
    stated(&["read_rate", "write_rate"], "250, 125 MB/s", SAMSUNG_UFS),
    fitted(&["scatter_cost"], "13,000 random writes a second", SAMSUNG_UFS),
    stated(&[], "gain of command queueing: 25-50 % in random multi-threaded reads", CQE),
    stated(
        &["at_once"],
        "without command queueing one, while the driver prepares the next",
        MMC_ASYNC,
    ),
];
