//! Which points of a sweep's axes are run: all of them, or a sample.

use elevon_sim::chance::{below, draw};

use crate::axis::Axis;
use crate::error::SweepError;

/// Maximum number of points.
const MAX_POINTS: u64 = 1_000_000;
/// Purpose of the draws of a Latin hypercube.
const LATIN: u64 = 0x1a71_0001;
/// Purpose of the draws of a place within a part of it.
const PLACE: u64 = 0x1a72_0001;
/// Maximum number of points of Sobol's sequence, from where on the generator repeats itself.
const MAX_OF_SOBOL: u64 = 1 << 16;

/// How points are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Every combination.
    Grid,
    /// A Latin hypercube: the values of each axis are divided into as many parts as there are
    /// points, and each part has one (McKay, Beckman and Conover 1979).
    Latin(u64),
    /// Sobol's sequence with Owen's scrambling, which fills the space evenly.
    Sobol(u64),
}

impl Sampling {
    /// Parses `latin:COUNT` or `sobol:COUNT`.
    pub(crate) fn parse(text: &str) -> Result<Self, SweepError> {
        let bad =
            || SweepError::Sample { text: text.to_owned(), latin: MAX_POINTS, sobol: MAX_OF_SOBOL };
        let (kind, count) = text.split_once(':').ok_or_else(bad)?;
        let most = if kind == "sobol" { MAX_OF_SOBOL } else { MAX_POINTS };
        let count =
            count.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(bad)?;
        match kind {
            "latin" => Ok(Self::Latin(count)),
            "sobol" => Ok(Self::Sobol(count)),
            _ => Err(bad()),
        }
    }
}

/// A point: for each axis the index of its value.
pub(crate) type Point = Vec<usize>;

/// Returns the points in order: of a grid the last axis changes fastest, as nested loops would. A
/// point that a sample meets twice is there once. Of the axis that is `compared`, a sample has all
/// values at each place on the others.
pub(crate) fn points(
    axes: &[Axis],
    sampling: Sampling,
    seed: u64,
    compared: Option<usize>,
) -> Result<Vec<Point>, SweepError> {
    let mut drawn: Vec<&Axis> = axes.iter().collect();
    let apart = compared.map(|at| (at, drawn.remove(at).len()));
    let all = match sampling {
        Sampling::Grid => return grid(axes),
        Sampling::Latin(count) => latin(drawn.len(), count, seed),
        Sampling::Sobol(count) => sobol(drawn.len(), count, seed),
    };
    let sample = on_axes(&drawn, all);
    let Some((at, values)) = apart else { return Ok(sample) };
    if sample.len().saturating_mul(values) as u64 > MAX_POINTS {
        return Err(SweepError::TooMany {
            points: format!("{} x {values}", sample.len()),
            most: MAX_POINTS,
        });
    }
    let with = |place: &Point, value: usize| {
        let mut point = place.clone();
        point.insert(at, value);
        point
    };
    Ok(sample.iter().flat_map(|place| (0..values).map(move |value| with(place, value))).collect())
}

/// Returns points of Sobol's sequence.
pub(crate) fn sobol_points(axes: &[Axis], count: u64, seed: u64) -> Vec<Point> {
    on_axes(&axes.iter().collect::<Vec<_>>(), sobol(axes.len(), count, seed))
}

/// Returns the points of the axes for points of the unit cube, each once.
fn on_axes(axes: &[&Axis], cube: Vec<Vec<f64>>) -> Vec<Point> {
    let mut seen = std::collections::BTreeSet::new();
    let point = |shares: Vec<f64>| -> Point {
        let place = |(share, axis): (f64, &&Axis)| {
            ((share * axis.len() as f64) as usize).min(axis.len() - 1)
        };
        shares.into_iter().zip(axes).map(place).collect()
    };
    cube.into_iter().map(point).filter(|point| seen.insert(point.clone())).collect()
}

pub(crate) fn grid(axes: &[Axis]) -> Result<Vec<Point>, SweepError> {
    let count = axes.iter().try_fold(1u64, |count, axis| count.checked_mul(axis.len() as u64));
    let Some(count) = count.filter(|&count| count <= MAX_POINTS) else {
        let points = axes.iter().map(|axis| axis.len().to_string()).collect::<Vec<_>>().join(" x ");
        return Err(SweepError::TooMany { points, most: MAX_POINTS });
    };
    let point = |mut at: u64| {
        let mut point: Point = vec![0; axes.len()];
        for (place, axis) in point.iter_mut().zip(axes).rev() {
            *place = (at % axis.len() as u64) as usize;
            at /= axis.len() as u64;
        }
        point
    };
    Ok((0..count).map(point).collect())
}

/// Returns `count` points of the unit cube, each coordinate somewhere in its part.
fn latin(axes: usize, count: u64, seed: u64) -> Vec<Vec<f64>> {
    let orders: Vec<Vec<u64>> = (0..axes as u64)
        .map(|axis| {
            let mut order: Vec<u64> = (0..count).collect();
            // Fisher and Yates.
            for at in (1..count).rev() {
                let other = below(draw(seed, LATIN + axis, at), at + 1);
                order.swap(at as usize, other as usize);
            }
            order
        })
        .collect();
    let within = |axis: u64, part: u64| {
        let share = below(draw(seed, PLACE + axis, part), 1 << 32) as f64 / (1u64 << 32) as f64;
        (part as f64 + share) / count as f64
    };
    let point =
        |at: usize| (0..).zip(&orders).map(|(axis, order)| within(axis, order[at])).collect();
    (0..count as usize).map(point).collect()
}

fn sobol(axes: usize, count: u64, seed: u64) -> Vec<Vec<f64>> {
    let seed = (seed ^ seed >> 32) as u32;
    let point = |at: u64| {
        (0..axes as u32)
            .map(|axis| f64::from(sobol_burley::sample(at as u32, axis, seed)))
            .collect()
    };
    (0..count).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        ["iodepth=1..1000", "scheduler=none,bfq", "bs=4k,8k,16k"]
            .map(|text| Axis::parse(text).expect("an axis"))
            .into()
    }

    #[test]
    fn a_grid_is_nested_loops() {
        let axes: Vec<Axis> = axes().into_iter().skip(1).collect();
        let points = points(&axes, Sampling::Grid, 1, None).expect("few points");
        assert_eq!(points, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    }

    /// Each of 50 parts of the first axis has one point, each half of the second 25.
    #[test]
    fn a_latin_hypercube_covers_every_axis_evenly() {
        for seed in 0..5 {
            let points = points(&axes(), Sampling::Latin(50), seed, None).expect("points");
            let mut parts: Vec<usize> = points.iter().map(|point| point[0] / 20).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..50).collect::<Vec<_>>());
            assert_eq!(points.iter().filter(|point| point[1] == 0).count(), 25);
        }
        let of = |seed| points(&axes(), Sampling::Latin(50), seed, None).expect("points");
        assert!(of(1) == of(1) && of(1) != of(2));
    }

    /// Of 64 points of Sobol's sequence, each sixteenth of an axis has four.
    #[test]
    fn sobols_sequence_fills_the_space() {
        let points = points(&axes(), Sampling::Sobol(64), 1, None).expect("points");
        assert_eq!(points.len(), 64);
        let mut parts = [0; 16];
        points.iter().for_each(|point| parts[point[0] * 16 / 1000] += 1);
        assert!(parts.iter().all(|&count| (3..=5).contains(&count)), "{parts:?}");
    }

    /// Each place on the other axes has every value of the one that is compared.
    #[test]
    fn a_sample_has_all_values_of_what_is_compared() {
        let axes = axes();
        for sampling in [Sampling::Sobol(20), Sampling::Latin(20)] {
            let points = points(&axes, sampling, 1, Some(1)).expect("points");
            assert_eq!(points.len(), 40);
            for pair in points.chunks(2) {
                assert_eq!((pair[0][1], pair[1][1]), (0, 1));
                assert_eq!((pair[0][0], pair[0][2]), (pair[1][0], pair[1][2]));
            }
        }
        let error = points(
            &[Axis::parse("iodepth=1..9000").expect("an axis"), axes[0].clone()],
            Sampling::Latin(200),
            1,
            Some(0),
        );
        assert!(error.expect_err("too many").to_string().contains("200 x 9000 points"));
    }

    #[test]
    fn a_point_is_there_once() {
        let axes: Vec<Axis> = axes().into_iter().skip(1).collect();
        let found = points(&axes, Sampling::Sobol(64), 1, None).expect("points");
        assert_eq!(found.len(), 6, "there are no more");
    }

    #[test]
    fn too_many_points_are_refused() {
        let axes = vec![
            Axis::parse("iodepth=1..2000").expect("an axis"),
            Axis::parse("nice=0..2000").expect("an axis"),
        ];
        let error = points(&axes, Sampling::Grid, 1, None).expect_err("millions").to_string();
        assert!(error.contains("2000 x 2001"), "{error}");
        for text in ["latin", "latin:0", "halton:5", "sobol:9999999"] {
            assert!(Sampling::parse(text).is_err(), "{text}");
        }
    }
}
