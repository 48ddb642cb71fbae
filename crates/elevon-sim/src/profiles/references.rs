//! The sources of the profiles' figures, so that they can be cited and looked up.

use core::fmt;

/// A publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its title, or a description.
    pub title: &'static str,
    /// Its author or publisher.
    pub author: &'static str,
    /// Its date; empty if not known.
    pub date: &'static str,
    /// Its address; `None` if no public address is known.
    pub address: Option<&'static str>,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, \"{}\"", self.author, self.title)?;
        if !self.date.is_empty() {
            write!(f, ", {}", self.date)?;
        }
        write!(f, ", {}", self.address.unwrap_or("no public address known"))
    }
}

macro_rules! references {
    ($($name:ident: $title:literal, $author:literal, $date:literal, $address:expr;)*) => {
        $(pub(super) const $name: &Reference =
            &Reference { title: $title, author: $author, date: $date, address: $address };)*
    };
}

references! {
    NULL_BLK: "Null block device driver", "Linux, Documentation/block/null_blk.rst", "",
        Some("https://docs.kernel.org/block/null_blk.html");
    MATRIX: "queue attributes under seven kernels in one virtual machine", "tests/data/kernel-truth/matrix", "2026-11", None;
    TECHREPORT: "review 15079", "The Tech Report", "", Some("https://techreport.com/review/15079");
    LIBATA: "libata.h: ATA_MAX_QUEUE", "Linux", "", None;
    BLKDEV_2_6: "blkdev.h of 2.6: BLK_DEF_MAX_SECTORS", "Linux", "", None;
    CONSTELLATION: "Constellation ES.3 SAS product manual, Rev. B, page 9", "Seagate", "",
        Some("http://office.manualsonline.com/manuals/mfg/seagate/st1000nm0033_1.html?p=14");
    DISKSIM: "DiskSim 4.0 for 64-bit addresses, parameters of a 4 TB drive", "Western Digital", "",
        Some("https://github.com/westerndigitalcorporation/DiskSim");
    EXOS: "Seagate Lists the Mach.2: The World's Fastest HDD", "digitalmadnesss.com, after Seagate", "2021-05-21",
        Some("https://digitalmadnesss.com/index.php/2021/05/21/seagate-lists-the-mach-2-the-worlds-fastest-hdd/");
    PROPOSAL_001: "Re: [PATCH 1/1] block: Check the queue limit before bio submitting", "Ed Tsai, linux-block", "2023-11", None;
    PROPOSAL_002: "[PATCH BUGFIX/IMPROVEMENT 2/3] block, bfq: inject other-queue I/O into seeky idle queues on NCQ flash",
        "Paolo Valente, linux-block", "2018-09-14", None;
    PROPOSAL_003: "[PATCH V2] Consider inflight IO in io accounting for high latency devices",
        "Gulam Mohamed, linux-block", "2023-10-13", None;
    TOMS: "Plextor M5 Pro 256 GB Review: 19 nm NAND And Marvell's Latest, page 7", "Tom's Hardware", "",
        Some("http://www.tomshardware.com/reviews/m5-pro-px-256m5p-19nm-nand,3267-7.html");
    LINARO: "article on I/O bandwidth", "Paolo Valente, Linaro blog", "", None;
    EVO_850: "Samsung 1TB 850 EVO Series, specification", "Wired2Fire, after Samsung", "",
        Some("https://www.wired2fire.co.uk/samsung-1tb-850-evo-series-sata-iii-6gb-s-solid-state-drive.html");
    ANANDTECH_860: "The Samsung 860 PRO (512GB And 4TB) SSD Review, page 5", "AnandTech", "",
        Some("https://www.anandtech.com/show/12348");
    EVO_860: "Samsung 860 EVO 500GB (Review)", "Navigate Storage, after Samsung", "",
        Some("https://navigatestorage.com/samsung-860-evo-500gb-review/");
    SAMSUNG_UFS: "Samsung's UFS 3.1 storage brings SSD speeds to smartphones", "Liliputing, with Samsung's table", "2020-03-17",
        Some("https://liliputing.com/2020/03/samsungs-ufs-3-1-storage-brings-ssd-speeds-to-smartphones.html");
    CQE: "1e8e55b67030: mmc: block: Add CQE support", "Linux", "", Some("https://git.kernel.org/torvalds/c/1e8e55b67030");
    UFS_2_1: "UFS 2.1 line rate, two lanes", "the standard", "", None;
    UFS_3_1: "UFS 3.1 line rate, two lanes, 8b/10b", "the standard", "", None;
    UFS_4_0: "UFS 4.0 line rate, two lanes of 23.2 Gbit/s, 8b/10b", "the standard", "", None;
    HPB: "Improving Flash Storage Performance by Caching Address Mapping Table in Host Memory",
        "Jeong et al., HotStorage 17", "2017-07", Some("https://www.usenix.org/conference/hotstorage17/program/presentation/jeong");
    MMC_ASYNC: "MMC Asynchronous Request", "Linux, Documentation/driver-api/mmc/mmc-async-req.rst", "",
        Some("https://docs.kernel.org/driver-api/mmc/mmc-async-req.html");
    UFSHCD: "ufshcd: 32 doorbell slots, one kept back", "Linux", "", None;
    MICRON: "Micron UFS 4.0 storage for next-gen flagship smartphones makes debut", "Notebookcheck, after Micron", "2023-06-24",
        Some("https://www.notebookcheck.net/Micron-UFS-4-0-storage-for-next-gen-flagship-smartphones-makes-debut.728064.0.html");
    TECHGAGE: "Samsung reveals the 970 PRO and 970 EVO", "Techgage, after Samsung", "2018", None;
    EVO_970: "Samsung SSD 970 EVO Review", "Olin Coles, Benchmark Reviews", "", Some("https://techplayboy.com/53747/samsung-ssd-970-evo-review/");
    NVME_DRIVER: "nvme: io_queue_depth", "Linux", "", None;
    ANANDTECH_P4800X: "Intel Optane SSD DC P4800X review: a deep dive into 3D XPoint enterprise performance, page 4", "AnandTech", "",
        Some("https://www.anandtech.com/show/11209");
    ANANDTECH_750: "Intel Optane SSD DC P4800X 750GB Hands-On Review", "AnandTech", "", Some("https://www.anandtech.com/show/11930");
    P3600: "Solid-State Drive DC P3600 Series, product specification 330569", "Intel", "",
        Some("http://manualzilla.com/doc/7097633/intel-dc-p3600");
}
