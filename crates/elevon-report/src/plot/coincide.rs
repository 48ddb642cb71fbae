//! Finds curves of a plot that coincide, so that they can be drawn distinctly and named.

use super::{Mark, Plot, Series};

/// Curves whose distance is below this everywhere, in units of the drawing, look like one.
const APART: f64 = 1.0;
/// Length of a dash of curves that coincide, in units of the drawing.
const DASH: usize = 9;

/// Returns groups of curves that coincide, as indices of series. A curve that coincides with no
/// other is in no group. There are no groups for bars, which are drawn side by side, or for dots,
/// which share a label. `at` maps a point to its position in the drawing. Cost: O(curves² ·
/// points²) at most.
pub(super) fn groups(plot: &Plot, at: impl Fn(f64, f64) -> (f64, f64)) -> Vec<Vec<usize>> {
    if !matches!(plot.mark, Mark::Line | Mark::Curve | Mark::Step | Mark::StepBefore) {
        return Vec::new();
    }
    let drawn: Vec<Vec<(f64, f64)>> =
        plot.series.iter().map(|series| corners(series, plot.mark, &at)).collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, line) in drawn.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let is_same = |group: &&mut Vec<usize>| {
            lies_on(line, &drawn[group[0]]) && lies_on(&drawn[group[0]], line)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Returns the corners of a curve as drawn.
fn corners(series: &Series, mark: Mark, at: &impl Fn(f64, f64) -> (f64, f64)) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in &series.points {
        let point = at(x, y);
        match (mark, out.last()) {
            (Mark::Step, Some(&(_, level))) => out.push((point.0, level)),
            (Mark::StepBefore, Some(&(before, _))) => out.push((before, point.1)),
            _ => {}
        }
        out.push(point);
    }
    out
}

/// Returns true if each corner of `line` is near `other`.
fn lies_on(line: &[(f64, f64)], other: &[(f64, f64)]) -> bool {
    line.iter().all(|&point| {
        let near_first = distance(point, other[0], other[0]) <= APART;
        near_first || other.windows(2).any(|pair| distance(point, pair[0], pair[1]) <= APART)
    })
}

/// Returns the distance of a point from the line between two others.
fn distance((px, py): (f64, f64), (ax, ay): (f64, f64), (bx, by): (f64, f64)) -> f64 {
    let (dx, dy) = (bx - ax, by - ay);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 {
        (((px - ax) * dx + (py - ay) * dy) / length).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let (x, y) = (px - ax - along * dx, py - ay - along * dy);
    (x * x + y * y).sqrt()
}

/// Returns the style of a curve in its group, so that the dashes of its curves alternate; empty if
/// it is in no group.
pub(super) fn style(groups: &[Vec<usize>], index: usize) -> String {
    let place = |group: &&Vec<usize>| group.contains(&index);
    let Some(group) = groups.iter().find(place) else { return String::new() };
    let turn = group.iter().position(|&member| member == index).unwrap_or(0);
    let (gap, shift) = (DASH * (group.len() - 1), DASH * turn);
    format!(
        " style=\"stroke-linecap:butt;stroke-dasharray:{DASH} {gap};stroke-dashoffset:-{shift}\""
    )
}

/// Returns the note for readers, such as `A to C and E coincide: their dashes take turns.`; empty
/// if there is no group.
pub(super) fn note(groups: &[Vec<usize>], series: &[Series]) -> String {
    let name = |index: usize| {
        let name = series[index].name.as_str();
        name.split_once(": ").map_or(name, |(letter, _)| letter)
    };
    let sentences = groups.iter().map(|group| {
        // Three or more adjacent letters are written as a range.
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &index in group {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => ranges.push((index, index)),
            }
        }
        let mut words: Vec<String> = Vec::new();
        for (first, last) in ranges {
            match last - first {
                0 => words.push(name(first).to_owned()),
                1 => words.extend([name(first).to_owned(), name(last).to_owned()]),
                _ => words.push(format!("{} to {}", name(first), name(last))),
            }
        }
        let last = words.pop().unwrap_or_default();
        let all = if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) };
        format!("{all} coincide: their dashes take turns.")
    });
    sentences.collect::<Vec<_>>().join(" ")
}
