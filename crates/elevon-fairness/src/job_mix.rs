//! Random mixes as job files, as a user writes them: a seed draws the device and the jobs.
//!
//! Every other seed draws jobs that come and go: bursts, starts and ends within the run, and phases
//! in which a process does something else. Nothing is drawn again because a scheduler does badly.

use std::fmt::Write as _;

use elevon_testkit::Rng;

/// The devices, equally often.
pub const DEVICES: [&str; 6] = [
    "slots:slots=8,latency=2ms,bandwidth=500MB/s",
    "slots:slots=4,latency=500us,bandwidth=1GB/s",
    "sata-ssd-860evo",
    "nvme-datacenter",
    "ufs-3.1",
    "hdd-7200",
];

/// Milliseconds of a run, and on a disk, of which a turn alone takes a fifth of a second.
const RUNTIME: [u64; 2] = [3_000, 6_000];
/// The part of the device of each job, in percent.
const PART: u64 = 16;
/// Sizes of I/Os are this many bytes, doubled up to eight times.
const LEAST_BYTES: u64 = 4096;

/// One job of a mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixJob {
    /// Name of its section, different from that of every other job of the mix.
    pub name: String,
    /// Its section, without the name.
    pub section: String,
    /// Its weight among the jobs, as BFQ derives it from the priority.
    pub weight: u64,
    /// When it starts and ends, in milliseconds from the start of the run.
    pub lives: (u64, u64),
    /// What it does, in a few words.
    pub words: String,
}

/// A mix of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMix {
    /// What it was drawn with.
    pub seed: u64,
    /// The device, as `--device` takes it.
    pub device: &'static str,
    /// Whether jobs come and go.
    pub varies: bool,
    /// The jobs.
    pub jobs: Vec<MixJob>,
}

impl JobMix {
    /// Returns the mix of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let device = DEVICES[(seed % DEVICES.len() as u64) as usize];
        let varies = seed / DEVICES.len() as u64 % 2 == 1;
        let run = RUNTIME[usize::from(device.starts_with("hdd"))];
        let (count, has_priorities) = (1 + rng.below(6), rng.one_in(2));
        let mut jobs = Vec::new();
        for at in 0..count {
            let level = if has_priorities { rng.below(8) } else { 4 };
            let way = if varies { rng.below(4) } else { 0 };
            match way {
                1 => {
                    let lives = (rng.below(run / 2), run / 2 + rng.below(run / 2));
                    jobs.push(job(&mut rng, format!("p{at}"), at, level, lives, false));
                }
                2 => {
                    let turn = run / 4 + rng.below(run / 2);
                    jobs.push(job(&mut rng, format!("p{at}a"), at, level, (0, turn), false));
                    jobs.push(job(&mut rng, format!("p{at}b"), at, level, (turn, run), false));
                }
                _ => jobs.push(job(&mut rng, format!("p{at}"), at, level, (0, run), way == 3)),
            }
        }
        Self { seed, device, varies, jobs }
    }

    /// Returns the job file, of all jobs or of one.
    pub fn text(&self, only: Option<usize>) -> String {
        let mut text = "[global]\nfilename=/dev/device\ndirect=1\ntime_based\n".to_owned();
        for (at, job) in self.jobs.iter().enumerate() {
            if only.is_none_or(|only| only == at) {
                write!(text, "[{}]\n{}", job.name, job.section).expect("text has room");
            }
        }
        text
    }

    /// Returns the part of the weights that a job has: the mean over its life, in which the
    /// others come and go.
    pub fn part(&self, at: usize) -> f64 {
        let (own, (start, end)) = (self.jobs[at].weight, self.jobs[at].lives);
        let sum = |time: u64| -> u64 {
            let lives = |job: &&MixJob| (job.lives.0..job.lives.1).contains(&time);
            self.jobs.iter().filter(lives).map(|job| job.weight).sum()
        };
        let parts: f64 = (start..end).map(|time| own as f64 / sum(time) as f64).sum();
        parts / (end - start) as f64
    }
}

fn job(
    rng: &mut Rng,
    name: String,
    place: u64,
    level: u64,
    lives: (u64, u64),
    is_bursty: bool,
) -> MixJob {
    let rw = rng.pick(&["read", "randread", "write", "randwrite"]);
    let bytes = LEAST_BYTES << rng.below(9);
    let depth = 1_u64 << rng.below(6);
    let engine = if depth == 1 { "psync" } else { rng.pick(&["libaio", "io_uring"]) };
    let think = if rng.one_in(4) { rng.pick(&[100, 300, 1_000, 3_000, 10_000]) } else { 0 };
    let mut section = format!(
        "rw={rw}\nbs={}k\nioengine={engine}\niodepth={depth}\noffset={}%\nsize={PART}%\nprio={level}\n\
         prioclass=2\nstartdelay={}ms\nruntime={}ms\n",
        bytes >> 10,
        place * PART,
        lives.0,
        lives.1 - lives.0,
    );
    let mut words = format!("{rw} {}k, depth {depth}, prio {level}", bytes >> 10);
    if is_bursty && depth > 4 && rng.one_in(2) {
        section +=
            &format!("iodepth_batch={depth}\niodepth_batch_complete_min={depth}\niodepth_low=1\n");
        words += ", in batches";
    } else if is_bursty {
        let (pause, ios) = (rng.pick(&[50, 200, 500]), rng.pick(&[16, 64, 256]));
        section += &format!("thinktime={pause}ms\nthinktime_blocks={ios}\n");
        words += &format!(", {pause} ms after {ios}");
    } else if think > 0 {
        section += &format!("thinktime={think}us\n");
        words += &format!(", thinks {think} us");
    }
    if lives.0 > 0 {
        words += &format!(", from {} ms", lives.0);
    }
    MixJob { name, section, weight: 10 * (8 - level), lives, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_one_mix_and_seeds_draw_all_kinds() {
        assert_eq!(JobMix::draw(7), JobMix::draw(7));
        let all: Vec<JobMix> = (0..600).map(JobMix::draw).collect();
        let count = |is: &dyn Fn(&JobMix) -> bool| all.iter().filter(|mix| is(mix)).count();
        assert!(DEVICES.iter().all(|device| count(&|mix| mix.device == *device) == 100));
        assert_eq!(count(&|mix| mix.varies), 300);
        for words in ["in batches", "ms after", ", from ", "thinks", "1024k", "depth 32"] {
            assert!(count(&|mix| mix.jobs.iter().any(|job| job.words.contains(words))) > 20);
        }
    }

    /// Two equal jobs, of which one has the second half of the other's time.
    #[test]
    fn weights_count_while_their_jobs_live() {
        let job = |lives| MixJob {
            name: String::new(),
            section: String::new(),
            weight: 40,
            lives,
            words: String::new(),
        };
        let jobs = vec![job((0, 1000)), job((500, 1000))];
        let mix = JobMix { seed: 0, device: DEVICES[0], varies: true, jobs };
        assert!((mix.part(0) - 0.75).abs() < 1e-9);
        assert!((mix.part(1) - 0.5).abs() < 1e-9);
    }
}
