//! The scenarios by which `aileron` is judged, each with its goals: one table of data.
//!
//! The figures that goals are compared with are what `none` gives the same processes, what a
//! process gets alone, and the shares of the oracle. `SLOTS` is a device on which real kernels were
//! measured (`tests/data/kernel-truth`): eight servers of 2 ms.

use elevon_core::ioprio::PrioClass;
use elevon_core::units::Nanos;

use crate::division::Claims;
use crate::goal::Goal::{
    self, ByWeight, ByWeightIn, DepthIn, EachOfNone, LastsOfAlone, NobodyStarves, OfAlone,
    OfAloneIn, OfNone, OfPaced, OfShare, Steady, TailOfAlone, TotalOf, TotalOfNone,
};
use crate::goal::{Run, Score, Stretch};
use crate::lab::Lab;
use crate::mix::{Group, Mix, MixProcess};
use crate::setup::Setup;

/// Processes on a device, and what must hold of what they get.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name, without spaces.
    pub name: String,
    /// What runs.
    pub mix: Mix,
    /// What must hold.
    pub goals: Vec<Goal>,
}

impl Scenario {
    /// Runs it under a scheduler and returns how it met each goal.
    pub fn score(&self, lab: &Lab, setup: &Setup) -> Vec<Score> {
        let claims = Claims::from_lab(lab, &self.mix);
        let (own, none) = (lab.run(&self.mix, setup), lab.run(&self.mix, &Setup::NONE));
        let run = Run { lab, mix: &self.mix, claims: &claims, own: &own, none: &none };
        self.goals.iter().map(|goal| goal.score(&run)).collect()
    }
}

const SLOTS: &str = "slots:slots=8,latency=2ms,bandwidth=500MB/s";
const KIB: u64 = 1 << 10;

/// What a reader beside a deep writer is to get of what it gets alone: 400 of 465 I/Os a second.
const READER: f64 = 0.86;

/// Returns every scenario.
pub fn scenarios() -> Vec<Scenario> {
    let parts = [
        weighted(),
        beside_a_writer(),
        shares(),
        start_up(),
        streams(),
        changes(),
        floors(),
        classes(),
    ];
    parts.into_iter().flatten().collect()
}

fn scenario(name: &str, mix: Mix, goals: &[Goal]) -> Scenario {
    Scenario { name: name.to_owned(), mix, goals: goals.to_vec() }
}

fn random_reader(name: &str, bytes: u64, depth: u32) -> MixProcess {
    MixProcess { bytes, depth, ..MixProcess::reader(name) }
}

fn stream(name: &str, bytes: u64, depth: u32) -> MixProcess {
    MixProcess { is_random: false, ..random_reader(name, bytes, depth) }
}

fn writer(name: &str, bytes: u64, depth: u32) -> MixProcess {
    MixProcess { is_write: true, ..stream(name, bytes, depth) }
}

fn random_writer(name: &str, bytes: u64, depth: u32) -> MixProcess {
    MixProcess { is_write: true, ..random_reader(name, bytes, depth) }
}

fn at_level(level: u8, process: MixProcess) -> MixProcess {
    MixProcess { level, ..process }
}

fn thinks(micros: u64, process: MixProcess) -> MixProcess {
    MixProcess { think: Nanos::from_micros(micros), ..process }
}

/// Random readers of 4 KiB with the weights 80:70:60:50:40.
fn five_readers(depth: u32) -> Vec<MixProcess> {
    five_readers_of(4 * KIB, depth)
}

fn five_readers_of(bytes: u64, depth: u32) -> Vec<MixProcess> {
    (0..5)
        .map(|level| at_level(level, random_reader(&format!("w{}", 80 - 10 * level), bytes, depth)))
        .collect()
}

/// Weights on a device that is not saturated, and on one that is.
fn weighted() -> Vec<Scenario> {
    let saturated = [ByWeight(0.02), TotalOfNone(0.97)];
    vec![
        scenario(
            "a-five-readers-of-8-slots",
            Mix::new(SLOTS, five_readers(1)),
            &[EachOfNone(0.98)],
        ),
        scenario(
            "b-five-readers-of-2-slots",
            Mix::new("slots:slots=2,latency=2ms,bandwidth=500MB/s", five_readers(1)),
            &saturated,
        ),
        scenario("b-five-deep-readers-of-8-slots", Mix::new(SLOTS, five_readers(8)), &saturated),
    ]
}

/// A reader with one I/O at a time beside a deep writer of equal weight.
///
/// On eight servers the writer can leave the reader one. On a flash drive it cannot: data that was
/// written are programmed into every die, a program is not interrupted, and a read of that die
/// waits for it, even if the writer has one I/O in flight. `OfPaced` says what the drive allows.
fn beside_a_writer() -> Vec<Scenario> {
    let devices = [SLOTS, "sata-ssd-860evo", "ufs-3.1", "nvme-consumer:slc_size=0"];
    let paced = OfPaced { process: 0, paced: 1, to: 0.90, part: 0.90 };
    let goals = [OfNone(1, 0.90), paced, OfAlone(0, READER), TailOfAlone(0, 2.0)];
    let of = |device: &str| {
        let processes = vec![random_reader("reader", 4 * KIB, 1), writer("writer", 256 * KIB, 32)];
        scenario(
            &format!("c-reader-beside-writer-{}", short(device)),
            on(device, processes),
            &goals,
        )
    };
    devices.into_iter().map(of).collect()
}

/// A mix on a device: on one that does tens of thousands of I/Os a second for a second of warm-up
/// and three more, which are as many I/Os as others have in ten.
fn on(device: &str, processes: Vec<MixProcess>) -> Mix {
    let mix = Mix::new(device, processes);
    let is_fast = ["sata", "ufs", "nvme"].iter().any(|fast| device.starts_with(fast));
    if is_fast {
        Mix { warm_up: Nanos::from_secs(1), span: Nanos::from_secs(3), ..mix }
    } else {
        mix
    }
}

/// The name of a device without its parameters.
fn short(device: &str) -> &str {
    device.split(':').next().unwrap_or(device)
}

/// Every kind of difference between processes: none below 0.95 of the max-min share.
fn shares() -> Vec<Scenario> {
    let of = |name: &str, device: &str, processes: Vec<MixProcess>| {
        scenario(&format!("d-{name}-{}", short(device)), on(device, processes), &[OfShare(0.95)])
    };
    let slow_writes = "slots:slots=8,latency=2ms,bandwidth=500MB/s,write_latency=6ms";
    let mut all = vec![
        of(
            "sequential-and-random",
            SLOTS,
            vec![stream("stream", 128 * KIB, 8), random_reader("random", 4 * KIB, 8)],
        ),
        of(
            "readers-and-writers",
            slow_writes,
            vec![
                random_reader("reads-1", 4 * KIB, 8),
                random_writer("writes-1", 4 * KIB, 8),
                at_level(0, random_reader("reads-2", 16 * KIB, 4)),
                at_level(6, random_writer("writes-2", 64 * KIB, 32)),
            ],
        ),
        of(
            "small-and-large",
            "slots:slots=8,latency=500us,bandwidth=100MB/s",
            vec![
                random_reader("small", 4 * KIB, 16),
                random_reader("large", 256 * KIB, 16),
                at_level(1, random_reader("middle", 64 * KIB, 16)),
            ],
        ),
        of(
            "think-times",
            SLOTS,
            vec![
                thinks(1_000, random_reader("thinks-1ms", 4 * KIB, 1)),
                thinks(5_000, random_reader("thinks-5ms", 16 * KIB, 1)),
                random_reader("deep-1", 4 * KIB, 16),
                at_level(0, random_reader("deep-2", 64 * KIB, 16)),
            ],
        ),
        of(
            "one-of-each",
            slow_writes,
            vec![
                at_level(0, stream("stream", 256 * KIB, 4)),
                at_level(2, random_reader("random", 4 * KIB, 16)),
                at_level(6, writer("writer", 256 * KIB, 32)),
                thinks(2_000, random_reader("thinks", 4 * KIB, 1)),
            ],
        ),
        groups(),
    ];
    for device in ["sata-ssd-860evo", "ufs-3.1", "emmc-5.1-cq", "nvme-datacenter"] {
        let processes = vec![
            at_level(0, stream("stream", 128 * KIB, 4)),
            random_reader("random", 4 * KIB, 32),
            at_level(6, random_reader("large", 64 * KIB, 8)),
        ];
        all.push(of("sequential-and-random", device, processes));
        let processes = vec![
            random_reader("reads", 4 * KIB, 32),
            at_level(2, random_writer("writes", 16 * KIB, 32)),
        ];
        all.push(of("readers-and-writers", device, processes));
    }
    all
}

/// Two groups of processes, one of which has a third inside.
fn groups() -> Scenario {
    let group =
        |name: &str, parent, weight| Group { name: name.to_owned(), parent, weight, reserve: 0 };
    let member = |group: usize, process: MixProcess| MixProcess { group: Some(group), ..process };
    let processes = vec![
        member(0, random_reader("a1", 4 * KIB, 16)),
        member(0, at_level(0, random_reader("a2", 16 * KIB, 16))),
        member(1, random_reader("b1", 64 * KIB, 16)),
        member(2, random_writer("c1", 4 * KIB, 16)),
        // It cannot use what it is due; its group has the rest.
        member(2, at_level(0, random_reader("c2", 4 * KIB, 1))),
    ];
    let groups = vec![group("a", None, 300), group("b", None, 100), group("c", Some(1), 40)];
    let mix = Mix { groups, ..Mix::new(SLOTS, processes) };
    scenario("d-groups-slots", mix, &[OfShare(0.95)])
}

/// A program that starts beside five heavy processes. Its I/Os follow one another, as those of a
/// program that is being loaded.
fn start_up() -> Vec<Scenario> {
    let of = |device: &str, ios: u64| {
        let starts = MixProcess {
            start: Nanos::from_millis(1_500),
            ios: Some(ios),
            ..thinks(200, random_reader("program", 16 * KIB, 1))
        };
        let heavy = [
            random_reader("heavy-1", 4 * KIB, 32),
            random_reader("heavy-2", 64 * KIB, 16),
            stream("heavy-3", 256 * KIB, 8),
            writer("heavy-4", 256 * KIB, 32),
            random_writer("heavy-5", 16 * KIB, 32),
        ];
        let mix = on(device, std::iter::once(starts).chain(heavy).collect());
        scenario(
            &format!("f-start-up-{}", short(device)),
            mix,
            &[LastsOfAlone(0, 1.3), NobodyStarves(0, 0.5)],
        )
    };
    vec![
        of(SLOTS, 500),
        of("sata-ssd-860evo", 2_000),
        of("ufs-3.1", 2_000),
        of("nvme-consumer:slc_size=0", 2_000),
    ]
}

/// Streams of a disk: seeks between them cost, so whoever serves each for a while gains.
fn streams() -> Vec<Scenario> {
    let of = |name: &str, processes: Vec<MixProcess>| {
        let mix =
            Mix { merges: true, span: Nanos::from_secs(20), ..Mix::new("hdd-7200", processes) };
        scenario(&format!("g-{name}-hdd-7200"), mix, &[TotalOf(Setup::BFQ, 0.9)])
    };
    let many = |count: u32| {
        (0..count).map(|at| stream(&format!("stream-{at}"), 128 * KIB, 1)).collect::<Vec<_>>()
    };
    let weighted =
        (0..3).map(|at| at_level(2 * at, stream(&format!("stream-{at}"), 256 * KIB, 2))).collect();
    vec![
        of("two-streams", many(2)),
        of("eight-streams", many(8)),
        of("three-weighted-streams", weighted),
    ]
}

/// The device changes under the processes. From a second after each change on the shares are right
/// again, the device does what it can, and does not hold more than it needs for that.
fn changes() -> Vec<Scenario> {
    let phases = [Stretch::seconds(2, 4), Stretch::seconds(5, 8), Stretch::seconds(9, 12)];
    let slowed = |factor: u32| vec![format!("slow:from=4s,for=4s,factor={factor}")];
    let per_phase = |goals: &dyn Fn(Stretch) -> Vec<Goal>| {
        phases.into_iter().flat_map(goals).collect::<Vec<_>>()
    };
    let deep = |device: &str, bytes: u64, factor: u32, most: f64| Scenario {
        name: format!("h-slower-by-{factor}-and-faster-again-{}", short(device)),
        mix: Mix { faults: slowed(factor), ..Mix::new(device, five_readers_of(bytes, 8)) },
        goals: per_phase(&|phase| {
            vec![Steady(phase, 0.9), ByWeightIn(phase, 0.05), DepthIn(phase, most)]
        }),
    };
    // 4 GB are full after about two seconds; then the drive writes half as fast.
    let full = vec![random_reader("reader", 4 * KIB, 1), writer("writer", 256 * KIB, 32)];
    let phase = Stretch::seconds(5, 12);
    vec![
        deep(SLOTS, 4 * KIB, 10, 16.0),
        deep(SLOTS, 4 * KIB, 3, 16.0),
        deep("sata-ssd-860evo", 64 * KIB, 10, 32.0),
        scenario(
            "h-fast-part-full-nvme-consumer",
            Mix::new("nvme-consumer:slc_size=4GB", full),
            &[Steady(phase, 0.9), OfAloneIn(phase, 0, READER)],
        ),
    ]
}

const TWO_SLOTS: &str = "slots:slots=2,latency=1ms";

/// A tenant of weight 1 with a floor beside one of weight 1000.
fn floors() -> Vec<Scenario> {
    let of = |name: &str, reserve: u64, processes: [MixProcess; 2], goals: &[Goal]| {
        let group = |name: &str, weight, reserve| Group {
            name: name.to_owned(),
            parent: None,
            weight,
            reserve,
        };
        let in_group = |(at, process)| MixProcess { group: Some(at), ..process };
        let groups = vec![group("a", 1, reserve), group("b", 1000, 0)];
        let processes = processes.into_iter().enumerate().map(in_group).collect();
        scenario(
            &format!("i-floor-{name}-slots"),
            Mix { groups, ..Mix::new(TWO_SLOTS, processes) },
            goals,
        )
    };
    let urgent = MixProcess { class: PrioClass::Rt, ..random_reader("urgent", 4 * KIB, 32) };
    vec![
        // Of 995 I/Os a second alone the floors are 0.90 and 0.50.
        of(
            "one-at-a-time",
            900,
            [random_reader("reader", 4 * KIB, 1), random_writer("writer", 4 * KIB, 32)],
            &[OfAlone(0, 0.88), TotalOfNone(0.97)],
        ),
        of(
            "at-half",
            500,
            [random_reader("reader", 4 * KIB, 1), random_writer("writer", 4 * KIB, 32)],
            &[OfAlone(0, 0.49), TotalOfNone(0.97)],
        ),
        // A half of what the device does.
        of(
            "beside-urgent",
            1000,
            [random_reader("reader", 4 * KIB, 8), urgent],
            &[OfAlone(0, 0.49), TotalOfNone(0.97)],
        ),
    ]
}

/// Two classes of a tenant, all of whose I/Os fit into the device.
fn classes() -> Vec<Scenario> {
    let of = |device: &str, depth: u32, classes: [PrioClass; 2], goals: &[Goal]| {
        let process =
            |class: PrioClass| MixProcess { class, ..random_reader(class.name(), 4 * KIB, depth) };
        let name =
            format!("i-{}-before-{}-{}", classes[0].name(), classes[1].name(), short(device));
        scenario(&name, on(device, classes.map(process).to_vec()), goals)
    };
    let pairs = [[PrioClass::Rt, PrioClass::Be], [PrioClass::Be, PrioClass::Idle]];
    let slots =
        pairs.map(|classes| of(TWO_SLOTS, 8, classes, &[OfAlone(0, 0.98), TotalOfNone(0.98)]));
    let drive = of("sata-ssd-860evo", 16, pairs[1], &[OfAlone(0, 0.90), TotalOfNone(0.90)]);
    slots.into_iter().chain([drive]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_point_has_a_scenario() {
        let all = scenarios();
        for (at, scenario) in all.iter().enumerate() {
            assert!(
                !scenario.name.contains(' ') && !scenario.goals.is_empty(),
                "{}",
                scenario.name
            );
            assert!(all[..at].iter().all(|other| other.name != scenario.name), "{}", scenario.name);
        }
        for letter in ["a-", "b-", "c-", "d-", "f-", "g-", "h-", "i-"] {
            assert!(all.iter().any(|scenario| scenario.name.starts_with(letter)), "{letter}");
        }
    }
}
