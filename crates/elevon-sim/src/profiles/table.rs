//! The profiles: what each device is made of, and where every figure comes from.
//!
//! A setting without a source in its list is an estimate. `fit` means that the value was chosen so that the model gives the
//! published figure named with it; everything else that the model gives is then a prediction.

use super::limits::Class;
use super::{Base, Profile, Published, Source};
use crate::device::HddParameters;

const fn source(figure: &'static str, value: &'static str, origin: &'static str) -> Source {
    Source { figure, value, origin }
}

/// A published IOPS figure of 4 KiB random reads.
const fn random_read(depth: u32, iops: f64, origin: &'static str) -> Published {
    Published { write: false, random: true, bytes: 4096, depth, value: iops, origin }
}

const fn random_write(depth: u32, iops: f64, origin: &'static str) -> Published {
    Published { write: true, random: true, bytes: 4096, depth, value: iops, origin }
}

/// A published rate in MB/s of sequential reads or writes in large requests.
const fn sequential(write: bool, rate: f64, origin: &'static str) -> Published {
    Published { write, random: false, bytes: 512 << 10, depth: 8, value: rate, origin }
}

const ANANDTECH: &str = "AnandTech 11209, page 4";
const P3600: &str = "Intel DC P3600 product specification 330569";
const TECHGAGE: &str = "Techgage, 970 PRO and 970 EVO";
const SAMSUNG_UFS: &str = "Samsung's table eMMC 4.5 to UFS 3.1 (Liliputing, 2020-03)";
const TOMS: &str = "Tom's Hardware, M5 Pro PX-256M5P";
const WIRED2FIRE: &str = "Wired2Fire, 850 EVO specification";

/// Every profile there is.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "null",
        summary: "completes at once, or after a constant latency",
        base: Base::Model { model: "null", settings: "" },
        sources: &[source("limits", "1280 KiB, 128 segments, depth 64", "Linux Documentation/block/null_blk.rst")],
        published: &[],
    },
    Profile {
        name: "hdd-2009",
        summary: "7200 rpm SATA disk of 2009, 500 GB",
        base: Base::Disk(&HddParameters::HDD_2009),
        sources: &[
            source("outer_rate", "90 MB/s", "TechReport 15079: 58-100 MB/s; seed 004's thread: 87-90"),
            source("max request", "1024 sectors, 128 segments", "BLK_DEF_MAX_SECTORS of 2.6 kernels"),
            source("queue_depth", "31", "libata ATA_MAX_QUEUE less one"),
        ],
        published: &[],
    },
    Profile {
        name: "hdd-7200",
        summary: "7200 rpm SATA disk of the 2010s (Constellation ES.3), 1 TB",
        base: Base::Disk(&HddParameters::HDD_7200),
        sources: &[
            source("rpm, rates", "4.16 ms latency, 83 to 175 MB/s", "ST1000NM0033 manual, page 14"),
            source("seek curve", "least squares to 1792 points, rms 0.077 ms", "DiskSim's WD 4 TB table"),
            source("hit_overhead", "0.162 ms", "DiskSim's WD 4 TB model"),
        ],
        published: &[],
    },
    Profile {
        name: "hdd-nearline",
        summary: "7200 rpm nearline disk (one actuator of the Exos 2X14 class), 16 TB",
        base: Base::Disk(&HddParameters::HDD_NEARLINE_16T),
        sources: &[
            source("outer_rate", "524 MB/s over two actuators", "Exos 2X14 data sheet"),
            source("margin (fit)", "304 reads a second over two actuators", "Exos 2X14 data sheet"),
            source("cache", "256 MB", "Exos 2X14 data sheet"),
        ],
        published: &[random_read(16, 152.0, "Exos 2X14, 304 over two actuators; depth not stated")],
    },
    Profile {
        name: "sata-ssd-plextor-m5s",
        summary: "SATA SSD of 2012 (seed 002's drive), 256 GB",
        base: Base::Flash {
            class: Class::AtaSsd,
            settings: "size=256GB,queue_depth=32,dies=12,read_time=133.1us,fixed_latency=20us,write_latency=10us,\
                       command_on_link=1,read_command_cost=3us,write_command_cost=3us,duplex=0,unit=16KiB,\
                       read_link=530MB/s,write_link=530MB/s,buffer=16MiB,write_rate=390MB/s,scatter_cost=3.92us,\
                       program_time=750us,program_unit=32KiB,erase_block=2MiB,flush_time=2ms",
        },
        sources: &[
            source("read_time, dies", "133 us, 12 (fit)", "QD1 25 MB/s of seed 002; QD32 73,888 IOPS, Tom's Hardware"),
            source("read_link", "515 MB/s sequential peak", "P. Valente, Linaro blog on I/O bandwidth"),
            source("write_rate", "390 MB/s", "vendor's specification, from memory"),
            source("scatter_cost", "3.92 us (fit)", "QD32 random write 69,346 IOPS, Tom's Hardware"),
        ],
        published: &[
            random_read(1, 6104.0, "seed 002's baseline, 25 MB/s"),
            random_read(5, 26_855.0, "seed 002's `none`, 110 MB/s"),
            random_read(32, 73_888.0, TOMS),
            random_write(32, 69_346.0, TOMS),
            sequential(false, 515.0, "P. Valente, Linaro blog"),
            sequential(true, 390.0, "vendor's specification, from memory"),
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
            source("read_time", "84 us (fit)", "850 EVO specification: 10,000 IOPS at QD1"),
            source("read_command_cost on the link", "4 KiB in 10.2 us", "AnandTech 12348: flat near 400 MB/s by QD16"),
            source("read_link, write_rate", "550 and 520 MB/s", "860 EVO listing (shhooping.com)"),
            source("scatter_cost", "3.49 us (fit)", "850 EVO 120 GB: 88,000 random writes a second"),
        ],
        published: &[
            random_read(1, 10_000.0, WIRED2FIRE),
            random_read(16, 97_000.0, "AnandTech 12348, page 5"),
            random_write(1, 40_000.0, WIRED2FIRE),
            random_write(32, 88_000.0, WIRED2FIRE),
            sequential(false, 550.0, "860 EVO listing"),
            sequential(true, 520.0, "860 EVO listing"),
        ],
    },
    Profile {
        name: "emmc-5.1",
        summary: "eMMC 5.1 without command queueing, 64 GB",
        base: Base::Flash { class: Class::Emmc, settings: EMMC },
        sources: EMMC_SOURCES,
        published: &[
            random_read(1, 11_000.0, SAMSUNG_UFS),
            sequential(false, 250.0, SAMSUNG_UFS),
            sequential(true, 125.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "emmc-5.1-cq",
        summary: "eMMC 5.1 with command queueing (CQE), 64 GB",
        base: Base::Flash { class: Class::Emmc, settings: EMMC_CQ },
        sources: EMMC_SOURCES,
        published: &[
            random_read(31, 11_000.0, SAMSUNG_UFS),
            random_write(31, 13_000.0, SAMSUNG_UFS),
            sequential(false, 250.0, SAMSUNG_UFS),
            sequential(true, 125.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "ufs-2.1",
        summary: "UFS 2.1 storage of a phone (seed 000's), 128 GB",
        base: Base::Flash {
            class: Class::Ufs,
            settings: "size=128GB,queue_depth=31,dies=4,read_time=95us,fixed_latency=20us,write_latency=40us,\
                       command_on_link=1,command_base=2us,read_command_cost=50us,write_command_cost=60us,\
                       command_size=32KiB,unit=32KiB,page_register=1,read_link=950MB/s,write_link=1166MB/s,\
                       buffer=1MiB,write_rate=255MB/s,scatter_cost=8.94us,program_time=300us,program_unit=32KiB,\
                       flush_time=2ms",
        },
        sources: &[
            source("dies, read_time", "4, 95 us (fit)", "Samsung's 42,000 random reads a second"),
            source("read_link, write_link", "950 effective (estimate), 1166 MB/s", "UFS 2.1 line rate, two lanes"),
            source("write_rate, scatter_cost (fit)", "255 MB/s, 40,000 random writes a second", SAMSUNG_UFS),
            source("map_miss on cold data", "30 % (estimate)", "Jeong et al., HotStorage'17 (HPB gains 58-67 %)"),
            source("queue_depth", "31", "ufshcd: 32 doorbell slots, one kept back"),
        ],
        published: &[
            random_read(31, 42_000.0, SAMSUNG_UFS),
            random_write(31, 40_000.0, SAMSUNG_UFS),
            sequential(false, 860.0, SAMSUNG_UFS),
            sequential(true, 255.0, SAMSUNG_UFS),
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
            source("dies, read_time", "8, 70 us (fit)", "Samsung's 100,000 random reads a second"),
            source("read_link", "2320 MB/s", "UFS 3.1 line rate, two lanes, 8b/10b"),
            source("write_rate, scatter_cost (fit)", "1200 MB/s, 70,000 random writes a second", SAMSUNG_UFS),
            source("map_miss on cold data", "20 % (estimate)", "Jeong et al., HotStorage'17"),
        ],
        published: &[
            random_read(31, 100_000.0, SAMSUNG_UFS),
            random_write(31, 70_000.0, SAMSUNG_UFS),
            sequential(false, 2100.0, SAMSUNG_UFS),
            sequential(true, 1200.0, SAMSUNG_UFS),
        ],
    },
    Profile {
        name: "ufs-4.0",
        summary: "UFS 4.0 storage of a phone (seed 001's), 256 GB",
        base: Base::Flash {
            class: Class::Ufs4,
            settings: "size=256GB,queue_depth=31,dies=8,read_time=50us,fixed_latency=18us,write_latency=27us,\
                       command_on_link=1,command_base=1us,read_command_cost=41.4us,write_command_cost=84.8us,\
                       command_size=32KiB,unit=32KiB,page_register=1,read_link=4640MB/s,write_link=4640MB/s,\
                       buffer=4MiB,write_rate=4000MB/s,program_time=100us,program_unit=64KiB,flush_time=2ms",
        },
        sources: &[
            source("read_command_cost", "41.4 us (fit)", "seed 001's baseline read, 3033.7 MB/s"),
            source("write_command_cost", "84.8 us (fit)", "seed 001's baseline write, 2225.4 MB/s"),
            source("read_link, write_link", "4640 MB/s", "UFS 4.0: 2 x 23.2 Gbit/s, 8b/10b"),
            source("write_rate", "4000 MB/s (Samsung: 2800)", "Micron UFS 4.0 (GSMArena)"),
            source("queue_depth", "31; MCQ parts hold more", "ufshcd: 32 doorbell slots, one kept back"),
        ],
        published: &[
            sequential(false, 3520.9, "seed 001, requests of 512 KiB only"),
            sequential(true, 2800.3, "seed 001, requests of 512 KiB only"),
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
            source("read_time", "55 us (fit)", "15,000 random reads a second at QD1, Techgage"),
            source("read_link", "3400 MB/s", TECHGAGE),
            source("slc_rate, write_rate, slc_size", "2500, 1200 MB/s, 6-36 GB dynamic", TECHGAGE),
            source("scatter_cost (fit)", "450,000 random writes a second", TECHGAGE),
            source("queue_depth", "1023 of 1024", "Linux nvme io_queue_depth"),
        ],
        published: &[
            random_read(1, 15_000.0, TECHGAGE),
            random_read(128, 500_000.0, TECHGAGE),
            random_write(1, 50_000.0, TECHGAGE),
            random_write(128, 450_000.0, TECHGAGE),
            sequential(false, 3400.0, TECHGAGE),
            sequential(true, 2500.0, TECHGAGE),
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
            source("read_time", "66 us (fit)", "P3700 12,800 IOPS, 77.9 us mean at QD1, AnandTech 11209"),
            source("read_link, write_rate", "2600, 1700 MB/s", P3600),
            source("overprovision", "7 % gives WA 7.6; 1700 MB/s to 56,000 writes a second is 7.4", P3600),
            source("power_loss_protection", "1", P3600),
            source("stall_share, stall_time", "10 ppm, 2.5 ms", "AnandTech 11209: 99.999th percentile 2.8 ms at QD1"),
            source("max request", "128 KiB (MDTS 5)", "P4800X review, performance versus transfer size"),
        ],
        published: &[
            random_read(1, 12_800.0, ANANDTECH),
            random_read(16, 167_200.0, ANANDTECH),
            random_read(256, 450_000.0, P3600),
            random_write(32, 56_000.0, P3600),
            sequential(false, 2600.0, P3600),
            sequential(true, 1700.0, P3600),
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
            source("read_time", "3.5 us (fit)", "108,300 IOPS, 8.9 us at QD1, AnandTech 11209"),
            source("read_command_cost", "1.71 us (fit)", "584,800 IOPS at QD16, AnandTech 11209"),
            source("write_rate", "2000 MB/s in large aligned writes", "P4800X 750 GB review"),
        ],
        published: &[
            random_read(1, 108_300.0, ANANDTECH),
            random_read(16, 584_800.0, ANANDTECH),
            random_read(32, 550_000.0, "specification, after AnandTech 11209"),
            sequential(true, 2000.0, "P4800X 750 GB review"),
        ],
    },
    Profile {
        name: "raid-lun-1q",
        summary: "provisioned LUN of seed 003: one queue, 4000 requests a second in slices of 250 ms",
        base: Base::Lun { class: Class::Lun, settings: "" },
        sources: &[
            source("slice_requests / slice", "4001 r/s of 64 KiB = 250.06 MiB/s, a round limit", "seed 003"),
            source("slice", "250 ms (fit)", "seed 003: mean 26.3 ms, deviation 60.9 ms"),
            source("base_latency, servers, service", "1.5 ms, 32, 1.5 ms (fit)", "seed 003: minimum 1.64 ms"),
        ],
        published: &[Published {
            write: false,
            random: true,
            bytes: 64 << 10,
            depth: 120,
            value: 4001.0,
            origin: "seed 003",
        }],
    },
];

const EMMC: &str = "size=64GB,queue_depth=1,dies=1,read_time=90us,fixed_latency=10us,write_latency=128us,\
                    command_on_link=1,read_command_cost=10us,write_command_cost=10us,duplex=0,unit=32KiB,\
                    read_link=330MB/s,write_link=330MB/s,read_rate=250MB/s,buffer=512KiB,write_rate=125MB/s,\
                    scatter_cost=44.2us,program_time=200us,program_unit=32KiB,erase_block=16MiB,flush_time=3ms";
const EMMC_CQ: &str = "size=64GB,queue_depth=31,dies=1,read_time=90us,fixed_latency=10us,write_latency=128us,\
                       command_on_link=1,read_command_cost=10us,write_command_cost=10us,duplex=0,unit=32KiB,\
                       read_link=330MB/s,write_link=330MB/s,read_rate=250MB/s,buffer=512KiB,write_rate=125MB/s,\
                       scatter_cost=44.2us,program_time=200us,program_unit=32KiB,erase_block=16MiB,flush_time=3ms";
const EMMC_SOURCES: &[Source] = &[
    source("read_time, dies", "90 us, 1 (fit)", "Samsung's 11,000 random reads a second"),
    source("read_rate, write_rate", "250, 125 MB/s", SAMSUNG_UFS),
    source(
        "read_link",
        "330 MB/s effective of HS400's 400 raw (estimate)",
        "estimate: eMMC 5.1 at 200 MHz DDR over 8 lines, less protocol",
    ),
    source("scatter_cost (fit)", "13,000 random writes a second", SAMSUNG_UFS),
    source("gain of CQE", "25-50 % in random multi-threaded reads", "Linux 1e8e55b67030, mmc: block: Add CQE support"),
];
