//! Ten set-ups of tenants as operators have them: job files and weights.

use std::fmt::Write as _;

/// The devices of the set-ups, each with the model that `elevon calibrate` prints for io.cost.
pub const SETUP_DEVICES: [(&str, &str); 4] = [
    (
        "sata-ssd-860evo",
        "ctrl=user model=linear rbps=539062194 rseqiops=98145 rrandiops=98155 \
         wbps=541397831 wseqiops=98566 wrandiops=89087",
    ),
    (
        "nvme-datacenter",
        "ctrl=user model=linear rbps=2599388162 rseqiops=425345 rrandiops=425099 \
         wbps=1700861644 wseqiops=415046 wrandiops=57516",
    ),
    (
        "ufs-3.1",
        "ctrl=user model=linear rbps=1963625676 rseqiops=128761 rrandiops=99557 \
         wbps=1122439484 wseqiops=83202 wrandiops=70007",
    ),
    (
        "hdd-7200",
        "ctrl=user model=linear rbps=173249939 rseqiops=5960 rrandiops=157 \
         wbps=175095667 wseqiops=5996 wrandiops=165",
    ),
];

/// A tenant of a set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupTenant {
    /// Its name, which is that of its job as well.
    pub name: String,
    /// Its weight among the tenants.
    pub weight: u32,
    /// Its job, as options of a job file.
    pub job: String,
}

/// Tenants that share a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSetup {
    /// What it is called.
    pub name: &'static str,
    /// The tenants.
    pub tenants: Vec<SetupTenant>,
}

const DATABASE: &str = "rw=randrw rwmixread=70 bs=8k iodepth=8";
const GUEST: &str = "rw=randread bs=16k iodepth=2 thinktime=1ms";
const STREAM: &str = "rw=read bs=1m iodepth=4";
const BULK: &str = "rw=write bs=1m iodepth=16";
const WEB: &str = "rw=randread bs=16k iodepth=4";
const LOG: &str = "rw=write bs=4k fsync=1";
const QUIET: &str = "rw=randread bs=4k";

/// A tenant, or several alike: name, number, weight, job.
type Row = (&'static str, u32, u32, &'static str);

const SETUPS: [(&str, &[Row]); 10] = [
    ("a database beside a backup", &[("db", 1, 300, DATABASE), ("backup", 1, 100, STREAM)]),
    ("a boot storm of 32 guests", &[("guest", 32, 100, GUEST)]),
    (
        "one noisy reader",
        &[("noisy", 1, 100, "rw=randread bs=128k iodepth=32"), ("quiet", 3, 100, QUIET)],
    ),
    (
        "log writers with fsync",
        &[("log", 4, 100, LOG), ("reader", 1, 100, "rw=randread bs=64k iodepth=16")],
    ),
    (
        "a scrub behind a web server",
        &[("web", 1, 100, WEB), ("scrub", 1, 10, "rw=read bs=512k iodepth=4")],
    ),
    (
        "mixed sizes",
        &[
            ("small", 1, 100, "rw=randread bs=4k iodepth=8"),
            ("middle", 1, 100, "rw=randread bs=64k iodepth=4"),
            ("large", 1, 100, "rw=randread bs=1m iodepth=2"),
        ],
    ),
    (
        "three classes of service",
        &[
            ("gold", 1, 400, "rw=randread bs=4k iodepth=16"),
            ("silver", 1, 200, "rw=randread bs=4k iodepth=16"),
            ("bronze", 1, 100, "rw=randread bs=4k iodepth=16"),
        ],
    ),
    (
        "a video stream beside copies",
        &[("video", 1, 100, "rw=read bs=256k rate=20m"), ("copy", 2, 100, BULK)],
    ),
    (
        "a mail server beside a restore",
        &[("mail", 1, 200, "rw=randrw bs=4k iodepth=4"), ("restore", 1, 100, BULK)],
    ),
    ("a migration beside eight guests", &[("guest", 8, 100, QUIET), ("migrate", 1, 100, BULK)]),
];

/// Returns the ten set-ups.
pub fn tenant_setups() -> Vec<TenantSetup> {
    let alike = |&(name, count, weight, job): &Row| {
        (1..=count).map(move |at| SetupTenant {
            name: if count == 1 { name.to_owned() } else { format!("{name}{at}") },
            weight,
            job: job.replace(' ', "\n"),
        })
    };
    let setup = |(name, rows): (&'static str, &[Row])| TenantSetup {
        name,
        tenants: rows.iter().flat_map(alike).collect(),
    };
    SETUPS.into_iter().map(setup).collect()
}

impl TenantSetup {
    /// Returns the job file, of all tenants or of one, which runs for so many seconds.
    pub fn jobs(&self, seconds: u64, only: Option<usize>) -> String {
        let mut text = format!(
            "[global]\nfilename=/dev/device\ndirect=1\ntime_based\nruntime={seconds}\n\
             ioengine=libaio\n"
        );
        let part = 100 / self.tenants.len() as u64;
        for (at, tenant) in self.tenants.iter().enumerate() {
            if only.is_none_or(|only| only == at) {
                let SetupTenant { name, job, .. } = tenant;
                let start = part * at as u64;
                write!(text, "[{name}]\ncgroup={name}\noffset={start}%\nsize={part}%\n{job}\n")
                    .expect("text has room");
            }
        }
        text
    }

    /// Returns the file of tenants; `model` is that of io.cost, if io.cost divides.
    pub fn file(&self, model: Option<&str>) -> String {
        let mut text = String::new();
        for SetupTenant { name, weight, .. } in &self.tenants {
            writeln!(text, "[tenant.{name}]\nweight = {weight}").expect("text has room");
        }
        if let Some(model) = model {
            // The clock of io.cost is not corrected: the model is right.
            let qos = "enable=1 ctrl=user min=100.00 max=100.00";
            let lines = format!("\"io.cost.qos\" = \"{qos}\"\n\"io.cost.model\" = \"{model}\"\n");
            text += &format!("[device]\n{lines}");
        }
        text
    }

    /// Returns the part of the weights that a tenant has.
    pub fn part(&self, at: usize) -> f64 {
        let all: u32 = self.tenants.iter().map(|tenant| tenant.weight).sum();
        f64::from(self.tenants[at].weight) / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_and_their_parts_add_up() {
        let setups = tenant_setups();
        assert_eq!(setups.len(), 10);
        for setup in &setups {
            let parts: f64 = (0..setup.tenants.len()).map(|at| setup.part(at)).sum();
            assert!((parts - 1.0).abs() < 1e-9, "{}", setup.name);
        }
        assert_eq!(setups[1].tenants.len(), 32);
        assert!(setups[1].jobs(3, Some(1)).contains("[guest2]\ncgroup=guest2\noffset=3%"));
        assert!(setups[0].file(Some("model")).ends_with("\"io.cost.model\" = \"model\"\n"));
    }
}
