//! `random_distribution`: the block of a range that an access goes to. Floats use basic operations
//! only ([`crate::math`]). Cost of a draw: O(1) on average, O(zones) for the zoned forms.

use elevon_formats::fio::spec::Distribution;

use crate::chance::{Permutation, Rng};
use crate::math::{exp, exp_m1_over, ln, ln_1p_over};

/// Draws blocks in `0..len` from a distribution.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    len: u64,
    kind: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Ranked {
        rank: Rank,
        place: RankOrder,
    },
    Normal {
        centre: f64,
        deviation: f64,
    },
    /// (cumulative percentage of accesses, first block, number of blocks).
    Zones(Vec<(u64, u64, u64)>),
    /// Not by chance.
    Listed(Sequence),
}

#[derive(Clone, Debug)]
enum Rank {
    Zipf(Zipf),
    /// The power that a uniform draw is raised to.
    Pareto(f64),
}

/// The place of a rank: scattered, or counted from a centre.
#[derive(Clone, Debug)]
enum RankOrder {
    Scattered(Permutation),
    From(u64),
}

impl Sampler {
    /// Returns a sampler for `len` blocks of `block` bytes; `len` is at least 1.
    pub(crate) fn new(distribution: &Distribution, len: u64, block: u64, rng: &mut Rng) -> Self {
        let mut ranked = |rank, centre: Option<f64>| {
            let place = match centre {
                Some(c) => RankOrder::From(((c * len as f64) as u64).min(len - 1)),
                None => RankOrder::Scattered(Permutation::new(len, rng)),
            };
            Shape::Ranked { rank, place }
        };
        let kind = match distribution {
            Distribution::Random => Shape::Uniform,
            Distribution::Zipf(theta, centre) => {
                ranked(Rank::Zipf(Zipf::new(len, *theta)), *centre)
            }
            Distribution::Pareto(h, centre) => ranked(Rank::Pareto(ln(*h) / ln(1.0 - *h)), *centre),
            Distribution::Normal(percent, centre) => Shape::Normal {
                centre: centre.unwrap_or(0.5) * len as f64,
                deviation: *percent / 100.0 * len as f64,
            },
            Distribution::Zoned(zones) => {
                zoned(len, zones.iter().map(|&(share, range)| (share, percent_of(len, range))))
            }
            Distribution::ZonedAbsolute(zones) => {
                zoned(len, zones.iter().map(|&(share, bytes)| (share, bytes / block)))
            }
            Distribution::Sequence { blocks, stride } => {
                Shape::Listed(Sequence::new(blocks, *stride, len))
            }
        };
        Self { len, kind }
    }

    /// Returns true if [`Self::draw`] is [`Self::draw_evenly`].
    #[inline(always)]
    pub(crate) const fn is_uniform(&self) -> bool {
        matches!(self.kind, Shape::Uniform)
    }

    /// Draws any block with the same chance.
    #[inline(always)]
    pub(crate) fn draw_evenly(&self, rng: &mut Rng) -> u64 {
        rng.below(self.len)
    }

    #[inline(never)]
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match &mut self.kind {
            Shape::Uniform => rng.below(self.len),
            Shape::Listed(sequence) => sequence.next(self.len),
            Shape::Ranked { rank, place } => {
                let rank = match rank {
                    Rank::Zipf(zipf) => zipf.draw(rng),
                    // Gray et al. 1994, self-similar: the first h of the range gets 1-h of the
                    // accesses.
                    Rank::Pareto(power) => {
                        let u = rng.unit();
                        let share = if u <= 0.0 { 0.0 } else { exp(ln(u) * *power) };
                        ((share * self.len as f64) as u64).min(self.len - 1)
                    }
                };
                match place {
                    RankOrder::Scattered(permutation) => permutation.at(rank),
                    RankOrder::From(centre) => {
                        ((u128::from(*centre) + u128::from(rank)) % u128::from(self.len)) as u64
                    }
                }
            }
            Shape::Normal { centre, deviation } => normal(self.len, *centre, *deviation, rng),
            Shape::Zones(zones) => {
                let share = rng.below(100);
                let &(_, first, blocks) =
                    zones.iter().find(|z| share < z.0).unwrap_or(&zones[zones.len() - 1]);
                first + rng.below(blocks)
            }
        }
    }

    /// Starts again: a list with its first round.
    pub(crate) const fn rewind(&mut self) {
        if let Shape::Listed(sequence) = &mut self.kind {
            (sequence.next, sequence.base) = (0, 0);
        }
    }
}

/// Draws the sum of twelve uniform draws, which has variance 1; a draw outside the range is
/// repeated.
fn normal(len: u64, centre: f64, deviation: f64, rng: &mut Rng) -> u64 {
    for _ in 0..16 {
        let sum: f64 =
            (0..6).map(|_| rng.next_u64()).map(|w| ((w >> 32) + (w & 0xffff_ffff)) as f64).sum();
        let at = centre + (sum / (1u64 << 32) as f64 - 6.0) * deviation;
        if at >= 0.0 && at < len as f64 {
            return at as u64;
        }
    }
    (centre as u64).min(len - 1)
}

/// Blocks in the order of a list, round after round.
#[derive(Clone, Debug)]
struct Sequence {
    blocks: Vec<u64>,
    /// Blocks that a round lies behind the one before it.
    step: u64,
    /// The next entry of the list.
    next: usize,
    /// Blocks from the front of the range to where the round lies.
    base: u64,
}

impl Sequence {
    /// Returns the order of at least one block in a range of `len` blocks, at least 1: what lies
    /// beyond it starts again at its front. With `stride` each round lies as much further on as it
    /// has blocks.
    fn new(blocks: &[u64], stride: bool, len: u64) -> Self {
        let step = if stride { blocks.len() as u64 % len } else { 0 };
        Self { blocks: blocks.iter().map(|block| block % len).collect(), step, next: 0, base: 0 }
    }

    /// Returns the next block of a range of `len` blocks.
    fn next(&mut self, len: u64) -> u64 {
        let block = (self.base + self.blocks[self.next]) % len;
        self.next += 1;
        if self.next == self.blocks.len() {
            (self.next, self.base) = (0, (self.base + self.step) % len);
        }
        block
    }
}

fn percent_of(len: u64, percent: u32) -> u64 {
    (u128::from(len) * u128::from(percent) / 100) as u64
}

/// Returns the zones in order. Empty zones get one block; the last zone ends with the range.
fn zoned(len: u64, zones: impl Iterator<Item = (u32, u64)>) -> Shape {
    let (mut access, mut first) = (0, 0);
    let mut out = Vec::new();
    for (share, blocks) in zones {
        let start = first.min(len - 1);
        let blocks = blocks.clamp(1, len - start);
        access += u64::from(share);
        out.push((access, start, blocks));
        first = start + blocks;
    }
    if out.is_empty() { Shape::Uniform } else { Shape::Zones(out) }
}

/// Zipf ranks by rejection-inversion (Hörmann and Derflinger 1996): exact for any theta > 0,
/// without a table or a sum over the range.
#[derive(Clone, Debug)]
struct Zipf {
    len: u64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(len: u64, theta: f64) -> Self {
        let mut zipf = Self { len, theta, integral_first: 0.0, integral_last: 0.0, squeeze: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(len as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }
    fn density(&self, x: f64) -> f64 {
        exp(-self.theta * ln(x))
    }
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        exp_m1_over((1.0 - self.theta) * log) * log
    }
    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.theta)).max(-1.0 + 1e-15);
        exp(ln_1p_over(t) * x)
    }
    /// Draws a rank, from 0 on.
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.len);
            if k as f64 - x <= self.squeeze
                || u >= self.integral(k as f64 + 0.5) - self.density(k as f64)
            {
                return k - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1000;

    fn counts(distribution: &Distribution, draws: usize) -> Vec<usize> {
        let mut rng = Rng::new(3);
        let mut sampler = Sampler::new(distribution, LEN, 4096, &mut rng);
        let mut counts = vec![0; LEN as usize];
        for _ in 0..draws {
            counts[sampler.draw(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.5, 1.0, 1.2] {
            let counts = counts(&Distribution::Zipf(theta, Some(0.0)), 200_000);
            let zeta: f64 = (1..=LEN).map(|k| (k as f64).powf(-theta)).sum();
            for k in [1usize, 2, 5, 20] {
                let expected = 200_000.0 * (k as f64).powf(-theta) / zeta;
                let got = counts[k - 1] as f64;
                assert!(
                    (got - expected).abs() < 5.0 * expected.sqrt() + 5.0,
                    "theta {theta} rank {k}: {got} {expected}"
                );
            }
        }
    }

    #[test]
    fn pareto_is_self_similar() {
        let counts = counts(&Distribution::Pareto(0.2, Some(0.0)), 100_000);
        let first: usize = counts[..200].iter().sum();
        assert!((79_000..81_000).contains(&first), "{first}");
        let first: usize = counts[..40].iter().sum();
        assert!((63_000..65_000).contains(&first), "80 % of 80 % in 20 % of 20 %: {first}");
    }

    #[test]
    fn hot_blocks_are_scattered_unless_centred() {
        let scattered = counts(&Distribution::Zipf(1.2, None), 50_000);
        let centred = counts(&Distribution::Zipf(1.2, Some(0.25)), 50_000);
        let hottest = |c: &[usize]| (0..c.len()).max_by_key(|&i| c[i]);
        assert_eq!(hottest(&centred), Some(250));
        assert_ne!(hottest(&scattered), Some(0));
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let counts = counts(&Distribution::Normal(10.0, None), 100_000);
        let mean = counts.iter().enumerate().map(|(i, &c)| i as f64 * c as f64).sum::<f64>() / 1e5;
        let variance = counts
            .iter()
            .enumerate()
            .map(|(i, &c)| (i as f64 - mean).powi(2) * c as f64)
            .sum::<f64>()
            / 1e5;
        assert!(
            (mean - 499.5).abs() < 2.0 && (variance.sqrt() - 100.0).abs() < 2.0,
            "{mean} {}",
            variance.sqrt()
        );
    }

    #[test]
    fn a_list_is_gone_through_in_rounds() {
        let draws = |blocks: &[u64], stride, len| -> Vec<u64> {
            let mut rng = Rng::new(1);
            let list = Distribution::Sequence { blocks: blocks.to_vec(), stride };
            let mut sampler = Sampler::new(&list, len, 4096, &mut rng);
            let mut draw = || (0..7).map(|_| sampler.draw(&mut rng)).collect();
            let first: Vec<u64> = draw();
            sampler.rewind();
            assert_eq!((0..7).map(|_| sampler.draw(&mut rng)).collect::<Vec<_>>(), first);
            first
        };
        assert_eq!(draws(&[2, 0, 1], false, 100), [2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(draws(&[2, 0, 1], true, 100), [2, 0, 1, 5, 3, 4, 8]);
        assert_eq!(
            draws(&[2, 0, 1], true, 5),
            [2, 0, 1, 0, 3, 4, 3],
            "what lies beyond the end is at the front"
        );
        assert_eq!(draws(&[7], true, 3), [1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn zones_get_their_share() {
        // The manual's example: 60 % to the first 10 %, 30 % to the next 20 %, 8 % to the next 30
        // %, 2 % to the last 40 %.
        let relative = Distribution::Zoned(vec![(60, 10), (30, 20), (8, 30), (2, 40)]);
        let absolute = Distribution::ZonedAbsolute(vec![
            (60, 409_600),
            (30, 819_200),
            (8, 1_228_800),
            (2, 1_638_400),
        ]);
        for distribution in [relative, absolute] {
            let counts = counts(&distribution, 100_000);
            for (range, percent) in [(0..100, 60), (100..300, 30), (300..600, 8), (600..1000, 2)] {
                let got: usize = counts[range].iter().sum();
                assert!(got.abs_diff(percent * 1000) < 700, "{got} for {percent}");
            }
        }
    }

    #[test]
    fn draws_stay_inside_tiny_ranges() {
        let mut rng = Rng::new(1);
        for len in 1..5 {
            for d in [
                Distribution::Zipf(1.1, None),
                Distribution::Pareto(0.3, Some(1.0)),
                Distribution::Normal(90.0, Some(1.0)),
                Distribution::Zoned(vec![(50, 50), (50, 50)]),
                Distribution::ZonedAbsolute(vec![(100, 1 << 40)]),
            ] {
                let mut sampler = Sampler::new(&d, len, 512, &mut rng);
                assert!((0..200).all(|_| sampler.draw(&mut rng) < len), "{d:?} {len}");
            }
        }
    }
}
