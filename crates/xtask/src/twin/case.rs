//! A job for both: what a device is, what is set, and which processes run. It has three texts: a
//! plain job file with options for Elevon, a script for the guest, and JSON to keep it.

use std::fmt::Write as _;

use elevon_cache::Watermarks;
use elevon_core::units::Bytes;
use serde::{Deserialize, Serialize};

/// How long after its completion a process goes on, in both, in microseconds: between these, drawn
/// evenly. So a worker of the kernel that the same completion wakes runs first, as it does on a
/// machine with several CPUs. The guest has one CPU of infinite speed, which would run the process
/// first. The draws are the same in both. Without them two processes that wait for the same
/// completions stay in step for ever, and which of them is first decides everything.
pub const WAKE_US: (u64, u64) = (100, 200);
/// Ticks a second of the guest: what user-mode Linux has.
pub const TICKS_A_SECOND: u32 = 100;
/// How much later than it says a request of null_blk ends in user-mode Linux, in nanoseconds.
const LATE_NS: u64 = 512;
/// What an issue takes, in both, in nanoseconds: so many tracing instances read the guest's clock.
/// Requests that one dispatch issues complete one after the other, as far apart. Otherwise
/// nanoseconds would decide whether a worker runs between two of them.
const ISSUE_NS: u64 = 6 * 256;
/// What a reading of the guest's clock takes, in nanoseconds. Where no issue takes [`ISSUE_NS`],
/// one such reading lies between two issues, and so between two completions.
const READING_NS: u64 = 256;
/// What an I/O through the page cache takes in the guest, in nanoseconds: the load generator and
/// its sleep read the clock. Measured: 1.0 us with some think times, 1.46 us with others.
const CALL_NS: u64 = 1_200;
/// Size of the device in bytes: 1 GiB.
pub const DEVICE_SIZE: u64 = 1 << 30;
/// Memory of Elevon's page cache, in bytes: 512 MiB. The guest has as much, and no job needs all.
pub const MEMORY: u64 = 512 << 20;
/// Bytes of a page.
const PAGE_SIZE: u64 = 4096;
/// What a process has of the device if there is a page cache: all regions fit into memory.
const CACHED_REGION: u64 = 64 << 20;
/// Limits of null_blk's queue and the guest's only CPU, as settings of Elevon.
const QUEUE: [(&str, u64); 3] = [("max_segments", 128), ("max_segment_size", 65_536), ("cpus", 1)];
/// Sectors of null_blk's largest request: no whole number of KiB.
const MAX_SECTORS: u32 = 255;
/// The base of Elevon's seeds of offsets, for the run's seed 1.
const REPEATED: u64 = 0x1234_5678;

/// What a case is about, as the table of results has it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// `mq-deadline` and `kyber`.
    DeadlineAndKyber,
    /// `bfq`, with and without weights of cgroups.
    Bfq,
    /// `io.max` and `io.latency`.
    Limits,
    /// `io.cost`.
    Cost,
    /// Reads and writes through the page cache.
    Cache,
}

impl Area {
    /// All areas.
    pub const ALL: [Self; 5] =
        [Self::DeadlineAndKyber, Self::Bfq, Self::Limits, Self::Cost, Self::Cache];

    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeadlineAndKyber => "mq-deadline and Kyber",
            Self::Bfq => "BFQ",
            Self::Limits => "io.max and io.latency",
            Self::Cost => "io.cost",
            Self::Cache => "page cache",
        }
    }

    /// The share of telling figures that is the goal, in percent.
    pub const fn goal(self) -> u32 {
        match self {
            Self::DeadlineAndKyber | Self::Limits => 98,
            Self::Bfq | Self::Cost | Self::Cache => 95,
        }
    }
}

/// How a process asks for I/O.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// One system call at a time.
    Psync,
    /// Linux's native asynchronous I/O.
    Libaio,
    /// io_uring.
    IoUring,
}

impl Engine {
    const fn name(self) -> &'static str {
        match self {
            Self::Psync => "psync",
            Self::Libaio => "libaio",
            Self::IoUring => "io_uring",
        }
    }
}

/// A process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Process {
    /// Class of its priority: 1 RT, 2 BE, 3 IDLE; 0 for none.
    pub class: u32,
    /// Level in the class, 0 to 7.
    pub level: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether it discards, one system call at a time.
    #[serde(default)]
    pub trim: bool,
    /// Whether it goes through the page cache.
    #[serde(default)]
    pub buffered: bool,
    /// Whether its offsets are random.
    pub random: bool,
    /// How it asks for I/O.
    pub engine: Engine,
    /// I/Os that it keeps in flight.
    pub depth: u32,
    /// Bytes of an I/O.
    pub bs: u64,
    /// Whether its writes are O_DSYNC.
    pub dsync: bool,
    /// After how many writes it calls fsync; 0 for never.
    pub fsync: u32,
    /// When it starts, in microseconds.
    pub start_us: u64,
    /// How long it thinks after some I/Os, in microseconds; 0 for never.
    pub think_us: u64,
    /// After how many I/Os it thinks.
    pub think_blocks: u32,
    /// Its cgroup; empty for the root.
    pub cgroup: String,
}

/// A cgroup and the lines of its control files.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Tenant {
    /// Path below the root.
    pub path: String,
    /// Names of control files and what is written to them, without the device's number.
    pub files: Vec<(String, String)>,
}

/// Limits of dirty pages, in percent of memory.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct DirtyRatios {
    /// Where the flusher begins.
    pub background: u64,
    /// Where writers stop.
    pub most: u64,
}

impl DirtyRatios {
    /// Returns these limits in bytes, as Linux and Elevon compute them of Elevon's memory: in
    /// 4096ths.
    fn in_bytes(self) -> (u64, u64) {
        let marks = Watermarks::of_memory(Bytes::new(MEMORY), 0);
        let dirtyable = MEMORY / PAGE_SIZE - marks.high;
        let share = |percent: u64| dirtyable * (percent * 4096 / 100) / 4096 * PAGE_SIZE;
        (share(self.background), share(self.most))
    }
}

/// A job for both.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Case {
    /// The seed that it was made from, which is also that of Elevon's run.
    pub seed: u64,
    /// What it is about.
    pub area: Area,
    /// Requests that the device serves at once.
    pub slots: u32,
    /// Time of each, in microseconds.
    pub latency_us: u64,
    /// Whether the queue says that it is rotational.
    pub rotational: bool,
    /// The scheduler.
    pub scheduler: String,
    /// Its tunables.
    pub tunables: Vec<(String, u64)>,
    /// Attributes of the queue: `nr_requests` and the like.
    pub queue: Vec<(String, u64)>,
    /// Where the CPU looks for its first tag of the scheduler, which the guest draws.
    #[serde(default)]
    pub tag_hint: Option<u64>,
    /// Cgroups, each after its parent.
    pub tenants: Vec<Tenant>,
    /// Lines of `io.cost.qos` and `io.cost.model`.
    pub cost: Vec<(String, String)>,
    /// Limits of dirty pages, in percent of memory; zeroes without a page cache.
    #[serde(default)]
    pub dirty: DirtyRatios,
    /// Processes.
    pub processes: Vec<Process>,
    /// How long each process runs, in milliseconds.
    pub runtime_ms: u64,
    /// How long a process takes before each direct I/O, in both, in microseconds.
    #[serde(default)]
    pub submit_us: u64,
}

impl Case {
    /// Returns the part of the device that a process uses: each has its own.
    fn region(&self, index: usize) -> (u64, u64) {
        let even = DEVICE_SIZE / self.processes.len() as u64 / (1 << 20) * (1 << 20);
        let size = if self.has_cache() { CACHED_REGION } else { even };
        (index as u64 * size, size)
    }

    /// Returns whether the order of its events is compared. Jobs on 64 slots have too many.
    pub fn is_traced(&self) -> bool {
        !matches!(self.area, Area::Limits | Area::Cost)
    }

    /// Returns whether a scheduler is judged. Its processes go on in steps of the time that they
    /// take before an I/O, and each issue takes [`ISSUE_NS`].
    fn is_in_steps(&self) -> bool {
        matches!(self.area, Area::DeadlineAndKyber | Area::Bfq)
    }

    /// Returns whether a process goes through the page cache.
    fn has_cache(&self) -> bool {
        self.processes.iter().any(|process| process.buffered)
    }

    /// Returns the plain job file for Elevon.
    pub fn job_file(&self) -> String {
        let mut text = format!(
            "[global]\nfilename=/dev/nullb0\nfadvise_hint=0\ninvalidate=0\ntime_based\nruntime={}ms\n\
             norandommap\n",
            self.runtime_ms
        );
        for (index, process) in self.processes.iter().enumerate() {
            let (offset, size) = self.region(index);
            let order = if process.random { "rand" } else { "" };
            let direction = match process {
                Process { trim: true, .. } => "trim",
                Process { write: true, .. } => "write",
                _ => "read",
            };
            let _ = write!(
                text,
                "\n[p{index}]\nrw={order}{direction}\ndirect={}\nioengine={}\niodepth={}\nbs={}\n\
                 offset={offset}\nsize={size}\nstartdelay={}us\n",
                u32::from(!process.buffered),
                process.engine.name(),
                process.depth,
                process.bs,
                process.start_us
            );
            if process.class > 0 {
                let _ = writeln!(text, "prioclass={}\nprio={}", process.class, process.level);
            }
            if process.dsync {
                text.push_str("sync=dsync\n");
            }
            if process.fsync > 0 {
                let _ = writeln!(text, "fsync={}", process.fsync);
            }
            if process.think_us > 0 {
                let _ = writeln!(
                    text,
                    "thinktime={}us\nthinktime_blocks={}",
                    process.think_us, process.think_blocks
                );
            }
            if !process.cgroup.is_empty() {
                let _ = writeln!(text, "cgroup={}", process.cgroup);
            }
        }
        text
    }

    /// Returns Elevon's options.
    pub fn options(&self, kernel: &str) -> Vec<String> {
        // With steps the guest's device is told to be early instead.
        let late = if self.area == Area::Cache { LATE_NS } else { 0 };
        let apart = match self.area {
            Area::Cache => READING_NS,
            _ if self.is_in_steps() => ISSUE_NS,
            _ => 0,
        };
        let device = format!(
            "slots:slots={slots},latency={}ns,discard_latency={}ns,size=1GiB,queue_depth={slots},\
             max_sectors={MAX_SECTORS},bandwidth=1000TB/s,rotational={}{}",
            self.latency_us * 1_000 + late,
            // A transfer takes a nanosecond, and a discard has none. What was issued at one instant
            // must end in this order.
            self.latency_us * 1_000 + late + 1,
            u32::from(self.rotational),
            if apart > 0 { format!(",deliver_each={apart}ns") } else { String::new() },
            slots = self.slots
        );
        let tunables: Vec<String> =
            self.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut scheduler = self.scheduler.clone();
        if !tunables.is_empty() {
            scheduler = format!("{scheduler}:{}", tunables.join(","));
        }
        let (least, most) = WAKE_US;
        let (step, tag_wake) = if self.is_in_steps() { (self.submit_us, 2) } else { (0, 0) };
        let cost = format!(
            "submit={}us,wake_step={step}us,complete=0us,scheduler=0us,lock=0us,call={CALL_NS}ns,hit=0us,\
             fault=0us,wake={least}us..{most}us,tag_wake={tag_wake}us,wakes=by-process,worker=500ns",
            self.submit_us
        );
        let mut words = ["--device", &device, "--scheduler", &scheduler, "--kernel", kernel]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--cpu-cost", &cost].map(str::to_owned));
        words.extend(["--seed".into(), self.seed.to_string()]);
        words.extend(["--set".into(), format!("hz={TICKS_A_SECOND}")]);
        let own = || self.queue.iter().map(|(name, value)| (name.as_str(), *value));
        let always = QUEUE.into_iter().filter(|(name, _)| own().all(|(other, _)| other != *name));
        // The first process starts just after a tick of the guest, and ticks stay in step there.
        words.extend(["--set".into(), "tick_phase=fixed".into()]);
        let is_set = |name: &str| own().any(|(other, _)| other == name);
        let mut settings: Vec<(&str, u64)> = always.chain(own()).collect();
        // The guest's queue becomes rotational after it was made, so it keeps these.
        if self.scheduler != "bfq" && !is_set("wbt_lat_usec") {
            settings.push(("wbt_lat_usec", 2_000));
        }
        if self.has_cache() {
            if !is_set("read_ahead_kb") {
                settings.push(("read_ahead_kb", if self.rotational { 252 } else { 128 }));
            }
            words.extend(["--memory".into(), format!("{}MiB", MEMORY >> 20)]);
            settings.push(("dirty_background_ratio", self.dirty.background));
            settings.push(("dirty_ratio", self.dirty.most));
        }
        settings.extend(self.tag_hint.map(|hint| ("tag_hint", hint)));
        for (name, value) in settings {
            words.extend(["--set".into(), format!("{name}={value}")]);
        }
        words
    }

    /// Returns the file of tenants; empty without any.
    pub fn tenants_file(&self) -> String {
        let mut text = String::new();
        for tenant in &self.tenants {
            let _ = writeln!(text, "[tenant.\"{}\"]", tenant.path);
            for (name, value) in &tenant.files {
                let _ = writeln!(text, "\"{name}\" = \"{value}\"");
            }
        }
        if !self.cost.is_empty() {
            text.push_str("[device]\n");
            for (name, value) in &self.cost {
                let _ = writeln!(text, "\"{name}\" = \"{value}\"");
            }
        }
        text
    }

    /// Returns the lines that the guest's load generator reads.
    pub fn load_file(&self) -> String {
        let mut text = String::new();
        for (index, process) in self.processes.iter().enumerate() {
            let (offset, size) = self.region(index);
            let engine = process.engine as u32;
            let _ = write!(
                text,
                "class={} level={} write={} trim={} random={} engine={engine} depth={} bs={} dsync={} \
                 fsync={} start={} runtime={} think={} think_blocks={} offset={offset} \
                 size={size} job={index} base={} seed={} wake={} spread={} submit={} step={} direct={}",
                process.class,
                process.level,
                u32::from(process.write),
                u32::from(process.trim),
                u32::from(process.random),
                process.depth,
                process.bs,
                u32::from(process.dsync),
                process.fsync,
                process.start_us * 1000,
                self.runtime_ms * 1_000_000,
                process.think_us * 1000,
                process.think_blocks.max(1),
                REPEATED.wrapping_add(self.seed.wrapping_sub(1)),
                self.seed,
                WAKE_US.0 * 1000,
                (WAKE_US.1 - WAKE_US.0) * 1000,
                if process.buffered { 0 } else { self.submit_us * 1000 },
                if self.is_in_steps() { self.submit_us * 1000 } else { 0 },
                u32::from(!process.buffered),
            );
            if !process.cgroup.is_empty() {
                let _ = write!(text, " cgroup=/cgroup/{}", process.cgroup);
            }
            text.push('\n');
        }
        text
    }

    /// Returns the lines of the guest's script. `index` is the number of the case in the guest,
    /// whose load is in `/host/load.INDEX`. `later_ns`: how much later than usual it begins.
    pub fn script(&self, index: usize, later_ns: u64) -> String {
        let mut text = format!(
            "echo CASE {index}\ndevice d{index} {} {} {}\n",
            self.slots,
            self.latency_us * 1000 - if self.is_in_steps() { LATE_NS } else { 0 },
            u32::from(self.processes.iter().any(|process| process.trim))
        );
        if self.has_cache() {
            let (background, most) = self.dirty.in_bytes();
            let _ = writeln!(text, "dirty {background} {most}");
        }
        // Elevon's `slots` device becomes rotational after its scheduler has started.
        let rotational = u32::from(self.rotational);
        let _ =
            writeln!(text, "put {} $Q/scheduler\nput {rotational} $Q/rotational", self.scheduler);
        for (name, value) in &self.queue {
            let _ = writeln!(text, "put {value} $Q/{name}");
        }
        for (name, value) in &self.tunables {
            let _ = writeln!(text, "put {value} $Q/iosched/{name}");
        }
        let _ = writeln!(text, "hint");
        for (name, value) in &self.cost {
            let _ = writeln!(text, "put \"$NUMBER {value}\" /cgroup/{name}");
        }
        for tenant in &self.tenants {
            let _ = writeln!(text, "group {}", tenant.path);
            for (name, value) in &tenant.files {
                let value =
                    if is_of_device(name) { format!("$NUMBER {value}") } else { value.clone() };
                let _ = writeln!(text, "put \"{value}\" /cgroup/{}/{name}", tenant.path);
            }
        }
        // The wait ends slices of io.max and windows of io.latency that began with the settings.
        // io.latency also does nothing in the first half second after the boot.
        let (traced, slow) = (u32::from(self.is_traced()), u32::from(self.is_in_steps()));
        let _ = writeln!(
            text,
            "usleep 1000000\nslow_issues {slow}\nevents {traced}\necho BEFORE $(cat $B/stat)\n\
             load /dev/$NAME /host/load.{index} {later_ns}\necho AFTER $(cat $B/stat)\n\
             events 0 /host/events.{index}"
        );
        for tenant in &self.tenants {
            let path = &tenant.path;
            let _ = writeln!(text, "echo GROUP {path} $(grep ^$NUMBER /cgroup/{path}/io.stat)");
        }
        if !self.cost.is_empty() {
            text.push_str("put \"$NUMBER enable=0\" /cgroup/io.cost.qos\n");
        }
        for tenant in self.tenants.iter().rev() {
            let _ = writeln!(text, "rmdir /cgroup/{}", tenant.path);
        }
        let _ = writeln!(text, "remove d{index}");
        text
    }

    /// Returns the case in a few words.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{}, {} slots of {} us{}",
            self.scheduler,
            self.slots,
            self.latency_us,
            if self.rotational { ", rotational" } else { "" }
        );
        for (name, value) in self.tunables.iter().chain(&self.queue) {
            let _ = write!(text, ", {name}={value}");
        }
        for (name, value) in &self.cost {
            let _ = write!(text, ", {name}: {value}");
        }
        for process in &self.processes {
            let class = ["none", "RT", "BE", "IDLE"][process.class as usize];
            let _ = write!(
                text,
                "\n    {class} {} {}{}{} {:?} depth {} bs {}",
                process.level,
                if process.buffered { "buffered " } else { "" },
                if process.random { "rand" } else { "" },
                match process {
                    Process { trim: true, .. } => "trim",
                    Process { write: true, .. } => "write",
                    _ => "read",
                },
                process.engine,
                process.depth,
                process.bs
            );
            for (name, value) in [
                ("dsync", u64::from(process.dsync)),
                ("fsync", u64::from(process.fsync)),
                ("start_us", process.start_us),
                ("think_us", process.think_us),
                ("think_blocks", u64::from(process.think_blocks)),
            ] {
                if value > 0 {
                    let _ = write!(text, " {name}={value}");
                }
            }
            for tenant in self.tenants.iter().filter(|tenant| tenant.path == process.cgroup) {
                for (name, value) in &tenant.files {
                    let _ = write!(text, " {name}: {value}");
                }
            }
        }
        text
    }
}

/// Returns true if a line of a control file begins with the device's number.
fn is_of_device(file: &str) -> bool {
    matches!(file, "io.max" | "io.latency")
}

/// The functions of the guest's script.
pub const FUNCTIONS: &str = r#"
put() { echo "$1" >"$2" || echo "REFUSED $2: $1"; }
device() {
	C=/sys/kernel/config/nullb/$1
	mkdir $C
	put $4 $C/memory_backed
	put $4 $C/discard
	put $3 $C/completion_nsec
	put 2 $C/irqmode
	put 1 $C/submit_queues
	put $2 $C/hw_queue_depth
	put 1024 $C/size
	put 1 $C/power
	NAME=$1
	[ -d /sys/block/$NAME ] || NAME=nullb$(cat $C/index)
	B=/sys/block/$NAME
	Q=$B/queue
	NUMBER=$(cat $B/dev)
}
hint() {
	F=$K/block/$NAME/hctx0/sched_tags
	[ ! -e $F ] || sed -n 's/alloc_hint={\([0-9]*\).*/HINT \1/p' $F
}
dirty() {
	put $2 /proc/sys/vm/dirty_bytes
	put $1 /proc/sys/vm/dirty_background_bytes
}
remove() {
	put 0 /sys/kernel/config/nullb/$1/power
	rmdir /sys/kernel/config/nullb/$1
}
group() {
	mkdir -p /cgroup/$1
	P=/cgroup/$1
	while [ "$P" != /cgroup ]; do
		P=${P%/*}
		put +io $P/cgroup.subtree_control
	done
}
T=/sys/kernel/tracing
K=/sys/kernel/debug
put 32768 $T/buffer_size_kb
make_issues_slow() {
	for I in 1 2 3 4 5 6; do
		mkdir $T/instances/$I
		put 8 $T/instances/$I/buffer_size_kb
		put mono $T/instances/$I/trace_clock
		put 0 $T/instances/$I/tracing_on
		put 1 $T/instances/$I/events/block/block_rq_issue/enable
	done
}
slow_issues() { for I in $T/instances/*; do put $1 $I/tracing_on; done; }
events() {
	put $1 $T/tracing_on
	[ -z "$2" ] || cat $T/trace >$2
	: >$T/trace
}
put +io /cgroup/cgroup.subtree_control
"#;
