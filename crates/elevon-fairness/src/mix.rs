//! Processes that compete for a device, and the same as texts that `elevon run` takes.

use std::fmt::Write as _;

use elevon_core::ioprio::PrioClass;
use elevon_core::units::Nanos;

use crate::setup::Setup;

/// A cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name in its parent.
    pub name: String,
    /// Index of the group that it lies in, which comes before it; `None` for the root.
    pub parent: Option<usize>,
    /// Weight in its parent, 1 to 1000.
    pub weight: u16,
    /// Its floor in I/Os a second; 0 for none.
    pub reserve: u64,
}

/// A process of a mix: it does the same over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixProcess {
    /// Name, different from that of every other process of the mix.
    pub name: String,
    /// Index of its group; `None` for the root.
    pub group: Option<usize>,
    /// Its I/O priority class.
    pub class: PrioClass,
    /// Level in its class, 0 to 7: its weight among the processes of its group is 10·(8 - level).
    pub level: u8,
    /// Whether it writes; otherwise it reads.
    pub is_write: bool,
    /// Whether its offsets are random; otherwise they follow each other.
    pub is_random: bool,
    /// Bytes of an I/O.
    pub bytes: u64,
    /// I/Os that it keeps in flight.
    pub depth: u32,
    /// Pause after each `think_ios` completed I/Os; zero for none.
    pub think: Nanos,
    /// I/Os between two pauses.
    pub think_ios: u32,
    /// I/Os a second that it does at most; `None` for no limit.
    pub pace: Option<u64>,
    /// When it starts, from the start of the run.
    pub start: Nanos,
    /// Which part of the device is its own, below [`Mix::parts`].
    pub part: u32,
    /// How many I/Os it does; `None` for as many as there is time for. A process with a number of
    /// I/Os is measured from its start, not from the end of the warm-up.
    pub ios: Option<u64>,
}

impl MixProcess {
    /// Returns a process that reads 4 KiB at random, one I/O at a time, best effort at level 4.
    pub fn reader(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: None,
            class: PrioClass::Be,
            level: 4,
            is_write: false,
            is_random: true,
            bytes: 4096,
            depth: 1,
            think: Nanos::ZERO,
            think_ios: 1,
            pace: None,
            start: Nanos::ZERO,
            part: 0,
            ios: None,
        }
    }

    /// Returns its weight among the processes of its group, as BFQ derives it from the level.
    pub const fn weight(&self) -> u16 {
        10 * (8 - self.level as u16)
    }
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The device, as `--device` takes it.
    pub device: String,
    /// Its faults, as `--fault` takes them.
    pub faults: Vec<String>,
    /// The cgroups.
    pub groups: Vec<Group>,
    /// The processes.
    pub processes: Vec<MixProcess>,
    /// Equal parts that the device is cut into.
    pub parts: u32,
    /// What is not measured: from the start of the run.
    pub warm_up: Nanos,
    /// What is measured, after the warm-up.
    pub span: Nanos,
    /// Whether requests are merged. Without merges each I/O is a request, and what it costs the
    /// device can be told from what it is.
    pub merges: bool,
    /// Random seed of device and processes.
    pub seed: u64,
}

impl Mix {
    /// Returns a mix of processes on a device, each in a part of its own, with no groups, no faults
    /// and no merges: warm-up two seconds, measured ten. A slot of BFQ lasts up to 125 ms: in ten
    /// seconds even five queues of different weights have had enough of them to show their shares.
    pub fn new(device: &str, mut processes: Vec<MixProcess>) -> Self {
        processes.iter_mut().zip(0..).for_each(|(process, part)| process.part = part);
        Self {
            parts: processes.len() as u32,
            device: device.to_owned(),
            faults: Vec::new(),
            groups: Vec::new(),
            processes,
            warm_up: Nanos::from_secs(2),
            span: Nanos::from_secs(10),
            merges: false,
            seed: 1,
        }
    }

    /// Returns the path of a process's cgroup under a setup; empty for the root. Where weights are
    /// those of cgroups alone, each process has one of its own.
    fn path(&self, process: &MixProcess, setup: &Setup) -> String {
        let mut path = process.group.map_or_else(String::new, |group| self.group_path(group));
        if setup.is_io_cost() {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(&process.name);
        }
        path
    }

    fn group_path(&self, group: usize) -> String {
        let Group { name, parent, .. } = &self.groups[group];
        parent.map_or_else(|| name.clone(), |parent| format!("{}/{name}", self.group_path(parent)))
    }

    /// Returns the processes as a job file, on a device of `device_bytes`.
    pub fn jobs(&self, device_bytes: u64, setup: &Setup) -> String {
        let mut text = "[global]\ndirect=1\nnorandommap=1\nfilename=/dev/device\n".to_owned();
        // Whole MiB, so that every size of I/O is aligned.
        let size = (device_bytes / u64::from(self.parts)) & !((1 << 20) - 1);
        for process in &self.processes {
            self.job(&mut text, process, size, setup).expect("text has room");
        }
        text
    }

    fn job(
        &self,
        text: &mut String,
        process: &MixProcess,
        size: u64,
        setup: &Setup,
    ) -> std::fmt::Result {
        let offset = u64::from(process.part) * size;
        let order = if process.is_random { "rand" } else { "" };
        let op = if process.is_write { "write" } else { "read" };
        let engine =
            if process.depth == 1 || process.pace.is_some() { "psync" } else { "io_uring" };
        let micros = |span: Nanos| span.get() / 1000;
        writeln!(text, "[{}]\nrw={order}{op}\nbs={}", process.name, process.bytes)?;
        writeln!(
            text,
            "ioengine={engine}\niodepth={}\noffset={offset}\nsize={size}",
            process.depth
        )?;
        let class = process.class as u8;
        writeln!(
            text,
            "prioclass={class}\nprio={}\nstartdelay={}us",
            process.level,
            micros(process.start)
        )?;
        match process.ios {
            // Over and over if the region is smaller than that.
            Some(ios) => writeln!(text, "number_ios={ios}\nio_size={}", ios * process.bytes)?,
            None => {
                let ramp = self.warm_up.saturating_sub(process.start);
                let end = self.warm_up + self.span;
                let runtime = end.saturating_sub(process.start).saturating_sub(ramp);
                writeln!(
                    text,
                    "time_based=1\nruntime={}us\nramp_time={}us",
                    micros(runtime),
                    micros(ramp)
                )?;
            }
        }
        if !process.think.is_zero() {
            writeln!(
                text,
                "thinktime={}us\nthinktime_blocks={}",
                micros(process.think),
                process.think_ios
            )?;
        }
        if let Some(pace) = process.pace {
            // Each I/O has a worker: else the process waits for those in flight before it sleeps.
            writeln!(text, "io_submit_mode=offload\nrate_iops={pace}")?;
        }
        match self.path(process, setup) {
            path if path.is_empty() => Ok(()),
            path => writeln!(text, "cgroup={path}"),
        }
    }

    /// Returns weights and floors of the groups as a file of tenants; under io.cost with its model
    /// and the weights of the processes. Empty if there is nothing to set.
    pub fn tenants(&self, setup: &Setup, cost_model: &str) -> String {
        let (mut text, mut floors) = (String::new(), String::new());
        if let Some(qos) = setup.cost_qos {
            text = format!(
                "[device]\n\"io.cost.qos\" = \"{qos}\"\n\"io.cost.model\" = \"{cost_model}\"\n"
            );
        }
        let mut weigh = |path: String, weight: u16| {
            text += &format!("[tenant.\"{path}\"]\nweight = {weight}\n");
        };
        for (at, group) in self.groups.iter().enumerate() {
            weigh(self.group_path(at), group.weight);
            if group.reserve > 0 {
                floors += &format!(
                    "[tenant.\"{}\".reserve]\niops = {}\n",
                    self.group_path(at),
                    group.reserve
                );
            }
        }
        if setup.is_io_cost() {
            for process in &self.processes {
                weigh(self.path(process, setup), process.weight());
            }
        }
        text + &floors
    }
}
