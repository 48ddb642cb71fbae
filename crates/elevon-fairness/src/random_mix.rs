//! Random mixes of processes: a seed draws device, processes, weights and groups.
//!
//! What is drawn, and why so: half of the devices are `slots`, whose service is known exactly, in
//! shapes from one slow server to 32 fast ones; the others are profiles of every kind. Half of the
//! processes have one I/O at a time, as most programs have. Sizes are those of pages, of readahead
//! and of large writes. A quarter of the shallow processes think between I/Os. Three in ten mixes
//! have groups. Nothing is drawn again because a scheduler does badly on it.
//!
//! A mix on a device of more than [`FAST`] I/Os a second is measured for five seconds instead of
//! ten, after one second: it has as many I/Os as the others by then.

use elevon_core::units::Nanos;
use elevon_testkit::Rng;

use crate::mix::{Group, Mix, MixProcess};

/// Profiles, and how often each is drawn beside the others. `slc_size=0`: the fast part of the
/// drive's flash is used up, or the drive would be another one in the middle of the run.
const PROFILES: [(&str, u64); 11] = [
    ("sata-ssd-860evo", 3),
    ("sata-ssd-plextor-m5s", 3),
    ("ufs-2.1", 2),
    ("ufs-3.1", 2),
    ("ufs-4.0", 2),
    ("emmc-5.1", 3),
    ("emmc-5.1-cq", 3),
    ("nvme-consumer:slc_size=0", 2),
    ("nvme-datacenter", 2),
    ("hdd-7200", 4),
    ("hdd-nearline", 2),
];

/// The names of profiles that do more than [`FAST`] I/Os a second begin with these.
const FAST_PROFILES: [&str; 3] = ["sata", "ufs", "nvme"];

/// I/Os a second of a fast device.
const FAST: u64 = 20_000;

const KIB: u64 = 1 << 10;

/// Returns the mix of a seed.
pub fn random_mix(seed: u64) -> Mix {
    let mut rng = Rng(seed);
    let (device, is_fast) = if rng.one_in(2) { slots(&mut rng) } else { profile(&mut rng) };
    let groups = if rng.below(10) < 3 { groups(&mut rng) } else { Vec::new() };
    let is_weighted = !rng.one_in(4);
    let count = 2 + rng.below(5);
    let processes =
        (0..count).map(|at| process(&mut rng, at, is_weighted, groups.len() as u64)).collect();
    let mix = Mix { groups, seed, ..Mix::new(&device, processes) };
    if is_fast {
        Mix { warm_up: Nanos::from_secs(1), span: Nanos::from_secs(5), ..mix }
    } else {
        mix
    }
}

/// A device text, and whether it is fast.
fn slots(rng: &mut Rng) -> (String, bool) {
    let slots = rng.pick(&[1, 2, 4, 8, 16, 32]);
    let latency = rng.pick(&[500, 1_000, 2_000, 5_000]);
    let bandwidth = rng.pick(&[200, 500, 2_000]);
    let write_latency = rng.pick(&[0, 0, latency / 2, 2 * latency]);
    let depth = rng.pick(&[32, 128]);
    let text = format!(
        "slots:slots={slots},latency={latency}us,bandwidth={bandwidth}MB/s,write_latency={write_latency}us,queue_depth={depth}"
    );
    (text, slots * 1_000_000 / latency > FAST)
}

fn profile(rng: &mut Rng) -> (String, bool) {
    let all: u64 = PROFILES.iter().map(|(_, often)| often).sum();
    let mut at = rng.below(all);
    for (name, often) in PROFILES {
        match at.checked_sub(often) {
            Some(rest) => at = rest,
            None => {
                return (name.to_owned(), FAST_PROFILES.iter().any(|fast| name.starts_with(fast)));
            }
        }
    }
    unreachable!("the number drawn is below the sum")
}

/// Two or three groups, and now and then one that lies in the first.
fn groups(rng: &mut Rng) -> Vec<Group> {
    let group = |rng: &mut Rng, name: &str, parent| {
        let weight = rng.pick(&[50, 100, 200, 400]);
        Group { name: name.to_owned(), parent, weight, reserve: 0 }
    };
    let mut all = vec![group(rng, "a", None), group(rng, "b", None)];
    if rng.one_in(2) {
        let parent = rng.one_in(2).then_some(0);
        all.push(group(rng, "c", parent));
    }
    all
}

fn process(rng: &mut Rng, at: u64, is_weighted: bool, groups: u64) -> MixProcess {
    let depth = if rng.one_in(2) { 1 } else { rng.pick(&[2, 4, 8, 16, 32]) };
    let think =
        if depth == 1 && rng.one_in(4) { rng.pick(&[200, 1_000, 5_000, 20_000]) } else { 0 };
    // With groups each process is in one, so that no process has a group for a sibling.
    let group = (groups > 0).then(|| rng.below(groups) as usize);
    MixProcess {
        group,
        level: if is_weighted { rng.below(8) as u8 } else { 4 },
        is_write: rng.below(10) < 3,
        is_random: rng.below(10) < 6,
        bytes: rng.pick(&[4 * KIB, 4 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB]),
        depth,
        think: Nanos::from_micros(think),
        think_ios: rng.pick(&[1, 1, 4]),
        ..MixProcess::reader(&format!("p{at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_one_mix_and_seeds_draw_all_kinds() {
        assert_eq!(random_mix(7), random_mix(7));
        let all: Vec<Mix> = (0..1_000).map(random_mix).collect();
        for (profile, _) in PROFILES {
            assert!(all.iter().any(|mix| mix.device == profile), "{profile}");
        }
        let share = |is: &dyn Fn(&Mix) -> bool| all.iter().filter(|mix| is(mix)).count();
        assert!((450..=550).contains(&share(&|mix| mix.device.starts_with("slots"))));
        assert!((250..=350).contains(&share(&|mix| !mix.groups.is_empty())));
        assert!(share(&|mix| mix.processes.iter().any(|process| !process.think.is_zero())) > 300);
        assert!(share(&|mix| mix.groups.iter().any(|group| group.parent.is_some())) > 40);
    }
}
