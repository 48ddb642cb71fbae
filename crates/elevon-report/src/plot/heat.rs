//! A heat map: a value for each pair of two axes' values.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::axis::plain;
use super::colours::{hex, text_on};
use super::{Axis, CHARACTER, Scale, WIDTH};
use crate::markup::{escape, text};

/// Height of a row of cells.
const ROW: f64 = 22.0;
/// Space below the cells for labels, title and legend.
const BELOW: f64 = 62.0;
/// Space right of the cells.
const RIGHT: f64 = 8.0;
/// Least and largest width of the legend's bar, and its parts.
const BAR: (f64, f64) = (40.0, 120.0);
const PARTS: u32 = 24;

/// A heat map. Rows are drawn from the bottom up, as in a plot.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Heading.
    pub title: String,
    /// What the map shows, in one sentence.
    pub description: String,
    /// Title and labels of the columns.
    pub x: (String, Vec<String>),
    /// Title and labels of the rows.
    pub y: (String, Vec<String>),
    /// Values by row and column; `None` for a pair without one.
    pub cells: Vec<Vec<Option<f64>>>,
    /// What the values are, how they map to colours, and their unit.
    pub value: Axis,
}

impl HeatMap {
    /// Returns the map with heading and its values as a table that unfolds. `id` must be unique on
    /// the page.
    pub(crate) fn figure(&self, id: &str) -> Markup {
        html! {
            figure class="plot" {
                figcaption { h3 { (text(&self.title)) } p { (text(&self.description)) } }
                (PreEscaped(self.svg(id)))
                details { summary { "Numbers" } (self.table()) }
            }
        }
    }

    fn svg(&self, id: &str) -> String {
        let longest = self.y.1.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let left = 22.0 + longest as f64 * CHARACTER + 6.0;
        let columns = self.x.1.len().max(1);
        let width = (WIDTH - left - RIGHT) / columns as f64;
        let bottom = 6.0 + ROW * self.y.1.len() as f64;
        let height = bottom + BELOW;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(&self.title),
            escape(&self.description)
        );
        // All values are in one unit, which the legend names.
        let (size, _) = self.value.unit.step_for(self.ends().1);
        let words = |value: f64| plain(value / size);
        let values = self.cells.iter().flatten().flatten();
        let has_room = values.map(|value| room_of(&words(*value))).fold(0.0, f64::max) < width;
        for (row, cells) in self.cells.iter().enumerate() {
            let y = bottom - ROW * (row + 1) as f64;
            for (column, value) in cells.iter().enumerate() {
                let Some(value) = value else { continue };
                let x = left + width * column as f64;
                let share = self.share(*value);
                cell(&mut out, share, (x, y), (width - 1.0, ROW - 1.0));
                if has_room {
                    let _ = write!(
                        out,
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"fill:{}\">{}</text>",
                        x + width / 2.0,
                        y + ROW / 2.0 + 4.0,
                        text_on(share),
                        escape(&words(*value)),
                    );
                }
            }
            label(&mut out, (left - 6.0, y + ROW / 2.0 + 4.0), "end", &self.y.1[row]);
        }
        // Labels that would overlap are left out.
        let longest = self.x.1.iter().map(|label| label.chars().count()).max().unwrap_or(1);
        let every = ((longest + 1) as f64 * CHARACTER / width).ceil().max(1.0) as usize;
        for (column, name) in self.x.1.iter().enumerate().step_by(every) {
            label(&mut out, (left + width * (column as f64 + 0.5), bottom + 16.0), "middle", name);
        }
        label(&mut out, ((left + WIDTH) / 2.0, bottom + 34.0), "middle", &self.x.0);
        self.legend(&mut out, left, height - 4.0);
        let _ = write!(
            out,
            "<text transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text></svg>",
            bottom / 2.0,
            escape(&self.y.0)
        );
        out
    }

    /// Draws what the values are in, and a bar of colours between the least and the largest.
    fn legend(&self, out: &mut String, left: f64, y: f64) {
        let (least, most) = self.ends();
        let (size, unit) = self.value.unit.step_for(most);
        let title = if unit.is_empty() {
            self.value.title.clone()
        } else {
            format!("{}, {unit}", self.value.title)
        };
        label(out, (left, y), "start", &title);
        if least >= most {
            return;
        }
        let ends = [plain(least / size), plain(most / size)];
        let rest =
            WIDTH - left - RIGHT - room_of(&title) - room_of(&ends[0]) - room_of(&ends[1]) - 12.0;
        let width = rest.clamp(BAR.0, BAR.1);
        let right = WIDTH - RIGHT - room_of(&ends[1]);
        let part = width / f64::from(PARTS);
        for at in 0..PARTS {
            let place = (f64::from(at).mul_add(part, right - width), y - 9.0);
            // The parts overlap, so that no gap shows between them.
            cell(out, f64::from(at) / f64::from(PARTS - 1), place, (part + 0.5, 10.0));
        }
        label(out, (right - width - 6.0, y), "end", &ends[0]);
        label(out, (right + 6.0, y), "start", &ends[1]);
    }

    /// Returns the place of a value between the smallest and the largest, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let of = |value: f64| match self.value.scale {
            Scale::Linear => value,
            Scale::Log => libm::log(value.max(f64::MIN_POSITIVE)),
        };
        let (least, most) = self.ends();
        if most > least { (of(value) - of(least)) / (of(most) - of(least)) } else { 1.0 }
    }

    /// Returns the smallest and the largest value.
    fn ends(&self) -> (f64, f64) {
        let values = self.cells.iter().flatten().flatten();
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &value| {
            (least.min(value), most.max(value))
        })
    }

    fn table(&self) -> Markup {
        let shown = |value: &Option<f64>| {
            value.map_or_else(String::new, |value| self.value.unit.exact(value))
        };
        html! {
            div class="scroll" {
                table {
                    thead { tr { th { (text(&self.y.0)) } @for name in &self.x.1 { th { (text(name)) } } } }
                    tbody {
                        @for (name, cells) in self.y.1.iter().zip(&self.cells) {
                            tr { th { (text(name)) } @for value in cells { td { (text(&shown(value))) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Draws a rectangle in the colour of a share from 0 to 1.
fn cell(out: &mut String, share: f64, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let _ = write!(
        out,
        "<rect fill=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
        hex(share)
    );
}

/// Returns the width of a label with the space beside it.
fn room_of(label: &str) -> f64 {
    label.chars().count() as f64 * CHARACTER + 4.0
}

fn label(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(words)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Unit;

    fn map() -> HeatMap {
        HeatMap {
            title: "a < b".to_owned(),
            description: "a map".to_owned(),
            x: ("iodepth".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
            y: ("bs".to_owned(), vec!["4k".to_owned(), "8k".to_owned()]),
            cells: vec![vec![Some(1.0), Some(3.0)], vec![None, Some(2.0)]],
            value: Axis { title: "I/Os".to_owned(), scale: Scale::Linear, unit: Unit::Count },
        }
    }

    #[test]
    fn the_colour_of_a_cell_tells_its_value() {
        let fills = |map: HeatMap| -> Vec<String> {
            let svg = map.svg("m");
            let fills =
                svg.split("<rect fill=\"").skip(1).filter_map(|rest| rest.split('"').next());
            fills.map(str::to_owned).collect()
        };
        let (least, middle, most) = (hex(0.0), hex(0.5), hex(1.0));
        let linear = fills(map());
        let expected = [&least, &most, &middle];
        assert!(linear[..3].iter().eq(expected), "none for the pair without a value: {linear:?}");
        let parts = PARTS as usize;
        assert_eq!(
            (linear.len(), &linear[3], &linear[2 + parts]),
            (3 + parts, &least, &most),
            "the legend"
        );
        let value = Axis { scale: Scale::Log, ..map().value };
        let cells = vec![vec![Some(1.0), Some(100.0)], vec![None, Some(10.0)]];
        assert!(fills(HeatMap { cells, value, ..map() })[..3].iter().eq(expected));
        let svg = map().svg("m");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>"));
    }

    /// Returns the texts that stand in the middle of something above the columns' labels.
    fn cell_labels(svg: &str, bottom: f64) -> Vec<(f64, String)> {
        let texts = svg.split("<text x=\"").skip(1).filter(|text| text.contains("\"middle\""));
        let parts = texts.filter_map(|text| {
            let y: f64 = text.split("y=\"").nth(1)?.split('"').next()?.parse().ok()?;
            let words = text.split('>').nth(1)?.split('<').next()?;
            Some((text.split('"').next()?.parse().ok()?, words.to_owned())).filter(|_| y < bottom)
        });
        parts.collect()
    }

    /// Values are in one unit, and stand in their cells only if the longest of them fits.
    #[test]
    fn values_of_cells_never_touch() {
        for columns in 1..40 {
            let row: Vec<Option<f64>> =
                (0..columns).map(|at| Some(98_780_000.0 + f64::from(at) * 12_345_678.0)).collect();
            let x = ("iodepth".to_owned(), (0..columns).map(|at| at.to_string()).collect());
            let value = Axis { unit: Unit::BytesPerSecond, ..map().value };
            let svg = HeatMap { x, cells: vec![row.clone(), row], value, ..map() }.svg("m");
            let labels = cell_labels(&svg, 6.0 + 2.0 * ROW);
            assert_eq!(labels.is_empty(), columns > 9, "{columns}: {labels:?}");
            for pair in labels.windows(2).filter(|pair| pair[1].0 > pair[0].0) {
                let halves = (pair[0].1.len() + pair[1].1.len()) as f64 * CHARACTER / 2.0;
                assert!(pair[1].0 - pair[0].0 >= halves, "{columns}: {labels:?}");
            }
            assert!(labels.iter().all(|(_, words)| words.parse::<f64>().is_ok()), "{labels:?}");
            assert!(svg.contains(">I/Os, MB/s</text>"), "{svg}");
        }
    }

    #[test]
    fn equal_values_are_drawn() {
        let svg = HeatMap { cells: vec![vec![Some(5.0), Some(5.0)], vec![]], ..map() }.svg("m");
        assert_eq!(svg.matches(&format!("<rect fill=\"{}\"", hex(1.0))).count(), 2);
    }
}
